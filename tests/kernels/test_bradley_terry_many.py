"""The evaluation for many pairs, one exponential per item, against the plain one."""

from __future__ import annotations

import numpy as np
import pytest

from concordant.kernels import bradley_terry


@pytest.mark.parametrize(("model", "tie"), [("none", 0.0), ("davidson", -0.7), ("davidson", 3.0), ("rao-kupper", 0.3)])
@pytest.mark.parametrize("spread", [1.0, 40.0, 150.0])
def test_one_exponential_per_item_gives_the_same(model: str, tie: float, spread: float) -> None:
    rng = np.random.default_rng(3)
    n, pairs = 9, 60
    left = rng.integers(0, n, pairs).astype(np.int32)
    right = ((left + rng.integers(1, n, pairs)) % n).astype(np.int32)
    counts = rng.random((3, pairs)) * [[1.0], [1.0], [model != "none"]]
    columns = (left, right, *(np.ascontiguousarray(c) for c in counts))
    s, code = spread * rng.normal(size=n), bradley_terry.MODELS[model]
    seen = []
    for many in (True, False):
        kept = np.zeros(n), np.empty(pairs), np.zeros(pairs)
        if many:
            numbers = bradley_terry.evaluate_all(columns, s, tie, 0.4, code, *kept)
        else:
            numbers = bradley_terry._evaluate(columns, (0, pairs), s, tie, 0.4, code, *kept)
        seen.append((np.array(numbers), *kept))
    for fast, slow in zip(*seen, strict=True):
        np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-12 * max(1.0, spread))


def test_scores_too_far_out_for_exponentials_are_still_evaluated() -> None:
    columns = (np.array([0], np.int32), np.array([1], np.int32), np.array([2.0]), np.array([1.0]), np.array([0.0]))
    gradient = np.zeros(2)
    value = bradley_terry.evaluate_all(
        columns, np.array([900.0, 0.0]), 0.0, 0.0, 0, gradient, np.empty(1), np.empty(1)
    )[0]
    assert value == -900.0
    assert gradient.tolist() == [-1.0, 1.0]
