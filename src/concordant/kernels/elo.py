"""Elo's update: after each comparison the winner takes rating from the loser, by how much the result surprised."""

from __future__ import annotations

import math

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.jit import jit

__all__ = ["update_ratings"]


@jit
def update_ratings(
    rows: Ints, left: Codes, right: Codes, points: Floats, n: Floats, step: float, scale: float, rating: Floats
) -> None:
    """Update the ratings by the given rows in turn: left gains step · (points − n · expected share), right loses it.

    `points` are the wins of left and half its ties, `n` the outcomes of the row.
    """
    base = math.log(10.0) / scale
    for k in rows:
        i, j = left[k], right[k]
        expected = 1.0 / (1.0 + math.exp(base * (rating[j] - rating[i])))
        gain = step * (points[k] - n[k] * expected)
        rating[i] += gain
        rating[j] -= gain
