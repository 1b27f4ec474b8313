"""Reads files into memory, or in blocks of instances where all of them would take too much memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from concordant.data.dataset import Dataset
from concordant.execution import free_memory
from concordant.execution.blocks import Blocks
from concordant.io.read import block_format, memory_needed, read, scan

if TYPE_CHECKING:
    from concordant.io._column_roles import Columns
    from concordant.io._files import PathLike

__all__ = ["read_or_scan"]


def read_or_scan(
    path: PathLike | Iterable[PathLike],
    format: str | None = None,  # noqa: A002 - the name users know
    *,
    columns: Columns | None = None,
    memory: int | None = None,
    checkpoint: PathLike | None = None,
    always_scan: bool = False,
    say: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> Dataset | Blocks:
    r"""Return the dataset at a path, or its preferences in blocks where all of it would take too much memory.

    Parameters
    ----------
    path, format, columns, **options
        As for `read`.
    memory : int, optional
        How many bytes the data may take in memory; half of what is free when absent.
    checkpoint : path, optional
        As for `scan`. With it the files are always read in blocks.
    always_scan : bool
        Read in blocks whatever the size, as for a cluster.
    say : function, optional
        Called with a sentence when the size of the files decides for blocks.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.trec")
    >>> _ = path.write_text("1 Q0 d1 1 9.5 bm25\n")
    >>> type(read_or_scan(path)).__name__, type(read_or_scan(path, memory=0)).__name__
    ('Dataset', 'Blocks')
    """
    paths = path if isinstance(path, str) or not isinstance(path, Iterable) else list(path)
    always = always_scan or checkpoint is not None
    needed = 0 if always else memory_needed(paths)
    if not always:
        if needed <= (free_memory() // 2 if memory is None else memory) or (
            block_format(paths, format, columns) is None
        ):
            return read(paths, format, columns=columns, **options)
        say(
            f"all of the input would take about {needed / 1e9:,.1f} GB of memory; it is read in blocks of instances, "
            "kept on disk meanwhile."
        )
    return scan(paths, format, columns=columns, checkpoint=checkpoint, memory=memory, **options)
