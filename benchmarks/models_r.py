"""Fits of classic data sets beside what R's packages print, to the last digit printed.

R's values are in r_fits.json: those of "run" were printed by r_fits.R, the others by the package's own pages and tests.
Data that may not be copied are read from the shared folder.
"""

from __future__ import annotations

import csv
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from render import table
from scipy.optimize import minimize_scalar
from studies import DATA

import concordant as cc
from concordant.data.features import Features
from concordant.errors import ConcordantWarning

Floats = NDArray[np.float64]
Values = dict[str, float]
# A ranking: the blocks of tied items, the best first, and its weight.
Ranking = tuple[list[list[str]], float]

GIVEN: dict[str, Any] = json.loads((Path(__file__).parent / "r_fits.json").read_text(encoding="utf-8"))
TABLES = GIVEN["tables"]
GHOST = "a hypothetical item"
# PlackettLuce stops at 1e-6 here, and its versions print 0.5184184 and 0.5184185 for what is 0.51842242.
STOPPED_EARLY = {"toy network"}


class Fit(NamedTuple):
    """One fit: the data in a phrase, the call, how our values are found, and which shared folder it reads."""

    data: str
    call: str
    values: Callable[[], Values]
    needs: str = ""


# Data.


def outcomes(name: str) -> cc.Comparisons:
    """Return a table of counts as comparisons."""
    if name == "football":
        teams, results = TABLES[name]["teams"], TABLES[name]["results"]
        met = [(a, b, r) for a, row in zip(teams, results, strict=True) for b, r in zip(teams, row, strict=True)]
        rows = [[a, b, r == "W", r == "L", r == "D"] for a, b, r in met if r != "-"]
    elif name == "pudding":
        with open(DATA / "r-ranking" / "PlackettLuce" / "data" / "pudding.csv", newline="") as file:
            rows = [[r["i"], r["j"], *(int(r[n]) for n in ("w_ij", "w_ji", "t_ij"))] for r in csv.DictReader(file)]
    else:
        rows = TABLES[name]["rows"]
    left, right, *counts = zip(*rows, strict=True)
    sums = [np.array(c, dtype=float) for c in counts]
    return cc.Comparisons("q", None, list(left), list(right), *sums)


def weighted(rankings: Iterable[Ranking]) -> cc.Preferences:
    """Return rankings as preferences, one expert each."""
    rankings = list(rankings)
    rows = [
        (f"e{n}", item, place + 1.0)
        for n, (blocks, _) in enumerate(rankings)
        for place, block in enumerate(blocks)
        for item in block
    ]
    experts, items, ranks = zip(*rows, strict=True)
    found = cc.Preferences(["q"] * len(rows), list(experts), list(items), list(ranks))
    return found.with_weights({f"e{n}": weight for n, (_, weight) in enumerate(rankings)})


def tabled(name: str, without: str = "") -> list[Ranking]:
    """Return the rankings of a table: a weight, then the rank of every item, 0 where it is not ranked."""
    items = TABLES[name]["columns"][1:]
    found = []
    for weight, *ranks in TABLES[name]["rows"]:
        ranked = {i: r for i, r in zip(items, ranks, strict=True) if r and i != without}
        blocks = [[i for i, r in ranked.items() if r == place] for place in sorted(set(ranked.values()))]
        found += [(blocks, float(weight))] if len(ranked) > 1 else []
    return found


def races(drivers: int) -> list[Ranking]:
    """Return the 36 races of the NASCAR season of 2002, of the drivers up to a number."""
    with open(DATA / "r-ranking" / "PlackettLuce" / "data" / "nascar.csv", newline="") as file:
        orders = [[int(float(c)) for c in row[1:] if c and float(c)] for row in list(csv.reader(file))[1:]]
    return [([[str(d)] for d in race if d <= drivers], 1.0) for race in orders]


def pseudo_rankings(rankings: list[Ranking], times: float = 0.5) -> list[Ranking]:
    """Return R's pseudo-rankings: as many wins and losses of every item against a hypothetical one."""
    items = sorted({i for blocks, _ in rankings for block in blocks for i in block})
    return [(pair, times) for i in items for pair in ([[i], [GHOST]], [[GHOST], [i]])]


def beans() -> list[Ranking]:
    """Return 842 farmers' rankings of three varieties, and their comparisons of each with the local one."""
    with open(DATA / "r-ranking" / "PlackettLuce" / "data" / "beans.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    found: list[Ranking] = []
    for r in rows:
        (middle,) = set("ABC") - {r["best"], r["worst"]}
        found.append(([[r[f"variety_{v.lower()}"]] for v in (r["best"], middle, r["worst"])], 1.0))
        for v in "abc":
            pair = ["Local", r[f"variety_{v}"]]
            found.append(([[i] for i in (pair if r[f"var_{v}"] == "Worse" else pair[::-1])], 1.0))
    return found


# Values.


def against(board: cc.Consensus, reference: str, extra: Mapping[str, tuple[float, float]] | None = None) -> Values:
    """Return scores relative to the reference with their standard errors, then other parameters with theirs."""
    scores = dict(zip(board.items.tolist(), board.score.tolist(), strict=True))
    if board.stderr is None:
        raise SystemExit("a fit has no standard errors")
    errors = dict(zip(board.items.tolist(), board.stderr.tolist(), strict=True))
    out = {f"score {i}": s - scores[reference] for i, s in scores.items() if i != reference}
    out |= {f"se {i}": e for i, e in errors.items() if i != reference}
    for name, (value, error) in (extra or {}).items():
        out |= {f"score {name}": value, f"se {name}": error}
    return out


def deviance(votes: cc.Comparisons, s: Mapping[str, float], side: float = 0.0) -> float:
    """Return twice the log-likelihood that the scores lack to the observed shares of wins."""
    total = 0.0
    for a, b, won, lost in zip(*_pairs(votes), strict=True):
        p = 1 / (1 + np.exp(s[b] - s[a] - side))
        for n, q in ((won, p), (lost, 1 - p)):
            total += 2 * n * np.log(n / (won + lost) / q) if n else 0.0
    return float(total)


def _pairs(votes: cc.Comparisons) -> tuple[list[str], list[str], Floats, Floats]:
    items = votes.items.tolist()
    return [items[k] for k in votes.left], [items[k] for k in votes.right], votes.n_left, votes.n_right


def bradley_terry(name: str, reference: str, *, home: bool = False) -> Values:
    """Fit Bradley-Terry to a table of counts without ties."""
    votes = outcomes(name)
    model = cc.BradleyTerry(prior=0, anchor=reference, side_effect=home, uncertainty="information")
    board = model.fit_predict(votes)
    extra = {"at.home": (model.side_, float(np.sqrt(model.shared_covariance_[0, 0])))} if home else {}
    s = dict(zip(board.items.tolist(), board.score.tolist(), strict=True))
    gap = deviance(votes, s, model.side_)
    return against(board, reference, extra) | {"deviance": gap, "loglik": model.fit_info_.objective or 0.0}


def quasi(name: str, *, home: bool = False) -> Values:
    """Return the quasi-variances of a Bradley-Terry fit."""
    board = cc.BradleyTerry(prior=0, side_effect=home, uncertainty="information").fit_predict(outcomes(name))
    found = cc.quasi_variances(board)
    return {f"quasi {i}": v for i, v in zip(board.items.tolist(), found.variance.tolist(), strict=True)}


def davidson(name: str, reference: str, *, home: bool = False, called: str = "tie2") -> Values:
    """Fit Bradley-Terry with Davidson's ties to a table of counts."""
    model = cc.BradleyTerry(
        prior=0, ties="davidson", anchor=reference, side_effect=home, uncertainty="information", tol=1e-12
    )
    board = model.fit_predict(outcomes(name))
    spread = np.sqrt(np.diag(model.shared_covariance_))
    extra = {called: (float(np.log(model.tie_)), float(spread[0]))}
    extra |= {"at.home": (model.side_, float(spread[1]))} if home else {}
    return against(board, reference, extra) | {"loglik": model.fit_info_.objective or 0.0}


def covariates() -> Values:
    """Fit Bradley-Terry scores that are linear in covariates of the nine puddings, ties left out."""
    votes = outcomes("springall")
    items = votes.items.tolist()
    flav, gel = np.tile([0.6, 4.8, 9.0], 3), np.repeat([0.0, 2.4, 4.8], 3)
    names = ["flav", "gel", "flav.2", "gel.2", "flav.gel"]
    columns = np.column_stack([flav, gel, flav**2, gel**2, flav * gel])
    values = columns[[int(i) - 1 for i in items]]
    model = cc.BradleyTerry(prior=0, ties="none", uncertainty="information")
    features = Features(["q"] * len(items), items, values, names=names)
    board = model.fit(votes, features=features).predict(votes)
    s = dict(zip(board.items.tolist(), board.score.tolist(), strict=True))
    return _coefficients(model.coefficients_, board, values, names) | {"deviance": deviance(votes, s)}


def _coefficients(found: Mapping[str, float], board: cc.Consensus, values: Floats, names: list[str]) -> Values:
    """Return coefficients with their standard errors, from the covariance of the scores they make."""
    back = np.linalg.pinv(values - values.mean(axis=0))
    if board.covariance is None:
        raise SystemExit("a fit has no covariance")
    spread = back @ np.asarray(board.covariance[0]) @ back.T
    out = {f"score {n}": found[n] for n in names}
    return out | {f"se {n}": float(e) for n, e in zip(names, np.sqrt(np.diag(spread)), strict=True)}


def plackett_luce(votes: cc.Preferences, reference: str, ties: str = "average") -> Values:
    """Fit Plackett-Luce by maximum likelihood."""
    model = cc.PlackettLuce(prior=0, ties=ties, anchor=reference, uncertainty="information", tol=1e-12)
    board = model.fit_predict(votes)
    extra = {}
    if ties == "davidson-luce":
        spread = np.sqrt(np.diag(model.tie_covariance_))
        logs = np.log(model.tie_)
        extra = {f"tie{q}": (float(v), float(e)) for q, v, e in zip(model.tie_sizes_, logs, spread, strict=True)}
    value = float(model.fit_info_.objective or 0.0)
    free = len(board.items) - 1 + len(extra)
    return against(board, reference, extra) | {
        "loglik": value, "deviance": -2 * value, "aic": -2 * value + 2 * free,
    }  # fmt: skip


def preflib(path: str, ties: str = "average") -> Values:
    """Fit Plackett-Luce to a file of PrefLib."""
    votes = cc.read_preflib(DATA / "preflib" / path)
    return plackett_luce(votes, sorted(votes.items.tolist())[0], ties)


def potatoes() -> Values:
    """Fit Plackett-Luce with one covariate: the true place of a potato by weight, seen by twelve people."""
    folder = DATA / "r-ranking" / "BayesMallows" / "data"
    with open(folder / "potato_visual.csv", newline="") as file:
        head, *rows = list(csv.reader(file))
    with open(folder / "potato_true_ranking.csv", newline="") as file:
        truth = {f"P{n}": float(row[1]) for n, row in enumerate(list(csv.reader(file))[1:], 1)}
    places = [sorted(zip(map(float, row[1:]), head[1:], strict=True)) for row in rows]
    votes = weighted([([[item] for _, item in order], 1.0) for order in places])
    items = votes.items.tolist()
    values = np.array([[truth[i]] for i in items])
    model = cc.PlackettLuce(prior=0, uncertainty="information")
    board = model.fit(votes, features=Features(["q"] * len(items), items, values, names=["truth"])).predict(votes)
    out = _coefficients(model.coefficients_, board, values, ["truth"])
    return out | {"loglik": float(model.fit_info_.objective or 0.0)}


def with_pseudo_rankings(rankings: list[Ranking], reference: str, ties: str = "average") -> Values:
    """Fit Plackett-Luce with R's pseudo-rankings; as in R, errors and deviance are of the rankings themselves."""
    model = cc.PlackettLuce(prior=0, ties=ties, anchor=reference, uncertainty="none", tol=1e-12)
    board = model.fit_predict(weighted(rankings + pseudo_rankings(rankings)))
    s = {i: v for i, v in zip(board.items.tolist(), board.score.tolist(), strict=True) if i != GHOST}
    out = {f"score {i}": v for i, v in s.items()}
    total = sum(np.exp(v) for v in s.values())
    out |= {f"worth {i}": float(np.exp(v) / total) for i, v in s.items()}
    if ties == "davidson-luce":
        return out | {f"score tie{q}": float(np.log(d)) for q, d in zip(model.tie_sizes_, model.tie_, strict=True)}
    value, information = likelihood(rankings, s)
    items = [i for i in s if i != reference]
    kept = [list(s).index(i) for i in items]
    errors = np.sqrt(np.diag(np.linalg.inv(information[np.ix_(kept, kept)])))
    out |= {f"se {i}": float(e) for i, e in zip(items, errors, strict=True)}
    return out | {"deviance": -2 * value, "aic": -2 * value + 2 * len(items)}


def likelihood(rankings: list[Ranking], s: Mapping[str, float]) -> tuple[float, Floats]:
    """Return the log-likelihood of strict rankings at given scores and its information, choice by choice."""
    at = {i: n for n, i in enumerate(s)}
    worth = np.exp(np.array(list(s.values())))
    value, information = 0.0, np.zeros((len(s), len(s)))
    for blocks, weight in rankings:
        order = [at[i] for block in blocks for i in block]
        for first in range(len(order) - 1):
            left = order[first:]
            p = worth[left] / worth[left].sum()
            value += weight * float(np.log(p[0]))
            information[np.ix_(left, left)] += weight * (np.diag(p) - np.outer(p, p))
    return value, information


def fruits() -> Values:
    """Fit Davidson-Luce ties to six rankings, and the probabilities of some choices."""
    out = with_pseudo_rankings(tabled("fruits"), "apple", "davidson-luce")
    w = {i: np.exp(out[f"score {i}"]) for i in ("apple", "banana", "orange")}
    delta = np.exp(out["score tie2"])

    def choice(chosen: set[str], left: set[str]) -> float:
        sets = [{i} for i in left] + [{a, b} for a in left for b in left if a < b]
        f = [float(np.prod([w[i] for i in c]) ** (1 / len(c)) * (delta if len(c) == 2 else 1)) for c in sets]
        return f[sets.index(chosen)] / sum(f)

    every = {"apple", "banana", "orange"}
    return out | {
        "p of two: apple before banana": choice({"apple"}, {"apple", "banana"}),
        "p first of all three: banana": choice({"banana"}, every),
        "p tie banana orange of three": choice({"banana", "orange"}, every),
    }


def genes(method: str, **params: Any) -> Values:
    """Return the p-values of five short lists out of 500 genes."""
    found = cc.aggregate(cc.from_lists(TABLES["genes"]["lists"]), method, total=500, **params)
    return {f"p {i}": float(10**-s) for i, s in zip(found.items.tolist(), found.score.tolist(), strict=True)}


def strict(path: str) -> list[Ranking]:
    """Return the strict rankings of a file of PrefLib."""
    votes = cc.read_preflib(DATA / "preflib" / path)
    order = np.lexsort((votes.value, votes.row_list))
    names = votes.items[votes.slot[order]].tolist()
    ends = np.cumsum(votes.list_lengths).tolist()
    first = [0, *ends[:-1]]
    return [([[i] for i in names[a:b]], float(w)) for a, b, w in zip(first, ends, votes.weights, strict=True)]


def _pudding() -> Values:
    """Fit Davidson-Luce ties to the pudding data as rankings of two items."""
    votes = outcomes("pudding")
    rows = zip(*_pairs(votes), votes.n_ties, strict=True)
    both = [r for a, b, won, lost, tied in rows for r in (([[a], [b]], won), ([[b], [a]], lost), ([[a, b]], tied))]
    return plackett_luce(weighted(both), "1", "davidson-luce")


def _cems() -> Values:
    """Fit Davidson's ties to the business schools, the tie parameter under the name it has in psychotools."""
    return davidson("cems", "London", called="(undecided)")


FILES = {
    **{f"dots {n}": ("24-dots", f"00024-0000000{n}.soc", f"pictures with dots, {n} of 4") for n in range(1, 5)},
    **{f"puzzle {n}": ("25-puzzle", f"00025-0000000{n}.soc", f"sliding puzzles, {n} of 4") for n in range(1, 5)},
    "netflix 138": ("04-netflix", "00004-00000138.soc", "Netflix, four films"),
    "sushi 10": ("14-sushi", "00014-00000001.soc", "sushi, ten kinds"),
    "sushi scores": ("14-sushi", "00014-00000003.toi", "sushi, 100 kinds scored, with ties"),
    "debian 1": ("02-debian", "00002-00000001.toc", "Debian leader 2002, with ties"),
    "debian 3": ("02-debian", "00002-00000003.toc", "Debian leader 2005, with ties"),
    "debian 5": ("02-debian", "00002-00000005.toc", "Debian leader 2007, with ties"),
    "aspen 2": ("16-aspen", "00016-00000002.toc", "Aspen mayor 2009, with ties"),
}
BT, PL = "BradleyTerry(prior=0", "PlackettLuce(prior=0"
_NETFLIX = "04-netflix/00004-00000138.soc"
FITS: dict[str, Fit] = {
    "citations": Fit("citations, 4 journals", f"{BT})", lambda: bradley_terry("citations", "Biometrika")),
    "citations, JASA": Fit("citations, another reference", f"{BT})", lambda: bradley_terry("citations", "JASA")),
    "citations, printed": Fit("citations", f"{BT})", lambda: bradley_terry("citations", "Biometrika")),
    "citations, quasi": Fit("citations", "quasi_variances", lambda: quasi("citations")),
    "baseball": Fit("baseball 1987, 7 teams", f"{BT})", lambda: bradley_terry("baseball", "Baltimore")),
    "baseball, home": Fit(
        "baseball, at home", f"{BT}, side_effect=True)", lambda: bradley_terry("baseball", "Baltimore", home=True)
    ),
    "baseball, home, printed": Fit(
        "baseball, at home", f"{BT}, side_effect=True)", lambda: bradley_terry("baseball", "Baltimore", home=True)
    ),
    "baseball, quasi": Fit("baseball, at home", "quasi_variances", lambda: quasi("baseball", home=True)),
    "topmodel": Fit("top models 2007, 192 viewers", f"{BT})", lambda: bradley_terry("topmodel", "Barbara")),
    "first names": Fit("first names, 192 people", f"{BT})", lambda: bradley_terry("first names", "Tim")),
    "parties": Fit("parties 2009, 192 people", f"{BT})", lambda: bradley_terry("parties", "none")),
    "sound quality": Fit("sound, 8 formats", f"{BT})", lambda: bradley_terry("sound quality", "Mono")),
    "cems": Fit("CEMS, 6 schools, 303 students, with ties", f'{BT}, ties="davidson")', _cems),
    "pudding": Fit(
        "pudding, with ties", f'{BT}, ties="davidson")', lambda: davidson("pudding", "1"), "r-ranking/PlackettLuce"
    ),
    "pudding, printed": Fit("pudding, with ties", f'{PL}, ties="davidson-luce")', _pudding, "r-ranking/PlackettLuce"),
    "springall": Fit(
        "gelatine puddings, 9 recipes, with ties", f'{BT}, ties="davidson")', lambda: davidson("springall", "1")
    ),
    "springall, covariates": Fit("gelatine puddings, 5 covariates", f"{BT}), features", covariates),
    "sound fields": Fit(
        "sound fields, 8, with ties", f'{BT}, ties="davidson")', lambda: davidson("sound fields", "000")
    ),
    "football": Fit(
        "Premier League 2008-9, with ties, at home",
        f'{BT}, ties="davidson", side_effect=True)',
        lambda: davidson("football", "Ars", home=True),
    ),
    **{
        name: Fit(data, f"{PL})", lambda path=f"{folder}/{file}": preflib(path), f"preflib/{folder}")  # type: ignore[misc]
        for name, (folder, file, data) in FILES.items()
    },
    "netflix 138, pseudo-rankings": Fit(
        "Netflix, with R's pseudo-rankings",
        f"{PL})",
        lambda: with_pseudo_rankings(strict(_NETFLIX), "Mean Girls"),
        "preflib/04-netflix",
    ),
    "nascar, 83 drivers": Fit(
        "NASCAR 2002", f"{PL})", lambda: plackett_luce(weighted(races(83)), "1"), "r-ranking/PlackettLuce"
    ),
    "nascar, printed": Fit(
        "NASCAR 2002", f"{PL})", lambda: plackett_luce(weighted(races(83)), "1"), "r-ranking/PlackettLuce"
    ),
    "nascar, 87 drivers": Fit(
        "NASCAR 2002, all drivers, with R's pseudo-rankings",
        f"{PL})",
        lambda: with_pseudo_rankings(races(87), "1"),
        "r-ranking/PlackettLuce",
    ),
    "beans": Fit(
        "beans, 842 farmers", f"{PL})", lambda: plackett_luce(weighted(beans()), "ALS 0532-6"), "r-ranking/PlackettLuce"
    ),
    "potatoes, covariate": Fit("potatoes by eye, 1 covariate", f"{PL}), features", potatoes, "r-ranking/BayesMallows"),
    "toy network, A to C": Fit(
        "three items of a network", f"{PL})", lambda: plackett_luce(weighted(tabled("toy network", "D")), "A")
    ),
    "toy network": Fit(
        "four items of a network, with R's pseudo-rankings",
        f"{PL})",
        lambda: with_pseudo_rankings(tabled("toy network"), "A"),
    ),
    "videos": Fit(
        "videos, 7 viewers, with R's pseudo-rankings", f"{PL})", lambda: with_pseudo_rankings(tabled("videos"), "Spot")
    ),
    "fruits": Fit("six rankings with ties, with R's pseudo-rankings", f'{PL}, ties="davidson-luce")', fruits),
    "debian 1, Davidson-Luce": Fit(
        "Debian leader 2002, with ties",
        f'{PL}, ties="davidson-luce")',
        lambda: preflib("02-debian/00002-00000001.toc", "davidson-luce"),
        "preflib/02-debian",
    ),
    "ties of two and three": Fit(
        "six weighted rankings with ties of 2 and 3",
        f'{PL}, ties="davidson-luce")',
        lambda: plackett_luce(weighted(tabled("ties of two and three")), "a", "davidson-luce"),
    ),
    "genes, RRA": Fit(
        "five gene lists", 'RobustRank(correction="bonferroni")', lambda: genes("robust-rank", correction="bonferroni")
    ),
    "genes, exact": Fit("five gene lists", "RobustRank(exact=True)", lambda: genes("robust-rank", exact=True)),
    "genes, Stuart": Fit("five gene lists", "Stuart()", lambda: genes("stuart")),
}


# Comparison.


def digits(printed: str) -> float:
    """Return half a unit of the last digit printed."""
    number, _, power = printed.partition("e")
    return 0.5 * 10.0 ** (int(power or 0) - len(number.partition(".")[2]))


def compared(printed: Mapping[str, str], ours: Mapping[str, float]) -> dict[str, Any]:
    """Return how many values were compared, those that differ in a printed digit, the largest relative difference."""
    gaps = {name: abs(ours[name] - float(text)) for name, text in printed.items()}
    differ = {n: [printed[n], ours[n]] for n, gap in gaps.items() if not gap <= digits(printed[n]) * 1.0001}
    largest = max(gap / abs(float(printed[name])) for name, gap in gaps.items())
    return {"values": len(gaps), "largest": largest, "differ": differ}


def fit_named(name: str) -> dict[str, Any]:
    """Make a fit and compare it with R's values."""
    (given,) = (f for f in GIVEN["fits"] if f["name"] == name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        ours = FITS[name].values()
    source = given["source"]
    return {
        "data": FITS[name].data,
        "ours": FITS[name].call,
        "r": given["r"],
        "source": "run" if source == "run" else source,
        **compared(given["values"], ours),
    }


def available(name: str) -> bool:
    """Return whether the data of a fit are there."""
    return not FITS[name].needs or (DATA / FITS[name].needs).is_dir()


def r_fits() -> dict[str, Any]:
    """Classic data sets beside R's printed values."""
    there = [name for name in FITS if available(name)]
    rows = {name: fit_named(name) for name in there}
    return {
        "rows": rows,
        "left_out": [name for name in FITS if name not in there],
        "run": GIVEN["run"],
        "mallows": {n: mallows(n) for n in ("dots 1", "puzzle 1") if available(n)},
        "failed": any(r["differ"] for name, r in rows.items() if name not in STOPPED_EARLY),
    }


def mallows(name: str) -> dict[str, float]:
    """Return the dispersion and log-likelihood of Mallows' model, ours and the best over all centres by SciPy."""
    folder, file, _ = FILES[name]
    votes = cc.read_preflib(DATA / "preflib" / folder / file)
    model = cc.Mallows()
    model.fit_predict(votes)
    items = votes.items.tolist()
    lists = [([i for (i,) in blocks], w) for blocks, w in strict(f"{folder}/{file}")]
    orders = list(permutations(items))

    def distance(a: Iterable[str], b: Iterable[str]) -> int:
        x, y = list(a), list(b)
        return sum(
            (x.index(i) - x.index(j)) * (y.index(i) - y.index(j)) < 0 for n, i in enumerate(items) for j in items[:n]
        )

    spread = np.array([distance(orders[0], o) for o in orders])
    best = (np.inf, 0.0)
    for centre in orders:
        total, n = sum(w * distance(centre, order) for order, w in lists), sum(w for _, w in lists)

        def loss(theta: float, total: float = total, n: float = n) -> float:
            return float(n * np.log(np.exp(theta * spread).sum()) - theta * total)

        found = minimize_scalar(loss, bounds=(-5, 0), method="bounded", options={"xatol": 1e-12})
        best = min(best, (float(found.fun), float(found.x)))
    (theta,) = model.dispersion_.values()
    return {
        "ours": theta, "scipy": best[1], "our_loglik": float(model.fit_info_.objective or 0.0), "scipy_loglik": -best[0]
    }  # fmt: skip


def _shown(r: dict[str, Any]) -> str:
    rows = [
        [v["data"], f"`{v['ours']}`", v["r"], v["source"], v["values"],
         "yes" if not v["differ"] else ", ".join(f"{k}: {a} (ours {b:.8g})" for k, (a, b) in v["differ"].items())]
        for v in r["rows"].values()
    ]  # fmt: skip
    whole = sum(not v["differ"] for v in r["rows"].values())
    parts = [
        f"{whole} of {len(r['rows'])} comparisons on {len({name.split(',')[0] for name in r['rows']})} data sets equal "
        "R's values in every digit printed: "
        f"{sum(v['values'] for v in r['rows'].values()):,} scores, standard errors, tie parameters, log-likelihoods, "
        "deviances, quasi-variances and p-values. Scores are relative to R's reference item. All fits are maximum "
        "likelihood (prior=0). R's pseudo-rankings (half a win and half a loss of every item against a hypothetical "
        "one) are given as lists of weight ½. In R, coxph with a stratum for each list is Plackett-Luce with the ties "
        f'of ties="average". Source "run": {r["run"]}.',
        table(["data", "ours", "R", "source", "values", "equal to the digits printed"], rows),
    ]
    if STOPPED_EARLY & r["rows"].keys():
        parts.append(
            "The one that differs is not R's optimum: PlackettLuce stops at a tolerance of 1e-6; version 0.2 printed "
            "0.5184184, version 0.4 prints 0.5184185."
        )
    if r["mallows"]:
        rows = [
            [n, f"{v['ours']:.7f}", f"{v['scipy']:.7f}", f"{v['our_loglik']:.4f}", f"{v['scipy_loglik']:.4f}"]
            for n, v in r["mallows"].items()
        ]
        head = ["", "θ", "θ by SciPy", "log-likelihood", "by SciPy"]
        parts += [
            "No R package at hand prints Mallows' maximum-likelihood estimate, so it stands beside SciPy's, the best "
            "over all 24 rankings of the likelihood written out:",
            table(head, rows),
        ]
    if r["left_out"]:
        parts.append(f"Left out, as their data are not there: {', '.join(r['left_out'])}.")
    return "\n\n".join(parts)


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"r_fits": r_fits}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {"r_fits": _shown}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or FITS:
        print(chosen, fit_named(chosen))
