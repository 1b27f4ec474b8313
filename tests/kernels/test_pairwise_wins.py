"""Votes on pairs counted in tiles and pair by pair, against a loop over lists."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concordant.kernels import pairwise_wins

Table = list[list[int]]


@st.composite
def ballots(draw: Any) -> tuple[Table, list[float] | None]:
    """Return positions (0 = missing), one row per list, and weights."""
    n_items, n_lists = draw(st.integers(1, 6)), draw(st.integers(0, 5))
    row = st.lists(st.integers(0, 4), min_size=n_items, max_size=n_items)
    table = draw(st.lists(row, min_size=n_lists, max_size=n_lists))
    weights = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=n_lists, max_size=n_lists)
    return table, draw(st.none() | weights)


def count(table: Table, weights: list[float] | None, i: int, j: int, below: bool, ties: bool = False) -> float:
    """Return the weight of the lists that put i above j, or (with `ties`) hold both equal; two left out are no tie."""
    total = 0.0
    for k, row in enumerate(table):
        a, b = row[i] or (9 if below else 0), row[j] or (9 if below else 0)
        if a and b and (a == b < 9 if ties else a < b):
            total += 1.0 if weights is None else weights[k]
    return total


def build(table: Table, weights: list[float] | None, n_items: int, below: bool) -> pairwise_wins.Ballots:
    full = np.array(table, dtype=np.int64).reshape(len(table), n_items)
    which, item = np.nonzero(full)
    w = None if weights is None else np.array(weights)
    return pairwise_wins.ballots(which, item, full[which, item], len(table), n_items, w, below)


@pytest.mark.parametrize("shape", [(64, 4096), (2, 3), (1, 1)])
@given(drawn=ballots(), below=st.booleans())
def test_tiles_count_every_list(shape: tuple[int, int], drawn: Any, below: bool) -> None:
    table, weights = drawn
    n = len(table[0]) if table else 3
    votes = build(table, weights, n, below)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairwise_wins, "_TILE_ROWS", shape[0])
        patch.setattr(pairwise_wins, "_TILE_COLUMNS", shape[1])
        seen = np.zeros((n, n), dtype=int)
        for tile in pairwise_wins.tiles(n, whole=True):
            for strict in (False, True):
                ahead, behind = pairwise_wins.pair_weights(votes, tile, ties_against=strict)
                for i, j in itertools.product(range(tile.row, tile.row_end), range(tile.column, tile.column_end)):
                    cell = i - tile.row, j - tile.column
                    assert ahead[cell] == count(table, weights, i, j, below)
                    if i != j:
                        tied = count(table, weights, i, j, below, ties=True) if strict else 0.0
                        assert behind[cell] == count(table, weights, j, i, below) + tied
            seen[tile.row : tile.row_end, tile.column : tile.column_end] += 1
        assert (seen == 1).all()
        upper = np.zeros((n, n), dtype=int)
        for tile in pairwise_wins.tiles(n):
            upper[tile.row : tile.row_end, tile.column : tile.column_end] += 1
        assert (upper[np.triu_indices(n)] == 1).all()


@given(ballots())
def test_pairs_of_lists_are_all_there(drawn: Any) -> None:
    table, weights = drawn
    if not table:
        return
    n = len(table[0])
    full = np.array(table)
    which, item = np.nonzero(full)
    offsets = np.concatenate([[0], np.cumsum((full > 0).sum(axis=1))])
    w = None if weights is None else np.array(weights)
    ahead, tied = np.zeros((n, n)), np.zeros((n, n))
    for first, second, equal, weight in pairwise_wins.listed_pairs(item, full[which, item], offsets, w):
        np.add.at(ahead, (first[~equal], second[~equal]), weight[~equal])
        np.add.at(tied, (first[equal], second[equal]), weight[equal])
    for i, j in itertools.permutations(range(n), 2):
        assert ahead[i, j] == count(table, weights, i, j, below=False)
        assert (tied + tied.T)[i, j] == count(table, weights, i, j, below=False, ties=True)


@given(st.integers(0, 9).flatmap(lambda n: st.lists(st.booleans(), min_size=n * n, max_size=n * n)))
def test_a_merge_puts_nothing_right_behind_what_it_comes_before(cells: list[bool]) -> None:
    n = int(len(cells) ** 0.5)
    # Of two items at most one comes before the other; beyond that the relation is arbitrary.
    before = {(i, j): cells[i * n + j] and (i < j or not cells[j * n + i]) for i in range(n) for j in range(n)}
    order = pairwise_wins.merge_order(list(range(n)), lambda a, b: before[a, b])
    assert sorted(order) == list(range(n))
    assert not any(before[b, a] for a, b in itertools.pairwise(order))


def test_sparse_means_short_lists_over_many_items() -> None:
    assert pairwise_wins.sparse(np.array([0, 3, 6]), 100)
    assert not pairwise_wins.sparse(np.array([0, 50, 100]), 100)
