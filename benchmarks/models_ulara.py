"""ULARA at full size: TREC-3 with random experts in place of some of the runs, and how its cost grows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import slope
from render import table
from studies import DATA

import concordant as cc
from concordant.errors import ConcordantWarning
from concordant.metrics.significance import paired_t_test
from concordant_papers import trec3 as runs_of

METRICS = ["p@10", "p@30"]
DEPTH = 100
LEVELS = (0, 10, 20, 30, 34)
DRAWS = 10
METHODS: dict[str, Callable[[], cc.Aggregator]] = {
    "ULARA": cc.ULARA,
    "CombMNZ": lambda: cc.CombMNZRank(k=DEPTH),
    "RRF": cc.RRF,
    "ULARA, eta=10": lambda: cc.ULARA(eta=10.0),
    "ULARA, update='gd'": lambda: cc.ULARA(update="gd"),
    "ULARA, nu=1": lambda: cc.ULARA(nu=1),
    "ULARA, update='printed'": lambda: cc.ULARA(update="printed"),
}
# What the curve must show: by how much ULARA's P@10 is to be above CombMNZ's.
ASKED = {0: -0.04, 30: 0.04, 34: 0.15}


def trec3() -> dict[str, Any]:
    """TREC-3, top 100, 0 to 34 of 38 runs replaced by random experts, 10 draws: ULARA against CombMNZ and RRF."""
    folder = DATA / runs_of.FOLDER
    if not folder.is_dir():
        return {"not_available": runs_of.FOLDER}
    runs, labels = runs_of.complete(str(folder), DEPTH), runs_of.read(str(folder)).labels
    curve: dict[str, Any] = {name: {m: [] for m in METRICS} for name in METHODS}
    tests: dict[str, Any] = {}
    trusted = []
    for level in LEVELS:
        draws = range(DRAWS if level else 1)  # nothing is drawn where nobody is replaced
        values: dict[str, dict[str, list[Any]]] = {name: {m: [] for m in METRICS} for name in METHODS}
        apart = []
        for draw in draws:
            votes = runs_of.replaced(runs, level, draw)
            for name, make in METHODS.items():
                method = make()
                shown = runs_of.values_of(method.fit_predict(votes), labels, METRICS)
                for m in METRICS:
                    values[name][m].append(shown[m])
                if name == "ULARA":
                    gone = np.isin(np.arange(votes.n_experts), runs_of.chosen(votes, level, draw))
                    apart.append(_told_apart(method.adherence_, gone))
        trusted.append(float(np.mean(apart)) if level else None)
        for name in METHODS:
            for m in METRICS:
                curve[name][m].append(float(np.mean(values[name][m])))
        # Topics are the sample; the draws of one topic are averaged before the test.
        tests[str(level)] = {}
        for m in METRICS:
            gain = np.mean(values["ULARA"][m], axis=0) - np.mean(values["CombMNZ"][m], axis=0)
            tests[str(level)][m] = {"gain": float(gain.mean()), "p_value": float(paired_t_test(gain).p_value)}
    gains = {level: tests[str(level)]["p@10"]["gain"] for level in ASKED}
    return {
        "levels": list(LEVELS),
        "draws": DRAWS,
        "curve": curve,
        "ulara_less_combmnz": tests,
        "random_experts_weigh_less_auc": trusted,
        "asked": {str(level): least for level, least in ASKED.items()},
        "met": all(gains[level] >= least for level, least in ASKED.items()),
    }


def _told_apart(weight: Any, replaced: Any) -> float:
    """Return how often a run outweighs a random expert, over all pairs of one and the other."""
    pairs = weight[~replaced][:, None] - weight[replaced][None, :]
    return float((pairs > 0).mean()) if pairs.size else 1.0


def growth() -> dict[str, Any]:
    """Growth of the time of fit and predict with instances, lists and their length."""

    def seconds(instances: int, lists: int, length: int) -> float:
        rng = np.random.default_rng(0)
        pool = 4 * length
        item = np.concatenate([rng.permutation(pool)[:length] for _ in range(instances * lists)])
        shape = (instances, lists, length)
        instance, expert, _ = (a.ravel() for a in np.indices(shape))
        rank = np.broadcast_to(np.arange(1, length + 1), shape).ravel()
        votes = cc.Preferences(instance.tolist(), expert.tolist(), item.tolist(), rank)
        took = []
        for _ in range(3):
            started = time.perf_counter()
            cc.ULARA().fit_predict(votes)
            took.append(time.perf_counter() - started)
        return min(took)

    sizes = [1, 2, 4, 8]
    out: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        for name, base in {"instances": (50, 20, 100), "lists": (50, 20, 100), "length": (50, 20, 50)}.items():
            which = ("instances", "lists", "length").index(name)
            grown = [tuple(b * (s if k == which else 1) for k, b in enumerate(base)) for s in sizes]
            times = [seconds(*g) for g in grown]
            out[name] = {"sizes": [g[which] for g in grown], "seconds": times, "slope": slope(sizes, times)}
    return out


def _render_trec3(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    parts = []
    for m in METRICS:
        rows = [[name, *(f"{v:.4f}" for v in row[m])] for name, row in r["curve"].items()]
        gain = [
            f"{t[m]['gain']:+.4f} (p = {t[m]['p_value']:.1g})"
            for t in (r["ulara_less_combmnz"][str(x)] for x in r["levels"])
        ]
        rows.insert(2, ["ULARA less CombMNZ", *gain])
        parts.append(table([f"{m.upper()}, random experts of 38", *map(str, r["levels"])], rows))
    asked = ", ".join(f"at {level} {least:+.2f}" for level, least in r["asked"].items())
    apart = ", ".join(
        f"{v:.2f} at {level}" for level, v in zip(r["levels"], r["random_experts_weigh_less_auc"], strict=True) if v
    )
    parts.append(
        f"Targets of ULARA at its defaults, difference to CombMNZ in P@10: {asked}; "
        f"{'met' if r['met'] else 'not met'}. The share of pairs in which a run outweighs a random expert: {apart}. "
        f"Mean of {r['draws']} draws; paired t-tests over 50 topics, the draws of a topic averaged. The update as "
        "printed rewards disagreement, and is below CombMNZ as soon as experts disagree. A larger eta trusts fewer "
        "experts: it costs most if all are good, and gains most if few are. With nu = 1, items that only one expert "
        "lists outnumber the rest."
    )
    return "\n\n".join(parts)


def _render_growth(r: dict[str, Any]) -> str:
    rows = []
    for name, v in r.items():
        sizes, seconds = ", ".join(f"{s:,}" for s in v["sizes"]), ", ".join(f"{t:.3f}" for t in v["seconds"])
        rows.append([name, sizes, seconds, f"{v['slope']:.2f}"])
    return table(["grows", "sizes", "seconds", "slope"], rows)


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"ulara_trec3": trec3, "ulara_growth": growth}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {"ulara_trec3": _render_trec3, "ulara_growth": _render_growth}
