"""Studies on LETOR rank-aggregation folders: any folder *-agg, any method, fold by fold and seed by seed.

A `Way` is a registered method with parameters as plain JSON, so that the name of a cell can contain everything its
value depends on. Cells return the metrics of every test query. Means, standard errors and tests are computed from them
in one place for all tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import concordant as cc
from concordant import Fold, Part
from concordant.metrics import Evaluation, paired_t_test
from concordant_papers import published
from concordant_papers._arrays import Floats
from concordant_papers.engine import Cell, Setting
from concordant_papers.pages import Row

__all__ = [
    "AT_DEFAULTS",
    "BASELINES",
    "COLUMNS",
    "MARKS",
    "PUBLISHED_SETS",
    "SYNTHETIC",
    "Result",
    "Way",
    "absent",
    "cells",
    "experts_left",
    "folds",
    "gathered",
    "key_of",
    "marked",
    "n_folds",
    "not_there",
    "on_test_part",
    "plain",
    "reads_of",
    "row",
    "sets",
]

# The columns of the papers' tables, and our names of them.
COLUMNS = {f"N@{k}": f"ndcg@{k}" for k in range(1, 6)} | {f"P@{k}": f"p@{k}" for k in range(1, 6)} | {"MAP": "map"}
PUBLISHED_SETS = ("MQ2008-agg", "MQ2007-agg")
# Name of the synthetic set, in place of a folder.
SYNTHETIC = "synthetic-agg"
MARKS = (
    "Mean of the test folds in percent, LETOR 4.0's conventions. ± is the standard error over seeds. * differs from "
    "{baseline}: paired two-sided t-test over all test queries, 5 percent, values of a query averaged over seeds first."
)


class Way(NamedTuple):
    """A row of a table as a method to run.

    Attributes
    ----------
    method : str
        Its name in `cc.METHODS`.
    params : mapping
        Its parameters; what JSON can hold, a list stands for a tuple.
    grid : mapping from parameter to candidates
        Parameters to choose on the validation part of a fold, besides those that the method chooses itself.
    without : tuple of str
        Experts that are left out everywhere.
    comparisons : str
        The transform by which lists are turned into comparisons first; empty leaves them as they are.
    seconds : float
        How long one fold takes, roughly.
    upside_down : bool
        Whether the ranks in the files are read as scores: the largest rank is best.
    seen : str
        As in `Row`.
    """

    method: str
    params: Mapping[str, Any] = {}
    grid: Mapping[str, Sequence[Any]] = {}
    without: tuple[str, ...] = ()
    comparisons: str = ""
    seconds: float = 1.0
    upside_down: bool = False
    seen: str = ""


_DISTANCES = {"distance": ["kendall", "footrule", "spearman"]}
# Rows that the papers' tables share, by published name. Only CPS reads labels, to weight the experts.
BASELINES: dict[str, Way] = {
    "BordaCount": Way(
        "borda",
        upside_down=True,
        seen="the direction of the ranks, the only one of a few dozen variants that gives all 11 cells",
    ),
    "CPS-best": Way(
        "cps",
        {"adherence": "supervised", "max_iter": 1},
        _DISTANCES,
        seconds=4,
        upside_down=True,
        seen="the direction of the ranks and a single step of the solver, among a few dozen variants",
    ),
    "SVP": Way(
        "svp",
        {"min_comparisons": 2},
        seconds=3,
        seen="that a pair counts where at least two experts compare it, among a few dozen variants",
    ),
    "Bradley-Terry": Way(
        "bradley-terry",
        {"optimizer": "gd", "transform": "count", "uncertainty": "none"},
        seen="the length of the gradient steps",
    ),
    "Plackett-Luce": Way(
        "plackett-luce",
        {"optimizer": "gd", "max_iter": 30, "uncertainty": "none"},
        seen="the number of gradient steps",
    ),
    # One item beats another where the sum of rank differences is positive: this gives the published row to the digit.
    "Condorcet": Way("copeland", comparisons="count", seen="which of several variants of the method"),
    "RRF": Way(
        "rrf", seen="that the smallest rank is the best, and LETOR's conventions, which this row settled for all others"
    ),
}
# The same methods as their users have them: ranks are ranks, and no setting was seen.
AT_DEFAULTS: dict[str, Way] = {
    "BordaCount, ranks read as ranks": Way("borda"),
    "CPS-best, ranks read as ranks": Way("cps", {"adherence": "supervised"}, _DISTANCES, seconds=4),
    "SVP, at its defaults": Way("svp"),
}


class Result(NamedTuple):
    """Results of a way on all folds of a set.

    Attributes
    ----------
    values : dict of column to list of float64[queries]
        The value of every test query, fold by fold, the mean over the seeds; between 0 and 1.
    seed_means : dict of column to list of float
        The mean of the folds' means for every seed, in percent.
    details : list of dict
        Of every fold and seed: fold, seed, chosen, validation, seconds, and whatever else its cell returned.
    """

    values: dict[str, list[Floats]]
    seed_means: dict[str, list[float]]
    details: list[dict[str, Any]]

    @property
    def mean(self) -> dict[str, float]:
        """Column -> the mean of the folds' means, in percent."""
        return {c: 100 * float(np.mean([v.mean() for v in of])) for c, of in self.values.items()}

    @property
    def printed(self) -> dict[str, float]:
        """Column -> the same from folds with four decimals, as LETOR 4.0's script prints them, in percent."""
        return {c: 100 * float(np.mean([round(float(v.mean()), 4) for v in of])) for c, of in self.values.items()}

    @property
    def errors(self) -> dict[str, float]:
        """Column -> the standard error over the seeds, in percent; empty where there is one seed."""
        n = {len(v) for v in self.seed_means.values()}
        if max(n, default=1) < 2:
            return {}
        return {c: float(np.std(v, ddof=1) / len(v) ** 0.5) for c, v in self.seed_means.items()}

    def of_query(self, column: str) -> Floats:
        """Return the values of all test queries, fold after fold."""
        return np.concatenate(self.values[column])


def sets(setting: Setting) -> dict[str, str]:
    """Return the sets that are there, name -> folder: every *-agg under the data folder, or one synthetic set."""
    if setting.quick:
        return {SYNTHETIC: SYNTHETIC}
    if setting.data is None:
        return {}
    found = (p for p in sorted(setting.data.glob("*-agg"), reverse=True) if p.is_dir() and n_folds(str(p)))
    return {p.name: str(p) for p in found}


def absent(setting: Setting) -> list[str]:
    """Return the published sets that are not there; none where everything is synthetic."""
    there = sets(setting)
    return [] if setting.quick else [name for name in PUBLISHED_SETS if name not in there]


def n_folds(folder: str) -> int:
    """Return the number of folds of a set."""
    if folder == SYNTHETIC:
        return 2
    return sum(bool(re.match(r"fold[ _-]?[0-9]", p.name.lower())) for p in Path(folder).iterdir() if p.is_dir())


@cache
def folds(folder: str, *, upside_down: bool = False) -> tuple[Fold, ...]:
    """Return the folds of a set, read once in a process; `upside_down` takes the largest rank for the best."""
    if folder != SYNTHETIC:
        return tuple(cc.read_letor_folds(folder, higher_is_better=upside_down))
    if upside_down:
        return tuple(Fold(*(Part(_upside_down(part.preferences), part.labels) for part in f)) for f in folds(folder))
    quality = (2.0, 1.5, 1.0, 0.5, 0.5, 0.0, 0.0, -1.5, -2.0)
    votes, labels = cc.synthetic.labelled_runs(
        100, quality=quality, labels=(*[0] * 14, 1, 2), n_items=(6, 20), random_state=12
    )
    part = np.arange(len(votes)) % 5
    out = []
    for fold in range(n_folds(folder)):
        kept = [np.flatnonzero(np.isin((part - fold) % 5, of)) for of in ((2, 3, 4), (1,), (0,))]
        out.append(Fold(*(Part(votes[k], labels[k]) for k in kept)))
    return tuple(out)


def _upside_down(votes: cc.Preferences) -> cc.Preferences:
    """Return ranks as scores, the largest being the best."""
    frame = votes.to_ranks().to_frame()
    columns = (frame[name].to_list() for name in ("instance", "expert", "item", "rank"))
    return cc.Preferences(*columns, kind="score")


def experts_left(fold: Fold, without: Sequence[str]) -> Fold:
    """Return the fold without these experts; unknown ones are ignored."""
    if not without:
        return fold
    known = fold.train.preferences.experts.codes
    gone = [e for e in without if e in known]
    return Fold(*(Part(part.preferences.drop_experts(gone), part.labels) for part in fold))


def on_test_part(
    *,
    folder: str,
    fold: int,
    method: str,
    params: Mapping[str, Any],
    grid: Mapping[str, Sequence[Any]],
    without: Sequence[str],
    comparisons: str,
    upside_down: bool,
    seed: int | None,
) -> dict[str, Any]:
    """Evaluate a way on the test part of a fold: fit on train, choose on vali, nothing else is read.

    This is the `run` of the cells that `cells` plans.
    """
    arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in params.items()}
    way: Any = cc.METHODS[method](**arguments)
    if grid:
        way = cc.GridSearch(way, {name: list(values) for name, values in grid.items()}, convention="paper")
    split: Any = experts_left(folds(folder, upside_down=upside_down)[fold], without)
    if comparisons:
        parts: list[Any] = [(part.preferences.comparisons(comparisons), part.labels) for part in split]
        split = tuple(parts)
    found = cc.cross_validate(
        way,
        folds=[split],
        metrics=list(COLUMNS.values()),
        convention="letor",
        seeds=1 if seed is None else [seed],
    )
    info = found.runs[0].fit_info
    return plain(found) | {
        "chosen": {name: _json(value) for name, value in found.runs[0].chosen.items()},
        "validation": None if info.validation is None else float(info.validation),
        "seconds": found.runs[0].seconds,
    }


def plain(evaluation: Evaluation) -> dict[str, Any]:
    """Return the values of an evaluation of all `COLUMNS` as a cell returns them."""
    return {"values": {c: [round(float(v), 12) for v in evaluation.values[m]] for c, m in COLUMNS.items()}}


def cells(name: str, folder: str, way_name: str, way: Way, seeds: int = 1) -> list[Cell]:
    """Return a cell for every fold, and for every seed if the method is stochastic.

    Parameters
    ----------
    name, folder : str
        The set, as `sets` has it.
    way_name : str
        What the row is called; keys are "set/row/fold 1/seed 0".
    way : Way
        What to run.
    seeds : int
        How many.
    """
    chance = cc.METHODS[way.method].tags.stochastic
    out = []
    for fold in range(n_folds(folder)):
        for seed in range(seeds if chance else 1):
            arguments = {
                "folder": folder,
                "fold": fold,
                "method": way.method,
                "params": dict(way.params),
                "grid": {p: list(v) for p, v in way.grid.items()},
                "without": list(way.without),
                "comparisons": way.comparisons,
                "upside_down": way.upside_down,
                "seed": seed if chance else None,
            }
            key = key_of(name, way_name, fold, seed)
            out.append(Cell(key, on_test_part, arguments, reads_of(folder), way.seconds))
    return out


def key_of(name: str, way_name: str, fold: int, seed: int) -> str:
    """Return the key of a cell: what `gathered` looks for."""
    return f"{name}/{way_name}/fold {fold + 1}/seed {seed}"


def reads_of(folder: str) -> tuple[Path, ...]:
    """Return what a cell on this set reads."""
    return () if folder == SYNTHETIC else (Path(folder),)


def gathered(values: Mapping[str, Any], name: str, folder: str, way_name: str) -> Result | None:
    """Collect the cells of a row over all folds and seeds; None if one is missing."""
    start = f"{name}/{way_name}/fold "
    found = {key: value for key, value in values.items() if key.startswith(start)}
    seeds = sorted({int(key.rpartition(" ")[2]) for key in found})
    every = [[found.get(key_of(name, way_name, f, s)) for s in seeds] for f in range(n_folds(folder))]
    if not seeds or any(one is None for of_fold in every for one in of_fold):
        return None
    table = [[one for one in of_fold if one is not None] for of_fold in every]
    columns = list(table[0][0]["values"])
    return Result(
        {c: [np.mean([one["values"][c] for one in of_fold], axis=0) for of_fold in table] for c in columns},
        {
            c: [
                100 * float(np.mean([np.mean(of_fold[s]["values"][c]) for of_fold in table])) for s in range(len(seeds))
            ]
            for c in columns
        },
        [
            {"fold": f + 1, "seed": seeds[s]} | {n: v for n, v in one.items() if n != "values"}
            for f, of_fold in enumerate(table)
            for s, one in enumerate(of_fold)
        ],
    )


def marked(result: Result, baseline: Result | None, mark: str = "*", level: float = 0.05) -> dict[str, str]:
    """Return a mark for every column with a significant difference by a paired t-test over all test queries."""
    if baseline is None:
        return {}
    gaps = {c: result.of_query(c) - baseline.of_query(c) for c in result.values if c in baseline.values}
    return {c: mark for c, gap in gaps.items() if paired_t_test(gap).p_value < level}


def row(
    name: str,
    result: Result | None,
    *,
    theirs: Mapping[str, float] | None = None,
    tolerance: float | None = None,
    exact: bool = False,
    baseline: Result | None = None,
    why: str = "",
    seen: str = "",
) -> Row:
    """Return the row of a table: means in percent, errors over seeds, and marks against a baseline.

    Parameters
    ----------
    name : str
        What it is called.
    result : Result or None
        Ours; None leaves it empty.
    theirs : mapping, optional
        What was printed, such as `published.cells(table, dataset=..., method=...)`.
    tolerance, exact, why, seen
        As in `Row`; an exact one is the mean of folds rounded to four decimals.
    baseline : Result, optional
        What it is tested against.
    """
    if result is None:
        return Row(name, {}, theirs or {}, tolerance, exact, why=why or "not computed: a part of it failed", seen=seen)
    # An exact comparison needs the same intermediate rounding as the published table.
    ours = result.printed if exact else result.mean
    marks = marked(result, baseline)
    return Row(name, ours, theirs or {}, tolerance, exact, result.errors, marks, why, seen)


def not_there(name: str, table: str, methods: Mapping[str, str] | None = None) -> list[Row]:
    """Return the published rows of a set that is not in the data folder, without ours."""
    why = f"{name} is not in the data folder"
    rows = [r for r in published.rows(table) if r["dataset"] == name]
    wanted = [r["method"] for r in rows if methods is None or r["method"] in methods]
    return [
        Row((methods or {}).get(m, m), {}, published.cells(table, dataset=name, method=m) or {}, why=why)
        for m in wanted
    ]


def _json(value: Any) -> Any:
    """Return a chosen value as JSON holds it."""
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value
