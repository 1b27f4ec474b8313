"""A data set in the shape of the Yahoo! set: PMOP to its stopping rule, and LightGBM with 100 trees on the same table.

The data are drawn: a linear score with noise, cut into grades. Each contender has a process of its own, whose peak
memory is that of the process, drawing or mapping the table included; both are quiet but for their progress, which goes
to standard error. Run as a program it is the process of PMOP, which also leaves the table on disk for LightGBM.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measure import CACHE, PEERS_PYTHON
from render import table

import concordant as cc
from concordant.arrays import Floats, Ints
from concordant.errors import ConcordantWarning
from concordant.execution import watch

SEED = 7
LIMIT_GB = 8.0
TREES = 100
METRICS = ("err", "ndcg@1", "ndcg@5", "ndcg@10")
# Of the example that LightGBM brings with it.
PARAMETERS = {
    "objective": "lambdarank",
    "learning_rate": 0.1,
    "num_leaves": 31,
    "max_bin": 255,
    "bagging_freq": 1,
    "bagging_fraction": 0.9,
    "min_data_in_leaf": 50,
    "min_sum_hessian_in_leaf": 5.0,
    "seed": SEED,
    "deterministic": True,
    "force_col_wise": True,
    "num_threads": 2,
    "verbosity": -1,
}


class Shape(NamedTuple):
    """How large a data set is."""

    queries: int
    documents: int
    features: int
    most: int = 139


YAHOO = Shape(19_944, 473_134, 519)


def sizes_of(shape: Shape) -> Ints:
    """Return how many documents every query has: skewed as in search, 1 to `most`, and exactly so many in all."""
    rng = np.random.default_rng(SEED)
    mean = shape.documents / shape.queries
    drawn = np.clip(np.rint(rng.gamma(2.0, mean / 2.0, size=shape.queries)), 1, shape.most).astype(np.int64)
    while (gap := shape.documents - int(drawn.sum())) != 0:
        room = np.flatnonzero(drawn < shape.most if gap > 0 else drawn > 1)
        some = rng.choice(room, size=min(abs(gap), len(room)), replace=False)
        drawn[some] += np.sign(gap)
    return drawn


def held_out(shape: Shape) -> int:
    """Return how many queries at the end are kept from training: a tenth."""
    return shape.queries // 10


def evaluated(scored: cc.Consensus, labels: cc.Labels) -> dict[str, float]:
    """Return the metrics of the held-out part."""
    return dict(cc.evaluate(scored, labels, list(METRICS), convention="paper").mean)


def drawn(shape: Shape) -> tuple[cc.Features, cc.Labels]:
    """Return the data set."""
    return cc.synthetic.graded_features(
        shape.queries, n_features=shape.features, n_items=sizes_of(shape).tolist(), n_grades=5, random_state=SEED
    )


def split(features: cc.Features, labels: cc.Labels, n_train: int) -> list[tuple[cc.Features, cc.Labels]]:
    """Return the first instances and the others as views of the one table, which is not copied."""
    parts = []
    rows = int(features.slots.offsets[n_train])
    for which, cut in ((np.arange(n_train), slice(None, rows)), (np.arange(n_train, len(features)), slice(rows, None))):
        slots, _ = features.slots.take(which)
        parts.append(
            (
                cc.Features.from_codes(slots, features.X[cut], features.names),
                cc.Labels.from_codes(slots, labels.label[cut]),
            )
        )
    return parts


def train(shape: Shape, folder: Path) -> dict[str, Any]:
    """Draw the data, train PMOP, evaluate it, and leave the table in a folder."""
    marks = [time.perf_counter()]
    whole, labels = drawn(shape)
    counts = np.bincount(labels.label.astype(np.int64), minlength=5).tolist()
    (own, own_labels), (other, other_labels) = split(whole, labels, shape.queries - held_out(shape))
    marks.append(time.perf_counter())
    _tell(f"drew {len(whole):,} queries, {whole.n_slots:,} documents, {whole.n_features} features", marks)
    model = cc.PMOP()

    ticks: list[float] = []

    def step(done: int, most: int) -> None:
        ticks.append(time.perf_counter())
        if done % 5 == 0 or done == 1:
            print(f"  PMOP: step {done} of at most {most}, {time.perf_counter() - marks[-1]:.0f} s", file=sys.stderr)

    with warnings.catch_warnings(), watch(step):
        warnings.simplefilter("ignore", ConcordantWarning)
        model.fit(own, own_labels)
    marks.append(time.perf_counter())
    _tell(f"PMOP stopped after {model.fit_info_.n_iter} steps", marks)
    scored = model.predict(other)
    marks.append(time.perf_counter())
    values = evaluated(scored, other_labels)
    marks.append(time.perf_counter())
    np.save(folder / "X.npy", whole.X)
    np.save(folder / "y.npy", labels.label)
    np.save(folder / "sizes.npy", whole.slots.sizes)
    return {
        "queries": len(whole),
        "documents": whole.n_slots,
        "features": whole.n_features,
        "grades": counts,
        "table_gb": whole.X.nbytes / 1e9,
        "drawing": marks[1] - marks[0],
        "training": marks[2] - marks[1],
        "per_step": (ticks[-1] - ticks[0]) / max(len(ticks) - 1, 1),
        "predicting": marks[3] - marks[2],
        "steps": model.fit_info_.n_iter,
        "converged": model.fit_info_.converged,
        "objective": model.fit_info_.objective,
        "values": values,
    }


def _tell(what: str, marks: Sequence[float]) -> None:
    print(f"  {what} in {marks[-1] - marks[-2]:.0f} s", file=sys.stderr, flush=True)


def loud(command: Sequence[str], **env: str) -> tuple[dict[str, Any], float]:
    """Return what a process printed last and its peak memory in MB; its standard error goes on to the terminal."""
    with subprocess.Popen(list(command), stdout=subprocess.PIPE, text=True, env={**os.environ, **env}) as child:
        out = child.stdout.read() if child.stdout else ""
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{' '.join(command)[:200]} failed with exit code {child.returncode}")
    answer: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return answer, usage.ru_maxrss / 1024


def study(shape: Shape = YAHOO, *, boosted: bool = True) -> dict[str, Any]:
    """Return both contenders on a data set of some shape."""
    folder = CACHE / f"ltr-{shape.queries}"
    folder.mkdir(parents=True, exist_ok=True)
    ours, peak = loud([sys.executable, __file__, json.dumps(shape), str(folder)])
    out: dict[str, Any] = {"ours": ours | {"peak_mb": peak}, "limit_gb": LIMIT_GB, "within": peak < 1024 * LIMIT_GB}
    if boosted:
        files = {n: str(folder / f"{n}.npy") for n in ("X", "y", "sizes")}
        n_train = shape.queries - held_out(shape)
        options = files | {"params": PARAMETERS, "trees": TREES, "n_train": n_train, "out": str(folder / "score.npy")}
        worker = str(Path(__file__).parent / "peer_worker.py")
        theirs, memory = loud([PEERS_PYTHON, worker, "lightgbm_large", json.dumps(options)])
        values = _their_values(np.load(folder / "score.npy"), np.load(folder / "y.npy"), sizes_of(shape), n_train)
        seconds = theirs["binning"] + theirs["training"]
        out["lightgbm"] = theirs | {"trees": TREES, "peak_mb": memory, "values": values, "seconds": seconds}
        out["times_lightgbm"] = ours["training"] / seconds
    for file in folder.glob("*.npy"):
        file.unlink()
    return out


def _their_values(score: Floats, label: Floats, sizes: Ints, n_train: int) -> dict[str, float]:
    query = np.repeat(np.arange(n_train, len(sizes)), sizes[n_train:]).astype(str)
    items = np.arange(len(query)).astype(str)
    own = label[int(sizes[:n_train].sum()) :]
    return evaluated(cc.Consensus(query, items, score), cc.Labels(query, items, own))


def yahoo() -> dict[str, Any]:
    """PMOP and LightGBM's lambdarank on data of the size of the Yahoo! set."""
    return study()


def _render(r: dict[str, Any]) -> str:
    ours, theirs = r["ours"], r.get("lightgbm")
    rows = [
        [
            f"PMOP, full ({ours['steps']} steps)",
            f"{ours['training']:.0f} s",
            f"{ours['peak_mb'] / 1024:.2f} GB",
            *(f"{ours['values'][m]:.4f}" for m in METRICS),
        ]
    ]
    text = ""
    if theirs is not None:
        rows.append(
            [
                f"LightGBM {theirs['version']} lambdarank, {theirs['trees']} trees",
                f"{theirs['seconds']:.0f} s ({theirs['binning']:.0f} s of them for bins)",
                f"{theirs['peak_mb'] / 1024:.2f} GB",
                *(f"{theirs['values'][m]:.4f}" for m in METRICS),
            ]
        )
        ratio = r["times_lightgbm"]
        text = f" PMOP took {ratio:.2f} times the time of LightGBM."
    stop = "by its rule" if ours["converged"] else "at its largest number of steps"
    rest = ours["training"] - ours["steps"] * ours["per_step"]
    pace = f"{ours['per_step']:.2f} s a step, {rest:.0f} s for the rest"
    return "\n\n".join(
        [
            f"{ours['queries']:,} queries, {ours['documents']:,} documents, {ours['features']} features "
            f"({ours['table_gb']:.2f} GB), grades 0 to 4 ({', '.join(f'{n:,}' for n in ours['grades'])}), drawn in "
            f"{ours['drawing']:.0f} s; a tenth of the queries is held out. The grades depend on a linear score, "
            "which suits PMOP and not trees, so this compares only time and memory.",
            table(["", "training", "peak memory", *METRICS], rows),
            f"PMOP stopped {stop} ({pace}); the peak of the whole process, drawing the table included, is "
            f"{'below' if r['within'] else 'above'} {r['limit_gb']:g} GB.{text} LightGBM maps the table from disk, and "
            "mapped pages count in its peak.",
        ]
    )


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"ltr_yahoo": yahoo}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {"ltr_yahoo": _render}

if __name__ == "__main__":
    print(json.dumps(train(Shape(*json.loads(sys.argv[1])), Path(sys.argv[2]))))
