"""Paths in, bytes and lines out, whole files back: the one place that knows about globs, folders and compression.

Compression is recognised by the first bytes of a file, never by its name; on writing, the name decides. What is written
appears under its name complete or not at all.
"""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from concordant.errors import ConcordantError, DataError, FormatError, KindError, ParameterError, ParseError
from concordant.io._claims import Claim

__all__ = [
    "BLOCK_BYTES",
    "PathLike",
    "atomic_write",
    "check_writable",
    "compression",
    "expand",
    "is_device",
    "naming_place",
    "open_bytes",
    "open_text",
    "read_bytes",
    "read_head",
    "stem",
    "text_blocks",
    "text_lines",
    "unchanged",
]

PathLike = str | os.PathLike[str]

# Text is handed on in pieces of this size: large enough to keep every core busy, small enough to forget.
BLOCK_BYTES = 64 << 20

_MAGIC = ((b"\x1f\x8b", "gz"), (b"\xfd7zXZ\x00", "xz"), (b"\x28\xb5\x2f\xfd", "zst"), (b"BZh", "bz2"))
_SUFFIXES = {".gz": "gz", ".xz": "xz", ".zst": "zst", ".bz2": "bz2"}
# Endings that say how a file is written and not what it is called.
_TEXT_ENDINGS = (".trec", ".run", ".runs", ".res", ".txt", ".dat", ".out", ".qrel", ".qrels")
_TABLE_ENDINGS = (".csv", ".tsv", ".tab", ".parquet", ".pq", ".jsonl", ".ndjson")
_KNOWN_ENDINGS = frozenset([*_SUFFIXES, *_TEXT_ENDINGS, *_TABLE_ENDINGS])
# How each decompressor says that its input is damaged.
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, OSError)


def expand(paths: PathLike | Iterable[PathLike]) -> list[Path]:
    """Return the files meant by a path, a glob, a folder, or a list of these.

    A folder stands for the files in it, a glob (``*``, ``?``, ``[...]``, ``**``) for the files that match, both sorted
    by name and without hidden files. The order of a list is kept and a file named twice is taken once.

    Raises
    ------
    DataError
        When a name matches no file.

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
    found: dict[str, Path] = {}
    for name in names:
        for path in _expand_one(name):
            found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def _listed(paths: Any) -> list[PathLike]:
    """Return paths one by one; what holds data in place of their names is refused."""
    found = type(paths).__name__
    if hasattr(paths, "to_frame") and hasattr(paths, "slots"):
        raise KindError(f"a reader takes the names of files. Got {found}, which is read already: use it as it is.")
    named = paths if isinstance(paths, Mapping) else None
    if hasattr(paths, "collect_schema"):
        named = paths.collect_schema().names()
    elif hasattr(paths, "columns"):
        named = getattr(paths, "column_names", paths.columns)
    if named is not None:
        from concordant.io._words import frame_call

        call = frame_call(map(str, named)) or "from_frame(df)"
        raise KindError(f"a reader takes the names of files. Got {found}: call concordant.{call}.")
    if not isinstance(paths, Iterable):
        raise ParameterError.invalid("paths", "a reader", "a path, a glob, a folder or a list of these", paths)
    return list(paths)


def _expand_one(name: PathLike) -> list[Path]:
    if not isinstance(name, (str, os.PathLike)):
        raise ParameterError.invalid("paths", "a reader", "a path, a glob, a folder or a list of these", name)
    text = os.path.expanduser(os.fspath(name))
    if "\x00" in text:
        raise DataError(f"a path cannot contain a NUL character: {text!r}.")
    path = Path(text)
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if not p.name.startswith(".") and not p.is_dir())
        if not files:
            raise DataError(f"the folder {str(path)!r} holds no files.")
        return files
    if path.exists():
        return [path]
    if glob.has_magic(text):
        files = sorted(Path(p) for p in glob.glob(text, recursive=True) if not os.path.isdir(p))
        if not files:
            raise DataError(f"no file matches {text!r} (looked from {os.getcwd()!r}).")
        return files
    raise DataError(f"no such file or folder: {text!r} (looked from {os.getcwd()!r}).")


def stem(path: PathLike) -> str:
    """Return the name of a file without the endings that only tell its format.

    >>> stem("runs/bm25.v2.trec.gz"), stem("TREC-3/input.inq102")
    ('bm25.v2', 'input.inq102')
    """
    name = os.path.basename(os.fspath(path))
    while True:
        head, ending = os.path.splitext(name)
        if not head or ending.lower() not in _KNOWN_ENDINGS:
            return name
        name = head


def compression(path: PathLike) -> str | None:
    """Return "gz", "xz", "zst" or "bz2" as the first bytes of the file say, None for anything else."""
    with open(path, "rb") as handle:
        return _packed_as(handle.peek(8))


def _packed_as(head: bytes) -> str | None:
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


@contextmanager
def _damage_named(path: PathLike, kind: str | None) -> Iterator[None]:
    """Turn a decompressor's complaint into one that names the file."""
    try:
        yield
    except _DAMAGED as error:
        # An OSError with a number comes from the system (no permission, disk gone), not from the data.
        if kind is None or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise FormatError(f"{path}: the {kind} data is damaged or cut short ({error}).") from error


class _Named(io.RawIOBase):
    """The bytes of a decompressor, with the file named when they are damaged."""

    def __init__(self, inner: BinaryIO, raw: BinaryIO, path: PathLike, kind: str) -> None:
        super().__init__()
        self._inner = inner
        self._raw = raw
        self._path = path
        self._kind = kind

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _damage_named(self._path, self._kind):
            data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._inner.close()
        self._raw.close()
        super().close()


class _ZstandardLines(io.RawIOBase):
    """The bytes of a Zstandard file, decompressed line by line by Polars; every line comes out with a line feed.

    Python has a decompressor of its own only since 3.14.
    """

    def __init__(self, path: PathLike, data: bytes | None) -> None:
        super().__init__()
        import polars as pl

        self._path = path
        self._packed: Path | bytes = Path(path) if data is None else data
        self._rest = memoryview(b"")
        self._batches = pl.scan_lines(self._packed, glob=False).collect_batches(chunk_size=1 << 16)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            batch = self._next()
            if batch is None:
                return 0
            self._rest = memoryview(("\n".join(batch.to_list()) + "\n").encode()) if len(batch) else memoryview(b"")
        n = min(len(buffer), len(self._rest))
        buffer[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n

    def _next(self) -> Any:
        import polars as pl

        try:
            frame = next(self._batches, None)
        except OSError as error:
            if error.errno is not None:
                raise
            raise FormatError(f"{self._path}: the zst data is damaged or cut short ({error}).") from error
        except pl.exceptions.ComputeError as error:
            raise self._not_text() from error
        return None if frame is None else frame.to_series()

    def _not_text(self) -> ParseError:
        import polars as pl

        lossy = pl.scan_csv(
            self._packed,
            has_header=False,
            schema={"line": pl.String},
            separator="\x00",
            quote_char=None,
            encoding="utf8-lossy",
            truncate_ragged_lines=True,
            glob=False,
        )
        marked = lossy.with_row_index("n", offset=1).filter(pl.col("line").str.contains("\ufffd", literal=True))
        found = marked.head(1).collect()
        return _not_utf8(self._path, int(found["n"][0]) if len(found) else None)


def open_bytes(path: PathLike) -> BinaryIO:
    """Return the decompressed bytes of a file as a stream, whatever it is packed with.

    Damaged data raises FormatError on reading. Zstandard files hold text: their lines come with a line feed.
    """
    raw = open(path, "rb")  # noqa: SIM115 - the caller closes what is returned
    try:
        # A look ahead and no second opening: what comes through a pipe can be read once only.
        kind = _packed_as(raw.peek(8))
        if kind is None:
            return raw
        if kind == "zst":
            data = None if raw.seekable() else raw.read()
            raw.close()
            return cast(BinaryIO, _ZstandardLines(path, data))
        opener: Any = {"gz": gzip.open, "xz": lzma.open, "bz2": bz2.open}[kind]
        return cast(BinaryIO, _Named(opener(raw, "rb"), raw, path, kind))
    except BaseException:
        raw.close()
        raise


def _read_full(stream: BinaryIO, size: int) -> bytes:
    """Return `size` bytes, fewer only at the end; raw streams may hand out less at a time."""
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
    Memory: two blocks, or the longest line.
    """
    line = 1
    with open_bytes(path) as stream:
        rest = _read_full(stream, 3)
        if rest == b"\xef\xbb\xbf":
            rest = b""
        pending = [rest]
        while data := _read_full(stream, size):
            cut = data.rfind(b"\n") + 1
            if not cut:
                pending.append(data)
                continue
            block = b"".join([*pending, data[:cut]])
            pending = [data[cut:]]
            yield line, block
            line += block.count(b"\n")
        block = b"".join(pending)
        if block:
            yield line, block


def text_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) one by one in bounded memory, without line ends and byte-order mark.

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
            yield number, text[:-1] if text.endswith("\r") else text


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
            # The wrapper decodes in pieces and knows no lines; a second look finds the one to name.
            for _ in text_lines(path):
                pass
            raise


@contextmanager
def unchanged(path: PathLike) -> Iterator[None]:
    """Raise at the end of the block if the file is not the one it was at the beginning.

    What was read of it would be part of one content and part of another. A pipe or a device is not looked at.
    """
    before = os.stat(path)
    yield
    if not stat.S_ISREG(before.st_mode):
        return
    try:
        after = os.stat(path)
    except FileNotFoundError:
        raise DataError(f"{path}: the file was removed while it was read. Nothing was made of it.") from None
    if (before.st_size, before.st_mtime_ns, before.st_ino) != (after.st_size, after.st_mtime_ns, after.st_ino):
        raise DataError(
            f"{path}: the file changed while it was read ({before.st_size:,} bytes before, {after.st_size:,} after). "
            "Nothing was made of it; wait until it is complete, and read it again."
        )


def check_writable(path: PathLike) -> None:
    """Raise where a file could not be written: before hours of work rather than after them."""
    target = os.path.realpath(os.path.expanduser(os.fspath(path)))
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise DataError(f"cannot write {os.fspath(path)!r}: there is no folder {folder!r}.")
    if os.path.isdir(target):
        raise DataError(f"cannot write {os.fspath(path)!r}: it is a folder. Name a file in it.")
    if not os.access(folder, os.W_OK) and not is_device(target):
        raise DataError(f"cannot write {os.fspath(path)!r}: the folder {folder!r} cannot be written to.")


def is_device(path: PathLike) -> bool:
    """Return whether this is something to write to that is no file, such as a pipe."""
    return os.path.exists(path) and not os.path.isfile(path)


@contextmanager
def naming_place(path: PathLike) -> Iterator[None]:
    """Turn what the system says against making a file or folder into an error that names the place."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot write {os.fspath(path)!r}: {error.strerror}. Name another place.") from error


# How Polars hands on what the system says.
_FROM_POLARS = re.compile(r"([^:]*) \(os error \d+\)")


def _said(error: Exception, own: str) -> str | None:
    """Return what the system says against writing a file, None where the error is about something else."""
    if isinstance(error, ConcordantError):
        return None
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename in (None, own) else None
    told = _FROM_POLARS.search(str(error))
    return told[1].strip() if told is not None else None


@contextmanager
def atomic_write(path: PathLike, *, named: PathLike | None = None) -> Iterator[BinaryIO]:
    r"""Open a file for writing bytes so that it appears complete or not at all.

    The bytes go to a hidden file in the same folder, which is flushed to disk and then takes the name. When anything is
    raised inside the block, an interrupt included, the hidden file is removed and what was there before stays. Hidden
    files that killed processes left of the same file are removed. An
    ending .gz, .xz, .bz2 or .zst compresses; .zst takes text only. A device or pipe is written directly. What the
    system says against it, such as that the disk is full, is an error that names the file, or the one it is a part of.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "out.txt")
    >>> with atomic_write(path) as handle:
    ...     _ = handle.write(b"done\n")
    >>> path.read_text()
    'done\n'
    """
    target = os.path.realpath(os.path.expanduser(os.fspath(path)))
    folder, name = os.path.split(target)
    check_writable(path)
    if is_device(target):
        try:
            with open(target, "wb") as direct:
                yield direct
        except Exception as error:
            told = None if isinstance(error, BrokenPipeError) else _said(error, target)
            if told is None:
                raise
            raise DataError(f"cannot write {os.fspath(path)!r}: {told}.") from error
        return
    mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else None
    claim = Claim(Path(folder), f".{name[:200]}.", ".tmp")
    temporary = os.fspath(claim.path)
    kind = _SUFFIXES.get(os.path.splitext(name)[1].lower())
    try:
        claim.take()
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
                _pack_zstandard(temporary, handle)
            os.fsync(handle.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        said = _said(error, temporary) if isinstance(error, Exception) else None
        if said is not None:
            raise DataError(
                f"cannot write {os.fspath(named or path)!r}: {said}. What was under that name is as it was. Make room "
                "there, or name another place."
            ) from error
        raise
    finally:
        claim.release()


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
    pl.scan_lines(Path(path), glob=False).collect().write_csv(
        packed, include_header=False, quote_style="never", compression="zstd", check_extension=False
    )
    handle.seek(0)
    handle.truncate()
    handle.write(packed.getbuffer())
    handle.flush()
