"""Votes with covariates: sums over rows against plain loops, and units of columns against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from concordant.kernels.bradley_terry import DAVIDSON, PLAIN, RAO_KUPPER, _terms
from concordant.kernels.bradley_terry_votes import evaluate_votes, root_mean_squares


@pytest.mark.parametrize("sided", [False, True])
@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 200])
@pytest.mark.parametrize("model", [PLAIN, DAVIDSON, RAO_KUPPER])
def test_sums_over_rows_are_those_of_a_plain_loop(model: int, n: int, sided: bool) -> None:
    rng = np.random.default_rng(n)
    m, d, tie = 5, 3, 0.4
    left = rng.integers(0, m, n).astype(np.int32)
    right = ((left + rng.integers(1, m, n)) % m).astype(np.int32)
    # Neighbours of one pair, single votes and counts of any size, and logits far out.
    left[n // 2 :], right[n // 2 :] = np.sort(left[n // 2 :]), m
    m += 1
    counts = rng.integers(0, 2, (3, n)) * np.where(rng.random((3, n)) < 0.7, 1.0, 2.5)
    counts[2] *= model != PLAIN
    x, offset = rng.normal(0.0, 3.0, (n, d)), rng.normal(0.0, 9.0, n)
    pair = (np.minimum(left, right) * m + np.maximum(left, right)).astype(np.int64)
    x[:, 0] = 1.0
    s, theta = rng.normal(0.0, 2.0, m), np.array([0.3 * sided, 0.7, -0.4])

    sums = np.zeros(m), np.zeros(m * m), np.zeros(1 + d), np.zeros((1 + d, 1 + d)), np.zeros((m, 1 + d))
    value = evaluate_votes((left, right, *counts), x, offset, pair, s, tie, theta, model, sided, *sums)

    gradient, weight, of_shared, information, cross = (np.zeros(table.shape) for table in sums)
    want = 0.0
    for r in range(n):
        along = np.concatenate([[0.0], x[r] * [float(sided), 1.0, 1.0]])
        of_tie = np.eye(1 + d)[0]
        of_items = np.eye(m)[left[r]] - np.eye(m)[right[r]]
        f, g, w, gt, c, h = _terms(of_items @ s + offset[r] + along[1:] @ theta, *counts[:, r], tie, model)
        want += f
        gradient += g * of_items
        weight[pair[r]] += w
        of_shared += gt * of_tie + g * along
        mixed = c * np.outer(of_tie, along)
        information += h * np.outer(of_tie, of_tie) + mixed + mixed.T + w * np.outer(along, along)
        cross += np.outer(of_items, c * of_tie + w * along)
    assert value == pytest.approx(want, rel=1e-12, abs=1e-12)
    for got, expected in zip(sums, (gradient, weight, of_shared, information, cross), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-10)


def test_root_mean_squares_are_those_of_the_rows_that_count() -> None:
    rng = np.random.default_rng(3)
    x, n = rng.normal(size=(50, 4)) * [1.0, 1e200, 1e-200, 0.0], rng.integers(0, 3, 50).astype(float)
    x[n == 0] = 1e300
    largest, over_largest = root_mean_squares(x, n)
    held = x[n > 0] / [1.0, 1e200, 1e-200, 1.0]
    np.testing.assert_array_equal(largest, np.abs(x[n > 0]).max(axis=0))
    want = np.sqrt((n[n > 0] @ held**2) / n.sum())
    np.testing.assert_allclose((largest * over_largest) / [1.0, 1e200, 1e-200, 1.0], want, rtol=1e-13)
    assert not root_mean_squares(x[:0], n[:0])[0].any()
