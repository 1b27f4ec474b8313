"""Plackett-Luce with Davidson-Luce ties: R's numbers, a slow maximum, Davidson's model of pairs, and its refusals."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.kernels.test_davidson_luce import evaluate, flat, table
from tests.oracles import davidson_luce as oracle

import concordant as cc
from concordant.aggregators import _plackett_luce_ties
from concordant.errors import (
    ConcordantWarning,
    DataError,
    FormatError,
    IdentifiabilityWarning,
    NoFiniteEstimateError,
    NotFittedError,
    ParameterError,
)

Golden = Callable[[str], dict[str, Any]]
Ranked = list[tuple[dict[str, int], float]]


@pytest.fixture
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        yield


def weighted(lists: Ranked, instance: str = "q", missing: str = "unknown") -> cc.Preferences:
    """Return rankings, each a mapping from item to rank with a weight."""
    rows = [(instance, f"e{n}", item, rank, w) for n, (ranks, w) in enumerate(lists) for item, rank in ranks.items()]
    q, expert, item, rank, weight = zip(*rows, strict=True)
    found = cc.Preferences(q, expert, item, rank, missing=missing)  # type: ignore[arg-type]
    return found.with_weights(dict(zip(expert, weight, strict=True)))


def pseudo_rankings(items: list[str], k: float) -> Ranked:
    """Return R's pseudo-rankings: k wins and k losses of every item against a hypothetical one."""
    return [({item: a, "ghost": 3 - a}, k) for item in items for a in (1, 2)]


def test_coefficients_standard_errors_and_deviance_of_r(golden: Golden) -> None:
    content = golden("davidson_luce")
    (case,) = content["cases"]
    items, expected = case["input"]["items"], case["expected"]
    lists: Ranked = [({i: r for i, r in zip(items, row, strict=True) if r}, 1.0) for row in case["input"]["R"]]
    model = cc.PlackettLuce(ties="davidson-luce", prior=0, anchor="apple", uncertainty="none")
    board = model.fit_predict(weighted(lists + pseudo_rankings(items, case["input"]["pseudo"])))
    scores = dict(zip(board.items.tolist(), board.score.tolist(), strict=True))
    assert [scores[i] for i in items] == pytest.approx(expected["coefficients"], abs=content["abs_tol"])
    assert model.tie_sizes_.tolist() == [2]
    assert np.log(model.tie_) == pytest.approx([expected["tie2"]], abs=content["abs_tol"])
    # R takes the information and the deviance of the rankings alone.
    blocks = [blocks_of(ranks, items) for ranks, _ in lists]
    rows = flat([(1.0, b, []) for b in blocks])
    score, tie = np.array([scores[i] for i in items]), np.array([0.0, float(np.log(model.tie_[0]))])
    assert -2 * evaluate(score, tie, [1, 2], rows).value == pytest.approx(expected["deviance"], abs=0.005)
    free = [1, 2, 4]
    information = table(score, tie, [1, 2], rows)[0][np.ix_(free, free)]
    stderr = np.sqrt(np.diag(np.linalg.inv(information)))
    assert stderr.tolist() == pytest.approx(expected["stderr"], abs=5e-5)


def blocks_of(ranks: dict[str, int], items: list[str]) -> list[list[int]]:
    order = sorted(ranks, key=lambda i: ranks[i])
    return [[items.index(i) for i in group] for _, group in groupby(order, key=lambda i: ranks[i])]


@pytest.mark.data
def test_pudding_of_davidson_as_r_fits_it(data_dir: Path) -> None:
    """R's vignette, which stops after 7 iterations: worths and δ agree to its last steps, and quasi-variances too."""
    lists: Ranked = []
    with open(data_dir / "r-ranking" / "PlackettLuce" / "data" / "pudding.csv", newline="") as file:
        for row in csv.DictReader(file):
            for a, b, n in ((1, 2, "w_ij"), (2, 1, "w_ji"), (1, 1, "t_ij")):
                lists += [({row["i"]: a, row["j"]: b}, float(row[n]))] if float(row[n]) else []
    model = cc.PlackettLuce(ties="davidson-luce", prior=0, uncertainty="information", anchor="1")
    board = model.fit_predict(weighted(lists))
    assert board.items.tolist() == list("123456")
    worth = np.exp(board.score) / np.exp(board.score).sum()
    printed = [0.1388005, 0.1729985, 0.1617420, 0.1653930, 0.1586805, 0.2023855]
    assert worth.tolist() == pytest.approx(printed, abs=3e-5)
    assert model.tie_ == pytest.approx([0.7468147], abs=1e-5)
    assert board.stderr is not None
    errors = [0.0, 0.1872168, 0.1935181, 0.1882110, 0.1927043, 0.1924059]
    assert board.stderr.tolist() == pytest.approx(errors, abs=1e-6)
    quasi = cc.quasi_variances(board)
    assert quasi.variance.tolist() == pytest.approx(
        [0.01766108, 0.01761919, 0.01948091, 0.01769538, 0.01957908, 0.01937796], abs=2e-7
    )
    assert [round(100 * e, 1) for e in (*quasi.worst, *quasi.worst_contrast)] == [-0.8, 0.8, -1.7, 1.7]


# The maximum, by a slow search over the enumerated likelihood.


THREE: Ranked = [
    ({"a": 1, "b": 1, "c": 2, "d": 3}, 1.0),
    ({"a": 1, "b": 2, "c": 3, "d": 3}, 2.0),
    ({"d": 1, "a": 2, "c": 2, "b": 2}, 1.0),
    ({"c": 1, "a": 2}, 1.0),
    ({"b": 1, "d": 2, "a": 3}, 1.5),
    ({"c": 1, "b": 1}, 1.0),
]
MORE: Ranked = [({"x": 1, "y": 2, "z": 2}, 1.0), ({"z": 1, "x": 1, "y": 2}, 1.0), ({"y": 1, "z": 2, "x": 3}, 2.0)]


def slow_objective(instances: list[Ranked], prior: float, below: bool) -> tuple[Callable[[Any], float], list[int]]:
    """Return minus the penalised log-likelihood over the scores of all instances, then log δ; and the sizes of ties."""
    parts, sizes, at = [], {1}, 0
    for lists in instances:
        items = sorted({i for ranks, _ in lists for i in ranks})
        rows = []
        for ranks, w in lists:
            blocks = blocks_of(ranks, items)
            left = [n for n, i in enumerate(items) if i not in ranks] if below else []
            sizes |= {len(b) for b in blocks}
            rows.append((w, blocks, left))
        parts.append((slice(at, at + len(items)), rows))
        at += len(items)
    ordered = sorted(sizes)

    def value(point: Any) -> float:
        delta = dict(zip(ordered, [1.0, *np.exp(point[at:])], strict=True))
        out = 0.5 * prior * float(point[:at] @ point[:at])
        for own, rows in parts:
            out -= sum(w * oracle.log_probability(b, point[own].tolist(), delta, left) for w, b, left in rows)
        return out

    return value, ordered[1:]


def numerical_hessian(f: Callable[[Any], float], x: Any, step: float = 1e-4) -> Any:
    n = len(x)
    out = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            total = 0.0
            for a in (1, -1):
                for b in (1, -1):
                    y = x.copy()
                    y[i] += a * step
                    y[j] += b * step
                    total += a * b * f(y)
            out[i, j] = total / (4 * step * step)
    return out


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("instances", [[THREE], [THREE, MORE]], ids=["one", "two"])
def test_maximum_and_covariance_over_scores_and_shared_ties(instances: list[Ranked], below: bool) -> None:
    prior, missing = 0.3, "below" if below else "unknown"
    votes = cc.concat([weighted(p, f"q{n}", missing) for n, p in enumerate(instances)])
    model = cc.PlackettLuce(ties="davidson-luce", prior=prior, uncertainty="information")
    board = model.fit_predict(votes)
    f, sizes = slow_objective(instances, prior, below)
    assert model.tie_sizes_.tolist() == sizes
    # Scores come centred; under the prior the maximum has mean 0 in each instance.
    order = np.concatenate([np.argsort(board[[n]].items.tolist()) + board.slots.offsets[n] for n in range(len(board))])
    found = np.concatenate([board.score[order], np.log(model.tie_)])
    best = minimize(f, found + 0.05, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(found, best.x, rtol=0, atol=2e-6)
    assert model.fit_info_.objective == pytest.approx(-f(found), abs=1e-9)
    assert model.fit_info_.converged
    covariance = np.linalg.inv(numerical_hessian(f, found))
    m = len(board.score)
    np.testing.assert_allclose(model.tie_covariance_, covariance[m:, m:], rtol=0, atol=2e-5)
    for n in range(len(board)):
        size = int(board.slots.sizes[n])
        own = np.argsort(board[[n]].items.tolist())
        centre = np.eye(size) - 1.0 / size
        rows = slice(int(board.slots.offsets[n]), int(board.slots.offsets[n + 1]))
        expected = centre @ covariance[rows, rows] @ centre
        assert board.covariance is not None
        given = board.covariance[n]
        assert given is not None
        np.testing.assert_allclose(given[np.ix_(own, own)], expected, rtol=0, atol=2e-5)


def test_pairs_are_davidsons_bradley_terry() -> None:
    rng = np.random.default_rng(5)
    lists: Ranked = []
    for _ in range(60):
        a, b = rng.choice(list("abcd"), 2, replace=False)
        lists.append(({str(a): 1, str(b): int(rng.integers(1, 3))}, 1.0))
    lists += [({a: 1, b: 2}, 1.0) for a, b in ("ab", "bc", "cd", "da")]
    votes = weighted(lists)
    for uncertainty in ("information", "sandwich"):
        pairs = cc.BradleyTerry(ties="davidson", prior=0, uncertainty=uncertainty)
        listwise = cc.PlackettLuce(ties="davidson-luce", prior=0, uncertainty=uncertainty)
        expected, found = pairs.fit_predict(votes), listwise.fit_predict(votes)
        np.testing.assert_allclose(found.score, expected.score, rtol=0, atol=1e-8)
        assert listwise.tie_ == pytest.approx([pairs.tie_], abs=1e-8)
        assert expected.stderr is not None
        np.testing.assert_allclose(found.stderr, expected.stderr, rtol=1e-6)
    assert np.log(pairs.tie_) != 0


def test_without_ties_it_is_plackett_luce() -> None:
    votes = cc.synthetic.plackett_luce(6, 40, random_state=2).preferences
    plain, ties = cc.PlackettLuce(), cc.PlackettLuce(ties="davidson-luce")
    expected, found = plain.fit_predict(votes), ties.fit_predict(votes)
    np.testing.assert_allclose(found.score, expected.score, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.stderr, expected.stderr, rtol=1e-9)  # type: ignore[arg-type]
    assert len(ties.tie_) == 0


def draw(rng: np.random.Generator, score: Any, delta: dict[int, float]) -> dict[str, int]:
    """Return one ordered partition drawn from the model."""
    from itertools import combinations

    left, out, rank = list(range(len(score))), {}, 1
    while left:
        sets = [c for k in delta for c in combinations(left, k)]
        weights = np.array([oracle.worth(c, score, delta) for c in sets])
        chosen = sets[int(rng.choice(len(sets), p=weights / weights.sum()))]
        out |= {f"i{i}": rank for i in chosen}
        left = [i for i in left if i not in chosen]
        rank += 1
    return out


def test_a_known_truth_is_found_within_its_standard_errors() -> None:
    rng = np.random.default_rng(3)
    score, delta = np.array([1.0, 0.4, -0.2, -1.2]), {1: 1.0, 2: 0.4, 3: 0.1}
    votes = weighted([(draw(rng, score.tolist(), delta), 1.0) for _ in range(600)])
    for uncertainty in ("information", "auto"):
        model = cc.PlackettLuce(ties="davidson-luce", uncertainty=uncertainty)
        board = model.fit_predict(votes)
        own = np.argsort(board.items.tolist())
        assert board.stderr is not None
        assert (np.abs(board.score[own] - (score - score.mean())) < 3 * board.stderr[own]).all()
        gap = np.log(model.tie_) - np.log([0.4, 0.1])
        assert (np.abs(gap) < 3 * np.sqrt(np.diag(model.tie_covariance_))).all()
        assert 0.05 < np.sqrt(model.tie_covariance_[0, 0]) < 0.15


@pytest.mark.usefixtures("quiet")
def test_bootstrap_estimates_the_ties_again() -> None:
    rng = np.random.default_rng(4)
    votes = weighted([(draw(rng, [0.5, 0.0, -0.5], {1: 1.0, 2: 0.6}), 1.0) for _ in range(60)])
    errors = [
        cc.PlackettLuce(ties="davidson-luce", uncertainty=how, n_bootstrap=40).fit_predict(votes).stderr
        for how in ("sandwich", "bootstrap")
    ]
    assert errors[0] is not None
    np.testing.assert_allclose(errors[1], errors[0], rtol=0.3)  # type: ignore[arg-type]


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("prior", [0, 0.1])
def test_long_lists_by_conjugate_gradients_give_the_dense_answer(prior: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    items = [f"i{n}" for n in range(26)]
    lists: Ranked = []
    for n in range(12):
        order = np.argsort(-0.1 * np.arange(26) - rng.gumbel(size=26))
        ranks = np.arange(26) // (1 + n % 3) + 1
        lists.append(({items[i]: int(r) for i, r in zip(order, ranks, strict=True)}, 1.0))
    lists.append(({i: n + 1 for n, i in enumerate(reversed(items))}, 1.0))
    votes = weighted(lists)
    sparse, dense = (cc.PlackettLuce(ties="davidson-luce", prior=prior) for _ in range(2))
    found = sparse.fit_predict(votes)
    monkeypatch.setattr(_plackett_luce_ties, "_LONG_LIST", np.inf)
    expected = dense.fit_predict(votes)
    np.testing.assert_allclose(found.score, expected.score, rtol=0, atol=1e-9)
    np.testing.assert_allclose(sparse.tie_, dense.tie_, rtol=1e-9)
    np.testing.assert_allclose(sparse.tie_covariance_, dense.tie_covariance_, rtol=1e-7)
    np.testing.assert_allclose(found.stderr, expected.stderr, rtol=1e-9)  # type: ignore[arg-type]


# Refusals and what is kept.


def test_parameters_that_do_not_go_together() -> None:
    votes = weighted(THREE)
    for other in ({"adherence": True}, {"optimizer": "mm"}, {"optimizer": "gd"}):
        with pytest.raises(ParameterError, match=r"davidson-luce.*goes with optimizer='newton' and adherence=False"):
            cc.PlackettLuce(ties="davidson-luce", **other).fit(votes)


@pytest.mark.usefixtures("quiet")
def test_predict_needs_the_sizes_that_fit_saw() -> None:
    with pytest.raises(NotFittedError):
        cc.PlackettLuce(ties="davidson-luce").predict(weighted(THREE))
    model = cc.PlackettLuce(ties="davidson-luce").fit(weighted([THREE[0], THREE[1], THREE[4]]))
    with pytest.raises(DataError, match=r"ties 3 items, and the fit saw no tie of that size \(its sizes: \['2'\]\)"):
        model.predict(weighted(THREE))


def test_ties_without_a_finite_parameter() -> None:
    always: Ranked = [({"a": 1, "b": 1, "c": 2, "d": 2}, 1.0), ({"a": 1, "c": 1, "b": 2, "d": 2}, 1.0)]
    with pytest.raises(NoFiniteEstimateError, match="every choice from 2 or more items is a tie of 2 or more"):
        cc.PlackettLuce(ties="davidson-luce", prior=0).fit(weighted(always))
    model = cc.PlackettLuce(ties="davidson-luce")
    with pytest.warns(IdentifiabilityWarning, match="as if half a choice of a single item had been seen"):
        board = model.fit_predict(weighted(always))
    assert board.ranking()[0] == "a"
    assert board.ranking()[-1] == "d"
    assert model.tie_covariance_.tolist() == [[0.0]]
    # a never loses to b: with the tie parameter free, both grow for ever.
    grows: Ranked = [({"a": 1, "b": 2}, 3.0), ({"a": 1, "b": 1}, 1.0)]
    with pytest.raises(NoFiniteEstimateError, match="the tie parameters grow together without bound"):
        cc.PlackettLuce(ties="davidson-luce", prior=0).fit(weighted(grows))


@pytest.mark.usefixtures("quiet")
def test_saved_models_carry_the_tie_parameters(tmp_path: Path) -> None:
    votes = cc.concat([weighted(THREE, "q0"), weighted(MORE, "q1")])
    model = cc.PlackettLuce(ties="davidson-luce", anchor=None).fit(votes)
    model.save(tmp_path / "model")
    again = cc.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(votes).score, model.predict(votes).score)
    np.testing.assert_array_equal(again.predict(votes).stderr, model.predict(votes).stderr)  # type: ignore[arg-type]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"tie_": -model.tie_}, "out of range"),
        ({"tie_": model.tie_[:1]}, "not one for each size"),
        ({"tie_sizes_": model.tie_sizes_[::-1].copy()}, "do not ascend"),
        ({"tie_sizes_": model.tie_sizes_.astype(np.float64)}, "wrong type"),
        ({"tie_covariance_": -model.tie_covariance_}, "covariance of the tie parameters is none"),
    ]
    for change, message in wrong:
        other = cc.PlackettLuce(ties="davidson-luce").fit(votes)
        other.__dict__.update(change)
        other.save(tmp_path / "wrong")
        with pytest.raises(FormatError, match=message):
            cc.load(tmp_path / "wrong")
    other = cc.PlackettLuce(ties="davidson-luce").fit(votes)
    del other.__dict__["tie_covariance_"]
    other.save(tmp_path / "wrong")
    with pytest.raises(FormatError, match="a part of what PlackettLuce learns is missing"):
        cc.load(tmp_path / "wrong")
