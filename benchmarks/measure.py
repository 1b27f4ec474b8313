"""Timing whole processes beside each other: wall time and peak memory of a child, interleaved, best of several."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / "benchmarks" / "work"
PEERS_PYTHON = os.environ.get("CONCORDANT_PEERS_PYTHON", str(ROOT / ".venv-peers" / "bin" / "python"))


class Cost(NamedTuple):
    """What a process took."""

    seconds: float
    peak_mb: float
    output: str
    cpu: float


def run(command: Sequence[str], *, env: dict[str, str] | None = None) -> Cost:
    """Return the time, peak memory and standard output of a child process; raise if it fails."""
    started = time.perf_counter()
    with subprocess.Popen(
        list(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})}, text=True
    ) as child:
        # Standard output is small here; both pipes are read before waiting for the resources used.
        out = child.stdout.read() if child.stdout else ""
        err = child.stderr.read() if child.stderr else ""
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    if child.returncode != 0:
        sys.stderr.write(err[-4000:])
        raise RuntimeError(f"{' '.join(map(str, command))[:300]} failed with exit code {child.returncode}")
    return Cost(seconds, usage.ru_maxrss / 1024, out, usage.ru_utime + usage.ru_stime)


def best(costs: Sequence[Cost]) -> Cost:
    """Return the quickest run, with the least processor time and the largest memory seen in any."""
    quickest = min(costs, key=lambda c: c.seconds)
    return quickest._replace(peak_mb=max(c.peak_mb for c in costs), cpu=min(c.cpu for c in costs))


def interleaved(commands: dict[str, Sequence[str]], repeats: int) -> dict[str, Cost]:
    """Return the best of several runs of each command, taken in turn so that a noisy minute hits all of them."""
    seen: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            seen[name].append(run(command))
    return {name: best(costs) for name, costs in seen.items()}


def peer(task: str, **options: Any) -> tuple[dict[str, Any], float]:
    """Run a task of peer_worker.py in the peers' environment; return what it printed and its peak memory in MB."""
    worker = str(Path(__file__).parent / "peer_worker.py")
    cost = run([PEERS_PYTHON, worker, task, json.dumps(options)])
    answer: dict[str, Any] = json.loads(cost.output.strip().splitlines()[-1])
    return answer, cost.peak_mb


def workload(name: str, *options: str) -> Path:
    """Return the folder of a workload made by shared/workloads/runs.py, generating it once."""
    folder = CACHE / name
    if not (folder / ".done").exists():
        generator = ROOT.parent / "shared" / "workloads" / "runs.py"
        if not generator.exists():
            raise SystemExit("the benchmark workloads come from ../shared/workloads/runs.py, which is not here")
        folder.mkdir(parents=True, exist_ok=True)
        run([sys.executable, str(generator), str(folder), *options])
        (folder / ".done").touch()
    return folder


def long_ids(source: Path, name: str) -> Path:
    """Return a copy of a workload whose item ids are 30 bytes long (short ids sit inline in Polars and flatter)."""
    folder = CACHE / name
    if not (folder / ".done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(source.glob("*.trec")):
            with path.open() as lines, (folder / path.name).open("w") as out:
                out.writelines(line.replace(" D", " clueweb09-en0000-00-D", 1) for line in lines)
        (folder / ".done").touch()
    return folder


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the least-squares slope of log time against log size: 1 is linear."""
    x = [math.log(s) for s in sizes]
    y = [math.log(t) for t in seconds]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / sum((a - mx) ** 2 for a in x)


def folder_mb(path: Path) -> float:
    """Return the size of everything below a folder in MB."""
    return sum(f.lstat().st_size for f in path.rglob("*") if f.is_file() and not f.is_symlink()) / 1e6
