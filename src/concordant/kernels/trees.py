"""Sums of decision trees, and their Shapley values (TreeSHAP), in loops over flat arrays of nodes (`tree_arrays`).

A Shapley value of a tree is a sum over its leaves. On the way to a leaf each feature is either passed by the item
(o = 1) or not (o = 0), and a share z of the training items passes it. If only some features are known, the leaf is
reached with the product of o over these and of z over the others, so that the Shapley values of a leaf follow from the
coefficients of the polynomial Π (z + o t), one factor for each feature on the way. (Lundberg, Erion and Lee,
Consistent individualized feature attribution for tree ensembles, 2018.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints
from concordant.kernels.jit import jit

__all__ = ["add_shapley_values", "leaf_sums"]


@jit
def _goes_left(x: float, threshold: float, nan: int) -> bool:
    if np.isnan(x):
        if nan == 2:
            return threshold >= 0.0
        return nan == 1
    return x <= threshold


@jit
def leaf_sums(
    X: Floats,
    trees: Ints,
    feature: Ints,
    threshold: Floats,
    left: Ints,
    right: Ints,
    value: Floats,
    nan: NDArray[np.int8],
    out: Floats,
) -> None:
    """Write the sum of the leaves that every row of X reaches, added tree after tree; `trees` are offsets of nodes."""
    for r in range(X.shape[0]):
        total = 0.0
        for t in range(len(trees) - 1):
            root = trees[t]
            node = root
            while feature[node] >= 0:
                if _goes_left(X[r, feature[node]], threshold[node], nan[node]):
                    node = root + left[node]
                else:
                    node = root + right[node]
            total += value[node]
        out[r] = total


@jit
def add_shapley_values(
    X: Floats,
    trees: Ints,
    feature: Ints,
    threshold: Floats,
    left: Ints,
    right: Ints,
    value: Floats,
    cover: Floats,
    nan: NDArray[np.int8],
    group: Ints,
    out: Floats,
) -> None:
    """Add the Shapley value of every feature to the column of its group, and the mean of the trees to the last column.

    The columns of a row then add up to its leaf sum. Cost O(rows × leaves × depth²).
    """
    most = 0
    for t in range(len(trees) - 1):
        most = max(most, trees[t + 1] - trees[t])
    parent = np.empty(most, dtype=np.int64)
    # Features on the way to a leaf, with the shares of the training items that pass them; and the single splits.
    way = np.empty(most + 1, dtype=np.int64)
    share, passes = np.empty(most + 1), np.empty(most + 1)
    split, place = np.empty(most + 1, dtype=np.int64), np.empty(most + 1, dtype=np.int64)
    goes_left = np.empty(most + 1, dtype=np.bool_)
    whole, rest = np.empty(most + 2), np.empty(most + 2)
    for t in range(len(trees) - 1):
        root, n = trees[t], trees[t + 1] - trees[t]
        parent[0] = -1
        for node in range(n):
            if feature[root + node] >= 0:
                parent[left[root + node]] = node
                parent[right[root + node]] = node
        for leaf in range(n):
            if feature[root + leaf] >= 0:
                continue
            length = 0
            n_splits = 0
            mean = value[root + leaf]
            child = leaf
            node = parent[leaf]
            while node >= 0:
                z = cover[root + child] / cover[root + node]
                mean *= z
                k = 0
                while k < length and way[k] != feature[root + node]:
                    k += 1
                if k == length:
                    way[k] = feature[root + node]
                    share[k] = z
                    length += 1
                else:
                    share[k] *= z
                split[n_splits] = root + node
                place[n_splits] = k
                goes_left[n_splits] = left[root + node] == child
                n_splits += 1
                child = node
                node = parent[node]
            for r in range(X.shape[0]):
                out[r, out.shape[1] - 1] += mean
                for k in range(length):
                    passes[k] = 1.0
                for s in range(n_splits):
                    at = split[s]
                    if _goes_left(X[r, feature[at]], threshold[at], nan[at]) != goes_left[s]:
                        passes[place[s]] = 0.0
                # The coefficients of the product of (share + passes t) over all features on the way.
                whole[0] = 1.0
                for k in range(length):
                    whole[k + 1] = passes[k] * whole[k]
                    for j in range(k, 0, -1):
                        whole[j] = share[k] * whole[j] + passes[k] * whole[j - 1]
                    whole[0] *= share[k]
                for k in range(length):
                    # The same without the factor of one feature.
                    if passes[k] == 1.0:
                        rest[length] = 0.0
                        for j in range(length, 0, -1):
                            rest[j - 1] = whole[j] - share[k] * rest[j]
                    else:
                        for j in range(length):
                            rest[j] = whole[j] / share[k]
                    total = 0.0
                    # How often a subset of j of the others comes before the feature: j! (length - 1 - j)! / length!
                    often = 1.0 / length
                    for j in range(length):
                        total += often * rest[j]
                        often *= (j + 1.0) / max(length - 1 - j, 1)
                    out[r, group[way[k]]] += value[root + leaf] * (passes[k] - share[k]) * total
