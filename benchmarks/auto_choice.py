"""What `auto` chooses on every labelled set, against the best of all methods in hindsight.

Each set is split into parts to fit and parts to test. `auto` chooses on the part to fit; then each of its candidates,
the blend included, and every other method that takes the data, are fitted to the whole of that part and tested. The
best in hindsight is the one with the best mean over all test instances, which nobody could know before.
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
from concordant.errors import ConcordantError, ConcordantWarning
from concordant.selection.automatic import Auto, _method_text
from concordant.selection.folds import FoldData, fit_fold, hold_out, labels_of, predict_with_features
from concordant.selection.parallel_fits import unfitted_copy
from concordant_papers import crowd

METRIC = "ndcg@10"
TREC3_DEPTH = 100
CROWD_SPLITS = 3
# Not compared: their time grows faster than the square of the items, or the square of the experts.
SLOW = ("extended-mallows", "kemeny", "mallows", "ranked-pairs", "schulze", "stuart")
# Nor are methods that need all pairs of items, where an instance has more items than this.
MOST_PAIRED = 2000


class Trial(NamedTuple):
    """A part to fit, with a validation part or None, and a part to test."""

    train: tuple[Any, cc.Labels]
    validation: tuple[Any, cc.Labels] | None
    test: tuple[Any, cc.Labels]


def _others(data: Any) -> list[cc.Aggregator]:
    """Return all methods that take some data, at their defaults and without intervals."""
    kind = "comparisons" if isinstance(data, cc.Comparisons) else getattr(data, "kind", "features")
    large = int(data.slots.sizes.max()) > MOST_PAIRED
    out = []
    for name, cls in cc.METHODS.items():
        if name in SLOW or cls.made_of or not (cls.takes_features if kind == "features" else kind in cls.tags.accepts):
            continue
        if large and cls.tags.cost.startswith("O(K M²)"):
            continue
        usual = cls().get_params()
        # Experts may be in one part only.
        own = {n: v for n, v in (("uncertainty", "none"), ("unknown_experts", "ignore")) if n in usual}
        out.append(cls(**own))
    return out


def _measured(trials: list[Trial], convention: str) -> dict[str, Any]:
    """Return what was chosen in every trial, and the test values of the choices and of every other method.

    There is no limit of time, so that nothing depends on the machine.
    """
    values: dict[str, list[Any]] = {}
    left_out: dict[str, str] = {}
    chosen, seconds, tried = [], [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        for trial in trials:
            started = time.perf_counter()
            found = Auto(budget=None, metric=METRIC, convention=convention)
            found.fit(*trial.train, validation=trial.validation)
            seconds.append(time.perf_counter() - started)
            own: dict[str, Any] = {}
            fold = FoldData(*trial.train, trial.validation, *trial.test)
            candidates = {_kind(t.method): t.method for t in found.tried_ if not np.isnan(t.mean)}
            for other, unfitted in ({m.name: m for m in _others(trial.test[0])} | candidates).items():
                try:
                    method = fit_fold(unfitted_copy(unfitted), fold)
                    answer = predict_with_features(method, trial.test[0], None)
                except ConcordantError as error:
                    left_out[other] = str(error)
                    continue
                own[other] = cc.evaluate(answer, trial.test[1], METRIC, convention=convention).values[METRIC]
            for name, of_test in own.items():
                values.setdefault(name, []).append(of_test)
            name = _kind(found.best_method_)
            values.setdefault("auto", []).append(own[name])
            chosen.append(name)
            tried.append([t._replace(name=_kind(t.method), method=t.method.name)._asdict() for t in found.tried_])
            print(f"  {found.why_} {seconds[-1]:.0f} s", file=sys.stderr, flush=True)
    joined = {name: np.concatenate(each) for name, each in values.items() if len(each) == len(trials)}
    means = {name: float(v.mean()) for name, v in joined.items()}
    best = max((name for name in joined if name != "auto"), key=lambda name: means[name])
    tested = {t["name"] for each in tried for t in each}
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
        "candidates": sorted(tested & joined.keys()),
        "left_out": left_out,
        "less": gaps,
        "within": gaps[best][0] >= -gaps[best][1],
        "tried": tried,
    }


def _kind(method: cc.Aggregator) -> str:
    """Return the name of a method; blends of any members are one method, and experts to leave out no difference."""
    if isinstance(method, cc.Blend):
        return "blend of the learners"
    own = unfitted_copy(method)
    return _method_text(own.set_params(unknown_experts="error") if "unknown_experts" in own.get_params() else own)


def mq2008() -> dict[str, Any]:
    """Choice by `auto` on MQ2008-agg: five folds, each with its validation part (letor convention)."""
    folder = DATA / "MQ2008-agg"
    if not folder.is_dir():
        return {"not_available": "MQ2008-agg"}
    folds = cc.read_letor_folds(folder)
    return _measured([Trial(tuple(f.train), tuple(f.vali), tuple(f.test)) for f in folds], "letor")


def crowd_judgements() -> dict[str, Any]:
    """Choice by `auto` on TREC 2011 crowd judgements: three random splits, documents with gold labels only."""
    folder = DATA / "trec2011-crowd"
    if not folder.is_dir():
        return {"not_available": "trec2011-crowd"}
    trials = []
    for split in range(CROWD_SPLITS):
        train, vali, test = crowd.parts(str(folder), split)
        both = cc.concat([train.gold_votes, vali.gold_votes])
        trials.append(Trial((both, cc.concat([train.gold, vali.gold])), None, (test.gold_votes, test.gold)))
    return _measured(trials, "letor")


def trec3() -> dict[str, Any]:
    """Choice by `auto` on TREC-3: the first 100 of 40 runs, each half of the topics from the other."""
    ours = trec3_supervised
    if not ours.available():
        return {"not_available": "trec3-adhoc"}
    halves = [ours.files_of(ours.TRAIN, "train"), ours.files_of(ours.TEST, "test")]
    data = [(ours.pool(half, TREC3_DEPTH), cc.read_labels(half.qrels)) for half in halves]
    trials = [Trial(*hold_out(*one, blends.HELD_OUT, 0), other) for one, other in (data, data[::-1])]
    return _measured(trials, "trec")


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
    return _measured([Trial(parts[0], None, parts[1])], "letor")


def web_features() -> dict[str, Any]:
    """Choice by `auto` on features: LightGBM's sample of a web search, with its own test part (trec convention)."""
    folder = DATA / "lightgbm-lambdarank"
    if not folder.is_dir():
        return {"not_available": "lightgbm-lambdarank"}
    train, test = (cc.read_features(folder / f"rank.{part}", n_features=300) for part in ("train", "test"))
    return _measured([Trial(train, None, test)], "trec")


def music() -> dict[str, Any]:
    """Choice by `auto` on comparisons: 11 queries of music similarity (MIREX), each from the other ten."""
    folder = DATA / "crowdbt-pairwise" / "mirex"
    if not folder.is_dir():
        return {"not_available": "crowdbt-pairwise"}
    pairs, levels = [], []
    for path in sorted(folder.glob("all_pair_*.txt")):
        query = path.stem.removeprefix("all_pair_")
        pairs += [(query, *line.split()) for line in path.read_text().splitlines()]
        levels += [(query, *line.split()) for line in (folder / f"doc_info_{query}.txt").read_text().splitlines()]
    query, worker, winner, loser = zip(*pairs, strict=True)
    votes = cc.Comparisons(query, worker, winner, loser, sided=False)
    query, item, level = zip(*levels, strict=True)
    labels = cc.Labels(query, item, [float(v) for v in level])
    trials = []
    for n in range(len(votes)):
        rest = votes[np.setdiff1d(np.arange(len(votes)), [n])]
        trials.append(Trial((rest, labels_of(labels, rest.instances)), None, (votes[[n]], labels[[n]])))
    return _measured(trials, "trec")


def _render(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    rows = []
    for name, mean in sorted(r["means"].items(), key=lambda pair: -pair[1]):
        gap = r["less"][name]
        cell = "–" if name == "auto" else f"{100 * gap[0]:+.2f} ± {100 * gap[1]:.2f}"
        mark = (", a candidate" if name in r["candidates"] else "") + (", the best" if name == r["best"] else "")
        rows.append([f"**{name}**" if name == "auto" else name + mark, f"{100 * mean:.2f}", cell])
    counts = [f"{name} ({r['chosen'].count(name)})" for name in dict.fromkeys(r["chosen"])]
    gap = r["less"][r["best"]]
    candidate = max(r["candidates"], key=lambda name: r["means"][name])
    of_those = r["less"][candidate]
    lost = f" Not in every trial, and so not compared: {', '.join(r['left_out'])}." if r["left_out"] else ""
    verdict = "within one standard error of" if r["within"] else "more than one standard error below"
    return "\n\n".join(
        [
            table(["method", "NDCG@10 on test instances", "auto above it, with the paired standard error"], rows),
            f"Chosen: {', '.join(counts)}. `auto` is {verdict} the best of all methods in hindsight, {r['best']} "
            f"({100 * gap[0]:+.2f} ± {100 * gap[1]:.2f}, {r['instances']:,} test instances); of its own candidates the "
            f"best is {candidate} ({100 * of_those[0]:+.2f} ± {100 * of_those[1]:.2f}). Without a limit of time a "
            f"choice took {np.mean(r['seconds']):.0f} s.{lost}",
        ]
    )


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "auto_mq2008": mq2008,
    "auto_crowd": crowd_judgements,
    "auto_trec3": trec3,
    "auto_features": features,
    "auto_web_features": web_features,
    "auto_music": music,
}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = dict.fromkeys(SECTIONS, _render)
