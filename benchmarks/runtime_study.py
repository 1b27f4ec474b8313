"""What a query costs as experts and items multiply, fast and naive side by side, and what CRF costs beside RRF.

The study of the papers: the lists of MQ2008-agg (fold 1, test) copied t times, as new experts or as new items. Every
contender starts from the ranks and ends at a score for each item. Answers are compared before anything is timed, and
contenders take turns, so that a noisy minute hits all of them. Run as a program it times one request in a process that
has loaded nothing else, or the study in one whose linear algebra keeps to one thread.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from curves import line_chart
from measure import CACHE, ROOT, run, slope
from render import table

import concordant as cc
from concordant.data.index import Slots, Texts
from concordant.kernels.lists import Floats, list_ids, offsets_of, ranges

DATA = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "docs" / "results"
COPIES = tuple(range(1, 11))
MORE_COPIES = (20, 50, 100)
# Dense singular value decompositions of the largest queries take seconds; every fourth query is enough for their mean.
EVERY = 4
REPEATS = 3
# Numbers held at once by the naive forms: 32 MB.
CELLS = 4_000_000
TARGETS = {"crf_over_naive_svd": 80.0, "svd_over_naive_svd": 20.0, "crf_over_rrf": 2.0, "request_over_plain": 10.0}


def experts_expanded(preferences: cc.Preferences, t: int) -> cc.Preferences:
    """Return the preferences of t times as many experts: expert e becomes "e/1", ..., "e/t", all of one mind."""
    p = preferences
    spans = list(pairwise(p.list_starts.tolist()))
    which = np.concatenate([np.tile(np.arange(a, b), t) for a, b in spans])
    copy = np.concatenate([np.repeat(np.arange(t), b - a) for a, b in spans])
    rows = ranges(p.list_offsets[which], p.list_offsets[which + 1])
    return cc.Preferences.from_codes(
        p.slots,
        Texts([f"{e}/{c + 1}" for c in range(t) for e in p.experts]),
        (p.list_expert[which] + copy * p.n_experts).astype(np.int32),
        offsets_of(p.list_lengths[which]),
        p.list_starts * t,
        p.slot[rows],
        p.value[rows],
        kind=p.kind,
    )


def items_expanded(preferences: cc.Preferences, t: int) -> cc.Preferences:
    """Return the preferences over t times as many items: item i becomes "i/1", ..., "i/t", which share its ranks."""
    p = preferences
    old, sizes = p.slots.offsets, p.slots.sizes
    items = p.items.tolist()
    names = [f"{i}/{c + 1}" for a, b in pairwise(old.tolist()) for c in range(t) for i in items[a:b]]
    lengths = p.list_lengths
    rows = ranges(np.repeat(p.list_offsets[:-1], t), np.repeat(p.list_offsets[1:], t))
    copy = np.repeat(np.tile(np.arange(t), p.n_lists), np.repeat(lengths, t))
    home = np.repeat(p.list_instance, lengths * t)
    slot = old[home] * t + copy * sizes[home] + (p.slot[rows] - old[home])
    return cc.Preferences.from_codes(
        Slots(p.instances, Texts(names), old * t),
        p.experts,
        p.list_expert,
        p.list_offsets * t,
        p.list_starts,
        slot.astype(np.int32),
        p.value[rows],
        kind=p.kind,
    )


def expanded_model(method: Any, experts: list[str], t: int) -> Any:
    """Return a fitted method whose experts are t copies of those of another, each with the weights of its original."""
    names = sorted(f"{e}/{c + 1}" for c in range(t) for e in experts)
    place = {e: n for n, e in enumerate(method.experts_)}
    origin = np.array([place[name.rpartition("/")[0]] for name in names])
    out = type(method)(**method.get_params())
    for name, value in method.__dict__.items():
        if name.endswith("_") and not name.startswith("_"):
            whole = isinstance(value, np.ndarray) and value.shape[:1] == (len(place),)
            setattr(out, name, value[origin] if whole else value)
    out.experts_ = names
    return out


def rank_matrices(preferences: cc.Preferences) -> list[Floats]:
    """Return ranks, items x experts, for every instance, 0 where an item is not listed: what the papers start from."""
    p = preferences
    out = [np.zeros((size, p.n_experts)) for size in p.slots.sizes.tolist()]
    home = p.list_instance[list_ids(p.list_offsets)]
    local = p.slot - p.slots.offsets[home]
    for n, (a, b) in enumerate(pairwise(p.list_offsets[p.list_starts].tolist())):
        out[n][local[a:b], p.row_expert[a:b]] = p.value[a:b]
    return out


def _matrices(rank: Floats, transform: str) -> Iterator[tuple[slice, Floats]]:
    """Yield the pairwise matrices of some experts at a time, experts x items x items."""
    m, n_experts = rank.shape
    step = max(1, CELLS // (m * m))
    for first in range(0, n_experts, step):
        some = slice(first, min(first + step, n_experts))
        r = rank[:, some].T
        listed = r > 0
        x = np.log(r, where=listed, out=np.zeros_like(r)) if transform == "log" else r
        z = x.max(axis=1) if transform in ("log", "rankdiff") else np.ones(len(x))
        z[z == 0] = 1.0
        before = listed[:, :, None] & listed[:, None, :] & (r[:, :, None] < r[:, None, :])
        gap = 1.0 if transform == "binary" else (x[:, None, :] - x[:, :, None]) / z[:, None, None]
        yield some, np.where(before, gap, 0.0)


def naive_svd(rank: Floats, weights: Floats, transform: str) -> Floats:
    """Return the scores from a dense singular value decomposition of every expert's matrix; weights: u, sigma, v, b."""
    score = (rank == 0) @ weights[:, 3]
    for some, Y in _matrices(rank, transform):
        U, S, Vt = np.linalg.svd(Y)
        told = S[:, :1] > 0
        w = weights[some]
        # The leading vectors of a matrix without negative entries have none themselves.
        terms = np.abs(U[:, :, 0]) * w[:, :1] + S[:, :1] * w[:, 1:2] + np.abs(Vt[:, 0, :]) * w[:, 2:3]
        score += np.where(told, terms, 0.0).sum(axis=0)
    return np.asarray(score)


def naive_crf(rank: Floats, weights: Floats, transform: str) -> Floats:
    """Return the scores from sums over dense pairwise matrices; weights: alpha, beta+, beta-."""
    score = (rank == 0) @ weights[:, 0]
    for some, Y in _matrices(rank, transform):
        w = weights[some] / len(rank)
        score += (Y.sum(axis=2) * w[:, 1:2] - Y.sum(axis=1) * w[:, 2:3]).sum(axis=0)
    return np.asarray(score)


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
    """Return a CRF and an SVDRank fitted to fold 1 of MQ2008-agg; their weights serve, they are not judged here.

    Singular vectors of length 1 are what the naive form has; other lengths cost the same.
    """
    train, vali, _ = cc.read_letor_folds(DATA / "MQ2008-agg")[0]
    crf = cc.CRF(transform="log", passes=30).fit(*train, validation=vali)
    svd = cc.SVDRank(strength="log", scaling="paper", passes=30).fit(*train, validation=vali)
    return crf, svd


def _dense_weights(method: Any, experts: list[str]) -> Floats:
    place = {e: n for n, e in enumerate(method.experts_)}
    return np.asarray(method.weights_)[[place[e] for e in experts]]


def _expansion(
    grow: Callable[[cc.Preferences, int], cc.Preferences], votes: cc.Preferences, models: tuple[Any, Any], naive: bool
) -> dict[str, Any]:
    """Return microseconds per query for every number of copies; the naive forms stop at the last of `COPIES`."""
    crf, svd = models
    experts = votes.experts.tolist()
    by_experts = grow is experts_expanded
    lines: dict[str, list[float]] = {}
    gaps = {"crf": 0.0, "svd": 0.0}
    copies = COPIES if naive else (*COPIES, *MORE_COPIES)
    for t in copies:
        grown = grow(votes, t)
        ours_crf, ours_svd = (expanded_model(m, experts, t) if by_experts else m for m in (crf, svd))
        jobs: dict[str, Callable[[], Any]] = {
            "CRF": lambda: ours_crf.predict(grown),  # noqa: B023 - called before the next turn
            "SVDRank": lambda: ours_svd.predict(grown),  # noqa: B023
        }
        if naive:
            matrices = rank_matrices(grown)
            names = grown.experts.tolist()
            w_crf, w_svd = _dense_weights(ours_crf, names), _dense_weights(ours_svd, names)
            slow: dict[str, Callable[[], list[Floats]]] = {
                "naive CRF": lambda: [naive_crf(r, w_crf, "log") for r in matrices],  # noqa: B023
                "naive SVD": lambda: [naive_svd(r, w_svd, "log") for r in matrices],  # noqa: B023
            }
            for short, fast, name in (("crf", ours_crf, "naive CRF"), ("svd", ours_svd, "naive SVD")):
                gaps[short] = max(gaps[short], _gap(fast.predict(grown), slow[name]()))
            if max(gaps.values()) > 1e-6:
                raise SystemExit(f"fast and naive scores differ by {gaps} at t = {t}; nothing is timed")
            jobs |= slow
        with cc.threads(1):
            for name, seconds in in_turn(jobs, REPEATS).items():
                lines.setdefault(name, []).append(1e6 * seconds / len(grown))
    sizes = {name: list(copies[: len(line)]) for name, line in lines.items()}
    return {
        "copies": list(copies),
        "queries": len(votes),
        "items": votes.n_slots / len(votes),
        "microseconds": lines,
        "largest_difference": gaps if naive else None,
        "slopes": {name: slope(sizes[name], line) for name, line in lines.items()},
        "slopes_from_10": {
            name: slope(sizes[name][9:], line[9:]) for name, line in lines.items() if len(line) > len(COPIES)
        },
    }


def _gap(consensus: cc.Consensus, naive: list[Floats]) -> float:
    """Return the largest difference of scores about the mean of their query, as a part of the largest score."""
    worst = 0.0
    for (a, b), theirs in zip(pairwise(consensus.slots.offsets.tolist()), naive, strict=True):
        ours = consensus.score[a:b] - consensus.score[a:b].mean()
        other = theirs - theirs.mean()
        worst = max(worst, float(np.abs(ours - other).max()) / max(float(np.abs(other).max()), 1e-9))
    return worst


def expansions() -> dict[str, Any]:
    """Cost of a query as experts and items multiply (SPEC 12.4): fast and naive forms on MQ2008-agg, fold 1, test."""
    if not (DATA / "MQ2008-agg").is_dir():
        return {"not_available": "MQ2008-agg"}
    # One thread for everybody: those of a linear algebra library disturb each other on matrices this small.
    alone = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "VECLIB_MAXIMUM")}
    found: dict[str, Any] = json.loads(run([sys.executable, __file__, "expansions"], env=alone).output.splitlines()[-1])
    return found


def _expansions() -> dict[str, Any]:
    """Return the study; the process must have been told to use one thread."""
    votes = cc.read_letor_folds(DATA / "MQ2008-agg")[0].test.preferences
    some = votes[np.arange(0, len(votes), EVERY)]
    models = _models()
    out: dict[str, Any] = {}
    for name, grow, subset in (("experts", experts_expanded, votes), ("items", items_expanded, some)):
        out[name] = {
            "beside_naive": _expansion(grow, subset, models, naive=True),
            "ours": _expansion(grow, votes, models, naive=False),
        }
        at_ten = {n: line[-1] for n, line in out[name]["beside_naive"]["microseconds"].items()}
        out[name]["ratios_at_10"] = {
            "crf_over_naive_svd": at_ten["naive SVD"] / at_ten["CRF"],
            "svd_over_naive_svd": at_ten["naive SVD"] / at_ten["SVDRank"],
            "crf_over_naive_crf": at_ten["naive CRF"] / at_ten["CRF"],
            "crf_over_svd": at_ten["SVDRank"] / at_ten["CRF"],
        }
    return out


def beside_rrf() -> dict[str, Any]:
    """CRF and SVDRank beside RRF on the same data: whole containers, and one request of 3 lists x 100 items."""
    out: dict[str, Any] = {}
    if (DATA / "MQ2008-agg").is_dir():
        crf, svd = _models()
        whole = cc.concat([f.test.preferences for f in cc.read_letor_folds(DATA / "MQ2008-agg")])
        out["MQ2008-agg, 784 queries"] = _batch(whole, crf, svd, repeats=30)
    learned = cc.synthetic.runs(20, skill=20, top=100, pool=300, random_state=3)
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
            queries += f" (every {EVERY}th, because dense decompositions take so long)"
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
        "One thread for all. Ours: `predict` on the whole container, ranks of the items included. Naive: pairwise "
        "matrices query by query in NumPy, several experts in one call, then LAPACK's decompositions or sums. "
        "Below 65,536 rows in all CRF is summed by NumPy, so that no request waits for a compiler, and by a compiled "
        "loop from there on: hence its fall where the copies reach that number."
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
            f"loaded: {', '.join(one['heavy']) or 'none'}.",
        ]
    )


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"runtime_study": expansions, "runtime_beside_rrf": beside_rrf}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {
    "runtime_study": _render_expansions,
    "runtime_beside_rrf": _render_beside_rrf,
}

if __name__ == "__main__":
    print(json.dumps(_expansions() if sys.argv[1] == "expansions" else _request(sys.argv[2])))
