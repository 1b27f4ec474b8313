"""Existence of the maximum-likelihood estimate, and messages that name the items without one.

A likelihood of item strengths has a finite maximum if and only if the graph with an edge from each winner to each loser
is strongly connected (Ford 1957). The messages name items that never lost, never won or were never compared, and groups
of items that never met.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Ints
from concordant.data.index import Slots
from concordant.errors import listing

__all__ = [
    "disconnected_instances",
    "explain_disconnected",
    "explain_no_mle",
    "instances_without_mle",
    "items_in_words",
    "others_alike",
]


def instances_without_mle(tail: NDArray[Any], head: NDArray[Any], slots: Slots) -> Ints:
    """Return the instances whose win graph, with edges from winners to losers, is not strongly connected."""
    from concordant.kernels.graph import strong_components

    label = strong_components(tail, head, slots.n_slots)
    _, first = np.unique(label, return_index=True)
    return np.flatnonzero(np.bincount(slots.instance[first], minlength=len(slots)) > 1)


def explain_no_mle(tail: NDArray[Any], head: NDArray[Any], slots: Slots, instance: int) -> str:
    """Return a message that names the items of an instance for which no finite estimate exists.

    >>> slots = Slots.of({"q": ["a", "b", "c"]})
    >>> explain_no_mle(np.array([0, 1]), np.array([1, 2]), slots, 0)
    "item 'a' never lost, item 'c' never won in instance 'q'"
    """
    from concordant.kernels.graph import strong_components, weak_components

    first, last = int(slots.offsets[instance]), int(slots.offsets[instance + 1])
    own = (tail >= first) & (tail < last)
    tail, head, m = tail[own] - first, head[own] - first, last - first
    items = slots.items[first:last]
    won, lost = np.bincount(tail, minlength=m) > 0, np.bincount(head, minlength=m) > 0
    parts = [
        _phrase(items[chosen].tolist(), what)
        for chosen, what in (
            (won & ~lost, "never lost"),
            (lost & ~won, "never won"),
            (~won & ~lost, "never met another"),
        )
        if chosen.any()
    ]
    if not parts:
        weak = weak_components(tail, head, m)
        label = weak if weak.max() else strong_components(tail, head, m)
        # No edge leads to a strong component of a larger number: nobody ever beat an item of the last one.
        top, rest = items[label == label.max()].tolist(), items[label != label.max()].tolist()
        never = "never met any of" if weak.max() else "never lost to any of"
        parts = [f"items {listing(top)} {never} {listing(rest)}"]
    return f"{', '.join(parts)} in instance {slots.instances[instance]!r}"


def items_in_words(slots: Slots) -> str:
    """Return the first items of all instances, for a message."""
    return f"items {listing(slots.items.tolist(), 5)}"


def others_alike(n: int) -> str:
    """Return the words that follow an explanation of the first of n instances, "" for one.

    >>> others_alike(1), others_alike(3)
    ('', ' (and 2 more instances are like that)')
    """
    return f" (and {n - 1} more instances are like that)" if n > 1 else ""


def disconnected_instances(one: NDArray[Any], other: NDArray[Any], slots: Slots) -> Ints:
    """Return the instances whose comparison graph (slot `one` met slot `other`) is disconnected.

    Items that met nobody do not count.
    """
    from concordant.kernels.graph import weak_components

    label = weak_components(one, other, slots.n_slots)
    met = np.unique(np.concatenate([one, other]))
    _, first = np.unique(label[met], return_index=True)
    return np.flatnonzero(np.bincount(slots.instance[met[first]], minlength=len(slots)) > 1)


def explain_disconnected(one: NDArray[Any], other: NDArray[Any], slots: Slots, instance: int) -> str:
    """Return a message that names two groups of items of an instance that never met.

    >>> slots = Slots.of({"q": ["a", "b", "c", "d", "e"]})
    >>> explain_disconnected(np.array([0, 2]), np.array([1, 3]), slots, 0)
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


def _phrase(items: list[str], what: str) -> str:
    return f"item {items[0]!r} {what}" if len(items) == 1 else f"items {listing(items)} {what}"
