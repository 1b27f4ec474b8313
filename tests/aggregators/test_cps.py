"""CPS as a method: missing items, weights, ties, and adherence learned from labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.aggregators.common import from_matrix

import concordant as cc
from concordant.base.checks import Check, checks_for
from concordant.errors import ConcordantWarning, DataError, NotFittedError, ParameterError

DISTANCES = ["kendall", "footrule", "spearman"]


def test_worked_cases(golden: Callable[[str], dict[str, Any]]) -> None:
    for case in golden("19_cps")["cases"]:
        ranks = np.array(case["input"]["sigmas_rank_vectors"])
        weights = {f"e{k}": t for k, t in enumerate(case["input"]["theta"])}
        p = from_matrix(ranks.T).with_weights(weights)
        answer = cc.CPS(distance=case["name"]).fit_predict(p)
        assert answer.ranking() == [f"i{i}" for i in case["expected"]["greedy_order"]]
        assert sorted(answer.score.tolist()) == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("distance", DISTANCES)
def test_items_left_out_share_the_mean_of_the_places_left(distance: str) -> None:
    short = cc.from_lists({"x": ["a", "b"], "y": ["c", "a", "d", "b"]})
    rows = [("x", i, r) for i, r in zip("abcd", [1, 2, 3.5, 3.5], strict=True)]
    rows += [("y", i, r) for i, r in zip("abcd", [2, 4, 1, 3], strict=True)]
    full = cc.Preferences(["q"] * 8, *zip(*rows, strict=True))
    one, other = (cc.CPS(distance=distance).fit_predict(p) for p in (short, full))
    assert dict(zip(one.items, one.score, strict=True)) == dict(zip(other.items, other.score, strict=True))


def test_spearman_orders_by_mean_position() -> None:
    R = np.stack([np.random.default_rng(k).permutation(9) + 1 for k in range(4)], axis=1)
    got = cc.CPS(distance="spearman").fit_predict(from_matrix(R))
    want = cc.MeanRank().fit_predict(from_matrix(R))
    assert got.rank.tolist() == want.rank.tolist()


def test_the_top_is_decided_before_the_rest() -> None:
    # a wins the first place by Borda; of those left, c is then before b by majority whatever a thinks of it.
    p = cc.from_lists({"x": list("abc"), "y": list("acb"), "z": list("cba"), "w": list("acb")})
    assert cc.CPS().fit_predict(p).ranking() == ["a", "c", "b"]
    circle = cc.from_lists({"x": list("abc"), "y": list("bca"), "z": list("cab")})
    assert cc.CPS().fit_predict(circle).rank.tolist() == [1, 1, 1]


def labelled(seed: int, trust: list[float], n_instances: int = 40, missing: float = 0.2) -> Any:
    """Return preferences and labels 0, 1, 2; expert k sees trust[k] times the label through noise."""
    rng = np.random.default_rng(seed)
    rows, truth = [], []
    for q in range(n_instances):
        label = rng.integers(0, 3, 8)
        truth += [(f"q{q}", f"i{i}", float(v)) for i, v in enumerate(label)]
        for k, a in enumerate(trust):
            order = np.argsort(-(a * label + rng.normal(size=8)))
            rows += [(f"q{q}", f"e{k}", f"i{i}", r + 1) for r, i in enumerate(order.tolist()) if rng.random() > missing]
    items = [(q, i) for q, i, _ in truth]
    return cc.Preferences(*zip(*rows, strict=True), items=items), cc.Labels(*zip(*truth, strict=True))


@pytest.mark.parametrize("distance", DISTANCES)
def test_adherence_is_learned_from_labels(distance: str) -> None:
    trust = [2.0, 0.7, 0.0, -1.5]
    p, labels = labelled(1, trust)
    cps = cc.CPS(distance=distance, adherence="supervised").fit(p, labels)
    good, fair, none, bad = cps.adherence_
    assert good > fair > none + 0.01 * good
    assert bad == 0.0
    info = cps.fit_info_
    assert info.converged
    assert info.gradient_norm is not None
    assert info.gradient_norm <= 1e-6
    assert info.n_iter > 1
    test, truth = labelled(2, trust)
    learned, equal = (
        cc.evaluate(c, truth, ["ndcg@5"]).mean["ndcg@5"]
        for c in (cps.predict(test), cc.CPS(distance=distance).fit_predict(test))
    )
    assert learned > equal + 0.1
    assert cps.expert_weights_["expert"].to_list() == ["e0", "e1", "e2", "e3"]


@pytest.mark.parametrize("distance", DISTANCES)
def test_no_other_adherence_is_likelier(distance: str) -> None:
    from concordant.aggregators.cps import _LabelLikelihood

    p, labels = labelled(3, [1.5, 0.5, -0.5, 1.0], n_instances=25)
    p = p.with_weights({"e1": 2.0, ("q3", "e0"): 0.5})
    cps = cc.CPS(distance=distance, adherence="supervised", tol=1e-8).fit(p, labels)
    training = _LabelLikelihood(p, labels.align(p).label, distance=distance)
    best, slope, _ = training.evaluate(cps.adherence_)
    assert best == pytest.approx(cps.fit_info_.objective)
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = np.maximum(cps.adherence_ * np.exp(0.05 * rng.normal(size=4)) + 1e-4 * rng.normal(size=4), 0.0)
        assert training.evaluate(other)[0] <= best
    # Stationary where positive, and pushed below 0 where not.
    scale = training.stages * cps.adherence_.max()
    assert np.abs(slope[cps.adherence_ > 0]).max() < 1e-4 * training.stages / scale
    assert (slope[cps.adherence_ == 0] <= 0).all()


def test_order_of_rows_does_not_matter_to_learning() -> None:
    p, labels = labelled(5, [1.5, 0.5, 0.0], missing=0.0)
    frame = p.to_frame()
    mixed = cc.from_frame(frame[np.random.default_rng(0).permutation(len(frame))])
    one, other = (cc.CPS(adherence="supervised").fit(x, labels) for x in (p, mixed))
    by_name = dict(zip(other.experts_, other.adherence_, strict=True))
    np.testing.assert_allclose([by_name[e] for e in one.experts_], one.adherence_, rtol=1e-9, atol=1e-12)


def test_unjudged_items() -> None:
    p = cc.from_lists({"x": ["u", "a", "b"], "y": ["b", "u", "a"], "z": ["a", "b", "u"]})
    labels = cc.Labels(["q", "q"], ["a", "b"], [1, 0])
    dropped = cc.CPS(adherence="supervised", unjudged="drop", max_iter=30)
    without = p.select_items(["a", "b"])
    alone = cc.CPS(adherence="supervised", max_iter=30).fit(without, labels)
    np.testing.assert_allclose(dropped.fit(p, labels).adherence_, alone.adherence_)
    assert (dropped.fit_info_.labels["judged"], dropped.fit_info_.labels["unjudged"]) == (2, 1)
    zero = cc.CPS(adherence="supervised", max_iter=30).fit(p, labels)
    assert zero.adherence_[0] < alone.adherence_[0]


def test_labels_are_asked_for_and_checked() -> None:
    p, labels = labelled(1, [1.0, 0.5], n_instances=4)
    cps = cc.CPS(adherence="supervised")
    with pytest.raises(DataError, match=r"CPS\(adherence='supervised'\) learns from labels and got none"):
        cps.fit(p)
    with pytest.raises(NotFittedError, match="CPS is not fitted"):
        cps.predict(p)
    with pytest.raises(DataError, match="only 0 of 4 instances have labels"):
        cps.fit(p, cc.Labels(["other"], ["i0"], [1]))
    with pytest.raises(DataError, match="found no usable label"):
        cps.fit(p, cc.Labels(labels.instances.take(labels.slots.instance).tolist(), labels.items.tolist(), [1.0] * 32))


def test_experts_who_hold_everything_equal_teach_nothing() -> None:
    tied = cc.Preferences(["q"] * 2, ["x"] * 2, ["a", "b"], [3.0, 3.0], kind="rating")
    with pytest.raises(DataError, match="no instance has ranked items with different labels"):
        cc.CPS(adherence="supervised").fit(tied, cc.Labels(["q"] * 2, ["a", "b"], [1, 0]))


def test_experts_that_fit_did_not_see() -> None:
    p, labels = labelled(1, [1.0, 0.5], n_instances=6)
    cps = cc.CPS(adherence="supervised").fit(p, labels)
    test = cc.from_lists({"e0": ["a", "b"], "new": ["b", "a"]})
    with pytest.raises(DataError, match=r"nothing about the experts \['new'\]. Known: \['e0', 'e1'\]"):
        cps.predict(test)
    assert cps.set_params(unknown_experts="ignore").predict(test).ranking() == ["a", "b"]
    frame = p.to_frame().drop_nulls()
    known = cc.from_frame(frame).select_experts(["e0", "e1"])
    silent = cc.Preferences(
        *(frame[c].to_list() for c in ("instance", "expert", "item", "rank")), experts=["e0", "e1", "mute"]
    )
    with pytest.warns(ConcordantWarning, match=r"nothing can be learned about the experts \['mute'\]"):
        three = cc.CPS(adherence="supervised").fit(silent, labels)
    two = cc.CPS(adherence="supervised").fit(known, labels)
    np.testing.assert_allclose(three.adherence_[:2], two.adherence_, rtol=1e-6)
    assert three.adherence_[2] == pytest.approx(three.adherence_[:2].mean())


def test_experts_who_are_all_wrong_are_not_followed() -> None:
    p, labels = labelled(1, [-2.0, -2.0], n_instances=10, missing=0.0)
    with pytest.warns(ConcordantWarning, match="no expert's order agrees with the labels"):
        answer = cc.CPS(adherence="supervised").fit_predict(p, labels)
    assert set(answer.rank.tolist()) == {1}


def test_what_does_not_converge_is_said_and_kept() -> None:
    p, labels = labelled(1, [1.0, 0.5, 0.2])
    cps = cc.CPS(adherence="supervised", max_iter=1, tol=1e-12)
    with pytest.warns(ConcordantWarning, match="CPS stopped after 1 iterations"):
        cps.fit(p, labels)
    assert not cps.fit_info_.converged
    assert cps.adherence_.max() > 0


@pytest.mark.parametrize("params", [{"distance": "cayley"}, {"adherence": "learned"}, {"tol": 0}, {"unjudged": "one"}])
def test_bad_parameters(params: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=f"'{next(iter(params))}' parameter of CPS"):
        cc.CPS(**params).fit(cc.from_lists({"x": ["a", "b"]}))


class Supervised(cc.CPS):
    """CPS as it promises to behave when it learns from labels: an expert who contradicts them is not followed."""

    tags = cc.CPS.tags._replace(supervised=True, faithful=False)


# Checks whose data this cannot work on, and those that ask about the class alone.
UNCHECKED = {
    "saved_is_loaded": "the class of this test is not registered",
    "swapped_items_tie": "two items with one label teach nothing, which is an error",
    "item_nobody_ranks_is_not_first": "the labels contradict every expert, and all items tie",
    "init_only_assigns": "as without labels",
    "parameters_round_trip": "as without labels",
}


@pytest.mark.parametrize("check", [c for c in checks_for(Supervised) if c.name not in UNCHECKED], ids=str)
def test_contract_when_supervised(check: Check) -> None:
    check(Supervised(adherence="supervised"))
