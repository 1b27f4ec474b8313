"""Do the intervals hold what they promise: 500 data sets with a known truth for every model, the share that is covered.

Where outcomes are independent the truth is what the data were drawn from. Where every expert has a taste of its own the
model is too simple, and what it estimates is the scores that fit the law of the outcomes best (the pseudo-truth): that
is computed here by integrating over the tastes, or from a million draws where there is no formula.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from render import table
from scipy.optimize import brentq, minimize

import concordant as cc
from concordant.errors import NoFiniteEstimateError

Floats = NDArray[np.float64]

ITEMS = 20
DATA_SETS = 500
SEED = 7
NAMES = [f"i{n}" for n in range(ITEMS)]
SLOTS = [("q", name) for name in NAMES]
# The standard deviations of the true scores, of what an expert adds to the score of an item, and of how it leans.
SPREAD, TASTE, LEANING = 0.8, 1.0, 2.0
DAVIDSON, RAO_KUPPER = 0.7, 1.7
EXPERTS, PER_EXPERT = 40, 50


class Case(NamedTuple):
    """A model on data of one kind."""

    method: Callable[[], cc.Aggregator]
    sample: Callable[[np.random.Generator], tuple[Any, Floats]]
    promise: str = "independent"


def scores(rng: np.random.Generator) -> Floats:
    """Return true scores, mean 0."""
    s = rng.normal(scale=SPREAD, size=ITEMS)
    return s - s.mean()


@cache
def fixed_scores() -> Floats:
    """Return the true scores of all data sets in which experts have tastes, so that the pseudo-truth is one."""
    return scores(np.random.default_rng([SEED, 2**20]))


# The laws of an outcome: chances that left wins, right wins, neither, from the difference of the scores.


def no_ties(d: Floats) -> Floats:
    """Return the chances of the Bradley-Terry model."""
    p = 1 / (1 + np.exp(-d))
    return np.stack([p, 1 - p, np.zeros_like(p)])


def davidson(d: Floats, nu: float = DAVIDSON) -> Floats:
    """Return the chances of Davidson's model: a tie is nu times the geometric mean."""
    a, b = np.exp(d / 2), np.exp(-d / 2)
    return np.stack([a, b, np.full_like(a, nu)]) / (a + b + nu)


def rao_kupper(d: Floats, theta: float = RAO_KUPPER) -> Floats:
    """Return the chances of the Rao-Kupper model: who wins must be better by a factor theta."""
    left, right = 1 / (1 + theta * np.exp(-d)), 1 / (1 + theta * np.exp(d))
    return np.stack([left, right, 1 - left - right])


def matchings(rng: np.random.Generator, rounds: int) -> tuple[Any, Any]:
    """Return pairs in which every item appears once a round."""
    order = np.stack([rng.permutation(ITEMS) for _ in range(rounds)])
    return order[:, : ITEMS // 2].ravel(), order[:, ITEMS // 2 :].ravel()


def comparisons(rng: np.random.Generator, left: Any, right: Any, chances: Floats, expert: Any) -> cc.Comparisons:
    """Draw an outcome for every pair."""
    u = rng.random(len(left))
    outcome = np.where(u < chances[0], 0, np.where(u < chances[0] + chances[1], 1, 2))
    return cc.Comparisons(
        "q",
        None if expert is None else [f"e{e}" for e in expert],
        [NAMES[i] for i in left],
        [NAMES[j] for j in right],
        *(np.asarray(outcome == o, dtype=np.float64) for o in range(3)),
        items=SLOTS,
    )


def independent(law: Callable[[Floats], Floats], rounds: int, rng: np.random.Generator) -> tuple[Any, Floats]:
    """Draw comparisons by nobody in particular."""
    s = scores(rng)
    left, right = matchings(rng, rounds)
    return comparisons(rng, left, right, law(s[left] - s[right]), None), s


def with_tastes(law: Callable[[Floats], Floats], rng: np.random.Generator) -> tuple[Any, Floats]:
    """Draw comparisons by experts each of whom sees the items a little differently."""
    taste = rng.normal(scale=TASTE, size=(EXPERTS, ITEMS))
    expert = np.repeat(np.arange(EXPERTS), PER_EXPERT)
    left = rng.integers(0, ITEMS, len(expert))
    right = (left + rng.integers(1, ITEMS, len(expert))) % ITEMS
    seen = fixed_scores() + taste
    chances = law(seen[expert, left] - seen[expert, right])
    return comparisons(rng, left, right, chances, expert), pairwise_truth(law)


@cache
def pairwise_truth(law: Callable[..., Floats]) -> Floats:
    """Return the scores whose chances are closest to the mean chances over tastes, over all pairs alike."""
    s, (i, j) = fixed_scores(), np.triu_indices(ITEMS, 1)
    nodes, weight = np.polynomial.hermite_e.hermegauss(60)
    weight = weight / weight.sum()
    # Two tastes enter a difference.
    mean = sum(w * law(s[i] - s[j] + np.sqrt(2) * TASTE * z) for z, w in zip(nodes, weight, strict=True))

    def loss(x: Floats) -> float:
        d = x[i] - x[j]
        fitted = law(d) if law is no_ties else law(d, np.exp(x[-1]))
        return -float((mean * np.log(np.maximum(fitted, 1e-300))).sum())

    start = np.append(s, 0.5)
    fit = minimize(loss, start, method="BFGS", options={"gtol": 1e-6})
    out: Floats = fit.x[:ITEMS] - fit.x[:ITEMS].mean()
    return out


def rankings(rng: np.random.Generator, s: Floats, lists: int, length: int) -> NDArray[np.int64]:
    """Draw rankings of some items each, best first, by the Plackett-Luce law; `s` may hold one row per list."""
    pool = rng.random((lists, ITEMS)).argsort(axis=1)[:, :length]
    seen = np.take_along_axis(np.broadcast_to(s, (lists, ITEMS)), pool, axis=1) + rng.gumbel(size=(lists, length))
    return np.take_along_axis(pool, np.argsort(-seen, axis=1), axis=1)


def preferences(orders: NDArray[np.int64]) -> cc.Preferences:
    """Return rankings as preferences, one expert each."""
    lists, length = orders.shape
    return cc.Preferences(
        ["q"] * orders.size,
        np.repeat([f"e{n}" for n in range(lists)], length).tolist(),
        [NAMES[i] for i in orders.ravel()],
        np.tile(np.arange(1.0, length + 1), lists),
        kind="rank",
        items=SLOTS,
    )


def listed(lists: int, length: int, rng: np.random.Generator) -> tuple[Any, Floats]:
    """Draw rankings whose experts agree but for chance."""
    s = scores(rng)
    return preferences(rankings(rng, s, lists, length)), s


def leaning(rng: np.random.Generator, lists: int) -> Floats:
    """Return the scores as experts see them who lean to one kind of items or to the other.

    A taste of its own for every item would only add to the chance that is in a ranking anyway; a leaning moves all
    places of a list together.
    """
    kind = np.random.default_rng([SEED, 2**23]).normal(size=ITEMS)
    return fixed_scores() + rng.normal(scale=LEANING, size=(lists, 1)) * (kind - kind.mean())


def listed_with_leanings(lists: int, length: int, rng: np.random.Generator) -> tuple[Any, Floats]:
    """Draw rankings of experts who lean."""
    return preferences(rankings(rng, leaning(rng, lists), lists, length)), listwise_truth(length)


@cache
def listwise_truth(length: int, draws: int = 1_000_000) -> Floats:
    """Return the Plackett-Luce scores of a million rankings of experts who lean."""
    rng = np.random.default_rng([SEED, 2**21])
    parts = [rankings(rng, leaning(rng, 50_000), 50_000, length) for _ in range(draws // 50_000)]
    orders = np.concatenate(parts)

    def loss(s: Floats) -> tuple[float, Floats]:
        e = np.exp(s)[orders]
        rest = np.cumsum(e[:, ::-1], axis=1)[:, ::-1]
        rest[:, -1] = np.inf
        spent = np.cumsum(1 / rest, axis=1) * e
        spent[:, :-1] -= 1
        value = np.log(rest[:, :-1]).sum() - s[orders[:, :-1]].sum()
        return value / draws, np.bincount(orders.ravel(), spent.ravel(), ITEMS) / draws

    fit = minimize(loss, fixed_scores(), jac=True, method="L-BFGS-B", options={"gtol": 1e-8, "ftol": 0})
    out: Floats = fit.x - fit.x.mean()
    return out


def multinomial(per_item: int, rng: np.random.Generator) -> tuple[Any, Floats]:
    """Draw preferences by the law of the multinomial preference model: one out of all ordered pairs at a time."""
    s = scores(rng)
    left, right = ordered_pairs(rng, s, per_item * ITEMS // 2)
    return comparisons(rng, left, right, no_ties(np.full(len(left), np.inf)), None), s


def multinomial_with_tastes(rng: np.random.Generator) -> tuple[Any, Floats]:
    """Draw preferences of experts with tastes by the multinomial law."""
    seen = fixed_scores() + rng.normal(scale=TASTE, size=(EXPERTS, ITEMS))
    drawn = [ordered_pairs(rng, row, PER_EXPERT) for row in seen]
    left, right = (np.concatenate([d[side] for d in drawn]) for side in (0, 1))
    expert = np.repeat(np.arange(EXPERTS), PER_EXPERT)
    return comparisons(rng, left, right, no_ties(np.full(len(left), np.inf)), expert), multinomial_truth()


def ordered_pairs(rng: np.random.Generator, s: Floats, n: int) -> tuple[Any, Any]:
    """Draw ordered pairs of different items with probability proportional to exp(s_i - s_j)."""
    weight = np.exp(s[:, None] - s[None, :])
    np.fill_diagonal(weight, 0.0)
    drawn = rng.choice(ITEMS * ITEMS, size=n, p=(weight / weight.sum()).ravel())
    return drawn // ITEMS, drawn % ITEMS


@cache
def multinomial_truth(draws: int = 1_000_000) -> Floats:
    """Return the scores whose net counts are the mean net counts over tastes."""
    rng = np.random.default_rng([SEED, 2**22])
    net = np.zeros(ITEMS)
    for _ in range(draws // 50_000):
        x = fixed_scores() + rng.normal(scale=TASTE, size=(50_000, ITEMS))
        up, down = np.exp(x), np.exp(-x)
        a, b = up.sum(axis=1, keepdims=True), down.sum(axis=1, keepdims=True)
        net += ((up * b - down * a) / (a * b - ITEMS)).sum(axis=0)
    net /= draws

    def gap(c: float) -> float:
        a = float(np.sqrt(1 + (c * net) ** 2).sum())
        return c - (a * a - ITEMS) / (2 * a)

    out: Floats = np.arcsinh(brentq(gap, 1e-9, 1e3) * net)
    return out - out.mean()


def _cases() -> dict[str, Case]:
    """Return every model on every kind of data."""
    bt = partial(cc.BradleyTerry, prior=0)
    pl = partial(cc.PlackettLuce, prior=0)
    mpm = partial(cc.MPM, adherence="none")
    alone = {
        f"{name}, {rounds} comparisons per item": Case(partial(bt, ties=ties), partial(independent, law, rounds))
        for rounds in (30, 100)
        for name, ties, law in (
            ("Bradley–Terry", "none", no_ties),
            ("Davidson", "davidson", davidson),
            ("Rao–Kupper", "rao-kupper", rao_kupper),
        )
    }
    alone |= {f"MPM, {n} comparisons per item": Case(mpm, partial(multinomial, n)) for n in (30, 100)}
    alone |= {
        "Plackett–Luce, 120 lists of 5, information": Case(
            partial(pl, uncertainty="information"), partial(listed, 120, 5)
        ),
        "Plackett–Luce, 120 lists of 5, lists as clusters": Case(pl, partial(listed, 120, 5)),
        "Bradley–Terry, bootstrap, 100 comparisons per item": Case(
            partial(bt, uncertainty="bootstrap"), partial(independent, no_ties, 100)
        ),
        "Plackett–Luce, bootstrap over 120 lists of 5": Case(
            partial(pl, uncertainty="bootstrap"), partial(listed, 120, 5)
        ),
    }
    for name, method, sample in (
        ("Bradley–Terry", partial(bt, ties="none"), partial(with_tastes, no_ties)),
        ("Davidson", partial(bt, ties="davidson"), partial(with_tastes, davidson)),
        ("Rao–Kupper", partial(bt, ties="rao-kupper"), partial(with_tastes, rao_kupper)),
        ("MPM", mpm, multinomial_with_tastes),
        ("Plackett–Luce", pl, partial(listed_with_leanings, 60, 15)),
        ("Bradley–Terry on pairs of rankings", partial(bt, transform="binary"), partial(listed, 60, 10)),
    ):
        alone[f"{name}, clustered"] = Case(method, sample, "clusters")
        alone[f"{name}, naive"] = Case(partial(method, uncertainty="information"), sample, "none")
    alone["Bradley–Terry, bootstrap over experts"] = Case(
        partial(bt, ties="none", uncertainty="bootstrap"), partial(with_tastes, no_ties), "clusters"
    )
    return alone


PROMISES = {"independent": (0.93, 0.97), "clusters": (0.91, 0.98)}


def covered(name: str, number: int) -> tuple[float, float, float, int, int]:
    """Return the shares of scores, differences and ranks that one data set's intervals cover, refusals, and warnings.

    A data set without a finite estimate (an item that won or lost every comparison) is drawn again.
    """
    case = _cases()[name]
    for attempt in count():
        rng = np.random.default_rng([SEED, number, attempt])
        data, truth = case.sample(rng)
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                found = case.method().fit_predict(data)
            break
        except NoFiniteEstimateError:
            continue
    shown = found.items.tolist()
    true = truth[[NAMES.index(i) for i in shown]]
    rank = 1 + (true[None, :] > true[:, None]).sum(axis=1)
    i, j = np.triu_indices(ITEMS, 1)
    block = found.covariance[0]
    spread = np.sqrt(block[i, i] + block[j, j] - 2 * block[i, j])
    reach = (found.upper[0] - found.score[0]) / found.stderr[0]
    off = np.abs(found.score[i] - found.score[j] - (true[i] - true[j]))
    one = found.difference(shown[0], shown[1])
    if not np.isclose(one.upper - one.value, reach * spread[0]):
        raise SystemExit("Consensus.difference and the covariance of the scores disagree")
    return (
        float(((found.lower <= true) & (true <= found.upper)).mean()),
        float((off <= reach * spread).mean()),
        float(((found.rank_lower <= rank) & (rank <= found.rank_upper)).mean()),
        attempt,
        len(said),
    )


def _many(job: tuple[str, range]) -> list[tuple[float, float, float, int, int]]:
    return [covered(job[0], n) for n in job[1]]


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let processes that start meanwhile leave the threads of linear algebra alone: tables are small, cores are two."""
    before = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        del os.environ["OPENBLAS_NUM_THREADS"]
        if before is not None:
            os.environ["OPENBLAS_NUM_THREADS"] = before


def coverage(only: str = "", data_sets: int = DATA_SETS) -> dict[str, Any]:
    """Share of true scores, differences and ranks inside their 95 % intervals, over 500 data sets per model."""
    cases = {name: case for name, case in _cases().items() if only in name}
    out: dict[str, Any] = {}
    with _one_thread_each(), ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for name, case in cases.items():
            parts = pool.map(_many, [(name, range(n, min(n + 25, data_sets))) for n in range(0, data_sets, 25)])
            seen = np.array([row for part in parts for row in part])
            mean, error = seen.mean(axis=0).tolist(), (seen.std(axis=0, ddof=1) / np.sqrt(len(seen))).tolist()
            asked = PROMISES.get(case.promise)
            out[name] = {
                "scores": mean[0],
                "differences": mean[1],
                "ranks": mean[2],
                "standard_error": error[1],
                "redrawn": int(seen[:, 3].sum()),
                "warned": int((seen[:, 4] > 0).sum()),
                "promise": asked,
                "kept": None if asked is None else all(asked[0] <= m <= asked[1] for m in mean[:2]) and mean[2] >= 0.95,
            }
            print(name, {k: round(v, 4) if isinstance(v, float) else v for k, v in out[name].items()}, flush=True)
    return {"items": ITEMS, "data_sets": data_sets, "experts": EXPERTS, "per_expert": PER_EXPERT, "cases": out}


def _coverage(r: dict[str, Any]) -> str:
    rows = [
        [
            name,
            f"{100 * c['scores']:.1f}",
            f"{100 * c['differences']:.1f} ± {100 * c['standard_error']:.1f}",
            f"{100 * c['ranks']:.1f}",
            f"{100 * c['promise'][0]:.0f}–{100 * c['promise'][1]:.0f}" if c["promise"] else "none: shown to fail",
            {True: "yes", False: "NO", None: "–"}[c["kept"]],
            c["redrawn"],
            c["warned"],
        ]
        for name, c in r["cases"].items()
    ]
    note = (
        f"Percent of true values inside their 95 % intervals, pooled over {r['items']} items and {r['data_sets']} data "
        f"sets; ± one standard error of the simulation. “Clustered” and “naive” are the same data: "
        f"{r['experts']} experts with a taste of their own, {r['per_expert']} comparisons each (for Plackett–Luce 60 "
        "experts who lean to one kind of items or the other, a list of 15 each), the sandwich clustered by expert "
        "beside the information that takes all outcomes for independent. "
        "Redrawn: data sets refused because no finite estimate exists; warned: those about which the method itself "
        "warned (a bootstrap some of whose draws have no finite estimate)."
    )
    head = ["model and data", "scores", "differences", "ranks", "asked", "kept", "redrawn", "warned"]
    return note + "\n\n" + table(head, rows)


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"coverage": coverage}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {"coverage": _coverage}

if __name__ == "__main__":
    import sys

    only, n = [*sys.argv[1:], "", ""][:2]
    print(_coverage(coverage(only, int(n or DATA_SETS))))
