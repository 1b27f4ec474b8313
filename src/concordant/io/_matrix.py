"""Rankings in a matrix with a row (or a column) per expert: ranks of items, or items by position."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Literal

import numpy as np
import polars as pl

from concordant.arrays import Floats, Ints
from concordant.errors import ColumnError, DataWarning, FormatError, ParameterError, ParseError, listing, warn
from concordant.io._builders import MISSING_WORDS, column_texts, id_texts, parse_numbers
from concordant.io._column_roles import ResolvedColumns, TablePart
from concordant.io._row_sources import FileSource
from concordant.io._tables import SAMPLE_LINES, is_number, position_of

__all__ = ["LAYOUTS", "Layout", "RankingMatrix", "guess_layout", "layout_hint"]

Layout = Literal["long", "ranks", "orders"]
LAYOUTS = ("long", "ranks", "orders")
# Generated column names: V1 (R), X.1, 0 (pandas).
_GENERATED_NAME = re.compile(r"([A-Za-z_]*[ _.\-]?)(\d{1,6})", re.ASCII)
# Rows that are compared to tell a header from a ranking.
_LOOKED_AT = 1000
_LAYOUT_HELP = (
    "Layouts of rankings: 'long' (columns expert, item, rank, and instance where there are several), 'ranks' (a row "
    "per expert, a column per item, ranks in the cells), 'orders' (a row per expert, a column per position, items in "
    "the cells); experts='columns' turns the last two on their side."
)


class RankingMatrix:
    """A table whose cells are ranks or items, as one row per cell, sorted by expert."""

    def __init__(self, resolved: ResolvedColumns, experts: str) -> None:
        self.resolved, self.experts = resolved, experts
        table = resolved.table
        # Every key of a JSON table is an item or a position, so all rows must be searched for keys.
        table.find_columns()
        row_word = "expert" if experts == "rows" else "item"
        label = resolved.given.get(row_word)
        if label is None and table.header and table.names and not table.names[0]:
            label = 0
        used = {"instance": resolved.given.get("instance"), "weight": resolved.given.get("weight"), "label": label}
        if used["instance"] is None and experts == "rows":
            used["instance"] = resolved.column("instance", (), optional=True)
        if experts == "columns" and (used["instance"] is not None or used["weight"] is not None):
            raise ParameterError.invalid(
                "columns", "read_rankings", "without instance and weight in columns", "columns"
            )
        self.used = {k: c for k, c in used.items() if c is not None}
        self.body = [c for c in range(len(table.names)) if c not in self.used.values()]
        if not self.body:
            raise FormatError(f"{table.path}: there are no columns of rankings. {table.describe()}")
        names = [table.names[c] for c in self.body]
        unnamed = [c + 1 for c, n in zip(self.body, names, strict=True) if not n]
        if unnamed and table.header:
            raise ColumnError(f"{table.path}: columns {listing(unnamed)} have no name. {table.describe()}")
        self.names = names if table.header else [str(k + 1) for k in range(len(self.body))]

    @cached_property
    def _content(self) -> tuple[pl.DataFrame, Ints]:
        frame, row_numbers = self.resolved.table.read([*self.used.values(), *self.body])
        return frame, np.asarray(row_numbers, dtype=np.int64)

    @property
    def raw(self) -> pl.DataFrame:
        """The columns, by number, as they stand in the file."""
        return self._content[0]

    def texts(self) -> pl.DataFrame:
        """Return the cells as text, "" where there is nothing."""
        return pl.DataFrame([column_texts(self.raw[str(c)]).fill_null("") for c in self.body])

    @property
    def row_numbers(self) -> Ints:
        """The number of every row."""
        return self._content[1]

    @property
    def shape(self) -> tuple[int, int]:
        """How many experts, and how many items or positions."""
        shape = (len(self.raw), len(self.body))
        return shape if self.experts == "rows" else shape[::-1]

    def _labels(self) -> pl.Series:
        """Return the names of the rows."""
        n = len(self.raw)
        if "label" not in self.used:
            return pl.Series([str(k + 1) for k in range(n)], dtype=pl.String)
        frame = self.resolved.tidy(self.raw.select(pl.col(str(self.used["label"])).alias("label")), ["label"])
        what = "expert" if self.experts == "rows" else "item"
        return id_texts(frame["label"], what, FileSource(table=self.resolved.table, row_numbers=self.row_numbers))

    def cells(self) -> tuple[pl.DataFrame, Ints]:
        """Return one row per cell (row name, column number, text), expert by expert, and the table row of each."""
        n, m = len(self.raw), len(self.body)
        cell = self.texts().unpivot(value_name="cell")["cell"]
        row, column = np.tile(np.arange(n), m), np.repeat(np.arange(m), n)
        if self.experts == "rows":
            order = np.arange(n * m).reshape(m, n).T.ravel()
            row, column = row[order], column[order]
            cell = cell.gather(order)
        frame = pl.DataFrame({"label": self._labels().gather(row), "column": column, "cell": cell})
        for word in ("instance", "weight"):
            if word in self.used:
                given = self.raw.select(pl.col(str(self.used[word])).alias(word))
                frame = frame.with_columns(
                    (self.resolved.tidy(given, [word]) if word == "instance" else given)[word].gather(row)
                )
        return frame, self.row_numbers[row]

    def _finish(self, frame: pl.DataFrame, source: FileSource) -> TablePart:
        if "instance" in frame.columns:
            frame = frame.with_columns(id_texts(frame["instance"], "instance", source))
        if "weight" in frame.columns:
            frame = frame.with_columns(parse_numbers(frame["weight"], "weight", source))
        return TablePart(frame.drop("label", "column", "cell"), source)

    def check_header(self, layout: str) -> None:
        """Raise if the first row, read as a ranking, looks like column names, and warn if it may be some.

        R generates V1, V2, ... and pandas 0, 1, ...; such a row shares no item with the other rows.
        """
        rows = [list(row) for row in self.raw.select([str(c) for c in self.body]).head(_LOOKED_AT).iter_rows()]
        first, *others = [[(cell or "").strip() for cell in row] for row in rows]
        below = [{cell for cell in row if cell} for row in others]
        mine, items = {cell for cell in first if cell}, set[str]().union(*below)
        generated = _are_generated(first, items)
        shown = f"{self.resolved.table.path}: the first row is {listing(first, 5)}"
        ask = "If it is a header, pass header=True (--read header=true); if it is a ranking, header=False."
        if layout == "ranks":
            if generated and items and first[0] != "1" and "0" not in items:
                raise FormatError(f"{shown}, and no other row holds a 0. {ask}")
        elif mine and items and not mine & items:
            if generated:
                raise FormatError(f"{shown}, of which nothing stands in any other row. {ask}")
            if self._rows_share_items(others):
                warn(
                    f"{shown}, of which nothing stands in any other row. It is taken for a ranking. {ask}", DataWarning
                )

    def _rows_share_items(self, rows: list[list[str]]) -> bool:
        """Return whether the rows of orders hold the same items so often that a row without any of them stands out."""
        if self.experts == "columns":
            # A row has the items of one place, and columns are lists: some items stand in several of them.
            lists = [{cell for cell in column if cell} for column in zip(*rows, strict=True)]
            return sum(count > 1 for count in Counter(chain.from_iterable(lists)).values()) > 1
        below = [{cell for cell in row if cell} for row in rows]
        return len(below) > 2 and all(row & other for row, other in pairwise(below))

    def ranks(self, null_values: Sequence[str] | None) -> TablePart:
        """Return the rows of a matrix of ranks."""
        frame, at = self.cells()
        source = FileSource(table=self.resolved.table, row_numbers=at)
        words = (*MISSING_WORDS, "0", "0.0") if null_values is None else null_values
        value = parse_numbers(frame["cell"], "rank", source, words)
        if null_values is None:
            self._check_zero_ranks(frame, value)
        names = pl.Series(self.names, dtype=pl.String).gather(frame["column"])
        expert, item = (frame["label"], names) if self.experts == "rows" else (names, frame["label"])
        return self._finish(
            frame.with_columns(expert.alias("expert"), item.alias("item"), value.alias("value")), source
        )

    def _check_zero_ranks(self, frame: pl.DataFrame, value: pl.Series) -> None:
        """Raise if every expert gives one 0 and the ranks 1, 2, ...: 0 may be a rank or a missing value."""
        n, m = self.shape
        zero = frame["cell"].is_in(["0", "0.0"]).to_numpy().reshape(n, m)
        if n and m > 1 and (zero.sum(axis=1) == 1).all():
            ranks = np.sort(value.fill_null(0.0).to_numpy().reshape(n, m), axis=1)
            if (ranks == np.arange(m)).all():
                raise FormatError(
                    f"{self.resolved.table.path}: every expert gives exactly one 0: are ranks counted from 0, or is "
                    "one item left out each time? Add 1 to the ranks, or pass null_values=('', '0') to leave the item "
                    "out."
                )

    def orders(self, null_values: Sequence[str] | None) -> TablePart:
        """Return the rows of a matrix of items by position."""
        frame, at = self.cells()
        words = [w.casefold() for w in ((*MISSING_WORDS, "0", "0.0") if null_values is None else null_values)]
        gone = frame["cell"].str.to_lowercase().is_in(words).to_numpy()
        if null_values is None:
            self._check_zero_items(frame, gone, at)
        n, m = self.shape
        position = np.arange(1, m + 1)
        if self.experts == "rows":
            named_positions = [position_of(name) for name in self.names]
            if all(p is not None and p >= 1 for p in named_positions) and len(set(named_positions)) == m:
                position = np.array(named_positions)
        frame = frame.with_columns(
            pl.Series("value", np.tile(position, n).astype(np.float64)), pl.col("cell").alias("item")
        )
        names = pl.Series(self.names, dtype=pl.String).gather(frame["column"])
        frame = frame.with_columns((frame["label"] if self.experts == "rows" else names).alias("expert"))
        frame = self.resolved.tidy(frame.with_columns(item=pl.when(pl.Series(~gone)).then("item")), ["item"])
        item = frame["item"]
        if item.null_count() == len(item):
            raise FormatError(f"{self.resolved.table.path}: there is no item in any cell.")
        # An expert without any item is kept by one row without a value, for an item that others rank.
        silent = np.flatnonzero(gone.reshape(n, m).all(axis=1)) * m
        keep = ~gone
        keep[silent] = True
        item = item.set(pl.Series(gone), str(item.drop_nulls()[0]))
        value = frame["value"].set(pl.Series(gone), None)
        frame = frame.with_columns(item.alias("item"), value.alias("value")).filter(pl.Series(keep))
        return self._finish(frame, FileSource(table=self.resolved.table, row_numbers=at[keep]))

    def _check_zero_items(self, frame: pl.DataFrame, gone: Any, at: Ints) -> None:
        """Raise if 0 may be an item: it stands before another item, or completes the numbers of the items."""
        n, m = self.shape
        zero = frame["cell"].is_in(["0", "0.0"]).to_numpy().reshape(n, m)
        if not zero.any():
            return
        there = ~gone.reshape(n, m)
        later = np.logical_or.accumulate(there[:, ::-1], axis=1)[:, ::-1]
        odd = np.flatnonzero((zero & later).ravel())
        one_each = (zero.sum(axis=1) == 1).all() and ((there.sum(axis=1)) == m - 1).all()
        numbered = {c.removesuffix(".0") for c in frame["cell"].to_list()} == {str(k) for k in range(m)}
        if len(odd) or (one_each and numbered):
            row = int(at[int(odd[0])]) if len(odd) else int(at[0])
            raise self.resolved.table.error(
                row,
                "is 0 an item, or does it mean that no item stands there? "
                "Pass null_values=('',) for an item, null_values=('', '0') for no item.",
            )


def _are_generated(cells: list[str], items: set[str]) -> bool:
    """Return whether texts are generated column names: numbers from 0 or 1 on, after one prefix.

    Texts with the prefix of an item are items.
    """
    named = cells[1:] if not cells[0] or cells[0].casefold().startswith("unnamed") else cells
    found = [match for cell in named if (match := _GENERATED_NAME.fullmatch(cell))]
    prefixes, count = {match[1] for match in found}, [int(match[2]) for match in found]
    if not 2 <= len(found) == len(named) or len(prefixes) > 1 or count[0] > 1:
        return False
    (prefix,) = prefixes
    alike = prefix and any(match[1] == prefix for item in items if (match := _GENERATED_NAME.fullmatch(item)))
    return not alike and count == list(range(count[0], count[0] + len(count)))


def guess_layout(resolved: ResolvedColumns, experts: str = "rows") -> Layout:
    """Return the one layout that the table can have, or raise asking for it."""
    table = resolved.table
    lacking = list(resolved.lacking)
    try:
        long = all(resolved.column(word) is not None for word in ("expert", "item", "rank"))
    except ColumnError:
        # Two columns might be the expert: then it is a long table whose columns must be named.
        long = True
    resolved.lacking[:] = lacking
    if long or "rank" in resolved.given or ("item" in resolved.given and experts == "rows"):
        return "long"
    layout, problem = _guess_matrix(resolved, experts)
    if layout is not None:
        return layout
    raise FormatError(
        f"{table.path}: the layout of the rankings cannot be told.{problem} {table.describe()} {_LAYOUT_HELP} "
        "Pass layout= (--format long, ranks or orders), or columns= (--columns)."
    )


def layout_hint(resolved: ResolvedColumns) -> str:
    """Return a hint that a table which was not recognised may be a matrix of ranks, or ""."""
    try:
        return _guess_matrix(resolved, "rows")[1]
    except (ColumnError, FormatError, ParseError):
        return ""


def _guess_matrix(resolved: ResolvedColumns, experts: str) -> tuple[Layout | None, str]:
    """Return the only layout that a matrix can have, or None and a hint."""
    matrix = RankingMatrix(resolved, experts)
    header = resolved.table.header
    positional = [position_of(name) for name in matrix.names] if header else []
    if len(positional) > 1 and all(p is not None for p in positional) and experts == "rows":
        return "orders", ""
    rows, columns = _rank_like(matrix) if header else (False, False)
    if rows if experts == "rows" else columns:
        if not all(is_number(name) for name in matrix.names):
            return "ranks", ""
        return None, " The columns are numbered: they might be items (layout 'ranks') or positions (layout 'orders')."
    if columns if experts == "rows" else rows:
        other = "columns" if experts == "rows" else "rows"
        return (
            None,
            f" The {other} look like rankings: layout='ranks', experts={other!r} (--format ranks-{other}).",
        )
    return None, ""


def _rank_like(matrix: RankingMatrix) -> tuple[bool, bool]:
    """Return whether every row, and whether every column, holds the ranks 1..m, ties averaged, of its m cells."""
    sample = matrix.resolved.table.sample
    first = _as_ranks([[row[c] for row in sample] for c in matrix.body])
    # The whole table is read only if the sample, which is in memory, may be ranks.
    if first is None or (len(sample) >= SAMPLE_LINES and not _ranked(first)):
        return False, False
    cells = _as_ranks([column.to_list() for column in matrix.texts().get_columns()])
    if cells is None:
        return False, False
    return len(matrix.body) > 1 and _ranked(cells), len(cells) > 1 and _ranked(cells.T)


def _as_ranks(columns: list[list[str]]) -> Floats | None:
    """Return cells as numbers, NaN for missing ones; None if a cell is no number and not missing."""
    none = {w.casefold() for w in MISSING_WORDS}
    out = np.full((len(columns[0]), len(columns)), np.nan)
    for k, column in enumerate(columns):
        for n, cell in enumerate(column):
            if is_number(cell):
                out[n, k] = float(cell)
            elif cell.casefold() not in none:
                return None
    return out


def _ranked(lines: Floats) -> bool:
    there = ~np.isnan(lines)
    m = there.sum(axis=1)
    filled = np.where(there, lines, 0.0)
    return bool(
        np.isfinite(filled).all()
        and (m > 0).any()
        and (np.where(there, lines, 1.0).min(axis=1) >= 1).all()
        and (filled.max(axis=1) <= m).all()
        and np.allclose(filled.sum(axis=1), m * (m + 1) / 2)
    )
