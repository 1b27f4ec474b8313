"""Losses over the pairs of graded lists: what every two items add, without writing the pairs down.

The rows of a list come by label, the highest first, so that the rows that should win against row j are a prefix of the
list and those that tie with it are a stretch of it. Three costs:

- The square of a difference is a polynomial: running means and squares of the rows so far say all, in O(rows).
- The hinge is linear where it is not flat: in the order of scores two pointers find who is within reach of whom, and a
  tree of counts by level tells apart who should win, in O(rows · log levels) after a sort, itself linear.
- The logistic has no such shortcut: O(pairs). But a pair need not cost an exponential or a logarithm. With p = exp(s)
  taken once per row, exp(−δ) is a product; and Σ log(1 + y) is the logarithm of one product, kept as what it is above
  1 (so that nothing is lost where the y are small) and relieved of its powers of two before it can overflow.

The models of ties are such products too: Rao-Kupper's chance of a win is 1/(1 + ξ e^−δ), and Davidson's 1/(1 + e^−δ +
ν e^−δ/2); their chances of a tie are 1/(1 + y) for other y. Lists whose scores are too far apart for a common exponent
go through each pair with exponentials of its own.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints
from concordant.kernels.jit import jit, jit_fused
from concordant.kernels.plackett_luce import longest_list
from concordant.kernels.sorting import stable_sort

__all__ = ["DAVIDSON", "LOGISTIC", "RAO_KUPPER", "hinge", "near_zero", "pairs", "squares"]

Marks = NDArray[np.uint8]

LOGISTIC, RAO_KUPPER, DAVIDSON = 0, 1, 2

# The largest exponent that a single pair may have where powers are shared, and that a product may have before it is
# relieved: exp(709) is the end of a float.
_RANGE, _FULL = 340.0, 708.0
# So many rows and what is summed for them stay in the fastest memory while the others pass by.
_TILE = 512


@jit
def near_zero(score: Floats, offsets: Ints, out: Floats) -> None:
    """Write the scores less what all of a list have in common: its smallest where all are above 0, or its largest.

    Losses of differences do not change by this, but sums that are kept as logarithms lose no digits to the distance.

    >>> out = np.empty(4)
    >>> near_zero(np.array([7.0, 9.0, -1.0, 2.0]), np.array([0, 2, 4]), out)
    >>> out.tolist()
    [0.0, 2.0, -1.0, 2.0]
    """
    for n in range(len(offsets) - 1):
        high, low = -np.inf, np.inf
        for r in range(offsets[n], offsets[n + 1]):
            high = max(high, score[r])
            low = min(low, score[r])
        common = max(low, 0.0) + min(high, 0.0)
        for r in range(offsets[n], offsets[n + 1]):
            out[r] = score[r] - common


@jit
def _total(x: Floats, n: int) -> float:
    """Return the sum of the first n entries, in eight sums that need not wait for each other."""
    a = b = c = d = e = f = g = h = 0.0
    k = 0
    while k + 8 <= n:
        a += x[k]
        b += x[k + 1]
        c += x[k + 2]
        d += x[k + 3]
        e += x[k + 4]
        f += x[k + 5]
        g += x[k + 6]
        h += x[k + 7]
        k += 8
    while k < n:
        a += x[k]
        k += 1
    return ((a + e) + (c + g)) + ((b + f) + (d + h))


@jit
def _relieved(excess: Floats, power: Ints, whole: Floats, bits: Ints) -> None:
    """Take powers of two out of 1 + excess, so that it is below 2, and count them; `bits` is a view of `whole`."""
    n = len(excess)
    for i in range(n):
        whole[i] = 1.0 + excess[i]
    for i in range(n):
        exponent = (bits[i] >> 52) - 1023
        if exponent != 0:
            power[i] += exponent
            bits[i] -= exponent << 52
            excess[i] = whole[i] - 1.0


@jit_fused
def _won(one: float, two: float, q: Floats, excess: Floats, gradient: Floats, lane: Floats, other: Floats) -> None:
    """Rao-Kupper: the rows of q win against two rows of powers p; one and two = ξ p, y = ξ p q.

    Two at a time because they can share the division, which is what a pair costs.
    """
    for i in range(len(q)):
        y, z = one * q[i], two * q[i]
        up, down = 1.0 + y, 1.0 + z
        share = 1.0 / (up * down)
        pull, second = y * down * share, z * up * share
        excess[i] += (y + z * up) * (1.0 + excess[i])
        gradient[i] -= pull + second
        lane[i] = pull
        other[i] = second


@jit_fused
def _tied(
    n: int,
    power: float,
    inverse: float,
    theta: float,
    scale: float,
    p: Floats,
    q: Floats,
    excess: Floats,
    gradient: Floats,
    extra: Floats,
    lane: Floats,
) -> None:
    """Rao-Kupper: the first n rows of p tie with one; y = (2 + ξ h) scale, h = e^δ + e^−δ, scale = 1 / (ξ² − 1)."""
    squares, fixed = (theta * theta + 1.0) / (1.0 + theta), 4.0 * theta / (1.0 + theta)
    for i in range(n):
        up, down = p[i] * inverse, power * q[i]
        h = up + down
        y = (2.0 + theta * h) * scale
        share = 1.0 / (1.0 + theta * theta + theta * h)
        pull = theta * (up - down) * share
        excess[i] += y * (1.0 + excess[i])
        gradient[i] += pull
        lane[i] = pull
        extra[i] -= (squares * h + fixed) * share


@jit_fused
def _won_davidson(
    power: float, nu: float, q: Floats, excess: Floats, gradient: Floats, extra: Floats, lane: Floats
) -> None:
    """Davidson: the rows of q win against one of power p = exp(s/2); y = x (x + ν), x = p q."""
    for i in range(len(q)):
        x = power * q[i]
        y = x * (x + nu)
        share = x / (1.0 + y)
        pull = (x + 0.5 * nu) * share
        excess[i] += y * (1.0 + excess[i])
        gradient[i] -= pull
        lane[i] = pull
        extra[i] += nu * share


@jit_fused
def _tied_davidson(
    n: int,
    power: float,
    inverse: float,
    scale: float,
    p: Floats,
    q: Floats,
    excess: Floats,
    gradient: Floats,
    extra: Floats,
    lane: Floats,
) -> None:
    """Davidson: the first n rows of p tie with one; y = (x + 1/x) / ν, scale = 1 / ν."""
    for i in range(n):
        up, down = p[i] * inverse, power * q[i]
        y = (up + down) * scale
        share = 1.0 / (1.0 + y)
        pull = 0.5 * (up - down) * scale * share
        excess[i] += y * (1.0 + excess[i])
        gradient[i] += pull
        lane[i] = pull
        extra[i] -= y * share


@jit
def _softplus(t: float) -> float:
    """Return log(1 + e^t)."""
    return math.log1p(math.exp(t)) if t <= 0.0 else t + math.log1p(math.exp(-t))


@jit
def _logistic(t: float) -> float:
    """Return 1 / (1 + e^−t)."""
    if t >= 0.0:
        return 1.0 / (1.0 + math.exp(-t))
    small = math.exp(t)
    return small / (1.0 + small)


@jit
def _two(u: float, v: float) -> tuple[float, float, float]:
    """Return log(1 + e^u + e^v), and the shares of e^u and e^v in it."""
    top = max(u, v, 0.0)
    one, a, b = math.exp(-top), math.exp(u - top), math.exp(v - top)
    total = one + a + b
    value = math.log1p(a + b) if top == 0.0 else top + math.log(total)
    return value, a / total, b / total


@jit
def _far(delta: float, tied: bool, model: int, extra: float) -> tuple[float, float, float]:
    """Return the loss of one pair, and its gradients by δ = s_i − s_j and by the extra parameter, whatever they are."""
    if model == DAVIDSON:
        if tied:
            value, up, down = _two(0.5 * delta - extra, -0.5 * delta - extra)
            return value, 0.5 * (up - down), -(up + down)
        value, lost, tie = _two(-delta, extra - 0.5 * delta)
        return value, -lost - 0.5 * tie, tie
    if model == LOGISTIC:
        return _softplus(-delta), -_logistic(-delta), 0.0
    log_theta = _softplus(extra)
    grown = _logistic(extra)
    u, v = log_theta - delta, log_theta + delta
    if not tied:
        pull = _logistic(u)
        return _softplus(u), -pull, grown * pull
    # y = (2 + ξ (e^δ + e^−δ)) / (ξ² − 1), ξ² − 1 = e^extra (2 + e^extra).
    ln2 = math.log(2.0)
    log_h = abs(delta) + math.log1p(math.exp(-2.0 * abs(delta)))
    log_y = ln2 + _softplus(log_theta + log_h - ln2) - extra - ln2 - _softplus(extra - ln2)
    gradient = _logistic(v) * _logistic(-u) - _logistic(u) * _logistic(-v)
    less = _logistic(-u) + _logistic(u) * _logistic(-extra) + grown * _logistic(-v)
    return _softplus(log_y), gradient, -(less - 0.5 * grown * _logistic(ln2 - extra))


@jit
def pairs(
    score: Floats,
    mark: Marks,
    offsets: Ints,
    model: int,
    extra: float,
    gradient: Floats,
    value: Floats,
    extra_gradient: Floats,
) -> None:
    """Write the loss of every list over its pairs, and its gradients; O(pairs).

    With δ = s_i − s_j and i before j, a pair of different labels costs log(1 + y), y being e^−δ for LOGISTIC, ξ e^−δ,
    ξ = 1 + e^extra, for RAO_KUPPER, and e^−δ + e^(extra − δ/2) for DAVIDSON; a pair of equal labels costs nothing,
    log(1 + (2 + ξ (e^δ + e^−δ)) / (ξ² − 1)), and log(1 + (e^(δ/2) + e^(−δ/2)) e^−extra).

    Parameters
    ----------
    score : float64[R]
        By row, rows of the highest label first.
    mark : uint8[R]
        Not 0 where a block of equal labels begins.
    offsets : int64[L + 1]
        Where the lists begin.
    model : int
        LOGISTIC, RAO_KUPPER or DAVIDSON.
    extra : float
        log(ξ − 1) or log ν.
    gradient : float64[R]
        Written: by the scores.
    value, extra_gradient : float64[L]
        Written: the loss of each list, and its gradient by `extra`.
    """
    longest = longest_list(offsets)
    p, q = np.empty(longest), np.empty(longest)
    excess, power = np.empty(longest), np.empty(longest, dtype=np.int64)
    begin = np.empty(longest, dtype=np.int64)
    whole, by_extra = np.empty(_TILE), np.empty(_TILE)
    lane, other = np.empty(_TILE), np.empty(_TILE)
    bits = whole.view(np.int64)
    with_ties = model != LOGISTIC
    margin = abs(extra) * (2.0 if model == RAO_KUPPER else 1.0) + 2.0 if with_ties else 0.7
    # The logistic is Rao-Kupper's chance of a win with ξ = 1, where nobody ties.
    theta = nu = scale = grown = 1.0
    if with_ties and margin < _RANGE:
        nu = math.exp(extra)
        theta = 1.0 + nu
        grown = nu / theta
        scale = 1.0 / nu if model == DAVIDSON else 1.0 / (nu * (2.0 + nu))
    half = 0.5 if model == DAVIDSON else 1.0
    for n in range(len(offsets) - 1):
        a = offsets[n]
        m = offsets[n + 1] - a
        s, g = score[a : a + m], gradient[a : a + m]
        value[n] = extra_gradient[n] = 0.0
        high, low = -np.inf, np.inf
        for i in range(m):
            begin[i] = i if i == 0 or mark[a + i] != 0 else begin[i - 1]
            g[i] = 0.0
            high = max(high, s[i])
            low = min(low, s[i])
        if m == 0 or (not with_ties and begin[m - 1] == 0):
            continue
        reach = high - low + margin
        if not reach < _RANGE:
            for j in range(1, m):
                for i in range(j if with_ties else begin[j]):
                    cost, by_delta, own = _far(s[i] - s[j], i >= begin[j], model, extra)
                    value[n] += cost
                    g[i] += by_delta
                    g[j] -= by_delta
                    extra_gradient[n] += own
            continue
        middle = 0.5 * (high + low)
        for i in range(m):
            p[i] = math.exp(half * (s[i] - middle))
            q[i] = 1.0 / p[i]
            excess[i] = 0.0
            power[i] = 0
        often = int(_FULL / reach)
        pulls = 0.0
        for first in range(0, m, _TILE):
            last = min(first + _TILE, m)
            by_extra[:] = 0.0
            since = 0
            b = begin[first]
            while b < m:
                e = b + 1
                while e < m and begin[e] == b:
                    e += 1
                # The rows of this tile that win against the block, and those that belong to it.
                won = slice(first, max(first, min(b, last)))
                q_won, excess_won, g_won = q[won], excess[won], g[won]
                start = min(max(b, first), last)
                tied = slice(start, last)
                p_tied, q_tied, excess_tied, g_tied = p[tied], q[tied], excess[tied], g[tied]
                extra_tied = by_extra[start - first :]
                for j in range(max(b, first), e, 2):
                    both = min(j + 2, e)
                    k = len(q_won)
                    if k > 0 and model != DAVIDSON:
                        two = theta * p[j + 1] if both == j + 2 else 0.0
                        _won(theta * p[j], two, q_won, excess_won, g_won, lane, other)
                        pull = _total(lane, k)
                        g[j] += pull
                        pulls += pull
                        if both == j + 2:
                            pull = _total(other, k)
                            g[j + 1] += pull
                            pulls += pull
                    elif k > 0:
                        for t in range(j, both):
                            _won_davidson(p[t], nu, q_won, excess_won, g_won, by_extra, lane)
                            g[t] += _total(lane, k)
                    if with_ties:
                        for t in range(j, both):
                            k = min(t, last) - start
                            if k <= 0:
                                continue
                            if model == DAVIDSON:
                                _tied_davidson(
                                    k, p[t], q[t], scale, p_tied, q_tied, excess_tied, g_tied, extra_tied, lane
                                )
                            else:
                                _tied(
                                    k, p[t], q[t], theta, scale, p_tied, q_tied, excess_tied, g_tied, extra_tied, lane
                                )
                            g[t] -= _total(lane, k)
                    since += 2
                    if since + 2 > often:
                        _relieved(excess[first:last], power[first:last], whole, bits)
                        since = 0
                b = e
            if with_ties:
                extra_gradient[n] += _total(by_extra, last - first)
        if model == RAO_KUPPER:
            extra_gradient[n] += grown * pulls
        for i in range(m):
            value[n] += math.log1p(excess[i]) + power[i] * math.log(2.0)


@jit
def hinge(score: Floats, level: Ints, offsets: Ints, gradient: Floats, value: Floats) -> None:
    """Write Σ max(0, 1 − (s_i − s_j)) over the pairs of every list with i of a higher label, and its gradient.

    Parameters
    ----------
    score : float64[R]
        By row, rows of the highest label first.
    level : int64[R]
        How many different labels of the list are higher.
    offsets : int64[L + 1]
        Where the lists begin.
    gradient : float64[R]
        Written. Pairs exactly 1 apart do not pull.
    value : float64[L]
        Written.
    """
    longest = longest_list(offsets)
    room, spare = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    x, rung = np.empty(longest), np.empty(longest, dtype=np.int64)
    count, total = np.empty(longest + 1, dtype=np.int64), np.empty(longest + 1)
    for n in range(len(offsets) - 1):
        a = offsets[n]
        m = offsets[n + 1] - a
        value[n] = 0.0
        if m == 0:
            continue
        s, g = score[a : a + m], gradient[a : a + m]
        levels = level[a + m - 1] + 1
        if levels == 1:
            g[:] = 0.0
            continue
        order = room[:m]
        for r in range(m):
            order[r] = r
        stable_sort(s, order, spare)
        for r in range(m):
            x[r] = s[order[r]]
            rung[r] = level[a + order[r]]
        # Upwards: of the rows that are less than 1 ahead of j, those of higher labels. Scores are summed as differences
        # from one in the middle: what all have in common must not drown the rest.
        middle = x[m // 2]
        count[: levels + 1] = 0
        total[: levels + 1] = 0.0
        t = 0
        for r in range(m):
            while t < m and x[t] - x[r] < 1.0:
                k = rung[t] + 1
                while k <= levels:
                    count[k] += 1
                    total[k] += x[t] - middle
                    k += k & -k
                t += 1
            winners, sums = 0, 0.0
            k = rung[r]
            while k > 0:
                winners += count[k]
                sums += total[k]
                k -= k & -k
            value[n] += winners * (1.0 + (x[r] - middle)) - sums
            g[order[r]] = winners
        # Downwards: of the rows that i is less than 1 ahead of, those of lower labels.
        count[: levels + 1] = 0
        t = m - 1
        for r in range(m - 1, -1, -1):
            while t >= 0 and x[r] - x[t] < 1.0:
                k = levels - rung[t]
                while k <= levels:
                    count[k] += 1
                    k += k & -k
                t -= 1
            losers = 0
            k = levels - rung[r] - 1
            while k > 0:
                losers += count[k]
                k -= k & -k
            g[order[r]] -= losers


@jit
def squares(score: Floats, mark: Marks, offsets: Ints, gradient: Floats, value: Floats) -> None:
    """Write Σ (1 − (s_i − s_j))² over the pairs of every list with i of a higher label, and its gradient; O(rows).

    Parameters
    ----------
    score : float64[R]
        By row, rows of the highest label first.
    mark : uint8[R]
        Not 0 where a block of equal labels begins.
    offsets : int64[L + 1]
        Where the lists begin.
    gradient : float64[R]
        Written.
    value : float64[L]
        Written.
    """
    for n in range(len(offsets) - 1):
        a, b = offsets[n], offsets[n + 1]
        value[n] = 0.0
        if a == b:
            continue
        middle = 0.0
        for r in range(a, b):
            middle += score[r] / (b - a)
        # Of the rows above: how many, their mean, and the squares of what they differ from it. No square of a score is
        # ever taken from another.
        above, mean, spread = 0, 0.0, 0.0
        start = a
        while start < b:
            end = start + 1
            while end < b and mark[end] == 0:
                end += 1
            q = end - start
            own = 0.0
            for r in range(start, end):
                own += score[r] - middle
            own /= q
            miss, inner = 0.0, 0.0
            for r in range(start, end):
                x = score[r] - middle
                gap = 1.0 - mean + x
                gradient[r] = 2.0 * above * gap
                miss += gap * gap
                inner += (x - own) * (x - own)
            value[n] += above * miss + q * spread
            apart = own - mean
            spread += inner + apart * apart * (above / (above + q)) * q
            mean += apart * (q / (above + q))
            above += q
            start = end
        below, mean = 0, 0.0
        end = b
        while end > a:
            start = end - 1
            while start > a and mark[start] == 0:
                start -= 1
            q = end - start
            own = 0.0
            for r in range(start, end):
                x = score[r] - middle
                own += x
                gradient[r] -= 2.0 * below * (1.0 - x + mean)
            mean += (own / q - mean) * (q / (below + q))
            below += q
            end = start
