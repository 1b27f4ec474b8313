"""Logarithms of beta probabilities against exact binomial sums."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concordant.kernels.beta import log_beta_cdf


def exact(x: float, a: int, b: int) -> float:
    """Return ln P(Beta(a, b) <= x) for whole a and b: at least a of a + b - 1 coins of chance x come up."""
    n = a + b - 1
    f = Fraction(x)
    total = sum(math.comb(n, k) * f**k * (1 - f) ** (n - k) for k in range(a, n + 1))
    if 2 * total > 1:
        return math.log1p(-float(1 - total))
    return math.log(total.numerator) - math.log(total.denominator)


@given(st.sampled_from([0.001, 0.1, 0.5, 0.9, 2.0**-40]), st.integers(1, 40), st.integers(1, 40))
def test_log_beta_cdf(x: float, a: int, b: int) -> None:
    got = log_beta_cdf(np.array([x]), np.array([float(a)]), np.array([float(b)]))[0]
    assert got == pytest.approx(exact(x, a, b), rel=1e-10, abs=1e-13)


def test_where_the_probability_itself_vanishes() -> None:
    x, a, b = np.array([2.0**-12, 2.0**-10]), np.array([150.0, 200.0]), np.array([60.0, 1.0])
    want = [exact(float(u), int(v), int(w)) for u, v, w in zip(x, a, b, strict=True)]
    assert all(w < -700 for w in want)
    np.testing.assert_allclose(log_beta_cdf(x, a, b), want, rtol=1e-11)
