"""Scores that hold a whole chain of tie-breaks, so that the score alone gives the order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.kernels.lists import boundaries, list_ids, order_lists

__all__ = ["TOLERANCE", "break_ties", "dense_ranks", "merge_ties"]

# Two values are equal when they agree to this fraction of the largest of their instance, as in a consensus.
TOLERANCE = 1e-12


def dense_ranks(values: Floats | Ints, offsets: Ints, least: Floats | None = None) -> Ints:
    """Return 0, 1, 2, ... for the distinct values of every instance in ascending order.

    Whole numbers are compared exactly, others up to 1e-12 of the instance's largest magnitude, which counts as at least
    `least`, one number per instance.

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

    Those that agree with 0 become 0. Terms of both signs may cancel. What is left of them then is the rounding error of
    the terms, not of the sum.

    Parameters
    ----------
    score : float64[S]
        The sums.
    size : float64[S]
        What the magnitudes of the same terms add up to.
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
    """Return the primary values, tied ones moved apart by the keys in turn; larger is better throughout.

    Within a group of equal primary values the items are ranked by the keys and get p * step more, p = 0 for the last.
    All additions of an instance stay below half of its smallest gap between distinct primary values (and below 1/2), so
    no two groups meet. Items equal in every key stay tied. The answer depends on the values alone, not on their order.

    Parameters
    ----------
    primary : float64[S]
        The values that decide.
    keys : sequence of float64[S]
        What decides among equals, in turn.
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
    # A group of equal primary values is named by the slot at which its instance begins plus its dense rank.
    name = offsets[:-1][instance] + group
    lowest = np.full(len(primary), np.iinfo(np.int64).max)
    np.minimum.at(lowest, name, code)
    value = np.full(len(primary), np.inf)
    np.minimum.at(value, name, primary)
    place = code - lowest[name]
    steps = np.zeros(n_instances, dtype=np.int64)
    np.maximum.at(steps, instance, place)
    gap = np.ones(n_instances)
    # Groups of one instance lie side by side in `value`; names that no group has are infinite.
    inner = np.flatnonzero(np.isfinite(value[1:]) & np.isfinite(value[:-1]))
    inner = inner[instance[inner] == instance[inner + 1]]
    np.minimum.at(gap, instance[inner], value[inner + 1] - value[inner])
    out: Floats = value[name] + place * (0.5 * gap / (steps + 1))[instance]
    return out
