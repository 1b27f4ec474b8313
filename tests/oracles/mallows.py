"""Mallows models by enumeration, in plain Python: every list, every ranking, every pair.

A list is a sequence of groups of tied items, best first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations

Groups = Sequence[Sequence[int]]


def distance(order: Sequence[int], k: int, groups: Groups, below: bool = True) -> int:
    """Return the discordant pairs of a list and the first k of an order, less r(r − 1)/2; see SPEC §8.2."""
    ours = {x: p if p < k else k for p, x in enumerate(order)}
    theirs = {x: g for g, group in enumerate(groups) for x in group}
    total = 0
    for x, y in combinations(order, 2):
        if below:
            a, b = theirs.get(x, len(groups)), theirs.get(y, len(groups))
        elif x in theirs and y in theirs:
            a, b = theirs[x], theirs[y]
        else:
            continue
        total += (ours[x] - ours[y]) * (a - b) < 0
    r = sum(ours[x] == k for x in theirs) if below else 0
    return total - r * (r - 1) // 2


def common(order: Sequence[int], k: int, groups: Groups) -> int:
    """Return how many items of a list are among the first k."""
    return len(set(order[:k]) & {x for group in groups for x in group})


def shaped(items: Iterable[int], sizes: Sequence[int]) -> Iterator[list[tuple[int, ...]]]:
    """Yield every list of items of a pool whose groups have these sizes."""
    pool = tuple(items)
    if not sizes:
        yield []
        return
    for group in combinations(pool, sizes[0]):
        for rest in shaped((x for x in pool if x not in group), sizes[1:]):
            yield [group, *rest]


def law(theta: float, sizes: Sequence[int], k: int, n: int, z: int | None = None) -> tuple[float, float]:
    """Return the log normaliser and the mean distance of lists of this shape to the order 0..n − 1, given z or not."""
    order = list(range(n))
    total = moment = 0.0
    for groups in shaped(order, sizes):
        if z is None or common(order, k, groups) == z:
            d = distance(order, k, groups)
            total += math.exp(theta * d)
            moment += d * math.exp(theta * d)
    return math.log(total), moment / total


class Posterior:
    """The true rankings of n items given lists, u the weight times θ of each, by enumeration."""

    def __init__(self, n: int, k: int, lists: Sequence[Groups], u: Sequence[float], below: bool = True) -> None:
        self.n, self.k = n, k
        self.orders = list(permutations(range(n)))
        self.distances = [[distance(o, k, g, below) for g in lists] for o in self.orders]
        self.energy = [sum(w * d for w, d in zip(u, ds, strict=True)) for ds in self.distances]
        top = max(self.energy)
        odds = [math.exp(e - top) for e in self.energy]
        self.log_sum = top + math.log(sum(odds))
        self.probability = [o / sum(odds) for o in odds]
        self.shared = [[common(o, k, g) for g in lists] for o in self.orders]

    def mean_distances(self) -> list[float]:
        """Return the expected distance of every list."""
        pairs = list(zip(self.probability, self.distances, strict=True))
        return [sum(p * d[i] for p, d in pairs) for i in range(len(self.distances[0]))]

    def law_of_common(self, which: int) -> list[float]:
        """Return how probable it is that so many items of a list are among the first k."""
        out = [0.0] * (self.k + 1)
        for p, z in zip(self.probability, self.shared, strict=True):
            out[z[which]] += p
        return out

    def mean_positions(self) -> list[float]:
        """Return the expected position of every item; below place k the mean of what is left."""
        rest = (self.k + 1 + self.n) / 2
        out = [0.0] * self.n
        for p, order in zip(self.probability, self.orders, strict=True):
            for place, x in enumerate(order):
                out[x] += p * (place + 1 if place < self.k else rest)
        return out


def log_likelihood(instances: Sequence[tuple[int, Sequence[Groups], Sequence[int]]], theta: Sequence[float]) -> float:
    """Return the log-likelihood of full models: each instance is its size, its lists and their experts."""
    total = 0.0
    for n, lists, experts in instances:
        posterior = Posterior(n, n, lists, [theta[e] for e in experts])
        total += posterior.log_sum - math.lgamma(n + 1)
        total -= sum(law(theta[e], [len(g) for g in groups], n, n)[0] for groups, e in zip(lists, experts, strict=True))
    return total
