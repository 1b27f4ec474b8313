"""Requests that every integration is asked: lists of ids and scores, with ties, duplicates and silent retrievers."""

from __future__ import annotations

from typing import Any

import numpy as np

import concordant as cc

NAMES = ("bm25", "dense", "reranker")
# A list is rows of document, part of it and score, best first.
Rows = list[tuple[str, str, float]]
# Settings of an integration, and what they are in `fuse`.
SETTINGS: list[dict[str, Any]] = [
    {},
    {"weights": {"dense": 2.5, "reranker": 0.5}},
    {"method": "comb-sum", "weights": {"bm25": 3}, "top_k": 3},
    {"method": "comb-mnz", "params": {"norm": "sum"}, "depth": 3},
    {"method": cc.RRF(k=5), "threshold": {"bm25": 4.0}},
    {"params": {"k": 1}, "smaller_is_better": ("dense",)},
    {"method": "copeland", "top_k": 2},
]


def requests(n: int = 8) -> list[dict[str, Rows]]:
    """Return random requests, the same in every run; the first is one where nobody finds anything."""
    chance = np.random.default_rng(20)
    out: list[dict[str, Rows]] = [{name: [] for name in NAMES}]
    for _ in range(n):
        lists: dict[str, Rows] = {}
        for name in NAMES:
            scores = sorted(chance.integers(0, 12, chance.integers(0, 9)).tolist(), reverse=True)
            lists[name] = [
                (f"d{chance.integers(0, 6)}", f"{name} {row}", score / 2) for row, score in enumerate(scores)
            ]
        out.append(lists)
    return out


def fused(lists: dict[str, Rows], *, scores: bool, params: dict[str, Any] | None = None, **settings: Any) -> cc.Hits:
    """Return the hits of `fuse` for a request; an item of a hit is a row."""
    return cc.fuse(lists, key=0, score=2 if scores else None, **settings, **(params or {}))


def fitted() -> cc.Aggregator:
    """Return a model that knows the retrievers."""
    data = cc.synthetic.runs(20, skill=dict(zip(NAMES, (1.0, 1.3, 0.7), strict=True)), top=10, random_state=5)
    return cc.ListwiseLinear().fit(data.preferences, data.labels)
