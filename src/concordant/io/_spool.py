"""Spools encoded rows that do not fit in memory to disk, and returns them in blocks of whole instances.

Input is read once and encoded batch by batch; the arrays of every batch are written to files and memory-mapped.
Batches are sorted by instance, so that consecutive instances are a slice of every batch. A block is these slices,
merged.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Hashable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concordant.arrays import Codes, Floats, Ints
from concordant.data.index import Texts
from concordant.errors import DataError, FormatError, shorten
from concordant.io._dictionary_encoding import Batch, DictionaryEncoder, EncodedRows, merge_batches
from concordant.io._files import atomic_write, display_path, temporary_folder
from concordant.io._locks import CHECKPOINT_LOCK, FolderLock, TemporaryPath, lock_folder, remove_unfinished
from concordant.io._row_sources import RowSource
from concordant.kernels.lists import offsets_of

__all__ = ["Spool"]

_STATE = "spool.json"
# Arrays of a batch that are memory-mapped.
_ARRAYS = ("instance", "expert", "origin", "slot", "first")
_OPTIONAL = ("value", "weight")
# A file of at most this size holds no rows; empty arrays cannot be memory-mapped.
_HEADER = 128
# Texts per record batch; a block reads whole record batches.
_TEXTS = 1 << 18


class _StoredBatch(NamedTuple):
    """A batch on disk; all arrays except the two offsets are memory-mapped."""

    instance: Codes
    expert: Codes
    origin: Ints
    slot: Codes
    value: Floats | None
    weight: Floats | None
    items: Path
    first: Ints
    run_offsets: Ints  # rows before every run
    slot_offsets: Ints  # slots before every instance known when the batch was written
    repeated: bool


class Spool:
    """A folder that stores the batches of an encoder and returns blocks of instances.

    Parameters
    ----------
    folder : path, optional
        Where to create a temporary folder, which `close` removes; the system's folder for temporary files by default.
    kept : path, optional
        A checkpoint folder that stays: interrupted reading resumes from its last `mark`. No other process may use it
        until `close`.
    job : dict, optional
        The files and options; the checkpoint of another job is refused.

    Notes
    -----
    On disk: 12 bytes for every row and, in every batch, the text of every item once. In memory: 8 bytes for every
    instance of a batch and 8 for every run of rows of one instance and expert.

    Examples
    --------
    >>> spool = Spool()
    >>> encoder = DictionaryEncoder(sink=spool, batch_rows=2)
    >>> encoder.add(pl.DataFrame({"instance": ["q", "q"], "item": ["a", "b"], "value": [2.0, 1.0]}), expert="x")
    >>> encoder.add(pl.DataFrame({"instance": ["p", "q"], "item": ["b", "b"], "value": [7.0, 5.0]}), expert="y")
    >>> spool.seal(encoder)
    >>> spool.block(0, 1).preferences("score")
    Preferences: 1 instance, 2 experts, 2 items, 3 scores in 2 lists
    >>> spool.close()
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        kept: str | os.PathLike[str] | None = None,
        job: dict[str, Any] | None = None,
    ) -> None:
        self._stored: list[_StoredBatch] = []
        self._rows: Ints = np.zeros(0, dtype=np.int64)
        self._vocabulary: tuple[Texts, list[Hashable], list[tuple[int, RowSource]], bool] | None = None
        self._job = job
        self._state: dict[str, Any] | None = None
        self._temporary: TemporaryPath | None = None
        self._lock: FolderLock | None = None
        try:
            if kept is None:
                # Named after the input files, so that the next call removes what a killed process left behind.
                files = json.dumps([file[0] for file in (job or {}).get("files", ())])
                key = hashlib.blake2b(files.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
                self._temporary = TemporaryPath(
                    Path(folder or temporary_folder()), f"concordant-{key}-", "", folder=True
                ).create()
                self.folder = self._temporary.path
            else:
                self.folder = Path(kept)
                self.folder.mkdir(parents=True, exist_ok=True)
                self._lock = lock_folder(self.folder)
        except OSError as error:
            where = os.fspath(kept or folder or temporary_folder())
            raise DataError(
                f"no folder for rows that do not fit in memory can be made in {display_path(where)!r} "
                f"({error.strerror}). Name another one."
            ) from error
        if kept is not None:
            self._resume()

    def _resume(self) -> None:
        """Load the checkpoint of the folder, or raise if it belongs to another job."""
        path = self.folder / _STATE
        if not path.exists():
            return
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            if state["job"] != json.loads(json.dumps(self._job)):
                raise FormatError(
                    f"{self.folder}: the checkpoint of another job: files, options or version differ. Go on with what "
                    "it was begun with, or remove it to begin anew."
                )
            for n, batch in enumerate(state["batches"]):
                length, counts = (np.load(self.folder / f"{n}.{name}.npy") for name in ("length", "counts"))
                mapped = {name: _mapped(self._path(n, name)) for name in (*_ARRAYS, *batch["more"])}
                self._add_stored(n, mapped, length, counts, batch["repeated"])
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise FormatError(
                f"{self.folder}: the checkpoint is damaged ({shorten(str(error))}). Remove it to begin anew."
            ) from error
        self._state = state

    def restore(self, encoder: DictionaryEncoder) -> tuple[int, Any, bool]:
        """Return the number of steps done, the state of the reader, and whether reading is complete."""
        if self._state is None:
            return 0, None, False
        state = self._state
        experts = [tuple(e) if isinstance(e, list) else e for e in state["experts"]]
        encoder.restore(state["instances"], experts, state["rows"], nulls=state["nulls"])
        return int(state["steps"]), state["reader"], bool(state["sealed"])

    def mark(self, encoder: DictionaryEncoder, steps: int, reader: Any, *, sealed: bool = False) -> None:
        """Write a checkpoint from which reading can resume."""
        encoder.flush()
        state = {
            "job": self._job,
            "steps": steps,
            "reader": reader,
            "sealed": sealed,
            "rows": encoder.n_rows,
            "nulls": encoder.nulls,
            "instances": list(encoder.instances),
            "experts": list(encoder.experts),
            "batches": [
                {"repeated": stored.repeated, "more": [name for name in _OPTIONAL if getattr(stored, name) is not None]}
                for stored in self._stored
            ],
        }
        with atomic_write(self.folder / _STATE) as handle:
            handle.write(json.dumps(state).encode())

    def put(self, batch: Batch) -> None:
        """Write a batch to disk."""
        n = len(self._stored)
        try:
            more = [name for name in _OPTIONAL if getattr(batch, name) is not None]
            for name in (*_ARRAYS, "length", "counts", *more):
                np.save(self._path(n, name), getattr(batch, name))
            batch.items.to_frame("item").write_ipc(self._items(n), compression="uncompressed", record_batch_size=_TEXTS)
            mapped = {name: _mapped(self._path(n, name)) for name in (*_ARRAYS, *more)}
        except OSError as error:
            raise DataError(
                f"rows that do not fit in memory cannot be kept in {display_path(self.folder)!r} "
                f"({error.strerror or error}). Make room there, or name another folder."
            ) from error
        self._add_stored(n, mapped, batch.length, batch.counts, batch.repeated)

    def _path(self, n: int, name: str) -> Path:
        return self.folder / f"{n}.{name}.npy"

    def _items(self, n: int) -> Path:
        return self.folder / f"{n}.items.arrow"

    def _add_stored(self, n: int, mapped: dict[str, NDArray[Any]], length: Ints, counts: Ints, repeated: bool) -> None:
        rows = np.bincount(mapped["instance"], weights=length, minlength=len(counts)).astype(np.int64)
        rows[: len(self._rows)] += self._rows
        self._rows = rows
        self._stored.append(
            _StoredBatch(
                **{name: mapped.get(name) for name in (*_ARRAYS, *_OPTIONAL)},  # type: ignore[arg-type]
                items=self._items(n),
                run_offsets=offsets_of(length),
                slot_offsets=offsets_of(counts),
                repeated=repeated,
            )
        )

    def seal(self, encoder: DictionaryEncoder) -> None:
        """Write the last batch of an encoder, and keep its instances, experts and sources."""
        encoder.flush()
        self._vocabulary = (Texts(list(encoder.instances)), list(encoder.experts), encoder.sources, encoder.nulls)

    @property
    def rows(self) -> Ints:
        """How many rows every instance has, in the order of the instances."""
        return self._rows

    @property
    def instances(self) -> Texts:
        """The instances in first-seen order."""
        return self._sealed()[0]

    @property
    def experts(self) -> list[Hashable]:
        """The keys of the experts in the vocabulary of the encoder."""
        return self._sealed()[1]

    def _sealed(self) -> tuple[Texts, list[Hashable], list[tuple[int, RowSource]], bool]:
        if self._vocabulary is None:
            raise DataError("the spool is not sealed yet.")
        return self._vocabulary

    def block(self, begin: int, end: int) -> EncodedRows:
        """Return the rows of the instances `begin` to `end`, encoded as if there were no others."""
        instances, experts, sources, nulls = self._sealed()
        parts = [part for stored in self._stored if (part := _slice(stored, begin, end)) is not None]
        return merge_batches(parts, instances[begin:end], experts, sources, valued=True, nulls=nulls)

    @staticmethod
    def discard(folder: Path) -> None:
        """Remove the files of a spool from a checkpoint folder, and nothing else."""
        # The state goes first: without it the other files are ignored.
        for own in (_STATE, "[0-9]*.npy", "[0-9]*.items.arrow", CHECKPOINT_LOCK):
            for path in folder.glob(own):
                path.unlink(missing_ok=True)
        remove_unfinished(folder, f".{_STATE}.")

    def close(self) -> None:
        """Remove the temporary folder, or let others use the checkpoint."""
        self._lock = None
        if self._temporary is not None:
            self._stored = []
            self._temporary.remove()


def _mapped(path: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(path, mmap_mode="r" if path.stat().st_size > _HEADER else None)
    return array


def _slice(stored: _StoredBatch, begin: int, end: int) -> Batch | None:
    """Return the slice of a batch for consecutive instances, None if it is empty."""
    known = len(stored.slot_offsets) - 1
    s0, s1 = (int(stored.slot_offsets[min(n, known)]) for n in (begin, end))
    if s0 == s1:
        return None
    g0, g1 = np.searchsorted(stored.instance, [begin, end]).tolist()
    r0, r1 = int(stored.run_offsets[g0]), int(stored.run_offsets[g1])
    counts = np.zeros(end - begin, dtype=np.int64)
    own = np.diff(stored.slot_offsets[begin : min(end, known) + 1])
    counts[: len(own)] = own
    return Batch(
        stored.instance[g0:g1] - np.int32(begin),
        np.array(stored.expert[g0:g1]),
        np.diff(stored.run_offsets[g0 : g1 + 1]),
        np.array(stored.origin[g0:g1]),
        stored.slot[r0:r1] - np.int32(s0),
        None if stored.value is None else np.array(stored.value[r0:r1]),
        pl.scan_ipc(stored.items).slice(s0, s1 - s0).collect()["item"],
        np.array(stored.first[s0:s1]),
        counts,
        stored.repeated,
        None if stored.weight is None else np.array(stored.weight[g0:g1]),
    )
