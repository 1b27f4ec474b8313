"""Posterior of the true ranking under extended Mallows models: Markov chains and exact sums for one instance.

A state is an order of the n items of a pool; its first k places count. Let C[x, y] be the sum of u = weight times θ
over the lists that rank y above x; an item that a list leaves out is below its items. The energy of a state is

    sum over places p < k of (row sum of C at x_p) − sum over places q < p < k of C[x_p, x_q] − sum of u r (r − 1) / 2,

where r is the number of items of a list that are not among the first k. The odds of a state are exp(energy). The lists
enter only C, which is built once for a given θ, and the last term, which changes only when an item crosses place k. So
the cost of a move within the first k places does not depend on the number of lists.
"""

from __future__ import annotations

import math

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.jit import jit

__all__ = ["distances", "exact_posterior", "pair_energies", "run_chain", "tied_moments"]

# Odds below exp of this, relative to the largest, are negligible in a sum of doubles.
_NEGLIGIBLE = -40.0


@jit
def pair_energies(item: Codes, group: Codes, offsets: Ints, u: Floats, below: bool, c: Floats, rows: Floats) -> None:
    """Fill c[x, y] with C[x, y] and C[y, x], and `rows` with the row sums of C; O(n² + sum of squared lengths).

    Parameters
    ----------
    item, group : int32[R]
        The items of the lists, best first, and the number of each item's group of ties, from 0.
    offsets : int64[L + 1]
        Where the lists begin.
    u : float64[L]
        Weight times θ.
    below : bool
        Whether a list ranks the items it leaves out below its items.
    c : float64[n, n, 2]
        Overwritten; the two directions lie side by side because moves need both.
    rows : float64[n]
        Overwritten.
    """
    n = len(rows)
    base = np.zeros(n)
    if below:
        for i in range(len(u)):
            for a in range(offsets[i], offsets[i + 1]):
                base[item[a]] += u[i]
    for x in range(n):
        for y in range(n):
            c[x, y, 0] = base[y]
            c[x, y, 1] = base[x]
        c[x, x, 0] = 0.0
        c[x, x, 1] = 0.0
    for i in range(len(u)):
        ui = u[i]
        for a in range(offsets[i], offsets[i + 1]):
            x = item[a]
            for b in range(a + 1, offsets[i + 1]):
                y = item[b]
                tied = group[a] == group[b]
                if below:
                    # Each was counted above as if the list left the other out.
                    c[x, y, 0] -= ui
                    c[y, x, 1] -= ui
                    if tied:
                        c[y, x, 0] -= ui
                        c[x, y, 1] -= ui
                elif not tied:
                    c[y, x, 0] += ui
                    c[x, y, 1] += ui
    for x in range(n):
        total = 0.0
        for y in range(n):
            total += c[x, y, 0]
        rows[x] = total


@jit
def distances(
    place: Ints, k: int, item: Codes, group: Codes, offsets: Ints, below: bool, tree: Ints, out: Floats, common: Ints
) -> None:
    """Fill `out` with the distance of every list to the first k places, and `common` with its number of items there.

    Pairs that a list ties contradict nothing. O(m log k) for a list of m items.

    Parameters
    ----------
    place : int64[n]
        The place of every item, from 0.
    k : int
        The number of places that count.
    item, group, offsets, below
        As in `pair_energies`.
    tree : int64[k + 1]
        Working memory: a Fenwick tree.
    out, common : float64[L], int64[L]
        Overwritten.
    """
    for i in range(len(out)):
        start, end = offsets[i], offsets[i + 1]
        for p in range(k + 1):
            tree[p] = 0
        found, total, first = 0, 0, start
        for a in range(start, end):
            if group[a] != group[first]:
                # Items of one group do not count against each other: they enter the tree together.
                for b in range(first, a):
                    p = place[item[b]] + 1
                    while p <= k:
                        tree[p] += 1
                        p += p & -p
                first = a
            p = place[item[a]] + 1
            if p <= k:
                found += 1
                total += first - start
                if below:
                    total += p - 1
                while p > 0:
                    total -= tree[p]
                    p -= p & -p
        r = (end - start) - found
        if below:
            # Left-out items above the items of the list, and pairs of items that only one side holds.
            total += r * (k - found) - found * (found - 1) // 2 - r * (r - 1) // 2
        out[i] = total
        common[i] = found


@jit
def _cross(x: int, step: int, starts: Ints, lists: Codes, u: Floats, r: Ints) -> float:
    """Move an item out of the first k places (step 1) or into them (−1); return the energy gained in the terms of r."""
    gain = 0.0
    for a in range(starts[x], starts[x + 1]):
        i = lists[a]
        gain -= step * u[i] * (r[i] if step > 0 else r[i] - 1)
        r[i] += step
    return gain


@jit
def _swap(
    c: Floats,
    rows: Floats,
    order: Codes,
    k: int,
    starts: Ints,
    lists: Codes,
    u: Floats,
    r: Ints,
    a: int,
    b: int,
    uniform: float,
) -> float:
    """Swap the items at places a < b with the Metropolis probability; return the energy gained."""
    x, y = order[a], order[b]
    gain = 0.0
    if b < k:
        gain = c[x, y, 1] - c[x, y, 0]
        for q in range(a + 1, b):
            m = order[q]
            gain += (c[x, m, 1] - c[x, m, 0]) - (c[y, m, 1] - c[y, m, 0])
    elif a < k:
        gain = rows[y] - rows[x]
        for q in range(a):
            m = order[q]
            gain += c[x, m, 0] - c[y, m, 0]
        for q in range(a + 1, k):
            m = order[q]
            gain += c[x, m, 1] - c[y, m, 1]
        gain += _cross(x, 1, starts, lists, u, r) + _cross(y, -1, starts, lists, u, r)
    if gain >= 0.0 or uniform < math.exp(gain):
        order[a], order[b] = y, x
        return gain
    if a < k <= b:
        _cross(y, 1, starts, lists, u, r)
        _cross(x, -1, starts, lists, u, r)
    return 0.0


@jit
def _insert(c: Floats, order: Codes, k: int, a: int, uniform: float, energies: Floats) -> float:
    """Draw a new place among the first k for the item at place a < k (Gibbs); return the energy gained."""
    x = order[a]
    e, best = 0.0, 0.0
    energies[0] = 0.0
    p = 0
    for q in range(k):
        if q != a:
            m = order[q]
            e += c[x, m, 1] - c[x, m, 0]
            p += 1
            energies[p] = e
            best = max(best, e)
    now = energies[a]
    total = 0.0
    for p in range(k):
        e = energies[p] - best
        if e > _NEGLIGIBLE:
            total += math.exp(e)
    left = uniform * total
    target = a
    for p in range(k):
        e = energies[p] - best
        if e > _NEGLIGIBLE:
            left -= math.exp(e)
            if left < 0.0:
                target = p
                break
    for q in range(a, target):
        order[q] = order[q + 1]
    for q in range(a, target, -1):
        order[q] = order[q - 1]
    order[target] = x
    gain: float = energies[target] - now
    return gain


@jit
def run_chain(
    c: Floats,
    rows: Floats,
    order: Codes,
    k: int,
    item: Codes,
    group: Codes,
    offsets: Ints,
    starts: Ints,
    lists: Codes,
    u: Floats,
    below: bool,
    swaps: bool,
    uniform: Floats,
    every: int,
    distance: Floats,
    common: Floats,
    energy: Floats,
    position: Floats,
    square: Floats,
    inside: Ints,
    best: Codes,
) -> tuple[float, int]:
    """Move a state len(uniform) times; return the highest energy recorded and the number of moves that changed it.

    A move picks a place. If it is one of the first k, its item is removed and a new place among the first k is drawn
    (Gibbs); otherwise a swap with a random one of the first k is proposed (Metropolis). With `swaps` every move
    proposes to swap two places, at least one of them among the first k. Both leave the posterior invariant. A move
    costs O(k) for any number of lists; an item that crosses place k also costs the number of lists that hold it. The
    state is recorded every `every` moves.

    Parameters
    ----------
    c, rows
        From `pair_energies`.
    order : int32[n]
        The state, best first; changed.
    k : int
        The number of places that count.
    item, group, offsets, u, below
        As in `pair_energies`.
    starts, lists : int64[n + 1], int32[R]
        Which lists hold an item.
    swaps : bool
        The kind of the moves.
    uniform : float64[moves, 3]
        Uniform on [0, 1).
    distance, common : float64[L], float64[L, k + 1] or float64[L, 0]
        Sums over the records: the distance of every list, and how often it had each number of common items.
    energy : float64[records]
        The energy of every record.
    position, square, inside : float64[n], float64[n], int64[n]
        Sums over the records in which an item was among the first k: its place from 1, the square of that, and 1.
    best : int32[n]
        The recorded state of highest energy.
    """
    n, n_lists = len(order), len(u)
    energies = np.empty(k + 1)
    tree = np.zeros(k + 1, dtype=np.int64)
    place = np.empty(n, dtype=np.int64)
    d = np.empty(n_lists)
    found = np.zeros(n_lists, dtype=np.int64)
    for p in range(n):
        place[order[p]] = p
    r = np.zeros(n_lists, dtype=np.int64)
    for i in range(n_lists):
        for a in range(offsets[i], offsets[i + 1]):
            if place[item[a]] >= k:
                r[i] += 1
    highest, moved, record = -np.inf, 0, 0
    for s in range(len(uniform)):
        a = int(uniform[s, 0] * n)
        if swaps:
            a, b = int(uniform[s, 0] * k), int(uniform[s, 1] * (n - 1))
            if b >= a:
                b += 1
            gain = _swap(c, rows, order, k, starts, lists, u, r, min(a, b), max(a, b), uniform[s, 2]) if n > 1 else 0.0
        elif a < k:
            gain = _insert(c, order, k, a, uniform[s, 2], energies)
        else:
            gain = _swap(c, rows, order, k, starts, lists, u, r, int(uniform[s, 1] * k), a, uniform[s, 2])
        if gain != 0.0:
            moved += 1
        if (s + 1) % every > 0:
            continue
        for p in range(n):
            place[order[p]] = p
        distances(place, k, item, group, offsets, below, tree, d, found)
        total = 0.0
        for i in range(n_lists):
            total += u[i] * d[i]
            distance[i] += d[i]
            if common.shape[1] > 0:
                common[i, found[i]] += 1.0
        energy[record] = total
        record += 1
        if total > highest:
            highest = total
            best[:] = order
        for p in range(k):
            x = order[p]
            position[x] += p + 1.0
            square[x] += (p + 1.0) * (p + 1.0)
            inside[x] += 1
    return highest, moved


@jit
def exact_posterior(
    c: Floats,
    rows: Floats,
    k: int,
    item: Codes,
    group: Codes,
    offsets: Ints,
    u: Floats,
    below: bool,
    distance: Floats,
    common: Floats,
    position: Floats,
) -> float:
    """Fill in the exact expectations that `run_chain` estimates, and return the logarithm of the sum of all odds.

    Dynamic programming over subsets: the energy of the next item depends on the set of items above it, not on their
    order. The order of the items below place k is not summed over. O(2^n n²) time, O(2^n) memory.

    Parameters
    ----------
    c, rows, k, item, group, offsets, u, below
        As in `run_chain`.
    distance, common : float64[L], float64[L, k + 1] or float64[L, 0]
        The expected distance of every list, and the distribution of its number of items among the first k.
    position : float64[n]
        The expected place, from 1; items below place k share the mean of the places there.
    """
    n, n_lists = len(rows), len(u)
    size = 1 << n
    count = np.zeros(size, dtype=np.int64)
    for s in range(1, size):
        count[s] = count[s >> 1] + (s & 1)
    held = np.zeros(n_lists, dtype=np.int64)
    for i in range(n_lists):
        for a in range(offsets[i], offsets[i + 1]):
            held[i] |= 1 << item[a]
    rest = np.zeros(size)  # the logarithm of the sum of odds over all continuations of a subset
    step = np.zeros(n)
    for s in range(size - 1, -1, -1):
        if count[s] > k:
            continue
        if count[s] == k:
            for i in range(n_lists):
                r = count[held[i] & ~s]
                rest[s] -= u[i] * (r * (r - 1) // 2)
            continue
        best = -np.inf
        for x in range(n):
            step[x] = -np.inf
            if not s >> x & 1:
                e = rows[x] + rest[s | 1 << x]
                for q in range(n):
                    if s >> q & 1:
                        e -= c[x, q, 0]
                step[x] = e
                best = max(best, e)
        total = 0.0
        for x in range(n):
            total += math.exp(step[x] - best)
        rest[s] = best + math.log(total)
    probability = np.zeros(size)
    probability[0] = 1.0
    above = np.zeros((n, n))  # above[x, y]: the probability that x is among the first k and above y
    position[:] = 0.0
    common[:] = 0.0
    crossing = np.zeros(n_lists)
    for s in range(size):
        if count[s] > k or probability[s] == 0.0:
            continue
        if count[s] == k:
            for x in range(n):
                if not s >> x & 1:
                    position[x] += probability[s] * 0.5 * (k + 1 + n)
            for i in range(n_lists):
                z = count[held[i] & s]
                r = offsets[i + 1] - offsets[i] - z
                crossing[i] += probability[s] * (r * (r - 1) // 2)
                if common.shape[1] > 0:
                    common[i, z] += probability[s]
            continue
        for x in range(n):
            if s >> x & 1:
                continue
            e = rows[x] + rest[s | 1 << x] - rest[s]
            for q in range(n):
                if s >> q & 1:
                    e -= c[x, q, 0]
            p = probability[s] * math.exp(e)
            probability[s | 1 << x] += p
            position[x] += p * (count[s] + 1)
            for y in range(n):
                if y != x and not s >> y & 1:
                    above[x, y] += p
    for i in range(n_lists):
        total = -crossing[i] if below else 0.0
        for a in range(offsets[i], offsets[i + 1]):
            y = item[a]
            for b in range(offsets[i], offsets[i + 1]):
                if group[b] > group[a]:
                    total += above[item[b], y]
            if below:
                for x in range(n):
                    if not held[i] >> x & 1:
                        total += above[x, y]
        distance[i] = total
    log_odds: float = rest[0]
    return log_odds


@jit
def tied_moments(
    theta: float, sizes: Ints, factorial: Floats, plain: Floats, mean: Floats, log_sum: Floats, derivative: Floats
) -> None:
    """Fill in the log normaliser of a list with ties and its derivative, for every number r of foreign items.

    Foreign items count against the common ones below them in the list. Groups are added one after the other; all that
    matters of the groups before is their number of foreign items. O(m²) for a list of m items.

    Parameters
    ----------
    theta : float
        θ <= 0.
    sizes : int64[G]
        The size of each group of ties, best first.
    factorial, plain, mean : float64[m + 1]
        log [j]!, log j! and E_j for j = 0..m, from `concordant.kernels.mallows`.
    log_sum, derivative : float64[m + 1]
        Given r = 0..m, the logarithm of the sum of exp(θ d) over all such lists, and its derivative. Without ties they
        are log [m]! − log [r]! + log r! and E_m − E_r.
    """
    m = len(log_sum) - 1
    odds, moment = np.zeros(m + 1), np.zeros(m + 1)
    term = np.zeros(m + 1)
    laid = 0
    log_sum[0], derivative[0] = 0.0, 0.0
    for g in range(len(sizes)):
        odds[: laid + 1] = log_sum[: laid + 1]
        moment[: laid + 1] = derivative[: laid + 1]
        for total in range(laid + sizes[g] + 1):
            low, high = max(0, total - laid), min(sizes[g], total)
            best = -np.inf
            for foreign in range(low, high + 1):
                stay, before = sizes[g] - foreign, total - foreign
                term[foreign] = odds[before] + theta * before * stay - factorial[stay] - plain[foreign]
                best = max(best, term[foreign])
            weight, value = 0.0, 0.0
            for foreign in range(low, high + 1):
                stay, before = sizes[g] - foreign, total - foreign
                w = math.exp(term[foreign] - best)
                weight += w
                value += w * (moment[before] + before * stay - mean[stay])
            log_sum[total] = best + math.log(weight)
            derivative[total] = value / weight
        laid += sizes[g]
    for r in range(m + 1):
        log_sum[r] += factorial[m - r] + plain[r]
        derivative[r] += mean[m - r]
