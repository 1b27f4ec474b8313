"""One instance of a container: its best slots, the ranks its experts give, and values by item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from concordant.arrays import Codes, Floats, Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from concordant.data.consensus import Consensus
    from concordant.data.labels import Labels
    from concordant.data.preferences import Preferences

__all__ = ["best_slots", "rank_table", "values_by_item"]


def best_slots(consensus: Consensus, n: int, depth: int | None = None) -> Ints:
    """Return the slots of instance n, best first; at most `depth` of them."""
    first, last = int(consensus.slots.offsets[n]), int(consensus.slots.offsets[n + 1])
    return consensus.order()[first : last if depth is None else min(last, first + depth)]


def rank_table(preferences: Preferences, n: int, positions: Floats) -> tuple[Floats, Codes]:
    """Return the ranks in the lists of instance n and the experts of these lists.

    Parameters
    ----------
    preferences : Preferences
        The lists.
    n : int
        Code of the instance.
    positions : float[rows]
        What `preferences.positions` returns. It is passed in because it is computed for all instances at once.

    Returns
    -------
    ranks : float[items, lists]
        NaN where a list does not hold the item.
    experts : int[lists]
        Code of the expert of each list.
    """
    first, last = int(preferences.list_starts[n]), int(preferences.list_starts[n + 1])
    rows = slice(int(preferences.list_offsets[first]), int(preferences.list_offsets[last]))
    ranks = np.full((int(preferences.slots.sizes[n]), last - first), np.nan)
    item = preferences.slot[rows] - int(preferences.slots.offsets[n])
    ranks[item, preferences.row_list[rows] - first] = positions[rows]
    return ranks, preferences.list_expert[first:last]


def values_by_item(container: Consensus | Labels, instance: str, values: NDArray[Any]) -> dict[str, Any]:
    """Return item -> value of an instance; `values` has one entry for each slot of the container."""
    n = container.instances.codes[instance]
    first, last = int(container.slots.offsets[n]), int(container.slots.offsets[n + 1])
    return dict(zip(container.items[first:last].tolist(), values[first:last].tolist(), strict=True))
