"""What a report shows of an arena, votes on the pairs of one set of items, beside its board.

Win rates, boards by category, effects such as style and side, habits of experts, and votes over time.

The board itself, its judges and the facts about the data are those of every report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from concordant.aggregators.bradley_terry import BradleyTerry
from concordant.aggregators.category_boards import CategoryBoards, category_boards
from concordant.arrays import Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.index import Texts
from concordant.data.score_scale import ELO_PER_LOGIT
from concordant.errors import ConcordantError, DataError
from concordant.inference.experts import support
from concordant.report._instances import best_slots
from concordant.report.method_results import MethodResult, collect_warnings

__all__ = [
    "Arena",
    "Categories",
    "CategoryDifference",
    "CategoryScore",
    "Effect",
    "Habit",
    "Habits",
    "HeadToHead",
    "Period",
    "Timeline",
    "build_arena",
]

# The items of the table of win rates.
_TOP = 20
# The rows of the table of habits: at least and at most so many, else those that are clear.
_FEWEST_HABITS, _MOST_HABITS = 5, 20
# The categories that have a board of their own; the votes of others are put together under this name.
_CATEGORIES, _OTHER = 10, "(other)"
# A column whose largest categories hold less than this share of the votes holds ids and not categories.
_FEWEST_IN_CATEGORIES = 0.5
# Differences between categories that are listed, and the corrected p value below which they are clear.
_DIFFERENCES, _SIGNIFICANT = 10, 0.05
# Votes over time are counted by day, week or month: the first that needs at most this many bars.
_MOST_PERIODS = 62
# Times between 1980 and 2100 are seconds since 1970; others have a unit of their own.
_SECONDS = (315_532_800, 4_102_444_800)
_DAY = 86_400
# Weeks begin on a Monday; day 0 is a Thursday.
_MONDAY = 4
# A habit is clear where |z| is at least this.
_CLEAR = 2.0


class HeadToHead(NamedTuple):
    """Two items: the chance that the first wins where there is no tie, and how often it won, lost and tied."""

    rate: float | None
    won: float
    lost: float
    ties: float


class Effect(NamedTuple):
    """What adds to the log odds of a vote beside the items: per unit, its interval, and for a typical difference.

    `kind` is "covariate" or "side"; `typical` is the standard deviation of the covariate over votes (1 for the side),
    and `points` is what that much of it is worth on the Elo scale.
    """

    kind: str
    term: str
    estimate: float
    lower: float | None
    upper: float | None
    typical: float
    points: float


class CategoryScore(NamedTuple):
    """The score of an item in a category, half its interval, and whether it is clearly above or below the others."""

    score: float
    half_width: float | None
    sign: int


class CategoryDifference(NamedTuple):
    """How much higher the score of an item is in a category than in the others, with a corrected interval."""

    item: str
    category: str
    value: float
    lower: float
    upper: float


class Categories(NamedTuple):
    """Boards by category.

    Attributes
    ----------
    names, votes : lists
        The categories, most votes first, and their numbers of votes.
    scores : dict of str to list of CategoryScore or None
        By item, in the order of the categories; None where the score is unknown.
    spread : tuple of float, optional
        The standard deviation of scores between categories, with its interval.
    differences : list of CategoryDifference
        The clearest ones.
    n_clear : int
        How many are clear.
    """

    names: list[str]
    votes: list[float]
    scores: dict[str, list[CategoryScore | None]]
    spread: tuple[float, float, float] | None
    differences: list[CategoryDifference]
    n_clear: int


class Habit(NamedTuple):
    """What an expert favours: a family of items, or more of a covariate, in log odds."""

    expert: str
    kind: str
    term: str
    estimate: float
    lower: float | None
    upper: float | None
    z: float


class Habits(NamedTuple):
    """The habits that a method looked for.

    Attributes
    ----------
    rows : list of Habit
        Those with the largest |z|.
    n_tested, n_clear : int
        How many were looked for, and how many of these have |z| >= 2.
    spread : dict of str to float
        The standard deviation over experts, of "families" and of each varying covariate.
    """

    rows: list[Habit]
    n_tested: int
    n_clear: int
    spread: dict[str, float]


class Period(NamedTuple):
    """A day, week or month, and the votes given in it."""

    name: str
    votes: float


class Timeline(NamedTuple):
    """Votes over time: what a period is, the periods, and how many votes have no time."""

    unit: str
    periods: list[Period]
    without: float


@dataclass(frozen=True)
class Arena:
    """What the report of an arena shows beside the board.

    Attributes
    ----------
    top : list of str
        The best items, in the order of `head_to_head`.
    head_to_head : list of lists of HeadToHead or None
        For each of these items, how it does against each of them; None against itself.
    predicted : bool
        Whether the win rates are the chances of the method, or the shares observed.
    effects : list of Effect
        Covariates of the vote, and the side.
    equal_ties : float or None
        The share of ties between two equal items.
    habits : Habits or None
        The habits of experts, where a method looked for some.
    timeline : Timeline or None
        Votes over time, where they have times.
    categories : Categories or None
        Boards by category, where votes have categories.
    left_out : list of str
        What is not shown, and why.
    """

    top: list[str]
    head_to_head: list[list[HeadToHead | None]]
    predicted: bool
    effects: list[Effect] = field(default_factory=list)
    equal_ties: float | None = None
    habits: Habits | None = None
    timeline: Timeline | None = None
    categories: Categories | None = None
    left_out: list[str] = field(default_factory=list)


def build_arena(votes: Comparisons, consensus: Consensus, results: Sequence[MethodResult]) -> Arena:
    """Return what the report of an arena shows beside the board; the first result gives the consensus.

    Examples
    --------
    >>> import concordant as cc
    >>> from concordant.report.method_results import NamedMethod, run_method
    >>> votes = cc.Comparisons("arena", None, ["a", "a", "b"], ["b", "c", "c"], [70, 80, 60], [20, 10, 30])
    >>> result = run_method(NamedMethod("bradley-terry", cc.BradleyTerry()), votes)
    >>> arena = build_arena(votes, result.consensus, [result])
    >>> arena.top, [None if m is None else round(m.rate, 2) for m in arena.head_to_head[0]]
    (['a', 'b', 'c'], [None, 0.78, 0.88])
    """
    main = results[0].method
    slots = best_slots(consensus, 0, votes.n_slots)
    slots = slots[support(votes)[slots] > 0][:_TOP]
    items = consensus.items.take(slots).tolist()
    counts = _counts(votes, slots)
    predict = getattr(main, "outcome_probabilities", None)
    rates = _predicted(predict, items) if predict is not None else None
    head_to_head: list[list[HeadToHead | None]] = []
    for i in range(len(items)):
        row: list[HeadToHead | None] = []
        for j in range(len(items)):
            won, lost, ties = (float(c) for c in (counts[0][i, j], counts[0][j, i], counts[1][i, j]))
            seen = won / (won + lost) if won + lost else None
            row.append(None if i == j else HeadToHead(seen if rates is None else float(rates[i, j]), won, lost, ties))
        head_to_head.append(row)
    effects, equal_ties = _effects(votes, main)
    arena = Arena(items, head_to_head, rates is not None, effects, equal_ties, _habits(results), _timeline(votes))
    if votes.columns.category is None or not isinstance(main, BradleyTerry):
        return arena
    try:
        return replace(arena, categories=_categories(votes, main, consensus))
    except ConcordantError as error:
        arena.left_out.append(f"Boards by category are left out: {' '.join(str(error).split())}")
        return arena


def _categories(votes: Comparisons, method: BradleyTerry, consensus: Consensus) -> Categories | None:
    """Return the boards by category on the scale of the board; None for a single category."""
    votes = _largest_categories(votes)
    if len(votes.categories) < 2:
        return None
    with collect_warnings([]):
        boards = category_boards(votes, method)
        if consensus.scale == "elo":
            compared = np.flatnonzero(support(votes) > 0)
            mean = float(consensus.score[compared].mean())
            boards = boards.scaled("elo", anchor=consensus.items.take(compared).tolist(), anchor_at=mean)
        clear = _clear_differences(boards)
    sign = {(d.item, d.category): 1 if d.value > 0 else -1 for d in clear}
    scores: dict[str, list[CategoryScore | None]] = {}
    for name in boards.categories:
        board = boards[name]
        half = None if board.lower is None or board.upper is None else (board.upper - board.lower) / 2
        for k, item in enumerate(board.items.tolist()):
            known = np.isfinite(board.score[k]) and (half is None or np.isfinite(half[k]))
            cell = CategoryScore(
                float(board.score[k]), None if half is None else float(half[k]), sign.get((item, name), 0)
            )
            scores.setdefault(item, []).append(cell if known else None)
    return Categories(
        list(boards.categories),
        [float(boards.n_votes[name]) for name in boards.categories],
        scores,
        None if boards.spread is None else (boards.spread.value, boards.spread.lower, boards.spread.upper),
        clear[:_DIFFERENCES],
        len(clear),
    )


def _largest_categories(votes: Comparisons) -> Comparisons:
    """Return the votes with all but the largest categories put together."""
    code, names = votes.columns.category, votes.categories
    if code is None or len(names) <= _CATEGORIES:
        return votes
    held = code >= 0
    counts = np.bincount(code[held], weights=votes.outcomes[held], minlength=len(names))
    largest = np.sort(np.argsort(-counts, kind="stable")[:_CATEGORIES])
    if counts[largest].sum() < _FEWEST_IN_CATEGORIES * counts.sum():
        raise DataError(
            f"the column of categories has {len(names):,} values, and the {_CATEGORIES} most frequent ones hold less "
            f"than {_FEWEST_IN_CATEGORIES:.0%} of the votes."
        )
    new = np.full(len(names), len(largest), dtype=code.dtype)
    new[largest] = np.arange(len(largest))
    kept = Texts([*(names[int(k)] for k in largest), _OTHER])
    columns = votes.columns._replace(category=np.where(held, new[code], code).astype(code.dtype), categories=kept)
    return votes.with_columns(columns)


def _clear_differences(boards: CategoryBoards) -> list[CategoryDifference]:
    """Return where an item is clearly better or worse in a category than in the others, clearest first."""
    if boards.by_category.stderr is None:
        return []
    rows = boards.differences().iter_rows(named=True)
    return [
        CategoryDifference(row["item"], row["category"], row["difference"], row["lower"], row["upper"])
        for row in rows
        if row["p_value"] is not None and row["p_value"] < _SIGNIFICANT
    ]


def _counts(votes: Comparisons, slots: Ints) -> tuple[Floats, Floats]:
    """Return how often each of some items won against each other, and how often they tied."""
    k = len(slots)
    place = np.full(max(votes.n_slots, 1), -1, dtype=np.int64)
    place[slots] = np.arange(k)
    left, right = place[votes.left], place[votes.right]
    held = np.flatnonzero((left >= 0) & (right >= 0))
    left, right = left[held], right[held]
    wins = np.bincount(left * k + right, weights=votes.n_left[held], minlength=k * k)
    wins = wins + np.bincount(right * k + left, weights=votes.n_right[held], minlength=k * k)
    ties = np.bincount(left * k + right, weights=votes.n_ties[held], minlength=k * k)
    won, tied = (np.asarray(c, dtype=np.float64).reshape(k, k) for c in (wins, ties))
    return won, tied + tied.T


def _predicted(predict: Any, items: list[str]) -> Floats | None:
    """Return the chance of each item against each other where there is no tie; None if the method has none."""
    out = np.full((len(items), len(items)), np.nan)
    try:
        for i, a in enumerate(items):
            for j, b in enumerate(items[:i]):
                chance = predict(a, b)
                out[i, j] = chance.win / (chance.win + chance.loss)
                out[j, i] = 1.0 - out[i, j]
    except ConcordantError:
        return None
    return out


def _effects(votes: Comparisons, main: Any) -> tuple[list[Effect], float | None]:
    """Return the estimated effects of covariates and, where sides are known, of the side.

    The side is estimated in a fit of its own, so that the board is that of the method.
    """
    if not isinstance(main, BradleyTerry) or main.optimizer == "gd":
        return [], None
    model = main
    if votes.sided and not main.side_effect and not main.reliability:
        settings = main.get_params() | {"side_effect": True, "families": None, "varying": None}
        model = BradleyTerry(**settings)
        try:
            with collect_warnings([]):
                model.fit(votes)
        except ConcordantError:
            model = main
    spread = dict(zip(votes.covariate_names.tolist(), _typical(votes).tolist(), strict=True))
    effects, equal = [], None
    for row in model.coefficient_table_.iter_rows(named=True):
        if row["kind"] in ("covariate", "side"):
            typical = spread.get(row["term"], 1.0) if row["kind"] == "covariate" else 1.0
            worth = row["estimate"] * typical * ELO_PER_LOGIT
            effects.append(
                Effect(row["kind"], row["term"], row["estimate"], row["lower"], row["upper"], typical, worth)
            )
    if main.ties_ == "davidson":
        equal = float(main.tie_ / (2.0 + main.tie_))
    return effects, equal


def _typical(votes: Comparisons) -> Floats:
    """Return the standard deviation of each covariate over the votes, about 0: a vote has no order of its sides."""
    outcomes = votes.outcomes
    total = max(float(outcomes.sum()), 1.0)
    return np.asarray(np.sqrt(outcomes @ votes.covariates**2 / total))


def _habits(results: Sequence[MethodResult]) -> Habits | None:
    """Return the habits of experts that the first method with habits found."""
    for result in results:
        if result.consensus is None or "habit_details_" not in vars(result.method):
            continue
        frame, spread = result.method.habits_, result.method.habit_spread_  # type: ignore[attr-defined]
        size = np.abs(np.nan_to_num(np.array(frame["z"].to_list(), dtype=np.float64)))
        n_clear = int((size >= _CLEAR).sum())
        shown = np.argsort(-size, kind="stable")[: min(max(n_clear, _FEWEST_HABITS), _MOST_HABITS)]
        names = ("expert", "kind", "term", "estimate", "lower", "upper", "z")
        rows = [Habit(*(row[name] for name in names)) for row in frame[shown.tolist()].iter_rows(named=True)]
        return Habits(rows, len(frame), n_clear, dict(spread))
    return None


def _timeline(votes: Comparisons) -> Timeline | None:
    """Return the votes by day, week or month; times that are no dates fall into equal parts."""
    if votes.time is None or not votes.n_rows:
        return None
    known = np.isfinite(votes.time)
    time, outcomes = votes.time[known], votes.outcomes[known]
    without = float(votes.outcomes[~known].sum())
    if not len(time) or time.min() == time.max():
        return None
    if time.min() < _SECONDS[0] or time.max() > _SECONDS[1]:
        edges = np.linspace(time.min(), time.max(), 21)
        part = np.minimum(np.searchsorted(edges, time, side="right") - 1, 19)
        counts = np.bincount(part, weights=outcomes, minlength=20)
        return Timeline("", [Period(f"{edges[k]:.4g}", float(c)) for k, c in enumerate(counts)], without)
    day = np.floor(time / _DAY).astype(np.int64)
    span = int(day.max() - day.min()) + 1
    if span <= _MOST_PERIODS:
        unit, part = "day", day
    elif span <= 7 * _MOST_PERIODS:
        unit, part = "week", (day - _MONDAY) // 7
    else:
        unit, part = "month", _months(day)
    first = int(part.min())
    counts = np.bincount(part - first, weights=outcomes)
    return Timeline(unit, [Period(_called(unit, first + k), float(c)) for k, c in enumerate(counts)], without)


def _months(day: Ints) -> Ints:
    """Return the month of days since 1970, counted from January 1970."""
    return np.asarray(day.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64))


def _called(unit: str, number: int) -> str:
    """Return the name of a period: its first day, or the month."""
    if unit == "month":
        return f"{1970 + number // 12}-{number % 12 + 1:02d}"
    day = number if unit == "day" else 7 * number + _MONDAY
    return datetime.fromtimestamp(day * _DAY, tz=UTC).date().isoformat()
