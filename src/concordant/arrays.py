"""The array types of Concordant: flat NumPy arrays of fixed dtypes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Codes", "Floats", "Ints"]

Bools = NDArray[np.bool_]
# Numbers of slots, experts and other ids.
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
# Offsets, counts and row numbers.
Ints = NDArray[np.int64]
