"""The multinomial over ordered pairs when items have variances of their own: scores and variances from one table.

With variances the normaliser no longer factorises, so that every step looks at all pairs; the experts are needed only
through one table, their preferences added up, and through how much each is trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.jit import jit
from concordant.kernels.linear_systems import cholesky_solve

__all__ = [
    "Variances",
    "ascend_variances",
    "pair_curvature",
    "pair_gradient",
    "pair_pulls",
    "pair_table",
    "solve_variances",
]

# Beyond this span of exponents exp(x) and exp(-x) are taken one by one: a reciprocal would overflow.
_SPAN = 300.0
# Steps that L-BFGS remembers.
_MEMORY = 20
# Up to this many items the curvature is formed for the last steps.
_POLISHED_ITEMS = 400


@jit
def pair_table(slot: Codes, value: Floats, list_offsets: Ints, weight: Floats, binary: bool, table: Floats) -> None:
    """Add the lists' preferences for the row's item over the column's to a table.

    Of two items the one with the smaller value is preferred, by the difference (or by 1 when `binary`) times the
    weight of the list. O(m²) for a list of m items.
    """
    for k in range(len(weight)):
        if weight[k] == 0.0:
            continue
        for r in range(list_offsets[k], list_offsets[k + 1]):
            for q in range(list_offsets[k], r):
                gap = value[q] - value[r]
                if gap > 0.0:
                    table[slot[r], slot[q]] += weight[k] * (1.0 if binary else gap)
                elif gap < 0.0:
                    table[slot[q], slot[r]] += weight[k] * (1.0 if binary else -gap)


@jit
def pair_pulls(
    slot: Codes, value: Floats, list_offsets: Ints, binary: bool, score: Floats, gamma: Floats, pull: Floats
) -> None:
    """Write for every list the gradient of Σ_ij Y(i,j) (s_i − s_j)/(γ_i + γ_j) in scores and log γ into its row."""
    m = len(score)
    for k in range(len(list_offsets) - 1):
        for c in range(2 * m):
            pull[k, c] = 0.0
        for r in range(list_offsets[k], list_offsets[k + 1]):
            for q in range(list_offsets[k], r):
                y = value[q] - value[r]
                if y == 0.0:
                    continue
                if binary:
                    y = 1.0 if y > 0.0 else -1.0
                i, j = slot[r], slot[q]
                width = gamma[i] + gamma[j]
                u = (score[i] - score[j]) / width
                pull[k, i] += y / width
                pull[k, j] -= y / width
                pull[k, m + i] -= y * u * gamma[i] / width
                pull[k, m + j] -= y * u * gamma[j] / width


@jit
def pair_gradient(
    table: Floats, share: Floats, theta: Floats, score: Floats, beta: Floats, gradient: Floats, mean: Floats
) -> float:
    """Write the gradient of the objective with variances γ = exp(β) in scores and β, and return the objective.

    Σ_ij Y(i,j) u_ij − Σ_l share_l log Z_l, u_ij = (s_i − s_j)/(γ_i + γ_j), Z_l = Σ_{i≠j} exp(θ_l u_ij). O(L M²), O(M²)
    when all trust is alike and so is one entry.

    Parameters
    ----------
    table : float64[M, M]
        Y = Σ_l θ_l Y_l, divided by the number of preferences.
    share, theta : float64[L]
        Of each list: its part of the preferences, and the trust in it.
    score, beta : float64[M]
        Where.
    gradient : float64[2 M]
        Out: by the scores, then by β.
    mean : float64[L]
        Out: the mean of u under each list's law; the gradient in θ_l is Σ_ij Y_l u − share_l mean_l.
    """
    m = len(score)
    gamma = np.exp(beta)
    own = np.empty(2 * m)
    value, top = 0.0, 0.0
    for c in range(2 * m):
        gradient[c] = 0.0
    for i in range(m):
        for j in range(i):
            width = gamma[i] + gamma[j]
            u = (score[i] - score[j]) / width
            top = max(top, abs(u))
            y = table[i, j] - table[j, i]
            value += y * u
            y /= width
            gradient[i] += y
            gradient[j] -= y
            gradient[m + i] -= y * u * gamma[i]
            gradient[m + j] -= y * u * gamma[j]
    for k in range(len(share)):
        t = theta[k]
        shift = t * top if t * top > _SPAN else 0.0
        z, along = 0.0, 0.0
        for c in range(2 * m):
            own[c] = 0.0
        for i in range(m):
            for j in range(i):
                width = gamma[i] + gamma[j]
                u = (score[i] - score[j]) / width
                won = np.exp(t * u - shift)
                lost = 1.0 / won if shift == 0.0 else np.exp(-t * u - shift)
                z += won + lost
                y = (won - lost) / width
                along += (won - lost) * u
                own[i] += y
                own[j] -= y
                own[m + i] -= y * u * gamma[i]
                own[m + j] -= y * u * gamma[j]
        mean[k] = along / z
        value -= share[k] * (np.log(z) + shift)
        for c in range(2 * m):
            gradient[c] -= share[k] * t * own[c] / z
    return value


@jit
def pair_curvature(
    table: Floats, share: Floats, theta: Floats, score: Floats, beta: Floats, mean: Floats, out: Floats
) -> None:
    """Write the negative second derivatives of `pair_gradient`'s objective, and each list's mean gradient of u.

    Parameters
    ----------
    table, share, theta, score, beta
        As in `pair_gradient`.
    mean : float64[L, 2 M]
        Out: the mean of the gradient of u under each list's law.
    out : float64[2 M, 2 M]
        Out.
    """
    m = len(score)
    gamma = np.exp(beta)
    lists = len(share)
    norm, shift = np.zeros(lists), np.zeros(lists)
    top = 0.0
    for i in range(m):
        for j in range(i):
            top = max(top, abs(score[i] - score[j]) / (gamma[i] + gamma[j]))
    for k in range(lists):
        shift[k] = theta[k] * top
        for i in range(m):
            for j in range(i):
                u = theta[k] * (score[i] - score[j]) / (gamma[i] + gamma[j])
                norm[k] += np.exp(u - shift[k]) + np.exp(-u - shift[k])
    mean[:] = 0.0
    out[:] = 0.0
    slope, index = np.empty(4), np.empty(4, dtype=np.int64)
    for i in range(m):
        for j in range(i):
            width = gamma[i] + gamma[j]
            u = (score[i] - score[j]) / width
            slope[0], slope[1] = 1.0 / width, -1.0 / width
            slope[2], slope[3] = -u * gamma[i] / width, -u * gamma[j] / width
            index[0], index[1], index[2], index[3] = i, j, m + i, m + j
            square, drift = 0.0, table[j, i] - table[i, j]
            for k in range(lists):
                won = np.exp(theta[k] * u - shift[k]) / norm[k]
                lost = np.exp(-theta[k] * u - shift[k]) / norm[k]
                square += share[k] * theta[k] ** 2 * (won + lost)
                drift += share[k] * theta[k] * (won - lost)
                for a in range(4):
                    mean[k, index[a]] += (won - lost) * slope[a]
            for a in range(4):
                for b in range(4):
                    out[index[a], index[b]] += square * slope[a] * slope[b]
            # The second derivatives of u itself.
            p, q = gamma[i] / width, gamma[j] / width
            for a in range(2):
                sign = -drift / width if a == 0 else drift / width
                out[index[a], m + i] += sign * p
                out[m + i, index[a]] += sign * p
                out[index[a], m + j] += sign * q
                out[m + j, index[a]] += sign * q
            out[m + i, m + i] += drift * u * p * (2.0 * p - 1.0)
            out[m + j, m + j] += drift * u * q * (2.0 * q - 1.0)
            out[m + i, m + j] += drift * u * 2.0 * p * q
            out[m + j, m + i] += drift * u * 2.0 * p * q
    for k in range(lists):
        w = share[k] * theta[k] ** 2
        for a in range(2 * m):
            if mean[k, a] != 0.0:
                for b in range(2 * m):
                    out[a, b] -= w * mean[k, a] * mean[k, b]


class Variances(NamedTuple):
    """Scores and variances of one instance.

    Attributes
    ----------
    score, beta : float64[M]
        The scores, mean 0, and the logarithms of the variances, mean 0.
    objective, norm : float
        The penalised objective and the largest entry of its gradient.
    n_iter : int
        How many steps were taken.
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

    L-BFGS from the given scores and log variances, then, up to 400 items, Newton steps to the last digits. The ridge
    keeps the gauge: scores and variances may be multiplied by one factor, and mean β = 0 costs least.
    """
    m = len(score)
    weight = ridge / m
    mean = np.zeros(len(share))

    def negative(z: Floats) -> tuple[float, Floats]:
        gradient = np.empty(2 * m)
        value = pair_gradient(table, share, theta, z[:m], z[m:], gradient, mean)
        gradient[m:] -= weight * z[m:]
        return 0.5 * weight * float(z[m:] @ z[m:]) - value, -gradient

    # Newton's steps are few and square the error: where they follow, they need not wait for the last digits.
    rough = max(tol, 1e-4) if m <= _POLISHED_ITEMS else tol
    z, value, gradient, turns = _lbfgs(negative, np.concatenate([score, beta]), rough, max_iter)
    if m <= _POLISHED_ITEMS:
        z, value, gradient, more = _polish(negative, z, value, gradient, table, share, theta, weight, max_iter - turns)
        turns += more
    shift = float(z[m:].mean())
    out = z[:m] * np.exp(-shift)
    return Variances(out - out.mean(), z[m:] - shift, -value, float(np.abs(gradient).max(initial=0.0)), turns)


def _lbfgs(
    function: Callable[[Floats], tuple[float, Floats]], z: Floats, tol: float, max_iter: int
) -> tuple[Floats, float, Floats, int]:
    """Return a minimum found by L-BFGS with backtracking, its value, the gradient there, and how many steps it took.

    For some tens of numbers a library's routine costs many times what the function does.
    """
    value, gradient = function(z)
    moves: list[tuple[Floats, Floats, float]] = []
    for turn in range(max_iter):
        if float(np.abs(gradient).max(initial=0.0)) <= tol:
            return z, value, gradient, turn
        step = -gradient
        kept = []
        for moved, changed, bend in reversed(moves):
            part = float(moved @ step) / bend
            kept.append(part)
            step -= part * changed
        if moves:
            moved, changed, bend = moves[-1]
            step *= bend / float(changed @ changed)
        else:
            # Nothing is known of the curvature yet: a step of moderate length.
            step /= max(float(np.sqrt(gradient @ gradient)), 1e-300)
        for (moved, changed, bend), part in zip(moves, reversed(kept), strict=True):
            step += moved * (part - float(changed @ step) / bend)
        rise, pace = float(gradient @ step), 1.0
        if rise >= 0.0:
            moves.clear()
            step, rise = -gradient, -float(gradient @ gradient)
        while True:
            reached, slope = function(z + pace * step)
            if reached <= value + 1e-4 * pace * rise or pace < 1e-12:
                break
            pace *= 0.5
        if pace < 1e-12:
            if not moves:
                return z, value, gradient, turn
            moves.clear()
            continue
        bend = pace * float(step @ (slope - gradient))
        if bend > 1e-14 * pace * float(step @ step):
            moves.append((pace * step, slope - gradient, bend))
            del moves[:-_MEMORY]
        z, value, gradient = z + pace * step, reached, slope
    return z, value, gradient, max_iter


def _polish(
    negative: Callable[[Floats], tuple[float, Floats]],
    z: Floats,
    value: float,
    gradient: Floats,
    table: Floats,
    share: Floats,
    theta: Floats,
    weight: float,
    limit: int,
) -> tuple[Floats, float, Floats, int]:
    """Return what at most `limit` Newton steps, none of them uphill, come to."""
    m = len(z) // 2
    curvature, mean = np.empty((2 * m, 2 * m)), np.empty((len(share), 2 * m))
    for turn in range(limit):
        norm = float(np.abs(gradient).max(initial=0.0))
        pair_curvature(table, share, theta, z[:m], z[m:], mean, curvature)
        curvature[np.arange(m, 2 * m), np.arange(m, 2 * m)] += weight
        # Adding a constant to the scores changes nothing; any stiffness that way will do.
        curvature[:m, :m] += np.trace(curvature[:m, :m]) / m / m
        down = -gradient[:, None]
        step = down[:, 0]
        if not cholesky_solve(curvature.copy(), down):
            # Not at a minimum yet: down all the same, along the axes of the curvature.
            bend, axes = np.linalg.eigh(curvature)
            size = np.maximum(np.abs(bend), 1e-14 * max(float(bend[-1]), 1e-300))
            step = axes @ ((axes.T @ -gradient) / size)
        pace = 1.0
        while True:
            trial = z + pace * step
            reached, slope = negative(trial)
            if reached <= value + 1e-14 * abs(value) or pace < 1e-8:
                break
            pace *= 0.5
        if pace < 1e-8 or (norm < 1e-9 and float(np.abs(slope).max(initial=0.0)) >= 0.5 * norm):
            return z, value, gradient, turn
        z, value, gradient = trial, reached, slope
    return z, value, gradient, limit


def ascend_variances(table: Floats, share: Floats, theta: Floats, steps: int) -> Variances:
    """Return what plain gradient ascent from scores 0 and equal variances comes to.

    Scores and log variances move by 0.1 M times their gradients; a step that makes things worse is taken back and
    halved from then on. After every step the log variances get mean 0 and the scores the same factor. Much longer
    steps find their way to scores that differ without bound, which no later step mends.
    """
    m = len(table)
    score, beta, mean = np.zeros(m), np.zeros(m), np.zeros(len(share))
    best, highest, slope, pace = (score, beta), -np.inf, np.zeros(2 * m), 0.1 * m
    for turn in range(steps + 1):
        gradient = np.empty(2 * m)
        value = pair_gradient(table, share, theta, score, beta, gradient, mean)
        if value >= highest:
            best, highest, slope = (score, beta), value, gradient
        else:
            pace *= 0.5
        if turn == steps:
            break
        score, beta = best[0] + pace * slope[:m], best[1] + pace * slope[m:]
        shift = float(beta.mean())
        score, beta = score * np.exp(-shift), beta - shift
    score, beta = best
    return Variances(score - score.mean(), beta, highest, float(np.abs(slope).max(initial=0.0)), steps)
