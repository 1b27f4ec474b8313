"""Quasi-variances against exact cases, a general optimiser and contrasts drawn at random."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import concordant as cc
from concordant.data.index import Slots, Texts
from concordant.errors import DataError


def board(covariance: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> cc.Consensus:
    m = len(covariance)
    slots = Slots(Texts(["q"]), Texts([f"i{n}" for n in range(m)]), np.array([0, m]))
    return cc.Consensus.from_codes(
        slots, np.arange(m, dtype=np.float64), stderr=np.sqrt(np.diag(covariance)), covariance=(covariance,)
    )


def random_covariance(seed: int, m: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    root = np.random.default_rng(seed).normal(size=(m, m + 3))
    out: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = root @ root.T
    return out


def test_independent_scores_have_their_own_variances_whatever_the_reference() -> None:
    variance = np.array([0.5, 1.0, 2.0, 0.1, 0.7])
    centre = np.eye(5) - 0.2
    for covariance in (np.diag(variance), centre @ np.diag(variance) @ centre):
        found = cc.quasi_variances(board(covariance))
        np.testing.assert_allclose(found.variance, variance, rtol=1e-9)
        assert max(map(abs, (*found.worst, *found.worst_contrast))) < 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_three_items_are_exact(seed: int) -> None:
    covariance = random_covariance(seed, 3)
    found = cc.quasi_variances(board(covariance))
    for i in range(3):
        for j in range(i):
            exact = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
            assert found.variance[i] + found.variance[j] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_minimum_and_worst_errors(seed: int) -> None:
    m = 6
    covariance = random_covariance(seed, m)
    found = cc.quasi_variances(board(covariance))
    i, j = np.triu_indices(m, 1)
    exact = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]

    def loss(q: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        total = q[i] + q[j]
        return float(((np.log(total) - np.log(exact)) ** 2).sum()) if (total > 0).all() else 1e9

    start = np.maximum(np.diag(covariance), 0.1)
    best = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 40_000, "xatol": 1e-10, "fatol": 1e-14})
    assert loss(found.variance) <= best.fun + 1e-9
    errors = np.sqrt((found.variance[i] + found.variance[j]) / exact) - 1
    assert found.worst == pytest.approx((errors.min(), errors.max()))
    # No contrast is worse than the worst, and some random one comes near.
    c = np.random.default_rng(seed).normal(size=(20_000, m))
    c -= c.mean(axis=1, keepdims=True)
    ratio = (c**2 @ found.variance) / np.einsum("ni,ij,nj->n", c, covariance, c)
    seen = np.sqrt(np.maximum(ratio, 0.0)) - 1
    assert found.worst_contrast[0] <= seen.min() + 1e-9
    assert found.worst_contrast[1] >= seen.max() - 1e-9
    assert found.worst_contrast[0] <= found.worst[0]
    assert found.worst_contrast[1] >= found.worst[1]


def test_they_do_not_depend_on_the_anchor_and_come_as_a_frame() -> None:
    votes = cc.synthetic.bradley_terry((1.0, 0.5, 0.0, -0.5, -1.0), 300, random_state=1).comparisons
    free = cc.quasi_variances(cc.BradleyTerry().fit_predict(votes))
    anchored = cc.quasi_variances(cc.BradleyTerry(anchor=free.items[2]).fit_predict(votes))
    np.testing.assert_allclose(anchored.variance, free.variance, rtol=1e-7)
    assert free.worst[1] < 0.1
    assert free.to_frame().columns == ["item", "score", "quasi_variance", "quasi_stderr"]
    lists = cc.synthetic.plackett_luce(5, 40, random_state=1).preferences
    assert np.isfinite(cc.quasi_variances(cc.PlackettLuce().fit_predict(lists)).stderr).all()


def test_a_negative_quasi_variance_has_no_standard_error() -> None:
    # Both differences from the third item vary less than a sum of variances would allow.
    found = cc.quasi_variances(board(np.array([[4.0, -3.9, 0.0], [-3.9, 4.0, 0.0], [0.0, 0.0, 0.01]])))
    assert found.variance.min() < 0
    assert np.isnan(found.stderr[int(np.argmin(found.variance))])


def test_refusals() -> None:
    with pytest.raises(DataError, match="has no covariance of the scores of instance 'q'"):
        cc.quasi_variances(cc.Consensus(["q"] * 3, list("abc"), [1, 2, 3], stderr=[1, 1, 1]))
    with pytest.raises(DataError, match="need 3 to 3,000 items"):
        cc.quasi_variances(board(np.eye(2)))
    two = cc.concat([board(np.eye(3)), cc.Consensus(["r"], ["a"], [1.0])])
    with pytest.raises(DataError, match="name one"):
        cc.quasi_variances(two)
