"""Reads the display names of items from a table of ids and names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from concordant.errors import (
    ConcordantError,
    DataError,
    DataWarning,
    DuplicateError,
    ParameterError,
    ParseError,
    quote,
    warn,
)
from concordant.io._column_names import HEADER_WORDS
from concordant.io._column_roles import ColumnRequest, Columns, ResolvedColumns, naming_files
from concordant.io._files import PathLike, display_path, expand, read_head, text_blocks
from concordant.io._tables import file_type, open_table

__all__ = ["read_names"]

_NAMES = ("name", "title", "itemname", "movietitle", "displayname")
# MovieLens' own tables of films: id and title come first, and there is no header.
_MOVIELENS = ("u.item", "movies.dat")


def read_names(path: PathLike, *, columns: Columns | None = None) -> dict[str, str]:
    r"""Return the names of items by id, from a table with a row for each item; items without a name are left out.

    Parameters
    ----------
    path : path
        CSV, TSV, text separated by bars or blanks, Parquet or JSON lines, plain or compressed.
    columns : str or mapping, optional
        Which column is which: ``"item=movieId,name=title"``, by name or by number from 1. Columns left out are found by
        their usual names (item, movieId, docno, ...; name, title, ...). MovieLens' ``u.item`` and ``movies.dat`` are
        recognised.

    Notes
    -----
    Ids are taken as the other readers take them. An item that is named twice is a DuplicateError with both lines. Text
    that is not UTF-8 is read as Latin-1, with a warning: a wrong letter in a name does less harm than no name.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "films.csv")
    >>> _ = path.write_text("movieId,title,year\n1,Alien,1979\n2,Brazil,1985\n")
    >>> read_names(path)
    {'1': 'Alien', '2': 'Brazil'}
    """
    request = ColumnRequest("read_names", columns, ("item", "name"), None)
    if "instance" in request.columns:
        raise ParameterError.invalid("columns", "read_names", "for words among item, name", "instance")
    files = expand(path)
    if len(files) != 1:
        raise DataError(f"names are read from one file, and {display_path(path)!r} stands for {len(files):,}.")
    with naming_files(files), _as_text(files[0]) as readable:
        return _names(files[0], readable, request)


def _names(path: Path, readable: Path, request: ColumnRequest) -> dict[str, str]:
    table = open_table(readable, file=file_type(path), words=HEADER_WORDS | set(_NAMES), named=request.names)
    found = ResolvedColumns(table, request)
    roles = dict(found.given)
    if not table.header and not roles and path.name.lower() in _MOVIELENS and len(table.names) > 1:
        roles = {"item": 0, "name": 1}
    for role, usual in (("item", None), ("name", _NAMES)):
        column = roles[role] if role in roles else found.column(role, usual)
        if column is not None:
            # A column has one role only.
            roles[role] = found.given[role] = column
    found.check_lacking("names of items", "the columns item and name")
    frame, rows = found.part(roles, ("item",), {}, None)
    repeated = frame["item"].is_duplicated()
    if repeated.any():
        item = frame["item"].filter(repeated)[0]
        first, second = (int(row) for row in (frame["item"] == item).arg_true()[:2])
        raise DuplicateError(
            f"item {quote(item)} is named twice ({rows.place(first)} and {rows.place(second)}). Keep one of them."
        )
    named = frame.select("item", pl.col("name").cast(pl.String).str.strip_chars()).filter(pl.col("name") != "")
    return dict(zip(named["item"].to_list(), named["name"].to_list(), strict=True))


@contextmanager
def _as_text(path: Path) -> Iterator[Path]:
    """Yield the file, or a copy in UTF-8 if it is Latin-1; errors name the file itself."""
    try:
        for _, block in text_blocks(path) if read_head(path, 4) != b"PAR1" else ():
            block.decode()
    except UnicodeDecodeError:
        warn(f"{path}: not UTF-8; its names were read as Latin-1.", DataWarning)
    else:
        yield path
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder, "names")
        with copy.open("wb") as file:
            for _, block in text_blocks(path):
                file.write(block.decode("latin-1").encode())
        try:
            yield copy
        except ParseError as error:
            raise ParseError(path, error.line, error.message).advising(*error.settings) from None
        except ConcordantError as error:
            named = type(error)(str(error).replace(str(copy), str(path)))
            raise named.advising(*error.settings) from None
