"""Components of graphs against brute force, and circles against a list of all of them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.paired import reachable

from concordant.kernels import graph

NODES = 7
arrows = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=18)


def ends(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    return table[:, 0], table[:, 1]


@given(arrows)
def test_strong_components_are_mutual_reach_and_numbered_against_the_arrows(pairs: list[tuple[int, int]]) -> None:
    label = graph.strong_components(*ends(pairs), NODES)
    reach = reachable(pairs, NODES)
    np.testing.assert_array_equal(label[:, None] == label[None, :], reach & reach.T)
    assert sorted(set(label.tolist())) == list(range(label.max() + 1))
    assert all(label[a] >= label[b] for a, b in pairs)


@given(arrows)
def test_weak_components_are_reach_both_ways(pairs: list[tuple[int, int]]) -> None:
    label = graph.weak_components(*ends(pairs), NODES)
    reach = reachable(pairs + [(b, a) for a, b in pairs], NODES)
    np.testing.assert_array_equal(label[:, None] == label[None, :], reach)
    first = [label.tolist().index(c) for c in range(label.max() + 1)]
    assert first == sorted(first)


def test_a_long_chain_needs_no_recursion() -> None:
    n = 200_000
    chain = np.arange(n - 1)
    assert graph.strong_components(chain, chain + 1, n).max() == n - 1
    assert graph.strong_components(np.append(chain, n - 1), np.append(chain + 1, 0), n).max() == 0
    assert graph.weak_components(chain, chain + 1, n).max() == 0


def test_no_nodes_have_no_components() -> None:
    none = np.zeros(0, dtype=np.int32)
    assert len(graph.strong_components(none, none, 0)) == 0
    assert len(graph.weak_components(none, none, 0)) == 0
    assert graph.weak_components(none, none, 3).tolist() == [0, 1, 2]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(-2, 2)), max_size=9))
def test_gaining_circle_is_found_exactly_when_there_is_one(triples: list[tuple[int, int, int]]) -> None:
    triples = [(a, b, g) for a, b, g in triples if a != b]
    best: dict[tuple[int, int], int] = {}
    for a, b, g in triples:
        best[a, b] = max(g, best.get((a, b), g))
    circles = [
        sum(best[pair] for pair in zip(walk, walk[1:] + walk[:1], strict=True))
        for size in range(2, 5)
        for walk in permutations(range(4), size)
        if all(pair in best for pair in zip(walk, walk[1:] + walk[:1], strict=True))
    ]
    tail, head = ends([(a, b) for a, b, _ in triples])
    gain = np.array([g for _, _, g in triples], dtype=np.int64)
    assert graph.has_positive_cycle(tail, head, gain, 4) == any(total > 0 for total in circles)
