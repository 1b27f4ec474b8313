"""What `auto` chooses on every labelled set, against the best of its candidates in hindsight.

Each set is split into parts to fit and parts to test. `auto` chooses on the part to fit; then each of its candidates,
the blend included, is fitted to the whole of that part and tested. The best in hindsight is the one with the best mean
over all test instances, which nobody could know before.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import blends
import numpy as np
import trec3_supervised
from render import table
from studies import DATA

import concordant as cc
from concordant.errors import ConcordantWarning
from concordant.selection.automatic import Auto
from concordant.selection.folds import FoldData, fit_fold, hold_out, predict_with_features
from concordant.selection.parallel_fits import unfitted_copy
from concordant_papers import crowd

METRIC = "ndcg@10"
TREC3_DEPTH = 100
CROWD_SPLITS = 5
# Seconds for a choice on the other sets than MQ2008-agg, which has no limit.
BUDGET = 120.0


class Trial(NamedTuple):
    """A part to fit, with a validation part or None, and a part to test."""

    train: tuple[Any, cc.Labels]
    validation: tuple[Any, cc.Labels] | None
    test: tuple[Any, cc.Labels]


def _measured(trials: list[Trial], convention: str, budget: float | None = None) -> dict[str, Any]:
    """Return what was chosen in every trial, and the test values of the choices and of every candidate."""
    values: dict[str, list[Any]] = {}
    chosen, seconds, tried = [], [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        for trial in trials:
            started = time.perf_counter()
            found = Auto(budget=budget, metric=METRIC, convention=convention)
            found.fit(*trial.train, validation=trial.validation)
            seconds.append(time.perf_counter() - started)
            own = {}
            for one in (t for t in found.tried_ if not np.isnan(t.mean)):
                fold = FoldData(*trial.train, trial.validation, *trial.test)
                method = fit_fold(unfitted_copy(one.method), fold)
                answer = predict_with_features(method, trial.test[0], None)
                own[_kind(one.name)] = cc.evaluate(answer, trial.test[1], METRIC, convention=convention).values[METRIC]
            for name, of_test in own.items():
                values.setdefault(name, []).append(of_test)
            name = _kind(found.fit_info_.chosen["method"])
            values.setdefault("auto", []).append(own[name])
            chosen.append(name)
            tried.append([t._replace(method=t.method.name)._asdict() for t in found.tried_])
            print(f"  {found.why_} {seconds[-1]:.0f} s", file=sys.stderr, flush=True)
    joined = {name: np.concatenate(each) for name, each in values.items() if len(each) == len(trials)}
    means = {name: float(v.mean()) for name, v in joined.items()}
    best = max((name for name in joined if name != "auto"), key=lambda name: means[name])
    gaps = {}
    for name, value in joined.items():
        gap = joined["auto"] - value
        gaps[name] = [float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(len(gap)))]
    return {
        "instances": len(joined["auto"]),
        "chosen": chosen,
        "seconds": seconds,
        "means": means,
        "best": best,
        "less": gaps,
        "budget": budget,
        "within": gaps[best][0] >= -gaps[best][1],
        "tried": tried,
    }


def _kind(name: str) -> str:
    """Return the name of a method; blends of any members are one method."""
    return "blend of the learners" if name.startswith("blend(") else name


def mq2008() -> dict[str, Any]:
    """Choice by `auto` on MQ2008-agg: five folds, each with its validation part (letor convention)."""
    folder = DATA / "MQ2008-agg"
    if not folder.is_dir():
        return {"not_available": "MQ2008-agg"}
    folds = cc.read_letor_folds(folder)
    return _measured([Trial(tuple(f.train), tuple(f.vali), tuple(f.test)) for f in folds], "letor")


def crowd_judgements() -> dict[str, Any]:
    """Choice by `auto` on TREC 2011 crowd judgements: five random splits, documents with gold labels only."""
    folder = DATA / "trec2011-crowd"
    if not folder.is_dir():
        return {"not_available": "trec2011-crowd"}
    trials = []
    for split in range(CROWD_SPLITS):
        train, vali, test = crowd.parts(str(folder), split)
        both = cc.concat([train.gold_votes, vali.gold_votes])
        trials.append(Trial((both, cc.concat([train.gold, vali.gold])), None, (test.gold_votes, test.gold)))
    return _measured(trials, "letor", BUDGET)


def trec3() -> dict[str, Any]:
    """Choice by `auto` on TREC-3: the first 100 of 40 runs, each half of the topics from the other."""
    ours = trec3_supervised
    if not ours.available():
        return {"not_available": "trec3-adhoc"}
    halves = [ours.files_of(ours.TRAIN, "train"), ours.files_of(ours.TEST, "test")]
    data = [(cc.read_runs(ours._paths(half)).top(TREC3_DEPTH), cc.read_labels(half.qrels)) for half in halves]
    trials = [Trial(*hold_out(*one, blends.HELD_OUT, 0), other) for one, other in (data, data[::-1])]
    return _measured(trials, "trec", BUDGET)


def features() -> dict[str, Any]:
    """Choice by `auto` on features: MQ2008 fold 1 with 46 features (letor convention)."""
    folder = DATA / "MQ2008-ltr46-fold1"
    if not folder.is_dir():
        return {"not_available": "MQ2008-ltr46-fold1"}
    parts = []
    for name in ("train", "test"):
        rows = np.load(folder / f"{name}.npy")
        queries, items = [f"{q:.0f}" for q in rows[:, 1]], [str(n) for n in range(len(rows))]
        parts.append((cc.Features(queries, items, rows[:, 2:]), cc.Labels(queries, items, rows[:, 0])))
    return _measured([Trial(parts[0], None, parts[1])], "letor", BUDGET)


def _render(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    rows = []
    for name, mean in sorted(r["means"].items(), key=lambda pair: -pair[1]):
        gap = r["less"][name]
        cell = "–" if name == "auto" else f"{100 * gap[0]:+.2f} ± {100 * gap[1]:.2f}"
        mark = ", the best in hindsight" if name == r["best"] else ""
        rows.append([f"**{name}**" if name == "auto" else name + mark, f"{100 * mean:.2f}", cell])
    counts = [f"{name} ({r['chosen'].count(name)})" for name in dict.fromkeys(r["chosen"])]
    gap = r["less"][r["best"]]
    limit = "Without a limit of time" if r["budget"] is None else f"With a budget of {r['budget']:.0f} s"
    verdict = "within one standard error of" if r["within"] else "more than one standard error below"
    return "\n\n".join(
        [
            table(["method", "NDCG@10 on test instances", "auto above it, with the paired standard error"], rows),
            f"Chosen: {', '.join(counts)}. `auto` is {verdict} the best in hindsight ({100 * gap[0]:+.2f} ± "
            f"{100 * gap[1]:.2f}, {r['instances']:,} test instances). {limit}, it took "
            f"{np.mean(r['seconds']):.0f} s a choice.",
        ]
    )


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "auto_mq2008": mq2008,
    "auto_crowd": crowd_judgements,
    "auto_trec3": trec3,
    "auto_features": features,
}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = dict.fromkeys(SECTIONS, _render)
