"""Cross-entropy over sparse rows: the loss by its definition, its derivatives by differences."""

from __future__ import annotations

import numpy as np
import pytest

from concordant.kernels.lists import offsets_of
from concordant.kernels.listwise import cross_entropy, hessian, spreads

# Two instances of 3 and 2 slots, and one without rows; slot 2 takes no part, and slot 3 has two rows of one block.
OFFSETS = np.array([0, 3, 5, 6])
LENGTHS = [2, 1, 2, 3, 1, 0]
BLOCK = np.array([0, 2, 1, 0, 1, 0, 2, 2, 1], dtype=np.int32)
TARGET = np.array([0.75, 0.25, np.nan, 0.4, 0.6, 1.0])
STARTS = offsets_of(np.array(LENGTHS))
X = np.random.default_rng(7).normal(size=(9, 2))
W = np.random.default_rng(8).normal(size=(3, 2))
ALL = np.array([0, 1, 2])


def dense() -> np.ndarray:
    """Return slots × (blocks · d)."""
    out = np.zeros((6, 3, 2))
    for slot in range(6):
        for r in range(STARTS[slot], STARTS[slot + 1]):
            out[slot, BLOCK[r]] += X[r]
    return out.reshape(6, 6)


def loss(w: np.ndarray, instances: np.ndarray = ALL) -> tuple[float, np.ndarray]:
    gradient = np.zeros_like(w)
    value = cross_entropy(OFFSETS, STARTS, BLOCK, X, w, TARGET, instances, gradient)
    return value, gradient


def test_loss_is_that_of_the_softmax() -> None:
    want = 0.0
    table = dense() @ W.ravel()
    for slots in ([0, 1], [3, 4], [5]):
        s, t = table[slots], TARGET[slots]
        want -= float(t @ (s - np.log(np.exp(s).sum())))
    assert loss(W)[0] == pytest.approx(want, abs=1e-12)


def test_loss_survives_large_scores() -> None:
    value, gradient = loss(W * 1e4)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_gradient_is_that_of_differences() -> None:
    _, gradient = loss(W)
    step = 1e-6
    for i in range(W.size):
        move = np.zeros(W.size)
        move[i] = step
        up, down = (loss(W + sign * move.reshape(W.shape))[0] for sign in (1, -1))
        assert gradient.ravel()[i] == pytest.approx((up - down) / (2 * step), abs=1e-8)


def test_curvature_is_that_of_differences() -> None:
    got = np.zeros((6, 6))
    hessian(OFFSETS, STARTS, BLOCK, X, W, TARGET, ALL, got)
    step = 1e-6
    for i in range(W.size):
        move = np.zeros(W.size)
        move[i] = step
        up, down = (loss(W + sign * move.reshape(W.shape))[1].ravel() for sign in (1, -1))
        np.testing.assert_allclose(got[i], (up - down) / (2 * step), atol=1e-8)
    np.testing.assert_array_equal(got, got.T)


def test_only_the_given_instances_count() -> None:
    whole, first = loss(W), loss(W, np.array([0]))
    rest = loss(W, np.array([2, 1]))
    assert whole[0] == pytest.approx(first[0] + rest[0], abs=1e-12)
    np.testing.assert_allclose(whole[1], first[1] + rest[1], atol=1e-12)


def test_spread_is_the_variance_within_instances() -> None:
    got = np.zeros((3, 2))
    spreads(OFFSETS, STARTS, BLOCK, X, np.array([0, 1]), got)
    table = dense()
    centred = np.concatenate([table[a:b] - table[a:b].mean(axis=0) for a, b in ((0, 3), (3, 5))])
    np.testing.assert_allclose(got.ravel(), (centred**2).mean(axis=0), atol=1e-12)
