"""SVDRank: LambdaRank on singular vectors of the experts' pairwise preference matrices.

The features do not depend on the scorer: `transform` returns them for any learning-to-rank library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators._lambdarank import (
    ExpertNetwork,
    LambdaRankLearner,
    Queries,
    Settings,
    inner_order,
    network_scores,
    public_order,
)
from concordant.aggregators._linear import alternatives, candidates, meanings
from concordant.arrays import Floats
from concordant.base.contract import Aggregator, Tags, Votes
from concordant.base.params import Constraint, Within, boolean, integer, metric_name, number, one_of, optional, seed
from concordant.base.registry import register_method
from concordant.errors import DataError, DataShiftWarning, NotFittedError
from concordant.features.expert_features import SHARED, WeightBlocks, has_votes, weight_blocks
from concordant.features.svd_features import (
    STRENGTHS,
    SingularTriples,
    dense_triples,
    singular_triples,
    triple_rows,
    triple_terms,
)
from concordant.kernels.lists import exact_sums, list_ids, offsets_of
from concordant.kernels.svd_tables import FeatureRows
from concordant.learning.shift import RECORDED_RANGE, TrainingSummary, check_record, depth_shift, kind_shift
from concordant.ranking.metric_swaps import is_lambda_metric, lambda_metric

if TYPE_CHECKING:
    from concordant.data.features import Features
    from concordant.data.labels import Labels

__all__ = ["SVDRank"]

# "count" has the same singular vectors as "rankdiff".
_TRIED = ("log", "rankdiff", "binary")
_RATES = (0.01, 0.03, 0.1)


@register_method
class SVDRank(Aggregator):
    """SVD features of the experts' pairwise preferences, weighted by LambdaRank for a ranking metric.

    For every expert e of an instance, Y_e(i, j) is the strength with which e prefers i to j, and Y_e ≈ U diag(σ) Vᵀ
    is its best approximation of rank p. The features of item i are u (its row of U: how strongly it wins), σ, v (its
    row of V: how strongly it loses), and whether e does not list it:

        score(i) = Σ_e Σ_r ( a_er u_r(i) + g_er σ_r + f_er v_r(i) ) + o_e [e does not list i].

    Y is not negative, so that u and v of the leading triple are not negative either. In the other triples, the entry of
    u with the largest magnitude is made positive (that of the best ranked item, if several are equal). σ is the same
    for all items of an instance. Its weights have no effect on the ranking without a hidden layer, and stay 0.

    `fit` is LambdaRank: for every pair of items with different labels the gradient is |Δ| / (1 + exp(difference of
    scores)), where Δ is the change of the metric if the two items swap places in the present ranking.
    SVDRank(scaling="paper", average=0, l2=0, learning_rate=0.01) is the method as published.

    Tied items of a list have the same features. If a list expresses no preference (one item, or all tied), u, σ and v
    are 0. An expert without a list in an instance has no effect there. In an instance without preferences all items are
    tied. An item that nobody lists scores Σ o. The weight of a list multiplies Y: it changes σ, and the share of the
    list in a shared Y, but not u and v of a single list; a list of weight 0 is ignored. Scores and ratings are
    converted to ranks within their list, with mean ranks for ties. For comparisons Y(i, j) is the number of wins of i
    against j; `strength` and `missing` have no effect. Instances in which every order has the same value of the metric
    are ignored in training.

    Estimand: weights of the features under which the metric is greatest on instances like those of training. LambdaRank
    follows gradients without an objective, so this is its aim and no likelihood.

    Parameters
    ----------
    strength : {"log", "rankdiff", "binary", "count"}, "auto", or a tuple of them
        The strength of a preference: the difference of the log ranks over the largest log rank of the list, the
        difference of the ranks over the largest rank, 1, or the difference of the ranks. "auto" selects among the first
        three, a tuple among its entries. (Other methods call this `transform`; here that is the method that returns the
        features.)
    p : int
        The number of singular triples of every expert.
    scaling : {"mean", "paper"}
        "paper": singular vectors have length 1, and the gradient of an instance is the sum over its pairs. "mean":
        singular vectors have mean square 1 over the items of the list, and σ is divided by their number, so that
        entries are comparable between short and long lists; the gradient is multiplied by log2(1 + t) / t, where t is
        the sum over its pairs, so that instances with many pairs do not dominate.
    weights : {"individual", "consensus", "mixed"}
        Whether each expert has its own features and weights, all experts share them (with the sum of their matrices),
        or only experts with few training lists share them. Shared weights also serve unseen experts. If no expert has
        few lists, they are the mean of the others.
    min_lists, min_rows : int
        With "mixed", the smallest numbers of training lists and rows of an expert with weights of its own.
    metric : str
        The metric to optimise, in the papers' convention: "ndcg", "err", "map" or "mrr", each with or without a cutoff,
        "p@k", or "pairs", in which every pair counts the same (RankNet).
    hidden : int
        Number of units of a hidden layer between the features and the score, 0 for none.
    learning_rate : float, "auto", or a tuple of them
        The learning rate. "auto" selects among 0.01, 0.03 and 0.1, a tuple among its entries.
    passes : int
        The largest number of passes over the training instances.
    patience : int or None
        Stop after this many passes without a better value.
    l2 : float
        The penalty l2/2 · Σ weight².
    average : float
        Decay of an exponential moving average of the weights over passes; 0 for no averaging.
    max_items : int or None
        The largest number of items of an instance to form pairs of in one pass. From larger instances all items with
        rare labels, the best ranked ones, and a random sample of the others are taken. The sample is weighted to
        represent the rest, and is different in every pass.
    missing : {"unknown", "below"}
        Whether a list expresses no preference about the items it leaves out, or prefers all that it holds to them, with
        strength 1.
    unjudged : {"zero", "drop"}
        Whether training items without a label count as labelled 0, or are left out.
    unknown_experts : {"error", "ignore"}
        How to treat experts without weights.
    select : str
        The metric that selects the pass, the strength and the learning rate, in the papers' convention.
    cv : int
        Number of folds of the cross-validation that is used if `fit` gets no validation data.
    warm_start : bool
        Whether to start from the weights of the previous fit, for experts that it knew, if `p` and `hidden` are the
        same.
    random_state : int
        Seed of the order of the instances in every pass, of the samples, the folds and the initial weights.

    Attributes
    ----------
    experts_ : list of str
        The experts with weights, sorted, then "*" for shared weights.
    strength_ : str
        The selected strength.
    weights_ : float64[experts, 3p + 1]
        The weights of u, σ, v and "not listed". With a hidden layer, the gradient of the score with respect to these
        features, at an item that nobody lists.
    adherence_ : float64[experts]
        The mean difference of score between the first and the last item of the expert's lists.
    hidden_ : float64[experts, 3p + 1, units]
        With a hidden layer, its weights: score(i) = Σ_h top_h tanh(bias_h + Σ_er hidden_erh z_er(i)), where z are the
        features, with 1 subtracted from "not listed".
    bias_ : float64[units]
        With a hidden layer, the biases of its units.
    top_ : float64[units]
        With a hidden layer, the weights of its units in the score.
    training_ : dict
        Summary of the training lists; see `CRF`.

    Notes
    -----
    For a list of m items the features cost a sort and about ten products with Y, each O(m); binary lists without ties
    have a closed form. A pass costs O(pairs with different labels). The result does not depend on the order of rows,
    items, experts or instances.

    Lists deeper than 1.5 times the training depth D are corrected as in `CRF`: the features of an item at rank r > D
    are multiplied by √(D / r).

    References
    ----------
    Volkovs, Larochelle and Zemel, Learning to rank by aggregating expert preferences, CIKM 2012. Burges, Ragno and Le,
    Learning to rank with nonsmooth cost functions, NeurIPS 2006.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels = cc.synthetic.labelled_runs(40, random_state=1)
    >>> model = cc.SVDRank(passes=50).fit(runs[:30], labels)
    >>> fresh = runs[30:]
    >>> cc.evaluate(model.predict(fresh), labels.align(fresh), "ndcg@10").mean["ndcg@10"] > 0.7
    True
    >>> model.transform(fresh).names[:4].tolist()
    ['e1.u1', 'e1.sigma1', 'e1.v1', 'e1.missing']
    """

    name = "svd-rank"
    tags = Tags(
        accepts=frozenset({"rank", "score", "rating", "comparisons"}),
        supervised=True,
        stochastic=True,
        faithful=False,
        cost="O(R log M)",
    )
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "strength": alternatives(one_of(*STRENGTHS)),
        "p": integer(least=1),
        "scaling": one_of("mean", "paper"),
        "weights": one_of("individual", "consensus", "mixed"),
        "min_lists": integer(least=1),
        "min_rows": integer(least=1),
        "metric": Constraint("one of ndcg, err, map, mrr (with or without @k), p@k, or 'pairs'", is_lambda_metric),
        "hidden": integer(least=0),
        "learning_rate": alternatives(number(above=0)),
        "passes": integer(least=1),
        "patience": optional(integer(least=1)),
        "l2": number(least=0),
        "average": number(least=0, most=0.999),
        "max_items": optional(integer(least=2)),
        "missing": one_of("unknown", "below"),
        "unjudged": one_of("zero", "drop"),
        "unknown_experts": one_of("error", "ignore"),
        "select": metric_name(),
        "cv": integer(least=2),
        "warm_start": boolean(),
        "random_state": seed(),
    }

    experts_: list[str]
    shared_: Annotated[int, Within(least=-1)]
    strength_: str
    weights_: Annotated[Floats, Within()]
    adherence_: Annotated[Floats, Within()]
    expert_details_: Annotated[dict[str, Any], Within()]
    hidden_: Annotated[Floats, Within()]
    bias_: Annotated[Floats, Within()]
    top_: Annotated[Floats, Within()]
    training_: Annotated[dict[str, Any], RECORDED_RANGE]

    def __init__(
        self,
        *,
        strength: str | tuple[str, ...] = "log",
        p: int = 1,
        scaling: str = "mean",
        weights: str = "individual",
        min_lists: int = 10,
        min_rows: int = 1,
        metric: str = "ndcg",
        hidden: int = 0,
        learning_rate: float | str | tuple[float, ...] = 0.03,
        passes: int = 200,
        patience: int | None = None,
        l2: float = 0.03,
        average: float = 0.9,
        max_items: int | None = 1000,
        missing: str = "unknown",
        unjudged: str = "zero",
        unknown_experts: str = "error",
        select: str = "ndcg@10",
        cv: int = 5,
        warm_start: bool = False,
        random_state: int = 0,
    ) -> None:
        self.strength = strength
        self.p = p
        self.scaling = scaling
        self.weights = weights
        self.min_lists = min_lists
        self.min_rows = min_rows
        self.metric = metric
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.passes = passes
        self.patience = patience
        self.l2 = l2
        self.average = average
        self.max_items = max_items
        self.missing = missing
        self.unjudged = unjudged
        self.unknown_experts = unknown_experts
        self.select = select
        self.cv = cv
        self.warm_start = warm_start
        self.random_state = random_state

    def transform(self, preferences: Votes) -> Features:
        """Return the features of every item: for each expert u1..up, sigma1..sigmap, v1..vp and missing.

        Columns are named by expert and feature, such as "bm25.u1" and "bm25.missing", and "*" stands for the experts
        with shared weights. Without a hidden layer the scores are `X @ weights_.ravel()`.

        Parameters
        ----------
        preferences : Preferences or Comparisons
            The preferences; experts are treated as in `predict`.

        Examples
        --------
        >>> import concordant as cc
        >>> runs, labels = cc.synthetic.labelled_runs(20, random_state=1)
        >>> model = cc.SVDRank(passes=5).fit(runs, labels)
        >>> features = model.transform(runs)
        >>> bool(np.allclose(features.X @ model.weights_.ravel(), model.predict(runs).score))
        True
        """
        return dense_triples(self._triples(self._checked(preferences)), preferences.slots, self._known())

    def fit_transform(self, preferences: Votes, labels: Labels | None = None, *, validation: Any = None) -> Features:
        """Fit, then return the features of the same preferences."""
        return self.fit(preferences, labels, validation=validation).transform(preferences)

    def _known(self) -> WeightBlocks:
        """Return the blocks of weights, or raise NotFittedError."""
        if "weights_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)
        return WeightBlocks(self.experts_, self.shared_)

    def _triples(self, votes: Votes) -> SingularTriples:
        blocks = self._known()
        of_expert = blocks.block_of_expert(votes, type(self).__name__, self.unknown_experts)
        p = (self.weights_.shape[1] - 1) // 3
        trained_on = TrainingSummary.from_record(self.__dict__.get("training_"))
        return singular_triples(votes, blocks, of_expert, self.strength_, p, self.missing, self.scaling, trained_on)

    def _data_shift(self, preferences: Votes) -> str:
        blocks = self._known()
        return kind_shift(self, preferences) or depth_shift(
            self, preferences, lambda: blocks.block_of_expert(preferences, type(self).__name__, self.unknown_experts)
        )

    def _scores(self, preferences: Votes) -> Floats:
        found = self._triples(preferences)
        slots = preferences.slots
        if "hidden_" in self.__dict__:
            return network_scores(triple_rows(found, slots), self._net(), np.arange(len(slots)))
        terms, everywhere = triple_terms(found, self.weights_)
        sources = offsets_of(np.bincount(found.instance, minlength=len(slots)))
        most = np.diff(sources)
        total = exact_sums(terms, found.slot, slots.n_slots, found.offsets[sources], most)
        shift = exact_sums(everywhere, found.instance, len(slots), sources, most) + float(self.weights_[:, -1].sum())
        total += np.repeat(shift, slots.sizes)
        return total

    def _contributions(self, preferences: Votes) -> tuple[list[str], Floats, Floats] | None:
        found = self._triples(preferences)
        if "hidden_" in self.__dict__:
            return None
        slots = preferences.slots
        terms, everywhere = triple_terms(found, self.weights_)
        absent = self.weights_[:, -1]
        # The term of each source for all items of its instance. Experts without votes there go to `base`.
        constant = np.zeros((len(slots), len(self.experts_)))
        constant[found.instance, found.block] = everywhere + absent[found.block]
        base = np.full(len(slots), float(absent.sum()))
        np.subtract.at(base, found.instance, absent[found.block])
        out = constant[slots.instance]
        np.add.at(out, (found.slot, np.repeat(found.block, np.diff(found.offsets))), terms)
        return list(self.experts_), out, base[slots.instance]

    def _net(self) -> ExpertNetwork:
        """Return the weights as a network, in the internal order of the features."""
        inner = inner_order((self.weights_.shape[1] - 1) // 3)
        if "hidden_" in self.__dict__:
            return ExpertNetwork(np.ascontiguousarray(self.hidden_[:, inner]), self.bias_, self.top_)
        return ExpertNetwork(self.weights_[:, inner, None], np.zeros(1), np.ones(1))

    def _reset(self) -> None:
        # For warm_start.
        before = None
        if self.warm_start and "weights_" in self.__dict__:
            before = ({name: b for b, name in enumerate(self.experts_)}, self._net())
        super()._reset()
        self._before = before

    def _fit(self, preferences: Votes, labels: Labels | None, validation: Any, features: Features | None) -> None:
        from concordant.learning.supervision import check_distinguishable, match_labels, validation_pair
        from concordant.learning.training import train

        owner = type(self).__name__
        before = self.__dict__.pop("_before", None)
        truth = match_labels(preferences, labels, owner, unjudged=self.unjudged)
        pair = validation_pair(validation, owner)
        blocks = self._blocks_to_learn(preferences)
        known = before
        if before is not None and before[1].w.shape[1:] != (3 * self.p + 1, max(self.hidden, 1)):
            self._warn(
                "SVDRank begins anew: the previous fit had another number of triples or hidden units.", DataShiftWarning
            )
            known = None
        settings = Settings(self.p, self.hidden, float(self.l2), float(self.average), self.random_state)
        target, budget, normalise = lambda_metric(self.metric), self.max_items or 0, self.scaling == "mean"
        learners = []
        trained_on = TrainingSummary.of(
            preferences, blocks.block_of_expert(preferences, owner, self.unknown_experts), len(blocks), truth.instances
        )
        for strength in candidates(self.strength, _TRIED):
            parts = []
            both = [(preferences, "")] if pair is None else [(preferences, ""), (pair[0], " of the validation part")]
            for votes, where in both:
                of_expert = blocks.block_of_expert(votes, owner, self.unknown_experts, where)
                # Validation lists may be deeper than those in training; they are corrected as in prediction.
                far = trained_on if where else None
                found = singular_triples(votes, blocks, of_expert, strength, self.p, self.missing, self.scaling, far)
                parts.append(triple_rows(found, votes.slots))
            queries = Queries.of(
                parts[0], truth.label, truth.instances, preferences.instances, target, budget, normalise
            )
            informative = truth.instances[queries.informative[truth.instances]]
            if not len(informative):
                raise DataError(
                    f"{owner} found no usable label for {self.metric!r}: no order of the items is better than another. "
                    "ndcg and err need labels above 0; map, mrr and p need labels of 1 or more; p@k needs more than k "
                    "items. Larger labels are better; shift them, or use metric='pairs'."
                )
            truth = truth._replace(instances=informative)
            check_distinguishable(queries.key, truth, preferences, owner)
            for rate in candidates(self.learning_rate, _RATES):
                chosen = {"strength": strength, "learning_rate": rate}
                learners.append(LambdaRankLearner(chosen, settings, blocks, parts, queries, known))
        trained = train(
            self,
            learners,
            votes=preferences,
            labels=labels,
            truth=truth,
            validation=pair,
            passes=self.passes,
            select=self.select,
            cv=self.cv,
            patience=self.patience,
            random_state=self.random_state,
        )
        self._set_fitted(learners[trained.learner], trained.parameters, blocks)
        self.training_ = trained_on.record()

    def _blocks_to_learn(self, votes: Votes) -> WeightBlocks:
        blocks = weight_blocks(votes, self.weights, self.min_lists, self.min_rows)
        if len(set(blocks.names)) < len(blocks.names):
            raise DataError(
                f"an expert is called {SHARED!r}, which is the name of the weights that experts share. Rename it."
            )
        if not has_votes(votes):
            raise DataError(
                f"{type(self).__name__} has nothing to learn from: no expert ranks anything in the {len(votes)} "
                "instances."
            )
        return blocks

    def _set_fitted(self, learner: LambdaRankLearner, parameters: Floats, blocks: WeightBlocks) -> None:
        """Set the learned attributes, and describe what they mean for each expert."""
        p, rows = self.p, learner.parts[0]
        net = learner.net(parameters)
        self.experts_ = list(blocks.names)
        self.shared_ = blocks.shared
        self.strength_ = learner.chosen["strength"]
        w = np.ascontiguousarray(net.w[:, public_order(p)])
        if self.hidden:
            self.hidden_, self.bias_, self.top_ = w, net.bias.copy(), net.top.copy()
            self.weights_ = w @ (net.top * (1.0 - np.tanh(net.bias) ** 2))
        else:
            self.weights_ = w[:, :, 0].copy()
        self.adherence_, listed = _influence(self.weights_, rows, p)
        details: dict[str, Any] = {}
        for at, kind in enumerate(("u", "sigma", "v")):
            for c in range(p):
                details[f"{kind}{c + 1}"] = self.weights_[:, at * p + c].copy()
        details["missing"] = self.weights_[:, 3 * p].copy()
        details["listed"] = listed
        details["meaning"] = meanings(self.adherence_, listed)
        self.expert_details_ = details

    def _check_state(self) -> None:
        state = self.__dict__
        if "weights_" not in state:
            return
        w, n = state["weights_"], len(state.get("experts_", ()))
        right = (
            isinstance(w, np.ndarray)
            and w.dtype == np.float64
            and w.ndim == 2
            and len(w) == n
            and w.shape[1] >= 4
            and w.shape[1] % 3 == 1
            and state.get("shared_") == (n - 1 if state.get("experts_", [])[-1:] == [SHARED] else -1)
            and state.get("strength_") in STRENGTHS
        )
        if right and "hidden_" in state:
            net = [state.get(name) for name in ("hidden_", "bias_", "top_")]
            right = all(isinstance(a, np.ndarray) and a.dtype == np.float64 for a in net)
            right = right and net[0].ndim == 3 and net[0].shape[:2] == w.shape  # type: ignore[union-attr]
            right = right and net[1].shape == net[2].shape == net[0].shape[2:]  # type: ignore[union-attr]
        if not right:
            raise DataError("its weights, its strength and its experts do not go together.")
        check_record(self)


def _influence(w: Floats, rows: FeatureRows, p: int) -> tuple[Floats, Floats]:
    """Return the adherence of every block, and the mean difference of score between listed and unlisted items.

    Blocks without a list use the means over all lists.
    """
    n = len(w)
    sources = len(rows.source_block)
    if not sources:
        return np.zeros(n), np.zeros(n)
    inner = np.concatenate([w[:, :p], w[:, 2 * p : 3 * p], w[:, 3 * p :]], axis=1)
    instance = np.repeat(np.arange(len(rows.offsets) - 1), np.diff(rows.offsets))[list_ids(rows.starts)]
    # Sources are sorted by instance and block.
    code = list_ids(rows.source_starts).astype(np.int64) * n + rows.source_block
    source = np.searchsorted(code, instance.astype(np.int64) * n + rows.block)
    standing = rows.X[:, 0] - rows.X[:, p]
    order = np.lexsort((standing, source))
    ends = np.searchsorted(source[order], np.arange(sources + 1))
    apart = rows.X[order[ends[1:] - 1]] - rows.X[order[ends[:-1]]]
    return _means(apart, rows.source_block, inner), _means(rows.X, rows.block, inner)


def _means(values: Floats, block: NDArray[Any], w: Floats) -> Floats:
    """Return the inner product of each block's weights with the mean of its rows; of all rows where it has none."""
    n = len(w)
    count = np.bincount(block, minlength=n)
    total = np.stack([np.bincount(block, weights=column, minlength=n) for column in values.T], axis=1)
    mean = np.where(count[:, None] > 0, total / np.maximum(count, 1)[:, None], values.mean(axis=0))
    out: Floats = (mean * w).sum(axis=1)
    return out
