"""The generators follow the laws they name: counted frequencies against exact probabilities, at fixed seeds.

A count of n draws with probability p lies within five standard deviations, sqrt(n p (1 - p)), of n p.
"""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from math import exp, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.data import synthetic
from concordant.data.streams import id_hash, instance_stream
from concordant.errors import ParameterError


def assert_frequencies(counts: Counter[Any], law: dict[Any, float]) -> None:
    n = sum(counts.values())
    assert set(counts) <= set(law)
    assert sum(law.values()) == pytest.approx(1)
    for outcome, p in law.items():
        assert abs(counts[outcome] - n * p) <= 5 * sqrt(n * p * (1 - p)) + 1, (outcome, counts[outcome] / n, p)


def kendall(order: list[int]) -> int:
    return sum(order[i] > order[j] for i in range(len(order)) for j in range(i + 1, len(order)))


def orders_of(preferences: Any) -> list[list[str]]:
    """Every list as items best first, instance by instance."""
    out = []
    for a, b in zip(preferences.list_offsets[:-1], preferences.list_offsets[1:], strict=True):
        rows = np.argsort(preferences.value[a:b], kind="stable") + a
        out.append([preferences.items[int(s)] for s in preferences.slot[rows]])
    return out


# The stream of an instance.


def test_a_stream_depends_on_seed_and_id_only() -> None:
    draws = {(s, q): instance_stream(s, q).random(3).tolist() for s in (0, 1) for q in ("q1", "q2", "")}
    assert len({tuple(v) for v in draws.values()}) == 6
    assert instance_stream(0, "q1").random(3).tolist() == draws[0, "q1"]


def test_the_hash_is_fixed_for_all_time() -> None:
    # What `printf q1 | b2sum -l 64` prints, read as a little-endian number.
    assert id_hash("") == int.from_bytes(bytes.fromhex("e4a6a0577479b2b4"), "little")
    assert id_hash("q1") == int.from_bytes(bytes.fromhex("e7837aa50ee28068"), "little")
    assert id_hash("\ud800") != id_hash("")


GENERATORS = {
    "meta_search": lambda seed, n: synthetic.meta_search(n, random_state=seed).preferences,
    "mallows": lambda seed, n: synthetic.mallows(8, -0.4, 4, n, random_state=seed).preferences,
    "runs": lambda seed, n: synthetic.runs(n, skill=3, top=10, pool=30, random_state=seed).preferences,
}


@pytest.mark.parametrize("name", GENERATORS)
def test_more_instances_keep_those_there_were(name: str) -> None:
    make = GENERATORS[name]
    assert make(3, 9)[:4] == make(3, 4)
    assert make(3, 4) == make(3, 4)
    assert make(3, 4) != make(4, 4)
    assert len(make(3, 0)) == 0


@pytest.mark.parametrize("name", GENERATORS)
def test_no_global_state_is_used(name: str) -> None:
    np.random.seed(0)  # noqa: NPY002 - to see that it does not matter
    first = GENERATORS[name](1, 2)
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    GENERATORS[name](1, 2)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert GENERATORS[name](1, 2) == first


# Meta-search.


def test_labelled_runs_are_the_pair_of_meta_search() -> None:
    settings: dict[str, Any] = {"quality": {"x": 1.0, "y": -1.0}, "labels": (0, 3), "random_state": 4}
    preferences, labels = synthetic.labelled_runs(5, **settings)
    sample = synthetic.meta_search(5, **settings)
    assert (preferences, labels) == (sample.preferences, sample.labels)
    assert preferences.experts.tolist() == ["x", "y"]


def test_meta_search_follows_its_recipe() -> None:
    sample = synthetic.meta_search(3000, random_state=5)
    p, labels = sample.preferences, sample.labels
    assert p.kind == "rank"
    assert labels.slots == p.slots
    assert list(sample.quality.values()) == [2, 2, 1.5, 0.5, 0.5, 0, -1.5, -2]
    assert_frequencies(Counter(p.slots.sizes.tolist()), dict.fromkeys(range(10, 30), 1 / 20))
    assert_frequencies(Counter(labels.label.tolist()), {0.0: 4 / 7, 1.0: 2 / 7, 2.0: 1 / 7})
    cells = p.n_slots * p.n_experts
    assert_frequencies(Counter({"there": p.n_rows, "missing": cells - p.n_rows}), {"there": 0.6, "missing": 0.4})
    assert p.value.min() >= 1
    assert p.value.max() == 59
    assert np.array_equal(p.positions("min"), p.positions("max")), "an expert gives a rank once"


def test_meta_search_experts_see_the_label_as_strongly_as_stated() -> None:
    # Two items with labels 0 and 2, one expert, nothing missing: P(right order) = Phi(2 a / (1.5 sqrt 2)).
    for a in (1.0, 0.0, -0.7):
        sample = synthetic.meta_search(4000, quality=[a], labels=[0, 2], n_items=(2, 2), missing=0.0, random_state=2)
        label, rank = sample.labels.label.reshape(-1, 2), sample.preferences.value.reshape(-1, 2)
        differ = label[:, 0] != label[:, 1]
        right = ((label[:, 0] > label[:, 1]) == (rank[:, 0] < rank[:, 1]))[differ]
        p = NormalDist().cdf(2 * a / (1.5 * sqrt(2)))
        assert_frequencies(Counter(right.tolist()), {True: p, False: 1 - p})


def test_meta_search_ranks_are_a_uniform_subset() -> None:
    sample = synthetic.meta_search(3000, quality=[0.0], n_items=(2, 2), largest_rank=4, missing=0.0, random_state=1)
    pairs = Counter(tuple(sorted(pair)) for pair in sample.preferences.value.reshape(-1, 2).tolist())
    subsets = [(i, j) for i in range(1, 5) for j in range(i + 1, 5)]
    assert_frequencies(pairs, {(float(i), float(j)): 1 / 6 for i, j in subsets})


def test_meta_search_is_as_hard_as_it_was_when_specified() -> None:
    # The specification reports about 0.49 for reciprocal rank fusion on 150 queries of one seed.
    found = []
    for seed in range(4):
        sample = synthetic.meta_search(150, random_state=seed)
        fused = cc.aggregate(sample.preferences, "rrf")
        found.append(cc.evaluate(fused, sample.labels, ["ndcg@10"], convention="paper").mean["ndcg@10"])
    assert np.mean(found) == pytest.approx(0.49, abs=0.03)


def test_meta_search_keeps_items_nobody_ranks_and_experts_who_rank_nothing() -> None:
    sample = synthetic.meta_search(5, quality={"x": 1.0, "y": 0.0}, missing=1.0)
    assert sample.preferences.n_rows == 0
    assert sample.preferences.n_slots >= 50
    assert sample.preferences.experts == ["x", "y"]
    assert sample.quality == {"x": 1.0, "y": 0.0}


# Mallows.


def test_mallows_distances_follow_the_exact_law(golden: Any) -> None:
    case = golden("29_mallows_distance_distribution")["cases"][0]
    n, theta = case["input"]["n"], case["input"]["theta"]
    sample = synthetic.mallows(n, theta, 20_000, center="identity", random_state=11)
    seen = Counter(kendall([int(i[1:]) for i in order]) for order in orders_of(sample.preferences))
    assert_frequencies(seen, {int(d): p for d, p in case["expected"]["prob"].items()})


@pytest.mark.parametrize("theta", [0.0, -0.35, -2.0])
def test_mallows_gives_every_permutation_its_probability(theta: float) -> None:
    weight = {p: exp(theta * kendall(list(p))) for p in permutations((1, 2, 3, 4))}
    z = sum(weight.values())
    sample = synthetic.mallows(4, theta, 12_000, center="identity", random_state=3)
    seen = Counter(tuple(int(i[1:]) for i in order) for order in orders_of(sample.preferences))
    assert_frequencies(seen, {p: w / z for p, w in weight.items()})


def test_mallows_mean_distance_of_many_items(golden: Any) -> None:
    for case in golden("13_mallows_expectations")["cases"]:
        if "E_D" not in case["expected"]:
            continue
        sample = synthetic.mallows(case["input"]["n"], case["input"]["theta"], 300, n_instances=2, random_state=4)
        distance = []
        for q in sample.truth.instances:
            place = {i: k for k, i in enumerate(sample.truth.ranking(q))}
            distance += [kendall([place[i] for i in order]) for order in orders_of(sample.preferences[q])]
        error = np.std(distance) / sqrt(len(distance))
        assert abs(np.mean(distance) - case["expected"]["E_D"]) < 4 * error, case["name"]


def test_mallows_truth_and_dispersions() -> None:
    sample = synthetic.mallows(6, {"exact": -40.0, "noise": 0.0}, n_instances=20, random_state=8)
    assert sample.theta == {"exact": -40.0, "noise": 0.0}
    exact = orders_of(sample.preferences.select_experts(["exact"]))
    assert exact == [sample.truth.ranking(q) for q in sample.truth.instances]
    noise = orders_of(sample.preferences.select_experts(["noise"]))
    assert sum(a == b for a, b in zip(exact, noise, strict=True)) < 3
    assert len({tuple(o) for o in exact}) > 15, "centres differ from instance to instance"
    centred = synthetic.mallows(6, -40.0, 1, 3, center="identity")
    assert all(centred.truth.ranking(q) == [f"i{k}" for k in range(1, 7)] for q in centred.truth.instances)
    assert synthetic.mallows(1, -1.0, 2).preferences.n_rows == 2


# Plackett-Luce.


def test_plackett_luce_gives_every_ranking_its_probability() -> None:
    s = {"a": 1.0, "b": 0.0, "c": -0.5, "d": 0.2}
    law = {}
    for order in permutations(s):
        left, p = sum(exp(v) for v in s.values()), 1.0
        for item in order:
            p *= exp(s[item]) / left
            left -= exp(s[item])
        law[order] = p
    sample = synthetic.plackett_luce(s, 20_000, random_state=6)
    assert sample.scores == s
    assert_frequencies(Counter(map(tuple, orders_of(sample.preferences))), law)


def test_plackett_luce_first_choices_of_a_cut_list_and_of_a_choice_set() -> None:
    s = {"a": 1.5, "b": 0.0, "c": 0.0, "d": -1.0, "e": 0.3}
    z = sum(exp(v) for v in s.values())
    cut = synthetic.plackett_luce(s, 8000, length=1, random_state=1)
    assert cut.preferences.n_rows == 8000
    assert_frequencies(Counter(o[0] for o in orders_of(cut.preferences)), {i: exp(v) / z for i, v in s.items()})
    pairs = synthetic.plackett_luce(s, 20_000, choice=2, random_state=1)
    seen = Counter(map(tuple, orders_of(pairs.preferences)))
    law = {(i, j): exp(s[i]) / (exp(s[i]) + exp(s[j])) / 10 for i, j in permutations(s, 2)}
    assert_frequencies(seen, law)
    assert pairs.preferences.n_experts == 20_000


def test_plackett_luce_drawn_scores_are_centred_and_told() -> None:
    sample = synthetic.plackett_luce(50, 3, random_state=2)
    assert len(sample.scores) == 50
    assert sum(sample.scores.values()) == pytest.approx(0, abs=1e-12)
    assert 0.6 < np.std(list(sample.scores.values())) < 1.4
    assert synthetic.plackett_luce(50, 3, random_state=2).preferences == sample.preferences
    assert len(synthetic.plackett_luce([0.0, 1.0], 0).preferences) == 1


def test_plackett_luce_in_blocks_is_plackett_luce() -> None:
    # 3,000 items make a block of 1,333 rankings: the law must hold across blocks.
    s = [0.0] * 2999 + [9.0]
    p = exp(9) / (2999 + exp(9))
    sample = synthetic.plackett_luce(s, 3000, length=1, random_state=0)
    firsts = Counter(o[0] == "i3000" for o in orders_of(sample.preferences))
    assert_frequencies(firsts, {True: p, False: 1 - p})


# Bradley-Terry.


@pytest.mark.parametrize("nu", [0.0, 0.8])
def test_bradley_terry_outcomes_follow_the_exact_law(nu: float) -> None:
    s = {"a": 0.9, "b": 0.0, "c": -0.6}
    sample = synthetic.bradley_terry(s, 30_000, ties=nu, random_state=9)
    c = sample.comparisons
    assert sample.ties == nu
    assert sample.reliability == {}
    assert c.expert is None
    assert c.sided
    assert np.array_equal(c.n_left + c.n_right + c.n_ties, np.ones(30_000))
    law = {}
    for i, j in permutations(s, 2):
        win, lose = exp((s[i] - s[j]) / 2), exp((s[j] - s[i]) / 2)
        total = (win + lose + nu) * 6
        law |= {(i, j, "left"): win / total, (i, j, "right"): lose / total}
        law |= {(i, j, "tie"): nu / total} if nu else {}
    outcome = np.where(c.n_left == 1, "left", np.where(c.n_right == 1, "right", "tie")).tolist()
    left, right = c.items.take(c.left), c.items.take(c.right)
    assert_frequencies(Counter(zip(left, right, outcome, strict=True)), law)


def test_bradley_terry_unreliable_experts_flip_a_coin() -> None:
    sample = synthetic.bradley_terry(
        {"good": 3.0, "bad": -3.0}, 20_000, ties=0.5, n_experts=10, unreliable=0.4, random_state=1
    )
    c = sample.comparisons
    assert Counter(sample.reliability.values()) == {1.0: 6, 0.0: 4}
    assert c.expert is not None
    assert_frequencies(Counter(c.expert.tolist()), dict.fromkeys(range(10), 0.1))
    honest = np.array([sample.reliability[e] for e in c.experts])[c.expert] == 1
    good_is_left = c.left == 0
    won = np.where(good_is_left, c.n_left, c.n_right)
    coins = Counter(won[~honest].tolist())
    assert c.n_ties[~honest].sum() == 0
    assert_frequencies(coins, {1.0: 0.5, 0.0: 0.5})
    total = exp(3) + exp(-3) + 0.5
    assert_frequencies(Counter(won[honest].tolist()), {1.0: exp(3) / total, 0.0: 1 - exp(3) / total})


def test_bradley_terry_does_not_overflow() -> None:
    c = synthetic.bradley_terry([2000.0, 0.0], 200, ties=1.0).comparisons
    assert np.where(c.left == 0, c.n_left, c.n_right).sum() == 200


# Runs.


def test_runs_are_lists_of_the_best_scores_on_own_scales() -> None:
    sample = synthetic.runs(20, skill={"x": 1.5, "y": 0.5, "z": -1.0}, top=[30, 20, 10], pool=200, random_state=2)
    p = sample.preferences
    assert p.kind == "score"
    assert p.list_lengths.tolist() == [30, 20, 10] * 20
    assert sample.skill == {"x": 1.5, "y": 0.5, "z": -1.0}
    assert np.array_equal(p.positions("ordinal"), np.concatenate([np.arange(1, k + 1) for k in (30, 20, 10)] * 20))
    assert np.array_equal(np.round(p.value, 4), p.value)
    assert p.slot[p.list_offsets[0] : p.list_offsets[1]].tolist() == list(range(30)), "slots in first-seen order"
    assert len(np.unique(p.slot)) == p.n_slots, "only what a system lists"
    spread = [np.ptp(p.select_experts([e]).value) for e in "xyz"]
    assert max(spread) > 1.2 * min(spread)
    assert sample.labels.label.reshape(20, -1)[0].tolist() == [2.0, 1.0, 1.0] + [0.0] * 6


def test_runs_of_better_systems_hold_more_relevant_items() -> None:
    sample = synthetic.runs(60, skill={"good": 2.0, "fair": 0.7, "none": 0.0, "against": -1.0}, top=30, random_state=1)
    found = {}
    for e in sample.skill:
        one = sample.preferences.select_experts([e])
        label = sample.labels.align(one).label[one.slot]
        found[e] = np.nansum(label > 0) / (60 * 3)
    assert found["good"] > found["fair"] > found["none"] > found["against"]
    assert found["none"] == pytest.approx(0.1, abs=0.06), "30 of 300 at random"


def test_runs_with_few_decimals_tie() -> None:
    sample = synthetic.runs(5, skill=3, top=50, pool=100, decimals=0, relevant=0.12, random_state=1)
    p = sample.preferences
    assert (p.positions("min") < p.positions("max")).any()
    assert p.experts == ["sys1", "sys2", "sys3"]
    assert Counter(sample.labels["q1"].label.tolist()) == {3.0: 2, 2.0: 4, 1.0: 6, 0.0: 24}


# Errors.


def test_categories_of_an_arena() -> None:
    shares, truth = {"en": 6.0, "de": 4.0}, {"a": 1.0, "b": -1.0}
    given: dict[str, Any] = {"covariates": [], "ties": 0.0, "random_state": 3}
    plain = synthetic.arena(truth, 4000, **given)
    sample = synthetic.arena(truth, 4000, categories=shares, category_spread=0.8, **given)
    assert plain.by_category == {}
    # Categories are drawn by themselves: the pairs stay the same.
    assert (sample.comparisons.left == plain.comparisons.left).all()
    votes = sample.comparisons
    category = np.array(votes.categories.tolist())[votes.columns.category]
    assert_frequencies(Counter(category.tolist()), {"en": 0.6, "de": 0.4})
    for name, strength in sample.by_category.items():
        assert sum(strength.values()) == pytest.approx(sum(truth.values()))
        own = votes.select_category(name)
        won = float(np.where(own.left == 0, own.n_left, own.n_right).sum())
        p = 1 / (1 + exp(strength["b"] - strength["a"]))
        assert_frequencies(Counter({"a": won, "b": own.n_rows - won}), {"a": p, "b": 1 - p})
    assert sample.by_category["en"] != sample.by_category["de"]
    same = synthetic.arena(truth, 4000, categories=[1, 1], **given)
    assert list(same.by_category) == ["c1", "c2"]
    assert same.by_category["c1"] == pytest.approx(truth)
    assert (same.comparisons.n_left == plain.comparisons.n_left).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: synthetic.meta_search(-1), "'n_instances' parameter of meta_search"),
        (lambda: synthetic.meta_search(1, random_state=-1), "'random_state' parameter of meta_search"),
        (lambda: synthetic.meta_search(1, n_items=(9, 3)), "'n_items' parameter of meta_search"),
        (lambda: synthetic.meta_search(1, n_items=(9, 60)), "at most largest_rank"),
        (lambda: synthetic.meta_search(1, missing=1.5), "'missing' parameter of meta_search"),
        (lambda: synthetic.meta_search(1, quality=["a"]), "'quality' parameter of meta_search"),
        (lambda: synthetic.mallows(5, 0.3), "'theta' parameter of mallows must be <= 0"),
        (lambda: synthetic.mallows(5, [-0.3, -0.2], 3), "'n_experts' parameter of mallows"),
        (lambda: synthetic.mallows(0), "'n_items' parameter of mallows"),
        (lambda: synthetic.mallows(5, center="borda"), "'center' parameter of mallows"),
        (lambda: synthetic.plackett_luce([1.0, np.nan]), "'scores' parameter of plackett_luce"),
        (lambda: synthetic.plackett_luce(5, length=6), "'length' parameter of plackett_luce"),
        (lambda: synthetic.plackett_luce(5, choice=6), "'choice' parameter of plackett_luce"),
        (lambda: synthetic.plackett_luce(5, choice=2, length=3), "'length' parameter of plackett_luce"),
        (lambda: synthetic.bradley_terry([1.0]), "two items or more"),
        (lambda: synthetic.bradley_terry(True), "'scores' parameter of bradley_terry"),
        (lambda: synthetic.bradley_terry(3, ties=-1), "'ties' parameter of bradley_terry"),
        (lambda: synthetic.bradley_terry(3, unreliable=0.5), "0 when n_experts is not given"),
        (lambda: synthetic.arena(3, category_spread=0.5), "'categories' parameter of arena"),
        (lambda: synthetic.arena(3, categories=[1, -1]), "'categories' parameter of arena"),
        (lambda: synthetic.arena(3, categories=[1], category_spread=-1), "'category_spread' parameter of arena"),
        (lambda: synthetic.runs(2, top=400), "'top' parameter of runs"),
        (lambda: synthetic.runs(2, skill=3, top=[3, 3]), "'top' parameter of runs"),
        (lambda: synthetic.runs(2, relevant=0.5), "at most a third of the pool"),
        (lambda: synthetic.runs(2, pool=5), "'pool' parameter of runs"),
    ],
)
def test_parameters_out_of_range_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
