"""Compare the models with other libraries: equal answers first, then time, interleaved within one run.

Every tool fits in a process of its own that stays alive, so that all of them are warm and take turns. Before anything
is timed the scores are compared and the gradient of the likelihood is computed here, from the scores alone, for both
sides: a peer's tolerance is the loosest power of ten that brings it below the same bound.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Self

import numpy as np
from measure import CACHE, PEERS_PYTHON, ROOT, run
from numpy.typing import NDArray
from render import table

Floats = NDArray[np.float64]

REPEATS = 7
# Largest derivative of the log-likelihood by a parameter, over the number of outcomes that bear on it.
GRADIENT = 1e-9
HERE = Path(__file__).parent
# arena-rank pins its dependencies exactly and cannot live beside the other peers; it is measured where it is installed.
ARENA_PYTHON = os.environ.get("CONCORDANT_ARENA_PYTHON", "")


class Job(NamedTuple):
    """What a tool is asked to do, and in which environment."""

    task: str
    options: dict[str, Any]
    python: str = PEERS_PYTHON
    env: Mapping[str, str] = {}

    @property
    def command(self) -> list[str]:
        """The process that can do it."""
        script = "pairs_worker_ours.py" if self.python == sys.executable else "pairs_worker_peers.py"
        return [self.python, str(HERE / script)]


def ours(task: str, options: dict[str, Any], **env: str) -> Job:
    """Return a job for Concordant."""
    return Job(task, options, sys.executable, env)


class Worker:
    """A process that does one job as often as asked."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            job.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **job.env},
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.stdin:
            self.process.stdin.close()
        self.process.wait()

    def __call__(self) -> dict[str, Any]:
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the worker has no pipes")
        request = {"task": self.job.task, "options": self.job.options}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.job.task} failed in {self.job.command[0]}; its message is above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def once(job: Job) -> dict[str, Any]:
    """Return the answer of a fresh process, with the seconds from its start to the answer as `cold`."""
    with Worker(job) as worker:
        return worker() | {"cold": time.perf_counter() - worker.started}


def in_turns(jobs: Mapping[str, Job], repeats: int = REPEATS) -> dict[str, dict[str, Any]]:
    """Return each tool's last answer with `cold` (start of the process to first answer) and `warm` (median) seconds."""
    workers = {name: Worker(job) for name, job in jobs.items()}
    out: dict[str, dict[str, Any]] = {}
    seen: dict[str, list[float]] = {name: [] for name in jobs}
    try:
        # The first answer warms up; a fresh process, alone, tells the cold time below.
        for name, worker in workers.items():
            out[name] = worker()
        for _ in range(repeats):
            for name, worker in workers.items():
                out[name] = worker()
                seen[name].append(out[name]["seconds"])
    finally:
        for worker in workers.values():
            worker.__exit__()
    return {
        name: out[name] | {"warm": median(seen[name]), "runs": seen[name], "cold": once(jobs[name])["cold"]}
        for name in jobs
    }


def workload(name: str) -> str:
    """Return the file of a workload made by shared/workloads/pairs.py, generating all of them once."""
    folder = CACHE / "pairs"
    if not (folder / ".done").exists():
        generator = ROOT.parent / "shared" / "workloads" / "pairs.py"
        if not generator.exists():
            raise SystemExit("the benchmark workloads come from ../shared/workloads/pairs.py, which is not here")
        folder.mkdir(parents=True, exist_ok=True)
        run([sys.executable, str(generator), str(folder)])
        (folder / ".done").touch()
    return str(folder / f"{name}.npz")


def arrays(file: str) -> dict[str, Any]:
    """Return the arrays of a workload."""
    with np.load(file) as found:
        return {name: found[name] for name in found.files}


def pair_gradient(data: Mapping[str, Any], scores: Floats, tie: float = 0.0) -> float:
    """Return the largest derivative of the log-likelihood of Davidson's model, each over the outcomes it rests on."""
    i, j, y, n = data["i"], data["j"], data["y"], len(scores)
    half = (scores[i] - scores[j]) / 2
    a, b = np.exp(half), np.exp(-half)
    total = a + b + tie
    miss = np.array([-0.5, 0.5, 0.0])[y] - (a - b) / total / 2
    by_score = np.bincount(i, miss, n) - np.bincount(j, miss, n)
    met = np.bincount(i, minlength=n) + np.bincount(j, minlength=n)
    by_tie = abs(float((y == 2).sum() - (tie / total).sum())) / len(y) if tie else 0.0
    return max(float(np.abs(by_score / met).max()), by_tie)


def list_gradient(data: Mapping[str, Any], scores: Floats) -> float:
    """Return the largest derivative of the Plackett-Luce log-likelihood, over the lists an item is in."""
    orders, n = data["R"], len(scores)
    e = np.exp(scores)[orders]
    rest = np.cumsum(e[:, ::-1], axis=1)[:, ::-1]
    rest[:, -1] = np.inf
    miss = -np.cumsum(1 / rest, axis=1) * e
    miss[:, :-1] += 1
    flat = orders.ravel()
    return float(np.abs(np.bincount(flat, miss.ravel(), n) / np.bincount(flat, minlength=n)).max())


def loosest(job: Callable[[float], Job], gradient: Callable[[dict[str, Any]], float], start: int) -> float:
    """Return the loosest power of ten, from 10^start on, at which a peer's gradient is below the bound."""
    for power in range(start, -14, -1):
        if gradient(once(job(10.0**power))) <= GRADIENT:
            return 10.0**power
    raise SystemExit(f"{job(0.0).task} does not reach a gradient of {GRADIENT}")


def _scores(answer: Mapping[str, Any]) -> Floats:
    return np.asarray(answer["scores"], dtype=np.float64)


def _rmse(answer: Mapping[str, Any], data: Mapping[str, Any]) -> float:
    theta = data["theta"] - data["theta"].mean()
    return float(np.sqrt(np.mean((_scores(answer) - theta) ** 2)))


def _same(name: str, one: Mapping[str, Any], other: Mapping[str, Any], allowed: float) -> float:
    gap = float(np.abs(_scores(one) - _scores(other)).max())
    if not gap <= allowed:
        raise SystemExit(f"{name}: the scores disagree by {gap}; nothing is timed")
    return gap


def _compiling(job: Job) -> float:
    """Return the seconds of a fresh process that has to compile everything."""
    with tempfile.TemporaryDirectory() as folder:
        return float(once(job._replace(env={**job.env, "NUMBA_CACHE_DIR": folder}))["cold"])


def _shown(answer: Mapping[str, Any], gradient: float | None) -> dict[str, Any]:
    kept = ("warm", "cold", "runs", "iterations", "converged", "tie", "peak_mb", "uncertainty")
    return {k: answer[k] for k in kept if k in answer} | {"gradient": gradient}


def _pairs(name: str, task: str, ties: str) -> dict[str, Any]:
    """Fit one workload of pairs through Concordant and evalica."""
    file = workload(name)
    data = arrays(file)

    def gradient(answer: dict[str, Any]) -> float:
        return pair_gradient(data, _scores(answer), answer.get("tie", 0.0))

    tolerance = loosest(lambda t: Job(task, {"file": file, "tolerance": t}), gradient, -3)
    params = {"file": file, "ties": ties, "prior": 0}
    jobs = {
        "Concordant": ours("bradley_terry", params | {"uncertainty": "none"}),
        "evalica": Job(task, {"file": file, "tolerance": tolerance}),
        "evalica, finding the items itself": Job(task, {"file": file, "tolerance": tolerance, "indexed": False}),
        "Concordant, with intervals": ours("bradley_terry", params),
    }
    gap = _same(name, once(jobs["Concordant"]), once(jobs["evalica"]), 1e-6)
    found = in_turns(jobs)
    norms = {tool: gradient(answer) for tool, answer in found.items()}
    if not norms["Concordant"] <= GRADIENT:
        raise SystemExit(f"{name}: Concordant stops at a gradient of {norms['Concordant']}")
    return {
        "comparisons": len(data["y"]),
        "items": len(data["theta"]),
        "tolerance": tolerance,
        "largest_difference": gap,
        "tools": {tool: _shown(answer, norms[tool]) | {"rmse": _rmse(answer, data)} for tool, answer in found.items()},
        "compiling": _compiling(jobs["Concordant"]),
        "times_evalica": found["Concordant"]["warm"] / found["evalica"]["warm"],
        "allowed": 1.3,
    }


def peers_bradley_terry() -> dict[str, Any]:
    """B1: 1 M comparisons of 1,000 items without ties, against evalica's bradley_terry."""
    return _pairs("b1", "evalica_bradley_terry", "none")


def peers_ties() -> dict[str, Any]:
    """B1t: 1 M comparisons of 1,000 items with 10 % ties and a tie model, against evalica's newman and half wins."""
    out = _pairs("b1t", "evalica_newman", "davidson")
    half = once(Job("evalica_bradley_terry", {"file": workload("b1t"), "tolerance": 1e-6}))
    return out | {"half_wins": {"seconds": half["seconds"], "rmse": _rmse(half, arrays(workload("b1t")))}}


def peers_plackett_luce() -> dict[str, Any]:
    """B2: 100 k rankings of 10 out of 1,000 items, against choix's ilsr_rankings and a hand-written L-BFGS."""
    file = workload("b2")
    data = arrays(file)

    def gradient(answer: dict[str, Any]) -> float:
        return list_gradient(data, _scores(answer))

    tolerance = loosest(lambda t: Job("choix_ilsr", {"file": file, "tolerance": t}), gradient, -6)
    params = {"file": file, "prior": 0}
    jobs = {
        "Concordant": ours("plackett_luce", params | {"uncertainty": "none"}),
        "choix ilsr_rankings": Job("choix_ilsr", {"file": file, "tolerance": tolerance}),
        "NumPy and L-BFGS by hand": Job("numpy_plackett_luce", {"file": file, "tolerance": 1e-9}),
        "Concordant, with intervals": ours("plackett_luce", params),
    }
    gap = _same("b2", once(jobs["Concordant"]), once(jobs["choix ilsr_rankings"]), 1e-6)
    found = in_turns(jobs)
    norms = {tool: gradient(answer) for tool, answer in found.items()}
    if not norms["Concordant"] <= GRADIENT:
        raise SystemExit(f"b2: Concordant stops at a gradient of {norms['Concordant']}")
    return {
        "rankings": len(data["R"]),
        "items": len(data["theta"]),
        "tolerance": tolerance,
        "largest_difference": gap,
        "tools": {tool: _shown(answer, norms[tool]) | {"rmse": _rmse(answer, data)} for tool, answer in found.items()},
        "compiling": _compiling(jobs["Concordant"]),
        "times_faster_than_choix": found["choix ilsr_rankings"]["warm"] / found["Concordant"]["warm"],
        "asked": 10,
    }


def peers_intervals() -> dict[str, Any]:
    """B3: 95 % intervals for 100 k comparisons of 100 items with ties, against bootstraps and a sandwich."""
    file = workload("b3")
    data = arrays(file)
    theta = data["theta"] - data["theta"].mean()
    resamples = {"file": file, "resamples": 100}
    # Two processes of a pool with two threads each would only be in each other's way.
    alone = {"OPENBLAS_NUM_THREADS": "1"}
    jobs = {
        "Concordant": ours("bradley_terry", {"file": file, "prior": 0}),
        "half-win Bradley–Terry, bootstrap": Job("half_win_bootstrap", resamples | {"processes": 2}, env=alone),
        "logistic regression, bootstrap": Job("logistic_bootstrap", resamples, env=alone),
        "evalica newman, percentile bootstrap": Job("evalica_intervals", resamples | {"model": "newman"}),
        "evalica bradley_terry, percentile bootstrap": Job("evalica_intervals", resamples | {"model": "bradley_terry"}),
        "Concordant, bootstrap of 100": ours(
            "bradley_terry", {"file": file, "prior": 0, "uncertainty": "bootstrap", "n_bootstrap": 100}
        ),
    }
    if ARENA_PYTHON:
        jobs["arena-rank, sandwich"] = Job("arena_rank", {"file": file}, ARENA_PYTHON)
    newman = "evalica newman, percentile bootstrap"
    first = {name: once(jobs[name]) for name in ("Concordant", newman)}
    gap = _same("b3", first["Concordant"], first[newman], 1e-5)
    widths = {name: np.subtract(a["upper"], a["lower"]) for name, a in first.items()}
    wider = float((widths["Concordant"] / widths[newman]).mean())
    if not 0.9 < wider < 1.1:
        raise SystemExit(f"b3: the intervals are {wider} times as wide as evalica's; nothing is timed")
    found = in_turns(jobs)
    tools = {}
    for name, answer in found.items():
        low, high = np.asarray(answer["lower"]), np.asarray(answer["upper"])
        norm = pair_gradient(data, _scores(answer), answer["tie"]) if "tie" in answer else None
        tools[name] = _shown(answer, norm) | {
            "rmse": _rmse(answer, data),
            "mean_width": float((high - low).mean()),
            "truth_inside": float(((low <= theta) & (theta <= high)).mean()),
        }
    fastest = min((name for name in found if "Concordant" not in name), key=lambda name: found[name]["warm"])
    imports = "import concordant, numba, scipy.special, resource; print(resource.getrusage(0).ru_maxrss / 1024)"
    return {
        "comparisons": len(data["y"]),
        "items": len(theta),
        "resamples": 100,
        "largest_difference": gap,
        "mean_width_over_newman": wider,
        "tools": tools,
        "arena_rank": bool(ARENA_PYTHON),
        "compiling": _compiling(jobs["Concordant"]),
        "imports_alone_mb": float(run([sys.executable, "-c", imports]).output),
        "fastest_peer": fastest,
        "times_faster": found[fastest]["warm"] / found["Concordant"]["warm"],
        "asked": 5,
        "asked_mb": 300,
    }


def _auc(trust: Floats, bad: Any) -> float:
    """Return the chance that a good judge is trusted more than a bad one, ties half."""
    good, poor = trust[~bad], trust[bad]
    return float(np.mean((good[:, None] > poor[None, :]) + 0.5 * (good[:, None] == poor[None, :])))


def _spearman(a: Floats, b: Floats) -> float:
    return float(np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1])


def peers_judges() -> dict[str, Any]:
    """B1w: 50 judges, 40 % of them guessing, against crowd-kit's NoisyBradleyTerry."""
    out: dict[str, Any] = {}
    for name in ("b1w", "b1wt"):
        file = workload(name)
        data = arrays(file)
        jobs = {"Concordant": ours("judges", {"file": file}), "crowd-kit": Job("crowdkit_judges", {"file": file})}
        found = in_turns(jobs, repeats=3)
        out[name] = {
            tool: {
                "warm": answer["warm"],
                "cold": answer["cold"],
                "auc": _auc(np.asarray(answer["trust"]), data["bad"]),
                "spearman": _spearman(_scores(answer), data["theta"]),
            }
            for tool, answer in found.items()
        }
    return out


def _seconds(value: float) -> str:
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.1f} s"


def _timing(r: Mapping[str, Any], more: Mapping[str, Callable[[dict[str, Any]], object]]) -> str:
    rows = [
        [
            name,
            _seconds(t["warm"]),
            _seconds(t["cold"]),
            f"{t['warm'] / r['tools']['Concordant']['warm']:.1f}",
            "–" if t["gradient"] is None else f"{t['gradient']:.0e}",
            *(show(t) for show in more.values()),
        ]
        for name, t in r["tools"].items()
    ]
    return table(["", "median of 7, warm", "cold, whole process", "times ours", "gradient", *more], rows)


def _fit_note(r: Mapping[str, Any], peer: str) -> str:
    return (
        f"Largest difference to the scores of {peer}, checked first: {r['largest_difference']:.0e}. Its tolerance is "
        f"{r['tolerance']:.0e}, the loosest power of ten that brings its gradient (largest derivative divided by its "
        f"number of outcomes) below {GRADIENT:.0e}. Our first process, which compiles, takes "
        f"{_seconds(r['compiling'])}."
    )


def _bradley_terry(r: dict[str, Any]) -> str:
    verdict = f"Ours takes {r['times_evalica']:.2f} times evalica's time; the limit is {r['allowed']}."
    parts = [_fit_note(r, "evalica"), _timing(r, {"RMSE to the truth": lambda t: f"{t['rmse']:.4f}"}), verdict]
    if half := r.get("half_wins"):
        parts.append(
            f"A tie counted as half a win (evalica's bradley_terry): {_seconds(half['seconds'])}, RMSE "
            f"{half['rmse']:.4f}; it shrinks every strength."
        )
    return "\n\n".join(parts)


def _plackett_luce(r: dict[str, Any]) -> str:
    faster = f"{r['times_faster_than_choix']:.0f} times faster than choix; the target is {r['asked']}."
    return "\n\n".join([_fit_note(r, "choix"), _timing(r, {"RMSE to the truth": lambda t: f"{t['rmse']:.4f}"}), faster])


def _intervals(r: dict[str, Any]) -> str:
    more = {
        "peak memory": lambda t: f"{t['peak_mb']:.0f} MB",
        "mean width": lambda t: f"{t['mean_width']:.3f}",
        "true scores inside": lambda t: f"{100 * t['truth_inside']:.0f} %",
    }
    note = (
        f"Scores equal to evalica's newman to {r['largest_difference']:.0e}, intervals "
        f"{r['mean_width_over_newman']:.2f} times as wide on average, checked first. Bootstraps draw {r['resamples']} "
        "resamples. The half-win bootstrap follows what FastChat's authors publish about theirs: collapsed "
        "outcomes, multinomial resamples, L-BFGS, one process per core; the logistic one is scikit-learn's on the same "
        "collapsed outcomes. The gradient is that of Davidson's model, which only Concordant and newman maximise; "
        "counting a tie as half a win shrinks the scores, and the truth falls outside."
    )
    if not r["arena_rank"]:
        note += " arena-rank was not installed (set CONCORDANT_ARENA_PYTHON)."
    own = r["tools"]["Concordant"]
    verdict = (
        f"{r['times_faster']:.0f} times faster than the fastest peer ({r['fastest_peer']}); the target is "
        f"{r['asked']}. Peak memory {own['peak_mb']:.0f} MB (limit {r['asked_mb']}), {r['imports_alone_mb']:.0f} MB "
        f"of it for the imports. Our first process, which compiles, takes {_seconds(r['compiling'])}."
    )
    return "\n\n".join([note, _timing(r, more), verdict])


def _judges(r: dict[str, Any]) -> str:
    rows = [
        [
            {"b1w": "without ties", "b1wt": "with ties"}[name],
            tool,
            _seconds(t["warm"]),
            _seconds(t["cold"]),
            f"{t['auc']:.3f}",
            f"{t['spearman']:.4f}",
        ]
        for name, tools in r.items()
        for tool, t in tools.items()
    ]
    head = ["20,000 comparisons, 50 judges", "", "warm", "cold", "AUC of good against bad judges", "Spearman"]
    return table(head, rows) + "\n\ncrowd-kit has no ties; they are dropped for it."


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "peers_bradley_terry": peers_bradley_terry,
    "peers_ties": peers_ties,
    "peers_plackett_luce": peers_plackett_luce,
    "peers_intervals": peers_intervals,
    "peers_judges": peers_judges,
}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {
    "peers_bradley_terry": _bradley_terry,
    "peers_ties": _bradley_terry,
    "peers_plackett_luce": _plackett_luce,
    "peers_intervals": _intervals,
    "peers_judges": _judges,
}

if __name__ == "__main__":
    for section in sys.argv[1:] or SECTIONS:
        results = SECTIONS[section]()
        print(json.dumps(results, indent=1), RENDER[section](results), sep="\n\n", flush=True)
