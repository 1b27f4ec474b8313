"""Elimination in rounds: the tallies of the rounds, the ties that earlier rounds break, and scores by elimination."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.base.params import one_of

__all__ = ["BREAK", "Rounds", "number_below", "without"]

BREAK = one_of("break", "keep")


class Rounds:
    """The order of the items by the tallies of the rounds so far, which breaks ties.

    Parameters
    ----------
    n : int
        The number of items.
    tolerance : float
        Up to which two tallies are equal.
    ties : {"break", "keep"}
        Whether ties of the last round are broken by earlier ones, the latest first.
    last : int64[M], optional
        What breaks the ties that are left, larger is better.
    """

    def __init__(self, n: int, tolerance: float, ties: str, last: Ints | None = None) -> None:
        self.tolerance = tolerance
        self._breaks = ties == "break"
        # Items that are equal so far share a rank; a round sorts them anew, and what it ties stays in order.
        self._rank: Ints = np.zeros(n, dtype=np.int64) if last is None else last.astype(np.int64)
        self._order: Ints = np.argsort(self._rank, kind="stable")

    def add(self, votes: Floats, items: Ints | None = None) -> None:
        """Record the tallies of a round, of some items only if the others are not asked for any more."""
        if items is not None and len(items) < len(self._order):
            left = np.zeros(len(self._rank), dtype=np.bool_)
            left[items] = True
            self._order = self._order[left[self._order]]
        own = votes[self._order]
        by = np.argsort(own, kind="stable")
        gap = np.diff(own[by], prepend=own[by[:1]])
        larger = gap > self.tolerance
        if (gap[~larger] > 0).any():
            level = np.empty(len(by), dtype=np.int64)
            level[by] = np.cumsum(larger)
            by = np.argsort(level, kind="stable")
        self._order = self._order[by]
        if self._breaks:
            before = self._rank[self._order]
            larger[1:] |= before[1:] != before[:-1]
        self._rank[self._order] = np.cumsum(larger)

    def worst(self, items: Ints) -> Ints:
        """Return the items with the fewest votes in the last round; ties are broken by earlier rounds, then `last`."""
        rank = self._rank[items]
        out: Ints = items[rank == rank.min()]
        return out

    def ascending(self, items: Ints) -> list[Ints]:
        """Return groups of the items, worst first."""
        rank = self._rank[items]
        by = np.argsort(rank, kind="stable")
        return np.split(items[by], np.flatnonzero(np.diff(rank[by])) + 1) if len(items) else []


def without(items: Ints, gone: Ints) -> Ints:
    """Return the items, in ascending order, that are not gone."""
    return np.delete(items, np.searchsorted(items, gone))


def number_below(ascending: Iterable[Ints], n: int) -> Floats:
    """Return for each of n items the number of items in earlier groups."""
    out = np.zeros(n)
    done = 0
    for group in ascending:
        out[group] = done
        done += len(group)
    return out
