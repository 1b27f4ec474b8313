"""BoostedTrees: LambdaMART, gradient boosted decision trees for a ranking metric, on expert features and item features.

LightGBM grows the trees. They are stored as arrays; prediction and explanation use Concordant's own kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators._lightgbm import (
    GrowingTrees,
    GrowthSettings,
    TrainingLists,
    joined_trees,
    require_lightgbm,
    split_gains,
)
from concordant.aggregators.listwise import with_gains
from concordant.arrays import Floats, Ints
from concordant.base.contract import Tags, Votes
from concordant.base.params import Constraint, Within, either, integer, metric_name, number, one_of, seed
from concordant.base.registry import register_method
from concordant.data.container import counted
from concordant.data.features import Features
from concordant.data.index import Slots
from concordant.data.preferences import Preferences
from concordant.data.streams import id_hash
from concordant.errors import ConvergenceWarning, DataError, DataWarning, NotFittedError
from concordant.execution import map_instances, report_progress, report_status, without_progress
from concordant.features.expert_features import WeightBlocks
from concordant.features.tree_features import CONSENSUS, N_CONSENSUS, N_OF_EXPERT, tree_features
from concordant.kernels.lists import list_ids, ranges
from concordant.kernels.splitmix64 import hashed
from concordant.kernels.tree_arrays import NAN_IS_ZERO, TreeArrays
from concordant.learning.checkpoints import warn_of_no_checkpoint
from concordant.learning.shift import RECORDED_RANGE, TrainingSummary, check_record
from concordant.learning.supervision import MatchedLabels, ValidationMetric, match_labels
from concordant.learning.training import FEWEST_FOR_VALIDATION, require_selective_metric
from concordant.ranking._canonical_order import CanonicalLists, canonical_lists
from concordant.ranking.design_matrix import map_row_blocks
from concordant.ranking.feature_method import FeatureMethod

if TYPE_CHECKING:
    from concordant.data.labels import Labels

__all__ = ["BoostedTrees"]

# The number of trees if no instance can be held out to choose it.
_TREES_WITHOUT_VALIDATION = 100
# The smallest number of folds, each model holding one out.
_FEWEST_FOLDS = 5
# The longest list that LightGBM accepts.
_LONGEST = 10_000
_RRF_K = 60.0
# The attributes of `TreeArrays`, in its order.
_TREE_ATTRIBUTES = (
    "model_offsets_",
    "tree_offsets_",
    "split_feature_",
    "threshold_",
    "left_",
    "right_",
    "leaf_value_",
    "cover_",
    "unknown_",
)
# Settings by the number of training items: (limit, value), the value for fewer items than the limit.
_LEAVES = ((20_000, 7), (200_000, 15), (np.inf, 31))
_MODELS = ((100_000, 5), (np.inf, 2))
# "xendcg" computes gains as powers of 2, so the number of different labels is limited.
_MOST_LEVELS = 31
_AUTO = one_of("auto")


@register_method
class BoostedTrees(FeatureMethod):
    """LambdaMART: boosted decision trees on features of the experts' lists, or of the items, for a ranking metric.

    Each tree corrects the ranking of the trees before it. It splits the items by one feature at a time, so the score
    can depend on several experts together: "not listed by e1, but among the first ten of e2". LightGBM grows the trees:
    `fit` needs the extra `boost`, prediction does not.

    The input is preferences, `Features`, or both (`features=`). Preferences become columns. Each expert has the
    potentials of the `CRF`, the rank, the rank over the length of the list, 1 over the rank, and the singular vectors
    of `SVDRank`. All experts together have statistics: how many list the item, the sums of their potentials, the mean,
    best, worst and median place, the mean reciprocal rank and the RRF score; each also as a z-score within the
    instance. If an expert does not list an item, its columns are unknown (NaN) for this item, and every split learns
    where unknown values go. Features may be NaN too.

    `fit` grows several models at the same time, each from its own draws of rows and columns. The number of trees is the
    one with the best metric `select` on held-out instances. These are the instances of `validation=`, scored by all
    models; otherwise each model holds out another part of the training instances, by default a fifth, and scores it.
    `fit` stops when `patience` trees brought no improvement. With B models, the score of item i is

        score(i) = (1/B) Σ_b Σ_t v_bt(i)

    where v_bt(i) is the value of the leaf of tree t of model b that item i falls into.

    Estimand: scores that maximise NDCG on instances like the training instances. LambdaMART follows gradients without
    an objective function, so this is an aim and no likelihood.

    Parameters
    ----------
    objective : {"lambdarank", "xendcg"}
        The gradients: "lambdarank", in which each pair of items is weighted by the change of NDCG if the two swap; or
        "xendcg", the cross-entropy of randomised gains. The two err on different instances.
    leaves : int or "auto"
        Leaves of a tree; "auto" is 7 for fewer than 20,000 training items, 15 for fewer than 200,000, and 31 above.
    learning_rate : float
        Factor of every tree.
    trees : int
        The largest number of trees of a model.
    patience : int
        Stop after this many trees without a better value.
    min_items : int or "auto"
        The smallest number of training items in a leaf; "auto" is a fiftieth of them, at least 3 and at most 40.
    l2 : float
        Penalty of the values of the leaves.
    feature_share, item_share : float
        The share of the columns and of the items that are drawn for every tree.
    models : int or "auto"
        Number of models; "auto" is 5 for fewer than 100,000 training items, and 2 above.
    gain : {"exponential", "linear"}
        2^label - 1, or the label; the gain of a negative label is 0.
    max_items : int
        The largest number of items of an instance to learn from, at most 10,000. Of a larger instance at most half of
        these are random items with a gain; the rest are, in equal parts, the best others by RRF and random others.
    unjudged : {"zero", "drop"}
        Whether training items without a label have label 0, or are left out.
    unknown_experts : {"error", "ignore"}
        What `predict` does about experts that were not in the training data.
    select : str
        The metric that selects the number of trees, in the papers' convention.
    random_state : int
        Seed of the draws and of the parts that are held out.

    Attributes
    ----------
    experts_ : list of str
        The experts, sorted.
    feature_names_ : list of str
        The names of the columns, such as "bm25.rank" and "(consensus).rrf".
    importance_ : float64[columns]
        The share of each column in the total gain of the splits, as LightGBM reports it.
    model_offsets_, tree_offsets_ : int64[models + 1], int64[trees + 1]
        Offsets of the trees of every model, and of the nodes of every tree.
    split_feature_, threshold_, left_, right_, leaf_value_, cover_, unknown_ : arrays of nodes
        The nodes: the column that is split (-1 for a leaf), its threshold, the children within the tree, the value of a
        leaf, the number of training items, and where unknown values go (0 right, 1 left, 2 where 0 goes).
    training_ : dict
        With preferences, a summary of the training lists; see `CRF`.

    Notes
    -----
    The result does not depend on the order of rows, items, experts, instances or columns, nor on the number of threads.
    Another version of LightGBM may grow other trees. Cost O(trees × depth) per item.

    The scores of the models are averaged without standardisation, so that explanations add up item by item. Averages of
    z-scores within the instance are no better: on the validation parts of MQ2008-agg NDCG@1 is 0.06 points lower
    (standard error 0.04), NDCG@5 0.01 (0.02) and MAP 0.02 (0.02).

    `explain` splits a score into Shapley values (TreeSHAP), added up by expert. Those of the statistics over all
    experts are shown as "(consensus)".

    A fit is not resumed from a checkpoint: LightGBM cannot continue the random draws of an interrupted fit. Inside
    `checkpoint` a warning says so. Ctrl-C ends the fit and keeps the trees so far.

    Lists deeper than in training are not corrected as those of the `CRF` are; a DataShiftWarning names both depths.

    References
    ----------
    Burges, From RankNet to LambdaRank to LambdaMART: an overview, 2010. Ke et al., LightGBM: a highly efficient
    gradient boosting decision tree, NeurIPS 2017. Bruch, An alternative cross entropy loss for learning-to-rank, WWW
    2021, for "xendcg". Lundberg, Erion and Lee, Consistent individualized feature attribution for tree ensembles, 2018.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels = cc.synthetic.labelled_runs(40, random_state=1)
    >>> model = cc.BoostedTrees(trees=40, models=2).fit(runs[:30], labels)
    >>> cc.evaluate(model.predict(runs[30:]), labels[30:], "ndcg@10").mean["ndcg@10"] > 0.7
    True
    """

    name = "boosted-trees"
    tags = Tags(
        accepts=frozenset({"rank", "score", "rating", "comparisons"}),
        supervised=True,
        stochastic=True,
        faithful=False,
        cost="O(T M)",
    )
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "objective": one_of("lambdarank", "xendcg"),
        "leaves": either(integer(least=2, most=1024), _AUTO),
        "learning_rate": number(above=0, most=1),
        "trees": integer(least=1),
        "patience": integer(least=1),
        "min_items": either(integer(least=1), _AUTO),
        "l2": number(least=0),
        "feature_share": number(above=0, most=1),
        "item_share": number(above=0, most=1),
        "models": either(integer(least=1), _AUTO),
        "gain": one_of("exponential", "linear"),
        "max_items": integer(least=2, most=_LONGEST),
        "unjudged": one_of("zero", "drop"),
        "unknown_experts": one_of("error", "ignore"),
        "select": metric_name(),
        "random_state": seed(),
    }
    _takes_nan = True
    _writes_checkpoints = False

    importance_: Annotated[Floats, Within(least=0)]
    model_offsets_: Annotated[Ints, Within(least=0)]
    tree_offsets_: Annotated[Ints, Within(least=0)]
    split_feature_: Annotated[Ints, Within(least=-1)]
    threshold_: Annotated[Floats, RECORDED_RANGE]
    left_: Annotated[Ints, Within(least=-1)]
    right_: Annotated[Ints, Within(least=-1)]
    leaf_value_: Annotated[Floats, Within()]
    cover_: Annotated[Floats, Within(least=0)]
    unknown_: Annotated[NDArray[np.int8], Within(least=0, most=NAN_IS_ZERO)]

    def __init__(
        self,
        *,
        objective: str = "lambdarank",
        leaves: int | str = "auto",
        learning_rate: float = 0.03,
        trees: int = 1000,
        patience: int = 60,
        min_items: int | str = "auto",
        l2: float = 5.0,
        feature_share: float = 0.3,
        item_share: float = 0.7,
        models: int | str = "auto",
        gain: str = "exponential",
        max_items: int = 2000,
        unjudged: str = "zero",
        unknown_experts: str = "error",
        select: str = "ndcg@10",
        random_state: int = 0,
    ) -> None:
        self.objective = objective
        self.leaves = leaves
        self.learning_rate = learning_rate
        self.trees = trees
        self.patience = patience
        self.min_items = min_items
        self.l2 = l2
        self.feature_share = feature_share
        self.item_share = item_share
        self.models = models
        self.gain = gain
        self.max_items = max_items
        self.unjudged = unjudged
        self.unknown_experts = unknown_experts
        self.select = select
        self.random_state = random_state

    # Prediction.

    def _require_fitted(self) -> None:
        if "split_feature_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)

    def _expert_columns(self, votes: Votes, blocks: WeightBlocks, rows: Ints | None = None) -> tuple[Floats, list[str]]:
        block_of_expert = blocks.block_of_expert(votes, type(self).__name__, self.unknown_experts)
        return tree_features(votes, blocks, block_of_expert, rows)

    def _trees(self) -> TreeArrays:
        return TreeArrays(*(getattr(self, name) for name in _TREE_ATTRIBUTES))

    def _score_matrix(self, X: Floats, slots: Slots | None) -> Floats:
        """Return the mean score of the models for each row."""
        from concordant.kernels.trees import leaf_sums

        trees = self._trees()
        out = np.zeros(len(X))

        def write(block: slice) -> None:
            part, own = np.ascontiguousarray(X[block]), np.empty(len(X[block]))
            for first, last in zip(trees.models[:-1], trees.models[1:], strict=True):
                leaf_sums(part, trees.trees[first : last + 1], *trees[2:7], trees.nan, own)
                out[block] += own

        map_row_blocks(write, len(X), X.shape[1])
        return out / trees.n_models

    def _contributions(
        self, preferences: Any, features: Features | None = None
    ) -> tuple[list[str], Floats, Floats] | None:
        self._require_fitted()
        names, group = self._groups()
        values = self._shapley_values(self._feature_matrix(preferences, features), group, len(names))
        return names, values[:, :-1], values[:, -1]

    def _groups(self) -> tuple[list[str], Ints]:
        """Return the names of the contributions (experts, statistics, features), and the group of each column."""
        experts = self.__dict__.get("experts_", [])
        names = [*experts, *([CONSENSUS] if experts else []), *self.item_features_]
        widths = [N_OF_EXPERT] * len(experts) + [N_CONSENSUS] * bool(experts) + [1] * len(self.item_features_)
        return names, np.repeat(np.arange(len(names)), widths)

    def _shapley_values(self, X: Floats, group: Ints, n_groups: int) -> Floats:
        """Return the Shapley values of every row by group, and in the last column the mean of the trees."""
        from concordant.kernels.trees import add_shapley_values

        trees = self._trees()
        out = np.zeros((len(X), n_groups + 1))

        def write(block: slice) -> None:
            part, own = np.ascontiguousarray(X[block]), np.zeros((len(X[block]), n_groups + 1))
            add_shapley_values(part, *trees[1:], group, own)
            out[block] = own

        map_row_blocks(write, len(X), X.shape[1])
        return out / trees.n_models

    def _check_state(self) -> None:
        if "split_feature_" not in self.__dict__:
            return
        missing = [name for name in _TREE_ATTRIBUTES if name not in self.__dict__]
        columns = len(self.feature_names_)
        if missing or not all(isinstance(name, str) for name in self.feature_names_):
            raise DataError(f"the attributes of this {type(self).__name__} are inconsistent.")
        if fault := self._trees().fault(columns):
            raise DataError(f"{fault}.")
        experts = self.__dict__.get("experts_", [])
        width = N_OF_EXPERT * len(experts) + N_CONSENSUS * bool(experts)
        consistent = (
            columns == width + len(self.item_features_)
            and self.item_features_ == self.feature_names_[width:]
            and self.importance_.shape == (columns,)
            and ("shared_" in self.__dict__) == bool(experts)
            and (not experts or self.shared_ in (-1, len(experts) - 1))
        )
        if not consistent:
            raise DataError(f"the attributes of this {type(self).__name__} are inconsistent.")
        check_record(self)

    # Learning.

    def _fit(self, preferences: Any, labels: Labels | None, validation: Any, features: Features | None) -> None:
        require_lightgbm()
        warn_of_no_checkpoint(self, "LightGBM cannot continue the random draws of an interrupted fit")
        name = type(self).__name__
        truth = match_labels(preferences, labels, name, unjudged=self.unjudged)
        truth, _ = with_gains(truth, preferences, name, self.gain)
        rows = _rows_to_learn(preferences, truth, self.max_items)
        table = self._training_features(preferences, features, rows)
        held = self._validation_features(validation)
        truth = truth._replace(label=truth.label[rows])
        self.fit_info_.labels = truth.counts | {"usable": len(truth.instances)}
        if "experts_" in self.__dict__:
            blocks = WeightBlocks(self.experts_, self.shared_)
            block_of_expert = blocks.block_of_expert(preferences, name, self.unknown_experts)
            self.training_ = TrainingSummary.of(preferences, block_of_expert, len(blocks), truth.instances).record()
        order = canonical_lists(table, truth, False)
        # Shuffled, because LambdaMART starts with all items tied in this order.
        own_list = list_ids(order.lists.offsets)
        shuffled = hashed(order.lists.key[own_list] ^ hashed(np.arange(len(own_list), dtype=np.uint64)))
        rows_in_order = order.rows[np.lexsort((shuffled, own_list))]
        gain, level = _levels(truth, self.gain)
        lists = TrainingLists(table.X[rows_in_order][:, order.columns], level[rows_in_order], gain, order.lists.offsets)
        _require_varying(lists, name)
        if self.objective == "xendcg" and len(gain) > _MOST_LEVELS:
            raise DataError(
                f"{name}(objective='xendcg') takes at most {_MOST_LEVELS} different labels; got {len(gain)}."
            )
        self._grow(lists, order, rows_in_order, table, labels, truth, held)

    def _settings(self, n_items: int) -> GrowthSettings:
        """Return the settings for `n_items` training items."""
        leaves = self.leaves if isinstance(self.leaves, int) else _by_size(n_items, _LEAVES)
        least = self.min_items if isinstance(self.min_items, int) else min(max(n_items // 50, 3), 40)
        return GrowthSettings(
            self.objective, leaves, self.learning_rate, least, self.l2, self.feature_share, self.item_share
        )

    def _grow(
        self,
        lists: TrainingLists,
        order: CanonicalLists,
        rows: Ints,
        table: Features,
        labels: Labels | None,
        truth: MatchedLabels,
        held: tuple[Features, Labels] | None,
    ) -> None:
        """Grow all models tree by tree, and keep the number of trees with the best held-out metric."""
        name, n_lists = type(self).__name__, len(lists.offsets) - 1
        n_models = self.models if isinstance(self.models, int) else _by_size(len(rows), _MODELS)
        held_out = _HeldOutMetric.of(self, table, labels, truth, held, order, n_models)
        if held_out is None:
            self._warn(
                f"{name} learns from {counted(n_lists, 'instance')}, too few to hold any out: it grows "
                f"{min(self.trees, _TREES_WITHOUT_VALIDATION)} trees without validation.",
                DataWarning,
            )
        elif self.trees > 1:
            require_selective_metric(self, held_out.metric, truth, held, self.select)
        settings = self._settings(len(rows))
        limit = self.trees if held_out is not None else min(self.trees, _TREES_WITHOUT_VALIDATION)

        def start(m: int) -> GrowingTrees:
            own, X = (np.arange(n_lists), None) if held_out is None else held_out.split(m, lists, order)
            return GrowingTrees(lists, own, X, settings, id_hash(f"{self.random_state}:{m}") % 2**31)

        with without_progress():
            models = map_instances(start, n_models)
        trace: list[float] = []
        best_trees, value, done = 0, -np.inf, 0
        try:
            while done < limit:
                with without_progress():
                    map_instances(lambda m: models[m].grow(), n_models)
                now = np.nan if held_out is None else held_out.value([model.scores for model in models])
                trace.append(now)
                done += 1
                if held_out is None or now > value:
                    best_trees, value = done, now
                report_progress(done, limit)
                report_status("" if held_out is None else f"{self.select} {value:.4f} at tree {best_trees}")
                if held_out is not None and done - best_trees >= self.patience:
                    break
        except (KeyboardInterrupt, SystemExit) as stop:
            if not best_trees:
                raise
            self.fit_info_.interrupted = f"after tree {done} of {limit}"
            self._interrupt = stop
            self._warn(
                f"{name} was interrupted {self.fit_info_.interrupted}: the trees up to {best_trees} are kept.",
                ConvergenceWarning,
            )
        info = self.fit_info_
        info.n_iter, info.converged = done, not info.interrupted
        if held_out is not None:
            info.trace, info.validation, info.objective = trace, value, value
            info.chosen = {"trees": best_trees}
        grown = [model.trees(model.counts[best_trees - 1]) for model in models]
        for attribute, array in zip(_TREE_ATTRIBUTES, joined_trees(grown, order.columns), strict=True):
            setattr(self, attribute, array)
        self.importance_ = split_gains(grown, order.columns)


class _HeldOutMetric:
    """The held-out instances of each model, and the metric that chooses the number of trees.

    Parameters
    ----------
    metric : ValidationMetric
        The metric of a score for every slot.
    parts : list of int64[]
        For every model, the slots that it scores.
    lists : list of int64[] or None
        For every model the lists that it holds out; None with a validation part.
    X : float64[slots, features]
        The features of all slots.
    """

    def __init__(
        self, metric: ValidationMetric, parts: list[Ints], lists: list[Ints] | None, X: Floats, instances: Ints
    ) -> None:
        self.metric = metric
        self._parts, self._lists, self._X, self._instances = parts, lists, X, instances
        self._times = np.zeros(len(X))
        for part in parts:
            self._times[part] += 1

    @classmethod
    def of(
        cls,
        owner: BoostedTrees,
        table: Features,
        labels: Labels | None,
        truth: MatchedLabels,
        held: tuple[Features, Labels] | None,
        order: CanonicalLists,
        n_models: int,
    ) -> _HeldOutMetric | None:
        """Return the metric on the validation part, or on folds of the training data; None with too few instances."""
        name = type(owner).__name__
        if held is not None:
            metric = ValidationMetric(*held, metric=owner.select, unjudged=owner.unjudged)
            if not len(metric.instances):
                raise DataError(
                    f"{name} cannot choose by the validation part: none of its {len(held[0])} instances has a label. "
                    "Instances are matched by id; leave validation out to hold out a part of the training data."
                )
            return cls(metric, [np.arange(held[0].n_slots)] * n_models, None, held[0].X, metric.instances)
        usable = truth.instances
        if labels is None or len(usable) < FEWEST_FOR_VALIDATION:
            return None
        ids = table.instances
        n_folds = min(max(n_models, _FEWEST_FOLDS), len(usable) // 2)
        drawn = sorted(usable.tolist(), key=lambda n: (id_hash(f"{owner.random_state}:{ids[n]}"), ids[n]))
        folds = [np.sort(np.array(drawn[f::n_folds], dtype=np.int64)) for f in range(n_folds)]
        of_model = [folds[m % n_folds] for m in range(n_models)]
        offsets = table.slots.offsets
        metric = ValidationMetric(table, labels, metric=owner.select, unjudged=owner.unjudged)
        return cls(
            metric,
            [ranges(offsets[fold], offsets[fold + 1]) for fold in of_model],
            [order.list_of[fold] for fold in of_model],
            table.X,
            np.unique(np.concatenate(of_model)),
        )

    def split(self, m: int, lists: TrainingLists, order: CanonicalLists) -> tuple[Ints, Floats]:
        """Return the lists that a model learns from, and the features of the slots that it scores."""
        every = np.arange(len(lists.offsets) - 1)
        own = every if self._lists is None else np.setdiff1d(every, self._lists[m])
        return own, self._X[self._parts[m]][:, order.columns]

    def value(self, scores: list[Floats]) -> float:
        """Return the metric; the score of an instance is the mean over the models that hold it out."""
        total = np.zeros(len(self._X))
        for part, score in zip(self._parts, scores, strict=True):
            total[part] += score
        # Rounded, because the order of the instances changes the last digits of the mean.
        return round(self.metric(total / np.maximum(self._times, 1), self._instances), 12)


def _by_size(n_items: int, steps: tuple[tuple[float, int], ...]) -> int:
    """Return the value of the first step that is above the number of items."""
    return next(value for limit, value in steps if n_items < limit)


def _levels(truth: MatchedLabels, gain: str) -> tuple[Floats, Ints]:
    """Return the distinct gains, ascending and up to a common factor, and the index of the gain of each slot."""
    label = np.maximum(truth.label, 0.0)
    most = float(label.max())
    if gain == "exponential":
        # Relative to the largest label, to avoid overflow.
        worth = np.exp2(label - most) - np.exp2(-most)
    else:
        worth = label / most
    values, level = np.unique(worth, return_inverse=True)
    return values, level.astype(np.int64)


def _rows_to_learn(data: Any, truth: MatchedLabels, max_items: int) -> Ints:
    """Return the labelled slots of the usable instances, at most `max_items` of each."""
    usable = np.zeros(len(data), dtype=np.bool_)
    usable[truth.instances] = True
    instance = data.slots.instance
    kept = usable[instance] & ~np.isnan(truth.label)
    sizes = np.bincount(instance[kept], minlength=len(data))
    large = np.flatnonzero(sizes > max_items)
    if not len(large):
        return np.flatnonzero(kept)
    rrf = np.zeros(data.slots.n_slots)
    if isinstance(data, Preferences):
        weight = np.repeat(data.weights, data.list_lengths)
        rrf = np.bincount(data.slot, weight / (_RRF_K + data.ranks("average")), minlength=data.slots.n_slots)
    for n in large.tolist():
        items = np.flatnonzero(kept & (instance == n))
        random_key = np.array(
            [id_hash(f"{data.instances[n]}\0{data.slots.items[slot]}") for slot in items.tolist()], dtype=np.uint64
        )
        with_gain = truth.label[items] > 0
        # At most half are items with a gain; the rest are, in equal parts, the best others by RRF and random ones.
        first = items[with_gain][np.argsort(random_key[with_gain])][: max(max_items // 2, 1)]
        others_of_instance = np.setdiff1d(items, first)
        by_rrf = others_of_instance[
            np.lexsort((random_key[np.isin(items, others_of_instance)], -np.round(rrf[others_of_instance], 12)))
        ]
        n_others = max_items - len(first)
        best, others = by_rrf[: n_others - n_others // 2], by_rrf[n_others - n_others // 2 :]
        drawn = others[np.argsort(random_key[np.searchsorted(items, others)])][: n_others // 2]
        kept[items] = False
        kept[np.concatenate([first, best, drawn])] = True
    return np.flatnonzero(kept)


def _require_varying(lists: TrainingLists, owner: str) -> None:
    """Raise DataError if no feature differs between two items of one list; unknown values count as equal."""
    inside = np.ones(max(len(lists.X) - 1, 0), dtype=np.bool_)
    inside[lists.offsets[1:-1] - 1] = False
    above, below = lists.X[:-1][inside], lists.X[1:][inside]
    if not ((above != below) & ~(np.isnan(above) & np.isnan(below))).any():
        raise DataError(
            f"{owner} has nothing to learn from: in none of the {len(lists.offsets) - 1} usable instances does "
            "a feature tell two items apart."
        )
