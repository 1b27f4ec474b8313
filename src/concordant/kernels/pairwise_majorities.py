"""Who beats whom in the lists of an instance, by compiled loops: for so many pairs that loading the compiler pays.

NumPy counts them nearly as fast (`pairs`), but in many short steps between which threads wait for the interpreter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from concordant.kernels.jit import jit

__all__ = ["majorities", "outcomes"]


@jit
def outcomes(low: Any, high: Any, wins: Any, losses: Any) -> None:
    """Add, for every item, how many others it beats and loses to; tables as in `pairs.Ballots`, one row per item.

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
    """Write the table of who beats whom; `strict` asks for more than half of all votes on the pair, ties too."""
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
