"""Symmetric systems of Newton's method: Cholesky for small ones, preconditioned conjugate gradients for large ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from concordant.arrays import Floats
from concordant.kernels.jit import jit

__all__ = ["SMALL_SYSTEM", "cholesky_solve", "conjugate_gradients", "solve_positive_definite"]

# Systems up to this size are solved by our own Cholesky: starting the threads of a library takes longer.
SMALL_SYSTEM = 128


@jit
def cholesky_solve(matrix: Floats, right: Floats) -> bool:
    """Solve matrix · x = right for every column, overwriting both; return whether the matrix is positive definite.

    For the tens of unknowns of a usual instance this is faster than a call of a linear-algebra library, wakes none of
    its threads, and compiled code can call it.
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


def solve_positive_definite(matrix: Floats, right: Floats) -> Floats | None:
    """Return matrix⁻¹ · right for a symmetric matrix, or None where it is not positive definite.

    >>> solve_positive_definite(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[3.0], [3.0]])).round(12).tolist()
    [[1.0], [1.0]]
    """
    if len(matrix) <= SMALL_SYSTEM:
        out = np.array(right, order="C")
        return out if cholesky_solve(matrix.copy(), out) else None
    from scipy.linalg import cho_factor, cho_solve

    try:
        factor = cho_factor(matrix, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(cho_solve(factor, right, check_finite=False), dtype=np.float64)


def conjugate_gradients(
    product: Callable[[Floats], Floats], right: Floats, diagonal: Floats, *, rtol: float, max_iter: int
) -> tuple[Floats, bool]:
    """Return the solution x of A x = right, and whether A was positive along every search direction.

    The preconditioner is the diagonal of A. The iteration ends when no residual is larger than `rtol` times the largest
    component of `right`. At a direction of negative curvature it returns the x reached before.

    Parameters
    ----------
    product : callable
        Returns A times a vector.
    right, diagonal : float64[n]
        The right-hand side, and the diagonal of A.
    rtol : float
        The relative tolerance, in the maximum norm.
    max_iter : int
        The most products.

    >>> a, b = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    >>> x, positive = conjugate_gradients(lambda v: a @ v, b, a.diagonal(), rtol=1e-12, max_iter=9)
    >>> (a @ x).round(9).tolist(), positive
    ([1.0, 2.0], True)
    """
    x, residual = np.zeros(len(right)), right.copy()
    goal = rtol * float(np.abs(right).max(initial=0.0))
    scaled = residual / diagonal
    search, size = scaled.copy(), float((residual * scaled).sum())
    for _ in range(max_iter):
        if float(np.abs(residual).max(initial=0.0)) <= goal:
            break
        image = product(search)
        curvature = float((search * image).sum())
        if not curvature > 0:
            return x, False
        x += size / curvature * search
        residual -= size / curvature * image
        scaled = residual / diagonal
        size, before = float((residual * scaled).sum()), size
        search = scaled + size / before * search
    return x, True
