"""Checkpoint files of a fit: write the state after a step, resume the same fit, refuse any other.

A fingerprint of the method, its parameters and the training data identifies a fit. Blocks are identified by their ids
and their files. An iterative fit creates a `StepCheckpoint` and saves its state after each step; the checkpoint decides
when to write the file, and handles interrupts.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from glob import escape
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from concordant.data.comparisons import Comparisons
from concordant.data.container import Container
from concordant.data.features import Features
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import ConcordantWarning, ConvergenceWarning, DataError, FormatError, KindError
from concordant.learning.resumable import State

if TYPE_CHECKING:
    from concordant.base.contract import Aggregator
    from concordant.execution.blocks import Blocks

__all__ = [
    "CheckpointFile",
    "StepCheckpoint",
    "checkpoint",
    "fit_fingerprint",
    "warn_of_no_checkpoint",
    "without_checkpoint",
]

FitInput: TypeAlias = "Container | Blocks | None"

# Ids are joined to one text and hashed in chunks of this many, to save memory.
_IDS_PER_CHUNK = 1 << 16


class _CheckpointOptions(NamedTuple):
    """The arguments of `checkpoint`."""

    path: Path
    resume: bool
    every: float


_checkpoint_options: ContextVar[_CheckpointOptions | None] = ContextVar("concordant_checkpoint", default=None)


@contextmanager
def checkpoint(path: str | os.PathLike[str], *, resume: bool = True, every: float = 10.0) -> Iterator[None]:
    """Write checkpoints of the fit inside the `with` block, and resume an interrupted fit from its checkpoint.

    Parameters
    ----------
    path : path
        The checkpoint file. It is replaced as a whole, so that it is never half written.
    resume : bool
        Whether to resume from the file if it exists. Otherwise the fit starts afresh and overwrites the file.
    every : float
        Seconds between two writes. The state is also written at the end and on Ctrl-C.

    Notes
    -----
    A resumed fit gives the same result as an uninterrupted one, bit for bit. A file serves one fit: with other data,
    labels or parameters it is refused. The file remains when the fit is finished.

    These fits write checkpoints: methods that train in passes, `MPM` and `PlackettLuce` when they learn adherence,
    `ExtendedMallows`, `BradleyTerry` with reliability, ties, a side effect, covariates or features, `PlackettLuce` with
    Davidson-Luce ties or features, `CPS` with labels, and `Blend`.
    `PlackettLuce` and `BradleyTerry` also write them when there is only one instance. Fits that read the data once, or
    solve each instance on its own, write none.

    Examples
    --------
    >>> import concordant as cc, tempfile, os
    >>> runs, labels = cc.synthetic.labelled_runs(12, random_state=1)
    >>> file = os.path.join(tempfile.mkdtemp(), "fit.checkpoint")
    >>> with cc.checkpoint(file):
    ...     model = cc.CRF(passes=3).fit(runs, labels)
    >>> os.path.exists(file)
    True
    """
    token = _checkpoint_options.set(_CheckpointOptions(Path(path).expanduser(), resume, every))
    try:
        yield
    finally:
        _checkpoint_options.reset(token)


@contextmanager
def without_checkpoint() -> Iterator[None]:
    """Write no checkpoint within this block: for a short part of a fit whose longer part has the file."""
    token = _checkpoint_options.set(None)
    try:
        yield
    finally:
        _checkpoint_options.reset(token)


def warn_of_no_checkpoint(owner: Aggregator, why: str) -> None:
    """Warn, inside a `checkpoint` block, that this fit writes no checkpoint and cannot be resumed."""
    if _checkpoint_options.get() is not None:
        owner._warn(
            f"{type(owner).__name__} writes no checkpoint: {why}. An interrupted fit starts afresh.", ConcordantWarning
        )


class _CheckpointArrays(dict[str, NDArray[Any]]):
    """Arrays of a checkpoint by name; a missing array raises an error that names the file."""

    def __init__(self, path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
        super().__init__(arrays)
        self.path = path

    def __missing__(self, name: str) -> NDArray[Any]:
        raise FormatError(f"{self.path}: the checkpoint lacks a part. Remove it to start afresh.")


class CheckpointFile:
    """The checkpoint file of one fit.

    Parameters
    ----------
    options : _CheckpointOptions
        The arguments of `checkpoint`.
    owner : Aggregator
        The method that is fitted.
    inputs : sequence
        The containers it learns from; None for an absent one.
    arrays : sequence of arrays
        Everything else that the result depends on.
    """

    def __init__(
        self, options: _CheckpointOptions, owner: Aggregator, inputs: Sequence[FitInput], arrays: Sequence[NDArray[Any]]
    ) -> None:
        self.path, self.resume, self.every = options
        self._fit = (owner, inputs, arrays)
        self._written = monotonic()
        self._failed = False

    @classmethod
    def of(
        cls, owner: Aggregator, inputs: Sequence[FitInput], arrays: Sequence[NDArray[Any]] = ()
    ) -> CheckpointFile | None:
        """Return the file of the enclosing `checkpoint` block, None outside of one."""
        options = _checkpoint_options.get()
        return None if options is None else cls(options, owner, inputs, arrays)

    @cached_property
    def _header(self) -> dict[str, Any]:
        owner, inputs, arrays = self._fit
        return {"method": owner.name, "fit": fit_fingerprint(owner, inputs, arrays)}

    @property
    def due(self) -> bool:
        """Whether it is time for the next write."""
        return monotonic() - self._written >= self.every

    def write(self, header: Mapping[str, Any], arrays: State) -> None:
        """Write the state. If that fails, warn once and let the fit continue."""
        from concordant.base.saving import write_arrays

        try:
            write_arrays(self.path, "checkpoint", self._header | dict(header), arrays)
        except DataError as error:
            if not self._failed:
                self._fit[0]._warn(f"{error} The fit continues without writing this checkpoint.", ConcordantWarning)
            self._failed = True
        self._written = monotonic()

    def read(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """Return the header and the state to resume from, or None; raise FormatError for the state of another fit."""
        from concordant.base.saving import read_arrays
        from concordant.io._locks import remove_unfinished

        remove_unfinished(self.path.parent, f".{escape(self.path.name[:200])}.")
        if not self.resume or not self.path.exists():
            return None
        header, arrays = read_arrays(self.path, "checkpoint")
        if any(header.get(name) != value for name, value in self._header.items()):
            raise FormatError(
                f"{self.path}: the checkpoint of another fit (of {header.get('method')!r}): the data, the reading "
                "options, the labels or the parameters differ. Use the same ones again, or remove it to start afresh."
            )
        return header, _CheckpointArrays(self.path, arrays)


class StepCheckpoint:
    """The `Checkpointer` of a method that fits in steps.

    An interrupt after the first step keeps the estimate of the last finished step. `fit_info_.interrupted` names that
    step, and the interrupt is raised again at the end of the fit.

    Parameters
    ----------
    owner, inputs, arrays
        As in `CheckpointFile`.

    Attributes
    ----------
    done : int
        Number of finished steps.

    Examples
    --------
    A method that halves a number twenty times and can be resumed after each halving:

    >>> import concordant as cc
    >>> class Halving(cc.Aggregator):
    ...     def _fit(self, preferences, labels, validation, features):
    ...         checkpoint = StepCheckpoint(self, [preferences])
    ...         known = checkpoint.restore()
    ...         x, done = (np.ones(1), 0) if known is None else (known["x"], int(known["done"]))
    ...         with checkpoint.steps(20):
    ...             while done < 20:
    ...                 x, done = x / 2, done + 1
    ...                 checkpoint.save(done, lambda: {"x": x, "done": np.array(done)})
    ...         self.half_ = x
    """

    def __init__(self, owner: Aggregator, inputs: Sequence[FitInput], arrays: Sequence[NDArray[Any]] = ()) -> None:
        self._owner = owner
        self._file = CheckpointFile.of(owner, inputs, arrays)
        self.done = 0
        self._state: State | None = None

    @property
    def enabled(self) -> bool:
        """Whether the fit writes checkpoints."""
        return self._file is not None

    def restore(self) -> State | None:
        """Return the state to resume from, or None."""
        found = None if self._file is None else self._file.read()
        if found is None:
            return None
        self.done = int(found[0].get("done", 0))
        return found[1]

    def save(self, done: int, state: Callable[[], State]) -> None:
        """Keep the state after `done` steps, and write it if a write is due."""
        self.done = done
        if self._file is not None:
            self._state = state()
            if self._file.due:
                self._write()

    @contextmanager
    def steps(self, total: int) -> Iterator[None]:
        """Return a context for at most `total` steps: an interrupt ends it; the last saved state is written."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit) as stop:
            self._write()
            if not self.done:
                raise
            owner = self._owner
            owner.fit_info_.interrupted = f"after step {self.done} of {total}"
            owner._interrupt = stop
            owner._warn(
                f"{type(owner).__name__} was interrupted {owner.fit_info_.interrupted}: the estimate of that step is "
                "kept.",
                ConvergenceWarning,
            )
        else:
            self._write()

    def _write(self) -> None:
        if self._file is not None and self._state is not None:
            self._file.write({"done": self.done}, self._state)
            self._state = None


def fit_fingerprint(owner: Aggregator, inputs: Sequence[FitInput], arrays: Sequence[NDArray[Any]] = ()) -> str:
    """Return a hash of everything a fit depends on."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps(owner.get_params(), sort_keys=True, default=repr).encode())
    columns: list[NDArray[Any]] = []
    for data in inputs:
        if data is None:
            continue
        id_columns, number_columns = _contents(data)
        for ids in id_columns:
            digest.update(f"{len(ids)}\0".encode())
            for first in range(0, len(ids), _IDS_PER_CHUNK):
                chunk = ids[first : first + _IDS_PER_CHUNK]
                digest.update("".join(f"{i}\0" for i in chunk).encode("utf-8", "surrogatepass"))
        columns += number_columns
    for column in [*columns, *arrays]:
        digest.update(f"{column.dtype}{column.shape}".encode())
        # A view, because the features may be too large to copy.
        digest.update(np.ascontiguousarray(column).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _contents(data: Container | Blocks) -> tuple[list[Sequence[str]], list[NDArray[Any]]]:
    """Return the ids and the numbers that identify a container; for blocks, their files and how these were read."""
    if not isinstance(data, Container):
        if data.job is None:
            raise KindError("these blocks do not name their files, so that no checkpoint can identify them.")
        return [["blocks", json.dumps(data.job, sort_keys=True)], data.instances, data.experts], [data.rows]
    ids: list[Sequence[str]] = [[type(data).__name__], data.instances, data.items]
    columns: list[NDArray[Any]] = [data.slots.offsets]
    if isinstance(data, Features):
        ids.append(data.names)
        columns.append(data.X)
    elif isinstance(data, Labels):
        columns.append(data.label)
    elif isinstance(data, Preferences):
        ids += [data.experts, [data.kind]]
        columns += [data.slot, data.value, data.list_offsets, data.list_expert, data.list_starts, data.weights]
    elif isinstance(data, Comparisons):
        ids += [data.experts, [f"sided={data.sided}"]]
        columns += [data.left, data.right, data.n_left, data.n_right, data.n_ties]
        columns += [] if data.expert is None else [data.expert]
    return ids, columns
