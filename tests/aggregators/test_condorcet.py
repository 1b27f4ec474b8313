"""Condorcet voting rules against their definitions in exact fractions, and the majority graph against every subset."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.aggregators.ballots import Profiles, assert_groups, ballots_of, preflib_files, random_profiles
from tests.oracles import elections as oracle

import concordant as cc
from concordant.errors import DataError, KindError, ParameterError

Rule = Callable[[oracle.Ballots, list[str]], oracle.Groups]
RULES: list[tuple[cc.Aggregator, Rule]] = [
    (cc.Baldwin(), oracle.baldwin),
    (cc.Baldwin(ties="keep", missing="below"), lambda b, i: oracle.baldwin(b, i, "keep", below=True)),
    (cc.Nanson(), oracle.nanson),
    (cc.Nanson(missing="below", keep_average=True), lambda b, i: oracle.nanson(b, i, below=True, keep_average=True)),
    (cc.Nanson(ties="keep"), lambda b, i: oracle.nanson(b, i, "keep")),
    (cc.Minimax(), oracle.minimax),
    (cc.Minimax(missing="below", ties="keep"), lambda b, i: oracle.minimax(b, i, ties="keep", below=True)),
    (cc.Minimax(opposition="winning-votes"), lambda b, i: oracle.minimax(b, i, "winning-votes")),
    (cc.Minimax(opposition="pairwise"), lambda b, i: oracle.minimax(b, i, "pairwise")),
    (cc.Schulze(), oracle.schulze),
    (cc.Schulze(strength="margins", missing="below"), lambda b, i: oracle.schulze(b, i, "margins", below=True)),
    (cc.RankedPairs(), oracle.ranked_pairs),
    (cc.RankedPairs(strength="winning-votes"), lambda b, i: oracle.ranked_pairs(b, i, "winning-votes")),
    (cc.RankedPairs(missing="below"), lambda b, i: oracle.ranked_pairs(b, i, below=True)),
]


@pytest.fixture(scope="module")
def profiles() -> tuple[cc.Preferences, Profiles]:
    return random_profiles(400, 3)


@pytest.mark.parametrize(("method", "rule"), RULES, ids=[repr(method) for method, _ in RULES])
def test_random_ballots_are_counted_by_the_definition(method: cc.Aggregator, rule: Rule, profiles: Any) -> None:
    preferences, known = profiles
    assert_groups(method.fit_predict(preferences), {q: rule(*profile) for q, profile in known.items()})


@pytest.mark.data
def test_the_ballots_of_preflib_are_counted_by_the_definition(data_dir: Path) -> None:
    tried = 0
    # Every sixth file: `make evidence` counts all.
    for path in preflib_files(data_dir)[::6]:
        preferences = cc.read_preflib(path)
        ballots, items = ballots_of(preferences)
        if len(items) > 25 or len(ballots) > 200:
            continue
        tried += 1
        for method, rule in (RULES[0], RULES[2], RULES[5], RULES[9], RULES[11]):
            assert_groups(method.fit_predict(preferences), {preferences.instances[0]: rule(ballots, items)})
    assert tried > 40


def test_sets_of_items_and_the_majority_graph_are_those_of_the_definitions() -> None:
    preferences, known = random_profiles(120, 4)
    for missing in ("unknown", "below"):
        graph = {q: frame for (q,), frame in cc.majority_graph(preferences, missing=missing).group_by("instance")}
        for q, (ballots, items) in known.items():
            votes = oracle.pair_votes(ballots, items, missing == "below")
            beats = {i: [j for j in items if j != i and votes[i, j] > votes[j, i]] for i in items}
            winners = [i for i in items if len(beats[i]) == len(items) - 1]
            losers = [i for i in items if all(i in beats[j] for j in items if j != i)]
            assert cc.condorcet_winner(preferences, q, missing=missing) == next(iter(winners), None)
            assert cc.condorcet_loser(preferences, q, missing=missing) == next(iter(losers), None)
            (smith,) = oracle.dominant_sets(votes, items, strictly=True)
            assert set(cc.smith_set(preferences, q, missing=missing)) == smith
            schwartz = set().union(*oracle.dominant_sets(votes, items, strictly=False))
            assert set(cc.schwartz_set(preferences, q, missing=missing)) == schwartz
            rows = graph[q].rows(named=True) if q in graph else []
            assert {(r["winner"], r["loser"]) for r in rows} == {(i, j) for i in items for j in beats[i]}
            for r in rows:
                a, b = r["winner"], r["loser"]
                tied = sum((w for w, groups in ballots if any(a in g and b in g for g in groups)), Fraction(0))
                assert (r["votes_for"], r["votes_against"], r["ties"]) == (votes[a, b], votes[b, a], tied)
                assert r["margin"] == r["votes_for"] - r["votes_against"]
            assert [r["margin"] for r in rows] == sorted((r["margin"] for r in rows), reverse=True)


def test_a_condorcet_winner_comes_first_and_the_smith_set_before_all_others() -> None:
    preferences, _ = random_profiles(300, 5)
    rules = [
        cc.Baldwin(),
        cc.Nanson(),
        cc.Schulze(),
        cc.RankedPairs(),
        cc.Minimax(),
        cc.Minimax(opposition="winning-votes"),
    ]
    found = [rule.fit_predict(preferences) for rule in rules]
    for q in preferences.instances:
        winner, smith = cc.condorcet_winner(preferences, q), cc.smith_set(preferences, q)
        for rule, consensus in zip(rules, found, strict=True):
            one = consensus[q]
            first = one.items[one.rank == 1].tolist()
            assert winner is None or first == [winner], (rule, q)
            # Minimax does not promise the next.
            assert set(first) <= set(smith) or rule.name == "minimax", (rule, q)


def test_clones_change_no_winner_of_schulze_and_ranked_pairs() -> None:
    """Ballots without ties in number: every margin differs, so that no tie-break is involved."""
    rng = np.random.default_rng(6)
    for _ in range(60):
        lists = {f"e{k}": list(rng.permutation(list("abcd"))) for k in range(6)}
        weights = {k: float(w) for k, w in zip(lists, 3 ** np.arange(6) + 0.1 * rng.random(6), strict=True)}
        plain = cc.from_lists(lists, weights=weights)
        cloned = cc.from_lists(
            {
                k: [j for i in order for j in ((rng.permutation(["a", "A"]).tolist()) if i == "a" else [i])]
                for k, order in lists.items()
            },
            weights=weights,
        )
        for rule in (cc.Schulze(), cc.RankedPairs()):
            before, after = (rule.fit_predict(p).ranking()[0] for p in (plain, cloned))
            assert before == after.lower()


def test_comparisons_count_as_ballots_do() -> None:
    votes = cc.from_lists({"x": list("abcd"), "y": list("bcad"), "z": list("cabd"), "w": list("dabc")})
    pairs = votes.comparisons("binary")
    for rule in (cc.Baldwin(), cc.Nanson(), cc.Minimax(), cc.Schulze(), cc.RankedPairs()):
        assert rule.fit_predict(pairs).to_dict() == rule.fit_predict(votes).to_dict()
    assert cc.smith_set(pairs) == cc.smith_set(votes) == ["a", "b", "c"]
    assert cc.majority_graph(pairs).equals(cc.majority_graph(votes))


def test_rules_on_pairs_refuse_what_they_cannot_answer() -> None:
    two = cc.concat([cc.from_lists({"x": ["a", "b"]}, instance=q) for q in ("q1", "q2")])
    with pytest.raises(DataError, match=r"there are 2 instances; name one: smith_set\(preferences, instance\)"):
        cc.smith_set(two)
    with pytest.raises(DataError, match=r"condorcet_winner: no instance 'q3'. Instances: \['q1', 'q2'\]"):
        cc.condorcet_winner(two, "q3")
    with pytest.raises(ParameterError, match="'missing' parameter of majority_graph must be one of"):
        cc.majority_graph(two, missing="last")
    with pytest.raises(KindError, match="counts Preferences or Comparisons, not Consensus"):
        cc.schwartz_set(cc.Borda().fit_predict(two))  # type: ignore[arg-type]


def test_small_and_silent_instances_have_majority_graphs() -> None:
    one = cc.from_lists({"x": ["a"]})
    assert (cc.condorcet_winner(one), cc.condorcet_loser(one), cc.smith_set(one)) == ("a", None, ["a"])
    assert cc.majority_graph(one).shape == (0, 7)
    silent = cc.Preferences(["q"], ["x"], ["a"], [1], items=[("q", "a"), ("q", "b")])
    assert cc.condorcet_winner(silent) is None
    assert cc.schwartz_set(silent) == ["a", "b"]
    assert cc.condorcet_winner(silent, missing="below") == "a"


def test_a_thousand_items_are_ranked() -> None:
    rng = np.random.default_rng(1)
    scores = np.arange(1000)[None, :] + rng.normal(0, 300, (15, 1000))
    lists = {f"e{k}": {f"i{i}": s for i, s in enumerate(row)} for k, row in enumerate(scores.tolist())}
    votes = cc.from_lists(lists)
    borda = cc.Borda().fit_predict(votes).score
    for rule in (cc.Schulze(), cc.RankedPairs()):
        assert np.corrcoef(rule.fit_predict(votes).score, borda)[0, 1] > 0.95
