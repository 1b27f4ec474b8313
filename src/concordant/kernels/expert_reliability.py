"""Log-likelihood, gradients and Hessians of Bradley-Terry with judges of different reliability, in compiled loops.

The model is described in `aggregators._expert_reliability`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.jit import jit

__all__ = [
    "Derivatives",
    "JudgedRows",
    "assemble_hessian",
    "cross_pass",
    "effect_cross_pass",
    "effect_pass",
    "sensitivity_pass",
    "hessian_product",
    "judge_pass",
    "score_pass",
]


class JudgedRows(NamedTuple):
    """Comparisons collapsed to one row per (pair as shown, judge), ordered by instance, left, right, judge.

    `x` holds covariates of the vote, and `offset` what they add to the logit.
    """

    left: Codes
    right: Codes
    expert: Codes
    n_left: Floats
    n_right: Floats
    n_ties: Floats
    starts: Ints
    offsets: Ints
    ties: bool
    x: Floats
    offset: Floats


class Derivatives(NamedTuple):
    """The objective of every instance at a point, its gradient and its curvature (rows or −Hessian)."""

    value: Floats
    gradient: Floats
    curvature: Floats


@jit
def _outcome_moments(z: float, t: float, ties: bool) -> tuple[float, float, float]:
    """Return log(e^{z/2} + e^{-z/2} + e^t), P(left) - P(right) and P(tie); without ties the last term is absent."""
    far = 0.5 * abs(z)
    if not ties:
        low = np.exp(-2.0 * far)
        mean = (1.0 - low) / (1.0 + low)
        return far + np.log1p(low), mean if z >= 0 else -mean, 0.0
    top = max(far, t)
    near, away, tied = np.exp(far - top), np.exp(-far - top), np.exp(t - top)
    total = near + away + tied
    mean = (near - away) / total
    return top + np.log(total), mean if z >= 0 else -mean, tied / total


@jit
def score_pass(
    left: Codes,
    right: Codes,
    expert: Codes,
    n_left: Floats,
    n_right: Floats,
    n_ties: Floats,
    starts: Ints,
    ties: bool,
    offset: Floats,
    score: Floats,
    phi: Floats,
    value: Floats,
    gradient: Floats,
    curvature: Floats,
) -> None:
    """Write the log-likelihood of every instance, its gradient in the scores and the curvature of every row."""
    gradient[:] = 0.0
    for n in range(len(starts) - 1):
        total = 0.0
        for r in range(starts[n], starts[n + 1]):
            i, j, k = left[r], right[r], expert[r]
            delta = score[i] - score[j]
            t = phi[k, 2]
            count = n_left[r] + n_right[r] + n_ties[r]
            net = n_left[r] - n_right[r]
            residual = 0.0
            curve = 0.0
            for sign in (-1.0, 1.0):
                slope = phi[k, 0] + sign * phi[k, 3]
                z = slope * delta + phi[k, 1] + offset[r]
                log_sum, mean, tied = _outcome_moments(z, t, ties)
                total += 0.25 * net * z - 0.5 * count * log_sum
                residual += 0.25 * slope * (net - count * mean)
                curve += 0.125 * slope * slope * count * (1.0 - tied - mean * mean)
            if ties:
                total += n_ties[r] * t
            gradient[i] += residual
            gradient[j] -= residual
            curvature[r] = curve
        value[n] = total


@jit
def judge_pass(
    left: Codes,
    right: Codes,
    expert: Codes,
    n_left: Floats,
    n_right: Floats,
    n_ties: Floats,
    starts: Ints,
    ties: bool,
    offset: Floats,
    score: Floats,
    phi: Floats,
    value: Floats,
    gradient: Floats,
    curvature: Floats,
) -> None:
    """Write the log-likelihood of every instance, and its gradient and −Hessian in the parameters of every judge."""
    gradient[:] = 0.0
    curvature[:] = 0.0
    for n in range(len(starts) - 1):
        total = 0.0
        for r in range(starts[n], starts[n + 1]):
            k = expert[r]
            delta = score[left[r]] - score[right[r]]
            t = phi[k, 2]
            count = n_left[r] + n_right[r] + n_ties[r]
            net = n_left[r] - n_right[r]
            for sign in (-1.0, 1.0):
                z = (phi[k, 0] + sign * phi[k, 3]) * delta + phi[k, 1] + offset[r]
                log_sum, mean, tied = _outcome_moments(z, t, ties)
                total += 0.25 * net * z - 0.5 * count * log_sum
                residual = 0.25 * (net - count * mean)
                along = 0.125 * count * (1.0 - tied - mean * mean)
                gradient[k, 0] += residual * delta
                gradient[k, 1] += residual
                gradient[k, 3] += sign * residual * delta
                curvature[k, 0, 0] += along * delta * delta
                curvature[k, 0, 1] += along * delta
                curvature[k, 0, 3] += sign * along * delta * delta
                curvature[k, 1, 1] += along
                curvature[k, 1, 3] += sign * along * delta
                if ties:
                    cross = -0.25 * count * mean * tied
                    gradient[k, 2] += 0.5 * (n_ties[r] - count * tied)
                    curvature[k, 0, 2] += cross * delta
                    curvature[k, 1, 2] += cross
                    curvature[k, 2, 2] += 0.5 * count * tied * (1.0 - tied)
                    curvature[k, 2, 3] += sign * cross * delta
            if ties:
                total += n_ties[r] * t
        value[n] = total
    for k in range(len(phi)):
        curvature[k, 3, 3] = curvature[k, 0, 0]
        for p in range(4):
            for q in range(p):
                curvature[k, p, q] = curvature[k, q, p]


@jit
def sensitivity_pass(
    left: Codes,
    right: Codes,
    expert: Codes,
    n_left: Floats,
    n_right: Floats,
    n_ties: Floats,
    ties: bool,
    offset: Floats,
    score: Floats,
    phi: Floats,
    out: Floats,
) -> None:
    """Add up for every judge the slope of the mean answer (left 1, tie 0, right -1) along s_i - s_j, and its gradient.

    Columns: that derivative; the same for a judge of slope 1 without side bias or ties; the derivatives of the
    first column in the judge's parameters.
    """
    out[:] = 0.0
    for r in range(len(left)):
        k = expert[r]
        delta = score[left[r]] - score[right[r]]
        slope = phi[k, 0]
        mean, tied = _outcome_moments(slope * delta + phi[k, 1] + offset[r], phi[k, 2], ties)[1:]
        count = n_left[r] + n_right[r] + n_ties[r]
        move = 0.5 * (1.0 - tied - mean * mean)
        turn = 0.5 * slope * mean * (0.5 * tied - 2.0 * move)
        plain = _outcome_moments(delta, 0.0, False)[1]
        out[k, 0] += count * slope * move
        out[k, 1] += count * 0.5 * (1.0 - plain * plain)
        out[k, 2] += count * (move + turn * delta)
        out[k, 3] += count * turn
        out[k, 4] += count * 0.5 * slope * tied * (2.0 * mean * mean - (1.0 - tied))


@jit
def assemble_hessian(
    left: Codes, right: Codes, curvature: Floats, start: int, stop: int, first: int, out: Floats
) -> None:
    """Add the curvature of rows start..stop to the Hessian of an instance, whose first item is slot `first`."""
    for r in range(start, stop):
        i, j = left[r] - first, right[r] - first
        out[i, i] += curvature[r]
        out[j, j] += curvature[r]
        out[i, j] -= curvature[r]
        out[j, i] -= curvature[r]


@jit
def hessian_product(left: Codes, right: Codes, curvature: Floats, first: int, x: Floats) -> Floats:
    """Return the Hessian of an instance times a vector, without forming the Hessian."""
    out = np.zeros(len(x))
    for r in range(len(left)):
        i, j = left[r] - first, right[r] - first
        flow = curvature[r] * (x[i] - x[j])
        out[i] += flow
        out[j] -= flow
    return out


@jit
def cross_pass(
    left: Codes,
    right: Codes,
    expert: Codes,
    n_left: Floats,
    n_right: Floats,
    n_ties: Floats,
    ties: bool,
    offset: Floats,
    score: Floats,
    phi: Floats,
    gradients: Floats,
    cross: Floats,
) -> None:
    """Add up for every judge the gradient in the scores and the negative mixed derivatives with the parameters."""
    for r in range(len(left)):
        i, j, k = left[r], right[r], expert[r]
        delta = score[i] - score[j]
        count = n_left[r] + n_right[r] + n_ties[r]
        for sign in (-1.0, 1.0):
            slope = phi[k, 0] + sign * phi[k, 3]
            mean, tied = _outcome_moments(slope * delta + phi[k, 1] + offset[r], phi[k, 2], ties)[1:]
            residual = 0.25 * (n_left[r] - n_right[r] - count * mean)
            along = 0.125 * count * (1.0 - tied - mean * mean)
            gradients[k, i] += slope * residual
            gradients[k, j] -= slope * residual
            for p in range(4):
                if p == 1:
                    mixed = slope * along
                elif p == 2:
                    mixed = -0.25 * slope * count * mean * tied
                else:
                    mixed = slope * along * delta - residual
                    if p == 3:
                        mixed *= sign
                cross[k, p, i] += mixed
                cross[k, p, j] -= mixed


@jit
def effect_pass(
    left: Codes,
    right: Codes,
    expert: Codes,
    n_left: Floats,
    n_right: Floats,
    n_ties: Floats,
    ties: bool,
    offset: Floats,
    score: Floats,
    phi: Floats,
    x: Floats,
    gradient: Floats,
    information: Floats,
    cross: Floats,
) -> None:
    """Add up the gradient in the effects of covariates, their information, and that between effects and scores."""
    for r in range(len(left)):
        i, j, k = left[r], right[r], expert[r]
        delta = score[i] - score[j]
        count = n_left[r] + n_right[r] + n_ties[r]
        residual = along = mixed = 0.0
        for sign in (-1.0, 1.0):
            slope = phi[k, 0] + sign * phi[k, 3]
            mean, tied = _outcome_moments(slope * delta + phi[k, 1] + offset[r], phi[k, 2], ties)[1:]
            residual += 0.25 * (n_left[r] - n_right[r] - count * mean)
            curve = 0.125 * count * (1.0 - tied - mean * mean)
            along += curve
            mixed += slope * curve
        for a in range(x.shape[1]):
            gradient[a] += residual * x[r, a]
            cross[a, i] += mixed * x[r, a]
            cross[a, j] -= mixed * x[r, a]
            for b in range(x.shape[1]):
                information[a, b] += along * x[r, a] * x[r, b]


@jit
def effect_cross_pass(
    left: Codes,
    right: Codes,
    expert: Codes,
    n_left: Floats,
    n_right: Floats,
    n_ties: Floats,
    ties: bool,
    offset: Floats,
    score: Floats,
    phi: Floats,
    x: Floats,
    gradients: Floats,
    cross: Floats,
) -> None:
    """Add up for every judge the gradient in the effects of covariates, and the information between them and his own.

    The mixed derivatives are negative, as in `cross_pass`.
    """
    for r in range(len(left)):
        k = expert[r]
        delta = score[left[r]] - score[right[r]]
        count = n_left[r] + n_right[r] + n_ties[r]
        for sign in (-1.0, 1.0):
            slope = phi[k, 0] + sign * phi[k, 3]
            mean, tied = _outcome_moments(slope * delta + phi[k, 1] + offset[r], phi[k, 2], ties)[1:]
            residual = 0.25 * (n_left[r] - n_right[r] - count * mean)
            along = 0.125 * count * (1.0 - tied - mean * mean)
            for a in range(x.shape[1]):
                z = x[r, a]
                gradients[k, a] += residual * z
                cross[k, 0, a] += along * delta * z
                cross[k, 1, a] += along * z
                if ties:
                    cross[k, 2, a] += -0.25 * count * mean * tied * z
                cross[k, 3, a] += sign * along * delta * z
