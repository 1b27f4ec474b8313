"""Plots of experts, consensus rankings, evaluations and fits, as Matplotlib axes.

Without `ax` a plot gets its own figure, which pyplot does not track: `ax.figure.savefig("scores.png")` writes it, and
there is nothing to close. With `ax` it is drawn there. Matplotlib's settings stay as they were. Plots can be read
without colour, and a caption names what was left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from concordant.aggregators import majority_graph as majorities
from concordant.arrays import Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import DataError, KindError, NotFittedError, ParameterError, shorten
from concordant.inference.predictions import wilson_interval
from concordant.kernels.ratios import ratio
from concordant.metrics.evaluation import Evaluation, precision_at_recall
from concordant.report._instances import best_slots, rank_table
from concordant.report._plot_data import (
    CalibrationBars,
    Curve,
    by_name,
    calibration_bars,
    check_level,
    check_limit,
    expert_columns,
    expert_intervals,
    expert_order,
    expert_table,
    finite_numbers,
    fit_trace,
    instance_code,
    mean_curve,
    parse_points,
    values_at_items,
    values_by_cutoff,
    values_by_recall,
)
from concordant.report._plot_style import (
    LARGE,
    NEGATIVE,
    POSITIVE,
    SMALL,
    annotate_cells,
    colorbar,
    colormap,
    column_names,
    draw_curves,
    draw_intervals,
    draw_legend,
    figure_height,
    heat_map,
    ink_of,
    label_text,
    line_styles,
    new_axes,
    plot_style,
    rank_ticks,
    row_names,
    set_caption,
    style_axes,
    text_width,
)
from concordant.report.agreement import cluster_order, expert_agreement

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from concordant.aggregators.mixture import Mixture
    from concordant.base.contract import Aggregator, FitInfo

__all__ = [
    "adherence",
    "agreement",
    "calibration",
    "camps",
    "cost_curve",
    "hinton",
    "learning_curve",
    "majority_graph",
    "metric_by_cutoff",
    "network",
    "precision_recall",
    "rank_intervals",
    "rank_matrix",
    "scores",
    "probability_better",
]

# The most items of a network or majority graph: they count all pairs.
_MOST_MET = 5000
# Up to this many items the arrows of a majority graph have numbers.
_NUMBERED = 6
# The area of its dots, in square points.
_DOT = 64.0
# Up to this many names around a circle stand upright; nearly on top or below (by the cosine), they end at their dot.
_UPRIGHT = 12
_STEEP = 0.85
# How far names are from their dots, in points.
_CLEAR = 4.0
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
# The items that boards rank most differently, which are coloured, and the share of a column that its names take.
_MOVED, _NAMES = 6, 0.36
# Up to this many sizes of a cost curve become ticks of the x-axis.
_MARKED_SIZES = 8


# Experts.


@plot_style
def hinton(
    weights: Aggregator | Mapping[str, Any] | Any,
    *,
    columns: Sequence[str] | None = None,
    scale: str = "all",
    limit: int = 60,
    ax: Axes | None = None,
) -> Axes:
    """Draw a Hinton diagram of the learned weights: one square for each expert and weight.

    The area of a square is the magnitude of its weight; weights above 0 are filled, weights below 0 hollow.

    Parameters
    ----------
    weights : fitted method, or table
        A method with learned weights of experts; or a table with a column `expert` and columns of numbers (a frame, or
        a mapping from names to columns); or a mapping from experts to numbers.
    columns : list of str, optional
        The columns to draw. By default all weights in the score of the method (for CRF `alpha`, `beta_plus`,
        `beta_minus`), else `weight`; of a table all columns of numbers.
    scale : {"all", "column"}
        Whether squares are scaled by the largest weight of all, or of their column.
    limit : int
        The most experts to show; of more, those with the largest weights. Experts named by numbers are sorted by
        number, others stay in the order of the table.
    ax : Axes, optional
        Axes to draw on.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels = cc.synthetic.labelled_runs(20, random_state=1)
    >>> ax = cc.plots.hinton(cc.CRF(passes=3).fit(runs, labels))
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['alpha', 'beta_plus', 'beta_minus']
    """
    from matplotlib.collections import PatchCollection
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    limit = check_limit(limit, "hinton")
    if scale not in ("all", "column"):
        raise ParameterError.invalid("scale", "plots.hinton", "'all' or 'column'", scale)
    experts, table = expert_table(weights, columns, "hinton")
    names = list(table)
    w = np.column_stack([table[name] for name in names])
    size = np.nan_to_num(np.abs(w))
    kept, rest = np.arange(len(experts)), ""
    if len(experts) > limit:
        kept = np.sort(np.argsort(-size.max(axis=1), kind="stable")[:limit])
        rest = f"{limit} of {len(experts):,} experts: those with the largest weights"
    if all(name.isascii() and name.isdigit() for name in experts):
        kept = kept[np.argsort([int(experts[e]) for e in kept], kind="stable")]
    most = size.max(axis=0) if scale == "column" else np.full(len(names), size.max())
    # Below 1, so that neighbours never touch.
    side = 0.92 * np.sqrt(np.divide(size, most, out=np.zeros_like(size), where=most > 0))

    labels = [label_text(name, 18) for name in names]
    row = 0.24
    # Columns are as wide as their names, up to a limit.
    apart = min(max(1.1, max(map(text_width, labels)) / row * 1.4), 4.5)
    rows = [label_text(experts[e]) for e in kept]
    if ax is None:
        # The legend above the table needs at least 1.9 inches.
        width = 0.7 + max(map(text_width, rows)) + max(1.9, row * apart * len(names))
        ax = new_axes(min(width, 12.0), figure_height(len(kept), beside=1.1, each=row))
    ink = style_axes(ax, frame="")
    ax.set_aspect("equal")
    for sign, colour in ((1, POSITIVE), (-1, NEGATIVE)):
        squares = [
            Rectangle((apart * c - side[e, c] / 2, r - side[e, c] / 2), side[e, c], side[e, c])
            for r, e in enumerate(kept)
            for c in range(len(names))
            if np.sign(w[e, c]) == sign
        ]
        look: dict[str, Any] = {"label": "above 0", "facecolor": colour, "linewidth": 0}
        if sign < 0:
            look = {"label": "below 0", "facecolor": "none", "linewidth": 1.4}
        ax.add_collection(PatchCollection(squares, edgecolor=colour, **look))
    ax.set_xlim(-0.5 * apart, (len(names) - 0.5) * apart)
    for r in range(len(kept)):
        ax.axhline(r, color=ink.faint, linewidth=0.6, zorder=0)
    thin = row_names(ax, rows)
    column_names(ax, labels, apart * np.arange(len(names)))
    largest = "" if scale == "column" else f"largest: {size.max():.3g}"
    set_caption(ax, largest, rest, thin)
    square: dict[str, Any] = {"marker": "s", "linestyle": "none", "markersize": 7}
    handles = [
        Line2D([], [], color=POSITIVE, **square),
        Line2D([], [], color=NEGATIVE, markerfacecolor="none", markeredgewidth=1.4, **square),
    ]
    draw_legend(
        ax, handles, ["above 0", "below 0"], loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, borderaxespad=0.2
    )
    return ax


@plot_style
def adherence(
    weights: Aggregator | Mapping[str, Any] | Any,
    *,
    column: str = "weight",
    level: float = 0.95,
    limit: int = 40,
    ax: Axes | None = None,
) -> Axes:
    """Draw bars of the weight of every expert, highest first, with intervals where standard errors are known.

    Bars below 0, of inverted experts, are hatched.

    Parameters
    ----------
    weights : fitted method, or table
        A method with learned weights of experts; or a table with a column `expert`, such as `describe_experts` returns;
        or a mapping from experts to numbers.
    column : str
        The column that the bars show. Intervals are drawn if the table has `lower` and `upper`, or `stderr` (for other
        columns than `weight`: `<column>_stderr`).
    level : float
        The level of intervals made from standard errors.
    limit : int
        The most experts to show; of more, the highest and the lowest.
    ax : Axes, optional
        Axes to draw on.

    Examples
    --------
    >>> import concordant as cc
    >>> ax = cc.plots.adherence({"anna": 0.9, "ben": -0.2, "carl": 0.4})
    >>> [tick.get_text() for tick in ax.get_yticklabels()], [float(bar.get_width()) for bar in ax.patches]
    (['anna', 'carl', 'ben'], [0.9, 0.4, -0.2])
    """
    limit = check_limit(limit, "adherence")
    check_level(level, "adherence")
    given = expert_columns(weights, "adherence")
    experts, table = expert_table(given, [column], "adherence")
    value = table[column]
    low, high = expert_intervals(given, column, value, level)
    order = np.argsort(-np.nan_to_num(value, nan=-np.inf), kind="stable")
    shown, names, gap = _both_ends(order, experts, limit, "experts")

    if ax is None:
        ax = new_axes(5.6, figure_height(len(names)))
    ink = style_axes(ax, grid="x", frame="")
    place = np.array([r for r in range(len(names)) if r != gap])
    below = value[shown] < 0
    bars = ax.barh(place, np.nan_to_num(value[shown]), height=0.72, color=POSITIVE)
    for bar, negative in zip(bars, below, strict=True):
        if negative:
            bar.set(facecolor="none", edgecolor=NEGATIVE, hatch="////", linewidth=1.0)
    sure = ~np.isnan(low[shown]) & ~np.isnan(high[shown])
    if sure.any():
        ends = np.array([low[shown][sure], high[shown][sure]])
        ax.hlines(place[sure], ends[0], ends[1], color=ink.strong, linewidth=1.3)
        ax.plot(ends.ravel(), np.tile(place[sure], 2), "|", color=ink.strong, markersize=5, markeredgewidth=1.3)
    ax.axvline(0.0, color=ink.quiet, linewidth=0.8)
    thin = row_names(ax, names)
    interval = f", {level:.0%} intervals" if sure.any() else ""
    set_caption(ax, f"{label_text(column)}{interval}", thin)
    return ax


@plot_style
def agreement(
    votes: Preferences | Comparisons,
    *,
    order: str | Sequence[str] = "clusters",
    missing: str = "shared",
    least: int | None = None,
    limit: int = 150,
    ax: Axes | None = None,
) -> Axes:
    """Draw a heat map of pairwise agreement: Kendall's tau-b, averaged over the instances that two experts share.

    Similar experts are next to each other, by hierarchical clustering (average linkage). Experts who share too few
    items are grey. The numbers are those of `concordant.report.agreement.expert_agreement`.

    Parameters
    ----------
    votes : Preferences or Comparisons
        The rankings or votes.
    order : {"clusters", "given"} or list of experts
        Order of the experts.
    missing : {"shared", "behind"}
        "shared": only items that both experts rank are compared. "behind": items a list leaves out are tied behind
        those it holds, so that lists without a common item disagree.
    least : int, optional
        Two experts who share fewer pairs of items are grey and count as unrelated, because agreement over two or three
        pairs is chance. By default 10, or a tenth of the most that any two experts share if that is less.
    limit : int
        The most experts to show; of more, those with the most rows.
    ax : Axes, optional
        Axes to draw on.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": ["a", "b", "c"], "y": ["c", "b", "a"], "z": ["a", "c", "b"]})
    >>> [tick.get_text() for tick in cc.plots.agreement(votes).get_yticklabels()]
    ['y', 'z', 'x']
    """
    limit = check_limit(limit, "agreement")
    if not isinstance(votes, (Preferences, Comparisons)):
        raise KindError(f"plots.agreement draws Preferences or Comparisons, not {type(votes).__name__}.")
    if votes.n_experts == 0 or votes.n_rows == 0:
        raise DataError(
            "plots.agreement: the data holds no ranking and no comparison, so there is no agreement to draw."
        )
    rest = ""
    if votes.n_experts > limit:
        said = np.bincount(votes.row_expert, minlength=votes.n_experts)
        most_active = np.sort(np.argsort(-said, kind="stable")[:limit])
        rest = f"{limit} of {votes.n_experts:,} experts: those with the most rows"
        votes = votes.select_experts([votes.experts[int(e)] for e in most_active])
    found = expert_agreement(votes, missing=missing)
    apart = ~np.eye(len(found.experts), dtype=np.bool_)
    if least is None:
        least = min(10, int(found.shared[apart].max(initial=0)) // 10)
    few = apart & (found.shared < max(least, 1))
    tau = np.where(few, np.nan, found.tau)
    rows = expert_order(found.experts, order, lambda: cluster_order(tau))
    tau = tau[np.ix_(rows, rows)]
    np.fill_diagonal(tau, np.nan)
    names = [label_text(found.experts[e], 22) for e in rows]
    n = len(names)

    if ax is None:
        side = min(max(2.6, 1.6 + 0.26 * n), 9.0)
        ax = new_axes(side + 0.8, side)
    ink = style_axes(ax, frame="")
    ax.set_aspect("equal")
    # The colour scale ends at the largest value, symmetric around 0: a scale to 1 would make all cells pale.
    reach = max(0.2, np.ceil(10 * np.nanmax(np.abs(tau), initial=0.0)) / 10)
    cells = heat_map(ax, tau, colormap("RdBu", ink.faint), -reach, reach)
    ax.set_xlim(-0.5, n - 0.5)
    thin = row_names(ax, names)
    column_names(ax, names)
    texts = np.array([["" if np.isnan(t) else f"{t:.2f}".replace("-", "−") for t in row] for row in tau], dtype=object)
    if n <= 20:
        annotate_cells(ax, cells, texts, np.arange(n), 5)
    grey = f"grey: fewer than {least} shared pairs of items" if few.any() and least > 1 else ""
    set_caption(ax, rest, thin, grey or ("grey: no shared items" if few.any() else ""))
    what = "net share of pairs ordered alike" if isinstance(votes, Comparisons) else "mean Kendall tau-b"
    colorbar(ax, cells, what)
    return ax


@plot_style
def rank_matrix(
    preferences: Preferences,
    instance: Any = None,
    *,
    consensus: Consensus | Mapping[str, Consensus] | None = None,
    labels: Labels | None = None,
    limit: int = 40,
    ax: Axes | None = None,
) -> Axes:
    """Draw the ranks that experts give the items of one instance, next to their ranks in the consensus.

    There is one row for each item, best first by the (first) consensus, and one column for each expert with a list,
    then for each consensus, then for the labels, where labels above 0 are framed. Ranks are positions in the expert's
    list, and tied items share the smallest. Items that an expert leaves out are blank.

    Parameters
    ----------
    preferences : Preferences
        The rankings.
    instance : id, optional
        The instance to draw; optional if there is only one.
    consensus : Consensus, or mapping from name to Consensus, optional
        Consensus rankings to draw next to the experts.
    labels : Labels, optional
        Labels to draw as the last column.
    limit : int
        The most items to show, and the most experts: of more, the best items and the experts who rank the most of them.
    ax : Axes, optional
        Axes to draw on.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a"], "z": ["b", "c", "a"]})
    >>> ax = cc.plots.rank_matrix(votes, consensus={"rrf": cc.aggregate(votes, "rrf")})
    >>> [tick.get_text() for tick in ax.get_yticklabels()], [tick.get_text() for tick in ax.get_xticklabels()]
    (['b', 'a', 'c'], ['x', 'y', 'z', 'rrf'])
    """
    limit = check_limit(limit, "rank_matrix")
    if not isinstance(preferences, Preferences):
        raise KindError(f"plots.rank_matrix draws Preferences, not {type(preferences).__name__}.")
    n = instance_code(preferences, instance, "rank_matrix")
    name = preferences.instances[n]
    beside = {"consensus": consensus} if isinstance(consensus, Consensus) else dict(consensus or {})
    ranks, codes = rank_table(preferences, n, preferences.positions("min"))
    experts = preferences.experts.take(codes).tolist()
    items = preferences.items[int(preferences.slots.offsets[n]) : int(preferences.slots.offsets[n + 1])].tolist()
    reached = {method: values_at_items(found, name, items, found.rank, method) for method, found in beside.items()}
    truth = None if labels is None else values_at_items(labels, name, items, labels.label, "labels")

    # Sort items by the first consensus; without one by mean rank, unranked items last.
    some = (~np.isnan(ranks)).sum(axis=1)
    mean = ratio(np.nansum(ranks, axis=1), some, np.inf)
    first = next(iter(reached.values()), mean)
    rows = np.argsort(np.nan_to_num(first, nan=np.inf), kind="stable")[:limit]
    columns = np.arange(len(experts))
    if len(experts) > limit:
        count = (~np.isnan(ranks[rows])).sum(axis=0)
        columns = np.sort(np.argsort(-count, kind="stable")[:limit])
    left_out = [
        f"the best {limit} of {len(items):,} items" if len(items) > limit else "",
        f"{limit} of {len(experts):,} experts: those who rank the most of these" if len(experts) > limit else "",
    ]
    table = ranks[np.ix_(rows, columns)]
    n_experts, n_methods = table.shape[1], len(reached)
    places = list(np.arange(n_experts, dtype=np.float64))
    # Narrow gaps separate experts, consensus rankings and labels.
    if n_methods:
        places += list(n_experts + 0.4 + np.arange(n_methods))
    if truth is not None:
        places.append(n_experts + (0.4 + n_methods if n_methods else 0) + 0.4)
    width = places[-1] + 1.0 if places else 1.0

    if ax is None:
        ax = new_axes(min(max(3.4, 1.9 + 0.34 * width), 14.0), figure_height(len(rows), beside=1.5, each=0.23))
    ink = style_axes(ax, frame="")
    worst = float(max(np.nanmax(ranks, initial=2.0), len(items) if reached else 2.0))
    cmap = colormap("Blues_r", ink.paper)
    ax.set_xlim(-0.5, width - 0.5)
    thin = row_names(ax, [label_text(items[i]) for i in rows])
    blocks: list[tuple[Floats, float]] = [(table, 0.0)]
    if n_methods:
        blocks.append((np.column_stack([r[rows] for r in reached.values()]), n_experts + 0.4))
    wrote = True
    for block, start in blocks:
        if not block.shape[1]:
            continue
        edges = start + np.arange(block.shape[1] + 1) - 0.5
        # Stop before the light end of the colour map, which would vanish on white.
        cells = heat_map(ax, block, cmap, 1.0, 1.0 + (worst - 1.0) * 1.15, edges)
        texts = np.array([["" if np.isnan(r) else f"{r:.0f}" for r in row] for row in block], dtype=object)
        wrote = annotate_cells(ax, cells, texts, start + np.arange(block.shape[1]), len(f"{worst:.0f}")) and wrote
    names = [label_text(experts[e], 18) for e in columns] + [label_text(method, 18) for method in reached]
    if truth is not None:
        names.append("label")
        _mark_labels(ax, truth[rows], places[-1])
    more = column_names(ax, names, places)
    if len(preferences) > 1:
        ax.set_title(label_text(name, 60), fontsize=LARGE, color=ink.strong, loc="left")
    silent = preferences.n_experts - len(experts)
    quiet = f"{silent:,} of {preferences.n_experts:,} experts have no list here" if silent else ""
    set_caption(ax, "rank: dark is first, blank is not ranked", *left_out, quiet, thin or more)
    return ax


# A consensus.


@plot_style
def scores(consensus: Consensus, instance: Any = None, *, limit: int = 40, ax: Axes | None = None) -> Axes:
    """Draw the leaderboard of one instance: the score of every item, best on top, with its interval.

    Items whose score has no interval are drawn hollow. Lines separate the tiers of a board that has them.

    Parameters
    ----------
    consensus : Consensus
        The consensus of a method.
    instance : id, optional
        The instance to draw; optional if there is only one.
    limit : int
        The most items to show; of more, the best.
    ax : Axes, optional
        Axes to draw on.

    Examples
    --------
    >>> import concordant as cc
    >>> board = cc.Consensus(["q"] * 2, ["a", "b"], [0.1, 0.7], lower=[0.0, 0.4], upper=[0.2, 1.0], level=0.95)
    >>> ax = cc.plots.scores(board)
    >>> [tick.get_text() for tick in ax.get_yticklabels()], ax.get_xlabel()
    (['1  b', '2  a'], 'score, 95% intervals')
    """
    slots, names, rest = _top_items(consensus, instance, limit, "scores")
    nothing = np.full(len(slots), np.nan)
    low = nothing if consensus.lower is None else consensus.lower[slots]
    high = nothing if consensus.upper is None else consensus.upper[slots]
    if ax is None:
        ax = new_axes(5.6, figure_height(len(slots)))
    sure = draw_intervals(ax, consensus.score[slots], low, high)
    thin = row_names(ax, names)
    level = "" if consensus.level is None else f"{consensus.level:.0%} "
    what = "Elo" if consensus.scale == "elo" else "score"
    tiers = _separate_tiers(ax, consensus, slots)
    set_caption(ax, what + (f", {level}intervals" if sure else ""), tiers, rest, thin)
    _set_title(ax, consensus, instance)
    return ax


def _separate_tiers(ax: Axes, consensus: Consensus, slots: Ints) -> str:
    """Draw a line wherever a tier ends, and return a note that says so."""
    if consensus.tier is None:
        return ""
    tier = consensus.tier[slots]
    told = np.flatnonzero(~np.isnan(tier))
    ends = told[1:][np.diff(tier[told]) > 0] - 0.5
    for place in ends.tolist():
        ax.axhline(place, color=ink_of(ax).faint, linewidth=1.2, zorder=0)
    return "lines separate tiers" if len(ends) else "one tier"


@plot_style
def rank_intervals(consensus: Consensus, instance: Any = None, *, limit: int = 40, ax: Axes | None = None) -> Axes:
    """Draw the rank intervals of one instance: a line from the best to the worst plausible rank of each item.

    Parameters
    ----------
    consensus : Consensus
        The consensus of a method with rank intervals.
    instance : id, optional
        The instance to draw; optional if there is only one.
    limit : int
        The most items to show; of more, the best.
    ax : Axes, optional
        Axes to draw on.

    Examples
    --------
    >>> import concordant as cc
    >>> board = cc.Consensus(["q"] * 2, ["a", "b"], [0.1, 0.7], rank_lower=[1, 1], rank_upper=[2, 2], level=0.9)
    >>> cc.plots.rank_intervals(board).get_xlabel()
    'rank, 90% intervals'
    """
    slots, names, rest = _top_items(consensus, instance, limit, "rank_intervals")
    if consensus.rank_lower is None or consensus.rank_upper is None:
        raise DataError(
            "plots.rank_intervals: this consensus has no rank intervals. Use a method that gives them, such as "
            "bradley-terry, plackett-luce or mpm, with its uncertainty on."
        )
    if ax is None:
        ax = new_axes(5.6, figure_height(len(slots)))
    draw_intervals(
        ax, consensus.rank[slots].astype(np.float64), consensus.rank_lower[slots], consensus.rank_upper[slots]
    )
    thin = row_names(ax, names)
    worst = max(float(np.nanmax(consensus.rank_upper[slots], initial=1.0)), float(consensus.rank[slots].max()))
    ax.set_xlim(0.5, worst + 0.5)
    rank_ticks(ax, worst)
    level = "" if consensus.level is None else f"{consensus.level:.0%} "
    set_caption(ax, f"rank, {level}intervals", rest, thin)
    _set_title(ax, consensus, instance)
    return ax


@plot_style
def camps(
    boards: Mixture | Mapping[str, Consensus], instance: Any = None, *, limit: int = 20, ax: Axes | None = None
) -> Axes:
    """Draw how camps of experts rank the items: a column for all experts and for each camp, best on top.

    Lines join the places of an item. The items that the columns rank most differently have colours.

    Parameters
    ----------
    boards : Mixture, or mapping from name to Consensus
        A mixture after `fit_predict`, or boards of the same items with names, such as names of the camps.
    instance : id, optional
        The instance to draw; optional if there is only one.
    limit : int
        The most items to show; of more, the best of the first column.
    ax : Axes, optional
        Axes to draw on.

    Examples
    --------
    >>> import concordant as cc
    >>> lists = {f"up-{i}": list("abcd") for i in range(6)} | {f"down-{i}": list("dcba") for i in range(4)}
    >>> mixture = cc.Mixture(of="mallows", components=2)
    >>> _ = mixture.fit_predict(cc.from_lists(lists))
    >>> ax = cc.plots.camps(mixture)
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['all experts', 'camp 1: 60%', 'camp 2: 40%']
    """
    columns = _boards_of(boards)
    first = next(iter(columns.values()))
    slots, _, rest = _top_items(first, instance, limit, "camps")
    if any(board.slots != first.slots for board in columns.values()):
        raise DataError("plots.camps: the boards are of different items. Give boards of the same preferences.")
    # The place of each shown item in every column; ties in the order of the first.
    places = np.stack([np.argsort(np.argsort(board.rank[slots], kind="stable")) for board in columns.values()])
    moved = np.argsort(-np.ptp(places, axis=0), kind="stable")[:_MOVED]
    styles = dict(zip(moved[np.ptp(places, axis=0)[moved] > 0].tolist(), line_styles(_MOVED), strict=False))
    names = [label_text(first.items[int(s)], 18) for s in slots]
    if ax is None:
        ax = new_axes(max(3.2, 1.5 * len(columns)), figure_height(len(slots), beside=0.7))
    ink = style_axes(ax, frame="")
    ax.set_xlim(-0.5, len(columns) - 0.5)
    ax.set_ylim(len(slots) - 0.5, -0.5)
    for i, name in enumerate(names):
        style = styles.get(i)
        colour = ink.quiet if style is None else style["color"]
        for c, place in enumerate(places[:, i].tolist()):
            weight = "normal" if style is None else "bold"
            ax.text(c, place, name, ha="center", va="center", fontsize=SMALL, color=colour, weight=weight)
            if c:
                ends = [c - 1 + _NAMES, c - _NAMES], [int(places[c - 1, i]), place]
                dashes = "-" if style is None else style["linestyle"]
                ax.plot(*ends, color=colour, linestyle=dashes, linewidth=0.8 if style is None else 1.8)
    ax.set_yticks([])
    ax.xaxis.tick_top()
    column_names(ax, [label_text(name) for name in columns])
    set_caption(ax, rest)
    _set_title(ax, first, instance)
    return ax


def _boards_of(given: Any) -> dict[str, Consensus]:
    """Return the boards of a fitted mixture by name, or those of a mapping."""
    if hasattr(given, "camps_"):
        whole = given.__dict__.get("consensus_")
        if whole is None:
            raise NotFittedError("plots.camps draws the camps of fit_predict. Call it first, or give boards by name.")
        if len(given.camps_) == 1:
            return {"all experts": whole}
        sizes = zip(given.camps_, given.shares_.tolist(), strict=True)
        return {"all experts": whole} | {f"camp {c}: {n:.0%}": b for c, (b, n) in enumerate(sizes, start=1)}
    if not isinstance(given, Mapping) or not given or not all(isinstance(b, Consensus) for b in given.values()):
        raise KindError(
            f"plots.camps draws a Mixture, or a mapping from name to Consensus, not {type(given).__name__}."
        )
    return {str(name): board for name, board in given.items()}


@plot_style
def probability_better(consensus: Consensus, instance: Any = None, *, limit: int = 30, ax: Axes | None = None) -> Axes:
    """Draw a table of the chances, in percent, that the item of a row is truly better than the item of a column.

    It is the posterior chance (`Consensus.probability_better`), which more votes bring to 0 or 1, and not the share of
    games that the model expects the item to win (`outcome_matrix` of the model). Items are ordered by rank. Darker
    cells are higher chances; pairs without one are grey.

    Parameters
    ----------
    consensus : Consensus
        The consensus of a method with standard errors.
    instance : id, optional
        The instance to draw; optional if there is only one.
    limit : int
        The most items to show; of more, the best.
    ax : Axes, optional
        Axes to draw on.

    Examples
    --------
    >>> import concordant as cc
    >>> board = cc.Consensus(["q"] * 2, ["a", "b"], [1.0, 0.0], stderr=[0.6, 0.8])
    >>> ax = cc.plots.probability_better(board)
    >>> [text.get_text() for text in ax.texts]
    ['84', '16']
    """
    slots, names, rest = _top_items(consensus, instance, limit, "probability_better")
    n = instance_code(consensus, instance, "probability_better")
    own = slots - int(consensus.slots.offsets[n])
    better = consensus.probabilities_better(consensus.instances[n])[np.ix_(own, own)]
    np.fill_diagonal(better, np.nan)
    m = len(names)
    if ax is None:
        side = min(max(2.6, 1.5 + 0.28 * m), 9.0)
        ax = new_axes(side + 0.8, side)
    ink = style_axes(ax, frame="")
    ax.set_aspect("equal")
    cells = heat_map(ax, better, colormap("Blues", ink.faint), 0.0, 1.0)
    ax.set_xlim(-0.5, m - 0.5)
    thin = row_names(ax, names)
    # The rank tells columns apart whose names are cut to the same text.
    column_names(ax, [f"{consensus.rank[s]}  {label_text(consensus.items[int(s)], 22)}" for s in slots])
    texts = np.array([["" if np.isnan(p) else _percent_text(p) for p in row] for row in better], dtype=object)
    annotate_cells(ax, cells, texts, np.arange(m), 4)
    set_caption(ax, rest, thin)
    colorbar(ax, cells, "chance that the row is truly better, not its win rate", percent=True)
    _set_title(ax, consensus, instance)
    return ax


@plot_style
def network(votes: Preferences | Comparisons, instance: Any = None, *, limit: int = 40, ax: Axes | None = None) -> Axes:
    """Draw which items met: items on a circle, and a line between two that were compared or stand in one list.

    The more often two items met, the wider and darker their line; the more often an item met others, the larger its
    dot. Items of separate groups, which no chain of comparisons connects, have separate parts of the circle and other
    markers: their scores cannot be compared. Items that often met are next to each other.

    Parameters
    ----------
    votes : Preferences or Comparisons
        The votes. Lists of weight w count as w comparisons.
    instance : id, optional
        The instance to draw; optional if there is only one.
    limit : int
        The most items to show; of more, those that were compared most often.
    ax : Axes, optional
        Axes to draw on.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.Comparisons("q", None, ["a", "b", "x"], ["b", "c", "y"])
    >>> ax = cc.plots.network(votes)
    >>> len(ax.collections[0].get_segments()), [text.get_text() for text in ax.texts[:5]]
    (3, ['c', 'b', 'a', 'x', 'y'])
    """
    if not isinstance(votes, (Preferences, Comparisons)):
        raise KindError(f"plots.network draws Preferences or Comparisons, not {type(votes).__name__}.")
    limit = check_limit(limit, "network")
    n = instance_code(votes, instance, "network")
    if votes.slots.sizes[n] > _MOST_MET:
        raise DataError(
            f"plots.network counts the comparisons of at most {_MOST_MET:,} items; instance {votes.instances[n]!r} has "
            f"{votes.slots.sizes[n]:,}."
        )
    met = _comparison_counts(votes, n)
    total = met.sum(axis=1)
    size = len(met)
    items = np.sort(np.argsort(-total, kind="stable")[:limit])
    rest = f"the {limit} of {size:,} items that were compared most often" if size > limit else ""
    group = _connected(met)[items]
    met, total = met[np.ix_(items, items)], total[items]
    strength = met / max(float(met.max(initial=0.0)), 1e-300)
    order = np.concatenate([own[cluster_order(strength[np.ix_(own, own)])] for own in _parts(group)])
    first = int(votes.slots.offsets[n])
    names = [label_text(votes.items[first + int(items[i])], 22) for i in order]
    # A gap of one place between the groups.
    place = np.arange(len(order)) + np.cumsum(np.diff(group[order], prepend=group[order][:1]) != 0)
    n_groups = len(np.unique(group))
    turn = 2 * np.pi * place / (len(order) + (n_groups if n_groups > 1 else 0))
    x, y = np.sin(turn), np.cos(turn)

    if ax is None:
        ax = _circle_axes(names, 3.6)
    ink = style_axes(ax, frame="")
    ax.set_aspect("equal")
    _draw_edges(ax, ink.strong, x, y, strength[np.ix_(order, order)])
    dots = 18 + 90 * total[order] / max(float(total.max(initial=0.0)), 1e-300)
    for g, own in enumerate(_parts(group[order])):
        ax.scatter(
            x[own],
            y[own],
            s=dots[own],
            marker=_MARKERS[g % len(_MARKERS)],
            color=POSITIVE,
            edgecolor=ink.paper,
            zorder=3,
        )
    apart = f"{n_groups} groups of items that were never compared" if n_groups > 1 else ""
    most = float(met.max(initial=0.0))
    set_caption(ax, f"widest line: {most:,.6g} comparisons" if most else "no two items compared", apart, rest)
    if len(votes) > 1:
        ax.set_title(label_text(instance, 60), fontsize=LARGE, color=ink.strong, loc="left")
    _name_circle(ax, names, turn, np.sqrt(dots) / 2)
    return ax


@plot_style
def majority_graph(
    votes: Preferences | Comparisons,
    instance: Any = None,
    *,
    missing: str = "auto",
    limit: int = 20,
    ax: Axes | None = None,
) -> Axes:
    """Draw who beats whom by majority: items on a circle, and an arrow from the winner of each pair to its loser.

    Items stand clockwise by the number of others that they beat less those they lose to, the first on top. The wider
    and darker an arrow, the larger the margin; up to six items the margin is written beside it. Items of the Smith set,
    the smallest set whose members beat all other items, are filled. Pairs with equal votes have no arrow.

    Parameters
    ----------
    votes : Preferences or Comparisons
        The votes.
    instance : id, optional
        The instance to draw; optional if there is only one.
    missing : {"auto", "unknown", "below"}
        What a list says about an item it leaves out, as in `concordant.majority_graph`.
    limit : int
        The most items to show; of more, the first ones.
    ax : Axes, optional
        Axes to draw on.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": ["a", "b", "c", "d"], "y": ["b", "c", "a", "d"], "z": ["c", "a", "b", "d"]})
    >>> ax = cc.plots.majority_graph(votes)
    >>> len(ax.patches), ax.get_xlabel()
    (6, 'filled: the Smith set; widest arrow: a margin of 3')
    """
    if not isinstance(votes, (Preferences, Comparisons)):
        raise KindError(f"plots.majority_graph draws Preferences or Comparisons, not {type(votes).__name__}.")
    limit = check_limit(limit, "majority_graph")
    n = instance_code(votes, instance, "majority_graph")
    name = votes.instances[n]
    if votes.slots.sizes[n] > _MOST_MET:
        raise DataError(
            f"plots.majority_graph counts the majorities of at most {_MOST_MET:,} items; instance {name!r} has "
            f"{votes.slots.sizes[n]:,}."
        )
    items = votes.items[int(votes.slots.offsets[n]) : int(votes.slots.offsets[n + 1])].tolist()
    code = {item: i for i, item in enumerate(items)}
    margin = np.zeros((len(items), len(items)))
    arrows = majorities.majority_graph(votes, name, missing=missing)
    for winner, loser, by in arrows.select("winner", "loser", "margin").rows():
        margin[code[winner], code[loser]] = by
    net = (margin > 0).sum(axis=1) - (margin > 0).sum(axis=0)
    order = np.argsort(-net, kind="stable")[:limit]
    smith = set(majorities.smith_set(votes, name, missing=missing))
    rest = f"{limit} of {len(items):,} items: those with the most wins less losses" if len(items) > limit else ""
    margin = margin[np.ix_(order, order)]
    turn = 2 * np.pi * np.arange(len(order)) / len(order)
    x, y = np.sin(turn), np.cos(turn)
    names = [label_text(items[i], 22) for i in order]

    if ax is None:
        ax = _circle_axes(names, 3.4)
    ink = style_axes(ax, frame="")
    ax.set_aspect("equal")
    inside = np.array([items[i] in smith for i in order])
    for chosen, face in ((inside, POSITIVE), (~inside, ink.paper)):
        ax.scatter(x[chosen], y[chosen], s=_DOT, color=face, edgecolor=POSITIVE, linewidth=1.4, zorder=3)
    _draw_arrows(ax, x, y, margin)
    most = float(margin.max(initial=0.0))
    widest = f"widest arrow: a margin of {most:,.6g}" if most else "no pair has a majority"
    set_caption(ax, f"filled: the Smith set; {widest}", rest)
    if len(votes) > 1:
        ax.set_title(label_text(name, 60), fontsize=LARGE, color=ink.strong, loc="left")
    _name_circle(ax, names, turn, np.full(len(order), math.sqrt(_DOT) / 2))
    return ax


def _draw_arrows(ax: Axes, x: Floats, y: Floats, margin: Floats) -> None:
    """Draw an arrow for every margin above 0, the widest on top."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import FancyArrowPatch

    ink = ink_of(ax)
    winner, loser = np.nonzero(margin > 0)
    most = float(margin.max(initial=0.0))
    for k in np.argsort(margin[winner, loser], kind="stable").tolist():
        a, b = int(winner[k]), int(loser[k])
        share = float(margin[a, b]) / most
        ax.add_patch(
            FancyArrowPatch(
                (x[a], y[a]),
                (x[b], y[b]),
                arrowstyle="-|>",
                mutation_scale=8 + 5 * share,
                # Room for the dots.
                shrinkA=5,
                shrinkB=6,
                linewidth=0.5 + 2.2 * share,
                color=(*to_rgb(ink.strong), 0.2 + 0.65 * share),
                zorder=1 + share / 2,
            )
        )
        if len(margin) <= _NUMBERED:
            # Nearer to the winner: the middles of several arrows may meet.
            ax.text(
                0.66 * x[a] + 0.34 * x[b],
                0.66 * y[a] + 0.34 * y[b],
                f"{margin[a, b]:,.6g}",
                ha="center",
                va="center",
                fontsize=SMALL,
                color=ink.strong,
                bbox={"boxstyle": "round,pad=0.15", "facecolor": ink.paper, "edgecolor": "none"},
                zorder=4,
            )


def _circle_axes(names: Sequence[str], side: float) -> Axes:
    """Return axes on a new figure for a circle of items, with room for upright names beside it or for turned ones."""
    side = side + 0.11 * len(names)
    longest = max(map(text_width, names), default=0.0)
    size = (side + 2 * longest, side) if len(names) <= _UPRIGHT else (side + longest, side + longest)
    return new_axes(*(min(inches, 8.5) for inches in size))


def _name_circle(ax: Axes, names: Sequence[str], turn: Floats, radius: Floats) -> None:
    """Write names outside of a circle at these angles, clear of dots of these radii in points; fit it into the axes.

    Few names are upright, more are turned outwards.
    """
    ink = ink_of(ax)
    sin, cos = np.round(np.sin(turn), 9), np.round(np.cos(turn), 9)
    upright = len(names) <= _UPRIGHT
    away = radius + _CLEAR
    for k, name in enumerate(names):
        flat = 0.0 if upright else float(np.degrees(np.arctan2(cos[k], abs(sin[k])))) * (-1 if sin[k] < 0 else 1)
        vertical = "bottom" if cos[k] > _STEEP else "top" if cos[k] < -_STEEP else "center"
        ax.annotate(
            name,
            (sin[k], cos[k]),
            xytext=(away[k] * sin[k], away[k] * cos[k]),
            textcoords="offset points",
            rotation=flat,
            rotation_mode="anchor",
            ha="center" if upright and sin[k] == 0 else "right" if sin[k] < 0 else "left",
            va=vertical if upright else "center",
            annotation_clip=False,
            fontsize=SMALL,
            color=ink.strong,
        )
    ax.set_xticks([])
    ax.set_yticks([])
    root = ax.figure.canvas.figure
    engine = root.get_layout_engine()
    if engine is not None:
        engine.execute(root)
    box = ax.get_window_extent()
    width, height = (max(v / ax.figure.dpi, 0.1) for v in (box.width, box.height))
    # How far names reach beyond the circle, in inches.
    long, high, away = np.array([text_width(name) for name in names]), SMALL * 1.3 / 72, away / 72
    right = away * abs(sin) + (np.where(sin == 0, long / 2, long) if upright else long * abs(sin) + high / 2)
    up = away * abs(cos) + (np.where(abs(cos) > _STEEP, high, high / 2) if upright else long * abs(cos) + high / 2)
    across = np.maximum(width / 2 - right, 0.0) / np.maximum(abs(sin), 1e-9)
    upwards = np.maximum(height / 2 - up, 0.0) / np.maximum(abs(cos), 1e-9)
    inch = float(np.minimum(across, upwards).clip(0.15 * min(width, height), max(width, height)).min(initial=np.inf))
    inch = inch if np.isfinite(inch) else 1.0
    ax.set_xlim(-width / 2 / inch, width / 2 / inch)
    ax.set_ylim(-height / 2 / inch, height / 2 / inch)


def _comparison_counts(votes: Preferences | Comparisons, n: int) -> Floats:
    """Return how often any two items of an instance were compared, or stand in one list."""
    a, b = int(votes.slots.offsets[n]), int(votes.slots.offsets[n + 1])
    met = np.zeros((b - a, b - a))
    if isinstance(votes, Comparisons):
        own = (votes.left >= a) & (votes.left < b)
        left, right = votes.left[own] - a, votes.right[own] - a
        np.add.at(met, (left, right), (votes.n_left + votes.n_right + votes.n_ties)[own])
        return met + met.T
    own = (votes.slot >= a) & (votes.slot < b)
    lists, row = np.unique(votes.row_list[own], return_inverse=True)
    holds = np.zeros((len(lists), b - a))
    holds[row, votes.slot[own] - a] = 1.0
    met = holds.T @ (holds * votes.weights[lists][:, None])
    np.fill_diagonal(met, 0.0)
    return met


def _connected(met: Floats) -> Ints:
    """Return the number of the group of each item: items that a chain of comparisons connects."""
    group = np.full(len(met), -1, dtype=np.int64)
    for seed in range(len(met)):
        if group[seed] >= 0:
            continue
        reached = np.zeros(len(met), dtype=np.bool_)
        reached[seed] = True
        size = 0
        while reached.sum() > size:
            size = int(reached.sum())
            reached |= met[reached].any(axis=0)
        group[reached] = group.max() + 1
    return group


def _parts(group: Ints) -> list[Ints]:
    """Return the places of each group, the largest group first."""
    parts = [np.flatnonzero(group == g) for g in np.unique(group)]
    return sorted(parts, key=lambda part: (-len(part), int(part[0])))


def _draw_edges(ax: Axes, colour: str, x: Floats, y: Floats, strength: Floats) -> None:
    """Draw a line for every two compared items, the strongest on top."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb

    one, two = np.nonzero(np.triu(strength, 1))
    by_strength = np.argsort(strength[one, two], kind="stable")
    one, two = one[by_strength], two[by_strength]
    share = strength[one, two]
    ends = np.stack([np.stack([x[one], y[one]], axis=1), np.stack([x[two], y[two]], axis=1)], axis=1)
    colours = np.column_stack([np.tile(to_rgb(colour), (len(share), 1)), 0.12 + 0.68 * share])
    ax.add_collection(LineCollection(list(ends), linewidths=0.4 + 2.6 * share, colors=colours, zorder=1))


# Methods against labels.


@plot_style
def metric_by_cutoff(
    methods: Mapping[str, Evaluation | Mapping[Any, Any]] | Evaluation,
    metric: str | None = None,
    *,
    level: float | None = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """Draw a metric by cutoff, one line for each method, with a band around the mean over instances.

    Parameters
    ----------
    methods : mapping from name to Evaluation or values; or one Evaluation
        Evaluations with one metric at several cutoffs (``cc.evaluate(c, labels, "ndcg@1-10")``), or mappings from the
        cutoff to the values of the instances (or to their mean alone, which has no band).
    metric : str, optional
        The metric, without the cutoff; optional if the evaluations have only one.
    level : float or None
        The level of the bands (percentile bootstrap over instances, within folds where there are folds); None draws
        none. Bands are intervals of each mean; they do not test differences, which `cc.compare` does.
    ax : Axes, optional
        Axes to draw on.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels = cc.synthetic.labelled_runs(20, random_state=1)
    >>> rrf = cc.evaluate(cc.aggregate(runs, "rrf"), labels, "ndcg@1-5")
    >>> ax = cc.plots.metric_by_cutoff({"rrf": rrf})
    >>> ax.get_ylabel(), ax.lines[0].get_xdata().tolist()
    ('ndcg@k', [1.0, 2.0, 3.0, 4.0, 5.0])
    """
    from matplotlib.ticker import MaxNLocator

    given = by_name(methods, "metric_by_cutoff")
    check_level(level, "metric_by_cutoff", optional=True)
    curves, what = {}, "value"
    for name, one in given.items():
        points, folds, said = values_by_cutoff(one, metric, name)
        what = said or what
        curves[name] = mean_curve(points, folds, level)
    if ax is None:
        ax = new_axes(5.6, 3.8)
    style_axes(ax, grid="y")
    draw_curves(ax, curves)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12, min_n_ticks=1))
    set_caption(ax, "cutoff k", _band_note(curves, level, "the mean over instances"))
    ax.set_ylabel(label_text(f"{what}@k" if what != "value" else what, 40))
    return ax


@plot_style
def precision_recall(
    methods: Mapping[str, Any] | Any,
    labels: Labels | None = None,
    *,
    level: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the interpolated precision at recall 0, 0.1, ..., 1, one line for each method.

    Parameters
    ----------
    methods : mapping from name to Consensus, Evaluation or values; or one of them
        A consensus is evaluated against `labels` by `concordant.metrics.precision_at_recall`; an evaluation must hold
        metrics ``iprec(recall=...)``; values are mappings from the recall to the values of the instances, or to their
        mean.
    labels : Labels, optional
        Labels, needed to evaluate a consensus.
    level : float or None
        The level of bands (percentile bootstrap over instances); None draws none.
    ax : Axes, optional
        Axes to draw on.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels = cc.synthetic.labelled_runs(20, random_state=1)
    >>> ax = cc.plots.precision_recall({"rrf": cc.aggregate(runs, "rrf")}, labels)
    >>> len(ax.lines[0].get_xdata())
    11
    """
    given = by_name(methods, "precision_recall")
    check_level(level, "precision_recall", optional=True)
    curves = {}
    for name, one in given.items():
        if isinstance(one, Consensus):
            if labels is None:
                raise ParameterError(f"plots.precision_recall: {name!r} is a consensus: pass labels to evaluate it.")
            one = precision_at_recall(one, labels)
        if isinstance(one, Evaluation):
            points, folds = values_by_recall(one, name), one.folds
        else:
            points, folds = parse_points(one, "precision_recall", name), None
        curves[name] = mean_curve(points, folds, level)
    if ax is None:
        ax = new_axes(5.0, 4.0)
    style_axes(ax, grid="both")
    draw_curves(ax, curves)
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(0.0, max(1.0, ax.get_ylim()[1]) if ax.get_ylim()[1] > 0.6 else ax.get_ylim()[1])
    set_caption(ax, "recall", _band_note(curves, level, "the mean over instances"))
    ax.set_ylabel("interpolated precision")
    return ax


@plot_style
def calibration(
    predicted: Any,
    outcomes: ArrayLike | None = None,
    *,
    bins: int = 10,
    level: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """Draw a calibration curve: the share of predictions that came true, by bins of the predicted probability.

    Calibrated predictions lie on the diagonal. Points stand at the mean prediction of their bin, with Wilson's interval
    of the share. Bars and numbers at the bottom count the predictions.

    Parameters
    ----------
    predicted : array of N probabilities, or frame
        Between 0 and 1; or the table of `calibration(votes)` of a model, which has its own bins and intervals.
    outcomes : array of N numbers
        1 if the prediction came true, 0 if not, 0.5 for a tie. Not given with a table.
    bins : int
        Number of bins of equal width, of an array.
    level : float
        The level of the intervals, of an array.
    ax : Axes, optional
        Axes to draw on.

    Examples
    --------
    >>> import concordant as cc
    >>> ax = cc.plots.calibration([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 0], bins=2)
    >>> ax.lines[1].get_xdata().tolist(), ax.lines[1].get_ydata().tolist()
    ([0.1, 0.9], [0.0, 0.5])
    """
    from matplotlib.patheffects import withStroke

    if outcomes is None:
        bars, words = calibration_bars(predicted), "outcomes"
    else:
        bins = check_limit(bins, "calibration", "bins")
        check_level(level, "calibration")
        p, y = (
            finite_numbers(v, what, "calibration") for v, what in ((predicted, "predictions"), (outcomes, "outcomes"))
        )
        if len(p) != len(y):
            raise DataError(
                f"plots.calibration: got {len(p)} predictions and {len(y)} outcomes; their numbers must be equal."
            )
        for what, values in (("predictions", p), ("outcomes", y)):
            if values.min() < 0 or values.max() > 1:
                wrong = values[(values < 0) | (values > 1)][0]
                raise DataError(f"plots.calibration: {what} must lie between 0 and 1. Got {wrong:g}.")
        which = np.minimum((p * bins).astype(np.int64), bins - 1)
        count = np.bincount(which, minlength=bins)
        full = np.flatnonzero(count)
        mean_p = np.bincount(which, weights=p, minlength=bins)[full] / count[full]
        mean_y = np.bincount(which, weights=y, minlength=bins)[full] / count[full]
        interval = wilson_interval(mean_y, count[full], level)
        bars = CalibrationBars((full + 0.5) / bins, 0.92 / bins, mean_p, mean_y, *interval, count[full])
        words = f"predictions; {level:.0%} intervals"

    if ax is None:
        ax = new_axes(4.6, 4.4)
    ink = style_axes(ax, grid="both")
    ax.plot([0, 1], [0, 1], color=ink.quiet, linewidth=1.0, linestyle="--", zorder=1)
    # The tallest bar takes the lowest sixth of the axes.
    tall = 0.16 * bars.count / bars.count.max()
    ax.bar(bars.at, tall, width=bars.width, color=ink.faint, zorder=0)
    ax.vlines(bars.predicted, bars.lower, bars.upper, color=POSITIVE, linewidth=1.3, zorder=2)
    ax.plot(bars.predicted, bars.observed, "o-", color=POSITIVE, markersize=5, linewidth=1.2, zorder=3)
    if bars.width > 0.075:
        size = SMALL if bars.count.max() < 1000 else SMALL * 0.8
        for at, height, n in zip(bars.at.tolist(), tall.tolist(), bars.count.tolist(), strict=True):
            text = ax.text(at, height + 0.006, f"{n:,}", ha="center", va="bottom", fontsize=size, color=ink.quiet)
            text.set_path_effects([withStroke(linewidth=2.5, foreground=ink.paper)])
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_aspect("equal")
    set_caption(ax, "predicted probability", f"bars: {bars.count.sum():,.10g} {words}")
    ax.set_ylabel("share that came true")
    return ax


# Fits and costs.


@plot_style
def learning_curve(
    fits: Aggregator | FitInfo | Sequence[Any] | Mapping[str, Any],
    *,
    ylabel: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the objective or validation metric of a fit by pass, with a ring around the pass that was kept.

    Parameters
    ----------
    fits : fitted method, its `fit_info_`, numbers; or a mapping from name to any of them
        Numbers are the values of the passes. A table of numbers holds one run per row; its mean is drawn with a band
        from the lowest to the highest value.
    ylabel : str, optional
        Label of the y-axis. By default "validation" for a fit with held-out instances, else "objective".
    ax : Axes, optional
        Axes to draw on.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels = cc.synthetic.labelled_runs(20, random_state=1)
    >>> ax = cc.plots.learning_curve(cc.CRF(passes=5).fit(runs, labels))
    >>> len(ax.lines[0].get_xdata()), ax.get_ylabel()
    (5, 'validation')
    """
    given = fits if isinstance(fits, Mapping) else {"": fits}
    if not given:
        raise DataError("plots.learning_curve: there is no fit to draw.")
    traces = {name: fit_trace(fit, name) for name, fit in given.items()}
    curves, kept = {}, {}
    for name, (table, best, _) in traces.items():
        x = np.arange(1, table.shape[1] + 1, dtype=np.float64)
        several = len(table) > 1
        curves[name] = Curve(
            x, table.mean(axis=0), table.min(axis=0) if several else None, table.max(axis=0) if several else None
        )
        if best is not None and 1 <= best <= len(x):
            kept[name] = best
    if ax is None:
        ax = new_axes(5.6, 3.6)
    style_axes(ax, grid="y")
    draw_curves(ax, curves, mark=max(t.shape[1] for t, _, _ in traces.values()) <= 30)
    for (name, drawn), look in zip(curves.items(), line_styles(len(curves)), strict=True):
        if name in kept:
            at = kept[name] - 1
            ax.plot(drawn.x[at], drawn.y[at], "o", markersize=10, markerfacecolor="none", color=look["color"], zorder=4)
    rank_ticks(ax, max(t.shape[1] for t, _, _ in traces.values()))
    runs = {len(t) for t, _, _ in traces.values()}
    band = f"mean of {max(runs)} runs, band: lowest to highest" if max(runs) > 1 else ""
    set_caption(ax, "pass", "ring: the pass that was kept" if kept else "", band)
    judged = all(validated for _, _, validated in traces.values())
    ax.set_ylabel(label_text(ylabel, 60) if ylabel is not None else "validation" if judged else "objective")
    return ax


@plot_style
def cost_curve(
    costs: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    xlabel: str = "size",
    ylabel: str = "seconds",
    slopes: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw cost against size on logarithmic axes, one line for each method with its slope: time grows as size^slope.

    Parameters
    ----------
    costs : mapping from name to (sizes, seconds)
        Numbers > 0; several measurements of a size are drawn as points around the line of their medians.
    xlabel, ylabel : str
        Labels of the axes.
    slopes : bool
        Write the slope, by least squares on logarithms over all sizes, beside each name.
    ax : Axes, optional
        Axes to draw on.

    Examples
    --------
    >>> import concordant as cc
    >>> ax = cc.plots.cost_curve({"one": ([10, 100, 1000], [0.01, 0.1, 1.0])})
    >>> ax.get_legend().get_texts()[0].get_text(), ax.get_xscale()
    ('one, slope 1.00', 'log')
    """
    if not isinstance(costs, Mapping) or not costs:
        raise DataError("plots.cost_curve: give a mapping from names to (sizes, seconds), with at least one entry.")
    measured = {}
    for name, pair in costs.items():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise DataError(f"plots.cost_curve: {shorten(name, 40)!r} must be a pair (sizes, seconds).")
        x, y = finite_numbers(pair[0], "sizes", "cost_curve"), finite_numbers(pair[1], "seconds", "cost_curve")
        if len(x) != len(y):
            raise DataError(f"plots.cost_curve: {shorten(name, 40)!r} has {len(x)} sizes and {len(y)} seconds.")
        if min(x.min(), y.min()) <= 0:
            raise DataError(f"plots.cost_curve: sizes and seconds must be > 0; those of {shorten(name, 40)!r} are not.")
        measured[name] = (x, y)
    if ax is None:
        ax = new_axes(5.6, 4.0)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ink = style_axes(ax, grid="both")
    ax.grid(visible=False, which="minor")
    handles, names = [], []
    for (name, (x, y)), look in zip(measured.items(), line_styles(len(measured)), strict=True):
        sizes = np.unique(x)
        middle = np.array([np.median(y[x == size]) for size in sizes])
        handles += ax.plot(sizes, middle, **look)
        if len(x) > len(sizes):
            ax.plot(x, y, ".", color=look["color"], markersize=3, alpha=0.5)
        text = label_text(name)
        if slopes and len(sizes) > 1:
            text += f", slope {np.polyfit(np.log(x), np.log(y), 1)[0]:.2f}".replace("-", "−")
        names.append(text)
    marked: list[float] = []
    for size in np.unique(np.concatenate([x for x, _ in measured.values()])).tolist():
        if not marked or size >= 1.3 * marked[-1]:
            marked.append(size)
    if 1 < len(marked) <= _MARKED_SIZES:
        # With few sizes, ticks at the sizes are easier to read than powers of ten.
        ax.set_xticks(marked, [f"{size:,.0f}" if size == round(size) else f"{size:g}" for size in marked])
        ax.set_xticks([], minor=True)
    ax.set_xlabel(label_text(xlabel, 60), color=ink.strong)
    ax.set_ylabel(label_text(ylabel, 60), color=ink.strong)
    draw_legend(ax, handles, names)
    return ax


# Shared parts.


def _both_ends(order: Ints, names: Sequence[str], limit: int, what: str) -> tuple[Ints, list[str], int | None]:
    """Return both ends of an order, the names of the rows, and the row that stands for the entries between them."""
    if len(order) <= limit:
        return order, [label_text(names[i]) for i in order], None
    head = -(-limit // 2)
    shown = np.concatenate([order[:head], order[len(order) - (limit - head) :]])
    text = [label_text(names[i]) for i in shown]
    return shown, [*text[:head], f"… {len(order) - limit:,} {what} between", *text[head:]], head


def _top_items(consensus: Consensus, instance: Any, limit: int, owner: str) -> tuple[Ints, list[str], str]:
    """Return the best slots of an instance, their names with ranks, and a note if some are left out."""
    if not isinstance(consensus, Consensus):
        raise KindError(f"plots.{owner} draws a Consensus, not {type(consensus).__name__}.")
    limit = check_limit(limit, owner)
    n = instance_code(consensus, instance, owner)
    slots, size = best_slots(consensus, n, limit), int(consensus.slots.sizes[n])
    rest = f"the best {limit} of {size:,} items" if size > limit else ""
    return slots, [f"{consensus.rank[s]}  {label_text(consensus.items[int(s)])}" for s in slots], rest


def _set_title(ax: Axes, consensus: Consensus, instance: Any) -> None:
    """Set the instance as title if there are several."""
    if len(consensus) > 1:
        ax.set_title(label_text(instance, 60), fontsize=LARGE, color=ink_of(ax).strong, loc="left")


def _mark_labels(ax: Axes, labels: Floats, place: float) -> None:
    """Write the labels next to a table; labels above 0 are framed and their items bold."""
    from matplotlib.patches import Rectangle

    ink = ink_of(ax)
    for r, label in enumerate(labels.tolist()):
        if np.isnan(label):
            continue
        if label > 0:
            frame = Rectangle((place - 0.46, r - 0.42), 0.92, 0.84, facecolor="none", edgecolor=NEGATIVE, linewidth=1.4)
            ax.add_patch(frame)
        weight = "bold" if label > 0 else "normal"
        ax.text(place, r, f"{label:g}", ha="center", va="center", fontsize=SMALL, color=ink.strong, weight=weight)
    for tick in ax.get_yticklabels():
        if labels[int(tick.get_position()[1])] > 0:
            tick.set_fontweight("bold")


def _percent_text(p: float) -> str:
    """Return a probability in percent, never rounded to 0 or 100."""
    return "<1" if p < 0.005 else ">99" if p > 0.995 else f"{100 * p:.0f}"


def _band_note(curves: Mapping[str, Curve], level: float | None, what: str) -> str:
    return f"bands: {level:.0%} intervals of {what}" if any(c.low is not None for c in curves.values()) else ""
