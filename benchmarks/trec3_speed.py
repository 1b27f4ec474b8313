"""Time on all forty runs of TREC-3: learned RRF, evaluation beside ir_measures, Bradley-Terry and SVP."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import trec3_supervised
from measure import PEERS_PYTHON, interleaved
from render import table

import concordant as cc
from concordant.errors import ConcordantWarning

# The command line's name of each metric, and that of ir_measures.
METRICS = {
    "map": "AP",
    "ndcg@10": "nDCG@10",
    "ndcg@100": "nDCG@100",
    "p@5": "P@5",
    "p@10": "P@10",
    "mrr": "RR",
    "recall@1000": "R@1000",
    "rprec": "Rprec",
}
FITS: dict[str, Callable[[], Any]] = {
    "rrf": cc.RRF,
    "rrf, weights learned": lambda: cc.RRF(weights="learned", select="map"),
    "rrf, k and weights learned": lambda: cc.RRF(k="learned", weights="learned", select="map"),
}
PAIRWISE: dict[str, Callable[[], Any]] = {"bradley-terry": cc.BradleyTerry, "svp": cc.SVP}
# What the pairwise methods may take on all topics.
LIMIT = 60.0


def _seconds(job: Callable[[], object]) -> float:
    started = perf_counter()
    job()
    return perf_counter() - started


def fits(runs: cc.Preferences, labels: cc.Labels, repeats: int) -> dict[str, dict[str, float]]:
    """Return seconds to fit RRF and predict with it, each the best of several taken in turn, and times plain RRF."""
    jobs: dict[str, Callable[[], object]] = {
        name: lambda make=make: make().fit(runs, labels).predict(runs)  # type: ignore[misc]
        for name, make in FITS.items()
    }
    for job in jobs.values():
        job()  # compiles
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(repeats):
        for name, job in jobs.items():
            best[name] = min(best[name], _seconds(job))
    return {name: {"seconds": s, "times_rrf": s / best["rrf"]} for name, s in best.items()}


def pairwise(runs: cc.Preferences) -> dict[str, dict[str, Any]]:
    """Return seconds of the methods on pairs for all instances, and the most steps of one."""
    out = {}
    for name, make in PAIRWISE.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            make().fit_predict(runs[:1])  # compiles
            method = make()
            seconds = _seconds(lambda method=method: method.fit_predict(runs))  # type: ignore[misc]
        out[name] = {"seconds": seconds, "within_limit": seconds <= LIMIT, "steps": method.fit_info_.n_iter}
    return out


def evaluated(files: Sequence[str], qrels: str, repeats: int) -> dict[str, Any]:
    """Return seconds of whole processes that evaluate all runs: the command line, and ir_measures in one process.

    The means must agree first.
    """
    worker = str(Path(__file__).parent / "peer_worker.py")
    options = {"runs": list(files), "qrels": qrels, "metrics": list(METRICS.values())}
    shown = ["--labels", qrels, "--metrics", ",".join(METRICS), "--convention", "trec", "--expert-from", "file"]
    costs = interleaved(
        {
            "concordant": [sys.executable, "-m", "concordant", "evaluate", *files, *shown, "--json", "--quiet"],
            "ir_measures": [PEERS_PYTHON, worker, "ir_measures_files", json.dumps(options)],
        },
        repeats=repeats,
    )
    ours = [one["metrics"] for one in json.loads(costs["concordant"].output)["results"]]
    theirs = json.loads(costs["ir_measures"].output.splitlines()[-1])
    # The command sorts its rows.
    gap = max(
        abs(a - b)
        for metric, name in METRICS.items()
        for a, b in zip(sorted(one[metric] for one in ours), sorted(one[name] for one in theirs), strict=True)
    )
    if not gap < 1e-9:
        raise SystemExit(f"Concordant and ir_measures disagree by {gap}; the times mean nothing")
    return {
        "runs": len(files),
        "largest_difference": gap,
        "seconds": {name: cost.seconds for name, cost in costs.items()},
        "peak_mb": {name: cost.peak_mb for name, cost in costs.items()},
        "share_of_ir_measures": costs["concordant"].seconds / costs["ir_measures"].seconds,
    }


def study(files: Sequence[str], qrels: str, *, repeats: int = 3) -> dict[str, Any]:
    """Return all times on these runs."""
    runs, labels = cc.read_runs(list(files)), cc.read_labels(qrels)
    out: dict[str, Any] = {"instances": len(runs), "rows": runs.n_rows, "limit": LIMIT}
    for name, part in (
        ("evaluated", lambda: evaluated(files, qrels, repeats)),
        ("fits", lambda: fits(runs, labels, repeats)),
        ("pairwise", lambda: pairwise(runs)),
    ):
        out[name] = part()
        print(f"  {name}", file=sys.stderr, flush=True)
    return out


def speed() -> dict[str, Any]:
    """TREC-3 ad hoc, all 40 runs and 50 topics: time to learn RRF, to evaluate, and of the methods on pairs."""
    if not trec3_supervised.available():
        return {"not_available": "trec3-adhoc"}
    topics = (*trec3_supervised.TRAIN, *trec3_supervised.TEST)
    found = trec3_supervised.files_of(topics, "all")
    return study([str(p) for p in sorted(found.runs.glob("input.*"))], str(found.qrels))


def _render(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    e = r["evaluated"]
    return "\n\n".join(
        [
            f"{r['rows']:,} rows, {r['instances']} topics. RRF in memory, fit and prediction, warm:",
            table(
                ["", "time", "times rrf"],
                [[name, f"{v['seconds']:.2f} s", f"{v['times_rrf']:.1f}"] for name, v in r["fits"].items()],
            ),
            f"`concordant evaluate` of {len(METRICS)} metrics over {e['runs']} runs, the whole process: "
            f"{e['seconds']['concordant']:.1f} s and {e['peak_mb']['concordant']:.0f} MB; ir_measures in one process: "
            f"{e['seconds']['ir_measures']:.1f} s and {e['peak_mb']['ir_measures']:.0f} MB. Ratio of the times: "
            f"{e['share_of_ir_measures']:.2f}. Largest difference of a mean: {e['largest_difference']:.0e}.",
            f"Methods on pairs, all topics, warm (limit {r['limit']:.0f} s):",
            table(
                ["", "time", "most steps of a topic", "within the limit"],
                [
                    [name, f"{v['seconds']:.1f} s", f"{v['steps']}", "yes" if v["within_limit"] else "no"]
                    for name, v in r["pairwise"].items()
                ],
            ),
        ]
    )


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"trec3_speed": speed}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {"trec3_speed": _render}
