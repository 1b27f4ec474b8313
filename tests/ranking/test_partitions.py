"""Ordered partitions: probabilities add up, draws follow them, and the losses learn from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.oracles import partitions as oracle
from tests.oracles import staged

import concordant as cc
from concordant.errors import DataError, ParameterError
from concordant.kernels.graded_lists import GradedLists
from concordant.ranking import losses, partitions

Golden = Callable[[str], dict[str, Any]]
Floats = NDArray[np.float64]
POTENTIALS: list[partitions.Potential] = ["full", "general"]


def graded(labels: Any, offsets: list[int] | None = None) -> GradedLists:
    label = np.array(labels, dtype=np.float64)
    return GradedLists.of(label, np.array([0, len(label)] if offsets is None else offsets))


# Probabilities.


@pytest.mark.parametrize("potential", POTENTIALS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_probabilities_of_all_ordered_partitions_sum_to_one(n: int, potential: partitions.Potential) -> None:
    f = np.random.default_rng(n).normal(size=n) * 2
    every = list(staged.partitions(range(n)))
    assert len(every) == partitions.count(n)
    ranks = np.array([oracle.ranks_of(blocks) for blocks in every])
    logs = partitions.log_probability(f, ranks, potential=potential)
    assert math.fsum(np.exp(logs)) == pytest.approx(1.0, abs=1e-12)


@given(st.data())
def test_probabilities_are_those_of_the_definition(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 6))
    f = data.draw(st.lists(st.floats(-30, 30), min_size=n, max_size=n))
    ranks = data.draw(st.lists(st.integers(-2, 3), min_size=n, max_size=n))
    potential = data.draw(st.sampled_from(POTENTIALS))
    blocks = [[i for i in range(n) if ranks[i] == r] for r in sorted(set(ranks))]
    expected = oracle.log_probability(f, blocks, potential)
    assert partitions.log_probability(f, ranks, potential=potential) == pytest.approx(expected, rel=1e-11, abs=1e-11)
    named = dict(zip("abcdef", f, strict=False))
    ids = [{"abcdef"[i] for i in block} for block in blocks]
    assert partitions.log_probability(named, ids, potential=potential) == pytest.approx(expected, rel=1e-11, abs=1e-11)


def test_worked_case_of_the_full_decomposition(golden: Golden) -> None:
    content = golden("21_pmop_full_decomposition")
    first, fubini = content["cases"]
    X, w = np.array(first["input"]["X"]), np.array(first["input"]["w"])
    labels = np.array(first["input"]["labels"])
    expected = first["expected"]
    f = X @ w
    near = {"rtol": 0, "atol": content["abs_tol"]}
    np.testing.assert_allclose(f, expected["f"], **near)
    assert partitions.log_probability(f, -labels) == pytest.approx(expected["logp"], abs=content["abs_tol"])
    order = np.argsort(-labels, kind="stable")
    slope = np.empty(len(f))
    loss = losses.full_partitions(f[order], graded(labels[order]), slope)
    assert -loss == pytest.approx(expected["loglik_train"], abs=content["abs_tol"])
    np.testing.assert_allclose(-slope[np.argsort(order)], expected["grad_f"], **near)
    np.testing.assert_allclose(-slope @ X[order], expected["grad_w"], **near)
    for n, many, c in zip(fubini["input"]["N"], *fubini["expected"].values(), strict=True):
        assert partitions.count(n) == many
        # With equal scores all of n in one block have the probability 1 / (2^n − 1) = 1 / (C n).
        assert math.exp(-partitions.log_probability(np.zeros(n), np.ones(n))) / n == pytest.approx(c)


def test_worked_case_of_the_general_potential(golden: Golden) -> None:
    content = golden("22_pmop_general")
    (case,) = content["cases"]
    X, w = np.array(case["input"]["X"]), np.array(case["input"]["w"])
    labels = np.array(case["input"]["labels"])
    f = X @ w
    near = content["abs_tol"]
    expected = case["expected"]
    assert partitions.log_probability(f, -labels, potential="general") == pytest.approx(expected["logp"], abs=near)
    order = np.argsort(-labels, kind="stable")
    slope = np.empty(len(f))
    loss = partitions.general_partitions(f[order], graded(labels[order]), slope)
    assert -loss == pytest.approx(expected["logp"], abs=near)
    np.testing.assert_allclose(-slope @ X[order], expected["grad_w"], rtol=0, atol=near)


def test_counts_are_a_sum_over_powers() -> None:
    """Σ_{j ≥ 1} j^n / 2^(j + 1), and the numbers of the encyclopedia of sequences (A000670)."""
    assert [partitions.count(n) for n in range(9)] == [1, 1, 3, 13, 75, 541, 4683, 47293, 545835]
    for n in (5, 12, 20):
        series = sum(j**n * 2 ** (400 - j - 1) for j in range(1, 400)) / 2**400
        assert partitions.count(n) == pytest.approx(series, rel=1e-14)
    # Asymptotically n! / (2 (ln 2)^(n + 1)); beyond the range of a float.
    big = partitions.count(300)
    assert math.log(big) == pytest.approx(math.lgamma(301) - math.log(2) - 301 * math.log(math.log(2)), rel=1e-14)


def test_without_ties_the_full_potential_is_plackett_luce_times_what_could_have_been_tied() -> None:
    f = np.array([0.5, -1.0, 2.0, 0.1])
    chain = [2, 0, 3, 1]
    plackett_luce = sum(f[i] - np.logaddexp.reduce(f[chain[k:]]) for k, i in enumerate(chain))
    constants = sum(math.log((2**n - 1) / n) for n in range(1, 5))
    ranks = np.empty(4)
    ranks[chain] = [1, 2, 3, 4]
    assert partitions.log_probability(f, ranks) == pytest.approx(plackett_luce - constants, abs=1e-12)
    # Among rankings without ties the two are the same law.
    every = [b for b in staged.partitions(range(4)) if len(b) == 4]
    logs = partitions.log_probability(f, np.array([oracle.ranks_of(b) for b in every]))
    assert plackett_luce == pytest.approx(float(partitions.log_probability(f, ranks) - np.logaddexp.reduce(logs)))


def test_plackett_luce_with_ties_maximises_the_same_likelihood() -> None:
    """The scores of `PlackettLuce(ties="partition")` are stationary for the full potential plus the prior."""
    rng = np.random.default_rng(4)
    truth = rng.normal(size=6)
    ranks = partitions.sample(truth, 40, random_state=5)
    items = [f"i{k}" for k in range(6)]
    rows = [("q", f"e{e}", items[i], float(ranks[e, i])) for e in range(len(ranks)) for i in range(6)]
    preferences = cc.Preferences(*map(list, zip(*rows, strict=True)), kind="rank")
    prior = 0.3
    model = cc.PlackettLuce(ties="partition", prior=prior, tol=1e-10)
    found = model.fit_predict(preferences)
    score = np.array([found.score[found.items.tolist().index(i)] for i in items])

    def penalised(s: Floats) -> float:
        return float(np.sum(partitions.log_probability(s, ranks)) - 0.5 * prior * s @ s)

    best = penalised(score)
    for i in range(6):
        step = np.zeros(6)
        step[i] = 1e-4
        assert abs(penalised(score + step) - penalised(score - step)) / 2e-4 < 1e-5
    assert all(penalised(score + 0.05 * rng.normal(size=6)) < best for _ in range(20))


def test_large_scores_and_long_rankings_stay_finite() -> None:
    n = 1500
    rng = np.random.default_rng(0)
    for scale in (1e-6, 1.0, 1e3):
        f = rng.normal(size=n) * scale
        for potential in POTENTIALS:
            value = partitions.log_probability(f, rng.integers(0, 3, n), potential=potential)
            assert np.isfinite(value)
            assert value < 0


# Draws.


@pytest.mark.parametrize("potential", POTENTIALS)
def test_draws_are_as_frequent_as_they_are_probable(potential: partitions.Potential) -> None:
    from scipy.stats import chisquare

    f = [1.2, 0.0, -0.7]
    draws = 20_000
    rank = partitions.sample(f, draws, potential=potential, random_state=3)
    every = np.array([oracle.ranks_of(blocks) for blocks in staged.partitions(range(3))])
    seen = (rank[:, None] == every).all(axis=2).sum(axis=0)
    chance = np.exp(partitions.log_probability(f, every, potential=potential))
    assert seen.sum() == draws
    assert chisquare(seen, chance / chance.sum() * draws).pvalue > 1e-3


@pytest.mark.parametrize("potential", POTENTIALS)
def test_more_draws_keep_those_there_were(potential: partitions.Potential) -> None:
    f = np.random.default_rng(1).normal(size=20)
    many = partitions.sample(f, 9, potential=potential, random_state=7)
    np.testing.assert_array_equal(partitions.sample(f, 4, potential=potential, random_state=7), many[:4])
    assert (partitions.sample(f, 9, potential=potential, random_state=8) != many).any()
    np.testing.assert_array_equal(partitions.sample(f + 1e3, 9, potential=potential, random_state=7), many)
    named = {f"d{i}": x for i, x in enumerate(f.tolist())}
    for blocks, row in zip(partitions.sample(named, 9, potential=potential, random_state=7), many, strict=True):
        assert [[int(i[1:]) for i in block] for block in blocks] == [
            np.flatnonzero(row == r).tolist() for r in range(1, row.max() + 1)
        ]
    assert partitions.sample(f, 0, potential=potential).shape == (0, 20)
    assert partitions.sample([3.0], 2, potential=potential).tolist() == [[1], [1]]


def test_what_is_refused() -> None:
    f = [0.1, 0.2]
    for scores in ([], [[1.0]], [math.nan, 1.0], [math.inf], "ab", {"a": math.nan}, {}):
        with pytest.raises(ParameterError, match="'scores' parameter"):
            partitions.sample(scores)  # type: ignore[call-overload]
    with pytest.raises(ParameterError, match="'potential' parameter"):
        partitions.log_probability(f, [1, 2], potential="mean")  # type: ignore[call-overload]
    with pytest.raises(ParameterError, match="'n' parameter"):
        partitions.sample(f, -1)
    with pytest.raises(ParameterError, match="'n' parameter"):
        partitions.count(2.5)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="'random_state' parameter"):
        partitions.sample(f, random_state=-1)
    with pytest.raises(DataError, match=r"shape \(3,\), but there are 2 scores"):
        partitions.log_probability(f, [1, 2, 3])
    with pytest.raises(DataError, match="go with scores in a mapping"):
        partitions.log_probability(f, [["a"], ["b", "c"]])
    with pytest.raises(DataError, match=r"rank at \[1\] is missing"):
        partitions.log_probability(f, [1.0, math.nan])
    named = {"a": 0.1, "b": 0.2}
    for ranking, words in (
        ([1, 2], "block 1 must be a collection"),
        (["a", "b"], r"block 1 must be a collection of items, \['a'\] for a single one"),
        ("ab", "must be a list of blocks"),
        ({"a": 1}, "must be a list of blocks"),
        ([["a", "b"], []], "block 2 is empty"),
        ([["a"], ["a", "b"]], "item 'a' is in blocks 1 and 2"),
        ([["a", "b", "b"]], "item 'b' is in block 1, twice"),
        ([["a"], ["b", "c"]], r"items \['c'\] of the ranking have no score"),
        ([["a"]], r"items \['b'\] have a score and are in no block"),
    ):
        with pytest.raises(DataError, match=words):
            partitions.log_probability(named, ranking)


# Losses.

LISTS = GradedLists.of(
    np.array([2.0, 2.0, 1.0, 0.0, 0.0, 1.0, 1.0, 5.0, 3.0, 2.0, 2.0, 2.0, 0.0]),
    np.array([0, 5, 7, 7, 8, 13]),
    np.array([11, 22, 33, 44, 55], dtype=np.uint64),
)


def test_the_general_loss_is_minus_the_log_probability_and_its_slope() -> None:
    score = np.random.default_rng(2).normal(size=13) * 1.5
    slope = np.full(13, np.nan)
    loss = partitions.general_partitions(score, LISTS, slope)

    def by_hand(at: Floats) -> float:
        total = 0.0
        for a, b in zip(LISTS.offsets[:-1], LISTS.offsets[1:], strict=True):
            if b > a:
                total -= partitions.log_probability(at[a:b], -LISTS.label[a:b], potential="general")
        return total

    assert loss == pytest.approx(by_hand(score), rel=1e-13)
    for i in range(13):
        step = np.zeros(13)
        step[i] = 1e-4
        assert slope[i] == pytest.approx((by_hand(score + step) - by_hand(score - step)) / 2e-4, abs=1e-7)


def test_slopes_over_a_thousand_items_with_five_grades() -> None:
    rng = np.random.default_rng(5)
    lists = graded(np.sort(rng.integers(0, 5, 1000))[::-1])
    score = rng.normal(size=1000) * 3
    slope, none = np.empty(1000), np.empty(1000)
    partitions.general_partitions(score, lists, slope)
    v = rng.normal(size=1000)
    values = [partitions.general_partitions(score + t * 0.3 * v, lists, none) for t in (-2, -1, 1, 2)]
    along = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / 3.6
    assert float(slope @ v) == pytest.approx(along, rel=1e-8)


@pytest.mark.parametrize("kind", ["gibbs", "mh"])
def test_sampled_slopes_come_to_the_exact_ones(kind: str) -> None:
    score = np.random.default_rng(3).normal(size=13)
    exact, found = np.empty(13), np.empty(13)
    value = partitions.general_partitions(score, LISTS, exact)
    near = partitions.sampled_partitions(score, LISTS, found, kind=kind, n_samples=200_000)
    assert near == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(found, exact, atol=0.01)
    if kind == "mh":
        partitions.sampled_partitions(score, LISTS, found, kind=kind, n_samples=200_000, acceptance="printed")
        assert np.abs(found - exact).max() > 0.05


@pytest.mark.parametrize("kind", ["gibbs", "mh"])
def test_one_sample_starts_at_the_observed_block(kind: str) -> None:
    lists = graded([1.0, 1.0, 0.0])
    slope = np.empty(3)
    moved = []
    for turn in range(300):
        partitions.sampled_partitions(np.zeros(3), lists, slope, kind=kind, turn=turn)
        assert slope.sum() == pytest.approx(0.0, abs=1e-12)
        moved.append(bool(slope.any()))
    # Two stages of three and one item; the chain stays in the observed block sometimes, and often not.
    assert 0.5 < np.mean(moved) < 0.98
    # A block that outweighs all others is not left.
    partitions.sampled_partitions(np.array([80.0, -80.0, -80.0]), graded([1.0, 0.0, 0.0]), slope, kind=kind)
    assert slope[0] == 0.0


def test_chance_depends_on_seed_turn_and_key_alone() -> None:
    score = np.random.default_rng(3).normal(size=13)

    def slopes(lists: GradedLists, at: Floats, **more: Any) -> Floats:
        out = np.empty(len(at))
        partitions.sampled_partitions(at, lists, out, **more)
        return out

    whole = slopes(LISTS, score, seed=4, turn=9)
    np.testing.assert_array_equal(slopes(LISTS, score, seed=4, turn=9), whole)
    some, rows = LISTS.take(np.array([4, 0]))
    np.testing.assert_array_equal(slopes(some, score[rows], seed=4, turn=9), whole[rows])
    assert (slopes(LISTS, score, seed=4, turn=10) != whole).any()
    assert (slopes(LISTS, score, seed=5, turn=9) != whole).any()
    other = LISTS._replace(key=LISTS.key + np.uint64(1))
    assert (slopes(other, score, seed=4, turn=9) != whole).any()
