"""Random numbers inside compiled loops: hashes, uniform numbers and integers from a state of splitmix64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from concordant.kernels.jit import jit
from concordant.kernels.splitmix64 import mixed

__all__ = ["hash_state", "uniform", "uniform_below"]

_S11, _S32 = np.uint64(11), np.uint64(32)
_UNIT = 2.0**-53

# The finaliser of splitmix64 for one number at a time.
hash_state: Callable[[np.uint64], np.uint64] = jit(cast(Any, mixed))


@jit
def uniform(state: np.uint64) -> float:
    """Return a number from [0, 1)."""
    return float(hash_state(state) >> _S11) * _UNIT


@jit
def uniform_below(state: np.uint64, n: int) -> int:
    """Return an integer from 0 to n − 1, from the high half of the hash of the state; n < 2^32."""
    return int(((hash_state(state) >> _S32) * np.uint64(n)) >> _S32)
