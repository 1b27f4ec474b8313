"""Joint probabilities of the order statistics of uniform numbers, in logarithms, by recursion over counts.

The number N(t) of K uniform numbers that are at most t is followed along sorted thresholds. All terms are positive, so
nothing cancels; the alternating recursions for the same volumes lose all digits from about 30 numbers on.
"""

from __future__ import annotations

import numpy as np

from concordant.arrays import Floats
from concordant.kernels.beta import log_beta_cdf

__all__ = ["log_beta_quantile", "log_crossing", "log_joint_cdf", "log_poisson_binomial_tail"]

# Numbers of one block of rows, of eight bytes each.
_BUDGET = 1 << 18
_TINY = 1e-280


def log_joint_cdf(rank: Floats) -> Floats:
    """Return ln P(U_(1) <= r_1, ..., U_(K) <= r_K) for each row r_1 <= ... <= r_K of numbers in (0, 1].

    The event is N(r_k) >= k for all k. Costs O(K^3) for a row.

    >>> float(np.exp(log_joint_cdf(np.array([[0.5, 1.0]])))[0])
    0.75
    """
    with np.errstate(divide="ignore"):
        log_step = np.log(np.diff(rank, axis=1, prepend=0.0))
    k = rank.shape[1]
    out = np.empty(len(rank))
    for rows in _blocks(len(rank), k):
        state = _first_state(rows.stop - rows.start, k)
        for step in range(k):
            state = _count_more(state, log_step[rows, step], range(step, k + 1), range(step + 1, k + 1))
        out[rows] = state[:, k] + _log_factorials(k)[k]
    return np.minimum(out, 0.0)


def log_crossing(log_threshold: Floats) -> Floats:
    """Return ln P(U_(k) <= q_k for some k) for each row ln q_1 <= ... <= ln q_K <= 0.

    The event is split by the first threshold at which N(q_k) >= k. Costs O(K^3) for a row.

    >>> float(np.exp(log_crossing(np.log(np.array([[0.1, 0.5]]))))[0].round(12))
    0.35
    """
    k = log_threshold.shape[1]
    factorials = _log_factorials(k)
    remaining = factorials[k] - factorials[::-1]  # ln K! / (K - m)! for m = 0, ..., K
    out = np.empty(len(log_threshold))
    for rows in _blocks(len(log_threshold), k):
        log_q = log_threshold[rows]
        state = _first_state(len(log_q), k)
        crossed = np.full((len(log_q), k), -np.inf)
        before = np.full(len(log_q), -np.inf)
        for step in range(k):
            now = log_q[:, step]
            with np.errstate(divide="ignore", invalid="ignore"):
                # ln(q_k - q_(k-1)), and -inf for equal thresholds.
                log_step = now + np.log(-np.expm1(np.where(np.isneginf(now), 0.0, before - now)))
                above = np.log(-np.expm1(now))
            state = _count_more(state, log_step, range(max(step, 1)), range(k + 1))
            left = np.arange(k - 1 - step, -1, -1)
            with np.errstate(invalid="ignore"):
                beyond = np.where(left == 0, 0.0, left * above[:, None])
            crossed[:, step] = _log_sum(state[:, step + 1 :] + remaining[step + 1 :] + beyond)
            before = now
        out[rows] = _log_sum(crossed)
    return np.minimum(out, 0.0)


def log_poisson_binomial_tail(log_x: Floats, log_ceiling: Floats, k: int) -> Floats:
    """Return ln P(at least k of the U_j are at most min(x, c_j)) for each row: x, and the ceilings c_1, ..., c_K.

    P(N >= c) is updated list by list: P(N' >= c) = (1 - z) P(N >= c) + z P(N >= c - 1), all terms positive.

    >>> x, ceiling = np.log(np.array([0.5])), np.log(np.array([[1.0, 0.25]]))
    >>> float(np.exp(log_poisson_binomial_tail(x, ceiling, 1))[0].round(12))
    0.625
    """
    log_z = np.minimum(log_x[:, None], log_ceiling)
    with np.errstate(divide="ignore"):
        log_not = np.log(-np.expm1(log_z))
    tail = np.full((len(log_x), k + 1), -np.inf)
    tail[:, 0] = 0.0
    for j in range(log_ceiling.shape[1]):
        tail[:, 1:] = np.logaddexp(log_not[:, j, None] + tail[:, 1:], log_z[:, j, None] + tail[:, :-1])
    out: Floats = np.minimum(tail[:, k], 0.0)
    return out


def log_beta_quantile(log_p: Floats, a: Floats, b: Floats) -> Floats:
    """Return ln x with ln P(B <= x) = ln p < 0 for B ~ Beta(a, b), a and b >= 1, also where p underflows.

    >>> x = log_beta_quantile(np.array([-2000.0]), np.array([3.0]), np.array([5.0]))
    >>> round(float(log_beta_cdf(np.exp(x), np.array([3.0]), np.array([5.0]))[0]), 6)
    -2000.0
    """
    from scipy.special import betaincinv, betaln

    log_p, a, b = np.broadcast_arrays(log_p, a, b)
    small = log_p < np.log(_TINY)
    out: Floats = np.log(betaincinv(a, b, np.exp(np.where(small, 0.0, log_p))))
    if small.any():
        target, a, b = log_p[small], a[small], b[small]
        # P(B <= x) <= x^a / (a B(a, b)): the search begins below the root, and Newton's steps approach it from there,
        # because ln P is concave in ln x.
        y = (target + np.log(a) + betaln(a, b)) / a
        for _ in range(100):
            # Where x itself underflows the bound is exact.
            x = np.exp(np.maximum(y, -700.0))
            cdf = np.where(y > -700.0, log_beta_cdf(x, a, b), a * y - np.log(a) - betaln(a, b))
            slope = np.exp(a * y + (b - 1.0) * np.log1p(-x) - betaln(a, b) - cdf)
            move = (target - cdf) / slope
            y = np.minimum(y + move, 0.0)
            if (np.abs(move) <= 1e-15 * np.abs(y)).all():
                break
        out[small] = y
    return out


def _first_state(rows: int, k: int) -> Floats:
    """Return ln of the weights of N = 0, ..., K before any threshold: N is 0."""
    state = np.full((rows, k + 1), -np.inf)
    state[:, 0] = 0.0
    return state


def _count_more(state: Floats, log_step: Floats, before: range, after: range) -> Floats:
    """Return ln of the weights of N after a step of length d: sum of w(i) d^(m - i) / (m - i)! over i in `before`."""
    k = state.shape[1] - 1
    n = np.arange(k + 1)
    with np.errstate(invalid="ignore"):
        term = np.where(n == 0, 0.0, n * log_step[:, None]) - _log_factorials(k)
    out = np.full_like(state, -np.inf)
    for m in after:
        last = min(before.stop, m + 1)
        if last > before.start:
            i = np.arange(before.start, last)
            out[:, m] = _log_sum(state[:, i] + term[:, m - i])
    return out


def _log_sum(terms: Floats) -> Floats:
    """Return ln of the sum of exp over each row, -inf where all terms are."""
    largest = terms.max(axis=1)
    finite = np.where(np.isneginf(largest), 0.0, largest)
    with np.errstate(divide="ignore"):
        total: Floats = finite + np.log(np.exp(terms - finite[:, None]).sum(axis=1))
    return total


def _log_factorials(k: int) -> Floats:
    logs: Floats = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, k + 1)))])
    return logs


def _blocks(rows: int, k: int) -> list[slice]:
    size = max(_BUDGET // max(k * k, 1), 64)
    return [slice(a, min(a + size, rows)) for a in range(0, rows, size)]
