"""ListwiseLinear: learn the weights of experts by softmax cross-entropy (ListNet), a convex problem with one optimum.

The scores are those of the CRF. The loss compares a softmax of the scores of an instance with the gains of its labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from concordant.aggregators._linear import (
    TRANSFORMS,
    ExpertTotals,
    LinearAggregator,
    TrainingRows,
    alternatives,
    candidates,
    canonical_rows,
    sorted_by_id,
)
from concordant.arrays import Codes, Floats, Ints, read_only
from concordant.base.contract import Tags, Votes
from concordant.base.params import Constraint, integer, metric_name, number, one_of, seed
from concordant.base.registry import register_method
from concordant.data.index import Texts
from concordant.errors import ConvergenceWarning, DataError
from concordant.kernels.lists import list_ids
from concordant.learning.newton import NewtonState, NewtonStep, maximise
from concordant.learning.optimisers import max_norm
from concordant.learning.resumable import minimise

if TYPE_CHECKING:
    from concordant.data.features import Features
    from concordant.data.labels import Labels
    from concordant.features.expert_features import ExpertRows
    from concordant.learning.supervision import MatchedLabels

__all__ = ["ListwiseLinear"]

# From strong to weak; weights are in units of a column's spread, losses in nats per instance.
_PATH = tuple(float(f"{10.0 ** (-e / 2):.3g}") for e in range(-4, 9))
# Stop after this many successive penalties without a better value.
_PATIENCE = 5
# The penalty if no instances can be held out to select one.
_MIDDLE = 0.1
# Up to this many weights Newton's method takes less time than L-BFGS.
_NEWTON = 512


def _joined(value: Any) -> bool:
    parts = value.split("+") if isinstance(value, str) else []
    return bool(parts) and all(p in TRANSFORMS for p in parts) and len(set(parts)) == len(parts)


_TRANSFORM = Constraint("'binary', 'rankdiff', 'log' or several joined by '+'", _joined)
_L2 = Constraint("'auto' or a number > 0", lambda v: (isinstance(v, str) and v == "auto") or number(above=0).test(v))


@register_method
class ListwiseLinear(LinearAggregator):
    """Listwise softmax regression (ListNet): a weighted sum over experts whose softmax is closest to the label gains.

    The score is that of the `CRF`, which treats ties, missing items and list weights in the same way:

        score(i) = Σ_e a_e [expert e does not list i] + g⁺_e row_e(i) / M − g⁻_e col_e(i) / M.

    `fit` minimises the mean over instances of -Σ_i t_i ln softmax(score)_i, plus l2/2 · Σ (weight · spread)², where t_i
    is the gain of the label over the sum of all gains. The spread of a column (a, g⁺, g⁻) is its standard
    deviation within instances, so that one penalty suits all columns. The problem is convex: the result does not depend
    on a starting point. Instances without a positive gain are ignored in training.

    Estimand: the weights a, g⁺ and g⁻ under which the softmax of the scores is closest to the items' shares of the
    gain, on average over instances like those of training.

    Parameters
    ----------
    transform : str, "auto", or a tuple of them
        The strength of a preference: "binary" 1, "rankdiff" the difference of the ranks over the largest rank of the
        list, "log" the difference of the log ranks over the largest log rank. "log+binary" gives every expert weights
        for both. "auto" selects among the three, a tuple among its entries.
    l2 : float or "auto"
        The penalty; "auto" selects along a path from 100 to 1e-4.
    weights : {"individual", "consensus", "mixed"}
        Whether each expert has its own weights, all experts share them, or only experts with few training lists share
        them. Shared weights also serve unseen experts. If no expert has few lists, they are the mean of the others.
    min_lists : int
        With "mixed", the smallest number of training lists of an expert with weights of its own.
    gain : {"exponential", "linear"}
        2^label - 1, or the label; the gain of a negative label is 0.
    missing : {"unknown", "below"}
        Whether a list expresses no preference about the items it leaves out, or ranks them below all that it holds.
    unjudged : {"zero", "drop"}
        Whether training items without a label count as labelled 0, or are left out.
    unknown_experts : {"error", "ignore"}
        How to treat experts without weights.
    select : str
        The metric that selects the penalty and the transform, in the papers' convention.
    cv : int
        Number of folds of the cross-validation that is used if `fit` gets no validation data.
    solver : {"auto", "newton", "lbfgs"}
        "auto" is Newton's method for up to 512 weights, and L-BFGS beyond.
    tol : float
        Stop when the largest component of the gradient, with respect to the scaled weights, is at most this.
    max_iter : int
        The largest number of steps of the solver for each penalty.
    random_state : int
        Seed of the folds; nothing else is random.

    Attributes
    ----------
    experts_ : list of str
        The experts with weights, sorted, then "*" for shared weights.
    weights_ : float64[experts, 3]
        a, g⁺, g⁻; two more columns for each further transform.
    adherence_ : float64[experts]
        The mean difference of score between the first and the last item of the expert's lists; negative if the model
        reverses them.
    expert_details_ : dict
        "alpha", "beta_plus", "beta_minus" (a, g⁺, g⁻); "listed", the mean difference of score between an item that the
        expert lists and one that it does not; "meaning", a description in words.
    training_ : dict
        Summary of the training lists; see `CRF`, whose notes on longer lists also apply here.

    Notes
    -----
    Cost O(R) per evaluation over R rows, and O(R K) for a Newton step if K experts list an item. `fit_info_.objective`
    is the penalised loss and `gradient_norm` the largest component of its gradient.

    References
    ----------
    Cao, Qin, Liu, Tsai and Li, Learning to rank: from pairwise approach to listwise approach, ICML 2007. Volkovs and
    Zemel, CRF framework for supervised preference aggregation, CIKM 2013, for the potentials.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels = cc.synthetic.labelled_runs(40, random_state=1)
    >>> model = cc.ListwiseLinear().fit(runs[:30], labels)
    >>> model.fit_info_.chosen["transform"]
    'log'
    >>> cc.evaluate(model.predict(runs[30:]), labels[30:], "ndcg@10").mean["ndcg@10"] > 0.7
    True
    """

    name = "listwise-linear"
    tags = Tags(
        accepts=frozenset({"rank", "score", "rating", "comparisons"}), supervised=True, faithful=False, cost="O(R)"
    )
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "transform": alternatives(_TRANSFORM),
        "l2": _L2,
        "weights": one_of("individual", "consensus", "mixed"),
        "min_lists": integer(least=1),
        "gain": one_of("exponential", "linear"),
        "missing": one_of("unknown", "below"),
        "unjudged": one_of("zero", "drop"),
        "unknown_experts": one_of("error", "ignore"),
        "select": metric_name(),
        "cv": integer(least=2),
        "solver": one_of("auto", "newton", "lbfgs"),
        "tol": number(above=0),
        "max_iter": integer(least=1),
        "random_state": seed(),
    }

    def __init__(
        self,
        *,
        transform: str | tuple[str, ...] = "log",
        l2: float | str = "auto",
        weights: str = "individual",
        min_lists: int = 10,
        gain: str = "exponential",
        missing: str = "unknown",
        unjudged: str = "zero",
        unknown_experts: str = "error",
        select: str = "ndcg@10",
        cv: int = 5,
        solver: str = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
        random_state: int = 0,
    ) -> None:
        self.transform = transform
        self.l2 = l2
        self.weights = weights
        self.min_lists = min_lists
        self.gain = gain
        self.missing = missing
        self.unjudged = unjudged
        self.unknown_experts = unknown_experts
        self.select = select
        self.cv = cv
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit(self, preferences: Votes, labels: Labels | None, validation: Any, features: Features | None) -> None:
        from concordant.learning.supervision import check_distinguishable, match_labels, validation_pair
        from concordant.learning.training import FEWEST_FOR_VALIDATION, train

        votes = preferences
        truth = match_labels(votes, labels, type(self).__name__, unjudged=self.unjudged)
        truth, target = with_gains(truth, votes, type(self).__name__, self.gain)
        pair = validation_pair(validation, type(self).__name__)
        blocks = self._blocks_to_learn(votes)
        path = (self.l2,) if not isinstance(self.l2, str) else _PATH
        if isinstance(self.l2, str) and pair is None and len(truth.instances) < FEWEST_FOR_VALIDATION:
            path = (_MIDDLE,)
        learners = []
        for transform in candidates(self.transform, TRANSFORMS):
            rows = self._training_rows(votes, pair, blocks, transform.split("+"), truth.instances)
            check_distinguishable(rows.train.key, truth, votes, type(self).__name__)
            problem = _ListwiseLoss.of(rows.train, truth.label, target, truth.instances, votes.instances, len(blocks))
            learners.append(_PenaltyPathLearner(self, transform, rows, problem, path))
        found = train(
            self,
            learners,
            votes=votes,
            labels=labels,
            truth=truth,
            validation=pair,
            passes=len(path),
            select=self.select,
            cv=self.cv,
            patience=_PATIENCE,
            random_state=self.random_state,
        )
        best = learners[found.learner]
        penalty = path[found.passes - 1]
        # A pass of the training loop is a penalty of the path.
        self.fit_info_.chosen.pop("passes", None)
        self.fit_info_.chosen |= {"l2": penalty}
        value, gradient = best.problem.value(found.parameters, penalty, best.problem.sorted(truth.instances))
        self.fit_info_.objective, self.fit_info_.gradient_norm = value, max_norm(gradient)
        if self.fit_info_.gradient_norm > self.tol:
            self.fit_info_.converged = False
            self._warn(
                f"ListwiseLinear stopped with a gradient of {self.fit_info_.gradient_norm:.1e}, above "
                f"tol={self.tol:g}. Raise max_iter or tol; the weights found so far are kept.",
                ConvergenceWarning,
            )
        w = best.weights(found.parameters)
        self._set_fitted(w, best.transform.split("+"), best.rows, ExpertTotals.of(best.rows.train, len(w)))


def with_gains(
    truth: MatchedLabels, votes: Votes, owner: str, gain: str = "exponential"
) -> tuple[MatchedLabels, Floats]:
    """Return the labels with only the instances of positive gain as usable, and the target share of every slot."""
    target = gain_shares(truth.label, votes.slots.offsets, gain)
    found = np.bincount(votes.slots.instance, weights=np.nan_to_num(target), minlength=len(votes)) > 0
    usable = truth.instances[found[truth.instances]]
    if not len(usable):
        raise DataError(
            f"{owner} found no usable label: none of them is positive, and what is labelled 0 or less gains nothing. "
            "Larger labels are better; shift them so that the best ones are above 0."
        )
    return truth._replace(instances=usable), target


def gain_shares(label: Floats, offsets: Ints, gain: str = "exponential") -> Floats:
    """Return the gain of every slot over the sum of its instance; NaN without a label, 0 if the sum is 0.

    >>> gain_shares(np.array([2.0, 1.0, 0.0, np.nan, 0.0, 0.0]), np.array([0, 4, 6])).tolist()
    [0.75, 0.25, 0.0, nan, 0.0, 0.0]
    """
    instance = list_ids(offsets)
    value = np.where(np.isnan(label), 0.0, np.maximum(label, 0.0))
    most = np.zeros(len(offsets) - 1)
    np.maximum.at(most, instance, value)
    if gain == "exponential":
        # Relative to the largest label of the instance, to avoid overflow.
        worth = np.exp2(value - most[instance]) - np.exp2(-most[instance])
    else:
        worth = value / np.where(most > 0, most, 1.0)[instance]
    total = np.bincount(instance, weights=worth, minlength=len(most))
    out: Floats = worth / np.where(total > 0, total, 1.0)[instance]
    return np.where(np.isnan(label), np.nan, out)


class _ListwiseLoss(NamedTuple):
    """The listwise loss of the training rows, which are in canonical order (`canonical_rows`)."""

    offsets: Ints
    starts: Ints
    block: Codes
    X: Floats
    target: Floats
    turn: Ints
    n_blocks: int
    spread: Floats

    @classmethod
    def of(
        cls, rows: ExpertRows, label: Floats, target: Floats, usable: Ints, instances: Texts, n_blocks: int
    ) -> _ListwiseLoss:
        """Return the problem of these rows, its columns scaled by their spread in the usable instances."""
        from concordant.kernels.listwise import spreads

        own, slots = canonical_rows(rows, label)
        turn = np.empty(len(instances), dtype=np.int64)
        turn[sorted_by_id(np.arange(len(instances)), instances)] = np.arange(len(instances))
        d = rows.X.shape[1]
        (offsets,) = read_only(own.offsets)
        made = cls(
            offsets=offsets,
            starts=own.starts,
            block=own.block,
            X=own.X,
            target=target[slots],
            turn=turn,
            n_blocks=n_blocks,
            spread=np.ones(d),
        )
        variance = np.zeros((n_blocks, d))
        spreads(*made[:4], made.sorted(usable), variance)
        # One spread for all experts: in units of their own, weights of experts with few lists would have no penalty.
        spread = np.sqrt(variance.mean(axis=0))
        spread[spread == 0] = 1.0
        return made._replace(spread=spread)

    def sorted(self, instances: Ints) -> Ints:
        """Return the instances in the order of their ids, in which everything is added up."""
        return instances[np.argsort(self.turn[instances])]

    def value(self, scaled: Floats, l2: float, instances: Ints) -> tuple[float, Floats]:
        """Return the penalised loss of scaled weights and its gradient."""
        from concordant.kernels.listwise import cross_entropy

        w = scaled.reshape(-1, len(self.spread)) / self.spread
        gradient = np.zeros_like(w)
        loss = cross_entropy(*self[:4], w, self.target, instances, gradient)
        n = len(instances)
        return loss / n + 0.5 * l2 * float(scaled @ scaled), (gradient / self.spread).ravel() / n + l2 * scaled

    def hessian(self, scaled: Floats, l2: float, instances: Ints) -> Floats:
        """Return the second derivatives of the penalised loss."""
        from concordant.kernels.listwise import hessian

        w = scaled.reshape(-1, len(self.spread)) / self.spread
        out = np.zeros((w.size, w.size))
        hessian(*self[:4], w, self.target, instances, out)
        unit = np.tile(self.spread, len(w)) * np.sqrt(float(len(instances)))
        out /= unit[:, None] * unit
        out[np.diag_indices(len(out))] += l2
        return out


class _PenaltyPathLearner:
    """Minimises for one penalty after another, from strong to weak; each minimum is the start of the next."""

    def __init__(
        self, owner: ListwiseLinear, transform: str, rows: TrainingRows, problem: _ListwiseLoss, path: tuple[float, ...]
    ) -> None:
        self.chosen = {"transform": transform}
        self.transform = transform
        self.rows = rows
        self.problem = problem
        self._path = path
        self._owner = owner

    def start(self) -> Floats:
        return np.zeros(self.problem.n_blocks * len(self.problem.spread))

    def weights(self, parameters: Floats) -> Floats:
        """Return the weights, one row for each block."""
        return parameters.reshape(-1, len(self.problem.spread)) / self.problem.spread

    def advance(self, parameters: Floats, instances: Ints, number: int) -> Floats:
        solver = self._owner.solver
        if solver == "auto":
            solver = "newton" if parameters.size <= _NEWTON else "lbfgs"
        solve = _newton if solver == "newton" else _lbfgs
        in_order = self.problem.sorted(instances)
        return solve(self.problem, parameters, self._path[number], in_order, self._owner.tol, self._owner.max_iter)

    def scores(self, parameters: Floats, part: str, instances: Ints | None) -> Floats:
        return self.rows.scores(self.weights(parameters), part, instances)


class _LossPoint(NamedTuple):
    """Scaled weights, minus their penalised loss, and its gradient with its norm."""

    weights: Floats
    value: float
    gradient: Floats
    norm: float


def _newton(problem: _ListwiseLoss, start: Floats, l2: float, instances: Ints, tol: float, max_iter: int) -> Floats:
    """Return the minimum, by Newton's method."""
    from concordant.kernels.linear_systems import cholesky_solve

    def point(weights: Floats) -> _LossPoint:
        loss, gradient = problem.value(weights, l2, instances)
        return _LossPoint(weights, -loss, -gradient, max_norm(gradient))

    def newton_step(at: _LossPoint) -> NewtonStep[_LossPoint] | None:
        column = at.gradient[:, None].copy()
        if not cholesky_solve(problem.hessian(at.weights, l2, instances), column):
            return None
        step = column[:, 0]
        return NewtonStep(lambda part: point(at.weights + part * step), 1.0, float(at.gradient @ step))

    return maximise(NewtonState(point(start), 0, False, []), newton_step, tol=tol, max_iter=max_iter).point.weights


def _lbfgs(problem: _ListwiseLoss, start: Floats, l2: float, instances: Ints, tol: float, max_iter: int) -> Floats:
    """Return the minimum, by L-BFGS."""
    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": 0.0, "gtol": tol, "maxcor": 20}
    return minimise(lambda weights: problem.value(weights, l2, instances), start, options=options).x
