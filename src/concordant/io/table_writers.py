"""Writes containers as CSV, TSV, JSON lines and Parquet; reading the file returns an equal container."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import polars as pl

from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.container import Container
from concordant.data.features import Features
from concordant.data.preferences import Preferences
from concordant.errors import DataError, quote
from concordant.io._files import TABLE_ENDINGS, PathLike, atomic_write, display_path
from concordant.io.formats import register_format

__all__ = ["SPREADSHEETS", "refuse_unwritable", "write_separated"]

# Formats that spreadsheets open, and their separators.
SPREADSHEETS = {"csv": ",", "tsv": "\t"}
# First characters of a formula in spreadsheets; and the quote, so that removing one quote always restores the text.
_FORMULA = r"^([=+\-@\t\r\n'\uFF1D\uFF0B\uFF0D\uFF20])"


def _table(obj: Container) -> pl.DataFrame:
    """Return the frame to write, sorted so that reading it returns the items in the same order."""
    if isinstance(obj, Preferences):
        return _preferences(obj)
    if isinstance(obj, Comparisons):
        return _comparisons(obj)
    if isinstance(obj, Features) and not obj.X.shape[1]:
        raise DataError("features without a column cannot be written as a table: no reader could tell what it holds.")
    return obj.to_frame()


def _preferences(p: Preferences) -> pl.DataFrame:
    """Return the rows in an order in which the items of each instance first occur in the order of their slots.

    The rows of a list stay in order. Rows are sorted by the largest slot so far in their list, so that the first row of
    a slot precedes all rows with later slots.
    """
    frame = p.to_frame()
    silent = np.ones(p.n_slots, dtype=np.bool_)
    silent[p.slot] = False
    extra = np.flatnonzero(silent).astype(np.int32)
    slot = np.concatenate([p.slot, extra])
    group = np.concatenate([p.row_list, p.n_lists + np.arange(len(extra), dtype=np.int32)])
    shown = np.argsort(p.slots.instance[slot], kind="stable") if len(extra) else np.arange(len(slot))
    slot, group = slot[shown], group[shown]
    _, first = np.unique(slot, return_index=True)
    if (np.diff(first) > 0).all():
        return frame
    begins = np.ones(len(slot), dtype=np.bool_)
    begins[1:] = group[1:] != group[:-1]
    heads = np.flatnonzero(begins)
    # One running maximum for all lists: every list gets an offset above those before it.
    lift = np.repeat(np.arange(len(heads), dtype=np.int64) * p.n_slots, np.diff(heads, append=len(slot)))
    reach = np.maximum.accumulate(slot + lift) - lift
    return frame[np.argsort(reach, kind="stable")]


def _comparisons(c: Comparisons) -> pl.DataFrame:
    """Return the rows, then one for each item that is never compared; without sides the columns have other names."""
    frame = c.to_frame()
    silent = np.ones(c.n_slots, dtype=np.bool_)
    silent[c.left] = False
    silent[c.right] = False
    if silent.any():
        slots = np.flatnonzero(silent)
        items = c.items.take(slots).tolist()
        instances = c.instances.take(c.slots.instance[slots]).tolist()
        known = pl.DataFrame({"instance": instances, "left": items}, schema={"instance": pl.String, "left": pl.String})
        frame = pl.concat([frame, known], how="diagonal")
    if not c.sided:
        frame = frame.rename(
            {"left": "item_i", "right": "item_j", "n_left": "wins_i", "n_right": "wins_j", "n_ties": "ties"}
        )
    return frame


def refuse_unwritable(frame: pl.DataFrame, path: PathLike) -> None:
    """Raise for ids that reading a text table would change: empty, with outer blanks, or with a NUL."""
    for name, dtype in frame.schema.items():
        if dtype == pl.String:
            bad = frame[name].drop_nulls()
            bad = bad.filter((bad == "") | (bad != bad.str.strip_chars()) | bad.str.contains("\0", literal=True))
            if len(bad):
                raise DataError(
                    f"{display_path(path)}: the id {quote(bad[0])} cannot be written to a text table, which has no NUL "
                    "and drops blanks around fields. Rename it, or write Parquet."
                )


def write_separated(
    frame: pl.DataFrame, handle: BinaryIO, kind: str, *, quote_formulas: bool = False, header: bool = True
) -> None:
    """Write a table as "csv" or "tsv".

    `quote_formulas` puts a ``'`` before every text and column name that a spreadsheet would take for a formula, which
    guards against CSV injection, also called formula injection.

    >>> import io
    >>> out = io.BytesIO()
    >>> write_separated(pl.DataFrame({"item": ["=1+1", "a"], "score": [-1, 2]}), out, "csv", quote_formulas=True)
    >>> print(out.getvalue().decode(), end="")
    item,score
    '=1+1,-1
    a,2
    """
    if quote_formulas:
        frame = frame.with_columns(pl.col(pl.String).str.replace(_FORMULA, "'$1"))
        frame = frame.rename({name: f"'{name}" for name in frame.columns if re.search(_FORMULA, name)})
    frame.write_csv(handle, separator=SPREADSHEETS[kind], include_header=header)


def _write_separated(kind: str, obj: Container, path: PathLike, quote_formulas: bool = False) -> None:
    frame = _table(obj)
    refuse_unwritable(frame, path)
    with atomic_write(path) as handle:
        write_separated(frame, handle, kind, quote_formulas=quote_formulas)


def _append_separated(
    kind: str, consensus: Consensus, handle: BinaryIO, *, first: bool, quote_formulas: bool = False
) -> None:
    frame = consensus.to_frame()
    refuse_unwritable(frame, "the consensus")
    write_separated(frame, handle, kind, quote_formulas=quote_formulas, header=first)


def _write_jsonl(obj: Container, path: PathLike) -> None:
    frame = _table(obj)
    refuse_unwritable(frame, path)
    with atomic_write(path) as handle:
        frame.write_ndjson(handle)


def _append_jsonl(consensus: Consensus, handle: BinaryIO, *, first: bool) -> None:  # noqa: ARG001 - all lines are alike
    frame = consensus.to_frame()
    refuse_unwritable(frame, "the consensus")
    frame.write_ndjson(handle)


def _write_parquet(obj: Container, path: PathLike) -> None:
    with atomic_write(path) as handle:
        _table(obj).write_parquet(handle)


def _append_parquet(consensus: Consensus, handle: BinaryIO, *, first: bool) -> None:  # noqa: ARG001 - each is a file
    consensus.to_frame().write_parquet(handle)


def _join_parquet(parts: list[Path], handle: BinaryIO) -> None:
    handle.flush()
    pl.scan_parquet(parts).sink_parquet(handle)


for _kind, _about in (("csv", "a table, comma-separated"), ("tsv", "a table, tab-separated")):
    register_format(
        _kind,
        _about,
        write=partial(_write_separated, _kind),
        append=partial(_append_separated, _kind),
        extensions=TABLE_ENDINGS[_kind],
    )
register_format(
    "jsonl", "a table of JSON lines", write=_write_jsonl, append=_append_jsonl, extensions=TABLE_ENDINGS["jsonl"]
)
register_format(
    "parquet",
    "a Parquet table",
    write=_write_parquet,
    append=_append_parquet,
    join=_join_parquet,
    extensions=TABLE_ENDINGS["parquet"],
)
