"""Votes on pairs of items, of the lists that hold both or of observed comparisons: counts and majorities."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators.fusion import LISTS, reciprocal_ranks
from concordant.arrays import Codes, Floats, Ints
from concordant.base.contract import Aggregator, Votes
from concordant.base.limits import check_limits
from concordant.base.params import one_of
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.preferences import Preferences
from concordant.errors import (
    DataError,
    listing,
    quote,
)
from concordant.execution import map_instances, threads
from concordant.kernels import pairwise_wins
from concordant.kernels.ties import TOLERANCE

if TYPE_CHECKING:
    pass

__all__ = [
    "LARGE",
    "MISSING",
    "PAIRED",
    "MajorityVote",
    "PairwiseVotes",
    "check_tables",
    "each_instance",
    "joined",
    "one_instance",
]

PAIRED = LISTS | {"comparisons"}
MISSING = one_of("auto", "unknown", "below")
# Ties are broken by reciprocal rank fusion with its usual constant.
_RRF_K = 60.0
# Up to this many items a sort by majority uses a table of all pairs.
_TABLE_SIZE = 1000
# From this many items on threads help, because the work is mostly outside the interpreter lock.
LARGE = 1000
# Pairs of items in lists, each counted twice, from which Numba is loaded, and from which it is used if loaded.
_MANY_PAIRS, _SOME_PAIRS = 1 << 31, 1 << 24
_COMPILED = "concordant.kernels.pairwise_majorities"
# From this many pairs on the limits of memory and time are checked.
_MANY_CELLS = 1e9

T = TypeVar("T")


def each_instance(work: Callable[[int], T], sizes: list[int]) -> list[T]:
    """Return the result of `work` for every instance, in threads where some instance is large."""
    if max(sizes, default=0) >= LARGE:
        return map_instances(work, len(sizes))
    # On small instances the interpreter lock makes threads slower.
    with threads(1):
        return map_instances(work, len(sizes))


class MajorityVote(Aggregator):
    """Base class of methods on pairwise majorities."""

    def _counts_pairs(self) -> bool:
        """Return whether majorities are counted with these parameters."""
        return True

    def _consensus(self, preferences: Votes, known: Any = None) -> Consensus:
        # Instances are scored in parts; only here is it known whether loading Numba pays.
        if isinstance(preferences, Preferences) and self._counts_pairs() and _pair_count(preferences) >= _MANY_PAIRS:
            import_module(_COMPILED)
        return super()._consensus(preferences, known)


def _pair_count(votes: Preferences) -> float:
    """Return an upper bound of the number of pairs in all lists, each counted twice."""
    return float((np.diff(votes.list_starts) * np.square(votes.slots.sizes, dtype=np.float64)).sum())


class PairwiseVotes:
    """The votes on pairs of items, instance by instance."""

    # Whether compiled loops count the votes.
    compiled = False

    def __init__(self, votes: Votes) -> None:
        self.offsets = votes.slots.offsets
        self.sizes: list[int] = np.diff(votes.slots.offsets).tolist()

    @staticmethod
    def of(votes: Votes, missing: str = "auto") -> PairwiseVotes:
        """Return the pairwise votes of preferences or comparisons.

        Parameters
        ----------
        votes : Preferences or Comparisons
            The votes.
        missing : {"auto", "unknown", "below"}
            "unknown": a list says nothing about items it leaves out. "below": they are tied below its items. "auto":
            what the preferences declare, instance by instance.
        """
        return ListVotes(votes, missing) if isinstance(votes, Preferences) else ComparisonVotes(votes)

    def tie_margin(self, instance: int) -> float:
        """Return the margin up to which a pair is tied: 0 for counts, the rounding error for weights."""
        raise TypeError(f"{type(self).__name__} does not define tie_margin")

    def fallback(self) -> Floats:
        """Return the tie-break of every slot, for items that are equal in all pairs."""
        raise TypeError(f"{type(self).__name__} does not define fallback")

    def pair_votes(self, instance: int, ties: bool = False) -> tuple[Ints, Ints, Floats]:
        """Return (first, second, weight) of votes for one item over another; with `ties`, tied ones count both ways."""
        raise TypeError(f"{type(self).__name__} does not define pair_votes")

    def ballots(self, instance: int) -> pairwise_wins.Ballots | None:
        """Return the lists of an instance as tables of positions, or None where pairs are better counted one by one."""
        return None

    def counts(self, instance: int, ties: bool = False) -> Floats:
        """Return the table of the votes for item i over item j; with `ties`, tied ones count both ways."""
        n = self.sizes[instance]
        votes = self.ballots(instance)
        if votes is None:
            return pairwise_wins.pair_matrix(*self.pair_votes(instance, ties), n)
        out = np.zeros((n, n))
        for tile in pairwise_wins.tiles(n, whole=ties):
            rows, columns = slice(tile.row, tile.row_end), slice(tile.column, tile.column_end)
            ahead, behind = pairwise_wins.pair_weights(votes, tile, ties_against=ties)
            out[columns, rows] = behind.T
            if not ties:
                out[rows, columns] = ahead
        if ties:
            np.fill_diagonal(out, 0.0)
        return out

    def majorities(self, instance: int, strict: bool = False) -> NDArray[np.bool_]:
        """Return the majority table: whether row beats column; `strict` needs more than half of all votes."""
        n, tie_margin = self.sizes[instance], self.tie_margin(instance)
        votes = self.ballots(instance)
        if votes is None:
            ahead = pairwise_wins.pair_matrix(*self.pair_votes(instance), n)
            behind = pairwise_wins.pair_matrix(*self.pair_votes(instance, ties=True), n).T if strict else ahead.T
            return ahead - behind > tie_margin
        out = np.zeros((n, n), dtype=np.bool_)
        if self.compiled:
            from concordant.kernels import pairwise_majorities

            pairwise_majorities.majorities(*_by_item(votes), strict, out)
            return out
        for tile in pairwise_wins.tiles(n, whole=True):
            ahead, behind = pairwise_wins.pair_weights(votes, tile, ties_against=strict)
            won = ahead - behind > tie_margin if tie_margin else ahead > behind
            out[tile.row : tile.row_end, tile.column : tile.column_end] = won
        return out

    def beats(self, instance: int) -> Callable[[int, int], bool]:
        """Return the test whether one item of an instance beats another."""
        table: list[list[bool]] = self.majorities(instance).tolist()
        return lambda a, b: table[a][b]

    def outcomes(self, instance: int, threaded: bool = False) -> tuple[Ints, Ints]:
        """Return the number of items that each item beats and loses to; `threaded` uses threads within the instance."""
        n, tie_margin = self.sizes[instance], self.tie_margin(instance)
        votes = self.ballots(instance)
        if votes is None:
            return pairwise_wins.pair_outcomes(*self.pair_votes(instance), n, tie_margin)
        wins, losses = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        if self.compiled and not threaded:
            from concordant.kernels import pairwise_majorities

            pairwise_majorities.outcomes(*_by_item(votes), wins, losses)
            return wins, losses
        parts = pairwise_wins.tiles(n)

        def work(t: int) -> tuple[Ints, Ints, Ints, Ints]:
            return pairwise_wins.tile_outcomes(votes, parts[t], tie_margin)

        done = map_instances(work, len(parts)) if threaded else [work(t) for t in range(len(parts))]
        for tile, (won, lost, column_won, column_lost) in zip(parts, done, strict=True):
            wins[tile.row : tile.row_end] += won
            losses[tile.row : tile.row_end] += lost
            start = max(tile.row_end, tile.column)
            wins[start : tile.column_end] += column_won
            losses[start : tile.column_end] += column_lost
        return wins, losses

    def each(self, work: Callable[[int], T]) -> list[T]:
        """Return the result of `work` for every instance, in threads where that is faster."""
        return map_instances(work, len(self.sizes)) if self.compiled else each_instance(work, self.sizes)

    def check_work(self, owner: str) -> None:
        """Raise where all pairs of an instance exceed the limits of memory or time."""

    def all_outcomes(self, owner: str) -> tuple[Floats, Floats]:
        """Return the number of items that every slot beats and loses to; `owner` is the method named in errors."""
        self.check_work(owner)
        if len(self.sizes) == 1:
            found = [self.outcomes(0, threaded=True)]
        else:
            found = self.each(self.outcomes)
        none = np.zeros(0)
        wins = np.concatenate([none, *(won for won, _ in found)])
        return wins, np.concatenate([none, *(lost for _, lost in found)])


def _by_item(votes: pairwise_wins.Ballots) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the tables with one row per item."""
    low = np.ascontiguousarray(votes.low.T)
    return low, low if votes.high is votes.low else np.ascontiguousarray(votes.high.T)


class ListVotes(PairwiseVotes):
    """Pairwise votes of lists: a list votes once on each pair it holds."""

    def __init__(self, votes: Preferences, missing: str) -> None:
        super().__init__(votes)
        self.votes = votes
        self.below: list[bool] = votes.below(missing).tolist()
        # Once Numba is loaded, it is used for smaller work too.
        self.compiled = _COMPILED in sys.modules and votes.list_weight is None and _pair_count(votes) >= _SOME_PAIRS
        self.position = votes.positions("dense").astype(np.int32)

    def weights(self, instance: int) -> Floats | None:
        """Return the weights of the lists of an instance, rounded so that sums are exact; None if all are 1."""
        p = self.votes
        if p.list_weight is None:
            return None
        weights = p.list_weight[p.list_starts[instance] : p.list_starts[instance + 1]]
        magic = np.ldexp(1.5, int(np.frexp(weights.sum())[1]) + 1)
        rounded: Floats = (weights + magic) - magic
        return None if (rounded == 1).all() else rounded

    def tie_margin(self, instance: int) -> float:
        weights = self.weights(instance)
        return 0.0 if weights is None else TOLERANCE * float(weights.sum())

    def fallback(self) -> Floats:
        return reciprocal_ranks(self.votes, _RRF_K, "average", self.votes.list_weight)

    def check_work(self, owner: str) -> None:
        cells = np.square(self.sizes, dtype=np.float64)
        for n in np.flatnonzero(cells > _MANY_CELLS).tolist():
            if not self.below[n] and pairwise_wins.sparse(self._rows(n)[0], self.sizes[n]):
                cells[n] = 0.0
        # The memory of the outcomes of all tiles, and the time of one list.
        check_limits(owner, self.votes, "counts of all pairs", n_bytes=0.12 * cells, seconds=1e-9 * cells)

    def _rows(self, instance: int) -> tuple[Ints, Codes, Codes]:
        """Return where the lists of an instance begin, and the local item and the position of its rows."""
        p = self.votes
        offsets = p.list_offsets[p.list_starts[instance] : p.list_starts[instance + 1] + 1]
        rows = slice(offsets[0], offsets[-1])
        return offsets - offsets[0], p.slot[rows] - np.int32(self.offsets[instance]), self.position[rows]

    def pair_votes(self, instance: int, ties: bool = False) -> tuple[Ints, Ints, Floats]:
        offsets, item, position = self._rows(instance)
        none = np.zeros(0, dtype=np.int64)
        firsts, seconds, weights = [none], [none], [np.zeros(0)]
        for first, second, tied, weight in pairwise_wins.listed_pairs(item, position, offsets, self.weights(instance)):
            for chosen, a, b in ((~tied, first, second), (tied, first, second), (tied, second, first)):
                if chosen is not tied or ties:
                    firsts.append(a[chosen])
                    seconds.append(b[chosen])
                    weights.append(weight[chosen])
        return np.concatenate(firsts), np.concatenate(seconds), np.concatenate(weights)

    def ballots(self, instance: int) -> pairwise_wins.Ballots | None:
        offsets, _, _ = self._rows(instance)
        return (
            None
            if not self.below[instance] and pairwise_wins.sparse(offsets, self.sizes[instance])
            else self._ballots(instance)
        )

    def _ballots(self, instance: int) -> pairwise_wins.Ballots:
        offsets, item, position = self._rows(instance)
        n_lists = len(offsets) - 1
        which = np.repeat(np.arange(n_lists), np.diff(offsets))
        weights = self.weights(instance)
        return pairwise_wins.ballots(
            which, item, position, n_lists, self.sizes[instance], weights, self.below[instance]
        )

    def beats(self, instance: int) -> Callable[[int, int], bool]:
        if self.sizes[instance] <= _TABLE_SIZE:
            return super().beats(instance)
        # A sort needs few of the pairs of a large instance: count only those.
        votes, tie_margin = self._ballots(instance), self.tie_margin(instance)
        low, high = np.ascontiguousarray(votes.low.T), np.ascontiguousarray(votes.high.T)
        weights = np.ones(low.shape[1]) if votes.weights is None else votes.weights
        return lambda a, b: float(weights @ (low[a] < high[b]) - weights @ (low[b] < high[a])) > tie_margin


class ComparisonVotes(PairwiseVotes):
    """Pairwise votes of observed comparisons: every outcome is a vote."""

    def __init__(self, votes: Comparisons) -> None:
        super().__init__(votes)
        self.votes = votes

    def _rows(self, instance: int) -> slice:
        return slice(int(self.votes.row_starts[instance]), int(self.votes.row_starts[instance + 1]))

    def tie_margin(self, instance: int) -> float:
        c, rows = self.votes, self._rows(instance)
        return TOLERANCE * float(c.n_left[rows].sum() + c.n_right[rows].sum() + c.n_ties[rows].sum())

    def fallback(self) -> Floats:
        c, n = self.votes, self.votes.n_slots
        net = c.n_left - c.n_right
        return (np.bincount(c.left, net, n) - np.bincount(c.right, net, n)).astype(np.float64)

    def pair_votes(self, instance: int, ties: bool = False) -> tuple[Ints, Ints, Floats]:
        c, rows, base = self.votes, self._rows(instance), int(self.offsets[instance])
        left, right = c.left[rows].astype(np.int64) - base, c.right[rows].astype(np.int64) - base
        extra = c.n_ties[rows] if ties else np.zeros(len(left))
        weight = np.concatenate([c.n_left[rows] + extra, c.n_right[rows] + extra])
        return np.concatenate([left, right]), np.concatenate([right, left]), weight


def one_instance(votes: Votes, instance: str | None, owner: str) -> Votes:
    """Return one instance of a container; None stands for the only one. `owner` is named in errors."""
    if instance is None:
        if len(votes) != 1:
            raise DataError(f"there are {len(votes)} instances; name one: {owner}(preferences, instance).")
        return votes
    code = votes.instances.codes.get(str(instance), -1)
    if code < 0:
        raise DataError(
            f"{owner}: no instance {quote(instance)}. Instances: {listing(votes.instances[:5].tolist(), 5)}."
        )
    return votes[code : code + 1]


def check_tables(votes: Votes, owner: str) -> None:
    """Raise where tables of all pairs of items exceed the limit of memory."""
    check_limits(owner, votes, "tables of all pairs", n_bytes=32.0 * np.square(votes.slots.sizes, dtype=np.float64))


def joined(parts: list[Floats]) -> Floats:
    """Return the scores of all instances, concatenated."""
    return np.concatenate([np.zeros(0), *parts])
