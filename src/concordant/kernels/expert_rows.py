"""Linear scores of slots from sparse expert rows, and ranks by these scores: inner loops of the trained aggregators.

Rows lie slot by slot (`starts`); a row has a block of weights and d numbers, and adds their inner product.
"""

from __future__ import annotations

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.jit import jit

__all__ = ["linear_scores", "worst_places"]


@jit
def linear_scores(
    offsets: Ints, starts: Ints, block: Codes, X: Floats, w: Floats, instances: Ints, out: Floats
) -> None:
    """Write the sum over a slot's rows of X[row] . w[block[row]] for every slot of the given instances."""
    d = X.shape[1]
    for at in range(len(instances)):
        n = instances[at]
        for slot in range(offsets[n], offsets[n + 1]):
            total = 0.0
            for row in range(starts[slot], starts[slot + 1]):
                b = block[row]
                for c in range(d):
                    total += X[row, c] * w[b, c]
            out[slot] = total


@jit
def worst_places(score: Floats, offsets: Ints, hit: Ints, hit_starts: Ints, order: Ints, place: Ints) -> None:
    """Write the order of the hits of every instance and their places (1 = first); among ties they stand in the last.

    `hit` holds slots, those of instance n from hit_starts[n] on, and of hits that tie the earlier stands behind. Each
    slot finds by bisection how many hits it is ahead of, which is O(S log H) for S slots and H hits.
    """
    for n in range(len(offsets) - 1):
        begin, end = hit_starts[n], hit_starts[n + 1]
        if begin == end:
            continue
        rising = np.argsort(score[hit[begin:end]], kind="mergesort")
        own = score[hit[begin:end]][rising]
        # How many slots are level with or above just so many hits.
        above = np.zeros(len(own) + 1, dtype=np.int64)
        for slot in range(offsets[n], offsets[n + 1]):
            above[np.searchsorted(own, score[slot], side="right")] += 1
        ahead = offsets[n + 1] - offsets[n]
        tied = 0
        for at in range(len(own)):
            ahead -= above[at]
            tied = tied + 1 if at > 0 and own[at] == own[at - 1] else 0
            order[end - 1 - at] = begin + rising[at]
            place[end - 1 - at] = ahead - tied
