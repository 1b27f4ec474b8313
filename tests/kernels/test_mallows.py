"""Laws of Mallows models against enumeration, and chains against the odds they are meant to keep."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.oracles import mallows as oracle

from concordant.kernels import mallows
from concordant.kernels import mallows_chain as chain

Golden = Callable[[str], dict[str, Any]]
THETAS = (-3.0, -0.6, -0.05, -1e-6, 0.0)


def arrays(*values: int) -> list[NDArray[np.int64]]:
    return [np.array([v]) for v in values]


def slope(f: Callable[[float], float], theta: float, step: float = 1e-5) -> float:
    return (f(theta + step) - f(theta - step)) / (2 * step)


def cut_expectation(theta: float, listed: Any, cut: Any, common: Any, printed: bool = False) -> Any:
    """Return the expected distance of lists to the first `cut` places of a ranking, given the number of common items.

    With `printed` as if the places of the foreign items were independent, else with all interleavings equally likely.
    """
    e = mallows.expected_distances(theta, int(cut.max()) + 1)
    foreign = cut - common
    mixed = foreign * (e[common + 1] - e[common]) if printed else e[cut] - e[common] - e[foreign]
    return mallows.overlap_distance(listed, cut, common) + mixed + e[listed] - e[listed - common]


def cut_log_normaliser(theta: float, listed: Any, cut: Any, common: Any) -> Any:
    """Return the log of the sum of exp(θ d) over the lists with this number of common items and given foreign ones."""
    f, plain = mallows.log_factorials(theta, int(cut.max())), mallows.log_factorials(0.0, int(cut.max()))
    r = listed - common
    between = f[cut] - f[common] - f[cut - common]
    return theta * mallows.overlap_distance(listed, cut, common) + between + f[listed] - f[r] + plain[r]


class Lists:
    """Lists of groups in the arrays of the kernels."""

    def __init__(self, n: int, lists: list[list[list[int]]]) -> None:
        rows = [(i, x, g) for i, groups in enumerate(lists) for g, group in enumerate(groups) for x in group]
        own = np.array([r[0] for r in rows], dtype=np.int32)
        self.n = n
        self.item = np.array([r[1] for r in rows], dtype=np.int32)
        self.group = np.array([r[2] for r in rows], dtype=np.int32)
        self.offsets = np.searchsorted(own, np.arange(len(lists) + 1)).astype(np.int64)
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(self.item, minlength=n))]).astype(np.int64)
        self.lists = own[np.argsort(self.item, kind="stable")]
        self.length = len(lists)

    def distances(self, order: Any, k: int, below: bool) -> tuple[list[float], list[int]]:
        place = np.empty(self.n, dtype=np.int64)
        place[list(order)] = np.arange(self.n)
        out, common = np.zeros(self.length), np.zeros(self.length, dtype=np.int64)
        tree = np.zeros(k + 1, dtype=np.int64)
        chain.distances(place, k, self.item, self.group, self.offsets, below, tree, out, common)
        return out.tolist(), common.tolist()

    def energies(self, u: NDArray[np.float64], below: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        c, rows = np.empty((self.n, self.n, 2)), np.empty(self.n)
        chain.pair_energies(self.item, self.group, self.offsets, u, below, c, rows)
        return c, rows

    def outside(self, order: Any, k: int) -> NDArray[np.int64]:
        held = np.isin(self.item, list(order[k:]))
        return np.add.reduceat(held, self.offsets[:-1]).astype(np.int64)


@st.composite
def problems(draw: st.DrawFn, most: int = 6) -> tuple[int, int, list[list[list[int]]], bool]:
    """Draw a number of items, of places that count, lists that fit in them, and whether what is left out is below."""
    n = draw(st.integers(1, most))
    k = draw(st.integers(1, n))
    below = draw(st.booleans()) or k < n
    lists = []
    for _ in range(draw(st.integers(1, 4))):
        items = draw(st.permutations(range(n)))[: draw(st.integers(1, k))]
        level = np.cumsum([0] + [draw(st.integers(0, 1)) for _ in items[1:]]).tolist()
        lists.append([[x for x, g in zip(items, level, strict=True) if g == j] for j in range(level[-1] + 1)])
    return n, k, lists, below


def test_worked_cases_of_rankings(golden: Golden) -> None:
    content = golden("13_mallows_expectations")
    for case in content["cases"]:
        n, expected = case["input"]["n"], case["expected"]
        if "theta" in case["input"]:
            theta = case["input"]["theta"]
            assert mallows.expected_distances(theta, n)[-1] == pytest.approx(expected["E_D"], abs=content["abs_tol"])
            assert mallows.log_factorials(theta, n)[-1] == pytest.approx(expected["log_Z"], abs=content["abs_tol"])
        else:
            mean = case["input"]["mean_distance"]
            found = mallows.solve_theta(lambda t: float(mallows.expected_distances(t, n)[-1]), mean)  # noqa: B023
            assert found == pytest.approx(expected["theta"], abs=content["abs_tol"])


def test_worked_cases_of_top_k_lists(golden: Golden) -> None:
    content = golden("14_topk_expectations")
    near = {"abs": content["abs_tol"]}
    for case in content["cases"]:
        given_, expected, theta = case["input"], case["expected"], case["input"]["theta"]
        k = given_["k"]
        if "z" in given_:
            of = arrays(k, k, given_["z"])
            assert cut_expectation(theta, *of)[0] == pytest.approx(expected["E_corrected"], **near)
            printed = cut_expectation(theta, *of, printed=True)[0]
            assert printed == pytest.approx(expected["E_printed_eq10"], **near)
            found = cut_log_normaliser(theta, *of)[0]
            assert found == pytest.approx(expected["log_partition_given_z"], **near)
        else:
            found = mallows.pool_moments(theta, *arrays(k, k, given_["n"]))[0][0]
            assert found == pytest.approx(expected["log_partition_all_lists"], **near)


def test_worked_laws_of_distances(golden: Golden) -> None:
    content = golden("29_mallows_distance_distribution")
    near = {"abs": content["abs_tol"]}
    for case in content["cases"]:
        theta, n = case["input"]["theta"], case["input"]["n"]
        k = case["input"].get("k", n)
        counts = {int(d): c for d, c in case["expected"]["counts"].items()}
        weight = {d: c * math.exp(theta * d) for d, c in counts.items()}
        log_sum, mean = (v[0] for v in mallows.pool_moments(theta, *arrays(k, k, n)))
        assert log_sum == pytest.approx(math.log(sum(weight.values())), **near)
        assert mean == pytest.approx(sum(d * w for d, w in weight.items()) / sum(weight.values()), **near)
        assert {d: w / math.exp(log_sum) for d, w in weight.items()} == pytest.approx(
            {int(d): p for d, p in case["expected"]["prob"].items()}, **near
        )
        if "E_D" in case["expected"]:
            assert mean == pytest.approx(case["expected"]["E_D"], **near)


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (2, 2, 4), (2, 3, 5), (3, 3, 5), (1, 4, 5), (3, 5, 5), (2, 4, 6)])
def test_laws_of_cut_lists_are_those_of_enumeration(m: int, k: int, n: int, theta: float) -> None:
    # A list shorter than the cut, an item of the pool that stands in neither, a list that leaves nothing out.
    for z in range(max(0, m - (n - k)), m + 1):
        log_sum, mean = oracle.law(theta, [1] * m, k, n, z)
        ways = math.log(math.comb(n - k, m - z))
        assert cut_expectation(theta, *arrays(m, k, z))[0] == pytest.approx(mean, abs=1e-9)
        assert cut_log_normaliser(theta, *arrays(m, k, z))[0] + ways == pytest.approx(log_sum, abs=1e-9)
    got = [v[0] for v in mallows.pool_moments(theta, *arrays(m, k, n))]
    assert got == pytest.approx(oracle.law(theta, [1] * m, k, n), abs=1e-9)


@pytest.mark.parametrize("theta", [-2.0, -0.3, 0.0])
@pytest.mark.parametrize("sizes", [(2,), (1, 2), (2, 1), (2, 2), (1, 1, 2), (3, 1), (1, 1, 1)])
def test_laws_of_tied_lists_are_those_of_enumeration(sizes: tuple[int, ...], theta: float) -> None:
    m, k, n = sum(sizes), sum(sizes), 6
    tables = (mallows.log_factorials(theta, m), mallows.log_factorials(0.0, m), mallows.expected_distances(theta, m))
    log_sum, mean = np.empty(m + 1), np.empty(m + 1)
    chain.tied_moments(theta, np.array(sizes, dtype=np.int64), *tables, log_sum, mean)
    f, e = mallows.log_factorials(theta, n), mallows.expected_distances(theta, n)
    for r in range(min(m, n - k) + 1):
        z = m - r
        constant = mallows.overlap_distance(*arrays(m, k, z))[0]
        want_sum, want_mean = oracle.law(theta, sizes, k, n, z)
        ways = math.log(math.comb(n - k, r))
        assert theta * constant + f[k] - f[z] - f[k - z] + log_sum[r] + ways == pytest.approx(want_sum, abs=1e-9)
        assert constant + e[k] - e[z] - e[k - z] + mean[r] == pytest.approx(want_mean, abs=1e-9)
    got = mallows.pool_moments(theta, *arrays(m, k, n), (log_sum[None, :], mean[None, :]))
    assert [v[0] for v in got] == pytest.approx(oracle.law(theta, sizes, k, n), abs=1e-9)


@pytest.mark.parametrize("theta", [-30.0, -0.5, 0.0])
def test_law_of_a_list_without_ties_is_the_closed_form_for_any_length(theta: float) -> None:
    m = 400
    f, plain, e = mallows.log_factorials(theta, m), mallows.log_factorials(0.0, m), mallows.expected_distances(theta, m)
    log_sum, mean = np.empty(m + 1), np.empty(m + 1)
    chain.tied_moments(theta, np.ones(m, dtype=np.int64), f, plain, e, log_sum, mean)
    r = np.arange(m + 1)
    np.testing.assert_allclose(log_sum, f[m] - f[r] + plain[r], rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(mean, e[m] - e[r], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("theta", [-5.0, -0.4, -0.02, -0.004, -1e-4])
def test_expected_distances_are_the_slopes_of_log_normalisers(theta: float) -> None:
    # 0.05 / n is where the series takes over.
    for n in (1, 2, 7, 60):
        want = slope(lambda t: float(mallows.log_factorials(t, n)[-1]), theta, 1e-6 * max(1.0, -theta))  # noqa: B023
        assert mallows.expected_distances(theta, n)[-1] == pytest.approx(want, rel=1e-6, abs=1e-8)
    for of in (arrays(4, 6, 1), arrays(5, 5, 3), arrays(6, 6, 0)):
        want = slope(lambda t: float(cut_log_normaliser(t, *of)[0]), theta)  # noqa: B023
        assert cut_expectation(theta, *of)[0] == pytest.approx(want, rel=1e-6)
    of = arrays(4, 6, 11)
    want = slope(lambda t: float(mallows.pool_moments(t, *of)[0][0]), theta)
    assert mallows.pool_moments(theta, *of)[1][0] == pytest.approx(want, rel=1e-6)


def test_expected_distance_rises_with_theta_from_none_to_that_of_chance() -> None:
    n = 200
    value = [mallows.expected_distances(t, n)[-1] for t in (-30.0, -5.0, -1.0, -0.1, -1e-3, -1e-8, 0.0)]
    assert value == sorted(value)
    assert value[0] == pytest.approx((n - 1) * math.exp(-30), rel=1e-6)
    assert value[-1] == pytest.approx(n * (n - 1) / 4, rel=1e-12)
    assert value[-2] == pytest.approx(value[-1], rel=1e-6)


def test_solving_undoes_the_expectation_and_stops_at_the_ends() -> None:
    def mean(theta: float) -> float:
        return float(mallows.expected_distances(theta, 12)[-1])

    for theta in (-20.0, -1.3, -0.01, -1e-5):
        for near in (0.0, theta, 1.7 * theta, 10 * theta, -29.0):
            assert mallows.solve_theta(mean, mean(theta), near) == pytest.approx(theta, rel=1e-6)
    assert mallows.solve_theta(mean, 33.0) == mallows.solve_theta(mean, 50.0) == 0.0
    assert mallows.solve_theta(mean, 0.0) == mallows.LEAST_THETA


@pytest.mark.parametrize("theta", [-2.0, -0.3, -1e-7, 0.0])
def test_mean_positions_are_those_of_all_rankings(theta: float) -> None:
    for n in (0, 1, 2, 5):
        want, total = np.zeros(n), 0.0
        for order in permutations(range(n)):
            odds = math.exp(theta * oracle.distance(range(n), n, [[x] for x in order]))
            total += odds
            want[list(order)] += odds * np.arange(1, n + 1)
        np.testing.assert_allclose(mallows.mean_positions(theta, n), want / total, rtol=0, atol=1e-9)


@pytest.mark.parametrize("theta", [-1.0, 0.0])
def test_rankings_are_drawn_with_their_probabilities(theta: float) -> None:
    rng, draws = np.random.default_rng(5), 6000
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(draws):
        order = tuple(mallows.sample_order(4, theta, rng))
        seen[order] = seen.get(order, 0) + 1
    log_sum = mallows.log_factorials(theta, 4)[-1]
    chi = 0.0
    for order in permutations(range(4)):
        want = draws * math.exp(theta * oracle.distance(range(4), 4, [[x] for x in order]) - log_sum)
        chi += (seen.get(order, 0) - want) ** 2 / want
    assert chi < 50  # 23 degrees of freedom: one seed in a thousand is above


@given(problems(), st.randoms(use_true_random=False))
def test_distances_are_counted_pairs(problem: tuple[int, int, list[list[list[int]]], bool], random: Any) -> None:
    n, k, groups, below = problem
    lists = Lists(n, groups)
    order = random.sample(range(n), n)
    got, common = lists.distances(order, k, below)
    assert got == [oracle.distance(order, k, g, below) for g in groups]
    assert common == [oracle.common(order, k, g) for g in groups]


def test_distances_of_top_k_lists_are_the_worked_ones(golden: Golden) -> None:
    for case in golden("12_kendall_topk")["cases"]:
        if "pi_best_first" not in case["input"]:
            continue
        first, second = case["input"]["pi_best_first"], case["input"]["sigma_best_first"]
        n, k = max(first + second) + 1, len(first)
        order = first + [x for x in range(n) if x not in first]
        got, common = Lists(n, [[[x] for x in second]]).distances(order, k, True)
        assert got == [case["expected"]["distance"]]
        assert common == [case["expected"]["z"]]


@given(problems(), st.randoms(use_true_random=False))
def test_energies_of_pairs_add_up_to_those_of_lists(
    problem: tuple[int, int, list[list[list[int]]], bool], random: Any
) -> None:
    n, k, groups, below = problem
    u = np.array([-random.random() for _ in groups])
    lists = Lists(n, groups)
    c, rows = lists.energies(u, below)
    np.testing.assert_array_equal(c[:, :, 0], c[:, :, 1].T)
    order = random.sample(range(n), n)
    found = sum(rows[order[p]] - sum(c[order[p], order[q], 0] for q in range(p)) for p in range(k))
    r = lists.outside(order, k) if below else np.zeros(len(u))
    found -= float(u @ (r * (r - 1) / 2))
    want = sum(w * oracle.distance(order, k, g, below) for w, g in zip(u, groups, strict=True))
    assert found == pytest.approx(want, abs=1e-9)


@given(problems(), st.randoms(use_true_random=False))
def test_moves_gain_the_difference_of_energies(
    problem: tuple[int, int, list[list[list[int]]], bool], random: Any
) -> None:
    n, k, groups, below = problem
    u = np.array([-random.random() for _ in groups])
    lists = Lists(n, groups)
    c, rows = lists.energies(u, below)

    def energy(order: Any) -> float:
        return sum(w * oracle.distance(order, k, g, below) for w, g in zip(u, groups, strict=True))

    before = random.sample(range(n), n)
    if n > 1:
        a, b = sorted(random.sample(range(n), 2))
        for chance in (0.0, 1.0 - 1e-12):
            order, r = np.array(before, dtype=np.int32), lists.outside(before, k)
            gain = chain._swap(c, rows, order, k, lists.starts, lists.lists, u, r, a, b, chance)
            swapped = before.copy()
            swapped[a], swapped[b] = before[b], before[a]
            better = energy(swapped) - energy(before)
            taken = order.tolist() == swapped
            assert taken == (chance == 0.0 or better >= -1e-12)
            assert gain == pytest.approx(better if taken else 0.0, abs=1e-9)
            np.testing.assert_array_equal(r, lists.outside(order.tolist(), k))
    # The heat bath takes each place as often as its odds say: chance runs evenly over [0, 1).
    a, grid = random.randrange(k), 500
    seen = np.zeros(k)
    room = np.empty(k + 1)
    for step in range(grid):
        order = np.array(before, dtype=np.int32)
        gain = chain._insert(c, order, k, a, (step + 0.5) / grid, room)
        assert gain == pytest.approx(energy(order.tolist()) - energy(before), abs=1e-9)
        assert order[k:].tolist() == before[k:]
        seen[order.tolist().index(before[a])] += 1
    others = [x for p, x in enumerate(before) if p != a]
    odds = np.array([math.exp(energy([*others[:p], before[a], *others[p:]])) for p in range(k)])
    np.testing.assert_allclose(seen / grid, odds / odds.sum(), rtol=0, atol=1.01 / grid)


@given(problems())
def test_exact_sums_are_those_of_all_rankings(problem: tuple[int, int, list[list[list[int]]], bool]) -> None:
    n, k, groups, below = problem
    u = -np.linspace(0.1, 1.7, len(groups))
    lists = Lists(n, groups)
    c, rows = lists.energies(u, below)
    distance, position = np.zeros(len(u)), np.zeros(n)
    common = np.zeros((len(u), k + 1))
    log_sum = chain.exact_posterior(
        c, rows, k, lists.item, lists.group, lists.offsets, u, below, distance, common, position
    )
    want = oracle.Posterior(n, k, groups, u.tolist(), below)
    assert log_sum + math.lgamma(n - k + 1) == pytest.approx(want.log_sum, abs=1e-9)
    assert distance.tolist() == pytest.approx(want.mean_distances(), abs=1e-9)
    assert position.tolist() == pytest.approx(want.mean_positions(), abs=1e-9)
    for i in range(len(u)):
        assert common[i].tolist() == pytest.approx(want.law_of_common(i), abs=1e-9)


@pytest.mark.parametrize("swaps", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_chains_visit_states_as_often_as_their_odds_say(k: int, swaps: bool) -> None:
    n, groups = 4, [[[0], [1], [2], [3]], [[2, 0], [3]], [[1]]]
    groups = [[g for level, g in enumerate(one) if sum(map(len, one[: level + 1])) <= k] for one in groups]
    groups = [one for one in groups if one]
    u = np.array([-0.9, -0.5, -0.7])[: len(groups)]
    lists = Lists(n, groups)
    c, rows = lists.energies(u, True)
    rng = np.random.default_rng(3)
    order = np.array([3, 2, 1, 0], dtype=np.int32)
    moves, every = 40_000, 2
    distance, energy = np.zeros(len(u)), np.zeros(moves // every)
    common, total = np.zeros((len(u), k + 1)), np.zeros(n)
    square, inside, best = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int32)
    highest, moved = chain.run_chain(
        c, rows, order, k, lists.item, lists.group, lists.offsets, lists.starts, lists.lists, u, True, swaps,
        rng.random((moves, 3)), every, distance, common, energy, total, square, inside, best,
    )  # fmt: skip
    want = oracle.Posterior(n, k, groups, u.tolist())
    records = moves // every
    # Standard errors are below 0.02 here; autocorrelated records are why 0.06 and not 0.04.
    np.testing.assert_allclose(distance / records, want.mean_distances(), rtol=0, atol=0.06)
    for i in range(len(u)):
        np.testing.assert_allclose(common[i] / records, want.law_of_common(i), rtol=0, atol=0.02)
    place = total / records + (1 - inside / records) * (k + 1 + n) / 2
    np.testing.assert_allclose(place, want.mean_positions(), rtol=0, atol=0.06)
    mean_square = sum(
        p * np.array([(o.index(x) + 1) ** 2 * (o.index(x) < k) for x in range(n)])
        for p, o in zip(want.probability, want.orders, strict=True)
    )
    np.testing.assert_allclose(square / records, mean_square, rtol=0, atol=0.3)
    assert highest == energy.max()
    assert highest == pytest.approx(max(want.energy), abs=1e-9)
    assert oracle.distance(best.tolist(), k, groups[0]) == lists.distances(best.tolist(), k, True)[0][0]
    assert sum(w * oracle.distance(best.tolist(), k, g) for w, g in zip(u, groups, strict=True)) == pytest.approx(
        highest, abs=1e-9
    )
    assert 0 < moved <= moves
