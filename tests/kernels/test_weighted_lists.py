"""Cross-entropy of weighted sums of lists: scores and loss by their definition, derivatives by differences."""

from __future__ import annotations

import numpy as np
import pytest

from concordant.kernels.lists import offsets_of
from concordant.kernels.weighted_lists import cross_entropy, hessian, list_scores

# Instances of 3, 2 and 1 slots, with 3, 2 and 0 lists; slot 2 takes no part. Lists lie in another order than they are
# visited, their rows too.
OFFSETS = np.array([0, 3, 5, 6])
STARTS = np.array([0, 3, 5, 5])
BLOCK = np.array([0, 1, 3, 1, 2], dtype=np.int32)
ROWS = offsets_of(np.array([2, 1, 3, 2, 1]))
FIRST, LAST = ROWS[[1, 0, 2, 4, 3]], ROWS[[2, 1, 3, 5, 4]]
SLOT = np.array([2, 0, 1, 2, 1, 0, 3, 4, 4], dtype=np.int32)
X = np.random.default_rng(7).normal(size=9)
LISTS = OFFSETS, STARTS, BLOCK, FIRST, LAST, SLOT, X
TARGET = np.array([0.75, 0.25, np.nan, 0.4, 0.6, 1.0])
W = np.array([0.7, 1.5, 0.0, -0.4])
ALL = np.array([0, 1, 2])


def dense() -> np.ndarray:
    """Return slots × blocks."""
    out = np.zeros((6, 4))
    for block, first, last in zip(BLOCK, FIRST, LAST, strict=True):
        for row in range(first, last):
            out[SLOT[row], block] += X[row]
    return out


def loss(w: np.ndarray, instances: np.ndarray = ALL) -> tuple[float, np.ndarray, np.ndarray]:
    gradient, share = np.zeros(4), np.full(6, np.nan)
    return cross_entropy(*LISTS, w, TARGET, instances, share, gradient), gradient, share


def test_scores_are_weighted_sums() -> None:
    out = np.full(6, np.nan)
    list_scores(*LISTS, W, np.array([0, 2]), out)
    np.testing.assert_allclose(out[[0, 1, 2, 5]], (dense() @ W)[[0, 1, 2, 5]], atol=1e-15)
    assert np.isnan(out[3:5]).all()


def test_loss_is_that_of_the_softmax() -> None:
    value, _, share = loss(W)
    table, want = dense() @ W, 0.0
    for slots in ([0, 1], [3, 4], [5]):
        p = np.exp(table[slots]) / np.exp(table[slots]).sum()
        want -= float(TARGET[slots] @ np.log(p))
        np.testing.assert_allclose(share[slots], p, atol=1e-15)
    assert share[2] == 0.0
    assert value == pytest.approx(want, abs=1e-12)
    assert np.isfinite(loss(W * 1e4)[0])


@pytest.mark.parametrize("instances", [ALL, np.array([1]), np.array([0, 2])])
def test_derivatives_are_those_of_differences(instances: np.ndarray) -> None:
    _, gradient, share = loss(W, instances)
    bend = np.zeros((4, 4))
    hessian(*LISTS, share, np.ones(4, dtype=bool), instances, bend)
    for i, move in enumerate(1e-6 * np.eye(4)):
        up, down = loss(W + move, instances), loss(W - move, instances)
        assert gradient[i] == pytest.approx((up[0] - down[0]) / 2e-6, abs=1e-8)
        np.testing.assert_allclose(bend[i], (up[1] - down[1]) / 2e-6, atol=1e-8)
    # Some of the blocks only.
    wanted = np.array([True, False, True, True])
    some = np.zeros((4, 4))
    hessian(*LISTS, share, wanted, instances, some)
    np.testing.assert_allclose(some[np.ix_(wanted, wanted)], bend[np.ix_(wanted, wanted)], atol=1e-15)
