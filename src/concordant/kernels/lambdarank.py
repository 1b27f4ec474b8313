"""LambdaRank: every pair of items with different labels pulls apart, as hard as swapping the two would change a metric.

For a pair with label i above label j the pull is |ΔM| / (1 + exp(s_i − s_j)), ΔM being what exchanging their places in
the present ranking does to the metric. ΔM is known for any two places in O(1) from sums along the ranking, so a query
costs as many steps as it has such pairs. A pass goes from query to query and moves the weights after each.
"""

from __future__ import annotations

import math

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.kernels.jit import jit
from concordant.kernels.sorting import stable_sort
from concordant.kernels.svd_tables import FeatureRows, LambdaTarget

__all__ = [
    "AP",
    "ERR",
    "PAIRS",
    "PLACES",
    "RR",
    "all_lambdas",
    "hidden_pass",
    "hidden_scores",
    "lambdas",
    "linear_pass",
]

# PLACES: metrics that are sums of (worth of the item) × (worth of the place), NDCG and precision.
PLACES, PAIRS, AP, ERR, RR = 0, 1, 2, 3, 4

# Scores further apart than this have no common exponent.
_RANGE = 600.0


@jit
def _ranking(score: Floats, by_tie: Ints, order: Ints) -> None:
    """Write the items, best first; scores that agree to 1e-12 of the largest are ties, in the order of `by_tie`."""
    n = len(score)
    largest = 0.0
    for i in range(n):
        largest = max(largest, abs(score[i]))
    _, exponent = math.frexp(largest)
    unit = math.ldexp(1.0, min(40 - exponent, 1000))
    key = np.empty(n)
    for i in range(n):
        order[i] = by_tie[i]
        key[i] = -np.rint(score[i] * unit)
    stable_sort(key, order, np.empty(n, dtype=np.int64))


@jit
def _thin(order: Ints, level: Ints, budget: int, draw: float, mass: Floats) -> None:
    """Write what each item stands for: 1 where all are kept, 0 for those left out, more for those drawn.

    Every level of labels may keep as many items as the others, rare ones all of theirs. Of a level that has too many
    the better placed half of what it may keep is kept, and the rest is drawn at even distances along the ranking.
    """
    n = len(order)
    levels = level[n - 1] + 1
    size = np.zeros(levels, dtype=np.int64)
    for i in range(n):
        size[level[i]] += 1
    least, most = 1, n
    while least < most:
        # The largest quota under which the levels together stay within the budget.
        quota = (least + most + 1) // 2
        total = 0
        for k in range(levels):
            total += min(size[k], quota)
        if total <= budget:
            least = quota
        else:
            most = quota - 1
    quota = least
    top = quota // 2
    seen = np.zeros(levels, dtype=np.int64)
    target = np.zeros(levels)
    for k in range(levels):
        if size[k] > quota:
            target[k] = (size[k] - top) / (quota - top) * ((draw + 0.6180339887498949 * k) % 1.0)
    for place in range(n):
        i = order[place]
        k = level[i]
        if size[k] <= quota or seen[k] < top:
            mass[i] = 1.0
        elif seen[k] - top == int(target[k]):
            stride = (size[k] - top) / (quota - top)
            mass[i] = stride
            target[k] += stride
        else:
            mass[i] = 0.0
        seen[k] += 1


@jit
def lambdas(score: Floats, target: LambdaTarget, n: int, first: int, draw: float, out: Floats) -> float:
    """Return the sum of the pulls of one instance, and write the gradient of its pair cost in every item's score.

    The |ΔM| are held fixed.

    Parameters
    ----------
    score : float64[m]
        The present scores of the items of the instance.
    target : LambdaTarget
        What is learned for.
    n, first : int
        The number of the instance, and of its first slot.
    draw : float
        A number in [0, 1) that says which items are left out where there are too many.
    out : float64[m]
        Overwritten.
    """
    m = len(score)
    metric, place_gain, scale = target.metric, target.place_gain, target.scale[n]
    worth, level = target.worth[first : first + m], target.level[first : first + m]
    order = np.empty(m, dtype=np.int64)
    _ranking(score, target.by_tie[first : first + m], order)
    place = np.empty(m, dtype=np.int64)
    for k in range(m):
        place[order[k]] = k
    mass = np.ones(m)
    if 0 < target.budget < m:
        _thin(order, level, target.budget, draw, mass)

    # Sums along the ranking, by place.
    along, beyond = np.zeros(m + 1), np.zeros(m + 1)
    one = two = m
    if metric == AP:
        for k in range(m):
            found = worth[order[k]]
            along[k + 1] = along[k] + found
            beyond[k + 1] = beyond[k] + found * place_gain[k]
    elif metric == ERR:
        along[0] = 1.0
        for k in range(m):
            stop = worth[order[k]]
            beyond[k + 1] = beyond[k] + along[k] * stop * place_gain[k]
            along[k + 1] = along[k] * (1.0 - stop)
    elif metric == RR:
        for k in range(m):
            if worth[order[k]] > 0.0:
                if one == m:
                    one = k
                elif two == m:
                    two = k

    # What takes part, packed, and the exponentials of the scores: a pair then costs a division.
    item = np.empty(m, dtype=np.int64)
    until = np.empty(m, dtype=np.int64)
    high, low = -np.inf, np.inf
    count = 0
    for i in range(m):
        out[i] = 0.0
        high = max(high, score[i])
        low = min(low, score[i])
        if mass[i] > 0.0:
            item[count] = i
            count += 1
    middle = 0.5 * (high + low)
    near = high - low < _RANGE
    power, own, at = np.empty(count), np.empty(count), np.empty(count)
    for c in range(count):
        i = item[c]
        power[c] = math.exp(score[i] - middle) if near else score[i]
        own[c] = worth[i]
        at[c] = place_gain[place[i]]
    end = count
    for c in range(count - 1, -1, -1):
        if c < count - 1 and level[item[c]] != level[item[c + 1]]:
            end = c + 1
        until[c] = end

    sum_of_pulls = 0.0
    for c in range(count):
        i = item[c]
        total = 0.0
        for d in range(until[c], count):
            j = item[d]
            if metric == PLACES:
                change = abs(own[c] - own[d]) * abs(at[c] - at[d])
            elif metric == PAIRS:
                change = 1.0
            else:
                change = _change(metric, place[i], place[j], own[c], own[d], place_gain, along, beyond, one, two)
            if change == 0.0:
                continue
            if near:
                pull = power[d] / (power[c] + power[d])
            else:
                gap = power[c] - power[d]
                pull = 1.0 / (1.0 + math.exp(gap)) if gap < _RANGE else 0.0
            pull *= change * scale * mass[i] * mass[j]
            total += pull
            out[j] += pull
        out[i] -= total
        sum_of_pulls += total
    if target.normalise and sum_of_pulls > 0.0:
        factor = math.log2(1.0 + sum_of_pulls) / sum_of_pulls
        for i in range(m):
            out[i] *= factor
        sum_of_pulls *= factor
    return sum_of_pulls


@jit
def all_lambdas(score: Floats, offsets: Ints, target: LambdaTarget, draw: Floats, out: Floats) -> float:
    """Return the sum of the pulls of all instances, and write every gradient."""
    total = 0.0
    for n in range(len(offsets) - 1):
        a, b = offsets[n], offsets[n + 1]
        total += lambdas(score[a:b], target, n, a, draw[n], out[a:b])
    return total


@jit
def _change(
    metric: int,
    place_i: int,
    place_j: int,
    worth_i: float,
    worth_j: float,
    place_gain: Floats,
    along: Floats,
    beyond: Floats,
    first: int,
    second: int,
) -> float:
    """Return how much exchanging two items changes a metric, in magnitude."""
    if worth_i == worth_j:
        return 0.0
    a, b = place_i, place_j
    upper, lower = worth_i, worth_j
    if b < a:
        a, b = b, a
        upper, lower = lower, upper
    if metric == AP:
        # The relevant one of the two changes place, and with it the count at the relevant places between.
        between = beyond[b] - beyond[a + 1]
        at_top = (along[a] + 1.0) * place_gain[a]
        at_bottom = (along[b + 1] if upper == 0.0 else along[b]) * place_gain[b]
        return float(abs(at_top - at_bottom + between))
    if metric == ERR:
        share = (1.0 - lower) / (1.0 - upper)
        ahead = along[a] * (lower - upper) * place_gain[a]
        between = (beyond[b] - beyond[a + 1]) * (share - 1.0)
        behind = along[b] * (share * upper - lower) * place_gain[b]
        return float(abs(ahead + between + behind))
    # RR: only the first relevant place counts.
    if upper == 0.0:
        return float(place_gain[a] - place_gain[first]) if a < first else 0.0
    return float(place_gain[a] - place_gain[min(b, second)]) if a == first else 0.0


@jit
def linear_pass(
    visit: Ints, draw: Floats, rows: FeatureRows, target: LambdaTarget, rate: float, l2: float, w: Floats
) -> None:
    """Go through the instances in the order of `visit` and move w (blocks × d) against the gradient of each.

    The score of a slot is the sum of X[row] · w[block[row]] over its rows.
    """
    X, block, starts = rows.X, rows.block, rows.starts
    d = X.shape[1]
    for n in visit:
        first, last = rows.offsets[n], rows.offsets[n + 1]
        score, gradient = np.empty(last - first), np.empty(last - first)
        for slot in range(first, last):
            total = 0.0
            for row in range(starts[slot], starts[slot + 1]):
                for c in range(d):
                    total += X[row, c] * w[block[row], c]
            score[slot - first] = total
        lambdas(score, target, n, first, draw[n], gradient)
        if l2 > 0.0:
            for b in range(len(w)):
                for c in range(d):
                    w[b, c] *= 1.0 - rate * l2
        for slot in range(first, last):
            step = rate * gradient[slot - first]
            if step == 0.0:
                continue
            for row in range(starts[slot], starts[slot + 1]):
                for c in range(d):
                    w[block[row], c] -= step * X[row, c]


@jit
def _background(rows: FeatureRows, n: int, w: Floats, bias: Floats, base: Floats) -> None:
    """Write what the sources of an instance say about all its items."""
    d, p = rows.X.shape[1], rows.background.shape[1] // 2
    base[:] = bias
    for s in range(rows.source_starts[n], rows.source_starts[n + 1]):
        b = rows.source_block[s]
        for c in range(p):
            for h in range(len(bias)):
                base[h] += rows.background[s, c] * w[b, d + c, h] + rows.background[s, p + c] * w[b, p + c, h]


@jit
def _activate(rows: FeatureRows, slot: int, base: Floats, w: Floats, z: Floats) -> None:
    """Write what the hidden units give for a slot."""
    z[:] = base
    for row in range(rows.starts[slot], rows.starts[slot + 1]):
        b = rows.block[row]
        for c in range(rows.X.shape[1]):
            x = rows.X[row, c]
            for h in range(len(z)):
                z[h] += x * w[b, c, h]
    for h in range(len(z)):
        z[h] = math.tanh(z[h])


@jit
def hidden_scores(instances: Ints, rows: FeatureRows, w: Floats, bias: Floats, top: Floats, out: Floats) -> None:
    """Write the scores of a net with one hidden layer, the sum of top[h] tanh(z_h), for the slots of the instances.

    z is `bias`, plus the sum over the rows of a slot of X · w[block], plus the sum over the sources of its instance of
    their background · w[block]; w is (blocks, d + p, units).
    """
    z, base = np.empty(len(top)), np.empty(len(top))
    for n in instances:
        _background(rows, n, w, bias, base)
        for slot in range(rows.offsets[n], rows.offsets[n + 1]):
            _activate(rows, slot, base, w, z)
            total = 0.0
            for h in range(len(top)):
                total += top[h] * z[h]
            out[slot] = total


@jit
def hidden_pass(
    visit: Ints,
    draw: Floats,
    rows: FeatureRows,
    target: LambdaTarget,
    rate: float,
    l2: float,
    w: Floats,
    bias: Floats,
    top: Floats,
) -> None:
    """Go through the instances as `linear_pass` does and move the weights of the net of `hidden_scores`."""
    X, background = rows.X, rows.background
    d, p, units = X.shape[1], background.shape[1] // 2, len(top)
    base, by_unit, of_top = np.empty(units), np.empty(units), np.empty(units)
    for n in visit:
        first, last = rows.offsets[n], rows.offsets[n + 1]
        score, gradient, active = np.empty(last - first), np.empty(last - first), np.empty((last - first, units))
        _background(rows, n, w, bias, base)
        for slot in range(first, last):
            z = active[slot - first]
            _activate(rows, slot, base, w, z)
            total = 0.0
            for h in range(units):
                total += top[h] * z[h]
            score[slot - first] = total
        lambdas(score, target, n, first, draw[n], gradient)
        # The gradients of the lower layer, from the upper one before it moves.
        by_unit[:] = 0.0
        of_top[:] = 0.0
        for i in range(last - first):
            for h in range(units):
                y = active[i, h]
                of_top[h] += gradient[i] * y
                active[i, h] = gradient[i] * top[h] * (1.0 - y * y)
                by_unit[h] += active[i, h]
        if l2 > 0.0:
            shrink = 1.0 - rate * l2
            for h in range(units):
                top[h] *= shrink
                for b in range(len(w)):
                    for c in range(w.shape[1]):
                        w[b, c, h] *= shrink
        for slot in range(first, last):
            if gradient[slot - first] == 0.0:
                continue
            for row in range(rows.starts[slot], rows.starts[slot + 1]):
                b = rows.block[row]
                for c in range(d):
                    step = rate * X[row, c]
                    for h in range(units):
                        w[b, c, h] -= step * active[slot - first, h]
        for s in range(rows.source_starts[n], rows.source_starts[n + 1]):
            b = rows.source_block[s]
            for c in range(p):
                for h in range(units):
                    w[b, d + c, h] -= rate * by_unit[h] * background[s, c]
                    w[b, p + c, h] -= rate * by_unit[h] * background[s, p + c]
        for h in range(units):
            bias[h] -= rate * by_unit[h]
            top[h] -= rate * of_top[h]
