"""The multinomial preference model (MPM): unsupervised, with adherence learned from labels, and on ratings.

MPM uses how often a pair is compared and weights experts by their agreement. The tables compare it with models of
single pairs, and adherence learned from labels with adherence learned from agreement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import concordant as cc
from concordant_papers import letor, movielens, published
from concordant_papers.engine import Cell, Setting, Study
from concordant_papers.letor import COLUMNS, MARKS, Result, Way
from concordant_papers.pages import Claim, Page, Picture, Row, Table

__all__ = ["STUDIES"]

TABLE_1, TABLE_4, TABLE_5 = "001_table1_unsup_mq_agg", "001_table4_mpm", "001_table5_sup_mq_agg"
TOLERANCE = 0.7
# As published: 100 steps of gradient ascent from full trust.
THETA = Way(
    "mpm",
    {"adherence": "learned", "optimizer": "gd", "uncertainty": "none"},
    seen="the length of the gradient steps; at the maximum, without steps, all cells are within tolerance too",
)
THETA_SUP = Way("mpm", {"adherence": "supervised", "uncertainty": "none"})


# Without labels.

# Published name -> way. No labels, except for CPS: its row is LETOR's own, which is the same in all tables.
_PRINTED: dict[str, Way] = {
    "BordaCount": letor.BASELINES["BordaCount"],
    "CPS-best": letor.BASELINES["CPS-best"],
    "SVP": letor.BASELINES["SVP"],
    "Condorcet": letor.BASELINES["Condorcet"],
    "Bradley-Terry": letor.BASELINES["Bradley-Terry"],
    "Plackett-Luce": letor.BASELINES["Plackett-Luce"],
    "theta-MPM": THETA,
}
_MORE: dict[str, Way] = {
    "RRF": letor.BASELINES["RRF"],
    "MPM, all θ = 1": Way("mpm", {"adherence": "none", "uncertainty": "none"}),
    "θ-MPM, at the maximum": Way("mpm", {"adherence": "learned", "uncertainty": "none"}),
    "θ-MPM, with variances": Way(
        "mpm", {"adherence": "learned", "optimizer": "gd", "variances": True, "uncertainty": "none"}
    ),
    "Bradley-Terry, prior=published": Way(
        "bradley-terry", {"prior": "published", "transform": "count", "uncertainty": "none"}
    ),
    "Bradley-Terry, at its defaults": Way("bradley-terry", {"uncertainty": "none"}),
    "Plackett-Luce, 100 steps": Way("plackett-luce", {"optimizer": "gd", "uncertainty": "none"}),
    "Plackett-Luce, prior=published": Way("plackett-luce", {"prior": "published", "uncertainty": "none"}),
    "Plackett-Luce, at its defaults": Way("plackett-luce", {"uncertainty": "none"}),
    "Condorcet, by majority of experts": Way("condorcet"),
    **letor.AT_DEFAULTS,
    "CPS-best without labels, ranks read as ranks": Way("cps", {}, letor.BASELINES["CPS-best"].grid),
}
_EXPLAINED = {
    "BordaCount": "the published row is LETOR's own. It takes the largest rank for the best: read like this, Borda "
    "count gives every cell",
    "CPS-best": "the published row is LETOR's own. It takes the largest rank for the best, as Borda's does; how its "
    "weights were fitted is not stated, and one step of our solver comes closest",
    "SVP": "the published row is LETOR's own, and its counts are not stated. Means over the pairs that at least two "
    "experts rank come closest",
}
_SHOWN = {"theta-MPM": "θ-MPM", "theta_sup-MPM": "θ_sup-MPM"}


def _plan_unsupervised(setting: Setting) -> list[Cell]:
    return [
        cell
        for name, folder in letor.sets(setting).items()
        for row, way in (_PRINTED | _MORE).items()
        for cell in letor.cells(name, folder, row, way)
    ]


def _page_unsupervised(setting: Setting, values: Mapping[str, Any]) -> Page:
    tables, claims = [], []
    for name, folder in letor.sets(setting).items():
        found = {row: letor.gathered(values, name, folder, row) for row in _PRINTED | _MORE}
        baseline = found["theta-MPM"]
        rows = []
        for method, way in _PRINTED.items():
            theirs = published.cells(TABLE_1, dataset=name, method=method)
            rows.append(
                letor.row(
                    _SHOWN.get(method, method),
                    found[method],
                    theirs=theirs,
                    tolerance=0.005 if method == "BordaCount" else TOLERANCE,
                    baseline=None if method == "theta-MPM" else baseline,
                    exact=method == "BordaCount",
                    why=_why(found[method], theirs, _EXPLAINED.get(method, "")),
                    seen=way.seen,
                )
            )
        rrf = published.cells(TABLE_5, dataset=name, method="RRF")
        rows.append(
            letor.row("RRF", found["RRF"], theirs=rrf, tolerance=0.005, exact=True, baseline=baseline)._replace(
                seen=_MORE["RRF"].seen
            )
        )
        rows += [letor.row(row, found[row], baseline=baseline) for row in _MORE if row != "RRF"]
        note = (
            MARKS.format(baseline="θ-MPM") + " The paper takes 100 gradient steps and does not state their length. "
            "Bradley-Terry and θ-MPM take 100 of ours, Plackett-Luce 30, and with 100 it is a row of its own. θ is "
            "learned on the training part of a fold. The rows BordaCount and CPS-best repeat a mistake of the "
            "published ones, which read the ranks upside down; the rows below them read ranks as ranks, and are what "
            "users of these methods get. CPS-best learns its weights from labels in both."
        )
        tables.append(Table(f"{name}-unsupervised", f"{name}: without labels", list(COLUMNS), rows, note=note))
        claims += _best_claims(name, {m: found[m] for m in _PRINTED}, {m: found[m] for m in letor.AT_DEFAULTS})
    for name in letor.absent(setting):
        rows = letor.not_there(name, TABLE_1, {m: _SHOWN.get(m, m) for m in _PRINTED})
        tables.append(Table(f"{name}-unsupervised", f"{name}: without labels", list(COLUMNS), rows))
        claims.append(Claim(f"{name}: θ-MPM is best in every column", None, f"{name} is not in the data folder"))
    return Page(tables, claims)


def _why(result: Result | None, theirs: Mapping[str, float] | None, known: str) -> str:
    """Explain a row that differs from the published one: known causes and the standard error of the mean."""
    if result is None or not theirs:
        return ""
    gaps = {c: result.mean[c] - v for c, v in theirs.items()}
    words = [known] if known else []
    for column, gap in gaps.items():
        if gap < -TOLERANCE:
            of = result.of_query(column)
            error = 100 * float(of.std(ddof=1)) / len(of) ** 0.5
            words.append(f"{column} {gap:+.2f}, where {len(of)} queries give a standard error of {error:.2f}")
    return "; ".join(words)


def _best_claims(name: str, found: Mapping[str, Result | None], fair: Mapping[str, Result | None]) -> list[Claim]:
    """Check the paper's claims about the best row of each column; `fair` holds the baselines as users have them."""
    means = {row: result.mean for row, result in found.items() if result is not None}
    if len(means) < len(found):
        return [Claim(f"{name}: which row is best", None, "not computed")]
    asked = {
        "theta-MPM": [c for c in COLUMNS if name != "MQ2008-agg" or c not in ("N@1", "P@1", "MAP")],
        "Bradley-Terry": ["N@1", "P@1", "MAP"] if name == "MQ2008-agg" else [],
    }
    claims = []
    for row, columns in asked.items():
        if not columns:
            continue
        missed = {c: best for c in columns if (best := max(means, key=lambda r: means[r][c])) != row}
        words = [f"{c} is {_SHOWN.get(b, b)}'s ({means[row][c] - means[b][c]:+.2f})" for c, b in missed.items()]
        # Not a claim of the paper: the same beside the baselines that read ranks as ranks.
        above = {r: sum(v.mean[c] > means[row][c] for c in columns) for r, v in fair.items() if v is not None}
        words += [f"{r} is above it in {n} of {len(columns)}" for r, n in above.items() if n]
        where = "in every column" if len(columns) == len(COLUMNS) else f"at {', '.join(columns)}"
        claims.append(Claim(f"{name}: {_SHOWN.get(row, row)} is best {where}", not missed, "; ".join(words)))
    return claims


# Adherence from labels, and from agreement.

_FOUR: dict[str, Way] = {
    "theta-MPM": THETA,
    "theta_sup-MPM": THETA_SUP,
    "θ-MPM, at the maximum": Way("mpm", {"adherence": "learned", "uncertainty": "none"}),
    "θ_sup-MPM, θ not stretched": Way("mpm", {"adherence": "supervised", "normalize": "none", "uncertainty": "none"}),
}


def adherence(*, folder: str, fold: int) -> dict[str, Any]:
    """Return θ of every expert on the training part of a fold, learned from labels and from agreement."""
    train = letor.folds(folder)[fold].train
    votes = train.preferences
    by_labels: Any = cc.MPM(adherence="supervised", uncertainty="none").fit(*train)
    by_agreement: Any = cc.MPM(**dict(THETA.params)).fit(votes)
    maximum: Any = cc.MPM(adherence="learned", uncertainty="none").fit(votes)
    listed = np.bincount(votes.row_expert, minlength=votes.n_experts) / votes.n_slots
    return {
        "experts": list(by_labels.experts_),
        "supervised": by_labels.adherence_.tolist(),
        "agreement with the labels": [None if a != a else a for a in by_labels.expert_details_["agreement"]],
        "learned": by_agreement.adherence_.tolist(),
        "learned, at the maximum": maximum.adherence_.tolist(),
        "listed": listed.tolist(),
    }


def _plan_mpm(setting: Setting) -> list[Cell]:
    out = []
    for name, folder in letor.sets(setting).items():
        for row, way in _FOUR.items():
            out += letor.cells(name, folder, row, way)
        for fold in range(letor.n_folds(folder)):
            arguments = {"folder": folder, "fold": fold}
            out.append(Cell(f"{name}/adherence/{fold + 1}", adherence, arguments, letor.reads_of(folder), 2.0))
    return out


def _page_mpm(setting: Setting, values: Mapping[str, Any]) -> Page:
    tables, claims, pictures, notes = [], [], [], []
    for name, folder in letor.sets(setting).items():
        found = {row: letor.gathered(values, name, folder, row) for row in _FOUR}
        rows = []
        for row, way in _FOUR.items():
            theirs = _printed_4(name, row)
            rows.append(
                letor.row(
                    _SHOWN.get(row, row),
                    found[row],
                    theirs=theirs,
                    tolerance=None if theirs is None else TOLERANCE,
                    baseline=None if row == "theta-MPM" else found["theta-MPM"],
                    why=_why(found[row], theirs, ""),
                    seen=way.seen,
                )
            )
        tables.append(Table(f"{name}-mpm", f"{name}: MPM", list(COLUMNS), rows, note=MARKS.format(baseline="θ-MPM")))
        claims.append(_labels_help(name, found["theta-MPM"], found["theta_sup-MPM"]))
        theta = [values[k] for f in range(letor.n_folds(folder)) if (k := f"{name}/adherence/{f + 1}") in values]
        if theta:
            tables.append(_theta_table(name, theta[0]))
            pictures.append(_theta_picture(name, theta[0]))
            claims += _theta_claims(name, theta)
            notes.append(_whom(name, theta))
    for name in letor.absent(setting):
        tables.append(Table(f"{name}-mpm", f"{name}: MPM", list(COLUMNS), letor.not_there(name, TABLE_4)))
        why = f"{name} is not in the data folder"
        claims.append(Claim(f"{name}: θ_sup-MPM above θ-MPM in every column", None, why))
        if name == "MQ2007-agg":
            claims.append(Claim(_FIRST_THREE.format(name=name), None, why))
    return Page(tables, claims, pictures, notes)


_FIRST_THREE = "{name}, fold 1: the first three experts are on in the supervised θ and off in the learned one"


def _printed_4(name: str, row: str) -> dict[str, float] | None:
    """Return the published row; one of them carries a remark behind its name, and another N@5 than table 1."""
    for r in published.rows(TABLE_4):
        if r["dataset"] == name and r["method"].partition(" ")[0] == row:
            return published.cells(TABLE_4, dataset=name, method=r["method"])
    return None


def _labels_help(name: str, learned: Result | None, supervised: Result | None) -> Claim:
    text = f"{name}: θ_sup-MPM above θ-MPM in every column"
    if learned is None or supervised is None:
        return Claim(text, None, "not computed")
    gaps = {c: supervised.mean[c] - learned.mean[c] for c in COLUMNS}
    below = [c for c, g in gaps.items() if g <= 0]
    sure = [c for c in letor.marked(supervised, learned) if gaps[c] > 0]
    detail = f"from {min(gaps.values()):+.2f} to {max(gaps.values()):+.2f}; significant in {len(sure)}"
    return Claim(text, not below, detail + (f"; not above in {', '.join(below)}" if below else ""))


_THETA_COLUMNS = ("listed", "agreement with the labels", "supervised", "learned", "learned, at the maximum")


def _theta_table(name: str, theta: Mapping[str, Any]) -> Table:
    rows = [
        Row(f"expert {expert}", {c: float(theta[c][n]) for c in _THETA_COLUMNS if theta[c][n] is not None})
        for n, expert in enumerate(theta["experts"])
    ]
    note = (
        "listed: the share of documents in the expert's lists. Agreement with the labels is the mean share of pairs in "
        "the order of their labels; the supervised θ is the same, stretched to run from 0 to 1. The learned θ has its "
        "largest at 1."
    )
    return Table(f"{name}-theta", f"{name}, fold 1: θ of every expert", _THETA_COLUMNS, rows, note=note)


def _theta_picture(name: str, theta: Mapping[str, Any]) -> Picture:
    def draw(ax: Any) -> None:
        at = np.arange(len(theta["experts"]))
        ax.bar(at, theta["supervised"], 0.8, label="from labels")
        # Draw the learned values below, expert under expert.
        ax.bar(at, [-t for t in theta["learned"]], 0.8, label="learned")
        ax.axhline(0.0, color="0.4", linewidth=0.8)
        ax.set_xticks(at, theta["experts"], fontsize=8)
        ax.set_yticks([-1, -0.5, 0, 0.5, 1], ["1", "0.5", "0", "0.5", "1"])
        ax.set_xlabel("expert")
        ax.set_ylabel("θ learned (below), from labels (above)")
        ax.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))

    return Picture(f"{name}-theta", f"{name}, fold 1: θ from labels and learned", draw, (8.0, 4.0))


def _theta_claims(name: str, folds: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """Check the paper's claims about its figure of one set."""
    if name != "MQ2007-agg":
        return []
    on, off = folds[0]["supervised"][:3], folds[0]["learned"][:3]
    detail = f"supervised {', '.join(f'{x:.2f}' for x in on)}; learned {', '.join(f'{x:.2f}' for x in off)}"
    return [Claim(_FIRST_THREE.format(name=name), min(on) > 0.5 and max(off) < 0.1, detail)]


def _whom(name: str, folds: Sequence[Mapping[str, Any]]) -> str:
    """Describe experts with high θ from labels and low θ from agreement, for sets without a published figure."""
    from scipy.stats import spearmanr

    apart = []
    for theta in folds:
        pairs = zip(theta["experts"], theta["supervised"], theta["learned"], strict=True)
        apart.append([expert for expert, on, off in pairs if on > 0.5 and off < 0.1])
    alike = [float(spearmanr(theta["supervised"], theta["learned"])[0]) for theta in folds]
    always = [e for e in apart[0] if all(e in of for of in apart)]
    return (
        f"{name}: on (above 0.5) in the supervised θ and off (below 0.1) in the learned one are, in fold 1, "
        f"{', '.join(apart[0]) or 'nobody'}; in every fold, {', '.join(always) or 'nobody'}. The rank correlation of "
        f"the two is {min(alike):+.2f} to {max(alike):+.2f} over {len(folds)} folds."
    )


_P1 = "Volkovs and Zemel, New learning methods for supervised and unsupervised preference aggregation (JMLR 2014)"

STUDIES: list[Study] = [
    Study(
        "letor-unsupervised",
        f"{_P1}, table 1",
        "Aggregation without labels on LETOR",
        ("MQ2008-agg",),
        _plan_unsupervised,
        _page_unsupervised,
    ),
    Study(
        "letor-mpm",
        f"{_P1}, table 4 and figure 7",
        "MPM with adherence from labels, and whom labels and agreement believe",
        ("MQ2008-agg",),
        _plan_mpm,
        _page_mpm,
    ),
    Study(
        "movielens",
        f"{_P1}, table 2 and figure 3",
        "Films ranked for users whose missing ratings are imputed",
        (movielens.FOLDER,),
        movielens.plan_imputed,
        movielens.page_imputed,
    ),
    Study(
        "movielens-films",
        f"{_P1}, table 3 and figure 4",
        "Films at the ends of the ranking, and their variances",
        (movielens.FOLDER,),
        movielens.plan_films,
        movielens.page_films,
    ),
]
