"""Evaluates a consensus, or the runs of experts, against labels: metrics for every instance, and the means.

Every labelled instance has a value, 0 if the consensus does not rank it. Instances without labels are left out. Items
without a label count as label 0, and labelled items that are not ranked stay in the denominators.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Floats, Ints
from concordant.data.consensus import Consensus
from concordant.data.container import counted, html_table
from concordant.data.index import Slots, Texts, as_ids, freeze
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import (
    ConcordantWarning,
    ContractError,
    DataError,
    DataWarning,
    KindError,
    ParameterError,
    listing,
    quote,
    warn,
)
from concordant.execution import prefetch, report_progress
from concordant.execution.blocks import Blocks
from concordant.kernels.lists import offsets_of, order_lists, ranges
from concordant.metrics.ranking import (
    Convention,
    InterpolatedPrecision,
    Judged,
    Metric,
    MetricLike,
    RankedLabels,
    convention_named,
    parse_metric,
    parse_metrics,
    place_items,
)

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Evaluation",
    "Evaluations",
    "Means",
    "ExpertEvaluations",
    "combine_folds",
    "evaluate",
    "evaluate_experts",
    "expert_consensus",
    "fold_means",
    "precision_at_recall",
    "rank_labels",
]

ELEVEN_POINTS = tuple(tenths / 10 for tenths in range(11))


class Means(dict[str, float]):
    """Metric name -> mean; any spelling of a name finds its metric.

    >>> means = Means({"map": 0.25, "ndcg@10": 0.5})
    >>> means["AP"], means["nDCG@10"]
    (0.25, 0.5)
    """

    def __missing__(self, key: Any) -> float:
        name = str(parse_metric(key))
        if name not in self:
            raise KeyError(f"{name} was not evaluated; there are {', '.join(self)}")
        return self[name]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The value of every metric for every instance. `print` shows the means and names the convention.

    Parameters
    ----------
    values : dict of str to float64[N]
        Metric name -> value of each instance.
    instances : Texts
        The N instance ids.
    convention : str
        "trec", "letor" or "paper".
    rel : float
        The smallest relevant label, unless the name of a metric gives another.
    folds : int32[N], optional
        The fold of each instance, from 0; the means are then means of fold means.
    notes : tuple of str
        Notes to print below the means.

    Attributes
    ----------
    mean : dict of str to float
        Metric name -> mean over the instances, or mean of the fold means.
    per_instance : Polars frame
        One row per instance, one column per metric; made on first use.
    """

    values: Mapping[str, Floats]
    instances: Texts
    convention: str
    rel: float = 1.0
    folds: Codes | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.instances)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics, in the order asked for."""
        return tuple(self.values)

    @cached_property
    def n_folds(self) -> int:
        """Number of folds; 1 where the instances were not split."""
        return 1 if self.folds is None else int(self.folds.max(initial=0)) + 1

    @cached_property
    def fold_means(self) -> dict[str, Floats]:
        """Metric name -> the mean of each fold."""
        return {name: freeze(fold_means(value, self.folds)) for name, value in self.values.items()}

    @cached_property
    def mean(self) -> Means:
        """Metric name -> mean over the instances, or mean of the fold means where there are folds."""
        return Means({name: float(m.mean()) for name, m in self.fold_means.items()})

    @property
    def spread(self) -> Mapping[str, float]:
        """Metric name -> standard deviation of the mean over the seeds; empty where there is one seed."""
        return {}

    @cached_property
    def per_instance(self) -> pl.DataFrame:
        """One row per instance (and its fold, counted from 1, where there are folds), one column per metric."""
        import polars as pl

        columns: dict[str, Any] = {"instance": pl.Series(self.instances.tolist(), dtype=pl.String)}
        if self.folds is not None:
            columns["fold"] = self.folds + 1
        return pl.DataFrame(columns | dict(self.values))

    def to_frame(self) -> pl.DataFrame:
        """Return the per-instance values as a Polars frame."""
        return self.per_instance

    def to_text(self, *, digits: int = 4, percent: bool = False) -> str:
        """Return the means as a small table that names the convention.

        Parameters
        ----------
        digits : int
            Digits after the point.
        percent : bool
            Show values times 100.
        """
        width = max([len(name) for name in self.values] + [6])
        scale = 100 if percent else 1
        lines = [f"{'metric':<{width}}  mean{' (%)' if percent else ''}"]
        lines += [f"{name:<{width}}  {scale * value:.{digits}f}" for name, value in self.mean.items()]
        lines.append(self.legend)
        return "\n".join(lines + [f"note: {note}" for note in self.notes])

    @property
    def legend(self) -> str:
        """Number of instances and convention, as one line of text."""
        over = counted(len(self), "instance")
        if self.folds is not None:
            over = f"mean of {self.n_folds} folds, {over}"
        relevant = f", relevant from label {self.rel:g}"
        return f"{over}; convention {self.convention}: {convention_named(self.convention).description}{relevant}"

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        rows = [(name, f"{value:.4f}") for name, value in self.mean.items()]
        return html_table(["metric", "mean"], rows, below=[self.legend, *(f"note: {note}" for note in self.notes)])


def fold_means(values: Floats, folds: Codes | None) -> Floats:
    """Return the mean of the values of each fold; one mean where there are no folds.

    Each mean is taken over the fold's own values only, so that it has the same bits as the evaluation of that fold.
    """
    if folds is None:
        return np.array([values.mean()])
    return np.array([values[folds == f].mean() for f in range(int(folds.max(initial=0)) + 1)])


class Evaluations(dict[str, Evaluation]):
    """Name of a run or method -> its evaluation, in the order given. `print` shows a table of the means."""

    def to_frame(self) -> pl.DataFrame:
        """Return the values as a Polars frame, one row per run and instance, one column per metric."""
        import polars as pl

        return pl.concat([e.per_instance.insert_column(0, pl.lit(name).alias("run")) for name, e in self.items()])

    def to_text(self, *, digits: int = 4, percent: bool = False) -> str:
        """Return the means as a table, one row per run, that names the convention."""
        if not self:
            return "no evaluation"
        scale, names = 100 if percent else 1, next(iter(self.values())).metrics
        rows = [["run", *names]]
        rows += [[name, *(f"{scale * e.mean[m]:.{digits}f}" for m in names)] for name, e in self.items()]
        width = [max(len(row[c]) for row in rows) for c in range(len(names) + 1)]
        lines = ["  ".join([row[0].ljust(width[0]), *map(str.rjust, row[1:], width[1:])]) for row in rows]
        legend, *notes = self._below()
        return "\n".join([*lines, f"{'percent; ' if percent else ''}{legend}", *notes])

    def _below(self) -> list[str]:
        """Return the lines below the table: the convention, and the notes."""
        notes = dict.fromkeys(f"note: {name}: {note}" for name, e in self.items() for note in e.notes)
        return [next(iter(self.values())).legend, *notes]

    def __repr__(self) -> str:
        return self.to_text()

    __str__ = __repr__

    def _repr_html_(self) -> str:
        names = next(iter(self.values())).metrics if self else ()
        rows = [(name, *(f"{e.mean[m]:.4f}" for m in names)) for name, e in self.items()]
        return html_table(["run", *names], rows, below=self._below() if self else ["no evaluation"])


Evaluable = Consensus | Preferences | Blocks | Evaluation


@overload
def evaluate(
    consensus: Consensus,
    labels: Labels,
    metrics: MetricLike | Iterable[MetricLike],
    *,
    convention: str = "trec",
    rel: float | None = None,
    skip_empty: bool = False,
    instances: Iterable[Any] | None = None,
) -> Evaluation: ...


@overload
def evaluate(
    consensus: Preferences | Blocks | Mapping[str, Consensus | Preferences | Blocks],
    labels: Labels,
    metrics: MetricLike | Iterable[MetricLike],
    *,
    convention: str = "trec",
    rel: float | None = None,
    skip_empty: bool = False,
    instances: Iterable[Any] | None = None,
) -> Evaluations: ...


def evaluate(
    consensus: Consensus | Preferences | Blocks | Mapping[str, Consensus | Preferences | Blocks],
    labels: Labels,
    metrics: MetricLike | Iterable[MetricLike],
    *,
    convention: str = "trec",
    rel: float | None = None,
    skip_empty: bool = False,
    instances: Iterable[Any] | None = None,
) -> Evaluation | Evaluations:
    """Evaluate a consensus, or the run of each expert, against labels: metrics for each instance and their means.

    Parameters
    ----------
    consensus : Consensus, Preferences, Blocks, or a mapping from name to them
        The consensus of a method. Preferences, in memory or in blocks, are evaluated expert by expert, each in its own
        order; experts without a list are left out with a warning. In a mapping, preferences of one expert have the name
        given there, those of several experts the names of the experts.
    labels : Labels
        The ground truth, matched by instance and item ids.
    metrics : str, Metric, or a list of them
        For example ``"ndcg@1-5,p@5,map"`` or ``[NDCG @ 10, "map"]``.
    convention : {"trec", "letor", "paper"}
        Rules of the metrics: those of trec_eval, of LETOR 4.0's script, or the formulas of the papers.
    rel : float, optional
        The smallest relevant label, for metrics without their own `rel`; 1 by default.
    skip_empty : bool
        Leave out instances without any relevant item instead of counting them 0.
    instances : ids, optional
        Evaluate only these.

    Returns
    -------
    Evaluation, or Evaluations
        Of a consensus: `.mean`, `.values`, `.per_instance`. Otherwise a dictionary of such evaluations by name.

    Notes
    -----
    Labelled instances without a result count 0, with a warning; instances without labels are left out, with
    a note. Negative labels count as 0. The order of items is the consensus' own (scores equal to 1e-12 are
    tied, ties in input order), except under `trec`, which compares scores as float32 and orders ties by
    item id, descending. O(S) for S items once they are matched by id, plus a sort of tied items.

    Examples
    --------
    >>> from concordant.data.consensus import Consensus
    >>> from concordant.data.labels import Labels
    >>> consensus = Consensus(["q", "q", "q"], ["a", "b", "c"], [0.9, 0.5, 0.1])
    >>> labels = Labels(["q", "q"], ["a", "c"], [1, 2])
    >>> evaluate(consensus, labels, "ndcg@2, map, p@2")
    metric  mean
    ndcg@2  0.3801
    map     0.8333
    p@2     0.5000
    1 instance; convention trec: gain label, discount 1/log2(1+i), ties by item id descending, relevant from
    label 1

    Runs are evaluated as they are, alone or beside a consensus:

    >>> runs = Preferences(["q"] * 4, ["x", "x", "y", "y"], ["a", "b", "c", "a"], [1, 2, 1, 2])
    >>> evaluate({"runs": runs, "fused": consensus}, labels, "ndcg@2, map")
    run    ndcg@2     map
    x      0.3801  0.5000
    y      1.0000  1.0000
    fused  0.3801  0.8333
    1 instance; convention trec: gain label, discount 1/log2(1+i), ties by item id descending, relevant from
    label 1
    """
    if not isinstance(labels, Labels):
        raise KindError(
            "evaluate compares a consensus or runs with Labels. "
            f"Got {type(consensus).__name__} and {type(labels).__name__} instead. Labels come from read_labels or from "
            "Labels(instance, item, label)."
        )
    if not isinstance(consensus, Consensus):
        how: dict[str, Any] = {"convention": convention, "rel": rel, "skip_empty": skip_empty, "instances": instances}
        return evaluate_each(consensus, labels, metrics, "evaluate", **how)
    rule = convention_named(convention)
    wanted = parse_metrics(metrics)
    threshold = _threshold(rel)
    chosen = _chosen(labels, instances)
    unlabelled = _check_overlap(consensus, labels, chosen)
    notes = []
    if unlabelled and instances is None:
        notes.append(f"{unlabelled} of {len(consensus)} instances without labels are left out")
    ranked = rank_labels(consensus, labels, rule, chosen)
    empty = ranked.length == 0
    if empty.any():
        missing = labels.instances.take(chosen[empty])
        warn(
            f"{len(missing)} of {len(chosen)} labelled instances have no result and count 0: "
            f"{listing(missing.tolist(), 5)}.",
            DataWarning,
        )
        notes.append(f"{len(missing)} of {len(chosen)} labelled instances have no result and count 0")
    values = {str(m): _computed(m, ranked, rule, threshold) for m in wanted}
    if skip_empty:
        kept = ranked.relevant(threshold).total > 0
        notes.append(f"{int((~kept).sum())} instances without a relevant item are left out")
        if not kept.any():
            raise DataError(
                f"skip_empty=True leaves no instance: none of {len(kept)} has a label of {threshold:g} or more."
            )
        values = {name: value[kept] for name, value in values.items()}
        chosen = chosen[kept]
    return Evaluation(
        {name: freeze(value) for name, value in values.items()},
        labels.instances.take(chosen),
        rule.name,
        threshold,
        None,
        tuple(notes),
    )


def evaluate_each(
    given: Preferences | Blocks | Mapping[str, Evaluable],
    labels: Labels | None,
    metrics: MetricLike | Iterable[MetricLike] | None,
    owner: str,
    *,
    instances: Iterable[Any] | None = None,
    **how: Any,
) -> Evaluations:
    """Evaluate everything in a mapping by name, and the lists of each expert in preferences; keep evaluations.

    Parameters
    ----------
    given : Preferences, Blocks, or a mapping from name to Consensus, Preferences, Blocks or Evaluation
        What to evaluate. Preferences of one expert take the name in the mapping, others the names of their experts.
    labels, metrics
        As for `evaluate`; not needed where everything is an evaluation.
    owner : str
        The function named in errors.
    instances, how
        As for `evaluate`.
    """
    how["instances"] = None if instances is None else list(instances)
    if isinstance(given, (Preferences, Blocks)):
        given = {"": given}
    if not isinstance(given, Mapping):
        raise KindError(
            f"{owner} takes a consensus, the preferences of experts, or a mapping from name to them. "
            f"Got {type(given).__name__} instead."
        )
    out = Evaluations()
    for name, one in given.items():
        if isinstance(one, Evaluation):
            found = {name: one}
        elif not isinstance(one, (Consensus, Preferences, Blocks)):
            raise KindError(f"{owner}: {name!r} is a {type(one).__name__}; pass a consensus or preferences.")
        elif labels is None or metrics is None:
            what = f"{name!r} is a consensus" if isinstance(one, Consensus) else "these are preferences"
            raise ParameterError(f"{owner}: {what}: pass labels and metrics to evaluate them.")
        elif isinstance(one, Consensus):
            found = {name: evaluate(one, labels, metrics, **how)}
        else:
            measured = evaluate_experts(one, labels, metrics, **how)
            measured.warn(len(one.experts))
            found = measured.found
            if name and len(one.experts) == 1:
                found = dict(zip([name], found.values(), strict=False))
        again = [n for n in found if n in out]
        if again:
            raise ParameterError(
                f"{owner}: {listing(again, 5)} would name two rows: an expert and another entry of the mapping. Rename "
                "the entry."
            )
        out |= found
    if not out:
        raise DataError(f"{owner}: there is nothing to evaluate, because no expert ranks anything.")
    return out


def expert_consensus(preferences: Preferences, expert: str) -> Consensus:
    """Return the lists of one expert as a consensus: its own items, order and scores.

    Items and instances that the expert does not rank are not part of it.
    """
    code = preferences.experts.codes[expert]
    which = np.flatnonzero(preferences.list_expert == code)
    starts, ends = preferences.list_offsets[which], preferences.list_offsets[which + 1]
    rows = ranges(starts, ends)
    slots = Slots(
        preferences.instances.take(preferences.list_instance[which]),
        preferences.items.take(preferences.slot[rows]),
        offsets_of(ends - starts),
    )
    return Consensus.from_codes(slots, preferences.strengths()[rows])


class ExpertEvaluations(NamedTuple):
    """The evaluation of each expert, and the experts who rank only some or none of the labelled instances."""

    found: dict[str, Evaluation]
    partial: list[str]
    silent: list[str]

    def warn(self, n_experts: int) -> None:
        """Warn once about partial and once about silent experts; a warning for each run would bury the table."""
        for experts, what in (
            (self.partial, "answer only some of the labelled instances, the others count 0"),
            (self.silent, "answer no labelled instance and are left out"),
        ):
            if experts:
                warn(f"{len(experts)} of {n_experts} experts {what}: {listing(experts, 5)}.", DataWarning)


def evaluate_experts(
    votes: Preferences | Blocks,
    labels: Labels,
    metrics: MetricLike | Iterable[MetricLike],
    *,
    convention: str = "trec",
    rel: float | None = None,
    skip_empty: bool = False,
    instances: Iterable[Any] | None = None,
    top: int | None = None,
) -> ExpertEvaluations:
    """Evaluate the lists of each expert; instances that an expert does not rank count 0.

    Parameters
    ----------
    votes : Preferences or Blocks
        The lists of the experts. Blocks are read one by one.
    labels, metrics, convention, rel
        As for `evaluate`.
    skip_empty, instances
        As for `evaluate`; only for preferences in memory.
    top : int, optional
        How many items of each list to look at; all of them when absent.

    Examples
    --------
    >>> from concordant.data.preferences import Preferences
    >>> votes = Preferences(["q"] * 4, ["x", "x", "y", "y"], ["a", "b", "a", "b"], [1, 2, 2, 1])
    >>> measured = evaluate_experts(votes, Labels(["q"], ["a"], [1]), "mrr")
    >>> {expert: found.mean["mrr"] for expert, found in measured.found.items()}
    {'x': 1.0, 'y': 0.5}
    """
    if isinstance(votes, Blocks):
        if skip_empty or instances is not None:
            raise KindError(
                "experts in blocks are evaluated on all labelled instances: skip_empty= and instances= "
                "need preferences in memory, such as concat(blocks[:2])."
            )
        return _evaluate_experts_by_block(votes, labels, metrics, convention, rel, top)
    out = ExpertEvaluations({}, [], [])
    for done, expert in enumerate(votes.experts):
        report_progress(done, votes.n_experts)
        own = expert_consensus(votes, expert)
        if len(own) == 0:
            out.silent.append(expert)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            found = evaluate(
                own if top is None else own.top(top),
                labels,
                metrics,
                convention=convention,
                rel=rel,
                skip_empty=skip_empty,
                instances=instances,
            )
        if any("have no result" in note for note in found.notes):
            out.partial.append(expert)
        out.found[expert] = replace(found, notes=())
    return out


def _evaluate_experts_by_block(
    blocks: Blocks,
    labels: Labels,
    metrics: MetricLike | Iterable[MetricLike],
    convention: str,
    rel: float | None,
    top: int | None,
) -> ExpertEvaluations:
    known = np.bincount(labels.slots.instance[~np.isnan(labels.label)], minlength=len(labels)) > 0
    labelled = labels.instances.take(np.flatnonzero(known))
    place = labelled.codes
    found: dict[str, Evaluation] = {}
    values: dict[str, dict[str, Floats]] = {}
    answered = {expert: np.zeros(len(labelled), dtype=np.bool_) for expert in blocks.experts}
    speaking: set[str] = set()
    for done, block in enumerate(prefetch(iter(blocks)), 1):
        for expert in block.experts:
            own = expert_consensus(block, expert)
            speaking |= {expert} if len(own) else set()
            shared = [q for q in own.instances if q in place]
            if not shared:
                continue
            own = own[shared]
            one = evaluate(
                own if top is None else own.top(top), labels, metrics, convention=convention, rel=rel, instances=shared
            )
            at = np.array([place[q] for q in one.instances])
            answered[expert][at] = True
            found.setdefault(expert, one)
            for name, value in one.values.items():
                # A labelled instance that is not answered counts 0.
                values.setdefault(expert, {}).setdefault(name, np.zeros(len(labelled)))[at] = value
        report_progress(done, len(blocks))
    unlabelled = [e for e in blocks.experts if e in speaking and e not in found]
    if unlabelled:
        raise DataError(
            f"expert {unlabelled[0]!r} and the labels share no instance: the labels have "
            f"{listing(labelled[:5].tolist())}."
        )
    return ExpertEvaluations(
        {e: replace(found[e], values=values[e], instances=labelled, notes=()) for e in blocks.experts if e in found},
        [e for e in blocks.experts if e in found and not answered[e].all()],
        [e for e in blocks.experts if e not in speaking],
    )


def precision_at_recall(
    consensus: Consensus,
    labels: Labels,
    recalls: Iterable[float] = ELEVEN_POINTS,
    **settings: Any,
) -> Evaluation:
    """Return the interpolated precision of a consensus at several recalls, by default the 11 points 0, 0.1, ..., 1.

    Parameters
    ----------
    consensus : Consensus
        The consensus of a method.
    labels : Labels
        The ground truth.
    recalls : numbers from 0 to 1
        The recalls to evaluate.
    settings
        Settings of `evaluate`: `convention`, `rel`, `skip_empty`, `instances`.

    Examples
    --------
    >>> from concordant.data.consensus import Consensus
    >>> from concordant.data.labels import Labels
    >>> consensus = Consensus(["q"] * 3, ["a", "b", "c"], [0.9, 0.5, 0.1])
    >>> labels = Labels(["q", "q"], ["a", "c"], [1, 1])
    >>> {name: round(value, 3) for name, value in precision_at_recall(consensus, labels, [0.5, 1]).mean.items()}
    {'iprec(recall=0.5)': 1.0, 'iprec(recall=1)': 0.667}
    """
    return evaluate(consensus, labels, [InterpolatedPrecision(recall=r) for r in recalls], **settings)


def rank_labels(
    consensus: Consensus, labels: Labels, convention: Convention, chosen: Ints | None = None
) -> RankedLabels:
    """Return the positions of the labelled items in a consensus, under the tie rules of a convention.

    Parameters
    ----------
    consensus : Consensus
        The ranking.
    labels : Labels
        The labels; NaN is no label.
    convention : Convention
        Sets how scores are compared and ties are ordered.
    chosen : int64 array, optional
        The codes of the instances of `labels` to use, ascending; all by default.
    """
    slots = labels.slots
    chosen = np.arange(len(slots), dtype=np.int64) if chosen is None else chosen
    n = len(chosen)
    code = np.full(len(slots), -1, dtype=np.int32)
    code[chosen] = np.arange(n, dtype=np.int32)
    instance = code[slots.instance]
    label = labels.label
    known = ~np.isnan(label)
    labelled = known & (instance >= 0)
    found = slots.locate(consensus.slots)
    theirs = consensus.slots

    def in_order(keep: NDArray[np.bool_]) -> tuple[Codes, Ints, Floats]:
        """Return the instance, position and label of some labelled items, those that are ranked, in position order."""
        keep = keep & (found >= 0)
        slot = found[keep]
        position = _places(consensus, slot, convention) - theirs.offsets[theirs.instance[slot]] + 1
        by_position = np.lexsort((position, instance[keep]))
        return instance[keep][by_position], position[by_position], label[keep][by_position]

    def judged() -> Judged:
        keep = labelled & (label >= 0)
        return Judged(*in_order(keep), np.bincount(instance[keep], minlength=n))

    positive = labelled & (label > 0)
    codes = consensus.instances.codes
    where = np.array([codes.get(i, -1) for i in labels.instances.take(chosen)], dtype=np.int64)
    length = np.append(theirs.sizes, 0)[where]  # -1, no such instance, finds the 0 at the end
    unranked = np.bincount(instance[labelled & (found < 0)], minlength=n)
    return RankedLabels.from_found(
        *in_order(positive),
        instance[positive],
        label[positive],
        length,
        length + unranked,
        float(label[known].max(initial=0.0)),
        judged,
    )


def _places(consensus: Consensus, slot: Ints, convention: Convention) -> Ints:
    """Return the positions of these slots, counted over all instances."""
    order, offsets = consensus.order(), consensus.slots.offsets
    if not convention.single_precision:
        return place_items(order, offsets, slot)
    # The consensus is sorted by score already, so sorting again as float32 rarely has anything to do.
    with np.errstate(over="ignore"):
        key = -consensus.score.astype(np.float32)[order]
    again = order_lists(key, offsets)
    order, key = order[again], key[again]
    return place_items(order, offsets, slot, key, lambda rows: consensus.items.take(rows).tolist())


def combine_folds(folds: Sequence[Evaluation]) -> Evaluation:
    """Combine the evaluations of several test folds into one, whose means are means of fold means.

    Values per instance are pooled fold by fold, as in LETOR's tables of five folds.

    Parameters
    ----------
    folds : list of Evaluation
        One per fold, with the same metrics under the same convention.

    Examples
    --------
    >>> from concordant.data.index import Texts
    >>> one = Evaluation({"map": np.array([1.0, 0.0])}, Texts(["q1", "q2"]), "letor")
    >>> two = Evaluation({"map": np.array([1.0])}, Texts(["q3"]), "letor")
    >>> both = combine_folds([one, two])
    >>> both.mean["map"], len(both), both.fold_means["map"].tolist()
    (0.75, 3, [0.5, 1.0])
    """
    folds = list(folds)
    if not folds:
        raise ParameterError("there are no folds to combine.")
    first = folds[0]
    for fold in folds[1:]:
        for what in ("metrics", "convention", "rel"):
            if getattr(fold, what) != getattr(first, what):
                raise DataError(
                    f"folds can only be combined when their {what} is the same. "
                    f"Got {getattr(first, what)} and {getattr(fold, what)}."
                )
    if any(fold.folds is not None for fold in folds):
        raise DataError("one of the folds is itself combined from folds; combine the single folds at once.")
    return Evaluation(
        {name: freeze(np.concatenate([f.values[name] for f in folds])) for name in first.metrics},
        Texts.concat([f.instances for f in folds]),
        first.convention,
        first.rel,
        freeze(np.repeat(np.arange(len(folds), dtype=np.int32), [len(f) for f in folds])),
        tuple(f"fold {k}: {note}" for k, f in enumerate(folds, start=1) for note in f.notes),
    )


def _computed(metric: Metric, ranked: RankedLabels, rule: Convention, threshold: float) -> Floats:
    """Compute a metric and check the result, because users may register their own metrics."""
    values = np.asarray(metric.compute(ranked, rule, threshold), dtype=np.float64)
    if values.shape != (len(ranked),) or not np.isfinite(values).all():
        raise ContractError(
            f"{type(metric).__name__}.compute must return one finite number for each of {len(ranked)} instances. "
            f"Got {quote(values.tolist())} instead."
        )
    return values


def _threshold(rel: float | None) -> float:
    if rel is None:
        return 1.0
    if isinstance(rel, bool) or not isinstance(rel, (int, float, np.number)) or not 0 < rel < np.inf:
        raise ParameterError.invalid("rel", "evaluate", "a number > 0", rel)
    return float(rel)


def _chosen(labels: Labels, instances: Iterable[Any] | None) -> Ints:
    """Return the codes of the labelled instances to evaluate, ascending."""
    known = ~np.isnan(labels.label)
    labelled = np.bincount(labels.slots.instance[known], minlength=len(labels)) > 0
    if instances is not None:
        asked = as_ids(instances, "instance")
        codes = labels.instances.codes
        unknown = [i for i in asked if i not in codes or not labelled[codes[i]]]
        if unknown:
            raise DataError(f"{len(unknown)} instances asked for have no labels: {listing(unknown, 5)}.")
        keep = np.zeros(len(labels), dtype=np.bool_)
        keep[[codes[i] for i in asked]] = True
        labelled &= keep
    chosen = np.flatnonzero(labelled)
    if len(chosen) == 0:
        raise DataError("there is no labelled instance to evaluate.")
    return chosen


def _check_overlap(consensus: Consensus, labels: Labels, chosen: Ints) -> int:
    """Return the number of instances without labels; raise if none has labels, because then the ids do not match."""
    judged = set(labels.instances.take(chosen))
    matched = sum(i in judged for i in consensus.instances)
    if matched == 0:
        hint = (
            " To evaluate one consensus against many instances, call consensus.broadcast(labels.instances)."
            if len(consensus) == 1
            else ""
        )
        raise DataError(
            "the consensus and the labels share no instance: the consensus has "
            f"{listing(consensus.instances[:5].tolist())}, the labels have "
            f"{listing(labels.instances.take(chosen[:5]).tolist())}.{hint}"
        )
    return len(consensus) - matched
