"""Bradley-Terry at full size: published rows, what becomes of rarely rated films, a leaderboard, ten million rows."""

from __future__ import annotations

import csv
import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import published
from measure import ROOT, run, slope
from render import table

import concordant as cc
from concordant import execution
from concordant.data.index import Slots, Texts
from concordant.errors import ConcordantWarning, NoFiniteEstimateError

DATA = ROOT.parent / "shared" / "data"
METRICS = [*(f"ndcg@{k}" for k in range(1, 6)), "p@1", "map"]
WAYS: dict[str, dict[str, Any]] = {
    "at its defaults": {},
    "transform='count', prior='published'": {"transform": "count", "prior": "published"},
    "transform='count', optimizer='gd'": {"transform": "count", "optimizer": "gd"},
    "transform='count', prior=1e-6 (all but bare)": {"transform": "count", "prior": 1e-6},
    "prior='published'": {"prior": "published"},
}
FILMS: dict[str, dict[str, Any]] = {
    "transform='rating', optimizer='gd'": {"transform": "rating", "optimizer": "gd"},
    "transform='rating', prior='published'": {"transform": "rating", "prior": "published"},
    "at its defaults": {},
}


def letor() -> dict[str, Any]:
    """MQ2008-agg, mean of five test folds: Bradley-Terry at its defaults, at the published settings, without prior."""
    if not (DATA / "MQ2008-agg").is_dir():
        return {"not_available": "MQ2008-agg"}
    folds = cc.read_letor_folds(DATA / "MQ2008-agg")
    out: dict[str, Any] = {"published": published.letor_row("Bradley-Terry", METRICS)}
    for name, params in WAYS.items():
        means, seconds = [], 0.0
        for (train, _), _, (votes, labels) in folds:
            started = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConcordantWarning)
                consensus = cc.BradleyTerry(uncertainty="none", **params).fit(train).predict(votes)
            seconds += time.perf_counter() - started
            means.append(cc.evaluate(consensus, labels, METRICS, convention="letor").mean)
        row = {m: 100 * float(np.mean([one[m] for one in means])) for m in METRICS}
        out[name] = row | {"seconds": seconds}
    everything = cc.concat([votes for _, _, (votes, _) in folds])
    for name, how in (("scores", "none"), ("scores and intervals", "auto")):
        cc.BradleyTerry(uncertainty=how).fit_predict(everything)
        started = time.perf_counter()
        cc.BradleyTerry(uncertainty=how).fit_predict(everything)
        out[f"seconds of {name}, 784 queries"] = time.perf_counter() - started
    return out


def movielens() -> dict[str, Any]:
    """MovieLens-100k: first and last films by optimiser and prior, with their numbers of raters."""
    folder = DATA / "movielens-100k"
    if not folder.is_dir():
        return {"not_available": "movielens-100k"}
    votes = cc.read_ratings(folder / "u.data")
    with (folder / "u.item").open(encoding="latin-1") as lines:
        title = {line.split("|")[0]: line.split("|")[1] for line in lines}
    raters = np.bincount(votes.slot, minlength=votes.n_slots)

    def films(slots: Any) -> list[str]:
        return [f"{title[votes.items[int(s)]]} ({int(raters[s])})" for s in slots]

    out: dict[str, Any] = {"published": published.films("Bradley-Terry")}
    for name, params in FILMS.items():
        started = time.perf_counter()
        order = cc.BradleyTerry(uncertainty="none", **params).fit_predict(votes).order()
        seconds = time.perf_counter() - started
        out[name] = {"top": films(order[:5]), "bottom": films(order[-5:]), "seconds": seconds}
    try:
        cc.BradleyTerry(prior=0, transform="rating").fit(votes)
    except NoFiniteEstimateError as error:
        out["prior=0"] = str(error)
    return out


def llmfao() -> dict[str, Any]:
    """LLMFAO: leaderboard of language models with ties and intervals, judges, and another library's scores."""
    folder = DATA / "llmfao-pairwise"
    if not folder.is_dir():
        return {"not_available": "llmfao-pairwise"}
    columns = {"left": "left", "right": "right", "winner": "winner", "expert": "worker"}
    votes = cc.read_comparisons(folder / "llmfao.csv", columns=columns)
    method = cc.BradleyTerry()
    board = method.fit_predict(votes)
    shown = ("item", "score", "lower", "upper", "rank_lower", "rank_upper")
    trusted = cc.BradleyTerry(reliability=True)
    again = trusted.fit_predict(votes)
    weights = trusted.expert_weights_.sort("weight")
    bare = cc.BradleyTerry(prior=0, uncertainty="none").fit_predict(votes.collapse())
    with (folder / "llmfao-golden.csv").open() as lines:
        newman = {r["item"]: np.log(float(r["score"])) for r in csv.DictReader(lines) if r["algorithm"] == "newman"}
    centre = float(np.mean(list(newman.values())))
    found = dict(zip(bare.items, bare.score.tolist(), strict=True))
    return {
        "outcomes": float(votes.n_left.sum() + votes.n_right.sum() + votes.n_ties.sum()),
        "ties": float(votes.n_ties.sum()),
        "tie_parameter": method.tie_,
        "intervals": method.fit_info_.uncertainty,
        "board": board.to_frame().select(shown).head(10).rows(),
        "board_with_reliability": again.to_frame().select(shown).head(10).rows(),
        "least_trusted": weights.select("expert", "weight", "stderr", "side", "comparisons").head(5).rows(),
        "most_trusted": weights.select("expert", "weight", "stderr", "side", "comparisons").tail(5).rows(),
        "largest_difference_to_newman_scores_of_evalica": max(abs(found[i] - newman[i] + centre) for i in newman),
    }


def large() -> dict[str, Any]:
    """Ten million comparisons over ten thousand items, with ties: seconds, peak memory, progress."""
    out: dict[str, Any] = {}
    for name, params in (
        ("default", {}),
        ("prior=0", {"prior": 0}),
        ("prior=0, ties='none'", {"prior": 0, "ties": "none"}),
    ):
        cost = run([sys.executable, __file__, "10000000", "10000", json.dumps(params)])
        out[name] = json.loads(cost.output.strip().splitlines()[-1]) | {"peak_mb": cost.peak_mb}
    return out


def growth() -> dict[str, Any]:
    """Growth of the time of a fit with rows, items and experts (1 is linear)."""
    sizes = {
        "rows, 1,000 items": [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000],
        "items, 1,000,000 rows": [100, 300, 1000, 3000, 10_000],
        "experts, 1,000,000 rows, 300 items, with intervals": [10, 30, 100, 300, 1000],
    }
    cases: tuple[Callable[[int], tuple[int, int, int]], ...] = (
        lambda n: (n, 1000, 0),
        lambda n: (1_000_000, n, 0),
        lambda n: (1_000_000, 300, n),
    )
    return {name: _times(given, case) for (name, given), case in zip(sizes.items(), cases, strict=True)}


def _times(sizes: list[int], case: Callable[[int], tuple[int, int, int]]) -> dict[str, Any]:
    seconds = []
    for n_rows, n_items, n_experts in map(case, sizes):
        votes, _ = comparisons(n_rows, n_items, n_experts)
        best = np.inf
        for _ in range(3):
            started = time.perf_counter()
            cc.BradleyTerry(uncertainty="auto" if n_experts else "none").fit_predict(votes)
            best = min(best, time.perf_counter() - started)
        seconds.append(best)
    return {"sizes": sizes, "seconds": seconds, "slope": slope(sizes, seconds)}


def comparisons(n_rows: int, n_items: int, n_experts: int = 0, tie_rate: float = 0.1) -> tuple[cc.Comparisons, Any]:
    """Return a workload of shared/workloads/pairs.py as a container, and the true scores."""
    made = _generator().pairs(n_items, n_rows, 5, tie_rate=tie_rate, n_judges=n_experts)
    y = made["y"]
    slots = Slots(Texts(["arena"]), Texts([f"i{k}" for k in range(n_items)]), np.array([0, n_items]))
    experts = Texts([f"e{k}" for k in range(n_experts)])
    counts = ((y == outcome).astype(np.float64) for outcome in (1, 0, 2))
    votes = cc.Comparisons.from_codes(slots, experts, made.get("w"), made["i"], made["j"], *counts, sided=True)
    return votes, made["theta"]


def _generator() -> ModuleType:
    path = ROOT.parent / "shared" / "workloads" / "pairs.py"
    given, sys.argv = sys.argv, ["pairs.py"]
    try:
        spec = importlib.util.spec_from_file_location("pairs", path)
        if spec is None or spec.loader is None:
            raise SystemExit(f"the workloads come from {path}, which is not here")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.argv = given
    return module


def _render_letor(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"{r['not_available']} is not available."
    rows = [["published", *(f"{v:.2f}" for v in r["published"].values())]]
    rows += [[name, *(f"{r[name][m]:.2f}" for m in METRICS)] for name in WAYS]
    times = [[name, f"{value:.2f} s"] for name, value in r.items() if name.startswith("seconds")]
    return table(["", *METRICS], rows) + "\n\n" + table(["", ""], times)


def _render_movielens(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"{r['not_available']} is not available."
    rows = [[name, ", ".join(r[name]["top"]), ", ".join(r[name]["bottom"])] for name in ("published", *FILMS)]
    films = table(["", "top five (raters)", "bottom five (raters)"], rows)
    return films + f"\n\ntransform='rating', prior=0 raises: {r['prior=0']}"


def _render_llmfao(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"{r['not_available']} is not available."
    head = ["model", "score", "lower", "upper", "rank from", "to"]
    judges = ["judge", "reliability", "stderr", "side", "comparisons"]
    return "\n\n".join(
        [
            f"{r['outcomes']:,.0f} outcomes, {r['ties']:,.0f} ties, Davidson's ν = {r['tie_parameter']:.3f}; "
            f"intervals: {r['intervals']}. With prior=0 the scores differ from another library's by at most "
            f"{r['largest_difference_to_newman_scores_of_evalica']:.1e}.",
            table(head, r["board"]),
            "With the reliability of judges:",
            table(head, r["board_with_reliability"]),
            table(judges, [*r["least_trusted"], *r["most_trusted"]]),
        ]
    )


def _render_large(r: dict[str, Any]) -> str:
    head = ["", "fit", "steps", "gradient norm", "RMSE to the truth", "peak memory", "progress reports"]
    rows = []
    for name, v in r.items():
        norm, memory = f"{v['gradient_norm']:.1e}", f"{v['peak_mb']:,.0f} MB"
        rows.append([name, f"{v['seconds']:.1f} s", v["n_iter"], norm, v["rmse"], memory, v["reports"]])
    return table(head, rows)


def _render_growth(r: dict[str, Any]) -> str:
    rows = []
    for name, v in r.items():
        sizes, seconds = ", ".join(f"{s:,}" for s in v["sizes"]), ", ".join(f"{t:.2f}" for t in v["seconds"])
        rows.append([name, sizes, seconds, f"{v['slope']:.2f}"])
    return table(["grows", "sizes", "seconds", "slope"], rows)


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "bradley_terry_letor": letor,
    "bradley_terry_movielens": movielens,
    "bradley_terry_llmfao": llmfao,
    "bradley_terry_large": large,
    "bradley_terry_growth": growth,
}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {
    "bradley_terry_letor": _render_letor,
    "bradley_terry_movielens": _render_movielens,
    "bradley_terry_llmfao": _render_llmfao,
    "bradley_terry_large": _render_large,
    "bradley_terry_growth": _render_growth,
}


def _fit_large(n_rows: int, n_items: int, params: dict[str, Any]) -> dict[str, Any]:
    votes, truth = comparisons(n_rows, n_items)
    # What is to be measured is not the compiler.
    cc.BradleyTerry(**params).fit(comparisons(20_000, 200)[0])
    reports: list[tuple[int, int]] = []
    method = cc.BradleyTerry(**params)
    started = time.perf_counter()
    with execution.watch(lambda done, total: reports.append((done, total))):
        consensus = method.fit_predict(votes)
    info = method.fit_info_
    return {
        "seconds": time.perf_counter() - started,
        "n_iter": info.n_iter,
        "gradient_norm": info.gradient_norm,
        "converged": info.converged,
        "rmse": float(np.sqrt(np.mean((consensus.score - truth) ** 2))),
        "reports": len(reports),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConcordantWarning)
    print(json.dumps(_fit_large(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))))
