"""Folds keep what is learned from and what is tested apart, and say which instances do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.selection.common import LABELS, P, given_folds

import concordant as cc
from concordant.data.dataset import Fold, Part
from concordant.data.splits import k_folds
from concordant.errors import DataError, KindError, ParameterError
from concordant.selection.folds import check_validation_part, labels_of, make_folds


def all_folds(folds: Any, preferences: Any = P, labels: Any = LABELS, random_state: int = 0) -> Any:
    return make_folds(preferences, labels, folds, random_state, "test")


def test_where_all_are_labelled_the_folds_are_those_of_k_folds() -> None:
    for fold_data, split in zip(all_folds(4, random_state=5), k_folds(P, 4, 5), strict=True):
        assert fold_data.test.instances == P[split.test].instances
        assert fold_data.train.instances == P[split.train].instances
        assert fold_data.labels == LABELS[split.train]
        assert fold_data.truth == LABELS[split.test]
        assert fold_data.validation is None


def test_every_fold_has_its_share_of_few_labels_whatever_the_order() -> None:
    some = LABELS[np.arange(0, 24, 4)]
    for preferences in (P, P[::-1]):
        found = all_folds(3, preferences, some)
        assert [len(fold_data.truth) for fold_data in found] == [2, 2, 2]
        assert [len(fold_data.labels) for fold_data in found] == [4, 4, 4]
        assert sorted(i for fold_data in found for i in fold_data.test.instances) == sorted(P.instances)
    one, other = all_folds(3, P, some), all_folds(3, P[::-1], some[::-1])
    assert [set(a.test.instances) for a in one] == [set(b.test.instances) for b in other]


def test_labels_are_matched_by_id() -> None:
    for one, other in zip(all_folds(3), all_folds(3, labels=LABELS[::-1]), strict=True):
        assert one.labels == other.labels
        assert one.truth == other.truth


def test_labels_of_other_instances_are_not_handed_on() -> None:
    found = labels_of(LABELS, P[[3, 1]].instances)
    assert found.instances.tolist() == [P.instances[3], P.instances[1]]


def test_given_folds_are_taken_as_they_are() -> None:
    folds = given_folds()
    for fold, fold_data in zip(folds, all_folds(folds, None, None), strict=True):
        assert fold_data.train is fold.train.preferences
        assert fold_data.labels is fold.train.labels
        assert fold_data.validation == (fold.vali.preferences, fold.vali.labels)
        assert fold_data.test is fold.test.preferences
        assert fold_data.truth is fold.test.labels


class Halves:
    """A splitter."""

    def split(self, X: Any) -> Any:
        n = len(X)
        mask = np.arange(n) < n // 2
        yield np.flatnonzero(~mask), np.flatnonzero(mask)
        yield mask, ~mask


def test_a_splitter_and_masks_will_do() -> None:
    one, two = all_folds(Halves())
    assert one.test.instances == P[:12].instances
    assert two.train.instances == P[:12].instances
    assert two.test.instances == P[12:].instances


def part(index: Any) -> Part:
    return Part(P[index], LABELS[index])


@pytest.mark.parametrize(
    ("folds", "error", "message"),
    [
        (
            [([0, 1, 2], [2, 3])],
            DataError,
            r"1 of 2 test instances of fold 1 of 1 are also in its training data: \['q3'\]",
        ),
        (
            [Fold(part([0, 1]), part([2]), part([2, 3]))],
            DataError,
            r"1 of 2 test instances of fold 1 of 1 are also in its training data: \['q3'\]",
        ),
        ([([0, 1], [2]), ([], [3])], DataError, "fold 2 of 2 has no training instance"),
        ([([0, 1], [])], DataError, "fold 1 of 1 has no labelled test instance: 0 instances"),
        ([([0, 99], [1])], DataError, "fold 1 does not fit the preferences: instance 99 of a container with 24"),
        ([([0, 0], [1])], DataError, "fold 1 does not fit the preferences: an index holds the same instance twice"),
        ([[0, 1, 2]], ParameterError, "'folds' parameter of test must be a whole number >= 2, a list"),
        ([], ParameterError, "Got 'none' instead"),
        (1, ParameterError, "'folds' parameter of test"),
        (True, ParameterError, "'folds' parameter of test"),
        ("5", ParameterError, "'folds' parameter of test"),
        (P, ParameterError, "'folds' parameter of test"),
        (25, DataError, "25 folds need at least 25 labelled instances; there are 24"),
    ],
)
def test_folds_that_do_not_fit_are_refused(folds: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        all_folds(folds)


def test_a_fold_without_labels_is_named() -> None:
    with pytest.raises(DataError, match=r"fold 2 of 2 has no labelled test instance: 2 instances, \['q3', 'q4'\]"):
        all_folds([([4, 5], [0, 1]), ([4, 5], [2, 3])], P, LABELS[[0, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]])


@pytest.mark.parametrize(
    ("preferences", "labels", "error", "message"),
    [
        ([["a", "b"]], LABELS, KindError, "test splits Preferences, Comparisons or Features. Got list"),
        (P, None, DataError, "test needs labels and got none"),
        (P, [1, 0], KindError, "test needs Labels. Got list"),
        (
            P,
            cc.Labels([f"topic {i}" for i in range(30)], ["d"] * 30, [1] * 30),
            DataError,
            "only 0 of 24 instances have labels",
        ),
    ],
)
def test_what_cannot_be_split_is_refused(preferences: Any, labels: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        all_folds(3, preferences, labels)


def test_validation_parts_are_shares_and_not_for_given_folds() -> None:
    check_validation_part(0.2, "test", 5)
    for wrong in (0, 1, 1.5, True, "0.2"):
        with pytest.raises(ParameterError, match="'validation_part' parameter of test must be a number > 0 and < 1"):
            check_validation_part(wrong, "test", 5)
    with pytest.raises(ParameterError, match="given folds bring their own validation parts"):
        check_validation_part(0.2, "test", given_folds())
