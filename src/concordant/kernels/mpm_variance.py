"""Likelihood of the multinomial preference model with a variance per item.

With unequal variances the normaliser does not factorise, so an evaluation costs O(M²). The experts enter through one
table, the weighted sum of their preferences, and through their adherence.
"""

from __future__ import annotations

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.jit import jit

__all__ = ["list_gradients", "pair_covariances", "pair_gradient", "pair_hessian", "preference_table"]

# Beyond this span of exponents exp(-x) is computed directly: the reciprocal of exp(x) would overflow.
_SPAN = 300.0


@jit
def preference_table(
    slot: Codes, value: Floats, list_offsets: Ints, weight: Floats, binary: bool, table: Floats
) -> None:
    """Add the preferences of lists for the item of the row over the item of the column to a table.

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
def list_gradients(
    slot: Codes, value: Floats, list_offsets: Ints, binary: bool, score: Floats, gamma: Floats, gradient: Floats
) -> None:
    """Write for every list the gradient of Σ_ij Y(i,j) (s_i − s_j)/(γ_i + γ_j) in scores and log γ into its row."""
    m = len(score)
    for k in range(len(list_offsets) - 1):
        for c in range(2 * m):
            gradient[k, c] = 0.0
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
                gradient[k, i] += y / width
                gradient[k, j] -= y / width
                gradient[k, m + i] -= y * u * gamma[i] / width
                gradient[k, m + j] -= y * u * gamma[j] / width


@jit
def pair_gradient(
    table: Floats, share: Floats, theta: Floats, score: Floats, beta: Floats, gradient: Floats, mean: Floats
) -> float:
    """Write the gradient of the objective with variances γ = exp(β) in scores and β, and return the objective.

    Σ_ij Y(i,j) u_ij − Σ_l share_l log Z_l, u_ij = (s_i − s_j)/(γ_i + γ_j), Z_l = Σ_{i≠j} exp(α_l u_ij). O(L M²); lists
    of equal adherence can be one entry.

    Parameters
    ----------
    table : float64[M, M]
        Y = Σ_l α_l Y_l, divided by the number of preferences.
    share, theta : float64[L]
        The share of each list in the preferences, and its adherence.
    score, beta : float64[M]
        The scores and log variances.
    gradient : float64[2 M]
        Out: by the scores, then by β.
    mean : float64[L]
        Out: the mean of u under the distribution of each list; the gradient in α_l is Σ_ij Y_l u − share_l mean_l.
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
def pair_hessian(
    table: Floats, share: Floats, theta: Floats, score: Floats, beta: Floats, mean: Floats, out: Floats
) -> None:
    """Write −Hessian of the objective of `pair_gradient`, and the mean gradient of u under each list.

    Parameters
    ----------
    table, share, theta, score, beta
        As in `pair_gradient`.
    mean : float64[L, 2 M]
        Out: the mean of the gradient of u under the distribution of each list.
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
    by_parameter, index = np.empty(4), np.empty(4, dtype=np.int64)
    for i in range(m):
        for j in range(i):
            width = gamma[i] + gamma[j]
            u = (score[i] - score[j]) / width
            by_parameter[0], by_parameter[1] = 1.0 / width, -1.0 / width
            by_parameter[2], by_parameter[3] = -u * gamma[i] / width, -u * gamma[j] / width
            index[0], index[1], index[2], index[3] = i, j, m + i, m + j
            square, drift = 0.0, table[j, i] - table[i, j]
            for k in range(lists):
                won = np.exp(theta[k] * u - shift[k]) / norm[k]
                lost = np.exp(-theta[k] * u - shift[k]) / norm[k]
                square += share[k] * theta[k] ** 2 * (won + lost)
                drift += share[k] * theta[k] * (won - lost)
                for a in range(4):
                    mean[k, index[a]] += (won - lost) * by_parameter[a]
            for a in range(4):
                for b in range(4):
                    out[index[a], index[b]] += square * by_parameter[a] * by_parameter[b]
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


@jit
def pair_covariances(theta: Floats, score: Floats, beta: Floats, variance: Floats, covariance: Floats) -> None:
    """Write the variance of u under each list, and the covariances of u with its gradient in scores and β.

    They are the second derivatives of log Z_l in α_l, and a part of those in α_l and the other parameters.

    Parameters
    ----------
    theta, score, beta
        As in `pair_gradient`.
    variance : float64[L]
        Out.
    covariance : float64[L, 2 M]
        Out.
    """
    m = len(score)
    gamma = np.exp(beta)
    top = 0.0
    for i in range(m):
        for j in range(i):
            top = max(top, abs(score[i] - score[j]) / (gamma[i] + gamma[j]))
    mean = np.empty(2 * m)
    covariance[:] = 0.0
    for k in range(len(theta)):
        shift = theta[k] * top
        z, along, square = 0.0, 0.0, 0.0
        mean[:] = 0.0
        for i in range(m):
            for j in range(i):
                width = gamma[i] + gamma[j]
                u = (score[i] - score[j]) / width
                won, lost = np.exp(theta[k] * u - shift), np.exp(-theta[k] * u - shift)
                z += won + lost
                along += (won - lost) * u
                square += (won + lost) * u * u
                first, second = (won - lost) / width, (won + lost) * u / width
                mean[i] += first
                mean[j] -= first
                mean[m + i] -= first * u * gamma[i]
                mean[m + j] -= first * u * gamma[j]
                covariance[k, i] += second
                covariance[k, j] -= second
                covariance[k, m + i] -= second * u * gamma[i]
                covariance[k, m + j] -= second * u * gamma[j]
        variance[k] = square / z - (along / z) ** 2
        for c in range(2 * m):
            covariance[k, c] = covariance[k, c] / z - (along / z) * (mean[c] / z)
