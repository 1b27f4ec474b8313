"""What a query costs as experts and items multiply, fast and naive side by side, and what CRF costs beside RRF.

Fast beside naive is the study of `concordant reproduce runtime`: the lists of MQ2008-agg (fold 1, test) copied t times,
as new experts or as new items. Here ours go on where naive forms have to stop, and RRF stands beside them. Run as a
program it times one request in a process that has loaded nothing else, or our forms in one whose linear algebra keeps
to one thread.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

import numpy as np
from curves import line_chart
from measure import CACHE, ROOT, run, slope
from render import table
from studies import DATA, values_of

import concordant as cc
from concordant_papers.expansion import expanded

RESULTS = ROOT / "docs" / "results"
COPIES = tuple(range(1, 11))
MORE_COPIES = (20, 50, 100)
REPEATS = 3


def expanded_model(method: Any, experts: list[str], t: int) -> Any:
    """Return a fitted method whose experts are t copies of those of another, each with the weights of its original."""
    names = sorted(f"{e}/{c + 1}" for c in range(t) for e in experts)
    place = {e: n for n, e in enumerate(method.experts_)}
    origin = np.array([place[name.rpartition("/")[0]] for name in names])
    out = type(method)(**method.get_params())
    for name, value in method.__dict__.items():
        if name.endswith("_") and not name.startswith("_") and name != "training_":
            whole = isinstance(value, np.ndarray) and value.shape[:1] == (len(place),)
            setattr(out, name, value[origin] if whole else value)
    out.experts_ = names
    return out


def in_turn(jobs: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the least seconds of every job; they take turns, and each has run once before."""
    seconds = dict.fromkeys(jobs, float("inf"))
    for job in jobs.values():
        job()
    for _ in range(repeats):
        for name, job in jobs.items():
            started = time.perf_counter()
            job()
            seconds[name] = min(seconds[name], time.perf_counter() - started)
    return seconds


def _models() -> tuple[Any, Any]:
    """Return a CRF and an SVDRank fitted to fold 1 of MQ2008-agg; their weights serve, they are not judged here."""
    train, vali, _ = cc.read_letor_folds(DATA / "MQ2008-agg")[0]
    crf = cc.CRF(transform="log", passes=30).fit(*train, validation=vali)
    svd = cc.SVDRank(strength="log", scaling="paper", passes=30).fit(*train, validation=vali)
    return crf, svd


def _ours(votes: cc.Preferences, models: tuple[Any, Any], what: str) -> dict[str, Any]:
    """Return microseconds per query of the fast forms alone, as far as they go."""
    crf, svd = map(copy, models)
    # Copies make lists longer than those learned from, which the formulas timed here do not know.
    del crf.training_, svd.training_
    copies = (*COPIES, *MORE_COPIES)
    lines: dict[str, list[float]] = {}
    for t in copies:
        grown = expanded(votes, what, t)
        ours = {"CRF": crf, "SVDRank": svd}
        if what == "experts":
            ours = {name: expanded_model(model, votes.experts.tolist(), t) for name, model in ours.items()}
        jobs = {name: (lambda model=model: model.predict(grown)) for name, model in ours.items()}  # noqa: B023
        with cc.threads(1):
            for name, seconds in in_turn(jobs, REPEATS).items():
                lines.setdefault(name, []).append(1e6 * seconds / len(grown))
    return {
        "copies": list(copies),
        "queries": len(votes),
        "microseconds": lines,
        "slopes": {name: slope(copies, line) for name, line in lines.items()},
        "slopes_from_10": {name: slope(copies[9:], line[9:]) for name, line in lines.items()},
    }


def _beside_naive(cells: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the curves of fast and naive forms from the cells of the study, by number of copies."""
    copies = sorted(cells)
    names = {name: name.replace("plain", "naive") for name in cells[copies[0]]["microseconds"]}
    lines = {shown: [cells[t]["microseconds"][name] for t in copies] for name, shown in names.items()}
    return {
        "copies": copies,
        "queries": cells[copies[0]]["queries"],
        "microseconds": lines,
        "largest_difference": {"fast and naive": max(cells[t]["largest_difference"] for t in copies)},
        "slopes": {name: slope(copies, line) for name, line in lines.items()},
    }


def expansions() -> dict[str, Any]:
    """Time of a query against the number of experts and items: fast and naive forms on MQ2008-agg, fold 1, test."""
    if not (DATA / "MQ2008-agg").is_dir():
        return {"not_available": "MQ2008-agg"}
    # One thread for everybody: those of a linear algebra library disturb each other on matrices this small.
    alone = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "VECLIB_MAXIMUM")}
    ours = json.loads(run([sys.executable, __file__, "expansions"], env=alone).output.splitlines()[-1])
    return gathered(values_of("runtime"), ours)


def gathered(values: Mapping[str, Any], ours: Mapping[str, Any], name: str = "MQ2008-agg") -> dict[str, Any]:
    """Return the cells of the study beside our forms alone, and how many times faster these are at ten copies."""
    out: dict[str, Any] = {}
    for what, fast in ours.items():
        start = f"{name}/{what} x "
        cells = {int(key.removeprefix(start)): cell for key, cell in values.items() if key.startswith(start)}
        beside = _beside_naive(cells)
        last = {name: line[-1] for name, line in beside["microseconds"].items()}
        out[what] = {
            "beside_naive": beside,
            "ours": fast,
            "ratios_at_10": {
                "crf_over_naive_svd": last["naive SVD"] / last["CRF"],
                "svd_over_naive_svd": last["naive SVD"] / last["SVDRank"],
                "crf_over_naive_crf": last["naive CRF"] / last["CRF"],
                "crf_over_svd": last["SVDRank"] / last["CRF"],
            },
        }
    return out


def _expansions() -> dict[str, Any]:
    """Return what our forms cost alone; the process must have been told to use one thread."""
    votes = cc.read_letor_folds(DATA / "MQ2008-agg")[0].test.preferences
    models = _models()
    return {what: _ours(votes, models, what) for what in ("experts", "items")}


def beside_rrf() -> dict[str, Any]:
    """Time of CRF and SVDRank relative to RRF: whole containers, and one request of 3 lists x 100 items."""
    out: dict[str, Any] = {}
    if (DATA / "MQ2008-agg").is_dir():
        crf, svd = _models()
        whole = cc.concat([f.test.preferences for f in cc.read_letor_folds(DATA / "MQ2008-agg")])
        out["MQ2008-agg, 784 queries"] = _batch(whole, crf, svd, repeats=30)
    learned = cc.synthetic.runs(20, skill=20, top=1000, pool=3000, random_state=3)
    crf = cc.CRF(passes=3).fit(learned.preferences, learned.labels)
    svd = cc.SVDRank(passes=3).fit(learned.preferences, learned.labels)
    large = cc.synthetic.runs(200, skill=20, top=1000, pool=3000, random_state=4).preferences
    out["200 queries x 20 systems x top 1000"] = _batch(large, crf, svd, repeats=7)
    out["request"] = _request_apart()
    return out


def _batch(votes: cc.Preferences, crf: Any, svd: Any, repeats: int) -> dict[str, Any]:
    rrf = cc.RRF().fit(votes)
    jobs = {"RRF": lambda: rrf.predict(votes), "CRF": lambda: crf.predict(votes), "SVDRank": lambda: svd.predict(votes)}
    seconds = in_turn(jobs, repeats)
    return {
        "rows": votes.n_rows,
        "milliseconds": {name: 1000 * s for name, s in seconds.items()},
        "times_rrf": {name: s / seconds["RRF"] for name, s in seconds.items()},
    }


def _request_apart() -> dict[str, Any]:
    """Return what a fresh process says about one request, with a model that this one has written."""
    learned = cc.synthetic.runs(30, skill={"bm25": 1.0, "dense": 1.3, "rerank": 0.7}, top=100, random_state=5)
    path = CACHE / "request.crf"
    CACHE.mkdir(parents=True, exist_ok=True)
    cc.CRF(passes=20).fit(learned.preferences, learned.labels).save(path)
    answers = [
        json.loads(run([sys.executable, __file__, "request", str(path)]).output.splitlines()[-1]) for _ in range(3)
    ]
    if any(a["heavy"] for a in answers):
        raise SystemExit(f"one request of a loaded CRF imports {answers[0]['heavy']}")
    return min(answers, key=lambda a: float(a["times_plain"]))


def _request(path: str, n_lists: int = 3, length: int = 100, pool: int = 200, repeats: int = 50) -> dict[str, Any]:
    """Return the cost of one request through a loaded CRF, and of a plain-dictionary RRF, in turn, in microseconds."""
    model: Any = cc.load(path)
    chance = random.Random(0)
    ids = [f"doc{i}" for i in range(pool)]
    lists = {e: chance.sample(ids, length) for e in ("bm25", "dense", "rerank")[:n_lists]}

    def ours() -> list[str]:
        ranking: list[str] = model.predict(cc.from_lists(lists)).ranking()
        return ranking

    def plain() -> list[str]:
        scores: dict[str, float] = {}
        for ranked in lists.values():
            for rank, item in enumerate(ranked, 1):
                scores[item] = scores.get(item, 0.0) + 1 / (60 + rank)
        return sorted(scores, key=scores.__getitem__, reverse=True)

    many = {name: (lambda job=job: [job() for _ in range(50)]) for name, job in (("ours", ours), ("plain", plain))}
    seconds = in_turn(many, repeats)
    return {
        "items": len(ours()),
        "ours_us": 1e6 * seconds["ours"] / 50,
        "plain_us": 1e6 * seconds["plain"] / 50,
        "times_plain": seconds["ours"] / seconds["plain"],
        "heavy": [m for m in ("polars", "numba", "scipy", "pandas") if m in sys.modules],
    }


def _render_expansions(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    parts = []
    for what, found in r.items():
        beside, ours = found["beside_naive"], found["ours"]
        picture = RESULTS / f"runtime_{what}.svg"
        title = f"Cost of a query against copies of its {what}"
        lines = {n: np.log10(y).tolist() for n, y in beside["microseconds"].items()}
        line_chart(picture, title, f"copies of the {what}", "log10 of microseconds", beside["copies"], lines)
        shown = [1, 2, 5, 10]
        head = [f"{what} x", *map(str, shown), *map(str, MORE_COPIES), "slope 1 to 10", "slope 10 to 100"]
        rows = []
        for name, line in beside["microseconds"].items():
            here = [f"{line[t - 1]:,.0f} µs" for t in shown]
            more = [f"{v:,.0f} µs" for v in ours["microseconds"][name][len(COPIES) :]] if name in ours["slopes"] else []
            far = f"{ours['slopes_from_10'][name]:.2f}" if more else "–"
            rows.append([name, *here, *(more or ["–"] * len(MORE_COPIES)), f"{beside['slopes'][name]:.2f}", far])
        ratio = found["ratios_at_10"]
        gap = max(beside["largest_difference"].values())
        queries = f"{beside['queries']} queries beside the naive forms"
        if beside["queries"] != ours["queries"]:
            part = round(ours["queries"] / beside["queries"])
            queries += f" (every {part}th, because dense decompositions are slow)"
        parts += [
            table(head, rows),
            f"At ten copies of the {what}, on {queries}: CRF {ratio['crf_over_naive_svd']:,.0f} times faster than "
            f"naive SVD features and {ratio['crf_over_naive_crf']:,.0f} times than naive potentials, SVDRank "
            f"{ratio['svd_over_naive_svd']:,.0f} times faster than its naive form, CRF {ratio['crf_over_svd']:.1f} "
            f"times faster than SVDRank. Beyond ten copies, on all {ours['queries']} queries, only ours. Scores of "
            f"fast and naive forms differ by at most {gap:.0e} of their spread, checked before timing.",
            f"![{title}](results/{picture.name})",
        ]
    note = (
        "All use one thread. Ours: `predict` on the whole container, including the ranks of the items. Naive: pairwise "
        "matrices query by query in NumPy, several experts in one call, then LAPACK's decompositions or sums."
    )
    return "\n\n".join([note, *parts])


def _render_beside_rrf(r: dict[str, Any]) -> str:
    batches = {name: v for name, v in r.items() if name != "request"}
    rows = [
        [name, f"{v['rows']:,}", *(f"{v['milliseconds'][m]:.1f} ms" for m in v["milliseconds"])]
        + [f"{v['times_rrf'][m]:.2f}" for m in ("CRF", "SVDRank")]
        for name, v in batches.items()
    ]
    one = r["request"]
    return "\n\n".join(
        [
            table(["", "rows", "RRF", "CRF", "SVDRank", "CRF / RRF", "SVDRank / RRF"], rows),
            f"One request of 3 lists of 100 items ({one['items']} different ones) through `from_lists` and a loaded "
            f"CRF to a ranking, warm, in a fresh process: {one['ours_us']:.0f} µs, {one['times_plain']:.1f} times a "
            f"plain-dictionary RRF ({one['plain_us']:.0f} µs). Of Polars, Numba, SciPy and pandas that process has "
            f"loaded: {', '.join(one['heavy']) or 'none'}. This is the way through containers; the time of `cc.fuse` "
            'with a loaded CRF, which makes none, is in "One search request beside a plain dictionary".',
        ]
    )


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"runtime_study": expansions, "runtime_beside_rrf": beside_rrf}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {
    "runtime_study": _render_expansions,
    "runtime_beside_rrf": _render_beside_rrf,
}

if __name__ == "__main__":
    print(json.dumps(_expansions() if sys.argv[1] == "expansions" else _request(sys.argv[2])))
