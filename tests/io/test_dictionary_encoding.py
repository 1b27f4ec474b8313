"""Codes found by hashing whole columns equal those a dictionary gives, whatever the order, the batches and the bits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concordant.data.preferences import Preferences
from concordant.errors import DataError, DuplicateError, ParameterError
from concordant.execution import force_threads
from concordant.io import _dictionary_encoding
from concordant.io._dictionary_encoding import (
    DictionaryEncoder,
    RowSource,
    encode_labels,
    encode_slots,
    factorize,
    hash_expressions,
)

Row = tuple[str, str, str, float | None]
ids = st.sampled_from(["a", "b", "c", "", "é", "an identifier too long to lie inside a view", "an identifier too long"])
rows_of = st.lists(
    st.tuples(ids, ids, ids, st.one_of(st.none(), st.sampled_from([1.0, 2.0, 2.5, 7.0]))), min_size=1, max_size=40
)
# Few bits make hashes meet, small batches and blocks make every seam show.
settings = st.fixed_dictionaries(
    {
        "hash_bits": st.sampled_from([0, 1, 3, 64]),
        "batch_rows": st.sampled_from([1, 3, 7, 1000]),
        "batch_bytes": st.sampled_from([0, 200, 1 << 30]),
        "block_rows": st.sampled_from([1, 4, 1000]),
    }
)


def table(rows: list[Row]) -> pl.DataFrame:
    types = {"instance": pl.String, "expert": pl.String, "item": pl.String, "value": pl.Float64}
    return pl.DataFrame(rows, schema=types, orient="row")


def code(rows: list[Row], cuts: list[int], options: dict[str, Any]) -> _dictionary_encoding.EncodedRows:
    """Code the rows as several frames, cut where told."""
    encoder = DictionaryEncoder(**options)
    edges = sorted({0, len(rows), *(c % (len(rows) + 1) for c in cuts)})
    for a, b in pairwise(edges):
        encoder.add(table(rows[a:b]), source=RowSource(first=a))
    return encoder.finish()


def expected(rows: list[Row], kind: str = "score", duplicates: str = "error") -> Preferences:
    """Return what the dictionaries of the public constructor make of the rows."""
    ranked = [r for r in rows if r[3] is not None]
    columns = [list(c) for c in zip(*ranked, strict=True)] if ranked else [[], [], [], []]
    return Preferences(
        *columns,
        kind=kind,  # type: ignore[arg-type]
        items=list(dict.fromkeys((q, i) for q, _, i, _ in rows)),
        experts=list(dict.fromkeys(e for _, e, _, _ in rows)),
        duplicates=duplicates,
    )


@given(rows_of, st.lists(st.integers(0, 40), max_size=3), settings, st.sampled_from(["score", "rank"]))
def test_rows_become_the_preferences_that_dictionaries_make(
    rows: list[Row], cuts: list[int], options: dict[str, Any], kind: Any
) -> None:
    once = list({(q, e, i): (q, e, i, v) for q, e, i, v in rows}.values())
    assert code(once, cuts, options).preferences(kind) == expected(once, kind)


@given(rows_of, st.lists(st.integers(0, 40), max_size=3), settings, st.sampled_from(["best", "first"]))
def test_repeated_rows_are_resolved_as_the_constructor_does(
    rows: list[Row], cuts: list[int], options: dict[str, Any], duplicates: str
) -> None:
    for kind in ("score", "rank"):
        found = code(rows, cuts, options).preferences(kind, duplicates=duplicates)  # type: ignore[arg-type]
        assert found == expected(rows, kind, duplicates)


@given(rows_of, st.lists(st.integers(0, 40), max_size=3), settings)
def test_repeated_rows_are_named_as_the_constructor_does(
    rows: list[Row], cuts: list[int], options: dict[str, Any]
) -> None:
    ranked = [(q, e, i, 1.0 if v is None else v) for q, e, i, v in rows]
    outcomes: list[Any] = []
    for build in (lambda: expected(ranked), lambda: code(ranked, cuts, options).preferences("score")):
        try:
            outcomes.append(build())
        except DuplicateError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@given(st.lists(st.tuples(ids, ids), max_size=60), settings)
def test_slots_are_numbered_by_instance_as_first_seen(pairs: list[tuple[str, str]], options: dict[str, Any]) -> None:
    frame = pl.DataFrame(pairs, schema={"instance": pl.String, "item": pl.String}, orient="row")
    slots, slot = encode_slots(frame, hash_bits=options["hash_bits"], batch_rows=options["batch_rows"])
    items: dict[str, dict[str, None]] = {}
    for q, i in pairs:
        items.setdefault(q, {})[i] = None
    assert slots.instances.tolist() == list(items)
    assert slots.items.tolist() == [i for of in items.values() for i in of]
    assert np.diff(slots.offsets).tolist() == [len(of) for of in items.values()]
    assert [slots.where(s) for s in slot.tolist()] == pairs


@given(st.lists(ids, max_size=60), st.sampled_from([0, 1, 64]))
def test_ids_are_numbered_as_first_seen(texts: list[str], hash_bits: int) -> None:
    codes, vocabulary = factorize(pl.Series(texts, dtype=pl.String), hash_bits=hash_bits)
    assert vocabulary.to_list() == list(dict.fromkeys(texts))
    assert [vocabulary[c] for c in codes.tolist()] == texts


@pytest.mark.parametrize("hash_bits", [64, 12, 2])
@pytest.mark.parametrize(("n_instances", "n_items"), [(3, 40_000), (300, 300), (20_000, 4)])
def test_as_many_slots_as_a_plain_group_by(hash_bits: int, n_instances: int, n_items: int) -> None:
    rng = np.random.default_rng(7)
    n = 100_000
    frame = pl.DataFrame(
        {"instance": np.sort(rng.integers(0, n_instances, n)), "item": rng.integers(0, n_items, n)}
    ).select(pl.format("q{}", "instance").alias("instance"), pl.format("clueweb12-{}", "item").alias("item"))
    # Several runs per instance, in two files.
    frame = pl.concat([frame[1::2], frame[0::2]])
    encoder = DictionaryEncoder(hash_bits=hash_bits, batch_rows=70_000)
    encoder.add(frame[: n // 2])
    encoder.add(frame[n // 2 :])
    rows = encoder.finish()
    groups = frame.unique(maintain_order=True)
    assert rows.slots.n_slots == len(groups)
    sizes = groups.group_by("instance", maintain_order=True).len()
    assert rows.slots.instances.tolist() == sizes["instance"].to_list()
    assert np.diff(rows.slots.offsets).tolist() == sizes["len"].to_list()
    slot = rows.in_source_order()
    back = pl.DataFrame(
        {
            "instance": pl.Series(rows.slots.instances.tolist()).gather(rows.slots.instance[slot]),
            "item": rows.slots.items.native.gather(slot),
        }
    )
    assert back.equals(frame)


def test_threads_do_not_change_the_answer() -> None:
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"instance": rng.integers(0, 50, 20_000), "item": rng.integers(0, 90, 20_000)}).cast(pl.String)
    found = []
    for n in (1, 4):
        with force_threads(n):
            encoder = DictionaryEncoder(block_rows=500)
            encoder.add(frame)
            rows = encoder.finish()
        found.append((rows.slots.items.tolist(), rows.slot.tolist(), rows.first.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("long_part", [1, 40, 10**9])
def test_columns_held_in_parts_are_encoded_as_one(long_part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dictionary_encoding, "_LONG_PART", long_part)
    monkeypatch.setattr(_dictionary_encoding, "_LONG", 4)
    rng = np.random.default_rng(7)
    # Instances of 30 rows are copied piece by piece; pieces end at no seam of the parts.
    rows = [(f"q{n // 30}", "x", f"d{k}", float(n)) for n, k in enumerate(rng.permutation(600).tolist())]
    rows += [(q, "y", i, 7.0) for q, _, i, _ in rows[::-2]]
    whole = DictionaryEncoder()
    whole.add(table(rows))
    parts = DictionaryEncoder(block_rows=100)
    for a, b in pairwise([0, 7, 100, 104, 333, 650, len(rows)]):
        parts.add(pl.concat([table(rows[a : a + 3]), table(rows[a + 3 : b])], rechunk=False))
    assert whole.finish().preferences("score") == parts.finish().preferences("score") == expected(rows)


def test_the_two_hashes_have_nothing_to_do_with_each_other() -> None:
    frame = pl.select(item=pl.format("FT911-{}", pl.int_range(200_000)))
    h1, h2 = (c.to_numpy() for c in frame.select(*hash_expressions()))
    assert len(np.unique(h1)) == len(np.unique(h2)) == 200_000
    # Ids that meet in 16 bits of one hash meet in 16 bits of the other no more often than chance has it.
    met = np.unique(np.stack([h1 >> np.uint64(48), h2 >> np.uint64(48)]), axis=1).shape[1]
    chance = 200_000**2 / 2 / 2**32
    assert abs((200_000 - met) - chance) < 6 * chance**0.5


def test_hashes_in_a_scan_and_in_a_frame_agree() -> None:
    frame = pl.select(item=pl.format("D{}", pl.int_range(50_000)))
    lazy = frame.lazy().select(*hash_expressions())
    assert lazy.collect(engine="streaming").equals(frame.select(*hash_expressions()))
    assert (
        pl.concat([frame[:7], frame[7:]], rechunk=False)
        .select(*hash_expressions())
        .equals(frame.select(*hash_expressions()))
    )


def test_text_of_rows_is_let_go() -> None:
    encoder = DictionaryEncoder()
    n = 100_000
    long = pl.select(item=pl.format("an identifier that is not short {}", pl.int_range(n) % 10))
    encoder.add(long.with_columns(instance=pl.lit("q")))
    items = encoder.finish().slots.items.native
    assert items.to_list() == [f"an identifier that is not short {k}" for k in range(10)]
    # What Arrow hands out is what is held: the views and the buffers behind them.
    held = sum(b.size for b in items.to_arrow(compat_level=pl.CompatLevel.newest()).buffers() if b is not None)
    assert held < 5000


@pytest.mark.parametrize("options", [{}, {"batch_rows": 1}, {"batch_rows": 3}], ids=str)
def test_weights_belong_to_lists(options: dict[str, Any]) -> None:
    rows: list[Row] = [("q", "x", "a", 1.0), ("q", "y", "a", 1.0), ("q", "x", "b", 2.0), ("p", "x", "a", None)]

    def weights(*weight: float) -> Any:
        encoder = DictionaryEncoder(**options)
        encoder.add(table(rows).with_columns(weight=pl.Series(weight)))
        return encoder.finish().preferences("score").list_weight

    assert weights(3.0, 1.0, 3.0, 9.0).tolist() == [3.0, 1.0]
    with pytest.raises(DataError, match=r"row 2: expert 'x' has two weights in instance 'q'"):
        weights(3.0, 1.0, 2.0, 9.0)
    with pytest.raises(DataError, match=r"row 1: the weight must be a finite number >= 0; found -1"):
        weights(3.0, -1.0, 3.0, 9.0)


def test_items_that_nobody_ranks_are_preferences_too() -> None:
    encoder = DictionaryEncoder()
    encoder.add(pl.DataFrame({"instance": ["q", "q"], "item": ["b", "a"]}))
    assert encoder.finish().preferences("rank") == Preferences([], [], [], [], items=[("q", "b"), ("q", "a")])


def test_frames_without_experts_or_values_make_items_known() -> None:
    encoder = DictionaryEncoder()
    encoder.add(pl.DataFrame({"instance": ["q", "q"], "item": ["b", "a"]}))
    encoder.add(pl.DataFrame({"instance": ["q"], "item": ["a"], "value": [2.0]}), expert="x")
    encoder.add_expert("silent")
    encoder.add(pl.DataFrame({"instance": ["p"], "item": ["z"]}))
    found = encoder.finish().preferences("rank")
    assert found == Preferences(
        ["q"], ["x"], ["a"], [2.0], items=[("q", "b"), ("q", "a"), ("p", "z")], experts=["x", "silent"]
    )


def test_nothing_added_is_nothing() -> None:
    encoder = DictionaryEncoder()
    encoder.add(table([]))
    rows = encoder.finish()
    assert (len(rows.slots), rows.slots.n_slots, len(rows.slot)) == (0, 0, 0)
    assert rows.preferences("score") == Preferences([], [], [], [], kind="score")


def test_a_run_with_more_cells_than_the_table_holds_is_checked_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dictionary_encoding, "_CELLS_PER_ROW", 0)
    rows: list[Row] = [("q", "x", "a", 1.0), ("q", "x", "b", 1.0), ("q", "y", "a", 1.0)]
    assert code(rows, [], {}).preferences("score") == expected(rows)
    with pytest.raises(DuplicateError, match=r"expert 'y' ranks item 'a' twice in instance 'q' \(rows 2 and 3\)"):
        code([*rows, ("q", "y", "a", 3.0)], [], {}).preferences("score")


def test_an_unknown_rule_for_repetitions_is_refused() -> None:
    with pytest.raises(ParameterError, match="'duplicates'"):
        code([("q", "x", "a", 1.0)], [], {}).preferences("score", duplicates="last")


@given(st.lists(st.tuples(ids, ids, st.sampled_from([0.0, 1.0, 2.0])), max_size=30), st.sampled_from([0, 64]))
def test_labels_are_kept_once(rows: list[tuple[str, str, float]], hash_bits: int) -> None:
    types = {"instance": pl.String, "item": pl.String, "label": pl.Float64}
    frame = pl.DataFrame(rows, schema=types, orient="row")
    labels: dict[tuple[str, str], float] = {}
    clash = any(labels.setdefault((q, i), v) != v for q, i, v in rows)
    half = len(rows) // 2
    parts = [(frame[:half], RowSource()), (frame[half:], RowSource(first=half))]
    if clash:
        with pytest.raises(DuplicateError, match=r"has two labels, \d and \d \(rows \d+ and \d+\)"):
            encode_labels(parts, hash_bits=hash_bits)
        return
    found = encode_labels(parts, hash_bits=hash_bits)
    named = [found.slots.where(s) for s in range(found.n_slots)]
    assert dict(zip(named, found.label.tolist(), strict=True)) == labels
    assert list(dict.fromkeys(q for q, _ in labels)) == found.instances.tolist()


def test_two_labels_name_both_places() -> None:
    frame = pl.DataFrame({"instance": ["q", "p", "q"], "item": ["a", "a", "a"], "label": [1.0, 0.0, 2.0]})
    with pytest.raises(DuplicateError, match=r"item 'a' of instance 'q' has two labels, 1 and 2 \(f:3 and f:9\)"):
        encode_labels([(frame, RowSource("f", 1, np.array([3, 4, 9])))])
