"""Log-likelihood, gradients and curvature of comparisons by judges of different reliability, in compiled loops.

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
    "follow_pass",
    "hessian_product",
    "judge_pass",
    "score_pass",
]


class JudgedRows(NamedTuple):
    """Comparisons collapsed to one row per (pair as shown, judge), ordered by instance, left, right, judge."""

    left: Codes
    right: Codes
    expert: Codes
    n_left: Floats
    n_right: Floats
    n_ties: Floats
    starts: Ints
    offsets: Ints
    ties: bool


class Derivatives(NamedTuple):
    """The objective by instance at some scores and parameters, a gradient and a curvature."""

    value: Floats
    gradient: Floats
    bend: Floats


@jit
def _answer(z: float, t: float, ties: bool) -> tuple[float, float, float]:
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
    score: Floats,
    phi: Floats,
    value: Floats,
    gradient: Floats,
    bend: Floats,
) -> None:
    """Fill in the log-likelihood of every instance, its gradient in the scores and every row's curvature in δ."""
    gradient[:] = 0.0
    for n in range(len(starts) - 1):
        total = 0.0
        for r in range(starts[n], starts[n + 1]):
            i, j, k = left[r], right[r], expert[r]
            delta = score[i] - score[j]
            t = phi[k, 2]
            count = n_left[r] + n_right[r] + n_ties[r]
            net = n_left[r] - n_right[r]
            pull = 0.0
            curve = 0.0
            for sign in (-1.0, 1.0):
                slope = phi[k, 0] + sign * phi[k, 3]
                z = slope * delta + phi[k, 1]
                log_sum, mean, tied = _answer(z, t, ties)
                total += 0.25 * net * z - 0.5 * count * log_sum
                pull += 0.25 * slope * (net - count * mean)
                curve += 0.125 * slope * slope * count * (1.0 - tied - mean * mean)
            if ties:
                total += n_ties[r] * t
            gradient[i] += pull
            gradient[j] -= pull
            bend[r] = curve
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
    score: Floats,
    phi: Floats,
    value: Floats,
    gradient: Floats,
    bend: Floats,
) -> None:
    """Fill in the log-likelihood of every instance, and gradient and negative Hessian in every judge's parameters."""
    gradient[:] = 0.0
    bend[:] = 0.0
    for n in range(len(starts) - 1):
        total = 0.0
        for r in range(starts[n], starts[n + 1]):
            k = expert[r]
            delta = score[left[r]] - score[right[r]]
            t = phi[k, 2]
            count = n_left[r] + n_right[r] + n_ties[r]
            net = n_left[r] - n_right[r]
            for sign in (-1.0, 1.0):
                z = (phi[k, 0] + sign * phi[k, 3]) * delta + phi[k, 1]
                log_sum, mean, tied = _answer(z, t, ties)
                total += 0.25 * net * z - 0.5 * count * log_sum
                pull = 0.25 * (net - count * mean)
                along = 0.125 * count * (1.0 - tied - mean * mean)
                gradient[k, 0] += pull * delta
                gradient[k, 1] += pull
                gradient[k, 3] += sign * pull * delta
                bend[k, 0, 0] += along * delta * delta
                bend[k, 0, 1] += along * delta
                bend[k, 0, 3] += sign * along * delta * delta
                bend[k, 1, 1] += along
                bend[k, 1, 3] += sign * along * delta
                if ties:
                    cross = -0.25 * count * mean * tied
                    gradient[k, 2] += 0.5 * (n_ties[r] - count * tied)
                    bend[k, 0, 2] += cross * delta
                    bend[k, 1, 2] += cross
                    bend[k, 2, 2] += 0.5 * count * tied * (1.0 - tied)
                    bend[k, 2, 3] += sign * cross * delta
            if ties:
                total += n_ties[r] * t
        value[n] = total
    for k in range(len(phi)):
        bend[k, 3, 3] = bend[k, 0, 0]
        for p in range(4):
            for q in range(p):
                bend[k, p, q] = bend[k, q, p]


@jit
def follow_pass(
    left: Codes,
    right: Codes,
    expert: Codes,
    n_left: Floats,
    n_right: Floats,
    n_ties: Floats,
    ties: bool,
    score: Floats,
    phi: Floats,
    out: Floats,
) -> None:
    """Add up, judge by judge, how the mean answer (left 1, tie 0, right -1) moves with δ, and what that depends on.

    Columns: the derivative in δ; what it is for a judge of slope 1 without habits or ties; the derivatives of the first
    column in the judge's parameters.
    """
    out[:] = 0.0
    for r in range(len(left)):
        k = expert[r]
        delta = score[left[r]] - score[right[r]]
        slope = phi[k, 0]
        mean, tied = _answer(slope * delta + phi[k, 1], phi[k, 2], ties)[1:]
        count = n_left[r] + n_right[r] + n_ties[r]
        move = 0.5 * (1.0 - tied - mean * mean)
        turn = 0.5 * slope * mean * (0.5 * tied - 2.0 * move)
        plain = _answer(delta, 0.0, False)[1]
        out[k, 0] += count * slope * move
        out[k, 1] += count * 0.5 * (1.0 - plain * plain)
        out[k, 2] += count * (move + turn * delta)
        out[k, 3] += count * turn
        out[k, 4] += count * 0.5 * slope * tied * (2.0 * mean * mean - (1.0 - tied))


@jit
def assemble_hessian(left: Codes, right: Codes, bend: Floats, start: int, stop: int, first: int, out: Floats) -> None:
    """Add the curvature of rows start..stop to an instance's matrix, whose first item is slot `first`."""
    for r in range(start, stop):
        i, j = left[r] - first, right[r] - first
        out[i, i] += bend[r]
        out[j, j] += bend[r]
        out[i, j] -= bend[r]
        out[j, i] -= bend[r]


@jit
def hessian_product(left: Codes, right: Codes, bend: Floats, first: int, x: Floats) -> Floats:
    """Return the matrix of curvature of an instance's rows times a vector, without forming it."""
    out = np.zeros(len(x))
    for r in range(len(left)):
        i, j = left[r] - first, right[r] - first
        flow = bend[r] * (x[i] - x[j])
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
    score: Floats,
    phi: Floats,
    gradients: Floats,
    cross: Floats,
) -> None:
    """Add up, judge by judge, the gradient in the scores and the negative mixed derivatives with the parameters."""
    for r in range(len(left)):
        i, j, k = left[r], right[r], expert[r]
        delta = score[i] - score[j]
        count = n_left[r] + n_right[r] + n_ties[r]
        for sign in (-1.0, 1.0):
            slope = phi[k, 0] + sign * phi[k, 3]
            mean, tied = _answer(slope * delta + phi[k, 1], phi[k, 2], ties)[1:]
            pull = 0.25 * (n_left[r] - n_right[r] - count * mean)
            along = 0.125 * count * (1.0 - tied - mean * mean)
            gradients[k, i] += slope * pull
            gradients[k, j] -= slope * pull
            for p in range(4):
                if p == 1:
                    mixed = slope * along
                elif p == 2:
                    mixed = -0.25 * slope * count * mean * tied
                else:
                    mixed = slope * along * delta - pull
                    if p == 3:
                        mixed *= sign
                cross[k, p, i] += mixed
                cross[k, p, j] -= mixed
