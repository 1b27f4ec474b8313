"""Predictions, residuals and explanations of fitted models against formulas, finite differences and simulations."""

from __future__ import annotations

import math
import warnings
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from scipy import stats

import concordant as cc
from concordant.arrays import Floats
from concordant.errors import ConcordantError, DataError, KindError, NotFittedError, ParameterError
from concordant.inference.predictions import LuceLaw

ITEMS = list("abcd")


def random_comparisons(seed: int, rows: int = 60, ties: float = 0.0) -> cc.Comparisons:
    """Return comparisons by six experts who see sides; items earlier in the alphabet win more often."""
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.permutation(4)[:2] for _ in range(rows)])
    left_wins = rng.random(rows) < 1 / (1 + np.exp(0.6 * (pairs[:, 0] - pairs[:, 1]) - 0.3))
    tied = rng.random(rows) < ties
    columns = [[ITEMS[i] for i in side] for side in pairs.T.tolist()]
    experts = [f"x{r % 6}" for r in range(rows)]
    counts = [np.where(tied, 0, left_wins), np.where(tied, 0, ~left_wins), tied]
    return cc.Comparisons("q", experts, *columns, *(c.astype(float).tolist() for c in counts), sided=True)


def random_lists(seed: int, complete: bool = True, tied: bool = False) -> cc.Preferences:
    rng = np.random.default_rng(seed)
    lists: dict[str, Any] = {}
    for k in range(10):
        order = np.argsort(-(np.array([1.0, 0.5, 0.0, -0.5]) + rng.gumbel(size=4)))[: 4 if complete else 2 + k % 3]
        lists[f"x{k}"] = {ITEMS[i]: -float(r // (2 if tied and k % 2 else 1)) for r, i in enumerate(order.tolist())}
    return cc.from_lists(lists)


def fitted(model: Any, votes: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit_predict(votes)
    return model


def test_six_wins_against_one_are_a_win_rate_and_another_chance_of_being_better() -> None:
    model = cc.BradleyTerry(prior=0)
    board = model.fit_predict(cc.Comparisons("q", None, ["a"], ["b"], [6], [1]))
    assert model.outcome_probabilities("a", "b") == pytest.approx((6 / 7, 0, 1 / 7))
    # The information about a difference is n p (1 − p).
    assert board.probability_better("a", "b") == pytest.approx(stats.norm.cdf(np.log(6) * np.sqrt(6 / 7)))


@pytest.mark.parametrize("ties", ["davidson", "rao-kupper"])
def test_outcomes_of_bradley_terry_follow_its_ties_and_sides(ties: str) -> None:
    model = fitted(cc.BradleyTerry(ties=ties, side_effect=True), random_comparisons(1, 80, 0.2))
    score = dict(zip(model.consensus_.items, model.consensus_.score.tolist(), strict=True))
    for side, sign in (("left", 1), ("right", -1), (None, 0)):
        odds = np.exp(score["a"] - score["c"] + sign * model.side_)
        if ties == "davidson":
            parts = np.array([odds, model.tie_ * np.sqrt(odds), 1.0]) / (odds + model.tie_ * np.sqrt(odds) + 1)
        else:
            win, loss = odds / (odds + model.tie_), 1 / (1 + model.tie_ * odds)
            parts = np.array([win, 1 - win - loss, loss])
        assert model.outcome_probabilities("a", "c", side=side) == pytest.approx(tuple(parts))
        assert model.outcome_probabilities("c", "a", side=side and {"left": "right", "right": "left"}[side])[
            ::-1
        ] == pytest.approx(tuple(parts))
    tables = {o: model.outcome_matrix(outcome=o) for o in ("win", "tie", "loss")}
    items = tables["win"]["item"].to_list()
    assert items == model.consensus_.ranking()
    assert tables["win"].columns == ["item", *items]
    total = sum(t.drop("item").to_numpy() for t in tables.values())
    assert np.isnan(np.diagonal(total)).all()
    assert total[~np.eye(4, dtype=bool)] == pytest.approx(1.0)


def test_outcomes_of_a_judge_are_averaged_over_the_slope() -> None:
    model = fitted(cc.BradleyTerry(reliability=True), random_comparisons(2, 120, 0.2))
    score = dict(zip(model.consensus_.items, model.consensus_.score.tolist(), strict=True))
    gap, d = score["b"] - score["d"], {n: v[model.experts_.index("x3")] for n, v in model.expert_details_.items()}
    want = np.zeros(3)
    for slope in (d["slope"] - d["slope_stderr"], d["slope"] + d["slope_stderr"]):
        z = slope * gap - d["side"]
        odds = np.exp([z / 2, np.log(model.tie_) + d["tie_tendency"], -z / 2])
        want += odds / odds.sum() / 2
    assert model.outcome_probabilities("b", "d", side="right", expert="x3") == pytest.approx(tuple(want))
    odds = np.exp([gap / 2, np.log(model.tie_), -gap / 2])
    assert model.outcome_probabilities("b", "d") == pytest.approx(tuple(odds / odds.sum()))


def test_plackett_luce_predicts_rankings_of_all_items_or_some() -> None:
    model = fitted(cc.PlackettLuce(prior=0), random_lists(1))
    chance = {order: model.ranking_probability(order) for order in permutations(ITEMS)}
    assert sum(chance.values()) == pytest.approx(1.0)
    before = sum(p for order, p in chance.items() if order.index("b") < order.index("c"))
    assert model.outcome_probabilities("b", "c").win == pytest.approx(before)
    assert model.ranking_probability(["b", "c"], items=["c", "b"]) == pytest.approx(before)
    for k in (1, 2, 3):
        found = dict(model.top_k_probabilities(k).rows())
        want = {i: sum(p for order, p in chance.items() if i in order[:k]) for i in ITEMS}
        assert found == pytest.approx(want)
    assert model.first_place_probabilities().equals(model.top_k_probabilities(1))
    assert model.top_k_probabilities(9)["probability"].to_list() == [1.0] * 4


def test_adherence_and_davidson_luce_ties_enter_the_prediction() -> None:
    model = fitted(cc.PlackettLuce(adherence=True), random_lists(2))
    theta = dict(zip(model.experts_, model.adherence_.tolist(), strict=True))["x4"]
    gap = dict(zip(model.consensus_.items, model.consensus_.score.tolist(), strict=True))
    win = 1 / (1 + np.exp(-theta * (gap["a"] - gap["b"])))
    assert model.outcome_probabilities("a", "b", expert="x4").win == pytest.approx(win)
    assert model.ranking_probability("ab", items="ab", expert="x4") == pytest.approx(win)
    model = fitted(cc.PlackettLuce(ties="davidson-luce"), random_lists(3, tied=True))
    win, tie, loss = model.outcome_probabilities("a", "b")
    assert tie / np.sqrt(win * loss) == pytest.approx(model.tie_[0])
    assert model.ranking_probability([["a", "b"]], items="ab") == pytest.approx(tie)
    with pytest.raises(KindError, match="Davidson-Luce ties"):
        model.top_k_probabilities(2)


def test_mallows_predicts_around_its_centre() -> None:
    votes = random_lists(4)
    model = fitted(cc.Mallows(), votes)
    chance = {order: model.ranking_probability(order) for order in permutations(ITEMS)}
    assert sum(chance.values()) == pytest.approx(1.0)
    best = model.consensus_.ranking()
    assert chance[tuple(best)] == max(chance.values())
    swapped = (best[1], best[0], *best[2:])
    assert chance[swapped] / chance[tuple(best)] == pytest.approx(np.exp(model.dispersion_["q"]))
    before = sum(p for order, p in chance.items() if order.index("b") < order.index("c"))
    assert model.outcome_probabilities("b", "c").win == pytest.approx(before)
    row = model.residuals(votes).row(0, named=True)
    assert row["expected_wins"] == pytest.approx(10 * model.outcome_probabilities(row["item"], row["other"]).win)
    # The score is minus the mean position, which is the sum over the others of the probability to be behind them.
    behind = {i: 1 + sum(model.outcome_probabilities(j, i).win for j in ITEMS if j != i) for i in ITEMS}
    assert behind == pytest.approx(dict(zip(model.consensus_.items, -model.consensus_.score, strict=True)))
    extended = fitted(cc.ExtendedMallows(), votes)
    theta = dict(zip(extended.experts_, extended.theta_.tolist(), strict=True))["x1"]
    first, second = extended.consensus_.ranking()[:2]
    assert extended.outcome_probabilities(first, second, expert="x1").win == pytest.approx(1 / (1 + np.exp(theta)))
    with pytest.raises(ParameterError, match="every expert of ExtendedMallows has an own dispersion"):
        extended.first_place_probabilities()


def test_mpm_predicts_whom_a_preference_is_for() -> None:
    model = fitted(cc.MPM(adherence="none"), random_comparisons(5))
    score = dict(zip(model.consensus_.items, model.consensus_.score.tolist(), strict=True))
    # P(i over j) ∝ exp(s_i − s_j), P(j over i) ∝ exp(s_j − s_i).
    up, down = np.exp(score["a"] - score["b"]), np.exp(score["b"] - score["a"])
    assert model.outcome_probabilities("a", "b").win == pytest.approx(up / (up + down))
    model = fitted(cc.MPM(adherence="none", variances=True), random_comparisons(5))
    items, score, variance = model.consensus_.items.tolist(), model.consensus_.score, model.variance_
    a, b = items.index("a"), items.index("b")
    up = np.exp((score[a] - score[b]) / (variance[a] + variance[b]))
    assert model.outcome_probabilities("a", "b").win == pytest.approx(up / (up + 1 / up))
    with pytest.raises(KindError, match="only for the items of its last fit_predict"):
        model.outcome_probabilities("a", "b", consensus=model.predict(random_comparisons(5)))


@pytest.mark.parametrize("prior", [0, 0.5])
def test_residuals_of_an_item_add_up_to_the_pull_of_the_prior(prior: float) -> None:
    votes = random_comparisons(6, 90, 0.2)
    model = fitted(cc.BradleyTerry(prior=prior), votes)
    frame = model.residuals(votes)
    pull = dict.fromkeys(ITEMS, 0.0)
    for row in frame.iter_rows(named=True):
        gap = row["wins"] + row["ties"] / 2 - row["expected_wins"] - row["expected_ties"] / 2
        pull[row["item"]] += gap
        pull[row["other"]] -= gap
        assert np.sign(row["pearson"]) == np.sign(row["deviance"]) == np.sign(gap)
    score = dict(zip(model.consensus_.items, model.consensus_.score.tolist(), strict=True))
    assert pull == pytest.approx({i: prior * s for i, s in score.items()}, abs=1e-7)
    observed, expected = (frame[name].sum() for name in ("ties", "expected_ties"))
    assert observed == pytest.approx(expected)


def test_goodness_of_fit_has_its_size_and_counts_parameters() -> None:
    rng = np.random.default_rng(7)
    left, right = np.triu_indices(5, 1)
    score = np.array([1.0, 0.5, 0.0, -0.5, -1.0])
    names, p = list("abcde"), []
    for _ in range(150):
        won = rng.binomial(40, 1 / (1 + np.exp(score[right] - score[left])))
        ids = [[names[i] for i in side] for side in (left, right)]
        votes = cc.Comparisons("q", None, *ids, won.tolist(), (40 - won).tolist())
        model = fitted(cc.BradleyTerry(prior=0, uncertainty="none"), votes)
        frame = model.goodness_of_fit(votes)
        assert frame["df"].to_list() == [6, 6]
        p.append(frame["p_value"].to_list())
    assert stats.kstest(np.array(p)[:, 0], "uniform").pvalue > 0.01
    assert stats.kstest(np.array(p)[:, 1], "uniform").pvalue > 0.01
    # The deviance is twice the log-likelihood that the saturated model gains.
    share = won / 40
    saturated = (won * np.log(share) + (40 - won) * np.log1p(-share)).sum()
    assert frame["value"][1] == pytest.approx(2 * (saturated - model.fit_info_.objective))
    tied = random_comparisons(8, 120, 0.2)
    frame = fitted(cc.BradleyTerry(prior=0, side_effect=True), tied).goodness_of_fit(tied)
    # 6 pairs on two sides with 3 outcomes; 3 scores, a tie parameter and a side effect.
    assert frame["df"][0] == 12 * 2 - 3 - 2
    assert (
        fitted(cc.PlackettLuce(), random_lists(1)).goodness_of_fit(random_lists(1))["p_value"].to_list() == [None] * 2
    )


def test_experts_who_vote_at_random_stand_out() -> None:
    rng = np.random.default_rng(9)
    experts, left, right, won = [], [], [], []
    for k in range(12):
        for _ in range(60):
            i, j = rng.permutation(4)[:2]
            experts.append(f"x{k}")
            left.append(ITEMS[i])
            right.append(ITEMS[j])
            won.append(float(rng.random() < (0.5 if k == 0 else 1 / (1 + np.exp(1.2 * (i - j))))))
    votes = cc.Comparisons("q", experts, left, right, won, [1 - w for w in won])
    model = fitted(cc.BradleyTerry(), votes)
    z = dict(model.residuals(votes, by="expert").select("expert", "z").rows())
    assert z.pop("x0") < -4
    assert np.abs(list(z.values())).max() < 3
    assert model.residuals(votes, by="expert")["log_likelihood"].sum() == pytest.approx(
        model.fit_info_.objective + 0.05 * (model.consensus_.score**2).sum()
    )
    lists = fitted(cc.BradleyTerry(), random_lists(1)).residuals(random_lists(1), by="expert")
    assert lists["z"].to_list() == [None] * 10


def test_the_score_test_of_a_list_has_mean_0_and_its_variance_over_all_lists() -> None:
    score = np.array([1.5, 0.2, -0.4, -1.3])
    board, near = cc.Consensus(["q"] * 4, ITEMS, score), cc.Consensus(["q"] * 4, ITEMS, score * (1 + 1e-6))
    total, apart, variance = 0.0, 0.0, 0.0
    for order in permutations(range(4)):
        votes = cc.from_lists({"x": [ITEMS[i] for i in order]})
        p = np.exp(LuceLaw(score).log_probability([[i] for i in order]))
        row, moved = (
            cc.PlackettLuce().residuals(votes, by="expert", consensus=c).row(0, named=True) for c in (board, near)
        )
        assert row["n"] == 3
        assert row["log_likelihood"] == pytest.approx(np.log(p))
        slope = (moved["log_likelihood"] - row["log_likelihood"]) * 1e6
        total, apart = total + p * slope, apart + p * slope**2
        variance += p * (slope / row["z"]) ** 2
    assert total == pytest.approx(0, abs=1e-5)
    assert apart == pytest.approx(variance, rel=1e-4)
    rest = cc.from_lists({"x": ["c"], "y": list("abcd")}, missing="below")
    row = cc.PlackettLuce().residuals(rest, by="expert", consensus=board).row(0, named=True)
    assert row["log_likelihood"] == pytest.approx(score[2] - np.log(np.exp(score).sum()))


def test_calibration_holds_on_votes_that_were_not_used() -> None:
    sample = cc.synthetic.bradley_terry(12, 6000, random_state=3)
    votes = sample.comparisons
    half = np.arange(votes.n_rows) % 2 == 0
    train, test = (votes._rows(np.flatnonzero(rows), votes.slots) for rows in (half, ~half))
    model = fitted(cc.BradleyTerry(), train)
    frame = model.calibration(test, bins=8, level=0.99)
    assert len(frame) == 8
    assert frame["n"].sum() == (test.n_left + test.n_right).sum()
    assert (frame["least"][1:] > frame["most"][:-1]).all()
    assert ((frame["lower"] <= frame["predicted"]) & (frame["predicted"] <= frame["upper"])).all()
    assert frame["predicted"][0] < 0.6 < 0.8 < frame["predicted"][-1]


def test_residuals_of_judges_use_their_own_slopes_sides_and_ties() -> None:
    votes = random_comparisons(12, 120, 0.2)
    model = fitted(cc.BradleyTerry(reliability=True), votes)
    left, right = (votes.items.take(side).tolist() for side in (votes.left, votes.right))
    expert = [votes.experts[e] for e in votes.expert.tolist()]
    law = [
        model.outcome_probabilities(a, b, side="left", expert=e) for a, b, e in zip(left, right, expert, strict=True)
    ]
    frame = model.residuals(votes)
    assert frame["expected_ties"].sum() == pytest.approx(sum(p.tie for p in law))
    row = frame.row(0, named=True)
    own = [
        p.win if a == row["item"] else p.loss
        for p, a, b in zip(law, left, right, strict=True)
        if {a, b} == {row["item"], row["other"]}
    ]
    assert row["expected_wins"] == pytest.approx(sum(own))
    assert model.goodness_of_fit(votes)["p_value"].to_list() == [None, None]
    with pytest.raises(DataError, match=r"experts \['new'\] were not there in fit"):
        model.residuals(cc.Comparisons("q", ["new"], ["a"], ["b"]))


def test_degrees_of_freedom_count_coefficients_and_ties_left_out_are_no_outcomes() -> None:
    votes = random_comparisons(13, 120, 0.2)
    features = cc.Features(["q"] * 4, ITEMS, [[3.0], [2.0], [1.0], [0.5]])
    model = cc.BradleyTerry(ties="none", prior=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        board = model.fit(votes, features=features).predict(votes)
    frame = model.residuals(votes, consensus=board)
    assert frame["ties"].sum() == frame["expected_ties"].sum() == 0
    # 6 pairs with 2 outcomes, and a coefficient.
    assert model.goodness_of_fit(votes, consensus=board)["df"][0] == 5
    with pytest.raises(KindError, match="cannot be explained"):
        model.explain(votes)


# Explanations.


def log_likelihood(model: Any, votes: Any, score: Floats) -> float:
    """Return the log-likelihood of votes at some scores, from the model's own predictions."""
    with np.errstate(all="ignore"):
        board = cc.Consensus(["q"] * 4, ITEMS, score)
        return float(model.residuals(votes, by="expert", consensus=board)["log_likelihood"].sum())


@pytest.mark.parametrize(
    ("model", "votes"),
    [
        (cc.BradleyTerry(), random_comparisons(1)),
        (cc.BradleyTerry(prior=0, ties="rao-kupper", side_effect=True), random_comparisons(1, 90, 0.2)),
        (cc.BradleyTerry(anchor="c"), random_lists(5)),
        (cc.PlackettLuce(prior=0.4), random_lists(5, complete=False)),
        (cc.PlackettLuce(prior=0, anchor="b"), random_lists(5)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_parts_of_experts_are_the_newton_steps_of_their_votes(model: Any, votes: Any) -> None:
    fitted(model, votes)
    board = model.consensus_
    order = [board.items.tolist().index(i) for i in ITEMS]
    score = board.score[order]
    found = model.explain(votes)
    assert not found.base.any()

    def derivatives(own: Any) -> tuple[Floats, Floats]:
        h, step = 1e-4, np.eye(4) * 1e-4
        value = [[log_likelihood(model, own, score + a + b) for a in (*step, *-step)] for b in (*step, *-step)]
        v = np.array(value)
        gradient = np.array(
            [log_likelihood(model, own, score + s) - log_likelihood(model, own, score - s) for s in step]
        )
        curve = (v[:4, :4] - v[4:, :4] - v[:4, 4:] + v[4:, 4:]) / (4 * h * h)
        return gradient / (2 * h), -curve

    each = {e: derivatives(votes.select_experts([e])) for e in votes.experts}
    prior = {0: 0.0, "auto": 0.1}.get(model.prior, model.prior)
    if isinstance(model, cc.BradleyTerry) and isinstance(votes, cc.Preferences):
        prior *= 2.0  # Lists of four have 6 pairs and 3 choices.
    a = np.linalg.pinv(sum(h for _, h in each.values()) + prior * np.eye(4), rcond=1e-5)
    origin = score - score.mean()
    for expert, (gradient, hessian) in each.items():
        want = a @ (hessian @ origin + gradient)
        want = want - (want[ITEMS.index(model.anchor)] if model.anchor else want.mean())
        parts = [found.parts(i)[expert] for i in ITEMS]
        assert parts == pytest.approx(want.tolist(), abs=2e-5)


@pytest.mark.parametrize("ties", ["average", "davidson-luce", "input"])
@pytest.mark.parametrize("prior", [0.1, ("gamma", 2.0, 1.0)])
def test_explanations_by_expert_and_by_opponent_add_up_with_every_kind_of_tie(ties: str, prior: Any) -> None:
    for votes in (random_lists(6, complete=False, tied=True), random_lists(7, tied=True)):
        model = fitted(cc.PlackettLuce(ties=ties, prior=prior), votes)
        by_expert, by_opponent = (model._working_responses(votes, by) for by in ("expert", "opponent"))
        # All votes about an item, expert by expert or opponent by opponent.
        assert by_opponent.response.sum(axis=1) == pytest.approx(by_expert.response.sum(axis=1), abs=1e-9)
        assert by_opponent.response == pytest.approx(-by_opponent.response.T)
        found = model.explain(votes, by="opponent")
        assert found.to_frame().columns == ["item", "opponent", "contribution"]
        want = dict(zip(model.consensus_.items, model.consensus_.score, strict=True))
        assert dict(zip(found.items, found.score, strict=True)) == pytest.approx(want)


def test_the_base_of_an_opponent_is_what_votes_about_others_add() -> None:
    votes = random_comparisons(10)
    model = fitted(cc.BradleyTerry(), votes)
    responses = model._working_responses(votes, "opponent")
    names, parts, base = responses.contributions("opponent")
    inverse, table = np.linalg.inv(responses.hessian), responses.response
    inverse -= inverse.mean(axis=0)
    for i in range(4):
        pairs = [(j, k) for j in range(4) for k in range(j) if i not in (j, k)]
        others = sum((inverse[i, j] - inverse[i, k]) * table[j, k] for j, k in pairs)
        assert base[i] == pytest.approx(others)
    assert names == votes.items.tolist()
    assert not np.diagonal(parts).any()


def test_judges_are_explained_with_their_slopes() -> None:
    votes = random_comparisons(11, 120, 0.1)
    model = fitted(cc.BradleyTerry(reliability=True), votes)
    found = model.explain(votes)
    assert np.abs(found.base).max() < 1e-8
    want = model.predict(votes)
    assert dict(zip(found.items, found.score, strict=True)) == pytest.approx(
        dict(zip(want.items, want.score, strict=True))
    )


def test_comparisons_without_experts_are_explained_by_opponents() -> None:
    votes = cc.Comparisons("q", None, ["a", "b"], ["b", "c"], [3, 2], [1, 1])
    found = cc.BradleyTerry().fit(votes).explain(votes)
    assert (found.by, sorted(found.experts)) == ("opponent", ["a", "b", "c"])
    assert repr(found).endswith("3 items, 3 opponents")
    with pytest.raises(DataError, match="needs comparisons that name experts"):
        cc.BradleyTerry().fit(votes).explain(votes, by="expert")


# Errors.

VOTES = cc.Comparisons("q", None, ["a", "b"], ["b", "c"], [3, 2], [1, 1])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda _: cc.BradleyTerry().outcome_probabilities("a", "b"), NotFittedError, "Call fit_predict"),
        (lambda m: m.outcome_probabilities("a", "z"), DataError, "no item 'z'"),
        (lambda m: m.outcome_probabilities("a", "a"), DataError, "compared with itself"),
        (lambda m: m.outcome_probabilities("a", "b", side="top"), ParameterError, "'left', 'right' or None"),
        (lambda m: m.outcome_probabilities("a", "b", expert="x"), ParameterError, "learned nothing about experts"),
        (lambda m: m.outcome_probabilities("a", "b", consensus=3), KindError, "takes a Consensus"),
        (lambda m: m.outcome_matrix(outcome="draw"), ParameterError, "'win', 'tie' or 'loss'"),
        (lambda m: m.ranking_probability(["a", "b"]), KindError, "PlackettLuce, Mallows"),
        (lambda m: m.top_k_probabilities(0), ParameterError, "the 'k' parameter"),
        (lambda m: m.residuals(VOTES, by="item"), ParameterError, "'pair' or 'expert'"),
        (lambda m: m.residuals(VOTES, by="expert"), DataError, "by='pair'"),
        (lambda m: m.residuals(cc.Comparisons("q", None, ["a"], ["z"])), DataError, "no score of item 'z'"),
        (lambda m: m.calibration(VOTES, bins=0), ParameterError, "the 'bins' parameter"),
        (lambda m: m.explain(VOTES, by="pair"), ParameterError, "'expert', 'opponent' or None"),
        (
            lambda _: fitted(cc.BradleyTerry(transform="count"), random_lists(1)).outcome_probabilities("a", "b"),
            KindError,
            "no log odds",
        ),
        (
            lambda _: fitted(cc.BradleyTerry(optimizer="gd"), VOTES).explain(VOTES),
            KindError,
            "no maximum of a likelihood",
        ),
        (
            lambda _: fitted(cc.PlackettLuce(), random_lists(1)).ranking_probability(["a", "a"]),
            DataError,
            "names an item twice",
        ),
        (
            lambda _: fitted(cc.PlackettLuce(), random_lists(1)).ranking_probability(["z"]),
            DataError,
            "which the list does not rank",
        ),
        (
            lambda _: fitted(cc.PlackettLuce(ties="davidson-luce"), random_lists(3, tied=True)).residuals(
                random_lists(3, tied=True)
            ),
            KindError,
            "no residuals of pairs",
        ),
        (
            lambda _: fitted(cc.Mallows(), random_lists(1)).residuals(random_lists(5, complete=False)),
            KindError,
            "complete lists without ties",
        ),
        (lambda _: fitted(cc.MPM(), random_lists(1)).residuals(random_lists(1)), KindError, "Give comparisons"),
        (
            lambda m: cc.Mallows().outcome_probabilities("a", "b", consensus=m.consensus_),
            NotFittedError,
            "no dispersion of instance 'q'",
        ),
        (
            lambda _: fitted(cc.ExtendedMallows(k=2, missing="below"), random_lists(1)).first_place_probabilities(
                expert="x1"
            ),
            KindError,
            "Leave k out",
        ),
        (
            lambda m: cc.PlackettLuce(ties="davidson-luce").outcome_probabilities("a", "b", consensus=m.consensus_),
            NotFittedError,
            "not fitted yet",
        ),
        (
            lambda m: cc.PlackettLuce().residuals(random_lists(1), by="expert", consensus=m.consensus_),
            DataError,
            "no score of item 'd'",
        ),
        (
            lambda _: fitted(cc.PlackettLuce(), cc.from_lists({"x": ["item", "b"]})).outcome_matrix(),
            DataError,
            "an item is called 'item'",
        ),
        (
            lambda _: fitted(cc.PlackettLuce(adherence=True), random_lists(1)).first_place_probabilities(expert="z"),
            DataError,
            "no expert 'z'",
        ),
    ],
)
def test_what_cannot_be_predicted_is_an_error_that_says_why(
    call: Any, error: type[ConcordantError], words: str
) -> None:
    model = cc.BradleyTerry()
    model.fit_predict(VOTES)
    with pytest.raises(error, match=words):
        call(model)


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
def test_experts_have_residuals_where_an_outcome_is_certain() -> None:
    """A certain outcome that happens tells nothing of an expert, and takes no warning of NumPy's."""
    lists = {f"e{i}": list("abcd") for i in range(4)} | {"z": list("abdc")}
    votes = cc.from_lists(lists)
    model = cc.ExtendedMallows()
    model.fit_predict(votes)
    assert model.theta_[0] == -30.0
    found = model.residuals(votes, by="expert")
    # The chance that an expert with θ orders two items as π does, d places apart, from the sum over all rankings.
    theta = float(model.theta_[4])
    chance = np.zeros(4)
    for p in permutations(range(4)):
        weight = math.exp(theta * sum(a > b for a, b in combinations(p, 2)))
        chance += weight * np.array([1.0, *(p.index(0) < p.index(d) for d in (1, 2, 3))])
    win = chance[1:] / chance[0]
    adjacent = [math.log(win[0])] * 2 + [math.log(1 - win[0])]
    want = sum(adjacent) + 2 * math.log(win[1]) + math.log(win[2])
    assert found["log_likelihood"][4] == pytest.approx(want, rel=1e-9)
    assert found["log_likelihood"][0] == pytest.approx(0.0, abs=1e-9)
    board = cc.Consensus(["q"] * 3, list("abc"), [1000.0, 1.0, 0.0])
    some, all_ = (
        cc.BradleyTerry(ties="none").fit(v).residuals(v, by="expert", consensus=board)
        for v in (
            cc.Comparisons("q", ["x", "y"], ["b", "b"], ["c", "c"], [3, 1], [1, 2]),
            cc.Comparisons("q", ["x", "y"] * 2, ["b", "b", "a", "a"], ["c"] * 4, [3, 1, 5, 0], [1, 2, 0, 1]),
        )
    )
    assert all_["z"][0] == pytest.approx(some["z"][0], rel=1e-12)
    assert all_["z"][1] is None
    assert all_["log_likelihood"][1] == -math.inf
