"""Fusion whose weights and k are learned from labels: the optimum, what is chosen, and what is said about poor data."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.aggregators.common import letor21

import concordant as cc
from concordant.aggregators import _weight_learning as module
from concordant.aggregators.listwise import gain_shares
from concordant.base.checks import Check, checks_for
from concordant.errors import ConcordantWarning, DataError, FormatError, KindError, NotFittedError, ParameterError
from concordant.learning.supervision import match_labels

SOURCE = Path(__file__).resolve().parents[2] / "src"


def sample(n: int = 60, seed: int = 1, **settings: Any) -> tuple[cc.Preferences, cc.Labels]:
    return cc.synthetic.labelled_runs(n, random_state=seed, **settings)


def quiet(method: cc.Aggregator, *data: Any, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        return method.fit(*data, **more)


def value(method: cc.Aggregator, p: cc.Preferences, labels: cc.Labels, metric: str = "ndcg@10") -> float:
    return cc.evaluate(method.predict(p), labels, metric, convention="paper").mean[metric]


# The problem.


def problem(ridge: float) -> tuple[Any, Any, int]:
    """Return a small problem as the method poses it, its loss written out, and the number of experts."""
    p, labels = sample(12, 3, quality=(2.0, 1.0, 0.3, -1.0))
    p = p.with_weights({"e2": 2.0, ("q3", "e1"): 0.5})
    truth = match_labels(p, labels, "RRF")
    target = gain_shares(truth.label, p.slots.offsets)
    terms = 1.0 / (10.0 + p.ranks())
    rows = module._TermRows.of(p, terms, np.arange(4), p.list_weight)
    unit = 20.0
    penalty = ridge / 4 * (np.eye(4) - 0.25) + module._STEEPNESS / 16
    made = module._RidgeLoss(rows, target, truth.instances, unit, penalty)

    def loss(u: Any) -> float:
        total = 0.0
        for n in truth.instances.tolist():
            slots = range(p.slots.offsets[n], p.slots.offsets[n + 1])
            score = dict.fromkeys(slots, 0.0)
            for r in range(p.n_rows):
                if int(p.slot[r]) in score:
                    weight = p.weights[p.row_list[r]]
                    score[int(p.slot[r])] += unit * u[p.row_expert[r]] * weight * terms[r]
            gain = [2.0 ** truth.label[s] - 1.0 for s in slots]
            mass = sum(np.exp(score[s]) for s in slots)
            total -= sum(g / sum(gain) * np.log(np.exp(score[s]) / mass) for g, s in zip(gain, slots, strict=True))
        spread = sum((x - np.mean(u)) ** 2 for x in u) / 4
        return float(total / len(truth.instances) + 0.5 * ridge * spread + 0.5 * module._STEEPNESS * np.mean(u) ** 2)

    return made, loss, 4


def test_the_loss_and_its_derivatives_are_those_written_out() -> None:
    made, loss, n = problem(0.1)
    u = np.array([1.2, 0.7, 0.4, 0.1])
    got, slope = made.value(u)
    assert got == pytest.approx(loss(u), abs=1e-12)
    step = 1e-5 * np.eye(n)
    np.testing.assert_allclose(slope, [(loss(u + e) - loss(u - e)) / 2e-5 for e in step], atol=1e-8)
    bend = [(made.value(u + e)[1] - made.value(u - e)[1]) / 2e-5 for e in step]
    np.testing.assert_allclose(made.hessian(u), bend, atol=1e-7)


@pytest.mark.parametrize("ridge", [3.0, 0.1, 0.001])
def test_no_other_weights_are_better(ridge: float) -> None:
    from scipy.optimize import minimize

    made, loss, n = problem(ridge)
    found, _, settled = made.minimise(np.ones(n))
    assert settled
    other = minimize(made.value, np.ones(n), jac=True, bounds=[(0, None)] * n, options={"ftol": 1e-15, "gtol": 1e-10})
    np.testing.assert_allclose(found, other.x, atol=1e-6)
    slope = made.value(found)[1]
    assert np.abs(slope[found > 0]).max() < 1e-12
    assert (slope[found == 0] > 0).all()
    again, _, _ = made.minimise(np.full(n, 5.0))
    np.testing.assert_allclose(again, found, rtol=1e-10, atol=1e-12)
    assert made.value(found)[0] <= loss(np.ones(n))
    # A Hessian from elsewhere leads to the same place.
    near, _, settled = made.minimise(np.ones(n), made.hessian(np.full(n, 0.5)), still=1e-9)
    assert settled
    np.testing.assert_allclose(near, found, atol=1e-8)


def test_a_hessian_of_some_weights_is_completed_where_it_is_used() -> None:
    made, _, n = problem(0.001)
    u = np.array([1.2, 0.7, 0.4, 0.1])
    wanted = np.array([True, False, True, True])
    some = made.hessian(u, wanted)
    among = np.ix_(wanted, wanted)
    np.testing.assert_allclose(some[among], made.hessian(u)[among], rtol=1e-13)
    assert np.isnan(some[1]).all()
    assert np.isnan(some[:, 1]).all()
    found, hessian, settled = made.minimise(u, some, still=1e-9)
    assert settled
    assert not np.isnan(hessian[1, 1])
    np.testing.assert_allclose(found, made.minimise(np.ones(n)).weights, atol=1e-8)


def test_a_perfect_expert_has_finite_weights() -> None:
    p, labels = sample(8, quality={"oracle": 60.0, "noise": 0.0}, missing=0.0)
    rrf = cc.RRF(weights="learned").fit(p, labels)
    assert np.isfinite(rrf.adherence_).all()
    assert dict(zip(rrf.experts_, rrf.adherence_, strict=True))["oracle"] > 1.5
    assert rrf.fit_info_.converged


# What is learned.


def test_good_experts_are_heard_and_bad_ones_are_not() -> None:
    p, labels = sample(60)
    fresh, truth = sample(60, 2)
    rrf = cc.RRF(k="learned", weights="learned").fit(p, labels)
    weight = dict(zip(rrf.experts_, rrf.adherence_.tolist(), strict=True))
    assert min(weight["e1"], weight["e2"], weight["e3"]) > weight["e4"]
    assert weight["e7"] == weight["e8"] == 0.0
    assert np.mean(rrf.adherence_) == pytest.approx(1.0)
    info = rrf.fit_info_
    assert set(info.chosen) == {"k", "ridge"}
    assert info.chosen["k"] == rrf.k_
    assert info.labels["usable"] == 60
    # The path of ridges, and k at the best of them.
    assert len(info.trace) == info.n_iter == len(module.RIDGES) + 1
    assert info.validation == max(info.trace)
    # Plain fusion is the first of the path, and stays far behind.
    assert info.trace[0] < info.validation - 0.1
    assert value(rrf, fresh, truth) > value(cc.RRF(), fresh, truth) + 0.2
    assert rrf.expert_weights_["weight"].to_list() == rrf.adherence_.tolist()


def test_what_is_learned_can_be_given() -> None:
    p, labels = sample(30)
    p = p.with_weights({("q2", "e1"): 3.0})
    rrf = cc.RRF(k="learned", weights="learned").fit(p, labels)
    given = cc.RRF(k=rrf.k_, weights=dict(zip(rrf.experts_, rrf.adherence_.tolist(), strict=True)))
    np.testing.assert_array_equal(rrf.predict(p).score, given.predict(p).score)
    plain = cc.WeightedSum(norm="z-score", weights="learned").fit(p, labels)
    given = cc.WeightedSum(norm="z-score", weights=dict(zip(plain.experts_, plain.adherence_.tolist(), strict=True)))
    np.testing.assert_array_equal(plain.predict(p).score, given.predict(p).score)


def test_k_alone_is_the_best_of_its_grid() -> None:
    from concordant.aggregators.fusion import _KS

    p, labels = sample(40, quality=(1.0, 0.7, 0.4), missing=0.1)
    part, truth = sample(40, 5, quality=(1.0, 0.7, 0.4), missing=0.1)
    rrf = cc.RRF(k="learned").fit(p, labels, validation=(part, truth))
    of_k = {k: value(cc.RRF(k=k), part, truth) for k in _KS}
    assert rrf.fit_info_.validation == pytest.approx(max(of_k.values()), abs=1e-9)
    assert of_k[rrf.k_] == pytest.approx(max(of_k.values()), abs=1e-9)
    assert "adherence_" not in vars(rrf)
    assert rrf.fit_info_.chosen == {"k": rrf.k_}
    # Weights that are given count while k is chosen.
    weights = {"e1": 0.0, "e3": 5.0}
    rrf = cc.RRF(k="learned", weights=weights).fit(p, labels, validation=(part, truth))
    of_k = {k: value(cc.RRF(k=k, weights=weights), part, truth) for k in _KS}
    assert of_k[rrf.k_] == pytest.approx(max(of_k.values()), abs=1e-9)


@pytest.mark.parametrize("metric", ["ndcg@10", "map", "rr"])
def test_the_validation_part_decides(metric: str) -> None:
    p, labels = sample(30)
    part, truth = sample(30, 7)
    rrf = cc.RRF(weights="learned", select=metric).fit(p, labels, validation=(part, truth))
    assert rrf.fit_info_.validation == pytest.approx(value(rrf, part, truth, metric), abs=1e-9)
    # Where the good experts of the training part are the bad ones, plain fusion is better than any learned weights.
    turned = dict(zip([f"e{k}" for k in range(1, 9)], (-2, -2, -1.5, 0.5, 0.5, 0, 1.5, 2), strict=True))
    part, truth = sample(30, 7, quality=turned)
    rrf = cc.RRF(weights="learned", select=metric).fit(p, labels, validation=(part, truth))
    assert rrf.fit_info_.chosen == {"ridge": np.inf}
    assert rrf.adherence_.tolist() == [1.0] * 8


def test_labels_go_as_far_as_they_go() -> None:
    p, labels = sample(40)
    frame = labels.to_frame()
    judged = frame.filter(np.random.default_rng(0).random(len(frame)) < 0.5)
    some = cc.Labels(*(judged[c].to_list() for c in ("instance", "item", "label")))
    rrf = cc.RRF(weights="learned", unjudged="drop").fit(p, some)
    assert rrf.fit_info_.labels["judged"] == len(judged)
    assert rrf.fit_info_.labels["unjudged"] == len(frame) - len(judged)
    assert rrf.adherence_[rrf.experts_.index("e8")] == 0.0
    # Unjudged items left out teach as if they were not there.
    rows = p.to_frame().drop_nulls().join(judged, on=["instance", "item"], how="semi")
    columns = [rows[c].to_list() for c in ("instance", "expert", "item", "rank")]
    without = cc.Preferences(*columns, items=judged.select("instance", "item").rows(), experts=p.experts)
    alone = cc.RRF(weights="learned").fit(without, some)
    np.testing.assert_allclose(alone.adherence_, rrf.adherence_, rtol=1e-9, atol=1e-12)


# Poor data.


def test_few_instances_choose_nothing() -> None:
    p, labels = sample(3)
    with pytest.warns(ConcordantWarning, match="learns from 3 instances, too few to hold any out"):
        rrf = cc.RRF(k="learned", weights="learned").fit(p, labels)
    assert rrf.k_ == 60.0
    assert rrf.fit_info_.chosen == {"k": 60.0, "ridge": 0.1}
    assert rrf.adherence_.max() > 1.0


def test_experts_without_a_list_weigh_as_the_others() -> None:
    p, labels = sample(20, quality=(2.0, 1.0, 0.5))
    frame = p.to_frame().drop_nulls()
    more = cc.Preferences(
        *(frame[c].to_list() for c in ("instance", "expert", "item", "rank")), experts=["mute", "e1", "e2", "e3"]
    )
    with pytest.warns(ConcordantWarning, match=r"nothing can be learned about the experts \['mute'\]"):
        rrf = cc.RRF(weights="learned").fit(more, labels)
    assert rrf.adherence_[rrf.experts_.index("mute")] == 1.0
    plain = cc.RRF(weights="learned").fit(more.select_experts(["e1", "e2", "e3"]), labels)
    np.testing.assert_allclose(rrf.adherence_[:3], plain.adherence_, rtol=1e-9)


def test_experts_who_are_all_wrong_are_not_followed() -> None:
    p, labels = sample(3, quality=(-3.0, -2.0), missing=0.0)
    rrf = quiet(cc.RRF(weights="learned"), p, labels)
    assert "no expert's order agrees with the labels" in rrf.fit_info_.warnings[-1]
    assert rrf.adherence_.tolist() == [0.0, 0.0]
    assert set(rrf.predict(p).rank.tolist()) == {1}


def test_unknown_experts_are_an_error_or_left_out() -> None:
    p, labels = sample(20, quality=(2.0, 1.0, 0.5))
    rrf = cc.RRF(weights="learned").fit(p, labels)
    runs = cc.from_lists({"e1": ["a", "b", "c"], "new": ["c", "b", "a"]})
    with pytest.raises(DataError, match=r"nothing about the experts \['new'\]. Known: \['e1', 'e2', 'e3'\]"):
        rrf.predict(runs)
    with pytest.raises(DataError, match=r"nothing about the experts \['new'\]"):
        cc.RRF(weights="learned").fit(p, labels, validation=(runs, cc.Labels(["q"], ["a"], [1])))
    assert rrf.set_params(unknown_experts="ignore").predict(runs).ranking() == ["a", "b", "c"]
    # A list of weight 0 is no list, and k alone does not ask who speaks.
    assert rrf.set_params(unknown_experts="error").predict(runs.with_weights({"new": 0.0})).ranking()[0] == "a"
    assert cc.RRF(k="learned").fit(p, labels).predict(runs).ranking()
    other = cc.RRF(weights="learned", unknown_experts="ignore").fit(
        p, labels, validation=(runs, cc.Labels(["q"], ["a"], [1]))
    )
    assert other.fit_info_.validation == 1.0


def test_labels_are_asked_for_and_checked() -> None:
    p, labels = sample(6)
    for method in (cc.RRF(k="learned"), cc.RRF(weights="learned"), cc.WeightedSum(weights="learned")):
        name = type(method).__name__
        with pytest.raises(DataError, match=f"{name} learns from labels and got none"):
            method.fit(p)
        with pytest.raises(NotFittedError, match=f"{name} is not fitted"):
            method.predict(p)
        below = cc.Labels.from_codes(labels.slots, labels.label - 5.0)
        with pytest.raises(DataError, match="found no usable label: none of them is positive"):
            method.fit(p, below)
        pairs = cc.Comparisons("q", None, ["a"], ["b"])
        with pytest.raises(KindError):
            method.fit(p, labels, validation=(pairs, labels))
    silent = cc.Preferences([], [], [], [], items=[("q", "a"), ("q", "b")], experts=["x"])
    with pytest.raises(DataError, match="no expert ranks anything"):
        cc.RRF(weights="learned").fit(silent, cc.Labels(["q"], ["a"], [1]))
    for params in ({"k": "auto"}, {"weights": "auto"}, {"select": "best"}, {"cv": 1}, {"unjudged": "one"}):
        with pytest.raises(ParameterError, match=repr(next(iter(params)))):
            cc.RRF(**params).fit(p)


def test_steps_that_end_early_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_STEPS", 1)
    p, labels = sample(20)
    with pytest.warns(ConcordantWarning, match="did not find the best weights in 1 steps"):
        rrf = cc.RRF(weights="learned").fit(p, labels)
    assert not rrf.fit_info_.converged


# Keeping and explaining.


def test_saved_and_loaded(tmp_path: Path) -> None:
    p, labels = sample(20)
    for method in (cc.RRF(k="learned", weights="learned"), cc.WeightedSum(weights="learned")):
        method.fit(p, labels).save(tmp_path / "model")
        loaded = cc.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predict(p).score, method.predict(p).score)
        assert loaded.fit_info_.chosen == method.fit_info_.chosen
    rrf = cc.RRF(k="learned", weights="learned").fit(p, labels)
    for attribute, wrong in (("k_", -1.0), ("k_", "sixty"), ("adherence_", np.full(8, np.nan))):
        broken = quiet(cc.RRF(k="learned", weights="learned"), p, labels)
        setattr(broken, attribute, wrong)
        broken.save(tmp_path / "broken")
        with pytest.raises(FormatError):
            cc.load(tmp_path / "broken")
    assert rrf.k_ > 0


CODE = """
import sys
import concordant as cc
model = cc.load(sys.argv[1])
model.predict(cc.from_lists({"e1": ["a", "b"], "e2": ["b", "c"]})).ranking()
print(sorted({m.split(".")[0] for m in sys.modules} & {"numba", "scipy", "polars"}))
"""


def test_a_loaded_model_answers_without_a_compiler(tmp_path: Path) -> None:
    p, labels = sample(10, quality=(2.0, 0.5))
    cc.RRF(k="learned", weights="learned").fit(p, labels).save(tmp_path / "model")
    call = [sys.executable, "-c", CODE, str(tmp_path / "model")]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=SOURCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_scores_are_taken_apart() -> None:
    p, labels = sample(20)
    rrf = cc.RRF(k="learned", weights="learned").fit(p, labels)
    explained = rrf.explain(p, "q1")
    answer = rrf.predict(p)["q1"]
    assert explained.items == answer.ranking()
    np.testing.assert_allclose(explained.contribution.sum(axis=1), np.sort(answer.score)[::-1])
    assert not {"e7", "e8"} & set(explained.experts)


class LearnedRRF(cc.RRF):
    """RRF as it promises to behave when it learns from labels: an expert who contradicts them is not followed."""

    tags = cc.RRF.tags._replace(supervised=True, faithful=False)


class LearnedSum(cc.WeightedSum):
    """The same of WeightedSum."""

    tags = cc.WeightedSum.tags._replace(supervised=True, faithful=False)


# Checks whose data these cannot work on, and those that ask about the class alone.
UNCHECKED = {
    "saved_is_loaded": "the class of this test is not registered",
    "item_nobody_ranks_is_not_first": "the labels contradict the experts, and all items tie",
    "init_only_assigns": "as without labels",
    "parameters_round_trip": "as without labels",
}
LEARNED = [
    LearnedRRF(weights="learned"),
    LearnedRRF(k="learned", ties="min"),
    LearnedSum(weights="learned", norm="borda"),
]
CASES = [(m, c) for m in LEARNED for c in checks_for(m) if c.name not in UNCHECKED]


@pytest.mark.parametrize(("method", "check"), CASES, ids=str)
def test_contract_when_learned(method: cc.Aggregator, check: Check) -> None:
    check(method)


# Whole data sets.


@pytest.mark.data
def test_learned_weights_on_real_data(data_dir: Path) -> None:
    # Means of the five validation parts, everything chosen by cross-validation on the training parts: N@5 and MAP of
    # plain RRF are 47.2 and 47.7; learned weights were seen at 51.2 and 50.7.
    found = []
    for fold in cc.read_letor_folds(data_dir / "MQ2008-agg"):
        rrf = cc.RRF(weights="learned").fit(*fold.train)
        answer = rrf.predict(fold.vali.preferences)
        found.append(list(cc.evaluate(answer, fold.vali.labels, ["ndcg@5", "map"], convention="letor").mean.values()))
    assert (np.mean(found, axis=0) > [0.507, 0.503]).all()


def test_nothing_depends_on_how_many_experts_labels_and_folds_there_are(tmp_path: Path) -> None:
    folds = cc.read_letor_folds(letor21(tmp_path))
    assert len(folds) == 4
    supervised = [
        cc.RRF(k="learned", weights="learned"),
        cc.MPM(adherence="supervised", uncertainty="none"),
        cc.WeightedSum(weights="learned", norm="rank"),
        cc.CPS(adherence="supervised"),
    ]
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        for method in (cc.RRF(), *supervised):
            values = []
            for train, vali, test in folds:
                method.fit(*train, validation=tuple(vali))
                values.append(value(method, *test))
            found[repr(method)] = np.mean(values)
            assert method.fit_info_.labels.get("instances", 24) == 24
            assert len(getattr(method, "adherence_", range(21))) == 21
    plain, learned, trusted, *_ = found.values()
    assert learned > plain + 0.05
    assert trusted > plain


@pytest.mark.parametrize("norm", ["min-max", "z-score", "sum", "rank", "borda"])
@pytest.mark.parametrize("weights", [None, {"y": 0.5}, "learned"])
def test_weighted_sums_are_taken_apart(norm: str, weights: dict[str, float] | str | None) -> None:
    rows = [(q, e, i, v) for q in "pq" for e, word in (("x", "abc"), ("y", "cb")) for v, i in enumerate(word[::-1], 1)]
    votes = cc.Preferences(*zip(*rows, strict=True), kind="score", items=[(q, i) for q in "pq" for i in "abcd"])
    labels = cc.Labels(["p", "p"], ["a", "b"], [2, 1])
    method = cc.WeightedSum(norm=norm, weights=weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        method.fit(votes, labels)
    answer, found = method.predict(votes), method.explain(votes, "q")
    own = dict(zip(answer["q"].items, answer["q"].score, strict=True))
    assert set(found.experts) <= {"x", "y"}
    np.testing.assert_allclose(found.contribution.sum(axis=1) + found.base, [own[i] for i in found.items], atol=1e-12)
    # Nobody lists d, and only there anything is nobody's doing.
    assert all(b == 0 for item, b in zip(found.items, found.base, strict=True) if item != "d")
