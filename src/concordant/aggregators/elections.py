"""Voting rules on ballots: plurality, approval, Bucklin, instant runoff, Coombs and the single transferable vote.

A list is a ballot, and its weight is the number of times it was cast. A ballot supports only the items it names: when
none of these is left, it is exhausted and no longer counts. Tied items share the vote of a ballot equally, as if it
were split into equal parts, one for each order of them. Ties between items are broken by the ballots alone, never by
chance, names or the order of rows; items that the ballots cannot separate stay tied.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators._elimination import BREAK, Rounds, number_below, without
from concordant.aggregators._pairwise_votes import MISSING, each_instance
from concordant.aggregators.fusion import LISTS, sum_by_instance, sum_by_slot
from concordant.aggregators.positional import Borda
from concordant.arrays import Bools, Floats, Ints
from concordant.base.contract import Aggregator, Tags
from concordant.base.limits import check_limits
from concordant.base.params import Constraint, boolean, integer, number, one_of, optional
from concordant.base.registry import register_method
from concordant.data.preferences import Preferences
from concordant.errors import ConvergenceWarning, DataWarning, KindError, ParameterError, Setting
from concordant.kernels.ties import dense_ranks

__all__ = ["IRV", "STV", "Approval", "Bucklin", "Coombs", "Plurality"]

# The tolerance, as a fraction of all votes, for equal tallies and for reaching a quota: the rounding error of long
# sums.
_TALLY = 1e-10
# Meek's method, as fractions of all votes: the surplus at which the iteration stops, and the tolerance for equal
# tallies.
_SURPLUS, _MEEK_TALLY = 1e-12, 1e-9
_MEEK_STEPS = 5000
# Measured nanoseconds of a count in rounds, for each item of a ballot.
_PER_CELL = 100.0


def top_shares(preferences: Preferences, k: int) -> Floats:
    """Return for each row its share in the first k places of its list: 1 within them and 0 below.

    Items that are tied across the k-th place share the remaining places equally.

    Examples
    --------
    >>> import concordant as cc
    >>> top_shares(cc.from_lists({"x": {"a": 3, "b": 2, "c": 2, "d": 1}}), 2).tolist()
    [1.0, 0.5, 0.5, 0.0]
    """
    return _shares(preferences.positions("min"), preferences.positions("max"), k)


def _shares(first: Floats, last: Floats, k: int | Ints) -> Floats:
    """Return the share in the first k places of rows that are tied from the place `first` to `last`."""
    share: Floats = np.clip((k - first + 1) / (last - first + 1), 0.0, 1.0)
    return share


@register_method
class Plurality(Aggregator):
    """Plurality: the number of ballots that put the item first.

    score(i) = sum of w / g over the ballots with i among their g tied first items. Items with equal scores stay tied,
    as do all items that nobody puts first. Only the first places of a ballot count.

    Notes
    -----
    Cost O(R) for R rows. The same as ``Approval(k=1)``. With three items or more the winner may lose to every other
    item by majority.

    References
    ----------
    Brams and Fishburn, Voting procedures, Handbook of Social Choice and Welfare 1, 2002.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": {"a": 3, "b": 2, "c": 1}, "y": {"b": 3, "a": 2}, "z": {"a": 1, "c": 1}})
    >>> cc.Plurality().fit_predict(votes).score.tolist()
    [1.5, 1.0, 0.5]
    """

    name = "plurality"
    tags = Tags(accepts=LISTS, faithful=False, cost="O(R)")
    _relative_weights = True

    def _scores(self, preferences: Preferences) -> Floats:
        return sum_by_slot(preferences, top_shares(preferences, 1), preferences.list_weight)


@register_method
class Approval(Aggregator):
    """Approval voting: the number of ballots that approve the item.

    score(i) = sum of w over the ballots that approve i. A ballot approves the items that it rates `threshold` or more,
    or its first `k` items, or without both every item that it names. Items tied across the k-th place share the
    remaining places: with r places for g items each gets r / g of a vote. Equal scores stay tied. An item that a
    ballot leaves out is not approved.

    Parameters
    ----------
    threshold : float or None
        The smallest rating or score that is an approval. Ranks have no threshold; use `k`.
    k : int or None
        The number of places, from the top, that are approvals.

    Notes
    -----
    Cost O(R) for R rows. Without `threshold` and `k`, complete rankings approve every item. For ratings of several
    levels a DataWarning then asks for the threshold.

    References
    ----------
    Brams and Fishburn, Approval voting, American Political Science Review 72, 1978.

    Examples
    --------
    >>> import concordant as cc
    >>> stars = cc.Preferences(["q"] * 5, list("xxyyy"), list("ababc"), [5, 3, 4, 4, 1], kind="rating")
    >>> cc.Approval(threshold=4).fit_predict(stars).score.tolist()
    [2.0, 1.0, 0.0]
    >>> cc.Approval(k=2).fit_predict(cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "c"]})).score.tolist()
    [1.0, 2.0, 1.0]
    """

    name = "approval"
    tags = Tags(accepts=LISTS, faithful=False, cost="O(R)")
    _relative_weights = True
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "threshold": optional(number()),
        "k": optional(integer(least=1)),
    }

    def __init__(self, *, threshold: float | None = None, k: int | None = None) -> None:
        self.threshold = threshold
        self.k = k

    def _check_kind(self, kind: str) -> None:
        super()._check_kind(kind)
        if self.threshold is not None and self.k is not None:
            raise ParameterError("Approval takes threshold or k, not both. Leave one of them None.")
        if self.threshold is not None and kind == "rank":
            raise KindError(
                f"Approval(threshold={self.threshold:g}) needs ratings or scores, and these are ranks. Use k=, the "
                "number of places that are approvals, or read the values with kind='rating'."
            )

    def _scores(self, preferences: Preferences) -> Floats:
        if self.k is not None:
            approved = top_shares(preferences, self.k)
        elif self.threshold is not None:
            approved = (preferences.value >= self.threshold).astype(np.float64)
        else:
            if preferences.kind == "rating" and len(np.unique(preferences.value)) > 1:
                least = Setting("threshold", float(preferences.value.max()))
                self._warn(
                    "every item that a ballot rates counts as approved, also with the lowest rating. Pass the smallest "
                    f"rating that is an approval, such as {least}.",
                    DataWarning,
                    least,
                )
            approved = np.ones(preferences.n_rows)
        return sum_by_slot(preferences, approved, preferences.list_weight)


@register_method
class Bucklin(Aggregator):
    """Bucklin voting: the smallest k for which a majority of the ballots has the item among its first k places.

    v_i(k) is the weight of the ballots with i among their first k places; items tied across the k-th place share the
    remaining places. With k_i the smallest k at which v_i(k) is more than half of W, the weight of all ballots,
    score(i) = M - k_i + v_i(k_i) / W. So a smaller k_i wins, then more votes at that depth. If no majority ever ranks
    i, k_i = M, and the score is at most 1/2. Equal scores stay tied. A ballot gives no vote to an item that it leaves
    out, but still counts in W.

    Notes
    -----
    Cost O(R log D) for R rows in lists of up to D items. The winner has the highest median place. An item that a
    majority puts first wins; a Condorcet winner may lose.

    References
    ----------
    Tideman, Collective Decisions and Voting, 2006, chapter 13. Hoag and Hallett, Proportional Representation, 1926.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "c", "a"], "z": ["c", "b", "a"], "w": ["a", "c", "b"]})
    >>> cc.Bucklin().fit_predict(votes).score.tolist()
    [1.0, 1.75, 1.75]
    """

    name = "bucklin"
    tags = Tags(accepts=LISTS, cost="O(R log D) for lists of D items")
    _relative_weights = True

    def _scores(self, preferences: Preferences) -> Floats:
        p = preferences
        instance, sizes = p.slots.instance, p.slots.sizes.astype(np.float64)
        total = sum_by_instance(p, np.ones(p.n_lists), p.list_weight)[instance]
        majority = 0.5 * total * (1.0 + _TALLY)
        first, last = p.positions("min"), p.positions("max")

        def votes(depth: Ints) -> Floats:
            return sum_by_slot(p, _shares(first, last, depth[p.slot]), p.list_weight)

        # Votes grow with the depth: find the smallest depth with a majority by bisection.
        too_shallow = np.zeros(p.n_slots, dtype=np.int64)
        depth = np.full(p.n_slots, int(last.max(initial=0.0)))
        for _ in range(int(depth.max(initial=0)).bit_length()):
            middle = (too_shallow + depth + 1) // 2
            has_majority = votes(middle) > majority
            depth, too_shallow = np.where(has_majority, middle, depth), np.where(has_majority, too_shallow, middle)
        reached = votes(depth)
        k = np.where(reached > majority, depth, sizes[instance])
        return sizes[instance] - k + reached / np.where(total > 0, total, 1.0)


class BallotTable(NamedTuple):
    """The ballots of one instance.

    Attributes
    ----------
    place : int[M, L]
        The dense place of every item on every ballot, 1 = first; `missing` where the ballot leaves it out.
    weight : float64[L]
        The weight of every ballot, above 0.
    total : float
        The weight of all ballots.
    missing : int
        A number above every place.
    borda : int64[M]
        The order by Borda count, larger is better; equal counts share a number.
    """

    place: NDArray[Any]
    weight: Floats
    total: float
    missing: int
    borda: Ints


class VoteCount:
    """Counts first-place and last-place votes over the remaining items of every ballot.

    When items are removed, only the ballots that had them first or last are counted again.

    Parameters
    ----------
    ballots : BallotTable
        The ballots.
    below : bool, optional
        Whether items that a ballot leaves out are its last ones. None does not count last places.

    Attributes
    ----------
    first, last : float64[M]
        The first-place and last-place votes of each item. A ballot that ties all remaining items has no last place.
    items : int64[items left]
        The remaining items.
    """

    def __init__(self, ballots: BallotTable, below: bool | None = None) -> None:
        n, n_ballots = ballots.place.shape
        self._weight, self._missing, self._below = ballots.weight, ballots.missing, below
        self._place = np.ascontiguousarray(ballots.place.T)
        self.first, self.last = np.zeros(n), np.zeros(n)
        self.items = np.arange(n)
        # The places of the first and last remaining items of each ballot; -1 without a vote.
        self._first_place = np.full(n_ballots, -1, dtype=np.int64)
        self._last_place = np.full(n_ballots, -1, dtype=np.int64)
        self._count(np.arange(n_ballots))

    def remove(self, removed: Ints) -> None:
        """Remove items from the count."""
        place = self._place[:, removed].T
        loses = (place == self._first_place) | (place == self._last_place)
        selected = np.flatnonzero(loses.any(axis=0))
        self._add(selected, self._places(selected), -1.0)
        self.items = without(self.items, removed)
        self._count(selected)

    def _count(self, selected: Ints) -> None:
        """Find the first and last items of some ballots, and add their votes."""
        if not len(self.items) or not len(selected):
            return
        place = self._places(selected)
        first = place.min(axis=1).astype(np.int64)
        self._first_place[selected] = np.where(first < self._missing, first, -1)
        if self._below is not None:
            last = (place if self._below else np.where(place < self._missing, place, 0)).max(axis=1).astype(np.int64)
            self._last_place[selected] = np.where(last > first, last, -1)
        self._add(selected, place, 1.0)

    def _places(self, selected: Ints) -> NDArray[Any]:
        """Return the places of the remaining items on some ballots."""
        return self._place.take(selected, axis=0).take(self.items, axis=1)

    def _add(self, selected: Ints, place: NDArray[Any], sign: float) -> None:
        """Add or subtract the votes of some ballots."""
        counted = [(self.first, self._first_place)] + ([] if self._below is None else [(self.last, self._last_place)])
        for votes, at in counted:
            ballot, item = np.divmod(np.flatnonzero(place == at[selected, None]), max(len(self.items), 1))
            share = sign * self._weight[selected] / np.maximum(np.bincount(ballot, minlength=len(selected)), 1)
            np.add.at(votes, self.items[item], share[ballot])


class BallotCount(Aggregator):
    """Base class of rules that count ballots in rounds, instance by instance."""

    ties: str
    # Measured nanoseconds for each pair of items tied on a ballot, and for each pair of items.
    _per_tied_pair: ClassVar[float] = 8.0
    _per_pair: ClassVar[float] = 0.0

    def _scores(self, preferences: Preferences) -> Floats:
        p = preferences
        owner = type(self).__name__
        sizes = p.slots.sizes.astype(np.float64)
        cells = sizes * np.diff(p.list_starts)
        tied = np.bincount(p.slots.instance[p.slot], p.positions("max") - p.positions("min"), len(p))
        nanoseconds = _PER_CELL * cells + self._per_tied_pair * tied + self._per_pair * sizes**2
        check_limits(owner, p, "rounds of ballots", n_bytes=8.0 * cells, seconds=1e-9 * nanoseconds)
        place = p.positions("dense").astype(np.int32)
        borda = dense_ranks(Borda()._scores(p), p.slots.offsets)
        edges = p.slots.offsets.tolist()
        below = self._below(p)

        def score(n: int) -> Floats:
            ballots = _ballots(p, n, place, borda[edges[n] : edges[n + 1]])
            return self._count(ballots, bool(below[n]), p.instances[n])

        return np.concatenate([np.zeros(0), *each_instance(score, p.slots.sizes.tolist())])

    def _below(self, preferences: Preferences) -> Bools:
        return np.zeros(len(preferences), dtype=np.bool_)

    def _count(self, ballots: BallotTable, below: bool, instance: str) -> Floats:
        """Return for each item the number of items that it comes above."""
        raise TypeError(f"{type(self).__name__} must define _count")


def _ballots(p: Preferences, instance: int, place: NDArray[np.int32], borda: Ints) -> BallotTable:
    """Return the ballots of one instance with a weight above 0."""
    lists = slice(int(p.list_starts[instance]), int(p.list_starts[instance + 1]))
    offsets = p.list_offsets[lists.start : lists.stop + 1]
    rows = slice(int(offsets[0]), int(offsets[-1]))
    n = len(borda)
    own = place[rows]
    missing = int(own.max(initial=0)) + 1
    kind = np.uint8 if missing < 255 else np.int32
    table = np.full((n, len(offsets) - 1), missing, dtype=kind)
    ballot_of_row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    table[p.slot[rows] - int(p.slots.offsets[instance]), ballot_of_row] = own
    weight = p.weights[lists]
    if (weight == 0).any():
        table, weight = np.ascontiguousarray(table[:, weight > 0]), weight[weight > 0]
    return BallotTable(table, weight, float(weight.sum()), missing, borda)


def without_votes(votes: Floats, items: Ints, rounds: Rounds) -> Ints:
    """Return the items without a vote. They never had one, so eliminating them together changes no tally."""
    return items[votes[items] <= rounds.tolerance]


@register_method
class IRV(BallotCount):
    """Instant runoff: the item with the fewest first places is eliminated, again and again.

    In each round a ballot counts for its first item that is left; items tied there share its weight equally. The item
    with the fewest votes is eliminated. score(i) = the number of items eliminated before i. The winner is the last item
    left, and is the same as if the count stopped at the first majority. A ballot is exhausted when none of its items is
    left. Whether missing items are below or unknown makes no difference.

    Parameters
    ----------
    ties : {"break", "keep"}
        What to do if several items have the fewest votes. "break": the one with fewer votes in the latest earlier round
        in which they differ is eliminated; if there is none, the one with the smaller Borda count. Items that are equal
        in this too are eliminated together and share a place. "keep": all of them are eliminated together at once.

    Notes
    -----
    Cost O(K M²) for K ballots of M items at most: items without votes are eliminated together in one step, and a round
    counts only the ballots that change. Also called alternative vote, ranked-choice voting, or Hare's rule. More first
    places can make an item lose.

    References
    ----------
    Tideman, Collective Decisions and Voting, 2006, chapter 13. Ties by earlier rounds: O'Neill, Tie-breaking with the
    single transferable vote, Voting matters 18, 2004.

    Examples
    --------
    >>> import concordant as cc
    >>> cities = cc.from_lists(
    ...     {
    ...         "west": ["M", "N", "C", "K"],
    ...         "middle": ["N", "C", "K", "M"],
    ...         "c": ["C", "K", "N", "M"],
    ...         "k": ["K", "C", "N"],
    ...     },
    ...     weights={"west": 42, "middle": 26, "c": 15, "k": 17},
    ... )
    >>> cc.IRV().fit_predict(cities).ranking()
    ['K', 'M', 'N', 'C']
    """

    name = "irv"
    tags = Tags(accepts=LISTS, cost="O(K M²)")
    _relative_weights = True
    constraints: ClassVar[Mapping[str, Constraint]] = {"ties": BREAK}

    def __init__(self, *, ties: str = "break") -> None:
        self.ties = ties

    def _count(self, ballots: BallotTable, below: bool, instance: str) -> Floats:
        rounds = Rounds(len(ballots.place), _TALLY * ballots.total, self.ties, ballots.borda)
        count = VoteCount(ballots)
        out: list[Ints] = []
        while len(count.items):
            rounds.add(count.first, count.items)
            removed = rounds.ascending(without_votes(count.first, count.items, rounds)) or [rounds.worst(count.items)]
            out += removed
            count.remove(np.concatenate(removed))
        return number_below(out, len(ballots.place))


@register_method
class Coombs(BallotCount):
    """Coombs' rule: the item with the most last places is eliminated, again and again.

    In each round a ballot votes against the last of its items that are left; items tied there share its weight equally.
    A ballot that ties all remaining items has no such vote. The item with the most votes against it is eliminated.
    score(i) = the number of items that i comes above: those eliminated before it.

    Parameters
    ----------
    majority : bool
        Whether an item that is first on more than half of the ballots of a round (by weight, without exhausted ones) is
        placed above all remaining items, and the count continues with the others. Both versions of the rule are in the
        literature; their winners can differ.
    ties : {"break", "keep"}
        What to do if several items have the most last places. "break": the one with more of them in the latest earlier
        round in which they differ is eliminated; if there is none, the one with the smaller Borda count. Items that are
        equal in this too are eliminated together and share a place. "keep": all of them are eliminated together at
        once.
    missing : {"auto", "unknown", "below"}
        What a ballot says about an item it leaves out. "unknown": nothing, so its vote is against the last item that it
        names. "below": such items are tied last and share the vote against them. "auto": what the preferences declare,
        instance by instance.

    Notes
    -----
    Cost O(K M²) for K ballots of M items at most: a round counts only the ballots that change.

    References
    ----------
    Coombs, A Theory of Data, 1964. Grofman and Feld, If you like the alternative vote (a.k.a. the instant runoff), then
    you ought to know about the Coombs rule, Electoral Studies 23, 2004.

    Examples
    --------
    >>> import concordant as cc
    >>> cities = cc.from_lists(
    ...     {"west": list("MNCK"), "middle": list("NCKM"), "c": list("CKNM"), "k": list("KCNM")},
    ...     weights={"west": 42, "middle": 26, "c": 15, "k": 17},
    ... )
    >>> cc.Coombs().fit_predict(cities).ranking()
    ['N', 'C', 'K', 'M']
    """

    name = "coombs"
    tags = Tags(accepts=LISTS, cost="O(K M²)")
    _relative_weights = True
    _per_pair = 5.0
    constraints: ClassVar[Mapping[str, Constraint]] = {"majority": boolean(), "ties": BREAK, "missing": MISSING}

    def __init__(self, *, majority: bool = True, ties: str = "break", missing: str = "auto") -> None:
        self.majority = majority
        self.ties = ties
        self.missing = missing

    def _below(self, preferences: Preferences) -> Bools:
        return preferences.below(self.missing)

    def _count(self, ballots: BallotTable, below: bool, instance: str) -> Floats:
        rounds = Rounds(len(ballots.place), _TALLY * ballots.total, self.ties, ballots.borda)
        count = VoteCount(ballots, below)
        out: list[Ints] = []
        elected: list[Ints] = []
        while len(count.items):
            if self.majority:
                votes = count.first[count.items]
                chosen = count.items[votes > 0.5 * votes.sum() + rounds.tolerance]
                if len(chosen):
                    elected.append(chosen)
                    count.remove(chosen)
                    continue
            rounds.add(-count.last, count.items)
            removed = rounds.worst(count.items)
            out.append(removed)
            count.remove(removed)
        return number_below(out + elected[::-1], len(ballots.place))


class _Quota(NamedTuple):
    """The number of votes that elects an item, and whether it must be exceeded."""

    votes: float
    exceeded: bool

    def reached(self, votes: Floats, tolerance: float) -> NDArray[np.bool_]:
        """Return a mask of the tallies that reach the quota."""
        return votes > self.votes + tolerance if self.exceeded else votes >= self.votes - tolerance


def _quota(kind: str, total: float, seats: int, *, whole: bool) -> _Quota:
    """Return the quota of `total` votes; `whole` allows the rounding of Droop's quota."""
    if kind == "hare":
        return _Quota(total / seats, False)
    if whole and total == np.rint(total):
        return _Quota(float(np.floor(total / (seats + 1))) + 1.0, False)
    return _Quota(total / (seats + 1), True)


@register_method
class STV(BallotCount):
    """Single transferable vote: items that reach a quota are elected, and their surplus goes to the next choices.

    A ballot counts for its first remaining item; items tied there share its weight equally. An item whose votes reach
    the quota is elected, and its votes above the quota are transferred. When nobody reaches it, the item with the
    fewest votes is eliminated, and its votes are transferred. The count ends when all seats are filled, or when no more
    items are left than seats. score(i) = the number of items that i comes above, where elected items come first in the
    order of their election (those of one round by their votes), then those that remain at the end, by their votes, then
    those eliminated, the last one first. So the first `seats` items of the ranking are elected, unless a tie crosses
    the last seat. A ballot is exhausted when none of its items is left; its votes are lost.

    Parameters
    ----------
    seats : int
        How many items are elected.
    quota : {"droop", "hare"}
        The votes that elect an item, of W votes for s seats. "droop": floor(W / (s + 1)) + 1 if W is a whole number,
        else more than W / (s + 1). "hare": W / s.
    transfer : {"gregory", "meek"}
        "gregory": the weighted inclusive Gregory method, as in Scotland: all ballots of the elected item pass on the
        fraction surplus / votes of their value, to items not yet elected. The largest surplus goes first, equal ones
        together; no fraction is rounded. "meek": Meek's method: elected items keep a fraction of each ballot, solved
        so that each keeps exactly the quota, and take part in all later transfers. Exhausted votes lower the quota,
        which is (W - exhausted) / (s + 1) for Droop and never rounded.
    ties : {"break", "keep"}
        What to do if several items have the fewest votes. "break": the one with fewer votes in the latest earlier round
        in which they differ is eliminated; if there is none, the one with the smaller Borda count. Items that are equal
        in this too are eliminated together, or share the last seat if fewer than needed would be left. "keep": all of
        them are eliminated together at once.

    Notes
    -----
    Cost O(K M) a round for K ballots of M items, and at most 2 M rounds; Meek's method repeats a round until the
    surpluses are below 1e-12 of all votes. Weights are numbers of votes. With one seat the winner is that of `irv`.

    References
    ----------
    Tideman, The single transferable vote, Journal of Economic Perspectives 9, 1995. Scottish Local Government Elections
    Order 2011, schedule 1, part 3. Hill, Wichmann and Woodall, Algorithm 123: single transferable vote by Meek's
    method, The Computer Journal 30, 1987.

    Examples
    --------
    >>> import concordant as cc
    >>> food = cc.from_lists(
    ...     {
    ...         "a": ["orange"],
    ...         "b": ["pear", "orange"],
    ...         "c": ["chocolate", "strawberry"],
    ...         "d": ["chocolate", "sweets"],
    ...         "e": ["strawberry"],
    ...         "f": ["sweets"],
    ...     },
    ...     weights={"a": 4, "b": 2, "c": 8, "d": 4, "e": 1, "f": 1},
    ... )
    >>> cc.STV(seats=3).fit_predict(food).ranking()
    ['chocolate', 'orange', 'strawberry', 'sweets', 'pear']
    """

    name = "stv"
    tags = Tags(accepts=LISTS, cost="O(K M²)")
    _per_tied_pair = 12.0
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "seats": integer(least=1),
        "quota": one_of("droop", "hare"),
        "transfer": one_of("gregory", "meek"),
        "ties": BREAK,
    }

    def __init__(self, *, seats: int = 1, quota: str = "droop", transfer: str = "gregory", ties: str = "break") -> None:
        self.seats = seats
        self.quota = quota
        self.transfer = transfer
        self.ties = ties

    def _count(self, ballots: BallotTable, below: bool, instance: str) -> Floats:
        if not len(ballots.weight):
            return np.zeros(len(ballots.place))
        count: _GregoryCount | _MeekCount
        if self.transfer == "gregory":
            count = _GregoryCount(ballots, self.seats, self.quota, self.ties)
        else:
            count = _MeekCount(ballots, self.seats, self.quota, self.ties)
        score = count.run()
        if not count.converged:
            self._warn(
                f"instance {instance!r}: Meek's factors did not converge in {_MEEK_STEPS} steps; the count used "
                "the last ones. transfer='gregory' needs no iteration.",
                ConvergenceWarning,
            )
        return score


class _SeatCount:
    """Base class of the counts with either transfer: elected, eliminated and remaining items."""

    converged = True

    def __init__(self, ballots: BallotTable, seats: int, quota: str, ties: str, tolerance: float) -> None:
        self.ballots = ballots
        self.seats = seats
        self.kind = quota
        self.rounds = Rounds(len(ballots.place), tolerance * ballots.total, ties, ballots.borda)
        self.votes = np.zeros(len(ballots.place))
        self.left = np.arange(len(ballots.place))
        self.elected: list[Ints] = []
        self.eliminated: list[Ints] = []

    @property
    def open_seats(self) -> int:
        """The number of seats that are not filled."""
        return self.seats - sum(map(len, self.elected))

    def elect(self, items: Ints) -> None:
        """Elect items in the order of their votes."""
        self.elected += self.rounds.ascending(items)[::-1]
        self.left = without(self.left, items)

    def run(self) -> Floats:
        """Count, and return for each item the number of items that it comes above."""
        while self.open_seats > 0 and len(self.left):
            new = self.tally()
            if len(new):
                self.elect(new)
                self.after_election(new)
            elif len(self.left) <= self.open_seats:
                self.elect(self.left)
            elif not self.transfer_surplus():
                rounds, left = self.rounds, len(self.left)
                removed = rounds.ascending(without_votes(self.votes, self.left, rounds)) or [rounds.worst(self.left)]
                # Eliminate as many groups as possible while enough items remain for the seats.
                enough_remain = left - np.cumsum([len(group) for group in removed]) >= self.open_seats
                done = int(np.count_nonzero(enough_remain))
                if not done:
                    # The ballots cannot separate the group: its items share the last seats.
                    self.elect(without(self.left, removed[0]))
                    break
                eliminated_now = np.concatenate(removed[:done])
                self.eliminated += removed[:done]
                self.left = without(self.left, eliminated_now)
                self.eliminate(eliminated_now)
        rest = self.rounds.ascending(self.left)
        return number_below(self.eliminated + rest + self.elected[::-1], len(self.ballots.place))

    def tally(self) -> Ints:
        """Count a round and return the items that reach the quota."""
        raise TypeError(f"{type(self).__name__} does not define tally")

    def after_election(self, items: Ints) -> None:
        """Update the count after an election."""

    def transfer_surplus(self) -> bool:
        """Transfer a surplus, and return whether there was one."""
        return False

    def eliminate(self, items: Ints) -> None:
        """Transfer the votes of eliminated items."""


class _GregoryCount(_SeatCount):
    """The count with the weighted inclusive Gregory method."""

    def __init__(self, ballots: BallotTable, seats: int, quota: str, ties: str) -> None:
        super().__init__(ballots, seats, quota, ties, _TALLY)
        self.quota = _quota(quota, ballots.total, seats, whole=True)
        # The value of each ballot that each item holds.
        self.held = np.zeros(ballots.place.shape)
        self.pending = np.zeros(0, dtype=np.int64)
        self._give(ballots.weight, np.arange(len(ballots.weight)))

    def _give(self, value: Floats, selected: Ints) -> None:
        """Transfer the value of some ballots to their first remaining items."""
        if not len(self.left) or not len(selected):
            return
        place = self.ballots.place[np.ix_(self.left, selected)]
        first = place.min(axis=0)
        held = (place == first) & (first < self.ballots.missing)
        part = held * (value / np.maximum(held.sum(axis=0), 1))
        self.held[np.ix_(self.left, selected)] += part
        self.votes[self.left] = self.held[self.left].sum(axis=1)

    def tally(self) -> Ints:
        self.rounds.add(self.votes, np.concatenate([self.left, self.pending]))
        return self.left[self.quota.reached(self.votes[self.left], self.rounds.tolerance)]

    def after_election(self, items: Ints) -> None:
        self.pending = np.sort(np.concatenate([self.pending, items]))

    def transfer_surplus(self) -> bool:
        self.pending = self.pending[self.votes[self.pending] > self.quota.votes + self.rounds.tolerance]
        if not len(self.pending):
            return False
        chosen = self.rounds.ascending(self.pending)[-1]
        fraction = 1.0 - self.quota.votes / self.votes[chosen]
        self._pass_on(chosen, fraction)
        self.votes[chosen] = self.quota.votes
        self.pending = without(self.pending, chosen)
        return True

    def _pass_on(self, items: Ints, fraction: Floats) -> None:
        passed = fraction @ self.held[items]
        self.held[items] *= (1.0 - fraction)[:, None]
        selected = np.flatnonzero(passed > 0)
        self._give(passed[selected], selected)

    def eliminate(self, items: Ints) -> None:
        self._pass_on(items, np.ones(len(items)))
        self.votes[items] = 0.0


@lru_cache(maxsize=64)
def _quadrature(n: int) -> list[tuple[float, float]]:
    """Return the n nodes and weights of Gauss' rule on (0, 1)."""
    node, weight = np.polynomial.legendre.leggauss(n)
    return list(zip(((node + 1) / 2).tolist(), (weight / 2).tolist(), strict=True))


class _Stage(NamedTuple):
    """One place of each ballot that still has a value to transfer.

    Attributes
    ----------
    item, ballot : int64[rows]
        The items of these places and their ballots; rows of one ballot are adjacent, and tied.
    size : float64[rows]
        The number of items tied in the place.
    """

    item: Ints
    ballot: Ints
    size: Floats

    def shares(self, factor: Floats) -> Floats:
        """Return the fraction of a ballot's value that each item keeps, on average over all orders of tied items.

        In a given order, item i keeps f_i of the value that the items before it pass on. The average over all orders is
        the integral of f_i prod (1 - t f_j) over t in (0, 1), where j runs over the other items of the place. Gauss'
        rule integrates this polynomial exactly.
        """
        own = factor[self.item]
        share: Floats = own / self.size
        # Remaining items have factor 1 and share equally, unless they are tied with elected items.
        starts = np.flatnonzero(np.diff(self.ballot, prepend=-1))
        tied = (self.size > 1) & np.repeat(np.minimum.reduceat(own, starts) < 1, np.diff(np.append(starts, len(own))))
        if tied.any():
            own = own[tied]
            new = np.diff(self.ballot[tied], prepend=-1) != 0
            starts, group = np.flatnonzero(new), np.cumsum(new) - 1
            mean = np.zeros(len(own))
            for t, w in _quadrature(int(self.size[tied].max() + 1) // 2):
                part = 1 - t * own
                mean += w * np.multiply.reduceat(part, starts)[group] / part
            share[tied] = own * mean
        return share


class _MeekCount(_SeatCount):
    """The count with Meek's method."""

    def __init__(self, ballots: BallotTable, seats: int, quota: str, ties: str) -> None:
        super().__init__(ballots, seats, quota, ties, _MEEK_TALLY)
        self.factor = np.ones(len(ballots.place))
        item, ballot = np.nonzero(ballots.place < ballots.missing)
        order = np.lexsort((ballots.place[item, ballot], ballot))
        self.item, self.ballot = item[order], ballot[order]
        self.place = ballots.place[self.item, self.ballot].astype(np.int64)

    def _stages(self) -> list[_Stage]:
        """Return the places of the ballots, in the order in which value is transferred.

        A remaining item keeps all it gets, so a ballot ends at its first place with such an item.
        """
        active = self.factor[self.item] > 0
        self.item, self.ballot, self.place = self.item[active], self.ballot[active], self.place[active]
        if not len(self.item):
            return []
        new = np.ones(len(self.item), dtype=np.bool_)
        new[1:] = (self.ballot[1:] != self.ballot[:-1]) | (self.place[1:] != self.place[:-1])
        group = np.cumsum(new) - 1
        owner = self.ballot[new]
        size = np.bincount(group)
        ends = np.bincount(group, weights=np.isin(self.item, self.left)) > 0
        begins = np.ones(len(owner), dtype=np.bool_)
        begins[1:] = owner[1:] != owner[:-1]
        first = np.flatnonzero(begins)[np.cumsum(begins) - 1]
        # A place counts only if no earlier place of the ballot holds a remaining item.
        before: Ints = np.cumsum(ends) - ends
        stage = np.where(before == before[first], np.arange(len(owner)) - first, -1)[group]
        each = [np.flatnonzero(stage == s) for s in range(int(stage.max()) + 1)]
        return [_Stage(self.item[rows], self.ballot[rows], size[group[rows]].astype(np.float64)) for rows in each]

    def tally(self) -> Ints:
        stages = self._stages()
        n, n_ballots = len(self.factor), len(self.ballots.weight)
        total = self.ballots.total
        chosen = np.flatnonzero((self.factor > 0) & ~np.isin(np.arange(n), self.left))
        for _ in range(_MEEK_STEPS):
            value, votes = self.ballots.weight.copy(), np.zeros(n)
            for stage in stages:
                kept = value[stage.ballot] * stage.shares(self.factor)
                votes += np.bincount(stage.item, kept, n)
                value -= np.bincount(stage.ballot, kept, n_ballots)
            quota = _quota(self.kind, float(votes.sum()), self.seats, whole=False)
            new = self.left[quota.reached(votes[self.left], self.rounds.tolerance)]
            if len(new) or not len(chosen) or np.abs(votes[chosen] - quota.votes).sum() <= _SURPLUS * total:
                break
            self.factor[chosen] *= np.minimum(quota.votes / votes[chosen], 1.0)
        else:
            self.converged = False
        self.votes = votes
        self.rounds.add(votes, self.left)
        return new

    def eliminate(self, items: Ints) -> None:
        self.factor[items] = 0.0
