"""Pairs in the wrong order, list by list, against counting them one by one."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import experts as oracle
from tests.oracles.metrics import kendall

from concordant.kernels.inversions import inversions, order_agreement, pair_balance, tau_b
from concordant.kernels.lists import offsets_of

lists_of_codes = st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=5)
lists_of_pairs = st.lists(
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from([0.0, 1.0, 2.0, 2.5])), max_size=8), max_size=5
)


def offsets(lists: list[list[object]]) -> np.ndarray:
    return offsets_of(np.array([len(own) for own in lists], dtype=np.int64))


@given(lists_of_codes)
def test_inversions_equal_brute_force(lists: list[list[int]]) -> None:
    flat = np.array([c for own in lists for c in own], dtype=np.int64)
    want = [sum(a > b for a, b in combinations(own, 2)) for own in lists]
    assert inversions(flat, offsets(lists)).tolist() == want


def test_many_pairs_are_counted_exactly() -> None:
    n = 200_001
    total = inversions(np.arange(n, dtype=np.int64)[::-1], np.array([0, n]))
    assert total.tolist() == [n * (n - 1) // 2]


@given(lists_of_pairs)
def test_agreement_equals_brute_force(lists: list[list[tuple[int, float]]]) -> None:
    rank = np.array([r for own in lists for r, _ in own], dtype=np.float64)
    label = np.array([v for own in lists for _, v in own], dtype=np.float64)
    alike, against = order_agreement(rank, label, offsets(lists))
    for n, own in enumerate(lists):
        signs = [(a[0] - b[0]) * (b[1] - a[1]) for a, b in combinations(own, 2)]
        assert (alike[n], against[n]) == (sum(s > 0 for s in signs), sum(s < 0 for s in signs))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(0, 6)), max_size=40))
def test_balance_of_pairs_equals_brute_force(rows: list[tuple[int, int, int]]) -> None:
    """Rows of the lists stand in any order, and some lists have none."""
    owner, first, second = (np.array([row[c] for row in rows], dtype=np.int64) for c in range(3))
    found = pair_balance(owner, first, second, 5)
    own = [([a for o, a, _ in rows if o == n], [b for o, _, b in rows if o == n]) for n in range(5)]
    counts = [kendall(*both) for both in own]
    # Pairs tied in the second alone are untied in the first, and the other way round.
    want = [(c - d, c + d + only_second, c + d + only_first) for c, d, only_first, only_second, _ in counts]
    assert list(zip(*(part.tolist() for part in found), strict=True)) == want
    assert tau_b(*found).tolist() == pytest.approx([oracle.tau_b(*both) for both in own], nan_ok=True)
