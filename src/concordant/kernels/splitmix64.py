"""Bits that look random, the same everywhere, for hashes and for draws: a step and the finaliser of splitmix64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["STEP", "Keys", "mixed", "scrambled"]

Keys = NDArray[np.uint64]

# Counting in steps of this visits all numbers, in an order without a pattern.
STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)


def mixed(x: Keys) -> Keys:
    """Return 64 bits that look random for each number, others for every other number; 0 stays 0.

    Arithmetic modulo 2^64 and nothing else, so that compiled loops can take it for single numbers.

    >>> mixed(np.array([0, 1], dtype=np.uint64)).tolist()
    [0, 6238072747940578789]
    """
    x = (x ^ (x >> _S30)) * _FIRST
    x = (x ^ (x >> _S27)) * _SECOND
    return x ^ (x >> _S31)


def scrambled(x: Keys) -> Keys:
    """Return 64 bits that look random for each number, 0 included."""
    return mixed(x + STEP)
