"""Scores and variances of the multinomial preference model: L-BFGS and Newton, or gradient ascent as published."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concordant.arrays import Floats
from concordant.kernels.linear_systems import cholesky_solve
from concordant.kernels.mpm_variance import pair_gradient, pair_hessian
from concordant.learning.optimisers import LBFGS, Objective

__all__ = ["Variances", "gradient_ascent", "solve_variances"]

# Updates that L-BFGS remembers.
_MEMORY = 20
# Up to this many items the last steps are Newton's, with a dense Hessian.
_POLISHED_ITEMS = 400


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
    ridge: float,
    tol: float,
    max_iter: int,
) -> Variances:
    """Return scores and log variances at which the objective less ½ ridge mean(β²) is stationary.

    L-BFGS from the given scores and log variances, then, up to 400 items, Newton steps to full precision. The ridge
    fixes the gauge: a common factor of scores and variances is free, and mean β = 0 has the smallest penalty.
    """
    m = len(score)
    weight = ridge / m
    mean = np.zeros(len(share))

    def objective(z: Floats) -> tuple[float, Floats]:
        gradient = np.empty(2 * m)
        value = pair_gradient(table, share, theta, z[:m], z[m:], gradient, mean)
        gradient[m:] -= weight * z[m:]
        return 0.5 * weight * float(z[m:] @ z[m:]) - value, -gradient

    # Newton steps converge quadratically: where they follow, L-BFGS may stop early.
    first_tol = max(tol, 1e-4) if m <= _POLISHED_ITEMS else tol
    z, value, gradient, n_iter = _lbfgs(objective, np.concatenate([score, beta]), first_tol, max_iter)
    if m <= _POLISHED_ITEMS:
        z, value, gradient, newton_steps = _newton(
            objective, z, value, gradient, table, share, theta, weight, max_iter - n_iter
        )
        n_iter += newton_steps
    shift = float(z[m:].mean())
    out = z[:m] * np.exp(-shift)
    return Variances(out - out.mean(), z[m:] - shift, -value, float(np.abs(gradient).max(initial=0.0)), n_iter)


def _lbfgs(objective: Objective, start: Floats, tol: float, max_iter: int) -> tuple[Floats, float, Floats, int]:
    """Return the point that L-BFGS reaches, its value and gradient, and the number of steps.

    Instances have tens of parameters, for which SciPy's L-BFGS-B takes about ten times as long as ours.
    """
    solver = LBFGS(len(start), 0.0, _MEMORY)
    state = solver.initial_state(start)
    value, gradient = objective(start)
    n_iter = 0
    while n_iter < max_iter and np.abs(gradient).max(initial=0.0) > tol and not solver.finished(state):
        state = solver.step(state, objective)
        value, gradient = solver.value(state), solver.gradient(state)
        n_iter += 1
    return solver.point(state), value, gradient, n_iter


def _newton(
    objective: Objective,
    z: Floats,
    value: float,
    gradient: Floats,
    table: Floats,
    share: Floats,
    theta: Floats,
    weight: float,
    max_iter: int,
) -> tuple[Floats, float, Floats, int]:
    """Return the point after at most `max_iter` Newton steps, none of which increases the objective."""
    m = len(z) // 2
    hessian, mean = np.empty((2 * m, 2 * m)), np.empty((len(share), 2 * m))
    for n_iter in range(max_iter):
        norm = float(np.abs(gradient).max(initial=0.0))
        pair_hessian(table, share, theta, z[:m], z[m:], mean, hessian)
        hessian[np.arange(m, 2 * m), np.arange(m, 2 * m)] += weight
        # A common shift of the scores is free; any curvature along it will do.
        hessian[:m, :m] += np.trace(hessian[:m, :m]) / m / m
        right = -gradient[:, None]
        step = right[:, 0]
        if not cholesky_solve(hessian.copy(), right):
            # Not positive definite: take absolute eigenvalues, which give a descent step.
            curvature, axes = np.linalg.eigh(hessian)
            size = np.maximum(np.abs(curvature), 1e-14 * max(float(curvature[-1]), 1e-300))
            step = axes @ ((axes.T @ -gradient) / size)
        step_size = 1.0
        while True:
            trial = z + step_size * step
            new_value, new_gradient = objective(trial)
            if new_value <= value + 1e-14 * abs(value) or step_size < 1e-8:
                break
            step_size *= 0.5
        if step_size < 1e-8 or (norm < 1e-9 and float(np.abs(new_gradient).max(initial=0.0)) >= 0.5 * norm):
            return z, value, gradient, n_iter
        z, value, gradient = trial, new_value, new_gradient
    return z, value, gradient, max_iter


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
    return Variances(score - score.mean(), beta, highest, float(np.abs(best_gradient).max(initial=0.0)), steps)
