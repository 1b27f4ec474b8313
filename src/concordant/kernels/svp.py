"""Rank-2r completion of a skew-symmetric matrix with missing entries, by singular value projection.

The completed matrix is never formed: it is stored as a few pairs of vectors, and a step multiplies vectors by the known
entries. For a skew-symmetric matrix A, x and A x are orthogonal, so the Lanczos process needs half the coefficients:
its odd and even vectors span the left and the right singular vectors.
"""

from __future__ import annotations

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.jit import jit
from concordant.kernels.skew_newton import refine

__all__ = ["complete", "margin_table"]

# The Lanczos process restarts after this many vectors.
_BASIS = 48
# A singular pair has converged when its residual is at most this share of the singular value.
_FOUND = 1e-13
# A vector shorter than this share of the longest is rounding error: the Krylov space is exhausted.
_EXHAUSTED = 1e-12
_ROUNDING = 2.3e-16
# Nearly equal singular values separate slowly; after this many restarts the difference hardly matters.
_RESTARTS = 50
# The share of the vector of ones in the start vector of every step.
_AFRESH = 0.1
# After steps over this many pairs in all, Newton's method goes the rest of the way.
_STEPPED_PAIRS = 5_000_000


@jit
def margin_table(
    offsets: Ints, item: Codes, x: Floats, weight: Floats, n: int, binary: bool, average: bool, least: float
) -> tuple[Codes, Codes, Floats]:
    """Return (first, second, value) for all pairs of items that lists of an instance hold together; first < second.

    value = sum over lists of w * (x_second - x_first), or of the sign of it with `binary`, over the sum of w with
    `average`. Pairs of less than `least` weight are left out, lists of weight 0 too. Cost O(sum of squared lengths);
    memory for the pairs alone.

    Parameters
    ----------
    offsets : int64[L + 1]
        Where the lists begin.
    item : int32[R]
        The items of the rows, 0..n-1.
    x : float64[R]
        The values whose differences are the margins; smaller is better.
    weight : float64[L]
        The weights of the lists.
    """
    rows = len(item)
    starts = np.zeros(n + 1, np.int64)
    for r in range(rows):
        starts[item[r] + 1] += 1
    for i in range(n):
        starts[i + 1] += starts[i]
    place = np.empty(n, np.int64)
    for i in range(n):
        place[i] = starts[i]
    row_of = np.empty(rows, np.int64)
    list_of = np.empty(rows, np.int64)
    for k in range(len(weight)):
        for r in range(offsets[k], offsets[k + 1]):
            row_of[place[item[r]]] = r
            list_of[place[item[r]]] = k
            place[item[r]] += 1
    # Space for the pairs of all lists, or for all pairs; pages that are never written take no memory.
    room = 0
    for k in range(len(weight)):
        room += (offsets[k + 1] - offsets[k]) * (offsets[k + 1] - offsets[k] - 1) // 2
    room = min(room, n * (n - 1) // 2)
    first = np.empty(room, np.int32)
    second = np.empty(room, np.int32)
    value = np.empty(room, np.float64)
    used = 0
    total = np.zeros(n)
    count = np.zeros(n)
    touched = np.empty(n, np.int32)
    for i in range(n):
        met = 0
        for e in range(starts[i], starts[i + 1]):
            k = list_of[e]
            w = weight[k]
            if w <= 0.0:
                continue
            own = x[row_of[e]]
            for r in range(offsets[k], offsets[k + 1]):
                j = item[r]
                if j <= i:
                    continue
                if count[j] == 0.0:
                    touched[met] = j
                    met += 1
                count[j] += w
                gap = x[r] - own
                if binary:
                    gap = 1.0 if gap > 0.0 else (-1.0 if gap < 0.0 else 0.0)
                total[j] += w * gap
        for t in range(met):
            j = touched[t]
            if count[j] >= least - 1e-9:
                first[used] = i
                second[used] = j
                value[used] = total[j] / count[j] if average else total[j]
                used += 1
            total[j] = 0.0
            count[j] = 0.0
    return first[:used], second[:used], value[:used]


@jit
def _matvec(first: Codes, second: Codes, known: Floats, left: Floats, right: Floats, x: Floats, out: Floats) -> None:
    """Write (sum_c left_c right_c^T - right_c left_c^T + K) x to `out`; K holds known[e] at (first[e], second[e]).

    Any order of pairs will do; pairs with the same first item in a row are summed without going through memory.
    """
    n = len(x)
    for i in range(n):
        out[i] = 0.0
    for c in range(len(left)):
        by_right = 0.0
        by_left = 0.0
        for i in range(n):
            by_right += right[c, i] * x[i]
            by_left += left[c, i] * x[i]
        for i in range(n):
            out[i] += left[c, i] * by_right - right[c, i] * by_left
    e = 0
    while e < len(first):
        i = first[e]
        own = x[i]
        total = 0.0
        while e < len(first) and first[e] == i:
            j = second[e]
            total += known[e] * x[j]
            out[j] -= known[e] * own
            e += 1
        out[i] += total


@jit
def _norm(x: Floats) -> float:
    total = 0.0
    for i in range(len(x)):
        total += x[i] * x[i]
    return float(np.sqrt(total))


@jit
def _next_vector(
    first: Codes, second: Codes, known: Floats, left: Floats, right: Floats, basis: Floats, length: int, out: Floats
) -> float:
    """Write the matrix times the last basis vector, orthogonalised to the basis, to `out`; return its norm."""
    n = len(out)
    _matvec(first, second, known, left, right, basis[length - 1], out)
    for _ in range(2):  # one pass leaves rounding errors of the size of the removed part
        for b in range(length):
            dot = 0.0
            for i in range(n):
                dot += basis[b, i] * out[i]
            for i in range(n):
                out[i] -= dot * basis[b, i]
    return _norm(out)


@jit
def _tridiagonal_eigen(diagonal: Floats, beside: Floats, vectors: Floats) -> None:
    """Compute the eigenvectors of a symmetric tridiagonal matrix by implicit QL, as columns of `vectors`.

    `vectors` starts as the identity. `diagonal` becomes the eigenvalues, in no order; `beside` is the off-diagonal and
    is overwritten.
    """
    m = len(diagonal)
    for low in range(m):
        for _ in range(80):
            high = low
            while high < m - 1:
                if abs(beside[high]) <= _ROUNDING * (abs(diagonal[high]) + abs(diagonal[high + 1])):
                    break
                high += 1
            if high == low:
                break
            g = (diagonal[low + 1] - diagonal[low]) / (2.0 * beside[low])
            r = np.hypot(g, 1.0)
            g = diagonal[high] - diagonal[low] + beside[low] / (g + (r if g >= 0.0 else -r))
            sine, cosine, lost = 1.0, 1.0, 0.0
            split = False
            for i in range(high - 1, low - 1, -1):
                f = sine * beside[i]
                b = cosine * beside[i]
                r = np.hypot(f, g)
                beside[i + 1] = r
                if r == 0.0:
                    diagonal[i + 1] -= lost
                    beside[high] = 0.0
                    split = True
                    break
                sine = f / r
                cosine = g / r
                g = diagonal[i + 1] - lost
                r = (diagonal[i] - g) * sine + 2.0 * cosine * b
                lost = sine * r
                diagonal[i + 1] = g + lost
                g = cosine * r - b
                for k in range(m):
                    f = vectors[k, i + 1]
                    vectors[k, i + 1] = sine * vectors[k, i] + cosine * f
                    vectors[k, i] = cosine * vectors[k, i] - sine * f
            if not split:
                diagonal[low] -= lost
                beside[low] = g
                beside[high] = 0.0


@jit
def _ritz_pairs(basis: Floats, beta: Floats, length: int, beyond: float, left: Floats, right: Floats) -> bool:
    """Write the largest singular pairs within the basis to (left, right); return whether they have converged.

    The matrix is skew and tridiagonal in the basis, beta[k] coupling vectors k and k + 1, and `beyond` the last one to
    what lies outside. It takes vectors 0, 2, 4, ... to 1, 3, 5, ... by a bidiagonal matrix with beta_0, beta_2, ... on
    the diagonal and -beta_1, -beta_3, ... above it.
    """
    size = (length + 1) // 2
    values, beside, vectors = np.zeros(size), np.zeros(size), np.zeros((size, size))
    for a in range(size):
        vectors[a, a] = 1.0
    for a in range(length // 2):
        values[a] += beta[2 * a] * beta[2 * a]
        if a + 1 < size:
            beside[a] = -beta[2 * a] * beta[2 * a + 1]
            values[a + 1] += beta[2 * a + 1] * beta[2 * a + 1]
    _tridiagonal_eigen(values, beside, vectors)
    largest = 0.0
    invariant = True
    n = left.shape[1]
    for c in range(len(left)):
        for i in range(n):
            left[c, i] = 0.0
            right[c, i] = 0.0
        column = 0
        for a in range(size):
            if values[a] > values[column]:
                column = a
        sigma = np.sqrt(max(values[column], 0.0))
        values[column] = -1.0  # the next pair is another one
        largest = max(largest, sigma)
        if sigma <= _EXHAUSTED * largest:
            continue
        # The sign is free; chosen so that the product with the start vector is positive.
        sign = -1.0 if vectors[0, column] < 0.0 else 1.0
        last = 0.0
        for a in range(size):
            z = sign * vectors[a, column]
            last = z
            for i in range(n):
                right[c, i] += z * basis[2 * a, i]
            if 2 * a + 1 < length:
                y = beta[2 * a] * z
                if a + 1 < size:
                    y -= beta[2 * a + 1] * sign * vectors[a + 1, column]
                last = y / sigma
                for i in range(n):
                    left[c, i] += y * basis[2 * a + 1, i]
        if beyond * abs(last) > _FOUND * sigma:
            invariant = False
    return invariant


@jit
def _top_pairs(
    first: Codes,
    second: Codes,
    known: Floats,
    left: Floats,
    right: Floats,
    start: Floats,
    new_left: Floats,
    new_right: Floats,
) -> None:
    """Write the largest singular pairs of a skew-symmetric matrix (see `_matvec`) in the Krylov space of `start`.

    Pairs whose plane is orthogonal to `start` are not found; among pairs of one singular value, the plane that contains
    the projection of `start` is. So the answer does not depend on the order of items where it is not unique.
    """
    n = len(start)
    width = min(n, _BASIS)
    basis = np.empty((width, n))
    beta = np.zeros(width)
    vector = np.empty(n)
    guess = np.empty(n)
    for i in range(n):
        guess[i] = start[i]
    for _ in range(_RESTARTS):
        norm = _norm(guess)
        for i in range(n):
            basis[0, i] = guess[i] / norm
        largest = 0.0
        length = 1
        while True:
            beyond = _next_vector(first, second, known, left, right, basis, length, vector)
            largest = max(largest, beyond)
            if beyond <= _EXHAUSTED * largest:
                _ritz_pairs(basis, beta, length, 0.0, new_left, new_right)
                return
            full = length == width
            if full or (length % 2 == 0 and length >= 2 * len(left) + 2):
                if _ritz_pairs(basis, beta, length, beyond, new_left, new_right):
                    return
                if full:
                    break
            for i in range(n):
                basis[length, i] = vector[i] / beyond
            beta[length - 1] = beyond
            length += 1
        for i in range(n):
            guess[i] = 0.0
            for c in range(len(left)):
                guess[i] += new_right[c, i]


@jit
def _residuals(
    first: Codes, second: Codes, value: Floats, left: Floats, right: Floats, residuals: Floats
) -> tuple[float, float]:
    """Write X - A on the known pairs to `residuals`; return its squared norm and that of X there, both triangles."""
    total = 0.0
    held = 0.0
    for e in range(len(value)):
        i = first[e]
        j = second[e]
        x = 0.0
        for c in range(len(left)):
            x += left[c, i] * right[c, j] - right[c, i] * left[c, j]
        residuals[e] = x - value[e]
        total += 2.0 * residuals[e] * residuals[e]
        held += 2.0 * x * x
    return total, held


@jit
def _tangent_norms(first: Codes, second: Codes, residuals: Floats, left: Floats, right: Floats) -> tuple[float, float]:
    """Return the squared norm of the residuals projected on the tangent space, W, and that of W on the known pairs.

    The tangent space is that of matrices of this rank. With an orthonormal basis Q of the columns, G the residuals and
    H = Q^T G Q, W = Q Q^T G + G Q Q^T - Q H Q^T.
    """
    number, n = left.shape
    none = np.zeros((0, n))
    width = 2 * number
    frame = np.zeros((width, n))
    image = np.zeros((width, n))
    for c in range(number):
        for half in range(2):
            source = left[c] if half == 0 else right[c]
            norm = _norm(source)
            if norm > 0.0:
                for i in range(n):
                    frame[2 * c + half, i] = source[i] / norm
                _matvec(first, second, residuals, none, none, frame[2 * c + half], image[2 * c + half])
    outer = 0.0
    inner = 0.0
    mixed = np.zeros((width, width))
    for a in range(width):
        for i in range(n):
            outer += image[a, i] * image[a, i]
        for b in range(width):
            for i in range(n):
                mixed[b, a] += frame[b, i] * image[a, i]
            inner += mixed[b, a] * mixed[b, a]
    # H is skew: half of it on either side leaves two terms instead of three.
    for a in range(width):
        for b in range(width):
            for i in range(n):
                image[a, i] -= 0.5 * mixed[b, a] * frame[b, i]
    known = 0.0
    for e in range(len(residuals)):
        w = 0.0
        for a in range(width):
            w += image[a, first[e]] * frame[a, second[e]] - frame[a, first[e]] * image[a, second[e]]
        known += 2.0 * w * w
    return max(2.0 * outer - inner, 0.0), known


@jit
def complete(
    first: Codes, second: Codes, value: Floats, n: int, number: int, step: float, max_iter: int, tol: float
) -> tuple[Floats, Floats, int, float, float, float]:
    """Return the low-rank skew-symmetric matrix nearest to the known pairs, by singular value projection.

    From X = 0, X <- P(X - step * (X - A) on the known pairs), P the best approximation by `number` singular pairs (rank
    twice that), until the residual's norm changes by no more than `tol` of itself, or is no more than `tol` of the norm
    of A. O(pairs + n) for each of some ten vectors per step. Where steps are expensive and approach one minimum (rank
    two, at least as many pairs as free parameters, `_STEPPED_PAIRS` visited), Newton's method takes their place.

    Parameters
    ----------
    first, second : int32[E]
        The known pairs, each once.
    value : float64[E]
        A at (first, second), and its negative at (second, first).
    step : float
        Up to 1 the residual never grows. 0 takes the step size that is optimal for fixed singular vectors, at least 1;
        it falls back to 1 where the residual would grow.

    Returns
    -------
    left, right : float64[number, n]
        X = sum_c left_c right_c^T - right_c left_c^T.
    n_iter : int
        The number of steps, those of Newton's method included.
    change : float
        The relative change of the norm of the residual in the last step; 0 where A is met up to `tol`.
    residual : float
        The norm of X - A on the known pairs, both triangles.
    gradient : float
        The norm of the projection of X - A on the tangent space of matrices of this rank, over the norm of A.
    """
    left, right = np.zeros((number, n)), np.zeros((number, n))
    new_left, new_right = np.zeros((number, n)), np.zeros((number, n))
    residuals, new_residuals, known = np.empty(len(value)), np.empty(len(value)), np.empty(len(value))
    for e in range(len(value)):
        residuals[e] = -value[e]
    start = np.empty(n)
    size = np.sqrt(2.0) * _norm(value)
    residual = size
    change = 0.0
    n_iter = 0
    met = max(tol, _EXHAUSTED) * size
    along, inside = 0.0, 0.0
    to_minimum = number == 1 and len(value) >= 2 * n - 3
    while n_iter < max_iter and residual > met:
        if to_minimum and n_iter * len(value) >= _STEPPED_PAIRS:
            more, change = refine(first, second, value, left[0], right[0], max_iter - n_iter, tol)
            n_iter += more
            total, _ = _residuals(first, second, value, left, right, residuals)
            residual = np.sqrt(total)
            break
        # Start near the old vectors; the ones keep every direction that affects the scores in the Krylov space.
        for i in range(n):
            start[i] = _AFRESH if n_iter else 1.0
            for c in range(number):
                start[i] += right[c, i] * np.sqrt(n)
        length = step if step > 0.0 else 1.0
        if step == 0.0 and inside > 0.0:
            length = max(along / inside, 1.0)
        while True:
            for e in range(len(residuals)):
                known[e] = -length * residuals[e]
            _top_pairs(first, second, known, left, right, start, new_left, new_right)
            if step == 0.0 and n_iter == 0:
                # The first matrix has the right columns but is too small, because unknown entries count as 0.
                _, held = _residuals(first, second, value, new_left, new_right, new_residuals)
                whole = 0.0
                for c in range(number):
                    whole += 2.0 * _norm(new_left[c]) ** 2
                for c in range(number):
                    for i in range(n):
                        new_left[c, i] *= whole / held if held > 0.0 else 1.0
            total, _ = _residuals(first, second, value, new_left, new_right, new_residuals)
            if step > 0.0 or length == 1.0 or np.sqrt(total) <= residual:
                break
            length = 1.0
        left, new_left = new_left, left
        right, new_right = new_right, right
        residuals, new_residuals = new_residuals, residuals
        n_iter += 1
        change = abs(residual - np.sqrt(total)) / residual
        residual = np.sqrt(total)
        if step == 0.0:
            along, inside = _tangent_norms(first, second, residuals, left, right)
        if change <= tol:
            break
    if residual <= met:
        change = 0.0
    along, _ = _tangent_norms(first, second, residuals, left, right)
    return left, right, n_iter, change, residual, np.sqrt(along) / size if size > 0.0 else 0.0
