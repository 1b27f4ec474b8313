"""Kemeny rankings: dynamic programming, integer programming and local search.

All functions take `cost`, where cost[i, j] >= 0 is the cost of ranking i above j. The cost of a ranking is the sum over
its pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints

__all__ = [
    "KemenySolution",
    "OptimalRankings",
    "SubsetCosts",
    "dense_components",
    "integer_program",
    "local_search",
    "mean_positions",
    "optimal_orders",
    "optimal_weak_orders",
    "ranking_cost",
    "subset_dp",
]

# A constraint is violated, and a variable is fractional, beyond the tolerance of the solver.
_SOLVER_TOLERANCE = 1e-6
# Up to this size whole numbers are exact in the solver.
_MOST_VOTES = 1e9
_CUTS_PER_ROUND = 4000


class KemenySolution(NamedTuple):
    """A ranking of one group of items.

    Attributes
    ----------
    position : float64[n]
        1 = best; tied items share the mean of their places.
    cost, bound : float
        Its cost, and a lower bound of the cost of any ranking.
    unique : bool or None
        Whether no other ranking has the least cost; None if that is unknown.
    chosen : bool
        Whether a tie-break chose between rankings of equal cost.
    """

    position: Floats
    cost: float
    bound: float
    unique: bool | None = None
    chosen: bool = False


def ranking_cost(cost: Floats, order: NDArray[Any]) -> float:
    """Return the cost of a ranking (items, best first).

    >>> ranking_cost(np.array([[0.0, 1.0], [5.0, 0.0]]), np.array([1, 0]))
    5.0
    """
    return float(np.triu(cost[np.ix_(order, order)], 1).sum())


def dense_components(beats: NDArray[np.bool_]) -> Ints:
    """Return the number of each item's strongly connected component in the graph i -> j where beats[i, j].

    Numbers follow the arrows: an arrow between two components leads from the lower number to the higher. O(n²) in
    machine words of 30 bits. It stays beside `graph.strong_components` because that one is compiled, and SciPy's takes
    long to import: Kemeny of a few items needs neither.

    >>> dense_components(np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0]], dtype=bool)).tolist()
    [0, 1, 1]
    """
    n = len(beats)
    forward, backward = _bit_rows(beats), _bit_rows(beats.T)
    left = (1 << n) - 1
    finished: list[int] = []
    for root in range(n):
        if not left >> root & 1:
            continue
        left &= ~(1 << root)
        stack = [root]
        while stack:
            ahead = forward[stack[-1]] & left
            if ahead:
                item = (ahead & -ahead).bit_length() - 1
                left &= ~(1 << item)
                stack.append(item)
            else:
                finished.append(stack.pop())
    out = np.full(n, -1, dtype=np.int64)
    left = (1 << n) - 1
    number = 0
    for root in reversed(finished):
        if not left >> root & 1:
            continue
        frontier = 1 << root
        while frontier:
            bit = frontier & -frontier
            left &= ~bit
            item = bit.bit_length() - 1
            out[item] = number
            frontier = (frontier | backward[item]) & left
        number += 1
    return out


def _bit_rows(table: NDArray[np.bool_]) -> list[int]:
    """Return every row of a table as one whole number, column j being bit j."""
    packed = np.packbits(table, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


class SubsetCosts(NamedTuple):
    """The rankings of least cost, as paths through the subsets of the items: from none of them to all.

    Attributes
    ----------
    bit : int64[n]
        The number of the subset that holds one item alone.
    of_size : list of int64[]
        The subsets of 0, 1, ..., n items.
    below : float64[n, 2**n]
        The cost of ranking an item below all of a subset.
    rest : float64[2**n]
        The least cost of the items outside a subset, given that the subset is above them.
    slack : float
        The tolerance of equal costs.
    """

    bit: Ints
    of_size: list[Ints]
    below: Floats
    rest: Floats
    slack: float

    @property
    def cost(self) -> float:
        """The least cost."""
        return float(self.rest[0])


def subset_costs(cost: Floats, slack: float) -> SubsetCosts:
    """Return the costs of all subsets, by dynamic programming: O(2**n n) time and memory for n items."""
    n = len(cost)
    size = 1 << n
    below = np.zeros((n, size))
    for i in range(n):
        below[:, 1 << i : 2 << i] = below[:, : 1 << i] + cost[i][:, None]
    subsets = np.arange(size, dtype=np.int64)
    count = np.bitwise_count(subsets)
    of_size = [subsets[count == p] for p in range(n + 1)]
    out = SubsetCosts(1 << np.arange(n, dtype=np.int64), of_size, below, np.zeros(size), slack)
    for sets in of_size[-2::-1]:
        out.rest[sets] = _prices(out, sets).min(axis=0)
    return out


def _prices(known: SubsetCosts, sets: Ints) -> Floats:
    outside = (sets & known.bit[:, None]) == 0
    price: Floats = np.where(outside, known.below[:, sets] + known.rest[sets | known.bit[:, None]], np.inf)
    return price


def optimal_steps(known: SubsetCosts, sets: Ints) -> tuple[Ints, Ints]:
    """Return the next items of optimal rankings that begin with one of these sets, and the places of the sets."""
    item, place = np.nonzero(_prices(known, sets) <= known.rest[sets] + known.slack)
    return item, place


def subset_dp(cost: Floats, key: Ints, slack: float = 0.0) -> KemenySolution:
    """Return the positions of the items in an optimal ranking by dynamic programming, in O(2**n n) time and memory.

    Among several optimal rankings, the larger key at the first difference decides. Where equal keys leave several, the
    ranking is cut at every place where all of them have the same items above, and the items between two cuts share the
    mean of their places. The answer does not depend on the order of the items.

    Parameters
    ----------
    cost : float64[n, n]
        The cost of ranking i above j.
    key : int64[n]
        Tie-break: larger is better.
    slack : float
        The tolerance of equal costs.

    >>> circle = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    >>> subset_dp(circle, np.array([0, 0, 0])).position.tolist()
    [2.0, 2.0, 2.0]
    >>> subset_dp(circle, np.array([0, 1, 0]))
    KemenySolution(position=array([2., 1., 3.]), cost=1.0, bound=1.0, unique=False, chosen=True)
    """
    n = len(cost)
    optimal = subset_costs(cost, slack)
    bit = optimal.bit
    unique, chosen = True, False
    steps: list[tuple[Ints, Ints]] = []
    sets = optimal.of_size[0]
    for _ in range(n):
        item, place = optimal_steps(optimal, sets)
        wanted = key[item] == key[item].max()
        unique &= len(item) == 1
        chosen |= not wanted.all()
        before = sets[place[wanted]]
        after = before | bit[item[wanted]]
        steps.append((before, after))
        sets = np.unique(after)
    position = np.zeros(n)
    end, lower = n, (1 << n) - 1  # the cut below: the number and the set of the items above it
    for p in range(n - 1, -1, -1):
        before, after = steps[p]
        sets = np.unique(before[np.isin(after, sets)])
        if len(sets) == 1:
            upper = int(sets[0])
            position[(lower & ~upper & bit) != 0] = (p + 1 + end) / 2
            end, lower = p, upper
    return KemenySolution(position, optimal.cost, optimal.cost, unique, chosen)


class OptimalRankings(NamedTuple):
    """All rankings of least cost: how many there are, the mean position of each item in them, and their cost."""

    number: float
    position: Floats
    cost: float


def mean_positions(cost: Floats, slack: float = 0.0) -> OptimalRankings:
    """Return the number of optimal rankings and the mean positions of the items in them, in O(2**n n).

    >>> mean_positions(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
    OptimalRankings(number=3.0, position=array([2., 2., 2.]), cost=1.0)
    """
    n = len(cost)
    optimal = subset_costs(cost, slack)
    # The number of ways from the empty set to each set, and from each set to the whole.
    ways, left = np.zeros(1 << n), np.zeros(1 << n)
    ways[0] = left[-1] = 1.0
    steps: list[tuple[Ints, Ints, Ints]] = []
    sets = optimal.of_size[0]
    for _ in range(n):
        item, place = optimal_steps(optimal, sets)
        before, after = sets[place], sets[place] | optimal.bit[item]
        np.add.at(ways, after, ways[before])
        steps.append((item, before, after))
        sets = np.unique(after)
    total = np.zeros(n)
    for p, (item, before, after) in reversed(list(enumerate(steps, 1))):
        np.add.at(left, before, left[after])
        np.add.at(total, item, p * ways[before] * left[after])
    return OptimalRankings(float(left[0]), total / left[0], optimal.cost)


def optimal_orders(cost: Floats, slack: float = 0.0) -> Iterator[list[int]]:
    """Yield every optimal ranking (items, best first), in lexicographic order.

    >>> list(optimal_orders(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])))
    [[0, 2, 1], [1, 0, 2], [2, 1, 0]]
    """
    optimal = subset_costs(cost, slack)

    def orders(above: int) -> Iterator[list[int]]:
        items = optimal_steps(optimal, np.array([above], dtype=np.int64))[0].tolist()
        if not items:
            yield []
        for item in items:
            yield from ([item, *rest] for rest in orders(above | 1 << item))

    return orders(0)


def optimal_weak_orders(cost: Floats, tie: Floats, slack: float = 0.0) -> Iterator[list[list[int]]]:
    """Yield every ranking with ties of least cost, as groups of tied items, best first; O(3**n) time.

    Parameters
    ----------
    cost : float64[n, n]
        The cost of ranking i above j.
    tie : float64[n, n]
        The cost of tying the two.
    slack : float
        The tolerance of equal costs.

    >>> list(optimal_weak_orders(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[0.0, 0.5], [0.5, 0.0]])))
    [[[0, 1]]]
    """
    n = len(cost)
    whole = (1 << n) - 1
    below, within = np.zeros((n, whole + 1)), np.zeros(whole + 1)
    for i in range(n):
        old, new = slice(1 << i), slice(1 << i, 2 << i)
        below[:, new] = below[:, old] + cost[i][:, None]
        # The items of the old sets that i joins.
        members = (np.arange(1 << i)[:, None] >> np.arange(n)) & 1
        within[new] = within[old] + members @ tie[i]
    rest = np.zeros(whole + 1)

    def prices(above: int) -> tuple[Ints, Floats]:
        """Return the groups that may follow a set of items, and the least cost of all that is not in the set."""
        groups, price = np.zeros(1, dtype=np.int64), np.zeros(1)
        for i in range(n):
            if not above >> i & 1:
                groups = np.concatenate([groups, groups | 1 << i])
                price = np.concatenate([price, price + below[i, above]])
        groups, price = groups[1:], price[1:]
        return groups, price + within[groups] + rest[above | groups]

    for above in range(whole - 1, -1, -1):
        rest[above] = prices(above)[1].min()

    def orders(above: int) -> Iterator[list[list[int]]]:
        if above == whole:
            yield []
            return
        groups, price = prices(above)
        for group in groups[price <= rest[above] + slack].tolist():
            items = [i for i in range(n) if group >> i & 1]
            yield from ([items, *after] for after in orders(above | group))

    return orders(0)


def local_search(cost: Floats, order: Ints, slack: float = 0.0) -> Ints:
    """Return the order improved by moving single items to their best place until no move gains more than `slack`.

    O(n²) for each pass over the items.

    >>> local_search(np.array([[0.0, 1.0], [5.0, 0.0]]), np.array([1, 0])).tolist()
    [0, 1]
    """
    above = cost - cost.T  # the extra cost of i above j over i below j
    order = order.copy()
    items = order.tolist()
    improved = True
    while improved:
        improved = False
        for item in items:
            here = int(np.flatnonzero(order == item)[0])
            others = np.delete(order, here)
            # gain[b]: the cost with the item before others[b], relative to its cost in last place.
            gain = np.append(np.cumsum(above[item, others][::-1])[::-1], 0.0)
            target = int(np.argmin(gain))
            if gain[target] < gain[here] - slack:
                order = np.insert(others, target, item)
                improved = True
    return order


def integer_program(cost: Floats, order: Ints, deadline: float, slack: float = 0.0) -> KemenySolution:
    """Return an optimal ranking with its proof, or the best ranking found by `deadline` and a lower bound.

    One binary variable for each pair, with the constraint that no three items form a cycle. Constraints are added only
    when a solution violates them, first in the linear relaxation, then with integer variables. Every fractional
    solution is also rounded and improved by `local_search`, which often attains the bound at once.

    Parameters
    ----------
    cost : float64[n, n]
        The cost of ranking i above j.
    order : int64[n]
        The initial ranking.
    deadline : float
        When to stop, in seconds of `time.monotonic`.
    slack : float
        The tolerance of equal costs.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    # The tolerances of the solver are absolute: fractional costs are scaled by the largest cost.
    whole = bool((cost == np.rint(cost)).all()) and cost.max(initial=0.0) < _MOST_VOTES
    unit = 1.0 if whole else float(np.exp2(np.frexp(cost.max(initial=0.0))[1]))
    cost, slack = cost / unit, slack / unit
    n = len(cost)
    a, b = np.triu_indices(n, 1)
    # Older versions of SciPy give their solver indices of 32 bits only.
    number = np.zeros((n, n), dtype=np.int32)
    number[a, b] = np.arange(len(a))
    price = cost[a, b] - cost[b, a]
    constant = float(cost[b, a].sum())
    order = local_search(cost, order, slack)
    value = ranking_cost(cost, order)
    bound = float(np.minimum(cost[a, b], cost[b, a]).sum())
    cuts = np.zeros((0, 3), dtype=np.int64)
    integral = False
    while value - bound > max(slack, _SOLVER_TOLERANCE * max(value, 1.0) * (not whole)):
        left = deadline - monotonic()
        if left <= 0:
            break
        i, j, k = cuts.T
        columns = np.stack([number[i, j], number[j, k], number[i, k]], axis=1).ravel()
        signs = np.tile([1.0, 1.0, -1.0], len(cuts))
        starts = np.arange(0, 3 * len(cuts) + 1, 3, dtype=np.int32)
        table = csr_array((signs, columns, starts), shape=(len(cuts), len(a)))
        result = milp(
            price,
            integrality=np.full(len(a), int(integral)),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(table, 0, 1) if len(cuts) else (),
            options={"time_limit": left, "mip_rel_gap": 0.0},
        )
        proven = result.mip_dual_bound if integral else (result.fun if result.status == 0 else None)
        if proven is not None:
            lower = float(proven) + constant
            bound = max(bound, float(np.ceil(lower - _SOLVER_TOLERANCE * max(abs(lower), 1.0))) if whole else lower)
        if result.x is None:
            break
        x = np.zeros((n, n))
        x[a, b], x[b, a] = result.x, 1.0 - result.x
        candidate = local_search(cost, order[np.argsort(-x[order].sum(axis=1), kind="stable")], slack)
        if ranking_cost(cost, candidate) < value - slack:
            order, value = candidate, ranking_cost(cost, candidate)
        found = _cycles(x)
        if len(found):
            cuts = np.concatenate([cuts, found])
        elif integral or result.status != 0:
            break
        else:
            integral = True
    position = np.empty(n)
    position[order] = np.arange(1.0, n + 1)
    return KemenySolution(position, unit * value, unit * min(bound, value))


def _cycles(x: Floats) -> Ints:
    """Return the triples i < j < k whose preferences form a cycle; the most violated ones where there are many."""
    triples, excesses = [], []
    for i in range(len(x) - 2):
        rest = x[i, i + 1 :]
        total = np.triu(rest[:, None] + x[i + 1 :, i + 1 :] - rest[None, :], 1)
        # Zeros below the diagonal are no cycle.
        excess = np.maximum(total - 1.0, -total)
        j, k = np.nonzero(excess > _SOLVER_TOLERANCE)
        triples.append(np.stack([np.full(len(j), i), j + i + 1, k + i + 1], axis=1))
        excesses.append(excess[j, k])
    if not triples:
        return np.zeros((0, 3), dtype=np.int64)
    found, excess = np.concatenate(triples), np.concatenate(excesses)
    if len(found) > _CUTS_PER_ROUND:
        found = found[np.argsort(-excess, kind="stable")[:_CUTS_PER_ROUND]]
    return found
