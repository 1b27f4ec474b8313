"""Ensembles of decision trees as flat arrays: what a model saves, and what the kernels of trees take.

They are named here, where nothing is compiled, so that a saved model can be checked before the compiler is loaded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints
from concordant.kernels.lists import list_ids

__all__ = ["MOST_DEPTH", "NAN_IS_ZERO", "NAN_LEFT", "NAN_RIGHT", "TreeArrays"]

# What an unknown value does at a split.
NAN_RIGHT, NAN_LEFT, NAN_IS_ZERO = 0, 1, 2
# Deeper trees are refused: no fit makes them, and explaining a score takes time that grows with the depth.
MOST_DEPTH = 256


class TreeArrays(NamedTuple):
    """Trees of several models, one after another; the nodes of a tree begin with its root, parents before children.

    An item goes left if its feature is at most the threshold. The score of a model is the sum of the values of the
    leaves that an item reaches.

    Attributes
    ----------
    models : int64[models + 1]
        Offsets of the trees of every model.
    trees : int64[trees + 1]
        Offsets of the nodes of every tree.
    feature : int64[nodes]
        The feature that a node splits; -1 for a leaf.
    threshold : float64[nodes]
        The threshold of the split; 0 for a leaf.
    left, right : int64[nodes]
        The children, counted within the tree; -1 for a leaf.
    value : float64[nodes]
        The value of a leaf; 0 for an inner node.
    cover : float64[nodes]
        How many training items reached the node.
    nan : int8[nodes]
        Where an item with an unknown value goes: `NAN_RIGHT`, `NAN_LEFT`, or where 0 would go, `NAN_IS_ZERO`.
    """

    models: Ints
    trees: Ints
    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    value: Floats
    cover: Floats
    nan: NDArray[np.int8]

    @property
    def n_models(self) -> int:
        """The number of models."""
        return len(self.models) - 1

    def fault(self, n_features: int) -> str:
        """Return what is wrong with the arrays, "" if they are trees over so many features.

        Compiled loops follow the children without a check, so every child must lie behind its parent in the same tree,
        and every node but the root must be the child of exactly one.
        """
        kinds: list[type[np.generic]] = [
            np.int64,
            np.int64,
            np.int64,
            np.float64,
            np.int64,
            np.int64,
            np.float64,
            np.float64,
            np.int8,
        ]
        if not all(_is_flat(array, kind) for array, kind in zip(self, kinds, strict=True)):
            return "the arrays of its trees are not of the right types"
        n = len(self.feature)
        if any(len(array) != n for array in self[3:]):
            return "the arrays of its trees are not of one length"
        if not (_are_offsets(self.models, len(self.trees) - 1) and _are_offsets(self.trees, n)):
            return "its trees and nodes do not add up"
        if len(self.models) < 2 or (np.diff(self.trees) < 1).any():
            return "a tree is without nodes"
        inner = self.feature >= 0
        if (self.feature < -1).any() or (self.feature >= n_features).any():
            return "a tree splits a feature that does not exist"
        if (self.left[~inner] != -1).any() or (self.right[~inner] != -1).any():
            return "a leaf has children"
        if not np.isin(self.nan, (NAN_RIGHT, NAN_LEFT, NAN_IS_ZERO)).all():
            return "a tree sends unknown values nowhere"
        tree = list_ids(self.trees)
        start, size = self.trees[:-1][tree], np.diff(self.trees)[tree]
        own = np.arange(n) - start
        for child in (self.left, self.right):
            if not ((child[inner] > own[inner]) & (child[inner] < size[inner])).all():
                return "a child does not lie behind its parent in the same tree"
        children = np.concatenate([(start + child)[inner] for child in (self.left, self.right)])
        parents = np.bincount(children, minlength=n)
        if (parents != (own > 0)).any():
            return "a node does not have one parent"
        if not (np.isfinite(self.cover).all() and (self.cover > 0).all()):
            return "a node was reached by no training item"
        halves = self.cover[(start + self.left)[inner]] + self.cover[(start + self.right)[inner]]
        if (halves != self.cover[inner]).any():
            return "the training items of two children are not those of their parent"
        return "" if self._depth() <= MOST_DEPTH else f"a tree is more than {MOST_DEPTH} deep"

    def _depth(self) -> int:
        """Return the depth of the deepest tree, at most one more than is allowed."""
        start = self.trees[:-1][list_ids(self.trees)]
        level, depth = self.trees[:-1].copy(), 0
        while len(level) and depth <= MOST_DEPTH:
            level = level[self.feature[level] >= 0]
            level = np.concatenate([(start + child)[level] for child in (self.left, self.right)])
            depth += bool(len(level))
        return depth


def _is_flat(array: Any, kind: type[np.generic]) -> bool:
    return isinstance(array, np.ndarray) and array.dtype == kind and array.ndim == 1


def _are_offsets(offsets: Ints, end: int) -> bool:
    return len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == end and bool((np.diff(offsets) >= 0).all())
