"""Scores and variances of the multinomial preference model: L-BFGS and Newton, or gradient ascent as published.

`JointProfile` is the profile likelihood of the adherence, with scores and variances optimal for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concordant.aggregators._net_counts import NetCounts
from concordant.arrays import Floats, Ints
from concordant.kernels.linear_systems import cholesky_solve
from concordant.kernels.mpm import PackedCounts, informative, solve_semidefinite
from concordant.kernels.mpm_variance import pair_covariances, pair_gradient, pair_hessian
from concordant.learning.newton import NewtonResult, NewtonState, NewtonStep, maximise
from concordant.learning.optimisers import LBFGS, Objective, max_norm

__all__ = ["PRECISE", "VARIANCE_RIDGE", "JointProfile", "Prior", "Variances", "gradient_ascent", "solve_variances"]

# The precision per preference and item of the prior on log variances.
VARIANCE_RIDGE = 1.0

# Updates that L-BFGS remembers.
_MEMORY = 20
# Up to this many items the last steps are Newton's, with a dense Hessian.
_POLISHED_ITEMS = 400
# Where a gradient is below this, one more Newton step leaves only rounding errors.
PRECISE = 1e-9


class Prior(NamedTuple):
    """Precisions per preference of the priors: of all log variances together, and of each score at γ = ½.

    Scores grow with the variances: at γ = ½ they are s / (2 γ̄), γ̄ the geometric mean of γ. So the prior on scores does
    not act on a common factor of scores and variances, which the prior on log variances sets to mean β = 0.
    """

    variance: float
    score: float = 0.0

    def subtract(self, z: Floats, gradient: Floats) -> float:
        """Subtract the gradient of the penalty from that of the objective; return the penalty."""
        m = len(z) // 2
        score, beta = z[:m], z[m:]
        precision, square = self._score_precision(beta), float(score @ score)
        gradient[m:] -= self.variance / m * beta
        gradient[:m] -= precision * score
        gradient[m:] += precision * square / m
        return 0.5 * self.variance / m * float(beta @ beta) + 0.5 * precision * square

    def add_curvature(self, z: Floats, curvature: Floats) -> None:
        """Add the second derivatives of the penalty to a curvature."""
        m = len(z) // 2
        score, own = z[:m], np.arange(m)
        precision = self._score_precision(z[m:])
        curvature[m + own, m + own] += self.variance / m
        if precision > 0:
            curvature[own, own] += precision
            curvature[:m, m:] -= 2.0 * precision / m * score[:, None]
            curvature[m:, :m] -= 2.0 * precision / m * score
            curvature[m:, m:] += 2.0 * precision / m**2 * float(score @ score)
        # A common shift of the scores is free, or optimal at mean 0; any curvature along it will do.
        curvature[:m, :m] += np.trace(curvature[:m, :m]) / m / m

    def _score_precision(self, beta: Floats) -> float:
        """Return the precision of the scores, which are those at γ = ½ times 2 γ̄."""
        return self.score * float(np.exp(-2.0 * beta.mean())) / 4.0 if self.score else 0.0


class Variances(NamedTuple):
    """Scores and variances of one instance.

    Attributes
    ----------
    score, beta : float64[M]
        The scores, mean 0, and the logarithms of the variances, mean 0.
    objective, norm : float
        The penalised objective and the largest entry of its gradient.
    n_iter : int
        The number of steps.
    """

    score: Floats
    beta: Floats
    objective: float
    norm: float
    n_iter: int


def solve_variances(
    table: Floats,
    share: Floats,
    theta: Floats,
    score: Floats,
    beta: Floats,
    *,
    prior: Prior,
    tol: float,
    max_iter: int,
    newton_tol: float = 1e-4,
) -> Variances:
    """Return scores and log variances at which the objective less the penalty of the prior is stationary.

    L-BFGS from the given scores and log variances, then, up to 400 items, where the gradient is below `newton_tol`,
    Newton steps to full precision. The prior fixes the gauge: a common factor of scores and variances is free, and mean
    β = 0 has the smallest penalty.
    """
    m = len(score)
    mean = np.zeros(len(share))

    def objective(z: Floats) -> tuple[float, Floats]:
        gradient = np.empty(2 * m)
        value = pair_gradient(table, share, theta, z[:m], z[m:], gradient, mean)
        return prior.subtract(z, gradient) - value, -gradient

    # Newton steps converge quadratically: where they follow, L-BFGS may stop early.
    first_tol = max(tol, newton_tol) if m <= _POLISHED_ITEMS else tol
    z, value, gradient, n_iter = _lbfgs(objective, np.concatenate([score, beta]), first_tol, max_iter)
    value, norm = -value, max_norm(gradient)
    if m <= _POLISHED_ITEMS:
        start = _Point(z, value, -gradient, norm)
        end = _newton(objective, start, table, share, theta, prior, max_iter - n_iter)
        z, value, norm, n_iter = end.point.z, end.objective, end.gradient_norm, n_iter + end.n_iter
    shift = float(z[m:].mean())
    out = z[:m] * np.exp(-shift)
    return Variances(out - out.mean(), z[m:] - shift, value, norm, n_iter)


def _lbfgs(objective: Objective, start: Floats, tol: float, max_iter: int) -> tuple[Floats, float, Floats, int]:
    """Return the point that L-BFGS reaches, its value and gradient, and the number of steps.

    Instances have tens of parameters, for which SciPy's L-BFGS-B takes about ten times as long as ours.
    """
    solver = LBFGS(len(start), 0.0, _MEMORY)
    state = solver.initial_state(start)
    value, gradient = objective(start)
    n_iter = 0
    while n_iter < max_iter and max_norm(gradient) > tol and not solver.finished(state):
        state = solver.step(state, objective)
        value, gradient = solver.value(state), solver.gradient(state)
        n_iter += 1
    return solver.point(state), value, gradient, n_iter


class _Point(NamedTuple):
    """Scores and log variances, the objective there, and its gradient with its norm."""

    z: Floats
    value: float
    gradient: Floats
    norm: float


def _newton(
    objective: Objective, start: _Point, table: Floats, share: Floats, theta: Floats, prior: Prior, max_iter: int
) -> NewtonResult[_Point]:
    """Return the stationary point to full precision, by at most `max_iter` Newton steps that raise the objective."""
    m = len(start.z) // 2
    hessian, mean = np.empty((2 * m, 2 * m)), np.empty((len(share), 2 * m))

    def newton_step(at: _Point) -> NewtonStep[_Point]:
        pair_hessian(table, share, theta, at.z[:m], at.z[m:], mean, hessian)
        prior.add_curvature(at.z, hessian)
        column = at.gradient[:, None].copy()
        step = column[:, 0]
        if not cholesky_solve(hessian.copy(), column):
            # Not positive definite: take absolute eigenvalues, which give an ascent step.
            curvature, axes = np.linalg.eigh(hessian)
            size = np.maximum(np.abs(curvature), 1e-14 * max(float(curvature[-1]), 1e-300))
            step = axes @ ((axes.T @ at.gradient) / size)

        def trial(part: float) -> _Point:
            z = at.z + part * step
            value, gradient = objective(z)
            return _Point(z, -value, -gradient, max_norm(gradient))

        return NewtonStep(trial)

    return maximise(NewtonState(start, 0, False, []), newton_step, tol=PRECISE, max_iter=max_iter)


def gradient_ascent(table: Floats, share: Floats, theta: Floats, steps: int) -> Variances:
    """Return scores and log variances after gradient ascent from scores 0 and equal variances, as published.

    The step size is 0.1 M. A step that lowers the objective is taken back, and the step size is halved. After every
    step the log variances are centred and the scores rescaled accordingly. Much longer steps diverge.
    """
    m = len(table)
    score, beta, mean = np.zeros(m), np.zeros(m), np.zeros(len(share))
    best, highest, best_gradient, step_size = (score, beta), -np.inf, np.zeros(2 * m), 0.1 * m
    for n_iter in range(steps + 1):
        gradient = np.empty(2 * m)
        value = pair_gradient(table, share, theta, score, beta, gradient, mean)
        if value >= highest:
            best, highest, best_gradient = (score, beta), value, gradient
        else:
            step_size *= 0.5
        if n_iter == steps:
            break
        score, beta = best[0] + step_size * best_gradient[:m], best[1] + step_size * best_gradient[m:]
        shift = float(beta.mean())
        score, beta = score * np.exp(-shift), beta - shift
    score, beta = best
    return Variances(score - score.mean(), beta, highest, max_norm(best_gradient), steps)


class JointProfile:
    """The profile likelihood of a block of instances, with scores and variances optimal for the adherence.

    All values are weighted sums over the instances. Points are the scores of all slots, then their log variances.
    """

    def __init__(self, counts: NetCounts, packed: PackedCounts, prior: Prior) -> None:
        self.counts = counts
        self.packed = packed
        self.prior = prior
        self.wanted = informative(packed)

    def start(self) -> Floats:
        """Return the point at which all scores and log variances are 0."""
        return np.zeros(2 * int(self.packed.offsets[-1]))

    def evaluate(self, theta: Floats, start: Floats) -> tuple[float, Floats, Floats, float]:
        """Return the objective, its gradient, the optimal point found from a start, and its largest gradient entry."""
        out, by_theta = start.copy(), np.zeros(len(theta))
        value, norm = 0.0, 0.0
        list_theta = theta[self.packed.expert]
        for n in np.flatnonzero(self.wanted).tolist():
            own = self._of_instance(n, list_theta)
            # The start is the point of a nearby α, from which Newton's method converges at once.
            found = solve_variances(
                own.table,
                own.share,
                own.theta,
                *np.split(out[own.slots], 2),
                prior=self.prior,
                tol=1e-9,
                max_iter=1000,
                newton_tol=1e-2,
            )
            out[own.slots] = np.concatenate([found.score, found.beta])
            gradient, mean = np.empty(len(own.slots)), np.empty(len(own.share))
            pair_gradient(own.table, own.share, own.theta, found.score, found.beta, gradient, mean)
            weight = float(self.packed.weight[n])
            along = self._list_gradients(n, own, found.score, found.beta)[:, : len(found.score)] @ found.score
            np.add.at(by_theta, own.expert, weight * (along - own.share * mean))
            value += weight * found.objective
            norm = max(norm, found.norm)
        return value, by_theta, out, norm

    def hessian(self, theta: Floats, best: Floats) -> Floats:
        """Return the Hessian F_αα − F_αz F_zz⁻¹ F_zα at the optimal scores and log variances z for α."""
        out = np.zeros((len(theta), len(theta)))
        list_theta = theta[self.packed.expert]
        for n in np.flatnonzero(self.wanted).tolist():
            own = self._of_instance(n, list_theta)
            z, lists = best[own.slots], len(own.share)
            score, beta = np.split(z, 2)
            curvature, mean = np.empty((len(z), len(z))), np.empty((lists, len(z)))
            pair_hessian(own.table, own.share, own.theta, score, beta, mean, curvature)
            self.prior.add_curvature(z, curvature)
            variance, covariance = np.empty(lists), np.empty((lists, len(z)))
            pair_covariances(own.theta, score, beta, variance, covariance)
            cross = self._list_gradients(n, own, score, beta)
            cross -= own.share[:, None] * (mean + own.theta[:, None] * covariance)
            block = cross @ solve_semidefinite(curvature, cross.T)
            block[np.diag_indices(lists)] -= own.share * variance
            np.add.at(out, (own.expert[:, None], own.expert[None, :]), self.packed.weight[n] * block)
        return out

    def _of_instance(self, n: int, list_theta: Floats) -> _InstanceLists:
        """Return the lists with preferences of an instance, given the adherence of all lists."""
        p = self.packed
        lists = np.arange(p.list_starts[n], p.list_starts[n + 1])
        lists = lists[p.share[lists] > 0]
        slots = np.arange(p.offsets[n], p.offsets[n + 1])
        total = float(self.counts.total[lists].sum())
        return _InstanceLists(
            lists,
            p.expert[lists],
            p.share[lists],
            list_theta[lists],
            total,
            self.counts.table(n, list_theta) / total,
            np.concatenate([slots, slots + p.offsets[-1]]),
        )

    def _list_gradients(self, n: int, own: _InstanceLists, score: Floats, beta: Floats) -> Floats:
        """Return the gradients of Σ_ij Y_l(i,j) u_ij in scores and log variances, for the lists of an instance."""
        weight = self.counts.weight[own.lists] / own.total
        return self.counts.list_gradients(n, own.lists, score, np.exp(beta)) * weight[:, None]


class _InstanceLists(NamedTuple):
    """The lists of an instance that have preferences."""

    lists: Ints
    expert: Ints
    share: Floats
    theta: Floats
    # The number of preferences, the table Σ α_l Y_l divided by it, and the indices of scores and log variances.
    total: float
    table: Floats
    slots: Ints
