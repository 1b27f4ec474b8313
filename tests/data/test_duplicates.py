from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concordant.arrays import Ints
from concordant.data.duplicates import check_duplicates, duplicate_rows
from concordant.errors import DuplicateError, ParameterError

Row = tuple[int, int, float]
rows_of = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from([1.0, 2.0, 3.0])), max_size=20)


def error(first: Ints, again: Ints) -> DuplicateError:
    return DuplicateError(f"{first.tolist()} {again.tolist()}")


def dropped(rows: list[Row], rule: str, *, smaller_is_better: bool) -> list[bool] | None:
    lists, slots, values = (np.array(column) for column in zip(*rows, strict=True)) if rows else (np.zeros(0),) * 3
    drop = duplicate_rows(
        lists.astype(np.int64),
        slots.astype(np.int32),
        values.astype(np.float64),
        rule=rule,
        smaller_is_better=smaller_is_better,
        error=error,
    )
    return None if drop is None else drop.tolist()


@given(rows_of, st.sampled_from(["best", "first"]), st.booleans())
def test_one_row_of_each_list_and_item_stays(rows: list[Row], rule: str, smaller_is_better: bool) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    kept: dict[tuple[int, int], int] = {}
    for n, (which, slot, value) in enumerate(rows):
        before = kept.setdefault((which, slot), n)
        better = value < rows[before][2] if smaller_is_better else value > rows[before][2]
        if rule == "best" and better:
            kept[which, slot] = n
    expected = [n not in kept.values() for n in range(len(rows))]
    assert dropped(rows, rule, smaller_is_better=smaller_is_better) == (expected if any(expected) else None)


def test_the_error_gets_all_repetitions() -> None:
    rows = [(0, 5, 1.0), (0, 5, 1.0), (1, 5, 1.0), (1, 6, 1.0), (1, 5, 2.0)]
    with pytest.raises(DuplicateError, match=r"^\[0, 2\] \[1, 4\]$"):
        dropped(rows, "error", smaller_is_better=True)
    assert dropped(rows[:1] + rows[2:4], "error", smaller_is_better=True) is None


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ParameterError, match="the 'duplicates' parameter of Preferences must be 'error', 'best' or"):
        check_duplicates("last", "Preferences")
