"""Plain-Python twin of Plackett-Luce with Davidson-Luce ties: every set is enumerated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

Blocks = Sequence[Sequence[int]]


def worth(chosen: Sequence[int], score: Sequence[float], delta: Mapping[int, float]) -> float:
    """Return δ_k (Π worths)^(1/k) of a set of k items."""
    return delta[len(chosen)] * math.exp(sum(score[i] for i in chosen) / len(chosen))


def log_probability(
    blocks: Blocks, score: Sequence[float], delta: Mapping[int, float], left: Sequence[int] = ()
) -> float:
    """Return the log-probability of an ordered partition; `left` are items below it that are not ordered."""
    out = 0.0
    remaining = [i for block in blocks for i in block] + list(left)
    for block in blocks:
        sets = [c for k in delta for c in combinations(remaining, k)]
        out += math.log(worth(block, score, delta) / math.fsum(worth(c, score, delta) for c in sets))
        remaining = [i for i in remaining if i not in block]
    return out


def ordered_partitions(items: Sequence[int], largest: int) -> Iterator[list[list[int]]]:
    """Yield every ordered partition of the items into blocks of at most `largest` items."""
    if not items:
        yield []
        return
    for k in range(1, min(largest, len(items)) + 1):
        for first in combinations(items, k):
            rest = [i for i in items if i not in first]
            for others in ordered_partitions(rest, largest):
                yield [list(first), *others]
