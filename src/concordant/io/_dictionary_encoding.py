"""Dictionary encoding of id columns: text to slots and lists, without a Python object per row.

Comparing text makes reading slow. So every item id gets two 64-bit hashes inside Polars, and only hashes are compared.
Rows are sorted by instance by moving *runs* (consecutive rows of one instance and expert). Then every row looks up the
first row with its hashes in a hash table of arrays, in blocks of whole instances that fit the cache. Text is kept for
the first occurrence of an item only.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concordant.arrays import Bools, Codes, Floats, Ints
from concordant.data.duplicates import check_duplicates, duplicate_rows
from concordant.data.index import Slots, Texts, group_ids
from concordant.data.labels import Labels
from concordant.data.preferences import Kind, Preferences
from concordant.errors import DuplicateError, Setting, quote
from concordant.execution import map_instances
from concordant.io._row_sources import JoinedSource, RowSource
from concordant.kernels.lists import offsets_of, ranges

__all__ = [
    "Batch",
    "BatchSink",
    "DictionaryEncoder",
    "EncodedRows",
    "encode_labels",
    "encode_slots",
    "factorize",
    "hash_expressions",
    "merge_batches",
]

# Rows of a batch, and bytes of their text. The slots of several batches are encoded a second time, which costs as much
# again when every batch holds most items of every instance: few large batches are best.
BATCH_ROWS = 1 << 27
BATCH_BYTES = 2 << 30
# Rows of a block: several arrays of this length fit the cache of a core.
BLOCK_ROWS = 1 << 16
# Below this many rows, starting threads takes longer than encoding.
_THREADED_ROWS = 1 << 19
# Up to this many texts a Python dictionary is quicker than hashing columns.
_FEW_RUNS = 1 << 10
# Polars stores text up to this many bytes inside its 16-byte views; longer text keeps a buffer alive.
_INLINE_BYTES = 12

# Cells per row of the table that finds duplicates within a run; beyond it, sorting all rows is cheaper.
_CELLS_PER_ROW = 32
# Shorter arrays of a column are joined, so that many small files do not leave many small arrays.
_LONG_PART = 1 << 12
# Pieces of at least this many rows are copied one by one; shorter ones are gathered by index in one call.
_LONG = 64
# Odd multipliers that mix the bits of a hash.
_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], dtype=np.uint64)

_Hashes = NDArray[np.uint64]


def hash_expressions(column: str = "item") -> tuple[pl.Expr, pl.Expr]:
    """Return the expressions of the two hashes of an id column, named "h1" and "h2"."""
    return pl.col(column).hash(0x5EED).alias("h1"), pl.col(column).hash(0xC0DE).alias("h2")


class _Numbers:
    """A column of numbers, held as the arrays in which it was read: copying them together costs as much as hashing.

    >>> column = _Numbers(np.float64)
    >>> column.add(pl.Series([1.0, 2.0]))
    >>> column.add(pl.Series([3.0]))
    >>> out = np.empty(2)
    >>> column.copy(1, 3, out)
    >>> out.tolist(), len(column)
    ([2.0, 3.0], 3)
    """

    def __init__(self, dtype: Any) -> None:
        self._dtype = np.dtype(dtype)
        self._parts: list[NDArray[Any]] = []
        # The row at which each part begins, and the number of rows.
        self._begins = [0]
        # How many parts are long; those behind them are joined when another long one comes, or they are many.
        self._n_long = 0

    def __len__(self) -> int:
        return self._begins[-1]

    def add(self, column: pl.Series | NDArray[Any]) -> None:
        """Add rows, without nulls."""
        for part in map(pl.Series.to_numpy, column.get_chunks()) if isinstance(column, pl.Series) else [column]:
            is_long = len(part) >= _LONG_PART
            if is_long:
                self._join(self._n_long)
            self._parts.append(part)
            self._begins.append(self._begins[-1] + len(part))
            if not is_long and self._begins[-1] - self._begins[self._n_long] >= _LONG_PART:
                self._join(self._n_long)
                is_long = True
            if is_long:
                self._n_long = len(self._parts)

    def _join(self, first: int = 0) -> None:
        """Join the parts from the first one named."""
        if len(self._parts) > first + 1:
            self._parts[first:] = [np.concatenate(self._parts[first:])]
            del self._begins[first + 1 : -1]

    def whole(self) -> NDArray[Any]:
        """Return the column as one array, which is kept instead of the parts."""
        self._join()
        return self._parts[0] if self._parts else np.empty(0, dtype=self._dtype)

    @property
    def is_whole(self) -> bool:
        """Whether the column is one array."""
        return len(self._parts) <= 1

    def copy(self, start: int, end: int, out: NDArray[Any]) -> None:
        """Copy the rows from `start` to `end` to `out`."""
        n = bisect_right(self._begins, start) - 1
        at = start
        while at < end:
            begin, stop = self._begins[n], min(end, self._begins[n + 1])
            out[at - start : stop - start] = self._parts[n][at - begin : stop - begin]
            at, n = stop, n + 1


def _numbers(array: NDArray[Any]) -> _Numbers:
    column = _Numbers(array.dtype)
    column.add(array)
    return column


@dataclass(frozen=True)
class _SlotAssignment:
    """Slots found in one batch; rows are in encoding order: by instance, then in input order."""

    order: Ints  # the runs in encoding order
    slot: Codes  # of every row in encoding order, numbered over all instances
    first: Ints  # the source row of each slot's first occurrence
    counts: Ints  # slots of each instance
    repeated: bool  # whether some run may hold an item twice


def _stable_argsort(codes: NDArray[Any]) -> Ints:
    """Return the stable order of non-negative integers; quick when they are in order already."""
    n = len(codes)
    if n < 2 or not (codes[1:] < codes[:-1]).any():
        return np.arange(n, dtype=np.int64)
    if int(codes.max()) >= 2**31:
        return np.argsort(codes, kind="stable")
    # One sort of code and position in one number is quicker than a stable sort.
    packed = codes.astype(np.int64) << 32
    packed |= np.arange(n, dtype=np.int64)
    packed.sort()
    packed &= 0xFFFFFFFF
    return packed


def _assign_slots(
    h1: _Numbers,
    h2: _Numbers,
    instance: Codes,
    start: Ints,
    length: Ints,
    n_instances: int,
    *,
    block_rows: int = BLOCK_ROWS,
) -> _SlotAssignment:
    """Return the slots of rows given as runs: run g holds the rows start[g] to start[g] + length[g] of `instance[g]`.

    Parameters
    ----------
    h1, h2 : uint64[rows]
        The hashes of the item ids.
    block_rows : int
        Look up about this many rows at a time; an instance is never split.
    """
    order = _stable_argsort(instance)
    instance, start, length = instance[order], start[order], length[order]
    row_of_run = offsets_of(length)
    total = int(row_of_run[-1])
    slot = np.empty(total, dtype=np.int32)
    counts = np.zeros(n_instances, dtype=np.int64)
    if not total:
        return _SlotAssignment(order, slot, np.zeros(0, dtype=np.int64), counts, False)
    changes = np.flatnonzero(instance[1:] != instance[:-1]) + 1
    run_of_instance = np.concatenate([[0], changes, [len(instance)]])
    row_of_instance = row_of_run[run_of_instance]
    edges = [0]
    while edges[-1] < len(run_of_instance) - 1:
        full = int(np.searchsorted(row_of_instance, row_of_instance[edges[-1]] + block_rows, side="right")) - 1
        edges.append(max(full, edges[-1] + 1))
    # A piece is several runs of one instance, of any expert, that are consecutive in the source.
    breaks = (start[1:] != (start + length)[:-1]) | (instance[1:] != instance[:-1])
    heads = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    if len(heads) * _LONG > total:
        # Short pieces are gathered by index, from one array.
        h1.whole(), h2.whole()
    piece_row = np.append(row_of_run[heads], total)
    piece_start = start[heads]
    piece_of_instance = np.searchsorted(heads, run_of_instance)
    # Instances of one block may share item ids: the hashes are mixed with a number of the instance.
    mixer = instance[heads].astype(np.uint64) * _MIX[0]
    per_thread = threading.local()

    def block(k: int) -> tuple[Ints, bool]:
        n0, n1 = edges[k], edges[k + 1]
        g0, g1 = int(run_of_instance[n0]), int(run_of_instance[n1])
        p0, p1 = int(piece_of_instance[n0]), int(piece_of_instance[n1])
        r0, r1 = int(row_of_run[g0]), int(row_of_run[g1])
        m = r1 - r0
        workspace = getattr(per_thread, "workspace", None)
        if workspace is None or workspace.rows < m:
            workspace = _Workspace(max(m, min(block_rows, total)))
            if m <= block_rows:
                per_thread.workspace = workspace
        bounds = piece_row[p0 : p1 + 1] - r0
        shift = piece_start[p0:p1] - bounds[:-1]
        _gather_pieces([(h1, workspace.a[:m]), (h2, workspace.b[:m])], shift, bounds, workspace.x)
        a, b = workspace.a[:m], workspace.b[:m]
        if n1 - n0 > 1:
            mix = _repeat_into(mixer[p0:p1], np.diff(bounds), workspace.y[:m].view(np.uint64))
            a ^= mix
            b ^= mix
        local = slot[r0:r1]
        leads = _factorize_hashes(a, b, local, workspace)
        begins = local[row_of_instance[n0:n1] - r0]
        sizes = np.diff(begins, append=len(leads))
        counts[instance[run_of_instance[n0:n1]]] = sizes
        repeated = _may_hold_duplicates(
            local, length[g0:g1], begins, sizes, np.diff(run_of_instance[n0 : n1 + 1]), workspace
        )
        # All rows of a piece are shifted alike, so the source row of a leader is its row plus the shift of its piece.
        return leads + np.repeat(shift, np.diff(np.searchsorted(leads, bounds))), repeated

    blocks = range(len(edges) - 1)
    found = map_instances(block, len(blocks)) if total >= _THREADED_ROWS else [block(k) for k in blocks]
    base = 0
    for k, (leaders, _) in enumerate(found):
        if base:
            slot[row_of_instance[edges[k]] : row_of_instance[edges[k + 1]]] += np.int32(base)
        base += len(leaders)
    first = np.concatenate([leaders for leaders, _ in found])
    return _SlotAssignment(order, slot, first, counts, any(again for _, again in found))


def _gather_runs(column: _Numbers, start: Ints, length: Ints) -> Floats:
    """Return the rows start[g] to start[g] + length[g] of every run g, concatenated."""
    row_of_run = offsets_of(length)
    out = np.empty(int(row_of_run[-1]), dtype=np.float64)
    if len(start) * _LONG > len(out):
        column.whole()
    # The runs at which blocks of about equal size begin, and the end.
    stretches = max(len(out) // BLOCK_ROWS, 1)
    edges = np.searchsorted(row_of_run, np.linspace(0, len(out), stretches + 1).astype(np.int64))

    def write(k: int) -> None:
        runs = slice(int(edges[k]), int(edges[k + 1]))
        if runs.start == runs.stop:
            return
        here = out[row_of_run[runs.start] : row_of_run[runs.stop]]
        bounds = row_of_run[runs.start : runs.stop + 1] - row_of_run[runs.start]
        _gather_pieces([(column, here)], start[runs] - bounds[:-1], bounds, np.empty(len(here), dtype=np.int64))

    map_instances(write, stretches)
    return out


class _Workspace:
    """Scratch arrays of one block, reused for the next: allocating memory would cost more than the work itself."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.up = np.arange(rows, dtype=np.int64)
        self.a, self.b = np.empty(rows, dtype=np.uint64), np.empty(rows, dtype=np.uint64)
        self.x, self.y, self.leader = (np.empty(rows, dtype=np.int64) for _ in range(3))
        self.number = np.empty(rows, dtype=np.int32)
        self.flag, self.other = np.empty(rows, dtype=np.bool_), np.empty(rows, dtype=np.bool_)
        self.table = np.empty(1 << max(rows, 2).bit_length(), dtype=np.int64)
        self.cells = np.empty(_CELLS_PER_ROW * rows, dtype=np.bool_)


def _gather_pieces(columns: list[tuple[_Numbers, NDArray[Any]]], shift: Ints, bounds: Ints, room: Ints) -> None:
    """Copy rows bounds[p] to bounds[p + 1] of every piece p from `column[row + shift[p]]` to `out[row]`."""
    n = int(bounds[-1])
    if len(shift) * _LONG > n and all(column.is_whole for column, _ in columns):
        source = _repeat_into(shift, np.diff(bounds), room[:n])
        source += np.arange(n)
        for column, out in columns:
            column.whole().take(source, out=out, mode="clip")
        return
    for move, at, end in zip(shift.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        for column, out in columns:
            column.copy(at + move, end + move, out[at:end])


def _repeat_into(values: NDArray[Any], lengths: Ints, out: NDArray[Any]) -> NDArray[Any]:
    """Return np.repeat(values, lengths), written into `out`."""
    if len(values) * _LONG > len(out):
        out[:] = np.repeat(values, lengths)
        return out
    at = 0
    for value, n in zip(values, lengths.tolist(), strict=True):
        out[at : at + n] = value
        at += n
    return out


def _factorize_hashes(a: _Hashes, b: _Hashes, out: Codes, workspace: _Workspace) -> Ints:
    """Return the first row of each distinct pair of hashes; `out` gets the number of every row's pair in that order.

    >>> a, b, number = np.array([7, 3, 7], dtype=np.uint64), np.zeros(3, dtype=np.uint64), np.empty(3, dtype=np.int32)
    >>> _factorize_hashes(a, b, number, _Workspace(3)).tolist(), number.tolist()
    ([0, 1], [0, 1, 0])
    """
    n = len(a)
    leader = _first_occurrences(a, b, workspace)
    leads = np.flatnonzero(np.equal(leader, workspace.up[:n], out=workspace.flag[:n]))
    workspace.number[leads] = workspace.up[: len(leads)]
    workspace.number[:n].take(leader, out=out, mode="clip")
    return leads


def _first_occurrences(a: _Hashes, b: _Hashes, workspace: _Workspace) -> Ints:
    """Return for every row the earliest row with the same pair of hashes.

    Every row writes its number into the cell of a hash table, the earliest row last. A row that finds its own pair of
    hashes in its cell is done. The others collided and try again with other bits of the hashes. The earliest row of a
    cell always finds itself, so every round settles some rows; nearly all settle in the first.
    """
    n = len(a)
    bits = max(n, 2).bit_length()
    table, shift = workspace.table, np.uint64(64 - bits)
    cell, seen = workspace.x[:n], workspace.y[:n]
    leader, stranger, other = workspace.leader[:n], workspace.flag[:n], workspace.other[:n]
    np.right_shift(a, shift, out=cell.view(np.uint64))
    # Reversed copies: NumPy writes through reversed views several times slower.
    seen[:] = cell[::-1]
    leader[:] = workspace.up[n - 1 :: -1] if n < workspace.rows else workspace.up[::-1]
    table[seen] = leader
    table.take(cell, out=leader, mode="clip")
    met = seen.view(np.uint64)
    np.not_equal(a.take(leader, out=met, mode="clip"), a, out=stranger)
    np.not_equal(b.take(leader, out=met, mode="clip"), b, out=other)
    stranger |= other
    todo = np.flatnonzero(stranger)
    turn = 0
    while len(todo):
        turn += 1
        x, y = a[todo], b[todo]
        c, d = _MIX[turn % len(_MIX)] + np.uint64(2 * turn), _MIX[(turn + 1) % len(_MIX)] + np.uint64(4 * turn)
        cell = ((x * c + y * d) >> shift).view(np.int64)
        table[cell[::-1].copy()] = todo[::-1].copy()
        found = table.take(cell)
        same = (a.take(found) == x) & (b.take(found) == y)
        leader[todo[same]] = found[same]
        todo = todo[~same]
    return leader


def _may_hold_duplicates(
    slot: Codes, lengths: Ints, begins: Codes, sizes: Codes, n_runs: Ints, workspace: _Workspace
) -> bool:
    """Return whether some run of a block may hold a slot twice; exact unless the table of cells would be too large.

    Every (run, slot) of an instance has its own cell. Without duplicates as many cells are taken as there are rows.
    """
    n = len(slot)
    wanted = n_runs * sizes
    size = int(wanted.sum())
    if size > _CELLS_PER_ROW * n:
        return True
    # Run r of an instance begins r * sizes cells after the instance's first.
    nth = np.arange(len(lengths)) - np.repeat(np.cumsum(n_runs) - n_runs, n_runs)
    before = np.repeat(np.cumsum(wanted) - wanted - begins, n_runs) + nth * np.repeat(sizes, n_runs)
    cell = _repeat_into(before, lengths, workspace.x[:n])
    cell += slot
    taken = workspace.cells[:size]
    taken[:] = False
    taken[cell] = True
    return int(np.count_nonzero(taken)) < n


def factorize(column: pl.Series, *, hash_bits: int = 64) -> tuple[Codes, pl.Series]:
    """Return a code for every id of a text column, numbered as first seen, and the ids in that order.

    >>> codes, ids = factorize(pl.Series(["b", "a", "b"]))
    >>> codes.tolist(), ids.to_list()
    ([0, 1, 0], ['b', 'a'])
    """
    n = len(column)
    if n < 2:
        return np.zeros(n, dtype=np.int32), column
    h1, h2 = column.to_frame("item").select(*hash_expressions()).get_columns()
    codes = np.empty(n, dtype=np.int32)
    first = _factorize_hashes(_truncated(h1, hash_bits).to_numpy(), h2.to_numpy(), codes, _Workspace(n))
    return codes, column.gather(_row_index(first))


def _truncated(h1: pl.Series, bits: int) -> pl.Series:
    """Return the upper bits of a hash, the others cleared. Tests use few bits to provoke collisions."""
    return h1 if bits >= 64 else pl.Series(h1.to_numpy() & ~np.uint64((1 << (64 - bits)) - 1))


def _runs(column: pl.Series, hash_bits: int) -> tuple[Codes, Ints, list[str]]:
    """Return the code and the end of every run of equal ids, and the ids behind the codes."""
    lengths, values = column.rle().struct.unnest().get_columns()
    ends = np.cumsum(lengths.to_numpy(), dtype=np.int64)
    if len(values) <= _FEW_RUNS:
        codes, texts = group_ids(values.to_list())
        return codes, ends, texts.tolist()
    codes, ids = factorize(values, hash_bits=hash_bits)
    return codes, ends, ids.to_list()


@dataclass(frozen=True)
class Batch:
    """Encoded rows of one batch; `items` holds the only text.

    Everything is sorted by instance, so that consecutive instances are slices of every array.
    """

    instance: Codes  # per run, in coding order
    expert: Codes  # per run, -1 without an expert
    length: Ints
    origin: Ints  # source row at which each run began
    slot: Codes  # per row
    value: Floats | None
    items: pl.Series
    first: Ints  # source row per slot
    counts: Ints  # slots per instance
    repeated: bool
    weight: Floats | None = None  # per run, None where all are 1


class BatchSink(Protocol):
    """Takes encoded batches, so that the encoder need not keep them in memory."""

    def put(self, batch: Batch) -> None:
        """Take a batch."""
        ...


class DictionaryEncoder:
    """Encodes rows of Polars columns as slots and runs; text is held for one batch only.

    Parameters
    ----------
    batch_rows, batch_bytes, block_rows, hash_bits : int
        Rows of a batch, and bytes of their text; rows of a block; bits used of the first hash.
    sink : BatchSink, optional
        Takes every batch as soon as it is encoded; without it batches are held until `finish`.

    Notes
    -----
    Instances are numbered as first seen; the items of an instance as first seen in it, over all frames in the order
    they were added. Cost O(R) for R rows; memory 4 bytes per row for the slot, 8 for the value, and the text of each
    slot; while reading, also two hashes and the text for each row of the batch.

    Examples
    --------
    >>> encoder = DictionaryEncoder()
    >>> encoder.add(pl.DataFrame({"instance": ["q", "q"], "item": ["a", "b"], "value": [2.0, 1.0]}), expert="x")
    >>> encoder.add(pl.DataFrame({"instance": ["q"], "item": ["b"], "value": [7.0]}), expert="y")
    >>> encoder.finish().preferences("score")
    Preferences: 1 instance, 2 experts, 2 items, 3 scores in 2 lists
    """

    def __init__(
        self,
        *,
        batch_rows: int = BATCH_ROWS,
        batch_bytes: int = BATCH_BYTES,
        block_rows: int = BLOCK_ROWS,
        hash_bits: int = 64,
        sink: BatchSink | None = None,
    ) -> None:
        self.instances: dict[str, int] = {}
        self.experts: dict[Hashable, int] = {}
        self.sources: list[tuple[int, RowSource]] = []
        self._batch_rows = batch_rows
        self._batch_bytes = batch_bytes
        self._block_rows = block_rows
        self._hash_bits = hash_bits
        self._sink = sink
        self._batches: list[Batch] = []
        self._total = 0
        self._held = 0
        self._valued = False
        self._nulls = False
        self._h1, self._h2, self._value = _Numbers(np.uint64), _Numbers(np.uint64), _Numbers(np.float64)
        self._items: list[pl.Series] = []
        self._text_bytes = 0
        self._pending: list[tuple[Codes, Codes, Ints, Floats]] = []
        self._weighted = False

    @property
    def n_rows(self) -> int:
        """How many rows were added."""
        return self._total

    def restore(self, instances: list[str], experts: list[Hashable], rows: int, *, nulls: bool) -> None:
        """Continue after `rows` rows of these instances and experts, which were added before a checkpoint."""
        self.instances = {name: code for code, name in enumerate(instances)}
        self.experts = {key: code for code, key in enumerate(experts)}
        # Lines are not part of a checkpoint; messages name rows by their number.
        self.sources = [(0, RowSource())]
        self._total, self._nulls, self._valued = rows, nulls, rows > 0

    def add_expert(self, expert: Hashable) -> int:
        """Return the code of an expert, and add it to the vocabulary if it is new."""
        return self.experts.setdefault(expert, len(self.experts))

    def add(
        self,
        frame: pl.DataFrame,
        *,
        expert: Hashable = None,
        key: Callable[[str], Hashable] = str,
        source: RowSource | None = None,
    ) -> None:
        """Add the rows of a frame.

        Parameters
        ----------
        frame : polars.DataFrame
            Text columns "instance" and "item"; "expert" (text) unless all rows belong to one; "value" (float, null =
            the item is known but not ranked) unless only slots are wanted; "weight" (float) where lists have one;
            "h1" and "h2" if hashed already.
        expert : hashable, optional
            The expert of all rows. Without this and without a column the items are known and not ranked.
        key : callable, optional
            From an expert id of the column to its key in the vocabulary.
        source : RowSource, optional
            Where the rows come from, for messages.
        """
        for part in frame.iter_slices(self._batch_rows) if frame.height > self._batch_rows else (frame,):
            if self._held and (self._held + part.height > self._batch_rows or self._text_bytes > self._batch_bytes):
                self.flush()
            self._take(part, expert, key)
        self.sources.append((self._total - frame.height, source or RowSource()))

    def _take(self, frame: pl.DataFrame, expert: Hashable, key: Callable[[str], Hashable]) -> None:
        n = frame.height
        if not n:
            return
        if "h1" not in frame.columns:
            frame = frame.with_columns(*hash_expressions())
        local, ends, ids = _runs(frame["instance"], self._hash_bits)
        instance = np.array([self.instances.setdefault(i, len(self.instances)) for i in ids], dtype=np.int32)[local]
        if "expert" in frame.columns:
            named, expert_ends, expert_ids = _runs(frame["expert"], self._hash_bits)
            known = self.experts
            codes = np.array([known.setdefault(key(e), len(known)) for e in expert_ids], dtype=np.int32)[named]
            if len(expert_ends) > 1:
                # Both are sorted: merging them is much quicker than np.union1d.
                both = np.concatenate([ends, expert_ends])
                both.sort(kind="stable")
                both = both[np.diff(both, prepend=-1) > 0]
                instance = instance[np.searchsorted(ends, both)]
                codes = codes[np.searchsorted(expert_ends, both)]
                ends = both
            else:
                codes = np.full(len(ends), codes[0], dtype=np.int32)
        else:
            codes = np.full(len(ends), -1 if expert is None else self.add_expert(expert), dtype=np.int32)
        weight = np.ones(len(ends))
        if "weight" in frame.columns:
            self._weighted = True
            by_row = frame["weight"].to_numpy()
            both = np.union1d(ends, np.flatnonzero(by_row[1:] != by_row[:-1]) + 1)
            at = np.searchsorted(ends, both)
            instance, codes, ends, weight = instance[at], codes[at], both, by_row[both - 1]
        self._pending.append((instance, codes, np.diff(ends, prepend=0), weight))
        self._h1.add(_truncated(frame["h1"], self._hash_bits))
        self._h2.add(frame["h2"])
        if "value" in frame.columns:
            value = frame["value"]
            if value.null_count():
                self._nulls = True
                value = value.fill_null(np.nan)
            if not self._valued:
                self._nulls |= self._total > 0
                self._valued = True
            if len(self._value) < self._held:
                self._value.add(np.full(self._held - len(self._value), np.nan))
            self._value.add(value)
        elif self._valued:
            self._nulls = True
        self._items.append(frame["item"])
        self._text_bytes += int(frame["item"].estimated_size())
        self._held += n
        self._total += n

    def flush(self) -> None:
        """Encode the rows held and free their memory; a sink calls this after the last rows."""
        if not self._held:
            return
        instance, expert, length, weight = (np.concatenate(c) for c in zip(*self._pending, strict=True))
        start = offsets_of(length)[:-1]
        items = pl.concat(self._items)
        base = self._total - self._held
        if self._valued and len(self._value) < self._held:
            self._value.add(np.full(self._held - len(self._value), np.nan))
        found = _assign_slots(
            self._h1,
            self._h2,
            instance,
            start,
            length,
            len(self.instances),
            block_rows=self._block_rows,
        )
        order = found.order
        # Freed here so that the arrays below reuse this memory.
        self._h1, self._h2 = _Numbers(np.uint64), _Numbers(np.uint64)
        batch = Batch(
            instance[order],
            expert[order],
            length[order],
            start[order] + base,
            found.slot,
            _gather_runs(self._value, start[order], length[order]) if self._valued else None,
            _compact(items.gather(_row_index(found.first))),
            found.first + base,
            found.counts,
            found.repeated,
            weight[order] if self._weighted else None,
        )
        if self._sink is None:
            self._batches.append(batch)
        else:
            self._sink.put(batch)
        self._value = _Numbers(np.float64)
        self._items, self._pending, self._held, self._text_bytes = [], [], 0, 0

    @property
    def nulls(self) -> bool:
        """Whether some rows have no value."""
        return self._nulls

    def finish(self) -> EncodedRows:
        """Return all rows added. The encoder cannot be used again."""
        self.flush()
        batches, self._batches = self._batches, []
        return merge_batches(
            batches,
            Texts(list(self.instances)),
            list(self.experts),
            self.sources,
            valued=self._valued,
            nulls=self._nulls,
            hash_bits=self._hash_bits,
            block_rows=self._block_rows,
        )


def merge_batches(
    batches: list[Batch],
    instances: Texts,
    experts: list[Hashable],
    sources: list[tuple[int, RowSource]],
    *,
    valued: bool,
    nulls: bool,
    hash_bits: int = 64,
    block_rows: int = BLOCK_ROWS,
) -> EncodedRows:
    """Merge batches over the same instances; their slots are encoded once more."""
    if len(batches) > 1:
        items, first, counts, moved = _merge_slots(batches, len(instances), hash_bits, block_rows)
    elif batches:
        items, first, counts, moved = batches[0].items, batches[0].first, batches[0].counts, None
    else:
        none = np.zeros(0, dtype=np.int64)
        items, first, counts, moved = pl.Series([], dtype=pl.String), none, none, None
    slots = Slots(instances, Texts(items), offsets_of(counts))
    slot = [b.slot if moved is None else moved[k][b.slot] for k, b in enumerate(batches)]
    value: Floats | None = None
    if valued:
        value = _join([np.full(len(b.slot), np.nan) if b.value is None else b.value for b in batches], np.float64)
    return EncodedRows(
        slots,
        experts,
        _join([b.instance for b in batches], np.int32),
        _join([b.expert for b in batches], np.int32),
        _join([b.length for b in batches], np.int64),
        _join([b.origin for b in batches], np.int64),
        _join(slot, np.int32),
        value,
        first,
        JoinedSource(parts=tuple(s for _, s in sources), starts=tuple(begin for begin, _ in sources)),
        nulls,
        any(b.repeated for b in batches),
        _weights(batches),
    )


def _weights(batches: list[Batch]) -> Floats | None:
    """Return the weight of every run, None where there are no weights."""
    if all(b.weight is None for b in batches):
        return None
    return np.concatenate([np.ones(len(b.instance)) if b.weight is None else b.weight for b in batches])


def _merge_slots(
    batches: list[Batch], n_instances: int, hash_bits: int, block_rows: int
) -> tuple[pl.Series, Ints, Ints, list[Codes]]:
    """Return the union of the slots of all batches, and the new number of every old slot."""
    items = pl.concat([b.items for b in batches])
    h1, h2 = items.to_frame("item").select(*hash_expressions()).get_columns()
    instance = np.concatenate([np.arange(len(b.counts), dtype=np.int32) for b in batches])
    length = np.concatenate([b.counts for b in batches])
    start = offsets_of(length)[:-1]
    found = _assign_slots(
        _numbers(_truncated(h1, hash_bits).to_numpy()),
        _numbers(h2.to_numpy()),
        instance,
        start,
        length,
        n_instances,
        block_rows=block_rows,
    )
    moved = np.empty(len(items), dtype=np.int32)
    moved[ranges(start[found.order], start[found.order] + length[found.order])] = found.slot
    ends = np.cumsum([len(b.items) for b in batches])
    first = np.concatenate([b.first for b in batches])[found.first]
    return _compact(items.gather(_row_index(found.first))), first, found.counts, np.split(moved, ends[:-1])


def _row_index(rows: Ints) -> pl.Series:
    # Polars counts rows in 32 bits; handing over its own type saves a pass.
    return pl.Series(rows.astype(np.uint32))


def _join(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)


def _compact(column: pl.Series) -> pl.Series:
    """Return a copy of gathered text, which would otherwise keep the whole source column in memory."""
    if (column.str.len_bytes() > _INLINE_BYTES).any():
        return column.to_frame("item").select(pl.format("{}", "item")).to_series()
    return column


@dataclass(frozen=True)
class EncodedRows:
    """All encoded rows, in encoding order: runs of one instance and expert, batch after batch."""

    slots: Slots
    experts: list[Hashable]
    instance: Codes  # per run
    expert: Codes  # per run, -1 without an expert
    length: Ints
    origin: Ints  # source row at which each run began
    slot: Codes  # per row
    value: Floats | None
    first: Ints  # source row of each slot's first occurrence
    source: RowSource
    nulls: bool
    repeated: bool
    weight: Floats | None = None  # per run

    def in_source_order(self) -> Codes:
        """Return the slot of every row in input order."""
        out = np.empty(len(self.slot), dtype=np.int32)
        out[ranges(self.origin, self.origin + self.length)] = self.slot
        return out

    def preferences(
        self,
        kind: Kind,
        *,
        names: Sequence[str] | None = None,
        duplicates: str = "error",
        below: bool | Bools = False,
    ) -> Preferences:
        """Return the rows as preferences: lists by instance, then expert in the order of the vocabulary.

        Parameters
        ----------
        kind : {"rank", "score", "rating"}
            What the values are.
        names : sequence of str, optional
            The ids of the experts, if the keys of the vocabulary are not their ids.
        duplicates : {"error", "best", "first"}
            What to do when an expert ranks an item twice in an instance.
        below : bool or bool[instances]
            Whether items that a list leaves out are below what it holds.
        """
        check_duplicates(duplicates, "preferences")
        experts = [str(e) for e in self.experts] if names is None else list(names)
        key = self.instance.astype(np.int64) * max(len(experts), 1) + self.expert
        slot = self.slot
        value = np.full(len(slot), np.nan) if self.value is None else self.value
        rows: Ints | None = None  # the encoded row of every row kept, None while all are kept in order
        order = np.flatnonzero(self.expert >= 0) if (self.expert < 0).any() else None
        if (key[1:] < key[:-1]).any():
            order = np.arange(len(key)) if order is None else order
            order = order[_stable_argsort(key[order])]
        length = self.length
        if order is not None:
            begin = offsets_of(length)[:-1][order]
            key, length = key[order], length[order]
            rows = ranges(begin, begin + length)
            slot, value = slot[rows], value[rows]
        heads = np.flatnonzero(np.diff(key, prepend=-1) != 0)
        list_key = key[heads]
        list_length = np.add.reduceat(length, heads) if len(heads) else np.zeros(0, dtype=np.int64)
        scattered = len(heads) < len(key)
        if self.nulls or self.value is None:
            keep = ~np.isnan(value)
            if not keep.all():
                rows, slot, value, list_key, list_length = _filter_rows(keep, rows, slot, value, list_key, list_length)
        if (self.repeated or scattered) and len(slot):
            drop = duplicate_rows(
                np.repeat(np.arange(len(list_key)), list_length),
                slot,
                value,
                rule=duplicates,
                smaller_is_better=kind == "rank",
                error=partial(self._duplicate, rows, experts),
            )
            if drop is not None:
                rows, slot, value, list_key, list_length = _filter_rows(~drop, rows, slot, value, list_key, list_length)
        list_instance, list_expert = np.divmod(list_key, max(len(experts), 1))
        list_offsets = offsets_of(list_length)
        list_weight = None
        if self.weight is not None:
            by_row = np.repeat(self.weight, self.length)
            list_weight = self._list_weights(by_row if rows is None else by_row[rows], rows, list_offsets, experts)
        return Preferences.from_codes(
            self.slots,
            Texts(experts),
            list_expert.astype(np.int32),
            list_offsets,
            np.searchsorted(list_instance, np.arange(len(self.slots) + 1)).astype(np.int64),
            slot,
            value,
            kind=kind,
            list_weight=list_weight,
            below=below,
        )

    def source_rows(self, encoded: Ints) -> Ints:
        """Return the numbers that encoded rows have in the source."""
        begin = offsets_of(self.length)
        run = np.searchsorted(begin, encoded, side="right") - 1
        return np.asarray(self.origin[run] + (encoded - begin[run]), dtype=np.int64)

    def _name(self, encoded: int, experts: list[str]) -> tuple[str, str, str]:
        """Return the expert, the item and the instance of an encoded row."""
        run = int(np.searchsorted(offsets_of(self.length), encoded, side="right")) - 1
        instance, item = self.slots.where(int(self.slot[encoded]))
        return experts[int(self.expert[run])], item, instance

    def _duplicate(self, rows: Ints | None, experts: list[str], first: Ints, again: Ints) -> DuplicateError:
        """Return the error for the earliest row of the source that repeats an item of its list."""
        first, again = (at if rows is None else rows[at] for at in (first, again))
        origin = self.source_rows(again)
        which = int(np.argmin(origin))
        before = int(self.source_rows(first[which : which + 1])[0])
        expert, item, instance = self._name(int(again[which]), experts)
        return DuplicateError.twice(
            expert, item, instance, self.source.place(before), self.source.place(int(origin[which]))
        )

    def _list_weights(self, by_row: Floats, rows: Ints | None, list_offsets: Ints, experts: list[str]) -> Floats:
        """Return the weight of every list, or raise at a row whose weight is invalid or not that of its list."""
        out = np.asarray(by_row[list_offsets[:-1]], dtype=np.float64)
        invalid = np.flatnonzero(~(np.isfinite(by_row) & (by_row >= 0)))
        differs = np.flatnonzero(by_row != np.repeat(out, np.diff(list_offsets)))
        for at in (invalid, differs):
            if len(at):
                encoded = at if rows is None else rows[at]
                origin = self.source_rows(encoded)
                first = int(np.argmin(origin))
                weight = by_row[at[first]]
                expert, _, instance = self._name(int(encoded[first]), experts)
                found = "it is missing" if np.isnan(weight) else f"found {weight:g}"
                raise self.source.error(
                    int(origin[first]),
                    f"the weight must be a finite number >= 0; {found}."
                    if at is invalid
                    else f"expert {quote(expert)} has two weights in instance {quote(instance)}. A weight is for the "
                    "whole list; give one.",
                )
        return out


def _filter_rows(
    keep: NDArray[np.bool_], rows: Ints | None, slot: Codes, value: Floats, list_key: Ints, list_length: Ints
) -> tuple[Ints, Codes, Floats, Ints, Ints]:
    """Return the columns of the rows kept, without lists that become empty."""
    length = np.bincount(np.repeat(np.arange(len(list_key)), list_length)[keep], minlength=len(list_key))
    rows = np.flatnonzero(keep) if rows is None else rows[keep]
    full = length > 0
    return rows, slot[keep], value[keep], list_key[full], length[full]


def encode_slots(frame: pl.DataFrame, *, hash_bits: int = 64, batch_rows: int = BATCH_ROWS) -> tuple[Slots, Codes]:
    """Return the slots of the text columns "instance" and "item" in first-seen order, and the slot of every row.

    >>> slots, slot = encode_slots(pl.DataFrame({"instance": ["q", "p", "q"], "item": ["b", "b", "a"]}))
    >>> slots.instances.tolist(), slots.items.tolist(), slot.tolist()
    (['q', 'p'], ['b', 'a', 'b'], [0, 2, 1])
    """
    encoder = DictionaryEncoder(hash_bits=hash_bits, batch_rows=batch_rows)
    encoder.add(frame.select("instance", "item"))
    rows = encoder.finish()
    return rows.slots, rows.in_source_order()


def encode_labels(
    parts: Iterable[tuple[pl.DataFrame, RowSource]],
    *,
    duplicates: str = "error",
    hint: str = "",
    settings: Sequence[Setting] = (),
    hash_bits: int = 64,
) -> Labels:
    """Return labels from frames with the text columns "instance" and "item" and the float column "label".

    Parameters
    ----------
    parts : iterable of (frame, source)
        A null label means that the item is known and not labelled.
    duplicates : {"error", "best", "first"}
        What to do when an item has two different labels. An item that comes twice with one label counts once.
    hint : str
        Text that the error adds after "Keep one".
    settings : sequence of Setting
        The settings that the hint advises.
    hash_bits : int
        Bits used of the first hash.

    Examples
    --------
    >>> table = pl.DataFrame({"instance": ["q", "q"], "item": ["a", "b"], "label": [2.0, 0.0]})
    >>> encode_labels([(table, RowSource())])
    Labels: 1 instance, 2 items, labels 0 to 2
    """
    encoder = DictionaryEncoder(hash_bits=hash_bits)
    for frame, source in parts:
        encoder.add(frame.rename({"label": "value"}), source=source)
    rows = encoder.finish()
    slots, slot = rows.slots, rows.slot
    given = np.zeros(0) if rows.value is None else rows.value

    def error(first: Ints, again: Ints) -> DuplicateError:
        origin = rows.source_rows(again)
        which = int(np.argmin(origin))
        before, repeat = int(first[which]), int(again[which])
        instance, item = slots.where(int(slot[repeat]))
        places = [rows.source.place(int(row)) for row in rows.source_rows(np.array([before, repeat]))]
        what = f"labels, {given[before]:g} and {given[repeat]:g}"
        return DuplicateError.two(what, item, instance, *places, hint=hint).advising(*settings)

    label = np.empty(slots.n_slots, dtype=np.float64)
    # Written from the back, so that the first label of an item stays.
    label[slot[::-1]] = given[::-1]
    differs = (label[slot] != given) & ~(np.isnan(label[slot]) & np.isnan(given))
    if differs.any() and duplicates != "first":
        # Rows that repeat the first label of their item are left out.
        first = np.zeros(len(slot), dtype=np.bool_)
        first[np.unique(slot, return_index=True)[1]] = True
        at = np.flatnonzero(differs | first)
        drop = duplicate_rows(
            np.zeros(len(at), dtype=np.int64),
            slot[at],
            np.nan_to_num(given[at], nan=-np.inf),
            rule=duplicates,
            smaller_is_better=False,
            error=lambda before, again: error(at[before], at[again]),
        )
        at = at if drop is None else at[~drop]
        label[slot[at]] = given[at]
    return Labels.from_codes(slots, label)
