"""MPM at full size: published rows, films and their variances, the closed form beside gradient steps, and growth."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import published
from measure import slope
from render import table
from studies import DATA

import concordant as cc
from concordant.data.index import Slots, Texts
from concordant.errors import ConcordantWarning
from concordant_papers import movielens as study

METRICS = [*(f"ndcg@{k}" for k in range(1, 6)), "p@1", "map"]
SEED = 7
WAYS: dict[str, dict[str, Any]] = {
    "base model (adherence='none')": {"adherence": "none"},
    "adherence learned (the default)": {},
    "adherence by 100 gradient steps (optimizer='gd')": {"optimizer": "gd"},
    "adherence learned, variances": {"variances": True},
    "adherence and variances by 100 gradient steps": {"optimizer": "gd", "variances": True},
}
FILMS: dict[str, dict[str, Any]] = {
    "base model": {},
    "variances": {"variances": True},
    "variances by 100 gradient steps": {"variances": True, "optimizer": "gd"},
}


def _quiet(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call gives, warnings left out, and the seconds it takes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        started = time.perf_counter()
        answer = call()
        return answer, time.perf_counter() - started


def letor() -> dict[str, Any]:
    """MQ2008-agg, mean of five test folds, letor convention; θ learned on the training folds only."""
    if not (DATA / "MQ2008-agg").is_dir():
        return {"not_available": "MQ2008-agg"}
    folds = cc.read_letor_folds(DATA / "MQ2008-agg")
    out: dict[str, Any] = {"published": published.letor_row("theta-MPM", METRICS), "ways": {}}
    for name, params in WAYS.items():
        method = cc.MPM(uncertainty="none", **params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            found = cc.cross_validate(method, folds=folds, metrics=METRICS, convention="letor")
        info = [run.fit_info for run in found.runs]
        out["ways"][name] = {m: 100 * found.mean[m] for m in METRICS} | {
            "seconds": sum(run.seconds for run in found.runs),
            "steps": [i.n_iter for i in info],
            "converged": all(i.converged for i in info),
        }
    everything = cc.concat([votes for _, _, (votes, _) in folds])
    for name, how in (("scores", "none"), ("scores and intervals", "auto")):
        _quiet(lambda: cc.MPM(uncertainty=how).fit_predict(everything))  # noqa: B023
        out[f"seconds of {name}, 784 queries"] = _quiet(lambda: cc.MPM(uncertainty=how).fit_predict(everything))[1]  # noqa: B023
    return out


def movielens() -> dict[str, Any]:
    """MovieLens-100k: first and last films, variance against raters, closed form against gradient steps."""
    folder = DATA / study.FOLDER
    if not folder.is_dir():
        return {"not_available": study.FOLDER}
    from scipy.stats import spearmanr

    data = study.films(str(folder))
    votes, raters = data.votes, data.users

    def films(slots: Any) -> list[str]:
        return [f"{data.title[s]} ({int(raters[s])})" for s in slots]

    out: dict[str, Any] = {"published": published.films("MPM")}
    for name, params in FILMS.items():
        method = cc.MPM(adherence="none", uncertainty="none", **params)
        consensus, _ = _quiet(lambda: method.fit_predict(votes))  # noqa: B023
        order = consensus.order()
        out[name] = {
            "top": films(order[:5]),
            "bottom": films(order[-5:][::-1]),
            "fewest_raters_of_the_top_five": int(raters[order[:5]].min()),
            "steps": method.fit_info_.n_iter,
            "converged": method.fit_info_.converged,
        }
        if "variances" in params:
            out[name]["rank_correlation_of_variance_and_raters"] = float(spearmanr(method.variance_, raters)[0])
    return out | {"seconds": _movielens_times(votes)}


def _movielens_times(votes: cc.Preferences) -> dict[str, Any]:
    """Return median seconds, interleaved so that whatever else runs on the machine disturbs all alike."""
    from concordant.aggregators import _mpm_fit
    from concordant.aggregators._net_counts import net_counts
    from concordant.kernels import mpm

    def whole(**params: Any) -> Callable[[], Any]:
        return lambda: cc.MPM(adherence="none", uncertainty="none", **params).fit_predict(votes)

    counts = net_counts(votes, "count", pairs=False)
    net, total, offsets = counts.sums(np.ones(votes.n_lists)), np.array([counts.total.sum()]), votes.slots.offsets
    one = np.array([0, 1])
    together = mpm.PackedCounts(
        offsets, one, offsets, one[:1], np.ones(1), np.arange(len(net), dtype=np.int32), net / total, np.ones(1)
    )
    apart = counts.packed()._replace(expert=np.zeros(votes.n_lists, dtype=np.int64))
    score, root = np.empty(len(net)), np.empty(1)

    def steps(packed: Any) -> Callable[[], Any]:
        return lambda: _mpm_fit.gradient_ascent(packed, np.ones(1), 100, learning=False, report=lambda *_: None)

    ways: dict[str, dict[str, Callable[[], Any]]] = {
        "from ratings to consensus": {
            "closed form": whole(),
            "100 gradient steps": whole(optimizer="gd"),
            "100 gradient steps with variances, as published": whole(optimizer="gd", variances=True),
        },
        "from counts to scores": {
            "closed form": lambda: mpm.net_scores(net, total, offsets, score, root),
            "100 gradient steps on summed counts, O(M) each": steps(together),
            "100 gradient steps user by user, O(K M) each": steps(apart),
        },
    }
    for calls in ways.values():
        for call in calls.values():
            _quiet(call)
    out: dict[str, Any] = {}
    for what, calls in ways.items():
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(5):
            for name, call in calls.items():
                seconds[name].append(_quiet(call)[1])
        out[what] = {name: median(times) for name, times in seconds.items()}
    return out


def _lists(instances: int, items: int, experts: int, rng: np.random.Generator) -> cc.Preferences:
    """Return complete lists of noisy experts, some better than others."""
    quality = np.linspace(0.2, 2.0, experts)[None, :, None]
    truth = rng.normal(size=(instances, 1, items))
    seen = quality * truth + rng.normal(size=(instances, experts, items))
    ranks = (np.argsort(np.argsort(-seen, axis=2), axis=2) + 1.0).reshape(-1)
    n, lists = instances * items, instances * experts
    slot = np.arange(n).reshape(instances, 1, items).repeat(experts, axis=1).reshape(-1)
    names = Texts([f"i{i}" for i in range(items)] * instances)
    return cc.Preferences.from_codes(
        Slots(Texts([f"q{q}" for q in range(instances)]), names, np.arange(instances + 1) * items),
        Texts([f"e{k}" for k in range(experts)]),
        np.tile(np.arange(experts, dtype=np.int32), instances),
        np.arange(lists + 1) * items,
        np.arange(instances + 1) * experts,
        slot.astype(np.int32),
        ranks,
        kind="rank",
    )


def growth() -> dict[str, Any]:
    """Growth of the time of a fit with rows, items and experts, from lists, without intervals."""
    plans: dict[str, tuple[list[int], Callable[[int], tuple[int, int, int]], list[str]]] = {
        "rows (instances of 20 items, 20 experts)": (
            [50, 150, 500, 1500],
            lambda n: (n, 20, 20),
            ["none", "learned"],
        ),
        "items (one instance, 20 experts)": ([1000, 3000, 10_000, 30_000], lambda n: (1, n, 20), ["none", "learned"]),
        "experts (one instance of 100 items)": ([100, 300, 900], lambda n: (1, 100, n), ["none", "learned"]),
    }
    out: dict[str, Any] = {}
    for name, (sizes, shape, ways) in plans.items():
        for adherence in ways:
            seconds = []
            for n in sizes:
                votes = _lists(*shape(n), np.random.default_rng(SEED))
                method = cc.MPM(adherence=adherence, uncertainty="none")
                _quiet(lambda: method.fit_predict(votes))  # noqa: B023
                seconds.append(min(_quiet(lambda: method.fit_predict(votes))[1] for _ in range(3)))  # noqa: B023
            out[f"{name}, adherence={adherence!r}"] = {
                "sizes": sizes,
                "seconds": seconds,
                "slope": slope(sizes, seconds),
            }
    return out


def _render_letor(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"{r['not_available']} is not available."
    rows = [["published θ-MPM", *(f"{r['published'][m]:.2f}" for m in METRICS), ""]]
    rows += [[name, *(f"{w[m]:.2f}" for m in METRICS), f"{w['seconds']:.2f} s"] for name, w in r["ways"].items()]
    scores, both = (r[f"seconds of {what}, 784 queries"] for what in ("scores", "scores and intervals"))
    note = (
        "θ is learned on the training folds only, in "
        f"{max(r['ways']['adherence learned (the default)']['steps'])} Newton steps at most. "
        f"Fitting all 784 queries takes {scores:.2f} s, with intervals {both:.2f} s."
    )
    return table(["", *METRICS, "five folds"], rows) + "\n\n" + note


def _render_movielens(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"{r['not_available']} is not available."
    rows = [[name, ", ".join(r[name]["top"]), ", ".join(r[name]["bottom"])] for name in ("published", *FILMS)]
    times = [
        [what, name, f"{1000 * s:,.2f} ms", f"{seconds['closed form'] / s:.2g}"]
        for what, seconds in r["seconds"].items()
        for name, s in seconds.items()
    ]
    correlations = ", ".join(
        f"{r[name]['rank_correlation_of_variance_and_raters']:.3f} ({name})" for name in FILMS if "variances" in name
    )
    return "\n\n".join(
        [
            table(["", "top five (raters)", "last five, last first (raters)"], rows),
            f"Rank correlation of an item's variance with its number of raters: {correlations}.",
            table(["", "", "median", "the closed form takes this fraction"], times),
        ]
    )


def _render_growth(r: dict[str, Any]) -> str:
    rows = [
        [
            name,
            ", ".join(f"{n:,}: {s:.3f} s" for n, s in zip(g["sizes"], g["seconds"], strict=True)),
            f"{g['slope']:.2f}",
        ]
        for name, g in r.items()
    ]
    return table(["grows with", "seconds", "slope of log time (1 = linear)"], rows)


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "mpm_letor": letor,
    "mpm_movielens": movielens,
    "mpm_growth": growth,
}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {
    "mpm_letor": _render_letor,
    "mpm_movielens": _render_movielens,
    "mpm_growth": _render_growth,
}

if __name__ == "__main__":
    import sys

    for section in sys.argv[1:] or SECTIONS:
        print(RENDER[section](SECTIONS[section]()))
