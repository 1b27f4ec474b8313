"""Size of the tests of `compare_models`: how often the smaller model is rejected where it holds.

A test at level 5 % should reject in 5 % of the data sets. The likelihood ratio and Wald's test take outcomes as
independent; the last rows show what happens where those of one expert are correlated, and what clustering repairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from coverage_data import Floats, plain
from render import table

import concordant as cc

DATA_SETS, SEED = 3000, 21
ITEMS = 8
NAMES = [f"i{n}" for n in range(ITEMS)]
SLOTS = [("q", name) for name in NAMES]
Fits = tuple[cc.Aggregator, cc.Aggregator]


def _features(rng: np.random.Generator, columns: int) -> tuple[Floats, cc.Features]:
    x = rng.normal(size=(ITEMS, columns))
    return x, cc.Features(["q"] * ITEMS, NAMES, x, names=[f"x{n}" for n in range(columns)])


def _games(rng: np.random.Generator, s: Floats, n: int, *, ties: bool = False, experts: int = 0) -> cc.Comparisons:
    """Draw outcomes of random pairs; with `experts` each leans to the left or right side, none of them on average."""
    left = rng.integers(0, ITEMS, n)
    right = (left + rng.integers(1, ITEMS, n)) % ITEMS
    gap = s[left] - s[right]
    expert = None
    if experts:
        who = np.arange(n) % experts
        gap = gap + rng.normal(size=experts)[who]
        expert = [f"e{k}" for k in who.tolist()]
    won = plain(gap)[0]
    tie = np.zeros(n)
    if ties:
        whole = np.exp(gap / 2) + np.exp(-gap / 2) + 0.6
        won, tie = np.exp(gap / 2) / whole, 0.6 / whole
    u = rng.random(n)
    first, drawn = u < won, (u >= won) & (u < won + tie)
    names = np.array(NAMES)
    counts = [c.astype(np.float64) for c in (first, ~first & ~drawn, drawn)]
    return cc.Comparisons("q", expert, names[left].tolist(), names[right].tolist(), *counts, items=SLOTS)


def _lists(rng: np.random.Generator, s: Floats, lists: int, length: int, *, tied: bool = False) -> cc.Preferences:
    """Draw lists of some items; with `tied` the two first are tied in a random third of the lists."""
    pool = rng.random((lists, ITEMS)).argsort(axis=1)[:, :length]
    seen = np.take_along_axis(np.broadcast_to(s, (lists, ITEMS)), pool, axis=1) + rng.gumbel(size=pool.shape)
    order = np.take_along_axis(pool, np.argsort(-seen, axis=1), axis=1)
    ranks = np.tile(np.arange(1.0, length + 1), (lists, 1))
    if tied:
        order, ranks = _with_ties(rng, s, pool, order, ranks)
    experts = np.repeat([f"e{n}" for n in range(lists)], length).tolist()
    items = np.array(NAMES)[order.ravel()].tolist()
    return cc.Preferences(["q"] * order.size, experts, items, ranks.ravel(), kind="rank", items=SLOTS)


def _with_ties(rng: np.random.Generator, s: Floats, pool: Any, order: Any, ranks: Floats) -> tuple[Any, Floats]:
    """Draw lists from Davidson-Luce with δ_2 = 0.5, choice by choice."""
    order, ranks = order.copy(), ranks.copy()
    for row, items in enumerate(pool.tolist()):
        left, place = list(items), 0
        while left:
            sets = [(i,) for i in left] + [(i, j) for n, i in enumerate(left) for j in left[n + 1 :]]
            weight = np.array([np.exp(s[list(c)].mean()) * (1.0 if len(c) == 1 else 0.5) for c in sets])
            chosen = sets[int(rng.choice(len(sets), p=weight / weight.sum()))]
            for k, item in enumerate(chosen):
                order[row, place + k], ranks[row, place + k] = item, place + 1
                left.remove(item)
            place += len(chosen)
    return order, ranks


def _fitted(data: Any, smaller: cc.Aggregator, larger: cc.Aggregator, *features: cc.Features | None) -> Fits:
    smaller.fit_predict(data, features=features[0] if features else None)
    larger.fit_predict(data, features=features[1] if len(features) > 1 else None)
    return smaller, larger


def _bt(**more: Any) -> cc.BradleyTerry:
    return cc.BradleyTerry(**{"prior": 0, "uncertainty": "information"} | more)


def _pl(**more: Any) -> cc.PlackettLuce:
    return cc.PlackettLuce(**{"prior": 0, "uncertainty": "information"} | more)


def _side(rng: np.random.Generator, *, ties: bool = False, experts: int = 0, uncertainty: str = "information") -> Fits:
    n = 600 if experts else 300
    data = _games(rng, rng.normal(scale=0.7, size=ITEMS), n, ties=ties, experts=experts)
    return _fitted(data, _bt(uncertainty=uncertainty), _bt(side_effect=True, uncertainty=uncertainty))


def _extra_feature(rng: np.random.Generator, draw: Callable[..., Any], make: Callable[..., cc.Aggregator]) -> Fits:
    x, both = _features(rng, 2)
    return _fitted(draw(rng, 0.6 * x[:, 0]), make(), make(), both.select(["x0"]), both)


def _free_scores(rng: np.random.Generator, draw: Callable[..., Any], make: Callable[..., cc.Aggregator]) -> Fits:
    x, both = _features(rng, 2)
    return _fitted(draw(rng, x @ np.array([0.5, -0.3])), make(), make(), both)


def _outcomes(rng: np.random.Generator, s: Floats) -> cc.Comparisons:
    return _games(rng, s, 300)


def _partial(rng: np.random.Generator, s: Floats) -> cc.Preferences:
    return _lists(rng, s, 100, 4)


def _tied(rng: np.random.Generator, s: Floats) -> cc.Preferences:
    return _lists(rng, s, 100, 4, tied=True)


SETTINGS: dict[tuple[str, str], Callable[[np.random.Generator], Fits]] = {
    ("Bradley–Terry, 300 outcomes", "no side effect"): _side,
    ("Bradley–Terry, ties (Davidson)", "no side effect"): lambda rng: _side(rng, ties=True),
    ("Bradley–Terry, 300 outcomes", "one feature of two"): lambda rng: _extra_feature(rng, _outcomes, _bt),
    ("Bradley–Terry, 300 outcomes", "scores linear in two features"): lambda rng: _free_scores(rng, _outcomes, _bt),
    ("Plackett–Luce, 100 lists of 4", "one feature of two"): lambda rng: _extra_feature(rng, _partial, _pl),
    ("Plackett–Luce, 100 lists of 4", "scores linear in two features"): lambda rng: _free_scores(rng, _partial, _pl),
    ("Plackett–Luce, Davidson–Luce ties", "one feature of two"): lambda rng: _extra_feature(
        rng, _tied, lambda: _pl(ties="davidson-luce")
    ),
    ("Bradley–Terry, 50 experts who differ", "no side effect"): lambda rng: _side(rng, experts=50),
    ("the same, Wald test clustered by expert", "no side effect"): lambda rng: _side(
        rng, experts=50, uncertainty="sandwich"
    ),
}


def p_values(setting: int, data_sets: int) -> tuple[list[tuple[float, float]], int, int]:
    """Return the p-values of the likelihood ratio and of Wald's test, their degrees of freedom, and sets left out.

    A set is left out where no finite estimate exists.
    """
    out, df, lost = [], 0, 0
    draw = list(SETTINGS.values())[setting]
    for n in range(data_sets):
        rng = np.random.default_rng([SEED, setting, n])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                test = cc.compare_models(*draw(rng)).tests[0]
            except cc.errors.NoFiniteEstimateError:
                lost += 1
                continue
        df = test.df or 0
        out.append((float(test.p_value or 0.0), float(test.wald_p_value or 0.0)))
    return out, df, lost


def nested_tests(data_sets: int = DATA_SETS) -> dict[str, Any]:
    """Size of the likelihood-ratio and Wald tests of nested models."""
    rows = []
    for setting, (kind, held) in enumerate(SETTINGS):
        found, df, lost = p_values(setting, data_sets)
        p = np.array(found)
        shares = [float((p[:, k] < level).mean()) for k in (0, 1) for level in (0.05, 0.01)]
        rows.append([kind, held, df, len(p), lost, *shares])
    return {"data_sets": data_sets, "items": ITEMS, "rows": rows}


def _nested_tests(r: dict[str, Any]) -> str:
    rows = [
        [kind, held, str(df), f"{n:,}", *(f"{100 * share:.1f}" for share in shares)]
        for kind, held, df, n, _, *shares in r["rows"]
    ]
    error = 100 * float(np.sqrt(0.05 * 0.95 / r["data_sets"]))
    note = (
        f"How often `compare_models` rejects the smaller model where it holds, in percent of {r['data_sets']:,} data "
        f"sets a row; the standard error at 5 % is {error:.2f}. {r['items']} items, prior=0. In the last two rows each "
        "expert leans to one side, by a standard normal variable on the scale of scores, and gives twelve outcomes: "
        "tests that take outcomes as independent reject too often; Wald's test with the default sandwich does not. "
        "Sets without a finite estimate are left out."
    )
    head = ["model and data", "what holds", "df", "sets", "LR, 5 %", "LR, 1 %", "Wald, 5 %", "Wald, 1 %"]
    return note + "\n\n" + table(head, rows)


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"nested_tests": nested_tests}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {"nested_tests": _nested_tests}
