"""Elimination in rounds: the tallies of the rounds, the ties that earlier rounds break, and scores by elimination."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.base.params import one_of

__all__ = ["BREAK", "Rounds", "number_below", "without"]

BREAK = one_of("break", "keep")


class Rounds:
    """The tallies of the rounds so far, by which ties are broken.

    Parameters
    ----------
    tolerance : float
        Up to which two tallies are equal.
    ties : {"break", "keep"}
        Whether ties of the last round are broken by earlier ones, the latest first.
    last : int64[M], optional
        What breaks the ties that are left, larger is better.
    """

    def __init__(self, tolerance: float, ties: str, last: Ints | None = None) -> None:
        self.tolerance = tolerance
        self._past: list[Floats] = []
        self._breaks = ties == "break"
        self._last = last

    def add(self, votes: Floats) -> None:
        """Record the tallies of a round."""
        self._past.append(votes.copy())

    def worst(self, items: Ints) -> Ints:
        """Return the items with the fewest votes in the last round; ties are broken by earlier rounds, then `last`."""
        out = self._lowest(items, self._past[-1])
        if self._breaks:
            for votes in reversed(self._past[:-1]):
                if len(out) == 1:
                    return out
                out = self._lowest(out, votes)
            if self._last is not None:
                out = out[self._last[out] == self._last[out].min()]
        return out

    def ascending(self, items: Ints) -> list[Ints]:
        """Return groups of the items, worst first."""
        groups = []
        while len(items):
            groups.append(self.worst(items))
            items = without(items, groups[-1])
        return groups

    def _lowest(self, items: Ints, votes: Floats) -> Ints:
        own = votes[items]
        out: Ints = items[own <= own.min() + self.tolerance]
        return out


def without(items: Ints, gone: Ints) -> Ints:
    """Return the items that are not gone."""
    return items[~np.isin(items, gone)]


def number_below(ascending: Iterable[Ints], n: int) -> Floats:
    """Return for each of n items the number of items in earlier groups."""
    out = np.zeros(n)
    done = 0
    for group in ascending:
        out[group] = done
        done += len(group)
    return out
