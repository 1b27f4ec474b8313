"""The PMOP paper: learning to rank from grades with ties by ordered partitions, and the cost of each method.

Items of one grade are tied. PMOP models these ties; other methods ignore them or treat them as an order. The published
data (Yahoo!) are not available, so two public sets with grades replace them: claims about orderings can be checked,
numbers cannot. Penalties and passes are chosen by cross-validation inside the training part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import concordant as cc
from concordant.metrics import adjust, paired_t_test
from concordant.ranking.second_order import select_products
from concordant_papers import published
from concordant_papers._arrays import Floats
from concordant_papers.engine import Cell, Setting, Study
from concordant_papers.pages import Claim, Page, Picture, Row, Table

__all__ = ["STUDIES", "parts"]

PAPER = (
    "Truyen, Phung and Venkatesh, Probabilistic models over ordered partitions with application in learning to rank "
    "(arXiv:1009.1690)"
)
TABLE_1, TABLE_2 = "003_table1_yahoo", "003_table2_complexity"
SETS = ("lightgbm-lambdarank", "MQ2008-ltr46-fold1")
SYNTHETIC = "synthetic-grades"
YAHOO = "Yahoo! LTRC"
METRICS = {"ERR": "err", "NDCG@1": "ndcg@1", "NDCG@5": "ndcg@5"}
ORDERS = ("first", "second")
COLUMNS = [f"{order} {metric}" for order in ORDERS for metric in METRICS]
# Products of two features are used if their correlation with the grade is above this, as published.
CORRELATION = 0.15
# The published protocol: a hundred steps at most.
STEPS, FOLDS = 100, 5
SELECT = "ndcg@10"
BASELINE = "PMOP-FD"


class Way(NamedTuple):
    """A row of the table: a method, its parameters, the penalties to choose from, and whether it is stochastic."""

    method: str
    params: Mapping[str, Any] = {}
    penalties: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4, 0.0)
    # Rough seconds of a cross-validation with first-order and second-order features.
    seconds: tuple[float, float] = (8.0, 20.0)
    chance: bool = False
    # Parameters in place of a choice by cross-validation.
    fixed: Mapping[str, Any] = {}


# Methods that go query by query are slower and get fewer penalties to choose from.
_FEW = (0.1, 0.01, 0.001, 0.0)
_LONG = (40.0, 30.0)
# Stochastic rows are slow: their means use at most this many seeds.
SEEDS = 3
WAYS = {
    "Rank Regress": Way("rank-regress"),
    "RankNet": Way("ranknet"),
    "Ranking SVM": Way("ranksvm"),
    "ListMLE": Way("list-mle"),
    "PairTies-D": Way("pair-ties", {"model": "davidson"}),
    "PairTies-RK": Way("pair-ties", {"model": "rao-kupper"}),
    "PMOP-FD": Way("pmop", {"inference": "full"}),
    "PMOP-Gibbs": Way("pmop", {"inference": "gibbs"}, _FEW, _LONG, True),
    "PMOP-MH": Way("pmop", {"inference": "mh"}, _FEW, _LONG, True),
    "PMOP-Exact": Way("pmop", {"inference": "exact"}, _FEW, (20.0, 30.0)),
    "LambdaRank": Way("lambdarank", {}, _FEW, (15.0, 15.0), True),
}
# The published protocol: no penalty and nothing held out; 100 steps of L-BFGS, or 1,000 sampled iterations at 0.1.
_DESCENT: dict[str, Any] = {"l2": 0.0, "max_iter": STEPS, "tol": 0.0}
_SAMPLED: dict[str, Any] = {"l2": 0.0, "max_iter": 1000, "tol": 0.0, "solver": "sgd", "learning_rate": 0.1}
PUBLISHED = ", published protocol"
AS_PUBLISHED = {
    f"{row}{PUBLISHED}": way._replace(
        fixed=_SAMPLED if row in ("PMOP-Gibbs", "PMOP-MH") else _DESCENT,
        seconds=(30.0, 30.0) if way.chance else (3.0, 5.0),
    )
    for row, way in WAYS.items()
    if row not in ("PMOP-Exact", "LambdaRank")
}
ROWS = WAYS | AS_PUBLISHED
PMOP = ("PMOP-FD", "PMOP-Gibbs", "PMOP-MH")


def sets(setting: Setting) -> dict[str, str]:
    """Return the sets that are there, name -> folder."""
    if setting.quick:
        return {SYNTHETIC: SYNTHETIC}
    found = {name: setting.folder(name) for name in SETS}
    return {name: str(folder) for name, folder in found.items() if folder is not None}


class Part(NamedTuple):
    """Items with features, and their grades."""

    features: cc.Features
    labels: cc.Labels


@cache
def parts(folder: str) -> tuple[Part, Part]:
    """Return the training and the test part of a set, read once in a process."""
    if folder == SYNTHETIC:
        features, labels = cc.synthetic.graded_features(80, n_features=6, n_items=(8, 20), noise=0.7, random_state=2)
        train = np.arange(len(features)) < 50
        return Part(features[train], labels[train]), Part(features[~train], labels[~train])
    path = Path(folder)
    if (path / "train.npy").exists():
        return Part(*cc.read_features(path / "train.npy")), Part(*cc.read_features(path / "test.npy"))
    learned = Part(*cc.read_features(path / "rank.train"))
    return learned, Part(*cc.read_features(path / "rank.test", n_features=learned.features.n_features))


@cache
def standardised(folder: str) -> tuple[Part, Part]:
    """Return both parts of a set with features of mean 0 and deviation 1 over the whole training part.

    Methods pass over different queries, so that each would standardise on its own. Constant features are left out.
    """
    train, test = parts(folder)
    mean, spread = train.features.X.mean(axis=0), train.features.X.std(axis=0)
    used = np.flatnonzero(spread > 0)
    X = [(part.features.X[:, used] - mean[used]) / spread[used] for part in (train, test)]
    return _with_features(train, X[0]), _with_features(test, X[1])


@cache
def products(folder: str, correlation: float) -> tuple[Part, Part]:
    """Return both parts of a set with products of two features in place of the features, the same for all methods.

    Products are chosen by their correlation with the grade, and standardised, on the whole training part.
    """
    train, test = standardised(folder)
    found = select_products(train.features.X, train.labels.label, correlation)
    first, second = found.pairs.T
    Z = [part.features.X for part in (train, test)]
    X = [(z[:, first] * z[:, second] - found.centre) * found.scale for z in Z]
    return _with_features(train, X[0]), _with_features(test, X[1])


def _with_features(part: Part, X: Floats) -> Part:
    return Part(cc.Features.from_codes(part.features.slots, X), part.labels)


def _maker(method: str, params: Mapping[str, Any]) -> Callable[..., Any]:
    def make(**more: Any) -> Any:
        return cc.METHODS[method](**params, **more)

    return make


def tested(
    *,
    folder: str,
    method: str,
    params: Mapping[str, Any],
    penalties: Sequence[float],
    second_order: bool,
    correlation: float,
    steps: int,
    folds: int,
    seed: int,
    fixed: Mapping[str, Any],
) -> dict[str, Any]:
    """Return ERR and NDCG of every test query; penalty and passes are chosen inside the training part, or fixed."""
    train, test = products(folder, correlation) if second_order else standardised(folder)
    chosen = {"l2": tuple(penalties), "max_iter": steps, "select": SELECT, "cv": folds}
    model = _maker(method, params)(standardise=False, random_state=seed, **(fixed or chosen)).fit(*train)
    found: Any = cc.evaluate(model.predict(test.features), test.labels, list(METRICS.values()), convention="paper")
    info = model.fit_info_
    return {
        "values": {name: [round(float(v), 12) for v in found.values[m]] for name, m in METRICS.items()},
        "chosen": {name: float(value) for name, value in info.chosen.items()},
        "held_out": None if info.validation is None else float(info.validation),
        "products": train.features.n_features if second_order else 0,
        "features": parts(folder)[0].features.n_features,
        "queries": [len(train.features), len(test.features)],
    }


def _reads(folder: str) -> tuple[Path, ...]:
    return () if folder == SYNTHETIC else (Path(folder),)


def _key(name: str, order: str, row: str, seed: int) -> str:
    return f"{name}/{order} order/{row}/seed {seed}"


def _cells(values: Mapping[str, Any], name: str, order: str, row: str) -> list[Any]:
    """Return the cells of a row, one for each seed."""
    keys = (_key(name, order, row, seed) for seed in range(SEEDS))
    return [values[key] for key in keys if key in values]


def _plan_ties(setting: Setting) -> list[Cell]:
    quick = setting.quick
    return [
        Cell(
            _key(name, order, row, seed),
            tested,
            {
                "folder": folder,
                "method": way.method,
                "params": dict(way.params),
                "penalties": [0.1, 0.0] if quick else list(way.penalties if order == "first" else way.penalties[::2]),
                "second_order": order == "second",
                "correlation": 0.05 if quick else CORRELATION,
                "steps": 15 if quick else STEPS,
                "folds": 2 if quick else FOLDS,
                "seed": seed,
                "fixed": dict(way.fixed) | ({"max_iter": 15} if quick and way.fixed else {}),
            },
            _reads(folder),
            0.5 if quick else way.seconds[order == "second"],
        )
        for name, folder in sets(setting).items()
        for order in ORDERS
        for row, way in ROWS.items()
        for seed in range(min(setting.seeds, SEEDS) if way.chance else 1)
    ]


# row -> column -> test queries.
Values = Mapping[str, Mapping[str, Floats]]


def _values(values: Mapping[str, Any], name: str) -> dict[str, dict[str, Floats]]:
    """Return the values of every test query, seeds averaged."""
    out: dict[str, dict[str, Floats]] = {}
    for row in ROWS:
        for order in ORDERS:
            cells = _cells(values, name, order, row)
            if cells:
                of = {f"{order} {m}": np.mean([c["values"][m] for c in cells], axis=0) for m in METRICS}
                out[row] = out.get(row, {}) | of
    return out


def _errors(values: Mapping[str, Any], name: str, row: str) -> dict[str, float]:
    """Return standard errors over the seeds, where there are several."""
    out = {}
    for order in ORDERS:
        cells = _cells(values, name, order, row)
        if len(cells) > 1:
            for m in METRICS:
                means = [np.mean(c["values"][m]) for c in cells]
                out[f"{order} {m}"] = float(np.std(means, ddof=1) / len(means) ** 0.5)
    return out


def _marks(found: Values) -> dict[str, dict[str, str]]:
    """Return marks of the rows that differ from the baseline, corrected over the rows of a column."""
    out: dict[str, dict[str, str]] = {row: {} for row in found}
    for column in COLUMNS:
        if column not in found.get(BASELINE, {}):
            continue
        rows = [row for row in found if row != BASELINE and column in found[row]]
        gaps = [found[row][column] - found[BASELINE][column] for row in rows]
        for row, p, gap in zip(rows, adjust([paired_t_test(g).p_value for g in gaps]), gaps, strict=True):
            if p < 0.05:
                out[row][column] = " >" if gap.mean() > 0 else " <"
    return out


def _page_ties(setting: Setting, values: Mapping[str, Any]) -> Page:
    tables, claims = [], []
    for name in sets(setting):
        found = _values(values, name)
        if not found:
            continue
        mean = {row: {c: float(v.mean()) for c, v in of.items()} for row, of in found.items()}
        marks = _marks(found)
        rows = [
            Row(
                row,
                mean.get(row, {}),
                errors=_errors(values, name, row),
                marks=marks.get(row, {}),
                why="" if set(mean.get(row, {})) == set(COLUMNS) else "not computed: a part of it failed",
            )
            for row in ROWS
        ]
        tables.append(
            Table(f"{name}-ties", f"{name}: ERR and NDCG of the test part", COLUMNS, rows, 4, _note(values, name))
        )
        tables.append(_chosen_table(values, name))
        claims += _claims(name, found, mean)
    if not setting.quick:
        tables.append(_yahoo())
    return Page(tables, claims)


def _note(values: Mapping[str, Any], name: str) -> str:
    one = next(v for key, v in values.items() if key.startswith(f"{name}/first"))
    kept = next((v["products"] for key, v in values.items() if key.startswith(f"{name}/second")), "no")
    return (
        f"{one['queries'][0]} training and {one['queries'][1]} test queries. First order: {one['features']} features; "
        f"second order: the {kept} products of two features whose correlation with the grade is above the threshold. "
        "They are chosen, and both are standardised, on the whole training part, once for all methods. Gain 2^grade − "
        f"1, discount 1/log2(1 + i). < and > are significantly below and above {BASELINE} with the same features: "
        "paired t-test over the test queries, Holm's correction over the rows, 5 %. Penalty and passes by "
        f"cross-validation of {SELECT.upper()} inside the training part. The published protocol has no penalty, holds "
        "nothing out, and takes 100 steps of L-BFGS, or 1,000 passes at a learning rate of 0.1 where the gradient is "
        f"sampled. ± is the standard error over up to {SEEDS} seeds, for methods with chance."
    )


def _chosen_table(values: Mapping[str, Any], name: str) -> Table:
    columns = [f"{order} {what}" for order in ORDERS for what in ("penalty", "passes", "held out")]
    rows = []
    for row in WAYS:
        ours: dict[str, float] = {}
        for order in ORDERS:
            for cell in _cells(values, name, order, row)[:1]:
                shown = {"penalty": cell["chosen"].get("l2"), "passes": cell["chosen"].get("passes")}
                shown["held out"] = cell["held_out"]
                ours |= {f"{order} {what}": float(v) for what, v in shown.items() if v is not None}
        rows.append(Row(row, ours))
    note = (
        f"Held out: {SELECT.upper()} of the training queries that a fold had left out, of the first seed; products are "
        "those of the whole training part. Some methods learn nothing from queries of one grade and pass them over, "
        "others do not, so that the numbers choose within a row and do not compare rows."
    )
    counts = [column for column in columns if column.endswith("passes")]
    return Table(f"{name}-chosen", f"{name}: what was chosen", columns, rows, 4, note, counts)


def _yahoo() -> Table:
    """Return the published table without our values."""
    rows = []
    for printed in published.rows(TABLE_1):
        theirs = {c: float(printed[c.replace(" ", "_")]) for c in COLUMNS}
        rows.append(Row(printed["method"], {}, theirs, why=f"{YAHOO} is not in the data folder"))
    return Table("yahoo-ties", f"{YAHOO}: as published", COLUMNS, rows, 4, "Its licence does not let it be passed on.")


def _claims(name: str, found: Values, mean: Mapping[str, Mapping[str, float]]) -> list[Claim]:
    """Check the claimed orderings of the published table on one of our sets; a claim holds where both protocols say so.

    Without rows by the published protocol only the others are asked.
    """
    printed = {r["method"]: {c: float(r[c.replace(" ", "_")]) for c in COLUMNS} for r in published.rows(TABLE_1)}
    if any(c not in mean.get(row, {}) for row in printed for c in COLUMNS):
        return [Claim(f"{name}: the order of the published table", None, "a part of it failed")]
    as_published = {row: f"{row}{PUBLISHED}" for row in printed}
    protocols = {"penalties by cross-validation": _stated(printed, found, mean)}
    if all(c in mean.get(row, {}) for row in as_published.values() for c in COLUMNS):
        values = {row: found[own] for row, own in as_published.items()}
        protocols["published protocol"] = _stated(
            printed, values, {row: mean[own] for row, own in as_published.items()}
        )
    out = []
    for claims in zip(*protocols.values(), strict=True):
        told = [
            f"{protocol}, {'holds' if claim.holds else 'does not hold'}: {claim.detail}"
            for protocol, claim in zip(protocols, claims, strict=True)
        ]
        detail = "; ".join(told) if len(told) > 1 else claims[0].detail
        out.append(Claim(f"{name}, {claims[0].text}", all(claim.holds for claim in claims), detail))
    return out


def _stated(
    printed: Mapping[str, Mapping[str, float]], found: Values, mean: Mapping[str, Mapping[str, float]]
) -> list[Claim]:
    """Check what the paper states of its table, by the rows of one protocol."""
    first, second = ([c for c in COLUMNS if c.startswith(order)] for order in ORDERS)
    err = first[0]

    def ordered(by: Mapping[str, Mapping[str, float]], column: str) -> list[str]:
        return sorted(printed, key=lambda row: -by[row][column])

    ours, theirs = ordered(mean, err), ordered(printed, err)
    agree = _agreement([mean[row][err] for row in printed], [printed[row][err] for row in printed])
    apart = min(paired_t_test(found[a][err] - found[b][err]).p_value for n, a in enumerate(PMOP) for b in PMOP[n + 1 :])
    best = {c: ordered(mean, c)[0] for c in second}
    sampled = ("PMOP-Gibbs", "PMOP-MH")
    behind = [(row, c) for row in sampled for c in second[1:] if mean[row][c] > mean["RankNet"][c]]
    return [
        Claim(
            "first order: the three PMOP are above all others by ERR",
            set(ours[: len(PMOP)]) == set(PMOP),
            ", ".join(f"{row} {mean[row][err]:.4f}" for row in ours),
        ),
        Claim(
            "first order: the three PMOP are level by ERR (no two differ significantly)",
            apart >= 0.05,
            ", ".join(f"{row} {mean[row][err]:.4f}" for row in PMOP) + f" (least p = {apart:.2g})",
        ),
        Claim(
            f"first order: by ERR {' > '.join(theirs)}", ours == theirs, f"Kendall's tau with that order {agree:+.2f}"
        ),
        _above("PMOP-FD", "ListMLE", found, mean, first),
        _above("ListMLE", "RankNet", found, mean, first),
        Claim(
            "second order: PMOP-FD is the best in all three columns",
            set(best.values()) == {"PMOP-FD"},
            ", ".join(f"{c.partition(' ')[2]}: {row} {mean[row][c]:.4f}" for c, row in best.items())
            + " (PMOP-FD "
            + ", ".join(f"{mean['PMOP-FD'][c]:.4f}" for c in second)
            + ")",
        ),
        Claim(
            "second order: PMOP-Gibbs and PMOP-MH do not beat RankNet on NDCG",
            not behind,
            ", ".join(
                f"{row} {' and '.join(f'{mean[row][c]:.4f}' for c in second[1:])}" for row in (*sampled, "RankNet")
            ),
        ),
    ]


def _above(a: str, b: str, found: Values, mean: Mapping[str, Mapping[str, float]], columns: Sequence[str]) -> Claim:
    p = {c: paired_t_test(found[a][c] - found[b][c]).p_value for c in columns}
    return Claim(
        f"first order: {a} is above {b} in all three columns",
        all(mean[a][c] > mean[b][c] for c in columns),
        ", ".join(f"{c.partition(' ')[2]} {mean[a][c] - mean[b][c]:+.4f} (p = {p[c]:.2g})" for c in columns),
    )


def _agreement(a: Sequence[float], b: Sequence[float]) -> float:
    from scipy.stats import kendalltau

    return float(kendalltau(a, b).statistic)


# What it costs.

# Methods that the paper calls quadratic and that a sum or a sort computes faster.
QUICKER = ("Rank Regress", "Ranking SVM")
QUADRATIC = ("RankNet", "PairTies-D", "PairTies-RK")
_SIZES = (2_000, 8_000, 32_000, 128_000)
_FEWER = (2_000, 4_000, 8_000, 16_000, 32_000)
_FEWEST = (100, 200, 400, 800, 1_600)
_FEATURES, _TIMED_STEPS = 10, 10


def _sizes(row: str, quick: bool) -> tuple[int, ...]:
    if row == "PMOP-Exact":
        return (50, 100, 200) if quick else _FEWEST
    if row in (*QUADRATIC, "LambdaRank"):
        return (1_000, 2_000, 4_000) if quick else _FEWER
    return (4_000, 16_000, 64_000) if quick else _SIZES


def timed(*, method: str, params: Mapping[str, Any], sizes: Sequence[int], steps: int, repeats: int) -> dict[str, Any]:
    """Return the seconds of a training step on one query of N items, for every N; the fastest fit counts."""
    seconds = []
    for n in sizes:
        train = cc.synthetic.graded_features(1, n_features=_FEATURES, n_items=[n], random_state=n)
        took = []
        # The first fit compiles and is not timed.
        for turn in range(repeats + 1):
            started = time.perf_counter()
            model = _maker(method, params)(l2=0.01, max_iter=steps, tol=0.0).fit(*train)
            if turn:
                took.append((time.perf_counter() - started) / max(model.fit_info_.n_iter, 1))
        seconds.append(min(took))
    return {"sizes": list(sizes), "seconds": seconds}


def trained(*, folder: str, method: str, params: Mapping[str, Any], steps: int, repeats: int) -> dict[str, Any]:
    """Return the seconds of a whole training as published: no penalty, at most a hundred steps."""
    train, _ = parts(folder)
    took = []
    steps_taken = 0
    for _ in range(repeats + 1):
        started = time.perf_counter()
        model = _maker(method, params)(max_iter=steps).fit(*train)
        took.append(time.perf_counter() - started)
        steps_taken = int(model.fit_info_.n_iter)
    return {"seconds": min(took[1:]), "steps": steps_taken}


def _plan_time(setting: Setting) -> list[Cell]:
    out = []
    repeats = 1 if setting.quick else 3
    for row, way in WAYS.items():
        given = {"method": way.method, "params": dict(way.params), "repeats": repeats}
        sizes = list(_sizes(row, setting.quick))
        steps = 3 if setting.quick else _TIMED_STEPS
        out.append(Cell(f"growth/{row}", timed, given | {"sizes": sizes, "steps": steps}, seconds=5.0, alone=True))
        for name, folder in sets(setting).items():
            more = {"folder": folder, "steps": 20 if setting.quick else STEPS}
            out.append(Cell(f"training/{name}/{row}", trained, given | more, _reads(folder), 5.0, alone=True))
    return out


def _slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the slope of log seconds against log size over the largest sizes, where fixed costs matter least."""
    x, y = np.log(np.array(sizes[-3:])), np.log(np.array(seconds[-3:]))
    return float(np.polyfit(x, y, 1)[0])


def _complexity(row: str) -> str:
    """Return the complexity that the paper gives for a method, "" if it gives none."""
    for printed in published.rows(TABLE_2):
        models = printed["models"]
        if row in models or (row.startswith("PMOP") and row != "PMOP-Exact" and models.startswith("PMOP")):
            return printed["complexity_per_query"]
    return ""


def _page_time(setting: Setting, values: Mapping[str, Any]) -> Page:
    growth = {row: values[f"growth/{row}"] for row in WAYS if f"growth/{row}" in values}
    slopes = {row: _slope(v["sizes"], v["seconds"]) for row, v in growth.items()}
    tables, claims = [], []
    there = [name for name in sets(setting) if any(key.startswith(f"training/{name}/") for key in values)]
    if there:
        rows = []
        for row in WAYS:
            some = {name: values.get(f"training/{name}/{row}") for name in there}
            ours: dict[str, float] = {}
            for name, v in some.items():
                if v is not None:
                    ours |= {f"{name}, s": v["seconds"], f"{name}, steps": float(v["steps"])}
            rows.append(Row(row, ours, why="" if ours else "not computed: it failed"))
        columns = [f"{name}, {what}" for name in there for what in ("s", "steps")]
        note = (
            f"First order, no penalty, {STEPS} steps or passes at most, one thread; the quickest of three. The methods "
            "stop by their own rules, so that they take different numbers of steps."
        )
        counts = [f"{name}, steps" for name in there]
        tables.append(Table("ltr-training-time", "Seconds of training", columns, rows, 3, note, counts))
    if growth:
        sizes = sorted({n for v in growth.values() for n in v["sizes"]})
        rows = [
            Row(
                f"{row}: {_complexity(row) or 'not in the paper'}",
                {f"{n:,}": 1e3 * s for n, s in zip(v["sizes"], v["seconds"], strict=True)} | {"slope": slopes[row]},
            )
            for row, v in growth.items()
        ]
        note = (
            f"Milliseconds of a step on one query of N items with {_FEATURES} features and five grades, one thread. "
            "The slope is that of log time against log N over the three largest sizes; 1 is linear, 2 quadratic. "
            "Beside the names stands what the paper says a query costs. Rank Regress is a sum here and Ranking SVM a "
            "sort; LambdaRank pairs a sample of long lists; PMOP-Exact sums over all subsets."
        )
        tables.append(
            Table("ltr-growth", "A step as a query grows", [*(f"{n:,}" for n in sizes), "slope"], rows, 2, note)
        )
        claims = _time_claims(growth, slopes)
    pictures = []
    if growth:
        curves = {row: (v["sizes"], v["seconds"]) for row, v in growth.items()}

        def draw(ax: Any) -> None:
            cc.plots.cost_curve(curves, xlabel="items of the query", ylabel="seconds of a step", ax=ax)

        pictures.append(
            Picture("ltr-growth", "Seconds of a training step against the items of a query", draw, (8.0, 5.0))
        )
    return Page(tables, claims, pictures)


def _time_claims(growth: Mapping[str, Any], slopes: Mapping[str, float]) -> list[Claim]:
    linear = {row: slopes[row] for row in ("PMOP-FD", "ListMLE") if row in slopes}
    quadratic = {row: slopes[row] for row in QUADRATIC if row in slopes}
    quicker = {row: slopes[row] for row in QUICKER if row in slopes}

    def said(of: Mapping[str, float]) -> str:
        return ", ".join(f"{row} {slope:.2f}" for row, slope in of.items())

    claims = [
        Claim(
            "PMOP and ListMLE cost O(N F): slopes of at most 1.2", all(s <= 1.2 for s in linear.values()), said(linear)
        ),
        Claim(
            "pairwise methods cost O(N²): slopes of at least 1.6",
            all(s >= 1.6 for s in quadratic.values()),
            said(quadratic),
        ),
        Claim(
            "Rank Regress and Ranking SVM cost O(N²) as well: slopes of at least 1.6",
            all(s >= 1.6 for s in quicker.values()),
            said(quicker) + "; here one is a running sum and the other a sort",
        ),
    ]
    at = {
        row: dict(zip(growth[row]["sizes"], growth[row]["seconds"], strict=True))
        for row in ("PMOP-FD", *QUADRATIC)
        if row in growth
    }
    common = sorted(set.intersection(*(set(of) for of in at.values()))) if len(at) > 1 and "PMOP-FD" in at else []
    if common:
        n = common[-1]
        times = {row: at[row][n] / at["PMOP-FD"][n] for row in at if row != "PMOP-FD"}
        claims.append(
            Claim(
                f"PMOP-FD is faster than pairwise methods on a query of {n:,} items",
                min(times.values()) > 1,
                ", ".join(f"{row} takes {t:,.0f} times as long" for row, t in times.items()),
                ours=True,
            )
        )
    return claims


STUDIES = [
    Study(
        "ltr-ties",
        f"{PAPER}, table 1",
        "Learning to rank from grades with ties: all methods, first and second order",
        SETS,
        _plan_ties,
        _page_ties,
    ),
    Study(
        "ltr-time",
        f"{PAPER}, table 2",
        "Training time of every learning-to-rank method, and how it grows",
        SETS,
        _plan_time,
        _page_time,
    ),
]
