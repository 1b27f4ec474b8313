"""Kemeny: the ranking that contradicts the fewest votes, with a proof that it is optimal or a stated gap.

The lists that hold both items (or observed comparisons) vote on a pair; the distance of two positions does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, product
from math import prod
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators._pairwise_votes import MISSING, PAIRED, PairwiseVotes, check_tables, joined, one_instance
from concordant.arrays import Floats, Ints
from concordant.base.contract import Aggregator, Tags, Votes
from concordant.base.params import Constraint, Within, integer, number, one_of
from concordant.base.registry import register_method
from concordant.data.consensus import Consensus
from concordant.data.preferences import Preferences
from concordant.errors import (
    ConvergenceWarning,
    DataError,
    IdentifiabilityWarning,
    ParameterError,
    Setting,
)
from concordant.execution import map_instances, n_threads
from concordant.execution.blocks import Blocks
from concordant.kernels import kemeny
from concordant.kernels.ties import dense_ranks

if TYPE_CHECKING:
    from concordant.data.features import Features
    from concordant.data.labels import Labels

__all__ = ["Kemeny"]


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
        self.consensus_ = Consensus.from_codes(preferences.slots, joined([p.score for p in proofs]))
        return self.consensus_

    def _scores(self, preferences: Votes) -> Floats:
        return joined([p.score for p in self._proofs(preferences)])

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
