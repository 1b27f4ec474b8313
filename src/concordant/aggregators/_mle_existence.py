"""Whether the votes alone place every item, and in the user's own words which ones they do not.

A likelihood of strengths has a finite maximum when there is a way along the arrows "won at least once against" from
every item of an instance to every other one. What stands outside is named: who never lost, who never won, who was
never compared, which groups never met.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Ints
from concordant.data.index import Slots
from concordant.errors import listing

__all__ = ["loose_instances", "main_groups", "parted_instances", "why_loose", "why_parted"]


def loose_instances(tail: NDArray[Any], head: NDArray[Any], slots: Slots) -> Ints:
    """Return the instances in which the arrows (slots of winners to slots of losers) do not place every item."""
    from concordant.kernels.graph import strong_components

    label = strong_components(tail, head, slots.n_slots)
    _, first = np.unique(label, return_index=True)
    return np.flatnonzero(np.bincount(slots.instance[first], minlength=len(slots)) > 1)


def why_loose(tail: NDArray[Any], head: NDArray[Any], slots: Slots, instance: int) -> str:
    """Return in words which items of a loose instance the votes do not place.

    >>> slots = Slots.of({"q": ["a", "b", "c"]})
    >>> why_loose(np.array([0, 1]), np.array([1, 2]), slots, 0)
    "item 'a' never lost, item 'c' never won in instance 'q'"
    """
    from concordant.kernels.graph import strong_components, weak_components

    first, last = int(slots.offsets[instance]), int(slots.offsets[instance + 1])
    own = (tail >= first) & (tail < last)
    tail, head, m = tail[own] - first, head[own] - first, last - first
    items = slots.items[first:last]
    won, lost = np.bincount(tail, minlength=m) > 0, np.bincount(head, minlength=m) > 0
    parts = [
        _said(items[chosen].tolist(), fate)
        for chosen, fate in (
            (won & ~lost, "never lost"),
            (lost & ~won, "never won"),
            (~won & ~lost, "never met another"),
        )
        if chosen.any()
    ]
    if not parts:
        weak = weak_components(tail, head, m)
        label = weak if weak.max() else strong_components(tail, head, m)
        # No arrow leads to a strong component of a larger number, so that nobody ever beat the last one.
        top, rest = items[label == label.max()].tolist(), items[label != label.max()].tolist()
        never = "never met any of" if weak.max() else "never lost to any of"
        parts = [f"items {listing(top)} {never} {listing(rest)}"]
    return f"{', '.join(parts)} in instance {slots.instances[instance]!r}"


def parted_instances(one: NDArray[Any], other: NDArray[Any], slots: Slots) -> Ints:
    """Return the instances in which the items that met somebody (slot `one` met slot `other`) fall into groups."""
    from concordant.kernels.graph import weak_components

    label = weak_components(one, other, slots.n_slots)
    met = np.unique(np.concatenate([one, other]))
    _, first = np.unique(label[met], return_index=True)
    return np.flatnonzero(np.bincount(slots.instance[met[first]], minlength=len(slots)) > 1)


def main_groups(one: NDArray[Any], other: NDArray[Any], slots: Slots) -> NDArray[np.bool_]:
    """Return which slots belong to the largest group of items of their instance that met each other, or met nobody.

    Of equally large groups it is the first.

    >>> slots = Slots.of({"q": ["a", "b", "c", "d", "e"], "r": ["a", "b"]})
    >>> main_groups(np.array([0, 2, 5]), np.array([1, 3, 6]), slots).tolist()
    [True, True, False, False, True, True, True]
    """
    from concordant.kernels.graph import weak_components

    out = np.ones(slots.n_slots, dtype=np.bool_)
    label = weak_components(one, other, slots.n_slots)
    met = np.unique(np.concatenate([one, other]))
    for n in parted_instances(one, other, slots).tolist():
        own = met[(met >= slots.offsets[n]) & (met < slots.offsets[n + 1])]
        groups, first, count = np.unique(label[own], return_index=True, return_counts=True)
        largest = groups[np.lexsort((first, -count))[0]]
        out[own] = label[own] == largest
    return out


def why_parted(one: NDArray[Any], other: NDArray[Any], slots: Slots, instance: int) -> str:
    """Return in words which groups of items of an instance never met; items that met nobody are in none.

    >>> slots = Slots.of({"q": ["a", "b", "c", "d", "e"]})
    >>> why_parted(np.array([0, 2]), np.array([1, 3]), slots, 0)
    "items ['c', 'd'] never met any of ['a', 'b'] in instance 'q'"
    """
    from concordant.kernels.graph import weak_components

    first, last = int(slots.offsets[instance]), int(slots.offsets[instance + 1])
    own = (one >= first) & (one < last)
    one, other = one[own] - first, other[own] - first
    met = np.unique(np.concatenate([one, other]))
    label = weak_components(one, other, last - first)[met]
    items = slots.items[first:last]
    group, rest = items[met[label == label[-1]]].tolist(), items[met[label != label[-1]]].tolist()
    return f"items {listing(group)} never met any of {listing(rest)} in instance {slots.instances[instance]!r}"


def _said(items: list[str], fate: str) -> str:
    return f"item {items[0]!r} {fate}" if len(items) == 1 else f"items {listing(items)} {fate}"
