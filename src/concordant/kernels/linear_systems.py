"""Symmetric systems of Newton's method: Cholesky for small ones, preconditioned conjugate gradients for large ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.kernels.jit import jit, jit_fused

__all__ = [
    "SMALL_SYSTEM",
    "add_outer_products",
    "cholesky_solve",
    "conjugate_gradients",
    "inverse_and_log_determinant",
    "solve_positive_definite",
]

# Systems up to this size are worth a dense matrix.
SMALL_SYSTEM = 128
# Up to these sizes our own Cholesky solves and inverts. It takes about as long as one thread of LAPACK at 200 rows, and
# the threads of LAPACK, on cores that have other work, wait for one another a hundred times longer than they compute.
_OWN_SOLVE, _OWN_INVERSE = 256, 512


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
    if len(matrix) <= _OWN_SOLVE:
        out = np.array(right, order="C")
        return out if cholesky_solve(matrix.copy(), out) else None
    from scipy.linalg import cho_factor, cho_solve

    try:
        factor = cho_factor(matrix, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(cho_solve(factor, right, check_finite=False), dtype=np.float64)


@jit_fused
def _cholesky_inverse(matrix: Floats, half: Floats) -> float:
    """Overwrite the lower triangle of a matrix with its inverse, and return the logarithm of its determinant.

    It returns NaN where the matrix, given by its upper triangle, is not positive definite. `half` is room of the same
    shape. All inner loops run along rows.
    """
    n = len(matrix)
    log_determinant = 0.0
    # UᵀU = A, over A.
    for k in range(n):
        pivot = matrix[k, k]
        if not pivot > 0:
            return np.nan
        log_determinant += np.log(pivot)
        scale = 1.0 / np.sqrt(pivot)
        for j in range(k, n):
            matrix[k, j] *= scale
        for i in range(k + 1, n):
            factor = matrix[k, i]
            for j in range(i, n):
                matrix[i, j] -= factor * matrix[k, j]
    # V = U⁻ᵀ.
    for i in range(n):
        for j in range(i):
            half[i, j] = 0.0
        half[i, i] = 1.0
        for k in range(i):
            factor = matrix[k, i]
            for j in range(k + 1):
                half[i, j] -= factor * half[k, j]
        scale = 1.0 / matrix[i, i]
        for j in range(i + 1):
            half[i, j] *= scale
    # A⁻¹ = VᵀV.
    for i in range(n):
        for j in range(i + 1):
            matrix[i, j] = 0.0
        for k in range(i, n):
            factor = half[k, i]
            for j in range(i + 1):
                matrix[i, j] += factor * half[k, j]
    return log_determinant


def inverse_and_log_determinant(matrix: Floats) -> tuple[Floats, float]:
    """Return the inverse of a positive definite matrix and the logarithm of its determinant, by Cholesky.

    Where rounding leaves the matrix singular, its least eigenvalues count as what rounding leaves of 0.

    >>> inverse, value = inverse_and_log_determinant(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> inverse.round(12).tolist(), bool(np.isclose(value, np.log(3)))
    ([[0.666666666667, -0.333333333333], [-0.333333333333, 0.666666666667]], True)
    """
    if len(matrix) <= _OWN_INVERSE:
        table = np.array(matrix, dtype=np.float64, order="C")
        value = float(_cholesky_inverse(table, np.empty(table.shape)))
        failed = bool(np.isnan(value))
    else:
        from scipy.linalg import lapack

        root, failed = lapack.dpotrf(matrix, lower=True)
        if not failed:
            table, _ = lapack.dpotri(root, lower=True)
            value = 2.0 * float(np.log(np.diagonal(root)).sum())
    if failed:
        values, vectors = np.linalg.eigh(matrix)
        values = np.maximum(values, 1e-14 * values[-1])
        return (vectors / values) @ vectors.T, float(np.log(values).sum())
    lower = np.tril(table)
    return lower + np.tril(lower, -1).T, value


@jit_fused
def add_outer_products(starts: Ints, columns: Ints, values: Floats, out: Floats) -> None:
    """Add the outer products of the rows of a sparse table, columns increasing, to the upper triangle of `out`."""
    for row in range(len(starts) - 1):
        for a in range(starts[row], starts[row + 1]):
            for b in range(a, starts[row + 1]):
                out[columns[a], columns[b]] += values[a] * values[b]


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
