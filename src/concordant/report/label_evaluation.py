"""Evaluation of the methods against labels: metrics, paired tests, and instances that learned weights correct.

Methods that read no labels are evaluated as they are. Supervised methods are cross-validated, so that no instance is
evaluated by a model that was fitted to it. All values are of the same instances, so that every test is paired.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from concordant.arrays import Floats
from concordant.data.consensus import Consensus
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import ConcordantError, KindError, shorten
from concordant.metrics.comparison import TESTS, compare
from concordant.metrics.evaluation import Evaluation, evaluate, evaluate_experts
from concordant.report._instances import rank_table, values_by_item
from concordant.report._plot_data import mean_curve, values_by_cutoff
from concordant.report.method_results import MethodResult, NamedMethod, Votes, collect_warnings
from concordant.report.wording import listed
from concordant.selection.cross_validation import CrossValidation, cross_validate
from concordant.selection.folds import are_given_folds, labelled, labels_of

__all__ = [
    "CaseStudy",
    "LeaderboardCell",
    "MetricCurve",
    "LeaderboardRow",
    "LabelEvaluation",
    "ExpertContribution",
    "evaluate_methods",
]


class _MetricSet(NamedTuple):
    """The metrics to compute, the columns to show, and the metric that orders the rows."""

    metrics: tuple[str, ...]
    shown: tuple[str, ...]
    main: str


# LETOR's script gives 0 to instances with fewer items than the cut-off, so its cut-offs stay low.
_METRIC_SETS = {"letor": _MetricSet(("ndcg@1-5", "p@5", "map"), ("ndcg@1", "ndcg@3", "ndcg@5", "p@5", "map"), "ndcg@5")}
_DEFAULT_METRICS = _MetricSet(("ndcg@1-10", "p@10", "map"), ("ndcg@1", "ndcg@5", "ndcg@10", "p@10", "map"), "ndcg@10")
# Five folds; two above this many rows, where half of the data is enough to learn from.
_FOLDS, _FEW_FOLDS, _MANY_ROWS = 5, 2, 400_000
# Supervised methods need at least this many labelled instances.
_MIN_LABELLED = 10
# Share of each training part that is held out to choose penalties and passes.
_HELD_OUT = 0.2
_RESAMPLES = 2000
_EXPERTS_ALONE = 60
_CASES = 6
_CASE_ITEMS, _CASE_EXPERTS = 8, 12
# Smaller differences of a metric are rounding.
_SAME = 1e-9


class LeaderboardCell(NamedTuple):
    """Mean of a metric, its difference to the baseline with interval and corrected p-value, and the verdict.

    `sign` is 1 for significantly better, -1 for significantly worse, else 0.
    """

    mean: float
    difference: float | None
    lower: float | None
    upper: float | None
    p: float | None
    sign: int
    best: bool


class LeaderboardRow(NamedTuple):
    """A method or a single expert against the labels; `kind` is "method", "learned" or "expert"."""

    name: str
    kind: str
    cells: dict[str, LeaderboardCell]


class MetricCurve(NamedTuple):
    """A metric by cut-off, with the ends of its intervals."""

    name: str
    x: list[int]
    y: list[float]
    low: list[float] | None
    high: list[float] | None


class ExpertContribution(NamedTuple):
    """How much one expert contributes to the score difference of two items.

    `amount` is the contribution to the score of the chosen item minus that of the replaced item. The ranks are those of
    the two items in the list of the expert.
    """

    expert: str
    chosen_rank: int | None
    replaced_rank: int | None
    amount: float


@dataclass(frozen=True)
class CaseStudy:
    """An instance where a supervised method puts a better item first than the baseline.

    Attributes
    ----------
    instance : str
        Id of the instance.
    learned_value, baseline_value : float
        The main metric of both methods.
    chosen, replaced : str
        The first item of the supervised method and the first item of the baseline.
    chosen_label, replaced_label : float
        Their labels.
    contributions : list of ExpertContribution
        The experts, largest contribution first.
    others : float
        Total contribution of the experts who are not listed.
    items : list of str
        The best items of both methods.
    experts : list of str
        Experts with a list, in the order of `contributions`.
    ranks : list of lists of int or None
        Rank of each item in the list of each expert.
    learned_rank, baseline_rank : lists of int
        Rank of each item by both methods.
    labels : list of float or None
        Label of each item.
    text : str
        A short description.
    """

    instance: str
    learned_value: float
    baseline_value: float
    chosen: str
    replaced: str
    chosen_label: float
    replaced_label: float
    contributions: list[ExpertContribution]
    others: float
    items: list[str]
    experts: list[str]
    ranks: list[list[int | None]]
    learned_rank: list[int]
    baseline_rank: list[int]
    labels: list[float | None]
    text: str


@dataclass(frozen=True)
class LabelEvaluation:
    """Results of all methods against the labels.

    Attributes
    ----------
    metrics : list of str
        The columns of the leaderboard.
    main : str
        The metric that orders the rows.
    baseline : str
        The method that the others are tested against.
    rows : list of LeaderboardRow
        The methods, and the best and the median single expert.
    instances : int
        Number of evaluated instances.
    how : list of str
        How the figures were computed.
    curves : list of MetricCurve
        NDCG by cut-off.
    values : dict of str to dict of str to float
        Row name -> instance -> main metric.
    learned : str or None
        The best supervised method.
    better, equal, worse : int
        Number of instances where it is better than the baseline, equal, worse.
    first_better, first_worse : int
        Number of instances where its first item has a higher label than that of the baseline, and a lower one.
    cases : list of CaseStudy
        Instances where it gains most and puts a better item first.
    weights : dict of str to dict of str to float
        Supervised method -> expert -> weight, the mean over the folds.
    expert_values : dict of str to float
        Expert -> mean of the main metric of its own lists.
    consensus : dict of str to Consensus
        Supervised method -> out-of-fold predictions of all instances.
    left_out : dict of str to str
        Methods that could not be evaluated, and why.
    unjudged : float
        Share of the top 10 items of the baseline that have no label.
    warnings : list of str
        Warnings of the methods and of the evaluation.
    """

    metrics: list[str]
    main: str
    baseline: str
    rows: list[LeaderboardRow]
    instances: int
    how: list[str]
    curves: list[MetricCurve]
    values: dict[str, dict[str, float]]
    learned: str | None
    better: int
    equal: int
    worse: int
    first_better: int
    first_worse: int
    cases: list[CaseStudy]
    weights: dict[str, dict[str, float]]
    expert_values: dict[str, float]
    consensus: dict[str, Consensus]
    left_out: dict[str, str]
    unjudged: float
    warnings: list[str]


def evaluate_methods(
    votes: Votes,
    labels: Labels,
    results: Sequence[MethodResult],
    learners: Sequence[NamedMethod],
    *,
    convention: str = "trec",
    folds: Any = None,
    progress: Callable[[str], None] = lambda _: None,
) -> LabelEvaluation:
    """Evaluate methods against labels and test their differences to the first one.

    Parameters
    ----------
    votes : Preferences or Comparisons
        The rankings or votes.
    labels : Labels
        Relevance labels, matched by id.
    results : list of MethodResult
        Methods that read no labels. The first is the baseline.
    learners : list of NamedMethod
        Supervised methods, to be cross-validated.
    convention : {"trec", "letor", "paper"}
        Convention of the metrics.
    folds : list of Fold, optional
        Given folds; by default five are made.
    progress : callable
        Called with a description of each step.
    """
    metric_set = _METRIC_SETS.get(convention, _DEFAULT_METRICS)
    main = metric_set.main
    labels = labels_of(labels, votes.instances)
    said: list[str] = []
    left_out: dict[str, str] = {}
    known = int(labelled(votes, labels).sum())
    given = are_given_folds(folds)
    parts = folds if given else _FOLDS if votes.n_rows <= _MANY_ROWS else _FEW_FOLDS
    found: dict[str, CrossValidation] = {}
    for named in learners:
        if known < _MIN_LABELLED and not given:
            left_out[named.label] = f"it learns from labels, and only {known} instances have any"
            continue
        progress(f"fitting {named.label}")
        try:
            with collect_warnings(said):
                found[named.label] = cross_validate(
                    named.method,
                    votes,
                    labels,
                    metrics=metric_set.metrics,
                    folds=parts,
                    validation_part=None if given else _HELD_OUT,
                    convention=convention,
                )
        except ConcordantError as error:
            left_out[named.label] = " ".join(str(error).split())
    reference = next(iter(found.values()), None)
    plain = {
        o.label: _align(_evaluated(o.consensus, labels, convention, metric_set, said), reference)
        for o in results
        if o.consensus is not None
    }
    experts = _experts(votes, labels, convention, metric_set, reference)
    baseline = next(iter(plain))
    rows, how = _rows(plain, found, experts, baseline, metric_set)
    evaluations: dict[str, Evaluation] = plain | found
    if given and found:
        how.append(
            f"supervised methods: fitted to the training part of {len(folds)} given folds, tuned on the validation "
            "part, evaluated on the test part"
        )
    elif found:
        how.append(
            f"supervised methods: {parts}-fold cross-validation; no instance is evaluated by a model fitted to it"
        )
    learned = max(found, key=lambda name: found[name].mean[main], default=None)
    better = equal = worse = first_better = first_worse = 0
    cases: list[CaseStudy] = []
    predicted = {name: cv.consensus for name, cv in found.items() if _tested_once(cv)}
    if learned is not None:
        gain = found[learned].values[main] - plain[baseline].values[main]
        better, worse = int((gain > _SAME).sum()), int((gain < -_SAME).sum())
        equal = len(gain) - better - worse
        first = next(o.consensus for o in results if o.label == baseline)
        if learned in predicted and first is not None:
            cases = _cases(votes, labels, found[learned], predicted[learned], first, gain, main)
            first_better, first_worse = _compare_first_items(
                labels, predicted[learned], first, found[learned].instances.tolist()
            )
    values = {
        name: dict(zip(e.instances.tolist(), (float(v) for v in e.values[main]), strict=True))
        for name, e in evaluations.items()
    }
    return LabelEvaluation(
        metrics=list(metric_set.shown),
        main=main,
        baseline=baseline,
        rows=rows,
        instances=len(plain[baseline]),
        how=how,
        curves=[_curve(name, e) for name, e in evaluations.items()],
        values=values,
        learned=learned,
        better=better,
        equal=equal,
        worse=worse,
        first_better=first_better,
        first_worse=first_worse,
        cases=cases,
        weights={name: w for name, cv in found.items() if (w := _weights(cv))},
        expert_values={name: e.mean[main] for name, e in experts.items()},
        consensus=predicted,
        left_out=left_out,
        unjudged=_unjudged(results[0].consensus, labels),
        warnings=said,
    )


def _evaluated(
    consensus: Consensus, labels: Labels, convention: str, metric_set: _MetricSet, said: list[str]
) -> Evaluation:
    with collect_warnings(said):
        return evaluate(consensus, labels, metric_set.metrics, convention=convention)


def _align(evaluation: Evaluation, reference: Evaluation | None) -> Evaluation:
    """Return the evaluation with the instances, order and folds of a cross-validation."""
    if reference is None:
        return evaluation
    at = evaluation.instances.codes
    index = np.array([at[i] for i in reference.instances], dtype=np.int64)
    values = {name: v[index] for name, v in evaluation.values.items()}
    return Evaluation(values, reference.instances, evaluation.convention, evaluation.rel, reference.folds, ())


def _tested_once(cv: CrossValidation) -> bool:
    tested = [i for run in cv.runs for i in run.consensus.instances]
    return len(set(tested)) == len(tested)


def _experts(
    votes: Votes, labels: Labels, convention: str, metric_set: _MetricSet, reference: Evaluation | None
) -> dict[str, Evaluation]:
    """Evaluate the lists of every expert; an instance without a list counts 0."""
    if not isinstance(votes, Preferences) or votes.n_experts > _EXPERTS_ALONE:
        return {}
    measured = evaluate_experts(votes, labels, metric_set.metrics, convention=convention, instances=labels.instances)
    return {name: _align(evaluation, reference) for name, evaluation in measured.found.items()}


def _rows(
    plain: dict[str, Evaluation],
    found: dict[str, CrossValidation],
    experts: dict[str, Evaluation],
    baseline: str,
    metric_set: _MetricSet,
) -> tuple[list[LeaderboardRow], list[str]]:
    kinds = dict.fromkeys(plain, "method") | dict.fromkeys(found, "learned")
    every: dict[str, Evaluation] = {**plain, **found}
    if experts:
        order = sorted(experts, key=lambda name: -experts[name].mean[metric_set.main])
        chosen = {"best": order[0]} | ({"median": order[len(order) // 2]} if len(order) > 2 else {})
        for word, name in chosen.items():
            label = f"{shorten(name, 60)} ({word} single expert)"
            every[label] = experts[name]
            kinds[label] = "expert"
    n = len(every[baseline])
    tests = ["t"] if n > 2 and len(every) > 1 else []
    table = compare(every, metrics=list(metric_set.shown), baseline=baseline, tests=tests, n_resamples=_RESAMPLES)
    sign = table.significant() if tests else np.zeros(table.mean.shape, dtype=np.int8)
    rows = []
    for m, name in enumerate(table.methods):
        cells = {}
        for q, metric in enumerate(table.metrics):
            tested = bool(tests) and name != baseline
            cells[metric] = LeaderboardCell(
                float(table.mean[m, q]),
                float(table.difference[m, q]) if tested else None,
                float(table.lower[m, q]) if tested else None,
                float(table.upper[m, q]) if tested else None,
                float(table.adjusted["t"][m, q]) if tested else None,
                int(sign[m, q]),
                bool(table.best[m, q]),
            )
        rows.append(LeaderboardRow(name, kinds[name], cells))
    rows.sort(key=lambda row: -row.cells[metric_set.main].mean)
    how = [every[baseline].legend]
    if tests:
        how.append(
            f"tests against {baseline}: {TESTS['t']}, two-sided, 5 % level, Holm's correction over the other "
            f"{len(every) - 1} rows for each metric"
        )
        how.append(
            f"95% intervals: bootstrap over instances ({_RESAMPLES:,} resamples), not corrected for several tests, so "
            "that one may exclude 0 where the corrected test is not significant"
        )
    if experts:
        how.append("the best expert was chosen with the same labels, so its value is too high on average")
    return rows, how


def _curve(name: str, evaluation: Evaluation) -> MetricCurve:
    points, folds, _ = values_by_cutoff(evaluation, "ndcg", name)
    drawn = mean_curve(points, folds, 0.95)
    low, high = (None if end is None else end.tolist() for end in (drawn.low, drawn.high))
    return MetricCurve(name, [int(x) for x in drawn.x], drawn.y.tolist(), low, high)


def _weights(cv: CrossValidation) -> dict[str, float]:
    """Return the weight of every expert, averaged over the folds."""
    total: dict[str, list[float]] = {}
    for run in cv.runs:
        learned = run.method.learned_experts()
        if "weight" not in learned:
            continue
        for expert, weight in zip(learned["expert"], learned["weight"], strict=True):
            total.setdefault(expert, []).append(float(weight))
    return {expert: float(np.mean(w)) for expert, w in total.items()}


def _unjudged(consensus: Consensus | None, labels: Labels) -> float:
    if consensus is None or consensus.n_slots == 0:
        return 0.0
    own = consensus.top(10)
    own = own[np.array([i for i, name in enumerate(own.instances) if name in labels.instances.codes], dtype=np.int64)]
    return float(np.isnan(labels.align(own).label).mean()) if own.n_slots else 0.0


def _compare_first_items(
    labels: Labels, learned: Consensus, baseline: Consensus, instances: Sequence[str]
) -> tuple[int, int]:
    """Return the number of instances whose first item has a higher label than that of the baseline, and a lower one."""
    better = worse = 0
    for instance in instances:
        label_of = values_by_item(labels, instance, labels.label)
        new, old = (label_of.get(c.ranking(instance)[0], 0.0) for c in (learned, baseline))
        better, worse = better + (new > old), worse + (new < old)
    return better, worse


def _cases(
    votes: Votes,
    labels: Labels,
    cv: CrossValidation,
    learned: Consensus,
    baseline: Consensus,
    gain: Floats,
    main: str,
) -> list[CaseStudy]:
    """Return the instances with the largest gain among those with a better first item."""
    if not isinstance(votes, Preferences):
        return []
    model = {i: run.method for run in cv.runs if run.seed == cv.runs[0].seed for i in run.consensus.instances}
    place = votes.positions("min")
    out: list[CaseStudy] = []
    for i in np.argsort(-gain, kind="stable").tolist():
        if gain[i] <= _SAME or len(out) == _CASES:
            break
        value = float(cv.values[main][i])
        values = (value, value - float(gain[i]))
        case = _case(votes, place, labels, model[cv.instances[i]], learned, baseline, cv.instances[i], values)
        if case is not None:
            out.append(case)
    return out


def _case(
    votes: Preferences,
    place: Floats,
    labels: Labels,
    model: Any,
    learned: Consensus,
    baseline: Consensus,
    instance: str,
    values: tuple[float, float],
) -> CaseStudy | None:
    """Compare the first items of both methods in an instance; None where the new one has no higher label."""
    new, old = learned.ranking(instance), baseline.ranking(instance)
    label_of = values_by_item(labels, instance, labels.label)
    chosen, replaced = new[0], old[0]
    if not label_of.get(chosen, 0.0) > label_of.get(replaced, 0.0):
        return None
    try:
        explanation = model.explain(votes, instance)
    except KindError:
        return None
    gaps = explanation.between(chosen, replaced)
    v = votes.instances.codes[instance]
    table, experts = rank_table(votes, v, place)
    answered = votes.experts.take(experts).tolist()
    start, end = int(votes.slots.offsets[v]), int(votes.slots.offsets[v + 1])
    rank = {
        (expert, item): int(r)
        for item, row in zip(votes.items[start:end].tolist(), table.tolist(), strict=True)
        for expert, r in zip(answered, row, strict=True)
        if not math.isnan(r)
    }
    order = [x for x in gaps if x in set(answered)] + [x for x in answered if x not in gaps]
    above = sum(_above(rank.get((x, chosen)), rank.get((x, replaced))) for x in answered)
    below = sum(_above(rank.get((x, replaced)), rank.get((x, chosen))) for x in answered)
    contributions = [
        ExpertContribution(x, rank.get((x, chosen)), rank.get((x, replaced)), gaps.get(x, 0.0))
        for x in order[:_CASE_EXPERTS]
    ]
    items = list(dict.fromkeys([*new[:_CASE_ITEMS], *old[:3]]))
    of_learned, of_baseline = (values_by_item(c, instance, c.rank) for c in (learned, baseline))
    supporting = [x for x in contributions if x.amount > 0][:2]
    opposing = [x for x in contributions if x.amount < 0][:1]
    higher = "expert ranks" if above == 1 else "experts rank"
    text = f"{above} {higher} the better item higher, {below} the other item"
    if below > above:
        text += ": the majority was wrong"
    if supporting:
        text += f". The largest contributions come from {listed([x.expert for x in supporting], word='expert')}"
        text += f", against {listed([opposing[0].expert], word='expert')}" if opposing else ""
    text += "."
    shown = order[:_CASE_EXPERTS]
    return CaseStudy(
        instance=instance,
        learned_value=values[0],
        baseline_value=values[1],
        chosen=chosen,
        replaced=replaced,
        chosen_label=label_of.get(chosen, 0.0),
        replaced_label=label_of.get(replaced, 0.0),
        contributions=contributions,
        others=float(sum(gaps.values()) - sum(x.amount for x in contributions)),
        items=items,
        experts=shown,
        ranks=[[rank.get((x, item)) for x in shown] for item in items],
        learned_rank=[of_learned[item] for item in items],
        baseline_rank=[of_baseline[item] for item in items],
        labels=[label_of.get(item) for item in items],
        text=text,
    )


def _above(one: int | None, other: int | None) -> bool:
    """Return whether a rank is higher than another; items that a list leaves out stand behind."""
    return one is not None and (other is None or one < other)
