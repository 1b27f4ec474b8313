"""The table of experts: every agreement against counting the pairs of each list alone."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import experts as oracle

import concordant as cc
from concordant.inference.experts import expert_records, list_agreement, surely_inverted

ITEMS, EXPERTS = "abcdef", "wxyz"
lists = st.dictionaries(
    st.sampled_from(EXPERTS), st.dictionaries(st.sampled_from(ITEMS), st.integers(1, 4), min_size=1), min_size=1
)
several = st.lists(lists, min_size=1, max_size=3)
# A ranking of the items of three instances, with ties and gaps.
rankings = st.lists(st.integers(1, 5), min_size=18, max_size=18)


def preferences_of(instances: list[dict[str, dict[str, int]]], kind: Any = "rank", weight: Any = None) -> Any:
    rows = [(f"q{n}", e, i, r) for n, by in enumerate(instances) for e, own in by.items() for i, r in own.items()]
    columns = [list(column) for column in zip(*rows, strict=True)]
    return cc.Preferences(
        *columns,
        kind=kind,
        weight=None if weight is None else [weight[EXPERTS.index(e)] for e in columns[1]],
        items=[(f"q{n}", i) for n in range(len(instances)) for i in ITEMS],
        experts=list(EXPERTS),
    )


def of_instance(ranking: list[int], n: int) -> dict[str, float]:
    return dict(zip(ITEMS, ranking[6 * n : 6 * n + 6], strict=True))


@given(several, rankings, st.booleans())
def test_agreement_of_lists_is_tau_of_each_alone(
    instances: list[dict[str, dict[str, int]]], ranking: list[int], behind: bool
) -> None:
    votes = preferences_of(instances)
    found = list_agreement(votes, np.array(ranking[: votes.n_slots]), behind=behind)
    expected = [
        oracle.agreement(by[expert], of_instance(ranking, n), behind=behind)
        for n, by in enumerate(instances)
        for expert in EXPERTS
        if expert in by
    ]
    assert found.tolist() == pytest.approx(expected, nan_ok=True)


@given(several, rankings, st.sampled_from(["rank", "score", "rating"]), st.lists(st.integers(0, 3), min_size=4))
def test_records_are_means_over_the_lists_of_an_expert(
    instances: list[dict[str, dict[str, int]]], ranking: list[int], kind: str, weight: list[int]
) -> None:
    votes = preferences_of(instances, kind, weight)
    score = -np.array(ranking[: votes.n_slots], dtype=np.float64)
    records = expert_records(votes, cc.Consensus.from_codes(votes.slots, score))
    # Of scores and ratings the largest is best.
    sign = 1 if kind == "rank" else -1
    for expert, record, given_weight in zip(EXPERTS, records, weight, strict=False):
        own = {n: {i: sign * v for i, v in by[expert].items()} for n, by in enumerate(instances) if expert in by}
        tau = [oracle.agreement(of, of_instance(ranking, n), behind=kind != "rating") for n, of in own.items()]
        told = [t for t in tau if not math.isnan(t)]
        rows = sum(map(len, own.values()))
        # How much an expert counts does not change how far it agrees.
        assert record == {
            "expert": expert,
            "lists": len(own),
            "rows": rows,
            "coverage": pytest.approx(rows / votes.n_slots),
            "weight": given_weight if own else None,
            "agreement": pytest.approx(sum(told) / len(told), abs=1e-12) if told else None,
        }


def test_long_lists_agree_as_another_library_counts() -> None:
    from scipy.stats import kendalltau

    rng = np.random.default_rng(5)
    ranks = rng.integers(1, 60, size=(3, 200))
    truth = rng.integers(1, 90, size=200)
    names = [f"i{i:03}" for i in range(200)]
    votes = cc.Preferences(["q"] * 600, np.repeat(["x", "y", "z"], 200), names * 3, ranks.ravel())
    found = list_agreement(votes, truth, behind=True)
    assert found.tolist() == pytest.approx([kendalltau(own, truth).statistic for own in ranks])


def test_lists_of_nothing_agree_with_nothing() -> None:
    votes = cc.Preferences([], [], [], [], items=[("q", "a"), ("q", "b")], experts=["x"])
    assert expert_records(votes, cc.Consensus(["q", "q"], ["a", "b"], [1.0, 0.0]))[0]["agreement"] is None


def test_no_compiler_is_waited_for() -> None:
    code = (
        "import sys, concordant as cc; from concordant.inference.experts import expert_records;"
        "votes = cc.from_lists({'x': ['a', 'b', 'c'], 'y': ['b', 'a']}); expert_records(votes, cc.aggregate(votes));"
        "print([m for m in ('numba', 'polars', 'scipy') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def noisy_search(flipped: int, topics: int = 25) -> tuple[cc.Preferences, cc.Labels]:
    """Return topics searched by 30 systems that find some of what is relevant, the first few upside down."""
    rng = np.random.default_rng(0)
    rows, labels = [], []
    for q in range(topics):
        relevant = (rng.random(30) < 0.3).astype(float)
        labels += [(f"q{q}", f"d{i}", relevant[i]) for i in range(30)]
        for s in range(30):
            score = relevant * (-0.8 if s < flipped else 0.8) + rng.normal(size=30)
            rows += [(f"q{q}", f"s{s:02}", f"d{i}", r) for r, i in enumerate(np.argsort(-score)[:20].tolist(), 1)]
    return cc.Preferences(*zip(*rows, strict=True)), cc.Labels(*zip(*labels, strict=True))


def test_weights_below_0_on_noise_are_not_called_inverted() -> None:
    votes, labels = noisy_search(0, topics=8)
    model = cc.ListwiseLinear(transform="log", l2=0.01).fit(votes, labels)
    words = [text.partition(":")[0] for text in model.expert_weights_["meaning"]]
    assert sum(w < 0 for w in model.adherence_) >= 3
    assert "inverted" not in words
    assert sum(word.startswith("discounted") for word in words) >= 3


def test_experts_whose_order_is_upside_down_are_called_inverted() -> None:
    votes, labels = noisy_search(3)
    model = cc.ListwiseLinear(transform="log", l2=1.0).fit(votes, labels)
    inverted = [e for e, m in zip(model.experts_, model.expert_weights_["meaning"], strict=True) if "inverted" in m]
    assert inverted == ["s00", "s01", "s02"]
    names = [f"s{s:02}" for s in range(30)]
    assert surely_inverted(votes, labels, names).tolist() == [True] * 3 + [False] * 27
    told = votes.comparisons("binary")
    assert surely_inverted(told, labels, names).tolist() == [True] * 3 + [False] * 27


def test_experts_without_names_of_their_own_are_judged_together() -> None:
    votes, labels = noisy_search(30)
    assert surely_inverted(votes, labels, ["s00", "*"]).tolist() == [True, True]
    assert surely_inverted(votes.comparisons("binary").collapse(), labels, ["*"]).tolist() == [False]


def test_a_few_short_lists_do_not_show_that_an_expert_is_inverted() -> None:
    queries = ["q1", "q1", "q2", "q2"]
    votes = cc.Preferences(queries, ["x"] * 4, ["a", "b"] * 2, [2, 1, 2, 1])
    assert not surely_inverted(votes, cc.Labels(queries, ["a", "b"] * 2, [1, 0, 1, 0]), ["x"]).any()


def test_what_experts_of_comparisons_spoke_of_is_counted_alike_in_a_table_and_by_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(3)
    rows = [[f"{kind}{v}" for v in rng.integers(0, high, 80)] for kind, high in (("q", 3), ("e", 9))]
    left = rng.integers(0, 6, 80)
    right = (left + rng.integers(1, 6, 80)) % 6
    votes = cc.Comparisons(
        *rows, [f"i{v}" for v in left], [f"i{v}" for v in right], experts=[f"e{v}" for v in range(10)]
    )
    consensus = cc.aggregate(votes, "copeland")
    found = cc.describe_experts(votes, consensus)
    for record in found.iter_rows(named=True):
        own = [r for r in votes.to_frame().iter_rows(named=True) if r["expert"] == record["expert"]]
        assert record["lists"] == len({r["instance"] for r in own})
        seen = {(r["instance"], r[side]) for r in own for side in ("left", "right")}
        assert record["coverage"] == pytest.approx(len(seen) / votes.n_slots)
    monkeypatch.setattr("concordant.inference.experts._TABLE", 0)
    assert cc.describe_experts(votes, consensus).equals(found)


def counted(votes: cc.Preferences, method: cc.Aggregator) -> list[str]:
    """Return the warnings of a fit that speak of counts of voters."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        method.fit_predict(votes)
    return [str(w.message) for w in found if "counts of voters" in str(w.message)]


@pytest.mark.parametrize(
    ("method", "advice"),
    [
        (cc.PlackettLuce(adherence=True), "one adherence is learned for each distinct ballot.*Pass adherence=False"),
        (cc.BradleyTerry(reliability=True), "one reliability is learned for each.*Pass reliability=False"),
        (cc.ExtendedMallows(), "one weight is learned for each distinct ballot.*Use Mallows"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_counted_ballots_are_no_experts_to_learn_about(method: cc.Aggregator, advice: str) -> None:
    ballots = {"1": list("abcd"), "2": list("bacd"), "3": list("acbd"), "4": list("dcba")}
    votes = cc.from_lists(ballots, weights={"1": 40, "2": 12, "3": 9})
    (said,) = counted(votes, method)
    assert re.search(advice, said)
    assert "3 of 4 experts weigh more than 1, up to 40" in said
    assert said in method.fit_info_.warnings
    # Trust is no count, and neither are weights of experts with lists in several instances.
    trust = [cc.from_lists(ballots, weights={"1": 2.5, "2": 2, "3": 2}), cc.from_lists(ballots, weights={"1": 2})]
    trust += [cc.from_lists(ballots)]
    trust += [cc.Preferences.concat([votes, cc.from_lists(ballots, instance="r", weights={"1": 40, "2": 12, "3": 9})])]
    assert [counted(each, method) for each in trust] == [[]] * 4
