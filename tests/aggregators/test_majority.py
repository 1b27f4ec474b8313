"""Majority methods against counting by hand and every permutation, on all their paths."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.aggregators.ballots import random_profiles
from tests.aggregators.common import assert_scores, from_matrix, instances_of
from tests.data.strategies import Rows, comparison_rows, preference_rows
from tests.oracles import kemeny as kemeny_oracle
from tests.oracles import methods as oracle
from tests.oracles.elections import pair_votes

import concordant as cc
from concordant.aggregators import _pairwise_votes
from concordant.data.preferences import Preferences
from concordant.errors import ConcordantWarning, DataError, IdentifiabilityWarning, ParameterError
from concordant.execution import force_threads

# Random votes often have several optimal rankings.
pytestmark = pytest.mark.filterwarnings("ignore:the optimal ranking is one of several")


def test_worked_case(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("17_simple_baselines")
    for case in content["cases"]:
        p = from_matrix(case["input"]["R"])
        want = case["expected"]
        score = cc.Condorcet().fit_predict(p).score
        assert np.floor(score).tolist() == want["condorcet_wins"]
        assert cc.Copeland().fit_predict(p).score.tolist() == want["condorcet_wins_minus_losses"]
        keys = list(zip(want["condorcet_wins"], want["condorcet_wins_minus_losses"], want["rrf_60"], strict=True))
        assert np.argsort(-score, kind="stable").tolist() == sorted(range(len(keys)), key=lambda i: keys[i])[::-1]


@given(preference_rows(), st.sampled_from(["unknown", "below"]))
def test_wins_and_losses_are_counted_as_defined(rows: Rows, missing: str) -> None:
    for p, items, lists in instances_of(rows):
        table = oracle.outcomes(items, oracle.votes(items, lists, missing))
        assert_scores(cc.Copeland(missing=missing).fit_predict(p), {i: float(w - k) for i, (w, k) in table.items()})
        got = dict(zip(items, cc.Condorcet(missing=missing).fit_predict(p).score.tolist(), strict=True))
        fused = oracle.rrf(items, lists, rows.kind)
        key = {i: (table[i][0], table[i][0] - table[i][1], round(fused[i], 10)) for i in items}
        for a in items:
            assert int(got[a]) == table[a][0]
            assert got[a] - int(got[a]) < 0.5
            for b in items:
                assert (got[a] > got[b]) == (key[a] > key[b])


@given(comparison_rows())
def test_comparisons_are_votes(arguments: dict[str, Any]) -> None:
    c = cc.Comparisons(**arguments)
    for q in c.instances:
        items = [i for r, i in arguments["items"] if r == q]
        ahead = {(a, b): 0.0 for a in items for b in items}
        columns = ("instance", "left", "right", "n_left", "n_right")
        for r, left, right, n_left, n_right in zip(*(arguments[x] for x in columns), strict=True):
            if r == q:
                ahead[left, right] += n_left
                ahead[right, left] += n_right
        table = oracle.outcomes(items, ahead)
        one = c[q]
        assert_scores(cc.Copeland().fit_predict(one), {i: float(w - k) for i, (w, k) in table.items()})
        assert np.floor(cc.Condorcet().fit_predict(one).score).tolist() == [table[i][0] for i in items]
        method = cc.Kemeny()
        method.fit_predict(one)
        assert method.optimality_["cost"] == [kemeny_oracle.best(items, ahead)[0]]


def random_preferences(n_items: int, n_lists: int, length: int, seed: int, *, levels: int = 0) -> Preferences:
    """Return one instance of noisy lists; with `levels`, scores that tie."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[str, str, str, float]] = []
    for k in range(n_lists):
        score = rng.standard_normal(n_items) - np.arange(n_items) / n_items
        chosen = rng.permutation(n_items)[:length]
        rows += [("q", f"e{k}", f"i{i}", round(score[i], levels) if levels else score[i]) for i in chosen.tolist()]
    items = [("q", f"i{i}") for i in range(n_items)]
    return cc.Preferences(*zip(*rows, strict=True), kind="score", items=items)


def dense_outcomes(p: Preferences, missing: str) -> tuple[list[float], list[float]]:
    """Return wins minus losses and wins of one instance from the full table of every list."""
    n = p.n_slots
    margin = np.zeros((n, n), dtype=np.float32)
    for k in range(p.n_lists):
        rows = slice(p.list_offsets[k], p.list_offsets[k + 1])
        strength = np.full(n, -np.inf if missing == "below" else np.nan)
        strength[p.slot[rows]] = p.value[rows]
        ahead = strength[:, None] > strength[None, :]
        margin += p.weights[k] * (ahead.astype(np.float32) - ahead.T)
    margin[np.abs(margin) < 1e-3] = 0
    return np.sign(margin).sum(axis=1).tolist(), (margin > 0).sum(axis=1).tolist()


@pytest.mark.parametrize("missing", ["unknown", "below"])
@pytest.mark.parametrize(
    ("n_items", "n_lists", "length", "levels"),
    [
        (130, 9, 130, 0),  # several tiles, every list complete
        (130, 9, 60, 1),  # ties and missing items
        (300, 4, 290, 0),  # more than 255 places: two bytes
        (70, 300, 40, 1),  # more lists than one byte counts
        (200, 50, 3, 0),  # short lists: pair by pair
        (4200, 3, 4000, 0),  # more than one tile across, one list at a time
        (2100, 20, 6, 0),  # short lists over so many items that only the pairs that occur are kept
    ],
)
def test_every_path_counts_alike(n_items: int, n_lists: int, length: int, levels: int, missing: str) -> None:
    p = random_preferences(n_items, n_lists, length, seed=n_items, levels=levels)
    if n_items < 1000:
        p = p.with_weights({f"e{k}": [1.0, 0.1, 0.2, 0.3, 0.0][k % 5] for k in range(n_lists)})
    net, wins = dense_outcomes(p, missing)
    assert np.floor(cc.Condorcet(missing=missing).fit_predict(p).score).tolist() == wins
    with force_threads(3):
        assert cc.Copeland(missing=missing).fit_predict(p).score.tolist() == net
    if n_items < 1000:
        p = p.with_weights(None)
        net, wins = dense_outcomes(p, missing)
        assert cc.Copeland(missing=missing).fit_predict(p).score.tolist() == net
        assert np.floor(cc.Condorcet(missing=missing).fit_predict(p).score).tolist() == wins


def test_weights_that_meet_only_up_to_rounding_are_a_draw() -> None:
    p = cc.from_lists({"x": ["a", "b"], "y": ["a", "b"], "z": ["b", "a"]}, weights={"x": 0.1, "y": 0.2, "z": 0.3})
    assert cc.Copeland().fit_predict(p).score.tolist() == [0, 0]
    assert cc.Kemeny().fit_predict(p).score.tolist() == [-1.5, -1.5]


def orders(n: int) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.permutations(range(n)), min_size=1, max_size=7)


@given(st.integers(2, 6).flatmap(orders))
def test_a_condorcet_winner_comes_first(lists: list[list[int]]) -> None:
    p = cc.from_lists({f"e{k}": [f"i{i}" for i in order] for k, order in enumerate(lists)})
    items = p.items.tolist()
    table = oracle.outcomes(items, oracle.votes(items, [(1.0, {f"i{i}": -o.index(i) for i in o}) for o in lists]))
    winner = [i for i in items if table[i][0] == len(items) - 1]
    for method in (cc.Condorcet(), cc.Copeland(), cc.Condorcet(fusion=True), cc.Kemeny(), cc.Kemeny(solver="local")):
        got = method.fit_predict(p)
        assert not winner or (got.ranking()[0], int((got.rank == 1).sum())) == (winner[0], 1), method


@given(preference_rows(), st.sampled_from(["unknown", "below"]))
def test_fusion_never_puts_an_item_right_behind_one_it_beats(rows: Rows, missing: str) -> None:
    for p, items, lists in instances_of(rows):
        ahead = oracle.votes(items, lists, missing)
        got = cc.Condorcet(fusion=True, missing=missing).fit_predict(p)
        order = got.ranking()
        for a, b in itertools.pairwise(order):
            assert ahead[a, b] >= ahead[b, a]
        place = dict(zip(got.items, got.score.tolist(), strict=True))
        for a, b in itertools.pairwise(order):
            assert place[a] > place[b] or ahead[a, b] == ahead[b, a]


def test_fusion_of_many_items_asks_only_for_the_pairs_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    p = random_preferences(120, 7, 90, seed=5, levels=1).with_weights({f"e{k}": 1.0 + k for k in range(7)})
    small = cc.Condorcet(fusion=True).fit_predict(p)
    monkeypatch.setattr("concordant.aggregators._pairwise_votes._TABLE_SIZE", 0)
    assert cc.Condorcet(fusion=True).fit_predict(p) == small


@settings(max_examples=40)
@given(preference_rows(), st.sampled_from(["unknown", "below"]))
def test_kemeny_is_the_best_of_all_permutations(rows: Rows, missing: str) -> None:
    for p, items, lists in instances_of(rows):
        ahead = oracle.votes(items, lists, missing)
        smallest, best = kemeny_oracle.best(items, ahead)
        for solver in ("auto", "exact", "milp"):
            method = cc.Kemeny(solver=solver, missing=missing)
            got = method.fit_predict(p)
            known = method.optimality_
            assert known["cost"] == pytest.approx([smallest])
            assert known["bound"] == pytest.approx([smallest])
            assert known["optimal"] == [True]
            assert method.fit_info_.converged
            assert method.fit_info_.objective == pytest.approx(smallest)
            place = dict(zip(items, got.rank.tolist(), strict=True))
            # Some cheapest ranking agrees with all that the consensus says, and the only one is the consensus.
            assert any(all(place[a] <= place[b] for a, b in itertools.pairwise(order)) for order in best)
            if len(best) == 1:
                assert tuple(got.ranking()) == best[0]
        method = cc.Kemeny(solver="local", missing=missing)
        got = method.fit_predict(p)
        known = method.optimality_
        assert known["bound"][0] <= smallest + 1e-9
        assert smallest - 1e-9 <= known["cost"][0] == pytest.approx(known["bound"][0] + known["gap"][0])
        if len(set(got.rank.tolist())) == len(items):
            assert kemeny_oracle.cost(got.ranking(), ahead) == pytest.approx(known["cost"][0])


def noisy(n_items: int, n_lists: int, seed: int) -> dict[str, list[str]]:
    rng = np.random.default_rng(seed)
    return {f"e{k}": [f"i{i}" for i in rng.permutation(n_items)] for k in range(n_lists)}


@pytest.mark.parametrize("seed", range(6))
def test_kemeny_solvers_agree_beyond_enumeration(seed: int) -> None:
    lists = noisy(12, 5 + seed % 2, seed)
    p = cc.from_lists(lists)
    methods = [cc.Kemeny(solver=m) for m in ("exact", "milp", "local")]
    answers = [m.fit_predict(p) for m in methods]
    cost = [m.optimality_["cost"][0] for m in methods]
    assert cost[0] == cost[1] <= cost[2]
    assert methods[2].optimality_["bound"][0] <= cost[0]
    ahead = oracle.votes(p.items.tolist(), [(1.0, {i: -n for n, i in enumerate(o)}) for o in lists.values()])
    for answer, c in zip(answers, cost, strict=True):
        if len(set(answer.rank.tolist())) == p.n_slots:
            assert kemeny_oracle.cost(answer.ranking(), ahead) == c


def test_kemeny_names_the_solver_of_the_hardest_group() -> None:
    circle = {"x": list("abc"), "y": list("bca"), "z": list("cab")}
    assert {m: solver_of(m, circle) for m in ("auto", "exact", "milp", "local")} == {
        "auto": "exact",
        "exact": "exact",
        "milp": "milp",
        "local": "local",
    }
    assert solver_of("auto", {"x": list("abc")}) == "majority"


def solver_of(method: str, lists: dict[str, list[str]]) -> str:
    kemeny = cc.Kemeny(solver=method)
    kemeny.fit_predict(cc.from_lists(lists))
    return str(kemeny.optimality_["solver"][0])


def test_kemeny_without_a_proof_says_so() -> None:
    p = cc.from_lists(noisy(30, 7, 1))
    with pytest.warns(ConcordantWarning, match="not proven optimal; instance 'q' costs"):
        cc.Kemeny(max_items=0).fit_predict(p)
    method = cc.Kemeny(solver="milp", time_limit=1e-9)
    with pytest.warns(ConcordantWarning, match="Raise time_limit"):
        method.fit_predict(p)
    assert method.optimality_["gap"][0] > 0
    assert not method.fit_info_.converged
    assert method.fit_info_.warnings
    proven = cc.Kemeny(solver="milp")
    proven.fit_predict(p)
    assert proven.optimality_["optimal"] == [True]
    assert method.optimality_["bound"][0] <= proven.optimality_["cost"][0] <= method.optimality_["cost"][0]
    with pytest.raises(DataError, match=r"'q' has 30 items .* solver='exact' solves up to 18"):
        cc.Kemeny(solver="exact").fit_predict(p)


def test_kemeny_orders_by_majority_alone_where_there_is_no_circle() -> None:
    p = cc.Preferences(
        ["q"] * 5,
        ["x", "x", "y", "y", "y"],
        ["a", "b", "b", "c", "d"],
        [1, 2, 1, 2, 2],
        items=[("q", i) for i in "abcde"],
    )
    method = cc.Kemeny()
    # e is met by nobody and stands where net votes of 0 belong; c and d are told apart by nothing.
    assert method.fit_predict(p).score.tolist() == [-1.0, -2.0, -4.5, -4.5, -3.0]
    assert method.optimality_ == {
        "instance": ["q"],
        "cost": [0.0],
        "bound": [0.0],
        "gap": [0.0],
        "optimal": [True],
        "solver": ["majority"],
        "unique": [False],
    }


def test_kemeny_finds_every_optimal_ranking_and_says_whether_there_is_one() -> None:
    preferences, known = random_profiles(150, 7)
    methods = {ties: cc.Kemeny(ties=ties) for ties in ("break", "mean")}
    answers = {ties: method.fit_predict(preferences) for ties, method in methods.items()}
    for n, (q, (ballots, items)) in enumerate(known.items()):
        votes = {pair: float(v) for pair, v in pair_votes(ballots, items).items()}
        cost, best = kemeny_oracle.best(items, votes)
        found = cc.Kemeny().optimal_rankings(preferences, q)
        assert sorted(tuple(i for group in r for i in group) for r in found) == sorted(best)
        for method in methods.values():
            assert method.optimality_["unique"][n] == (len(best) == 1)
            assert method.optimality_["cost"][n] == pytest.approx(cost)
        mean = {i: -np.mean([order.index(i) + 1 for order in best]) for i in items}
        assert_scores(answers["mean"][q], mean)
        one = answers["break"][q]
        assert len(set(one.rank.tolist())) < len(items) or tuple(one.ranking()) in best
        tied = {
            (a, b): float(sum(w for w, groups in ballots if any(a in g and b in g for g in groups)))
            for a in items
            for b in items
        }
        weak = cc.Kemeny().optimal_rankings(preferences, q, ties=True)
        want = kemeny_oracle.best_weak(items, votes, tied)
        assert sorted(map(_sorted_groups, weak)) == sorted(map(_sorted_groups, want))


def _sorted_groups(groups: list[list[str]]) -> list[list[str]]:
    return [sorted(group) for group in groups]


def test_kemeny_warns_once_of_all_instances_where_a_tie_break_chose() -> None:
    circle = {"x": list("abcd"), "y": list("bcad"), "z": list("cabd"), "w": list("abcd")}
    tied = {"x": list("ab"), "y": list("ba")}
    votes = cc.concat([cc.from_lists(lists, instance=q) for q, lists in (("q1", circle), ("q2", tied))])
    # a and b share a place: nothing was chosen.
    assert cc.Kemeny().fit_predict(votes)["q2"].rank.tolist() == [1, 1]
    loose = cc.from_lists({"x": list("ab"), "y": list("bcd"), "z": list("dcb")}, instance="q3")
    method = cc.Kemeny()
    with pytest.warns(IdentifiabilityWarning, match=r"several in 1 of 3 instances, such as 'q3'") as caught:
        method.fit_predict(cc.concat([votes, loose]))
    assert len(caught) == 1
    assert method.optimality_["unique"] == [True, False, False]
    assert method.fit_info_.warnings == [str(caught[0].message)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cc.Kemeny(ties="mean").fit_predict(loose)
        # What is not proven optimal is not called one of several optimal rankings.
        local = cc.Kemeny(solver="local")
        local.fit_predict(cc.from_lists(noisy(20, 5, 2)))
        assert local.optimality_["unique"] == [None]


def test_kemeny_lists_no_more_optima_than_asked_and_no_large_ones() -> None:
    free = cc.Preferences(["q"], ["x"], ["a"], [1], items=[("q", i) for i in "abcdefg"])
    with pytest.raises(DataError, match=r"'q' has more than 1,000 optimal rankings\. Pass a larger limit"):
        cc.Kemeny().optimal_rankings(free)
    assert len(cc.Kemeny().optimal_rankings(free, limit=6000)) == 5040
    assert cc.Kemeny(ties="mean").fit_predict(free).rank.tolist() == [1] * 7
    with pytest.raises(
        DataError, match=r"'q' has 30 items that majorities do not separate .* up to 18\. Use ties='break'"
    ):
        cc.Kemeny(ties="mean").fit_predict(cc.from_lists(noisy(30, 7, 1)))
    with pytest.raises(DataError, match=r"found for up to 12\. Leave out items that few lists hold\.$"):
        cc.Kemeny().optimal_rankings(cc.from_lists(noisy(15, 4, 1)), ties=True)
    with pytest.raises(ParameterError, match="solver='milp' does not find"):
        cc.Kemeny(ties="mean", solver="milp").fit_predict(free)


@pytest.mark.parametrize(
    "method",
    [
        cc.Condorcet(),
        cc.Condorcet(missing="below"),
        cc.Condorcet(fusion=True),
        cc.Copeland(),
        cc.Copeland(missing="below"),
        cc.MarkovChain(chain=4),
    ],
    ids=repr,
)
@pytest.mark.parametrize("largest", [3, 400], ids=["bytes", "words"])
def test_compiled_loops_count_what_numpy_counts(
    method: cc.Aggregator, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = np.random.default_rng(largest)
    rows = [
        (f"q{q}", f"e{e}", f"d{i}", float(chance.integers(1, 7)))
        for q in range(4)
        for e in range(9)
        for i in chance.permutation(40)[: chance.integers(1, 40)]
    ]
    # One long list makes positions need more room.
    rows += [("q0", "long", f"d{i}", float(i + 1)) for i in range(largest)]
    votes = cc.Preferences(*map(list, zip(*rows, strict=True)), kind="rank")
    monkeypatch.setattr(_pairwise_votes, "_COMPILED", "nothing.that.is.loaded")
    plain = method.fit_predict(votes).score
    monkeypatch.undo()
    monkeypatch.setattr(_pairwise_votes, "_MANY_PAIRS", 0)
    monkeypatch.setattr(_pairwise_votes, "_SOME_PAIRS", 0)
    np.testing.assert_array_equal(method.fit_predict(votes).score, plain)
    assert "concordant.kernels.pairwise_majorities" in sys.modules
