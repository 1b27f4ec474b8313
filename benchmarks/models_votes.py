"""Votes over time: a leaderboard fed in batches, and models that forget, measured by the votes that come next."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from coverage_data import Floats
from render import table

import concordant as cc

SEED = 31
STREAM = {"items": 200, "votes": 1_000_000, "experts": 20_000, "batches": 200}
CAREERS = {"data_sets": 40, "items": 20, "votes": 6_000, "periods": 60}
HALF_LIVES = [None, 40.0, 20.0, 10.0, 5.0, 2.5, 1.25]
PRIORS = [0.1, 0.4]
STEPS = [4.0, 8.0, 16.0, 32.0, 64.0]


def vote_stream() -> dict[str, Any]:
    """A leaderboard updated by a million votes in random batches, beside one fit to all of them."""  # noqa: D401 - a title
    s = STREAM
    every = cc.synthetic.bradley_terry(
        s["items"], s["votes"], ties=0.9, n_experts=s["experts"], random_state=SEED
    ).comparisons
    edges = np.random.default_rng(SEED).choice(np.arange(1, every.n_rows), s["batches"] - 1, replace=False)
    batches = [every.select_rows(rows) for rows in np.split(np.arange(every.n_rows), np.sort(edges))]
    rows = []
    for name, params in {"plain": {}, "with a side effect": {"side_effect": True}}.items():
        model = cc.BradleyTerry(**params)
        arena, seconds = cc.Leaderboard(model), []
        with warnings.catch_warnings():
            # The first votes do not place all items.
            warnings.simplefilter("ignore", cc.errors.ConcordantWarning)
            for batch in batches:
                started = process_time()
                scores = arena.update(batch)
                seconds.append(process_time() - started)
        few = every.select_rows(range(10))
        small = []
        for _ in range(20):
            started = process_time()
            arena.update(few)
            small.append(process_time() - started)
        started = process_time()
        want = cc.BradleyTerry(**params, uncertainty="none").fit_predict(every)
        whole = process_time() - started
        place = {item: n for n, item in enumerate(want.items.tolist())}
        gap = scores.score - want.score[[place[item] for item in scores.items.tolist()]]
        row = [name, float(np.abs(gap).max()), float(np.median(seconds)), float(np.median(small)), whole]
        rows.append(row)
    return {**s, "rows": rows}


def _vote_stream(r: dict[str, Any]) -> str:
    rows = [[n, f"{gap:.1e}", *(f"{1000 * t:.0f} ms" for t in times)] for n, gap, *times in r["rows"]]
    note = (
        f"{r['votes']:,} votes on {r['items']} items by {r['experts']:,} experts, with ties, in {r['batches']} random "
        "batches (`cc.Leaderboard`, other settings at their defaults). The largest difference of a score from a fit to "
        "all votes, CPU time of an update by the median batch and by ten votes at the end, and of the fit to all votes "
        "without intervals."
    )
    return note + "\n\n" + table(["model", "largest difference", "a batch", "ten votes", "one fit"], rows)


def walks(rng: np.random.Generator, drift: float) -> Floats:
    """Return strengths by period and item that walk at random, by `drift` over all periods; all items stay."""
    periods = CAREERS["periods"]
    step = np.full((periods, 1), drift / np.sqrt(periods))
    step[0] = 1.0
    return np.asarray(np.cumsum(rng.normal(size=(periods, CAREERS["items"])) * step, axis=0))


def comings_and_goings(rng: np.random.Generator, drift: float) -> Floats:
    """Return strengths of items that enter, rise and fall by `drift` along a parabola, and leave; NaN while away."""
    m, periods = CAREERS["items"], CAREERS["periods"]
    length = rng.integers(periods // 3, 2 * periods // 3, m)
    # Careers follow one another, so that about as many items are there at any time.
    start = np.sort(rng.uniform(-periods / 4, periods - periods / 8, m)).astype(np.int64)
    age = (np.arange(periods)[:, None] - start) / length
    strength = rng.normal(size=m) + drift * (0.5 - (2.0 * age - 1.0) ** 2)
    return np.where((age >= 0) & (age <= 1), strength, np.nan)


def career_votes(rng: np.random.Generator, strength: Floats) -> tuple[cc.Comparisons, Floats]:
    """Return votes on pairs of items that are there in their period, and the chance of each left item."""
    periods, m = strength.shape
    period = np.sort(rng.integers(0, periods, CAREERS["votes"]))
    # The two items with the largest random keys among those that are there.
    keys = np.where(np.isnan(strength[period]), -1.0, rng.random((len(period), m)))
    left, right = np.argsort(-keys, axis=1)[:, :2].T
    met = keys[np.arange(len(period)), right] >= 0
    period, left, right = period[met], left[met], right[met]
    chance = 1.0 / (1.0 + np.exp(strength[period, right] - strength[period, left]))
    won = rng.random(len(period)) < chance
    names = np.array([f"i{k}" for k in range(m)])
    return cc.Comparisons("arena", None, names[left], names[right], won, ~won, time=period), chance


KINDS = {"random walk": walks, "careers that begin and end": comings_and_goings}


def careers() -> dict[str, Any]:
    """Careers with a known drift: settings chosen on the first half, log loss on the votes that come later."""
    forward: dict[str, Any] = {"folds": 5, "split_by": "time"}
    rows = []
    for kind, drift in [(kind, drift) for kind in KINDS for drift in (0.0, 1.0, 2.0, 4.0)]:
        rng = np.random.default_rng([SEED, len(kind), int(10 * drift)])
        losses, half_lives = [], []
        for _ in range(CAREERS["data_sets"]):
            votes, chance = career_votes(rng, KINDS[kind](rng, drift))
            first = votes.time < CAREERS["periods"] / 2  # type: ignore[operator]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cc.errors.ConcordantWarning)
                past = votes.select_rows(first)
                chosen = cc.GridSearch(
                    cc.BradleyTerry(), {"half_life": HALF_LIVES, "prior": PRIORS}, metric="log-loss", **forward
                ).fit(past)
                elo = cc.GridSearch(cc.Elo(), {"k": STEPS}, metric="log-loss", **forward).fit(past)
                models = [cc.BradleyTerry(), cc.BradleyTerry(**chosen.best_params_), cc.Elo(**elo.best_params_)]
                # Each period of the second half is predicted from all votes before it.
                period = votes.time
                splits = [
                    (np.flatnonzero(period < p), np.flatnonzero(period == p))
                    for p in np.unique(period[period >= CAREERS["periods"] // 2])
                ]
                found = [cc.cross_validate(m, votes, folds=splits, metrics="log-loss") for m in models]
            tested = found[0].tested
            truth = np.where(votes.n_left > 0, chance, 1.0 - chance)[tested]
            losses.append([one.mean["log-loss"] for one in found] + [float(-np.log(truth).mean())])
            half_lives.append(chosen.best_params_["half_life"] or np.inf)
        table_of = np.array(losses)
        gaps = table_of[:, [0, 2]] - table_of[:, [1]]
        errors = gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
        median = float(np.median(half_lives))
        rows.append(
            [kind, drift, table_of.mean(axis=0).tolist(), gaps.mean(axis=0).tolist(), errors.tolist(), min(median, 1e9)]
        )
    return {**CAREERS, "rows": rows}


def _careers(r: dict[str, Any]) -> str:
    rows = []
    for kind, drift, means, gaps, errors, median in r["rows"]:
        static, chosen, elo, truth = (f"{v:.4f}" for v in means)
        paired = [f"{gap:+.4f} ± {error:.4f}" for gap, error in zip(gaps, errors, strict=True)]
        rows.append(
            [kind, f"{drift:g}", static, chosen, elo, truth, *paired, "none" if median >= 1e9 else f"{median:g}"]
        )
    note = (
        f"{r['votes']:,} votes on {r['items']} items over {r['periods']} periods, {r['data_sets']} data sets a row. "
        "Strengths are standard normal at first; they walk at random by the drift (standard deviation over all "
        "periods), or items enter, rise and fall by it along a parabola, and leave. The half-life and the prior of "
        "Bradley-Terry and the step k of Elo are chosen by forward log loss on the first half; each later period is "
        "then predicted from all votes before it. Log loss of these votes, smaller is better; truth is the loss of the "
        "true chances. The differences are paired, with standard errors over data sets."
    )
    head = [
        "strengths",
        "drift",
        "static Bradley-Terry",
        "half-life and prior chosen",
        "online Elo, k chosen",
        "truth",
        "static − half-life",
        "Elo − half-life",
        "median half-life",
    ]
    return note + "\n\n" + table(head, rows)


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"vote_stream": vote_stream, "careers": careers}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {"vote_stream": _vote_stream, "careers": _careers}
