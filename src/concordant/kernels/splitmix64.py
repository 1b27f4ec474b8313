"""The splitmix64 generator, for reproducible hashes and random draws: its increment and its finaliser."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["STEP", "Keys", "mixed", "hashed"]

Keys = NDArray[np.uint64]

# The increment of splitmix64: steps of it visit all 64-bit numbers.
STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)


def mixed(x: Keys) -> Keys:
    """Return the finaliser of splitmix64 for each number, a bijection of 64-bit numbers with 0 fixed.

    Only arithmetic modulo 2^64, so that compiled loops can use it for single numbers.

    >>> mixed(np.array([0, 1], dtype=np.uint64)).tolist()
    [0, 6238072747940578789]
    """
    x = (x ^ (x >> _S30)) * _FIRST
    x = (x ^ (x >> _S27)) * _SECOND
    return x ^ (x >> _S31)


def hashed(x: Keys) -> Keys:
    """Return one splitmix64 step and its finaliser for each number."""
    return mixed(x + STEP)
