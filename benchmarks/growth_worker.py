"""Runs one task of growth.py in a process of its own and prints one JSON object: memory and threads are its own."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np

import concordant as cc
from concordant.data.index import Slots, Texts
from concordant.errors import ConcordantWarning, KindError
from concordant.execution import dask, local

TREC_COLUMNS = ("q", "z", "d", "r", "s", "t")


def trec_scan(path: str | Path) -> Any:
    """Return the columns of a TREC run, not read yet."""
    import polars as pl

    schema = dict.fromkeys(TREC_COLUMNS, pl.String) | {"s": pl.Float64}
    return pl.scan_csv(path, separator=" ", has_header=False, schema=schema, quote_char=None)


def same(files: list[str]) -> dict[str, Any]:
    """Tell whether Parquet files hold the same rows in the same order, to the last bit."""
    import polars as pl

    first, *others = (pl.read_parquet(file) for file in files)
    return {"rows": len(first), "same": all(first.equals(other) for other in others)}


def copy(rows: int, width: int) -> dict[str, Any]:
    """Time a copy of an array as large as the codes of so many rows: what the memory alone allows."""
    array = np.ones(rows * width, dtype=np.uint8)
    target = np.zeros_like(array)
    return {"seconds": min(_timed(lambda: np.copyto(target, array)) for _ in range(5))}


def _timed(job: Callable[[], Any]) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def lists(instances: int, experts: int, items: int, seed: int = 0) -> cc.Preferences:
    """Return complete lists of scores, best first, as codes: text is left out of what is measured."""
    rng = np.random.default_rng([seed, instances, experts, items])
    slots, values = [], []
    for q in range(instances):
        score = rng.normal(size=items) + rng.normal(size=(experts, items))
        order = np.argsort(-score, axis=1, kind="stable")
        slots.append((order + q * items).astype(np.int32).ravel())
        values.append(np.take_along_axis(score, order, axis=1).ravel())
    return cc.Preferences.from_codes(
        Slots(
            Texts([f"q{q}" for q in range(instances)]),
            Texts([f"d{d}" for d in range(items)] * instances),
            np.arange(instances + 1, dtype=np.int64) * items,
        ),
        Texts([f"e{e:05d}" for e in range(experts)]),
        np.tile(np.arange(experts, dtype=np.int32), instances),
        np.arange(instances * experts + 1, dtype=np.int64) * items,
        np.arange(instances + 1, dtype=np.int64) * experts,
        np.concatenate(slots),
        np.concatenate(values),
        kind="score",
    )


def _prepared(method: str, experts: int) -> Any:
    """Return what is timed on preferences: fit and predict, or a fitted CRF's predict, compiled beforehand."""
    small = lists(4, experts, 12, seed=1)
    if method == "crf":
        truth = np.tile(np.arange(12.0)[::-1] // 4, 4)
        with np.errstate(all="ignore"):
            model = cc.CRF(passes=1, cv=2).fit(small, cc.Labels.from_codes(small.slots, truth))
        job = model.predict
    else:
        job = lambda p: cc.METHODS[method]().fit_predict(p)  # noqa: E731 - a method that forgets
    # From so many rows on compiled loops are used: what is warmed up must be large enough.
    job(lists(max(1, 200_000 // (experts * 12)), experts, 12, seed=2))
    return job


def _status(name: str) -> float:
    """Return a line of what the system says about this process, in MB."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(name))
    return int(line.split()[1]) / 1024


def _forget_peak() -> None:
    # The peak so far is that of making the data.
    Path("/proc/self/clear_refs").write_text("5")


def grow(method: str, instances: int, experts: int, items: int, least: float, most: int) -> dict[str, Any]:
    """Time a method in memory: the best of several calls, and the memory it needs beside the data."""
    job, votes = _prepared(method, experts), lists(instances, experts, items)
    before = _status("VmRSS")
    _forget_peak()
    seconds: list[float] = []
    while len(seconds) < most and (not seconds or sum(seconds) < least):
        seconds.append(_timed(lambda: job(votes)))
    return {
        "rows": votes.n_rows,
        "seconds": min(seconds),
        "calls": len(seconds),
        "held_mb": before,
        "peak_mb": _status("VmHWM"),
    }


# What two threads share, at sizes that take some seconds on one; `size` is 1 for these.
def _jobs(name: str, size: float) -> Callable[[], Any]:
    def n(whole: float) -> int:
        return max(int(whole * size), 8)

    if name in ("MC4", "Condorcet"):
        count = 100 if name == "MC4" else 200
        votes = cc.synthetic.runs(n(count), skill=20, top=500, pool=1500, random_state=1).preferences
        method = cc.MarkovChain(chain=4, missing="unknown") if name == "MC4" else cc.Condorcet(missing="unknown")
        return lambda: method.fit_predict(votes).score
    if name in ("CRF fit", "CRF predict"):
        held = n(256)
        sample = cc.synthetic.runs(held + n(1024), skill=20, top=50, pool=150, random_state=1)
        train = (sample.preferences[held:], sample.labels[held:])
        validation = (sample.preferences[:held], sample.labels[:held])
        if name == "CRF fit":
            crf = cc.CRF(solver="lbfgs")
            return lambda: crf.fit(*train, validation=validation).weights_
        fitted = cc.CRF(passes=1).fit(*train, validation=validation)
        large = cc.synthetic.runs(n(3000), skill=20, top=500, pool=1500, random_state=2).preferences
        return lambda: fitted.predict(large).score
    if name == "extended Mallows":
        votes = cc.synthetic.labelled_runs(n(200), n_items=(150, 200), largest_rank=400, random_state=3)[0]
        mallows = cc.ExtendedMallows(max_iter=20, missing="below")
        return lambda: mallows.fit(votes).adherence_
    inference = name.removeprefix("PMOP ")
    instances, sizes, columns, steps = {"full": (4000, (40, 120), 40, 300), "exact": (1088, (40, 80), 20, 6)}[inference]
    features, labels = cc.synthetic.graded_features(n(instances), n_items=sizes, n_features=columns)
    # Columns that resemble each other, as those of search engines do, take the solver many steps.
    alike = 0.9 ** np.abs(np.subtract.outer(np.arange(columns), np.arange(columns)))
    features = cc.Features.from_codes(features.slots, features.X @ alike)
    pmop = cc.PMOP(inference=inference, max_iter=steps, tol=1e-12)
    return lambda: pmop.fit(features, labels).coefficients_


def _spinner(turns: int) -> Callable[[int], float]:
    """Return what times a bare compiled loop, shared by so many threads."""
    from numba import njit

    @njit(nogil=True)  # type: ignore[untyped-decorator]
    def spin(n: int) -> float:
        x = 1.0
        for _ in range(n):
            x = x * 1.0000001 + 1e-9
        return x

    spin(10)

    def seconds(threads: int) -> float:
        with ThreadPoolExecutor(threads) as pool:
            return _timed(lambda: list(pool.map(spin, [turns // threads] * threads)))

    return seconds


class _Shared:
    """Processor time of what threads may share: in all, and as two would have it done at best."""

    def __init__(self) -> None:
        self.whole = self.halved = 0.0

    def add(self, pieces: list[float]) -> None:
        """Add the pieces of one map, dealt out in blocks as `map_instances` does, each to whoever is free first."""
        blocks = min(len(pieces), 2 * local.BLOCKS_PER_THREAD)
        edges = [len(pieces) * b // blocks for b in range(blocks + 1)]
        busy = [0.0, 0.0]
        for first, last in pairwise(edges):
            busy[busy.index(min(busy))] += sum(pieces[first:last])
        self.whole += sum(pieces)
        self.halved += max(busy)


@contextmanager
def _shared_time() -> Iterator[_Shared]:
    """Give what is counted while the block runs on one thread."""
    found, inside, plain = _Shared(), [False], local.map_instances

    def counted(function: Callable[[int], Any], n: int) -> list[Any]:
        # One piece is nobody's to share, but what it does inside may be; what is inside a piece is not shared again.
        if n < 2 or inside[0]:
            return plain(function, n)
        pieces: list[float] = []

        def piece(i: int) -> Any:
            inside[0], started = True, time.thread_time()
            try:
                return function(i)
            finally:
                pieces.append(time.thread_time() - started)
                inside[0] = False

        try:
            return plain(piece, n)
        finally:
            found.add(pieces)

    # Modules hold the function by its name.
    holders = [m for m in list(sys.modules.values()) if getattr(m, "map_instances", None) is plain]
    for module in holders:
        setattr(module, "map_instances", counted)  # noqa: B010 - modules have no such attribute for a type checker
    try:
        yield found
    finally:
        for module in holders:
            setattr(module, "map_instances", plain)  # noqa: B010


def threads(name: str, size: float, repeats: int, turns: int) -> dict[str, Any]:
    """Time one against two threads in turn, a bare loop beside them, and see that the answers are the same bits."""
    job, spin = _jobs(name, size), _spinner(turns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        job()
        with cc.threads(1), _shared_time() as found:
            started = time.thread_time()
            job()
            whole = time.thread_time() - started
        seconds = {1: float("inf"), 2: float("inf")}
        bare, answers = dict(seconds), {}
        for _ in range(repeats):
            for count in (1, 2):
                bare[count] = min(bare[count], spin(count))
                with cc.threads(count):
                    started = time.perf_counter()
                    answers[count] = np.asarray(job())
                    seconds[count] = min(seconds[count], time.perf_counter() - started)
    if not np.array_equal(answers[1], answers[2]):
        raise SystemExit(f"{name}: the answer depends on the number of threads")
    return {
        "seconds": seconds,
        "ratio": seconds[1] / seconds[2],
        "spin": bare[1] / bare[2],
        "shared": found.whole / whole,
        "most": whole / (whole - found.whole + found.halved),
        "numbers": int(answers[1].size),
    }


def write_runs(votes: cc.Preferences, folder: Path, step: int = 1) -> list[str]:
    """Write what each expert says as a TREC run of its own, ranks in steps of some places, and return the files."""
    import polars as pl

    folder.mkdir(parents=True, exist_ok=True)
    frame = votes.to_frame().drop_nulls()
    value = frame.columns[3]
    # In a run the larger score is the better.
    sign = -1.0 if votes.kind == "rank" else 1.0
    files = []
    for (expert,), own in frame.group_by(["expert"], maintain_order=True):
        score = (pl.col(value) * sign if step == 1 else pl.col(value) // step * sign).alias("score")
        lines = own.select(pl.format("{} Q0 {} 1 {} {}", "instance", "item", score, "expert")).to_series()
        files.append(str(folder / f"{expert}.trec"))
        Path(files[-1]).write_text("\n".join(lines) + "\n")
    return sorted(files)


@contextmanager
def _cluster() -> Iterator[Any]:
    """Give a client of two worker processes of one thread each."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def _worker_killed(client: Any, after: float) -> Iterator[list[int]]:
    """Kill a worker so many seconds into the block, and give a list that holds it as soon as it is killed."""
    victim, gone = min(client.run(os.getpid).values()), []

    def kill() -> None:
        os.kill(victim, signal.SIGKILL)
        gone.append(victim)

    timer = Timer(after, kill)
    timer.start()
    try:
        yield gone
    finally:
        timer.join()


def dask_fuse(files: list[str], method: str, out: str, repeats: int) -> dict[str, Any]:
    """Read, aggregate and write in memory, in blocks, on two workers, and on two of which one is killed."""

    def whole(path: str) -> None:
        cc.write(cc.aggregate(cc.read_runs(files), method), path)

    def in_blocks(path: str) -> None:
        with cc.scan(files, "trec") as blocks:
            cc.aggregate_blocks(blocks, path, method)

    paths = {way: f"{out}.{way}.csv" for way in ("memory", "blocks", "workers", "killed")}
    with _cluster() as client:

        def on_workers(path: str) -> None:
            with dask(client):
                in_blocks(path)

        jobs: dict[str, Callable[[str], None]] = {"memory": whole, "blocks": in_blocks, "workers": on_workers}
        # Workers import what they need when they are first asked.
        on_workers(paths["workers"])
        seconds = dict.fromkeys(jobs, float("inf"))
        for _ in range(repeats):
            for way, job in jobs.items():
                seconds[way] = min(seconds[way], _timed(lambda job=job, way=way: job(paths[way])))  # type: ignore[misc]
        with _worker_killed(client, 0.4 * seconds["workers"]) as gone:
            seconds["killed"] = _timed(lambda: on_workers(paths["killed"]))
            on_the_way = bool(gone)
    contents = {way: Path(path).read_bytes() for way, path in paths.items()}
    for path in paths.values():
        os.unlink(path)
    return {
        "rows": sum(Path(f).read_bytes().count(b"\n") for f in files),
        "seconds": seconds,
        "same": {way: content == contents["memory"] for way, content in contents.items() if way != "memory"},
        "killed_on_the_way": on_the_way,
    }


def _learned(method: Any) -> dict[str, Any]:
    """Return the numbers a fitted method has learned, by name."""
    found = {}
    for name, value in vars(method).items():
        if name.endswith("_") and name not in ("fit_info_", "consensus_"):
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                found[name] = value.astype(np.float64).ravel()
            elif isinstance(value, float):
                found[name] = np.array([value])
    return found


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Return the largest difference of two methods' numbers, relative to the largest of each name."""
    if one.keys() != other.keys() or not one:
        return float("inf")
    gaps = [0.0]
    for name, ours in one.items():
        if ours.shape != other[name].shape:
            return float("inf")
        gaps.append(float(np.nanmax(np.abs(ours - other[name]), initial=0.0) / max(np.nanmax(np.abs(ours)), 1e-300)))
    return max(gaps)


def dask_fit(files: list[str], labels: str, method: str, params: dict[str, Any], block_rows: int) -> dict[str, Any]:
    """Fit in memory, on blocks, on two workers, and on two of which one is killed; say how far the numbers differ."""
    made = cc.METHODS[method](**params)
    truth = cc.read_labels(labels) if made.needs_labels() else None
    votes = cc.read_runs(files)
    part = None
    if truth is not None:
        # What is chosen by is in memory, and its labels are not learned from.
        if truth.instances.tolist() != votes.instances.tolist():
            raise SystemExit("the labels are those of other instances")
        held = len(votes) // 10
        part, truth = (votes[:held], truth[:held]), truth[held:]

    def fitted(data: Any) -> tuple[float, dict[str, Any]]:
        own = cc.METHODS[method](**params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            seconds = _timed(lambda: own.fit(data, truth, validation=part))
        return seconds, _learned(own)

    def on_blocks(client: Any | None) -> tuple[float, dict[str, Any]]:
        with (
            nullcontext() if client is None else dask(client),
            cc.scan(files, "trec", block_rows=block_rows) as blocks,
        ):
            return fitted(blocks)

    fitted(votes)
    one, known = fitted(votes)
    seconds = {"memory": one}
    try:
        on_blocks(None)
        seconds["blocks"], found = on_blocks(None)
    except KindError as error:
        return {"rows": votes.n_rows, "seconds": seconds, "not_from_blocks": str(error).partition(". ")[0]}
    differences = {"blocks": _difference(known, found)}
    with _cluster() as client:
        on_blocks(client)
        seconds["workers"], found = on_blocks(client)
        differences["workers"] = _difference(known, found)
        with _worker_killed(client, 0.5 * seconds["workers"]) as gone:
            seconds["killed"], found = on_blocks(client)
            on_the_way = bool(gone)
        differences["killed"] = _difference(known, found)
    return {
        "rows": votes.n_rows,
        "seconds": seconds,
        "differences": differences,
        "numbers": sorted(known),
        "killed_on_the_way": on_the_way,
    }


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "same": same,
    "copy": copy,
    "grow": grow,
    "threads": threads,
    "dask_fuse": dask_fuse,
    "dask_fit": dask_fit,
}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](**json.loads(sys.argv[2]))))
