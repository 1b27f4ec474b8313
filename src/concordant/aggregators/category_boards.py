"""Leaderboards by category: partially pooled Bradley-Terry scores, and differences between categories.

The model and its fit are in `_partial_pooling`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.aggregators import _bradley_terry_style as style
from concordant.aggregators._anchors import anchor_slots, gauge_of, relative_to_anchor
from concordant.aggregators._pairwise_outcomes import ComparisonOutcomes
from concordant.aggregators._vote_outcomes import VoteOutcomes
from concordant.aggregators.bradley_terry import BradleyTerry
from concordant.arrays import Floats, Ints
from concordant.base.params import check_params, duration
from concordant.base.registry import create
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.container import counted, describe, html_table
from concordant.data.index import MOST_WITH_ALL_PAIRS, Slots, Texts
from concordant.data.score_scale import SCALES, covariance_of, find_origins
from concordant.data.vote_columns import NO_COLUMNS
from concordant.errors import (
    ConvergenceWarning,
    DataError,
    KindError,
    ParameterError,
    UncertaintyWarning,
    listing,
    quote,
    warn,
)
from concordant.inference.uncertainty import ScoreCovariance, with_intervals

if TYPE_CHECKING:
    import polars as pl

    from concordant.aggregators._partial_pooling import PooledScores

__all__ = ["NO_CATEGORY", "CategoryBoards", "Spread", "category_boards"]

# The category of votes without one.
NO_CATEGORY = "(none)"
# Draws for simultaneous intervals, and the number of draws in memory at a time.
_DRAWS, _CHUNK = 4000, 250
# The share of a score's variance that is added so that a singular covariance has a Cholesky factor.
_JITTER = 1e-9
# Lines of the printed form, and items of each.
_CATEGORIES_SHOWN, _ITEMS_SHOWN = 8, 4


class Spread(NamedTuple):
    """The standard deviation of the deviations of categories: its posterior mean and interval."""

    value: float
    lower: float
    upper: float


def category_boards(
    votes: Comparisons, method: BradleyTerry | str = "bradley-terry", *, pooling: str = "partial"
) -> CategoryBoards:
    """Return a board for each category of the votes, and the overall board.

    With partial pooling the score of an item in a category is its strength, which all categories share, plus a
    deviation: deviations are normal with mean 0, and their standard deviation (`spread`) is learned. A category with
    many votes keeps its own scores; the scores of one with few votes are shrunk towards the other categories, as far as
    these agree.

    Votes without a category form the category "(none)". Every board has all items. With partial pooling an item that
    was never compared in a category gets a score there from the other categories, with a wide interval.

    Parameters
    ----------
    votes : Comparisons
        Votes of one instance with the column `category`, as `read_comparisons(..., category="language")` gives them.
    method : BradleyTerry
        The model, with its settings: ties, prior, side effect, covariates, half-life, anchor and intervals hold for all
        boards. It is copied and not changed.
    pooling : {"partial", "none"}
        "none": each category is scored from its own votes only. In both cases categories share the tie parameter, the
        side effect and the effects of covariates.

    Returns
    -------
    CategoryBoards

    Notes
    -----
    The standard deviation of deviations, τ, has a half-normal prior with standard deviation 1 (log odds) and is
    integrated out: scores are posterior means, and intervals include the uncertainty of τ. Where votes name experts,
    intervals are clustered by expert over all categories. In simulations intervals of level 95 % hold the truth in 94
    to 96 % of cases where categories differ, and in 97 to 98 % where they do not differ at all (docs/results.md).

    Cost: O(C M³) for each of some 70 Newton steps, C categories of M items, and O(C² M²) memory; with experts O(C³ M³)
    in all for the covariance. Above 5,000 scores there are no intervals unless `uncertainty` asks for them.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.Comparisons(
    ...     "arena",
    ...     None,
    ...     ["a", "a", "b", "a", "b"],
    ...     ["b", "c", "c", "b", "c"],
    ...     [70, 80, 60, 2, 3],
    ...     [20, 10, 30, 4, 1],
    ...     category=["en", "en", "en", "de", "de"],
    ... )
    >>> boards = cc.category_boards(votes)
    >>> boards.categories, boards["de"].ranking()
    (['en', 'de'], ['a', 'b', 'c'])
    >>> alone = cc.category_boards(votes, pooling="none")
    >>> alone["de"].ranking()
    ['b', 'a', 'c']
    """
    if pooling not in ("partial", "none"):
        raise ParameterError.invalid("pooling", "category_boards", "'partial' or 'none'", pooling)
    if not isinstance(votes, Comparisons):
        raise KindError(f"category_boards takes Comparisons. Got {type(votes).__name__}.")
    model = create(method)
    if not isinstance(model, BradleyTerry):
        raise KindError(f"category_boards fits BradleyTerry. Got {type(model).__name__}.")
    check_params("BradleyTerry", model.__dict__, model.constraints)
    model = BradleyTerry(**model.get_params())
    if pooling == "partial":
        _check_partial(model)
    names, n_votes, codes = _categories_of(votes)
    overall = model.fit_predict(votes)
    counts = votes if model.half_life is None else votes.discount(duration(model.half_life))
    by_category = _split(counts, names, codes)
    if pooling == "none":
        alone = BradleyTerry(**model.get_params() | {"half_life": None})
        return CategoryBoards(overall, alone.fit_predict(by_category), None, pooling, model, n_votes)
    found, pooled = _pooled_boards(model, by_category)
    return CategoryBoards(overall, found, _spread(pooled, model.level), pooling, model, n_votes, _pooled=pooled)


def _check_partial(model: BradleyTerry) -> None:
    """Raise for settings that partial pooling does not support."""
    settings = {
        "reliability=True": model.reliability,
        "families": bool(model.families),
        "varying": bool(model.varying),
        "optimizer='gd'": model.optimizer == "gd",
        "uncertainty='bootstrap'": model.uncertainty == "bootstrap",
    }
    unsupported = [name for name, given in settings.items() if given]
    if unsupported:
        raise ParameterError(
            f"partial pooling over categories does not support {', '.join(unsupported)}. Leave it out, or fit each "
            "category alone with pooling='none'."
        )


def _categories_of(votes: Comparisons) -> tuple[list[str], dict[str, float], Ints]:
    """Return the categories with votes (most votes first, "(none)" last), their votes, and the category of each row."""
    if len(votes) != 1:
        raise DataError(
            f"category_boards takes votes of one instance. Got {len(votes)} instances. Select one: votes[['ID']]."
        )
    if votes.columns.category is None:
        raise DataError("the votes have no categories. Read them with category='COLUMN', the column that holds them.")
    known = votes.categories.tolist()
    code = np.where(votes.columns.category < 0, len(known), votes.columns.category)
    total = np.bincount(code, votes.outcomes, len(known) + 1)
    if total[-1] and NO_CATEGORY in known:
        raise DataError(
            f"there are votes without a category, and a category is called {NO_CATEGORY!r}, which is what they would "
            "be called. Rename that category, or give every vote a category."
        )
    order = np.argsort(-total[:-1], kind="stable")
    order = np.append(order, len(known))
    order = order[total[order] > 0]
    names = [*known, NO_CATEGORY]
    if len(order) < 2:
        found = quote(names[order[0]]) if len(order) else "none"
        raise DataError(f"boards by category need votes of two categories or more. The votes have: {found}.")
    number = np.full(len(total), -1, dtype=np.int64)
    number[order] = np.arange(len(order))
    return [names[c] for c in order.tolist()], {names[c]: float(total[c]) for c in order.tolist()}, number[code]


def _split(votes: Comparisons, names: Sequence[str], number: Ints) -> Comparisons:
    """Return the votes with one instance for each category; all instances have the same items."""
    m = votes.n_slots
    rows = np.argsort(number, kind="stable")
    rows = rows[np.searchsorted(number[rows], 0) :]
    shift = (number[rows] * m).astype(np.int32)
    slots = Slots(Texts(list(names)), Texts(votes.items.tolist() * len(names)), np.arange(len(names) + 1) * m)
    own = votes.columns.only({"covariates"}).take(rows)
    return Comparisons.from_codes(
        slots,
        votes.experts,
        None if votes.expert is None else votes.expert[rows],
        votes.left[rows] + shift,
        votes.right[rows] + shift,
        votes.n_left[rows],
        votes.n_right[rows],
        votes.n_ties[rows],
        sided=votes.sided,
        columns=own if own.covariates is not None else NO_COLUMNS,
    )


def _pooled_boards(model: BradleyTerry, votes: Comparisons) -> tuple[Consensus, PooledScores]:
    """Return the partially pooled boards of votes by category, and their scores; the model is fitted to all votes."""
    from concordant.aggregators._partial_pooling import pool

    ties, names = model.ties_ != "none", list(model._style)
    outcomes = (
        VoteOutcomes(votes, ties, model.side_effect, style.design(votes, names, model._style_units))
        if names
        else ComparisonOutcomes(votes, ties, model.side_effect)
    )
    n, m = len(votes), int(votes.slots.offsets[1])
    has_experts = votes.expert is not None
    kind = model._interval_kind(has_experts)
    if kind != "none" and model.uncertainty == "auto" and n * m > MOST_WITH_ALL_PAIRS:
        warn(
            f"no intervals: the covariance of {n * m:,} scores of {n} categories takes {(n * m) ** 2 * 8 / 1e9:.1f} GB "
            f"several times over. Ask for it with uncertainty={kind!r}.",
            UncertaintyWarning,
        )
        kind = "none"
    if kind == "sandwich" and len(np.unique(votes.row_expert[votes.outcomes > 0])) < 2:
        # The overall board has warned of it.
        kind = "none"
    pooled = pool(
        outcomes,
        float(outcomes.prior_precision(model._prior_setting)[0]),
        model._shared_parameters(),
        model._learned_shared(),
        covariance=kind != "none",
        clustered=kind == "sandwich",
        tol=model.tol,
        max_iter=model.max_iter,
    )
    if not pooled.converged:
        warn(
            f"scores by category did not converge in {model.max_iter} steps. Raise max_iter or prior.",
            ConvergenceWarning,
        )
    score, anchors, gauge = pooled.score.ravel(), anchor_slots(votes.slots, model.anchor), gauge_of(model.anchor)
    spreads: list[ScoreCovariance | None] = [None] * n
    if pooled.covariance is not None:
        for c in range(n):
            own = slice(c * m, (c + 1) * m)
            known = ScoreCovariance.of(pooled.covariance[own, own])
            spreads[c] = known._replace(freedom=pooled.freedom[c])
    score, spreads = relative_to_anchor(votes.slots, score, spreads, anchors)
    interval_method = model._interval_method(kind, has_experts)
    if interval_method is None:
        return Consensus.from_codes(votes.slots, score, gauge=gauge, scale="log-odds"), pooled
    board = with_intervals(
        votes.slots,
        score,
        spreads,
        level=model.level,
        rank_ranges=model.rank_ranges,
        gauge=gauge,
        method=f"{interval_method}, partially pooled over categories",
        known=np.tile(outcomes.compared.reshape(n, m).any(axis=0), n),
        scale="log-odds",
    )
    return board, pooled


def _spread(pooled: PooledScores, level: float) -> Spread:
    """Return the posterior mean and interval of τ from its density at the nodes."""
    from scipy.interpolate import PchipInterpolator

    value = float(pooled.weight @ pooled.spread)
    if len(pooled.spread) < 2:
        return Spread(value, value, value)
    # The density of log τ, whose logarithm is smooth.
    position = np.log(pooled.spread)
    fine = np.linspace(position[0], position[-1], 1000)
    density = np.exp(PchipInterpolator(position, np.log(np.maximum(pooled.weight, 1e-300)))(fine))
    share = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    lower, upper = np.exp(np.interp([(1 - level) / 2, (1 + level) / 2], share / share[-1], fine)).tolist()
    return Spread(value, lower, upper)


@dataclass(frozen=True, eq=False, repr=False)
class CategoryBoards:
    """The boards of all categories beside the overall one, as `category_boards` returns them.

    `boards["en"]` is the board of a category; length, iteration and `in` are over the categories.

    Attributes
    ----------
    overall : Consensus
        The board of all votes, as the method gives it.
    by_category : Consensus
        The boards of the categories, each an instance.
    spread : Spread or None
        The standard deviation of the deviations of categories, with its interval; None without pooling.
    pooling : {"partial", "none"}
        How the boards were made.
    method : BradleyTerry
        The model, fitted to all votes.
    n_votes : dict of str to float
        How many votes each category has.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.synthetic.arena(
    ...     4, 3000, covariates=[], categories={"en": 0.9, "de": 0.1}, category_spread=0.5, random_state=1
    ... ).comparisons
    >>> boards = cc.category_boards(votes).scaled("elo", anchor="i1")
    >>> len(boards), "de" in boards, boards["de"].gauge
    (2, True, "item 'i1' is at 1000")
    """

    overall: Consensus
    by_category: Consensus
    spread: Spread | None
    pooling: str
    method: BradleyTerry
    n_votes: dict[str, float]
    # The posterior of all scores by category, relative to their mean; None if categories are independent.
    _pooled: PooledScores | None = field(default=None)
    # By category, the items whose mean is the origin; None for the anchor of the method.
    _origins: tuple[Ints, ...] | None = field(default=None)

    @property
    def categories(self) -> list[str]:
        """The categories, most votes first; "(none)", the votes without a category, comes last."""
        return self.by_category.instances.tolist()

    def __len__(self) -> int:
        return len(self.by_category)

    def __iter__(self) -> Iterator[str]:
        return iter(self.categories)

    def __contains__(self, category: object) -> bool:
        return category in self.by_category.instances.codes

    def __getitem__(self, category: Any) -> Consensus:
        return self.by_category[np.array([self._number(category)])]

    def _number(self, category: Any) -> int:
        """Return the number of a category, or raise if there is none of this name."""
        number = self.by_category.instances.codes.get(str(category))
        if number is None:
            raise DataError(f"no category {quote(category)}. Categories: {listing(self.categories, 20)}.")
        return int(number)

    def scaled(self, scale: str = "elo", *, anchor: Any = None, anchor_at: float | None = None) -> CategoryBoards:
        """Return all boards on another scale, relative to the anchor; the arguments are those of `Consensus.scaled`.

        An anchor has the same score in every category, so differences between categories are relative to it. The mean
        of several models varies less between categories than one model.
        """
        origins, _ = find_origins(self.by_category, scale, anchor, anchor_at)
        m = self.by_category.n_slots // len(self)
        factor = SCALES[scale][0] / SCALES[str(self.by_category.scale)][0]
        return replace(
            self,
            overall=self.overall.scaled(scale, anchor=anchor, anchor_at=anchor_at),
            by_category=self.by_category.scaled(scale, anchor=anchor, anchor_at=anchor_at),
            spread=None if self.spread is None else Spread(*(v * factor for v in self.spread)),
            _origins=tuple(origin.slots - c * m for c, origin in enumerate(origins)),
        )

    def with_tiers(self, level: float | None = None, *, strict: bool = False) -> CategoryBoards:
        """Return all boards with the column `tier`; the arguments are those of `Consensus.with_tiers`."""
        overall, by_category = (b.with_tiers(level, strict=strict) for b in (self.overall, self.by_category))
        return replace(self, overall=overall, by_category=by_category)

    def differences(self, against: str = "others", *, level: float | None = None) -> pl.DataFrame:
        """Return the differences of scores between categories, the most significant first.

        Parameters
        ----------
        against : {"others", "pairs"} or a category
            "others": each category against the mean of the others. "pairs": all pairs of categories. A category: every
            other one against it.
        level : float, optional
            The level of the intervals; by default that of the boards.

        Returns
        -------
        frame
            item, category, against, difference, stderr, lower, upper and p_value. Intervals and p values are corrected
            for the number of rows: with probability `level` all intervals contain their differences. They come from the
            distribution of the largest standardised difference (max-t, from 4,000 draws of the posterior, which are
            always the same). The smallest p value is 1/4,001, or smaller by Bonferroni's bound if the posterior is
            normal. Items without a standard error in a category are left out.

        Notes
        -----
        Differences are those of the displayed scores, relative to the mean of the items or to the anchor. Without
        pooling categories count as independent.

        Examples
        --------
        >>> import concordant as cc
        >>> votes = cc.synthetic.arena(
        ...     [1, 0, -1], 6000, covariates=[], categories={"en": 0.5, "de": 0.5}, category_spread=1, random_state=2
        ... ).comparisons
        >>> found = cc.category_boards(votes).differences(against="en")
        >>> found.columns
        ['item', 'category', 'against', 'difference', 'stderr', 'lower', 'upper', 'p_value']
        >>> found.select("item", "category", "against").rows()[0]
        ('i2', 'de', 'en')
        """
        import polars as pl

        if level is None:
            level = 0.95 if self.by_category.level is None else self.by_category.level
        if not isinstance(level, (int, float)) or not 0 < level < 1:
            raise ParameterError.invalid("level", "differences", "a number between 0 and 1", level)
        contrasts, names = self._contrasts(against)
        if self.by_category.stderr is None:
            raise DataError(
                "the boards have no standard errors, which differences need. Fit with intervals, such as "
                "uncertainty='auto'."
            )
        n = len(self)
        score = self.by_category.score.reshape(n, -1)
        stderr = np.sqrt(np.maximum(self._variances(contrasts), 0.0))
        value = contrasts @ score
        half_width, p_value = self._simultaneous_intervals(contrasts, value, stderr, float(level))
        has_error = np.isfinite(stderr) & (stderr > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(np.where(has_error, -np.abs(value / stderr), np.inf).ravel(), kind="stable")
        order = order[: int(has_error.sum())]
        row, item = np.divmod(order, score.shape[1])
        items = self.by_category.items[: score.shape[1]].tolist()
        margin = half_width * stderr
        return pl.DataFrame(
            {
                "item": pl.Series([items[i] for i in item.tolist()], dtype=pl.String),
                "category": pl.Series([names[r][0] for r in row.tolist()], dtype=pl.String),
                "against": pl.Series([names[r][1] for r in row.tolist()], dtype=pl.String),
                "difference": value.ravel()[order],
                "stderr": stderr.ravel()[order],
                "lower": (value - margin).ravel()[order],
                "upper": (value + margin).ravel()[order],
                "p_value": p_value.ravel()[order],
            }
        )

    def _contrasts(self, against: str) -> tuple[Floats, list[tuple[str, str]]]:
        """Return the weights of the categories in each difference, and the names of its two sides."""
        n, names = len(self), self.categories
        if against == "others":
            return np.eye(n) - (1.0 - np.eye(n)) / (n - 1), [(name, "others") for name in names]
        if against == "pairs":
            sides = [(a, b) for a in range(n) for b in range(a + 1, n)]
        else:
            b = self._number(against)
            sides = [(a, b) for a in range(n) if a != b]
        out = np.zeros((len(sides), n))
        for row, (a, b) in enumerate(sides):
            out[row, a], out[row, b] = 1.0, -1.0
        return out, [(names[a], names[b]) for a, b in sides]

    @cached_property
    def _widening(self) -> Floats:
        """The factor by which few experts widen the interval of each score; NaN for scores without an interval."""
        board = self.by_category
        factor = board.half_widths(np.arange(board.n_slots)) / board._normal_half_width()
        return factor if board.stderr is None else np.where(np.isnan(board.stderr), np.nan, factor)

    @cached_property
    def _all_covariances(self) -> Floats:
        """The covariance of the displayed scores of all categories, with the widening for few experts."""
        n = len(self)
        m = self.by_category.n_slots // n
        if self._pooled is not None and self._pooled.covariance is not None:
            return self._displayed(self._pooled.covariance)
        out = np.zeros((n * m, n * m))
        for c in range(n):
            own = slice(c * m, (c + 1) * m)
            out[own, own] = covariance_of(self.by_category, c)
        return out * self._widening[:, None] * self._widening

    def _displayed(self, table: Floats) -> Floats:
        """Return the covariance of the displayed scores from that of scores relative to the mean."""
        points = SCALES[str(self.by_category.scale)][0] * self._widening
        return self._relative(table) * points[:, None] * points

    def _relative(self, table: Floats) -> Floats:
        """Return a covariance relative to the origin of each category, for its rows and columns."""
        for _ in range(2):
            # Once the rows, and then the columns as rows.
            table = self._relative_rows(table).T
        return table

    def _relative_rows(self, table: Floats) -> Floats:
        n, origins = len(self), self._origins
        if origins is None:
            if self.method.anchor is None:
                return table
            at = anchor_slots(self.by_category.slots, self.method.anchor)
            m = len(table) // n
            origins = tuple(np.array([slot - c * m]) for c, slot in enumerate([] if at is None else at.tolist()))
        each = table.reshape(n, -1, *table.shape[1:])
        out: Floats = each - np.stack([each[c, own].mean(axis=0) for c, own in enumerate(origins)])[:, None]
        return out.reshape(table.shape)

    def _variances(self, contrasts: Floats) -> Floats:
        """Return the variance of each contrast of categories for every item."""
        n = len(self)
        m = self.by_category.n_slots // n
        each = np.einsum("cidi->icd", self._all_covariances.reshape(n, m, n, m))
        variance = np.einsum("kc,icd,kd->ki", contrasts, each, contrasts)
        # A difference that is 0 by definition, as that of an anchor, has a variance of 0 up to rounding errors.
        whole = np.einsum("kc,icc->ki", contrasts**2, each)
        largest = np.nanmax(whole, axis=1, keepdims=True, initial=0.0)
        out: Floats = np.where(variance <= 1e-9 * largest, 0.0, variance)
        return out

    def _simultaneous_intervals(
        self, contrasts: Floats, value: Floats, stderr: Floats, level: float
    ) -> tuple[float, Floats]:
        """Return the half-width of simultaneous intervals, in standard errors, and adjusted p values."""
        from scipy.special import ndtr, ndtri

        has_error = np.isfinite(stderr) & (stderr > 0)
        n_rows = max(int(has_error.sum()), 1)
        weight = np.where(has_error, 1.0 / np.where(has_error, stderr, 1.0), 0.0).astype(np.float32)
        parts = []
        for drawn in self._drawn_errors():
            z = np.einsum("kc,dci->dki", contrasts.astype(np.float32), drawn, optimize=True)
            parts.append(np.abs(z * weight).max(axis=(1, 2), initial=0.0))
        largest = np.sort(np.concatenate(parts))
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.abs(np.where(has_error, value / stderr, np.nan))
        p_value = (1.0 + len(largest) - np.searchsorted(largest, z)) / (1.0 + len(largest))
        half_width = float(np.quantile(largest, level))
        if self._is_normal:
            # Bonferroni's bound also resolves p values below 1 / (number of draws).
            half_width = min(half_width, float(-ndtri((1.0 - level) / (2 * n_rows))))
            p_value = np.minimum(p_value, 2.0 * n_rows * ndtr(-z))
        return half_width, np.minimum(p_value, 1.0)

    @property
    def _is_normal(self) -> bool:
        """Whether the posterior of all scores is one normal distribution."""
        return self._pooled is None or not (self._pooled.components or np.isfinite(self._pooled.freedom).any())

    def _drawn_errors(self) -> Iterator[Floats]:
        """Yield draws of the errors of all displayed scores, by draw, category and item; unknown ones are 0.

        The draws include τ, because a large τ moves many scores at once. With experts they have a multivariate t
        distribution with the median of the degrees of freedom.
        """
        from scipy.linalg import cholesky
        from scipy.special import stdtrit

        n, board = len(self), self.by_category
        known = np.isfinite(self._widening)
        pooled = self._pooled
        components = () if pooled is None else pooled.components
        weights = np.array([part.weight for part in components] or [1.0])
        counts = np.diff(np.round(np.concatenate([[0.0], np.cumsum(weights) / weights.sum()]) * _DRAWS).astype(int))
        freedom = np.inf if pooled is None else float(np.median(pooled.freedom))
        random = np.random.default_rng(0)
        for k, count in enumerate(counts.tolist()):
            table = self._displayed(components[k].covariance) if components else self._all_covariances
            own = table[np.ix_(known, known)]
            own[np.diag_indices(len(own))] += _JITTER * max(float(np.diagonal(own).mean()), 1e-300) if len(own) else 0.0
            cholesky_factor = cholesky(own, lower=True).astype(np.float32) if len(own) else np.zeros((0, 0), np.float32)
            shift = np.zeros(len(known), dtype=np.float32)
            if components:
                shifted = self._relative_rows(components[k].shift) * SCALES[str(board.scale)][0] * self._widening
                shift[known] = shifted[known]
            for first in range(0, count, _CHUNK):
                size = min(_CHUNK, count - first)
                drawn = np.zeros((size, len(known)), dtype=np.float32)
                drawn[:, known] = (
                    random.standard_normal((size, len(cholesky_factor)), dtype=np.float32) @ cholesky_factor.T
                )
                drawn += shift
                if np.isfinite(freedom):
                    # The covariance already contains the widening of t; divide it out.
                    tail = (1.0 + (0.95 if board.level is None else board.level)) / 2
                    t_scale = board._normal_half_width() / float(stdtrit(freedom, tail))
                    drawn *= (t_scale * np.sqrt(freedom / random.chisquare(freedom, (size, 1)))).astype(np.float32)
                yield drawn.reshape(size, n, -1)

    def to_frame(self) -> pl.DataFrame:
        """Return all boards as a Polars frame, best first: category (null for the overall board), item, score, rank.

        The other columns are those of `Consensus.to_frame`.
        """
        import polars as pl

        overall = self.overall.to_frame().with_columns(pl.lit(None, dtype=pl.String).alias("instance"))
        frame = pl.concat([overall, self.by_category.to_frame()], how="diagonal_relaxed")
        return frame.rename({"instance": "category"})

    def __repr__(self) -> str:
        m = self.overall.n_slots
        lines = [f"{len(self)} categories, {counted(m, 'item')}, {self._pooling_text()}"]
        total = sum(self.n_votes.values())
        boards = [("overall", total, self.overall)]
        boards += [(name, self.n_votes[name], self[name]) for name in self.categories[:_CATEGORIES_SHOWN]]
        for name, n, board in boards:
            lines.append(f"{name} ({n:,.10g} votes): {board._weak_order(None, _ITEMS_SHOWN)}")
        if len(self) > _CATEGORIES_SHOWN:
            lines.append(f"… {len(self) - _CATEGORIES_SHOWN} more categories")
        return describe("CategoryBoards", lines)

    def _pooling_text(self) -> str:
        if self.spread is None:
            return "each from its own votes"
        value, lower, upper = (f"{v:.2g}" if self.by_category.scale != "elo" else f"{v:.0f}" for v in self.spread)
        unit = "points" if self.by_category.scale == "elo" else "log odds"
        return f"partially pooled: scores differ by {value} {unit} between categories ({lower} to {upper})"

    def _repr_html_(self) -> str:
        rows = []
        digits = 0 if self.by_category.scale == "elo" else 2
        by_item = self.by_category.score.reshape(len(self), -1)
        rank = self.by_category.rank.reshape(len(self), -1)
        for slot in self.overall.order()[:20].tolist():
            cells = [f"{s:.{digits}f} ({r})" for s, r in zip(by_item[:, slot], rank[:, slot], strict=True)]
            own = f"{self.overall.score[slot]:.{digits}f} ({int(self.overall.rank[slot])})"
            rows.append((self.overall.items[slot], own, *cells))
        head = ["item", "overall", *self.categories]
        return html_table(head, rows, self.overall.n_slots - len(rows), repr(self).partition("\n")[0])
