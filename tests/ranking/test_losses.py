"""Losses of graded lists: golden 23 and 24, decimals pair by pair, differences of values, and what must not matter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import graded as oracle

from concordant.arrays import Floats
from concordant.kernels.graded_lists import GradedLists
from concordant.ranking import losses

PAIRS = ["logistic", "hinge", "quadratic"]
STAGES = ["list_mle", "full_partitions"]
TIES = ["davidson", "rao_kupper"]
LOSSES = [*PAIRS, *STAGES, *TIES]


def run(name: str, score: Floats, lists: GradedLists, extra: float = 0.0) -> tuple[float, Floats, float]:
    """Return the loss, its slope and its slope by the extra parameter (0 where there is none)."""
    slope, extra_slope = np.full(len(score), np.nan), np.full(1, np.nan)
    if name in TIES:
        value = getattr(losses, name)(score, lists, slope, np.array([extra]), extra_slope)
    else:
        value = getattr(losses, name)(score, lists, slope)
        extra_slope[:] = 0.0
    assert isinstance(value, float)
    return value, slope, float(extra_slope[0])


def plain(name: str, score: Floats, label: Floats, extra: float, digits: int) -> tuple[float, Floats, float]:
    """Return the same of one list from the oracle."""
    if name in STAGES:
        blocks = [[i] for i in range(len(label))]
        if name == "full_partitions":
            blocks = [np.flatnonzero(label == v).tolist() for v in np.unique(label)[::-1]]
        return *oracle.stages(score.tolist(), blocks, digits), 0.0
    return oracle.over_pairs(getattr(oracle, name), score.tolist(), label.tolist(), extra, digits)


def one_list(labels: Any) -> GradedLists:
    label = np.sort(np.asarray(labels, dtype=np.float64))[::-1].copy()
    return GradedLists.of(label, np.array([0, len(label)]))


@pytest.mark.parametrize("case", range(3))
@pytest.mark.parametrize("name", TIES)
def test_golden_chances_of_wins_losses_and_ties(golden: Callable[[str], Any], case: int, name: str) -> None:
    content = golden("23_pair_ties")
    given_, expected = (content["cases"][case][part] for part in ("input", "expected"))
    f = np.array([given_["f_i"], given_["f_j"]])
    for outcome, labels, order in (("win", [1, 0], [0, 1]), ("loss", [1, 0], [1, 0]), ("tie", [1, 1], [0, 1])):
        value, slope, by_extra = run(name, f[order], one_list(labels), given_["param"])
        want = expected[f"{name}_{outcome}"]
        assert value == pytest.approx(-want["logp"], abs=content["abs_tol"])
        # `order` is its own inverse.
        np.testing.assert_allclose(slope[order], -np.array(want["grad_f"]), atol=content["abs_tol"], rtol=0)
        assert by_extra == pytest.approx(-want["grad_param"], abs=content["abs_tol"])


@pytest.mark.parametrize(
    ("name", "key", "by"),
    [
        ("logistic", "ranknet", "ranknet_grad"),
        ("hinge", "hinge", "hinge_grad"),
        ("quadratic", "quadratic", "quadratic_grad"),
        ("list_mle", "listmle_nll", "listmle_grad"),
    ],
)
def test_golden_losses_of_five_items(golden: Callable[[str], Any], name: str, key: str, by: str) -> None:
    content = golden("24_pairwise_losses_listmle")
    case = content["cases"][0]
    label = np.array(case["input"]["labels"], dtype=np.float64)
    order = np.argsort(-label, kind="stable")
    assert order.tolist() == case["expected"]["listmle_order"]
    value, slope, _ = run(name, np.array(case["input"]["s"])[order], one_list(label))
    assert value == pytest.approx(case["expected"][key], abs=content["abs_tol"])
    np.testing.assert_allclose(slope, np.array(case["expected"][by])[order], atol=content["abs_tol"], rtol=0)


@pytest.mark.parametrize("name", TIES)
def test_a_win_pushes_winner_and_loser_alike_unlike_the_printed_gradient(name: str) -> None:
    score, extra, h = np.array([0.7, -0.4]), 0.3, 1e-5
    _, slope, _ = run(name, score, one_list([1, 0]), extra)
    moved = [run(name, score + step, one_list([1, 0]), extra)[0] for step in ([0.0, h], [0.0, -h])]
    assert slope[1] == pytest.approx((moved[0] - moved[1]) / (2 * h), rel=1e-8)
    # Only the difference of the scores counts, so that a misprint in the term of one item alone is seen.
    assert slope.sum() == pytest.approx(0.0, abs=1e-15)
    if name == "rao_kupper":
        # The paper prints P_j, the chance that the losing item would win, in the place of P*_j.
        theta, (phi_i, phi_j) = 1 + np.exp(extra), np.exp(score)
        printed = theta * phi_j / (theta * phi_i + phi_j)
        assert abs(slope[1] - printed) > 0.1


@pytest.mark.parametrize("name", LOSSES)
@given(data=st.data())
def test_equals_all_pairs_and_stages_in_decimals(name: str, data: Any) -> None:
    n = data.draw(st.integers(0, 7))
    lists = one_list(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    # Quarters, so that pairs exactly 1 apart occur, and numbers of every size.
    entry = st.one_of(st.integers(-8, 8).map(lambda v: v / 4), st.floats(-30, 30))
    score = np.array(data.draw(st.lists(entry, min_size=n, max_size=n)), dtype=np.float64)
    extra = data.draw(st.floats(-12, 12))
    value, slope, by_extra = run(name, score, lists, extra)
    expected = plain(name, score, lists.label, extra, 60)
    np.testing.assert_allclose(value, expected[0], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(slope, expected[1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(by_extra, expected[2], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("name", "extra"), [*((n, 0.0) for n in LOSSES), *((n, e) for n in TIES for e in (-1e3, 1e3))])
@pytest.mark.parametrize("span", [10.0, 1000.0])
def test_scores_and_parameters_of_any_size(name: str, extra: float, span: float) -> None:
    lists = one_list([2, 1, 1, 0])
    for score in (np.array([1.0, 0.3, 0.1, -1.0]) * span, np.array([-1.0, 0.3, 0.5, 1.0]) * span):
        value, slope, by_extra = run(name, score, lists, extra)
        # In 500 digits 1 + e^-1000 is not 1.
        expected = plain(name, score, lists.label, extra, 500)
        np.testing.assert_allclose(value, expected[0], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(slope, expected[1], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(by_extra, expected[2], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("name", "extra"), [*((n, 0.0) for n in LOSSES), *((n, e) for n in TIES for e in (-1.5, 2.0))])
def test_slopes_are_those_of_the_values(name: str, extra: float) -> None:
    rng = np.random.default_rng(11)
    lists = GradedLists.of(np.array([3.0, 3, 1, 1, 0, 5, 2, 2, 2, 1, 1, 4]), np.array([0, 5, 5, 11, 12]))
    score = rng.normal(size=12)
    _, slope, by_extra = run(name, score, lists, extra)
    # Where the hinge bends there is no slope to compare with: the step stays clear of it.
    h = 1e-3 if name != "hinge" else 1e-6
    weights = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))

    def moved(step: float, row: int) -> float:
        at = score.copy()
        if row < 0:
            return run(name, at, lists, extra + step)[0]
        at[row] += step
        return run(name, at, lists, extra)[0]

    found = [sum(w * moved(k * h, row) for k, w in weights) / h for row in range(-1, 12)]
    np.testing.assert_allclose(slope, found[1:], rtol=1e-6, atol=1e-8)
    if name in TIES:
        np.testing.assert_allclose(by_extra, found[0], rtol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_what_all_scores_have_in_common_does_not_matter(name: str) -> None:
    rng = np.random.default_rng(2)
    sizes = [1, 3, 40, 90]
    label = np.concatenate([np.sort(rng.integers(0, 5, n))[::-1] for n in sizes]).astype(np.float64)
    lists = GradedLists.of(label, np.cumsum([0, *sizes]))
    # On a binary grid, so that shifted differences are the same numbers.
    score = np.round(rng.normal(size=len(label)) * 2, 1) // 0.0625 * 0.0625
    at_rest = run(name, score, lists, 0.5)
    shifted = run(name, score + np.repeat([2.0**30, -(2.0**40), 2.0**20, -(2.0**47)], sizes), lists, 0.5)
    for one, other in zip(at_rest, shifted, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-11, atol=1e-11)
    assert abs(at_rest[1].sum()) < 1e-9


@pytest.mark.parametrize("name", LOSSES)
def test_one_score_far_from_the_others_does_not_blur_them(name: str) -> None:
    lists = one_list([3, 2, 1, 0])
    score = np.array([1e13, 0.3, 0.1, 0.2])
    value, slope, _ = run(name, score, lists)
    expected = plain(name, score, lists.label, 0.0, 60)
    if name != "quadratic":
        # The loss of the others alone: the first row wins against all of them, at no cost.
        assert value == pytest.approx(run(name, score[1:], one_list([2, 1, 0]))[0], rel=1e-12)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    np.testing.assert_allclose(slope, expected[1], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", LOSSES)
def test_lists_of_nothing_and_of_one_row_add_nothing(name: str) -> None:
    for sizes in ([], [0], [1], [0, 1, 0, 1]):
        n = sum(sizes)
        lists = GradedLists.of(np.ones(n), np.cumsum([0, *sizes], dtype=np.int64))
        value, slope, by_extra = run(name, np.full(n, 7.0), lists, 0.2)
        assert value == 0.0
        assert by_extra == 0.0
        np.testing.assert_array_equal(slope, np.zeros(n))


@pytest.mark.parametrize("name", LOSSES)
def test_only_models_of_ties_and_orders_hear_a_list_of_equal_labels(name: str) -> None:
    value, slope, _ = run(name, np.array([0.5, -0.5, 0.25]), one_list([2, 2, 2]))
    heard = name in ("davidson", "rao_kupper", "list_mle")
    assert (value > 0) == heard
    assert bool(np.any(np.abs(slope) > 1e-12)) == heard


def test_rows_of_equal_labels_are_one_choice_to_partitions_and_several_to_list_mle() -> None:
    score = np.array([0.3, 1.1, -0.4])
    swapped = score[[1, 0, 2]]
    lists = one_list([1, 1, 0])
    assert run("full_partitions", score, lists)[0] == pytest.approx(
        run("full_partitions", swapped, lists)[0], rel=1e-14
    )
    assert run("list_mle", score, lists)[0] != pytest.approx(run("list_mle", swapped, lists)[0], rel=1e-3)
    # Without ties they are the same.
    apart = one_list([2, 1, 0])
    assert run("full_partitions", score, apart)[0] == run("list_mle", score, apart)[0]


@pytest.mark.parametrize("name", ["hinge", "quadratic", *STAGES])
def test_a_hundred_thousand_rows(name: str) -> None:
    rng = np.random.default_rng(0)
    n = 100_000
    label = np.sort(rng.integers(0, 5, n))[::-1].astype(np.float64)
    score = rng.normal(size=n) + label
    value, slope, _ = run(name, score, one_list(label))
    assert np.isfinite(value)
    assert abs(slope.sum()) < 1e-9 * np.abs(slope).sum()
    # A step along the slope costs what the slope says.
    step = 1e-6 * slope / np.abs(slope).max()
    change = run(name, score + step, one_list(label))[0] - run(name, score - step, one_list(label))[0]
    assert change == pytest.approx(2 * float(slope @ step), rel=1e-3)
    if name == "quadratic":
        sums = [(len(s), s.sum(), (s * s).sum()) for s in (score[label == v] for v in range(5))]
        total = 0.0
        for high in range(5):
            for low in range(high):
                (m, a, aa), (k, b, bb) = sums[high], sums[low]
                total += m * k - 2 * (k * a - m * b) + k * aa - 2 * a * b + m * bb
        assert value == pytest.approx(total, rel=1e-11)


def test_naming_the_losses_needs_no_compiler() -> None:
    code = "import sys, concordant.ranking.losses; sys.exit('numba' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
