"""Online Elo ratings, updated after each comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from concordant.aggregators._predictions import ModelPredictions, PairLaw
from concordant.arrays import Floats, Ints, read_only
from concordant.base.contract import Tags, Votes
from concordant.base.params import Constraint, number
from concordant.base.registry import register_method
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus

__all__ = ["Elo"]

# The usual scale of Elo ratings.
_STANDARD_SCALE = 400.0


@register_method
class Elo(ModelPredictions):
    """Online Elo ratings: after each comparison the winner takes points from the loser.

    All items start at `initial`. After a comparison left gains `k` (S − E) points and right loses as many: S is 1 for a
    win of left, ½ for a tie and 0 for a loss, and E = 1 / (1 + exp(ln 10 · (s_right − s_left) / scale)) is the expected
    result.

    The ratings **depend on the order of the comparisons**, which is that of their times, or without times that of the
    rows. The last comparisons count most, and ratings never converge: `k` sets both the speed of learning and the
    noise. `bradley-terry` estimates the same quantity (natural scores times scale / ln 10) from all comparisons at
    once, with intervals, and `half_life=` lets it forget; use Elo as a baseline.

    A row of several outcomes is one update by their sum, with E from before the row. The weight of a row multiplies its
    outcomes. An item without outcomes keeps the initial rating. Experts, covariates and sides are not used.

    Parameters
    ----------
    k : float > 0
        The largest number of points that one comparison moves. Chess federations use 10 to 40; small values learn
        slowly and vary little.
    scale : float > 0
        The difference of ratings at which the odds are 10 to 1.
    initial : float
        The rating of an item before its first comparison, and so the mean of all ratings.

    Notes
    -----
    Estimand: none; the ratings are the state of a filter. Cost: O(R) for R rows.

    References
    ----------
    Elo, The Rating of Chessplayers, Past and Present, 1978.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.Comparisons("arena", None, ["a", "b", "a"], ["b", "c", "c"])
    >>> board = cc.Elo(k=32).fit_predict(votes)
    >>> board.ranking(), board.score.round(1).tolist()
    (['a', 'b', 'c'], [1030.5, 1000.7, 968.8])
    """

    name = "elo"
    tags = Tags(accepts=frozenset({"comparisons"}), faithful=False, row_order=True)
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "k": number(above=0),
        "scale": number(above=0),
        "initial": number(),
    }

    def __init__(self, *, k: float = 32.0, scale: float = 400.0, initial: float = 1000.0) -> None:
        self.k = k
        self.scale = scale
        self.initial = initial

    def _scores(self, preferences: Any) -> Floats:
        from concordant.kernels.elo import update_ratings

        votes: Comparisons = preferences
        rating = np.full(votes.n_slots, float(self.initial))
        rows = np.arange(votes.n_rows) if votes.time is None else np.argsort(votes.time, kind="stable")
        points = votes.n_left + votes.n_ties / 2
        rows, left, right, points, n = read_only(rows, votes.left, votes.right, points, votes.outcomes)
        update_ratings(rows, left, right, points, n, float(self.k), float(self.scale), rating)
        return rating

    def _consensus(self, preferences: Votes, known: Any = None) -> Consensus:
        board = super()._consensus(preferences, known)
        if self.scale != _STANDARD_SCALE:
            return board
        gauge = f"the mean of all ratings is {self.initial:g}"
        return Consensus.from_codes(board.slots, board.score, board.rank, board.order(), gauge=gauge, scale="elo")

    def _pair_law(self, board: Consensus, a: Ints, b: Ints, side: Floats, expert: Any) -> PairLaw:
        from scipy.special import expit

        gap = (board.score[a] - board.score[b]) * np.log(10.0) / self.scale
        return expit(gap), np.zeros(len(gap)), expit(-gap)

    def _pairwise(self, votes: Votes) -> Comparisons:
        return votes.with_counts(votes.n_left, votes.n_right, np.zeros(votes.n_rows))  # type: ignore[union-attr]
