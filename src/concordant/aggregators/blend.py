"""Blend: a weighted sum of the standardised scores of several methods (stacking), its weights learned from labels.

Each member scores held-out instances, and the weights minimise the listwise loss of the sum of these scores. This is a
convex problem with one variable for each member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np

from concordant.aggregators.listwise import with_gains
from concordant.arrays import Bools, Codes, Floats, Ints
from concordant.base.contract import Aggregator, Tags, Votes
from concordant.base.params import (
    Constraint,
    Within,
    check_params,
    either,
    integer,
    methods,
    metric_name,
    number,
    one_of,
    seed,
)
from concordant.base.registry import METHODS, create, register_method
from concordant.data.consensus import Consensus, rank_scores
from concordant.data.container import counted
from concordant.data.explanation import Contributions, Explanation, explain
from concordant.data.index import Slots
from concordant.data.labels import Labels
from concordant.data.streams import id_hash
from concordant.errors import DataError, DataWarning, KindError, NotFittedError, ParameterError, without_warnings
from concordant.execution import report_status, run_parallel
from concordant.kernels.lists import moments_within, offsets_of, ranges, standardise_within
from concordant.learning.checkpoints import CheckpointFile
from concordant.learning.optimisers import max_norm
from concordant.learning.resumable import minimise
from concordant.learning.supervision import (
    MatchedLabels,
    ValidationMetric,
    labels_of,
    match_labels,
    validation_pair,
)
from concordant.learning.training import FEWEST_FOR_VALIDATION, require_selective_metric

if TYPE_CHECKING:
    from concordant.data.features import Features

__all__ = ["Blend", "standardised"]

# The penalties of l2="auto", from strong to weak.
_PENALTIES = tuple(float(f"{10.0 ** (-e / 2):.3g}") for e in range(-4, 7))
# A small ridge keeps the weights finite if the members separate the labels.
_RIDGE = 1e-4
# Base contributions below this are rounding errors; z-scores are of the order of 1.
_ROUNDING = 1e-12
_NEWTON_STEPS = 3
_SOLVER = {"maxiter": 1000, "maxfun": 20_000, "ftol": 0.0, "gtol": 1e-8, "maxcor": 20}
_KINDS = frozenset({"rank", "score", "rating", "comparisons"})
_COST = "the sum of the members"


class _TagsOfMembers:
    """Tags of a blend: the abilities that all its members share; of the class, those of the default members."""

    def __get__(self, blend: Blend | None, owner: type[Blend]) -> Tags:
        members = None if blend is None else blend.__dict__.get("members")
        if members is None or not Blend.constraints["members"].test(members):
            return Tags(_KINDS, supervised=True, stochastic=True, faithful=False, cost=_COST)
        own = [create(member).tags for member in members]
        return Tags(
            accepts=_KINDS.intersection(*(t.accepts for t in own)),
            supervised=True,
            per_instance=all(t.per_instance for t in own),
            weights=all(t.weights for t in own),
            ties=all(t.ties for t in own),
            stochastic=True,
            faithful=False,
            row_order=any(t.row_order for t in own),
            cost=_COST,
        )


@register_method
class Blend(Aggregator):
    """Blend (stacking): a weighted sum of the scores of several methods, its weights learned on held-out instances.

    The scores of a member are standardised within the instance, so that scores of any scale can be added:

        score(i) = Σ_n v_n z_n(i),    z_n(i) = (score_n(i) − mean_n) / deviation_n.

    A member that ties all items of an instance adds 0 to each.

    `fit` fits the members, and learns the weights v_n ≥ 0 by cross-validation: the labelled instances are split into
    `cv` parts, and each member scores every part after a fit to the others. The weights minimise the mean listwise loss
    of these held-out scores, that of `ListwiseLinear`, plus l2/2 · Σ (v_n − mean weight)². The penalty pulls them
    towards equal weights. With l2="auto" it is the strongest of a path whose metric `select` on held-out instances is
    below the best by at most one standard error of the paired differences, so weights differ only as far as the metric
    shows it. The problem is convex, so the result does not depend on a starting point. Finally the weights are divided
    by their sum, and each member is fitted to all instances.

    Members that do not learn from labels score all training instances at once. With fewer than 4 usable instances none
    is held out, and the weights are equal.

    Estimand: the weights at which the softmax of the sum is closest to the items' shares of the gain, on average over
    instances like the training instances; and the estimand of each member.

    Parameters
    ----------
    members : list of methods or names
        At least two methods, such as [ListwiseLinear(), CRF(), BoostedTrees()]. On the command line
        ``--method "blend(listwise-linear, crf, boosted-trees)"``. The default members need no extra.
    weights : {"learned", "equal"}
        Learned on held-out instances, or equal. With equal weights `fit` only fits the members.
    l2 : float or "auto"
        The penalty; "auto" selects along a path from 100 to 1e-3.
    cv : int
        Number of parts of the labelled instances.
    select : str
        The metric that selects the penalty, in the papers' convention. Members have a `select` of their own.
    gain : {"exponential", "linear"}
        2^label - 1, or the label, in the loss of the weights; the gain of a negative label is 0.
    unjudged : {"zero", "drop"}
        Whether training items without a label have label 0 in that loss, or are left out.
    random_state : int
        Seed of the parts; also added to the seeds of the members.

    Attributes
    ----------
    members_ : list of methods
        The fitted members.
    member_names_ : list of str
        Their names; a number follows if several have the same.
    member_weights_ : float64[members]
        Their weights, which add up to 1.

    Notes
    -----
    `validation=` is passed to every fit of a member that learns from labels, for its early stopping. The weights are
    learned from held-out training instances only.

    `explain` splits a score by expert, or by member with by="member". By expert, a member whose scores are no sum over
    experts is shown under its own name in brackets.

    A blend works on preferences in memory; `fit` refuses features and blocks of instances. `BoostedTrees` and the
    rankers learn from preferences and features together.

    Cost: `cv` + 1 times the sum of the members to fit, and the sum of the members to predict. Fits run in parallel.
    Inside `checkpoint` the held-out scores of a member are written as soon as they are finished, and a resumed fit
    reads them; an unfinished fit of a member starts again. An interrupted fit keeps nothing else.

    References
    ----------
    Wolpert, Stacked generalization, Neural Networks 1992. Breiman, Stacked regressions, Machine Learning 1996, for
    weights that are not negative.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels = cc.synthetic.labelled_runs(40, random_state=1)
    >>> model = cc.Blend(members=[cc.ListwiseLinear(l2=0.1), cc.CPS(), "rrf"]).fit(runs[:30], labels)
    >>> model.member_names_
    ['listwise-linear', 'cps', 'rrf']
    >>> cc.evaluate(model.predict(runs[30:]), labels[30:], "ndcg@10").mean["ndcg@10"] > 0.7
    True
    """

    name = "blend"
    tags: ClassVar[Tags] = _TagsOfMembers()  # type: ignore[assignment] # a blend has the tags of its members
    made_of = "members"
    learns_labels_by: ClassVar[Mapping[str, str]] = {"weights": "learned"}
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "members": methods(),
        "weights": one_of("learned", "equal"),
        "l2": either(number(least=0), one_of("auto")),
        "cv": integer(least=2),
        "select": metric_name(),
        "gain": one_of("exponential", "linear"),
        "unjudged": one_of("zero", "drop"),
        "random_state": seed(),
    }

    members_: list[Any]
    member_names_: list[str]
    member_weights_: Annotated[Floats, Within(least=0, most=1)]

    def __init__(
        self,
        *,
        members: Sequence[Aggregator | str] = ("listwise-linear", "crf", "svd-rank"),
        weights: str = "learned",
        l2: float | str = "auto",
        cv: int = 5,
        select: str = "ndcg@10",
        gain: str = "exponential",
        unjudged: str = "zero",
        random_state: int = 0,
    ) -> None:
        self.members = members
        self.weights = weights
        self.l2 = l2
        self.cv = cv
        self.select = select
        self.gain = gain
        self.unjudged = unjudged
        self.random_state = random_state

    def needs_labels(self) -> bool:
        """Return whether the weights are learned, or a member learns from labels."""
        return self.weights == "learned" or any(member.needs_labels() for member in self._unfitted_members())

    # Prediction.

    def _scores(self, preferences: Votes) -> Floats:
        total = np.zeros(preferences.slots.n_slots)
        for member, weight in self._weighted_members():
            if weight > 0:
                total += weight * standardise_within(_member_scores(member, preferences), preferences.slots.offsets)
        return total

    def _weighted_members(self) -> list[tuple[Aggregator, float]]:
        """Return the fitted members and their weights."""
        if "member_weights_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)
        return list(zip(self.members_, self.member_weights_.tolist(), strict=True))

    def _data_shift(self, preferences: Any) -> str:
        found = (member._data_shift(preferences) for member, weight in self._weighted_members() if weight > 0)
        return " ".join(dict.fromkeys(text for text in found if text))

    def explain(self, preferences: Votes, instance: str | None = None, *, by: str = "expert") -> Explanation:
        """Return the contribution of each expert, or of each member, to the score of each item of one instance.

        Parameters
        ----------
        preferences : Preferences or Comparisons
            The data of the prediction.
        instance : str, optional
            Which instance; needed where there are several.
        by : {"expert", "member"}
            Whose contributions; in both cases they add up to the score. Those of an expert are relative to their mean
            over the items, as z-scores are.

        Examples
        --------
        >>> import concordant as cc
        >>> lists = cc.from_lists({"x": ["a", "b", "c"], "y": ["c", "a", "b"]})
        >>> print(cc.Blend(members=["rrf", "borda"], weights="equal").fit(lists).explain(lists, by="member"))
        item    score      rrf    borda
        a      1.2214  +0.6091  +0.6124
        c      0.0066  +0.0066  +0.0000
        b     -1.2280  -0.6156  -0.6124
        """
        if by not in ("expert", "member"):
            raise ParameterError.invalid("by", "explain", "'expert' or 'member'", by)
        votes = self._checked(preferences)
        self._warn_of_shift(votes)
        find = self._contributions if by == "expert" else self._member_contributions
        return explain(votes, instance, lambda own: self._require_additive(find(own)), by=by)

    def _member_contributions(self, preferences: Votes) -> Contributions:
        """Return the contribution of each member to the score of each slot."""
        offsets = preferences.slots.offsets
        parts = [w * standardise_within(_member_scores(m, preferences), offsets) for m, w in self._weighted_members()]
        return list(self.member_names_), np.column_stack(parts), np.zeros(preferences.slots.n_slots)

    def _contributions(self, preferences: Any) -> Contributions:
        slots = preferences.slots
        names: dict[str, Floats] = {}
        base_total = np.zeros(slots.n_slots)
        for (member, weight), member_name in zip(self._weighted_members(), self.member_names_, strict=True):
            if weight == 0:
                continue
            found = member._contributions(preferences)
            score = _member_scores(member, preferences)
            if found is None:
                found = [f"({member_name})"], score[:, None], np.zeros(len(score))
            own, parts, base = found
            # The contributions minus their means add up to the score minus its mean.
            deviation = moments_within(score, slots.offsets)[1]
            factor = np.divide(weight, deviation, out=np.zeros(len(slots)), where=deviation > 0)[slots.instance]
            for name, part in zip(own, parts.T, strict=True):
                names[name] = names.get(name, 0.0) + factor * _centred(part, slots)
            base_total += factor * _centred(base, slots)
        if np.abs(base_total).max(initial=0.0) <= _ROUNDING:
            base_total = np.zeros(slots.n_slots)
        return list(names), np.column_stack(list(names.values())), base_total

    def _check_state(self) -> None:
        if "member_weights_" not in self.__dict__:
            return
        names = [type(member).name for member in self._unfitted_members()]
        consistent = (
            [getattr(member, "name", None) for member in self.members_] == names
            and all("fit_info_" in member.__dict__ for member in self.members_)
            and self.member_names_ == _numbered_names(names)
            and self.member_weights_.shape == (len(names),)
            and abs(float(self.member_weights_.sum()) - 1) < 1e-9
        )
        if not consistent:
            raise DataError("its members, their names and their weights do not match.")

    # Learning.

    def _unfitted_members(self) -> list[Aggregator]:
        """Return unfitted copies of the members, with the seed of this blend added to theirs."""
        out = []
        for member in self.members:
            made = create(member)
            params = made.get_params()
            if isinstance(params.get("random_state"), int):
                params["random_state"] += self.random_state
            out.append(type(made)(**params))
        return out

    def _check_kind(self, kind: str) -> None:
        # Check the parameters first, because the tags are those of the members.
        check_params(type(self).__name__, self.__dict__, self.constraints)
        for member in self._unfitted_members():
            if METHODS.find(getattr(member, "name", None)) is not type(member):
                raise ParameterError(
                    f"{type(member).__name__} cannot be a member of {type(self).__name__}, because it is not a "
                    "registered method. Search over the blend instead, or pass the method that the search chose."
                )
            try:
                member._check_kind(kind)
            except KindError as error:
                raise KindError(f"a member of {type(self).__name__} cannot take part: {error}") from error

    def _fit(self, preferences: Votes, labels: Labels | None, validation: Any, features: Features | None) -> None:
        owner = type(self).__name__
        members = self._unfitted_members()
        folds: list[Ints] = []
        metric: ValidationMetric | None = None
        if self.weights == "learned":
            validation_pair(validation, owner)
            truth = match_labels(preferences, labels, owner, unjudged=self.unjudged)
            truth, target = with_gains(truth, preferences, owner, self.gain)
            self.fit_info_.labels = truth.counts | {"usable": len(truth.instances)}
            folds = self._folds(preferences, truth)
            if folds and labels is not None and isinstance(self.l2, str):
                metric = ValidationMetric(preferences, labels, metric=self.select, unjudged=self.unjudged)
                require_selective_metric(self, metric, truth, None, self.select)
        elif self.needs_labels():
            self.fit_info_.labels = match_labels(preferences, labels, owner, require_usable=False).counts
        if folds and labels is not None:
            scores = self._held_out_scores(members, preferences, labels, validation, folds)
        report_status("fitting the members to all instances")
        run_parallel(lambda m: _fit_member(members[m], preferences, labels, validation), len(members))
        self.members_ = members
        self.member_names_ = _numbered_names([member.name for member in members])
        info = self.fit_info_
        info.converged = all(member.fit_info_.converged for member in members)
        info.warnings += [
            f"{name}: {text}"
            for name, member in zip(self.member_names_, members, strict=True)
            for text in member.fit_info_.warnings
        ]
        if not folds:
            self.member_weights_ = np.full(len(members), 1.0 / len(members))
            return
        for m, member in enumerate(members):
            if not member.needs_labels():
                scores[:, m] = _member_scores(member, preferences)
        self.member_weights_ = self._learn_weights(scores, target, preferences, folds, metric)

    def _learn_weights(
        self,
        scores: Floats,
        target: Floats,
        preferences: Votes,
        folds: Sequence[Ints],
        metric: ValidationMetric | None,
    ) -> Floats:
        """Return the weights for held-out scores of the members, and record what was chosen."""
        problem = _WeightLoss.of(scores, target, preferences, folds)
        l2: Any = self.l2
        if metric is not None:
            l2 = _select_penalty(problem, scores, preferences.slots, folds, metric)
        every = np.arange(len(problem.folds))
        found = problem.minimum(l2, every)
        info = self.fit_info_
        info.objective, gradient = problem.value(found, l2, every)
        # At a weight of 0, a gradient that would push it below 0 does not count.
        info.gradient_norm = max_norm(np.where(found > 0, gradient, np.minimum(gradient, 0.0)))
        total = float(found.sum())
        weights: Floats = found / total if total > 0 else np.full(len(found), 1.0 / len(found))
        shares = {f"weight of {n}": w for n, w in zip(self.member_names_, weights.tolist(), strict=True)}
        info.chosen = ({"l2": l2} if isinstance(self.l2, str) else {}) | shares
        return weights

    def _folds(self, preferences: Votes, truth: MatchedLabels) -> list[Ints]:
        """Return the usable instances of each part, which depends on their ids; empty if there are too few."""
        usable, ids = truth.instances, preferences.instances
        if len(usable) < FEWEST_FOR_VALIDATION:
            self._warn(
                f"{type(self).__name__} learns from {counted(len(usable), 'instance')}, too few to hold any out: the "
                "members have equal weights.",
                DataWarning,
            )
            return []
        drawn = sorted(usable.tolist(), key=lambda n: (id_hash(f"{self.random_state}:{ids[n]}"), ids[n]))
        n_folds = min(self.cv, len(usable) // 2)
        return [np.sort(np.array(drawn[f::n_folds], dtype=np.int64)) for f in range(n_folds)]

    def _held_out_scores(
        self,
        members: Sequence[Aggregator],
        preferences: Votes,
        labels: Labels,
        validation: Any,
        folds: Sequence[Ints],
    ) -> Floats:
        """Return the held-out scores of the members that learn from labels, for every slot of the folds."""
        inputs = (preferences, labels, *(validation or ()))
        store = _HeldOutScores(CheckpointFile.of(self, inputs, folds), preferences, folds, len(members))
        tasks = [(fold, m) for fold, m in store.unfinished() if members[m].needs_labels()]

        def work(t: int) -> None:
            fold, m = tasks[t]
            member = type(members[m])(**members[m].get_params())
            held = preferences[folds[fold]]
            kept = preferences[np.setdiff1d(np.arange(len(preferences)), folds[fold])]
            try:
                # The fit to all instances gives the warnings about the data.
                with without_warnings():
                    member.fit(kept, labels_of(labels, kept.instances), validation=validation)
                    if "unknown_experts" in member.get_params():
                        # An expert may occur in one part only.
                        member.set_params(unknown_experts="ignore")
                    score = _member_scores(member, held)
            except Exception as error:
                error.add_note(f"in {member.name}, fitted without part {fold + 1} of {len(folds)} of the instances")
                raise
            store.take(fold, m, score)

        report_status(f"{counted(len(members), 'member')} scoring {counted(len(folds), 'held-out part')}")
        try:
            run_parallel(work, len(tasks))
        finally:
            store.write()
        return store.scores


def _fit_member(member: Aggregator, preferences: Votes, labels: Labels | None, validation: Any) -> None:
    """Fit a member, with labels if it learns from them."""
    if member.needs_labels():
        member.fit(preferences, labels, validation=validation)
    else:
        member.fit(preferences)


def _member_scores(member: Aggregator, preferences: Votes) -> Floats:
    """Return the scores of a member; tied items get exactly equal scores."""
    votes = member._weighed(member._checked(preferences))
    score = member._consensus(votes).score
    offsets = votes.slots.offsets
    return _with_exact_ties(score, offsets, relative=member._relative_tolerance)


def standardised(consensus: Consensus) -> Floats:
    """Return z-scores within each instance; items whose scores tie have equal ones."""
    offsets = consensus.slots.offsets
    return standardise_within(_with_exact_ties(consensus.score, offsets), offsets)


def _with_exact_ties(score: Floats, offsets: Ints, *, relative: bool = False) -> Floats:
    """Return the scores with those of tied items replaced by the best of them."""
    rank, _ = rank_scores(score, offsets, relative_tolerance=relative)
    # The best score of every group of tied items.
    group = np.repeat(offsets[:-1], np.diff(offsets)) + rank - 1
    best = np.full(len(score) + 1, -np.inf)
    np.maximum.at(best, group, score)
    out: Floats = best[group]
    return out


def _centred(values: Floats, slots: Slots) -> Floats:
    """Return values less their mean in each instance."""
    mean = np.bincount(slots.instance, values, len(slots)) / np.maximum(slots.sizes, 1)
    out: Floats = values - mean[slots.instance]
    return out


def _numbered_names(names: Sequence[str]) -> list[str]:
    """Return names with a number after repeated ones.

    >>> _numbered_names(["crf", "rrf", "crf"])
    ['crf', 'rrf', 'crf 2']
    """
    return [name if names.index(name) == n else f"{name} {names[: n + 1].count(name)}" for n, name in enumerate(names)]


class _HeldOutScores:
    """The held-out scores by fold and member, filled in by several threads, with their checkpoint."""

    def __init__(self, file: CheckpointFile | None, preferences: Votes, folds: Sequence[Ints], n_members: int) -> None:
        offsets = preferences.slots.offsets
        self._file = file
        self._slots = [ranges(offsets[fold], offsets[fold + 1]) for fold in folds]
        self._lock = Lock()
        self.scores = np.full((preferences.slots.n_slots, n_members), np.nan)
        self.done: Bools = np.zeros((len(folds), n_members), dtype=np.bool_)
        found = None if file is None else file.read()
        if found is not None:
            self.scores, self.done = found[1]["scores"].copy(), found[1]["done"].copy()

    def unfinished(self) -> list[tuple[int, int]]:
        """Return the pairs of fold and member without scores, fold by fold."""
        return [(fold, m) for fold, m in np.argwhere(~self.done).tolist()]

    def take(self, fold: int, member: int, score: Floats) -> None:
        """Keep the scores of a member for the instances of a fold."""
        with self._lock:
            self.scores[self._slots[fold], member] = score
            self.done[fold, member] = True
            if self._file is not None and self._file.due:
                self._write(self._file)

    def write(self) -> None:
        """Write the finished scores to the checkpoint, if one is open."""
        with self._lock:
            if self._file is not None and self.done.any():
                self._write(self._file)

    def _write(self, file: CheckpointFile) -> None:
        file.write({}, {"scores": self.scores, "done": self.done})


class _WeightLoss(NamedTuple):
    """The listwise loss of weighted sums of z-scores, on the instances of the folds.

    Attributes
    ----------
    offsets : int64[instances + 1]
        Offsets of the slots of every instance. Instances are sorted by id, and their slots by target and z-scores, so
        that sums do not depend on the order of the data.
    z : float64[slots, members]
        The z-scores.
    target : float64[slots]
        The shares of the gain; NaN for slots that are left out.
    folds : int64[instances]
        The fold of every instance.
    """

    offsets: Ints
    z: Floats
    target: Floats
    folds: Ints

    @classmethod
    def of(cls, scores: Floats, target: Floats, preferences: Votes, folds: Sequence[Ints]) -> _WeightLoss:
        """Return the loss for these held-out scores."""
        slots, ids = preferences.slots, preferences.instances
        fold_of = {int(n): f for f, fold in enumerate(folds) for n in fold}
        instances = np.array(sorted(fold_of, key=ids.__getitem__), dtype=np.int64)
        offsets = offsets_of(slots.sizes[instances])
        own = ranges(slots.offsets[instances], slots.offsets[instances + 1])
        z = np.column_stack([standardise_within(column, offsets) for column in scores[own].T])
        place = np.repeat(np.arange(len(instances)), np.diff(offsets))
        order = np.lexsort((*z.T[::-1], target[own], place))
        fold = np.array([fold_of[n] for n in instances.tolist()], dtype=np.int64)
        return cls(offsets, np.ascontiguousarray(z[order]), target[own][order], fold)

    def value(self, w: Floats, l2: float, instances: Ints) -> tuple[float, Floats]:
        """Return the penalised mean loss of some instances and its gradient."""
        from concordant.kernels.listwise import cross_entropy

        gradient = np.zeros((1, len(w)))
        loss = cross_entropy(*self._rows(), w[None, :], self.target, instances, gradient)
        deviation = w - w.mean()
        n = max(len(instances), 1)
        penalty = 0.5 * l2 * float(deviation @ deviation) + 0.5 * _RIDGE * float(w @ w)
        return loss / n + penalty, gradient[0] / n + l2 * deviation + _RIDGE * w

    def hessian(self, w: Floats, l2: float, instances: Ints) -> Floats:
        """Return the second derivatives of the penalised mean loss."""
        from concordant.kernels.listwise import hessian

        out = np.zeros((len(w), len(w)))
        hessian(*self._rows(), w[None, :], self.target, instances, out)
        return out / max(len(instances), 1) + (l2 + _RIDGE) * np.eye(len(w)) - l2 / len(w)

    def _rows(self) -> tuple[Ints, Ints, Codes, Floats]:
        """Return the z-scores in the form of the kernels: one row for each slot, all of block 0."""
        return self.offsets, np.arange(len(self.z) + 1), np.zeros(len(self.z), dtype=np.int32), self.z

    def minimum(self, l2: float, instances: Ints) -> Floats:
        """Return the weights >= 0 that minimise the penalised loss."""
        start = np.full(self.z.shape[1], 1.0 / self.z.shape[1])
        found = minimise(lambda w: self.value(w, l2, instances), start, options=_SOLVER, bounds=(0.0, None))
        w = np.maximum(found.x, 0.0)
        # Newton steps in the weights above 0 make the result independent of the path of the solver, up to rounding.
        for _ in range(_NEWTON_STEPS):
            free = w > 0
            gradient = self.value(w, l2, instances)[1][free]
            w[free] -= np.linalg.solve(self.hessian(w, l2, instances)[np.ix_(free, free)], gradient)
            w = np.maximum(w, 0.0)
        return w


def _select_penalty(
    problem: _WeightLoss, scores: Floats, slots: Slots, folds: Sequence[Ints], metric: ValidationMetric
) -> float:
    """Return the strongest penalty whose held-out metric is below the best by at most one paired standard error.

    The loss does not serve here: every item of an instance changes it a little, so its differences may be many
    standard errors wide although the order of the first items is the same.
    """
    # Instances outside the folds have no held-out scores.
    z = np.column_stack([standardise_within(np.nan_to_num(column), slots.offsets) for column in scores.T])
    values = []
    for l2 in _PENALTIES:
        total = np.zeros(len(z))
        for fold, instances in enumerate(folds):
            own = ranges(slots.offsets[instances], slots.offsets[instances + 1])
            total[own] = z[own] @ problem.minimum(l2, np.flatnonzero(problem.folds != fold))
        values.append(metric.values(_with_exact_ties(total, slots.offsets))[np.concatenate(folds)])
    best = int(np.argmax([round(float(value.mean()), 12) for value in values]))
    lost = [values[best] - value for value in values]
    allowed = [
        l2 for l2, own in zip(_PENALTIES, lost, strict=True) if own.mean() <= own.std(ddof=1) / np.sqrt(len(own))
    ]
    return max(allowed)
