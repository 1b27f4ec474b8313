"""The potentials of the CRF from full tables of pairs, in plain loops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def strength(a: float, b: float, largest: float, transform: str) -> float:
    """Return Y(i, j) of an expert who ranks i at a and j at b."""
    if a >= b:
        return 0.0
    if transform == "binary":
        return 1.0
    if transform == "count":
        return b - a
    if transform == "rankdiff":
        return (b - a) / largest
    return (math.log(b) - math.log(a)) / math.log(largest)


def score(
    items: Sequence[str],
    lists: Mapping[str, Mapping[str, float]],
    experts: Sequence[str],
    weights: Mapping[str, tuple[float, float, float]],
    transform: str,
    below: bool,
    mean: bool,
) -> list[float]:
    """Return Σ_k alpha_k [k leaves i out] + beta+_k row_ik - beta-_k col_ik for every item."""
    width = len(items) if mean else 1
    out = []
    for i in items:
        total = 0.0
        for k in experts:
            ranks = lists.get(k, {})
            alpha, plus, minus = weights[k]
            if i not in ranks:
                total += alpha
            largest = max(ranks.values(), default=1.0)
            row = sum(strength(ranks[i], ranks[j], largest, transform) for j in ranks) if i in ranks else 0.0
            col = sum(strength(ranks[j], ranks[i], largest, transform) for j in ranks) if i in ranks else 0.0
            if below:
                row += (len(items) - len(ranks)) if i in ranks else 0
                col += 0 if i in ranks else len(ranks)
            total += plus * row / width - minus * col / width
        out.append(total)
    return out
