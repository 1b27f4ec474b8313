"""Fusion and positional methods against their plain twins, the worked cases and ranx."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests.aggregators.common import assert_scores, from_matrix, instances_of
from tests.data.strategies import Rows, preference_rows
from tests.oracles import methods as oracle

import concordant as cc
from concordant.errors import DataError, KindError, ParameterError

NORMS = ("min-max", "max", "sum", "z-score", "three-sigma", "rank", "borda", "none")
COMBS = ("sum", "mnz", "anz", "min", "max", "med")


def test_worked_case(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("17_simple_baselines")
    for case in content["cases"]:
        p = from_matrix(case["input"]["R"])
        want = case["expected"]

        def near(method: cc.Aggregator, expected: list[float], p: cc.Preferences = p) -> None:
            got = method.fit_predict(p).score
            np.testing.assert_allclose(got, expected, rtol=0, atol=content["abs_tol"])

        near(cc.Borda(), want["borda"])
        near(cc.RRF(k=60), want["rrf_60"])
        near(cc.CombMNZRank(k=4), want["combmnz_k4"])
        near(cc.MeanRank(), [-r for r in want["median_rank_tiebreak_mean"]])
        # The tie-break adds less than half the smallest gap, 1/2 between medians here, and nothing between equals.
        median = cc.MedianRank().fit_predict(p).score
        np.testing.assert_allclose(np.floor(median * 2) / 2, -np.array(want["median_rank"]), atol=content["abs_tol"])
        keys = list(zip(want["median_rank"], want["median_rank_tiebreak_mean"], strict=True))
        assert [[a < b for b in keys] for a in keys] == [[a > b for b in median] for a in median]


@given(preference_rows())
def test_ranks_are_fused_as_defined(rows: Rows) -> None:
    for p, items, lists in instances_of(rows):
        assert_scores(cc.RRF().fit_predict(p), oracle.rrf(items, lists, rows.kind))
        assert_scores(cc.RRF(k=1).fit_predict(p), oracle.rrf(items, lists, rows.kind, 1.0))
        first = math.fsum(w / 61 for w, s in lists if s)
        shares = {i: score / (first or 1.0) for i, score in oracle.rrf(items, lists, rows.kind).items()}
        assert_scores(cc.RRF(normalize=True).fit_predict(p), shares)
        assert_scores(cc.RBC(phi=0.7).fit_predict(p), oracle.rbc(items, lists, rows.kind, 0.7))
        assert_scores(cc.ISR().fit_predict(p), oracle.isr(items, lists, rows.kind))

        def factor(n: float, sigma: float = 0.01) -> float:
            return math.log(max(n, 1.0) + sigma)

        assert_scores(cc.LogISR().fit_predict(p), oracle.isr(items, lists, rows.kind, factor))
        bare = oracle.isr(items, lists, rows.kind, lambda n: factor(n, 0.0))
        assert_scores(cc.LogISR(sigma=0).fit_predict(p), bare)
        for k in (None, 2):
            assert_scores(cc.CombMNZRank(k=k).fit_predict(p), oracle.comb_mnz_rank(items, lists, rows.kind, k))


@pytest.mark.parametrize("unit", [2.0**60, 2.0**300, 2.0**-300])
def test_comb_mnz_of_far_ranks_in_any_unit_of_weights(unit: float) -> None:
    rows = [("x", "a", 1e300), ("x", "b", 1.0), ("y", "a", 2.0), ("y", "c", 3e300), ("z", "b", 1e200)]
    experts, items, ranks = zip(*rows, strict=True)

    def ranked(scale: float) -> list[str]:
        weight = {"x": scale, "y": 2 * scale, "z": 0.5 * scale}
        p = cc.Preferences(["q"] * len(rows), experts, items, ranks, weight=weight)
        return cc.CombMNZRank().fit_predict(p).ranking()

    # 3 * 8e300 for a, 1.5 * 4.5e300 for b, and 0 for c.
    assert ranked(unit) == ranked(1.0) == ["a", "b", "c"]


@given(preference_rows())
def test_places_are_counted_as_defined(rows: Rows) -> None:
    for p, items, lists in instances_of(rows):
        for missing in ("mean", "zero"):
            assert_scores(cc.Borda(missing=missing).fit_predict(p), oracle.borda(items, lists, missing))
        statistics = oracle.rank_statistics(items, lists)
        assert_scores(cc.MeanRank().fit_predict(p), {i: -mean for i, (_, mean) in statistics.items()})
        assert_scores(cc.MeanRank(missing="ignore").fit_predict(p), oracle.mean_rank_of_listed(items, lists))
        got = dict(zip(items, cc.MedianRank().fit_predict(p).score.tolist(), strict=True))
        for a in items:
            assert -statistics[a][0] <= got[a] < -statistics[a][0] + 0.5
            for b in items:
                before = (statistics[a][0], round(statistics[a][1], 9)) < (statistics[b][0], round(statistics[b][1], 9))
                assert (got[a] > got[b]) == before


@pytest.mark.parametrize("norm", NORMS)
@given(rows=preference_rows())
def test_scores_are_combined_as_defined(norm: str, rows: Rows) -> None:
    for p, items, lists in instances_of(rows):
        for comb in COMBS:
            method = cc.METHODS[f"comb-{comb}"](norm=norm)
            if rows.kind == "rank" and norm in ("max", "none"):
                with pytest.raises(KindError, match="ranks have no zero"):
                    method.fit_predict(p)
            else:
                assert_scores(method.fit_predict(p), oracle.comb(items, lists, norm, comb))


def test_ranx_agrees(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("ranx_fusion")
    names = {"rrf": cc.RRF(), "isr": cc.ISR(), "log_isr": cc.LogISR(sigma=0), "logn_isr": cc.LogISR()}
    names |= {"bordafuse": cc.Borda(), "rbc": cc.RBC(phi=0.9)}
    for case in content["cases"]:
        rows = [(q, e, i, s) for e, run in case["input"]["runs"].items() for q, r in run.items() for i, s in r.items()]
        p = cc.Preferences(*zip(*rows, strict=True), kind="score")
        for name, expected in case["expected"].items():
            comb, _, norm = name.partition("|")
            norm = {"zmuv": "z-score", "None": "none"}.get(norm, norm)
            method = names[comb] if not norm else cc.METHODS[f"comb-{comb}"](norm=norm)
            for q, scores in expected.items():
                one = p[q]
                got = dict(zip(one.items, method.fit_predict(one).score.tolist(), strict=True))
                assert got == pytest.approx(scores, abs=content["abs_tol"]), name


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        *(("min-max", 1.0), ("max", 1.0), ("sum", 0.5), ("z-score", 0.0), ("three-sigma", 0.5)),
        *(("rank", 0.75), ("borda", 0.75), ("none", 7.0)),
    ],
)
def test_a_list_of_equal_scores_says_the_same_of_all(norm: str, expected: float) -> None:
    p = cc.from_lists({"x": {"a": 7.0, "b": 7.0}})
    assert cc.CombSUM(norm=norm).fit_predict(p).score.tolist() == [expected, expected]


def test_max_norm_keeps_the_order_of_negative_scores() -> None:
    p = cc.from_lists({"x": {"a": -1.0, "b": -4.0}})
    assert cc.CombSUM(norm="max").fit_predict(p).score.tolist() == [-0.25, -1.0]
    assert cc.CombSUM(norm="max").fit_predict(cc.from_lists({"x": {"a": 0.0}})).score.tolist() == [0.0]


def test_a_large_common_offset_costs_no_digits() -> None:
    near = cc.from_lists({"x": {"a": 1e9 + 3, "b": 1e9 + 1, "c": 1e9}})
    plain = cc.from_lists({"x": {"a": 3.0, "b": 1.0, "c": 0.0}})
    for norm in ("min-max", "sum", "z-score"):
        a, b = (cc.CombSUM(norm=norm).fit_predict(p).score for p in (near, plain))
        np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15)


def test_an_item_in_no_list_comes_last() -> None:
    p = cc.Preferences(["q"] * 2, ["x"] * 2, ["a", "b"], [-1, -2], kind="score", items=[("q", i) for i in "abc"])
    for name in (f"comb-{c}" for c in COMBS):
        for norm in NORMS:
            got = cc.aggregate(p, name, norm=norm)
            assert got.rank[2] == got.rank.max(), (name, norm)


@pytest.mark.parametrize("method", [cc.RRF, cc.WeightedSum])
def test_expert_weights(method: Any) -> None:
    p = cc.from_lists({"x": {"a": 3.0, "b": 1.0}, "y": {"b": 9.0, "a": 8.0}})
    assert method(weights={"y": 0.1}).fit_predict(p).ranking() == ["a", "b"]
    assert method(weights={"x": 0}).fit_predict(p).ranking() == ["b", "a"]
    twice = p.with_weights({"x": 2.0})
    same = method(weights={"x": 2}).fit_predict(p)
    assert method().fit_predict(twice).score.tolist() == same.score.tolist()
    assert (
        method(weights={"x": 3}).fit_predict(twice).score.tolist()
        == method(weights={"x": 6}).fit_predict(p).score.tolist()
    )
    with pytest.raises(DataError, match=r"\['z'\] who are not in the preferences"):
        method(weights={"z": 1}).fit_predict(p)
    ignored = method(weights={"z": 1}, unknown_experts="ignore").fit_predict(p)
    assert ignored.score.tolist() == method().fit_predict(p).score.tolist()


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("rrf", {"k": 0}),
        ("rrf", {"weights": {"x": -1}}),
        ("comb-sum", {"norm": "minmax"}),
        ("comb-mnz-rank", {"k": 2.5}),
        ("borda", {"missing": "worst"}),
        ("log-isr", {"sigma": -0.1}),
        ("rbc", {"phi": 1.0}),
        ("rbc", {"phi": 0}),
        ("dbsf", {"ddof": 2}),
    ],
)
def test_parameters_outside_their_range_are_refused(name: str, params: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=f"the '{next(iter(params))}' parameter"):
        cc.aggregate(cc.from_lists({"x": ["a"]}), name, **params)


@pytest.mark.parametrize("norm", ["z-score", "none", "max"])
@pytest.mark.parametrize("name", ["comb-sum", "comb-mnz", "comb-anz", "comb-med", "weighted-sum"])
def test_what_cancels_is_a_tie_in_every_order_of_rows(name: str, norm: str) -> None:
    """An expert and its opposite leave nothing but rounding errors; a third who weighs little decides then."""
    one = [("x", "a", 0.3), ("x", "b", 0.8), ("x", "c", 0.6)]
    both = one + [("y", item, -value) for _, item, value in one]

    def ranks(rows: Any, weight: Any = None) -> dict[str, int]:
        expert, item, value = zip(*rows, strict=True)
        p = cc.Preferences(["q"] * len(rows), expert, item, value, kind="score", weight=weight)
        got = cc.aggregate(p, name, norm=norm)
        return dict(zip(got.items.tolist(), got.rank.tolist(), strict=True))

    assert all(ranks(rows) == {"a": 1, "b": 1, "c": 1} for rows in itertools.permutations(both))
    if name != "comb-med":
        third = [("z", "a", 0.1), ("z", "b", 0.2), ("z", "c", 0.7)]
        chance = np.random.default_rng(0)
        for _ in range(50):
            rows = [[*both, *third][r] for r in chance.permutation(9)]
            assert ranks(rows, {"z": 1e-9}) == {"a": 3, "b": 2, "c": 1}


def test_dbsf_is_comb_sum_of_clipped_z_scores() -> None:
    rng = np.random.default_rng(3)
    lists = {
        e: {f"i{i}": float(s) for i, s in zip(rng.permutation(60), rng.pareto(1, 40), strict=False)} for e in "xyz"
    }
    p = cc.from_lists(lists, weights={"x": 2.0})
    got = cc.DBSF().fit_predict(p).score
    assert got.tolist() == cc.CombSUM(norm="three-sigma").fit_predict(p).score.tolist()
    assert not np.allclose(got, cc.DBSF(clip=False).fit_predict(p).score)


@pytest.mark.parametrize("weights", [None, {"x": 2.0, "y": 0.5}, {"x": 0.0, "y": 0.0}])
def test_normalised_rrf_keeps_the_order_and_its_parts_add_up(weights: dict[str, float] | None) -> None:
    p = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "d"]})
    plain, shares = (cc.RRF(weights=weights, normalize=n) for n in (False, True))
    a, b = plain.fit_predict(p), shares.fit_predict(p)
    assert a.rank.tolist() == b.rank.tolist()
    assert b.score.max() <= 1
    _, parts, base = shares._contributions(p)
    np.testing.assert_allclose(parts.sum(axis=1) + base, b.score, rtol=1e-15)


@pytest.mark.parametrize("name", ["isr", "log-isr"])
@pytest.mark.parametrize("instances", [1, 2])
def test_inverse_squares_keep_the_order_of_a_long_list(name: str, instances: int) -> None:
    """At rank 200,000 the scores of neighbours differ by 2.5e-16 of the best."""
    n = 200_000
    where = np.repeat(np.arange(instances), n // instances)
    place = np.tile(np.arange(n // instances), instances)
    p = cc.Preferences(where, ["x"] * n, place, place + 1.0)
    assert np.array_equal(cc.aggregate(p, name).rank, place + 1)


@pytest.mark.parametrize("name", ["isr", "log-isr"])
def test_inverse_squares_tie_far_down_where_their_sums_are_equal(name: str) -> None:
    """1/75² + 1/100² = 1/65² + 1/156² = 1/60²: the same sum of different terms, far below the best."""
    ranks = {
        "x": {"best": 1, "a": 75_000, "b": 65_000},
        "y": {"a": 100_000, "b": 156_000, "c": 156_001},
        "z": {"c": 65_000},
    }
    rows = [(expert, item, rank) for expert, items in ranks.items() for item, rank in items.items()]
    expert, item, rank = zip(*rows, strict=True)
    got = cc.aggregate(cc.Preferences(["q"] * len(rows), expert, item, rank), name)
    assert dict(zip(got.items.tolist(), got.rank.tolist(), strict=True)) == {"best": 1, "a": 2, "b": 2, "c": 4}


def test_sums_do_not_depend_on_the_order_of_experts() -> None:
    rng = np.random.default_rng(1)
    lists = {f"e{k}": [f"i{i}" for i in rng.permutation(40)[:25]] for k in range(30)}
    weights = {e: float(rng.choice([0.1, 0.2, 0.3, 1e6])) for e in lists}
    forward = cc.from_lists(lists, weights=weights)
    backward = cc.from_lists(dict(reversed(lists.items())), weights=weights)
    for method in (cc.RRF(), cc.ISR(), cc.Borda(), cc.CombMNZ(), cc.MeanRank(), cc.CombMED(norm="borda")):
        a, b = (dict(zip(p.items, method.fit_predict(p).score.tolist(), strict=True)) for p in (forward, backward))
        assert a == b, method


@pytest.mark.data
def test_rrf_gives_the_published_row_of_mq2008(data_dir: Any) -> None:
    """SPEC §0: the mean of the five test folds, in percent, to the second digit."""
    want = {"ndcg@1": 38.77, "ndcg@2": 40.73, "ndcg@3": 43.48, "ndcg@4": 45.70, "ndcg@5": 47.18}
    want |= {"p@1": 44.89, "p@5": 34.13, "map": 47.71}
    means = []
    for _, _, (preferences, labels) in cc.read_letor_folds(data_dir / "MQ2008-agg"):
        means.append(cc.evaluate(cc.RRF().fit_predict(preferences), labels, list(want), convention="letor").mean)
    got = {name: round(100 * float(np.mean([list(m.values())[n] for m in means])), 2) for n, name in enumerate(want)}
    assert got == want
