"""Who agrees with whom: every number against Kendall's tau of the two lists alone, and the order against its blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.experts import tau_b

from concordant.data.comparisons import Comparisons
from concordant.data.preferences import Preferences
from concordant.errors import DataError, KindError, ParameterError
from concordant.report import agreement
from concordant.report.agreement import cluster_order, expert_agreement

lists = st.dictionaries(
    st.sampled_from("wxyz"), st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 4), max_size=6), max_size=4
)


def preferences_of(instances: list[dict[str, dict[str, int]]]) -> Preferences:
    rows = [(f"q{n}", e, i, r) for n, by in enumerate(instances) for e, own in by.items() for i, r in own.items()]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    return Preferences(
        *columns, experts=list("wxyz"), items=[(f"q{n}", i) for n in range(len(instances)) for i in "abcdef"]
    )


def tau_of(a: dict[str, int], b: dict[str, int], missing: str) -> tuple[float, int]:
    """Return tau-b of two lists from counts of pairs, and how many pairs there are."""
    items = [i for i in "abcdef" if missing == "behind" or (i in a and i in b)]
    return tau_b([a.get(i, 9) for i in items], [b.get(i, 9) for i in items]), math.comb(len(items), 2)


@pytest.mark.parametrize("missing", ["shared", "behind"])
@pytest.mark.parametrize("at_once", [True, False])
@given(instances=st.lists(lists, min_size=1, max_size=3))
def test_is_the_mean_of_kendalls_tau(instances: list[dict[str, dict[str, int]]], missing: str, at_once: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agreement, "_matrix_is_faster", lambda *_: at_once)
        found = expert_agreement(preferences_of(instances), missing=missing)
    for a, first in enumerate("wxyz"):
        for b, second in enumerate("wxyz"):
            both = [(by[first], by[second]) for by in instances if by.get(first) and by.get(second)]
            taus = [tau_of(x, y, missing) for x, y in both]
            known = [t for t, _ in taus if not math.isnan(t)]
            assert found.tau[a, b] == pytest.approx(np.mean(known) if known else math.nan, nan_ok=True, abs=1e-12)
            assert found.shared[a, b] == sum(n for _, n in taus)


def test_both_ways_agree_on_long_lists_with_gaps_and_ties() -> None:
    rng = np.random.default_rng(3)
    table = rng.integers(1, 40, size=(120, 7)).astype(float)
    table[rng.random(table.shape) < 0.4] = np.nan
    (tau, shared), (again, pairs) = agreement._tau_by_matrix(table), agreement._tau_by_list(table)
    np.testing.assert_allclose(tau, again, atol=1e-12)
    np.testing.assert_array_equal(shared, pairs)


def test_comparisons_count_pairs_whichever_side_they_were_shown_on() -> None:
    votes = Comparisons(
        "q",
        ["x", "x", "x", "y", "y", "y", "z"],
        ["a", "b", "a", "b", "b", "a", "c"],
        ["b", "c", "c", "a", "c", "c", "d"],
        n_left=[1, 1, 1, 0, 1, 0, 1],
        n_right=[0, 0, 0, 1, 0, 1, 0],
    )  # x: a>b, b>c, a>c; y: a>b (turned), b>c, c>a; z never meets them
    found = expert_agreement(votes)
    assert found.tau[0, 1] == pytest.approx((2 - 1) / 3)
    assert found.shared[0, 1] == 3
    assert math.isnan(found.tau[0, 2])
    assert found.tau[2, 2] == 1


def test_clusters_stand_together() -> None:
    camp = np.array([0, 1, 0, 1, 1, 0, 0])
    tau = np.where(camp[:, None] == camp, 0.8, -0.3)
    np.fill_diagonal(tau, 1.0)
    tau[2, 5] = tau[5, 2] = np.nan
    order = cluster_order(tau)
    assert sorted(order.tolist()) == list(range(7))
    assert (np.diff(camp[order]) != 0).sum() == 1


@pytest.mark.parametrize("k", [0, 1, 2, 200])
def test_any_number_of_experts_has_an_order(k: int) -> None:
    assert sorted(cluster_order(np.eye(k)).tolist()) == list(range(k))


def test_what_it_refuses() -> None:
    votes = preferences_of([{"x": {"a": 1}}])
    with pytest.raises(ParameterError, match="'missing' parameter of expert_agreement must be 'shared' or 'behind'"):
        expert_agreement(votes, missing="zero")
    with pytest.raises(KindError, match="not on dict"):
        expert_agreement({})  # type: ignore[arg-type]
    with pytest.raises(DataError, match="name no experts"):
        expert_agreement(Comparisons("q", None, ["a"], ["b"]))
