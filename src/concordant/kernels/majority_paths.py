"""Paths of majorities: widest paths (Schulze), locked majorities (ranked pairs), and the Smith and Schwartz sets.

Strengths of majorities come as levels, 1, 2, ... from weak to strong and 0 for none: whole numbers of the smallest type
that holds them, which NumPy compares many at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Bools, Floats, Ints
from concordant.kernels.kemeny import dense_components

__all__ = ["levels", "locked_majorities", "schwartz_set", "smith_set", "widest_paths"]

# Majorities whose direction is looked up together.
_BATCH = 4096


def levels(values: Floats, slack: float, least: float = -np.inf) -> NDArray[Any]:
    """Return 1, 2, ... for the distinct values above `least` in ascending order, and 0 for all others.

    Neighbours that differ by `slack` or less are equal.

    >>> levels(np.array([[0.0, 5.0], [2.0, 0.0]]), 0.0, 0.0).tolist()
    [[0, 2], [1, 0]]
    """
    distinct = np.unique(values[values > least])
    level = np.cumsum(np.diff(distinct, prepend=-np.inf) > slack)
    top = int(level[-1]) if len(level) else 0
    kind = np.uint8 if top < 1 << 8 else np.uint16 if top < 1 << 16 else np.uint32
    out = np.zeros(values.shape, dtype=kind)
    above = values > least
    out[above] = level[np.searchsorted(distinct, values[above])]
    return out


def widest_paths(level: NDArray[Any]) -> NDArray[Any]:
    """Return the strength of the widest path from each item to each other, 0 where there is none.

    A path is as strong as its weakest majority. This is Floyd and Warshall's algorithm with n steps on whole tables:
    O(n³), about a quarter of a second for 1,000 items.

    >>> widest_paths(np.array([[0, 3, 0], [0, 0, 2], [1, 0, 0]], dtype=np.uint8)).tolist()
    [[0, 3, 2], [1, 0, 2], [1, 1, 0]]
    """
    path = level.copy()
    through = np.empty_like(path)
    for k in range(len(path)):
        np.minimum(path[:, k, None], path[k], out=through)
        np.maximum(path, through, out=path)
    np.fill_diagonal(path, 0)
    return path


def locked_majorities(level: NDArray[Any]) -> Bools:
    """Return which item precedes which after majorities are locked from the strongest to the weakest.

    A majority is locked unless locked ones contradict it: a path of them leads from its loser to its winner. Equal ones
    that nothing contradicts are locked together, except for those on a cycle of these and of locked ones. The table is
    transitive. O(n³) for all.

    >>> locked_majorities(np.array([[0, 3, 0], [0, 0, 2], [1, 0, 0]], dtype=np.uint8)).astype(int).tolist()
    [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    >>> locked_majorities(np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=np.uint8)).any()
    np.False_
    """
    ahead = np.eye(len(level), dtype=np.bool_)
    winner, loser = np.nonzero(level)
    strength = level[winner, loser]
    order = np.argsort(strength, kind="stable")[::-1]
    winner, loser, strength = winner[order], loser[order], strength[order]
    # One group is never divided between two batches.
    ends = np.flatnonzero(np.diff(strength, append=0)) + 1
    start = 0
    while start < len(strength):
        stop = int(ends[np.searchsorted(ends, min(start + _BATCH, len(strength)))])
        rows = start + _open(ahead, winner[start:stop], loser[start:stop])
        for group in np.split(rows, np.flatnonzero(np.diff(strength[rows])) + 1):
            _lock(ahead, winner[group], loser[group])
        start = stop
    np.fill_diagonal(ahead, False)
    return ahead


def _open(ahead: Bools, winner: Ints, loser: Ints) -> Ints:
    """Return the majorities that the locked ones neither imply nor contradict."""
    return np.flatnonzero(~(ahead[winner, loser] | ahead[loser, winner]))


def _lock(ahead: Bools, winner: Ints, loser: Ints) -> None:
    """Lock a group of equal majorities."""
    chosen = _open(ahead, winner, loser)
    winner, loser = winner[chosen], loser[chosen]
    if len(winner) > 1:
        nodes, place = np.unique(np.concatenate([winner, loser]), return_inverse=True)
        first, second = np.split(place, 2)
        table = ahead[np.ix_(nodes, nodes)]
        table[first, second] = True
        group = dense_components(table)
        apart = group[first] != group[second]
        winner, loser = winner[apart], loser[apart]
    if len(winner) > len(ahead):
        ahead[winner, loser] = True
        _close(ahead)
        return
    for a, b in zip(winner.tolist(), loser.tolist(), strict=True):
        if not ahead[a, b]:
            ahead[ahead[:, a] & ~ahead[:, b]] |= ahead[b]


def _close(ahead: Bools) -> None:
    """Make a table without cycles transitive."""
    bits = np.packbits(ahead, axis=1)
    # Numbers of components follow the arrows.
    for i in np.argsort(-dense_components(ahead), kind="stable").tolist():
        bits[i] = np.bitwise_or.reduce(bits[ahead[i]], axis=0)
    ahead[:] = np.unpackbits(bits, axis=1, count=len(ahead)).view(np.bool_)


def smith_set(beats: Bools) -> Bools:
    """Return which items are in the smallest set whose members all beat every other item.

    >>> smith_set(np.array([[0, 1, 0], [0, 0, 0], [0, 1, 0]], dtype=bool)).tolist()
    [True, False, True]
    """
    unbeaten = ~beats.T
    np.fill_diagonal(unbeaten, False)
    # This graph has an arrow between any two items, so that its components stand in a row.
    out: Bools = dense_components(unbeaten) == 0
    return out


def schwartz_set(beats: Bools) -> Bools:
    """Return which items are in a smallest set whose members no other item beats.

    >>> schwartz_set(np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=bool)).tolist()
    [True, False, True]
    """
    group = dense_components(beats)
    beaten = (beats & (group[:, None] != group[None, :])).any(axis=0)
    out: Bools = ~np.isin(group, group[beaten])
    return out
