"""Score and rank fusion: every list adds its own terms to the items it holds, and a consensus is a sum.

All methods here cost one pass over the rows. What a list leaves out gets nothing from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from concordant.base.contract import Aggregator, Tags, expert_weights
from concordant.base.params import Constraint, mapping, number, one_of, optional
from concordant.base.registry import register
from concordant.data.preferences import Preferences
from concordant.kernels.lists import TIES, Floats, on_grid

__all__ = ["RRF"]

_WEIGHTS = optional(mapping("a mapping from expert to a number >= 0"))
_UNKNOWN = one_of("error", "ignore")


@register
class RRF(Aggregator):
    """Reciprocal rank fusion: each list gives its item at rank r the score 1 / (k + r).

    score(i) = sum over lists of w / (k + r_i). Ranks of ranked lists are used as given; scores and ratings are ranked
    first, equal ones sharing a rank under `ties`. An item that a list leaves out gets nothing from it; an item in no list
    scores 0. Empty lists add nothing. Terms are rounded to multiples of 2^-44, which makes sums independent of the order
    of experts.

    Parameters
    ----------
    k : float
        How slowly trust decays with rank; 60 in the original paper.
    weights : mapping from expert to float, optional
        Trust in each expert; those not named weigh 1. Multiplied by the weights of the preferences.
    ties : {"min", "max", "average", "dense", "ordinal"}
        What equal scores of one list share.
    unknown_experts : {"error", "ignore"}
        What to do with weights for experts the preferences do not know.

    Notes
    -----
    Cost O(R) for R rows, plus the sort of lists that are not sorted by score already.

    References
    ----------
    Cormack, Clarke and Büttcher, Reciprocal rank fusion outperforms Condorcet and individual rank learning methods,
    SIGIR 2009.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": ["a", "b", "c"], "dense": ["b", "d"]})
    >>> cc.RRF(k=60).fit_predict(runs).ranking()
    ['b', 'a', 'd', 'c']
    """

    name = "rrf"
    tags = Tags(accepts=frozenset({"rank", "score", "rating"}), cost="O(R)")
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "k": number(above=0),
        "weights": _WEIGHTS,
        "ties": one_of(*TIES),
        "unknown_experts": _UNKNOWN,
    }

    def __init__(
        self,
        *,
        k: float = 60,
        weights: Mapping[str, float] | None = None,
        ties: str = "average",
        unknown_experts: str = "error",
    ) -> None:
        self.k = k
        self.weights = weights
        self.ties = ties
        self.unknown_experts = unknown_experts

    def _scores(self, preferences: Preferences) -> Floats:
        terms = 1.0 / (self.k + preferences.ranks(self.ties))
        return add_up(preferences, terms, expert_weights(preferences, self.weights, "RRF", self.unknown_experts))


def add_up(preferences: Preferences, terms: Floats, weights: Floats | None) -> Floats:
    """Return the sum of the terms of every slot's rows, each times its list's weight, exact in any order of experts."""
    if weights is not None:
        terms = terms * np.repeat(weights, preferences.list_lengths)
    return np.bincount(preferences.slot, weights=on_grid(terms), minlength=preferences.n_slots).astype(np.float64)
