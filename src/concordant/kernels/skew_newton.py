"""Newton's method for the completion of a skew-symmetric matrix of rank two: the minimum that SVP's steps approach.

X(i, j) = x_i y_j - y_i x_j, with (x_i, y_i) = w[i], minimises f = half the sum of (X - A)^2 over the known pairs. A
Newton direction is solved by conjugate gradients, whose products with the Hessian are one pass over the pairs each.
"""

from __future__ import annotations

import numpy as np

from concordant.arrays import Codes, Floats
from concordant.kernels.jit import jit

__all__ = ["refine"]

# Conjugate gradients stop at this share of the gradient, or after this many products.
_FORCING = 0.1
_PRODUCTS = 50
# A step that does not lower f is halved, at most this often.
_HALVINGS = 30
# Keeps the diagonal blocks invertible, relative to their trace.
_RIDGE = 1e-9


@jit
def _gradient(first: Codes, second: Codes, value: Floats, w: Floats, gradient: Floats, blocks: Floats) -> float:
    """Write the gradient of f and the diagonal blocks of J^T J, as (xx, xy, yy) of each item; return f.

    J is the Jacobian of the residuals. Pairs with the same first item in a row are summed without going through memory.
    """
    for i in range(len(w)):
        gradient[i, 0], gradient[i, 1] = 0.0, 0.0
        blocks[i, 0], blocks[i, 1], blocks[i, 2] = 0.0, 0.0, 0.0
    total = 0.0
    e = 0
    while e < len(first):
        i = first[e]
        xi, yi = w[i, 0], w[i, 1]
        gx, gy, xx, xy, yy = 0.0, 0.0, 0.0, 0.0, 0.0
        while e < len(first) and first[e] == i:
            j = second[e]
            xj, yj = w[j, 0], w[j, 1]
            r = xi * yj - yi * xj - value[e]
            total += r * r
            gx += r * yj
            gy -= r * xj
            gradient[j, 0] -= r * yi
            gradient[j, 1] += r * xi
            xx += yj * yj
            xy -= xj * yj
            yy += xj * xj
            blocks[j, 0] += yi * yi
            blocks[j, 1] -= xi * yi
            blocks[j, 2] += xi * xi
            e += 1
        gradient[i, 0] += gx
        gradient[i, 1] += gy
        blocks[i, 0] += xx
        blocks[i, 1] += xy
        blocks[i, 2] += yy
    return 0.5 * total


@jit
def _hessian_product(first: Codes, second: Codes, value: Floats, w: Floats, d: Floats, out: Floats) -> None:
    """Write the Hessian of f at w times d."""
    for i in range(len(w)):
        out[i, 0], out[i, 1] = 0.0, 0.0
    e = 0
    while e < len(first):
        i = first[e]
        xi, yi, dxi, dyi = w[i, 0], w[i, 1], d[i, 0], d[i, 1]
        hx, hy = 0.0, 0.0
        while e < len(first) and first[e] == i:
            j = second[e]
            xj, yj, dxj, dyj = w[j, 0], w[j, 1], d[j, 0], d[j, 1]
            r = xi * yj - yi * xj - value[e]
            s = xi * dyj - yi * dxj + dxi * yj - dyi * xj
            hx += s * yj + r * dyj
            hy -= s * xj + r * dxj
            out[j, 0] -= s * yi + r * dyi
            out[j, 1] += s * xi + r * dxi
            e += 1
        out[i, 0] += hx
        out[i, 1] += hy


@jit
def _solve_blocks(blocks: Floats, b: Floats, out: Floats) -> float:
    """Write the solution of the diagonal blocks for b to `out`; return its product with b."""
    total = 0.0
    for i in range(len(b)):
        ridge = _RIDGE * (blocks[i, 0] + blocks[i, 2]) + 1e-300
        xx, xy, yy = blocks[i, 0] + ridge, blocks[i, 1], blocks[i, 2] + ridge
        determinant = xx * yy - xy * xy
        out[i, 0] = (yy * b[i, 0] - xy * b[i, 1]) / determinant
        out[i, 1] = (xx * b[i, 1] - xy * b[i, 0]) / determinant
        total += out[i, 0] * b[i, 0] + out[i, 1] * b[i, 1]
    return total


@jit
def _direction(
    first: Codes, second: Codes, value: Floats, w: Floats, gradient: Floats, blocks: Floats, out: Floats
) -> None:
    """Write a Newton direction to `out`, by conjugate gradients up to a direction of negative curvature."""
    rest, solved, product = -gradient, np.empty_like(w), np.empty_like(w)
    size = _solve_blocks(blocks, rest, solved)
    along = solved.copy()
    goal = _FORCING * _FORCING * size
    out[:] = 0.0
    for k in range(_PRODUCTS):
        _hessian_product(first, second, value, w, along, product)
        curvature = np.sum(along * product)
        if curvature <= 0.0:
            if k == 0:
                out[:] = along
            return
        length = size / curvature
        out += length * along
        rest -= length * product
        before = size
        size = _solve_blocks(blocks, rest, solved)
        if size <= goal:
            return
        along = solved + size / before * along


@jit
def refine(
    first: Codes, second: Codes, value: Floats, left: Floats, right: Floats, max_iter: int, tol: float
) -> tuple[int, float]:
    """Move X = left right^T - right left^T, in place, to the next minimum of the squared residuals on the known pairs.

    Returns the number of Newton steps and the relative change of the norm of the residual in the last one, at most
    `tol` unless `max_iter` steps were not enough. Some five to ten passes over the pairs each; residuals never grow.

    Parameters
    ----------
    first, second : int32[E]
        The known pairs, each once; quickest where pairs with the same first item lie together.
    value : float64[E]
        A at (first, second), and its negative at (second, first).
    left, right : float64[n]
        The start, not 0. The result is orthogonal.
    """
    # Any c gives the same X from c * left and right / c; equal norms need a fifth of the products.
    scale = np.sqrt(np.sqrt(np.sum(right * right) / np.sum(left * left)))
    w = np.empty((len(left), 2))
    w[:, 0], w[:, 1] = scale * left, right / scale
    new, step = np.empty_like(w), np.empty_like(w)
    gradient, blocks = np.empty_like(w), np.empty((len(left), 3))
    f = _gradient(first, second, value, w, gradient, blocks)
    change = 0.0
    n_iter = 0
    while n_iter < max_iter and f > 0.0:
        _direction(first, second, value, w, gradient, blocks, step)
        after = f
        for _ in range(_HALVINGS):
            new[:] = w + step
            after = _gradient(first, second, value, new, gradient, blocks)
            if after < f:
                break
            step *= 0.5
        n_iter += 1
        if not after < f:
            change = 0.0
            break
        change = 1.0 - np.sqrt(after / f)
        f = after
        w[:] = new
        if change <= tol:
            break
    left[:], right[:] = w[:, 0], w[:, 1]
    # Orthogonal, as singular vectors are; X does not change.
    right -= np.sum(left * right) / np.sum(left * left) * left
    return n_iter, change
