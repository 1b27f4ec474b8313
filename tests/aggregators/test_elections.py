"""Voting rules on ballots against their definitions in exact fractions, on random profiles and on those of PrefLib."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, prod
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest
from tests.aggregators.ballots import assert_groups, ballots_of, preflib_files, random_profiles
from tests.oracles import elections as oracle

import concordant as cc
from concordant.errors import DataWarning, KindError, ParameterError

Rule = Callable[[oracle.Ballots, list[str]], oracle.Groups]
RULES: list[tuple[cc.Aggregator, Rule]] = [
    (cc.Plurality(), oracle.plurality),
    (cc.Approval(k=2), lambda b, i: oracle.approval(b, i, 2)),
    (cc.Approval(), lambda b, i: oracle.approval(b, i, len(i))),
    (cc.Bucklin(), oracle.bucklin),
    (cc.IRV(), oracle.irv),
    (cc.IRV(ties="keep"), lambda b, i: oracle.irv(b, i, "keep")),
    (cc.Coombs(), oracle.coombs),
    (cc.Coombs(majority=False, ties="keep"), lambda b, i: oracle.coombs(b, i, majority=False, ties="keep")),
    (cc.Coombs(missing="below"), lambda b, i: oracle.coombs(b, i, below=True)),
    (cc.STV(), lambda b, i: oracle.stv(b, i, 1)),
    (cc.STV(seats=2), lambda b, i: oracle.stv(b, i, 2)),
    (cc.STV(seats=3, ties="keep"), lambda b, i: oracle.stv(b, i, 3, ties="keep")),
    (cc.STV(seats=2, quota="hare"), lambda b, i: oracle.stv(b, i, 2, quota="hare")),
]
MEEK: list[tuple[cc.Aggregator, Rule]] = [
    (cc.STV(seats=2, transfer="meek"), lambda b, i: oracle.meek(b, i, 2)),
    (cc.STV(seats=3, quota="hare", transfer="meek"), lambda b, i: oracle.meek(b, i, 3, quota="hare")),
]


@pytest.fixture(scope="module")
def profiles() -> tuple[cc.Preferences, dict[str, tuple[oracle.Ballots, list[str]]]]:
    return random_profiles(1000, 1)


@pytest.mark.parametrize(("method", "rule"), RULES, ids=[repr(method) for method, _ in RULES])
def test_random_ballots_are_counted_by_the_definition(method: cc.Aggregator, rule: Rule, profiles: Any) -> None:
    preferences, known = profiles
    assert_groups(method.fit_predict(preferences), {q: rule(*profile) for q, profile in known.items()})


@pytest.mark.parametrize(("method", "rule"), MEEK, ids=[repr(method) for method, _ in MEEK])
def test_meek_counts_random_ballots_by_the_definition(method: cc.Aggregator, rule: Rule) -> None:
    preferences, known = random_profiles(200, 2)
    assert_groups(method.fit_predict(preferences), {q: rule(*profile) for q, profile in known.items()})


@pytest.mark.data
def test_the_ballots_of_preflib_are_counted_by_the_definition(data_dir: Path) -> None:
    tried = 0
    # Every sixth file: `make evidence` counts all.
    for path in preflib_files(data_dir)[::6]:
        preferences = cc.read_preflib(path)
        # Exact fractions take too long on the others: 5,000 ballots, or large ties.
        if preferences.n_rows > 2500:
            continue
        ballots, items = ballots_of(preferences)
        if sum(prod(factorial(len(g)) for g in groups) for _, groups in ballots) > 500:
            continue
        tried += 1
        rounds = (RULES[4], RULES[6], RULES[10]) if len(items) <= 30 else ()
        for method, rule in (RULES[0], RULES[3], *rounds):
            assert_groups(method.fit_predict(preferences), {preferences.instances[0]: rule(ballots, items)})
    assert tried > 60


def test_approval_of_ratings_counts_those_at_the_threshold() -> None:
    stars = cc.Preferences(list("qqqqqq"), list("xxyyzz"), list("abaebc"), [5, 3, 4, 2, 3, 1], kind="rating")
    got = cc.Approval(threshold=3).fit_predict(stars)
    assert dict(zip(got.items, got.score, strict=True)) == {"a": 2, "b": 2, "e": 0, "c": 0}


def test_approval_of_ratings_asks_for_the_threshold() -> None:
    stars = cc.Preferences(["q"] * 4, list("xxyy"), list("abab"), [3, 1, 2, 3], kind="rating")
    with pytest.warns(DataWarning, match=r"also with the lowest rating\. .* such as threshold=3\.0"):
        assert cc.Approval().fit_predict(stars).score.tolist() == [2.0, 2.0]
    # One level is a list of approved items.
    approved = cc.Preferences(["q"] * 3, list("xxy"), list("aba"), [1, 1, 1], kind="rating")
    assert cc.Approval().fit_predict(approved).score.tolist() == [2.0, 1.0]


def test_approval_says_what_to_give_instead() -> None:
    ranks = cc.from_lists({"x": ["a", "b"]})
    with pytest.raises(KindError, match=r"Approval\(threshold=3\) needs ratings or scores.*Use k="):
        cc.Approval(threshold=3).fit_predict(ranks)
    with pytest.raises(ParameterError, match="threshold or k, not both"):
        cc.Approval(threshold=3, k=1).fit_predict(ranks)


def test_tied_items_share_a_ballot_as_all_their_orders_do() -> None:
    tied = cc.Preferences(list("qqqqq"), list("xxxyz"), list("abcab"), [1, 1, 2, 1, 1], weight=[2, 2, 2, 1, 1])
    apart = cc.from_lists({"x1": ["a", "b", "c"], "x2": ["b", "a", "c"], "y": ["a"], "z": ["b"]})
    for method in (cc.Plurality(), cc.Bucklin(), cc.IRV(), cc.Coombs(), cc.STV(seats=2, transfer="meek")):
        assert method.fit_predict(tied).score.tolist() == pytest.approx(method.fit_predict(apart).score.tolist())


def test_meek_gives_what_an_elected_item_passes_on_to_those_tied_with_it() -> None:
    # a and b share 6 votes; a has 5 more. Of 13 votes the quota is 13/3, and a passes 11/3 on.
    votes = cc.Preferences(
        list("qqqqq"), list("xxyzz"), list("abacb"), [1, 1, 1, 1, 2], weight=[6, 6, 5, 2, 2], kind="rank"
    )
    ballots, items = ballots_of(votes)
    assert_groups(cc.STV(seats=2, transfer="meek").fit_predict(votes), {"q": oracle.meek(ballots, items, 2)})
    assert cc.STV(seats=2, transfer="meek").fit_predict(votes).ranking() == ["a", "b", "c"]


def test_large_tied_groups_and_many_items_are_counted() -> None:
    rng = np.random.default_rng(0)
    rows = [("q", f"e{e}", f"i{i}", v) for e in range(30) for i, v in enumerate(rng.integers(1, 6, 60).tolist())]
    votes = cc.Preferences(*zip(*rows, strict=True))
    for method in (cc.IRV(), cc.Coombs(), cc.Bucklin(), cc.STV(seats=5), cc.STV(seats=5, transfer="meek")):
        score = method.fit_predict(votes).score
        assert np.isfinite(score).all()
        assert len(np.unique(score)) > 30


def long_lists(n: int, shape: str) -> cc.Preferences:
    """Return two lists of n items: opposed but for three items, drawn, or one that ties all and weighs more."""
    up = np.arange(1.0, n + 1)
    rank = {"opposed": up[::-1].copy(), "drawn": np.random.default_rng(1).permutation(up), "tied": np.ones(n)}[shape]
    if shape == "opposed":
        rank[[0, n // 2, n - 1]] = rank[[n // 2, n - 1, 0]]
    names = np.tile(np.arange(n), 2).astype(str)
    weight = {"x": 1.0, "y": 2.0 if shape == "tied" else 1.0}
    return cc.Preferences(["q"] * 2 * n, np.repeat(["x", "y"], n), names, np.r_[up, rank], weight=weight)


@pytest.mark.parametrize("shape", ["opposed", "drawn", "tied"])
@pytest.mark.parametrize("method", [cc.IRV(), cc.Coombs(), cc.STV(seats=2), cc.Bucklin()], ids=repr)
def test_long_lists_are_counted_in_seconds(method: cc.Aggregator, shape: str) -> None:
    started = process_time()
    score = method.fit_predict(long_lists(2000 if not isinstance(method, cc.Bucklin) else 30_000, shape)).score
    # Steps whose number grows with the cube of the items take 8 seconds or more for some of these.
    assert process_time() - started < 4
    assert score.min() >= 0


def test_two_lists_of_any_length_are_counted_as_the_definition_says() -> None:
    for shape in ("opposed", "drawn", "tied"):
        votes = long_lists(40, shape)
        ballots, items = ballots_of(votes)
        if shape == "tied":
            # All orders of 40 tied items are too many for the oracle.
            assert cc.IRV().fit_predict(votes).ranking() == [str(n) for n in range(40)]
            assert cc.Coombs().fit_predict(votes).ranking() == [str(n) for n in range(40)]
            continue
        for method, rule in (RULES[3], RULES[4], RULES[5], RULES[6], RULES[7], RULES[10]):
            assert_groups(method.fit_predict(votes), {"q": rule(ballots, items)})


def test_a_profile_without_votes_is_a_tie() -> None:
    votes = cc.Preferences(["q"], ["x"], ["a"], [1], weight=[0.0], items=[("q", "a"), ("q", "b")])
    for method in (cc.Plurality(), cc.Approval(), cc.Bucklin(), cc.IRV(), cc.Coombs(), cc.STV()):
        assert method.fit_predict(votes).rank.tolist() == [1, 1]
