"""Reads preferences that do not fit in memory into blocks of whole instances, on disk or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from concordant.arrays import Bools, Ints
from concordant.data.index import Texts
from concordant.data.preferences import Kind, Preferences
from concordant.errors import DataWarning, ParameterError, warn
from concordant.execution import OnDemand, cluster, free_memory
from concordant.execution.blocks import Blocks
from concordant.io._dictionary_encoding import BATCH_ROWS, DictionaryEncoder, EncodedRows
from concordant.io._distributed import read_on_cluster
from concordant.io._files import BufferedPath, PathLike
from concordant.io._spool import Spool

__all__ = ["BLOCK_ROWS", "RowReader", "discard", "file_fingerprints", "open_blocks", "spool_blocks"]

# Rows of a block: enough to keep every core busy. A row takes about a hundred bytes while it is processed.
BLOCK_ROWS = 4_000_000
# Bytes that a row takes while it is encoded, and the minimum of rows in a batch.
_ROW_BYTES, _FEWEST_ROWS = 48, 1_000_000
# Rows between two checkpoints.
_MARK_ROWS = 2_000_000


class RowReader(Protocol):
    """Reads rows in steps, each a file or a window of one, and can resume after any step."""

    @property
    def kind(self) -> Kind:
        """What the values are."""
        ...

    def below(self, instances: Texts) -> bool | Bools:
        """Return whether items that a list leaves out are declared below what it holds; known after all steps."""
        ...

    def names(self, experts: Sequence[Hashable]) -> list[str]:
        """Return the ids of the experts in the encoder's vocabulary."""
        ...

    def job(self) -> dict[str, Any]:
        """Return a description of files and options that JSON can hold."""
        ...

    def read(self, encoder: DictionaryEncoder, done: int, mark: Callable[[int], object]) -> None:
        """Add the rows after the first `done` steps to an encoder; call `mark` with the number of steps done."""
        ...

    def n_steps(self) -> int:
        """Return how many steps there are."""
        ...

    def read_step(self, encoder: DictionaryEncoder, step: int) -> None:
        """Add the rows of one step to an encoder."""
        ...

    def state(self) -> Any:
        """Return the state that resuming needs besides the rows, as JSON can hold it."""
        ...

    def merge_states(self, states: list[Any], begins: list[int]) -> None:
        """Merge the states of steps that were read independently, given the first row of each."""
        ...

    def restore(self, state: Any) -> None:
        """Restore what `state` returned."""
        ...

    def preferences(self, rows: EncodedRows) -> Preferences:
        """Return coded rows as preferences."""
        ...


def file_fingerprints(files: Sequence[Path]) -> list[list[Any]]:
    """Return name, size and modification time of every file, or a hash of the content of a pipe."""
    return [
        [str(f), f.stat().st_size, _hash(f)]
        if isinstance(f, BufferedPath)
        else [os.path.abspath(f), f.stat().st_size, f.stat().st_mtime_ns]
        for f in files
    ]


def _hash(path: Path) -> str:
    import hashlib

    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def discard(checkpoint: PathLike) -> None:
    """Remove the checkpoint of `scan` and `aggregate_blocks`, and its folder if nothing else is in it."""
    folder = Path(checkpoint).expanduser()
    Spool.discard(folder / "rows")
    for empty in (folder / "rows", folder / "parts", folder):
        with suppress(OSError):
            empty.rmdir()


def open_blocks(
    reader: RowReader,
    *,
    block_rows: int = BLOCK_ROWS,
    folder: PathLike | None = None,
    checkpoint: PathLike | None = None,
    memory: int | None = None,
) -> Blocks:
    """Read into blocks: on the workers of the cluster in use, else on disk."""
    for name, value, least in (("block_rows", block_rows, 1), ("memory", 0 if memory is None else memory, 0)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ParameterError.invalid(name, "scan", f"a whole number >= {least}", value)
    engine = cluster()
    if engine is None:
        return spool_blocks(reader, block_rows=block_rows, folder=folder, checkpoint=checkpoint, memory=memory)
    if checkpoint is not None:
        raise ParameterError("a checkpoint is kept on this machine; data that is read on a cluster stays there.")
    found = read_on_cluster(reader, engine, lambda rows: _edges(rows, block_rows))
    job = [reader.job(), block_rows]
    below = reader.below(found.instances)
    if not found.rows.sum():
        warn("the input holds no rows.", DataWarning)
    return Blocks(found.pieces, found.instances, Texts(found.experts), found.rows, reader.kind, below=below, job=job)


def spool_blocks(
    reader: RowReader,
    *,
    block_rows: int = BLOCK_ROWS,
    folder: PathLike | None = None,
    checkpoint: PathLike | None = None,
    memory: int | None = None,
) -> Blocks:
    """Read into blocks on disk."""
    kept = None if checkpoint is None else Path(checkpoint).expanduser() / "rows"
    spool = Spool(folder, kept=kept, job=reader.job())
    try:
        encoder = DictionaryEncoder(sink=spool, batch_rows=_batch_rows(memory))
        steps, state, finished = spool.restore(encoder)
        if state is not None:
            reader.restore(state)
        marked = encoder.n_rows

        def mark(done: int) -> None:
            nonlocal marked
            # A checkpoint ends a batch, and many small batches are slow.
            if kept is not None and encoder.n_rows - marked >= _MARK_ROWS:
                spool.mark(encoder, done, reader.state())
                marked = encoder.n_rows

        if not finished:
            reader.read(encoder, steps, mark)
        spool.seal(encoder)
        if kept is not None and not finished:
            spool.mark(encoder, steps, reader.state(), sealed=True)
        edges = _edges(spool.rows, block_rows)
        return Blocks(
            OnDemand(len(edges) - 1, lambda n: reader.preferences(spool.block(edges[n], edges[n + 1]))),
            spool.instances,
            Texts(reader.names(spool.experts)),
            spool.rows,
            reader.kind,
            below=reader.below(spool.instances),
            close=spool.close,
            job=[reader.job(), block_rows],
        )
    except BaseException:
        spool.close()
        raise


def _batch_rows(memory: int | None) -> int:
    """Return the rows of a batch: as many as fit in half of `memory`, by default half of the free memory.

    Few large batches are best, because every block is merged from all batches.
    """
    room = (memory or free_memory() // 2) // 2
    return max(_FEWEST_ROWS, min(room // _ROW_BYTES, BATCH_ROWS))


def _edges(rows: Ints, block_rows: int) -> list[int]:
    """Return the instances at which blocks of about `block_rows` rows begin, and the end; at least one block."""
    n = len(rows)
    if n == 0:
        return [0, 0]
    ends = np.cumsum(rows)
    edges, done = [0], 0
    while edges[-1] < n:
        full = int(np.searchsorted(ends, done + block_rows, side="right"))
        edges.append(min(max(full, edges[-1] + 1), n))
        done = int(ends[edges[-1] - 1])
    return edges
