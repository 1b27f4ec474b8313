"""Coset-permutation distance based stagewise model (CPS): greedy inference and likelihood.

A ranking is built stage by stage. The coset-permutation distance of a partial ranking is the mean distance of all its
completions from a list. A stage needs its increase for every remaining item, which has a closed form up to a constant,
so a stage costs one pass over the remaining items.
"""

from __future__ import annotations

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.kernels.jit import jit

__all__ = ["DISTANCES", "greedy", "tied_likelihood"]

# The codes of the distances in the kernels.
DISTANCES = {"kendall": 0, "footrule": 1, "spearman": 2}

_KENDALL, _FOOTRULE = 0, 1
# Costs that differ by less than this share of the largest possible cost are equal.
_EQUAL = 1e-12


@jit
def _stage_cost(distance: int, s: float, stage: int, n: int) -> float:
    """Return p(s - stage) less the mean of p(s - q) over the places q behind, p = |x| or x² (not for Kendall)."""
    behind = n - stage
    if distance != _FOOTRULE:
        # The squares of s cancel; the rest is linear in s.
        return s * (n + 1.0 - stage) if behind > 0 else 0.0
    own = abs(s - stage)
    if behind == 0:
        return own
    # Places stage + 1 .. stage + near lie at or before s, the others behind it.
    near = min(max(int(np.floor(s)) - stage, 0), behind)
    far = behind - near
    before = near * (s - stage) - 0.5 * near * (near + 1.0)
    after = far * (stage + near - s) + 0.5 * far * (far + 1.0)
    return own - (before + after) / behind


@jit
def _ahead(own: float, other: float) -> float:
    """Return 1 if the other position is before the own one, 1/2 if they tie, else 0."""
    return 1.0 if other < own else (0.5 if other == own else 0.0)


@jit
def greedy(position: Floats, theta: Floats, distance: int) -> Ints:
    """Return the place of every item when each stage takes the item of least cost.

    Among items of equal cost, the smallest weighted sum of positions comes first; items equal in that too share a
    place. Cost O(L n²) for Kendall and footrule.

    Parameters
    ----------
    position : float64[L, n]
        The position of every item in every list; items that tie share the mean of their places.
    theta : float64[L]
        The weights of the lists, >= 0.
    distance : int
        See `DISTANCES`.
    """
    lists, n = position.shape
    place, left, taken = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    size = 0.0
    total, cost = np.zeros(n), np.zeros(n)
    for k in range(lists):
        size += theta[k]
        for j in range(n):
            total[j] += theta[k] * position[k, j]
    for j in range(n):
        left[j] = j
        # Kendall: with all items left, position - 1 is the number of items before, ties counting half.
        cost[j] = total[j]
    most = size * n * (1.0 if distance <= _FOOTRULE else n)
    stage = 1
    while stage <= n:
        remaining = n - stage + 1
        if distance != _KENDALL:
            for a in range(remaining):
                cost[left[a]] = 0.0 if distance == _FOOTRULE else _stage_cost(distance, total[left[a]], stage, n)
        if distance == _FOOTRULE:
            # List by list, to read positions in memory order.
            for k in range(lists):
                for a in range(remaining):
                    cost[left[a]] += theta[k] * _stage_cost(distance, position[k, left[a]], stage, n)
        best = np.inf
        for a in range(remaining):
            best = min(best, cost[left[a]])
        first = np.inf
        for a in range(remaining):
            if cost[left[a]] <= best + _EQUAL * most:
                first = min(first, total[left[a]])
        group = 0
        kept = 0
        for a in range(remaining):
            j = left[a]
            if cost[j] <= best + _EQUAL * most and total[j] <= first + _EQUAL * size * n:
                place[j] = stage
                taken[group] = j
                group += 1
            else:
                left[kept] = j
                kept += 1
        if distance == _KENDALL:
            for g in range(group):
                for k in range(lists):
                    gone = position[k, taken[g]]
                    for a in range(kept):
                        cost[left[a]] -= theta[k] * _ahead(position[k, left[a]], gone)
        stage += group
    return place


@jit
def tied_likelihood(
    position: Floats, theta: Floats, level: Ints, distance: int, gradient: Floats, curvature: Floats
) -> tuple[float, int]:
    """Return the log-likelihood of an order with ties and the number of its stages; add the derivatives by theta.

    The order puts items of level 0 first, then level 1, and so on. Within a level the order is unknown: a stage that
    takes one of m equal items has their mean cost, and the m - t + 1 of them that are left at the t-th such stage count
    as (m - t + 1) / m of each. This is the average over random orders within the level. It is concave in theta, and
    exact without ties. Stages with items of one level only are constant and left out. Cost O(L n²).

    Parameters
    ----------
    position, theta, distance
        As in `greedy`.
    level : int64[n]
        0 = best; no level between 0 and the last is empty.
    gradient, curvature : float64[L]
        To these are added the first derivatives by theta, and minus the second ones.
    """
    lists, n = position.shape
    levels = 0
    for j in range(n):
        levels = max(levels, level[j] + 1)
    before = np.zeros((lists, n))
    if distance == _KENDALL:
        for k in range(lists):
            for j in range(n):
                before[k, j] = position[k, j] - 1.0
    equal = np.zeros((lists, n))
    grown = np.zeros((lists, n))
    cost = np.zeros(n)
    share = np.zeros(n)
    members = np.empty(n, np.int64)
    left = np.empty(n, np.int64)
    out = 0.0
    stages = 0
    taken = 0
    for v in range(levels - 1):
        m = 0
        remaining = 0
        for j in range(n):
            if level[j] == v:
                members[m] = j
                m += 1
            if level[j] >= v:
                left[remaining] = j
                remaining += 1
        if distance == _KENDALL:
            for k in range(lists):
                for a in range(remaining):
                    j = left[a]
                    equal[k, j] = 0.0
                    for b in range(m):
                        if members[b] != j:
                            equal[k, j] += _ahead(position[k, j], position[k, members[b]])
        for t in range(1, m + 1):
            # The expected share of the level that remains, as seen by a member of it and by another item.
            for_member = (m - t) / (m - 1.0) if m > 1 else 0.0
            for_other = (m - t + 1.0) / m
            least = np.inf
            chosen = 0.0
            for a in range(remaining):
                j = left[a]
                met = for_member if level[j] == v else for_other
                cost[j] = 0.0
                for k in range(lists):
                    if distance == _KENDALL:
                        grown[k, j] = before[k, j] - (1.0 - met) * equal[k, j]
                    else:
                        grown[k, j] = _stage_cost(distance, position[k, j], taken + t, n)
                    cost[j] += theta[k] * grown[k, j]
                least = min(least, cost[j])
                if level[j] == v:
                    chosen += cost[j] / m
            total = 0.0
            for a in range(remaining):
                j = left[a]
                share[j] = np.exp(least - cost[j]) * (for_other if level[j] == v else 1.0)
                total += share[j]
            out += least - chosen - np.log(total)
            stages += 1
            for k in range(lists):
                mean = 0.0
                square = 0.0
                own = 0.0
                for a in range(remaining):
                    j = left[a]
                    mean += share[j] / total * grown[k, j]
                    if level[j] == v:
                        own += grown[k, j] / m
                for a in range(remaining):
                    j = left[a]
                    square += share[j] / total * (grown[k, j] - mean) ** 2
                gradient[k] += mean - own
                curvature[k] += square
        if distance == _KENDALL:
            for k in range(lists):
                for a in range(remaining):
                    before[k, left[a]] -= equal[k, left[a]]
        taken += m
    return out, stages
