"""Plackett-Luce with covariates of items, and with an anchor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.aggregators.test_davidson_luce import THREE, slow_objective, weighted

import concordant as cc
from concordant.errors import DataError, FormatError, IdentifiabilityWarning, NoFiniteEstimateError, ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::concordant.errors.UncertaintyWarning")

ITEMS = list("abcd")
X = np.array([[1.0, 0.2], [0.3, 1.0], [-0.5, 0.1], [0.0, -0.7]])


def features(x: Any, names: Any = None, instance: str = "q", items: Any = None) -> cc.Features:
    items = ITEMS if items is None else items
    return cc.Features([instance] * len(x), items, np.asarray(x, dtype=np.float64), names)


@pytest.mark.parametrize("ties", ["average", "partition", "davidson-luce"])
@pytest.mark.parametrize("uncertainty", ["information", "sandwich"])
def test_one_feature_for_each_item_gives_the_free_scores(ties: str, uncertainty: str) -> None:
    votes = weighted(THREE)
    free = cc.PlackettLuce(ties=ties, prior=0.5, uncertainty=uncertainty)
    linear = cc.PlackettLuce(ties=ties, prior=0.5, uncertainty=uncertainty)
    expected = free.fit_predict(votes)
    with pytest.warns(IdentifiabilityWarning, match="depend on each other"):
        found = linear.fit_predict(votes, features=features(np.eye(4)))
    np.testing.assert_allclose(found.score, expected.score, rtol=0, atol=1e-8)
    assert found.stderr is not None
    if uncertainty == "information":
        np.testing.assert_allclose(found.stderr, expected.stderr, rtol=1e-6)  # type: ignore[arg-type]
    if ties == "davidson-luce":
        np.testing.assert_allclose(linear.tie_, free.tie_, rtol=1e-7)
        if uncertainty == "information":
            np.testing.assert_allclose(linear.tie_covariance_, free.tie_covariance_, rtol=1e-5)


@pytest.mark.parametrize("prior", [0, 0.3])
def test_coefficients_maximise_the_likelihood_in_the_units_of_the_features(prior: float) -> None:
    votes = weighted(THREE)
    f, sizes = slow_objective([THREE], prior, below=False)
    assert sizes == [2, 3]
    method = cc.PlackettLuce(ties="davidson-luce", prior=prior, uncertainty="information")
    board = method.fit_predict(votes, features=features(X, ["size", "age"]))
    centred = X - X.mean(axis=0)
    best = minimize(
        lambda p: f(np.concatenate([centred @ p[:2], p[2:]])), np.zeros(4), method="BFGS", options={"gtol": 1e-9}
    )
    assert list(method.coefficients_) == ["size", "age"]
    np.testing.assert_allclose(list(method.coefficients_.values()), best.x[:2], rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.log(method.tie_), best.x[2:], rtol=0, atol=1e-5)
    order = np.argsort(board.items.tolist())
    np.testing.assert_allclose(board.score[order], centred @ best.x[:2], rtol=0, atol=1e-5)
    scaled = cc.PlackettLuce(ties="davidson-luce", prior=prior).fit_predict(
        votes, features=features(X * [1000, 0.01] + [5, -3])
    )
    np.testing.assert_allclose(scaled.score, board.score, rtol=0, atol=1e-8)


def test_coefficients_are_shared_by_instances_and_found_from_a_known_truth() -> None:
    rng = np.random.default_rng(0)
    parts, rows = [], []
    for q in range(8):
        x = rng.normal(size=(6, 2))
        scores = dict(zip("abcdef", (x @ [0.8, -0.5]).tolist(), strict=True))
        sample = cc.synthetic.plackett_luce(scores, 25, random_state=q).preferences.to_frame().drop_nulls()
        parts.append(cc.from_frame(sample.with_columns(instance=np.full(len(sample), f"q{q}"))))
        rows.append(x)
    votes = cc.concat(parts)
    names = [f"q{q}" for q in range(8) for _ in range(6)]
    described = cc.Features(names, list("abcdef") * 8, np.concatenate(rows), ["x", "y"])
    method = cc.PlackettLuce(prior=0)
    board = method.fit_predict(votes, features=described)
    assert list(method.coefficients_.values()) == pytest.approx([0.8, -0.5], abs=0.15)
    assert board.stderr is not None
    assert np.isfinite(board.stderr).all()
    assert board.stderr.max() < 0.3


def test_items_and_values_that_are_missing_are_named() -> None:
    votes = weighted(THREE)
    with pytest.raises(DataError, match=r"1 items have no features, among them \['d'\] of instance 'q'"):
        cc.PlackettLuce().fit(votes, features=features(X[:3], items=ITEMS[:3]))
    holed = X.copy()
    holed[1, 0] = np.nan
    with pytest.raises(DataError, match="PlackettLuce needs every value"):
        cc.PlackettLuce().fit(votes, features=features(holed))
    for other in ({"adherence": True}, {"optimizer": "mm"}, {"uncertainty": "bootstrap"}):
        with pytest.raises(ParameterError, match="PlackettLuce with features has no"):
            cc.PlackettLuce(**other).fit(votes, features=features(X))  # type: ignore[arg-type]


def test_coefficients_without_a_finite_estimate() -> None:
    split = weighted([({"a": 1, "b": 2, "c": 3, "d": 4}, 1.0), ({"b": 1, "a": 2, "c": 3, "d": 4}, 1.0)])
    x = np.array([[1.0], [1.0], [0.0], [-1.0]])
    with pytest.raises(NoFiniteEstimateError, match="weights of features"):
        cc.PlackettLuce(prior=0).fit(split, features=features(x))


@pytest.mark.parametrize("ties", ["average", "davidson-luce"])
def test_saved_models_predict_described_items(ties: str, tmp_path: Path) -> None:
    votes = weighted(THREE)
    method = cc.PlackettLuce(ties=ties, anchor="b")
    board = method.fit_predict(votes, features=features(X))
    method.save(tmp_path / "model")
    again = cc.load(tmp_path / "model")
    found = again.predict(weighted([({"c": 1, "b": 2, "a": 3}, 1.0), ({"b": 1, "c": 2}, 1.0)]))
    scores = dict(zip(board.items.tolist(), board.score.tolist(), strict=True))
    assert dict(zip(found.items.tolist(), found.score.tolist(), strict=True)) == pytest.approx(
        {i: scores[i] for i in "cba"}, abs=1e-12
    )
    assert scores["b"] == 0.0
    for change, message in (
        ({"feature_scores_": method.feature_scores_[:2]}, "not one for each item"),
        ({"coefficient_covariance_": np.zeros((1, 1))}, "not one row for each"),
        ({"coefficient_covariance_": -method.coefficient_covariance_}, "covariance of the coefficients is none"),
    ):
        wrong = cc.load(tmp_path / "model")
        wrong.__dict__.update(change)
        wrong.save(tmp_path / "wrong")
        with pytest.raises(FormatError, match=message):
            cc.load(tmp_path / "wrong")


# The anchor.


@pytest.mark.parametrize("params", [{}, {"adherence": True}, {"ties": "davidson-luce"}, {"optimizer": "gd"}], ids=str)
def test_anchor_moves_the_origin_and_no_difference(params: dict[str, Any]) -> None:
    votes = weighted(THREE)
    free, anchored = cc.PlackettLuce(**params), cc.PlackettLuce(anchor="c", **params)
    expected, found = free.fit_predict(votes), anchored.fit_predict(votes)
    at = found.items.tolist().index("c")
    assert found.score[at] == 0.0
    np.testing.assert_allclose(found.score, expected.score - expected.score[at], rtol=0, atol=1e-12)
    assert found.gauge == "item 'c' has the score 0"
    if expected.stderr is not None:
        assert found.stderr is not None
        assert found.stderr[at] == 0.0
        one, other = expected.difference("a", "b"), found.difference("a", "b")
        assert (other.value, other.stderr) == pytest.approx((one.value, one.stderr), rel=1e-9)
        assert found.difference("a", "c").stderr == pytest.approx(found.stderr[found.items.tolist().index("a")])


def test_anchor_must_be_in_every_instance() -> None:
    with pytest.raises(DataError, match="there is no item 'z' to anchor in instance 'q'"):
        cc.PlackettLuce(anchor="z").fit(weighted(THREE))
