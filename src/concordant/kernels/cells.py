"""Item-by-list tables in blocks of bounded size, for order statistics over experts such as medians.

Instances with the same number of lists form one rectangle, so that a thousand small instances take as few array calls
as one large instance.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.lists import ranges

__all__ = ["cell_blocks", "weighted_median"]

# Cells of one block, of eight bytes each.
_BUDGET = 1 << 21


def cell_blocks(
    values: Floats, absent: Floats | None, slot: Codes, list_offsets: Ints, list_starts: Ints, slot_offsets: Ints
) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Yield (slots, lists, cells) for blocks of slots; instances without lists are left out.

    cells[a, b] is the value of item slots[a] in list lists[a, b], or the value of that list for absent items.

    Parameters
    ----------
    values : float64[R]
        One per row of the preferences.
    absent : float64[L] or None
        The value of each list for items it leaves out; None for NaN.
    slot : int32[R]
        The item of each row.
    list_offsets : int64[L + 1]
        Where the lists begin among the rows.
    list_starts : int64[N + 1]
        Where the instances begin among the lists.
    slot_offsets : int64[N + 1]
        Where the instances begin among the slots.
    """
    widths = np.diff(list_starts)
    sizes = np.diff(slot_offsets)
    for width in np.unique(widths[(widths > 0) & (sizes > 0)]).tolist():
        chosen = np.flatnonzero((widths == width) & (sizes > 0))
        used = np.cumsum(sizes[chosen] * width)
        for part in np.split(chosen, np.flatnonzero(np.diff(used // _BUDGET)) + 1):
            yield from _cell_block(values, absent, slot, list_offsets, list_starts, slot_offsets, part, width)


def _cell_block(
    values: Floats,
    absent: Floats | None,
    slot: Codes,
    list_offsets: Ints,
    list_starts: Ints,
    slot_offsets: Ints,
    part: Ints,
    width: int,
) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Yield the blocks of these instances, all with `width` lists; a large instance is split."""
    first_list = list_starts[part]
    slots = ranges(slot_offsets[part], slot_offsets[part + 1])
    sizes = slot_offsets[part + 1] - slot_offsets[part]
    owner = np.repeat(np.arange(len(part)), sizes)
    rows = ranges(list_offsets[first_list], list_offsets[first_list + width])
    which = ranges(first_list, first_list + width)
    lengths = list_offsets[which + 1] - list_offsets[which]
    column = np.repeat(np.tile(np.arange(width), len(part)), lengths)
    shift = (np.cumsum(sizes) - sizes) - slot_offsets[part]
    place = slot[rows] + np.repeat(np.repeat(shift, width), lengths)
    value = values[rows]
    step = max(_BUDGET // width, 1)
    for start in range(0, len(slots), step):
        end = min(start + step, len(slots))
        lists = first_list[owner[start:end], None] + np.arange(width)
        cells = np.full(lists.shape, np.nan) if absent is None else absent[lists]
        inside = slice(None) if end - start == len(slots) else (place >= start) & (place < end)
        cells[place[inside] - start, column[inside]] = value[inside]
        yield slots[start:end], lists, cells


def weighted_median(cells: Floats, weights: Floats | None) -> Floats:
    """Return the weighted median of every row without its NaN; NaN where no value has weight.

    Where half of the total weight falls exactly between two values, it is their mean.

    >>> weighted_median(np.array([[1.0, 5.0, 2.0], [4.0, np.nan, 2.0]]), None).tolist()
    [2.0, 3.0]
    >>> weighted_median(np.array([[1.0, 5.0, 2.0]]), np.array([[1.0, 3.0, 0.0]])).tolist()
    [5.0]
    """
    width = cells.shape[1]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    if weights is None:
        ordered = np.sort(cells, axis=1)  # NaN goes last
        count = width - np.isnan(ordered).sum(axis=1)
        some = count > 0
        low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, width - 1)
    else:
        order = np.argsort(cells, axis=1, kind="stable")
        ordered = np.take_along_axis(cells, order, axis=1)
        weight = np.where(np.isnan(ordered), 0.0, np.take_along_axis(weights, order, axis=1))
        total = np.cumsum(weight, axis=1)
        half = 0.5 * total[:, -1:]
        some = half[:, 0] > 0
        # Sums of weights such as 0.1 + 0.2 equal half of the total only up to rounding.
        low = np.argmax(total >= half * (1 - 1e-12), axis=1)
        high = np.argmax(total > half * (1 + 1e-12), axis=1)
    pick = np.take_along_axis(ordered, np.stack([low, high], axis=1), axis=1)
    out: Floats = np.where(some, 0.5 * (pick[:, 0] + pick[:, 1]), np.nan)
    return out
