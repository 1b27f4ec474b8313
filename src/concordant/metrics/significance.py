"""Paired significance tests (t, Wilcoxon, Fisher randomisation), corrections of p-values, bootstrap intervals.

All functions take the per-instance differences of two methods. Equal methods have p = 1, never NaN. Randomness comes
from `random_state` alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from concordant.arrays import Floats, Ints
from concordant.errors import DataError, ParameterError
from concordant.kernels.lists import positions as list_positions

__all__ = [
    "PairedTest",
    "adjust",
    "bootstrap_interval",
    "fisher_randomization",
    "paired_t_test",
    "wilcoxon_signed_rank",
]

# Up to these numbers of differences p is exact, not sampled or approximated.
_EXACT_FLIPS = 12
_EXACT_RANKS = 50
# The most random numbers in memory at once: 32 MB of float64.
_BLOCK = 4_000_000
# Differences within this share of the largest are equal up to rounding.
_SAME = 1e-12


class PairedTest(NamedTuple):
    """A test statistic and its two-sided p-value."""

    statistic: float
    p_value: float


def paired_t_test(differences: ArrayLike) -> PairedTest:
    """Return the paired two-sided t-test of the per-instance differences of two methods.

    t = mean / (s / sqrt(N)), s the standard deviation with N − 1; p from Student's distribution with N − 1
    degrees of freedom. Without any difference, and for a single instance, p = 1.

    Parameters
    ----------
    differences : array of N numbers
        Value of one method minus value of the other, for each instance.

    Examples
    --------
    >>> t = paired_t_test([0.1, 0.2, 0.3])
    >>> round(t.statistic, 4), round(t.p_value, 4)
    (3.4641, 0.0742)
    """
    d = _differences(differences)
    n = len(d)
    if n < 2 or not d.any():
        return PairedTest(0.0, 1.0)
    from scipy.special import stdtr

    mean = float(d.mean())
    error = float(d.std(ddof=1)) / math.sqrt(n)
    if error <= _SAME * abs(mean):
        return PairedTest(math.copysign(math.inf, mean), 0.0)
    t = mean / error
    return PairedTest(t, float(2.0 * stdtr(n - 1, -abs(t))))


def wilcoxon_signed_rank(differences: ArrayLike) -> PairedTest:
    """Return Wilcoxon's two-sided signed-rank test of the per-instance differences of two methods.

    Zero differences are dropped; equal absolute differences share their average rank. The statistic is the smaller of
    the two rank sums. Up to 50 differences p is exact, given the ties; beyond, the normal approximation
    with the correction for ties is used. Without any difference p = 1.

    Parameters
    ----------
    differences : array of N numbers
        Value of one method minus value of the other, for each instance.

    Examples
    --------
    >>> wilcoxon_signed_rank([0.1, 0.2, 0.3, -0.05])
    PairedTest(statistic=1.0, p_value=0.25)
    """
    d = _differences(differences)
    largest = float(np.abs(d).max(initial=0.0))
    if largest > 0:
        d = np.round(d / largest, 12)
    d = d[d != 0]
    n = len(d)
    if n == 0:
        return PairedTest(0.0, 1.0)
    size = np.abs(d)
    rank = list_positions(size, np.array([0, n], dtype=np.int64), "average")
    plus = float(rank[d > 0].sum())
    minus = n * (n + 1) / 2 - plus
    smaller = min(plus, minus)
    if n <= _EXACT_RANKS:
        return PairedTest(smaller, min(1.0, 2.0 * _signed_rank_tail(rank, smaller)))
    counts = np.unique(size, return_counts=True)[1].astype(np.float64)
    variance = n * (n + 1) * (2 * n + 1) / 24 - float((counts**3 - counts).sum()) / 48
    z = (smaller - n * (n + 1) / 4) / math.sqrt(variance)
    return PairedTest(smaller, math.erfc(abs(z) / math.sqrt(2.0)))


def _signed_rank_tail(rank: Floats, at_most: float) -> float:
    """Return P(sum of the ranks with a plus <= at_most) when every sign is a fair coin."""
    # Average ranks are halves, so doubled ranks are whole numbers and the distribution is an array.
    doubled = np.rint(2 * rank).astype(np.int64)
    chance = np.zeros(int(doubled.sum()) + 1, dtype=np.float64)
    chance[0] = 1.0
    for r in doubled.tolist():
        chance[r:] = 0.5 * (chance[r:] + chance[:-r])
        chance[:r] *= 0.5
    return float(chance[: round(2 * at_most) + 1].sum())


def fisher_randomization(
    differences: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    n_resamples: int = 10_000,
    random_state: int | np.random.Generator | None = 0,
) -> Floats:
    """Return Fisher's two-sided randomisation p-value of every column of differences.

    If the methods were equal, the sign of each difference would be random. p is the share of sign patterns whose mean
    is at least as far from 0 as the observed mean: of all patterns if at most 12 differences are not 0, else of
    `n_resamples` random ones with the observed pattern included, (1 + hits) / (1 + n_resamples).

    Parameters
    ----------
    differences : array of N or N × C numbers
        Value of one method minus value of the other, for each instance (row).
    weights : array of N numbers, optional
        The weight of each instance in the mean; equal by default.
    n_resamples : int
        Random sign patterns.
    random_state : int, generator or None
        Seed of the signs.

    Notes
    -----
    O(n_resamples × N × C) in one matrix product; the columns share their sign patterns.

    Examples
    --------
    >>> fisher_randomization([0.1, 0.2, 0.3]).tolist()
    [0.25]
    """
    d = _columns(differences)
    n, c = d.shape
    _check_resamples(n_resamples, "fisher_randomization")
    share = np.full(n, 1.0 / max(n, 1)) if weights is None else np.asarray(weights, dtype=np.float64)
    d = d * share[:, None]
    out = np.ones(c, dtype=np.float64)
    sampled = []
    for j in range(c):
        column = d[:, j][d[:, j] != 0]
        if len(column) > _EXACT_FLIPS:
            sampled.append(j)
        elif len(column):
            flips = (np.arange(2 ** len(column))[:, None] >> np.arange(len(column))) & 1
            out[j] = float(_at_least_as_extreme(column.sum() - 2.0 * (flips @ column), column).mean())
    if not sampled:
        return out
    rng = np.random.default_rng(random_state)
    some = np.ascontiguousarray(d[:, sampled])
    hits = np.zeros(len(sampled), dtype=np.int64)
    for block in _blocks(n_resamples, n):
        bits = np.unpackbits(
            np.frombuffer(rng.bytes(block * ((n + 7) // 8)), dtype=np.uint8).reshape(block, -1), axis=1
        )
        flipped = some.sum(axis=0) - 2.0 * (bits[:, :n].astype(np.float64) @ some)
        hits += _at_least_as_extreme(flipped, some).sum(axis=0)
    out[sampled] = (1.0 + hits) / (1.0 + n_resamples)
    return out


def _at_least_as_extreme(flipped: Floats, observed: Floats) -> NDArray[np.bool_]:
    """Return which sums are at least as far from 0 as the observed sum, up to rounding."""
    slack = _SAME * np.abs(observed).sum(axis=0)
    far: NDArray[np.bool_] = np.abs(flipped) >= np.abs(observed.sum(axis=0)) - slack
    return far


def bootstrap_interval(
    differences: ArrayLike,
    *,
    level: float = 0.95,
    folds: ArrayLike | None = None,
    n_resamples: int = 10_000,
    random_state: int | np.random.Generator | None = 0,
) -> tuple[Floats, Floats]:
    """Return the percentile bootstrap interval of the mean of every column of differences.

    Instances are drawn with replacement; with folds they are drawn within each fold and the fold means are
    averaged, as the mean itself is.

    Parameters
    ----------
    differences : array of N or N × C numbers
        Value of one method minus value of the other, for each instance (row).
    level : float
        The share of resampled means inside the interval.
    folds : array of N whole numbers, optional
        The fold of each instance.
    n_resamples : int
        Resampled means.
    random_state : int, generator or None
        Seed of the resamples.

    Returns
    -------
    lower, upper : arrays of C numbers
        The ends of the interval.

    Notes
    -----
    O(n_resamples × N × C); the columns share their draws.

    Examples
    --------
    >>> low, high = bootstrap_interval([0.1, 0.1, 0.1])
    >>> round(float(low[0]), 6), round(float(high[0]), 6)
    (0.1, 0.1)
    """
    d = _columns(differences)
    n, c = d.shape
    _check_resamples(n_resamples, "bootstrap_interval")
    if not 0 < level < 1:
        raise ParameterError.invalid("level", "bootstrap_interval", "a number between 0 and 1", level)
    rng = np.random.default_rng(random_state)
    group = np.zeros(n, dtype=np.int64) if folds is None else np.unique(np.asarray(folds), return_inverse=True)[1]
    parts = [d[group == g] for g in range(int(group.max(initial=-1)) + 1)]
    means = np.zeros((n_resamples, c), dtype=np.float64)
    for part in parts:
        m = len(part)
        done = 0
        for block in _blocks(n_resamples, m):
            drawn = rng.integers(0, m, size=(block, m)) + np.arange(block)[:, None] * m
            times = np.bincount(drawn.ravel(), minlength=block * m).reshape(block, m)
            means[done : done + block] += times.astype(np.float64) @ part / (m * len(parts))
            done += block
    lower, upper = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return lower, upper


def adjust(p_values: ArrayLike, correction: str = "holm") -> Floats:
    """Return p-values corrected for testing several methods at once, in the order given.

    Parameters
    ----------
    p_values : array of m numbers
        One per test.
    correction : {"holm", "bonferroni", "none"}
        Holm: the i-th smallest is multiplied by m − i + 1 and is never below a smaller one. Bonferroni: all by m.

    Examples
    --------
    >>> adjust([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    m = len(p)
    if correction == "none":
        return p.copy()
    if correction == "bonferroni":
        return np.minimum(1.0, p * m)
    if correction != "holm":
        raise ParameterError.invalid("correction", "compare", "one of 'holm', 'bonferroni', 'none'", correction)
    order: Ints = np.argsort(p, kind="stable")
    out = np.empty(m, dtype=np.float64)
    out[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(m, 0, -1)))
    return out


def false_discovery_rates(p_values: Floats, offsets: Ints, tests: Floats | Ints) -> Floats:
    """Return Benjamini-Hochberg q-values of p-values in groups, in the order given.

    q of the i-th smallest p-value is the smallest p_(j) m / j over j >= i, at most 1: the false discovery rate at which
    the item is still found.

    Parameters
    ----------
    p_values : float64[R]
        One per test.
    offsets : int64[N + 1]
        Where the groups begin.
    tests : float64[N]
        How many tests m every group stands for; those beyond its p-values have the p-value 1.

    Examples
    --------
    >>> false_discovery_rates(np.array([0.01, 0.04, 0.03]), np.array([0, 3]), np.array([3])).round(4).tolist()
    [0.03, 0.04, 0.04]
    """
    out = np.empty(len(p_values))
    for n in range(len(offsets) - 1):
        p = p_values[offsets[n] : offsets[n + 1]]
        order: Ints = np.argsort(p, kind="stable")
        scaled = p[order] * (tests[n] / np.arange(1, len(p) + 1))
        q = np.empty(len(p))
        q[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
        out[offsets[n] : offsets[n + 1]] = q
    return out


def _differences(values: ArrayLike) -> Floats:
    d = np.asarray(values, dtype=np.float64)
    if d.ndim != 1 or not np.isfinite(d).all():
        raise DataError("differences must be a one-dimensional array of finite numbers, one per instance.")
    return d


def _columns(values: ArrayLike) -> Floats:
    d = np.asarray(values, dtype=np.float64)
    if d.ndim == 1:
        d = d[:, None]
    if d.ndim != 2 or not np.isfinite(d).all():
        raise DataError("differences must be finite numbers: one row per instance, one column per comparison.")
    return d


def _check_resamples(n: int, owner: str) -> None:
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ParameterError.invalid("n_resamples", owner, "a whole number >= 1", n)


def _blocks(total: int, width: int) -> list[int]:
    """Return block sizes that add up to `total`, each of at most `_BLOCK` cells of `width`."""
    size = max(1, min(total, _BLOCK // max(width, 1)))
    return [size] * (total // size) + ([total % size] if total % size else [])
