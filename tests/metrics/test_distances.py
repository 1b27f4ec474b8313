"""Kendall and its relatives: golden 12, brute force over pairs and over tie breaks, SciPy, published RBO values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import metrics as oracle

from concordant.errors import DataError, ParameterError
from concordant.metrics import (
    footrule,
    kendall_counts,
    kendall_distance,
    kendall_tau_b,
    rank_biased_overlap,
    spearman,
    top_k_counts,
    top_k_distance,
)
from concordant.metrics.distances import _inversions

pairs_of_ranks = st.lists(st.tuples(st.integers(-3, 6), st.integers(0, 8)), max_size=24)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def test_golden_kendall_and_top_k(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("12_kendall_topk")
    for case in content["cases"]:
        given_, expected = case["input"], case["expected"]
        if "a" in given_:
            a, b = np.array(given_["a"]), np.array(given_["b"])
            counts = kendall_counts(a, b)
            assert counts.concordant == expected["concordant"]
            assert counts.discordant == expected["discordant"]
            assert kendall_distance(a, b) == expected["discordant"]
            continue
        first, second = given_["pi_best_first"], given_["sigma_best_first"]
        counts = top_k_counts(first, second)
        assert counts == (expected["V"], expected["U"], expected["r"], expected["z"])
        assert top_k_distance(first, second) == expected["distance"]
        r = expected["r"]
        assert top_k_distance(first, second) == expected["fagin_K0"] - r * (r - 1) / 2


@given(pairs_of_ranks)
def test_pair_counts_equal_brute_force(pairs: list[tuple[int, int]]) -> None:
    a, b = columns(pairs)
    assert kendall_counts(a, b) == oracle.kendall(a.tolist(), b.tolist())


@given(st.lists(st.integers(0, 70), max_size=60))
def test_inversions_equal_brute_force(codes: list[int]) -> None:
    expected = sum(codes[i] > codes[j] for i in range(len(codes)) for j in range(i + 1, len(codes)))
    assert _inversions(np.array(codes, dtype=np.int64)) == expected


def test_pair_counts_of_many_items_have_closed_forms() -> None:
    m = 200_000
    up = np.arange(m)
    pairs = m * (m - 1) // 2
    assert kendall_counts(up, up[::-1]).discordant == pairs
    assert kendall_counts(up, up).concordant == pairs
    # Reversed within blocks of four: six discordant pairs in each.
    assert kendall_counts(up, up.reshape(-1, 4)[:, ::-1].ravel()).discordant == 6 * m // 4
    halves = kendall_counts(up, up // (m // 2))
    assert halves == (m * m // 4, 0, 0, pairs - m * m // 4, 0)


@given(pairs_of_ranks)
def test_correlations_equal_scipy(pairs: list[tuple[int, int]]) -> None:
    from scipy import stats

    a, b = columns(pairs)
    if len(set(a.tolist())) < 2 or len(set(b.tolist())) < 2:
        assert math.isnan(kendall_tau_b(a, b))
        assert math.isnan(spearman(a, b))
        return
    assert kendall_tau_b(a, b) == pytest.approx(stats.kendalltau(a, b).statistic, abs=1e-12)
    assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)


@given(pairs_of_ranks)
def test_footrule_equals_its_definition(pairs: list[tuple[int, int]]) -> None:
    a, b = columns(pairs)
    x, y = oracle.average_ranks(a.tolist()), oracle.average_ranks(b.tolist())
    total = sum(abs(i - j) for i, j in zip(x, y, strict=True))
    assert footrule(a, b) == pytest.approx(total)
    assert footrule(a, b, normalize=True) == pytest.approx(total / max(len(a) ** 2 // 2, 1))
    # Diaconis and Graham: Kendall <= footrule <= 2 Kendall, for rankings without ties.
    c = kendall_counts(a, b)
    if c[2:] == (0, 0, 0):
        assert c.discordant <= footrule(a, b) <= 2 * c.discordant


def test_normalised_kendall_distance() -> None:
    a, b = np.array([1, 2, 3, 3]), np.array([1, 3, 2, 2])
    assert kendall_distance(a, b, normalize=True) == pytest.approx(2 / 5)
    assert math.isnan(kendall_distance(np.array([1, 1]), np.array([1, 2]), normalize=True))


def test_the_three_ways_to_give_a_ranking_agree() -> None:
    lists = (["a", ["b", "c"], "d"], [{"d"}, "a", "b", "c"])
    maps = ({"a": 1, "b": 2, "c": 2, "d": 9}, {"a": 2, "b": 3, "c": 4, "d": 1})
    arrays = (np.array([1, 2, 2, 9]), np.array([2, 3, 4, 1]))
    for f in (kendall_counts, kendall_tau_b, kendall_distance, spearman, footrule):
        assert f(*lists) == f(*maps) == f(*arrays) == f(lists[0], maps[1])


top_lists = st.integers(0, 8).flatmap(
    lambda k: st.tuples(*[st.permutations(list(range(12))).map(lambda p: list(p[:k]))] * 2)
)


@given(top_lists)
def test_top_k_distance_equals_brute_force_and_is_symmetric(lists: tuple[list[int], list[int]]) -> None:
    a, b = lists
    counts = top_k_counts(a, b)
    assert counts == oracle.top_k(a, b)
    r = counts.r
    assert top_k_distance(a, b) == oracle.fagin_zero(a, b) - r * (r - 1) // 2 == top_k_distance(b, a)


def test_top_k_distance_is_not_a_metric() -> None:
    a, b, c = [0, 1, 2], [0, 1, 3], [3, 4, 2]
    assert top_k_distance(a, c) == 7 > top_k_distance(a, b) + top_k_distance(b, c)


def test_published_rank_biased_overlap_with_ties(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("rank_biased_overlap")
    for case in content["cases"]:
        a, b, p = case["input"]["a"], case["input"]["b"], case["input"]["p"]
        for ties, expected in case["expected"].items():
            for x, y in ((a, b), (b, a)):
                got = rank_biased_overlap(x, y, p=p, ties=ties)
                assert got == pytest.approx(expected, abs=content["abs_tol"]), (case["name"], ties)


any_lists = st.tuples(
    *[st.tuples(st.permutations(list("abcdefgh")), st.integers(1, 8)).map(lambda t: list(t[0][: t[1]]))] * 2
)


@given(any_lists, st.sampled_from([0.1, 0.5, 0.9, 0.99]), st.sampled_from("abw"))
def test_rank_biased_overlap_without_ties_equals_the_formula(
    lists: tuple[list[str], list[str]], p: float, ties: str
) -> None:
    a, b = lists
    assert rank_biased_overlap(a, b, p=p, ties=ties) == pytest.approx(oracle.rbo(a, b, p), abs=1e-12)


def grouped(items: list[str], cuts: list[bool]) -> list[list[str]]:
    groups: list[list[str]] = []
    for item, cut in zip(items, cuts, strict=False):
        if cut or not groups or len(groups[-1]) == 3:
            groups.append([])
        groups[-1].append(item)
    return groups


@given(
    st.permutations(list("abcdef")),
    st.permutations(list("abcdefg")),
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_variant_a_is_the_mean_over_all_ways_to_break_ties(
    first: list[str], second: list[str], cuts: list[bool], others: list[bool]
) -> None:
    a, b = grouped(first[:5], cuts), grouped(second[:5], others)
    expected = oracle.over_ties(lambda x, y: oracle.rbo(x, y, 0.8), a, b)
    assert rank_biased_overlap(a, b, p=0.8, ties="a") == pytest.approx(expected, abs=1e-12)


@given(st.permutations(list("abcdef")), st.lists(st.booleans(), min_size=6, max_size=6))
def test_a_list_with_ties_agrees_with_itself_under_b_and_w(items: list[str], cuts: list[bool]) -> None:
    a = grouped(items, cuts)
    assert rank_biased_overlap(a, a, ties="b") == pytest.approx(1.0)
    assert rank_biased_overlap(a, a, ties="w") == pytest.approx(1.0)


def test_rank_biased_overlap_of_empty_lists() -> None:
    assert rank_biased_overlap([], []) == 1.0
    assert rank_biased_overlap([], ["a"]) == 0.0
    assert rank_biased_overlap({"a": 1, "b": 2}, ["a", "b"]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kendall_tau_b(["a", "a"], ["a", "b"]), "holds item 'a' twice. A list holds items, best first"),
        (lambda: kendall_tau_b(["a", "b"], ["a", "c"]), r"only the first has \['b'\], only the second has \['c'\]"),
        (lambda: kendall_tau_b(np.array([1, 2]), ["a", "b"]), "paired by index"),
        (lambda: kendall_tau_b(np.array([1, 2]), np.array([1, 2, 3])), r"of one length. Got \(2,\) and \(3,\)"),
        (lambda: spearman(np.array([1.0, np.nan]), np.array([1, 2])), "finite numbers only"),
        (lambda: spearman({"a": math.inf}, {"a": 1}), r"not finite numbers, for \['a'\]"),
        (lambda: footrule("abc", ["a"]), "not one text. Got 'abc'"),
        (lambda: top_k_distance(["a"], ["a", "b"]), "Got 1 and 2 items; cut both to the same k"),
        (lambda: top_k_distance(["a", ["b", "c"]], ["a", "b", "c"]), "first ranking has ties"),
        (lambda: rank_biased_overlap(np.array([1, 2]), ["a"]), "an array of ranks without items"),
    ],
)
def test_rankings_that_cannot_be_compared_are_errors(call: Callable[[], float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        call()


@pytest.mark.parametrize("p", [0, 1, -0.1, "0.9", True])
def test_persistence_lies_between_zero_and_one(p: Any) -> None:
    with pytest.raises(ParameterError, match="'p' parameter of rank_biased_overlap must be a number between 0 and 1"):
        rank_biased_overlap(["a"], ["a"], p=p)


def test_unknown_tie_rule_of_rank_biased_overlap() -> None:
    with pytest.raises(ParameterError, match=r"must be one of 'a', 'b', 'w'. Got 'c'"):
        rank_biased_overlap(["a"], ["a"], ties="c")
