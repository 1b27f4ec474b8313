"""Fits the pairwise workloads through Concordant, one JSON request a line: the twin of pairs_worker_peers.py.

Every task starts from the integer arrays of the workload; only the ids, which are no data, are made before the clock
starts. The container is built inside the time.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from functools import cache
from typing import Any

import numpy as np

import concordant as cc
from concordant.data.index import Slots, Texts


@cache
def load(file: str) -> dict[str, Any]:
    """Return the arrays of a workload."""
    with np.load(file) as arrays:
        return {name: arrays[name] for name in arrays.files}


@cache
def names(n: int) -> Texts:
    """Return ids for that many items or experts."""
    return Texts([str(k) for k in range(n)])


def slots(n: int) -> Slots:
    """Return one instance of n items."""
    return Slots(Texts(["all"]), names(n), np.array([0, n], dtype=np.int64))


def compared(data: dict[str, Any], *, experts: bool = False) -> cc.Comparisons:
    """Return the comparisons of a workload."""
    y = data["y"]
    return cc.Comparisons.from_codes(
        slots(len(data["theta"])),
        names(len(data["bad"])) if experts else Texts(),
        data["w"] if experts else None,
        data["i"],
        data["j"],
        (y == 1).astype(np.float64),
        (y == 0).astype(np.float64),
        (y == 2).astype(np.float64),
        sided=True,
    )


def report(model: cc.Aggregator, found: cc.Consensus, seconds: float) -> dict[str, Any]:
    """Return what the other side compares: scores, the tie parameter, intervals and how the fit went."""
    info = model.fit_info_
    out = {
        "seconds": seconds,
        "scores": (found.score - found.score.mean()).tolist(),
        "iterations": info.n_iter,
        "converged": info.converged,
        "uncertainty": info.uncertainty,
    }
    if found.lower is not None and found.upper is not None:
        out |= {"lower": found.lower.tolist(), "upper": found.upper.tolist()}
    if (tie := getattr(model, "tie_", None)) is not None:
        out["tie"] = float(tie)
    return out


def bradley_terry(file: str, **params: Any) -> dict[str, Any]:
    """Fit Bradley-Terry, with a model of ties where `ties` asks for one."""
    data = load(file)
    started = time.perf_counter()
    model = cc.BradleyTerry(**params)
    found = model.fit_predict(compared(data))
    return report(model, found, time.perf_counter() - started)


def plackett_luce(file: str, **params: Any) -> dict[str, Any]:
    """Fit Plackett-Luce to rankings of one length, each by an expert of its own."""
    data = load(file)
    n, orders = len(data["theta"]), data["R"]
    lists, length = orders.shape
    experts = names(lists)
    started = time.perf_counter()
    preferences = cc.Preferences.from_codes(
        slots(n),
        experts,
        np.arange(lists, dtype=np.int32),
        np.arange(0, orders.size + 1, length, dtype=np.int64),
        np.array([0, lists], dtype=np.int64),
        orders.ravel(),
        np.tile(np.arange(1.0, length + 1), lists),
        kind="rank",
    )
    model = cc.PlackettLuce(**params)
    found = model.fit_predict(preferences)
    return report(model, found, time.perf_counter() - started)


def judges(file: str, **params: Any) -> dict[str, Any]:
    """Fit Bradley-Terry with a reliability for every judge."""
    data = load(file)
    started = time.perf_counter()
    model = cc.BradleyTerry(reliability=True, **params)
    found = model.fit_predict(compared(data, experts=True))
    seconds = time.perf_counter() - started
    return report(model, found, seconds) | {"trust": np.asarray(model.adherence_).tolist()}


def serve() -> None:
    """Answer requests until the input ends."""
    tasks = {"bradley_terry": bradley_terry, "plackett_luce": plackett_luce, "judges": judges}
    for line in sys.stdin:
        request = json.loads(line)
        answer = tasks[request["task"]](**request["options"])
        answer["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
