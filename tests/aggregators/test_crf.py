"""The CRF: golden scores and steps, a stationary full batch, known experts found out, and the edges its page names."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.aggregators.common import from_matrix
from tests.oracles import crf as oracle

import concordant as cc
from concordant.errors import ConcordantWarning, DataError, KindError, NotFittedError, ParameterError
from concordant.execution import force_threads, watch

SOURCE = Path(__file__).resolve().parents[2] / "src"
Golden = Callable[[str], dict[str, Any]]


def with_weights(w: Any, names: list[str], **params: Any) -> cc.CRF:
    """Return a CRF as if it had learned these weights, one row (alpha, beta+, beta-) for each expert."""
    model = cc.CRF(**params)
    model.experts_, model.shared_, model.pruned_ = names, -1, []
    model.transforms_ = [model.transform if isinstance(model.transform, str) else "log"]
    model.weights_ = np.array(w, dtype=np.float64)
    model.adherence_ = np.zeros(len(names))
    return model


def ndcg(consensus: cc.Consensus, labels: cc.Labels) -> float:
    return cc.evaluate(consensus, labels, "ndcg@10", convention="paper").mean["ndcg@10"]


@pytest.fixture(scope="module")
def data() -> tuple[cc.Preferences, cc.Labels]:
    """Return SPEC's synthetic stand-in: e1 to e3 are good, e6 is useless, e7 and e8 are inverted."""
    return cc.synthetic.labelled_runs(210, random_state=2)


@pytest.fixture(scope="module")
def model(data: tuple[cc.Preferences, cc.Labels]) -> cc.CRF:
    runs, labels = data
    return cc.CRF(passes=30).fit(runs[:60], labels, validation=(runs[60:90], labels))


# What it computes.


@pytest.mark.parametrize("name", ["binary", "rankdiff", "log"])
def test_golden_scores_and_ranking(golden: Golden, name: str) -> None:
    content = golden("09_crf_scores")
    case = next(c for c in content["cases"] if c["name"] == name)
    given, want = case["input"], case["expected"]
    R = np.array(given["R"])
    w = np.stack([given["alpha"], given["beta_pos"], given["beta_neg"]], axis=1)
    names = [f"e{k}" for k in range(R.shape[1])]
    votes = from_matrix(R)
    got = with_weights(w, names, transform=given["transform"], scaling="paper").predict(votes)
    np.testing.assert_allclose(got.score, want["score_f"], atol=content["abs_tol"])
    assert got.ranking() == [f"i{i}" for i in want["ranking_best_first"]]
    energy = -sum(got.score[i] / math.log(p + 2) for p, i in enumerate(want["ranking_best_first"])) / len(R) ** 2
    assert energy == pytest.approx(want["energy_of_ranking"], abs=content["abs_tol"])
    # The mean form divides row and col by M, and nothing else.
    mean = with_weights(w * [1, len(R), len(R)], names, transform=given["transform"]).predict(votes)
    np.testing.assert_allclose(mean.score, want["score_f"], atol=content["abs_tol"])


@pytest.mark.parametrize("sums", ["full", "slice"])
def test_golden_step(golden: Golden, sums: str) -> None:
    content = golden("30_single_sgd_steps")
    case = next(c for c in content["cases"] if c["name"] == "crf_all")
    given = case["input"]
    votes = from_matrix(given["R"])
    k = votes.n_experts
    start = np.array(given["W0"]).reshape(3, k).T
    labels = cc.Labels(["q"] * len(given["labels"]), votes.items.tolist(), given["labels"])
    model = with_weights(
        start, votes.experts.tolist(), scaling="paper", sums=sums, balance=False, n_samples=1, epsilon=5,
        learning_rate=given["eta"], passes=1, warm_start=True,
    )  # fmt: skip
    with pytest.warns(ConcordantWarning, match="too few to hold any out"):
        model.fit(votes, labels)
    want = np.array(case["expected"]["W1"]).reshape(3, k).T
    np.testing.assert_allclose(model.weights_, want, atol=content["abs_tol"])


METRICS = {
    "ndcg": lambda label: oracle.ndcg([2.0**v - 1 for v in label], 0),
    "ndcg@2": lambda label: oracle.ndcg([2.0**v - 1 for v in label], 2),
    "err": lambda label: oracle.err([(2.0**v - 1) / 4 for v in label], 0),
    "ap": lambda label: oracle.ap([float(v >= 1) for v in label], 0),
    "p@2": lambda label: oracle.precision([float(v >= 1) for v in label], 2),
    "rr": lambda label: oracle.rr([float(v >= 1) for v in label], 0),
    "map(rel=2)": lambda label: oracle.ap([float(v >= 2) for v in label], 0),
    "kendall": oracle.kendall,
}


def enumerated(w: np.ndarray, tables: list[tuple[np.ndarray, list[float]]], metric: str, transform: str) -> float:
    """Return the mean over instances of the expected metric, over all orders of their items."""
    total = 0.0
    for R, label in tables:
        m = len(R)
        f = np.zeros(m)
        for k in range(R.shape[1]):
            y = oracle.pairs(R[:, k], transform)
            alpha, plus, minus = w[k]
            f += alpha * (R[:, k] == 0) + plus * y.sum(axis=1) / m - minus * y.sum(axis=0) / m
        total += oracle.expected(f, METRICS[metric](label))[0]
    return total / len(tables)


@pytest.mark.parametrize("metric", list(METRICS))
def test_full_batch_ends_where_the_slope_of_the_enumerated_objective_is_zero(metric: str) -> None:
    rng = np.random.default_rng(4)
    tables, rows, truth = [], [], []
    for n in range(5):
        label = [2.0, 0.0, 1.0, 0.0]
        R = np.array([rng.permutation(4) + 1 for _ in range(2)]).T * (rng.random((4, 2)) < 0.8)
        tables.append((R, label))
        rows += [(f"q{n}", f"e{k}", f"i{i}", R[i, k]) for i in range(4) for k in range(2) if R[i, k]]
        truth += [(f"q{n}", f"i{i}", v) for i, v in enumerate(label)]
    items = [(q, i) for q, i, _ in truth]
    votes = cc.Preferences(*zip(*rows, strict=True), items=items, experts=["e0", "e1"])
    l2 = 0.01
    model = cc.CRF(metric=metric, solver="lbfgs", l2=l2, balance=False).fit(votes, cc.Labels(*zip(*truth, strict=True)))

    def objective(w: np.ndarray) -> float:
        return enumerated(w, tables, metric, "log") - 0.5 * l2 * float((w**2).sum())

    step = 1e-5
    for i in range(6):
        move = np.zeros(6)
        move[i] = step
        up, down = (objective(model.weights_ + sign * move.reshape(2, 3)) for sign in (1, -1))
        assert abs(up - down) / (2 * step) < 2e-6
    assert objective(model.weights_) > objective(np.zeros((2, 3))) + 1e-3


def test_balanced_units_change_the_way_and_not_the_goal(data: tuple[cc.Preferences, cc.Labels]) -> None:
    runs, labels = data
    # Without a penalty the full batch climbs the same hill in any units.
    found = []
    for balance in (True, False):
        part = runs[:12].select_experts(["e1", "e8"])
        made = cc.CRF(solver="lbfgs", l2=0.0, n_samples=2, balance=balance).fit(part, labels, validation=(part, labels))
        found.append(made.predict(part).score)
    assert np.corrcoef(*found)[0, 1] > 0.9


# What it learns.


def test_good_experts_overrule_a_wrong_majority(data: tuple[cc.Preferences, cc.Labels], model: cc.CRF) -> None:
    runs, labels = data
    fresh, truth = runs[90:], labels[90:]
    assert ndcg(model.predict(fresh), truth) > 0.88
    assert ndcg(cc.RRF().fit_predict(fresh), truth) < 0.6
    plus = dict(zip(model.experts_, model.weights_[:, 1], strict=True))
    assert min(plus["e1"], plus["e2"], plus["e3"]) > 0 > max(plus["e7"], plus["e8"])
    trust = dict(zip(model.experts_, model.adherence_, strict=True))
    assert min(trust, key=trust.__getitem__) in ("e7", "e8")
    assert abs(trust["e6"]) < 0.5 * abs(trust["e8"])


@pytest.mark.parametrize(
    "params",
    [
        {"metric": "err"},
        {"metric": "ap"},
        {"metric": "p@3"},
        {"metric": "rr"},
        {"metric": "kendall"},
        {"metric": "ndcg@3"},
        {"transform": "binary"},
        {"transform": "rankdiff", "missing": "below", "passes": 80},
        {"n_samples": 1, "balance": False},
        {"sums": "slice"},
        {"sums": "slice", "scaling": "paper", "learning_rate": 100.0},
        {"scaling": "paper", "learning_rate": 100.0},
        {"epsilon": 3, "l2": 1e-4},
        {"solver": "lbfgs", "n_samples": 4},
        {"solver": "lbfgs", "sums": "slice", "n_samples": 2, "l2": 1e-4},
        {"unjudged": "drop"},
    ],
    ids=str,
)
def test_every_way_of_training_learns(data: tuple[cc.Preferences, cc.Labels], params: dict[str, Any]) -> None:
    runs, labels = data
    made = cc.CRF(**{"passes": 12} | params).fit(runs[:50], labels, validation=(runs[60:90], labels))
    assert ndcg(made.predict(runs[90:140]), labels[90:140]) > 0.8


def test_candidates_are_chosen_by_what_is_held_out(data: tuple[cc.Preferences, cc.Labels]) -> None:
    runs, labels = data
    part = (runs[60:90], labels)
    how = {"passes": 4, "smooth": 1}
    made = cc.CRF(transform="auto", learning_rate=(0.01, 5.0), **how).fit(runs[:40], labels, validation=part)
    values = {
        (t, r): cc.CRF(transform=t, learning_rate=r, **how).fit(runs[:40], labels, validation=part).fit_info_
        for t in ("binary", "rankdiff", "log")
        for r in (0.01, 5.0)
    }
    best = max(values, key=lambda key: values[key].validation)
    chosen = made.fit_info_.chosen
    assert made.fit_info_.validation == max(i.validation for i in values.values())
    assert (chosen["transform"], chosen["learning_rate"]) == best
    assert chosen["passes"] == values[best].chosen["passes"]
    assert made.fit_info_.validation == pytest.approx(ndcg(made.predict(part[0]), labels[60:90]), abs=1e-9)


def test_without_validation_folds_choose_and_patience_stops(data: tuple[cc.Preferences, cc.Labels]) -> None:
    runs, labels = data
    made = cc.CRF(passes=30, patience=2, cv=3).fit(runs[:30], labels)
    assert made.fit_info_.n_iter < 30
    assert len(made.fit_info_.trace) == made.fit_info_.n_iter
    assert made.fit_info_.chosen["passes"] == 1 + int(np.argmax(made.fit_info_.trace))
    # The model kept has seen all instances: it is the one of that many passes.
    alone = cc.CRF(passes=made.fit_info_.chosen["passes"]).fit(runs[:30], labels, validation=(runs[60:90], labels))
    if alone.fit_info_.chosen["passes"] == made.fit_info_.chosen["passes"]:
        np.testing.assert_array_equal(alone.weights_, made.weights_)


def test_divergence_is_said(data: tuple[cc.Preferences, cc.Labels]) -> None:
    runs, labels = data
    with pytest.raises(DataError, match=r"diverged in its first pass .*smaller learning_rate"):
        cc.CRF(passes=3, learning_rate=1e308).fit(runs[:20], labels)


def test_interrupt_keeps_the_best_so_far(data: tuple[cc.Preferences, cc.Labels]) -> None:
    runs, labels = data
    part = (runs[60:90], labels)

    def stop(done: int, total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    made = cc.CRF(passes=50)
    with (
        pytest.warns(ConcordantWarning, match="interrupted after pass 4"),
        pytest.raises(KeyboardInterrupt),
        force_threads(1),
        watch(stop),
    ):
        made.fit(runs[:30], labels, validation=part)
    whole = cc.CRF(passes=4).fit(runs[:30], labels, validation=part)
    np.testing.assert_array_equal(made.weights_, whole.weights_)
    assert "after pass 4" in made.fit_info_.interrupted


def test_warm_start_goes_on(data: tuple[cc.Preferences, cc.Labels]) -> None:
    runs, labels = data
    part = (runs[60:90], labels)
    made = cc.CRF(passes=8, warm_start=True, unknown_experts="ignore")
    made.fit(runs[:40].drop_experts(["e5"]), labels, validation=part)
    assert "e5" not in made.experts_
    before = dict(zip(made.experts_, made.weights_.copy(), strict=True))
    # So small a rate leaves the weights where they were: only the newcomer's are new.
    made.set_params(learning_rate=1e-12, passes=1).fit(runs[:40], labels, validation=part)
    assert made.experts_ == [f"e{k}" for k in range(1, 9)]
    for expert, w in zip(made.experts_, made.weights_, strict=True):
        if expert == "e5":
            assert np.abs(w).max() < 1
        else:
            np.testing.assert_allclose(w, before[expert], rtol=1e-6, atol=1e-9)
    cold = cc.CRF(passes=1, learning_rate=1e-12).fit(runs[:40], labels, validation=part)
    assert np.abs(cold.weights_ - made.weights_).max() > 1


@pytest.mark.parametrize(
    "params", [{}, {"weights": "consensus"}, {"solver": "lbfgs", "n_samples": 2, "l2": 1e-5}], ids=str
)
def test_order_of_anything_leaves_no_trace(params: dict[str, Any]) -> None:
    runs, labels = cc.synthetic.labelled_runs(12, n_items=(4, 9), random_state=5)
    rows = list(
        zip(
            (runs.instances[n] for n in runs.slots.instance[runs.slot]),
            (runs.experts[e] for e in runs.row_expert),
            (runs.items[s] for s in runs.slot),
            runs.value.tolist(),
            strict=True,
        )
    )
    pairs = [(runs.instances[n], i) for n, i in zip(runs.slots.instance, runs.items, strict=True)]
    want = cc.CRF(passes=3, **params).fit(runs, labels)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        columns = zip(*(rows[i] for i in rng.permutation(len(rows))), strict=True)
        shuffled = cc.Preferences(
            *columns, items=[pairs[i] for i in rng.permutation(len(pairs))], experts=runs.experts.tolist()[::-1]
        )
        got = cc.CRF(passes=3, **params).fit(shuffled, labels)
        np.testing.assert_array_equal(got.weights_, want.weights_)
        assert got.fit_info_.trace == want.fit_info_.trace
    other = cc.CRF(passes=3, random_state=1, **params).fit(runs, labels)
    assert np.abs(other.weights_ - want.weights_).max() > 1e-6


# Who is heard.


def test_consensus_weights_cannot_tell_experts_apart(data: tuple[cc.Preferences, cc.Labels], model: cc.CRF) -> None:
    runs, labels = data
    made = cc.CRF(passes=10, weights="consensus").fit(runs[:40], labels)
    assert made.experts_ == ["*"]
    fresh, truth = runs[90:140], labels[90:140]
    assert ndcg(made.predict(fresh), truth) < ndcg(model.predict(fresh), truth) - 0.1
    # Whoever says something is heard by the same weights.
    one = cc.from_lists({"nobody knows": ["a", "b", "c"]})
    two = cc.from_lists({"e1": ["a", "b", "c"]})
    np.testing.assert_array_equal(made.predict(one).score, made.predict(two).score)


def test_mixed_weights(data: tuple[cc.Preferences, cc.Labels]) -> None:
    runs, labels = data
    part = runs[:40]
    rare = part[5:].drop_experts(["e8"])
    some = cc.concat([part[:5], rare])
    made = cc.CRF(passes=5, weights="mixed", min_lists=6).fit(some, labels)
    assert made.experts_ == [f"e{k}" for k in range(1, 8)] + ["*"]
    assert np.abs(made.weights_[7] - made.weights_[:7].mean(axis=0)).max() > 1e-3
    alone = cc.CRF(passes=5, weights="mixed", min_lists=1).fit(part, labels)
    assert alone.experts_ == [f"e{k}" for k in range(1, 9)] + ["*"]
    np.testing.assert_allclose(alone.weights_[8], alone.weights_[:8].mean(axis=0), atol=1e-12)
    stranger = cc.from_lists({"new": ["a", "b"], "e1": ["b", "a"]})
    w = dict(zip(alone.experts_, alone.weights_, strict=True))
    # Both list both items: what is left is (beta+ + beta-) / 2 for each of the two, M being 2.
    gap = (w["*"][1] + w["*"][2] - w["e1"][1] - w["e1"][2]) / 2
    got = alone.predict(stranger)
    score = dict(zip(got.items, got.score, strict=True))
    assert score["a"] - score["b"] == pytest.approx(gap, abs=1e-9)


def test_unknown_experts_are_an_error_or_ignored(model: cc.CRF) -> None:
    lists = {"e1": ["a", "b", "c"], "e2": ["b", "a"]}
    stranger = cc.from_lists(lists | {"new": ["c", "b", "a"]})
    with pytest.raises(DataError, match=r"\['new'\]. Known: \['e1'"):
        model.predict(stranger)
    lax = with_weights(model.weights_, model.experts_, unknown_experts="ignore")
    # The items are the same, so that nothing else can change.
    known = cc.from_lists(lists)
    np.testing.assert_allclose(lax.predict(stranger).score, model.predict(known).score, rtol=1e-12)
    with pytest.raises(NotFittedError):
        cc.CRF().predict(known)


def test_absent_experts_have_no_effect(data: tuple[cc.Preferences, cc.Labels], model: cc.CRF) -> None:
    runs, _ = data
    some = runs[100:110].select_experts(["e1", "e2", "e7"])
    few = with_weights(model.weights_[[0, 1, 6]], ["e1", "e2", "e7"])
    np.testing.assert_array_equal(model.predict(some).rank, few.predict(some).rank)


def test_edges_of_prediction(model: cc.CRF) -> None:
    votes = cc.Preferences(
        ["one", "q", "q"],
        ["e1", "e1", "e2"],
        ["a", "x", "y"],
        [4, 1, 3],
        items=[("one", "a"), ("q", "x"), ("q", "y"), ("q", "nobody"), ("silence", "b"), ("silence", "c")],
        experts=["e1", "e2"],
    )
    got = model.predict(votes)
    assert got["one"].rank.tolist() == [1]
    assert got["silence"].rank.tolist() == [1, 1]
    alpha = model.weights_[:, 0]
    # An item nobody lists scores the sum of all alphas; x and y are alone in their lists, which prefer nothing.
    np.testing.assert_allclose(got["silence"].score, alpha.sum(), atol=1e-9)
    want = [alpha.sum() - alpha[0], alpha.sum() - alpha[1], alpha.sum()]
    np.testing.assert_allclose(got["q"].score, want, atol=1e-9)


def test_ranks_scores_ratings_and_comparisons(data: tuple[cc.Preferences, cc.Labels]) -> None:
    runs, labels = data
    part = runs[:30]
    codes = ("slots", "experts", "list_expert", "list_offsets", "list_starts", "slot")
    columns = [getattr(part, n) for n in codes]
    weights = []
    for kind in ("score", "rating"):
        votes = cc.Preferences.from_codes(*columns, -part.value, kind=kind)
        weights.append(cc.CRF(passes=3, transform="binary").fit(votes, labels).weights_)
    by_rank = cc.CRF(passes=3, transform="binary").fit(part, labels).weights_
    np.testing.assert_allclose(weights[0], by_rank, atol=1e-9)
    np.testing.assert_array_equal(weights[0], weights[1])
    pairs = part.comparisons("binary")
    made = cc.CRF(passes=8).fit(pairs, labels)
    assert ndcg(made.predict(pairs), labels[:30]) > 0.8
    # Wins and losses are those of the lists.
    w = cc.CRF(passes=3, transform="binary").fit(part, labels)
    heard = with_weights(w.weights_, w.experts_).predict(pairs)
    np.testing.assert_allclose(heard.score, w.predict(part).score, atol=1e-9)
    with pytest.raises(KindError, match="sums='full'"):
        cc.CRF(sums="slice").fit(pairs, labels)


def test_comparisons_that_name_nobody() -> None:
    pairs = cc.Comparisons(["q"] * 3 + ["r"] * 2, None, list("aabab"), list("bccbc"))
    labels = cc.Labels(["q"] * 3 + ["r"] * 3, list("abcabc"), [2, 1, 0, 2, 1, 0])
    with pytest.warns(ConcordantWarning, match="too few"):
        made = cc.CRF(passes=20).fit(pairs, labels)
    assert made.experts_ == ["*"]
    assert made.predict(pairs)["q"].ranking() == ["a", "b", "c"]
    told = made.explain(pairs, "q")
    np.testing.assert_allclose(told.score, sorted(made.predict(pairs)["q"].score, reverse=True), atol=1e-12)
    with pytest.raises(DataError, match="name no experts"):
        with_weights([[0.0, 1.0, 1.0]], ["x"]).predict(pairs)


def test_lists_that_end_early_put_the_rest_below(data: tuple[cc.Preferences, cc.Labels]) -> None:
    runs, labels = data
    top = runs[:60].top(4)
    below, unknown = (cc.CRF(passes=10, missing=m).fit(top, labels) for m in ("below", "unknown"))
    votes = cc.Preferences(["q"], ["e1"], ["a"], [1], items=[("q", "a"), ("q", "b"), ("q", "c")])
    gap = np.diff(below.predict(votes).score)
    alpha, plus, minus = below.weights_[0]
    # a beats two of three items; b and c lose to one each.
    np.testing.assert_allclose(gap, [alpha - plus * 2 / 3 - minus / 3, 0.0], atol=1e-9)
    assert ndcg(below.predict(top), labels[:60]) > ndcg(cc.RRF().fit_predict(top), labels[:60])
    assert np.abs(below.weights_ - unknown.weights_).max() > 1e-3


def test_weights_of_lists_count(data: tuple[cc.Preferences, cc.Labels], model: cc.CRF) -> None:
    runs, _ = data
    one = runs[100]
    loud = model.predict(one.with_weights({"e1": 2.0}))
    plain, without = model.predict(one), model.predict(one.with_weights({"e1": 0.0}))
    more, first = loud.score - plain.score, plain.score - without.score
    # A list of weight 0 is not there at all, which is the same alpha for all items.
    np.testing.assert_allclose(more - more[0], first - first[0], atol=1e-9)
    assert np.abs(first - first[0]).max() > 0.1


# Labels.


def test_labels_go_as_far_as_they_go(data: tuple[cc.Preferences, cc.Labels]) -> None:
    runs, labels = data
    part = runs[:20]
    names = [(labels.instances[n], i) for n, i in zip(labels.slots.instance, labels.items, strict=True)]
    kept = [
        (q, i, v)
        for (q, i), v in zip(names, labels.label.tolist(), strict=True)
        if q in part.instances[:15].tolist() and i != "d1"
    ]
    some = cc.Labels(*zip(*kept, strict=True))
    made = cc.CRF(passes=2).fit(part, some)
    counts = made.fit_info_.labels
    assert (counts["instances"], counts["labelled"], counts["unjudged"]) == (20, 15, 15)
    assert counts["judged"] == len(kept)
    dropped = cc.CRF(passes=2, unjudged="drop").fit(part, some)
    assert np.abs(dropped.weights_ - made.weights_).max() > 1e-6


def test_labels_that_teach_nothing_are_an_error(data: tuple[cc.Preferences, cc.Labels]) -> None:
    runs, labels = data
    part = runs[:5]
    ids = [part.instances[n] for n in part.slots.instance]
    with pytest.raises(DataError, match="got none"):
        cc.CRF().fit(part)
    with pytest.raises(DataError, match="labels are equal"):
        cc.CRF().fit(part, cc.Labels(ids, part.items.tolist(), [1.0] * part.n_slots))
    with pytest.raises(DataError, match=r"no usable label.*'ndcg'"):
        cc.CRF().fit(part, cc.Labels(ids, part.items.tolist(), -np.arange(part.n_slots, dtype=float)))
    with pytest.raises(DataError, match=r"no usable label.*'map\(rel=3\)'"):
        cc.CRF(metric="map(rel=3)").fit(part, labels)
    with pytest.raises(DataError, match="no expert ranks anything"):
        cc.CRF().fit(part.select_experts([]), labels)


def test_labels_of_any_size(data: tuple[cc.Preferences, cc.Labels]) -> None:
    runs, labels = data
    part = runs[:20]
    huge = cc.Labels.from_codes(labels.slots, labels.label * 600.0)
    made = cc.CRF(passes=2).fit(part, huge, validation=(runs[20:30], labels))
    assert np.isfinite(made.weights_).all()
    assert ndcg(made.predict(runs[30:60]), labels[30:60]) > 0.7


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"metric": "rbp"}, "'metric' parameter of CRF"),
        ({"metric": "p"}, "cutoff below epsilon"),
        ({"metric": "p@6"}, "cutoff below epsilon"),
        ({"transform": "count"}, "'transform' parameter of CRF"),
        ({"transform": ()}, "'transform' parameter of CRF"),
        ({"epsilon": 17}, "'epsilon' parameter of CRF"),
        ({"learning_rate": (5.0, -1.0)}, "'learning_rate' parameter of CRF"),
        ({"l2": "path"}, "'l2' parameter of CRF"),
        ({"select": "best"}, "'select' parameter of CRF"),
    ],
    ids=str,
)
def test_nonsense_is_refused(data: tuple[cc.Preferences, cc.Labels], params: dict[str, Any], match: str) -> None:
    runs, labels = data
    with pytest.raises(ParameterError, match=match):
        cc.CRF(**params).fit(runs[:5], labels)


# Understanding it.


def test_table_of_experts_in_words(model: cc.CRF) -> None:
    table = {row["expert"]: row for row in model.expert_weights_.to_dicts()}
    assert list(table["e1"]) == ["expert", "weight", "alpha", "beta_plus", "beta_minus", "listed", "meaning"]
    assert table["e1"]["meaning"].startswith("trusted")
    assert table["e8"]["meaning"].startswith("inverted")
    assert [table[e]["alpha"] for e in model.experts_] == model.weights_[:, 0].tolist()


def test_weight_is_how_far_a_list_puts_its_first_above_its_last(data: tuple[cc.Preferences, cc.Labels]) -> None:
    runs, labels = data
    made = cc.CRF(passes=5).fit(runs[:30], labels)
    gaps: list[float] = []
    added: list[float] = []
    for n in range(30):
        one = runs[n].select_experts(["e2"])
        score = with_weights(made.weights_[[1]], ["e2"]).predict(one).score
        listed = score[one.slot]
        alone = with_weights(made.weights_[[1]] * [0, 1, 1], ["e2"]).predict(one).score[one.slot]
        best, last = np.argmin(one.value), np.argmax(one.value)
        gaps.append(float(alone[best] - alone[last]))
        added += (listed - made.weights_[1, 0]).tolist()
    row = made.expert_weights_.row(1, named=True)
    assert row["weight"] == pytest.approx(np.mean(gaps), abs=1e-9)
    assert row["listed"] == pytest.approx(np.mean(added), abs=1e-9)


def test_explanation_adds_up_to_the_score(data: tuple[cc.Preferences, cc.Labels], model: cc.CRF) -> None:
    runs, _ = data
    votes = runs[100:103].with_weights({"e1": 2.0})
    q = votes.instances[1]
    told = model.explain(votes, q)
    score = dict(zip(votes[q].items, model.predict(votes)[q].score, strict=True))
    np.testing.assert_allclose(told.score, [score[i] for i in told.items], atol=1e-9)
    np.testing.assert_allclose(told.contribution.sum(axis=1) + told.base, told.score, atol=1e-9)
    # What an expert adds is what goes when it goes.
    k = told.experts.index("e7")
    without = model.predict(votes[q].drop_experts(["e7"]))
    gone = dict(zip(without.items, without.score, strict=True))
    change = np.array([score[i] - gone[i] for i in told.items])
    np.testing.assert_allclose(change - change[0], told.contribution[:, k] - told.contribution[0, k], atol=1e-9)


def test_pruning_leaves_out_who_says_nothing(data: tuple[cc.Preferences, cc.Labels]) -> None:
    runs, labels = data
    part, held = runs[:50], (runs[60:90], labels)
    made = cc.CRF(passes=8).fit(part, labels, validation=held)
    star = made.prune(part, labels, validation=held)
    assert star.fit_info_.validation >= made.fit_info_.validation
    # By the rule: little said by its order, and nothing added by being listed.
    size, listed = np.abs(made.adherence_), np.asarray(made.expert_details_["listed"])
    for threshold in (0.0, 0.3, 0.6):
        useless = (size <= threshold * size.max()) & (listed <= 0)
        want = [e for e, gone in zip(made.experts_, useless.tolist(), strict=True) if gone]
        ruled = made.prune(part, labels, validation=held, threshold=threshold)
        assert ruled.pruned_ == want
        assert ruled.experts_ == [e for e in made.experts_ if e not in want]
    assert want, "the case must have somebody to leave out"
    # What they say is passed over, though they are not known any more.
    fresh = runs[100:105]
    np.testing.assert_allclose(ruled.predict(fresh).score, ruled.predict(fresh.drop_experts(want)).score, atol=1e-10)
    plain = cc.CRF(passes=8).fit(part.drop_experts(want), labels, validation=(held[0].drop_experts(want), labels))
    np.testing.assert_array_equal(ruled.weights_, plain.weights_)
    # Pruned once more, those who went stay away.
    twice = ruled.prune(part, labels, validation=held, threshold=0.0)
    assert set(ruled.pruned_) <= set(twice.pruned_)


def test_pruning_without_weights_of_their_own_is_refused(data: tuple[cc.Preferences, cc.Labels]) -> None:
    runs, labels = data
    made = cc.CRF(passes=1, weights="consensus").fit(runs[:10], labels)
    with pytest.raises(ParameterError, match="nobody can be told useless"):
        made.prune(runs[:10], labels)
    own = cc.CRF(passes=1).fit(runs[:10], labels)
    with pytest.raises(ParameterError, match=r"'threshold' parameter of CRF.prune"):
        own.prune(runs[:10], labels, threshold=-1.0)


# Keeping it.


def test_saved_and_loaded(data: tuple[cc.Preferences, cc.Labels], model: cc.CRF, tmp_path: Path) -> None:
    runs, labels = data
    star = model.prune(runs[:60], labels, validation=(runs[60:90], labels), threshold=0.6)
    for number, made in enumerate((model, star)):
        made.save(tmp_path / str(number))
        loaded = cc.load(tmp_path / str(number))
        np.testing.assert_array_equal(loaded.predict(runs).score, made.predict(runs).score)
        assert loaded.expert_weights_.equals(made.expert_weights_)
        assert loaded.fit_info_.chosen == made.fit_info_.chosen
        assert loaded.pruned_ == made.pruned_


REQUEST = """
import json, sys
import concordant as cc
model = cc.load(sys.argv[1])
got = model.predict(cc.from_lists({"e1": ["a", "b", "c"], "e2": ["b", "c"]}))
print(json.dumps([got.ranking(), sorted({m.split(".")[0] for m in sys.modules})]))
"""


def test_a_request_needs_no_compiler_and_no_frames(model: cc.CRF, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    call = [sys.executable, "-c", REQUEST, str(tmp_path / "model")]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=SOURCE)
    assert done.returncode == 0, done.stderr
    ranking, modules = json.loads(done.stdout)
    assert sorted(ranking) == ["a", "b", "c"]
    assert not set(modules) & {"numba", "llvmlite", "scipy", "polars"}


@pytest.mark.data
def test_the_expert_story_on_real_data(data_dir: Path) -> None:
    (runs, labels), validation, _ = cc.read_letor_folds(data_dir / "MQ2008-agg")[0]
    made = cc.CRF(passes=40).fit(runs, labels, validation=validation)
    fused = ndcg(cc.RRF().fit_predict(validation[0]), validation[1])
    assert made.fit_info_.validation > fused + 0.01
    # The papers name experts 13, 20, 24 and 25: no order to speak of, and alpha above 0.
    assert {"13", "20", "24", "25"} <= set(made._useless(0.05))
    star = made.prune(runs, labels, validation=validation, threshold=0.05)
    assert star.fit_info_.validation > made.fit_info_.validation - 0.005


def test_the_full_batch_does_not_depend_on_threads_or_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    from concordant.aggregators import _crf_blocks

    runs, labels = cc.synthetic.labelled_runs(40, random_state=4)
    method = cc.CRF(solver="lbfgs", l2=1e-3, n_samples=4)
    whole = method.fit(runs[:30], labels, validation=(runs[30:], labels)).weights_.copy()
    monkeypatch.setattr(_crf_blocks, "_STRETCH", 4)
    found = []
    for n in (1, 3):
        with force_threads(n):
            found.append(method.fit(runs[:30], labels, validation=(runs[30:], labels)).weights_.copy())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], whole, rtol=1e-5, atol=1e-8)
