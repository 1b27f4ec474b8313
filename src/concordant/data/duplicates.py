"""Duplicates: rows in which an expert ranks an item of an instance again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from concordant.arrays import Bools, Codes, Floats, Ints
from concordant.errors import DuplicateError, ParameterError

__all__ = ["check_duplicates", "duplicate_rows"]


def check_duplicates(rule: str, owner: str) -> None:
    """Raise when the rule is not "error", "best" or "first"."""
    if rule not in ("error", "best", "first"):
        raise ParameterError.invalid("duplicates", owner, "'error', 'best' or 'first'", rule)


def duplicate_rows(
    row_list: Ints,
    slot: Codes,
    value: Floats,
    *,
    rule: str,
    smaller_is_better: bool,
    error: Callable[[Ints, Ints], DuplicateError],
) -> Bools | None:
    """Return a mask of the rows to drop so that no list holds an item twice, or None if there are no duplicates.

    Parameters
    ----------
    row_list, slot : int[rows]
        The list of every row, below 2**31, and its item. The rows of a list are in input order.
    value : float64[rows]
        The ranks, scores or labels.
    rule : {"error", "best", "first"}
        Raise, keep the row with the best value (the first of equals), or keep the first row.
    smaller_is_better : bool
        Whether the values are ranks.
    error : callable
        Makes the error from the rows of all first occurrences and the rows that repeat them.

    Examples
    --------
    >>> lists, slots, ranks = np.array([0, 0, 0]), np.array([4, 5, 4], dtype=np.int32), np.array([3.0, 1.0, 2.0])
    >>> def error(first, again):
    ...     return DuplicateError(f"rows {first.tolist()} and {again.tolist()}")
    >>> duplicate_rows(lists, slots, ranks, rule="best", smaller_is_better=True, error=error).tolist()
    [True, False, False]
    """
    cell = row_list.astype(np.int64) << 32
    cell |= slot
    ordered = np.sort(cell)
    repeated = ordered[1:] == ordered[:-1]
    if not repeated.any():
        return None
    at = np.flatnonzero(np.isin(cell, ordered[1:][repeated]))
    if rule == "error":
        at = at[np.argsort(cell[at], kind="stable")]
        again = np.flatnonzero(cell[at][1:] == cell[at][:-1]) + 1
        raise error(at[again - 1], at[again])
    cost = np.zeros(len(at)) if rule == "first" else value[at] if smaller_is_better else -value[at]
    at = at[np.lexsort((at, cost, cell[at]))]
    drop = np.zeros(len(cell), dtype=np.bool_)
    drop[at[1:]] = cell[at][1:] == cell[at][:-1]
    return drop
