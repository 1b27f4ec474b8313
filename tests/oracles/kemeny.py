"""Kemeny rankings by looking at every permutation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations, product

Ahead = Mapping[tuple[str, str], float]


def cost(order: Sequence[str], ahead: Ahead) -> float:
    """Return the votes that a ranking contradicts."""
    return sum(ahead[b, a] for a, b in combinations(order, 2))


def best(items: Sequence[str], ahead: Ahead) -> tuple[float, list[tuple[str, ...]]]:
    """Return the smallest cost and every ranking that has it."""
    found = [(cost(order, ahead), order) for order in permutations(items)]
    smallest = min(c for c, _ in found)
    return smallest, [order for c, order in found if c <= smallest + 1e-9]


def weak_orders(items: Sequence[str]) -> list[list[list[str]]]:
    """Return every ranking of the items with ties, as groups, best first."""
    every = product(range(len(items)), repeat=len(items))
    return [
        [[i for i, level in zip(items, levels, strict=True) if level == n] for n in range(max(levels) + 1)]
        for levels in every
        if set(levels) == set(range(max(levels) + 1))
    ]


def best_weak(items: Sequence[str], ahead: Ahead, tied: Ahead) -> list[list[list[str]]]:
    """Return every ranking with ties that is nearest to the votes by the distance of Kemeny and Snell."""

    def distance(groups: list[list[str]]) -> float:
        level = {i: n for n, group in enumerate(groups) for i in group}
        total = 0.0
        for a, b in combinations(items, 2):
            if level[a] == level[b]:
                total += ahead[a, b] + ahead[b, a]
            else:
                total += 2 * (ahead[b, a] if level[a] < level[b] else ahead[a, b]) + tied[a, b]
        return total

    found = [(distance(groups), groups) for groups in weak_orders(items)]
    smallest = min(d for d, _ in found)
    return [groups for d, groups in found if d <= smallest + 1e-9]
