"""Mallows models at full size: a known truth re-enacted, TREC-3 with random experts, and what a move costs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from measure import slope
from render import table
from studies import DATA, values_of

import concordant as cc
from concordant.aggregators._mallows import ChainPair, EnergyBuffer, PooledLists, pools_of
from concordant.metrics.significance import paired_t_test
from concordant_papers import mallows as study
from concordant_papers import trec3

SEEDS = 5
LEVELS = (0, 10, 20, 30, 34)
DRAWS = 10
# The views of the study on a known truth, by the names they have here: the paper's four, and the one of this library.
MODES = {
    "Sampling": "sampling, length chosen",
    "Sampling, 10 n swaps": "sampling, persistent, 10 n swaps",
    "Sampling, 10 n swaps from mean ranks": "sampling, begun anew, 10 n swaps",
    "Weighted": "weighted",
    "True": "true",
}


def synthetic() -> dict[str, Any]:
    """Synthetic Mallows data: 10 experts (two good, one random), 30 items, 10 instances; five sampling schemes."""
    return gathered(values_of("mallows-synthetic", SEEDS))


def gathered(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return θ and distances by view from the cells of the study, means over the seeds."""
    by_view: dict[str, list[Any]] = {}
    for key in sorted(values):
        by_view.setdefault(key.partition("/")[0], []).append(values[key])
    modes = {}
    for view, name in MODES.items():
        runs = by_view.get(view, [])
        if runs:
            curve = np.mean([r["distance"] for r in runs], axis=0)
            modes[name] = {
                "theta_per_seed": [r["theta"] for r in runs],
                "theta_mean": np.mean([r["theta"] for r in runs], axis=0).tolist(),
                "iterations": [r["iterations"] for r in runs],
                "distance_of_draws_after": {str(t): float(curve[t - 1]) for t in study.SHOWN if t <= len(curve)},
                "distance_of_consensus": float(np.mean([r["consensus"] for r in runs])),
            }
    runs = by_view["Sampling"]
    return {
        "theta": list(study.THETA),
        "seeds": len(runs),
        "modes": modes,
        "distance_of_borda": float(np.mean([r["borda"] for r in runs])),
    }


def trec3_random_experts() -> dict[str, Any]:
    """TREC-3, 0 to 34 of 38 runs replaced by random ones, ten draws: extended Mallows against CombMNZ on ranks."""
    folder = DATA / trec3.FOLDER
    if not folder.is_dir():
        return {"not_available": trec3.FOLDER}
    runs, labels = trec3.complete(str(folder), study.DEPTH), trec3.read(str(folder)).labels
    metrics = list(study.METRICS)
    levels: dict[str, Any] = {}
    for k_random in LEVELS:
        found: dict[str, list[Any]] = {"extended-mallows": [], "comb-mnz-rank": [], "rrf": []}
        checks, seconds, apart = [], [], []
        for draw in range(DRAWS if k_random else 1):
            votes = trec3.replaced(runs, k_random, draw)
            model = cc.ExtendedMallows(k=study.DEPTH, missing="below", random_state=draw)
            started = time.perf_counter()
            answers = {"extended-mallows": model.fit_predict(votes)}
            seconds.append(time.perf_counter() - started)
            answers["comb-mnz-rank"] = cc.CombMNZRank(k=study.DEPTH).fit_predict(votes)
            answers["rrf"] = cc.RRF().fit_predict(votes)
            for name, answer in answers.items():
                each = trec3.values_of(answer, labels, metrics)
                found[name].append([each[m] for m in metrics])
            r_hat = np.array(list(model.chain_["r_hat"].values()))
            checks.append(
                {
                    "iterations": model.fit_info_.n_iter,
                    "converged": model.fit_info_.converged,
                    "moves_per_item_and_iteration": model.chain_["steps"],
                    "gap_of_theta": model.chain_["gap"],
                    "gradient_norm": model.fit_info_.gradient_norm,
                    "longest_window": model.chain_["inference_steps"],
                    "median_r_hat": float(np.median(r_hat)),
                    "worst_r_hat": float(r_hat.max()),
                }
            )
            gone = np.isin(np.arange(votes.n_experts), trec3.chosen(votes, k_random, draw))
            apart.append([float(np.median(model.adherence_[~gone])), float(model.adherence_[gone].max(initial=0.0))])
            print(
                f"{k_random} of 38 random, draw {draw}: {seconds[-1]:.1f} s, {checks[-1]}", file=sys.stderr, flush=True
            )
        values = {name: np.array(v) for name, v in found.items()}  # draws, metrics, topics
        ours, theirs = values["extended-mallows"], values["comb-mnz-rank"]
        tests = {}
        for m, metric in enumerate(metrics):
            a, b = ours[:, m, :], theirs[:, m, :]
            tests[metric] = {
                "difference": float((a - b).mean()),
                "p_over_topics_and_draws": float(paired_t_test((a - b).ravel()).p_value),
                "p_over_topics": float(paired_t_test((a - b).mean(axis=0)).p_value),
                "draws_ahead": int((a.mean(axis=1) > b.mean(axis=1)).sum()),
            }
        levels[str(k_random)] = {
            "draws": len(ours),
            "mean": {n: dict(zip(metrics, v.mean(axis=(0, 2)).tolist(), strict=True)) for n, v in values.items()},
            "against_comb_mnz": tests,
            "checks": checks,
            "seconds": float(np.mean(seconds)),
            "adherence": {
                "median_of_real_experts": float(np.mean([a[0] for a in apart])),
                "largest_of_random_experts": float(np.mean([a[1] for a in apart])),
            },
        }
    return {"experts": runs.n_experts, "topics": len(runs), "k": study.DEPTH, "levels": levels}


def _pool(n: int, k: int, lists: int) -> PooledLists:
    """Return one instance of random lists of k out of n items."""
    rng = np.random.default_rng([n, k, lists])
    slot = np.concatenate([rng.permutation(n)[:k] for _ in range(lists)])
    p = cc.Preferences(["q"] * len(slot), np.repeat(range(lists), k), slot, np.tile(np.arange(1.0, k + 1.0), lists))
    (pool,) = pools_of(p, k, True, np.arange(lists, dtype=np.int32))
    if pool is None:
        raise SystemExit("no lists")
    return pool


def growth() -> dict[str, Any]:
    """Time of one move of a chain, with and without records, against the number of experts and items."""
    from concordant.kernels.mallows_chain import run_chain

    def cost(n: int, k: int, lists: int) -> tuple[float, float]:
        p = _pool(n, k, lists)
        # The posterior stays equally sharp, so that moves are accepted equally often.
        u = np.full(lists, -1.0 / (lists * k))
        room, rng = EnergyBuffer(), np.random.default_rng(0)
        c, rows = room.energies(p, u)
        order, moves = p.borda_order(np.zeros(lists)), 50_000
        unseen = (np.zeros(lists), np.zeros((lists, 0)), np.zeros(0), np.zeros(p.n), np.zeros(p.n))
        more = (np.zeros(p.n, dtype=np.int64), np.zeros(p.n, dtype=np.int32))
        alone, whole = [], []
        for _ in range(5):
            chance = rng.random((moves, 3))
            started = time.perf_counter()
            run_chain(
                c, rows, order, p.k, p.item, p.group, p.offsets, p.starts, p.lists, u, True, False,
                chance, moves + 1, *unseen, *more,
            )  # fmt: skip
            alone.append(time.perf_counter() - started)
        walk = ChainPair(p, [order], rng, False)
        walk.run(room, u, 2.0)
        for _ in range(3):
            started = time.perf_counter()
            walk.run(room, u, moves / p.n)
            whole.append(time.perf_counter() - started)
        return min(alone) / moves * 1e6, min(whole) / moves * 1e6

    experts = (10, 40, 160, 640)
    items = (50, 100, 200, 400, 800)
    size = {n: cost(n, n, 20) for n in items}
    return {
        "experts_full_200_items": {str(k): cost(200, 200, k) for k in experts},
        "experts_top_100_of_1000": {str(k): cost(1000, 100, k) for k in experts},
        "items": {str(n): v for n, v in size.items()},
        "slope_by_items": slope(items, [v[0] for v in size.values()]),
    }


def _render_synthetic(r: dict[str, Any]) -> str:
    def names(theta: list[float]) -> list[str]:
        return [f"{theta[0]:.2f}", f"{theta[1]:.2f}", f"{np.mean(theta[2:9]):.3f}", f"{theta[9]:.3f}"]

    shown = list(next(iter(r["modes"].values()))["distance_of_draws_after"])
    rows = [["truth", *names(r["theta"]), *[""] * (len(shown) + 1)]]
    for mode, v in r["modes"].items():
        draws = [f"{d:.1f}" for d in v["distance_of_draws_after"].values()]
        rows.append([mode, *names(v["theta_mean"]), *draws, f"{v['distance_of_consensus']:.1f}"])
    head = ["truth seen by", "good 1", "good 2", "mean of 7 poor", "random"]
    head += [f"draws after {t}" for t in shown]
    each = "; ".join(
        f"seed {s}: {t[0]:.2f}, {t[1]:.2f}, {t[9]:.3f}"
        for s, t in enumerate(r["modes"]["sampling, length chosen"]["theta_per_seed"])
    )
    return "\n\n".join(
        [
            table([*head, "consensus"], rows),
            f"Means over {r['seeds']} seeds. Kendall distances to the truth, of rankings drawn from the "
            "posterior after that many iterations, and of the final consensus (random rankings: 217.5; Borda: "
            f"{r['distance_of_borda']:.1f}). θ of the two good experts and the random one, chains of chosen length: "
            f"{each}.",
        ]
    )


def _render_trec3(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    rows, tests, checks = [], [], []
    for level, v in r["levels"].items():
        mean = v["mean"]
        rows.append(
            [level]
            + [
                f"{mean[name][m]:.3f}"
                for m in ("p@10", "p@30")
                for name in ("extended-mallows", "comb-mnz-rank", "rrf")
            ]
        )
        tests += [
            [
                level,
                m,
                f"{t['difference']:+.3f}",
                f"{t['p_over_topics_and_draws']:.1e}",
                f"{t['p_over_topics']:.1e}",
                f"{t['draws_ahead']} of {v['draws']}",
            ]
            for m, t in v["against_comb_mnz"].items()
        ]
        c = v["checks"]
        checks.append(
            [
                level,
                f"{np.mean([x['iterations'] for x in c]):.0f}",
                f"{max(x['moves_per_item_and_iteration'] for x in c):g}",
                f"{max(x['gap_of_theta'] for x in c):.1%}",
                f"{max(x['longest_window'] for x in c):g}",
                f"{np.mean([x['median_r_hat'] for x in c]):.3f}",
                f"{max(x['worst_r_hat'] for x in c):.3f}",
                f"{v['adherence']['median_of_real_experts']:.3f}",
                f"{v['adherence']['largest_of_random_experts']:.4f}",
                f"{v['seconds']:.1f} s",
            ]
        )
    head = [f"{m} {name}" for m in ("P@10", "P@30") for name in ("extended Mallows", "CombMNZ", "RRF")]
    return "\n\n".join(
        [
            table(["random of 38", *head], rows),
            "Against CombMNZ on ranks, paired t-tests over topics and draws, and over the topics' means:",
            table(["random", "metric", "difference", "p, topics and draws", "p, topics", "ahead in draws"], tests),
            "Convergence of two chains from opposite starts, which are lengthened until they agree: θ within 5 % in "
            "learning, R̂ at most 1.1 in every topic in prediction. Moves are per item.",
            table(
                [
                    "random",
                    "iterations",
                    "moves an iteration",
                    "largest gap of θ",
                    "longest window",
                    "median R̂",
                    "worst R̂",
                    "−θ of a real expert",
                    "largest of a random one",
                    "time",
                ],
                checks,
            ),
        ]
    )


def _render_growth(r: dict[str, Any]) -> str:
    full, cut = r["experts_full_200_items"], r["experts_top_100_of_1000"]
    rows = [[k, *(f"{v:.2f} µs" for v in (*full[k], *cut[k]))] for k in full]
    size = [[n, f"{v[0]:.2f} µs", f"{v[1]:.2f} µs"] for n, v in r["items"].items()]
    head = [f"{what}, {of}" for of in ("200 items", "first 100 of 1,000") for what in ("a move", "with records")]
    return "\n\n".join(
        [
            table(["experts", *head], rows),
            table(["items", "a move", "with records"], size),
            f"Slope of log time of a move against log items: {r['slope_by_items']:.2f}. With records: including the "
            "table of pair energies, built once for 50,000 moves, and the distances of all lists, computed now and "
            "then.",
        ]
    )


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "mallows_synthetic": synthetic,
    "mallows_trec3": trec3_random_experts,
    "mallows_growth": growth,
}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {
    "mallows_synthetic": _render_synthetic,
    "mallows_trec3": _render_trec3,
    "mallows_growth": _render_growth,
}
