"""Rankings of least cost against every permutation, and components against reachability."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concordant.kernels import kemeny

squares = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=n, max_size=n)
)


@given(squares)
def test_subset_dp_keeps_the_cheapest_and_no_order_of_items(table: list[list[int]]) -> None:
    cost = np.array(table, dtype=np.float64)
    n = len(cost)
    every = [(kemeny.ranking_cost(cost, np.array(o)), o) for o in permutations(range(n))]
    smallest = min(c for c, _ in every)
    best = [o for c, o in every if c == smallest]
    key = np.arange(n)[::-1].copy()
    got = kemeny.subset_dp(cost, key)
    assert got.cost == got.bound == smallest
    # Distinct keys leave one ranking: the first of the cheapest in lexicographic order of keys.
    assert tuple(np.argsort(got.position).tolist()) == min(best)
    same = kemeny.subset_dp(cost, np.zeros(n, dtype=np.int64))
    turn = np.roll(np.arange(n), 1)
    turned = kemeny.subset_dp(cost[np.ix_(turn, turn)], np.zeros(n, dtype=np.int64))
    assert turned.position.tolist() == same.position[turn].tolist()
    assert any(all(np.diff(same.position[list(o)]) >= 0) for o in best)


@given(squares)
def test_integer_program_proves_the_cheapest(table: list[list[int]]) -> None:
    cost = np.array(table, dtype=np.float64)
    n = len(cost)
    smallest = min(kemeny.ranking_cost(cost, np.array(o)) for o in permutations(range(n)))
    got = kemeny.integer_program(cost, np.arange(n), np.inf)
    assert got.cost == got.bound == smallest
    assert kemeny.ranking_cost(cost, np.argsort(got.position)) == smallest


def test_integer_program_needs_cuts_and_whole_numbers_for_hard_cases() -> None:
    """A case whose fractional optimum lies below the whole one, so that every stage of the program runs."""
    rng = np.random.default_rng(6)
    for _ in range(3):
        votes = np.array([np.argsort(rng.permutation(9)) for _ in range(3)])
        ahead = (votes[:, :, None] < votes[:, None, :]).sum(axis=0).astype(np.float64)
        got = kemeny.integer_program(ahead.T.copy(), np.arange(9), np.inf)
        want = kemeny.subset_dp(ahead.T.copy(), np.zeros(9, dtype=np.int64))
        assert got.cost == got.bound == want.cost


@pytest.mark.parametrize("unit", [1e-30, 1e-9, 1e30])
def test_integer_program_proves_the_cheapest_in_any_unit(unit: float) -> None:
    """The tolerances of a solver are absolute, the costs of weighted votes are not."""
    for seed in range(6):
        votes = np.array([np.argsort(np.random.default_rng([seed, k]).permutation(11)) for k in range(3)])
        ahead = (votes[:, :, None] < votes[:, None, :]).sum(axis=0).astype(np.float64)
        got = kemeny.integer_program(unit * ahead.T, np.arange(11), np.inf)
        want = kemeny.subset_dp(ahead.T.copy(), np.zeros(11, dtype=np.int64)).cost
        assert got.cost == pytest.approx(unit * want, rel=1e-9, abs=0)
        assert got.bound == pytest.approx(unit * want, rel=1e-5, abs=0)


@given(squares)
def test_local_search_stops_where_no_move_helps(table: list[list[int]]) -> None:
    cost = np.array(table, dtype=np.float64)
    n = len(cost)
    order = kemeny.local_search(cost, np.arange(n))
    value = kemeny.ranking_cost(cost, order)
    assert value <= kemeny.ranking_cost(cost, np.arange(n))
    for a in range(n):
        for b in range(n):
            moved = np.insert(np.delete(order, a), b, order[a])
            assert kemeny.ranking_cost(cost, moved) >= value


@given(squares)
def test_strong_components_are_mutual_reach(table: list[list[int]]) -> None:
    beats = np.array(table) == 1
    reach: Any = beats | np.eye(len(beats), dtype=bool)
    for _ in beats:
        reach = (reach.astype(int) @ reach.astype(int)) > 0
    got = kemeny.dense_components(beats)
    assert ((got[:, None] == got[None, :]) == (reach & reach.T)).all()
    assert (got[:, None] <= got[None, :])[beats].all()


def test_strong_components_of_many_items() -> None:
    n = 300
    ring = np.zeros((n, n), dtype=bool)
    ring[np.arange(n), (np.arange(n) + 1) % n] = True
    assert set(kemeny.dense_components(ring).tolist()) == {0}
    ring[n - 1, 0] = False
    assert kemeny.dense_components(ring).tolist() == list(range(n))


@pytest.mark.parametrize("n", [0, 1])
def test_nothing_to_rank(n: int) -> None:
    assert kemeny.dense_components(np.zeros((n, n), dtype=bool)).tolist() == [0] * n
    assert kemeny.subset_dp(np.zeros((n, n)), np.zeros(n, dtype=np.int64)).position.tolist() == [1.0] * n
