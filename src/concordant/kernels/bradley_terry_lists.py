"""Log-likelihood of Bradley-Terry over all pairs of long lists, in time linear in the lists.

A list of m items holds m (m − 1) / 2 pairs. Of a pair with difference of scores d, the log-likelihood is d / 2 towards
the winner, minus f(d) = log(e^{d/2} + e^{−d/2} + ν), which does not depend on who won. So all that is not linear in the
scores is a sum of f over the pairs of a list: a sum of a smooth kernel between points on a line. As in fast multipole
methods, the line is cut into cells, the items of a cell are replaced by weights on a few Chebyshev nodes, cells act on
each other through their nodes, and the sums at the nodes are interpolated to the items. With 16 nodes to a cell of
width 1 the error is below rounding: f has no singularity nearer to the real line than π.

References: Greengard and Rokhlin, A fast algorithm for particle simulations, J. Comput. Phys. 1987; Fong and Darve, The
black-box fast multipole method, J. Comput. Phys. 2009.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from concordant.arrays import Codes, Floats, Ints, read_only
from concordant.kernels.jit import jit, jit_fused
from concordant.kernels.lists import list_sums, positions

__all__ = ["ListPairs", "PairSums", "ScoreGrid", "curvature_times", "list_pairs", "pair_sums", "score_grid"]

# Width of a cell, in units of the scores, and Chebyshev nodes in a cell.
_WIDTH = 1.0
_NODES = 16
# Two cells act on each other at the cost of about this many pairs that are taken one by one.
_CELL_COST = 8
# Kernels: f, its first and second derivative along d, and along log ν; see `_kernels`.
_N_KERNELS = 6
_CURVATURE = 2


class ListPairs(NamedTuple):
    """All pairs of the items of lists, each an outcome, kept as the lists.

    Attributes
    ----------
    slot : int32[R]
        The items of the rows, list by list.
    list_offsets, list_starts : int64[L + 1], int64[N + 1]
        Where the rows of each list, and the lists of each instance, begin.
    weight : float64[L]
        The weight of each list.
    net : float64[S]
        Wins less losses of every slot.
    n_ties, outcomes : float64[N]
        Tied pairs and all pairs of each instance, by weight.
    offsets : int64[N + 1]
        Where the slots of each instance begin.
    """

    slot: Codes
    list_offsets: Ints
    list_starts: Ints
    weight: Floats
    net: Floats
    n_ties: Floats
    outcomes: Floats
    offsets: Ints

    @property
    def n_slots(self) -> int:
        """How many slots there are."""
        return int(self.offsets[-1])

    @property
    def item_outcomes(self) -> Floats:
        """How many outcomes each slot has."""
        lengths = np.diff(self.list_offsets)
        each = np.repeat(self.weight * np.maximum(lengths - 1, 0), lengths)
        return np.bincount(self.slot, each, self.n_slots).astype(np.float64)

    def window(self, instance: int) -> ListPairs:
        """Return the lists of one instance, slots counted from 0."""
        which = slice(int(self.list_starts[instance]), int(self.list_starts[instance + 1]))
        own = slice(int(self.offsets[instance]), int(self.offsets[instance + 1]))
        one = slice(instance, instance + 1)
        offsets = self.list_offsets[which.start : which.stop + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        return ListPairs(
            self.slot[rows] - np.int32(own.start),
            offsets - offsets[0],
            np.array([0, which.stop - which.start]),
            self.weight[which],
            self.net[own],
            self.n_ties[one],
            self.outcomes[one],
            np.array([0, own.stop - own.start]),
        )


def list_pairs(
    value: Floats, slot: Codes, list_offsets: Ints, list_starts: Ints, weight: Floats | None, offsets: Ints
) -> ListPairs:
    """Return the pairs of lists: the smaller value wins, equal values are tied.

    >>> lists = list_pairs(
    ...     np.array([1.0, 2.0, 2.0]),
    ...     np.arange(3, dtype=np.int32),
    ...     np.array([0, 3]),
    ...     np.array([0, 1]),
    ...     None,
    ...     np.array([0, 3]),
    ... )
    >>> lists.net.tolist(), lists.n_ties.tolist(), lists.outcomes.tolist()
    ([2.0, -1.0, -1.0], [1.0], [3.0])
    """
    lengths = np.diff(list_offsets)
    w = np.ones(len(lengths)) if weight is None else weight
    each = np.repeat(w, lengths)
    low, high = (positions(value, list_offsets, ties) for ties in ("min", "max"))
    net = np.bincount(slot, each * (np.repeat(lengths, lengths) + 1.0 - low - high), int(offsets[-1]))
    tied = 0.5 * list_sums(high - low, list_offsets)
    pairs = 0.5 * lengths * np.maximum(lengths - 1, 0)
    n_ties, outcomes = (list_sums(w * n, list_starts) for n in (tied, pairs))
    return ListPairs(slot, list_offsets, list_starts, w, net.astype(np.float64), n_ties, outcomes, offsets)


class ScoreGrid(NamedTuple):
    """The scores of an instance as points in cells.

    Attributes
    ----------
    cell : int32[M]
        The cell of each item.
    share : float64[M, nodes]
        The values of the Lagrange polynomials of the cell's Chebyshev nodes at the score of each item.
    table : float64[kernels, 2 C − 1, nodes, nodes]
        Every kernel between the nodes of two cells, by the distance of the cells.
    """

    cell: Codes
    share: Floats
    table: Floats


class PairSums(NamedTuple):
    """Sums over the pairs of an instance's lists, by weight, ν being the tie parameter.

    Attributes
    ----------
    value, of_tie, tie_tie : float
        The sums of f, and of its first and second derivative along log ν.
    slope, curvature, cross : float64[M]
        For every item, the sums over its pairs of the first and second derivative of f along d, and of the mixed
        derivative along d and log ν; d is the score of the item less that of the other.
    """

    value: float
    of_tie: float
    tie_tie: float
    slope: Floats
    curvature: Floats
    cross: Floats


def score_grid(score: Floats, worth: float) -> ScoreGrid:
    """Return the scores of one instance as points in cells; `worth` is ν, 0 where there are no ties."""
    place = (score - score.min(initial=0.0)) / _WIDTH
    cell = place.astype(np.int32)
    angle = (2.0 * np.arange(_NODES) + 1.0) * np.pi / (2.0 * _NODES)
    nodes = np.cos(angle)
    gap = (2.0 * (place - cell) - 1.0)[:, None] - nodes
    # The barycentric formula; at a node its terms are infinite.
    at_node = gap == 0.0
    share = np.where(np.arange(_NODES) % 2, -1.0, 1.0) * np.sin(angle) / np.where(at_node, 1.0, gap)
    share = np.where(at_node.any(axis=1, keepdims=True), at_node, share)
    share /= share.sum(axis=1, keepdims=True)
    n_cells = int(cell.max(initial=0)) + 1
    table = np.empty((_N_KERNELS, 2 * n_cells - 1, _NODES, _NODES))
    _fill_table(nodes * (_WIDTH / 2.0), n_cells, worth, table)
    return ScoreGrid(cell, share, table)


@jit
def _kernels(d: float, worth: float) -> tuple[float, float, float, float, float, float]:
    """Return f(d), f', f'', the first and second derivative along log ν, and the mixed one along d and log ν."""
    e = np.exp(-abs(d))
    z = worth * np.sqrt(e)
    whole = 1.0 + e + z
    p, q, r = 1.0 / whole, e / whole, z / whole
    lean = p - q if d >= 0.0 else q - p
    curvature = 0.25 * (p + q - lean * lean)
    return 0.5 * abs(d) + np.log(whole), 0.5 * lean, curvature, r, r * (1.0 - r), -0.5 * lean * r


@jit
def _fill_table(nodes: Any, n_cells: int, worth: float, table: Any) -> None:
    """Write every kernel for the distance of a node of one cell (last axis) from a node of another."""
    for k in range(2 * n_cells - 1):
        for a in range(_NODES):
            for b in range(_NODES):
                d = (k - n_cells + 1) * _WIDTH + nodes[b] - nodes[a]
                found = _kernels(d, worth)
                table[0, k, a, b] = found[0]
                table[1, k, a, b] = found[1]
                table[2, k, a, b] = found[2]
                table[3, k, a, b] = found[3]
                table[4, k, a, b] = found[4]
                table[5, k, a, b] = found[5]


@jit
def _used_cells(slot: Any, first: int, last: int, cell: Any, seen: Any, used: Any) -> int:
    """Write the cells that hold items of a list to `used`, and return their number; `seen` is left cleared."""
    n = 0
    for a in range(first, last):
        c = cell[slot[a]]
        if not seen[c]:
            seen[c] = True
            used[n] = c
            n += 1
    for k in range(n):
        seen[used[k]] = False
    return n


@jit_fused
def _gather(
    slot: Any, first: int, last: int, values: Any, cell: Any, share: Any, used: Any, n_used: int, mass: Any
) -> None:
    """Write the weights of the nodes of the used cells: those of the items of a list, times their values."""
    for k in range(n_used):
        for b in range(_NODES):
            mass[used[k], b] = 0.0
    for a in range(first, last):
        i = slot[a]
        c, v = cell[i], values[i]
        for b in range(_NODES):
            mass[c, b] += v * share[i, b]


@jit_fused
def _act(table: Any, used: Any, n_used: int, mass: Any, field: Any) -> None:
    """Write the sums of a kernel at the nodes of the used cells."""
    zero = (table.shape[0] - 1) // 2
    for k in range(n_used):
        c = used[k]
        for b in range(_NODES):
            field[c, b] = 0.0
        for other in range(n_used):
            matrix = table[c - used[other] + zero]
            for a in range(_NODES):
                v = mass[used[other], a]
                for b in range(_NODES):
                    field[c, b] += v * matrix[a, b]


@jit_fused
def _at(share: Any, field: Any) -> float:
    """Return the field at an item, from its values at the nodes."""
    one = two = three = four = 0.0
    for b in range(0, _NODES, 4):
        one += share[b] * field[b]
        two += share[b + 1] * field[b + 1]
        three += share[b + 2] * field[b + 2]
        four += share[b + 3] * field[b + 3]
    return (one + two) + (three + four)


@jit
def _few_pairs(length: int, n_used: int, cell_cost: int) -> bool:
    """Return whether the pairs of a list are done faster one by one."""
    return length * (length - 1) // 2 <= cell_cost * n_used * n_used


@jit_fused
def _sum_pairs(
    lists: Any, score: Any, worth: float, cell: Any, share: Any, table: Any, cell_cost: int, sums: Any, along_item: Any
) -> None:
    """Add the sums over pairs to `sums` (value, of_tie, tie_tie) and `along_item` (slope, curvature, cross)."""
    slot, list_offsets, weight = lists
    n_cells = (table.shape[1] + 1) // 2
    ones = np.ones(len(score))
    seen, used = np.zeros(n_cells, np.bool_), np.empty(n_cells, np.int64)
    mass, field = np.empty((n_cells, _NODES)), np.empty((n_cells, _NODES))
    zero = _kernels(0.0, worth)
    at_zero = (zero[0], zero[3], zero[4])
    for which in range(len(weight)):
        first, last = list_offsets[which], list_offsets[which + 1]
        w = weight[which]
        if w == 0.0 or last - first < 2:
            continue
        n_used = _used_cells(slot, first, last, cell, seen, used)
        if _few_pairs(last - first, n_used, cell_cost):
            for a in range(first, last):
                i = slot[a]
                for b in range(a + 1, last):
                    j = slot[b]
                    f, slope, curvature, of_tie, tie_tie, cross = _kernels(score[i] - score[j], worth)
                    sums[0] += w * f
                    sums[1] += w * of_tie
                    sums[2] += w * tie_tie
                    along_item[0, i] += w * slope
                    along_item[0, j] -= w * slope
                    along_item[1, i] += w * curvature
                    along_item[1, j] += w * curvature
                    along_item[2, i] += w * cross
                    along_item[2, j] -= w * cross
            continue
        _gather(slot, first, last, ones, cell, share, used, n_used, mass)
        for k in range(3):
            kernel = 0 if k == 0 else k + 2
            if worth == 0.0 and k > 0:
                break
            _act(table[kernel], used, n_used, mass, field)
            total = 0.0
            for c in range(n_used):
                total += _at(mass[used[c]], field[used[c]])
            # Every pair was counted twice, and every item with itself.
            sums[k] += 0.5 * w * (total - (last - first) * at_zero[k])
        for k in range(3):
            kernel = k + 1 if k < 2 else 5
            if worth == 0.0 and k == 2:
                break
            _act(table[kernel], used, n_used, mass, field)
            own = zero[2] if k == 1 else 0.0
            for a in range(first, last):
                i = slot[a]
                along_item[k, i] += w * (_at(share[i], field[cell[i]]) - own)


@jit_fused
def _sum_products(
    lists: Any,
    score: Any,
    worth: float,
    cell: Any,
    share: Any,
    table: Any,
    cell_cost: int,
    values: Any,
    out: Any,
) -> None:
    """Add Σ f''(s_i − s_j) values_j over the pairs of every item i to `out`."""
    slot, list_offsets, weight = lists
    n_cells = (table.shape[0] + 1) // 2
    seen, used = np.zeros(n_cells, np.bool_), np.empty(n_cells, np.int64)
    mass, field = np.empty((n_cells, _NODES)), np.empty((n_cells, _NODES))
    at_zero = _kernels(0.0, worth)[2]
    for which in range(len(weight)):
        first, last = list_offsets[which], list_offsets[which + 1]
        w = weight[which]
        if w == 0.0 or last - first < 2:
            continue
        n_used = _used_cells(slot, first, last, cell, seen, used)
        if _few_pairs(last - first, n_used, cell_cost):
            for a in range(first, last):
                i = slot[a]
                for b in range(a + 1, last):
                    j = slot[b]
                    curvature = w * _kernels(score[i] - score[j], worth)[2]
                    out[i] += curvature * values[j]
                    out[j] += curvature * values[i]
            continue
        _gather(slot, first, last, values, cell, share, used, n_used, mass)
        _act(table, used, n_used, mass, field)
        for a in range(first, last):
            i = slot[a]
            out[i] += w * (_at(share[i], field[cell[i]]) - at_zero * values[i])


def _columns(lists: ListPairs) -> tuple[Any, ...]:
    return read_only(lists.slot, lists.list_offsets, lists.weight)


def pair_sums(lists: ListPairs, score: Floats, worth: float, grid: ScoreGrid, cell_cost: int = _CELL_COST) -> PairSums:
    """Return the sums over all pairs of the lists of one instance: O(rows) for long lists, pair by pair for short ones.

    >>> lists = list_pairs(
    ...     np.array([1.0, 2.0]), np.arange(2, dtype=np.int32), *map(np.array, ([0, 2], [0, 1])), None, np.array([0, 2])
    ... )
    >>> sums = pair_sums(lists, np.zeros(2), 0.0, score_grid(np.zeros(2), 0.0))
    >>> round(sums.value, 12) == round(float(np.log(2)), 12), sums.curvature.tolist()
    (True, [0.25, 0.25])
    """
    sums, along_item = np.zeros(3), np.zeros((3, len(score)))
    _sum_pairs(_columns(lists), score, worth, *grid, cell_cost, sums, along_item)
    value, of_tie, tie_tie = sums.tolist()
    return PairSums(value, of_tie, tie_tie, along_item[0], along_item[1], along_item[2])


def curvature_times(
    lists: ListPairs, score: Floats, worth: float, grid: ScoreGrid, values: Floats, cell_cost: int = _CELL_COST
) -> Floats:
    """Return Σ f''(s_i − s_j) values_j over the pairs of every item i of one instance."""
    out = np.zeros(len(score))
    cell, share, table = grid
    _sum_products(_columns(lists), score, worth, cell, share, table[_CURVATURE], cell_cost, values, out)
    return out
