"""Sums that are the same in any order, and lose nothing that a float could show."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from concordant.kernels.lists import exact_sums, offsets_of

terms = st.floats(-1e3, 1e3) | st.floats(-1e-9, 1e-9) | st.sampled_from([0.1, 0.2, 0.3, 1e12, 1e299, -3e299])
groups = st.lists(st.lists(st.tuples(st.integers(0, 2), terms), max_size=8), max_size=4)


def sums(parts: list[list[tuple[int, float]]]) -> Any:
    rows = [(3 * g + i, t) for g, part in enumerate(parts) for i, t in part]
    index, value = np.array([i for i, _ in rows], dtype=np.int32), np.array([t for _, t in rows], dtype=np.float64)
    lengths = np.array([len(p) for p in parts], dtype=np.int64)
    return exact_sums(value, index, 3 * len(parts), offsets_of(lengths), lengths)


@given(groups, st.randoms(use_true_random=False))
def test_any_order_and_any_company_give_the_same_bits(parts: list[list[tuple[int, float]]], random: Any) -> None:
    together = sums(parts).tolist()
    shuffled = [random.sample(part, len(part)) for part in parts]
    assert sums(shuffled).tolist() == together
    for g, part in enumerate(parts):
        assert sums([part]).tolist() == together[3 * g : 3 * g + 3]


@given(groups)
def test_sums_are_right_to_the_last_bits_of_the_largest(parts: list[list[tuple[int, float]]]) -> None:
    got = sums(parts)
    for g, part in enumerate(parts):
        size = max((abs(t) for _, t in part), default=0.0)
        for i in range(3):
            want = math.fsum(t for j, t in part if j == i)
            assert abs(got[3 * g + i] - want) <= 2.0**-51 * size * len(part) ** 2
