"""Features of items for decision trees: what each expert says of an item, and statistics over all experts.

A tree splits one column at a time and treats an unknown value (NaN) as a case of its own, so that an item that an
expert does not list is NaN in the expert's columns. Statistics say what a single column cannot: how many experts list
an item, and how high they put it, also relative to the other items of the instance.
"""

from __future__ import annotations

import numpy as np

from concordant.arrays import Bools, Floats, Ints
from concordant.base.contract import Votes
from concordant.data.preferences import Preferences
from concordant.errors import DataError
from concordant.features.expert_features import WeightBlocks, potentials
from concordant.features.svd_features import singular_triples
from concordant.kernels.lists import list_ids, offsets_of, positions, standardise_within

__all__ = ["CONSENSUS", "N_CONSENSUS", "N_OF_EXPERT", "tree_features"]

# The columns of an expert, NaN for items that it does not list.
OF_EXPERT = ("preferred", "beaten", "rank", "percentile", "reciprocal", "u1", "v1")
N_OF_EXPERT = len(OF_EXPERT)
# The statistics over the experts. Each is also there as a z-score within the instance.
STATISTICS = (
    "share",
    "listed",
    "preferred",
    "beaten",
    "net",
    "mean",
    "best",
    "worst",
    "median",
    "spread",
    "reciprocal",
    "rrf",
    "first",
)
OF_INSTANCE = ("items", "lists", "coverage")
# The group of the columns that belong to no single expert, and its columns.
CONSENSUS = "(consensus)"
_CONSENSUS_COLUMNS = (*STATISTICS, *(f"{name} z" for name in STATISTICS), *OF_INSTANCE)
N_CONSENSUS = len(_CONSENSUS_COLUMNS)
_RRF_K = 60.0
# Numbers of a matrix that is made at a time.
_BLOCK = 1 << 23


def tree_features(
    votes: Votes, blocks: WeightBlocks, block_of_expert: Ints, rows: Ints | None = None
) -> tuple[Floats, list[str]]:
    """Return a matrix of features with a row for each slot, or for each of some slots, and the names of its columns.

    For every expert there are: `preferred` and `beaten`, the potentials of the CRF; `rank`; `percentile`, the rank over
    the length of the list; `reciprocal`, 1 over the rank; and the singular vectors `u1` and `v1` of SVDRank. The
    columns of "(consensus)" are statistics over the experts that list the item: their share of the weight of all lists
    (`share`) and their number (`listed`); sums of the potentials (`preferred`, `beaten`, `net`); the weighted mean, the
    best, the worst, the median and the standard deviation (`spread`) of the percentiles; the mean reciprocal rank and
    the RRF score over all lists, whether they hold the item or not; and the best rank (`first`). Each is there again as
    a z-score within the instance. At last come the number of items and of lists of the instance, and the mean
    `coverage` of its lists.

    The weight of a list multiplies its potentials and is its weight in the means. Comparisons count as a list of the
    items that the expert compared, ranked by wins minus losses.

    Parameters
    ----------
    votes : Preferences or Comparisons
        The preferences.
    blocks : WeightBlocks
        The experts with columns; a block holds at most one list of an instance.
    block_of_expert : int64[K]
        The block of every expert of the votes, -1 to ignore it.
    rows : int64, optional
        The slots, in ascending order.

    Examples
    --------
    >>> import concordant as cc
    >>> from concordant.features.expert_features import weight_blocks
    >>> runs = cc.from_lists({"bm25": ["a", "b"], "dense": ["b", "c"]})
    >>> blocks = weight_blocks(runs)
    >>> X, names = tree_features(runs, blocks, blocks.block_of_expert(runs, "example"))
    >>> X[:, names.index("bm25.rank")].tolist(), X[:, names.index("(consensus).listed")].tolist()
    ([1.0, 2.0, nan], [1.0, 2.0, 1.0])
    """
    if CONSENSUS in blocks.names:
        raise DataError(f"an expert is called {CONSENSUS!r}, which is the name of the statistics. Rename it.")
    names = [f"{name}.{kind}" for name in blocks.names for kind in OF_EXPERT]
    names += [f"{CONSENSUS}.{kind}" for kind in _CONSENSUS_COLUMNS]
    n_slots = votes.slots.n_slots
    if not isinstance(votes, Preferences) or n_slots * len(names) <= _BLOCK:
        X = _matrix(votes, blocks, block_of_expert)
        return (X if rows is None else X[rows]), names
    offsets = votes.slots.offsets
    out = np.empty((n_slots if rows is None else len(rows), len(names)))
    first = done = 0
    while first < len(votes):
        # As many instances as the block has room for, at least one.
        room = int(np.searchsorted(offsets, offsets[first] + _BLOCK // len(names), side="right")) - 1
        end = min(max(room, first + 1), len(votes))
        if rows is None:
            own = np.arange(offsets[end] - offsets[first])
        else:
            own = rows[slice(*np.searchsorted(rows, offsets[[first, end]]))] - offsets[first]
        if len(own):
            out[done : done + len(own)] = _matrix(votes.window(first, end), blocks, block_of_expert)[own]
        first, done = end, done + len(own)
    return out, names


def _matrix(votes: Votes, blocks: WeightBlocks, block_of_expert: Ints) -> Floats:
    n, k = votes.slots.n_slots, len(blocks)
    own = np.full((n, k, N_OF_EXPERT), np.nan)
    weight, length = np.zeros((n, k)), np.zeros((n, k))
    found = potentials(votes, blocks, block_of_expert, "log")
    slot, block = list_ids(found.starts), found.block
    own[slot, block, 0], own[slot, block, 1] = found.X[:, 1], found.X[:, 2]
    if isinstance(votes, Preferences):
        list_block = np.where(votes.weights > 0, block_of_expert[votes.list_expert], -1)
        used = np.flatnonzero(np.repeat(list_block >= 0, votes.list_lengths))
        slot, block = votes.slot[used], np.repeat(list_block, votes.list_lengths)[used]
        own[slot, block, 2] = votes.ranks("average")[used]
        weight[slot, block] = np.repeat(votes.weights, votes.list_lengths)[used]
        length[slot, block] = np.repeat(votes.list_lengths, votes.list_lengths)[used]
    elif len(slot):
        # By wins minus losses, within the items that one expert compared in one instance.
        order = np.argsort(found.source, kind="stable")
        starts = offsets_of(np.bincount(found.source))
        own[slot[order], block[order], 2] = positions(-found.X[order, 1:].sum(axis=1), starts)
        weight[slot, block] = 1.0
        length[slot, block] = np.bincount(found.source)[found.source]
    with np.errstate(divide="ignore", invalid="ignore"):
        own[:, :, 3] = own[:, :, 2] / length
        own[:, :, 4] = 1.0 / own[:, :, 2]
    triples = singular_triples(votes, blocks, block_of_expert, "log", 1, "unknown", "mean")
    block = np.repeat(triples.block, np.diff(triples.offsets))
    own[triples.slot, block, 5], own[triples.slot, block, 6] = triples.U[:, 0], triples.V[:, 0]
    statistics = _statistics(own, weight, votes.slots.offsets)
    offsets = votes.slots.offsets
    z = np.stack([standardise_within(column, offsets) for column in statistics.T], axis=1)
    return np.concatenate(
        [own.reshape(n, k * N_OF_EXPERT), statistics, z, _of_instance(weight, length, offsets)], axis=1
    )


def _statistics(own: Floats, weight: Floats, offsets: Ints) -> Floats:
    """Return the statistics over the experts of every slot, which do not depend on the order of the experts."""
    listed = weight > 0
    lists = _lists(weight, offsets)
    total, present = _sum(lists), np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    count = listed.sum(axis=1).astype(np.float64)
    each = _sum(weight)
    percentile, rank = own[:, :, 3], own[:, :, 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        all_lists = total[present]
        mean = _sum(_where(listed, weight * percentile)) / each
        spread = np.sqrt(_sum(_where(listed, weight * (percentile - mean[:, None]) ** 2)) / each)
        ordered = np.sort(np.where(listed, percentile, np.inf), axis=1)
        preferred, beaten = (_sum(_where(listed, own[:, :, c])) for c in (0, 1))
        columns = [
            each / all_lists,
            count,
            preferred,
            beaten,
            preferred + beaten,
            mean,
            _order_statistic(ordered, np.zeros(len(count)), count),
            _order_statistic(ordered, count - 1, count),
            0.5 * _order_statistic(ordered, (count - 1) // 2, count)
            + 0.5 * _order_statistic(ordered, count // 2, count),
            spread,
            _sum(_where(listed, weight * own[:, :, 4])) / all_lists,
            _sum(_where(listed, weight / (_RRF_K + rank))) / all_lists,
            np.where(listed, rank, np.inf).min(axis=1, initial=np.inf),
        ]
    out = np.stack(columns, axis=1)
    out[~np.isfinite(out)] = np.nan
    return out


def _where(listed: Bools, values: Floats) -> Floats:
    return np.where(listed, values, 0.0)


def _sum(terms: Floats) -> Floats:
    """Return the sum of every row, the same to the last bit in any order of the columns."""
    out: Floats = np.sort(terms, axis=1).sum(axis=1)
    return out


def _order_statistic(ordered: Floats, number: Floats, count: Floats) -> Floats:
    """Return the value of this number in every sorted row; NaN where nothing is listed."""
    if not ordered.shape[1]:
        return np.full(len(ordered), np.nan)
    at = np.clip(number, 0, ordered.shape[1] - 1).astype(np.int64)
    return np.where(count > 0, np.take_along_axis(ordered, at[:, None], axis=1)[:, 0], np.nan)


def _lists(values: Floats, offsets: Ints) -> Floats:
    """Return the largest value of every column in every instance: what belongs to the list of an expert."""
    out = np.zeros((len(offsets) - 1, values.shape[1]))
    full = np.flatnonzero(np.diff(offsets))
    if len(full):
        out[full] = np.maximum.reduceat(values, offsets[full], axis=0)
    return out


def _of_instance(weight: Floats, length: Floats, offsets: Ints) -> Floats:
    """Return the number of items and of lists of the instance, and the mean coverage of its lists."""
    sizes = np.diff(offsets)
    lists = (_lists(weight, offsets) > 0).sum(axis=1)
    covered = _sum(_lists(length, offsets))
    with np.errstate(divide="ignore", invalid="ignore"):
        coverage = covered / (lists * sizes)
    return np.repeat(np.stack([sizes, lists, coverage], axis=1), sizes, axis=0)
