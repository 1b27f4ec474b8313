"""`Preferences`: ranks, scores or ratings of items by experts, stored as lists of integer codes.

A list holds the items that one expert ranks in one instance. Ranks, scores and ratings share the same columns and
differ only in `kind`, so that every method sees one form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Bools, Codes, Floats, Ints
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
from concordant.data.duplicates import check_duplicates, duplicate_rows
from concordant.data.index import Slots, Texts, as_ids, code_experts, code_slots, freeze, join_vocabularies
from concordant.errors import DataError, DuplicateError, KindError, ParameterError, listing, quote
from concordant.kernels import lists

if TYPE_CHECKING:
    import polars as pl

    from concordant.data.comparisons import Comparisons

__all__ = ["Kind", "Missing", "Preferences", "check_missing", "check_ties", "is_below"]

Kind = Literal["rank", "score", "rating"]
KINDS = ("rank", "score", "rating")
# Whether the items that a list leaves out are unknown, or ranked below the listed ones.
Missing = Literal["unknown", "below"]
MISSING = ("unknown", "below")


def check_ties(ties: str, owner: str) -> str:
    """Return the tie policy, or raise ParameterError if it is unknown."""
    if ties not in lists.TIES:
        raise ParameterError.invalid("ties", owner, f"one of {', '.join(map(repr, lists.TIES))}", ties)
    return ties


def check_missing(missing: Any, owner: str, allowed: tuple[str, ...] = MISSING) -> None:
    """Raise ParameterError if `missing` is not one of the allowed words."""
    if not isinstance(missing, str) or missing not in allowed:
        raise ParameterError.invalid("missing", owner, f"one of {', '.join(map(repr, allowed))}", missing)


def is_below(missing: Missing, owner: str) -> bool:
    """Return whether `missing` is "below"; raise for unknown words."""
    check_missing(missing, owner)
    return missing == "below"


def _compact(below: bool | Bools) -> bool | Bools:
    """Return a single value if all instances agree; False without instances."""
    if isinstance(below, bool):
        return below
    some = bool(below.any())
    return some if not some or below.all() else freeze(below)


class Preferences(ExpertContainer):
    """Orderings of items by experts, instance by instance.

    Parameters
    ----------
    instance, expert, item : sequences of ids
        One entry per row; whole numbers are converted to text.
    value : sequence of float
        The rank (1 = best), score or rating (larger is better) that the expert gives the item.
    kind : {"rank", "score", "rating"}
        What `value` is. One kind per container.
    weight : sequence of float or mapping, optional
        Trust given by the user, >= 0: one entry per row (equal within an instance and expert), or a mapping from an
        expert, or a pair (instance, expert), to a number. A ballot cast by three voters has weight 3.
    items : sequence of (instance, item), optional
        All (instance, item) pairs, in input order, including items that nobody ranked.
    experts : sequence of ids, optional
        The vocabulary, including experts who rank nothing.
    duplicates : {"error", "best", "first"}
        What to do when an expert ranks an item twice in an instance.
    missing : {"unknown", "below"}
        What the absence of an item from a list means: nothing, or that the item is worse than all listed ones, as in
        lists that were cut off. Methods with ``missing="auto"`` follow this. `with_missing` sets it for single
        instances.

    Notes
    -----
    An item that an expert did not rank has no row. Within a list rows keep their input order; lists are ordered by
    instance, then expert.

    Examples
    --------
    >>> p = Preferences(["q"] * 3, ["x", "x", "y"], ["a", "b", "b"], [1, 2, 1])
    >>> p
    Preferences: 1 instance, 2 experts, 2 items, 3 ranks in 2 lists
    >>> p.positions().tolist()
    [1.0, 2.0, 1.0]
    """

    kind: Kind
    list_expert: Codes
    list_offsets: Ints
    list_starts: Ints
    list_weight: Floats | None
    slot: Codes
    value: Floats
    # Whether missing items are below: one value for all instances, or one for each if they differ.
    _below: bool | Bools

    def __init__(
        self,
        instance: Iterable[Any],
        expert: Iterable[Any],
        item: Iterable[Any],
        value: Any,
        *,
        kind: Kind = "rank",
        weight: Any = None,
        items: Iterable[tuple[Any, Any]] | None = None,
        experts: Iterable[Any] | None = None,
        duplicates: str = "error",
        missing: Missing = "unknown",
    ) -> None:
        if kind not in KINDS:
            raise ParameterError.invalid("kind", "Preferences", f"one of {', '.join(map(repr, KINDS))}", kind)
        check_duplicates(duplicates, "Preferences")
        instance_ids, expert_ids, item_ids = (
            as_ids(instance, "instance"),
            as_ids(expert, "expert"),
            as_ids(item, "item"),
        )
        n = len(instance_ids)
        if not n == len(expert_ids) == len(item_ids):
            raise DataError(
                f"the id columns differ in length: {n} instances, {len(expert_ids)} experts, {len(item_ids)} items."
            )
        values = as_values(value, kind, n)
        if kind == "rank" and n and values.min() < 1:
            row = int(np.argmin(values))
            raise DataError(
                f"ranks begin at 1 (best). Got {values[row]:g} for item {quote(item_ids[row])} by "
                f"{quote(expert_ids[row])} in instance {quote(instance_ids[row])}. Leave out unranked items; "
                "for scores pass kind='score'."
            )
        slots, slot = code_slots(instance_ids, item_ids, items)
        expert_code, vocabulary = code_experts(expert_ids, experts)
        columns, rows, starts = _group_rows(slots, vocabulary, slot, expert_code, values, kind, duplicates)
        self._set(list_weight=None, _below=is_below(missing, "Preferences"), **columns)
        if weight is not None:
            self.__dict__["list_weight"] = freeze(self._code_weights(weight, n, rows, starts))

    @classmethod
    def from_codes(
        cls,
        slots: Slots,
        experts: Texts,
        list_expert: Codes,
        list_offsets: Ints,
        list_starts: Ints,
        slot: Codes,
        value: Floats,
        *,
        kind: Kind,
        list_weight: Floats | None = None,
        below: bool | Bools = False,
    ) -> Self:
        """Return preferences over ready-made codes. Nothing is copied or checked."""
        out = cls.__new__(cls)
        out._set(slots, experts, list_expert, list_offsets, list_starts, slot, value, kind, list_weight, below)
        return out

    def _set(
        self,
        slots: Slots,
        experts: Texts,
        list_expert: Codes,
        list_offsets: Ints,
        list_starts: Ints,
        slot: Codes,
        value: Floats,
        kind: Kind,
        list_weight: Floats | None,
        _below: bool | Bools,
    ) -> None:
        self.__dict__.update(
            slots=slots,
            experts=experts,
            list_expert=freeze(list_expert),
            list_offsets=freeze(list_offsets),
            list_starts=freeze(list_starts),
            slot=freeze(slot),
            value=freeze(value),
            kind=kind,
            list_weight=readonly(list_weight),
            _below=_compact(_below),
        )

    def _code_weights(self, weight: Any, n: int, rows: Ints, starts: Ints) -> Floats:
        """Return one weight per list, from a column of rows or a mapping."""
        if isinstance(weight, Mapping):
            return self._map_weights(weight)
        column = as_values(weight, "weight", n)[rows]
        out = column[starts]
        _check_weights(out, self)
        self._check_one_weight(column)
        return out

    def _check_one_weight(self, column: Floats) -> None:
        """Raise when the weights of rows differ within a list."""
        differs = column != column[self.list_offsets[self.row_list]] if self.n_rows else np.zeros(0, dtype=np.bool_)
        if differs.any():
            list_index = int(self.row_list[int(np.flatnonzero(differs)[0])])
            expert, instance = self._list_name(list_index)
            raise DataError(
                f"expert {quote(expert)} has two weights in instance {quote(instance)}. Give all rows of a list "
                "the same weight."
            )

    def _map_weights(self, weights: Mapping[Any, float]) -> Floats:
        """Return one weight per list; the weight of (instance, expert) takes precedence over that of the expert."""
        codes, instance_codes = self.experts.codes, self.instances.codes
        by_expert = np.ones(self.n_experts)
        by_pair: dict[tuple[int, int], float] = {}
        for key, weight in weights.items():
            instance, expert = key if isinstance(key, tuple) and len(key) == 2 else (None, key)
            if str(expert) not in codes:
                raise DataError(
                    f"unknown expert {quote(expert)} in the weights. Experts: {listing(self.experts.tolist(), 20)}."
                )
            weight = checked_weight(weight, key)
            if instance is None:
                by_expert[codes[str(expert)]] = weight
            elif str(instance) in instance_codes:
                by_pair[instance_codes[str(instance)], codes[str(expert)]] = weight
            else:
                raise DataError(f"unknown instance {quote(instance)} in the weights, for expert {quote(expert)}.")
        out = by_expert[self.list_expert]
        if by_pair:
            lists_of = zip(self.list_instance.tolist(), self.list_expert.tolist(), strict=True)
            for list_index, pair in enumerate(lists_of):
                out[list_index] = by_pair.get(pair, out[list_index])
        return out

    @property
    def n_rows(self) -> int:
        """The number of (instance, expert, item) rows."""
        return len(self.slot)

    @property
    def n_lists(self) -> int:
        """The number of lists, that is of pairs (instance, expert) with a row."""
        return len(self.list_expert)

    @cached_property
    def list_lengths(self) -> Ints:
        """The number of items of each list."""
        return freeze(self.list_offsets[1:] - self.list_offsets[:-1])

    @cached_property
    def list_instance(self) -> Codes:
        """The instance code of every list."""
        return freeze(lists.list_ids(self.list_starts))

    @cached_property
    def row_list(self) -> Codes:
        """The index of the list of every row."""
        return freeze(lists.list_ids(self.list_offsets))

    @property
    def row_expert(self) -> Codes:
        """The expert code of every row."""
        return np.repeat(self.list_expert, self.list_lengths)

    @property
    def row_weight(self) -> Floats | None:
        """The weight of every row, or None if all are 1."""
        return None if self.list_weight is None else np.repeat(self.list_weight, self.list_lengths)

    @property
    def weights(self) -> Floats:
        """The weight of every list."""
        return np.ones(self.n_lists) if self.list_weight is None else self.list_weight

    @property
    def missing(self) -> Literal["unknown", "below", "mixed"]:
        """Whether missing items are "unknown" or "below" in all instances, or "mixed"."""
        return "mixed" if not isinstance(self._below, bool) else "below" if self._below else "unknown"

    def below(self, missing: str = "auto") -> Bools:
        """Return for every instance whether items missing from a list are below its items.

        Parameters
        ----------
        missing : {"auto", "unknown", "below"}
            "auto": as the preferences declare; else the same for all instances.

        Examples
        --------
        >>> p = Preferences(["q", "p"], ["x", "x"], ["a", "a"], [1, 1]).with_missing({"p": "below"})
        >>> p.below().tolist(), p.below("unknown").tolist(), p.missing
        ([False, True], [False, False], 'mixed')
        """
        check_missing(missing, "below", ("auto", *MISSING))
        return np.broadcast_to(np.asarray(self._below if missing == "auto" else missing == "below"), self.shape)

    def leaves_out(self) -> Bools:
        """Return for every instance whether a list with a weight above 0 leaves out one of its items."""
        short = self.list_lengths < self.slots.sizes[self.list_instance]
        if self.list_weight is not None:
            short &= self.list_weight > 0
        return np.bincount(self.list_instance[short], minlength=len(self)) > 0

    def _list_name(self, list_index: int) -> tuple[str, str]:
        return self.experts[int(self.list_expert[list_index])], self.instances[int(self.list_instance[list_index])]

    def strengths(self) -> Floats:
        """Return the values oriented so that larger is better."""
        return -self.value if self.kind == "rank" else self.value

    def positions(self, ties: str = "average") -> Floats:
        """Return the position of each row in its list, 1 = best, for any kind.

        Parameters
        ----------
        ties : {"min", "max", "average", "dense", "ordinal"}
            The position of equal values; "ordinal" follows the input order.

        Examples
        --------
        >>> Preferences(["q"] * 3, ["x"] * 3, list("abc"), [7, 7, 9]).positions("min").tolist()
        [1.0, 1.0, 3.0]
        """
        key = self.value if self.kind == "rank" else -self.value
        return lists.positions(key, self.list_offsets, check_ties(ties, "positions"))

    def ranks(self, ties: str = "average") -> Floats:
        """Return the given ranks, with their gaps, for kind "rank"; else the positions under `ties`."""
        return self.value if self.kind == "rank" else self.positions(ties)

    def pair_sums(self, transform: str = "count") -> tuple[Floats, Floats]:
        """Return for every row the total preference of its expert for the item over the others, and against it.

        These are the row and column sums of the pairwise matrix of `comparisons`, computed in O(m log m) per list
        without the matrix. Transforms as in `comparisons`.

        Examples
        --------
        >>> p = Preferences(["q"] * 3, ["x"] * 3, list("abc"), [1, 2, 4])
        >>> [s.tolist() for s in p.pair_sums("count")]
        [[4.0, 2.0, 0.0], [0.0, 1.0, 5.0]]
        """
        return lists.pair_sums(*self.rank_transform(transform), self.list_offsets, binary=transform == "binary")

    def rank_transform(self, transform: str, owner: str = "comparisons") -> tuple[Floats, Floats]:
        """Return a value x for every row and a scale z for every list: the strength of a preference is (x_j - x_i) / z.

        Smaller values are better. Transforms as in `comparisons`; "binary" asks for the sign of the difference only.
        Errors name `owner`.

        Examples
        --------
        >>> Preferences(["q"] * 3, ["x"] * 3, list("abc"), [1, 2, 4]).rank_transform("rankdiff")
        (array([1., 2., 4.]), array([4.]))
        """
        self.check_transform(transform, owner)
        if transform == "rating" or (transform == "binary" and self.kind != "rank"):
            return -self.value, np.ones(self.n_lists)
        return lists.transform_ranks(self.ranks("average"), self.list_offsets, transform)

    def check_transform(self, transform: str, owner: str) -> None:
        """Raise if the transform is unknown, or not defined for values of this kind; the error names `owner`."""
        known = ("binary", "count", "rankdiff", "log", "rating")
        if transform not in known:
            raise ParameterError.invalid("transform", owner, f"one of {', '.join(map(repr, known))}", transform)
        if transform == "rating" and self.kind == "rank":
            raise KindError(
                f"{owner}(transform='rating') takes differences of ratings or scores; these are ranks. Use 'count'."
            )

    def transformed(self, transform: str, owner: str = "comparisons") -> Floats:
        """Return the values of `rank_transform` divided by their scales; differences are strengths of preference."""
        value, scale = self.rank_transform(transform, owner)
        return value if (scale == 1.0).all() else value / np.repeat(scale, self.list_lengths)

    def comparisons(self, transform: str = "binary", *, ties: bool = False, missing: str = "auto") -> Comparisons:
        """Return the pairwise comparisons of every list.

        Parameters
        ----------
        transform : {"binary", "count", "rankdiff", "log", "rating"}
            The strength of a preference: 1; the difference of ranks; that difference over the largest rank of the list;
            the difference of log ranks over the largest log rank; or the difference of ratings.
        ties : bool
            Record pairs with equal values as ties (weight 1) instead of leaving them out.
        missing : {"auto", "unknown", "below"}
            With "below" every listed item beats (by 1) every item of the instance that the list leaves out; "auto"
            follows the declaration of the preferences.

        Notes
        -----
        The result has a row for each pair, m(m-1)/2 for a list of m. `left` and `right` follow code order, so `sided`
        is False.

        Examples
        --------
        >>> c = Preferences(["q"] * 3, ["x"] * 3, list("abc"), [1, 2, 2]).comparisons("count", ties=True)
        >>> c.n_left.tolist(), c.n_ties.tolist()
        ([1.0, 1.0, 0.0], [0.0, 0.0, 1.0])
        """
        from concordant.data.comparisons import Comparisons

        check_missing(missing, "comparisons", ("auto", *MISSING))
        (values, scale), binary = self.rank_transform(transform), transform == "binary"
        parts: list[_Pairs] = [
            _list_pairs(self, values, scale, rows, list_index, binary=binary, ties=ties)
            for list_index, rows in lists.by_length(self.list_offsets)
        ]
        below = self.below(missing)
        if below.any():
            parts.append(_below_pairs(self, below))
        parts.append(_empty_pairs())
        list_index, left, right, n_left, n_right, n_ties = (
            np.concatenate(column) for column in zip(*parts, strict=True)
        )
        if self.list_weight is not None:
            w = self.list_weight[list_index]
            n_left, n_right, n_ties = n_left * w, n_right * w, n_ties * w
        rows = np.argsort(list_index, kind="stable")
        return Comparisons.from_codes(
            self.slots,
            self.experts,
            self.list_expert[list_index[rows]],
            left[rows],
            right[rows],
            n_left[rows],
            n_right[rows],
            n_ties[rows],
            sided=False,
        )

    def to_ranks(self, ties: str = "average") -> Self:
        """Return the lists with ranks 1 to m under a tie policy, without gaps."""
        return self._replace(value=self.positions(ties), kind="rank")

    def top(self, k: int) -> Self:
        """Return each list cut to its k best rows; all items and experts remain.

        Ties at the cut are broken by input order, so no list is longer than k. If every list of an instance was
        complete, the items cut off are declared "below". Else the declaration of the instance does not change.
        """
        if not isinstance(k, (int, np.integer)) or k < 1:
            raise ParameterError.invalid("k", "top", "a whole number >= 1", k)
        out = self._keep_rows(self.positions("ordinal") <= k)
        cut = out.leaves_out() & ~self.leaves_out()
        return out._replace(_below=self.below() | cut) if cut.any() else out

    def select_experts(self, experts: Sequence[Any]) -> Self:
        """Return the preferences of these experts, in this order; all items remain."""
        wanted, new = self._selected(experts)
        list_key = self.list_instance.astype(np.int64) * max(len(wanted), 1) + new[self.list_expert]
        kept = np.flatnonzero(new[self.list_expert] >= 0)
        kept = kept[np.argsort(list_key[kept], kind="stable")]
        return self._keep_lists(kept, experts=wanted, new_expert=new)

    def select_items(self, items: Iterable[Any] | Callable[[str], bool]) -> Self:
        """Return the preferences over these items only (ids, or a test on the id); ranks keep their gaps."""
        if callable(items):
            keep = np.array([bool(items(i)) for i in self.items], dtype=np.bool_)
        else:
            wanted = set(as_ids(items, "item"))
            keep = np.array([i in wanted for i in self.items], dtype=np.bool_)
        new_slot = np.cumsum(keep) - 1
        sizes = np.bincount(self.slots.instance[keep], minlength=len(self))
        slots = Slots(self.instances, self.items[keep], lists.offsets_of(sizes))
        out = self._keep_rows(keep[self.slot])
        return out._replace(slots=slots, slot=new_slot[out.slot].astype(np.int32))

    def with_weights(self, weights: Mapping[Any, float] | None) -> Self:
        """Return the preferences with weights by expert or (instance, expert); None removes all weights."""
        return self._replace(list_weight=None if weights is None else self._map_weights(weights))

    def scale_weights(self, factors: Mapping[Any, float]) -> Self:
        """Return the preferences with the weights of some experts multiplied by factors.

        Parameters
        ----------
        factors : mapping
            From expert or (instance, expert) to a number >= 0.

        Examples
        --------
        >>> p = Preferences(["q", "q"], ["x", "y"], ["a", "b"], [1, 1], weight={"x": 3})
        >>> p.scale_weights({"x": 2}).weights.tolist()
        [6.0, 1.0]
        """
        return self.with_list_weights(self._map_weights(factors) * self.weights) if factors else self

    def with_list_weights(self, weights: Floats) -> Self:
        """Return the preferences with one weight for every list, in their order; nothing is checked or copied."""
        return self._replace(list_weight=weights)

    def with_missing(self, missing: Missing | Mapping[Any, Missing]) -> Self:
        """Return the preferences with another declaration of what missing items mean.

        Parameters
        ----------
        missing : {"unknown", "below"}, or a mapping from instance to one of them
            For all instances, or for those in the mapping.

        Examples
        --------
        >>> ballots = Preferences(["q"] * 3, ["x", "x", "y"], ["a", "b", "c"], [1, 2, 1])
        >>> ballots.missing, ballots.with_missing("below").missing
        ('unknown', 'below')
        """
        if not isinstance(missing, Mapping):
            return self._replace(_below=is_below(missing, "with_missing"))
        below, instance_codes = self.below().copy(), self.instances.codes
        unknown = [q for q in missing if str(q) not in instance_codes]
        if unknown:
            raise DataError(f"no such instances: {listing(unknown)}. Known: {listing(self.instances.tolist(), 20)}.")
        for instance, word in missing.items():
            below[instance_codes[str(instance)]] = is_below(word, "with_missing")
        return self._replace(_below=below)

    def _replace(self, **changes: Any) -> Self:
        names = (
            "slots",
            "experts",
            "list_expert",
            "list_offsets",
            "list_starts",
            "slot",
            "value",
            "kind",
            "list_weight",
            "_below",
        )
        out = type(self).__new__(type(self))
        out._set(**{name: changes.get(name, self.__dict__[name]) for name in names})
        return out

    def _keep_rows(self, keep: NDArray[np.bool_]) -> Self:
        """Return the marked rows, without lists that became empty."""
        lengths = np.bincount(self.row_list[keep], minlength=self.n_lists)
        nonempty = lengths > 0
        per_instance = np.bincount(self.list_instance[nonempty], minlength=len(self))
        return self._replace(
            slot=self.slot[keep],
            value=self.value[keep],
            list_expert=self.list_expert[nonempty],
            list_offsets=lists.offsets_of(lengths[nonempty]),
            list_starts=lists.offsets_of(per_instance),
            list_weight=None if self.list_weight is None else self.list_weight[nonempty],
        )

    def _keep_lists(self, kept: Ints, experts: Texts, new_expert: Codes) -> Self:
        starts, ends = self.list_offsets[kept], self.list_offsets[kept + 1]
        rows = lists.ranges(starts, ends)
        return self._replace(
            experts=experts,
            slot=self.slot[rows],
            value=self.value[rows],
            list_expert=new_expert[self.list_expert[kept]],
            list_offsets=lists.offsets_of(ends - starts),
            list_starts=lists.offsets_of(np.bincount(self.list_instance[kept], minlength=len(self))),
            list_weight=None if self.list_weight is None else self.list_weight[kept],
        )

    def window(self, first: int, end: int) -> Self:
        """Return the instances from `first` up to `end`, exclusive, without copying values."""
        slot_from = int(self.slots.offsets[first])
        list_from, list_to = int(self.list_starts[first]), int(self.list_starts[end])
        row_from, row_to = int(self.list_offsets[list_from]), int(self.list_offsets[list_to])
        return self._replace(
            slots=self.slots.window(first, end),
            slot=self.slot[row_from:row_to] - np.int32(slot_from) if slot_from else self.slot[row_from:row_to],
            value=self.value[row_from:row_to],
            list_expert=self.list_expert[list_from:list_to],
            list_offsets=self.list_offsets[list_from : list_to + 1] - row_from,
            list_starts=self.list_starts[first : end + 1] - list_from,
            list_weight=None if self.list_weight is None else self.list_weight[list_from:list_to],
            _below=self._below if isinstance(self._below, bool) else self._below[first:end],
        )

    def _take(self, index: Ints) -> Self:
        slots, _ = self.slots.take(index)
        list_from, list_to = self.list_starts[index], self.list_starts[index + 1]
        list_index = lists.ranges(list_from, list_to)
        starts, ends = self.list_offsets[list_index], self.list_offsets[list_index + 1]
        rows = lists.ranges(starts, ends)
        list_starts = lists.offsets_of(list_to - list_from)
        new_instance = lists.list_ids(list_starts)
        shift = (slots.offsets[:-1] - self.slots.offsets[index])[new_instance]
        return self._replace(
            slots=slots,
            slot=(self.slot[rows] + np.repeat(shift, ends - starts)).astype(np.int32),
            value=self.value[rows],
            list_expert=self.list_expert[list_index],
            list_offsets=lists.offsets_of(ends - starts),
            list_starts=list_starts,
            list_weight=None if self.list_weight is None else self.list_weight[list_index],
            _below=self._below if isinstance(self._below, bool) else self._below[index],
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Preferences):
            return NotImplemented
        return (
            self.kind == other.kind
            and self.experts == other.experts
            and all(
                same(getattr(self, c), getattr(other, c))
                for c in ("list_expert", "list_offsets", "list_starts", "slot", "value", "weights")
            )
            and self.slots == other.slots
            and np.array_equal(self.below(), other.below())
        )

    def __repr__(self) -> str:
        first = [
            counted(self.n_instances, "instance"),
            counted(self.n_experts, "expert"),
            counted(self.n_slots, "item"),
            f"{counted(self.n_rows, self.kind)} in {counted(self.n_lists, 'list')}",
        ]
        if self.list_weight is not None:
            first.append("weighted")
        return describe("Preferences", [", ".join(first)])

    def to_frame(self) -> pl.DataFrame:
        """Return a Polars frame: instance, expert, item, the value (named by its kind), and the weight if given.

        An item that no expert ranks has one row with a null expert and a null value. A column `missing` is added if
        some instance declares "below".

        Examples
        --------
        >>> Preferences(["q"], ["x"], ["a"], [1], items=[("q", "a"), ("q", "b")]).to_frame().rows()
        [('q', 'x', 'a', 1.0), ('q', None, 'b', None)]
        """
        slot, expert, value = self.slot, self.row_expert, self.value
        unranked = np.ones(self.n_slots, dtype=np.bool_)
        unranked[slot] = False
        extra = np.flatnonzero(unranked)
        weight = self.row_weight
        if len(extra):
            slot = np.concatenate([slot, extra])
            rows = np.argsort(self.slots.instance[slot], kind="stable")
            slot = slot[rows]
            expert = np.concatenate([expert, np.full(len(extra), -1, np.int32)])[rows]
            value = np.concatenate([value, np.full(len(extra), np.nan)])[rows]
            weight = None if weight is None else np.concatenate([weight, np.ones(len(extra))])[rows]
        columns: dict[str, Any] = {
            "instance": (self.instances, self.slots.instance[slot]),
            "expert": (self.experts, expert),
            "item": (self.items, slot),
            self.kind: value,
        }
        if weight is not None:
            columns["weight"] = weight
        if self.missing != "unknown":
            columns["missing"] = (Texts(list(MISSING)), self.below().astype(np.int8)[self.slots.instance[slot]])
        frame = frame_of(columns)
        return frame.with_columns(frame[self.kind].fill_nan(None)) if len(extra) else frame

    @staticmethod
    def concat(parts: Sequence[Preferences]) -> Preferences:
        """Return several preferences as one, instances, items and experts matched by id.

        Parts must have one kind. Parts with lists of the same instance must agree on its `missing` and on the weights
        of experts in it. An item that an expert ranks in two parts is a DuplicateError.
        """
        kinds = {p.kind for p in parts}
        if len(kinds) > 1:
            raise DataError(
                f"cannot join preferences of different kinds ({', '.join(sorted(kinds))}). "
                "Call .to_ranks(ties=...) on each first, so that all are ranks."
            )
        slots, new_slots = Slots.concat([p.slots for p in parts])
        experts, new_experts = join_vocabularies(p.experts for p in parts)
        slot = np.concatenate([m[p.slot] for p, m in zip(parts, new_slots, strict=True)]).astype(np.int32)
        expert = np.concatenate([e[p.row_expert] for p, e in zip(parts, new_experts, strict=True)])
        value = np.concatenate([p.value for p in parts])
        weight = np.concatenate([np.repeat(p.weights, p.list_lengths) for p in parts])
        columns, rows, starts = _group_rows(slots, experts, slot, expert, value, parts[0].kind, "error")
        columns["below"] = _joined_declarations(parts, slots)
        if all(p.list_weight is None for p in parts):
            return Preferences.from_codes(**columns)
        out = Preferences.from_codes(**columns, list_weight=weight[rows][starts])
        out._check_one_weight(weight[rows])
        return out


def _joined_declarations(parts: Sequence[Preferences], slots: Slots) -> bool | Bools:
    """Return the declarations of all instances, or raise if parts with lists of an instance differ."""
    first = parts[0]._below if parts else False
    if isinstance(first, bool) and all(p._below is first for p in parts):
        return first
    declared = np.full(len(slots), -1, dtype=np.int8)
    for p in parts:
        code = np.array([slots.instances.codes[q] for q in p.instances], dtype=np.int64)
        # For an instance without lists in this part, the other parts decide.
        has_lists = np.diff(p.list_starts) > 0
        declaration, code = p.below()[has_lists].astype(np.int8), code[has_lists]
        differ = np.flatnonzero((declared[code] >= 0) & (declared[code] != declaration))
        if len(differ):
            raise DataError(
                f"the parts differ in what lists of instance {quote(slots.instances[int(code[differ[0]])])} say "
                "about items they leave out: 'below' and 'unknown'. Make them agree, such as with "
                ".with_missing('below') on each part."
            )
        declared[code] = declaration
    below: Bools = declared == 1
    for p in parts:
        code = np.array([slots.instances.codes[q] for q in p.instances], dtype=np.int64)
        below[code] |= p.below() & (declared[code] < 0)
    return below


def _check_weights(weights: Floats, owner: Preferences) -> None:
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        list_index = int(np.flatnonzero(bad)[0])
        expert, instance = owner._list_name(list_index)
        raise DataError(
            f"a weight must be a finite number >= 0. Got {weights[list_index]:g} for {quote(expert)} in instance "
            f"{quote(instance)}."
        )


def _group_rows(
    slots: Slots, experts: Texts, slot: Codes, expert: Codes, value: Floats, kind: Kind, duplicates: str
) -> tuple[dict[str, Any], Ints, Ints]:
    """Return the columns of Preferences for unsorted rows, the sort order, and the start of each list."""
    instance = slots.instance[slot] if len(slot) else np.zeros(0, np.int32)
    list_key = instance.astype(np.int64) * max(len(experts), 1) + expert
    rows = np.argsort(list_key, kind="stable")
    starts_list = _new_lists(list_key[rows])

    def error(first: Ints, again: Ints) -> DuplicateError:
        earliest = int(np.argmin(rows[again]))
        row, repeat = int(rows[first[earliest]]), int(rows[again[earliest]])
        name, item = slots.where(int(slot[row]))
        return DuplicateError.twice(experts[int(expert[row])], item, name, row, repeat)

    drop = duplicate_rows(
        np.cumsum(starts_list), slot[rows], value[rows], rule=duplicates, smaller_is_better=kind == "rank", error=error
    )
    if drop is not None:
        rows = rows[~drop]
        starts_list = _new_lists(list_key[rows])
    starts = np.flatnonzero(starts_list)
    columns = {
        "slots": slots,
        "experts": experts,
        "list_expert": expert[rows][starts],
        "list_offsets": np.append(starts, len(rows)).astype(np.int64),
        "list_starts": np.searchsorted(instance[rows][starts], np.arange(len(slots) + 1)).astype(np.int64),
        "slot": slot[rows],
        "value": value[rows],
        "kind": kind,
    }
    return columns, rows, starts


def _new_lists(key: Ints) -> Bools:
    """Return a mask of the rows that begin a new list, for rows sorted by list."""
    begins = np.ones(len(key), dtype=np.bool_)
    begins[1:] = key[1:] != key[:-1]
    return begins


_Pairs = tuple[Ints, Codes, Codes, Floats, Floats, Floats]


def _list_pairs(
    p: Preferences, values: Floats, scale: Floats, rows: Ints, list_index: Ints, *, binary: bool, ties: bool
) -> _Pairs:
    """Return the pairs of all lists of one length: list, left, right (left has the smaller slot) and counts."""
    m = rows.shape[1]
    a, b = np.triu_indices(m, 1)
    by_slot = np.take_along_axis(rows, np.argsort(p.slot[rows], axis=1), axis=1)
    x = values[by_slot]
    gap = (x[:, b] - x[:, a]) / scale[list_index][:, None]
    if binary:
        gap = np.sign(gap)
    left, right = p.slot[by_slot][:, a], p.slot[by_slot][:, b]
    keep = np.ones(gap.shape, dtype=np.bool_) if ties else gap != 0
    owner = np.broadcast_to(list_index[:, None], gap.shape)[keep]
    gap = gap[keep]
    return owner, left[keep], right[keep], np.maximum(gap, 0.0), np.maximum(-gap, 0.0), (gap == 0).astype(np.float64)


def _below_pairs(p: Preferences, below: Bools) -> _Pairs:
    """Return the pairs of a listed item that beats a missing one, for the instances with `below`."""
    owner, left, right, wins = [], [], [], []
    for list_index in np.flatnonzero(below[p.list_instance]).tolist():
        n = int(p.list_instance[list_index])
        listed = p.slot[p.list_offsets[list_index] : p.list_offsets[list_index + 1]]
        everything = np.arange(p.slots.offsets[n], p.slots.offsets[n + 1], dtype=np.int32)
        absent = np.setdiff1d(everything, listed)
        win, lose = np.repeat(listed, len(absent)), np.tile(absent, len(listed))
        owner.append(np.full(len(win), list_index, dtype=np.int64))
        left.append(np.minimum(win, lose))
        right.append(np.maximum(win, lose))
        wins.append((win < lose).astype(np.float64))
    if not owner:
        return _empty_pairs()
    n_left = np.concatenate(wins)
    return (
        np.concatenate(owner),
        np.concatenate(left),
        np.concatenate(right),
        n_left,
        1.0 - n_left,
        np.zeros(len(n_left)),
    )


def _empty_pairs() -> _Pairs:
    none = np.zeros(0)
    return none.astype(np.int64), none.astype(np.int32), none.astype(np.int32), none, none, none
