"""Robust rank aggregation (RRA): p-values for items that rank higher in some lists than by chance.

In random lists the normalised ranks of an item are uniform, and the k-th smallest of K of them has a beta distribution.
The order statistic of smallest p-value gives the score, so that many bad lists cannot hide a few good ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from concordant.aggregators.fusion import LISTS, count_lists, put_last
from concordant.arrays import Floats
from concordant.base.contract import Aggregator, Tags
from concordant.base.params import Constraint, integer, one_of, optional
from concordant.base.registry import register_method
from concordant.data.preferences import Preferences
from concordant.errors import DataError
from concordant.kernels.beta import log_beta_cdf
from concordant.kernels.cells import cell_blocks

__all__ = ["RobustRank"]


@register_method
class RobustRank(Aggregator):
    """Minus the decimal logarithm of the p-value that the item ranks this high by chance.

    With the normalised ranks of an item sorted, r_(1) <= ... <= r_(K), let p = min over k of P(B_k <= r_(k)), B_k ~
    Beta(k, K - k + 1); score(i) = -log10(1 - (1 - p)^K), which corrects for taking the smallest of K. Tied items of a
    list share the mean of their positions. A list of weight 2 counts twice; fractional weights count in the same way, k
    being the weight up to and including the k-th rank. Experts who rank nothing in an instance do not count; where
    nobody ranks anything all items score 0.

    Parameters
    ----------
    missing : {"last", "ignore"}
        "last": ranks are divided by `total`, and an item that a list leaves out has rank 1, the worst; for top-k lists.
        "ignore": ranks are divided by the length of the list, and only the lists that hold the item count; for complete
        lists over different items. An item in no list comes last.
    total : int, optional
        The number of items that could have been ranked; by default the number of items of the instance. The p-values
        are valid only if it is about right. Not used with missing="ignore".
    correction : {"sidak", "bonferroni"}
        How the p-value is corrected for taking the smallest of K. "sidak": 1 - (1 - p)^K. "bonferroni": min(1, K p),
        the rho of the paper and of R's RobustRankAggreg; every item for which K p is 1 or more has the score 0, so that
        the lower part of the order is lost.

    Notes
    -----
    Cost O(K M log K) for K lists over M items. The p-value is 10^-score, not corrected for the number of items. Order
    statistics are positively associated, so that 1 - (1 - p)^K bounds the chance from above as K p does, more closely:
    0.0488 for 0.05, nearly the same for smaller ones. Computed in logarithms, so that p-values below 1e-308 still
    differ.

    References
    ----------
    Kolde, Laur, Adler and Vilo, Robust rank aggregation for gene list integration and meta-analysis, Bioinformatics 28,
    2012.

    Examples
    --------
    >>> import concordant as cc
    >>> genes = cc.from_lists({"x": ["a", "b", "c", "d"], "y": ["a", "c"], "z": ["d", "a"]})
    >>> cc.RobustRank().fit_predict(genes).ranking()
    ['a', 'd', 'c', 'b']
    """

    name = "robust-rank"
    tags = Tags(accepts=LISTS, cost="O(K M log K)")
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "missing": one_of("last", "ignore"),
        "total": optional(integer(least=1)),
        "correction": one_of("sidak", "bonferroni"),
    }

    def __init__(self, *, missing: str = "last", total: int | None = None, correction: str = "sidak") -> None:
        self.missing = missing
        self.total = total
        self.correction = correction

    def _scores(self, preferences: Preferences) -> Floats:
        p = preferences
        ignore = self.missing == "ignore"
        size = p.list_lengths if ignore else self._totals(p)[p.list_instance]
        rank = p.positions("average") / np.repeat(size, p.list_lengths)
        absent = None if ignore else np.ones(p.n_lists)
        weights = p.weights
        out = np.zeros(p.n_slots)
        for slots, lists, cells in cell_blocks(rank, absent, p.slot, p.list_offsets, p.list_starts, p.slots.offsets):
            out[slots] = _log_p_values(cells, weights[lists], self.correction)
        return put_last(p, out, count_lists(p, weights) == 0) if ignore else out

    def _totals(self, preferences: Preferences) -> Floats:
        sizes = preferences.slots.sizes
        if self.total is None:
            return sizes.astype(np.float64)
        if len(sizes) and sizes.max() > self.total:
            n = int(np.argmax(sizes))
            raise DataError(
                f"instance {preferences.instances[n]!r} has {sizes[n]} items, more than total={self.total}. "
                "Give the number of items that could have been ranked, or leave total out."
            )
        return np.full(len(sizes), float(self.total))


def _log_p_values(rank: Floats, weights: Floats, correction: str) -> Floats:
    """Return -log10 of the p-value for every row of normalised ranks; NaN marks lists that do not count."""
    order = np.argsort(rank, axis=1, kind="stable")
    rank = np.take_along_axis(rank, order, axis=1)
    weight = np.where(np.isnan(rank), 0.0, np.take_along_axis(weights, order, axis=1))
    upto = np.cumsum(weight, axis=1)
    number = upto[:, -1:]
    # Rank 1 and lists of weight 0 have p-value 1.
    informative = (weight > 0) & (rank < 1.0)
    log_p = np.zeros(rank.shape)
    log_p[informative] = log_beta_cdf(rank[informative], upto[informative], (number - upto + 1.0)[informative])
    smallest = log_p.min(axis=1)
    total = np.where(number[:, 0] > 0, number[:, 0], 1.0)
    corrected = np.log(total) + smallest
    if correction == "sidak":
        # 1 - (1 - p)^K = 1 - exp(-h), h = -K log(1 - p): K p times two factors that are 1 for small p.
        certain = smallest >= 0
        p = np.exp(np.where(certain, -1.0, smallest))
        log1p = -np.log1p(-p)
        corrected += np.log(np.divide(log1p, p, out=np.ones(len(p)), where=p > 0))
        hazard = total * log1p
        corrected += np.log(np.divide(-np.expm1(-hazard), hazard, out=np.ones(len(p)), where=hazard > 0))
        corrected[certain] = 0.0
    score: Floats = np.maximum(-corrected, 0.0) / np.log(10.0)
    return score
