"""What the data is: how much was said by whom of what, and what somebody who reads on should know about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import shorten

__all__ = ["Bar", "Fact", "DataSummary", "KINDS", "count_of", "summarise_data", "identical_experts"]

# What the values of a container are called, and what experts did to give them.
KINDS = {
    "rank": ("ranks", "ranked"),
    "score": ("scores", "scored"),
    "rating": ("ratings", "rated"),
    "comparisons": ("comparisons", "compared"),
}
_BARS = 16
# Lists of one instance that are compared item by item for their overlap; five times as many where there is but one.
_LISTS = 400
_ROUGHLY_NOTHING = 0.01


class Fact(NamedTuple):
    """One figure about the data, ready to be read."""

    name: str
    value: str
    note: str = ""


class Bar(NamedTuple):
    """How many there are of something."""

    name: str
    items: int


@dataclass(frozen=True)
class DataSummary:
    """What the data is.

    Attributes
    ----------
    kind : str
        "rank", "score", "rating" or "comparisons".
    instances, experts, items, rows : int
        How many there are; items are counted in every instance anew.
    coverage, overlap, ties : float or None
        The share of the items of its instance that a list holds; the share of the items of two lists together that
        both hold; the share of items that are tied within their list (of outcomes, for comparisons). Means.
    facts : list of Fact
        All that and more, in words.
    support : list of Bar
        Items by how many experts speak of them (by the comparisons they took part in).
    warnings : list of str
        What a reader should know.
    weight : float or None
        What all lists weigh together, where they do not all weigh 1.
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


def count_of(n: float, one: str, many: str | None = None) -> str:
    """Return a count with its noun.

    >>> count_of(1, "expert"), count_of(1200, "expert"), count_of(2, "query", "queries")
    ('1 expert', '1,200 experts', '2 queries')
    """
    return f"{n:,.0f} {one if n == 1 else many or one + 's'}"


def _percent(share: float) -> str:
    """Return a share in whole per cent, with one place where that would make a little nothing, or almost all, all.

    >>> _percent(0.25), _percent(0.996), _percent(0.004), _percent(1.0), _percent(0.0)
    ('25%', '99.6%', '0.4%', '100%', '0%')
    """
    if 0 < share < 0.1 or 0.995 <= share < 1:
        # What rounds to nothing or to all even so is neither.
        return f"{min(max(share, 0.001), 0.999):.1%}"
    return f"{share:.0%}"


def summarise_data(votes: Preferences | Comparisons, labels: Labels | None = None) -> DataSummary:
    """Return what the data is: counts, coverage, overlap, ties, and what is worth a warning.

    Examples
    --------
    >>> import concordant as cc
    >>> data = summarise_data(cc.from_lists({"x": ["a", "b"], "y": ["b", "c"]}))
    >>> data.items, round(data.coverage, 2), round(data.overlap, 2), data.ties
    (3, 0.67, 0.33, 0.0)
    """
    found = _of_lists(votes) if isinstance(votes, Preferences) else _of_comparisons(votes)
    if labels is None:
        return found
    facts, warnings = _of_labels(votes, labels)
    found.facts.extend(facts)
    found.warnings.extend(warnings)
    return found


def _spread(values: Ints | Floats) -> str:
    """Return the middle of some counts and how far they go."""
    low, middle, high = (float(v) for v in (values.min(), np.median(values), values.max()))
    if low == high:
        return f"{low:,.0f}"
    return f"{middle:,.0f} ({low:,.0f} to {high:,.0f})"


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
        Fact("Instances", f"{n:,}", "what is ranked one by one: a query, an election, a leaderboard"),
        Fact("Experts", f"{k:,}", "those who rank: systems, judges, voters"),
        Fact("Items", f"{m:,}", "counted in every instance anew" if n > 1 else ""),
    ]
    if n > 1 and (distinct := _distinct(votes)) != m:
        facts.append(Fact("Different items", f"{distinct:,}", "by their ids"))
    facts.append(Fact(what.capitalize(), f"{r:,}", f"in {count_of(votes.n_lists, 'list')}"))
    weight = None if votes.list_weight is None else float(votes.weights.sum())
    if weight is not None:
        facts.append(Fact("Weight of all lists", f"{weight:,.6g}", "a ballot cast three times weighs 3"))
    if len(lengths):
        facts.append(Fact("Items of a list", _spread(lengths), "middle (least to most)"))
    if n > 1 and len(sizes):
        facts.append(Fact("Items of an instance", _spread(sizes), "middle (least to most)"))
        facts.append(Fact("Experts of an instance", _spread(answered), "middle (least to most)"))
    if coverage is not None:
        facts.append(Fact("Coverage", _percent(coverage), "of the items of its instance, a list holds on average"))
        facts.append(Fact("Missing", _percent(1 - coverage), "of them it leaves out"))
    if overlap is not None:
        facts.append(Fact("Overlap", _percent(overlap), "of the items of two lists together, both hold on average"))
    facts.append(Fact("Ties", _percent(tied), "of the entries of a list share their place with another"))
    warnings = _list_warnings(votes, answered, support)
    return DataSummary(votes.kind, n, k, m, r, coverage, overlap, tied, facts, _histogram(support), warnings, weight)


def _overlap(votes: Preferences) -> float | None:
    """Return the mean over instances of the mean Jaccard index of two of its lists; very many are thinned evenly."""
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
    """Return items by how much is said of them: one bar for each number, or for ranges where they spread far.

    Ranges double from one to the next, for a few items are often spoken of far more than the rest.
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


def _some(names: list[str], limit: int = 3) -> str:
    shown = ", ".join(shorten(name, 40) for name in names[:limit])
    return shown + (f" and {len(names) - limit:,} more" if len(names) > limit else "")


def _list_warnings(votes: Preferences, answered: Ints, support: Ints) -> list[str]:
    out = []
    n = len(votes)
    if votes.n_rows == 0:
        return ["Nobody ranked anything."]
    alone = int((answered == 1).sum())
    if alone and n > 1:
        rest = "rests" if alone == 1 else "rest"
        out.append(f"{count_of(alone, 'instance')} {rest} on a single list: there is nothing to agree on.")
    empty = int((answered == 0).sum())
    if empty:
        out.append(f"{count_of(empty, 'instance')} {'has' if empty == 1 else 'have'} no list at all.")
    said = np.bincount(votes.list_expert, weights=votes.list_lengths, minlength=votes.n_experts)
    silent = [votes.experts[int(e)] for e in np.flatnonzero(said == 0)]
    if silent:
        out.append(f"{count_of(len(silent), 'expert')} said nothing: {_some(silent)}.")
    quiet = [votes.experts[int(e)] for e in np.flatnonzero((said > 0) & (said < _ROUGHLY_NOTHING * np.median(said)))]
    if quiet:
        out.append(f"{count_of(len(quiet), 'expert')} said next to nothing beside the others: {_some(quiet)}.")
    unheard = int((support == 0).sum())
    if unheard:
        were = "was" if unheard == 1 else "were"
        out.append(
            f"{count_of(unheard, 'item')} ({_percent(unheard / len(support))}) {were} ranked by nobody: last, or in "
            "the middle, depending on the method."
        )
    single = int((support == 1).sum())
    if votes.n_experts > 2 and single > 0.5 * len(support):
        out.append(
            f"{single / len(support):.0%} of the items were found by a single expert only: their place rests on one "
            "opinion."
        )
    lengths, place = votes.list_lengths, votes.positions("max")
    first = np.minimum.reduceat(place, votes.list_offsets[:-1]) if votes.n_lists else np.zeros(0)
    flat = int(((first == lengths) & (lengths > 1)).sum())
    if flat:
        out.append(f"{count_of(flat, 'list')} with all items in one place: nothing is said about the order.")
    out += [
        f"{shorten(a, 40)} and {shorten(b, 40)} say the same in every instance: one opinion, counted twice."
        for a, b in identical_experts(votes)[:3]
    ]
    return out


def identical_experts(votes: Preferences) -> list[tuple[str, str]]:
    """Return experts whose lists are all equal, where they ranked more than a handful of things."""
    if votes.n_experts > 200 or votes.list_weight is not None:
        return []
    place = np.rint(2 * votes.positions("average")).astype(np.int64)
    seen: dict[bytes, int] = {}
    out = []
    order = np.argsort(votes.row_expert, kind="stable")
    edges = np.searchsorted(votes.row_expert[order], np.arange(votes.n_experts + 1))
    for e in range(votes.n_experts):
        rows = order[edges[e] : edges[e + 1]]
        if len(rows) < 10:
            continue
        rows = rows[np.argsort(votes.slot[rows], kind="stable")]
        key = votes.slot[rows].tobytes() + place[rows].tobytes()
        if key in seen:
            out.append((votes.experts[seen[key]], votes.experts[e]))
        seen.setdefault(key, e)
    return out


def _of_comparisons(votes: Comparisons) -> DataSummary:
    outcomes = votes.n_left + votes.n_right + votes.n_ties
    total, ties = float(outcomes.sum()), float(votes.n_ties.sum())
    m, named = votes.n_slots, votes.expert is not None
    turned = votes.left > votes.right
    low, high = np.where(turned, votes.right, votes.left), np.where(turned, votes.left, votes.right)
    met = len(np.unique(low.astype(np.int64) * max(m, 1) + high))
    sizes = votes.slots.sizes.astype(np.int64)
    possible = int((sizes * (sizes - 1) // 2).sum())
    support = np.bincount(votes.left, weights=outcomes, minlength=m) + np.bincount(
        votes.right, weights=outcomes, minlength=m
    )
    share = ties / total if total else 0.0
    facts = [
        Fact("Instances", f"{len(votes):,}", "what is ranked one by one; a leaderboard is one instance"),
        Fact("Experts", f"{votes.n_experts:,}" if named else "not named", "those who compare: judges, users, models"),
        Fact("Items", f"{m:,}"),
        Fact("Comparisons", f"{total:,.6g}", "outcomes counted"),
        Fact("Ties", _percent(share), "of the outcomes"),
        Fact("Pairs that met", f"{met:,}", f"of {possible:,} possible ({_percent(met / max(possible, 1))})"),
    ]
    if len(support):
        facts.append(Fact("Comparisons of an item", _spread(support), "middle (least to most)"))
    warnings = []
    if votes.expert is not None:
        said = np.bincount(votes.expert, weights=outcomes, minlength=votes.n_experts)
        facts.append(Fact("Comparisons of an expert", _spread(said), "middle (least to most)"))
        few = int((said < 10).sum())
        if few:
            warnings.append(
                f"{count_of(few, 'expert')} made fewer than 10 comparisons: little can be said about how far to trust "
                "them."
            )
    if votes.sided and total:
        left, right = float(votes.n_left.sum()), float(votes.n_right.sum())
        lean = (left - right) / max(left + right, 1.0)
        if abs(lean) * np.sqrt(left + right) > 3:
            side = "left" if lean > 0 else "right"
            decided = max(left, right) / (left + right)
            warnings.append(
                f"The item shown on the {side} won {decided:.1%} of the decided comparisons, more than chance allows: "
                "the side may sway the judges."
            )
    unheard = int((support == 0).sum())
    if unheard:
        warnings.append(f"{count_of(unheard, 'item')} took part in no comparison.")
    rows = round(total)
    return DataSummary(
        "comparisons", len(votes), votes.n_experts, m, rows, None, None, share, facts, _histogram(support), warnings
    )


def _of_labels(votes: Preferences | Comparisons, labels: Labels) -> tuple[list[Fact], list[str]]:
    known = ~np.isnan(labels.label)
    at = votes.slots.locate(labels.slots) if labels.n_slots else np.zeros(votes.n_slots, dtype=np.int64) - 1
    judged = np.zeros(votes.n_slots, dtype=np.bool_)
    judged[at >= 0] = known[at[at >= 0]]
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
            _percent(float(judged.mean())) if len(judged) else "0%",
            "of the items that experts rank have a label",
        ),
    ]
    warnings = []
    if len(values) and values[-1] <= 0:
        warnings.append("No label is above 0: they cannot tell a good item from a bad one.")
    elsewhere = len(labels) - there
    if elsewhere:
        be = "is" if elsewhere == 1 else "are"
        warnings.append(f"{count_of(elsewhere, 'labelled instance')} {be} not in the data and {be} not evaluated.")
    if there < len(votes):
        have = "has" if len(votes) - there == 1 else "have"
        warnings.append(f"{len(votes) - there:,} of {count_of(len(votes), 'instance')} {have} no labels.")
    return facts, warnings
