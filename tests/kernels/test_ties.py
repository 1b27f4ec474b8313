"""Tie-breaks folded into one number: the order is that of the tuples, whatever the order of the items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concordant.kernels.lists import offsets_of
from concordant.kernels.ties import break_ties, dense_ranks

row = st.tuples(st.sampled_from([-2.5, -1.0, 0.0, 0.25, 3.0]), st.sampled_from([0.0, 1.0, 1e6]), st.integers(-2, 2))
instances = st.lists(st.lists(row, max_size=6), max_size=4)


def flat(parts: list[list[Any]]) -> tuple[Any, Any]:
    rows = [r for p in parts for r in p]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 3), offsets_of(np.array([len(p) for p in parts]))


@given(instances)
def test_the_sum_orders_as_the_tuples_do(parts: list[list[Any]]) -> None:
    table, offsets = flat(parts)
    got = break_ties(table[:, 0], [table[:, 1], table[:, 2]], offsets)
    for start, part in zip(offsets.tolist(), parts, strict=False):
        own = got[start : start + len(part)]
        for a, x in zip(part, own, strict=True):
            assert 0 <= x - a[0] < 0.5
            for b, y in zip(part, own, strict=True):
                assert (x > y) == (a > b)
                assert (x == y) == (a == b)


@given(instances, st.randoms(use_true_random=False))
def test_neither_order_nor_company_matters(parts: list[list[Any]], random: Any) -> None:
    table, offsets = flat(parts)
    together = break_ties(table[:, 0], [table[:, 1], table[:, 2]], offsets)
    for start, part in zip(offsets.tolist(), parts, strict=False):
        own = together[start : start + len(part)]
        order = list(range(len(part)))
        random.shuffle(order)
        alone, edge = flat([[part[i] for i in order]])
        assert break_ties(alone[:, 0], [alone[:, 1], alone[:, 2]], edge).tolist() == [own[i] for i in order]


def test_dense_ranks_share_rounding_errors_but_not_whole_numbers() -> None:
    edge = np.array([0, 3])
    assert dense_ranks(np.array([0.1 + 0.2, 0.3, 0.4]), edge).tolist() == [0, 0, 1]
    assert dense_ranks(np.array([10**15, 10**15 + 1, 0]), edge).tolist() == [1, 2, 0]


@pytest.mark.parametrize("unit", [2.0**-200, 2.0**-30, 1.0, 2.0**30, 2.0**200])
def test_ties_are_broken_in_any_unit_of_the_values(unit: float) -> None:
    """An addition of 1/2 to votes of 1e15 had been within the tolerance of ties."""
    primary, key, offsets = np.array([3.0, 1.0, 1.0, 1.0, 2.0]), np.array([0.0, 2.0, 1.0, 1.0, 0.0]), np.array([0, 5])
    broken = break_ties(primary * unit, [key], offsets)
    assert dense_ranks(broken, offsets).tolist() == [3, 1, 0, 0, 2]
    np.testing.assert_allclose(broken / unit, primary, atol=0.5)
    alone = break_ties(np.full(2, 4.0 * unit), [np.array([1.0, 2.0])], np.array([0, 2]))
    assert dense_ranks(alone, np.array([0, 2])).tolist() == [0, 1]
