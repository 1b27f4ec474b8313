"""Plackett-Luce through its public face: the maximum it promises, sums over orders, known answers, and its refusals."""

from __future__ import annotations

import csv
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import groupby, pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.aggregators.common import Lists, from_matrix, instances_of
from tests.data.strategies import Rows, preference_rows
from tests.oracles import spread
from tests.oracles import staged as oracle

import concordant as cc
from concordant.data.synthetic import plackett_luce
from concordant.errors import (
    ConcordantWarning,
    DataError,
    NoFiniteEstimateError,
    NotFittedError,
    ParameterError,
    UncertaintyWarning,
)

LETOR = ["ndcg@1", "ndcg@2", "ndcg@3", "ndcg@4", "ndcg@5", "p@1", "map"]


@pytest.fixture
def quiet() -> Iterator[None]:
    """Let a method warn about small data; what it answers is what is looked at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        yield


def blocks_of(items: list[str], lists: Lists, below: bool = False) -> list[oracle.List]:
    """Return the lists of an instance as blocks of item numbers, best first, without those that say nothing."""
    out: list[oracle.List] = []
    for weight, held in lists:
        order = sorted(held, key=lambda i: -held[i])
        blocks = [[items.index(i) for i in group] for _, group in groupby(order, key=lambda i: held[i])]
        rest = [n for n, i in enumerate(items) if i not in held]
        if below and rest:
            blocks.append(rest)
        if weight > 0 and len(blocks) > 1:
            out.append((weight, blocks, 1.0))
    return out


def orders(*lists: str, instance: str = "q") -> cc.Preferences:
    """Return one ranking per word, its letters best first."""
    return cc.from_lists({f"e{n}": list(word) for n, word in enumerate(lists)}, instance=instance)


def published_precision(n_items: int, lists: list[oracle.List], ties: str) -> float:
    each = [w * (len(b) - 1 if ties == "partition" else sum(map(len, b[:-1]))) for w, b, _ in lists]
    n = sum(each) / n_items
    return 2 * n / (1 + (n / 10) ** 2)


# The maximum.


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("missing", ["unknown", "below"])
@pytest.mark.parametrize("ties", ["average", "partition"])
@pytest.mark.parametrize("prior", ["auto", "published"])
@given(rows=preference_rows())
def test_answer_is_stationary_from_default_parameters(prior: str, ties: str, missing: str, rows: Rows) -> None:
    for p, items, lists in instances_of(rows):
        blocks = blocks_of(items, lists, missing == "below")
        model = cc.PlackettLuce(prior=prior, ties=ties, missing=missing)
        s = model.fit_predict(p).score
        precision = 0.1 if prior == "auto" else published_precision(len(items), blocks, ties)
        slope = oracle.gradient(s.tolist(), blocks, ties) - precision * s
        np.testing.assert_allclose(slope, 0, atol=1e-6)
        assert abs(s.sum()) < 1e-9
        assert model.fit_info_.converged
        assert model.fit_info_.gradient_norm is not None
        assert model.fit_info_.gradient_norm < 1e-10
        objective = oracle.log_likelihood(s.tolist(), blocks, ties) - 0.5 * precision * float(s @ s)
        assert model.fit_info_.objective == pytest.approx(objective, abs=1e-9)


@pytest.mark.usefixtures("quiet")
@given(rows=preference_rows(max_instances=1), precision=st.sampled_from([0.05, 1.0, 20.0]))
def test_optimisers_agree_with_a_general_one(rows: Rows, precision: float) -> None:
    for p, items, lists in instances_of(rows):
        want = oracle.best(len(items), blocks_of(items, lists), "average", precision)
        for optimizer in ("newton", "mm"):
            model = cc.PlackettLuce(prior=precision, optimizer=optimizer, uncertainty="none")
            np.testing.assert_allclose(model.fit_predict(p).score, want, atol=1e-5)


def test_worked_case_has_no_slope_at_its_mode(golden: Callable[[str], dict[str, Any]]) -> None:
    for case in golden("08_plackett_luce")["cases"]:
        a, b = case["input"]["a"], case["input"]["b"]
        p = from_matrix(case["input"]["R"])
        for optimizer in ("newton", "mm"):
            s = cc.PlackettLuce(prior=("gamma", a, b), optimizer=optimizer).fit_predict(p).score
            # Scores are told with mean 0; the mode itself has worths of mean (a - 1) / b.
            s = s - np.log(np.exp(s).mean()) + np.log((a - 1) / b)
            lists = [(1.0, [[i] for i in order], 1.0) for order in case["input"]["orders"]]
            slope = oracle.gradient(s.tolist(), lists, "average") + (a - 1) - b * np.exp(s)
            np.testing.assert_allclose(slope, 0, atol=1e-8)


def test_minorisation_never_falls() -> None:
    p = plackett_luce(8, 30, random_state=3).preferences
    values = [
        cc.PlackettLuce(prior=0.2, optimizer="mm", max_iter=n, tol=1e-15, uncertainty="none")
        for n in (1, 2, 3, 5, 10, 40)
    ]
    with pytest.warns(ConcordantWarning, match="did not converge"):
        reached = [model.fit(p).fit_info_.objective for model in values]
    assert reached == sorted(reached, key=float)
    best = cc.PlackettLuce(prior=0.2).fit(p).fit_info_.objective
    assert reached[-1] is not None
    assert best is not None
    assert reached[-1] <= best + 1e-9


def test_gradient_ascent_takes_the_papers_steps() -> None:
    p = orders("abcd", "bad", "cab", "adcb")
    lists = [(1.0, [["abcd".index(i)] for i in word], 1.0) for word in ("abcd", "bad", "cab", "adcb")]
    s, step = np.zeros(4), 0.01 * 4 / 10
    for _ in range(100):
        s = s + step * oracle.gradient(s.tolist(), lists, "average")
    model = cc.PlackettLuce(optimizer="gd")
    got = model.fit_predict(p)
    np.testing.assert_allclose(got.score, s, atol=1e-8)
    assert (model.fit_info_.n_iter, model.fit_info_.uncertainty, got.lower) == (100, None, None)


def test_the_published_prior_fades_with_the_data_and_the_default_is_weak_whatever_they_are() -> None:
    for n, precision in ((4, 2 * 3 / (1 + 0.3**2)), (400, 2 * 300 / (1 + 30.0**2))):
        p = plackett_luce(4, n, random_state=1).preferences
        for prior, same in (("published", precision), ("auto", 0.1)):
            got, want = (cc.PlackettLuce(prior=one).fit_predict(p) for one in (prior, same))
            np.testing.assert_allclose(got.score, want.score, atol=1e-12)
    sample = plackett_luce(30, 3000, choice=6, random_state=5)
    bare = cc.PlackettLuce(prior=0).fit_predict(sample.preferences).score
    for prior in ("auto", "published"):
        np.testing.assert_allclose(cc.PlackettLuce(prior=prior).fit_predict(sample.preferences).score, bare, atol=0.01)


# What the likelihood means.


def worth_of(s: np.ndarray, order: tuple[int, ...]) -> float:
    out = 1.0
    for k in range(len(order)):
        out *= np.exp(s[order[k]]) / np.exp(s[list(order[k:])]).sum()
    return float(out)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("missing", ["unknown", "below"])
def test_partial_list_sums_over_what_it_leaves_open(missing: str) -> None:
    p = orders("abcde", "cb", "eda")
    model = cc.PlackettLuce(prior=0.7, missing=missing)
    s = model.fit_predict(p).score
    total = 0.0
    for told in ("abcde", "cb", "eda"):
        places = ["abcde".index(i) for i in told]
        chances = [
            worth_of(s, full)
            for full in permutations(range(5))
            if (
                list(full[: len(places)]) == places
                if missing == "below"
                else [i for i in full if i in places] == places
            )
        ]
        total += np.log(sum(chances))
    assert model.fit_info_.objective == pytest.approx(total - 0.35 * float(s @ s), abs=1e-10)


def test_tie_averages_over_orders() -> None:
    # Where worths are equal Efron's likelihood of a tie has the slope of the mean over all orders of the tie.
    tied = [(1.0, [[0, 1, 2], [3], [4]], 1.0)]
    each = [(1 / 6, [*([i] for i in top), [3], [4]], 1.0) for top in permutations(range(3))]
    slopes = [oracle.gradient([0.0] * 5, lists, "average") for lists in (tied, each)]
    np.testing.assert_allclose(slopes[0], slopes[1], atol=1e-9)
    p = cc.Preferences(["q"] * 5, ["x"] * 5, list("abcde"), [1, 1, 1, 4, 5])
    with pytest.warns(ConcordantWarning, match="fewer than two experts"):
        shrunk = cc.PlackettLuce(prior=1e7).fit_predict(p).score * 1e7
    np.testing.assert_allclose(shrunk, slopes[0], atol=1e-5)


def test_two_items_in_every_list_make_it_bradley_terry() -> None:
    p = orders(*["ab"] * 7, *["ba"] * 3)
    assert np.diff(cc.PlackettLuce(prior=0).fit_predict(p).score)[0] == pytest.approx(np.log(3 / 7), abs=1e-12)
    rng = np.random.default_rng(4)
    pairs = [tuple(rng.permutation(list("abcdef"))[:2]) for _ in range(120)]
    one, two = (
        orders(*map("".join, pairs)),
        cc.Comparisons(
            "q",
            [f"e{n}" for n in range(120)],
            [a for a, _ in pairs],
            [b for _, b in pairs],
            [1.0] * 120,
            [0.0] * 120,
            [0.0] * 120,
        ),
    )
    for prior in (0, 0.5):
        got = cc.PlackettLuce(prior=prior).fit_predict(one)
        want = cc.BradleyTerry(prior=prior, ties="none").fit_predict(two)
        place = [want.items.tolist().index(i) for i in got.items]
        np.testing.assert_allclose(got.score, want.score[place], atol=1e-9)
        np.testing.assert_allclose(got.stderr, want.stderr[place], rtol=1e-6)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("uncertainty", ["sandwich", "information"])
def test_weight_three_is_three_voters_in_scores_and_errors(uncertainty: str) -> None:
    words, counts = ["abcd", "bac", "dbca", "cab"], [3, 1, 2, 4]
    many = orders(*[w for w, n in zip(words, counts, strict=True) for _ in range(n)])
    few = orders(*words).with_weights({f"e{k}": float(n) for k, n in enumerate(counts)})
    a, b = (cc.PlackettLuce(uncertainty=uncertainty).fit_predict(p) for p in (many, few))
    np.testing.assert_allclose(a.score, b.score, atol=1e-10)
    np.testing.assert_allclose(a.stderr, b.stderr, rtol=1e-8)
    np.testing.assert_allclose(a.upper, b.upper, rtol=1e-8)


def test_many_equal_lists_are_as_one_of_their_weight() -> None:
    rng = np.random.default_rng(0)
    words = ["".join(rng.permutation(list("abcde"))[:4]) for _ in range(12)]
    drawn = rng.integers(0, 12, 900)
    many = orders(*[words[k] for k in drawn])
    few = orders(*words).with_weights({f"e{k}": float((drawn == k).sum()) for k in range(12)})
    for params in ({}, {"prior": 0}, {"missing": "below"}):
        a, b = (cc.PlackettLuce(**params).fit_predict(p) for p in (many, few))
        place = [b.items.tolist().index(i) for i in a.items]
        np.testing.assert_allclose(a.score, b.score[place], atol=1e-10)
        np.testing.assert_allclose(a.stderr, b.stderr[place], rtol=1e-7)


def test_top_k_lists_of_many_items_need_no_row_for_the_rest() -> None:
    # 60 items and lists of 3: the rest is taken as a whole, and written out here by hand.
    sample = plackett_luce(60, 400, length=3, random_state=2).preferences
    told = sample.to_frame()
    rows = [(e, i, r) for e, i, r in told.select("expert", "item", "rank").drop_nulls().rows()]
    held: dict[str, set[str]] = {}
    for e, i, _ in rows:
        held.setdefault(e, set()).add(i)
    rows += [(e, i, 4.0) for e, own in held.items() for i in sample.items if i not in own]
    written = cc.Preferences(
        ["q"] * len(rows), *(list(c) for c in zip(*rows, strict=True)), items=[("q", i) for i in sample.items]
    )
    got = cc.PlackettLuce(missing="below").fit_predict(sample)
    want = cc.PlackettLuce().fit_predict(written)
    np.testing.assert_allclose(got.score, want.score, atol=1e-9)
    np.testing.assert_allclose(got.stderr, want.stderr, rtol=1e-6)


# Ties by order.


def test_ties_in_input_order_or_drawn_from_the_ids() -> None:
    rows = [
        ("x", "a", 1),
        ("x", "b", 1),
        ("x", "c", 1),
        ("y", "b", 1),
        ("y", "a", 2),
        ("y", "c", 2),
        ("z", "c", 1),
        ("z", "a", 2),
    ]

    def tied(rows: list[tuple[str, str, int]]) -> cc.Preferences:
        return cc.Preferences(["q"] * len(rows), *map(list, zip(*rows, strict=True)), items=[("q", i) for i in "abc"])

    as_told = cc.PlackettLuce(ties="input").fit_predict(tied(rows)).score
    np.testing.assert_allclose(as_told, cc.PlackettLuce().fit_predict(orders("abc", "bac", "ca")).score, atol=1e-12)
    drawn = [cc.PlackettLuce(ties="random", random_state=k).fit_predict(tied(rows)).score for k in range(6)]
    again = [cc.PlackettLuce(ties="random", random_state=k).fit_predict(tied(rows[::-1])).score for k in range(6)]
    np.testing.assert_allclose(drawn, again, atol=1e-12)
    assert len({tuple(s.round(9)) for s in drawn}) > 1
    # Every order of the tie is drawn about equally often.
    first = [
        cc.PlackettLuce(ties="random", random_state=k, uncertainty="none").fit_predict(tied(rows[:3])).ranking()[0]
        for k in range(300)
    ]
    assert all(70 <= first.count(i) <= 130 for i in "abc")


def test_partition_says_when_its_answer_is_no_maximum() -> None:
    rows = [("x", "c", 1), ("x", "a", 2), ("x", "e", 2), ("x", "b", 4), ("x", "d", 5), ("x", "f", 5)]
    p = cc.Preferences(["q"] * 6, *map(list, zip(*rows, strict=True)))
    with pytest.warns(ConcordantWarning, match="ties leave more than one best answer in instances .*'q'"):
        s = cc.PlackettLuce(ties="partition", prior=0.01, uncertainty="none").fit_predict(p).score
    assert s[1] == pytest.approx(s[2], abs=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cc.PlackettLuce(ties="partition", prior=0.5, uncertainty="none").fit_predict(p)


# Adherence.


def three_experts(n: int = 40, length: int = 6) -> cc.Preferences:
    """Return rankings by two experts who follow the scores, one of them less, and one who does not."""
    rng = np.random.default_rng(9)
    rows = []
    for q in range(n):
        s = rng.normal(size=length)
        for e, theta in (("good", 3.0), ("fair", 1.5), ("random", 0.0)):
            seen = np.argsort(-(theta * s + rng.gumbel(size=length)))
            rows += [(f"q{q}", e, f"i{i}", k + 1.0) for k, i in enumerate(seen)]
    return cc.Preferences(*map(list, zip(*rows, strict=True)))


def test_adherence_is_found_and_the_best_on_its_ellipsoid() -> None:
    p = three_experts()
    model = cc.PlackettLuce(adherence=True, prior=0.5, uncertainty="none").fit(p)
    theta = dict(zip(model.experts_, model.adherence_, strict=True))
    assert theta["good"] > theta["fair"] > theta["random"]
    assert theta["random"] < 0.35
    assert np.mean(model.adherence_**2) == pytest.approx(1.0, abs=1e-12)
    assert model.fit_info_.converged
    trace = model.fit_info_.trace
    assert all(later > earlier - 1e-9 for earlier, later in pairwise(trace))
    best = model.fit_info_.objective
    assert best is not None
    # Any other θ of the same mean square is worse.
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-1):
        for _ in range(4):
            other = np.maximum(model.adherence_ + size * rng.normal(size=3), 0)
            changed = cc.PlackettLuce(adherence=True, prior=0.5, uncertainty="none")
            changed.experts_, changed.adherence_ = model.experts_, other / np.sqrt(np.mean(other**2))
            s = changed.predict(p)
            assert profile(p, s, dict(zip(changed.experts_, changed.adherence_, strict=True)), 0.5) < best
    assert profile(p, model.predict(p), theta, 0.5) == pytest.approx(best, abs=1e-8)


def profile(p: cc.Preferences, c: cc.Consensus, theta: dict[str, float], precision: float) -> float:
    """Return the penalised log-likelihood of all instances by the formula."""
    total = 0.0
    for q in p.instances:
        one, s = p[q], c[q].score
        order = np.argsort(one.value, kind="stable")
        lists = [
            (1.0, [[int(one.slot[r])] for r in order if one.row_expert[r] == k], float(theta[e]))
            for k, e in enumerate(one.experts)
        ]
        total += oracle.log_likelihood(s.tolist(), lists, "average") - 0.5 * precision * float(s @ s)
    return total


def test_adherence_is_kept_for_experts_known_and_asked_about_others() -> None:
    p = three_experts(12)
    model = cc.PlackettLuce(adherence=True, uncertainty="none").fit(p)
    new = cc.from_lists({"good": list("abc"), "stranger": list("cba")})
    with pytest.raises(DataError, match=r"nothing about the experts \['stranger'\].*\n?.*Known: \['good'"):
        model.predict(new)
    ignoring = cc.PlackettLuce(adherence=True, uncertainty="none", unknown_experts="ignore").fit(p)
    assert ignoring.predict(new).ranking() == ["a", "b", "c"]
    only = ignoring.predict(new.drop_experts(["stranger"]))
    np.testing.assert_array_equal(ignoring.predict(new).score, only.score)
    with pytest.raises(NotFittedError):
        cc.PlackettLuce(adherence=True).predict(p)
    weights = model.expert_weights_
    assert weights["expert"].to_list() == ["good", "fair", "random"]


def test_adherence_of_very_many_experts_needs_no_table() -> None:
    rng = np.random.default_rng(5)
    words = ["".join(rng.permutation(list("abcdef"))) if k % 2 else "abcdef" for k in range(520)]
    model = cc.PlackettLuce(adherence=True, prior=5.0, uncertainty="none", max_iter=60, tol=1e-4)
    model.fit(orders(*words))
    assert model.adherence_[::2].mean() > 1.2
    assert model.adherence_[1::2].mean() < 0.6


def test_adherence_is_learned_from_lists_of_many_voters() -> None:
    """Weights of 10,000 voters made squares of chances overflow, and the search for a step endless."""
    code = (
        "import warnings, concordant as cc\n"
        "warnings.simplefilter('error', cc.errors.ConvergenceWarning)\n"
        "lists = {'x': 'abcd', 'y': 'badc', 'z': 'acb', 'w': 'dbae', 'v': 'abe'}\n"
        "rows = [(q, e, i, r) for q in 'pqr' for e, items in lists.items()\n"
        "        for r, i in enumerate(items if q != 'q' else items[::-1], 1)]\n"
        "voters = {'x': 1e4, 'y': 2e4, 'z': 5e3, 'w': 1.5e4, 'v': 3e4}\n"
        "p = cc.Preferences(*zip(*rows), weight=voters)\n"
        "model = cc.PlackettLuce(adherence=True, uncertainty='none').fit(p)\n"
        "print(model.fit_info_.converged, model.fit_info_.gradient_norm < 1e-10)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_adherence_needs_a_prior_and_newton() -> None:
    p = three_experts(3)
    for params, name in (({"prior": 0}, "prior"), ({"optimizer": "mm"}, "optimizer")):
        with pytest.raises(ParameterError, match=f"'{name}' parameter of PlackettLuce"):
            cc.PlackettLuce(adherence=True, **params).fit(p)


# Intervals.


WORDS = ["abcde", "bacd", "dbcea", "cab", "ebd", "adc", "cde"]
WEIGHT = [2.0, 1.0, 1.0, 3.0, 1.0, 0.5, 1.0]


def clusters_of(lists: list[oracle.List], ties: str = "average") -> list[spread.Cluster]:
    """Return the log-likelihood of every list, and its weight."""
    return [
        (w, lambda s, one=(1.0, blocks, theta): oracle.log_likelihood(s.tolist(), [one], ties))
        for w, blocks, theta in lists
    ]


def assert_spread(got: cc.Consensus, want: np.ndarray, freedom: np.ndarray) -> None:
    """Require a covariance, and intervals by Student's law with these degrees of freedom."""
    np.testing.assert_allclose(got.covariance[0], want, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose((got.upper - got.score) / got.stderr, stats.t.ppf(0.975, freedom), rtol=1e-5)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("missing", ["unknown", "below"])
@pytest.mark.parametrize("prior", [0, "auto", 1.5, ("gamma", 3.0, 1.5)], ids=str)
def test_covariance_is_that_of_the_lists_as_clusters(prior: Any, missing: str) -> None:
    p = orders(*WORDS).with_weights({f"e{k}": w for k, w in enumerate(WEIGHT)})
    lists = []
    for w, word in zip(WEIGHT, WORDS, strict=True):
        rest = [k for k, i in enumerate("abcde") if i not in word]
        blocks = [["abcde".index(i)] for i in word] + [rest] * (missing == "below" and bool(rest))
        lists.append((w, blocks, 1.0))
    got = cc.PlackettLuce(prior=prior, missing=missing).fit_predict(p)
    s = got.score
    if isinstance(prior, tuple):
        # The mode itself has worths of mean (a - 1) / b, and the prior's curvature is b times the worth.
        s = s - np.log(np.exp(s).mean()) + np.log(2.0 / 1.5)
    precision = 1.5 * np.exp(s) if isinstance(prior, tuple) else 0.1 if prior == "auto" else prior
    assert_spread(got, *spread.moderated(clusters_of(lists), s, 5, precision))
    plain = cc.PlackettLuce(prior=prior, missing=missing, uncertainty="information").fit_predict(p)
    hessian = np.diag(np.broadcast_to(precision, 5)) + (prior == 0) * np.ones((5, 5))
    hessian -= sum(w * spread.bends(f, s) for w, f in clusters_of(lists))
    np.testing.assert_allclose(plain.covariance[0], spread.centred(np.linalg.inv(hessian)), rtol=1e-5, atol=1e-7)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("ties", ["average", "partition"])
def test_covariance_of_tied_lists_is_that_of_the_lists_as_clusters(ties: str) -> None:
    ranks = np.array([[1, 1, 2, 0, 4], [1, 2, 1, 1, 3], [3, 2, 1, 2, 1], [3, 3, 2, 2, 1], [3, 4, 0, 4, 2]])
    p = from_matrix(ranks).with_weights({"e1": 2.5})
    lists = [
        (2.5 if k == 1 else 1.0, [[i for i in range(5) if column[i] == r] for r in sorted({*column} - {0})], 1.0)
        for k, column in enumerate(ranks.T.tolist())
    ]
    got = cc.PlackettLuce(prior=0.6, ties=ties).fit_predict(p)
    assert_spread(got, *spread.moderated(clusters_of(lists, ties), got.score, 5, 0.6))


def test_adherence_is_part_of_every_list_in_the_covariance() -> None:
    p = three_experts(60)
    model = cc.PlackettLuce(adherence=True, prior=0.5)
    got = model.fit_predict(p)["q3"]
    one, theta = p["q3"], dict(zip(model.experts_, model.adherence_.tolist(), strict=True))
    order = np.argsort(one.value, kind="stable")
    lists = [
        (1.0, [[int(one.slot[r])] for r in order if one.row_expert[r] == k], theta[e])
        for k, e in enumerate(one.experts)
    ]
    assert_spread(got, *spread.moderated(clusters_of(lists), got.score, 6, 0.5))


def test_large_tables_are_solved_as_small_ones() -> None:
    sample = plackett_luce(150, 900, choice=8, random_state=6)
    one = cc.PlackettLuce(prior=0.3).fit_predict(sample.preferences)
    assert np.linalg.eigvalsh(one.covariance[0]).min() > -1e-12
    plain = cc.PlackettLuce(prior=0.3, uncertainty="information").fit_predict(sample.preferences).covariance[0]
    assert np.abs(plain.sum(axis=0)).max() < 1e-9
    assert np.linalg.eigvalsh(plain).min() > -1e-12
    true = np.array([sample.scores[i] for i in one.items])
    assert 0.9 < float(((one.lower <= true) & (true <= one.upper)).mean()) <= 1.0


def test_bootstrap_agrees_with_the_sandwich() -> None:
    p = plackett_luce(6, 150, choice=4, random_state=8).preferences
    quick = cc.PlackettLuce(prior=0).fit_predict(p)
    model = cc.PlackettLuce(prior=0, uncertainty="bootstrap", n_bootstrap=150)
    slow = model.fit_predict(p)
    np.testing.assert_allclose(slow.stderr, quick.stderr, rtol=0.2)
    assert model.fit_info_.uncertainty == "bootstrap over experts, 150 draws"
    again = cc.PlackettLuce(prior=0, uncertainty="bootstrap", n_bootstrap=150).fit_predict(p)
    np.testing.assert_array_equal(slow.stderr, again.stderr)


def test_gradient_ascent_has_intervals_by_bootstrap() -> None:
    p = plackett_luce(5, 80, random_state=4).preferences
    found = cc.PlackettLuce(optimizer="gd", uncertainty="bootstrap", n_bootstrap=60).fit_predict(p)
    # Shrunk by stopping early, and so are the errors: less than those of the estimate itself, and there all the same.
    bare = cc.PlackettLuce(prior=0).fit_predict(p)
    assert (found.stderr < bare.stderr).all()
    assert (found.stderr > 0.1 * bare.stderr).all()


def test_what_the_intervals_rest_on_is_said() -> None:
    p = plackett_luce(4, 60, random_state=2).preferences
    for params, words in (
        ({}, "sandwich, clustered by expert, posterior"),
        ({"prior": 0}, "sandwich, clustered by expert"),
        ({"prior": 0, "uncertainty": "information"}, "observed information"),
        ({"uncertainty": "none"}, None),
    ):
        model = cc.PlackettLuce(**params)
        found = model.fit_predict(p)
        assert model.fit_info_.uncertainty == words
        assert found.interval_method == words


def test_a_bootstrap_has_an_estimate_in_every_draw() -> None:
    # Each of these lists alone keeps some item from being first or last for ever.
    p = orders("abcd", "bacd", "bcad", "cabd", "dabc")
    model = cc.PlackettLuce(prior=0, uncertainty="bootstrap", n_bootstrap=60)
    found = model.fit_predict(p)
    assert found.stderr is not None
    assert np.isfinite(found.stderr).all()
    assert model.fit_info_.warnings == []


def test_no_tables_for_very_many_items_unless_asked() -> None:
    sample = plackett_luce(5200, 40, choice=20, random_state=1).preferences
    model = cc.PlackettLuce()
    with pytest.warns(UncertaintyWarning, match="no intervals"):
        assert model.fit_predict(sample).lower is None
    (note,) = model.fit_info_.warnings
    assert "up to 5,200 in an instance" in note
    assert "MB" in note


# Refusals.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("abcd", "acbd"), "item 'a' is never ranked below another; item 'd' is never ranked above another"),
        (("ab", "ba", "cd", "dc"), r"one of 2 groups against those of another: \['a', 'b'\], \['c', 'd'\]"),
        (("abcd", "bacd", "bdc"), r"items \['a', 'b'\] are never ranked below another outside them"),
        (("abc", "bca", "cab", "d"), "item 'd' is ranked against no other"),
        (("abcdef",), "item 'a' is never ranked below another; item 'f' is never ranked above another"),
    ],
)
def test_no_finite_estimate_names_the_items(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(NoFiniteEstimateError, match=said) as caught:
        cc.PlackettLuce(prior=0).fit(orders(*words))
    assert "in instance 'q'" in str(caught.value)
    assert "Set prior=0.1" in str(caught.value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        assert np.isfinite(cc.PlackettLuce(prior=0.1).fit_predict(orders(*words)).score).all()


def test_all_ties_place_nobody() -> None:
    p = cc.Preferences(["q"] * 6, list("xxxyyy"), list("abcabc"), [1, 1, 1, 2, 2, 2])
    with pytest.raises(NoFiniteEstimateError, match=r"items \['a', 'b', 'c'\] are ranked against no other"):
        cc.PlackettLuce(prior=0).fit(p)
    with pytest.warns(ConcordantWarning, match=r"nobody prefers any of items \['a', 'b', 'c'\] of instance 'q'"):
        found = cc.PlackettLuce().fit_predict(p)
    assert found.rank.tolist() == [1, 1, 1]


def test_one_expert_gets_an_order_and_no_interval() -> None:
    with pytest.warns(ConcordantWarning, match=r"no intervals for items \['b', 'c', 'a'\] of instance 'q': fewer"):
        found = cc.PlackettLuce().fit_predict(orders("bca"))
    assert found.ranking() == ["b", "c", "a"]
    assert found.stderr is not None
    assert np.isnan(found.stderr).all()


def test_steps_that_are_too_few_are_told_and_the_estimate_is_kept() -> None:
    p = plackett_luce(6, 40, random_state=2).preferences
    with pytest.warns(ConcordantWarning, match=r"did not converge in 1 steps in instances \['q'\]"):
        model = cc.PlackettLuce(max_iter=1).fit(p)
    assert not model.fit_info_.converged
    assert model.fit_info_.gradient_norm is not None
    assert model.fit_info_.gradient_norm > 1e-10


@pytest.mark.parametrize("prior", [-1.0, "none", ("gamma", 1.0, 1.0), ("gamma", 2.0), ("beta", 2.0, 1.0), True])
def test_prior_that_is_none(prior: Any) -> None:
    with pytest.raises(ParameterError, match=r"of PlackettLuce must be \"auto\", \"published\", a number >= 0"):
        cc.PlackettLuce(prior=prior).fit(orders("ab", "ba"))


# Known answers on real data.


@pytest.mark.data
def test_hunter_s_nascar_table(data_dir: Path) -> None:
    with open(data_dir / "r-ranking" / "PlackettLuce" / "data" / "nascar.csv", newline="") as file:
        races = [[int(float(c)) for c in row[1:] if c and float(c)] for row in list(csv.reader(file))[1:]]

    def ranked(races: list[list[int]]) -> cc.Preferences:
        rows = [(f"r{k}", str(d), n + 1.0) for k, race in enumerate(races) for n, d in enumerate(race)]
        return cc.Preferences(["q"] * len(rows), *map(list, zip(*rows, strict=True)))

    # Four drivers came in last wherever they drove; Hunter (2004) leaves them out, too.
    with pytest.raises(NoFiniteEstimateError, match=r"items \['87', '84', '86', '85'\] are never ranked above another"):
        cc.PlackettLuce(prior=0).fit(ranked(races))
    kept = ranked([[d for d in race if d <= 83] for race in races])
    with pytest.warns(UncertaintyWarning, match=r"fewer than 5 experts speak of items \['63', .* 28 more\]"):
        found = cc.PlackettLuce(prior=0).fit_predict(kept)
    s = dict(zip(found.items, found.score.tolist(), strict=True))
    # His table 2: PJ Jones, Scott Pruett, Mark Martin, Tony Stewart and Rusty Wallace, then Marcis, Trickle and Varde,
    # relative to Andy Cameron.
    want = {"58": 4.15, "68": 3.62, "51": 2.08, "82": 1.83, "66": 2.06, "15": 0.03, "17": -0.31, "40": -0.15}
    assert {d: round(s[d] - s["1"], 2) for d in want} == want


@pytest.mark.data
@pytest.mark.usefixtures("quiet")
def test_mq2008_row(data_dir: Path) -> None:
    folds = cc.read_letor_folds(data_dir / "MQ2008-agg")
    published = {"ndcg@5": 41.55, "map": 42.20}

    def row(model: cc.PlackettLuce) -> dict[str, float]:
        found = [
            cc.evaluate(model.fit_predict(p), labels, LETOR, convention="letor").mean for _, _, (p, labels) in folds
        ]
        return {m: 100 * float(np.mean([f[m] for f in found])) for m in published}

    for model in (cc.PlackettLuce(prior="published", uncertainty="none"), cc.PlackettLuce(optimizer="gd")):
        got = row(model)
        assert all(got[m] >= published[m] - 0.5 for m in published), got
    assert row(cc.PlackettLuce(prior=1e-6, uncertainty="none"))["ndcg@5"] < 33


# What the lists leave open.


def test_groups_that_no_list_connects_are_named() -> None:
    p = orders("ab", "ba", "cd", "dc", "cd")
    for params, rest in (
        ({}, "the prior"),
        ({"optimizer": "gd"}, "where the steps end"),
        ({"prior": 0.5}, "the prior"),
    ):
        with pytest.warns(ConcordantWarning, match=rf"items \['c', 'd'\] never met any of \['a', 'b'\] .* {rest}\."):
            cc.PlackettLuce(**params).fit(p)
    # Lists that place what they leave out below connect everything.
    assert cc.PlackettLuce(missing="below").fit(p).fit_info_.warnings == []


def test_groups_are_named_once_for_all_instances() -> None:
    rows = [
        (q, e, i, r)
        for q in ("one", "two", "three")
        for e, w in enumerate(["ab", "ba", "cde"])
        for r, i in enumerate(w)
    ]
    rows = [row for row in rows if row[:2] != ("one", 2)]
    q, e, i, r = zip(*rows, strict=True)
    items = [("one", "z"), ("two", "z"), ("three", "z")]
    p = cc.Preferences(
        q,
        [str(k) for k in e],
        i,
        [k + 1 for k in r],
        items=items + [(a, b) for a in ("one", "two", "three") for b in "abcde"],
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        cc.PlackettLuce(uncertainty="none").fit_predict(p)
    (note,) = [str(w.message) for w in said]
    assert note.startswith("items ['c', 'd', 'e'] never met any of ['a', 'b'] in instance 'two' (and 1 more instances")


@pytest.mark.parametrize("prior", ["auto", 0, ("gamma", 2.0, 1.0)])
def test_an_item_alone_is_named(prior: Any) -> None:
    with pytest.warns(ConcordantWarning, match=r"nobody prefers any of items \['a'\] of instance 'q' to another"):
        found = cc.PlackettLuce(prior=prior).fit_predict(orders("a", "a"))
    assert found.score.tolist() == [0.0]


def test_a_prior_as_a_list_is_the_tuple() -> None:
    p = orders("abc", "bac", "ab")
    listed = cc.PlackettLuce(prior=["gamma", 2, 1])
    assert listed.get_params()["prior"] == ["gamma", 2, 1]
    given = cc.PlackettLuce(prior=("gamma", 2.0, 1.0)).fit_predict(p)
    np.testing.assert_array_equal(listed.fit_predict(p).score, given.score)
    with pytest.raises(ParameterError, match="prior"):
        cc.PlackettLuce(prior=["gamma", 1, 1]).fit(p)


@pytest.mark.parametrize("prior", [0.1, 5.0])
def test_bootstrap_of_few_experts_is_as_wide_as_the_sandwich(prior: float) -> None:
    p = plackett_luce(6, 4, random_state=5).preferences
    drawn = cc.PlackettLuce(prior=prior, uncertainty="bootstrap", n_bootstrap=3000).fit_predict(p)
    exact = cc.PlackettLuce(prior=prior).fit_predict(p)
    ratio = np.sqrt(np.trace(drawn.covariance[0]) / np.trace(exact.covariance[0]))
    assert abs(ratio - 1) < 0.07
    np.testing.assert_allclose(drawn.upper - drawn.lower, exact.upper - exact.lower, rtol=0.2)


def test_items_only_disbelieved_experts_speak_of_get_no_interval() -> None:
    model = cc.PlackettLuce(adherence=True)
    with pytest.warns(ConcordantWarning) as said:
        found = model.fit_predict(orders("ab", "ba", "cd", "dc", "cd"))
    told = [str(w.message) for w in said]
    assert any("never met" in note for note in told)
    assert any("learned from one instance and is taken as known: intervals are too short" in note for note in told)
    assert (model.adherence_ == 0).any()
    assert np.isnan(found.stderr[:2]).all()
    assert (found.stderr[2:] > 0.01).all()


def test_how_intervals_will_be_made_is_known_after_fit() -> None:
    p = plackett_luce(4, 20, random_state=2).preferences
    assert cc.PlackettLuce().fit(p).fit_info_.uncertainty == "sandwich, clustered by expert, posterior"
    assert cc.PlackettLuce(uncertainty="none").fit(p).fit_info_.uncertainty is None
