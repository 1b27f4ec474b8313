"""The scores of an instance are the same to the last bit however much is scored beside it.

Checks on small data do not see loops that are chosen by how many rows there are; blocks of a large file end in small
ones, and their instances are scored as they are in the whole.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import concordant as cc

# Fits and inference that take a second for a few instances; eight of them still have more rows than NumPy's buffers.
SLOW = {"extended-mallows", "kemeny", "mallows", "bradley-terry", "plackett-luce", "mpm", "coombs", "stv"}
SETTINGS: dict[str, dict[str, Any]] = {
    "blend": {"members": ["rrf", cc.ListwiseLinear(l2=0.1)], "weights": "equal"},
    "crf": {"passes": 2},
}


@cache
def many() -> tuple[cc.Preferences, cc.Labels]:
    """Return more rows than NumPy is left with anywhere, half of the lists with ties."""
    rng = np.random.default_rng(3)
    rows = [
        (f"q{q}", f"e{e}", f"d{i}", float(rank))
        for q in range(60)
        for e in range(12)
        for i, rank in zip(rng.permutation(150)[:120], rng.permutation(120) // (1 + e % 2) + 1, strict=True)
    ]
    judged = [(f"q{q}", f"d{i}", int(rng.integers(0, 3))) for q in range(6) for i in range(150)]
    return cc.Preferences(*zip(*rows, strict=True)), cc.Labels(*zip(*judged, strict=True))


@cache
def compared() -> cc.Comparisons:
    """Return as many instances of comparisons, for what does not take lists."""
    rng = np.random.default_rng(4)
    pairs = [(q, e, *rng.choice(150, 2, replace=False)) for q in range(60) for e in range(12) for _ in range(30)]
    rows = [(f"q{q}", f"e{e}", f"d{i}", f"d{j}", *rng.multinomial(1, (0.5, 0.4, 0.1))) for q, e, i, j in pairs]
    return cc.Comparisons(*zip(*rows, strict=True))


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize("name", [name for name in cc.METHODS if cc.METHODS[name]().tags.per_instance])
def test_an_instance_is_scored_alike_in_any_company(name: str) -> None:
    method = cc.METHODS[name](**SETTINGS.get(name, {}))
    lists, labels = many()
    votes = lists if "rank" in method.tags.accepts else compared()
    method.fit(votes[:6], labels if method.needs_labels() else None)
    if name in SLOW:
        votes = votes[:8]
    whole = method.predict(votes).score
    for size in (1, 7):
        parts = [method.predict(votes[n : n + size]).score for n in range(0, len(votes), size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
