"""What one evaluation of a ranker's objective costs as an instance grows, and what exact sums over subsets are worth.

An evaluation is what a step of the descent pays for: scores from features, the loss, and its gradient by the weights.
All rankers evaluate one instance of N items in turn, in a process whose linear algebra keeps to one thread; of several
rounds the quickest counts. The other study sets the exact expectations of PMOP beside those of its Markov chains.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from curves import line_chart
from measure import ROOT, run, slope
from render import table

import concordant as cc
from concordant.arrays import Floats
from concordant.kernels.graded_lists import GradedLists

RESULTS = ROOT / "docs" / "results"
SIZES = (1_000, 3_162, 10_000, 31_623, 100_000)
FEATURES = 10
GRADES = 5
# An evaluation is repeated until a round of it takes this long, so that the clock can see it.
ROUND = 0.02
ROUNDS = 9
# All pairs are looked at by these; beyond, a round would take minutes.
QUADRATIC = {"RankNet", "PairTies, Davidson", "PairTies, Rao-Kupper", "LambdaRank, all pairs"}
QUADRATIC_UP_TO = 31_623
EXACT_UP_TO = 10_000
LINEAR = ("PMOP, full", "ListMLE", "RankRegress")
STEEPEST = 1.15
TIMES_RANKNET = 20.0


def rankers() -> dict[str, Any]:
    """Return the rankers by the names of the table."""
    return {
        "PMOP, full": cc.PMOP(),
        "ListMLE": cc.ListMLE(),
        "RankRegress": cc.RankRegress(),
        "RankSVM": cc.RankSVM(),
        "RankNet": cc.RankNet(),
        "PairTies, Davidson": cc.PairTies(model="davidson"),
        "PairTies, Rao-Kupper": cc.PairTies(model="rao-kupper"),
        "LambdaRank": cc.LambdaRank(),
        "LambdaRank, all pairs": cc.LambdaRank(max_items=None),
        "PMOP, Gibbs": cc.PMOP(inference="gibbs"),
        "PMOP, MH": cc.PMOP(inference="mh"),
        "PMOP, exact": cc.PMOP(inference="exact"),
    }


def instance(n: int, features: int = FEATURES) -> tuple[Floats, GradedLists]:
    """Return the features and grades of one instance of n items, by grade, the highest first."""
    table_, labels = cc.synthetic.graded_features(1, n_features=features, n_items=[n], n_grades=GRADES, random_state=n)
    order = np.argsort(-labels.label, kind="stable")
    offsets, key = np.array([0, n], dtype=np.int64), np.array([11], dtype=np.uint64)
    return np.ascontiguousarray(table_.X[order]), GradedLists.of(labels.label[order], offsets, key)


def evaluation(ranker: Any, X: Floats, lists: GradedLists) -> Callable[[], tuple[float, Floats]]:
    """Return a function that evaluates a ranker's objective and its gradient by the weights."""
    prepared = ranker._prepared(lists)
    weights = np.linspace(-0.5, 0.5, X.shape[1])
    extra, by_score = np.zeros(ranker._n_extra), np.empty(len(X))

    def evaluate() -> tuple[float, Floats]:
        score = X @ weights
        loss, _ = ranker._loss(score, prepared, by_score, extra, 0)
        return loss, by_score @ X

    return evaluate


def in_rounds(jobs: Mapping[str, Callable[[], Any]], rounds: int, least: float) -> dict[str, float]:
    """Return the seconds of one call of every job: the quickest of several rounds, taken in turn."""
    calls = {}
    for name, job in jobs.items():
        job()
        started = time.perf_counter()
        job()
        calls[name] = max(1, math.ceil(least / (time.perf_counter() - started)))
    best = dict.fromkeys(jobs, math.inf)
    for _ in range(rounds):
        for name, job in jobs.items():
            started = time.perf_counter()
            for _ in range(calls[name]):
                job()
            best[name] = min(best[name], (time.perf_counter() - started) / calls[name])
    return best


def wanted(name: str, n: int) -> bool:
    """Return whether a ranker is measured at a size."""
    return n <= (EXACT_UP_TO if name == "PMOP, exact" else QUADRATIC_UP_TO if name in QUADRATIC else max(SIZES))


def growth(sizes: tuple[int, ...] = SIZES, rounds: int = ROUNDS, least: float = ROUND) -> dict[str, Any]:
    """Return microseconds per evaluation for every size, slopes, and what was asked for."""
    lines: dict[str, list[float]] = {}
    for n in sizes:
        X, lists = instance(n)
        jobs = {name: evaluation(ranker, X, lists) for name, ranker in rankers().items() if wanted(name, n)}
        for name, seconds in in_rounds(jobs, rounds, least).items():
            lines.setdefault(name, []).append(1e6 * seconds)
    slopes = {name: slope(sizes[: len(line)], line) for name, line in lines.items() if len(line) > 1}
    at = sizes.index(10_000) if 10_000 in sizes else 0
    ratio = lines["RankNet"][at] / lines["PMOP, full"][at]
    return {
        "sizes": list(sizes),
        "features": FEATURES,
        "grades": GRADES,
        "microseconds": lines,
        "slopes": slopes,
        "demands": {
            **{f"slope of {name}": {"at most": STEEPEST, "found": slopes[name]} for name in LINEAR if name in slopes},
            f"times PMOP, full is faster than RankNet at N = {sizes[at]:,}": {
                "at least": TIMES_RANKNET,
                "found": ratio,
            },
        },
    }


def _apart(study: str) -> dict[str, Any]:
    """Return a study from a process of its own, where linear algebra has one thread."""
    alone = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "VECLIB_MAXIMUM")}
    found: dict[str, Any] = json.loads(run([sys.executable, __file__, study], env=alone).output.splitlines()[-1])
    return found


def cost() -> dict[str, Any]:
    """Time of one evaluation (scores, loss, gradient) against the number of items of an instance."""
    return _apart("growth")


CHAINS = ("gibbs", "mh")
CHAIN_SIZES = (25, 100)
CHAIN_SAMPLES = 200_000
BATCHES = 200
STEPS = (1, 2, 3, 10, 100)
TIMED = (25, 100, 1_000)
BIAS_INSTANCES = 40
BIAS_TURNS = 400


def inclusion(n: int, n_samples: int, batches: int) -> dict[str, Any]:
    """Return how far a long chain's inclusion probabilities are from the exact ones, in units of its own error.

    The items are those of one instance; the stage is the first, where all are left, and the chain starts at the
    observed block. The error of a chain is that of the means of batches of its samples.
    """
    from concordant.kernels.elementary_symmetric import exact_stage
    from concordant.kernels.partition_sampler import GIBBS, METROPOLIS, run_chain

    X, lists = instance(n)
    score = X @ np.linspace(-1.0, 1.0, X.shape[1])
    f = score - score.mean()
    law, share, inside = np.empty(n + 1), np.empty(n), np.empty(n)
    exact_stage(f, True, law, share, inside)
    out: dict[str, Any] = {"lowest": float(inside.min()), "highest": float(inside.max())}
    per = n_samples // batches
    for name, kind in zip(CHAINS, (GIBBS, METROPOLIS), strict=True):
        held = (lists.level == 0).astype(np.uint8)
        order, none = np.arange(n), np.zeros(n)
        state = np.uint64(n)
        means = np.zeros((batches, n))
        for b in range(batches):
            for _ in range(per):
                state = np.uint64(run_chain(f, held, kind, False, 1, state, order, none))
                means[b] += held
        means /= per
        error = means.std(axis=0, ddof=1) / math.sqrt(batches)
        gap = means.mean(axis=0) - inside
        z = gap / np.maximum(error, 1e-12)
        out[name] = {
            "samples": per * batches,
            "largest_difference": float(np.abs(gap).max()),
            "typical_error": float(np.median(error)),
            "largest_z": float(np.abs(z).max()),
            "mean_square_z": float((z * z).mean()),
        }
    return out


def bias(instances: int, turns: int, steps: tuple[int, ...] = STEPS) -> dict[str, Any]:
    """Return how far the mean gradient of short chains is from the exact one, at three weights.

    The chains start at the observed blocks, so that what they have not forgotten pulls the gradient towards 0. All in
    parts of the length of the exact gradient at weights of 0.
    """
    features, labels = cc.synthetic.graded_features(instances, n_features=FEATURES, random_state=5)
    best = cc.PMOP(inference="exact", standardise=False).fit(features, labels)
    order = np.lexsort((-labels.label, features.slots.instance))
    X = features.X[order]
    lists = GradedLists.of(labels.label[order], features.slots.offsets, np.arange(instances, dtype=np.uint64))

    def gradient(ranker: Any, weights: Floats, turn: int = 0) -> Floats:
        by_score = np.empty(len(X))
        ranker._loss(X @ weights, lists, by_score, np.zeros(0), turn)
        return by_score @ X / instances

    unit = float(np.linalg.norm(gradient(best, np.zeros(FEATURES))))
    points = {"0": 0.0, "half way": 0.5, "the optimum": 1.0}
    out: dict[str, Any] = {"instances": instances, "turns": turns, "steps": list(steps), "exact": {}, "chains": {}}
    for point, part in points.items():
        weights = part * best.coefficients_
        exact = gradient(best, weights)
        out["exact"][point] = float(np.linalg.norm(exact)) / unit
        for kind in CHAINS:
            for n in steps:
                ranker = cc.PMOP(inference=kind, n_samples=n)
                # Long chains scatter less, and need fewer of them.
                drawn = np.array([gradient(ranker, weights, t) for t in range(max(20, turns // n))])
                gap = drawn.mean(axis=0) - exact
                out["chains"].setdefault(kind, {}).setdefault(point, []).append(
                    {
                        "bias": float(np.linalg.norm(gap)) / unit,
                        "error": float(np.linalg.norm(drawn.std(axis=0, ddof=1))) / math.sqrt(len(drawn)) / unit,
                        "scatter": float(np.linalg.norm(drawn.std(axis=0, ddof=1))) / unit,
                    }
                )
    return out


def chains(
    sizes: tuple[int, ...] = CHAIN_SIZES,
    n_samples: int = CHAIN_SAMPLES,
    batches: int = BATCHES,
    instances: int = BIAS_INSTANCES,
    turns: int = BIAS_TURNS,
    timed: tuple[int, ...] = TIMED,
    rounds: int = ROUNDS,
) -> dict[str, Any]:
    """Return the study of exact sums and chains."""
    shown = ("PMOP, full", "PMOP, exact", "PMOP, Gibbs", "PMOP, MH")
    times: dict[str, list[float]] = {}
    for n in timed:
        X, lists = instance(n)
        every = rankers()
        jobs = {name: evaluation(every[name], X, lists) for name in shown}
        for name, seconds in in_rounds(jobs, rounds, ROUND).items():
            times.setdefault(name, []).append(1e6 * seconds)
    return {
        "inclusion": {str(n): inclusion(n, n_samples, batches) for n in sizes},
        "bias": bias(instances, turns),
        "timed": list(timed),
        "microseconds": times,
    }


def exact() -> dict[str, Any]:
    """PMOP: exact sums over all subsets against Markov chains."""
    return _apart("chains")


def _time(microseconds: float) -> str:
    if microseconds < 1_000:
        return f"{microseconds:,.0f} µs"
    return f"{microseconds / 1_000:,.1f} ms" if microseconds < 1e6 else f"{microseconds / 1e6:,.1f} s"


def _render_cost(r: dict[str, Any]) -> str:
    sizes = r["sizes"]
    picture = RESULTS / "ltr_cost.svg"
    title = "Cost of one evaluation against the items of one instance"
    lines = {n: np.log10(y).tolist() for n, y in r["microseconds"].items() if len(y) > 1}
    line_chart(picture, title, "log10 of items", "log10 of microseconds", np.log10(sizes).round(2).tolist(), lines)
    rows = []
    for name, line in r["microseconds"].items():
        cells = [_time(v) for v in line] + ["–"] * (len(sizes) - len(line))
        rows.append([name, *cells, f"{r['slopes'][name]:.2f}" if name in r["slopes"] else "–"])
    demands = []
    for what, d in r["demands"].items():
        bound = f"at most {d['at most']:g}" if "at most" in d else f"at least {d['at least']:g}"
        met = d["found"] <= d["at most"] if "at most" in d else d["found"] >= d["at least"]
        demands.append([what, bound, f"{d['found']:.2f}", "yes" if met else "no"])
    return "\n\n".join(
        [
            f"One instance, {r['grades']} grades, {r['features']} features, one thread; the best of several "
            "interleaved rounds. The slope is of log time against log items, over all sizes shown in the row.",
            table(["N =", *(f"{n:,}" for n in sizes), "slope"], rows),
            f"![{title}](results/{picture.name})",
            "RankNet, both PairTies and LambdaRank with max_items=None use every pair. Their cost is quadratic, and "
            f"they are not measured beyond {QUADRATIC_UP_TO:,} items; neither is the exact PMOP beyond "
            f"{EXACT_UP_TO:,}. LambdaRank by default pairs a sample of 1,000 items of a larger instance. RankSVM "
            "sorts.",
            table(["asked for", "", "found", "met"], demands),
        ]
    )


def _render_exact(r: dict[str, Any]) -> str:
    names = {"gibbs": "Gibbs", "mh": "MH"}
    rows = [
        [
            n,
            f"{of['lowest']:.3f} to {of['highest']:.3f}",
            names[kind],
            f"{of[kind]['samples']:,}",
            f"{of[kind]['largest_difference']:.1e}",
            f"{of[kind]['typical_error']:.1e}",
            f"{of[kind]['largest_z']:.1f}",
            f"{of[kind]['mean_square_z']:.2f}",
        ]
        for n, of in r["inclusion"].items()
        for kind in CHAINS
    ]
    b = r["bias"]
    short = [
        [names[kind], point, *(f"{100 * v['bias']:.0f} ± {100 * v['error']:.0f} %" for v in found)]
        for kind, of in b["chains"].items()
        for point, found in of.items()
    ]
    scatter = [
        [names[kind], point, *(f"{100 * v['scatter']:.0f} %" for v in found)]
        for kind, of in b["chains"].items()
        for point, found in of.items()
    ]
    times = [[name, *(_time(v) for v in line)] for name, line in r["microseconds"].items()]
    return "\n\n".join(
        [
            "Probability of each item to be in the block that a stage picks from all N items: exact, and from one long "
            "chain with the corrected acceptance. z is the difference divided by the chain's standard error (batch "
            "means); its mean square is 1 if they differ only by chance.",
            table(
                ["N", "exact", "chain", "samples", "largest difference", "its error", "largest z", "mean square z"],
                rows,
            ),
            f"Error of the gradient from chains of a few steps that start at the observed block, mean over "
            f"{b['turns']} draws (fewer for long chains), {b['instances']} instances of 10 to 29 items. Distance of "
            "the mean gradient from the exact one, in percent of the exact gradient at weights of 0:",
            table(["", "at weights of", *(f"{n} steps" if n > 1 else "1 step" for n in b["steps"])], short),
            "The exact gradient itself there: "
            + ", ".join(f"{100 * v:.0f} % ({point})" for point, v in b["exact"].items())
            + ". How far one draw scatters about the mean of all:",
            table(["", "at weights of", *(f"{n} steps" if n > 1 else "1 step" for n in b["steps"])], scatter),
            f"One evaluation for one instance of N items ({GRADES} grades, {FEATURES} features), the chains with one "
            "sample a stage; enumeration would take 2^N sets:",
            table(["N =", *(f"{n:,}" for n in r["timed"])], times),
        ]
    )


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"ltr_cost": cost, "ltr_exact": exact}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {"ltr_cost": _render_cost, "ltr_exact": _render_exact}

if __name__ == "__main__":
    print(json.dumps({"growth": growth, "chains": chains}[sys.argv[1]]()))
