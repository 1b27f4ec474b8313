"""Markov chain methods (MC1 to MC4): the stationary distribution of a random walk towards preferred items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from concordant.aggregators._pairwise_votes import MISSING, PAIRED, MajorityVote, PairwiseVotes, each_instance
from concordant.arrays import Floats
from concordant.base.contract import Tags, Votes
from concordant.base.limits import check_limits
from concordant.base.params import Constraint, number, one_of
from concordant.base.registry import register_method
from concordant.data.preferences import Preferences
from concordant.errors import KindError
from concordant.kernels import markov
from concordant.kernels.lists import order_lists

__all__ = ["MarkovChain"]


@register_method
class MarkovChain(MajorityVote):
    """The share of time that a random walk towards better items spends at the item.

    score(i) = stationary probability of i. With probability `teleport` the walk jumps to a random one of the M items;
    otherwise it moves from i as the chain says. Items tied with i in a list count as equal to i, not above it. A list
    ignores the items it leaves out (missing="unknown"), or has them tied below its items ("below"). The walk leaves an
    item in no list only by teleport, so that it scores about 1 / M; with "below" it leaves it by every list. Empty
    lists add nothing. A list of weight 2 counts twice.

    Estimand: the stationary distribution of the walk that these lists define. It describes them and has no error.

    Parameters
    ----------
    chain : {1, 2, 3, 4}
        1: move to a place drawn from all places at or above i in the lists that hold i. 2: draw a list that holds i,
        then a place in it at or above i. 3: draw a list that holds i, then any place in it; move if it is above i. 4:
        draw any item j; move if more than half of the lists that hold both (with missing="below", either) rank j above
        i.
    teleport : float
        Above 0, at most 1; the larger, the flatter the scores.
    missing : {"auto", "unknown", "below"}
        What a list says about an item it leaves out; "auto": what the preferences declare, instance by instance.

    Notes
    -----
    Chains 1 to 3 take lists only and cost O(R) for each of about thirty steps over R rows, including those of absent
    items below. Chain 4 takes comparisons too and costs O(K M²) to count majorities of K lists over M items, and O(M²)
    for each step. The distribution is exact to about 1e-14. PyFLAGR's default teleport is 0.15.

    References
    ----------
    Dwork, Kumar, Naor and Sivakumar, Rank aggregation methods for the Web, WWW 2001.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a", "c"], "z": ["a", "c"]})
    >>> cc.MarkovChain(chain=2).fit_predict(runs).ranking()
    ['a', 'b', 'c']
    """

    name = "markov-chain"
    tags = Tags(accepts=PAIRED, counts=True, heuristic=True, cost="O(K M²); O(R) for chains 1 to 3")
    _relative_weights = True
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "chain": one_of(1, 2, 3, 4),
        "teleport": number(above=0, most=1),
        "missing": MISSING,
    }

    def __init__(self, *, chain: int = 4, teleport: float = 0.05, missing: str = "auto") -> None:
        self.chain = chain
        self.teleport = teleport
        self.missing = missing

    def _scores(self, preferences: Votes) -> Floats:
        if self.chain == 4:
            # Two tables of booleans for lists; four tables of counts for comparisons.
            each = 2.0 if isinstance(preferences, Preferences) else 32.0
            n_bytes = each * np.square(preferences.slots.sizes, dtype=np.float64)
            check_limits("MarkovChain", preferences, "a table of all pairs", n_bytes=n_bytes)
            parts = self._by_majority(PairwiseVotes.of(preferences, self.missing))
        elif isinstance(preferences, Preferences):
            parts = self._by_lists(preferences)
        else:
            raise KindError(
                f"MarkovChain(chain={self.chain}) walks along lists and does not work on comparisons. Use chain=4."
            )
        return np.concatenate([np.zeros(0), *parts])

    def _counts_pairs(self) -> bool:
        return self.chain == 4

    def _by_majority(self, votes: PairwiseVotes) -> list[Floats]:
        def solve(n: int) -> Floats:
            return markov.stationary(markov.majority_walk(votes.majorities(n, strict=True)), self.teleport)

        return votes.each(solve)

    def _by_lists(self, preferences: Preferences) -> list[Floats]:
        p = preferences
        position = p.positions("dense")
        rows = order_lists(position, p.list_offsets)
        slot, position = p.slot[rows], position[rows]
        edges, sizes = p.slots.offsets.tolist(), p.slots.sizes.tolist()
        below = p.below(self.missing)

        def solve(n: int) -> Floats:
            first, last = int(p.list_starts[n]), int(p.list_starts[n + 1])
            own = slice(int(p.list_offsets[first]), int(p.list_offsets[last]))
            rows = p.row_list[own] - first, slot[own] - edges[n], position[own]
            if below[n]:
                rows = markov.with_absent_items(*rows, last - first, sizes[n])
            walk = markov.list_walk(*rows, p.weights[first:last], sizes[n], self.chain)
            return markov.stationary(walk, self.teleport)

        return each_instance(solve, sizes)
