"""The kernel of Davidson-Luce ties against enumeration of all sets, and its derivatives against differences."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.oracles import davidson_luce as oracle

from concordant.kernels import davidson_luce

Floats = NDArray[np.float64]


class Flat(NamedTuple):
    """Ordered partitions as the kernel takes them."""

    item: NDArray[np.int32]
    mark: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    weight: Floats


def flat(lists: list[tuple[float, oracle.Blocks, list[int]]]) -> Flat:
    """Return lists of weight, blocks and items left over below them; a single last item is no choice."""
    item: list[int] = []
    mark: list[int] = []
    offsets = [0]
    for _, blocks, left in lists:
        for n, block in enumerate(blocks):
            last = n == len(blocks) - 1 and len(block) == 1 and not left
            item += block
            mark += [2 if last else 1, *[0] * (len(block) - 1)]
        item += left
        mark += [2, *[0] * (len(left) - 1)] if left else []
        offsets.append(len(item))
    return Flat(
        np.array(item, dtype=np.int32),
        np.array(mark, dtype=np.uint8),
        np.array(offsets, dtype=np.int64),
        np.array([w for w, _, _ in lists]),
    )


class Point(NamedTuple):
    value: float
    gradient: Floats


def evaluate(x: Floats, tie: Floats, sizes: list[int], lists: Flat) -> Point:
    """Return the log-likelihood and its gradient by the scores, then by τ (without that of size 1)."""
    m, k = len(x), len(sizes)
    gain, loss, seen, drawn = np.empty(m), np.empty(m), np.empty(k), np.empty(k)
    value = davidson_luce.log_likelihood(x, tie, np.array(sizes), *lists, gain, loss, seen, drawn)
    return Point(value, np.concatenate([gain - loss, (seen - drawn)[1:]]))


def table(x: Floats, tie: Floats, sizes: list[int], lists: Flat) -> tuple[Floats, Floats, Floats]:
    p = len(x) + len(sizes)
    out = np.empty((p, p)), np.empty((p, p)), np.empty(p)
    davidson_luce.hessian_table(x, tie, np.array(sizes), *lists, *out)
    return out


@pytest.mark.parametrize("sizes", [[1], [1, 2], [1, 2, 3], [1, 3], [1, 2, 3, 4, 5]])
def test_probabilities_of_all_ordered_partitions_of_five_items_sum_to_one(sizes: list[int]) -> None:
    rng = np.random.default_rng(0)
    score, tie = rng.normal(size=5), np.concatenate([[0.0], rng.normal(size=len(sizes) - 1)])
    delta = dict(zip(sizes, np.exp(tie).tolist(), strict=True))
    total, n = 0.0, 0
    for blocks in oracle.ordered_partitions(range(5), 5):
        if any(len(b) not in sizes for b in blocks):
            continue
        value = evaluate(score, tie, sizes, flat([(1.0, blocks, [])])).value
        assert value == pytest.approx(oracle.log_probability(blocks, score.tolist(), delta), abs=1e-12)
        total, n = total + np.exp(value), n + 1
    assert total == pytest.approx(1.0, abs=1e-12)
    # With all sizes these are the 541 weak orders of five items.
    assert n == 541 or len(sizes) < 5


def some_lists(rng: np.random.Generator, n_items: int, largest: int) -> list[tuple[float, oracle.Blocks, list[int]]]:
    out: list[Any] = []
    for _ in range(4):
        order = rng.permutation(n_items)[: rng.integers(2, n_items + 1)].tolist()
        blocks = []
        left = order[-2:] if rng.random() < 0.3 and len(order) > 3 else []
        order = order[: len(order) - len(left)]
        while order:
            k = int(rng.integers(1, largest + 1))
            blocks.append(order[:k])
            order = order[k:]
        out.append((float(rng.integers(1, 4)), blocks, left))
    return out


@given(seed=st.integers(0, 10_000), n_items=st.integers(2, 6), largest=st.integers(1, 4))
def test_value_and_derivatives(seed: int, n_items: int, largest: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = some_lists(rng, n_items, largest)
    sizes = sorted({1, *(len(b) for _, blocks, _ in drawn for b in blocks)})
    lists = flat(drawn)
    score, tie = 2 * rng.normal(size=n_items), np.concatenate([[0.0], rng.normal(size=len(sizes) - 1)])
    delta = dict(zip(sizes, np.exp(tie).tolist(), strict=True))
    expected = sum(w * oracle.log_probability(blocks, score.tolist(), delta, left) for w, blocks, left in drawn)
    here = evaluate(score, tie, sizes, lists)
    assert here.value == pytest.approx(expected, abs=1e-10)
    hessian, products, squares = table(score, tie, sizes, lists)
    free = [*range(n_items), *range(n_items + 1, n_items + len(sizes))]
    step = 1e-5
    for c, p in enumerate(free):
        up, down = np.concatenate([score, tie]), np.concatenate([score, tie])
        up[p] += step
        down[p] -= step
        above = evaluate(up[:n_items], up[n_items:], sizes, lists)
        below = evaluate(down[:n_items], down[n_items:], sizes, lists)
        assert here.gradient[c] == pytest.approx((above.value - below.value) / (2 * step), abs=1e-6)
        np.testing.assert_allclose(hessian[free, p], -(above.gradient - below.gradient) / (2 * step), rtol=0, atol=1e-6)
    # A product with a vector, and the sums over lists.
    v, tie_v = rng.normal(size=n_items), rng.normal(size=len(sizes))
    out, tie_out = np.empty(n_items), np.empty(len(sizes))
    davidson_luce.hessian_product(score, tie, np.array(sizes), *lists, v, tie_v, out, tie_out)
    np.testing.assert_allclose(np.concatenate([out, tie_out]), hessian @ np.concatenate([v, tie_v]), rtol=0, atol=1e-10)
    each = [flat([(1.0, blocks, left)]) for _, blocks, left in drawn]
    gradients = np.array([evaluate(score, tie, sizes, one).gradient for one in each])
    np.testing.assert_allclose(
        products[np.ix_(free, free)], (gradients * lists.weight[:, None]).T @ gradients, rtol=0, atol=1e-10
    )
    diagonals = np.array([np.diag(table(score, tie, sizes, one)[0]) for one in each])
    np.testing.assert_allclose(squares, lists.weight @ diagonals**2, rtol=0, atol=1e-10)


def test_concave_in_scores_and_tie_parameters() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        drawn = some_lists(rng, 5, 3)
        score, tie = 3 * rng.normal(size=5), np.array([0.0, *rng.normal(size=2)])
        hessian, _, _ = table(score, tie, [1, 2, 3], flat(drawn))
        assert np.linalg.eigvalsh(hessian)[0] > -1e-12


def test_long_lists_and_large_ties_do_not_overflow() -> None:
    # C(2000, 1000) is beyond the range of a float.
    m, k = 2000, 1000
    lists = flat([(1.0, [list(range(k)), list(range(k, m))], [])])
    here = evaluate(np.zeros(m), np.zeros(2), [1, k], lists)
    first = np.logaddexp(np.log(m), float(davidson_luce._log_sets(m, np.array([k]))[m, 0]))
    assert here.value == pytest.approx(-first - np.logaddexp(np.log(k), 0.0), rel=1e-10)
    assert np.isfinite(here.gradient).all()


def test_wide_scores() -> None:
    """Scores far apart lose no digits: each factor is relative to its own list."""
    score = np.array([0.0, -150.0, -290.0, -290.5])
    blocks = [[0], [1], [2, 3]]
    lists = flat([(1.0, blocks, [])])
    here = evaluate(score, np.array([0.0, 0.3]), [1, 2], lists)
    expected = oracle.log_probability(blocks, (score + 150).tolist(), {1: 1.0, 2: float(np.exp(0.3))})
    assert here.value == pytest.approx(expected, abs=1e-9)


def test_choice_counts() -> None:
    lists = flat([(2.0, [[0, 1], [2], [3]], []), (1.0, [[3], [0, 1, 2]], [])])
    counts, reached = np.empty(4), np.empty(4, dtype=np.int64)
    davidson_luce.choice_counts(lists.mark, lists.offsets, lists.weight, counts, reached)
    assert counts.tolist() == [0.0, 3.0, 2.0, 1.0]
    assert reached.tolist() == [0, 4, 4, 3]
