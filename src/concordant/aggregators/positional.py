"""Positional methods: Borda count, mean rank and median rank.

Values are first converted to positions 1..m within the list, with ties sharing their mean position, so that ranks with
gaps, scores and ratings are treated alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from concordant.aggregators.fusion import LISTS, by_expert, count_lists, sum_by_instance, sum_by_slot
from concordant.arrays import Floats
from concordant.base.contract import Aggregator, Tags
from concordant.base.params import Constraint, one_of
from concordant.base.registry import register_method
from concordant.data.preferences import Preferences
from concordant.kernels.cells import cell_blocks, weighted_median
from concordant.kernels.ties import break_ties

__all__ = ["Borda", "MeanRank", "MedianRank"]


@register_method
class Borda(Aggregator):
    """Borda count: M points for the first place of M items, one less for each place below.

    score(i) = sum over lists of w * (M - p_i + 1), p_i the position of i in the list and M the number of items of the
    instance. Tied items share the mean of their positions. Experts who rank nothing in an instance add nothing.

    Parameters
    ----------
    missing : {"mean", "zero"}
        The points of each item that a list of m items leaves out: "mean", the mean of the remaining points,
        (M - m + 1) / 2; "zero", none. Items nobody ranks come last under both.

    Notes
    -----
    Cost O(R) for R rows, plus the sort of lists that are not sorted already. Equal to ranx's `bordafuse` where no list
    has ties.

    References
    ----------
    de Borda, Mémoire sur les élections au scrutin, 1781. Missing items: Aslam and Montague,
    Models for metasearch, SIGIR 2001.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": ["a", "b", "c"], "dense": ["b", "d"]})
    >>> cc.Borda().fit_predict(runs).score.tolist()
    [5.5, 7.0, 3.5, 4.0]
    """

    name = "borda"
    tags = Tags(accepts=LISTS, heuristic=True, cost="O(R)")
    _relative_weights = True
    constraints: ClassVar[Mapping[str, Constraint]] = {"missing": one_of("mean", "zero")}

    def __init__(self, *, missing: str = "mean") -> None:
        self.missing = missing

    def _points(self, preferences: Preferences) -> tuple[Floats, Floats | None]:
        """Return the points of every row, and those that each list gives the items it leaves out (None for none)."""
        lengths = preferences.list_lengths
        sizes = np.diff(preferences.slots.offsets)[preferences.list_instance]
        points = np.repeat(sizes + 1.0, lengths) - preferences.positions("average")
        return points, None if self.missing == "zero" else (sizes - lengths + 1).astype(np.float64) / 2

    def _scores(self, preferences: Preferences) -> Floats:
        points, absent = self._points(preferences)
        return sum_by_slot(preferences, points, preferences.list_weight, absent=absent)

    def _contributions(self, preferences: Preferences) -> tuple[list[str], Floats, Floats]:
        points, absent = self._points(preferences)
        return by_expert(preferences, points, preferences.list_weight, absent=absent)


def _mean_positions(preferences: Preferences, position: Floats, missing: str) -> Floats:
    """Return the weighted mean position of every slot; 0 where no list counts."""
    weights = preferences.list_weight
    instance = preferences.slots.instance
    if missing == "ignore":
        number = count_lists(preferences, weights)
        total = sum_by_slot(preferences, position, weights)
        behind = np.diff(preferences.slots.offsets)[instance] + 1.0
        return np.where(number > 0, total / np.where(number > 0, number, 1.0), behind)
    number = sum_by_instance(preferences, np.ones(preferences.n_lists), weights)[instance]
    absent = (preferences.list_lengths + 1).astype(np.float64)
    total = sum_by_slot(preferences, position, weights, absent=absent)
    return total / np.where(number > 0, number, 1.0)


@register_method
class MeanRank(Aggregator):
    """Minus the mean position of the item over the lists.

    score(i) = - sum over lists of w * p_i / sum of w. Tied items share the mean of their positions. Experts who rank
    nothing in an instance do not count; where nobody ranks anything all items score 0.

    Parameters
    ----------
    missing : {"last", "ignore"}
        "last": a list of m items puts each item it leaves out at position m + 1. "ignore": only the lists that hold the
        item count, and an item in no list stands at M + 1 of M.

    Notes
    -----
    Cost O(R) for R rows, plus the sort of lists that are not sorted already. On complete lists the order is Borda's.

    References
    ----------
    Kendall and Babington Smith, The problem of m rankings, Annals of Mathematical Statistics 10, 1939.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": ["a", "b", "c"], "dense": ["b", "d"]})
    >>> cc.MeanRank().fit_predict(runs).score.tolist()
    [-2.0, -1.5, -3.0, -3.0]
    """

    name = "mean-rank"
    tags = Tags(accepts=LISTS, heuristic=True, cost="O(R)")
    _relative_weights = True
    constraints: ClassVar[Mapping[str, Constraint]] = {"missing": one_of("last", "ignore")}

    def __init__(self, *, missing: str = "last") -> None:
        self.missing = missing

    def _scores(self, preferences: Preferences) -> Floats:
        return -_mean_positions(preferences, preferences.positions("average"), self.missing)


@register_method
class MedianRank(Aggregator):
    """Minus the median position of the item over the lists; equal medians are ordered by the mean.

    score(i) = - median over lists of p_i, a list of weight 2 counting twice, and the mean of the two middle positions
    where their number is even. Items with equal medians get less than half the smallest gap between two medians on
    top, in the order of their mean positions. Tied items of a list share the mean of their positions. A list of m
    items puts each item it leaves out at position m + 1. Experts who rank nothing in an instance do not count; where
    nobody ranks anything all items score 0.

    Notes
    -----
    Cost O(K M log K) for K lists over M items.

    References
    ----------
    Fagin, Kumar and Sivakumar, Efficient similarity search and classification via rank aggregation, SIGMOD 2003.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a"], "z": ["a", "c", "b"]})
    >>> cc.MedianRank().fit_predict(runs).ranking()
    ['a', 'b', 'c']
    """

    name = "median-rank"
    tags = Tags(accepts=LISTS, heuristic=True, cost="O(K M log K)")
    _relative_weights = True

    def _scores(self, preferences: Preferences) -> Floats:
        p = preferences
        position, weights = p.positions("average"), p.list_weight
        median = np.zeros(p.n_slots)
        absent = (p.list_lengths + 1).astype(np.float64)
        for slots, lists, cells in cell_blocks(
            position, absent, p.slot, p.list_offsets, p.list_starts, p.slots.offsets
        ):
            middle = weighted_median(cells, None if weights is None else weights[lists])
            median[slots] = np.where(np.isnan(middle), 0.0, middle)
        return break_ties(-median, [-_mean_positions(p, position, "last")], p.slots.offsets)
