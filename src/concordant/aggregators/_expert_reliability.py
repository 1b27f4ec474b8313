"""Bradley-Terry scores and the reliability of every judge, estimated together without labels.

Judge k compares left i with right j, δ = s_i - s_j, and answers left, right or tie with odds

    exp(z/2) : exp(-z/2) : exp(t_k),    z = a_k δ + b_k

(without ties the first two). The slope a_k says how closely the answers follow the scores: 0 is a coin, below 0 an
inverted judge. The side bias b_k and the tie parameter t_k are habits; they explain the judge who always says left or
always tie. A judge's parameters come from a population, N(μ, diag V), whose means are estimated with them and whose
variances by empirical Bayes: a judge of few comparisons is taken for an ordinary one, a judge of many speaks for
itself. A slope known only roughly must not be believed as if it were exact (scores and slopes would puff each other
up), so its posterior N(a_k, σ_k²) is kept: the log-likelihood is averaged over the slopes a_k - σ_k and a_k + σ_k. The
objective is

    Σ_rows mean of log P over the two slopes - ½ Σ_i λ_i s_i² - ½ Σ_k (φ_k - μ)' V⁻¹ (φ_k - μ)
        + Σ_k (log σ_k - ½ σ_k² / V_a),    φ_k = (a_k, b_k, t_k),

a lower bound of the log marginal likelihood in which habits are taken at their mode. Given the judges it is concave in
the scores, and given the scores in the judges, so the two are improved in turn.

Gauge: (s, a) and (c s, a/c) say the same. While searching, the mean square of the slope over all comparisons is 1, so
that steeper slopes cannot dodge the prior of the scores. The answer is then put on the scale of the judges who are
believed, Σ_k n_k E[a_k²] = Σ_k n_k E|a_k| with n_k the number of comparisons (slopes averaged with the trust they
deserve): scores do not shrink because coin flippers take part. Turning all scores and slopes round says the same too;
the search starts with every slope at 1, so the majority says which way is up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.expert_reliability import (
    Derivatives,
    JudgedRows,
    assemble_hessian,
    cross_pass,
    follow_pass,
    hessian_product,
    judge_pass,
    score_pass,
)
from concordant.kernels.linear_systems import conjugate_gradients
from concordant.learning.resumable import NO_CHECKPOINT, Checkpointer, State

__all__ = [
    "DOUBT",
    "Information",
    "JudgeFit",
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
SLOPE, SIDE, TIE, DOUBT = 0, 1, 2, 3
# Before the data speak, the variances count as seen in two imaginary judges whose parameters stray by a half.
_STRAY, _IMAGINARY = 0.25, 2.0
# The means of the habits have a prior of standard deviation 10, which only keeps them finite where all answers are
# the same.
_MEAN_PRECISION = np.array([0.0, 0.01, 0.01, 0.0])
# Up to this many items a Newton system is factored; above it is solved by conjugate gradients without being formed.
_DENSE = 2500
# A Newton step moves no score or parameter further than this at once: beyond it the quadratic is not to be trusted.
_REACH = 2.0
# The gradient norm at which scores given the judges count as exact; a few roundings above what can be reached.
_EXACT = 1e-13
# Sweeps with the same objective after which the search ends.
_STALL = 10
# How often a Newton step that does not help is halved before it is given up.
_HALVINGS = 14


# What a search changes of the judges.
_SEARCHED = ("phi", "mean", "variance", "change")


class Variance(NamedTuple):
    """The variances of slope, side bias and tie parameter in the population of judges."""

    slope: float
    side: float
    tie: float


class JudgeFit(NamedTuple):
    """Scores and judges as estimated together.

    Attributes
    ----------
    score : float64[S]
        The scores; 0 for items nobody compares.
    scale : float
        What the scores were multiplied with to be on the scale of those who are believed; the prior holds for
        score / scale, so that its precision for `score` is prior / scale².
    tie : float
        The mean tie parameter, log ν of Davidson; -inf where ties are not modelled.
    slope, slope_stderr, side, tie_tendency : float64[K]
        a_k, σ_k, b_k and t_k minus the mean; judges without comparisons are what the population is.
    reliability, reliability_stderr : float64[K]
        How far the answers follow the scores (1 = like the judges who are believed, 0 = noise or habit, negative =
        inverted) and its posterior standard deviation with the scores taken as known.
    n_comparisons : float64[K]
        How much each judge compared.
    variance : Variance
        Of the population of judges, by empirical Bayes.
    objective : float
        The penalised log-likelihood.
    gradient_norm : float
        The largest derivative of the objective, over the largest number of comparisons of an item or a judge.
    n_iter, converged, trace
        Sweeps over scores and judges, whether the gradient vanished, and the objective after each sweep.
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


class ScoreFit(NamedTuple):
    """Scores with the judges taken as known, and how the search ended in every instance."""

    score: Floats
    objective: Floats
    gradient_norm: Floats
    n_iter: Ints
    converged: NDArray[np.bool_]


class Information(NamedTuple):
    """What an instance's comparisons say about its scores: curvature, and gradients and information by judge."""

    hessian: Floats
    gradients: Floats
    information: Floats
    expert: Codes


def _collapse(
    left: NDArray[Any],
    right: NDArray[Any],
    expert: NDArray[Any],
    n_left: Floats,
    n_right: Floats,
    n_ties: Floats,
    offsets: Ints,
    sided: bool,
    ties: bool,
) -> JudgedRows:
    """Return one row per (pair, judge), the pair as shown or, without sides, in code order."""
    where = np.stack([left, right, expert]).astype(np.int64)
    counts = np.stack([n_left, n_right, n_ties if ties else np.zeros(len(left))]).astype(np.float64)
    if not sided:
        flip = where[0] > where[1]
        where[:2, flip] = where[1::-1, flip]
        counts[:2, flip] = counts[1::-1, flip]
    kept = counts.sum(axis=0) > 0
    if not kept.all():
        where, counts = where[:, kept], counts[:, kept]
    size, crowd = max(int(offsets[-1]), 1), int(where[2].max(initial=0)) + 1
    order: Ints | None
    if size * size * crowd < 2**62:
        key = (where[0] * size + where[1]) * crowd + where[2]
        order = None if (np.diff(key) > 0).all() else np.argsort(key, kind="stable")
    else:
        order = np.lexsort(where[::-1])
    if order is not None:
        where, counts = where[:, order], counts[:, order]
        begin = np.flatnonzero(np.append(True, (np.diff(where) != 0).any(axis=0))[: len(order)])
        if len(begin) < len(order):
            where, counts = where[:, begin], np.add.reduceat(counts, begin, axis=1)
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
    )


def _look_at_scores(rows: JudgedRows, score: Floats, phi: Floats, prior: Floats) -> Derivatives:
    """Return the objective by instance with the gradient in the scores and every row's curvature."""
    value = np.zeros(len(rows.starts) - 1)
    gradient, bend = np.zeros(len(score)), np.zeros(len(rows.left))
    score_pass(*rows[:7], rows.ties, score, phi, value, gradient, bend)
    return Derivatives(value - _penalty(rows, score, prior), gradient - prior * score, bend)


def _look_at_judges(rows: JudgedRows, score: Floats, phi: Floats, prior: Floats) -> Derivatives:
    """Return the objective by instance with the log-likelihood's gradient and curvature in the judges' parameters."""
    value = np.zeros(len(rows.starts) - 1)
    gradient, bend = np.zeros((len(phi), 4)), np.zeros((len(phi), 4, 4))
    judge_pass(*rows[:7], rows.ties, score, phi, value, gradient, bend)
    return Derivatives(value - _penalty(rows, score, prior), gradient, bend)


def _penalty(rows: JudgedRows, score: Floats, prior: Floats) -> Floats:
    """Return what the prior of the scores takes from every instance's objective."""
    out = np.zeros(len(rows.offsets) - 1)
    held = np.flatnonzero(np.diff(rows.offsets))
    if len(held):
        out[held] = 0.5 * np.add.reduceat(prior * score * score, rows.offsets[:-1][held])
    return out


def _largest(x: Floats, offsets: Ints) -> Floats:
    """Return the largest |x| of every instance, 0 for one without items."""
    out = np.zeros(len(offsets) - 1)
    held = np.flatnonzero(np.diff(offsets))
    if len(held):
        out[held] = np.maximum.reduceat(np.abs(x), offsets[:-1][held])
    return out


def _degrees(rows: JudgedRows) -> Floats:
    """Return how many comparisons every item takes part in."""
    count = rows.n_left + rows.n_right + rows.n_ties
    size = int(rows.offsets[-1])
    both = np.bincount(rows.left, count, size) + np.bincount(rows.right, count, size)
    return both.astype(np.float64)


def _newton_direction(rows: JudgedRows, look: Derivatives, prior: Floats, wanted: NDArray[np.bool_]) -> Floats:
    """Return the Newton step of the scores in the wanted instances, no entry beyond `_REACH`, and 0 elsewhere."""
    from scipy.linalg import cho_factor, cho_solve

    out = np.zeros(len(look.gradient))
    for n in np.flatnonzero(wanted & (np.diff(rows.starts) > 0)):
        first, last = int(rows.offsets[n]), int(rows.offsets[n + 1])
        pull = look.gradient[first:last]
        if last - first <= _DENSE:
            matrix = _curvature(rows, look.bend, prior, int(n))
            diagonal = matrix.ravel()[:: len(matrix) + 1]
            # Without a prior the scores may be shifted together: the gradient has no part there, and a trace of a
            # ridge keeps the factor finite and changes nothing else.
            diagonal += 1e-10 * max(float(diagonal.max()), 1e-12)
            step = cho_solve(cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False), pull)
        else:
            step = _newton_step(rows, look.bend, prior, int(n), pull)
        out[first:last] = step * min(1.0, _REACH / max(float(np.abs(step).max()), 1e-300))
    return out


def _curvature(rows: JudgedRows, bend: Floats, prior: Floats, n: int) -> Floats:
    """Return the negative Hessian of an instance's objective in its scores."""
    first, last = int(rows.offsets[n]), int(rows.offsets[n + 1])
    out = np.diag(prior[first:last])
    assemble_hessian(rows.left, rows.right, bend, rows.starts[n], rows.starts[n + 1], first, out)
    return out


def _newton_step(rows: JudgedRows, bend: Floats, prior: Floats, n: int, pull: Floats) -> Floats:
    """Return an instance's Newton step without forming its matrix; the diagonal is the preconditioner."""
    first, m = int(rows.offsets[n]), len(pull)
    start, stop = int(rows.starts[n]), int(rows.starts[n + 1])
    left, right, bend = rows.left[start:stop], rows.right[start:stop], bend[start:stop]
    ridge = prior[first : first + m]
    diagonal = np.bincount(left - first, bend, m) + np.bincount(right - first, bend, m) + ridge
    diagonal += 1e-10 * max(float(diagonal.max()), 1e-12)

    def product(vector: Floats) -> Floats:
        return hessian_product(left, right, bend, first, vector) + ridge * vector

    return conjugate_gradients(product, pull, diagonal, rtol=1e-8, max_iter=2000)[0]


def _advance(
    rows: JudgedRows, score: Floats, step: Floats, value: Floats, look: Callable[[Floats], Derivatives]
) -> tuple[Floats, Derivatives]:
    """Return the scores moved along the step, shortened in instances where that would not help, and the look there."""
    instance = np.repeat(np.arange(len(value)), np.diff(rows.offsets))
    length = np.ones(len(value))
    for attempt in range(_HALVINGS + 1):
        moved = score + length[instance] * step
        found = look(moved)
        # Rounding may lower the last bits of a value that cannot rise any more.
        worse = ~(found.value >= value - 1e-13 * np.abs(value))
        if not worse.any():
            break
        length[worse] *= 0.5 if attempt < _HALVINGS - 1 else 0.0
    return moved, found


def _climb_scores(rows: JudgedRows, score: Floats, phi: Floats, prior: Floats, tol: float, max_iter: int) -> ScoreFit:
    """Return the best scores with the judges fixed, every instance by itself: Newton's method with backtracking."""

    def look(at: Floats) -> Derivatives:
        return _look_at_scores(rows, at, phi, prior)

    scale = np.maximum(_largest(_degrees(rows), rows.offsets), 1.0)
    seen = look(score)
    norm = _largest(seen.gradient, rows.offsets) / scale
    steps = np.zeros(len(norm), dtype=np.int64)
    wanted = ~(norm <= tol)
    for _ in range(max_iter):
        if not wanted.any():
            break
        score, seen = _advance(rows, score, _newton_direction(rows, seen, prior, wanted), seen.value, look)
        norm, before = _largest(seen.gradient, rows.offsets) / scale, norm
        steps[wanted] += 1
        # Near the end Newton's method squares the norm; where it does not, only rounding is left.
        wanted &= ~(norm <= tol) & ~((norm < 1e-9) & (norm > 0.5 * before))
    return ScoreFit(score, seen.value, norm, steps, norm <= tol)


def _centred(rows: JudgedRows, score: Floats, prior: Floats) -> Floats:
    """Return the scores with mean 0 over the items compared, in the instances where no prior holds them."""
    free = _largest(prior, rows.offsets) == 0
    if not free.any():
        return score
    instance = np.repeat(np.arange(len(free)), np.diff(rows.offsets))
    compared = _degrees(rows) > 0
    total = np.bincount(instance, np.where(compared, score, 0.0), len(free))
    mean = total / np.maximum(np.bincount(instance, compared, len(free)), 1.0)
    return np.where(compared, score - np.where(free, mean, 0.0)[instance], score)


class _Border(NamedTuple):
    """The judges' part of a Newton system with what they share: the population's means and the gauge.

    For every judge `inverse` is the inverse of its 4 × 4 block and `links` its coupling with the three means and the
    multiplier of the gauge; `core` is what remains of those four when the judges are eliminated.
    """

    inverse: Floats
    links: Floats
    core: Floats

    def solve(self, pull: Floats, shared: Floats) -> tuple[Floats, Floats]:
        """Return the step of the judges along the gauge, and that of the means."""
        moved = np.einsum("kpq,kq->kp", self.inverse, pull)
        common = np.linalg.solve(self.core, np.append(shared, 0.0) - np.einsum("kpc,kp->c", self.links, moved))
        return moved - np.einsum("kpq,kqc,c->kp", self.inverse, self.links, common), np.append(common[:3], 0.0)


class _Judges(NamedTuple):
    """The state of the judges: parameters, the population they come from and their shares of the comparisons.

    `change` is what the logarithms of the variances changed by last.
    Parameters that are not `active` are not in the model and stay where they are. The fourth parameter, the standard
    deviation of the slope, has the slope's variance as its scale and no mean.
    """

    phi: Floats
    mean: Floats
    variance: Floats
    change: Floats
    weight: Floats
    active: NDArray[np.bool_]

    @property
    def precision(self) -> Floats:
        """One over the population's variance, 1 where a parameter is not in the model."""
        return np.where(self.active, 1.0 / self.variance[[SLOPE, SIDE, TIE, SLOPE]], 1.0)

    @property
    def penalty(self) -> float:
        """What the population takes from the objective."""
        off = self.phi - self.mean
        out = 0.5 * float((self.precision * off * off).sum() + (_MEAN_PRECISION * self.mean**2).sum())
        return out - float(np.log(self.phi[:, DOUBT]).sum()) if self.active[DOUBT] else out

    def pulls(self, look: Derivatives) -> tuple[Floats, Floats]:
        """Return the gradient of the objective in the parameters and, judge by judge, in the three means."""
        inward = self.precision * (self.phi - self.mean)
        own = np.where(self.active, look.gradient, 0.0) - inward
        if self.active[DOUBT]:
            own[:, DOUBT] += 1.0 / self.phi[:, DOUBT]
        return own, (inward - _MEAN_PRECISION * self.mean / len(self.phi))[:, :DOUBT]

    @property
    def normal(self) -> Floats:
        """The gradient, in the parameters, of half the mean square of the slopes, which the gauge holds fixed."""
        out = np.zeros_like(self.phi)
        out[:, SLOPE] = self.weight * self.phi[:, SLOPE]
        out[:, DOUBT] = self.weight * self.phi[:, DOUBT]
        return out

    def multiplier(self, own: Floats) -> float:
        """Return the gauge's share in a gradient of the parameters."""
        normal = self.normal
        return float((normal * own).sum() / (normal * normal).sum())

    def border(self, look: Derivatives, multiplier: float) -> _Border:
        """Return the Newton system at the parameters looked at."""
        n, precision = len(self.phi), self.precision
        block = np.where(self.active[:, None] & self.active, look.bend, 0.0) + np.diag(precision)
        block[:, SLOPE, SLOPE] += multiplier * self.weight
        if self.active[DOUBT]:
            block[:, DOUBT, DOUBT] += multiplier * self.weight + 1.0 / self.phi[:, DOUBT] ** 2
        inverse = np.linalg.inv(block)
        links = np.zeros((n, 4, 4))
        shared = [SLOPE, SIDE, TIE]
        links[:, shared, shared] = -precision[:DOUBT]
        links[:, :, 3] = self.normal
        core = np.diag(np.append((n * precision + _MEAN_PRECISION)[:DOUBT], 0.0))
        core -= np.einsum("kpc,kpq,kqd->cd", links, inverse, links)
        return _Border(inverse, links, core)

    def gradient_norm(self, look: Derivatives) -> float:
        """Return the largest derivative of the objective in the parameters and means, along the gauge."""
        own, shared = self.pulls(look)
        own -= self.multiplier(own) * self.normal
        return max(float(np.abs(own).max()), float(np.abs(shared.sum(axis=0)).max()))

    def moved(self, step: Floats, drift: Floats) -> _Judges:
        """Return the judges after a step, back on the gauge."""
        phi = self.phi + step
        size = np.sqrt(self.weight @ (phi[:, SLOPE] ** 2 + phi[:, DOUBT] ** 2))
        phi[:, [SLOPE, DOUBT]] /= size
        return self._replace(phi=phi, mean=self.mean + drift)

    def trusted_slope(self) -> float:
        """Return the mean size of the slopes, every comparison weighted by its own: Σ n E[a²] / Σ n E|a|."""
        from scipy.special import ndtr

        slope, doubt = self.phi[:, SLOPE], np.maximum(self.phi[:, DOUBT], 1e-12)
        ratio = slope / doubt
        size = slope * (2.0 * ndtr(ratio) - 1.0) + doubt * np.exp(-0.5 * ratio**2) * np.sqrt(2.0 / np.pi)
        return float(self.weight @ (slope**2 + doubt**2)) / float(self.weight @ size)

    def learn_variance(self, look: Derivatives) -> _Judges:
        """Return the judges with variances by one step of empirical Bayes.

        A variance is the sum of squared deviations over the number of judges of whom the data tell it, each counted
        by 1 - (posterior variance) / (prior variance).
        """
        spread = np.einsum("kpp->kp", self.border(look, 0.0).inverse)[:, :DOUBT].copy()
        if self.active[DOUBT]:
            # σ² where its gradient along the gauge, 1/σ - σ (1/V + told), vanishes, for the V of now.
            told = self.multiplier(self.pulls(look)[0]) * self.weight - look.gradient[:, DOUBT] / self.phi[:, DOUBT]
            told = np.maximum(told, 0.0)
            spread[:, SLOPE] = 1.0 / (1.0 / self.variance[SLOPE] + told)
        off = (self.phi - self.mean)[:, :DOUBT]
        heard = np.clip(1.0 - spread / self.variance, 0.0, 1.0).sum(axis=0)
        found = ((off * off).sum(axis=0) + _IMAGINARY * _STRAY) / (heard + _IMAGINARY)
        change = np.where(self.active[:DOUBT], np.clip(np.log(found / self.variance), -1.0, 1.0), 0.0)
        # Where the changes form a geometric series, go to its end at once, then watch again.
        ratio = change / np.where(self.change == 0.0, np.inf, self.change)
        steady = (ratio > 0.5) & (ratio < 0.95)
        leap = np.clip(change / np.where(steady, 1.0 - ratio, 1.0), -1.0, 1.0)
        return self._replace(variance=self.variance * np.exp(leap), change=np.where(steady, 0.0, change))


def _sweep(
    rows: JudgedRows, score: Floats, judges: _Judges, seen: Derivatives, prior: Floats, learn: bool
) -> tuple[Floats, _Judges, Derivatives, float]:
    """Improve scores, population and judges once; return them, the look at the scores and the judges' gradient norm.

    Nothing can be learned about variances before the judges have left the mean at which they start.
    """

    def look(at: Floats) -> Derivatives:
        return _look_at_judges(rows, at, judges.phi, prior)

    everywhere = np.ones(len(seen.value), dtype=np.bool_)
    score, found = _advance(rows, score, _newton_direction(rows, seen, prior, everywhere), seen.value, look)
    likelihood = float((found.value + _penalty(rows, score, prior)).sum())
    current = judges.learn_variance(found) if learn else judges
    before = likelihood - current.penalty
    own, shared = current.pulls(found)
    step, drift = current.border(found, max(current.multiplier(own), 0.0)).solve(own, shared.sum(axis=0))
    # A standard deviation stays positive.
    step[:, DOUBT] = np.maximum(step[:, DOUBT], -0.9 * current.phi[:, DOUBT])
    length = 1.0
    for attempt in range(41):
        moved = current.moved(length * step, length * drift)
        seen = _look_at_scores(rows, score, moved.phi, prior)
        after = float((seen.value + _penalty(rows, score, prior)).sum()) - moved.penalty
        if after >= before - 1e-13 * abs(before):
            break
        length *= 0.5 if attempt < 39 else 0.0
    return score, moved, seen, current.gradient_norm(found)


class _Sweeps(NamedTuple):
    """Where the search stands after a sweep."""

    score: Floats
    judges: _Judges
    trace: list[float]
    converged: bool


def _start(rows: JudgedRows, judges: _Judges, ridge: Floats) -> tuple[Floats, _Judges]:
    """Return where the search begins: plain Bradley-Terry (Davidson), in which the majority decides which way is up."""
    score = _climb_scores(rows, np.zeros(len(ridge)), judges.phi, ridge, 1e-3, 50).score
    if not judges.active[DOUBT]:
        return score, judges
    told = _look_at_judges(rows, score, judges.phi, ridge).bend[:, SLOPE, SLOPE]
    judges.phi[:, DOUBT] = 1.0 / np.sqrt(told + judges.precision[SLOPE])
    return score, judges.moved(np.zeros_like(judges.phi), np.zeros(4))


def fit_judges(
    left: Codes,
    right: Codes,
    expert: Codes,
    n_left: Floats,
    n_right: Floats,
    n_ties: Floats,
    offsets: Ints,
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
    """Return scores of all items and trust in all judges, estimated together.

    Parameters
    ----------
    left, right, expert : int32[R]
        The slots compared and who compared them, all instances together, rows in any order.
    n_left, n_right, n_ties : float64[R]
        How often left won, right won, and neither.
    offsets : int64[N + 1]
        Where the slots of every instance begin.
    n_experts : int
        How many judges there are; those without a comparison get what is known of the population.
    prior : float or float64[S]
        The precision of the Gaussian prior of every score; 0 leaves the scores free, with mean 0 in an instance.
    sided : bool
        Whether left and right are the order shown; otherwise there is no side bias.
    ties : bool or None
        Whether ties are modelled; None models them when there are any, False leaves them out.
    tol : float
        The gradient norm at which the search ends.
    max_iter : int
        The largest number of sweeps.
    report : callable, optional
        Called after every sweep with the number of sweeps done and the largest number of them.
    checkpoint : Checkpointer
        Keeps the state after every sweep.

    Notes
    -----
    A sweep costs two passes over the collapsed rows and one factorisation per instance, O(M³) for M items (conjugate
    gradients above 2,500). The scores are those of `scores_given_judges` with the judges found.
    """
    ties = bool(np.sum(n_ties) > 0) if ties is None else ties
    rows = _collapse(left, right, expert, n_left, n_right, n_ties, offsets, sided, ties)
    size = int(rows.offsets[-1])
    ridge = np.broadcast_to(np.asarray(prior, dtype=np.float64), size).copy()
    who, code = np.unique(rows.expert, return_inverse=True)
    rows = rows._replace(expert=code.astype(np.int32))
    count = np.bincount(code, rows.n_left + rows.n_right + rows.n_ties, len(who))
    if not len(who):
        return _nothing(size, n_experts, ties)
    share = float(rows.n_ties.sum() / count.sum())
    # The tie parameter of equal items that tie as often as all items do; kept finite where everything ties.
    tie = np.log(2.0 * share + 1e-3) - np.log(1.0 - share + 1e-3) if ties else 0.0
    # Of a single judge the gauge fixes the slope, and nothing is in doubt.
    active = np.array([True, sided, ties, len(who) > 1])
    mean = np.array([1.0, 0.0, tie, 0.0])
    judges = _Judges(np.tile(mean, (len(who), 1)), mean, np.full(3, _STRAY), np.zeros(3), count / count.sum(), active)
    scale = max(1.0, float(count.max()), float(_degrees(rows).max()))
    known = checkpoint.restore()
    if known is None:
        at = _Sweeps(*_start(rows, judges, ridge), [], False)
    else:
        judges = judges._replace(**{name: known[name] for name in _SEARCHED})
        at = _Sweeps(known["score"], judges, known["trace"].tolist(), bool(known["converged"]))
    seen = _look_at_scores(rows, at.score, at.judges.phi, ridge)

    def state() -> State:
        found = {name: np.asarray(getattr(at.judges, name)) for name in _SEARCHED}
        return found | {"score": at.score, "trace": np.array(at.trace), "converged": np.array(at.converged)}

    with checkpoint.steps(max_iter):
        while not at.converged and len(at.trace) < max_iter and not _stalled(at.trace):
            before = at.judges.variance
            score, judges, seen, norm = _sweep(rows, at.score, at.judges, seen, ridge, len(at.trace) > 0)
            trace = [*at.trace, float(seen.value.sum()) - judges.penalty]
            still = float(np.abs(np.log(judges.variance / before)).max()) <= 10.0 * tol
            converged = still and len(trace) > 1 and max(norm, float(np.abs(seen.gradient).max())) <= tol * scale
            at = _Sweeps(score, judges, trace, converged)
            checkpoint.save(len(trace), state)
            if report is not None:
                report(len(trace), max_iter)
    score, judges, trace, converged = at
    score = _centred(rows, _climb_scores(rows, score, judges.phi, ridge, _EXACT, 10).score, ridge)
    seen, found = _look_at_scores(rows, score, judges.phi, ridge), _look_at_judges(rows, score, judges.phi, ridge)
    norm = max(judges.gradient_norm(found), float(np.abs(seen.gradient).max())) / scale
    objective = float(found.value.sum()) - judges.penalty
    score, judges, found, factor = _on_trusted_scale(score, judges, found)
    reliability, stderr = _reliability(rows, score, judges, found, n_experts, who)
    phi = np.tile(judges.mean, (n_experts, 1))
    phi[:, DOUBT] = np.sqrt(judges.variance[SLOPE])
    phi[who] = judges.phi
    compared = np.zeros(n_experts)
    compared[who] = count
    return JudgeFit(
        score=score,
        scale=abs(factor),
        tie=float(judges.mean[TIE]) if ties else -np.inf,
        slope=phi[:, SLOPE].copy(),
        slope_stderr=phi[:, DOUBT].copy(),
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
    )


def _stalled(trace: list[float]) -> bool:
    """Return whether the objective has not changed for some sweeps: rounding keeps the gradient from its goal."""
    return len(trace) >= _STALL and len(set(trace[-_STALL:])) == 1


def _on_trusted_scale(score: Floats, judges: _Judges, look: Derivatives) -> tuple[Floats, _Judges, Derivatives, float]:
    """Return scores, judges and derivatives on the scale of the judges who are believed, and the scores' factor.

    The average comparison follows the scores: should it not, all is turned round.
    """
    factor = judges.trusted_slope()
    factor = factor if float(judges.weight @ judges.phi[:, SLOPE]) >= 0 else -factor
    unit = np.array([factor, 1.0, 1.0, abs(factor)])
    moved = judges._replace(
        phi=judges.phi / unit, mean=judges.mean / unit, variance=judges.variance / unit[:DOUBT] ** 2
    )
    seen = look._replace(gradient=look.gradient * unit, bend=look.bend * np.outer(unit, unit))
    return score * factor, moved, seen, factor


def _reliability(
    rows: JudgedRows, score: Floats, judges: _Judges, look: Derivatives, n_experts: int, who: Codes
) -> tuple[Floats, Floats]:
    """Return how far every judge's answers follow the scores, and the posterior standard deviation of it.

    That is the derivative in δ of the mean answer (left 1, tie 0, right -1), averaged over the pairs the judge saw,
    over the same for a judge of slope 1 without habits or ties; in units in which those who are believed have what
    their slope is.
    """

    def follow(phi: Floats) -> Floats:
        out = np.zeros((len(phi), 5))
        follow_pass(*rows[:6], rows.ties, score, phi, out)
        return out

    spread = judges.border(look, 0.0).inverse[:, :DOUBT, :DOUBT]
    each = follow(judges.phi)
    # Of a judge who said nothing the population is known, seen on everybody's pairs.
    ordinary = follow(np.tile(judges.mean, (len(who), 1))).sum(axis=0, keepdims=True)
    table = np.concatenate([each, ordinary])
    plain = np.maximum(table[:, 1], 1e-300)
    moves, turns = table[:, 0] / plain, table[:, 2:] / plain[:, None] * judges.active[:DOUBT]
    value, turn, slack = moves[:-1], turns[:-1], turns[-1]
    believed = float(judges.weight @ (value * judges.phi[:, SLOPE]))
    unit = float(judges.weight @ value**2) / believed if believed > 0 else 1.0
    reliability = np.full(n_experts, moves[-1] / unit)
    stderr = np.full(n_experts, np.sqrt(float(slack**2 @ judges.variance)) / unit)
    reliability[who] = value / unit
    stderr[who] = np.sqrt(np.einsum("kp,kpq,kq->k", turn, spread, turn)) / unit
    return reliability, stderr


def _nothing(size: int, n_experts: int, ties: bool) -> JudgeFit:
    """Return what is known where nothing was compared."""
    none, one = np.zeros(n_experts), np.ones(n_experts)
    return JudgeFit(
        score=np.zeros(size),
        scale=1.0,
        tie=0.0 if ties else -np.inf,
        slope=one,
        slope_stderr=np.full(n_experts, np.sqrt(_STRAY)),
        side=none,
        tie_tendency=none.copy(),
        reliability=one.copy(),
        reliability_stderr=np.full(n_experts, np.sqrt(_STRAY)),
        n_comparisons=none.copy(),
        variance=Variance(_STRAY, _STRAY, _STRAY),
        objective=0.0,
        gradient_norm=0.0,
        n_iter=0,
        converged=True,
        trace=[],
    )


def _parameters(
    slope: Floats, slope_stderr: Floats, side: Floats, tie_tendency: Floats, tie: float, sided: bool
) -> tuple[Floats, bool]:
    """Return the judges' parameters as one table, and whether ties are modelled."""
    ties, none = bool(np.isfinite(tie)), np.zeros(len(slope))
    columns = (slope, side if sided else none, tie + tie_tendency if ties else none, slope_stderr)
    return np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.float64), ties


def scores_given_judges(
    left: Codes,
    right: Codes,
    expert: Codes,
    n_left: Floats,
    n_right: Floats,
    n_ties: Floats,
    offsets: Ints,
    *,
    slope: Floats,
    slope_stderr: Floats,
    side: Floats,
    tie_tendency: Floats,
    tie: float,
    prior: float | Floats,
    sided: bool = True,
    tol: float = _EXACT,
    max_iter: int = 100,
) -> ScoreFit:
    """Return the scores with the judges taken as known, every instance as if it were alone.

    Parameters are those of `fit_judges` and the attributes of what it returns. A tie of -inf leaves ties out.

    Notes
    -----
    A concave problem, solved by Newton's method: a handful of steps from 0.
    """
    phi, ties = _parameters(slope, slope_stderr, side, tie_tendency, tie, sided)
    rows = _collapse(left, right, expert, n_left, n_right, n_ties, offsets, sided, ties)
    ridge = np.broadcast_to(np.asarray(prior, dtype=np.float64), int(rows.offsets[-1])).copy()
    found = _climb_scores(rows, np.zeros(len(ridge)), phi, ridge, tol, max_iter)
    return found._replace(score=_centred(rows, found.score, ridge))


def judge_information(
    left: Codes,
    right: Codes,
    expert: Codes,
    n_left: Floats,
    n_right: Floats,
    n_ties: Floats,
    offsets: Ints,
    *,
    score: Floats,
    slope: Floats,
    slope_stderr: Floats,
    side: Floats,
    tie_tendency: Floats,
    tie: float,
    variance: Variance,
    prior: float | Floats,
    sided: bool = True,
    profile: bool = True,
) -> list[Information]:
    """Return for every instance the curvature of the objective in its scores and the gradients by judge.

    Parameters
    ----------
    score, slope, slope_stderr, side, tie_tendency, tie, variance
        What `fit_judges` found; the other parameters are those it was given.
    profile : bool
        Eliminate the judges' parameters and the population's means, which were estimated with the scores (the
        variances, the weights of the gauge and the scores of other instances are taken as known). False takes the
        judges as known too.

    Returns
    -------
    list of Information
        `hessian`: float64[m, m], of the negative objective. `gradients`: float64[G, m], of the log-likelihood (no
        prior) by judge, as they act on the scores when the rest follows. `information`: float64[G, m], the diagonal of
        each judge's −Hessian. `expert`: int32[G], whose they are.

    Notes
    -----
    The matrix holds O(m² + m G) numbers for m items and G judges of an instance and costs O(m² G).
    """
    phi, ties = _parameters(slope, slope_stderr, side, tie_tendency, tie, sided)
    rows = _collapse(left, right, expert, n_left, n_right, n_ties, offsets, sided, ties)
    ridge = np.broadcast_to(np.asarray(prior, dtype=np.float64), int(rows.offsets[-1])).copy()
    who, code = np.unique(rows.expert, return_inverse=True)
    rows = rows._replace(expert=code.astype(np.int32))
    phi = np.ascontiguousarray(phi[who])
    score = np.array(score, dtype=np.float64)
    seen = _look_at_scores(rows, score, phi, ridge)
    if profile and len(who):
        found = _look_at_judges(rows, score, phi, ridge)
        active = np.array([True, sided, ties, bool(phi[:, DOUBT].all())])
        count = np.bincount(rows.expert, rows.n_left + rows.n_right + rows.n_ties, len(who)).astype(np.float64)
        judges = _Judges(phi, np.zeros(4), np.array(variance), np.zeros(3), count / count.sum(), active)
        precision = judges.precision
        mean = precision * phi.sum(axis=0) / (len(phi) * precision + _MEAN_PRECISION)
        mean[DOUBT] = 0.0
        judges = judges._replace(mean=mean)
        pulls = judges.pulls(found)
        border = judges.border(found, judges.multiplier(pulls[0]))
    out = []
    for n in range(len(rows.starts) - 1):
        first, m = int(rows.offsets[n]), int(rows.offsets[n + 1] - rows.offsets[n])
        part = slice(int(rows.starts[n]), int(rows.starts[n + 1]))
        here, local = np.unique(rows.expert[part], return_inverse=True)
        hessian = _curvature(rows, seen.bend, ridge, n)
        gradients, cross = np.zeros((len(here), m)), np.zeros((len(here), 4, m))
        columns = (rows.left[part] - first, rows.right[part] - first, local.astype(np.int32))
        counts = (rows.n_left[part], rows.n_right[part], rows.n_ties[part])
        cross_pass(*columns, *counts, ties, score[first : first + m], phi[here], gradients, cross)
        if profile and len(here):
            cross *= active[:, None]
            hessian, gradients = _eliminate(hessian, gradients, cross, border, pulls, here)
        information = np.zeros((len(here), m))
        for one in columns[:2]:
            np.add.at(information, (local, one), seen.bend[part])
        out.append(Information(hessian, gradients, information, who[here].astype(np.int32)))
    return out


def _eliminate(
    hessian: Floats, gradients: Floats, cross: Floats, border: _Border, pulls: tuple[Floats, Floats], here: Codes
) -> tuple[Floats, Floats]:
    """Return an instance's Hessian and gradients by judge after its judges and what they share are profiled out."""
    inverse, links = border.inverse[here], border.links[here]
    own, shared = pulls[0][here], pulls[1][here]
    half = np.einsum("kpq,kqm->kpm", inverse, cross)
    joint = np.einsum("kpc,kpm->cm", links, half)
    flat = cross.reshape(-1, hessian.shape[0])
    hessian = hessian - flat.T @ half.reshape(flat.shape) - joint.T @ np.linalg.solve(border.core, joint)
    moved = np.einsum("kpq,kq->kp", inverse, own)
    common = np.pad(shared, ((0, 0), (0, 1))) - np.einsum("kpc,kp->kc", links, moved)
    gradients = gradients - np.einsum("kpm,kp->km", cross, moved) + np.linalg.solve(border.core, common.T).T @ joint
    return 0.5 * (hessian + hessian.T), gradients
