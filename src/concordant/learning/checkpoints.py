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

__all__ = ["CheckpointFile", "StepCheckpoint", "checkpoint", "fit_fingerprint"]

FitInput: TypeAlias = "Container | Blocks | None"

# So many ids are hashed at a time.
_IDS = 1 << 16


class _CheckpointOptions(NamedTuple):
    """Which file, whether to go on from it, and the seconds between two writings."""

    path: Path
    resume: bool
    every: float


_checkpoint_options: ContextVar[_CheckpointOptions | None] = ContextVar("concordant_checkpoint", default=None)


@contextmanager
def checkpoint(path: str | os.PathLike[str], *, resume: bool = True, every: float = 10.0) -> Iterator[None]:
    """Have the fit inside the block write where it stands to a file, and go on from there when it is run again.

    Parameters
    ----------
    path : path
        The file; written whole or not at all.
    resume : bool
        Go on from the file where it exists; otherwise begin anew and overwrite it.
    every : float
        Seconds between two writings. The state is also written at the end and on Ctrl-C.

    Notes
    -----
    What is resumed ends bit for bit where it would have ended without the break. A file of another fit (other data,
    labels or parameters) is refused. It is for one fit, and stays when that is finished.

    Every fit that goes in passes or steps over all its data writes one: whatever trains in passes, `MPM` and
    `PlackettLuce` that learn adherence, `ExtendedMallows`, `BradleyTerry` with reliability, ties, a side effect or
    features, both of the latter where one instance is all there is, and `CPS` with labels. What goes through the data
    once, or through each instance by itself, writes none.

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


class _CheckpointArrays(dict[str, NDArray[Any]]):
    """Arrays of a checkpoint; one that is not there is an error that names the file."""

    def __init__(self, path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
        super().__init__(arrays)
        self.path = path

    def __missing__(self, name: str) -> NDArray[Any]:
        raise FormatError(f"{self.path}: the checkpoint lacks a part. Remove it to begin anew.")


class CheckpointFile:
    """The file of one fit.

    Parameters
    ----------
    owner : Aggregator
        Whose fit it is.
    parts : sequence
        What it learns from; None where there is nothing.
    more : sequence of arrays
        What else it depends on.
    """

    def __init__(
        self, place: _CheckpointOptions, owner: Aggregator, parts: Sequence[FitInput], more: Sequence[NDArray[Any]]
    ) -> None:
        self.path, self.resume, self.every = place
        self._fit = (owner, parts, more)
        self._written = monotonic()
        self._failed = False

    @classmethod
    def of(
        cls, owner: Aggregator, parts: Sequence[FitInput], more: Sequence[NDArray[Any]] = ()
    ) -> CheckpointFile | None:
        """Return the file that was asked for around this fit, None without one."""
        place = _checkpoint_options.get()
        return None if place is None else cls(place, owner, parts, more)

    @cached_property
    def _header(self) -> dict[str, Any]:
        owner, parts, more = self._fit
        return {"method": owner.name, "fit": fit_fingerprint(owner, parts, more)}

    @property
    def due(self) -> bool:
        """Whether the last writing is long enough ago."""
        return monotonic() - self._written >= self.every

    def write(self, header: Mapping[str, Any], arrays: State) -> None:
        """Write the state, whole or not at all. What cannot be written is said once, and the fit goes on without."""
        from concordant.base.saving import write_arrays

        try:
            write_arrays(self.path, "checkpoint", self._header | dict(header), arrays)
        except DataError as error:
            if not self._failed:
                self._fit[0]._warn(
                    f"{error} The fit goes on without a checkpoint of where it is now.", ConcordantWarning
                )
            self._failed = True
        self._written = monotonic()

    def read(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """Return the state to go on from, None where there is none; that of another fit is an error."""
        from concordant.base.saving import read_arrays
        from concordant.io._locks import remove_unfinished

        remove_unfinished(self.path.parent, f".{escape(self.path.name[:200])}.")
        if not self.resume or not self.path.exists():
            return None
        header, arrays = read_arrays(self.path, "checkpoint")
        if any(header.get(name) != value for name, value in self._header.items()):
            raise FormatError(
                f"{self.path}: the checkpoint of another fit (of {header.get('method')!r}): data, how they are read, "
                "labels or parameters differ. Go on with what it was begun with, or remove it to begin anew."
            )
        return header, _CheckpointArrays(self.path, arrays)


class StepCheckpoint:
    """Keeps how far the steps of one fit are, as `Checkpointer` has it.

    Parameters
    ----------
    owner : Aggregator
        Whose fit it is. An interrupt after the first step leaves it with what it has learned so far; it is noted in
        `fit_info_.interrupted`, and raised again when the fit is through.
    parts, more
        What it depends on, as in `CheckpointFile`.

    Attributes
    ----------
    done : int
        After how many steps the owner stands; 0 for a fit that holds nothing yet.

    Examples
    --------
    A method that halves a number twenty times: broken off or killed, it does not begin anew.

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

    def __init__(self, owner: Aggregator, parts: Sequence[FitInput], more: Sequence[NDArray[Any]] = ()) -> None:
        self._owner = owner
        self._file = CheckpointFile.of(owner, parts, more)
        self.done = 0
        self._state: State | None = None

    @property
    def enabled(self) -> bool:
        """Whether anything is written."""
        return self._file is not None

    def restore(self) -> State | None:
        """Return the state to go on from, or None to begin."""
        found = None if self._file is None else self._file.read()
        if found is None:
            return None
        self.done = int(found[0].get("done", 0))
        return found[1]

    def save(self, done: int, state: Callable[[], State]) -> None:
        """Keep the state after so many steps, and write it where it is time to."""
        self.done = done
        if self._file is not None:
            self._state = state()
            if self._file.due:
                self._write()

    @contextmanager
    def steps(self, total: int) -> Iterator[None]:
        """Give a block that an interrupt ends after the step noted last, which is also written at the end."""
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
                f"{type(owner).__name__} was interrupted {owner.fit_info_.interrupted}: what it has learned so far is "
                "kept.",
                ConvergenceWarning,
            )
        else:
            self._write()

    def _write(self) -> None:
        if self._file is not None and self._state is not None:
            self._file.write({"done": self.done}, self._state)
            self._state = None


def fit_fingerprint(owner: Aggregator, parts: Sequence[FitInput], more: Sequence[NDArray[Any]] = ()) -> str:
    """Return a hash of everything a fit depends on."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps(owner.get_params(), sort_keys=True, default=repr).encode())
    columns: list[NDArray[Any]] = []
    for part in parts:
        if part is None:
            continue
        texts, own = _contents(part)
        for ids in texts:
            digest.update(f"{len(ids)}\0".encode())
            # Some at a time: millions of ids are heavy as texts of their own.
            for first in range(0, len(ids), _IDS):
                digest.update("".join(f"{i}\0" for i in ids[first : first + _IDS]).encode("utf-8", "surrogatepass"))
        columns += own
    for column in [*columns, *more]:
        digest.update(f"{column.dtype}{column.shape}".encode())
        # As a view: a copy of all features would be a heavy price for a name.
        digest.update(np.ascontiguousarray(column).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _contents(part: Container | Blocks) -> tuple[list[Sequence[str]], list[NDArray[Any]]]:
    """Return the ids and the numbers of what is learned from; of blocks, which files they are of and how they stood."""
    if not isinstance(part, Container):
        if part.job is None:
            raise KindError(
                "these blocks do not say what they are of, so that a checkpoint cannot tell them from others."
            )
        return [["blocks", json.dumps(part.job, sort_keys=True)], part.instances, part.experts], [part.rows]
    texts: list[Sequence[str]] = [[type(part).__name__], part.instances, part.items]
    columns: list[NDArray[Any]] = [part.slots.offsets]
    if isinstance(part, Features):
        texts.append(part.names)
        columns.append(part.X)
    elif isinstance(part, Labels):
        columns.append(part.label)
    elif isinstance(part, Preferences):
        texts += [part.experts, [part.kind]]
        columns += [part.slot, part.value, part.list_offsets, part.list_expert, part.list_starts, part.weights]
    elif isinstance(part, Comparisons):
        texts += [part.experts, [f"sided={part.sided}"]]
        columns += [part.left, part.right, part.n_left, part.n_right, part.n_ties]
        columns += [] if part.expert is None else [part.expert]
    return texts, columns
