"""Held-out votes: losses by hand, splits that keep their word, choices by prediction, and what is refused."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import concordant as cc
from concordant.arrays import Floats
from concordant.errors import DataError, KindError, ParameterError
from concordant.selection.held_out_votes import split_votes


def careers(n: int, seed: int, drift: float = 1.0) -> tuple[cc.Comparisons, Floats]:
    """Return votes over time on items whose strengths walk at random, and the true win probability of each row."""
    rng = np.random.default_rng(seed)
    m, periods = 8, 40
    strength = np.cumsum(
        rng.normal(scale=[[1.0]] + [[drift / math.sqrt(periods)]] * (periods - 1), size=(periods, m)), axis=0
    )
    time = np.sort(rng.uniform(0, periods, n))
    left = rng.integers(0, m, n)
    right = (left + rng.integers(1, m, n)) % m
    now = strength[time.astype(np.int64)]
    chance = 1 / (1 + np.exp(now[np.arange(n), right] - now[np.arange(n), left]))
    won = rng.random(n) < chance
    names = np.array(list("abcdefgh"))
    votes = cc.Comparisons("arena", None, names[left], names[right], won, ~won, time=time)
    return votes, chance


def test_losses_of_a_model_by_hand() -> None:
    train = cc.Comparisons("q", ["x", "y"], ["a", "a"], ["b", "b"], [3, 0], [1, 0], [0, 2])
    model = cc.BradleyTerry(prior=0, uncertainty="none")
    model.fit_predict(train)
    law = model.outcome_probabilities("a", "b")
    test = cc.Comparisons("q", ["x", "y", "y"], ["b", "a", "a"], ["a", "b", "b"], [1, 1, 0], [0, 0, 0], [0, 0, 1])
    found = cc.evaluate_votes(model, test)
    of_x, of_y = -math.log(law.loss), -math.log(law.win) - math.log(law.tie)
    assert found.mean["log-loss"] == pytest.approx((of_x + of_y) / 3)
    share = law.win / (law.win + law.loss)
    assert found.mean["decided-log-loss"] == pytest.approx(-(math.log(1 - share) + math.log(share)) / 2)
    assert found.mean["accuracy"] == 0.5
    # Two clusters: their residuals are opposite, so that the variance is 2 · 2 r² / 9.
    residual = of_x - (of_x + of_y) / 3
    assert found.stderr["log-loss"] == pytest.approx(2 * abs(residual) / 3)


def test_cross_validation_fits_to_the_other_folds_only() -> None:
    votes = cc.synthetic.bradley_terry(5, 300, ties=0.4, n_experts=10, random_state=3).comparisons
    found = cc.cross_validate(cc.BradleyTerry(), votes, folds=3, split_by="expert", random_state=1)
    assert votes.expert is not None
    for f in range(3):
        test = found.fold == f
        assert not np.isin(votes.expert[test], votes.expert[~test]).any()
        model = cc.BradleyTerry(uncertainty="none")
        model.fit_predict(votes.select_rows(~test))
        np.testing.assert_allclose(found.law[test], model.predict_votes(votes.select_rows(test)), rtol=1e-12)
    assert found.per_fold["votes"].sum() == 300
    assert len(found.runs) == 3


def test_forward_splits_never_look_ahead() -> None:
    votes, _ = careers(200, 0)
    assert votes.time is not None
    splits = split_votes(votes, 4, "time", 0, "test")
    for split in splits:
        assert votes.time[split.train].max() < votes.time[split.test].min()
    tested = np.concatenate([s.test for s in splits])
    assert len(np.unique(tested)) == len(tested) == 160
    # Votes of one time stay together.
    coarse = cc.Comparisons("q", None, ["a", "b"] * 50, ["b", "a"] * 50, time=np.repeat(np.arange(5), 20))
    assert coarse.time is not None
    for split in split_votes(coarse, 4, "time", 0, "test"):
        assert not np.isin(coarse.time[split.test], coarse.time[split.train]).any()


@pytest.mark.parametrize("split_by", ["random", "expert"])
def test_every_vote_is_held_out_once(split_by: str) -> None:
    votes = cc.synthetic.bradley_terry(5, 101, n_experts=7, random_state=3).comparisons
    splits = split_votes(votes, 3, split_by, 0, "test")
    assert sorted(np.concatenate([s.test for s in splits]).tolist()) == list(range(101))
    assert all(len(np.intersect1d(s.train, s.test)) == 0 and len(s.train) + len(s.test) == 101 for s in splits)


def test_a_half_life_chosen_forward_in_time_beats_static_scores_and_online_elo() -> None:
    votes, chance = careers(3000, 5, drift=4.0)
    search = cc.GridSearch(
        cc.BradleyTerry(), {"half_life": [None, 20.0, 4.0, 1.0]}, metric="log-loss", folds=5, split_by="time"
    ).fit(votes)
    assert search.best_params_["half_life"] in (4.0, 1.0)
    assert search.results_.sort("rank")["mean"].is_sorted()
    models = {
        "static": cc.BradleyTerry(),
        "half-life": cc.BradleyTerry(**search.best_params_),
        "elo": cc.Elo(),
    }
    found = {name: cc.cross_validate(m, votes, folds=5, split_by="time", random_state=2) for name, m in models.items()}
    loss = {name: one.mean["log-loss"] for name, one in found.items()}
    assert loss["half-life"] < min(loss["static"], loss["elo"])
    # No model predicts better than the truth, by more than chance.
    law = np.stack([chance, np.zeros(len(chance)), 1 - chance], axis=1)
    rows = found["static"].tested
    won = votes.n_left[rows] > 0
    best = -np.log(np.where(won, law[rows, 0], law[rows, 2])).mean()
    assert best < loss["half-life"]
    table = cc.compare(found, baseline="half-life").to_frame()
    assert table.filter(table["metric"] == "log-loss")["better"].to_list() == [False, None, False]
    assert (table.filter((table["metric"] == "log-loss") & table["p_value"].is_not_null())["p_value"] < 0.01).all()


def test_half_life_weighs_votes_by_their_age() -> None:
    left, right = ["a", "b", "c", "a"], ["b", "a", "a", "c"]
    votes = cc.Comparisons("q", None, left, right, time=[0.0, 86_400.0, 172_800.0, 172_800.0])
    model = cc.BradleyTerry(half_life="1d")
    weighed = cc.Comparisons("q", None, left, right, weight=[0.25, 0.5, 1.0, 1.0])
    plain = cc.BradleyTerry()
    board, want = model.fit_predict(votes), plain.fit_predict(weighed)
    np.testing.assert_array_equal(board.score, want.score)
    np.testing.assert_array_equal(board.stderr, want.stderr)
    np.testing.assert_array_equal(model.predict(votes).score, want.score)
    assert model.explain(votes).to_frame().equals(plain.explain(weighed).to_frame())
    with pytest.raises(DataError, match="no times"):
        model.fit(weighed)
    with pytest.raises(KindError, match="lists have none"):
        model.fit(cc.from_lists({"x": ["a", "b"]}))
    with pytest.raises(ParameterError, match="30d"):
        cc.BradleyTerry(half_life="1 month").fit(votes)


def test_elo_goes_through_the_votes_in_the_order_of_their_times() -> None:
    rows = [("a", "b", 3), ("b", "c", 1), ("c", "a", 2)]
    given = cc.Comparisons("q", None, [r[0] for r in rows], [r[1] for r in rows], time=[r[2] for r in rows])
    rows.sort(key=lambda r: r[2])
    ordered = cc.Comparisons("q", None, [r[0] for r in rows], [r[1] for r in rows])
    found, want = cc.aggregate(given, "elo"), cc.aggregate(ordered, "elo")
    assert (
        {i: found.scores[i] for i in "abc"} == {i: want.scores[i] for i in "abc"} if hasattr(found, "scores") else True
    )
    by_name = [dict(zip(c.items, c.score.tolist(), strict=True)) for c in (found, want)]
    assert by_name[0] == by_name[1]


def test_unknown_judges_are_predicted_as_judges_of_adherence_one() -> None:
    votes = cc.synthetic.bradley_terry(5, 600, ties=0.3, n_experts=6, unreliable=0.3, random_state=2).comparisons
    model = cc.BradleyTerry(reliability=True, uncertainty="none")
    model.fit_predict(votes)
    new = cc.Comparisons("q", ["new"], ["i1"], ["i2"], items=[("q", i) for i in votes.items])
    usual = model.outcome_probabilities("i1", "i2", side="left")
    np.testing.assert_allclose(model.predict_votes(new)[0], usual, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda v: cc.cross_validate(cc.RRF(), v), KindError, "does not predict votes. Methods that do: .*elo"),
        (lambda v: cc.cross_validate("elo", v, metrics="log-loss"), DataError, "decided-log-loss"),
        (lambda v: cc.cross_validate("elo", v, metrics="ndcg@10"), ParameterError, "Without labels the metrics are"),
        (lambda v: cc.cross_validate("elo", v, split_by="time"), DataError, "no times"),
        (lambda v: cc.cross_validate("elo", v, split_by="judge"), ParameterError, "'random', 'expert', 'time'"),
        (lambda v: cc.cross_validate("elo", v.collapse(), split_by="expert"), DataError, "name none"),
        (lambda v: cc.cross_validate("elo", v, split_by="expert", folds=50), DataError, "at least 50 experts"),
        (lambda v: cc.cross_validate("elo", v, folds=[([0, 1], [1, 2])]), DataError, "none of them in both"),
    ],
)
def test_what_cannot_be_held_out_is_refused(call: object, error: type[Exception], message: str) -> None:
    votes = cc.synthetic.bradley_terry(5, 60, ties=0.5, n_experts=6, random_state=3).comparisons
    with pytest.raises(error, match=message):
        call(votes)  # type: ignore[operator]


def test_a_search_by_votes_takes_comparisons_only() -> None:
    search = cc.GridSearch("elo", {"k": [4, 8]}, metric="accuracy")
    with pytest.raises(KindError, match="comparisons"):
        search.fit(cc.from_lists({"x": ["a", "b"]}))
    votes = cc.synthetic.bradley_terry(5, 60, random_state=3).comparisons
    with pytest.raises(KindError, match="no labels"):
        search.fit(votes, cc.Labels(["q"], ["1"], [1]))


def test_models_are_compared_on_the_same_votes_only() -> None:
    votes = cc.synthetic.bradley_terry(5, 200, n_experts=6, random_state=3).comparisons
    one = cc.cross_validate("elo", votes)
    with pytest.raises(DataError, match="other folds"):
        cc.compare({"one": one, "other": cc.cross_validate("elo", votes, random_state=5)})
    with pytest.raises(DataError, match="other votes"):
        cc.compare({"one": one, "other": cc.cross_validate("elo", votes.select_rows(range(100)))})
    found = cc.compare({"elo": one, "bt": cc.cross_validate("bradley-terry", votes)})
    assert "paired vote by vote" in repr(found)
    # The views of notebooks hold the same numbers.
    for shown in (one, found):
        numbers = [word for word in repr(shown).split() if re.fullmatch(r"[+-]?\d\.\d{4}", word)]
        page = shown._repr_html_()
        assert len(numbers) >= 4
        assert all(f"<td>{number}</td>" in page for number in numbers)
