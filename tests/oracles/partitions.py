"""Ordered partitions as the definitions are written: sums over every subset, and over every partition."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Blocks = Sequence[Sequence[int]]


def subsets(n: int) -> Iterator[tuple[int, ...]]:
    """Yield every non-empty subset of range(n)."""
    return chain.from_iterable(combinations(range(n), m) for m in range(1, n + 1))


def log_odds(f: Sequence[float], potential: str) -> float:
    """Return log Φ of a block with these scores."""
    top = max(f)
    if potential == "general":
        return math.fsum(f) / len(f)
    return top + math.log(math.fsum(math.exp(x - top) for x in f) / len(f))


def stage(f: Sequence[float]) -> tuple[float, Floats, Floats, Floats]:
    """Return log Σ_S Φ(S) of the general potential, its gradient, P(i in S) and P(|S| = m), by enumeration."""
    n = len(f)
    every = list(subsets(n))
    logs = np.array([log_odds([f[i] for i in s], "general") for s in every])
    top = logs.max()
    odds = np.exp(logs - top)
    share, inside, size = np.zeros(n), np.zeros(n), np.zeros(n + 1)
    for s, p in zip(every, odds / odds.sum(), strict=True):
        size[len(s)] += p
        for i in s:
            inside[i] += p
            share[i] += p / len(s)
    return float(top + np.log(odds.sum())), share, inside, size


def symmetric(y: Sequence[Decimal], m: int) -> list[Decimal]:
    """Return the elementary symmetric polynomials 0..m of y."""
    e = [Decimal(1)] + [Decimal(0)] * m
    for value in y:
        for j in range(m, 0, -1):
            e[j] += value * e[j - 1]
    return e


def decimal_stage(f: Sequence[float], digits: int = 60) -> tuple[float, Floats]:
    """Return log Σ_S Φ(S) of the general potential and its gradient, by symmetric polynomials in many digits."""
    n = len(f)
    with localcontext() as context:
        context.prec = digits
        context.Emax, context.Emin = 999_999_999, -999_999_999
        z = Decimal(0)
        share = [Decimal(0)] * n
        for m in range(1, n + 1):
            y = [(Decimal(float(x)) / m).exp() for x in f]
            z += symmetric(y, m)[m]
            for i in range(n):
                share[i] += y[i] / m * symmetric(y[:i] + y[i + 1 :], m - 1)[m - 1]
        return float(z.ln()), np.array([float(s / z) for s in share])


def log_symmetric(f: Floats, m: int) -> float:
    """Return log e_m(exp(f / m)) by the recurrence on logarithms."""
    e = np.full(m + 1, -np.inf)
    e[0] = 0.0
    for x in f / m:
        e[1:] = np.logaddexp(e[1:], e[:-1] + x)
    return float(e[m])


def log_probability(f: Sequence[float], blocks: Blocks, potential: str) -> float:
    """Return the log-probability of an ordered partition by enumeration of the subsets of every stage."""
    total = 0.0
    for k, block in enumerate(blocks):
        left = [f[i] for i in chain.from_iterable(blocks[k:])]
        logs = np.array([log_odds([left[i] for i in s], potential) for s in subsets(len(left))])
        total += log_odds([f[i] for i in block], potential) - float(np.logaddexp.reduce(logs))
    return total


def ranks_of(blocks: Blocks) -> NDArray[np.int64]:
    """Return the rank of every item of an ordered partition of range(n)."""
    out = np.empty(sum(map(len, blocks)), dtype=np.int64)
    for k, block in enumerate(blocks, start=1):
        out[list(block)] = k
    return out
