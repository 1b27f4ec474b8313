"""The compiled stable sort against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concordant.kernels.sorting import stable_sort

keys = st.lists(st.integers(-3, 3).map(float) | st.just(-0.0) | st.floats(allow_nan=False), max_size=40)


def sorted_by(key: np.ndarray, order: np.ndarray) -> list[int]:
    out = order.copy()
    stable_sort(key, out, np.empty(len(order), dtype=np.int64))
    return [int(i) for i in out]


@given(keys, st.randoms(use_true_random=False))
def test_short_lists(values: list[float], chance: object) -> None:
    key, order = np.array(values, dtype=np.float64), np.arange(len(values))
    chance.shuffle(order)  # type: ignore[attr-defined]
    assert sorted_by(key, order) == order[np.argsort(key[order], kind="stable")].tolist()


@pytest.mark.parametrize("n", [64, 65, 200, 1000])
@pytest.mark.parametrize("spread", [0.0, 1.0, 1e300])
def test_long_lists_with_ties_zeros_of_both_signs_and_extremes(n: int, spread: float) -> None:
    rng = np.random.default_rng(n)
    key = np.concatenate([rng.integers(-5, 5, n) * spread, rng.normal(size=n), [0.0, -0.0, np.inf, -np.inf]])
    order = rng.permutation(len(key))
    assert sorted_by(key, order) == order[np.argsort(key[order], kind="stable")].tolist()
