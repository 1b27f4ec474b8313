"""Mallows models against enumeration, and against the rankings they were made from."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from itertools import combinations, pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from tests.oracles import mallows as oracle

import concordant as cc
from concordant.aggregators._mallows import (
    ChainPair,
    EnergyBuffer,
    ExpectedDistances,
    ObservedDistances,
    exact_record,
    pools_of,
)
from concordant.data.consensus import Consensus
from concordant.errors import ConcordantWarning, DataError, FormatError, NotFittedError, ParameterError
from concordant.execution import InMemory, force_threads
from concordant.kernels import mallows

Golden = Callable[[str], dict[str, Any]]


def votes(*instances: dict[str, str]) -> cc.Preferences:
    """Return instances q0, q1, ... of lists written as "a bc d" (b and c tied)."""
    rows = [
        (f"q{n}", expert, item, 1.0 + sum(map(len, text.split()[:level])))
        for n, lists in enumerate(instances)
        for expert, text in lists.items()
        for level, group in enumerate(text.split())
        for item in group
    ]
    return cc.Preferences(*zip(*rows, strict=True), kind="rank", missing="below")


def quiet(model: cc.Aggregator, preferences: cc.Preferences, labels: cc.Labels | None = None) -> Any:
    """Return the model fitted; what it warns of is tested where it matters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        return model.fit(preferences, labels)


def informed(model: cc.ExtendedMallows, theta: dict[str, float]) -> cc.ExtendedMallows:
    """Return the model as if it had learned these θ."""
    model.experts_, model.theta_ = list(theta), np.array(list(theta.values()))
    model.adherence_ = -model.theta_
    return model


def groups_of(text: str, items: str) -> list[list[int]]:
    return [[items.index(x) for x in group] for group in text.split()]


# One θ per instance.

LISTS = {"w": "a b c d", "x": "b a c d", "y": "a c b d", "z": "b d a c"}


def log_likelihood(theta: float, centre: tuple[int, ...], lists: list[list[list[int]]]) -> float:
    n = len(centre)
    return sum(
        theta * oracle.distance(centre, n, groups) - oracle.law(theta, [len(g) for g in groups], n, n)[0]
        for groups in lists
    )


@pytest.mark.parametrize(
    "lists", [LISTS, {"w": "a bc d", "x": "cb a d", "y": "ad bc"}, {"w": "a b", "x": "b c", "y": "ab d c", "z": "a"}]
)
def test_mallows_is_the_most_probable_centre_and_dispersion(lists: dict[str, str]) -> None:
    model = cc.Mallows()
    model.fit_predict(votes(lists))
    coded = [groups_of(text, "abcd") for text in lists.values()]
    every = [
        log_likelihood(theta, centre, coded)
        for centre in permutations(range(4))
        for theta in np.linspace(-3, 0, 61).tolist()
    ]
    assert model.fit_info_.objective is not None
    assert model.fit_info_.objective >= max(every) - 1e-9
    assert model.fit_info_.objective == pytest.approx(max(every), abs=5e-3)
    (theta,) = model.dispersion_.values()
    best = max(permutations(range(4)), key=lambda centre: log_likelihood(theta, centre, coded))
    assert model.fit_info_.objective == pytest.approx(log_likelihood(theta, best, coded), abs=1e-9)


def test_the_probability_of_ties_is_that_of_all_ways_to_untie_them() -> None:
    theta, groups = -0.7, [[2], [0, 3], [1, 4]]
    centre = list(range(5))
    untied = [[2, *first, *second] for first in ([0, 3], [3, 0]) for second in ([1, 4], [4, 1])]
    whole = sum(math.exp(theta * oracle.distance(centre, 5, [[x] for x in o])) for o in untied)
    whole /= math.exp(mallows.log_factorials(theta, 5)[-1])
    f = mallows.log_factorials(theta, 5)
    tied = math.exp(theta * oracle.distance(centre, 5, groups) - (f[5] - 2 * f[2]))
    assert tied == pytest.approx(whole, rel=1e-12)


def test_mallows_follows_kemeny_and_flattens_with_the_dispersion() -> None:
    p = votes(LISTS, {"w": "c b a", "x": "c a b"})
    want = cc.Kemeny(missing="below").fit_predict(p)
    for dispersion in (None, -0.1, -5.0):
        got = cc.Mallows(dispersion=dispersion).fit_predict(p)
        assert got.rank.tolist() == want.rank.tolist()
    assert np.ptp(cc.Mallows(dispersion=-0.1).fit_predict(p)["q0"].score) < 1
    sharp = cc.Mallows(dispersion=-25.0).fit_predict(p)
    np.testing.assert_allclose(sharp.score, want.score, atol=1e-6)


def test_mallows_on_lists_that_agree_or_cancel() -> None:
    model = cc.Mallows()
    got = model.fit_predict(votes({"x": "a b c", "y": "a b c"}, {"x": "a b c", "y": "c b a"}, {"x": "a"}))
    assert model.dispersion_ == {"q0": mallows.LEAST_THETA, "q1": 0.0, "q2": 0.0}
    assert got["q0"].ranking() == ["a", "b", "c"]
    assert got["q1"].score.tolist() == [-2.0, -2.0, -2.0]
    assert cc.Mallows().predict(votes({"x": "b a"})).ranking() == ["b", "a"]


def test_mallows_recovers_what_rankings_were_drawn_from() -> None:
    sample = cc.synthetic.mallows(12, theta=-0.4, n_experts=300, n_instances=3)
    model = cc.Mallows()
    got = model.fit_predict(sample.preferences)
    assert list(model.dispersion_.values()) == pytest.approx([-0.4] * 3, abs=0.03)
    assert got.rank.tolist() == sample.truth.rank.tolist()


def test_items_in_no_list_come_last_or_in_the_middle() -> None:
    p = cc.Preferences(["q"] * 3, ["x"] * 3, list("abc"), [1, 2, 3], items=[("q", i) for i in "uvabc"])
    for model in (cc.Mallows(missing="below"), cc.ExtendedMallows(missing="below")):
        got = quiet(model, p).predict(p)
        assert got.ranking()[:3] == ["a", "b", "c"]
        assert got.score[:2].tolist() == [-4.5, -4.5]
    for model in (cc.Mallows(missing="unknown"), cc.ExtendedMallows(missing="unknown")):
        assert quiet(model, p).predict(p).score[:2].tolist() == [-2.0, -2.0]


@pytest.mark.parametrize("dispersion", [0, 0.5, math.inf, "free"])
def test_a_dispersion_that_is_not_negative_is_refused(dispersion: Any) -> None:
    with pytest.raises(ParameterError, match="the 'dispersion' parameter of Mallows must be a number < 0, or None"):
        cc.Mallows(dispersion=dispersion).fit(votes(LISTS))


# One θ per expert.


def test_worked_case_of_one_step(golden: Golden) -> None:
    content = golden("15_extended_mallows_em")
    near = {"abs": content["abs_tol"]}
    for case in content["cases"]:
        sigmas, theta, expected = case["input"]["sigmas"], np.array(case["input"]["theta"]), case["expected"]
        n, n_experts = len(sigmas[0]), len(sigmas)
        p = cc.Preferences(
            ["q"] * (n * n_experts),
            np.repeat(range(n_experts), n),
            np.tile(range(n), n_experts),
            np.ravel(sigmas),
        )
        (pool,) = pools_of(p, None, "below", np.arange(n_experts, dtype=np.int32))
        assert pool is not None
        record, _ = exact_record(pool, EnergyBuffer(), theta)
        assert record.distance[0].tolist() == pytest.approx(expected["E_distances"], **near)
        above = np.array(expected["prob_i_above_j"])
        assert record.position[0].tolist() == pytest.approx((1 + above.sum(axis=0)).tolist(), **near)
        given = ExpectedDistances([pool], n_experts).moment_equations(
            ObservedDistances(record.distance[:1], np.zeros((1, 0)))
        )
        assert given.solve(theta).tolist() == pytest.approx(expected["next_theta"], **near)
        trust = np.exp(-theta)
        borda = pool.mean_ranks(theta) * trust.sum()
        assert borda.tolist() == pytest.approx(expected["weighted_borda"], **near)
        model = informed(
            cc.ExtendedMallows(inference="best"), dict(zip(map(str, range(n_experts)), theta, strict=True))
        )
        assert model.predict(p).rank.tolist() == expected["map_ranking"]


SOME = (
    {"e1": "a b c d e", "e2": "b a c e d", "e3": "c a e b d", "e4": "e d c b a"},
    {"e1": "d c a b", "e2": "d a c b", "e3": "a d c b", "e4": "b d a c"},
    {"e1": "c a bd", "e2": "ca b d", "e3": "b c d a"},
    {"e1": "a b c d", "e2": "a c b d", "e3": "a b d c", "e4": "c d b a"},
)


def coded(*instances: dict[str, str]) -> list[tuple[int, list[list[list[int]]], list[int]]]:
    out = []
    for lists in instances:
        items = sorted({x for text in lists.values() for x in text if x != " "})
        out.append(
            (
                len(items),
                [groups_of(text, "".join(items)) for text in lists.values()],
                [int(expert[1:]) - 1 for expert in lists],
            )
        )
    return out


def test_em_climbs_the_likelihood_to_where_it_is_flat() -> None:
    p, instances = votes(*SOME), coded(*SOME)
    start = quiet(cc.ExtendedMallows(max_iter=1), p)
    assert start.fit_info_.objective == pytest.approx(oracle.log_likelihood(instances, [-0.1] * 4), abs=1e-9)
    climb = [quiet(cc.ExtendedMallows(max_iter=t), p).fit_info_.objective for t in range(1, 9)]
    assert all(a <= b + 1e-12 for a, b in pairwise(climb))
    model = quiet(cc.ExtendedMallows(max_iter=400, tol=1e-7), p)
    assert model.fit_info_.converged
    assert model.fit_info_.gradient_norm < 1e-6
    theta = model.theta_.tolist()
    for e in range(4):
        if -1e-3 > theta[e] > -20:
            moved = [
                oracle.log_likelihood(instances, [t + d * (i == e) for i, t in enumerate(theta)]) for d in (1e-4, -1e-4)
            ]
            assert (moved[0] - moved[1]) / 2e-4 == pytest.approx(0, abs=2e-3)
        elif theta[e] > -1e-3:
            down = oracle.log_likelihood(instances, [t - 0.05 * (i == e) for i, t in enumerate(theta)])
            assert down < oracle.log_likelihood(instances, theta)


def test_the_gradient_of_the_likelihood_is_found_minus_expected_distance() -> None:
    p, instances = votes(*SOME), coded(*SOME)
    pools = [pool for pool in pools_of(p, None, "below", np.arange(4, dtype=np.int32)) if pool is not None]
    theta = np.array([-0.8, -0.4, -0.9, -0.2])
    room = EnergyBuffer()
    found = np.concatenate([exact_record(q, room, q.weight * theta[q.expert])[0].distance[:1] for q in pools], axis=1)
    given = ExpectedDistances(pools, 4).moment_equations(ObservedDistances(found, np.zeros((1, 0))))
    for e in range(4):
        change = [oracle.log_likelihood(instances, (theta + d * (np.arange(4) == e)).tolist()) for d in (1e-5, -1e-5)]
        assert given.distance[e] - given.expected[e](theta[e]) == pytest.approx(
            (change[0] - change[1]) / 2e-5, rel=1e-6
        )


@pytest.mark.parametrize("norm", ["given-z", "full"])
def test_em_on_cut_and_tied_lists_is_that_of_enumeration(norm: str) -> None:
    texts = (
        {"e1": "a b c", "e2": "b ad", "e3": "ec a"},
        {"e1": "b a", "e2": "d b c", "e3": "a b e"},
        {"e1": "ab c", "e2": "c", "e3": "d a b"},
    )
    p, instances, k = votes(*texts), coded(*texts), 3
    theta = [-0.1] * 3
    for _ in range(2):
        found: list[list[float]] = [[], [], []]
        seen: list[list[tuple[list[int], int, list[float]]]] = [[], [], []]
        for n, lists, experts in instances:
            posterior = oracle.Posterior(n, k, lists, [theta[e] for e in experts])
            for i, e in enumerate(experts):
                found[e].append(posterior.mean_distances()[i])
                seen[e].append(([len(g) for g in lists[i]], n, posterior.law_of_common(i)))

        def expected(t: float, of: list[tuple[list[int], int, list[float]]]) -> float:
            total = 0.0
            for sizes, n, law in of:
                if norm == "full":
                    total += oracle.law(t, sizes, k, n)[1]
                else:
                    total += sum(q * oracle.law(t, sizes, k, n, z)[1] for z, q in enumerate(law) if q > 1e-12)
            return total

        theta = [mallows.solve_theta(lambda t: expected(t, seen[e]), sum(found[e])) for e in range(3)]  # noqa: B023
    model = quiet(cc.ExtendedMallows(k=k, norm=norm, max_iter=2), p)
    assert model.theta_.tolist() == pytest.approx(theta, abs=1e-6)
    posterior = oracle.Posterior(*[instances[0][0], k, instances[0][1]], [theta[e] for e in instances[0][2]])
    assert (-model.predict(p)["q0"].score[np.argsort(p["q0"].items.tolist())]).tolist() == pytest.approx(
        posterior.mean_positions(), abs=1e-5
    )


REFERENCE = {"e1": -0.7}


def distance_tables(*texts: dict[str, str]) -> list[tuple[np.ndarray, list[int]]]:
    """Return the distances of all rankings (rows) to the lists (columns) of every instance, and the experts."""
    out = []
    for n, lists, experts in coded(*texts):
        orders = permutations(range(n))
        out.append((np.array([[oracle.distance(o, n, groups) for groups in lists] for o in orders]), experts))
    return out


def likelihood_given_prior(tables: list[tuple[np.ndarray, list[int]]], theta: np.ndarray) -> float:
    """Return log Σ_π p(π) Π p(list | π), p(π) a Mallows model around the list of expert 0 with dispersion θ_0."""
    total = 0.0
    for distance, experts in tables:
        log_p = distance * theta[experts]
        log_p = log_p - logsumexp(log_p, axis=0)
        total += float(logsumexp(log_p.sum(axis=1)))
    return total


def test_a_prior_over_rankings_is_that_of_enumeration() -> None:
    p, tables = votes(*SOME), distance_tables(*SOME)
    model = quiet(cc.ExtendedMallows(ranking_prior=REFERENCE, max_iter=2000, tol=1e-9), p)
    assert model.fit_info_.converged
    assert model.theta_[0] == -0.7
    assert model.adherence_[0] == 0.7
    assert model.fit_info_.objective == pytest.approx(oracle.log_likelihood(coded(*SOME), model.theta_.tolist()))

    def negative(free: np.ndarray) -> float:
        return -likelihood_given_prior(tables, np.concatenate([[-0.7], free]))

    best = min(
        (minimize(negative, start, bounds=[(-10, 0)] * 3, tol=1e-12) for start in ([-0.1] * 3, [-1.0, -0.2, -0.5])),
        key=lambda found: float(found.fun),
    )
    assert -negative(model.theta_[1:]) > -best.fun - 1e-6
    assert model.theta_[1:] == pytest.approx(best.x, abs=1e-3)
    # Without the prior the reference is an expert like the others, and another one is believed.
    assert quiet(cc.ExtendedMallows(), p).theta_[0] != pytest.approx(-0.7, abs=0.05)


def test_mean_positions_under_a_prior_over_rankings() -> None:
    texts = {"e1": "a b c d", "e2": "b a d c"}
    p = votes(texts)
    model = quiet(cc.ExtendedMallows(ranking_prior={"e1": -1.5}, max_iter=3), p)
    assert -5 < model.theta_[1] < -0.1
    (table, _), orders = distance_tables(texts)[0], list(permutations(range(4)))
    prior = np.exp(-1.5 * table[:, 0]) / np.exp(-1.5 * table[:, 0]).sum()
    posterior = prior * np.exp(model.theta_[1] * table[:, 1])
    place = np.array([[o.index(i) + 1.0 for i in range(4)] for o in orders])
    want = posterior @ place / posterior.sum()
    assert (-model.predict(p).score).tolist() == pytest.approx(want.tolist(), abs=1e-8)
    # Where only references speak, nothing is learned, and they are the consensus.
    alone = cc.ExtendedMallows(ranking_prior={"e1": -1.5})
    assert alone.fit_predict(votes({"e1": "b a c"})).ranking() == ["b", "a", "c"]
    assert (alone.theta_.tolist(), alone.fit_info_.warnings) == ([-1.5], [])


def test_references_stay_fixed_however_the_others_are_learned() -> None:
    p = votes(*SOME)
    for params in ({"e_step": "borda"}, {"e_step": "sampling"}, {"prior": 2.0}, {"k": 3}, {"norm": "full", "k": 3}):
        model = quiet(cc.ExtendedMallows(ranking_prior=REFERENCE, random_state=1, **params), p)
        assert model.theta_[0] == -0.7
        assert (model.theta_[1:] != -0.1).all()
    # The prior of the others is their own average.
    held = quiet(cc.ExtendedMallows(ranking_prior={"e4": -5.0}, prior=1e6), p).theta_
    assert np.ptp(held[:3]) < 1e-3
    assert held[0] > -3.0
    known, drawn = (
        quiet(cc.ExtendedMallows(ranking_prior=REFERENCE, e_step=e_step, prior=1.0), p).theta_
        for e_step in ("exact", "sampling")
    )
    np.testing.assert_allclose(np.exp(drawn), np.exp(known), atol=0.1)


def test_references_in_blocks_and_after_loading(tmp_path: Path) -> None:
    p = votes(*SOME)
    rows = np.diff(p.list_offsets[p.list_starts])
    blocks = cc.Blocks(InMemory([p[:1], p[1:]]), p.instances, p.experts, rows, p.kind)
    whole, parts = (quiet(cc.ExtendedMallows(ranking_prior=REFERENCE), data) for data in (p, blocks))
    assert parts.theta_ == pytest.approx(whole.theta_, abs=1e-9)
    whole.save(tmp_path / "model")
    loaded = cc.load(tmp_path / "model")
    assert loaded.ranking_prior == REFERENCE
    np.testing.assert_array_equal(loaded.predict(p).score, whole.predict(p).score)


def test_references_that_are_absent_or_no_dispersions_are_named() -> None:
    p = votes(*SOME)
    model = cc.ExtendedMallows(ranking_prior={"e1": -0.7, "last year": -1.0})
    with pytest.warns(ConcordantWarning, match=r"no experts \['last year'\], whose lists 'ranking_prior' takes"):
        model.fit(p)
    assert model.theta_ == pytest.approx(quiet(cc.ExtendedMallows(ranking_prior=REFERENCE), p).theta_)
    for wrong in (-1.0, ["e1"], {"e1": 0.5}, {"e1": 0}, {"e1": -31}, {"e1": "much"}):
        with pytest.raises(ParameterError, match="'ranking_prior' parameter of ExtendedMallows must be a mapping from"):
            cc.ExtendedMallows(ranking_prior=wrong).fit(p)  # type: ignore[arg-type]


def test_unknown_items_leave_a_list_to_its_own_items() -> None:
    # A list of two items says nothing about the third, so that x and y do not contradict each other.
    model = informed(cc.ExtendedMallows(missing="unknown"), {"x": -1.0, "y": -1.0})
    got = model.predict(votes({"x": "a b", "y": "b c"}))
    want = oracle.Posterior(3, 3, [[[0], [1]], [[1], [2]]], [-1.0, -1.0], below=False)
    assert (-got.score).tolist() == pytest.approx(want.mean_positions(), abs=1e-8)


def test_weights_are_copies_of_experts() -> None:
    texts = [dict(lists) for lists in SOME]
    twice = votes(*({**lists, "e9": lists["e2"]} for lists in texts))
    plain = quiet(cc.ExtendedMallows(max_iter=4), twice)
    heavy = quiet(cc.ExtendedMallows(max_iter=4), votes(*texts).with_weights({"e2": 2.0}))
    assert heavy.theta_.tolist() == pytest.approx(plain.theta_[:4].tolist(), abs=1e-9)


def test_chains_and_exact_sums_learn_the_same() -> None:
    sample = cc.synthetic.mallows(8, theta=[-1.2, -0.8, -0.8, -0.3, 0.0], n_instances=60)
    known = cc.ExtendedMallows(e_step="exact").fit(sample.preferences)
    drawn = cc.ExtendedMallows(e_step="sampling").fit(sample.preferences)
    assert known.fit_info_.converged
    assert drawn.fit_info_.converged
    # The truth is seen once per instance: 0.3 is three standard errors of the best expert.
    assert known.theta_.tolist() == pytest.approx([-1.2, -0.8, -0.8, -0.3, 0.0], abs=0.3)
    assert drawn.theta_.tolist() == pytest.approx(known.theta_.tolist(), abs=0.08)
    assert drawn.chain_["gap"] < 0.05
    model = informed(cc.ExtendedMallows(e_step="sampling"), dict(zip(known.experts_, known.theta_, strict=True)))
    gap = model.predict(sample.preferences).score - known.predict(sample.preferences).score
    assert math.sqrt(np.mean(gap**2)) < 0.25
    same = cc.ExtendedMallows(e_step="oracle").fit(sample.preferences, truth_labels(sample.truth))
    assert same.theta_.tolist() == pytest.approx([-1.2, -0.8, -0.8, -0.3, 0.0], abs=0.15)
    assert same.fit_info_.labels["judged"] == sample.preferences.n_slots
    with pytest.raises(DataError, match="have labels"):
        same.fit(sample.preferences, cc.Labels(["other"], ["a"], [1]))


def truth_labels(truth: Consensus) -> cc.Labels:
    return cc.Labels.from_codes(truth.slots, truth.score)


@pytest.mark.filterwarnings("ignore:the optimal ranking is one of several")
def test_persistent_chains_find_the_good_experts_and_short_ones_begun_anew_do_not_believe_them() -> None:
    # SPEC §12.5, one seed.
    theta = [-1.0, -1.0, *[-0.05] * 7, 0.0]
    sample = cc.synthetic.mallows(30, theta=theta, n_instances=10, center="identity", random_state=1)
    model = cc.ExtendedMallows().fit(sample.preferences)
    assert model.theta_[:2].tolist() == pytest.approx([-1.0, -1.0], rel=0.25)
    assert model.theta_[2:9].tolist() == pytest.approx([-0.05] * 7, abs=0.03)
    # Ten random rankings of 30 items are no nearer than this, 3.5 standard errors from 0.
    assert model.theta_[9] > -0.04
    short = quiet(cc.ExtendedMallows(persistent=False, chain_steps=2.0, moves="swap", max_iter=10), sample.preferences)
    assert short.theta_[:2].min() > -0.8
    got = model.predict(sample.preferences)
    far = [cc.Kemeny().fit_predict(sample.preferences), got]
    lost = [
        sum(
            oracle.distance(
                np.argsort(-sample.truth[q].score).tolist(), 30, [[x] for x in np.argsort(-c[q].score).tolist()]
            )
            for q in sample.truth.instances
        )
        for c in far
    ]
    assert lost[1] < lost[0]


def random_lists(n_instances: int = 12, good: int = 4, bad: int = 8, pool: int = 120, k: int = 20) -> cc.Preferences:
    """Return the top k of a few good experts among more who list at random; lists are of unequal length."""
    rows = []
    for q in range(n_instances):
        rng = np.random.default_rng([7, q])
        quality = rng.normal(size=pool)
        for e in range(good + bad):
            seen = quality + 0.3 * rng.normal(size=pool) if e < good else rng.normal(size=pool)
            best = np.argsort(-seen)[: k - e % 5]
            rows += [(f"q{q}", f"{'good' if e < good else 'bad'}{e}", f"i{i}", r + 1.0) for r, i in enumerate(best)]
    return cc.Preferences(*zip(*rows, strict=True), missing="below")


def test_random_experts_get_no_say_in_top_lists() -> None:
    p = random_lists()
    model = cc.ExtendedMallows()
    got = model.fit_predict(p)
    good = np.array([e.startswith("good") for e in model.experts_])
    assert model.adherence_[good].min() > 5 * model.adherence_[~good].max()
    assert set(model.chain_) == {"steps", "gap", "moved", "inference_steps", "r_hat"}
    assert max(model.chain_["r_hat"].values()) <= 1.1
    assert model.expert_weights_["theta"].to_list() == model.theta_.tolist()
    one = cc.Borda().fit_predict(p.select_experts([e for e in p.experts if e.startswith("good")]))
    shared = [len({*got[q].ranking()[:10]} & {*one[q].ranking()[:10]}) for q in got.instances]
    assert np.mean(shared) > 7
    again = model.predict(p)
    np.testing.assert_array_equal(again.score, got.score)


def test_large_pools_do_not_depend_on_threads_or_company() -> None:
    p = random_lists(n_instances=5)
    with force_threads(1):
        one = cc.ExtendedMallows(max_iter=3, chain_steps=2.0)
        first = quiet(one, p).predict(p)
    with force_threads(3):
        other = cc.ExtendedMallows(max_iter=3, chain_steps=2.0)
        second = quiet(other, p).predict(p)
    assert one.theta_.tolist() == other.theta_.tolist()
    np.testing.assert_array_equal(first.score, second.score)
    np.testing.assert_array_equal(one.predict(p[[3]]).score, first[[3]].score)
    another = cc.ExtendedMallows(max_iter=3, chain_steps=2.0, random_state=1)
    assert quiet(another, p).predict(p).score.tolist() != first.score.tolist()


def test_best_state_climbs_to_the_most_probable_ranking() -> None:
    sample = cc.synthetic.mallows(7, theta=[-0.5] * 5, n_instances=3)
    theta = dict.fromkeys(sample.preferences.experts, -0.5)
    for k in (7, 3):
        for q in sample.preferences:
            p = q.top(k)
            climbed = informed(cc.ExtendedMallows(k=k, e_step="sampling", inference="best"), theta).predict(p)
            (pool,) = pools_of(p, k, "below", np.arange(5, dtype=np.int32))
            assert pool is not None
            items = [
                [p.items[int(pool.slot[x])] for x in pool.item[a:b]]
                for a, b in zip(pool.offsets[:-1], pool.offsets[1:], strict=True)
            ]
            names = p.items.tolist()
            lists = [[[names.index(x)] for x in one] for one in items]
            n = len(names)
            want = max(oracle.Posterior(n, min(k, n), lists, [-0.5] * 5).energy)
            order = np.argsort(climbed.rank, kind="stable").tolist()
            got = sum(-0.5 * oracle.distance(order, min(k, n), g) for g in lists)
            assert got == pytest.approx(want, abs=1e-9)


def test_borda_takes_the_order_of_mean_ranks_for_the_truth() -> None:
    sample = cc.synthetic.mallows(6, theta=[-1.0, -1.0, -0.5, 0.0], n_instances=30)
    p = sample.preferences
    model = quiet(cc.ExtendedMallows(e_step="borda", inference="borda"), p)
    pools = [pool for pool in pools_of(p, None, "below", np.arange(4, dtype=np.int32)) if pool is not None]
    total = np.zeros(4)
    for pool in pools:
        order = pool.borda_order(model.theta_)
        for i in range(4):
            total[i] += oracle.distance(
                order.tolist(), 6, [[x] for x in pool.item[pool.offsets[i] : pool.offsets[i + 1]].tolist()]
            )
    expected = [30 * float(mallows.expected_distances(t, 6)[-1]) for t in model.theta_]
    assert model.fit_info_.converged
    assert total[:3].tolist() == pytest.approx(expected[:3], abs=0.5)
    assert (-model.predict(p)["q1"].score).tolist() == pytest.approx(pools[0].mean_ranks(model.theta_).tolist())


def test_the_prior_holds_experts_to_the_average() -> None:
    p = votes(*SOME)
    spread = [np.ptp(quiet(cc.ExtendedMallows(prior=prior), p).theta_) for prior in (0.0, 1.0, 10.0, 1e6)]
    assert spread == sorted(spread, reverse=True)
    assert spread[-1] < 1e-3


def test_the_printed_formula_expects_more_of_cut_lists() -> None:
    p = random_lists(n_instances=4)
    fitted = {f: quiet(cc.ExtendedMallows(formula=f, max_iter=3, e_step="borda"), p) for f in ("corrected", "printed")}
    # A larger expected distance at the same θ asks for a smaller θ.
    assert fitted["printed"].theta_[0] < 0.98 * fitted["corrected"].theta_[0]


def test_short_chains_that_disagree_are_told() -> None:
    p = random_lists(n_instances=3)
    with pytest.warns(
        ConcordantWarning, match=r"two chains from opposite ends still disagree|did not converge in 1 iter"
    ):
        cc.ExtendedMallows(max_iter=1).fit(p)
    pool = next(pool for pool in pools_of(p, None, "below", np.arange(12, dtype=np.int32)) if pool is not None)
    u = np.full(len(pool.expert), -5.0)
    start = pool.borda_order(np.zeros(12))
    walk = ChainPair(pool, [start, start[::-1]], np.random.default_rng(0), False)
    assert walk.run(EnergyBuffer(), u, 0.05).r_hat() > 2
    assert (
        ChainPair(pool, [start, start], np.random.default_rng(0), False).run(EnergyBuffer(), 1e6 * u, 60.0).r_hat()
        < np.inf
    )


@pytest.mark.parametrize(
    ("instances", "message"),
    [
        (({"x": "a b c"},), "only expert 'x' ranks anything"),
        (({"x": "a b c", "y": "c b a"},), "no expert agrees with the others more than chance"),
        (
            ({"x": "a b c", "y": "a b c", "z": "c b a"},),
            r"never contradicts experts \['x', 'y'\], whose weights have.*prior=1",
        ),
        (
            ({"x": "a b c d", "y": "b a c d", "z": "a b d c", "w": "a c b d"},),
            "never contradicts expert 'x', whose weight has",
        ),
        (
            ({"x": "a b c d", "y": "b a c d", "z": "a b d c"},),
            r"experts \['x', 'y', 'z'\] have one list each.*pass prior=10 .* or use Mallows",
        ),
        (
            ({"x": "a b c d e", "y": "b a d c e", "z": "c a e b d"}, {"x": "a b c d", "y": "a c b d"}),
            r"experts \['x', 'y', 'z'\] have 1\.7 lists on average",
        ),
    ],
)
def test_degenerate_data_is_named(instances: tuple[dict[str, str], ...], message: str) -> None:
    with pytest.warns(ConcordantWarning, match=message):
        got = cc.ExtendedMallows().fit_predict(votes(*instances))
    assert np.isfinite(got.score).all()


def test_lists_that_nothing_contradicts_are_told_with_their_experts() -> None:
    chain = votes({"x": "a b", "y": "b c", "z": "c d"})
    with pytest.warns(ConcordantWarning, match=r"never contradicts any of the experts \['x', 'y', 'z'\]"):
        model = cc.ExtendedMallows(missing="unknown", e_step="borda").fit(chain)
    assert model.theta_.tolist() == [-30.0] * 3
    with pytest.warns(
        ConcordantWarning, match=r"no two of the experts \['x', 'y', 'z'\] rank the same two items in .*'q0'"
    ):
        assert cc.Mallows(missing="unknown").fit_predict(chain).ranking() == ["a", "b", "c", "d"]
    # Where experts could disagree and do not, where one is alone, and where the dispersion is given, nothing is hidden.
    for lists in ({"x": "a b c", "y": "a b d"}, {"x": "a b", "y": "b"}):
        cc.Mallows(missing="unknown").fit_predict(votes(lists))
    cc.Mallows(missing="unknown", dispersion=-1.0).fit_predict(chain)
    # Trust changes nothing where all lists are the same, and is not doubted where it is held or has been seen often.
    cc.ExtendedMallows().fit(votes({"x": "a bc d", "y": "a cb d"}))
    differ = {"x": "a b c d", "y": "b a c d", "z": "a b d c"}
    cc.ExtendedMallows(prior=10.0).fit(votes(differ))
    cc.ExtendedMallows().fit(votes(differ, {"x": "b a c d", "y": "a b d c", "z": "a b c d"}))


@pytest.mark.parametrize("method", [cc.Mallows, cc.ExtendedMallows])
def test_groups_that_no_list_connects_are_named(method: type[cc.Aggregator]) -> None:
    p = votes({"x": "a b", "y": "b a", "z": "c d"}, {"x": "a b", "y": "b c"}, {"x": "a b", "y": "c d", "z": "e f"})
    message = r"\['c', 'd'\] never met any of \['a', 'b'\] in instance 'q0' \(and 1 more instances"
    with pytest.warns(ConcordantWarning) as heard:
        method(missing="unknown").fit_predict(p)
    assert len([w for w in heard if re.search(message, str(w.message))]) == 1
    with warnings.catch_warnings(record=True) as heard_below:
        warnings.simplefilter("always")
        method(missing="below").fit_predict(p)
    assert not [w for w in heard_below if "never met" in str(w.message)]


LONG = [f"i{n:02}" for n in range(12)]


@pytest.mark.parametrize("inference", ["mean", "best"])
@pytest.mark.parametrize("missing", ["below", "unknown"])
@pytest.mark.parametrize(
    "lists",
    [
        {"x": "a b c d"},
        {"x": "ab c de"},
        {"x": "a bc", "y": "a cb"},
        {"x": "abc", "y": "abc"},
        {"x": "a c", "deaf": "d b c a e"},
        {"x": "d ab", "y": "d ba", "deaf": "abcde"},
    ],
)
def test_one_order_is_followed_exactly_without_chains(lists: dict[str, str], missing: str, inference: str) -> None:
    p, theta = votes(lists), {"x": -0.3, "y": -0.2, "deaf": 0.0}
    exactly = informed(cc.ExtendedMallows(missing=missing, e_step="exact"), theta).predict(p)
    sampled = informed(cc.ExtendedMallows(missing=missing, e_step="sampling", inference=inference), theta).predict(p)
    if inference == "mean":
        np.testing.assert_allclose(sampled.score, exactly.score, rtol=0, atol=1e-8)
    assert sampled.rank.tolist() == exactly.rank.tolist()


def test_chance_orders_nothing_in_long_lists() -> None:
    with pytest.warns(ConcordantWarning, match="The consensus follows it"):
        alone = cc.ExtendedMallows().fit_predict(cc.from_lists({"x": LONG}))
    assert alone.ranking() == LONG
    np.testing.assert_allclose(-alone.score, mallows.mean_positions(-0.1, 12), rtol=0, atol=1e-12)
    tied = {expert: dict.fromkeys(LONG, 1.0) for expert in "xy"}
    assert set(cc.ExtendedMallows().fit_predict(cc.from_lists(tied)).rank.tolist()) == {1}
    few = {expert: dict.fromkeys("abc", 1.0) for expert in "xy"}
    assert set(cc.ExtendedMallows(e_step="sampling").fit_predict(cc.from_lists(few)).rank.tolist()) == {1}
    # Of five items (c, b, a, d, e) the first three places count: chains keep the order of the only list with a say.
    model = informed(cc.ExtendedMallows(k=3, e_step="sampling"), {"x": -0.01, "deaf": 0.0})
    assert model.predict(votes({"x": "c b a", "deaf": "d e a"})).rank.tolist() == [1, 2, 3, 4, 4]
    np.testing.assert_allclose(mallows.mean_positions(-1e5, 4), [1, 2, 3, 4], rtol=0, atol=1e-12)


def test_one_item_nobody_and_an_expert_who_comes_later() -> None:
    p = votes({"x": "a", "y": "a"}, {"x": "a b", "y": "a b"})
    model = quiet(cc.ExtendedMallows(), cc.Preferences(*zip(*[("q", "x", "a", 1)], strict=True), experts=["x", "late"]))
    assert model.experts_ == ["x", "late"]
    assert model.theta_.tolist() == [-0.1, -0.1]
    assert quiet(cc.ExtendedMallows(), p).predict(p)["q0"].rank.tolist() == [1]
    none = p[np.zeros(0, dtype=np.int64)]
    assert len(cc.ExtendedMallows().fit_predict(none)) == 0


def test_what_cannot_be_done_is_said() -> None:
    p = votes(*SOME)
    with pytest.raises(NotFittedError):
        cc.ExtendedMallows().predict(p)
    with pytest.raises(DataError, match=r"takes the true order from labels\. Pass labels to fit"):
        cc.ExtendedMallows(e_step="oracle").fit(p)
    with pytest.raises(
        ParameterError, match="the 'k' parameter of ExtendedMallows must be None where missing='unknown'"
    ):
        cc.ExtendedMallows(k=3, missing="unknown").fit(p)
    with pytest.raises(
        DataError, match="instance 'q1' has 20 items; e_step='exact' sums over all rankings of up to 16"
    ):
        cc.ExtendedMallows(e_step="exact").fit(cc.synthetic.mallows(20, n_experts=3).preferences)
    model = quiet(cc.ExtendedMallows(), p)
    stranger = votes({"e1": "a b c", "new": "c b a"})
    with pytest.raises(DataError, match=r"nothing about the experts \['new'\]. Known: \['e1', 'e2', 'e3', 'e4'\]"):
        model.predict(stranger)
    model.set_params(unknown_experts="ignore")
    assert model.predict(stranger).score.tolist() == model.predict(votes({"e1": "a b c"})).score.tolist()


@pytest.mark.data
def test_random_runs_among_those_of_trec_3_lose_their_say(data_dir: Path, tmp_path: Path) -> None:
    import tarfile

    from concordant_papers.trec3 import pooled, replaced

    archive = data_dir / "trec3-adhoc" / "TREC-3-runs.tar.xz"
    if not archive.exists():
        pytest.skip("no TREC-3 runs")
    names = ["INQ101", "INQ102", "citya1", "Brkly7", "ASSCTV1", "CrnlEA", "pircs1", "westp1", "ETH002", "dortD2"]
    with tarfile.open(archive) as runs:
        wanted = [m for m in runs.getmembers() if any(m.name.lower().endswith("." + n.lower()) for n in names)]
        runs.extractall(tmp_path, members=wanted, filter="data")
    read = cc.read_runs(sorted(str(f) for f in tmp_path.rglob("input.*")))[:15]
    p = pooled(read.top(100).to_ranks("ordinal"))
    labels = cc.read_labels(str(data_dir / "trec3-adhoc" / "T3-j.txt")).align(p)
    noisy = replaced(p, 7, draw=0)
    model = cc.ExtendedMallows(k=100)
    ours = cc.evaluate(model.fit_predict(noisy), labels, ["p@30"], convention="trec").mean["p@30"]
    theirs = cc.evaluate(cc.CombMNZRank(k=100).fit_predict(noisy), labels, ["p@30"], convention="trec").mean["p@30"]
    assert np.sort(model.adherence_)[-3] > 5 * np.sort(model.adherence_)[-4]
    assert ours > theirs + 0.02


# The standard error of the dispersion.


@pytest.mark.parametrize("theta", [-2.0, -0.3, -0.03, -0.001, 0.0])
def test_variance_of_the_distance_is_that_over_all_rankings(theta: float) -> None:
    found = mallows.distance_variances(theta, 6)
    for m in range(1, 7):
        d = np.array([sum(a > b for a, b in combinations(p, 2)) for p in permutations(range(m))])
        chance = np.exp(theta * d) / np.exp(theta * d).sum()
        assert found[m] == pytest.approx(chance @ (d - chance @ d) ** 2, abs=1e-10)
        assert found[m] == pytest.approx(m * (m - 1) * (2 * m + 5) / 72, abs=1e-10) or theta < 0


def test_standard_error_is_the_curvature_of_the_likelihood() -> None:
    votes = cc.from_lists(
        {
            "w": {"a": 4, "b": 3, "c": 2, "d": 1},
            "x": {"a": 3, "b": 3, "d": 2, "c": 1},
            "y": {"b": 3, "a": 2, "c": 1},
            "z": {"d": 3, "a": 2, "b": 1},
        }
    )
    model = cc.Mallows()
    model.fit_predict(votes)
    (theta,) = model.dispersion_.values()
    values = []
    for step in (-1e-3, 0.0, 1e-3):
        near = cc.Mallows(dispersion=theta + step)
        near.fit_predict(votes)
        values.append(near.fit_info_.objective)
        assert np.isnan(near.dispersion_stderr_["q"])
    low, middle, high = values
    assert low is not None
    assert middle is not None
    assert high is not None
    information = -(low + high - 2 * middle) / 1e-6
    assert model.dispersion_stderr_["q"] == pytest.approx(information**-0.5, rel=1e-4)


def test_standard_error_is_the_spread_over_samples_and_unknown_at_the_bounds(tmp_path: Path) -> None:
    found, errors = [], []
    for seed in range(150):
        model = cc.Mallows()
        model.fit_predict(cc.synthetic.mallows(6, -0.7, 40, random_state=seed).preferences)
        found += model.dispersion_.values()
        errors += model.dispersion_stderr_.values()
    # The standard deviation of 150 draws has an error of 6 %.
    assert np.std(found) == pytest.approx(np.mean(errors), rel=0.18)
    same = cc.Mallows()
    same.fit_predict(cc.from_lists({"x": ["a", "b", "c"], "y": ["a", "b", "c"]}))
    assert np.isnan(same.dispersion_stderr_["q"])
    model.save(tmp_path / "model")
    assert cc.load(tmp_path / "model").dispersion_stderr_ == model.dispersion_stderr_  # type: ignore[attr-defined]
    model.dispersion_stderr_ = {"other": 1.0}
    model.save(tmp_path / "wrong")
    with pytest.raises(FormatError, match="not one for each instance"):
        cc.load(tmp_path / "wrong")
