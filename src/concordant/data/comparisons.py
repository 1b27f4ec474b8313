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
from concordant.data.index import Slots, Texts, as_ids, code_experts, code_slots, freeze, join_experts
from concordant.data.vote_columns import NO_COLUMNS, VoteColumns
from concordant.errors import DataError, ParameterError, listing, quote
from concordant.kernels import lists

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Comparisons"]

# What `collapse` can keep apart.
_KEPT = {"sides", "experts", "time", "category", "covariates", "n_both_bad"}


class Comparisons(ExpertContainer):
    """Outcomes of pairs of items, by expert where experts are known.

    Parameters
    ----------
    instance : sequence of ids, or one id for all
        What the pair belongs to; a leaderboard is one instance.
    expert : sequence of ids or None
        Who compared; None if that is not known.
    left, right : sequences of ids
        The two items, in the order shown (or in any order with ``sided=False``).
    n_left, n_right, n_ties : sequences of float, optional
        How often left won, right won, and neither; counts >= 0. All None means that left won once.
    items : sequence of (instance, item), optional
        Every pair there is, a superset of those compared.
    experts : sequence of ids, optional
        The vocabulary, including experts who compare nothing.
    sided : bool
        Whether left and right are the order shown. False puts the two in code order.
    weight : sequence of float, optional
        Multiplies the row's counts.
    time : sequence of float, optional
        When each vote was given, in any unit.
    category : sequence of ids, optional
        What each vote was about, such as a language; None for a vote without a category.
    covariates : mapping, optional
        From the name of a covariate to its values, one for each row: left minus right of what differs between the
        sides, such as their lengths.
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
            w = _counts(weight, "weight", n)
            with np.errstate(over="ignore"):
                counts = [_counts(c * w, "weight times the count", n) for c in counts]
                columns = columns.scaled(w)
        for row, (a, b) in enumerate(zip(left_ids, right_ids, strict=True)):
            if a == b:
                raise DataError(
                    f"row {row} compares item {quote(a)} of instance {quote(instance_ids[row])} with itself."
                )
        # Interleaved so that first-seen order is the order in which a reader meets the items.
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
        """Return the comparisons of some rows; all items and experts stay known.

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
        """Return the comparisons of one category; all items and experts stay known.

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
        """How many rows of counts there are."""
        return len(self.left)

    @property
    def outcomes(self) -> Floats:
        """How many outcomes every row counts."""
        return self.n_left + self.n_right + self.n_ties

    @property
    def row_expert(self) -> Codes:
        """The expert code of every row; empty when nobody is named."""
        return np.zeros(0, dtype=np.int32) if self.expert is None else self.expert

    @cached_property
    def row_starts(self) -> Ints:
        """Where the rows of each instance begin."""
        if len(self) == 1:
            return freeze(np.array([0, self.n_rows]))
        return freeze(np.searchsorted(self.slots.instance[self.left], np.arange(len(self) + 1)).astype(np.int64))

    def collapse(self, *, keep: Iterable[str] = ()) -> Self:
        """Return one row per pair, counts added up; what is not kept apart is left out.

        Parameters
        ----------
        keep : names among "sides", "experts", "time", "category", "covariates", "n_both_bad"
            What rows must share to be added up: the side shown, the expert, or columns that are there.

        Examples
        --------
        >>> c = Comparisons("q", ["x", "y", "x"], ["a", "b", "b"], ["b", "a", "a"])
        >>> [(d.n_rows, d.n_left.tolist(), d.n_right.tolist()) for d in (c.collapse(), c.collapse(keep=["experts"]))]
        [(1, [1.0], [2.0]), (2, [1.0, 0.0], [1.0, 1.0])]
        """
        kept = set(keep)
        if kept - _KEPT:
            allowed = f"names among {', '.join(sorted(_KEPT))}"
            raise ParameterError.invalid("keep", "collapse", allowed, sorted(kept - _KEPT)[0])
        known = self.columns.only(kept)
        expert = self.expert if "experts" in kept else None
        sided = self.sided and "sides" in kept
        if not known.names and expert is None and not sided and self._is_collapsed:
            return self._like(experts=Texts(), expert=None, columns=NO_COLUMNS, sided=False)
        low, high, n_low, n_high = self.left, self.right, self.n_left, self.n_right
        if not sided:
            known = known.flipped(low > high)
            low, high, n_low, n_high = _in_code_order(low, high, n_low, n_high)
        key = low.astype(np.int64) * max(self.n_slots, 1) + high
        first, which = _first_rows(key)
        apart = [] if expert is None else [expert]
        apart += [v for name, v in known.arrays().items() if name in ("time", "category")]
        apart += [] if known.covariates is None else list(known.covariates.T)
        for column in apart:
            values, code = np.unique(column, return_inverse=True)
            first, which = _first_rows(which * len(values) + code)

        def total(counts: Floats) -> Floats:
            return np.bincount(which, weights=counts, minlength=len(first)).astype(np.float64)

        merged = known.take(first)
        if known.n_both_bad is not None:
            merged = merged._replace(n_both_bad=total(known.n_both_bad))
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
        """Whether there is one row per unordered pair already, in order, so that nothing needs to be sorted."""
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
        """Return the comparisons made by these experts only, in this order of the vocabulary; all items stay known."""
        wanted, new = self._selected(experts)
        rows = np.flatnonzero(new[self.row_expert] >= 0)
        selected = self._rows(rows, self.slots)
        return selected.with_experts(wanted, new[selected.row_expert])

    def scale_weights(self, factors: Mapping[Any, float]) -> Self:
        """Return the comparisons with the counts of experts multiplied by these factors; others keep theirs.

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
                raise DataError(f"no expert {quote(expert)} to weigh. Experts: {known}.")
            by_expert[codes[str(expert)]] = checked_weight(factor, expert)
        return self.multiply_counts(by_expert[self.expert])

    def cap_experts(
        self, n: int, *, keep: Literal["random", "first", "last"] = "random", random_state: int = 0
    ) -> Self:
        """Return the comparisons with at most `n` rows of each expert in each instance; all items stay known.

        Parameters
        ----------
        n : int
            How many rows, each of them a vote. Rows of counts are kept or left out as a whole.
        keep : {"random", "first", "last"}
            Which rows: drawn at random; or the first or last by time, and by their order where there are no times.
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
            raise DataError("cap_experts keeps some votes of each expert, and these votes name none.")
        if keep == "random":
            place = np.random.default_rng(random_state).random(self.n_rows)
        else:
            place = np.arange(self.n_rows, dtype=np.float64) if self.time is None else self.time
            place = place if keep == "first" else -place
        group = self.slots.instance[self.left].astype(np.int64) * max(self.n_experts, 1) + self.expert
        # Equal times keep the order of the rows, or its reverse.
        turn = np.arange(self.n_rows) if keep != "last" else -np.arange(self.n_rows)
        order = np.lexsort((turn, place, group))
        grouped = group[order]
        begins = np.flatnonzero(np.diff(grouped, prepend=-1))
        number = np.arange(self.n_rows) - np.repeat(begins, np.diff(begins, append=self.n_rows))
        return self.select_rows(np.sort(order[number < n]))

    def equal_weights(self, by: Literal["experts", "pairs"]) -> Self:
        """Return the comparisons with counts multiplied so that each expert, or each pair, weighs the same.

        The total of each instance stays the same. Without outcomes an expert or a pair has no weight.

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
        home = np.zeros(len(totals), dtype=np.int64)
        home[group] = instance
        there = totals > 0
        share = np.bincount(home, totals, len(self)) / np.maximum(np.bincount(home, there, len(self)), 1)
        factor = np.divide(share[home], totals, out=np.ones(len(totals)), where=there)
        return self.multiply_counts(factor[group])

    def discount(self, half_life: float) -> Self:
        """Return the comparisons with counts halved for every `half_life` by which a row is older than the latest.

        The latest row of each instance keeps its counts. `half_life` is in the unit of the times: seconds where dates
        were read.

        Examples
        --------
        >>> c = Comparisons("arena", None, ["a", "b", "a"], ["b", "c", "c"], time=[0, 20, 30])
        >>> c.discount(10).n_left.tolist()
        [0.125, 0.5, 1.0]
        """
        if self.time is None:
            raise DataError("the comparisons have no times, so that no row is older. Read them with time='COLUMN'.")
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

        It is 1 where only the left item is of the family of the expert, −1 where only the right one is, else 0. With
        `BradleyTerry(covariates=["self-preference"], varying=["self-preference"])` its coefficient is by how much
        experts favour their own family, and `habits_` has every expert by themselves.

        Parameters
        ----------
        families : mapping
            From an item to its family, such as the maker of a model.
        expert_families : mapping
            From an expert to the family it belongs to, such as the maker of a judging model. Experts who belong to none
            are left out of it.
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
                "with_self_preference compares items with the family of the expert, and these comparisons name no "
                "experts. Name the column that holds them."
            )
        if name in self.columns.names:
            raise DataError(f"there is a column {name!r} already. Give another name=.")
        known = {str(item): family for item, family in families.items()}
        owners = {str(expert): family for expert, family in expert_families.items()}
        of_expert = [owners.get(e) for e in self.experts.tolist()]
        strange = sorted({str(f) for f in of_expert if f is not None} - {str(f) for f in known.values()})
        if strange or not any(of_expert):
            what = f"no item is of the families {listing(strange, 5)}" if strange else "no expert belongs to a family"
            raise DataError(f"with_self_preference: {what}. Both mappings must name families alike, and experts by id.")
        code = {family: k for k, family in enumerate(dict.fromkeys(known.values()))}
        own = np.array([-1 if f is None else code[f] for f in of_expert], dtype=np.int64)[self.expert]
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

        Its columns are instance, expert (when known), left, right, n_left, n_right, n_ties, and those of `columns`.
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
        """Return several comparisons as one, ids matched; experts must be named in all parts or in none."""
        named = {p.expert is not None for p in parts}
        if len(named) > 1:
            raise DataError(
                "cannot join comparisons with experts and without. Name an expert in every part, or in none: "
                "votes.collapse() adds up the votes of all experts."
            )
        if len({p.sided for p in parts}) > 1:
            raise DataError(
                "cannot join comparisons with known sides and without. Leave the sides out of all parts: "
                "votes.collapse(), or votes.collapse(keep=['experts']) where experts are named."
            )
        slots, moved = Slots.concat([p.slots for p in parts])
        experts, expert_of = join_experts(p.experts for p in parts)
        left = np.concatenate([m[p.left] for p, m in zip(parts, moved, strict=True)]).astype(np.int32)
        right = np.concatenate([m[p.right] for p, m in zip(parts, moved, strict=True)]).astype(np.int32)
        expert = None
        if named == {True}:
            expert = np.concatenate([e[p.expert] for p, e in zip(parts, expert_of, strict=True)])
        counts = [np.concatenate([getattr(p, c) for p in parts]) for c in ("n_left", "n_right", "n_ties")]
        columns = VoteColumns.concat([p.columns for p in parts])
        if not parts[0].sided:
            # The order of codes may be another one now.
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
    """Return the first row of each different key, in the order of the keys, and the number of its key for every row."""
    distinct, which = np.unique(key, return_inverse=True)
    first = np.empty(len(distinct), dtype=np.int64)
    first[which[::-1]] = np.arange(len(key) - 1, -1, -1)
    return first, which


def _in_code_order(left: Codes, right: Codes, n_left: Floats, n_right: Floats) -> tuple[Codes, Codes, Floats, Floats]:
    """Return the pairs with the smaller code on the left, counts with them."""
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
