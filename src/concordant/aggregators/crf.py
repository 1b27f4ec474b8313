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
from concordant.data.comparisons import Comparisons
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
_METRICS = {"ndcg": "ndcg", "err": "err", "map": "ap", "p": "p", "mrr": "rr"}
_KENDALL = "kendall"


@cache
def _is_trainable(name: str) -> bool:
    from concordant.metrics.ranking import parse_metric

    try:
        return name.lower() == _KENDALL or parse_metric(name).name in _METRICS
    except ParameterError:
        return False


_METRIC = Constraint(
    "'ndcg', 'err', 'ap', 'rr', 'p@k' or 'kendall', with a cutoff such as 'ndcg@5' or without",
    lambda value: isinstance(value, str) and _is_trainable(value),
)
_L2 = Constraint("'auto' or a number >= 0", lambda v: (isinstance(v, str) and v == "auto") or number(least=0).test(v))


@register_method
class CRF(LinearAggregator):
    """The weighted sum of what experts say whose ranking has the greatest expected metric.

    f(i) = Σ_k alpha_k [expert k does not list i] + beta+_k row_k(i) / M - beta-_k col_k(i) / M for an instance of M
    items; row_k(i) adds up how strongly k prefers i to the others, col_k(i) how strongly it prefers others to i. A
    ranking has probability in proportion to exp(Σ_pos f(item at pos) / ln(pos + 1)), so that the likeliest one sorts by
    f, which is the score. `fit` climbs the expected metric by stochastic ascent: of each instance it draws up to
    `epsilon` items, every label among them, and takes a step along the exact gradient of their expected metric.

    Tied items of a list prefer neither. Items that a list leaves out cost nothing but alpha; with missing="below" all
    that is listed is preferred to them by 1. An expert without a list in an instance has no effect there; an instance
    without any preferences is one tie, and an item nobody lists scores the sum of the alphas, less what it loses with
    missing="below". A list of weight 2 says everything twice as loud. Instances whose items are all worth the same to
    the metric are not learned from.

    Parameters
    ----------
    metric : str
        What is maximised: "ndcg", "err", "ap", "rr", "p@k" or "kendall" (the share of pairs in the right order), with a
        cutoff such as "ndcg@5", or "p(rel=2)@3" with another threshold of relevance than 1.
    transform : {"binary", "rankdiff", "log", "auto"} or a tuple of them
        How strongly an item is preferred to one behind it: 1, the difference of their ranks over the largest rank of
        the list, or that of the logarithms. "auto" chooses among the three, a tuple among its entries.
    epsilon : int
        How many items are drawn, 2 to 16; a step costs O(2^epsilon epsilon).
    weights : {"individual", "consensus", "mixed"}
        Whether each expert has weights of its own, all share them, or those with few training lists do. Shared weights
        also serve experts never seen; where "mixed" found nobody to learn them from, they are the mean of the others.
    min_lists : int
        With "mixed", from how many training lists on an expert has its own weights.
    scaling : {"mean", "paper"}
        "mean" as above. "paper": sums are not divided by M, and the energy of m drawn items is divided by m² instead;
        it asks for other learning rates.
    sums : {"full", "slice"}
        Whether row and col of a drawn item are those of the whole instance, as at prediction, or over the drawn items
        only, as the paper's text has it.
    solver : {"sgd", "lbfgs"}
        Stochastic ascent, or L-BFGS on draws that stay fixed.
    learning_rate : float, "auto" or a tuple of floats
        The rate of a step of solver="sgd". "auto" chooses among 1, 2, 5 and 10 (0.1, 1, 10 and 100 with
        scaling="paper"), a tuple among its entries.
    passes : int
        How often every instance is visited at most.
    n_samples : int, optional
        Draws for each visit, every one a step. None takes 8, and 32 fixed draws for solver="lbfgs".
    balance : bool
        Learn in units in which all columns are spread alike over the items of an instance, so that one learning rate
        suits alpha and beta, short instances and long ones. Needs sums="full".
    l2 : float or "auto"
        The objective loses l2 / 2 · Σ (weight)², in the balanced units. "auto" is 0 for solver="sgd", where the chosen
        pass is what keeps weights small, and a path from strong to weak for "lbfgs".
    missing : {"unknown", "below"}
        Whether a list says nothing about the items it leaves out, or that they are worse than all it holds.
    unjudged : {"zero", "drop"}
        Whether training items without a label count as labelled 0, or are left out.
    unknown_experts : {"error", "ignore"}
        What to do with experts that have no weights.
    select : str
        The metric by which pass, transform and learning rate are chosen, in the papers' convention.
    cv : int
        Folds of the cross-validation that chooses where `fit` gets no validation part.
    patience : int, optional
        Stop after this many passes without a better value.
    smooth : int
        With solver="sgd" a pass is valued by the mean over itself and the passes before it, so many in all.
    warm_start : bool
        Begin with the weights of the last fit for the experts known to it.
    random_state : int
        Seed of the start, the draws and the folds.

    Attributes
    ----------
    experts_ : list of str
        The experts with weights, sorted, then "*" for those who share.
    weights_ : float64[experts, 3]
        alpha, beta+, beta-.
    adherence_ : float64[experts]
        How far an average list of the expert puts its first item above its last, in units of the score; negative where
        it is turned around.
    expert_details_ : dict
        "alpha", "beta_plus", "beta_minus"; "listed", what being listed by the expert adds on average compared with not
        being listed; "meaning", all that in words.
    pruned_ : list of str
        Experts that `prune` removed; their lists are passed over.
    training_ : dict
        What the lists learned from were like: "kind"; "items", the fewest and the most items of an instance; "widest",
        the largest share of these that a list held; and for every expert with weights "length", the number of items of
        its longest list, "rank", its largest rank, and "coverage", the share of the items that it lists on average.

    Notes
    -----
    Prediction is a sum over lists, O(R log m) for R rows in lists of m. A pass costs O(2^epsilon epsilon) and the rows
    of the drawn items for each draw, however large the instances are. The paper's own training is n_samples=1,
    balance=False, smooth=1; sums="slice", scaling="paper" is its text to the letter.

    The weights hold for lists like those learned from. Not being listed meant being below the largest rank D there: in
    a list that goes beyond 1.5 D, what an expert says of an item at rank r > D counts √(D / r), so that the item fades
    into one that is not listed. (D is "rank" / (1 - "coverage"): by leaving an item out, experts who list nearly
    everything say little.) Row and col are those of a list that holds no larger share of the items than the lists
    learned from. A model fitted on the first 20 of each list so answers for 1,000, but one fitted at the depth it is
    asked about does better: a `DataShiftWarning` says so from twice that depth on. Weights learned from comparisons do
    not hold for lists, nor the other way round, which is another such warning.

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

    def _checked(self, preferences: Votes) -> Votes:
        votes = super()._checked(preferences)
        if self.sums == "slice" and isinstance(votes, Comparisons):
            raise KindError("CRF(sums='slice') sums over drawn items of lists. For comparisons take sums='full'.")
        return votes

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
        """Return the metric to climb and the gain of every slot; `highest` is the largest label of all."""
        from concordant.kernels.crf import MetricTarget, metric_gains
        from concordant.kernels.permutation_dp import METRICS
        from concordant.metrics.ranking import parse_metric

        paper = self.scaling == "paper"
        if self.metric.lower() == _KENDALL:
            return MetricTarget(METRICS[_KENDALL], 0, np.zeros(len(label)), label, paper)
        metric = parse_metric(self.metric)
        name, cutoff = _METRICS[metric.name], getattr(metric, "cutoff", None) or 0
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
                "precision, ap and rr tell labels below rel (1) from the others, and p@k asks for more than k items. "
                "Shift the labels, or set rel: metric='ap(rel=2)'."
            )

    def prune(
        self, preferences: Votes, labels: Labels, *, validation: Any = None, threshold: float | None = None
    ) -> Self:
        """Return a new model fitted without the experts whose order says nothing (the papers' CRF*).

        An expert is useless when its lists put their first item above their last, or below, by less than `threshold`
        times what the most influential expert's do (|beta| is about 0), and being listed by it adds nothing (alpha is
        positive). See "weight" and "listed" of `expert_weights_`.

        Parameters
        ----------
        preferences, labels, validation
            As in `fit`.
        threshold : float, optional
            Without it 0.02, 0.05, 0.1 and 0.2 are tried, and nobody at all; the model that does best on the instances
            held out is returned, of equals the one with the fewest experts. So it is never worse there.

        Returns
        -------
        CRF
            With `pruned_` the experts left out, in this model and now; what they say is passed over at prediction.

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


def maximise(
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
        return maximise(total, len(instances), self.path[number], self.task.size, parameters, checkpoint)

    def scores(self, parameters: Floats, part: str, instances: Ints | None) -> Floats:
        return self.task.rows.scores(self.task.weights(parameters), part, instances)
