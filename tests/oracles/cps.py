"""Slow twin of the coset-permutation model: distances averaged over every completion, written from the definition.

A ranking of n items is a list of n positions by item; items that tie share the mean of their places.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations, permutations

Positions = Sequence[float]


def distance(kind: str, order: Sequence[int], positions: Positions) -> float:
    """Return the distance of an order (items, best first) from a ranking; pairs that tie are half in another order."""
    if kind == "kendall":
        out = 0.0
        for a, b in combinations(order, 2):
            out += 1.0 if positions[b] < positions[a] else 0.5 if positions[b] == positions[a] else 0.0
        return out
    gaps = [abs(positions[item] - place) for place, item in enumerate(order, 1)]
    return sum(gaps) if kind == "footrule" else sum(g * g for g in gaps)


def coset(kind: str, prefix: Sequence[int], positions: Positions) -> float:
    """Return the mean distance of all orders that begin with the prefix."""
    rest = [i for i in range(len(positions)) if i not in prefix]
    ends = list(permutations(rest))
    return sum(distance(kind, [*prefix, *end], positions) for end in ends) / len(ends)


def costs(kind: str, prefix: Sequence[int], tables: Sequence[Positions], theta: Sequence[float]) -> dict[int, float]:
    """Return what taking each item left costs."""
    n = len(tables[0])
    left = [i for i in range(n) if i not in prefix]
    return {i: sum(t * coset(kind, [*prefix, i], table) for t, table in zip(theta, tables, strict=True)) for i in left}


def log_probability(kind: str, order: Sequence[int], tables: Sequence[Positions], theta: Sequence[float]) -> float:
    out = 0.0
    for stage, item in enumerate(order):
        cost = costs(kind, order[:stage], tables, theta)
        out += -cost[item] - math.log(sum(math.exp(-c) for c in cost.values()))
    return out


def tied_orders(levels: Sequence[int]) -> Iterable[list[int]]:
    """Return every order that puts level 0 first, then level 1, and so on."""
    groups = [[i for i, v in enumerate(levels) if v == level] for level in range(max(levels) + 1)]
    orders: list[list[int]] = [[]]
    for group in groups:
        orders = [[*order, *end] for order in orders for end in permutations(group)]
    return orders
