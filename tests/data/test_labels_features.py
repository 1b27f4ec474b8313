"""Labels and features: one value per (instance, item), matched by id."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.strategies import Rows, ids, preference_rows

from concordant.data.dataset import concat
from concordant.data.features import Features
from concordant.data.labels import Labels
from concordant.errors import DataError

pairs = st.lists(st.tuples(ids, ids), unique=True, max_size=12)
numbers = st.integers(-2, 4).map(float)


def labels_of(values: dict[tuple[str, str], float]) -> Labels:
    return Labels([q for q, _ in values], [i for _, i in values], list(values.values()))


def as_dict(labels: Labels) -> dict[tuple[str, str], float]:
    return {labels.slots.where(k): v for k, v in enumerate(labels.label.tolist())}


@given(st.dictionaries(st.tuples(ids, ids), numbers, max_size=12), st.data())
def test_labels_round_trip_and_slice(values: dict[tuple[str, str], float], data: Any) -> None:
    labels = labels_of(values)
    assert as_dict(labels) == values
    assert labels.instances == list(dict.fromkeys(q for q, _ in values))
    assert not labels.label.flags.writeable
    names = labels.instances.tolist()
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    assert as_dict(labels[chosen]) == {pair: v for pair, v in values.items() if pair[0] in chosen}
    for again in (pickle.loads(pickle.dumps(labels)), copy.deepcopy(labels)):
        assert again == labels
        assert not again.label.flags.writeable
        assert not again.slots.offsets.flags.writeable
    frame = labels.to_frame()
    assert frame.columns == ["instance", "item", "label"]
    assert {(q, i): v for q, i, v in frame.rows()} == values


@given(preference_rows(), st.dictionaries(st.tuples(ids, ids), numbers, max_size=12))
def test_align_gives_the_slots_of_the_other(rows: Rows, values: dict[tuple[str, str], float]) -> None:
    p = rows.build()
    aligned = labels_of(values).align(p)
    assert aligned.slots == p.slots
    for pair, label in as_dict(aligned).items():
        assert label == values[pair] if pair in values else np.isnan(label)
    assert len(aligned) == len(p)
    frame = aligned.to_frame()
    assert frame["label"].null_count() == sum(pair not in values for pair in rows.items)


def test_aligned_labels_split_with_the_preferences() -> None:
    labels = Labels(["q2", "q1"], ["a", "a"], [2, 1])
    from concordant.data.preferences import Preferences

    p = Preferences(["q1", "q2"], ["x", "x"], ["a", "a"], [1, 1])
    aligned = labels.align(p)
    assert aligned[[0]].instances == p[[0]].instances
    assert aligned.align(labels) == labels


@given(
    st.dictionaries(st.tuples(ids, ids), numbers, max_size=8), st.dictionaries(st.tuples(ids, ids), numbers, max_size=8)
)
def test_concat_of_labels(a: dict[tuple[str, str], float], b: dict[tuple[str, str], float]) -> None:
    if any(a[pair] != b[pair] for pair in a if pair in b):
        with pytest.raises(DataError, match="has different labels in two parts"):
            concat([labels_of(a), labels_of(b)])
    else:
        assert as_dict(concat([labels_of(a), labels_of(b)])) == a | b


def test_concat_lets_a_label_fill_a_gap() -> None:
    known = Labels(["q"], ["a"], [2])
    gap = Labels.from_codes(known.slots, np.array([np.nan]))
    assert concat([gap, known]).label.tolist() == [2]
    assert concat([known, gap]).label.tolist() == [2]


def test_repr_of_labels() -> None:
    labels = Labels(["q", "q"], ["a", "b"], [2, 0])
    assert repr(labels) == "Labels: 1 instance, 2 items, labels 0 to 2"
    assert repr(Labels.from_codes(labels.slots, np.array([1.0, np.nan]))).endswith("labels 1 to 1, 1 unlabelled")
    assert repr(Labels([], [], [])) == "Labels: 0 instances, 0 items, no labels"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["q", "q"], ["a", "a"], [1, 2]), r"item 'a' of instance 'q' has two labels \(rows 0 and 1\)\. Keep one"),
        ((["q"], ["a"], [np.nan]), "the label in row 0 must be a finite number"),
        ((["q"], ["a", "b"], [1]), "id columns differ in length: 1 instances, 2 items"),
        ((["q"], ["a"], [1, 2]), "the label column has shape"),
        ((["q"], ["a"], ["high"]), "the label in row 0 must be a number. Got 'high'"),
    ],
)
def test_contradictory_labels_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Labels(*arguments)


@given(pairs, st.integers(0, 3), st.data())
def test_features_round_trip_and_slice(keys: list[tuple[str, str]], n_features: int, data: Any) -> None:
    X = np.arange(len(keys) * n_features, dtype=np.float64).reshape(len(keys), n_features)
    features = Features([q for q, _ in keys], [i for _, i in keys], X)
    rows = {features.slots.where(k): row for k, row in enumerate(features.X.tolist())}
    assert rows == dict(zip(keys, X.tolist(), strict=True))
    assert features.n_features == n_features
    assert features.names == [str(j + 1) for j in range(n_features)]
    assert not features.X.flags.writeable
    assert X.flags.writeable
    names = features.instances.tolist()
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    part = features[chosen]
    assert {part.slots.where(k): row for k, row in enumerate(part.X.tolist())} == {
        pair: row for pair, row in rows.items() if pair[0] in chosen
    }
    assert part.names == features.names
    again = pickle.loads(pickle.dumps(features))
    assert again == features
    assert not again.X.flags.writeable
    assert features.to_frame().shape == (len(keys), 2 + n_features)


def test_features_join_and_differ() -> None:
    a = Features(["q"], ["a"], [[1, 2]], names=["x", "y"])
    b = Features(["q"], ["b"], [[3, 4]], names=["x", "y"])
    joined = concat([a, b])
    assert joined.X.tolist() == [[1, 2], [3, 4]]
    assert joined.names == ["x", "y"]
    assert joined.to_frame().columns == ["instance", "item", "x", "y"]
    assert a != b
    assert a != Features(["q"], ["a"], [[1, 2]])
    assert a == Features(["q"], ["a"], [[1, 2]], names=["x", "y"])
    assert a != "features"
    assert repr(a) == "Features: 1 instance, 1 item, 2 features"
    with pytest.raises(DataError, match="different names"):
        concat([a, Features(["q"], ["b"], [[3, 4]])])
    with pytest.raises(DataError, match="an item has a row in two parts"):
        concat([a, a])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["q"], ["a"], [1.0]), r"X must have one row per item: 1 ids, X of shape \(1,\)"),
        ((["q"], ["a"], [[1.0], [2.0]]), "X must have one row per item"),
        ((["q"], ["a"], [[1.0, np.inf]]), "feature 2 of row 0 is .*inf.*; features must be finite"),
        ((["q"], ["a"], [[1.0, 2.0]], ["x"]), "1 names for 2 features"),
        ((["q", "q"], ["a", "a"], [[1.0], [2.0]]), "has two feature rows"),
        ((["q"], ["a"], [["tall"]]), "X must hold numbers"),
        ((["q", "q"], ["a", "b"], [[1.0], [2.0, 3.0]]), "X must hold numbers"),
    ],
)
def test_contradictory_features_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Features(*arguments)


def test_features_are_chosen_by_name() -> None:
    f = Features(["q", "q"], ["a", "b"], [[1, 2], [3, 4]], names=["u", "v"])
    assert f.select(["u", "v"]) is f
    assert f.select(["v", "u"]).X.tolist() == [[2, 1], [4, 3]]
    filled = f.select(["w", "u"], fill=0)
    assert filled.X.tolist() == [[0, 1], [0, 3]]
    assert filled.names.tolist() == ["w", "u"]
    with pytest.raises(DataError, match=r"unknown features \['w'\]. Features: \['u', 'v'\]. Pass fill="):
        f.select(["w", "u"])


def test_features_are_aligned_by_id() -> None:
    f = Features(["q", "p", "q"], ["a", "a", "b"], [[1], [2], [3]])
    labels = Labels(["p", "q"], ["a", "b"], [0, 1])
    assert f.align(labels).X.tolist() == [[2], [3]]
    assert f.align(labels).slots is labels.slots
    with pytest.raises(DataError, match=r"PMOP has no features for 1 of 2 items, such as 'c' of 'q'. Items are"):
        f.align(Labels(["q", "q"], ["a", "c"], [0, 1]), owner="PMOP")
