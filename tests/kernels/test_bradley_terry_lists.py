"""Sums over all pairs of lists: the fast sums against loops over the pairs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concordant.aggregators import _bradley_terry_fit
from concordant.kernels import bradley_terry_lists
from concordant.kernels.bradley_terry import DAVIDSON, PLAIN, Shared
from concordant.kernels.lists import offsets_of
from concordant.kernels.pair_counts import count_list_pairs


def some_lists(seed: int, n_instances: int = 1, items: int = 30, most: int = 25) -> tuple[Any, ...]:
    """Return values, slots, offsets, starts, weights and slot offsets of lists with ties, one list of weight 0."""
    rng = np.random.default_rng(seed)
    rows, lengths, numbers = [], [], []
    for n in range(n_instances):
        k = int(rng.integers(1, 6))
        numbers.append(k)
        for _ in range(k):
            m = int(rng.integers(0, most + 1))
            lengths.append(m)
            rows.append(n * items + rng.choice(items, m, replace=False))
    slot = np.concatenate(rows).astype(np.int32)
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], len(lengths))
    value = rng.integers(1, 15, len(slot)).astype(np.float64)
    return (
        value,
        slot,
        offsets_of(np.array(lengths)),
        offsets_of(np.array(numbers)),
        weight,
        items * np.arange(n_instances + 1),
    )


def by_pairs(columns: tuple[Any, ...], score: Any, worth: float, x: Any) -> tuple[Any, ...]:
    """Return the sums of `PairSums`, and the products with the curvature, from a loop over all pairs."""
    _, slot, list_offsets, _, weight, _ = columns
    sums, along, times = np.zeros(3), np.zeros((3, len(score))), np.zeros(len(score))
    for k, w in enumerate(weight):
        for a, b in combinations(range(list_offsets[k], list_offsets[k + 1]), 2):
            for i, j in ((slot[a], slot[b]), (slot[b], slot[a])):
                d = score[i] - score[j]
                parts = np.exp(np.array([d / 2, -d / 2, -np.inf if worth == 0 else np.log(worth)]))
                p, q, r = parts / parts.sum()
                curvature = (p + q - (p - q) ** 2) / 4
                sums += 0.5 * w * np.array([np.log(parts.sum()), r, r * (1 - r)])
                along[:, i] += w * np.array([(p - q) / 2, curvature, -(p - q) * r / 2])
                times[i] += w * curvature * x[j]
    return sums, along, times


@pytest.mark.parametrize("cell_cost", [0, 10**6])
@settings(max_examples=15)
@given(
    seed=st.integers(0, 10**6), spread=st.sampled_from([0.0, 0.3, 4.0, 40.0]), tie=st.sampled_from([-np.inf, -3.0, 2.0])
)
def test_sums_are_those_over_all_pairs(cell_cost: int, seed: int, spread: float, tie: float) -> None:
    columns = some_lists(seed)
    rng = np.random.default_rng(seed)
    score, x, worth = spread * rng.normal(size=30), rng.normal(size=30), float(np.exp(tie))
    lists = bradley_terry_lists.list_pairs(*columns)
    grid = bradley_terry_lists.score_grid(score, worth)
    found = bradley_terry_lists.pair_sums(lists, score, worth, grid, cell_cost)
    product = bradley_terry_lists.curvature_times(lists, score, worth, grid, x, cell_cost)
    sums, along, times = by_pairs(columns, score, worth, x)
    size = max(float(lists.outcomes[0]), 1.0)
    np.testing.assert_allclose(found[:3], sums, rtol=1e-12, atol=1e-13 * size)
    np.testing.assert_allclose(found[3:], along, rtol=1e-12, atol=1e-13 * size)
    np.testing.assert_allclose(product, times, rtol=1e-12, atol=1e-13 * size)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15)
def test_counts_are_those_of_the_pairs(seed: int) -> None:
    columns = some_lists(seed, 3)
    lists = bradley_terry_lists.list_pairs(*columns)
    pairs = count_list_pairs(*columns, binary=True, ties=True)
    n = pairs.n_slots
    net = np.bincount(pairs.left, pairs.n_left - pairs.n_right, n) - np.bincount(
        pairs.right, pairs.n_left - pairs.n_right, n
    )
    each = np.bincount(pairs.left, pairs.outcomes, n) + np.bincount(pairs.right, pairs.outcomes, n)
    np.testing.assert_allclose(lists.net, net, atol=1e-12)
    np.testing.assert_allclose(lists.item_outcomes, each, atol=1e-12)
    for k in range(3):
        own = slice(pairs.starts[k], pairs.starts[k + 1])
        assert lists.n_ties[k] == pytest.approx(pairs.n_ties[own].sum())
        assert lists.window(k).outcomes[0] == pytest.approx(pairs.outcomes[own].sum())


@pytest.mark.parametrize("model", [PLAIN, DAVIDSON])
def test_solutions_are_those_of_the_pair_counts(model: int) -> None:
    value, *rest = some_lists(5, 4, items=40, most=40)
    if model == PLAIN:
        value = np.random.default_rng(1).permutation(len(value)).astype(np.float64)
    lists = bradley_terry_lists.list_pairs(value, *rest)
    pairs = count_list_pairs(value, *rest, binary=True, ties=True)
    prior, start = np.array([0.1, 0.5, 1.0, 2.0]), Shared(model, -0.5 if model else 0.0)
    one, other = (_bradley_terry_fit.solve(p, prior, start) for p in (lists, pairs))
    np.testing.assert_allclose(one.score, other.score, atol=1e-9)
    assert one.objective == pytest.approx(other.objective, rel=1e-12)
    assert one.converged
    if model == DAVIDSON:
        one, other = (_bradley_terry_fit.solve_jointly(p, prior, start, tie=True, side=False) for p in (lists, pairs))
        np.testing.assert_allclose(one.score, other.score, atol=1e-9)
        np.testing.assert_allclose(one.response, other.response, atol=1e-7)
        assert one.shared.tie == pytest.approx(other.shared.tie, abs=1e-10)
        assert one.information == pytest.approx(other.information, rel=1e-7)
        at = Shared(DAVIDSON, -1.0)
        learned, how = np.array([0]), {"tol": 1e-9, "max_iter": 50, "start": np.zeros(160)}
        found, known = (_bradley_terry_fit.profile(p, prior, at, learned, **how) for p in (lists, pairs))
        assert found.value == pytest.approx(known.value, rel=1e-12)
        assert found.gradient == pytest.approx(known.gradient, rel=1e-9)
        assert found.information == pytest.approx(known.information, rel=1e-7)
