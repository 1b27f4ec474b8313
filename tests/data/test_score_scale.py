"""The Elo scale leaves differences as they are, and tiers are in the wrong order at most as often as said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.data.score_scale import ELO_PER_LOGIT
from concordant.errors import DataError, DataWarning, ParameterError


def board(n: int = 6, votes: int = 400, seed: int = 1, **params: Any) -> cc.Consensus:
    drawn = cc.synthetic.bradley_terry(n, votes, n_experts=8, random_state=seed)
    return cc.BradleyTerry(**params).fit_predict(drawn.comparisons)


def test_differences_and_probabilities_do_not_depend_on_the_scale() -> None:
    own = board()
    a, b, c = own.items[0], own.items[1], own.items[2]
    for anchor in (a, [b, c], own):
        elo = own.scaled("elo", anchor=anchor)
        assert elo.ranking() == own.ranking()
        assert elo.rank_lower is own.rank_lower or (elo.rank_lower == own.rank_lower).all()
        before, after = own.difference(b, c), elo.difference(b, c)
        assert np.allclose(np.array(after), ELO_PER_LOGIT * np.array(before), rtol=1e-12)
        assert elo.probability_better(b, c) == own.probability_better(b, c)
        assert (elo.probabilities_better() == own.probabilities_better()).all()
        assert (elo.probabilities_best(2) == own.probabilities_best(2)).all()
        assert (elo.with_tiers().tier == own.with_tiers().tier).all()
        # And the columns alone say the same.
        spread = elo.covariance[0]  # type: ignore[index]
        assert np.isclose(spread[1, 1] + spread[2, 2] - 2 * spread[1, 2], after.stderr**2)
        assert np.isclose(elo.score[1] - elo.score[2], after.value)


def test_an_anchored_score_is_its_difference_from_the_anchor() -> None:
    own = board()
    a = own.items[3]
    elo = own.scaled("elo", anchor=a, anchor_at=1200)
    for k, item in enumerate(own.items.tolist()):
        gap = own.difference(item, a)
        assert np.isclose(elo.score[k], 1200 + ELO_PER_LOGIT * gap.value)
        assert np.isclose(elo.stderr[k], ELO_PER_LOGIT * gap.stderr, atol=1e-5)
        assert np.isclose(elo.upper[k], 1200 + ELO_PER_LOGIT * gap.upper)
    assert elo.stderr[3] == 0.0
    assert elo.gauge == f"item {a!r} is at 1200"


def test_an_anchored_model_and_a_scaled_board_agree() -> None:
    drawn = cc.synthetic.bradley_terry(6, 400, random_state=3).comparisons
    plain, anchored = cc.BradleyTerry().fit_predict(drawn), cc.BradleyTerry(anchor="i2").fit_predict(drawn)
    one, other = (c.scaled("elo", anchor="i2") for c in (plain, anchored))
    for name in ("score", "stderr", "lower", "upper"):
        assert np.allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-6)
    back = one.scaled("log-odds", anchor="i2")
    assert np.allclose(back.score, anchored.score)
    assert np.allclose(back.stderr, anchored.stderr, atol=1e-8)


def test_a_mean_of_models_has_the_variance_of_the_contrast() -> None:
    own = board()
    names = own.items[:2].tolist()
    elo = own.scaled("elo", anchor=names)
    assert np.isclose(elo.score[:2].mean(), 1000)
    for k in range(6):
        contrast = -np.array([0.5, 0.5, 0, 0, 0, 0])
        contrast[k] += 1
        assert np.isclose(elo.stderr[k], ELO_PER_LOGIT * np.sqrt(contrast @ own.covariance[0] @ contrast))  # type: ignore[index]


def test_the_board_stays_in_place_when_items_join() -> None:
    drawn = cc.synthetic.bradley_terry(8, 4000, random_state=5).comparisons
    known = [f"i{k}" for k in range(1, 7)]
    left, right = (np.array(drawn.items.take(c).tolist()) for c in (drawn.left, drawn.right))
    old = drawn.select_rows(np.isin(left, known) & np.isin(right, known))
    old = cc.Comparisons(
        "arena", None, *(old.items.take(c).tolist() for c in (old.left, old.right)), old.n_left, old.n_right
    )
    new = cc.Comparisons("arena", None, left, right, drawn.n_left, drawn.n_right)
    earlier = cc.BradleyTerry().fit_predict(old).scaled("elo", anchor="i1")
    later = cc.BradleyTerry().fit_predict(new).scaled("elo", anchor=earlier)
    place = {item: k for k, item in enumerate(later.items.tolist())}
    assert np.isclose(later.score[[place[i] for i in earlier.items.tolist()]].mean(), earlier.score.mean())
    # A board in log odds says only which items: their mean is at 1000.
    plain = cc.BradleyTerry().fit_predict(old)
    at_mean = cc.BradleyTerry().fit_predict(new).scaled("elo", anchor=plain)
    assert np.isclose(at_mean.score[[place[i] for i in plain.items.tolist()]].mean(), 1000)
    with pytest.warns(DataWarning, match="2 of 8 items of the earlier board are missing"):
        plain.scaled("elo", anchor=later)
    with pytest.raises(ParameterError, match="anchor_at= does not go with an earlier board"):
        later.scaled("elo", anchor=earlier, anchor_at=900)


def test_files_and_frames_say_the_scale(tmp_path: Path) -> None:
    elo = board().scaled("elo", anchor="i1").with_tiers()
    for name in ("board.csv", "board.parquet", "board.jsonl"):
        cc.write(elo, tmp_path / name)
    from concordant.io.tabular import read_consensus

    for name in ("board.csv", "board.parquet", "board.jsonl"):
        found = read_consensus(tmp_path / name)
        assert (found.scale, found.gauge) == ("elo", "item 'i1' is at 1000")
        # A reader numbers items in the order of the file, best first.
        assert np.allclose(found.tier, elo.tier[elo.order()])
        # Errors are taken as independent then.
        again = found.scaled("elo", anchor="i1")
        assert np.allclose(again.score, found.score)
    frame = cc.from_frame(elo.to_frame(), kind="consensus")
    assert frame.scale == "elo"
    assert "scale" not in board().to_frame().columns
    assert "Elo scale: item 'i1' is at 1000" in repr(elo)
    assert elo[[0]].scale == "elo"
    assert elo.top(2).difference(*elo.ranking()[:2]) == elo.difference(*elo.ranking()[:2])


def test_scores_of_files_are_taken_as_independent() -> None:
    known = cc.Consensus(["q"] * 3, list("abc"), [1.0, 0.0, -1.0], stderr=[0.3, 0.4, np.nan], scale="log-odds")
    elo = known.scaled("elo", anchor="b", anchor_at=0)
    assert np.allclose(elo.stderr[:2] / ELO_PER_LOGIT, [0.5, 0.0])
    assert np.isnan(elo.stderr[2])
    with pytest.raises(DataError, match="'c' was never compared"):
        known.scaled("elo", anchor="c")
    assert np.allclose(cc.Consensus(["q"] * 2, list("ab"), [1, 0], scale="elo").scaled(anchor="b").score, [1001, 1000])


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({}, ParameterError, "needs an origin"),
        ({"anchor": "nobody"}, DataError, "no item .*'nobody'.* to anchor"),
        ({"anchor": []}, ParameterError, "anchor"),
        ({"anchor": ["i1", "i1"]}, ParameterError, "anchor"),
        ({"scale": "points", "anchor": "i1"}, ParameterError, "'elo' or 'log-odds'"),
        ({"anchor": "i1", "anchor_at": float("nan")}, ParameterError, "anchor_at"),
        ({"anchor": cc.Consensus(["q"], ["x"], [1.0])}, DataError, "no item of instance"),
    ],
)
def test_what_cannot_be_scaled_is_refused(changed: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        board(4, 60).scaled(**changed)


def test_scores_that_are_no_log_odds_have_no_elo_scale() -> None:
    lists = cc.from_lists({"x": ["a", "b", "c"], "y": ["a", "c", "b"]})
    with pytest.raises(DataError, match="not known to be log odds"):
        cc.Borda().fit_predict(lists).scaled("elo", anchor="a")
    with pytest.raises(DataError, match="not known to be log odds"):
        cc.BradleyTerry(transform="rankdiff").fit_predict(lists).scaled("elo", anchor="a")
    assert cc.PlackettLuce().fit_predict(lists).scaled("elo", anchor="a").scale == "elo"
    votes = cc.synthetic.bradley_terry(4, 60, random_state=1).comparisons
    assert cc.Elo().fit_predict(votes).scaled("elo", anchor="i1").score[0] == 1000
    with pytest.raises(DataError, match="not known"):
        cc.Elo(scale=200).fit_predict(votes).scaled("elo", anchor="i1")


# Tiers.


def sure(c: cc.Consensus, a: int, b: int, tail: float) -> bool:
    """Whether item a is surely better than item b, one-sided at level `tail`, from the pair alone."""
    from scipy.stats import norm

    one = c.difference(c.items[a], c.items[b])
    wide = (one.upper - one.value) / one.stderr / norm.ppf(0.975)
    return one.value > norm.isf(tail) * one.stderr * wide


@pytest.mark.parametrize("strict", [False, True])
def test_tiers_by_their_definition(strict: bool) -> None:
    c = board(9, 900, seed=7)
    tier = c.with_tiers(strict=strict).tier
    m, order = len(tier), c.order().tolist()
    tail = 0.05 / (m - 1 if strict else m * (m - 1) / 2)
    want, t, first = np.zeros(m), 1, 0
    for k in range(m):
        heads = order[first:k] if strict else order[first : first + 1]
        if k > first and all(sure(c, a, b, tail) for a in heads for b in order[k:]):
            t, first = t + 1, k
        want[order[k]] = t
    assert tier.tolist() == want.tolist()
    assert want.max() > 1


@pytest.mark.parametrize("strict", [False, True])
def test_tiers_are_in_the_wrong_order_at_most_at_the_nominal_rate(strict: bool) -> None:
    from concordant.data.tiers import find_tiers

    rng = np.random.default_rng(4)
    wrong = cuts = 0
    n = 3000
    for case in range(n):
        # Pairs of equal items are the hardest: a cut between them is wrong half of the time.
        truth = np.repeat(np.arange(6) * 1.2, 2) + 1e-9 * np.arange(12) if case % 2 else rng.normal(size=12)
        root = rng.normal(size=(12, 12)) * 0.06 + np.diag(rng.uniform(0.1, 0.5, 12))
        score = truth + root @ rng.normal(size=12)
        tier = find_tiers(np.argsort(-score), score, root @ root.T, np.ones(12), 0.95, strict=strict)
        cuts += np.nanmax(tier) - 1
        violated = False
        for t in range(1, int(np.nanmax(tier))):
            above = np.flatnonzero(tier == t) if strict else [k for k in np.argsort(-score) if tier[k] == t][:1]
            violated |= bool(truth[above].min() < truth[tier > t].max())
        wrong += violated
    assert cuts > n / 3
    # 0.05 and three standard errors.
    assert wrong / n < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)


def test_newcomers_have_no_tier_and_join_none() -> None:
    c = cc.Consensus(["q"] * 5, list("abcde"), [3.0, 2.0, 1.0, 1.5, 0.5], stderr=[0.05, 0.05, 0.05, 2.0, np.nan])
    tier = c.with_tiers().tier
    assert tier[:3].tolist() == [1.0, 2.0, 3.0]
    assert np.isnan(tier[3:]).all()
    one = cc.Consensus(["q", "q", "r"], ["a", "b", "a"], [1.0, 1.0, 2.0], stderr=[0.0, 0.0, 1.0])
    assert one.with_tiers().tier.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(DataError, match="no standard errors"):
        cc.Consensus(["q"], ["a"], [1.0]).with_tiers()
    for bad in (0, 1, "x"):
        with pytest.raises(ParameterError, match="level"):
            c.with_tiers(bad)  # type: ignore[arg-type]


def test_the_advice_on_an_unknown_covariance_suits_tiers_and_scales(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concordant.data.score_scale.MOST_WITH_ALL_PAIRS", 2)
    read = cc.Consensus(["q"] * 3, list("abc"), [2.0, 1.0, 0.0], stderr=[0.1] * 3, scale="log-odds")
    for ask in (read.with_tiers, lambda: read.scaled("elo", anchor="a")):
        with pytest.raises(DataError, match=r"more than 2 items .* Use the consensus that the method returned"):
            ask()
