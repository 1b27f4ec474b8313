"""The content of a report as plain data: summary, consensus, experts, methods, labels.

Nothing here depends on how the report is shown. Ids are those of the user, numbers are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, NamedTuple

import numpy as np

from concordant._version import __version__
from concordant.aggregators.bradley_terry import BradleyTerry
from concordant.arrays import Floats
from concordant.base.contract import Aggregator
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.container import counted
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import ConcordantError, DataError, listing, shorten
from concordant.inference.experts import support
from concordant.report._instances import best_slots, rank_table
from concordant.report.agreement import cluster_order, expert_agreement
from concordant.report.arena import Arena, build_arena
from concordant.report.clusters import ExpertCluster, camp_clusters, cluster_experts, cluster_p_value
from concordant.report.consensus_agreement import (
    ConsensusAgreement,
    consensus_agreement,
    group_means,
    leave_one_out_agreement,
    outcome_counts_by_expert,
    outlying_experts,
)
from concordant.report.data_summary import KINDS, DataSummary, identical_experts, summarise_data
from concordant.report.label_evaluation import LabelEvaluation, evaluate_methods
from concordant.report.method_results import (
    MethodResult,
    NamedMethod,
    RankDifference,
    RankIntervals,
    Votes,
    collect_warnings,
    default_learners,
    default_methods,
    find_rank_intervals,
    left_out_methods,
    method_agreement,
    rank_differences,
    run_method,
    same_first_share,
)
from concordant.report.wording import listed, percent, two_decimals
from concordant.selection.folds import labelled

__all__ = [
    "ExpertRow",
    "Experts",
    "GroupRow",
    "Instance",
    "MethodRow",
    "Place",
    "Report",
    "build_report",
]

# With more experts the report shows clusters instead of a heat map of all pairs.
MANY_EXPERTS = 60
# Clusters are shown only where the hypothesis of one opinion is rejected at this level.
_SIGNIFICANT = 0.05
# The most items and instances to list; items of an instance in the detail view, at least and at most.
_ITEMS, _INSTANCES, _BEST, _DETAIL = 300, 2000, 3, 10
_EXPERT_ROWS = 300
_DIFFERENCES = 15
# The most ranks by expert that the detail views of all instances hold together.
_CELLS = 500_000
# Pairs of experts times pairs of items above which instances are sampled, and the smallest sample.
_PAIRS, _FEWEST_SAMPLED = 4e8, 30
# Two experts who share fewer pairs of items have no agreement in the heat map, unless most share as few.
_FEWEST_PAIRS = 30
# Two experts with the same order on this many shared pairs of items get a warning.
_MANY_PAIRS = 100
# Agreement this close to 1 is the same order.
_SAME_ORDER = 1e-9
# Experts times items above which leave-one-out agreement uses sampled instances.
_CELLS_SORTED = 50_000_000
# Votes above which clusters of experts are not looked for.
_CLUSTERED_VOTES = 100_000


class Place(NamedTuple):
    """An item of the consensus: rank, score and their intervals; `n` counts its experts or comparisons."""

    item: str
    rank: int
    score: float
    lower: float | None
    upper: float | None
    rank_lower: int | None
    rank_upper: int | None
    n: float
    label: float | None
    methods: list[int]
    tier: int | None = None


class Instance(NamedTuple):
    """One of many instances: its best items, the agreement of its experts, and the metric of the consensus.

    `ranks` holds for each place the rank by every expert, None where the expert does not rank the item.
    """

    id: str
    experts: int
    items: int
    agreement: float | None
    places: list[Place]
    value: float | None
    learned: float | None
    ranks: list[list[int | None]]


class ExpertRow(NamedTuple):
    """One expert: its number of lists and rows, its agreement, and what methods learned about it.

    `left_share` is how often the expert would choose the left one of two equal items where it does not tie, and
    `tie_share` how often it would tie them, where the reliability of experts was learned from votes.
    """

    name: str
    lists: int
    rows: int
    coverage: float
    agreement: float | None
    error: float | None
    others: float | None
    nearest: str | None
    weights: dict[str, float | None]
    value: float | None
    outlier: str
    group: int | None
    left_share: float | None = None
    tie_share: float | None = None


class GroupRow(NamedTuple):
    """A cluster of experts with similar rankings."""

    number: int
    size: int
    cohesion: float
    overall: float
    best: list[str]
    higher: list[str]
    typical: str
    typical_agreement: float
    deviant: str
    deviant_agreement: float
    others: list[float]


@dataclass(frozen=True)
class Experts:
    """Agreement of the experts with the consensus and with each other.

    Attributes
    ----------
    rows : list of ExpertRow
        The experts, highest agreement first; of very many, both ends.
    total : int
        Number of experts.
    columns : list of str
        The methods that learned weights for experts.
    order : list of str
        The experts in the order of the heat map, similar ones next to each other; empty above sixty experts.
    tau : list of lists of float or None
        Pairwise agreement in that order; None where two experts share too few items.
    groups : list of GroupRow
        Clusters of experts, above sixty of them, where a test finds some.
    mean : float or None
        Mean agreement of the experts with the consensus; one with weight 3 counts three times.
    outliers : dict of str to str
        Expert -> why its agreement is unusual.
    max_agreement : float
        The highest mean agreement possible: partial lists and ties cannot agree on every pair of items.
    same_order : list of (str, str, int)
        Two experts who order all shared pairs of items alike without having identical lists, and the number of pairs.
    n_sampled : int or None
        Number of sampled instances behind the pairwise agreement; None where all were used.
    p_clusters : float or None
        P-value of the hypothesis that the experts share one opinion; None where no clusters were looked for.
    by_weight : str
        The method by whose reliability of experts the rows are ordered, where they are not ordered by agreement.
    """

    rows: list[ExpertRow]
    total: int
    columns: list[str]
    order: list[str]
    tau: list[list[float | None]]
    groups: list[GroupRow]
    mean: float | None
    outliers: dict[str, str]
    max_agreement: float = 1.0
    same_order: list[tuple[str, str, int]] = field(default_factory=list)
    n_sampled: int | None = None
    p_clusters: float | None = None
    by_weight: str = ""


class MethodRow(NamedTuple):
    """A method: what it does, and its agreement with the first method."""

    label: str
    summary: str
    tau: float | None
    first: float | None
    seconds: float
    warnings: list[str]
    reason: str


@dataclass(frozen=True)
class Report:
    """Everything a report shows.

    Attributes
    ----------
    title, version, made : str
        Title, version of Concordant, date.
    sources : list of str
        Names of the input files.
    summary : list of str
        The main findings, in sentences.
    data : DataSummary
        Counts and quality of the data.
    missing : str
        A sentence about items that lists leave out; empty where all lists are complete.
    main : str
        The method whose consensus is shown.
    ranges : str or None
        How the rank intervals were computed; None where there are none.
    level : float or None
        Level of the score intervals.
    leaderboard : list of Place
        The consensus of the only instance; empty where there are several.
    instances : list of Instance
        The consensus of many instances; empty where there is one.
    experts : Experts or None
        Agreement of the experts; None where comparisons name no experts.
    methods : list of MethodRow
        The methods that were tried.
    method_labels : list of str
        The methods with a result, in the order of the ranks in `Place.methods`.
    tau : list of lists of float or None
        Agreement between these methods.
    rank_differences : list of RankDifference
        Items that these methods rank very differently.
    evaluation : LabelEvaluation or None
        The methods against the labels.
    expert_names : list of str
        The experts, in the order of the ranks in `Instance.ranks`.
    left_out : list of str
        What the report does not show.
    names : dict of str to str
        Item id -> name, for items that have one.
    scale : str or None
        "elo" for a leaderboard on the Elo scale.
    gauge : str or None
        What fixes the origin of its scores.
    arena : Arena or None
        Win rates, effects, habits and votes over time, for votes on one set of items.
    method_note : str
        Which methods were left out by default, and why; empty where none was.
    """

    title: str
    version: str
    made: str
    sources: list[str]
    summary: list[str]
    data: DataSummary
    missing: str
    main: str
    ranges: str | None
    level: float | None
    leaderboard: list[Place]
    instances: list[Instance]
    experts: Experts | None
    methods: list[MethodRow]
    method_labels: list[str]
    tau: list[list[float | None]]
    rank_differences: list[RankDifference]
    evaluation: LabelEvaluation | None
    expert_names: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    scale: str | None = None
    gauge: str | None = None
    arena: Arena | None = None
    method_note: str = ""


def build_report(
    votes: Votes,
    labels: Labels | None = None,
    *,
    methods: Sequence[tuple[str, Aggregator]] | None = None,
    title: str = "Consensus report",
    sources: Sequence[str] = (),
    convention: str = "trec",
    folds: Any = None,
    names: Mapping[str, str] | None = None,
    rescale: Callable[[Consensus], Consensus] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Run the methods on the data and return the content of a report.

    Parameters
    ----------
    votes : Preferences or Comparisons
        The rankings or votes.
    labels : Labels, optional
        Relevance labels of some instances. Without them nothing is evaluated and no supervised method is fitted.
    methods : list of (name, Aggregator), optional
        The methods to run. The first that needs no labels gives the consensus. By default a few that suit the data.
    title : str
        Title of the report.
    sources : list of str
        Names of the input files.
    convention : {"trec", "letor", "paper"}
        Convention of the metrics.
    folds : list of Fold, optional
        Given folds for supervised methods; by default five-fold cross-validation.
    names : mapping of str to str, optional
        Item id -> name. Ids that are not in the data are ignored.
    rescale : callable, optional
        What the consensus that is shown is made from that of the method, such as ``lambda c: c.scaled("elo",
        anchor="gpt-4").with_tiers()``; ranks must stay as they are. By default votes on one set of items are shown on
        an Elo scale, with the mean of the items at 1000, and with tiers.
    progress : callable
        Called with a description of each step.

    Examples
    --------
    >>> import concordant as cc
    >>> lists = {"x": ["a", "b", "c"], "y": ["a", "c", "b"], "z": ["b", "a", "c"]}
    >>> report = build_report(cc.from_lists(lists))
    >>> report.main, [place.item for place in report.leaderboard]
    ('plackett-luce', ['a', 'b', 'c'])
    """
    if votes.n_rows == 0:
        raise DataError("there is nothing to report: the data holds no ranking and no comparison.")
    if labels is not None and not labelled(votes, labels).any():
        raise DataError(
            f"the labels are of other instances. The data has {listing(votes.instances[:5].tolist(), 4)}, the labels "
            f"have {listing(labels.instances[:5].tolist(), 4)}; they are matched by id."
        )
    item_names = _known_names(votes, names or {})
    chosen = default_methods(votes) if methods is None else [NamedMethod(name, m) for name, m in methods]
    plain = [a for a in chosen if not a.method.needs_labels()]
    learners = [a for a in chosen if a.method.needs_labels()]
    if methods is None and labels is not None:
        learners = default_learners(votes)
    attempted = []
    for named in plain:
        progress(f"running {named.label}")
        attempted.append(run_method(named, votes))
    results = [o for o in attempted if o.consensus is not None]
    if not results:
        reasons = "; ".join(f"{o.label}: {o.reason}" for o in attempted) or "all of them learn from labels"
        raise DataError(f"none of the methods can give a consensus without labels. {reasons}. Add one, such as borda.")
    main, consensus = results[0], results[0].consensus
    if consensus is None:
        raise DataError("there is no consensus to show.")
    progress("summarising the data")
    model = main.method
    side_fitted = isinstance(model, BradleyTerry) and (model.side_effect or model.reliability)
    data = summarise_data(votes, labels, side_fitted=side_fitted)
    arena_votes = votes if isinstance(votes, Comparisons) and len(votes) == 1 else None
    gauge = None
    if rescale is not None:
        consensus = rescale(consensus)
    elif arena_votes is not None:
        consensus, gauge = _on_elo_scale(consensus, main.method, arena_votes)
    progress("resampling the experts")
    ranges = find_rank_intervals(main, votes)
    evaluation = None
    if labels is not None:
        evaluation = evaluate_methods(
            votes, labels, results, learners, convention=convention, folds=folds, progress=progress
        )
    progress("measuring the agreement of the experts")
    agreement = (
        None if isinstance(votes, Comparisons) and votes.expert is None else consensus_agreement(votes, consensus)
    )
    experts = None if agreement is None else _experts(votes, consensus, agreement, results, evaluation)
    arena, unshown = None, list[str]()
    if arena_votes is not None:
        progress("comparing items pair by pair")
        arena = build_arena(arena_votes, consensus, results)
        unshown.extend(arena.left_out)
    progress("comparing the methods")
    tau = method_agreement(results, votes)
    left_out = unshown
    context = _Context(votes, consensus, ranges, labels, results, evaluation, item_names)
    leaderboard = _leaderboard(context, left_out) if len(votes) == 1 else []
    instances = _instances(context, agreement, left_out) if len(votes) > 1 else []
    rows = [_method_row(o, results, tau, consensus) for o in attempted]
    rows += _learner_rows(learners, labels, evaluation)
    absent = left_out_methods(votes) if methods is None else None
    if absent is not None and absent.reliability:
        left_out.append(absent.reliability)
    if experts is not None and _too_many_to_cluster(votes):
        left_out.append(
            f"Clusters of experts were not looked for: with more than {_CLUSTERED_VOTES:,} votes it takes long."
        )
    if experts is not None and experts.total > len(experts.rows):
        left_out.append(f"{experts.total - len(experts.rows):,} of {experts.total:,} experts are not in the table.")
    if experts is not None:
        data.warnings.extend(_copy_warnings(experts))
        if experts.n_sampled is not None:
            left_out.append(
                f"Pairwise agreement and the most similar expert use {experts.n_sampled:,} evenly spaced instances of "
                f"{len(votes):,}."
            )
    if evaluation is not None:
        data.warnings.extend(_evaluation_warnings(evaluation))
    summary = _summary(data, context, experts, results, tau, evaluation)
    return Report(
        title=title,
        version=__version__,
        made=date.today().isoformat(),
        sources=list(sources),
        summary=summary,
        data=data,
        missing=_about_missing(votes),
        main=main.label,
        ranges=None if ranges is None else ranges.how,
        level=consensus.level,
        leaderboard=leaderboard,
        instances=instances,
        experts=experts,
        methods=rows,
        method_labels=[o.label for o in results],
        tau=_table(tau),
        rank_differences=rank_differences(results, votes, _DIFFERENCES),
        evaluation=evaluation,
        expert_names=votes.experts.tolist() if len(votes) > 1 else [],
        left_out=left_out,
        names=item_names,
        scale=consensus.scale if consensus.scale == "elo" else None,
        gauge=gauge or consensus.gauge,
        arena=arena,
        method_note="" if absent is None else absent.counting,
    )


def _on_elo_scale(consensus: Consensus, method: Aggregator, votes: Comparisons) -> tuple[Consensus, str | None]:
    """Return a board of log odds on an Elo scale with tiers, and what fixes its origin; other boards as they are.

    The origin is the anchor of the method, or else the mean of the items compared.
    """
    if consensus.scale != "log-odds":
        return consensus, None
    anchor = method.get_params().get("anchor")
    compared = consensus.items.take(np.flatnonzero(support(votes) > 0)).tolist()
    with collect_warnings([]):
        try:
            board = consensus.scaled("elo", anchor=compared if anchor is None else anchor)
        except ConcordantError:
            return consensus, None
        # Tiers need standard errors.
        board = board if board.stderr is None else board.with_tiers()
    if anchor is not None:
        return board, board.gauge
    return board, f"the mean of these {len(compared):,} items is at 1000, and moves when items join"


def _too_many_to_cluster(votes: Votes) -> bool:
    return isinstance(votes, Comparisons) and votes.n_experts > MANY_EXPERTS and votes.n_rows > _CLUSTERED_VOTES


def _known_names(votes: Votes, names: Mapping[str, str]) -> dict[str, str]:
    """Return the names of the items in the data, without names that equal the id."""
    out = {item: names[item] for item in set(votes.items) if item in names and names[item] != item} if names else {}
    if names and not out and not any(item in names for item in votes.items):
        raise DataError(
            f"the names are of other items. The data has {listing(votes.items[:5].tolist(), 4)}, the names are of "
            f"{listing(list(names)[:5], 4)}; they are matched by id."
        )
    return out


def _none_if_nan(value: Any) -> float | None:
    return None if value is None or np.isnan(value) else float(value)


def _table(values: Floats) -> list[list[float | None]]:
    return [[_none_if_nan(v) for v in row] for row in values]


@dataclass(frozen=True)
class _Context:
    """What the parts of a report share: the data, the results, the labels and the names."""

    votes: Votes
    consensus: Consensus
    ranges: RankIntervals | None
    labels: Labels | None
    results: list[MethodResult]
    evaluation: LabelEvaluation | None
    names: dict[str, str]

    def item_names(self, items: Sequence[str]) -> list[str]:
        """Return items as sentences show them: name and id, or the id alone."""
        return [f"{shorten(self.names[i], 40)} [{shorten(i, 16)}]" if i in self.names else i for i in items]

    def label_of(self) -> Floats:
        return np.full(self.votes.n_slots, np.nan) if self.labels is None else self.labels.align(self.votes).label

    def places(self, n: int, depth: int, said: Floats, label: Floats, ranks: Floats) -> list[Place]:
        c = self.consensus
        slots = best_slots(c, n, depth)
        out = []
        for slot, item in zip(slots.tolist(), c.items.take(slots).tolist(), strict=True):
            low, high = (None, None) if self.ranges is None else (self.ranges.lower[slot], self.ranges.upper[slot])
            low, high = _none_if_nan(low), _none_if_nan(high)
            out.append(
                Place(
                    item,
                    int(c.rank[slot]),
                    float(c.score[slot]),
                    None if c.lower is None else _none_if_nan(c.lower[slot]),
                    None if c.upper is None else _none_if_nan(c.upper[slot]),
                    None if low is None else int(low),
                    None if high is None else int(high),
                    float(said[slot]),
                    _none_if_nan(label[slot]),
                    [int(r) for r in ranks[slot]],
                    None if c.tier is None or np.isnan(c.tier[slot]) else int(c.tier[slot]),
                )
            )
        return out

    @property
    def ranks(self) -> Floats:
        return np.column_stack([o.consensus.rank for o in self.results if o.consensus is not None])


def _leaderboard(context: _Context, left_out: list[str]) -> list[Place]:
    m = context.votes.n_slots
    if m > _ITEMS:
        left_out.append(f"The leaderboard shows the top {_ITEMS:,} of {m:,} items.")
    return context.places(0, _ITEMS, support(context.votes), context.label_of(), context.ranks)


def _instances(context: _Context, agreement: ConsensusAgreement | None, left_out: list[str]) -> list[Instance]:
    votes = context.votes
    n = len(votes)
    shown = min(n, _INSTANCES)
    if shown < n:
        left_out.append(
            f"{n - shown:,} of {n:,} instances are not listed; concordant aggregate --instance ID shows any of them."
        )
    lists = isinstance(votes, Preferences)
    wide = lists and votes.n_experts <= MANY_EXPERTS
    depth = int(np.clip(_CELLS // max(shown * (votes.n_experts if wide else 1), 1), _BEST, _DETAIL))
    said, label, ranks = support(votes), context.label_of(), context.ranks
    mean, answered = _agreement_by_instance(votes, agreement)
    place = votes.positions("min") if isinstance(votes, Preferences) and wide else None
    values = {} if context.evaluation is None else context.evaluation.values
    mine = values.get(context.results[0].label, {})
    learned = (
        values.get(context.evaluation.learned, {})
        if context.evaluation is not None and context.evaluation.learned is not None
        else {}
    )
    out = []
    for i in range(shown):
        name = votes.instances[i]
        places = context.places(i, depth, said, label, ranks)
        table: list[list[int | None]] = []
        if place is not None and isinstance(votes, Preferences):
            table = _expert_ranks(votes, place, i, context.consensus, len(places))
        out.append(
            Instance(
                name,
                int(answered[i]),
                int(votes.slots.sizes[i]),
                _none_if_nan(mean[i]),
                places,
                mine.get(name),
                learned.get(name),
                table,
            )
        )
    return out


def _agreement_by_instance(votes: Votes, agreement: ConsensusAgreement | None) -> tuple[Floats, Floats]:
    """Return the mean agreement of the lists of each instance with the consensus, and the number of its experts."""
    n = len(votes)
    if isinstance(votes, Comparisons):
        answered = np.zeros(n)
        if votes.expert is not None:
            where = votes.slots.instance[votes.left].astype(np.int64)
            answered = np.bincount(np.unique(where * max(votes.n_experts, 1) + votes.expert) // max(votes.n_experts, 1),
                                   minlength=n).astype(np.float64)  # fmt: skip
        return np.full(n, np.nan), answered
    answered = np.bincount(votes.list_instance, minlength=n).astype(np.float64)
    tau = None if agreement is None else agreement.by_list
    if tau is None:
        return np.full(n, np.nan), answered
    return group_means(tau, votes.list_instance, n)[0], answered


def _expert_ranks(
    votes: Preferences, place: Floats, n: int, consensus: Consensus, depth: int
) -> list[list[int | None]]:
    """Return the ranks by every expert of the best items of an instance, None where an expert does not rank them."""
    table, experts = rank_table(votes, n, place)
    ranks = np.full((len(table), votes.n_experts), np.nan)
    ranks[:, experts] = table
    best = best_slots(consensus, n, depth) - int(votes.slots.offsets[n])
    return [[None if np.isnan(r) else int(r) for r in row] for row in ranks[best]]


def _experts(
    votes: Votes,
    consensus: Consensus,
    agreement: ConsensusAgreement,
    results: list[MethodResult],
    evaluation: LabelEvaluation | None,
) -> Experts:
    names = votes.experts.tolist()
    k = len(names)
    order: list[str] = []
    tau: list[list[float | None]] = []
    others = np.full(k, np.nan)
    nearest: list[str | None] = [None] * k
    groups: list[GroupRow] = []
    same_order: list[tuple[str, str, int]] = []
    n_sampled: int | None = None
    group_of: dict[int, int] = {}
    p_clusters: float | None = None
    if k <= MANY_EXPERTS:
        some = _sample_instances(votes)
        apart = leave_one_out_agreement(votes if k * votes.n_slots <= _CELLS_SORTED else some)
        others, outliers = apart.mean, outlying_experts(apart)
        # Experts who agree with the others on shared items, but not with the consensus, list other items.
        if isinstance(votes, Preferences) and votes.kind != "rating":
            outliers |= {
                e: "other items" for e in outlying_experts(agreement) if e not in outliers and agreement.coverage[e] < 1
            }
        n_sampled = len(some) if len(some) < len(votes) else None
        pairwise, copies = _pairwise_agreement(some)
        # Experts with identical lists have a warning of their own.
        known_twins = set(identical_experts(votes)) if isinstance(votes, Preferences) else set()
        same_order = [(names[a], names[b], n) for a, b, n in copies if (names[a], names[b]) not in known_twins]
        leaf_order = cluster_order(pairwise)
        order = [names[int(e)] for e in leaf_order]
        tau = _table(pairwise[np.ix_(leaf_order, leaf_order)])
        nearest = _nearest(pairwise, names)
    else:
        outliers = outlying_experts(agreement)
        if not _has_camps(results):
            p_clusters = None if _too_many_to_cluster(votes) else cluster_p_value(votes)
        if p_clusters is not None and p_clusters <= _SIGNIFICANT:
            groups, group_of = _groups(votes, consensus, agreement, cluster_experts(votes))
    if _has_camps(results):
        groups, group_of = _groups(votes, consensus, agreement, camp_clusters(votes, _camps_of(results)))
    weights = _learned_weights(results, evaluation)
    values = {} if evaluation is None else evaluation.expert_values
    answers = _answers_to_equals(results)
    rows = [
        ExpertRow(
            name,
            int(agreement.lists[e]),
            int(agreement.rows[e]),
            float(agreement.coverage[e]),
            _none_if_nan(agreement.mean[e]),
            _none_if_nan(agreement.stderr[e]),
            _none_if_nan(others[e]),
            nearest[e],
            {label: w.get(name) for label, w in weights.items()},
            values.get(name),
            outliers.get(e, ""),
            group_of.get(e),
            *(_none_if_nan(share) for share in answers.get(name, (None, None))),
        )
        for e, name in enumerate(names)
    ]
    # By agreement those with few votes would be at both ends of a crowd; what was learned shrinks.
    by_weight = next(iter(weights)) if k > MANY_EXPERTS and weights and isinstance(votes, Comparisons) else ""
    order_of = [w if by_weight and (w := row.weights.get(by_weight)) is not None else row.agreement for row in rows]
    ranked = sorted(zip(order_of, rows, strict=True), key=lambda pair: (pair[0] is None, -(pair[0] or 0.0)))
    rows = [row for _, row in ranked]
    if k > _EXPERT_ROWS:
        half = _EXPERT_ROWS // 2
        known = [row for row in rows if row.agreement is not None]
        rows = known[:half] + known[-half:] if len(known) > _EXPERT_ROWS else known
    mean = _expert_mean(votes, agreement.mean)
    apart_by_name = {names[e]: word for e, word in outliers.items()}
    return Experts(
        rows,
        k,
        list(weights),
        order,
        tau,
        groups,
        mean,
        apart_by_name,
        _max_agreement(votes),
        same_order,
        n_sampled,
        p_clusters,
        by_weight,
    )


def _answers_to_equals(results: list[MethodResult]) -> dict[str, tuple[float, float]]:
    """Return by expert how often it takes the left one of two equal items, ties apart, and how often it ties them.

    Empty where no method learned it.
    """
    for result in results:
        learned = {} if result.consensus is None else result.method.learned_experts()
        if "side" in learned and "tie_tendency" in learned:
            side, tie = (np.array(learned[name], dtype=np.float64) for name in ("side", "tie_tendency"))
            left = 1.0 / (1.0 + np.exp(-side))
            tied = np.exp(tie) / (2.0 * np.cosh(side / 2.0) + np.exp(tie))
            return dict(zip(learned["expert"], zip(left.tolist(), tied.tolist(), strict=True), strict=True))
    return {}


def _pairwise_agreement(votes: Votes) -> tuple[Floats, list[tuple[int, int, int]]]:
    """Return the pairwise agreement, NaN where two experts share too few items, and the pairs with the same order.

    Pairs with the same order come with the number of shared pairs of items.
    """
    found = expert_agreement(votes)
    common = found.shared[np.triu_indices(len(found.shared), 1)]
    # With few items in all, few shared pairs are normal.
    enough = min(float(_FEWEST_PAIRS), float(np.median(common)) / 2) if len(common) else 0.0
    own = np.eye(len(found.tau), dtype=np.bool_)
    same_order = (found.tau > 1 - _SAME_ORDER) & (found.shared >= _MANY_PAIRS) & ~own
    copies = [(int(a), int(b), int(found.shared[a, b])) for a, b in np.argwhere(np.triu(same_order))]
    return np.where((found.shared >= enough) | own, found.tau, np.nan), copies


def _expert_mean(votes: Votes, values: Floats) -> float | None:
    """Return the mean of values of the experts, NaN left out; a ballot that was cast three times counts three times."""
    known = ~np.isnan(values)
    if not known.any():
        return None
    if isinstance(votes, Preferences) and votes.list_weight is not None:
        weight = np.bincount(votes.list_expert, weights=votes.weights, minlength=votes.n_experts)[known]
        if weight.sum() > 0:
            return float(np.average(values[known], weights=weight))
    return float(values[known].mean())


def _max_agreement(votes: Votes) -> float:
    """Return the highest possible mean agreement with a consensus without ties.

    Items that a list leaves out are tied behind it. A list of n of m items then orders n (n - 1) / 2 + n (m - n) of all
    pairs, and its tau-b with a consensus that orders them alike is the square root of that share. For comparisons, ties
    agree with nothing.
    """
    if isinstance(votes, Comparisons):
        if votes.expert is None:
            return 1.0
        decided, k = votes.n_left + votes.n_right, votes.n_experts
        said = outcome_counts_by_expert(votes)
        return float((np.bincount(votes.expert, weights=decided, minlength=k)[said > 0] / said[said > 0]).mean())
    if votes.kind == "rating" or votes.n_lists == 0:
        return 1.0
    m = votes.slots.sizes[votes.list_instance].astype(np.float64)
    n = votes.list_lengths.astype(np.float64)
    share = (n * (n - 1) / 2 + n * (m - n)) / np.maximum(m * (m - 1) / 2, 1.0)
    best, _ = group_means(np.sqrt(np.minimum(share, 1.0)), votes.list_expert, votes.n_experts)
    mean = _expert_mean(votes, best)
    return 1.0 if mean is None else mean


def _sample_instances(votes: Votes) -> Votes:
    """Return the data, or evenly spaced instances where the pairwise agreement of all would take too long."""
    if isinstance(votes, Comparisons):
        return votes
    lists = np.diff(votes.list_starts).astype(np.float64)
    cost = float((lists**2 * votes.slots.sizes.astype(np.float64) ** 2).sum())
    kept = max(_FEWEST_SAMPLED, int(len(votes) * _PAIRS / max(cost, 1.0)))
    return votes if kept >= len(votes) else votes[np.linspace(0, len(votes) - 1, kept).astype(np.int64)]


def _nearest(tau: Floats, names: list[str]) -> list[str | None]:
    """Return the expert with the highest agreement with each expert."""
    other = np.where(np.isnan(tau), -np.inf, tau)
    np.fill_diagonal(other, -np.inf)
    best = other.argmax(axis=1) if len(tau) else np.zeros(0, dtype=np.int64)
    return [names[int(b)] if other[e, b] > -np.inf else None for e, b in enumerate(best)]


def _learned_weights(results: list[MethodResult], evaluation: LabelEvaluation | None) -> dict[str, dict[str, float]]:
    out = {}
    for result in results:
        learned = result.method.learned_experts()
        # The slope of an expert with few votes shrinks to the mean.
        weight = learned.get("slope", learned.get("weight", ()))
        if len({round(float(w), 9) for w in weight}) > 1:
            out[result.label] = dict(zip(learned["expert"], (float(w) for w in weight), strict=True))
    return out | ({} if evaluation is None else evaluation.weights)


def _camps_of(results: list[MethodResult]) -> Any:
    """Return the first method that found several camps of experts; None without one."""
    return next((r.method for r in results if r.method.n_camps() > 1), None)


def _has_camps(results: list[MethodResult]) -> bool:
    return _camps_of(results) is not None


def _groups(
    votes: Votes, consensus: Consensus, agreement: ConsensusAgreement, groups: list[ExpertCluster]
) -> tuple[list[GroupRow], dict[int, int]]:
    names = votes.experts
    said = support(votes)
    well_known = said >= np.median(said)
    rows = []
    for g, group in enumerate(groups, start=1):
        own = group.consensus
        best = [item for n in range(min(len(votes), 1)) for item in own.ranking(own.instances[n])[:5]]
        lift = np.where(well_known, np.log(consensus.rank / own.rank), -np.inf)
        higher = [votes.slots.where(int(s))[1] for s in np.argsort(-lift, kind="stable")[:5] if lift[s] > 0]
        rows.append(
            GroupRow(
                g,
                len(group.members),
                group.cohesion,
                float(np.nanmean(agreement.mean[group.members])),
                best if len(votes) == 1 else [],
                higher if len(votes) == 1 else [],
                names[group.typical],
                float(group.agreement.mean[group.typical]),
                names[group.deviant],
                float(group.agreement.mean[group.deviant]),
                [float(np.nanmean(other.agreement.mean[group.members])) for other in groups],
            )
        )
    return rows, {int(e): g for g, group in enumerate(groups, start=1) for e in group.members}


def _ignored_style(method: Aggregator, main: Aggregator) -> list[str]:
    """Return a note on a method that ignores the covariates at whose equal values the main one gives scores."""
    if not getattr(main, "covariates", None) or getattr(method, "covariates", None):
        return []
    return ["Ignores style: its scores and ranks hold what the covariates add."]


def _method_row(result: MethodResult, results: list[MethodResult], tau: Floats, main: Consensus) -> MethodRow:
    if result.consensus is None:
        return MethodRow(result.label, result.summary, None, None, result.seconds, result.warnings, result.reason)
    i = results.index(result)
    return MethodRow(
        result.label,
        result.summary,
        _none_if_nan(tau[0, i]),
        _none_if_nan(same_first_share(main, result.consensus)),
        result.seconds,
        [*result.warnings, *_ignored_style(result.method, results[0].method)],
        "",
    )


def _learner_rows(
    learners: list[NamedMethod], labels: Labels | None, evaluation: LabelEvaluation | None
) -> list[MethodRow]:
    out = []
    for named in learners:
        reason = "it learns from labels, and there are none" if labels is None else ""
        if evaluation is not None:
            reason = evaluation.left_out.get(named.label, "")
        out.append(MethodRow(named.label, MethodResult(*named).summary, None, None, 0.0, [], reason))
    return out


def _copy_warnings(experts: Experts) -> list[str]:
    out = []
    for a, b, n in sorted(experts.same_order, key=lambda x: -x[2])[:3]:
        where = "" if experts.n_sampled is None else f" (in {experts.n_sampled:,} sampled instances)"
        out.append(
            f"{listed([a, b], word='Expert')} order all {n:,} shared pairs of items alike{where}: one opinion may be "
            "counted twice."
        )
    if len(experts.same_order) > len(out):
        out.append(f"The same holds for {counted(len(experts.same_order) - len(out), 'other pair')} of experts.")
    return out


def _evaluation_warnings(evaluation: LabelEvaluation) -> list[str]:
    out = []
    if evaluation.unjudged > 0.2:
        out.append(
            f"{evaluation.unjudged:.0%} of the top 10 items of {evaluation.baseline} have no label and count as not "
            "relevant: methods that find new items are scored too low."
        )
    return out


def _agreement_word(tau: float) -> str:
    for bound, word in ((0.1, "hardly at all"), (0.3, "weakly"), (0.5, "moderately"), (0.7, "well")):
        if tau < bound:
            return word
    return "closely"


def _summary(
    data: DataSummary,
    context: _Context,
    experts: Experts | None,
    results: list[MethodResult],
    tau: Floats,
    evaluation: LabelEvaluation | None,
) -> list[str]:
    out = [_about_data(data)]
    out.append(_about_leaderboard(context) if data.instances == 1 else _about_instances(context))
    if experts is not None and experts.mean is not None and experts.total > 1:
        out.append(_about_experts(experts, data.kind))
    if len(results) > 1:
        out.append(_about_methods(results, tau))
    if evaluation is not None:
        out += _about_evaluation(evaluation)
    return out


def _about_data(data: DataSummary) -> str:
    what, did = KINDS[data.kind]
    who = counted(data.experts, "expert") if data.experts else "Unnamed experts"
    text = f"{who} {did} {counted(data.items, 'item')}"
    text += f" in {counted(data.instances, 'instance')}" if data.instances > 1 else ""
    text += f": {counted(data.rows, what.removesuffix('s'))}"
    if data.weight is not None:
        text += f" in lists with a total weight of {data.weight:,.6g}"
    if data.kind == "comparisons":
        return f"{text}, {data.ties:.0%} of them ties."
    if data.coverage is not None and data.coverage < 0.995:
        of = "the items of its instance" if data.instances > 1 else "the items"
        text += f". A list holds {data.coverage:.0%} of {of} on average"
    return f"{text}."


def _about_missing(votes: Votes) -> str:
    """Return what it means that a list leaves out an item; nothing where no list does."""
    if isinstance(votes, Comparisons) or not votes.leaves_out().any():
        return ""
    if votes.kind == "rating":
        return "Items that an expert did not rate are unknown to it: they count neither for nor against an item."
    below = votes.below()[votes.leaves_out()]
    if below.all():
        return (
            "Items that a list leaves out count as below all that it holds. If the lists say nothing about them, "
            "declare missing as unknown."
        )
    where = "" if not below.any() else f" in {len(below) - int(below.sum()):,} instances, and as below in the others"
    return (
        f"Items that a list leaves out are unknown to it{where}: most methods then judge an item by the lists that "
        "hold it. If the lists were cut off, declare missing as below."
    )


def _about_leaderboard(context: _Context) -> str:
    ranking = context.consensus.ranking()
    leaders = int((context.consensus.rank == 1).sum())
    if leaders > 1:
        shared = listed(context.item_names(ranking[:leaders]), word="item")
        return f"By {context.results[0].label}, {counted(leaders, 'item')} share the first place: {shared}."
    text = f"By {context.results[0].label}, {listed(context.item_names(ranking[:1]), word='item')} comes first"
    first, board = int(context.consensus.order()[0]), context.consensus
    if board.scale == "elo":
        text += f" (Elo {board.score[first]:.0f}"
        known = board.lower is not None and board.upper is not None
        half = (board.upper[first] - board.lower[first]) / 2 if known else np.nan  # type: ignore[index]
        text += ")" if np.isnan(half) else f" ± {half:.0f})"
    if len(ranking) > 2:
        text += f", then {listed(context.item_names(ranking[1:3]), word='item')}"
    if context.ranges is None or np.isnan(context.ranges.upper[context.consensus.order()[0]]):
        return f"{text}."
    rivals = int((context.ranges.lower == 1).sum()) - 1
    if rivals <= 0:
        return f"{text}. No other item could be first."
    include = "its rank interval includes" if rivals == 1 else "their rank intervals include"
    return f"{text}. {counted(rivals, 'other item')} could also be first: {include} 1."


def _about_instances(context: _Context) -> str:
    main = context.results[0].label
    text = f"The consensus is that of {main}."
    if context.ranges is None:
        return text
    offsets, order = context.consensus.slots.offsets, context.consensus.order()
    upper = context.ranges.upper[order[offsets[:-1][np.diff(offsets) > 0]]]
    upper = upper[~np.isnan(upper)]
    if not len(upper):
        return text
    first, top_three = float((upper == 1).mean()), float((upper <= 3).mean())
    if context.ranges.bootstrapped:
        text += (
            f" In {percent(first)} of the instances the first place is stable when the experts are resampled"
            if first
            else " No instance has a stable first place: resampling the experts changes it"
        )
    else:
        level = "" if context.consensus.level is None else f"{context.consensus.level:.0%} "
        text += (
            f" In {percent(first)} of the instances the first place is certain by the {level}intervals of {main}"
            if first
            else f" No instance has a certain first place by the {level}intervals of {main}"
        )
    return f"{text}. In {percent(top_three)} of the instances the first item stays in the top 3."


def _about_experts(experts: Experts, kind: str) -> str:
    mean = experts.mean or 0.0
    close = _agreement_word(mean / max(experts.max_agreement, 1e-9))
    why = "with this many ties" if kind == "comparisons" else "for lists this short"
    scale = f"at most {experts.max_agreement:.2f} {why}" if experts.max_agreement < 0.95 else "1 is the same order"
    text = f"Experts agree {close} with the consensus (mean agreement {two_decimals(mean)}; {scale})."
    if experts.groups:
        sizes = [f"{group.size:,}" for group in experts.groups]
        text += f" They form {len(sizes)} clusters of {', '.join(sizes[:-1])} and {sizes[-1]}"
        text += "." if experts.p_clusters is None else f" (p = {experts.p_clusters:.2g})."
    elif experts.p_clusters is not None:
        text += f" A test finds no clusters among them (p = {experts.p_clusters:.2f})."
    if not experts.outliers:
        return text + (" No expert is an outlier." if experts.total > 3 else "")
    names = list(experts.outliers)
    one = len(names) == 1
    reasons = set(experts.outliers.values())
    if reasons == {"no better than chance"}:
        word = "agrees no better than chance" if one else "agree no better than chance"
    elif reasons == {"inverted"}:
        word = "is inverted" if one else "are inverted"
    else:
        word = "is an outlier" if one else "are outliers"
    who = listed(names, word="Expert")
    return f"{text} {who} {word}."


def _about_methods(results: list[MethodResult], tau: Floats) -> str:
    upper = np.triu_indices(len(results), 1)
    values = tau[upper]
    if np.isnan(values).all():
        return f"{counted(len(results), 'method')} were run."
    if float(np.nanmin(values)) > 1 - _SAME_ORDER:
        return f"The {len(results)} methods give the same order."
    low = int(np.nanargmin(values))
    a, b = results[int(upper[0][low])].label, results[int(upper[1][low])].label
    if len(results) == 2:
        return (
            f"The two methods, {a} and {b}, agree {_agreement_word(float(values[low]))} ({two_decimals(values[low])})."
        )
    mean = float(np.nanmean(values))
    return (
        f"The {len(results)} methods agree {_agreement_word(mean)} with each other (mean agreement "
        f"{two_decimals(mean)}). {a} and {b} differ most ({two_decimals(values[low])})."
    )


def _about_evaluation(evaluation: LabelEvaluation) -> list[str]:
    main = evaluation.main
    rows = [row for row in evaluation.rows if row.kind != "expert"]
    best, base = rows[0], next(row for row in rows if row.name == evaluation.baseline)
    text = f"Against the labels {best.name} is best: {main.upper()} {best.cells[main].mean:.3f}"
    if best.name != base.name:
        sure = "significantly" if best.cells[main].sign > 0 else "not significantly"
        text += f", {sure} better than {base.name} ({base.cells[main].mean:.3f})"
    alone = [row for row in evaluation.rows if row.kind == "expert"]
    if alone:
        text += f". The best single expert reaches {alone[0].cells[main].mean:.3f}"
    out = [f"{text}."]
    if evaluation.learned is not None:
        total = evaluation.better + evaluation.equal + evaluation.worse
        out.append(
            f"Learned weights ({evaluation.learned}) beat {evaluation.baseline} on {evaluation.better:,} of "
            f"{counted(total, 'instance')} and lose on {evaluation.worse:,}."
        )
    return out
