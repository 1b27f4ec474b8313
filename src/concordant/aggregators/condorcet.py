"""Condorcet voting rules: Baldwin, Nanson, minimax, Schulze and ranked pairs, on the votes for pairs of items.

An item that beats every other by majority comes first (except in minimax by pairwise opposition). A list, or an
observed comparison, votes on the pairs it holds, with its weight; tied items get no vote of it. What a list says about
items that it leaves out is a parameter. Ties between items are broken by the votes alone, never by chance, names or
the order of rows; items that the votes cannot separate stay tied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from concordant.aggregators._elimination import BREAK, Rounds, number_below, without
from concordant.aggregators._pairwise_votes import MISSING, PAIRED, PairwiseVotes, check_tables
from concordant.arrays import Bools, Floats, Ints
from concordant.base.contract import Aggregator, Tags, Votes
from concordant.base.limits import check_limits
from concordant.base.params import Constraint, boolean, one_of
from concordant.base.registry import register_method
from concordant.kernels.majority_paths import levels, locked_majorities, widest_paths
from concordant.kernels.ties import break_ties

__all__ = ["Baldwin", "Minimax", "Nanson", "RankedPairs", "Schulze"]

STRENGTH = one_of("margins", "winning-votes")


class PairwiseRule(Aggregator):
    """Base class of rules on the table of the votes for each item against each other."""

    missing: str
    # Nanoseconds for each cell of a table of all pairs, as measured.
    _per_pair: ClassVar[float] = 20.0

    def _scores(self, preferences: Votes) -> Floats:
        owner = type(self).__name__
        check_tables(preferences, owner)
        seconds = 1e-9 * self._per_pair * np.square(preferences.slots.sizes, dtype=np.float64)
        check_limits(owner, preferences, "tables of all pairs", seconds=seconds)
        votes = PairwiseVotes.of(preferences, self.missing)
        parts = votes.each(lambda n: self._rank(votes.counts(n), votes.tie_margin(n)))
        return np.concatenate([np.zeros(0), *parts])

    def _rank(self, ahead: Floats, slack: float) -> Floats:
        """Return the scores of the items, given the votes for row against column; margins up to `slack` are ties."""
        raise TypeError(f"{type(self).__name__} must define _rank")


class BordaElimination(PairwiseRule):
    """Base class of rules that eliminate items with low Borda counts, round by round."""

    ties: str

    def _rank(self, ahead: Floats, slack: float) -> Floats:
        n = len(ahead)
        margin = _margins(ahead, slack)
        net = margin.sum(axis=1)
        rounds = Rounds(n, n * slack, self.ties)
        left, out = np.arange(n), list[Ints]()
        while len(left):
            rounds.add(net)
            groups = self._eliminated(net, left, rounds)
            out += groups
            gone = np.concatenate(groups)
            left = without(left, gone)
            net -= margin[:, gone].sum(axis=1)
        return number_below(out, n)

    def _eliminated(self, net: Floats, left: Ints, rounds: Rounds) -> list[Ints]:
        """Return the items that a round eliminates, in groups, worst first."""
        raise TypeError(f"{type(self).__name__} must define _eliminated")


def _margins(ahead: Floats, slack: float) -> Floats:
    """Return the votes for row against column less those for column against row; 0 up to `slack`."""
    margin = ahead - ahead.T
    margin[np.abs(margin) <= slack] = 0.0
    return margin


@register_method
class Baldwin(BordaElimination):
    """Baldwin's rule: the item with the smallest Borda count is eliminated, again and again.

    In each round the Borda count of an item among those left is the sum of its margins, the votes for it less those
    against it in each pair: on complete ballots it orders as the usual points do. The item with the smallest count is
    eliminated. score(i) = the number of items eliminated before i.

    Parameters
    ----------
    ties : {"break", "keep"}
        Between items with the smallest count. "break": the one with the smaller count in the latest earlier round in
        which they differ is eliminated. Items that are equal in all rounds are eliminated together and share a place.
        "keep": all of them are eliminated together at once.
    missing : {"auto", "unknown", "below"}
        What a list says about an item it leaves out. "unknown": nothing. "below": it prefers all its items to all
        absent ones, as in top-k lists; the counts are then those of `borda`. "auto": what the preferences declare,
        instance by instance. Comparisons leave nothing out.

    Notes
    -----
    Cost O(K M²) for K lists over M items. A Condorcet winner always has a count above 0, and is never the last, so it
    wins. Better places can make an item lose. Items that nobody ranks have counts of 0.

    References
    ----------
    Baldwin, The technique of the Nanson preferential majority system of election, Proceedings of the Royal Society of
    Victoria 39, 1926.

    Examples
    --------
    >>> import concordant as cc
    >>> cities = cc.from_lists(
    ...     {"west": list("MNCK"), "middle": list("NCKM"), "c": list("CKNM"), "k": list("KCNM")},
    ...     weights={"west": 42, "middle": 26, "c": 15, "k": 17},
    ... )
    >>> cc.Baldwin().fit_predict(cities).ranking()
    ['N', 'C', 'M', 'K']
    """

    name = "baldwin"
    tags = Tags(accepts=PAIRED, counts=True, cost="O(K M²)")
    _relative_weights = True
    constraints: ClassVar[Mapping[str, Constraint]] = {"ties": BREAK, "missing": MISSING}

    def __init__(self, *, ties: str = "break", missing: str = "auto") -> None:
        self.ties = ties
        self.missing = missing

    def _eliminated(self, net: Floats, left: Ints, rounds: Rounds) -> list[Ints]:
        return [rounds.worst(left)]


@register_method
class Nanson(BordaElimination):
    """Nanson's rule: all items whose Borda count is not above the average are eliminated, again and again.

    In each round the Borda count of an item among those left is the sum of its margins, the votes for it less those
    against it in each pair: on complete ballots it orders as the usual points do, and the average is 0. The items with
    counts of 0 or less are eliminated, unless all have 0. score(i) = the number of items that i comes above: those
    eliminated in an earlier round, or in the same round with a smaller count.

    Parameters
    ----------
    keep_average : bool
        Whether items with exactly the average count stay. Nanson's rule is described both ways; the winners can differ.
    ties : {"break", "keep"}
        Between items eliminated in one round with equal counts, and between the last ones. "break": the one with the
        larger count in the latest earlier round in which they differ comes above; items that are equal in all rounds
        share a place. "keep": they share a place at once.
    missing : {"auto", "unknown", "below"}
        What a list says about an item it leaves out. "unknown": nothing. "below": it prefers all its items to all
        absent ones, as in top-k lists; the counts are then those of `borda`. "auto": what the preferences declare,
        instance by instance. Comparisons leave nothing out.

    Notes
    -----
    Cost O(K M²) for K lists over M items. A Condorcet winner always has a count above 0, so it wins. Better places can
    make an item lose. Items that nobody ranks have counts of 0.

    References
    ----------
    Nanson, Methods of election, Transactions and Proceedings of the Royal Society of Victoria 19, 1883. The two forms:
    Niou, A note on Nanson's rule, Public Choice 54, 1987.

    Examples
    --------
    >>> import concordant as cc
    >>> cities = cc.from_lists(
    ...     {"west": list("MNCK"), "middle": list("NCKM"), "c": list("CKNM"), "k": list("KCNM")},
    ...     weights={"west": 42, "middle": 26, "c": 15, "k": 17},
    ... )
    >>> cc.Nanson().fit_predict(cities).ranking()
    ['N', 'C', 'M', 'K']
    """

    name = "nanson"
    tags = Tags(accepts=PAIRED, counts=True, cost="O(K M²)")
    _relative_weights = True
    constraints: ClassVar[Mapping[str, Constraint]] = {"keep_average": boolean(), "ties": BREAK, "missing": MISSING}

    def __init__(self, *, keep_average: bool = False, ties: str = "break", missing: str = "auto") -> None:
        self.keep_average = keep_average
        self.ties = ties
        self.missing = missing

    def _eliminated(self, net: Floats, left: Ints, rounds: Rounds) -> list[Ints]:
        own = net[left]
        low = left[own < -rounds.tolerance] if self.keep_average else left[own <= rounds.tolerance]
        # If no count differs from the average, the rounds are over.
        over = (np.abs(own) <= rounds.tolerance).all()
        return rounds.ascending(left if over else low)


@register_method
class Minimax(PairwiseRule):
    """Minimax: the item whose worst defeat is the smallest.

    score(i) = minus the largest opposition to i in any pair, and less than half of the smallest gap between two such
    scores to order items that are equal in it: by their second largest opposition, then the third, and so on. Items
    that are equal in all of these stay tied. An item that no list compares with another is opposed by all votes of the
    largest pair in every pair, so that it comes last; any other pair without votes is a tie.

    Parameters
    ----------
    opposition : {"margins", "winning-votes", "pairwise"}
        How j opposes i. "margins": the votes for j over i less those for i over j, below 0 where i beats j.
        "winning-votes": the votes for j over i if they are the majority, else 0. "pairwise": the votes for j over i,
        whoever wins. The three have equal worst defeats where all lists rank all items without ties.
    ties : {"break", "keep"}
        "break": equal items are ordered by their next largest oppositions. "keep": they stay tied.
    missing : {"auto", "unknown", "below"}
        What a list says about an item it leaves out. "unknown": nothing. "below": it prefers all its items to all
        absent ones, as in top-k lists. "auto": what the preferences declare, instance by instance. Comparisons leave
        nothing out.

    Notes
    -----
    Cost O(K M²) for K lists over M items, and O(M² log M). Also called Simpson-Kramer rule. A Condorcet winner comes
    first, except by pairwise opposition on lists that tie or leave out items. The winner may be outside of the Smith
    set, and even a Condorcet loser.

    References
    ----------
    Simpson, On defining areas of voter choice: Professor Tullock on stable voting, Quarterly Journal of Economics 83,
    1969. Kramer, A dynamical model of political equilibrium, Journal of Economic Theory 16, 1977.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": list("abc"), "y": list("bca"), "z": list("cab")}, weights={"x": 4, "y": 3, "z": 2})
    >>> cc.Minimax().fit_predict(votes).score.tolist()
    [-1.0, -3.0, -5.0]
    """

    name = "minimax"
    tags = Tags(accepts=PAIRED, counts=True, cost="O(K M²)")
    _relative_weights = True
    _per_pair = 200.0
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "opposition": one_of("margins", "winning-votes", "pairwise"),
        "ties": BREAK,
        "missing": MISSING,
    }

    def __init__(self, *, opposition: str = "margins", ties: str = "break", missing: str = "auto") -> None:
        self.opposition = opposition
        self.ties = ties
        self.missing = missing

    def _rank(self, ahead: Floats, slack: float) -> Floats:
        n = len(ahead)
        if n < 2:
            return np.zeros(n)
        against = ahead.T.copy()
        if self.opposition != "pairwise":
            margin = _margins(ahead, slack).T
            against = margin if self.opposition == "margins" else np.where(margin > 0, against, 0.0)
        silent = (ahead + ahead.T).sum(axis=1) <= 0
        against[silent] = ahead.max()
        # An item does not oppose itself.
        others = against[~np.eye(n, dtype=np.bool_)].reshape(n, n - 1)
        # Equal values get one level and the value of the smallest, so that rounding separates nothing.
        level = np.sort(levels(others, slack).astype(np.int64), axis=1)[:, ::-1]
        value = np.full(int(level.max()) + 1, np.inf)
        np.minimum.at(value, np.sort(level, axis=1), np.sort(others, axis=1))
        worst = -value[level[:, 0]]
        if self.ties == "keep":
            return worst
        _, order = np.unique(level, axis=0, return_inverse=True)
        return break_ties(worst, [-order.ravel().astype(np.float64)], np.array([0, n], dtype=np.int64))


class PathRule(PairwiseRule):
    """Base class of rules that order items by paths of majorities."""

    strength: str

    def _rank(self, ahead: Floats, slack: float) -> Floats:
        margin = _margins(ahead, slack)
        level = levels(margin if self.strength == "margins" else np.where(margin > 0, ahead, 0.0), slack, 0.0)
        precedes = self._precedes(level)
        out: Floats = precedes.sum(axis=1) - precedes.sum(axis=0).astype(np.float64)
        return out

    def _precedes(self, level: Ints) -> Bools:
        """Return the partial order of the items, given the strengths of the majorities."""
        raise TypeError(f"{type(self).__name__} must define _precedes")


@register_method
class Schulze(PathRule):
    """Schulze's rule: the item with the stronger path of majorities to the other comes above it.

    A path from i to j is a chain of majorities, each over the next item, and is as strong as its weakest majority. i
    precedes j if the strongest path from i to j is stronger than any from j to i; this is a partial order. score(i) =
    the number of items that i precedes less the number that precede it, which keeps this order. So the first item is
    one that no other precedes, a Schulze winner; where there are several, the one that precedes more items comes first.
    Items with equal scores stay tied. Where no two majorities are equally strong, only such items tie that no path
    connects, and the score says nothing but the order.

    Parameters
    ----------
    strength : {"winning-votes", "margins"}
        How strong a majority is. "winning-votes": the number of its votes. "margins": these less the votes against it.
        The two order alike where all lists rank all items without ties.
    missing : {"auto", "unknown", "below"}
        What a list says about an item it leaves out. "unknown": nothing. "below": it prefers all its items to all
        absent ones, as in top-k lists. "auto": what the preferences declare, instance by instance. Comparisons leave
        nothing out.

    Notes
    -----
    Cost O(K M²) for K lists over M items, and O(M³) for the paths: a second for 1,000 items. An item without votes is
    connected with none and scores 0, in the middle. Also called beatpath rule.

    References
    ----------
    Schulze, A new monotonic, clone-independent, reversal symmetric, and condorcet-consistent single-winner election
    method, Social Choice and Welfare 36, 2011.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": list("abc"), "y": list("bca"), "z": list("cab")}, weights={"x": 4, "y": 3, "z": 2})
    >>> cc.Schulze().fit_predict(votes).ranking()
    ['a', 'b', 'c']
    """

    name = "schulze"
    tags = Tags(accepts=PAIRED, counts=True, cost="O(K M² + M³)")
    _relative_weights = True
    constraints: ClassVar[Mapping[str, Constraint]] = {"strength": STRENGTH, "missing": MISSING}

    def __init__(self, *, strength: str = "winning-votes", missing: str = "auto") -> None:
        self.strength = strength
        self.missing = missing

    def _scores(self, preferences: Votes) -> Floats:
        cubes = preferences.slots.sizes.astype(np.float64) ** 3
        # As measured, where the table is larger than the cache of the processor.
        check_limits("Schulze", preferences, "paths of majorities", seconds=4e-10 * cubes)
        return super()._scores(preferences)

    def _precedes(self, level: Ints) -> Bools:
        path = widest_paths(level)
        out: Bools = path > path.T
        return out


@register_method
class RankedPairs(PathRule):
    """Ranked pairs (Tideman's rule): majorities are locked from the strongest to the weakest, unless they make a cycle.

    A majority of i over j is locked unless locked majorities already lead from j to i. Then i precedes j if locked
    majorities lead from i to j; this is a partial order. score(i) = the number of items that i precedes less the number
    that precede it, which keeps this order. Items with equal scores stay tied.

    Equally strong majorities that nothing locked contradicts are considered together: each is locked unless it is on a
    cycle of these and of locked ones. So no order of names or rows decides, and three equal majorities in a circle are
    all left out. Where all majorities differ in strength this is Tideman's rule. With equal ones it differs from rules
    that try every order of them (parallel universes), which take exponential time.

    Parameters
    ----------
    strength : {"margins", "winning-votes"}
        How strong a majority is. "margins": the votes for the winner less those for the loser. "winning-votes": the
        votes for the winner. The two order alike where all lists rank all items without ties.
    missing : {"auto", "unknown", "below"}
        What a list says about an item it leaves out. "unknown": nothing. "below": it prefers all its items to all
        absent ones, as in top-k lists. "auto": what the preferences declare, instance by instance. Comparisons leave
        nothing out.

    Notes
    -----
    Cost O(K M²) for K lists over M items, and O(M³) at most to lock: up to four seconds for 1,000 items. An item
    without votes precedes none and scores 0, in the middle.

    References
    ----------
    Tideman, Independence of clones as a criterion for voting rules, Social Choice and Welfare 4, 1987. Ties: Zavist and
    Tideman, Complete independence of clones in the ranked pairs rule, Social Choice and Welfare 6, 1989; Brill and
    Fischer, The price of neutrality for the ranked pairs method, AAAI 2012.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": list("abc"), "y": list("bca"), "z": list("cab")}, weights={"x": 4, "y": 3, "z": 2})
    >>> cc.RankedPairs().fit_predict(votes).ranking()
    ['a', 'b', 'c']
    """

    name = "ranked-pairs"
    tags = Tags(accepts=PAIRED, counts=True, cost="O(K M² + M³)")
    _relative_weights = True
    _per_pair = 50.0
    constraints: ClassVar[Mapping[str, Constraint]] = {"strength": STRENGTH, "missing": MISSING}

    def __init__(self, *, strength: str = "margins", missing: str = "auto") -> None:
        self.strength = strength
        self.missing = missing

    def _precedes(self, level: Ints) -> Bools:
        return locked_majorities(level)
