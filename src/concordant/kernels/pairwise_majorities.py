"""Pairwise majorities in the lists of an instance, in compiled loops, for instances so large that compiling pays.

NumPy (`pairwise_wins`) is nearly as fast in one thread; compiled loops free the interpreter lock for the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from concordant.kernels.jit import jit

__all__ = ["majorities", "outcomes"]


@jit
def outcomes(low: Any, high: Any, wins: Any, losses: Any) -> None:
    """Add to `wins` and `losses` how many others every item beats and loses to.

    The tables are those of `pairwise_wins.Ballots`, transposed: one row per item.

    >>> low = np.array([[1, 1, 2], [2, 3, 1], [3, 2, 3]], dtype=np.uint8)
    >>> wins, losses = np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64)
    >>> outcomes(low, low, wins, losses)
    >>> wins.tolist(), losses.tolist()
    ([2, 1, 0], [0, 1, 2])
    """
    n, n_lists = low.shape
    for i in range(n):
        first, last = low[i], high[i]
        won = lost = 0
        for j in range(i + 1, n):
            other_low, other_high = low[j], high[j]
            net: Any = 0
            for k in range(n_lists):
                net += np.int32(first[k] < other_high[k]) - np.int32(last[k] > other_low[k])
            won += net > 0
            lost += net < 0
            wins[j] += net < 0
            losses[j] += net > 0
        wins[i] += won
        losses[i] += lost


@jit
def majorities(low: Any, high: Any, strict: bool, out: Any) -> None:
    """Write the table of pairwise majorities; `strict` asks for over half of the votes on a pair, ties included."""
    n, n_lists = low.shape
    for i in range(n):
        first, last = low[i], high[i]
        out[i, i] = False
        for j in range(i + 1, n):
            other_low, other_high = low[j], high[j]
            net: Any = 0
            tied: Any = 0
            for k in range(n_lists):
                net += np.int32(first[k] < other_high[k]) - np.int32(last[k] > other_low[k])
                tied += np.int32(last[k] == other_low[k])
            least = tied if strict else 0
            out[i, j] = net > least
            out[j, i] = -net > least
