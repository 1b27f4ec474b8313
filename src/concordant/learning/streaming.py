"""Aggregate blocks of instances into one file, with a few blocks in memory at a time.

While a block is aggregated, the next one is read and the one before is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from concordant.base.block_consensus import consensus_of_blocks
from concordant.base.contract import Aggregator
from concordant.base.registry import create
from concordant.errors import ConcordantError, KindError
from concordant.io._tables import FILE_TYPES
from concordant.io.block_writer import BlockWriter
from concordant.io.read import memory_needed, sniff
from concordant.io.tabular import names_experts
from concordant.io.write import format_of
from concordant.learning.checkpoints import checkpoint as fit_checkpoint

if TYPE_CHECKING:
    from concordant.data.preferences import Preferences
    from concordant.execution.blocks import Blocks
    from concordant.io._column_roles import Columns
    from concordant.io._files import PathLike

__all__ = ["aggregate_blocks", "can_collapse"]

# Files of comparisons that need less memory than this many bytes are read in full, without collapsing.
LARGE_FILE_BYTES = 10**9


def aggregate_blocks(
    blocks: Blocks,
    output: PathLike,
    method: str | Aggregator = "rrf",
    *,
    format: str | None = None,  # noqa: A002 - the name users know
    fitted: bool = False,
    adjust: Callable[[Preferences], Preferences] | None = None,
    top: int | None = None,
    checkpoint: PathLike | None = None,
    **options: Any,
) -> int:
    r"""Write the consensus of all blocks to one file, and return how many items it ranks.

    Parameters
    ----------
    blocks : Blocks
        The preferences, from `scan`.
    output : path
        The file; it appears only when it is complete. Its extension gives the format: .trec, .csv, .tsv, .jsonl or
        .parquet; text may be compressed with a further .gz, .xz, .bz2 or .zst.
    method : str or Aggregator
        A method that learns nothing from the data, such as "rrf"; one that learns by sums over blocks, such as "ulara";
        or a fitted one.
    format : str, optional
        The format, if the extension does not give it.
    fitted : bool
        Whether `method` is fitted already, such as one from `load`, so that it only predicts.
    adjust : function, optional
        Applied to every block first, such as ``lambda p: p.with_weights({"bm25": 2})``.
    top : int, optional
        How many items of each instance to write: by default 1000 in a run, and all of them otherwise.
    checkpoint : path, optional
        A folder for the state of the fit and the finished blocks. After an interruption the same call resumes from it.
        Both are removed when the file is complete. See also `scan`.
    **options
        For a run: `tag` and `break_ties`, as for `write_run`. For "csv" and "tsv": `quote_formulas`, as for `write`.

    Notes
    -----
    The file holds what ``write(aggregate(read(...)))`` would, in the same order.

    Examples
    --------
    >>> import concordant as cc, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.trec").write_text("1 Q0 d1 1 9.5 bm25\n2 Q0 d2 1 8.1 bm25\n")
    >>> with cc.scan(folder / "a.trec", block_rows=1) as blocks:
    ...     cc.aggregate_blocks(blocks, folder / "fused.trec", "rrf")
    2
    >>> print((folder / "fused.trec").read_text(), end="")
    1 Q0 d1 1 0.01639344262295082 concordant
    2 Q0 d2 1 0.01639344262295082 concordant
    """
    chosen = create(method)
    if not chosen.tags.per_instance:
        raise KindError(f"{type(chosen).__name__} ranks all instances together, so that it cannot go block by block.")
    if not chosen.goes_block_by_block(fitted=fitted, weighted=adjust is not None):
        raise KindError(
            f"{type(chosen).__name__} learns from all instances together, so that it cannot be fitted block by block. "
            "Fit it on some of them first and pass it with fitted=True."
        )
    if (format or format_of(output)) == "trec":
        options["top"], top = 1000 if top is None else top, None
    state = vars(chosen) if fitted else chosen.get_params()
    digests = {name: _digest(value) for name, value in sorted(state.items()) if name != "fit_info_"}
    job = {"blocks": blocks.job, "method": chosen.name, "state": digests, "top": top, "adjusted": adjust is not None}
    with BlockWriter(output, format, checkpoint, job, **options) as parts:
        if not fitted:
            with nullcontext() if checkpoint is None else fit_checkpoint(parts.folder / "fit"):
                chosen.fit(blocks)
        missing = [b for b in range(len(blocks)) if not parts.has(b)]
        with ThreadPoolExecutor(1) as writer:
            pending: Future[None] | None = None
            answers = consensus_of_blocks(blocks.shards.select(missing), chosen, adjust, top)
            for b, consensus in zip(missing, answers, strict=True):
                if pending is not None:
                    pending.result()
                pending = writer.submit(parts.put, b, consensus)
            if pending is not None:
                pending.result()
        items = parts.join(len(blocks))
        if chosen.learns() and not fitted:
            (parts.folder / "fit").unlink(missing_ok=True)
        return items


def can_collapse(
    method: Aggregator,
    path: PathLike | list[PathLike],
    format: str | None = None,  # noqa: A002 - the name users know
    columns: Columns | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> bool:
    """Return whether to read comparisons with ``collapse=True``: the file is large, and the method needs only counts.

    Parameters
    ----------
    method : Aggregator
        The method that will use the data.
    path, format, columns
        As for `read`.
    say : function, optional
        Called with a sentence if the method needs all rows of a large file in memory.
    """
    if not method.counts_suffice(has_experts=False):
        return False
    try:
        if memory_needed(path) < LARGE_FILE_BYTES:
            return False
        if not {"left", "right", "winner", "loser", "n_left"} & set(columns if isinstance(columns, dict) else ()):
            known = None if format in FILE_TYPES else format
            if (known or sniff(path)) != "comparisons":
                return False
        experts = names_experts(path, columns=columns)
    except ConcordantError:
        # The reader says what is wrong.
        return False
    if not method.counts_suffice(experts):
        say(
            "all rows are held in memory, because the answer depends on who compared. Counts of pairs take less: "
            "--read collapse=true -p uncertainty=information, if intervals need not be clustered by expert."
        )
        return False
    return True


def _digest(value: Any) -> str:
    """Return a text that identifies a value; for an array, a hash of its bytes."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.blake2b(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    return repr(value)
