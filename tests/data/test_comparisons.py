"""Comparisons: counts of pairs stay what they were through coding, sides, experts, slicing and joining."""

from __future__ import annotations

import copy
import pickle
from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.strategies import comparison_rows, comparisons

from concordant.data.comparisons import Comparisons
from concordant.data.dataset import concat
from concordant.errors import DataError

Row = tuple[str, str | None, str, str, float, float, float]


def rows_of(c: Comparisons) -> list[Row]:
    """The rows in the user's ids."""
    out: list[Row] = []
    for n in range(c.n_rows):
        (q, a), (r, b) = c.slots.where(int(c.left[n])), c.slots.where(int(c.right[n]))
        assert q == r
        expert = None if c.expert is None else c.experts[int(c.expert[n])]
        out.append((q, expert, a, b, float(c.n_left[n]), float(c.n_right[n]), float(c.n_ties[n])))
    return out


def given_rows(arguments: dict[str, Any]) -> list[Row]:
    n = len(arguments["left"])
    experts = arguments["expert"] if arguments["expert"] is not None else [None] * n
    counts = (arguments[k] for k in ("n_left", "n_right", "n_ties"))
    return list(zip(arguments["instance"], experts, arguments["left"], arguments["right"], *counts, strict=True))


def unordered(rows: list[Row]) -> dict[tuple[Any, ...], tuple[float, ...]]:
    """Counts by instance, expert and unordered pair."""
    out: dict[tuple[Any, ...], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for q, e, a, b, left, right, ties in rows:
        first, second = sorted([a, b])
        wins = (left, right) if a == first else (right, left)
        for k, v in enumerate((*wins, ties)):
            out[q, e, first, second][k] += v
    return {key: tuple(v) for key, v in out.items()}


def assert_sound(c: Comparisons) -> None:
    for name, dtype in {
        "left": np.int32,
        "right": np.int32,
        "n_left": np.float64,
        "n_right": np.float64,
        "n_ties": np.float64,
        "row_starts": np.int64,
    }.items():
        array = getattr(c, name)
        assert array.dtype == dtype, name
        assert not array.flags.writeable, name
    if c.expert is not None:
        assert c.expert.dtype == np.int32
        assert not c.expert.flags.writeable
    instance = c.slots.instance[c.left]
    assert (np.diff(instance) >= 0).all(), "rows by instance"
    assert c.row_starts.tolist() == [int((instance < n).sum()) for n in range(len(c) + 1)]
    assert (c.left != c.right).all()
    if not c.sided:
        assert (c.left < c.right).all()


@given(comparison_rows())
def test_rows_are_coded_and_nothing_is_lost(arguments: dict[str, Any]) -> None:
    c = Comparisons(**arguments)
    assert_sound(c)
    rows = given_rows(arguments)
    order = c.instances.tolist()
    rows.sort(key=lambda r: order.index(r[0]))
    if arguments["sided"]:
        assert rows_of(c) == rows
    else:
        assert [unordered([r]) for r in rows_of(c)] == [unordered([r]) for r in rows]
    assert [c.slots.where(k) for k in range(c.n_slots)] == arguments["items"]
    assert c.experts == (arguments["experts"] or [])
    assert c.n_experts == len(c.experts)


def test_first_seen_order_without_items() -> None:
    c = Comparisons(["r", "q", "r"], None, ["b", "x", "a"], ["c", "y", "b"])
    assert c.instances == ["r", "q"]
    assert c.items == ["b", "c", "a", "x", "y"]
    assert c.n_left.tolist() == [1, 1, 1], "left won once where no counts are given"
    assert c.n_right.tolist() == c.n_ties.tolist() == [0, 0, 0]
    assert c.expert is None


def test_one_instance_by_name() -> None:
    c = Comparisons("arena", ["j"], ["a"], ["b"], n_ties=[2])
    assert c.instances == ["arena"]
    assert (c.n_left.tolist(), c.n_ties.tolist()) == ([0], [2])
    assert repr(c) == "Comparisons: 1 instance, 1 expert, 2 items, 1 row with 2 outcomes (2 ties)"


def test_a_row_weight_multiplies_its_counts() -> None:
    c = Comparisons("q", None, ["a", "a"], ["b", "c"], [1, 2], [0, 1], [1, 0], weight=[3, 0.5])
    assert [c.n_left.tolist(), c.n_right.tolist(), c.n_ties.tolist()] == [[3, 1], [0, 0.5], [3, 0]]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("q", None, ["a"], ["a"]), {}, "row 0 compares item 'a' of instance 'q' with itself"),
        (("q", None, ["a"], ["b"], [-1]), {}, r"n_left in row 0 must be >= 0\. Got -1"),
        (("q", None, ["a"], ["b"], None, None, [np.nan]), {}, "the n_ties in row 0 must be a finite number"),
        (("q", None, ["a"], ["b", "c"]), {}, "1 instances, 1 left, 2 right"),
        (("q", ["x", "y"], ["a"], ["b"]), {}, "1 instances, 1 left, 1 right, 2 experts"),
        ((["q", "q"], None, ["a"], ["b"]), {}, "2 instances, 1 left, 1 right"),
        (("q", None, ["a"], ["b"]), {"weight": [-1]}, "weight in row 0 must be >= 0"),
        (("q", ["x"], ["a"], ["b"]), {"experts": ["y"]}, r"experts \['x'\] have rows but are missing from"),
        (("q", None, ["a"], ["b"]), {"items": [("q", "a")]}, "item 'b' is ranked in instance 'q' but not among items="),
    ],
)
def test_contradictions_are_refused(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Comparisons(*arguments, **options)


@given(comparisons)
def test_collapse_merges_sides_and_experts(c: Comparisons) -> None:
    merged = c.collapse()
    assert_sound(merged)
    assert not merged.sided
    assert merged.expert is None
    assert merged.slots == c.slots
    want = unordered([(q, None, *rest) for q, _, *rest in rows_of(c)])  # type: ignore[misc]
    assert unordered(rows_of(merged)) == want
    assert merged.n_rows == len(want)
    assert merged.collapse() == merged


@given(comparisons, st.data())
def test_a_part_has_the_rows_of_its_instances(c: Comparisons, data: Any) -> None:
    names = c.instances.tolist()
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    part = c[chosen]
    assert_sound(part)
    assert part.instances == chosen
    assert sorted(rows_of(part), key=repr) == sorted((r for r in rows_of(c) if r[0] in chosen), key=repr)
    assert part.experts == c.experts
    assert part.sided == c.sided
    assert part[:] == part
    if chosen:
        assert concat([c[q] for q in chosen]) == part


@given(comparison_rows(), st.data())
def test_experts_are_selected_and_dropped(arguments: dict[str, Any], data: Any) -> None:
    c = Comparisons(**arguments)
    chosen = data.draw(st.lists(st.sampled_from(c.experts.tolist()), unique=True)) if c.n_experts else []
    part = c.select_experts(chosen)
    assert_sound(part)
    assert part.experts == chosen
    assert part.slots == c.slots
    assert rows_of(part) == [r for r in rows_of(c) if r[1] in chosen]
    assert c.drop_experts(chosen) == c.select_experts([e for e in c.experts if e not in chosen])


def test_unknown_experts_cannot_be_selected() -> None:
    c = Comparisons("q", ["x"], ["a"], ["b"])
    for call in (c.select_experts, c.drop_experts):
        with pytest.raises(DataError, match=r"no such experts: \['z'\]\. Known: \['x'\]"):
            call(["z"])
    with pytest.raises(DataError, match="an expert is named twice"):
        c.select_experts(["x", "x"])


@given(comparison_rows(), comparison_rows())
def test_concat_matches_by_id(a: dict[str, Any], b: dict[str, Any]) -> None:
    one, other = Comparisons(**a), Comparisons(**(b | {"sided": a["sided"]}))
    if (one.expert is None) != (other.expert is None):
        with pytest.raises(DataError, match="with experts and without"):
            concat([one, other])
        return
    joined = concat([one, other])
    assert_sound(joined)
    rows = rows_of(one) + rows_of(other)
    if one.sided:
        assert sorted(rows_of(joined), key=repr) == sorted(rows, key=repr)
    assert unordered(rows_of(joined)) == unordered(rows)
    assert joined.experts == list(dict.fromkeys([*one.experts, *other.experts]))


def test_concat_keeps_code_order_when_items_meet_in_another_order() -> None:
    one = Comparisons("q", None, ["a"], ["b"], [3], [1], sided=False)
    other = Comparisons("q", None, ["b"], ["a"], [2], [0], sided=False)
    joined = concat([one, other])
    assert joined.left.tolist() == [0, 0]
    assert (joined.n_left.tolist(), joined.n_right.tolist()) == ([3, 0], [1, 2])


def test_concat_of_sided_and_unsided_is_refused() -> None:
    one, other = (Comparisons("q", None, ["a"], ["b"], sided=s) for s in (True, False))
    with pytest.raises(DataError, match="with known sides and without"):
        concat([one, other])


@given(comparisons)
def test_copies_are_equal_and_as_frozen(c: Comparisons) -> None:
    for again in (pickle.loads(pickle.dumps(c)), copy.copy(c), copy.deepcopy(c)):
        assert again == c
        assert_sound(again)


def test_equality_sees_every_difference() -> None:
    base: dict[str, Any] = {"instance": "q", "expert": ["x"], "left": ["a"], "right": ["b"], "n_left": [1]}
    c = Comparisons(**base)
    others: list[dict[str, Any]] = [
        {"instance": "r"},
        {"expert": ["y"]},
        {"expert": None},
        {"left": ["c"]},
        {"n_left": [2]},
        {"n_right": [1]},
        {"n_ties": [1]},
        {"sided": False},
        {"experts": ["x", "y"]},
        {"items": [("q", "b"), ("q", "a")]},
        {"items": [("q", "a"), ("q", "b"), ("q", "c")]},
    ]
    for other in others:
        assert c != Comparisons(**(base | other)), other
    assert c == Comparisons(**base)
    assert c != "comparisons"
    with pytest.raises(AttributeError, match="Comparisons is frozen"):
        c.sided = False


@given(comparisons)
def test_the_frame_holds_the_rows(c: Comparisons) -> None:
    frame = c.to_frame()
    named = ["expert"] if c.expert is not None else []
    assert frame.columns == ["instance", *named, "left", "right", "n_left", "n_right", "n_ties"]
    assert frame.schema["left"] == pl.String
    rows = rows_of(c) if named else [(q, *rest) for q, _, *rest in rows_of(c)]
    assert frame.rows() == rows


def test_factors_of_experts_multiply_their_counts() -> None:
    c = Comparisons("q", ["x", "y"], ["a", "b"], ["b", "c"], [3, 1], [1, 0], [0, 2])
    scaled = c.scale_weights({"y": 0.5})
    assert rows_of(scaled) == [("q", "x", "a", "b", 3, 1, 0), ("q", "y", "b", "c", 0.5, 0, 1)]
    assert c.scale_weights({}) is c
    assert c.scale_weights({"x": 2}).sided is c.sided


@pytest.mark.parametrize(
    ("expert", "factors", "message"),
    [
        (["x"], {"z": 1.0}, r"unknown expert 'z' in the weights. Experts: \['x'\]"),
        (["x"], {"x": -1.0}, "finite number >= 0. Got -1.0 for 'x'"),
        (["x"], {"x": float("nan")}, "finite number >= 0. Got nan"),
        (None, {"x": 1.0}, "the comparisons name no experts"),
    ],
)
def test_factors_that_make_no_sense_are_refused(expert: list[str] | None, factors: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Comparisons("q", expert, ["a"], ["b"]).scale_weights(factors)


def _rich() -> Comparisons:
    """Votes with every column, in two instances whose rows are mixed."""
    return Comparisons(
        ["q", "p", "q", "p"],
        ["x", "y", "x", "z"],
        ["a", "d", "c", "e"],
        ["b", "e", "a", "d"],
        [1, 0, 2, 1],
        [0, 1, 0, 3],
        weight=[1, 2, 1, 1],
        time=[4, 3, 2, 1],
        category=["en", None, "de", "en"],
        covariates={"length": [10, -20, 30, 40], "lists": [0, 1, 0, -1]},
        n_both_bad=[0, 1, 0, 0],
    )


def _records(c: Comparisons) -> set[tuple[Any, ...]]:
    """The rows with their columns, each seen from the side of the item that comes first in the alphabet."""
    out = set()
    for row in c.to_frame().iter_rows(named=True):
        flip = row["left"] > row["right"]
        sides = ("right", "left") if flip else ("left", "right")
        sign = -1 if flip else 1
        counts = tuple(row[f"n_{side}"] for side in sides)
        pair = tuple(row[side] for side in sides)
        covariates = tuple(sign * row[name] for name in c.covariate_names)
        out.add(
            (row["instance"], row["expert"], pair, counts, row["n_both_bad"], row["time"], row["category"], covariates)
        )
    return out


def test_columns_stay_with_their_votes() -> None:
    c = _rich()
    wanted = {
        ("q", "x", ("a", "b"), (1, 0), 0, 4, "en", (10, 0)),
        ("q", "x", ("a", "c"), (0, 2), 0, 2, "de", (-30, 0)),
        ("p", "y", ("d", "e"), (0, 2), 2, 3, None, (-20, 1)),
        ("p", "z", ("d", "e"), (3, 1), 0, 1, "en", (-40, 1)),
    }
    assert _records(c) == wanted
    assert _records(c[[1, 0]]) == wanted
    assert _records(pickle.loads(pickle.dumps(c))) == wanted
    assert _records(concat([c[1:], c[:1]])) == wanted
    assert concat([c[:1], c[1:]]) == c
    assert _records(c.select_experts(["z", "x"])) == {row for row in wanted if row[1] != "y"}
    assert _records(c.select_category("en")) == {row for row in wanted if row[6] == "en"}
    assert _records(c.select_rows([0, 2])) | _records(c.select_rows([1, 3])) == wanted
    assert _records(c.scale_weights({"y": 0.5})) == {
        (*row[:3], (0, 1), 1, *row[5:]) if row[1] == "y" else row for row in wanted
    }


def test_covariates_change_their_sign_with_the_sides() -> None:
    # Unsided pairs are in the order of codes: b before a, because b is met first.
    c = Comparisons("q", None, ["b", "a"], ["a", "b"], sided=False, covariates={"length": [5, 7]})
    assert c.covariates[:, 0].tolist() == [5, -7]
    assert (c.n_left.tolist(), c.n_right.tolist()) == ([1, 0], [0, 1])
    other = Comparisons("q", None, ["a"], ["c"], sided=False, covariates={"length": [3]})
    joined = concat([other, c])
    assert _signed(joined) == _signed(other) | _signed(c)


def _signed(c: Comparisons) -> set[tuple[str, str, float]]:
    rows = c.to_frame().iter_rows(named=True)
    both = [(r["left"], r["right"], r["length"]) for r in rows]
    return {(a, b, x) if a < b else (b, a, -x) for a, b, x in both}


def test_collapsed_votes_have_no_columns_and_other_votes_do_not_join_them() -> None:
    c = _rich()
    plain = c.without_columns()
    assert plain.columns.names == []
    assert c.collapse() == plain.collapse()
    with pytest.raises(DataError, match=r"'category'.*without_columns"):
        concat([c, plain])
    renamed = Comparisons("q", None, ["a"], ["b"], covariates={"lists": [1], "length": [2]})
    other = Comparisons("q", None, ["a"], ["b"], covariates={"length": [1], "lists": [2]})
    with pytest.raises(DataError, match="different orders"):
        concat([renamed, other])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"time": [1.0]}, "time column has shape"),
        ({"category": ["en"]}, "category column has 1 rows"),
        ({"covariates": {"length": [1, float("nan")]}}, "covariate length in row 1"),
        ({"n_both_bad": [1, -1]}, "n_both_bad in row 1 must be >= 0"),
    ],
)
def test_a_bad_column_is_named(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Comparisons("q", None, ["a", "b"], ["b", "c"], **columns)


def test_an_unknown_category_and_bad_rows_are_named() -> None:
    c = _rich()
    with pytest.raises(DataError, match=r"no category 'fr'\. Categories: .*de"):
        c.select_category("fr")
    for rows in ([1, 0], [0, 4], [-1], np.zeros(3, dtype=bool)):
        with pytest.raises(DataError, match=r"increase|mask"):
            c.select_rows(rows)
