"""Ids and codes: texts behind numbers, whatever they are stored in."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.strategies import ids

from concordant.data.index import Slots, Texts, as_ids, freeze, group_ids, instance_index
from concordant.errors import DataError

TEXTS = ["b", "a", "b", "", "é"]
STORES: list[Any] = [TEXTS, tuple(TEXTS), pl.Series(TEXTS), np.array(TEXTS), Texts(TEXTS), iter(TEXTS)]


@pytest.mark.parametrize("store", range(len(STORES)))
def test_texts_are_the_same_in_any_store(store: int) -> None:
    t = Texts(STORES[store] if store < 5 else iter(TEXTS))
    assert len(t) == 5
    assert t == TEXTS
    assert t == tuple(TEXTS)
    assert t == Texts(TEXTS)
    assert t != TEXTS[:4]
    assert t != "baxbé"
    assert [t[0], t[-1], t[np.int64(1)]] == ["b", "é", "a"]
    assert type(t[1]) is str
    assert t[1:4] == ["a", "b", ""]
    assert t[::-1] == TEXTS[::-1]
    assert t[np.array([4, 0])] == ["é", "b"]
    assert t[[4, 0]] == ["é", "b"]
    assert t[np.array([True, False, False, False, True])] == ["b", "é"]
    assert t.take(np.zeros(0, dtype=np.int64)) == []
    assert list(t) == TEXTS
    assert "é" in t
    assert "z" not in t
    assert t.codes == {"b": 0, "a": 1, "": 3, "é": 4}
    assert t.tolist() is not t.tolist()
    assert pickle.loads(pickle.dumps(t)) == t
    assert Texts.concat([t, Texts(["z"])]) == [*TEXTS, "z"]
    assert Texts.concat([t]) is t
    assert t.count("b") == 2
    assert t.index("") == 3


def test_texts_repr_is_short() -> None:
    assert repr(Texts(["a"])) == "Texts(['a'])"
    assert repr(Texts([])) == "Texts([])"
    assert repr(Texts([str(n) for n in range(100)])) == "Texts(['0', '1', '2', '3', '4', '5', …])"


def test_texts_have_no_hash() -> None:
    with pytest.raises(TypeError):
        hash(Texts([]))


@pytest.mark.parametrize(
    ("values", "want"),
    [
        (["a", 3, np.int32(4)], ["a", "3", "4"]),
        (np.array([1, 2]), ["1", "2"]),
        (np.array(["x", "y"]), ["x", "y"]),
        (pl.Series(["x"]), ["x"]),
        (pl.Series([7]), ["7"]),
        (Texts(["t"]), ["t"]),
        (iter("ab"), ["a", "b"]),
        ({"k": 1}, ["k"]),
        (range(2), ["0", "1"]),
        ([], []),
        ([np.str_("s")], ["s"]),
    ],
)
def test_ids_are_texts_or_whole_numbers(values: Any, want: list[str]) -> None:
    got = as_ids(values, "item")
    assert got == want
    assert all(type(i) is str for i in got)


@pytest.mark.parametrize("bad", [None, 1.0, True, np.nan, ("a", "b"), b"a", np.bool_(True)])
def test_other_ids_are_refused_with_their_row(bad: Any) -> None:
    with pytest.raises(DataError, match=r"the item id in row 1 must be text or a whole number\. Got "):
        as_ids(["a", bad], "item")


def test_one_text_is_not_a_sequence_of_ids() -> None:
    with pytest.raises(DataError, match=r"did you mean \['abc'\]\?"):
        as_ids("abc", "item")


def test_as_ids_does_not_change_its_argument() -> None:
    given = [1, "a"]
    as_ids(given, "item")
    assert given == [1, "a"]


@given(st.lists(ids))
def test_group_ids_numbers_as_first_seen(values: list[str]) -> None:
    codes, found = group_ids(values)
    assert codes.dtype == np.int32
    assert found == list(dict.fromkeys(values))
    assert [found[int(c)] for c in codes] == values


def test_freeze_makes_read_only() -> None:
    a = freeze(np.arange(3))
    with pytest.raises(ValueError, match="read-only"):
        a[0] = 1


mappings = st.dictionaries(ids, st.lists(ids, unique=True, max_size=4), max_size=4)


@given(mappings)
def test_slots_are_instance_major(items: dict[str, list[str]]) -> None:
    s = Slots.of(items)
    pairs = [(q, i) for q, names in items.items() for i in names]
    assert len(s) == len(items)
    assert s.n_slots == len(pairs)
    assert [(s.instances[int(n)], i) for n, i in zip(s.instance, s.items, strict=True)] == pairs
    assert [s.where(k) for k in range(len(pairs))] == pairs
    assert s.sizes.tolist() == [len(v) for v in items.values()]
    assert s.instance.dtype == np.int32
    assert not s.instance.flags.writeable
    assert not s.offsets.flags.writeable


@given(mappings, mappings)
def test_locate_matches_by_ids(a: dict[str, list[str]], b: dict[str, list[str]]) -> None:
    one, other = Slots.of(a), Slots.of(b)
    places = {other.where(k): k for k in range(other.n_slots)}
    assert one.locate(other).tolist() == [places.get(one.where(k), -1) for k in range(one.n_slots)]
    assert one.locate(one).tolist() == list(range(one.n_slots))
    assert (one == other) == (list(a.items()) == list(b.items()))


@given(mappings, mappings)
def test_concat_is_the_union_in_first_seen_order(a: dict[str, list[str]], b: dict[str, list[str]]) -> None:
    one, other = Slots.of(a), Slots.of(b)
    union = {q: list(dict.fromkeys(a.get(q, []) + b.get(q, []))) for q in [*a, *(q for q in b if q not in a)]}
    merged, moved = Slots.concat([one, other])
    assert merged == Slots.of(union)
    for part, new in zip((one, other), moved, strict=True):
        assert [merged.where(int(k)) for k in new] == [part.where(k) for k in range(part.n_slots)]


@given(mappings, st.data())
def test_take_and_window(items: dict[str, list[str]], data: Any) -> None:
    s = Slots.of(items)
    chosen = data.draw(st.lists(st.integers(0, max(len(s) - 1, 0)), unique=True)) if len(s) else []
    names = list(items)
    part, old = s.take(np.array(chosen, dtype=np.int64))
    assert part == Slots.of({names[n]: items[names[n]] for n in chosen})
    assert [s.where(int(k)) for k in old] == [part.where(k) for k in range(part.n_slots)]
    a = data.draw(st.integers(0, len(s)))
    b = data.draw(st.integers(a, len(s)))
    assert s.window(a, b) == s.take(np.arange(a, b))[0]


SLOTS = Slots.of({"q1": ["a"], "q2": ["a", "b"], "q3": []})


@pytest.mark.parametrize(
    ("key", "want"),
    [
        (0, [0]),
        (-1, [2]),
        (np.int32(1), [1]),
        ("q2", [1]),
        (slice(None), [0, 1, 2]),
        (slice(None, None, -2), [2, 0]),
        ([2, 0], [2, 0]),
        (np.array([-1, 0]), [2, 0]),
        (np.array([1], dtype=np.uint8), [1]),
        (np.array([True, False, True]), [0, 2]),
        ([True, False, True], [0, 2]),
        (["q3", "q1"], [2, 0]),
        (Texts(["q3", "q1"]), [2, 0]),
        (np.array(["q3", "q1"]), [2, 0]),
        ([], []),
        (np.zeros(0), []),
        (np.zeros(0, dtype=np.bool_), []),
        ((slice(1, None), Ellipsis), [1, 2]),
        ((np.array([2]), Ellipsis), [2]),
    ],
)
def test_what_may_stand_in_brackets(key: Any, want: list[int]) -> None:
    got = instance_index(key, SLOTS)
    assert got.dtype == np.int64
    assert got.tolist() == want


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (3, IndexError, "instance 3 of a container with 3 instances"),
        (-4, IndexError, "instance -4 of a container with 3"),
        ([0, 3], IndexError, "instance 3 of a container with 3"),
        ([0, -4], IndexError, "instance -4 of a container with 3"),
        ("q9", DataError, r"no instance 'q9'\. There are 3: \['q1', 'q2', 'q3'\]"),
        (["q1", "q9"], DataError, "no instance 'q9'"),
        ([0, 0], DataError, "chosen twice"),
        ([0, -3], DataError, "chosen twice"),
        (["q1", "q1"], DataError, "chosen twice"),
        ([0.5], DataError, "whole numbers, a mask, a slice or ids"),
        ([[0]], DataError, "whole numbers, a mask, a slice or ids"),
        ([True], IndexError, "a mask of length 1 for a container with 3"),
        ((0, 1), DataError, "takes one index"),
        (None, DataError, "whole numbers, a mask, a slice or ids"),
        (True, DataError, "whole numbers, a mask, a slice or ids"),
    ],
)
def test_what_may_not(key: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        instance_index(key, SLOTS)
