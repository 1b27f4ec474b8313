"""Learning to rank at full size: every ranker beside LightGBM on two data sets, features joined with experts' ranks.

Neither data set has a validation part. Whatever is chosen, penalties, passes, products of features, trees and leaves,
is chosen by five-fold cross-validation over the queries of the training part; the test part is scored once, by what was
chosen. What was chosen is printed.
"""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import ltr_cost
import ltr_yahoo
import numpy as np
from measure import CACHE, peer
from render import table
from studies import DATA

import concordant as cc
from concordant.arrays import Floats, Ints
from concordant.data.index import Slots
from concordant.errors import ConcordantWarning, DataError
from concordant.features.expert_features import dense_potentials, potentials, weight_blocks
from concordant.metrics import significance
from concordant_papers import pmop as study
from concordant_papers import published as printed
from concordant_papers.pmop import Part

METRICS = ("err", "ndcg@1", "ndcg@5", "ndcg@10")
SELECT = study.SELECT
BASELINE = "PMOP, full"
RIVALS = ("ListMLE", "RankNet")
FOLDS = study.FOLDS
SEED = 7
ALPHA = 0.05
THRESHOLD = study.CORRELATION
# Of the products of features the most correlated are kept, so many.
PRODUCTS = (30, 100, 300, 1000)
FIRST, SECOND, CHOSEN = "first order", f"second order, |r| > {THRESHOLD}", "second order, number chosen"
TREES = (20, 50, 100, 200, 300)
LEAVES = {
    "num_leaves": (7, 15, 31),
    "min_data_in_leaf": (20, 50),
    "learning_rate": (0.05,),
    "min_sum_hessian_in_leaf": (1e-3, 5.0),
}
# What of the example's file is about the model, and not about files and machines.
_MODEL = (
    "objective",
    "num_trees",
    "learning_rate",
    "num_leaves",
    "max_bin",
    "feature_fraction",
    "bagging_freq",
    "bagging_fraction",
    "min_data_in_leaf",
    "min_sum_hessian_in_leaf",
)
_FIXED = {"seed": SEED, "deterministic": True, "force_row_wise": True, "num_threads": 1, "verbosity": -1}


class Way(NamedTuple):
    """A ranker of the table, and among which penalties and up to how many passes it is chosen."""

    make: Callable[..., Any]
    penalties: tuple[float, ...]
    # The published protocol: a hundred steps at most.
    passes: int = study.STEPS
    # Whether a pass goes instance by instance; then fewer numbers of products are tried too.
    slow: bool = False


_PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4, 0.0)
_FEW_PENALTIES = (0.1, 0.01, 0.001, 0.0)


def ways() -> dict[str, Way]:
    """Return the rankers; those that go instance by instance are given fewer penalties, as a pass takes longer."""
    return {
        "PMOP, full": Way(cc.PMOP, _PENALTIES),
        "PMOP, exact": Way(partial(cc.PMOP, inference="exact"), _PENALTIES),
        "PMOP, Gibbs": Way(partial(cc.PMOP, inference="gibbs"), _FEW_PENALTIES, slow=True),
        "PMOP, MH": Way(partial(cc.PMOP, inference="mh"), _FEW_PENALTIES, slow=True),
        "RankNet": Way(cc.RankNet, _PENALTIES),
        "RankSVM": Way(cc.RankSVM, _PENALTIES),
        "RankRegress": Way(cc.RankRegress, _PENALTIES),
        "ListMLE": Way(cc.ListMLE, _PENALTIES),
        "PairTies, Davidson": Way(partial(cc.PairTies, model="davidson"), _PENALTIES),
        "PairTies, Rao-Kupper": Way(partial(cc.PairTies, model="rao-kupper"), _PENALTIES),
        "LambdaRank": Way(cc.LambdaRank, _FEW_PENALTIES, slow=True),
    }


class Found(NamedTuple):
    """What became of a row."""

    evaluation: Any
    chosen: dict[str, Any]
    held_out: float | None
    seconds: float


def _evaluated(scored: cc.Consensus, labels: cc.Labels) -> Any:
    return cc.evaluate(scored, labels, list(METRICS), convention="paper")


def _value(slots: Slots, score: Floats, labels: cc.Labels) -> float:
    found = cc.evaluate(cc.Consensus.from_codes(slots, score), labels, [SELECT], convention="paper")
    return float(found.mean[SELECT])


def folds_of(n: int) -> Ints:
    """Return the fold of every instance."""
    fold: Ints = np.random.default_rng(SEED).permutation(n) % FOLDS
    return fold


def _log(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


# Our rankers.


def first_order(way: Way, train: Part, test: Part) -> Found:
    """Return a ranker on the features, its penalty and passes by its own cross-validation."""
    started = time.perf_counter()
    model = way.make(l2=way.penalties, max_iter=way.passes, select=SELECT, cv=FOLDS).fit(*train)
    seconds = time.perf_counter() - started
    info = model.fit_info_
    return Found(_evaluated(model.predict(test.features), test.labels), dict(info.chosen), info.validation, seconds)


def written(way: Way, keep: dict[str, Any], train: Part, others: Sequence[cc.Features]) -> list[cc.Features]:
    """Return the products that a ranker would choose on the training part as columns, for it and for other parts.

    The rankers themselves never write products down; where there are few rows and hundreds of fits, columns are
    quicker.
    """
    model = way.make(second_order=True, max_iter=1, **keep).fit(*train)
    a, b = model.products_.T
    out = []
    for part in (train.features, *others):
        Z = (part.X - model.centre_) * model.scale_
        out.append(cc.Features.from_codes(part.slots, Z[:, a] * Z[:, b]))
    return out


def second_order(way: Way, keeps: Iterable[dict[str, Any]], train: Part, test: Part) -> Found | str:
    """Return a ranker on products of features; which, its penalty and its passes by cross-validation.

    Products are chosen anew without each fold, so that what is held out has no part in it. The model that is evaluated
    is fitted to the whole training part with the number of products, the penalty and the passes found. Where a rule
    leaves no product in some fold, what is returned is what the ranker says to that.
    """
    started = time.perf_counter()
    refused = ""
    best: tuple[float, dict[str, Any], float, int] | None = None
    for keep in keeps:
        try:
            curves = held_out_curves(way, keep, train)
        except DataError as error:
            refused = str(error)
            continue
        for l2, curve in curves.items():
            at = int(curve.argmax())
            if best is None or curve[at] > best[0] + 1e-12:
                best = (float(curve[at]), keep, l2, at + 1)
    if best is None:
        return refused
    value, keep, l2, steps = best
    model = way.make(second_order=True, l2=l2, max_iter=steps, **keep).fit(*train)
    seconds = time.perf_counter() - started
    chosen = {"products": len(model.products_), "l2": l2, "passes": steps}
    return Found(_evaluated(model.predict(test.features), test.labels), chosen, value, seconds)


def held_out_curves(way: Way, keep: dict[str, Any], train: Part) -> dict[float, Floats]:
    """Return for every other penalty the held-out value after each pass, over all folds; who has stopped stays."""
    fold = folds_of(len(train.features))
    traces: dict[float, list[tuple[int, list[float]]]] = {}
    for f in range(FOLDS):
        learned = Part(train.features[fold != f], train.labels[fold != f])
        held = Part(train.features[fold == f], train.labels[fold == f])
        own, other = written(way, keep, learned, [held.features])
        for l2 in way.penalties[::2]:
            model = way.make(l2=l2, max_iter=way.passes, select=SELECT)
            model.fit(own, learned.labels, validation=(other, held.labels))
            traces.setdefault(l2, []).append((len(held.features), model.fit_info_.trace))
    longest = {l2: max(len(trace) for _, trace in of) for l2, of in traces.items()}
    return {
        l2: np.sum([n * np.array([*t, *[t[-1]] * (longest[l2] - len(t))]) for n, t in of], axis=0) / len(fold)
        for l2, of in traces.items()
    }


# LightGBM.


def example_parameters() -> dict[str, Any]:
    """Return the parameters of LightGBM's own example, read where they lie."""
    text = (DATA / "lightgbm-lambdarank" / "train.conf").read_text()
    given = dict(re.findall(r"^(\w+) *= *(\S+)", text, re.MULTILINE))
    number = {name: float(given[name]) for name in _MODEL if name != "objective"}
    return {
        "objective": given["objective"],
        **{n: int(v) if v == int(v) and n != "learning_rate" else v for n, v in number.items()},
    }


def lightgbm(
    name: str, train: Part, test: Part, grid: dict[str, Sequence[Any]] | None, trees: Sequence[int] = TREES
) -> Found:
    """Return LightGBM's lambdarank: as in its example, or with trees and leaves by cross-validation."""
    started = time.perf_counter()
    CACHE.mkdir(parents=True, exist_ok=True)
    data, out = CACHE / f"ltr-{name}.npz", CACHE / f"ltr-{name}.npy"
    fold = folds_of(len(train.features))
    label = _labels(train)
    np.savez(data, X=train.features.X, y=label, sizes=train.features.slots.sizes, fold=fold, X_test=test.features.X)
    params = example_parameters()
    chosen: dict[str, Any] = {"trees": params.pop("num_trees")}
    value = None
    if grid is not None:
        candidates = [params | dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        given = [c | _FIXED for c in candidates]
        peer("lightgbm_held_out", data=str(data), candidates=given, trees=list(trees), out=str(out))
        found = np.load(out)
        values = np.array([[_value(train.features.slots, s, train.labels) for s in of] for of in found])
        c, t = np.unravel_index(int(values.argmax()), values.shape)
        value, params = float(values[c, t]), candidates[c]
        chosen = {"trees": trees[t], **{n: params[n] for n in grid}}
    answer, _ = peer("lightgbm_rank", data=str(data), params=params | _FIXED, trees=chosen["trees"], out=str(out))
    scored = cc.Consensus.from_codes(test.features.slots, np.load(out))
    seconds = time.perf_counter() - started
    data.unlink()
    out.unlink()
    chosen |= {"version": answer["version"]}
    return Found(_evaluated(scored, test.labels), chosen, value, seconds)


def _labels(part: Part) -> Floats:
    label: Floats = part.labels.align(part.features).label
    return label


# The tables.


def table_of(
    train: Part,
    test: Part,
    rows: dict[str, Way],
    *,
    products: Sequence[int] = PRODUCTS,
    boosted: Callable[[], dict[str, Found]] = dict,
    orders: Sequence[str] = (FIRST, SECOND, CHOSEN),
) -> dict[str, Any]:
    """Return the rows of one data set, by order of the features, with paired tests of the baseline against the rest."""
    trees = boosted()
    keeps = {
        SECOND: [{"min_correlation": THRESHOLD}],
        CHOSEN: [{"min_correlation": 0.0, "max_products": n} for n in products],
    }
    out: dict[str, Any] = {}
    without: dict[str, dict[str, str]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        for order in orders:
            found: dict[str, Found] = {}
            refused: dict[str, str] = {}
            for name, way in rows.items():
                tried = keeps[order][1::2] or keeps[order] if order == CHOSEN and way.slow else keeps.get(order, [])
                one = first_order(way, train, test) if order == FIRST else second_order(way, tried, train, test)
                if isinstance(one, str):
                    refused[name] = one
                    _log(f"{order}, {name}: {one}")
                else:
                    found[name] = one
                    _log(f"{order}, {name}: held out {one.held_out:.4f}, {one.seconds:.0f} s")
            if BASELINE in found:
                out[order] = _tested(found | trees)
            without[order] = refused
    sizes = train.features, test.features
    return {
        "orders": out,
        "without": without,
        "train": {"queries": len(sizes[0]), "documents": sizes[0].n_slots, "features": sizes[0].n_features},
        "test": {"queries": len(sizes[1]), "documents": sizes[1].n_slots},
        "empty": int((np.maximum.reduceat(_labels(test), test.features.slots.offsets[:-1]) <= 0).sum()),
    }


def _tested(found: dict[str, Found]) -> dict[str, Any]:
    comparison = cc.compare({n: f.evaluation for n, f in found.items()}, baseline=BASELINE, tests=["t", "fisher"])
    rows = {}
    for n, (name, f) in enumerate(found.items()):
        rows[name] = {
            "mean": {m: f.evaluation.mean[m] for m in METRICS},
            # From the baseline's side: positive where it is better.
            "baseline_ahead": dict(zip(METRICS, (-comparison.difference[n]).tolist(), strict=True)),
            "p_t": dict(zip(METRICS, comparison.p_values["t"][n].tolist(), strict=True)),
            "p_t_holm": dict(zip(METRICS, comparison.adjusted["t"][n].tolist(), strict=True)),
            "p_fisher_holm": dict(zip(METRICS, comparison.adjusted["fisher"][n].tolist(), strict=True)),
            "chosen": f.chosen,
            "held_out": f.held_out,
            "seconds": f.seconds,
        }
    return rows


def verdict(rows: dict[str, Any]) -> dict[str, Any]:
    """Return whether the baseline is significantly worse than a rival by any metric, corrected or not."""
    out = {}
    for rival in RIVALS:
        if rival not in rows:
            continue
        row = rows[rival]
        behind = [m for m in METRICS if row["baseline_ahead"][m] < 0]
        out[rival] = {
            "worse": [m for m in behind if row["p_t_holm"][m] < ALPHA],
            "worse_uncorrected": [m for m in behind if row["p_t"][m] < ALPHA],
            "better": [m for m in METRICS if m not in behind and row["p_t_holm"][m] < ALPHA],
        }
    return out


def published() -> dict[str, list[str]]:
    """Return the methods of the paper's table by every column, the best first; its data are not to be had."""
    rows = printed.rows(study.TABLE_1)
    columns = [c for c in rows[0] if c != "method"]
    return {c: [r["method"] for r in sorted(rows, key=lambda r: -float(r[c]))] for c in columns}


def tables() -> dict[str, Any]:
    """Rankers on features, and LightGBM: ERR and NDCG on test queries (papers' convention)."""
    if not all((DATA / name).is_dir() for name in study.SETS):
        return {"not_available": " and ".join(study.SETS)}
    # The two share nothing but the machine: one core each.
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(study.SETS, pool.map(lambda name: _apart("tables", name), study.SETS), strict=True))
    return {"sets": found, "published": published()}


def joined() -> dict[str, Any]:
    """MQ2008, fold 1: 46 features, the ranks of 25 experts, and both together."""
    if not all((DATA / name).is_dir() for name in ("MQ2008-ltr46-fold1", "MQ2008-agg")):
        return {"not_available": "MQ2008-ltr46-fold1 and MQ2008-agg"}
    return _apart("joined")


def _apart(study: str, *more: str) -> dict[str, Any]:
    """Return a study from a process of its own: folds are trained side by side, so that one thread each is enough."""
    alone = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "VECLIB_MAXIMUM")}
    return ltr_yahoo.loud([sys.executable, __file__, study, *more], **alone)[0]


def _table(name: str) -> dict[str, Any]:
    train, test = study.parts(str(DATA / name))
    with cc.threads(1):
        out = table_of(train, test, ways(), boosted=lambda: boosted(name, train, test))
    return out | {"verdict": {order: verdict(rows) for order, rows in out["orders"].items()}}


def boosted(name: str, train: Part, test: Part) -> dict[str, Found]:
    """Return the rows of LightGBM."""
    return {
        "LightGBM, example's parameters": lightgbm(name, train, test, None),
        "LightGBM, cross-validated": lightgbm(name, train, test, LEAVES),
    }


# Features and ranks together.


class Joined(NamedTuple):
    """Items with features, the preferences of experts, and labels, over the same slots."""

    features: cc.Features
    preferences: cc.Preferences
    labels: cc.Labels


def joined_rows(features: Path, ranks: Path) -> Joined:
    """Return features and ranks joined by the number of their rows, which are checked to be the same."""
    votes, labels = cc.read_letor(ranks)
    own, again = cc.read_features(features)
    same = (
        votes.instances.tolist() == own.instances.tolist()
        and np.array_equal(votes.slots.offsets, own.slots.offsets)
        and np.array_equal(labels.align(votes).label, again.align(own).label)
    )
    if not same:
        raise SystemExit(f"{features.name} and {ranks.name} do not hold the same queries and labels row by row")
    return Joined(cc.Features.from_codes(votes.slots, own.X, own.names), votes, labels)


VIEWS = ("features", "ranks", "both")
JOINED = ("PMOP, full", "ListMLE", "RankNet", "LambdaRank")


def joined_table(
    train: Joined, test: Joined, rows: dict[str, Way], boost: Callable[[str, Part, Part], Found] | None
) -> dict[str, Any]:
    """Return every method with features alone, ranks alone and both, and paired tests of both against features."""
    found: dict[str, dict[str, Found]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        for name, way in rows.items():
            for view in VIEWS:
                started = time.perf_counter()
                model = way.make(l2=way.penalties, max_iter=way.passes, select=SELECT, cv=FOLDS)
                data, beside = _view(train, view)
                model.fit(data, train.labels, features=beside)
                seconds = time.perf_counter() - started
                data, beside = _view(test, view)
                scored = _evaluated(model.predict(data, features=beside), test.labels)
                info = model.fit_info_
                found.setdefault(name, {})[view] = Found(scored, dict(info.chosen), info.validation, seconds)
                _log(f"{name}, {view}: held out {info.validation:.4f}, {seconds:.0f} s")
    if boost is not None:
        for view in VIEWS:
            found.setdefault("LightGBM, cross-validated", {})[view] = boost(
                view, *(Part(_columns(part, view, train), part.labels) for part in (train, test))
            )
    return _joined_tests(found)


def _view(part: Joined, view: str) -> tuple[Any, cc.Features | None]:
    if view == "features":
        return part.features, None
    return part.preferences, part.features if view == "both" else None


def _columns(part: Joined, view: str, train: Joined) -> cc.Features:
    """Return the columns that our rankers see: features, potentials of the experts, or both."""
    if view == "features":
        return part.features
    blocks = weight_blocks(train.preferences)
    rows = potentials(part.preferences, blocks, blocks.block_of_expert(part.preferences, "LightGBM"), "log")
    X = dense_potentials(rows, blocks)[0]
    return cc.Features.from_codes(
        part.preferences.slots, X if view == "ranks" else np.concatenate([X, part.features.X], axis=1)
    )


def _joined_tests(found: dict[str, dict[str, Found]]) -> dict[str, Any]:
    out: dict[str, Any] = {
        name: {
            view: {
                "mean": {m: f.evaluation.mean[m] for m in METRICS},
                "chosen": f.chosen,
                "held_out": f.held_out,
                "seconds": f.seconds,
            }
            for view, f in of.items()
        }
        for name, of in found.items()
    }
    for metric in METRICS:
        gaps = {
            n: of["both"].evaluation.values[metric] - of["features"].evaluation.values[metric]
            for n, of in found.items()
        }
        p = [significance.paired_t_test(gap).p_value for gap in gaps.values()]
        for name, gap, own, holm in zip(gaps, gaps.values(), p, significance.adjust(p), strict=True):
            test = {"gain": float(gap.mean()), "p_t": own, "p_t_holm": float(holm)}
            out[name].setdefault("both_over_features", {})[metric] = test
    return out


def _joined() -> dict[str, Any]:
    features, ranks = DATA / "MQ2008-ltr46-fold1", DATA / "MQ2008-agg" / "Fold1"
    train, test = (joined_rows(features / f"{part}.npy", ranks / f"{part}.txt") for part in ("train", "test"))
    every = ways()
    rows = {name: every[name] for name in JOINED}
    return {
        "train": len(train.labels),
        "test": len(test.labels),
        "rows": joined_table(train, test, rows, lambda view, a, b: lightgbm(f"joined-{view}", a, b, LEAVES)),
    }


# The page.


def _marked(row: dict[str, Any], metric: str) -> str:
    """Return a mean with a mark where the baseline differs: < the row is worse than it, > better."""
    sign = ""
    if row["p_t_holm"][metric] < ALPHA:
        sign = " <" if row["baseline_ahead"][metric] > 0 else " >"
    return f"{row['mean'][metric]:.4f}{sign}"


def _words(chosen: dict[str, Any]) -> str:
    words = (f"{n} {v:g}" if isinstance(v, (int, float)) else f"{n} {v}" for n, v in chosen.items() if n != "version")
    return ", ".join(words)


def _render_tables(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    parts = [
        "Means over the test queries in the papers' convention: gain 2^label − 1, discount 1/log2(1 + i), queries "
        "without a relevant document count 0; ERR with the largest label of the set. `<` is significantly worse and "
        f"`>` significantly better than {BASELINE} with the same features: paired t-test over the test queries, Holm's "
        "correction over the rows, 5 percent. Penalties, passes, products, trees and leaves were chosen by five-fold "
        f"cross-validation of {SELECT} inside the training part; the seconds include it.",
    ]
    for name, one in r["sets"].items():
        train, test = one["train"], one["test"]
        parts.append(
            f"**{name}**: {train['queries']} training queries with {train['documents']:,} documents and "
            f"{train['features']} features; {test['queries']} test queries with {test['documents']:,}, {one['empty']} "
            "of them without a relevant document."
        )
        for order, rows in one["orders"].items():
            body = []
            for method, row in rows.items():
                p = " / ".join("–" if method == BASELINE else f"{row['p_t'][m]:.2g}" for m in ("err", SELECT))
                cells = [_marked(row, m) for m in METRICS]
                body.append([method, *cells, p, _words(row["chosen"]), f"{row['seconds']:.0f}"])
            parts += [f"{order[0].upper()}{order[1:]}:"]
            parts += [table(["", *METRICS, f"p of err / {SELECT}", "chosen", "seconds"], body)]
        for order, refused in one["without"].items():
            if refused:
                parts.append(
                    f"{order[0].upper()}{order[1:]}, not available, because no product passes in some fold: "
                    f"{'; '.join(refused)}."
                )
        for order, of in one["verdict"].items():
            said = []
            for rival, v in of.items():
                word = (
                    f"significantly worse than {rival} by {', '.join(v['worse'])}"
                    if v["worse"]
                    else (f"not significantly worse than {rival}")
                )
                if v["worse_uncorrected"] and not v["worse"]:
                    word += f" (without correction by {', '.join(v['worse_uncorrected'])})"
                if v["better"]:
                    word += f" and significantly better by {', '.join(v['better'])}"
                said.append(word)
            parts.append(f"{BASELINE}, {order}: {'; '.join(said)}.")
    head = "On the Yahoo! set, which is not available, the paper orders the methods as follows, best first:"
    orders = [[c.replace("_", ", "), " > ".join(names)] for c, names in r["published"].items()]
    return "\n\n".join([*parts, head, table(["features, metric", "order"], orders)])


def _render_joined(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    body, tests = [], []
    for name, of in r["rows"].items():
        for view in VIEWS:
            row = of[view]
            body.append(
                [
                    name,
                    view,
                    *(f"{row['mean'][m]:.4f}" for m in METRICS),
                    _words(row["chosen"]),
                    f"{row['seconds']:.0f}",
                ]
            )
        cells = []
        for m in METRICS:
            v = of["both_over_features"][m]
            cells.append(f"{v['gain']:+.4f} (p {v['p_t']:.2g}, Holm {v['p_t_holm']:.2g})")
        tests.append([name, *cells])
    return "\n\n".join(
        [
            f"{r['train']} training and {r['test']} test queries, joined by row number after a check that queries and "
            "labels agree; papers' convention as above. Ranks become the potentials of the CRF (log). Chosen by "
            "five-fold cross-validation inside the training part.",
            table(["", "knows", *METRICS, "chosen", "seconds"], body),
            "Gain of both over features alone, paired t-test over the test queries, Holm's correction over the "
            "methods:",
            table(["", *METRICS], tests),
        ]
    )


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "ltr_tables": tables,
    "ltr_joined": joined,
    **ltr_cost.SECTIONS,
    **ltr_yahoo.SECTIONS,
}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {
    "ltr_tables": _render_tables,
    "ltr_joined": _render_joined,
    **ltr_cost.RENDER,
    **ltr_yahoo.RENDER,
}

if __name__ == "__main__":
    print(json.dumps({"tables": _table, "joined": _joined}[sys.argv[1]](*sys.argv[2:])))
