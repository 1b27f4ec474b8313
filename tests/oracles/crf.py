"""The CRF written out: all orders of the items, their energies, and the metrics by their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np

Metric = Callable[[Sequence[int]], float]


def ndcg(gain: Sequence[float], cutoff: int) -> Metric:
    """Return NDCG of an order, gains given."""
    top = cutoff or len(gain)
    ideal = sum(g / math.log2(i + 2) for i, g in enumerate(sorted(gain, reverse=True)[:top]))

    def value(order: Sequence[int]) -> float:
        return sum(gain[j] / math.log2(i + 2) for i, j in enumerate(order[:top])) / ideal if ideal > 0 else 0.0

    return value


def err(gain: Sequence[float], cutoff: int) -> Metric:
    """Return ERR of an order: the expected reciprocal of the position at which a reader stops."""
    top = cutoff or len(gain)

    def value(order: Sequence[int]) -> float:
        out, reached = 0.0, 1.0
        for i, j in enumerate(order[:top]):
            out += reached * gain[j] / (i + 1)
            reached *= 1 - gain[j]
        return out

    return value


def rr(gain: Sequence[float], cutoff: int) -> Metric:
    """Return 1 / position of the first relevant item."""
    top = cutoff or len(gain)

    def value(order: Sequence[int]) -> float:
        return next((1 / (i + 1) for i, j in enumerate(order[:top]) if gain[j]), 0.0)

    return value


def ap(gain: Sequence[float], cutoff: int) -> Metric:
    """Return the average over relevant items of the precision at their positions."""
    top = cutoff or len(gain)

    def value(order: Sequence[int]) -> float:
        found = [sum(gain[k] for k in order[: i + 1]) / (i + 1) for i, j in enumerate(order[:top]) if gain[j]]
        return sum(found) / sum(gain) if sum(gain) else 0.0

    return value


def precision(gain: Sequence[float], cutoff: int) -> Metric:
    """Return the share of relevant items among the first."""
    top = cutoff or len(gain)
    return lambda order: sum(gain[j] for j in order[:top]) / top


def kendall(label: Sequence[float]) -> Metric:
    """Return the share of the pairs with different labels that stand in the right order."""
    n = len(label)
    pairs = sum(label[i] != label[j] for i in range(n) for j in range(i))

    def value(order: Sequence[int]) -> float:
        right = sum(label[order[a]] > label[order[b]] for b in range(n) for a in range(b))
        return right / pairs if pairs else 0.0

    return value


def law(f: Sequence[float], scale: float = 1.0) -> tuple[np.ndarray, np.ndarray, float]:
    """Return all orders, their probabilities, and the logarithm of the normaliser; by differences of logarithms."""
    orders = np.array(list(permutations(range(len(f)))))
    c = 1 / np.log(np.arange(len(f)) + 2.0)
    x = scale * (np.asarray(f, dtype=float)[orders] * c).sum(axis=1)
    top = x.max()
    p = np.exp(x - top)
    return orders, p / p.sum(), float(top + np.log(p.sum()))


def expected(f: Sequence[float], metric: Metric, scale: float = 1.0) -> tuple[float, np.ndarray]:
    """Return E[G] and its slope scale · (E[G c] − E[G] E[c]) for every item, over all n! orders."""
    orders, p, _ = law(f, scale)
    value = np.array([metric(tuple(o)) for o in orders.tolist()])
    mean = float(p @ value)
    c = 1 / np.log(np.argsort(orders, axis=1) + 2.0)
    return mean, scale * ((p * (value - mean)) @ c)


def pairs(rank: np.ndarray, transform: str) -> np.ndarray:
    """Return Y(i, j) of one expert: how much it prefers item i to item j; rank 0 is missing."""
    n, top = len(rank), rank.max()
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if 0 < rank[i] < rank[j]:
                out[i, j] = {
                    "binary": 1.0,
                    "count": rank[j] - rank[i],
                    "rankdiff": (rank[j] - rank[i]) / top,
                    "log": (math.log(rank[j]) - math.log(rank[i])) / math.log(top) if top > 1 else 0.0,
                }[transform]
    return out
