"""Order statistics of ranks: robust rank aggregation (RRA) and Stuart's joint cumulative order statistic.

In random lists the normalised ranks of an item are uniform, and the k-th smallest of K of them has a beta distribution.
Both methods ask how rarely ranks as high as those of an item occur by chance, so that many bad lists cannot hide a few
good ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from concordant.aggregators.fusion import LISTS, count_lists, put_last
from concordant.arrays import Floats, Ints
from concordant.base.contract import Aggregator, Tags
from concordant.base.params import Constraint, boolean, either, integer, one_of, optional
from concordant.base.registry import register_method
from concordant.data.consensus import Consensus
from concordant.data.preferences import Preferences
from concordant.errors import DataError, DataWarning, ParameterError, Setting, quote
from concordant.kernels.beta import log_beta_cdf
from concordant.kernels.cells import cell_blocks
from concordant.kernels.order_statistics import (
    log_beta_quantile,
    log_crossing,
    log_joint_cdf,
    log_poisson_binomial_tail,
)
from concordant.metrics.significance import false_discovery_rates

__all__ = ["RobustRank", "Stuart"]

# Most lists of an instance, counted by weight, for probabilities whose cost grows with their cube.
_MOST_LISTS = 200


class _NormalisedRanks(Aggregator):
    """Base class of methods on normalised ranks: what a list says about items it leaves out, and how many there are."""

    missing: str
    total: int | None

    def _totals(self, preferences: Preferences) -> Floats:
        """Return the number of items that could have been ranked, for every instance."""
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

    def _normalised(self, preferences: Preferences) -> tuple[Floats, Floats | None]:
        """Return the normalised rank of every row, and that of each list for the items it leaves out; None for NaN."""
        p = preferences
        ignore = self.missing == "ignore"
        size = p.list_lengths if ignore else self._totals(p)[p.list_instance]
        return p.positions("average") / np.repeat(size, p.list_lengths), None if ignore else np.ones(p.n_lists)

    def _hint_at_total(self, preferences: Preferences) -> None:
        """Warn if lists leave out items and `total` is not given: the number of items is then a guess."""
        if self.missing != "last" or self.total is not None or not preferences.leaves_out().any():
            return
        n = int(np.argmax(preferences.leaves_out()))
        given, ignore = Setting("total", 20000), Setting("missing", "ignore")
        message = (
            f"lists of instance {quote(preferences.instances[n])} leave out items, and total is not given: "
            f"{type(self).__name__} divides ranks by {preferences.slots.sizes[n]}, the number of items in the lists, "
            f"which is right only if no other item could have been ranked. Pass how many could, such as {given} for "
            f"all genes measured, or {ignore} if every list ranks all items it could."
        )
        if message not in getattr(getattr(self, "fit_info_", None), "warnings", ()):
            self._warn(message, DataWarning, given, ignore)

    def _check_whole_weights(self, preferences: Preferences, why: str) -> None:
        """Raise DataError if weights are not whole numbers, or if they add up to too many lists."""
        weights = preferences.weights
        whole = weights == np.floor(weights)
        if not whole.all():
            which = int(np.argmin(whole))
            expert, instance = preferences._list_name(which)
            raise DataError(
                f"{why} counts lists, so weights must be whole numbers. Expert {quote(expert)} weighs "
                f"{weights[which]:g} in instance {quote(instance)}. Round the weights, or clear them with "
                "preferences.with_weights(None)."
            )
        number = np.bincount(preferences.list_instance, weights, minlength=len(preferences))
        if number.max(initial=0.0) > _MOST_LISTS:
            n = int(np.argmax(number))
            raise DataError(
                f"{why} takes at most {_MOST_LISTS} lists, counted by weight; instance "
                f"{quote(preferences.instances[n])} has {number[n]:.0f}. Use RobustRank(exact=False)."
            )


@register_method
class RobustRank(_NormalisedRanks):
    """Minus the decimal logarithm of the p-value that the item ranks this high by chance.

    With the normalised ranks of an item sorted, r_(1) <= ... <= r_(K), let p = min over k of P(B_k <= r_(k)), B_k ~
    Beta(k, K - k + 1); score(i) = -log10(1 - (1 - p)^K), which corrects for taking the smallest of K. Tied items of a
    list share the mean of their positions. A list of weight 2 counts twice; fractional weights count in the same way, k
    being the weight up to and including the k-th rank. Experts who rank nothing in an instance do not count; where
    nobody ranks anything all items score 0.

    Estimand: none: the score is a test. 10^-score is the p-value of the hypothesis that all lists rank the item at
    random.

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
        the lower part of the order is lost. Both are bounds. Not used with exact=True.
    exact : bool
        Whether the p-value is P(min over k <= p) in random lists itself, not a bound on it; as `exact` of R's
        RobustRankAggreg. It raises the scores, most for many lists: where the bounds say 0.0100 for p = 0.001 in 10
        lists, it is 0.0075. Weights must be whole numbers, and the lists at most 200.
    cutoff : int, "length" or None
        That lists were cut, for missing="last"; as `topCutoff` of RobustRankAggreg. A whole number k: only the k first
        positions of every list count. "length": every list was cut at its own length. An item in a short list then
        counts for more, because few random items reach it: P(B_k <= r) becomes the probability that at least k of the
        K lists rank an item at r or higher, a Poisson-binomial distribution in which list L, cut at t_L of `total`
        items, has probability min(r, t_L / total). Weights must be whole numbers.

    Notes
    -----
    Cost O(K M log K) for K lists over M items; O(K^3 M) with `exact` or `cutoff`. The columns `p_value` and `q_value`
    of the result hold 10^-score and the Benjamini-Hochberg false discovery rate among the items of the instance, or
    among `total` items if that is given: items in no list count with p-value 1. Order statistics are positively
    associated, so that 1 - (1 - p)^K bounds the chance from above as K p does, more closely: 0.0488 for 0.05, nearly
    the same for smaller ones. Computed in logarithms, so that p-values below 1e-308 still differ. Where lists leave out
    items and `total` is not given, a DataWarning asks for it.

    References
    ----------
    Kolde, Laur, Adler and Vilo, Robust rank aggregation for gene list integration and meta-analysis, Bioinformatics 28,
    2012.

    Examples
    --------
    >>> import concordant as cc
    >>> genes = cc.from_lists({"x": ["a", "b", "c", "d"], "y": ["a", "c"], "z": ["d", "a"]})
    >>> found = cc.RobustRank(total=100, exact=True).fit_predict(genes)
    >>> found.ranking()
    ['a', 'c', 'd', 'b']
    >>> dict(zip(found.items.tolist(), found.q_value.round(3).tolist()))
    {'a': 0.002, 'b': 1.0, 'c': 0.372, 'd': 0.43}
    """

    name = "robust-rank"
    tags = Tags(accepts=LISTS, heuristic=True, cost="O(K M log K)")
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "missing": one_of("last", "ignore"),
        "total": optional(integer(least=1)),
        "correction": one_of("sidak", "bonferroni"),
        "exact": boolean(),
        "cutoff": optional(either(integer(least=1), one_of("length"))),
    }

    def __init__(
        self,
        *,
        missing: str = "last",
        total: int | None = None,
        correction: str = "sidak",
        exact: bool = False,
        cutoff: int | str | None = None,
    ) -> None:
        self.missing = missing
        self.total = total
        self.correction = correction
        self.exact = exact
        self.cutoff = cutoff

    def _consensus(self, preferences: Any, known: Any = None) -> Consensus:
        self._hint_at_total(preferences)
        plain = super()._consensus(preferences)
        p_value = 10.0**-plain.score
        sizes = preferences.slots.sizes if self.missing == "ignore" else self._totals(preferences)
        q_value = false_discovery_rates(p_value, preferences.slots.offsets, sizes)
        return Consensus.from_codes(
            plain.slots, plain.score, plain.rank, plain.order(), p_value=p_value, q_value=q_value
        )

    def _scores(self, preferences: Preferences) -> Floats:
        p = preferences
        if self.exact or self.cutoff is not None:
            self._check_whole_weights(p, "exact=True" if self.exact else "cutoff")
        rank, absent = self._normalised(p)
        ceiling = self._ceilings(p)
        if ceiling is not None:
            rank = np.where(rank > np.repeat(ceiling, p.list_lengths), 1.0, rank)
        weights = p.weights
        out = np.zeros(p.n_slots)
        for slots, lists, cells in cell_blocks(rank, absent, p.slot, p.list_offsets, p.list_starts, p.slots.offsets):
            if ceiling is None:
                smallest, number = _smallest_log_p(cells, weights[lists])
                most = None
            else:
                ranks, ceilings = _repeated(cells, ceiling[lists], weights[lists])
                smallest, number = _smallest_log_p_cut(ranks, ceilings)
                most = ceilings[:, 0] if ceilings.shape[1] else np.ones(len(slots))
            if self.exact:
                corrected = _exact(smallest, number, most)
            else:
                corrected = _bounded(smallest, number, self.correction)
            out[slots] = np.maximum(-corrected, 0.0) / np.log(10.0)
        return put_last(p, out, count_lists(p, weights) == 0) if self.missing == "ignore" else out

    def _ceilings(self, preferences: Preferences) -> Floats | None:
        """Return the normalised rank at which every list was cut, None without a cut-off."""
        if self.cutoff is None:
            return None
        p = preferences
        if self.missing == "ignore":
            raise ParameterError(
                f"cutoff={self.cutoff!r} says that items left out rank lower; missing='ignore' says that they were not "
                "ranked. Leave one of them out."
            )
        total = self._totals(p)[p.list_instance]
        cut = p.list_lengths if self.cutoff == "length" else np.full(p.n_lists, float(self.cutoff))
        ceiling: Floats = np.minimum(cut / total, 1.0)
        if self.exact:
            counted = p.weights > 0
            least, most = np.ones(len(p)), np.zeros(len(p))
            np.minimum.at(least, p.list_instance[counted], ceiling[counted])
            np.maximum.at(most, p.list_instance[counted], ceiling[counted])
            if (least < most).any():
                n = int(np.argmax(least < most))
                raise DataError(
                    f"exact=True needs lists that were cut at the same length; those of instance "
                    f"{quote(p.instances[n])} were cut at {least[n] * total[0]:.0f} to {most[n] * total[0]:.0f} items. "
                    "Pass cutoff=k, the shortest length, or exact=False."
                )
        return ceiling


@register_method
class Stuart(_NormalisedRanks):
    """Minus the decimal logarithm of the joint probability that all order statistics of random ranks are this small.

    With the normalised ranks of an item sorted, r_(1) <= ... <= r_(K), and U_(k) the k-th smallest of K uniform
    numbers: score(i) = -log10 P(U_(1) <= r_(1), ..., U_(K) <= r_(K)). One bad list cannot spoil an item, and all lists
    count, where `RobustRank` decides by one order statistic. Tied items of a list share the mean of their positions. A
    list of weight 2 counts twice; weights must be whole numbers. Experts who rank nothing in an instance do not count;
    where nobody ranks anything all items score 0.

    Estimand: none: the score is a statistic, the probability of ranks as small as these if all lists rank the item at
    random.

    Parameters
    ----------
    missing : {"last", "ignore"}
        "last": ranks are divided by `total`, and an item that a list leaves out has rank 1, the worst; for top-k lists.
        "ignore": ranks are divided by the length of the list, and only the lists that hold the item count, as in
        Aerts et al.; for complete lists over different items. An item in no list comes last.
    total : int, optional
        The number of items that could have been ranked; by default the number of items of the instance. Not used with
        missing="ignore".

    Notes
    -----
    10^-score is the statistic Q of Stuart et al., `method = "stuart"` of R's RobustRankAggreg. It is no p-value: in
    random lists it is small more often than its value says (0.05 or less for 35 % of items in five lists), so it orders
    items and gives no false discovery rates; for those use `RobustRank`. It is computed by a recursion of
    positive terms in logarithms, at most 200 lists; the recursion of Aerts et al. is faster but its terms alternate in
    sign, and it is wrong from about 30 lists on. Cost O(K^3 M) for K lists over M items. Where lists leave out items
    and `total` is not given, a DataWarning asks for it.

    References
    ----------
    Stuart, Segal, Koller and Kim, A gene-coexpression network for global discovery of conserved genetic modules,
    Science 302, 2003. Aerts et al., Gene prioritization through genomic data fusion, Nature Biotechnology 24, 2006.

    Examples
    --------
    >>> import concordant as cc
    >>> genes = cc.from_lists({"x": ["a", "b", "c", "d"], "y": ["a", "c"], "z": ["d", "a"]})
    >>> cc.Stuart(total=100).fit_predict(genes).ranking()
    ['a', 'd', 'c', 'b']
    """

    name = "stuart"
    tags = Tags(accepts=LISTS, weights=False, heuristic=True, cost="O(K³ M)")
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "missing": one_of("last", "ignore"),
        "total": optional(integer(least=1)),
    }

    def __init__(self, *, missing: str = "last", total: int | None = None) -> None:
        self.missing = missing
        self.total = total

    def _consensus(self, preferences: Any, known: Any = None) -> Consensus:
        self._hint_at_total(preferences)
        return super()._consensus(preferences)

    def _scores(self, preferences: Preferences) -> Floats:
        p = preferences
        self._check_whole_weights(p, "Stuart")
        rank, absent = self._normalised(p)
        weights = p.weights
        out = np.zeros(p.n_slots)
        for slots, lists, cells in cell_blocks(rank, absent, p.slot, p.list_offsets, p.list_starts, p.slots.offsets):
            ranks, _ = _repeated(cells, np.ones(cells.shape), weights[lists])
            number = (~np.isnan(ranks)).sum(axis=1)
            for k in np.unique(number[number > 0]).tolist():
                rows = np.flatnonzero(number == k)
                out[slots[rows]] = -log_joint_cdf(ranks[rows, :k]) / np.log(10.0)
        return put_last(p, out, count_lists(p, weights) == 0) if self.missing == "ignore" else out


def _repeated(rank: Floats, other: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the ranks of each row sorted, every list as often as it weighs, and another column of the lists, sorted.

    Lists that do not count (NaN, weight 0) are left out, and rows are filled with NaN at the end.
    """
    times = np.where(np.isnan(rank), 0, weights).astype(np.int64)
    number = times.sum(axis=1)
    rows = np.repeat(np.arange(len(rank)), number)
    column = np.arange(len(rows)) - np.repeat(np.cumsum(number) - number, number)
    out = []
    for values in (rank, other):
        filled = np.full((len(rank), int(number.max(initial=0))), np.nan)
        filled[rows, column] = np.repeat(values.ravel(), times.ravel())
        out.append(np.sort(filled, axis=1))
    return out[0], out[1]


def _smallest_log_p(rank: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return ln min P(B_k <= r_(k)) for every row of normalised ranks, and the number K of lists that count."""
    order = np.argsort(rank, axis=1, kind="stable")
    rank = np.take_along_axis(rank, order, axis=1)
    weight = np.where(np.isnan(rank), 0.0, np.take_along_axis(weights, order, axis=1))
    upto = np.cumsum(weight, axis=1)
    number = upto[:, -1:]
    # Rank 1 and lists of weight 0 have p-value 1.
    informative = (weight > 0) & (rank < 1.0)
    log_p = np.zeros(rank.shape)
    log_p[informative] = log_beta_cdf(rank[informative], upto[informative], (number - upto + 1.0)[informative])
    return log_p.min(axis=1), number[:, 0]


def _smallest_log_p_cut(rank: Floats, ceiling: Floats) -> tuple[Floats, Floats]:
    """Return the same for lists that were cut at these normalised ranks."""
    number = (~np.isnan(rank)).sum(axis=1)
    smallest = np.zeros(len(rank))
    for k in range(rank.shape[1]):
        for size in np.unique(number[number > k]).tolist():
            rows = np.flatnonzero((number == size) & (rank[:, k] < 1.0))
            # An equal rank of the next list has the smaller probability, of at least k + 2.
            tail = log_poisson_binomial_tail(np.log(rank[rows, k]), np.log(ceiling[rows, :size]), k + 1)
            smallest[rows] = np.minimum(smallest[rows], tail)
    return smallest, number.astype(np.float64)


def _exact(smallest: Floats, number: Floats, ceiling: Floats | None) -> Floats:
    """Return ln P(min over k of P(B_k <= U_(k)) <= p) for ln p and K, where no rank beyond the ceiling is seen."""
    out = np.zeros(len(smallest))
    counts: Ints = number.astype(np.int64)
    for size in np.unique(counts[smallest < 0]).tolist():
        rows = np.flatnonzero((counts == size) & (smallest < 0))
        k = np.arange(1.0, size + 1.0)
        key = smallest[rows, None] if ceiling is None else np.stack([smallest[rows], ceiling[rows]], axis=1)
        values, where = np.unique(key, axis=0, return_inverse=True)
        threshold = log_beta_quantile(values[:, :1], k, size - k + 1.0)
        if ceiling is not None:
            threshold = np.minimum(threshold, np.log(values[:, 1:]))
        out[rows] = log_crossing(threshold)[where.ravel()]
    return out


def _bounded(smallest: Floats, number: Floats, correction: str) -> Floats:
    """Return the logarithm of an upper bound of the same probability."""
    total = np.where(number > 0, number, 1.0)
    corrected: Floats = np.log(total) + smallest
    if correction == "sidak":
        # 1 - (1 - p)^K = 1 - exp(-h), h = -K log(1 - p): K p times two factors that are 1 for small p.
        certain = smallest >= 0
        p = np.exp(np.where(certain, -1.0, smallest))
        log1p = -np.log1p(-p)
        corrected += np.log(np.divide(log1p, p, out=np.ones(len(p)), where=p > 0))
        hazard = total * log1p
        corrected += np.log(np.divide(-np.expm1(-hazard), hazard, out=np.ones(len(p)), where=hazard > 0))
        corrected[certain] = 0.0
    return corrected
