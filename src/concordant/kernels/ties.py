"""Ties of scores: dense ranks, merging scores equal up to rounding, and tie-breaks encoded in the scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.kernels.lists import boundaries, list_ids, order_lists

__all__ = ["TOLERANCE", "break_ties", "dense_ranks", "merge_ties"]

# Two values are equal when they agree to this fraction of the largest of their instance, as in `Consensus`.
TOLERANCE = 1e-12
# The share of the largest value that tie-breaks may add where values are not of the size of 1.
_UNIT = 2.0**-20


def dense_ranks(values: Floats | Ints, offsets: Ints, least: Floats | None = None) -> Ints:
    """Return 0, 1, 2, ... for the distinct values of every instance in ascending order.

    Integers are compared exactly, floats up to 1e-12 of the largest magnitude of the instance, or of `least` where that
    is larger.

    >>> dense_ranks(np.array([0.5, 0.1, 0.5, 7.0]), np.array([0, 3, 4])).tolist()
    [1, 0, 1, 0]
    """
    n = len(values)
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    order = order_lists(values, offsets)
    ordered = values[order]
    lengths = np.diff(offsets)
    full = lengths > 0
    starts, lengths = offsets[:-1][full], lengths[full]
    new = boundaries(offsets, n)
    if ordered.dtype.kind == "i":
        new[1:] |= ordered[1:] != ordered[:-1]
    else:
        size = np.maximum(np.abs(ordered[starts]), np.abs(ordered[starts + lengths - 1]))
        if least is not None:
            size = np.maximum(size, least[full])
        new[1:] |= ordered[1:] - ordered[:-1] > np.repeat(TOLERANCE * size, lengths)[1:]
    group = np.cumsum(new)
    out = np.empty(n, dtype=np.int64)
    out[order] = group - np.repeat(group[starts], lengths)
    return out


def merge_ties(score: Floats, size: Floats, offsets: Ints) -> Floats:
    """Return the scores, made equal where they agree to 1e-12 of the largest size of their instance.

    Those that agree with 0 become 0. Terms of both signs may cancel, and then the rounding error of the sum is as large
    as that of its terms.

    Parameters
    ----------
    score : float64[S]
        The sums.
    size : float64[S]
        The sums of the magnitudes of the same terms.
    offsets : int64[N + 1]
        Where the instances begin.

    >>> left = np.array([0.1 + 0.2 - 0.3, 0.0, 1.0])
    >>> merge_ties(left, np.array([0.6, 0.0, 1.0]), np.array([0, 3])).tolist()
    [0.0, 0.0, 1.0]
    """
    instance = list_ids(offsets)
    largest = np.zeros(len(offsets) - 1)
    np.maximum.at(largest, instance, np.minimum(size, np.finfo(np.float64).max))
    name = offsets[:-1][instance] + dense_ranks(score, offsets, largest)
    common, nearest = np.full(len(score), -np.inf), np.full(len(score), np.inf)
    np.maximum.at(common, name, score)
    np.minimum.at(nearest, name, np.abs(score))
    common[nearest <= TOLERANCE * largest[instance]] = 0.0
    out: Floats = common[name]
    return out


def break_ties(primary: Floats, keys: Sequence[Floats], offsets: Ints) -> Floats:
    """Return the primary values with ties broken by the keys in turn; larger is better in all of them.

    Within a group of equal primary values the items are ranked by the keys and get p * step added, p = 0 for the last.
    All additions stay below half of the smallest gap between distinct primary values of the instance, so groups keep
    their order, and below 1/2 unless the values are far larger or smaller than 1. Items equal in every key stay tied.
    The answer does not depend on the order of items.

    Parameters
    ----------
    primary : float64[S]
        The values to order by.
    keys : sequence of float64[S]
        The tie-breaks, in turn.
    offsets : int64[N + 1]
        Where the instances begin.

    >>> break_ties(np.array([3.0, 1.0, 1.0]), [np.array([0.0, 5.0, 9.0])], np.array([0, 3])).tolist()
    [3.0, 1.0, 1.25]
    """
    if len(primary) == 0:
        return primary.astype(np.float64)
    group = dense_ranks(primary, offsets)
    code = group
    for key in keys:
        code = dense_ranks(code * (len(primary) + 1) + dense_ranks(key, offsets), offsets)
    if np.array_equal(code, group):
        return primary.astype(np.float64)
    instance = list_ids(offsets)
    n_instances = len(offsets) - 1
    # The id of a group of equal primary values: the first slot of its instance plus its dense rank.
    name = offsets[:-1][instance] + group
    lowest = np.full(len(primary), np.iinfo(np.int64).max)
    np.minimum.at(lowest, name, code)
    value = np.full(len(primary), np.inf)
    np.minimum.at(value, name, primary)
    place = code - lowest[name]
    steps = np.zeros(n_instances, dtype=np.int64)
    np.maximum.at(steps, instance, place)
    largest = np.zeros(n_instances)
    np.maximum.at(largest, instance, np.abs(primary))
    # Beside values such as 1e15, votes in a small unit, an addition of 1/2 would be within the tolerance of ties.
    usual = (largest == 0) | ((largest > _UNIT) & (largest < 1 / _UNIT))
    gap = np.where(usual, 1.0, largest * _UNIT)
    # Groups of one instance are adjacent in `value`; unused ids are infinite.
    inner = np.flatnonzero(np.isfinite(value[1:]) & np.isfinite(value[:-1]))
    inner = inner[instance[inner] == instance[inner + 1]]
    np.minimum.at(gap, instance[inner], value[inner + 1] - value[inner])
    out: Floats = value[name] + place * (0.5 * gap / (steps + 1))[instance]
    return out
