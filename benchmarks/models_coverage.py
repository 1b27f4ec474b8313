"""Do the intervals hold what they promise: every model on 500 data sets of every kind, at its defaults first.

What the data are and what the truth is, is in coverage_data.py. A cell is a model with its settings on one kind of
data; cells that are finished are kept while the source stays as it is, so that a run that was broken off goes on.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import count
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from coverage_data import SEED, TRUTHS, Data, Floats, Lists, Votes
from render import table

import concordant as cc
from concordant.errors import ConcordantWarning, NoFiniteEstimateError

DATA_SETS = 500
# Asked of scores and differences where there is enough to go by, and where not; of the best item and of a stand-out; of
# rank ranges. The named settings of clusters and those shown to fail have other promises, or none.
ENOUGH, FEW, BEST, RANKS = (0.93, 0.97), (0.93, 1.0), (0.90, 1.0), (0.95, 0.995)
# Why a cell does not keep its promise, by how its name begins and what it holds.
_ADHERENCE = (
    "the adherence is learned from one or eight instances and taken as known, which draws the scores apart; the "
    "library warns of it below 50 instances"
)
_AVERAGE = (
    "MPM takes an item that a list leaves out for an average one, so that a newcomer's score hardly varies; its error "
    "is taken from the other items, wider than it need be"
)
_THREE = "three lists of ten items: the range is nearly all ranks"
WHY = {
    ("Plackett–Luce, adherence", ""): _ADHERENCE,
    ("MPM", "of 100 lists"): _AVERAGE,
    ("MPM", "votes by"): _AVERAGE,
    ("Bradley–Terry", "3 rankings"): _THREE,
}


def _why(name: str) -> str:
    """Return why a cell does not keep its promise; empty where nothing is known."""
    return next((why for (start, part), why in WHY.items() if name.startswith(start) and part in name), "")


MODELS: dict[str, tuple[str, type[cc.Aggregator], dict[str, Any]]] = {
    "Bradley–Terry": ("bt", cc.BradleyTerry, {}),
    "Bradley–Terry, reliability": ("bt-judges", cc.BradleyTerry, {"reliability": True}),
    "Plackett–Luce": ("pl", cc.PlackettLuce, {}),
    "Plackett–Luce, adherence": ("pl-adherence", cc.PlackettLuce, {"adherence": True}),
    "MPM": ("mpm", cc.MPM, {}),
}
BT, JUDGES, PL, ADHERENCE, MPM = MODELS
NAMED = "Named settings"


class Cell(NamedTuple):
    """A model with its settings on data of one kind."""

    group: str
    model: str
    data: Data
    settings: dict[str, Any]
    # Which truth, where the settings make it another one than that of the model.
    estimand: str = ""
    promised: bool = True

    def method(self) -> cc.Aggregator:
        """Return the method as set."""
        _, kind, given = MODELS[self.model]
        return kind(**given, **self.settings)


@cache
def cells() -> dict[str, Cell]:
    """Return every cell by its name."""
    out: dict[str, Cell] = {}

    def add(group: str, models: Iterable[str], said: str, data: Data, **other: Any) -> None:
        settings = other.pop("settings", {})
        named = "".join(f", {key}={value!r}" for key, value in settings.items())
        for model in models:
            name = f"{model}{named}: {said}"
            if name in out:
                raise SystemExit(f"two cells are called {name}")
            out[name] = Cell(group, model, data, settings, **other)

    group = "Comparisons without experts"
    for n in (6, 12, 30, 100):
        add(group, [BT], f"{n} comparisons per item", Votes(per_item=n))
    for n in (12, 30, 100):
        add(group, [BT], f"{n} comparisons per item, ties", Votes(per_item=n, law="davidson"))
    for n in (6, 12, 30, 100):
        add(group, [MPM], f"{n} preferences per item by its own law", Votes(per_item=n, law="multinomial"))
    add(group, [MPM], "30 comparisons per item", Votes(per_item=30))
    add(group, [MPM], "30 comparisons per item, ties", Votes(per_item=30, law="davidson"))

    group = "Comparisons by judges who see the same"
    for judges in (3, 5, 8, 40, 200):
        models = [BT, MPM, *([JUDGES] if judges in (5, 40) else [])]
        add(group, models, f"{judges} judges, 60 comparisons per item", Votes(per_item=60, judges=judges))
    add(group, [BT], "40 judges, 60 comparisons per item, ties", Votes(per_item=60, judges=40, law="davidson"))
    add(
        group,
        [MPM],
        "40 judges, 60 preferences per item by its own law",
        Votes(per_item=60, judges=40, law="multinomial"),
    )

    group = "Comparisons by judges with tastes of their own"
    for judges in (3, 5, 8, 40, 200):
        models = [BT, MPM, *([JUDGES] if judges in (8, 40) else [])]
        data = Votes(per_item=30 if judges < 10 else 100, judges=judges, taste=1.0)
        add(group, models, f"{judges} judges, {data.per_item} comparisons per item, tastes", data)
    add(
        group,
        [MPM],
        "40 judges, 100 preferences per item by its own law, tastes",
        Votes(per_item=100, judges=40, taste=1.0, law="multinomial"),
    )

    group = "Comparisons, three in ten judges bad"
    for habit, does in (("coin", "flip coins"), ("left", "always choose left")):
        data = Votes(per_item=100, judges=40, bad=0.3, habit=habit)
        add(group, [BT, JUDGES, MPM], f"12 of 40 judges {does}, 100 comparisons per item", data)
    add(
        group,
        [MPM],
        "12 of 40 judges draw at random, 100 preferences per item by its own law",
        Votes(per_item=100, judges=40, bad=0.3, law="multinomial"),
    )

    lists = [PL, BT, MPM]
    group = "Complete rankings"
    for n in (3, 5, 10, 30, 100):
        add(group, lists, f"{n} rankings of 10 items", Lists(items=10, lists=n, length=10))
    for instances in (8, 60):
        said = f"12 experts rank 10 items in each of {instances} instances"
        several = Lists(items=10, lists=12, length=10, instances=instances)
        add(group, [ADHERENCE, MPM], said, several)
        add(group, [ADHERENCE, MPM], f"{said}, 3 experts at random", replace(several, bad=0.25))

    group = "Partial lists"
    add(group, lists, "60 lists of 4 of 10 items, N(0, 1)", Lists(items=10, lists=60, length=4, spread=1.0))
    add(group, lists, "120 lists of 5 of 20", Lists(lists=120, length=5))
    add(group, lists, "10 lists of 10 of 20", Lists(lists=10, length=10))
    add(group, [*lists, ADHERENCE], "60 lists of 10 of 20", Lists(lists=60, length=10))
    three_in_ten = Lists(lists=60, length=10, bad=0.3)
    add(group, [*lists, ADHERENCE], "60 lists of 10 of 20, 18 of them in random order", three_in_ten)
    add(group, lists, "top 5 of 20, 60 lists", Lists(lists=60, length=20, top=5))
    add(group, lists, "60 experts grade 10 of 20 from 1 to 5", Lists(lists=60, length=10, grades=True))

    group = "Lists of experts who lean"
    for n in (5, 10, 60):
        add(group, lists, f"{n} lists of 15 of 20, leaning", Lists(lists=n, length=15, lean=2.0))

    group = "Newcomers in lists"
    for n in (1, 2, 3, 5, 10):
        models = [*lists, *([ADHERENCE] if n == 3 else [])]
        add(group, models, f"in {n} of 100 lists of 8 of 21", Lists(items=21, lists=100, length=8, newcomer=n))
    for n in (2, 5, 10):
        data = Lists(items=21, lists=100, length=8, newcomer=n, lean=1.0)
        add(group, lists, f"in {n} of 100 lists of 8 of 21, leaning", data)

    group = "Newcomers in comparisons"
    for taste in (0.0, 1.0):
        for votes, judges in ((6, 1), (6, 2), (6, 3), (6, 5), (24, 1), (24, 2), (24, 3), (24, 5), (24, 10)):
            data = Votes(items=21, per_item=100, judges=40, taste=taste, newcomer=(votes, judges))
            models = [BT, MPM, *([JUDGES] if votes == 24 and judges in (1, 3) and not taste else [])]
            by = f"{votes} votes by {judges} judge{'s' if judges > 1 else ''}{', tastes' if taste else ''}"
            add(group, models, by, data)

    group = "A stand-out among 12 items"
    for n in (12, 30):
        add(group, [BT], f"{n} comparisons per item, a stand-out", Votes(items=12, per_item=n, stand_out=True))
    for taste in (0.0, 1.0):
        said = f"40 judges, 60 comparisons per item{', tastes' if taste else ''}, a stand-out"
        add(group, [BT, MPM], said, Votes(items=12, per_item=60, judges=40, taste=taste, stand_out=True))
    for n, length in ((10, 12), (30, 12), (60, 4)):
        add(group, lists, f"{n} lists of {length} of 12, a stand-out", Lists(12, n, length, stand_out=True))

    group = NAMED
    for n in (6, 12, 30, 100):
        add(group, [BT], f"{n} comparisons per item", Votes(per_item=n), settings={"prior": 0})
    own = {"prior": 0}
    for ties in ("davidson", "rao-kupper"):
        for n in (30, 100):
            data = Votes(per_item=n, law=ties)
            add(group, [BT], f"{n} comparisons per item, ties", data, settings={"prior": 0, "ties": ties})
    boot = {"prior": 0, "uncertainty": "bootstrap"}
    naive = {"prior": 0, "uncertainty": "information"}
    add(group, [BT], "100 comparisons per item", Votes(per_item=100), settings=boot)
    add(group, [BT], "100 comparisons per item", Votes(per_item=100), settings={"uncertainty": "bootstrap"})
    for n in (30, 100):
        data = Votes(per_item=n, law="multinomial")
        add(group, [MPM], f"{n} preferences per item by its own law", data, settings={"adherence": "none"})
    add(group, [PL], "60 lists of 4 of 10 items, N(0, 1)", Lists(10, 60, 4, spread=1.0), settings=own)
    for settings in (own, naive, boot, {"uncertainty": "information"}, {"uncertainty": "bootstrap"}):
        add(group, [PL], "120 lists of 5 of 20", Lists(lists=120, length=5), settings=settings)
    for ties in ("plain", "davidson", "rao-kupper"):
        data = Votes(per_item=200, judges=40, taste=1.0, law=ties)
        said = f"40 judges, 200 comparisons per item, tastes{'' if ties == 'plain' else ', ties'}"
        named = own if ties == "plain" else {**own, "ties": ties}
        add(group, [BT], said, data, settings=named)
        add(group, [BT], said, data, settings={**named, "uncertainty": "information"}, promised=False)
        if ties == "plain":
            add(group, [BT], said, data, settings=boot)
    data = Votes(per_item=200, judges=40, taste=1.0, law="multinomial")
    said = "40 judges, 200 preferences per item by its own law, tastes"
    plain = {"adherence": "none"}
    add(group, [MPM], said, data, settings=plain)
    naively = {**plain, "uncertainty": "information"}
    add(group, [MPM], said, data, settings=naively, promised=False)
    add(group, [PL], "60 lists of 15 of 20, leaning", Lists(lists=60, length=15, lean=2.0), settings=own)
    add(
        group,
        [PL],
        "60 lists of 15 of 20, leaning",
        Lists(lists=60, length=15, lean=2.0),
        settings=naive,
        promised=False,
    )
    pairs = {"prior": 0, "transform": "binary"}
    add(group, [BT], "60 lists of 10 of 20", Lists(lists=60, length=10), settings=pairs)
    pairs = {**pairs, "uncertainty": "information"}
    add(group, [BT], "60 lists of 10 of 20", Lists(lists=60, length=10), settings=pairs, promised=False)
    unknown = {"missing": "unknown"}
    add(
        group, [PL], "top 5 of 20, 60 lists", Lists(lists=60, length=20, top=5), settings=unknown, estimand="pl-unknown"
    )
    for model in lists:
        given = {"adherence": "none"} if model == MPM else own
        add(group, [model], "in 3 of 100 lists of 8 of 21", Lists(21, 100, 8, newcomer=3), settings=given)
    # What used to be the defaults.
    heavy = {"prior": "published"}
    counted = {**heavy, "transform": "count"}
    few = Lists(items=10, lists=60, length=4, spread=1.0)
    add(group, [PL], "60 lists of 4 of 10 items, N(0, 1)", few, settings=heavy, promised=False)
    add(group, [BT], "60 lists of 4 of 10 items, N(0, 1)", few, settings=counted, promised=False)
    alone = {"adherence": "learned"}
    for judges in (40, 200):
        data = Votes(per_item=60, judges=judges)
        add(group, [MPM], f"{judges} judges, 60 comparisons per item", data, settings=alone, promised=False)
    for uncertainty in ("information", "bootstrap"):
        data = Votes(items=21, per_item=100, judges=40, newcomer=(24, 3))
        add(group, [BT], "24 votes by 3 judges", data, settings={"uncertainty": uncertainty})
    return out


class Seen(NamedTuple):
    """What a model said of one data set, all arrays over its items."""

    number: int
    redrawn: int
    warned: tuple[str, ...]
    score: Floats
    lower: Floats
    upper: Floats
    rank_lower: Floats
    rank_upper: Floats
    # Of some pairs of items, whether the interval of the difference holds the true one; NaN where there is none.
    differences: Floats


def observe(name: str, number: int, truth: Floats) -> Seen:
    """Return what the model of a cell says of the data set of this number, whose truth has one row per instance.

    A data set without a finite estimate (an item that won or lost every comparison, without a prior) is drawn again.
    """
    cell = cells()[name]
    scores = cell.data.scores(number % TRUTHS)
    for attempt in count():
        data = cell.data.draw(np.random.default_rng([SEED, number, attempt]), scores)
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                found = cell.method().fit_predict(data)
            break
        except NoFiniteEstimateError:
            continue
    if found.items.tolist() != cell.data.names or found.lower is None:
        raise SystemExit(f"{name}: the answer has other items than the data, or no intervals at all")
    return Seen(
        number,
        attempt,
        tuple(sorted({w.category.__name__ for w in said if issubclass(w.category, ConcordantWarning)})),
        found.score,
        found.lower,
        found.upper,
        found.rank_lower,
        found.rank_upper,
        _differences(found, truth),
    )


def _differences(found: cc.Consensus, truth: Floats) -> Floats:
    """Return whether true differences lie in their intervals, for pairs in which every item is twice."""
    items, held = truth.shape[1], []
    for q, row in enumerate(truth):
        for shift in (1, items // 2 - 1):
            for i in range(items):
                j = (i + shift) % items
                gap = found.difference(f"i{i}", f"i{j}", f"q{q}")
                held.append(gap.lower <= row[i] - row[j] <= gap.upper if np.isfinite(gap.lower) else np.nan)
    return np.array(held, dtype=np.float64)


def _observe_all(name: str, numbers: range, truths: list[Floats]) -> list[Seen]:
    return [observe(name, n, truths[n % TRUTHS]) for n in numbers]


def summary(cell: Cell, truths: list[Floats], seen: list[Seen]) -> dict[str, Any]:
    """Return the figures of a cell."""
    whose = np.array([s.number % TRUTHS for s in seen])
    true = np.stack(truths)[whose]
    n = len(true)
    rank = 1 + (true[:, :, None, :] > true[:, :, :, None]).sum(axis=3)
    score, lower, upper, first, last = (
        np.stack([getattr(s, part) for s in seen]).reshape(true.shape)
        for part in ("score", "lower", "upper", "rank_lower", "rank_upper")
    )
    given = np.isfinite(upper - lower)
    warned = np.array([bool(s.warned) for s in seen])
    # No interval is no failure where the library said so, and one where it said nothing.
    held = np.where(given, (lower <= true) & (true <= upper), np.where(warned[:, None, None], np.nan, 0.0))
    kept = ((first <= rank) & (rank <= last)).astype(np.float64)
    differences = np.stack([s.differences for s in seen])
    # The spread of the estimates about their mean, within each truth.
    variance = np.zeros(true.shape[1:])
    for t in np.unique(whose):
        own = score[whose == t]
        variance += ((own - own.mean(axis=0)) ** 2).sum(axis=0) / max(n - len(np.unique(whose)), 1)
    ideal = 2 * 1.96 * np.sqrt(variance)

    def share(x: Floats) -> list[float] | None:
        """Return the mean and its standard error over data sets."""
        flat = x.reshape(n, -1)
        some = np.isfinite(flat).any(axis=1)
        if not some.any():
            return None
        each = np.nanmean(flat[some], axis=1)
        return [float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else 0.0]

    def widths(x: Floats, expected: Floats) -> list[float | None] | None:
        """Return the mean width, and how many times the ideal one it is where two data sets have the same truth."""
        if not np.isfinite(x).any():
            return None
        mean, least = float(np.nanmean(x)), float(expected.mean())
        return [mean, mean / least if least > 0 else None]

    best = true.argmax(axis=2)[:, :, None]
    out: dict[str, Any] = {
        "data_sets": n,
        "scores": share(held),
        "differences": share(differences),
        "ranks": share(kept),
        "width": widths(upper - lower, ideal),
        "rank_width": float((last - first).mean()),
        "slope": float(((score * true).sum(axis=2) / (true**2).sum(axis=2)).mean()),
        "best": share(np.take_along_axis(held, best, axis=2)),
        "best_rank": share(np.take_along_axis(kept, best, axis=2)),
        "given": float(given.mean()),
        "silent": int((~given.all(axis=(1, 2)) & ~warned).sum()),
        "redrawn": sum(s.redrawn for s in seen),
        "warned": dict(Counter(category for s in seen for category in s.warned)),
    }
    if cell.data.focus:
        focus = -1 if cell.data.focus == "newcomer" else 0
        out["one"] = {
            "score": share(held[:, :, focus]),
            "rank": share(kept[:, :, focus]),
            "width": widths((upper - lower)[:, :, focus], ideal[:, focus]),
            "rank_width": float((last - first)[:, :, focus].mean()),
            "slope": float((score * true)[:, :, focus].sum() / (true**2)[:, :, focus].sum()),
            "given": float(given[:, :, focus].mean()),
        }
    return out


def verdict(found: list[float] | None, asked: tuple[float, float]) -> str:
    """Return whether a share is as asked: "yes", "close" (out by less than two standard errors), "NO"; "–" for none."""
    if found is None:
        return "–"
    off = max(asked[0] - found[0], found[0] - asked[1], 0.0)
    return "yes" if off == 0 else "close" if off <= 2 * found[1] else "NO"


def _worst(**verdicts: str) -> str:
    """Return the worst of several verdicts, and what it is about."""
    for said in ("NO", "close"):
        if said in verdicts.values():
            return f"{said} ({', '.join(what for what, v in verdicts.items() if v == said)})"
    return "yes" if "yes" in verdicts.values() else "–"


def judged(name: str, r: dict[str, Any]) -> dict[str, str]:
    """Return which promises a cell keeps: for all items, for the best, for the item that is looked at on its own."""
    cell = cells()[name]
    if not cell.promised:
        return {}
    asked = ENOUGH if cell.data.enough else FEW
    out = {
        "all": _worst(
            scores=verdict(r["scores"], asked),
            differences=verdict(r["differences"], asked),
            ranks=verdict(r["ranks"], RANKS),
        ),
        "best": _worst(best=verdict(r["best"], BEST)),
    }
    if "one" in r:
        new = ENOUGH if cell.data.enough_for_newcomer else FEW
        asked = new if cell.data.focus == "newcomer" else BEST
        out["one"] = _worst(score=verdict(r["one"]["score"], asked), rank=verdict(r["one"]["rank"], (RANKS[0], 1.0)))
    return out


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


@contextmanager
def _workers(processes: int) -> Iterator[Executor]:
    with _one_thread_each(), ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield pool


# What was computed already, by the kind of data and the estimand.
_truths: dict[tuple[Data, str], list[Floats]] = {}


def measure(pool: Executor, name: str, data_sets: int) -> dict[str, Any]:
    """Return the figures of one cell."""
    cell = cells()[name]
    estimand = cell.estimand or MODELS[cell.model][0]
    if (kind := (cell.data.kind(), estimand)) not in _truths:
        _truths[kind] = list(pool.map(cell.data.truth, range(TRUTHS), [estimand] * TRUTHS))
    truths = _truths[kind]
    step = max(1, min(25, data_sets // 4))
    parts = pool.map(
        _observe_all,
        *zip(*[(name, range(n, min(n + step, data_sets)), truths) for n in range(0, data_sets, step)], strict=True),
    )
    return summary(cell, truths, [seen for part in parts for seen in part])


def coverage() -> dict[str, Any]:
    """Coverage of 95 % intervals of scores, differences and ranks, at the defaults and at named settings."""
    from growth import Cases

    known = Cases("coverage", "coverage_data", "models_coverage")
    with _workers(2) as pool:

        def cell(name: str, data_sets: int) -> dict[str, Any]:
            return measure(pool, name, data_sets)

        found = {name: known.get(cell, name, DATA_SETS) for name in cells()}
    return {"data_sets": DATA_SETS, "truths": TRUTHS, "cells": found}


def _percent(found: list[float] | None, *, error: bool = False) -> str:
    if found is None:
        return "–"
    return f"{100 * found[0]:.1f}" + (f" ± {100 * found[1]:.1f}" if error else "")


def _width(found: list[float | None] | None) -> str:
    if found is None:
        return "–"
    return f"{found[0]:.2f}" + ("" if found[1] is None else f" (×{found[1]:.2f})")


def _warned(r: dict[str, Any]) -> str:
    short = {k.removesuffix("Warning") or k: v for k, v in r["warned"].items()}
    return ", ".join(f"{k.lower()} {v}" for k, v in sorted(short.items())) or "–"


def _kept(name: str, said: dict[str, str], *parts: str) -> str:
    """Return the verdict on these parts of a cell, and why a promise is broken where that is known."""
    if not said:
        return "shown to fail"
    shown = "; ".join(said[p] for p in parts if said[p] not in ("yes", "–")) or "yes"
    why = _why(name)
    return f"{shown}: {why}" if "NO" in shown and why else shown


def _all_items(found: dict[str, Any]) -> str:
    rows = [
        [
            name,
            _percent(r["scores"], error=True),
            _percent(r["differences"]),
            f"{_percent(r['ranks'])} ({r['rank_width']:.1f})",
            _width(r["width"]),
            f"{r['slope']:.2f}",
            _percent(r["best"]),
            _warned(r),
            _kept(name, judged(name, r), "all", "best"),
        ]
        for name, r in found.items()
    ]
    head = ["model and data", "scores", "differences", "ranks", "width", "slope", "best item", "warned", "kept"]
    return table(head, rows)


def _single_items(found: dict[str, Any]) -> list[str]:
    """Return the table of newcomers or stand-outs, if there are any."""
    rows = [
        [
            name,
            _percent(r["one"]["score"], error=True),
            f"{_percent(r['one']['rank'])} ({r['one']['rank_width']:.1f})",
            _width(r["one"]["width"]),
            f"{r['one']['slope']:.2f}",
            f"{100 * r['one']['given']:.0f}",
            _kept(name, judged(name, r), "one"),
        ]
        for name, r in found.items()
        if "one" in r
    ]
    head = ["model and data", "score", "rank", "width", "slope", "given", "kept"]
    return ["Only the newcomer or the stand-out:", table(head, rows)] if rows else []


def _coverage(r: dict[str, Any]) -> str:
    note = [
        f"Percent of true values inside their 95 % intervals, over {r['data_sets']} data sets a row; ± one standard "
        "error of the simulation. **Every row except those under “Named settings” is at the defaults**: the model has "
        "no arguments (except `reliability=True` or `adherence=True` where stated), so its prior, its treatment of "
        "lists and its intervals are the defaults. The truth is what the model estimates: the scores behind the data "
        "if the model is right for them, else its estimate without a prior from infinitely many data of that kind. "
        f"{r['truths']} sets of true scores are used in turn.",
        "Ranks: in brackets the mean of last minus first rank of a range. Width: of the intervals of scores; in "
        "brackets its ratio to ideal ones (± 1.96 standard deviations of the estimates over data sets). Slope: of "
        "estimated scores on true ones. Best item: the item with the largest true score. Warned: in how many data sets "
        "the library warned, by category. Given: percent of intervals that the library gave; an interval that is "
        "missing without a warning counts as a miss.",
        "Promised: 93–97 for scores and differences where an item has at least ten observations (and ten judges, where "
        "they have tastes), at least 93 below that; at least 90 for the best item and for a stand-out; 95–99.5 for "
        "rank ranges, for a newcomer at least 95. “Close” misses that by less than two standard errors of the "
        "simulation. Some rows under “Named settings” treat dependent outcomes as independent, to show the error of "
        "doing so.",
    ]
    parts = []
    for group in dict.fromkeys(cell.group for cell in cells().values()):
        found = {name: r["cells"][name] for name, cell in cells().items() if cell.group == group and name in r["cells"]}
        if found:
            parts += [f"#### {group}", _all_items(found), *_single_items(found)]
    return "\n\n".join(note + parts)


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"coverage": coverage}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {"coverage": _coverage}


def compact(name: str, r: dict[str, Any]) -> str:
    """Return a cell in one line for a quick look."""
    said = judged(name, r)
    parts = [
        f"{name:88.88}",
        *(f"{k[:2]} {_percent(r[k]):>5}" for k in ("scores", "differences", "ranks")),
        f"w {_width(r['width']):>12}",
        f"rw {r['rank_width']:5.1f}",
        f"slope {r['slope']:.2f}",
        f"best {_percent(r['best']):>5}",
        f"{said.get('all', '–'):>5}/{said.get('best', '–'):<5}",
    ]
    if "one" in r:
        one = r["one"]
        parts += [f"| one {_percent(one['score']):>5} r {_percent(one['rank']):>5}", f"w {_width(one['width'])}"]
        parts += [said.get("one", "–")]
    if r["given"] < 1:
        parts.append(f"| given {100 * r['given']:.0f} silent {r['silent']}")
    if r["redrawn"]:
        parts.append(f"| redrawn {r['redrawn']}")
    return " ".join(parts) + (f" | {_warned(r)}" if r["warned"] else "")


def main() -> None:
    """Look at some cells quickly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="part of the names, or of the groups, of the cells to run")
    parser.add_argument("data_sets", nargs="?", type=int, default=DATA_SETS)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    with _workers(given.processes) as pool:
        for name, cell in cells().items():
            if given.only in name or given.only in cell.group:
                started = time.perf_counter()
                line = compact(name, measure(pool, name, given.data_sets))
                print(f"{line} [{time.perf_counter() - started:.1f} s]", flush=True)


if __name__ == "__main__":
    main()
