"""Sorting, ranking with ties, rank transforms and exact sums over many lists at once, in NumPy.

Lists are concatenated in flat arrays; `offsets` (int64, one more than there are lists) says where each begins. No sum
runs across two lists, so a list gives the same bits alone and together with others.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import frexp, ldexp
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Floats, Ints

TIES = ("min", "max", "average", "dense", "ordinal")

# Above this mean length one argsort per list is faster than one lexsort of all rows.
_LOOP_LENGTH = 96
# For a single list shorter than this, sorting is faster than checking whether it is sorted.
_LOOK_FIRST = 1000
# Twice this is still a finite number.
_BELOW_OVERFLOW = 1e300


def ranges(starts: Ints, ends: Ints) -> Ints:
    """Return arange(starts[0], ends[0]), arange(starts[1], ends[1]), ... end to end.

    >>> ranges(np.array([5, 0]), np.array([7, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    lengths = ends - starts
    total = int(lengths.sum())
    out = np.arange(total, dtype=np.int64)
    out += np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return out


def offsets_of(lengths: NDArray[Any]) -> Ints:
    """Return the offsets of lists of these lengths.

    >>> offsets_of(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    out = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def list_ids(offsets: Ints) -> Codes:
    """Return for every row the number of its list."""
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))


def boundaries(offsets: Ints, n: int) -> NDArray[np.bool_]:
    """Return a mask of the n rows that is true where a list begins."""
    first = np.zeros(n, dtype=np.bool_)
    starts = offsets[:-1]
    first[starts[starts < n]] = True
    return first


def list_sums(values: NDArray[Any], offsets: Ints) -> NDArray[Any]:
    """Return the sum of the values of every list, 0 for an empty one.

    >>> list_sums(np.array([1.0, 2.0, 5.0]), np.array([0, 2, 2, 3])).tolist()
    [3.0, 0.0, 5.0]
    """
    return _reduced(np.add, values, offsets)


def list_maxima(values: NDArray[Any], offsets: Ints) -> NDArray[Any]:
    """Return the largest value of every list, 0 for an empty one."""
    return _reduced(np.maximum, values, offsets)


def _reduced(function: np.ufunc, values: NDArray[Any], offsets: Ints) -> NDArray[Any]:
    out = np.zeros(len(offsets) - 1, dtype=values.dtype)
    # `reduceat` would give an empty list the value of the next one.
    full = np.flatnonzero(offsets[1:] > offsets[:-1])
    if len(full):
        out[full] = function.reduceat(values, offsets[full])
    return out


def order_lists(key: NDArray[Any], offsets: Ints, *, stable: bool = True) -> Ints:
    """Return row numbers that sort every list by `key` ascending, equal keys in row order.

    Cost O(R) when every list is sorted already, else O(R log m) for lists of length m. With `stable=False`, which is
    several times faster for long lists, equal keys come in any order.

    >>> order_lists(np.array([3.0, 1.0, 1.0, 2.0, 0.0]), np.array([0, 3, 5])).tolist()
    [1, 2, 0, 4, 3]
    """
    order = _order_unsorted(key, offsets, stable=stable)
    return np.arange(len(key), dtype=np.int64) if order is None else order


def sort_within_groups(order: Ints, starts: Ints) -> None:
    """Sort the row numbers of every group in place; groups lie end to end and begin at `starts`.

    >>> order = np.array([4, 2, 0, 3, 1])
    >>> sort_within_groups(order, np.array([0, 2, 3]))
    >>> order.tolist()
    [2, 4, 0, 1, 3]
    """
    sizes = np.diff(starts, append=len(order))
    large = np.flatnonzero(sizes > 1)
    starts, sizes = starts[large], sizes[large]
    at = ranges(starts, starts + sizes)
    # One sort of group and row in one number is many times quicker than sorting by two keys.
    packed = np.repeat(np.arange(len(large), dtype=np.int64) << 32, sizes)
    packed |= order[at]
    packed.sort()
    packed &= 0xFFFFFFFF
    order[at] = packed


def _order_unsorted(key: NDArray[Any], offsets: Ints, *, stable: bool = True) -> Ints | None:
    """Return the order of `order_lists`, or None when the rows are in order already."""
    n = len(key)
    n_lists = len(offsets) - 1
    if n_lists == 1 and n < _LOOK_FIRST:
        return np.argsort(key, kind="stable")
    falls = key[1:] < key[:-1]
    inner = offsets[1:-1]
    falls[inner[(inner > 0) & (inner < n)] - 1] = False
    if not falls.any():
        return None
    if n_lists == 1:
        return np.argsort(key, kind="stable")
    if n >= _LOOP_LENGTH * n_lists:
        out = np.arange(n, dtype=np.int64)
        # Only unsorted lists need a sort.
        unsorted = np.unique(np.searchsorted(offsets, np.flatnonzero(falls), side="right") - 1)
        kind: Literal["stable"] | None = "stable" if stable else None
        for start, end in zip(offsets[unsorted].tolist(), offsets[unsorted + 1].tolist(), strict=True):
            out[start:end] = key[start:end].argsort(kind=kind)
            out[start:end] += start
        return out
    return np.lexsort((key, list_ids(offsets)))


def positions(key: Floats, offsets: Ints, ties: str = "average") -> Floats:
    """Return the position (1 = smallest key) of every row in its list under a tie policy.

    Parameters
    ----------
    key : float64[R]
        Smaller is better.
    offsets : int64[L + 1]
        Where the lists begin.
    ties : {"min", "max", "average", "dense", "ordinal"}
        The position that equal keys share; "ordinal" counts on in row order.

    >>> positions(np.array([2.0, 1.0, 2.0, 5.0]), np.array([0, 4]), "average").tolist()
    [2.5, 1.0, 2.5, 4.0]
    >>> positions(np.array([2.0, 1.0, 2.0, 5.0]), np.array([0, 4]), "dense").tolist()
    [2.0, 1.0, 2.0, 3.0]
    """
    n = len(key)
    order = _order_unsorted(key, offsets)
    lengths = np.diff(offsets)
    shared = np.arange(1, n + 1, dtype=np.float64)
    shared -= np.repeat(offsets[:-1], lengths)
    if ties != "ordinal" and n:
        by_key = key if order is None else key[order]
        new = np.empty(n, dtype=np.bool_)
        np.not_equal(by_key[1:], by_key[:-1], out=new[1:])
        starts = offsets[:-1]
        new[starts[starts < n]] = True
        if not new.all():
            shared = _share(shared, np.flatnonzero(new), offsets, lengths, ties)
    if order is None:
        return shared
    out = np.empty(n, dtype=np.float64)
    out[order] = shared
    return out


def _share(ordinal: Floats, starts: Ints, offsets: Ints, lengths: Ints, ties: str) -> Floats:
    """Return the positions of sorted rows, given where the groups of equal keys begin (`starts`)."""
    n = len(ordinal)
    sizes = np.empty(len(starts), dtype=np.int64)
    np.subtract(starts[1:], starts[:-1], out=sizes[:-1])
    sizes[-1] = n - starts[-1]
    if ties == "dense":
        group = np.arange(len(starts), dtype=np.float64)
        first_group = np.searchsorted(starts, offsets[:-1])
        return np.repeat(group, sizes) - np.repeat(first_group, lengths) + 1
    # Most keys are distinct: only groups of two or more are overwritten.
    tied = np.flatnonzero(sizes > 1)
    starts, sizes = starts[tied], sizes[tied]
    step = {"min": 0.0, "max": 1.0, "average": 0.5}[ties]
    ordinal[ranges(starts, starts + sizes)] = np.repeat(ordinal[starts] + (sizes - 1) * step, sizes)
    return ordinal


def by_length(offsets: Ints) -> list[tuple[Ints, Ints]]:
    """Return (lists, rows) for every distinct list length; `rows` is (lists, length), empty lists are left out.

    Lists of one length form a rectangle, on which cumulative sums along the second axis restart for each list.
    """
    lengths = np.diff(offsets)
    out = []
    for m in np.unique(lengths[lengths > 0]).tolist():
        which = np.flatnonzero(lengths == m)
        out.append((which, offsets[which][:, None] + np.arange(m, dtype=np.int64)))
    return out


def transform_ranks(rank: Floats, offsets: Ints, transform: str) -> tuple[Floats, Floats]:
    """Return values x and the scale z of every list: (x_j - x_i) / z is how strongly a list prefers item i to item j.

    Parameters
    ----------
    rank : float64[R]
        Smaller is better.
    offsets : int64[L + 1]
        Where the lists begin.
    transform : {"binary", "count", "rankdiff", "log"}
        "count": ranks; "rankdiff": ranks, scaled by the largest rank of the list; "log": log ranks, scaled by the
        largest log rank. "binary" counts the sign of a difference, so the ranks serve as they are.

    >>> transform_ranks(np.array([1.0, 2.0, 4.0]), np.array([0, 3]), "rankdiff")
    (array([1., 2., 4.]), array([4.]))
    """
    value, scale = np.log(rank) if transform == "log" else rank, np.ones(len(offsets) - 1)
    if transform in ("rankdiff", "log") and len(rank):
        full = offsets[1:] > offsets[:-1]
        largest = np.maximum.reduceat(value, offsets[:-1][full])
        # In a list whose largest rank is 1 all logarithms are 0, and no item is preferred.
        scale[full] = np.where(largest == 0, 1.0, largest)
    return value, scale


def pair_sums(value: Floats, scale: Floats, offsets: Ints, *, binary: bool = False) -> tuple[Floats, Floats]:
    """Return the row and column sums of every list's pairwise matrix, in O(m log m) per list of m rows.

    Y(i, j) = (x_j - x_i) / z for x_i < x_j, else 0; `binary` has Y = 1 instead. Net counts, the base multinomial
    preference model and the CRF need only these sums.

    Parameters
    ----------
    value : float64[R]
        Smaller is better, as `transform_ranks` returns them.
    scale : float64[L]
        The scale of every list.
    offsets : int64[L + 1]
        Where the lists begin.
    binary : bool
        Count the pairs instead of summing their differences.

    >>> row, col = pair_sums(np.array([1.0, 2.0, 4.0]), np.ones(1), np.array([0, 3]))
    >>> row.tolist(), col.tolist()
    ([4.0, 2.0, 0.0], [0.0, 1.0, 5.0])
    """
    row, col = np.empty(len(value)), np.empty(len(value))
    for which, m, rows in _similar_lengths(offsets):
        z = scale[which][:, None]
        if isinstance(rows, slice):
            x, real = value[rows].reshape(len(m), -1), None
        else:
            real = np.arange(rows.shape[1]) < m[:, None]
            x = np.where(real, value[rows], np.inf)
        order = None
        if (x[:, 1:] < x[:, :-1]).any():
            order = np.argsort(x, axis=1, kind="stable")
            x = np.take_along_axis(x, order, axis=1)
        if real is not None:
            x = np.where(real, x, 0.0)
        up, down = _sorted_pair_sums(x, m[:, None], z, real, binary=binary)
        if order is not None:
            unsorted = np.empty_like(up), np.empty_like(down)
            np.put_along_axis(unsorted[0], order, up, axis=1)
            np.put_along_axis(unsorted[1], order, down, axis=1)
            up, down = unsorted
        if isinstance(rows, slice):
            row[rows], col[rows] = up.ravel(), down.ravel()
        else:
            at = rows[real]
            row[at], col[at] = up[real], down[real]
    return row, col


def _similar_lengths(offsets: Ints) -> Iterator[tuple[Ints, Ints, Ints | slice]]:
    """Yield groups of lists whose lengths differ by at most a quarter: the lists, their lengths, and their rows.

    The rows are a slice where the lists lie side by side and are equally long. Otherwise they form a rectangle as wide
    as the longest list, and what lies beyond the end of a shorter one is a row of another list.
    """
    lengths = np.diff(offsets)
    if len(lengths) and lengths[0] > 0 and (lengths == lengths[0]).all():
        yield np.arange(len(lengths)), lengths, slice(int(offsets[0]), int(offsets[-1]))
        return
    by_length = np.argsort(lengths, kind="stable")
    ascending = lengths[by_length]
    first = int(np.searchsorted(ascending, 1))
    while first < len(ascending):
        end = int(np.searchsorted(ascending, ascending[first] * 5 // 4, side="right"))
        which = np.sort(by_length[first:end])
        rows = offsets[which][:, None] + np.arange(ascending[end - 1])
        yield which, lengths[which], np.minimum(rows, offsets[-1] - 1)
        first = end


def _sorted_pair_sums(
    x: Floats, m: Ints, z: Floats, real: NDArray[np.bool_] | None, *, binary: bool
) -> tuple[Floats, Floats]:
    """Return the sums of `pair_sums` for a rectangle of sorted lists, each `m` long and padded with 0 beyond."""
    index = np.arange(x.shape[1])
    differs = x[:, 1:] != x[:, :-1]
    lo: Ints = index
    hi: Ints = index + 1
    untied = bool((differs if real is None else differs | ~real[:, 1:]).all())
    if not untied:
        new = np.ones(x.shape, dtype=np.bool_)
        new[:, 1:] = differs
        lo = np.maximum.accumulate(np.where(new, index, 0), axis=1)
        last = index == m - 1
        last[:, :-1] |= differs
        hi = np.minimum.accumulate(np.where(last, index + 1, m)[:, ::-1], axis=1)[:, ::-1]
    if binary:
        ahead, behind = np.broadcast_arrays(m - hi, lo, x)[:2]
        return ahead.astype(np.float64), behind.astype(np.float64)
    total = np.zeros((len(x), x.shape[1] + 1))
    np.cumsum(x, axis=1, out=total[:, 1:])
    above = total[:, 1:] if untied else np.take_along_axis(total, hi, axis=1)
    below = total[:, :-1] if untied else np.take_along_axis(total, lo, axis=1)
    row, col = total[:, -1:] - above, lo * x
    row -= (m - hi) * x
    row /= z
    col -= below
    col /= z
    return row, col


def exact_sums(
    terms: Floats, index: NDArray[Any], n: int, starts: Ints, most: NDArray[Any], *, fine: bool = False
) -> Floats:
    """Return the sum of the terms at every index 0..n-1, the same to the last bit in any order of the terms.

    Terms are first rounded to a grid that is fine enough to change only the last bits of the largest possible sum, and
    coarse enough that every sum on it is exact. Each group of rows has its own grid, so it gives the same bits alone
    and together with others.

    Parameters
    ----------
    terms : float64[R]
        The terms.
    index : int[R]
        The sum that each term belongs to.
    n : int
        The number of sums.
    starts : int64[G + 1]
        Where the groups of rows (instances) begin; no index may occur in two groups.
    most : int[G]
        The most terms of a group in one sum.
    fine : bool
        Whether the rounding errors are summed too, on a finer grid, so that small sums keep their digits beside large
        ones.

    >>> a = exact_sums(np.array([0.1, 0.2, 0.3]), np.zeros(3, int), 1, np.array([0, 3]), np.array([3]))
    >>> b = exact_sums(np.array([0.3, 0.2, 0.1]), np.zeros(3, int), 1, np.array([0, 3]), np.array([3]))
    >>> bool(a[0] == b[0]), round(float(a[0]), 12)
    (True, 0.6)
    """
    if len(terms) == 0:
        return np.zeros(n, dtype=np.float64)
    rounded = rounded_to_grid(terms, starts, most)
    out = np.bincount(index, weights=rounded, minlength=n).astype(np.float64)
    if fine:
        out += np.bincount(index, weights=rounded_to_grid(terms - rounded, starts, most), minlength=n)
    return out


def rounded_to_grid(terms: Floats, starts: Ints, most: NDArray[Any]) -> Floats:
    """Return the terms on the grid of their group, on which sums of `most` terms are exact; parameters as above."""
    # Adding and taking away 1.5 * 2**e rounds to multiples of 2**(e - 52), where bound < 2**e.
    # A sum of one term needs no grid.
    if len(most) == 1:
        # As below: for a single request numbers are quicker than arrays of one.
        bound = max(float(np.maximum.reduce(terms)), -float(np.minimum.reduce(terms))) * int(most[0])
        if bound < _BELOW_OVERFLOW:
            alone = ldexp(1.5, frexp(bound)[1]) if most[0] > 1 else 0.0
            return (terms + alone) - alone
    sizes = starts[1:] - starts[:-1]
    full = np.flatnonzero(sizes)
    # Two reductions without a temporary array: the largest magnitude is the maximum or the minimum.
    high = np.maximum.reduceat(terms, starts[full])
    low = np.minimum.reduceat(terms, starts[full])
    bounds = np.maximum(np.abs(high), np.abs(low)) * most[full]
    magic = np.where(most[full] > 1, np.ldexp(1.5, np.frexp(bounds)[1]), 0.0)
    if (magic == magic[0]).all():
        shift: Any = magic[0]
    else:
        shift = np.repeat(magic, sizes[full])
    rounded: Floats = terms + shift
    rounded -= shift
    return rounded


def standardise_within(score: Floats, offsets: Ints) -> Floats:
    """Return z-scores within each instance: (score - mean) / standard deviation; 0 where all scores are alike.

    NaN stays NaN and counts in no mean. Scores that agree to 1e-12 of the largest are alike. The result does not depend
    on the order of the items.

    >>> standardise_within(np.array([1.0, 3.0, np.nan, 5.0, 5.0]), np.array([0, 3, 5])).tolist()
    [-1.0, 1.0, nan, 0.0, 0.0]
    """
    mean, deviation = moments_within(score, offsets)
    sizes = np.diff(offsets)
    scale = np.divide(1.0, deviation, out=np.zeros(len(sizes)), where=deviation > 0)
    out: Floats = (score - np.repeat(mean, sizes)) * np.repeat(scale, sizes)
    return out


def moments_within(score: Floats, offsets: Ints) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of the scores of each instance; the latter 0 where all are alike."""
    sizes = np.diff(offsets)
    instance = list_ids(offsets)
    known = ~np.isnan(score)
    # Sorted, so that sums do not depend on the order of the items; NaN comes last and counts as 0.
    order = np.lexsort((score, instance))
    ordered = np.where(known, score, 0.0)[order]
    count = np.bincount(instance[known], minlength=len(sizes))
    full = np.flatnonzero(sizes)

    def total(values: Floats) -> Floats:
        out = np.zeros(len(sizes))
        if len(full):
            out[full] = np.add.reduceat(values, offsets[full])
        return out

    n = np.maximum(count, 1)
    mean = total(ordered) / n
    apart = np.where(known[order], ordered - mean[instance], 0.0)
    deviation = np.sqrt(total(apart * apart) / n)
    largest = np.zeros(len(sizes))
    if len(full):
        largest[full] = np.maximum.reduceat(np.abs(ordered), offsets[full])
    deviation[deviation <= 1e-12 * largest] = 0.0
    return mean, deviation
