"""The array types of Concordant: flat NumPy arrays of fixed dtypes, and read-only views of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Codes", "Floats", "Ints", "read_only"]

Bools = NDArray[np.bool_]
# Numbers of slots, experts and other ids.
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
# Offsets, counts and row numbers.
Ints = NDArray[np.int64]


def read_only(*arrays: NDArray[Any]) -> tuple[Any, ...]:
    """Return read-only views of arrays: a writeable array is another type, for which Numba would compile again."""
    out = []
    for array in arrays:
        view = array.view()
        view.flags.writeable = False
        out.append(view)
    return tuple(out)
