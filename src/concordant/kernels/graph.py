"""Connected components and positive cycles of directed graphs, in O(nodes + edges).

The maximum-likelihood estimate of Bradley-Terry exists if and only if the graph with an edge from each winner to each
loser is strongly connected (Ford 1957); Plackett-Luce asks the same of its rankings. The graphs of all instances are
one graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Ints, read_only
from concordant.kernels.jit import jit

__all__ = ["has_positive_cycle", "strong_components", "weak_components"]


@jit
def _adjacency(tail: Any, head: Any, n: int) -> tuple[Any, Any]:
    """Return the edges in compressed rows: where the edges of each node begin, and their heads."""
    starts = np.zeros(n + 1, dtype=np.int64)
    for e in range(len(tail)):
        starts[tail[e] + 1] += 1
    for v in range(n):
        starts[v + 1] += starts[v]
    heads = np.empty(len(tail), dtype=np.int32)
    place = starts[:-1].copy()
    for e in range(len(tail)):
        v = tail[e]
        heads[place[v]] = head[e]
        place[v] += 1
    return starts, heads


@jit
def _tarjan(starts: Any, heads: Any) -> Any:
    """Return the strong component of every node by Tarjan's algorithm, without recursion."""
    n = len(starts) - 1
    label = np.full(n, -1, dtype=np.int32)
    index = np.full(n, -1, dtype=np.int32)
    low = np.zeros(n, dtype=np.int32)
    place = starts[:-1].copy()
    open_nodes = np.empty(n, dtype=np.int32)
    path = np.empty(n, dtype=np.int32)
    n_open = 0
    count = 0
    found = 0
    for root in range(n):
        if index[root] >= 0:
            continue
        depth = 0
        path[0] = root
        index[root] = count
        low[root] = count
        count += 1
        open_nodes[n_open] = root
        n_open += 1
        while depth >= 0:
            v = path[depth]
            if place[v] < starts[v + 1]:
                w = heads[place[v]]
                place[v] += 1
                if index[w] < 0:
                    index[w] = count
                    low[w] = count
                    count += 1
                    open_nodes[n_open] = w
                    n_open += 1
                    depth += 1
                    path[depth] = w
                elif label[w] < 0:
                    low[v] = min(low[v], index[w])
            else:
                if low[v] == index[v]:
                    while True:
                        n_open -= 1
                        w = open_nodes[n_open]
                        label[w] = found
                        if w == v:
                            break
                    found += 1
                depth -= 1
                if depth >= 0:
                    low[path[depth]] = min(low[path[depth]], low[v])
    return label


@jit
def _union(tail: Any, head: Any, n: int) -> Any:
    """Return the weak component of every node, numbered as first seen: union-find with path halving."""
    parent = np.arange(n).astype(np.int32)
    for e in range(len(tail)):
        a, b = tail[e], head[e]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if a < b:
            parent[b] = a
        elif b < a:
            parent[a] = b
    label = np.empty(n, dtype=np.int32)
    found = 0
    for v in range(n):
        # A parent is smaller than its node, so it has its number already.
        if parent[v] == v:
            label[v] = found
            found += 1
        else:
            label[v] = label[parent[v]]
    return label


def strong_components(tail: NDArray[Any], head: NDArray[Any], n: int) -> Codes:
    """Return the number of the strongly connected component of each of n nodes.

    Components are numbered in reverse topological order: no edge leads to a component of a larger number. SciPy's
    `connected_components` promises no order, and `kemeny.dense_components` takes a table of all pairs, which millions
    of nodes do not allow.

    >>> strong_components(np.array([0, 1, 1]), np.array([1, 0, 2]), 4).tolist()
    [1, 1, 0, 2]
    """
    label: Codes = _tarjan(*_adjacency(_codes(tail), _codes(head), n))
    return label


def weak_components(tail: NDArray[Any], head: NDArray[Any], n: int) -> Codes:
    """Return the number of the weakly connected component of each of n nodes, in order of first appearance.

    >>> weak_components(np.array([0, 3]), np.array([2, 1]), 5).tolist()
    [0, 1, 0, 1, 2]
    """
    label: Codes = _union(_codes(tail), _codes(head), n)
    return label


def has_positive_cycle(tail: NDArray[Any], head: NDArray[Any], gain: Ints, n: int) -> bool:
    """Return whether some directed cycle has a positive sum of gains (Bellman-Ford; O(n · edges)).

    >>> edges = np.array([0, 1, 2]), np.array([1, 2, 0])
    >>> has_positive_cycle(*edges, np.array([1, 1, -1]), 3), has_positive_cycle(*edges, np.array([1, -1, 0]), 3)
    (True, False)
    """
    best = np.zeros(n, dtype=np.int64)
    # Without a positive cycle the best path visits no node twice: n rounds find it, and it gains at most n times the
    # largest gain.
    limit = n * max(int(gain.max(initial=0)), 0)
    for _ in range(n + 1):
        before = best.copy()
        np.maximum.at(best, head, before[tail] + gain)
        if (best == before).all():
            return False
        if best.max() > limit:
            return True
    return True


def _codes(nodes: NDArray[Any]) -> Codes:
    codes: Codes = read_only(np.ascontiguousarray(nodes, dtype=np.int32))[0]
    return codes
