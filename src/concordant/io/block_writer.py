"""Writes a consensus block by block: one file per block, joined into one at the end.

The output appears only when everything is written. With a checkpoint folder the blocks stay, and the same job resumes
after them.
"""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

from concordant.data.consensus import Consensus
from concordant.errors import FormatError, ParameterError, quote
from concordant.io._files import (
    PathLike,
    atomic_write,
    check_writable,
    display_path,
    is_stream,
    naming_output,
    temporary_folder,
)
from concordant.io._locks import FolderLock, TemporaryPath, lock_folder, remove_unfinished
from concordant.io.formats import FORMATS, unknown_options
from concordant.io.write import format_of

__all__ = ["BlockWriter"]

# The file that describes the job.
_JOB = "parts.json"


class BlockWriter:
    """Writes the blocks of a consensus to parts, and joins them into one file.

    Parameters
    ----------
    path : path
        The output.
    format : str, optional
        The format: "trec", "csv", "tsv", "jsonl" or "parquet"; by the ending of the path by default.
    folder : path, optional
        The checkpoint folder, in which parts stay until the output is complete. By default a hidden folder beside the
        output, which is always removed.
    job : optional
        A description of the job that JSON can hold; parts of another job are refused.
    **options
        Those of `write_run` for a run, `quote_formulas` of `write` for "csv" and "tsv".

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "fused.csv")
    >>> with BlockWriter(path) as parts:
    ...     parts.put(1, Consensus(["b"], ["x"], [0.5]))
    ...     parts.put(0, Consensus(["a"], ["y"], [0.25]))
    ...     parts.join(2)
    2
    >>> print(path.read_text(), end="")
    instance,item,score,rank
    a,y,0.25,1
    b,x,0.5,1
    """

    def __init__(
        self,
        path: PathLike,
        format: str | None = None,  # noqa: A002 - the name users know
        folder: PathLike | None = None,
        job: Any = None,
        **options: Any,
    ) -> None:
        self.path = Path(path).expanduser()
        self.format = format or format_of(path)
        chosen = FORMATS.find(self.format)
        if chosen is None or chosen.append is None:
            raise FormatError(
                f"{display_path(path)}: the format {quote(self.format)} cannot be written block by block. "
                f"Formats that can: {', '.join(name for name in FORMATS if FORMATS[name].append is not None)}."
            )
        self._append, self._join = chosen.append, chosen.join
        wrong, _ = unknown_options(chosen.append, options, 2, but=("first",))
        if wrong:
            raise ParameterError(f"writing {quote(self.format)} does not take {', '.join(wrong)}.")
        self._options = options
        self._kept = folder is not None
        self._lock: FolderLock | None = None
        check_writable(path)
        if folder is None:
            target = Path(os.path.realpath(self.path))
            # A pipe or a device has no folder: its parts go to the folder for temporary files.
            place = temporary_folder() if is_stream(path) else target.parent
            self._temporary = TemporaryPath(place, f".{target.name[:200]}.", ".parts", folder=True)
            self.folder = self._temporary.path
            with naming_output(path):
                self._temporary.create()
        else:
            self.folder = Path(folder).expanduser()
            with naming_output(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
                self._lock = lock_folder(self.folder)
            self._check_job({"job": job, "format": self.format, "options": options})

    def _check_job(self, job: dict[str, Any]) -> None:
        """Raise if the folder holds parts of another job, else write the description of this one."""
        path, now = self.folder / _JOB, json.dumps(job, sort_keys=True)
        if not path.exists():
            with self._writing(path) as handle:
                handle.write(now.encode())
        elif path.read_text(encoding="utf-8") != now:
            raise FormatError(
                f"{self.folder}: the checkpoint of another job: data, method or format differ. Go on with what it was "
                "begun with, or remove it to begin anew."
            )

    def _writing(self, part: Path) -> AbstractContextManager[BinaryIO]:
        # Without a checkpoint folder the user knows only the name of the output.
        return atomic_write(part, named=None if self._kept else self.path)

    def _part(self, block: int) -> Path:
        return self.folder / f"part-{block:06d}.{self.format}"

    def has(self, block: int) -> bool:
        """Return whether a block is written already."""
        return self._part(block).exists()

    def put(self, block: int, consensus: Consensus) -> None:
        """Write a block atomically; blocks may come in any order."""
        with self._writing(self._count(block)) as handle:
            handle.write(str(consensus.n_slots).encode())
        with self._writing(self._part(block)) as handle:
            self._append(consensus, handle, first=block == 0, **self._options)

    def _count(self, block: int) -> Path:
        return self.folder / f"part-{block:06d}.items"

    def join(self, n_blocks: int) -> int:
        """Join the first `n_blocks` blocks into the output, remove the parts and return the number of items."""
        parts = [self._part(block) for block in range(n_blocks)]
        items = sum(int(self._count(block).read_text()) for block in range(n_blocks))
        with atomic_write(self.path) as handle:
            self._join(parts, handle)
        # The job goes last: without it, parts could be taken for those of another job.
        for part in (*parts, *(self._count(block) for block in range(n_blocks)), self.folder / _JOB):
            part.unlink(missing_ok=True)
        remove_unfinished(self.folder, ".part*.")
        return items

    def close(self) -> None:
        """Remove the parts, unless the folder was given; others may use that one now."""
        self._lock = None
        if not self._kept:
            self._temporary.remove()

    def __enter__(self) -> BlockWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
