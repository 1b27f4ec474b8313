"""Ids and codes: texts behind numbers, whatever they are stored in."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.strategies import ids

import concordant as cc
from concordant.data.index import Slots, Texts, as_ids, freeze, group_ids, instance_index
from concordant.data.preferences import Preferences
from concordant.errors import DataError
from concordant.io.trec import read_runs

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
        ([0, 0], DataError, "holds the same instance twice"),
        ([0, -3], DataError, "holds the same instance twice"),
        (["q1", "q1"], DataError, "holds the same instance twice"),
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


def _from_list() -> Preferences:
    return Preferences(["q", "q"], ["x", "x"], ["a", "b"], [1, 2])


def _from_column(tmp_path: Path) -> Preferences:
    (tmp_path / "a.trec").write_text("q Q0 a 1 2.0 x\nq Q0 b 2 1.0 x\n")
    return read_runs(tmp_path / "a.trec")


@pytest.mark.parametrize("native", [False, True], ids=["texts", "a native column"])
def test_nothing_of_a_container_can_be_changed(native: bool, tmp_path: Path) -> None:
    p = _from_column(tmp_path) if native else _from_list()
    before = p.to_frame()
    for texts in (p.instances, p.items, p.experts):
        store: Any = texts.native
        with contextlib.suppress(TypeError, AttributeError):
            store[0] = "changed"
        with contextlib.suppress(TypeError, AttributeError):
            store.append("more")
        codes: Any = texts.codes
        with pytest.raises(TypeError, match="does not support item assignment"):
            codes["changed"] = 0
        with pytest.raises(AttributeError, match="Texts is frozen"):
            texts.codes = {}  # type: ignore[misc]
        with pytest.raises(AttributeError, match="Texts is frozen"):
            texts._store = ["changed"]
    for name, value in (("offsets", np.array([0, 1])), ("items", Texts("ab")), ("instances", Texts("q"))):
        with pytest.raises(AttributeError, match=f"Slots is frozen: '{name}' cannot be set"):
            setattr(p.slots, name, value)
    with pytest.raises(ValueError, match="read-only"):
        p.slots.offsets[0] = 1
    assert p.to_frame().equals(before)
    assert p["q"] == p
    assert "changed" not in p.instances
    again = pickle.loads(pickle.dumps(p))
    assert again == p
    with pytest.raises(AttributeError, match="Slots is frozen"):
        again.slots.offsets = p.slots.offsets


def test_texts_do_not_change_with_the_list_they_were_made_of() -> None:
    names = ["a", "b"]
    t = Texts(names)
    names[0] = "changed"
    assert t == ["a", "b"]


@pytest.mark.parametrize("half", ["\ud800", "x\udc00y"])
def test_half_of_a_character_is_no_id(half: str) -> None:
    attempts: dict[str, Callable[[], Any]] = {
        "item": lambda: cc.from_lists({"x": ["a", half]}),
        "expert": lambda: cc.from_lists({half: ["a"]}),
        "instance": lambda: cc.from_lists({"x": ["a"]}, half),
        "instance ": lambda: Preferences([half], ["x"], ["a"], [1]),
        "expert ": lambda: Preferences(["q"], [half], ["a"], [1]),
        "item ": lambda: Preferences(["q"], ["x"], [half], [1]),
        "item  ": lambda: Preferences(["q"], ["x"], ["a"], [1], items=[("q", "a"), ("q", half)]),
        "expert  ": lambda: Preferences(["q"], ["x"], ["a"], [1], experts=["x", half]),
        "item   ": lambda: cc.Labels(["q"], [half], [1]),
        "feature": lambda: cc.Features(["q"], ["a"], [[1]], [half]),
        "item    ": lambda: cc.Consensus(["q"], [half], [1.0]),
        "left": lambda: cc.Comparisons("q", None, [half], ["b"]),
        "name": lambda: cc.from_frame(
            pd.DataFrame({"name": pd.Series([half], dtype=object), "rank": [1]}), item="name", expert=None
        ),
    }
    for what, attempt in attempts.items():
        with pytest.raises(DataError) as caught:
            attempt()
        assert f"{what.strip()}" in str(caught.value)
        assert "half of a character (a lone surrogate)" in str(caught.value)
        str(caught.value).encode()
    # Two halves of one character, each with its own id, are no character either.
    with pytest.raises(DataError, match="half of a character"):
        cc.from_lists({"x": ["\ud83d", "\ude00"]})
    assert cc.from_lists({"x": ["\U0001f600", "é"]}).to_frame()["item"].to_list() == ["\U0001f600", "é"]
