"""Registry of file formats: `FORMATS` by name, and `register_format` for new ones.

Each format registers itself in the module that reads or writes it. `read`, `scan`, `write` and `aggregate_blocks` use
this registry only.
"""

from __future__ import annotations

import inspect
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from concordant._names import FORMATS as _BUILTIN
from concordant._registry import Registry
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.container import Container
from concordant.data.features import Features
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import ConcordantError, ParameterError, listing, quote
from concordant.io._files import atomic_write, open_text, read_head, text_lines, uncompressed_name

if TYPE_CHECKING:
    from concordant.io._column_roles import ResolvedColumns
    from concordant.io._tables import TableFile
    from concordant.io.blocks import RowReader

__all__ = [
    "CONTAINERS",
    "FORMATS",
    "Format",
    "Head",
    # for readers and writers of other packages
    "atomic_write",
    "open_text",
    "text_lines",
    "check_options",
    "name_ending",
    "register_format",
    "unknown_options",
]

_HEAD_BYTES = 1 << 18
_HEAD_LINES = 1000

CONTAINERS: tuple[type[Container], ...] = (Consensus, Preferences, Comparisons, Labels, Features)


def _concatenate(parts: list[Path], handle: BinaryIO) -> None:
    for part in parts:
        with part.open("rb") as source:
            shutil.copyfileobj(source, handle, 1 << 20)


@dataclass(frozen=True)
class Head:
    """The beginning of a file, decompressed.

    Attributes
    ----------
    path : Path
        The file.
    data : bytes
        Its first bytes, 256 KB at most.
    lines : list of str
        Its first lines, 1000 at most, without blank ones and without blanks around them; none where it is no text.
    text : bool
        Whether it is text: it holds no NUL.
    """

    path: Path
    data: bytes
    lines: list[str]
    text: bool

    @classmethod
    def of(cls, path: Path) -> Head:
        """Return the beginning of a file, decompressed."""
        data = read_head(path, _HEAD_BYTES)
        body = data.removeprefix(b"\xef\xbb\xbf")
        parts = body.split(b"\n")
        if len(data) == _HEAD_BYTES and len(parts) > 1:
            parts.pop()
        text = b"\x00" not in data
        # bytes.strip removes ASCII blanks only, as the readers do.
        lines = [p.strip().decode("utf-8", "replace") for p in parts[:_HEAD_LINES]] if text else []
        return cls(path, data, [line for line in lines if line], text)

    @property
    def ending(self) -> str:
        """The last ending of the name that is not one of compression."""
        name = uncompressed_name(self.path.name).lower()
        return name.rpartition(".")[2] if "." in name else ""

    @cached_property
    def table(self) -> TableFile | None:
        """The columns, where the file is a table."""
        # A format that is no table does not load the reader of tables.
        from concordant.io._column_names import HEADER_WORDS
        from concordant.io._tables import open_table

        try:
            return open_table(self.path, words=HEADER_WORDS)
        except ConcordantError:
            return None

    @cached_property
    def columns(self) -> ResolvedColumns | None:
        """The columns by name, where there is a header."""
        from concordant.io._column_roles import ColumnRequest, ResolvedColumns

        if self.table is None or not self.table.header:
            return None
        return ResolvedColumns(self.table, ColumnRequest("read", None, (), None))


@dataclass(frozen=True)
class Format:
    """How one format is recognised, read and written.

    Parameters
    ----------
    name : str
        The name for ``format=``.
    about : str
        A description in a few words.
    read : callable, optional
        From a list of paths and keyword options to a container or a Dataset.
    write : callable, optional
        Writes a container to a path, with keyword options.
    sniff : callable, optional
        From the `Head` of a file (``path``, ``ending``, ``data``, ``lines``) to whether it has this format. Without it
        the extensions tell.
    extensions : tuple of str
        Endings of file names, such as ".trec", that ask for this format on writing.
    writes : tuple of classes
        The containers that `write` takes; all without it.
    append : callable, optional
        Writes one block of a consensus to an open file: ``append(consensus, handle, first=..., **options)``.
        `aggregate_blocks` needs it.
    join : callable
        Makes one file of the blocks that `append` wrote; one after the other without it.
    scan : callable, optional
        From paths and a mapping of options to what `Blocks.of` reads. `scan` needs it.
    is_long : callable, optional
        From the `Head` of a file to whether it can be scanned, where the format alone does not tell.
    sniff_folder : callable, optional
        From a folder to whether the folder as a whole has this format.
    beside : tuple of str
        Patterns of files that accompany such data in a folder and are no data themselves.
    table : bool
        Whether it is a table, whose columns can be named. Tables are recognised after everything else.
    is_truth : bool
        Whether it holds labels, which may be in the same folder as the data.
    usual : (str, str), optional
        The methods that most people use for such data instead of rrf, in words, and the name of one.
    line_by_line : bool
        Whether `sniff` can judge each line alone, so that a file with a few damaged lines is recognised.
    """

    name: str
    about: str
    read: Callable[..., Any] | None = None
    write: Callable[..., Any] | None = None
    sniff: Callable[[Head], bool] | None = None
    extensions: tuple[str, ...] = ()
    writes: tuple[type[Container], ...] = CONTAINERS
    append: Callable[..., None] | None = None
    join: Callable[[list[Path], BinaryIO], None] = _concatenate
    scan: Callable[[list[Path], dict[str, Any]], RowReader] | None = None
    is_long: Callable[[Head], bool] | None = None
    sniff_folder: Callable[[Path], bool] | None = None
    beside: tuple[str, ...] = ()
    table: bool = False
    is_truth: bool = False
    usual: tuple[str, str] | None = None
    line_by_line: bool = False

    def recognises(self, head: Head) -> bool:
        """Return whether the beginning of a file has this format."""
        if self.read is None:
            return False
        if self.sniff is None:
            return name_ending(head.path, self.extensions)
        return self.sniff(head)


FORMATS: Registry[Format] = Registry("format", _BUILTIN, ("concordant.io",))


def register_format(
    name: str,
    about: str,
    *,
    read: Callable[..., Any] | None = None,
    write: Callable[..., Any] | None = None,
    sniff: Callable[[Head], bool] | None = None,
    extensions: tuple[str, ...] = (),
    **more: Any,
) -> Format:
    """Register a file format; `read`, `write`, `convert`, ``--format`` and ``--to`` then know it.

    A file that a format of Concordant recognises is read as that one; formats of others are asked after them.

    Parameters
    ----------
    name, about, read, write, sniff, extensions
        As for `concordant.io.formats.Format`.
    **more
        The rarer parameters of `concordant.io.formats.Format`: ``writes``, ``append``, ``join``, ``scan``, ``beside``.

    Returns
    -------
    Format
        What was registered.

    Examples
    --------
    >>> import concordant as cc, pathlib, tempfile
    >>> def read_lines(paths):
    ...     return cc.from_lists({path.stem: path.read_text().split() for path in paths})
    >>> _ = cc.register_format("one-per-line", "a file per expert, an item per line", read=read_lines)
    >>> path = pathlib.Path(tempfile.mkdtemp(), "ann.txt")
    >>> _ = path.write_text("b a c")
    >>> cc.read(path, "one-per-line").preferences
    Preferences: 1 instance, 1 expert, 3 items, 3 ranks in 1 list
    >>> _ = FORMATS.entries.pop("one-per-line")
    """
    if read is None and write is None:
        raise ParameterError(f"the format {quote(name)} can neither be read nor written. Pass read= or write=.")
    if isinstance(extensions, str) or not all(e[:1] == "." and e == e.lower() for e in extensions):
        raise ParameterError.invalid(
            "extensions", "register_format", "a tuple of endings in lower case, such as ('.trec',)", extensions
        )
    unknown = [key for key in more if key not in Format.__dataclass_fields__]
    if unknown:
        raise ParameterError.unknown(unknown[0], "register_format", list(Format.__dataclass_fields__))
    made = Format(name, about, read, write, sniff, tuple(extensions), **more)
    FORMATS.add(name, made, sys._getframe(1).f_globals.get("__name__", "?"))
    return made


def name_ending(path: object, endings: tuple[str, ...]) -> bool:
    """Return whether the name of a file has one of the endings, before any ending of compression.

    >>> name_ending("fused.TREC.gz", (".trec", ".run"))
    True
    """
    return uncompressed_name(path).lower().endswith(endings)


def unknown_options(
    function: Callable[..., Any], options: Iterable[str], skip: int, but: tuple[str, ...] = ()
) -> tuple[list[str], list[str]]:
    """Return which options a reader or writer does not take, and which it does.

    Options are its parameters after the first `skip`, without those of `but`. With ``**options`` it takes any.

    >>> unknown_options(lambda paths, *, separator=">": paths, ["separator", "columns"], 1)
    (['columns'], ['separator'])
    """
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    allowed = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name not in but]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return [] if takes_any else [name for name in options if name not in allowed], allowed


def check_options(name: str, reader: Callable[..., Any], options: Iterable[str], skip: int = 1) -> None:
    """Raise for options that the reader of a format does not take; its first `skip` parameters are no options."""
    wrong, allowed = unknown_options(reader, options, skip)
    if wrong:
        raise ParameterError(
            f"the format {quote(name)} does not take {listing(wrong)}. It takes {', '.join(allowed) or 'no options'}."
        )
