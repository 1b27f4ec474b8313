"""The numbers of the published tables, from the CSV files in `published/`."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

__all__ = ["cells", "rows"]


@cache
def rows(table: str) -> tuple[dict[str, str], ...]:
    """Return the rows of a published table, as text by column.

    >>> rows("000_table3_crf_star_mq2008")[0]["N@5"]
    '51.03'
    """
    text = files("concordant_papers").joinpath("published", f"{table}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def cells(table: str, **where: str) -> dict[str, float] | None:
    """Return the numbers of the row whose columns have these values; None if there is no such row.

    >>> cells("001_table4_mpm", dataset="MQ2008-agg", method="theta-MPM")["MAP"]
    44.32
    >>> cells("001_table4_mpm", dataset="other", method="theta-MPM") is None
    True
    """
    for row in rows(table):
        if all(row[column] == value for column, value in where.items()):
            return {column: float(value) for column, value in row.items() if column not in where and value}
    return None
