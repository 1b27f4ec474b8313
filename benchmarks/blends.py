"""Blends of learners: MQ2008-agg and TREC-3, beside their members, with the paired standard error of each difference.

The three sets of members were settled before any test fold was looked at. The set that is named first is the one with
the best NDCG@10 on the validation parts. The rule that chooses the penalty was judged on synthetic runs.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
import trec3_supervised
from render import table
from studies import DATA

import concordant as cc
from concordant.aggregators.blend import _PENALTIES, _select_penalty, _WeightLoss
from concordant.errors import ConcordantWarning
from concordant.learning.supervision import ValidationMetric
from concordant.selection import cross_validate
from concordant.selection.folds import hold_out

METRICS = ["ndcg@1", "ndcg@5", "ndcg@10", "map"]
SEEDS = 3
BASELINE = "RRF"
# All members, and the blends of some of them. The first blend is that of the defaults, which needs no extra.
MEMBERS = ("listwise-linear", "crf", "svd-rank", "boosted-trees")
BLENDS = {
    "blend (listwise-linear, crf, svd-rank)": (0, 1, 2),
    "blend (listwise-linear, crf, boosted-trees)": (0, 1, 3),
    "blend (listwise-linear, crf, svd-rank, boosted-trees)": (0, 1, 2, 3),
}
# What was to be reached, in percent.
FLOORS = {
    "blend": {"ndcg@1": 42.8, "ndcg@5": 51.6, "map": 51.2},
    "boosted-trees": {"ndcg@1": 41.5, "ndcg@5": 51.3, "map": 50.9},
}
# The best published cells, each of another row.
PUBLISHED = {"ndcg@1": 42.81, "ndcg@5": 51.03, "map": 50.41}
DEPTH = 100
# The share of the training topics by which members stop early: without it each fit would cross-validate.
HELD_OUT = 0.2


PENALTY: dict[str, Any] = {
    "data_sets": 10,
    "train": 25,
    "test": 100,
    "items": [100, 150],
    "experts": 15,
    "metrics": ["ndcg@10", "map"],
    "seed": 5,
}


class KeptBlend(cc.Blend):
    """A blend that keeps the held-out scores of its members, so that blends of some of them need no further fits."""

    def _learn_weights(self, scores: Any, *data: Any) -> Any:
        self.kept = (scores, *data)
        return super()._learn_weights(scores, *data)

    def part(self, which: Sequence[int]) -> cc.Blend:
        """Return the fitted blend of some of the members: what a fit with these alone gives."""
        out = copy(self)
        scores, *data = self.kept
        out.members_, out.member_names_ = ([own[m] for m in which] for own in (self.members_, self.member_names_))
        out.fit_info_ = copy(self.fit_info_)
        out.member_weights_ = cc.Blend._learn_weights(out, scores[:, list(which)], *data)
        return out


def letor() -> dict[str, Any]:
    """MQ2008-agg, blends of learners and their members: mean of the five test folds, three seeds (letor convention)."""
    folder = DATA / "MQ2008-agg"
    if not folder.is_dir():
        return {"not_available": "MQ2008-agg"}
    folds = cc.read_letor_folds(folder)
    # For every method the values of all test queries by metric, seed by seed; and NDCG@10 of the validation parts.
    values: dict[str, dict[str, list[Any]]] = {}
    validation: dict[str, list[float]] = {}
    learned: dict[str, list[dict[str, Any]]] = {}

    def note(name: str, answers: Sequence[tuple[int, cc.Consensus]]) -> None:
        each = [
            cc.evaluate(answer, folds[f].test.labels, METRICS, convention="letor")
            for f, answer in sorted(answers, key=lambda pair: pair[0])
        ]
        whole = cc.combine_folds(each)
        for metric in METRICS:
            values.setdefault(name, {}).setdefault(metric, []).append(whole.values[metric])
            values[name].setdefault(f"{metric} mean", []).append(whole.mean[metric])

    def judged(name: str, method: Any, fold: int) -> None:
        part = folds[fold].vali
        judge = ValidationMetric(part.preferences, part.labels, metric="ndcg@10")
        validation.setdefault(name, []).append(judge(method.predict(part.preferences).score))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        note(BASELINE, [(f, cc.RRF().fit_predict(fold.test.preferences)) for f, fold in enumerate(folds)])
        started = time.perf_counter()
        method = KeptBlend(members=MEMBERS)
        runs = cross_validate(method, folds=folds, metrics=METRICS, convention="letor", seeds=SEEDS).runs
        print(f"  fitted in {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
        for seed in range(SEEDS):
            own = [run for run in runs if run.seed == seed]
            ways: dict[str, list[Any]] = {}
            for run in own:
                for name, which in BLENDS.items():
                    part = run.method.part(which)
                    learned.setdefault(name, []).append(
                        {"seed": seed, "fold": run.fold, "chosen": part.fit_info_.chosen}
                    )
                    ways.setdefault(name, []).append(part)
                ways.setdefault(f"{name}, equal weights", []).append(_equally_weighted(part))
                # The members were fitted as they would be alone.
                for member, one in zip(MEMBERS, run.method.members_, strict=True):
                    ways.setdefault(member, []).append(one)
            for name, each in ways.items():
                note(
                    name,
                    [(r.fold, one.predict(folds[r.fold].test.preferences)) for r, one in zip(own, each, strict=True)],
                )
                for r, one in zip(own, each, strict=True):
                    judged(name, one, r.fold)
    best = max(BLENDS, key=lambda name: float(np.mean(validation[name])))
    rows = {name: _row(own) for name, own in values.items()}
    for name, found_values in validation.items():
        rows[name]["validation"] = 100 * float(np.mean(found_values))
    return {
        "rows": rows,
        "best": best,
        "less": {name: _differences(values[best], own) for name, own in values.items() if name != best},
        "published": PUBLISHED,
        "learned": learned,
        "select": cc.Blend().select,
        "seeds": SEEDS,
    }


def _equally_weighted(blend: Any) -> Any:
    """Return the same fitted members with equal weights."""
    out = copy(blend)
    out.member_weights_ = np.full(len(out.members_), 1 / len(out.members_))
    return out


def _row(values: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the means in percent, the standard deviation over the seeds, and the standard error over the queries."""
    out: dict[str, Any] = {"mean": {}, "spread": {}, "stderr": {}}
    for metric in METRICS:
        by_seed = 100 * np.array(values[f"{metric} mean"])
        per_query = 100 * np.mean(values[metric], axis=0)
        out["mean"][metric] = float(by_seed.mean())
        out["spread"][metric] = float(by_seed.std(ddof=1)) if len(by_seed) > 1 else None
        out["stderr"][metric] = float(per_query.std(ddof=1) / np.sqrt(len(per_query)))
    return out


def _differences(best: dict[str, list[Any]], other: dict[str, list[Any]]) -> dict[str, list[float]]:
    """Return by how much the best blend is above another row, and the paired standard error over the queries."""
    out = {}
    for metric in METRICS:
        gap = 100 * (np.mean(best[metric], axis=0) - np.mean(other[metric], axis=0))
        out[metric] = [float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(len(gap)))]
    return out


def _floors(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {
        metric: {"floor": floor, "value": row["mean"][metric], "reached": row["mean"][metric] >= floor}
        for metric, floor in FLOORS[name].items()
    }


def trec3() -> dict[str, Any]:
    """TREC-3, blends: fitted on the first 100 of each list for half of the topics, tested on the other half."""
    if not trec3_supervised.available():
        return {"not_available": "trec3-adhoc"}
    ours = trec3_supervised
    halves = [ours.files_of(ours.TRAIN, "train"), ours.files_of(ours.TEST, "test")]
    data = [(ours.pool(half, DEPTH), cc.read_labels(half.qrels)) for half in halves]
    values: dict[str, dict[str, list[Any]]] = {}
    learned = []

    def note(name: str, answer: cc.Consensus, labels: cc.Labels) -> None:
        found = cc.evaluate(answer, labels, ["map", "ndcg@10"], convention="trec")
        for metric in ("map", "ndcg@10"):
            values.setdefault(name, {}).setdefault(metric, []).append(found.values[metric])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        for (votes, truth), (asked, labels) in (data, data[::-1]):
            started = time.perf_counter()
            members = [
                cc.ListwiseLinear(select="map"),
                cc.CRF(select="map", passes=100),
                cc.SVDRank(select="map", passes=40),
                cc.RRF(weights="learned", select="map"),
                cc.BoostedTrees(select="map"),
            ]
            train, held = hold_out(votes, truth, HELD_OUT, 0)
            blend = cc.Blend(members=members, select="map").fit(*train, validation=held)
            note("blend", blend.predict(asked), labels)
            note("blend, equal weights", _equally_weighted(blend).predict(asked), labels)
            names = [name if name != "rrf" else "rrf, weights learned" for name in blend.member_names_]
            for name, member in zip(names, blend.members_, strict=True):
                note(name, member.predict(asked), labels)
            note("rrf", cc.RRF().fit_predict(asked), labels)
            learned.append(blend.fit_info_.chosen)
            print(f"  {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    own = {name: {m: np.concatenate(v) for m, v in of.items()} for name, of in values.items()}
    means = {name: {m: float(v.mean()) for m, v in of.items()} for name, of in own.items()}
    less = {
        name: {
            m: [float((own["blend"][m] - v).mean()), float((own["blend"][m] - v).std(ddof=1) / np.sqrt(len(v)))]
            for m, v in of.items()
        }
        for name, of in own.items()
        if name != "blend"
    }
    best = {m: max(names, key=lambda name: means[name][m]) for m in ("map", "ndcg@10")}
    met = {m: less[name][m][0] >= -less[name][m][1] for m, name in best.items()}
    return {"means": means, "less": less, "best_member": best, "met": met, "learned": learned, "depth": DEPTH}


def penalty() -> dict[str, Any]:
    """Penalties of blends chosen by the loss or by a metric: synthetic runs with few labels and long lists."""
    p = PENALTY
    quality = np.random.default_rng(p["seed"]).uniform(0.2, 2.0, p["experts"]).round(2).tolist()
    values: dict[str, dict[str, list[float]]] = {}
    for seed in range(p["data_sets"]):
        votes, labels = cc.synthetic.labelled_runs(
            p["train"] + p["test"],
            quality=quality,
            labels=[0] * 40 + [1] * 4 + [2],
            n_items=tuple(p["items"]),
            largest_rank=p["items"][1],
            missing=0.6,
            random_state=seed,
        )
        asked, truth = votes[p["train"] :], labels[p["train"] :]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            blend = KeptBlend(members=["listwise-linear", "crf", "boosted-trees"], random_state=seed)
            blend.fit(votes[: p["train"]], labels)
        scores, target, train, folds, _ = blend.kept
        problem = _WeightLoss.of(scores, target, train, folds)
        ways = {"equal weights": _equally_weighted(blend)}
        for rule, l2 in {"loss": _by_loss(problem), **{m: _by_metric(blend, labels, m) for m in p["metrics"]}}.items():
            ways[f"by {rule}"] = out = copy(blend)
            found = problem.minimum(l2, np.arange(len(problem.folds)))
            out.member_weights_ = found / found.sum()
        ways |= dict(zip(blend.member_names_, blend.members_, strict=True))
        for name, method in ways.items():
            found = cc.evaluate(method.predict(asked), truth, p["metrics"], convention="trec").mean
            for metric, value in found.items():
                values.setdefault(name, {}).setdefault(metric, []).append(100 * value)
    return {**p, "values": values}


def _by_metric(blend: Any, labels: cc.Labels, metric: str) -> float:
    scores, target, train, folds, _ = blend.kept
    judge = ValidationMetric(train, labels, metric)
    return _select_penalty(_WeightLoss.of(scores, target, train, folds), scores, train.slots, folds, judge)


def _by_loss(problem: _WeightLoss) -> float:
    """Return the strongest penalty whose held-out loss exceeds the least by at most one paired standard error."""
    losses = []
    for l2 in _PENALTIES:
        own = np.zeros(len(problem.folds))
        for fold in np.unique(problem.folds).tolist():
            w = problem.minimum(l2, np.flatnonzero(problem.folds != fold))
            for n in np.flatnonzero(problem.folds == fold).tolist():
                own[n] = problem.value(w, 0.0, np.array([n]))[0]
        losses.append(own)
    best = min(losses, key=lambda own: float(own.mean()))
    excess = {l2: own - best for l2, own in zip(_PENALTIES, losses, strict=True)}
    return max(l2 for l2, own in excess.items() if own.mean() <= own.std(ddof=1) / np.sqrt(len(own)))


def _render_penalty(r: dict[str, Any]) -> str:
    equal, rows = r["values"]["equal weights"], []
    for name, own in r["values"].items():
        gaps = [np.array(own[m]) - equal[m] for m in r["metrics"]]
        beside = [f"{gap.mean():+.2f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.2f}" for gap in gaps]
        alone = name == "equal weights"
        rows.append([name, *(f"{np.mean(own[m]):.2f}" for m in r["metrics"]), *(["–"] * 2 if alone else beside)])
    return "\n\n".join(
        [
            f"{r['data_sets']} data sets, {r['train']} queries to fit and {r['test']} to test, {r['items'][0]} to "
            f"{r['items'][1]} items, {r['experts']} experts. The same fitted members, and weights with the penalty "
            "that each rule chooses: the strongest whose held-out loss, or metric, is worse than the best by at most "
            "one paired standard error. In percent; beside equal weights with the standard error over the data sets.",
            table(["", *r["metrics"], *(f"{m}, beside equal weights" for m in r["metrics"])], rows),
        ]
    )


def _render_letor(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    rows = []
    for name, row in r["rows"].items():
        cells = [
            f"{row['mean'][m]:.2f}" + ("" if row["spread"][m] is None else f" ± {row['spread'][m]:.2f}")
            for m in METRICS
        ]
        rows.append([name, *cells, f"{row['validation']:.2f}" if "validation" in row else "–"])
    gaps = [[name, *(f"{of[m][0]:+.2f} ± {of[m][1]:.2f}" for m in METRICS)] for name, of in r["less"].items()]
    best = r["rows"][r["best"]]
    beside = [
        f"{m} {best['mean'][m] - cell:+.2f} (standard error of our mean {best['stderr'][m]:.2f})"
        for m, cell in r["published"].items()
    ]
    floors = [
        [name, metric, f"{v['floor']:.1f}", f"{v['value']:.2f}", "yes" if v["reached"] else "no"]
        for name, row in r["rows"].items()
        if (name in BLENDS and "boosted-trees" in name) or name == "boosted-trees"
        for metric, v in _floors(row, name.split()[0]).items()
    ]
    weights = [[name, *_mean_weights(each)] for name, each in r["learned"].items()]
    return "\n\n".join(
        [
            table(["", *METRICS, "NDCG@10 on validation parts"], rows),
            f"Means of the five test folds in percent, over {r['seeds']} seeds; ± is the standard deviation of the "
            "means of the seeds. The members alone are those of the blends.",
            f"The blend with the best NDCG@10 on the validation parts is *{r['best']}*. By how much it is above the "
            "other rows, and the paired standard error over the test queries:",
            table(["above", *METRICS], gaps),
            f"Less the best published cells, each of another row: {'; '.join(beside)}.",
            table(["set out to reach", "", "at least", "ours", "reached"], floors),
            "The mean weights over folds and seeds, and the penalties that were chosen:",
            table(["blend", "weights", "penalties"], weights),
            "The sets of members were settled on the validation parts, before the test folds were run. "
            + (
                f"The penalty is chosen by {r['select']}, a rule that was decided on synthetic runs (below) after the "
                "test folds had been run with the listwise loss in its place."
                if "select" in r
                else "Measured while the listwise loss chose the penalty, not a metric (below)."
            ),
        ]
    )


def _mean_weights(each: list[dict[str, Any]]) -> list[str]:
    names = [n for n in each[0]["chosen"] if n.startswith("weight of ")]
    means = {n.removeprefix("weight of "): float(np.mean([one["chosen"][n] for one in each])) for n in names}
    penalties = sorted(float(one["chosen"]["l2"]) for one in each)
    counts = [f"{p:g} ({penalties.count(p)})" for p in dict.fromkeys(penalties)]
    return [", ".join(f"{name} {value:.2f}" for name, value in means.items()), ", ".join(counts)]


def _render_trec3(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    rows = [
        [
            name,
            *(f"{of[m]:.4f}" for m in ("map", "ndcg@10")),
            *(f"{r['less'][name][m][0]:+.4f} ± {r['less'][name][m][1]:.4f}" if name in r["less"] else "–" for m in of),
        ]
        for name, of in r["means"].items()
    ]
    return "\n\n".join(
        [
            f"All 40 runs, the first {r['depth']} of each; means over the 50 topics, each half predicted by a blend "
            f"of the other, of which {HELD_OUT:.0%} serve as validation part. The last columns: by how much the blend "
            "is above, with the paired standard error over the topics.",
            table(["", "MAP", "NDCG@10", "blend above, MAP", "blend above, NDCG@10"], rows),
            "The members and the penalty of the blend are selected by MAP. The penalty was first chosen by the loss, "
            "which gave weights below equal ones on these topics (MAP 0.4423 and 0.4496). A metric chooses it since, a "
            "rule that was decided after this was seen, and judged on synthetic runs (above).",
            "Target: within one paired standard error of the best member, or above it. "
            + "; ".join(
                f"{m} beside {name} ({r['less'][name][m][0]:+.4f} ± {r['less'][name][m][1]:.4f}): "
                f"{'met' if r['met'][m] else 'not met'}"
                for m, name in r["best_member"].items()
            )
            + ".",
        ]
    )


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "blend_letor": letor,
    "blend_penalty": penalty,
    "blend_trec3": trec3,
}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {
    "blend_letor": _render_letor,
    "blend_penalty": _render_penalty,
    "blend_trec3": _render_trec3,
}
