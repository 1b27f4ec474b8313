"""Learn non-negative expert weights for score fusion from labels, with a ridge penalty towards equal weights.

Fusion adds up one term for each list that holds an item. The weights minimise the softmax cross-entropy between scores
and label gains, plus a penalty on their deviation from the mean: a convex problem. The strongest penalty is plain
fusion, so model selection along the path always has plain fusion among the candidates. Newton's method follows the path
for all training instances; models without the instances of a fold start from there, and need few cheap steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators.fusion import WeightedFusion
from concordant.arrays import Bools, Codes, Floats, Ints, read_only
from concordant.base.weights import list_weights
from concordant.data.preferences import Preferences
from concordant.errors import ConvergenceWarning, DataError, IdentifiabilityWarning, listing
from concordant.execution import map_instances, without_progress
from concordant.features.expert_features import row_keys
from concordant.inference.experts import check_known
from concordant.kernels.lists import list_sums, offsets_of, ranges
from concordant.learning.checkpoints import without_checkpoint
from concordant.learning.optimisers import max_norm
from concordant.learning.shift import TrainingSummary, value_ranges
from concordant.learning.supervision import check_distinguishable, match_labels, validation_pair
from concordant.learning.training import FEWEST_FOR_VALIDATION, TrainingResult, train

if TYPE_CHECKING:
    from concordant.data.labels import Labels

__all__ = ["RIDGES", "TermCandidate", "LearnedWeights", "learn"]

# From plain fusion to weights that are all but free.
RIDGES = (np.inf, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
# What is taken where too few instances are usable to hold any out.
_MIDDLE = 0.1
# The penalty on the mean weight, that is on how steep the softmax is; without it perfect experts had no finite weights.
_STEEPNESS = 1e-3
_MOST_STEPS = 100
# Weights that move less than this are where they should be: the next Newton step would move them by its square.
_STILL = 1e-8
# Along the path three digits do, because only the weights that are chosen in the end must be exact.
_CLOSE = 1e-3
# A Hessian from elsewhere is kept while every step is shorter than this part of the step before.
_CONTRACTION = 0.4
# The Hessian also has weights at 0 whose gradient is below this part of the largest: in a fold they may be free.
_NEAR = 0.3
# Scores that differ by less than this part of the largest differ by rounding, and are a tie.
_DIGITS = 11
_LARGEST = float(np.finfo(np.float64).max)
# At most so many parts are added up side by side, each of at least so many rows.
_MOST_PARTS, _PART_ROWS = 8, 50_000


class TermCandidate(NamedTuple):
    """One way to make the terms of all rows from their values, and what sets it apart."""

    chosen: dict[str, Any]
    terms: Callable[[Floats], Floats]


class LearnedWeights(NamedTuple):
    """The number of the candidate that did best, and the experts with their weights (mean 1), if these are learned."""

    candidate: int
    experts: list[str]
    weights: Floats


class _TermRows(NamedTuple):
    """The terms of a part, list by list, as the kernels of `weighted_lists` take them."""

    offsets: Ints
    starts: Ints
    block: Codes
    first: Ints
    last: Ints
    slot: Codes
    x: Floats

    @staticmethod
    def of(p: Preferences, terms: Floats, column: Ints, list_weight: Floats | None) -> _TermRows:
        """Return the terms of the experts who have a column, weighed by list; the others have -1."""
        block = column[p.list_expert]
        kept = np.flatnonzero(block >= 0)
        kept = kept[np.lexsort((block[kept], p.list_instance[kept]))]
        starts = offsets_of(np.bincount(p.list_instance[kept], minlength=len(p)))
        of_list = starts, block[kept].astype(np.int32), p.list_offsets[kept], p.list_offsets[kept + 1]
        return _TermRows(*read_only(p.slots.offsets, *of_list, p.slot, terms)).with_terms(p, terms, list_weight)

    def with_terms(self, p: Preferences, terms: Floats, list_weight: Floats | None) -> _TermRows:
        """Return the same lists with other terms."""
        if list_weight is not None:
            terms = terms * np.repeat(list_weight, p.list_lengths)
        return self._replace(x=read_only(terms)[0])

    def keys(self, names: Sequence[str]) -> NDArray[np.uint64]:
        """Return a hash of the terms of every slot."""
        row = ranges(self.first, self.last)
        block = np.repeat(self.block, self.last - self.first)
        out = np.zeros(int(self.offsets[-1]), dtype=np.uint64)
        np.add.at(out, self.slot[row], row_keys(self.x[row, None], block, names))
        return out

    def scores(self, w: Floats, instances: Ints | None = None) -> Floats:
        """Return the weighted sum of the terms of every slot, 0 for those of other instances."""
        from concordant.kernels.weighted_lists import list_scores

        out = np.zeros(int(self.offsets[-1]))
        list_scores(*self, w, np.arange(len(self.offsets) - 1) if instances is None else instances, out)
        return out


class _Minimum(NamedTuple):
    """The weights of least loss, the Hessian where the last step began, and whether the steps ended by themselves.

    The Hessian is NaN for weights that could not move there.
    """

    weights: Floats
    hessian: Floats
    settled: bool


class _PathPoint(NamedTuple):
    """The weights of a ridge learned from all training instances, with the derivatives of the loss there."""

    weights: Floats
    hessian: Floats
    value: float
    gradient: Floats


class _RidgePathLearner:
    """Weights for one ridge after another, each the start of the next.

    Parameters
    ----------
    candidate, parts, target, n_experts
        The problem.
    ridges : tuple of float
        The path.
    usable : int array
        All training instances. Models of some of them, for cross-validation, start from the weights of all.
    start : float64[n_experts], optional
        Where the path starts; equal weights by default.
    """

    def __init__(
        self,
        candidate: TermCandidate,
        parts: dict[str, _TermRows],
        target: Floats,
        n_experts: int,
        ridges: tuple[float, ...],
        usable: Ints,
        start: Floats | None = None,
    ) -> None:
        self.chosen = candidate.chosen
        self.ridges = ridges
        self._parts = parts
        self._target = target
        self._n = n_experts
        self._usable = usable
        self._start = np.ones(n_experts) if start is None else start
        self._path: list[_PathPoint] = []
        self._lock = Lock()
        self._unit = 1.0
        self._unit = self._steepness()

    def _steepness(self) -> float:
        """Return the weight under which equal weights give scores of spread 1, so that ridges mean the same for all."""
        rows = self._parts["train"]
        score = rows.scores(np.ones(self._n))
        used = ~np.isnan(self._target)
        sizes = list_sums(used.astype(np.int64), rows.offsets)
        mean = list_sums(np.where(used, score, 0.0), rows.offsets) / np.maximum(sizes, 1)
        score -= np.repeat(mean, np.diff(rows.offsets))
        spread = float(np.sqrt(np.mean(score[used] ** 2)))
        return 1.0 / spread if spread > 0 else 1.0

    def start(self) -> Floats:
        return self._start

    def advance(self, parameters: Floats, instances: Ints, number: int) -> Floats:
        if not np.isfinite(self.ridges[number]):
            return parameters
        point = self._point(number)
        if len(instances) == len(self._usable):
            return point.weights
        problem = self._problem(number, instances)
        # The sums over the fold are those over all instances without those held out.
        held = self._problem(number, np.setdiff1d(self._usable, instances, assume_unique=True))
        weights, penalty = point.weights, held.penalty
        pull = penalty @ weights
        energy = 0.5 * float(weights @ pull)
        value, gradient = held.value(weights)
        all_, out, left = len(self._usable), len(held.instances), len(instances)

        def rest(total: Any, part: Any, prior: Any) -> Any:
            return ((total - prior) * all_ - (part - prior) * out) / left + prior

        start = rest(point.value, value, energy), rest(point.gradient, gradient, pull)
        known = ~np.isnan(point.hessian.diagonal())
        hessian = rest(point.hessian, held.hessian(weights, known), penalty)
        return self._cut(problem.minimise(weights, hessian, still=_CLOSE, start=start).weights)

    def follow_path(self) -> None:
        """Follow the whole path, with all free threads: folds wait for it otherwise, each in a thread of its own."""
        self._point(len(self.ridges) - 1)

    def exact(self, number: int) -> _Minimum:
        """Return the weights of a ridge from all training instances to the last digits."""
        point = self._point(number)
        if not np.isfinite(self.ridges[number]):
            return _Minimum(point.weights, point.hessian, True)
        found = self._problem(number, self._usable).minimise(point.weights)
        return found._replace(weights=self._cut(found.weights))

    def _problem(self, number: int, instances: Ints) -> _RidgeLoss:
        penalty = self.ridges[number] / self._n * (np.eye(self._n) - 1.0 / self._n) + _STEEPNESS / self._n**2
        return _RidgeLoss(self._parts["train"], self._target, instances, self._unit, penalty)

    def _point(self, number: int) -> _PathPoint:
        """Return the weights of a ridge from all training instances; the path up to there is followed once."""
        with self._lock:
            while len(self._path) <= number:
                at = len(self._path)
                start = self._path[-1].weights if self._path else self._start
                if np.isfinite(self.ridges[at]):
                    problem = self._problem(at, self._usable)
                    found = problem.minimise(start, still=_CLOSE)
                    weights = self._cut(found.weights)
                    value, gradient = problem.value(weights)
                    self._path.append(_PathPoint(weights, found.hessian, value, gradient))
                else:
                    self._path.append(_PathPoint(start, np.zeros((self._n, self._n)), 0.0, np.zeros(self._n)))
            return self._path[number]

    @staticmethod
    def _cut(found: Floats) -> Floats:
        # What is left of a weight that should be 0 is rounding, and must not rank anything.
        return np.where(found > _STILL * max(float(found.max()), 1.0), found, 0.0)

    def scores(self, parameters: Floats, part: str, instances: Ints | None) -> Floats:
        rows = self._parts[part]
        score = rows.scores(parameters, instances)
        used: Any = slice(None)
        if instances is not None:
            used = ranges(rows.offsets[instances], rows.offsets[instances + 1])
        largest = max_norm(score[used])
        if largest > 0:
            score[used] = np.round(score[used] / largest, _DIGITS)
        return score


class _RidgeLoss:
    """The penalised loss of weights >= 0, in units of `unit`, over some instances."""

    def __init__(self, rows: _TermRows, target: Floats, instances: Ints, unit: float, penalty: Floats) -> None:
        self.rows = rows
        self.target = target
        self.instances = instances
        self.unit = unit
        self.penalty = penalty
        # Parts are added up side by side. Their number depends on the data alone, so that sums do too.
        n_rows = len(rows.x) * len(instances) // max(len(rows.offsets) - 1, 1)
        n_parts = min(max(n_rows // _PART_ROWS, 1), _MOST_PARTS, max(len(instances), 1))
        self._parts = np.array_split(instances, n_parts)
        # The softmax at the weights that were last asked for.
        self._share = np.empty(len(target))
        self._at: Floats | None = None

    def value(self, u: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient."""
        from concordant.kernels.weighted_lists import cross_entropy

        w = u * self.unit

        def work(k: int) -> tuple[float, Floats]:
            gradient = np.zeros(len(u))
            return cross_entropy(*self.rows, w, self.target, self._parts[k], self._share, gradient), gradient

        with without_progress():
            sums = map_instances(work, len(self._parts))
        self._at = u
        pull = self.penalty @ u
        n = len(self.instances)
        loss, gradient = sum(own for own, _ in sums), sum(own for _, own in sums)
        return loss / n + 0.5 * float(u @ pull), gradient * (self.unit / n) + pull

    def hessian(self, u: Floats, wanted: Bools | None = None) -> Floats:
        """Return the second derivatives by the wanted weights, all of them by default; the others are NaN."""
        from concordant.kernels.weighted_lists import hessian

        if self._at is None or not np.array_equal(self._at, u):
            self.value(u)
        blocks = np.ones(len(u), dtype=np.bool_) if wanted is None else wanted

        def work(k: int) -> Floats:
            out = np.zeros((len(u), len(u)))
            hessian(*self.rows, self._share, blocks, self._parts[k], out)
            return out

        with without_progress():
            total: Floats = sum(map_instances(work, len(self._parts)), np.zeros((len(u), len(u))))
        total[~blocks] = total[:, ~blocks] = np.nan
        return total * (self.unit**2 / len(self.instances)) + self.penalty

    def minimise(
        self,
        u: Floats,
        hessian: Floats | None = None,
        *,
        still: float = _STILL,
        start: tuple[float, Floats] | None = None,
    ) -> _Minimum:
        """Return the weights of least loss: Newton's steps, cut off at 0.

        Parameters
        ----------
        u : float64[n]
            Where to start.
        hessian : float64[n, n], optional
            A Hessian from nearby, which is kept while the steps shrink fast. Without it every step computes its own.
        still : float
            Steps that move weights less than this part of the largest are the last. Above the smallest tolerance, so
            are those after which the next is expected to be as short, and nothing is computed at their end.
        start : float and float64[n], optional
            Loss and gradient at the start, where they are known.
        """
        value, gradient = self.value(u) if start is None else start
        kept, last = hessian, np.inf
        for _ in range(_MOST_STEPS):
            free = (u > 0) | (gradient < 0)
            among = np.ix_(free, free)
            if kept is None or np.isnan(kept[among]).any():
                kept = self.hessian(u, free | (gradient < _NEAR * gradient.max()))
            if not free.any():
                return _Minimum(u, kept, True)
            step = np.zeros(len(u))
            step[free] = -np.linalg.solve(kept[among], gradient[free])
            there = np.maximum(u + step, 0.0)
            length = float(np.abs(there - u).max())
            # The next step is shorter by at least as much as this one.
            following = length * length / last if length < last < np.inf else np.inf
            if still > _STILL and following <= still * max(float(there.max()), 1.0):
                return _Minimum(there, kept, True)
            u, value, gradient, moved = self._search(u, value, gradient, step)
            if moved <= still * max(float(u.max()), 1.0):
                return _Minimum(u, kept, True)
            if hessian is None or moved > _CONTRACTION * last:
                kept = None
            last = moved
        return _Minimum(u, self.hessian(u) if kept is None else kept, False)

    def _search(self, u: Floats, value: float, gradient: Floats, step: Floats) -> tuple[Floats, float, Floats, float]:
        """Return the weights part of the step away, halved until they are better as far as rounding lets one see."""
        part = 1.0
        while True:
            there = np.maximum(u + part * step, 0.0)
            new, turned = self.value(there)
            gain = float(gradient @ (there - u))
            if new <= value + 1e-4 * gain + 1e-14 * abs(value) or part < 1e-9:
                return there, new, turned, float(np.abs(there - u).max())
            part *= 0.5


def learn(
    owner: WeightedFusion,
    p: Preferences,
    labels: Labels | None,
    validation: Any,
    values: Callable[[Preferences], Floats],
    candidates: Sequence[TermCandidate],
) -> LearnedWeights:
    """Return the best candidate and the weights of the experts, chosen by a metric on instances not learned from.

    Parameters
    ----------
    owner : WeightedFusion
        Whose fit this is; its parameters `weights`, `unknown_experts`, `unjudged`, `select` and `cv` say how. With
        weights that are given, or None, only the candidate is chosen.
    p, labels, validation
        What is learned from, and what is chosen by.
    values : function of Preferences
        A number for every row, from which terms are made.
    candidates : sequence of TermCandidate
        How terms are made; of equals the first is kept, and where nothing can be held out the first is taken.
    """
    from concordant.aggregators.listwise import with_gains

    name = type(owner).__name__
    truth = match_labels(p, labels, name, unjudged=owner.unjudged)
    truth, target = with_gains(truth, p, name)
    target[~np.isin(p.slots.instance, truth.instances)] = np.nan
    pair = validation_pair(validation, name)
    if pair is not None:
        _require_known(owner, pair[0], p)
    experts = p.experts.tolist()
    heard: NDArray[np.bool_] = np.bincount(p.list_expert, weights=p.weights, minlength=len(experts)) > 0
    free = isinstance(owner.weights, str)
    if not heard.any():
        raise DataError(f"{name} has nothing to learn from: no expert ranks anything in the {len(p)} instances.")
    # By name, so that the order in which experts come does not matter.
    own = sorted(e for e, there in zip(experts, heard.tolist(), strict=True) if there) if free else experts
    ridges: tuple[float, ...] = RIDGES if free else RIDGES[:1]
    if pair is None and len(truth.instances) < FEWEST_FOR_VALIDATION:
        candidates, ridges = candidates[:1], (_MIDDLE,) if free else ridges
    column = {e: at for at, e in enumerate(own)} if free else None
    sources = {"train": _TermSource.of(owner, p, values, column)}
    if pair is not None:
        sources["validation"] = _TermSource.of(owner, pair[0], values, column)
    check_distinguishable(sources["train"].rows(candidates[0]).keys(own if free else [""]), truth, p, name)

    def chosen_of(
        tried: Sequence[TermCandidate], ridges: tuple[float, ...], start: Floats | None = None
    ) -> tuple[list[_RidgePathLearner], TrainingResult]:
        n = len(own) if free else 1

        def learner_of(at: int) -> _RidgePathLearner:
            parts = {part: source.rows(tried[at]) for part, source in sources.items()}
            learner = _RidgePathLearner(tried[at], parts, target, n, ridges, truth.instances, start)
            learner.follow_path()
            return learner

        with without_progress():
            learners = map_instances(learner_of, len(tried))
        how: dict[str, Any] = {"votes": p, "labels": labels, "truth": truth, "validation": pair}
        found = train(owner, learners, passes=len(ridges), select=owner.select, cv=owner.cv, **how)
        return learners, found

    info = owner.fit_info_
    if len(candidates) > 1 and len(ridges) > 1:
        # The ridge of the first candidate serves all: ridges are in units that mean the same for every candidate.
        with without_checkpoint():
            learners, found = chosen_of(candidates[:1], ridges)
        trace = info.trace
        if not info.interrupted:
            ridges = (ridges[found.passes - 1],)
            learners, found = chosen_of(candidates, ridges, found.parameters)
            info.trace = trace + info.trace
            info.n_iter = len(info.trace)
    else:
        learners, found = chosen_of(candidates, ridges)
    info.chosen.pop("passes", None)
    owner.training_ = _record(owner, p, sorted(experts) if free else None, truth.instances)
    if not free:
        return LearnedWeights(found.learner, [], np.zeros(0))
    info.chosen["ridge"] = ridges[found.passes - 1]
    final = learners[found.learner].exact(found.passes - 1)
    if not final.settled:
        info.converged = False
        owner._warn(
            f"{name} did not find the best weights in {_MOST_STEPS} steps; those found so far are kept.",
            ConvergenceWarning,
        )
    return _normalised_weights(owner, experts, own, found.learner, final.weights)


def _record(owner: WeightedFusion, p: Preferences, experts: list[str] | None, instances: Ints) -> dict[str, Any]:
    """Return what is kept of the training data: for every expert, or for all together where none has a weight."""
    place = dict.fromkeys(p.experts, 0) if experts is None else {e: at for at, e in enumerate(experts)}
    column = np.array([place[e] for e in p.experts], dtype=np.int64)
    out = TrainingSummary.of(p, column, 1 if experts is None else len(experts), instances).record()
    if experts is not None and getattr(owner, "norm", "") == "none":
        low, high = value_ranges(p)
        # About experts who gave no score nothing is known, and so nothing is said of what they give later.
        low, high = np.where(low <= high, low, -_LARGEST), np.where(low <= high, high, _LARGEST)
        order = np.argsort(column)
        out |= {"low": low[order], "high": high[order]}
    return out


def _require_known(owner: WeightedFusion, votes: Any, p: Preferences) -> None:
    """Check that the method takes the validation part and knows its experts."""
    owner._checked(votes)
    if isinstance(owner.weights, str):
        where = " of the validation part"
        check_known(votes, dict.fromkeys(p.experts), type(owner).__name__, owner.unknown_experts, where=where)


class _TermSource(NamedTuple):
    """A part of the data, from which every candidate makes its terms: with values in their place, and list weights."""

    part: Preferences
    values: _TermRows
    list_weight: Floats | None

    @staticmethod
    def of(
        owner: WeightedFusion, p: Any, values: Callable[[Preferences], Floats], column: dict[str, int] | None
    ) -> _TermSource:
        """Return the source of a part; without columns all experts share one, and count as much as is given."""
        if column is None:
            given = None if isinstance(owner.weights, str) else owner.weights
            weights = list_weights(p, given, type(owner).__name__, owner.unknown_experts)
            codes = np.zeros(p.n_experts, dtype=np.int64)
        else:
            weights = p.list_weight
            codes = np.array([column.get(e, -1) for e in p.experts], dtype=np.int64)
        return _TermSource(p, _TermRows.of(p, values(p), codes, None), weights)

    def rows(self, candidate: TermCandidate) -> _TermRows:
        """Return the terms of a candidate."""
        return self.values.with_terms(self.part, candidate.terms(self.values.x), self.list_weight)


def _normalised_weights(
    owner: WeightedFusion, experts: list[str], own: list[str], candidate: int, found: Floats
) -> LearnedWeights:
    """Return expert weights with mean 1; experts without training data get the mean."""
    mean = float(found.mean())
    if mean == 0:
        owner._warn(
            "no expert's order agrees with the labels: all weights are 0 and every item ties. Check that larger "
            "labels, and smaller ranks, are better.",
            IdentifiabilityWarning,
        )
    known = dict(zip(own, (found / (mean or 1.0)).tolist(), strict=True))
    absent = [e for e in experts if e not in known]
    if absent:
        owner._warn(
            f"nothing can be learned about the experts {listing(absent)}; they weigh as the others on average.",
            IdentifiabilityWarning,
        )
    names = sorted(experts)
    return LearnedWeights(candidate, names, np.array([known.get(e, 1.0 if mean else 0.0) for e in names]))
