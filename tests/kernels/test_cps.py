"""Stagewise costs, greedy orders and likelihoods against every completion written out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import cps as oracle

from concordant.kernels import cps

KINDS = list(cps.DISTANCES)


def shared_positions(values: list[int]) -> list[float]:
    """Return the mean places of items with these values, smaller first."""
    return [sum(v < own for v in values) + (sum(v == own for v in values) + 1) / 2 for own in values]


def log_probability(position: Any, theta: Any, order: Sequence[int], distance: int) -> float:
    """Return the logarithm of the probability of a complete order (items, best first)."""
    none = np.zeros(len(theta))
    return cps.tied_likelihood(position, theta, np.argsort(order), distance, none, none.copy())[0]


@st.composite
def tables(draw: Any, n: int = 4) -> tuple[Any, Any]:
    """Return rankings of n items with ties, and weights."""
    lists = draw(st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=1, max_size=3))
    theta = [draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])) for _ in lists]
    return np.array([shared_positions(values) for values in lists]), np.array(theta)


def test_worked_cases(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("19_cps")
    for case in content["cases"]:
        code = cps.DISTANCES[case["name"]]
        position = np.array(case["input"]["sigmas_rank_vectors"], dtype=float)
        theta = np.array(case["input"]["theta"])
        want = case["expected"]
        for order, value in want["logprob_by_order"].items():
            got = log_probability(position, theta, json.loads(order), code)
            assert got == pytest.approx(value, abs=content["abs_tol"])
        assert np.argsort(cps.greedy(position, theta, code)).tolist() == want["greedy_order"]
        means = [oracle.coset(case["name"], [1, 0], row) for row in position]
        assert means == pytest.approx(want["coset_mean_distance_after_prefix_1_0"], abs=content["abs_tol"])


@pytest.mark.parametrize("kind", KINDS)
@given(tables())
@settings(max_examples=15)
def test_probabilities_are_those_of_mean_distances(kind: str, drawn: tuple[Any, Any]) -> None:
    position, theta = drawn
    total = 0.0
    for order in permutations(range(4)):
        got = log_probability(position, theta, order, cps.DISTANCES[kind])
        total += math.exp(got)
        if order[0] == 2:
            assert got == pytest.approx(oracle.log_probability(kind, order, position, theta), abs=1e-9)
    assert total == pytest.approx(1.0, abs=1e-9)


def test_one_ranking_and_kendall_is_mallows() -> None:
    sigma = np.array([[3.0, 1.0, 5.0, 2.0, 4.0]])
    theta = 0.7
    # The normaliser of Mallows' model: prod_j (1 - q^j) / (1 - q).
    q = math.exp(-theta)
    log_z = sum(math.log((1 - q**j) / (1 - q)) for j in range(1, 6))
    for order in permutations(range(5)):
        want = -theta * oracle.distance("kendall", order, sigma[0]) - log_z
        got = log_probability(sigma, np.array([theta]), order, cps.DISTANCES["kendall"])
        assert got == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@given(tables(n=5))
@settings(max_examples=25)
def test_greedy_takes_the_cheapest(kind: str, drawn: tuple[Any, Any]) -> None:
    position, theta = drawn
    place = cps.greedy(position, theta, cps.DISTANCES[kind])
    total = theta @ position
    prefix: list[int] = []
    while len(prefix) < 5:
        cost = oracle.costs(kind, prefix, position, theta)
        cheap = [i for i, c in cost.items() if c <= min(cost.values()) + 1e-9]
        first = [i for i in cheap if total[i] <= min(total[j] for j in cheap) + 1e-9]
        assert np.flatnonzero(place == len(prefix) + 1).tolist() == first
        prefix += first


@pytest.mark.parametrize("kind", KINDS)
def test_an_order_without_ties_has_its_own_likelihood(kind: str) -> None:
    rng = np.random.default_rng(2)
    position = np.stack([rng.permutation(6) + 1.0 for _ in range(3)])
    theta = np.array([0.3, 0.05, 0.0])
    order = rng.permutation(6)
    level = np.empty(6, dtype=np.int64)
    level[order] = np.arange(6)
    code = cps.DISTANCES[kind]
    got, stages = cps.tied_likelihood(position, theta, level, code, np.zeros(3), np.zeros(3))
    # The last item has no choice, and its stage is not counted.
    assert stages == 5
    assert got == pytest.approx(oracle.log_probability(kind, order.tolist(), position, theta), abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [[0, 1, 0, 2, 1, 1], [0, 1, 1, 1, 1, 1], [1, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0]])
def test_slopes_are_those_of_finite_differences(kind: str, level: list[int]) -> None:
    rng = np.random.default_rng(4)
    position = np.stack([rng.permutation(6) + 1.0 for _ in range(3)])
    position[1] = shared_positions([1, 1, 2, 3, 3, 3])
    code, levels = cps.DISTANCES[kind], np.array(level)

    def evaluate(theta: Any) -> tuple[float, Any, Any]:
        slope, curve = np.zeros(3), np.zeros(3)
        value, stages = cps.tied_likelihood(position, theta, levels, code, slope, curve)
        assert stages == sum(v < max(level) for v in level)
        return value, slope, curve

    theta = np.array([0.2, 0.05, 0.1])
    _, slope, curve = evaluate(theta)
    for k in range(3):
        h = 1e-5 * np.eye(3)[k]
        above, below = evaluate(theta + h), evaluate(theta - h)
        assert (above[0] - below[0]) / 2e-5 == pytest.approx(slope[k], rel=1e-6, abs=1e-8)
        assert -(above[1][k] - below[1][k]) / 2e-5 == pytest.approx(curve[k], rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [[0, 1, 0, 2, 1, 1], [0, 0, 1, 1, 1, 0]])
def test_ties_stand_for_the_mean_over_all_orders_within_them(kind: str, level: list[int]) -> None:
    rng = np.random.default_rng(6)
    position = np.stack([rng.permutation(6) + 1.0 for _ in range(3)])
    code, levels = cps.DISTANCES[kind], np.array(level)
    slope = np.zeros(3)
    value, _ = cps.tied_likelihood(position, np.zeros(3), levels, code, slope, np.zeros(3))
    orders = list(oracle.tied_orders(level))
    last = sum(v == max(level) for v in level)
    values, slopes = [], []
    for order in orders:
        # The same order with the last level left as it is: its stages are not counted.
        strict = np.empty(6, dtype=np.int64)
        strict[order] = np.minimum(np.arange(6), 6 - last)
        one = np.zeros(3)
        got, _ = cps.tied_likelihood(position, np.zeros(3), strict, code, one, np.zeros(3))
        values.append(got)
        slopes.append(one)
    assert value == pytest.approx(np.mean(values), abs=1e-9)
    np.testing.assert_allclose(slope, np.mean(slopes, axis=0), atol=1e-9)
