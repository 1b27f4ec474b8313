"""Chance over subsets: short Markov chains from what was observed, and exact draws of whole ordered partitions.

All bits come from splitmix64, seeded by what the draw is about (a seed, the key of a list, the stage, the turn), never
by where it stands.
"""

from __future__ import annotations

import math

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.kernels.elementary_symmetric import approximate_stage, choose_tilt, exact_stage
from concordant.kernels.jit import jit
from concordant.kernels.plackett_luce import Marks
from concordant.kernels.random_draws import hash_state, uniform, uniform_below
from concordant.kernels.splitmix64 import STEP, Keys

__all__ = ["GIBBS", "METROPOLIS", "draw_partitions", "run_chain", "sampled_lists"]

GIBBS, METROPOLIS = 0, 1

# Up to so many items a stage is added up exactly where only its value is asked for.
_EXACT = 64


@jit
def _shuffle_in(order: Ints, m: int, state: np.uint64) -> np.uint64:
    """Put an evenly drawn subset of m into the first m places of `order`; return the next state."""
    n = len(order)
    for t in range(m):
        state += STEP
        u = t + uniform_below(state, n - t)
        order[t], order[u] = order[u], order[t]
    return state


@jit
def _sweep(f: Floats, held: Marks, size: int, state: np.uint64) -> tuple[int, np.uint64]:
    """Ask every item in turn whether it is in, given the others (Gibbs); return the size and the next state."""
    total = 0.0
    for i in range(len(f)):
        if held[i]:
            total += f[i]
    for i in range(len(f)):
        state += STEP
        others, without = size, total
        if held[i]:
            others -= 1
            without -= f[i]
        # The empty set has no odds at all: the last item stays.
        take = True
        if others > 0:
            gain = (without + f[i]) / (others + 1) - without / others
            odds = math.exp(-abs(gain))
            take = uniform(state) * (1.0 + odds) < (1.0 if gain >= 0.0 else odds)
        held[i] = 1 if take else 0
        size = others + 1 if take else others
        total = without + f[i] if take else without
    return size, state


@jit
def _log_ways(n: int, m: int) -> float:
    """Return the logarithm of n over m."""
    return math.lgamma(n + 1.0) - math.lgamma(m + 1.0) - math.lgamma(n - m + 1.0)


@jit
def _propose(f: Floats, held: Marks, size: int, printed: bool, order: Ints, state: np.uint64) -> tuple[int, np.uint64]:
    """Offer an even subset of an even size (Metropolis and Hastings); return the size and the next state."""
    n = len(f)
    now = 0.0
    for i in range(n):
        if held[i]:
            now += f[i]
    state += STEP
    m = 1 + uniform_below(state, n)
    state = _shuffle_in(order, m, state)
    then = 0.0
    for t in range(m):
        then += f[order[t]]
    gain = then / m - now / size
    if not printed:
        # Subsets of a size with many are each offered less often.
        gain += _log_ways(n, m) - _log_ways(n, size)
    state += STEP
    if gain >= 0.0 or uniform(state) < math.exp(gain):
        held[:] = 0
        for t in range(m):
            held[order[t]] = 1
        size = m
    return size, state


@jit
def run_chain(
    f: Floats, held: Marks, kind: int, printed: bool, n_samples: int, state: np.uint64, order: Ints, share: Floats
) -> np.uint64:
    """Take samples of a stage and add 1/|S| to `share` of every item of each; return the next state.

    Parameters
    ----------
    f : float64[n]
        Scores; the odds of a non-empty subset are exp of their mean over it. Better near 0: sums of them are kept.
    held : uint8[n]
        Where the chain starts, 1 for the items in it, of which there must be one; changed to where it ends.
    kind : int
        GIBBS: a sample after every sweep over the items. METROPOLIS: a sample after every proposal.
    printed : bool
        Whether proposals are accepted as the paper prints it, by the ratio of the odds alone. The chain then has the
        odds divided by the number of subsets of the size.
    n_samples : int
        How many.
    state : uint64
        The seed.
    order : int64[n]
        A permutation, to work with.
    share : float64[n]
        Added to.

    Notes
    -----
    O(n) a sample.
    """
    n = len(f)
    size = 0
    for i in range(n):
        if held[i]:
            size += 1
    for _ in range(n_samples):
        if kind == GIBBS:
            size, state = _sweep(f, held, size, state)
        else:
            size, state = _propose(f, held, size, printed, order, state)
        for i in range(n):
            if held[i]:
                share[i] += 1.0 / size
    return state


@jit
def sampled_lists(
    score: Floats,
    mark: Marks,
    offsets: Ints,
    key: Keys,
    turn: np.uint64,
    kind: int,
    printed: bool,
    n_samples: int,
    gradient: Floats,
    value: Floats,
) -> None:
    """Write a sampled gradient of every list's log-likelihood under the general potential, and nearly its value.

    Of each stage the gradient is 1(i in X)/|X| less the mean of 1(i in S)/|S| over samples of a chain that starts at X.
    The value is exact for stages of up to 64 items and `approximate_stage` beyond; it takes no chance.

    Parameters
    ----------
    score, mark, offsets, gradient, value
        As in `general_lists`.
    key : uint64[L]
        The seeds of the lists.
    turn : uint64
        Mixed into them.
    kind, printed, n_samples
        As in `run_chain`.
    """
    longest = 0
    for n in range(len(offsets) - 1):
        longest = max(longest, offsets[n + 1] - offsets[n])
    held, order = np.empty(longest, dtype=np.uint8), np.empty(longest, dtype=np.int64)
    law, share, centred = np.empty(longest + 1), np.empty(longest), np.empty(longest)
    for n in range(len(offsets) - 1):
        a, b = offsets[n], offsets[n + 1]
        value[n] = 0.0
        gradient[a:b] = 0.0
        own = hash_state(key[n] ^ turn)
        while a < b:
            end = a + 1
            while end < b and mark[end] == 0:
                end += 1
            left = b - a
            mean = 0.0
            for t in range(left):
                mean += score[a + t] / left
            for t in range(left):
                centred[t] = score[a + t] - mean
                held[t] = 1 if a + t < end else 0
                order[t] = t
                share[t] = 0.0
            # What is left says which stage it is.
            state = hash_state(own + STEP * np.uint64(left))
            run_chain(centred[:left], held[:left], kind, printed, n_samples, state, order[:left], share[:left])
            if left <= _EXACT:
                value[n] -= exact_stage(score[a:b], False, law[: left + 1], share[:0], share[:0])
            else:
                value[n] -= approximate_stage(score[a:b])
            for t in range(left):
                gradient[a + t] -= share[t] / n_samples
            for t in range(a, end):
                value[n] += score[t] / (end - a)
                gradient[t] += 1.0 / (end - a)
            a = end


@jit
def _even_size(n: int, state: np.uint64) -> tuple[int, np.uint64]:
    """Return the size of a non-empty subset of n, all of them alike, and the next state."""
    size, bits = 0, state
    while size == 0:
        for i in range(n):
            if i % 64 == 0:
                state += STEP
                bits = hash_state(state)
            size += int((bits >> np.uint64(i % 64)) & np.uint64(1))
    return size, state


@jit
def _any_size(law: Floats, total: float, state: np.uint64) -> tuple[int, np.uint64]:
    """Return a size drawn with odds exp(law), and the next state; `total` is the logarithm of their sum."""
    state += STEP
    left = uniform(state)
    last = 0
    for m in range(1, len(law)):
        if law[m] > -np.inf:
            last = m
            left -= math.exp(law[m] - total)
            if left < 0.0:
                break
    return last, state


@jit
def _members(f: Floats, m: int, p: Floats, held: Marks, state: np.uint64) -> np.uint64:
    """Mark m items with odds exp(mean of f); return the next state.

    Items come in one by one, each with the chance of the tilted law, until their number is m. It is the most likely
    one, so that this takes about 2.5 standard deviations of it tries, at most n + 1 on average.
    """
    n = len(f)
    if m == n:
        held[:] = 1
        return state
    low, high = np.inf, -np.inf
    for i in range(n):
        low = min(low, f[i])
        high = max(high, f[i])
    choose_tilt(f, n, m, low, high, 0.0, p)
    size = -1
    while size != m:
        size = 0
        for i in range(n):
            state += STEP
            take = uniform(state) < p[i]
            held[i] = 1 if take else 0
            size += 1 if take else 0
    return state


@jit
def _chosen(f: Floats, m: int, order: Ints, held: Marks, state: np.uint64) -> np.uint64:
    """Mark one item with odds exp(f) and m − 1 others evenly; return the next state."""
    n = len(f)
    high, total = -np.inf, 0.0
    for i in range(n):
        high = max(high, f[i])
    for i in range(n):
        total += math.exp(f[i] - high)
    state += STEP
    left = uniform(state) * total
    first = 0
    for i in range(n):
        worth = math.exp(f[i] - high)
        if worth > 0.0:
            first = i
            left -= worth
            if left < 0.0:
                break
    for i in range(n):
        order[i] = i
        held[i] = 0
    order[first] = n - 1
    held[first] = 1
    state = _shuffle_in(order[: n - 1], m - 1, state)
    for t in range(m - 1):
        held[order[t]] = 1
    return state


@jit
def draw_partitions(score: Floats, general: bool, seeds: Keys, rank: Ints) -> None:
    """Write ordered partitions drawn at random, exactly: ranks 1, 2, ... of the blocks of the items.

    Parameters
    ----------
    score : float64[n]
        Scores.
    general : bool
        Whether the odds of a block are exp(mean of f), else the mean of exp(f).
    seeds : uint64[draws]
        One for each.
    rank : int64[draws, n]
        Written.

    Notes
    -----
    With the mean of exp(f) a size m has the share (n over m)/(2^n − 1) whatever the scores, and given the size one
    item has odds exp(f) and the others are even. With exp(mean of f) sizes have exact shares, and given the size the
    items are independent under the condition that there are so many.
    """
    whole = len(score)
    mean = 0.0
    for i in range(whole):
        mean += (score[i] - score[0]) / whole
    mean += score[0]
    f, p = np.empty(whole), np.empty(whole)
    item, order = np.empty(whole, dtype=np.int64), np.empty(whole, dtype=np.int64)
    held = np.empty(whole, dtype=np.uint8)
    first, law = np.empty(whole + 1), np.empty(whole + 1)
    for i in range(whole):
        f[i] = score[i] - mean
    all_odds = exact_stage(f, False, first, p[:0], p[:0]) if general and whole > 0 else 0.0
    for d in range(len(seeds)):
        state = seeds[d]
        for i in range(whole):
            item[i] = i
            f[i] = score[i] - mean
        n, stage = whole, 0
        while n > 0:
            stage += 1
            if general:
                if n == whole:
                    m, state = _any_size(first, all_odds, state)
                else:
                    odds = exact_stage(f[:n], False, law[: n + 1], p[:0], p[:0])
                    m, state = _any_size(law[: n + 1], odds, state)
                state = _members(f[:n], m, p[:n], held[:n], state)
            else:
                m, state = _even_size(n, state)
                state = _chosen(f[:n], m, order[:n], held[:n], state)
            left = 0
            for t in range(n):
                if held[t]:
                    rank[d, item[t]] = stage
                else:
                    item[left] = item[t]
                    f[left] = f[t]
                    left += 1
            n = left
