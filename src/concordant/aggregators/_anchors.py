"""Anchors: the item whose score is 0, in Bradley-Terry and Plackett-Luce."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.base.params import Constraint, integer
from concordant.data.index import Slots
from concordant.errors import DataError, listing
from concordant.inference.uncertainty import ScoreCovariance

__all__ = ["ANCHOR", "anchor_slots", "gauge_of", "relative_to_anchor"]

ANCHOR = Constraint("an item's id, or None", lambda v: v is None or isinstance(v, str) or integer().test(v))


def anchor_slots(slots: Slots, anchor: str | None) -> Ints | None:
    """Return the anchor's slot in every instance, or raise where it is missing; None without an anchor."""
    if anchor is None:
        return None
    named = str(anchor)
    at = np.flatnonzero(np.array([item == named for item in slots.items.tolist()], dtype=np.bool_))
    out = np.full(len(slots), -1, dtype=np.int64)
    out[slots.instance[at]] = at
    lost = np.flatnonzero((out < 0) & (slots.sizes > 0))
    if len(lost):
        n = int(lost[0])
        items = slots.items[int(slots.offsets[n]) : int(slots.offsets[n + 1])].tolist()
        more = f" (nor in {len(lost) - 1} more)" if len(lost) > 1 else ""
        raise DataError(
            f"there is no item {named!r} to anchor in instance {slots.instances[n]!r}{more}. It has: {listing(items)}."
        )
    return out


def gauge_of(anchor: str | None) -> str:
    """Return what fixes the origin of the scores, in words."""
    return "the scores of an instance have mean 0" if anchor is None else f"item {str(anchor)!r} has the score 0"


def relative_to_anchor(
    slots: Slots, score: Floats, known: Sequence[ScoreCovariance | None], anchors: Ints | None
) -> tuple[Floats, list[ScoreCovariance | None]]:
    """Return the scores minus that of the anchor in each instance, and their covariances; without anchors as given."""
    if anchors is None:
        return score, list(known)
    full = slots.sizes > 0
    score = score - np.repeat(score[anchors[full]], slots.sizes[full])
    inside = anchors - slots.offsets[:-1]
    return score, [None if c is None else c.anchored(int(inside[n])) for n, c in enumerate(known)]
