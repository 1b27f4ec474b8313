"""Robust rank aggregation against beta laws evaluated elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.aggregators.common import assert_scores, instances_of
from tests.data.strategies import Rows, preference_rows
from tests.oracles import methods as oracle

import concordant as cc
from concordant.errors import DataError


@given(
    preference_rows(),
    st.sampled_from(["last", "ignore"]),
    st.sampled_from([None, 8, 1000]),
    st.sampled_from(["sidak", "bonferroni"]),
)
def test_scores_are_p_values_of_order_statistics(rows: Rows, missing: str, total: int | None, correction: str) -> None:
    for p, items, lists in instances_of(rows):
        got = cc.RobustRank(missing=missing, total=total, correction=correction).fit_predict(p)
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
