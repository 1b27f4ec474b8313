"""Distances and correlations of two rankings: Kendall, Spearman, footrule, top-k distance, rank-biased overlap.

A ranking is a list of items, best first, in which a nested list or set is a group of tied items; or a mapping from item
to rank (1 = best, equal ranks are ties); or a NumPy array of ranks, paired with the other array by index. No function
here is quadratic in the number of items.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints
from concordant.errors import DataError, ParameterError, listing
from concordant.kernels.inversions import inversions
from concordant.kernels.lists import positions as list_positions

__all__ = [
    "KendallCounts",
    "TopKCounts",
    "footrule",
    "kendall_counts",
    "kendall_distance",
    "kendall_tau_b",
    "rank_biased_overlap",
    "spearman",
    "top_k_counts",
    "top_k_distance",
]

Ranking: TypeAlias = "Iterable[Any] | Mapping[Any, float] | NDArray[Any]"


class KendallCounts(NamedTuple):
    """Numbers of pairs of items that two rankings order alike, order differently, or tie.

    `tied_first` and `tied_second` are tied in that ranking only; the five numbers add up to M(M − 1)/2.
    """

    concordant: int
    discordant: int
    tied_first: int
    tied_second: int
    tied_both: int


class TopKCounts(NamedTuple):
    """The terms of the top-k distance; see `top_k_distance`."""

    v: int
    u: int
    r: int
    z: int

    @property
    def distance(self) -> int:
        """V + U + r(r + 1)/2."""
        return self.v + self.u + self.r * (self.r + 1) // 2


def kendall_counts(a: Ranking, b: Ranking) -> KendallCounts:
    """Count the concordant, discordant and tied pairs of items of two rankings.

    Parameters
    ----------
    a, b : rankings
        Lists of items, mappings from item to rank, or arrays of ranks; both over the same items.

    Notes
    -----
    O(M log M) for M items: both rankings are sorted by the first, then strict inversions of the second are
    counted.

    Examples
    --------
    >>> kendall_counts(["a", "b", "c"], ["b", "a", "c"])
    KendallCounts(concordant=2, discordant=1, tied_first=0, tied_second=0, tied_both=0)
    >>> kendall_counts(["a", "b", "c"], ["a", ["b", "c"]]).tied_second
    1
    """
    x, y = _paired(a, b)
    m = len(x)
    x_code = np.unique(x, return_inverse=True)[1].astype(np.int64)
    y_values, y_code = np.unique(y, return_inverse=True)
    y_code = y_code.astype(np.int64)
    both = x_code * max(len(y_values), 1) + y_code
    # Sorted by (x, y), pairs tied in x ascend in y and so are no inversions.
    discordant = _inversions(y_code[np.argsort(both, kind="stable")])
    pairs = m * (m - 1) // 2
    in_x, in_y, in_both = _tied_pairs(x_code), _tied_pairs(y_code), _tied_pairs(both)
    concordant = pairs - in_x - in_y + in_both - discordant
    return KendallCounts(concordant, discordant, in_x - in_both, in_y - in_both, in_both)


def kendall_tau_b(a: Ranking, b: Ranking) -> float:
    """Return Kendall's tau-b, the rank correlation that corrects for ties, from −1 to 1.

    tau_b = (C − D) / sqrt((C + D + T_a)(C + D + T_b)), C and D the concordant and discordant pairs, T_a and
    T_b the pairs tied in one ranking only. It is not a number (nan) when one of the rankings ties all
    items.

    Parameters
    ----------
    a, b : rankings
        Lists of items, mappings from item to rank, or arrays of ranks; both over the same items.

    Notes
    -----
    O(M log M) for M items.

    Examples
    --------
    >>> kendall_tau_b(["a", "b", "c"], ["a", "c", "b"])
    0.3333333333333333
    """
    c = kendall_counts(a, b)
    untied = c.concordant + c.discordant
    # Pairs untied in a are those tied in b only, and the other way round. Python's integers do not overflow.
    below = math.sqrt((untied + c.tied_second) * (untied + c.tied_first))
    if below == 0:
        return math.nan
    return max(-1.0, min(1.0, (c.concordant - c.discordant) / below))


def kendall_distance(a: Ranking, b: Ranking, *, normalize: bool = False) -> float:
    """Return the number of discordant pairs, or their share of the pairs that are untied in both rankings.

    Parameters
    ----------
    a, b : rankings
        Lists of items, mappings from item to rank, or arrays of ranks; both over the same items.
    normalize : bool
        Return D = discordant / (concordant + discordant), in [0, 1]; nan when no pair is untied in both.

    Notes
    -----
    O(M log M) for M items.

    Examples
    --------
    >>> kendall_distance(["a", "b", "c"], ["c", "b", "a"])
    3.0
    >>> kendall_distance({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 3, "c": 2}, normalize=True)
    0.3333333333333333
    """
    c = kendall_counts(a, b)
    if not normalize:
        return float(c.discordant)
    untied = c.concordant + c.discordant
    return c.discordant / untied if untied else math.nan


def spearman(a: Ranking, b: Ranking) -> float:
    """Return Spearman's rank correlation, from −1 to 1: Pearson's correlation of the average ranks.

    It is not a number (nan) when one of the rankings ties all items.

    Parameters
    ----------
    a, b : rankings
        Lists of items, mappings from item to rank, or arrays of ranks; both over the same items.

    Notes
    -----
    O(M log M) for M items.

    Examples
    --------
    >>> spearman(["a", "b", "c"], ["c", "b", "a"])
    -1.0
    """
    x, y = (_average(r) for r in _paired(a, b))
    x, y = x - (len(x) + 1) / 2, y - (len(y) + 1) / 2
    below = math.sqrt(float(x @ x) * float(y @ y))
    if below == 0:
        return math.nan
    return max(-1.0, min(1.0, float(x @ y) / below))


def footrule(a: Ranking, b: Ranking, *, normalize: bool = False) -> float:
    """Return Spearman's footrule: the sum over items of the difference of their positions. Ties share the average.

    Parameters
    ----------
    a, b : rankings
        Lists of items, mappings from item to rank, or arrays of ranks; both over the same items.
    normalize : bool
        Divide by floor(M²/2), the footrule of a ranking and its reverse; 0 for fewer than two items.

    Notes
    -----
    O(M log M) for M items.

    Examples
    --------
    >>> footrule(["a", "b", "c"], ["c", "b", "a"]), footrule(["a", "b"], ["b", "a"], normalize=True)
    (4.0, 1.0)
    """
    x, y = (_average(r) for r in _paired(a, b))
    total = float(np.abs(x - y).sum())
    if not normalize:
        return total
    return total / max(len(x) ** 2 // 2, 1)


def top_k_counts(a: Iterable[Any], b: Iterable[Any]) -> TopKCounts:
    """Return the terms V, U, r and z of the distance of two top-k lists; see `top_k_distance`.

    Examples
    --------
    >>> top_k_counts(["d", "e", "c"], ["a", "b", "c"])
    TopKCounts(v=2, u=2, r=2, z=1)
    """
    first, second = _strict_list(a, "first"), _strict_list(b, "second")
    k = len(first)
    if len(second) != k:
        raise DataError(
            f"the top-k distance compares lists of one length. Got {k} and {len(second)} items; cut both to the same k."
        )
    place = {item: i for i, item in enumerate(second)}
    in_second = np.array([place.get(item, -1) for item in first], dtype=np.int64)
    common = in_second >= 0
    z = int(common.sum())
    # For each item of the first list, the number of common items below it.
    below = z - np.cumsum(common)
    missing_above = np.ones(k + 1, dtype=np.int64)
    missing_above[in_second[common]] = 0
    # missing_above[i]: number of items above position i of the second list that the first list lacks.
    missing_above[1:] = np.cumsum(missing_above[:k])
    missing_above[0] = 0
    v = _inversions(in_second[common]) + int(missing_above[in_second[common]].sum())
    return TopKCounts(v, int(below[~common].sum()), k - z, z)


def top_k_distance(a: Iterable[Any], b: Iterable[Any]) -> float:
    """Return the Kendall distance of two top-k lists over possibly different items: V + U + r(r + 1)/2.

    With Z the z common items and r = k − z: V counts, for each common item x, the common items that a has
    below x and b above, and the items only in b that b has above x; U counts, for each item only in a, the
    common items below it in a. It is Kendall's distance when the lists hold the same items, k(k + 1)/2 when
    they share none, and symmetric, but it is not a metric: the triangle inequality can fail.

    Parameters
    ----------
    a, b : lists of items
        Best first, of one length k, without ties.

    Notes
    -----
    O(k log k). Equals Fagin's K^(0) minus r(r − 1)/2 (Klementiev, Roth and Small, LR4IR 2008).

    Examples
    --------
    >>> top_k_distance(["a", "d", "b"], ["a", "b", "c"])
    2.0
    """
    return float(top_k_counts(a, b).distance)


def rank_biased_overlap(a: Ranking, b: Ranking, *, p: float = 0.9, ties: str = "a") -> float:
    """Return the extrapolated rank-biased overlap of two lists, from 0 (nothing shared) to 1 (the same list).

    RBO = (1 − p) Σ_{d ≥ 1} p^(d−1) A_d, where A_d is the agreement of the lists down to depth d. The lists
    may differ in length s ≤ l and in items. Down to s, A_d is measured; from s to l the shorter list is
    continued as if it agreed as at s; beyond l the agreement stays what it is at l (RBO_ext of Webber,
    Moffat and Zobel, 2010).

    An item of a group of g tied items that begins at depth t counts c_d = 0 before t, (d − t + 1)/g inside
    the group and 1 after it, and with X_d = Σ c_d(a) c_d(b) over the items

    - ``"a"``: A_d = X_d / d, which for lists of equal length is the mean of RBO over all ways to break the ties;
    - ``"b"``: A_d = X_d / sqrt(Σ c_d(a)² Σ c_d(b)²), which corrects for the ties: a list agrees with itself;
    - ``"w"``: a tied group counts as a whole from its first depth on, A_d = 2 X_d / (Σ c_d(a) + Σ c_d(b)).

    The continuation of the shorter list adds (d − s) A_s times the mean of c_d over those items of the
    longer list that the shorter lacks and that have begun (Corsi and Urbano, SIGIR 2024). Without ties the
    three are one.

    Parameters
    ----------
    a, b : rankings
        Lists of items (nested lists or sets are ties) or mappings from item to rank.
    p : float
        Persistence: the weight of depth d is (1 − p) p^(d−1), so 0.9 puts 86 % on the first ten.
    ties : {"a", "b", "w"}
        What tied items mean: an unknown order, an unknown order corrected for, or the same place.

    Notes
    -----
    O(l) beyond the sort of the ranks. Two empty lists agree (1); an empty and a non-empty one do not (0).

    Examples
    --------
    >>> rank_biased_overlap(["a", "b", "c"], ["a", "b", "c"])
    1.0
    >>> round(rank_biased_overlap(["a", "b", "c"], ["b", "a", "c"], p=0.5), 6)
    0.5
    """
    if isinstance(p, bool) or not isinstance(p, (int, float, np.number)) or not 0 < p < 1:
        raise ParameterError.invalid("p", "rank_biased_overlap", "a number between 0 and 1, both excluded", p)
    if ties not in ("a", "b", "w"):
        raise ParameterError.invalid("ties", "rank_biased_overlap", "one of 'a', 'b', 'w'", ties)
    short, long = sorted((_groups(_ranks_of(a, "first")), _groups(_ranks_of(b, "second"))), key=len)
    s, n = len(short), len(long)
    if s == 0:
        return 1.0 if n == 0 else 0.0
    depth = np.arange(1, n + 1, dtype=np.float64)
    overlap, short_size, long_size, unseen = _agreement_parts(short, long, ties)
    if ties == "a":
        norm = depth
    elif ties == "b":
        norm = np.sqrt(short_size) * np.sqrt(long_size)
    else:
        norm = (short_size + long_size) / 2
    at_s = float(overlap[s - 1] / norm[s - 1])
    extended = overlap + np.maximum(depth - s, 0) * at_s * unseen
    beyond = float(overlap[-1] + (n - s) * at_s) / n
    weight = (1.0 - p) * p ** (depth - 1.0)
    return min(1.0, float(weight @ (extended / norm)) + p**n * beyond)


@dataclass(frozen=True)
class _Spans:
    """The items of a list with the first and last depth of their tie groups."""

    top: dict[Hashable, int]
    bottom: dict[Hashable, int]

    def __len__(self) -> int:
        return len(self.top)


def _groups(ranks: dict[Hashable, float]) -> _Spans:
    """Return the depths over which each item's tie group reaches."""
    items = sorted(ranks, key=ranks.__getitem__)
    values = np.array([ranks[i] for i in items], dtype=np.float64)
    top = np.searchsorted(values, values, side="left") + 1
    bottom = np.searchsorted(values, values, side="right")
    return _Spans(dict(zip(items, top.tolist(), strict=True)), dict(zip(items, bottom.tolist(), strict=True)))


def _agreement_parts(short: _Spans, long: _Spans, ties: str) -> tuple[Floats, Floats, Floats, Floats]:
    """Return, for every depth of the longer list: X_d, the two sizes that normalise it, and the mean unseen share.

    At any depth at most one group of each list is half open, so X_d needs only four whole numbers per
    depth: common items closed in both lists, half open in one of them, and half open in both.
    """
    n = len(long)
    common = [i for i in short.top if i in long.top]
    s_top, s_end = (_column(d, common) for d in (short.top, short.bottom))
    l_top, l_end = (_column(d, common) for d in (long.top, long.bottom))
    only = [i for i in long.top if i not in short.top]
    o_top, o_end = _column(long.top, only), _column(long.bottom, only)
    never = n + 1
    if ties == "w":
        overlap = _alive(np.maximum(s_top, l_top), never, n).astype(np.float64)
        unseen = (_alive(o_top, never, n) > 0).astype(np.float64)
        return overlap, _begun(short, n), _begun(long, n), unseen
    share_s, share_l = _open_share(short, n), _open_share(long, n)
    closed = _alive(np.maximum(s_end, l_end), never, n)
    open_s = _alive(np.maximum(s_top, l_end), s_end, n)
    open_l = _alive(np.maximum(l_top, s_end), l_end, n)
    open_both = _alive(np.maximum(s_top, l_top), np.minimum(s_end, l_end), n)
    overlap = closed + share_s * open_s + share_l * open_l + share_s * share_l * open_both
    full, half = _alive(o_end, never, n), _alive(o_top, o_end, n)
    unseen = (full + share_l * half) / np.maximum(full + half, 1)
    return overlap, _squares(short, n), _squares(long, n), unseen


def _column(of: dict[Hashable, int], items: list[Hashable]) -> Ints:
    return np.array([of[i] for i in items], dtype=np.int64)


def _alive(start: Ints, stop: Ints | int, n: int) -> Ints:
    """Return for depths 1..n how many intervals [start, stop) hold them; an empty interval holds none."""
    stop = np.broadcast_to(np.asarray(stop, dtype=np.int64), start.shape)
    real = start < stop
    change = np.bincount(start[real], minlength=n + 2) - np.bincount(stop[real], minlength=n + 2)
    return np.cumsum(change)[1 : n + 1]


def _groups_by_depth(spans: _Spans, n: int) -> tuple[Ints, Ints]:
    """Return for depths 1..n the first and last depth of the group they lie in.

    Past the end of the list every depth is a group of its own: a continued list has as many items as depths.
    """
    top, bottom = np.arange(1, n + 1), np.arange(1, n + 1)
    top[: len(spans)] = sorted(spans.top.values())
    bottom[: len(spans)] = sorted(spans.bottom.values())
    return top, bottom


def _open_share(spans: _Spans, n: int) -> Floats:
    """Return c_d of the items of the group that depth d lies in, for d = 1..n."""
    top, bottom = _groups_by_depth(spans, n)
    share: Floats = (np.arange(1, n + 1) - top + 1) / (bottom - top + 1)
    return share


def _squares(spans: _Spans, n: int) -> Floats:
    """Return Σ c_d² over the items of a list, for d = 1..n."""
    top, bottom = _groups_by_depth(spans, n)
    inside = (np.arange(1, n + 1) - top + 1).astype(np.float64)
    squares: Floats = inside * inside / (bottom - top + 1) + (top - 1)
    return squares


def _begun(spans: _Spans, n: int) -> Floats:
    """Return how many items belong to a group that begins at depth d or before, for d = 1..n."""
    return _groups_by_depth(spans, n)[1].astype(np.float64)


def _inversions(codes: Ints) -> int:
    """Return the number of pairs i < j with codes[i] > codes[j], for whole numbers >= 0."""
    return int(inversions(codes, np.array([0, len(codes)], dtype=np.int64))[0])


def _tied_pairs(codes: Ints) -> int:
    counts = np.unique(codes, return_counts=True)[1].astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())


def _average(ranks: Floats) -> Floats:
    return list_positions(ranks, np.array([0, len(ranks)], dtype=np.int64), "average")


def _paired(a: Ranking, b: Ranking) -> tuple[Floats, Floats]:
    """Return the ranks of the same items in both rankings."""
    if isinstance(a, np.ndarray) != isinstance(b, np.ndarray):
        raise DataError("an array of ranks is paired by index and can only be compared with another array.")
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.ndim != 1 or a.shape != b.shape:
            raise DataError(f"arrays of ranks must be one-dimensional and of one length. Got {a.shape} and {b.shape}.")
        x, y = a.astype(np.float64), b.astype(np.float64)
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise DataError("arrays of ranks must hold finite numbers only; leave out items that are not ranked.")
        return x, y
    first, second = _ranks_of(a, "first"), _ranks_of(b, "second")
    if first.keys() != second.keys():
        raise DataError(
            "the rankings hold different items: "
            f"only the first has {listing([i for i in first if i not in second], 5)}, "
            f"only the second has {listing([i for i in second if i not in first], 5)}. "
            "Cut both to the common items, or use top_k_distance or rank_biased_overlap."
        )
    x = np.array(list(first.values()), dtype=np.float64)
    return x, np.array([second[i] for i in first], dtype=np.float64)


def _ranks_of(ranking: Ranking, which: str) -> dict[Hashable, float]:
    """Return item -> rank of a list of items (with nested groups of ties) or of a mapping."""
    if isinstance(ranking, np.ndarray):
        raise DataError(f"the {which} ranking is an array of ranks without items; pass a list of items or a mapping.")
    if isinstance(ranking, str):
        raise DataError(f"the {which} ranking must be a list of items, not one text. Got {ranking!r}.")
    out: dict[Hashable, float] = {}
    if isinstance(ranking, Mapping):
        out = {item: float(rank) for item, rank in ranking.items()}
        bad = [item for item, rank in out.items() if not math.isfinite(rank)]
        if bad:
            raise DataError(f"the {which} ranking has ranks that are not finite numbers, for {listing(bad, 5)}.")
        return out
    for rank, entry in enumerate(ranking, start=1):
        for item in entry if isinstance(entry, (list, set, frozenset)) else (entry,):
            if item in out:
                raise DataError(
                    f"the {which} ranking holds item {item!r} twice. "
                    "A list holds items, best first; pass ranks as a NumPy array or a mapping."
                )
            out[item] = float(rank)
    return out


def _strict_list(ranking: Iterable[Any], which: str) -> list[Hashable]:
    """Return the items of a list without ties, best first."""
    ranks = _ranks_of(ranking, which)
    if len(set(ranks.values())) < len(ranks):
        raise DataError(f"the {which} ranking has ties, which the top-k distance does not know. Break them first.")
    return sorted(ranks, key=ranks.__getitem__)
