"""Sums over pairs of graded rows against all pairs written out, across tiles, far apart, and in company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from concordant.arrays import Floats
from concordant.kernels import pairwise_losses
from concordant.kernels.graded_lists import GradedLists
from concordant.kernels.pairwise_losses import DAVIDSON, LOGISTIC, RAO_KUPPER

MODELS = [LOGISTIC, RAO_KUPPER, DAVIDSON]


def run(kernel: Any, score: Floats, lists: GradedLists, model: int = LOGISTIC, extra: float = 0.0) -> list[Floats]:
    """Return the slope by row, the value and the slope by the extra parameter by list."""
    slope = np.full(len(score), np.nan)
    value, by_extra = np.full((2, len(lists.offsets) - 1), np.nan)
    if kernel is pairwise_losses.pairs:
        kernel(score, lists.mark, lists.offsets, model, extra, slope, value, by_extra)
    else:
        by = lists.level if kernel is pairwise_losses.hinge else lists.mark
        kernel(score, by, lists.offsets, slope, value)
        by_extra[:] = 0.0
    return [slope, value, by_extra]


def dense(score: Floats, label: Floats, model: int, extra: float) -> tuple[Floats, float, float]:
    """Return the same of one list by a table of all pairs, from the chances of the models."""
    n = len(score)
    delta = score[:, None] - score[None, :]
    win = label[:, None] > label[None, :]
    tie = (label[:, None] == label[None, :]) & (np.arange(n)[:, None] < np.arange(n)[None, :])
    theta = 1.0 + np.exp(extra) if model == RAO_KUPPER else 1.0
    if model == DAVIDSON:
        logits = np.stack([delta / 2, -delta / 2, np.full_like(delta, extra)])
        norm = np.logaddexp.reduce(logits)
        p_win, p_loss, p_tie = np.exp(logits - norm)
        value = np.where(win, norm - delta / 2, 0) + np.where(tie, norm - extra, 0)
        by_delta = np.where(win, -p_loss - p_tie / 2, 0) + np.where(tie, (p_win - p_loss) / 2, 0)
        by_extra = np.where(win, p_tie, 0) - np.where(tie, 1 - p_tie, 0)
    else:
        u, v = np.log(theta) - delta, np.log(theta) + delta
        lost, other = 1 / (1 + np.exp(-u)), 1 / (1 + np.exp(-v))
        value = np.where(win, np.logaddexp(0, u), 0)
        by_delta = np.where(win, -lost, 0)
        by_extra = np.zeros_like(delta)
        if model == RAO_KUPPER:
            grown = 1 - 1 / theta
            value += np.where(tie, np.logaddexp(0, u) + np.logaddexp(0, v) - np.log(theta**2 - 1), 0)
            by_delta += np.where(tie, other - lost, 0)
            by_extra += np.where(win, grown * lost, 0)
            by_extra += np.where(tie, grown * (lost + other) - 2 * theta**2 * grown / (theta**2 - 1), 0)
    return by_delta.sum(1) - by_delta.sum(0), float(value.sum()), float(by_extra.sum())


def graded(rng: np.random.Generator, sizes: list[int], levels: int) -> GradedLists:
    label = [np.sort(rng.integers(0, levels, n))[::-1] for n in sizes]
    return GradedLists.of(np.concatenate(label).astype(np.float64), np.cumsum([0, *sizes], dtype=np.int64))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("levels", [2, 5, 400])
@pytest.mark.parametrize("n", [511, 1300])
def test_pairs_across_tiles_equal_a_table_of_all_pairs(model: int, levels: int, n: int) -> None:
    rng = np.random.default_rng(n + levels)
    lists = graded(rng, [n], levels)
    score = rng.normal(size=n) * 3
    slope, value, by_extra = run(pairwise_losses.pairs, score, lists, model, 0.4)
    expected = dense(score, lists.label, model, 0.4)
    np.testing.assert_allclose(slope, expected[0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(value[0], expected[1], rtol=1e-12)
    np.testing.assert_allclose(by_extra[0], expected[2], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("reach", [60.0, 250.0, 330.0, 345.0])
def test_products_never_overflow_up_to_the_end_of_the_common_exponent(model: int, reach: float) -> None:
    rng = np.random.default_rng(5)
    lists = graded(rng, [90], 4)
    # The worst order there is: what should win is far below.
    score = np.linspace(0.0, reach, 90) + rng.normal(size=90) * 0.1
    slope, value, by_extra = run(pairwise_losses.pairs, score, lists, model, -1.3)
    expected = dense(score, lists.label, model, -1.3)
    np.testing.assert_allclose(slope, expected[0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(value[0], expected[1], rtol=1e-12)
    np.testing.assert_allclose(by_extra[0], expected[2], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("extra", [-20.0, -0.7, 0.0, 3.0, 20.0])
def test_shared_powers_and_powers_of_each_pair_agree(model: int, extra: float) -> None:
    rng = np.random.default_rng(8)
    label = np.sort(rng.integers(0, 3, 12))[::-1]
    score = rng.normal(size=12) * 5
    lists = GradedLists.of(label.astype(np.float64), np.array([0, 12]))
    slope, value, by_extra = run(pairwise_losses.pairs, score, lists, model, extra)
    far, cost, own = np.zeros(12), 0.0, 0.0
    for j in range(12):
        for i in range(j):
            if label[i] == label[j] and model == LOGISTIC:
                continue
            one, by_delta, by = pairwise_losses._far(score[i] - score[j], bool(label[i] == label[j]), model, extra)
            cost, own = cost + one, own + by
            far[i] += by_delta
            far[j] -= by_delta
    np.testing.assert_allclose(value[0], cost, rtol=1e-13)
    np.testing.assert_allclose(slope, far, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(by_extra[0], own, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("lowest", [-150.0, -1000.0])
def test_small_losses_keep_all_their_digits(model: int, lowest: float) -> None:
    # With and without a common exponent.
    lists = GradedLists.of(np.array([2.0, 1.0, 0.0]), np.array([0, 3]))
    for gap in (20.0, 60.0, 100.0):
        _, value, _ = run(pairwise_losses.pairs, np.array([gap, 0.0, lowest]), lists, model, -30.0)
        delta = np.array([gap, -lowest, gap - lowest])
        y = np.exp(-delta) + (np.exp(-30.0 - delta / 2) if model == DAVIDSON else 0.0)
        np.testing.assert_allclose(value[0], np.log1p(y).sum(), rtol=1e-12)


@pytest.mark.parametrize("kernel", [pairwise_losses.pairs, pairwise_losses.hinge, pairwise_losses.squares])
@pytest.mark.parametrize("model", MODELS)
def test_a_list_gives_the_same_bits_alone_and_in_company(kernel: Any, model: int) -> None:
    rng = np.random.default_rng(3)
    sizes = [7, 0, 1, 60, 2, 0, 530, 3, 0]
    lists = graded(rng, sizes, 4)
    score = rng.normal(size=sum(sizes)) * 2
    # One list among them that has no common exponent.
    score[8:20] *= 1e3
    together = run(kernel, score, lists, model, 0.3)
    for n in range(len(sizes)):
        own, rows = lists.take(np.array([n]))
        slope, value, by_extra = run(kernel, score[rows], own, model, 0.3)
        np.testing.assert_array_equal(slope, together[0][rows])
        assert value[0] == together[1][n]
        assert by_extra[0] == together[2][n]
    assert np.isfinite(together[0]).all()


@pytest.mark.parametrize("levels", [2, 3, 8, 50, 3000])
def test_hinge_and_squares_equal_a_table_of_all_pairs(levels: int) -> None:
    rng = np.random.default_rng(levels)
    n = 700
    lists = graded(rng, [n], levels)
    # On a grid of halves many pairs are exactly 1 apart.
    score = rng.integers(-8, 8, n) / 2
    gap = 1.0 - (score[:, None] - score[None, :])
    win = lists.label[:, None] > lists.label[None, :]
    slope, value, _ = run(pairwise_losses.hinge, score, lists)
    pull = (win & (gap > 0)).astype(np.float64)
    assert value[0] == np.where(win, np.maximum(gap, 0), 0).sum()
    np.testing.assert_array_equal(slope, pull.sum(0) - pull.sum(1))
    slope, value, _ = run(pairwise_losses.squares, score, lists)
    pull = 2 * np.where(win, gap, 0)
    np.testing.assert_allclose(value[0], (np.where(win, gap, 0) ** 2).sum(), rtol=1e-12)
    np.testing.assert_allclose(slope, pull.sum(0) - pull.sum(1), rtol=1e-10, atol=1e-9)
