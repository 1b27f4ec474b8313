"""Reads any file: `read` and `scan` recognise the format by content and name, without trying one reader after another.

A file that could have two formats is refused, and the error names both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from concordant.data.comparisons import Comparisons
from concordant.data.container import Container
from concordant.data.dataset import Dataset
from concordant.data.features import Features
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import ContractError, FormatError, ParameterError, listing, shorten
from concordant.execution.blocks import Blocks
from concordant.io._column_roles import Columns
from concordant.io._files import PathLike, compression, display_path, expand, uncompressed_name
from concordant.io._matrix import layout_hint
from concordant.io._sniff import most_lines_match
from concordant.io._tables import FILE_TYPES, file_type, open_table, parquet_rows
from concordant.io.blocks import BLOCK_ROWS, open_blocks
from concordant.io.formats import FORMATS, Format, Head, check_options, unknown_options

__all__ = ["block_format", "memory_needed", "read", "scan", "sniff"]

# The field of a Dataset for each container.
_PLACES: dict[type[Container], str] = {
    Preferences: "preferences",
    Comparisons: "comparisons",
    Features: "features",
    Labels: "labels",
}
# Files that explain data and are not data.
_DOCUMENTS = re.compile(
    r"(readme|licen[cs]e|copying|notice|changelog|description|details)(\..*)?|.*\.(md|rst|html?)", re.I
)


def sniff(path: PathLike | Iterable[PathLike]) -> str:
    r"""Return the name of the format of a file or folder, one of `FORMATS`.

    A folder of runs with one file of qrels is "trec".

    Raises
    ------
    FormatError
        When no format fits, or more than one.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.txt")
    >>> _ = path.write_text("301 Q0 d1 1 2.5 bm25\n")
    >>> sniff(path)
    'trec'
    """
    return next(iter(_plan(path, None)))


def read(
    path: PathLike | Iterable[PathLike],
    format: str | None = None,  # noqa: A002 - the name users know
    *,
    columns: Columns | None = None,
    **options: Any,
) -> Dataset:
    r"""Read the data at a path: preferences, comparisons, features, labels and folds, each None if there is none.

    Parameters
    ----------
    path : path, glob, folder or a list of these
        Plain or compressed files. A folder of runs may hold their qrels; a LETOR folder its folds; documents such as
        README are passed over.
    format : str, optional
        One of `FORMATS` ("trec", "qrels", "letor-agg", "letor", "letor-folds", "preflib", "comparisons", "ratings",
        "rankings", "long", "ranks", "orders", "ranks-columns", "orders-columns", "labels", "scores", "features"); or
        "csv", "tsv", "parquet", "jsonl", which name the file type of a table. Recognised by content by default.
    columns : str or mapping, optional
        Which column of a table is which, as for `read_ratings` and `read_comparisons`.
    **options
        Options of the reader of the format, such as ``expert_from``, ``duplicates`` or ``missing`` (whether items that
        a list leaves out are unknown or below).

    Returns
    -------
    Dataset
        A named tuple.

    Raises
    ------
    FormatError
        When the format is not recognised; the message names the candidates.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "bm25.trec").write_text("301 Q0 d1 1 2.5 bm25\n301 Q0 d2 2 1.5 bm25\n")
    >>> _ = (folder / "qrels.txt").write_text("301 0 d2 1\n")
    >>> found = read(folder)
    >>> found.preferences, found.labels
    (Preferences: 1 instance, 1 expert, 2 items, 2 scores in 1 list, Labels: 1 instance, 1 item, labels 1 to 1)
    """
    name = _named(format, columns, options)
    plan = _plan(path, name)
    out: dict[str, Any] = {}
    for name, files in plan.items():
        out |= {k: v for k, v in _read_as(name, files, options, len(plan) == 1)._asdict().items() if v is not None}
    return Dataset(**out)


def _read_as(name: str, files: list[Path], options: Mapping[str, Any], alone: bool) -> Dataset:
    """Read the files of one format; if there are two formats, each takes the options that its reader knows."""
    reader = cast("Callable[..., Any]", FORMATS[name].read)
    given = dict(options)
    if not alone:
        wrong, _ = unknown_options(reader, options, 1)
        given = {k: v for k, v in options.items() if k not in wrong}
    check_options(name, reader, given)
    found = reader(files, **given)
    if isinstance(found, Dataset):
        return found
    place = _PLACES.get(type(found))
    if place is None:
        raise ContractError(
            f"the reader of the format {name!r} must return a Dataset, Preferences, Comparisons, Features or Labels. "
            f"Got {type(found).__name__} instead."
        )
    return Dataset(**{place: found})


def scan(
    path: PathLike | Iterable[PathLike],
    format: str | None = None,  # noqa: A002 - the name users know
    *,
    columns: Columns | None = None,
    block_rows: int = BLOCK_ROWS,
    folder: PathLike | None = None,
    checkpoint: PathLike | None = None,
    memory: int | None = None,
    **options: Any,
) -> Blocks:
    r"""Return the preferences at a path as blocks of whole instances, of which one at a time is in memory.

    Parameters
    ----------
    path, format, columns, **options
        As for `read`: TREC runs, or tables of experts, items and ranks, ratings or scores.
    block_rows : int
        About how many rows a block has; an instance is never split.
    folder : path, optional
        Where to store the rows until the blocks are closed: 12 bytes per row and the text of the items. The system's
        folder for temporary files by default.
    checkpoint : path, optional
        A folder that keeps the rows: after an interruption the same call resumes with the next file, or the next window
        of a large table, and finished reading is not repeated. Remove the folder when it is no longer needed.
    memory : int, optional
        About how many bytes reading may take; half of the free memory by default, or if 0.

    Returns
    -------
    Blocks
        A sequence of `Preferences`. Their instances, items, experts and values, in that order, are those that `read`
        gives. Close it, or use it in a ``with`` statement, to free the disk.

    Notes
    -----
    Files are read once, whatever the order of their rows, compressed or not. Memory holds the batch of rows being
    encoded and the ids of instances and experts. Large tables are read in windows of rows or of whole lines.

    Examples
    --------
    >>> import concordant as cc, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.trec").write_text("1 Q0 d1 1 9.5 bm25\n2 Q0 d2 1 8.1 bm25\n")
    >>> _ = (folder / "b.trec").write_text("2 Q0 d2 1 0.7 dense\n1 Q0 d3 1 0.6 dense\n")
    >>> with cc.scan(folder, block_rows=2) as blocks:
    ...     [cc.aggregate(block, "rrf").ranking() for block in blocks]
    [['d1', 'd3'], ['d2']]
    """
    name = _named(format, columns, options)
    name, files = next(iter(_plan(path, name).items()))
    chosen = FORMATS[name]
    if chosen.scan is None:
        raise FormatError(
            f"{files[0]}: {chosen.about} cannot be read in blocks of instances. "
            f"Formats that can: {', '.join(n for n in FORMATS if FORMATS[n].scan is not None)}."
        )
    return open_blocks(
        chosen.scan(files, options), block_rows=block_rows, folder=folder, checkpoint=checkpoint, memory=memory
    )


def _named(name: str | None, columns: Columns | None, options: dict[str, Any]) -> str | None:
    """Return the requested format, None to recognise it; columns and the file type are added to the options."""
    if name in FILE_TYPES:
        options["file_type"], name = name, None
    if columns is not None:
        from concordant.io.table_formats import format_of_columns

        options["columns"] = columns
        name = name or format_of_columns(columns)
    return name


# Bytes of memory that reading and aggregating takes, per row of Parquet and per byte of text at most; and the bytes
# of text that a compressed byte stands for.
_BYTES_PER_ROW, _PER_BYTE, _COMPRESSION_RATIO = 100, 2.5, 5


def block_format(
    path: PathLike | Iterable[PathLike],
    format: str | None = None,  # noqa: A002 - the name users know
    columns: Columns | None = None,
) -> str | None:
    """Return the format in which `scan` would read a path, None if it cannot be read in blocks."""
    name, files = next(iter(_plan(path, _named(format, columns, {})).items()))
    scan, is_long = FORMATS[name].scan, FORMATS[name].is_long
    if scan is None or (columns is None and is_long is not None and not is_long(Head.of(files[0]))):
        return None
    return name


def memory_needed(path: PathLike | Iterable[PathLike]) -> int:
    """Return the approximate memory, in bytes, that aggregating the preferences in some files takes."""
    total = 0.0
    folder = _folder(path)
    # A LETOR folder holds its files in folders of its own.
    for file in expand(path) if folder is None else folder.rglob("*"):
        if not file.is_file():
            continue
        if file_type(file) == "parquet" and compression(file) is None:
            total += _BYTES_PER_ROW * parquet_rows(file)
        else:
            total += file.stat().st_size * _PER_BYTE * (1 if compression(file) is None else _COMPRESSION_RATIO)
    return int(total)


def _plan(path: PathLike | Iterable[PathLike], wanted: str | None) -> dict[str, list[Path]]:
    """Return the files by format, preferences before labels."""
    asked = None if wanted is None else FORMATS.find(wanted)
    if wanted is not None and (asked is None or asked.read is None):
        known = ", ".join(map(repr, (*_readable(), *FILE_TYPES)))
        raise ParameterError.invalid("format", "read", f"one of {known}", wanted)
    folder = _folder(path)
    if folder is not None:
        for chosen in FORMATS.own().values() if asked is None else (asked,):
            if chosen.sniff_folder is not None and chosen.sniff_folder(folder):
                return {chosen.name: [folder]}
    if asked is not None and asked.sniff_folder is not None:
        raise FormatError(f"{folder or path}: the format {asked.name} is {asked.about}.")
    files = expand(path)
    if folder is not None:
        files = [f for f in files if not _DOCUMENTS.fullmatch(f.name)]
        if not files:
            inside = sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
            raise FormatError(f"{folder}: holds documents and no data. Folders inside: {listing(inside)}.")
    if asked is not None:
        return {asked.name: files if folder is None else _without_side_files(files, asked)}
    return _grouped(files, folder)


def _folder(path: PathLike | Iterable[PathLike]) -> Path | None:
    if isinstance(path, (str, os.PathLike)):
        folder = Path(os.path.expanduser(os.fspath(path)))
        return folder if os.path.isdir(folder) else None
    return None


def _without_side_files(files: list[Path], chosen: Format) -> list[Path]:
    data = [f for f in files if not any(re.fullmatch(p, f.name.lower()) for p in chosen.beside)]
    # Categories of PrefLib lie beside orders, and are the data of a folder without orders.
    return data or [f for f in files if uncompressed_name(f.name.lower()).endswith(chosen.extensions)] or files


def _grouped(files: list[Path], folder: Path | None) -> dict[str, list[Path]]:
    """Return the files by recognised format; files of a folder that only accompany data are left out."""
    groups: dict[str, list[Path]] = {}
    errors: list[tuple[Path, FormatError]] = []
    for file in files:
        try:
            groups.setdefault(_format_of(file), []).append(file)
        except FormatError as error:
            errors.append((file, error))
    if folder is not None:
        beside = [p for name in groups for p in FORMATS[name].beside]
        errors = [(f, e) for f, e in errors if not any(re.fullmatch(p, f.name.lower()) for p in beside)]
        groups = {name: _without_side_files(found, FORMATS[name]) for name, found in groups.items()}
    if errors and (len(files) == 1 or (not groups and len(errors) == 1)):
        raise errors[0][1]
    order = sorted(groups, key=lambda name: FORMATS[name].is_truth)
    kinds = [FORMATS[name].is_truth for name in order]
    if errors or len(order) > 2 or (len(order) == 2 and kinds != [False, True]) or not order:
        held = [f"{name}: {_some(groups[name])}" for name in order]
        if errors:
            held.append(f"not recognised: {_some([f for f, _ in errors])} ({_reason(errors[0])})")
        where = folder if folder is not None else files[0].parent
        raise FormatError(
            f"{where}: the files have no one format. Found {'; '.join(held)}. Name those to read, such as "
            f"{display_path(groups[order[0]][0] if order else files[0])!r}, and say what they are: format= (--format), "
            "or for tables columns='expert=1,winner=2,loser=3' (--columns)."
        )
    return {name: groups[name] for name in order}


def _reason(error: tuple[Path, FormatError]) -> str:
    return shorten(str(error[1]).removeprefix(f"{error[0]}: ").split(". ")[0], 100)


def _some(files: list[Path]) -> str:
    names = ", ".join(f.name for f in files[:3])
    return names if len(files) <= 3 else f"{names} and {len(files) - 3} more"


def _readable() -> list[str]:
    return [name for name in FORMATS if FORMATS[name].read is not None]


def _format_of(path: Path) -> str:
    """Return the format of a file; formats of other packages are tried if no built-in one fits."""
    head = Head.of(path)
    if not head.data.strip():
        raise FormatError(f"{path}: the file is empty.")
    own = FORMATS.own()
    found = [name for name, f in own.items() if not f.table and f.recognises(head)]
    found = found or [name for name, f in own.items() if f.table and f.recognises(head)]
    found = found or [name for name in FORMATS if name not in own and FORMATS[name].recognises(head)]
    if len(found) == 1:
        return found[0]
    if found:
        raise FormatError(
            f"{path}: may be {' or '.join(f'{name} ({FORMATS[name].about})' for name in found)}. "
            f"Pass format= (--format), one of {', '.join(found)}."
        )
    likely = [
        name for name, f in own.items() if f.line_by_line and f.sniff is not None and most_lines_match(f.sniff, head)
    ]
    if len(likely) == 1:
        return likely[0]
    raise _unknown(head)


def _unknown(head: Head) -> FormatError:
    data = head.data
    if data[257:262] == b"ustar":
        return FormatError(f"{head.path}: this is a tar archive. Unpack it, and read the folder.")
    if data[:4] == b"PK\x03\x04":
        return FormatError(f"{head.path}: this is a zip archive. Unpack it, and read the folder.")
    table = head.table
    if table is None and data[:4] == b"PAR1":
        # Opening it raises the error that names the damage.
        open_table(head.path)
    if table is None or len(table.names) < 2 or not table.regular:
        begins = data[:60].decode("utf-8", "replace") if head.text else repr(data[:20])
        return FormatError.unknown(head.path, _readable(), begins)
    hint = "" if head.columns is None else layout_hint(head.columns)
    return FormatError(
        f"{head.path}: what this table holds cannot be told.{hint} {table.describe()} Say which column is which, for "
        "instance columns='expert=1,winner=2,loser=3' (--columns), or pass format= (--format), one of "
        f"{', '.join(name for name in FORMATS if FORMATS[name].table)}."
    )
