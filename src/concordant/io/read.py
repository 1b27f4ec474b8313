"""One function for whatever is there: the format is found by content and name, never by trying readers until one works.

Every format is one entry of `FORMATS`: how to recognise it and how to read it. Recognition is strict; a file that could
be two things is refused with both named.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from concordant.data.dataset import Dataset, concat
from concordant.errors import ConcordantError, FormatError, ParameterError, listing, quote, shorten
from concordant.execution.blocks import Blocks
from concordant.io import tabular
from concordant.io._columns import Asked, Columns, Found, is_movielens, pair_form
from concordant.io._files import PathLike, compression, expand, shown
from concordant.io._matrix import guess_layout, layout_hint
from concordant.io._sniff import Head, is_features, is_letor, is_preflib, is_qrels, is_run, mostly
from concordant.io._tables import FILE_TYPES, Table, file_type, is_number, open_table, parquet_rows
from concordant.io._words import ALIASES, HEADER_WORDS, normal
from concordant.io.blocks import BLOCK_ROWS, open_blocks
from concordant.io.letor import fold_files, read_feature_folds, read_features, read_letor, read_letor_folds
from concordant.io.preflib import read_preflib
from concordant.io.trec import RunReader, read_qrels, read_runs

__all__ = ["BLOCK_FORMATS", "FORMATS", "Format", "block_format", "memory_needed", "read", "scan", "sniff"]


@dataclass(frozen=True)
class _File:
    """One file to recognise, opened once for all tests."""

    path: Path

    @cached_property
    def head(self) -> Head:
        return Head.of(self.path)

    @cached_property
    def table(self) -> Table | None:
        try:
            return open_table(self.path, words=HEADER_WORDS)
        except ConcordantError:
            return None

    @cached_property
    def columns(self) -> Found | None:
        """The columns by name, where there is a header."""
        if self.table is None or not self.table.header:
            return None
        return Found(self.table, Asked("read", None, (), None))


@dataclass(frozen=True)
class Format:
    """How one format is recognised and read.

    Parameters
    ----------
    about : str
        What it is, in a few words.
    recognise : callable
        From a file to whether it has this format.
    read : callable
        From paths and options to a Dataset.
    options : callable
        The reader whose keyword parameters are the options allowed.
    table : bool
        Whether it is a table, whose columns can be named.
    beside : tuple of str
        Patterns of files that lie beside such data in folders and are no data themselves.
    """

    about: str
    recognise: Callable[[_File], bool]
    read: Callable[..., Dataset]
    options: Callable[..., Any]
    table: bool = False
    beside: tuple[str, ...] = field(default=())


def _as(name: str, reader: Callable[..., Any], **fixed: Any) -> Callable[..., Dataset]:
    def read_it(paths: list[Path], **options: Any) -> Dataset:
        return Dataset(**{name: reader(paths, **fixed, **options)})

    return read_it


def _letor(paths: list[Path], **options: Any) -> Dataset:
    preferences, labels = read_letor(paths, **options)
    return Dataset(preferences=preferences, labels=labels)


def _vectors(paths: list[Path], **options: Any) -> Dataset:
    features, labels = read_features(paths, **options)
    return Dataset(features=features, labels=labels)


def _folds(
    paths: list[Path],
    *,
    higher_is_better: bool | None = None,
    n_features: int | None = None,
    duplicates: str = "error",
    missing: str | None = None,
) -> Dataset:
    """Return the folds of a folder, and its preferences or features and labels with every instance once."""
    if len(paths) != 1 or not paths[0].is_dir():
        raise FormatError(f"{paths[0]}: the format letor-folds is one folder with Fold1, Fold2, ...")
    ranked = not is_features(Head.of(fold_files(paths[0], "letor-folds")[0][0]))
    reader: Callable[..., Any] = read_letor_folds if ranked else read_feature_folds
    given = {"higher_is_better": higher_is_better, "n_features": n_features, "duplicates": duplicates}
    given |= {"missing": missing}
    options = {name: value for name, value in given.items() if value is not None}
    _check_reader("letor-folds", reader, options)
    folds = reader(paths[0], **options)
    data, labels = [], []
    seen: set[str] = set()
    for own, truth in (fold[part] for part in (2, 1, 0) for fold in folds):
        new = [n for n, q in enumerate(own.instances) if q not in seen]
        if new:
            seen.update(own.instances)
            data.append(own[new])
            labels.append(truth[[q for q in data[-1].instances if q in truth.instances]])
    return Dataset(**{"preferences" if ranked else "features": concat(data)}, labels=concat(labels), folds=folds)


def _names(file: _File) -> set[str]:
    return set() if file.columns is None else set(file.columns.by_name)


def _has(file: _File, *words: str) -> bool:
    """Return whether each word has a column, more than one perhaps, by its usual names."""
    known = _names(file)
    return all(known & {normal(w), *ALIASES.get(w, ())} for w in words)


def _is_comparisons(file: _File) -> bool:
    if file.columns is None:
        return False
    try:
        pair_form(file.columns)
    except ConcordantError:
        return False
    return True


def _is_ratings(file: _File) -> bool:
    if file.table is not None and is_movielens(file.table):
        return True
    return _has(file, "expert", "item", "rating") and not _is_comparisons(file)


def _rating_kind(paths: list[Path], **options: Any) -> Dataset:
    """Read ratings, or scores where the column is called so."""
    if "kind" not in options:
        options |= _kind_of_ratings(paths, options.get("columns"))
    return Dataset(preferences=tabular.read_ratings(paths, **options))


def _kind_of_ratings(paths: list[Path], columns: Columns | None) -> dict[str, str]:
    """Return the kind where the names of the columns say that it is not ratings."""
    if columns is not None:
        return {"kind": "score"} if "score" in _words(columns) else {}
    names = _names(_File(paths[0]))
    return {"kind": "score"} if "score" in names and "rating" not in names else {}


def _is_rankings(file: _File) -> bool:
    if file.columns is None or _is_comparisons(file):
        return False
    if _has(file, "expert", "item", "rank"):
        return True
    try:
        return guess_layout(file.columns) != "long"
    except ConcordantError:
        return False


def _is_labels(file: _File) -> bool:
    return _has(file, "instance", "item", "label") and not _has(file, "expert")


def _is_scores(file: _File) -> bool:
    return {"instance", "item", "score"} <= _names(file) and not _has(file, "expert")


def _is_feature_table(file: _File) -> bool:
    names = _names(file)
    if file.table is None or not {"instance", "item"} < names:
        return False
    rest = [c for c, n in enumerate(file.table.names) if normal(n) not in ("instance", "item")]
    return not names & (HEADER_WORDS - {"instance", "item"}) and all(
        is_number(row[c]) for row in file.table.sample for c in rest
    )


def _text(test: Callable[[Head], bool]) -> Callable[[_File], bool]:
    return lambda file: test(file.head)


def _never(_: _File) -> bool:
    return False


def _rankings(about: str, recognise: Callable[[_File], bool], **fixed: Any) -> Format:
    read_it = _as("preferences", tabular.read_rankings, **fixed)
    return Format(about, recognise, read_it, tabular.read_rankings, table=True)


FORMATS: dict[str, Format] = {
    "trec": Format("TREC runs", _text(is_run), _as("preferences", read_runs), read_runs),
    "qrels": Format("TREC qrels", _text(is_qrels), _as("labels", read_qrels), read_qrels),
    "letor-agg": Format("LETOR rank aggregation", _text(is_letor), _letor, read_letor),
    "letor-folds": Format("a LETOR folder with Fold1, Fold2, ...", _never, _folds, _folds),
    "letor": Format(
        "LETOR or SVMlight features, or a .npy table",
        _text(is_features),
        _vectors,
        read_features,
        beside=(r".*\.(query|group|conf)",),
    ),
    "preflib": Format(
        "PrefLib ballots (soc, soi, toc, toi)",
        _text(is_preflib),
        _as("preferences", read_preflib),
        read_preflib,
        beside=(r"metadata\.csv", r"info\.txt", r".*\.(dat|cat|wmd)(\.(gz|xz|zst|bz2))?"),
    ),
    "comparisons": Format(
        "a table of comparisons",
        _is_comparisons,
        _as("comparisons", tabular.read_comparisons),
        tabular.read_comparisons,
        table=True,
    ),
    "ratings": Format("a table of expert, item, rating", _is_ratings, _rating_kind, tabular.read_ratings, table=True),
    "rankings": _rankings("a table of rankings, its layout found by content", _is_rankings),
    "long": _rankings("a table of expert, item, rank", _never, layout="long"),
    "ranks": _rankings("a matrix, experts by items, of ranks", _never, layout="ranks"),
    "orders": _rankings("a matrix, experts by positions, of items", _never, layout="orders"),
    "ranks-columns": _rankings("the same with experts in columns", _never, layout="ranks", experts="columns"),
    "orders-columns": _rankings("the same with experts in columns", _never, layout="orders", experts="columns"),
    "labels": Format(
        "a table of instance, item, label",
        _is_labels,
        _as("labels", tabular.read_labels),
        tabular.read_labels,
        table=True,
    ),
    "scores": Format(
        "a table of instance, item, score: one expert per file",
        _is_scores,
        _as("preferences", tabular.read_scores),
        tabular.read_scores,
        table=True,
    ),
    "features": Format(
        "a table of instance, item and features",
        _is_feature_table,
        _as("features", tabular.read_feature_table),
        tabular.read_feature_table,
        table=True,
    ),
}
# Files that explain data and are not data.
_DOCUMENTS = re.compile(
    r"(readme|licen[cs]e|copying|notice|changelog|description|details)(\..*)?|.*\.(md|rst|html?)", re.I
)
# Which format a word of columns= speaks of.
_SPEAKS = (
    ("comparisons", ("left", "right", "winner", "loser", "n_left", "n_right", "n_ties")),
    ("labels", ("label",)),
    ("rankings", ("rank",)),
    ("ratings", ("rating", "score", "value")),
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
    r"""Return what is at a path: preferences, comparisons, features, labels, folds; what is not there is None.

    Parameters
    ----------
    path : path, glob, folder or a list of these
        Plain or compressed files. A folder of runs may hold their qrels; a LETOR folder its folds; documents such as
        README are passed over.
    format : str, optional
        One of `FORMATS` ("trec", "qrels", "letor-agg", "letor", "letor-folds", "preflib", "comparisons", "ratings",
        "rankings", "long", "ranks", "orders", "ranks-columns", "orders-columns", "labels", "scores", "features"); or
        "csv", "tsv", "parquet", "jsonl", which say what a table is written in. Found by content and name by default.
    columns : str or mapping, optional
        Which column of a table is which, as for `read_ratings` and `read_comparisons`.
    **options
        What the reader of the format takes, such as ``expert_from``, ``duplicates`` or ``missing``, what a list says
        about items it leaves out.

    Returns
    -------
    Dataset
        A named tuple.

    Raises
    ------
    FormatError
        When the format cannot be told; the message names the candidates.

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
        chosen = FORMATS[name]
        given = options if len(plan) == 1 else {k: v for k, v in options.items() if k in _allowed(chosen.options)}
        _check_reader(name, chosen.options, given)
        part = chosen.read(files, **given)
        out |= {k: v for k, v in part._asdict().items() if v is not None}
    return Dataset(**out)


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
        Where the rows are kept meanwhile, 12 bytes each and the text of the items; the system's folder for temporary
        files by default.
    checkpoint : path, optional
        A folder to keep them in: broken off at any time, the same call goes on with the next file, or the next window
        of a large table, and a finished reading is not repeated. Remove it when it is of no more use.
    memory : int, optional
        About how many bytes reading may take; half of what is free where that is not said, or 0.

    Returns
    -------
    Blocks
        A sequence of `Preferences`. Their instances, items, experts and values, in that order, are those that `read`
        gives. Close it, or use it in a ``with`` statement, to free the disk.

    Notes
    -----
    Everything is read once, whatever the order of its rows, and coded on the way; of compressed or scattered files as
    well. In memory are the rows being coded, as many as fit, and the ids of instances and experts. Large tables are
    read in windows: of rows, or of whole lines where they are text.

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
    chosen, files = next(iter(_plan(path, name).items()))
    if chosen not in BLOCK_FORMATS:
        raise FormatError(
            f"{files[0]}: {FORMATS[chosen].about} cannot be read in blocks of instances. "
            f"Formats that can: {', '.join(BLOCK_FORMATS)}."
        )
    how: dict[str, Any] = {"block_rows": block_rows, "folder": folder, "checkpoint": checkpoint, "memory": memory}
    if chosen == "trec":
        _check_reader(chosen, FORMATS[chosen].options, options)
        return open_blocks(RunReader("scan", files, **options), **how)
    if chosen == "ratings" and "kind" not in options:
        options |= _kind_of_ratings(files, options.get("columns"))
    layout = options.pop("layout", "long")
    if layout != "long":
        raise ParameterError.invalid("layout", "scan", "'long'; a matrix is one instance", layout)
    _check_reader(chosen, tabular.LONG[chosen], options)
    reader = tabular.LongReader(tabular.LONG[chosen]("scan", files, **options), {"format": chosen, **options})
    return open_blocks(reader, **how)


def _named(name: str | None, columns: Columns | None, options: dict[str, Any]) -> str | None:
    """Return the format that is asked for, None to find it out; what is said besides joins the options."""
    if name in FILE_TYPES:
        options["file_type"], name = name, None
    if columns is not None:
        options["columns"] = columns
        name = name or _spoken_of(columns)
    return name


# Formats whose instances can be read in blocks.
BLOCK_FORMATS = ("trec", *tabular.LONG)
# Memory that a row of preferences takes at the most while it is read and aggregated, and that of a byte of text; a
# compressed byte stands for several.
_BYTES_PER_ROW, _PER_BYTE, _PACKED = 100, 2.5, 5


def block_format(
    path: PathLike | Iterable[PathLike],
    format: str | None = None,  # noqa: A002 - the name users know
    columns: Columns | None = None,
) -> str | None:
    """Return the format that `scan` would read a path in, None where it cannot be read in blocks."""
    name, files = next(iter(_plan(path, _named(format, columns, {})).items()))
    matrix = name == "rankings" and columns is None and not _has(_File(files[0]), "expert", "item", "rank")
    return name if name in BLOCK_FORMATS and not matrix else None


def memory_needed(path: PathLike | Iterable[PathLike]) -> int:
    """Return about how many bytes of memory the preferences in some files take while they are aggregated."""
    total = 0.0
    folder = _folder(path)
    # A LETOR folder holds its files in folders of its own.
    for file in expand(path) if folder is None else folder.rglob("*"):
        if not file.is_file():
            continue
        if file_type(file) == "parquet" and compression(file) is None:
            total += _BYTES_PER_ROW * parquet_rows(file)
        else:
            total += file.stat().st_size * _PER_BYTE * (1 if compression(file) is None else _PACKED)
    return int(total)


def _allowed(reader: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(reader).parameters
    return [
        k
        for k, v in parameters.items()
        if v.kind is not v.POSITIONAL_ONLY and k not in ("owner", "path", "paths", "folder")
    ]


def _check_reader(name: str, reader: Callable[..., Any], options: Mapping[str, Any]) -> None:
    allowed = _allowed(reader)
    wrong = [k for k in options if k not in allowed]
    if wrong:
        raise ParameterError(
            f"the format {quote(name)} does not take {listing(wrong)}. It takes {', '.join(allowed) or 'no options'}."
        )


def _spoken_of(columns: Columns) -> str | None:
    """Return the format that the words of columns= belong to."""
    words = _words(columns)
    return next((name for name, known in _SPEAKS if words & set(known)), None)


def _words(columns: Columns) -> set[str]:
    return {part.partition("=")[0].strip() for part in (columns.split(",") if isinstance(columns, str) else columns)}


def _plan(path: PathLike | Iterable[PathLike], wanted: str | None) -> dict[str, list[Path]]:
    """Return which files are read as which format, the preferences first."""
    if wanted is not None and wanted not in FORMATS:
        known = ", ".join(map(repr, (*FORMATS, *FILE_TYPES)))
        raise ParameterError.invalid("format", "read", f"one of {known}", wanted)
    folder = _folder(path)
    if folder is not None and wanted in (None, "letor-folds") and _has_folds(folder):
        return {"letor-folds": [folder]}
    if wanted == "letor-folds":
        raise FormatError(f"{folder or path}: the format letor-folds is one folder with Fold1, Fold2, ...")
    files = expand(path)
    if folder is not None:
        files = [f for f in files if not _DOCUMENTS.fullmatch(f.name)]
        if not files:
            inside = sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
            raise FormatError(f"{folder}: holds documents and no data. Folders inside: {listing(inside)}.")
    if wanted is not None:
        if folder is not None:
            files = _without_side_files(files, FORMATS[wanted])
        return {wanted: files}
    return _grouped(files, folder)


def _folder(path: PathLike | Iterable[PathLike]) -> Path | None:
    if isinstance(path, (str, os.PathLike)):
        folder = Path(os.path.expanduser(os.fspath(path)))
        return folder if os.path.isdir(folder) else None
    return None


def _has_folds(folder: Path) -> bool:
    return any(re.fullmatch(r"fold[ _-]?\d+", p.name.lower()) and p.is_dir() for p in folder.iterdir())


def _without_side_files(files: list[Path], chosen: Format) -> list[Path]:
    return [f for f in files if not any(re.fullmatch(p, f.name.lower()) for p in chosen.beside)] or files


def _grouped(files: list[Path], folder: Path | None) -> dict[str, list[Path]]:
    """Return the files by format, in a folder without those that only accompany data."""
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
    order = sorted(groups, key=lambda name: name in ("qrels", "labels"))
    kinds = [name in ("qrels", "labels") for name in order]
    if errors or len(order) > 2 or (len(order) == 2 and kinds != [False, True]) or not order:
        held = [f"{name}: {_some(groups[name])}" for name in order]
        if errors:
            held.append(f"not recognised: {_some([f for f, _ in errors])} ({_reason(errors[0])})")
        where = folder if folder is not None else files[0].parent
        raise FormatError(
            f"{where}: the files have no one format. Found {'; '.join(held)}. Name those to read, such as "
            f"{shown(groups[order[0]][0] if order else files[0])!r}, and say what they are: format= (--format), or for "
            "tables columns='expert=1,winner=2,loser=3' (--columns)."
        )
    return {name: groups[name] for name in order}


def _reason(error: tuple[Path, FormatError]) -> str:
    return shorten(str(error[1]).removeprefix(f"{error[0]}: ").split(". ")[0], 100)


def _some(files: list[Path]) -> str:
    names = ", ".join(f.name for f in files[:3])
    return names if len(files) <= 3 else f"{names} and {len(files) - 3} more"


def _format_of(path: Path) -> str:
    """Return the one format of a file."""
    file = _File(path)
    if not file.head.data.strip():
        raise FormatError(f"{path}: the file is empty.")
    text = [name for name, f in FORMATS.items() if not f.table and f.recognise(file)]
    found = text or [name for name, f in FORMATS.items() if f.table and f.recognise(file)]
    if len(found) == 1:
        return found[0]
    if found:
        raise FormatError(
            f"{path}: may be {' or '.join(f'{name} ({FORMATS[name].about})' for name in found)}. "
            f"Pass format= (--format), one of {', '.join(found)}."
        )
    tests = {"trec": is_run, "qrels": is_qrels, "letor-agg": is_letor, "letor": is_features}
    likely = [name for name, test in tests.items() if mostly(test, file.head)]
    if len(likely) == 1:
        return likely[0]
    raise _unknown(file)


def _unknown(file: _File) -> FormatError:
    data = file.head.data
    if data[257:262] == b"ustar":
        return FormatError(f"{file.path}: this is a tar archive. Unpack it, and read the folder.")
    if data[:4] == b"PK\x03\x04":
        return FormatError(f"{file.path}: this is a zip archive. Unpack it, and read the folder.")
    table = file.table
    if table is None and data[:4] == b"PAR1":
        # It says itself what is wrong with it.
        open_table(file.path)
    if table is None or len(table.names) < 2 or not table.regular:
        begins = data[:60].decode("utf-8", "replace") if file.head.text else repr(data[:20])
        return FormatError.unknown(file.path, [*FORMATS], begins)
    hint = "" if file.columns is None else layout_hint(file.columns)
    return FormatError(
        f"{file.path}: what this table holds cannot be told.{hint} {table.described()} Say which column is which, for "
        "instance columns='expert=1,winner=2,loser=3' (--columns), or pass format= (--format), one of "
        f"{', '.join(name for name, f in FORMATS.items() if f.table)}."
    )
