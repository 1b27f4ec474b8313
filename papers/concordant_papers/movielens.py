"""MovieLens: one ranking of all films, its NDCG for each user, and the films at both ends.

Every user is an expert who rates some films of one instance. Missing ratings are imputed before a ranking is evaluated,
so that every number depends on the aggregation method and on the imputation. The published tables name the films at the
ends, which separates the two effects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import concordant as cc
from concordant.metrics import paired_t_test
from concordant_papers import imputation, published
from concordant_papers._arrays import Floats
from concordant_papers.engine import Cell, Setting
from concordant_papers.pages import Claim, Page, Picture, Row, Table

__all__ = ["FOLDER", "page_films", "page_imputed", "plan_films", "plan_imputed"]

FOLDER = "movielens-100k"
# Name of the synthetic data, in place of a folder.
SYNTHETIC = "synthetic-ratings"
TABLE_2, TABLE_3 = "001_table2_movielens", "001_table3_movielens_top_bottom"
CUTOFFS = range(1, 11)
COLUMNS = [f"N@{k}" for k in CUTOFFS]
CONSTANTS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5)
# Of figure 3.
CONSTANT_COLUMNS = ("N@1", "N@5", "N@10")
TOLERANCE = 0.7
# As published: 100 steps of gradient ascent, rating differences as counts, ties of a list broken at random.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Bradley-Terry": ("bradley-terry", {"optimizer": "gd", "transform": "rating", "uncertainty": "none"}),
    "Plackett-Luce": ("plackett-luce", {"optimizer": "gd", "ties": "random", "uncertainty": "none"}),
    "MPM": ("mpm", {"adherence": "none", "variances": True, "optimizer": "gd", "uncertainty": "none"}),
}
# The defaults of the library, and the model without variances.
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "Bradley-Terry, prior=published": (
        "bradley-terry",
        {"prior": "published", "transform": "rating", "uncertainty": "none"},
    ),
    "Bradley-Terry, at its defaults": ("bradley-terry", {"uncertainty": "none"}),
    "Plackett-Luce, prior=published": ("plackett-luce", {"prior": "published", "uncertainty": "none"}),
    "Plackett-Luce, at its defaults": ("plackett-luce", {"uncertainty": "none"}),
    "MPM, equal variances": ("mpm", {"adherence": "none", "uncertainty": "none"}),
}
# The model without variances is compared with the printed row of MPM where the weights are halved.
EQUAL = "MPM, equal variances"
# Key of a part of a cell -> (name on the page, half of table 2 to compare with).
HALVES = {
    "PMF": ("PMF", "PMF"),
    "neighbor": ("neighbours", "neighbor"),
    "fixed": ("fixed neighbours", "neighbor"),
    "cosine": ("cosine neighbours", "neighbor"),
}
# The neighbours that give the printed N@1 of Bradley-Terry.
COSINE: dict[str, Any] = {
    "nearest": None,
    "significance": None,
    "least": 1,
    "measure": "cosine",
    "centred": False,
    "fewest": 10,
}
_SEEN = (
    "the similarity, the fall-back for films with fewer than 10 raters and half the weight from the second place on, "
    "among a few dozen variants"
)
# The neighbours that are shown with half weights: the file of the table, and what was seen.
HALVED = {
    "neighbor": (
        "movielens-neighbours-half-weight",
        "half the weight from the second place on, among a few dozen variants",
    ),
    "cosine": ("movielens-cosine-half-weight", _SEEN),
}
# The neighbours of one table, and the steps of all rows: the library's lengths were set with these rows in view.
_COSINE_SEEN = "the similarity and the fall-back for films with fewer than 10 raters, among a few dozen variants"
_STEP_SEEN = {
    "Bradley-Terry": "the length of the gradient steps",
    "Plackett-Luce": "the length of the gradient steps, on LETOR",
    "MPM": "the length of the gradient steps, on LETOR",
}
# The films figure 4 names: in the middle of the ranking, with low variances; users, won, lost.
NAMED = {"Sabrina": (190, 10190, 12347), "Mrs. Doubtfire": (192, 13251, 17551), "Ghost": (170, 11785, 14452)}


class Films(NamedTuple):
    """The ratings, and for every film its title and its numbers of raters, wins and losses."""

    votes: cc.Preferences
    title: list[str]
    users: Floats
    won: Floats
    lost: Floats

    def counts(self, slot: int) -> dict[str, float]:
        """Return the three counts of a film, by the names of the published columns."""
        return {name: float(getattr(self, name)[slot]) for name in ("users", "won", "lost")}

    def called(self, users: float, won: float, lost: float) -> int | None:
        """Return the film with these counts, None where there is not exactly one."""
        found = np.flatnonzero((self.users == users) & (self.won == won) & (self.lost == lost))
        return int(found[0]) if len(found) == 1 else None


@cache
def films(folder: str) -> Films:
    """Return the films of a folder, read once in a process."""
    if folder == SYNTHETIC:
        votes = _synthetic()
        title = {item: f"film {item}" for item in votes.items}
    else:
        votes = cc.read_ratings(Path(folder) / "u.data")
        lines = (Path(folder) / "u.item").read_text(encoding="latin-1").splitlines()
        title = {line.split("|")[0]: line.split("|")[1] for line in lines}
    won, lost = (np.bincount(votes.slot, s, votes.n_slots).astype(np.float64) for s in votes.pair_sums("binary"))
    users = np.bincount(votes.slot, minlength=votes.n_slots).astype(np.float64)
    return Films(votes, [title[item] for item in votes.items], users, won, lost)


def _synthetic(n_users: int = 80, n_films: int = 150) -> cc.Preferences:
    """Return synthetic ratings by users with tastes: later films have fewer raters, and every tenth film is good."""
    rng = np.random.default_rng(4)
    quality = rng.normal(0.0, 0.4, n_films)
    quality[::10] = 1.5
    taste = rng.normal(0.0, 0.6, (n_users, 2)) @ rng.normal(0.0, 0.6, (2, n_films))
    seen = 3.3 + quality + taste + rng.normal(0.0, 0.3, (n_users, 1)) + rng.normal(0.0, 0.6, (n_users, n_films))
    rating = np.clip(np.round(seen), imputation.LOWEST, imputation.HIGHEST)
    there = rng.random((n_users, n_films)) < np.geomspace(0.95, 0.03, n_films)
    user, film = np.nonzero(there)
    return cc.Preferences(
        ["all"] * len(user),
        [f"u{u + 1}" for u in user],
        [str(f + 1) for f in film],
        rating[user, film],
        kind="rating",
        items=[("all", str(f + 1)) for f in range(n_films)],
    )


@cache
def ranked(folder: str, model: str, seed: int = 0) -> cc.Consensus:
    """Return the ranking of all films by a model."""
    method, params = (MODELS | OURS)[model]
    way: Any = cc.METHODS[method]
    found: cc.Consensus = way(random_state=seed, **params).fit_predict(films(folder).votes)
    return found


def _borda(votes: cc.Preferences, completed: Floats) -> cc.Consensus:
    """Return an imputation as an aggregator: Borda over the complete ratings of all users."""
    return cc.Borda().fit_predict(imputation.fill_in(votes, completed))


def judged(consensus: cc.Consensus, votes: cc.Preferences, completed: Floats) -> dict[str, Floats]:
    """Return N@1-10 of a ranking for every user, in percent: gains 2^rating − 1 of the completed ratings."""
    every = cc.Consensus.from_codes(votes.slots, np.zeros(votes.n_slots)).broadcast(votes.experts)
    labels = cc.Labels.from_codes(every.slots, np.ascontiguousarray(completed).reshape(-1).copy())
    # The ideal order uses all films; only the top of the ranking is needed.
    top = consensus.top(min(CUTOFFS[-1], consensus.n_slots)).broadcast(votes.experts)
    found = cc.evaluate(top, labels, "ndcg@1-10", convention="paper")
    return {c: 100 * found.values[f"ndcg@{k}"] for c, k in zip(COLUMNS, CUTOFFS, strict=True)}


def _short(values: Mapping[str, Floats]) -> dict[str, list[float]]:
    return {c: [round(float(v), 4) for v in of] for c, of in values.items()}


# Cells.


def completed_by_both(*, folder: str, seed: int, passes: int) -> dict[str, Any]:
    """Return N@1-10 of every user for every row of both halves of table 2, and of the films that were printed."""
    data = films(folder)
    votes = data.votes
    completed = {
        "PMF": imputation.pmf(votes, passes=passes, random_state=seed),
        "neighbor": _neighbours(folder, "raters"),
        "fixed": _neighbours(folder, "all"),
        "cosine": _cosine_neighbours(folder),
    }
    rankings = {model: ranked(folder, model, seed) for model in MODELS | OURS}
    out: dict[str, Any] = {}
    for half, table in completed.items():
        other, guesser = ("neighbor", "Neighbor-based") if half == "PMF" else ("PMF", "PMF")
        rows = rankings | {guesser: _borda(votes, completed[other])}
        out[half] = {row: _short(judged(consensus, votes, table)) for row, consensus in rows.items()}
        if half in HALVED:
            out[f"{half}, half weight"] = {
                row: _short(_half_weight(consensus, table))
                for row, consensus in rows.items()
                if row not in OURS or row == EQUAL
            }
        firsts = {row: int(consensus.order()[0]) for row, consensus in rows.items()}
        out.setdefault("first", {})[half] = {row: [data.title[s], data.users[s]] for row, s in firsts.items()}
    out["printed"] = {
        half: {model: _printed(slots, table) for model, slots in _first_films(folder).items()}
        for half, table in completed.items()
    }
    return out


@cache
def _neighbours(folder: str, among: str) -> Floats:
    return imputation.neighbours(films(folder).votes, among=among)


@cache
def _cosine_neighbours(folder: str) -> Floats:
    return imputation.neighbours(films(folder).votes, **COSINE)


def _half_weight(consensus: cc.Consensus, completed: Floats) -> dict[str, Floats]:
    """Return N@1-10 of a ranking for every user, in percent, with half the weight from the second place on."""
    top = consensus.order()[: CUTOFFS[-1]]
    gain = 2.0**completed - 1
    weight = 1 / np.log2(np.arange(2, len(top) + 2))
    ideal = np.cumsum(-np.sort(-gain, axis=1)[:, : len(top)] * weight, axis=1)
    halved = np.where(np.arange(len(top)) == 0, 1.0, 0.5) * weight
    found = 100 * np.cumsum(gain[:, top] * halved, axis=1) / ideal
    return {c: found[:, min(k, len(top)) - 1] for c, k in zip(COLUMNS, CUTOFFS, strict=True)}


def _first_films(folder: str) -> dict[str, list[int]]:
    """Return the printed top five of every model, if all can be identified by their counts."""
    out = {}
    for model in MODELS:
        slots = [films(folder).called(*_counts(row)) for row in _printed_rows(model, "top")]
        known = [s for s in slots if s is not None]
        if len(known) == len(slots):
            out[model] = known
    return out


def _printed_rows(model: str, end: str = "") -> list[dict[str, str]]:
    rows = [r for r in published.rows(TABLE_3) if r["model"] == model and r["list_position"].startswith(end)]
    return sorted(rows, key=lambda r: r["list_position"][-1])


def _counts(row: Mapping[str, str]) -> tuple[float, float, float]:
    return float(row["n_users"]), float(row["n_won"]), float(row["n_lost"])


def _printed(slots: Sequence[int], completed: Floats) -> dict[str, list[float]]:
    """Return the mean gain of every film over the best possible one of a user, and N@k of the films in this order."""
    gain = 2.0**completed - 1
    best = -np.sort(-gain, axis=1)[:, : len(slots)]
    weight = 1 / np.log2(np.arange(2, len(slots) + 2))
    ideal = np.cumsum(best * weight, axis=1)
    half = np.where(np.arange(len(slots)) == 0, 1.0, 0.5) * weight
    return {
        "gain": (100 * (gain[:, slots] / best[:, :1]).mean(axis=0)).tolist(),
        "ndcg": (100 * (np.cumsum(gain[:, slots] * weight, axis=1) / ideal).mean(axis=0)).tolist(),
        "halved": (100 * (np.cumsum(gain[:, slots] * half, axis=1) / ideal).mean(axis=0)).tolist(),
    }


def completed_by_constants(*, folder: str) -> dict[str, Any]:
    """Return N@1, 5 and 10 of the models for every constant, and the p-values of their differences to MPM."""
    votes = films(folder).votes
    out: dict[str, Any] = {}
    for value in CONSTANTS:
        table = imputation.constant(votes, value)
        found = {model: judged(ranked(folder, model), votes, table) for model in MODELS}
        out[f"{value:g}"] = {
            model: {
                "mean": {c: float(of[c].mean()) for c in CONSTANT_COLUMNS},
                "p": {c: paired_t_test(found["MPM"][c] - of[c]).p_value for c in CONSTANT_COLUMNS},
            }
            for model, of in found.items()
        }
    return out


# Name -> the function and its options.
_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "PMF, l2 = 0.02": ("pmf", {"l2": 0.02}),
    "PMF, l2 = 0.05 (used)": ("pmf", {}),
    "PMF, l2 = 0.1": ("pmf", {"l2": 0.1}),
    "50 neighbours, few common films count less (used)": ("neighbours", {}),
    "50 neighbours": ("neighbours", {"significance": None}),
    "50 fixed neighbours, few common films count less (used)": ("neighbours", {"among": "all"}),
    "50 fixed neighbours": ("neighbours", {"among": "all", "significance": None}),
    "all neighbours, few common films count less": ("neighbours", {"nearest": None}),
    "all neighbours": ("neighbours", {"nearest": None, "significance": None}),
    "cosine neighbours, fewer than 10: the mean of all ratings (used)": ("neighbours", COSINE),
}


def held_out(*, folder: str, option: str, passes: int, seed: int) -> dict[str, Any]:
    """Return the error of the imputations on a held-out tenth of the ratings, and N@1 of the printed first films.

    The second part imputes from all ratings. N@1 is the mean gain of a film over that of the best film of each user.
    """
    votes = films(folder).votes
    held = np.random.default_rng(seed).random(votes.n_rows) < 0.1
    kept = np.flatnonzero(~held)
    rest = cc.Preferences(
        ["all"] * len(kept),
        votes.experts.take(votes.row_expert[kept]),
        votes.items.take(votes.slot[kept]),
        votes.value[kept],
        kind="rating",
        items=[("all", item) for item in votes.items],
        experts=votes.experts,
    )

    def complete(from_: cc.Preferences) -> Floats:
        name, params = _OPTIONS[option]
        if name == "pmf":
            return imputation.pmf(from_, passes=passes, random_state=seed, **params)
        return imputation.neighbours(from_, **params)

    gap = complete(rest)[votes.row_expert[held], votes.slot[held]] - votes.value[held]
    whole = complete(votes)
    first = {model: _printed(slots, whole)["ndcg"][0] for model, slots in _first_films(folder).items()}
    return {"rmse": float(np.sqrt(np.mean(gap**2))), "first": first}


# Name in the published table -> the place. Its last films are read with the worst first: so read, all those of
# Bradley-Terry are ours, place by place.
_PLACES = {f"top{n}": n for n in range(1, 6)} | {f"bottom{n}": n - 6 for n in range(5, 0, -1)}


def _more_extreme(data: Films, slot: int, end: str) -> int:
    """Return the number of films with at least as many raters and a larger (at the top) or smaller share of wins."""
    share = data.won / np.maximum(data.won + data.lost, 1)
    beyond = share > share[slot] if end.startswith("top") else share < share[slot]
    return int(np.sum(beyond & (data.users >= data.users[slot])))


def ends(*, folder: str, model: str, seed: int) -> dict[str, Any]:
    """Return the five films at both ends of the ranking of a model, and its ranks of the printed films."""
    data, consensus = films(folder), ranked(folder, model, seed)
    order = consensus.order().tolist()
    place = {slot: n for n, slot in enumerate(order, 1)}

    def of(slot: int) -> dict[str, Any]:
        return {"title": data.title[slot]} | data.counts(slot)

    printed = {}
    for row in _printed_rows(model.partition(",")[0]):
        slot = data.called(*_counts(row))
        if slot is not None:
            printed[row["list_position"]] = [place[slot], _more_extreme(data, slot, row["list_position"])]
    return {
        "films": {name: of(order[at - 1 if at > 0 else at]) for name, at in _PLACES.items()},
        "printed": printed,
        "n": len(order),
        "n_users": data.votes.n_experts,
    }


def variances(*, folder: str) -> dict[str, Any]:
    """Return γ of every film under MPM, in the order of the ranking, and the films that figure 4 names."""
    data = films(folder)
    method, params = MODELS["MPM"]
    model: Any = cc.METHODS[method](**params)
    order = model.fit_predict(data.votes).order()
    place = {int(slot): n for n, slot in enumerate(order, 1)}
    named = {}
    for name, counts in NAMED.items():
        slot = data.called(*counts)
        if slot is not None:
            named[name] = data.counts(slot) | {"place": place[slot], "title": data.title[slot]}
    return {
        "gamma": [round(float(g), 6) for g in model.variance_[order]],
        "users": data.users[order].tolist(),
        "named": named,
    }


def found_by(*, folder: str, model: str, params: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of printed films among the five at each end, for a variant of a model."""
    method, usual = MODELS[model]
    data = films(folder)
    order = cc.METHODS[method](**(usual | dict(params))).fit_predict(data.votes).order().tolist()
    out = {}
    for end, five in (("top", order[:5]), ("bottom", order[-5:])):
        printed = {data.called(*_counts(row)) for row in _printed_rows(model, end)}
        out[end] = len(printed & set(five))
    return out


# Table 2 and figure 3.


def _where(setting: Setting) -> str | None:
    if setting.quick:
        return SYNTHETIC
    folder = setting.folder(FOLDER)
    return None if folder is None else str(folder)


def _reads(folder: str) -> tuple[Path, ...]:
    return () if folder == SYNTHETIC else (Path(folder),)


def plan_imputed(setting: Setting) -> list[Cell]:
    """Return the cells of table 2 and figure 3."""
    folder = _where(setting)
    if folder is None:
        return []
    reads, passes = _reads(folder), 10 if setting.quick else 50
    out = [
        Cell(f"seed {seed}", completed_by_both, {"folder": folder, "seed": seed, "passes": passes}, reads, 25.0)
        for seed in range(setting.seeds)
    ]
    out.append(Cell("constants", completed_by_constants, {"folder": folder}, reads, 30.0))
    for option in _OPTIONS:
        arguments = {"folder": folder, "option": option, "passes": passes, "seed": 1}
        out.append(Cell(f"held out/{option}", held_out, arguments, reads, 15.0))
    return out


def page_imputed(setting: Setting, values: Mapping[str, Any]) -> Page:
    """Return table 2, figure 3, and the evidence that separates aggregation from imputation."""
    runs = [value for key, value in values.items() if key.startswith("seed ")]
    tables: list[Table] = []
    claims: list[Claim] = []
    pictures: list[Picture] = []
    notes: list[str] = []
    for half, (said, beside) in HALVES.items():
        found = _over_seeds([run[half] for run in runs])
        printed = {} if setting.quick else _published_half(beside)
        firsts = runs[0]["first"][half] if runs else {}
        tables.append(_half(half, said, found, printed, _first_gaps(runs, half), firsts))
        looked_at = _half_claims(half, said, found)
        if half in ("fixed", "cosine"):
            # Further readings of the same half are shown, but each claim of the paper counts once.
            notes += [_further_reading(said, looked_at)] if looked_at else []
        else:
            claims += looked_at
    for half in HALVED:
        found = _over_seeds([run[f"{half}, half weight"] for run in runs])
        tables.append(_halved(half, found, {} if setting.quick else _published_half("neighbor")))
    if not setting.quick:
        tables += _evidence(runs, values)
    if "constants" in values:
        table, more, drawn = _constants(values["constants"])
        tables.append(table)
        claims += more
        pictures += drawn
    notes += [
        "Bradley-Terry, Plackett-Luce and MPM are fitted to the observed ratings alone by 100 gradient steps, as "
        "published; PMF and the neighbours aggregate by completing the ratings, sorting the films of every user, and a "
        "Borda count. What is imputed is kept within 1 and 5, constants are not."
    ]
    if not setting.quick:
        notes.append(
            "With half the weight from the second place on, every film that is printed in two rows has the same gain "
            "in both, within 2.2 points, and with cosine neighbours the printed N@1 of Bradley-Terry comes out to the "
            "digit. Both were found by looking at the printed numbers, among a few dozen variants. The neighbours of "
            "the main table are those with the least error on ratings held out; PMF has l2 = 0.05, which was fixed "
            "beforehand and is not the best of those tried."
        )
    return Page(tables, claims, pictures, notes)


def _published_half(half: str) -> dict[str, dict[str, float]]:
    names = [r["method"] for r in published.rows(TABLE_2) if r["imputation"] == half]
    return {n: published.cells(TABLE_2, imputation=half, method=n) or {} for n in names}


def _further_reading(name: str, claims: Sequence[Claim]) -> str:
    """Check the claims about neighbours with other neighbours."""
    said = "; ".join(f"{c.text.partition(': ')[2]}: {'holds' if c.holds else 'does not hold'}" for c in claims)
    return (
        f"{name.capitalize()} are a further reading of the same half, added after the first was seen; its claims are "
        f"not counted. With them: {said}."
    )


def _halved(half: str, found: Mapping[str, _Found], printed: Mapping[str, Mapping[str, float]]) -> Table:
    """Return the neighbours' half of table 2 with half the weight from the second place on.

    Cells are counted with the neighbours that come closest, the cosine ones.
    """
    file, looked_at = HALVED[half]
    tolerance = TOLERANCE if half == "cosine" else None
    rows = []
    for name in [*printed, EQUAL] if printed else found:
        theirs = printed.get("MPM" if name == EQUAL else name, {})
        # MPM is compared twice, and counted once.
        limit = tolerance if theirs and name != EQUAL else None
        if name not in found:
            rows.append(Row(name, {}, theirs, limit, why="not computed: a part of it failed"))
            continue
        mean = found[name].mean
        out = [c for c in theirs if limit is not None and mean[c] < theirs[c] - limit]
        why = (
            f"{', '.join(out)} is that of the film at the first place, which depends on the imputation alone; no "
            "imputation that was tried gives the printed values of all four rows"
            if out
            else "beside the printed row of MPM"
            if name == EQUAL and theirs
            else ""
        )
        seen = _seen(name, looked_at)
        rows.append(Row(name, mean, theirs, limit, errors=found[name].errors, why=why, seen=seen if theirs else ""))
    equal = printed.get("MPM", {}) if EQUAL in found else {}
    largest = max((abs(found[EQUAL].mean[c] - v) for c, v in equal.items()), default=math.nan)
    return Table(
        file,
        f"Missing ratings imputed by {HALVES[half][0]}, with half the weight from the second place on",
        COLUMNS,
        rows,
        note="Neighbours are weighted by the cosine of all ratings, their ratings are averaged, and a film with fewer "
        "than 10 raters gets the mean of all ratings. This is the neighbours' half of table 2 as we can best reach it; "
        "the tables above follow the formula of NDCG."
        if half == "cosine"
        else "The neighbours of the main table. The printed top five of MPM are those of equal variances (see "
        "movielens-films)"
        + (f", which are within {largest:.1f} of the printed row in every column." if printed else "."),
    )


class _Found(NamedTuple):
    """Of a row: the values of every user, mean over the seeds, and the means of the seeds."""

    users: dict[str, Floats]
    means: dict[str, list[float]]

    @property
    def mean(self) -> dict[str, float]:
        return {c: float(v.mean()) for c, v in self.users.items()}

    @property
    def errors(self) -> dict[str, float]:
        # A deterministic row has no standard error.
        return {
            c: float(np.std(v, ddof=1) / len(v) ** 0.5)
            for c, v in self.means.items()
            if len(v) > 1 and max(v) - min(v) > 1e-9
        }


def _over_seeds(runs: Sequence[Mapping[str, Any]]) -> dict[str, _Found]:
    return {
        row: _Found(
            {c: np.mean([run[row][c] for run in runs], axis=0) for c in COLUMNS},
            {c: [float(np.mean(run[row][c])) for run in runs] for c in COLUMNS},
        )
        for row in (runs[0] if runs else {})
    }


def _first_gaps(runs: Sequence[Mapping[str, Any]], half: str) -> dict[str, float]:
    """Return N@1 of the film each model was printed to put first, under our imputation."""
    if not runs:
        return {}
    models = runs[0]["printed"][half]
    return {m: float(np.mean([run["printed"][half][m]["ndcg"][0] for run in runs])) for m in models}


def _half(
    half: str,
    said: str,
    found: Mapping[str, _Found],
    printed: Mapping[str, Mapping[str, float]],
    first: Mapping[str, float],
    titles: Mapping[str, Sequence[Any]],
) -> Table:
    # Each half is compared with the printed one once: the neighbours' by `_closest`.
    tolerance = TOLERANCE if half == "PMF" else None
    rows = []
    order = [*(printed or [r for r in found if r not in OURS]), *OURS]
    for name in order:
        theirs = printed.get(name, {})
        if name not in found:
            rows.append(Row(name, {}, theirs, tolerance, why="not computed: a part of it failed"))
            continue
        mine, mpm = found[name], found["MPM"]
        marks = (
            {}
            if name == "MPM"
            else {c: "*" for c in COLUMNS if paired_t_test(mine.users[c] - mpm.users[c]).p_value < 0.05}
        )
        why = _shortfall(name, mine.mean, theirs, first, titles) if tolerance is not None else ""
        seen = _seen(name, _COSINE_SEEN if half == "cosine" else "") if theirs else ""
        limit = tolerance if theirs else None
        rows.append(Row(name, mine.mean, theirs, limit, errors=mine.errors, marks=marks, why=why, seen=seen))
    note = (
        "Mean over users, percent. ± is the standard error over seeds. * differs from MPM: paired two-sided t-test "
        "over users, 5 percent, values of a user averaged over seeds first."
    )
    if half == "fixed":
        note += (
            " The 50 nearest users are the same for every film, so that a film few users rated is mostly given a "
            "user's mean; the table of imputations has its error on ratings held out."
        )
    return Table(
        f"movielens-{said.lower().replace(' ', '-')}", f"Missing ratings imputed by {said}", COLUMNS, rows, note=note
    )


def _seen(row: str, imputation: str) -> str:
    return "; ".join(text for text in (imputation, _STEP_SEEN.get(row, "")) if text)


def _shortfall(
    name: str,
    mean: Mapping[str, float],
    theirs: Mapping[str, float],
    first: Mapping[str, float],
    titles: Mapping[str, Sequence[Any]],
) -> str:
    """Explain values below the printed ones: N@1 depends on one film, which is known on both sides."""
    below = [c for c, v in theirs.items() if mean[c] < v - TOLERANCE]
    if not below:
        return ""
    title, users = titles[name]
    words = [f"below in {', '.join(below)} alone"] if len(below) < len(theirs) else []
    words.append(f"ours puts {title} first, which {users:g} users rated")
    if name in first:
        words.append(
            f"the film that was printed first has N@1 {first[name]:.2f} under our imputation and {theirs['N@1']:.2f} "
            "in the table, whoever aggregates: the imputations differ"
        )
    else:
        words.append("here the aggregation is imputed too, and neither imputation was stated")
    return "; ".join(words)


def _half_claims(half: str, said: str, found: Mapping[str, _Found]) -> list[Claim]:
    if not found:
        return []
    bt, pl, mpm = (found[m].mean for m in MODELS)

    def above(a: Mapping[str, float], b: Mapping[str, float], columns: Sequence[str], text: str) -> Claim:
        gaps = {c: a[c] - b[c] for c in columns}
        holds = min(gaps.values()) > 0
        return Claim(
            f"Imputed by {said}: {text}",
            holds,
            f"differences from {min(gaps.values()):+.2f} to {max(gaps.values()):+.2f}; above in "
            f"{sum(g > 0 for g in gaps.values())} of {len(gaps)}"
            if len(gaps) > 1
            else f"difference {min(gaps.values()):+.2f}",
        )

    if half == "PMF":
        claims = [
            above(mpm, pl, COLUMNS[1:], "MPM above Plackett-Luce from N@2 on"),
            above(pl, mpm, COLUMNS[:1], "Plackett-Luce above MPM at N@1"),
        ]
    else:
        claims = [above(mpm, pl, COLUMNS, "MPM above Plackett-Luce")]
    for name, row in (("Plackett-Luce", pl), ("MPM", mpm)):
        claims.append(above(row, bt, COLUMNS, f"{name} above Bradley-Terry"))
    if half != "PMF":
        claims.append(above(found["PMF"].mean, mpm, COLUMNS[5:], "PMF as an aggregator above MPM from N@6 on"))
        claims.append(above(mpm, found["PMF"].mean, COLUMNS[:5], "MPM above PMF as an aggregator up to N@5"))
    return claims


def _evidence(runs: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> list[Table]:
    """Return our evaluation of the printed films, and the errors of the imputations on held-out ratings."""
    rows = []
    columns = COLUMNS[:5]
    for half in ("PMF", "neighbor"):
        printed = _published_half(half)
        for model in runs[0]["printed"][half] if runs else []:
            mean = {
                what: np.mean([run["printed"][half][model][what] for run in runs], axis=0).tolist()
                for what in ("gain", "ndcg", "halved")
            }
            theirs = {c: printed[model][c] for c in columns}
            shown = "PMF" if half == "PMF" else "neighbours"
            rows += [
                Row(f"{model}, {shown}: N@k", dict(zip(columns, mean["ndcg"], strict=True)), theirs),
                Row(f"{model}, {shown}: half weight", dict(zip(columns, mean["halved"], strict=True)), theirs),
                Row(
                    f"{model}, {shown}: gain of each film",
                    dict(zip(columns, mean["gain"], strict=True)),
                    _needed(theirs),
                ),
            ]
    out = [
        Table(
            "movielens-printed-films",
            "The printed top five of each model, in the printed order, judged by our imputations",
            columns,
            rows,
            note="Nothing of our rankings enters here. First row of each: NDCG by its formula; second: with half the "
            "weight from the second place on; third: the mean gain of the film at each place over that of a user's "
            "best film, beside the gain it needs for the printed N@k (where a user's five best are alike). "
            + _halves(),
        )
    ]
    options = {o: values[f"held out/{o}"] for o in _OPTIONS if f"held out/{o}" in values}
    rows = [
        Row(o, {"RMSE": v["rmse"]} | {f"first of {m}": v["first"][m] for m in v["first"]}) for o, v in options.items()
    ]
    said = "; ".join(
        f"{half}: " + ", ".join(f"{_published_half(half)[m]['N@1']:.2f} ({m})" for m in MODELS)
        for half in ("PMF", "neighbor")
    )
    out.append(
        Table(
            "movielens-imputations",
            "Imputations: error on ratings held out, and N@1 of the film each model was printed to put first",
            ["RMSE", *(f"first of {m}" for m in MODELS)],
            rows,
            digits=3,
            note="A tenth of the ratings was held out for the error; N@1 is of all ratings. PMF is of one seed. Pather "
            "Panchali, first of Bradley-Terry, was rated by 8 users and is imputed for all others. Printed N@1: "
            f"{said}.",
        )
    )
    return out


def _halves() -> str:
    """Compare the gains that the printed values give a film in the two rows where it stands."""
    return (
        f"A film has one gain wherever it stands. By the formula, the printed rows give {_gains_of_films(False)}; with "
        f"half the weight from the second place on, {_gains_of_films(True)}. So the printed values agree with each "
        "other if the weights were halved, and ours by the formula are above them."
    )


def _gains_of_films(halved: bool) -> str:
    words = []
    for half in ("PMF", "neighbor"):
        gains: dict[str, dict[str, float]] = {}
        for model, theirs in _published_half(half).items():
            needed = list(_needed({c: theirs[c] for c in COLUMNS[:5]}, halved).values())
            for row, gain in zip(_printed_rows(model, "top"), needed, strict=False):
                gains.setdefault(row["movie"], {})[f"{row['list_position'][-1]} of {model}"] = gain
        for movie, of in gains.items():
            places = [place[0] for place in of]
            if len(places) > 1:
                words.append(f"{movie} ({half}) " + ", ".join(f"{gain:.1f} as {place}" for place, gain in of.items()))
    return "; ".join(words)


def _needed(theirs: Mapping[str, float], halved: bool = False) -> dict[str, float]:
    """Return the gain at each rank that the printed values imply, if the best films of a user have equal gains."""
    weight = 1 / np.log2(np.arange(2, len(theirs) + 2))
    total = np.array(list(theirs.values())) * np.cumsum(weight)
    if halved:
        weight = weight * np.where(np.arange(len(theirs)) == 0, 1.0, 0.5)
    return dict(zip(theirs, (np.diff(total, prepend=0.0) / weight).tolist(), strict=True))


def _constants(found: Mapping[str, Any]) -> tuple[Table, list[Claim], list[Picture]]:
    rows = [
        Row(
            f"{model}, missing = {value}",
            of[model]["mean"],
            marks={} if model == "MPM" else {c: "*" for c, p in of[model]["p"].items() if p < 0.05},
        )
        for value, of in found.items()
        for model in MODELS
    ]
    table = Table(
        "movielens-constants",
        "Missing ratings imputed by a constant",
        CONSTANT_COLUMNS,
        rows,
        note="Figure 3; its numbers are not printed. * differs from MPM: paired t-test over users, 5 percent.",
    )
    others = [m for m in MODELS if m != "MPM"]
    gaps = {
        (m, c): [of["MPM"]["mean"][c] - of[m]["mean"][c] for of in found.values()]
        for m in others
        for c in CONSTANT_COLUMNS
    }
    claims = []
    for m in others:
        worst = min(g for c in CONSTANT_COLUMNS for g in gaps[m, c])
        above = sum(g > 0 for c in CONSTANT_COLUMNS for g in gaps[m, c])
        n = len(CONSTANT_COLUMNS) * len(found)
        claims.append(
            Claim(
                f"Imputed by a constant: MPM above {m} everywhere",
                worst > 0,
                f"above in {above} of {n}; least {worst:+.2f}",
            )
        )
        wide = {c: max(range(len(found)), key=lambda n: gaps[m, c][n]) for c in CONSTANT_COLUMNS}
        said = ", ".join(f"{c} at {list(found)[at]} ({gaps[m, c][at]:+.2f})" for c, at in wide.items())
        low = all(at < len(found) / 2 for at in wide.values())
        claims.append(Claim(f"Imputed by a constant: the gap to {m} is largest at low constants", low, said))
    p = [of[m]["p"][c] for of in found.values() for m in others for c in CONSTANT_COLUMNS]
    sure = sum(x < 0.05 for x in p)
    claims.append(
        Claim(
            "Imputed by a constant: all differences are significant", sure == len(p), f"{sure} of {len(p)} at 5 percent"
        )
    )
    pictures = [_constant_picture(c, found) for c in CONSTANT_COLUMNS]
    return table, claims, pictures


def _constant_picture(column: str, found: Mapping[str, Any]) -> Picture:
    def draw(ax: Any) -> None:
        for model, mark in zip(MODELS, "osD", strict=True):
            ax.plot(
                [float(v) for v in found], [of[model]["mean"][column] for of in found.values()], mark + "-", label=model
            )
        ax.set_xlabel("constant in the place of missing ratings")
        ax.set_ylabel(f"{column}, percent")
        ax.legend(frameon=False)

    return Picture(
        f"movielens-constant-{column.replace('@', '').lower()}", f"{column} by the constant imputed", draw, (5.6, 3.8)
    )


# Table 3 and figure 4.

# Variants of a model that stop at other iterations.
_VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "Bradley-Terry, 100 steps": ("Bradley-Terry", {}),
    "Bradley-Terry, 30 steps": ("Bradley-Terry", {"max_iter": 30}),
    "Bradley-Terry, 300 steps": ("Bradley-Terry", {"max_iter": 300}),
    "Plackett-Luce, 30 steps": ("Plackett-Luce", {"max_iter": 30}),
    "Plackett-Luce, 100 steps": ("Plackett-Luce", {}),
    "Plackett-Luce, 300 steps": ("Plackett-Luce", {"max_iter": 300}),
    "Plackett-Luce, 1000 steps": ("Plackett-Luce", {"max_iter": 1000}),
    "MPM, equal variances": ("MPM", {"variances": False, "optimizer": "auto"}),
    "MPM, 10 steps": ("MPM", {"max_iter": 10}),
    "MPM, 30 steps": ("MPM", {"max_iter": 30}),
    "MPM, 100 steps": ("MPM", {}),
    "MPM, 200 steps": ("MPM", {"max_iter": 200}),
    "MPM, at the maximum": ("MPM", {"optimizer": "auto"}),
}
_MIXED = "MPM, equal variances"


def plan_films(setting: Setting) -> list[Cell]:
    """Return the cells of table 3 and figure 4."""
    folder = _where(setting)
    if folder is None:
        return []
    reads = _reads(folder)
    out = [
        Cell(
            f"{model}/seed {seed}",
            ends,
            {"folder": folder, "model": model, "seed": seed},
            reads,
            4.0,
        )
        for model in [*MODELS, _MIXED]
        # Only random tie-breaking is stochastic.
        for seed in range(setting.seeds if model == "Plackett-Luce" else 1)
    ]
    out.append(Cell("variances", variances, {"folder": folder}, reads, 5.0))
    if not setting.quick:
        for name, (model, params) in _VARIANTS.items():
            arguments = {"folder": folder, "model": model, "params": params}
            out.append(Cell(f"variant/{name}", found_by, arguments, reads, 4.0))
    return out


def page_films(setting: Setting, values: Mapping[str, Any]) -> Page:
    """Return the films at the ends beside the printed ones, and the variances of figure 4."""
    tables, claims, pictures = [], [], []
    variants = {v: values[f"variant/{v}"] for v in _VARIANTS if f"variant/{v}" in values}
    for model in [*MODELS, _MIXED]:
        found = {k: v for k, v in values.items() if k.startswith(f"{model}/seed ")}
        if found:
            tables.append(_ends_table(model, list(found.values()), setting.quick, variants))
    if variants:
        tables.append(
            Table(
                "movielens-variants",
                "How many of the printed films stand at the ends of our ranking, by how long a model is fitted",
                ["top five", "bottom five"],
                [Row(v, {"top five": n["top"], "bottom five": n["bottom"]}) for v, n in variants.items()],
                digits=0,
                note="Step lengths are not stated in the paper. Plackett-Luce with one draw of its ties.",
            )
        )
    claims += _support_claims(values)
    if "variances" in values:
        table, more, drawn = _variances_shown(values["variances"])
        tables += table
        claims += more
        pictures += drawn
    return Page(tables, claims, pictures)


def _ends_table(model: str, runs: Sequence[Mapping[str, Any]], quick: bool, variants: Mapping[str, Any]) -> Table:
    """Return both ends of a ranking; a cell is within tolerance where the film is the printed one."""
    first = runs[0]
    usual = model in MODELS
    printed = {} if quick else {r["list_position"]: r for r in _printed_rows(model.partition(",")[0])}
    rows = []
    for place, film in first["films"].items():
        ours = {c: film[c] for c in ("users", "won", "lost")}
        theirs: dict[str, float] = {}
        at = _PLACES[place]
        name, why = f"{at if at > 0 else first['n'] + 1 + at}: {film['title']}", ""
        if place in printed:
            row = printed[place]
            theirs = dict(zip(ours, _counts(row), strict=True))
            name += f" (published: {row['movie']})"
            if ours != theirs:
                why = _elsewhere(row["movie"], [run["printed"].get(place) for run in runs], place)
        seen = _STEP_SEEN.get(model, "") if theirs else ""
        rows.append(Row(name, ours, theirs, 0.0 if theirs and usual else None, exact=True, why=why, seen=seen))
    note = (
        "Users who rated the film, and how often they rated another film lower (won) or higher (lost). A film is "
        "within tolerance where it is the printed one, and counts once."
    )
    if printed:
        note += _direction(first["films"], printed)
    if model == "Bradley-Terry" and {"Bradley-Terry, 30 steps", "Bradley-Terry, 300 steps"} <= set(variants):
        less, more = (variants[f"Bradley-Terry, {n} steps"] for n in (30, 300))
        note += (
            " The length of a step is not stated in the paper; the library's default was set with these films and the "
            f"LETOR row in view, so that meeting them is no test of it. Printed films among the first and last five: "
            f"{less['top']} and {less['bottom']} after 30 steps, {more['top']} and {more['bottom']} after 300."
        )
    if model == "Plackett-Luce":
        note += (
            f" Ties are broken at random: seed 0 of {len(runs)} is shown; places of printed films are those of all "
            "seeds. The published draw of the ties and length of a step are unknown."
        )
    if model == "MPM" and {_MIXED, "MPM, 100 steps"} <= set(variants):
        top, bottom = variants[_MIXED]["top"], variants["MPM, 100 steps"]["bottom"]
        note += (
            f" Equal variances have {top} of the printed top five and these variances {bottom} of the printed bottom "
            "five; no number of steps has both (see the variants below)."
        )
    return Table(
        f"movielens-ends-{model.partition(',')[0].lower()}{'' if usual else '-equal'}",
        f"Films at the ends of the ranking: {model}",
        ["users", "won", "lost"],
        rows,
        digits=0,
        note=note,
        whole=True,
    )


def _direction(ours: Mapping[str, Any], printed: Mapping[str, Mapping[str, str]]) -> str:
    """Return the number of last films at their printed ranks, read in both directions; the table names none."""
    last = [n for n in printed if n.startswith("bottom")]

    def met(of: Mapping[str, str]) -> int:
        return sum(tuple(ours[n][c] for c in ("users", "won", "lost")) == _counts(printed[of[n]]) for n in last)

    turned = {n: f"bottom{6 - int(n[-1])}" for n in last}
    return (
        f" The printed last films are read with the worst first, because Bradley-Terry's then agree: so read "
        f"{met({n: n for n in last})} of {len(last)} are at their places here, the other way round {met(turned)}."
    )


def _elsewhere(movie: str, found: Sequence[Sequence[int] | None], end: str) -> str:
    """Return the rank of the printed film in our rankings, and the number of films that are more extreme."""
    known = sorted(one[0] for one in found if one is not None)
    if not known:
        return f"no film has the counts printed for {movie}"
    beyond = next(one[1] for one in found if one is not None)
    span = f"{known[0]}" if known[0] == known[-1] else f"{known[0]} to {known[-1]}"
    more = "larger" if end.startswith("top") else "smaller"
    others = {0: "no film", 1: "one film"}.get(beyond, f"{beyond} films")
    verb = "have" if beyond > 1 else "has"
    return f"{movie} is at place {span} in ours; {others} with as many raters or more {verb} won a {more} share"


def _support_claims(values: Mapping[str, Any]) -> list[Claim]:
    """Check the claims about the numbers of raters of the films at the ends."""

    def users(model: str, end: str) -> list[int] | None:
        found = values.get(f"{model}/seed 0")
        return None if found is None else [int(found["films"][f"{end}{n}"]["users"]) for n in range(1, 6)]

    n_users = max((found["n_users"] for key, found in values.items() if "/seed " in key), default=0)
    few, many = n_users / 10, 280 / 943 * n_users
    claims = []
    for end in ("top", "bottom"):
        of = users("Bradley-Terry", end)
        claims.append(
            Claim(
                f"Bradley-Terry puts rarely rated films at the {end}: some with fewer than a tenth of the users",
                None if of is None else min(of) < few,
                "" if of is None else f"raters: {', '.join(map(str, of))}",
            )
        )
    of, equal = users("MPM", "top"), users(_MIXED, "top")
    claims.append(
        Claim(
            "MPM: all of the top five were rated by more than 280 in 943 users",
            None if of is None else min(of) > many,
            ""
            if of is None
            else f"raters: {', '.join(map(str, of))}; with equal variances {', '.join(map(str, equal or []))}",
        )
    )
    return claims


def _variances_shown(found: Mapping[str, Any]) -> tuple[list[Table], list[Claim], list[Picture]]:
    from scipy.stats import spearmanr

    gamma, users, named = np.array(found["gamma"]), np.array(found["users"]), found["named"]
    n = len(gamma)
    seen = np.isfinite(gamma)
    with_users = float(spearmanr(gamma[seen], users[seen])[0])
    tenth, middle = max(n // 10, 1), slice(n // 4, n - n // 4)
    ends = [float(np.nanmean(gamma[:tenth])), float(np.nanmean(gamma[-tenth:]))]
    between = float(np.nanmean(gamma[middle]))
    claims = [
        Claim("γ falls with the number of ratings", with_users < 0, f"rank correlation {with_users:+.3f}"),
        Claim(
            "γ is lower at both ends of the ranking than in its middle",
            max(ends) < between,
            f"mean of the first and last tenth {ends[0]:.3f} and {ends[1]:.3f}, of the middle half {between:.3f}",
        ),
    ]
    tables = []
    if named:
        rows = []
        for name, film in named.items():
            value = float(gamma[film["place"] - 1])
            larger = float(np.nanmean(gamma[middle] > value))
            rows.append(
                Row(
                    f"{name} ({film['title']})",
                    {c: film[c] for c in ("users", "won", "lost")}
                    | {"place": film["place"], "γ": value, "larger γ": 100 * larger},
                    dict(zip(("users", "won", "lost"), NAMED[name], strict=True)),
                )
            )
            inside = middle.start < film["place"] <= middle.stop
            claims.append(
                Claim(
                    f"{name} is in the middle of the ranking, with one of the lowest γ there",
                    inside and larger > 0.9,
                    f"place {film['place']} of {n}, γ {value:.3f}; {100 * larger:.0f} % of the middle half have more",
                )
            )
        tables.append(
            Table(
                "movielens-named",
                "The films that figure 4 names",
                ["users", "won", "lost", "place", "γ", "larger γ"],
                rows,
                note="larger γ: percent of the films in the middle half of the ranking that have a larger one. The "
                "counts say which film is meant; they do not depend on the ranking, and are not compared.",
                counts=["users", "won", "lost", "place"],
            )
        )
    return tables, claims, _variance_pictures(gamma, users, named)


def _variance_pictures(gamma: Floats, users: Floats, named: Mapping[str, Any]) -> list[Picture]:
    rank = np.arange(1, len(gamma) + 1)

    def picture(name: str, title: str, x: Floats, label: str, log: bool) -> Picture:
        def draw(ax: Any) -> None:
            ax.plot(x, gamma, ".", markersize=3, alpha=0.6)
            # The three points are close together: place their labels in three directions.
            for (film, of), by in zip(named.items(), ((6, 16), (12, -8), (-36, -14)), strict=False):
                at = of["place"] - 1
                ax.plot(x[at], gamma[at], "o", color="C1", markersize=4)
                line = {"arrowstyle": "-", "linewidth": 0.6}
                ax.annotate(
                    film, (x[at], gamma[at]), xytext=by, textcoords="offset points", fontsize=8, arrowprops=line
                )
            if log:
                ax.set_xscale("log")
            ax.set_xlabel(label)
            ax.set_ylabel("γ")

        return Picture(name, title, draw, (5.6, 3.8))

    return [
        picture("movielens-gamma-users", "γ by the number of ratings", users, "users who rated the film", True),
        picture("movielens-gamma-rank", "γ by the place in the ranking", rank.astype(float), "place", False),
    ]
