"""Metrics of a ranking against labels (NDCG, AP, ERR, RBP, ...), which print and parse as their names.

Most metrics depend only on the positions of the items with a positive label. `RankedLabels` holds these positions for
all instances end to end, so that a metric takes a few array operations over the relevant items. Sums run instance by
instance in position order, so that an instance gives the same bits alone and among others.
"""

from __future__ import annotations

import re
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import cached_property
from inspect import isabstract
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike, NDArray

from concordant._names import METRICS as _BUILTIN
from concordant._registry import Registry
from concordant.arrays import Codes, Floats, Ints
from concordant.errors import DataError, ParameterError
from concordant.kernels.lists import boundaries, by_length, list_ids, offsets_of, order_lists, ranges
from concordant.kernels.ratios import ratio

__all__ = [
    "AP",
    "CONVENTIONS",
    "ERR",
    "METRICS",
    "MRPR",
    "NDCG",
    "P",
    "RBP",
    "RR",
    "Convention",
    "HitRate",
    "InterpolatedPrecision",
    "Judged",
    "MeanNDCG",
    "Metric",
    "RPrecision",
    "RankedLabels",
    "Recall",
    "convention_named",
    "known_metrics",
    "parameter",
    "parse_metric",
    "parse_metrics",
    "place_items",
    "register_metric",
]

M = TypeVar("M", bound="Metric")

# 2**label must stay finite in float64 with room for a sum.
_LARGEST_EXPONENT = 1000.0


@dataclass(frozen=True)
class Convention:
    """The choices of an evaluation tool: gain, discount, short lists, precision of scores, ties.

    Parameters
    ----------
    name : {"trec", "letor", "paper"}
        Name for parameters and tables.
    exponential : bool
        The gain of a label l is 2^l - 1; otherwise l itself.
    late_discount : bool
        Position i is discounted by 1, 1, 1/log2(3), 1/log2(4), ...; otherwise by 1/log2(1 + i).
    short_is_zero : bool
        NDCG@k of an instance with fewer than k items is 0.
    single_precision : bool
        Scores are compared as float32; otherwise the consensus' own ranks decide.
    ties_by_item : bool
        Items with equal scores are ordered by id, descending; otherwise they keep their input order.
    """

    name: str
    exponential: bool = False
    late_discount: bool = False
    short_is_zero: bool = False
    single_precision: bool = False
    ties_by_item: bool = False

    def gain(self, label: Floats) -> Floats:
        """Return the gain of each label."""
        if not self.exponential:
            return label
        largest = float(label.max(initial=0.0))
        if largest > _LARGEST_EXPONENT:
            raise DataError(
                f"label {largest:g} is too large for the gain 2^label − 1 of the {self.name} convention (at most "
                f'{_LARGEST_EXPONENT:g}). Use convention="trec", whose gain is the label itself.'
            )
        return np.exp2(label) - 1.0

    def discount(self, position: Ints) -> Floats:
        """Return the weight of each position (1 = first)."""
        depth = np.maximum(position, 2) if self.late_discount else position + 1
        weight: Floats = 1.0 / np.log2(depth)
        return weight

    @property
    def description(self) -> str:
        """The convention in a few words, for tables."""
        gain = "2^label − 1" if self.exponential else "label"
        discount = "1, 1, 1/log2(i)" if self.late_discount else "1/log2(1+i)"
        ties = "ties by item id descending" if self.ties_by_item else "ties in input order"
        return f"gain {gain}, discount {discount}, {ties}"


CONVENTIONS: dict[str, Convention] = {
    c.name: c
    for c in (
        Convention("trec", single_precision=True, ties_by_item=True),
        Convention("letor", exponential=True, late_discount=True, short_is_zero=True),
        Convention("paper", exponential=True),
    )
}


def convention_named(name: str | Convention) -> Convention:
    """Return the convention of this name.

    >>> convention_named("letor").description
    'gain 2^label − 1, discount 1, 1, 1/log2(i), ties in input order'
    """
    if isinstance(name, Convention):
        return name
    if name not in CONVENTIONS:
        raise ParameterError.invalid("convention", "evaluate", f"one of {', '.join(CONVENTIONS)}", name)
    return CONVENTIONS[name]


class Relevant(NamedTuple):
    """Relevant items in position order, and the number of relevant items of each instance, ranked or not."""

    instance: Codes
    position: Ints
    nth: Ints
    total: Ints


class Judged(NamedTuple):
    """Judged items in position order, and the number of judged items of each instance, ranked or not."""

    instance: Codes
    position: Ints
    label: Floats
    total: Ints


@dataclass(frozen=True, eq=False)
class RankedLabels:
    """The positive labels of every instance, in ranked order and in the best possible order.

    Items without a label and items with a negative label count as label 0. Most metrics need no item of label 0, so
    these are not stored; `judged` finds them if a metric asks.

    Parameters
    ----------
    offsets : int64[N + 1]
        Offsets of the ranked labelled items of each instance.
    position : int64[R]
        Position of each labelled item that was ranked, 1 = first, ascending within the instance.
    label : float64[R]
        Their labels, all > 0.
    ideal_offsets : int64[N + 1]
        Offsets of all positive labels of each instance.
    ideal : float64[I]
        All positive labels, ranked or not, descending within the instance.
    length : int64[N]
        Number of ranked items.
    n_items : int64[N]
        Number of items of the instance, ranked or only labelled.
    largest : float
        The largest label of the whole label set (the lmax of ERR).
    find_judged : callable
        Returns the judged items; called once, if a metric asks for them.

    Examples
    --------
    >>> ranked = RankedLabels.from_order([0, 2, 1, 0, 1], [0, 3, 5])
    >>> ranked.position.tolist(), ranked.ideal.tolist()
    ([2, 3, 2], [2.0, 1.0, 1.0])
    >>> ranked.judged.position.tolist(), ranked.judged.label.tolist()
    ([1, 2, 3, 1, 2], [0.0, 2.0, 1.0, 0.0, 1.0])
    """

    offsets: Ints
    position: Ints
    label: Floats
    ideal_offsets: Ints
    ideal: Floats
    length: Ints
    n_items: Ints
    largest: float
    find_judged: Callable[[], Judged]

    def __len__(self) -> int:
        return len(self.length)

    @cached_property
    def judged(self) -> Judged:
        """The items with a label of 0 or more, for metrics that tell judged from unjudged items, such as bpref."""
        return self.find_judged()

    @cached_property
    def instance(self) -> Codes:
        """The instance of every found item."""
        return list_ids(self.offsets)

    @cached_property
    def ideal_instance(self) -> Codes:
        """The instance of every label."""
        return list_ids(self.ideal_offsets)

    @cached_property
    def ideal_position(self) -> Ints:
        """The position of every label in the best possible order."""
        return _count_up(self.ideal_offsets)

    @classmethod
    def from_order(
        cls, labels: ArrayLike, offsets: ArrayLike | None = None, *, largest: float | None = None
    ) -> RankedLabels:
        """Return the ranked labels of lists whose items are all labelled and already in ranked order.

        Parameters
        ----------
        labels : array of S numbers
            Labels, best-ranked item first, instances end to end.
        offsets : array of N + 1 numbers, optional
            Offsets of the instances; without it there is one.
        largest : float, optional
            The largest possible label, for ERR; by default the largest in `labels`.
        """
        label = np.asarray(labels, dtype=np.float64)
        starts = np.array([0, len(label)]) if offsets is None else np.asarray(offsets, dtype=np.int64)
        size = np.diff(starts)
        position = _count_up(starts)
        instance = list_ids(starts)
        top = float(label.max(initial=0.0)) if largest is None else largest

        def judged() -> Judged:
            keep = label >= 0
            return Judged(instance[keep], position[keep], label[keep], np.bincount(instance[keep], minlength=len(size)))

        keep = label > 0
        found = instance[keep], position[keep], label[keep]
        return cls.from_found(*found, instance[keep], label[keep], size, size, top, judged)

    @classmethod
    def from_found(
        cls,
        instance: Codes,
        position: Ints,
        label: Floats,
        ideal_instance: Codes,
        ideal: Floats,
        length: Ints,
        n_items: Ints,
        largest: float,
        find_judged: Callable[[], Judged],
    ) -> RankedLabels:
        """Return the ranked labels of found items in position order and positive labels in any order."""
        n = len(length)
        offsets = offsets_of(np.bincount(instance, minlength=n))
        ideal_offsets = offsets_of(np.bincount(ideal_instance, minlength=n))
        best = order_lists(-ideal, ideal_offsets)
        return cls(offsets, position, label, ideal_offsets, ideal[best], length, n_items, largest, find_judged)

    def relevant(self, rel: float) -> Relevant:
        """Return the found items with label >= rel."""
        keep = self.label >= rel
        instance = self.instance[keep]
        n = len(self)
        nth = _count_up(offsets_of(np.bincount(instance, minlength=n)))
        total = np.bincount(self.ideal_instance[self.ideal >= rel], minlength=n)
        return Relevant(instance, self.position[keep], nth, total)

    def sums(self, instance: Codes, terms: Floats | None = None) -> Floats:
        """Return the sum of the terms per instance, added in the order given; without terms, their number."""
        return np.bincount(instance, weights=terms, minlength=len(self)).astype(np.float64, copy=False)


def _count_up(offsets: Ints) -> Ints:
    """Return 1, 2, 3, ... restarting in every list."""
    total = int(offsets[-1])
    return np.arange(1, total + 1, dtype=np.int64) - np.repeat(offsets[:-1], np.diff(offsets))


def _ratio(above: NDArray[Any], below: NDArray[Any]) -> Floats:
    """Return above / below, 0 where below is 0: metrics are 0 for instances without relevant items."""
    return ratio(above, below, 0.0)


def place_items(
    order: Ints,
    offsets: Ints,
    chosen: Ints,
    key: NDArray[Any] | None = None,
    items: Callable[[Ints], Sequence[str]] | None = None,
) -> Ints:
    """Return the positions of the chosen rows in their lists, counted over all lists.

    Parameters
    ----------
    order : int64[S]
        Row numbers list by list, best first.
    offsets : int64[N + 1]
        Offsets of the lists; the first position of list n is offsets[n].
    chosen : int64[R]
        The rows to look up.
    key : array of S numbers, optional
        The sort keys of `order`, in that order; equal neighbours in a list are tied.
    items : function from row numbers to ids, optional
        Breaks those ties by id, descending (by code point, which is the byte order of UTF-8). It is called
        once, and only with rows that tie with a chosen one.

    Notes
    -----
    O(S), plus a sort of the tied rows.

    >>> order, offsets = np.array([1, 2, 0]), np.array([0, 3])
    >>> place_items(order, offsets, np.array([0, 2])).tolist()
    [2, 1]
    >>> place_items(order, offsets, np.array([0, 2]), np.array([1, 1, 2]), lambda rows: ["x", "y"]).tolist()
    [2, 0]
    """
    n = len(order)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n, dtype=np.int64)
    if key is None or items is None or n == 0 or len(chosen) == 0:
        return place[chosen]
    first = boundaries(offsets, n)
    first[1:] |= key[1:] != key[:-1]
    starts = np.flatnonzero(first)
    if len(starts) == n:
        return place[chosen]
    run = np.unique(np.searchsorted(starts, place[chosen], side="right") - 1)
    begin, end = starts[run], np.append(starts, n)[run + 1]
    tied = end - begin > 1
    begin, end = begin[tied], end[tied]
    places = ranges(begin, end)
    rows = order[places]
    ids = list(items(rows))
    local = offsets_of(end - begin).tolist()
    resorted: list[int] = []
    for a, b in pairwise(local):
        resorted += sorted(range(a, b), key=ids.__getitem__, reverse=True)
    place[rows[resorted]] = places
    return place[chosen]


class _MetricType(ABCMeta):
    """Metaclass that gives metric classes a cutoff: `NDCG @ 10` is `NDCG(cutoff=10)`."""

    def __matmul__(cls: type[M], cutoff: int) -> M:  # type: ignore[misc]
        return cls() @ cutoff


@dataclass(frozen=True, repr=False)
class Metric(metaclass=_MetricType):
    """A metric: one number in [0, 1] for each instance, from the positions of the labelled items.

    Metrics with the same parameters are equal, hash alike and print as the name that parses to them. `metric @ k` cuts
    the ranking off after position k. Without a cutoff a metric uses the whole list.
    """

    name: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()
    summary: ClassVar[str] = ""
    # Whether lists of metrics show "@k"; false for metrics that are mostly used on the whole list.
    shows_cutoff: ClassVar[bool] = True
    # The expected metric or the swaps by which CRF and LambdaRank train for it: "ndcg", "err", "ap", "rr" or "p"; empty
    # where they cannot. A class that derives from another declares its own.
    objective: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.objective = cls.__dict__.get("objective", "")

    @abstractmethod
    def compute(self, ranked: RankedLabels, convention: Convention, rel: float = 1.0) -> Floats:
        """Return the value of every instance, 0 where no item is relevant.

        Parameters
        ----------
        ranked : RankedLabels
            Positions of the labelled items.
        convention : Convention
            Gain, discount and treatment of short lists.
        rel : float
            The smallest relevant label, unless the metric has its own.
        """

    def __matmul__(self: M, cutoff: int) -> M:
        if not _takes_cutoff(type(self)):
            raise ParameterError(f"{self.name} takes no cutoff. Got @{cutoff}.")
        return replace(self, cutoff=cutoff)  # type: ignore[call-arg]

    def __str__(self) -> str:
        shown = []
        cutoff = ""
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "cutoff":
                cutoff = "" if value is None else f"@{value}"
            elif value != f.default or f.metadata.get("always"):
                # The shortest text that parses to this number, without ".0".
                shown.append(f"{f.name}={int(value) if value == int(value) else value!r}")
        inside = f"({', '.join(shown)})" if shown else ""
        return f"{self.name}{inside}{cutoff}"

    def __repr__(self) -> str:
        return str(self)

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if value is None and f.default is None:
                continue
            allowed, test = _rule(f)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not test(value):
                raise ParameterError.invalid(f.name, type(self).__name__, allowed, value)
            # Convert NumPy numbers, so that equal metrics print alike.
            object.__setattr__(self, f.name, int(value) if _is_whole(f) else float(value))


_Rule: TypeAlias = tuple[str, Callable[[Any], bool]]


def _is_count(value: Any) -> bool:
    return float(value).is_integer() and value >= 1


# Constraints of parameters that have the same meaning in every metric.
_RULES: dict[str, _Rule] = {
    "cutoff": ("a whole number >= 1, or None for the whole list", _is_count),
    "rel": ("a number > 0", lambda v: 0 < v < np.inf),
}


def parameter(default: float | None, allowed: str, test: Callable[[Any], bool], *, always: bool = False) -> Any:
    """Return the dataclass field of a numeric parameter with its constraint.

    Parameters
    ----------
    default : number or None
        Default value.
    allowed : str
        The constraint in words, for error messages.
    test : callable
        The constraint as a function of the value.
    always : bool
        Whether the name of the metric shows the value even if it is the default.

    Examples
    --------
    >>> parameter(0.5, "a number > 0", lambda v: v > 0).default
    0.5
    """
    return field(default=default, metadata={"rule": (allowed, test), "always": always})


def _is_whole(f: Field[Any]) -> bool:
    # The annotation is text where its module postpones annotations, else a type.
    annotation = f.type.__name__ if isinstance(f.type, type) else str(f.type)
    return f.name == "cutoff" or annotation in ("int", "int | None", "Optional[int]", "typing.Optional[int]")


def _rule(f: Field[Any]) -> _Rule:
    rule: _Rule | None = f.metadata.get("rule") or _RULES.get(f.name)
    if rule is not None:
        return rule
    return ("a whole number", lambda v: float(v).is_integer()) if _is_whole(f) else ("a number", np.isfinite)


def _takes_cutoff(cls: type[Metric]) -> bool:
    return any(f.name == "cutoff" for f in fields(cls))


METRICS: Registry[type[Metric]] = Registry("metric", _BUILTIN, ("concordant.metrics",))


@dataclass_transform(frozen_default=True)
def register_metric(cls: type[M]) -> type[M]:
    """Register a metric under its `name` and `aliases`; `evaluate`, `select=` and the command line then know it.

    The class becomes a frozen dataclass: annotated attributes are its parameters.

    Parameters
    ----------
    cls : subclass of Metric
        The metric, with `name`, `summary` and `compute`. A parameter `cutoff` lets it be written ``name@10``.

    Returns
    -------
    class
        The same class, so that this works as a decorator.

    Examples
    --------
    >>> class First(Metric):
    ...     name, summary = "first", "whether the first item is relevant"
    ...
    ...     def compute(self, ranked, convention, rel=1.0):
    ...         found = ranked.relevant(rel)
    ...         return ranked.sums(found.instance[found.position == 1])
    >>> First = register_metric(First)
    >>> parse_metric("first").compute(RankedLabels.from_order([1, 0, 0, 1], [0, 2, 4]), CONVENTIONS["trec"])
    array([1., 0.])
    >>> _ = METRICS.entries.pop("first")
    """
    if not isinstance(cls, type) or not issubclass(cls, Metric) or isabstract(cls):
        raise ParameterError.invalid("cls", "register_metric", "a subclass of Metric that has compute", cls)
    if "__dataclass_fields__" not in vars(cls):
        dataclass(frozen=True, repr=False)(cls)
    for name in (cls.name, *cls.aliases):
        if not isinstance(name, str) or re.fullmatch(r"[a-z][\w-]*", name) is None:
            raise ParameterError.invalid("name", cls.__name__, "small letters, digits, - and _, a letter first", name)
        METRICS.add(name, cls, cls.__module__)
    return cls


_NAME = re.compile(r"\s*(?P<name>[A-Za-z][\w-]*?)\s*(?:\((?P<params>[^()]*)\))?\s*(?:@\s*(?P<cut>[^@]*?))?\s*")
_CUT = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")


@register_metric
class NDCG(Metric):
    """Normalised discounted cumulative gain: the gain of the first k positions over the best possible.

    NDCG@k = Σ_{i≤k} g(l_(i)) d(i) / Σ_{i≤k} g(l*_(i)) d(i), with l* the labels in descending order. Gain g
    and discount d are the convention's: `trec` label and 1/log2(1+i), `paper` 2^label − 1 and 1/log2(1+i),
    `letor` 2^label − 1 and 1, 1, 1/log2(i), where an instance with fewer than k items has NDCG@k = 0.
    Without a positive label the value is 0.

    Parameters
    ----------
    cutoff : int, optional
        k; without it the whole list.

    Examples
    --------
    >>> NDCG @ 10
    ndcg@10
    >>> ranked = RankedLabels.from_order([1, 2, 0])
    >>> round(float((NDCG @ 2).compute(ranked, CONVENTIONS["letor"])[0]), 6)
    1.0
    >>> round(float((NDCG @ 2).compute(ranked, CONVENTIONS["paper"])[0]), 6)
    0.796708
    """

    cutoff: int | None = None
    name: ClassVar[str] = "ndcg"
    objective: ClassVar[str] = "ndcg"
    summary: ClassVar[str] = "normalised discounted cumulative gain"

    def compute(self, ranked: RankedLabels, convention: Convention, rel: float = 1.0) -> Floats:
        """Return the value of every instance, 0 where no item is relevant."""
        dcg = self._dcg(ranked, ranked.instance, ranked.position, ranked.label, convention)
        best = self._dcg(ranked, ranked.ideal_instance, ranked.ideal_position, ranked.ideal, convention)
        out = _ratio(dcg, best)
        if convention.short_is_zero and self.cutoff is not None:
            out[ranked.n_items < self.cutoff] = 0.0
        return out

    def _dcg(
        self, ranked: RankedLabels, instance: Codes, position: Ints, label: Floats, convention: Convention
    ) -> Floats:
        if self.cutoff is not None:
            keep = position <= self.cutoff
            instance, position, label = instance[keep], position[keep], label[keep]
        return ranked.sums(instance, convention.gain(label) * convention.discount(position))


@register_metric
class MeanNDCG(Metric):
    """The mean of NDCG@1, NDCG@2, ..., NDCG@M of an instance with M items, as LETOR's script prints it.

    Cost O(M) for each instance.

    Examples
    --------
    >>> ranked = RankedLabels.from_order([0, 1])
    >>> float(MeanNDCG().compute(ranked, CONVENTIONS["letor"])[0])
    0.5
    """

    name: ClassVar[str] = "meanndcg"
    summary: ClassVar[str] = "mean of NDCG@1..M of an instance with M items"

    def compute(self, ranked: RankedLabels, convention: Convention, rel: float = 1.0) -> Floats:
        """Return the value of every instance, 0 where no item is relevant."""
        starts = offsets_of(ranked.n_items)
        terms = np.zeros((2, int(starts[-1])), dtype=np.float64)
        parts = (
            (ranked.instance, ranked.position, ranked.label),
            (ranked.ideal_instance, ranked.ideal_position, ranked.ideal),
        )
        for row, (instance, position, label) in zip(terms, parts, strict=True):
            row[starts[instance] + position - 1] = convention.gain(label) * convention.discount(position)
        out = np.zeros(len(ranked), dtype=np.float64)
        for instances, cells in by_length(starts):
            found, best = (np.cumsum(row[cells], axis=1) for row in terms)
            ndcg = _ratio(found, best)
            # cumsum adds one after the other, so the bits do not depend on how many instances are in the
            # block.
            out[instances] = np.cumsum(ndcg, axis=1)[:, -1] / cells.shape[1]
        return out


@register_metric
class ERR(Metric):
    """Expected reciprocal rank: the mean of 1/position for a reader who stops at an item with probability V(label).

    ERR = Σ_i (1/i) V(l_(i)) Π_{j<i} (1 − V(l_(j))), V(l) = (2^l − 1)/2^lmax, the same in every convention.

    Parameters
    ----------
    cutoff : int, optional
        Only the first k positions.
    lmax : float, optional
        The largest possible label; without it the largest of the whole label set that is evaluated.

    Examples
    --------
    >>> ERR(lmax=4) @ 20
    err(lmax=4)@20
    >>> float(ERR().compute(RankedLabels.from_order([0, 2, 1], largest=2), CONVENTIONS["paper"])[0])
    0.3958333333333333
    """

    cutoff: int | None = None
    lmax: float | None = parameter(None, "a number > 0", lambda v: 0 < v < np.inf)
    name: ClassVar[str] = "err"
    objective: ClassVar[str] = "err"
    summary: ClassVar[str] = "expected reciprocal rank"

    def compute(self, ranked: RankedLabels, convention: Convention, rel: float = 1.0) -> Floats:
        """Return the value of every instance, 0 where no item is relevant."""
        lmax = ranked.largest if self.lmax is None else self.lmax
        if lmax < ranked.largest:
            raise ParameterError(
                f"the 'lmax' parameter of ERR must be at least the largest label, {ranked.largest:g}. "
                f"Got {lmax:g} instead."
            )
        # 2^(l − lmax) − 2^−lmax is V without the overflow of 2^l.
        stop = np.exp2(ranked.label - lmax) - np.exp2(-lmax)
        reach = np.ones(len(stop), dtype=np.float64)
        for _, cells in by_length(ranked.offsets):
            reach[cells[:, 1:]] = np.cumprod(1.0 - stop[cells[:, :-1]], axis=1)
        terms = stop * reach / ranked.position
        if self.cutoff is None:
            return ranked.sums(ranked.instance, terms)
        keep = ranked.position <= self.cutoff
        return ranked.sums(ranked.instance[keep], terms[keep])


@register_metric
class P(Metric):
    """Precision at a cutoff: the share of relevant items among the first k positions.

    P@k = #{i ≤ k: l_(i) ≥ rel} / k; a list shorter than k is filled up with irrelevant items. Without a
    cutoff it is the share of the whole list, 0 when the list is empty.

    Parameters
    ----------
    cutoff : int, optional
        k.
    rel : float, optional
        The smallest relevant label; by default that of the evaluation (1).

    Examples
    --------
    >>> P(rel=2) @ 5
    p(rel=2)@5
    >>> float((P @ 2).compute(RankedLabels.from_order([1, 0, 1]), CONVENTIONS["trec"])[0])
    0.5
    """

    cutoff: int | None = None
    rel: float | None = None
    name: ClassVar[str] = "p"
    objective: ClassVar[str] = "p"
    aliases: ClassVar[tuple[str, ...]] = ("precision",)
    summary: ClassVar[str] = "precision"

    def compute(self, ranked: RankedLabels, convention: Convention, rel: float = 1.0) -> Floats:
        """Return the value of every instance, 0 where no item is relevant."""
        found = ranked.relevant(self.rel or rel)
        if self.cutoff is None:
            return _ratio(ranked.sums(found.instance), ranked.length)
        return ranked.sums(found.instance[found.position <= self.cutoff]) / self.cutoff


@register_metric
class Recall(Metric):
    """Recall at a cutoff: the share of all relevant items that stand in the first k positions.

    Relevant items that are labelled but not ranked count in the denominator; without any relevant item the
    value is 0.

    Parameters
    ----------
    cutoff : int, optional
        k; without it the whole list.
    rel : float, optional
        The smallest relevant label; by default that of the evaluation (1).

    Examples
    --------
    >>> float((Recall @ 2).compute(RankedLabels.from_order([1, 0, 1]), CONVENTIONS["trec"])[0])
    0.5
    """

    cutoff: int | None = None
    rel: float | None = None
    name: ClassVar[str] = "recall"
    aliases: ClassVar[tuple[str, ...]] = ("r",)
    summary: ClassVar[str] = "recall"

    def compute(self, ranked: RankedLabels, convention: Convention, rel: float = 1.0) -> Floats:
        """Return the value of every instance, 0 where no item is relevant."""
        found = ranked.relevant(self.rel or rel)
        keep = _within(found, self.cutoff)
        return _ratio(ranked.sums(found.instance[keep]), found.total)


@register_metric
class AP(Metric):
    """Average precision: the mean over all relevant items of the precision at their positions.

    AP = Σ_i P@i [l_(i) ≥ rel] / R, R the number of relevant items, ranked or not; a relevant item that was
    not ranked, or stands after the cutoff, adds 0. Without any relevant item the value is 0. Its mean over
    instances is MAP.

    Parameters
    ----------
    cutoff : int, optional
        Only the first k positions are summed; R stays.
    rel : float, optional
        The smallest relevant label; by default that of the evaluation (1).

    Examples
    --------
    >>> AP()
    map
    >>> float(AP().compute(RankedLabels.from_order([1, 0, 0, 1]), CONVENTIONS["trec"])[0])
    0.75
    """

    cutoff: int | None = None
    rel: float | None = None
    name: ClassVar[str] = "map"
    objective: ClassVar[str] = "ap"
    shows_cutoff: ClassVar[bool] = False
    aliases: ClassVar[tuple[str, ...]] = ("ap",)
    summary: ClassVar[str] = "average precision (its mean is MAP)"

    def compute(self, ranked: RankedLabels, convention: Convention, rel: float = 1.0) -> Floats:
        """Return the value of every instance, 0 where no item is relevant."""
        found = ranked.relevant(self.rel or rel)
        keep = _within(found, self.cutoff)
        precision = found.nth[keep] / found.position[keep]
        return _ratio(ranked.sums(found.instance[keep], precision), found.total)


@register_metric
class RR(Metric):
    """Reciprocal rank: 1 / the position of the first relevant item, 0 when none was ranked. Its mean is MRR.

    Parameters
    ----------
    cutoff : int, optional
        A first relevant item after position k counts 0.
    rel : float, optional
        The smallest relevant label; by default that of the evaluation (1).

    Examples
    --------
    >>> float(RR().compute(RankedLabels.from_order([0, 1, 1]), CONVENTIONS["trec"])[0])
    0.5
    """

    cutoff: int | None = None
    rel: float | None = None
    name: ClassVar[str] = "mrr"
    objective: ClassVar[str] = "rr"
    shows_cutoff: ClassVar[bool] = False
    aliases: ClassVar[tuple[str, ...]] = ("rr", "recip_rank")
    summary: ClassVar[str] = "reciprocal rank of the first relevant item"

    def compute(self, ranked: RankedLabels, convention: Convention, rel: float = 1.0) -> Floats:
        """Return the value of every instance, 0 where no item is relevant."""
        found = ranked.relevant(self.rel or rel)
        first = (found.nth == 1) & _within(found, self.cutoff)
        out = np.zeros(len(ranked), dtype=np.float64)
        out[found.instance[first]] = 1.0 / found.position[first]
        return out


@register_metric
class RPrecision(Metric):
    """R-precision: the precision at R, the number of relevant items of the instance, ranked or not.

    Parameters
    ----------
    rel : float, optional
        The smallest relevant label; by default that of the evaluation (1).

    Examples
    --------
    >>> float(RPrecision().compute(RankedLabels.from_order([0, 1, 1]), CONVENTIONS["trec"])[0])
    0.5
    """

    rel: float | None = None
    name: ClassVar[str] = "rprec"
    aliases: ClassVar[tuple[str, ...]] = ("r-prec", "rprecision")
    summary: ClassVar[str] = "precision at the number of relevant items"

    def compute(self, ranked: RankedLabels, convention: Convention, rel: float = 1.0) -> Floats:
        """Return the value of every instance, 0 where no item is relevant."""
        found = ranked.relevant(self.rel or rel)
        keep = found.position <= found.total[found.instance]
        return _ratio(ranked.sums(found.instance[keep]), found.total)


@register_metric
class RBP(Metric):
    """Rank-biased precision: relevant items per item read, for a reader who continues with probability p.

    RBP = Σ_i (1 − p) p^(i−1) [l_(i) ≥ rel].

    Parameters
    ----------
    cutoff : int, optional
        Only the first k positions.
    p : float
        Persistence: the probability of reading the next position.
    rel : float, optional
        The smallest relevant label; by default that of the evaluation (1).

    Examples
    --------
    >>> RBP(p=0.5)
    rbp(p=0.5)
    >>> float(RBP(p=0.5).compute(RankedLabels.from_order([1, 0, 1]), CONVENTIONS["trec"])[0])
    0.625
    """

    cutoff: int | None = None
    # Tools disagree on the default, so the name always shows it.
    p: float = parameter(0.8, "a number between 0 and 1, both excluded", lambda v: 0 < v < 1, always=True)
    rel: float | None = None
    name: ClassVar[str] = "rbp"
    summary: ClassVar[str] = "rank-biased precision"

    def compute(self, ranked: RankedLabels, convention: Convention, rel: float = 1.0) -> Floats:
        """Return the value of every instance, 0 where no item is relevant."""
        found = ranked.relevant(self.rel or rel)
        keep = _within(found, self.cutoff)
        weight: Floats = (1.0 - self.p) * np.power(self.p, found.position[keep] - 1.0, dtype=np.float64)
        return ranked.sums(found.instance[keep], weight)


@register_metric
class HitRate(Metric):
    """Hit rate at a cutoff: 1 if a relevant item is in the first k positions, else 0.

    Parameters
    ----------
    cutoff : int, optional
        k; without it the whole list.
    rel : float, optional
        The smallest relevant label; by default that of the evaluation (1).

    Examples
    --------
    >>> HitRate @ 5
    hit@5
    >>> float((HitRate @ 1).compute(RankedLabels.from_order([0, 1]), CONVENTIONS["trec"])[0])
    0.0
    """

    cutoff: int | None = None
    rel: float | None = None
    name: ClassVar[str] = "hit"
    aliases: ClassVar[tuple[str, ...]] = ("hitrate", "success")
    summary: ClassVar[str] = "whether any relevant item was found"

    def compute(self, ranked: RankedLabels, convention: Convention, rel: float = 1.0) -> Floats:
        """Return the value of every instance, 0 where no item is relevant."""
        found = ranked.relevant(self.rel or rel)
        return (ranked.sums(found.instance[_within(found, self.cutoff)]) > 0).astype(np.float64)


@register_metric
class MRPR(Metric):
    """Reciprocal page rank: 1 / the page on which the first relevant item stands, page = ceil(position / 10).

    Parameters
    ----------
    page : int
        Positions on one page.
    rel : float, optional
        The smallest relevant label; by default that of the evaluation (1).

    Examples
    --------
    >>> float(MRPR().compute(RankedLabels.from_order([0] * 10 + [1]), CONVENTIONS["trec"])[0])
    0.5
    """

    page: int = parameter(10, "a whole number >= 1", _is_count)
    rel: float | None = None
    name: ClassVar[str] = "mrpr"
    summary: ClassVar[str] = "reciprocal page of the first relevant item"

    def compute(self, ranked: RankedLabels, convention: Convention, rel: float = 1.0) -> Floats:
        """Return the value of every instance, 0 where no item is relevant."""
        found = ranked.relevant(self.rel or rel)
        first = found.nth == 1
        out = np.zeros(len(ranked), dtype=np.float64)
        out[found.instance[first]] = 1.0 / -(-found.position[first] // self.page)
        return out


@register_metric
class InterpolatedPrecision(Metric):
    """Interpolated precision at a recall: the best precision at any position where that recall is reached.

    iprec(r) = max P@i over the positions i by which ⌊rR + 0.9⌋ relevant items were found, R the number of relevant
    items, ranked or not. That is rR rounded up, in trec_eval's own double precision arithmetic: of 3 relevant items 2
    are recall 0.7 there, and so here. The value is 0 when the recall is never reached and falls as r grows; at r = 0,
    0.1, ..., 1 it is the 11-point curve.

    Parameters
    ----------
    recall : float
        r, from 0 to 1.
    rel : float, optional
        The smallest relevant label; by default that of the evaluation (1).

    Examples
    --------
    >>> ranked = RankedLabels.from_order([0, 1, 1, 0, 1])
    >>> [round(float(InterpolatedPrecision(recall=r).compute(ranked, CONVENTIONS["trec"])[0]), 4) for r in (0, 0.5, 1)]
    [0.6667, 0.6667, 0.6]
    >>> InterpolatedPrecision(recall=0.1)
    iprec(recall=0.1)
    """

    recall: float = parameter(0.0, "a number from 0 to 1", lambda v: 0 <= v <= 1, always=True)
    rel: float | None = None
    name: ClassVar[str] = "iprec"
    summary: ClassVar[str] = "interpolated precision at a recall"

    def compute(self, ranked: RankedLabels, convention: Convention, rel: float = 1.0) -> Floats:
        """Return the value of every instance, 0 where the recall is not reached."""
        found = ranked.relevant(self.rel or rel)
        # At recall 0 any position counts, and the best one is that of a relevant item.
        needed = np.maximum((self.recall * found.total + 0.9).astype(np.int64), 1)
        enough = found.nth >= needed[found.instance]
        out = np.zeros(len(ranked), dtype=np.float64)
        np.maximum.at(out, found.instance[enough], found.nth[enough] / found.position[enough])
        return out


def _within(found: Relevant, cutoff: int | None) -> NDArray[np.bool_]:
    if cutoff is None:
        return np.ones(len(found.position), dtype=np.bool_)
    return found.position <= cutoff


MetricLike: TypeAlias = "str | Metric | type[Metric]"


def known_metrics() -> dict[str, str]:
    """Return metric name -> summary, with `@k` where a cutoff is usual.

    >>> known_metrics()["map"]
    'average precision (its mean is MAP)'
    """
    found = (METRICS[name] for name in METRICS if name == METRICS[name].name)
    return {cls.name + ("@k" if cls.shows_cutoff and _takes_cutoff(cls) else ""): cls.summary for cls in found}


def parse_metric(text: MetricLike) -> Metric:
    """Parse a name that stands for one metric.

    >>> parse_metric("P(rel=2)@5")
    p(rel=2)@5
    """
    metrics = parse_metrics(text)
    if len(metrics) != 1:
        raise ParameterError(f"{text!r} stands for {len(metrics)} metrics, one was expected.")
    return metrics[0]


def parse_metrics(metrics: MetricLike | Iterable[MetricLike]) -> tuple[Metric, ...]:
    """Parse metrics from names, objects or lists of them, each once, in the order given.

    A name is `name(parameter=value, ...)@cutoff`; upper and lower case are the same, names are separated by
    commas, and a cutoff may be a range.

    Parameters
    ----------
    metrics : str, Metric, or an iterable of them
        What to parse.

    Examples
    --------
    >>> parse_metrics("nDCG@1-3, map, rbp(p=0.9)")
    (ndcg@1, ndcg@2, ndcg@3, map, rbp(p=0.9))
    >>> parse_metrics([NDCG @ 5, "p@5"])
    (ndcg@5, p@5)
    """
    if isinstance(metrics, (str, Metric, type)):
        metrics = (metrics,)
    found: dict[Metric, None] = {}
    for metric in metrics:
        if isinstance(metric, str):
            found.update(dict.fromkeys(m for part in _split(metric) for m in _parse(part)))
        elif isinstance(metric, type) and issubclass(metric, Metric) and metric is not Metric:
            found[metric()] = None
        elif isinstance(metric, Metric):
            found[metric] = None
        else:
            raise _unknown(metric)
    if not found:
        raise ParameterError(f"no metric given. Known metrics: {', '.join(known_metrics())}.")
    return tuple(found)


def _split(text: str) -> list[str]:
    """Return the parts between commas outside parentheses."""
    return [part for part in re.split(r",(?![^()]*\))", text) if part.strip()]


def _unknown(metric: object) -> ParameterError:
    near = METRICS.near(re.split(r"[@(]", metric)[0].strip().lower()) if isinstance(metric, str) else ""
    return ParameterError(f"unknown metric {metric!r}.{near} Known metrics: {', '.join(known_metrics())}.")


def _parse(text: str) -> list[Metric]:
    match = _NAME.fullmatch(text)
    cls = METRICS.find(match["name"].lower()) if match else None
    if match is None or cls is None:
        raise _unknown(text.strip())
    params: dict[str, float] = {}
    allowed = [f.name for f in fields(cls) if f.name != "cutoff"]
    for part in _split(match["params"] or ""):
        key, _, value = (p.strip() for p in part.partition("="))
        if key not in allowed:
            takes = f"it takes {', '.join(allowed)}" if allowed else "it takes none"
            raise ParameterError(f"{text.strip()!r}: {cls.name} has no parameter {key!r}; {takes}.")
        try:
            params[key] = float(value)
        except ValueError:
            rule = next(_rule(f) for f in fields(cls) if f.name == key)
            raise ParameterError.invalid(key, cls.__name__, rule[0], value) from None
    metric = cls(**params)
    if match["cut"] is None:
        return [metric]
    cut = _CUT.fullmatch(match["cut"])
    if cut is None or (cut[2] is not None and int(cut[2]) < int(cut[1])):
        raise ParameterError(f"{text.strip()!r}: the cutoff must be a whole number or a range such as 1-5.")
    return [metric @ k for k in range(int(cut[1]), int(cut[2] or cut[1]) + 1)]
