"""Parquet files are checked before Polars reads them: it would abort the process at a wrong count."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import concordant as cc
from concordant.errors import DataError, FormatError
from concordant.io import _tables
from concordant.io._parquet import ParquetError, check_parquet

N = 300
COLUMNS: dict[str, list[Any]] = {
    "user": [f"u{i % 7}" for i in range(N)],
    "item": [f"a rather long name of an item, number {i}" for i in range(N)],
    "rating": [None if i % 5 == 0 else i / 7 for i in range(N)],
}
NESTED = {"list": [[1, 2], [], None] * (N // 3), "structure": [{"a": i, "b": [str(i)]} for i in range(N)]}


def by_polars(columns: dict[str, list[Any]], **how: Any) -> bytes:
    out = io.BytesIO()
    pl.DataFrame(columns).write_parquet(out, **how)
    return out.getvalue()


def by_arrow(columns: dict[str, list[Any]], **how: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, **how)
    return out.getvalue()


DELTA = {"user": "DELTA_BYTE_ARRAY", "item": "DELTA_LENGTH_BYTE_ARRAY", "rating": "BYTE_STREAM_SPLIT"}
WRITTEN = {
    "polars": by_polars(COLUMNS),
    "many pages": by_polars(COLUMNS, data_page_size=64, row_group_size=50, compression="uncompressed"),
    "no statistics": by_polars(COLUMNS, statistics=False, compression="snappy"),
    "nested": by_polars(COLUMNS | NESTED),
    "no rows": by_polars({"user": [], "item": [], "rating": []}),
    "long statistics": by_polars({"user": ["u" * 200_000], "item": ["i" * 700], "rating": [1.0]}, statistics="full"),
    "arrow": by_arrow(COLUMNS),
    "arrow, version 2": by_arrow(COLUMNS | NESTED, data_page_version="2.0", data_page_size=100, row_group_size=70),
    "arrow, delta": by_arrow(COLUMNS, use_dictionary=False, column_encoding=DELTA, compression="none"),
    "arrow, checksums": by_arrow(COLUMNS, write_page_checksum=True, write_page_index=True),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_others_write_is_read(name: str, tmp_path: Path) -> None:
    metadata = pq.read_metadata(io.BytesIO(WRITTEN[name]))
    assert check_parquet(io.BytesIO(WRITTEN[name])) == metadata.num_rows
    path = tmp_path / "r.parquet"
    path.write_bytes(WRITTEN[name])
    if name == "no rows":
        with pytest.raises(FormatError, match="no rows"):
            cc.read_ratings(path)
    else:
        table = pq.read_table(path, columns=["user", "item", "rating"]).to_pylist()
        rated = [("all", r["user"], r["item"], r["rating"]) for r in table if r["rating"] is not None]
        found = cc.read_ratings(path).to_frame().filter(pl.col("rating").is_not_null())
        assert sorted(found.rows()) == sorted(rated)


@pytest.mark.parametrize("name", ["polars", "no statistics", "arrow", "arrow, version 2", "arrow, delta"])
def test_a_wrong_count_in_a_page_header_is_refused(name: str, tmp_path: Path) -> None:
    """Of every byte of the first data page's header: a count that is negative made Polars abort."""
    data = WRITTEN[name]
    at = pq.read_metadata(io.BytesIO(data)).row_group(0).column(0).data_page_offset
    path = tmp_path / "r.parquet"
    messages = []
    for place in range(at, at + 24):
        for byte in (0x01, 0x29, 0x7F):
            path.write_bytes(data[:place] + bytes([byte]) + data[place + 1 :])
            try:
                # In statistics, of which nobody makes use, any byte may stand.
                cc.read_ratings(path)
            except FormatError as error:
                messages.append(str(error))
    assert len(messages) > 24
    assert all(text.startswith(f"{path}: the Parquet data is damaged (") for text in messages)


@pytest.mark.parametrize("cut", [5, 8, 11, 40, 200])
@pytest.mark.parametrize("name", ["polars", "arrow"])
def test_a_file_that_is_cut_short_is_refused(name: str, cut: int, tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    for data in (WRITTEN[name][:cut], WRITTEN[name][:-cut], WRITTEN[name][:4] + WRITTEN[name][4 + cut :]):
        with pytest.raises(ParquetError):
            check_parquet(io.BytesIO(data))
        path.write_bytes(data)
        with pytest.raises(FormatError, match=r"r\.parquet: the Parquet data is damaged \("):
            cc.read_ratings(path)


def test_rows_that_do_not_fit_in_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes may stand for any number of equal rows."""
    path = tmp_path / "r.parquet"
    n = 3_000_000
    same = pl.select(
        pl.repeat("u", n).alias("user"), pl.repeat("i", n).alias("item"), pl.repeat(1.0, n).alias("rating")
    )
    same.write_parquet(path, row_group_size=n)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(_tables, "free_memory", lambda: 50_000_000)
    with pytest.raises(
        DataError, match=r"r\.parquet: 3,000,000 rows take more than 0\.1 GB of memory, and 0\.1 GB are"
    ):
        cc.read_ratings(path)
