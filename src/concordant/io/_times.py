"""Reads times: ISO 8601 dates and datetimes, with or without a zone, and Unix times, become seconds since 1970 UTC.

Numbers too small for Unix times in this century, such as the numbers of periods, stay as they are.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from concordant.errors import quote
from concordant.io._builders import MISSING_WORDS, parse_numbers
from concordant.io._row_sources import RowSource
from concordant.io._tables import is_number

__all__ = ["parse_time", "parse_times"]

_ISO = (
    r"^([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9})[0-9]*)?)?"
    r" ?(?:(Z|z|UTC)|([+-])([0-9]{2})(?::?([0-9]{2}))?)?)?$"
)
_PARTS = ("year", "month", "day", "hour", "minute", "second", "fraction", "zone", "sign", "zone_hour", "zone_minute")
# Unix times of this size or more are in milliseconds, microseconds and nanoseconds; as seconds they are after 5000.
_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3), (0.0, 1.0))
_KINDS = "an ISO 8601 date or datetime, or a number such as Unix seconds"


def parse_times(column: pl.Series, what: str, source: RowSource) -> pl.Series:
    """Return a column of times as float64, null for missing ones; raise at the first that is no time.

    A datetime without a zone is UTC. Unix times may be in seconds, milliseconds, microseconds or nanoseconds; all of a
    column are in one unit.

    Examples
    --------
    >>> parse_times(pl.Series(["1970-01-02", "1970-01-01T01:00:00+01:00"]), "time", RowSource()).to_list()
    [86400.0, 0.0]
    >>> parse_times(pl.Series([1718000000000, 1718000000500]), "time", RowSource()).to_list()
    [1718000000.0, 1718000000.5]
    """
    if column.dtype.is_temporal() and column.dtype not in (pl.Time, pl.Duration):
        # Dates and milliseconds may lie beyond what microseconds hold.
        if column.dtype == pl.Date:
            return column.to_physical().cast(pl.Float64) * 86400.0
        if isinstance(column.dtype, pl.Datetime) and column.dtype.time_unit == "ms":
            return column.to_physical().cast(pl.Float64) / 1e3
        return column.dt.epoch("us").cast(pl.Float64) / 1e6
    if column.dtype != pl.String:
        return _one_unit(parse_numbers(column, what, source), what, source)
    text = column.str.strip_chars()
    known = text.is_not_null() & ~text.str.to_lowercase().is_in([w.casefold() for w in MISSING_WORDS])
    first = next((t for t in text.filter(known).head(1)), None)
    if first is None or is_number(first):
        return _one_unit(parse_numbers(column, what, source), what, source)
    found = _iso(text)
    wrong = (known & found.is_null()).arg_true()
    if len(wrong):
        row = int(wrong[0])
        raise source.error(row, f"the {what} must be {_KINDS}, found {quote(column[row])}.")
    return found


def parse_time(text: str) -> float | None:
    """Return an ISO 8601 date or datetime in seconds since 1970 UTC, None for any other text.

    >>> parse_time("1970-01-01 00:01"), parse_time("60")
    (60.0, None)
    """
    return next(iter(_iso(pl.Series([text.strip()], dtype=pl.String))), None)


def _iso(text: pl.Series) -> pl.Series:
    """Return seconds since 1970 UTC, null for text that is no ISO 8601 time."""
    groups = text.str.extract_groups(_ISO).struct.unnest()
    parts = dict(zip(_PARTS, groups.get_columns(), strict=True))
    day = pl.select(pl.concat_str(*(parts[p] for p in ("year", "month", "day")), separator="-")).to_series()
    seconds = day.str.to_date("%Y-%m-%d", strict=False).cast(pl.Int32).cast(pl.Float64) * 86400.0
    number = {
        p: parts[p].cast(pl.Float64, strict=False).fill_null(0.0) for p in _PARTS[3:] if p not in ("zone", "sign")
    }
    digits = parts["fraction"].str.len_chars().fill_null(0).cast(pl.Float64)
    fraction = number["fraction"] / pl.select(pl.lit(10.0).pow(digits)).to_series()
    zone = number["zone_hour"] * 3600.0 + number["zone_minute"] * 60.0
    zone = zone * (1.0 - 2.0 * (parts["sign"] == "-").fill_null(False).cast(pl.Float64))
    usual = (number["hour"] < 24) & (number["minute"] < 60) & (number["second"] < 60) & (number["zone_minute"] < 60)
    clock = number["hour"] * 3600.0 + number["minute"] * 60.0 + number["second"] + fraction
    return (seconds + clock - zone).set(~(usual & (number["zone_hour"] < 24)), None)


def _one_unit(values: pl.Series, what: str, source: RowSource) -> pl.Series:
    """Return numbers in seconds if they are Unix times in a smaller unit; raise where the unit changes."""
    sizes = np.abs(values.fill_null(0.0).to_numpy())
    if not len(sizes):
        return values
    large = float(sizes.max())
    least, per_second = next((least, unit) for least, unit in _UNITS if large >= least)
    if per_second == 1.0:
        return values
    odd = np.flatnonzero((sizes < least) & values.is_not_null().to_numpy())
    if len(odd):
        row = int(odd[0])
        raise source.error(
            row, f"the {what} {values[row]:.0f} is in another unit than {large:.0f} in the same column. Use one unit."
        )
    return values / per_second
