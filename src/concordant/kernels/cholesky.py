"""Small symmetric systems, solved where they are: compiled code can call it, and no library threads are woken."""

from __future__ import annotations

import numpy as np

from concordant.kernels.jit import jit
from concordant.kernels.lists import Floats

__all__ = ["cholesky_solve"]


@jit
def cholesky_solve(matrix: Floats, right: Floats) -> bool:
    """Solve matrix · x = right for every column, overwriting both; return whether the matrix is positive definite.

    For the tens of numbers of a usual instance this takes less time than calling a linear-algebra library, and none of
    its threads wait for each other.
    """
    n, columns = right.shape
    for i in range(n):
        for j in range(i + 1):
            left = matrix[i, j]
            for c in range(j):
                left -= matrix[i, c] * matrix[j, c]
            if i == j:
                if not left > 1e-14 * matrix[i, i]:
                    return False
                matrix[i, i] = np.sqrt(left)
            else:
                matrix[i, j] = left / matrix[j, j]
    for i in range(n):
        for c in range(i):
            for k in range(columns):
                right[i, k] -= matrix[i, c] * right[c, k]
        for k in range(columns):
            right[i, k] /= matrix[i, i]
    for i in range(n - 1, -1, -1):
        for c in range(i + 1, n):
            for k in range(columns):
                right[i, k] -= matrix[c, i] * right[c, k]
        for k in range(columns):
            right[i, k] /= matrix[i, i]
    return True
