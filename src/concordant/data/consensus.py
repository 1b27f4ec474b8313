"""`Consensus`: the result of every method, a score and a rank for each (instance, item), with intervals.

Two scores tie when they agree to 1e-12 of the largest of the instance, because the last bits of a floating-point sum
are rounding errors. A method that knows more about its rounding errors gives the ranks itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.data.container import (
    Container,
    as_values,
    counted,
    describe,
    frame_of,
    html_table,
    labelled_table,
    readonly,
    same,
)
from concordant.data.index import Slots, Texts, as_ids, freeze
from concordant.data.labels import unique_slots
from concordant.errors import DataError, ParameterError, quote
from concordant.kernels import lists

if TYPE_CHECKING:
    import polars as pl

    from concordant.data.hits import Hits

__all__ = [
    "OPTIONAL_COLUMNS",
    "TEXT_COLUMNS",
    "TIE_TOLERANCE",
    "Consensus",
    "Difference",
    "joint_half_width",
    "rank_scores",
]

TIE_TOLERANCE = 1e-12

# Draws for `probabilities_best`; an even number.
_DRAWS = 40_000
# Rows in the HTML form for notebooks.
_SHOWN = 20
# Columns beside score and rank that a consensus may have.
OPTIONAL_COLUMNS = ("stderr", "lower", "upper", "rank_lower", "rank_upper", "p_value", "q_value", "tier")
_NO_COLUMNS = dict.fromkeys(OPTIONAL_COLUMNS)
# Columns of text, the same in every row, that a consensus on the Elo scale has.
TEXT_COLUMNS = ("scale", "gauge")


# Differences of scores below this are finite.
_FINITE_RANGE = 1e307


def _drops(by_score: Floats) -> Floats:
    # An overflow gives infinity, which is large enough; NaN scores are refused later.
    with np.errstate(over="ignore", invalid="ignore"):
        return by_score[:-1] - by_score[1:]


def rank_scores(score: Floats, offsets: Ints, *, relative_tolerance: bool = False) -> tuple[Codes, Ints]:
    """Return the rank of every slot (1 = best, ties share the smallest) and the slots best first, ties in input order.

    Scores are equal when they agree to 1e-12 of the largest score of the instance or, with `relative_tolerance`, of
    their own size. The latter suits scores with a relative rounding error, such as sums of terms >= 0.

    Examples
    --------
    >>> rank, order = rank_scores(np.array([0.5, 0.9, 0.5 + 1e-16]), np.array([0, 3]))
    >>> rank.tolist(), order.tolist()
    ([2, 1, 2], [1, 0, 2])
    """
    n = len(score)
    # With several instances, equal scores are brought into input order below.
    order = lists.order_lists(-score, offsets, stable=len(offsets) == 2)
    if n == 0:
        return np.zeros(0, dtype=np.int32), order
    by_score = score[order]
    starts_group = np.empty(n, dtype=np.bool_)
    starts_group[0] = True
    if len(offsets) == 2:
        largest = max(abs(float(by_score[0])), abs(float(by_score[-1])))
        drops = by_score[:-1] - by_score[1:] if largest < _FINITE_RANGE else _drops(by_score)
        np.greater(
            drops, TIE_TOLERANCE * (np.abs(by_score[:-1]) if relative_tolerance else largest), out=starts_group[1:]
        )
        position = np.arange(1, n + 1, dtype=np.int64)
    else:
        lengths = np.diff(offsets)
        nonempty = np.flatnonzero(lengths)
        if relative_tolerance:
            allowed = TIE_TOLERANCE * np.abs(by_score[:-1])
        else:
            # Scores are sorted, so the largest magnitude of an instance is at one of its ends.
            largest_of = np.maximum(np.abs(by_score[offsets[nonempty]]), np.abs(by_score[offsets[nonempty + 1] - 1]))
            allowed = np.repeat(TIE_TOLERANCE * largest_of, lengths[nonempty])[1:]
        np.greater(_drops(by_score), allowed, out=starts_group[1:])
        starts_group[offsets[nonempty]] = True
        position = np.arange(1, n + 1, dtype=np.int64)
        position -= np.repeat(offsets[:-1], lengths)
    if not starts_group.all():
        position = position[starts_group][np.cumsum(starts_group) - 1]
        # Scores that tie only within the tolerance were sorted by rounding errors. A single list was sorted stably.
        if len(offsets) > 2 or (by_score[1:] != by_score[:-1])[~starts_group[1:]].any():
            lists.sort_within_groups(order, np.flatnonzero(starts_group))
    rank = np.empty(n, dtype=np.int32)
    rank[order] = position
    return rank, order


def _check_count(value: Any, name: str, owner: str) -> None:
    if not isinstance(value, (int, np.integer)) or value < 1:
        raise ParameterError.invalid(name, owner, "a whole number >= 1", value)


def joint_half_width(variance_a: Any, variance_b: Any, half_width_a: Any, half_width_b: Any) -> Any:
    """Return the half-width of the interval of a difference of two scores, in its standard errors.

    It is the root mean square of the half-widths of the two scores, weighted by their variances.
    """
    total = variance_a + variance_b
    share = np.divide(variance_a, total, out=np.full(np.shape(total), 0.5), where=np.asarray(total) > 0)
    return np.sqrt(share * half_width_a**2 + (1.0 - share) * half_width_b**2)


class Difference(NamedTuple):
    """The difference of two scores, with its standard error and interval."""

    value: float
    stderr: float
    lower: float
    upper: float


class Consensus(Container):
    """A score and a rank for each (instance, item), with intervals where the method gives them.

    Parameters
    ----------
    instance, item : sequences of ids
        One entry per item.
    score : sequence of float
        Larger is better.
    rank : sequence of int, optional
        1 = best; computed from the scores by default.
    stderr, lower, upper, rank_lower, rank_upper : sequences of float, optional
        Standard error and interval of the score, interval of the rank.
    p_value, q_value : sequences of float, optional
        The probability of ranking this high by chance, and its false discovery rate among the items of the instance.
    tier : sequence of float, optional
        The tier of the item (`with_tiers`).
    level, gauge, interval_method : optional
        The level of the intervals, what fixes the origin and scale of the scores, and the method of the intervals.
    scale : {"log-odds", "elo"}, optional
        The scale of the scores; None if it is neither.

    Attributes
    ----------
    covariance : tuple of float64[m, m] or None
        Covariance matrix of the scores of each instance, None if it is not known. Files do not store it.

    Examples
    --------
    >>> c = Consensus(["q"] * 3, list("abc"), [0.2, 0.9, 0.2])
    >>> c.rank.tolist(), c.ranking()
    ([2, 1, 2], ['b', 'a', 'c'])
    """

    score: Floats
    rank: Codes
    stderr: Floats | None
    lower: Floats | None
    upper: Floats | None
    rank_lower: Floats | None
    rank_upper: Floats | None
    p_value: Floats | None
    q_value: Floats | None
    tier: Floats | None
    level: float | None
    gauge: str | None
    interval_method: str | None
    scale: str | None
    covariance: tuple[Floats | None, ...] | None

    def __init__(
        self,
        instance: Iterable[Any],
        item: Iterable[Any],
        score: Any,
        rank: Any = None,
        *,
        stderr: Any = None,
        lower: Any = None,
        upper: Any = None,
        rank_lower: Any = None,
        rank_upper: Any = None,
        p_value: Any = None,
        q_value: Any = None,
        tier: Any = None,
        level: float | None = None,
        gauge: str | None = None,
        interval_method: str | None = None,
        scale: str | None = None,
    ) -> None:
        slots, rows = unique_slots(instance, item, "scores")
        n = len(rows)
        given = dict(
            zip(OPTIONAL_COLUMNS, (stderr, lower, upper, rank_lower, rank_upper, p_value, q_value, tier), strict=True)
        )
        columns = {k: None if v is None else as_values(v, k, n, missing=True)[rows] for k, v in given.items()}
        ranks = None
        if rank is not None:
            values = as_values(rank, "rank", n)
            whole = (values >= 1) & (values == np.floor(values))
            if not whole.all():
                row = int(np.argmin(whole))
                raise DataError(f"the rank in row {row} must be a whole number >= 1. Got {values[row]:g} instead.")
            ranks = values[rows].astype(np.int32)
        self._set(slots, as_values(score, "score", n)[rows], ranks, level, gauge, interval_method, columns, scale=scale)

    @classmethod
    def from_codes(
        cls,
        slots: Slots,
        score: Floats,
        rank: Codes | None = None,
        order: Ints | None = None,
        *,
        level: float | None = None,
        gauge: str | None = None,
        interval_method: str | None = None,
        scale: str | None = None,
        covariance: tuple[Floats | None, ...] | None = None,
        **columns: Floats | None,
    ) -> Self:
        """Return a consensus over given slots; scores must be finite. Rank and order are computed if not given."""
        out = cls.__new__(cls)
        if order is not None:
            out.__dict__["_order"] = freeze(order)
        out._set(slots, score, rank, level, gauge, interval_method, columns, covariance, scale)
        return out

    def _set(
        self,
        slots: Slots,
        score: Floats,
        rank: Codes | None,
        level: float | None,
        gauge: str | None,
        interval_method: str | None,
        columns: dict[str, Floats | None],
        covariance: tuple[Floats | None, ...] | None = None,
        scale: str | None = None,
    ) -> None:
        if not np.isfinite(score).all():
            q, i = slots.where(int(np.flatnonzero(~np.isfinite(score))[0]))
            raise DataError(f"the score of item {quote(i)} in instance {quote(q)} is not a finite number.")
        known = self.__dict__
        if rank is None:
            rank, order = rank_scores(score, slots.offsets)
            known["_order"] = freeze(order)
        known.update(
            slots=slots,
            score=freeze(score),
            rank=freeze(rank),
            level=level,
            gauge=gauge,
            interval_method=interval_method,
            scale=scale,
            covariance=None if covariance is None else tuple(readonly(c) for c in covariance),
            **(_NO_COLUMNS if not columns else {name: readonly(columns.get(name)) for name in OPTIONAL_COLUMNS}),
        )

    @cached_property
    def _order(self) -> Ints:
        return freeze(lists.order_lists(self.rank, self.slots.offsets))

    def order(self) -> Ints:
        """Return the slots instance by instance, best first; tied items in input order."""
        return self._order

    def ranking(self, instance: Any = None, top_k: int | None = None) -> list[str]:
        """Return the (`top_k`) items of an instance, best first; with a single instance `instance` may be left out.

        Examples
        --------
        >>> Consensus(["q", "q"], ["a", "b"], [1, 2]).ranking("q")
        ['b', 'a']
        """
        return self.items.take(self._best(instance, top_k, "ranking")).tolist()

    def hits(self, instance: Any = None, top_k: int | None = None) -> Hits:
        """Return the (`top_k`) hits of an instance, as `fuse` does; with a single instance `instance` may be left out.

        Examples
        --------
        >>> [hit.id for hit in Consensus(["q", "q"], ["a", "b"], [1, 2]).hits("q")]
        ['b', 'a']
        """
        from concordant.data.hits import Hits

        best = self._best(instance, top_k, "hits")
        return Hits(self.items.take(best).tolist(), self.score[best].tolist(), self.rank[best].tolist())

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return {instance: {item: score}}, best first, the form of runs in ranx and ir_measures.

        Examples
        --------
        >>> Consensus(["q", "q"], ["a", "b"], [1, 2]).to_dict()
        {'q': {'b': 2.0, 'a': 1.0}}
        """
        items, scores = self.items.take(self.order()).tolist(), self.score[self.order()].tolist()
        edges = zip(self.instances, pairwise(self.slots.offsets.tolist()), strict=True)
        return {name: dict(zip(items[a:b], scores[a:b], strict=True)) for name, (a, b) in edges}

    def _best(self, instance: Any, top_k: int | None, owner: str) -> Ints:
        """Return the slots of an instance, best first."""
        if top_k is not None:
            _check_count(top_k, "top_k", owner)
        if instance is None and len(self) != 1:
            raise DataError(f"there are {len(self)} instances; name the one to list: {owner}(instance).")
        code = self._instance(instance)
        own = self.order()[self.slots.offsets[code] : self.slots.offsets[code + 1]]
        return own if top_k is None else own[:top_k]

    def _weak_order(self, instance: Any, top_k: int) -> str:
        """Return the best items of an instance in one line, such as `a = b > c` if a and b tie."""
        slots = self._best(instance, None, "ranking")
        rank = self.rank[slots].tolist()
        signs = ["", *(" = " if one == other else " > " for one, other in pairwise(rank))]
        items = self.items.take(slots[:top_k]).tolist()
        best = "".join(sign + item for sign, item in zip(signs, items, strict=False))
        return best if len(slots) <= top_k else f"{best}{signs[top_k]}…"

    def top(self, k: int) -> Self:
        """Return the k best items of every instance, in order of rank; ties at the cut in input order."""
        _check_count(k, "k", "top")
        starts = self.slots.offsets[:-1]
        ends = np.minimum(starts + k, self.slots.offsets[1:])
        kept = self.order()[lists.ranges(starts, ends)]
        return self._pick(Slots(self.instances, self.items.take(kept), lists.offsets_of(ends - starts)), kept)

    def _pick(self, slots: Slots, slot_index: Ints) -> Self:
        columns = {n: None if self.__dict__[n] is None else self.__dict__[n][slot_index] for n in OPTIONAL_COLUMNS}
        out = self.from_codes(
            slots,
            self.score[slot_index],
            self.rank[slot_index],
            level=self.level,
            gauge=self.gauge,
            interval_method=self.interval_method,
            scale=self.scale,
            covariance=self._pick_covariance(slots, slot_index),
            **columns,
        )
        if self._before_scaling is not self:
            out.__dict__["_unscaled"] = self._before_scaling._pick(slots, slot_index)
        return out

    def _pick_covariance(self, slots: Slots, old: Ints) -> tuple[Floats | None, ...] | None:
        if self.covariance is None:
            return None
        edges, picked = slots.offsets.tolist(), []
        for first, last in pairwise(edges):
            # All slots of an instance come from one instance.
            source = int(self.slots.instance[old[first]]) if last > first else -1
            table = self.covariance[source] if source >= 0 else None
            if table is not None:
                inside = old[first:last] - self.slots.offsets[source]
                if len(inside) < len(table) or (np.diff(inside) != 1).any():
                    table = table[np.ix_(inside, inside)]
            picked.append(table)
        return tuple(picked)

    def _take(self, index: Ints) -> Self:
        return self._pick(*self.slots.take(index))

    def broadcast(self, instances: Iterable[Any]) -> Self:
        """Return this ranking for each of the given instances, for example to evaluate it for many users.

        Examples
        --------
        >>> len(Consensus(["all"], ["a"], [1.0]).broadcast(["u1", "u2"]))
        2
        """
        if len(self) != 1:
            raise DataError(f"only a consensus of one instance can be broadcast; this one has {len(self)}.")
        names = as_ids(instances, "instance")
        if len(set(names)) < len(names):
            raise DataError("broadcast got an instance twice. Name each instance once.")
        m, n = self.n_slots, len(names)
        old = np.tile(np.arange(m, dtype=np.int64), n)
        slots = Slots(Texts(names), self.items.take(old), lists.offsets_of(np.full(n, m)))
        return self._pick(slots, old)

    def difference(self, a: Any, b: Any, instance: Any = None) -> Difference:
        """Return the score of item `a` minus that of item `b`, with standard error and interval.

        Scores are taken as independent if their covariance is not known, as after reading from a file.

        Examples
        --------
        >>> c = Consensus(["q", "q"], ["a", "b"], [1.0, 0.0], stderr=[0.6, 0.8], level=0.95)
        >>> gap = c.difference("a", "b")
        >>> gap.value, gap.stderr, round(gap.lower, 2), round(gap.upper, 2)
        (1.0, 1.0, -0.96, 2.96)
        """
        own = self._before_scaling
        value, spread, half_width = own._difference(a, b, instance)
        if own is not self:
            from concordant.data.score_scale import SCALES

            factor = SCALES[str(self.scale)][0] / SCALES[str(own.scale)][0]
            value, spread = value * factor, spread * factor
        return Difference(value, spread, value - half_width * spread, value + half_width * spread)

    def covariance_frame(self, instance: Any = None) -> pl.DataFrame:
        """Return the covariance of the scores of one instance: the column `term`, and one column for each item.

        With a single instance `instance` may be left out. An unknown covariance raises DataError.

        Examples
        --------
        >>> import concordant as cc
        >>> c = cc.BradleyTerry().fit_predict(cc.Comparisons("q", None, ["a", "b"], ["b", "c"], [3, 4], [2, 1]))
        >>> c.covariance_frame().columns
        ['term', 'a', 'b', 'c']
        """
        n = self._instance(instance)
        table = None if self.covariance is None else self.covariance[n]
        if table is None:
            raise DataError(
                f"the covariance of the scores of instance {quote(self.instances[n])} is not known. Use a method that "
                "gives intervals; files do not keep it."
            )
        own = slice(int(self.slots.offsets[n]), int(self.slots.offsets[n + 1]))
        return labelled_table(self.items[own].tolist(), table)

    def half_widths(self, slots: Any) -> Floats:
        """Return the half-widths of the intervals of these slots, in standard errors.

        They exceed the normal quantile if the method widens intervals for few experts.
        """
        out = np.full(len(slots), self._normal_half_width())
        if self.stderr is not None and self.upper is not None:
            error = self.stderr[slots]
            np.divide(self.upper[slots] - self.score[slots], error, out=out, where=error > 0)
        return out

    def _normal_half_width(self) -> float:
        from statistics import NormalDist

        return NormalDist().inv_cdf(0.5 + (0.95 if self.level is None else self.level) / 2)

    def scaled(self, scale: str = "elo", *, anchor: Any = None, anchor_at: float | None = None) -> Self:
        """Return the board on another scale, with scores, errors and intervals relative to an anchor.

        On the Elo scale a difference of 400 points means odds of 10 to 1: it is the log odds times 400 / ln 10. Ranks,
        ranges of ranks, tiers and probabilities stay as they are. The anchor keeps its score when items join.

        Parameters
        ----------
        scale : {"elo", "log-odds"}
            The scale of the scores.
        anchor : item, sequence of items, or Consensus
            What is put at `anchor_at`: an item, the mean of several items, or the mean of the items of an earlier
            board. With an earlier board on the same scale, that mean does not change. There is no default, because the
            mean of all items moves when items join.
        anchor_at : float, optional
            The score of the anchor; by default 1000 on the Elo scale and 0 for log odds.

        Notes
        -----
        The interval of a score is that of its difference from the anchor; an anchor has an error of 0. Scores are taken
        as independent if their covariance is not known, as after reading from a file.

        Examples
        --------
        >>> import concordant as cc
        >>> votes = cc.Comparisons("arena", None, ["a", "a", "b"], ["b", "c", "c"], [70, 80, 60], [20, 10, 30])
        >>> board = cc.BradleyTerry().fit_predict(votes).scaled("elo", anchor="b")
        >>> board.score.round().tolist(), board.stderr.round().tolist(), board.gauge
        ([1224.0, 1000.0, 875.0], [37.0, 0.0, 34.0], "item 'b' is at 1000")
        """
        from concordant.data.score_scale import SCALES, find_origins, rescaled

        own = self._before_scaling
        origins, gauge = find_origins(self, scale, anchor, anchor_at)
        changed = rescaled(own, SCALES[scale][0] / SCALES[str(own.scale)][0], origins)
        columns = {n: self.__dict__[n] for n in OPTIONAL_COLUMNS} | changed
        out = self.from_codes(
            self.slots,
            columns.pop("score"),
            self.rank,
            self.order(),
            level=self.level,
            gauge=gauge,
            interval_method=self.interval_method,
            scale=scale,
            **columns,
        )
        out.__dict__["_unscaled"] = own
        return out

    @property
    def _before_scaling(self) -> Self:
        """The board before `scaled`: differences are computed on it, so that they are the same on every scale."""
        own: Self = self.__dict__.get("_unscaled", self)
        return own

    def with_tiers(self, level: float | None = None, *, strict: bool = False) -> Self:
        """Return the board with the column `tier`, 1 = best: groups of items that the data do not separate.

        A tier ends where every item below is significantly worse than the first item of the tier: with probability
        `level` (by default that of the intervals) the first item of every tier is truly better than all items of later
        tiers. Items at the border of two tiers may still be in the wrong order. With `strict` a tier ends only where
        every item above is significantly better than every item below: then, with probability `level`, no item is truly
        better than an item of a better tier. Strict tiers are fewer and larger.

        An item without a standard error, or with one above the standard deviation of the scores, has no tier (NaN).

        Examples
        --------
        >>> c = Consensus(["q"] * 4, list("abcd"), [3.0, 2.4, 1.8, 0.0], stderr=[0.2, 0.2, 0.2, 0.2])
        >>> c.with_tiers().tier.tolist(), c.with_tiers(strict=True).tier.tolist()
        ([1.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 2.0])
        """
        from concordant.data.score_scale import covariance_of
        from concordant.data.tiers import find_tiers

        level = (0.95 if self.level is None else self.level) if level is None else level
        if not isinstance(level, (int, float)) or not 0 < level < 1:
            raise ParameterError.invalid("level", "with_tiers", "a number between 0 and 1", level)
        if not isinstance(strict, bool):
            raise ParameterError.invalid("strict", "with_tiers", "True or False", strict)
        own_scale = self._before_scaling
        own_scale._require_stderr()
        tier = np.full(self.n_slots, np.nan)
        for n, (first, end) in enumerate(pairwise(self.slots.offsets.tolist())):
            own = np.arange(first, end)
            widening = own_scale.half_widths(own) / self._normal_half_width()
            order, table = self.order()[first:end] - first, covariance_of(own_scale, n)
            tier[own] = find_tiers(order, own_scale.score[own], table, widening, float(level), strict=strict)
        out = self._pick(self.slots, np.arange(self.n_slots))
        out.__dict__["tier"] = readonly(tier)
        return out

    def probability_better(self, a: Any, b: Any, instance: Any = None) -> float:
        """Return the posterior probability that item `a` is truly better than item `b`, from the standard errors.

        With more votes it approaches 0 or 1. It is not the share of games that `a` wins against `b`: that is
        `outcome_probabilities(a, b)` of the model.

        The formula is Phi((s_a - s_b) / e). The standard error e of the difference comes from the covariance of the
        scores if the method gives it, else it is sqrt(e_a^2 + e_b^2); it is larger if few experts widen the intervals.
        A consensus without standard errors raises DataError.

        Examples
        --------
        >>> c = Consensus(["q", "q"], ["a", "b"], [1.0, 0.0], stderr=[0.6, 0.8])
        >>> round(c.probability_better("a", "b"), 4)
        0.8413
        """
        gap, spread, half_width = self._before_scaling._difference(a, b, instance)
        if spread == 0:
            return 0.5 if gap == 0 else float(gap > 0)
        return 0.5 * (1.0 + math.erf(gap / (spread * half_width / self._normal_half_width()) / math.sqrt(2.0)))

    def probabilities_better(self, instance: Any = None) -> Floats:
        """Return `probability_better` for all pairs of an instance: row i, column j for item i against item j.

        Items are in the order of `items`. The diagonal is 0.5; pairs with an item without a standard error are NaN.

        Examples
        --------
        >>> c = Consensus(["q", "q"], ["a", "b"], [1.0, 0.0], stderr=[0.6, 0.8])
        >>> c.probabilities_better().round(4).tolist()
        [[0.5, 0.8413], [0.1587, 0.5]]
        """
        from scipy.special import ndtr

        if self._before_scaling is not self:
            return self._before_scaling.probabilities_better(instance)
        stderr = self._require_stderr()
        n = self._instance(instance)
        own = slice(int(self.slots.offsets[n]), int(self.slots.offsets[n + 1]))
        covariance = None if self.covariance is None else self.covariance[n]
        widening = self.half_widths(np.arange(own.start, own.stop)) / self._normal_half_width()
        variance = stderr[own] ** 2
        spread = variance[:, None] + variance[None, :] - (0.0 if covariance is None else 2 * covariance)
        spread = (
            spread * joint_half_width(variance[:, None], variance[None, :], widening[:, None], widening[None, :]) ** 2
        )
        gap = self.score[own][:, None] - self.score[own][None, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            out = np.asarray(ndtr(gap / np.sqrt(np.maximum(spread, 0.0))), dtype=np.float64)
        out[(gap == 0) & ~np.isnan(spread)] = 0.5
        np.fill_diagonal(out, 0.5)
        return out

    def probabilities_best(self, k: int = 1, instance: Any = None) -> Floats:
        """Return the posterior probability of every item of an instance to be truly among the best k.

        It is the share of 40,000 draws from the normal distribution of the scores in which the item is among the best
        k. Its standard error is at most 0.0025, and the draws are always the same. The distribution uses the covariance
        of the scores if the method gives it, and is wider if few experts widen the intervals. Items are in the order of
        `items`; those without a standard error take no part and get NaN. For the probability to be first in a new list,
        see `first_place_probabilities` of the model.

        Examples
        --------
        >>> c = Consensus(["q"] * 3, ["a", "b", "c"], [1.0, 0.5, -1.0], stderr=[0.5, 0.5, 0.5])
        >>> c.probabilities_best().round(2).tolist(), c.probabilities_best(2).round(2).tolist()
        ([0.76, 0.24, 0.0], [1.0, 0.98, 0.02])
        """
        _check_count(k, "k", "probabilities_best")
        if self._before_scaling is not self:
            return self._before_scaling.probabilities_best(k, instance)
        stderr = self._require_stderr()
        n = self._instance(instance)
        own = np.arange(int(self.slots.offsets[n]), int(self.slots.offsets[n + 1]))
        covariance = None if self.covariance is None else self.covariance[n]
        variance = stderr[own] ** 2 if covariance is None else np.diagonal(covariance)
        with_stderr = np.flatnonzero(~np.isnan(variance))
        out = np.full(len(own), np.nan)
        out[with_stderr] = 0.0
        m = len(with_stderr)
        if m <= k:
            out[with_stderr] = 1.0
            return out
        widening = self.half_widths(own[with_stderr]) / self._normal_half_width()
        root: Floats = np.sqrt(variance[with_stderr])[:, None]
        if covariance is not None:
            # The covariance of scores with a fixed mean is singular and has no Cholesky factor.
            values, vectors = np.linalg.eigh(covariance[np.ix_(with_stderr, with_stderr)])
            root = vectors * np.sqrt(np.maximum(values, 0.0))
        root = widening[:, None] * root
        random, remaining = np.random.default_rng(0), _DRAWS
        while remaining:
            size = min(remaining, max(2, (1 << 22) // m // 2 * 2))
            half = random.standard_normal((size // 2, m))
            error = half * root[:, 0] if covariance is None else half @ root.T
            drawn = self.score[own[with_stderr]] + np.concatenate([error, -error])
            best = np.argpartition(-drawn, k - 1, axis=1)[:, :k]
            out[with_stderr] += np.bincount(best.ravel(), minlength=m)
            remaining -= size
        out[with_stderr] /= _DRAWS
        return out

    def _require_stderr(self) -> Floats:
        if self.stderr is None:
            raise DataError(
                "this consensus has no standard errors, which probabilities, tiers and intervals of differences need. "
                "Use a method that gives intervals."
            )
        return self.stderr

    def _difference(self, a: Any, b: Any, instance: Any) -> tuple[float, float, float]:
        """Return the difference of two scores, its standard error, and the half-width of its interval in them."""
        stderr = self._require_stderr()
        slot_a, slot_b = self._slot(a, instance), self._slot(b, instance)
        own = self.half_widths(np.array([slot_a, slot_b]))
        half_width = joint_half_width(stderr[slot_a] ** 2, stderr[slot_b] ** 2, *own)
        variance = float(stderr[slot_a] ** 2 + stderr[slot_b] ** 2)
        n = int(self.slots.instance[slot_a])
        table = None if self.covariance is None else self.covariance[n]
        if table is not None:
            first = int(self.slots.offsets[n])
            variance -= 2 * float(table[slot_a - first, slot_b - first])
        return float(self.score[slot_a] - self.score[slot_b]), math.sqrt(max(variance, 0.0)), float(half_width)

    def _instance(self, instance: Any) -> int:
        """Return the code of an instance, or raise if there is none; None means the single instance."""
        if instance is None and len(self) != 1:
            raise DataError(f"there are {len(self)} instances; name the one the items belong to.")
        n = 0 if instance is None else self.instances.codes.get(str(instance), -1)
        if n < 0:
            raise DataError(f"no instance {quote(instance)} in this consensus.")
        return n

    def _slot(self, item: Any, instance: Any) -> int:
        """Return the slot of an item, or raise if there is none."""
        n = self._instance(instance)
        first, end = int(self.slots.offsets[n]), int(self.slots.offsets[n + 1])
        items = self.items[first:end].tolist()
        if str(item) not in items:
            raise DataError(f"no item {quote(item)} in instance {quote(self.instances[n])}.")
        return first + items.index(str(item))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Consensus):
            return NotImplemented
        columns = ("score", "rank", *OPTIONAL_COLUMNS)
        return all(same(getattr(self, c), getattr(other, c)) for c in columns) and self.slots == other.slots

    def __repr__(self) -> str:
        parts = [counted(self.n_instances, "instance"), counted(self.n_slots, "item")]
        if self.lower is not None:
            parts.append(f"{self.level:.0%} intervals" if self.level is not None else "intervals")
        if self.scale == "elo":
            parts.append(f"Elo scale: {self.gauge}" if self.gauge else "Elo scale")
        lines = [", ".join(parts)]
        if len(self) and self.n_slots:
            lines.append(f"{self.instances[0]}: {self._weak_order(self.instances[0], 4)}")
        return describe("Consensus", lines)

    def _repr_html_(self) -> str:
        intervals = ["lower", "upper"] if self.lower is not None and self.upper is not None else []
        numbers = ["score", *intervals]
        rows = [
            (
                self.instances[int(self.slots.instance[slot])],
                int(self.rank[slot]),
                self.items[slot],
                *(f"{self.__dict__[name][slot]:{'.0f' if self.scale == 'elo' else '.6g'}}" for name in numbers),
            )
            for slot in self.order()[:_SHOWN].tolist()
        ]
        head = ["instance", "rank", "item", *numbers]
        return html_table(head, rows, self.n_slots - len(rows), repr(self).partition("\n")[0])

    def to_frame(self) -> pl.DataFrame:
        """Return a Polars frame, best first: instance, item, score, rank, and the optional columns that the board has.

        A board on the Elo scale has two more columns, `scale` and `gauge`.
        """
        order = self.order()
        columns: dict[str, Any] = {
            "instance": (self.instances, self.slots.instance),
            "item": (self.items, order),
            "score": self.score[order],
            "rank": self.rank[order],
        }
        columns |= {n: self.__dict__[n][order] for n in OPTIONAL_COLUMNS if self.__dict__[n] is not None}
        if self.scale == "elo":
            alike = np.zeros(self.n_slots, dtype=np.int32)
            columns |= {n: (Texts([v]), alike) for n in TEXT_COLUMNS if (v := self.__dict__[n]) is not None}
        return frame_of(columns)

    @staticmethod
    def concat(parts: Sequence[Consensus]) -> Consensus:
        """Return the consensus over several disjoint sets of instances as one."""
        slots, _ = Slots.concat([p.slots for p in parts])
        if len(slots) < sum(len(p) for p in parts):
            raise DataError("cannot join consensus: an instance appears in two parts.")
        columns = {
            n: np.concatenate([p.__dict__[n] for p in parts]) if all(p.__dict__[n] is not None for p in parts) else None
            for n in OPTIONAL_COLUMNS
        }
        first = parts[0]
        if len({p.scale for p in parts}) > 1:
            raise DataError("cannot join consensus: the scores of the parts are on different scales.")
        return Consensus.from_codes(
            slots,
            np.concatenate([p.score for p in parts]),
            np.concatenate([p.rank for p in parts]),
            level=first.level,
            gauge=first.gauge,
            interval_method=first.interval_method,
            scale=first.scale,
            covariance=tuple(c for p in parts for c in p.covariance or (None,) * len(p))
            if any(p.covariance is not None for p in parts)
            else None,
            **columns,
        )
