"""Pairwise wins in lists: how many lists rank one item above another, for all pairs of an instance, in NumPy.

Positions are compared as vectors of bytes, in tiles that stay in cache: about a tenth of a nanosecond for each pair and
list, so that 10,000 items in 40 lists take well under a second without a compiler. Short lists over many items are
counted pair by pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints
from concordant.kernels.lists import by_length, offsets_of

__all__ = [
    "Ballots",
    "Tile",
    "ballots",
    "listed_pairs",
    "merge_order",
    "pair_matrix",
    "pair_outcomes",
    "pair_room",
    "pair_weights",
    "pairs_held",
    "sparse",
    "tile_outcomes",
    "tiles",
]

# A tile's counters and its buffer of comparisons should fit the second-level cache.
_TILE_ROWS, _TILE_COLUMNS = 64, 4096
# Counting one pair of a short list costs as much as this many cells of a tile; the second holds where pairs are sorted.
_PAIR_COST, _SORTED_PAIR_COST = 64, 1024
_BYTE = 127
# Up to this many cells a table of all pairs is cheaper than sorting those that occur.
_DENSE = 1 << 22


class Ballots(NamedTuple):
    """The lists of one instance as two tables, one row per list and one column per item.

    `low` holds the positions (1 = best) with missing items at the largest number, `high` with missing items at 0, so
    that ``low[:, i] < high[:, j]`` only where both items are listed and i comes first. Where a list ranks missing items
    below, they come last in both tables, one place later in `low`, so that two missing items are no tie.
    """

    low: NDArray[Any]
    high: NDArray[Any]
    weights: Floats | None


class Tile(NamedTuple):
    """A rectangle of pairs (i, j)."""

    row: int
    row_end: int
    column: int
    column_end: int


def ballots(
    which: NDArray[Any],
    item: NDArray[Any],
    position: NDArray[Any],
    n_lists: int,
    n_items: int,
    weights: Floats | None,
    below: bool,
) -> Ballots:
    """Return the tables of one instance from its rows.

    Parameters
    ----------
    which, item, position : int[R]
        The list, the item and the dense position (1, 2, ...; ties share one) of every row.
    n_lists, n_items : int
        The size of the tables.
    weights : float64[L] or None
        The weight of every list; lists of weight 0 are left out.
    below : bool
        Whether items missing from a list are tied below those it holds; otherwise they are not compared.
    """
    top = int(position.max()) + 2 if len(position) else 2
    kind = np.uint8 if top <= 255 else np.uint16 if top <= 65535 else np.uint32
    high = np.zeros((n_lists, n_items), dtype=kind)
    high[which, item] = position
    missing = high == 0
    low = high.copy()
    low[missing] = top if below else np.iinfo(kind).max
    if below:
        high[missing] = top - 1
    if weights is not None and (weights == 0).any():
        voting = weights > 0
        low, high, weights = low[voting], high[voting], weights[voting]
    return Ballots(low, high, weights)


def tiles(n: int, whole: bool = False) -> list[Tile]:
    """Return the tiles that cover an n × n table, or (unless `whole`) its upper triangle.

    Without `whole` the first tile of a row begins at the diagonal, so that only one small square holds pairs twice.
    """
    return [
        Tile(row, min(row + _TILE_ROWS, n), column, min(column + _TILE_COLUMNS, n))
        for row in range(0, n, _TILE_ROWS)
        for column in range(0 if whole else row, n, _TILE_COLUMNS)
    ]


def pair_weights(votes: Ballots, tile: Tile, ties_against: bool = False) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return, for the pairs (i, j) of a tile, the weight of the lists for i against j and of those for j against i.

    With `ties_against` a list that ties the two counts among the latter.
    """
    rows, columns = slice(tile.row, tile.row_end), slice(tile.column, tile.column_end)
    ahead = _count(np.less, votes.low[:, rows], votes.high[:, columns], votes.weights)
    second = np.greater_equal if ties_against else np.greater
    behind = _count(second, votes.high[:, rows], votes.low[:, columns], votes.weights)
    return ahead, behind


def tile_outcomes(votes: Ballots, tile: Tile, least: float) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the wins and losses of the rows of a tile, and those of its columns from the rows' end on.

    One item beats another when it is ahead by more than `least`. The pairs of a tile's first square belong to its rows.
    """
    ahead, behind = pair_weights(votes, tile)
    if least:
        margin = ahead - behind
        won, lost = margin > least, margin < -least
    else:
        won, lost = ahead > behind, ahead < behind
    rest = max(tile.row_end - tile.column, 0)
    return (
        _along(won, 1, np.int16),
        _along(lost, 1, np.int16),
        _along(lost[:, rest:], 0, np.int8),
        _along(won[:, rest:], 0, np.int8),
    )


def _along(held: NDArray[np.bool_], axis: int, counter: type[np.integer[Any]]) -> Ints:
    """Return how often a table is true along an axis; the counter is the narrowest type that holds the count."""
    total: Ints = np.add.reduce(held.view(np.int8), axis=axis, dtype=counter).astype(np.int64)
    return total


def _count(test: Callable[..., Any], left: NDArray[Any], right: NDArray[Any], weights: Floats | None) -> NDArray[Any]:
    """Return the total weight of the lists l in which test(left[l, i], right[l, j]) holds, for all i and j."""
    if weights is None:
        return _count_equal(test, left, right)
    out = np.zeros((left.shape[1], right.shape[1]), dtype=np.float64)
    for weight in np.unique(weights).tolist():
        same = weights == weight
        out += weight * _count_equal(test, left[same], right[same])
    return out


def _count_equal(test: Callable[..., Any], left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return the number of lists l in which test(left[l, i], right[l, j]) holds, for all i and j."""
    n_lists, shape = len(left), (left.shape[1], right.shape[1])
    # As many lists at a time as fit the cache; a byte holds the count of up to 127 of them.
    step = max(1, min(_BYTE, _TILE_ROWS * _TILE_COLUMNS // max(shape[0] * shape[1], 1)))
    if step == 1:
        return _count_one_by_one(test, left, right)
    out = np.zeros(shape, dtype=np.int8 if n_lists <= _BYTE else np.int32)
    for start in range(0, n_lists, step):
        part = slice(start, start + step)
        held = test(left[part, :, None], right[part, None, :])
        out += np.add.reduce(held.view(np.int8), axis=0, dtype=np.int8)
    return out


def _count_one_by_one(test: Callable[..., Any], left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    n_lists, shape = len(left), (left.shape[1], right.shape[1])
    total = np.zeros(shape, dtype=np.int32) if n_lists > _BYTE else None
    counter = np.zeros(shape, dtype=np.int8)
    held = np.empty(shape, dtype=np.bool_)
    as_byte = held.view(np.int8)
    for k in range(n_lists):
        test(left[k, :, None], right[k, None, :], out=held)
        np.add(counter, as_byte, out=counter)
        if total is not None and k % _BYTE == _BYTE - 1:
            total += counter
            counter[:] = 0
    if total is None:
        return counter
    total += counter
    return total


def pairs_held(list_offsets: Ints, list_starts: Ints) -> Ints:
    """Return the number of pairs in the lists of every instance, repeats included."""
    lengths = np.diff(list_offsets)
    held = offsets_of(lengths * (lengths - 1) // 2)
    return np.diff(held[list_starts])


def pair_room(list_offsets: Ints, list_starts: Ints, offsets: Ints) -> Ints:
    """Return an upper bound of the number of distinct pairs in the lists of every instance."""
    sizes = np.diff(offsets)
    out: Ints = np.minimum(pairs_held(list_offsets, list_starts), sizes * (sizes - 1) // 2)
    return out


def sparse(list_offsets: Ints, n_items: int) -> bool:
    """Return whether the lists are so short that counting their pairs one by one is faster than comparing all pairs."""
    lengths = np.diff(list_offsets)
    price = _PAIR_COST if n_items * n_items <= _DENSE else _SORTED_PAIR_COST
    return float((lengths * lengths).sum()) * price < float(len(lengths)) * n_items * n_items


def listed_pairs(
    item: NDArray[Any], position: NDArray[Any], offsets: Ints, weights: Floats | None
) -> Iterator[tuple[Ints, Ints, NDArray[np.bool_], Floats]]:
    """Yield (first, second, tied, weight) for all pairs of items within the lists of one instance.

    `first` is ranked above `second`, or tied with it; each unordered pair of a list comes once.
    """
    for which, rows in by_length(offsets):
        m = rows.shape[1]
        if m < 2:
            continue
        a, b = np.triu_indices(m, 1)
        # Many lists make many pairs: some lists at a time.
        step = max(1, (1 << 21) // len(a))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            left, right = part[:, a].ravel(), part[:, b].ravel()
            p, q = position[left], position[right]
            swap = p > q
            first = np.where(swap, item[right], item[left]).astype(np.int64)
            second = np.where(swap, item[left], item[right]).astype(np.int64)
            weight = np.ones(len(which)) if weights is None else weights[which]
            yield first, second, p == q, np.repeat(weight[start : start + step], len(a))


def pair_matrix(first: Ints, second: Ints, weight: Floats, n: int) -> Floats:
    """Return the n × n matrix of the total weight of every pair (first, second).

    >>> pair_matrix(np.array([0, 0]), np.array([1, 1]), np.array([1.0, 2.0]), 2).tolist()
    [[0.0, 3.0], [0.0, 0.0]]
    """
    return np.bincount(first * n + second, weights=weight, minlength=n * n).reshape(n, n).astype(np.float64)


def pair_outcomes(first: Ints, second: Ints, weight: Floats, n: int, least: float) -> tuple[Ints, Ints]:
    """Return how many others each of n items beats and loses to, by a margin above `least`.

    >>> wins, losses = pair_outcomes(np.array([0, 1, 2]), np.array([1, 2, 1]), np.ones(3), 3, 0.0)
    >>> wins.tolist(), losses.tolist()
    ([1, 0, 0], [0, 1, 0])
    """
    key = np.minimum(first, second) * n + np.maximum(first, second)
    signed = np.where(first < second, weight, -weight)
    if n * n <= _DENSE:
        pairs = np.arange(n * n, dtype=np.int64)
        net = np.bincount(key, weights=signed, minlength=n * n)
    else:
        pairs, place = np.unique(key, return_inverse=True)
        net = np.bincount(place, weights=signed, minlength=len(pairs))
    decided = np.abs(net) > least
    pairs, ahead = pairs[decided], net[decided] > 0
    low, high = pairs // n, pairs % n
    winner, loser = np.where(ahead, low, high), np.where(ahead, high, low)
    return np.bincount(winner, minlength=n), np.bincount(loser, minlength=n)


def merge_order(order: list[int], before: Callable[[int, int], bool]) -> list[int]:
    """Sort an order by merging; the relation `before` need be neither transitive nor complete.

    No item directly follows one that it comes before: a sort can promise no more for such a relation. Items that
    `before` does not tell apart keep their order within a merge.

    >>> merge_order([2, 0, 1], lambda a, b: a < b)
    [0, 1, 2]
    """
    runs = [[i] for i in order]
    while len(runs) > 1:
        merged = [_merge(runs[a], runs[a + 1], before) for a in range(0, len(runs) - 1, 2)]
        if len(runs) % 2:
            merged.append(runs[-1])
        runs = merged
    return runs[0] if runs else []


def _merge(left: list[int], right: list[int], before: Callable[[int, int], bool]) -> list[int]:
    out: list[int] = []
    a = b = 0
    while a < len(left) and b < len(right):
        if before(right[b], left[a]):
            out.append(right[b])
            b += 1
        else:
            out.append(left[a])
            a += 1
    return out + left[a:] + right[b:]
