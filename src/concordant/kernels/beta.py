"""Logarithm of the beta distribution function, for p-values far below the smallest float."""

from __future__ import annotations

import numpy as np

from concordant.arrays import Floats

__all__ = ["log_beta_cdf"]

# Below this a probability loses digits or underflows.
_TINY = 1e-280


def log_beta_cdf(x: Floats, a: Floats, b: Floats) -> Floats:
    """Return ln P(B <= x) for B ~ Beta(a, b), 0 < x < 1, also where the probability underflows.

    Where it does, P = x^a (1 - x)^b / (a B(a, b)) * (1 + sum over n of t_n), t_n = t_(n-1) * x (a + b + n - 1) / (a +
    n), all terms positive. A probability that small means that x is far below a / (a + b), where the terms fall fast.

    >>> float(log_beta_cdf(np.array([0.5]), np.array([1.0]), np.array([1.0]))[0]) == float(np.log(0.5))
    True
    >>> round(float(log_beta_cdf(np.array([1e-10]), np.array([100.0]), np.array([1.0]))[0] / np.log(10)), 6)
    -1000.0
    """
    from scipy.special import betainc, betaln

    p = betainc(a, b, x)
    small = p < _TINY
    out: Floats = np.log(np.where(small, 1.0, p))
    if small.any():
        x, a, b = x[small], a[small], b[small]
        total = np.ones(len(x))
        term = np.ones(len(x))
        n = 1
        while (term > 1e-17 * total).any():
            term = term * (x * (a + b + (n - 1)) / (a + n))
            total += term
            n += 1
        out[small] = a * np.log(x) + b * np.log1p(-x) - np.log(a) - betaln(a, b) + np.log(total)
    return out
