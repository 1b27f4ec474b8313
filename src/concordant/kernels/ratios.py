"""Ratios of arrays with a value of choice where the denominator is 0."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats

__all__ = ["ratio"]


def ratio(above: NDArray[Any] | float, below: NDArray[Any], otherwise: float = np.nan) -> Floats:
    """Return above / below where below > 0, and `otherwise` elsewhere.

    >>> ratio(np.array([1.0, 2.0]), np.array([4, 0]), 0.0).tolist()
    [0.25, 0.0]
    """
    out: Floats = np.divide(above, below, out=np.full(np.shape(below), otherwise), where=below > 0)
    return out
