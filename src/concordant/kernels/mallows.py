"""Normalisers and expected distances of Mallows models in closed form, from q-factorials with q = exp(θ).

A ranking has probability proportional to exp(θ d), θ <= 0, d its distance to the centre. The sum of exp(θ d) over the
rankings of m items is the q-factorial [m]! = product over j = 1..m of (1 − q^j) / (1 − q). The derivative of its
logarithm is E_m(θ), the expected distance. The normalisers of cut, incomplete and tied lists are products and quotients
of such factorials, so their expected distances are sums of E_m.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats

__all__ = [
    "LEAST_THETA",
    "distance_variances",
    "expected_distances",
    "log_factorials",
    "mean_positions",
    "overlap_distance",
    "pool_moments",
    "regular",
    "sample_order",
    "solve_theta",
]

# Lists that always agree have no finite estimate; θ stops here, where a contradiction has odds of 1e-13.
LEAST_THETA = -30.0
# Below this `regular` uses its series; the first neglected term is under 1e-16.
_SERIES = 0.05
# The exponential of this is finite, and its inverse is negligible beside the other term.
_HUGE = 700.0


def regular(y: Floats) -> Floats:
    """Return 1 / (exp(y) − 1) − 1 / y for y >= 0: j q^j / (1 − q^j) without its pole at 0."""
    large = np.maximum(y, _SERIES)
    direct = 1.0 / np.expm1(np.minimum(large, _HUGE)) - 1.0 / large
    return np.where(y < _SERIES, -0.5 + y / 12.0 - y**3 / 720.0 + y**5 / 30240.0, direct)


def expected_distances(theta: float, n: int) -> Floats:
    """Return E_m(θ) for m = 0..n, the expected Kendall distance of a ranking of m items to its centre.

    E_m = m h_1 − (h_1 + ... + h_m) with h_j = j q^j / (1 − q^j). The poles of the h_j at θ = 0 cancel and are left out,
    so the result is exact near 0 too; E_m(0) = m (m − 1) / 4.

    >>> expected_distances(-1.0, 4).round(4).tolist()
    [0.0, 0.0, 0.2689, 0.6937, 1.2011]
    """
    j = np.arange(n + 1, dtype=np.float64)
    h = j * regular(-theta * j)
    out: Floats = j * (h[1] if n else 0.0) - np.cumsum(h)
    return out


def distance_variances(theta: float, n: int) -> Floats:
    """Return dE_m/dθ for m = 0..n: the variance of the Kendall distance of a ranking of m items to its centre.

    It is the second derivative of log [m]!, m h'_1 − (h'_1 + ... + h'_m) with h'_j = j² q^j / (1 − q^j)². The poles at
    θ = 0 cancel and are left out; there it is m (m − 1) (2m + 5) / 72.

    >>> distance_variances(-1.0, 4).round(4).tolist()
    [0.0, 0.0, 0.1966, 0.621, 1.2376]
    """
    j = np.arange(n + 1, dtype=np.float64)
    h = -j * j * _regular_slope(-theta * j)
    out: Floats = j * (h[1] if n else 0.0) - np.cumsum(h)
    return out


def _regular_slope(y: Floats) -> Floats:
    """Return the derivative of `regular`: 1 / y² − exp(y) / (exp(y) − 1)² for y >= 0."""
    large = np.maximum(y, _SERIES)
    direct = 1.0 / large**2 - 0.25 / np.sinh(np.minimum(large, _HUGE) / 2) ** 2
    return np.where(y < _SERIES, 1.0 / 12.0 - y**2 / 240.0 + y**4 / 6048.0 - y**6 / 172800.0, direct)


def log_factorials(theta: float, n: int) -> Floats:
    """Return log [m]! for m = 0..n: the normaliser of a Mallows model of m items.

    >>> log_factorials(-1.0, 4).round(4).tolist()
    [0.0, 0.0, 0.3133, 0.7209, 1.1611]
    """
    j = np.arange(1, n + 1, dtype=np.float64)
    terms = np.log(j) if theta == 0 else np.log(np.expm1(theta * j) / np.expm1(theta))
    return np.concatenate([[0.0], np.cumsum(terms)])


def overlap_distance(listed: NDArray[Any], cut: NDArray[Any], common: NDArray[Any]) -> NDArray[Any]:
    """Return the part of the top-k distance that depends only on the number of common items.

    A list of `listed` items is compared with the first `cut` of a ranking (listed <= cut). The r = listed − common
    items that only the list holds stand in a list above the cut − common items that only the ranking holds, and below
    them in the ranking: r (cut − common) discordant pairs, less r (r − 1) / 2. With listed = cut it is r (r + 1) / 2.

    >>> overlap_distance(np.array([3, 3]), np.array([3, 5]), np.array([1, 3])).tolist()
    [3, 0]
    """
    r = listed - common
    out: NDArray[Any] = r * (cut - common) - r * (r - 1) // 2
    return out


def pool_moments(
    theta: float,
    listed: NDArray[Any],
    cut: NDArray[Any],
    pool: NDArray[Any],
    lists: tuple[Floats, Floats] | None = None,
) -> tuple[Floats, Floats]:
    """Return the log normalisers and the expected distances over all lists of a given length from a pool.

    The number z of common items is random here: with r = listed − z it has the odds C(pool − cut, r) exp(log normaliser
    given z).

    Parameters
    ----------
    theta : float
        θ <= 0.
    listed, cut, pool : int[N]
        The length of the list, the number of places of the ranking that count (not fewer), and the number of items.
    lists : (log sum, derivative), each float64[N, most listed + 1], optional
        The log normaliser of the list given r and its derivative, where the list has ties; see `tied_moments`.

    >>> of = np.array([3]), np.array([3]), np.array([5])
    >>> [x.round(4).tolist() for x in pool_moments(-0.4, *of)]
    [[2.7917], [2.7692]]
    """
    most = int(pool.max(initial=0))
    f, plain, e = log_factorials(theta, most), log_factorials(0.0, most), expected_distances(theta, most)
    r = np.arange(int(listed.max(initial=0)) + 1)[None, :]
    m, k, rest = listed[:, None], cut[:, None], (pool - cut)[:, None]
    possible = (r <= m) & (r <= rest)
    r = np.where(possible, r, 0)
    z = m - r
    within, derivative = (f[m] - f[r] + plain[r], e[m] - e[r]) if lists is None else lists
    constant = overlap_distance(m, k, z)
    log_odds = theta * constant + f[k] - f[z] - f[k - z] + within + plain[rest] - plain[r] - plain[rest - r]
    mean = constant + e[k] - e[z] - e[k - z] + derivative
    log_odds = np.where(possible, log_odds, -np.inf)
    top = log_odds.max(axis=1, initial=-np.inf)
    odds = np.exp(log_odds - top[:, None])
    total = odds.sum(axis=1)
    return top + np.log(total), (odds * mean).sum(axis=1) / total


def solve_theta(expectation: Callable[[float], float], target: float, near: float = 0.0) -> float:
    """Return θ in [LEAST_THETA, 0] at which the expected distance, which increases with θ, equals the target.

    A target at or above the expectation at 0 gives 0 (uniform rankings); one at or below the expectation at the lower
    end gives the lower end. The search starts around `near`.

    >>> round(solve_theta(lambda theta: float(expected_distances(theta, 30)[-1]), 100.0), 6)
    -0.192536
    """
    from scipy.optimize import brentq

    slack = 1e-12 * max(abs(target), 1.0)
    if target >= expectation(0.0) - slack:
        return 0.0
    if target <= expectation(LEAST_THETA) + slack:
        return LEAST_THETA
    low, high = max(2.0 * near, LEAST_THETA), 0.5 * near
    if near >= 0.0 or not expectation(low) < target < expectation(high):
        low, high = LEAST_THETA, 0.0
    return float(brentq(lambda theta: expectation(theta) - target, low, high, xtol=1e-13, rtol=1e-14))


def mean_positions(theta: float, n: int) -> Floats:
    """Return the expected position, in a ranking drawn from a Mallows model, of the items at places 1..n of its centre.

    With h places between them the upper of two items comes first with probability (h + 1) / (1 − q^(h + 1)) −
    h / (1 − q^h).

    >>> mean_positions(-1.0, 3).round(4).tolist()
    [1.4248, 2.0, 2.5752]
    """
    if n < 2:
        return np.ones(n)
    j = np.arange(n + 1, dtype=np.float64)
    # j / (1 − q^j) = j + j q^j / (1 − q^j); the pole at 0 cancels in the difference.
    t = j + j * regular(-theta * j)
    behind = 1.0 - np.diff(t)[1:]  # the probability that the upper of two items at distance 1, 2, ... comes second
    lost = np.concatenate([[0.0], np.cumsum(behind)])
    place = np.arange(n)
    out: Floats = 1.0 + place - lost[place] + lost[n - 1 - place]
    return out


def sample_order(n: int, theta: float, rng: np.random.Generator) -> list[int]:
    """Return one ranking of 0, ..., n − 1 around the identity, best first, drawn exactly.

    Independent V_j on {0, ..., n − j} with weights exp(θ v): the next item is the V_j-th of those that remain.
    """
    u = rng.random(n)
    left = np.arange(n, 0, -1)  # the number of items that remain before each draw
    if theta == 0:
        draws = np.floor(u * left)
    else:
        # The inverse of the distribution function of the truncated geometric distribution.
        draws = np.floor(np.log1p(u * np.expm1(theta * left)) / theta)
    remaining = list(range(n))
    return [remaining.pop(v) for v in np.minimum(draws, left - 1).astype(np.int64).tolist()]
