"""Curvature and clusters to intervals: closed forms of small cases, and laws that any gauge must obey."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from concordant.base.uncertainty import covariance, regauge, sample_covariance, with_intervals
from concordant.data.index import Slots, Texts


def slots(*sizes: int) -> Slots:
    items = [f"i{n}" for size in sizes for n in range(size)]
    return Slots(Texts([f"q{n}" for n in range(len(sizes))]), Texts(items), np.concatenate([[0], np.cumsum(sizes)]))


def random_information(m: int, seed: int) -> np.ndarray:
    """Return a weighted Laplacian, as pairwise models have it: singular along (1, ..., 1)."""
    w = np.random.default_rng(seed).uniform(0.5, 3, size=(m, m))
    w = np.triu(w, 1) + np.triu(w, 1).T
    return np.diag(w.sum(axis=1)) - w


def test_information_is_the_pseudo_inverse_of_a_laplacian() -> None:
    h = random_information(6, 1)
    assert np.allclose(covariance(h, scores=6, free_shift=True), np.linalg.pinv(h), atol=1e-12)


def test_what_else_was_estimated_widens_the_scores() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 5))
    h = x.T @ x
    full = covariance(h, scores=4)
    inverse = np.linalg.inv(h)[:4, :4]
    centre = np.eye(4) - 0.25
    assert np.allclose(full, centre @ inverse @ centre)
    assert (np.diag(full) >= np.diag(covariance(h[:4, :4], scores=4)) - 1e-12).all()


def test_sandwich_of_a_mean_is_the_variance_of_the_cluster_means() -> None:
    # The estimate of a mean by least squares, two columns: H = n I, gradients = x - mean.
    x = np.random.default_rng(3).normal(size=(30, 2)) * [1.0, 5.0]
    c = covariance(30 * np.eye(2), scores=2, gradients=x - x.mean(axis=0))
    gap = x[:, 0] - x[:, 1]
    assert c[0, 0] + c[1, 1] - 2 * c[0, 1] == pytest.approx(gap.var(ddof=1) / 30)


def test_weight_of_a_cluster_is_how_often_it_is_there() -> None:
    rng = np.random.default_rng(4)
    h, g = random_information(5, 4), rng.normal(size=(7, 5))
    w = np.array([1.0, 2, 1, 3, 1, 1, 2])
    twice = covariance(h, scores=5, gradients=np.repeat(g, w.astype(int), axis=0), free_shift=True)
    assert np.allclose(covariance(h, scores=5, gradients=g, weight=w, free_shift=True), twice)


def test_scores_that_are_a_linear_function_of_the_parameters() -> None:
    rng = np.random.default_rng(5)
    x, h = rng.normal(size=(6, 2)), np.array([[3.0, 1.0], [1.0, 2.0]])
    centre = np.eye(6) - 1 / 6
    assert np.allclose(covariance(h, scores=6, jacobian=x), centre @ x @ np.linalg.inv(h) @ x.T @ centre)


def test_differences_do_not_depend_on_the_gauge() -> None:
    c = covariance(random_information(5, 6), scores=5, free_shift=True)
    anchored = regauge(c, 3)
    assert np.allclose(anchored[3], 0)
    assert np.allclose(regauge(anchored, None), c)

    def of_differences(v: np.ndarray) -> np.ndarray:
        return np.diag(v)[:, None] + np.diag(v)[None, :] - 2 * v

    assert np.allclose(of_differences(anchored), of_differences(c))


def test_repeated_estimates_give_their_covariance() -> None:
    rng = np.random.default_rng(7)
    drawn = rng.multivariate_normal(np.zeros(3), np.diag([1.0, 2.0, 3.0]), size=400)
    centred = drawn - drawn.mean(axis=1, keepdims=True)
    assert np.allclose(sample_covariance(drawn + rng.normal(size=(400, 1))), np.cov(centred.T))


def test_intervals_follow_the_normal_law_or_students() -> None:
    c = np.diag([0.04, 0.09])
    plain = with_intervals(slots(2), np.array([1.0, 0.0]), [c], level=0.9, method="information")
    assert plain.upper is not None
    assert plain.stderr is not None
    assert plain.upper - plain.score == pytest.approx(stats.norm.ppf(0.95) * np.array([0.2, 0.3]))
    few = with_intervals(slots(2), np.array([1.0, 0.0]), [c], level=0.9, clusters=[5], method="sandwich")
    assert few.upper is not None
    assert few.upper - few.score == pytest.approx(stats.t.ppf(0.95, 4) * np.array([0.2, 0.3]))
    gap = few.difference("i0", "i1")
    assert gap.stderr == pytest.approx(np.sqrt(0.13))
    assert gap.upper - gap.value == pytest.approx(stats.t.ppf(0.95, 4) * np.sqrt(0.13))
    assert few.win_probability("i0", "i1") == pytest.approx(stats.norm.cdf(1 / np.sqrt(0.13)))


def test_win_probabilities_use_the_covariance_and_survive_taking_apart() -> None:
    c = np.array([[0.5, 0.4, 0.0], [0.4, 0.5, 0.0], [0.0, 0.0, 0.1]])
    score = np.array([0.3, 0.0, 5.0])
    both = with_intervals(slots(2, 3), np.concatenate([[0.0, 1.0], score]), [None, c], method="information")
    table = both.win_probabilities("q1")
    assert table[0, 1] == pytest.approx(stats.norm.cdf(0.3 / np.sqrt(0.2)))
    assert table[0, 1] + table[1, 0] == pytest.approx(1.0)
    assert table[0, 0] == 0.5
    assert both.win_probability("i0", "i1", "q1") == pytest.approx(table[0, 1])
    alone = both["q1"].top(2)
    assert alone.items.tolist() == ["i2", "i0"]
    assert alone.win_probabilities()[1, 0] == pytest.approx(table[0, 2])
    assert np.isnan(both.win_probabilities("q0")).sum() == 2  # nothing is known there but that an item equals itself
    assert both.rank_upper is not None
    assert both.rank_upper.tolist()[:2] == [2.0, 2.0]


def test_rank_intervals_count_who_is_surely_better_and_worse() -> None:
    score = np.array([10.0, 9.9, 0.0, -10.0])
    c = with_intervals(slots(4), score, [np.eye(4)], method="information")
    assert c.rank_lower is not None
    assert c.rank_upper is not None
    assert c.rank_lower.tolist() == [1, 1, 3, 4]
    assert c.rank_upper.tolist() == [2, 2, 3, 4]
    # A gap at the edge: sure at 95 % for one pair, not sure for one of three.
    edge = np.array([2.9, 0.0, 0.0, 0.0])
    pair = with_intervals(slots(2), edge[:2], [np.eye(2)], method="information")
    four = with_intervals(slots(4), edge, [np.eye(4)], method="information")
    assert pair.rank_upper is not None
    assert pair.rank_upper.tolist() == [1, 2]
    assert four.rank_upper is not None
    assert four.rank_upper.tolist() == [4, 4, 4, 4]


def test_items_nobody_speaks_of_have_no_interval_and_any_rank() -> None:
    score = np.array([5.0, 0.0, -5.0])
    c = with_intervals(slots(3), score, [0.01 * np.eye(3)], method="x", known=np.array([True, False, True]))
    assert c.lower is not None
    assert np.isnan(c.lower).tolist() == [False, True, False]
    assert c.rank_lower is not None
    assert c.rank_upper is not None
    assert c.rank_lower.tolist() == [1, 1, 2]
    assert c.rank_upper.tolist() == [2, 3, 3]


def test_experts_who_all_agree_show_no_certainty() -> None:
    said: list[str] = []
    c = with_intervals(slots(2, 2), np.arange(4.0), [np.zeros((2, 2)), np.eye(2)], method="x", warn=said.append)
    assert c.lower is not None
    assert np.isnan(c.lower).tolist() == [True, True, False, False]
    assert c.rank_upper is not None
    assert c.rank_upper.tolist()[:2] == [2, 2]
    assert len(said) == 1
    assert "['i0', 'i1'] of instance 'q0'" in said[0]


def test_scores_that_count_as_equal_are_never_surely_apart() -> None:
    table = np.array([[0.0, 0, 0], [0, 0, 0], [0, 0, 1.0]])
    c = with_intervals(slots(3), np.array([1.0, 1.0 + 1e-15, -1.0]), [table], method="x")
    assert c.rank_lower is not None
    assert c.rank_lower.tolist()[:2] == [1, 1]
