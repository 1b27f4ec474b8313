"""MPM through its public face: worked cases, the likelihood over all pairs, and what it says about poor data."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.aggregators.common import from_matrix, instances_of
from tests.data.strategies import Rows, comparison_rows, preference_rows
from tests.oracles import multinomial as oracle
from tests.oracles import spread

import concordant as cc
from concordant.aggregators import _mpm_fit
from concordant.aggregators import mpm as module
from concordant.aggregators._net_counts import net_counts
from concordant.base.checks import Check, checks_for
from concordant.data.consensus import rank_scores
from concordant.errors import (
    ConcordantWarning,
    DataError,
    KindError,
    NotFittedError,
    ParameterError,
    UncertaintyWarning,
)
from concordant.execution import InMemory
from concordant.kernels import mpm
from concordant.kernels import mpm_variance as pairs
from concordant.kernels.inversions import order_agreement

pytestmark = pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")

LISTS = {
    "x": ["a", "b", "c", "d", "e"],
    "y": ["b", "a", "c", "e"],
    "z": ["a", "c", "b", "d"],
    "w": ["e", "d", "a", "b"],
    "v": ["a", "d", "b", "c", "e"],
}


def tables_of(items: list[str], lists: Any, transform: str = "count") -> list[Any]:
    return [weight * oracle.table(items, held, transform) for weight, held in lists]


def quiet(method: cc.Aggregator, votes: Any, labels: cc.Labels | None = None) -> cc.Consensus:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        return method.fit_predict(votes, labels)


def ranks_of(score: Any) -> list[int]:
    return rank_scores(np.asarray(score, dtype=np.float64), np.array([0, len(score)]))[0].tolist()


# Worked cases.


def test_worked_case_of_the_base_model(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("04_mpm_base")
    tolerance = content["abs_tol"]
    case = {c["name"]: c for c in content["cases"]}["R4x3"]
    votes, expected = from_matrix(case["input"]["R"]), case["expected"]
    counts = net_counts(votes, "count", pairs=False)
    np.testing.assert_allclose(counts.dense(np.arange(3), slice(0, 4)), expected["d_per_expert"], atol=tolerance)
    np.testing.assert_allclose(counts.total, expected["T_per_expert"], atol=tolerance)
    method = cc.MPM(adherence="none")
    got = method.fit_predict(votes)
    best = np.array(expected["mle_s"])
    np.testing.assert_allclose(got.score, best - best.mean(), atol=tolerance)
    assert got.ranking() == [f"i{i}" for i in expected["mle_ranking"]]
    total = sum(expected["T_per_expert"])
    assert method.fit_info_.objective * total == pytest.approx(expected["mle_loglik"], abs=tolerance)
    # The likelihood and its gradient elsewhere.
    from concordant.kernels import mpm

    score = np.array(case["input"]["s"])
    by_score, by_theta, values = np.empty(4), np.empty(3), np.empty(1)
    mpm.joint_gradients(*counts.packed(), np.ones(3), score, 0.0, by_score, by_theta, values)
    assert values[0] * total == pytest.approx(expected["loglik"], abs=tolerance)
    np.testing.assert_allclose(by_score * total, expected["grad_s"], atol=tolerance)


def test_worked_case_without_a_finite_estimate(golden: Callable[[str], dict[str, Any]]) -> None:
    case = {c["name"]: c for c in golden("04_mpm_base")["cases"]}["separable_infinite"]
    assert case["expected"]["finite_mle"] is False
    y = np.array(case["input"]["Y"])
    left, right = np.nonzero(y)
    votes = cc.Comparisons(
        "q",
        None,
        [f"i{i}" for i in left],
        [f"i{j}" for j in right],
        y[left, right],
        items=[("q", f"i{i}") for i in range(3)],
    )
    with pytest.warns(ConcordantWarning, match=r"no finite estimate in 1 of 1 .* 'q', \['i0'\] over \['i1'\]"):
        got = cc.MPM(adherence="none").fit_predict(votes)
    assert got.score.tolist() == [1.0, -1.0, 0.0]
    assert np.isnan(got.stderr).all()


def test_worked_case_of_variances_and_adherence(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("05_mpm_theta_gamma")
    tolerance = content["abs_tol"]
    cases = {c["name"]: c for c in content["cases"]}
    given_, expected = cases["R4x3"]["input"], cases["R4x3"]["expected"]
    votes, theta, score = from_matrix(given_["R"]), np.array(given_["theta"]), np.array(given_["s"])
    gamma = np.array(given_["gamma"])
    counts = net_counts(votes, "count", pairs=True)
    gradient, mean = np.empty(8), np.empty(3)
    value = pairs.pair_gradient(counts.table(0, theta), counts.total, theta, score, np.log(gamma), gradient, mean)
    assert value == pytest.approx(expected["loglik"], abs=tolerance)
    np.testing.assert_allclose(gradient[:4], expected["grad_s"], atol=tolerance)
    np.testing.assert_allclose(gradient[4:], expected["grad_beta"], atol=tolerance)
    np.testing.assert_allclose(gradient[4:] / gamma, expected["grad_gamma"], atol=tolerance)
    # A list's part of the gradient in θ: what it drives at, along the scores, less what the model expects.
    drives = counts.list_gradients(0, np.arange(3), score, gamma)[:, :4] @ score
    np.testing.assert_allclose(drives - counts.total * mean, expected["grad_theta"], atol=tolerance)

    ranking = cases["theta_only_ranking"]
    method = cc.MPM(adherence="learned")
    method.experts_, method.adherence_ = ["e0", "e1", "e2"], np.array(ranking["input"]["theta"])
    votes = from_matrix(ranking["input"]["R"])
    weighted = net_counts(votes, "count", pairs=False).sums(method.adherence_)
    np.testing.assert_allclose(weighted, ranking["expected"]["weighted_net_counts"], atol=tolerance)
    assert method.predict(votes).ranking() == [f"i{i}" for i in ranking["expected"]["mle_ranking"]]


# The estimate.


@given(preference_rows())
def test_the_order_is_that_of_the_net_counts(rows: Rows) -> None:
    for p, items, lists in instances_of(rows):
        got = quiet(cc.MPM(adherence="none", uncertainty="none"), p)
        strengths = lists if rows.kind != "score" else [(w, _positions(held)) for w, held in lists]
        net = sum((oracle.net(y) for y in tables_of(items, strengths)), np.zeros(len(items)))
        net[np.abs(net) < 1e-9] = 0.0
        assert got.rank.tolist() == ranks_of(np.round(net, 9))


def _positions(held: dict[str, float]) -> dict[str, float]:
    """Return minus the average position of every item of a list of scores."""
    values = list(held.values())
    return {i: -(sum(v > s for v in values) + (sum(v == s for v in values) + 1) / 2) for i, s in held.items()}


@given(comparison_rows())
def test_the_order_of_comparisons_is_that_of_wins_minus_losses(arguments: dict[str, Any]) -> None:
    c = cc.Comparisons(**arguments)
    got = quiet(cc.MPM(adherence="none"), c)
    for q in c.instances:
        net = dict.fromkeys((i for r, i in arguments["items"] if r == q), 0.0)
        for r, left, right, won, lost in zip(
            *(arguments[x] for x in ("instance", "left", "right", "n_left", "n_right")), strict=True
        ):
            if r == q:
                net[left] += won - lost
                net[right] += lost - won
        assert got[q].rank.tolist() == ranks_of([net[i] for i in got[q].items])


@pytest.mark.parametrize("transform", ["count", "binary", "rankdiff", "log"])
def test_the_base_scores_are_stationary(transform: str) -> None:
    votes = cc.from_lists(LISTS)
    items = votes.items.tolist()
    lists = [(1.0, {i: -float(r + 1) for r, i in enumerate(order)}) for order in LISTS.values()]
    tables = tables_of(items, lists, transform)
    method = cc.MPM(adherence="none", transform=transform)
    got = method.fit_predict(votes)
    gradient = oracle.slope(lambda s: oracle.log_likelihood(tables, np.ones(5), s), got.score)
    np.testing.assert_allclose(gradient, 0, atol=1e-7)
    assert abs(got.score.mean()) < 1e-12
    assert method.fit_info_.converged
    assert method.fit_info_.gradient_norm < 1e-14


def corpus(kind: str = "rank", seed: int = 3, instances: int = 6) -> cc.Preferences:
    """Return lists of many instances by two good experts, a noisy one and one who draws at random."""
    rng = np.random.default_rng(seed)
    rows = []
    for n in range(instances):
        truth = rng.normal(size=7)
        for expert, trust in {"good": 3.0, "fine": 2.0, "noisy": 0.7, "random": 0.0}.items():
            seen = trust * truth + rng.normal(size=7)
            chosen = np.flatnonzero(rng.random(7) < 0.8)
            values = np.argsort(np.argsort(-seen)) + 1.0
            if kind == "rating":
                values = np.clip(np.rint(3 + seen), 1, 5)
            rows += [(f"q{n}", expert, f"i{i}", float(values[i])) for i in chosen.tolist()]
    columns = list(zip(*rows, strict=True))
    return cc.Preferences(*columns, kind=kind)  # type: ignore[arg-type]


def test_adherence_is_learned_from_defaults_to_a_stationary_point() -> None:
    votes = corpus(instances=25)
    method = cc.MPM()
    got = quiet(method, votes)
    trust = dict(zip(method.experts_, method.adherence_.tolist(), strict=True))
    assert max(trust.values()) == 1.0
    assert trust["good"] > trust["noisy"] > trust["random"]
    assert trust["random"] < 0.2
    assert method.fit_info_.converged
    assert method.fit_info_.gradient_norm < 1e-12
    assert method.fit_info_.n_iter < 30
    assert (np.diff(method.fit_info_.trace) > -1e-12).all()
    counts = net_counts(votes, "count", pairs=False)
    net = counts.sums(method.adherence_[counts.expert])
    for n, q in enumerate(votes.instances[:5]):
        own = slice(int(votes.slots.offsets[n]), int(votes.slots.offsets[n + 1]))
        # The order of the scores is that of Σ θ d, and the scores are stationary given θ.
        assert got[q].rank.tolist() == ranks_of(net[own])
        lists = np.arange(votes.list_starts[n], votes.list_starts[n + 1])
        items = [str(s) for s in range(own.start, own.stop)]
        tables = []
        for k in lists.tolist():
            rows = slice(votes.list_offsets[k], votes.list_offsets[k + 1])
            held = {str(s): -float(v) for s, v in zip(votes.slot[rows], votes.value[rows], strict=True)}
            tables.append(oracle.table(items, held))
        theta = method.adherence_[votes.list_expert[lists]]
        gradient = oracle.slope(lambda s: oracle.log_likelihood(tables, theta, s), got.score[own])  # noqa: B023
        np.testing.assert_allclose(gradient, 0, atol=1e-6)


@settings(max_examples=30)
@given(preference_rows())
def test_the_order_given_adherence_is_that_of_trusted_net_counts(rows: Rows) -> None:
    votes = rows.build()
    method = cc.MPM(adherence="learned", uncertainty="none")
    got = quiet(method, votes)
    counts = net_counts(votes, "count", pairs=False)
    net = counts.sums(np.array([*method.adherence_, 0.0])[counts.expert])
    want, _ = rank_scores(net, votes.slots.offsets)
    assert got.rank.tolist() == want.tolist()


def test_lists_and_their_comparisons_are_one_data_set() -> None:
    votes = corpus()
    from_lists, from_pairs = cc.MPM(adherence="learned"), cc.MPM(adherence="learned")
    a, b = quiet(from_lists, votes), quiet(from_pairs, votes.comparisons("count"))
    np.testing.assert_allclose(from_lists.adherence_, from_pairs.adherence_, atol=1e-10)
    np.testing.assert_allclose(a.score, b.score, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(a.stderr, b.stderr, rtol=1e-7)
    both = [quiet(cc.MPM(adherence="learned", variances=True), v) for v in (votes, votes.comparisons("count"))]
    np.testing.assert_allclose(both[0].score, both[1].score, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(both[0].stderr, both[1].stderr, rtol=1e-6)


def test_counts_of_ratings_are_differences_of_ratings_and_of_scores_of_positions() -> None:
    votes = corpus("rating")
    plain = cc.MPM(adherence="none")
    np.testing.assert_array_equal(
        quiet(plain, votes).score, quiet(cc.MPM(adherence="none", transform="rating"), votes).score
    )
    assert not np.allclose(quiet(plain, votes).score, quiet(plain, votes.to_ranks()).score)
    scored = cc.from_lists({"x": {"a": 9.0, "b": 1.0, "c": 0.5}, "y": {"b": 3.0, "a": 2.0}, "z": {"c": 2.0, "b": 1.0}})
    np.testing.assert_array_equal(quiet(plain, scored).score, quiet(plain, scored.to_ranks()).score)
    with pytest.raises(KindError, match="these are ranks"):
        cc.MPM(transform="rating").fit(corpus())


def test_gradient_ascent_is_the_published_procedure() -> None:
    votes = cc.from_lists(LISTS)
    items = votes.items.tolist()
    lists = [(1.0, {i: -float(r + 1) for r, i in enumerate(order)}) for order in LISTS.values()]
    method = cc.MPM(adherence="learned", optimizer="gd", max_iter=5)
    got = quiet(method, votes)
    _, theta = oracle.ascend(tables_of(items, lists), np.ones(5), 5, learning=True)
    np.testing.assert_allclose(method.adherence_, theta / theta.max(), atol=1e-7)
    score, _ = oracle.ascend(tables_of(items, lists), method.adherence_, 5, learning=False)
    np.testing.assert_allclose(got.score, score - score.mean(), atol=1e-7)
    assert not method.fit_info_.converged
    assert method.fit_info_.n_iter == 5
    base = quiet(cc.MPM(optimizer="gd", adherence="none", max_iter=400), votes)
    np.testing.assert_allclose(base.score, quiet(cc.MPM(adherence="none"), votes).score, atol=1e-8)


# Weights of instances.


def uneven(seed: int = 3, sizes: Sequence[int] = (3, 6, 4, 5, 3)) -> cc.Preferences:
    """Return lists of instances with different numbers of items by four experts of falling quality."""
    rng = np.random.default_rng(seed)
    rows = []
    for n, m in enumerate(sizes):
        truth = rng.normal(size=m)
        for expert, trust in {"good": 3.0, "fine": 1.5, "noisy": 0.7, "random": 0.0}.items():
            place = np.argsort(np.argsort(-(trust * truth + rng.normal(size=m)))) + 1.0
            rows += [(f"q{n}", expert, f"i{i}", float(place[i])) for i in range(m)]
    return cc.Preferences(*zip(*rows, strict=True), kind="rank")  # type: ignore[arg-type]


def instance_tables(votes: cc.Preferences) -> list[oracle.Instance]:
    """Return the expert and the table of every list, by instance."""
    out: list[oracle.Instance] = []
    for n in range(len(votes)):
        slots = range(int(votes.slots.offsets[n]), int(votes.slots.offsets[n + 1]))
        own = []
        for k in range(int(votes.list_starts[n]), int(votes.list_starts[n + 1])):
            rows = slice(votes.list_offsets[k], votes.list_offsets[k + 1])
            held = {str(s): -float(v) for s, v in zip(votes.slot[rows], votes.value[rows], strict=True)}
            own.append((int(votes.list_expert[k]), votes.weights[k] * oracle.table([str(s) for s in slots], held)))
        out.append(own)
    return out


def blocks_of(votes: cc.Preferences) -> cc.Blocks:
    """Return the preferences in two blocks."""
    rows = np.diff(votes.list_offsets[votes.list_starts])
    return cc.Blocks(InMemory([votes[:2], votes[2:]]), votes.instances, votes.experts, rows, votes.kind)


def instance_counts(instances: Sequence[oracle.Instance]) -> list[float]:
    return [sum(float(y.sum()) for _, y in own) for own in instances]


@pytest.mark.parametrize("dense", [0, 1000], ids=["L-BFGS-B", "Newton"])
@pytest.mark.parametrize("instance_weights", ["equal", "counts"])
def test_weighted_adherence_is_the_maximum_over_adherence_and_scores(
    instance_weights: str, dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_mpm_fit, "_DENSE_EXPERTS", dense)
    votes = uneven()
    instances = instance_tables(votes)
    weight = instance_counts(instances) if instance_weights == "counts" else np.ones(len(instances))
    value, best = oracle.corpus_maximum(instances, 4, weight, 1e-3, variances=False, starts=3)
    method = cc.MPM(adherence="learned", instance_weights=instance_weights).fit(votes)
    assert method.fit_info_.converged
    assert method.fit_info_.objective == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(method.adherence_, best[:4], atol=1e-6)
    in_blocks = cc.MPM(adherence="learned", instance_weights=instance_weights).fit(blocks_of(votes))
    np.testing.assert_allclose(in_blocks.adherence_, method.adherence_, atol=1e-7)


def test_weights_of_instances_matter_and_those_of_equal_counts_do_not() -> None:
    for votes, same in ((uneven(), False), (uneven(sizes=(5, 5, 5)), True)):
        for optimizer in ("auto", "gd"):
            equal, counts = (
                cc.MPM(adherence="learned", optimizer=optimizer, instance_weights=w).fit(votes)
                for w in ("equal", "counts")
            )
            assert np.allclose(equal.adherence_, counts.adherence_, rtol=0, atol=1e-9) == same


@pytest.mark.parametrize("instance_weights", ["equal", "counts"])
def test_gradient_ascent_weighs_instances(instance_weights: str) -> None:
    votes = uneven(sizes=(3, 5))
    theta = oracle.ascend_corpus(instance_tables(votes), 4, 4, by_counts=instance_weights == "counts")
    method = cc.MPM(adherence="learned", optimizer="gd", max_iter=4, instance_weights=instance_weights).fit(votes)
    np.testing.assert_allclose(method.adherence_, theta / theta.max(), atol=1e-7)


@pytest.mark.parametrize("optimizer", ["auto", "gd"])
def test_by_counts_an_instance_of_weight_two_is_two_instances(optimizer: str) -> None:
    votes = uneven()
    weighted = votes.with_weights({("q0", e): 2.0 for e in votes.experts})
    first = votes[:1]
    experts = first.experts[first.list_expert[first.row_list]]
    copy = cc.Preferences(["copy"] * len(experts), experts, first.items[first.slot], first.value, kind="rank")
    one, two = (
        cc.MPM(adherence="learned", optimizer=optimizer, instance_weights="counts").fit(v)
        for v in (weighted, cc.concat([votes, copy]))
    )
    np.testing.assert_allclose(one.adherence_, two.adherence_, rtol=0, atol=1e-9)
    assert one.fit_info_.objective == pytest.approx(two.fit_info_.objective, abs=1e-12)


# Supervised adherence.


def test_worked_case_of_supervised_adherence(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("06_theta_supervised")
    tolerance = content["abs_tol"]
    (case,) = content["cases"]
    votes, expected = from_matrix(case["input"]["R"]), case["expected"]
    labels = cc.Labels(["q"] * 4, [f"i{i}" for i in range(4)], case["input"]["labels"])
    rows = labels.align(votes).label[votes.slot]
    pairs_of_each = order_agreement(votes.value, rows, votes.list_offsets)
    assert np.transpose(pairs_of_each).tolist() == expected["concordant_discordant"]
    theta = np.array(expected["theta"])
    plain = cc.MPM(adherence="supervised", normalize="none").fit(votes, labels)
    np.testing.assert_allclose(plain.adherence_, theta, atol=tolerance)
    stretched = cc.MPM(adherence="supervised").fit(votes, labels)
    np.testing.assert_allclose(
        stretched.adherence_, (theta - theta.min()) / (theta.max() - theta.min()), atol=tolerance
    )
    assert stretched.expert_details_["instances"].tolist() == [1, 1, 1]
    np.testing.assert_allclose(stretched.expert_weights_["agreement"].to_numpy(), theta, atol=tolerance)


@st.composite
def labelled_rows(draw: Any, rows: Any) -> tuple[Any, dict[tuple[str, str], float]]:
    """Return rows and labels for some of their items."""
    drawn = draw(rows)
    items = drawn.items if isinstance(drawn, Rows) else drawn["items"]
    chosen = [draw(st.sampled_from([None, 0.0, 0.0, 1.0, 2.5])) for _ in items]
    return drawn, {pair: label for pair, label in zip(items, chosen, strict=True) if label is not None}


def as_labels(truth: dict[tuple[str, str], float]) -> cc.Labels:
    return cc.Labels([q for q, _ in truth], [i for _, i in truth], list(truth.values()))


def check_agreement(votes: Any, truth: Any, lists: Any, unjudged: str) -> None:
    """Require that θ is the oracle's; `lists` gives (instance, expert, weight, wins)."""
    told = dict(truth)
    if unjudged == "zero":
        named = {q for q, _ in truth}
        told |= {pair: 0.0 for pair in all_items(votes) if pair not in truth and pair[0] in named}
    want = {}
    for e in votes.experts:
        own = [(wins, {i: v for (r, i), v in told.items() if r == q}, w) for q, x, w, wins in lists if x == e]
        want[e] = oracle.label_agreement(own)
    method = cc.MPM(adherence="supervised", normalize="none", unjudged=unjudged)
    if not any(number for _, number in want.values()):
        with pytest.raises(DataError):
            method.fit(votes, as_labels(truth))
        return
    method.fit(votes, as_labels(truth))
    expected = [0.5 if want[e][0] is None else want[e][0] for e in votes.experts]
    np.testing.assert_allclose(method.adherence_, expected, atol=1e-12)
    assert method.expert_details_["instances"].tolist() == [want[e][1] for e in votes.experts]


def all_items(votes: Any) -> list[tuple[str, str]]:
    return [votes.slots.where(s) for s in range(votes.n_slots)]


@given(labelled_rows(preference_rows()), st.sampled_from(["zero", "drop"]))
def test_supervised_adherence_of_lists_is_agreement_over_pairs(case: Any, unjudged: str) -> None:
    rows, truth = case
    lists = []
    for q in {q for q, _ in rows.items}:
        for e in rows.experts:
            held = {i: (-v if rows.kind == "rank" else v) for r, x, i, v in rows.rows if (r, x) == (q, e)}
            weight = 1.0 if rows.weights is None else rows.weights[q, e]
            wins = lambda i, j, held=held: i in held and j in held and held[i] > held[j]  # noqa: E731
            lists.append((q, e, weight, wins))
    check_agreement(rows.build(), truth, lists, unjudged)


@given(labelled_rows(comparison_rows()), st.sampled_from(["zero", "drop"]))
def test_supervised_adherence_of_comparisons_is_the_share_of_wins(case: Any, unjudged: str) -> None:
    arguments, truth = case
    votes = cc.Comparisons(**arguments)
    if votes.expert is None:
        with pytest.raises(DataError, match="name no experts"):
            cc.MPM(adherence="supervised").fit(votes, as_labels(truth))
        return
    rows = list(zip(*list(arguments.values())[:6], strict=True))
    lists = []
    for q, e in {(r[0], r[1]) for r in rows}:
        own = [r[2:] for r in rows if r[:2] == (q, e)]
        wins = lambda i, j, own=own: (  # noqa: E731
            sum(a for left, right, a, _ in own if (left, right) == (i, j))
            + sum(b for left, right, _, b in own if (left, right) == (j, i))
        )
        lists.append((q, e, 1.0, wins))
    check_agreement(votes, truth, lists, unjudged)


def test_supervised_scores_are_those_of_the_trust_learned() -> None:
    sample = cc.synthetic.meta_search(40, random_state=3)
    method = cc.MPM(adherence="supervised")
    got = quiet(method, sample.preferences, sample.labels)
    trust = dict(zip(method.experts_, method.adherence_.tolist(), strict=True))
    assert min(trust["e1"], trust["e2"]) > trust["e3"] > trust["e4"] > trust["e6"] > trust["e7"] > trust["e8"] == 0.0
    assert max(trust.values()) == 1.0
    assert method.fit_info_.labels["usable"] == method.fit_info_.labels["labelled"] == 40
    assert method.fit_info_.converged
    assert got.interval_method == "sandwich, clustered by expert, adherence held fixed"
    counts = net_counts(sample.preferences, "count", pairs=False)
    want, _ = rank_scores(counts.sums(method.adherence_[counts.expert]), sample.preferences.slots.offsets)
    assert got.rank.tolist() == want.tolist()
    fresh = cc.synthetic.meta_search(60, random_state=4)
    value = {
        name: cc.evaluate(quiet_predict(m, fresh.preferences), fresh.labels, ["ndcg@10"]).mean["ndcg@10"]
        for name, m in (("supervised", method), ("none", cc.MPM(adherence="none")))
    }
    assert value["supervised"] > value["none"] + 0.15


def quiet_predict(method: cc.Aggregator, votes: Any) -> cc.Consensus:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        return method.predict(votes)


def test_experts_the_labels_say_nothing_about() -> None:
    votes = cc.Preferences(
        ["q"] * 7,
        ["x", "x", "y", "y", "z", "z", "w"],
        list("abbaaca"),
        [1, 2, 1, 2, 1, 2, 1],
        experts=[*"xyzw", "mute"],
    )
    labels = cc.Labels(["q"] * 3, list("abc"), [1, 0, 1])
    method = cc.MPM(adherence="supervised")
    with pytest.warns(ConcordantWarning, match=r"nothing about the experts \['z', 'w', 'mute'\], who never order"):
        method.fit(votes, labels)
    assert method.adherence_.tolist() == [1.0, 0.0, 0.5, 0.5, 0.5]
    assert np.isnan(method.expert_details_["agreement"][2:]).all()
    # They do not stretch the scale: alone, the best and the only one is trusted fully, and they with it.
    with pytest.warns(ConcordantWarning, match="nothing about the experts"):
        method.fit(votes.select_experts(["x", "z"]), labels)
    assert method.adherence_.tolist() == [1.0, 1.0]
    with pytest.raises(DataError, match="nobody ranks two items of different labels differently"):
        method.fit(votes.select_experts(["z"]), labels)


def test_supervised_adherence_asks_for_labels() -> None:
    votes = corpus()
    method = cc.MPM(adherence="supervised")
    with pytest.raises(DataError, match=r"MPM\(adherence='supervised'\) learns from labels and got none"):
        method.fit(votes)
    with pytest.raises(NotFittedError):
        method.predict(votes)
    with pytest.raises(DataError, match="found no usable label"):
        method.fit(votes, cc.Labels(votes.instances.tolist(), ["i0"] * 6, [0.0] * 6))
    with pytest.warns(ConcordantWarning, match="no expert ever orders two items as their labels do"):
        method.set_params(normalize="none").fit(cc.from_lists({"x": ["a", "b"]}), cc.Labels(["q"], ["b"], [1]))
    assert method.adherence_.tolist() == [0.0]


@pytest.mark.data
def test_supervised_adherence_on_real_data(data_dir: Path) -> None:
    # Means of the five validation parts; learned adherence gives 43.7 and 44.4, and equal trust 43.1 and 44.8.
    found = []
    for fold in cc.read_letor_folds(data_dir / "MQ2008-agg"):
        method = cc.MPM(adherence="supervised", uncertainty="none")
        quiet(method, *fold.train)
        assert method.fit_info_.labels["instances"] == len(fold.train.preferences)
        value = cc.evaluate(
            quiet_predict(method, fold.vali.preferences), fold.vali.labels, ["ndcg@5", "map"], convention="letor"
        )
        found.append(list(value.mean.values()))
    assert np.mean(found, axis=0) == pytest.approx([0.4393, 0.4470], abs=5e-4)


class Supervised(cc.MPM):
    """MPM as it promises to behave when it learns from labels: an expert who contradicts them is not followed."""

    tags = cc.MPM.tags._replace(supervised=True, faithful=False)


# Checks whose data this cannot work on, and those that ask about the class alone.
UNCHECKED = {
    "saved_is_loaded": "the class of this test is not registered",
    "swapped_items_tie": "two items with one label teach nothing, which is an error",
    "item_nobody_ranks_is_not_first": "the labels contradict the experts, and all items tie",
    "intervals_hold_the_score": "the worst of two experts is not heard, and one alone gives no interval",
    "init_only_assigns": "as without labels",
    "parameters_round_trip": "as without labels",
}


@pytest.mark.parametrize("check", [c for c in checks_for(Supervised) if c.name not in UNCHECKED], ids=str)
def test_contract_when_supervised(check: Check) -> None:
    check(Supervised(adherence="supervised"))


def test_supervised_is_saved_and_loaded(tmp_path: Path) -> None:
    sample = cc.synthetic.meta_search(10)
    method = cc.MPM(adherence="supervised").fit(sample.preferences, sample.labels)
    method.save(tmp_path / "model")
    loaded = cc.load(tmp_path / "model")
    np.testing.assert_array_equal(
        quiet_predict(loaded, sample.preferences).score, quiet_predict(method, sample.preferences).score
    )
    assert loaded.fit_info_.labels == method.fit_info_.labels


# Variances.


def test_scores_and_variances_are_stationary_from_defaults() -> None:
    votes = cc.from_lists(LISTS)
    items = votes.items.tolist()
    lists = [(1.0, {i: -float(r + 1) for r, i in enumerate(order)}) for order in LISTS.values()]
    tables = tables_of(items, lists)
    method = cc.MPM(adherence="learned", variances=True)
    got = quiet(method, votes)
    total = sum(y.sum() for y, t in zip(tables, method.adherence_, strict=True) if t > 0)
    kept = [(y, t) for y, t in zip(tables, method.adherence_, strict=True) if t > 0]

    def objective(z: Any) -> float:
        likelihood = oracle.log_likelihood([y for y, _ in kept], [t for _, t in kept], z[:5], np.exp(z[5:]))
        return likelihood / total - 0.5 * float((z[5:] ** 2).mean())

    z = np.concatenate([got.score, np.log(method.variance_)])
    np.testing.assert_allclose(oracle.slope(objective, z), 0, atol=1e-8)
    assert abs(np.log(method.variance_).mean()) < 1e-12
    assert got.gauge == "the scores of an instance have mean 0, its log variances too"
    assert method.fit_info_.converged


def test_variances_of_an_instance_without_an_estimate_are_not_numbers() -> None:
    p = cc.Preferences(["q"] * 3 + ["r"] * 2, ["x", "x", "x", "x", "x"], list("abcab"), [1, 2, 3, 1, 2])
    for optimizer in ("auto", "gd"):
        method = cc.MPM(variances=True, optimizer=optimizer)
        with pytest.warns(ConcordantWarning, match=r"no finite estimate in 1 of 2 .* 'r', \['a'\] over \['b'\]"):
            method.fit_predict(p)
        assert np.isfinite(method.variance_[:3]).all()
        assert np.isnan(method.variance_[3:]).all()
    method.predict(p[:1])
    assert len(method.variance_) == 5


def test_large_instances_ask_before_they_take_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WITH_ALL_PAIRS", 4)
    votes = cc.from_lists(LISTS)
    with pytest.raises(DataError, match=r"5 items of instance 'q' take 0.0 GB. Pass variances='force'"):
        cc.MPM(variances=True).fit_predict(votes)
    assert quiet(cc.MPM(variances="force"), votes).n_slots == 5
    with pytest.warns(ConcordantWarning, match="no intervals for instances of more than 4 items: 5 need"):
        got = cc.MPM(adherence="none").fit_predict(votes)
    assert np.isnan(got.stderr).all()
    asked = quiet(cc.MPM(adherence="none", uncertainty="sandwich"), votes)
    assert np.isfinite(asked.stderr).all()


# Adherence and variances learned together.


@pytest.mark.parametrize("instance_weights", ["equal", "counts"])
@pytest.mark.parametrize(("seed", "sizes"), [(0, (3, 6, 4, 5, 3)), (4, (4, 4)), (5, (4, 4)), (7, (5,))], ids=str)
def test_joint_adherence_scores_and_variances_are_the_maximum(
    seed: int, sizes: tuple[int, ...], instance_weights: str
) -> None:
    votes = uneven(seed, sizes)
    instances = instance_tables(votes)
    weight = instance_counts(instances) if instance_weights == "counts" else np.ones(len(instances))
    value, best = oracle.corpus_maximum(instances, 4, weight, 1e-3, variances=True, starts=4)
    method = cc.MPM(adherence="learned", variances="joint", instance_weights=instance_weights).fit(votes)
    info = method.fit_info_
    assert info.converged
    assert info.gradient_norm < 1e-12
    assert info.objective > value - 1e-6
    # The starts all end at this maximum or below it.
    assert info.objective == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(method.adherence_, best[:4], atol=1e-6)


def test_joint_adherence_is_not_that_of_equal_variances() -> None:
    votes = uneven()
    joint, after = (cc.MPM(adherence="learned", variances=v) for v in ("joint", True))
    quiet(joint, votes)
    quiet(after, votes)
    assert np.abs(joint.adherence_ - after.adherence_).max() > 0.01
    assert joint.variance_.shape == after.variance_.shape
    # Where the adherence is not learned, nothing is left to learn together.
    by_default = [quiet(cc.MPM(variances=v), votes).score for v in ("joint", True)]
    np.testing.assert_array_equal(*by_default)


@pytest.mark.parametrize("comparisons", [False, True])
def test_joint_profile_derivatives_are_finite_differences(comparisons: bool) -> None:
    votes = uneven(sizes=(4, 3)).with_weights({"good": 2.0})
    counts = net_counts(votes.comparisons("count") if comparisons else votes, "count", pairs=True)
    block = _mpm_fit.AdherenceBlock.of(counts, "counts", joint=True)
    profile = _mpm_fit.ProfileLikelihood(InMemory([block]), float(counts.total.sum()), 4)
    theta = np.array([0.9, 0.5, 0.3, 0.7])
    value, gradient = profile(theta)
    hessian = profile.hessian(theta)
    (found,) = profile.blocks.map(lambda b: b)
    # The point is stationary for the scores and log variances of the objective written out.
    z, edges = np.split(found.score, 2), counts.offsets
    own = [np.concatenate([part[a:b] for part in z]) for a, b in itertools.pairwise(edges)]
    instances = instance_tables(votes)
    want, slope = oracle.corpus_objective(
        np.concatenate([theta, *own]), instances, 4, instance_counts(instances), 1e-3, variances=True
    )
    assert value == pytest.approx(want, abs=1e-12)
    np.testing.assert_allclose(slope[4:], 0, atol=1e-14)
    np.testing.assert_allclose(gradient, slope[:4], atol=1e-14)
    np.testing.assert_allclose(hessian, oracle.slope(lambda t: profile(t)[1], theta), atol=1e-8)
    assert found.norm < 1e-13


def test_joint_learning_in_blocks_by_other_steps_and_from_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    votes = uneven()
    whole = cc.MPM(adherence="learned", variances="joint").fit(votes)
    in_blocks = cc.MPM(adherence="learned", variances="joint").fit(blocks_of(votes))
    np.testing.assert_allclose(in_blocks.adherence_, whole.adherence_, rtol=0, atol=1e-9)
    for _ in range(2):
        with cc.checkpoint(tmp_path / "fit", every=0):
            again = cc.MPM(adherence="learned", variances="joint").fit(votes)
        np.testing.assert_array_equal(again.adherence_, whole.adherence_)
        assert again.fit_info_.gradient_norm == whole.fit_info_.gradient_norm
    monkeypatch.setattr(_mpm_fit, "_DENSE_EXPERTS", 0)
    quasi = cc.MPM(adherence="learned", variances="joint").fit(votes)
    assert quasi.fit_info_.converged
    np.testing.assert_allclose(quasi.adherence_, whole.adherence_, rtol=0, atol=1e-5)


def test_joint_learning_says_where_it_stops_and_what_it_cannot_do(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = uneven()
    method = cc.MPM(adherence="learned", variances="joint", max_iter=1)
    with pytest.warns(ConcordantWarning, match="adherence and variances have not converged after 1 steps"):
        method.fit(votes)
    assert not method.fit_info_.converged
    for params, message in (
        ({"adherence": "none"}, "'adherence' parameter of MPM must be 'auto' or 'learned' where variances='joint'"),
        ({"adherence": "supervised"}, "'adherence' parameter of MPM must be 'auto' or 'learned'"),
        ({"optimizer": "gd"}, "'optimizer' parameter of MPM must be 'auto' where variances='joint'"),
    ):
        with pytest.raises(ParameterError, match=message):
            cc.MPM(variances="joint", **params).fit(votes)
    monkeypatch.setattr(module, "MOST_WITH_ALL_PAIRS", 4)
    with pytest.raises(
        DataError, match=r"variances='joint' needs a table of all pairs .* 6 items .* variances='force'"
    ):
        cc.MPM(adherence="learned", variances="joint").fit(votes)


# Intervals.


def test_intervals_of_independent_comparisons_come_from_the_information() -> None:
    rng = np.random.default_rng(4)
    y = rng.integers(1, 6, (4, 4)) + np.triu(np.full((4, 4), 5), 1)
    np.fill_diagonal(y, 0)
    left, right = np.nonzero(y)
    votes = cc.Comparisons("q", None, [f"i{i}" for i in left], [f"i{j}" for j in right], y[left, right])
    method = cc.MPM()
    got = method.fit_predict(votes)
    assert method.fit_info_.uncertainty == got.interval_method == "observed information"
    assert method.adherence_used_ == "none"
    learned = cc.MPM(adherence="learned").fit(votes)
    assert learned.adherence_.tolist() == learned.experts_ == []
    np.testing.assert_array_equal(learned.predict(votes).stderr, got.stderr)
    table = oracle.table([], {}) if not len(y) else y.astype(float)
    order = [int(i[1:]) for i in got.items]
    expected = oracle.covariance([table[np.ix_(order, order)]], [1.0], got.score)
    np.testing.assert_allclose(got.covariance[0], expected, rtol=1e-4, atol=1e-8)
    again = cc.MPM(uncertainty="bootstrap", n_bootstrap=2000).fit_predict(votes)
    assert again.interval_method == "bootstrap over outcomes"
    np.testing.assert_allclose(again.stderr, got.stderr, rtol=0.1)
    with pytest.raises(DataError, match="needs experts to cluster by"):
        cc.MPM(uncertainty="sandwich").fit_predict(votes)


@pytest.mark.parametrize("weight", [{}, {"x": 3.0, "w": 0.5}], ids=str)
@pytest.mark.parametrize("transform", ["count", "binary"])
def test_intervals_of_lists_are_clustered_by_expert(transform: str, weight: dict[str, float]) -> None:
    votes = cc.from_lists(LISTS, weights=weight or None)
    items = votes.items.tolist()
    held = [(weight.get(e, 1.0), {i: -float(r + 1) for r, i in enumerate(order)}) for e, order in LISTS.items()]
    tables = [oracle.table(items, own, transform) for _, own in held]
    got = cc.MPM(transform=transform).fit_predict(votes)
    clusters = [
        (w, lambda s, y=y: oracle.log_likelihood([y], [1.0], s)) for (w, _), y in zip(held, tables, strict=True)
    ]
    # A list's likelihood bends along all scores; what it speaks of are the items it holds.
    effective = []
    for i in items:
        said = [(w, y.sum()) for (w, own), y in zip(held, tables, strict=True) if i in own]
        effective.append(sum(w * n for w, n in said) ** 2 / sum(w * n**2 for w, n in said))
    want, freedom = spread.moderated(clusters, got.score, 5, effective=effective)
    np.testing.assert_allclose(got.covariance[0], want, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose((got.upper - got.score) / got.stderr, stats.t.ppf(0.975, freedom), rtol=1e-5)
    assert got.interval_method == "sandwich, clustered by expert"


def test_intervals_with_learned_adherence_hold_it_fixed_and_say_so() -> None:
    method = cc.MPM(adherence="learned")
    with pytest.warns(UncertaintyWarning, match=r"learned from 6 instances and is taken as known: .* fewer than 50"):
        got = method.fit_predict(corpus())
    assert got.interval_method == "sandwich, clustered by expert, adherence held fixed"
    assert (got.stderr > 0).all()
    for table in got.covariance:
        assert np.linalg.eigvalsh(table).min() > -1e-10
    many = cc.MPM(adherence="learned")
    many.fit_predict(corpus(instances=60))
    assert not [w for w in many.fit_info_.warnings if "taken as known" in w]


def test_adherence_is_learned_by_default_where_instances_are_many() -> None:
    for n, used in ((19, "none"), (20, "learned")):
        votes = corpus(instances=n)
        method, same = cc.MPM(), cc.MPM(adherence=used)
        got, want = quiet(method, votes), quiet(same, votes)
        assert (method.adherence_used_, method.training_instances_) == (used, n)
        np.testing.assert_array_equal(got.score, want.score)
        np.testing.assert_array_equal(got.stderr, want.stderr)
        assert ("adherence held fixed" in got.interval_method) == (used == "learned")
    # Instances in which nobody prefers anything teach nothing.
    silent = cc.Preferences(["z"], ["good"], ["i0"], [1.0])
    method = cc.MPM()
    quiet(method, cc.concat([corpus(instances=19), silent]))
    assert (method.adherence_used_, method.training_instances_) == ("none", 19)


def test_a_weight_is_so_many_experts_in_the_intervals_too() -> None:
    weighted = cc.from_lists(LISTS, weights={"x": 3.0, "w": 0.0})
    copies = {f"x{n}": LISTS["x"] for n in range(3)} | {e: LISTS[e] for e in ("y", "z", "v")}
    for variances in (False, True):
        method = cc.MPM(adherence="none", variances=variances)
        a, b = quiet(method, weighted), quiet(method, cc.from_lists(copies))
        order = [a.items.tolist().index(i) for i in b.items]
        np.testing.assert_allclose(a.score[order], b.score, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(a.stderr[order], b.stderr, rtol=1e-6)


def test_the_bootstrap_agrees_with_the_sandwich_where_experts_are_many() -> None:
    rng = np.random.default_rng(5)
    truth = np.linspace(-1, 1, 6)
    lists = {}
    for k in range(80):
        seen = truth + rng.normal(size=6)
        lists[f"e{k}"] = [f"i{i}" for i in np.argsort(-seen)]
    votes = cc.from_lists(lists)
    for params in ({}, {"variances": True}, {"adherence": "learned"}):
        params = {"adherence": "none"} | params
        sandwich = quiet(cc.MPM(**params), votes)
        drawn = quiet(cc.MPM(uncertainty="bootstrap", n_bootstrap=150, **params), votes)
        np.testing.assert_array_equal(sandwich.score, drawn.score)
        np.testing.assert_allclose(drawn.stderr, sandwich.stderr, rtol=0.3)
    seeded = [quiet(cc.MPM(uncertainty="bootstrap", n_bootstrap=20, random_state=s), votes).stderr for s in (0, 0, 1)]
    np.testing.assert_array_equal(seeded[0], seeded[1])
    assert not np.array_equal(seeded[0], seeded[2])


def test_pairs_of_one_list_are_not_independent_outcomes() -> None:
    votes = cc.from_lists(LISTS)
    sandwich = quiet(cc.MPM(adherence="none"), votes)
    naive = quiet(cc.MPM(adherence="none", uncertainty="information"), votes)
    assert naive.interval_method == "observed information"
    assert not np.allclose(naive.stderr, sandwich.stderr, rtol=0.1)
    none = quiet(cc.MPM(adherence="none", uncertainty="none"), votes)
    assert none.stderr is None
    np.testing.assert_array_equal(none.score, sandwich.score)


# Experts.


def test_unknown_experts_are_an_error_or_left_out() -> None:
    train, votes = corpus(), cc.from_lists({"good": ["a", "b", "c"], "stranger": ["c", "b", "a"], "fine": ["a", "c"]})
    method = cc.MPM(adherence="learned")
    for unfitted in (method, cc.MPM()):
        with pytest.raises(NotFittedError):
            unfitted.predict(votes)
    quiet(method, train)
    with pytest.raises(
        DataError, match=r"nothing about the experts \['stranger'\]. Known: \['good', 'fine', 'noisy', 'random'\]"
    ):
        method.predict(votes)
    method.set_params(unknown_experts="ignore")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        got = method.predict(votes)
        without = method.predict(votes.drop_experts(["stranger"]))
    assert got.ranking() == without.ranking() == ["a", "b", "c"]
    np.testing.assert_allclose(got.score, without.score, atol=1e-12)


def test_an_absent_expert_has_no_effect() -> None:
    train = corpus()
    method = cc.MPM(adherence="learned")
    quiet(method, train)
    some = cc.from_lists({"good": ["a", "b", "c"], "fine": ["b", "a", "c"]})
    more = cc.Preferences(
        ["q"] * 6,
        ["good"] * 3 + ["fine"] * 3,
        list("abcbac"),
        [1, 2, 3, 1, 2, 3],
        experts=["noisy", "good", "fine", "zed"],
    )
    np.testing.assert_array_equal(method.predict(some).score, method.predict(more).score)


def test_the_table_of_experts_holds_the_adherence() -> None:
    method = cc.MPM(adherence="learned")
    quiet(method, corpus())
    table = method.expert_weights_
    assert table["expert"].to_list() == method.experts_
    assert table["weight"].to_list() == method.adherence_.tolist()


# Poor data: each is named, none hangs.


@pytest.mark.parametrize("params", [{}, {"adherence": "learned"}, {"optimizer": "gd"}, {"variances": True}])
@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (
            cc.from_lists({"x": ["a", "b", "c", "d"]}),
            r"no intervals for items .* of instance 'q': fewer than two experts",
        ),
        (cc.from_lists({"x": ["only"], "y": ["only"]}), r"nobody prefers any of items \['only'\] of instance 'q'"),
        (
            cc.from_lists({"x": {"a": 1.0, "b": 1.0}, "y": {"b": 0.0, "a": 0.0}}),
            r"nobody prefers any of items \['a', 'b'\] of instance 'q'",
        ),
        (
            cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a", "c"], "z": ["d", "e", "f"], "w": ["e", "d", "f"]}),
            r"items \['d', 'e', 'f'\] never met any of \['a', 'b', 'c'\] in instance 'q': what places them is",
        ),
        (
            cc.Comparisons("q", ["x"] * 2, ["a", "a"], ["b", "c"], items=[("q", i) for i in "abcd"]),
            r"no finite estimate in 1 of 1 .* \['a'\] over \['b', 'c'\]",
        ),
    ],
    ids=["one expert", "one item", "all ties", "two components", "only wins or losses"],
)
def test_poor_data_are_named(votes: Any, message: str, params: dict[str, Any]) -> None:
    method = cc.MPM(**params)
    with pytest.warns(ConcordantWarning, match=message):
        got = method.fit_predict(votes)
    assert np.isfinite(got.score).all()
    assert any(message.split(" ", 1)[0] in w for w in method.fit_info_.warnings)


def test_a_chain_of_undefeated_items_has_a_finite_estimate() -> None:
    chain = cc.Comparisons("q", ["x", "y", "x"], list("abc"), list("bcd"), [2, 2, 2])
    got = quiet(cc.MPM(adherence="none"), chain)
    assert got.ranking()[0] == "a"
    assert got.ranking()[-1] == "d"
    assert np.abs(got.score).max() < 5


def test_an_expert_who_says_nothing_is_named() -> None:
    votes = cc.Preferences(
        ["q"] * 5, ["x", "x", "x", "y", "y"], list("abcba"), [1, 2, 3, 1, 2], experts=["x", "mute", "y", "z"]
    )
    method = cc.MPM(adherence="learned")
    with pytest.warns(ConcordantWarning, match=r"experts \['mute', 'z'\] have no preferences"):
        method.fit(votes)
    assert method.adherence_[1] == method.adherence_[3] == 1.0


def test_experts_who_say_nothing_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several hundred of them in a matrix of all experts took a second a step."""
    sizes = []
    eigh = np.linalg.eigh

    def counted(matrix: Any) -> Any:
        sizes.append(len(matrix))
        return eigh(matrix)

    monkeypatch.setattr(np.linalg, "eigh", counted)
    alone = quiet(cc.MPM(adherence="learned"), cc.from_lists(LISTS))
    among = quiet(cc.MPM(adherence="learned"), cc.from_lists(LISTS | {f"mute {n}": ["a"] for n in range(50)}))
    assert max(sizes) <= len(LISTS)
    assert among.score == pytest.approx(alone.score, abs=1e-12)


def test_opposite_opinions_cancel_to_a_tie() -> None:
    votes = cc.from_lists({"x": ["a", "b", "c", "d"], "y": ["d", "c", "b", "a"]})
    for transform in ("count", "log", "rankdiff", "binary"):
        if transform == "log":
            continue  # logarithms of ranks are not symmetric
        assert quiet(cc.MPM(transform=transform), votes).rank.tolist() == [1, 1, 1, 1]


def test_an_item_nobody_speaks_of_is_in_the_middle_without_an_interval() -> None:
    items = [("q", i) for i in "abcz"]
    votes = cc.Preferences(["q"] * 6, ["x"] * 3 + ["y"] * 3, list("abcacb"), [1, 2, 3, 1, 2, 3], items=items)
    got = quiet(cc.MPM(adherence="none"), votes)
    score = dict(zip(got.items, got.score, strict=True))
    assert score["a"] > score["z"] > min(score["b"], score["c"])
    assert np.isnan(got.stderr[3])
    assert np.isfinite(got.stderr[:3]).all()
    assert (got.rank_lower[3], got.rank_upper[3]) == (1, 4)


def test_a_fit_that_runs_out_of_steps_says_so() -> None:
    method = cc.MPM(adherence="learned", max_iter=1)
    with pytest.warns(ConcordantWarning, match="the adherence has not converged after 1 steps"):
        method.fit(corpus())
    assert not method.fit_info_.converged
    method = cc.MPM(variances=True, adherence="none", tol=1e-300)
    with pytest.warns(ConcordantWarning, match="the scores of 6 of 6 instances have not converged"):
        method.fit_predict(corpus())
    assert not method.fit_info_.converged


@pytest.mark.parametrize(
    "params",
    [
        {"variances": 1},
        {"adherence": "given"},
        {"instance_weights": "count"},
        {"normalize": "max"},
        {"unjudged": "one"},
        {"transform": "auto"},
        {"optimizer": "newton"},
        {"max_iter": 0},
        {"tol": 0},
        {"level": 1.0},
        {"uncertainty": "yes"},
    ],
)
def test_parameters_are_checked(params: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=repr(next(iter(params)))):
        cc.MPM(**params).fit(cc.from_lists(LISTS))


# Real data.


@pytest.mark.data
def test_letor_rows_are_reached_without_looking_at_labels(data_dir: Path) -> None:
    metrics = ["ndcg@5", "map"]
    rows: dict[str, list[list[float]]] = {"base": [], "adherence": []}
    for train, _, test in cc.read_letor_folds(data_dir / "MQ2008-agg"):
        for name, method in (
            ("base", cc.MPM(adherence="none", uncertainty="none")),
            ("adherence", cc.MPM(uncertainty="none")),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConcordantWarning)
                got = method.fit(train[0]).predict(test[0])
            assert method.fit_info_.converged
            mean = cc.evaluate(got, test[1], metrics, convention="letor").mean
            rows[name].append([100 * v for v in mean.values()])
    np.testing.assert_allclose(np.mean(rows["base"], axis=0), [43.14, 44.78], atol=0.006)
    # Published: 43.69 and 44.32.
    ndcg, average_precision = np.mean(rows["adherence"], axis=0)
    assert ndcg > 43.69 - 0.5
    assert average_precision > 44.32 - 0.5


@pytest.mark.data
def test_popular_films_lead_and_variance_falls_with_support(data_dir: Path) -> None:
    from scipy.stats import spearmanr

    user, film, rating = np.loadtxt(data_dir / "movielens-100k" / "u.data", dtype=np.int64)[:, :3].T
    votes = cc.Preferences(["films"] * len(user), user, film, rating, kind="rating")
    raters = np.bincount(votes.slot)
    got = quiet(cc.MPM(adherence="none", uncertainty="none"), votes)
    # Star Wars, Raiders of the Lost Ark, The Godfather, The Silence of the Lambs, The Shawshank Redemption.
    assert raters[got.order()[:5]].tolist() == [583, 420, 413, 390, 283]
    method = cc.MPM(adherence="none", variances=True, uncertainty="none")
    got = quiet(method, votes)
    assert method.fit_info_.converged
    assert spearmanr(method.variance_, raters)[0] < -0.9
    # Published last: Cable Guy, Striptease, A Very Brady Sequel, Jungle2Jungle, The Island of Dr. Moreau.
    assert set(raters[got.order()[-5:]].tolist()) == {106, 67, 93, 132, 57}


def test_scores_of_very_many_lists_take_few_steps() -> None:
    # Rounding in the sum over lists must not look like a fall of the objective: the last steps would be halved away.
    rng = np.random.default_rng(3)
    lists, m = 5000, 10
    theta, share = np.clip(rng.normal(0.5, 0.5, lists), 0, 1), np.full(lists, 1 / lists)
    place = np.argsort(np.argsort(np.arange(m) + rng.normal(size=(lists, m)), axis=1), axis=1)
    net = (share * theta) @ (place - 4.5) / 33
    items, groups = np.array([0, m], dtype=np.int64), np.array([0, lists], dtype=np.int64)
    score, norm, value = np.zeros(m), np.zeros(1), np.zeros(1)
    for _ in range(20):
        wobble = 1e-5 * rng.normal(size=m)
        score += wobble - wobble.mean()
        wanted = np.ones(1, dtype=np.bool_)
        steps = mpm.solve_scores(items, groups, share, theta, net, 1e-3, wanted, score, norm, value)
        assert steps < 10
        assert norm[0] < 1e-13


def test_how_intervals_will_be_made_is_known_after_fit() -> None:
    for params, words in (
        ({}, "sandwich, clustered by expert"),
        ({"adherence": "learned"}, "sandwich, clustered by expert, adherence held fixed"),
        ({"adherence": "none", "uncertainty": "bootstrap"}, "bootstrap over experts"),
        ({"uncertainty": "none"}, None),
    ):
        method = cc.MPM(**params).fit(corpus())
        assert method.fit_info_.uncertainty == words
        method.predict(corpus())
        assert method.fit_info_.uncertainty == words


def test_whom_one_instance_alone_decides_to_believe_is_said() -> None:
    votes = cc.Comparisons("q", list("xxyy"), list("acba"), list("bdcc"), [3, 2, 3, 2])
    method = cc.MPM(adherence="learned")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = method.fit(votes).predict(votes)
    assert method.adherence_.tolist() == [0.0, 1.0]
    assert found.ranking()[0] != "a"
    told = [str(w.message) for w in said]
    assert sum("experts ['x'] have adherence 0" in note for note in told) == 1
    assert sum("learned from one instance alone, 'q'" in note for note in told) == 1
    assert quiet(cc.MPM(), votes).ranking()[0] == "a"


def test_nothing_is_said_of_belief_where_everybody_is_believed_or_instances_are_many() -> None:
    both = cc.from_lists({"x": ["a", "b", "c"], "y": ["a", "b", "c"]})
    with pytest.warns(ConcordantWarning) as said:
        cc.MPM(adherence="learned").fit_predict(both)
    assert not [w for w in said if "believe" in str(w.message)]
    assert not [w for w in cc.MPM(adherence="learned").fit(corpus()).fit_info_.warnings if "alone" in w]


def test_bootstrap_of_few_experts_is_as_wide_as_the_sandwich() -> None:
    votes = cc.from_lists({"x": list("abcdef"), "y": list("bcadfe"), "z": list("acbfde"), "w": list("dabcef")})
    drawn = quiet(cc.MPM(adherence="none", uncertainty="bootstrap", n_bootstrap=3000), votes)
    exact = quiet(cc.MPM(adherence="none"), votes)
    ratio = np.sqrt(np.trace(drawn.covariance[0]) / np.trace(exact.covariance[0]))
    assert 0.95 < ratio < 1.2
    np.testing.assert_allclose(drawn.upper - drawn.lower, exact.upper - exact.lower, rtol=0.2)


@pytest.mark.parametrize("transform", ["count", "rating"])
def test_values_whose_differences_overflow_are_refused_by_name(transform: str) -> None:
    kind = "rating" if transform == "rating" else "rank"
    far = cc.Preferences(["q"] * 4, ["x", "x", "y", "y"], ["a", "b", "b", "c"], [1.0, 2.0, 1.0, 1e308], kind=kind)
    with pytest.raises(DataError, match=r"the ra(nk|ting) of item 'c' in instance 'q' is beyond 1e\+100"):
        cc.MPM(transform=transform).fit_predict(far)
    assert np.isfinite(cc.MPM(transform="binary").fit_predict(far).score).all()


@pytest.mark.parametrize("weight", [1.0, 1e-9])
def test_values_whose_differences_have_no_inverse_are_refused_by_name(weight: float) -> None:
    """They had ended in NumPy's error about eigenvalues."""
    unit = 1e-308 if weight == 1.0 else 1e-300
    close = cc.Preferences(
        ["q"] * 4, ["x", "x", "y", "y"], ["a", "b", "b", "c"], [0, unit, unit, 0], kind="rating", weight={"x": weight}
    )
    with pytest.raises(DataError, match=r"expert 'x' in instance 'q' times the weight .* less than 1e-307"):
        cc.MPM(adherence="learned").fit_predict(close)
    assert np.isfinite(cc.MPM(adherence="learned", transform="binary").fit_predict(close).score).all()


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize("adherence", ["none", "learned"])
def test_scores_are_explained_in_proportion_to_net_counts(adherence: str) -> None:
    """Parts add up, and are the net counts of each expert times one number for each item; the base is one for all."""
    rng = np.random.default_rng(5)
    orders = {q: {e: [f"{q}{i}" for i in rng.permutation(6)] for e in "vwxyz"} for q in "abcd"}
    votes = cc.concat([cc.from_lists(lists, q) for q, lists in orders.items()])
    model = cc.MPM(adherence=adherence, tol=1e-12)
    board = model.fit_predict(votes)
    trust = dict(zip("vwxyz", [1.0] * 5, strict=True))
    if adherence == "learned":
        trust |= dict(zip(model.experts_, model.adherence_.tolist(), strict=True))
    for q, lists in orders.items():
        why = model.explain(votes, q)
        own = dict(zip(board[q].items, board[q].score.tolist(), strict=True))
        np.testing.assert_allclose(why.contribution.sum(axis=1) + why.base, [own[i] for i in why.items], atol=1e-9)
        np.testing.assert_allclose(why.base, why.base[0], atol=1e-8)
        # An expert's differences of ranks with all other items of the list.
        net = [[trust[e] * sum(o - lists[e].index(i) for o in range(6)) for e in why.experts] for i in why.items]
        ratio = why.contribution / np.array(net)
        np.testing.assert_allclose(ratio, np.broadcast_to(ratio[:, :1], ratio.shape), rtol=1e-9)
        assert (ratio > 0).all()


def test_the_base_is_the_score_of_an_item_with_as_much_for_as_against_it() -> None:
    votes = cc.Comparisons(
        "q", list("eefef"), ["a", "b", "c", "d", "d"], ["b", "c", "a", "a", "b"], [5, 4, 3, 6, 1], [1, 1, 1, 2, 5]
    )
    even = cc.MPM(adherence="none").fit(votes).explain(votes)
    place = even.items.index("d")
    # d won 7 and lost 7; its score is the base, and its two parts cancel.
    assert even.score[place] == pytest.approx(even.base[0], abs=1e-9)
    assert even.contribution[place].sum() == pytest.approx(0.0, abs=1e-12)
    assert np.abs(even.contribution[place]).min() > 0.05
    separated = cc.Comparisons("q", ["e", "f"], ["a", "a"], ["b", "b"], [2, 1], [0, 0])
    model = cc.MPM(adherence="none").fit(separated)
    assert model.explain(separated).contribution.tolist() == [[2.0, 1.0], [-2.0, -1.0]]
    for refused in (cc.MPM(variances=True, adherence="none"), cc.MPM(optimizer="gd", adherence="none")):
        with pytest.raises(KindError, match="no sum over experts"):
            refused.fit(votes).explain(votes)
