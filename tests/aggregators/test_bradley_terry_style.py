"""Bradley-Terry with covariates of the vote: the maximum written out, its errors, and what has no estimate."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import linprog, minimize

import concordant as cc
from concordant.errors import (
    ConcordantWarning,
    DataError,
    DataWarning,
    IdentifiabilityWarning,
    KindError,
    NoFiniteEstimateError,
    ParameterError,
)

M = 5
NAMES = ["length", "bold"]


def votes(
    n: int = 150,
    *,
    seed: int = 3,
    experts: int | None = None,
    ties: float = 0.6,
    grid: bool = False,
    instance: Any = "arena",
    **more: Any,
) -> cc.Comparisons:
    """Return votes with two covariates, the second in units that are a thousand times larger."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(size=M)
    left = rng.integers(0, M, n)
    right = (left + rng.integers(1, M, n)) % M
    x = rng.normal(size=(n, 2)) * [1.0, 1000.0]
    if grid:
        x = np.round(np.clip(x / [1.0, 1000.0], -1, 1)) * [1.0, 1000.0]
    z = strength[left] - strength[right] + 0.4 + x @ [0.5, -0.0007]
    law = np.stack([np.exp(z / 2), np.exp(-z / 2), np.full(n, ties)], axis=1)
    law /= law.sum(axis=1, keepdims=True)
    drawn = (rng.random((n, 1)) < law.cumsum(axis=1)).argmax(axis=1)
    who = None if experts is None else [f"e{e}" for e in rng.integers(0, experts, n)]
    counts = [(drawn == k).astype(float) for k in range(3)]
    names = [f"m{i}" for i in range(M)]
    return cc.Comparisons(
        instance,
        who,
        [names[i] for i in left],
        [names[i] for i in right],
        *counts,
        items=[(instance, name) for name in names],
        covariates=dict(zip(NAMES, x.T, strict=True)),
        **more,
    )


def log_likelihood(
    given: cc.Comparisons, s: Any, log_tie: float, side: float, beta: Any, ties: str, rows: Any = slice(None)
) -> float:
    """Return the log-likelihood as the textbook writes it."""
    z = s[given.left[rows]] - s[given.right[rows]] + side + given.covariates[rows] @ beta
    a, b, t = given.n_left[rows], given.n_right[rows], given.n_ties[rows]
    if ties == "none":
        return float((-a * np.log1p(np.exp(-z)) - b * np.log1p(np.exp(z))).sum())
    if ties == "davidson":
        whole = np.log(np.exp(z / 2) + np.exp(-z / 2) + np.exp(log_tie))
        return float((a * z / 2 - b * z / 2 + t * log_tie - (a + b + t) * whole).sum())
    xi = np.exp(log_tie)
    win, loss = 1 / (1 + xi * np.exp(-z)), 1 / (1 + xi * np.exp(z))
    return float((a * np.log(win) + b * np.log(loss) + np.where(t > 0, t * np.log(1 - win - loss), 0)).sum())


def curvature(value: Any, x: Any, h: float = 1e-3) -> Any:
    """Return the Hessian by differences."""
    steps, n = np.eye(len(x)) * h, len(x)
    out = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            corners = [value(x + a * steps[i] + b * steps[j]) * a * b for a in (1, -1) for b in (1, -1)]
            out[i, j] = sum(corners) / (4 * h * h)
    return out


class Oracle:
    """The posterior mode by a general optimiser; parameters are scores, log tie, side, coefficients × UNIT."""

    unit = np.array([1.0, 1000.0])

    def __init__(self, given: cc.Comparisons, ties: str, prior: float, side: bool) -> None:
        self.given, self.ties, self.prior, self.side = given, ties, prior, side
        free = np.ones(M + 4, dtype=bool)
        free[M] = ties != "none"
        free[M + 1] = side
        self.free = free
        start = np.full(free.sum(), 0.1)
        best = minimize(lambda v: -self.value(v), start, method="BFGS", options={"gtol": 1e-8})
        self.x = best.x

    def whole(self, v: Any) -> Any:
        out = np.zeros(M + 4)
        out[self.free] = v
        return out

    def value(self, v: Any, rows: Any = slice(None), prior: float | None = None) -> float:
        p = self.whole(v)
        weight = self.prior if prior is None else prior
        penalty = 0.5 * weight * float(p[:M] @ p[:M])
        if self.prior == 0 and prior is None:
            penalty = 0.5 * float(p[:M].mean() ** 2) * 10  # the mean is free
        return log_likelihood(self.given, p[:M], p[M], p[M + 1], p[M + 2 :] / self.unit, self.ties, rows) - penalty

    def gradient(self, rows: Any, h: float = 1e-5) -> Any:
        steps = np.eye(len(self.x)) * h
        return np.array([self.value(self.x + e, rows, 0.0) - self.value(self.x - e, rows, 0.0) for e in steps]) / (
            2 * h
        )

    def information(self) -> Any:
        return curvature(lambda v: -self.value(v), self.x)


@pytest.mark.parametrize("side", [False, True])
@pytest.mark.parametrize("prior", [0.0, 0.5])
@pytest.mark.parametrize("ties", ["none", "davidson", "rao-kupper"])
def test_estimates_and_errors_are_those_of_the_written_likelihood(ties: str, prior: float, side: bool) -> None:
    given = votes(ties=0.0 if ties == "none" else 0.6)
    model = cc.BradleyTerry(ties=ties, prior=prior, side_effect=side, covariates=NAMES)
    board = model.fit_predict(given)
    oracle = Oracle(given, ties, prior, side)
    want = oracle.whole(oracle.x)
    np.testing.assert_allclose(board.score, want[:M] - want[:M].mean(), atol=2e-4)
    beta = np.array([model.covariate_effects_[name] for name in NAMES]) * oracle.unit
    np.testing.assert_allclose(beta, want[M + 2 :], atol=2e-4)
    assert model.side_ == pytest.approx(want[M + 1], abs=2e-4)
    if ties != "none":
        assert np.log(model.tie_) == pytest.approx(want[M], abs=2e-4)
    assert model.fit_info_.gradient_norm < 1e-9
    covariance = np.linalg.inv(oracle.information())
    errors = np.sqrt(np.diag(covariance))[M:] / [*[1.0] * (ties != "none"), *[1.0] * side, 1.0, 1000.0]
    np.testing.assert_allclose(model.coefficient_table_["stderr"].to_numpy(), errors, rtol=1e-4)
    centre = np.eye(M) - 1 / M
    stderr = np.sqrt(np.diag(centre @ covariance[:M, :M] @ centre))
    assert board.stderr is not None
    np.testing.assert_allclose(board.stderr, stderr, rtol=1e-4)


def test_clustered_errors_are_the_sandwich() -> None:
    given = votes(300, experts=40)
    model = cc.BradleyTerry(covariates=NAMES, side_effect=True).fit(given)
    oracle = Oracle(given, "davidson", 0.1, side=True)
    assert given.expert is not None
    each = np.array([oracle.gradient(given.expert == e) for e in range(40)])
    bread = np.linalg.inv(oracle.information())
    # The experts' gradients along the profile: scores are profiled out, then clusters are centred.
    schur = np.linalg.inv(bread[M:, M:])
    h = oracle.information()
    along = each[:, M:] - each[:, :M] @ np.linalg.solve(h[:M, :M], h[:M, M:])
    along -= along.mean(axis=0)
    meat = along.T @ along * 40 / 39
    want = np.sqrt(np.diag(np.linalg.inv(schur) @ meat @ np.linalg.inv(schur))) / [1, 1, 1, 1000]
    np.testing.assert_allclose(model.coefficient_table_["stderr"].to_numpy(), want, rtol=1e-3)


def test_votes_with_equal_covariates_collapse() -> None:
    from concordant.aggregators._vote_outcomes import VoteOutcomes

    given = votes(600, experts=9, grid=True)
    for sided in (True, False):
        rows = VoteOutcomes(given, True, sided, given.covariates).statistics
        kept = given.collapse(keep=["covariates"] + ["sides"] * sided)
        assert len(rows.left) == kept.n_rows < 300
        assert rows.n_ties.sum() == given.n_ties.sum()
    whole = cc.BradleyTerry(covariates=NAMES, side_effect=True, uncertainty="information")
    again = cc.BradleyTerry(covariates=NAMES, side_effect=True, uncertainty="information")
    one = whole.fit_predict(given)
    two = again.fit_predict(given.collapse(keep=["covariates", "sides"]))
    np.testing.assert_allclose(one.score, two.score, atol=1e-12)
    np.testing.assert_allclose(one.stderr, two.stderr, rtol=1e-9)
    assert whole.coefficient_table_["stderr"].to_list() == pytest.approx(again.coefficient_table_["stderr"].to_list())


@pytest.mark.parametrize("uncertainty", ["information", "sandwich", "bootstrap"])
@pytest.mark.parametrize("side", [False, True])
def test_votes_that_are_not_merged_give_the_same(side: bool, uncertainty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from concordant.kernels import bradley_terry_votes

    given = votes(400, experts=9, grid=True)
    model = cc.BradleyTerry(covariates=NAMES, side_effect=side, uncertainty=uncertainty, n_bootstrap=5)
    want, effects = model.fit_predict(given), model.covariate_effects_
    monkeypatch.setattr(bradley_terry_votes, "_is_continuous", lambda _: True)
    got = model.fit_predict(given)
    np.testing.assert_allclose(got.score, want.score, atol=1e-10)
    np.testing.assert_allclose(got.stderr, want.stderr, rtol=1e-8)
    assert model.covariate_effects_ == pytest.approx(effects, rel=1e-9)


@pytest.mark.parametrize("prior", [0.0, 0.1])
def test_many_votes_start_from_some_and_are_added_up_in_parts(prior: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from concordant.aggregators import _bradley_terry_fit, _bradley_terry_style

    given = votes(900, experts=20)
    model = cc.BradleyTerry(covariates=NAMES, side_effect=True, prior=prior)
    want, table = model.fit_predict(given), model.coefficient_table_
    steps = model.fit_info_.n_iter
    for module, name, value in (
        (_bradley_terry_fit, "_MANY_ROWS", 500),
        (_bradley_terry_fit, "_SAMPLED", 4),
        (_bradley_terry_fit, "_PART_ROWS", 100),
        (_bradley_terry_style, "_PART", 7),
    ):
        monkeypatch.setattr(module, name, value)
    got = model.fit_predict(given)
    assert model.fit_info_.n_iter < steps
    np.testing.assert_allclose(got.score, want.score, atol=1e-9)
    np.testing.assert_allclose(got.stderr, want.stderr, rtol=1e-7)
    for name in ("estimate", "stderr"):
        assert model.coefficient_table_[name].to_list() == pytest.approx(table[name].to_list(), rel=1e-7)
    # The number of threads does not change a bit.
    with cc.threads(1):
        np.testing.assert_array_equal(model.fit_predict(given).score, got.score)
    # What some votes tell apart is told apart; what they do not is looked at in all.
    seldom = np.where(np.arange(given.n_rows) % 4 == 0, 0.0, given.covariates[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cc.BradleyTerry(covariates="all", prior=prior, uncertainty="none").fit(with_covariates(given, x=seldom))
    doubled = with_covariates(given, x=given.covariates[:, 0], y=2 * given.covariates[:, 0])
    with pytest.raises(DataError, match="depend on each other"):
        cc.BradleyTerry(covariates="all", prior=prior).fit(doubled)
    # A start that is far away is none: these few votes are separated, all of them are not.
    monkeypatch.setattr(_bradley_terry_fit, "_SAMPLED", 150)
    np.testing.assert_allclose(model.fit_predict(given).score, want.score, atol=1e-9)
    # A column that never changes its sign is seen beyond the first rows, and so is one that tells the winner.
    x = np.abs(given.covariates[:, 0]) + 0.1
    x[-1] *= -1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cc.BradleyTerry(covariates="all", uncertainty="none").fit(with_covariates(given, x=x))
    decided = votes(300, ties=0.0)
    sign = decided.n_left - decided.n_right
    sign[-1] *= -1
    cc.BradleyTerry(covariates="all", uncertainty="none").fit(with_covariates(decided, rating=sign))


def test_the_pair_of_a_row_is_found_by_table_and_by_search() -> None:
    from concordant.kernels.bradley_terry_votes import _pair_of_rows
    from concordant.kernels.pair_counts import from_rows

    rng = np.random.default_rng(2)
    left = rng.integers(0, 30, 40).astype(np.int32)
    right = ((left + rng.integers(1, 30, 40)) % 30).astype(np.int32)
    counts = np.ones((3, 40))
    pairs = from_rows(left, right, *counts, np.array([0, 40]), np.array([0, 30]))
    searched = _pair_of_rows(left, right, pairs)
    many = _pair_of_rows(np.tile(left, 10), np.tile(right, 10), pairs)
    np.testing.assert_array_equal(np.tile(searched, 10), many)
    np.testing.assert_array_equal(pairs.left[searched], np.minimum(left, right))
    np.testing.assert_array_equal(pairs.right[searched], np.maximum(left, right))
    for times in (1, 1000):
        strange = np.array([0], np.int32).repeat(times), np.array([0], np.int32).repeat(times)
        assert (_pair_of_rows(*strange, pairs) == -1).all()


def test_units_and_order_of_sides_do_not_matter() -> None:
    given = votes()
    plain = cc.BradleyTerry(covariates=NAMES).fit(given)
    turned = cc.Comparisons(
        "arena",
        None,
        given.items.take(given.right).tolist(),
        given.items.take(given.left).tolist(),
        given.n_right,
        given.n_left,
        given.n_ties,
        covariates={"length": -1e6 * given.covariates[:, 0], "bold": -given.covariates[:, 1]},
    )
    other = cc.BradleyTerry(covariates="length, bold").fit(turned)
    assert other.covariate_effects_["length"] == pytest.approx(plain.covariate_effects_["length"] / 1e6, rel=1e-7)
    assert other.covariate_effects_["bold"] == pytest.approx(plain.covariate_effects_["bold"], rel=1e-7)
    assert other.coefficient_table_["z"].to_list() == pytest.approx(plain.coefficient_table_["z"].to_list(), rel=1e-6)


def test_several_instances_share_the_coefficients() -> None:
    one, other = votes(seed=3), votes(seed=4, instance="other")
    both = cc.concat([one, other])
    model = cc.BradleyTerry(covariates=NAMES)
    board = model.fit_predict(both)
    beta = [model.covariate_effects_[name] for name in NAMES]
    total = 0.0
    for given in (one, other):
        s = board[given.instances[0]].score
        total += log_likelihood(given, s, np.log(model.tie_), 0.0, beta, "davidson") - 0.05 * float(s @ s)
    assert total == pytest.approx(model.fit_info_.objective, rel=1e-9)
    # With the coefficients known, the scores of an instance are found alone.
    np.testing.assert_allclose(model.predict(other).score, board["other"].score, atol=1e-7)
    assert cc.BradleyTerry(covariates=NAMES).fit(one).covariate_effects_ != model.covariate_effects_


def test_bootstrap_agrees_with_the_sandwich_and_the_information() -> None:
    for experts, kind in ((None, "information"), (60, "sandwich")):
        given = votes(1200, experts=experts)
        how: dict[str, Any] = {"covariates": NAMES, "side_effect": True}
        want = cc.BradleyTerry(**how, uncertainty=kind).fit_predict(given)
        got = cc.BradleyTerry(**how, uncertainty="bootstrap", n_bootstrap=150).fit_predict(given)
        np.testing.assert_allclose(got.stderr, want.stderr, rtol=0.25)
        np.testing.assert_array_equal(got.score, want.score)


def test_scores_are_those_at_equal_style() -> None:
    sample = cc.synthetic.arena(20, 20_000, covariates={"length": 0.8}, side=0.3, random_state=2)
    truth = np.array([sample.scores[i] for i in sample.comparisons.items])
    model = cc.BradleyTerry(covariates=["length"], side_effect=True)
    board = model.fit_predict(sample.comparisons)
    plain = cc.BradleyTerry(side_effect=True, covariates=[]).fit_predict(sample.comparisons)
    assert np.corrcoef(board.score, truth)[0, 1] > 0.99 > np.corrcoef(plain.score, truth)[0, 1] + 0.03
    table = model.coefficient_table_
    for row, true in zip(table.iter_rows(named=True), [np.log(0.5), 0.3, 0.8], strict=True):
        assert abs(row["estimate"] - true) < 4 * row["stderr"]
    assert table["kind"].to_list() == ["tie", "side", "covariate"]
    assert table["p_value"][2] < 1e-9
    summary = model.summary().to_frame()
    assert summary.filter(summary["kind"] == "covariate")["stderr"].to_list() == [table["stderr"][2]]
    assert "at equal covariates" in repr(model.summary())


# What the model predicts, and models with and without covariates.


def test_predictions_know_covariates() -> None:
    given = votes(400)
    model = cc.BradleyTerry(covariates=NAMES, side_effect=True)
    board = model.fit_predict(given)
    beta = np.array([model.covariate_effects_[name] for name in NAMES])
    z = board.score[given.left] - board.score[given.right] + model.side_ + given.covariates @ beta
    law = np.stack([np.exp(z / 2), np.full(len(z), model.tie_), np.exp(-z / 2)], axis=1)
    law /= law.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_votes(given), law, atol=1e-12)
    equal = model.outcome_probabilities("m0", "m1", covariates={"length": 0.5, "bold": 100})
    gap = board.score[board.items.tolist().index("m0")] - board.score[board.items.tolist().index("m1")]
    logit = gap + 0.5 * beta[0] + 100 * beta[1]
    assert np.log(equal.win / equal.loss) == pytest.approx(logit)
    assert model.outcome_probabilities("m0", "m1") == model.outcome_probabilities("m0", "m1", covariates={})
    with pytest.raises(DataError, match=r"no covariates \['size'\]"):
        model.outcome_probabilities("m0", "m1", covariates={"size": 1})
    with pytest.raises(ParameterError, match="no effects of covariates"):
        cc.Elo().fit(given).outcome_probabilities("m0", "m1", covariates={"length": 1}, consensus=board)
    plain = cc.BradleyTerry(covariates=[])
    plain.fit_predict(given)
    with pytest.raises(DataError, match="It has none"):
        plain.outcome_probabilities("m0", "m1", covariates={"length": 1})
    residuals = model.residuals(given)
    # At the maximum, points are as many as expected for the side, up to the prior.
    assert abs(residuals["wins"].sum() - residuals["expected_wins"].sum()) < 25
    fit = model.goodness_of_fit(given)
    assert fit is not None
    loss = cc.evaluate_votes(model, given).mean["log-loss"]
    want = -np.log(np.choose(np.stack([given.n_left, given.n_ties, given.n_right]).argmax(axis=0), law.T)).mean()
    assert loss == pytest.approx(want)


def test_cross_validation_prefers_the_covariates() -> None:
    given = votes(1500)
    found = [cc.cross_validate(cc.BradleyTerry(covariates=c), given, folds=3).mean["log-loss"] for c in ([], NAMES)]
    assert found[1] < found[0] - 0.02


def test_explanations_add_up_to_the_scores() -> None:
    given = votes(300, experts=6)
    model = cc.BradleyTerry(covariates=NAMES, side_effect=True)
    board = model.fit_predict(given)
    names, parts, base = model._working_responses(given, "expert").contributions("expert")  # type: ignore[union-attr]
    np.testing.assert_allclose(parts.sum(axis=1) + base, board.score, atol=1e-9)
    # The prior holds nothing but the mean: no part of the score comes from elsewhere than the votes.
    np.testing.assert_allclose(base, 0.0, atol=1e-8)
    assert len(names) == 6


def test_models_with_and_without_covariates_are_nested() -> None:
    given = votes(400)
    fits = [
        cc.BradleyTerry(prior=0, covariates=c, side_effect=s)
        for c, s in (([], False), (["length"], False), (NAMES, False), (["bold"], True))
    ]
    for model in fits:
        model.fit_predict(given)
    found = cc.compare_models(*fits[:3], names=["plain", "length", "both"])
    first = found.tests[0]
    assert (first.smaller, first.larger, first.df) == ("plain", "length", 1)
    ratio = 2 * (fits[1].fit_info_.log_likelihood - fits[0].fit_info_.log_likelihood)  # type: ignore[operator]
    assert first.statistic == pytest.approx(ratio)
    z = fits[1].coefficient_table_.filter(fits[1].coefficient_table_["term"] == "length")["z"][0]
    assert first.wald == pytest.approx(z**2)
    across = cc.compare_models(fits[1], fits[3], names=["length", "other"]).tests[0]
    assert across.statistic is None
    assert "has covariates ['length']" in across.why_not


def test_a_saved_model_predicts_the_same(tmp_path: Path) -> None:
    given = votes()
    model = cc.BradleyTerry(covariates=NAMES, side_effect=True)
    board = model.fit_predict(given)
    model.save(tmp_path / "model")
    again = cc.load(tmp_path / "model")
    assert again.covariate_effects_ == model.covariate_effects_
    np.testing.assert_array_equal(again.predict(given).score, model.predict(given).score)
    np.testing.assert_allclose(again.predict(given).score, board.score, atol=1e-7)
    assert again.coefficient_table_.equals(model.coefficient_table_)
    model.covariate_units_ = model.covariate_units_[:1]
    model.save(tmp_path / "bad")
    with pytest.raises(cc.errors.FormatError, match="units of the covariates"):
        cc.load(tmp_path / "bad")


def test_features_of_items_go_with_covariates_of_votes() -> None:
    rng = np.random.default_rng(1)
    given = votes(500)
    X = rng.normal(size=(M, 1))
    features = cc.Features(["arena"] * M, given.items.tolist(), X, ["price"])
    model = cc.BradleyTerry(prior=0, covariates=NAMES, side_effect=True)
    model.fit_predict(given, features=features)

    def value(v: Any) -> float:
        return -log_likelihood(given, X[:, 0] * v[0], v[1], v[2], np.array([v[3], v[4] / 1000]), "davidson")

    best = minimize(value, np.zeros(5), method="BFGS", options={"gtol": 1e-8})
    got = [model.coefficients_["price"], np.log(model.tie_), model.side_, model.covariate_effects_["length"]]
    np.testing.assert_allclose([*got, 1000 * model.covariate_effects_["bold"]], best.x, atol=1e-4)
    errors = np.sqrt(np.diag(np.linalg.inv(curvature(value, best.x)))) / [1, 1, 1, 1, 1000]
    np.testing.assert_allclose(model.coefficient_table_["stderr"].to_numpy(), errors, rtol=1e-3)


def test_a_leaderboard_is_updated_with_covariates(tmp_path: Path) -> None:
    given = votes(400, experts=8, grid=True)
    model = cc.BradleyTerry(covariates=NAMES, side_effect=True)
    arena = cc.Leaderboard(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        arena.update(given.select_rows(range(250)))
    scores = arena.update(given.select_rows(range(250, 400)))
    want = model.fit_predict(given)
    np.testing.assert_allclose(scores.score, want.score, atol=1e-9)
    effects = arena.fitted.covariate_effects_
    assert effects == pytest.approx(model.covariate_effects_, rel=1e-8)
    arena.save(tmp_path / "board")
    np.testing.assert_allclose(cc.Leaderboard.load(tmp_path / "board").board().stderr, want.stderr, rtol=1e-6)


def test_half_life_weighs_votes_with_covariates() -> None:
    time = np.arange(150.0)
    given = votes(time=time)
    recent = cc.BradleyTerry(covariates=NAMES, half_life=40).fit_predict(given)
    by_hand = cc.BradleyTerry(covariates=NAMES).fit_predict(given.discount(40))
    np.testing.assert_allclose(recent.score, by_hand.score, atol=1e-10)
    # Weights far below the others vanish, and harm nothing.
    cc.BradleyTerry(covariates=NAMES, half_life=1).fit_predict(given)


# What is said of columns that are not used, or cannot be.


def test_unused_covariates_are_named() -> None:
    given = votes()
    with pytest.warns(DataWarning, match=r"carry covariates \['length', 'bold'\].*covariates='all'"):
        cc.BradleyTerry().fit(given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        silent = cc.BradleyTerry(covariates=[]).fit_predict(given)
        every = cc.BradleyTerry(covariates="all").fit(given)
        plain = cc.BradleyTerry().fit_predict(given.without_columns())
    np.testing.assert_array_equal(silent.score, plain.score)
    assert list(every.covariate_effects_) == NAMES


def test_what_has_no_side_is_no_covariate() -> None:
    given = votes(category=["en", "de", "fr"] * 50, time=np.arange(150.0))
    for name in ("category", "de", "time"):
        with pytest.raises(DataError, match="has no side: it is the same for both items"):
            cc.BradleyTerry(covariates=[name]).fit(given)
    with pytest.raises(DataError, match=r"no covariates \['size'\]; they have \['length', 'bold'\]"):
        cc.BradleyTerry(covariates=["size"]).fit(given)
    with pytest.raises(DataError, match="they carry none"):
        cc.BradleyTerry(covariates=["size"]).fit(given.without_columns())
    with pytest.raises(DataError, match="carry no covariates"):
        cc.BradleyTerry(covariates="all").fit(given.without_columns())
    fitted = cc.BradleyTerry(covariates=NAMES).fit(given)
    with pytest.raises(DataError, match=r"no covariates \['length', 'bold'\]"):
        fitted.predict(given.without_columns())


def test_parameters_that_do_not_go_with_covariates() -> None:
    lists = cc.from_lists({"x": ["a", "b"], "y": ["b", "a"]})
    with pytest.raises(KindError, match="takes comparisons"):
        cc.BradleyTerry(covariates=["length"]).fit(lists)
    with pytest.raises(ParameterError, match="covariates"):
        cc.BradleyTerry(covariates=["length"], optimizer="gd").fit(votes(ties=0.0))
    with pytest.raises(ParameterError, match="different names"):
        cc.BradleyTerry(covariates=["length", "length"]).fit(votes())
    assert not cc.BradleyTerry(covariates=["length"]).counts_suffice(has_experts=False)
    assert not cc.BradleyTerry(covariates=["length"]).learns_from_blocks()


def with_covariates(given: cc.Comparisons, **columns: Any) -> cc.Comparisons:
    names = given.items.tolist()
    return cc.Comparisons(
        "arena",
        None,
        [names[i] for i in given.left],
        [names[i] for i in given.right],
        given.n_left,
        given.n_right,
        given.n_ties,
        covariates=columns,
        sided=given.sided,
    )


def test_covariates_without_information_are_named() -> None:
    given = votes()
    x, y = given.covariates.T
    price = np.arange(M) ** 2.0
    with pytest.raises(DataError, match="'flat' is 0 in every vote"):
        cc.BradleyTerry(covariates="all").fit(with_covariates(given, flat=0 * x))
    with pytest.raises(DataError, match=r"the same in every vote.*side_effect=True"):
        cc.BradleyTerry(covariates="all").fit(with_covariates(given, flat=0 * x + 3))
    with pytest.raises(DataError, match=r"\['x', 'y', 'both'\] depend on each other"):
        cc.BradleyTerry(covariates="all").fit(with_covariates(given, x=x, y=y, both=x + y))
    per_item = with_covariates(given, x=x, price=price[given.left] - price[given.right])
    with pytest.raises(NoFiniteEstimateError, match=r"\['price'\].*follows from the items"):
        cc.BradleyTerry(covariates="all", prior=0).fit(per_item)
    with pytest.warns(IdentifiabilityWarning, match=r"\['price'\].*only the prior tells"):
        cc.BradleyTerry(covariates="all").fit(per_item)
    with pytest.warns(IdentifiabilityWarning, match="'x' is never below 0"):
        cc.BradleyTerry(covariates="all").fit(with_covariates(given, x=np.abs(x) + 0.1))
    with pytest.warns(IdentifiabilityWarning, match="'x' is never above 0"):
        cc.BradleyTerry(covariates="all").fit(with_covariates(given, x=np.minimum(x, 0.0)))


def test_what_has_no_side_is_named_once(tmp_path: Path) -> None:
    given = votes()
    table = given.to_frame().select("left", "right", winner=pl.lit("left"), turn=pl.int_range(pl.len()) % 4)
    table = table.with_columns(winner=pl.Series(np.where(np.arange(len(table)) % 3 == 0, "right", "left")))
    table.write_csv(tmp_path / "v.csv")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cc.BradleyTerry(covariates="all").fit(cc.read_comparisons(tmp_path / "v.csv", covariates="turn"))
    assert [str(w.message)[:36] for w in caught if "turn" in str(w.message)] == ["covariate 'turn' is never below 0, a"]


def test_constant_outcomes_and_covariates_are_named() -> None:
    given = votes()
    x = given.covariates[:, 0]
    all_tied = given.with_counts(0 * x, 0 * x, np.ones(len(x)))
    with pytest.raises(DataError, match="every outcome is a tie"):
        cc.BradleyTerry(covariates="all").fit(all_tied)


def test_a_covariate_that_tells_the_winner_is_named() -> None:
    given = votes(ties=0.0)
    sign = given.n_left - given.n_right
    with pytest.raises(NoFiniteEstimateError, match=r"'rating'.*larger value won"):
        cc.BradleyTerry(covariates="all").fit(with_covariates(given, rating=sign * (1 + given.covariates[:, 0] ** 2)))


def separated(given: cc.Comparisons, prior: float) -> bool:
    """Return whether some direction of scores and coefficients never lowers the likelihood, by linear programming."""
    n, k = given.n_rows, given.covariates.shape[1]
    z = np.zeros((n, M + k))
    z[np.arange(n), given.left], z[np.arange(n), given.right] = 1.0, -1.0
    z[:, M:] = given.covariates / np.abs(given.covariates).max(axis=0)
    if prior:
        z[:, :M] = 0.0
    signed = z * np.where(given.n_left > 0, 1.0, -1.0)[:, None]
    found = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(n), bounds=[(-1, 1)] * (M + k))
    return bool(-found.fun > 1e-7)


@pytest.mark.parametrize("prior", [0.0, 0.1])
def test_errors_come_exactly_where_there_is_no_maximum(prior: float) -> None:
    seen = []
    for seed in range(60):
        given = votes(12 if prior == 0 else 7, seed=seed, ties=0.0)
        want = separated(given, prior)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            try:
                cc.BradleyTerry(covariates=NAMES, prior=prior, uncertainty="none").fit(given)
            except NoFiniteEstimateError:
                assert want, seed
                seen.append(True)
            else:
                assert not want, seed
                seen.append(False)
    assert 5 < sum(seen) < 55


# With the reliability of experts.


def judged(n: int = 1500, seed: int = 5) -> cc.Comparisons:
    """Return votes of experts with covariates, a third of whom flip a coin."""
    rng = np.random.default_rng(seed)
    given = votes(n, seed=seed, experts=15)
    assert given.expert is not None
    coin = given.expert >= 10
    heads = rng.random(n) < 0.5
    return given.with_counts(
        np.where(coin, heads, given.n_left), np.where(coin, ~heads, given.n_right), np.where(coin, 0.0, given.n_ties)
    )


def test_reliability_with_covariates_is_at_the_maximum_of_its_objective() -> None:
    given = judged(400)
    model = cc.BradleyTerry(reliability=True, covariates=NAMES, side_effect=True)
    board = model.fit_predict(given)
    assert model.fit_info_.converged
    d = {name: np.array(values) for name, values in model.expert_details_.items()}
    prior = 0.1 / model.scale_**2
    assert given.expert is not None
    e = given.expert

    def value(v: Any) -> float:
        s, beta = v[:M], v[M:] / [1.0, 1000.0]
        total = -0.5 * prior * float(s @ s)
        for sign in (-1.0, 1.0):
            z = (d["slope"][e] + sign * d["slope_stderr"][e]) * (s[given.left] - s[given.right]) + d["side"][e]
            z = z + given.covariates @ beta
            t = np.log(model.tie_) + d["tie_tendency"][e]
            whole = np.log(np.exp(z / 2) + np.exp(-z / 2) + np.exp(t))
            each = given.n_left * z / 2 - given.n_right * z / 2 + given.n_ties * t - whole
            total += 0.5 * float(each.sum())
        return total

    here = np.concatenate([board.score, [model.covariate_effects_["length"], 1000 * model.covariate_effects_["bold"]]])
    # A common shift of the scores is not free under the prior, but the board has mean 0.
    h = np.eye(len(here)) * 1e-5
    gradient = np.array([value(here + step) - value(here - step) for step in h]) / 2e-5
    np.testing.assert_allclose(gradient[M:], 0.0, atol=1e-5)
    np.testing.assert_allclose(gradient[:M], gradient[:M].mean(), atol=1e-3)
    assert model.side_ == pytest.approx(d["side"].mean(), abs=0.02)


def test_reliability_keeps_the_effects_that_coin_flippers_hide() -> None:
    given = judged(6000)
    model = cc.BradleyTerry(reliability=True, covariates=NAMES, side_effect=True)
    board = model.fit_predict(given)
    assert (model.adherence_[:10] > 0.7).all()
    assert (np.abs(model.adherence_[10:]) < 0.3).all()
    table = model.coefficient_table_
    assert table["term"].to_list() == ["log ν", "side", *NAMES]
    assert (table["stderr"] > 0).all()
    # All experts have the same β here, also those whose votes follow nothing: the honest third pulls it down.
    assert 0.2 < model.covariate_effects_["length"] < 0.55
    np.testing.assert_allclose(model.predict(given).score, board.score, atol=1e-6)
    law = model.predict_votes(given)
    np.testing.assert_allclose(law.sum(axis=1), 1.0)
    _, parts, base = model._working_responses(given, "expert").contributions("expert")  # type: ignore[union-attr]
    np.testing.assert_allclose(parts.sum(axis=1) + base, board.score, atol=1e-6)


def test_equal_judges_give_the_errors_of_the_plain_model() -> None:
    given = votes(4000, experts=40)
    plain = cc.BradleyTerry(covariates=NAMES, side_effect=True)
    one = plain.fit_predict(given)
    model = cc.BradleyTerry(reliability=True, covariates=NAMES, side_effect=True)
    other = model.fit_predict(given)
    ours, theirs = (m.coefficient_table_.filter(m.coefficient_table_["kind"] == "covariate") for m in (model, plain))
    np.testing.assert_allclose(ours["stderr"].to_numpy(), theirs["stderr"].to_numpy(), rtol=0.15)
    np.testing.assert_allclose(ours["estimate"].to_numpy(), theirs["estimate"].to_numpy(), rtol=0.1)
    assert one.stderr is not None
    assert other.stderr is not None
    np.testing.assert_allclose(other.stderr, one.stderr, rtol=0.3)
    information = cc.BradleyTerry(reliability=True, covariates=NAMES, uncertainty="information").fit(given)
    np.testing.assert_allclose(
        information.coefficient_table_["stderr"].to_numpy()[-2:], ours["stderr"].to_numpy(), rtol=0.3
    )


def test_a_saved_model_with_judges_and_covariates(tmp_path: Path) -> None:
    given = judged(400)
    model = cc.BradleyTerry(reliability=True, covariates=NAMES).fit(given)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(cc.load(tmp_path / "model").predict(given).score, model.predict(given).score)
    with pytest.raises(ParameterError, match="not go with ties='rao-kupper'"):
        cc.BradleyTerry(reliability=True, ties="rao-kupper").fit(given)
    with pytest.raises(
        ParameterError, match=r"not offer uncertainty='bootstrap' with reliability=True.*Use uncertainty='sandwich'"
    ):
        cc.BradleyTerry(reliability=True, uncertainty="bootstrap").fit(given)
    described = cc.Features(["arena"] * M, [f"m{i}" for i in range(M)], np.arange(M)[:, None])
    with pytest.raises(ParameterError, match="does not go with features"):
        cc.BradleyTerry(reliability=True).fit(given, features=described)
