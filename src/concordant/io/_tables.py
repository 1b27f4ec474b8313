"""Tables in CSV, TSV, blank-separated text, JSON lines and Parquet: columns of text, and the line of every row.

The separator and the header are found in the first lines. Polars reads the file. It does not report the line of an
error, nor lines that are too short. So anything suspicious is read again by a slow, exact parser, which either names
the line or finds nothing wrong.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from decimal import Decimal
from functools import cached_property
from glob import has_magic
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from concordant.arrays import Ints
from concordant.errors import (
    NOT_TEXT,
    DataError,
    FormatError,
    ParameterError,
    ParseError,
    is_text,
    listing,
    quote,
    shorten,
)
from concordant.execution import free_memory
from concordant.io._column_names import normalise_name
from concordant.io._files import (
    BLANKS,
    LONGEST_LINE,
    TABLE_ENDINGS,
    compression,
    protect_bom,
    read_bytes,
    read_head,
    text_blocks,
    text_lines,
    uncompressed_name,
)
from concordant.io._parquet import ParquetError, check_parquet

__all__ = [
    "FILE_TYPES",
    "SAMPLE_LINES",
    "TableFile",
    "blank_fields",
    "file_type",
    "has_movielens_name",
    "is_number",
    "open_table",
    "parquet_rows",
    "position_of",
]

FILE_TYPES = ("csv", "tsv", "parquet", "jsonl")

# Every digit matches in one way only, so that many digits do not take quadratic time.
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_POSITION = re.compile(
    r"(?:rank|pos|position|place|choice|preference|pref|top)[ _.\-]?(\d{1,6})|(\d{1,6})(?:st|nd|rd|th)", re.ASCII
)
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ORDINAL = re.compile(rf"({'|'.join(_ORDINALS)})(?:[ _.\-]?(?:rank|position|place|choice|preference))?")
_BLANKS = re.compile(rb"[ \t\r\f\v]+")
_FIELD = re.compile(r"[^ \t\r\f\v]+")
# Bytes to read for the first lines; more if the lines are long.
_HEAD_SIZES = (1 << 16, 1 << 20, 1 << 24)
SAMPLE_LINES = 200
_MALFORMED = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ParquetError)
# A cell of a Parquet table takes at least this much memory.
_CELL_BYTES = 8
# Assumed bytes per row, to cut text into windows of a number of rows.
_ROW_BYTES = 32
# Up to this many keys Polars checks every line by pattern; with more, lines are parsed one by one.
_FEW_KEYS = 16
_MOST_COLUMNS = 100_000
# A JSON table of more cells than _SMALL_TABLE must have a value in one cell of _SPARSE.
_SMALL_TABLE, _SPARSE = 1 << 20, 50
# JSON text with an escape that may be in a key, or that encodes half of a character.
_ESCAPED = r'\\[^"]*"\s*:|\\u[dD][89a-fA-F]'
_SPACES = b" \t\r\n\f\v"
# The beginning of a file that is one JSON array of objects.
_ARRAY = re.compile(rb"(\xef\xbb\xbf)?[ \t\r\n]*\[[ \t\r\n]*[{\]]")
_QUOTE, _LINE_FEED, _RETURN = 34, 10, 13


def blank_fields(text: str) -> list[str]:
    """Return the fields of blank-separated text; splits at ASCII blanks only, as the readers do."""
    # In printable ASCII the only blank is the space, and this is the quickest way to split at it.
    return text.split() if text.isascii() and text.isprintable() else _FIELD.findall(text)


def is_number(text: str) -> bool:
    """Return whether the text is a plain decimal number."""
    return _NUMBER.fullmatch(text) is not None


def position_of(name: str) -> int | None:
    """Return the position that a column name such as "rank3", "3rd" or "third" stands for, None for any other name.

    >>> position_of("rank3"), position_of("2nd"), position_of("Third choice"), position_of("P3")
    (3, 2, 3, None)
    """
    text = name.strip().casefold()
    word = _ORDINAL.fullmatch(text)
    if word is not None:
        return 1 + _ORDINALS.index(word[1])
    found = _POSITION.fullmatch(text)
    return None if found is None else int(found[1] or found[2])


def file_type(path: object) -> str | None:
    """Return "csv", "tsv", "parquet" or "jsonl" by the ending of a file name, None for any other."""
    name = uncompressed_name(path).lower()
    return next((kind for kind, endings in TABLE_ENDINGS.items() if name.endswith(endings)), None)


def has_movielens_name(path: Path) -> bool:
    """Return whether a file is called as the ratings of MovieLens are, which have no header.

    >>> has_movielens_name(Path("ml-100k/u.data.gz"))
    True
    """
    return uncompressed_name(path.name).lower() in ("u.data", "ratings.dat")


class TableFile:
    """A file that holds a table, or a window of its rows.

    Attributes
    ----------
    path : Path
        The file as the user named it.
    names : list of str
        The names in the header, "" where there is none, "1", "2", ... without a header.
    header : bool
        Whether the file names its columns.
    sample : list of list of str
        The first rows below the header.
    regular : bool
        Whether the first rows all have the same number of fields, so that it may be a table at all.
    share : float
        How much of the file this window and those before it hold, from 0 to 1.
    """

    names: list[str]
    header: bool
    sample: list[list[str]]
    regular: bool = True
    # Whether all columns are text without outer blanks and nulls, as those of a text file are.
    text: bool = True
    share: float = 1.0
    # For a window: the whole table, and the number of rows per window.
    _of: tuple[TableFile, int] | None = None
    # The number of rows of the file before this window, for formats without lines.
    _before = 0

    def __init__(self, path: Path) -> None:
        self.path = path
        self._whole_numbers: dict[tuple[int, ...], bool] = {}

    def read(self, columns: Sequence[int]) -> tuple[pl.DataFrame, Ints | range]:
        """Return these columns, named by their number and without empty rows, and the number of each row."""
        wanted = list(dict.fromkeys(columns))
        frame = self._read(wanted)
        numbers: Ints | range = range(self._before, self._before + len(frame))
        empty = frame.select(pl.all_horizontal(pl.all() == "").arg_true()).to_series() if self.text else pl.Series([])
        if len(empty):
            blank = self._blank_rows(empty.to_numpy().astype(np.int64))
            keep = np.ones(len(frame), dtype=np.bool_)
            keep[blank] = False
            frame, numbers = frame.filter(pl.Series(keep)), np.flatnonzero(keep) + self._before
        if not len(frame):
            raise FormatError(f"{self.path}: the table has no rows.")
        return frame, numbers

    def _read(self, wanted: list[int]) -> pl.DataFrame:
        raise TypeError("a table reads itself")

    def find_columns(self) -> None:
        """Read the whole file to find columns that its first rows do not name."""

    def windows(self, rows: int) -> Iterator[TableFile]:
        """Yield the table in windows of about `rows` rows, or as a whole if its file cannot be read in parts.

        No window is empty unless the table is. Windows know the lines (or rows) of the file. A window holds its text
        until the next one is requested, and reads it from the file again if it is needed later.
        """
        yield self

    def all_parts(self) -> Iterator[TableFile]:
        """Yield all windows of the file if this is one of them, else nothing."""
        if self._of is not None:
            whole, rows = self._of
            yield from whole.windows(rows)

    def all_numbers(self, columns: Sequence[int]) -> bool:
        """Return whether these columns hold only whole numbers in all windows of the file."""
        key = tuple(columns)
        if key not in self._whole_numbers:
            self._whole_numbers[key] = all(
                part.read(columns)[0].select((pl.all().str.contains(r"^(-?\d+(\.0+)?)?$")).all()).row(0)
                == (True,) * len(set(columns))
                for part in self.all_parts()
            )
        return self._whole_numbers[key]

    def _blank_rows(self, rows: Ints) -> Ints:
        """Return those of the rows that are blank in all columns of the file."""
        return rows

    def line(self, row: int) -> int | None:
        """Return the line of the file on which a row begins; None where a file has no lines."""
        return None

    def error(self, row: int, message: str) -> ParseError:
        """Return the error that names the line (or, in a Parquet file, the row)."""
        line = self.line(row)
        return ParseError(self.path, line, message if line is not None else f"row {row}: {message}")

    def describe(self) -> str:
        """Return a sentence about the columns, for messages."""
        if self.header:
            return f"The columns are {listing(self.names, 30)}."
        first = "; the first row is " + listing([shorten(c, 40) for c in self.sample[0]]) if self.sample else ""
        return f"There are {len(self.names)} columns and no header{first}."


class _ParquetTable(TableFile):
    header = True
    text = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        source = path if compression(path) is None else read_bytes(path)
        try:
            with BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file:
                self._rows = check_parquet(file)
            self._scan = pl.scan_parquet(source, glob=False)
            self.names = self._scan.collect_schema().names()
            self.sample = [
                ["" if v is None else str(v) for v in row] for row in self._scan.head(SAMPLE_LINES).collect().rows()
            ]
        except _MALFORMED as error:
            raise self._damaged(error) from None

    def _damaged(self, error: BaseException) -> FormatError:
        return FormatError(f"{self.path}: the Parquet data is damaged ({shorten(str(error).splitlines()[0])}).")

    def windows(self, rows: int) -> Iterator[TableFile]:
        if self._rows <= rows:
            yield self
            return
        for before in range(0, self._rows, rows):
            window = copy(self)
            window._scan, window._before = self._scan.slice(before, rows), before
            window._rows = min(rows, self._rows - before)
            window._of, window.share = (self, rows), (before + window._rows) / self._rows
            yield window

    def _read(self, wanted: list[int]) -> pl.DataFrame:
        # Polars would abort the process when the memory does not suffice.
        needed, free = _CELL_BYTES * self._rows * len(wanted), free_memory()
        if needed > free:
            raise DataError(
                f"{self.path}: {self._rows:,} rows take more than {needed / 1e9:,.1f} GB of memory, and "
                f"{free / 1e9:,.1f} GB are free. Read the file in blocks: concordant.scan, or aggregate --memory."
            )
        try:
            return self._scan.select(pl.col(self.names[c]).alias(str(c)) for c in wanted).collect()
        except _MALFORMED as error:
            raise self._damaged(error) from None


def parquet_rows(path: Path) -> int:
    """Return the number of rows of a Parquet file from its footer."""
    try:
        return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    except _MALFORMED as error:
        raise FormatError(f"{path}: the Parquet data is damaged ({shorten(str(error).splitlines()[0])}).") from None


class _TextChunk(NamedTuple):
    """Consecutive whole records of a text file, and the line on which they begin."""

    line: int
    text: bytes


class _LineTable(TableFile):
    """A table of text lines, which can be read in chunks of whole records."""

    # The number of the last line above the first row.
    _skip = 0
    # For a window: its number, its first line, and its text while it is in use.
    _number = 0
    _line = 1
    _text: bytes | None = None
    # The bytes of which blank records consist.
    _blank_bytes = _SPACES

    def windows(self, rows: int) -> Iterator[TableFile]:
        size = max(rows, 1) * _ROW_BYTES
        plain = compression(self.path) is None
        total = self.path.stat().st_size
        if plain and total <= size:
            yield self
            return
        done = 0
        for number, chunk in enumerate(self._chunks(size)):
            window = copy(self)
            window._of, window._number = (self, rows), number
            window._line, window._text = chunk
            done += len(chunk.text)
            # How much a compressed file holds is known at its end.
            window.share = min(done / total, 1.0) if plain else 0.0
            yield window
            window._text = None

    def _chunks(self, size: int) -> Iterator[_TextChunk]:
        """Yield the rows of the file in chunks of about `size` bytes, none of them blank unless it is the only one."""
        held: _TextChunk | None = None
        for chunk in self._record_chunks(size):
            if held is None:
                held = chunk
            elif self._is_blank(chunk.text) or self._is_blank(held.text):
                held = _TextChunk(held.line, held.text + chunk.text)
            else:
                yield held
                held = chunk
        # A table without rows is one chunk without rows.
        yield held or _TextChunk(self._skip + 1, b"")

    def _record_chunks(self, size: int) -> Iterator[_TextChunk]:
        held: list[bytes] = []
        line, inside = 1, False
        for first, block in text_blocks(self.path, size):
            if not held:
                block = _skip_lines(block, self._skip + 1 - first)
                line = max(first, self._skip + 1)
            end, inside = self._last_end(block, inside)
            if end:
                chunk = _TextChunk(line, b"".join([*held, block[:end]]))
                held = []
                yield chunk
                line += chunk.text.count(b"\n")
            if end < len(block):
                held.append(block[end:])
            if sum(map(len, held)) > LONGEST_LINE:
                raise _unclosed(self.path, line, held[0].split(b"\n", 1)[0].decode(errors="replace"))
        if held:
            yield _TextChunk(line, b"".join(held))

    def _last_end(self, text: bytes, inside: bool) -> tuple[int, bool]:
        """Return where the last complete record ends, 0 if none does, and whether the text ends inside a quoted field.

        The text has whole lines. It begins with a record, or `inside` a quoted field.
        """
        return len(text), inside

    def _is_blank(self, text: bytes) -> bool:
        # Unicode blanks count too. The whole text is examined only if its beginning is blank.
        return not any(
            part.translate(None, self._blank_bytes).decode(errors="ignore").strip(BLANKS)
            for part in (text[:4096], text)
        )

    def _content(self) -> bytes:
        """Return the text of this window, or of the whole file."""
        if self._of is None:
            return b"".join(block for _, block in text_blocks(self.path))
        if self._text is not None:
            return self._text
        chunks = self._chunks(max(self._of[1], 1) * _ROW_BYTES)
        return next((s.text for n, s in enumerate(chunks) if n == self._number), b"")

    def _source(self) -> Path | bytes:
        """Return the source for Polars: the file itself if possible, else its text."""
        return self.path if self._of is None and compression(self.path) is None else self._content()

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines of rows with their numbers in the file; a carriage return at the end of a line is kept."""
        if self._of is None:
            return ((line, text) for line, text in text_lines(self.path, returns=True) if line > self._skip)
        return self._own_lines()

    def _own_lines(self) -> Iterator[tuple[int, str]]:
        lines = self._content().split(b"\n")
        if not lines[-1]:
            lines.pop()
        for number, line in enumerate(lines, self._line):
            try:
                text = line.decode()
            except UnicodeDecodeError:
                # Reading the lines of the file again names the line and the byte.
                for _ in text_lines(self.path):
                    pass
                raise
            yield number, text


def _skip_lines(text: bytes, lines: int) -> bytes:
    """Return the text after its first lines."""
    at = 0
    for _ in range(lines):
        at = text.find(b"\n", at) + 1
        if not at:
            return b""
    return text[at:]


class _JsonObject(dict[str, Any]):
    """A JSON object, and the keys it repeats: parsers disagree about which value of a repeated key counts."""

    repeated: Collection[str] = ()

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        if len(self) < len(pairs):
            self.repeated = {key for key, n in Counter(key for key, _ in pairs).items() if n > 1}


class _JsonTable(_LineTable):
    header = True

    def __init__(self, path: Path, head: bytes, whole: bool) -> None:
        super().__init__(path)
        names: dict[str, None] = {}
        self.sample = []
        rows: list[_JsonObject] = []
        for line, text in _head_lines(path, head, whole):
            if text.strip(BLANKS):
                rows.append(self._object(line, text))
                names.update(dict.fromkeys(rows[-1]))
        self._whole = whole and len(rows) < SAMPLE_LINES
        self._set_names(names, rows[:SAMPLE_LINES])

    def _set_names(self, names: Iterable[str], rows: list[_JsonObject]) -> None:
        self.names, self._rows = list(names), rows
        _check_width(self.path, len(self.names))
        few = rows[: max(_SMALL_TABLE // (1 + len(self.names)), 1)]
        self.sample = [[_json_text(row.get(name)) or "" for name in self.names] for row in few]

    def find_columns(self) -> None:
        if self._whole:
            return
        self._whole = True
        names, n, given = dict.fromkeys(self.names), 0, 0
        for line, text in self._lines():
            if text.strip(BLANKS):
                row = self._object(line, text)
                names.update(dict.fromkeys(row))
                n, given = n + 1, given + len(row)
        _check_sparse(self.path, n, len(names), given)
        self._set_names(names, self._rows)

    def _object(self, line: int, text: str, keys: Iterable[str] = ()) -> _JsonObject:
        """Return the JSON object on a line, or raise if there is none or one of `keys` is ambiguous."""
        text = text.removesuffix("\r")
        try:
            found = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_JsonObject)
        except (ValueError, RecursionError) as error:
            raise ParseError(self.path, line, f"expected one JSON object, found {quote(text)} ({error}).") from None
        if not isinstance(found, _JsonObject):
            raise ParseError(self.path, line, f"expected one JSON object, found {quote(text)}.")
        wrong = next((key for key in found if not is_text(key)), None)
        if wrong is not None:
            raise ParseError(self.path, line, f"the key {quote(wrong)} {NOT_TEXT}")
        _check_keys(self.path, line, found, keys)
        return found

    def _read(self, wanted: list[int]) -> pl.DataFrame:
        keys = [self.names[c] for c in wanted]
        frame = self._scan(keys) if len(keys) <= _FEW_KEYS else None
        if frame is not None:
            return frame.select(_stripped(k).fill_null("").alias(str(c)) for k, c in zip(keys, wanted, strict=True))
        rows = [self._object(line, text, keys) for line, text in self._lines() if text.strip(BLANKS)]
        columns = {str(c): [_json_text(row.get(k)) or "" for row in rows] for k, c in zip(keys, wanted, strict=True)}
        return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String)).with_columns(pl.all().str.strip_chars())

    def _scan(self, keys: list[str]) -> pl.DataFrame | None:
        """Return the columns read by Polars, None if it fails."""
        source = self._source()
        if isinstance(source, Path) and has_magic(str(source)):
            # pl.scan_ndjson treats every path as a glob pattern.
            source = self._content()
        try:
            frame = pl.scan_ndjson(source, schema=dict.fromkeys(keys, pl.String)).collect()
            self._check(source, keys)
        except _MALFORMED:
            return None
        return frame

    def _check(self, source: Path | bytes, keys: list[str]) -> None:
        """Raise at a line with a repeated key or half of a character, which Polars accepts silently.

        Candidates are found by pattern and then parsed one by one.
        """
        line = pl.col("line")
        # Other spellings of a key have a backslash.
        spelled = [pl.escape_regex(json.dumps(key, ensure_ascii=False)) + r"\s*:" for key in keys]
        odd = [line.str.contains(_ESCAPED), *(line.str.count_matches(key) > 1 for key in spelled)]
        lines = pl.scan_lines(source, row_index_name="row", glob=False).filter(pl.any_horizontal(odd)).collect()
        for row, text in lines.iter_rows():
            self._object(row + self._line, text, keys)

    def _blank_rows(self, rows: Ints) -> Ints:
        # Every JSON object is a row, even an empty one; the readers report what it lacks.
        return rows[:0]

    def line(self, row: int) -> int | None:
        filled = (line for line, text in self._lines() if text.strip(BLANKS))
        return next((line for n, line in enumerate(filled) if n == row), None)


class _JsonArray(TableFile):
    """A JSON file that is one array of objects, each of them a row; it is parsed as a whole, exactly."""

    header = True

    def __init__(self, path: Path, head: bytes, whole: bool) -> None:
        super().__init__(path)
        rows = self._head_rows(head, whole)
        self.names = list(dict.fromkeys(name for row in rows for name in row))
        self._whole, self._first = whole, rows[:SAMPLE_LINES]
        self._set_sample(self._first)

    def _set_sample(self, rows: list[_JsonObject]) -> None:
        _check_width(self.path, len(self.names))
        few = rows[: max(_SMALL_TABLE // (1 + len(self.names)), 1)]
        self.sample = [[_json_text(row.get(name)) or "" for name in self.names] for row in few]

    def _head_rows(self, head: bytes, whole: bool) -> list[_JsonObject]:
        """Return the first objects, all of a short file."""
        for part in () if whole else (head[: _HEAD_SIZES[0]], head):
            text = part.removeprefix(b"\xef\xbb\xbf").decode(errors="ignore")
            rows: list[_JsonObject] = []
            # The last object is cut short; whatever else is wrong, reading the file says so.
            with suppress(ParseError):
                for _, row in _array_objects(self.path, text):
                    rows.append(row)
            if rows:
                return rows
        return [row for _, row in self._objects()]

    def _objects(self) -> Iterator[tuple[int, _JsonObject]]:
        data = read_bytes(self.path).removeprefix(b"\xef\xbb\xbf")
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            line = 1 + data.count(b"\n", 0, error.start)
            raise ParseError(
                self.path, line, f"expected UTF-8 text, found byte 0x{data[error.start]:02x}. Convert the file first."
            ) from None
        return _array_objects(self.path, text)

    def find_columns(self) -> None:
        if not self._whole:
            self._whole = True
            names, n, given = dict.fromkeys(self.names), 0, 0
            for _, row in self._objects():
                names.update(dict.fromkeys(row))
                n, given = n + 1, given + len(row)
            _check_sparse(self.path, n, len(names), given)
            self.names = list(names)
            self._set_sample(self._first)

    def _read(self, wanted: list[int]) -> pl.DataFrame:
        keys = [self.names[c] for c in wanted]
        columns: dict[str, list[str]] = {str(c): [] for c in wanted}
        for line, row in self._objects():
            _check_keys(self.path, line, row, keys)
            huge = next((key for key in keys if isinstance(row.get(key), float) and not isfinite(row[key])), None)
            if huge is not None:
                raise ParseError(self.path, line, f"the value of {quote(huge)} is a number that is too large.")
            for c, key in zip(wanted, keys, strict=True):
                columns[str(c)].append(_json_text(row.get(key)) or "")
        return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String)).with_columns(pl.all().str.strip_chars())

    def _blank_rows(self, rows: Ints) -> Ints:
        return rows[:0]

    def line(self, row: int) -> int | None:
        return next((line for n, (line, _) in enumerate(self._objects()) if n == row), None)


_GAP = re.compile(r"[ \t\r\n]*")


def _array_objects(path: Path, text: str) -> Iterator[tuple[int, _JsonObject]]:
    """Yield the objects of a JSON array and the line on which each begins; raise ParseError at anything else."""
    decoder = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_JsonObject)
    line, counted = 1, 0

    def gap(at: int) -> int:
        found = _GAP.match(text, at)
        return at if found is None else found.end()

    at = gap(0) + 1
    at = gap(at)
    first = True
    while True:
        line, counted = line + text.count("\n", counted, at), at
        here = text[at : at + 1]
        if not here:
            raise ParseError(path, line, "the array does not end: ] is missing.")
        if here == "]" and first:
            break
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise ParseError(
                path, line, f"expected a JSON object, found {quote(text[at : at + 60])} ({error})."
            ) from None
        if not isinstance(found, _JsonObject):
            raise ParseError(path, line, f"expected a JSON object, found {shorten(text[at:end], 60)}.")
        wrong = next((key for key in found if not is_text(key)), None)
        if wrong is not None:
            raise ParseError(path, line, f"the key {quote(wrong)} {NOT_TEXT}")
        yield line, found
        first = False
        at = gap(end)
        after = text[at : at + 1]
        line, counted = line + text.count("\n", counted, at), at
        if after == "]":
            break
        if not after:
            raise ParseError(path, line, "the array does not end: ] is missing.")
        if after != ",":
            raise ParseError(path, line, f"expected , or ] after an object, found {quote(text[at : at + 60])}.")
        at = gap(at + 1)
    at = gap(at + 1)
    if at < len(text):
        line += text.count("\n", counted, at)
        raise ParseError(path, line, f"there is text after the array: {quote(text[at : at + 60])}.")


def _check_sparse(path: Path, rows: int, names: int, given: int) -> None:
    """Raise if a table of JSON objects is all but empty."""
    if rows * names > max(_SMALL_TABLE, given * _SPARSE):
        raise FormatError(
            f"{path}: as a matrix of {rows:,} rows and {names:,} columns the table is all but empty ({given:,} cells "
            "are given). Write a row for each expert and item: expert, item, rank."
        )


def _check_keys(path: Path, line: int, found: _JsonObject, keys: Iterable[str]) -> None:
    """Raise if one of the keys of a JSON object is ambiguous or its value is no text."""
    for key in keys:
        if key in found.repeated:
            raise ParseError(path, line, f"the key {quote(key)} is given twice. Keep one of them.")
        value = found.get(key)
        if isinstance(value, str) and not is_text(value):
            raise ParseError(path, line, f"the value {quote(value)} of {quote(key)} {NOT_TEXT}")


class _TextTable(_LineTable):
    def __init__(
        self, path: Path, head: bytes, whole: bool, header: bool | None, kind: str | None, words: _Words
    ) -> None:
        super().__init__(path)
        if b"\n" not in head and b"\r" in head.rstrip():
            raise FormatError(f"{path}: the lines end in carriage returns alone. Write the file with line feeds.")
        lines = list(_head_lines(path, head, whole))
        if not lines:
            raise FormatError(f"{path}: the file holds no rows.")
        self.separator = _find_separator([text for _, text in lines], kind)
        rows: list[tuple[int, list[str]]] = []
        starts: list[int] = []
        for line, text, fields in _records(iter(lines), self.separator):
            starts.append(line)
            if fields is not None:
                rows.append((line, [f.strip(BLANKS) for f in fields]))
            elif not rows:
                raise _unclosed(path, line, text)
        first = rows[0][1]
        below = [r for _, r in rows[1:]]
        width = _width(first, below)
        _check_width(path, width)
        self.header = _is_header(first, below, words) if header is None else header
        if self.header:
            # R leaves the column of row names without a name.
            names = ["", *first] if len(first) == width - 1 and any(r[-1] for r in below if len(r) == width) else first
            self.names = (names + [""] * width)[:width]
        else:
            below.insert(0, first)
            self.names = [str(c + 1) for c in range(width)]
        self.regular = all(len(r) == width for r in below if any(r))
        # The record after the header is the first row, even if it is damaged.
        self._skip = starts[0] - 1 if not self.header else (starts[1] - 1 if len(starts) > 1 else starts[0])
        self.sample = [(r + [""] * width)[:width] for r in below if any(r)][:SAMPLE_LINES]

        self._blank_bytes = _SPACES + self.separator.encode() + b'"'

    @cached_property
    def _quote(self) -> str | None:
        return None if self.separator == " " else '"'

    def _last_end(self, text: bytes, inside: bool) -> tuple[int, bool]:
        if len(self.separator) > 1 or self._quote is None or b'"' not in text:
            return (0 if inside else len(text)), inside
        end = _last_regular_end(text, ord(self.separator), inside)
        return _last_end_line_by_line(text, self.separator, inside) if end is None else end

    def _read(self, wanted: list[int]) -> pl.DataFrame:
        width = len(self.names)
        frame = None
        if self.separator == "::":
            frame = self._scan(self._content().replace(b"::", b"\x1f"), "\x1f", wanted)
        elif self._quotes_are_regular():
            # Tabs, \v and \f separate fields too, but Polars takes only one separator.
            if self.separator != " " or not self._holds(b"\t", b"\v", b"\f"):
                frame = self._scan(self._source(), self.separator, wanted)
            if frame is None and self.separator == " ":
                packed = b"\n".join(_BLANKS.sub(b" ", x).strip() for x in self._content().split(b"\n"))
                frame = self._scan(packed, " ", wanted)
        if frame is None:
            rows = [fields for _, fields in self._exact(width)]
            frame = pl.DataFrame(
                {str(c): [r[c] for r in rows] for c in wanted}, schema={str(c): pl.String for c in wanted}
            ).with_columns(pl.all().str.strip_chars())
        return frame

    def _quotes_are_regular(self) -> bool:
        """Return whether every quote opens or closes a field; otherwise Polars may join lines."""
        if self._quote is None:
            return True
        inside = False
        for block in self._blocks():
            if b'"' in block:
                end = _last_regular_end(block, ord(self.separator), inside)
                if end is None:
                    return False
                inside = end[1]
        # A quote that nothing closes is not regular either.
        return not inside

    def _blocks(self) -> Iterator[bytes]:
        """Yield the text in blocks of whole lines."""
        return (block for _, block in text_blocks(self.path)) if self._of is None else iter([self._content()])

    def _holds(self, *parts: bytes) -> bool:
        return any(part in block for block in self._blocks() for part in parts)

    def _scan(self, source: Path | bytes, separator: str, wanted: list[int]) -> pl.DataFrame | None:
        """Return the columns read by Polars, None if anything in the file looks suspicious."""
        width = len(self.names)
        if isinstance(source, bytes):
            source = protect_bom(source)
        if self._of is None and self._skip and self.sample and self.sample[0][0].startswith("\ufeff"):
            # Polars would take this for the byte-order mark of the file.
            return None
        # One extra column catches lines that are too long.
        schema = {str(c): pl.String for c in range(width + 1)}
        try:
            lazy = pl.scan_csv(
                source,
                has_header=False,
                separator=separator,
                quote_char=self._quote,
                schema=schema,
                empty_string_is_null=False,
                missing_columns="insert",
                skip_lines=self._skip if self._of is None else 0,
                glob=False,
            )
            frame = lazy.select(
                *(_stripped(str(c)) for c in wanted),
                (pl.col(str(width)) != "").alias("long"),
                (pl.col(str(width - 1)) == "").alias("short"),
            ).collect()
        except _MALFORMED:
            return None
        if frame["long"].any() or (frame["short"].any() and not self._all_full(frame["short"].to_numpy())):
            return None
        return frame.drop("long", "short")

    def _all_full(self, short: Any) -> bool:
        """Return whether the rows whose last field is empty are either blank or of full width."""
        width = len(self.names)
        suspects = set(np.flatnonzero(short).tolist())
        for row, (_, _, fields) in enumerate(_records(self._lines(), self.separator)):
            if row in suspects and (fields is None or not (len(fields) == width or not any(fields))):
                return False
        return True

    def _exact(self, width: int) -> Iterator[tuple[int, list[str]]]:
        """Yield (line, fields) of every record, or raise at the first that is not as wide as the table."""
        for line, text, fields in _records(self._lines(), self.separator):
            if fields is None:
                raise _unclosed(self.path, line, text)
            while len(fields) > width and not fields[-1].strip(BLANKS):
                fields.pop()
            if len(fields) != width:
                if any(f.strip(BLANKS) for f in fields):
                    raise ParseError.fields(self.path, line, width, len(fields), text)
                fields = [""] * width
            yield line, fields

    def _blank_rows(self, rows: Ints) -> Ints:
        suspects = set(rows.tolist())
        blank = [
            n
            for n, (_, _, fields) in enumerate(_records(self._lines(), self.separator))
            if n in suspects and fields is not None and not any(f.strip(BLANKS) for f in fields)
        ]
        return np.array(blank, dtype=np.int64)

    def line(self, row: int) -> int | None:
        records = _records(self._lines(), self.separator)
        return next((line for n, (line, _, _) in enumerate(records) if n == row), None)


def _stripped(name: str) -> pl.Expr:
    return pl.col(name).str.strip_chars()


_Words = tuple[frozenset[str], frozenset[str]]


def open_table(
    path: Path,
    *,
    header: bool | None = None,
    file: str | None = None,
    words: Iterable[str] = (),
    named: Iterable[str] = (),
) -> TableFile:
    """Return the table in a file: its names and first rows; the columns are read when asked for.

    Parameters
    ----------
    path : Path
        One file, plain or compressed.
    header : bool, optional
        Whether the first row names the columns; found by content when absent.
    file : {"csv", "tsv", "parquet", "jsonl"}, optional
        The file type; found by content by default, with the name as a hint for the separator.
    words : iterable of str
        Names (as `normalise_name` gives them) that make a first row a header.
    named : iterable of str
        Names that the user expects in the header, exactly as written.
    """
    if file is not None and file not in FILE_TYPES:
        raise ParameterError.invalid("file", "open_table", f"one of {', '.join(map(repr, FILE_TYPES))}", file)
    head = b""
    for size in _HEAD_SIZES:
        head = read_head(path, size)
        if len(head) < size or head.count(b"\n") > 2:
            break
    whole = len(head) < size
    if head[:4] == b"PAR1" or file == "parquet":
        if head[:4] != b"PAR1":
            raise FormatError(f"{path}: not a Parquet file; it begins {shorten(repr(head[:20]))}.")
        return _ParquetTable(path)
    if b"\x00" in head:
        raise FormatError(f"{path}: not a text table; it begins {shorten(repr(head[:20]))}.")
    kind = file or file_type(path)
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if first == b"[" and kind in (None, "jsonl") and _ARRAY.match(head):
        table: TableFile = _JsonArray(path, head, whole)
        if not table.names:
            raise FormatError(f"{path}: the file holds no rows.")
        return table
    if not whole and b"\n" not in head:
        # Raises if the first line is longer than lines of data are: nobody need look for columns in it.
        next(text_blocks(path, _HEAD_SIZES[0]), None)
    if file == "jsonl" or (first == b"{" and kind in (None, "jsonl")):
        table = _JsonTable(path, head, whole)
        if not table.names:
            raise FormatError(f"{path}: the file holds no rows.")
        return table
    return _TextTable(path, head, whole, header, kind, (frozenset(words), frozenset(named)))


def _head_lines(path: Path, head: bytes, whole: bool) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of the first lines, without the blank ones before the first."""
    head = head.removeprefix(b"\xef\xbb\xbf")
    lines = head.split(b"\n")
    if not whole and len(lines) > 1:
        lines.pop()
    started = False
    for number, line in enumerate(lines[: SAMPLE_LINES * 5], 1):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            if not whole and number == len(lines) and error.end == len(line):
                text = line.decode(errors="ignore")
            else:
                raise ParseError(
                    path,
                    number,
                    f"expected UTF-8 text, found byte 0x{line[error.start]:02x} at column {error.start + 1}. "
                    "Convert the file to UTF-8 first.",
                ) from None
        started = started or bool(text.strip(BLANKS))
        if started:
            yield number, text


def _check_width(path: Path, width: int) -> None:
    if width > _MOST_COLUMNS:
        raise FormatError(
            f"{path}: the table has {width:,} columns; {_MOST_COLUMNS:,} are read at most. Write a row for each expert "
            "and item: expert, item, rank."
        )


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _json_text(value: Any) -> str | None:
    """Return a JSON value as Polars writes it into a column of text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and isfinite(value):
        return f"{Decimal(repr(value)):f}".removesuffix(".0")
    return json.dumps(value)


def _unclosed(path: Path, line: int, text: str) -> ParseError:
    return ParseError(path, line, f"a quoted field does not end as it should: {quote(text)}.")


class _Record:
    """Parses one CSV record, whose quoted fields may span several lines; every line is visited once.

    A quote inside a field that does not begin with a quote is an ordinary character. Lines end in a line feed, or in a
    carriage return and a line feed, which a quoted field keeps as they are. csv.reader differs: it takes a lone
    carriage return for a line end and limits the length of fields.

    Attributes
    ----------
    fields : list of str or None
        The fields, None when a field that begins with a quote does not end with one.
    unfinished : bool
        Whether the text so far ends inside a quoted field, which the next line may continue.
    """

    fields: list[str] | None = None
    unfinished = False

    def __init__(self, text: str, separator: str) -> None:
        self._separator = separator
        self._done: list[str] = []
        self._open: list[str] = []
        text = self._without_end(text)
        if separator == " ":
            self.fields = blank_fields(text)
        elif '"' not in text or separator == "::":
            self.fields = text.split(separator)
        else:
            self._take(text, 0)

    def add(self, line: str) -> None:
        """Continue the quoted field with the next line."""
        self._open.append(self._end)
        line = self._without_end(line)
        self._take(line, self._quoted(line, 0))

    def _without_end(self, line: str) -> str:
        self._end = "\r\n" if line.endswith("\r") else "\n"
        return line.removesuffix("\r")

    def _take(self, text: str, at: int) -> None:
        """Parse the fields from position `at` on; -1 means that none is left."""
        while at >= 0:
            if text[at : at + 1] == '"':
                at = self._quoted(text, at + 1)
                continue
            end = text.find(self._separator, at)
            self._done.append(text[at:] if end < 0 else text[at:end])
            if end < 0:
                self.fields = self._done
            at = end + 1 if end >= 0 else -1

    def _quoted(self, text: str, at: int) -> int:
        """Parse the quoted field and return where the next field begins, -1 if there is none."""
        end = at
        while (end := text.find('"', end)) >= 0 and text[end + 1 : end + 2] == '"':
            end += 2
        self.unfinished = end < 0
        self._open.append((text[at:] if end < 0 else text[at:end]).replace('""', '"'))
        if end < 0:
            return -1
        self._done.append("".join(self._open))
        self._open.clear()
        if end + 1 == len(text):
            self.fields = self._done
            return -1
        return end + 2 if text[end + 1] == self._separator else -1


def _records(lines: Iterator[tuple[int, str]], separator: str) -> Iterator[tuple[int, str, list[str] | None]]:
    """Yield (line, text, fields) of every record; fields is None for a malformed record."""
    for line, text in lines:
        record = _Record(text, separator)
        while record.unfinished and (more := next(lines, None)) is not None:
            record.add(more[1])
        yield line, text.removesuffix("\r"), record.fields


def _last_regular_end(text: bytes, separator: int, inside: bool) -> tuple[int, bool] | None:
    """Return what `_LineTable._last_end` does, or None if some quote neither opens nor closes a field.

    In regular text quotes open and close fields in turn (a doubled quote closes and opens again). So a line end is the
    end of a record if an even number of quotes precedes it.
    """
    data = np.frombuffer(text, dtype=np.uint8)
    at = np.flatnonzero(data == _QUOTE)
    opens, closes = at[int(inside) :: 2], at[1 - int(inside) :: 2]
    before = data[opens - 1]
    before[opens == 0] = _LINE_FEED
    after = data[np.minimum(closes + 1, len(data) - 1)]
    after[closes + 1 == len(data)] = _LINE_FEED
    returns = after == _RETURN
    returns &= data[np.minimum(closes + 2, len(data) - 1)] == _LINE_FEED
    if not (
        ((before == separator) | (before == _LINE_FEED) | (before == _QUOTE)).all()
        and (returns | (after == separator) | (after == _LINE_FEED) | (after == _QUOTE)).all()
    ):
        return None
    end, quotes = len(text), len(at)
    ends_inside = (quotes + inside) % 2 == 1
    while (quotes + inside) % 2:
        if not quotes:
            return 0, ends_inside
        end = text.rfind(b"\n", 0, int(at[quotes - 1])) + 1
        quotes = int(np.searchsorted(at, end))
    return end, ends_inside


def _last_end_line_by_line(text: bytes, separator: str, inside: bool) -> tuple[int, bool]:
    """Return what `_LineTable._last_end` does, by parsing every record."""
    record = _Record('"', separator) if inside else None
    end = at = 0
    for line in text.split(b"\n"):
        at += len(line) + 1
        if record is None:
            record = _Record(line.decode(errors="replace"), separator)
        else:
            record.add(line.decode(errors="replace"))
        if not record.unfinished:
            end, record = min(at, len(text)), None
    return end, record is not None


def _find_separator(lines: list[str], kind: str | None) -> str:
    """Return the separator of fields; " " stands for any run of blanks."""
    order = {"csv": [",", ";", "\t", "|"], "tsv": ["\t", ",", ";", "|"]}.get(kind or "", ["\t", ",", ";", "|", "::"])
    lines = lines[:SAMPLE_LINES]
    best, best_share = order[0], 0.0
    for separator in [*order, " "]:
        if separator == " " and best == "\t" and best_share > 0.5:
            # A tab is a blank too: as blanks, a tab too many in a line would go unnoticed.
            break
        widths: list[int | None] = []
        records = list(_records(enumerate(lines), separator))
        for (line, _, fields), end in zip(records, [*(r[0] for r in records[1:]), len(lines)], strict=True):
            # If a quoted field never ends, its first line is damaged; the other lines are judged one by one.
            split = [fields] if fields is not None else [_Record(x, separator).fields for x in lines[line:end]]
            widths += [None if f is None else len(f) for f in split if f is None or any(x.strip(BLANKS) for x in f)]
        width = next((w for w in widths if w is not None), 0)
        # A few lines may be damaged: most lines decide.
        share = widths.count(width) / len(widths) if width >= 2 else 0.0
        if share > best_share:
            best, best_share = separator, share
    return best


def _width(first: list[str], rows: list[list[str]]) -> int:
    """Return the number of columns: that of most rows, and at least the number of names in the header."""
    named = len(first)
    while named and not first[named - 1]:
        named -= 1
    counts = [len(r) for r in rows if any(r)]
    return max(named, max(set(counts), key=counts.count)) if counts else max(named, 1)


def _is_header(first: list[str], rows: list[list[str]], words: _Words) -> bool:
    known, named = words
    if named and set(first) & named:
        return True
    filled = [c for c in first if c]
    if not filled:
        return False
    if sum(position_of(c) is not None for c in filled) >= min(2, len(filled)):
        return True
    full = [r for r in rows if any(r)]
    numbers = any(is_number(c) for c in filled)
    if full and ((not first[0] and full[0][0]) or (not numbers and all(len(r) == len(first) + 1 for r in full))):
        return True
    columns = list(zip(*(r for r in full if len(r) == len(first)), strict=True)) or [()] * len(first)
    # A column name is seldom a value of its column, so "a,b,tie" above "a,c,left" is a row and no header.
    hits = {
        normalise_name(c)
        for c, column in zip(first, columns, strict=True)
        if normalise_name(c) in known and c not in column
    }
    if len(hits) >= 2 or (hits and len(filled) == 1):
        return True
    return not numbers and any(any(column) and all(is_number(v) for v in column if v) for column in columns)
