"""Pairwise majority methods: Condorcet and Copeland.

The lists that hold both items (or observed comparisons) vote on a pair; the distance of two positions does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from concordant.aggregators._pairwise_votes import MISSING, PAIRED, MajorityVote, PairwiseVotes, each_instance, joined
from concordant.arrays import Floats, Ints
from concordant.base.contract import Tags, Votes
from concordant.base.params import Constraint, boolean
from concordant.base.registry import register_method
from concordant.kernels import pairwise_wins
from concordant.kernels.ties import break_ties, dense_ranks

if TYPE_CHECKING:
    pass

__all__ = ["Condorcet", "Copeland"]


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
        return joined(parts)


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
