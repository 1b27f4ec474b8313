"""Lists of graded items in the form that losses take; named here, where nothing is compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints, read_only
from concordant.kernels.lists import list_ids, offsets_of, ranges
from concordant.kernels.splitmix64 import Keys

__all__ = ["GradedLists"]


class GradedLists(NamedTuple):
    """Lists of items with labels, one after another; in each list the rows come by label, the highest first.

    Attributes
    ----------
    offsets : int64[L + 1]
        Where the lists begin.
    label : float64[R]
        The label of every row.
    level : int64[R]
        How many different labels of its list are higher.
    mark : uint8[R]
        1 where a block of equal labels begins, else 0.
    key : uint64[L]
        A number drawn from the list's id, from which all chance about the list comes.
    """

    offsets: Ints
    label: Floats
    level: Ints
    mark: NDArray[np.uint8]
    key: Keys

    @classmethod
    def of(cls, label: Floats, offsets: Ints, key: Keys | None = None) -> GradedLists:
        """Return the lists of rows that already come by label, the highest first.

        >>> GradedLists.of(np.array([2.0, 2.0, 0.0, 1.0]), np.array([0, 3, 4])).level.tolist()
        [0, 0, 1, 0]
        """
        mark = np.ones(len(label), dtype=np.uint8)
        mark[1:] = label[1:] != label[:-1]
        starts = offsets[:-1]
        mark[starts[starts < len(label)]] = 1
        level = np.cumsum(mark, dtype=np.int64)
        level -= level[offsets[:-1][list_ids(offsets)]] if len(label) else 0
        own = np.arange(len(starts), dtype=np.uint64) if key is None else key
        return cls(read_only(offsets)[0], label, level, mark, own)

    def take(self, lists: Ints) -> tuple[GradedLists, Ints]:
        """Return some of the lists, in the order given, and which rows they hold."""
        rows = ranges(self.offsets[lists], self.offsets[lists + 1])
        (offsets,) = read_only(offsets_of(np.diff(self.offsets)[lists]))
        return (
            GradedLists(offsets, self.label[rows], self.level[rows], self.mark[rows], self.key[lists]),
            rows,
        )

    def window(self, first: int, last: int) -> GradedLists:
        """Return the lists from `first` up to `last`, as views."""
        a, b = int(self.offsets[first]), int(self.offsets[last])
        return GradedLists(
            read_only(self.offsets[first : last + 1] - a)[0],
            self.label[a:b],
            self.level[a:b],
            self.mark[a:b],
            self.key[first:last],
        )

    def edges(self, rows: int) -> list[int]:
        """Return the lists at which stretches of about so many rows begin, and the end.

        >>> GradedLists.of(np.zeros(6), np.array([0, 2, 4, 6])).edges(3)
        [0, 1, 2, 3]
        >>> GradedLists.of(np.zeros(6), np.array([0, 2, 4, 6])).edges(4)
        [0, 2, 3]
        """
        out, n = [0], len(self.offsets) - 1
        while out[-1] < n:
            full = int(np.searchsorted(self.offsets, self.offsets[out[-1]] + rows, side="right")) - 1
            out.append(min(max(full, out[-1] + 1), n))
        return out
