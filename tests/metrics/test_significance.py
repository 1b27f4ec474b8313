"""Paired tests, corrections and intervals: SciPy where it has them, exact enumeration where it does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.oracles import metrics as oracle

from concordant.errors import DataError, ParameterError
from concordant.metrics import (
    adjust,
    bootstrap_interval,
    fisher_randomization,
    paired_t_test,
    wilcoxon_signed_rank,
)


def differences(n: int, seed: int, shift: float = 0.3) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1.0, size=n)


@pytest.mark.parametrize("n", [2, 3, 10, 50, 784])
def test_t_test_equals_scipy(n: int) -> None:
    d = differences(n, n)
    expected = stats.ttest_1samp(d, 0.0)
    got = paired_t_test(d)
    assert got.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert got.p_value == pytest.approx(expected.pvalue, rel=1e-10)


@pytest.mark.parametrize("n", [1, 5, 20, 50])
def test_signed_ranks_without_ties_equal_scipy_exact(n: int) -> None:
    d = differences(n, n)
    expected = stats.wilcoxon(d, method="exact")
    got = wilcoxon_signed_rank(d)
    assert got.statistic == pytest.approx(expected.statistic)
    assert got.p_value == pytest.approx(expected.pvalue, rel=1e-10)


@pytest.mark.parametrize("n", [51, 100, 784])
def test_signed_ranks_with_ties_and_zeros_equal_scipy_asymptotic(n: int) -> None:
    d = np.round(differences(n + 30, n), 1)
    d = np.concatenate([d[d != 0][:n], np.zeros(7)])
    expected = stats.wilcoxon(d, method="approx", zero_method="wilcox", correction=False)
    got = wilcoxon_signed_rank(d)
    assert got.statistic == pytest.approx(expected.statistic)
    assert got.p_value == pytest.approx(expected.pvalue, rel=1e-10)


@given(st.lists(st.sampled_from([-0.4, -0.2, -0.1, 0.0, 0.1, 0.2, 0.2, 0.3]), min_size=1, max_size=9))
def test_signed_ranks_with_ties_are_exact(d: list[float]) -> None:
    left = [x for x in d if x != 0]
    if not left:
        assert wilcoxon_signed_rank(d) == (0.0, 1.0)
        return
    ranks = oracle.average_ranks([abs(x) for x in left])
    sums = [
        sum(r for r, bit in zip(ranks, np.binary_repr(code, len(left)), strict=True) if bit == "1")
        for code in range(2 ** len(left))
    ]
    plus = sum(r for r, x in zip(ranks, left, strict=True) if x > 0)
    smaller = min(plus, sum(ranks) - plus)
    expected = min(1.0, 2 * sum(s <= smaller for s in sums) / len(sums))
    assert wilcoxon_signed_rank(d).p_value == pytest.approx(expected, abs=1e-12)


def test_signed_ranks_see_equal_differences_through_rounding() -> None:
    # 0.3 − 0.2 and 0.2 − 0.1 differ in the last bits; as numbers of a table they are the same.
    noisy = [0.3 - 0.2, 0.2 - 0.1, -(0.5 - 0.4), 0.7]
    assert wilcoxon_signed_rank(noisy) == wilcoxon_signed_rank([0.1, 0.1, -0.1, 0.7])


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=9))
def test_fisher_is_exact_for_few_differences(d: list[int]) -> None:
    tenths = [x / 10 for x in d]
    assert fisher_randomization(tenths)[0] == pytest.approx(oracle.sign_flips(tenths), abs=1e-12)


def test_fisher_counts_only_differences_that_are_not_zero_as_few() -> None:
    few = [0.1, 0.2, -0.05] + [0.0] * 500
    assert fisher_randomization(few)[0] == oracle.sign_flips(few[:3])


def test_sampled_fisher_is_near_the_exact_share() -> None:
    d = np.round(differences(14, 3, 0.4), 2)
    exact = oracle.sign_flips(d.tolist())
    n = 40_000
    got = fisher_randomization(d, n_resamples=n, random_state=1)[0]
    assert abs(got - exact) < 5 * math.sqrt(exact * (1 - exact) / n)


def test_fisher_equals_scipy_permutation_test() -> None:
    d = differences(11, 5)
    expected = stats.permutation_test(
        (d, np.zeros(11)), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples", n_resamples=np.inf
    )
    assert fisher_randomization(d)[0] == pytest.approx(expected.pvalue, abs=1e-12)


def test_fisher_weights_change_the_statistic() -> None:
    d = [1.0, 1.0, -1.0]
    # Weighted 1, 1, 4: the sum seen is −2; of the eight patterns ±1 ± 1 ± 4 all are at least that far from 0.
    assert fisher_randomization(d, weights=[1, 1, 4])[0] == 1.0
    assert fisher_randomization(d, weights=[4, 1, 1])[0] == oracle.sign_flips([4, 1, -1])


def test_columns_share_draws_and_do_not_depend_on_each_other() -> None:
    d = np.column_stack([differences(40, s) for s in range(3)])
    together = fisher_randomization(d, n_resamples=500, random_state=4)
    alone = [fisher_randomization(d[:, j], n_resamples=500, random_state=4)[0] for j in range(3)]
    assert together.tolist() == alone
    low, high = bootstrap_interval(d, n_resamples=500, random_state=4)
    for j in range(3):
        one = bootstrap_interval(d[:, j], n_resamples=500, random_state=4)
        assert (low[j], high[j]) == pytest.approx((one[0][0], one[1][0]))


def test_blocks_do_not_change_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    d = differences(40, 2)
    whole = fisher_randomization(d, n_resamples=1000), bootstrap_interval(d, n_resamples=1000)
    monkeypatch.setattr("concordant.metrics.significance._BLOCK", 40 * 64)
    assert fisher_randomization(d, n_resamples=1000).tolist() == whole[0].tolist()
    for got, expected in zip(bootstrap_interval(d, n_resamples=1000), whole[1], strict=True):
        assert got == pytest.approx(expected, rel=1e-12)


def test_bootstrap_interval_is_near_scipys() -> None:
    d = differences(60, 8)
    expected = stats.bootstrap(
        (d,),
        np.mean,
        method="percentile",
        n_resamples=20_000,
        random_state=np.random.default_rng(0),
        confidence_level=0.9,
    ).confidence_interval
    low, high = bootstrap_interval(d, level=0.9, n_resamples=20_000)
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=0.02)
    assert low[0] < d.mean() < high[0]


def test_bootstrap_draws_within_folds() -> None:
    # Inside each fold all differences are equal, so the mean of fold means never changes.
    low, high = bootstrap_interval([0.0, 0.0, 0.0, 0.3], folds=[0, 0, 0, 1], n_resamples=200)
    assert (low[0], high[0]) == pytest.approx((0.15, 0.15))
    low, high = bootstrap_interval([0.0, 0.0, 0.0, 0.3], n_resamples=200)
    assert high[0] - low[0] > 0.1


@pytest.mark.parametrize("d", [[0.0] * 30, [0.0], [0.0] * 3])
def test_equal_methods_have_p_one_in_every_test(d: list[float]) -> None:
    assert paired_t_test(d).p_value == 1.0
    assert wilcoxon_signed_rank(d).p_value == 1.0
    assert fisher_randomization(d)[0] == 1.0
    low, high = bootstrap_interval(d, n_resamples=10)
    assert low[0] == high[0] == 0.0


def test_t_test_of_one_constant_difference() -> None:
    assert paired_t_test([0.1] * 5) == (math.inf, 0.0)
    assert paired_t_test([-0.1] * 5).statistic == -math.inf
    assert paired_t_test([0.1]).p_value == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_equals_its_definition(p: list[float]) -> None:
    m = len(p)
    got = adjust(p)
    for i, value in enumerate(p):
        # The largest (m − rank) × p over hypotheses rejected no later, cut at 1.
        order = sorted(range(m), key=lambda j: p[j])
        upto = order[: order.index(i) + 1]
        assert got[i] == pytest.approx(min(1.0, max((m - order.index(j)) * p[j] for j in upto)))
        assert value <= got[i] <= 1.0


def test_other_corrections() -> None:
    assert adjust([0.2, 0.01], "bonferroni").tolist() == [0.4, 0.02]
    assert adjust([0.2, 0.01], "none").tolist() == [0.2, 0.01]
    with pytest.raises(ParameterError, match="one of 'holm', 'bonferroni', 'none'"):
        adjust([0.1], "fdr")


@pytest.mark.parametrize("f", [paired_t_test, wilcoxon_signed_rank, fisher_randomization, bootstrap_interval])
def test_differences_must_be_finite(f: Any) -> None:
    with pytest.raises(DataError, match="finite"):
        f([0.1, math.nan])


@pytest.mark.parametrize("f", [fisher_randomization, bootstrap_interval])
@pytest.mark.parametrize("n", [0, 2.5, True])
def test_resamples_must_be_a_whole_number(f: Any, n: Any) -> None:
    with pytest.raises(ParameterError, match=r"'n_resamples' parameter of .* must be a whole number >= 1"):
        f([0.1, 0.2], n_resamples=n)


def test_level_of_an_interval() -> None:
    with pytest.raises(ParameterError, match="'level' parameter of bootstrap_interval"):
        bootstrap_interval([0.1, 0.2], level=95)
