"""Plain-Python twins of the array code on lists: slow, short, and written without looking at it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise


def split(values: Sequence[float], offsets: Sequence[int]) -> list[list[float]]:
    """Return the lists that lie end to end in `values`."""
    return [list(values[a:b]) for a, b in pairwise(offsets)]


def order(keys: Sequence[float]) -> list[int]:
    """Return the row numbers of one list by key ascending, equal keys in row order."""
    return sorted(range(len(keys)), key=lambda i: (keys[i], i))


def positions(keys: Sequence[float], ties: str) -> list[float]:
    """Return the position of every row of one list, 1 = smallest key."""
    out = []
    for i, x in enumerate(keys):
        below = sum(y < x for y in keys)
        equal = sum(y == x for y in keys)
        out.append(
            {
                "min": below + 1,
                "max": below + equal,
                "average": below + (equal + 1) / 2,
                "dense": len({y for y in keys if y < x}) + 1,
                "ordinal": below + 1 + sum(y == x for y in keys[:i]),
            }[ties]
        )
    return [float(v) for v in out]


def strength(ranks: Sequence[float], transform: str) -> list[list[float]]:
    """Return the pairwise matrix of one list: how strongly i is preferred to j."""
    m = len(ranks)
    out = [[0.0] * m for _ in range(m)]
    largest = max(ranks, default=1.0)
    for i in range(m):
        for j in range(m):
            if ranks[i] < ranks[j]:
                if transform == "binary":
                    out[i][j] = 1.0
                elif transform == "count":
                    out[i][j] = ranks[j] - ranks[i]
                elif transform == "rankdiff":
                    out[i][j] = (ranks[j] - ranks[i]) / largest
                else:
                    out[i][j] = (math.log(ranks[j]) - math.log(ranks[i])) / math.log(largest)
    return out


def rank_scores(scores: Sequence[float]) -> tuple[list[int], list[int]]:
    """Return ranks (1 = best, ties share the smallest) and the order of one instance.

    Neighbours in the sorted order tie when they differ by no more than 1e-12 of the largest magnitude.
    """
    by_score = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    allowed = 1e-12 * max((abs(s) for s in scores), default=0.0)
    groups: list[list[int]] = []
    for i in by_score:
        if groups and scores[groups[-1][-1]] - scores[i] <= allowed:
            groups[-1].append(i)
        else:
            groups.append([i])
    rank = [0] * len(scores)
    listing: list[int] = []
    for group in groups:
        for i in group:
            rank[i] = len(listing) + 1
        listing += sorted(group)
    return rank, listing
