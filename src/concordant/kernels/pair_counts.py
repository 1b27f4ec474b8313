"""Pair counts: wins, losses and ties of every pair of items, added up over comparisons or lists.

They are the sufficient statistics of models of pairs, in flat columns of one row per pair that met (`Pairs`). Rows are
added to a table of all pairs where items are few, and sorted by counting where items are many; the pairs of lists are
not written out. Every sum is the same to the last bit in any order of its terms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Bools, Codes, Floats, Ints, read_only
from concordant.kernels.jit import jit
from concordant.kernels.lists import list_sums, offsets_of
from concordant.kernels.pairwise_wins import pair_room, pairs_held

__all__ = [
    "Pairs",
    "add_rows",
    "count_list_pairs",
    "from_rows",
    "read_only",
    "moved_keys",
]

# Up to this many items rows are added to a table of all pairs, if there are enough rows for it to pay.
_TABLE = 4096
# Types of running counts, narrowest first.
_COUNT_TYPES: tuple[type[Any], ...] = (np.uint8, np.uint32, np.float64)
# The two slots of every pair, and its three counts.
PairColumns: TypeAlias = "tuple[Codes, Codes, Floats]"


class Pairs(NamedTuple):
    """Outcomes of pairs of items, one row per pair that met, instance by instance.

    Attributes
    ----------
    left, right : int32[P]
        The slots; the smaller one on the left, unless sides were kept apart.
    n_left, n_right, n_ties : float64[P]
        How often left won, right won, and neither.
    starts : int64[N + 1]
        Where the pairs of each instance begin.
    offsets : int64[N + 1]
        Where the slots of each instance begin.
    """

    left: Codes
    right: Codes
    n_left: Floats
    n_right: Floats
    n_ties: Floats
    starts: Ints
    offsets: Ints

    @property
    def n_slots(self) -> int:
        """How many slots there are."""
        return int(self.offsets[-1])

    @property
    def outcomes(self) -> Floats:
        """How many outcomes each pair has."""
        return self.n_left + self.n_right + self.n_ties

    def window(self, instance: int) -> Pairs:
        """Return the pairs of one instance, slots counted from 0."""
        rows = slice(int(self.starts[instance]), int(self.starts[instance + 1]))
        base = np.int32(self.offsets[instance])
        counts = (self.n_left[rows], self.n_right[rows], self.n_ties[rows])
        ends = (self.starts[instance : instance + 2], self.offsets[instance : instance + 2])
        return Pairs(self.left[rows] - base, self.right[rows] - base, *counts, *(e - e[0] for e in ends))


@jit
def _write_table(
    wins: Any, ties: Any, m: int, base: int, with_ties: bool, place: int, left: Any, right: Any, counts: Any
) -> int:
    """Write the pairs of a table of wins (row beats column) to the columns, clear the table, and return the new end."""
    for i in range(m):
        for j in range(i + 1, m):
            a, b = wins[i * m + j], wins[j * m + i]
            t = ties[i * m + j] if with_ties else 0.0
            if a + b + t > 0.0:
                left[place] = base + i
                right[place] = base + j
                counts[0, place] = a
                counts[1, place] = b
                counts[2, place] = t
                place += 1
    wins[: m * m] = 0.0
    if with_ties:
        ties[: m * m] = 0.0
    return place


@jit
def _count_rows(rows: Any, edges: Any, grids: Any, with_ties: bool, ends: Any, out: Any, starts: Any) -> None:
    """Add up the rows of instances ends[0] to ends[1] in a table of all pairs, merging sides."""
    left, right, n_left, n_right, n_ties = rows
    row_starts, offsets = edges
    out_left, out_right, counts = out
    first, last = ends
    most = 0
    for n in range(first, last):
        most = max(most, offsets[n + 1] - offsets[n])
    wins = np.zeros(most * most)
    ties = np.zeros(most * most if with_ties else 1)
    place = 0
    for n in range(first, last):
        base, m = offsets[n], offsets[n + 1] - offsets[n]
        grid = grids[n]
        for row in range(row_starts[n], row_starts[n + 1]):
            i, j = left[row] - base, right[row] - base
            # Adding 0 is faster than a branch that depends on who won.
            wins[i * m + j] += (n_left[row] + grid) - grid
            wins[j * m + i] += (n_right[row] + grid) - grid
            if n_ties[row] > 0.0:
                ties[min(i, j) * m + max(i, j)] += (n_ties[row] + grid) - grid
        place = _write_table(wins, ties, m, base, with_ties, place, out_left, out_right, counts)
        starts[n - first + 1] = place


@jit
def _sort_rows(left: Any, right: Any, base: int, m: int, ordered: bool) -> tuple[Any, Any]:
    """Return the rows ordered by pair, and where each pair begins: a counting sort in two passes."""
    n = len(left)
    order = np.empty(n, dtype=np.int32)
    before = np.empty(n, dtype=np.int32)
    for turn in range(2):
        place = np.zeros(m + 1, dtype=np.int64)
        for row in range(n):
            a, b = left[row] - base, right[row] - base
            key = (b if turn == 0 else a) if ordered else (max(a, b) if turn == 0 else min(a, b))
            place[key + 1] += 1
        for k in range(m):
            place[k + 1] += place[k]
        for k in range(n):
            row = k if turn == 0 else before[k]
            a, b = left[row] - base, right[row] - base
            key = (b if turn == 0 else a) if ordered else (max(a, b) if turn == 0 else min(a, b))
            order[place[key]] = row
            place[key] += 1
        if turn == 0:
            before[:] = order
    starts = np.empty(n + 1, dtype=np.int64)
    found = 0
    low_before, high_before = -1, -1
    for k in range(n):
        a, b = left[order[k]], right[order[k]]
        low, high = (a, b) if ordered or a < b else (b, a)
        if low != low_before or high != high_before:
            starts[found] = k
            found += 1
            low_before, high_before = low, high
    starts[found] = n
    return order, starts[: found + 1].copy()


@jit
def _merge_rows(rows: Any, order: Any, starts: Any, grid: float, ordered: bool, out: Any) -> int:
    """Add up sorted rows pair by pair, without pairs that have no outcome, and return the number of pairs."""
    left, right, n_left, n_right, n_ties = rows
    out_left, out_right, counts = out
    place = 0
    for p in range(len(starts) - 1):
        a = b = t = 0.0
        row = order[starts[p]]
        i, j = left[row], right[row]
        turned = not ordered and i > j
        if turned:
            i, j = j, i
        for k in range(starts[p], starts[p + 1]):
            row = order[k]
            won, lost = (n_left[row] + grid) - grid, (n_right[row] + grid) - grid
            if left[row] == i:
                a += won
                b += lost
            else:
                a += lost
                b += won
            t += (n_ties[row] + grid) - grid
        if a + b + t > 0.0:
            out_left[place] = i
            out_right[place] = j
            counts[0, place] = a
            counts[1, place] = b
            counts[2, place] = t
            place += 1
    return place


@jit
def _is_collapsed(rows: Any, ordered: bool) -> bool:
    """Return whether rows are pair counts already: in order, no pair twice or empty, all counts whole."""
    left, right, n_left, n_right, n_ties = rows
    for row in range(len(left)):
        i, j = left[row], right[row]
        if i > j and not ordered:
            return False
        if row > 0 and (i < left[row - 1] or (i == left[row - 1] and j <= right[row - 1])):
            return False
        a, b, t = n_left[row], n_right[row], n_ties[row]
        if not (a + b + t > 0.0 and a == np.floor(a) and b == np.floor(b) and t == np.floor(t)):
            return False
    return True


def _grid(bound: Floats) -> Floats:
    """Return the number to add and subtract so that terms are rounded to a grid on which all their sums are exact."""
    # Adding 1.5 * 2**e rounds to multiples of 2**(e - 52), where the bound of any sum is below 2**e.
    return np.asarray(np.ldexp(1.5, np.frexp(2.0 * bound)[1]), dtype=np.float64)


def from_rows(
    left: Codes,
    right: Codes,
    n_left: Floats,
    n_right: Floats,
    n_ties: Floats,
    row_starts: Ints,
    offsets: Ints,
    *,
    ordered: bool = False,
) -> Pairs:
    """Return the pair counts of comparisons, experts and (unless `ordered`) sides merged.

    The sums are the same to the last bit in any order of the rows. O(rows + items), plus the cells of a table of all
    pairs where rows are many and items few. Pairs without an outcome are left out. Rows that are pair counts already
    are returned without a copy.

    >>> codes = np.array([0, 1], np.int32), np.array([1, 0], np.int32)
    >>> p = from_rows(*codes, np.ones(2), np.zeros(2), np.zeros(2), np.array([0, 2]), np.array([0, 2]))
    >>> p.left.tolist(), p.right.tolist(), p.n_left.tolist(), p.n_right.tolist()
    ([0], [1], [1.0], [1.0])
    """
    n = len(offsets) - 1
    rows, sizes = np.diff(row_starts), np.diff(offsets)
    columns = read_only(left, right, n_left, n_right, n_ties)
    edges = read_only(row_starts, offsets)
    if _is_collapsed(columns, ordered):
        return Pairs(columns[0], columns[1], columns[2], columns[3], columns[4], row_starts, offsets)
    totals = [list_sums(c, row_starts) for c in columns[2:]]
    grids, with_ties = _grid(sum(totals, np.zeros(n))), bool(totals[2].any())
    dense = (sizes <= _TABLE) & (sizes * sizes <= np.maximum(8 * rows, 1 << 14)) & (not ordered)

    def count(ends: tuple[int, int], out: PairColumns, starts: Ints) -> None:
        _count_rows(columns, edges, grids, with_ties, ends, out, starts)

    def rows_of(k: int) -> tuple[NDArray[Any], ...]:
        return tuple(c[int(row_starts[k]) : int(row_starts[k + 1])] for c in columns)

    most = np.minimum(rows, sizes * (sizes - 1) // 2)
    return _collect_pairs(dense, most, count, rows_of, grids, offsets, ordered)


def _collect_pairs(
    dense: Bools,
    most: Ints,
    count: Callable[[tuple[int, int], PairColumns, Ints], None],
    rows_of: Callable[[int], tuple[NDArray[Any], ...]],
    grids: Floats,
    offsets: Ints,
    ordered: bool = False,
) -> Pairs:
    """Return the pairs of all instances: of dense ones from tables of all pairs, of the others from sorted rows.

    Parameters
    ----------
    dense : bool[N]
        Which instances are counted in tables; consecutive ones are counted in one call.
    most : int64[N]
        The most pairs that an instance can have.
    count : callable
        Counts the instances ends[0] to ends[1] in tables and writes their pairs.
    rows_of : callable
        Returns the rows of an instance: two slots and three counts.
    grids, offsets
        The grid of every instance, and where its slots begin.
    ordered : bool
        Whether (i, j) and (j, i) are two pairs.
    """
    n, sizes = len(dense), np.diff(offsets)
    parts: list[PairColumns] = []
    found = np.zeros(n, dtype=np.int64)
    k = 0
    while k < n:
        end = k + 1
        if dense[k]:
            while end < n and dense[end]:
                end += 1
            out = _pair_columns(int(most[k:end].sum()))
            starts = np.zeros(end - k + 1, dtype=np.int64)
            count((k, end), out, starts)
            found[k:end] = np.diff(starts)
            used = int(starts[-1])
        else:
            own = rows_of(k)
            order, begins = _sort_rows(own[0], own[1], int(offsets[k]), int(sizes[k]), ordered)
            out = _pair_columns(len(begins) - 1)
            used = found[k] = _merge_rows(own, order, begins, float(grids[k]), ordered, out)
        parts.append((out[0][:used], out[1][:used], out[2][:, :used]))
        k = end
    return _joined(parts, offsets_of(found), offsets)


def _pair_columns(size: int) -> PairColumns:
    """Return room for pairs: two slots and three counts of each."""
    return np.empty(size, np.int32), np.empty(size, np.int32), np.empty((3, size))


@jit
def _union_size(keys: Any, left: Any, right: Any, order: Any, starts: Any) -> int:
    """Return the number of distinct pairs among the keys and the sorted rows."""
    known = found = 0
    for p in range(len(starts) - 1):
        row = order[starts[p]]
        key = (np.int64(min(left[row], right[row])) << 32) | np.int64(max(left[row], right[row]))
        while known < len(keys) and keys[known] < key:
            known += 1
        if known < len(keys) and keys[known] == key:
            found += 1
    return len(keys) + len(starts) - 1 - found


@jit
def _add_sorted(keys: Any, counts: Any, rows: Any, order: Any, starts: Any, out_keys: Any, out: Any) -> float:
    """Merge counts by key with sorted rows, added one by one; return the largest count."""
    left, right, n_left, n_right, n_ties = rows
    known = place = 0
    top = 0.0
    for p in range(len(starts)):
        key = np.int64(np.iinfo(np.int64).max)
        if p < len(starts) - 1:
            row = order[starts[p]]
            key = (np.int64(min(left[row], right[row])) << 32) | np.int64(max(left[row], right[row]))
        while known < len(keys) and keys[known] < key:
            out_keys[place] = keys[known]
            for k in range(3):
                out[k, place] = counts[k, known]
            known += 1
            place += 1
        if p == len(starts) - 1:
            break
        a = b = t = 0.0
        if known < len(keys) and keys[known] == key:
            a, b, t = float(counts[0, known]), float(counts[1, known]), float(counts[2, known])
            known += 1
        for k in range(starts[p], starts[p + 1]):
            row = order[k]
            if left[row] < right[row]:
                a += n_left[row]
                b += n_right[row]
            else:
                a += n_right[row]
                b += n_left[row]
            t += n_ties[row]
        top = max(top, a, b, t)
        out_keys[place] = key
        out[0, place] = a
        out[1, place] = b
        out[2, place] = t
        place += 1
    return top


def add_rows(
    keys: Ints,
    counts: NDArray[Any],
    rows: tuple[Codes, Codes, Floats, Floats, Floats],
    n_slots: int,
) -> tuple[Ints, NDArray[Any]]:
    """Return pair counts with the rows of comparisons added to them, sides merged.

    The key of a pair is its smaller slot times 2**32 plus its larger one. Keys are sorted, and the counts of a pair are
    a column of `counts`, of the narrowest type that holds them. Rows are added one by one in their order, so adding
    them in parts gives the same bits. O(pairs + rows + slots).

    >>> none = np.zeros(0, np.int64), np.zeros((3, 0), np.uint8)
    >>> codes = np.array([0, 1], np.int32), np.array([1, 0], np.int32)
    >>> keys, counts = add_rows(*none, (*codes, np.ones(2), np.zeros(2), np.zeros(2)), 2)
    >>> keys.tolist(), counts.tolist(), counts.dtype.name
    ([1], [[1], [1], [0]], 'uint8')
    """
    own = read_only(*rows)
    order, starts = _sort_rows(own[0], own[1], 0, n_slots, False)
    size = _union_size(keys, own[0], own[1], order, starts)
    narrow = all(bool((c == np.floor(c)).all()) for c in rows[2:])
    for kind in _COUNT_TYPES[_COUNT_TYPES.index(counts.dtype.type) :] if narrow else _COUNT_TYPES[-1:]:
        out_keys, out = np.empty(size, dtype=np.int64), np.empty((3, size), dtype=kind)
        top = _add_sorted(keys, counts, own, order, starts, out_keys, out)
        if kind is np.float64 or top <= np.iinfo(kind).max:
            break
    return out_keys, out


@jit
def _move_keys(keys: Any, moved: Any) -> None:
    for p in range(len(keys)):
        keys[p] = (np.int64(moved[keys[p] >> 32]) << 32) | np.int64(moved[keys[p] & 0xFFFFFFFF])


def moved_keys(keys: Ints, moved: Codes) -> Ints:
    """Renumber the slots in the keys of pairs in place and return the keys; the order of the slots must not change."""
    _move_keys(keys, moved)
    return keys


def _joined(parts: list[PairColumns], starts: Ints, offsets: Ints) -> Pairs:
    """Concatenate the pairs of consecutive instances."""
    if len(parts) == 1:
        first, second, counts = parts[0]
    else:
        none = (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros((3, 0)))
        firsts, seconds, tables = zip(none, *parts, strict=True)
        first, second, counts = np.concatenate(firsts), np.concatenate(seconds), np.concatenate(tables, axis=1)
    return Pairs(first, second, counts[0], counts[1], counts[2], starts, offsets)


@jit
def _count_lists(
    lists: Any, edges: Any, grids: Any, binary: bool, with_ties: bool, ends: Any, out: Any, starts: Any
) -> None:
    """Add up the pairs in the lists of instances ends[0] to ends[1] in a table of all pairs."""
    value, slot, list_offsets, weight = lists
    list_starts, offsets = edges
    out_left, out_right, counts = out
    first, last = ends
    most = 0
    for n in range(first, last):
        most = max(most, offsets[n + 1] - offsets[n])
    wins = np.zeros(most * most)
    ties = np.zeros(most * most if with_ties else 1)
    place = 0
    for n in range(first, last):
        base, m = offsets[n], offsets[n + 1] - offsets[n]
        grid = grids[n]
        for which in range(list_starts[n], list_starts[n + 1]):
            w = weight[which]
            if w == 0.0:
                continue
            for a in range(list_offsets[which], list_offsets[which + 1]):
                i, x = slot[a] - base, value[a]
                for b in range(a + 1, list_offsets[which + 1]):
                    j = slot[b] - base
                    gap = value[b] - x
                    if gap > 0.0:
                        wins[i * m + j] += (w * (1.0 if binary else gap) + grid) - grid
                    elif gap < 0.0:
                        wins[j * m + i] += (w * (1.0 if binary else -gap) + grid) - grid
                    elif with_ties:
                        ties[min(i, j) * m + max(i, j)] += (w + grid) - grid
        place = _write_table(wins, ties, m, base, with_ties, place, out_left, out_right, counts)
        starts[n - first + 1] = place


@jit
def _list_rows(lists: Any, binary: bool, with_ties: bool, ends: Any, out: Any) -> int:
    """Write one row for each pair in the lists ends[0] to ends[1], and return the number of rows."""
    value, slot, list_offsets, weight = lists
    left, right, counts = out
    place = 0
    for which in range(ends[0], ends[1]):
        w = weight[which]
        if w == 0.0:
            continue
        for a in range(list_offsets[which], list_offsets[which + 1]):
            for b in range(a + 1, list_offsets[which + 1]):
                gap = value[b] - value[a]
                if gap == 0.0 and not with_ties:
                    continue
                left[place] = slot[a]
                right[place] = slot[b]
                counts[0, place] = w * (1.0 if binary else gap) if gap > 0.0 else 0.0
                counts[1, place] = w * (1.0 if binary else -gap) if gap < 0.0 else 0.0
                counts[2, place] = w if gap == 0.0 else 0.0
                place += 1
    return place


def count_list_pairs(
    value: Floats,
    slot: Codes,
    list_offsets: Ints,
    list_starts: Ints,
    weight: Floats | None,
    offsets: Ints,
    *,
    binary: bool = False,
    ties: bool = False,
) -> Pairs:
    """Return the pair counts of lists: for every pair the sum over lists of weight · difference of values.

    The smaller value wins. `binary` counts every preference as 1 instead; `ties` counts pairs of equal values. A list
    of m items costs m²/2 additions to a table of all pairs; with thousands of items and short lists, pairs are written
    out and sorted instead. The sums are the same in any order of lists and rows.

    >>> p = count_list_pairs(
    ...     np.array([1.0, 2.0, 4.0]),
    ...     np.arange(3, dtype=np.int32),
    ...     np.array([0, 3]),
    ...     np.array([0, 1]),
    ...     None,
    ...     np.array([0, 3]),
    ... )
    >>> p.n_left.tolist()
    [1.0, 3.0, 2.0]
    """
    lengths = np.diff(list_offsets)
    w = np.ones(len(lengths)) if weight is None else weight
    held, sizes = pairs_held(list_offsets, list_starts), np.diff(offsets)
    room = pair_room(list_offsets, list_starts, offsets)
    reach = np.ones(len(lengths))
    if not binary and len(value):
        full = lengths > 0
        starts = list_offsets[:-1][full]
        reach[full] = np.maximum.reduceat(value, starts) - np.minimum.reduceat(value, starts)
        reach = np.maximum(reach, 1.0) if ties else reach
    grids = _grid(list_sums(w * reach * lengths * np.maximum(lengths - 1, 0) / 2, list_starts))
    columns, edges = read_only(value, slot, list_offsets, w), read_only(list_starts, offsets)
    dense = (sizes <= _TABLE) | (held > sizes * sizes // 8)

    def count(ends: tuple[int, int], out: PairColumns, starts: Ints) -> None:
        _count_lists(columns, edges, grids, binary, ties, ends, out, starts)

    def rows_of(k: int) -> tuple[NDArray[Any], ...]:
        left, right, counts = _pair_columns(int(held[k]))
        ends = (int(list_starts[k]), int(list_starts[k + 1]))
        used = _list_rows(columns, binary, ties, ends, (left, right, counts))
        return read_only(left[:used], right[:used], counts[0, :used], counts[1, :used], counts[2, :used])

    return _collect_pairs(dense, room, count, rows_of, grids, offsets)
