"""Golden 01: the pairwise matrices that majority methods, Markov chains and later models are built on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.aggregators.common import from_matrix

import concordant as cc

TRANSFORMS = ("binary", "count", "rankdiff", "log")


def matrices(c: cc.Comparisons, n_items: int, n_experts: int) -> np.ndarray:
    """Return Y[k, i, j] from rows of counts."""
    Y = np.zeros((n_experts, n_items, n_items))
    assert c.expert is not None
    for k, i, j, n_left, n_right in zip(c.expert, c.left, c.right, c.n_left, c.n_right, strict=True):
        Y[k, i, j] += n_left
        Y[k, j, i] += n_right
    return Y


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_pairwise_matrices_and_their_sums(transform: str, golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("01_pairwise_matrices")
    seen = 0
    for case in content["cases"]:
        if "R" not in case["input"]:
            continue
        R = np.array(case["input"]["R"])
        want = case["expected"][transform]
        p = from_matrix(R)
        near = {"rtol": 0, "atol": content["abs_tol"]}
        np.testing.assert_allclose(matrices(p.comparisons(transform), *R.shape), want["Y"], **near)
        for got, name in zip(p.pair_sums(transform), ("row_sums", "col_sums"), strict=True):
            table = np.zeros(R.shape)
            table[p.slot, p.row_expert] = got
            np.testing.assert_allclose(table, want[name], **near)
        seen += 1
    assert seen >= 2
