"""Describes the data of a report: counts, coverage, overlap, ties, labels, and warnings about their quality."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.container import counted
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.inference.experts import support as item_support
from concordant.report.agreement import unordered_pairs
from concordant.report.wording import listed, percent

__all__ = ["KINDS", "Bar", "DataSummary", "Fact", "identical_experts", "summarise_data"]

# Kind of data -> what its values are called, and what an expert did to give them.
KINDS = {
    "rank": ("ranks", "ranked"),
    "score": ("scores", "scored"),
    "rating": ("ratings", "rated"),
    "comparisons": ("comparisons", "compared"),
}
_BARS = 16
# The most lists of an instance whose overlap is computed; five times as many where there is one instance.
_LISTS = 400
# Experts with fewer rows than this share of the median expert get a warning.
_FEW_ROWS = 0.01
_FEW_COMPARISONS = 10
# The smallest number of rows for which identical lists are no coincidence.
_MIN_IDENTICAL = 10


class Fact(NamedTuple):
    """One figure about the data, as text."""

    name: str
    value: str
    note: str = ""


class Bar(NamedTuple):
    """One bar of a histogram: how many items fall into it."""

    name: str
    items: int


@dataclass(frozen=True)
class DataSummary:
    """Counts and quality of the data.

    Attributes
    ----------
    kind : str
        "rank", "score", "rating" or "comparisons".
    instances, experts, items, rows : int
        Their numbers. An item that occurs in two instances counts twice.
    coverage, overlap, ties : float or None
        Means: the share of the items of its instance that a list holds; the Jaccard overlap of two lists; the share
        of entries that are tied within their list (of outcomes, for comparisons).
    facts : list of Fact
        The same and more, as text.
    support : list of Bar
        Histogram of the items by the number of experts who ranked them, or of their comparisons.
    warnings : list of str
        What a reader should know before trusting the result.
    weight : float or None
        Total weight of the lists; None where every list has weight 1.
    """

    kind: str
    instances: int
    experts: int
    items: int
    rows: int
    coverage: float | None
    overlap: float | None
    ties: float
    facts: list[Fact]
    support: list[Bar]
    warnings: list[str]
    weight: float | None = None


def summarise_data(
    votes: Preferences | Comparisons, labels: Labels | None = None, *, side_fitted: bool = False
) -> DataSummary:
    """Summarise the data: counts, coverage, overlap, ties, labels and warnings.

    `side_fitted` says that the scores shown are adjusted for the side on which an item was shown.

    Examples
    --------
    >>> import concordant as cc
    >>> data = summarise_data(cc.from_lists({"x": ["a", "b"], "y": ["b", "c"]}))
    >>> data.items, round(data.coverage, 2), round(data.overlap, 2), data.ties
    (3, 0.67, 0.33, 0.0)
    """
    found = _of_lists(votes) if isinstance(votes, Preferences) else _of_comparisons(votes, side_fitted)
    if labels is None:
        return found
    facts, warnings = _of_labels(votes, labels)
    found.facts.extend(facts)
    found.warnings.extend(warnings)
    return found


def _spread(name: str, values: Ints | Floats) -> Fact:
    """Return the median of some counts with their minimum and maximum."""
    low, middle, high = (float(v) for v in (values.min(), np.median(values), values.max()))
    if low == high:
        return Fact(name, f"{low:,.0f}", "all the same")
    return Fact(name, f"{middle:,.0f} ({low:,.0f} to {high:,.0f})", "median (min to max)")


def _distinct(votes: Preferences | Comparisons) -> int:
    return len(set(votes.items)) if len(votes) > 1 else votes.n_slots


def _of_lists(votes: Preferences) -> DataSummary:
    n, k, m, r = len(votes), votes.n_experts, votes.n_slots, votes.n_rows
    what, _ = KINDS[votes.kind]
    sizes, lengths = votes.slots.sizes, votes.list_lengths
    answered = np.bincount(votes.list_instance, minlength=n)
    share = lengths / np.maximum(sizes[votes.list_instance], 1)
    coverage = float(share.mean()) if len(share) else None
    overlap = _overlap(votes)
    tied = _tied(votes)
    support = np.bincount(votes.slot, minlength=m)
    facts = [
        Fact("Instances", f"{n:,}", "ranked separately: queries, elections, leaderboards"),
        Fact("Experts", f"{k:,}", "who rank: systems, judges, voters"),
        Fact("Items", f"{m:,}", "counted in each instance" if n > 1 else ""),
    ]
    if n > 1 and (distinct := _distinct(votes)) != m:
        facts.append(Fact("Distinct items", f"{distinct:,}", "by id"))
    facts.append(Fact(what.capitalize(), f"{r:,}", f"in {counted(votes.n_lists, 'list')}"))
    weight = None if votes.list_weight is None else float(votes.weights.sum())
    if weight is not None:
        facts.append(Fact("Total weight", f"{weight:,.6g}", "of the lists; a ballot cast 3 times has weight 3"))
    if len(lengths):
        facts.append(_spread("Items per list", lengths))
    if n > 1 and len(sizes):
        facts.append(_spread("Items per instance", sizes))
        facts.append(_spread("Experts per instance", answered))
    if coverage is not None:
        facts.append(Fact("Coverage", percent(coverage), "of the items of its instance are in a list, on average"))
        facts.append(Fact("Missing", percent(1 - coverage), "of them are not in it"))
    if overlap is not None:
        facts.append(Fact("Overlap", percent(overlap), "of the items of two lists are in both, on average"))
    facts.append(Fact("Ties", percent(tied), "of the entries share their rank with another"))
    warnings = _list_warnings(votes, answered, support)
    return DataSummary(votes.kind, n, k, m, r, coverage, overlap, tied, facts, _histogram(support), warnings, weight)


def _overlap(votes: Preferences) -> float | None:
    """Return the mean Jaccard index of two lists, averaged over instances; of many lists, an even sample."""
    starts, offsets = votes.list_starts.tolist(), votes.slots.offsets.tolist()
    most = max(_LISTS, 5 * _LISTS // max(len(votes), 1))
    found = []
    for n in range(len(votes)):
        count = starts[n + 1] - starts[n]
        if count < 2:
            continue
        lists = starts[n] + np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
        held = np.zeros((len(lists), offsets[n + 1] - offsets[n]), dtype=np.float32)
        for at, one in enumerate(lists.tolist()):
            held[at, votes.slot[votes.list_offsets[one] : votes.list_offsets[one + 1]] - offsets[n]] = 1.0
        both = (held @ held.T).astype(np.float64)
        own = np.diag(both)
        index = both / np.maximum(own[:, None] + own[None, :] - both, 1.0)
        pairs = len(own) * (len(own) - 1)
        found.append((index.sum() - np.trace(index)) / pairs)
    return float(np.mean(found)) if found else None


def _tied(votes: Preferences) -> float:
    if votes.n_rows == 0:
        return 0.0
    place = np.rint(2 * votes.positions("average")).astype(np.int64)
    key = votes.row_list.astype(np.int64) * (int(place.max()) + 1) + place
    times = np.unique(key, return_counts=True)[1]
    return float(times[times > 1].sum() / votes.n_rows)


def _histogram(support: Ints | Floats) -> list[Bar]:
    """Return a histogram of the support of the items: one bar for each number, or for ranges that double in width.

    Ranges double because a few items often have far more support than the rest.
    """
    counts = np.rint(support).astype(np.int64)
    if not len(counts):
        return []
    low, high = int(counts.min()), int(counts.max())
    if high - low < _BARS:
        held = np.bincount(counts - low, minlength=high - low + 1).tolist()
        return [Bar(f"{low + v:,}", int(c)) for v, c in enumerate(held)]
    edges = [0, 1]
    while edges[-1] <= high:
        edges.append(2 * edges[-1])
    held = np.histogram(counts, edges)[0].tolist()
    bars = [
        Bar(f"{a:,}" if b - a == 1 else f"{a:,}–{min(b - 1, high):,}", int(c))
        for a, b, c in zip(edges[:-1], edges[1:], held, strict=True)
    ]
    first = next(i for i, bar in enumerate(bars) if bar.items)
    return bars[first:]


def _list_warnings(votes: Preferences, answered: Ints, support: Ints) -> list[str]:
    out = []
    n = len(votes)
    if votes.n_rows == 0:
        return ["Nobody ranked anything."]
    alone = int((answered == 1).sum())
    if alone and n > 1:
        have = "has" if alone == 1 else "have"
        out.append(f"{counted(alone, 'instance')} {have} a single list: there is no agreement to measure.")
    empty = int((answered == 0).sum())
    if empty:
        out.append(f"{counted(empty, 'instance')} {'has' if empty == 1 else 'have'} no list at all.")
    said = np.bincount(votes.list_expert, weights=votes.list_lengths, minlength=votes.n_experts)
    silent = [votes.experts[int(e)] for e in np.flatnonzero(said == 0)]
    if silent:
        out.append(f"{counted(len(silent), 'expert')} ranked nothing: {listed(silent)}.")
    quiet = [votes.experts[int(e)] for e in np.flatnonzero((said > 0) & (said < _FEW_ROWS * np.median(said)))]
    if quiet:
        out.append(
            f"{counted(len(quiet), 'expert')} ranked less than {_FEW_ROWS:.0%} of what the median expert ranked: "
            f"{listed(quiet)}."
        )
    unheard = int((support == 0).sum())
    if unheard:
        were = "was" if unheard == 1 else "were"
        out.append(
            f"{counted(unheard, 'item')} ({percent(unheard / len(support))}) {were} ranked by nobody. Methods place "
            "such items last or in the middle."
        )
    single = int((support == 1).sum())
    if votes.n_experts > 2 and single > 0.5 * len(support):
        out.append(
            f"{single / len(support):.0%} of the items were ranked by only one expert: their rank depends on one "
            "opinion."
        )
    lengths, place = votes.list_lengths, votes.positions("max")
    first = np.minimum.reduceat(place, votes.list_offsets[:-1]) if votes.n_lists else np.zeros(0)
    flat = int(((first == lengths) & (lengths > 1)).sum())
    if flat:
        tie = "ties all its items and says" if flat == 1 else "tie all their items and say"
        out.append(f"{counted(flat, 'list')} {tie} nothing about the order.")
    out += [
        f"{listed(pair)} have identical lists in every instance: one opinion may be counted twice."
        for pair in identical_experts(votes)[:3]
    ]
    return out


def identical_experts(votes: Preferences) -> list[tuple[str, str]]:
    """Return pairs of experts whose lists are all equal, among experts with at least 10 rows."""
    if votes.n_experts > 200 or votes.list_weight is not None:
        return []
    place = np.rint(2 * votes.positions("average")).astype(np.int64)
    seen: dict[bytes, int] = {}
    out = []
    order = np.argsort(votes.row_expert, kind="stable")
    edges = np.searchsorted(votes.row_expert[order], np.arange(votes.n_experts + 1))
    for e in range(votes.n_experts):
        rows = order[edges[e] : edges[e + 1]]
        if len(rows) < _MIN_IDENTICAL:
            continue
        rows = rows[np.argsort(votes.slot[rows], kind="stable")]
        key = votes.slot[rows].tobytes() + place[rows].tobytes()
        if key in seen:
            out.append((votes.experts[seen[key]], votes.experts[e]))
        seen.setdefault(key, e)
    return out


def _of_comparisons(votes: Comparisons, side_fitted: bool) -> DataSummary:
    outcomes = votes.outcomes
    total, ties = float(outcomes.sum()), float(votes.n_ties.sum())
    m, named = votes.n_slots, votes.expert is not None
    met = len(np.unique(unordered_pairs(votes)[0]))
    sizes = votes.slots.sizes.astype(np.int64)
    possible = int((sizes * (sizes - 1) // 2).sum())
    support = item_support(votes)
    share = ties / total if total else 0.0
    facts = [
        Fact("Instances", f"{len(votes):,}", "ranked separately; a leaderboard is one instance"),
        Fact("Experts", f"{votes.n_experts:,}" if named else "not named", "who compare: judges, users, models"),
        Fact("Items", f"{m:,}"),
        Fact("Comparisons", f"{total:,.15g}", "wins, losses and ties"),
        Fact("Ties", percent(share), "of the outcomes"),
        Fact("Pairs compared", f"{met:,}", f"of {possible:,} possible ({percent(met / max(possible, 1))})"),
    ]
    if len(support):
        facts.append(_spread("Comparisons per item", support))
    warnings = []
    if votes.expert is not None:
        said = np.bincount(votes.expert, weights=outcomes, minlength=votes.n_experts)
        facts.append(_spread("Comparisons per expert", said))
        few = int((said < _FEW_COMPARISONS).sum())
        if few:
            warnings.append(
                f"{counted(few, 'expert')} made fewer than {_FEW_COMPARISONS} comparisons, too few to judge their "
                "reliability."
            )
    if votes.sided and total:
        left, right = float(votes.n_left.sum()), float(votes.n_right.sum())
        lean = (left - right) / max(left + right, 1.0)
        if abs(lean) * np.sqrt(left + right) > 3:
            side = "left" if lean > 0 else "right"
            decided = max(left, right) / (left + right)
            so = "the judges may have a position bias"
            if side_fitted:
                so = "the judges have a position bias, and the scores are adjusted for it"
            warnings.append(
                f"The item shown on the {side} won {decided:.1%} of the decided comparisons, more than chance "
                f"explains: {so}."
            )
    unheard = int((support == 0).sum())
    if unheard:
        warnings.append(f"{counted(unheard, 'item')} took part in no comparison.")
    rows = round(total)
    return DataSummary(
        "comparisons", len(votes), votes.n_experts, m, rows, None, None, share, facts, _histogram(support), warnings
    )


def _of_labels(votes: Preferences | Comparisons, labels: Labels) -> tuple[list[Fact], list[str]]:
    known = ~np.isnan(labels.label)
    judged = ~np.isnan(labels.align(votes).label)
    there = sum(instance in labels.instances.codes for instance in votes.instances)
    values, times = np.unique(labels.label[known], return_counts=True)
    shares = ", ".join(
        f"{v:g}: {c / max(times.sum(), 1):.0%}" for v, c in list(zip(values.tolist(), times.tolist(), strict=True))[:6]
    )
    facts = [
        Fact("Labelled instances", f"{there:,}", f"of {len(votes):,}"),
        Fact("Labels", f"{int(known.sum()):,}", shares + (" …" if len(values) > 6 else "")),
        Fact(
            "Judged",
            percent(float(judged.mean())) if len(judged) else "0%",
            "of the ranked items have a label",
        ),
    ]
    warnings = []
    if len(values) and values[-1] <= 0:
        warnings.append("No label is above 0: no item counts as relevant.")
    elsewhere = len(labels) - there
    if elsewhere:
        be = "is" if elsewhere == 1 else "are"
        warnings.append(f"{counted(elsewhere, 'labelled instance')} {be} not in the data and {be} not evaluated.")
    if there < len(votes):
        have = "has" if len(votes) - there == 1 else "have"
        warnings.append(f"{len(votes) - there:,} of {counted(len(votes), 'instance')} {have} no labels.")
    return facts, warnings
