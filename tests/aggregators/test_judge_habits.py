"""Habits of experts in Bradley-Terry: whom they favour, and how far a covariate sways each of them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import concordant as cc
from concordant.errors import ConcordantWarning, DataError, FormatError, KindError, ParameterError


def arena(n: int = 6000, **more: Any) -> cc.synthetic.ArenaSample:
    given = {"covariates": {"length": 0.5}, "side": 0.2, "n_experts": 30, "n_families": 3, "favouring": 0.2}
    return cc.synthetic.arena(6, n, **given | {"own_spread": 0.3, "random_state": 4} | more)


@pytest.fixture(scope="module")
def sample() -> cc.synthetic.ArenaSample:
    return arena()


@pytest.fixture(scope="module")
def fitted(sample: cc.synthetic.ArenaSample) -> cc.BradleyTerry:
    model = cc.BradleyTerry(covariates=["length"], families=sample.families, varying=["length"], side_effect=True)
    model.fit_predict(sample.comparisons)
    return model


def auc(score: Any, positive: Any) -> float:
    """Return the probability that a positive scores above a negative."""
    gaps = np.subtract.outer(score[positive], score[~positive])
    return float((gaps > 0).mean() + 0.5 * (gaps == 0).mean())


def design(given: cc.Comparisons, families: dict[str, str], names: list[str]) -> Any:
    member = np.array([[families[item] == name for name in names] for item in given.items], dtype=float)
    return np.column_stack([member[given.left] - member[given.right], given.covariates])


def test_all_estimates_are_the_mode_given_the_spreads() -> None:
    sample = arena(250, n_experts=3, ties=0.6)
    given, m, k = sample.comparisons, 6, 3
    model = cc.BradleyTerry(
        covariates=["length"], families=sample.families, varying=["length"], side_effect=True, prior=0.5
    )
    board = model.fit_predict(given)
    terms = model.habit_details_["term"]
    h, f = design(given, sample.families, terms[:-1]), len(terms)
    spread = np.array([model.habit_spread_["families"]] * (f - 1) + [model.habit_spread_["length"]])
    assert given.expert is not None

    def value(v: Any) -> float:
        s, (log_tie, side, beta), u = v[:m], v[m : m + 3], v[m + 3 :].reshape(k, f)
        z = s[given.left] - s[given.right] + side + beta * given.covariates[:, 0]
        z = z + (h * u[given.expert]).sum(axis=1)
        whole = np.log(np.exp(z / 2) + np.exp(-z / 2) + np.exp(log_tie))
        logs = given.n_left * z / 2 - given.n_right * z / 2 + given.n_ties * log_tie - whole
        return float(-logs.sum() + 0.25 * s @ s + 0.5 * ((u / spread) ** 2).sum())

    best = minimize(value, np.zeros(m + 3 + k * f), method="BFGS", options={"gtol": 1e-7})
    ours = [np.log(model.tie_), model.side_, model.covariate_effects_["length"]]
    np.testing.assert_allclose(board.score, best.x[:m] - best.x[:m].mean(), atol=2e-4)
    np.testing.assert_allclose(ours, best.x[m : m + 3], atol=2e-4)
    np.testing.assert_allclose(model.habit_details_["effect"], best.x[m + 3 :], atol=2e-4)
    # Errors of scores and coefficients include that of the habits: bread of the sandwich is the whole Hessian.
    steps = np.eye(len(best.x)) * 1e-3
    hessian = np.array(
        [
            [sum(a * b * value(best.x + a * one + b * two) for a in (1, -1) for b in (1, -1)) / 4e-6 for two in steps]
            for one in steps
        ]
    )
    covariance = np.linalg.inv(hessian)
    free = cc.BradleyTerry(**model.get_params() | {"uncertainty": "information"})
    found = free.fit_predict(given)
    errors = np.sqrt(np.diag(covariance))[m : m + 3]
    np.testing.assert_allclose(free.coefficient_table_["stderr"].to_numpy(), errors, rtol=1e-3)
    centre = np.eye(m) - 1 / m
    stderr = np.sqrt(np.diag(centre @ covariance[:m, :m] @ centre))
    assert found.stderr is not None
    np.testing.assert_allclose(found.stderr, stderr, rtol=1e-3)


def test_favouring_experts_are_found_and_sized() -> None:
    sample = cc.synthetic.arena(
        20, 12_000, covariates=[], n_experts=60, n_families=4, favouring=0.2, favour=1.0, random_state=2
    )
    model = cc.BradleyTerry(families=sample.families).fit(sample.comparisons)
    frame = model.habits_
    truth = np.array([sample.favours.get(e) == t for e, t in frame.select("expert", "term").iter_rows()])
    estimate = frame["estimate"].to_numpy()
    assert auc(frame["z"].to_numpy(), truth) > 0.95
    assert 0.25 < estimate[truth].mean() < 1.0
    # The expert's own votes, without shrinkage, say how large the habit is.
    alone, error = frame["alone"].to_numpy(), frame["alone_stderr"].to_numpy()
    assert alone[truth].mean() == pytest.approx(1.0, abs=0.2)
    assert (np.abs(alone[truth] - 1.0) < 2 * error[truth]).mean() > 0.8
    assert abs(estimate[~truth].mean()) < 0.1
    inside = (frame["lower"].to_numpy() <= truth) & (truth <= frame["upper"].to_numpy())
    assert inside.mean() > 0.9
    assert (
        (frame["p_value"].to_numpy()[truth] < 0.05).mean()
        > 0.3
        > 5 * (frame["p_value"].to_numpy()[~truth] < 0.05).mean()
    )


def test_judges_who_prefer_their_own_family_are_found() -> None:
    sample = cc.synthetic.arena(
        20, 12_000, covariates=[], n_experts=60, n_families=4, favouring=0.25, favour=1.0, random_state=3
    )
    names = sample.comparisons.experts.tolist()
    owners = {e: sample.favours.get(e, f"f{k % 4 + 1}") for k, e in enumerate(names)}
    model = cc.BradleyTerry(covariates=["self-preference"], varying=["self-preference"])
    model.fit(sample.comparisons.with_self_preference(sample.families, owners))
    truth = np.array([e in sample.favours for e in model.habits_["expert"]])
    assert auc(model.habits_["z"].to_numpy(), truth) > 0.95
    # The coefficient is the mean over judges, and habits are what each adds to it.
    row = model.coefficient_table_.row(-1, named=True)
    assert row["lower"] < truth.mean() < row["upper"]
    total = row["estimate"] + model.habits_["estimate"].to_numpy()
    assert 0.5 < total[truth].mean() < 1.1
    assert abs(total[~truth].mean()) < 0.15
    habits = model.expert_habits()
    assert habits["self-preference_habit_z"] == model.habits_["z"].to_list()
    assert cc.BradleyTerry().fit(sample.comparisons).expert_habits() == {}


def test_spreads_and_intervals_are_those_of_the_population() -> None:
    sample = arena(20_000, n_experts=80, favouring=0.0, own_spread=0.4)
    model = cc.BradleyTerry(covariates="all", varying=["length"], families=sample.families, side_effect=True)
    model.fit(sample.comparisons)
    assert model.habit_spread_["length"] == pytest.approx(0.4, rel=0.3)
    assert model.habit_spread_["families"] < 0.12
    own = model.habits_.filter(model.habits_["kind"] == "covariate")
    truth = np.array([sample.own_effects[e]["length"] for e in own["expert"]])
    inside = (own["lower"].to_numpy() <= truth) & (truth <= own["upper"].to_numpy())
    assert 0.88 < inside.mean() <= 1.0
    # The coefficient is that of the average expert.
    row = model.coefficient_table_.row(2, named=True)
    assert row["lower"] < 0.5 < row["upper"]


def test_units_of_a_varying_covariate(fitted: cc.BradleyTerry, sample: cc.synthetic.ArenaSample) -> None:
    given = sample.comparisons
    names = given.items.tolist()
    assert given.expert is not None
    scaled = cc.Comparisons(
        "q",
        given.experts.take(given.expert).tolist(),
        [names[i] for i in given.left],
        [names[i] for i in given.right],
        given.n_left,
        given.n_right,
        given.n_ties,
        covariates={"length": 1000 * given.covariates[:, 0]},
    )
    model = cc.BradleyTerry(**fitted.get_params()).fit(scaled)
    assert model.covariate_effects_["length"] == pytest.approx(fitted.covariate_effects_["length"] / 1000, rel=1e-5)
    assert model.habit_spread_["length"] == pytest.approx(fitted.habit_spread_["length"] / 1000, rel=1e-4)
    ours = {row["expert"]: row for row in model.habits_.iter_rows(named=True) if row["kind"] == "covariate"}
    for row in fitted.habits_.iter_rows(named=True):
        if row["kind"] == "covariate":
            assert 1000 * ours[row["expert"]]["estimate"] == pytest.approx(row["estimate"], abs=1e-5)
            assert 1000 * ours[row["expert"]]["stderr"] == pytest.approx(row["stderr"], rel=1e-4)


def test_predictions_know_the_habits_of_known_experts(
    fitted: cc.BradleyTerry, sample: cc.synthetic.ArenaSample
) -> None:
    given, board = sample.comparisons, fitted.consensus_
    d = fitted.habit_details_
    pairs = [(expert, term) for expert in d["expert"] for term in d["term"]]
    frame = dict(zip(pairs, d["effect"], strict=True))
    # What is reported is a family against the mean of the others.
    row = fitted.habits_.filter((fitted.habits_["expert"] == "e1") & (fitted.habits_["term"] == "f2"))
    assert row["estimate"][0] == pytest.approx(frame["e1", "f2"] - (frame["e1", "f1"] + frame["e1", "f3"]) / 2)
    some = given.select_rows(range(40))
    law = fitted.predict_votes(some)
    place = {item: k for k, item in enumerate(board.items.tolist())}
    assert some.expert is not None
    for r in range(40):
        left, right = some.items[some.left[r]], some.items[some.right[r]]
        expert, x = some.experts[some.expert[r]], some.covariates[r, 0]
        z = board.score[place[left]] - board.score[place[right]] + fitted.side_
        z += x * (fitted.covariate_effects_["length"] + frame[expert, "length"])
        z += frame[expert, sample.families[left]] - frame[expert, sample.families[right]]
        assert np.log(law[r, 0] / law[r, 2]) == pytest.approx(z, abs=1e-9)
    # What habits explain is held-out votes' gain.
    strange = cc.Comparisons("q", ["new"], ["i1"], ["i2"], covariates={"length": [0.3]})
    plain = fitted.outcome_probabilities("i1", "i2", side="left", covariates={"length": 0.3})
    np.testing.assert_allclose(fitted.predict_votes(strange)[0], plain)


def test_habits_improve_held_out_votes() -> None:
    sample = arena(12_000, favour=1.5, favouring=0.5)
    params: dict[str, Any] = {"covariates": ["length"], "side_effect": True}
    habits = {"families": sample.families, "varying": ["length"]}
    found = [
        cc.cross_validate(cc.BradleyTerry(**params | more), sample.comparisons, folds=2).mean["log-loss"]
        for more in ({}, habits)
    ]
    assert found[1] < found[0] - 0.01


def test_a_saved_model_keeps_the_habits(
    fitted: cc.BradleyTerry, sample: cc.synthetic.ArenaSample, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "model")
    again = cc.load(tmp_path / "model")
    assert again.habits_.equals(fitted.habits_)
    np.testing.assert_array_equal(again.predict(sample.comparisons).score, fitted.predict(sample.comparisons).score)
    np.testing.assert_allclose(fitted.predict(sample.comparisons).score, fitted.consensus_.score, atol=1e-6)
    broken = cc.load(tmp_path / "model")
    broken.habit_details_["effect"] = broken.habit_details_["effect"][:-1]
    broken.save(tmp_path / "broken")
    with pytest.raises(FormatError, match="not one for each expert and term"):
        cc.load(tmp_path / "broken")


def test_a_leaderboard_keeps_experts_apart_for_habits(sample: cc.synthetic.ArenaSample) -> None:
    given = sample.comparisons.select_rows(range(1500))
    model = cc.BradleyTerry(covariates=["length"], families=sample.families)
    board = cc.Leaderboard(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        board.update(given.select_rows(range(1000)))
        scores = board.update(given.select_rows(range(1000, 1500)))
    np.testing.assert_allclose(scores.score, model.fit_predict(given).score, atol=1e-5)


def test_what_does_not_go_with_habits(sample: cc.synthetic.ArenaSample) -> None:
    given = sample.comparisons
    nameless = cc.Comparisons("q", None, ["i1", "i2"], ["i2", "i1"])
    with pytest.raises(DataError, match="comparisons that name no experts"):
        cc.BradleyTerry(families=sample.families).fit(nameless)
    with pytest.raises(KindError, match="these are lists"):
        cc.BradleyTerry(families=sample.families).fit(cc.from_lists({"x": ["a", "b"]}))
    for name, value in (("reliability", True), ("uncertainty", "bootstrap")):
        with pytest.raises(ParameterError, match=f"goes without {name}"):
            cc.BradleyTerry(families=sample.families, covariates=[], **{name: value}).fit(given)
    with pytest.raises(DataError, match="varying= names \\['length'\\]"):
        cc.BradleyTerry(covariates=[], varying=["length"]).fit(given)
    with pytest.raises(DataError, match="families= names none of the compared items"):
        cc.BradleyTerry(covariates=[], families={"gpt": "openai"}).fit(given)
    with pytest.raises(DataError, match="puts every item into"):
        cc.BradleyTerry(covariates=[], families=dict.fromkeys(given.items.tolist(), "one")).fit(given)
    with pytest.raises(ParameterError, match="a mapping from items to families"):
        cc.BradleyTerry(families={"gpt": 3}).fit(given)
    with pytest.raises(cc.errors.NotFittedError, match="no habits"):
        _ = cc.BradleyTerry().fit(given.without_columns()).habits_
    assert not cc.BradleyTerry(families=sample.families).counts_suffice(has_experts=True)
