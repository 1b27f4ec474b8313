"""Everything a report says, as plain data: what the data is, the consensus, the experts, the methods, the labels.

Nothing here knows how it will be shown; ids are those of the user, and numbers are numbers.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, NamedTuple

import numpy as np

from concordant._version import __version__
from concordant.arrays import Floats
from concordant.base.contract import Aggregator
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import DataError, listing, shorten
from concordant.inference.experts import support
from concordant.report.agreement import cluster_order, expert_agreement
from concordant.report.clusters import cluster_experts
from concordant.report.consensus_agreement import (
    ConsensusAgreement,
    consensus_agreement,
    leave_one_out_agreement,
    outlying_experts,
)
from concordant.report.data_summary import KINDS, DataSummary, count_of, identical_experts, summarise_data
from concordant.report.label_evaluation import LabelEvaluation, evaluate_methods
from concordant.report.method_results import (
    MethodResult,
    NamedMethod,
    RankDifference,
    RankIntervals,
    Votes,
    default_learners,
    default_methods,
    find_rank_intervals,
    method_agreement,
    rank_differences,
    run_method,
    same_first_share,
)
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

# Above so many experts a table of all pairs is no longer looked at; groups are.
MANY_EXPERTS = 60
# What is shown of long lists.
_ITEMS, _INSTANCES, _BEST, _DETAIL = 300, 2000, 3, 10
_EXPERT_ROWS = 300
_DIFFERENCES = 15
# Ranks of experts that are kept for the closer look at instances.
_CELLS = 500_000
# Pairs of experts times pairs of items that are looked at, and how many instances at the least.
_PAIRS, _FEWEST_SAMPLED = 4e8, 30
# Agreement of two experts over fewer pairs of items is left open, where most share many more.
_FEWEST_PAIRS = 30
# So many pairs of items, all ordered alike, are no chance.
_MANY_PAIRS = 100
# Agreement this near to 1 is the same order.
_SAME_ORDER = 1e-9
# Experts times items that are sorted to see everybody among the others.
_CELLS_SORTED = 50_000_000


class Place(NamedTuple):
    """An item of the consensus: its rank, score and how sure both are; `n` is how much was said of it."""

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


class Instance(NamedTuple):
    """One of many instances: its best items, how far the experts agree there, and how good the consensus is.

    `ranks` holds for every place the rank that each expert gives the item, None where it leaves it out.
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
    """One expert: how much it said, how far it agrees, what was learned about it."""

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


class GroupRow(NamedTuple):
    """A group of experts who think alike."""

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
    """Who agrees with whom.

    Attributes
    ----------
    rows : list of ExpertRow
        The experts, those who agree most first; of very many, the ends.
    total : int
        How many there are.
    columns : list of str
        The methods that learned a weight for experts.
    order : list of str
        The experts arranged so that those who agree stand together; empty above sixty.
    tau : list of lists of float or None
        Their agreement with each other, in that order; None where they have too little in common.
    groups : list of GroupRow
        Groups of like-minded experts, above sixty of them.
    mean : float or None
        The mean agreement of the experts with the consensus.
    odd : dict of str to str
        Experts who stand apart, and in which way.
    most : float
        What the mean agreement could be at most: a list that leaves items out cannot tell their order, nor can a tie.
    alike : list of (str, str, int)
        Two experts who order alike whatever they share, without having the same lists; and how many pairs of items.
    looked : int or None
        In how many evenly spaced instances experts stand beside each other, where not in all.
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


class MethodRow(NamedTuple):
    """A method: what it does, how far it agrees with the first one."""

    label: str
    summary: str
    tau: float | None
    first: float | None
    seconds: float
    warnings: list[str]
    reason: str


@dataclass(frozen=True)
class Report:
    """Everything a report says.

    Attributes
    ----------
    title, version, made : str
        What it is called, the version of Concordant, the day.
    sources : list of str
        Where the data came from, as the user named it.
    summary : list of str
        The most important, in sentences.
    stock : Inventory
        What the data is.
    main : str
        The method whose consensus is shown.
    ranges : str or None
        Where the intervals come from, None where there are none.
    level : float or None
        Of the intervals of scores.
    board : list of Place
        The consensus of the only instance; empty where there are several.
    instances : list of Instance
        The consensus of many instances; empty where there is one.
    experts : Experts or None
        Who agrees with whom; None where comparisons name nobody.
    methods : list of MethodRow
        What was asked.
    asked : list of str
        The methods that answered, in the order of the ranks in `Place.methods`.
    tau : list of lists of float or None
        How far these agree with each other.
    differences : list of Difference
        Items that they place far apart.
    truth : Truth or None
        What the labels say.
    vocabulary : list of str
        The experts, in the order of the ranks in `Instance.ranks`.
    left_out : list of str
        What long lists do not show.
    names : dict of str to str
        What items are called, by id; those without a name are not in it.
    """

    title: str
    version: str
    made: str
    sources: list[str]
    summary: list[str]
    data: DataSummary
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


def build_report(
    votes: Votes,
    labels: Labels | None = None,
    *,
    methods: Sequence[tuple[str, Aggregator]] | None = None,
    title: str = "What the experts say",
    sources: Sequence[str] = (),
    convention: str = "trec",
    folds: Any = None,
    names: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Return everything there is to say about preferences or comparisons, as plain data.

    Parameters
    ----------
    votes : Preferences or Comparisons
        What the experts said.
    labels : Labels, optional
        The truth, for some instances; without it nothing is evaluated and nothing learned from labels.
    methods : list of (name, Aggregator), optional
        What to ask; the first that needs no labels gives the consensus. Without it a few that suit the data.
    title : str
        What the report is called.
    sources : list of str
        Where the data came from.
    convention : {"trec", "letor", "paper"}
        Whose rules the metrics follow.
    folds : list of Fold, optional
        Given folds for methods that learn; without them five are made.
    names : mapping of str to str, optional
        What items are called, by id; other ids are passed over.
    say : callable
        Is told what is being done, step by step.

    Examples
    --------
    >>> import concordant as cc
    >>> lists = {"x": ["a", "b", "c"], "y": ["a", "c", "b"], "z": ["b", "a", "c"]}
    >>> report = build_report(cc.from_lists(lists))
    >>> report.main, [place.item for place in report.leaderboard]
    ('plackett-luce', ['a', 'b', 'c'])
    """
    if votes.n_rows == 0:
        raise DataError("there is nothing to report: nobody ranked or compared anything.")
    if labels is not None and not labelled(votes, labels).any():
        raise DataError(
            f"the labels are of other instances. The data has {listing(votes.instances[:5].tolist(), 4)}, the labels "
            f"have {listing(labels.instances[:5].tolist(), 4)}; they are matched by id."
        )
    item_names = _known_names(votes, names or {})
    progress("looking at the data")
    data = summarise_data(votes, labels)
    chosen = default_methods(votes) if methods is None else [NamedMethod(name, m) for name, m in methods]
    plain = [a for a in chosen if not a.method.needs_labels()]
    learners = [a for a in chosen if a.method.needs_labels()]
    if methods is None and labels is not None:
        learners = default_learners(votes)
    attempted = []
    for named in plain:
        progress(f"asking {named.label}")
        attempted.append(run_method(named, votes))
    results = [o for o in attempted if o.consensus is not None]
    if not results:
        reasons = "; ".join(f"{o.label}: {o.reason}" for o in attempted) or "all of them learn from labels"
        raise DataError(f"none of the methods can give a consensus without labels. {reasons}. Add one, such as borda.")
    main, consensus = results[0], results[0].consensus
    if consensus is None:
        raise DataError("there is no consensus to show.")
    progress("drawing experts anew")
    ranges = find_rank_intervals(main, votes)
    evaluation = None
    if labels is not None:
        evaluation = evaluate_methods(
            votes, labels, results, learners, convention=convention, folds=folds, progress=progress
        )
    progress("looking at the experts")
    agreement = (
        None if isinstance(votes, Comparisons) and votes.expert is None else consensus_agreement(votes, consensus)
    )
    experts = None if agreement is None else _experts(votes, consensus, agreement, results, evaluation)
    progress("looking at the methods")
    tau = method_agreement(results, votes)
    left_out: list[str] = []
    context = _Context(votes, consensus, ranges, labels, results, evaluation, item_names)
    leaderboard = _leaderboard(context, left_out) if len(votes) == 1 else []
    instances = _instances(context, agreement, left_out) if len(votes) > 1 else []
    rows = [_method_row(o, results, tau, consensus) for o in attempted]
    rows += _learner_rows(learners, labels, evaluation)
    if experts is not None and experts.total > len(experts.rows):
        left_out.append(f"{experts.total - len(experts.rows):,} of {experts.total:,} experts are not in the table.")
    if experts is not None:
        data.warnings.extend(_copy_warnings(experts))
        if experts.n_sampled is not None:
            left_out.append(
                f"Experts beside experts, and the nearest one: from {experts.n_sampled:,} evenly spaced instances of "
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
    )


def _known_names(votes: Votes, names: Mapping[str, str]) -> dict[str, str]:
    """Return the names of items that there are; an id that is its own name has none."""
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
    """What is shown of an instance, from all that was computed."""

    votes: Votes
    consensus: Consensus
    ranges: RankIntervals | None
    labels: Labels | None
    results: list[MethodResult]
    evaluation: LabelEvaluation | None
    names: dict[str, str]

    def item_names(self, items: Sequence[str]) -> list[str]:
        """Return items as a sentence calls them: by name, with the id behind it."""
        return [f"{shorten(self.names[i], 40)} [{shorten(i, 16)}]" if i in self.names else i for i in items]

    def label_of(self) -> Floats:
        out = np.full(self.votes.n_slots, np.nan)
        if self.labels is not None and self.labels.n_slots:
            at = self.votes.slots.locate(self.labels.slots)
            out[at >= 0] = self.labels.label[at[at >= 0]]
        return out

    def places(self, n: int, depth: int, said: Floats, label: Floats, ranks: Floats) -> list[Place]:
        c = self.consensus
        a, b = int(c.slots.offsets[n]), int(c.slots.offsets[n + 1])
        slots = c.order()[a : min(b, a + depth)]
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
                )
            )
        return out

    @property
    def ranks(self) -> Floats:
        return np.column_stack([o.consensus.rank for o in self.results if o.consensus is not None])


def _leaderboard(context: _Context, left_out: list[str]) -> list[Place]:
    m = context.votes.n_slots
    if m > _ITEMS:
        left_out.append(f"{m - _ITEMS:,} of {m:,} items stand below those of the leaderboard.")
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
    """Return the mean agreement of the lists of every instance with the consensus, and how many experts answered."""
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
    known = ~np.isnan(tau)
    total = np.bincount(votes.list_instance[known], weights=tau[known], minlength=n)
    times = np.bincount(votes.list_instance[known], minlength=n)
    return np.divide(total, times, out=np.full(n, np.nan), where=times > 0), answered


def _expert_ranks(
    votes: Preferences, place: Floats, n: int, consensus: Consensus, depth: int
) -> list[list[int | None]]:
    """Return the ranks that every expert of the vocabulary gives the best items of an instance."""
    a = int(votes.slots.offsets[n])
    slots = consensus.order()[a : a + depth]
    row_of = np.full(int(votes.slots.sizes[n]), -1, dtype=np.int64)
    row_of[slots - a] = np.arange(len(slots))
    first, last = int(votes.list_starts[n]), int(votes.list_starts[n + 1])
    rows = slice(int(votes.list_offsets[first]), int(votes.list_offsets[last]))
    at, expert, rank = row_of[votes.slot[rows] - a], votes.row_expert[rows], place[rows]
    out: list[list[int | None]] = [[None] * votes.n_experts for _ in range(len(slots))]
    for i, e, r in zip(at.tolist(), expert.tolist(), rank.tolist(), strict=True):
        if i >= 0:
            out[i][e] = int(r)
    return out


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
    if k <= MANY_EXPERTS:
        some = _sample_instances(votes)
        apart = leave_one_out_agreement(votes if k * votes.n_slots <= _CELLS_SORTED else some)
        others, outliers = apart.mean, outlying_experts(apart)
        # Who orders as the others do what they share, and yet is far from the consensus, lists what they do not.
        if isinstance(votes, Preferences) and votes.kind != "rating":
            outliers |= {
                e: "other items" for e in outlying_experts(agreement) if e not in outliers and agreement.coverage[e] < 1
            }
        n_sampled = len(some) if len(some) < len(votes) else None
        beside, copies = _pairwise_agreement(some)
        # Who says the same in every instance was named before.
        known_twins = set(identical_experts(votes)) if isinstance(votes, Preferences) else set()
        same_order = [(names[a], names[b], n) for a, b, n in copies if (names[a], names[b]) not in known_twins]
        arranged = cluster_order(beside)
        order = [names[int(e)] for e in arranged]
        tau = _table(beside[np.ix_(arranged, arranged)])
        nearest = _nearest(beside, names)
    else:
        outliers = outlying_experts(agreement)
        groups, group_of = _groups(votes, consensus, agreement)
    weights = _learned_weights(results, evaluation)
    values = {} if evaluation is None else evaluation.expert_values
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
        )
        for e, name in enumerate(names)
    ]
    rows.sort(key=lambda row: (row.agreement is None, -(row.agreement or 0.0)))
    if k > _EXPERT_ROWS:
        half = _EXPERT_ROWS // 2
        known = [row for row in rows if row.agreement is not None]
        rows = known[:half] + known[-half:] if len(known) > _EXPERT_ROWS else known
    mean = float(np.nanmean(agreement.mean)) if not np.isnan(agreement.mean).all() else None
    apart_by_name = {names[e]: word for e, word in outliers.items()}
    return Experts(
        rows, k, list(weights), order, tau, groups, mean, apart_by_name, _max_agreement(votes), same_order, n_sampled
    )


def _pairwise_agreement(votes: Votes) -> tuple[Floats, list[tuple[int, int, int]]]:
    """Return the agreement of every two experts, NaN where it rests on next to nothing; and who orders all alike.

    The latter with the number of pairs of items they share.
    """
    found = expert_agreement(votes)
    common = found.shared[np.triu_indices(len(found.shared), 1)]
    # Of a few items everybody ranks there are few pairs, and they are all there is.
    enough = min(float(_FEWEST_PAIRS), float(np.median(common)) / 2) if len(common) else 0.0
    own = np.eye(len(found.tau), dtype=np.bool_)
    same_order = (found.tau > 1 - _SAME_ORDER) & (found.shared >= _MANY_PAIRS) & ~own
    copies = [(int(a), int(b), int(found.shared[a, b])) for a, b in np.argwhere(np.triu(same_order))]
    return np.where((found.shared >= enough) | own, found.tau, np.nan), copies


def _max_agreement(votes: Votes) -> float:
    """Return what agreement with a consensus without ties could be at most, the mean over experts.

    With the items it leaves out tied behind, a list of n of m items orders n (n - 1) / 2 + n (m - n) of all pairs; if
    it orders them all as the consensus does, tau-b is the root of that share. Of comparisons, ties agree with nothing.
    """
    if isinstance(votes, Comparisons):
        if votes.expert is None:
            return 1.0
        decided, k = votes.n_left + votes.n_right, votes.n_experts
        said = np.bincount(votes.expert, weights=decided + votes.n_ties, minlength=k)
        return float((np.bincount(votes.expert, weights=decided, minlength=k)[said > 0] / said[said > 0]).mean())
    if votes.kind == "rating" or votes.n_lists == 0:
        return 1.0
    m = votes.slots.sizes[votes.list_instance].astype(np.float64)
    n = votes.list_lengths.astype(np.float64)
    share = (n * (n - 1) / 2 + n * (m - n)) / np.maximum(m * (m - 1) / 2, 1.0)
    times = np.bincount(votes.list_expert, minlength=votes.n_experts)
    total = np.bincount(votes.list_expert, weights=np.sqrt(np.minimum(share, 1.0)), minlength=votes.n_experts)
    return float((total[times > 0] / times[times > 0]).mean())


def _sample_instances(votes: Votes) -> Votes:
    """Return the data, or evenly spaced instances where looking at all pairs of experts in all would take long."""
    if isinstance(votes, Comparisons):
        return votes
    lists = np.diff(votes.list_starts).astype(np.float64)
    cost = float((lists**2 * votes.slots.sizes.astype(np.float64) ** 2).sum())
    kept = max(_FEWEST_SAMPLED, int(len(votes) * _PAIRS / max(cost, 1.0)))
    return votes if kept >= len(votes) else votes[np.linspace(0, len(votes) - 1, kept).astype(np.int64)]


def _nearest(tau: Floats, names: list[str]) -> list[str | None]:
    """Return for every expert the one who agrees with it most."""
    other = np.where(np.isnan(tau), -np.inf, tau)
    np.fill_diagonal(other, -np.inf)
    best = other.argmax(axis=1) if len(tau) else np.zeros(0, dtype=np.int64)
    return [names[int(b)] if other[e, b] > -np.inf else None for e, b in enumerate(best)]


def _learned_weights(results: list[MethodResult], evaluation: LabelEvaluation | None) -> dict[str, dict[str, float]]:
    out = {}
    for result in results:
        learned = result.method.learned_experts()
        if learned and len({round(float(w), 9) for w in learned["weight"]}) > 1:
            out[result.label] = dict(zip(learned["expert"], (float(w) for w in learned["weight"]), strict=True))
    return out | ({} if evaluation is None else evaluation.weights)


def _groups(votes: Votes, consensus: Consensus, agreement: ConsensusAgreement) -> tuple[list[GroupRow], dict[int, int]]:
    groups = cluster_experts(votes)
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
        result.warnings,
        "",
    )


def _learner_rows(
    learners: list[NamedMethod], labels: Labels | None, evaluation: LabelEvaluation | None
) -> list[MethodRow]:
    out = []
    for named in learners:
        reason = "learns from labels, and there are none" if labels is None else ""
        if evaluation is not None:
            reason = evaluation.left_out.get(named.label, "")
        out.append(MethodRow(named.label, MethodResult(*named).summary, None, None, 0.0, [], reason))
    return out


def _copy_warnings(experts: Experts) -> list[str]:
    out = []
    for a, b, n in sorted(experts.same_order, key=lambda x: -x[2])[:3]:
        who = _listed([a, b], word="Expert")
        where = "" if experts.n_sampled is None else f" in {experts.n_sampled:,} instances looked at"
        out.append(
            f"{who} order alike all they share ({n:,} pairs of items{where}): perhaps one opinion, counted twice."
        )
    if len(experts.same_order) > len(out):
        out.append(f"So do {count_of(len(experts.same_order) - len(out), 'other pair')} of experts.")
    return out


def _evaluation_warnings(evaluation: LabelEvaluation) -> list[str]:
    out = []
    if evaluation.unjudged > 0.2:
        out.append(
            f"{evaluation.unjudged:.0%} of the ten best items of {evaluation.baseline} have no label and count as not "
            "relevant: methods that find new items are judged too low."
        )
    return out


def _two_decimals(value: float) -> str:
    """Return a number to two places; one that rounds to nothing has no sign."""
    text = f"{value:.2f}"
    return (text if float(text) else "0.00").replace("-", "\u2212")


def _agreement_word(tau: float) -> str:
    for bound, word in ((0.1, "hardly at all"), (0.3, "weakly"), (0.5, "moderately"), (0.7, "well")):
        if tau < bound:
            return word
    return "closely"


def _isolated(name: str) -> str:
    """Return a name that leaves the direction of the sentence around it alone, and can be seen."""
    if not name.strip():
        return f'"{name}"'
    return f"\u2068{name}\u2069" if any(unicodedata.bidirectional(c) in ("R", "AL") for c in name) else name


def _listed(names: Sequence[str], limit: int = 3, word: str = "") -> str:
    shown = [_isolated(shorten(name, 60)) for name in names[:limit]]
    if word and any(name.replace(" ", "").isdigit() for name in names[:limit]):
        # Bare numbers do not say what they stand for.
        shown[0] = f"{word if len(names) == 1 else word + 's'} {shown[0]}"
    if len(names) > limit:
        return f"{', '.join(shown)} and {len(names) - limit:,} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


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
    who = count_of(data.experts, "expert") if data.experts else "Experts who are not named"
    text = f"{who} {did} {count_of(data.items, 'item')}"
    text += f" in {count_of(data.instances, 'instance')}" if data.instances > 1 else ""
    text += f": {count_of(data.rows, what.removesuffix('s'))}"
    if data.weight is not None:
        text += f", lists weighing {data.weight:,.6g} together"
    if data.kind == "comparisons":
        return f"{text}, {data.ties:.0%} of them ties."
    if data.coverage is not None and data.coverage < 0.995:
        text += f"; a list holds {data.coverage:.0%} of the items on average"
    return f"{text}."


def _about_leaderboard(context: _Context) -> str:
    ranking = context.consensus.ranking()
    leaders = int((context.consensus.rank == 1).sum())
    if leaders > 1:
        shared = _listed(context.item_names(ranking[:leaders]), word="item")
        return f"By {context.results[0].label}, {count_of(leaders, 'item')} share the first place: {shared}."
    text = f"By {context.results[0].label}, {_listed(context.item_names(ranking[:1]), word='item')} comes first"
    if len(ranking) > 2:
        text += f", then {_listed(context.item_names(ranking[1:3]), word='item')}"
    if context.ranges is None:
        return f"{text}."
    upper = context.ranges.upper[context.consensus.order()[0]]
    if np.isnan(upper):
        return f"{text}."
    rivals = int((context.ranges.lower == 1).sum()) - 1
    if rivals <= 0:
        return f"{text}; no other item can claim that place."
    return f"{text}; the data cannot rule out {count_of(rivals, 'other item')} for the first place."


def _about_instances(context: _Context) -> str:
    main = context.results[0].label
    if context.ranges is None:
        return f"The consensus shown is that of {main}."
    offsets, order = context.consensus.slots.offsets, context.consensus.order()
    first = order[offsets[:-1][np.diff(offsets) > 0]]
    upper = context.ranges.upper[first]
    known = ~np.isnan(upper)
    if not known.any():
        return f"The consensus shown is that of {main}."
    sure, near = float((upper[known] == 1).mean()), float((upper[known] <= 3).mean())
    text = f"The consensus shown is that of {main}. In {sure:.0%} of the instances its first item "
    if context.ranges.bootstrapped:
        return f"{text}stays first in nearly every draw of the experts, in {near:.0%} among the first three."
    return f"{text}is first beyond doubt, as far as its intervals tell, in {near:.0%} among the first three."


def _about_experts(experts: Experts, kind: str) -> str:
    mean = experts.mean or 0.0
    close = _agreement_word(mean / max(experts.max_agreement, 1e-9))
    what = "so many ties leave at most" if kind == "comparisons" else "lists so short can reach"
    scale = f"{what} {experts.max_agreement:.2f}" if experts.max_agreement < 0.95 else "1 is the same order"
    text = f"Experts agree {close} with the consensus ({_two_decimals(mean)} on average; {scale})"
    if experts.groups:
        sizes = [g.size for g in experts.groups]
        listed = f"{', '.join(f'{s:,}' for s in sizes[:-1])} and {sizes[-1]:,}"
        text += f", and can be divided into {len(sizes)} groups of {listed}"
    if experts.outliers:
        names = list(experts.outliers)
        kinds = set(experts.outliers.values())
        word = next(iter(kinds)) if kinds in ({"turned around"}, {"no better than chance"}) else "far from the others"
        be = "is" if len(names) == 1 else "are"
        return f"{text}; {_listed(names, word='expert')} {be} {word}."
    return f"{text}{'; nobody stands far apart' if experts.total > 3 else ''}."


def _about_methods(results: list[MethodResult], tau: Floats) -> str:
    upper = np.triu_indices(len(results), 1)
    values = tau[upper]
    if np.isnan(values).all():
        return f"{count_of(len(results), 'method')} were asked."
    if float(np.nanmin(values)) > 1 - _SAME_ORDER:
        return f"The {len(results)} methods give the same order."
    low = int(np.nanargmin(values))
    a, b = results[int(upper[0][low])].label, results[int(upper[1][low])].label
    if len(results) == 2:
        return (
            f"The two methods, {a} and {b}, agree {_agreement_word(float(values[low]))} ({_two_decimals(values[low])})."
        )
    return (
        f"The {len(results)} methods agree {_agreement_word(float(np.nanmean(values)))} with each other "
        f"({_two_decimals(float(np.nanmean(values)))} on average); furthest apart are {a} and {b} "
        f"({_two_decimals(values[low])})."
    )


def _about_evaluation(evaluation: LabelEvaluation) -> list[str]:
    rows = [row for row in evaluation.rows if row.kind != "expert"]
    best, base = rows[0], next(row for row in rows if row.name == evaluation.baseline)
    metric = evaluation.main.upper()
    text = f"Against the labels the best method is {best.name} ({metric} {best.cells[evaluation.main].mean:.3f})"
    if best.name == base.name:
        text += ", and nothing that was tried beats it"
    else:
        cell = best.cells[evaluation.main]
        sure = "significantly better than" if cell.sign > 0 else "though not significantly better than"
        text += f", {sure} {base.name} ({base.cells[evaluation.main].mean:.3f})"
    alone = [row for row in evaluation.rows if row.kind == "expert"]
    if alone:
        text += f"; the best expert alone reaches {alone[0].cells[evaluation.main].mean:.3f}"
    out = [f"{text}."]
    if evaluation.learned is not None:
        out.append(
            f"Learning whom to believe ({evaluation.learned}) improves {count_of(evaluation.better, 'instance')} over "
            f"{evaluation.baseline}, and worsens {evaluation.worse:,}."
        )
    return out
