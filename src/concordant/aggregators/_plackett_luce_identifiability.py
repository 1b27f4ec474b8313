"""Identifiability of Plackett-Luce: whether a finite estimate exists, and which items the lists do not place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from concordant.aggregators._mle_existence import disconnected_instances, explain_disconnected, items_in_words
from concordant.aggregators._plackett_luce_rankings import RankingData
from concordant.data.preferences import Preferences
from concordant.errors import NoFiniteEstimateError, listing
from concordant.execution.blocks import Blocks
from concordant.inference.uncertainty import some_items

if TYPE_CHECKING:
    from concordant.aggregators._plackett_luce_fit import PenalisedLikelihood

__all__ = ["Identifiability", "check_existence", "unbounded_ties"]


class Identifiability(NamedTuple):
    """Counts of instances with groups of items that no list connects, and without any comparison."""

    n_disconnected: int
    # The groups of the first such instance, in words.
    why: str
    n_uncompared: int
    # The items of the first such instance, in words.
    uncompared: str

    @classmethod
    def of(cls, data: RankingData) -> Identifiability:
        """Return the counts for some rankings."""
        slots = data.slots
        one, other = data.links()
        parted = disconnected_instances(one, other, slots)
        uncompared = np.flatnonzero((data.counts == 0) & (slots.sizes > 0))
        return cls(
            len(parted),
            explain_disconnected(one, other, slots, int(parted[0])) if len(parted) else "",
            len(uncompared),
            some_items(slots, uncompared[:1]) if len(uncompared) else "",
        )


def check_existence(data: RankingData, models: Sequence[PenalisedLikelihood]) -> None:
    """Raise NoFiniteEstimateError, naming the items, where scores have no finite maximum."""
    from concordant.kernels.plackett_luce_lists import separation

    infinite = []
    for n, model in enumerate(models):
        silent = data.n_items(n) > 1 and model.size < data.n_items(n)
        if silent or separation(model.rankings, model.size) is not None:
            infinite.append(n)
    if not infinite:
        return
    n = infinite[0]
    items = data.slots.items[int(data.slots.offsets[n]) : int(data.slots.offsets[n + 1])]
    places = data.places(n)
    separated = separation(models[n].rankings, models[n].size)
    reasons = []
    if len(places) < len(items):
        reasons.append(
            _item_sentence(items[np.setdiff1d(np.arange(len(items)), places)].tolist(), "ranked against no other")
        )
    if separated is not None and separated.disconnected:
        groups = ", ".join(listing(items[places[g]].tolist(), 5) for g in separated.disconnected[:5])
        reasons.append(
            f"no list ranks items of one of {len(separated.disconnected)} groups against those of another: {groups}"
        )
    if separated is not None:
        alone = "" if data.rankings.averaged else " other than tied"
        for groups_, fate in (
            (separated.above, "never ranked below another"),
            (separated.below, f"never ranked above another{alone}"),
        ):
            single = [int(places[g[0]]) for g in groups_ if len(g) == 1]
            if single:
                reasons.append(_item_sentence(items[np.array(single)].tolist(), fate))
            reasons += [
                _item_sentence(items[places[g]].tolist(), f"{fate} outside them") for g in groups_ if len(g) > 1
            ]
    more = f" (and in {len(infinite) - 1} more instances)" if len(infinite) > 1 else ""
    raise NoFiniteEstimateError(
        f"no finite Plackett-Luce estimate: {'; '.join(reasons[:5])} in instance {data.slots.instances[n]!r}{more}. "
        "Set prior=0.1, or leave them out."
    )


def _item_sentence(items: list[str], fate: str) -> str:
    return f"item {items[0]!r} is {fate}" if len(items) == 1 else f"items {listing(items)} are {fate}"


def unbounded_ties(votes: Preferences | Blocks) -> NoFiniteEstimateError:
    """Return the error for scores and tie parameters that grow together without bound."""
    among = f"the items of {len(votes.instances):,} instances"
    if isinstance(votes, Preferences):
        among = items_in_words(votes.slots)
    return NoFiniteEstimateError(
        f"no finite Davidson-Luce estimate: the scores of {among} and the tie parameters grow together without bound. "
        "Set prior=0.1, or ties='average'."
    )
