"""Preparation of Plackett-Luce rankings: merging equal lists, expanding rests, existence of the maximum.

Plain NumPy on the flat arrays of `Rankings`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Ints
from concordant.kernels import lists
from concordant.kernels.graph import strong_components, weak_components
from concordant.kernels.plackett_luce import Rankings
from concordant.kernels.splitmix64 import hashed

__all__ = ["Separation", "merged", "separation", "expanded"]

# Equal lists are merged from this many lists on, if at most this share of a sample is distinct.
_MERGE_FROM, _MERGE_BELOW = 256, 0.9


def merged(rankings: Rankings) -> Rankings:
    """Merge equal lists into one with the sum of their weights, where a sample shows that there are many."""
    n = len(rankings.weight)
    if n < _MERGE_FROM:
        return rankings
    lengths = np.diff(rankings.offsets)
    sample = np.linspace(0, n - 1, _MERGE_FROM).astype(np.int64)
    if len(np.unique(_fingerprints(rankings, sample))) > _MERGE_BELOW * _MERGE_FROM:
        return rankings
    fingerprints = _fingerprints(rankings, np.arange(n))
    _, chosen, group = np.unique(fingerprints, return_index=True, return_inverse=True)
    # Compare row by row: equal fingerprints alone do not prove equal lists.
    twin = chosen[group]
    same = (lengths[twin] == lengths).all() and (rankings.form[twin] == rankings.form).all()
    if same:
        rows = lists.ranges(rankings.offsets[twin], rankings.offsets[twin + 1])
        same = bool((rankings.item[rows] == rankings.item).all() and (rankings.mark[rows] == rankings.mark).all())
    if not same:
        return rankings
    # In order of first appearance, so that sums run in the same order as without merging.
    order = np.argsort(chosen)
    chosen = chosen[order]
    rows = lists.ranges(rankings.offsets[chosen], rankings.offsets[chosen + 1])
    return rankings._replace(
        item=rankings.item[rows],
        mark=rankings.mark[rows],
        offsets=lists.offsets_of(lengths[chosen]),
        weight=np.bincount(group, weights=rankings.weight)[order].astype(np.float64),
        form=rankings.form[chosen],
    )


def _fingerprints(rankings: Rankings, which: Ints) -> NDArray[np.uint64]:
    """Return a hash of each of the lists `which`, equal for equal lists."""
    starts, ends = rankings.offsets[which], rankings.offsets[which + 1]
    rows = lists.ranges(starts, ends)
    offsets = lists.offsets_of(ends - starts)
    place = np.arange(len(rows), dtype=np.uint64) - np.repeat(offsets[:-1], ends - starts).astype(np.uint64)
    content = rankings.item[rows].astype(np.uint64) * np.uint64(4) + rankings.mark[rows]
    row = hashed(hashed(place) ^ content)
    return np.add.reduceat(row, offsets[:-1])


def expanded(rankings: Rankings, size: int, which: Ints) -> Rankings:
    """Return the rankings with the rest of the lists `which` expanded into rows."""
    lengths = np.diff(rankings.offsets)
    held = np.zeros((len(which), size), dtype=np.bool_)
    rows = lists.ranges(rankings.offsets[which], rankings.offsets[which + 1])
    held[np.repeat(np.arange(len(which)), lengths[which]), rankings.item[rows]] = True
    _, below = np.nonzero(~held)
    more = np.zeros(len(lengths), dtype=np.int64)
    more[which] = size - lengths[which]
    offsets = lists.offsets_of(lengths + more)
    old = lists.ranges(offsets[:-1], offsets[:-1] + lengths)
    new = lists.ranges(offsets[:-1] + lengths, offsets[1:])
    item, mark = np.empty(offsets[-1], dtype=np.int32), np.zeros(offsets[-1], dtype=np.uint8)
    item[old], mark[old] = rankings.item, rankings.mark
    item[new] = below
    mark[(offsets[:-1] + lengths)[which]] = 2
    form = rankings.form.copy()
    form[which] = 1
    return rankings._replace(item=item, mark=mark, offsets=offsets, form=form)


# Whether a maximum exists.


class Separation(NamedTuple):
    """Groups of items whose scores run off to infinity: disconnected, always above, or always below the others."""

    disconnected: list[Ints]
    above: list[Ints]
    below: list[Ints]


def separation(rankings: Rankings, size: int) -> Separation | None:
    """Return the groups of items whose scores have no finite estimate, None where the maximum exists.

    In the graph of items, an arrow runs from each item to those chosen after it; averaged ties have arrows both ways. A
    block of a partition has arrows only once all its items are in one component, because a single one of them may have
    been chosen. So components are found and joined until nothing changes.
    """
    if size < 2:
        return None
    if not (rankings.weight > 0).all():
        rankings = _positive_weight(rankings)
    item, mark = rankings.item, rankings.mark
    inside = np.flatnonzero(~lists.boundaries(rankings.offsets, len(item))[1:])
    if not rankings.form.any() and strong_components(item[inside], item[inside + 1], size).max() == 0:
        return None
    starts = np.flatnonzero(mark)
    block = np.cumsum(mark != 0) - 1
    chosen = mark[starts] == 1
    heads_list = lists.boundaries(rankings.offsets, len(item))
    # The rows of a block that follows another one in its list.
    follows = ~heads_list[starts][block]
    none = np.zeros(0, dtype=np.int64)
    tied_tail, tied_head = none, none
    if rankings.averaged and (mark == 0).any():
        same = np.flatnonzero((block[1:] == block[:-1]) & chosen[block[:-1]])
        ends = np.append(starts[1:], len(item)) - 1
        wide = np.flatnonzero(chosen & (ends > starts))
        tied_tail = np.concatenate([item[same], item[ends[wide]]])
        tied_head = np.concatenate([item[same + 1], item[starts[wide]]])
    label = np.arange(size)
    while True:
        count = int(label.max()) + 1
        own = label[item]
        low = np.minimum.reduceat(own, starts)
        solid = chosen & (low == np.maximum.reduceat(own, starts))
        linked = follows & solid[block - 1]
        tail = np.concatenate([low[block[linked] - 1], label[tied_tail]])
        head = np.concatenate([own[linked], label[tied_head]])
        rest_tail, rest_head = _rest_arrows(rankings, low, solid, block, size)
        tail, head = np.concatenate([tail, rest_tail]), np.concatenate([head, label[rest_head]])
        joined = strong_components(tail, head, count)
        if joined.max() == 0:
            return None
        label = joined[label].astype(np.int64)
        if int(label.max()) + 1 == count:
            break
    groups = [np.flatnonzero(label == g) for g in range(count)]
    near = weak_components(item[inside], item[inside + 1], size)
    if near.max() > 0 and not (rankings.form == 2).any():
        return Separation([np.flatnonzero(near == g) for g in range(int(near.max()) + 1)], [], [])
    across = joined[tail] != joined[head]
    leaving, reached = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    leaving[joined[tail[across]]] = True
    reached[joined[head[across]]] = True
    above = [g for g, r in zip(groups, reached, strict=True) if not r and 2 * len(g) <= size]
    below = [g for g, r in zip(groups, leaving, strict=True) if not r and 2 * len(g) <= size]
    return Separation([], above, below)


def _rest_arrows(rankings: Rankings, low: Ints, solid: NDArray[np.bool_], block: Ints, size: int) -> tuple[Ints, Ints]:
    """Return the arrows from the last block of each list to every item of its rest."""
    last = block[rankings.offsets[1:] - 1]
    which = np.flatnonzero((rankings.form == 2) & solid[last])
    if not len(which):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    tails, group, n_lists = np.unique(low[last[which]], return_inverse=True, return_counts=True)
    lengths = np.diff(rankings.offsets)[which]
    rows = lists.ranges(rankings.offsets[which], rankings.offsets[which + 1])
    held = np.bincount(np.repeat(group, lengths) * size + rankings.item[rows], minlength=len(tails) * size)
    tail, head = np.nonzero(held.reshape(len(tails), size) < n_lists[:, None])
    return tails[tail], head


def _positive_weight(rankings: Rankings) -> Rankings:
    """Return the lists with a weight above 0."""
    kept = np.flatnonzero(rankings.weight > 0)
    rows = lists.ranges(rankings.offsets[kept], rankings.offsets[kept + 1])
    return rankings._replace(
        item=rankings.item[rows],
        mark=rankings.mark[rows],
        offsets=lists.offsets_of(np.diff(rankings.offsets)[kept]),
        weight=rankings.weight[kept],
        form=rankings.form[kept],
        theta=rankings.theta[kept] if len(rankings.theta) else rankings.theta,
    )
