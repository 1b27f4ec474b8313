"""Log-likelihoods list by list, for mixtures of ranking models, and the centre of weighted lists.

A mixture asks every list how probable it is under each component, and every component for its fit to weighted lists.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.jit import jit
from concordant.kernels.plackett_luce import Marks, _list_derivatives, _worths, longest_list

__all__ = ["discordances", "insertion_search", "list_pair_values", "preference_costs", "ranking_log_likelihoods"]


@jit
def ranking_log_likelihoods(
    x: Floats,
    phi: Floats,
    item: Codes,
    mark: Marks,
    offsets: Ints,
    form: Marks,
    averaged: bool,
    out: Floats,
) -> None:
    """Write the Plackett-Luce log-likelihood of every list; parameters as in `plackett_luce.log_likelihood`."""
    longest = longest_list(offsets)
    f, above, gain = np.empty(longest), np.empty(longest), np.empty(longest)
    hazard, inside, across = np.empty(longest), np.empty(longest), np.empty(longest)
    total = phi.sum()
    for n in range(len(offsets) - 1):
        a = offsets[n]
        m = offsets[n + 1] - a
        if form[n] == 0:
            value, left, product = 0.0, phi[item[a + m - 1]], 1.0
            for t in range(m - 2, -1, -1):
                worth = phi[item[a + t]]
                left += worth
                product *= worth / left
                if product < 1e-30:
                    value += np.log(product)
                    product = 1.0
            out[n] = value + np.log(product)
            continue
        held = _worths(phi, x, item, a, m, 1.0, True, f)
        left = total - held if form[n] == 2 else 0.0
        out[n] = _list_derivatives(f, mark, a, m, left, averaged, above, gain, hazard, inside, across)[0]


@jit
def list_pair_values(
    value: Floats, item: Codes, offsets: Ints, binary: bool, ties: bool, win: Floats, tie: Floats, out: Floats
) -> None:
    """Write the sum over all pairs of every list of the log-probabilities of their outcomes.

    Parameters
    ----------
    value, item, offsets
        The items of every list with values of which the smaller is better; their differences are counts.
    binary, ties : bool
        Whether every pair counts 1, and whether equal values are ties.
    win, tie : float64[M, M]
        The log-probability that the item of the row wins, and that the two tie.
    out : float64[L]
        Out.
    """
    for n in range(len(offsets) - 1):
        total = 0.0
        for s in range(offsets[n], offsets[n + 1]):
            for t in range(s + 1, offsets[n + 1]):
                gap = value[t] - value[s]
                if gap > 0.0:
                    total += (1.0 if binary else gap) * win[item[s], item[t]]
                elif gap < 0.0:
                    total += (1.0 if binary else -gap) * win[item[t], item[s]]
                elif ties:
                    total += tie[item[s], item[t]]
        out[n] = total


@jit
def preference_costs(item: Codes, group: Codes, offsets: Ints, weight: Floats, below: bool, cost: Floats) -> None:
    """Write what it costs to rank the item of the row above that of the column: the weight of the lists that disagree.

    Rows of a list are best first, and items of one group are tied. With `below`, items that a list leaves out are
    below its items.
    """
    n = len(cost)
    cost[:] = 0.0
    held = np.zeros(n, dtype=np.bool_)
    for k in range(len(offsets) - 1):
        w = weight[k]
        if w == 0.0:
            continue
        a, b = offsets[k], offsets[k + 1]
        for s in range(a, b):
            i = item[s]
            held[i] = True
            for t in range(s + 1, b):
                if group[t] != group[s]:
                    cost[item[t], i] += w
        if below:
            for s in range(a, b):
                for j in range(n):
                    if not held[j]:
                        cost[j, item[s]] += w
        for s in range(a, b):
            held[item[s]] = False


@jit
def discordances(place: Ints, item: Codes, group: Codes, offsets: Ints, below: bool, out: Floats) -> None:
    """Write for every list the number of pairs that it orders unlike the ranking; parameters as above."""
    n = len(place)
    held = np.zeros(n, dtype=np.bool_)
    for k in range(len(offsets) - 1):
        a, b = offsets[k], offsets[k + 1]
        total = 0
        for s in range(a, b):
            here = place[item[s]]
            held[item[s]] = True
            for t in range(s + 1, b):
                if group[t] != group[s] and place[item[t]] < here:
                    total += 1
        if below:
            for j in range(n):
                if not held[j]:
                    for s in range(a, b):
                        if place[j] < place[item[s]]:
                            total += 1
        for s in range(a, b):
            held[item[s]] = False
        out[k] = total


@jit
def insertion_search(cost: Floats, order: Any) -> float:
    """Improve the order by moving single items until no move helps; return the cost of the result.

    `cost` is that of ranking the item of the row above that of the column.
    """
    n = len(order)
    scale = 0.0
    for i in range(n):
        for j in range(n):
            scale = max(scale, cost[i, j])
    slack = 1e-9 * scale
    improved = True
    while improved:
        improved = False
        for item in range(n):
            here = 0
            while order[here] != item:
                here += 1
            best, target, gain = -slack, here, 0.0
            for p in range(here - 1, -1, -1):
                gain += cost[item, order[p]] - cost[order[p], item]
                if gain < best:
                    best, target = gain, p
            gain = 0.0
            for p in range(here + 1, n):
                gain += cost[order[p], item] - cost[item, order[p]]
                if gain < best:
                    best, target = gain, p
            if target < here:
                for p in range(here, target, -1):
                    order[p] = order[p - 1]
            elif target > here:
                for p in range(here, target):
                    order[p] = order[p + 1]
            if target != here:
                order[target] = item
                improved = True
    total = 0.0
    for s in range(n):
        for t in range(s + 1, n):
            total += cost[order[s], order[t]]
    return total
