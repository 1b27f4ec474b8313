"""Inversion counts, concordant pairs and Kendall's tau-b for many lists at once, in O(R log R) with NumPy."""

from __future__ import annotations

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.lists import list_ids, offsets_of
from concordant.kernels.ratios import ratio

__all__ = ["inversions", "order_agreement", "pair_balance", "tau_b", "tied_pairs"]


def inversions(codes: Ints, offsets: Ints) -> Ints:
    """Return for every list the number of pairs i < j with codes[i] > codes[j], for whole numbers >= 0.

    The highest bit in which two numbers differ decides their order. From the highest bit down, numbers with equal
    higher bits are kept together in their original order; a 1 before a 0 in such a block is one inversion. Every bit
    takes a cumulative sum and a stable partition: O(R log max) for R rows.

    >>> inversions(np.array([2, 0, 1, 1, 0]), np.array([0, 3, 5])).tolist()
    [2, 1]
    """
    n, n_lists = len(codes), len(offsets) - 1
    total = np.zeros(n_lists, dtype=np.int64)
    if n < 2:
        return total
    bits = int(codes.max()).bit_length()
    # The number of the list above all bits keeps blocks within lists.
    owner = list_ids(offsets).astype(np.int64)
    current = codes + (owner << bits)
    index = np.arange(n, dtype=np.int64)
    for bit in range(bits - 1, -1, -1):
        prefix = current >> (bit + 1)
        new = np.ones(n, dtype=np.bool_)
        new[1:] = prefix[1:] != prefix[:-1]
        start = np.maximum.accumulate(np.where(new, index, 0))
        ones = (current >> bit) & 1
        before = np.cumsum(ones) - ones
        before -= before[start]
        # Integer sums: a list of a million items has more pairs than a float can count exactly.
        upto = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(np.where(ones == 0, before, 0), out=upto[1:])
        total += upto[offsets[1:]] - upto[offsets[:-1]]
        heads = np.flatnonzero(new)
        zeros_in_block = np.add.reduceat(1 - ones, heads)
        size = np.diff(heads, append=n)
        target = np.where(ones == 1, start + np.repeat(zeros_in_block, size) + before, index - before)
        moved = np.empty_like(current)
        moved[target] = current
        current = moved
    return total


def order_agreement(rank: Floats, label: Floats, offsets: Ints) -> tuple[Ints, Ints]:
    """Return for every list the number of pairs that ranks and labels order alike, and that they order oppositely.

    The smaller rank and the larger label are better. Pairs tied in either do not count. O(R log m) for R rows in lists
    of m.

    >>> order_agreement(np.array([1.0, 2.0, 4.0]), np.array([2.0, 0.0, 1.0]), np.array([0, 3]))
    (array([2]), array([1]))
    """
    owner = list_ids(offsets)
    levels, code = np.unique(label, return_inverse=True)
    code = code.reshape(-1).astype(np.int64)
    # Within equal ranks codes ascend, so that tied pairs are no inversions in either direction.
    falling = len(levels) - 1 - code
    alike = inversions(code[np.lexsort((code, rank, owner))], offsets)
    against = inversions(falling[np.lexsort((falling, rank, owner))], offsets)
    return alike, against


def tied_pairs(owner: Ints, code: Ints, n: int) -> Ints:
    """Return for every list the number of pairs with equal codes.

    >>> tied_pairs(np.array([0, 0, 0, 1]), np.array([2, 2, 2, 2]), 2).tolist()
    [3, 0]
    """
    width = int(code.max(initial=0)) + 1
    keys, times = np.unique(owner * width + code, return_counts=True)
    return np.bincount(keys // width, weights=times * (times - 1) // 2, minlength=n).astype(np.int64)


def pair_balance(owner: Codes | Ints, first: Ints, second: Ints, n: int) -> tuple[Ints, Ints, Ints]:
    """Return for every list concordant minus discordant pairs, and the untied pairs of each of two rankings.

    Parameters
    ----------
    owner : int[rows]
        The list of every row, from 0 to n - 1, in any order.
    first, second : int64[rows]
        Places in the two rankings, whole numbers >= 0.
    n : int
        The number of lists.

    Notes
    -----
    O(R log R) for R rows.

    Examples
    --------
    >>> owner, places = np.array([0, 0, 0, 1, 1]), np.array([1, 2, 3, 1, 2])
    >>> [part.tolist() for part in pair_balance(owner, places, np.array([2, 1, 1, 5, 5]), 2)]
    [[-2, 0], [3, 1], [2, 0]]
    """
    order = np.lexsort((first, second, owner))
    first, second, own = first[order], second[order], owner[order].astype(np.int64)
    size = np.bincount(own, minlength=n)
    pairs = size * (size - 1) // 2
    in_first, in_second = tied_pairs(own, first, n), tied_pairs(own, second, n)
    in_both = tied_pairs(own, second * (int(first.max(initial=0)) + 1) + first, n)
    # Within ties of the second ranking the first ascends, so that tied pairs are no inversions.
    net = pairs - in_first - in_second + in_both - 2 * inversions(first, offsets_of(size))
    return net, pairs - in_first, pairs - in_second


def tau_b(net: Floats | Ints, first: Floats | Ints, second: Floats | Ints) -> Floats:
    """Return Kendall's tau-b from the counts of `pair_balance`, NaN where one ranking ties all items.

    >>> tau_b(np.array([1, 0]), np.array([3, 0]), np.array([3, 1])).round(2).tolist()
    [0.33, nan]
    """
    below = np.sqrt(np.asarray(first, dtype=np.float64) * second)
    return np.clip(ratio(np.asarray(net), below), -1.0, 1.0)
