"""Robust rank aggregation and Stuart's statistic against R, brute force, other recursions and simulations."""

from __future__ import annotations

import json
import math
import warnings
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.aggregators.common import assert_scores, instances_of
from tests.data.strategies import Rows, preference_rows
from tests.oracles import methods as oracle

import concordant as cc
from concordant.arrays import Floats
from concordant.base.contract import Aggregator
from concordant.errors import DataError, DataWarning, ParameterError
from concordant.kernels.order_statistics import (
    log_beta_quantile,
    log_crossing,
    log_joint_cdf,
    log_poisson_binomial_tail,
)
from concordant.metrics.significance import false_discovery_rates

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "robust_rank_aggreg.json"
LISTS = {"x": ["a", "b", "c", "d"], "y": ["a", "c"], "z": ["d", "a"]}


def fitted(method: Aggregator, p: cc.Preferences) -> cc.Consensus:
    """Return the consensus without the hint at `total`, which has tests of its own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DataWarning, message=".*total is not given")
        return method.fit_predict(p)


@given(
    preference_rows(),
    st.sampled_from(["last", "ignore"]),
    st.sampled_from([None, 8, 1000]),
    st.sampled_from(["sidak", "bonferroni"]),
)
def test_scores_are_p_values_of_order_statistics(rows: Rows, missing: str, total: int | None, correction: str) -> None:
    for p, items, lists in instances_of(rows):
        got = fitted(cc.RobustRank(missing=missing, total=total, correction=correction), p)
        assert_scores(got, oracle.robust(items, lists, missing, total, correction))


def test_no_p_value_is_above_1_and_no_order_is_lost() -> None:
    order = [f"i{i:02}" for i in range(20)]
    p = cc.from_lists({f"e{k}": order for k in range(5)})
    got = cc.RobustRank().fit_predict(p)
    assert (10**-got.score).max() <= 1.0
    assert got.ranking() == order
    assert len(set(got.rank.tolist())) == 20


def test_r_s_rho_is_had_by_name_and_ties_what_shows_nothing() -> None:
    # RobustRankAggreg's rhoScores of the ranks of one item over 5 lists is min(1, 5 · smallest beta probability).
    order = [f"i{i:02}" for i in range(20)]
    p = cc.from_lists({f"e{k}": order for k in range(5)})
    rho = [min(1.0, 5 * min(stats.beta.cdf((i + 1) / 20, k, 6 - k) for k in range(1, 6))) for i in range(20)]
    got = cc.RobustRank(correction="bonferroni").fit_predict(p)
    np.testing.assert_allclose(10**-got.score, rho, rtol=1e-12)
    assert rho.count(1.0) > 1
    assert (got.rank == got.rank.max()).sum() == rho.count(1.0)


def test_the_corrected_p_value_is_not_below_the_chance_it_bounds() -> None:
    rng = np.random.default_rng(0)
    ranks = np.sort(rng.random((200_000, 5)), axis=1)
    smallest = stats.beta.cdf(ranks, np.arange(1, 6), np.arange(5, 0, -1)).min(axis=1)
    for level in (0.01, 0.05, 0.3, 0.8):
        bound = 1 - (1 - level) ** (1 / 5)
        assert (smallest <= bound).mean() < level + 3 * math.sqrt(level * (1 - level) / len(ranks))


def test_the_paper_s_correction_by_hand() -> None:
    # Three lists over four items: rho of a = 3 * min(P(min <= 1/4), ..., P(max <= 1/2)).
    p = cc.from_lists({"x": ["a", "b", "c", "d"], "y": ["a", "c", "b", "d"], "z": ["d", "a", "b", "c"]})
    r = [0.25, 0.25, 0.5]
    beta = [1 - (1 - r[0]) ** 3, 3 * r[1] ** 2 - 2 * r[1] ** 3, r[2] ** 3]
    rho = cc.RobustRank(correction="bonferroni").fit_predict(p).score[0]
    assert rho == pytest.approx(-math.log10(3 * min(beta)), abs=1e-12)
    assert cc.RobustRank().fit_predict(p).score[0] == pytest.approx(-math.log10(1 - (1 - min(beta)) ** 3), abs=1e-12)


def test_p_values_far_below_the_smallest_float_still_differ() -> None:
    lists = {f"e{k}": [f"i{i}" for i in range(5)] for k in range(400)}
    p = cc.from_lists(lists)
    got = cc.RobustRank(total=10**6).fit_predict(p).score
    # All ranks equal r: the largest order statistic decides, with probability r^K.
    want = [-(math.log10(400) + 400 * math.log10((i + 1) / 10**6)) for i in range(5)]
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_a_total_smaller_than_an_instance_is_refused() -> None:
    p = cc.from_lists({"x": ["a", "b", "c"]}, instance="genes")
    with pytest.raises(DataError, match="'genes' has 3 items, more than total=2"):
        cc.RobustRank(total=2).fit_predict(p)


# Order statistics


@pytest.mark.parametrize("case", json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"], ids=lambda c: c["name"])
def test_scores_are_those_of_r(case: dict[str, Any]) -> None:
    given = case["input"]
    got = fitted(cc.METHODS[given["method"]](**given["params"]), cc.from_lists(given["lists"]))
    p = dict(zip(got.items.tolist(), (10.0**-got.score).tolist(), strict=True))
    assert p == pytest.approx(case["expected"]["p"], rel=1e-9)


def alternating(rank: list[float]) -> float:
    """Return P(U_(1) <= r_1, ..., U_(K) <= r_K) by the recursion of Aerts et al., in exact fractions."""
    n = len(rank)
    v = [Fraction(1)]
    for k in range(1, n + 1):
        r = Fraction(rank[n - k])
        v.append(sum(((-1) ** (i - 1) * v[k - i] * r**i / math.factorial(i) for i in range(1, k + 1)), Fraction(0)))
    return float(math.factorial(n) * v[n])


@pytest.mark.parametrize("k", [1, 2, 3, 7, 40])
def test_joint_distribution_is_that_of_the_alternating_recursion(k: int) -> None:
    rng = np.random.default_rng(k)
    rank = np.sort(rng.random((8, k)) ** rng.uniform(0.3, 3.0, (8, 1)), axis=1)
    rank[0] = rank[0, 0]  # all equal
    np.testing.assert_allclose(np.exp(log_joint_cdf(rank)), [alternating(r) for r in rank.tolist()], rtol=1e-10)


def test_joint_distribution_by_counting_all_cells() -> None:
    # Uniform whole numbers 1 to 6 in three lists: with thresholds on the grid, counts of cells are exact.
    n = 6
    cells = np.sort(np.stack(np.meshgrid(*[np.arange(1, n + 1)] * 3), axis=-1).reshape(-1, 3), axis=1)
    for ranks in ((1, 1, 1), (1, 2, 6), (2, 3, 3), (2, 4, 5), (6, 6, 6)):
        want = (cells <= ranks).all(axis=1).mean()
        assert np.exp(log_joint_cdf(np.array([ranks]) / n))[0] == pytest.approx(want, rel=1e-12)
        some = (cells <= ranks).any(axis=1).mean()
        assert np.exp(log_crossing(np.log(np.array([ranks]) / n)))[0] == pytest.approx(some, rel=1e-12)


def test_joint_distribution_of_many_lists_keeps_its_digits() -> None:
    # P(U_(j) <= j / K for all j) is Daniels' theorem with both ends of the empirical distribution moved by 1 / K.
    k = 100
    found = float(np.exp(log_joint_cdf(np.arange(1, k + 1)[None, :] / k))[0])
    assert found == pytest.approx(((k + 1) / k) ** k / (k + 1), rel=1e-9)


def test_poisson_binomial_tail_by_enumeration() -> None:
    rng = np.random.default_rng(3)
    ceiling, x = rng.random(5), 0.4
    z = np.minimum(ceiling, x)
    for k in range(1, 6):
        want = sum(
            np.prod([z[j] if bits >> j & 1 else 1 - z[j] for j in range(5)])
            for bits in range(32)
            if bits.bit_count() >= k
        )
        got = np.exp(log_poisson_binomial_tail(np.log([x]), np.log(ceiling[None, :]), k))[0]
        assert got == pytest.approx(want, rel=1e-12)


def test_beta_quantile_inverts_the_distribution() -> None:
    a, b = np.array([1.0, 3.0, 40.0]), np.array([10.0, 8.0, 2.0])
    for p in (1e-300, 1e-12, 0.01, 0.5, 0.999):
        x = np.exp(log_beta_quantile(np.full(3, np.log(p)), a, b))
        np.testing.assert_allclose(stats.beta.cdf(x, a, b), p, rtol=1e-9)


def uniform_lists(n: int, k: int, seed: int) -> dict[str, list[str]]:
    rng = np.random.default_rng(seed)
    return {f"e{j}": [f"g{i}" for i in rng.permutation(n).tolist()] for j in range(k)}


def assert_uniform(p_values: Floats) -> None:
    assert stats.kstest(p_values, "uniform").pvalue > 0.01


@pytest.mark.parametrize("k", [2, 6, 15])
def test_exact_p_values_are_uniform_in_random_lists(k: int) -> None:
    got = cc.RobustRank(exact=True).fit_predict(cc.from_lists(uniform_lists(20_000, k, seed=k)))
    assert got.p_value is not None
    assert_uniform(got.p_value)
    # The bounds are not: they are too large.
    bound = cc.RobustRank().fit_predict(cc.from_lists(uniform_lists(20_000, k, seed=k))).p_value
    assert bound is not None
    assert (bound >= got.p_value * (1 - 1e-12)).all()
    assert k == 2 or stats.kstest(bound, "uniform").pvalue < 1e-6


def test_exact_p_value_over_all_permutations() -> None:
    # Ranks on a grid are never smaller than uniform numbers, so that p-values are never too small.
    found = []
    for order in permutations("abcd"):
        got = cc.RobustRank(exact=True).fit_predict(cc.from_lists({"x": list("abcd"), "y": list(order)}))
        assert got.p_value is not None
        found += got.p_value.tolist()
    p = np.array(found)
    for level in np.unique(p):
        assert (p <= level).mean() <= level + 1e-12


def test_exact_p_values_of_lists_cut_at_the_same_length() -> None:
    total, cut, k = 5_000, 250, 6
    lists = {name: order[:cut] for name, order in uniform_lists(total, k, seed=4).items()}
    got = cc.RobustRank(exact=True, total=total, cutoff=cut).fit_predict(cc.from_lists(lists))
    assert got.p_value is not None
    for level in (0.01, 0.05, 0.2):
        share = (got.p_value <= level).sum() / total
        assert share == pytest.approx(level, abs=4 * math.sqrt(level / total))
    whole = cc.RobustRank(exact=True, total=total).fit_predict(cc.from_lists(lists))
    assert whole.p_value is not None
    assert (got.p_value <= whole.p_value * (1 + 1e-12)).all()


def test_only_the_first_positions_count_with_a_cut_off() -> None:
    p = cc.from_lists(LISTS)
    got = cc.RobustRank(total=50, cutoff=2).fit_predict(p)
    cut = cc.from_lists({**LISTS, "x": ["a", "b"]})
    np.testing.assert_array_equal(got.score, cc.RobustRank(total=50, cutoff=2).fit_predict(cut).score)
    with pytest.raises(ParameterError, match="cutoff=2 says that items left out rank lower"):
        cc.RobustRank(missing="ignore", cutoff=2).fit_predict(p)
    with pytest.raises(DataError, match="exact=True needs lists that were cut at the same length"):
        cc.RobustRank(total=50, cutoff="length", exact=True).fit_predict(p)
    with pytest.raises(ParameterError, match="cutoff"):
        cc.RobustRank(cutoff="top").fit_predict(p)


@pytest.mark.parametrize("method", [cc.Stuart(total=9), cc.RobustRank(total=9, exact=True)], ids=repr)
def test_a_list_of_weight_two_counts_twice_and_fractions_are_refused(method: Aggregator) -> None:
    twice = method.fit_predict(cc.from_lists({**LISTS, "y2": LISTS["y"]}))
    heavy = method.fit_predict(cc.from_lists(LISTS).with_weights({"y": 2}))
    np.testing.assert_allclose(heavy.score, twice.score, rtol=1e-12)
    none = method.fit_predict(cc.from_lists(LISTS).with_weights({"y": 0}))
    without = method.fit_predict(cc.from_lists({k: v for k, v in LISTS.items() if k != "y"}))
    np.testing.assert_allclose(none.score, without.score, rtol=1e-12)
    with pytest.raises(DataError, match=r"weights must be whole numbers. Expert 'y' weighs 0.5"):
        method.fit_predict(cc.from_lists(LISTS).with_weights({"y": 0.5}))
    with pytest.raises(DataError, match="at most 200 lists, counted by weight"):
        method.fit_predict(cc.from_lists(LISTS).with_weights({"y": 300}))


def test_stuart_in_random_lists_is_no_p_value() -> None:
    score = cc.Stuart().fit_predict(cc.from_lists(uniform_lists(20_000, 5, seed=1))).score
    assert (10.0**-score <= 0.05).mean() == pytest.approx(0.35, abs=0.02)  # the share the docs name


def test_q_values_are_those_of_benjamini_and_hochberg() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(30) ** 3
    offsets = np.array([0, 12, 30])
    want = np.concatenate([stats.false_discovery_control(p[:12]), stats.false_discovery_control(p[12:])])
    np.testing.assert_allclose(false_discovery_rates(p, offsets, np.diff(offsets)), want, rtol=1e-12)
    padded = stats.false_discovery_control(np.append(p, np.ones(70)))[:30]
    np.testing.assert_allclose(false_discovery_rates(p, np.array([0, 30]), np.array([100])), padded, rtol=1e-12)


def test_columns_of_p_and_q_values() -> None:
    got = cc.RobustRank(total=100).fit_predict(cc.from_lists(LISTS))
    frame = got.to_frame()
    assert frame.columns == ["instance", "item", "score", "rank", "p_value", "q_value"]
    np.testing.assert_allclose(frame["p_value"].to_numpy(), 10.0 ** -frame["score"].to_numpy(), rtol=1e-12)
    padded = np.append(frame["p_value"].to_numpy(), np.ones(96))
    np.testing.assert_allclose(frame["q_value"].to_numpy(), stats.false_discovery_control(padded)[:4], rtol=1e-12)
    assert cc.Stuart(total=100).fit_predict(cc.from_lists(LISTS)).p_value is None


def test_q_values_keep_the_false_discovery_rate() -> None:
    # 30 true genes among 1,000, each near the top of 4 of 6 lists; the others are noise.
    rng = np.random.default_rng(8)
    false, kept = [], 0
    for _ in range(20):
        key = rng.random((6, 1000))
        for gene in range(30):
            key[rng.permutation(6)[:4], gene] *= 0.05
        lists = {f"e{j}": [f"g{i}" for i in np.argsort(key[j]).tolist()[:200]] for j in range(6)}
        got = cc.RobustRank(total=1000, exact=True, cutoff=200).fit_predict(cc.from_lists(lists))
        assert got.q_value is not None
        names = [item for item, q in zip(got.items, got.q_value, strict=True) if q <= 0.1]
        true = sum(int(name[1:]) < 30 for name in names)
        false.append(1 - true / max(len(names), 1))
        kept += true
    assert np.mean(false) < 0.1
    assert kept > 0.7 * 20 * 30


@pytest.mark.parametrize("method", [cc.RobustRank(), cc.Stuart()], ids=repr)
def test_a_missing_total_is_hinted_at_where_it_matters(method: Aggregator) -> None:
    with pytest.warns(DataWarning, match=f"total is not given: {type(method).__name__} divides ranks by 4, the"):
        method.fit_predict(cc.from_lists(LISTS))
    assert len(method.fit_info_.warnings) == 1
    method.predict(cc.from_lists(LISTS))  # said once
    complete = {name: list(order) for name, order in zip("xy", permutations("abc"), strict=False)}
    type(method)().fit_predict(cc.from_lists(complete))
    type(method)(total=30).fit_predict(cc.from_lists(LISTS))
    type(method)(missing="ignore").fit_predict(cc.from_lists(LISTS))
