"""Bradley-Terry scores and the reliability of every judge, estimated together without labels.

Judge k compares left i with right j and answers left, right or tie with odds

    exp(z/2) : exp(-z/2) : exp(t_k),    z = a_k (s_i - s_j) + b_k

(without ties the first two). A judge is an expert. The slope a_k is the judge's discrimination: 0 is a coin, below 0
an inverted judge. The side bias b_k and the tie parameter t_k model a judge who always says left, or always tie. The
parameters of a judge come from a population N(m, diag V): the means are estimated with them, the variances by empirical
Bayes, so the parameters of a judge with few comparisons shrink to the means. The posterior N(a_k, σ_k²) of a slope
enters the likelihood, because scores and uncertain slopes would otherwise inflate each other: the log-likelihood is
averaged over the slopes a_k - σ_k and a_k + σ_k. The objective is

    Σ_rows mean of log P over the two slopes - ½ Σ_i λ_i s_i² - ½ Σ_k (p_k - m)' V⁻¹ (p_k - m)
        + Σ_k (log σ_k - ½ σ_k² / V_a),    p_k = (a_k, b_k, t_k),

a lower bound of the log marginal likelihood, with side bias and tie parameter at their mode. It is concave in the
scores given the judges, and in the judges given the scores; block coordinate ascent alternates between the two.

Gauge: (s, a) and (c s, a/c) have the same likelihood. During the iteration the mean square of the slope over all
comparisons is 1, so that steeper slopes cannot evade the prior of the scores. The result is rescaled so that
Σ_k n_k E[a_k²] = Σ_k n_k E|a_k|, n_k the number of comparisons: judges who flip a coin do not shrink the scores. The
sign of all scores and slopes together is free too; every slope starts at 1, so the majority decides it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.expert_reliability import (
    Derivatives,
    JudgedRows,
    assemble_hessian,
    cross_pass,
    effect_cross_pass,
    effect_pass,
    hessian_product,
    judge_pass,
    score_pass,
    sensitivity_pass,
)
from concordant.kernels.linear_systems import conjugate_gradients, solve_positive_definite
from concordant.kernels.lists import list_maxima, list_sums
from concordant.learning.newton import backtrack, backtrack_each
from concordant.learning.resumable import NO_CHECKPOINT, Checkpointer, State

if TYPE_CHECKING:
    from concordant.aggregators._bradley_terry_judges import Judges

__all__ = [
    "SLOPE_SD",
    "Information",
    "JudgeFit",
    "Outcomes",
    "SIDE",
    "SLOPE",
    "ScoreFit",
    "TIE",
    "Variance",
    "fit_judges",
    "judge_information",
    "scores_given_judges",
]

# Columns of a judge's parameters: a, b, t and the standard deviation of a.
SLOPE, SIDE, TIE, SLOPE_SD = 0, 1, 2, 3
# The prior of the population's variances: as if two judges had been seen whose parameters deviate by a half.
_PRIOR_VARIANCE, _PRIOR_JUDGES = 0.25, 2.0
# The means of side bias and tie parameter have a prior of standard deviation 10, which keeps them finite where all
# answers are the same.
_MEAN_PRECISION = np.array([0.0, 0.01, 0.01, 0.0])
# Up to this many items a Newton system is factored; above, conjugate gradients solve it without the matrix.
_DENSE = 2500
# No Newton step moves a score or parameter further than this: the quadratic model is poor beyond.
_LONGEST_STEP = 2.0
# The gradient norm at which scores given the judges count as exact; a few roundings above what is possible.
_EXACT = 1e-13
# Sweeps with the same objective after which the iteration ends.
_STALLED_SWEEPS = 10
# How often the line search halves a Newton step before it gives up.
_HALVINGS = 13
# The fields of `_Judges` that a checkpoint holds.
_ESTIMATED = ("phi", "mean", "variance", "change")


class Variance(NamedTuple):
    """The variances of slope, side bias and tie parameter in the population of judges."""

    slope: float
    side: float
    tie: float


class JudgeFit(NamedTuple):
    """Joint estimate of scores and judges.

    Attributes
    ----------
    score : float64[S]
        The scores; 0 for items without a comparison.
    scale : float
        Factor that puts the scores on the scale of the reliable judges. The prior is that of score / scale: its
        precision for `score` is prior / scale².
    tie : float
        The mean tie parameter, log ν of Davidson; -inf where ties are not modelled.
    slope, slope_stderr, side, tie_tendency : float64[K]
        a_k, σ_k, b_k and t_k minus the mean; those of the population for judges without comparisons.
    reliability, reliability_stderr : float64[K]
        Sensitivity of the answers to the scores (1 = like the reliable judges, 0 = noise or bias, negative =
        inverted) and its posterior standard deviation given the scores.
    n_comparisons : float64[K]
        Number of comparisons of each judge.
    variance : Variance
        Of the population of judges, by empirical Bayes.
    objective : float
        The penalised log-likelihood.
    gradient_norm : float
        The largest derivative of the objective, over the largest number of comparisons of an item or a judge.
    n_iter, converged, trace
        Sweeps over scores and judges, whether the gradient vanished, and the objective after each sweep.
    beta : float64[k]
        The effects of covariates.
    side_effect : float
        The mean side bias.
    mean_stderr : Variance
        Standard errors of the population's means of slope, side bias and tie parameter, given scores and effects.
    """

    score: Floats
    scale: float
    tie: float
    slope: Floats
    slope_stderr: Floats
    side: Floats
    tie_tendency: Floats
    reliability: Floats
    reliability_stderr: Floats
    n_comparisons: Floats
    variance: Variance
    objective: float
    gradient_norm: float
    n_iter: int
    converged: bool
    trace: list[float]
    beta: Floats
    side_effect: float
    mean_stderr: Variance


class ScoreFit(NamedTuple):
    """Scores given the judges, and how Newton's method ended in every instance."""

    score: Floats
    objective: Floats
    gradient_norm: Floats
    n_iter: Ints
    converged: NDArray[np.bool_]


class Information(NamedTuple):
    """Observed information of an instance's scores, with gradient and information by judge."""

    hessian: Floats
    gradients: Floats
    information: Floats
    expert: Codes


class Outcomes(NamedTuple):
    """Outcomes of comparisons by judge, all instances together, rows in any order.

    Attributes
    ----------
    left, right, expert : int32[R]
        The slots compared and the judge.
    n_left, n_right, n_ties : float64[R]
        How often left won, right won, and neither.
    offsets : int64[N + 1]
        Where the slots of every instance begin.
    x : float64[R, k], optional
        Covariates of the vote, left minus right.
    beta : float64[k], optional
        Their effects, where they are known.
    """

    left: Codes
    right: Codes
    expert: Codes
    n_left: Floats
    n_right: Floats
    n_ties: Floats
    offsets: Ints
    x: Floats | None = None
    beta: Floats | None = None


def _collapse(outcomes: Outcomes, sided: bool, ties: bool) -> JudgedRows:
    """Return one row per (pair, judge), the pair as shown or, without sides, in code order.

    Votes with different covariates stay apart.
    """
    offsets = outcomes.offsets
    x = np.zeros((len(outcomes.left), 0)) if outcomes.x is None else np.array(outcomes.x, dtype=np.float64)
    where = np.stack(outcomes[:3]).astype(np.int64)
    counts = np.stack(outcomes[3:6]).astype(np.float64)
    if not ties:
        counts[2] = 0.0
    if not sided:
        flip = where[0] > where[1]
        where[:2, flip] = where[1::-1, flip]
        counts[:2, flip] = counts[1::-1, flip]
        x[flip] *= -1.0
    kept = counts.sum(axis=0) > 0
    if not kept.all():
        where, counts, x = where[:, kept], counts[:, kept], x[kept]
    size, crowd = max(int(offsets[-1]), 1), int(where[2].max(initial=0)) + 1
    order: Ints | None
    if size * size * crowd < 2**62:
        key = (where[0] * size + where[1]) * crowd + where[2]
        order = None if (np.diff(key) > 0).all() else np.argsort(key, kind="stable")
    else:
        order = np.lexsort(where[::-1])
    if order is not None:
        where, counts, x = where[:, order], counts[:, order], x[order]
        new = (np.diff(where) != 0).any(axis=0) | (np.diff(x, axis=0) != 0).any(axis=1)
        begin = np.flatnonzero(np.append(True, new)[: len(order)])
        if len(begin) < len(order):
            where, counts, x = where[:, begin], np.add.reduceat(counts, begin, axis=1), x[begin]
    codes = where.astype(np.int32)
    return JudgedRows(
        codes[0],
        codes[1],
        codes[2],
        counts[0],
        counts[1],
        counts[2],
        np.searchsorted(where[0], offsets).astype(np.int64),
        np.ascontiguousarray(offsets, dtype=np.int64),
        ties,
        np.ascontiguousarray(x),
        np.zeros(len(x)) if outcomes.beta is None else x @ outcomes.beta,
    )


def _score_derivatives(rows: JudgedRows, score: Floats, phi: Floats, prior: Floats) -> Derivatives:
    """Return the objective of every instance, its gradient in the scores and the curvature of every row."""
    value = np.zeros(len(rows.starts) - 1)
    gradient, curvature = np.zeros(len(score)), np.zeros(len(rows.left))
    score_pass(*rows[:7], rows.ties, rows.offset, score, phi, value, gradient, curvature)
    return Derivatives(value - _penalty(rows, score, prior), gradient - prior * score, curvature)


def _judge_derivatives(rows: JudgedRows, score: Floats, phi: Floats, prior: Floats) -> Derivatives:
    """Return the objective of every instance, and gradient and −Hessian of the likelihood in the judges' parameters."""
    value = np.zeros(len(rows.starts) - 1)
    gradient, curvature = np.zeros((len(phi), 4)), np.zeros((len(phi), 4, 4))
    judge_pass(*rows[:7], rows.ties, rows.offset, score, phi, value, gradient, curvature)
    return Derivatives(value - _penalty(rows, score, prior), gradient, curvature)


def _penalty(rows: JudgedRows, score: Floats, prior: Floats) -> Floats:
    """Return the penalty of the scores' prior in every instance."""
    return 0.5 * list_sums(prior * score * score, rows.offsets)


def _largest(x: Floats, offsets: Ints) -> Floats:
    """Return the largest |x| of every instance, 0 for one without items."""
    return list_maxima(np.abs(x), offsets)


def _degrees(rows: JudgedRows) -> Floats:
    """Return the number of comparisons of every item."""
    count = rows.n_left + rows.n_right + rows.n_ties
    size = int(rows.offsets[-1])
    both = np.bincount(rows.left, count, size) + np.bincount(rows.right, count, size)
    return both.astype(np.float64)


def _newton_direction(rows: JudgedRows, derivatives: Derivatives, prior: Floats, wanted: NDArray[np.bool_]) -> Floats:
    """Return the Newton step of the scores in the `wanted` instances, capped at `_LONGEST_STEP`, and 0 elsewhere."""
    out: Floats = _solve_scores(rows, derivatives.curvature, prior, wanted, derivatives.gradient[None, :])[0]
    largest = np.maximum(_largest(out, rows.offsets), 1e-300)
    out *= np.repeat(np.minimum(1.0, _LONGEST_STEP / largest), np.diff(rows.offsets))
    return out


def _solve_scores(
    rows: JudgedRows, curvature: Floats, prior: Floats, wanted: NDArray[np.bool_], columns: Floats
) -> Floats:
    """Solve for each row of `columns` with the information of the scores in the `wanted` instances; 0 elsewhere."""
    out = np.zeros(columns.shape)
    for n in np.flatnonzero(wanted & (np.diff(rows.starts) > 0)):
        first, last = int(rows.offsets[n]), int(rows.offsets[n + 1])
        pull = columns[:, first:last]
        if last - first <= _DENSE:
            matrix = _score_information(rows, curvature, prior, int(n))
            diagonal = matrix.ravel()[:: len(matrix) + 1]
            # Without a prior the matrix is singular along a common shift, where the gradient is 0: a tiny ridge keeps
            # the factor finite and changes nothing else.
            diagonal += 1e-10 * max(float(diagonal.max()), 1e-12)
            found = solve_positive_definite(matrix, pull.T)
            if found is None:
                raise np.linalg.LinAlgError("the information of the scores is not positive definite")
            out[:, first:last] = found.T
        else:
            for c, column in enumerate(pull):
                out[c, first:last] = _conjugate_gradient_step(rows, curvature, prior, int(n), column)
    return out


class _Effects(NamedTuple):
    """Gradient of the log-likelihood in the effects of covariates, their information, and that with the scores."""

    gradient: Floats
    information: Floats
    cross: Floats

    @classmethod
    def of(cls, rows: JudgedRows, score: Floats, phi: Floats) -> _Effects:
        """Return the derivatives at scores and judges."""
        k = rows.x.shape[1]
        out = cls(np.zeros(k), np.zeros((k, k)), np.zeros((k, len(score))))
        effect_pass(*rows[:6], rows.ties, rows.offset, score, phi, rows.x, *out)
        return out


def _maximise_with_effects(
    rows: JudgedRows, score: Floats, beta: Floats, seen: Derivatives, phi: Floats, prior: Floats
) -> tuple[JudgedRows, Floats, Floats, Derivatives]:
    """Take one Newton step of scores and effects of covariates together, given the judges.

    Returns the rows with the effects in their offset, scores, effects, and the judges' derivatives there.
    """
    effects = _Effects.of(rows, score, phi)
    everywhere = np.ones(len(seen.value), dtype=np.bool_)
    columns = np.concatenate([seen.gradient[None, :], effects.cross])
    solved = _solve_scores(rows, seen.curvature, prior, everywhere, columns)
    schur = effects.information - effects.cross @ solved[1:].T
    of_beta = np.linalg.lstsq(schur, effects.gradient - effects.cross @ solved[0])[0]
    step = solved[0] - of_beta @ solved[1:]
    size = max(float(np.abs(step).max(initial=0.0)), float(np.abs(of_beta).max(initial=0.0)), 1e-300)
    before = float(seen.value.sum())

    def trial(part: float) -> tuple[JudgedRows, Floats, Floats, Derivatives]:
        moved, at = rows._replace(offset=rows.x @ (beta + part * of_beta)), score + part * step
        return moved, at, beta + part * of_beta, _judge_derivatives(moved, at, phi, prior)

    return backtrack(
        trial,
        lambda found, _: float(found[-1].value.sum()) >= before - 1e-13 * abs(before),
        min(1.0, _LONGEST_STEP / size),
        _HALVINGS,
    ) or trial(0.0)


def _score_information(rows: JudgedRows, curvature: Floats, prior: Floats, n: int) -> Floats:
    """Return the negative Hessian of an instance's objective in its scores."""
    first, last = int(rows.offsets[n]), int(rows.offsets[n + 1])
    out = np.diag(prior[first:last])
    assemble_hessian(rows.left, rows.right, curvature, rows.starts[n], rows.starts[n + 1], first, out)
    return out


def _conjugate_gradient_step(rows: JudgedRows, curvature: Floats, prior: Floats, n: int, pull: Floats) -> Floats:
    """Return the Newton step of an instance by conjugate gradients, preconditioned by the diagonal."""
    first, m = int(rows.offsets[n]), len(pull)
    start, stop = int(rows.starts[n]), int(rows.starts[n + 1])
    left, right, curvature = rows.left[start:stop], rows.right[start:stop], curvature[start:stop]
    score_precision = prior[first : first + m]
    diagonal = np.bincount(left - first, curvature, m) + np.bincount(right - first, curvature, m) + score_precision
    diagonal += 1e-10 * max(float(diagonal.max()), 1e-12)

    def product(vector: Floats) -> Floats:
        return hessian_product(left, right, curvature, first, vector) + score_precision * vector

    return conjugate_gradients(product, pull, diagonal, rtol=1e-8, max_iter=2000)[0]


def _line_search(
    rows: JudgedRows, score: Floats, step: Floats, value: Floats, evaluate: Callable[[Floats], Derivatives]
) -> tuple[Floats, Derivatives]:
    """Return the scores after a backtracking line search along the step in each instance, and the derivatives there."""
    instance = np.repeat(np.arange(len(value)), np.diff(rows.offsets))

    def trial(length: Floats) -> tuple[Floats, Derivatives]:
        moved = score + length[instance] * step
        return moved, evaluate(moved)

    # At the maximum rounding may lower the last bits of the value.
    return backtrack_each(trial, lambda found: found[1].value, value - 1e-13 * np.abs(value), _HALVINGS)


def _maximise_scores(
    rows: JudgedRows, score: Floats, phi: Floats, prior: Floats, tol: float, max_iter: int
) -> ScoreFit:
    """Maximise the objective over the scores given the judges: Newton's method with a line search in each instance."""

    def evaluate(at: Floats) -> Derivatives:
        return _score_derivatives(rows, at, phi, prior)

    scale = np.maximum(_largest(_degrees(rows), rows.offsets), 1.0)
    seen = evaluate(score)
    norm = _largest(seen.gradient, rows.offsets) / scale
    steps = np.zeros(len(norm), dtype=np.int64)
    wanted = ~(norm <= tol)
    for _ in range(max_iter):
        if not wanted.any():
            break
        score, seen = _line_search(rows, score, _newton_direction(rows, seen, prior, wanted), seen.value, evaluate)
        norm, before = _largest(seen.gradient, rows.offsets) / scale, norm
        steps[wanted] += 1
        # Near the end Newton's method squares the norm; where it does not, only rounding is left.
        wanted &= ~(norm <= tol) & ~((norm < 1e-9) & (norm > 0.5 * before))
    return ScoreFit(score, seen.value, norm, steps, norm <= tol)


def _centred(rows: JudgedRows, score: Floats, prior: Floats) -> Floats:
    """Return the scores, centred over the items compared in the instances without a prior."""
    free = _largest(prior, rows.offsets) == 0
    if not free.any():
        return score
    instance = np.repeat(np.arange(len(free)), np.diff(rows.offsets))
    compared = _degrees(rows) > 0
    total = np.bincount(instance, np.where(compared, score, 0.0), len(free))
    mean = total / np.maximum(np.bincount(instance, compared, len(free)), 1.0)
    return np.where(compared, score - np.where(free, mean, 0.0)[instance], score)


class _BorderedSystem(NamedTuple):
    """The Newton system of the judges, bordered by the population's means and the gauge constraint.

    For every judge `inverse` is the inverse of its 4 × 4 block and `coupling` its columns for the three means and the
    multiplier of the gauge; `schur` is the Schur complement of those four after the judges are eliminated.
    """

    inverse: Floats
    coupling: Floats
    schur: Floats

    def solve(self, pull: Floats, shared: Floats) -> tuple[Floats, Floats]:
        """Return the Newton step of the judges, tangential to the gauge constraint, and that of the means."""
        moved = np.einsum("kpq,kq->kp", self.inverse, pull)
        common = np.linalg.solve(self.schur, np.append(shared, 0.0) - np.einsum("kpc,kp->c", self.coupling, moved))
        indirect = np.einsum("kpq,kq->kp", self.inverse, self.coupling @ common)
        return moved - indirect, np.append(common[:3], 0.0)


class _Judges(NamedTuple):
    """Parameters `phi` of the judges, mean and variance of their population, and their shares of the comparisons.

    `change` is the last change of the logarithms of the variances. Parameters that are not `active` are not in the
    model and stay fixed. The fourth parameter, the standard deviation of the slope, has mean 0 and the variance of the
    slope.
    """

    phi: Floats
    mean: Floats
    variance: Floats
    change: Floats
    weight: Floats
    active: NDArray[np.bool_]

    @property
    def precision(self) -> Floats:
        """Inverse of the population's variance; 1 for a parameter that is not in the model."""
        return np.where(self.active, 1.0 / self.variance[[SLOPE, SIDE, TIE, SLOPE]], 1.0)

    @property
    def penalty(self) -> float:
        """The penalty of the population's prior in the objective."""
        off = self.phi - self.mean
        out = 0.5 * float((self.precision * off * off).sum() + (_MEAN_PRECISION * self.mean**2).sum())
        return out - float(np.log(self.phi[:, SLOPE_SD]).sum()) if self.active[SLOPE_SD] else out

    def gradients(self, derivatives: Derivatives) -> tuple[Floats, Floats]:
        """Return the gradient of the objective in the parameters and, judge by judge, in the three means."""
        inward = self.precision * (self.phi - self.mean)
        own = np.where(self.active, derivatives.gradient, 0.0) - inward
        if self.active[SLOPE_SD]:
            own[:, SLOPE_SD] += 1.0 / self.phi[:, SLOPE_SD]
        return own, (inward - _MEAN_PRECISION * self.mean / len(self.phi))[:, :SLOPE_SD]

    @property
    def normal(self) -> Floats:
        """The gradient of the gauge constraint (half the mean square of the slopes) in the parameters."""
        out = np.zeros_like(self.phi)
        out[:, SLOPE] = self.weight * self.phi[:, SLOPE]
        out[:, SLOPE_SD] = self.weight * self.phi[:, SLOPE_SD]
        return out

    def multiplier(self, own: Floats) -> float:
        """Return the Lagrange multiplier of the gauge constraint for a gradient of the parameters."""
        normal = self.normal
        return float((normal * own).sum() / (normal * normal).sum())

    def inverse_blocks(self, derivatives: Derivatives, multiplier: float) -> Floats:
        """Return for every judge the inverse of its 4 × 4 block of the Newton system."""
        block = np.where(self.active[:, None] & self.active, derivatives.curvature, 0.0) + np.diag(self.precision)
        block[:, SLOPE, SLOPE] += multiplier * self.weight
        if self.active[SLOPE_SD]:
            block[:, SLOPE_SD, SLOPE_SD] += multiplier * self.weight + 1.0 / self.phi[:, SLOPE_SD] ** 2
        return np.linalg.inv(block)

    def bordered_system(self, derivatives: Derivatives, multiplier: float) -> _BorderedSystem:
        """Return the Newton system at the parameters with these derivatives."""
        n, precision = len(self.phi), self.precision
        inverse = self.inverse_blocks(derivatives, multiplier)
        coupling = np.zeros((n, 4, 4))
        shared = [SLOPE, SIDE, TIE]
        coupling[:, shared, shared] = -precision[:SLOPE_SD]
        coupling[:, :, 3] = self.normal
        schur = np.diag(np.append((n * precision + _MEAN_PRECISION)[:SLOPE_SD], 0.0))
        # Two products: einsum over three arrays at once takes six times as long.
        schur -= np.einsum("kpc,kpd->cd", coupling, inverse @ coupling)
        return _BorderedSystem(inverse, coupling, schur)

    def gradient_norm(self, derivatives: Derivatives) -> float:
        """Return the largest derivative of the objective in parameters and means, along the gauge constraint."""
        own, shared = self.gradients(derivatives)
        own -= self.multiplier(own) * self.normal
        return max(float(np.abs(own).max()), float(np.abs(shared.sum(axis=0)).max()))

    def moved(self, step: Floats, drift: Floats) -> _Judges:
        """Return the judges after a step, rescaled to satisfy the gauge constraint."""
        phi = self.phi + step
        size = np.sqrt(self.weight @ (phi[:, SLOPE] ** 2 + phi[:, SLOPE_SD] ** 2))
        phi[:, [SLOPE, SLOPE_SD]] /= size
        return self._replace(phi=phi, mean=self.mean + drift)

    def reliable_slope(self) -> float:
        """Return Σ n E[a²] / Σ n E|a|, the mean slope with each judge weighted by |slope|."""
        from scipy.special import ndtr

        slope, sd = self.phi[:, SLOPE], np.maximum(self.phi[:, SLOPE_SD], 1e-12)
        ratio = slope / sd
        size = slope * (2.0 * ndtr(ratio) - 1.0) + sd * np.exp(-0.5 * ratio**2) * np.sqrt(2.0 / np.pi)
        return float(self.weight @ (slope**2 + sd**2)) / float(self.weight @ size)

    def update_variance(self, derivatives: Derivatives) -> _Judges:
        """Return the judges with variances after one step of empirical Bayes.

        A variance is the sum of squared deviations over the effective number of judges, each of whom counts
        1 - (posterior variance) / (prior variance).
        """
        spread = np.einsum("kpp->kp", self.inverse_blocks(derivatives, 0.0))[:, :SLOPE_SD].copy()
        if self.active[SLOPE_SD]:
            # σ² at which its gradient along the constraint, 1/σ - σ (1/V + information), vanishes for the current V.
            slope_information = (
                self.multiplier(self.gradients(derivatives)[0]) * self.weight
                - derivatives.gradient[:, SLOPE_SD] / self.phi[:, SLOPE_SD]
            )
            slope_information = np.maximum(slope_information, 0.0)
            spread[:, SLOPE] = 1.0 / (1.0 / self.variance[SLOPE] + slope_information)
        off = (self.phi - self.mean)[:, :SLOPE_SD]
        effective_count = np.clip(1.0 - spread / self.variance, 0.0, 1.0).sum(axis=0)
        found = ((off * off).sum(axis=0) + _PRIOR_JUDGES * _PRIOR_VARIANCE) / (effective_count + _PRIOR_JUDGES)
        change = np.where(self.active[:SLOPE_SD], np.clip(np.log(found / self.variance), -1.0, 1.0), 0.0)
        # Where the changes form a geometric series, extrapolate to its limit (Aitken), then observe again.
        ratio = change / np.where(self.change == 0.0, np.inf, self.change)
        steady = (ratio > 0.5) & (ratio < 0.95)
        leap = np.clip(change / np.where(steady, 1.0 - ratio, 1.0), -1.0, 1.0)
        return self._replace(variance=self.variance * np.exp(leap), change=np.where(steady, 0.0, change))


def _sweep(
    rows: JudgedRows, score: Floats, beta: Floats, judges: _Judges, seen: Derivatives, prior: Floats, learn: bool
) -> tuple[JudgedRows, Floats, Floats, _Judges, Derivatives, float]:
    """Update scores, effects of covariates, population and judges once.

    Returns them after the rows, whose offset holds the effects, with the scores' derivatives and the judges' gradient
    norm.

    The first sweep leaves the variances alone: every judge starts at the mean.
    """

    def evaluate(at: Floats) -> Derivatives:
        return _judge_derivatives(rows, at, judges.phi, prior)

    everywhere = np.ones(len(seen.value), dtype=np.bool_)
    if len(beta):
        rows, score, beta, found = _maximise_with_effects(rows, score, beta, seen, judges.phi, prior)
    else:
        score, found = _line_search(rows, score, _newton_direction(rows, seen, prior, everywhere), seen.value, evaluate)
    penalty = _penalty(rows, score, prior)
    likelihood = float((found.value + penalty).sum())
    current = judges.update_variance(found) if learn else judges
    before = likelihood - current.penalty
    own, shared = current.gradients(found)
    step, drift = current.bordered_system(found, max(current.multiplier(own), 0.0)).solve(own, shared.sum(axis=0))
    # Keep standard deviations positive.
    step[:, SLOPE_SD] = np.maximum(step[:, SLOPE_SD], -0.9 * current.phi[:, SLOPE_SD])

    def trial(part: float) -> tuple[_Judges, Derivatives]:
        moved = current.moved(part * step, part * drift)
        return moved, _score_derivatives(rows, score, moved.phi, prior)

    def rises(at: tuple[_Judges, Derivatives], _: float) -> bool:
        return float((at[1].value + penalty).sum()) - at[0].penalty >= before - 1e-13 * abs(before)

    moved, seen = backtrack(trial, rises, halvings=39) or trial(0.0)
    return rows, score, beta, moved, seen, current.gradient_norm(found)


class _SweepState(NamedTuple):
    """State of the iteration after a sweep."""

    score: Floats
    judges: _Judges
    beta: Floats
    trace: list[float]
    converged: bool


def _start(rows: JudgedRows, judges: _Judges, score_precision: Floats) -> tuple[Floats, _Judges]:
    """Return the initial scores and judges: plain Bradley-Terry (Davidson), so that the majority decides the sign."""
    score = _maximise_scores(rows, np.zeros(len(score_precision)), judges.phi, score_precision, 1e-3, 50).score
    if not judges.active[SLOPE_SD]:
        return score, judges
    slope_information = _judge_derivatives(rows, score, judges.phi, score_precision).curvature[:, SLOPE, SLOPE]
    judges.phi[:, SLOPE_SD] = 1.0 / np.sqrt(slope_information + judges.precision[SLOPE])
    return score, judges.moved(np.zeros_like(judges.phi), np.zeros(4))


def fit_judges(
    outcomes: Outcomes,
    n_experts: int,
    *,
    prior: float | Floats,
    sided: bool = True,
    ties: bool | None = None,
    tol: float = 1e-9,
    max_iter: int = 500,
    report: Callable[[int, int], None] | None = None,
    checkpoint: Checkpointer = NO_CHECKPOINT,
) -> JudgeFit:
    """Estimate the scores of all items and the parameters of all judges jointly.

    Parameters
    ----------
    outcomes : Outcomes
        The outcomes.
    n_experts : int
        The number of judges; those without a comparison get the parameters of the population.
    prior : float or float64[S]
        The precision of the Gaussian prior of every score; 0 leaves the scores free, with mean 0 in an instance.
    sided : bool
        Whether left and right are the order shown; otherwise there is no side bias.
    ties : bool or None
        Whether ties are modelled; None models them when there are any, False leaves them out.
    tol : float
        The gradient norm at which the iteration ends.
    max_iter : int
        The maximum number of sweeps.
    report : callable, optional
        Called after every sweep with the number of sweeps done and their maximum number.
    checkpoint : Checkpointer
        Receives the state after every sweep, for a checkpoint.

    Notes
    -----
    A sweep costs two passes over the collapsed rows and one factorisation per instance, O(M³) for M items (conjugate
    gradients above 2,500). The scores are those of `scores_given_judges` with the judges found.
    """
    ties = bool(np.sum(outcomes.n_ties) > 0) if ties is None else ties
    rows = _collapse(outcomes, sided, ties)
    size = int(rows.offsets[-1])
    score_precision = np.broadcast_to(np.asarray(prior, dtype=np.float64), size).copy()
    who, code = np.unique(rows.expert, return_inverse=True)
    rows = rows._replace(expert=code.astype(np.int32))
    count = np.bincount(code, rows.n_left + rows.n_right + rows.n_ties, len(who))
    if not len(who):
        return _empty_fit(size, n_experts, ties)
    share = float(rows.n_ties.sum() / count.sum())
    # The tie parameter of equal items that tie as often as all items do; kept finite where everything ties.
    tie = np.log(2.0 * share + 1e-3) - np.log(1.0 - share + 1e-3) if ties else 0.0
    # The gauge fixes the slope of a single judge, without uncertainty.
    active = np.array([True, sided, ties, len(who) > 1])
    mean = np.array([1.0, 0.0, tie, 0.0])
    judges = _Judges(
        np.tile(mean, (len(who), 1)), mean, np.full(3, _PRIOR_VARIANCE), np.zeros(3), count / count.sum(), active
    )
    scale = max(1.0, float(count.max()), float(_degrees(rows).max()))
    known = checkpoint.restore()
    if known is None:
        at = _SweepState(*_start(rows, judges, score_precision), np.zeros(rows.x.shape[1]), [], False)
    else:
        judges = judges._replace(**{name: known[name] for name in _ESTIMATED})
        at = _SweepState(known["score"], judges, known["beta"], known["trace"].tolist(), bool(known["converged"]))
        rows = rows._replace(offset=rows.x @ at.beta)
    seen = _score_derivatives(rows, at.score, at.judges.phi, score_precision)

    def state() -> State:
        found = {name: np.asarray(getattr(at.judges, name)) for name in _ESTIMATED}
        return found | {
            "score": at.score,
            "beta": at.beta,
            "trace": np.array(at.trace),
            "converged": np.array(at.converged),
        }

    with checkpoint.steps(max_iter):
        while not at.converged and len(at.trace) < max_iter and not _stalled(at.trace):
            before = at.judges.variance
            learn = len(at.trace) > 0
            rows, score, beta, judges, seen, norm = _sweep(
                rows, at.score, at.beta, at.judges, seen, score_precision, learn
            )
            trace = [*at.trace, float(seen.value.sum()) - judges.penalty]
            still = float(np.abs(np.log(judges.variance / before)).max()) <= 10.0 * tol
            norm = max(norm, float(np.abs(seen.gradient).max()), _effect_norm(rows, score, judges) * scale)
            converged = still and len(trace) > 1 and norm <= tol * scale
            at = _SweepState(score, judges, beta, trace, converged)
            checkpoint.save(len(trace), state)
            if report is not None:
                report(len(trace), max_iter)
    score, judges, beta, trace, converged = at
    score = _centred(
        rows, _maximise_scores(rows, score, judges.phi, score_precision, _EXACT, 10).score, score_precision
    )
    seen, found = (
        _score_derivatives(rows, score, judges.phi, score_precision),
        _judge_derivatives(rows, score, judges.phi, score_precision),
    )
    norm = max(judges.gradient_norm(found), float(np.abs(seen.gradient).max())) / scale
    norm = max(norm, _effect_norm(rows, score, judges))
    objective = float(found.value.sum()) - judges.penalty
    score, judges, found, factor = _on_reliable_scale(score, judges, found)
    means = np.linalg.pinv(judges.bordered_system(found, 0.0).schur[:SLOPE_SD, :SLOPE_SD], hermitian=True)
    reliability, stderr = _reliability(rows, score, judges, found, n_experts, who)
    phi = np.tile(judges.mean, (n_experts, 1))
    phi[:, SLOPE_SD] = np.sqrt(judges.variance[SLOPE])
    phi[who] = judges.phi
    compared = np.zeros(n_experts)
    compared[who] = count
    return JudgeFit(
        score=score,
        scale=abs(factor),
        tie=float(judges.mean[TIE]) if ties else -np.inf,
        slope=phi[:, SLOPE].copy(),
        slope_stderr=phi[:, SLOPE_SD].copy(),
        side=phi[:, SIDE].copy(),
        tie_tendency=phi[:, TIE] - judges.mean[TIE],
        reliability=reliability,
        reliability_stderr=stderr,
        n_comparisons=compared,
        variance=Variance(*judges.variance.tolist()),
        objective=objective,
        gradient_norm=norm,
        n_iter=len(trace),
        converged=converged and norm <= tol,
        trace=trace,
        beta=beta,
        side_effect=float(judges.mean[SIDE]),
        mean_stderr=Variance(*np.sqrt(np.maximum(np.diag(means), 0.0)).tolist()),
    )


def _effect_norm(rows: JudgedRows, score: Floats, judges: _Judges) -> float:
    """Return the largest derivative in the effects of covariates, over the number of outcomes."""
    if not rows.x.shape[1]:
        return 0.0
    n = float((rows.n_left + rows.n_right + rows.n_ties).sum())
    return float(np.abs(_Effects.of(rows, score, judges.phi).gradient).max()) / max(n, 1.0)


def _stalled(trace: list[float]) -> bool:
    """Return whether the objective has not changed for some sweeps: rounding keeps the gradient above its tolerance."""
    return len(trace) >= _STALLED_SWEEPS and len(set(trace[-_STALLED_SWEEPS:])) == 1


def _on_reliable_scale(
    score: Floats, judges: _Judges, derivatives: Derivatives
) -> tuple[Floats, _Judges, Derivatives, float]:
    """Return scores, judges and derivatives on the scale of the reliable judges, and the factor of the scores.

    Where the mean slope is negative, the sign of all scores and slopes is reversed.
    """
    factor = judges.reliable_slope()
    factor = factor if float(judges.weight @ judges.phi[:, SLOPE]) >= 0 else -factor
    unit = np.array([factor, 1.0, 1.0, abs(factor)])
    moved = judges._replace(
        phi=judges.phi / unit, mean=judges.mean / unit, variance=judges.variance / unit[:SLOPE_SD] ** 2
    )
    seen = derivatives._replace(
        gradient=derivatives.gradient * unit, curvature=derivatives.curvature * np.outer(unit, unit)
    )
    return score * factor, moved, seen, factor


def _reliability(
    rows: JudgedRows, score: Floats, judges: _Judges, derivatives: Derivatives, n_experts: int, who: Codes
) -> tuple[Floats, Floats]:
    """Return the reliability of every judge and its posterior standard deviation.

    Reliability is the derivative along s_i - s_j of the mean answer (left 1, tie 0, right -1), averaged over the
    judge's pairs, over the same derivative for a judge of slope 1 without side bias or ties; in units in which the
    reliability of the reliable judges equals their slope.
    """

    def sensitivity(phi: Floats) -> Floats:
        out = np.zeros((len(phi), 5))
        sensitivity_pass(*rows[:6], rows.ties, rows.offset, score, phi, out)
        return out

    spread = judges.bordered_system(derivatives, 0.0).inverse[:, :SLOPE_SD, :SLOPE_SD]
    each = sensitivity(judges.phi)
    # A judge without comparisons gets the population's value over all pairs.
    ordinary = sensitivity(np.tile(judges.mean, (len(who), 1))).sum(axis=0, keepdims=True)
    table = np.concatenate([each, ordinary])
    plain = np.maximum(table[:, 1], 1e-300)
    moves, turns = table[:, 0] / plain, table[:, 2:] / plain[:, None] * judges.active[:SLOPE_SD]
    value, turn, slack = moves[:-1], turns[:-1], turns[-1]
    believed = float(judges.weight @ (value * judges.phi[:, SLOPE]))
    unit = float(judges.weight @ value**2) / believed if believed > 0 else 1.0
    reliability = np.full(n_experts, moves[-1] / unit)
    stderr = np.full(n_experts, np.sqrt(float(slack**2 @ judges.variance)) / unit)
    reliability[who] = value / unit
    stderr[who] = np.sqrt(np.einsum("kp,kpq,kq->k", turn, spread, turn)) / unit
    return reliability, stderr


def _empty_fit(size: int, n_experts: int, ties: bool) -> JudgeFit:
    """Return the fit of an empty set of comparisons: the prior."""
    none, one = np.zeros(n_experts), np.ones(n_experts)
    return JudgeFit(
        score=np.zeros(size),
        scale=1.0,
        tie=0.0 if ties else -np.inf,
        slope=one,
        slope_stderr=np.full(n_experts, np.sqrt(_PRIOR_VARIANCE)),
        side=none,
        tie_tendency=none.copy(),
        reliability=one.copy(),
        reliability_stderr=np.full(n_experts, np.sqrt(_PRIOR_VARIANCE)),
        n_comparisons=none.copy(),
        variance=Variance(_PRIOR_VARIANCE, _PRIOR_VARIANCE, _PRIOR_VARIANCE),
        objective=0.0,
        gradient_norm=0.0,
        n_iter=0,
        converged=True,
        trace=[],
        beta=np.zeros(0),
        side_effect=0.0,
        mean_stderr=Variance(0.0, 0.0, 0.0),
    )


def scores_given_judges(
    outcomes: Outcomes,
    judges: Judges,
    *,
    prior: float | Floats,
    sided: bool = True,
    tol: float = _EXACT,
    max_iter: int = 100,
) -> ScoreFit:
    """Return the scores given the judges; the scores of an instance do not depend on other instances.

    Parameters are those of `fit_judges`, and the judges it found.

    Notes
    -----
    A concave problem, solved by Newton's method: a handful of steps from 0.
    """
    phi, ties = judges.parameters(sided)
    rows = _collapse(outcomes, sided, ties)
    score_precision = np.broadcast_to(np.asarray(prior, dtype=np.float64), int(rows.offsets[-1])).copy()
    found = _maximise_scores(rows, np.zeros(len(score_precision)), phi, score_precision, tol, max_iter)
    return found._replace(score=_centred(rows, found.score, score_precision))


def judge_information(
    outcomes: Outcomes,
    judges: Judges,
    *,
    score: Floats,
    variance: Variance,
    prior: float | Floats,
    sided: bool = True,
    profile: bool = True,
    effects: bool = False,
) -> list[Information]:
    """Return for every instance the observed information of its scores and the gradients by judge.

    Parameters
    ----------
    judges, score, variance
        Results of `fit_judges`; the other parameters are those it was given.
    profile : bool
        Profile out the judges' parameters and the population's means, which were estimated with the scores. The
        variances, the weights of the gauge and the scores of other instances are held fixed. False holds the judges
        fixed too.
    effects : bool
        Whether the effects of covariates come after the scores in `hessian` and `gradients`; otherwise they are held
        fixed.

    Returns
    -------
    list of Information
        `hessian`: float64[m, m], of the negative objective. `gradients`: float64[G, m], of each judge's log-likelihood
        (no prior) along the profile. `information`: float64[G, m], the diagonal of each judge's −Hessian. `expert`:
        int32[G], the judges.

    Notes
    -----
    The matrix holds O(m² + m G) numbers for m items and G judges of an instance and costs O(m² G).
    """
    phi, ties = judges.parameters(sided)
    rows = _collapse(outcomes, sided, ties)
    score_precision = np.broadcast_to(np.asarray(prior, dtype=np.float64), int(rows.offsets[-1])).copy()
    who, code = np.unique(rows.expert, return_inverse=True)
    rows = rows._replace(expert=code.astype(np.int32))
    phi = np.ascontiguousarray(phi[who])
    score = np.array(score, dtype=np.float64)
    seen = _score_derivatives(rows, score, phi, score_precision)
    if profile and len(who):
        found = _judge_derivatives(rows, score, phi, score_precision)
        active = np.array([True, sided, ties, bool(phi[:, SLOPE_SD].all())])
        count = np.bincount(rows.expert, rows.n_left + rows.n_right + rows.n_ties, len(who)).astype(np.float64)
        population = _Judges(phi, np.zeros(4), np.array(variance), np.zeros(3), count / count.sum(), active)
        precision = population.precision
        mean = precision * phi.sum(axis=0) / (len(phi) * precision + _MEAN_PRECISION)
        mean[SLOPE_SD] = 0.0
        population = population._replace(mean=mean)
        judge_gradients = population.gradients(found)
        bordered_system = population.bordered_system(found, population.multiplier(judge_gradients[0]))
    out = []
    for n in range(len(rows.starts) - 1):
        first, m = int(rows.offsets[n]), int(rows.offsets[n + 1] - rows.offsets[n])
        part = slice(int(rows.starts[n]), int(rows.starts[n + 1]))
        here, local = np.unique(rows.expert[part], return_inverse=True)
        hessian = _score_information(rows, seen.curvature, score_precision, n)
        gradients, cross = np.zeros((len(here), m)), np.zeros((len(here), 4, m))
        columns = (rows.left[part] - first, rows.right[part] - first, local.astype(np.int32))
        counts = (rows.n_left[part], rows.n_right[part], rows.n_ties[part])
        own = rows.offset[part], score[first : first + m], phi[here]
        cross_pass(*columns, *counts, ties, *own, gradients, cross)
        if effects and rows.x.shape[1]:
            hessian, gradients, cross = _with_effects(rows, n, columns, own, hessian, gradients, cross)
        if profile and len(here):
            cross *= active[:, None]
            hessian, gradients = _eliminate(hessian, gradients, cross, bordered_system, judge_gradients, here)
        information = np.zeros((len(here), m))
        for one in columns[:2]:
            np.add.at(information, (local, one), seen.curvature[part])
        out.append(Information(hessian, gradients, information, who[here].astype(np.int32)))
    return out


def _with_effects(
    rows: JudgedRows,
    n: int,
    columns: tuple[Codes, Codes, Codes],
    own: tuple[Floats, Floats, Floats],
    hessian: Floats,
    gradients: Floats,
    cross: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Return the −Hessian, gradients and mixed derivatives of an instance with the effects of covariates added."""
    part = slice(int(rows.starts[n]), int(rows.starts[n + 1]))
    x, k, m = np.ascontiguousarray(rows.x[part]), rows.x.shape[1], len(hessian)
    counts = (rows.n_left[part], rows.n_right[part], rows.n_ties[part])
    found = _Effects(np.zeros(k), np.zeros((k, k)), np.zeros((k, m)))
    effect_pass(*columns, *counts, rows.ties, *own, x, *found)
    of_effects, mixed = np.zeros((len(gradients), k)), np.zeros((len(gradients), 4, k))
    effect_cross_pass(*columns, *counts, rows.ties, *own, x, of_effects, mixed)
    whole = np.block([[hessian, found.cross.T], [found.cross, found.information]])
    return whole, np.concatenate([gradients, of_effects], axis=1), np.concatenate([cross, mixed], axis=2)


def _eliminate(
    hessian: Floats,
    gradients: Floats,
    cross: Floats,
    bordered_system: _BorderedSystem,
    judge_gradients: tuple[Floats, Floats],
    here: Codes,
) -> tuple[Floats, Floats]:
    """Return the Hessian and the gradients by judge of an instance with judges and population means profiled out."""
    inverse, coupling = bordered_system.inverse[here], bordered_system.coupling[here]
    own, shared = judge_gradients[0][here], judge_gradients[1][here]
    half = np.einsum("kpq,kqm->kpm", inverse, cross)
    joint = np.einsum("kpc,kpm->cm", coupling, half)
    flat = cross.reshape(-1, hessian.shape[0])
    hessian = hessian - flat.T @ half.reshape(flat.shape) - joint.T @ np.linalg.solve(bordered_system.schur, joint)
    moved = np.einsum("kpq,kq->kp", inverse, own)
    common = np.pad(shared, ((0, 0), (0, 1))) - np.einsum("kpc,kp->kc", coupling, moved)
    gradients = (
        gradients - np.einsum("kpm,kp->km", cross, moved) + np.linalg.solve(bordered_system.schur, common.T).T @ joint
    )
    return 0.5 * (hessian + hessian.T), gradients
