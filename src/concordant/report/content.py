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
from concordant.report.clusters import expert_groups
from concordant.report.inventory import KINDS, Inventory, several, take_stock, twins
from concordant.report.opinions import (
    Asked,
    Difference,
    Opinion,
    RankRange,
    Votes,
    ask,
    default_learners,
    default_methods,
    differences,
    likeness,
    rank_ranges,
    same_first,
)
from concordant.report.standing import Standing, among_others, expert_standing, odd_ones
from concordant.report.truth import Truth, face_truth
from concordant.selection.portions import labelled

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
    odd: str
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
    odd: dict[str, str]
    most: float = 1.0
    alike: list[tuple[str, str, int]] = field(default_factory=list)
    looked: int | None = None


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
    stock: Inventory
    main: str
    ranges: str | None
    level: float | None
    board: list[Place]
    instances: list[Instance]
    experts: Experts | None
    methods: list[MethodRow]
    asked: list[str]
    tau: list[list[float | None]]
    differences: list[Difference]
    truth: Truth | None
    vocabulary: list[str] = field(default_factory=list)
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
    say: Callable[[str], None] = lambda _: None,
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
    >>> report.main, [place.item for place in report.board]
    ('plackett-luce', ['a', 'b', 'c'])
    """
    if votes.n_rows == 0:
        raise DataError("there is nothing to report: nobody ranked or compared anything.")
    if labels is not None and not labelled(votes, labels).any():
        raise DataError(
            f"the labels are of other instances. The data has {listing(votes.instances[:5].tolist(), 4)}, the labels "
            f"have {listing(labels.instances[:5].tolist(), 4)}; they are matched by id."
        )
    called = _names_of(votes, names or {})
    say("looking at the data")
    stock = take_stock(votes, labels)
    chosen = default_methods(votes) if methods is None else [Asked(name, m) for name, m in methods]
    plain = [a for a in chosen if not a.method.needs_labels()]
    learners = [a for a in chosen if a.method.needs_labels()]
    if methods is None and labels is not None:
        learners = default_learners(votes)
    opinions = []
    for asked in plain:
        say(f"asking {asked.label}")
        opinions.append(ask(asked, votes))
    heard = [o for o in opinions if o.consensus is not None]
    if not heard:
        reasons = "; ".join(f"{o.label}: {o.reason}" for o in opinions) or "all of them learn from labels"
        raise DataError(f"none of the methods can give a consensus without labels. {reasons}. Add one, such as borda.")
    main, consensus = heard[0], heard[0].consensus
    if consensus is None:
        raise DataError("there is no consensus to show.")
    say("drawing experts anew")
    ranges = rank_ranges(main, votes)
    truth = None
    if labels is not None:
        truth = face_truth(votes, labels, heard, learners, convention=convention, folds=folds, say=say)
    say("looking at the experts")
    standing = None if isinstance(votes, Comparisons) and votes.expert is None else expert_standing(votes, consensus)
    experts = None if standing is None else _experts(votes, consensus, standing, heard, truth)
    say("looking at the methods")
    tau = likeness(heard, votes)
    left_out: list[str] = []
    view = _View(votes, consensus, ranges, labels, heard, truth, called)
    board = _board(view, left_out) if len(votes) == 1 else []
    instances = _instances(view, standing, left_out) if len(votes) > 1 else []
    rows = [_method_row(o, heard, tau, consensus) for o in opinions]
    rows += _learner_rows(learners, labels, truth)
    if experts is not None and experts.total > len(experts.rows):
        left_out.append(f"{experts.total - len(experts.rows):,} of {experts.total:,} experts are not in the table.")
    if experts is not None:
        stock.warnings.extend(_copy_warnings(experts))
        if experts.looked is not None:
            left_out.append(
                f"Experts beside experts, and the nearest one: from {experts.looked:,} evenly spaced instances of "
                f"{len(votes):,}."
            )
    if truth is not None:
        stock.warnings.extend(_truth_warnings(truth))
    summary = _summary(stock, view, experts, heard, tau, truth)
    return Report(
        title=title,
        version=__version__,
        made=date.today().isoformat(),
        sources=list(sources),
        summary=summary,
        stock=stock,
        main=main.label,
        ranges=None if ranges is None else ranges.how,
        level=consensus.level,
        board=board,
        instances=instances,
        experts=experts,
        methods=rows,
        asked=[o.label for o in heard],
        tau=_table(tau),
        differences=differences(heard, votes, _DIFFERENCES),
        truth=truth,
        vocabulary=votes.experts.tolist() if len(votes) > 1 else [],
        left_out=left_out,
        names=called,
    )


def _names_of(votes: Votes, names: Mapping[str, str]) -> dict[str, str]:
    """Return the names of items that there are; an id that is its own name has none."""
    out = {item: names[item] for item in set(votes.items) if item in names and names[item] != item} if names else {}
    if names and not out and not any(item in names for item in votes.items):
        raise DataError(
            f"the names are of other items. The data has {listing(votes.items[:5].tolist(), 4)}, the names are of "
            f"{listing(list(names)[:5], 4)}; they are matched by id."
        )
    return out


def _number(value: Any) -> float | None:
    return None if value is None or np.isnan(value) else float(value)


def _table(values: Floats) -> list[list[float | None]]:
    return [[_number(v) for v in row] for row in values]


@dataclass(frozen=True)
class _View:
    """What is shown of an instance, from all that was computed."""

    votes: Votes
    consensus: Consensus
    ranges: RankRange | None
    labels: Labels | None
    heard: list[Opinion]
    truth: Truth | None
    names: dict[str, str]

    def called(self, items: Sequence[str]) -> list[str]:
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
            low, high = _number(low), _number(high)
            out.append(
                Place(
                    item,
                    int(c.rank[slot]),
                    float(c.score[slot]),
                    None if c.lower is None else _number(c.lower[slot]),
                    None if c.upper is None else _number(c.upper[slot]),
                    None if low is None else int(low),
                    None if high is None else int(high),
                    float(said[slot]),
                    _number(label[slot]),
                    [int(r) for r in ranks[slot]],
                )
            )
        return out

    @property
    def ranks(self) -> Floats:
        return np.column_stack([o.consensus.rank for o in self.heard if o.consensus is not None])


def _board(view: _View, left_out: list[str]) -> list[Place]:
    m = view.votes.n_slots
    if m > _ITEMS:
        left_out.append(f"{m - _ITEMS:,} of {m:,} items stand below those of the leaderboard.")
    return view.places(0, _ITEMS, support(view.votes), view.label_of(), view.ranks)


def _instances(view: _View, standing: Standing | None, left_out: list[str]) -> list[Instance]:
    votes = view.votes
    n = len(votes)
    shown = min(n, _INSTANCES)
    if shown < n:
        left_out.append(
            f"{n - shown:,} of {n:,} instances are not listed; concordant aggregate --instance ID shows any of them."
        )
    lists = isinstance(votes, Preferences)
    wide = lists and votes.n_experts <= MANY_EXPERTS
    depth = int(np.clip(_CELLS // max(shown * (votes.n_experts if wide else 1), 1), _BEST, _DETAIL))
    said, label, ranks = support(votes), view.label_of(), view.ranks
    agreement, answered = _agreement_by_instance(votes, standing)
    place = votes.positions("min") if isinstance(votes, Preferences) and wide else None
    values = {} if view.truth is None else view.truth.values
    mine = values.get(view.heard[0].label, {})
    learned = values.get(view.truth.learned, {}) if view.truth is not None and view.truth.learned is not None else {}
    out = []
    for i in range(shown):
        name = votes.instances[i]
        places = view.places(i, depth, said, label, ranks)
        table: list[list[int | None]] = []
        if place is not None and isinstance(votes, Preferences):
            table = _expert_ranks(votes, place, i, view.consensus, len(places))
        out.append(
            Instance(
                name,
                int(answered[i]),
                int(votes.slots.sizes[i]),
                _number(agreement[i]),
                places,
                mine.get(name),
                learned.get(name),
                table,
            )
        )
    return out


def _agreement_by_instance(votes: Votes, standing: Standing | None) -> tuple[Floats, Floats]:
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
    tau = None if standing is None else standing.by_list
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
    votes: Votes, consensus: Consensus, standing: Standing, heard: list[Opinion], truth: Truth | None
) -> Experts:
    names = votes.experts.tolist()
    k = len(names)
    order: list[str] = []
    tau: list[list[float | None]] = []
    others = np.full(k, np.nan)
    nearest: list[str | None] = [None] * k
    groups: list[GroupRow] = []
    alike: list[tuple[str, str, int]] = []
    looked: int | None = None
    group_of: dict[int, int] = {}
    if k <= MANY_EXPERTS:
        some = _sample(votes)
        apart = among_others(votes if k * votes.n_slots <= _CELLS_SORTED else some)
        others, odd = apart.agreement, odd_ones(apart)
        # Who orders as the others do what they share, and yet is far from the consensus, lists what they do not.
        if isinstance(votes, Preferences) and votes.kind != "rating":
            odd |= {e: "other items" for e in odd_ones(standing) if e not in odd and standing.coverage[e] < 1}
        looked = len(some) if len(some) < len(votes) else None
        beside, copies = _beside(some)
        # Who says the same in every instance was named before.
        known_twins = set(twins(votes)) if isinstance(votes, Preferences) else set()
        alike = [(names[a], names[b], n) for a, b, n in copies if (names[a], names[b]) not in known_twins]
        arranged = cluster_order(beside)
        order = [names[int(e)] for e in arranged]
        tau = _table(beside[np.ix_(arranged, arranged)])
        nearest = _nearest(beside, names)
    else:
        odd = odd_ones(standing)
        groups, group_of = _groups(votes, consensus, standing)
    weights = _learned_weights(heard, truth)
    values = {} if truth is None else truth.expert_values
    rows = [
        ExpertRow(
            name,
            int(standing.lists[e]),
            int(standing.rows[e]),
            float(standing.coverage[e]),
            _number(standing.agreement[e]),
            _number(standing.error[e]),
            _number(others[e]),
            nearest[e],
            {label: w.get(name) for label, w in weights.items()},
            values.get(name),
            odd.get(e, ""),
            group_of.get(e),
        )
        for e, name in enumerate(names)
    ]
    rows.sort(key=lambda row: (row.agreement is None, -(row.agreement or 0.0)))
    if k > _EXPERT_ROWS:
        half = _EXPERT_ROWS // 2
        known = [row for row in rows if row.agreement is not None]
        rows = known[:half] + known[-half:] if len(known) > _EXPERT_ROWS else known
    mean = float(np.nanmean(standing.agreement)) if not np.isnan(standing.agreement).all() else None
    apart_by_name = {names[e]: word for e, word in odd.items()}
    return Experts(rows, k, list(weights), order, tau, groups, mean, apart_by_name, _most(votes), alike, looked)


def _beside(votes: Votes) -> tuple[Floats, list[tuple[int, int, int]]]:
    """Return the agreement of every two experts, NaN where it rests on next to nothing; and who orders all alike.

    The latter with the number of pairs of items they share.
    """
    found = expert_agreement(votes)
    common = found.shared[np.triu_indices(len(found.shared), 1)]
    # Of a few items everybody ranks there are few pairs, and they are all there is.
    enough = min(float(_FEWEST_PAIRS), float(np.median(common)) / 2) if len(common) else 0.0
    own = np.eye(len(found.tau), dtype=np.bool_)
    alike = (found.tau > 1 - _SAME_ORDER) & (found.shared >= _MANY_PAIRS) & ~own
    copies = [(int(a), int(b), int(found.shared[a, b])) for a, b in np.argwhere(np.triu(alike))]
    return np.where((found.shared >= enough) | own, found.tau, np.nan), copies


def _most(votes: Votes) -> float:
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


def _sample(votes: Votes) -> Votes:
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


def _learned_weights(heard: list[Opinion], truth: Truth | None) -> dict[str, dict[str, float]]:
    out = {}
    for opinion in heard:
        learned = opinion.method.learned_experts()
        if learned and len({round(float(w), 9) for w in learned["weight"]}) > 1:
            out[opinion.label] = dict(zip(learned["expert"], (float(w) for w in learned["weight"]), strict=True))
    return out | ({} if truth is None else truth.weights)


def _groups(votes: Votes, consensus: Consensus, standing: Standing) -> tuple[list[GroupRow], dict[int, int]]:
    groups = expert_groups(votes)
    names = votes.experts
    said = support(votes)
    heard = said >= np.median(said)
    rows = []
    for g, group in enumerate(groups, start=1):
        own = group.consensus
        best = [item for n in range(min(len(votes), 1)) for item in own.ranking(own.instances[n])[:5]]
        lift = np.where(heard, np.log(consensus.rank / own.rank), -np.inf)
        higher = [votes.slots.where(int(s))[1] for s in np.argsort(-lift, kind="stable")[:5] if lift[s] > 0]
        rows.append(
            GroupRow(
                g,
                len(group.members),
                group.cohesion,
                float(np.nanmean(standing.agreement[group.members])),
                best if len(votes) == 1 else [],
                higher if len(votes) == 1 else [],
                names[group.typical],
                float(group.standing.agreement[group.typical]),
                names[group.deviant],
                float(group.standing.agreement[group.deviant]),
                [float(np.nanmean(other.standing.agreement[group.members])) for other in groups],
            )
        )
    return rows, {int(e): g for g, group in enumerate(groups, start=1) for e in group.members}


def _method_row(opinion: Opinion, heard: list[Opinion], tau: Floats, main: Consensus) -> MethodRow:
    if opinion.consensus is None:
        return MethodRow(opinion.label, opinion.summary, None, None, opinion.seconds, opinion.warnings, opinion.reason)
    i = heard.index(opinion)
    return MethodRow(
        opinion.label,
        opinion.summary,
        _number(tau[0, i]),
        _number(same_first(main, opinion.consensus)),
        opinion.seconds,
        opinion.warnings,
        "",
    )


def _learner_rows(learners: list[Asked], labels: Labels | None, truth: Truth | None) -> list[MethodRow]:
    out = []
    for asked in learners:
        reason = "learns from labels, and there are none" if labels is None else ""
        if truth is not None:
            reason = truth.left_out.get(asked.label, "")
        out.append(MethodRow(asked.label, Opinion(*asked).summary, None, None, 0.0, [], reason))
    return out


def _copy_warnings(experts: Experts) -> list[str]:
    out = []
    for a, b, n in sorted(experts.alike, key=lambda x: -x[2])[:3]:
        who = _listed([a, b], word="Expert")
        where = "" if experts.looked is None else f" in {experts.looked:,} instances looked at"
        out.append(
            f"{who} order alike all they share ({n:,} pairs of items{where}): perhaps one opinion, counted twice."
        )
    if len(experts.alike) > len(out):
        out.append(f"So do {several(len(experts.alike) - len(out), 'other pair')} of experts.")
    return out


def _truth_warnings(truth: Truth) -> list[str]:
    out = []
    if truth.unjudged > 0.2:
        out.append(
            f"{truth.unjudged:.0%} of the ten best items of {truth.baseline} have no label and count as not relevant: "
            "methods that find new items are judged too low."
        )
    return out


def _two(value: float) -> str:
    """Return a number to two places; one that rounds to nothing has no sign."""
    text = f"{value:.2f}"
    return (text if float(text) else "0.00").replace("-", "\u2212")


def _closeness(tau: float) -> str:
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
    stock: Inventory,
    view: _View,
    experts: Experts | None,
    heard: list[Opinion],
    tau: Floats,
    truth: Truth | None,
) -> list[str]:
    out = [_about_data(stock)]
    out.append(_about_board(view) if stock.instances == 1 else _about_instances(view))
    if experts is not None and experts.mean is not None and experts.total > 1:
        out.append(_about_experts(experts, stock.kind))
    if len(heard) > 1:
        out.append(_about_methods(heard, tau))
    if truth is not None:
        out += _about_truth(truth)
    return out


def _about_data(stock: Inventory) -> str:
    what, did = KINDS[stock.kind]
    who = several(stock.experts, "expert") if stock.experts else "Experts who are not named"
    text = f"{who} {did} {several(stock.items, 'item')}"
    text += f" in {several(stock.instances, 'instance')}" if stock.instances > 1 else ""
    text += f": {several(stock.rows, what.removesuffix('s'))}"
    if stock.weight is not None:
        text += f", lists weighing {stock.weight:,.6g} together"
    if stock.kind == "comparisons":
        return f"{text}, {stock.ties:.0%} of them ties."
    if stock.coverage is not None and stock.coverage < 0.995:
        text += f"; a list holds {stock.coverage:.0%} of the items on average"
    return f"{text}."


def _about_board(view: _View) -> str:
    ranking = view.consensus.ranking()
    leaders = int((view.consensus.rank == 1).sum())
    if leaders > 1:
        shared = _listed(view.called(ranking[:leaders]), word="item")
        return f"By {view.heard[0].label}, {several(leaders, 'item')} share the first place: {shared}."
    text = f"By {view.heard[0].label}, {_listed(view.called(ranking[:1]), word='item')} comes first"
    if len(ranking) > 2:
        text += f", then {_listed(view.called(ranking[1:3]), word='item')}"
    if view.ranges is None:
        return f"{text}."
    upper = view.ranges.upper[view.consensus.order()[0]]
    if np.isnan(upper):
        return f"{text}."
    rivals = int((view.ranges.lower == 1).sum()) - 1
    if rivals <= 0:
        return f"{text}; no other item can claim that place."
    return f"{text}; the data cannot rule out {several(rivals, 'other item')} for the first place."


def _about_instances(view: _View) -> str:
    main = view.heard[0].label
    if view.ranges is None:
        return f"The consensus shown is that of {main}."
    offsets, order = view.consensus.slots.offsets, view.consensus.order()
    first = order[offsets[:-1][np.diff(offsets) > 0]]
    upper = view.ranges.upper[first]
    known = ~np.isnan(upper)
    if not known.any():
        return f"The consensus shown is that of {main}."
    sure, near = float((upper[known] == 1).mean()), float((upper[known] <= 3).mean())
    text = f"The consensus shown is that of {main}. In {sure:.0%} of the instances its first item "
    if view.ranges.drawn:
        return f"{text}stays first in nearly every draw of the experts, in {near:.0%} among the first three."
    return f"{text}is first beyond doubt, as far as its intervals tell, in {near:.0%} among the first three."


def _about_experts(experts: Experts, kind: str) -> str:
    mean = experts.mean or 0.0
    close = _closeness(mean / max(experts.most, 1e-9))
    what = "so many ties leave at most" if kind == "comparisons" else "lists so short can reach"
    scale = f"{what} {experts.most:.2f}" if experts.most < 0.95 else "1 is the same order"
    text = f"Experts agree {close} with the consensus ({_two(mean)} on average; {scale})"
    if experts.groups:
        sizes = [g.size for g in experts.groups]
        listed = f"{', '.join(f'{s:,}' for s in sizes[:-1])} and {sizes[-1]:,}"
        text += f", and can be divided into {len(sizes)} groups of {listed}"
    if experts.odd:
        names = list(experts.odd)
        kinds = set(experts.odd.values())
        word = next(iter(kinds)) if kinds in ({"turned around"}, {"no better than chance"}) else "far from the others"
        be = "is" if len(names) == 1 else "are"
        return f"{text}; {_listed(names, word='expert')} {be} {word}."
    return f"{text}{'; nobody stands far apart' if experts.total > 3 else ''}."


def _about_methods(heard: list[Opinion], tau: Floats) -> str:
    upper = np.triu_indices(len(heard), 1)
    values = tau[upper]
    if np.isnan(values).all():
        return f"{several(len(heard), 'method')} were asked."
    if float(np.nanmin(values)) > 1 - _SAME_ORDER:
        return f"The {len(heard)} methods give the same order."
    low = int(np.nanargmin(values))
    a, b = heard[int(upper[0][low])].label, heard[int(upper[1][low])].label
    if len(heard) == 2:
        return f"The two methods, {a} and {b}, agree {_closeness(float(values[low]))} ({_two(values[low])})."
    return (
        f"The {len(heard)} methods agree {_closeness(float(np.nanmean(values)))} with each other "
        f"({_two(float(np.nanmean(values)))} on average); furthest apart are {a} and {b} ({_two(values[low])})."
    )


def _about_truth(truth: Truth) -> list[str]:
    rows = [row for row in truth.rows if row.kind != "expert"]
    best, base = rows[0], next(row for row in rows if row.name == truth.baseline)
    metric = truth.main.upper()
    text = f"Against the labels the best method is {best.name} ({metric} {best.cells[truth.main].mean:.3f})"
    if best.name == base.name:
        text += ", and nothing that was tried beats it"
    else:
        cell = best.cells[truth.main]
        sure = "significantly better than" if cell.sign > 0 else "though not significantly better than"
        text += f", {sure} {base.name} ({base.cells[truth.main].mean:.3f})"
    alone = [row for row in truth.rows if row.kind == "expert"]
    if alone:
        text += f"; the best expert alone reaches {alone[0].cells[truth.main].mean:.3f}"
    out = [f"{text}."]
    if truth.learned is not None:
        out.append(
            f"Learning whom to believe ({truth.learned}) improves {several(truth.better, 'instance')} over "
            f"{truth.baseline}, and worsens {truth.worse:,}."
        )
    return out
