"""Exact expectations over all orders of a few items: an order is a path through the subsets of the items.

An order has probability proportional to exp(scale · sum over positions of c_pos f_item), c_pos = 1 / ln(pos + 1). The
weight of putting item j next depends on how many items stand before it, and what it adds to a metric on which they are:
both are known from the *set* before it. So the sums over all n! orders are sums over the n 2^(n − 1) edges between
subsets, once forwards and once backwards, each carrying a pair (sum of weights, sum of weight · gain).

Two things keep it quick and safe. The gain of an edge is g_j h(S) for all metrics here but Kendall's, whose h depends
on j through its label only. And adding u_pos + v_j to the exponents multiplies all orders by the same number, so that
u and v are chosen (the dual of the assignment problem, which is solved by sorting) to make the best order weigh 1 and
no edge more than 1: nothing overflows, whatever the potentials, and what underflows does not matter.
"""

from __future__ import annotations

import math

from concordant.kernels.jit import jit
from concordant.kernels.lists import Floats, Ints

__all__ = ["AP", "ERR", "KENDALL", "LARGEST", "METRICS", "NDCG", "PRECISION", "batch_expected", "expected", "work_size"]

NDCG, ERR, AP, PRECISION, KENDALL = 0, 1, 2, 3, 4
# RR is ERR with gains 0 and 1.
METRICS = {"ndcg": NDCG, "err": ERR, "rr": ERR, "ap": AP, "p": PRECISION, "kendall": KENDALL}
# The most items one can sum over.
LARGEST = 16


def work_size(n: int) -> int:
    """Return how many float64 `expected` needs to work in for up to n items.

    >>> work_size(2)
    104
    """
    return (1 << n) * (5 + n) + 4 * n * n + 30 * n


@jit
def expected(
    f: Floats, scale: float, metric: int, gain: Floats, label: Floats, cutoff: int, grad: Floats, work: Floats
) -> float:
    """Return E[G], the expected metric of a random order of the n items, and fill `grad` with its slope in f.

    O(2^n n) time, n <= 16. Adding a constant to f changes nothing; the slopes add up to 0. Where nothing can be gained
    (no positive ideal gain, no relevant item, one label only for Kendall) E[G] and the slope are 0.

    Parameters
    ----------
    f : float64[n]
        Potentials, larger is better. If they are not finite, neither is what is returned, and `grad` is 0.
    scale : float
        What multiplies f in the exponent: 1, or 1 / n² as in the paper.
    metric : {NDCG, ERR, AP, PRECISION, KENDALL}
        NDCG: sum of gain / log2(pos + 1) over its largest value. ERR: `gain` is the chance that an item satisfies; 0 or
        1 gives RR. AP, PRECISION: `gain` is 1 for relevant items, else 0. KENDALL: the share of the pairs with
        different labels that are ordered rightly.
    gain, label : float64[n]
        `label` is looked at by Kendall only, which ignores `gain`.
    cutoff : int
        Positions beyond count nothing; 0 for no cutoff. Precision divides by it even if it is larger than n; Kendall
        ignores it.
    grad : float64[n]
        Overwritten.
    work : float64[work_size(n) or more]
        Overwritten.
    """
    n = len(f)
    size = 1 << n
    top = n if cutoff <= 0 or metric == KENDALL else min(n, cutoff)
    at = 0
    F = work[at : at + size]
    at += size
    FG = work[at : at + size]
    at += size
    B = work[at : at + size]
    at += size
    BG = work[at : at + size]
    at += size
    h = work[at : at + (n + 1) * size].reshape((n + 1, size))
    at += (n + 1) * size
    psi = work[at : at + n * n].reshape((n, n))
    at += n * n
    fs = work[at : at + n]
    at += n
    g = work[at : at + n]
    at += n
    ls = work[at : at + n]
    at += n
    slope = work[at : at + n]
    at += n
    dual = work[at : at + n]

    for i in range(n):
        grad[i] = 0.0
        if not math.isfinite(f[i] * scale):
            return math.nan
    # Items by falling potential.
    for i in range(n):
        r = _rank(f, i)
        fs[r] = f[i] * scale
        g[r] = gain[i]
        ls[r] = label[i]
        slope[r] = 0.0
    spread = fs[0] - fs[n - 1]
    if not math.isfinite(spread):
        return math.nan
    dual[0] = 0.0
    for r in range(1, n):
        dual[r] = dual[r - 1] + (fs[r] - fs[r - 1]) * 0.5 * (1.0 / math.log(r + 1.0) + 1.0 / math.log(r + 2.0))
    for p in range(n):
        c = 1.0 / math.log(p + 2.0)
        for j in range(n):
            psi[p, j] = math.exp(c * (fs[j] - fs[p]) - (dual[j] - dual[p]))

    levels = _prepare(metric, top, cutoff, g, ls, h)
    if levels == 0:
        return 0.0
    # From here on ls[j] is the row of h that belongs to item j.
    F[0] = 1.0
    FG[0] = 0.0
    for s in range(1, size):
        F[s] = 0.0
        FG[s] = 0.0
    for s in range(size - 1):
        p = 0
        rest = s
        while rest:
            rest &= rest - 1
            p += 1
        a = F[s]
        b = FG[s]
        for j in range(n):
            if not (s >> j) & 1:
                t = s | (1 << j)
                w = psi[p, j]
                F[t] += w * a
                FG[t] += w * (b + g[j] * h[int(ls[j]), s] * a)
    z = F[size - 1]
    mean = FG[size - 1] / z
    B[size - 1] = 1.0
    BG[size - 1] = 0.0
    for s in range(size - 2, -1, -1):
        p = 0
        rest = s
        while rest:
            rest &= rest - 1
            p += 1
        c = 1.0 / math.log(p + 2.0)
        a = F[s] * c
        b = (FG[s] - mean * F[s]) * c
        x = 0.0
        y = 0.0
        for j in range(n):
            if not (s >> j) & 1:
                t = s | (1 << j)
                w = psi[p, j]
                wb = w * B[t]
                wg = w * (BG[t] + g[j] * h[int(ls[j]), s] * B[t])
                x += wb
                y += wg
                slope[j] += b * wb + a * wg
        B[s] = x
        BG[s] = y
    for i in range(n):
        grad[i] = slope[_rank(f, i)] * scale / z
    return mean


@jit
def _rank(f: Floats, i: int) -> int:
    """Return how many potentials stand before the i-th, equal ones in the order given."""
    r = 0
    for k in range(len(f)):
        if f[k] > f[i] or (f[k] == f[i] and k < i):
            r += 1
    return r


@jit
def _prepare(metric: int, top: int, cutoff: int, g: Floats, ls: Floats, h: Floats) -> int:
    """Write gains so that g[j] h[ls[j], S] is what item j adds after the set S; return the number of rows, or 0."""
    n = len(g)
    size = 1 << n
    if metric == KENDALL:
        pairs = 0
        for j in range(n):
            for k in range(n):
                pairs += ls[k] > ls[j]
        if pairs == 0:
            return 0
        rows = 0
        for j in range(n):
            same = -1
            for k in range(j):
                if g[k] >= 0.0 and ls[int(g[k])] == ls[j]:
                    same = k
            g[j] = j if same < 0 else g[same]
        for j in range(n):
            if int(g[j]) == j:
                above = 0
                for k in range(n):
                    if ls[k] > ls[j]:
                        above |= 1 << k
                h[rows, 0] = 0.0
                for s in range(1, size):
                    low = s & -s
                    h[rows, s] = h[rows, s ^ low] + (1.0 if above & low else 0.0)
                g[j] = -1.0 - rows
                rows += 1
            else:
                g[j] = g[int(g[j])]
        for j in range(n):
            ls[j] = -1.0 - g[j]
            g[j] = 1.0 / pairs
        return rows
    total = 0.0
    if metric == NDCG:
        # The largest gains first, by counting who stands before whom.
        for j in range(n):
            r = _rank(g, j)
            if r < top:
                total += g[j] / math.log2(r + 2.0)
    elif metric == PRECISION:
        total = float(cutoff if cutoff > 0 else n)
    elif metric == AP:
        for j in range(n):
            total += g[j]
    else:
        total = 1.0
    any_gain = False
    for j in range(n):
        any_gain |= g[j] > 0.0
        ls[j] = 0.0
    if total <= 0.0 or not any_gain:
        return 0
    for s in range(size):
        p = 0
        rest = s
        value = 1.0
        while rest:
            low = rest & -rest
            j = 0
            while low >> (j + 1):
                j += 1
            if metric == ERR:
                value *= 1.0 - g[j]
            elif metric == AP:
                value += g[j]
            rest ^= low
            p += 1
        if p >= top:
            value = 0.0
        elif metric == NDCG:
            value /= math.log2(p + 2.0)
        elif metric != PRECISION:
            value /= p + 1.0
        h[0, s] = value
    for j in range(n):
        g[j] /= total
    return 1


@jit
def batch_expected(
    starts: Ints,
    f: Floats,
    paper: bool,
    metric: int,
    gain: Floats,
    label: Floats,
    cutoff: int,
    first: int,
    last: int,
    values: Floats,
    grad: Floats,
    work: Floats,
) -> None:
    """Fill `values` with E[G] of the samples first..last − 1 and `grad` with their slopes in f.

    Sample s holds the items starts[s]..starts[s + 1] − 1 of `f`, `gain`, `label` and `grad`. With `paper` the scale of
    a sample of n items is 1 / n², else 1. Samples are independent: threads may share the arrays, not `work`.
    """
    for s in range(first, last):
        a, b = starts[s], starts[s + 1]
        scale = 1.0 / float((b - a) * (b - a)) if paper and b > a else 1.0
        values[s] = expected(f[a:b], scale, metric, gain[a:b], label[a:b], cutoff, grad[a:b], work)
