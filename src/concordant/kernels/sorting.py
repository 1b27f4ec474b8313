"""Stable sorting inside compiled loops: counting smaller keys for short lists, radix sort for long ones."""

from __future__ import annotations

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.kernels.jit import jit

__all__ = ["stable_sort"]

# Up to this length, counting the smaller keys is fastest: it has no branches.
_SHORT = 64
_SIGN = np.int64(-(1 << 63))


@jit
def stable_sort(key: Floats, order: Ints, spare: Ints) -> None:
    """Sort the numbers in `order` by their key, ascending; those with equal keys keep their order.

    `spare` is working memory of the same length.
    """
    n = len(order)
    if n <= _SHORT:
        own = np.empty(n)
        for i in range(n):
            spare[i] = order[i]
            own[i] = key[order[i]]
        for i in range(n):
            value, ahead = own[i], 0
            for j in range(n):
                ahead += (own[j] < value) + ((own[j] == value) & (j < i))
            order[ahead] = spare[i]
        return
    bits, next_bits = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    values, seen = bits.view(np.float64), np.zeros((8, 256), dtype=np.int64)
    for i in range(n):
        # Adding 0 turns -0 into 0.
        values[i] = key[order[i]] + 0.0
        # As unsigned integers these have the order of the keys: all bits of negative keys are flipped.
        bits[i] ^= (bits[i] >> 63) | _SIGN
        for byte in range(8):
            seen[byte, (bits[i] >> (8 * byte)) & 255] += 1
    source, target = order, spare[:n]
    for byte in range(8):
        at, shift = seen[byte], 8 * byte
        if at[(bits[0] >> shift) & 255] == n:
            continue
        total = 0
        for v in range(256):
            total += at[v]
            at[v] = total - at[v]
        for i in range(n):
            v = (bits[i] >> shift) & 255
            to = at[v]
            at[v] = to + 1
            next_bits[to] = bits[i]
            target[to] = source[i]
        bits, next_bits = next_bits, bits
        source, target = target, source
    for i in range(n):
        # After an even number of passes this copies in place.
        order[i] = source[i]
