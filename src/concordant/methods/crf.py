"""The CRF: learn whom to believe by climbing the metric that counts, its expectation taken exactly over small draws.

A ranking has an energy that is linear in what experts say about its items; the likeliest ranking sorts them by a
weighted sum. Training draws a few items of an instance, sums over all their orders by dynamic programming, and moves
the weights up the slope of the expected metric. So a few good experts can overrule a wrong majority.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from concordant.base.contract import Tags, Votes
from concordant.base.params import Constraint, boolean, integer, metric_name, number, one_of, optional, seed
from concordant.base.registry import register
from concordant.data.comparisons import Comparisons
from concordant.data.streams import id_hash
from concordant.errors import KindError, ParameterError
from concordant.kernels.lists import Floats, Ints, list_ids
from concordant.methods._linear import (
    TRANSFORMS,
    LinearAggregator,
    Training,
    alternatives,
    candidates,
    start_weights,
)

if TYPE_CHECKING:
    from concordant.data.features import Features
    from concordant.data.labels import Labels
    from concordant.kernels.crf import Aim, Pools, Samples, Slices
    from concordant.ranking.expert_features import ExpertRows

__all__ = ["CRF"]

_RATES = (1.0, 2.0, 5.0, 10.0)
# From strong to weak: what solver="lbfgs" tries where no penalty is given.
_PATH = tuple(float(f"{10.0 ** (-e / 2):.3g}") for e in range(3, 11))
_METRICS = {"ndcg": "ndcg", "err": "err", "map": "ap", "p": "p", "mrr": "rr"}
_KENDALL = "kendall"
# The spread of the weights before the first pass.
_START = 0.01
# Shares of the strongest influence below which experts are tried as useless, where none is given.
_USELESS = (0.05, 0.1, 0.15, 0.2, 0.3)


class _Goal(NamedTuple):
    """The metric to climb: its name in the kernel, its cutoff (0 = none), and what is relevant or the largest label."""

    kernel: str
    cutoff: int
    rel: float
    most: float | None


@cache
def _goal(name: str) -> _Goal | None:
    """Return what the name of a metric means to the kernel, None when it cannot be climbed."""
    from concordant.metrics.ranking import parse_metric

    if name == _KENDALL:
        return _Goal(_KENDALL, 0, 1.0, None)
    try:
        metric = parse_metric(name)
    except ParameterError:
        return None
    kernel = _METRICS.get(metric.name)
    cutoff = getattr(metric, "cutoff", None)
    if kernel is None or (cutoff is not None and kernel not in ("ndcg", "p")):
        return None
    return _Goal(kernel, cutoff or 0, getattr(metric, "rel", None) or 1.0, getattr(metric, "lmax", None))


_GOAL = Constraint(
    "a metric to climb: 'ndcg', 'ndcg@k', 'err', 'map', 'p@k', 'rr' or 'kendall'",
    lambda value: isinstance(value, str) and _goal(value) is not None,
)
_L2 = Constraint("a number >= 0, or 'auto'", lambda v: (isinstance(v, str) and v == "auto") or number(least=0).test(v))


@register
class CRF(LinearAggregator):
    """The weighted sum of what experts say whose order is expected to score best by a metric of your choice.

    score(i) = Σ_k alpha_k [expert k does not list i] + beta+_k row_k(i) / M - beta-_k col_k(i) / M for an instance of M
    items; row_k(i) adds up how strongly k prefers i to the others, col_k(i) how strongly it prefers others to i. An
    order has the energy -Σ score(item at position j) / ln(j + 1), and its probability falls with the energy, so that
    the likeliest order sorts by score. `fit` draws up to `epsilon` items of an instance, at least one of every label,
    sums over all their orders exactly, and moves the weights up the slope of the expected metric.

    Tied items of a list prefer neither. Items that a list leaves out cost nothing but alpha; with missing="below" all
    that is listed is preferred to them by 1. An expert without a list in an instance has no effect there; an instance
    without any preferences is one tie, and an item nobody lists scores Σ alpha. A list of weight 2 says everything
    twice as loud. Instances whose labels are all alike are not learned from.

    Parameters
    ----------
    metric : str
        What is climbed: "ndcg", "ndcg@k", "err", "map", "p@k", "rr", or "kendall" (the share of pairs with different
        labels in the right order). Gains and discounts are the papers'.
    transform : {"binary", "rankdiff", "log"}, "auto", or a tuple of them
        How strongly an item is preferred to one behind it: 1, the difference of their ranks over the largest rank of
        the list, or that of the logarithms. "auto" chooses among the three, a tuple among its entries.
    epsilon : int
        Most items of a draw, 2 to 16; a step costs O(2^epsilon epsilon).
    weights : {"individual", "consensus", "mixed"}
        Whether each expert has weights of its own, all share them, or those with few training lists do. Shared weights
        also serve experts never seen; where "mixed" found nobody to learn them from, they are the mean of the others.
    min_lists : int
        With "mixed", from how many training lists on an expert has its own weights.
    scaling : {"mean", "paper"}
        "paper" leaves out the division by M and divides the energy of a draw of m items by m² instead.
    sums : {"full", "slice"}
        Whether a draw is scored as it will be at prediction, or by sums over the drawn items alone (the paper's way).
    solver : {"sgd", "lbfgs"}
        One instance at a time in random order, or all at once on draws that stay fixed.
    learning_rate : float, "auto", or a tuple of floats
        The step of "sgd"; "auto" chooses among 1, 2, 5 and 10.
    passes : int
        Passes over the training instances; the best one is kept.
    patience : int, optional
        Stop after this many passes without a better value.
    n_samples : int, optional
        Draws per instance and visit; without it 1 for "sgd", 16 for "lbfgs".
    average : float
        Weights are a moving average over passes with this memory; 0 takes those of the pass itself.
    l2 : float or "auto"
        The penalty l2/2 · Σ weight². "auto" chooses along a path from 0.03 to 1e-5 with "lbfgs", and is 0 with "sgd".
    missing : {"unknown", "below"}
        Whether a list says nothing about the items it leaves out, or that they are worse than all it holds.
    unjudged : {"zero", "drop"}
        Whether training items without a label count as labelled 0, or are left out.
    unknown_experts : {"error", "ignore"}
        What to do with experts that have no weights.
    select : str
        The metric by which pass, transform, learning rate and penalty are chosen, in the papers' convention.
    cv : int
        Folds of the cross-validation that chooses where `fit` gets no validation part.
    tol, max_iter : float, int
        When "lbfgs" stops: largest component of the gradient, and steps at most for each penalty.
    warm_start : bool
        Begin with the weights of the previous fit, as far as experts and transform are the same.
    random_state : int
        Seed of the start, the order of visits, the draws and the folds.

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
        Experts that `prune` left out; what they say is not looked at.

    Notes
    -----
    A pass over N instances costs O(N (2^epsilon epsilon + epsilon K)), whatever the size of the instances; prediction
    O(R log M) for R rows. `fit_info_.trace` holds the value of every pass on held-out instances.

    References
    ----------
    Volkovs and Zemel, CRF framework for supervised preference aggregation, CIKM 2013. Volkovs and Zemel, New learning
    methods for supervised and unsupervised preference aggregation, JMLR 2014.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels = cc.synthetic.labelled_runs(40, random_state=1)
    >>> model = cc.CRF(passes=30).fit(runs[:30], labels)
    >>> cc.evaluate(model.predict(runs[30:]), labels, "ndcg@10").mean["ndcg@10"] > 0.7
    True
    """

    name = "crf"
    tags = Tags(
        accepts=frozenset({"rank", "score", "rating", "comparisons"}),
        supervised=True,
        stochastic=True,
        faithful=False,
        cost="O(R log M)",
    )
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "metric": _GOAL,
        "transform": alternatives(one_of(*TRANSFORMS)),
        "epsilon": integer(least=2, most=16),
        "weights": one_of("individual", "consensus", "mixed"),
        "min_lists": integer(least=1),
        "scaling": one_of("mean", "paper"),
        "sums": one_of("full", "slice"),
        "solver": one_of("sgd", "lbfgs"),
        "learning_rate": alternatives(number(above=0)),
        "passes": integer(least=1),
        "patience": optional(integer(least=1)),
        "n_samples": optional(integer(least=1)),
        "average": number(least=0, most=0.999),
        "l2": _L2,
        "missing": one_of("unknown", "below"),
        "unjudged": one_of("zero", "drop"),
        "unknown_experts": one_of("error", "ignore"),
        "select": metric_name(),
        "cv": integer(least=2),
        "tol": number(above=0),
        "max_iter": integer(least=1),
        "warm_start": boolean(),
        "random_state": seed(),
    }

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
        patience: int | None = None,
        n_samples: int | None = None,
        average: float = 0.0,
        l2: float | str = "auto",
        missing: str = "unknown",
        unjudged: str = "zero",
        unknown_experts: str = "error",
        select: str = "ndcg@10",
        cv: int = 5,
        tol: float = 1e-6,
        max_iter: int = 200,
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
        self.patience = patience
        self.n_samples = n_samples
        self.average = average
        self.l2 = l2
        self.missing = missing
        self.unjudged = unjudged
        self.unknown_experts = unknown_experts
        self.select = select
        self.cv = cv
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state

    def _checked(self, preferences: Votes) -> Votes:
        votes = super()._checked(preferences)
        if self.sums == "slice" and isinstance(votes, Comparisons):
            raise KindError("CRF(sums='slice') sums over drawn items of lists. For comparisons take sums='full'.")
        return votes

    def _forget(self) -> None:
        # What the next fit may begin with, by transform.
        before = None
        if self.warm_start and "weights_" in self.__dict__:
            before = (self.transforms_[0], dict(zip(self.experts_, self.weights_, strict=True)))
        super()._forget()
        self._before = before

    def _fit(self, preferences: Votes, labels: Labels | None, validation: Any, features: Features | None) -> None:
        from concordant.base.supervision import match_labels, validation_pair
        from concordant.base.training import train

        votes, name = preferences, type(self).__name__
        before = self.__dict__.pop("_before", None)
        truth = match_labels(votes, labels, name, unjudged=self.unjudged)
        pair = validation_pair(validation, name)
        blocks = self._learnable(votes)
        lesson = _Lesson.of(self, votes, truth.label)
        learners: list[_Climber | _Batch] = []
        for transform in candidates(self.transform, TRANSFORMS):
            rows = self._prepared(votes, pair, blocks, (transform,))
            start = start_weights(blocks.names, 3, self.random_state, _START)
            if before is not None and before[0] == transform:
                for b, expert in enumerate(blocks.names):
                    start[b] = before[1].get(expert, start[b])
            if self.solver == "lbfgs":
                learners.append(_Batch(self, transform, rows, lesson.view(rows.train, transform), start))
                continue
            for rate in candidates(self.learning_rate, _RATES):
                seen = lesson.view(rows.train, transform)
                learners.append(_Climber(self, transform, float(rate), rows, seen, start))
        found = train(
            self,
            learners,
            votes=votes,
            labels=labels,
            truth=truth,
            validation=pair,
            passes=self.passes if self.solver == "sgd" else len(_penalties(self.l2)),
            select=self.select,
            cv=self.cv,
            patience=self.patience,
            random_state=self.random_state,
        )
        best = learners[found.learner]
        if isinstance(best, _Batch):
            self.fit_info_.chosen = {"transform": best.transform, "l2": _penalties(self.l2)[found.passes - 1]}
        self._keep(best.weights(found.parameters), blocks, (best.transform,), best.rows.train)

    def prune(
        self, preferences: Votes, labels: Labels, *, validation: Any = None, threshold: float | None = None
    ) -> Self:
        """Return a new model fitted without the experts that add nothing (the papers' CRF*).

        Parameters
        ----------
        preferences, labels, validation
            As in `fit`.
        threshold : float, optional
            Leave out the experts whose lists, and whose not listing an item, move scores by less than this part of what
            the most influential expert's do. Without it several are tried, and the one whose model does best on the
            held-out instances is taken; where none does as well as this model, nobody is left out.

        Notes
        -----
        What experts named in `pruned_` say is ignored at prediction, without an error.
        """
        blocks = self._blocks()
        held = self.fit_info_.validation
        power = np.maximum(np.abs(self.adherence_), np.abs(np.asarray(self.expert_details_["listed"])))[: blocks.n_own]
        strongest = float(power.max(initial=0.0))
        shares = _USELESS if threshold is None else (threshold,)
        sets = {tuple(self.experts_[b] for b in np.flatnonzero(power < share * strongest).tolist()) for share in shares}
        best: Self | None = None
        for names in sorted(sets, key=len, reverse=True):
            if not names:
                continue
            other = type(self)(**self.get_params())
            pair = None if validation is None else (_without(validation[0], names), validation[1])
            other.fit(_without(preferences, names), labels, validation=pair)
            other.pruned_ = sorted({*self.pruned_, *names})
            value, least = other.fit_info_.validation, held if best is None else best.fit_info_.validation
            wanted = threshold is not None or value is None or least is None or value >= least
            if wanted and (best is None or value is None or least is None or value > least):
                best = other
        if best is not None:
            return best
        again = type(self)(**self.get_params())
        again.fit(preferences, labels, validation=validation)
        again.pruned_ = list(self.pruned_)
        return again


def _without(votes: Votes, names: tuple[str, ...]) -> Votes:
    """Return the votes without what these experts say; instances and items stay."""
    return votes.drop_experts([e for e in names if e in votes.experts.codes])


def _penalties(l2: float | str) -> tuple[float, ...]:
    return _PATH if isinstance(l2, str) else (l2,)


class _Lesson(NamedTuple):
    """What every learner of a fit shares: what may be drawn, what is climbed and where chance comes from."""

    goal: _Goal
    label: Floats
    gain: Floats
    seeds: Any
    owner: CRF

    @classmethod
    def of(cls, owner: CRF, votes: Votes, label: Floats) -> _Lesson:
        from concordant.kernels.crf import gains_of

        goal = _goal(owner.metric)
        if goal is None:
            raise ParameterError.invalid("metric", type(owner).__name__, _GOAL.allowed, owner.metric)
        level = np.maximum(label, 0.0)
        gain = gains_of(goal.kernel, level, votes.slots.offsets, rel=goal.rel, most=goal.most)
        seeds = np.array([id_hash(f"{owner.random_state}:{q}") for q in votes.instances], dtype=np.uint64)
        return cls(goal, label, gain, seeds, owner)

    def view(self, rows: ExpertRows, transform: str) -> _View:
        from concordant.kernels.crf import Aim, Slices, pools_of
        from concordant.kernels.subsets import METRICS

        owner = self.owner
        aim = Aim(METRICS[self.goal.kernel], self.goal.cutoff, self.gain, self.label, owner.scaling == "paper")
        slices = None
        if owner.sums == "slice":
            order = np.lexsort((rows.source, rows.block, list_ids(rows.starts)))
            rows = rows._replace(
                block=rows.block[order], X=rows.X[order], value=rows.value[order], source=rows.source[order]
            )
            below, mean = owner.missing == "below", owner.scaling == "mean"
            slices = Slices(rows.source, rows.value, transform == "binary", below, mean)
        pools = pools_of(rows.offsets, self.label, rows.key)
        return _View(rows, pools, aim, slices, self.seeds)


class _View(NamedTuple):
    """The training rows of one transform, and how draws from them are made and judged."""

    rows: ExpertRows
    pools: Pools
    aim: Aim
    slices: Slices | None
    seeds: Any


class _Climber:
    """Plain stochastic ascent, one instance at a time."""

    def __init__(self, owner: CRF, transform: str, rate: float, rows: Training, view: _View, start: Floats) -> None:
        self.chosen = {"transform": transform, "learning_rate": rate}
        self.transform, self.rows = transform, rows
        self._rate, self._view, self._start = rate, view, start
        self._memory, self._epsilon = owner.average, owner.epsilon
        self._draws, self._l2 = owner.n_samples or 1, 0.0 if isinstance(owner.l2, str) else owner.l2

    def start(self) -> Floats:
        return np.concatenate([self._start.ravel()] * (2 if self._memory else 1))

    def weights(self, parameters: Floats) -> Floats:
        """Return the weights to score with: those of the pass, or their moving average."""
        return parameters[-self._start.size :].reshape(self._start.shape)

    def advance(self, parameters: Floats, instances: Ints, number: int) -> Floats:
        from concordant.kernels.crf import sgd_pass, visit_order

        view, size = self._view, self._start.size
        w = parameters[:size].reshape(self._start.shape).copy()
        value = sgd_pass(
            w,
            visit_order(instances, view.seeds, number),
            view.pools,
            view.seeds,
            number,
            view.rows.starts,
            view.rows.block,
            view.rows.X,
            view.aim,
            epsilon=self._epsilon,
            n_samples=self._draws,
            learning_rate=self._rate,
            l2=self._l2,
            slices=view.slices,
        )
        flat = w.ravel() if np.isfinite(value) else np.full(size, np.nan)
        if not self._memory:
            return flat
        # Before many passes are over, the average is over those there are.
        memory = min(self._memory, number / (number + 1.0))
        return np.concatenate([flat, memory * parameters[size:] + (1.0 - memory) * flat])

    def scores(self, parameters: Floats, part: str, instances: Ints | None) -> Floats:
        return self.rows.scores(self.weights(parameters), part, instances)


class _Batch:
    """All instances at once on fixed draws, by L-BFGS, for one penalty after another."""

    def __init__(self, owner: CRF, transform: str, rows: Training, view: _View, start: Floats) -> None:
        self.chosen = {"transform": transform}
        self.transform, self.rows = transform, rows
        self._view, self._start, self._owner = view, start, owner
        self._path = _penalties(owner.l2)

    def start(self) -> Floats:
        return self._start.ravel().copy()

    def weights(self, parameters: Floats) -> Floats:
        """Return the weights to score with."""
        return parameters.reshape(self._start.shape)

    def advance(self, parameters: Floats, instances: Ints, number: int) -> Floats:
        from scipy.optimize import minimize

        from concordant.kernels.crf import batch_objective

        penalty = self._path[number]
        samples, starts, block, X = self._drawn(instances)

        def loss(flat: Floats) -> tuple[float, Floats]:
            value, slope = batch_objective(self.weights(flat), samples, starts, block, X, self._view.aim)
            n = len(instances)
            return 0.5 * penalty * float(flat @ flat) - value / n, penalty * flat - slope.ravel() / n

        options = {"maxiter": self._owner.max_iter, "maxfun": 20 * self._owner.max_iter, "ftol": 0.0}
        options |= {"gtol": self._owner.tol, "maxcor": 20}
        found = minimize(loss, parameters, jac=True, method="L-BFGS-B", options=options)
        out: Floats = np.asarray(found.x, dtype=np.float64)
        return out

    def _drawn(self, instances: Ints) -> tuple[Samples, Ints, Any, Floats]:
        from concordant.kernels.crf import draw_samples, slice_rows, visit_order

        view, rows = self._view, self._view.rows
        # In an order of its own, so that sums do not depend on that of the input.
        ordered = visit_order(instances, view.seeds, 0)
        draws = self._owner.n_samples or 16
        samples = draw_samples(ordered, view.pools, view.seeds, epsilon=self._owner.epsilon, n_samples=draws)
        if view.slices is None:
            return samples, rows.starts, rows.block, rows.X
        return slice_rows(samples, rows.starts, rows.block, rows.X, view.slices)

    def scores(self, parameters: Floats, part: str, instances: Ints | None) -> Floats:
        return self.rows.scores(self.weights(parameters), part, instances)
