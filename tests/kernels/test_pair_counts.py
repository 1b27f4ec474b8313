"""Counts of pairs against a dictionary, whichever way they are counted, and to the bit in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import paired as oracle

from concordant.kernels import pair_counts
from concordant.kernels.lists import offsets_of

SIZES = (4, 1, 3)
OFFSETS = offsets_of(np.array(SIZES))
counts = st.sampled_from([0.0, 1.0, 2.0, 0.1, 0.7])
row = st.tuples(st.sampled_from([(0, 4), (5, 8)]), st.integers(0, 3), st.integers(0, 3), counts, counts, counts)


def columns(rows: list[tuple[int, int, float, float, float]]) -> tuple[Any, ...]:
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)
    return (*(table[:, k].astype(np.int32) for k in (0, 1)), *(np.ascontiguousarray(table[:, k]) for k in (2, 3, 4)))


def drawn(rows: list[Any]) -> list[tuple[int, int, float, float, float]]:
    out = []
    for (first, last), i, j, *c in sorted(rows, key=lambda r: r[0]):
        left, right = first + i % (last - first), first + j % (last - first)
        if left != right:
            out.append((left, right, *c))
    return out


def starts_of(rows: list[Any]) -> Any:
    return np.searchsorted([r[0] for r in rows], OFFSETS).astype(np.int64) if rows else np.zeros(4, np.int64)


def as_dict(pairs: pair_counts.Pairs) -> dict[tuple[int, int], list[float]]:
    keys = zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
    return dict(zip(keys, np.array([pairs.n_left, pairs.n_right, pairs.n_ties]).T.tolist(), strict=True))


def same(a: dict[Any, Any], b: dict[Any, Any]) -> None:
    assert list(a) == list(b)
    for pair, cell in a.items():
        assert cell == pytest.approx(b[pair], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("table", [4096, 0])
@given(rows=st.lists(row, max_size=14))
def test_rows_are_added_up(table: int, rows: list[Any]) -> None:
    chosen = drawn(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_counts, "_TABLE", table)
        pairs = pair_counts.from_rows(*columns(chosen), starts_of(chosen), OFFSETS)
    same(as_dict(pairs), oracle.collapse(chosen))
    assert pairs.starts.tolist() == np.searchsorted(pairs.left, OFFSETS).tolist()


@given(rows=st.lists(row, max_size=14))
def test_sides_can_be_kept_apart(rows: list[Any]) -> None:
    chosen = drawn(rows)
    pairs = pair_counts.from_rows(*columns(chosen), starts_of(chosen), OFFSETS, ordered=True)
    want: dict[tuple[int, int], list[float]] = {}
    for left, right, *c in chosen:
        cell = want.setdefault((left, right), [0.0, 0.0, 0.0])
        want[left, right] = [x + y for x, y in zip(cell, c, strict=True)]
    same(as_dict(pairs), {pair: cell for pair, cell in sorted(want.items()) if sum(cell) > 0})


@pytest.mark.parametrize("table", [4096, 0])
@pytest.mark.parametrize(("binary", "ties"), [(False, False), (True, False), (True, True)])
def test_lists_are_added_up(table: int, binary: bool, ties: bool) -> None:
    rng = np.random.default_rng(3)
    sizes = (6, 2, 9, 1)
    offsets = offsets_of(np.array(sizes))
    values, slots, lengths, weights, per_instance, lists = [], [], [], [], [], []
    for base, m in zip(offsets.tolist(), sizes, strict=False):
        per_instance.append(4)
        for _ in range(4):
            held = rng.choice(m, size=int(rng.integers(1, m + 1)), replace=False) + base
            value = rng.integers(1, 5, size=len(held)) * 0.3
            weight = float(rng.choice([0.0, 1.0, 2.0, 0.35]))
            lists.append((weight, dict(zip(held.tolist(), value.tolist(), strict=True))))
            values.append(value)
            slots.append(held)
            lengths.append(len(held))
            weights.append(weight)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_counts, "_TABLE", table)
        pairs = pair_counts.count_list_pairs(
            np.concatenate(values),
            np.concatenate(slots).astype(np.int32),
            offsets_of(np.array(lengths)),
            offsets_of(np.array(per_instance)),
            np.array(weights),
            offsets,
            binary=binary,
            ties=ties,
        )
    same(as_dict(pairs), oracle.list_pairs(lists, binary, ties))


def test_the_order_of_terms_does_not_change_a_bit() -> None:
    rng = np.random.default_rng(0)
    rows = [(int(i), int(i + 1 + j), *rng.random(3)) for i, j in rng.integers(0, 3, size=(400, 2))]
    for table in (4096, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pair_counts, "_TABLE", table)
            found = []
            for seed in range(4):
                order = np.random.default_rng(seed).permutation(len(rows))
                shuffled = [rows[k] for k in order]
                ends = np.array([0, len(rows)]), np.array([0, 6])
                found.append(as_dict(pair_counts.from_rows(*columns(shuffled), *ends)))
        assert all(one == found[0] for one in found)


def test_nothing_gives_nothing() -> None:
    none = np.zeros(1, dtype=np.int64)
    pairs = pair_counts.from_rows(*columns([]), none, none)
    assert len(pairs.left) == 0
    assert pairs.n_slots == 0
    lists = pair_counts.count_list_pairs(np.zeros(0), np.zeros(0, np.int32), none, none, None, none)
    assert len(lists.left) == 0


def test_windows_stand_alone() -> None:
    rows = [(0, 1, 2.0, 1.0, 0.0), (1, 2, 0.0, 3.0, 1.0), (5, 7, 4.0, 0.0, 0.5)]
    pairs = pair_counts.from_rows(*columns(rows), starts_of(rows), OFFSETS)
    assert as_dict(pairs.window(2)) == {(0, 2): [4.0, 0.0, 0.5]}
    assert len(pairs.window(1).left) == 0


@given(rows=st.lists(row, max_size=14), ordered=st.booleans())
def test_counts_of_pairs_are_taken_as_they_are(rows: list[Any], ordered: bool) -> None:
    chosen = [(*r[:2], *(float(round(10 * c)) for c in r[2:])) for r in drawn(rows)]
    pairs = pair_counts.from_rows(*columns(chosen), starts_of(chosen), OFFSETS, ordered=ordered)
    again = pair_counts.from_rows(*pairs, ordered=ordered)
    assert all(a is b or np.shares_memory(a, b) or not len(a) for a, b in zip(pairs, again, strict=True))
    for a, b in zip(pairs, again, strict=True):
        assert a.tolist() == b.tolist()


def test_what_is_not_counts_of_pairs_is_counted() -> None:
    ends = np.array([0, 2]), np.array([0, 3])
    for rows in (
        [(1, 2, 1.0, 0.0, 0.0), (0, 1, 1.0, 0.0, 0.0)],
        [(0, 1, 1.0, 0.0, 0.0), (0, 1, 0.0, 1.0, 0.0)],
        [(0, 1, 1.0, 0.0, 0.0), (2, 1, 0.0, 1.0, 0.0)],
        [(0, 1, 1.0, 0.0, 0.0), (1, 2, 0.0, 0.0, 0.0)],
        [(0, 1, 1.0, 0.0, 0.0), (1, 2, 0.1, 0.0, 0.0)],
    ):
        given_rows = columns(rows)
        pairs = pair_counts.from_rows(*given_rows, *ends)
        same(as_dict(pairs), oracle.collapse(rows))
        assert not any(np.shares_memory(a, b) for a in given_rows for b in pairs[:5])


@given(st.lists(st.lists(row, max_size=8), max_size=4))
def test_rows_added_in_parts_have_the_bits_of_one_sum(parts: list[list[Any]]) -> None:
    keys, sums = np.zeros(0, np.int64), np.zeros((3, 0), np.uint8)
    want: dict[tuple[int, int], list[float]] = {}
    for rows in parts:
        chosen = drawn(rows)
        keys, sums = pair_counts.add_rows(keys, sums, columns(chosen), 8)
        for left, right, a, b, t in chosen:
            cell = want.setdefault((min(left, right), max(left, right)), [0.0, 0.0, 0.0])
            won, lost = (a, b) if left < right else (b, a)
            cell[:] = [cell[0] + won, cell[1] + lost, cell[2] + t]
    assert [(key >> 32, key & 0xFFFFFFFF) for key in keys.tolist()] == sorted(want)
    assert sums.T.tolist() == [want[pair] for pair in sorted(want)]


def test_counts_take_the_narrowest_type_that_holds_them() -> None:
    keys, sums = np.zeros(0, np.int64), np.zeros((3, 0), np.uint8)
    for count, total, name in ((200, 200, "uint8"), (56, 256, "uint32"), (2.0**32, 2**32 + 256, "float64")):
        keys, sums = pair_counts.add_rows(keys, sums, columns([(1, 0, count, 0.0, 1.0)]), 2)
        assert (sums[1].tolist(), sums.dtype.name) == ([total], name)
    assert sums[:, 0].tolist() == [0.0, 2**32 + 256, 3.0]
    assert pair_counts.moved_keys(keys, np.array([3, 7], np.int32)).tolist() == [(3 << 32) + 7]
