"""Checks footer and page headers of Parquet files before Polars reads them.

Polars reserves memory by the counts in page headers. A wrong count in a damaged file would abort the process, which no
error handler can prevent. So counts and sizes must agree with each other and with the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import SEEK_END
from typing import Any, BinaryIO

__all__ = ["ParquetError", "check_parquet"]

# Types of values in Thrift's compact protocol, in which the metadata is written. The types 1 and 2 are true and false.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCTURE, _UUID = range(1, 14)
_FIXED_BYTES = {_BYTE: 1, _DOUBLE: 8, _UUID: 16}

# The types of fields by number; a mapping stands for a structure, a list for a list of what it holds.
_STATISTICS = {1: _BINARY, 2: _BINARY, 3: _I64, 4: _I64, 5: _BINARY, 6: _BINARY, 7: _TRUE, 8: _TRUE}
_PAGE = {
    # Type of the page, bytes when decompressed, bytes in the file, checksum.
    **dict.fromkeys((1, 2, 3, 4), _I32),
    # Data, index, dictionary, and data in version 2. Each but the index begins with the number of values.
    5: {**dict.fromkeys((1, 2, 3, 4), _I32), 5: _STATISTICS},
    6: {},
    7: {1: _I32, 2: _I32, 3: _TRUE},
    8: {**dict.fromkeys((1, 2, 3, 4, 5, 6), _I32), 7: _TRUE, 8: _STATISTICS},
}
# Which of these fields describes a page, by the type of the page.
_DESCRIBED = {0: 5, 2: 7, 3: 8}
_DICTIONARY = 2
# Path in the schema, number of values, bytes in the file, begin of the data pages, begin of the dictionary.
_COLUMN = {3: [_BINARY], 5: _I64, 7: _I64, 9: _I64, 11: _I64}
# File of the column, and its metadata.
_CHUNK = {1: _BINARY, 3: _COLUMN}
# Repetition, name and number of children.
_ELEMENT = {3: _I32, 4: _BINARY, 5: _I32}
_REPEATED = 2
# Schema, number of rows, and the row groups: their columns and number of rows.
_FOOTER = {2: [_ELEMENT], 3: _I64, 4: [{1: [_CHUNK], 3: _I64}]}

# Bytes to read for a page header: more where its statistics are long.
_HEADER_BYTES = (1 << 9, 1 << 16, 1 << 24)
_DEEPEST = 24


class ParquetError(ValueError):
    """The metadata of a Parquet file contradicts itself or the file."""


def check_parquet(file: BinaryIO) -> int:
    """Return the number of rows in a Parquet file.

    Reads the footer and every page header, and no page: about 20 µs for a page, which mostly holds 100 kB to 1 MB.

    Raises
    ------
    ParquetError
        When a count or a size in the metadata is wrong.
    """
    size = file.seek(0, SEEK_END)
    footer = _footer(file, size)
    try:
        # Columns of lists and structures hold any number of values.
        nested = {e[4] for e in footer[2] if 5 in e or e.get(3) == _REPEATED}
        for group in footer[4]:
            for chunk in group[1]:
                column = chunk[3]
                if 1 in chunk:
                    raise ParquetError("a column lies in another file")
                if column[5] != group[3] and column[3][0] not in nested:
                    raise ParquetError(f"a column of {column[5]} values in {group[3]} rows")
                _check_pages(file, size, column)
        rows = [int(group[3]) for group in footer[4]]
        if footer[3] != sum(rows) or min(rows, default=0) < 0:
            raise ParquetError(f"{footer[3]} rows in row groups of {sum(rows)}")
    except (KeyError, IndexError):
        raise ParquetError("the metadata lacks a field") from None
    return sum(rows)


def _footer(file: BinaryIO, size: int) -> dict[int, Any]:
    file.seek(max(size - 8, 0))
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != b"PAR1" or length > size - 8:
        raise ParquetError("the footer is not at the end")
    file.seek(size - 8 - length)
    try:
        return _Thrift(file.read(length)).structure(_FOOTER)
    except IndexError:
        raise ParquetError("the footer is cut short") from None


def _check_pages(file: BinaryIO, size: int, column: Mapping[int, Any]) -> None:
    """Raise unless the pages of a column lie in the file and hold all its values."""
    at = column[11] if 11 in column else column[9]
    end, left = at + column[7], column[5]
    if not 0 <= at <= end <= size:
        raise ParquetError(f"a column from byte {at} to {end} of {size}")
    while left > 0 and at < end:
        length, page = _page_header(file, at)
        at += length + page[3]
        values = page[_DESCRIBED[page[1]]][1] if page[1] in _DESCRIBED else 0
        if min(values, page[2], page[3]) < 0 or at > end:
            raise ParquetError(f"a page of {values} values, {page[2]} and {page[3]} bytes")
        left -= values if page[1] != _DICTIONARY else 0
    if left:
        raise ParquetError(f"the pages of a column do not hold its {column[5]} values")


def _page_header(file: BinaryIO, at: int) -> tuple[int, dict[int, Any]]:
    """Return the length of a page header, and its fields."""
    for size in _HEADER_BYTES:
        file.seek(at)
        data = _Thrift(file.read(size))
        try:
            page = data.structure(_PAGE)
        except IndexError:
            continue
        return data.at, page
    raise ParquetError("a page header is cut short")


class _Thrift:
    """Reads structures in Thrift's compact protocol; raises IndexError where the data ends too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def structure(self, types: Mapping[int, Any], depth: int = 0) -> dict[int, Any]:
        """Return the values of a structure by the number of the field. Fields in `types` must have their type."""
        out: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            out[number] = self._value(head & 15, types.get(number), depth + 1)
        return out

    def _value(self, kind: int, expected: Any, depth: int, *, inline: bool = True) -> Any:
        if depth > _DEEPEST:
            raise ParquetError("structures inside structures")
        if kind == _FALSE:
            kind = _TRUE
        wanted = _STRUCTURE if isinstance(expected, dict) else _LIST if isinstance(expected, list) else expected
        if expected is not None and kind != wanted:
            raise ParquetError("a field of another type")
        if kind == _TRUE:
            # Of a field the type is the value; elements of lists have a byte each.
            return None if inline else self._byte()
        if kind in (_I16, _I32, _I64):
            value = self._integer()
            if kind == _I32 and not -(1 << 31) <= value < 1 << 31:
                raise ParquetError(f"the number {value}")
            return value
        if kind == _STRUCTURE:
            return self.structure(expected or {}, depth)
        if kind in (_LIST, _SET):
            head = self._byte()
            n = self._count() if head >> 4 == 15 else head >> 4
            inside = expected[0] if expected else None
            return [self._value(head & 15, inside, depth + 1, inline=False) for _ in range(n)]
        if kind == _MAP:
            n = self._count()
            kinds = self._byte() if n else 0
            return [self._value(k, None, depth + 1, inline=False) for _ in range(n) for k in (kinds >> 4, kinds & 15)]
        if kind != _BINARY and kind not in _FIXED_BYTES:
            raise ParquetError("a field of no type")
        return self._bytes(self._count() if kind == _BINARY else _FIXED_BYTES[kind])

    def _byte(self) -> int:
        byte = self._data[self.at]
        self.at += 1
        return byte

    def _bytes(self, n: int) -> bytes:
        if self.at + n > len(self._data):
            raise IndexError
        self.at += n
        return self._data[self.at - n : self.at]

    def _count(self) -> int:
        """Return a number in seven bits a byte, lowest first."""
        out = shift = 0
        while (byte := self._byte()) > 127:
            out |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ParquetError("a number without an end")
        return out | byte << shift

    def _integer(self) -> int:
        """Return a signed number, whose sign is its lowest bit."""
        n = self._count()
        return (n >> 1) ^ -(n & 1)
