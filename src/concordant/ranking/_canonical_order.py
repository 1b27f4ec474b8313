"""Canonical order of training data for rankers: the same data give the same bits, in any order of the input.

Hundreds of optimiser steps amplify differences in the last bit of a sum. So instances are sorted by hashes of their
ids, items by label and then by a hash of their features, and features by a hash of their values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.data.features import Features
from concordant.data.streams import id_hash
from concordant.kernels.graded_lists import GradedLists
from concordant.kernels.lists import offsets_of
from concordant.kernels.splitmix64 import Keys, hashed, mixed
from concordant.learning.supervision import MatchedLabels
from concordant.ranking.design_matrix import map_row_blocks

__all__ = ["CanonicalLists", "canonical_lists"]


class CanonicalLists(NamedTuple):
    """Training lists in canonical order.

    Attributes
    ----------
    lists : GradedLists
        The lists, sorted by their keys.
    rows : int64[]
        The slot of every row of the lists.
    columns : int64[F]
        The numbers of the features, in canonical order.
    list_of : int64[instances]
        The list of every instance, -1 for instances that are not used.
    """

    lists: GradedLists
    rows: Ints
    columns: Ints
    list_of: Ints


def canonical_lists(table: Features, truth: MatchedLabels, ties_by_input: bool) -> CanonicalLists:
    """Return the training lists in canonical order; `ties_by_input` keeps items of equal label in the input order."""
    slots, label = table.slots, truth.label
    instances = truth.instances
    key = np.array([id_hash(table.instances[n]) for n in instances.tolist()], dtype=np.uint64)
    by_key = np.argsort(key, kind="stable")
    list_of = np.full(len(slots), -1, dtype=np.int64)
    list_of[instances[by_key]] = np.arange(len(instances))
    used = np.flatnonzero((list_of[slots.instance] >= 0) & ~np.isnan(label))
    rows = used[np.lexsort((-label[used], list_of[slots.instance[used]]))]
    row_list = list_of[slots.instance[rows]]
    lists = GradedLists.of(label[rows], offsets_of(np.bincount(row_list, minlength=len(instances))), key[by_key])
    # Levels instead of labels, because only the order of the labels matters.
    column_keys = _column_keys(table.X, rows, mixed(lists.key[row_list] ^ hashed(lists.level.astype(np.uint64))))
    if not ties_by_input:
        rows = rows[np.lexsort((_row_keys(table.X, rows, column_keys), lists.level, row_list))]
    return CanonicalLists(lists, rows, np.argsort(column_keys, kind="stable"), list_of)


def _bits(x: Floats) -> Keys:
    """Return the bits of the numbers in single precision; 0 and -0 have the same bits."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray((x + 0.0).astype(np.float32)).view(np.uint32).astype(np.uint64)


def _column_keys(X: Floats, rows: Ints, row_keys: Keys) -> Keys:
    """Return a hash of every column from its values and the keys of their rows, independent of the order of rows."""
    out = np.zeros(X.shape[1], dtype=np.uint64)
    weight = row_keys | np.uint64(1)

    def block_sum(block: slice) -> Keys:
        bits = _bits(X[rows[block]])
        bits *= weight[block, None]
        total: Keys = bits.sum(axis=0, dtype=np.uint64)
        return total

    for total in map_row_blocks(block_sum, len(rows), X.shape[1]):
        out += total
    return hashed(out)


def _row_keys(X: Floats, rows: Ints, column_keys: Keys) -> Keys:
    """Return a hash of every row from its values and the keys of their columns, independent of the order of columns."""
    out = np.empty(len(rows), dtype=np.uint64)
    weight = column_keys | np.uint64(1)

    def write(block: slice) -> None:
        bits = _bits(X[rows[block]])
        bits *= weight
        out[block] = bits.sum(axis=1, dtype=np.uint64)

    map_row_blocks(write, len(rows), X.shape[1])
    return hashed(out)
