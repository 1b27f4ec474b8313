"""Preferences: coding, slicing, restricting, joining and comparing, against plain Python on the user's own rows."""

from __future__ import annotations

import copy
import importlib.util
import pickle
import sys
from collections import defaultdict
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.strategies import Rows, preference_rows
from tests.oracles import lists as oracle

import concordant as cc
from concordant.data.dataset import concat
from concordant.data.preferences import Preferences
from concordant.errors import DataError, DuplicateError, KindError, ParameterError
from concordant.kernels.lists import TIES

Cell = tuple[str, str, str]


def cells(p: Preferences) -> dict[Cell, float]:
    """The rows as a mapping from (instance, expert, item)."""
    rows = zip(p.slot.tolist(), p.row_expert.tolist(), p.value.tolist(), strict=True)
    out = {}
    for slot, expert, value in rows:
        instance, item = p.slots.where(slot)
        assert (instance, p.experts[expert], item) not in out
        out[instance, p.experts[expert], item] = value
    return out


def lists_of(rows: Rows) -> dict[tuple[str, str], list[tuple[str, float]]]:
    """The lists by (instance, expert), each in input order."""
    out: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for q, e, i, v in rows.rows:
        out[q, e].append((i, v))
    return dict(out)


def pairs(p: Preferences) -> list[tuple[str, str]]:
    return [p.slots.where(k) for k in range(p.n_slots)]


def by_instance(items: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs instance-major, instances and items in first-seen order."""
    order = list(dict.fromkeys(q for q, _ in items))
    return sorted(items, key=lambda pair: order.index(pair[0]))


def assert_sound(p: Preferences) -> None:
    """Require what every container promises: order, dtypes, read-only arrays, consistent offsets."""
    for name, dtype in {
        "list_expert": np.int32,
        "list_offsets": np.int64,
        "list_starts": np.int64,
        "slot": np.int32,
        "value": np.float64,
        "list_instance": np.int32,
        "row_list": np.int32,
    }.items():
        array = getattr(p, name)
        assert array.dtype == dtype, name
        assert not array.flags.writeable, name
    assert len(p.list_offsets) == p.n_lists + 1
    assert len(p.list_starts) == len(p) + 1
    assert p.list_offsets[0] == p.list_starts[0] == 0
    assert p.list_offsets[-1] == p.n_rows == len(p.value) == len(p.slot)
    assert p.list_starts[-1] == p.n_lists
    assert (p.list_lengths > 0).all()
    key = p.list_instance.astype(np.int64) * max(p.n_experts, 1) + p.list_expert
    assert (np.diff(key) > 0).all(), "lists by instance, then expert"
    assert np.array_equal(p.slots.instance[p.slot], p.list_instance[p.row_list]), "rows stay in their instance"
    if p.list_weight is not None:
        assert p.list_weight.dtype == np.float64
        assert not p.list_weight.flags.writeable
        assert len(p.list_weight) == p.n_lists


# Construction.


@given(preference_rows())
def test_rows_are_coded_and_nothing_is_lost(rows: Rows) -> None:
    p = rows.build()
    assert_sound(p)
    assert cells(p) == {(q, e, i): v for q, e, i, v in rows.rows}
    assert pairs(p) == by_instance(rows.items)
    assert p.experts == rows.experts
    assert p.kind == rows.kind
    assert (p.n_rows, p.n_experts, p.n_instances) == (len(rows.rows), len(rows.experts), len(set(p.instances)))
    want = lists_of(rows)
    assert p.n_lists == len(want)
    for which in range(p.n_lists):
        expert, instance = p._list_name(which)
        a, b = p.list_offsets[which : which + 2]
        got = [(p.items[int(s)], v) for s, v in zip(p.slot[a:b], p.value[a:b].tolist(), strict=True)]
        assert got == want[instance, expert], "input order within a list"
        if rows.weights is not None:
            assert p.weights[which] == rows.weights[instance, expert]


@given(preference_rows(weighted=False))
def test_ids_are_numbered_as_first_seen(rows: Rows) -> None:
    columns = [list(c) for c in zip(*rows.rows, strict=True)] if rows.rows else [[], [], [], []]
    p = Preferences(*columns, kind=rows.kind)  # type: ignore[arg-type]
    assert_sound(p)
    assert p.instances == list(dict.fromkeys(q for q, _, _, _ in rows.rows))
    assert p.experts == list(dict.fromkeys(e for _, e, _, _ in rows.rows))
    assert pairs(p) == by_instance(list(dict.fromkeys((q, i) for q, _, i, _ in rows.rows)))
    assert cells(p) == {(q, e, i): v for q, e, i, v in rows.rows}


def test_items_nobody_ranks_and_silent_experts_are_kept() -> None:
    p = Preferences(
        ["q1"], ["x"], ["b"], [1], items=[("q2", "z"), ("q1", "a"), ("q1", "b")], experts=["mute", "x", "deaf"]
    )
    assert p.instances == ["q2", "q1"]
    assert pairs(p) == [("q2", "z"), ("q1", "a"), ("q1", "b")]
    assert p.experts == ["mute", "x", "deaf"]
    assert p.list_starts.tolist() == [0, 0, 1]
    assert repr(p) == "Preferences: 2 instances, 3 experts, 3 items, 1 rank in 1 list"


def test_without_rows() -> None:
    p = Preferences([], [], [], [])
    assert_sound(p)
    assert (len(p), p.shape, p.n_rows, p.n_experts) == (0, (0,), 0, 0)
    assert p.positions().tolist() == []
    assert p.comparisons().n_rows == 0
    assert p.comparisons(missing="below").n_rows == 0
    assert p.to_frame().shape == (0, 4)
    assert list(p) == []
    assert p[:] == p
    assert p.top(3) == p
    assert p.select_items([]) == p


def test_numbers_are_ids_too() -> None:
    p = Preferences(np.array([301, 301]), [1, 2], ["a", "a"], [1, 1])
    assert p.instances == ["301"]
    assert p.experts == ["1", "2"]


def test_the_input_is_copied() -> None:
    value = np.array([1.0, 2.0])
    p = Preferences(["q", "q"], ["x", "x"], ["a", "b"], value)
    value[0] = 7
    assert value.flags.writeable
    assert p.value.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (
            (["q"], ["x"], ["a"], [0]),
            {},
            DataError,
            r"ranks begin at 1 \(best\)\. Got 0 for item 'a' by 'x' in instance 'q'",
        ),
        (
            (["q"], ["x"], ["a"], [np.nan]),
            {},
            DataError,
            "rank in row 0 must be a finite number. Got .*nan.* leave the row out",
        ),
        ((["q"], ["x"], ["a"], [np.inf]), {"kind": "score"}, DataError, "the score in row 0 must be a finite number"),
        (
            (["q", "q"], ["x", "x"], ["a", "b"], [1, "two"]),
            {},
            DataError,
            "the rank in row 1 must be a number. Got 'two'",
        ),
        ((["q"], ["x"], ["a"], [1, 2]), {}, DataError, r"the rank column has shape \(2,\), the ids have 1 rows"),
        (
            (["q"], ["x", "y"], ["a"], [1]),
            {},
            DataError,
            "id columns differ in length: 1 instances, 2 experts, 1 items",
        ),
        (
            (["q"], ["x"], ["a"], [1]),
            {"kind": "votes"},
            ParameterError,
            "'kind' parameter of Preferences must be one of",
        ),
        ((["q"], ["x"], ["a"], [1]), {"duplicates": "sum"}, ParameterError, "'duplicates' parameter of Preferences"),
        (
            (["q"], ["x"], ["a"], [1]),
            {"items": [("q", "b")]},
            DataError,
            "item 'a' is ranked in instance 'q' but not among",
        ),
        (
            (["q"], ["x"], ["a"], [1]),
            {"items": [("r", "a")]},
            DataError,
            "item 'a' is ranked in instance 'q' but not among",
        ),
        (
            (["q"], ["x"], ["a"], [1]),
            {"items": [("q", "a"), ("q", "a")]},
            DataError,
            "names item 'a' of instance 'q' twice",
        ),
        ((["q"], ["x"], ["a"], [1]), {"experts": ["y"]}, DataError, r"experts \['x'\] have rows but are missing from"),
        ((["q"], ["x"], ["a"], [1]), {"experts": ["x", "x"]}, DataError, "experts= names an expert twice"),
        (
            (["q"], ["x"], ["a"], [1]),
            {"weight": [-1]},
            DataError,
            "weight must be a finite number >= 0. Got -1 for 'x'",
        ),
        ((["q"], ["x"], ["a"], [1]), {"weight": [np.nan]}, DataError, "the weight in row 0 must be a finite number"),
        ((["q"], ["x"], ["a"], [1]), {"weight": [1, 2]}, DataError, "the weight column has shape"),
        (
            (["q"], ["x"], ["a"], [1]),
            {"weight": {"y": 1}},
            DataError,
            r"unknown expert 'y' in the weights. Experts: \['x'\]",
        ),
        (
            (["q"], ["x"], ["a"], [1]),
            {"weight": {("r", "x"): 1}},
            DataError,
            "unknown instance 'r' in the weights, for expert 'x'",
        ),
        ((["q"], ["x"], ["a"], [1]), {"weight": {"x": "much"}}, DataError, "weight .* Got 'much' for 'x'"),
        ((["q"], ["x"], ["a"], [1]), {"weight": {"x": np.inf}}, DataError, "weight .* Got inf for 'x'"),
        ((["q"], ["x"], ["a"], [1]), {"weight": {("q", "x", 1): 1}}, DataError, "unknown expert .* in the weights"),
        (("q", ["x"], ["a"], [1]), {}, DataError, "instance ids must be a sequence"),
        ((["q"], [None], ["a"], [1]), {}, DataError, "the expert id in row 0 must be text"),
    ],
)
def test_contradictions_are_refused(arguments: Any, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Preferences(*arguments, **options)


def test_two_weights_for_one_list_are_refused() -> None:
    with pytest.raises(DataError, match=r"expert 'x' has two weights in instance 'q'"):
        Preferences(["q", "q"], ["x", "x"], ["a", "b"], [1, 2], weight=[1, 2])


def test_weights_by_row_and_by_mapping_are_the_same() -> None:
    columns = (["q1", "q1", "q2"], ["x", "y", "x"], ["a", "a", "a"], [1, 1, 1])
    by_row = Preferences(*columns, weight=[2, 1, 3])
    assert by_row == Preferences(*columns, weight={("q1", "x"): 2, ("q2", "x"): 3})
    assert by_row == Preferences(*columns, weight={"x": 2, ("q2", "x"): 3})
    assert by_row == Preferences(*columns).with_weights({"x": 3, ("q1", "x"): 2})
    assert by_row == Preferences(*columns).with_weights({("q1", "x"): 2, "x": 3}), "the pair goes before the expert"
    assert by_row == Preferences(*columns, experts=["x", "y", "z"]).with_weights(
        {"x": 3, ("q1", "x"): 2, "z": 9}
    ).drop_experts(["z"])
    assert by_row.with_weights(None) == Preferences(*columns)
    assert by_row.weights.tolist() == [2, 1, 3]
    assert by_row.row_weight is not None
    assert by_row.row_weight.tolist() == [2, 1, 3]
    assert Preferences(*columns).row_weight is None
    assert Preferences(*columns).weights.tolist() == [1, 1, 1]
    assert "weighted" in repr(by_row)
    assert by_row != Preferences(*columns)
    assert Preferences(*columns) == Preferences(*columns, weight=[1, 1, 1])


DUPLICATED = (["q", "p", "q", "q", "q"], ["x", "x", "x", "y", "x"], ["a", "a", "b", "a", "a"], [3, 1, 2, 9, 1])


def test_duplicates_are_an_error_naming_both_rows() -> None:
    with pytest.raises(
        DuplicateError, match=r"expert 'x' ranks item 'a' twice in instance 'q' \(rows 0 and 4\)\. Pass"
    ):
        Preferences(*DUPLICATED)


@pytest.mark.parametrize(
    ("kind", "duplicates", "kept"),
    [("rank", "best", 1), ("score", "best", 3), ("rank", "first", 3), ("score", "first", 3)],
)
def test_duplicates_can_be_resolved(kind: Any, duplicates: str, kept: float) -> None:
    p = Preferences(*DUPLICATED, kind=kind, duplicates=duplicates)
    assert_sound(p)
    assert cells(p) == {("q", "x", "a"): kept, ("q", "x", "b"): 2, ("q", "y", "a"): 9, ("p", "x", "a"): 1}


def test_weights_survive_the_resolution_of_duplicates() -> None:
    p = Preferences(*DUPLICATED, duplicates="best", weight=[2, 5, 2, 1, 2])
    assert {p._list_name(k): w for k, w in enumerate(p.weights.tolist())} == {
        ("x", "q"): 2,
        ("x", "p"): 5,
        ("y", "q"): 1,
    }


# Frozen, equal, copied.


def test_a_container_is_frozen() -> None:
    p = Preferences(["q"], ["x"], ["a"], [1])
    with pytest.raises(AttributeError, match="Preferences is frozen: 'kind' cannot be set"):
        p.kind = "score"
    with pytest.raises(AttributeError, match="Preferences is frozen: 'slot' cannot be deleted"):
        del p.slot
    with pytest.raises(ValueError, match="read-only"):
        p.value[0] = 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(p)


@given(preference_rows())
def test_copies_are_equal_and_as_frozen(rows: Rows) -> None:
    p = rows.build()
    p.positions()
    for again in (pickle.loads(pickle.dumps(p)), copy.copy(p), copy.deepcopy(p), rows.build()):
        assert again == p
        assert_sound(again)
        assert again.slots == p.slots


def test_equality_sees_every_difference() -> None:
    base = {"instance": ["q", "q"], "expert": ["x", "x"], "item": ["a", "b"], "value": [1, 2]}
    p = Preferences(**base)  # type: ignore[arg-type]
    assert p == p
    others = [
        {"instance": ["r", "r"]},
        {"expert": ["y", "y"]},
        {"item": ["a", "c"]},
        {"value": [1, 3]},
        {"kind": "score"},
        {"weight": [2, 2]},
        {"items": [("q", "a"), ("q", "b"), ("q", "c")]},
        {"experts": ["x", "y"]},
        {"items": [("q", "b"), ("q", "a")]},
    ]
    for other in others:
        assert p != Preferences(**(base | other))  # type: ignore[arg-type]
    assert p != "preferences"
    assert p != 1


def test_repr_counts() -> None:
    p = Preferences(["q"] * 3 + ["r"], ["x", "x", "y", "y"], ["a", "b", "a", "a"], [1, 2, 1, 1], kind="score")
    assert repr(p) == "Preferences: 2 instances, 2 experts, 3 items, 4 scores in 3 lists"


# Choosing instances.


@given(preference_rows(), st.data())
def test_a_part_has_the_rows_of_its_instances(rows: Rows, data: Any) -> None:
    p = rows.build()
    names = p.instances.tolist()
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    part = p[[names.index(q) for q in chosen]]
    assert_sound(part)
    assert part.instances == chosen
    assert cells(part) == {c: v for c, v in cells(p).items() if c[0] in chosen}
    assert set(pairs(part)) == {pair for pair in pairs(p) if pair[0] in chosen}
    assert part.experts == p.experts
    assert part.kind == p.kind
    if p.list_weight is not None and rows.weights is not None:
        assert all(
            w == rows.weights[q, e]
            for (e, q), w in ((part._list_name(k), part.weights[k]) for k in range(part.n_lists))
        )
    if chosen:
        assert part[chosen] == part
        assert p[chosen] == part
        assert concat([p[q] for q in chosen]) == part
        assert [one for one in part] == [part[k] for k in range(len(part))]  # noqa: C416 - iteration is what is tried


@given(preference_rows(), st.data())
def test_a_window_is_a_slice(rows: Rows, data: Any) -> None:
    p = rows.build()
    a = data.draw(st.integers(0, len(p)))
    b = data.draw(st.integers(a, len(p)))
    window = p.window(a, b)
    assert_sound(window)
    assert window == p[a:b]


def test_every_key_of_a_sequence() -> None:
    p = Preferences(["q1", "q2", "q2", "q3"], ["x"] * 4, ["a", "a", "b", "c"], [1, 1, 2, 1])
    want = p[np.array([0, 2])]
    assert want.instances == ["q1", "q3"]
    keys: list[Any] = [
        [0, 2],
        [0, -1],
        slice(None, None, 2),
        [True, False, True],
        ["q1", "q3"],
        (np.array([0, 2]), Ellipsis),
    ]
    for key in keys:
        assert p[key] == want
    assert p[1] == p["q2"] == p[[1]]
    assert p.shape == (3,)
    with pytest.raises(IndexError):
        p[3]
    with pytest.raises(DataError, match="holds the same instance twice"):
        p[["q1", "q1"]]


# Positions and ranks.


@pytest.mark.parametrize("ties", TIES)
@given(rows=preference_rows())
def test_positions_and_ranks_under_every_tie_policy(ties: str, rows: Rows) -> None:
    p = rows.build()
    sign = 1 if rows.kind == "rank" else -1
    want = {}
    for (q, e), entries in lists_of(rows).items():
        found = oracle.positions([sign * v for _, v in entries], ties)
        want |= {(q, e, i): place for (i, _), place in zip(entries, found, strict=True)}
    ranked = p.to_ranks(ties)
    assert_sound(ranked)
    assert ranked.kind == "rank"
    assert cells(ranked) == want
    assert p.positions(ties).tolist() == ranked.value.tolist()
    assert p.ranks(ties).tolist() == (p.value if rows.kind == "rank" else ranked.value).tolist()
    assert p.strengths().tolist() == (-sign * p.value).tolist()
    assert ranked.slots == p.slots
    assert ranked.weights.tolist() == p.weights.tolist()


def test_an_unknown_tie_policy_is_refused() -> None:
    with pytest.raises(ParameterError, match="'ties' parameter of positions must be one of 'min', 'max'"):
        Preferences(["q"], ["x"], ["a"], [1]).positions("random")


# Restricting.


@given(preference_rows(), st.integers(1, 4))
def test_top_keeps_the_best_of_every_list(rows: Rows, k: int) -> None:
    p = rows.build()
    sign = 1 if rows.kind == "rank" else -1
    want = {}
    for (q, e), entries in lists_of(rows).items():
        best = sorted(range(len(entries)), key=lambda n: (sign * entries[n][1], n))[:k]
        want |= {(q, e, entries[n][0]): entries[n][1] for n in best}
    cut = p.top(k)
    assert_sound(cut)
    assert cells(cut) == want
    assert cut.slots == p.slots
    assert cut.experts == p.experts
    assert cut.weights.tolist() == p.weights.tolist()


@pytest.mark.parametrize("k", [0, -1, 1.5, "2"])
def test_top_takes_a_whole_number(k: Any) -> None:
    with pytest.raises(ParameterError, match="'k' parameter of top must be a whole number >= 1"):
        Preferences(["q"], ["x"], ["a"], [1]).top(k)


@given(preference_rows(), st.data())
def test_experts_are_selected_in_the_order_named_and_dropped(rows: Rows, data: Any) -> None:
    p = rows.build()
    chosen = data.draw(st.lists(st.sampled_from(rows.experts), unique=True))
    part = p.select_experts(chosen)
    assert_sound(part)
    assert part.experts == chosen
    assert cells(part) == {c: v for c, v in cells(p).items() if c[1] in chosen}
    assert part.slots == p.slots
    if rows.weights is not None:
        for k in range(part.n_lists):
            expert, instance = part._list_name(k)
            assert part.weights[k] == rows.weights[instance, expert]
    rest = p.drop_experts(chosen)
    assert rest == p.select_experts([e for e in rows.experts if e not in chosen])
    assert len(cells(part)) + len(cells(rest)) == p.n_rows


def test_unknown_experts_cannot_be_selected() -> None:
    p = Preferences(["q"], ["x"], ["a"], [1])
    for call in (p.select_experts, p.drop_experts):
        with pytest.raises(DataError, match=r"no such experts: \['z'\]\. Known: \['x'\]"):
            call(["z"])
        with pytest.raises(DataError, match="must be a sequence of ids"):
            call("x")
    with pytest.raises(DataError, match="an expert is named twice"):
        p.select_experts(["x", "x"])


@given(preference_rows(), st.data())
def test_items_are_selected_by_id_or_by_test(rows: Rows, data: Any) -> None:
    p = rows.build()
    names = sorted({i for _, i in rows.items})
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    part = p.select_items(chosen)
    assert_sound(part)
    assert cells(part) == {c: v for c, v in cells(p).items() if c[2] in chosen}
    assert pairs(part) == [pair for pair in pairs(p) if pair[1] in chosen]
    assert part.instances == p.instances, "an instance stays without items"
    assert part == p.select_items(lambda i: i in chosen)


# Comparing.


@pytest.mark.parametrize("transform", ["binary", "count", "rankdiff", "log", "rating"])
@pytest.mark.parametrize("missing", ["unknown", "below"])
@given(rows=preference_rows(), ties=st.booleans())
def test_comparisons_are_all_pairs(transform: str, missing: str, rows: Rows, ties: bool) -> None:
    p = rows.build()
    if transform == "rating" and rows.kind == "rank":
        with pytest.raises(KindError, match=r"these are ranks\. Use 'count'"):
            p.comparisons(transform)
        return
    c = p.comparisons(transform, ties=ties, missing=missing)
    assert c.slots == p.slots
    assert c.experts == p.experts
    assert not c.sided
    assert (c.left < c.right).all()
    got = {}
    expert = c.expert.tolist() if c.expert is not None else []
    for n, e in enumerate(expert):
        (q, a), (r, b) = p.slots.where(int(c.left[n])), p.slots.where(int(c.right[n]))
        assert q == r
        assert (q, p.experts[e], a, b) not in got
        got[q, p.experts[e], a, b] = (c.n_left[n], c.n_right[n], c.n_ties[n])
    want = {}
    for (q, e), entries in lists_of(rows).items():
        w = 1.0 if rows.weights is None else rows.weights[q, e]
        value = dict(entries)
        if transform == "rating":
            rank = {i: -v for i, v in entries}
            y = {(i, j): max(value[i] - value[j], 0.0) for i in value for j in value}
        else:
            numbers = [v for _, v in entries]
            ranks = numbers if rows.kind == "rank" else oracle.positions([-v for v in numbers], "average")
            rank = dict(zip(value, ranks, strict=True))
            matrix = oracle.strength(ranks, transform)
            y = {(i, j): matrix[a][b] for a, i in enumerate(value) for b, j in enumerate(value)}
        everything = [i for instance, i in pairs(p) if instance == q]
        for a, b in combinations(everything, 2):
            if a in value and b in value:
                tied = rank[a] == rank[b]
                if not tied or ties:
                    want[q, e, a, b] = (w * y[a, b], w * y[b, a], w * float(tied))
            elif missing == "below" and (a in value or b in value):
                want[q, e, a, b] = (w * (a in value), w * (b in value), 0.0)
    assert set(got) == set(want)
    for key, counts in want.items():
        assert got[key] == pytest.approx(counts, rel=1e-9, abs=1e-12), key


@pytest.mark.parametrize("transform", ["binary", "count", "rankdiff", "log", "rating"])
@given(rows=preference_rows(weighted=False))
def test_pair_sums_are_the_sums_of_the_comparisons(transform: str, rows: Rows) -> None:
    p = rows.build()
    if transform == "rating" and rows.kind == "rank":
        return
    row, col = p.pair_sums(transform)
    c = p.comparisons(transform)
    assert c.expert is not None
    size = p.n_experts * max(p.n_slots, 1)
    place = p.row_expert.astype(np.int64) * max(p.n_slots, 1) + p.slot
    left, right = (c.expert.astype(np.int64) * max(p.n_slots, 1) + side for side in (c.left, c.right))
    for_it = np.bincount(left, c.n_left, size) + np.bincount(right, c.n_right, size)
    against = np.bincount(left, c.n_right, size) + np.bincount(right, c.n_left, size)
    assert row == pytest.approx(for_it[place], rel=1e-9, abs=1e-9)
    assert col == pytest.approx(against[place], rel=1e-9, abs=1e-9)


def test_rating_differences_are_the_published_ones(golden: Any) -> None:
    case = golden("01_pairwise_matrices")["cases"][2]
    ratings = case["input"]["ratings"]
    rows = [(str(k), str(i), r) for i, line in enumerate(ratings) for k, r in enumerate(line) if r]
    p = Preferences(
        ["q"] * len(rows),
        [e for e, _, _ in rows],
        [i for _, i, _ in rows],
        [r for _, _, r in rows],
        kind="rating",
        items=[("q", str(i)) for i in range(len(ratings))],
    )
    y = np.zeros((p.n_experts, p.n_slots, p.n_slots))
    c = p.comparisons("rating")
    y[c.expert, c.left, c.right] = c.n_left
    y[c.expert, c.right, c.left] = c.n_right
    assert y.tolist() == case["expected"]["Y"]


def test_unknown_transforms_are_refused() -> None:
    p = Preferences(["q"], ["x"], ["a"], [1])
    with pytest.raises(ParameterError, match="'transform' parameter of comparisons must be one of 'binary'"):
        p.comparisons("square")
    with pytest.raises(ParameterError, match="'transform' parameter"):
        p.pair_sums("square")
    with pytest.raises(ParameterError, match="'missing' parameter of comparisons must be one of 'auto'"):
        p.comparisons(missing="above")


def test_an_infinite_rank_difference_is_never_made() -> None:
    # All ranks 1: the logarithm of the largest rank is 0, and nothing differs.
    p = Preferences(["q"] * 3, ["x"] * 3, list("abc"), [1, 1, 1])
    assert p.comparisons("log").n_rows == 0
    assert p.comparisons("log", ties=True).n_ties.tolist() == [1, 1, 1]
    assert [s.tolist() for s in p.pair_sums("log")] == [[0, 0, 0], [0, 0, 0]]


# Joining.


@given(preference_rows(weighted=False), preference_rows(weighted=True))
def test_concat_matches_by_id(a: Rows, b: Rows) -> None:
    b = b._replace(kind=a.kind, rows=[(q, e, i, abs(v) + 1) for q, e, i, v in b.rows])
    one, other = a.build(), b.build()
    if set(cells(one)) & set(cells(other)):
        with pytest.raises(DuplicateError, match="twice in instance"):
            concat([one, other])
        return
    shared = {(q, e) for q, e, _ in cells(one)} & {(q, e) for q, e, _ in cells(other)}
    if any(b.weights is not None and b.weights[pair] != 1 for pair in shared):
        with pytest.raises(DataError, match="weights"):
            concat([one, other])
        return
    joined = concat([one, other])
    assert_sound(joined)
    assert cells(joined) == cells(one) | cells(other)
    assert joined.experts == list(dict.fromkeys([*a.experts, *b.experts]))
    assert pairs(joined) == by_instance(list(dict.fromkeys([*pairs(one), *pairs(other)])))
    for k in range(joined.n_lists):
        expert, instance = joined._list_name(k)
        in_b = any((q, e) == (instance, expert) for q, e, _, _ in b.rows)
        assert joined.weights[k] == (b.weights[instance, expert] if in_b and b.weights is not None else 1.0)


def test_concat_of_kinds_asks_for_ranks() -> None:
    ranks = Preferences(["q"], ["x"], ["a"], [1])
    scores = Preferences(["q"], ["y"], ["a"], [0.5], kind="score")
    with pytest.raises(DataError, match=r"different kinds \(rank, score\)\. Call \.to_ranks\(ties=\.\.\.\)"):
        concat([ranks, scores])
    assert concat([ranks, scores.to_ranks("min")]).n_rows == 2


def test_concat_of_one_is_the_same() -> None:
    p = Preferences(["q"], ["x"], ["a"], [1], weight=[2])
    assert concat([p]) == p


def test_concat_takes_one_class_and_at_least_one_part() -> None:
    p = Preferences(["q"], ["x"], ["a"], [1])
    with pytest.raises(DataError, match=r"of one class. Got \['Comparisons', 'Preferences'\]"):
        concat([p, p.comparisons()])  # type: ignore[type-var]
    with pytest.raises(DataError, match="Got nothing"):
        concat([])


# Frames.


@given(preference_rows())
def test_the_frame_holds_everything_but_silent_experts(rows: Rows) -> None:
    p = rows.build()
    frame = p.to_frame()
    weighted = ["weight"] if rows.weights is not None else []
    assert frame.columns == ["instance", "expert", "item", rows.kind, *weighted]
    assert frame.schema["instance"] == frame.schema["expert"] == frame.schema["item"] == pl.String
    got = frame.filter(pl.col("expert").is_not_null())
    assert {(q, e, i): v for q, e, i, v, *_ in got.rows()} == cells(p)
    alone = frame.filter(pl.col("expert").is_null())
    ranked = {(q, i) for q, _, i, _ in rows.rows}
    assert sorted(zip(alone["instance"], alone["item"], strict=True)) == sorted(set(rows.items) - ranked)
    assert alone[rows.kind].null_count() == len(alone)
    if rows.weights is not None:
        assert all(w == rows.weights[q, e] for q, e, _, _, w in got.rows())
    order = p.instances.tolist()
    assert [order.index(q) for q in frame["instance"]] == sorted(order.index(q) for q in frame["instance"])


def test_a_native_store_gives_the_same_container() -> None:
    from concordant.data.index import Slots, Texts

    p = Preferences(["q1", "q1", "q2"], ["x"] * 3, ["a", "b", "a"], [1, 2, 1])
    native = Preferences.from_codes(
        Slots(Texts(pl.Series(["q1", "q2"])), Texts(pl.Series(["a", "b", "a"])), np.array([0, 2, 3])),
        Texts(pl.Series(["x"])),
        p.list_expert,
        p.list_offsets,
        p.list_starts,
        p.slot,
        p.value,
        kind="rank",
    )
    assert native == p
    assert native[["q2"]] == p[["q2"]]
    assert native.to_frame().equals(p.to_frame())
    assert native.select_items(["b"]) == p.select_items(["b"])
    assert concat([native]) == p
    assert native.top(1) == p.top(1)
    assert pickle.loads(pickle.dumps(native)) == p


def test_a_frame_goes_to_pandas_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    pd = pytest.importorskip("pandas")
    frame = cc.from_lists({"x": ["a", "b"], "y": ["b"]}).to_frame()
    want = frame.to_pandas() if importlib.util.find_spec("pyarrow") else None
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    found = pd.DataFrame(frame.to_dict(as_series=False))
    assert found.columns.tolist() == frame.columns
    assert found.to_numpy().tolist() == [list(row) for row in frame.iter_rows()]
    assert want is None or found.to_numpy().tolist() == want.to_numpy().tolist()


# What lists say about items they leave out.

CUT = Preferences(
    ["q"] * 3 + ["p"] * 3, ["x", "x", "y"] * 2, list("abcabc"), [1, 2, 1, 1, 2, 1], weight={"y": 2.0}
).with_missing({"q": "below"})
STAYS: dict[str, Callable[[Preferences], Preferences]] = {
    "slice": lambda p: p[0:2],
    "ids": lambda p: p[["q", "p"]],
    "window": lambda p: p.window(0, 2),
    "to_ranks": lambda p: p.to_ranks("min"),
    "with_weights": lambda p: p.with_weights({"x": 3}),
    "with_list_weights": lambda p: p.with_list_weights(np.ones(4)),
    "top": lambda p: p.top(1),
    "select_experts": lambda p: p.select_experts(["y", "x"]),
    "drop_experts": lambda p: p.drop_experts(["y"]),
    "select_items": lambda p: p.select_items(["a", "c"]),
    "concat": lambda p: Preferences.concat([p[1:], p[:1]])[["q", "p"]],
    "pickle": lambda p: pickle.loads(pickle.dumps(p)),
    "copy": copy.deepcopy,
}


def test_what_is_left_out_is_unknown_unless_declared() -> None:
    p = Preferences(["q"], ["x"], ["a"], [1])
    assert (p.missing, p.below().tolist()) == ("unknown", [False])
    assert Preferences(["q"], ["x"], ["a"], [1], missing="below").missing == "below"
    assert Preferences([], [], [], [], missing="below").missing == "below"
    for build in (lambda: Preferences(["q"], ["x"], ["a"], [1], missing="last"), lambda: p.with_missing("last")):
        with pytest.raises(ParameterError, match=r"must be one of 'unknown', 'below'. Got 'last'"):
            build()


def test_instances_may_be_declared_one_by_one() -> None:
    assert (CUT.missing, CUT.below().tolist()) == ("mixed", [True, False])
    assert (CUT.below("unknown").tolist(), CUT.below("below").tolist()) == ([False, False], [True, True])
    assert (CUT["q"].missing, CUT["p"].missing, CUT[::-1].below().tolist()) == ("below", "unknown", [False, True])
    assert [one.missing for one in CUT] == ["below", "unknown"]
    assert CUT.with_missing("below").missing == "below"
    assert CUT.with_missing({"p": "below"}).missing == "below"
    with pytest.raises(DataError, match=r"no such instances: \['z'\]. Known: \['q', 'p'\]"):
        CUT.with_missing({"z": "below"})


@pytest.mark.parametrize("name", STAYS)
def test_what_is_declared_stays(name: str) -> None:
    for p in (CUT, CUT.with_missing("below"), CUT.with_missing("unknown")):
        assert STAYS[name](p).below().tolist() == p.below().tolist()


def test_preferences_that_declare_otherwise_are_not_equal() -> None:
    assert CUT.with_missing({"q": "below"}) == CUT
    assert CUT.with_missing("below") != CUT
    assert CUT["q"] == CUT.with_missing("below")["q"]


def test_lists_that_held_everything_are_above_what_is_cut_off() -> None:
    whole = Preferences(["q"] * 6, ["x"] * 3 + ["y"] * 3, list("abcbca"), [1, 2, 3] * 2)
    assert whole.top(2).missing == "below"
    assert whole.top(3).missing == "unknown"
    # Of an item that x never held nothing is known, wherever its list is cut.
    partial = Preferences(["q"] * 5, ["x"] * 2 + ["y"] * 3, list("abbca"), [1, 2, 1, 2, 3])
    assert partial.top(1).missing == "unknown"
    assert partial.with_missing("below").top(1).missing == "below"
    # A list of weight 0 is as if it were not there.
    assert partial.with_weights({"x": 0}).top(1).missing == "below"


def test_instances_that_leave_nothing_out_are_told() -> None:
    whole = Preferences(["q"] * 4 + ["p"], ["x", "x", "y", "y", "x"], list("abbaa"), [1, 2, 1, 2, 1])
    assert whole.leaves_out().tolist() == [False, False]
    assert CUT.leaves_out().tolist() == [True, True]
    assert CUT.with_weights({"x": 0, "y": 0}).leaves_out().tolist() == [False, False]


def test_parts_that_declare_an_instance_otherwise_are_not_joined() -> None:
    more = Preferences(["q"], ["z"], ["a"], [1])
    with pytest.raises(DataError, match=r"lists of instance 'q' say .* Make them agree.*with_missing\('below'\)"):
        Preferences.concat([CUT, more])
    assert Preferences.concat([CUT, more.with_missing("below")]).below().tolist() == [True, False]
    # Where nobody ranks anything nothing is said.
    silent = Preferences([], [], [], [], items=[("q", "d")])
    assert Preferences.concat([silent, CUT]).below().tolist() == [True, False]
    assert Preferences.concat([CUT[:0], silent]).missing == "unknown"


def test_pairs_follow_what_is_declared() -> None:
    for p in (CUT, CUT.with_missing("below"), CUT.with_missing("unknown")):
        each = [p[q].comparisons(missing="below" if b else "unknown") for q, b in zip("qp", p.below(), strict=True)]
        assert p.comparisons() == type(each[0]).concat(each)
        assert p.comparisons(missing="unknown") == CUT.with_missing("unknown").comparisons()


def test_a_frame_says_what_is_declared_where_something_is() -> None:
    assert "missing" not in CUT.with_missing("unknown").to_frame().columns
    assert CUT.to_frame()["missing"].to_list() == ["below"] * 3 + ["unknown"] * 3


def test_factors_of_experts_multiply_the_weights_there_are() -> None:
    p = Preferences(["q"] * 2, ["x", "y"], ["a", "b"], [1, 1], weight={"x": 3})
    assert p.scale_weights({"x": 2, ("q", "y"): 5}).weights.tolist() == [6, 5]
    assert p.scale_weights({}) is p
    with pytest.raises(DataError, match="unknown expert 'z' in the weights"):
        p.scale_weights({"z": 2})
