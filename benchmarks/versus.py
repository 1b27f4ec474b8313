"""Times the present source beside another commit, in turns and in one run: start-up, request, workload A, B1.

`make versus REV=v0.1.0` prints new over old, of the best and of the median of several runs; a ratio above 1 is slower
than before. On a machine with other work the two differ: how far shows the noise. The old source is unpacked under
benchmarks/work and runs with the environment of the new one.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import CACHE, ROOT, run, workload
from models_peers import Worker, ours
from models_peers import workload as pairs

HERE = Path(__file__).parent
REQUEST = {"n_lists": 3, "length": 100, "pool": 200, "repeats": 200}


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


def _fused(method: str, out: list[str]) -> Callable[[Path], float]:
    """Return a function that times the fusion of ten runs of a million rows each, which are made when first needed."""

    def timed(source: Path) -> float:
        files = [str(p) for p in sorted(workload("A", "--no-flagr").glob("run_*.trec"))]
        return _seconds("-m", "concordant", "aggregate", *files, "--method", method, *out)(source)

    return timed


def _request(source: Path) -> float:
    command = [sys.executable, str(HERE / "ours_worker.py"), "containers", json.dumps(REQUEST)]
    answer = json.loads(run(command, env=_environment(source)).output.splitlines()[-1])
    return float(answer["ours_us"]) / 1e6


def _fit(name: str, **params: Any) -> Callable[[Path], float]:
    """Return a function that times a fit of Bradley-Terry, in a process that has compiled its loops."""
    workers: dict[Path, Worker] = {}

    def timed(source: Path) -> float:
        if source not in workers:
            job = {"file": pairs(name), **params}
            workers[source] = Worker(ours("bradley_terry", job, **_environment(source)))
            workers[source]()
        return float(workers[source]()["seconds"])

    return timed


def cases() -> dict[str, tuple[int, Callable[[Path], float]]]:
    """Return what is timed: the number of rounds, and a function from the source to seconds."""
    small = [str(p) for p in sorted((ROOT / "src" / "concordant" / "data" / "sample" / "runs").glob("*"))]
    out = ["-o", os.devnull, "--to", "trec", "--quiet"]
    return {
        "import concordant": (15, _seconds("-c", "import concordant")),
        "concordant --version": (15, _seconds("-m", "concordant", "--version")),
        "aggregate rrf, sample": (15, _seconds("-m", "concordant", "aggregate", *small, "--method", "rrf", *out)),
        "request, 3 lists of 100": (8, _request),
        "workload A, rrf": (5, _fused("rrf", out)),
        "workload A, comb-mnz": (5, _fused("comb-mnz", out)),
        "B1, no intervals": (9, _fit("b1", ties="none", uncertainty="none")),
        "B1 with ties, no intervals": (9, _fit("b1t", ties="davidson", uncertainty="none")),
    }


def main() -> None:
    """Time every case in turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=1, help="how many times as many rounds as usual")
    parser.add_argument("--only", default="", help="cases, separated by commas: those whose names hold one of these")
    options = parser.parse_args()
    sources = {"old": unpacked(options.revision), "new": ROOT / "src"}
    print(f"{'':28s} {'old':>10s} {'new':>10s}   new / old   medians", flush=True)
    for name, (rounds, timed) in cases().items():
        if options.only and not any(part in name for part in options.only.split(",")):
            continue
        seen: dict[str, list[float]] = {which: [] for which in sources}
        # The first round fills caches.
        for turn in range(rounds * options.rounds + 1):
            # Who is first in a round takes turns as well.
            for which in sorted(sources, reverse=bool(turn % 2)):
                seconds = timed(sources[which])
                if turn:
                    seen[which].append(seconds)
        old, new = min(seen["old"]), min(seen["new"])
        middle = statistics.median(seen["new"]) / statistics.median(seen["old"])
        print(f"{name:28s} {1000 * old:8.2f}ms {1000 * new:8.2f}ms   {new / old:9.3f}   {middle:7.3f}", flush=True)


if __name__ == "__main__":
    main()
