"""Plain lists give what the public constructor gives, and say what is wrong with them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import concordant as cc
from concordant.data.preferences import Preferences
from concordant.errors import DataError, DuplicateError, ParameterError
from concordant.io.lists import from_lists, from_runs

names = st.text(alphabet="abc", min_size=1, max_size=2)


@given(st.dictionaries(names, st.lists(names, unique=True, max_size=5), max_size=4))
def test_lists_give_ranks(lists: dict[str, list[str]]) -> None:
    rows = [(e, i, r) for e, items in lists.items() for r, i in enumerate(items, start=1)]
    got = from_lists(lists, "query 7")
    want = Preferences(["query 7"] * len(rows), *[[r[k] for r in rows] for k in range(3)], experts=list(lists))
    assert got.kind == "rank"
    if rows:
        assert got == want
    else:
        assert (got.instances, got.n_slots, got.n_rows) == (["query 7"], 0, 0)
        assert got.experts == list(lists)


@pytest.mark.parametrize("kind", [None, "score", "rating"])
@given(scores=st.dictionaries(names, st.dictionaries(names, st.integers(-3, 5), min_size=1, max_size=4), min_size=1))
def test_mappings_give_scores(kind: Any, scores: dict[str, dict[str, int]]) -> None:
    rows = [(e, i, s) for e, items in scores.items() for i, s in items.items()]
    want = Preferences(["q"] * len(rows), *[[r[k] for r in rows] for k in range(3)], kind=kind or "score")
    assert from_lists(scores, kind=kind) == want


def test_mappings_can_hold_ranks() -> None:
    p = from_lists({"x": {"a": 1, "b": 1, "c": 3}}, kind="rank")
    assert p.kind == "rank"
    assert p.value.tolist() == [1, 1, 3]


def test_other_iterables_and_numbers_are_fine() -> None:
    p = from_lists({"x": ("a", "b"), "y": np.array(["b", "c"]), "z": iter(["a"]), 4: range(2)}, 301)
    assert p.instances == ["301"]
    assert p.experts == ["x", "y", "z", "4"]
    assert p.items == ["a", "b", "c", "0", "1"]


def test_weights_and_silent_experts() -> None:
    p = from_lists({"x": ["a"], "mute": [], "y": ["b"]}, weights={"x": 2, "mute": 3})
    assert p.experts == ["x", "mute", "y"]
    assert p.weights.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("lists", "options", "error", "message"),
    [
        (
            {"x": ["a", "b", "a"]},
            {},
            DuplicateError,
            r"expert 'x' ranks item 'a' twice in instance 'q' \(rows 0 and 2\)",
        ),
        ({"x": "abc"}, {}, DataError, "expert 'x' gives one text, 'abc'; give a list of items"),
        ({"x": ["a"], "y": {"a": 1.0}}, {}, DataError, "some experts give lists and some give scores"),
        ({"x": {"a": float("nan")}}, {}, DataError, "the score nan in instance 'q' is not finite"),
        ({"x": {"a": "good"}}, {}, DataError, r"the scores of instance 'q' must be numbers. Got \['good'\]"),
        ({"x": {"a": None}}, {}, DataError, "the scores of instance 'q'|the score None"),
        ({"x": {"a": 0}}, {"kind": "rank"}, DataError, r"ranks begin at 1 \(best\)\. Got 0"),
        ({"x": ["a"]}, {"kind": "score"}, DataError, "a list gives ranks; for kind='score' give each expert a mapping"),
        ({"x": ["a"]}, {"kind": "votes"}, ParameterError, "'kind' parameter of from_lists"),
        ({"x": [1, "1"]}, {}, DataError, "two items of instance 'q' have the same id once written as text"),
        ({"1": ["a"], 1: ["a"]}, {}, DataError, "two experts of instance 'q' have the same id once written as text"),
        ({"x": [["a"]]}, {}, DataError, "expert 'x' must give a list of ids or a mapping of scores"),
        ({"x": 3}, {}, DataError, "expert 'x' must give a list of ids or a mapping of scores"),
        ({"x": [1.5]}, {}, DataError, "the item id in row 0 must be text or a whole number"),
        ([["a"]], {}, DataError, r"give a mapping from expert to list, \{expert: \[items\]\}\. Got list"),
        ({"x": ["a"]}, {"weights": {"z": 1}}, DataError, "unknown expert 'z' in the weights"),
        ({"x": ["a"]}, {"instance": None}, DataError, "the instance id in row 0 must be text"),
    ],
)
def test_what_is_wrong_is_said(lists: Any, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        from_lists(lists, **options)


def test_nothing_at_all() -> None:
    p = from_lists({})
    assert (len(p), p.n_slots, p.n_experts) == (1, 0, 0)
    assert cc.aggregate(p, "rrf").ranking() == []


def test_the_request_path_imports_neither_polars_nor_a_compiler() -> None:
    code = (
        "import sys, concordant as cc\n"
        "assert cc.RRF().fit_predict(cc.from_lists({'x': ['a', 'b'], 'y': ['b']})).ranking() == ['b', 'a']\n"
        "heavy = {'polars', 'numba', 'scipy', 'pandas', 'sklearn', 'typer', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_item_named_twice_keeps_its_best_place_when_asked() -> None:
    p = from_lists({"x": ["a", "b", "a", "c"], "y": ["c", "a"]}, duplicates="best")
    ranks = {(p.experts[e], p.items[s]): v for e, s, v in zip(p.row_expert, p.slot, p.value, strict=True)}
    assert ranks == {("x", "a"): 1, ("x", "b"): 2, ("x", "c"): 4, ("y", "c"): 1, ("y", "a"): 2}


@pytest.mark.parametrize(
    "unordered", [{"x", "y"}, frozenset("xy"), {"x": 1}.items()], ids=["set", "frozenset", "items"]
)
def test_what_has_no_order_is_no_ranking(unordered: Any) -> None:
    with pytest.raises(
        DataError, match=rf"expert 'a' gives a {type(unordered).__name__}, which has no order; give a list"
    ):
        from_lists({"a": unordered})


def test_ordered_views_and_generators_are_rankings() -> None:
    want = from_lists({"a": ["x", "y"]})
    assert from_lists({"a": {"x": 1, "y": 2}.keys()}) == want
    assert from_lists({"a": (i for i in "xy")}) == want


nested = st.dictionaries(names, st.dictionaries(names, st.dictionaries(names, st.integers(-3, 5), max_size=3)))


@given(nested)
def test_nested_dictionaries_are_runs(runs: dict[str, dict[str, dict[str, int]]]) -> None:
    rows = [(q, e, i, s) for e, own in runs.items() for q, found in own.items() for i, s in found.items()]
    columns = [[row[k] for row in rows] for k in range(4)]
    assert from_runs(runs) == Preferences(*columns, kind="score", experts=list(runs), missing="below")


def test_nested_lists_are_runs_and_a_consensus_goes_back() -> None:
    ranked = from_runs({"x": {"q": ["a", "b"]}, "y": {"q": [], "p": ["c"]}}, missing="unknown")
    assert (ranked.kind, ranked.missing, ranked.value.tolist()) == ("rank", "unknown", [1, 2, 1])
    fused = cc.aggregate(ranked, "rrf")
    assert cc.aggregate(from_runs({"fused": fused.to_dict()}), "comb-sum", norm="none").to_dict() == fused.to_dict()


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([{"q": {"a": 1.0}}], "give the runs by name"),
        ({"x": [1]}, "run 'x' must be"),
        ({"x": {"q": 3.5}}, "run 'x' must hold .* for instance 'q'. Got 3.5"),
        ({"x": {"q": "abc"}}, "run 'x' must hold .* for instance 'q'. Got 'abc'"),
        ({"x": {"q": {"a": float("nan")}}}, "score in row 0 must be a finite number"),
        ({"x": {"q": {"a": 1.0}}, "y": {"q": ["a"]}}, "some runs hold scores and some hold lists"),
    ],
)
def test_nested_dictionaries_say_what_is_wrong(runs: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        from_runs(runs)
