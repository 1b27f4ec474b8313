"""Canonical order of training data for rankers: the same data give the same bits, in any order of the input.

A descent of a hundred steps amplifies the last bit of a sum. So instances are sorted by hashes of their ids, items by
label and then by a hash of their features, and features by a hash of their values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.data.features import Features
from concordant.data.streams import id_hash
from concordant.kernels.graded_lists import GradedLists
from concordant.kernels.lists import offsets_of
from concordant.kernels.splitmix64 import Keys, mixed, scrambled
from concordant.learning.supervision import MatchedLabels
from concordant.ranking.design_matrix import over_blocks

__all__ = ["CanonicalLists", "canonical_lists"]


class CanonicalLists(NamedTuple):
    """What is learned from, in its order.

    Attributes
    ----------
    lists : GradedLists
        The lists, by their keys.
    rows : int64[]
        The slot of every row of the lists.
    columns : int64[F]
        The features in their order.
    list_of : int64[instances]
        Which list an instance is, -1 for those not learned from.
    """

    lists: GradedLists
    rows: Ints
    columns: Ints
    list_of: Ints


def canonical_lists(table: Features, truth: MatchedLabels, ties_by_input: bool) -> CanonicalLists:
    """Return the lists to learn from in the order of everything; with `ties_by_input` items of one label stay."""
    slots, label = table.slots, truth.label
    instances = truth.instances
    key = np.array([id_hash(table.instances[n]) for n in instances.tolist()], dtype=np.uint64)
    by_key = np.argsort(key, kind="stable")
    list_of = np.full(len(slots), -1, dtype=np.int64)
    list_of[instances[by_key]] = np.arange(len(instances))
    used = np.flatnonzero((list_of[slots.instance] >= 0) & ~np.isnan(label))
    rows = used[np.lexsort((-label[used], list_of[slots.instance[used]]))]
    own = list_of[slots.instance[rows]]
    lists = GradedLists.of(label[rows], offsets_of(np.bincount(own, minlength=len(instances))), key[by_key])
    # By how many labels are higher, and not by the label: only the order of labels counts.
    columns = _column_keys(table.X, rows, mixed(lists.key[own] ^ scrambled(lists.level.astype(np.uint64))))
    if not ties_by_input:
        rows = rows[np.lexsort((_row_keys(table.X, rows, columns), lists.level, own))]
    return CanonicalLists(lists, rows, np.argsort(columns, kind="stable"), list_of)


def _bits(x: Floats) -> Keys:
    """Return the bits of numbers, the last ones of their digits left aside; 0 and -0 are one number."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray((x + 0.0).astype(np.float32)).view(np.uint32).astype(np.uint64)


def _column_keys(X: Floats, rows: Ints, of_row: Keys) -> Keys:
    """Return a hash of every column that depends on what stands beside what, not on the order of the rows."""
    out = np.zeros(X.shape[1], dtype=np.uint64)
    weight = of_row | np.uint64(1)

    def added(block: slice) -> Keys:
        bits = _bits(X[rows[block]])
        bits *= weight[block, None]
        own: Keys = bits.sum(axis=0, dtype=np.uint64)
        return own

    for found in over_blocks(added, len(rows), X.shape[1]):
        out += found
    return scrambled(out)


def _row_keys(X: Floats, rows: Ints, of_column: Keys) -> Keys:
    """Return a hash of every row that depends on what stands in which column, not on the order of the columns."""
    out = np.empty(len(rows), dtype=np.uint64)
    weight = of_column | np.uint64(1)

    def write(block: slice) -> None:
        bits = _bits(X[rows[block]])
        bits *= weight
        out[block] = bits.sum(axis=1, dtype=np.uint64)

    over_blocks(write, len(rows), X.shape[1])
    return scrambled(out)
