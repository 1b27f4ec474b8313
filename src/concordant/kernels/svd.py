"""Singular vectors of pairwise matrices that are never formed: one product with the matrix is one walk along a list.

Y(i, j) says how strongly a list prefers item i to item j behind it. With the list sorted, (Y v)_i differs from
(Y v)_{i+1} only by the gap between the two times the sum of v behind them, so that a product costs O(m) and adds
nothing but numbers of one sign where v has one. Tied rows have gap 0 and stay equal to the last bit.

A list of `binary` preferences has gap 1 where a new rank begins and Y = 1 for every item behind; without ties its
singular vectors are sines, and nothing needs to be iterated at all.
"""

from __future__ import annotations

import math

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.kernels.jit import jit
from concordant.kernels.svd_tables import PairwiseProblems

__all__ = ["leading_triples", "pooled_triples", "untied_binary"]

# Alternating products contract the error to about a tenth each time for a single list; sums of lists may be slower.
_TOLERANCE = 1e-12
_MOST_STEPS = 1000
# Columns iterated beyond those wanted: convergence then depends on a singular value further down.
_SPARE = 4


@jit
def untied_binary(m: int, column: int, u: Floats, v: Floats) -> float:
    """Write the singular vectors number `column` (from 0) of m untied binary preferences, best item first.

    Returns the singular value. The entry of u with the largest magnitude (the first of them) is positive.
    """
    if column >= m - 1:
        for i in range(m):
            u[i] = 0.0
            v[i] = 0.0
        return 0.0
    k = 2 * column + 1
    angle = k * math.pi / (2 * m - 1)
    norm = 2.0 / math.sqrt(2 * m - 1.0)
    sign = 1.0 if column % 2 == 0 else -1.0
    for i in range(m):
        u[i] = norm * math.sin((m - 1 - i) * angle)
        v[i] = sign * norm * math.sin(i * angle)
    _fix_sign(u, v)
    return 0.5 / math.sin(0.5 * angle)


@jit
def _fix_sign(u: Floats, v: Floats) -> None:
    """Flip both vectors where the entry of u of the largest magnitude is negative; of equals the first decides."""
    most = 0.0
    at = 0
    for i in range(len(u)):
        # Rounded, so that equal magnitudes computed in different ways are equal.
        if abs(u[i]) > most + _TOLERANCE:
            most = abs(u[i])
            at = i
    if len(u) and u[at] < 0.0:
        for i in range(len(u)):
            u[i] = -u[i]
        for i in range(len(v)):
            v[i] = -v[i]


@jit
def leading_triples(
    gap: Floats, offsets: Ints, below: Floats, binary: bool, u: Floats, v: Floats, sigma: Floats, outside: Floats
) -> None:
    """Write the leading singular triple of every list, u and v not negative, in O(m) per product.

    Parameters
    ----------
    gap : float64[R]
        How much worse the next row of the list is, 0 where it is tied; rows of a list are sorted, best first.
    offsets : int64[L + 1]
        Where the lists begin.
    below : float64[L]
        How many items beside the list all lose to its items, by 1.
    binary : bool
        Whether an item behind loses 1 however far behind.
    u, v : float64[R]
        What is written for the rows.
    sigma, outside : float64[L]
        What is written for the lists: the singular value, and the entry of v of each item beside the list.
    """
    for which in range(len(offsets) - 1):
        first, last = offsets[which], offsets[which + 1]
        if first == last:
            sigma[which] = 0.0
            outside[which] = 0.0
            continue
        if binary and below[which] == 0.0:
            untied = True
            for r in range(first, last - 1):
                if gap[r] == 0.0:
                    untied = False
                    break
            if untied:
                sigma[which] = untied_binary(last - first, 0, u[first:last], v[first:last])
                outside[which] = 0.0
                continue
        sigma[which], outside[which] = _leading(
            gap[first:last], math.sqrt(below[which]), binary, u[first:last], v[first:last]
        )


@jit
def _leading(gap: Floats, root: float, binary: bool, u: Floats, v: Floats) -> tuple[float, float]:
    """Write the leading singular vectors of one list and return the singular value and v of an item beside it.

    `root` is the square root of the number of items beside the list: they are one column of that length.
    """
    m = len(gap)
    for i in range(m):
        v[i] = 1.0
    beside = root
    sigma = 0.0
    for step in range(_MOST_STEPS):
        behind = 0.0
        lost = 0.0
        square = 0.0
        extra = root * beside
        for i in range(m - 1, -1, -1):
            if not binary:
                lost += gap[i] * behind
            elif gap[i] > 0.0:
                lost = behind
            behind += v[i]
            u[i] = lost + extra
            square += u[i] * u[i]
        if square == 0.0:
            # Nothing is preferred to anything.
            for i in range(m):
                v[i] = 0.0
            return 0.0, 0.0
        scale = 1.0 / math.sqrt(square)
        ahead = 0.0
        won = 0.0
        square = 0.0
        change = 0.0
        norm = 1.0 if sigma == 0.0 else 1.0 / sigma
        for i in range(m):
            # The gap in front of the first row separates it from nothing.
            if i > 0:
                if not binary:
                    won += gap[i - 1] * ahead
                elif gap[i - 1] > 0.0:
                    won = ahead
            u[i] *= scale
            ahead += u[i]
            change = max(change, abs(won * norm - v[i]))
            v[i] = won
            square += won * won
        beside = root * ahead
        square += beside * beside
        sigma = math.sqrt(square)
        norm = 1.0 / sigma
        for i in range(m):
            v[i] *= norm
        beside *= norm
        if step > 0 and change <= _TOLERANCE:
            break
    return sigma, beside / root if root > 0.0 else 0.0


@jit
def _times(pool: PairwiseProblems, q: int, root: float, binary: bool, x: Floats, out: Floats) -> None:
    """Write Y x for problem q.

    The last entry of x stands for all the items that no list holds, root² of them, as one column.
    """
    n = len(x) - 1
    total = 0.0
    for i in range(n):
        out[i] = 0.0
        total += x[i]
    out[n] = 0.0
    total += root * x[n]
    for which in range(pool.list_starts[q], pool.list_starts[q + 1]):
        behind = 0.0
        lost = 0.0
        first, last = pool.offsets[which], pool.offsets[which + 1]
        for r in range(last - 1, first - 1, -1):
            if not binary:
                lost += pool.gap[r] * behind
            elif pool.gap[r] > 0.0:
                lost = behind
            behind += x[pool.at[r]]
            out[pool.at[r]] += pool.weight[which] * lost
        if pool.below[which] != 0.0:
            extra = pool.weight[which] * (total - behind)
            for r in range(first, last):
                out[pool.at[r]] += extra
    for e in range(pool.pair_starts[q], pool.pair_starts[q + 1]):
        out[pool.left[e]] += pool.wins[e] * x[pool.right[e]]


@jit
def _times_transposed(pool: PairwiseProblems, q: int, root: float, binary: bool, x: Floats, out: Floats) -> None:
    """Write Yᵀ x for problem q; see `_times`."""
    n = len(x) - 1
    for i in range(n + 1):
        out[i] = 0.0
    everywhere = 0.0
    for which in range(pool.list_starts[q], pool.list_starts[q + 1]):
        ahead = 0.0
        won = 0.0
        first, last = pool.offsets[which], pool.offsets[which + 1]
        for r in range(first, last):
            # The gap in front of the first row separates it from nothing.
            if r > first:
                if not binary:
                    won += pool.gap[r - 1] * ahead
                elif pool.gap[r - 1] > 0.0:
                    won = ahead
            out[pool.at[r]] += pool.weight[which] * won
            ahead += x[pool.at[r]]
        if pool.below[which] != 0.0:
            extra = pool.weight[which] * ahead
            everywhere += extra
            for r in range(first, last):
                out[pool.at[r]] -= extra
    for e in range(pool.pair_starts[q], pool.pair_starts[q + 1]):
        out[pool.right[e]] += pool.wins[e] * x[pool.left[e]]
    if everywhere != 0.0:
        for i in range(n):
            out[i] += everywhere
        out[n] = root * everywhere


@jit
def _rotate_apart(W: Floats, V: Floats) -> None:
    """Rotate rows of W until each two are orthogonal, and the rows of V with them (one-sided Jacobi)."""
    b, n = W.shape
    for _ in range(60):
        turned = False
        for p in range(b - 1):
            for q in range(p + 1, b):
                a = 0.0
                c = 0.0
                g = 0.0
                for i in range(n):
                    a += W[p, i] * W[p, i]
                    c += W[q, i] * W[q, i]
                    g += W[p, i] * W[q, i]
                # The second bound is for rows of which nothing is left but rounding.
                if abs(g) <= 1e-15 * math.sqrt(a * c) or abs(g) <= 1e-30 * max(a, c):
                    continue
                turned = True
                zeta = (c - a) / (2.0 * g)
                t = 1.0 / (abs(zeta) + math.sqrt(1.0 + zeta * zeta))
                if zeta < 0.0:
                    t = -t
                cos = 1.0 / math.sqrt(1.0 + t * t)
                sin = cos * t
                for i in range(n):
                    x = W[p, i]
                    W[p, i] = cos * x - sin * W[q, i]
                    W[q, i] = sin * x + cos * W[q, i]
                    y = V[p, i]
                    V[p, i] = cos * y - sin * V[q, i]
                    V[q, i] = sin * y + cos * V[q, i]
        if not turned:
            return


@jit
def _orthonormal(V: Floats) -> None:
    """Make the rows of V orthonormal, one after another; a row that the others hold already becomes 0."""
    b, n = V.shape
    for c in range(b):
        before = 0.0
        for i in range(n):
            before += V[c, i] * V[c, i]
        # Taking away the others twice leaves nothing of them but rounding.
        for _ in range(2):
            for k in range(c):
                g = 0.0
                for i in range(n):
                    g += V[k, i] * V[c, i]
                for i in range(n):
                    V[c, i] -= g * V[k, i]
        square = 0.0
        for i in range(n):
            square += V[c, i] * V[c, i]
        scale = 1.0 / math.sqrt(square) if square > 1e-24 * before else 0.0
        for i in range(n):
            V[c, i] *= scale


@jit
def _is_untied(pool: PairwiseProblems, q: int) -> bool:
    """Return whether a problem is one list of all its items, without ties and without items beside it."""
    which = pool.list_starts[q]
    if pool.list_starts[q + 1] != which + 1 or pool.below[which] != 0.0:
        return False
    first, last = pool.offsets[which], pool.offsets[which + 1]
    untied = bool(last - first == pool.item_starts[q + 1] - pool.item_starts[q])
    for r in range(first, last):
        if pool.at[r] != r - first or (r + 1 < last and pool.gap[r] == 0.0):
            untied = False
    return untied


@jit
def pooled_triples(pool: PairwiseProblems, binary: bool, U: Floats, V: Floats, sigma: Floats, outside: Floats) -> None:
    """Write the p leading singular triples of sums of pairwise matrices, one problem after another.

    For p = 1 this is the alternating iteration from the vector of ones, which keeps u and v not negative; for p > 1 a
    block of p + 4 vectors is iterated and turned into singular vectors by Jacobi rotations. The entry of u with the
    largest magnitude (the first of them) is positive.

    Parameters
    ----------
    pool : PairwiseProblems
        The problems.
    binary : bool
        Whether an item behind loses 1 however far behind.
    U, V : float64[I, p]
        What is written for the items.
    sigma, outside : float64[Q, p]
        What is written for the problems: singular values, and the entries of V for an item that no list holds.
    """
    p = U.shape[1]
    for q in range(len(pool.item_starts) - 1):
        first, last = pool.item_starts[q], pool.item_starts[q + 1]
        n = last - first
        if binary and _is_untied(pool, q):
            u, v = np.empty(n), np.empty(n)
            for c in range(p):
                sigma[q, c] = pool.weight[pool.list_starts[q]] * untied_binary(n, c, u, v)
                outside[q, c] = 0.0
                for i in range(n):
                    U[first + i, c] = u[i]
                    V[first + i, c] = v[i]
            continue
        b = 1 if p == 1 else min(p + _SPARE, n + 1)
        root = math.sqrt(pool.others[q])
        # Rows are vectors; the last column stands for the items that no list holds.
        W, X = np.empty((b, n + 1)), np.empty((b, n + 1))
        value = np.zeros(b)
        for c in range(b):
            for i in range(n):
                X[c, i] = math.cos(math.pi * c * pool.phase[first + i])
            X[c, n] = root if c % 2 == 0 else -root
        _orthonormal(X)
        _iterate(pool, q, root, binary, p, W, X, value)
        for c in range(p):
            found = c < b and value[c] > 0.0
            if found and p > 1:
                _fix_sign(W[c], X[c])
            for i in range(n):
                U[first + i, c] = W[c, i] if found else 0.0
                V[first + i, c] = X[c, i] if found else 0.0
                if p == 1:
                    # What is 0 in truth must not come out on the wrong side of it.
                    U[first + i, c] = max(U[first + i, c], 0.0)
                    V[first + i, c] = max(V[first + i, c], 0.0)
            sigma[q, c] = value[c] if found else 0.0
            outside[q, c] = X[c, n] / root if found and root > 0.0 else 0.0


@jit
def _iterate(
    pool: PairwiseProblems, q: int, root: float, binary: bool, p: int, W: Floats, X: Floats, value: Floats
) -> None:
    """Turn the orthonormal rows of X into right singular vectors, and write left ones and singular values."""
    b, n = X.shape
    Z = np.empty((b, n))
    for _ in range(_MOST_STEPS):
        for c in range(b):
            _times(pool, q, root, binary, X[c], W[c])
        if b > 1:
            _rotate_apart(W, X)
        for c in range(b):
            square = 0.0
            for i in range(n):
                square += W[c, i] * W[c, i]
            value[c] = math.sqrt(square)
        # The largest first; there are few of them.
        for c in range(b):
            best = c
            for k in range(c + 1, b):
                if value[k] > value[best]:
                    best = k
            if best != c:
                value[c], value[best] = value[best], value[c]
                for i in range(n):
                    W[c, i], W[best, i] = W[best, i], W[c, i]
                    X[c, i], X[best, i] = X[best, i], X[c, i]
        worst = 0.0
        for c in range(b):
            if value[c] <= _TOLERANCE * value[0]:
                value[c] = 0.0
                for i in range(n):
                    W[c, i] = 0.0
                    Z[c, i] = 0.0
                continue
            for i in range(n):
                W[c, i] /= value[c]
            _times_transposed(pool, q, root, binary, W[c], Z[c])
            if c < p:
                square = 0.0
                for i in range(n):
                    square += (Z[c, i] - value[c] * X[c, i]) ** 2
                worst = max(worst, math.sqrt(square))
        if worst <= _TOLERANCE * value[0]:
            return
        for c in range(b):
            for i in range(n):
                X[c, i] = Z[c, i]
        _orthonormal(X)
