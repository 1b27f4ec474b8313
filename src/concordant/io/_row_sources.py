"""Where the rows of a table come from: a row number, or file and line, for error messages."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from concordant.arrays import Ints
from concordant.errors import ConcordantError, DataError, ParseError
from concordant.io._tables import TableFile

__all__ = ["FileSource", "JoinedSource", "RowSource"]


@dataclass(frozen=True)
class RowSource:
    """The rows of a dataframe, or the lines of a text file.

    Parameters
    ----------
    name : str, optional
        The file. Rows of a dataframe have none and are named by their number.
    first : int
        The number of row 0: the line on which the rows of a file begin, or the number of rows in earlier tables.
    lines : int64[rows], optional
        The line of every row, where lines were skipped.
    """

    name: str | None = None
    first: int = 0
    lines: Ints | None = None

    def _number(self, row: int) -> int:
        return self.first + row if self.lines is None else int(self.lines[row])

    def place(self, row: int) -> int | str:
        """Return "file:line", or the number of the row in a dataframe."""
        number = self._number(row)
        return number if self.name is None else f"{self.name}:{number}"

    def error(self, row: int, message: str) -> ConcordantError:
        """Return the error about one row."""
        number = self._number(row)
        if self.name is None:
            return DataError(f"row {number}: {message}")
        return ParseError(self.name, number, message)


@dataclass(frozen=True)
class FileSource(RowSource):
    """The rows of a table file. Their lines are looked up in the file when a message needs them."""

    table: TableFile | None = None
    row_numbers: Ints | range | None = None

    def file(self) -> TableFile:
        """Return the table that holds the rows."""
        if self.table is None:
            raise DataError("rows of no file")
        return self.table

    def compact(self) -> FileSource:
        """Return the same source without an array of row numbers, if the rows are consecutive."""
        numbers = self.row_numbers
        if numbers is None or not len(numbers) or int(numbers[-1] - numbers[0]) != len(numbers) - 1:
            return self
        return replace(self, row_numbers=None, first=int(numbers[0]))

    def _number(self, row: int) -> int:
        return self.first + row if self.row_numbers is None else int(self.row_numbers[row])

    def place(self, row: int) -> str:
        """Return "file:line", or file and row for a file without lines."""
        table, number = self.file(), self._number(row)
        line = table.line(number)
        return f"{table.path}:{line}" if line is not None else f"{table.path} row {number}"

    def error(self, row: int, message: str) -> ConcordantError:
        """Return the error about one row."""
        return self.file().error(self._number(row), message)


@dataclass(frozen=True)
class JoinedSource(RowSource):
    """The rows of several tables, one table after the other."""

    parts: tuple[RowSource, ...] = ()
    starts: tuple[int, ...] = ()

    def _part(self, row: int) -> tuple[RowSource, int]:
        # Sources without rows share their first row with the next; the last one that begins there holds the row.
        part = int(np.searchsorted(self.starts, row, side="right")) - 1
        return self.parts[part], row - self.starts[part]

    def place(self, row: int) -> int | str:
        """Return the place of the row in its own table."""
        part, number = self._part(row)
        return part.place(number)

    def error(self, row: int, message: str) -> ConcordantError:
        """Return the error about one row."""
        part, number = self._part(row)
        return part.error(number, message)
