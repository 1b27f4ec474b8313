"""Products with pairwise matrices and their singular vectors, against the matrices written out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import svd as oracle

from concordant.kernels import svd
from concordant.kernels.lists import offsets_of
from concordant.kernels.svd_tables import PairwiseProblems

STRENGTHS = ("binary", "rankdiff", "log", "count")

ranks = st.lists(st.integers(1, 9), min_size=1, max_size=7)


def gaps_of(rank: list[int], strength: str) -> Any:
    """Return the gaps of a sorted list, 0 at its end, in the plainest way."""
    r = sorted(rank)
    if strength == "binary":
        return np.array([float(a != b) for a, b in zip(r, r[1:] + r[-1:], strict=True)])
    x = [math.log(v) if strength == "log" else float(v) for v in r]
    z = {"count": 1.0, "rankdiff": x[-1], "log": x[-1] or 1.0}[strength]
    return np.array([b - a for a, b in zip(x, x[1:] + x[-1:], strict=True)]) / z


def pool_of(lists: list[list[int]], strength: str, n: int, below: bool, others: int = 0) -> PairwiseProblems:
    """Return one problem: the i-th rank of a list is that of item i; 0 leaves it out."""
    gap, at, lengths = [], [], []
    for rank in lists:
        held = sorted((i for i in range(len(rank)) if rank[i]), key=lambda i: rank[i])
        gap.append(gaps_of([rank[i] for i in held], strength) if held else np.zeros(0))
        at += held
        lengths.append(len(held))
    none = np.zeros(0, dtype=np.int64)
    return PairwiseProblems(
        gap=np.concatenate([np.zeros(0), *gap]),
        at=np.array(at, dtype=np.int64),
        offsets=offsets_of(np.array(lengths)),
        weight=1.0 + 0.5 * np.arange(len(lists)),
        below=np.full(len(lists), float(below)),
        list_starts=np.array([0, len(lists)]),
        left=none,
        right=none,
        wins=np.zeros(0),
        pair_starts=np.zeros(2, dtype=np.int64),
        item_starts=np.array([0, n]),
        phase=(np.arange(n) + 0.5) / max(n, 1),
        others=np.array([float(others)]),
    )


@st.composite
def several(draw: Any) -> tuple[list[list[int]], int]:
    n = draw(st.integers(1, 6))
    return draw(st.lists(st.lists(st.integers(0, 6), min_size=n, max_size=n), min_size=1, max_size=3)), n


def summed(lists: list[list[int]], strength: str, below: bool, others: int = 0) -> Any:
    """Return the weighted sum of the matrices, with `others` further items that nobody lists."""
    total = 0.0
    for k, rank in enumerate(lists):
        r = [v if v else np.nan for v in rank] + [np.nan] * others
        total = total + (1.0 + 0.5 * k) * oracle.pairwise(r, strength, "below" if below else "unknown")
    return total


@given(several(), st.sampled_from(STRENGTHS), st.booleans(), st.integers(0, 2), st.integers(0, 99))
def test_products_are_those_of_the_matrix(
    drawn: tuple[list[list[int]], int], strength: str, below: bool, others: int, seed: int
) -> None:
    lists, n = drawn
    others *= below
    pool = pool_of(lists, strength, n, below, others)
    Y = summed(lists, strength, below, others)
    # All items that no list holds are one: the columns are equal, and the vector is spread evenly over them.
    fold = np.zeros((n + others, n + 1))
    fold[:n, :n] = np.eye(n)
    root = math.sqrt(others)
    if others:
        fold[n:, n] = 1.0 / root
    x = np.random.default_rng(seed).normal(size=n + 1)
    x[n] *= others > 0
    got = np.empty(n + 1)
    svd._times(pool, 0, root, strength == "binary", x, got)
    assert got == pytest.approx(fold.T @ (Y @ (fold @ x)), abs=1e-10)
    svd._times_transposed(pool, 0, root, strength == "binary", x, got)
    assert got == pytest.approx(fold.T @ (Y.T @ (fold @ x)), abs=1e-10)


@given(ranks, st.sampled_from(STRENGTHS), st.integers(0, 3))
def test_leading_vectors_of_one_list(rank: list[int], strength: str, others: int) -> None:
    rank = sorted(rank)
    m = len(rank)
    Y = oracle.pairwise([*rank, *[np.nan] * others], strength, "below")
    want_u, want_s, want_v = oracle.triples(Y, 1)
    u, v, sigma, outside = np.empty(m), np.empty(m), np.empty(1), np.empty(1)
    svd.leading_triples(
        gaps_of(rank, strength), np.array([0, m]), np.array([float(others)]), strength == "binary", u, v, sigma, outside
    )
    assert sigma[0] == pytest.approx(want_s[0], abs=1e-11)
    assert u == pytest.approx(want_u[:m, 0], abs=1e-10)
    assert v == pytest.approx(want_v[:m, 0], abs=1e-10)
    assert want_v[m:, 0] == pytest.approx(np.full(others, outside[0]), abs=1e-10)
    assert (u >= 0).all()
    assert (v >= 0).all()
    # Tied rows are the same to the last bit, whatever order they came in.
    for i in range(m - 1):
        assert rank[i] != rank[i + 1] or (u[i] == u[i + 1] and v[i] == v[i + 1])


@given(several(), st.sampled_from(STRENGTHS), st.booleans(), st.integers(1, 3))
@settings(max_examples=120)
def test_triples_of_a_sum_of_lists(drawn: tuple[list[list[int]], int], strength: str, below: bool, p: int) -> None:
    lists, n = drawn
    Y = summed(lists, strength, below)
    U, V, sigma, outside = np.empty((n, p)), np.empty((n, p)), np.empty((1, p)), np.empty((1, p))
    svd.pooled_triples(pool_of(lists, strength, n, below), strength == "binary", U, V, sigma, outside)
    want_U, want_s, want_V = oracle.triples(Y, p)
    assert sigma[0] == pytest.approx(want_s, abs=1e-9)
    if oracle.gaps(Y, p) > 1e-3:
        np.testing.assert_allclose(U, want_U, atol=1e-7)
        np.testing.assert_allclose(V, want_V, atol=1e-7)


def test_pairs_that_were_counted_are_entries_of_the_matrix() -> None:
    Y = np.array([[0.0, 3.0, 0.0, 1.0], [1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 5.0], [0.0, 1.0, 0.0, 0.0]])
    left, right = np.nonzero(Y)
    none = pool_of([], "count", 4, below=False)
    pool = none._replace(left=left, right=right, wins=Y[left, right], pair_starts=np.array([0, len(left)]))
    U, V, sigma, outside = np.empty((4, 3)), np.empty((4, 3)), np.empty((1, 3)), np.empty((1, 3))
    svd.pooled_triples(pool, False, U, V, sigma, outside)
    want_U, want_s, want_V = oracle.triples(Y, 3)
    assert sigma[0] == pytest.approx(want_s)
    np.testing.assert_allclose(U, want_U, atol=1e-10)
    np.testing.assert_allclose(V, want_V, atol=1e-10)


@pytest.mark.parametrize("m", [1, 2, 3, 5, 8, 40])
def test_closed_form_of_untied_binary_lists(m: int) -> None:
    Y = oracle.pairwise(np.arange(1, m + 1), "binary")
    want_U, want_s, want_V = oracle.triples(Y, 4)
    u, v = np.empty(m), np.empty(m)
    for c in range(4):
        assert svd.untied_binary(m, c, u, v) == pytest.approx(want_s[c])
        assert u == pytest.approx(want_U[:, c], abs=1e-11)
        assert v == pytest.approx(want_V[:, c], abs=1e-11)


def test_worked_case_of_the_closed_form(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("03_binary_svd_closed_form")
    for case in content["cases"]:
        m, want = case["input"]["m"], case["expected"]
        u, v = np.empty(m), np.empty(m)
        for c, sigma in enumerate(want["sigma"]):
            assert svd.untied_binary(m, c, u, v) == pytest.approx(sigma, abs=content["abs_tol"])
            # The formula as it stands there has no sign rule.
            sign = np.sign(u @ np.array(want["u"][c]))
            assert u == pytest.approx(sign * np.array(want["u"][c]), abs=content["abs_tol"])
            assert v == pytest.approx(sign * np.array(want["v"][c]), abs=content["abs_tol"])


def test_long_lists_converge_in_every_strength() -> None:
    rank = np.sort(np.random.default_rng(0).integers(1, 400, size=300))
    m = len(rank)
    for strength in STRENGTHS:
        Y = oracle.pairwise(rank, strength)
        u, v, sigma, outside = np.empty(m), np.empty(m), np.empty(1), np.empty(1)
        gap = gaps_of(rank.tolist(), strength)
        svd.leading_triples(gap, np.array([0, m]), np.zeros(1), strength == "binary", u, v, sigma, outside)
        assert Y @ v == pytest.approx(sigma[0] * u, abs=1e-11 * sigma[0])
        assert Y.T @ u == pytest.approx(sigma[0] * v, abs=1e-11 * sigma[0])
        assert float(u @ u) == pytest.approx(1.0)
