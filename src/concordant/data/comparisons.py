"""`Comparisons`: outcomes of pairs of items as counts of wins and ties.

A tie is stored as a tie, never as half a win; each model decides what a tie is worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.data.container import (
    ExpertContainer,
    as_values,
    checked_weight,
    counted,
    describe,
    frame_of,
    readonly,
    same,
)
from concordant.data.index import Slots, Texts, as_ids, code_experts, code_slots, freeze, join_vocabularies
from concordant.data.vote_columns import NO_COLUMNS, VoteColumns
from concordant.errors import DataError, ParameterError, listing, quote
from concordant.kernels import lists

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Comparisons"]

# The properties that `collapse` can keep.
_KEEPABLE = {"sides", "experts", "time", "category", "covariates", "n_both_bad"}


class Comparisons(ExpertContainer):
    """Outcomes of pairs of items, by expert where experts are known.

    Parameters
    ----------
    instance : sequence of ids, or one id for all
        The instance of the row, such as a query; a leaderboard is one instance.
    expert : sequence of ids or None
        The expert of the row; None if experts are not known.
    left, right : sequences of ids
        The two items, in the order shown (or in any order with ``sided=False``).
    n_left, n_right, n_ties : sequences of float, optional
        How often left won, right won and nobody won; counts >= 0. Without any of them, left won once.
    items : sequence of (instance, item), optional
        All (instance, item) pairs, including items that were never compared.
    experts : sequence of ids, optional
        The vocabulary, including experts who compare nothing.
    sided : bool
        Whether left and right are the order shown. If not, each row is stored with the smaller code on the left.
    weight : sequence of float, optional
        Multiplies the row's counts.
    time : sequence of float, optional
        When each vote was given, in any unit.
    category : sequence of ids, optional
        The category of each vote, such as a language; None for a vote without one.
    covariates : mapping, optional
        From the name of a covariate, such as length, to one value for each row: that of the left side minus that of the
        right side.
    n_both_bad : sequence of float, optional
        Outcomes in which both sides were bad, where they are kept apart from ties. No method counts them.

    Examples
    --------
    >>> c = Comparisons("arena", None, ["a", "b"], ["b", "c"], [3, 1], [1, 0], [0, 2])
    >>> c
    Comparisons: 1 instance, 3 items, 2 rows with 7 outcomes (2 ties)
    >>> c = Comparisons("arena", None, ["b", "b"], ["a", "c"], covariates={"length": [120, -30]}, category=["en", "de"])
    >>> c
    Comparisons: 1 instance, 3 items, 2 rows with 2 outcomes (0 ties)
      columns: category, length
    """

    expert: Codes | None
    left: Codes
    right: Codes
    n_left: Floats
    n_right: Floats
    n_ties: Floats
    columns: VoteColumns
    sided: bool

    def __init__(
        self,
        instance: Iterable[Any] | str,
        expert: Iterable[Any] | None,
        left: Iterable[Any],
        right: Iterable[Any],
        n_left: Any = None,
        n_right: Any = None,
        n_ties: Any = None,
        *,
        items: Iterable[tuple[Any, Any]] | None = None,
        experts: Iterable[Any] | None = None,
        sided: bool = True,
        weight: Any = None,
        time: Any = None,
        category: Iterable[Any] | None = None,
        covariates: Mapping[str, Any] | None = None,
        n_both_bad: Any = None,
    ) -> None:
        left_ids, right_ids = as_ids(left, "left item"), as_ids(right, "right item")
        n = len(left_ids)
        instance_ids = [instance] * n if isinstance(instance, str) else as_ids(instance, "instance")
        expert_ids = None if expert is None else as_ids(expert, "expert")
        if not n == len(right_ids) == len(instance_ids) or (expert_ids is not None and len(expert_ids) != n):
            named = "" if expert_ids is None else f", {len(expert_ids)} experts"
            raise DataError(
                "the id columns differ in length: "
                f"{len(instance_ids)} instances, {n} left, {len(right_ids)} right{named}."
            )
        if n_left is n_right is n_ties is n_both_bad is None:
            n_left = np.ones(n)
        counts = [
            np.zeros(n) if c is None else _counts(c, what, n)
            for c, what in ((n_left, "n_left"), (n_right, "n_right"), (n_ties, "n_ties"))
        ]
        columns = VoteColumns.of(
            n, as_values, _counts, time=time, category=category, covariates=covariates, n_both_bad=n_both_bad
        )
        if weight is not None:
            factor = _counts(weight, "weight", n)
            with np.errstate(over="ignore"):
                counts = [_counts(c * factor, "weight times the count", n) for c in counts]
                columns = columns.scaled(factor)
        for row, (a, b) in enumerate(zip(left_ids, right_ids, strict=True)):
            if a == b:
                raise DataError(
                    f"row {row} compares item {quote(a)} of instance {quote(instance_ids[row])} with itself."
                )
        # Interleaved, so that items are numbered in reading order.
        both = [i for pair in zip(left_ids, right_ids, strict=True) for i in pair]
        slots, slot = code_slots([q for q in instance_ids for _ in (0, 1)], both, items)
        codes, vocabulary = (
            (None, Texts(as_ids(experts, "expert")))
            if expert_ids is None and experts is not None
            else ((None, Texts()) if expert_ids is None else code_experts(expert_ids, experts))
        )
        rows = np.argsort(slots.instance[slot[::2]], kind="stable") if n else np.zeros(0, np.int64)
        left_slot, right_slot = slot[::2][rows], slot[1::2][rows]
        n_left, n_right, n_ties = (c[rows] for c in counts)
        columns = columns.take(rows)
        if not sided:
            columns = columns.flipped(left_slot > right_slot)
            left_slot, right_slot, n_left, n_right = _in_code_order(left_slot, right_slot, n_left, n_right)
        expert_code = None if codes is None else codes[rows]
        self._set(slots, vocabulary, expert_code, left_slot, right_slot, n_left, n_right, n_ties, columns, sided)

    @classmethod
    def from_codes(
        cls,
        slots: Slots,
        experts: Texts,
        expert: Codes | None,
        left: Codes,
        right: Codes,
        n_left: Floats,
        n_right: Floats,
        n_ties: Floats,
        *,
        sided: bool,
        columns: VoteColumns = NO_COLUMNS,
    ) -> Self:
        """Return comparisons over ready-made codes, rows ordered by instance. Nothing is copied or checked."""
        out = cls.__new__(cls)
        out._set(slots, experts, expert, left, right, n_left, n_right, n_ties, columns, sided)
        return out

    def _set(
        self,
        slots: Slots,
        experts: Texts,
        expert: Codes | None,
        left: Codes,
        right: Codes,
        n_left: Floats,
        n_right: Floats,
        n_ties: Floats,
        columns: VoteColumns,
        sided: bool,
    ) -> None:
        self.__dict__.update(
            slots=slots,
            experts=experts,
            expert=readonly(expert),
            left=freeze(left),
            right=freeze(right),
            n_left=freeze(n_left),
            n_right=freeze(n_right),
            n_ties=freeze(n_ties),
            columns=columns.frozen(),
            sided=sided,
        )

    def _like(self, **changed: Any) -> Self:
        """Return comparisons with some of the arguments of `from_codes` changed."""
        names = ("slots", "experts", "expert", "left", "right", "n_left", "n_right", "n_ties", "columns", "sided")
        return self.from_codes(**{name: getattr(self, name) for name in names} | changed)

    def with_counts(self, n_left: Floats, n_right: Floats, n_ties: Floats) -> Self:
        """Return the same rows with other counts. Nothing is copied or checked."""
        return self._like(n_left=n_left, n_right=n_right, n_ties=n_ties)

    def multiply_counts(self, factor: Floats) -> Self:
        """Return the same rows with all counts of each row multiplied. Nothing is checked."""
        counts = {name: getattr(self, name) * factor for name in ("n_left", "n_right", "n_ties")}
        return self._like(**counts, columns=self.columns.scaled(factor))

    def with_experts(self, experts: Texts, expert: Codes) -> Self:
        """Return the same rows with other experts. Nothing is copied or checked."""
        return self._like(experts=experts, expert=expert)

    def with_columns(self, columns: VoteColumns) -> Self:
        """Return the same rows with other columns. Nothing is copied or checked."""
        return self._like(columns=columns)

    def without_columns(self) -> Self:
        """Return the comparisons without time, category, covariates and counts of both bad."""
        return self._like(columns=NO_COLUMNS)

    @property
    def time(self) -> Floats | None:
        """When each row's votes were given, or None."""
        return self.columns.time

    @property
    def categories(self) -> Texts:
        """The categories of the rows, as first seen; empty where rows have none."""
        return self.columns.categories

    @property
    def covariates(self) -> Floats:
        """Left minus right of each covariate, one row for each row of counts."""
        known = self.columns.covariates
        return np.zeros((self.n_rows, 0)) if known is None else known

    @property
    def covariate_names(self) -> Texts:
        """The names of the covariates."""
        return self.columns.covariate_names

    def select_rows(self, rows: Any) -> Self:
        """Return the comparisons of some rows; all items and experts remain.

        Parameters
        ----------
        rows : bool[n_rows] or sequence of int
            A mask, or increasing row numbers.

        Examples
        --------
        >>> c = Comparisons("arena", None, ["a", "b"], ["b", "c"], time=[1, 2])
        >>> c.select_rows(c.time > 1).n_rows
        1
        """
        index = np.asarray(rows)
        if index.dtype == np.bool_:
            if index.shape != (self.n_rows,):
                raise DataError(f"the mask has shape {index.shape}, the comparisons have {self.n_rows} rows.")
            index = np.flatnonzero(index)
        index = index.astype(np.int64)
        inside = not len(index) or (index[0] >= 0 and index[-1] < self.n_rows)
        if index.ndim != 1 or not inside or (np.diff(index) < 0).any():
            raise DataError(f"row numbers must increase from 0 to less than {self.n_rows}.")
        return self._rows(index, self.slots)

    def select_category(self, category: Any) -> Self:
        """Return the comparisons of one category; all items and experts remain.

        Examples
        --------
        >>> c = Comparisons("arena", None, ["a", "b"], ["b", "c"], category=["en", "de"])
        >>> c.select_category("de").n_rows
        1
        """
        code = self.categories.codes.get(str(category))
        if code is None or self.columns.category is None:
            known = listing(self.categories.tolist(), 20) if len(self.categories) else "none"
            raise DataError(f"no category {quote(category)}. Categories: {known}.")
        return self.select_rows(self.columns.category == code)

    @property
    def n_rows(self) -> int:
        """The number of rows of counts."""
        return len(self.left)

    @property
    def outcomes(self) -> Floats:
        """The number of outcomes of each row."""
        return self.n_left + self.n_right + self.n_ties

    @property
    def row_expert(self) -> Codes:
        """The expert code of each row; empty if experts are not known."""
        return np.zeros(0, dtype=np.int32) if self.expert is None else self.expert

    @cached_property
    def row_starts(self) -> Ints:
        """The offsets of the rows of each instance."""
        if len(self) == 1:
            return freeze(np.array([0, self.n_rows]))
        return freeze(np.searchsorted(self.slots.instance[self.left], np.arange(len(self) + 1)).astype(np.int64))

    def collapse(self, *, keep: Iterable[str] = ()) -> Self:
        """Return one row for each pair, and for each different value of the properties in `keep`, with counts added up.

        Properties that are not in `keep` are dropped.

        Parameters
        ----------
        keep : names among "sides", "experts", "time", "category", "covariates", "n_both_bad"
            The properties to keep. Rows are added up only if they agree in these; "n_both_bad" is added up itself.

        Examples
        --------
        >>> c = Comparisons("q", ["x", "y", "x"], ["a", "b", "b"], ["b", "a", "a"])
        >>> [(d.n_rows, d.n_left.tolist(), d.n_right.tolist()) for d in (c.collapse(), c.collapse(keep=["experts"]))]
        [(1, [1.0], [2.0]), (2, [1.0, 0.0], [1.0, 1.0])]
        """
        kept = set(keep)
        if kept - _KEEPABLE:
            allowed = f"names among {', '.join(sorted(_KEEPABLE))}"
            raise ParameterError.invalid("keep", "collapse", allowed, sorted(kept - _KEEPABLE)[0])
        kept_optional = self.columns.only(kept)
        expert = self.expert if "experts" in kept else None
        sided = self.sided and "sides" in kept
        if not kept_optional.names and expert is None and not sided and self._is_collapsed:
            return self._like(experts=Texts(), expert=None, columns=NO_COLUMNS, sided=False)
        low, high, n_low, n_high = self.left, self.right, self.n_left, self.n_right
        if not sided:
            kept_optional = kept_optional.flipped(low > high)
            low, high, n_low, n_high = _in_code_order(low, high, n_low, n_high)
        key = low.astype(np.int64) * max(self.n_slots, 1) + high
        first, group = _first_rows(key)
        kept_columns = [] if expert is None else [expert]
        kept_columns += [v for name, v in kept_optional.arrays().items() if name in ("time", "category")]
        kept_columns += [] if kept_optional.covariates is None else list(kept_optional.covariates.T)
        for column in kept_columns:
            values, code = np.unique(column, return_inverse=True)
            first, group = _first_rows(group * len(values) + code)

        def total(counts: Floats) -> Floats:
            return np.bincount(group, weights=counts, minlength=len(first)).astype(np.float64)

        merged = kept_optional.take(first)
        if kept_optional.n_both_bad is not None:
            merged = merged._replace(n_both_bad=total(kept_optional.n_both_bad))
        return self.from_codes(
            self.slots,
            Texts() if expert is None else self.experts,
            None if expert is None else expert[first],
            low[first],
            high[first],
            total(n_low),
            total(n_high),
            total(self.n_ties),
            sided=sided,
            columns=merged,
        )

    @property
    def _is_collapsed(self) -> bool:
        """Whether the rows are already sorted, with one row for each unordered pair."""
        if (self.left > self.right).any():
            return False
        key = self.left.astype(np.int64)
        key *= max(self.n_slots, 1)
        key += self.right
        return bool((key[1:] > key[:-1]).all())

    def _rows(self, rows: Any, slots: Slots, shift: Any = 0) -> Self:
        return self._like(
            slots=slots,
            expert=None if self.expert is None else self.expert[rows],
            left=(self.left[rows] + shift).astype(np.int32),
            right=(self.right[rows] + shift).astype(np.int32),
            n_left=self.n_left[rows],
            n_right=self.n_right[rows],
            n_ties=self.n_ties[rows],
            columns=self.columns.take(rows),
        )

    def select_experts(self, experts: Sequence[Any]) -> Self:
        """Return the comparisons of these experts, in this order; all items remain."""
        wanted, new = self._selected(experts)
        rows = np.flatnonzero(new[self.row_expert] >= 0)
        selected = self._rows(rows, self.slots)
        return selected.with_experts(wanted, new[selected.row_expert])

    def scale_weights(self, factors: Mapping[Any, float]) -> Self:
        """Return the comparisons with the counts of some experts multiplied by factors.

        Parameters
        ----------
        factors : mapping
            From expert to a number >= 0.

        Examples
        --------
        >>> c = Comparisons("arena", ["x", "y"], ["a", "b"], ["b", "c"], [3, 1])
        >>> c.scale_weights({"x": 2}).n_left.tolist()
        [6.0, 1.0]
        """
        if not factors:
            return self
        codes = {} if self.expert is None else self.experts.codes
        by_expert = np.ones(self.n_experts)
        for expert, factor in factors.items():
            if str(expert) not in codes:
                known = listing(self.experts.tolist(), 20) if codes else "none, the comparisons name no experts"
                raise DataError(f"unknown expert {quote(expert)} in the weights. Experts: {known}.")
            by_expert[codes[str(expert)]] = checked_weight(factor, expert)
        return self.multiply_counts(by_expert[self.expert])

    def cap_experts(
        self, n: int, *, keep: Literal["random", "first", "last"] = "random", random_state: int = 0
    ) -> Self:
        """Return the comparisons with at most `n` rows of each expert in each instance; all items remain.

        Parameters
        ----------
        n : int
            The number of rows. A row with several outcomes is kept or left out as a whole.
        keep : {"random", "first", "last"}
            Random rows, or the first or last ones by time; without times, by their order.
        random_state : int
            Seed of the draw.

        Examples
        --------
        >>> c = Comparisons("arena", ["x", "x", "x", "y"], ["a", "b", "a", "a"], ["b", "c", "c", "b"])
        >>> [c.cap_experts(2, keep=how).left.tolist() for how in ("first", "last")]
        [[0, 1, 0], [1, 0, 0]]
        """
        if isinstance(n, bool) or not isinstance(n, Integral) or n < 1:
            raise ParameterError.invalid("n", "cap_experts", "a whole number >= 1", n)
        if keep not in ("random", "first", "last"):
            raise ParameterError.invalid("keep", "cap_experts", "'random', 'first' or 'last'", keep)
        if self.expert is None:
            raise DataError(
                "cap_experts needs experts, and these votes name none. Read them with the column of experts."
            )
        if keep == "random":
            priority = np.random.default_rng(random_state).random(self.n_rows)
        else:
            priority = np.arange(self.n_rows, dtype=np.float64) if self.time is None else self.time
            priority = priority if keep == "first" else -priority
        group = self.slots.instance[self.left].astype(np.int64) * max(self.n_experts, 1) + self.expert
        # Rows with equal times are taken in their order, or in reverse.
        tie_break = np.arange(self.n_rows) if keep != "last" else -np.arange(self.n_rows)
        order = np.lexsort((tie_break, priority, group))
        grouped = group[order]
        group_starts = np.flatnonzero(np.diff(grouped, prepend=-1))
        place = np.arange(self.n_rows) - np.repeat(group_starts, np.diff(group_starts, append=self.n_rows))
        return self.select_rows(np.sort(order[place < n]))

    def equal_weights(self, by: Literal["experts", "pairs"]) -> Self:
        """Return the comparisons with counts rescaled so that each expert, or each pair, has the same total.

        The total of each instance stays the same. Experts and pairs without outcomes are ignored.

        Examples
        --------
        >>> c = Comparisons("arena", ["x", "x", "x", "y"], ["a", "b", "a", "a"], ["b", "c", "c", "b"])
        >>> c.equal_weights("experts").n_left.round(3).tolist()
        [0.667, 0.667, 0.667, 2.0]
        """
        instance = self.slots.instance[self.left].astype(np.int64)
        if by == "experts":
            if self.expert is None:
                raise DataError("equal_weights(by='experts') needs experts, and these votes name none.")
            group = instance * max(self.n_experts, 1) + self.expert
        elif by == "pairs":
            low, high = np.minimum(self.left, self.right), np.maximum(self.left, self.right)
            group = low.astype(np.int64) * max(self.n_slots, 1) + high
        else:
            raise ParameterError.invalid("by", "equal_weights", "'experts' or 'pairs'", by)
        _, group = np.unique(group, return_inverse=True)
        totals = np.bincount(group, self.outcomes)
        instance_of_group = np.zeros(len(totals), dtype=np.int64)
        instance_of_group[group] = instance
        has_votes = totals > 0
        target = np.bincount(instance_of_group, totals, len(self)) / np.maximum(
            np.bincount(instance_of_group, has_votes, len(self)), 1
        )
        factor = np.divide(target[instance_of_group], totals, out=np.ones(len(totals)), where=has_votes)
        return self.multiply_counts(factor[group])

    def discount(self, half_life: float) -> Self:
        """Return the comparisons with counts that decay with age: a row that is `half_life` older counts half.

        The latest row of each instance keeps its counts. `half_life` is in the unit of the times: seconds if they were
        read from dates.

        Examples
        --------
        >>> c = Comparisons("arena", None, ["a", "b", "a"], ["b", "c", "c"], time=[0, 20, 30])
        >>> c.discount(10).n_left.tolist()
        [0.125, 0.5, 1.0]
        """
        if self.time is None:
            raise DataError("the comparisons have no times, which half_life needs. Read them with time='COLUMN'.")
        if not half_life > 0:
            raise ParameterError.invalid("half_life", "discount", "a number > 0", half_life)
        latest = np.full(len(self), -np.inf)
        instance = self.slots.instance[self.left]
        np.maximum.at(latest, instance, self.time)
        return self.multiply_counts(np.exp2((self.time - latest[instance]) / half_life))

    def with_self_preference(
        self, families: Mapping[Any, str], expert_families: Mapping[Any, str], *, name: str = "self-preference"
    ) -> Self:
        """Return the comparisons with one more covariate: whether an item is of the expert's own family.

        It is 1 if only the left item is of the family of the expert, −1 if only the right one is, else 0. With
        `BradleyTerry(covariates=["self-preference"], varying=["self-preference"])` its coefficient is the mean
        preference of experts for their own family, and `habits_` has the preference of each expert.

        Parameters
        ----------
        families : mapping
            From an item to its family, such as the maker of a model.
        expert_families : mapping
            From an expert to its family, such as the maker of a judging model. Leave out experts without a family.
        name : str
            The name of the covariate.

        Examples
        --------
        >>> votes = Comparisons("arena", ["gpt-judge", "ann"], ["gpt", "gpt"], ["llama", "llama"])
        >>> makers = {"gpt": "openai", "llama": "meta"}
        >>> votes.with_self_preference(makers, {"gpt-judge": "openai"}).covariates[:, 0].tolist()
        [1.0, 0.0]
        """
        if self.expert is None:
            raise DataError(
                "with_self_preference needs the expert of each vote, and these comparisons name no experts. Read the "
                "votes with the column of experts."
            )
        if name in self.columns.names:
            raise DataError(f"the comparisons already have a column {name!r}. Choose another name=.")
        known = {str(item): family for item, family in families.items()}
        owners = {str(expert): family for expert, family in expert_families.items()}
        expert_family = [owners.get(e) for e in self.experts.tolist()]
        unknown = sorted({str(f) for f in expert_family if f is not None} - {str(f) for f in known.values()})
        if unknown or not any(expert_family):
            what = f"no item is of the families {listing(unknown, 5)}" if unknown else "no expert belongs to a family"
            raise DataError(
                f"with_self_preference: {what}. Use the same names of families in both mappings, and the "
                "ids of experts."
            )
        code = {family: k for k, family in enumerate(dict.fromkeys(known.values()))}
        own = np.array([-1 if f is None else code[f] for f in expert_family], dtype=np.int64)[self.expert]
        slot = np.array([code[known[i]] if i in known else -2 for i in self.items.tolist()], dtype=np.int64)
        column = (slot[self.left] == own).astype(np.float64) - (slot[self.right] == own)
        columns = self.columns._replace(
            covariates=np.column_stack([self.covariates, column]),
            covariate_names=Texts([*self.covariate_names.tolist(), name]),
        )
        return self._like(columns=columns)

    def _take(self, index: Ints) -> Self:
        slots, _ = self.slots.take(index)
        starts, ends = self.row_starts[index], self.row_starts[index + 1]
        shift = np.repeat(slots.offsets[:-1] - self.slots.offsets[index], ends - starts)
        return self._rows(lists.ranges(starts, ends), slots, shift)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Comparisons):
            return NotImplemented
        columns = ("expert", "left", "right", "n_left", "n_right", "n_ties")
        return (
            self.sided == other.sided
            and self.experts == other.experts
            and all(same(getattr(self, c), getattr(other, c)) for c in columns)
            and self.columns.names == other.columns.names
            and self.columns.categories == other.columns.categories
            and all(same(a, getattr(other.columns, c)) for c, a in self.columns.arrays().items())
            and self.slots == other.slots
        )

    def __repr__(self) -> str:
        total = self.n_left.sum() + self.n_right.sum() + self.n_ties.sum()
        parts = [counted(self.n_instances, "instance")]
        if self.n_experts:
            parts.append(counted(self.n_experts, "expert"))
        parts += [
            counted(self.n_slots, "item"),
            f"{counted(self.n_rows, 'row')} with {total:,.10g} outcomes ({self.n_ties.sum():,.10g} ties)",
        ]
        lines = [", ".join(parts)]
        if self.columns.names:
            lines.append(f"columns: {', '.join(self.columns.names)}")
        return describe("Comparisons", lines)

    def to_frame(self) -> pl.DataFrame:
        """Return the rows as a Polars frame.

        Columns: instance, expert (if known), left, right, n_left, n_right, n_ties, and the optional ones.
        """
        columns: dict[str, Any] = {"instance": (self.instances, self.slots.instance[self.left])}
        if self.expert is not None:
            columns["expert"] = (self.experts, self.expert)
        columns |= {
            "left": (self.items, self.left),
            "right": (self.items, self.right),
            "n_left": self.n_left,
            "n_right": self.n_right,
            "n_ties": self.n_ties,
        }
        given = self.columns.arrays()
        columns |= {name: given[name] for name in ("n_both_bad", "time") if name in given}
        if "category" in given:
            columns["category"] = (self.categories, given["category"])
        columns |= {name: self.covariates[:, j] for j, name in enumerate(self.covariate_names)}
        return frame_of(columns)

    @staticmethod
    def concat(parts: Sequence[Comparisons]) -> Comparisons:
        """Return several comparisons as one, matched by id; all parts must name experts, or none."""
        named = {p.expert is not None for p in parts}
        if len(named) > 1:
            raise DataError(
                "cannot join comparisons with experts and without. Name experts in every part, or in none: "
                "votes.collapse() drops them."
            )
        if len({p.sided for p in parts}) > 1:
            raise DataError(
                "cannot join comparisons with known sides and without. Leave the sides out of all parts: "
                "votes.collapse(), or votes.collapse(keep=['experts']) where experts are named."
            )
        slots, new_slots = Slots.concat([p.slots for p in parts])
        experts, expert_of = join_vocabularies(p.experts for p in parts)
        left = np.concatenate([m[p.left] for p, m in zip(parts, new_slots, strict=True)]).astype(np.int32)
        right = np.concatenate([m[p.right] for p, m in zip(parts, new_slots, strict=True)]).astype(np.int32)
        expert = None
        if named == {True}:
            expert = np.concatenate([e[p.expert] for p, e in zip(parts, expert_of, strict=True)])
        counts = [np.concatenate([getattr(p, c) for p in parts]) for c in ("n_left", "n_right", "n_ties")]
        columns = VoteColumns.concat([p.columns for p in parts])
        if not parts[0].sided:
            # The codes of the joined parts may be in another order.
            columns = columns.flipped(left > right)
            left, right, counts[0], counts[1] = _in_code_order(left, right, counts[0], counts[1])
        rows = np.argsort(slots.instance[left], kind="stable")
        return Comparisons.from_codes(
            slots,
            experts,
            None if expert is None else expert[rows],
            left[rows],
            right[rows],
            counts[0][rows],
            counts[1][rows],
            counts[2][rows],
            sided=parts[0].sided,
            columns=columns.take(rows),
        )


def _first_rows(key: Ints) -> tuple[Ints, Ints]:
    """Return the first row of each distinct key, in the order of the keys, and the index of the key of every row."""
    distinct, key_index = np.unique(key, return_inverse=True)
    first = np.empty(len(distinct), dtype=np.int64)
    first[key_index[::-1]] = np.arange(len(key) - 1, -1, -1)
    return first, key_index


def _in_code_order(left: Codes, right: Codes, n_left: Floats, n_right: Floats) -> tuple[Codes, Codes, Floats, Floats]:
    """Return the pairs with the smaller code on the left, and their counts in the same order."""
    flip = left > right
    return (
        np.where(flip, right, left),
        np.where(flip, left, right),
        np.where(flip, n_right, n_left),
        np.where(flip, n_left, n_right),
    )


def _counts(values: Any, what: str, n: int) -> Floats:
    out = as_values(values, what, n)
    if n and out.min() < 0:
        row = int(np.argmin(out))
        raise DataError(f"{what} in row {row} must be >= 0. Got {out[row]:g} instead.")
    return out
