"""CRF for supervised preference aggregation: learn the weights of experts by maximising an expected ranking metric.

The energy of a ranking is linear in the potentials of the experts, so the likeliest ranking sorts by a weighted sum.
Training samples a few items of an instance, sums over all their orders by dynamic programming, and follows the gradient
of the expected metric. A few good experts can then outweigh a wrong majority.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from concordant.aggregators._linear import (
    TRANSFORMS,
    LinearAggregator,
    alternatives,
    candidates,
    initial_weights,
)
from concordant.arrays import Floats, Ints
from concordant.base.contract import Tags, Votes
from concordant.base.params import Constraint, boolean, integer, metric_name, number, one_of, optional, seed
from concordant.base.registry import register_method
from concordant.errors import DataError, KindError, ParameterError, Setting
from concordant.execution.blocks import Blocks
from concordant.kernels.lists import list_ids
from concordant.learning.resumable import NO_CHECKPOINT, Checkpointer, minimise

if TYPE_CHECKING:
    from concordant.aggregators._crf_blocks import TransformData
    from concordant.data.features import Features
    from concordant.data.labels import Labels
    from concordant.features.expert_features import WeightBlocks
    from concordant.kernels.crf import MetricTarget

__all__ = ["CRF"]

_RATES, _RATES_PAPER = (1.0, 2.0, 5.0, 10.0), (0.1, 1.0, 10.0, 100.0)
# From strong to weak: what solver="lbfgs" tries where no penalty is given.
_PATH = tuple(float(f"{10.0 ** (-e / 2):.3g}") for e in range(3, 11))
# The spread of the first weights, draws of a visit, fixed draws of an instance, steps of the solver for each penalty.
_START, _DRAWS, FIXED_DRAWS, _MOST_STEPS = 0.01, 8, 32, 200
# How widely columns are spread over items in balanced units; about that of "log" on the papers' data.
_SPREAD = 0.05
# Shares of the strongest influence up to which experts are tried as useless, where none is given.
_USELESS = (0.02, 0.05, 0.1, 0.2)
_KENDALL = "kendall"


@cache
def _is_trainable(name: str) -> bool:
    from concordant.metrics.ranking import parse_metric

    try:
        return name.lower() == _KENDALL or parse_metric(name).objective != ""
    except ParameterError:
        return False


_METRIC = Constraint(
    "'ndcg', 'err', 'ap', 'rr', 'p@k' or 'kendall', with a cutoff such as 'ndcg@5' or without",
    lambda value: isinstance(value, str) and _is_trainable(value),
)
_L2 = Constraint("'auto' or a number >= 0", lambda v: (isinstance(v, str) and v == "auto") or number(least=0).test(v))


@register_method
class CRF(LinearAggregator):
    """Conditional random field: a weighted sum over experts that maximises the expected value of a ranking metric.

    The score of item i in an instance of M items is

        f(i) = Σ_e a_e [expert e does not list i] + g⁺_e row_e(i) / M − g⁻_e col_e(i) / M,

    where row_e(i) is the sum of the strengths with which e prefers i to other items, and col_e(i) that with which it
    prefers other items to i. The probability of a ranking is proportional to exp(Σ_pos f(item at pos) / ln(pos + 1)),
    so that the most probable ranking sorts by f. `fit` maximises the expected metric by stochastic gradient ascent:
    from each instance it draws up to `epsilon` items, with all labels among them, and follows the exact gradient of
    their expected metric.

    A list expresses no preference between tied items, nor about items that it leaves out, which only get a_e; with
    missing="below" it prefers all its items to them, with strength 1. An expert without a list in an instance has no
    effect there. In an instance without preferences all items are tied. An item that nobody lists scores the sum of
    the a_e, minus its losses with missing="below". A list of weight 2 counts twice. Instances whose items all have the
    same gain in the metric are ignored in training.

    Estimand: the weights a, g⁺ and g⁻ with the greatest expected metric on instances like those of training.

    Parameters
    ----------
    metric : str
        The metric to maximise: "ndcg", "err", "ap", "rr", "p@k" or "kendall" (the fraction of pairs in the right
        order). It may have a cutoff, as in "ndcg@5", or a threshold of relevance other than 1, as in "p(rel=2)@3".
    transform : {"binary", "rankdiff", "log", "auto"} or a tuple of them
        The strength of a preference: 1, the difference of the ranks over the largest rank of the list, or the
        difference of the log ranks over the largest log rank. "auto" selects among the three, a tuple among its
        entries.
    epsilon : int
        The number of items to draw, 2 to 16; a step costs O(2^epsilon epsilon).
    weights : {"individual", "consensus", "mixed"}
        Whether each expert has its own weights, all experts share them, or only experts with few training lists share
        them. Shared weights also serve unseen experts. If no expert has few lists, they are the mean of the others.
    min_lists : int
        With "mixed", the smallest number of training lists of an expert with weights of its own.
    scaling : {"mean", "paper"}
        "mean" as above. "paper" does not divide the sums by M, but divides the energy of m drawn items by m²; it needs
        other learning rates.
    sums : {"full", "slice"}
        Whether row and col of a drawn item are sums over the whole instance, as in prediction, or over the drawn items
        only, as in the text of the paper.
    solver : {"sgd", "lbfgs"}
        Stochastic gradient ascent, or L-BFGS on a fixed set of draws.
    learning_rate : float, "auto" or a tuple of floats
        Learning rate of solver="sgd". "auto" selects among 1, 2, 5 and 10 (0.1, 1, 10 and 100 with scaling="paper"), a
        tuple among its entries.
    passes : int
        The largest number of passes over the instances.
    n_samples : int, optional
        The number of draws from an instance in a pass, with a step for each. None is 8, and 32 fixed draws for
        solver="lbfgs".
    balance : bool
        Whether to rescale the columns so that all vary equally over the items of an instance. One learning rate then
        suits a and b, and short and long instances. Needs sums="full".
    l2 : float or "auto"
        The penalty l2 / 2 · Σ (weight)², in the rescaled units. "auto" is 0 for solver="sgd", where early stopping
        keeps the weights small, and a path from strong to weak penalties for "lbfgs".
    missing : {"unknown", "below"}
        Whether a list expresses no preference about the items it leaves out, or ranks them below all that it holds.
    unjudged : {"zero", "drop"}
        Whether training items without a label count as labelled 0, or are left out.
    unknown_experts : {"error", "ignore"}
        How to treat experts without weights.
    select : str
        The metric that selects the pass, the transform and the learning rate, in the papers' convention.
    cv : int
        Number of folds of the cross-validation that is used if `fit` gets no validation data.
    patience : int, optional
        Stop after this many passes without a better value.
    smooth : int
        With solver="sgd" the value of a pass is the mean over the last `smooth` passes.
    warm_start : bool
        Whether to start from the weights of the last fit, for experts that it knew.
    random_state : int
        Seed of the initial weights, the draws and the folds.

    Attributes
    ----------
    experts_ : list of str
        The experts with weights, sorted, then "*" for shared weights.
    weights_ : float64[experts, 3]
        a, g⁺, g⁻.
    adherence_ : float64[experts]
        The mean difference of score between the first and the last item of the expert's lists; negative if the model
        reverses them.
    expert_details_ : dict
        "alpha", "beta_plus", "beta_minus" (a, g⁺, g⁻); "listed", the mean difference of score between an item that the
        expert lists and one that it does not; "meaning", a description in words.
    pruned_ : list of str
        Experts that `prune` removed; their lists are ignored.
    training_ : dict
        Summary of the training lists: "kind"; "items", the smallest and the largest number of items of an instance;
        "widest", the largest coverage of a list (the fraction of the items of its instance that it holds); and for
        every expert with weights "length", the length of its longest list, "rank", its largest rank, and "coverage",
        its mean coverage.

    Notes
    -----
    Prediction is a sum over lists, O(R log m) for R rows in lists of m items. A draw costs O(2^epsilon epsilon) and the
    rows of the drawn items, however large the instance is. The paper trains with n_samples=1, balance=False, smooth=1;
    sums="slice" and scaling="paper" follow its text exactly.

    The weights fit lists like those in training. There, an item that was not listed was below depth D = "rank" /
    (1 - "coverage"). So in a list deeper than 1.5 D, the effect of an item at rank r > D is multiplied by √(D / r): the
    deeper the item, the more it resembles one that is not listed. Row and col are scaled down for lists whose coverage
    is larger than in training. A model fitted on the first 20 items of each list can therefore predict lists of 1,000,
    but one fitted at that depth does better; from twice the training depth on a `DataShiftWarning` says so. Weights
    learned from comparisons do not fit lists, nor the reverse; that gives the same warning.

    References
    ----------
    Volkovs and Zemel, CRF framework for supervised preference aggregation, CIKM 2013; New learning methods for
    supervised and unsupervised preference aggregation, JMLR 2014.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels = cc.synthetic.labelled_runs(40, random_state=1)
    >>> model = cc.CRF(passes=20).fit(runs[:30], labels)
    >>> cc.evaluate(model.predict(runs[30:]), labels[30:], "ndcg@10").mean["ndcg@10"] > 0.7
    True
    """

    name = "crf"
    tags = Tags(
        accepts=frozenset({"rank", "score", "rating", "comparisons"}),
        supervised=True,
        stochastic=True,
        faithful=False,
        blocks=True,
        cost="O(R log m)",
    )
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "metric": _METRIC,
        "transform": alternatives(one_of(*TRANSFORMS)),
        "epsilon": integer(least=2, most=16),
        "weights": one_of("individual", "consensus", "mixed"),
        "min_lists": integer(least=1),
        "scaling": one_of("mean", "paper"),
        "sums": one_of("full", "slice"),
        "solver": one_of("sgd", "lbfgs"),
        "learning_rate": alternatives(number(above=0)),
        "passes": integer(least=1),
        "n_samples": optional(integer(least=1)),
        "balance": boolean(),
        "l2": _L2,
        "missing": one_of("unknown", "below"),
        "unjudged": one_of("zero", "drop"),
        "unknown_experts": one_of("error", "ignore"),
        "select": metric_name(),
        "cv": integer(least=2),
        "patience": optional(integer(least=1)),
        "smooth": integer(least=1),
        "warm_start": boolean(),
        "random_state": seed(),
    }

    _before: tuple[list[str], Floats] | None = None

    def __init__(
        self,
        *,
        metric: str = "ndcg",
        transform: str | tuple[str, ...] = "log",
        epsilon: int = 6,
        weights: str = "individual",
        min_lists: int = 10,
        scaling: str = "mean",
        sums: str = "full",
        solver: str = "sgd",
        learning_rate: float | str | tuple[float, ...] = 5.0,
        passes: int = 300,
        n_samples: int | None = None,
        balance: bool = True,
        l2: float | str = "auto",
        missing: str = "unknown",
        unjudged: str = "zero",
        unknown_experts: str = "error",
        select: str = "ndcg@10",
        cv: int = 5,
        patience: int | None = None,
        smooth: int = 30,
        warm_start: bool = False,
        random_state: int = 0,
    ) -> None:
        self.metric = metric
        self.transform = transform
        self.epsilon = epsilon
        self.weights = weights
        self.min_lists = min_lists
        self.scaling = scaling
        self.sums = sums
        self.solver = solver
        self.learning_rate = learning_rate
        self.passes = passes
        self.n_samples = n_samples
        self.balance = balance
        self.l2 = l2
        self.missing = missing
        self.unjudged = unjudged
        self.unknown_experts = unknown_experts
        self.select = select
        self.cv = cv
        self.patience = patience
        self.smooth = smooth
        self.warm_start = warm_start
        self.random_state = random_state

    def _check_kind(self, kind: str) -> None:
        super()._check_kind(kind)
        if self.sums == "slice" and kind == "comparisons":
            raise KindError("CRF(sums='slice') sums over drawn items of lists. For comparisons take sums='full'.")

    def _reset(self) -> None:
        kept = (self.experts_, self.weights_) if self.warm_start and "weights_" in self.__dict__ else None
        super()._reset()
        if kept is not None:
            self._before = kept

    def _fit(self, preferences: Any, labels: Labels | None, validation: Any, features: Features | None) -> None:
        from concordant.aggregators import _crf_blocks as parted
        from concordant.learning.supervision import validation_pair
        from concordant.learning.training import train

        before = self.__dict__.pop("_before", None)
        pair = validation_pair(validation, type(self).__name__)
        prepare = parted.from_blocks if isinstance(preferences, Blocks) else parted.from_memory
        truth, tasks = prepare(self, preferences, labels, pair)
        learners: list[_SGDLearner | _LBFGSLearner] = []
        for task in tasks:
            first = self._first(task.rows.blocks, before) / task.unit
            if self.solver == "lbfgs":
                learners.append(_LBFGSLearner(self, task, first))
                continue
            rates = _RATES if self.scaling == "mean" else _RATES_PAPER
            learners += [_SGDLearner(self, task, first, rate) for rate in candidates(self.learning_rate, rates)]
        found = train(
            self,
            learners,
            votes=preferences,
            labels=labels,
            truth=truth,
            validation=pair,
            passes=self.passes if self.solver == "sgd" else len(learners[0].path),
            select=self.select,
            cv=self.cv,
            patience=self.patience,
            smooth=self.smooth if self.solver == "sgd" else 1,
            random_state=self.random_state,
        )
        best = learners[found.learner]
        if self.solver == "lbfgs":
            self.fit_info_.chosen |= {"l2": best.path[found.passes - 1]}
        task = best.task
        self._set_fitted(task.weights(found.parameters), (task.transform,), task.rows, task.totals())

    def _blocks_obstacle(self) -> str:
        from concordant.aggregators._crf_blocks import BLOCKS_NEED

        return "" if self.solver == "lbfgs" and self.sums == "full" else BLOCKS_NEED

    def _first(self, blocks: WeightBlocks, before: tuple[list[str], Floats] | None) -> Floats:
        """Return the weights a fit begins with."""
        w = initial_weights(blocks.names, 3, self.random_state, _START)
        if before is not None:
            known = dict(zip(before[0], before[1], strict=True))
            for b, expert in enumerate(blocks.names):
                w[b] = known.get(expert, w[b])
        return w

    def _metric_target(self, label: Floats, offsets: Ints, highest: float | None = None) -> MetricTarget:
        """Return the metric to maximise and the gain of every slot; `highest` is the largest label of all."""
        from concordant.kernels.crf import MetricTarget, metric_gains
        from concordant.kernels.permutation_dp import METRICS
        from concordant.metrics.ranking import parse_metric

        paper = self.scaling == "paper"
        if self.metric.lower() == _KENDALL:
            return MetricTarget(METRICS[_KENDALL], 0, np.zeros(len(label)), label, paper)
        metric = parse_metric(self.metric)
        name, cutoff = metric.objective, getattr(metric, "cutoff", None) or 0
        if name == "p" and not 0 < cutoff < self.epsilon:
            raise ParameterError(
                f"CRF(metric={self.metric!r}, epsilon={self.epsilon}): precision over all drawn items is the same for "
                f"every order. Give it a cutoff below epsilon, such as metric='p@{max(1, self.epsilon // 2)}'."
            )
        # A label below 0 is worth no less than 0 to any metric.
        worth = np.maximum(label, 0.0)
        most = getattr(metric, "lmax", None)
        if most is not None:
            most = max(most, float(np.nanmax(worth)) if highest is None else highest)
        gain = metric_gains(name, worth, offsets, rel=getattr(metric, "rel", None) or 1.0, most=most)
        return MetricTarget(METRICS[name], cutoff, gain, label, paper)

    def _informative(self, target: MetricTarget, usable: Ints, offsets: Ints) -> Ints:
        """Return the usable instances in which one order can be better than another."""
        from concordant.kernels.permutation_dp import METRICS

        if self.metric.lower() == _KENDALL:
            return usable
        used = ~np.isnan(target.label)
        instance = list_ids(offsets)[used]
        high, low = np.full(len(offsets) - 1, -np.inf), np.full(len(offsets) - 1, np.inf)
        np.maximum.at(high, instance, target.gain[used])
        np.minimum.at(low, instance, target.gain[used])
        differ = high > low
        if target.metric == METRICS["p"]:
            # Where all items are above the cutoff, their order makes no difference.
            differ &= np.bincount(instance, minlength=len(differ)) > target.cutoff
        return usable[differ[usable]]

    def _require_informative(self, n_informative: int, n_usable: int) -> None:
        if not n_informative:
            raise DataError(
                f"CRF found no usable label: in none of {n_usable} instances with different labels do items differ "
                f"in what they are worth to {self.metric!r}. Labels of 0 and below are worth nothing to ndcg and err; "
                "precision, ap and rr tell labels below rel (1) from the others, and p@k needs more than k items. "
                "Shift the labels, or set rel: metric='ap(rel=2)'."
            )

    def prune(
        self, preferences: Votes, labels: Labels, *, validation: Any = None, threshold: float | None = None
    ) -> Self:
        """Return a new model fitted without uninformative experts (the papers' CRF*).

        An expert is uninformative if its adherence is at most `threshold` times the largest one, in absolute values
        (|beta| is about 0), and an item gains nothing by being on its lists (alpha is positive). See "weight" and
        "listed" of `expert_weights_`.

        Parameters
        ----------
        preferences, labels, validation
            As in `fit`.
        threshold : float, optional
            By default 0.02, 0.05, 0.1, 0.2 and no pruning are tried. The model with the best value on held-out
            instances is returned; among equal ones, that with the fewest experts.

        Returns
        -------
        CRF
            `pruned_` names the experts removed now or before; prediction ignores their lists.

        Examples
        --------
        >>> import concordant as cc
        >>> runs, labels = cc.synthetic.labelled_runs(40, random_state=1)
        >>> model = cc.CRF(passes=20).fit(runs[:30], labels)
        >>> star = model.prune(runs[:30], labels)
        >>> star.fit_info_.validation >= model.fit_info_.validation
        True
        """
        if self._blocks().n_own == 0:
            individual = Setting("weights", "individual")
            raise ParameterError(
                f"nobody has weights of its own in CRF(weights={self.weights!r}), so that nobody can be told useless. "
                f"Fit with {individual} or 'mixed'."
            ).advising(individual)
        if threshold is not None and not number(least=0).test(threshold):
            raise ParameterError.invalid("threshold", "CRF.prune", "a number >= 0, or None", threshold)
        groups = {self._useless(share) for share in (_USELESS if threshold is None else (threshold,))}
        if threshold is None:
            groups.add(())
        models = [self._fitted_without(names, preferences, labels, validation) for names in sorted(groups, key=len)]
        # Of equals the last one, which has the fewest experts; nothing held out, nothing to prefer.
        return max(reversed(models), key=lambda m: m.fit_info_.validation or 0.0)

    def _useless(self, share: float) -> tuple[str, ...]:
        """Return the experts whose order moves scores by less than this share, and whose listing adds nothing."""
        own = self._blocks().n_own
        power, listed = np.abs(self.adherence_[:own]), np.asarray(self.expert_details_["listed"])[:own]
        found = np.flatnonzero((power <= share * power.max()) & (listed <= 0))
        # Somebody has to stay.
        return tuple(self.experts_[b] for b in found.tolist()) if len(found) < len(self.experts_) else ()

    def _fitted_without(self, names: tuple[str, ...], preferences: Votes, labels: Labels, validation: Any) -> Self:
        """Return a new model of the same parameters fitted without what these experts and those left out before say."""
        gone = sorted({*self.pruned_, *names})
        out = type(self)(**self.get_params())
        pair = validation
        if isinstance(validation, tuple) and len(validation) == 2 and hasattr(validation[0], "drop_experts"):
            pair = (_without(validation[0], gone), validation[1])
        out.fit(_without(preferences, gone), labels, validation=pair)
        out.pruned_ = gone
        return out


def _without(votes: Votes, names: Sequence[str]) -> Votes:
    """Return the votes without what these experts say; instances and items stay."""
    return votes.drop_experts([e for e in names if e in votes.experts.codes])


def learning_units(variance: Floats, owner: CRF) -> tuple[Floats, float]:
    """Return the units the columns are learned in, given their variances in every block, and how far they spread then.

    In a full batch both are rounded to seven digits, so that the last bits of the variances, which depend on the order
    they were added up in, make no difference.
    """

    def seven(value: float) -> float:
        return float(f"{value:.7g}") if owner.solver == "lbfgs" else value

    spread = np.sqrt(variance.mean(axis=0))
    beta = float(np.sqrt(spread[1] * spread[2]))
    if owner.sums == "slice" or not owner.balance or spread[0] <= 0 or beta <= 0:
        return np.ones(3), seven(beta) or 1.0
    return np.array([seven(_SPREAD / s) for s in (float(spread[0]), beta, beta)]), _SPREAD


def penalty_path(owner: CRF, size: float) -> tuple[float, ...]:
    """Return the penalties to try, those of weights that are worth as much as they move scores."""
    return tuple(l2 * size**2 for l2 in _PATH) if isinstance(owner.l2, str) else (float(owner.l2),)


def maximise_penalised(
    total: Callable[[Floats], tuple[float, Floats]],
    n: int,
    l2: float,
    size: float,
    start: Floats,
    checkpoint: Checkpointer = NO_CHECKPOINT,
) -> Floats:
    """Return the parameters that maximise the mean of a sum over n instances less the penalty."""

    def objective(scaled: Floats) -> tuple[float, Floats]:
        # In these units the weights of all columns are about as large, which is what the solver's first step assumes.
        w = scaled / size
        value, gradient = total(w.reshape(-1, 3))
        return 0.5 * l2 * float(w @ w) - value / n, (l2 * w - gradient.ravel() / n) / size

    options = {"maxiter": _MOST_STEPS, "ftol": 1e-10, "gtol": 1e-7, "maxcor": 20}
    return minimise(objective, start * size, options=options, checkpoint=checkpoint).x / size


class _SGDLearner:
    """Stochastic ascent at one rate."""

    path: tuple[float, ...] = ()

    def __init__(self, owner: CRF, task: TransformData, first: Floats, rate: float) -> None:
        self.chosen = {"transform": task.transform, "learning_rate": rate}
        self.task = task
        (self._block,) = task.blocks
        self._owner = owner
        self._first = first
        self._rate = rate

    def start(self) -> Floats:
        return self._first.ravel().copy()

    def advance(self, parameters: Floats, instances: Ints, number: int) -> Floats:
        from concordant.kernels.crf import sgd_pass, visit_order

        block, owner, own = self._block, self._owner, self._block.own
        draws = owner.n_samples or _DRAWS
        w = parameters.reshape(-1, 3).copy()
        sgd_pass(
            w,
            visit_order(instances, block.seeds, number),
            block.pools,
            block.seeds,
            number,
            own.starts,
            own.block,
            own.X,
            block.target,
            epsilon=owner.epsilon,
            n_samples=draws,
            learning_rate=self._rate * draws,
            l2=0.0 if isinstance(owner.l2, str) else owner.l2,
            slices=block.slices,
        )
        return w.ravel()

    def scores(self, parameters: Floats, part: str, instances: Ints | None) -> Floats:
        return self.task.rows.scores(self.task.weights(parameters), part, instances)


class _LBFGSLearner:
    """The full batch, on draws that stay: pass by pass the next weaker penalty, from where the last one ended."""

    def __init__(self, owner: CRF, task: TransformData, first: Floats) -> None:
        self.chosen: dict[str, Any] = {"transform": task.transform}
        self.task = task
        self.path = penalty_path(owner, task.size)
        self._owner = owner
        self._first = first

    def start(self) -> Floats:
        return self._first.ravel().copy()

    def advance(self, parameters: Floats, instances: Ints, number: int) -> Floats:
        return self.advance_in_steps(parameters, instances, number, NO_CHECKPOINT)

    def advance_in_steps(self, parameters: Floats, instances: Ints, number: int, checkpoint: Checkpointer) -> Floats:
        total = self.task.objective(self._owner, instances)
        return maximise_penalised(total, len(instances), self.path[number], self.task.size, parameters, checkpoint)

    def scores(self, parameters: Floats, part: str, instances: Ints | None) -> Floats:
        return self.task.rows.scores(self.task.weights(parameters), part, instances)
