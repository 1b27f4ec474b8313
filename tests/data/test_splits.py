"""Splits follow the ids: one seed, one side, whatever the order of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from concordant.data.labels import Labels
from concordant.data.splits import k_folds, train_validation_split
from concordant.errors import DataError, ParameterError


def labels(ids: list[str]) -> Labels:
    return Labels(ids, ["d"] * len(ids), [1.0] * len(ids))


IDS = [f"q{n}" for n in range(23)]


def test_every_instance_is_tested_once_and_sizes_are_even() -> None:
    for n in (2, 5, 23):
        folds = k_folds(labels(IDS), n, 1)
        assert len(folds) == n
        assert sorted(np.concatenate([f.test for f in folds]).tolist()) == list(range(23))
        assert {len(f.test) for f in folds} <= {23 // n, -(-23 // n)}
        for fold in folds:
            assert np.array_equal(np.sort(np.concatenate([fold.train, fold.test])), np.arange(23))
            assert fold.train.dtype == fold.test.dtype == np.int64
            assert (np.diff(fold.train) > 0).all()
            assert (np.diff(fold.test) > 0).all()


def test_the_order_of_instances_is_irrelevant() -> None:
    one, other = labels(IDS), labels(IDS[::-1])
    for a, b in zip(k_folds(one, 4, 7), k_folds(other, 4, 7), strict=True):
        assert set(one[a.test].instances) == set(other[b.test].instances)
    a, b = train_validation_split(one, 0.3, 7), train_validation_split(other, 0.3, 7)
    assert set(one[a.test].instances) == set(other[b.test].instances)


def test_seeds_differ_and_repeat() -> None:
    held = [tuple(train_validation_split(labels(IDS), 0.4, seed).test.tolist()) for seed in (0, 1, 2, 0)]
    assert held[0] == held[3]
    assert len(set(held)) == 3


def test_each_instance_is_held_out_as_often_as_asked() -> None:
    counts = np.zeros(23)
    for seed in range(600):
        counts[train_validation_split(labels(IDS), 6 / 23, seed).test] += 1
    # Binomial(600, 6/23): mean 156.5, standard deviation 10.8.
    assert np.abs(counts - 600 * 6 / 23).max() < 5 * np.sqrt(600 * 6 / 23 * 17 / 23)


def test_the_part_is_rounded_and_neither_side_is_empty() -> None:
    assert len(train_validation_split(labels(IDS), 0.2).test) == 5
    assert [len(s) for s in train_validation_split(labels(["a", "b"]), 0.01)] == [1, 1]
    assert [len(s) for s in train_validation_split(labels(["a", "b"]), 0.99)] == [1, 1]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: k_folds(labels(IDS), 1), ParameterError, "'n' parameter of k_folds"),
        (lambda: k_folds(labels(IDS), True), ParameterError, "'n' parameter of k_folds"),
        (lambda: k_folds(labels(IDS), 24), DataError, "24 folds need at least 24 instances; there are 23"),
        (lambda: k_folds(labels(IDS), 2, -1), ParameterError, "'random_state' parameter of k_folds"),
        (lambda: train_validation_split(labels(IDS), 0.0), ParameterError, "'part' parameter"),
        (lambda: train_validation_split(labels(IDS), 1), ParameterError, "'part' parameter"),
        (lambda: train_validation_split(labels(["a"])), DataError, "at least two instances; there are 1"),
    ],
)
def test_impossible_splits_are_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
