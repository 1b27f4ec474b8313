"""Tables of items by lists, whole and in pieces, and medians in which weights count as copies."""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.strategies import Rows, preference_rows

from concordant.kernels import cells
from concordant.kernels.cells import cell_blocks, weighted_median

cell = st.sampled_from([1.0, 2.0, 2.5, 7.0, None])


@given(st.lists(st.tuples(cell, st.sampled_from([0.0, 0.5, 1.0, 3.0])), min_size=1, max_size=7))
def test_weights_count_as_copies(row: list[tuple[float | None, float]]) -> None:
    values = np.array([[np.nan if v is None else v for v, _ in row]])
    weights = np.array([[w for _, w in row]])
    copies = [v for v, w in row if v is not None for _ in range(round(2 * w))]
    got = weighted_median(values, weights)[0]
    assert np.isnan(got) if not copies else got == median(copies)
    plain = [v for v, _ in row if v is not None]
    got = weighted_median(values, None)[0]
    assert np.isnan(got) if not plain else got == median(plain)


@pytest.mark.parametrize("budget", [1, 7, 1 << 20])
@given(rows=preference_rows(max_instances=4))
def test_every_cell_is_given_once(budget: int, rows: Rows) -> None:
    p = rows.build()
    absent = -1.0 - np.arange(p.n_lists)
    found: dict[tuple[int, int], float] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "_BUDGET", budget)
        for slots, lists, table in cell_blocks(p.value, absent, p.slot, p.list_offsets, p.list_starts, p.slots.offsets):
            assert table.shape == lists.shape
            for s, row_lists, row in zip(slots.tolist(), lists.tolist(), table.tolist(), strict=True):
                for which, value in zip(row_lists, row, strict=True):
                    assert (s, which) not in found
                    found[s, which] = value
    want: dict[Any, float] = {
        (s, which): absent[which]
        for s in range(p.n_slots)
        for which in range(p.n_lists)
        if p.list_instance[which] == p.slots.instance[s]
    }
    want |= dict(zip(zip(p.slot.tolist(), p.row_list.tolist(), strict=True), p.value.tolist(), strict=True))
    assert found == want
