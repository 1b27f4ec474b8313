"""Choices in stages against the formulas written out, differences of values, and sums over all outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import staged as oracle

from concordant.aggregators._plackett_luce_fit import PenalisedLikelihood, minorise, newton
from concordant.kernels import plackett_luce
from concordant.kernels.plackett_luce import Rankings
from concordant.kernels.plackett_luce_lists import expanded, merged, separation

WAYS = ["average", "partition"]


def rankings_of(
    lists: Sequence[oracle.List], ties: str, *, scaled: bool = False, below: Sequence[int] = ()
) -> Rankings:
    """Return the arrays of some lists; in those of `below` the last block is not written but left as a rest."""
    item, mark, form, lengths = [], [], [], []
    for n, (_, blocks, _) in enumerate(lists):
        shown = blocks[:-1] if n in below else blocks
        for k, block in enumerate(shown):
            item += list(block)
            mark += [2 if k == len(blocks) - 1 else 1] + [0] * (len(block) - 1)
        form.append(2 if n in below else int(any(len(b) > 1 for b in blocks)))
        lengths.append(sum(map(len, shown)))
    return Rankings(
        np.array(item, dtype=np.int32),
        np.array(mark, dtype=np.uint8),
        np.cumsum([0, *lengths], dtype=np.int64),
        np.array([w for w, _, _ in lists], dtype=np.float64),
        np.array(form, dtype=np.uint8),
        np.array([theta for _, _, theta in lists]) if scaled else np.zeros(0),
        ties != "partition",
    )


@st.composite
def some_lists(
    draw: Any, *, scaled: bool = False, full: bool = False, ties: bool = True
) -> tuple[int, list[oracle.List]]:
    """Return a number of items and lists over them, each of at least two blocks."""
    n = draw(st.integers(2, 6))
    lists = []
    for _ in range(draw(st.integers(1, 5))):
        order = draw(st.permutations(range(n)))
        held = n if full else draw(st.integers(2, n))
        cut = draw(st.lists(st.booleans(), min_size=held - 1, max_size=held - 1)) if ties else [True] * (held - 1)
        cut[draw(st.integers(0, held - 2))] = True
        blocks: list[list[int]] = [[order[0]]]
        for i, new in zip(order[1:held], cut, strict=True):
            if new:
                blocks.append([i])
            else:
                blocks[-1].append(i)
        theta = draw(st.sampled_from([0.0, 0.5, 1.0, 2.5])) if scaled else 1.0
        lists.append((draw(st.sampled_from([0.5, 1.0, 3.0])), blocks, theta))
    return n, lists


scores = st.lists(st.floats(-3, 3), min_size=6, max_size=6)


def looked(rankings: Rankings, s: np.ndarray) -> tuple[float, float, np.ndarray, np.ndarray]:
    """Return the value, the smallest share, the gradient and the diagonal."""
    x = s - s.max()
    gain, loss, diagonal = np.empty(len(s)), np.empty(len(s)), np.empty(len(s))
    value, least = plackett_luce.log_likelihood(x, np.exp(x), *rankings, gain, loss, diagonal)
    return value, least, gain - loss, diagonal


def tables(rankings: Rankings, s: np.ndarray, curved: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return −Hessian, the spread of the gradients of the lists, and the squares of their information."""
    x = s - s.max()
    hessian, spread, squares = np.empty((len(s), len(s))), np.empty((len(s), len(s))), np.empty(len(s))
    plackett_luce.hessian_table(x, np.exp(x), *rankings, curved, hessian, spread, squares)
    return hessian, spread, squares


def times(rankings: Rankings, s: np.ndarray, v: np.ndarray, curved: bool = True) -> np.ndarray:
    x, out = s - s.max(), np.empty(len(s))
    plackett_luce.hessian_product(x, np.exp(x), *rankings, v, curved, out)
    return out


@pytest.mark.parametrize("ties", WAYS)
@given(drawn=some_lists(scaled=True), values=scores)
def test_value_and_gradient(ties: str, drawn: tuple[int, list[oracle.List]], values: list[float]) -> None:
    n, lists = drawn
    s = np.array(values[:n])
    value, least, gradient, _ = looked(rankings_of(lists, ties, scaled=True), s)
    assert least == 1.0
    assert value == pytest.approx(oracle.log_likelihood(s.tolist(), lists, ties), abs=1e-10)
    np.testing.assert_allclose(gradient, oracle.gradient(s.tolist(), lists, ties), atol=1e-7)


@pytest.mark.parametrize("ties", WAYS)
@given(drawn=some_lists(scaled=True), values=scores, along=scores)
def test_hessian_is_the_difference_of_gradients(
    ties: str, drawn: tuple[int, list[oracle.List]], values: list[float], along: list[float]
) -> None:
    n, lists = drawn
    rankings = rankings_of(lists, ties, scaled=True)
    s, v, h = np.array(values[:n]), np.array(along[:n]), 1e-5
    hessian, _, _ = tables(rankings, s)
    steps = np.eye(n) * h
    slopes = np.array([(looked(rankings, s - d)[2] - looked(rankings, s + d)[2]) / (2 * h) for d in steps])
    np.testing.assert_allclose(hessian, slopes, atol=1e-7)
    np.testing.assert_allclose(times(rankings, s, v), hessian @ v, atol=1e-9)
    # Without what partitions take away again the table is never negative, and `log_likelihood` gives its diagonal.
    convex, _, _ = tables(rankings, s, curved=False)
    np.testing.assert_allclose(times(rankings, s, v, curved=False), convex @ v, atol=1e-9)
    np.testing.assert_allclose(looked(rankings, s)[3], np.diag(convex), atol=1e-9)
    assert np.linalg.eigvalsh(convex).min() > -1e-9
    if ties == "average":
        np.testing.assert_array_equal(hessian, convex)


@pytest.mark.parametrize("ties", WAYS)
@given(drawn=some_lists(scaled=True), values=scores)
def test_spread_is_the_sum_over_lists(ties: str, drawn: tuple[int, list[oracle.List]], values: list[float]) -> None:
    n, lists = drawn
    s = np.array(values[:n])
    _, spread, squares = tables(rankings_of(lists, ties, scaled=True), s)
    each = [oracle.gradient(s.tolist(), [(1.0, blocks, theta)], ties) for _, blocks, theta in lists]
    want = sum(w * np.outer(g, g) for (w, _, _), g in zip(lists, each, strict=True))
    np.testing.assert_allclose(spread, want, atol=1e-6)
    # One list alone tells its own information.
    alone = [tables(rankings_of([(1.0, blocks, theta)], ties, scaled=True), s)[0] for _, blocks, theta in lists]
    total = sum(w * np.diag(h) ** 2 for (w, _, _), h in zip(lists, alone, strict=True))
    np.testing.assert_allclose(squares, total, atol=1e-9)


@pytest.mark.parametrize("ties", WAYS)
@given(drawn=some_lists(full=True), values=scores, along=scores, data=st.data())
def test_rest_left_out_or_written_out_is_the_same(
    ties: str, drawn: tuple[int, list[oracle.List]], values: list[float], along: list[float], data: Any
) -> None:
    n, lists = drawn
    below = [k for k in range(len(lists)) if data.draw(st.booleans())]
    s, v = np.array(values[:n]), np.array(along[:n])
    told, open_ = rankings_of(lists, ties), rankings_of(lists, ties, below=below)
    value, least, gradient, diagonal = looked(open_, s)
    want = looked(told, s)
    assert value == pytest.approx(want[0], abs=1e-10)
    np.testing.assert_allclose(gradient, want[2], atol=1e-9)
    np.testing.assert_allclose(diagonal, want[3], atol=1e-9)
    np.testing.assert_allclose(times(open_, s, v), times(told, s, v), atol=1e-9)
    for got, expected in zip(tables(open_, s), tables(told, s), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-9)
    worth = np.exp(s) / np.exp(s).sum()
    assert least == pytest.approx(min([1.0, *(worth[list(lists[k][1][-1])].sum() for k in below)]), rel=1e-6)
    again = expanded(open_, n, np.array(below, dtype=np.int64))
    assert looked(again, s)[0] == pytest.approx(want[0], abs=1e-10)
    np.testing.assert_array_equal(again.mark[again.mark != 0], told.mark[told.mark != 0])


def test_rest_of_almost_no_worth_is_expanded() -> None:
    lists = [(1.0, [[0], [1], [2, 3]], 1.0), (1.0, [[1], [0], [3, 2]], 1.0), (2.0, [[3], [0, 1, 2]], 1.0)]
    s = np.array([30.0, 29.0, -3.0, -4.0])
    models = [
        PenalisedLikelihood(rankings_of(lists, "average", below=below), 4, 0.5, None, 1.0) for below in ([], [0, 1, 2])
    ]
    np.testing.assert_allclose(models[1].evaluate(s).gradient, models[0].evaluate(s).gradient, rtol=1e-12)
    np.testing.assert_allclose(models[1].sandwich_parts(s)[0], models[0].sandwich_parts(s)[0], rtol=1e-12)


@given(drawn=some_lists(scaled=True), values=scores)
@pytest.mark.parametrize("ties", WAYS)
def test_derivatives_by_the_factor_of_a_list(
    ties: str, drawn: tuple[int, list[oracle.List]], values: list[float]
) -> None:
    n, lists = drawn
    s = np.array(values[:n])
    rankings = rankings_of(lists, ties, scaled=True)
    slope, bend, mixed = np.empty(len(lists)), np.empty(len(lists)), np.empty(len(rankings.item))
    plackett_luce.adherence_derivatives(
        s - s.max(),
        rankings.item,
        rankings.mark,
        rankings.offsets,
        rankings.theta,
        rankings.averaged,
        slope,
        bend,
        mixed,
    )
    h = 1e-4
    for k, (_, blocks, theta) in enumerate(lists):
        at = [oracle.log_likelihood(s.tolist(), [(1.0, blocks, theta + d)], ties) for d in (-h, 0.0, h)]
        assert slope[k] == pytest.approx((at[2] - at[0]) / (2 * h), abs=1e-5)
        assert bend[k] == pytest.approx(-(at[2] - 2 * at[1] + at[0]) / h**2, abs=1e-4)
        ends = [oracle.gradient(s.tolist(), [(1.0, blocks, theta + d)], ties) for d in (-h, h)]
        rows = slice(rankings.offsets[k], rankings.offsets[k + 1])
        np.testing.assert_allclose(mixed[rows], ((ends[1] - ends[0]) / (2 * h))[rankings.item[rows]], atol=1e-5)


def test_worked_case(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("08_plackett_luce")
    for case in content["cases"]:
        given_, want = case["input"], case["expected"]
        lists = [(1.0, [[i] for i in order], 1.0) for order in given_["orders"]]
        s, atol = np.array(given_["s"]), content["abs_tol"]
        rankings = rankings_of(lists, "average")
        value, _, gradient, _ = looked(rankings, s)
        assert value == pytest.approx(want["loglik"], abs=atol)
        np.testing.assert_allclose(gradient, want["grad"], rtol=0, atol=atol)
        point = PenalisedLikelihood(rankings, len(s), 0.0, (given_["a"] - 1.0, given_["b"]), 1.0).evaluate(s)
        assert point.value == pytest.approx(want["map_objective"], abs=atol)
        np.testing.assert_allclose(point.gradient, want["map_grad"], rtol=0, atol=atol)


# Ordered partitions, each row with a score of its own.


def partition_rows(blocks: oracle.Blocks) -> tuple[np.ndarray, np.ndarray]:
    item = np.array([i for block in blocks for i in block])
    mark = np.array([int(k == 0) for block in blocks for k in range(len(block))], dtype=np.uint8)
    return item, mark


def test_probabilities_of_all_ordered_partitions_sum_to_one() -> None:
    s = np.array([0.3, -1.2, 2.0, 0.1])
    total = 0.0
    for blocks in oracle.partitions(range(4)):
        item, mark = partition_rows(blocks)
        value, offsets = np.empty(1), np.array([0, 4])
        plackett_luce.partition_log_likelihood(s[item], mark, offsets, np.empty(4), value)
        constant = plackett_luce.log_constants(mark, offsets)
        assert constant[0] == pytest.approx(oracle.log_constant(blocks), abs=1e-12)
        total += np.exp(value[0] + constant[0])
    assert total == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("ties", WAYS)
def test_probabilities_of_all_orders_sum_to_one(ties: str) -> None:
    s = np.array([0.3, -1.2, 2.0, 0.1])
    values = [looked(rankings_of([(1.0, [[i] for i in order], 1.0)], ties), s)[0] for order in permutations(range(4))]
    assert np.exp(values).sum() == pytest.approx(1.0, abs=1e-12)


@given(drawn=some_lists(full=True), values=scores)
def test_partitions_by_row_are_those_by_item(drawn: tuple[int, list[oracle.List]], values: list[float]) -> None:
    n, lists = drawn
    s = np.array(values[:n])
    rows = [partition_rows(blocks) for _, blocks, _ in lists]
    item, mark = (np.concatenate([r[k] for r in rows]) for k in (0, 1))
    offsets = np.arange(0, len(item) + 1, n)
    gradient, value = np.empty(len(item)), np.empty(len(lists))
    plackett_luce.partition_log_likelihood(s[item], mark, offsets, gradient, value)
    weight = np.array([w for w, _, _ in lists])
    rankings = rankings_of(lists, "partition")
    want, _, slope, _ = looked(rankings, s)
    assert weight @ value == pytest.approx(want, abs=1e-10)
    np.testing.assert_allclose(np.bincount(item, np.repeat(weight, n) * gradient, n), slope, atol=1e-10)


def test_partitions_do_not_overflow() -> None:
    score = np.array([-2000.0, 1500.0, 1499.0, 0.0, 800.0])
    gradient, value = np.empty(5), np.empty(2)
    plackett_luce.partition_log_likelihood(
        score, np.array([1, 1, 0, 1, 1], np.uint8), np.array([0, 3, 5]), gradient, value
    )
    # -2000 is chosen before 1500; 0 before 800: the losses are the gaps themselves.
    np.testing.assert_allclose(value, [-(3500.0 + np.log1p(np.exp(-1.0))), -800.0], rtol=1e-14)
    won = 1 / (1 + np.exp(-1.0))
    np.testing.assert_allclose(gradient, [1.0, -won, won - 1, 1.0, -1.0], atol=1e-14)


# Before the fit.


@pytest.mark.parametrize("ties", WAYS)
@given(drawn=some_lists())
def test_items_that_run_away_are_seen(ties: str, drawn: tuple[int, list[oracle.List]]) -> None:
    n, lists = drawn
    assert (separation(rankings_of(lists, ties), n) is None) == oracle.is_held_together(n, lists, ties)


@pytest.mark.parametrize("ties", WAYS)
@given(drawn=some_lists(full=True), data=st.data())
def test_items_that_run_away_from_a_rest_are_seen(ties: str, drawn: tuple[int, list[oracle.List]], data: Any) -> None:
    n, lists = drawn
    below = [k for k in range(len(lists)) if data.draw(st.booleans())]
    found = separation(rankings_of(lists, ties, below=below), n)
    assert (found is None) == oracle.is_held_together(n, lists, ties)


@given(drawn=some_lists(ties=False))
def test_estimate_is_finite_exactly_when_nothing_runs_away(drawn: tuple[int, list[oracle.List]]) -> None:
    n, lists = drawn
    rankings = rankings_of(lists, "average")
    loose = [PenalisedLikelihood(rankings, n, precision, None, 1.0) for precision in (1e-7, 1e-9)]
    far = [np.ptp(newton(model, np.zeros(n), 200, 1e-12).score) for model in loose]
    # Without a maximum the scores follow the prior, about log 10 for each power of ten.
    assert (far[1] - far[0] < 0.5) == (separation(rankings, n) is None)


def test_groups_are_named() -> None:
    def found(*orders: str) -> Any:
        items = sorted(set("".join(orders)))
        return separation(
            rankings_of([(1.0, [[items.index(i)] for i in o], 1.0) for o in orders], "average"), len(items)
        )

    apart = found("ab", "ba", "cd", "dc")
    assert [g.tolist() for g in apart.disconnected] == [[0, 1], [2, 3]]
    ends = found("abcd", "acbd")
    assert ([g.tolist() for g in ends.above], [g.tolist() for g in ends.below]) == ([[0]], [[3]])
    assert found("ab", "ba") is None


@given(drawn=some_lists(), order=st.lists(st.integers(0, 4), min_size=300, max_size=300))
def test_merged_lists_weigh_the_same(drawn: tuple[int, list[oracle.List]], order: list[int]) -> None:
    n, lists = drawn
    many = [lists[k % len(lists)] for k in order]
    rankings = rankings_of(many, "partition")
    few = merged(rankings)
    assert len(few.weight) == len({(str(b)) for _, b, _ in many})
    s = np.linspace(-1, 1, n)
    got, want = looked(few, s), looked(rankings, s)
    assert got[0] == pytest.approx(want[0], rel=1e-12)
    np.testing.assert_allclose(got[2], want[2], rtol=1e-10, atol=1e-9)


def test_lists_that_differ_are_not_merged() -> None:
    rng = np.random.default_rng(0)
    rankings = rankings_of([(1.0, [[i] for i in rng.permutation(9)], 1.0) for _ in range(300)], "average")
    assert merged(rankings) is rankings


# The maximum.


@pytest.mark.parametrize("ties", WAYS)
@pytest.mark.parametrize("precision", [0.3, 2.0])
@given(drawn=some_lists())
def test_newton_and_minorisation_meet(ties: str, precision: float, drawn: tuple[int, list[oracle.List]]) -> None:
    n, lists = drawn
    model = PenalisedLikelihood(rankings_of(lists, ties), n, precision, None, 1.0)
    fast, slow = newton(model, np.zeros(n), 100, 1e-10), minorise(model, np.zeros(n), 20_000, 1e-10)
    assert fast.converged
    assert slow.converged
    np.testing.assert_allclose(fast.score, slow.score, atol=1e-7)


def test_conjugate_gradients_give_the_step_of_the_table() -> None:
    rng = np.random.default_rng(1)
    lists = [(1.0, [[i] for i in rng.permutation(70)[:6]], 1.0) for _ in range(400)]
    model = PenalisedLikelihood(rankings_of(lists, "average"), 70, 0.1, None, 1.0)
    model.dense = False
    free = newton(model, np.zeros(70), 100, 1e-11)
    model.dense = True
    table = newton(model, np.zeros(70), 100, 1e-11)
    assert free.converged
    assert table.converged
    np.testing.assert_allclose(free.score, table.score, atol=1e-11)


def test_tied_blocks_that_curve_the_wrong_way_are_climbed_all_the_same() -> None:
    lists = [(1.0, [[0], [1, 2], [3], [4, 5, 6]], 1.0), (2.0, [[3, 1], [0], [2]], 1.0)]
    for dense in (True, False):
        model = PenalisedLikelihood(rankings_of(lists, "partition"), 7, 0.05, None, 1.0)
        model.dense = dense
        found = newton(model, np.zeros(7), 200, 1e-9)
        assert found.converged
        assert found.value > model.evaluate(np.zeros(7)).value
        slope = oracle.gradient(found.score.tolist(), lists, "partition") - 0.05 * found.score
        np.testing.assert_allclose(slope, 0, atol=1e-6)
