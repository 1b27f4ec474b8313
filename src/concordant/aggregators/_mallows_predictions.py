"""Predictions of Mallows models: probabilities of pairs and of rankings around the consensus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from concordant.aggregators._predictions import PairLaw
from concordant.arrays import Codes, Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.errors import KindError
from concordant.inference.predictions import MallowsLaw, mallows_before

__all__ = ["complete_pairs", "mallows_law", "mallows_pair_law", "precedence"]


def mallows_law(board: Consensus, slots: Ints, theta: float) -> MallowsLaw:
    """Return the law of a ranking of some slots of one instance, with the consensus as the centre."""
    return MallowsLaw(board.rank[slots].astype(np.float64), theta)


def mallows_pair_law(board: Consensus, a: Ints, b: Ints, theta: Callable[[int], float]) -> PairLaw:
    """Return the probabilities that slots `a` precede slots `b` in a complete list; `theta` gives θ of an instance."""
    win = np.empty(len(a))
    instance = board.slots.instance[a]
    for n in np.unique(instance).tolist():
        own = np.flatnonzero(instance == n)
        first, end = int(board.slots.offsets[n]), int(board.slots.offsets[n + 1])
        win[own] = precedence(board.rank[first:end], theta(n))[a[own] - first, b[own] - first]
    return win, np.zeros(len(a)), 1.0 - win


def precedence(rank: Codes, theta: float) -> Floats:
    """Return the probability that each item (rows) precedes each other one (columns) in a complete list.

    Items of equal rank may stand in any order in the centre: their probabilities are means over their places.

    >>> precedence(np.array([1, 2, 2]), -1.0).round(4).tolist()
    [[0.5, 0.7876, 0.7876], [0.2124, 0.5, 0.5], [0.2124, 0.5, 0.5]]
    """
    n = len(rank)
    # By places: a place before another, whose distance alone matters.
    before = np.concatenate([[0.5], mallows_before(theta, np.arange(1.0, n))])
    apart = np.arange(n)[None, :] - np.arange(n)[:, None]
    by_place = np.where(apart >= 0, before[np.abs(apart)], 1.0 - before[np.abs(apart)])
    _, group, sizes = np.unique(rank, return_inverse=True, return_counts=True)
    starts = np.cumsum(sizes) - sizes
    sums = np.add.reduceat(np.add.reduceat(by_place, starts, axis=0), starts, axis=1)
    mean = sums / (sizes[:, None] * sizes[None, :])
    out: Floats = mean[np.ix_(group, group)]
    return out


def complete_pairs(votes: Any, owner: str) -> Comparisons:
    """Return the pairs of complete lists without ties; other lists have no probabilities of pairs in closed form."""
    dense = votes.positions("dense")
    tied = votes.n_rows and (np.maximum.reduceat(dense, votes.list_offsets[:-1]) < votes.list_lengths).any()
    if tied or votes.leaves_out().any():
        raise KindError(
            f"residuals of {owner} need complete lists without ties: the probability of a pair in a part of a list has "
            "no closed form. Use PlackettLuce, or drop the incomplete lists."
        )
    pairs: Comparisons = votes.comparisons("binary", missing="unknown")
    return pairs
