"""More data than usual: what one machine does with 10⁵ to 10⁸ rows, two threads, a cluster, and after being killed.

Everything is measured as a process: files in, a file out, memory of its own. A case that is finished is kept under
benchmarks/work and not measured again while the source stays as it is, so that hours of measuring may be broken off.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import growth_pages
import growth_pairs
from growth_worker import trec_scan, write_runs
from measure import CACHE, ROOT, Cost, run, slope, workload

import concordant as cc
from concordant.errors import ConcordantError

CONCORDANT = [sys.executable, "-m", "concordant"]
WORK = CACHE / "growth"
SEED = 7
SYSTEMS, TOP, POOL = 20, 500, 1500
# What a row is in memory: the code of its (instance, item) and its value.
ROW_BYTES = 12
# What was asked for.
MOST_MEMORY_GB, MOST_PER_ROW, MOST_TIMES_SCAN = 12, 1.5, 4.0
LEAST_RATIO, LEAST_SPIN = 1.6, 1.7
MOST_DIFFERENCE = 1e-9
KILLS = 10

FUSED = ("rrf", "comb-mnz", "borda", "crf")
IN_MEMORY = ("rrf", "comb-mnz", "borda", "ulara", "crf", "condorcet", "copeland", "markov-chain")
# What goes through all pairs of items is timed on few large instances; a chain over more items takes too long.
OF_PAIRS, MOST_PAIRS = ("condorcet", "copeland", "markov-chain"), 200_000_000
MOST_ITEMS = {"markov-chain": 10_000}
THREADED = ("MC4", "Condorcet", "CRF fit", "CRF predict", "extended Mallows", "PMOP full", "PMOP exact")
# What is shared over instances and adds up, with what keeps a fit to that.
ADDED_UP: dict[str, dict[str, Any]] = {
    "ulara": {},
    "mpm": {"adherence": "learned", "uncertainty": "none"},
    "crf": {"solver": "lbfgs", "l2": 0.01},
    "bradley-terry": {"ties": "davidson", "uncertainty": "none"},
    "plackett-luce": {"adherence": True, "uncertainty": "none", "missing": "unknown"},
    "extended-mallows": {"max_iter": 5, "missing": "below"},
}


# A process that reads what fusion needs and does nothing with it; it holds all of it, or lets go of each file.
_SCAN = """
import sys, polars as pl
form, hold, *files = sys.argv[1:]
text = {"q": pl.String, "z": pl.String, "d": pl.String, "r": pl.String, "s": pl.Float64, "t": pl.String}
options = {"separator": " ", "has_header": False, "schema": text, "quote_char": None}
rows, held = 0, []
for file in files:
    if form == "trec":
        frame = pl.scan_csv(file, **options).select("q", "d", "s").collect()
    else:
        frame = pl.scan_parquet(file).select("instance", "expert", "item", "score").collect()
    rows += len(frame)
    held += [frame] if hold == "held" else []
print(rows)
"""


@cache
def code(*files: str) -> str:
    """Return what tells one state of the source from another: of the package, and of what is done with it here."""
    digest = hashlib.blake2b(digest_size=8)
    here = Path(__file__).parent
    for path in [
        *sorted((ROOT / "src").rglob("*.py")),
        *(here / f"{file}.py" for file in files or ("growth", "growth_worker", "growth_pairs")),
    ]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


class Cases:
    """The finished cases of a section, in a file; a case of other source or of other sizes is measured again."""

    def __init__(self, section: str, *files: str) -> None:
        WORK.mkdir(parents=True, exist_ok=True)
        self._code = code(*files)
        self._path = WORK / f"{section}.json"
        known = json.loads(self._path.read_text()) if self._path.exists() else {}
        self._cases: dict[str, Any] = known.get("cases", {}) if known.get("code") == self._code else {}

    def get(self, measure: Callable[..., dict[str, Any]], *key: Any) -> dict[str, Any]:
        """Return what a function measures for its arguments, from the file where it is known."""
        name = json.dumps([measure.__name__, *key])
        if name not in self._cases:
            print(f"  {name}", file=sys.stderr, flush=True)
            # As it is read back: keys are texts, tuples are lists.
            self._cases[name] = json.loads(json.dumps(measure(*key)))
            part = self._path.with_suffix(".part")
            part.write_text(json.dumps({"code": self._code, "cases": self._cases}))
            part.replace(self._path)
        found: dict[str, Any] = self._cases[name]
        return found


def forget(section: str) -> None:
    """Have all cases of a section measured again."""
    (WORK / f"{section}.json").unlink(missing_ok=True)


def worker(task: str, *, env: dict[str, str] | None = None, **options: Any) -> tuple[dict[str, Any], Cost]:
    """Return what a task of growth_worker.py says, and what its process took."""
    cost = run(_command(task, **options), env=env)
    answer: dict[str, Any] = json.loads(cost.output.strip().splitlines()[-1])
    return answer, cost


def _command(task: str, **options: Any) -> list[str]:
    return [sys.executable, str(Path(__file__).parent / "growth_worker.py"), task, json.dumps(options)]


def runs_of(queries: int) -> Path:
    """Return the folder of so many queries x 20 systems x top 500 as TREC runs; a smaller one begins a larger one."""
    shape = ("--ns", str(SYSTEMS), "--topk", str(TOP), "--pool", str(POOL), "--no-flagr")
    return workload(f"scale-{queries}", "--nq", str(queries), *shape)


def files_of(queries: int, form: str) -> list[str]:
    """Return the files of a workload as TREC runs, or as Parquet, which are made of them once."""
    source = runs_of(queries)
    runs = sorted(source.glob("run_*.trec"))
    if form == "trec":
        return [str(path) for path in runs]
    folder = source.with_name(source.name + "-parquet")
    folder.mkdir(exist_ok=True)
    found = []
    for path in runs:
        target = folder / f"{path.stem}.parquet"
        if not target.exists():
            part = target.with_suffix(".part")
            trec_scan(path).select(instance="q", expert="t", item="d", score="s").sink_parquet(part)
            part.replace(target)
        found.append(str(target))
    return found


def _scan(files: Sequence[str], form: str, hold: str) -> Cost:
    return run([sys.executable, "-c", _SCAN, form, hold, *files])


def _megabytes(files: Sequence[str]) -> float:
    return sum(os.path.getsize(f) for f in files) / 1e6


def fitted_crf(queries: int) -> str:
    """Return the file of a CRF that has learned from so many queries."""
    WORK.mkdir(parents=True, exist_ok=True)
    path = WORK / f"crf-{queries}-{code()}.model"
    if not path.exists():
        learned = [*files_of(queries, "trec"), "--labels", str(runs_of(queries) / "qrels.trec")]
        run(
            [
                *CONCORDANT,
                "fit",
                *learned,
                "-m",
                "crf",
                "-p",
                "passes=30",
                "--validation-part",
                "0.2",
                "-o",
                str(path),
                "-q",
            ]
        )
    return str(path)


def _aggregate(files: Sequence[str], method: str, model: str, out: str, memory: str) -> list[str]:
    what = ["--model", model] if method == "crf" else ["-m", method]
    return [*CONCORDANT, "aggregate", *files, *what, "-o", out, "--memory", memory, "-q"]


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def fused_round(form: str, queries: int, number: int, learned_from: int) -> dict[str, Any]:
    """Run the bare scans and every method in memory and in blocks, one after another, and compare what they write."""
    del number  # tells one round from the next
    files = files_of(queries, form)
    out: dict[str, Any] = {"scan": {}, "memory": {}, "blocks": {}, "file_mb": _megabytes(files)}
    for hold in ("held", "let go"):
        cost = _scan(files, form, hold)
        out["rows"] = int(cost.output)
        out["scan"][hold] = {"seconds": cost.seconds, "peak_mb": cost.peak_mb}
    for method in FUSED:
        written = {}
        model = fitted_crf(learned_from) if method == "crf" else ""
        for way, memory in (("memory", "1000GB"), ("blocks", "0")):
            written[way] = str(WORK / f"fused-{form}-{queries}-{method}-{way}.{form}")
            cost = run(_aggregate(files, method, model, written[way], memory))
            out[way][method] = {"seconds": cost.seconds, "peak_mb": cost.peak_mb}
        if form == "trec":
            equal = len({_digest(path) for path in written.values()}) == 1
        else:
            equal = worker("same", files=list(written.values()))[0]["same"]
        if not equal:
            raise SystemExit(f"{method} on {out['rows']:,} rows of {form}: in blocks another file than in memory")
        out["written_mb"] = _megabytes(list(written.values())) / 2
        for path in written.values():
            os.unlink(path)
    return out


def _best(costs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {"seconds": min(c["seconds"] for c in costs), "peak_mb": max(c["peak_mb"] for c in costs)}


def scale_runs(
    queries: Sequence[int] = (1_000, 10_000), repeats: Sequence[int] = (3, 2), learned_from: int = 200
) -> dict[str, Any]:
    """Fusion of 10 M and 100 M preferences from TREC runs and Parquet, in memory and in blocks, and a bare scan."""
    cases = Cases("scale_runs")
    out: dict[str, Any] = {"asked": {"gb": MOST_MEMORY_GB, "per_row": MOST_PER_ROW, "times_scan": MOST_TIMES_SCAN}}
    for form in ("trec", "parquet"):
        sizes = []
        for size, times in zip(queries, repeats, strict=True):
            rounds = [cases.get(fused_round, form, size, k, learned_from) for k in range(times)]
            sizes.append(_fused(rounds, size))
        per_row = {
            way: {m: [s[way][m]["seconds"] / s["rows"] for s in (sizes[0], sizes[-1])] for m in FUSED}
            for way in ("memory", "blocks")
        }
        out[form] = {
            "sizes": sizes,
            "per_row_ratio": {way: {m: b / a for m, (a, b) in found.items()} for way, found in per_row.items()},
        }
    return out


def _fused(rounds: Sequence[Mapping[str, Any]], queries: int) -> dict[str, Any]:
    rows = rounds[0]["rows"]
    found: dict[str, Any] = {"queries": queries, "rows": rows, "rounds": len(rounds), "file_mb": rounds[0]["file_mb"]}
    for way in ("scan", "memory", "blocks"):
        found[way] = {m: _best([r[way][m] for r in rounds]) for m in rounds[0][way]}
    for way in ("memory", "blocks"):
        for cost in found[way].values():
            cost["times_scan"] = cost["seconds"] / found["scan"]["held"]["seconds"]
            cost["times_lean_scan"] = cost["seconds"] / found["scan"]["let go"]["seconds"]
            cost["bytes_per_row"] = cost["peak_mb"] * 2**20 / rows
    return found


def rows_round(queries: int, number: int) -> dict[str, Any]:
    """Run RRF from TREC runs to a TREC run and the bare scan of the same files, as processes."""
    del number
    files, out = files_of(queries, "trec"), str(WORK / f"grown-{queries}.trec")
    bare = _scan(files, "trec", "held")
    fused = run([*CONCORDANT, "aggregate", *files, "-m", "rrf", "-o", out, "-q"])
    os.unlink(out)
    return {
        "rows": int(bare.output),
        "rrf": {"seconds": fused.seconds, "peak_mb": fused.peak_mb},
        "scan": {"seconds": bare.seconds, "peak_mb": bare.peak_mb},
    }


def copied(rows: int) -> dict[str, Any]:
    """Return the time of a copy of the codes of so many rows."""
    return worker("copy", rows=rows, width=ROW_BYTES)[0]


def grown(method: str, instances: int, experts: int, items: int, least: float, most: int) -> dict[str, Any]:
    """Return what a method costs in memory, in a process of its own."""
    options = {"instances": instances, "experts": experts, "items": items, "least": least, "most": most}
    return worker("grow", method=method, **options)[0]


def scale_growth(
    queries: Sequence[int] = (10, 100, 1_000, 10_000),
    repeats: Sequence[int] = (5, 5, 3, 2),
    items: Sequence[int] = (10, 100, 1_000, 10_000, 100_000),
    experts: Sequence[int] = (2, 10, 100, 1_000, 10_000),
    rows: int = 1_000_000,
    most: int = 3,
) -> dict[str, Any]:
    """Growth of time and memory with rows (10⁵ to 10⁸), items (10 to 10⁵) and experts (2 to 10⁴)."""
    cases = Cases("scale_growth")
    of_rows = []
    for size, times in zip(queries, repeats, strict=True):
        rounds = [cases.get(rows_round, size, k) for k in range(times)]
        found: dict[str, Any] = {name: _best([r[name] for r in rounds]) for name in ("rrf", "scan")}
        n = rounds[0]["rows"]
        of_rows.append({"rows": n, **found, "copy_seconds": cases.get(copied, n)["seconds"]})
    many = of_rows[-2:] if len(of_rows) > 1 else of_rows
    out: dict[str, Any] = {
        "rows": of_rows,
        "rows_slopes": {
            name: {
                "all": slope([x["rows"] for x in of_rows], [x[name]["seconds"] for x in of_rows]),
                "last": slope([x["rows"] for x in many], [x[name]["seconds"] for x in many]),
            }
            for name in ("rrf", "scan")
        },
        "in_memory_rows": rows,
        "most_items": MOST_ITEMS,
        "copy_seconds": cases.get(copied, rows)["seconds"],
    }
    for what, sizes, fixed in (("items", items, 10), ("experts", experts, 100)):
        out[what] = {"sizes": list(sizes), "fixed": fixed, "methods": {}}
        for method in IN_MEMORY:
            lines = []
            for size in sizes:
                if what == "items" and size > MOST_ITEMS.get(method, size):
                    break
                shape = (fixed, size) if what == "items" else (size, fixed)
                instances = rows // (shape[0] * shape[1])
                if method in OF_PAIRS:
                    instances = min(instances, MOST_PAIRS // shape[1] ** 2)
                instances = max(instances, 1)
                cost = cases.get(grown, method, instances, *shape, 1.0, most)
                lines.append(cost | {"instances": instances, "per_instance": cost["seconds"] / instances})
            far = lines[-3:]
            out[what]["methods"][method] = {
                "costs": lines,
                "slope": slope(sizes[: len(lines)], [x["per_instance"] for x in lines]),
                "slope_of_large": slope(sizes[: len(lines)][-3:], [x["per_instance"] for x in far]),
            }
    return out


def shared(name: str, size: float, repeats: int, turns: int) -> dict[str, Any]:
    """Return one thread beside two for a job; linear algebra keeps to one thread in both."""
    alone = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "VECLIB_MAXIMUM")}
    return worker("threads", env=alone, name=name, size=size, repeats=repeats, turns=turns)[0]


def scale_threads(size: float = 1.0, repeats: int = 5, turns: int = 400_000_000) -> dict[str, Any]:
    """One thread against two on compute-bound jobs, with equal answers and a bare loop for comparison."""
    cases = Cases("scale_threads")
    found = {name: cases.get(shared, name, size, repeats, turns) for name in THREADED}
    for cost in found.values():
        cost["judged"] = cost["spin"] >= LEAST_SPIN
        cost["met"] = cost["ratio"] >= LEAST_RATIO
    asked = {"ratio": LEAST_RATIO, "spin": LEAST_SPIN}
    return {"asked": asked, "repeats": repeats, "jobs": found}


def _instances(n: int, step: int = 1) -> tuple[list[str], str]:
    """Return the files of queries with labels: eight runs, and the qrels; scores in steps make ties."""
    folder = WORK / f"labelled-{n}-{step}"
    qrels = folder / "qrels.txt"
    if not qrels.exists():
        votes, labels = cc.synthetic.labelled_runs(n, random_state=SEED)
        write_runs(votes, folder, step)
        frame = labels.to_frame()
        lines = [f"{q} 0 {d} {label:g}" for q, d, label in frame.select("instance", "item", "label").rows()]
        qrels.write_text("\n".join(lines) + "\n")
    return [str(p) for p in sorted(folder.glob("*.trec"))], str(qrels)


# The jobs that are killed: how large they are so that they take a minute, or as long as files are read.
KILLED = {"CRF fit": 4_000, "θ-MPM fit": 100_000, "RRF in blocks": 1_000}


def _killable(job: str, size: int, folder: Path, stem: str) -> tuple[list[str], Path]:
    """Return a command that goes on where it was killed, and the one file it is to leave."""
    if job == "RRF in blocks":
        target = folder / f"{stem}.trec"
        given = [*files_of(size, "trec"), "-m", "rrf", "-o", str(target), "--memory", "0"]
        return [*CONCORDANT, "aggregate", *given, "--checkpoint", str(folder / f"{stem}.parts"), "-q"], target
    files, qrels = _instances(size)
    target = folder / f"{stem}.model"
    given = ["-m", "crf", "--labels", qrels] if job == "CRF fit" else ["-m", "mpm", "-p", "adherence=learned"]
    noted = ["--checkpoint", str(folder / f"{stem}.checkpoint"), "--resume", "-q"]
    return [*CONCORDANT, "fit", *files, *given, "-o", str(target), *noted], target


def _put_away(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _folder(job: str) -> Path:
    return WORK / "kills" / job.replace(" ", "-")


def _content(path: Path) -> str:
    """Return what tells one output from another: all bytes, but of a model not the seconds its fit took."""
    if path.suffix != ".model":
        return _digest(str(path))
    known = dict(vars(cc.load(path)))
    info = known.pop("fit_info_").to_dict()
    info.pop("seconds")
    digest = hashlib.blake2b()
    for name, value in [*sorted(known.items()), *sorted(info.items())]:
        digest.update(f"{name}\0{_text(value)}\0".encode())
    return digest.hexdigest()


def _text(value: Any) -> str:
    """Return every bit of a value as text."""
    if isinstance(value, dict):
        return "".join(f"{k}:{_text(v)};" for k, v in value.items())
    return f"{value.dtype}{value.shape}{value.tobytes().hex()}" if hasattr(value, "tobytes") else repr(value)


def _is_whole(path: Path, expected: str) -> bool:
    """Return whether an output is there, can be read, and is what it is to be."""
    try:
        return path.exists() and _content(path) == expected
    except ConcordantError:
        return False


def uninterrupted(job: str, size: int) -> dict[str, Any]:
    """Run a job to its end and return how long it took and what it wrote."""
    folder = _folder(job)
    _put_away(folder)
    command, target = _killable(job, size, folder, "whole")
    # The first one compiles what is not compiled yet, and is not timed.
    run(command)
    _put_away(folder)
    cost = run(command)
    return {"seconds": cost.seconds, "bytes": target.stat().st_size, "content": _content(target)}


def killed(job: str, size: int, number: int, at: float, expected: str) -> dict[str, Any]:
    """Kill a job after so many seconds, see what is there, run it again to the end, and compare what it wrote."""
    folder = _folder(job)
    _put_away(folder)
    command, target = _killable(job, size, folder, f"kill{number}")
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            child.wait(timeout=at)
            ended = True
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
            ended = False
    first = time.perf_counter() - started
    if ended and child.returncode != 0:
        raise SystemExit(f"{job} failed before it could be killed, with exit code {child.returncode}")
    there = target.exists()
    # What stands under the final name is complete, whenever one looks.
    broken = there and not _is_whole(target, expected)
    kept = sorted(p.name for p in folder.iterdir() if p != target)
    second = run(command).seconds if not ended else 0.0
    return {
        "at": at,
        "ended_before": ended,
        "output_there": there,
        "half_written": broken,
        "had_checkpoint": any("checkpoint" in name or "parts" in name for name in kept),
        "same": _is_whole(target, expected),
        "seconds": first + second,
    }


def scale_kills(sizes: Mapping[str, int] | None = None, kills: int = KILLS) -> dict[str, Any]:
    """Ten kills at random moments of a CRF fit, a θ-MPM fit and a block-wise aggregation, each resumed."""
    cases = Cases("scale_kills")
    out: dict[str, Any] = {}
    for job, size in (sizes or KILLED).items():
        whole = cases.get(uninterrupted, job, size)
        chance = random.Random(f"{SEED} {job}")
        cut: list[dict[str, Any]] = []
        for k in range(3 * kills):
            at = round(chance.uniform(0.02, 0.98) * whole["seconds"], 3)
            one = cases.get(killed, job, size, k, at, whole["content"])
            if not one["same"] or one["half_written"]:
                raise SystemExit(f"{job}, killed after {at:.1f} s: another output than without the kill")
            # A run that was over before it could be killed says nothing.
            cut += [] if one["ended_before"] else [one]
            if len(cut) == kills:
                break
        out[job] = {
            "size": size,
            "seconds": whole["seconds"],
            "bytes": whole["bytes"],
            "kills": len(cut),
            "same": sum(one["same"] for one in cut),
            "half_written": sum(one["half_written"] for one in cut),
            "complete_before": sum(one["output_there"] for one in cut),
            "from_checkpoint": sum(one["had_checkpoint"] for one in cut),
            "moments": [one["at"] for one in cut],
            "seconds_lost": [one["seconds"] - whole["seconds"] for one in cut],
        }
    return out


def fused_there(method: str, queries: int, repeats: int) -> dict[str, Any]:
    """Return a fusion in memory, in blocks and on two workers, one of them killed in the end."""
    WORK.mkdir(parents=True, exist_ok=True)
    out = str(WORK / f"dask-{method}")
    return worker("dask_fuse", files=files_of(queries, "trec"), method=method, out=out, repeats=repeats)[0]


def fitted_there(method: str, params: dict[str, Any], instances: int, block_rows: int) -> dict[str, Any]:
    """Return a fit in memory, on blocks and on two workers, one of them killed in the end."""
    files, qrels = _instances(instances, step=5 if "ties" in params else 1)
    return worker("dask_fit", files=files, labels=qrels, method=method, params=params, block_rows=block_rows)[0]


def nobody_there(queries: int) -> dict[str, Any]:
    """Return what the command line says where there is no scheduler."""
    target = WORK / "nobody.trec"
    command = [*CONCORDANT, "aggregate", *files_of(queries, "trec"), "-o", str(target), "--engine", "dask"]
    done = subprocess.run([*command, "--scheduler", "tcp://127.0.0.1:9"], capture_output=True, text=True, check=False)
    return {"exit_code": done.returncode, "said": done.stderr.strip().splitlines()[-1], "output": target.exists()}


def scale_dask(
    queries: int = 1_000, repeats: int = 2, instances: int = 2_000, block_rows: int = 40_000
) -> dict[str, Any]:
    """Two Dask workers on one machine against one process: equal answers, seconds, and a killed worker."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        return {"not_available": "Dask"}
    cases = Cases("scale_dask")
    fused = {m: cases.get(fused_there, m, queries, repeats) for m in FUSED if m != "crf"}
    fitted = {m: cases.get(fitted_there, m, params, instances, block_rows) for m, params in ADDED_UP.items()}
    for method, cost in fused.items():
        if not all(cost["same"].values()):
            raise SystemExit(f"{method}: workers write another file than one process")
    for method, cost in fitted.items():
        gap = max(cost.get("differences", {}).values(), default=0.0)
        if not gap <= MOST_DIFFERENCE:
            raise SystemExit(f"{method}: what is learned from blocks differs by {gap:.1e} from what one process learns")
    return {
        "fused": fused,
        "fitted": fitted,
        "missing_scheduler": cases.get(nobody_there, min(queries, 10)),
        "most_difference": MOST_DIFFERENCE,
    }


def collapsed(rows: int, ending: str) -> dict[str, Any]:
    """Return what it takes to collapse and fit so many comparisons, in a process of its own."""
    return growth_pairs.measure(rows, ending)


def scale_pairs(
    sizes: Sequence[int] = growth_pairs.SIZES, formats: Sequence[str] = ("parquet", "csv")
) -> dict[str, Any]:
    """1 M to 100 M comparisons over 100,000 items, collapsed while reading and fitted by Bradley-Terry."""
    cases = Cases("scale_pairs")
    out: dict[str, Any] = {"items": growth_pairs.ITEMS, "asked_gb": MOST_MEMORY_GB, "formats": {}}
    for ending in formats:
        lines = [cases.get(collapsed, rows, ending) for rows in sizes]
        grows = slope(sizes, [x["seconds"] for x in lines]) if len(lines) > 1 else None
        out["formats"][ending] = {"sizes": lines, "slope": grows}
    return out


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "scale_runs": scale_runs,
    "scale_pairs": scale_pairs,
    "scale_growth": scale_growth,
    "scale_threads": scale_threads,
    "scale_dask": scale_dask,
    "scale_kills": scale_kills,
}
RENDER = growth_pages.RENDER
