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
from concordant.arrays import Codes, Floats, Ints
from concordant.base.contract import Tags, Votes
from concordant.base.params import Constraint, integer, metric_name, number, one_of, seed
from concordant.base.registry import register_method
from concordant.data.index import Texts
from concordant.errors import ConvergenceWarning, DataError
from concordant.kernels.lists import list_ids
from concordant.learning.resumable import minimise

if TYPE_CHECKING:
    from concordant.data.features import Features
    from concordant.data.labels import Labels
    from concordant.features.expert_features import ExpertRows
    from concordant.learning.supervision import MatchedLabels

__all__ = ["ListwiseLinear"]

# From strong to weak; weights are in units of a column's spread, losses in nats per instance.
_PATH = tuple(float(f"{10.0 ** (-e / 2):.3g}") for e in range(-4, 9))
# Where so many weaker penalties in a row did worse, still weaker ones are not tried.
_PATIENCE = 5
# What is taken where nothing can be held out to choose by.
_MIDDLE = 0.1
# Up to so many weights a Newton step costs less than the many passes that do without second derivatives.
_NEWTON = 512


def _joined(value: Any) -> bool:
    parts = value.split("+") if isinstance(value, str) else []
    return bool(parts) and all(p in TRANSFORMS for p in parts) and len(set(parts)) == len(parts)


_TRANSFORM = Constraint("'binary', 'rankdiff', 'log' or several joined by '+'", _joined)
_L2 = Constraint("'auto' or a number > 0", lambda v: (isinstance(v, str) and v == "auto") or number(above=0).test(v))


@register_method
class ListwiseLinear(LinearAggregator):
    """The weighted sum of what experts say whose softmax comes closest to the gains of the labels.

    score(i) = Σ_k alpha_k [expert k does not list i] + beta+_k row_k(i) / M - beta-_k col_k(i) / M for an instance of M
    items; row_k(i) adds up how strongly k prefers i to the others, col_k(i) how strongly it prefers others to i. `fit`
    minimises the mean over instances of -Σ_i t_i ln softmax(score)_i + l2/2 · Σ (weight · spread)², t being the gains
    of the labels as shares of their sum. The spread of a column (alpha, beta+, beta-) is its standard deviation within
    instances, so that one penalty suits all. The problem is convex: the answer depends on the data alone.

    Tied items of a list prefer neither. Items that a list leaves out cost nothing but alpha; with missing="below" all
    that is listed is preferred to them by 1. An expert without a list in an instance has no effect there; an instance
    without any preferences is one tie, and an item nobody lists scores the sum of the alphas, less what it loses with
    missing="below". A list of weight 2 says everything twice as loud. Instances whose labels give no positive gain are
    not learned from.

    Parameters
    ----------
    transform : str, "auto", or a tuple of them
        How strongly an item is preferred to one behind it: "binary" 1, "rankdiff" the difference of their ranks over
        the largest rank of the list, "log" that of the logarithms. "log+binary" gives every expert weights for both.
        "auto" chooses among the three, a tuple among its entries.
    l2 : float or "auto"
        The penalty; "auto" chooses along a path from 100 to 1e-4.
    weights : {"individual", "consensus", "mixed"}
        Whether each expert has weights of its own, all share them, or those with few training lists do. Shared weights
        also serve experts never seen; where "mixed" found nobody to learn them from, they are the mean of the others.
    min_lists : int
        With "mixed", from how many training lists on an expert has its own weights.
    gain : {"exponential", "linear"}
        2^label - 1, or the label; negative labels gain nothing.
    missing : {"unknown", "below"}
        Whether a list says nothing about the items it leaves out, or that they are worse than all it holds.
    unjudged : {"zero", "drop"}
        Whether training items without a label count as labelled 0, or are left out.
    unknown_experts : {"error", "ignore"}
        What to do with experts that have no weights.
    select : str
        The metric by which penalty and transform are chosen, in the papers' convention.
    cv : int
        Folds of the cross-validation that chooses where `fit` gets no validation part.
    solver : {"auto", "newton", "lbfgs"}
        "auto" takes Newton steps for up to 512 weights, L-BFGS beyond.
    tol : float
        How small the largest component of the gradient must become, in the scaled weights.
    max_iter : int
        Steps of the solver at most, for each penalty.
    random_state : int
        Seed of the folds; nothing else is left to chance.

    Attributes
    ----------
    experts_ : list of str
        The experts with weights, sorted, then "*" for those who share.
    weights_ : float64[experts, 3]
        alpha, beta+, beta-; two more columns for each further transform.
    adherence_ : float64[experts]
        How far an average list of the expert puts its first item above its last, in units of the score; negative where
        it is turned around.
    expert_details_ : dict
        "alpha", "beta_plus", "beta_minus"; "listed", what being listed by the expert adds on average compared with not
        being listed; "meaning", all that in words.
    training_ : dict
        How far the lists learned from went; see `CRF`, whose notes on longer lists hold here, too.

    Notes
    -----
    Cost O(R) per evaluation over R rows, and O(R K) for a Newton step with K experts to an item. `fit_info_.objective`
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
        # What is a pass to the training is a penalty to everybody else.
        self.fit_info_.chosen.pop("passes", None)
        self.fit_info_.chosen |= {"l2": penalty}
        value, gradient = best.problem.value(found.parameters, penalty, best.problem.sorted(truth.instances))
        self.fit_info_.objective, self.fit_info_.gradient_norm = value, float(np.abs(gradient).max(initial=0.0))
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
    """Return the truth with only those instances in which some item gains, and what every slot should get of it."""
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
    """Return the gain of every slot as a share of its instance's, NaN without a label, 0 where nothing is gained.

    >>> gain_shares(np.array([2.0, 1.0, 0.0, np.nan, 0.0, 0.0]), np.array([0, 4, 6])).tolist()
    [0.75, 0.25, 0.0, nan, 0.0, 0.0]
    """
    instance = list_ids(offsets)
    value = np.where(np.isnan(label), 0.0, np.maximum(label, 0.0))
    most = np.zeros(len(offsets) - 1)
    np.maximum.at(most, instance, value)
    if gain == "exponential":
        # Relative to the largest label of the instance, so that no label is too large.
        worth = np.exp2(value - most[instance]) - np.exp2(-most[instance])
    else:
        worth = value / np.where(most > 0, most, 1.0)[instance]
    total = np.bincount(instance, weights=worth, minlength=len(most))
    out: Floats = worth / np.where(total > 0, total, 1.0)[instance]
    return np.where(np.isnan(label), np.nan, out)


class _ListwiseLoss(NamedTuple):
    """Training rows in an order of slots that depends on what is said about them, and what their scores should give."""

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
        made = cls(
            offsets=own.offsets,
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
        # One spread for a column, whosever it is: a penalty on rare voices in their own units would be none.
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
    """Scaled weights for one penalty after another, each the start of the next."""

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


def _newton(problem: _ListwiseLoss, start: Floats, l2: float, instances: Ints, tol: float, max_iter: int) -> Floats:
    """Return the minimum, by Newton steps that are halved until they help."""
    from concordant.kernels.linear_systems import cholesky_solve

    at = start
    value, gradient = problem.value(at, l2, instances)
    near = False
    for _ in range(max_iter):
        step = gradient[:, None].copy()
        if not cholesky_solve(problem.hessian(at, l2, instances), step):
            return at
        step = step[:, 0]
        length = 1.0
        while True:
            there = at - length * step
            new, new_gradient = problem.value(there, l2, instances)
            # Close to the minimum values differ by rounding alone, and gradients tell more.
            better = np.abs(new_gradient).max() < np.abs(gradient).max() and new <= value + 1e-12 * abs(value)
            if better or new < value - 1e-4 * length * float(gradient @ step):
                break
            length *= 0.5
            if length < 1e-12:
                return at
        at, value, gradient = there, new, new_gradient
        # One step beyond the tolerance leaves nothing but rounding: the answer no longer tells where it started.
        if near:
            break
        near = bool(np.abs(gradient).max() <= tol)
    return at


def _lbfgs(problem: _ListwiseLoss, start: Floats, l2: float, instances: Ints, tol: float, max_iter: int) -> Floats:
    """Return the minimum, by L-BFGS."""
    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": 0.0, "gtol": tol, "maxcor": 20}
    return minimise(lambda weights: problem.value(weights, l2, instances), start, options=options).x
