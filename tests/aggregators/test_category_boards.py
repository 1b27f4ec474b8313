"""Boards by category: partial pooling against plain NumPy and numeric integration, intervals, and differences."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import concordant as cc
from concordant.aggregators import _partial_pooling as pooling
from concordant.aggregators._pairwise_outcomes import ComparisonOutcomes
from concordant.aggregators._vote_outcomes import VoteOutcomes
from concordant.aggregators.category_boards import _split
from concordant.errors import ConcordantWarning, DataError, KindError, ParameterError, UncertaintyWarning
from concordant.kernels.bradley_terry import MODELS, Shared

SHARES = {"en": 0.6, "de": 0.3, "sw": 0.1}


def arena(items: int = 5, n: int = 600, **more: Any) -> cc.synthetic.ArenaSample:
    given = {"covariates": [], "categories": SHARES, "category_spread": 0.4, "random_state": 1}
    return cc.synthetic.arena(items, n, **given | more)


def split(votes: cc.Comparisons) -> cc.Comparisons:
    assert votes.columns.category is not None
    return _split(votes, votes.categories.tolist(), votes.columns.category.astype(np.int64))


def numeric_hessian(f: Any, x: Any) -> Any:
    step = 1e-4
    out = np.empty((len(x), len(x)))
    for i, j in itertools.product(range(len(x)), repeat=2):
        e, g = np.eye(len(x))[i] * step, np.eye(len(x))[j] * step
        out[i, j] = (f(x + e + g) - f(x + e - g) - f(x - e + g) + f(x - e - g)) / (4 * step * step)
    return out


# The model, given τ.


def test_the_mode_and_the_marginal_likelihood_are_those_of_a_dense_fit() -> None:
    sample = arena(3, 150, covariates={"length": 0.5}, side=0.3, ties=0.6)
    votes = split(sample.comparisons)
    c, m = len(votes), 3
    x = votes.covariates[:, 0]

    def loss(v: Any, tau: float) -> float:
        s, strength, (tie, side, beta) = v[: c * m], v[c * m : c * m + m], v[c * m + m :]
        z = s[votes.left] - s[votes.right] + side + beta * x
        log_sum = np.logaddexp(np.logaddexp(z / 2, -z / 2), tie)
        value = float(
            (votes.n_left * z / 2 - votes.n_right * z / 2 + votes.n_ties * tie - votes.outcomes * log_sum).sum()
        )
        apart = s.reshape(c, m) - strength
        return -(value - 0.5 * (apart**2).sum() / tau**2 - 0.05 * strength @ strength)

    outcomes = VoteOutcomes(votes, True, True, votes.covariates)
    model = pooling.PartialPooling(
        outcomes.counted, 0.1, Shared(MODELS["davidson"], 0.0, 0.0, (0.0,)), np.arange(3), np.ones(c)
    )
    dense = {}
    for tau in (0.3, 0.9):
        found = model.fit(tau)
        assert found.converged
        start = np.concatenate([found.score.ravel(), found.strength, found.shared.values]) + 0.01
        best = minimize(loss, start, (tau,), method="BFGS", options={"gtol": 1e-7})
        want = np.split(best.x, [c * m, c * m + m])
        assert found.score.ravel() == pytest.approx(want[0], abs=1e-5)
        assert found.strength == pytest.approx(want[1], abs=1e-5)
        assert found.shared.values == pytest.approx(want[2], abs=1e-5)
        hessian = numeric_hessian(lambda v, tau=tau: loss(v, tau), best.x)
        dense[tau] = -best.fun - c * m * np.log(tau) - 0.5 * np.linalg.slogdet(hessian)[1], found.log_density
        rows = model.at(found).inverse_rows()
        inverse = np.linalg.inv(hessian)
        kept = [*range(c * m), *range(c * m + m, len(best.x))]
        assert rows == pytest.approx(inverse[: c * m][:, kept], rel=1e-3, abs=1e-4)
    (first, own_first), (second, own_second) = dense.values()
    assert own_first - own_second == pytest.approx(first - second, abs=1e-3)


def test_a_weighted_category_counts_as_fewer_votes() -> None:
    votes = split(arena(n=200, ties=0.0).comparisons)
    shared, none = Shared(MODELS["none"]), np.zeros(0, dtype=np.int64)
    weight = np.array([0.5, 1.0, 2.0])
    factor = np.repeat(weight, np.diff(votes.row_starts))
    scaled = votes.with_counts(votes.n_left * factor, votes.n_right * factor, votes.n_ties)
    found = [
        pooling.PartialPooling(ComparisonOutcomes(v, False, False).counted, 0.1, shared, none, w).fit(0.5)
        for v, w in ((votes, weight), (scaled, np.ones(3)))
    ]
    assert found[0].score == pytest.approx(found[1].score, abs=1e-9)
    assert found[0].log_density == pytest.approx(found[1].log_density, abs=1e-8)


def test_without_a_prior_of_strengths_scores_are_finite_and_centred() -> None:
    sample = arena(n=900)
    boards = cc.category_boards(sample.comparisons, cc.BradleyTerry(prior=0))
    weak = cc.category_boards(sample.comparisons, cc.BradleyTerry(prior=1e-6))
    assert boards.by_category.score == pytest.approx(weak.by_category.score, abs=2e-3)
    assert boards.by_category.stderr == pytest.approx(weak.by_category.stderr, rel=5e-3)


# The integral over τ.


def test_scores_and_errors_are_those_of_numeric_integration() -> None:
    """Two items: the differences of their scores in two categories and τ have a density that a grid integrates."""
    wins = {"en": (130, 70), "de": (12, 28)}
    votes = cc.Comparisons("q", None, ["a", "a"], ["b", "b"], [130, 12], [70, 28], category=list(wins))
    boards = cc.category_boards(votes)
    tau = np.exp(np.linspace(np.log(1e-3), np.log(6.0), 160))
    d = np.linspace(-3.5, 3.5, 281)
    log_likelihood = [w * np.log(expit(d)) + v * np.log(expit(-d)) for w, v in wins.values()]
    one, other = np.meshgrid(d, d, indexing="ij")
    total = np.zeros(6)
    for t in tau:
        # d_c is the difference of the strengths plus that of the deviations; each strength has variance 10.
        k = 20.0 * np.ones((2, 2)) + 2 * t * t * np.eye(2)
        inverse = np.linalg.inv(k)
        prior = -0.5 * (inverse[0, 0] * one**2 + 2 * inverse[0, 1] * one * other + inverse[1, 1] * other**2)
        value = log_likelihood[0][:, None] + log_likelihood[1][None, :] + prior - 0.5 * np.linalg.slogdet(k)[1] + 155.0
        # Uniform in log τ: the density of τ times τ.
        p = np.exp(value - 0.5 * t * t) * t
        total += [p.sum(), (p * one).sum(), (p * one**2).sum(), (p * other).sum(), (p * other**2).sum(), p.sum() * t]
    mean_en, square_en, mean_de, square_de, mean_tau = total[1:] / total[0]
    for name, mean, square in (("en", mean_en, square_en), ("de", mean_de, square_de)):
        gap = boards[name].difference("a", "b")
        assert gap.value == pytest.approx(mean, abs=0.02)
        assert gap.stderr == pytest.approx(np.sqrt(square - mean**2), rel=0.05)
    assert boards.spread is not None
    assert boards.spread.value == pytest.approx(mean_tau, rel=0.05)
    assert boards.spread.lower < boards.spread.value < boards.spread.upper


def test_boards_lie_between_the_overall_one_and_those_of_categories_alone() -> None:
    same, apart = (arena(6, 4000, category_spread=spread).comparisons for spread in (0.0, 2.0))
    boards = cc.category_boards(same)
    for name in boards:
        assert boards[name].score == pytest.approx(boards.overall.score, abs=0.15)
    pooled, alone = (cc.category_boards(apart, pooling=how) for how in ("partial", "none"))
    assert pooled["en"].score == pytest.approx(alone["en"].score, abs=0.05)
    assert np.abs(pooled["en"].score - pooled.overall.score).max() > 0.3
    assert pooled.spread is not None
    assert boards.spread is not None
    assert boards.spread.value < 0.15
    assert 1.2 < pooled.spread.value < 3.0
    assert alone.spread is None
    # The smallest category gains most.
    assert (pooled["sw"].stderr < alone["sw"].stderr).all()


def test_intervals_hold_the_truth() -> None:
    held = []
    for seed in range(25):
        sample = arena(8, 900, random_state=seed)
        boards = cc.category_boards(sample.comparisons)
        for name in boards:
            board = boards[name]
            truth = np.array([sample.by_category[name][item] for item in board.items])
            held.append(np.abs(board.score - truth) <= board.upper - board.score)
    # 600 intervals, correlated within a data set.
    assert 0.91 < np.mean(held) < 0.985


# Experts.


def test_votes_that_are_repeated_by_their_experts_tell_no_more() -> None:
    """Four votes of each expert that say the same have the boards of one vote, with the same errors and spread."""
    votes = arena(5, 1500, ties=0.0).comparisons
    once, again = (
        cc.Comparisons.from_codes(
            votes.slots,
            cc.data.index.Texts([f"e{k}" for k in range(votes.n_rows)]),
            np.arange(votes.n_rows, dtype=np.int32),
            votes.left,
            votes.right,
            votes.n_left * times,
            votes.n_right * times,
            votes.n_ties,
            sided=False,
            columns=votes.columns,
        )
        for times in (1.0, 4.0)
    )
    one, four = cc.category_boards(once), cc.category_boards(again)
    naive = cc.category_boards(again, cc.BradleyTerry(uncertainty="information"))
    assert one.spread is not None
    assert four.spread is not None
    assert naive.spread is not None
    assert four.by_category.stderr == pytest.approx(one.by_category.stderr, rel=0.1)
    assert four.by_category.score == pytest.approx(one.by_category.score, abs=0.05)
    assert four.spread.value == pytest.approx(one.spread.value, rel=0.1)
    assert (naive.by_category.stderr < 0.8 * one.by_category.stderr).all()


def test_experts_who_agree_with_the_model_change_little() -> None:
    votes = arena(5, 2000, n_experts=400).comparisons
    clustered = cc.category_boards(votes)
    plain = cc.category_boards(votes, cc.BradleyTerry(uncertainty="information"))
    assert clustered.by_category.stderr == pytest.approx(plain.by_category.stderr, rel=0.25)
    assert "clustered by expert" in str(clustered.by_category.interval_method)
    assert clustered.differences().height == plain.differences().height == 15


def test_the_meat_over_categories_is_the_sum_over_experts() -> None:
    """Gradients by expert from plain loops, over all categories together."""
    votes = split(arena(4, 300, n_experts=20, ties=0.5).comparisons)
    shared, learned = Shared(MODELS["davidson"], -0.7), np.array([0])
    score = np.random.default_rng(0).normal(size=12)
    found = pooling._clusters_of(ComparisonOutcomes(votes, True, False), score, shared, learned)
    assert votes.expert is not None
    table, information = np.zeros((20, 12 + 3)), np.zeros((20, 12))
    for row in range(votes.n_rows):
        i, j, e = int(votes.left[row]), int(votes.right[row]), int(votes.expert[row])
        z = score[i] - score[j]
        weight = np.array([np.exp(z / 2), np.exp(-z / 2), np.exp(-0.7)])
        p = weight / weight.sum()
        counts = np.array([votes.n_left[row], votes.n_right[row], votes.n_ties[row]])
        half = np.array([0.5, -0.5, 0.0])
        slope = float((counts - counts.sum() * p) @ half)
        table[e, i] += slope
        table[e, j] -= slope
        table[e, 12 + i // 4] += counts[2] - counts.sum() * p[2]
        bend = counts.sum() * float(p @ half**2 - (p @ half) ** 2)
        information[e, [i, j]] += bend
    assert found.meat == pytest.approx(table.T @ table, abs=1e-9)
    assert found.information == pytest.approx(information.sum(axis=0), abs=1e-9)
    assert found.squares == pytest.approx((information**2).sum(axis=0), abs=1e-9)
    assert found.count == 20


def test_one_expert_gives_scores_without_intervals() -> None:
    sample = arena(n=300, n_experts=1)
    with pytest.warns(UncertaintyWarning, match="fewer than two experts"):
        boards = cc.category_boards(sample.comparisons)
    assert boards.by_category.stderr is None or np.isnan(boards.by_category.stderr).all()


# Differences.


def test_differences_are_those_of_the_scores_shown() -> None:
    boards = cc.category_boards(arena().comparisons)
    elo = boards.scaled("elo", anchor=["i1", "i2"])
    for board in (boards, elo):
        score = {name: dict(zip(board[name].items, board[name].score, strict=True)) for name in board}
        for row in board.differences("pairs").iter_rows(named=True):
            want = score[row["category"]][row["item"]] - score[row["against"]][row["item"]]
            assert row["difference"] == pytest.approx(want, abs=1e-9)
        for row in board.differences().iter_rows(named=True):
            rest = [score[name][row["item"]] for name in board if name != row["category"]]
            assert row["difference"] == pytest.approx(score[row["category"]][row["item"]] - np.mean(rest), abs=1e-9)
        named = board.differences("de")
        assert set(named["category"]) == {"en", "sw"}
        assert set(named["against"]) == {"de"}


def test_errors_of_differences_come_from_all_categories_together() -> None:
    """Draws from the posterior of all scores: errors of differences, and the share of the largest beyond the bound."""
    votes = arena(n=900).comparisons
    boards = cc.category_boards(votes)
    assert boards._pooled is not None
    parts, random = [], np.random.default_rng(7)
    for component in boards._pooled.components:
        values, vectors = np.linalg.eigh(component.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        n = round(component.weight * 20_000)
        parts.append(component.shift + random.standard_normal((n, len(root))) @ root.T)
    drawn = np.concatenate(parts).reshape(-1, 3, 5)
    assert np.cov(drawn.reshape(-1, 15).T) == pytest.approx(boards._pooled.covariance, abs=0.01)
    assert np.allclose(drawn.sum(axis=2), 0.0, atol=1e-6)
    apart = drawn - (drawn.sum(axis=1, keepdims=True) - drawn) / 2
    found = boards.differences()
    place = {item: k for k, item in enumerate(boards.overall.items)}
    z = []
    for row in found.iter_rows(named=True):
        draws = apart[:, boards.categories.index(row["category"]), place[row["item"]]]
        assert row["stderr"] == pytest.approx(draws.std(), rel=0.03)
        z.append(draws / row["stderr"])
    reach = ((found["upper"] - found["difference"]) / found["stderr"]).to_numpy()
    assert reach == pytest.approx(reach[0])
    largest = np.abs(np.array(z)).max(axis=0)
    assert (largest > reach[0]).mean() == pytest.approx(0.05, abs=0.012)
    ratio = np.abs(found["difference"] / found["stderr"]).to_numpy()
    for have, at in zip(found["p_value"], ratio, strict=True):
        assert have == pytest.approx((largest >= at).mean(), abs=0.025)
    assert 1.96 < reach[0] < 3.5
    higher = boards.differences(level=0.5)
    assert (higher["upper"] - higher["lower"] < found["upper"] - found["lower"]).all()


def test_one_difference_needs_no_correction() -> None:
    votes = cc.Comparisons("q", None, ["a", "a"], ["b", "b"], [60, 30], [40, 40], category=["en", "de"])
    found = cc.category_boards(votes).differences("de")
    # Two items whose scores have mean 0: their differences are one and the same.
    assert found["stderr"].to_list() == pytest.approx([found["stderr"][0]] * 2)
    reach = (found["upper"] - found["difference"]) / found["stderr"]
    assert reach.to_list() == pytest.approx([1.96] * 2, abs=0.08)


def test_an_anchor_does_not_differ() -> None:
    votes = arena().comparisons
    own = cc.category_boards(votes, cc.BradleyTerry(anchor="i2"))
    scaled = cc.category_boards(votes).scaled("log-odds", anchor="i2")
    for boards in (own, scaled):
        assert boards["sw"].score[boards["sw"].items.tolist().index("i2")] == 0.0
        assert "i2" not in boards.differences()["item"].to_list()
    key = ["item", "category"]
    one, other = (b.differences("pairs").sort([*key, "against"]) for b in (own, scaled))
    for name in ("difference", "stderr"):
        assert one[name].to_numpy() == pytest.approx(other[name].to_numpy(), abs=1e-8)


def test_categories_alone_are_taken_as_independent() -> None:
    boards = cc.category_boards(arena(n=1500).comparisons, pooling="none")
    for row in boards.differences("pairs").iter_rows(named=True):
        errors = []
        for name in (row["category"], row["against"]):
            board = boards[name]
            assert board.stderr is not None
            errors.append(board.stderr[board.items.tolist().index(row["item"])])
        assert row["stderr"] == pytest.approx(np.hypot(*errors), rel=1e-9)


# What is returned.


def test_the_overall_board_is_that_of_the_method() -> None:
    votes = arena(covariates={"length": 0.5}, side=0.2).comparisons
    method = cc.BradleyTerry(covariates=["length"], side_effect=True)
    boards = cc.category_boards(votes, method)
    assert boards.overall == cc.BradleyTerry(covariates=["length"], side_effect=True).fit_predict(votes)
    assert not hasattr(method, "tie_")
    assert set(boards.method.covariate_effects_) == {"length"}
    assert boards.categories == ["en", "de", "sw"]
    assert sum(boards.n_votes.values()) == 600
    assert list(boards) == boards.categories
    assert "en" in boards
    assert "fr" not in boards
    assert [boards[name].instances.tolist() for name in boards] == [["en"], ["de"], ["sw"]]
    assert len(boards) == 3


def test_the_order_of_votes_does_not_matter() -> None:
    votes = arena(n=400, n_experts=30).comparisons
    boards = cc.category_boards(votes)
    frame = votes.to_frame().sample(fraction=1.0, shuffle=True, seed=3)
    columns = {name: frame[name].to_list() for name in frame.columns}
    again = cc.category_boards(
        cc.Comparisons(
            "q",
            columns["expert"],
            columns["left"],
            columns["right"],
            columns["n_left"],
            columns["n_right"],
            columns["n_ties"],
            category=columns["category"],
        )
    )
    assert again.categories == boards.categories
    for name in boards:
        one, other = (dict(zip(b[name].items, b[name].score, strict=True)) for b in (boards, again))
        assert one == pytest.approx(other, abs=1e-7)


def test_ages_of_votes_count_in_categories_too() -> None:
    votes = arena(n=400).comparisons
    timed = votes._like(columns=votes.columns._replace(time=np.arange(votes.n_rows, dtype=np.float64)))
    boards = cc.category_boards(timed, cc.BradleyTerry(half_life=100.0))
    want = cc.category_boards(timed.discount(100.0), cc.BradleyTerry())
    assert boards.by_category.score == pytest.approx(want.by_category.score, abs=1e-6)


def test_votes_without_a_category_have_a_board() -> None:
    sample = arena().comparisons
    some = np.array([None if k % 4 == 0 else "x" for k in range(sample.n_rows)], dtype=object)
    frame = sample.to_frame()
    votes = cc.Comparisons(
        "q", None, frame["left"], frame["right"], sample.n_left, sample.n_right, sample.n_ties, category=some
    )
    boards = cc.category_boards(votes)
    assert boards.categories == ["x", "(none)"]
    assert boards.n_votes == {"x": 450.0, "(none)": 150.0}
    named = np.where(some == None, "(none)", some)  # noqa: E711
    named[1] = None
    clash = cc.Comparisons(
        "q", None, frame["left"], frame["right"], sample.n_left, sample.n_right, sample.n_ties, category=named
    )
    with pytest.raises(DataError, match="a category is called"):
        cc.category_boards(clash)


def test_an_item_that_a_category_never_compared_has_the_score_of_the_others() -> None:
    votes = cc.Comparisons(
        "q",
        None,
        ["a", "b", "a", "a"],
        ["b", "c", "c", "b"],
        [60, 70, 80, 10],
        [40, 30, 20, 10],
        category=["en", "en", "en", "de"],
    )
    board = cc.category_boards(votes)["de"]
    assert board.ranking()[-1] == "c"
    assert board.stderr is not None
    assert np.isfinite(board.stderr).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        alone = cc.category_boards(votes, pooling="none")
    assert np.isnan(alone["de"].stderr).any()
    assert len(alone.differences("en")) == 2


def test_boards_are_scaled_together() -> None:
    boards = cc.category_boards(arena().comparisons)
    elo = boards.scaled("elo", anchor="i3", anchor_at=1200)
    points = 400 / np.log(10)
    for name in (None, *boards):
        one, other = (b.overall if name is None else b[name] for b in (boards, elo))
        at = one.items.tolist().index("i3")
        assert other.score == pytest.approx(1200 + points * (one.score - one.score[at]))
        assert other.scale == "elo"
    assert boards.spread is not None
    assert elo.spread == pytest.approx(tuple(v * points for v in boards.spread))
    assert "points" in repr(elo)
    tiered = elo.with_tiers()
    assert tiered.overall.tier is not None
    assert tiered.by_category.tier is not None


def test_frames_and_texts() -> None:
    boards = cc.category_boards(arena(n_experts=20).comparisons)
    frame = boards.to_frame()
    assert frame.columns[:4] == ["category", "item", "score", "rank"]
    assert frame.height == 4 * 5
    first = frame.filter(pl.col("category").is_null())
    assert first["score"].to_list() == boards.overall.score[boards.overall.order()].tolist()
    assert frame.filter(category="de")["item"].to_list() == boards["de"].ranking()
    text = repr(boards)
    assert text.startswith("CategoryBoards: 3 categories, 5 items, partially pooled: scores differ by 0.")
    assert "\n  de (" in text
    assert "<th>overall</th>" in boards._repr_html_()
    assert "each from its own votes" in repr(cc.category_boards(arena().comparisons, pooling="none"))


# Errors.


def test_votes_without_categories_and_settings_that_do_not_go_with_them() -> None:
    votes = arena(n_experts=5).comparisons
    bare = votes.without_columns()
    with pytest.raises(DataError, match=r"no categories\. Read them with category='COLUMN'"):
        cc.category_boards(bare)
    with pytest.raises(DataError, match=r"two categories or more\. The votes have: 'de'"):
        cc.category_boards(votes.select_category("de"))
    two = cc.Comparisons(["p", "q"], None, ["a", "a"], ["b", "b"], category=["en", "de"])
    with pytest.raises(DataError, match="Got 2 instances"):
        cc.category_boards(two)
    with pytest.raises(ParameterError, match="pooling"):
        cc.category_boards(votes, pooling="complete")
    with pytest.raises(KindError, match="takes Comparisons"):
        cc.category_boards("votes")  # type: ignore[arg-type]
    with pytest.raises(KindError, match=r"fits BradleyTerry\. Got Elo"):
        cc.category_boards(votes, "elo")
    for params in ({"reliability": True}, {"families": {"i1": "f"}}, {"uncertainty": "bootstrap"}, {"optimizer": "gd"}):
        with pytest.raises(ParameterError, match="pooling='none'"):
            cc.category_boards(votes, cc.BradleyTerry(**params))
    few = arena(3, 150, n_experts=5).comparisons
    assert len(cc.category_boards(few, cc.BradleyTerry(reliability=True), pooling="none")) == 3


def test_what_boards_do_not_have() -> None:
    votes = arena().comparisons
    boards = cc.category_boards(votes, cc.BradleyTerry(uncertainty="none"))
    assert boards.by_category.stderr is None
    with pytest.raises(DataError, match=r"no category 'fr'\. Categories: \['en', 'de', 'sw'\]"):
        boards["fr"]
    with pytest.raises(DataError, match="no standard errors"):
        boards.differences()
    known = cc.category_boards(votes)
    with pytest.raises(DataError, match="no category 'fr'"):
        known.differences("fr")
    with pytest.raises(ParameterError, match="level"):
        known.differences(level=2)


def test_many_scores_have_no_intervals_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concordant.aggregators.category_boards.MOST_WITH_ALL_PAIRS", 10)
    votes = arena().comparisons
    with pytest.warns(UncertaintyWarning, match="15 scores of 3 categories"):
        assert cc.category_boards(votes).by_category.stderr is None
    asked = cc.category_boards(votes, cc.BradleyTerry(uncertainty="information"))
    assert asked.by_category.stderr is not None
