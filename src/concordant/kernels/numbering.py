"""Integer codes for texts in order of first appearance; each text is identified by two hashes.

An open-addressing hash table with one lookup per text; with few distinct texts it stays in the CPU cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Ints
from concordant.kernels.jit import jit

__all__ = ["number_pairs"]


@jit
def _place(table: Any, known: Any, a: Any, b: Any) -> Any:
    """Return the cell of a pair of hashes, or the empty cell where it belongs."""
    mask = np.uint64(len(table) - 1)
    cell = (a ^ (a >> np.uint64(32))) & mask
    while table[cell] >= 0 and (known[table[cell], 0] != a or known[table[cell], 1] != b):
        cell = (cell + np.uint64(1)) & mask
    return cell


@jit
def _number(h1: Any, h2: Any, codes: Any) -> Any:
    n = len(h1) // 2
    table = np.full(1 << 10, -1, dtype=np.int32)
    known = np.empty((1 << 9, 2), dtype=np.uint64)
    first = np.empty(1 << 9, dtype=np.int64)
    found = 0
    for k in range(n):
        for at in (k, n + k):
            a, b = h1[at], h2[at]
            cell = _place(table, known, a, b)
            if table[cell] < 0:
                if found == len(first):
                    more = np.empty((2 * found, 2), dtype=np.uint64)
                    more[:found] = known
                    known = more
                    further = np.empty(2 * found, dtype=np.int64)
                    further[:found] = first
                    first = further
                    table = np.full(4 * found, -1, dtype=np.int32)
                    for old in range(found):
                        table[_place(table, known, known[old, 0], known[old, 1])] = old
                    cell = _place(table, known, a, b)
                table[cell] = found
                known[found, 0] = a
                known[found, 1] = b
                first[found] = at
                found += 1
            codes[at] = table[cell]
    return first[:found].copy()


def number_pairs(h1: NDArray[np.uint64], h2: NDArray[np.uint64]) -> tuple[Codes, Ints]:
    """Return the codes of n left and then n right texts, numbered pair by pair, and the first place of each code.

    >>> both = np.array([7, 3, 3, 9], dtype=np.uint64)
    >>> codes, first = number_pairs(both, both)
    >>> codes.tolist(), first.tolist()
    ([0, 1, 1, 2], [0, 2, 3])
    """
    codes = np.empty(len(h1), dtype=np.int32)
    first: Ints = _number(h1, h2, codes)
    return codes, first
