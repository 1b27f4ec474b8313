"""Choices in stages, written as the formulas are: one list, one stage, one item at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Floats = NDArray[np.float64]
Blocks = Sequence[Sequence[int]]
# Weight, blocks best first (the last one was left over), factor of the scores.
List = tuple[float, Blocks, float]


def log_likelihood(s: Sequence[float], lists: Sequence[List], ties: str) -> float:
    """Return Σ_l w_l Σ_k of the logarithm of the stage, every block but the last."""
    total = 0.0
    for w, blocks, theta in lists:
        x = [theta * v for v in s]
        for k, block in enumerate(blocks[:-1]):
            left = list(chain.from_iterable(blocks[k:]))
            top = max(x[i] for i in left)
            worth = {i: np.exp(x[i] - top) for i in left}
            whole, chosen = sum(worth.values()), sum(worth[i] for i in block)
            if ties == "partition":
                total += w * (np.log(chosen) - np.log(whole))
            else:
                for j, i in enumerate(block):
                    total += w * (x[i] - top - np.log(whole - j / len(block) * chosen))
    return float(total)


def gradient(s: Sequence[float], lists: Sequence[List], ties: str, h: float = 1e-5) -> Floats:
    """Return the gradient by differences of the fourth order."""
    out = []
    for i in range(len(s)):
        values = []
        for step in (-2, -1, 1, 2):
            moved = list(s)
            moved[i] += step * h
            values.append(log_likelihood(moved, lists, ties))
        out.append((values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h))
    return np.array(out)


def partitions(items: Sequence[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield every ordered partition of some items into blocks."""
    if not items:
        yield ()
    for size in range(1, len(items) + 1):
        for block in combinations(items, size):
            for below in partitions([i for i in items if i not in block]):
                yield (block, *below)


def log_constant(blocks: Blocks) -> float:
    """Return −Σ_k log(C_k |X_k|), C_k = (2^N_k − 1)/N_k."""
    out = 0.0
    for k, block in enumerate(blocks):
        n = sum(map(len, blocks[k:]))
        out -= np.log((2.0**n - 1) / n * len(block))
    return float(out)


def is_held_together(n: int, lists: Sequence[List], ties: str) -> bool:
    """Return whether, for every group of items, some stage passes the group over although it was there to be chosen.

    For a tie that may mean any order that is a stage at which not all of the block belong to the group; for a
    partition, one at which none does.
    """
    for size in range(1, n):
        for group in map(set, combinations(range(n), size)):
            passed = False
            for w, blocks, _ in lists:
                for k, block in enumerate(blocks[:-1]):
                    there = any(i in group for i in chain.from_iterable(blocks[k:]))
                    inside = [i in group for i in block]
                    taken = any(inside) if ties == "partition" else all(inside)
                    passed |= w > 0 and there and not taken
            if not passed:
                return False
    return True


def best(
    n: int, lists: Sequence[List], ties: str, precision: float = 0.0, start: Sequence[float] | None = None
) -> Floats:
    """Return the scores that maximise the log-likelihood less ½ λ ‖s‖², mean 0, by a general optimiser."""

    def loss(s: Floats) -> float:
        return -log_likelihood(s.tolist(), lists, ties) + 0.5 * precision * float(s @ s) + 0.5 * float(s.mean()) ** 2

    def slope(s: Floats) -> Floats:
        return -gradient(s.tolist(), lists, ties) + precision * s + s.mean() / n

    fit = minimize(loss, np.zeros(n) if start is None else np.array(start), jac=slope, method="BFGS", tol=1e-9)
    out: Floats = fit.x - fit.x.mean()
    return out
