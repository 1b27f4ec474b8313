"""Completion of skew-symmetric tables against dense decompositions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import svp as oracle

from concordant.arrays import read_only
from concordant.kernels import skew_newton, svp


def problem(seed: int, n: int, density: float, noise: float) -> tuple[Any, Any]:
    """Return margins and the pairs observed, all items connected."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(size=n)
    margin = strength[:, None] - strength[None, :] + noise * rng.normal(size=(n, n))
    seen = rng.random((n, n)) < density
    seen[np.arange(n - 1), np.arange(1, n)] = True
    seen = np.triu(seen, 1)
    margin = np.where(seen, margin, 0.0)
    return margin - margin.T, seen | seen.T


def pairs_of(margin: Any, observed: Any) -> tuple[Any, Any, Any]:
    first, second = np.nonzero(np.triu(observed, 1))
    return first.astype(np.int32), second.astype(np.int32), margin[first, second]


def table(left: Any, right: Any) -> Any:
    return left.T @ right - right.T @ left


@pytest.mark.parametrize("rank", [2, 4])
@pytest.mark.parametrize(("n", "density", "noise"), [(3, 1.0, 0.5), (12, 0.6, 0.4), (40, 0.4, 1.0), (90, 0.2, 0.3)])
def test_every_step_is_the_best_approximation(n: int, density: float, noise: float, rank: int) -> None:
    margin, observed = problem(n, n, density, noise)
    for steps in (1, 2, 7):
        left, right, done, *_ = svp.complete(*pairs_of(margin, observed), n, rank // 2, 0.9, steps, 0.0)
        want, _ = oracle.complete(margin, observed, rank, 0.9, steps, 0.0)
        if done == steps:
            np.testing.assert_allclose(table(left, right), want, rtol=0, atol=1e-10 * np.abs(want).max())


@pytest.mark.parametrize("seed", range(4))
def test_it_stops_where_the_residual_settles(seed: int) -> None:
    margin, observed = problem(seed, 25, 0.5, 0.5)
    left, right, steps, change, residual, gradient = svp.complete(*pairs_of(margin, observed), 25, 1, 1.0, 500, 1e-6)
    want, want_steps = oracle.complete(margin, observed)
    x = table(left, right)
    assert steps == want_steps
    assert change <= 1e-6
    np.testing.assert_allclose(x, want, rtol=0, atol=1e-9 * np.abs(want).max())
    assert residual == pytest.approx(np.linalg.norm((x - margin)[observed]), rel=1e-12)
    assert gradient == pytest.approx(oracle.slope(x, margin, observed, 2), rel=1e-6)


def test_what_is_left_at_the_end_is_a_stationary_point() -> None:
    margin, observed = problem(5, 15, 0.7, 0.5)
    left, right, _, _, _, gradient = svp.complete(*pairs_of(margin, observed), 15, 1, 1.0, 20_000, 0.0)
    assert gradient < 1e-8
    # Moving a vector of the table in any direction does not lower the residual: finite differences of the objective.
    rng = np.random.default_rng(0)
    for _ in range(5):
        a, b = rng.normal(size=left.shape), rng.normal(size=right.shape)

        def objective(t: float, a: Any = a, b: Any = b) -> float:
            return float(((table(left + t * a, right + t * b) - margin)[observed] ** 2).sum())

        assert abs(objective(1e-5) - objective(-1e-5)) / 2e-5 < 1e-6 * objective(0.0)


@given(st.integers(0, 10_000), st.integers(2, 9), st.sampled_from([0.3, 0.7, 1.0]))
def test_the_order_of_items_and_pairs_does_not_matter(seed: int, n: int, density: float) -> None:
    margin, observed = problem(seed, n, density, 0.5)
    rng = np.random.default_rng(seed)
    to = rng.permutation(n)
    first, second, value = pairs_of(margin, observed)
    low, high = np.minimum(to[first], to[second]), np.maximum(to[first], to[second])
    mixed = rng.permutation(len(first))
    sign = np.where(to[first] < to[second], 1.0, -1.0)
    one = svp.complete(first, second, value, n, 1, 1.0, 60, 1e-6)
    other = svp.complete(
        low[mixed].astype(np.int32), high[mixed].astype(np.int32), (sign * value)[mixed], n, 1, 1.0, 60, 1e-6
    )
    x = table(*one[:2])
    np.testing.assert_allclose(table(*other[:2])[np.ix_(to, to)], x, rtol=0, atol=1e-9 * np.abs(x).max())


@pytest.mark.parametrize("seed", range(4))
def test_long_steps_end_where_short_ones_do(seed: int) -> None:
    margin, observed = problem(seed, 40, 0.35, 0.4)
    short = svp.complete(*pairs_of(margin, observed), 40, 1, 1.0, 20_000, 1e-12)
    long = svp.complete(*pairs_of(margin, observed), 40, 1, 0.0, 20_000, 1e-12)
    x = table(*short[:2])
    np.testing.assert_allclose(table(*long[:2]), x, rtol=0, atol=1e-5 * np.abs(x).max())
    assert long[2] < short[2]


@pytest.mark.parametrize("seed", range(6))
def test_newton_ends_where_the_steps_do(seed: int) -> None:
    margin, observed = problem(seed, 30, 0.5, 0.5)
    pairs = pairs_of(margin, observed)
    want, _ = oracle.complete(margin, observed, max_iter=20_000, tol=1e-14)
    left, right, *_ = svp.complete(*pairs, 30, 1, 1.0, 1, 0.0)
    n_iter, change = skew_newton.refine(*pairs, left[0], right[0], 50, 1e-12)
    assert n_iter < 15
    assert change <= 1e-12
    assert abs(left[0] @ right[0]) <= 1e-9 * np.abs(want).max()
    np.testing.assert_allclose(table(left, right), want, rtol=0, atol=1e-5 * np.abs(want).max())


def test_many_pairs_need_few_steps() -> None:
    # Noisy margins of two leagues that few games connect: steps alone stop at their limit, far from the minimum.
    n, rng = 2000, np.random.default_rng(2)
    first, second = np.nonzero(np.triu(np.ones((n, n), dtype=bool), 1))
    kept = ((first < 1000) == (second < 1000)) | (rng.random(len(first)) < 0.0001)
    first, second = first[kept].astype(np.int32), second[kept].astype(np.int32)
    strength = rng.normal(size=n)
    value = strength[first] - strength[second] + 0.3 * rng.normal(size=len(first))
    left, right, steps, change, residual, gradient = svp.complete(first, second, value, n, 1, 1.0, 60, 1e-6)
    assert change <= 1e-6
    assert steps < 30
    assert gradient < 1e-4
    assert residual < np.sqrt(2 * len(value)) * 0.3
    score = (left.T @ right.sum(axis=1) - right.T @ left.sum(axis=1)) / n
    np.testing.assert_allclose(score, strength - strength.mean(), atol=0.1)


def test_equal_singular_values_are_told_apart_by_the_ones() -> None:
    # Two pairs a > b and c > d of equal strength, held together by a tie: any plane would do for a decomposition.
    first, second = np.array([0, 2, 0], np.int32), np.array([1, 3, 2], np.int32)
    left, right, *_ = svp.complete(first, second, np.array([1.0, 1.0, 0.0]), 4, 1, 1.0, 1, 0.0)
    np.testing.assert_allclose(table(left, right).sum(axis=1), [1, -1, 1, -1], atol=1e-12)


def test_many_items_keep_to_vectors() -> None:
    n = 3000
    rng = np.random.default_rng(1)
    strength = rng.normal(size=n)
    first = np.concatenate([np.arange(n - 1), rng.integers(0, n - 1, 60_000)])
    second = np.concatenate([np.arange(1, n), rng.integers(1, n, 60_000)])
    low, high = np.minimum(first, second), np.maximum(first, second)
    key = np.unique((low * n + high)[low < high])
    low, high = (key // n).astype(np.int32), (key % n).astype(np.int32)
    left, right, steps, *_ = svp.complete(low, high, strength[low] - strength[high], n, 1, 0.0, 200, 1e-9)
    score = (left.T @ right.sum(axis=1) - right.T @ left.sum(axis=1)) / n
    assert left.shape == (1, n)
    assert steps < 100
    np.testing.assert_allclose(score, strength - strength.mean(), atol=1e-6)


@given(st.integers(0, 10_000), st.booleans(), st.booleans(), st.sampled_from([0.0, 2.0]))
def test_margin_table_adds_up_lists(seed: int, binary: bool, average: bool, least: float) -> None:
    rng = np.random.default_rng(seed)
    n, n_lists = int(rng.integers(1, 8)), int(rng.integers(0, 6))
    lists = [rng.permutation(n)[: rng.integers(1, n + 1)] for _ in range(n_lists)]
    x = [rng.integers(0, 4, len(items)).astype(float) for items in lists]
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], n_lists)
    total, count = np.zeros((n, n)), np.zeros((n, n))
    for items, values, w in zip(lists, x, weight, strict=True):
        for a, i in enumerate(items):
            for b, j in enumerate(items):
                if i != j:
                    gap = values[b] - values[a]
                    total[i, j] += w * (np.sign(gap) if binary else gap)
                    count[i, j] += w
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    flat = np.concatenate([np.zeros(0, np.int64), *lists]).astype(np.int32)
    first, second, value = svp.margin_table(
        offsets, flat, *read_only(np.concatenate([np.zeros(0), *x]), weight), n, binary, average, least
    )
    got = {(i, j): v for i, j, v in zip(first.tolist(), second.tolist(), value.tolist(), strict=True)}
    want = {
        (i, j): total[i, j] / (count[i, j] if average else 1.0)
        for i in range(n)
        for j in range(i + 1, n)
        if count[i, j] > 0 and count[i, j] >= least
    }
    assert got == pytest.approx(want, abs=1e-12)
