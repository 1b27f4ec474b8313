"""Runs one task through Concordant in a process of its own and prints one JSON object; the twin of peer_worker.py."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import concordant as cc


def fuse(files: list[str], methods: dict[str, dict[str, Any]], out: str, repeats: int) -> dict[str, Any]:
    """Read, aggregate and write with each method: the first call of the process and the quickest of the rest."""
    answer = {}
    for label, options in methods.items():
        params = dict(options)
        name = params.pop("method")
        seen = []
        for _ in range(repeats + 1):
            started = time.perf_counter()
            consensus = cc.METHODS[name](**params).fit_predict(cc.read_runs(files))
            cc.write_run(consensus, f"{out}.{label}")
            seen.append(time.perf_counter() - started)
        answer[label] = {"first": seen[0], "warm": min(seen[1:])}
    return answer


def evaluate(run: str, qrels: str, repeats: int) -> dict[str, Any]:
    """Evaluate a run in memory: NDCG@10 and MAP by the trec convention."""
    preferences, labels = cc.read_runs(run), cc.read_labels(qrels)
    consensus = cc.METHODS["comb-sum"](norm="none").fit_predict(preferences)
    best, values = 1e9, {}
    for _ in range(repeats):
        started = time.perf_counter()
        values = cc.evaluate(consensus, labels, ["ndcg@10", "map"], convention="trec").mean
        best = min(best, time.perf_counter() - started)
    return {"seconds": best, "values": values}


def request(n_lists: int, length: int, pool: int, repeats: int) -> dict[str, Any]:
    """Fuse the lists of one search request by RRF, through Concordant and through a plain dictionary, in turn."""
    import random

    chance = random.Random(0)
    lists = {f"system{e}": chance.sample([f"doc{i}" for i in range(pool)], length) for e in range(n_lists)}
    method = cc.RRF()

    def ours() -> list[str]:
        return method.fit_predict(cc.from_lists(lists)).ranking()

    def plain() -> list[str]:
        scores: dict[str, float] = {}
        for ranked in lists.values():
            for rank, item in enumerate(ranked, 1):
                scores[item] = scores.get(item, 0.0) + 1 / (60 + rank)
        return sorted(scores, key=scores.__getitem__, reverse=True)

    scores = dict(zip(method.consensus_.items, method.consensus_.score, strict=True)) if ours() else {}
    position = {item: n for n, item in enumerate(plain())}
    ordered = sorted(position, key=position.__getitem__)
    equal = all(scores[a] >= scores[b] - 1e-12 for a, b in pairwise(ordered))
    times: dict[str, float] = {"ours": 1e9, "plain": 1e9}
    jobs: dict[str, Callable[[], list[str]]] = {"ours": ours, "plain": plain}
    for _ in range(repeats):
        for name, job in jobs.items():
            started = time.perf_counter()
            for _ in range(100):
                job()
            times[name] = min(times[name], (time.perf_counter() - started) / 100)
    heavy = [m for m in ("numba", "polars", "scipy", "pandas") if m in sys.modules]
    return {
        "ours_us": times["ours"] * 1e6,
        "plain_us": times["plain"] * 1e6,
        "ratio": times["ours"] / times["plain"],
        "same_order": equal,
        "heavy_modules": heavy,
    }


if __name__ == "__main__":
    task, options = sys.argv[1], json.loads(sys.argv[2])
    Path(options.get("out", ".")).parent.mkdir(parents=True, exist_ok=True)
    print(json.dumps({"fuse": fuse, "evaluate": evaluate, "request": request}[task](**options)))
