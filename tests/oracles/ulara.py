"""Slow twin of ULARA: sums over instances, experts and items, written from the definition.

An instance is `items` and `lists`: (expert, weight, mapping from item to strength), larger is better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tests.oracles.methods import positions

Lists = Sequence[tuple[str, float, Mapping[str, float]]]
Instances = Sequence[tuple[Sequence[str], Lists]]


def _longest(lists: Lists, kappa: int | None) -> float:
    return float(max([len(s) for _, w, s in lists if w > 0], default=0)) if kappa is None else float(kappa)


def ratios(instances: Instances, nu: int | None = None, kappa: int | None = None) -> dict[str, float]:
    """Return the disagreement of each expert over that of the average expert on the same instances."""
    own: dict[str, float] = {}
    expected: dict[str, float] = {}
    for items, given in instances:
        lists = [(e, w, positions(s)) for e, w, s in given if w > 0]
        voters = sum(w for _, w, _ in lists)
        k = _longest(given, kappa)
        least = max(2, math.ceil(voters / 5 - 1e-9)) if nu is None else nu
        total = dict.fromkeys([e for e, _, _ in lists], 0.0)
        for i in items:
            held = [(w, p[i]) for _, w, p in lists if i in p and p[i] <= k]
            number = sum(w for w, _ in held)
            if not held or number < least - 1e-9:
                continue
            mean = sum(w * x for w, x in held) / number
            for e, _, p in lists:
                x = p[i] if i in p and p[i] <= k else k + 1
                if abs(x - mean) > 1e-9:
                    total[e] += (x - mean) ** 2
        average = sum(w * total[e] for e, w, _ in lists) / voters if voters else 0.0
        for e, w, _ in lists:
            own[e] = own.get(e, 0.0) + w * total[e]
            expected[e] = expected.get(e, 0.0) + w * average
    return {e: own[e] / expected[e] if expected[e] > 0 else 1.0 for e in own}


def scores(
    items: Sequence[str], given: Lists, trust: Mapping[str, float], kappa: int | None = None
) -> dict[str, float]:
    """Return minus the weighted mean position of each item."""
    k = _longest(given, kappa)
    lists = [(w * trust[e], positions(s)) for e, w, s in given if w > 0]
    if not sum(w for w, _ in lists):
        lists = [(w, positions(s)) for _, w, s in given if w > 0]
    total = sum(w for w, _ in lists)
    if not total:
        return dict.fromkeys(items, -(k + 1.0))
    return {i: -sum(w * (p[i] if i in p and p[i] <= k else k + 1) for w, p in lists) / total for i in items}
