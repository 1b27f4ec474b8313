"""Curvature and clusters to intervals: closed forms of small cases, and laws that any gauge must obey."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from concordant.data.consensus import Consensus
from concordant.data.index import Slots, Texts
from concordant.errors import UncertaintyWarning
from concordant.inference.uncertainty import (
    Clusters,
    ScoreCovariance,
    _marginal_ranges,
    moderated,
    regauge,
    sample_covariance,
    score_covariance,
    with_intervals,
)


def slots(*sizes: int) -> Slots:
    items = [f"i{n}" for size in sizes for n in range(size)]
    return Slots(Texts([f"q{n}" for n in range(len(sizes))]), Texts(items), np.concatenate([[0], np.cumsum(sizes)]))


def random_information(m: int, seed: int) -> np.ndarray:
    """Return a weighted Laplacian, as pairwise models have it: singular along (1, ..., 1)."""
    w = np.random.default_rng(seed).uniform(0.5, 3, size=(m, m))
    w = np.triu(w, 1) + np.triu(w, 1).T
    return np.diag(w.sum(axis=1)) - w


def centred(c: np.ndarray) -> np.ndarray:
    centre = np.eye(len(c)) - 1 / len(c)
    return centre @ c @ centre


def consensus(score: Any, table: np.ndarray, **other: Any) -> Consensus:
    score = np.asarray(score, dtype=np.float64)
    return with_intervals(slots(len(score)), score, [ScoreCovariance.of(table)], method="x", **other)


def some_clusters(m: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return gradients of clusters that add up to 0, and their information."""
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(n, m))
    return gradients - gradients.mean(axis=0), rng.uniform(0.2, 2.0, size=(n, m))


def test_information_is_the_pseudo_inverse_of_a_laplacian() -> None:
    h = random_information(6, 1)
    assert np.allclose(score_covariance(h, scores=6).table, np.linalg.pinv(h), atol=1e-12)


def test_what_else_was_estimated_widens_the_scores() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 5))
    h = x.T @ x
    full = score_covariance(h, scores=4, prior=1e-12).table
    assert np.allclose(full, centred(np.linalg.inv(h)[:4, :4]))
    assert (np.diag(full) >= np.diag(score_covariance(h[:4, :4], scores=4, prior=1e-12).table) - 1e-12).all()


def test_with_a_prior_the_information_is_that_of_the_posterior() -> None:
    h = random_information(5, 3) + 0.4 * np.eye(5)
    assert np.allclose(score_covariance(h, scores=5, prior=0.4).table, centred(np.linalg.inv(h)))
    # Pairs of lists count an opinion three times over: the prior is three times as precise, its variance the same.
    whole = np.linalg.inv(h) @ (h - 0.4 * np.eye(5) + 3 * 0.4 * np.eye(5)) @ np.linalg.inv(h)
    assert np.allclose(score_covariance(h, scores=5, prior=0.4, calibration=3.0).table, centred(whole))


def by_hand(h: np.ndarray, gradients: np.ndarray, information: np.ndarray, prior: float, c: float) -> np.ndarray:
    """Return the moderated covariance, written out for each pair of items."""
    m, inverse = len(h), np.linalg.inv(h)
    meat = sum(np.outer(g, g) for g in gradients)
    own = centred(inverse @ (meat + c * prior * np.eye(m)) @ inverse)
    known = centred(inverse @ (h + (c - 1) * prior * np.eye(m)) @ inverse)
    count = [sum(information[:, i]) ** 2 / sum(information[:, i] ** 2) for i in range(m)]
    left = [1 - 1 / count[i] for i in range(m)]
    size = [sum(information[:, i] ** 2) / sum(information[:, i]) for i in range(m)]
    excess = sum(meat[i, i] / sum(information[:, i]) - left[i] for i in range(m))
    variance = max(excess / sum(left[i] * size[i] for i in range(m)), 0.0)
    out = np.empty((m, m))
    for i in range(m):
        for j in range(m):
            a = [count[k] / (count[k] + 9) for k in (i, j)]
            b = [10 / (count[k] + 9) * (1 + variance * size[k]) for k in (i, j)]
            out[i, j] = np.sqrt(a[0] * a[1]) * own[i, j] + np.sqrt(b[0] * b[1]) * known[i, j]
    return out


@pytest.mark.parametrize(("prior", "calibration"), [(0.1, 1.0), (0.7, 2.5)])
@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_clusters_are_moderated_by_a_design_effect_that_items_share(
    prior: float, calibration: float, scale: float
) -> None:
    h = random_information(5, 4) + prior * np.eye(5)
    gradients, information = some_clusters(5, 12, 5)
    got = score_covariance(
        h, scores=5, prior=prior, calibration=calibration, clusters=Clusters.of(scale * gradients, information)
    )
    assert np.allclose(got.table, by_hand(h, scale * gradients, information, prior, calibration))
    assert np.linalg.eigvalsh(got.table).min() > -1e-12
    assert np.allclose(got.clusters, information.sum(axis=0) ** 2 / (information**2).sum(axis=0))


def test_many_clusters_give_the_sandwich() -> None:
    h = 100 * random_information(4, 6)
    gradients, information = some_clusters(4, 20_000, 7)
    gradients -= gradients.mean(axis=1, keepdims=True)
    got = score_covariance(h, scores=4, clusters=Clusters.of(3 * gradients, information)).table
    inverse = np.linalg.pinv(h)
    assert np.allclose(got, 9 * inverse @ gradients.T @ gradients @ inverse, rtol=2e-3, atol=1e-9)


def test_an_item_of_one_cluster_has_the_information_times_the_shared_design_effect() -> None:
    # The last item is known to cluster 0 alone, whose gradient for it is 0 at the optimum.
    rng = np.random.default_rng(8)
    gradients, information = some_clusters(6, 30, 9)
    gradients[:, -1], information[1:, -1] = 0.0, 0.0
    h = random_information(6, 10) * 20
    tastes = 2.0 * gradients * np.sqrt(information) * rng.choice([0.5, 1.5], size=(30, 1))
    got = score_covariance(h, scores=6, clusters=Clusters.of(tastes, information))
    plain = np.diag(np.linalg.pinv(h))
    assert got.clusters[-1] == pytest.approx(1.0)
    assert got.table[-1, -1] > plain[-1]
    alone = score_covariance(h, scores=6, clusters=Clusters.of(np.sqrt(0.1) * gradients, information))
    # Clusters that differ less than chance has no design effect below 1.
    assert alone.table[-1, -1] >= plain[-1]


def test_one_expert_of_weight_three_is_three_alike() -> None:
    h = random_information(5, 11)
    gradients, information = some_clusters(5, 7, 12)
    w = np.array([1.0, 2, 1, 3, 1, 1, 2])
    times = w.astype(int)
    each = Clusters.of(np.repeat(gradients, times, axis=0), np.repeat(information, times, axis=0))
    got = score_covariance(h, scores=5, clusters=Clusters.of(gradients, information, w))
    want = score_covariance(h, scores=5, clusters=each)
    assert np.allclose(got.table, want.table)
    assert np.allclose(got.freedom, want.freedom)


def test_instances_of_one_size_are_done_together_as_each_alone() -> None:
    parts = []
    for seed in (13, 14, 15):
        h = random_information(4, seed) + 0.1 * np.eye(4)
        parts.append((h, Clusters.of(*some_clusters(4, 9, seed + 50))))
    stacked = Clusters(*(np.stack([np.asarray(c[k]) for _, c in parts]) for k in range(5)))
    prior = np.full((3, 1), 0.1)
    together = score_covariance(np.stack([h for h, _ in parts]), scores=4, prior=prior, clusters=stacked)
    for k, (h, clusters) in enumerate(parts):
        alone = score_covariance(h, scores=4, prior=0.1, clusters=clusters)
        one = together.one(k)
        assert np.allclose(one.table, alone.table, atol=1e-12)
        assert np.allclose(one.freedom, alone.freedom)
        assert bool(one.unanimous) == bool(alone.unanimous)


def test_clusters_that_all_say_the_same_leave_the_information() -> None:
    h = random_information(4, 16) + 0.2 * np.eye(4)
    gradients, information = some_clusters(4, 9, 17)
    got = score_covariance(h, scores=4, prior=0.2, clusters=Clusters.of(0.0 * gradients, information))
    assert got.unanimous
    assert np.allclose(got.table, centred(np.linalg.inv(h)))


def test_few_clusters_leave_few_degrees_of_freedom_and_many_leave_many() -> None:
    h, found = random_information(5, 18) * 10, []
    for n in (4, 4000):
        gradients, information = some_clusters(5, n, 19)
        # Experts with tastes: far more spread than chance.
        found.append(score_covariance(h, scores=5, clusters=Clusters.of(5 * gradients, information)).freedom)
    few, many = found[0].max(), found[1].min()
    assert few < 40 < 400 < many


def test_an_item_nobody_speaks_of_does_not_widen_the_others() -> None:
    h = np.zeros((5, 5))
    h[:4, :4] = random_information(4, 20)
    h += 0.1 * np.eye(5)
    own = np.zeros((5, 5))
    own[:4, :4] = np.linalg.inv(h[:4, :4])
    assert np.allclose(score_covariance(h, scores=5, prior=0.1).table, centred(own))


def test_repeated_estimates_stand_in_for_the_sandwich() -> None:
    h = random_information(4, 21)
    clusters = Clusters.of(*some_clusters(4, 12, 22))
    inverse = np.linalg.pinv(h)
    want = score_covariance(h, scores=4, clusters=clusters).table
    got = score_covariance(h, scores=4, clusters=clusters, repeated=centred(inverse @ clusters.meat @ inverse)).table
    assert np.allclose(got, want)
    # Without experts they are all there is.
    assert np.allclose(score_covariance(h, scores=4, repeated=inverse).table, inverse)


def test_an_expert_who_leaves_an_item_out_does_not_count_for_it() -> None:
    gradients, information = some_clusters(3, 30, 23)
    known = centred(np.diag([1.0, 2.0, 3.0]))
    own = 1e-3 * known
    got = moderated(known, own, Clusters.of(gradients, information), effective=np.array([30.0, 30.0, 1.0]))
    assert got.table[2, 2] / known[2, 2] > 3 * got.table[0, 0] / known[0, 0]


def test_differences_do_not_depend_on_the_gauge() -> None:
    c = score_covariance(random_information(5, 6), scores=5).table
    anchored = regauge(c, 3)
    assert np.allclose(anchored[3], 0)
    assert np.allclose(regauge(anchored, None), c)

    def of_differences(v: np.ndarray) -> np.ndarray:
        return np.diag(v)[:, None] + np.diag(v)[None, :] - 2 * v

    assert np.allclose(of_differences(anchored), of_differences(c))


def test_an_anchored_score_is_as_sure_as_its_difference_from_the_anchor() -> None:
    both = ScoreCovariance(np.diag([1.0, 4.0, 2.0]), np.array([5.0, 20.0, np.inf]), np.ones(3), False).anchored(1)
    assert both.freedom[0] == pytest.approx(25 / (1 / 5 + 16 / 20))
    assert both.freedom[2] == pytest.approx(36 / (16 / 20))


def test_repeated_estimates_give_their_covariance() -> None:
    rng = np.random.default_rng(7)
    drawn = rng.multivariate_normal(np.zeros(3), np.diag([1.0, 2.0, 3.0]), size=400)
    apart = drawn - drawn.mean(axis=1, keepdims=True)
    assert np.allclose(sample_covariance(drawn + rng.normal(size=(400, 1))), np.cov(apart.T))


def test_intervals_follow_the_normal_law_or_students() -> None:
    c = np.diag([0.04, 0.09])
    plain = consensus([1.0, 0.0], c, level=0.9)
    assert plain.upper is not None
    assert plain.upper - plain.score == pytest.approx(stats.norm.ppf(0.95) * np.array([0.2, 0.3]))
    four = ScoreCovariance(c, np.array([4.0, 4.0]), np.full(2, 5.0), False)
    few = with_intervals(slots(2), np.array([1.0, 0.0]), [four], level=0.9, method="sandwich")
    assert few.upper is not None
    wide = stats.t.ppf(0.95, 4)
    assert few.upper - few.score == pytest.approx(wide * np.array([0.2, 0.3]))
    gap = few.difference("i0", "i1")
    assert gap.stderr == pytest.approx(np.sqrt(0.13))
    assert gap.upper - gap.value == pytest.approx(wide * np.sqrt(0.13))
    # The probability agrees with the interval: it is 95 % where the lower end of a 90 % interval is 0.
    far = wide / stats.norm.ppf(0.95) * np.sqrt(0.13)
    assert few.probability_better("i0", "i1") == pytest.approx(stats.norm.cdf(1 / far))
    assert few.probabilities_better()[0, 1] == pytest.approx(stats.norm.cdf(1 / far))


def test_the_interval_of_a_difference_lies_between_those_of_its_items() -> None:
    c = ScoreCovariance(np.diag([1.0, 1.0]), np.array([2.0, np.inf]), np.full(2, 5.0), False)
    one = with_intervals(slots(2), np.array([0.0, 0.0]), [c], method="x")
    t, z = stats.t.ppf(0.975, 2), stats.norm.ppf(0.975)
    assert one.difference("i0", "i1").upper == pytest.approx(np.sqrt((t**2 + z**2) / 2) * np.sqrt(2))


def test_probabilities_better_use_the_covariance_and_survive_taking_apart() -> None:
    c = np.array([[0.5, 0.4, 0.0], [0.4, 0.5, 0.0], [0.0, 0.0, 0.1]])
    score = np.concatenate([[0.0, 1.0], [0.3, 0.0, 5.0]])
    both = with_intervals(slots(2, 3), score, [None, ScoreCovariance.of(c)], method="information")
    table = both.probabilities_better("q1")
    assert table[0, 1] == pytest.approx(stats.norm.cdf(0.3 / np.sqrt(0.2)))
    assert table[0, 1] + table[1, 0] == pytest.approx(1.0)
    assert table[0, 0] == 0.5
    assert both.probability_better("i0", "i1", "q1") == pytest.approx(table[0, 1])
    alone = both["q1"].top(2)
    assert alone.items.tolist() == ["i2", "i0"]
    assert alone.probabilities_better()[1, 0] == pytest.approx(table[0, 2])
    assert np.isnan(both.probabilities_better("q0")).sum() == 2  # nothing is known there but that an item equals itself
    assert both.rank_upper is not None
    assert both.rank_upper.tolist()[:2] == [2.0, 2.0]


def test_simultaneous_ranges_count_who_is_surely_better_and_worse() -> None:
    c = consensus([10.0, 9.9, 0.0, -10.0], np.eye(4), rank_ranges="simultaneous")
    assert c.rank_lower is not None
    assert c.rank_upper is not None
    assert c.rank_lower.tolist() == [1, 1, 3, 4]
    assert c.rank_upper.tolist() == [2, 2, 3, 4]
    # A gap at the edge: sure at 95 % for one pair, not sure for one of three.
    edge = [2.9, 0.0, 0.0, 0.0]
    pair = consensus(edge[:2], np.eye(2), rank_ranges="simultaneous")
    four = consensus(edge, np.eye(4), rank_ranges="simultaneous")
    assert pair.rank_upper is not None
    assert pair.rank_upper.tolist() == [1, 2]
    assert four.rank_upper is not None
    assert four.rank_upper.tolist() == [4, 4, 4, 4]


def test_marginal_ranges_are_quantiles_of_the_ranks_of_the_posterior() -> None:
    rng = np.random.default_rng(24)
    m = 15
    root = rng.normal(size=(m, m)) / np.sqrt(m)
    table = centred(0.1 * np.diag(rng.uniform(0.2, 2.0, m)) + 0.05 * root @ root.T)
    score = rng.normal(size=m)
    score -= score.mean()
    # What the true scores may be, given the estimates and a normal field whose variance is learned.
    between = score @ score / (m - 1) - np.trace(table) / (m - 1)
    shrunk = between * np.linalg.inv(table + between * np.eye(m))
    drawn = rng.multivariate_normal(shrunk @ score, shrunk @ table, size=60_000, method="eigh")
    rank = (-drawn).argsort(axis=1).argsort(axis=1) + 1.0
    got = consensus(score, table)
    assert got.rank_lower is not None
    assert got.rank_upper is not None
    inside = ((got.rank_lower <= rank) & (rank <= got.rank_upper)).mean(axis=0)
    assert inside.min() > 0.93
    assert inside.mean() < 0.99
    low, high = np.quantile(rank, [0.025, 0.975], axis=0)
    assert np.abs(got.rank_lower - low).max() <= 1.0
    assert np.abs(got.rank_upper - high).max() <= 1.0
    wide = consensus(score, table, rank_ranges="simultaneous")
    assert wide.rank_lower is not None
    assert wide.rank_upper is not None
    assert (wide.rank_upper - wide.rank_lower).mean() > 1.2 * (got.rank_upper - got.rank_lower).mean()


def test_clear_ranks_are_told_and_many_instances_get_those_each_gets_alone() -> None:
    clear = consensus([4.0, 2.0, 0.0, -2.0, -4.0], 1e-4 * np.eye(5))
    assert clear.rank_lower is not None
    assert clear.rank_upper is not None
    assert clear.rank_lower.tolist() == clear.rank_upper.tolist() == [1, 2, 3, 4, 5]
    rng = np.random.default_rng(26)
    tables = [np.diag(rng.uniform(0.1, 1.0, m)) for m in (3, 4, 3)]
    scores = rng.normal(size=10)
    both = with_intervals(slots(3, 4, 3), scores, [ScoreCovariance.of(t) for t in tables], method="x")
    alone = [consensus(scores[a:b], t) for a, b, t in zip((0, 3, 7), (3, 7, 10), tables, strict=True)]
    for name in ("rank_lower", "rank_upper"):
        np.testing.assert_array_equal(getattr(both, name), np.concatenate([getattr(one, name) for one in alone]))


def test_marginal_ranges_hold_true_ranks_of_fields_narrow_and_wide() -> None:
    rng = np.random.default_rng(24)
    for spread_of_scores in (0.1, 1.0, 4.0):
        held = []
        for _ in range(200):
            truth = spread_of_scores * rng.normal(size=12)
            error = rng.uniform(0.5, 1.5, size=12)
            found = consensus(truth + error * rng.normal(size=12), np.diag(error**2))
            rank = 1 + (truth[None, :] > truth[:, None]).sum(axis=1)
            held.append((found.rank_lower <= rank) & (rank <= found.rank_upper))
        assert 0.94 < np.mean(held) < 1.0


def test_few_degrees_of_freedom_widen_ranges() -> None:
    table = np.diag([1.0, 1.0])
    for freedom, upper in ((np.inf, 1.0), (2.0, 2.0)):
        one = ScoreCovariance(table, np.full(2, freedom), np.full(2, 9.0), False)
        c = with_intervals(slots(2), np.array([4.0, 0.0]), [one], method="x")
        assert c.rank_upper is not None
        assert c.rank_upper[0] == upper


def test_items_nobody_speaks_of_have_no_interval_and_any_rank() -> None:
    for ranges in ("marginal", "simultaneous"):
        c = consensus([5.0, 0.0, -5.0], 0.01 * np.eye(3), known=np.array([True, False, True]), rank_ranges=ranges)
        assert c.lower is not None
        assert np.isnan(c.lower).tolist() == [False, True, False]
        assert c.rank_lower is not None
        assert c.rank_upper is not None
        assert c.rank_lower.tolist() == [1, 1, 2]
        assert c.rank_upper.tolist() == [2, 3, 3]


def test_items_of_few_experts_are_named_once_and_unanimous_instances_too() -> None:
    said: list[tuple[str, type]] = []
    few = ScoreCovariance(np.eye(3), np.full(3, np.inf), np.array([20.0, 1.0, 2.5]), False)
    same = ScoreCovariance(np.eye(2), np.full(2, np.inf), np.full(2, 3.0), True)
    with_intervals(
        slots(3, 2), np.arange(5.0), [few, same], method="x", warn=lambda text, kind: said.append((text, kind))
    )
    assert [kind for _, kind in said] == [UncertaintyWarning, UncertaintyWarning]
    assert "items ['i1', 'i2'] of instance 'q0'" in said[0][0]
    assert "['i0', 'i1'] of instance 'q1'" in said[1][0]


def test_few_experts_in_all_are_no_reason_to_name_items() -> None:
    said: list[str] = []
    few = ScoreCovariance(np.eye(3), np.full(3, np.inf), np.array([3.0, 1.0, 2.5]), False)
    with_intervals(slots(3), np.arange(3.0), [few], method="x", warn=lambda *told: said.append(told[0]))
    assert not said


def test_scores_that_count_as_equal_are_never_surely_apart() -> None:
    table = np.array([[0.0, 0, 0], [0, 0, 0], [0, 0, 1.0]])
    for ranges in ("marginal", "simultaneous"):
        c = consensus([1.0, 1.0 + 1e-15, -1.0], table, rank_ranges=ranges)
        assert c.rank_lower is not None
        assert c.rank_lower.tolist()[:2] == [1, 1]


def test_ranges_of_ranks_do_not_follow_the_noise_of_an_estimated_covariance() -> None:
    rng = np.random.default_rng(27)
    m, experts = 60, 60
    score = np.sort(rng.normal(size=m))[::-1]
    known = consensus(score, centred(0.4 * np.eye(m)))
    # The same errors, their covariance estimated from as many experts as there are items.
    gradients = rng.normal(size=(experts, m)) * np.sqrt(0.4 / experts)
    found = consensus(score, centred(gradients.T @ gradients))
    for name in ("rank_lower", "rank_upper"):
        gap = np.abs(getattr(found, name) - getattr(known, name))
        assert gap.mean() < 1.5
        assert gap.max() <= 10


def test_single_precision_gives_many_items_the_same_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(27)
    m = 300
    root = rng.normal(size=(m, 2 * m)) / np.sqrt(2 * m)
    table = centred(0.05 * np.eye(m) + 0.03 * root @ root.T)
    score = rng.normal(size=m)
    single = consensus(score, table)
    monkeypatch.setattr("concordant.inference.uncertainty._MANY_RANKED", m)
    double = consensus(score, table)
    for name in ("rank_lower", "rank_upper"):
        gap = np.abs(getattr(single, name) - getattr(double, name))
        assert gap.max() <= 1.0
        assert gap.mean() < 0.01


def test_ranges_of_ranks_where_one_variance_vanishes() -> None:
    # As at a stationary point that is no maximum. Warnings of overflow are errors here.
    covariance = np.diag([1.0, 1.0, 0.0])
    covariance[0, 2] = covariance[2, 0] = 1e-170
    lowest, highest = _marginal_ranges(np.array([[1.0, 0.0, -1.0]]), covariance[None], np.full((1, 3), 1.96), 0.95)
    assert ((lowest >= 1) & (lowest <= highest) & (highest <= 3)).all()
    assert lowest[0, 0] <= lowest[0, 2]
