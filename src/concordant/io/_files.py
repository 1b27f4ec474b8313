"""Files: globs, folders, pipes, compression, blocks of text lines, and atomic writes.

On reading, compression is recognised by the first bytes of a file, never by its name; on writing, the name decides. A
pipe is read once into a buffer. A written file appears complete or not at all.
"""

from __future__ import annotations

import bz2
import errno
import glob
import gzip
import io
import lzma
import os
import re
import stat
import sys
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Literal, cast

from concordant.errors import (
    ConcordantError,
    DataError,
    DataWarning,
    FormatError,
    KindError,
    ParameterError,
    ParseError,
    first_of,
    is_text,
    quote,
    shorten,
    warn,
)
from concordant.io._locks import TemporaryPath

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "BLANKS",
    "BLOCK_BYTES",
    "COMPRESSION_ENDINGS",
    "LONGEST_LINE",
    "TABLE_ENDINGS",
    "uncompressed_name",
    "BufferedPath",
    "PathLike",
    "atomic_write",
    "check_unchanged",
    "check_writable",
    "compression",
    "display_path",
    "expand",
    "is_stream",
    "naming_output",
    "open_bytes",
    "open_text",
    "protect_bom",
    "read_bytes",
    "read_head",
    "standard_input",
    "stem",
    "temporary_folder",
    "text_blocks",
    "text_lines",
    "warn_empty",
]

PathLike = str | os.PathLike[str]

# White space by Unicode, as Polars strips it. `str.strip` alone would strip the separators \x1c to \x1f too.
BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))

# Size of a block of text: large enough to keep every core busy, small next to the memory.
BLOCK_BYTES = 64 << 20

# Longer lines and quoted fields are refused: the file is damaged or no text, and a small compressed file may hold
# gigabytes.
LONGEST_LINE = 32 << 20

_MAGIC = ((b"\x1f\x8b", "gz"), (b"\xfd7zXZ\x00", "xz"), (b"\x28\xb5\x2f\xfd", "zst"), (b"BZh", "bz2"))
_BOM = b"\xef\xbb\xbf"
# Endings of compressed files, and of tables by file type.
COMPRESSION_ENDINGS = {".gz": "gz", ".xz": "xz", ".zst": "zst", ".bz2": "bz2"}
TABLE_ENDINGS = {
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "parquet": (".parquet", ".pq"),
    "jsonl": (".jsonl", ".ndjson"),
}
# Endings that tell the format and are no part of the name of a run.
_TEXT_ENDINGS = (".trec", ".run", ".runs", ".res", ".txt", ".dat", ".out", ".qrel", ".qrels")
_KNOWN_ENDINGS = frozenset(
    [*COMPRESSION_ENDINGS, *_TEXT_ENDINGS, *(e for endings in TABLE_ENDINGS.values() for e in endings)]
)
# A pipe is buffered in memory up to this size, and in a temporary file beyond it.
_BUFFERED_BYTES = 64 << 20
# The folder in which Linux lets a process open its own files again, from their beginning.
_OPEN_FILES = "/proc/self/fd"
_STANDARD_INPUT = "standard input"
# The errors with which decompressors report damaged data.
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, OSError)


class BufferedPath(type(Path())):  # type: ignore[misc]
    """A path whose content lies elsewhere: the buffer of a pipe, or a file whose name Polars cannot open.

    Messages show the name. Opening the path gives the content, any number of times, as long as this object lives.
    """

    _real: str | None = None

    @classmethod
    def of(cls, name: str, file: IO[bytes], *, own: bool = True) -> BufferedPath:
        """Return the path of an open file, or of a copy on systems where an open file cannot be opened again.

        With `own` the file is closed together with the last reference to the path.
        """
        out = cls(name)
        if os.path.isdir(_OPEN_FILES):
            out._real = f"{_OPEN_FILES}/{file.fileno()}"
        else:
            import shutil
            import tempfile

            with tempfile.NamedTemporaryFile(delete=False) as copy:
                out._real = copy.name
                weakref.finalize(out, os.unlink, copy.name)
                file.seek(0)
                shutil.copyfileobj(file, copy, 1 << 20)
        if own:
            weakref.finalize(out, file.close)
        return out

    @property
    def name(self) -> str:
        """The last part of the path."""
        return "stdin" if str(self) == _STANDARD_INPUT else str(super().name)

    def __fspath__(self) -> str:
        return self._real or str(self)

    def __reduce__(self) -> Any:
        raise DataError(f"{self}: this input can be read on this machine only. Write it to a file for the workers.")


def display_path(path: PathLike) -> str:
    """Return a path as the user wrote it, cut where it is very long; bytes that are not UTF-8 are written out."""
    text = str(path) if isinstance(path, Path) else os.fspath(path)
    return shorten(text if is_text(text) else os.fsencode(text).decode("utf-8", "backslashreplace"), 500)


@contextmanager
def _readable(path: PathLike) -> Iterator[None]:
    """Raise a DataError that names the file when the system cannot read it."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise DataError(f"cannot read {display_path(path)!r}: {error.strerror}.") from error


def standard_input() -> BufferedPath:
    """Return standard input as a path that can be read more than once."""
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise DataError("standard input is closed. Name a file, or pipe something in.")
    with suppress(OSError):
        if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) and not stream.tell() and os.path.isdir(_OPEN_FILES):
            return BufferedPath.of(_STANDARD_INPUT, stream, own=False)
    return _buffered_copy(stream, _STANDARD_INPUT)


def _buffered_copy(source: IO[bytes], name: str) -> BufferedPath:
    """Copy a stream to a buffer: in memory if it is small, else in an unnamed temporary file."""
    import shutil
    import tempfile

    try:
        first = source.read(_BUFFERED_BYTES)
        small = len(first) < _BUFFERED_BYTES and hasattr(os, "memfd_create")
        opener: Any = tempfile.TemporaryFile if not small else lambda: os.fdopen(os.memfd_create("concordant"), "w+b")
        held: IO[bytes] = opener()
        held.write(first)
        del first
        shutil.copyfileobj(source, held, 1 << 20)
        held.flush()
        return BufferedPath.of(name, held)
    except OSError as error:
        raise DataError(f"{name}: what comes through this pipe cannot be held ({error.strerror or error}).") from error


def expand(paths: PathLike | Iterable[PathLike]) -> list[Path]:
    """Return the files meant by a path, a glob, a folder, or a list of these.

    A folder stands for the files in it, a glob (``*``, ``?``, ``[...]``, ``**``) for the files that match, both sorted
    by name and without hidden files. The order of a list is kept, and a file named twice is returned once. A pipe or a
    device is read here, once, into a buffer; the path returned for it can be read any number of times.

    Raises
    ------
    DataError
        When a name matches no file, or the system does not let it be read.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("b.trec", "a.trec", ".hidden"):
    ...     _ = (folder / name).write_text("")
    >>> [p.name for p in expand(folder)], [p.name for p in expand(f"{folder}/b*")]
    (['a.trec', 'b.trec'], ['b.trec'])
    """
    names = [paths] if isinstance(paths, (str, os.PathLike)) else _listed(paths)
    if not names:
        raise DataError("no files were given. Name a file, a folder, a glob such as 'runs/*.trec', or a list of these.")
    found: dict[Any, Path] = {}
    for name in names:
        with _readable(name):
            for path in _expand_one(name):
                if isinstance(path, BufferedPath):
                    found.setdefault(id(path), path)
                    continue
                status = os.stat(path)
                regular = stat.S_ISREG(status.st_mode)
                key = os.path.realpath(path) if regular else (status.st_dev, status.st_ino)
                if key not in found:
                    found[key] = path if regular and is_text(str(path)) else _buffered_path(path, regular)
    return list(found.values())


def _buffered_path(path: Path, regular: bool) -> BufferedPath:
    """Return a path that can be read any number of times."""
    if regular:
        return BufferedPath.of(display_path(path), open(path, "rb"))
    with open(path, "rb") as source:
        return _buffered_copy(source, display_path(path))


def _listed(paths: Any) -> list[PathLike]:
    """Return the paths as a list; raise for containers and dataframes, which hold data and no names."""
    found = type(paths).__name__
    if hasattr(paths, "to_frame") and hasattr(paths, "slots"):
        raise KindError(f"a reader takes the names of files. Got {found}, which is read already: use it as it is.")
    named = paths if isinstance(paths, Mapping) else None
    if hasattr(paths, "collect_schema"):
        named = paths.collect_schema().names()
    elif hasattr(paths, "columns"):
        named = getattr(paths, "column_names", paths.columns)
    if named is not None:
        from concordant.io._column_names import from_frame_call

        call = from_frame_call(map(str, named)) or "from_frame(df)"
        raise KindError(f"a reader takes the names of files. Got {found}: call concordant.{call}.")
    if not isinstance(paths, Iterable):
        raise ParameterError.invalid("paths", "a reader", "a path, a glob, a folder or a list of these", paths)
    return list(paths)


def _expand_one(name: PathLike) -> list[Path]:
    if not isinstance(name, (str, os.PathLike)):
        raise ParameterError.invalid("paths", "a reader", "a path, a glob, a folder or a list of these", name)
    if isinstance(name, BufferedPath):
        return [name]
    text = os.path.expanduser(os.fspath(name))
    if "\x00" in text:
        raise DataError(f"a path cannot contain a NUL character: {quote(text)}.")
    path = Path(text)
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if not p.name.startswith(".") and not p.is_dir())
        if not files:
            raise DataError(f"the folder {display_path(path)!r} holds no files.")
        return files
    if path.exists():
        return [path]
    if glob.has_magic(text):
        files = sorted(Path(p) for p in glob.glob(text, recursive=True) if not os.path.isdir(p))
        if not files:
            raise DataError(f"no file matches {display_path(text)!r} (looked from {display_path(os.getcwd())!r}).")
        return files
    raise DataError(f"no such file or folder: {display_path(text)!r} (looked from {display_path(os.getcwd())!r}).")


def warn_empty(files: Sequence[Path], what: str = "rows") -> None:
    """Warn that the files hold no rows."""
    warn(f"{first_of([display_path(f) for f in files])}: the input holds no {what}.", DataWarning)


def stem(path: PathLike) -> str:
    """Return the name of a file without the endings that only tell its format.

    >>> stem("runs/bm25.v2.trec.gz"), stem("TREC-3/input.inq102")
    ('bm25.v2', 'input.inq102')
    """
    name = path.name if isinstance(path, Path) else os.path.basename(display_path(path))
    while True:
        head, ending = os.path.splitext(name)
        if not head or ending.lower() not in _KNOWN_ENDINGS:
            return name
        name = head


def uncompressed_name(path: object) -> str:
    """Return the name of a file without the ending of its compression.

    >>> uncompressed_name("runs/BM25.trec.GZ")
    'runs/BM25.trec'
    """
    name = str(path)
    head, ending = os.path.splitext(name)
    return head if head and ending.lower() in COMPRESSION_ENDINGS else name


def compression(path: PathLike) -> str | None:
    """Return "gz", "xz", "zst" or "bz2" as the first bytes of the file say, None for anything else."""
    with _readable(path), open(path, "rb") as handle:
        return _compression_of(handle.peek(8))


def _compression_of(head: bytes) -> str | None:
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


@contextmanager
def _naming_damage(path: PathLike, kind: str | None) -> Iterator[None]:
    """Raise a FormatError that names the file when a decompressor finds damaged data."""
    try:
        yield
    except _DAMAGED as error:
        # An OSError with a number comes from the system (no permission, disk gone), not from the data.
        if kind is None or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise FormatError(f"{path}: the {kind} data is damaged or cut short ({error}).") from error
    except MemoryError as error:
        # The header of xz data says how much memory to take, up to 4 GiB, before anything of it is checked.
        if kind is None:
            raise
        raise FormatError(
            f"{path}: the {kind} data asks for more memory than there is. Is it damaged? Otherwise compress the file "
            "again, with a smaller dictionary."
        ) from error


class _NamedStream(io.RawIOBase):
    """The stream of a decompressor; errors about damaged data name the file."""

    def __init__(self, inner: BinaryIO, raw: BinaryIO, path: PathLike, kind: str) -> None:
        super().__init__()
        self._inner = inner
        self._raw = raw
        self._path = path
        self._kind = kind

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _naming_damage(self._path, self._kind):
            data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._inner.close()
        self._raw.close()
        super().close()


class _ZstandardText(io.RawIOBase):
    """The text of a Zstandard file, decompressed by Polars; Python itself can do so only since 3.14.

    Lines end in a line feed; other carriage returns are kept. From the first line on that may begin a quoted field of
    several lines all are kept.
    """

    def __init__(self, path: PathLike, data: bytes | None) -> None:
        super().__init__()
        self._path = path
        own = path if isinstance(path, Path) else Path(path)
        self._packed: Path | bytes = own if data is None else data
        self._rest = memoryview(b"")
        self._pieces = self._read_text()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = self._next()
            if piece is None:
                return 0
            self._rest = memoryview(piece.encode())
        n = min(len(buffer), len(self._rest))
        buffer[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n

    def _next(self) -> str | None:
        import polars as pl

        try:
            return next(self._pieces, None)
        except OSError as error:
            if error.errno is not None:
                raise
            raise FormatError(f"{self._path}: the zst data is damaged or cut short ({error}).") from error
        except pl.exceptions.ComputeError as error:
            raise self._not_text() from error

    def _read_text(self) -> Iterator[str]:
        import polars as pl

        n, marked = 0, False
        for batch in pl.scan_lines(self._packed, glob=False).collect_batches(chunk_size=1 << 16):
            lines = batch.to_series()
            long = (lines.str.len_bytes() > LONGEST_LINE).arg_true()
            if len(long):
                raise _line_too_long(self._path, n + 1 + int(long[0]))
            marked = marked or (n == 0 and len(lines) > 0 and lines[0].startswith("\ufeff"))
            # No reader sees the byte-order mark.
            first = lines.head(1 if n == 0 else 0).str.strip_prefix("\ufeff")
            going_on = _may_continue(pl.concat([first, lines.slice(len(first))])).arg_true()
            if len(going_on):
                lines = lines.head(int(going_on[0]))
            if len(lines):
                if lines.str.ends_with("\r").any():
                    # Polars has dropped one of several carriage returns, and readers will drop another.
                    lines = lines.str.replace("\r$", "\r\r")
                yield "\n".join(lines.to_list()) + "\n"
            n += len(lines)
            if len(going_on):
                yield from self._read_exactly(n, "\ufeff" if marked else "")
                return

    def _read_exactly(self, skip: int, before: str) -> Iterator[str]:
        """Yield the text after the first `skip` lines with its carriage returns, which Polars drops at line ends.

        So the text is split at carriage returns, which are added again. Polars also drops a byte-order mark: `before`
        is put in front. With few carriage returns much text is held at one time.
        """
        text = ""
        for batch in self._scan("\r").collect_batches(chunk_size=1 << 10):
            text = before + "\r".join(batch.to_series().to_list())
            before = "\r"
            at = 0
            while skip and (end := text.find("\n", at)) >= 0:
                at, skip = end + 1, skip - 1
            if not skip:
                yield text[at:]
        if text.endswith("\r"):
            # Polars drops the last one, and readers will drop another.
            yield "\r"

    def _scan(self, end: str, encoding: Literal["utf8", "utf8-lossy"] = "utf8") -> pl.LazyFrame:
        """Return a scan of the text split at the character `end`, which serves as separator and as line end."""
        import polars as pl

        return pl.scan_csv(
            self._packed,
            has_header=False,
            schema={"text": pl.String},
            separator=end,
            eol_char=end,
            quote_char=None,
            empty_string_is_null=False,
            encoding=encoding,
            glob=False,
        )

    def _not_text(self) -> ParseError:
        import polars as pl

        lines = self._scan("\n", "utf8-lossy").with_row_index("n", offset=1)
        found = lines.filter(pl.col("text").str.contains("\ufffd", literal=True)).head(1).collect()
        return _not_utf8(self._path, int(found["n"][0]) if len(found) else None)


def _may_continue(lines: pl.Series) -> pl.Series:
    """Return which lines end inside a quoted field with one of the usual separators."""
    out = lines.str.starts_with('"') & False
    for separator in ",;|\t":
        quoted = lines.str.starts_with('"') | lines.str.contains(f'{separator}"', literal=True)
        if quoted.any():
            field = f'(?:[^"{separator}][^{separator}]*|"(?:[^"]|"")*"|)'
            # After a quoted field that does not end as it should the rest of the line has no meaning.
            out |= quoted & ~lines.str.contains(
                f'^(?:{field}[{separator}])*(?:{field}|"(?:[^"]|"")*"[^"{separator}].*)$'
            )
    return out


def open_bytes(path: PathLike) -> BinaryIO:
    """Open a file as a stream of decompressed bytes.

    Reading damaged data raises FormatError. Zstandard files must hold text; their lines end in a line feed.
    """
    with _readable(path):
        raw = open(path, "rb")  # noqa: SIM115 - the caller closes what is returned
    try:
        # Peek instead of opening twice: a pipe can be read only once.
        with _readable(path):
            kind = _compression_of(raw.peek(8))
        if kind is None:
            return raw
        if kind == "zst":
            data = None if raw.seekable() else raw.read()
            raw.close()
            return cast(BinaryIO, _ZstandardText(path, data))
        opener: Any = {"gz": gzip.open, "xz": lzma.open, "bz2": bz2.open}[kind]
        return cast(BinaryIO, _NamedStream(opener(raw, "rb"), raw, path, kind))
    except BaseException:
        raw.close()
        raise


def _read_full(stream: BinaryIO, size: int) -> bytes:
    """Return `size` bytes, fewer only at the end; raw streams may return less per call."""
    first = stream.read(size) or b""
    if len(first) == size or not first:
        return first
    parts, missing = [first], size - len(first)
    while missing and (part := stream.read(missing)):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def read_bytes(path: PathLike) -> bytes:
    """Return the whole decompressed content of a file."""
    with open_bytes(path) as stream:
        return b"".join(iter(lambda: _read_full(stream, BLOCK_BYTES), b""))


def read_head(path: PathLike, size: int = 1 << 16) -> bytes:
    """Return the first `size` decompressed bytes, to see what a file holds."""
    with open_bytes(path) as stream:
        return _read_full(stream, size)


def text_blocks(path: PathLike, size: int = BLOCK_BYTES) -> Iterator[tuple[int, bytes]]:
    """Yield the decompressed content in blocks of whole lines, each with the number of its first line (from 1).

    Blocks have about `size` bytes and end with a line feed, the last one as the file does. No byte-order mark is kept.
    Memory: two blocks and a line.

    Raises
    ------
    ParseError
        At a line that is longer than any line of data.
    """
    line = 1
    with open_bytes(path) as stream:
        rest = _read_full(stream, 3)
        if rest == _BOM:
            rest = b""
        pending = [rest]
        while data := _read_full(stream, size):
            cut = data.rfind(b"\n") + 1
            if cut:
                block = b"".join([*pending, data[:cut]])
                pending, data = [data[cut:]], b""
                yield line, block
                line += block.count(b"\n")
            else:
                pending.append(data)
            if sum(map(len, pending)) > LONGEST_LINE:
                raise _line_too_long(path, line)
        block = b"".join(pending)
        if block:
            yield line, block


def _line_too_long(path: PathLike, line: int) -> ParseError:
    return ParseError(
        display_path(path),
        line,
        f"the line is longer than {LONGEST_LINE >> 20} MB, longer than lines of data are. Is the file damaged, or no "
        "text?",
    )


def protect_bom(text: bytes) -> bytes:
    """Return text so that Polars keeps a byte-order mark at its beginning: Polars drops the first one."""
    return _BOM + text if text.startswith(_BOM) else text


def text_lines(path: PathLike, *, returns: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) one by one in bounded memory, without line ends and byte-order mark.

    A line ends in a line feed, or in a carriage return and a line feed; with `returns` the carriage return is kept.

    Raises
    ------
    ParseError
        At a line that is not UTF-8.
    """
    for first, block in text_blocks(path, 1 << 20):
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        for number, line in enumerate(lines, first):
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise _not_utf8(path, number, line, error) from None
            yield number, text[:-1] if not returns and text.endswith("\r") else text


def _not_utf8(
    path: PathLike, line: int | None, text: bytes = b"", error: UnicodeDecodeError | None = None
) -> ParseError:
    found = "" if error is None else f", found byte 0x{text[error.start]:02x} at column {error.start + 1}"
    return ParseError(path, line, f"expected UTF-8 text{found}. Convert the file to UTF-8 first.")


def _buffered(stream: BinaryIO) -> BinaryIO:
    return stream if isinstance(stream, io.BufferedIOBase) else cast(BinaryIO, io.BufferedReader(cast(Any, stream)))


@contextmanager
def open_text(path: PathLike) -> Iterator[IO[str]]:
    r"""Open a file for reading as UTF-8 text, decompressed, without byte-order mark, every line ending in a line feed.

    Examples
    --------
    >>> import tempfile, pathlib, gzip
    >>> path = pathlib.Path(tempfile.mkdtemp(), "notes.bin")
    >>> _ = path.write_bytes(gzip.compress(b"one\r\ntwo\r\n"))
    >>> with open_text(path) as handle:
    ...     handle.read()
    'one\ntwo\n'
    """
    with (
        open_bytes(path) as stream,
        io.TextIOWrapper(_buffered(stream), encoding="utf-8-sig") as text,
    ):
        try:
            yield text
        except UnicodeDecodeError:
            # The wrapper does not know the line: read the lines again to name it.
            for _ in text_lines(path):
                pass
            raise


@contextmanager
def check_unchanged(path: PathLike) -> Iterator[None]:
    """Raise at the end of the block if the file changed since its beginning: the data read would be a mixture."""
    with _readable(path):
        before = os.stat(path)
    yield
    try:
        after = os.stat(path)
    except FileNotFoundError:
        raise DataError(f"{path}: the file was removed while it was read. Its data were not used.") from None
    if (before.st_size, before.st_mtime_ns, before.st_ino) != (after.st_size, after.st_mtime_ns, after.st_ino):
        raise DataError(
            f"{path}: the file changed while it was read ({before.st_size:,} bytes before, {after.st_size:,} after). "
            "Its data were not used; wait until it is complete, and read it again."
        )


def check_writable(path: PathLike) -> None:
    """Raise if a file could not be written there, before hours of work rather than after them."""
    if is_stream(path):
        return
    target = os.path.realpath(os.path.expanduser(os.fspath(path)))
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise DataError(f"cannot write {display_path(path)!r}: there is no folder {display_path(folder)!r}.")
    if os.path.isdir(target):
        raise DataError(f"cannot write {display_path(path)!r}: it is a folder. Name a file in it.")
    if not os.access(folder, os.W_OK):
        raise DataError(
            f"cannot write {display_path(path)!r}: the folder {display_path(folder)!r} cannot be written to."
        )
    try:
        os.lstat(target)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise DataError(f"cannot write {display_path(path)!r}: {error.strerror}. Name another place.") from error


def _descriptor(path: PathLike) -> int | None:
    """Return the number of the open file that a name such as /dev/stdout stands for, None for other names."""
    found = re.fullmatch(r"/dev/std(out|err)|/(?:dev|proc/self)/fd/([0-9]{1,6})", os.fspath(path))
    if found is None:
        return None
    return {"out": 1, "err": 2}[found[1]] if found[1] else int(found[2])


def is_stream(path: PathLike) -> bool:
    """Return whether the path is an open file, a pipe or a device, which cannot be written atomically."""
    if _descriptor(path) is not None:
        return True
    try:
        mode = os.stat(os.path.expanduser(path)).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def temporary_folder() -> Path:
    """Return the folder for temporary files, as `tempfile.gettempdir` does.

    That function writes and removes a file to see whether it can; a process killed in between leaves the file behind.
    So a folder that the environment names is asked for its permissions instead.
    """
    for name in ("TMPDIR", "TEMP", "TMP"):
        folder = os.environ.get(name)
        if tempfile.tempdir is None and folder and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
            return Path(os.path.abspath(folder))
    return Path(tempfile.gettempdir())


@contextmanager
def _stream(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a stream for writing; a file that is open already is neither closed nor truncated."""
    number = _descriptor(path)
    if number == 1 and sys.stdout is not None:
        sys.stdout.flush()
        try:
            number = sys.stdout.fileno()
        except io.UnsupportedOperation:
            # Standard output is replaced, for instance by a test.
            yield sys.stdout.buffer
            return
    with open(os.path.expanduser(path), "wb") if number is None else os.fdopen(os.dup(number), "wb") as handle:
        yield handle


@contextmanager
def naming_output(path: PathLike) -> Iterator[None]:
    """Raise a DataError that names the path when the system cannot create a file or folder."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot write {display_path(path)!r}: {error.strerror}. Name another place.") from error


# How Polars words errors of the system.
_FROM_POLARS = re.compile(r"([^:]{0,200}) \(os error \d+\)")


def _system_message(error: Exception, own: str) -> str | None:
    """Return the message of the system about a failed write, None for any other error."""
    if isinstance(error, (ConcordantError, BrokenPipeError)):
        return None
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename in (None, own) else None
    match = _FROM_POLARS.search(str(error))
    return match[1].strip() if match is not None else None


@contextmanager
def atomic_write(path: PathLike, *, named: PathLike | None = None) -> Iterator[BinaryIO]:
    r"""Open a file for writing bytes so that it appears complete or not at all.

    The bytes go to a hidden file in the same folder, which is flushed to disk and then takes the name. When anything is
    raised inside the block, an interrupt included, the hidden file is removed and an existing file stays as it was.
    Hidden files of the same name that killed processes left behind are removed. An ending .gz, .xz, .bz2 or .zst
    compresses; .zst takes text only. A device, a pipe or standard output (/dev/stdout) is written directly. Failed
    writes (full disk, read-only folder) raise an error that names the file, or `named` if this is a part of it.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "out.txt")
    >>> with atomic_write(path) as handle:
    ...     _ = handle.write(b"done\n")
    >>> path.read_text()
    'done\n'
    """
    check_writable(path)
    if is_stream(path):
        try:
            with _stream(path) as direct:
                yield cast(BinaryIO, direct)
                direct.flush()
        except Exception as error:
            said = _system_message(error, os.fspath(path))
            if said is None:
                raise
            if said == os.strerror(errno.EPIPE):
                raise BrokenPipeError(errno.EPIPE, said) from error
            raise DataError(f"cannot write {display_path(named or path)!r}: {said}.") from error
        return
    target = os.path.realpath(os.path.expanduser(os.fspath(path)))
    folder, name = os.path.split(target)
    mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else None
    reserved = TemporaryPath(Path(folder), f".{name[:200]}.", ".tmp")
    temporary = os.fspath(reserved.path)
    kind = COMPRESSION_ENDINGS.get(os.path.splitext(name)[1].lower())
    try:
        reserved.create()
        with open(temporary, "wb") as handle:
            if mode is not None:
                os.chmod(temporary, mode)
            if kind is None or kind == "zst":
                yield handle
            else:
                with _compressor(handle, kind) as packed:
                    yield packed
            handle.flush()
            if kind == "zst":
                try:
                    _pack_zstandard(temporary, handle)
                except UnicodeDecodeError:
                    raise FormatError(
                        f"{display_path(named or path)!r}: .zst holds text only. Leave it out, or use .gz, .xz or .bz2."
                    ) from None
            os.fsync(handle.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        said = _system_message(error, temporary) if isinstance(error, Exception) else None
        if said is not None:
            raise DataError(
                f"cannot write {display_path(named or path)!r}: {said}. The old file of that name is unchanged. "
                "Make room there, or name another place."
            ) from error
        raise
    finally:
        reserved.release()


def _compressor(handle: BinaryIO, kind: str) -> BinaryIO:
    if kind == "gz":
        # No name and no time inside: the same content gives the same file.
        return cast(BinaryIO, gzip.GzipFile(filename="", mode="wb", fileobj=handle, compresslevel=6, mtime=0))
    if kind == "xz":
        return cast(BinaryIO, lzma.open(handle, "wb"))
    return cast(BinaryIO, bz2.open(handle, "wb"))


def _pack_zstandard(path: str, handle: BinaryIO) -> None:
    """Replace the text in an open file by its Zstandard form, compressed by Polars."""
    import polars as pl

    packed = io.BytesIO()
    with open(path, encoding="utf-8", newline="") as text:
        pieces = list(iter(lambda: text.read(BLOCK_BYTES), ""))
    pl.DataFrame({"text": pieces}, schema={"text": pl.String}).write_csv(
        packed, include_header=False, quote_style="never", line_terminator="", compression="zstd", check_extension=False
    )
    handle.seek(0)
    handle.truncate()
    handle.write(packed.getbuffer())
    handle.flush()
