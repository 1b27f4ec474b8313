"""Bradley-Terry: worked cases, other libraries' numbers, what exists and what does not, and how sure it is."""

from __future__ import annotations

import math
import tracemalloc
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import linprog, minimize
from tests.aggregators.common import from_matrix
from tests.oracles import paired as oracle
from tests.oracles import spread

import concordant as cc
from concordant.aggregators import (
    _bradley_terry_identifiability,
    _bradley_terry_intervals,
    _item_covariates,
    _pairwise_outcomes,
)
from concordant.base.params import INTERVALS
from concordant.errors import (
    ConcordantWarning,
    DataError,
    KindError,
    NoFiniteEstimateError,
    NotFittedError,
    ParameterError,
    UncertaintyWarning,
)

MODELS = ("none", "davidson", "rao-kupper")

# (left, right, left wins, right wins, ties): asymmetric, connected, not every pair met.
ROWS: list[tuple[int, int, float, float, float]] = [
    (0, 1, 5.0, 2.0, 1.0),
    (2, 0, 1.0, 3.0, 2.0),
    (1, 2, 2.0, 2.0, 0.0),
    (2, 3, 4.0, 1.0, 3.0),
    (1, 3, 3.0, 1.0, 1.0),
    (4, 3, 1.0, 2.0, 0.0),
    (0, 4, 6.0, 1.0, 1.0),
]
M = 5


def comparisons(rows: Any = None, experts: Any = None, *, instance: str = "arena", **more: Any) -> cc.Comparisons:
    """Return rows of item numbers as comparisons of items a, b, c, ..."""
    columns = list(zip(*(ROWS if rows is None else rows), strict=True))
    left, right = ([chr(97 + int(i)) for i in column] for column in columns[:2])
    n = len({*left, *right})
    items = [(instance, chr(97 + i)) for i in range(max(n, M if rows is None else n))]
    return cc.Comparisons(instance, experts, left, right, *columns[2:], items=more.pop("items", items), **more)


def untied(rows: Any) -> Any:
    return [(*r[:4], 0.0) for r in rows]


def by_item(consensus: cc.Consensus, values: Any = None) -> dict[str, float]:
    column = consensus.score if values is None else values
    return dict(zip(consensus.items.tolist(), column.tolist(), strict=True))


# What the scores are.


def test_worked_cases(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("07_bradley_terry")
    for case in content["cases"]:
        R, want, tol = case["input"]["R"], case["expected"], content["abs_tol"]
        votes = from_matrix(R)
        outcomes = _pairwise_outcomes.ListOutcomes.of(votes, "count", ties=False)
        pairs = outcomes.pairs
        table = np.zeros((len(R), len(R)))
        table[pairs.left, pairs.right] = pairs.n_left
        table[pairs.right, pairs.left] = pairs.n_right
        np.testing.assert_allclose(table, want["Y_tot"], atol=tol)
        rows = [(i, j, table[i, j], table[j, i], 0.0) for i, j in combinations(range(len(R)), 2)]
        s = np.array(case["input"]["s"])
        assert oracle.log_likelihood(rows, s, 0.0, 0.0, "none") == pytest.approx(want["loglik"], abs=tol)
        from concordant.kernels import bradley_terry

        gradients = outcomes.expert_gradients(0, s, bradley_terry.Shared(), np.zeros(0, np.int64))[0]
        np.testing.assert_allclose(gradients.sum(axis=0), want["grad"], atol=tol)
        method = cc.BradleyTerry(prior=0, transform="count", uncertainty="none")
        np.testing.assert_allclose(method.fit_predict(votes).score, want["mle_s"], atol=tol)
        assert method.fit_info_.objective == pytest.approx(want["mle_loglik"], abs=tol)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("prior", [0, 0.1, 3.0])
def test_scores_and_tie_parameter_are_the_optimum(model: str, prior: float) -> None:
    rows = untied(ROWS) if model == "none" else ROWS
    method = cc.BradleyTerry(ties=model, prior=prior)
    got = method.fit_predict(comparisons(rows))
    s, tie, _ = oracle.best(rows, M, model, prior)
    np.testing.assert_allclose(got.score, s, atol=2e-4)
    assert method.tie_ == pytest.approx(tie, abs=2e-4)
    assert method.ties_ == model
    assert method.fit_info_.converged
    assert method.fit_info_.gradient_norm < 1e-9


def test_auto_is_davidson_with_ties_and_plain_without() -> None:
    with_ties = cc.BradleyTerry().fit(comparisons())
    assert (with_ties.ties_, with_ties.tie_) == ("davidson", cc.BradleyTerry(ties="davidson").fit(comparisons()).tie_)
    without = cc.BradleyTerry(ties="davidson").fit(comparisons(untied(ROWS)))
    assert (without.ties_, without.tie_) == ("none", 0.0)


def test_ties_left_out_are_counted() -> None:
    with pytest.warns(ConcordantWarning, match="8 ties are left out"):
        got = cc.BradleyTerry(ties="none").fit_predict(comparisons())
    np.testing.assert_array_equal(got.score, cc.BradleyTerry().fit_predict(comparisons(untied(ROWS))).score)
    # A fit without ties knows nothing of their worth.
    fitted = cc.BradleyTerry().fit(comparisons(untied(ROWS)))
    with pytest.warns(ConcordantWarning, match="8 ties are left out"):
        fitted.predict(comparisons())


def test_tie_parameter_is_shared_and_fixed_at_prediction() -> None:
    both = cc.concat([comparisons(), comparisons([(i, j, b, a, 3 * t) for i, j, a, b, t in ROWS], instance="other")])
    method = cc.BradleyTerry()
    got = method.fit_predict(both)
    tie = method.tie_
    alone = method.predict(comparisons())
    assert method.tie_ == tie
    np.testing.assert_allclose(alone.score, got["arena"].score, atol=1e-9)
    assert abs(cc.BradleyTerry().fit(comparisons()).tie_ - tie) > 0.05
    with pytest.raises(NotFittedError):
        cc.BradleyTerry().predict(both)


@pytest.mark.parametrize(
    ("transform", "kind", "pairs"),
    [
        ("count", "rank", {"ab": 1.0, "ac": 4.0, "bc": 3.0}),
        ("binary", "rank", {"ab": 1.0, "ac": 1.0, "bc": 1.0}),
        ("rankdiff", "rank", {"ab": 0.2, "ac": 0.8, "bc": 0.6}),
        ("log", "rank", {"ab": math.log(2) / math.log(5), "ac": 1.0, "bc": math.log(2.5) / math.log(5)}),
        ("count", "score", {"ab": 1.0, "ac": 2.0, "bc": 1.0}),
        ("binary", "rating", {"ab": 1.0, "ac": 1.0, "bc": 1.0}),
        ("rating", "rating", {"ab": 0.5, "ac": 4.0, "bc": 3.5}),
        ("rating", "score", {"ab": 0.5, "ac": 4.0, "bc": 3.5}),
    ],
)
def test_lists_become_counts(transform: str, kind: Any, pairs: dict[str, float]) -> None:
    value = [1, 2, 5] if kind == "rank" else [5.0, 4.5, 1.0]
    votes = cc.Preferences(["q"] * 3, ["x"] * 3, list("abc"), value, kind=kind, weight={"x": 2.0})
    rows = [(ord(p[0]) - 97, ord(p[1]) - 97, 2 * n, 0.0, 0.0) for p, n in pairs.items()]
    total = sum(r[2] for r in rows)
    for prior, precision in (("published", 2 * total / 3), ("auto", 0.1 * total / 4)):
        method = cc.BradleyTerry(transform=transform, prior=prior, uncertainty="none")
        s, _, _ = oracle.best(rows, 3, "none", precision)
        np.testing.assert_allclose(method.fit_predict(votes).score, s, atol=1e-6)
        if transform == "binary":
            plain = cc.BradleyTerry(prior=prior, uncertainty="none")
            np.testing.assert_array_equal(plain.fit_predict(votes).score, method.fit_predict(votes).score)


def test_prior_is_a_tenth_for_each_pair_of_a_choice_and_the_published_one_two_totals_per_item() -> None:
    votes = from_matrix([[1, 3, 0], [2, 1, 5], [4, 0, 1], [0, 10, 2]])
    # Three lists of three items: six choices and nine pairs, which as differences of ranks count 32.
    for transform, total in (("binary", 9), ("count", 1 + 3 + 2 + 2 + 7 + 9 + 4 + 1 + 3)):
        for prior, same in (("auto", 0.1 * total / 6), ("published", 2 * total / 4)):
            got, want = (cc.BradleyTerry(transform=transform, prior=p).fit_predict(votes) for p in (prior, same))
            np.testing.assert_allclose(got.score, want.score, atol=1e-12)
            np.testing.assert_allclose(got.stderr, want.stderr, rtol=1e-9)
    tenth = cc.BradleyTerry(prior=0.1).fit_predict(comparisons())
    for prior in ("auto", "published"):
        np.testing.assert_array_equal(cc.BradleyTerry(prior=prior).fit_predict(comparisons()).score, tenth.score)


def test_ties_in_lists_count_when_pairs_count_as_one() -> None:
    votes = cc.Preferences(["q"] * 5, ["x", "x", "x", "y", "y"], list("abcab"), [1, 1, 2, 2, 1])
    rows = [(0, 1, 0.0, 1.0, 1.0), (0, 2, 1.0, 0.0, 0.0), (1, 2, 1.0, 0.0, 0.0)]
    for params in ({}, {"ties": "davidson"}):
        method = cc.BradleyTerry(prior=0.5, **params)
        got = method.fit_predict(votes)
        s, tie, _ = oracle.best(rows, 3, "davidson", 0.5)
        np.testing.assert_allclose(got.score, s, atol=1e-4)
        assert method.tie_ == pytest.approx(tie, abs=1e-4)
    with pytest.raises(ParameterError, match="transform='count'"):
        cc.BradleyTerry(ties="rao-kupper", transform="count").fit(votes)
    with pytest.raises(KindError, match="these are ranks"):
        cc.BradleyTerry(transform="rating").fit(votes)


def test_gradient_steps_are_the_papers() -> None:
    R = np.array([[1, 3, 0], [2, 1, 5], [4, 0, 1], [0, 10, 2]])
    lists = [(1.0, {i: float(r) for i, r in enumerate(column) if r > 0}) for column in R.T]
    rows = [(i, j, *c) for (i, j), c in oracle.list_pairs(lists, binary=False, ties=False).items()]
    method = cc.BradleyTerry(optimizer="gd", transform="count")
    got = method.fit_predict(from_matrix(R))
    np.testing.assert_allclose(got.score, oracle.descend(rows, 4, 100, 3.5e-4, 0.0), rtol=1e-9)
    assert method.fit_info_.n_iter == 100
    assert not method.fit_info_.converged
    assert got.stderr is None
    held = cc.BradleyTerry(optimizer="gd", transform="count", prior=2.0, max_iter=7, learning_rate=0.01)
    held = held.fit_predict(from_matrix(R))
    np.testing.assert_allclose(held.score, oracle.descend(rows, 4, 7, 0.01, 2.0), rtol=1e-9)
    for wrong in ({"ties": "davidson"}, {"reliability": True}, {"uncertainty": "sandwich"}):
        with pytest.raises(ParameterError, match="optimizer='gd'"):
            cc.BradleyTerry(optimizer="gd", **wrong).fit(from_matrix(R))


def test_parts_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = [(f"q{q}", f"e{e}", f"i{i}", int(rng.integers(1, 9))) for q in range(9) for e in range(4) for i in range(6)]
    votes = cc.Preferences(*zip(*rows, strict=True))
    whole = cc.BradleyTerry().fit_predict(votes)
    monkeypatch.setattr(_pairwise_outcomes, "_BLOCK_PAIRS", 20)
    assert len(_pairwise_outcomes.ListOutcomes.of(votes, "count", ties=False).windows()) == 7
    parts = cc.BradleyTerry().fit_predict(votes)
    np.testing.assert_array_equal(parts.score, whole.score)
    np.testing.assert_allclose(parts.stderr, whole.stderr, rtol=1e-12)


@pytest.mark.parametrize("highest", [9, 10**6])
def test_long_lists_are_not_counted_and_give_what_pair_counts_give(
    monkeypatch: pytest.MonkeyPatch, highest: int
) -> None:
    rng = np.random.default_rng(3)
    rows = [
        (f"q{q}", f"e{e}", f"i{i}", int(rng.integers(1, highest)))
        for q, size in enumerate((20, 40, 30))
        for e in range(5)
        for i in rng.choice(size, size - 4 * e % size, replace=False)
    ]
    votes = cc.Preferences(*zip(*rows, strict=True)).with_weights({"e1": 2.0, "e2": 0.0})
    ties = highest < 100
    counted, alone = cc.BradleyTerry(), cc.BradleyTerry()
    whole = counted.fit_predict(votes)
    monkeypatch.setattr(_pairwise_outcomes, "_BLOCK_PAIRS", 300)
    monkeypatch.setattr(_pairwise_outcomes, "_LONG", 10)
    outcomes = _pairwise_outcomes.ListOutcomes.of(votes, "binary", ties=True, uncounted=True)
    assert not isinstance(outcomes.statistics, type(outcomes.pairs))
    assert outcomes.long_instances.tolist() == [False, True, True]
    lists = alone.fit_predict(votes)
    np.testing.assert_allclose(lists.score, whole.score, atol=1e-9)
    np.testing.assert_allclose(lists.stderr, whole.stderr, rtol=1e-7)
    np.testing.assert_array_equal(lists.rank, whole.rank)
    assert alone.ties_ == ("davidson" if ties else "none")
    assert alone.tie_ == pytest.approx(counted.tie_, rel=1e-9)
    assert alone.shared_covariance_ == pytest.approx(counted.shared_covariance_, rel=1e-7)
    assert alone.fit_info_.objective == pytest.approx(counted.fit_info_.objective, rel=1e-12)
    np.testing.assert_allclose(alone.predict(votes).score, whole.score, atol=1e-9)
    if not ties:
        # An instance is estimated alone, to the last bit.
        np.testing.assert_array_equal(alone.fit_predict(votes[1:2]).score, lists.score[20:60])


def test_pairs_are_counted_where_the_likelihood_of_lists_does_not_hold() -> None:
    strict = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "c", "a"]})
    tied = cc.Preferences(["q"] * 3, ["x"] * 3, ["a", "b", "c"], [1, 2, 2])
    for votes, settings_, uncounted in (
        (strict, {}, True),
        (tied, {}, True),
        (strict, {"ties": "none"}, True),
        (tied, {"ties": "none"}, False),
        (tied, {"ties": "rao-kupper"}, False),
        (strict, {"prior": 0.0}, False),
        (strict, {"transform": "count"}, False),
        (strict, {"optimizer": "gd"}, False),
    ):
        method = cc.BradleyTerry(**settings_)
        assert method._outcomes(votes, ties=method._counts_ties).uncounted is uncounted, settings_


# Gauge, sides, covariates.


def test_anchor_is_the_origin() -> None:
    free, held = (cc.BradleyTerry(anchor=a).fit_predict(comparisons()) for a in (None, "c"))
    np.testing.assert_allclose(held.score, free.score - by_item(free)["c"], atol=1e-12)
    assert by_item(held)["c"] == 0.0
    assert by_item(held, held.stderr)["c"] == pytest.approx(0.0, abs=1e-9)
    assert held.gauge == "item 'c' has the score 0"
    gap, want = held.difference("a", "c"), free.difference("a", "c")
    assert by_item(held, held.stderr)["a"] == pytest.approx(gap.stderr)
    assert gap.stderr == pytest.approx(want.stderr)
    both = cc.concat([comparisons(), comparisons([(0, 1, 1.0, 1.0, 0.0)], instance="small")])
    with pytest.raises(DataError, match="no item 'c' to anchor in instance 'small'"):
        cc.BradleyTerry(anchor="c").fit(both)


@pytest.mark.parametrize("model", MODELS)
def test_side_effect_is_learned_with_the_scores(model: str) -> None:
    rows = untied(ROWS) if model == "none" else ROWS
    rows = [*rows, (1, 0, 1.0, 4.0, 0.0), (3, 2, 2.0, 3.0, 0.0)]
    method = cc.BradleyTerry(side_effect=True, ties=model, prior=0.2)
    got = method.fit_predict(comparisons(rows))
    s, tie, side = oracle.best(rows, M, model, 0.2, side=True)
    np.testing.assert_allclose(got.score, s, atol=2e-4)
    assert method.side_ == pytest.approx(side, abs=2e-4)
    assert method.tie_ == pytest.approx(tie, abs=2e-4)
    np.testing.assert_allclose(method.predict(comparisons(rows)).score, got.score, atol=1e-9)


def test_side_effect_asks_for_sides() -> None:
    with pytest.raises(DataError, match=r"shown on the left.*sided=False"):
        cc.BradleyTerry(side_effect=True).fit(comparisons(sided=False))
    with pytest.raises(KindError, match=r"shown on the left.*lists"):
        cc.BradleyTerry(side_effect=True).fit(from_matrix([[1, 2], [2, 1]]))
    with pytest.raises(NoFiniteEstimateError, match="the right item never won, in 3 outcomes"):
        cc.BradleyTerry(side_effect=True).fit(comparisons([(0, 1, 1.0, 0.0, 0.0), (1, 2, 2.0, 0.0, 0.0)]))
    # Left is always a, b or c and right always d or e: the side is the same as what parts the two groups.
    rows = [(i, j, 2.0, 1.0 + i, 0.0) for i in (0, 1, 2) for j in (3, 4)]
    with pytest.raises(NoFiniteEstimateError, match="cannot be told apart"):
        cc.BradleyTerry(side_effect=True, prior=0).fit(comparisons(rows))


def features(X: Any, names: Any = None, instance: str = "arena") -> cc.Features:
    return cc.Features([instance] * len(X), [chr(97 + i) for i in range(len(X))], X, names)


def test_every_item_its_own_feature_is_no_restriction() -> None:
    free = cc.BradleyTerry(prior=0)
    want = free.fit_predict(comparisons())
    method = cc.BradleyTerry(prior=0)
    with pytest.warns(ConcordantWarning, match="depend on each other"):
        got = method.fit_predict(comparisons(), features=features(np.eye(M)))
    np.testing.assert_allclose(got.score, want.score, atol=1e-8)
    np.testing.assert_allclose(got.stderr, want.stderr, rtol=1e-6)
    assert method.tie_ == pytest.approx(free.tie_, abs=1e-8)


def test_weights_of_features_explain_the_scores_in_their_own_units() -> None:
    x = np.array([[3.0, 10.0], [1.0, 12.0], [0.5, 9.0], [-1.0, 8.0], [-2.0, 11.0]])
    method = cc.BradleyTerry(prior=0.3)
    got = method.fit_predict(comparisons(), features=features(x, ["size", "age"]))
    b = np.array([method.coefficients_["size"], method.coefficients_["age"]])
    np.testing.assert_allclose(got.score, x @ b - (x @ b).mean(), atol=1e-9)

    def value(p: np.ndarray) -> float:
        s = (x - x.mean(axis=0)) @ p[:2]
        return oracle.log_likelihood(ROWS, s, math.exp(p[2]), 0.0, "davidson") - 0.15 * float(s @ s)

    at = np.append(b, math.log(method.tie_))
    assert np.abs(oracle.slopes(value, at)).max() < 1e-5
    curve = -oracle.bends(value, at)
    rows = np.hstack([x - x.mean(axis=0), np.zeros((M, 1))])
    spread = rows @ np.linalg.inv(curve) @ rows.T
    np.testing.assert_allclose(got.stderr, np.sqrt(np.diag(spread)), rtol=1e-4)
    scaled = cc.BradleyTerry(prior=0.3).fit_predict(comparisons(), features=features(x * [1000, 0.01] + [5, -3]))
    np.testing.assert_allclose(scaled.score, got.score, atol=1e-8)


def test_items_without_features_are_named_and_described_ones_can_be_predicted() -> None:
    x = np.array([[3.0], [1.0], [0.5], [-1.0], [-2.0], [7.0]])
    with pytest.raises(DataError, match=r"1 items have no features, among them \['e'\] of instance 'arena'"):
        cc.BradleyTerry().fit(comparisons(), features=features(x[:4]))
    method = cc.BradleyTerry().fit(comparisons(), features=features(x))
    new = method.predict(comparisons([(5, 0, 1.0, 0.0, 0.0)], items=[("arena", "f"), ("arena", "a")]))
    weight = method.coefficients_["1"]
    np.testing.assert_allclose(new.score, [2 * weight, -2 * weight], atol=1e-12)
    with pytest.raises(DataError, match=r"\['g'\] of instance 'arena'"):
        method.predict(comparisons([(6, 0, 1.0, 0.0, 0.0)], items=[("arena", "g"), ("arena", "a")]))
    x = np.array([[1.0], [1.0], [-1.0], [-1.0], [-1.0]])
    split = [(0, 2, 1.0, 0.0, 0.0), (1, 3, 2.0, 0.0, 0.0), (0, 1, 1.0, 1.0, 0.0), (3, 4, 1.0, 1.0, 0.0)]
    with pytest.raises(NoFiniteEstimateError, match="some features"):
        cc.BradleyTerry(prior=0).fit(comparisons(split), features=features(x))


def test_values_of_features_that_are_not_known_are_named() -> None:
    x = np.arange(15.0).reshape(5, 3)
    x[3, 1] = x[4, 2] = np.nan
    with pytest.raises(DataError, match=r"2 values .*NaN.* 'age' of item 'd' of instance 'arena'.*\['age', 'price'\]"):
        cc.BradleyTerry().fit(comparisons(), features=features(x, ["size", "age", "price"]))


def test_dependent_features_are_found_in_the_memory_of_the_features() -> None:
    rng = np.random.default_rng(3)
    n = 6000
    x = rng.normal(size=(n, 6))
    x[:, 2] = x[:, 0] - 2 * x[:, 1]
    x[:, 5] = 1.0
    described = cc.Features([f"q{i // 3}" for i in range(n)], [f"d{i}" for i in range(n)], x)
    tracemalloc.start()
    found = _item_covariates.dependent_features(described)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.tolist() == [0, 1, 2, 5]
    assert peak < 20 * x.nbytes  # n² numbers would be a thousand times the features
    few = cc.Features(["q"] * 3, ["a", "b", "c"], rng.normal(size=(3, 4)))
    assert _item_covariates.dependent_features(few).tolist() == [0, 1, 2, 3]


# No circle of items has more wins than ties, but the winner has now more of the feature, now less.
TIED_ROWS = [(0, 1, 3.0, 0.0, 1.0), (1, 2, 1.0, 0.0, 1.0), (3, 4, 1.0, 0.0, 0.0)]
TIED_X = np.array([[2.0], [1.0], [0.5], [0.0], [0.7]])


@pytest.mark.parametrize("model", ["davidson", "rao-kupper"])
def test_the_estimate_with_features_and_ties_exists_where_free_scores_have_none(model: str) -> None:
    votes, x = comparisons(TIED_ROWS), TIED_X
    with pytest.raises(NoFiniteEstimateError, match="scores and the tie parameter grow together"):
        cc.BradleyTerry(prior=0, ties=model).fit(votes)
    method = cc.BradleyTerry(prior=0, ties=model)
    got = method.fit_predict(votes, features=features(x))

    def loss(p: np.ndarray) -> float:
        return -oracle.log_likelihood(TIED_ROWS, p[0] * x[:, 0], math.exp(p[1]), 0.0, model)

    best = minimize(loss, [0.0, 0.5], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000})
    assert method.coefficients_["1"] == pytest.approx(best.x[0], abs=1e-6)
    assert method.tie_ == pytest.approx(math.exp(best.x[1]), abs=1e-6)
    np.testing.assert_allclose(got.score, best.x[0] * (x[:, 0] - x.mean()), atol=1e-6)


def test_far_features_do_not_make_an_estimate_infinite() -> None:
    x = np.array([[0.0], [1.0], [2.0], [200.0]])
    rows = [(1, 0, 3.0, 2.0, 1.0), (2, 1, 4.0, 1.0, 1.0), (3, 0, 2.0, 0.0, 0.0)]
    method = cc.BradleyTerry(prior=0)
    score = method.fit_predict(comparisons(rows), features=features(x)).score
    assert score.max() - score.min() > 2 * _bradley_terry_identifiability._DIVERGED_GAP
    assert method.coefficients_["1"] == pytest.approx(0.93, abs=0.2)


def estimate_exists(rows: Any, x: np.ndarray) -> bool:
    """Return whether no direction of weights and tie parameter is flat or rises for ever, by a linear programme."""
    ties = any(row[4] for row in rows)
    signs = []
    for i, j, left, right, tied in rows:
        gap = x[i] - x[j]
        signs += [[*gap, -1.0 * ties], [*gap, 0.0]] if left else []
        signs += [[*-gap, -1.0 * ties], [*-gap, 0.0]] if right else []
        signs += [[*-gap, 1.0], [*gap, 1.0]] if tied else []
    G = np.array(signs)[:, : x.shape[1] + ties]
    found = linprog(-G.sum(axis=0), A_ub=-G, b_ub=np.zeros(len(G)), bounds=(-1, 1))
    return bool(-found.fun < 1e-7 and np.linalg.matrix_rank(G, tol=1e-9) == G.shape[1])


def test_what_exists_with_features_is_what_a_linear_programme_says() -> None:
    rng = np.random.default_rng(11)
    seen = {True: 0, False: 0}
    for trial in range(150):
        m, f = int(rng.integers(3, 7)), int(rng.integers(1, 3))
        x = rng.normal(size=(m, f)) if trial % 2 else rng.integers(-3, 4, size=(m, f)).astype(float)
        x[0] *= 40.0 if trial % 5 == 0 else 1.0
        pairs = [pair for pair in combinations(range(m), 2) if rng.random() < 0.5]
        rows = [(i, j, *rng.integers(0, 2, size=3).astype(float)) for i, j in pairs]
        rows = [row for row in rows if sum(row[2:])]
        if not any(row[2] + row[3] for row in rows) or np.linalg.matrix_rank(x - x.mean(axis=0)) < f:
            continue
        want = estimate_exists(rows, x)
        seen[want] += 1
        votes = comparisons(rows, items=[("arena", chr(97 + i)) for i in range(m)])
        for model in ("davidson", "rao-kupper"):
            method = cc.BradleyTerry(prior=0, ties=model, uncertainty="none")
            if want:
                method.fit(votes, features=features(x))
            else:
                with pytest.raises(NoFiniteEstimateError):
                    method.fit(votes, features=features(x))
    assert min(seen.values()) > 15


# What does not exist, and what is said about it.


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from("wwlt")), min_size=3, max_size=10, unique=True
    )
)
@settings(max_examples=120)
def test_the_bare_estimate_exists_exactly_when_no_direction_improves_for_ever(outcomes: list[Any]) -> None:
    rows = [(i, j, *(1.0 * (o == k) for k in "wlt")) for i, j, o in outcomes if i != j]
    if not rows:
        return
    votes = comparisons(rows, items=[("arena", c) for c in "abcd"])
    for model in MODELS:
        chosen = untied(rows) if model == "none" else rows
        exists = oracle.estimate_exists(chosen, 4, model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            method = cc.BradleyTerry(prior=0, ties=model, uncertainty="none")
            if not exists:
                with pytest.raises(NoFiniteEstimateError):
                    method.fit(votes)
                continue
            got = method.fit_predict(votes)
        assert method.fit_info_.converged
        s, _, _ = oracle.best(chosen, 4, method.ties_, 0.0)
        np.testing.assert_allclose(got.score, s, atol=5e-3)


@pytest.mark.parametrize("model", ["davidson", "rao-kupper"])
@pytest.mark.parametrize(
    ("rows", "exists"),
    [
        # A win and a tie on one pair: the loser never wins, however strong ties are made.
        ([(0, 1, 3.0, 0.0, 2.0)], False),
        # Three wins round a circle, two ties across: more wins than ties along the circle.
        ([(0, 1, 1.0, 0.0, 1.0), (1, 2, 1.0, 0.0, 1.0), (2, 0, 1.0, 0.0, 0.0)], True),
        # a > b > c with a tie a ~ c closes a circle of two wins and one tie.
        ([(0, 1, 1.0, 0.0, 0.0), (1, 2, 1.0, 0.0, 0.0), (0, 2, 0.0, 0.0, 1.0)], True),
        # One win, two ties: not enough.
        ([(0, 1, 1.0, 0.0, 0.0), (1, 2, 0.0, 0.0, 1.0), (0, 2, 0.0, 0.0, 1.0)], False),
    ],
)
def test_ties_link_both_ways_but_do_not_beat(model: str, rows: Any, exists: bool) -> None:
    assert oracle.estimate_exists(rows, len({i for r in rows for i in r[:2]}), model) == exists
    # The general optimiser agrees: with ever less of a prior the scores settle, or do not.
    n = len({i for r in rows for i in r[:2]})
    some, less = (oracle.best(rows, n, model, prior)[0] for prior in (1e-3, 1e-5))
    assert (np.abs(some - less).max() < 0.1) == exists
    method = cc.BradleyTerry(prior=0, ties=model)
    if exists:
        np.testing.assert_allclose(method.fit_predict(comparisons(rows)).score, less, atol=1e-2)
    else:
        with pytest.raises(NoFiniteEstimateError, match="more wins than ties"):
            method.fit(comparisons(rows))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(0, 1, 1.0, 0.0, 0.0), (1, 2, 1.0, 0.0, 0.0)], "item 'a' never lost, item 'c' never won in instance 'arena'"),
        (
            [(0, 1, 1.0, 1.0, 0.0), (2, 3, 1.0, 1.0, 0.0)],
            r"items \['c', 'd'\] never met any of \['a', 'b'\] in instance 'arena'",
        ),
        (
            [(0, 1, 1.0, 1.0, 0.0), (2, 3, 1.0, 1.0, 0.0), (0, 2, 1.0, 0.0, 0.0)],
            r"items \['a', 'b'\] never lost to any of \['c', 'd'\] in instance 'arena'",
        ),
    ],
)
def test_who_cannot_be_placed_is_named(rows: Any, words: str) -> None:
    with pytest.raises(NoFiniteEstimateError, match=f"no finite Bradley-Terry estimate: {words}. Set prior=0.1"):
        cc.BradleyTerry(prior=0).fit(comparisons(rows))
    with pytest.warns(ConcordantWarning, match=f"{words}: what places them is the prior"):
        got = cc.BradleyTerry().fit_predict(comparisons(rows))
    assert np.isfinite(got.score).all()


@pytest.mark.parametrize("enough", [0, 1, 2, 32])
def test_an_estimate_exists_where_wins_lead_from_every_item_to_every_other(
    enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_bradley_terry_identifiability, "_ENOUGH_PAIRS", enough)
    n, random = 9, np.random.default_rng(4)
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    seen = set()
    for favourite in [0.5, 0.9, 1.0] * 10:
        # The first items hardly ever lose, or never.
        won = random.random(len(pairs)) < np.where(np.array(pairs)[:, 0] < 2, favourite, 0.5)
        reach = np.eye(n, dtype=bool)
        for (i, j), left in zip(pairs, won.tolist(), strict=True):
            reach[(i, j) if left else (j, i)] = True
        for _ in range(n):
            reach = reach @ reach
        rows = [(i, j, float(left), float(not left), 0.0) for (i, j), left in zip(pairs, won.tolist(), strict=True)]
        method = cc.BradleyTerry(prior=0, uncertainty="none")
        seen.add(bool(reach.all()))
        if reach.all():
            method.fit(comparisons(rows))
        else:
            with pytest.raises(NoFiniteEstimateError, match="no finite Bradley-Terry estimate"):
                method.fit(comparisons(rows))
    assert seen == {True, False}


def test_loose_instances_are_counted_and_lists_are_not_nagged() -> None:
    chain = [(0, 1, 1.0, 0.0, 0.0)]
    votes = cc.concat([comparisons(chain, instance=f"q{k}") for k in range(4)])
    with pytest.raises(NoFiniteEstimateError, match="and 3 more instances are like that"):
        cc.BradleyTerry(prior=0).fit(votes)
    lists = from_matrix([[1, 1], [2, 2], [3, 3]])
    cc.BradleyTerry().fit(lists)  # a warning would be an error here
    with pytest.raises(NoFiniteEstimateError, match="item 'i0' never lost, item 'i2' never won"):
        cc.BradleyTerry(prior=0).fit(lists)


def test_items_nobody_compared_are_named_or_neutral() -> None:
    votes = comparisons(items=[("arena", c) for c in "abcdez"])
    with pytest.raises(NoFiniteEstimateError, match="item 'z' never met another"):
        cc.BradleyTerry(prior=0).fit(votes)
    with pytest.warns(ConcordantWarning, match="item 'z' never met another"):
        got = cc.BradleyTerry().fit_predict(votes)
    assert by_item(got)["z"] == pytest.approx(0.0, abs=1e-12)
    assert math.isnan(by_item(got, got.stderr)["z"])
    assert (got.rank_lower[-1], got.rank_upper[-1]) == (1, 6)


def test_nothing_but_ties_is_said_and_ties() -> None:
    for model in ("davidson", "rao-kupper"):
        for prior in ("auto", 0.1):
            with pytest.warns(ConcordantWarning, match=r"every one of the 5 outcomes is a tie.*\['a', 'b', 'c'\]"):
                got = cc.BradleyTerry(ties=model, prior=prior).fit_predict(
                    comparisons([(0, 1, 0.0, 0.0, 2.0), (1, 2, 0.0, 0.0, 3.0)])
                )
            assert got.rank.tolist() == [1, 1, 1]
    with pytest.raises(NoFiniteEstimateError, match="more wins than ties"):
        cc.BradleyTerry(prior=0).fit(comparisons([(0, 1, 0.0, 0.0, 2.0), (1, 2, 0.0, 0.0, 3.0)]))


def test_not_converging_is_said_and_the_estimate_kept() -> None:
    method = cc.BradleyTerry(max_iter=2)
    with pytest.warns(ConcordantWarning, match="did not converge in 2 steps"):
        got = method.fit_predict(comparisons())
    assert not method.fit_info_.converged
    assert got.ranking()[0] == "a"


# How sure it is.


def likelihood(rows: Any, model: str, prior: float) -> Callable[[np.ndarray], float]:
    def value(x: np.ndarray) -> float:
        tie = {"none": 0.0, "davidson": math.exp(x[-1]), "rao-kupper": math.exp(x[-1])}[model]
        s = x[:M]
        return oracle.log_likelihood(rows, s, tie, 0.0, model) - 0.5 * prior * float(s @ s)

    return value


def estimate(method: cc.BradleyTerry, got: cc.Consensus) -> np.ndarray:
    return np.append(got.score, math.log(method.tie_)) if method.tie_ else got.score


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("prior", [0, 0.4])
def test_information_includes_the_tie_parameter(model: str, prior: float) -> None:
    rows = untied(ROWS) if model == "none" else ROWS
    method = cc.BradleyTerry(ties=model, prior=prior)
    got = method.fit_predict(comparisons(rows))
    at = estimate(method, got)
    curve = -oracle.bends(likelihood(rows, model, prior), at)
    if prior == 0:
        curve[:M, :M] += 1.0  # along the shift, which the centring below takes away
    centre = np.eye(M) - 1 / M
    want = centre @ np.linalg.inv(curve)[:M, :M] @ centre
    np.testing.assert_allclose(got.covariance[0], want, rtol=1e-4, atol=1e-7)
    words = "observed information" + (", posterior" if prior else "")
    assert (got.interval_method, method.fit_info_.uncertainty) == (words, words)


def assert_spread(got: cc.Consensus, want: np.ndarray, freedom: np.ndarray) -> None:
    """Require a covariance, and intervals by Student's law with these degrees of freedom."""
    np.testing.assert_allclose(got.covariance[0], want, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose((got.upper - got.score) / got.stderr, stats.t.ppf(0.975, freedom), rtol=1e-5)
    np.testing.assert_allclose(got.score - got.lower, got.upper - got.score, rtol=1e-9)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("prior", [0, 0.4])
@pytest.mark.parametrize("times", [1.0, 6.0])
def test_comparisons_are_clustered_by_expert(model: str, prior: float, times: float) -> None:
    # Six times over, experts differ by far more than chance, and the design effect is more than 1.
    rows = [(i, j, times * a, times * b, times * t * (model != "none")) for i, j, a, b, t in ROWS]
    experts = ["x", "y", "x", "z", "y", "z", "w"]
    method = cc.BradleyTerry(ties=model, prior=prior)
    got = method.fit_predict(comparisons(rows, experts))
    each = [[r for r, e in zip(rows, experts, strict=True) if e == k] for k in "xyzw"]
    clusters = [(1.0, likelihood(own, model, 0.0)) for own in each]
    assert_spread(got, *spread.moderated(clusters, estimate(method, got), M, prior))
    words = "sandwich, clustered by expert" + (", posterior" if prior else "")
    assert (got.interval_method, method.fit_info_.uncertainty) == (words, words)


def test_intervals_of_two_items_by_hand() -> None:
    # 30 of 50 comparisons won, 20 of 25 before one expert and 10 of 25 before the other, and a prior of precision 2.
    votes = comparisons(
        [(0, 1, 20.0, 5.0, 0.0), (0, 1, 10.0, 15.0, 0.0)], ["x", "y"], items=[("arena", c) for c in "ab"]
    )
    method = cc.BradleyTerry(prior=2.0)
    gap = method.fit_predict(votes).difference("a", "b")
    p = 1 / (1 + math.exp(-gap.value))
    assert 30 - 50 * p == pytest.approx(2.0 * gap.value / 2, abs=1e-9)
    w, meat = 50 * p * (1 - p), (20 - 25 * p) ** 2 + (10 - 25 * p) ** 2
    # Along the difference H is 2w + λ and M + λ is 2 Σ u² + λ; without the λ of the prior the middle would lack it.
    posterior, sandwich = 2 / (2 * w + 2.0), 2 * (2 * meat + 2.0) / (2 * w + 2.0) ** 2
    plain = cc.BradleyTerry(prior=2.0, uncertainty="information").fit_predict(votes)
    assert plain.difference("a", "b").stderr == pytest.approx(math.sqrt(posterior), rel=1e-9)
    # Two experts of equal weight: a = 2 / 11, b = 10 / 11, and both items say how far they differ beyond chance.
    design = 1 + 2 * (meat / w - 1 / 2)
    assert design > 2
    want = 2 / 11 * sandwich + 10 / 11 * design * posterior
    assert gap.stderr == pytest.approx(math.sqrt(want), rel=1e-9)


# Ranks of five items by six experts, some left out, one of them tied.
RANKS = np.array([[1, 2, 3, 0, 1, 4], [2, 1, 1, 3, 0, 1], [3, 4, 2, 1, 2, 2], [4, 3, 0, 2, 2, 3], [5, 0, 1, 4, 5, 0]])


@pytest.mark.filterwarnings("ignore:fewer than 5 experts")
@pytest.mark.parametrize("transform", ["binary", "count"])
@pytest.mark.parametrize("prior", ["auto", 0, 0.8])
def test_pairs_of_lists_are_clustered_by_list_and_counted_as_choices(
    transform: str, prior: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = {"e0": 2.0, "e3": 0.5, "e5": 3.0}
    votes = from_matrix(RANKS).with_weights(weight)
    lists = [
        (weight.get(f"e{k}", 1.0), {i: float(r) for i, r in enumerate(column) if r > 0})
        for k, column in enumerate(RANKS.T)
    ]
    binary = transform == "binary"
    each = [(w, oracle.list_pairs([(1.0, held)], binary, ties=binary)) for w, held in lists]
    rows = [(w, [(i, j, *cell) for (i, j), cell in pairs.items()]) for w, pairs in each]
    pairs = sum(w * sum(sum(r[2:]) for r in own) for w, own in rows)
    choices = sum(w * (len(held) - 1) for w, held in lists)
    method = cc.BradleyTerry(transform=transform, prior=prior)
    got = method.fit_predict(votes)
    model = "davidson" if binary else "none"
    precision = 0.1 * pairs / choices if prior == "auto" else prior
    clusters = [(w, likelihood(own, model, 0.0)) for w, own in rows]
    want = spread.moderated(clusters, estimate(method, got), M, precision, calibration=pairs / choices)
    assert_spread(got, *want)
    if not binary:
        # Small instances without ties are done together; one alone goes the other way.
        monkeypatch.setattr(_pairwise_outcomes.ListOutcomes, "clusters", lambda *_: [])
        assert_spread(cc.BradleyTerry(transform=transform, prior=prior).fit_predict(votes), *want)


def test_weights_are_experts_in_the_variance_too() -> None:
    R = np.array([[1, 3, 2, 1], [2, 1, 3, 4], [4, 2, 1, 3], [3, 4, 4, 2]])
    twice = np.column_stack([R, R[:, 1]])
    heavy = from_matrix(R).with_weights({"e1": 2.0})
    a, b = cc.BradleyTerry().fit_predict(heavy), cc.BradleyTerry().fit_predict(from_matrix(twice))
    np.testing.assert_allclose(a.score, b.score, atol=1e-12)
    np.testing.assert_allclose(a.stderr, b.stderr, rtol=1e-9)
    np.testing.assert_allclose(a.upper, b.upper, rtol=1e-9)


def test_one_expert_gives_no_interval_and_says_so() -> None:
    with pytest.warns(ConcordantWarning, match="no intervals for items .* of instance 'q': fewer than two experts"):
        got = cc.BradleyTerry().fit_predict(from_matrix([[1], [2], [3]]))
    assert np.isnan(got.stderr).all()
    assert got.rank_upper.tolist() == [3, 3, 3]


def test_large_instances_get_intervals_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bradley_terry_intervals, "MOST_WITH_ALL_PAIRS", 3)
    with pytest.warns(ConcordantWarning, match="covariance of 5 scores takes 0.0 GB"):
        assert np.isnan(cc.BradleyTerry().fit_predict(comparisons()).stderr).all()
    assert np.isfinite(cc.BradleyTerry(uncertainty="information").fit_predict(comparisons()).stderr).all()
    monkeypatch.setattr(_bradley_terry_intervals, "_MUCH_MEMORY", 100.0)
    with pytest.warns(ConcordantWarning, match="no intervals: the covariances of the scores of 1 instances"):
        assert cc.BradleyTerry().fit_predict(comparisons()).stderr is None


def test_none_is_no_intervals_and_a_sandwich_needs_experts() -> None:
    assert cc.BradleyTerry(uncertainty="none").fit_predict(comparisons()).stderr is None
    with pytest.raises(DataError, match="name no experts"):
        cc.BradleyTerry(uncertainty="sandwich").fit(comparisons())


def busy(seed: int, n_experts: int = 40) -> cc.Comparisons:
    rng = np.random.default_rng(seed)
    truth = np.linspace(1, -1, M)
    rows, experts = [], []
    for e in range(n_experts):
        for i, j in combinations(range(M), 2):
            p = oracle.probabilities(truth[i] - truth[j], 0.6, "davidson")
            rows.append((i, j, *rng.multinomial(2, p).astype(float)))
            experts.append(f"e{e}")
    return comparisons(rows, experts)


@pytest.mark.parametrize("experts", [True, False])
def test_bootstrap_agrees_with_the_formula(experts: bool) -> None:
    votes = busy(4)
    if not experts:
        votes = votes.collapse()
    want = cc.BradleyTerry(prior=0).fit_predict(votes)
    method = cc.BradleyTerry(prior=0, uncertainty="bootstrap", n_bootstrap=300)
    got = method.fit_predict(votes)
    np.testing.assert_allclose(got.score, want.score, atol=1e-12)
    np.testing.assert_allclose(got.stderr, want.stderr, rtol=0.15)
    assert got.interval_method == f"bootstrap over {'experts' if experts else 'outcomes'}, 300 draws"
    again = cc.BradleyTerry(prior=0, uncertainty="bootstrap", n_bootstrap=300).fit_predict(votes)
    np.testing.assert_array_equal(again.stderr, got.stderr)
    other = cc.BradleyTerry(prior=0, uncertainty="bootstrap", n_bootstrap=300, random_state=1).fit_predict(votes)
    assert (other.stderr != got.stderr).all()


def test_bootstrap_of_lists_agrees_with_the_sandwich() -> None:
    rng = np.random.default_rng(5)
    R = np.argsort(np.argsort(np.arange(6)[:, None] + 4 * rng.normal(size=(6, 30)), axis=0), axis=0) + 1
    want = cc.BradleyTerry().fit_predict(from_matrix(R))
    got = cc.BradleyTerry(uncertainty="bootstrap", n_bootstrap=400).fit_predict(from_matrix(R))
    np.testing.assert_allclose(got.stderr, want.stderr, rtol=0.2)


def test_a_bootstrap_has_an_estimate_in_every_draw() -> None:
    # Drawn with replacement, the one win over each of these would be missing in every third draw.
    rows = [(0, 1, 6.0, 1.0, 0.0), (1, 2, 6.0, 1.0, 0.0), (2, 0, 6.0, 1.0, 0.0), (0, 3, 5.0, 1.0, 0.0)]
    for experts in (None, ["x", "y", "z", "w"]):
        method = cc.BradleyTerry(prior=0, uncertainty="bootstrap", n_bootstrap=60)
        got = method.fit_predict(comparisons(rows, experts))  # a warning would be an error here
        assert np.isfinite(got.stderr).all()


def test_intervals_of_new_instances_carry_the_doubt_about_the_tie_parameter() -> None:
    votes = busy(1)
    method = cc.BradleyTerry(prior=0)
    joint = method.fit_predict(votes)
    later = method.predict(votes)
    # With two hundred outcomes for every pair it makes next to no difference, and never a smaller one than none.
    np.testing.assert_allclose(later.stderr, joint.stderr, rtol=0.05)
    kept = method.shared_covariance_
    method.shared_covariance_ = np.zeros((0, 0))
    assert (method.predict(votes).stderr <= later.stderr).all()
    method.shared_covariance_ = 100 * kept
    assert (method.predict(votes).stderr > later.stderr).all()


def test_coverage_of_intervals_and_of_rank_intervals() -> None:
    truth = np.linspace(0.8, -0.8, 6)
    rng = np.random.default_rng(12)
    held = ranked = total = 0
    for _ in range(150):
        rows = []
        for i, j in combinations(range(6), 2):
            rows.append((i, j, *rng.multinomial(14, oracle.probabilities(truth[i] - truth[j], 0.5, "davidson"))))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            got = cc.BradleyTerry(prior=0).fit_predict(comparisons(rows))
        held += int(((got.lower <= truth) & (truth <= got.upper)).sum())
        ranked += int(((got.rank_lower <= np.arange(1, 7)) & (np.arange(1, 7) <= got.rank_upper)).sum())
        total += 6
    assert 0.92 <= held / total <= 0.98
    assert ranked / total >= 0.95


# Judges.


def judged(seed: int = 0) -> tuple[cc.Comparisons, np.ndarray, np.ndarray]:
    """Return comparisons of 12 items by 12 judges, of whom 5 toss a coin."""
    rng = np.random.default_rng(seed)
    truth = np.linspace(1.5, -1.5, 12)
    bad = np.arange(12) >= 7
    rows, experts = [], []
    for k in range(12):
        for _ in range(150):
            i, j = rng.choice(12, size=2, replace=False)
            p = 0.5 if bad[k] else 1 / (1 + math.exp(truth[j] - truth[i]))
            won = float(rng.random() < p)
            rows.append((int(i), int(j), won, 1 - won, 0.0))
            experts.append(f"j{k}")
    columns = list(zip(*rows, strict=True))
    items = [("arena", f"i{i}") for i in range(12)]
    left, right = ([f"i{i}" for i in column] for column in columns[:2])
    return cc.Comparisons("arena", experts, left, right, *columns[2:], items=items), truth, bad


def test_reliability_finds_the_coin_tossers_and_the_scores() -> None:
    votes, truth, bad = judged()
    method = cc.BradleyTerry(reliability=True)
    got = method.fit_predict(votes)
    assert method.experts_ == [f"j{k}" for k in range(12)]
    assert method.adherence_[bad].max() < method.adherence_[~bad].min()
    plain = cc.BradleyTerry().fit_predict(votes)
    assert np.abs(got.score - truth).mean() < np.abs(plain.score - truth).mean()
    assert np.isfinite(got.stderr).all()
    assert method.fit_info_.converged
    table = method.expert_weights_
    assert {"expert", "weight", "slope", "side", "tie_tendency"} <= set(table.columns)
    np.testing.assert_allclose(method.predict(votes).score, got.score, atol=1e-9)


def test_reliability_needs_experts_and_knows_its_own() -> None:
    votes, _, _ = judged()
    with pytest.raises(DataError, match="name no experts"):
        cc.BradleyTerry(reliability=True).fit(votes.collapse())
    for wrong in ({"ties": "rao-kupper"}, {"uncertainty": "bootstrap"}):
        with pytest.raises(ParameterError, match="reliability=True"):
            cc.BradleyTerry(reliability=True, **wrong).fit(votes)
    few = votes.drop_experts(["j3", "j9"])
    method = cc.BradleyTerry(reliability=True).fit(few)
    with pytest.raises(DataError, match=r"nothing about the experts \['j3', 'j9'\].*'j0'"):
        method.predict(votes)
    method.set_params(unknown_experts="ignore")
    np.testing.assert_allclose(method.predict(votes).score, method.predict(few).score, atol=1e-9)


# Real data.


@pytest.mark.data
def test_davidson_is_newmans_estimate_of_another_library(data_dir: Path) -> None:
    import polars as pl

    folder = data_dir / "llmfao-pairwise"
    votes = cc.read_comparisons(folder / "llmfao.csv", columns={"left": "left", "right": "right", "winner": "winner"})
    got = by_item(cc.BradleyTerry(prior=0).fit_predict(votes.collapse()))
    known = pl.read_csv(folder / "llmfao-golden.csv").filter(pl.col("algorithm") == "newman")
    want = np.log(known["score"].to_numpy())
    np.testing.assert_allclose([got[i] for i in known["item"]], want - want.mean(), atol=1e-9)


@pytest.mark.data
def test_published_rows_of_mq2008_are_reached(data_dir: Path) -> None:
    folds = cc.read_letor_folds(data_dir / "MQ2008-agg")
    published = {"ndcg@5": 42.62, "map": 44.35}
    for params, slack in (({"prior": "published"}, 0.5), ({"optimizer": "gd"}, 0.5)):
        means = []
        for train, _, (votes, labels) in folds:
            method = cc.BradleyTerry(transform="count", uncertainty="none", **params)
            with pytest.warns(ConcordantWarning, match="never met any of"):
                consensus = method.fit(train[0]).predict(votes)
            means.append(cc.evaluate(consensus, labels, list(published), convention="letor").mean)
        for name, value in published.items():
            assert 100 * np.mean([m[name] for m in means]) > value - slack


@pytest.mark.data
def test_movielens_shows_what_each_way_does_with_rarely_rated_films(data_dir: Path) -> None:
    votes = cc.read_ratings(data_dir / "movielens-100k" / "u.data")
    raters = np.bincount(votes.slot, minlength=votes.n_slots)

    def ends(**params: Any) -> tuple[list[int], list[int]]:
        order = cc.BradleyTerry(transform="rating", uncertainty="none", **params).fit_predict(votes).order()
        return raters[order[:5]].tolist(), raters[order[-5:]].tolist()

    top, bottom = ends(optimizer="gd")
    assert top == [8, 67, 243, 112, 209]  # the films of the published table, in its order
    assert sorted(bottom) == [6, 10, 19, 21, 27]
    top, bottom = ends(prior="published")
    assert min(top) > 280
    assert min(bottom) > 60
    with pytest.raises(NoFiniteEstimateError, match=r"items \['1189', .*never lost, items .*never won"):
        cc.BradleyTerry(transform="rating", prior=0).fit(votes)


def test_uncertainty_parameters_are_the_common_ones() -> None:
    assert set(INTERVALS) <= set(cc.BradleyTerry().get_params())


def test_many_small_instances_get_the_intervals_each_gets_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    rows = []
    for q in range(12):
        m = int(rng.integers(2, 9))
        for e in range(int(rng.integers(1, 6))):
            held = rng.choice(m, size=int(rng.integers(1, m + 1)), replace=False)
            rows += [(f"q{q}", f"e{e}", f"i{i}", int(rng.integers(1, 6))) for i in held]
    votes = cc.Preferences(*zip(*rows, strict=True), weight={"e1": 2.0, ("q3", "e2"): 0.5, "e4": 0.0})
    for prior in ("auto", 0.7):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            together = cc.BradleyTerry(prior=prior, ties="none").fit_predict(votes)
            with monkeypatch.context() as patch:
                patch.setattr(_pairwise_outcomes.ListOutcomes, "clusters", lambda *_: [])
                apart = cc.BradleyTerry(prior=prior, ties="none").fit_predict(votes)
        assert np.isfinite(together.stderr).sum() > 20
        np.testing.assert_allclose(together.stderr, apart.stderr, rtol=1e-8)
        np.testing.assert_allclose(together.upper, apart.upper, rtol=1e-8)
        for ours, theirs in zip(together.covariance, apart.covariance, strict=True):
            assert (ours is None) == (theirs is None)
            if ours is not None:
                np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-12)


def test_groups_of_lists_that_never_meet_are_named_once_however_the_votes_are_parted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [(q, e, i, r) for q in "pq" for e, group in (("x", "ab"), ("y", "cd")) for r, i in enumerate(group, 1)]
    votes = cc.Preferences(*zip(*rows, strict=True), kind="rank")
    for params in ({}, {"optimizer": "gd"}, {"reliability": True}):
        with pytest.warns(ConcordantWarning) as said:
            cc.BradleyTerry(uncertainty="none", **params).fit_predict(votes)
        assert len(said) == 1
        assert "items ['c', 'd'] never met any of ['a', 'b'] in instance 'p' (and 1 more" in str(said[0].message)
    monkeypatch.setattr(_pairwise_outcomes, "_BLOCK_PAIRS", 1)
    assert len(_pairwise_outcomes.ListOutcomes.of(votes, "count", ties=False).windows()) == 2
    with pytest.warns(ConcordantWarning) as said:
        cc.BradleyTerry(uncertainty="none").fit_predict(votes)
    assert len(said) == 1


@pytest.mark.parametrize("copies", [3, 200])
@pytest.mark.parametrize(
    "options", [{}, {"uncertainty": "bootstrap", "n_bootstrap": 5}, {"reliability": True}, {"prior": 0}], ids=str
)
def test_experts_who_all_say_the_same_are_as_many_observations_and_no_certainty(
    options: dict[str, Any], copies: int
) -> None:
    lists = cc.from_lists({f"e{k}": ["a", "b", "c"] for k in range(copies)})
    who = [f"e{k}" for k in range(copies) for _ in range(2)]
    compared = cc.Comparisons("q", who, ["a", "b"] * copies, ["b", "a"] * copies, [3, 1] * copies, [1, 0] * copies)
    for votes in (compared,) if "prior" in options else (lists, compared):
        with pytest.warns(UncertaintyWarning, match=r"experts all say the same of items \['a', 'b'.*observation"):
            board = cc.BradleyTerry(**options).fit_predict(votes)
        if "reliability" not in options:
            plain = cc.BradleyTerry(**{**options, "uncertainty": "information"}).fit_predict(votes)
            np.testing.assert_allclose(board.stderr, plain.stderr, rtol=1e-6)
            np.testing.assert_allclose(board.upper, plain.upper, rtol=1e-6)
        assert (board.stderr > 0).all()


def test_bootstrap_over_few_experts_is_as_wide_as_the_sandwich() -> None:
    votes = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "c", "a"], "z": ["c", "a", "b"], "w": ["a", "b", "c"]})
    boards = [cc.BradleyTerry(uncertainty=h, n_bootstrap=2000).fit_predict(votes) for h in ("sandwich", "bootstrap")]
    sandwich, bootstrap = (board.upper - board.lower for board in boards)
    np.testing.assert_allclose(bootstrap, sandwich, rtol=0.2)


def test_a_side_that_never_wins_is_named_where_judges_may_lean() -> None:
    who, left, right = ["x", "y", "x", "y"], ["a", "b", "c", "a"], ["b", "c", "a", "c"]
    judges = cc.BradleyTerry(reliability=True, uncertainty="none")
    with pytest.warns(ConcordantWarning, match=r"the right item never won, in 4 outcomes.*\['a', 'b', 'c'\].*sided=F"):
        judges.fit(cc.Comparisons("q", who, left, right))
    # Where nobody knows the sides there is nothing to lean to, and nothing to say.
    judges.fit(cc.Comparisons("q", who, left, right, sided=False))


def test_memory_is_looked_at_before_the_intervals_of_judges_and_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concordant.aggregators._bradley_terry_intervals.MOST_WITH_ALL_PAIRS", 2)
    votes = cc.Comparisons("q", ["x", "y"] * 3, list("abcbca"), list("bcacab"), [3, 2, 4, 1, 2, 1], [1] * 6)
    table = cc.Features(["q"] * 3, ["a", "b", "c"], [[0.0], [1.0], [3.0]])
    for params, features in (({"reliability": True}, None), ({}, table)):
        with pytest.warns(ConcordantWarning, match="no intervals: the covariances"):
            assert cc.BradleyTerry(**params).fit_predict(votes, features=features).stderr is None
        asked = cc.BradleyTerry(uncertainty="sandwich", **params).fit_predict(votes, features=features)
        assert np.isfinite(asked.stderr).all()


@pytest.mark.parametrize(
    "options", [{}, {"uncertainty": "bootstrap", "n_bootstrap": 20}, {"reliability": True}], ids=str
)
def test_a_group_that_met_no_other_is_as_uncertain_as_the_prior_leaves_it(options: dict[str, Any]) -> None:
    chance = np.random.default_rng(4)
    rows = [
        (f"j{j}", a, b, "left" if chance.random() < 0.6 else "right")
        for j in range(6)
        for a, b in [("a", "b"), ("b", "c"), ("c", "a"), ("a", "c")]
    ]
    rows += [(f"j{j}", "x", "y", winner) for j in range(3) for winner in ("left", "right")]
    expert, left, right, winner = (list(column) for column in zip(*rows, strict=True))
    wins = [np.array([w == word for w in winner], dtype=float) for word in ("left", "right", "tie")]
    votes = cc.Comparisons("q", expert, left, right, *wins)
    with pytest.warns(ConcordantWarning) as said:
        found = cc.BradleyTerry(**options).fit_predict(votes)
    assert sum("never met any of" in str(w.message) for w in said) == 1
    # Between the groups nothing is known but the prior, of precision 0.1, of means of three items and of two.
    gap = (found.covariance[0] @ [1 / 3, 1 / 3, 1 / 3, -1 / 2, -1 / 2]) @ [1 / 3, 1 / 3, 1 / 3, -1 / 2, -1 / 2]
    assert math.sqrt(gap) > 0.8 * math.sqrt(10 / 3 + 10 / 2)
    assert (by_item(found, found.rank_lower)["x"], by_item(found, found.rank_upper)["x"]) == (1, 5)
    assert found.difference("a", "b").stderr < 0.5 * math.sqrt(gap)
