"""Conversion of scores between log odds and the Elo scale, with an origin that stays fixed when items join.

On the Elo scale odds of x to 1 are a difference of 400 · log10(x) points: a model 400 points above another wins ten
times as often as it loses. The origin is a convention: an anchor model, the mean of named models, or an earlier board.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.data.index import MOST_WITH_ALL_PAIRS
from concordant.errors import DataError, DataWarning, ParameterError, listing, quote, warn

if TYPE_CHECKING:
    from concordant.data.consensus import Consensus

__all__ = ["ELO_PER_LOGIT", "SCALES", "Origin", "covariance_of", "find_origins", "rescaled"]

# Points of the Elo scale for one unit of log odds.
ELO_PER_LOGIT = 400.0 / math.log(10.0)
# The scales: points per unit of log odds, and the default score of the anchor.
SCALES = {"log-odds": (1.0, 0.0), "elo": (ELO_PER_LOGIT, 1000.0)}


class Origin(NamedTuple):
    """The origin of the scores of one instance: the mean score of the items at `slots` is `value`."""

    slots: Ints
    value: float


def find_origins(board: Consensus, scale: str, anchor: Any, anchor_at: float | None) -> tuple[list[Origin], str]:
    """Return the origin of every instance of a board, and its description."""
    from concordant.data.consensus import Consensus

    if scale not in SCALES:
        raise ParameterError.invalid("scale", "scaled", "'elo' or 'log-odds'", scale)
    if anchor_at is not None and not (isinstance(anchor_at, (int, float)) and math.isfinite(anchor_at)):
        raise ParameterError.invalid("anchor_at", "scaled", "a finite number", anchor_at)
    if board.scale not in SCALES:
        raise DataError(
            "these scores are not known to be log odds and cannot be converted. Bradley-Terry and Plackett-Luce give "
            "log odds; a board read from a file has a scale only if it was written on the Elo scale."
        )
    if anchor is None:
        raise ParameterError(
            "a scale needs an origin. Pass anchor=: an item, several items (their mean is fixed), or an earlier board. "
            "The mean of all items cannot be one, because it moves when items join."
        )
    anchor_score = SCALES[scale][1] if anchor_at is None else float(anchor_at)
    if isinstance(anchor, Consensus):
        return _from_board(board, scale, anchor, anchor_score, at_is_given=anchor_at is not None)
    names = [str(anchor)] if isinstance(anchor, (str, int)) else [str(name) for name in anchor]
    if not names or len(set(names)) < len(names):
        raise ParameterError.invalid("anchor", "scaled", "an item, different items, or an earlier board", anchor)
    origins = [Origin(_slots_of(board, n, names), anchor_score) for n in range(len(board))]
    items_text = quote(names[0]) if len(names) == 1 else f"the mean of items {listing(names, 20)}"
    return origins, f"{'item ' if len(names) == 1 else ''}{items_text} is at {anchor_score:g}"


def _from_board(
    board: Consensus, scale: str, earlier: Consensus, anchor_score: float, *, at_is_given: bool
) -> tuple[list[Origin], str]:
    """Return the origins at which the items of an earlier board keep their mean score."""
    kept = earlier.scale == scale
    if kept and at_is_given:
        raise ParameterError(
            "anchor_at= does not go with an earlier board on the same scale, which fixes the scores. Leave it out."
        )
    origins, n_items = [], 0
    for n, name in enumerate(board.instances.tolist()):
        m = 0 if len(earlier) == 1 else earlier.instances.codes.get(name, -1)
        if m < 0:
            raise DataError(f"the earlier board has no instance {quote(name)} to take the origin from.")
        first, end = int(earlier.slots.offsets[m]), int(earlier.slots.offsets[m + 1])
        before = dict(zip(earlier.items[first:end].tolist(), earlier.score[first:end].tolist(), strict=True))
        own = board.items[int(board.slots.offsets[n]) : int(board.slots.offsets[n + 1])].tolist()
        common = [item for item in own if item in before]
        if not common:
            raise DataError(f"no item of instance {quote(name)} is in the earlier board, which has {listing(before)}.")
        if len(common) < len(before):
            missing = [item for item in before if item not in set(common)]
            warn(
                f"{len(missing)} of {len(before)} items of the earlier board are missing ({listing(missing, 5)}): the "
                "origin is the mean of the others.",
                DataWarning,
            )
        value = float(np.mean([before[item] for item in common])) if kept else anchor_score
        origins.append(Origin(_slots_of(board, n, common), value))
        n_items = max(n_items, len(common))
    where = "where it was" if kept else f"at {anchor_score:g}"
    return origins, f"the mean of the {n_items:,} items of an earlier board is {where}"


def _slots_of(board: Consensus, n: int, names: Sequence[str]) -> Ints:
    """Return the slots of items of one instance; raise for unknown items and those without comparisons."""
    first, end = int(board.slots.offsets[n]), int(board.slots.offsets[n + 1])
    slot_of = {item: first + k for k, item in enumerate(board.items[first:end].tolist())}
    unknown_items = [name for name in names if name not in slot_of]
    if unknown_items:
        raise DataError(
            f"there is no item {listing(unknown_items, 5)} to anchor in instance {quote(board.instances[n])}. It has: "
            f"{listing(list(slot_of), 20)}."
        )
    slots = np.array([slot_of[name] for name in names], dtype=np.int64)
    if board.stderr is not None and np.isfinite(board.stderr[first:end]).any():
        unknown = np.flatnonzero(np.isnan(board.stderr[slots]))
        if len(unknown):
            raise DataError(f"item {quote(names[int(unknown[0])])} was never compared and cannot be an anchor.")
    return slots


def rescaled(board: Consensus, factor: float, origins: Sequence[Origin]) -> dict[str, Any]:
    """Return the columns of a board on another scale: scores times `factor`, relative to the origins.

    The interval of a score is that of its difference from the mean of the origin's items.
    """
    from concordant.data.consensus import joint_half_width

    score = board.score * factor
    stderr, lower, upper = (None if c is None else c * factor for c in (board.stderr, board.lower, board.upper))
    tables: list[Floats | None] = []
    for n, origin in enumerate(origins):
        own = slice(int(board.slots.offsets[n]), int(board.slots.offsets[n + 1]))
        shift = origin.value - float(score[origin.slots].mean())
        score[own] += shift
        for bound in (lower, upper):
            if bound is not None:
                bound[own] += shift
        if board.stderr is None or stderr is None or not np.isfinite(board.stderr[own]).any():
            tables.append(None)
            continue
        table = covariance_of(board, n) * factor**2
        chosen = origin.slots - own.start
        with_origin = table[:, chosen].mean(axis=1)
        of_origin = float(with_origin[chosen].mean())
        before = np.diagonal(table).copy()
        table = table - with_origin[None, :] - with_origin[:, None] + of_origin
        # The variance of an anchor is 0 up to rounding errors.
        variance = np.diagonal(table).copy()
        is_zero = variance <= 1e-12 * (before + of_origin)
        variance[is_zero] = 0.0
        table[is_zero], table[:, is_zero] = 0.0, 0.0
        tables.append(table)
        if lower is not None and upper is not None:
            half_widths = board.half_widths(np.arange(own.start, own.stop))
            parts = before[chosen]
            of_chosen = (
                float(np.sqrt(np.average(half_widths[chosen] ** 2, weights=parts)))
                if parts.any()
                else half_widths[chosen[0]]
            )
            margin = joint_half_width(before, of_origin, half_widths, of_chosen) * np.sqrt(variance)
            lower[own], upper[own] = score[own] - margin, score[own] + margin
        stderr[own] = np.sqrt(variance)
    known = any(t is not None for t in tables)
    covariance = tuple(tables) if known else None
    return {"score": score, "stderr": stderr, "lower": lower, "upper": upper, "covariance": covariance}


def covariance_of(board: Consensus, n: int) -> Floats:
    """Return the covariance of the scores of an instance; if it is not known, scores count as independent."""
    table = None if board.covariance is None else board.covariance[n]
    own = slice(int(board.slots.offsets[n]), int(board.slots.offsets[n + 1]))
    if table is not None:
        return table
    if own.stop - own.start > MOST_WITH_ALL_PAIRS:
        raise DataError(
            f"the covariance of the {own.stop - own.start:,} scores of instance {quote(board.instances[n])} is not "
            f"known, and with more than {MOST_WITH_ALL_PAIRS:,} items they are not taken as independent. Use the "
            "consensus that the method returned; files do not keep the covariance."
        )
    error = board.stderr[own] if board.stderr is not None else np.zeros(own.stop - own.start)
    table = np.diag(error**2)
    unknown = np.isnan(error)
    table[unknown], table[:, unknown] = np.nan, np.nan
    return np.asarray(table, dtype=np.float64)
