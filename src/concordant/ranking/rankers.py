"""The rankers by name: each is a loss put into `Ranker`, and what is to be said about it."""

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
from concordant.ranking.metric_swaps import learned_metric, learns_for, metric_terms

__all__ = ["LambdaRank", "ListMLE", "PairTies", "RankNet", "RankRegress", "RankSVM"]

_NOTHING: Floats = np.zeros(0)


@register_method
class RankNet(Ranker):
    """The scores under which the order of every two items with different labels is most likely.

    The loss is Σ log(1 + exp(-(s_i - s_j))) over the pairs of an instance in which i has the higher label; tied pairs
    say nothing. It is the cross-entropy of a logistic model of each pair.

    Instances of one item or of one label are not learned from.

    Parameters
    ----------
    {common}

    Attributes
    ----------
    {learned}

    Notes
    -----
    Every pair has to be looked at: an evaluation costs O(N²) for an instance of N items, besides O(N F) for F features.
    PMOP and ListMLE learn from the same labels in O(N F).

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
        return losses.logistic(score, lists, gradient), _NOTHING


@register_method
class RankSVM(Ranker):
    """The scores that put items of different labels a margin of 1 apart, as far as they can.

    The loss is Σ max(0, 1 - (s_i - s_j)) over the pairs of an instance in which i has the higher label; tied pairs say
    nothing. With l2 > 0 it is the ranking support vector machine.

    Instances of one item or of one label are not learned from.

    Parameters
    ----------
    {common}

    Attributes
    ----------
    {learned}

    Notes
    -----
    No pair is looked at: sorted by score, what every item pays for is counted along the way, in O(N log N) for an
    instance of N items. The loss has kinks, which the line search of "lbfgs" copes with; it then stops where a step no
    longer helps.

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
    _content = True

    def _loss(self, score: Floats, lists: Any, gradient: Floats, extra: Floats, turn: int) -> tuple[float, Floats]:
        return losses.hinge(score, lists, gradient), _NOTHING


@register_method
class RankRegress(Ranker):
    """The scores whose differences are closest to 1 for every two items with different labels.

    The loss is Σ (1 - (s_i - s_j))² over the pairs of an instance in which i has the higher label; tied pairs say
    nothing. A pair that is further apart than 1 pays too.

    Instances of one item or of one label are not learned from.

    Parameters
    ----------
    {common}

    Attributes
    ----------
    {learned}

    Notes
    -----
    Sums of scores and of their squares for each label are all that is needed: O(N) for an instance of N items.

    References
    ----------
    Truyen, Phung and Venkatesh, Probabilistic models over ordered partitions with applications in document ranking and
    collaborative filtering, SDM 2011, where it is one of the rivals.

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
    _content = True

    def _loss(self, score: Floats, lists: Any, gradient: Floats, extra: Floats, turn: int) -> tuple[float, Floats]:
        return losses.quadratic(score, lists, gradient), _NOTHING


@register_method
class ListMLE(Ranker):
    """The scores under which the list sorted by label is most likely, chosen from the top, one item after another.

    The loss is -log Π_t exp(s_t) / Σ_{u ≥ t} exp(s_u), the items sorted by label, the highest first: the model of
    Plackett and Luce. Items of equal label stay in the order of the input, so that their order is learned too; `PMOP`
    is the model that takes ties for what they are.

    Instances of one item or of one label are not learned from.

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
        return losses.list_mle(score, lists, gradient), _NOTHING


@register_method
class PairTies(Ranker):
    """The scores under which wins, losses and ties of all pairs of items are most likely, the share of ties learned.

    With φ = exp(s), an item i of a higher label than j is a win, one of the same label a tie:

        Davidson:     P(win) = φ_i / D,  P(tie) = ν √(φ_i φ_j) / D,  D = φ_i + φ_j + ν √(φ_i φ_j);
        Rao-Kupper:   P(win) = φ_i / (φ_i + θ φ_j),  P(tie) = (θ² - 1) φ_i φ_j / ((φ_i + θ φ_j) (θ φ_i + φ_j)).

    ν = exp(extra_[0]), θ = 1 + exp(extra_[0]): the one parameter is learned with the weights. Instances whose labels
    are all equal are learned from too, as they say how common ties are; those of one item are not.

    Parameters
    ----------
    model : {"davidson", "rao-kupper"}
        How ties come about.
    {common}

    Attributes
    ----------
    extra_ : float64[1]
        The logarithm of ν, or of θ - 1.
    {learned}

    Notes
    -----
    Every pair has to be looked at: an evaluation costs O(N²) for an instance of N items, besides O(N F).

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
    """The scores that come of pulling every two items apart as hard as exchanging them would change a metric.

    For a pair in which i has the higher label the pull is |ΔM| / (1 + exp(s_i - s_j)), ΔM being what exchanging the two
    in the present ranking would do to the metric. There is no loss whose gradient this is; what `fit_info_` calls the
    objective is the sum of the pulls, averaged over the instances: it falls as the pairs that matter come apart.

    Instances in which every order is the same to the metric pull nothing; where all are such, the fit is refused. Items
    that score alike stand with the lower label first; of one label, in an order drawn from their features.

    Parameters
    ----------
    metric : str
        What to learn for: "ndcg", "err", "map", "mrr", each with or without a cutoff, "p@k", or "pairs", where every
        pair counts the same (RankNet); in the papers' convention.
    normalise : bool
        Whether the pulls of an instance are multiplied by log2(1 + t) / t, t being their sum, so that an instance with
        a thousand times the pairs is not a thousand times as loud.
    max_items : int or None
        How many items of an instance are paired at one visit at most. Of larger instances all items of rare labels are
        taken and a sample of the others, the better ranked ones always; the sample stands for the rest, and is drawn
        anew at every visit.
    {common}

    Attributes
    ----------
    {learned}

    Notes
    -----
    Cost O(pairs) of an instance, besides O(N F). As there is no loss, "lbfgs" cannot be used.

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
        "metric": Constraint("one of ndcg, err, map, mrr (with or without @k), p@k, or 'pairs'", learns_for),
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
        worths = metric_terms(learned_metric(self.metric), lists.label, lists.level, lists.offsets)
        kind, worth, place_gain, scale = worths
        # Ties count in the worst order: the lower label first.
        where = list_ids(lists.offsets)
        by_tie = np.lexsort((-lists.level, where)) - lists.offsets[where]
        budget = self.max_items or 0
        return lists, LambdaTarget(kind, worth, lists.level, by_tie, place_gain, scale, budget, self.normalise)

    def _require_sight(self, lists: GradedLists) -> None:
        gradient = np.empty(len(lists.label))
        self._loss(np.zeros(len(gradient)), self._prepared(lists), gradient, _NOTHING, 0)
        if not gradient.any():
            raise DataError(
                f"LambdaRank has nothing to learn from: {self.metric} is the same for every order of the items in all "
                f"{len(lists.key)} usable instances. Labels count above 0 in ndcg and err, from 1 on in map, mrr and "
                "p, and p@k asks for more than k items. Shift the labels, or choose another metric."
            )

    def _loss(self, score: Floats, lists: Any, gradient: Floats, extra: Floats, turn: int) -> tuple[float, Floats]:
        from concordant.kernels.lambdarank import all_lambdas

        graded, target = lists
        chance = mixed(np.array([self.random_state % 2**64], dtype=np.uint64) + STEP) + np.uint64(turn)
        bits = mixed(graded.key ^ mixed(chance))
        draw = (bits >> np.uint64(11)).astype(np.float64) / 2.0**53
        return all_lambdas(score, graded.offsets, target, draw, gradient), _NOTHING
