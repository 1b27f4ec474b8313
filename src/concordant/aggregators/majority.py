"""Pairwise majority methods: Condorcet, Copeland and Kemeny.

The lists that hold both items (or observed comparisons) vote on a pair; the distance of two positions does not count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import islice, product
from math import prod
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators.fusion import LISTS, reciprocal_ranks
from concordant.arrays import Codes, Floats, Ints
from concordant.base.contract import Aggregator, Tags, Votes
from concordant.base.limits import check_limits
from concordant.base.params import Constraint, Within, boolean, integer, number, one_of
from concordant.base.registry import register_method
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.preferences import Preferences
from concordant.errors import (
    ConvergenceWarning,
    DataError,
    IdentifiabilityWarning,
    ParameterError,
    Setting,
    listing,
    quote,
)
from concordant.execution import map_instances, n_threads, threads
from concordant.execution.blocks import Blocks
from concordant.kernels import kemeny, pairwise_wins
from concordant.kernels.ties import TOLERANCE, break_ties, dense_ranks

if TYPE_CHECKING:
    from concordant.data.features import Features
    from concordant.data.labels import Labels

__all__ = ["Condorcet", "Copeland", "Kemeny", "PairwiseVotes"]

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


@register_method
class Condorcet(MajorityVote):
    """The number of items that the item beats by majority; a Condorcet winner, where there is one, comes first.

    i beats j when a greater weight of lists prefers i to j than j to i. score(i) = how many items i beats. Equal scores
    are separated by less than 1/2, by wins minus losses and then by reciprocal rank fusion with k = 60 (net votes for
    comparisons), so that floor(score) is the number of wins. A list that ties two items votes for neither. A pair
    without votes is tied; an item that nobody ranks neither wins nor loses, but loses to all others where absent items
    are below. Empty lists add nothing.

    Parameters
    ----------
    fusion : bool
        Merge sort the items with the majority as comparison, instead of counting wins. The score is then M - place + 1;
        neighbours that tie, also in reciprocal rank fusion, share the better one. Where majorities are cyclic the
        result depends on the initial order, which is by reciprocal rank fusion, then as in the input.
    missing : {"auto", "unknown", "below"}
        What a list says about an item it leaves out. "unknown": nothing. "below": it prefers all its items to all
        absent ones, as in top-k lists. "auto": what the preferences declare, instance by instance. Comparisons leave
        nothing out.

    Notes
    -----
    Cost O(K M²) for K lists over M items; O(K M log M) comparisons with `fusion`. PyFLAGR and ranx count
    every item that a list leaves out as ranked behind (``missing="below"``), and ranx lets the first of two items
    with equal votes win.

    References
    ----------
    Montague and Aslam, Condorcet fusion for improved retrieval, CIKM 2002. Copeland, A reasonable social welfare
    function, 1951.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a", "c"], "z": ["a", "c"]})
    >>> cc.Condorcet().fit_predict(runs).score.tolist()
    [1.25, 1.0, 0.0]
    """

    name = "condorcet"
    tags = Tags(accepts=PAIRED, counts=True, heuristic=True, cost="O(K M²)")
    _relative_weights = True
    constraints: ClassVar[Mapping[str, Constraint]] = {"fusion": boolean(), "missing": MISSING}

    def __init__(self, *, fusion: bool = False, missing: str = "auto") -> None:
        self.fusion = fusion
        self.missing = missing

    def _scores(self, preferences: Votes) -> Floats:
        votes = PairwiseVotes.of(preferences, self.missing)
        tie_break = votes.fallback()
        if not self.fusion:
            wins, losses = votes.all_outcomes("Condorcet")
            return break_ties(wins, [wins - losses, tie_break], votes.offsets)
        level = dense_ranks(tie_break, votes.offsets)
        edges = votes.offsets.tolist()
        parts = each_instance(lambda n: _merge_sorted(votes, n, level[edges[n] : edges[n + 1]]), votes.sizes)
        return _joined(parts)


def _merge_sorted(votes: PairwiseVotes, instance: int, level: Ints) -> Floats:
    """Return the scores of one instance by merge sort, begun in descending order of `level`."""
    n = len(level)
    beats = votes.beats(instance)
    order = pairwise_wins.merge_order(np.argsort(-level, kind="stable").tolist(), beats)
    score = np.zeros(n)
    above = -1
    for place, item in enumerate(order):
        tied = above >= 0 and level[item] == level[above] and not beats(above, item)
        score[item] = score[above] if tied else n - place
        above = item
    return score


@register_method
class Copeland(MajorityVote):
    """The number of items that the item beats by majority minus the number it loses to.

    i beats j when a greater weight of lists prefers i to j than j to i. score(i) = wins - losses, which orders as wins
    plus half the draws does. Equal scores stay tied. A list that ties two items votes for neither. A pair without votes
    counts for neither item, so that an item nobody ranks scores 0, in the middle; it comes last where absent items are
    below. Empty lists add nothing.

    Parameters
    ----------
    missing : {"auto", "unknown", "below"}
        What a list says about an item it leaves out. "unknown": nothing. "below": it prefers all its items to all
        absent ones, as in top-k lists. "auto": what the preferences declare, instance by instance. Comparisons leave
        nothing out.

    Notes
    -----
    Cost O(K M²) for K lists over M items, about a tenth of a nanosecond for each list and pair; O(P) for P pairs where
    lists are much shorter than M, and for comparisons. PyFLAGR counts an item that a list leaves out as ranked behind
    (``missing="below"``).

    The row that LETOR publishes as Condorcet on MQ2008-agg is this method where each list's vote on a pair counts its
    difference of ranks: ``Copeland().fit_predict(preferences.comparisons("count"))``.

    References
    ----------
    Copeland, A reasonable social welfare function, University of Michigan, 1951.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a", "c"], "z": ["a", "c"]})
    >>> cc.Copeland().fit_predict(runs).score.tolist()
    [1.0, 1.0, -2.0]
    """

    name = "copeland"
    tags = Tags(accepts=PAIRED, counts=True, heuristic=True, cost="O(K M²)")
    _relative_weights = True
    constraints: ClassVar[Mapping[str, Constraint]] = {"missing": MISSING}

    def __init__(self, *, missing: str = "auto") -> None:
        self.missing = missing

    def _scores(self, preferences: Votes) -> Floats:
        wins, losses = PairwiseVotes.of(preferences, self.missing).all_outcomes("Copeland")
        return wins - losses


class _Proof(NamedTuple):
    """The ranking of one instance.

    Attributes
    ----------
    score : float64[M]
        Minus the place of each item.
    cost, bound : float
        Its cost, and a lower bound of the cost of any ranking.
    optimal : bool
        Whether it is proven optimal.
    solver : str
        The solver of the hardest group.
    unique : bool or None
        Whether no other ranking has the least cost; None if that is unknown.
    chosen : bool
        Whether a tie-break chose between optimal rankings.
    """

    score: Floats
    cost: float
    bound: float
    optimal: bool
    solver: str
    unique: bool | None
    chosen: bool


@register_method
class Kemeny(Aggregator):
    """Minus the place of the item in a ranking that contradicts as few votes as possible.

    For each pair that it ranks i above j, a ranking costs the weight of the lists (or comparisons) that prefer j to i.
    The consensus is a ranking of least cost. score(i) = -place. A list that ties two items contradicts nothing. Items
    that nobody ranks have net votes of 0 and are in the middle; last where absent items are below. Empty lists add
    nothing.

    Items are first split into the strongly connected components of the majority graph, the groups that majorities
    connect in cycles. Groups are ordered by majority alone, and only the order within groups has to be solved. Among
    several optimal rankings dynamic programming takes the one that has, at the first difference, the item with more net
    votes, then the better by reciprocal rank fusion with k = 60; items that cannot be distinguished share a place. The
    other solvers start with the order by net votes and keep the first optimal ranking they find; items with equal votes
    against all others share a place there too. A warning says where a ranking is one of several optimal ones.

    Parameters
    ----------
    solver : {"auto", "exact", "milp", "local"}
        How groups are solved. "exact": dynamic programming over subsets, for groups of up to 18 items. "milp": integer
        programming, until proven optimal or out of time. "local": local search, moving single items until no move
        helps. "auto": dynamic programming up to 16 items, integer programming up to `max_items`, local search above.
    max_items : int
        The largest group that "auto" gives to integer programming.
    time_limit : float
        Seconds of integer programming for one call. Each instance may take its share of the remaining time, so easy
        ones leave more to hard ones. The answer depends on the speed of the machine only where time runs out, which
        `optimality_` shows.
    ties : {"break", "mean"}
        Between optimal rankings. "break": the tie-breaks above choose one. "mean": score(i) is minus the mean place of
        i in all of them, so that items tie which they order both ways alike. It needs dynamic programming, over at most
        18 items at a time that majorities do not separate from all others.
    missing : {"auto", "unknown", "below"}
        What a list says about an item it leaves out. "unknown": nothing. "below": it prefers all its items to all
        absent ones, as in top-k lists. "auto": what the preferences declare, instance by instance. Comparisons leave
        nothing out.

    Attributes
    ----------
    optimality_ : dict of lists
        Set by `fit_predict`. For each instance: `instance`, its `cost`, a lower `bound` of any ranking's cost, the
        `gap` between the two, whether the ranking is `optimal` (proven), the `solver` of the hardest group, and whether
        the optimal ranking is `unique` (None where the solver does not know).

    Notes
    -----
    Cost O(K M²) to count votes, then O(2^n n) for a group of n by dynamic programming; finding the
    ranking is NP-hard. A warning says so when solver="auto" or "milp" cannot prove a ranking optimal. One warning
    (`IdentifiabilityWarning`) for each call says where a tie-break chose between optimal rankings; `optimal_rankings`
    lists them.

    References
    ----------
    Kemeny, Mathematics without numbers, Daedalus 88, 1959. Young and Levenglick, A consistent
    extension of Condorcet's election principle, 1978. Groups and solvers: Betzler, Bredereck and Niedermeier,
    Theoretical and empirical evaluation of data reduction for exact Kemeny rank aggregation, 2014; Conitzer,
    Davenport and Kalagnanam, Improved bounds for computing Kemeny rankings, AAAI 2006.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "c", "a"], "z": ["c", "a", "b"], "w": ["a", "b", "c"]})
    >>> kemeny = cc.Kemeny()
    >>> kemeny.fit_predict(votes).ranking()
    ['a', 'b', 'c']
    >>> kemeny.optimality_["cost"], kemeny.optimality_["optimal"]
    ([4.0], [True])
    """

    name = "kemeny"
    tags = Tags(accepts=PAIRED, counts=True, heuristic=True, cost="NP-hard; O(2^n n) for n items in a circle")
    _relative_weights = True
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "solver": one_of("auto", "exact", "milp", "local"),
        "max_items": integer(least=0),
        "time_limit": number(above=0),
        "ties": one_of("break", "mean"),
        "missing": MISSING,
    }

    # Whether it warns where a tie-break chose between optimal rankings.
    _warns_of_choice = True
    optimality_: Annotated[dict[str, list[Any]], Within(least=-1e150, most=1e150)]

    def __init__(
        self,
        *,
        solver: str = "auto",
        max_items: int = 100,
        time_limit: float = 30.0,
        ties: str = "break",
        missing: str = "auto",
    ) -> None:
        self.solver = solver
        self.max_items = max_items
        self.time_limit = time_limit
        self.ties = ties
        self.missing = missing

    def _check_kind(self, kind: str) -> None:
        super()._check_kind(kind)
        if self.ties == "mean" and self.solver not in ("auto", "exact"):
            raise ParameterError(
                f"Kemeny(ties='mean') needs all optimal rankings, which solver={self.solver!r} does not find. Use "
                "solver='auto' or 'exact'."
            )

    def fit_predict(
        self,
        preferences: Votes | Blocks,
        labels: Labels | None = None,
        *,
        validation: Any = None,
        features: Features | None = None,
    ) -> Consensus:
        """Return the consensus of the preferences and store it; for preferences in memory also `optimality_`."""
        if isinstance(preferences, Blocks):
            return super().fit_predict(preferences, labels, validation=validation, features=features)
        votes = self._checked(preferences)
        self._run_fit(votes, labels, validation, features)
        proofs = self._proofs(votes)
        self.optimality_ = {
            "instance": preferences.instances.tolist(),
            "cost": [p.cost for p in proofs],
            "bound": [p.bound for p in proofs],
            "gap": [p.cost - p.bound for p in proofs],
            "optimal": [p.optimal for p in proofs],
            "solver": [p.solver for p in proofs],
            "unique": [p.unique for p in proofs],
        }
        self.fit_info_.objective = float(sum(p.cost for p in proofs))
        self.fit_info_.converged = all(p.optimal for p in proofs)
        self.consensus_ = Consensus.from_codes(preferences.slots, _joined([p.score for p in proofs]))
        return self.consensus_

    def _scores(self, preferences: Votes) -> Floats:
        return _joined([p.score for p in self._proofs(preferences)])

    def _block_edges(self, preferences: Preferences) -> list[int]:
        # All instances share the time limit and one warning.
        return [0, len(preferences)]

    def optimal_rankings(
        self, preferences: Votes, instance: str | None = None, *, ties: bool = False, limit: int = 1000
    ) -> list[list[list[str]]]:
        """Return every optimal ranking of one instance, each as groups of tied items, best first.

        Without `ties` every group has one item. With `ties` rankings may tie items: a list that prefers one of two tied
        items costs half of its weight, and so does a list that ties two items which the ranking separates. This is the
        distance of Kemeny and Snell. So a tie can be better than both orders only where lists tie items too.

        Parameters
        ----------
        preferences : Preferences or Comparisons
            The votes. The parameter `missing` of the method applies, the others do not.
        instance : str, optional
            Which instance; needed where there are several.
        ties : bool
            Whether rankings may tie items.
        limit : int
            The most rankings to list; if there are more, an error says so.

        Notes
        -----
        Items are split into blocks that majorities order. Cost O(2^n n) for the largest block of n items, at most 18;
        O(3^n) with `ties`, at most 12.

        References
        ----------
        Kemeny and Snell, Mathematical Models in the Social Sciences, 1962, chapter 2.

        Examples
        --------
        >>> import concordant as cc
        >>> circle = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "c", "a"], "z": ["c", "a", "b"]})
        >>> [[item for group in ranking for item in group] for ranking in cc.Kemeny().optimal_rankings(circle)]
        [['a', 'b', 'c'], ['b', 'c', 'a'], ['c', 'a', 'b']]
        """
        chosen = one_instance(self._checked(preferences), instance, "optimal_rankings")
        check_tables(chosen, "Kemeny")
        votes = PairwiseVotes.of(chosen, self.missing)
        ahead, slack = votes.counts(0), votes.tie_margin(0)
        items = chosen.items.tolist()
        equal = votes.counts(0, ties=True) - ahead if ties else np.zeros_like(ahead)
        margin = ahead - ahead.T
        margin[np.abs(margin) <= slack] = 0.0
        parts: list[list[list[list[str]]]] = []
        most = _WEAK_SIZE if ties else _EXACT_SIZE
        # A pair costs the least only in its order where it also costs less than a tie.
        for block in _blocks(margin > equal + slack, most, chosen.instances[0], "Leave out items that few lists hold"):
            own = np.ix_(block, block)
            if ties:
                tie = 0.5 * np.abs(margin[own]) - 0.5 * equal[own]
                found = kemeny.optimal_weak_orders(np.maximum(-margin[own], 0.0), tie, slack)
            else:
                orders = kemeny.optimal_orders(np.maximum(-margin[own], 0.0), slack)
                found = ([[i] for i in order] for order in orders)
            parts.append(
                [[[items[block[i]] for i in group] for group in ranking] for ranking in islice(found, limit + 1)]
            )
        if prod(map(len, parts)) > limit:
            raise DataError(
                f"instance {chosen.instances[0]!r} has more than {limit:,} optimal rankings. Pass a larger limit=, or "
                "see their mean places: Kemeny(ties='mean')."
            )
        return [[group for part in ranking for group in part] for ranking in product(*parts)]

    def _proofs(self, preferences: Votes) -> list[_Proof]:
        """Return the ranking of every instance, and warn of those that are not proven optimal."""
        check_tables(preferences, "Kemeny")
        votes = PairwiseVotes.of(preferences, self.missing)
        tie_break = votes.fallback()
        edges = votes.offsets.tolist()

        budget = _TimeBudget(self.time_limit, len(votes.sizes))

        def solve(n: int) -> _Proof:
            return self._instance(
                votes, n, tie_break[edges[n] : edges[n + 1]], preferences.instances[n], budget.share()
            )

        proofs = map_instances(solve, len(votes.sizes))
        unsure = [n for n, p in enumerate(proofs) if not p.optimal]
        if unsure and self.solver in ("auto", "milp"):
            worst = max(unsure, key=lambda n: proofs[n].cost - proofs[n].bound)
            local = Setting("solver", "local")
            self._warn(
                f"the rankings of {len(unsure)} of {len(proofs)} instances are not proven optimal; instance "
                f"{preferences.instances[worst]!r} costs {proofs[worst].cost:g}, no ranking costs less than "
                f"{proofs[worst].bound:g}. Raise time_limit or max_items for a proof, or pass "
                f"{local} to do without.",
                ConvergenceWarning,
                local,
            )
        several = [n for n, p in enumerate(proofs) if p.chosen]
        if several and self._warns_of_choice:
            mean = Setting("ties", "mean")
            self._warn(
                f"the optimal ranking is one of several in {len(several)} of {len(proofs)} instances, such as "
                f"{preferences.instances[several[0]]!r}: tie-breaks chose it. For up to {_EXACT_SIZE} items that "
                f"majorities do not separate, Kemeny().optimal_rankings lists all, and {mean} ranks by the mean of "
                "their places.",
                IdentifiabilityWarning,
                mean,
            )
        return proofs

    def _instance(self, votes: PairwiseVotes, instance: int, tie_break: Floats, name: str, seconds: float) -> _Proof:
        """Return the ranking of one instance."""
        ahead = votes.counts(instance)
        margin = ahead - ahead.T
        slack = votes.tie_margin(instance)
        margin[np.abs(margin) <= slack] = 0.0
        n = len(margin)
        floor = float(np.minimum(ahead, ahead.T)[np.triu_indices(n, 1)].sum())
        if self.ties == "mean":
            return _mean_of_optima(margin, slack, floor, name)
        one = np.array([0, n], dtype=np.int64)
        net = margin.sum(axis=1)
        key = dense_ranks(dense_ranks(net, one) * (n + 1) + dense_ranks(tie_break, one), one)
        group = kemeny.dense_components(margin > 0)
        cost = np.maximum(-margin, 0.0)
        deadline = monotonic() + seconds
        place = np.zeros(n)
        extra = bound = 0.0
        hardest, proven, chosen = "majority", True, False
        unique: bool | None = True
        for items in _members(group):
            if len(items) == 1:
                place[items] = 1.0
                continue
            solver = self._solver(len(items), name)
            solution = _solve(solver, cost[np.ix_(items, items)], key[items], deadline, slack)
            place[items] = solution.position
            extra += solution.cost
            bound += solution.bound
            proven &= solution.cost - solution.bound <= slack + 1e-6 * solution.cost * (solver == "milp")
            hardest = max(hardest, solver, key=_SOLVERS.index)
            unique = False if solution.unique is False else unique and solution.unique
            chosen |= solution.chosen
        placed = _place_groups(margin > 0, group, place, net, tie_break)
        # Neighbours in different groups that no majority orders may change places.
        order = np.argsort(placed, kind="stable")
        above, below = order[:-1], order[1:]
        free = (group[above] != group[below]) & (margin[above, below] == 0)
        apart = placed[below] - placed[above] > 0.25
        unique = unique if not free.any() else False
        chosen |= bool((free & apart).any())
        if proven:
            bound = extra
        else:
            unique, chosen = None, False
        return _Proof(-placed, floor + extra, floor + bound, bool(proven), hardest, unique, chosen)

    def _solver(self, size: int, instance: str) -> str:
        if self.solver == "exact" and size > _EXACT_SIZE:
            raise DataError(
                f"instance {instance!r} has {size} items that majorities connect in circles; solver='exact' solves "
                f"up to {_EXACT_SIZE}. Use solver='milp' or 'local'."
            )
        if self.solver != "auto":
            return self.solver
        return "exact" if size <= _DP_SIZE else "milp" if size <= self.max_items else "local"


_SOLVERS = ("majority", "exact", "milp", "local")
_DP_SIZE, _EXACT_SIZE, _WEAK_SIZE = 16, 18, 12


class _TimeBudget:
    """Divides a time limit among instances that several threads solve in any order."""

    def __init__(self, seconds: float, instances: int) -> None:
        self._end = monotonic() + seconds
        self._left = instances
        self._lock = Lock()

    def share(self) -> float:
        """Return the seconds the next instance may take."""
        with self._lock:
            left, self._left = self._left, self._left - 1
        return max(self._end - monotonic(), 0.0) * min(1.0, n_threads() / max(left, 1))


def _blocks(beats: NDArray[np.bool_], most: int, instance: str, advice: str) -> list[Ints]:
    """Return the items in blocks, best first: every item of a block beats all items of the later ones.

    Raise DataError, which ends with the advice, where a block has more than `most` items.
    """
    arrows = ~beats.T
    np.fill_diagonal(arrows, False)
    blocks = _members(kemeny.dense_components(arrows))
    largest = max(map(len, blocks), default=0)
    if largest > most:
        raise DataError(
            f"instance {instance!r} has {largest} items that majorities do not separate from each other; all optimal "
            f"rankings are found for up to {most}. {advice}."
        )
    return blocks


def _mean_of_optima(margin: Floats, slack: float, floor: float, instance: str) -> _Proof:
    """Return the mean places of all optimal rankings."""
    place = np.zeros(len(margin))
    extra, above, unique = 0.0, 0, True
    for block in _blocks(margin > 0, _EXACT_SIZE, instance, "Use ties='break', or leave out items that few lists hold"):
        cost = np.maximum(-margin[np.ix_(block, block)], 0.0)
        found = kemeny.mean_positions(cost, slack)
        place[block] = above + found.position
        above += len(block)
        extra += found.cost
        unique &= found.number == 1
    return _Proof(-place, floor + extra, floor + extra, True, "exact", unique, False)


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


def _joined(parts: list[Floats]) -> Floats:
    """Return the scores of all instances, concatenated."""
    return np.concatenate([np.zeros(0), *parts])


def _members(group: Ints) -> list[Ints]:
    """Return the items of every group, groups in order of their numbers."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(group) else []


def _solve(solver: str, cost: Floats, key: Ints, deadline: float, slack: float) -> kemeny.KemenySolution:
    """Return a solution for one group of items; items with equal votes against all others share a place."""
    if solver == "exact":
        return kemeny.subset_dp(cost, key, slack)
    # Items with equal votes against all others can be adjacent in an optimal ranking: they are solved as one.
    _, twin = np.unique(cost - cost.T, axis=0, return_inverse=True)
    # Only NumPy 2.0 returns two axes.
    twin = twin.ravel()
    size = np.bincount(twin)
    merged = np.zeros((len(size), len(cost)))
    merged[twin, np.arange(len(cost))] = 1.0
    small = merged @ cost @ merged.T
    best = np.zeros(len(size), dtype=np.int64)
    np.maximum.at(best, twin, key)
    order = np.argsort(-best, kind="stable")
    if solver == "milp":
        solution = kemeny.integer_program(small, order, deadline, slack)
        order = np.argsort(solution.position)
    else:
        order = kemeny.local_search(small, order, slack)
        solution = kemeny.KemenySolution(np.zeros(0), kemeny.ranking_cost(small, order), 0.0)
    above = np.cumsum(size[order]) - size[order]
    place = np.empty(len(size))
    place[order] = above + (size[order] + 1) / 2
    return solution._replace(position=place[twin])


def _place_groups(beats: NDArray[np.bool_], group: Ints, place: Floats, net: Floats, tie_break: Floats) -> Floats:
    """Return the place of every item, given its place within its group.

    Among the groups that no unplaced group beats, the one with the most net votes comes next; groups that cannot be
    distinguished share their places.
    """
    members = _members(group)
    size = np.array([len(m) for m in members], dtype=np.int64)
    n_groups = len(members)
    between = group[:, None] != group[None, :]
    # The number of arrows into each group from unplaced items.
    waiting = np.bincount(group, weights=(beats & between).sum(axis=0), minlength=n_groups)
    one = np.array([0, n_groups], dtype=np.int64)
    means = [np.bincount(group, weights=v, minlength=n_groups) / np.maximum(size, 1) for v in (net, tie_break)]
    level = dense_ranks(dense_ranks(means[0], one) * (n_groups + 1) + dense_ranks(means[1], one), one)
    out = np.zeros(len(group))
    done = np.zeros(n_groups, dtype=np.bool_)
    laid = 0
    while laid < len(group):
        free = np.flatnonzero((waiting == 0) & ~done)
        chosen = free[level[free] == level[free].max()]
        width = int(size[chosen].sum())
        for g in chosen.tolist():
            items = members[g]
            # Groups that share places are stretched over all of them, so that single items share the middle.
            out[items] = laid + 0.5 + (place[items] - 0.5) * (width / size[g])
            gone = (beats[items] & between[items]).sum(axis=0)
            waiting -= np.bincount(group, weights=gone, minlength=n_groups)
            done[g] = True
        laid += width
    return out
