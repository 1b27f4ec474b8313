"""The array code on lists against its plain twin, on each of its paths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import lists as oracle

from concordant.kernels import lists

few = st.integers(-3, 3).map(float)
many = st.floats(-1e6, 1e6, allow_nan=False)
several_lists = st.lists(st.lists(few | many, max_size=7), max_size=6)


def flat(parts: list[list[float]]) -> tuple[Any, Any]:
    return np.array([v for p in parts for v in p], dtype=np.float64), lists.offsets_of(
        np.array([len(p) for p in parts])
    )


def assert_ordered(key: Any, offsets: Any) -> None:
    got = lists.order_lists(key, offsets)
    assert got.dtype == np.int64
    want = [
        int(a) + i
        for a, part in zip(offsets, oracle.split(key.tolist(), offsets.tolist()), strict=False)
        for i in oracle.order(part)
    ]
    assert got.tolist() == want


@given(several_lists)
def test_order_lists(parts: list[list[float]]) -> None:
    assert_ordered(*flat(parts))


def test_order_lists_that_are_sorted_already() -> None:
    key, offsets = flat([[1.0, 1.0, 2.0], [], [0.0], [-1.0, 5.0, 5.0], []])
    assert_ordered(key, offsets)
    assert lists.order_lists(key, offsets).tolist() == list(range(7))


def test_order_long_lists_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    # Mean length above the limit: some lists sorted, some not, some empty, ties throughout.
    parts = [rng.integers(0, 40, 300).astype(float).tolist() for _ in range(4)]
    parts = [sorted(parts[0]), parts[1], [], sorted(parts[2]), [], parts[3], []]
    key, offsets = flat(parts)
    assert len(key) >= lists._LOOP_LENGTH * (len(offsets) - 1)
    assert_ordered(key, offsets)
    monkeypatch.setattr(lists, "_LOOP_LENGTH", 10**9)
    assert_ordered(key, offsets)


def test_order_many_short_lists_at_once() -> None:
    rng = np.random.default_rng(1)
    key, offsets = flat([rng.integers(0, 5, n).astype(float).tolist() for n in rng.integers(0, 9, 200)])
    assert len(key) < lists._LOOP_LENGTH * (len(offsets) - 1)
    assert_ordered(key, offsets)


@given(several_lists)
def test_the_path_does_not_matter(parts: list[list[float]]) -> None:
    key, offsets = flat(parts)
    before = lists._LOOP_LENGTH
    found = []
    try:
        for limit in (0, 10**9):
            lists._LOOP_LENGTH = limit
            found.append(lists.order_lists(key, offsets).tolist())
    finally:
        lists._LOOP_LENGTH = before
    assert found[0] == found[1]


@pytest.mark.parametrize("ties", lists.TIES)
@given(parts=several_lists)
def test_positions(ties: str, parts: list[list[float]]) -> None:
    key, offsets = flat(parts)
    got = lists.positions(key, offsets, ties)
    assert got.dtype == np.float64
    assert got.tolist() == [v for part in parts for v in oracle.positions(part, ties)]


@pytest.mark.parametrize("ties", lists.TIES)
def test_positions_where_everything_ties(ties: str) -> None:
    parts = [[2.0] * 5, [7.0], [], [1.0] * 3]
    key, offsets = flat(parts)
    assert lists.positions(key, offsets, ties).tolist() == [v for p in parts for v in oracle.positions(p, ties)]


ranks = st.lists(st.integers(1, 9).map(float) | st.floats(1, 50), max_size=8)


@pytest.mark.parametrize("transform", ["binary", "count", "rankdiff", "log"])
@given(parts=st.lists(ranks, max_size=5))
def test_pair_sums(transform: str, parts: list[list[float]]) -> None:
    key, offsets = flat(parts)
    value, scale = lists.transform_ranks(key, offsets, transform)
    row, col = lists.pair_sums(value, scale, offsets, binary=transform == "binary")
    want_row, want_col = [], []
    for part in parts:
        y = oracle.strength(part, transform)
        want_row += [sum(line) for line in y]
        want_col += [sum(line[j] for line in y) for j in range(len(part))]
    assert row.tolist() == pytest.approx(want_row, rel=1e-9, abs=1e-9)
    assert col.tolist() == pytest.approx(want_col, rel=1e-9, abs=1e-9)


def test_pair_sums_are_the_published_ones(golden: Any) -> None:
    for case in golden("01_pairwise_matrices")["cases"][:2]:
        for k, column in enumerate(zip(*case["input"]["R"], strict=True)):
            seen = [i for i, r in enumerate(column) if r > 0]
            key, offsets = flat([[float(column[i]) for i in seen]])
            for transform, expected in case["expected"].items():
                value, scale = lists.transform_ranks(key, offsets, transform)
                row, col = lists.pair_sums(value, scale, offsets, binary=transform == "binary")
                assert row == pytest.approx([expected["row_sums"][i][k] for i in seen], abs=1e-9)
                assert col == pytest.approx([expected["col_sums"][i][k] for i in seen], abs=1e-9)


@given(several_lists)
def test_a_list_gives_the_same_bits_alone_and_in_company(parts: list[list[float]]) -> None:
    positive = [[abs(v) + 1 for v in p] for p in parts]
    key, offsets = flat(positive)
    for transform in ("count", "rankdiff", "log"):
        row, col = lists.pair_sums(*lists.transform_ranks(key, offsets, transform), offsets)
        for n, part in enumerate(positive):
            own, ends = flat([part])
            alone = lists.pair_sums(*lists.transform_ranks(own, ends, transform), ends)
            assert row[offsets[n] : offsets[n + 1]].tolist() == alone[0].tolist()
            assert col[offsets[n] : offsets[n + 1]].tolist() == alone[1].tolist()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=8))
def test_ranges(spans: list[tuple[int, int]]) -> None:
    starts = np.array([a for a, _ in spans], dtype=np.int64)
    ends = starts + np.array([n for _, n in spans], dtype=np.int64)
    assert lists.ranges(starts, ends).tolist() == [i for a, n in spans for i in range(a, a + n)]


@given(st.lists(st.integers(0, 5), max_size=8))
def test_offsets_ids_and_boundaries(lengths: list[int]) -> None:
    offsets = lists.offsets_of(np.array(lengths, dtype=np.int64))
    assert offsets.tolist() == [sum(lengths[:k]) for k in range(len(lengths) + 1)]
    owner = [n for n, length in enumerate(lengths) for _ in range(length)]
    assert lists.list_ids(offsets).tolist() == owner
    first = [i == 0 or owner[i] != owner[i - 1] for i in range(len(owner))]
    assert lists.boundaries(offsets, len(owner)).tolist() == first


@given(st.lists(st.integers(0, 4), max_size=9))
def test_by_length_covers_every_list_once(lengths: list[int]) -> None:
    offsets = lists.offsets_of(np.array(lengths, dtype=np.int64))
    found = lists.by_length(offsets)
    seen = {n: r for which, rows in found for n, r in zip(which.tolist(), rows.tolist(), strict=True)}
    assert sum(len(which) for which, _ in found) == len(seen)
    want = {n: list(range(int(offsets[n]), int(offsets[n + 1]))) for n, m in enumerate(lengths) if m}
    assert seen == want


@given(
    st.lists(st.lists(st.floats(-1e9, 1e9), min_size=0, max_size=12), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_exact_sums_depend_neither_on_order_nor_on_company(groups: list[list[float]], random: Any) -> None:
    n_cells = 3
    draw = [[(v, random.randrange(n_cells)) for v in g] for g in groups]

    def sums(parts: list[list[tuple[float, int]]]) -> Any:
        terms = np.array([v for g in parts for v, _ in g])
        cells = np.array([n * n_cells + c for n, g in enumerate(parts) for _, c in g], dtype=np.int64)
        starts = lists.offsets_of(np.array([len(g) for g in parts]))
        most = np.array([max((sum(c == k for _, c in g) for k in range(n_cells)), default=0) for g in parts])
        return lists.exact_sums(terms, cells, n_cells * len(parts), starts, most)

    got = sums(draw)
    for n, g in enumerate(draw):
        alone = sums([g])
        assert got[n * n_cells : (n + 1) * n_cells].tolist() == alone.tolist()
        shuffled = list(g)
        random.shuffle(shuffled)
        assert sums([shuffled]).tolist() == alone.tolist()
        for cell in range(n_cells):
            want = sum(v for v, c in g if c == cell)
            size = max((abs(v) for v, _ in g), default=0.0) * len(g)
            assert alone[cell] == pytest.approx(want, abs=1e-15 * size)
