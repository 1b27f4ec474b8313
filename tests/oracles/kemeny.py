"""Kemeny rankings by looking at every permutation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations

Ahead = Mapping[tuple[str, str], float]


def cost(order: Sequence[str], ahead: Ahead) -> float:
    """Return the votes that a ranking contradicts."""
    return sum(ahead[b, a] for a, b in combinations(order, 2))


def best(items: Sequence[str], ahead: Ahead) -> tuple[float, list[tuple[str, ...]]]:
    """Return the smallest cost and every ranking that has it."""
    found = [(cost(order, ahead), order) for order in permutations(items)]
    smallest = min(c for c, _ in found)
    return smallest, [order for c, order in found if c <= smallest + 1e-9]
