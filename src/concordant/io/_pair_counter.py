"""Counts pairs of comparisons while they are read: memory grows with the number of pairs, not of rows.

A pair is one 64-bit key. Its counts are integers of one byte until they need more. New rows are merged into the sorted
keys, so that the columns are never copied as a whole.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from concordant.data.comparisons import Comparisons
from concordant.data.index import Slots, Texts
from concordant.io._dictionary_encoding import encode_slots

__all__ = ["PairCounter"]

# Rows are merged when there are _MERGED_ROWS of them and at least one per _MERGED_PART pairs: a merge visits all pairs.
_MERGED_ROWS, _MERGED_PART = 4_000_000, 8


class PairCounter:
    """Adds up comparisons pair by pair; the result equals `Comparisons.collapse` of all of them.

    Examples
    --------
    >>> counter = PairCounter()
    >>> counter.add(Comparisons("q", None, ["a"], ["b"]))
    >>> counter.add(Comparisons("q", None, ["b"], ["a"]))
    >>> counter.comparisons()
    Comparisons: 1 instance, 2 items, 1 row with 2 outcomes (0 ties)
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self._reset()

    def _reset(self) -> None:
        self._slots: Slots | None = None
        self._keys = np.zeros(0, dtype=np.int64)
        self._counts = np.zeros((3, 0), dtype=np.uint8)
        self._pending: list[Comparisons] = []

    def add(self, part: Comparisons) -> None:
        """Add the rows of a part."""
        self._pending.append(part)
        self.n_rows += part.n_rows
        if sum(p.n_rows for p in self._pending) >= max(_MERGED_ROWS, len(self._keys) // _MERGED_PART):
            self._merge()

    def _merge(self) -> None:
        from concordant.kernels.pair_counts import add_rows, moved_keys

        known = [] if self._slots is None else [self._slots]
        parts, self._pending = self._pending, []
        slots, slot = encode_slots(pl.concat([_frame(s) for s in (*known, *(p.slots for p in parts))]))
        first = sum(s.n_slots for s in known)
        if known and len(slots) > 1:
            # The slots of an instance are consecutive, so that a new item shifts those of later instances.
            self._keys = moved_keys(self._keys, slot[:first])
        left, right = [], []
        for part in parts:
            own = slot[first : first + part.n_slots]
            left.append(own[part.left])
            right.append(own[part.right])
            first += part.n_slots
        counts = [np.concatenate([getattr(p, name) for p in parts]) for name in ("n_left", "n_right", "n_ties")]
        parts.clear()
        rows = np.concatenate(left), np.concatenate(right), counts[0], counts[1], counts[2]
        self._keys, self._counts = add_rows(self._keys, self._counts, rows, slots.n_slots)
        self._slots = slots

    def comparisons(self) -> Comparisons:
        """Return the counts and reset the counter."""
        if self._slots is None and len(self._pending) == 1:
            return self._pending.pop().collapse()
        if self._pending:
            self._merge()
        slots, keys, counts = self._slots, self._keys, self._counts
        self._reset()
        left = np.empty(len(keys), dtype=np.int32)
        right = np.empty(len(keys), dtype=np.int32)
        np.right_shift(keys, 32, out=left, casting="unsafe")
        np.bitwise_and(keys, 0xFFFFFFFF, out=right, casting="unsafe")
        del keys
        columns = [row.astype(np.float64) for row in counts]
        return Comparisons.from_codes(slots or Slots.of({}), Texts(), None, left, right, *columns, sided=False)


def _frame(slots: Slots) -> pl.DataFrame:
    """Return the instance and the item of every slot."""
    instances, items = (
        pl.Series(t.native, dtype=pl.String) if isinstance(t.native, tuple) else t.native
        for t in (slots.instances, slots.items)
    )
    return pl.DataFrame({"instance": instances.gather(slots.instance), "item": items})
