"""Base class of the rankers: learning to rank from features with any loss over graded lists.

A ranker scores items by a linear function of their features, or by a network with one hidden layer, and minimises a
loss over graded lists. A loss is one function of the scores (`losses`). Everything else, from the input to the stopping
rule, is here, so that a new ranker is a few lines.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.base.contract import Tags, Votes
from concordant.base.params import (
    IN_DATA_UNITS,
    Constraint,
    Within,
    boolean,
    integer,
    metric_name,
    number,
    one_of,
    optional,
    seed,
)
from concordant.data.features import Features
from concordant.data.index import Slots
from concordant.data.labels import Labels
from concordant.errors import (
    ConvergenceWarning,
    DataError,
    IdentifiabilityWarning,
    NotFittedError,
)
from concordant.features.expert_features import WeightBlocks, dense_potentials, potentials
from concordant.features.svd_features import dense_triples, singular_triples
from concordant.kernels.graded_lists import GradedLists
from concordant.learning.optimisers import LBFGS, max_norm
from concordant.learning.shift import TrainingSummary, check_record
from concordant.ranking._canonical_order import canonical_lists
from concordant.ranking._objective import Network, RankerLearner, RankerObjective
from concordant.ranking.design_matrix import DenseDesign, DesignMatrix, Scaling, map_row_blocks, row_blocks
from concordant.ranking.feature_method import FeatureMethod
from concordant.ranking.second_order import ProductDesign, SelectedProducts, select_products

if TYPE_CHECKING:
    from concordant.learning.supervision import MatchedLabels

__all__ = ["Ranker"]

_PENALTY = number(least=0)
# Penalties tried by "auto".
_PENALTIES = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.0)
_FOLDS = 5
# Below this fraction of the initial loss the data count as separable: the loss approaches 0 as the weights grow.
_SEPARATED = 1e-6

_COMMON = """hidden : int
        Number of units (tanh) of a hidden layer between the features and the score, 0 for none.
    solver : {"auto", "lbfgs", "sgd", "adam"}
        "lbfgs" uses the gradient over all instances; "sgd" and "adam" take a step for every batch of instances. "auto"
        is the solver that suits the loss.
    l2 : float, "auto", or a tuple of them
        The penalty: l2/2 · Σ weight² is added to the mean loss of an instance. "auto" selects among ten values from 30
        to 0, a tuple among its entries, on the validation data or by cross-validation.
    learning_rate : float or None
        Learning rate of "sgd" and "adam". None is 0.01 for "adam"; for "sgd" it makes the first steps about 0.1 long.
    batch : int
        Instances in a batch of "sgd" and "adam".
    max_iter : int or None
        The largest number of steps of "lbfgs", or of passes of "sgd" and "adam"; None is 2000 steps or 200 passes.
    tol : float
        "lbfgs" stops when a step improves the objective by less than this fraction; "sgd" and "adam" stop when the mean
        of ten passes improves on that of the ten before by less than this fraction.
    patience : int or None
        With validation data or cross-validation, stop after this many passes without a better value.
    standardise : bool
        Whether to centre the features and to scale them to a standard deviation of 1 in the training data.
    second_order : bool
        Whether to replace the features by their pairwise products, squares included.
    min_correlation : float
        Keep only products whose absolute correlation with the label, over all training items, is larger than this.
    max_products : int or None
        Keep at most this many products, those with the largest absolute correlations.
    keep_first : bool
        With second_order, whether to keep the features beside their products.
    nan : {"error", "mean"}
        How to treat features that are NaN: raise an error, or replace them by the training mean (0 if all are NaN).
    expert_features : {"potentials", "svd"}
        The features made from preferences: the potentials of the CRF, or the singular vectors of SVDRank.
    transform : {"log", "rankdiff", "binary", "count"}
        The strength of an expert's preference, as a function of the two ranks.
    missing : {"unknown", "below"}
        Whether a list expresses no preference about the items it leaves out, or ranks them below all that it holds.
    unjudged : {"zero", "drop"}
        Whether training items without a label count as labelled 0, or are left out.
    unknown_experts : {"error", "ignore"}
        How to treat experts that were not in the training data.
    select : str
        The metric that selects passes and penalties, in the papers' convention.
    cv : int or None
        Number of folds of the cross-validation that is used without validation data. None is 5 folds if there are
        several penalties; with a single penalty nothing is held out, and training stops by `tol`.
    random_state : int
        Seed of the hidden layer, the order of instances in "sgd" and "adam", the folds, and of stochastic losses."""

_LEARNED = """feature_names_ : list of str
        The names of the features, in the order of the columns; for preferences, names such as "bm25.preferred".
    coefficients_ : float64[columns] or float64[columns, units]
        The weight of every standardised column: first the features, then the products.
    products_ : int64[products, 2]
        With second_order, the two features of every product.
    product_centre_, product_scale_ : float64[products]
        The standardised product is (product of two standardised features - centre) · scale.
    centre_, scale_ : float64[features]
        The standardised feature is (feature - centre) · scale; the scale of a constant feature is 0.
    mean_ : float64[features]
        The value that replaces NaN.
    bias_, top_ : float64[units]
        With a hidden layer: score = Σ_h top_h tanh(bias_h + columns · weights_h).
    training_ : dict
        With preferences, a summary of the training lists; see `CRF`."""


class Ranker(FeatureMethod):
    """Base class of the rankers; a subclass sets `name` and implements `_loss`.

    There are three forms of input. `Features` with `Labels` give a `Consensus`. Arrays and data frames, with
    `fit(X, y, qid=...)` or `group=[sizes]`, give an array with a score for every row; the rows of an instance need not
    be adjacent. Preferences are converted to features of their experts, so that a ranker aggregates them; `features=`
    adds features of the items.

    Labels are any numbers, larger is better; most losses use only their order. Instances with one item or without a
    label are ignored. Constant features have no effect, infinite ones are an error, and `nan` says how to treat NaN. In
    prediction, features are matched by name, and unknown ones are ignored; an array without names must have as many
    columns as in training.

    The result does not depend on the order of rows, items, instances or columns. If the features separate the labels
    perfectly, some losses have no finite minimum without a penalty; a warning says so.

    Parameters
    ----------
    {common}
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "hidden": integer(least=0),
        "solver": one_of("auto", "lbfgs", "sgd", "adam"),
        "l2": Constraint(
            "a number >= 0, 'auto', or a tuple of numbers >= 0",
            lambda v: (
                v == "auto" or _PENALTY.test(v) or (isinstance(v, tuple) and len(v) > 0 and all(map(_PENALTY.test, v)))
            ),
        ),
        "learning_rate": optional(number(above=0)),
        "batch": integer(least=1),
        "max_iter": optional(integer(least=1)),
        "tol": number(least=0),
        "patience": optional(integer(least=1)),
        "standardise": boolean(),
        "second_order": boolean(),
        "min_correlation": number(least=0, most=1),
        "max_products": optional(integer(least=1)),
        "keep_first": boolean(),
        "nan": one_of("error", "mean"),
        "expert_features": one_of("potentials", "svd"),
        "transform": one_of("log", "rankdiff", "binary", "count"),
        "missing": one_of("unknown", "below"),
        "unjudged": one_of("zero", "drop"),
        "unknown_experts": one_of("error", "ignore"),
        "select": metric_name(),
        "cv": optional(integer(least=2)),
        "random_state": seed(),
    }
    tags = Tags(
        accepts=frozenset({"rank", "score", "rating", "comparisons"}), supervised=True, faithful=False, cost="O(M F)"
    )
    # Number of parameters of the loss itself.
    _n_extra: ClassVar[int] = 0
    # Whether the loss learns from instances whose labels are all equal.
    _ties_tell: ClassVar[bool] = False
    # Whether items of equal label stay in the order of the input.
    _ties_by_input: ClassVar[bool] = False
    # Whether the loss has a finite minimum even if the features separate the labels, as losses with a margin do.
    _has_finite_minimum: ClassVar[bool] = False
    # The solver of "auto".
    _solver: ClassVar[str] = "lbfgs"

    coefficients_: Annotated[Floats, Within()]
    products_: Annotated[Ints, Within(least=0)]
    product_centre_: Annotated[Floats, IN_DATA_UNITS]
    product_scale_: Annotated[Floats, IN_DATA_UNITS._replace(least=0)]
    centre_: Annotated[Floats, IN_DATA_UNITS]
    scale_: Annotated[Floats, IN_DATA_UNITS._replace(least=0)]
    mean_: Annotated[Floats, IN_DATA_UNITS]
    bias_: Annotated[Floats, Within()]
    top_: Annotated[Floats, Within()]
    extra_: Annotated[Floats, Within()]

    def __init__(
        self,
        *,
        hidden: int = 0,
        solver: str = "auto",
        l2: float | str | tuple[float, ...] = 0.0,
        learning_rate: float | None = None,
        batch: int = 1,
        max_iter: int | None = None,
        tol: float = 1e-5,
        patience: int | None = None,
        standardise: bool = True,
        second_order: bool = False,
        min_correlation: float = 0.15,
        max_products: int | None = None,
        keep_first: bool = False,
        nan: str = "error",
        expert_features: str = "potentials",
        transform: str = "log",
        missing: str = "unknown",
        unjudged: str = "zero",
        unknown_experts: str = "error",
        select: str = "ndcg@10",
        cv: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.hidden = hidden
        self.solver = solver
        self.l2 = l2
        self.learning_rate = learning_rate
        self.batch = batch
        self.max_iter = max_iter
        self.tol = tol
        self.patience = patience
        self.standardise = standardise
        self.second_order = second_order
        self.min_correlation = min_correlation
        self.max_products = max_products
        self.keep_first = keep_first
        self.nan = nan
        self.expert_features = expert_features
        self.transform = transform
        self.missing = missing
        self.unjudged = unjudged
        self.unknown_experts = unknown_experts
        self.select = select
        self.cv = cv
        self.random_state = random_state

    def __init_subclass__(cls, **kwargs: Any) -> None:
        own = inspect.signature(cls.__init__).parameters
        if any(p.kind is p.VAR_KEYWORD for p in own.values()):
            # The signature of a subclass with parameters of its own lists the common ones too.
            common = inspect.signature(Ranker.__init__).parameters
            mine = [p for p in own.values() if p.kind is not p.VAR_KEYWORD]
            rest = [p for name, p in common.items() if name not in own]
            cls.__init__.__signature__ = inspect.Signature(mine + rest)  # type: ignore[attr-defined]
        super().__init_subclass__(**kwargs)
        _fill_doc(cls)

    def _loss(self, score: Floats, lists: Any, gradient: Floats, extra: Floats, turn: int) -> tuple[float, Floats]:
        """Return the loss summed over the lists and its gradient with respect to `extra`.

        Write the gradient with respect to the scores to `gradient`. `lists` is the result of `_prepared`; `turn` is the
        number of the pass, for stochastic losses.
        """
        raise TypeError(f"{type(self).__name__} has no loss")

    def _prepared(self, lists: GradedLists) -> Any:
        """Return the lists in the form that `_loss` takes; called once for each set of lists."""
        return lists

    def _require_informative_labels(self, lists: GradedLists) -> None:
        """Raise DataError if the loss is the same for all scores."""

    def _passes(self) -> int:
        """Return the largest number of steps or passes."""
        if self.max_iter is not None:
            return self.max_iter
        return 2000 if self._chosen_solver() == "lbfgs" else 200

    def _chosen_solver(self) -> str:
        return self._solver if self.solver == "auto" else self.solver

    def _require_fitted(self) -> None:
        if "coefficients_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)

    # The input as a matrix.

    @property
    def _takes_nan(self) -> bool:  # type: ignore[override] # a parameter decides it
        return self.nan == "mean"

    def _expert_columns(self, votes: Votes, blocks: WeightBlocks, rows: Ints | None = None) -> tuple[Floats, list[str]]:
        block_of_expert = blocks.block_of_expert(votes, type(self).__name__, self.unknown_experts)
        trained_on = TrainingSummary.from_record(self.__dict__.get("training_"))
        if votes.slots.n_slots == 0:
            # No rows, but the columns of the training data.
            return np.zeros((0, len(self.feature_names_) - len(self.item_features_))), []
        if self.expert_features == "svd":
            svd = dense_triples(
                singular_triples(votes, blocks, block_of_expert, self.transform, 1, self.missing, "mean", trained_on),
                votes.slots,
                blocks,
            )
            return svd.X, svd.names.tolist()
        found = potentials(votes, blocks, block_of_expert, self.transform, missing=self.missing, trained_on=trained_on)
        return dense_potentials(found, blocks)

    # Scores of a matrix.

    def _scaling(self) -> Scaling:
        return Scaling(self.centre_, self.scale_, self.mean_)

    def _design(self, Z: Floats) -> DesignMatrix:
        """Return the design matrix of standardised features."""
        if "products_" not in self.__dict__:
            return DenseDesign(Z)
        keep_first = len(self.coefficients_) > len(self.products_)
        return ProductDesign(Z, self.products_, self.product_centre_, self.product_scale_, keep_first)

    def _score_matrix(self, X: Floats, slots: Slots | None) -> Floats:
        """Return the score of every row; raise DataError if one overflows."""
        net = Network(self.coefficients_, self.bias_, self.top_, self.extra_)
        scaling = self._scaling()
        out = np.empty(len(X))

        def write(block: slice) -> None:
            out[block] = net.scores(self._design(scaling.standardised(X[block])), reproducible=True)

        with np.errstate(over="ignore", invalid="ignore"):
            map_row_blocks(write, len(X), X.shape[1])
        if not np.isfinite(out).all():
            row = int(np.flatnonzero(~np.isfinite(out))[0])
            where = f"row {row}" if slots is None else "item {1!r} of instance {0!r}".format(*slots.where(row))
            raise DataError(
                f"{type(self).__name__} cannot score {where}: its features are so far from those in training that the "
                "score is no longer a number."
            )
        return out

    def _contributions(
        self, preferences: Any, features: Features | None = None
    ) -> tuple[list[str], Floats, Floats] | None:
        self._require_fitted()
        X = self._feature_matrix(preferences, features)
        if self.top_.size or "products_" in self.__dict__:
            return None
        terms = self._scaling().standardised(X) * self.coefficients_
        if "experts_" not in self.__dict__:
            return self.feature_names_, terms, np.zeros(len(X))
        n_experts, width = len(self.experts_), X.shape[1] - len(self.item_features_)
        by_expert = terms[:, :width].reshape(len(X), n_experts, width // max(n_experts, 1)).sum(axis=2)
        names = [*self.experts_, *self.item_features_]
        return names, np.concatenate([by_expert, terms[:, width:]], axis=1), np.zeros(len(X))

    def _check_state(self) -> None:
        if "coefficients_" not in self.__dict__:
            return
        columns, units = len(self.feature_names_), self.top_.size
        pairs = self.products_ if "products_" in self.__dict__ else None
        # With products, the features may be columns too (keep_first).
        widths = [columns] if pairs is None else [len(pairs), len(pairs) + columns]
        checks = [
            self.coefficients_.shape in [(w, units) if units else (w,) for w in widths],
            self.centre_.shape == self.scale_.shape == self.mean_.shape == (columns,),
            self.bias_.shape == self.top_.shape == (units,),
            self.extra_.shape == (self._n_extra,),
            all(isinstance(name, str) for name in self.feature_names_),
            self.item_features_ == self.feature_names_[columns - len(self.item_features_) :],
        ]
        if pairs is not None:
            checks += [
                pairs.dtype == np.int64 and pairs.shape[1:] == (2,) and len(pairs) > 0,
                pairs.size == 0 or (pairs.min() >= 0 and pairs.max() < columns),
                self.product_centre_.shape == self.product_scale_.shape == (len(pairs),),
            ]
        arrays = (self.coefficients_, self.centre_, self.scale_, self.mean_, self.bias_, self.top_, self.extra_)
        checks += [a.dtype == np.float64 for a in arrays]
        # A fit treats columns with a relative deviation below 1e-12 as constant, with the scale 0.
        checks.append(bool((np.abs(self.centre_ * self.scale_) <= 2e12).all()))
        if "experts_" in self.__dict__:
            width = columns - len(self.item_features_)
            per_expert = 4 if self.expert_features == "svd" else 3
            checks += [width == per_expert * len(self.experts_), self.shared_ in (-1, len(self.experts_) - 1)]
        if not all(checks):
            raise DataError(f"the parts of this {type(self).__name__} do not go together.")
        check_record(self)

    # Learning.

    def _fit(self, preferences: Any, labels: Labels | None, validation: Any, features: Features | None) -> None:
        from concordant.learning.supervision import match_labels
        from concordant.learning.training import train

        name = type(self).__name__
        table = self._training_features(preferences, features)
        truth = match_labels(table, labels, name, unjudged=self.unjudged)
        if "experts_" in self.__dict__:
            blocks = WeightBlocks(self.experts_, self.shared_)
            block_of_expert = blocks.block_of_expert(preferences, name, self.unknown_experts)
            self.training_ = TrainingSummary.of(preferences, block_of_expert, len(blocks), truth.instances).record()
        if self._ties_tell:
            truth = _with_ties(truth, table.slots)
        validation_part = self._validation_features(validation)
        order = canonical_lists(table, truth, self._ties_by_input)
        scaling = Scaling.of(table.X, order.rows, self.standardise)
        Z = scaling.standardised(table.X, order.rows, order.columns)
        self._require_varying_features(Z, order.lists)
        self._require_informative_labels(order.lists)
        chosen = self._chosen_products(Z, order.lists.label) if self.second_order else None

        def design(Z: Floats) -> DesignMatrix:
            return DenseDesign(Z) if chosen is None else ProductDesign(Z, *chosen[:3], self.keep_first).materialised()

        objective = RankerObjective(self, design(Z), order.lists, order.list_of)
        validation_design = (
            None if validation_part is None else design(scaling.standardised(validation_part[0].X, None, order.columns))
        )
        penalties = _PENALTIES if self.l2 == "auto" else self.l2 if isinstance(self.l2, tuple) else (self.l2,)
        learners = [
            RankerLearner(
                objective, float(cast(float, l2)), len(penalties) > 1, validation_design, order.rows, table.n_slots
            )
            for l2 in penalties
        ]
        folds = self.cv if self.cv is not None or len(penalties) == 1 else _FOLDS
        found = train(
            self,
            learners,
            votes=table,
            labels=labels,
            truth=truth,
            validation=validation_part,
            passes=self._passes(),
            select=self.select,
            cv=folds,
            patience=self.patience,
            random_state=self.random_state,
        )
        best = learners[found.learner]
        point = best.solver.point(found.parameters)
        self._set_fitted(objective.net(point), scaling, order.columns, chosen)
        value, gradient = objective.value(point, truth.instances, best.l2, found.passes)
        self.fit_info_.objective, self.fit_info_.gradient_norm = value, max_norm(gradient)
        if found.value is None and not self.fit_info_.interrupted:
            self._report_convergence(
                best, found.parameters, value, objective.value(objective.start(), truth.instances, best.l2, 0)[0]
            )

    def _report_convergence(self, learner: RankerLearner, parameters: Floats, value: float, at_start: float) -> None:
        """Set `fit_info_.converged`, and warn if the fit diverged, separated the data, or stopped too early."""
        name, info = type(self).__name__, self.fit_info_
        info.converged = info.converged and learner.finished(parameters)
        if value > at_start:
            info.converged = False
            self._warn(
                f"{name} ended with an objective of {value:.6g}, above the {at_start:.6g} of the start: its steps are "
                "too long. Choose a smaller learning_rate.",
                ConvergenceWarning,
            )
        elif not self._has_finite_minimum and not learner.l2 and value < _SEPARATED * at_start:
            info.converged = False
            self._warn(
                f"{name} has no finite estimate: the features separate the labels perfectly, so that larger weights "
                f"are always better. They were stopped at {np.abs(self.coefficients_).max():.3g}. Set a penalty, such "
                "as l2=0.01.",
                IdentifiabilityWarning,
            )
        elif not info.converged and isinstance(learner.solver, LBFGS):
            # Not for SGD and Adam: their values are noisy, and seldom meet the tolerance within the passes.
            self._warn(
                f"{name} stopped after {info.n_iter} steps before it met tol={self.tol:g}. Raise max_iter, or tol; the "
                "weights found so far are kept.",
                ConvergenceWarning,
            )

    def _set_fitted(self, net: Network, scaling: Scaling, columns: Ints, chosen: SelectedProducts | None) -> None:
        """Set the learned attributes, with columns in the order of `feature_names_`."""
        inverse = np.argsort(columns)
        w = net.w[: len(columns)][inverse] if chosen is None or self.keep_first else net.w[:0]
        if chosen is not None:
            pairs = np.sort(columns[chosen.pairs], axis=1)
            order = np.lexsort((pairs[:, 1], pairs[:, 0]))
            self.products_ = pairs[order]
            self.product_centre_, self.product_scale_ = chosen.centre[order], chosen.scale[order]
            w = np.concatenate([w, net.w[-len(pairs) :][order]])
        self.coefficients_ = w
        self.bias_, self.top_, self.extra_ = (part.copy() for part in net[1:])
        self.centre_, self.scale_, self.mean_ = scaling

    def _require_varying_features(self, Z: Floats, lists: GradedLists) -> None:
        """Raise DataError if no feature differs between two items of one instance."""
        same_list = np.ones(max(len(Z) - 1, 0), dtype=np.bool_)
        same_list[lists.offsets[1:-1] - 1] = False
        for block in row_blocks(len(same_list), Z.shape[1]):
            if (Z[block.start + 1 : block.stop + 1] != Z[block])[same_list[block]].any():
                return
        raise DataError(
            f"{type(self).__name__} has nothing to learn from: in none of the {len(lists.key)} usable instances do the "
            f"{Z.shape[1]} features tell two items apart. They are constant within every instance; check the columns."
        )

    def _chosen_products(self, Z: Floats, label: Floats) -> SelectedProducts:
        with np.errstate(over="ignore", invalid="ignore"):
            chosen = select_products(Z, label, self.min_correlation, self.max_products)
        if not len(chosen.pairs):
            raise DataError(
                f"{type(self).__name__} has no products to learn from: no product of two of the {Z.shape[1]} features "
                f"has a correlation above min_correlation={self.min_correlation:g} with the labels; the largest is "
                f"{chosen.largest:.3f}. Lower min_correlation."
            )
        if self.standardise:
            return chosen
        return chosen._replace(centre=np.zeros_like(chosen.centre), scale=np.ones_like(chosen.scale))


def _fill_doc(cls: type[Ranker]) -> None:
    """Insert the common parameters and attributes into the docstring of a ranker.

    A docstring without a Parameters section gets both sections, before its other ones.
    """
    if not cls.__doc__:
        return
    doc = inspect.cleandoc(cls.__doc__)
    if not re.search(r"^Parameters\n---", doc, re.MULTILINE):
        first, *rest = re.split(r"\n\n(?=\w+\n---)", doc, maxsplit=1)
        doc = "\n\n".join([first, "Parameters\n----------\n{common}", "Attributes\n----------\n{learned}", *rest])
    cls.__doc__ = doc.replace("{common}", inspect.cleandoc(_COMMON)).replace("{learned}", inspect.cleandoc(_LEARNED))


_fill_doc(Ranker)


def _with_ties(truth: MatchedLabels, slots: Slots) -> MatchedLabels:
    """Return the labels with all instances of at least two labelled items as usable, whether labels differ or not."""
    labelled = np.bincount(slots.instance[~np.isnan(truth.label)], minlength=len(slots))
    return truth._replace(instances=np.flatnonzero(labelled > 1))
