"""Rankers: RankNet, RankSVM, RankRegress, ListMLE, PairTies and LambdaRank, each the `Ranker` with one loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from concordant.arrays import Floats
from concordant.base.contract import Tags
from concordant.base.params import Constraint, boolean, integer, one_of, optional
from concordant.base.registry import register_method
from concordant.errors import DataError
from concordant.kernels.graded_lists import GradedLists
from concordant.kernels.lists import list_ids
from concordant.kernels.splitmix64 import STEP, mixed
from concordant.kernels.svd_tables import LambdaTarget
from concordant.ranking import losses
from concordant.ranking.base import Ranker
from concordant.ranking.metric_swaps import is_lambda_metric, lambda_metric, metric_terms

__all__ = ["LambdaRank", "ListMLE", "PairTies", "RankNet", "RankRegress", "RankSVM"]

_NO_EXTRA: Floats = np.zeros(0)


@register_method
class RankNet(Ranker):
    """Pairwise logistic loss: the order of any two items with different labels has the greatest likelihood.

    The loss is Σ log(1 + exp(-(s_i - s_j))) over the pairs of an instance in which i has the higher label; tied pairs
    are left out. It is the cross-entropy of a logistic model of each pair.

    Instances with one item, or with equal labels only, are ignored.

    Estimand: s_i − s_j, the log odds that i has the higher label of two different ones.

    Parameters
    ----------
    {common}

    Attributes
    ----------
    {learned}

    Notes
    -----
    An evaluation costs O(N²) for an instance of N items, in addition to O(N F) for F features. PMOP and ListMLE learn
    from the same labels in O(N F).

    References
    ----------
    Burges, Shaked, Renshaw, Lazier, Deeds, Hamilton and Hullender, Learning to rank using gradient descent, ICML 2005.

    Examples
    --------
    >>> import concordant as cc
    >>> features, labels = cc.synthetic.graded_features(60, random_state=1)
    >>> model = cc.RankNet(l2=0.01).fit(features[:40], labels)
    >>> cc.evaluate(model.predict(features[40:]), labels[40:], "ndcg@10").mean["ndcg@10"] > 0.7
    True
    """

    name = "ranknet"
    tags = Ranker.tags

    def _loss(self, score: Floats, lists: Any, gradient: Floats, extra: Floats, turn: int) -> tuple[float, Floats]:
        return losses.logistic(score, lists, gradient), _NO_EXTRA


@register_method
class RankSVM(Ranker):
    """Pairwise hinge loss: items with different labels should differ by a margin of 1.

    The loss is Σ max(0, 1 - (s_i - s_j)) over the pairs of an instance in which i has the higher label; tied pairs are
    left out. With l2 > 0 it is the ranking support vector machine.

    Instances with one item, or with equal labels only, are ignored.

    Estimand: scores whose order has the fewest and smallest violations of the margin. They are no log odds.

    Parameters
    ----------
    {common}

    Attributes
    ----------
    {learned}

    Notes
    -----
    The loss is computed in O(N log N) for an instance of N items, by a sort and counts, without going through the
    pairs. It is not smooth. The line search of "lbfgs" allows for that, and stops when no step improves the loss.

    References
    ----------
    Joachims, Optimizing search engines using clickthrough data, KDD 2002.

    Examples
    --------
    >>> import concordant as cc
    >>> features, labels = cc.synthetic.graded_features(60, random_state=1)
    >>> model = cc.RankSVM(l2=0.01).fit(features[:40], labels)
    >>> cc.evaluate(model.predict(features[40:]), labels[40:], "ndcg@10").mean["ndcg@10"] > 0.7
    True
    """

    name = "ranksvm"
    tags = Ranker.tags
    _has_finite_minimum = True

    def _loss(self, score: Floats, lists: Any, gradient: Floats, extra: Floats, turn: int) -> tuple[float, Floats]:
        return losses.hinge(score, lists, gradient), _NO_EXTRA


@register_method
class RankRegress(Ranker):
    """Pairwise quadratic loss: the scores of items with different labels should differ by 1.

    The loss is Σ (1 - (s_i - s_j))² over the pairs of an instance in which i has the higher label; tied pairs are left
    out. Differences above 1 increase the loss too.

    Instances with one item, or with equal labels only, are ignored.

    Estimand: s_i − s_j, the probability that i has the higher label of two different ones less that of j.

    Parameters
    ----------
    {common}

    Attributes
    ----------
    {learned}

    Notes
    -----
    The loss needs only sums of scores and of their squares for each label: O(N) for an instance of N items.

    References
    ----------
    Truyen, Phung and Venkatesh, Probabilistic models over ordered partitions with application in learning to rank,
    arXiv:1009.1690, 2010, where it is one of the baselines.

    Examples
    --------
    >>> import concordant as cc
    >>> features, labels = cc.synthetic.graded_features(60, random_state=1)
    >>> model = cc.RankRegress().fit(features[:40], labels)
    >>> cc.evaluate(model.predict(features[40:]), labels[40:], "ndcg@10").mean["ndcg@10"] > 0.7
    True
    """

    name = "rank-regress"
    tags = Ranker.tags
    _has_finite_minimum = True

    def _loss(self, score: Floats, lists: Any, gradient: Floats, extra: Floats, turn: int) -> tuple[float, Floats]:
        return losses.quadratic(score, lists, gradient), _NO_EXTRA


@register_method
class ListMLE(Ranker):
    """Plackett-Luce likelihood of the list sorted by label.

    The loss is -log Π_t exp(s_t) / Σ_{u ≥ t} exp(s_u), with the items sorted by label, the highest first. Items of
    equal label stay in the order of the input, so that their order is learned too; `PMOP` models ties instead.

    Instances with one item, or with equal labels only, are ignored.

    Estimand: s_i − s_j, the log odds that i comes before j in the order of the labels.

    Parameters
    ----------
    {common}

    Attributes
    ----------
    {learned}

    Notes
    -----
    Cost O(N F) for an instance of N items and F features.

    References
    ----------
    Xia, Liu, Wang, Zhang and Li, Listwise approach to learning to rank: theory and algorithm, ICML 2008.

    Examples
    --------
    >>> import concordant as cc
    >>> features, labels = cc.synthetic.graded_features(60, random_state=1)
    >>> model = cc.ListMLE(l2=0.01).fit(features[:40], labels)
    >>> cc.evaluate(model.predict(features[40:]), labels[40:], "ndcg@10").mean["ndcg@10"] > 0.7
    True
    """

    name = "list-mle"
    tags = Ranker.tags
    _ties_by_input = True

    def _loss(self, score: Floats, lists: Any, gradient: Floats, extra: Floats, turn: int) -> tuple[float, Floats]:
        return losses.list_mle(score, lists, gradient), _NO_EXTRA


@register_method
class PairTies(Ranker):
    """Likelihood of wins, losses and ties of all pairs of items, with a learned tie parameter.

    With φ = exp(s), a pair is a win of i if i has the higher label, and a tie if the labels are equal:

        Davidson:     P(win) = φ_i / D,  P(tie) = ν √(φ_i φ_j) / D,  D = φ_i + φ_j + ν √(φ_i φ_j);
        Rao-Kupper:   P(win) = φ_i / (φ_i + ξ φ_j),  P(tie) = (ξ² - 1) φ_i φ_j / ((φ_i + ξ φ_j) (ξ φ_i + φ_j)).

    The parameter ν = exp(extra_[0]) or ξ = 1 + exp(extra_[0]) is learned with the weights. Instances whose labels are
    all equal are used too, as they show how common ties are; instances with one item are ignored.

    Estimand: s_i − s_j, the log odds that i has the higher label (Davidson: of two different ones), and how often
    labels are equal.

    Parameters
    ----------
    model : {"davidson", "rao-kupper"}
        The model of ties.
    {common}

    Attributes
    ----------
    extra_ : float64[1]
        The logarithm of ν, or of ξ - 1.
    {learned}

    Notes
    -----
    An evaluation costs O(N²) for an instance of N items, in addition to O(N F) for F features.

    The gradients follow from the probabilities above. Those that Truyen, Phung and Venkatesh (arXiv:1009.1690) print
    for a win have a misprint in the term of the losing item, in both models.

    References
    ----------
    Davidson, On extending the Bradley-Terry model to accommodate ties, JASA 1970. Rao and Kupper, Ties in
    paired-comparison experiments, JASA 1967. Zhou, Xue, Zha and Yu, Learning to rank with ties, SIGIR 2008.

    Examples
    --------
    >>> import concordant as cc
    >>> features, labels = cc.synthetic.graded_features(60, random_state=1)
    >>> model = cc.PairTies(model="rao-kupper", l2=0.01).fit(features[:40], labels)
    >>> cc.evaluate(model.predict(features[40:]), labels[40:], "ndcg@10").mean["ndcg@10"] > 0.7
    True
    """

    name = "pair-ties"
    tags = Ranker.tags
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "model": one_of("davidson", "rao-kupper"),
        **Ranker.constraints,
    }
    _n_extra = 1
    _ties_tell = True

    def __init__(self, *, model: str = "davidson", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model = model

    def _loss(self, score: Floats, lists: Any, gradient: Floats, extra: Floats, turn: int) -> tuple[float, Floats]:
        loss = losses.davidson if self.model == "davidson" else losses.rao_kupper
        by_extra = np.zeros(1)
        return loss(score, lists, gradient, extra, by_extra), by_extra


@register_method
class LambdaRank(Ranker):
    """LambdaRank: pairwise gradients weighted by the change of a ranking metric.

    The gradient (lambda) of a pair in which i has the higher label is |Δ| / (1 + exp(s_i − s_j)), where Δ is the
    change of the metric if the two items swap places in the present ranking. No loss has this gradient; the objective
    in `fit_info_` is the sum of the lambdas, averaged over the instances, which falls as the ranking improves.

    Instances in which every order has the same value of the metric have no effect; if there are no others, the fit
    raises an error. Items with equal scores are ordered by label, the lower one first, and then by a hash of their
    features.

    Estimand: an order with the greatest metric on instances like those of training. There is no likelihood.

    Parameters
    ----------
    metric : str
        The metric to optimise, in the papers' convention: "ndcg", "err", "map" or "mrr", each with or without a cutoff,
        "p@k", or "pairs", in which every pair counts the same (RankNet).
    normalise : bool
        Whether to multiply the lambdas of an instance by log2(1 + t) / t, where t is their sum, so that instances with
        many pairs do not dominate.
    max_items : int or None
        The largest number of items of an instance to form pairs of in one pass. From larger instances all items with
        rare labels, the best ranked ones, and a random sample of the others are taken. The sample is weighted to
        represent the rest, and is different in every pass.
    {common}

    Attributes
    ----------
    {learned}

    Notes
    -----
    Cost O(pairs) for an instance, in addition to O(N F). Without a loss, "lbfgs" cannot be used.

    References
    ----------
    Burges, Ragno and Le, Learning to rank with nonsmooth cost functions, NeurIPS 2006.

    Examples
    --------
    >>> import concordant as cc
    >>> features, labels = cc.synthetic.graded_features(60, random_state=1)
    >>> model = cc.LambdaRank(max_iter=30).fit(features[:40], labels)
    >>> cc.evaluate(model.predict(features[40:]), labels[40:], "ndcg@10").mean["ndcg@10"] > 0.7
    True
    """

    name = "lambdarank"
    tags = Tags(accepts=Ranker.tags.accepts, supervised=True, stochastic=True, faithful=False, cost="O(M F + pairs)")
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "metric": Constraint("one of ndcg, err, map, mrr (with or without @k), p@k, or 'pairs'", is_lambda_metric),
        "normalise": boolean(),
        "max_items": optional(integer(least=2)),
        **Ranker.constraints,
        "solver": one_of("auto", "sgd", "adam"),
    }
    _solver = "adam"

    def __init__(
        self, *, metric: str = "ndcg", normalise: bool = True, max_items: int | None = 1000, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.metric = metric
        self.normalise = normalise
        self.max_items = max_items

    def _prepared(self, lists: GradedLists) -> tuple[GradedLists, LambdaTarget]:
        metric = lambda_metric(self.metric)
        kind, gain, discount, scale = metric_terms(metric, lists.label, lists.level, lists.offsets)
        # Ties count in the worst order: the lower label first.
        row_list = list_ids(lists.offsets)
        tie_order = np.lexsort((-lists.level, row_list)) - lists.offsets[row_list]
        budget = self.max_items or 0
        return lists, LambdaTarget(kind, gain, lists.level, tie_order, discount, scale, budget, self.normalise)

    def _require_informative_labels(self, lists: GradedLists) -> None:
        gradient = np.empty(len(lists.label))
        self._loss(np.zeros(len(gradient)), self._prepared(lists), gradient, _NO_EXTRA, 0)
        if not gradient.any():
            raise DataError(
                f"LambdaRank has nothing to learn from: {self.metric} is the same for every order of the items in all "
                f"{len(lists.key)} usable instances. ndcg and err need labels above 0; map, mrr and p need labels of 1 "
                "or more; p@k needs more than k items. Shift the labels, or choose another metric."
            )

    def _loss(self, score: Floats, lists: Any, gradient: Floats, extra: Floats, turn: int) -> tuple[float, Floats]:
        from concordant.kernels.lambdarank import all_lambdas

        graded, target = lists
        pass_bits = mixed(np.array([self.random_state % 2**64], dtype=np.uint64) + STEP) + np.uint64(turn)
        bits = mixed(graded.key ^ mixed(pass_bits))
        draw = (bits >> np.uint64(11)).astype(np.float64) / 2.0**53
        return all_lambdas(score, graded.offsets, target, draw, gradient), _NO_EXTRA
