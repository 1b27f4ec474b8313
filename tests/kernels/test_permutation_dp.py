"""Expected metrics of random orders against all orders written out, differences of values, and laws of large cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import crf as oracle

from concordant.kernels import permutation_dp
from concordant.kernels.permutation_dp import LARGEST, METRICS, expected, workspace_for

NAMES = ["ndcg", "err", "ap", "p", "rr", "kendall"]


def expected_metric(
    f: np.ndarray,
    metric: str,
    gain: np.ndarray,
    label: np.ndarray | None = None,
    *,
    cutoff: int = 0,
    scale: float = 1.0,
) -> tuple[float, np.ndarray]:
    """Return E[G] and its gradient in f."""
    grad, known = np.empty(len(f)), gain if label is None else label
    value = expected(len(f), f, scale, METRICS[metric], gain, known, cutoff, grad, *workspace_for(len(f)))
    return float(value), grad


def gains(name: str, label: np.ndarray) -> np.ndarray:
    """Return what the kernel wants to be told about labels from 0 to 4."""
    if name == "ndcg":
        return 2.0**label - 1
    if name == "err":
        return (2.0**label - 1) / 2.0**4
    return (label >= 1).astype(float)


def written_out(name: str, gain: np.ndarray, label: np.ndarray, cutoff: int) -> oracle.Metric:
    if name == "kendall":
        return oracle.kendall(label.tolist())
    of = {"ndcg": oracle.ndcg, "err": oracle.err, "ap": oracle.ap, "p": oracle.precision, "rr": oracle.rr}[name]
    return of(gain.tolist(), cutoff)


@st.composite
def cases(draw: Any, most: int) -> tuple[str, np.ndarray, np.ndarray, int, float]:
    n = draw(st.integers(1, most))
    size = draw(st.sampled_from([0.1, 1.0, 10.0]))
    values = st.floats(-1, 1, allow_subnormal=False) | st.sampled_from([0.0, 0.5])
    f = size * np.array(draw(st.lists(values, min_size=n, max_size=n)))
    whole = st.integers(0, 4).map(float)
    label = np.array(draw(st.lists(whole | st.floats(0, 4, allow_subnormal=False), min_size=n, max_size=n)))
    return draw(st.sampled_from(NAMES)), f, label, draw(st.integers(0, n + 2)), draw(st.sampled_from([1.0, 1 / n**2]))


@settings(max_examples=150)
@given(cases(7))
def test_sums_over_sets_are_sums_over_all_orders(case: tuple[str, np.ndarray, np.ndarray, int, float]) -> None:
    name, f, label, cutoff, scale = case
    gain = gains(name, label)
    value, slope = expected_metric(f, name, gain, label, cutoff=cutoff, scale=scale)
    right, right_slope = oracle.expected(f.tolist(), written_out(name, gain, label, cutoff), scale)
    assert value == pytest.approx(right, abs=1e-13)
    np.testing.assert_allclose(slope, right_slope, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_seven_items_of_three_labels(name: str) -> None:
    f, label = np.array([0.3, -1.0, 2.0, 0.3, -0.2, 1.1, 0.0]), np.array([1.0, 0, 2, 0, 0, 1, 2])
    gain = gains(name, label)
    value, slope = expected_metric(f, name, gain, label, cutoff=4)
    right, right_slope = oracle.expected(f.tolist(), written_out(name, gain, label, 4))
    assert value == pytest.approx(right, abs=1e-14)
    np.testing.assert_allclose(slope, right_slope, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [2, 5, 9, 12])
def test_slopes_are_those_of_the_value(name: str, n: int) -> None:
    rng = np.random.default_rng(n)
    f, label = rng.normal(size=n), rng.integers(0, 3, n).astype(float)
    label[:2] = [2.0, 0.0]
    gain = gains(name, label)
    _, slope = expected_metric(f, name, gain, label, cutoff=4)
    step = 1e-4
    for i in range(n):
        up, down = f.copy(), f.copy()
        up[i] += step
        down[i] -= step
        of = [expected_metric(x, name, gain, label, cutoff=4)[0] for x in (up, down)]
        assert slope[i] == pytest.approx((of[0] - of[1]) / (2 * step), rel=1e-6, abs=1e-10)
    assert slope.sum() == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [500.0, 1e4, 1e6])
def test_large_potentials_are_summed_as_their_logarithms_are(name: str, size: float) -> None:
    rng = np.random.default_rng(3)
    for n in (3, 6):
        label = rng.integers(0, 3, n).astype(float)
        label[0] = 1.0
        gain = gains(name, label)
        metric = written_out(name, gain, label, 3)
        # Far apart, then in two heaps that are far apart and close within.
        for f in (size * rng.normal(size=n), size * rng.integers(0, 2, n) + rng.normal(size=n)):
            value, slope = expected_metric(f, name, gain, label, cutoff=3)
            right, right_slope = oracle.expected(f.tolist(), metric)
            assert value == pytest.approx(right, abs=1e-9)
            np.testing.assert_allclose(slope, right_slope, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_sixteen_items_in_the_order_that_large_potentials_leave(name: str) -> None:
    rng = np.random.default_rng(5)
    f, label = 1e5 * rng.permutation(LARGEST).astype(float), rng.integers(0, 3, LARGEST).astype(float)
    gain = gains(name, label)
    value, slope = expected_metric(f, name, gain, label, cutoff=10)
    assert value == pytest.approx(written_out(name, gain, label, 10)(np.argsort(-f).tolist()), abs=1e-12)
    np.testing.assert_allclose(slope, 0, atol=1e-12)


def test_sixteen_items_of_one_potential_are_in_any_order() -> None:
    f, gain = np.full(LARGEST, 7.0), np.arange(LARGEST) % 3 - 0.5
    d = 1 / np.log2(np.arange(LARGEST) + 2.0)
    ideal = np.sort(gain)[::-1][:9] @ d[:9]
    value, slope = expected_metric(f, "ndcg", gain, cutoff=9)
    assert value == pytest.approx(gain.mean() * d[:9].sum() / ideal, rel=1e-13)
    # Of a random permutation, Cov(d_pos(i), c_pos(j)) is −1 / (n − 1) of the covariance over positions, i ≠ j.
    cut, c = np.where(np.arange(LARGEST) < 9, d, 0.0), d / np.log(2)
    shared = (cut * c).mean() - cut.mean() * c.mean()
    right = (gain - (gain.sum() - gain) / (LARGEST - 1)) * shared / ideal
    np.testing.assert_allclose(slope, right, rtol=1e-11)


def test_sixteen_items_have_the_slopes_of_the_value() -> None:
    rng = np.random.default_rng(8)
    f, label = rng.normal(size=LARGEST), rng.integers(0, 3, LARGEST).astype(float)
    for name in ("err", "kendall"):
        gain = gains(name, label)
        _, slope = expected_metric(f, name, gain, label)
        move = rng.normal(size=LARGEST)
        of = [expected_metric(f + s * move, name, gain, label)[0] for s in (1e-4, -1e-4)]
        assert slope @ move == pytest.approx((of[0] - of[1]) / 2e-4, rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_one_item_and_two(name: str) -> None:
    value, slope = expected_metric(np.array([3.0]), name, np.array([1.0]), np.array([1.0]), cutoff=2)
    assert value == pytest.approx({"p": 0.5, "kendall": 0.0}.get(name, 1.0))
    assert slope.tolist() == [0.0]
    f, gain = np.array([1.0, 0.25]), np.array([0.0, 1.0])
    c = 1 / np.log(2) - 1 / np.log(3)
    p = 1 / (1 + np.exp(0.75 * c))
    first, second = {"ndcg": (1, np.log(2) / np.log(3)), "kendall": (1, 0), "p": (0.5, 0.5)}.get(name, (1, 0.5))
    value, slope = expected_metric(f, name, gain, gain)
    assert value == pytest.approx(p * first + (1 - p) * second)
    np.testing.assert_allclose(slope, np.array([-1, 1]) * p * (1 - p) * c * (first - second), atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_where_nothing_can_be_gained_value_and_slope_are_0(name: str) -> None:
    value, slope = expected_metric(np.array([3.0, 1.0, 2.0]), name, np.zeros(3), np.ones(3))
    assert value == 0.0
    assert slope.tolist() == [0.0] * 3
    assert expected_metric(np.zeros(0), name, np.zeros(0))[0] == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1.7e308])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_potentials_that_are_not_finite_give_nan_and_no_slope(bad: float, place: int) -> None:
    f = np.array([1.0, -1.5e308, 2.0])
    f = np.insert(f, place, bad)
    value, slope = expected_metric(f, "ndcg", np.array([0.0, 1.0, 0.0, 1.0]))
    assert np.isnan(value)
    assert slope.tolist() == [0.0] * 4


def test_gains_may_be_huge_and_below_zero() -> None:
    f, gain = np.array([0.5, 0.0, -0.3]), np.array([1.0, 3.0, -0.5])
    value, slope = expected_metric(f, "ndcg", gain)
    right, right_slope = oracle.expected(f.tolist(), oracle.ndcg(gain.tolist(), 0))
    assert value == pytest.approx(right, rel=1e-13)
    np.testing.assert_allclose(slope, right_slope, rtol=1e-12)
    large, large_slope = expected_metric(f, "ndcg", gain * 4e307)
    assert large == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(large_slope, slope, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_items_changes_nothing(name: str) -> None:
    rng = np.random.default_rng(11)
    f, label = rng.normal(size=8), rng.integers(0, 3, 8).astype(float)
    gain = gains(name, label)
    value, slope = expected_metric(f, name, gain, label)
    turn = rng.permutation(8)
    turned, turned_slope = expected_metric(f[turn], name, gain[turn], label[turn])
    assert turned == pytest.approx(value, abs=1e-16)
    np.testing.assert_allclose(turned_slope, slope[turn], rtol=1e-14, atol=1e-17)


def _model(given: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return f, φ, row and col of a golden case, from the table of pairs."""
    R = np.array(given["R"], dtype=float)
    phi, row, col = (np.zeros_like(R) for _ in range(3))
    for k in range(R.shape[1]):
        y = oracle.pairs(R[:, k], given["transform"])
        phi[:, k], row[:, k], col[:, k] = R[:, k] == 0, y.sum(axis=1), y.sum(axis=0)
    f = phi @ given["alpha"] + row @ given["beta_pos"] - col @ given["beta_neg"]
    return f, phi, row, col


def test_golden_expected_metrics_and_slopes(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("10_crf_expected_metrics")
    tol = content["abs_tol"]
    for case in content["cases"]:
        given, right = case["input"], case["expected"]
        f, phi, row, col = _model(given)
        f = f * given["scale"]
        n, label = len(f), np.array(given["labels"], dtype=float)
        rel, chance = (label >= 1).astype(float), (2**label - 1) / 4
        pairs = sum(a > b for a in label for b in label)
        asked = {
            "ndcg@1": ("ndcg", 2**label - 1, 1),
            "ndcg@3": ("ndcg", 2**label - 1, 3),
            "ndcg@5": ("ndcg", 2**label - 1, 5),
            "err_gmax2": ("err", chance, 0),
            "p@3_lenient": ("p", rel, 3),
            "ap_lenient": ("ap", rel, 0),
            "kendall_discordant": ("kendall", rel, 0),
        }
        assert set(asked) | {"log_Z", "position_marginals"} == set(right)
        for key, (name, gain, cutoff) in asked.items():
            value, slope = expected_metric(f, name, gain, label, cutoff=cutoff, scale=1 / n**2)
            if name == "kendall":
                value, slope = pairs * (1 - value), -pairs * slope
            assert value == pytest.approx(right[key]["expected_value"], abs=tol)
            np.testing.assert_allclose(slope, right[key]["grad_f"], rtol=0, atol=tol)
            carried = given["scale"] * slope
            np.testing.assert_allclose(carried @ phi, right[key]["grad_alpha"], rtol=0, atol=tol)
            np.testing.assert_allclose(carried @ row, right[key]["grad_beta_pos"], rtol=0, atol=tol)
            np.testing.assert_allclose(-carried @ col, right[key]["grad_beta_neg"], rtol=0, atol=tol)
        assert oracle.law(f.tolist(), 1 / n**2)[2] == pytest.approx(right["log_Z"], abs=tol)
        # With one relevant item, T times P@T is the chance that it is among the first T.
        among = [
            [t * expected_metric(f, "p", e, cutoff=t, scale=1 / n**2)[0] for e in np.eye(n)] for t in range(1, n + 1)
        ]
        marginals = np.diff(np.array(among), axis=0, prepend=0)
        np.testing.assert_allclose(marginals, right["position_marginals"], rtol=0, atol=tol)


def test_codes_and_room() -> None:
    assert sorted(METRICS) == sorted(NAMES)
    assert METRICS["rr"] == permutation_dp.ERR
    assert len(workspace_for(LARGEST).sets) == 4 << LARGEST
