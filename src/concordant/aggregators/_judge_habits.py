"""Random effects of experts in Bradley-Terry (habits): the families they favour, and their own effects of covariates.

Expert e adds h · u_e to the logit of a vote: for a family of items h is 1 where only the left item belongs to it and −1
where only the right one does; for a covariate h is left minus right. The habits u_e are normal with mean 0. Their
variances, one for families and one for each covariate, are shared by all experts and estimated too (empirical Bayes).
Scores are those of an expert without habits. The fit alternates between scores and habits until both converge.

If every item has a family, a constant added to the habits of an expert for all families changes nothing. So the habit
for a family is reported relative to the mean of the other families. Items without a family form one more family, with
habit 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.data.index import Slots
from concordant.errors import DataError, listing
from concordant.learning.newton import backtrack_each

if TYPE_CHECKING:
    import polars as pl

    from concordant.aggregators._vote_outcomes import VoteOutcomes
    from concordant.data.comparisons import Comparisons
    from concordant.kernels.bradley_terry import Shared
    from concordant.kernels.bradley_terry_votes import VoteRows

__all__ = [
    "HabitDesign",
    "HabitFit",
    "HabitRows",
    "HabitTable",
    "fit_habits",
    "habit_frame",
    "habit_rows",
    "habits_of",
    "information_lost_to_habits",
    "profiled",
]

# The prior of a variance counts like one expert with a habit of 0.1.
_PRIOR_VARIANCE, _PRIOR_EXPERTS = 0.01, 1.0
# The fit has converged when no habit and no log variance changes by more than this.
_TOLERANCE = 1e-6
_LONGEST_STEP = 2.0
# Experts whose cross information is in memory at a time.
_CHUNK = 1000


class HabitRows(NamedTuple):
    """Design rows h (float64[Q, F]) of the habits, and the expert of each row."""

    h: Floats
    expert: Ints


class HabitDesign(NamedTuple):
    """The terms of the model: families, and covariates with a slope for each expert.

    Attributes
    ----------
    family_of : dict of str to str
        The family of an item; items that are not named belong to none.
    families : list of str
        The families.
    columns_of : list of int
        The covariates with an effect for each expert, as columns of the covariates used.
    covariates : list of str
        Their names.
    """

    family_of: dict[str, str]
    families: list[str]
    columns_of: list[int]
    covariates: list[str]

    @classmethod
    def of(cls, families: Mapping[str, str] | None, varying: Sequence[str], covariates: Sequence[str]) -> HabitDesign:
        """Return the design for a mapping of items to families, and the names of the varying covariates."""
        known = {str(item): str(family) for item, family in (families or {}).items()}
        unknown = [name for name in varying if name not in covariates]
        if unknown:
            raise DataError(
                f"varying= names {listing(unknown)}, which the fit does not use as covariates. Name them in "
                "covariates= too."
            )
        return cls(known, list(dict.fromkeys(known.values())), [list(covariates).index(n) for n in varying], [*varying])

    @property
    def kinds(self) -> list[str]:
        """The kind of each habit: "family" or "covariate"."""
        return ["family"] * len(self.families) + ["covariate"] * len(self.covariates)

    @property
    def terms(self) -> list[str]:
        """The family or covariate of each habit."""
        return self.families + self.covariates

    @property
    def groups(self) -> Ints:
        """The index of the variance of each habit; families share one."""
        f = len(self.families)
        return np.array([0] * f + [k + bool(f) for k in range(len(self.covariates))], dtype=np.int64)

    def scale(self, unit: Floats) -> Floats:
        """Return the units of the habits in the fit, given those of the covariates: 1 for families."""
        return np.concatenate([np.ones(len(self.families)), unit[self.columns_of]])

    def family_codes(self, slots: Slots, *, any_named: bool = True) -> Ints:
        """Return the family of each slot, -1 for none; with `any_named` raise if no item has one."""
        code = {family: k for k, family in enumerate(self.families)}
        out = np.array([code.get(self.family_of.get(item, ""), -1) for item in slots.items.tolist()], dtype=np.int64)
        if any_named and self.families and (out < 0).all():
            raise DataError(
                f"families= names none of the compared items, such as {listing(slots.items.tolist(), 5)}. Pass a "
                "mapping from item to family."
            )
        return out

    def n_others(self, slots: Slots) -> int:
        """Return the number of families that a family is compared with; raise if all items share one."""
        codes = self.family_codes(slots)
        n = len(self.families) - 1 + bool((codes < 0).any())
        if self.families and n == 0:
            raise DataError(
                f"families= puts every item into {listing(self.families)}, so no expert can favour it. Name two "
                "families, or leave some items out of the mapping."
            )
        return n

    def effects(self, votes: Comparisons, x: Floats, u: Floats) -> Floats:
        """Return the contribution of the habits `u` to the logit of each row of comparisons."""
        codes, expert = self.family_codes(votes.slots, any_named=False), votes.row_expert
        out = np.zeros(votes.n_rows)
        for sign, code in ((1.0, codes[votes.left]), (-1.0, codes[votes.right])):
            named = code >= 0
            out[named] += sign * u[expert[named], code[named]]
        f = len(self.families)
        for k, column in enumerate(self.columns_of, start=f):
            out += x[:, column] * u[expert, k]
        return out

    def columns(self, votes: VoteRows, slots: Slots) -> Floats:
        """Return the design matrix of the habits, one row for each row of votes."""
        codes = self.family_codes(slots)
        h = np.zeros((len(votes.left), len(self.terms)))
        row = np.arange(len(h))
        for sign, code in ((1.0, codes[votes.left]), (-1.0, codes[votes.right])):
            named = code >= 0
            np.add.at(h, (row[named], code[named]), sign)
        for k, column in enumerate(self.columns_of, start=len(self.families)):
            h[:, k] = votes.x[:, 1 + column]
        return h


class HabitFit(NamedTuple):
    """Habits by expert and term, their posterior covariance by expert, and the variances by group."""

    u: Floats
    covariance: Floats
    variance: Floats


class HabitTable(NamedTuple):
    """The reported habits, one row for each expert and a column for each term.

    `estimate` and `stderr` are shrunk towards 0; `alone` and `alone_stderr` use the votes of the expert only.
    """

    estimate: Floats
    stderr: Floats
    alone: Floats
    alone_stderr: Floats

    @classmethod
    def of(cls, design: HabitDesign, fit: HabitFit, n_others: int) -> HabitTable:
        """Return the habits for families, relative to the mean of `n_others` others, and those for covariates."""
        f = len(design.families)
        contrast = np.eye(len(design.terms))
        contrast[:f, :f] -= (1.0 - np.eye(f)) / max(n_others, 1)
        estimate = fit.u @ contrast.T
        variance = np.einsum("tf,kfg,tg->kt", contrast, fit.covariance, contrast)
        prior = contrast**2 @ fit.variance[design.groups]
        # The information of the votes alone is that of the posterior minus that of the prior.
        vote_information = np.maximum(1.0 / variance - 1.0 / prior, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.where(vote_information > 1e-9 / prior, estimate / variance / vote_information, np.nan)
            alone_stderr = np.where(vote_information > 1e-9 / prior, np.sqrt(1.0 / vote_information), np.nan)
        return cls(estimate, np.sqrt(variance), alone, alone_stderr)


def _logits(votes: VoteRows, score: Floats, shared: Shared) -> Floats:
    """Return the logits without habits."""
    theta = np.array([shared.side, *shared.beta])
    out: Floats = score[votes.left] - score[votes.right] + votes.x @ theta
    return out


def _derivatives(
    votes: VoteRows, rows: HabitRows, gap: Floats, u: Floats, shared: Shared
) -> tuple[Floats, Floats, Floats]:
    from concordant.kernels.bradley_terry_votes import habit_pass

    k, f = u.shape
    value, gradient, information = np.zeros(k), np.zeros((k, f)), np.zeros((k, f, f))
    sums = value, gradient, information
    habit_pass(votes.columns, gap, rows.h, rows.expert, u, shared.tie, shared.model, *sums)
    return value, gradient, information


def _maximise(
    votes: VoteRows, rows: HabitRows, gap: Floats, u: Floats, precision: Floats, shared: Shared
) -> tuple[Floats, Floats]:
    """Maximise over the habits by Newton's method for each expert; return them and the information on them."""

    def at(u: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        value, gradient, information = _derivatives(votes, rows, gap, u, shared)
        return u, value - 0.5 * u**2 @ precision, gradient, information

    u, value, gradient, information = at(u)
    for _ in range(50):
        step = np.linalg.solve(information + np.diag(precision), (gradient - u * precision)[:, :, None])[:, :, 0]
        size = np.abs(step).max(axis=1, initial=0.0)
        if size.max(initial=0.0) <= 1e-8:
            break
        step *= np.minimum(1.0, _LONGEST_STEP / np.maximum(size, 1e-300))[:, None]

        def trial(length: Floats) -> tuple[Floats, Floats, Floats, Floats]:
            return at(u + length[:, None] * step)  # noqa: B023 - called before the next step

        least = value - 1e-11 * np.abs(value)
        u, value, gradient, information = backtrack_each(trial, itemgetter(1), least, halvings=29)
    return u, information


def fit_habits(
    outcomes: VoteOutcomes, refit: Callable[[Floats | None], tuple[Floats, Shared]], max_iter: int
) -> tuple[HabitFit, int, bool]:
    """Return the habits, the number of rounds, and whether the fit converged; the habits are stored in `outcomes`.

    `refit` returns scores and shared parameters given the stored habits; it starts from the scores it is given.
    """
    design, votes, rows = outcomes.habits, outcomes.statistics, outcomes.habit_rows
    if design is None:
        raise TypeError("these outcomes have no habits")
    group = design.groups
    active = np.bincount(rows.expert, minlength=outcomes.votes.n_experts) > 0
    u = np.zeros((outcomes.votes.n_experts, len(group)))
    variance = np.full(int(group.max(initial=-1)) + 1, 0.1)
    change = np.zeros(len(variance))
    score, shared = refit(None)
    converged, n_rounds = False, 0
    while n_rounds < max_iter and not converged:
        n_rounds += 1
        precision = 1.0 / variance[group]
        moved, information = _maximise(votes, rows, _logits(votes, score, shared), u, precision, shared)
        spread = np.diagonal(np.linalg.inv(information + np.diag(precision)), axis1=1, axis2=2)
        new_variance = np.empty(len(variance))
        for k in range(len(variance)):
            of_group = group == k
            effective = np.clip(1.0 - spread[active][:, of_group] / variance[k], 0.0, 1.0).sum()
            squares = float((moved[active][:, of_group] ** 2).sum())
            new_variance[k] = (squares + _PRIOR_EXPERTS * _PRIOR_VARIANCE) / (effective + _PRIOR_EXPERTS)
        log_change = np.clip(np.log(new_variance / variance), -1.5, 1.5)
        # If the changes form a geometric series, extrapolate to its limit (Aitken); else take the plain step.
        ratio = log_change / np.where(change == 0.0, np.inf, change)
        is_geometric = (ratio > 0.4) & (ratio < 0.95)
        step = np.clip(log_change / np.where(is_geometric, 1.0 - ratio, 1.0), -1.5, 1.5)
        unchanged = (
            float(np.abs(moved - u).max(initial=0.0)) <= _TOLERANCE and float(np.abs(log_change).max()) <= _TOLERANCE
        )
        converged = unchanged and n_rounds > 1
        variance, change, u = variance * np.exp(step), np.where(is_geometric, 0.0, log_change), moved
        outcomes.set_habits(u)
        score, shared = refit(score)
    precision = 1.0 / variance[group]
    _, _, information = _derivatives(votes, rows, _logits(votes, score, shared), u, shared)
    covariance = np.asarray(np.linalg.inv(information + np.diag(precision)), dtype=np.float64)
    return HabitFit(u, covariance, variance), n_rounds, converged


def habits_of(design: HabitDesign, saved: Mapping[str, Any], unit: Floats, experts: Sequence[str]) -> Floats:
    """Return the saved habits of some experts in the units of the fit; unknown experts have habits of 0."""
    code = {name: k for k, name in enumerate(saved["expert"])}
    table = np.array(saved["effect"], dtype=np.float64).reshape(len(code), -1) * design.scale(unit)
    known = np.array([code.get(name, -1) for name in experts], dtype=np.int64)
    out = np.zeros((max(len(experts), 1), len(design.terms)))
    out[: len(experts)][known >= 0] = table[known[known >= 0]]
    return out


def habit_frame(d: Mapping[str, Any], level: float) -> pl.DataFrame:
    """Return the saved habits with tests and intervals, one row for each expert and term."""
    import polars as pl

    from concordant.inference.summary import Estimates, estimate_frame

    n = len(d["term"])
    blocks = [
        Estimates(kind, [term] * len(d["expert"]), np.array(d["estimate"][k::n]), np.array(d["stderr"][k::n]))
        for k, (kind, term) in enumerate(zip(d["kind"], d["term"], strict=True))
    ]
    frame = estimate_frame(blocks, level).drop("instance")
    own = {name: [v for k in range(n) for v in d[name][k::n]] for name in ("alone", "alone_stderr")}
    frame = frame.with_columns(**{name: pl.Series(v, dtype=pl.Float64).fill_nan(None) for name, v in own.items()})
    return frame.insert_column(0, pl.Series("expert", d["expert"] * n, dtype=pl.String))


def habit_rows(d: Mapping[str, Any], level: float) -> dict[str, list[Any]]:
    """Return the saved habits column by column, one row for each expert."""
    n, experts = len(d["term"]), d["expert"]
    estimate, stderr = (np.array(d[name]).reshape(len(experts), n) for name in ("estimate", "stderr"))
    half = NormalDist().inv_cdf(0.5 + level / 2)
    z = estimate / np.where(stderr > 0, stderr, np.inf)
    families = [k for k, kind in enumerate(d["kind"]) if kind == "family"]
    out: dict[str, list[Any]] = {"expert": list(experts)}

    def add(name: str, value: Floats, error: Floats, test: Floats) -> None:
        columns = {name: value, f"{name}_lower": value - half * error, f"{name}_upper": value + half * error}
        out.update({key: column.tolist() for key, column in columns.items()} | {f"{name}_z": test.tolist()})

    if families:
        best, row = z[:, families].argmax(axis=1), np.arange(len(experts))
        out["favours"] = [d["term"][families[k]] for k in best.tolist()]
        add("favour", *(part[:, families][row, best] for part in (estimate, stderr, z)))
    for k in range(len(families), n):
        add(f"{d['term'][k]}_habit", estimate[:, k], stderr[:, k], z[:, k])
    return out


def profiled(
    outcomes: VoteOutcomes, score: Floats, prior: Floats, shared: Shared, learned: Ints, habits: HabitFit
) -> tuple[Floats, Floats]:
    """Return the information of the shared parameters, scores and habits profiled out, and the response of the scores.

    These are `information` and `response` of `_bradley_terry_fit.Solution`.
    """
    from concordant.aggregators._bradley_terry_fit import information

    out, response = np.zeros((len(learned), len(learned))), np.zeros((len(learned), len(score)))
    for n, own in outcomes.observed_instances():
        m = own.stop - own.start
        table = information(outcomes.statistics.window(n), score[own], float(prior[n]), shared, learned)
        table = table - information_lost_to_habits(outcomes, n, score, shared, learned, habits)
        of_scores = table[:m, :m]
        if prior[n] == 0:
            of_scores = of_scores + max(float(np.trace(of_scores)) / m, 1.0) / m
        response[:, own] = np.linalg.solve(of_scores, table[:m, m:]).T
        out += table[m:, m:] - table[m:, :m] @ response[:, own].T
    return out, response


def information_lost_to_habits(
    outcomes: VoteOutcomes, instance: int, score: Floats, shared: Shared, learned: Ints, habits: HabitFit
) -> Floats:
    """Return the information on scores and `learned` lost by estimating habits too (a Schur complement)."""
    from concordant.kernels.bradley_terry_votes import habit_cross

    if outcomes.habits is None:
        raise TypeError("these outcomes have no habits")
    votes, rows, group = outcomes.statistics, outcomes.habit_rows, outcomes.habits.groups
    base = int(outcomes.slots.offsets[instance])
    m = int(outcomes.slots.offsets[instance + 1]) - base
    logits = _logits(votes, score, shared)
    _, _, information = _derivatives(votes, rows, logits, habits.u, shared)
    inverse = np.linalg.inv(information + np.diag(1.0 / habits.variance[group]))
    root = np.linalg.cholesky(inverse)
    columns = np.concatenate([np.arange(m), m + learned])
    out = np.zeros((len(columns), len(columns)))
    gap = logits + votes.offset
    for first in range(0, len(root), _CHUNK):
        last = min(first + _CHUNK, len(root))
        cross = np.zeros((last - first, len(group), m + 1 + votes.x.shape[1]))
        ends = (first, last)
        habit_cross(votes.columns, votes.x, gap, rows.h, rows.expert, ends, base, m, shared.tie, shared.model, cross)
        half = np.swapaxes(root[first:last], 1, 2) @ cross[:, :, columns]
        flat = half.reshape(-1, len(columns))
        out += flat.T @ flat
    return out
