"""Times the present source beside another commit, in turns and in one run: start-up, request, workload A, B1.

`make versus REV=v0.1.0` prints new over old, of the best and of the median of several runs; a ratio above 1 is slower
than before. On a machine with other work the two differ: how far shows the noise. The old source is unpacked under
benchmarks/work and runs with the environment of the new one. `make evidence ARGS='--only versus'` compares with the
last source before input was hardened, and keeps the result.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measure import CACHE, ROOT, run, workload
from models_peers import Worker, ours
from models_peers import workload as pairs
from render import table

HERE = Path(__file__).parent
REQUEST = {"n_lists": 3, "length": 100, "pool": 200, "repeats": 200}
# The last source before input was hardened, its day, and how many times as long the present one may take.
BEFORE, DAY, LIMIT = "deac857", "16 November 2026", 1.05


def _environment(source: Path) -> dict[str, str]:
    """Return the variables that make a process use a source, which keeps its bytecode as an installed one does."""
    return {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": ""}


def unpacked(revision: str) -> Path:
    """Return the folder with the source of a commit, unpacking it once."""
    folder = CACHE / f"versus-{revision}"
    if not folder.exists():
        packed = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as files:
            files.extractall(folder, filter="data")
    return folder / "src"


def _seconds(*command: str) -> Callable[[Path], float]:
    """Return a function that times a command with the library of a folder."""
    return lambda source: run([sys.executable, *command], env=_environment(source)).seconds


def _fused(method: str, out: list[str], quick: bool) -> Callable[[Path], float]:
    """Return a function that times the fusion of ten runs of a million rows each, which are made when first needed."""

    def timed(source: Path) -> float:
        folder = workload("A-10", "--nq", "10", "--no-flagr") if quick else workload("A", "--no-flagr")
        files = [str(p) for p in sorted(folder.glob("run_*.trec"))]
        return _seconds("-m", "concordant", "aggregate", *files, "--method", method, *out)(source)

    return timed


def _request(source: Path) -> float:
    command = [sys.executable, str(HERE / "ours_worker.py"), "containers", json.dumps(REQUEST)]
    answer = json.loads(run(command, env=_environment(source)).output.splitlines()[-1])
    return float(answer["ours_us"]) / 1e6


def _fewer(file: str) -> str:
    """Return the file of the first thousand comparisons of a workload."""
    target = CACHE / f"first-{Path(file).name}"
    if not target.exists():
        with np.load(file) as found:
            np.savez(target, **{name: found[name][:1000] if found[name].ndim else found[name] for name in found.files})
    return str(target)


def _fit(name: str, quick: bool, **params: Any) -> Callable[[Path], float]:
    """Return a function that times a fit of Bradley-Terry, in a process that has compiled its loops."""
    workers: dict[Path, Worker] = {}

    def timed(source: Path) -> float:
        if source not in workers:
            job = {"file": _fewer(pairs(name)) if quick else pairs(name), **params}
            workers[source] = Worker(ours("bradley_terry", job, **_environment(source)))
            workers[source]()
        return float(workers[source]()["seconds"])

    return timed


def cases(*, quick: bool = False) -> dict[str, tuple[int, Callable[[Path], float]]]:
    """Return what is timed: the number of rounds, and a function from the source to seconds."""
    small = [str(p) for p in sorted((ROOT / "src" / "concordant" / "data" / "sample" / "runs").glob("*"))]
    out = ["-o", os.devnull, "--to", "trec", "--quiet"]
    return {
        "import concordant": (15, _seconds("-c", "import concordant")),
        "concordant --version": (15, _seconds("-m", "concordant", "--version")),
        "aggregate rrf, sample": (15, _seconds("-m", "concordant", "aggregate", *small, "--method", "rrf", *out)),
        "request, 3 lists of 100": (8, _request),
        "workload A, rrf": (5, _fused("rrf", out, quick)),
        "workload A, comb-mnz": (5, _fused("comb-mnz", out, quick)),
        "B1, no intervals": (9, _fit("b1", quick, ties="none", uncertainty="none")),
        "B1 with ties, no intervals": (9, _fit("b1t", quick, ties="davidson", uncertainty="none")),
    }


def compared(revision: str, *, only: str = "", rounds: int = 1, quick: bool = False) -> Iterator[dict[str, Any]]:
    """Time every case in turns, and yield its milliseconds and ratios as soon as they are known."""
    sources = {"old": unpacked(revision), "new": ROOT / "src"}
    for name, (usual, timed) in cases(quick=quick).items():
        if only and not any(part in name for part in only.split(",")):
            continue
        seen: dict[str, list[float]] = {which: [] for which in sources}
        # The first round fills caches.
        for turn in range((1 if quick else usual * rounds) + 1):
            # Who is first in a round takes turns as well.
            for which in sorted(sources, reverse=bool(turn % 2)):
                seconds = timed(sources[which])
                if turn:
                    seen[which].append(seconds)
        best = {which: min(found) for which, found in seen.items()}
        yield {
            "case": name,
            "rounds": len(seen["new"]),
            "old_ms": 1000 * best["old"],
            "new_ms": 1000 * best["new"],
            "best": best["new"] / best["old"],
            "medians": statistics.median(seen["new"]) / statistics.median(seen["old"]),
        }


def versus(*, quick: bool = False) -> dict[str, Any]:
    """Time start-up, a request, workload A and fits of Bradley-Terry beside the source before input was hardened."""
    rows = list(compared(BEFORE, quick=quick))
    return {"commit": BEFORE, "day": DAY, "limit": LIMIT, "failed": any(r["best"] > LIMIT for r in rows), "cases": rows}


def show(r: dict[str, Any]) -> str:
    """Return the section of the page of results."""
    rows = [
        [c["case"], f"{c['old_ms']:,.2f} ms", f"{c['new_ms']:,.2f} ms", f"{c['best']:.3f}", f"{c['medians']:.3f}"]
        for c in r["cases"]
    ]
    note = (
        f"The source of {r['day']} (commit {r['commit']}) is the last before input was hardened: checks of damaged "
        "files, hostile models and extreme votes came after it. Both sources ran in turns in one environment. The "
        f"times are those of the best run, and their ratio, new over old, may be {r['limit']:g} at most; the ratio of "
        "the medians beside it shows how noisy the machine was."
    )
    return table(["", "before", "now", "ratio", "ratio of medians"], rows) + "\n\n" + note


SECTIONS = {"versus": versus}
RENDER = {"versus": show}


def main() -> None:
    """Time every case in turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=1, help="how many times as many rounds as usual")
    parser.add_argument("--only", default="", help="cases, separated by commas: those whose names hold one of these")
    parser.add_argument("--quick", action="store_true", help="one round on small data: shows that everything runs")
    options = parser.parse_args()
    print(f"{'':28s} {'old':>10s} {'new':>10s}   new / old   medians", flush=True)
    for c in compared(options.revision, only=options.only, rounds=options.rounds, quick=options.quick):
        times = f"{c['old_ms']:8.2f}ms {c['new_ms']:8.2f}ms"
        print(f"{c['case']:28s} {times}   {c['best']:9.3f}   {c['medians']:7.3f}", flush=True)


if __name__ == "__main__":
    main()
