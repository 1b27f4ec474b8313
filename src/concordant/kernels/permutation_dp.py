"""Exact expectations over all orders of a few items: an order is a path through the sets of items placed so far.

An order has probability proportional to exp(scale · sum over positions of c_pos f_item), c_pos = 1 / ln(pos + 1). What
it multiplies by when item j comes next depends on the number of items before it, and what it gains on which they are:
both are known from the *set* before j. Sums over the n! orders are then sums over the n 2^(n − 1) steps between sets.
Four numbers belong to a set S: the weight of the ways to it and of the ways from it on, alone and times their gains.
Three observations make it quick and safe.

- The gains of NDCG, precision, ERR, RR and AP are sums of a number r(S) of the sets passed, not only of steps, because
  what a step adds is a difference between two sets: NDCG is a sum of (d_p − d_(p+1)) g(S_p), with g(S) the sum of the
  gains in S; ERR adds (Q(S) − Q(S + j)) / p, with Q(S) the chance that nothing in S satisfies; AP adds
  (t(S + j) − t(S)) / p, with t = R (R + 1) / 2 for R relevant items. Steps then cost two multiplications in each
  direction. Kendall's coefficient needs its steps (for three labels no such r exists).
- An item stands at position p or before it if it is in S_p, so that c_pos is a sum of c_p − c_(p+1) over the sets that
  hold the item: the gradient needs one number for each set, and then one sum for each item.
- Adding u_pos + v_j to the exponents multiplies all orders by the same number. The u and v that solve the dual of the
  assignment problem (which is solved by sorting) make the best order weigh 1 and no step more than 1: nothing
  overflows, whatever the potentials, and what underflows is nothing beside the best order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from concordant.arrays import Floats
from concordant.kernels.jit import jit, jit_fused

__all__ = [
    "AP",
    "ERR",
    "KENDALL",
    "LARGEST",
    "METRICS",
    "NDCG",
    "PRECISION",
    "Workspace",
    "expected",
    "workspace_for",
]

NDCG, ERR, AP, PRECISION, KENDALL = 0, 1, 2, 3, 4
# RR is ERR with chances 0 and 1.
METRICS = {"ndcg": NDCG, "err": ERR, "rr": ERR, "ap": AP, "p": PRECISION, "kendall": KENDALL}
# The most items one can sum over.
LARGEST = 16

# By the number of items before: 1 / ln(pos + 1) and 1 / log2(pos + 1).
_C = 1.0 / np.log(np.arange(LARGEST + 2) + 2.0)
_D = 1.0 / np.log2(np.arange(LARGEST + 2) + 2.0)
# By the number of items in a set: c_p − c_(p+1).
_DROP = np.concatenate([[0.0], _C[:-1] - _C[1:]])

# Where things lie in the small room: rows of 32, the table of weights by item and position, and the same from the end.
_POTENTIAL, _DUAL, _TIMES, _PLUS, _BY_SIZE, _RANK, _TABLE, _MIRROR, _SMALL = 0, 32, 64, 96, 128, 160, 192, 704, 1216
# Indices are masked by this where the compiler cannot see that they are not negative.
_MASK = (1 << LARGEST) - 1


class Workspace(NamedTuple):
    """Arrays to work in, for one thread: four numbers for each set, one gain for each set, and tables."""

    sets: Floats
    gains: Floats
    small: Floats


def workspace_for(n: int) -> Workspace:
    """Return the room that `expected` needs for up to n items: 40 · 2^n bytes and some.

    >>> [len(a) for a in workspace_for(3)]
    [32, 8, 1216]
    """
    size = 1 << max(n, 1)
    return Workspace(np.empty(4 * size), np.empty(size), np.empty(_SMALL))


@jit
def expected(
    n: int,
    f: Floats,
    scale: float,
    metric: int,
    gain: Floats,
    label: Floats,
    cutoff: int,
    grad: Floats,
    sets: Floats,
    gains: Floats,
    small: Floats,
) -> float:
    """Return E[G], the expected metric of a random order of n items, and fill `grad` with its gradient in f.

    Adding a constant to f changes nothing; the gradients add up to 0. Where nothing can be gained (no positive gain,
    one label only for Kendall) E[G] and the gradient are 0. O(2^n n) time: two multiplications for a step between sets
    and direction.

    Parameters
    ----------
    n : int
        How many items, at most 16; of f, gain, label and grad the first n entries count.
    f : float64
        Potentials, larger is better. If they are not finite, NaN is returned and `grad` is 0.
    scale : float
        What multiplies f in the exponent: 1, or 1 / n² as in the paper.
    metric : {NDCG, ERR, AP, PRECISION, KENDALL}
        NDCG: sum of gain / log2(pos + 1) over its largest value. ERR: `gain` is the chance that an item satisfies; 0 or
        1 gives RR. AP, PRECISION: `gain` is 1 for relevant items, else 0. KENDALL: the share of the pairs with
        different labels that are ordered rightly; ties in the labels do not count.
    gain, label : float64
        `label` is looked at by Kendall only, which ignores `gain`.
    cutoff : int
        Positions beyond count nothing; 0 for no cutoff. Precision divides by it even if it is larger than n; Kendall
        ignores it.
    grad : float64
        Overwritten.
    sets, gains, small
        A `Workspace`; overwritten.
    """
    if n == 0:
        return 0.0
    finite = True
    for i in range(n):
        grad[i] = 0.0
        finite &= math.isfinite(f[i])
    # Items by falling potential, so that the answer does not depend on the order they are given in.
    for i in range(n):
        x = f[i]
        r = 0
        for k in range(n):
            r += (f[k] > x) | ((f[k] == x) & (k < i))
        small[_RANK + i] = r
        small[_POTENTIAL + r] = x * scale
    if not finite or not math.isfinite(small[_POTENTIAL] - small[_POTENTIAL + n - 1]):
        return math.nan
    if metric == KENDALL:
        pairs = 0
        for i in range(n):
            for k in range(n):
                pairs += label[k] > label[i]
        if pairs == 0:
            return 0.0
        _weigh(n, small)
        _by_steps(n, label, 1.0 / pairs, sets, gains, small)
    else:
        if not _gains(n, metric, gain, cutoff, gains, small):
            return 0.0
        if n == 1:
            return float(gains[0] + gains[1])
        _weigh(n, small)
        _by_sets(n, sets, gains, small)
    last = 4 << n
    z = sets[last - 13]
    mean = float(sets[last - 9] / z)
    _gradients(n, mean, sets, gains, small)
    for i in range(n):
        grad[i] = small[int(small[_RANK + i])] * (scale / z)
    return mean


@jit
def _bits(x: int) -> int:
    """Return how many bits are set; compilers know this loop as one instruction."""
    n = 0
    while x:
        x &= x - 1
        n += 1
    return n


@jit
def _weigh(n: int, small: Floats) -> None:
    """Write what an order multiplies by when item j stands after p others, at j · 32 + p of the table."""
    small[_DUAL] = 0.0
    for r in range(1, n):
        drop = small[_POTENTIAL + r] - small[_POTENTIAL + r - 1]
        small[_DUAL + r] = small[_DUAL + r - 1] + drop * 0.5 * (_C[r - 1] + _C[r])
    for j in range(n):
        fj = small[_POTENTIAL + j]
        vj = small[_DUAL + j]
        for p in range(n):
            w = math.exp(_C[p] * (fj - small[_POTENTIAL + p]) - (vj - small[_DUAL + p]))
            small[_TABLE + 32 * j + p] = w
            small[_MIRROR + 32 * j + n - 1 - p] = w


@jit
def _gains(n: int, metric: int, gain: Floats, cutoff: int, gains: Floats, small: Floats) -> bool:
    """Write r(S) for every set: the metric of an order is the sum over the sets it passes. False if there is no gain.

    r(S) is a number for the size of S times v(S), where v(S + j) = v(S) times_j + plus_j (for AP, v (v + 1)).
    """
    top = n if cutoff <= 0 else min(n, cutoff)
    most = 0.0
    for i in range(n):
        most = max(most, gain[i])
    if most <= 0.0:
        return False
    total = 0.0
    for i in range(n):
        j = int(small[_RANK + i])
        if metric == ERR:
            small[_TIMES + j] = 1.0 - gain[i]
            small[_PLUS + j] = 0.0
        else:
            # Over the largest, so that gains may be as large as they like.
            small[_TIMES + j] = 1.0
            small[_PLUS + j] = gain[i] / most
        if metric == NDCG:
            r = 0
            for k in range(n):
                r += (gain[k] > gain[i]) | ((gain[k] == gain[i]) & (k < i))
            if r < top:
                total += gain[i] / most * _D[r]
        elif metric == AP:
            total += 2.0 * gain[i]
    if metric == PRECISION:
        total = float(cutoff if cutoff > 0 else n) / most
    elif metric == ERR:
        total = 1.0
    if total <= 0.0:
        return False
    for p in range(n + 1):
        # What positions p and p + 1 weigh; r(S_p) takes the difference.
        here = 0.0
        there = 0.0
        if metric == NDCG:
            here = _D[p - 1] if 0 < p <= top else 0.0
            there = _D[p] if p < top else 0.0
        elif metric == PRECISION:
            here = 1.0 if p == top else 0.0
        else:
            here = 1.0 / p if 0 < p <= top else 0.0
            there = 1.0 / (p + 1.0) if p < top else 0.0
        small[_BY_SIZE + p] = (there - here if metric == ERR else here - there) / total
    gains[0] = 1.0 if metric == ERR else 0.0
    size = 1
    for j in range(n):
        times = small[_TIMES + j]
        plus = small[_PLUS + j]
        for s in range(size):
            gains[size + s] = gains[s] * times + plus
        size *= 2
    if metric == AP:
        for s in range(size):
            gains[s] *= gains[s] + 1.0
    for s in range(size):
        gains[s] *= small[_BY_SIZE + (_bits(s) & 31)]
    return True


@jit_fused
def _by_sets(n: int, sets: Floats, gains: Floats, small: Floats) -> None:
    """Fill `sets` where the metric is a sum of r(S) over the sets passed.

    Sets come in fours, which differ in items 0 and 1, and four sets have sixteen numbers: of the ways to the sets the
    weights (a) and the weights times gains (b), and of the ways onwards *from their complements* the same (x, y). Ways
    to S come from S less an item, and ways onwards from the complement of S go by that of S less an item, so that one
    loop does both.
    """
    fours = 1 << (n - 2)
    full = 4 * fours - 1
    for t in range(fours):
        p = _bits(t) & 15
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
        x0 = x1 = x2 = x3 = y0 = y1 = y2 = y3 = 0.0
        if t == 0:
            a0 = 1.0
            x0 = 1.0
        rest = t
        while rest:
            low = rest & -rest
            rest ^= low
            q = 32 * (_bits(low - 1) & 15) + 63 + p
            at = ((t ^ low) & _MASK) << 4
            # By the number of items before: of the four sets two have the same.
            w0 = small[_TABLE + q]
            w1 = small[_TABLE + q + 1]
            w2 = small[_TABLE + q + 2]
            a0 += w0 * sets[at]
            a1 += w1 * sets[at + 1]
            a2 += w1 * sets[at + 2]
            a3 += w2 * sets[at + 3]
            b0 += w0 * sets[at + 4]
            b1 += w1 * sets[at + 5]
            b2 += w1 * sets[at + 6]
            b3 += w2 * sets[at + 7]
            w0 = small[_MIRROR + q]
            w1 = small[_MIRROR + q + 1]
            w2 = small[_MIRROR + q + 2]
            x0 += w0 * sets[at + 8]
            x1 += w1 * sets[at + 9]
            x2 += w1 * sets[at + 10]
            x3 += w2 * sets[at + 11]
            y0 += w0 * sets[at + 12]
            y1 += w1 * sets[at + 13]
            y2 += w1 * sets[at + 14]
            y3 += w2 * sets[at + 15]
        # Steps by items 0 and 1 lead from one of the four to another.
        s = (t & _MASK) << 2
        c = (full - s) & _MASK
        w0 = small[_TABLE + p]
        w1 = small[_TABLE + 32 + p]
        b0 += gains[s] * a0
        a1 += w0 * a0
        b1 += w0 * b0 + gains[s + 1] * a1
        a2 += w1 * a0
        b2 += w1 * b0 + gains[s + 2] * a2
        w0 = small[_TABLE + p + 1]
        w1 = small[_TABLE + 32 + p + 1]
        a3 += w0 * a2 + w1 * a1
        b3 += w0 * b2 + w1 * b1 + gains[s + 3] * a3
        w0 = small[_MIRROR + p]
        w1 = small[_MIRROR + 32 + p]
        y0 += gains[c] * x0
        x1 += w0 * x0
        y1 += w0 * y0 + gains[c - 1] * x1
        x2 += w1 * x0
        y2 += w1 * y0 + gains[c - 2] * x2
        w0 = small[_MIRROR + p + 1]
        w1 = small[_MIRROR + 32 + p + 1]
        x3 += w0 * x2 + w1 * x1
        y3 += w0 * y2 + w1 * y1 + gains[c - 3] * x3
        at = (t & _MASK) << 4
        sets[at] = a0
        sets[at + 1] = a1
        sets[at + 2] = a2
        sets[at + 3] = a3
        sets[at + 4] = b0
        sets[at + 5] = b1
        sets[at + 6] = b2
        sets[at + 7] = b3
        sets[at + 8] = x0
        sets[at + 9] = x1
        sets[at + 10] = x2
        sets[at + 11] = x3
        sets[at + 12] = y0
        sets[at + 13] = y1
        sets[at + 14] = y2
        sets[at + 15] = y3


@jit_fused
def _by_steps(n: int, label: Floats, each: float, sets: Floats, gains: Floats, small: Floats) -> None:
    """Fill `sets` as `_by_sets` does, for Kendall: a step gains `each` for every item before with a higher label."""
    full = (1 << n) - 1
    higher = np.zeros(n, dtype=np.int64)
    for i in range(n):
        for k in range(n):
            if label[k] > label[i]:
                higher[int(small[_RANK + i])] |= 1 << int(small[_RANK + k])
    for s in range(full + 1):
        p = _bits(s)
        a = b = x = y = 0.0
        if s == 0:
            a = 1.0
            x = 1.0
        rest = s
        while rest:
            low = rest & -rest
            rest ^= low
            j = _bits(low - 1)
            before = s ^ low
            at = (before >> 2 << 4) + (before & 3)
            w = small[_TABLE + 32 * j + p - 1]
            a += w * sets[at]
            b += w * (sets[at + 4] + each * _bits(before & higher[j]) * sets[at])
            w = small[_MIRROR + 32 * j + p - 1]
            x += w * sets[at + 8]
            y += w * (sets[at + 12] + each * _bits((full ^ s) & higher[j]) * sets[at + 8])
        at = (s >> 2 << 4) + (s & 3)
        sets[at] = a
        sets[at + 4] = b
        sets[at + 8] = x
        sets[at + 12] = y
        gains[s] = 0.0


@jit_fused
def _gradients(n: int, mean: float, sets: Floats, gains: Floats, small: Floats) -> None:
    """Write z times the gradient of every item, by falling potential, over the potentials.

    The gradient of an item is the sum over the sets that hold it of (c_p − c_(p+1)) E[(G − mean) · S is passed].
    """
    fours = 1 << (n - 2)
    s0 = s1 = 0.0
    for t in range(fours):
        p = _bits(t) & 15
        s = (t & _MASK) << 2
        at = (t & _MASK) << 4
        # Ways onwards from S lie with its complement, the fourth of the four with the first.
        to = ((fours - 1 - t) & _MASK) << 4
        # The gain of the set itself is in both sums.
        k0 = sets[at] * (sets[to + 15] - (gains[s] + mean) * sets[to + 11]) + sets[at + 4] * sets[to + 11]
        k1 = sets[at + 1] * (sets[to + 14] - (gains[s + 1] + mean) * sets[to + 10]) + sets[at + 5] * sets[to + 10]
        k2 = sets[at + 2] * (sets[to + 13] - (gains[s + 2] + mean) * sets[to + 9]) + sets[at + 6] * sets[to + 9]
        k3 = sets[at + 3] * (sets[to + 12] - (gains[s + 3] + mean) * sets[to + 8]) + sets[at + 7] * sets[to + 8]
        k0 *= _DROP[p]
        k1 *= _DROP[p + 1]
        k2 *= _DROP[p + 1]
        k3 *= _DROP[p + 2]
        s0 += k1 + k3
        s1 += k2 + k3
        # Four gains have been read, one sum is written: never ahead of the reading.
        gains[t] = (k0 + k1) + (k2 + k3)
    small[_POTENTIAL] = s0
    small[_POTENTIAL + 1] = s1
    half = fours
    for j in range(n - 1, 1, -1):
        # The upper half holds the item; the lower half takes it in for the items to come.
        half >>= 1
        total = 0.0
        for t in range(half):
            total += gains[half + t]
            gains[t] += gains[half + t]
        small[_POTENTIAL + j] = total
