"""Reads and writes TREC runs and qrels, of tens of millions of lines.

A file with one separator is parsed by Polars and then checked: every line has all fields, none is empty, and no other
blank occurs. Any other file is read in blocks whose blanks are normalised. A block that still fails is read line by
line, which either succeeds or names the line. The three ways give the same result at different speed.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concordant._version import __version__
from concordant.arrays import Floats, Ints
from concordant.data.consensus import Consensus
from concordant.data.duplicates import check_duplicates
from concordant.data.index import Texts
from concordant.data.labels import Labels
from concordant.data.preferences import Kind, Missing, Preferences, is_below
from concordant.errors import DataError, ParameterError, ParseError, quote
from concordant.execution import RowRate, prefetch, report_progress, report_status
from concordant.io._dictionary_encoding import (
    DictionaryEncoder,
    EncodedRows,
    encode_labels,
    hash_expressions,
)
from concordant.io._files import (
    PathLike,
    atomic_write,
    check_unchanged,
    compression,
    display_path,
    expand,
    protect_bom,
    read_head,
    stem,
    text_blocks,
    warn_empty,
)
from concordant.io._row_sources import RowSource
from concordant.io._sniff import is_qrels, is_run
from concordant.io._tables import is_number
from concordant.io.blocks import file_fingerprints
from concordant.io.formats import check_options, register_format
from concordant.kernels.lists import offsets_of, ranges

__all__ = ["RunReader", "read_qrels", "read_runs", "write_run", "write_run_lines"]

# An uncompressed file up to this size is parsed as a whole; a larger one in blocks, to limit memory.
_WHOLE_BYTES = 256 << 20
_BLOCK_BYTES = 64 << 20
# From this average size on the next file is read while others are encoded.
_LARGE_BYTES = 4 << 20
# Bytes that are checked at one time; they fit the cache of a core.
_CHECK_BYTES = 1 << 18

_LINE_FEED = 10
_BLANKS = bytes.maketrans(b"\t\r\x0b\x0c", b"    ")
_BLANK_CHARACTERS = [" ", "\t", "\n", "\r", "\x0b", "\x0c"]


@dataclass(frozen=True)
class _LineFields:
    """The fields of a line: all names, the names of those kept, and the one that is a number."""

    fields: tuple[str, ...]
    kept: tuple[str, ...]
    number: str

    @property
    def schema(self) -> dict[str, pl.DataType | type[pl.DataType]]:
        return {name: pl.Float64 if name == self.number else pl.String for name in self.fields}

    def frame(self, rows: Sequence[Sequence[str | float]]) -> pl.DataFrame:
        """Return lines that were split in Python as the frame that Polars would return."""
        columns = zip(*rows, strict=True) if rows else ([] for _ in self.kept)
        types = {name: self.schema[name] for name in self.kept}
        return pl.DataFrame(dict(zip(self.kept, map(list, columns), strict=True)), schema=types)


_BY_SCORE = _LineFields(
    ("instance", "q0", "item", "rank", "score", "tag"), ("instance", "item", "score", "tag"), number="score"
)
_BY_RANK = _LineFields(
    ("instance", "q0", "item", "rank", "score", "tag"), ("instance", "item", "rank", "tag"), number="rank"
)
_QRELS = _LineFields(("instance", "iteration", "item", "label"), ("instance", "item", "label"), number="label")


@dataclass(frozen=True)
class _ParsedRows:
    """Consecutive rows of one file, and their lines."""

    frame: pl.DataFrame
    source: RowSource


def read_runs(
    paths: PathLike | Iterable[PathLike],
    *,
    expert_from: Literal["auto", "tag", "file"] = "auto",
    order_by: Literal["score", "rank"] = "score",
    duplicates: Literal["error", "best", "first"] = "error",
    separator: str | None = None,
    missing: Missing = "below",
) -> Preferences:
    r"""Return the preferences in TREC runs: lines of ``instance Q0 item rank score tag``.

    Parameters
    ----------
    paths : path, glob, folder, or a list of these
        The files, plain or packed with gzip, xz, zstd or bzip2. An empty file is an expert who ranks nothing.
    expert_from : {"auto", "tag", "file"}
        Who the expert is: the tag (several tags in one file are several experts); the file's name without endings such
        as .trec and .gz; "auto" takes the tag, and the file's name for tags that several files carry.
    order_by : {"score", "rank"}
        Which column orders the items; the other one may hold anything. By score (larger is better) the values are the
        scores. By rank they are the ranks; a file whose ranks begin at 0 is counted from 1.
    duplicates : {"error", "best", "first"}
        What to do when an expert ranks an item twice in an instance: raise, keep the better row, or keep the first.
    separator : str, optional
        The one character between fields. By default any run of blanks separates fields.
    missing : {"below", "unknown"}
        Whether items that a run leaves out are unknown to it or below the items it returns; some methods use this. A
        run is cut off at some depth, so "below" is the default.

    Returns
    -------
    Preferences
        Of kind "score", or "rank" when ordered by rank. Instances, items and experts are in the order they are first
        seen, files in the order named. Equal scores stay equal: methods treat ties.

    Raises
    ------
    ParseError
        At the first line without six fields, or whose score is not a finite number; it names file and line.
    DuplicateError
        When an item comes twice; it names both lines.

    Notes
    -----
    Cost O(R) for R rows. Memory: 12 bytes per row, and the text of every (instance, item) once.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.trec").write_text("301 Q0 d1 1 9.5 bm25\n301 Q0 d2 2 8.1 bm25\n")
    >>> _ = (folder / "b.trec").write_text("301 Q0 d2 1 0.7 dense\n")
    >>> read_runs(folder)
    Preferences: 1 instance, 2 experts, 2 items, 3 scores in 2 lists
    """
    reader = RunReader(
        "read_runs",
        paths,
        expert_from=expert_from,
        order_by=order_by,
        duplicates=duplicates,
        separator=separator,
        missing=missing,
    )
    encoder = DictionaryEncoder()
    reader.read(encoder)
    return reader.preferences(encoder.finish())


class RunReader:
    """Adds the rows of runs to an encoder and builds preferences from the result; parameters as for `read_runs`."""

    def __init__(
        self,
        owner: str,
        paths: PathLike | Iterable[PathLike],
        *,
        expert_from: str = "auto",
        order_by: str = "score",
        duplicates: str = "error",
        separator: str | None = None,
        missing: Missing = "below",
    ) -> None:
        for name, value, allowed in (
            ("expert_from", expert_from, ("auto", "tag", "file")),
            ("order_by", order_by, ("score", "rank")),
        ):
            if value not in allowed:
                raise ParameterError.invalid(name, owner, " or ".join(map(repr, allowed)), value)
        check_duplicates(duplicates, owner)
        _check_separator(separator, owner)
        self._below = is_below(missing, owner)
        self.files = expand(paths)
        self.size = sum(os.path.getsize(f) for f in self.files)
        self._layout = _BY_SCORE if order_by == "score" else _BY_RANK
        self._kind: Kind = "score" if order_by == "score" else "rank"
        self._expert_from = expert_from
        self._duplicates = duplicates
        self._separator = separator
        # The first row of every file, and whether its ranks count from 0.
        self._begins, self._from_zero = [-1] * len(self.files), [False] * len(self.files)

    def job(self) -> dict[str, Any]:
        """Return a description of files and options."""
        how = [self._kind, self._expert_from, self._duplicates, self._separator, self._below]
        return {"format": "trec", "version": __version__, "how": how, "files": file_fingerprints(self.files)}

    def state(self) -> list[list[Any]]:
        """Return the first row of every file read, and whether its ranks count from 0."""
        return [self._begins, self._from_zero]

    def restore(self, state: list[list[Any]]) -> None:
        """Restore what `state` returned."""
        self._begins, self._from_zero = state

    @property
    def kind(self) -> Kind:
        """What the values are."""
        return self._kind

    def below(self, instances: Texts) -> bool:
        """Return whether items that a list leaves out are declared below what it holds."""
        return self._below

    def names(self, experts: Sequence[Hashable]) -> list[str]:
        """Return the ids of the experts in the vocabulary of the encoder."""
        return _expert_names(experts, self.files)

    def n_steps(self) -> int:
        """Return the number of files."""
        return len(self.files)

    def read_step(self, encoder: DictionaryEncoder, step: int) -> None:
        """Add the rows of one file to an encoder."""
        for _, part in _parsed_files(self.files[step : step + 1], self._layout, self._separator):
            self._add(encoder, step, part)

    def merge_states(self, states: list[Any], begins: list[int]) -> None:
        """Merge the states of files that were read independently."""
        self._begins = list(begins)
        self._from_zero = [state[1][n] for n, state in enumerate(states)]

    def read(self, encoder: DictionaryEncoder, done: int = 0, mark: Callable[[int], object] = int) -> None:
        """Add the rows of all files after the first `done` to an encoder."""
        sizes = offsets_of(np.array([os.path.getsize(f) for f in self.files], dtype=np.int64)).tolist()
        pieces = ((n + done, p) for n, p in _parsed_files(self.files[done:], self._layout, self._separator))
        pace = RowRate()
        # Small files are read sooner than threads switch.
        for n, part in prefetch(pieces) if self.size >= len(self.files) * _LARGE_BYTES else pieces:
            if self._begins[n] < 0:
                mark(n)
                self._begins[n] = encoder.n_rows
                report_progress(sizes[n], self.size)
            self._add(encoder, n, part)
            report_status(pace.words(encoder.n_rows))
        if not encoder.n_rows:
            warn_empty(self.files)

    def _add(self, encoder: DictionaryEncoder, n: int, part: _ParsedRows | None) -> None:
        if part is None:
            encoder.add_expert((None, stem(self.files[n])) if self._expert_from == "tag" else (n, None))
        else:
            self._from_zero[n] |= _add_run(encoder, n, self.files[n], part, self._expert_from)

    def preferences(self, rows: EncodedRows) -> Preferences:
        """Return encoded rows as preferences; ranks that count from 0 are raised by 1."""
        if any(self._from_zero) and rows.value is not None:
            file = np.searchsorted(self._begins, rows.origin, side="right") - 1
            rows.value[:] += np.repeat(np.array(self._from_zero, dtype=np.float64)[file], rows.length)
        return rows.preferences(
            self._kind, names=self.names(rows.experts), duplicates=self._duplicates, below=self._below
        )


def _parsed_files(
    files: Sequence[Path], layout: _LineFields, separator: str | None
) -> Iterator[tuple[int, _ParsedRows | None]]:
    """Yield the number of a file with some of its rows, or with None if the file is empty."""
    for batch in _batches(files):
        together = _parse_together([files[n] for n in batch], layout) if len(batch) > 1 and separator is None else {}
        for n in batch:
            path, empty = files[n], True
            known = together.get(path)
            with check_unchanged(path):
                for part in _read(path, layout, separator) if known is None else [known]:
                    if part.frame.height:
                        empty = False
                        yield n, part
            if empty:
                yield n, None


def _batches(files: Sequence[Path]) -> Iterator[list[int]]:
    """Yield the numbers of the files in order; small files are grouped."""
    batch: list[int] = []
    held = 0
    for n, path in enumerate(files):
        size = os.path.getsize(path)
        if batch and (size > _LARGE_BYTES or held + size > _BLOCK_BYTES):
            yield batch
            batch, held = [], 0
        batch.append(n)
        # A large file is alone in its group.
        held += size if size <= _LARGE_BYTES else _BLOCK_BYTES
    if batch:
        yield batch


def _parse_together(files: Sequence[Path], layout: _LineFields) -> dict[Path, _ParsedRows]:
    """Parse several uncompressed files in one call; files that need more care are left out."""
    scans = {}
    for path in files:
        found = _sniff(read_head(path, 4096), layout) if path.is_file() and compression(path) is None else None
        if found is not None:
            scans[path] = _scan(path, found, layout).select(*layout.kept, *hash_expressions())
    try:
        frames = pl.collect_all(list(scans.values()))
    except (pl.exceptions.PolarsError, OSError):
        return {}
    return {
        path: _ParsedRows(frame, RowSource(str(path), 1))
        for path, frame in zip(scans, frames, strict=True)
        if _is_whole(frame, layout.kept, layout) and _is_clean(_file_chunks(path), frame.height, layout)
    }


def _add_run(encoder: DictionaryEncoder, n: int, path: Path, part: _ParsedRows, expert_from: str) -> bool:
    """Add rows of file n to the encoder, and return whether their ranks count from 0.

    The key of an expert in the vocabulary is (file, tag), with None for the part that does not matter.
    """
    from_zero = "rank" in part.frame.columns and _has_rank_zero(path, part)
    frame = part.frame.rename({part.frame.columns[2]: "value", "tag": "expert"})
    if expert_from == "file":
        encoder.add(frame.drop("expert"), expert=(n, None), source=part.source)
    elif expert_from == "tag":
        encoder.add(frame, key=lambda tag: (None, tag), source=part.source)
    else:
        encoder.add(frame, key=lambda tag: (n, tag), source=part.source)
    return from_zero


def _expert_names(experts: Sequence[Hashable], files: Sequence[Path]) -> list[str]:
    """Return a unique id for every expert from its key (file or None, tag or None)."""
    known: list[tuple[int | None, str | None]] = list(experts)  # type: ignore[arg-type]
    files_of_tag = Counter(tag for _, tag in known)
    tags_of_file = Counter(n for n, _ in known)

    def by_file(n: int, tag: str | None, depth: int) -> str:
        path = files[n]
        if depth > 1:
            # Files of one name in different folders: add as many folders as needed, at last the whole path.
            parts = path.absolute().parts[-depth:]
            name = str(path) if depth > len(path.absolute().parts) else "/".join([*parts[:-1], stem(path)])
        else:
            name = stem(path)
        return name if tags_of_file[n] == 1 else f"{name}:{tag}"

    names = [
        str(tag) if n is None or (tag is not None and files_of_tag[tag] == 1) else by_file(n, tag, 1)
        for n, tag in known
    ]
    for depth in range(2, 2 + max((len(f.absolute().parts) for f in files), default=0)):
        uses = Counter(names)
        if len(uses) == len(names):
            break
        names = [
            name if n is None or uses[name] == 1 else by_file(n, tag, depth)
            for name, (n, tag) in zip(names, known, strict=True)
        ]
    return names


def _has_rank_zero(path: Path, part: _ParsedRows) -> bool:
    """Return whether some rank is 0, or raise at any other rank below 1."""
    rank = part.frame["rank"]
    low = rank.filter((rank < 1) & (rank != 0))
    if len(low):
        line = int(str(part.source.place(int((rank == low[0]).arg_true()[0]))).rpartition(":")[2])
        raise ParseError(path, line, f"a rank must be at least 1, or 0 where ranks count from 0, found {low[0]:g}.")
    return bool((rank == 0).any())


def read_qrels(path: PathLike | Iterable[PathLike], *, separator: str | None = None) -> Labels:
    r"""Return the labels in TREC qrels: lines of ``instance iteration item label``.

    Parameters
    ----------
    path : path, glob, folder, or a list of these
        The files, plain or packed.
    separator : str, optional
        The one character between fields. By default any run of blanks separates fields.

    Returns
    -------
    Labels
        Labels as given, negative ones included (some tracks use them for junk or "not judged"); whole or not. The
        iteration column is ignored. An item listed twice with the same label counts once.

    Raises
    ------
    ParseError
        At the first line without four fields or without a finite number; it names file and line.
    DuplicateError
        When an item has two different labels.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "qrels.txt")
    >>> _ = path.write_text("301 0 d1 1\n301 0 d2 -1\n")
    >>> read_qrels(path)
    Labels: 1 instance, 2 items, labels -1 to 1
    """
    _check_separator(separator, "read_qrels")
    files = expand(path)
    labels = encode_labels((p.frame, p.source) for file in files for p in _read(file, _QRELS, separator))
    if not labels.n_slots:
        warn_empty(files, "labels")
    return labels


def _check_separator(separator: str | None, owner: str) -> None:
    if separator is not None and (
        not isinstance(separator, str) or len(separator.encode()) != 1 or separator in "\r\n"
    ):
        raise ParameterError.invalid("separator", owner, "one ASCII character, or None for blanks", separator)


def _read(path: Path, layout: _LineFields, separator: str | None) -> Iterator[_ParsedRows]:
    """Yield the rows of a file, parsed in the quickest safe way."""
    columns: list[str | pl.Expr] = [*layout.kept, *hash_expressions()]
    if path.is_file() and path.stat().st_size <= _WHOLE_BYTES and compression(path) is None:
        found = separator or _sniff(read_head(path, 4096), layout)
        if found is not None:
            frame = _parse(path, found, layout, columns, exact=separator is not None)
            if frame is not None and (separator is not None or _is_clean(_file_chunks(path), frame.height, layout)):
                yield _ParsedRows(frame, RowSource(str(path), 1))
                return
    for first, data in text_blocks(path, _BLOCK_BYTES):
        yield _read_block(path, first, data, layout, separator, columns)


def _read_block(
    path: Path, first: int, data: bytes, layout: _LineFields, separator: str | None, columns: list[str | pl.Expr]
) -> _ParsedRows:
    """Return the rows of a block of whole lines."""
    found = separator or _sniff(data[:4096], layout)
    if found is not None:
        frame = _parse(data, found, layout, columns, exact=separator is not None)
        if frame is not None and (separator is not None or _is_clean(_chunks(data), frame.height, layout)):
            return _ParsedRows(frame, RowSource(str(path), first))
    lines: Ints | None = None
    if separator is None:
        regular, lines = _normalise_blanks(data, first)
        frame = _parse(regular, " ", layout, columns) if regular else layout.frame([])
        if frame is not None and _is_clean(_chunks(regular), frame.height, layout):
            return _ParsedRows(frame, RowSource(str(path), first, lines))
    frame, lines = _read_lines(path, first, data, layout, separator)
    return _ParsedRows(frame, RowSource(str(path), first, lines))


def _sniff(head: bytes, layout: _LineFields) -> str | None:
    """Return the single blank that separates the fields of the first line, None if it uses several."""
    line = head.partition(b"\n")[0]
    for separator in (" ", "\t"):
        if len(line.split()) == len(layout.fields) and line.split(separator.encode()) == line.split():
            return separator
    return None


def _parse(
    source: Path | bytes, separator: str, layout: _LineFields, columns: list[str | pl.Expr], *, exact: bool = False
) -> pl.DataFrame | None:
    """Return the kept columns if every line has all fields and finite numbers, else None.

    The last field is always kept: Polars then refuses lines with more fields and leaves it empty in lines with fewer.
    Empty fields in the middle are found by `_is_clean`, or here if the user gives the separator.
    """
    needed = [name for name in layout.fields if exact and name not in layout.kept]
    try:
        frame = _scan(source, separator, layout).select(*columns, *needed).collect()
    except (pl.exceptions.PolarsError, OSError):
        return None
    if not _is_whole(frame, (*layout.kept, *needed), layout):
        return None
    return frame.drop(needed) if needed else frame


def _scan(source: Path | bytes, separator: str, layout: _LineFields) -> pl.LazyFrame:
    text = protect_bom(source) if isinstance(source, bytes) else source
    return pl.scan_csv(text, separator=separator, has_header=False, schema=layout.schema, quote_char=None, glob=False)


def _is_whole(frame: pl.DataFrame, columns: Sequence[str], layout: _LineFields) -> bool:
    """Return whether no field of these columns is missing and all numbers are finite."""
    if any(frame[name].null_count() for name in columns):
        return False
    return all(bool(np.isfinite(part.to_numpy()).all()) for part in frame[layout.number].get_chunks())


def _file_chunks(path: Path) -> Iterator[NDArray[np.uint8]]:
    buffer = np.empty(_CHECK_BYTES, dtype=np.uint8)
    with open(path, "rb", buffering=0) as handle:
        while size := handle.readinto(buffer.data):
            yield buffer[:size]


def _chunks(data: bytes) -> Iterator[NDArray[np.uint8]]:
    view = np.frombuffer(data, dtype=np.uint8)
    return (view[at : at + _CHECK_BYTES] for at in range(0, len(view), _CHECK_BYTES))


def _is_clean(chunks: Iterable[NDArray[np.uint8]], rows: int, layout: _LineFields) -> bool:
    """Return whether the only blanks are one between two fields and one line feed per line.

    Each of `rows` lines has the right number of fields. So it is enough that no two blanks (or control characters) are
    adjacent, none comes first, their number is that of the fields, and only a line feed comes last.
    """
    blank = np.empty(_CHECK_BYTES + 1, dtype=np.bool_)
    both = np.empty(_CHECK_BYTES, dtype=np.bool_)
    blank[0] = True
    count = last = 0
    for chunk in chunks:
        n = len(chunk)
        np.less_equal(chunk, 32, out=blank[1 : n + 1])
        if np.logical_and(blank[1 : n + 1], blank[:n], out=both[:n]).any():
            return False
        count += int(np.count_nonzero(blank[1 : n + 1]))
        blank[0] = blank[n]
        last = int(chunk[-1])
    # The last line may end without a line feed.
    return count + (0 if blank[0] else 1) == rows * len(layout.fields) and (not blank[0] or last == _LINE_FEED)


def _normalise_blanks(data: bytes, first: int) -> tuple[bytes, Ints | None]:
    """Return the lines with one space between fields and none at the ends, and their numbers if some were blank."""
    text = re.sub(rb" {2,}", b" ", data.translate(_BLANKS)).replace(b" \n", b"\n").replace(b"\n ", b"\n")
    text = text.strip(b" ")
    if not text.startswith(b"\n") and b"\n\n" not in text:
        return text, None
    ends = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n"))
    if not text.endswith(b"\n"):
        ends = np.append(ends, len(text))
    full = np.diff(ends, prepend=-1) > 1
    return re.sub(rb"\n{2,}", b"\n", text).removeprefix(b"\n"), np.flatnonzero(full) + first


def _read_lines(
    path: Path, first: int, data: bytes, layout: _LineFields, separator: str | None
) -> tuple[pl.DataFrame, Ints]:
    """Parse a block line by line; return the rows and their lines, or raise at the first invalid line."""
    at = [layout.fields.index(name) for name in layout.kept]
    number = layout.fields.index(layout.number)
    rows: list[tuple[str | float, ...]] = []
    lines: list[int] = []
    expected = len(layout.fields)
    for n, raw in enumerate(data.split(b"\n"), first):
        raw = raw.removesuffix(b"\r")
        fields = raw.split() if separator is None else raw.split(separator.encode())
        if not raw.strip():
            continue
        try:
            text = raw.decode()
            parts: list[str | float] = [f.decode() for f in fields]
        except UnicodeDecodeError as error:
            raise ParseError(path, n, f"expected UTF-8 text: {error.reason} in {quote(raw[:120])}.") from None
        if len(parts) != expected or not all(parts):
            raise ParseError.fields(path, n, expected, sum(map(bool, parts)), text)
        parts[number] = _finite(path, n, f"the {layout.number}", str(parts[number]))
        rows.append(tuple(parts[k] for k in at))
        lines.append(n)
    return layout.frame(rows), np.array(lines, dtype=np.int64)


def _finite(path: Path, line: int, what: str, text: str) -> float:
    # Python would also strip control characters such as \x1f.
    number = text.strip(" \t\r\v\f")
    value = float(number) if is_number(number) else math.nan
    if not math.isfinite(value):
        raise ParseError.number(path, line, what, text)
    return value


def write_run(
    consensus: Consensus, path: PathLike, *, top: int | None = 1000, tag: str = "concordant", break_ties: bool = False
) -> None:
    """Write a consensus as a TREC run: lines of ``instance Q0 item rank score tag``, best first.

    Parameters
    ----------
    consensus : Consensus
        What to write.
    path : path
        The file; an ending .gz, .xz, .bz2 or .zst packs it. It appears complete or not at all.
    top : int or None
        How many items of each instance to write; ties at the cut in input order. None writes all.
    tag : str
        The last field of every line.
    break_ties : bool
        Write strictly decreasing scores and ranks 1, 2, 3, ... in place of ties. Scores move by the least that single
        precision can tell, so that tools which read scores as 32-bit floats keep the order too.

    Raises
    ------
    DataError
        When an id is empty or holds a blank, which no reader of runs could split again.

    Notes
    -----
    Scores are written with as many digits as reading them back exactly needs. Without `break_ties` tied items carry the
    same rank, the smallest of their group.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "fused.trec")
    >>> write_run(Consensus(["301", "301"], ["d1", "d2"], [0.25, 0.5]), path)
    >>> print(path.read_text(), end="")
    301 Q0 d2 1 0.5 concordant
    301 Q0 d1 2 0.25 concordant
    """
    with atomic_write(path) as handle:
        write_run_lines(consensus, handle, top=top, tag=tag, break_ties=break_ties)


def write_run_lines(
    consensus: Consensus,
    handle: BinaryIO,
    *,
    top: int | None = 1000,
    tag: str = "concordant",
    break_ties: bool = False,
) -> None:
    """Write the lines of a run to an open file."""
    if top is not None and (isinstance(top, bool) or not isinstance(top, (int, np.integer)) or top < 1):
        raise ParameterError.invalid("top", "write_run", "a whole number >= 1, or None for all", top)
    if not isinstance(tag, str) or not tag or any(blank in tag for blank in _BLANK_CHARACTERS):
        raise ParameterError.invalid("tag", "write_run", "text without blanks", tag)
    offsets = consensus.slots.offsets
    starts = offsets[:-1]
    ends = offsets[1:] if top is None else np.minimum(starts + top, offsets[1:])
    lengths = ends - starts
    slots = consensus.order()[ranges(starts, ends)]
    score: Floats = consensus.score[slots]
    rank: NDArray[Any] = consensus.rank[slots]
    if break_ties:
        written = offsets_of(lengths)
        score = _decreasing(score, written)
        rank = np.arange(1, len(slots) + 1) - np.repeat(written[:-1], lengths)
    instance = _ids(consensus.instances, np.flatnonzero(lengths), "instance")
    item = _ids(consensus.items, slots, "item")
    frame = pl.DataFrame(
        {
            "instance": instance.gather(np.repeat(np.arange(len(instance)), lengths[lengths > 0])),
            "q0": pl.repeat("Q0", len(slots), eager=True),
            "item": item,
            "rank": rank,
            "score": score,
            "tag": pl.repeat(tag, len(slots), eager=True),
        }
    )
    frame.write_csv(handle, separator=" ", include_header=False, quote_style="never")


def _ids(texts: Texts, index: Ints, what: str) -> pl.Series:
    """Return ids as a Polars column, or raise for an id that a run cannot hold."""
    store = texts.native
    if isinstance(store, pl.Series):
        ids = store.gather(pl.Series(index.astype(np.uint32)))
    else:
        ids = pl.Series(texts.take(index).tolist(), dtype=pl.String)
    # A byte-order mark before the first instance would be taken for that of the file.
    bad = ids.str.contains_any([*_BLANK_CHARACTERS, "\0"]) | (ids == "") | ids.str.starts_with("\ufeff")
    if bad.any():
        found = ids.filter(bad)[0]
        raise DataError(
            f"{what} {quote(found)} cannot be written to a TREC run: blanks separate its fields, so none may be "
            "empty, hold a blank or a NUL, or begin with a byte-order mark. Rename it, or write another format."
        )
    return ids


def _decreasing(score: Floats, offsets: Ints) -> Floats:
    """Return scores that decrease strictly within each list, in single precision too; scores that do so stay."""
    with np.errstate(over="ignore"):
        single = score.astype(np.float32)
    wide = not np.isfinite(single).all()
    # The bits of floats, read as signed integers, have the same order, and adjacent floats differ by one.
    bits = (score.view(np.int64) if wide else single.view(np.int32).astype(np.int64)).copy()
    least = np.iinfo(np.int64 if wide else np.int32).min
    order = np.where(bits < 0, least - bits, bits)
    out = score.copy()
    for begin, end in pairwise(offsets.tolist()):
        step = np.arange(end - begin)
        strict = np.minimum.accumulate(order[begin:end] + step) - step
        moved = np.flatnonzero(strict != order[begin:end])
        if len(moved):
            back = np.where(strict < 0, least - strict, strict)[moved]
            out[begin + moved] = back.view(np.float64) if wide else back.astype(np.int32).view(np.float32)
    return out


def _write_qrels(labels: Labels, path: PathLike) -> None:
    frame = labels.to_frame().drop_nulls("label")
    for name in ("instance", "item"):
        bad = frame[name].filter(frame[name].str.contains(r"[\s\x00]|^\ufeff") | (frame[name] == ""))
        if len(bad):
            raise DataError(
                f"{display_path(path)}: {name} {quote(bad[0])} cannot be written to qrels: fields are not empty, hold "
                "no blanks and no NUL, and do not begin with a byte-order mark."
            )
    label = frame["label"]
    whole = (label == label.round()).all() and (label.abs() < 2**53).all()
    frame = frame.select("instance", pl.lit("0").alias("iteration"), "item", label.cast(pl.Int64) if whole else label)
    with atomic_write(path) as handle:
        frame.write_csv(handle, separator=" ", include_header=False, quote_style="never")


def _scan_runs(paths: list[Path], options: dict[str, Any]) -> RunReader:
    check_options("trec", read_runs, options)
    return RunReader("scan", paths, **options)


def _append_run(
    consensus: Consensus,
    handle: BinaryIO,
    *,
    first: bool,  # noqa: ARG001 - a run has no header
    top: int | None = 1000,
    tag: str = "concordant",
    break_ties: bool = False,
) -> None:
    write_run_lines(consensus, handle, top=top, tag=tag, break_ties=break_ties)


register_format(
    "trec",
    "TREC runs",
    read=read_runs,
    write=write_run,
    writes=(Consensus,),
    sniff=is_run,
    extensions=(".trec", ".run", ".res"),
    append=_append_run,
    scan=_scan_runs,
    line_by_line=True,
)
register_format(
    "qrels",
    "TREC qrels",
    read=read_qrels,
    write=_write_qrels,
    writes=(Labels,),
    sniff=is_qrels,
    extensions=(".qrels", ".qrel"),
    is_truth=True,
    line_by_line=True,
)
