"""Labels are matched by id, counted, and refused when they cannot be meant; the judge gives what evaluate gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import concordant as cc
from concordant.errors import DataError, KindError, ParameterError
from concordant.learning.supervision import (
    ValidationMetric,
    check_distinguishable,
    exponential_gain,
    match_labels,
    validation_pair,
)


def prefer(*lists: tuple[str, str]) -> cc.Preferences:
    rows = [(q, "x", item, r) for q, items in lists for r, item in enumerate(items, start=1)]
    return cc.Preferences(*zip(*rows, strict=True))


def label(*pairs: tuple[str, str, float]) -> cc.Labels:
    return cc.Labels(*zip(*pairs, strict=True))


def test_unjudged_items_count_zero_or_nothing() -> None:
    p = prefer(("q", "abc"), ("r", "ab"))
    known = label(("q", "b", 2), ("q", "z", 1))
    zero = match_labels(p, known, "CRF")
    np.testing.assert_array_equal(zero.label, [0, 2, 0, np.nan, np.nan])
    assert zero.instances.tolist() == [0]
    assert zero.counts == {
        "instances": 2,
        "labelled": 1,
        "usable": 1,
        "items": 5,
        "judged": 1,
        "unjudged": 2,
        "elsewhere": 1,
    }
    with pytest.raises(DataError, match=r"all 1 labels are equal.*unjudged=.zero"):
        match_labels(p, known, "CRF", unjudged="drop")
    two = match_labels(p, label(("q", "b", 2), ("q", "a", 1)), "CRF", unjudged="drop")
    np.testing.assert_array_equal(two.label, [1, 2, np.nan, np.nan, np.nan])


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (None, "learns from labels and got none"),
        (label(("s", "a", 1), ("t", "a", 0)), r"only 0 of 2 instances have labels.*\['q', 'r'\].*\['s', 't'\]"),
        (label(("q", "a", 1), ("s", "a", 1)), "not the same ones: no label for \\['r'\\]"),
        (label(("Q", "a", 1), ("S", "a", 1), ("T", "a", 1)), "only 0 of 2 instances have labels.*written alike"),
        (label(("q", "A", 1)), "none of the 1 labels belongs to an item.*'a'"),
        (label(("q", "a", 1), ("q", "b", 1), ("q", "c", 1)), "all 3 labels are equal"),
    ],
)
def test_what_cannot_be_meant_is_refused(labels: cc.Labels | None, words: str) -> None:
    with pytest.raises(DataError, match=words):
        match_labels(prefer(("q", "abc"), ("r", "ab")), labels, "CRF")


def test_a_few_labelled_among_many_are_enough() -> None:
    p = prefer(*((f"q{n}", "ab") for n in range(50)))
    assert match_labels(p, label(("q7", "a", 1)), "CRF").instances.tolist() == [7]


def test_labels_of_another_class_are_named() -> None:
    with pytest.raises(KindError, match="Got list"):
        match_labels(prefer(("q", "ab")), [1, 0], "CRF")  # type: ignore[arg-type]


def test_validation_is_a_pair() -> None:
    p, known = prefer(("q", "ab")), label(("q", "a", 1))
    assert validation_pair(None, "CRF") is None
    assert validation_pair((p, known), "CRF") == (p, known)
    for wrong in (0.2, (p,), (known, p), "vali"):
        with pytest.raises(ParameterError, match="validation"):
            validation_pair(wrong, "CRF")


def test_gains_keep_their_ratios_for_large_labels() -> None:
    np.testing.assert_allclose(exponential_gain(np.array([0.0, 1.5, 3.0])), [0, 2**1.5 - 1, 7])
    large = exponential_gain(np.array([0.0, 1.0, 1000.0, 1001.0]))
    assert np.isfinite(large).all()
    assert large[3] / large[2] == pytest.approx(2.0)
    assert large[0] == 0.0


@pytest.mark.parametrize("metric", ["ndcg@10", "ndcg@2", "map", "err", "rr", "p@3"])
@given(seed=st.integers(0, 10_000))
def test_the_judge_gives_what_evaluate_gives(metric: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, 5)
    names = [(f"q{n}", f"d{i}") for n, m in enumerate(sizes) for i in range(m)]
    p = cc.Preferences(*zip(*[(q, "x", i, 1) for q, i in names], strict=True))
    # Some items have no label, some labelled ones were not ranked; distinct scores, so that ties do not matter.
    known = [(q, i, float(rng.integers(0, 4))) for q, i in names if rng.random() < 0.7] + [("q0", "unseen", 1.0)]
    labels = label(*known)
    score = rng.permutation(len(names)).astype(float)
    consensus = cc.Consensus.from_codes(p.slots, score)
    want = cc.evaluate(consensus, labels, metric, convention="paper")
    judge = ValidationMetric(p, labels, metric)
    got = dict(zip(p.instances, judge.values(score), strict=True))
    assert [got[q] for q in want.instances] == pytest.approx(next(iter(want.values.values())).tolist(), abs=1e-12)
    assert judge(score) == pytest.approx(want.mean[metric], abs=1e-12)


def test_tied_items_count_in_the_worst_order() -> None:
    p = prefer(("q", "abcd"))
    judge = ValidationMetric(p, label(("q", "a", 1), ("q", "b", 2)), "ndcg")
    tied = judge(np.zeros(4))
    assert tied == pytest.approx(judge(np.array([2.0, 1.0, 4.0, 3.0])))
    assert tied < judge(np.array([1.0, 2.0, 4.0, 3.0]))


def test_items_without_a_label_are_passed_over_when_they_are_dropped() -> None:
    p = prefer(("q", "abcd"))
    labels = label(("q", "b", 1), ("q", "d", 0))
    score = np.array([4.0, 3.0, 2.0, 1.0])
    assert ValidationMetric(p, labels, "rr")(score) == 0.5
    assert ValidationMetric(p, labels, "rr", unjudged="drop")(score) == 1.0
    assert ValidationMetric(p, labels, "rr", unjudged="drop")(-score) == 0.5


@pytest.mark.parametrize(
    ("metric", "values", "blind"),
    [
        ("ndcg@10", (0, 1, 0), False),
        ("ndcg@10", (0, 0, -1), True),  # no gain
        ("ndcg@10", (2, 2, 2), True),  # every order is ideal
        ("p@2", (0, 1, 0), False),
        ("p@3", (0, 1, 0), True),  # all three items are above the cutoff
        ("map", (0, 0.5, 0), True),  # nothing is relevant
        ("map(rel=0.5)", (0, 0.5, 0), False),
    ],
)
def test_a_judge_knows_when_every_order_is_the_same_to_it(metric: str, values: tuple[float, ...], blind: bool) -> None:
    p = prefer(("q", "abc"), ("r", "abc"))
    labels = label(*(("q", i, v) for i, v in zip("abc", values, strict=True)), *(("r", i, 1) for i in "abc"))
    judge = ValidationMetric(p, labels, metric)
    assert judge.is_constant() == judge.is_constant(np.array([0])) == blind
    assert judge.is_constant(np.array([1]))
    orders = [judge(np.array([*score, 0, 0, 0])) for score in ((1, 2, 3), (3, 1, 2), (2, 3, 1))]
    assert (max(orders) - min(orders) < 1e-12) == blind


def test_a_judge_that_passes_over_what_has_no_label_may_be_blind() -> None:
    p, labels = prefer(("q", "abc")), label(("q", "b", 1))
    assert not ValidationMetric(p, labels, "rr").is_constant()
    assert ValidationMetric(p, labels, "rr", unjudged="drop").is_constant()


def test_items_of_different_labels_must_be_told_apart_somewhere() -> None:
    p = prefer(("q", "abc"), ("r", "ab"))
    truth = match_labels(p, label(("q", "a", 1), ("q", "b", 0), ("r", "a", 1), ("r", "b", 0)), "CRF", unjudged="drop")
    # Of c, and of nothing between instances, nothing is asked.
    with pytest.raises(DataError, match=r"in none of the 2 usable instances.*tell items of different labels apart"):
        check_distinguishable(np.array([1, 1, 5, 2, 2]), truth, p, "CRF")
    check_distinguishable(np.array([1, 1, 1, 2, 3]), truth, p, "CRF")
