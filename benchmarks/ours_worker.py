"""Runs one task through Concordant in a process of its own and prints one JSON object; the twin of peer_worker.py."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


Pairs = list[tuple[str, float]]


def _request_lists(n_lists: int, length: int, pool: int, seed: int = 0) -> dict[str, list[str]]:
    chance = random.Random(seed)
    ids = [f"doc{i}" for i in range(pool)]
    return {name: chance.sample(ids, length) for name in ("bm25", "dense", "rerank")[:n_lists]}


def _plain(lists: dict[str, list[str]]) -> Pairs:
    """Return RRF by a plain dictionary."""
    scores: dict[str, float] = {}
    for ranked in lists.values():
        for rank, item in enumerate(ranked, 1):
            scores[item] = scores.get(item, 0.0) + 1 / (60 + rank)
    return [(item, scores[item]) for item in sorted(scores, key=scores.__getitem__, reverse=True)]


def request(n_lists: int, length: int, pool: int, repeats: int, model: str = "") -> dict[str, Any]:
    """Fuse the lists of one search request, by RRF or a loaded model, and by RRF in a plain dictionary, in turn."""
    lists = _request_lists(n_lists, length, pool)
    options: dict[str, Any] = {"model": cc.load(model)} if model else {}

    def ours() -> Pairs:
        hits = cc.fuse(lists, **options)
        return list(zip(hits.ids, hits.scores, strict=True))

    if not model:
        same, scores = _plain(lists), dict(ours())
        close = all(abs(scores[item] - score) <= 1e-12 * same[0][1] for item, score in same)
        if not close or len(scores) != len(same):
            raise SystemExit("fuse and the plain dictionary give different scores")
    jobs: dict[str, Callable[[], object]] = {
        "ours": ours,
        "plain": lambda: _plain(lists),
        "every hit": lambda: list(cc.fuse(lists, **options)),
        "ten hits": lambda: list(cc.fuse(lists, top_k=10, **options)),
    }
    # Few calls at a time: the quickest of many short turns is least disturbed by other processes.
    many = max(1, 1000 // length)
    times = dict.fromkeys(jobs, 1e9)
    for _ in range(repeats):
        for name, job in jobs.items():
            started = time.perf_counter()
            for _ in range(many):
                job()
            times[name] = min(times[name], (time.perf_counter() - started) / many)
    return {
        "ours_us": times["ours"] * 1e6,
        "plain_us": times["plain"] * 1e6,
        "ratio": times["ours"] / times["plain"],
        "every_hit": times["every hit"] / times["plain"],
        "ten_hits": times["ten hits"] / times["plain"],
        "heavy_modules": [m for m in ("numba", "polars", "scipy", "pandas") if m in sys.modules],
    }


def containers(n_lists: int, length: int, pool: int, repeats: int) -> dict[str, Any]:
    """Fuse the lists of one search request by RRF through the containers, which sources without `cc.fuse` have too."""
    lists, method, best = _request_lists(n_lists, length, pool), cc.RRF(), 1e9
    for _ in range(repeats):
        started = time.perf_counter()
        for _ in range(10):
            method.fit_predict(cc.from_lists(lists)).ranking()
        best = min(best, (time.perf_counter() - started) / 10)
    return {"ours_us": best * 1e6}


def threads(model: str, n_threads: int, n_requests: int) -> dict[str, Any]:
    """Ask one loaded model from several threads; compare with the answers of one, and watch the memory."""
    loaded = cc.load(model)
    requests = [_request_lists(3, 20 + seed % 80, 200, seed) for seed in range(100)]

    def ask(n: int) -> list[cc.Hit]:
        return list(cc.fuse(requests[n % len(requests)], model=loaded, top_k=10))

    want = [ask(n) for n in range(len(requests))]

    def work(thread: int) -> int:
        return sum(ask(thread + n) != want[(thread + n) % len(want)] for n in range(n_requests))

    with ThreadPoolExecutor(n_threads) as pool:
        before, memory = sum(pool.map(work, range(n_threads))), _resident_mb()
        started = time.perf_counter()
        different = sum(pool.map(work, range(n_threads)))
        seconds = time.perf_counter() - started
    return {
        "requests": n_threads * n_requests,
        "different_answers": before + different,
        "growth_mb": _resident_mb() - memory,
        "requests_per_second": n_threads * n_requests / seconds,
    }


def _resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as numbers:
        return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    task, options = sys.argv[1], json.loads(sys.argv[2])
    Path(options.get("out", ".")).parent.mkdir(parents=True, exist_ok=True)
    tasks = {"fuse": fuse, "evaluate": evaluate, "request": request, "containers": containers, "threads": threads}
    print(json.dumps(tasks[task](**options)))
