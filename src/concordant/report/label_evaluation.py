"""What labels say: how good each method is, on instances it did not learn from, and where learning mattered.

Methods that read no labels are evaluated as they are. Those that learn are fitted without the instances they are
tested on; pairs of values are of the same instances, so that every test is paired.
"""

from __future__ import annotations

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
from concordant.metrics.evaluation import Evaluation, evaluate, expert_consensus
from concordant.report._plot_data import mean_curve, values_by_cutoff
from concordant.report.method_results import MethodResult, NamedMethod, Votes, collect_warnings
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
    """What is measured, what of it is shown, and what rows are ordered by."""

    metrics: tuple[str, ...]
    shown: tuple[str, ...]
    main: str


# LETOR's script gives an instance with fewer items than the cut-off 0, so that it is kept where most have enough.
_METRIC_SETS = {"letor": _MetricSet(("ndcg@1-5", "p@5", "map"), ("ndcg@1", "ndcg@3", "ndcg@5", "p@5", "map"), "ndcg@5")}
_DEFAULT_METRICS = _MetricSet(("ndcg@1-10", "p@10", "map"), ("ndcg@1", "ndcg@5", "ndcg@10", "p@10", "map"), "ndcg@10")
# Five folds; two where there is so much that half of it teaches as well.
_FOLDS, _FEW_FOLDS, _MUCH = 5, 2, 400_000
# Fewer labelled instances than this cannot be learned from and tested on.
_FEWEST = 10
# Held out of every training part to choose penalties and passes by.
_HELD_OUT = 0.2
_RESAMPLES = 2000
_EXPERTS_ALONE = 60
_CASES = 6
_CASE_ITEMS, _CASE_EXPERTS = 8, 12
# Differences of a metric that are none.
_SAME = 1e-9


class LeaderboardCell(NamedTuple):
    """A mean of a metric, its difference to the baseline with interval and corrected p-value, and what that says."""

    mean: float
    difference: float | None
    lower: float | None
    upper: float | None
    p: float | None
    sign: int
    best: bool


class LeaderboardRow(NamedTuple):
    """A method, or an expert alone, against the labels; `kind` is "method", "learned" or "expert"."""

    name: str
    kind: str
    cells: dict[str, LeaderboardCell]


class MetricCurve(NamedTuple):
    """A metric by cut-off: values and the ends of their intervals."""

    name: str
    x: list[int]
    y: list[float]
    low: list[float] | None
    high: list[float] | None


class ExpertContribution(NamedTuple):
    """What one expert said about two items, and what the learned model made of it.

    `adds` is by how much the expert lifts the first item above the second, in units of the score.
    """

    expert: str
    chosen_rank: int | None
    replaced_rank: int | None
    amount: float


@dataclass(frozen=True)
class CaseStudy:
    """An instance where the equal vote was wrong and the learned model right.

    Attributes
    ----------
    instance : str
        Which.
    learned_value, equal_value : float
        The main metric of both.
    chosen, dethroned : str
        The item that the learned model puts first, and the one that the equal vote does.
    chosen_label, dethroned_label : float
        Their labels.
    for_chosen, for_dethroned : int
        How many experts put the one above the other, in the lists that tell.
    voices : list of Voice
        Experts, the strongest first.
    others : float
        What the experts who are not listed add together.
    items : list of str
        The best items of both.
    experts : list of str
        Those who answered, in the order of `voices`.
    ranks : list of lists of int or None
        items × experts, the rank in the expert's list.
    learned_rank, equal_rank : lists of int
        Of the items.
    labels : list of float or None
        Of the items.
    text : str
        What happened, in words.
    """

    instance: str
    learned_value: float
    baseline_value: float
    chosen: str
    replaced: str
    chosen_label: float
    replaced_label: float
    for_chosen: int
    for_replaced: int
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
    """What the labels say.

    Attributes
    ----------
    metrics : list of str
        The columns of the leaderboard.
    main : str
        The metric by which rows are ordered.
    baseline : str
        What the others are tested against.
    rows : list of Row
        Methods, and the best and the middle expert alone.
    instances : int
        How many were evaluated.
    how : list of str
        How the figures came about.
    lines : list of Line
        NDCG by cut-off.
    values : dict of str to dict of str to float
        Row name -> instance -> the main metric.
    learned : str or None
        The best method that learns.
    better, equal, worse : int
        In how many instances it is better than the baseline, the same, worse.
    first_better, first_worse : int
        In how many instances its first item has a higher label than that of the baseline, and in how many a lower one.
    cases : list of Case
        Where it was right and the equal vote wrong.
    weights : dict of str to dict of str to float
        Learned method -> expert -> adherence, the mean over the folds.
    expert_values : dict of str to float
        Expert -> the mean of the main metric of its own lists.
    consensus : dict of str to Consensus
        Learned method -> every instance as predicted without having seen it.
    left_out : dict of str to str
        Methods that could not be tested, and why.
    unjudged : float
        The share of the ten best items of the baseline that have no label.
    warnings : list of str
        What was said on the way.
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
    """Return how good the methods are against labels.

    Parameters
    ----------
    votes : Preferences or Comparisons
        What the experts said.
    labels : Labels
        The truth, matched by id.
    opinions : list of Opinion
        What methods that read no labels say; the first is the baseline.
    learners : list of Asked
        Methods that learn from labels: fitted fold by fold, and tested on instances they did not see.
    convention : {"trec", "letor", "paper"}
        Whose rules the metrics follow.
    folds : list of Fold, optional
        Given folds; without them five are made.
    say : callable
        Is told what is being done.
    """
    metric_set = _METRIC_SETS.get(convention, _DEFAULT_METRICS)
    main = metric_set.main
    labels = labels_of(labels, votes.instances)
    said: list[str] = []
    left_out: dict[str, str] = {}
    known = int(labelled(votes, labels).sum())
    given = are_given_folds(folds)
    parts = folds if given else _FOLDS if votes.n_rows <= _MUCH else _FEW_FOLDS
    found: dict[str, CrossValidation] = {}
    for named in learners:
        if known < _FEWEST and not given:
            left_out[named.label] = f"learns from labels, and only {known} instances have any"
            continue
        progress(f"learning with {named.label}")
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
            f"methods that learn: fitted to the train part of {len(folds)} given folds, chosen on vali, tested on test"
        )
    elif found:
        how.append(
            f"methods that learn: {parts}-fold cross-validation, fitted without the instances they are tested on"
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
    """Return the values of the instances of a cross-validation, in its order and folds."""
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
    """Return every expert's own lists against the labels; an instance it did not answer counts 0."""
    if not isinstance(votes, Preferences) or votes.n_experts > _EXPERTS_ALONE:
        return {}
    out = {}
    lists = np.bincount(votes.list_expert, minlength=votes.n_experts)
    quietly: list[str] = []
    for e, name in enumerate(votes.experts):
        if lists[e] == 0:
            continue
        with collect_warnings(quietly):
            found = evaluate(
                expert_consensus(votes, name),
                labels,
                metric_set.metrics,
                convention=convention,
                instances=labels.instances,
            )
        out[name] = _align(found, reference)
    return out


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
        chosen = {"best": order[0]} | ({"middle": order[len(order) // 2]} if len(order) > 2 else {})
        for word, name in chosen.items():
            label = f"{shorten(name, 60)} ({word} expert alone)"
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
            f"tested against {baseline}: {TESTS['t']}, two-sided, at 5 %, with Holm's correction over the "
            f"{len(every) - 1} others, metric by metric"
        )
        how.append(
            f"95% intervals: bootstrap over instances ({_RESAMPLES:,} draws), each for itself and not corrected: one "
            "may leave out 0 where the corrected test does not reject"
        )
    if experts:
        how.append("the best expert was chosen by these very labels, which flatters it")
    return rows, how


def _curve(name: str, evaluation: Evaluation) -> MetricCurve:
    points, folds, _ = values_by_cutoff(evaluation, "ndcg", name)
    drawn = mean_curve(points, folds, 0.95)
    low, high = (None if end is None else end.tolist() for end in (drawn.low, drawn.high))
    return MetricCurve(name, [int(x) for x in drawn.x], drawn.y.tolist(), low, high)


def _weights(cv: CrossValidation) -> dict[str, float]:
    """Return the adherence of every expert, the mean over the folds."""
    total: dict[str, list[float]] = {}
    for run in cv.runs:
        learned = run.method.learned_experts()
        for expert, weight in zip(learned.get("expert", ()), learned.get("weight", ()), strict=True):
            total.setdefault(expert, []).append(float(weight))
    return {expert: float(np.mean(w)) for expert, w in total.items()}


def _unjudged(consensus: Consensus | None, labels: Labels) -> float:
    if consensus is None or consensus.n_slots == 0:
        return 0.0
    own = consensus.top(10)
    own = own[np.array([i for i, name in enumerate(own.instances) if name in labels.instances.codes], dtype=np.int64)]
    at = own.slots.locate(labels.slots)
    known = (at >= 0) & ~np.isnan(labels.label[np.maximum(at, 0)])
    return float(1 - known.mean()) if len(known) else 0.0


def _labels_in(labels: Labels, instance: str) -> dict[str, float]:
    n = labels.instances.codes[instance]
    a, b = int(labels.slots.offsets[n]), int(labels.slots.offsets[n + 1])
    return dict(zip(labels.items[a:b].tolist(), labels.label[a:b].tolist(), strict=True))


def _compare_first_items(
    labels: Labels, learned: Consensus, baseline: Consensus, instances: Sequence[str]
) -> tuple[int, int]:
    """Return in how many instances the learned model puts an item with a higher label first, and with a lower one."""
    better = worse = 0
    for instance in instances:
        label_of = _labels_in(labels, instance)
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
    """Return the instances where the learned order gains most, and puts a better item first."""
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
    """Return what happened in an instance; None where there is no story."""
    new, old = learned.ranking(instance), baseline.ranking(instance)
    label_of = _labels_in(labels, instance)
    chosen, replaced = new[0], old[0]
    if not label_of.get(chosen, 0.0) > label_of.get(replaced, 0.0):
        return None
    try:
        told = model.explain(votes, instance)
    except KindError:
        return None
    gaps = told.between(chosen, replaced)
    v = votes.instances.codes[instance]
    first, last = int(votes.list_starts[v]), int(votes.list_starts[v + 1])
    rows = slice(int(votes.list_offsets[first]), int(votes.list_offsets[last]))
    names = votes.items.take(votes.slot[rows]).tolist()
    who = votes.experts.take(votes.row_expert[rows]).tolist()
    rank = {(expert, item): int(r) for expert, item, r in zip(who, names, place[rows].tolist(), strict=True)}
    answered = votes.experts.take(votes.list_expert[first:last]).tolist()
    order = [x for x in gaps if x in set(answered)] + [x for x in answered if x not in gaps]
    above = sum(_above(rank.get((x, chosen)), rank.get((x, replaced))) for x in answered)
    below = sum(_above(rank.get((x, replaced)), rank.get((x, chosen))) for x in answered)
    contributions = [
        ExpertContribution(x, rank.get((x, chosen)), rank.get((x, replaced)), gaps.get(x, 0.0))
        for x in order[:_CASE_EXPERTS]
    ]
    items = list(dict.fromkeys([*new[:_CASE_ITEMS], *old[:3]]))
    of_learned, of_baseline = _ranks_in(learned, instance), _ranks_in(baseline, instance)
    supporting = [x for x in contributions if x.amount > 0][:2]
    opposing = [x for x in contributions if x.amount < 0][:1]
    text = (
        f"{above} {'expert puts' if above == 1 else 'experts put'} the right item above the other, {below} the other "
        "way round"
    )
    if below > above:
        text += ": the majority was wrong"
    if supporting:
        text += f". The model listened to {_called(supporting)}"
        text += f", against {shorten(opposing[0].expert, 40)}" if opposing else ""
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
        for_chosen=above,
        for_replaced=below,
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


def _called(contributions: list[ExpertContribution]) -> str:
    names = [shorten(contribution.expert, 40) for contribution in contributions]
    return f"expert{'s' if len(names) > 1 else ''} {' and '.join(names)}"


def _above(one: int | None, other: int | None) -> bool:
    """Return whether an item stands above another in a list; one that is left out stands behind."""
    return one is not None and (other is None or one < other)


def _ranks_in(consensus: Consensus, instance: str) -> dict[str, int]:
    n = consensus.instances.codes[instance]
    a, b = int(consensus.slots.offsets[n]), int(consensus.slots.offsets[n + 1])
    return dict(zip(consensus.items[a:b].tolist(), consensus.rank[a:b].tolist(), strict=True))
