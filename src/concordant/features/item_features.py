"""Features of items beside preferences: one row for every item that experts name, matched by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from concordant.arrays import Ints
from concordant.data.comparisons import Comparisons
from concordant.data.features import Features, check_all_found
from concordant.data.index import Texts
from concordant.data.preferences import Preferences
from concordant.errors import DataError, DataWarning, warn

__all__ = ["item_features"]


def item_features(
    votes: Preferences | Comparisons, parts: Mapping[str, Features], names: Sequence[str] | None = None
) -> Features:
    """Return the features of every item of the votes, from the first part that holds the item.

    Items are matched by id. A part without item names (a .npy table, lines without a docid) is matched by the order of
    its rows within each instance, with a warning; the numbers of rows and items must agree.

    Parameters
    ----------
    votes : Preferences or Comparisons
        The container of the items; an item without features is an error.
    parts : mapping from str to Features
        The features, by the names that messages use for them, such as file names.
    names : sequence of str, optional
        The names of the features to take; by default those of the part with the most features.

    Examples
    --------
    >>> votes = Preferences(["q", "q"], ["x", "x"], ["a", "b"], [1, 2])
    >>> one, two = Features(["q"], ["b"], [[2.0]]), Features(["q"], ["a"], [[1.0]])
    >>> item_features(votes, {"one": one, "two": two}).X.tolist()
    [[1.0], [2.0]]
    """
    if names is None:
        names = max(parts.values(), key=lambda part: part.n_features).names.tolist()
    X = np.zeros((votes.n_slots, len(names)))
    rows = np.full(votes.n_slots, -1, dtype=np.int64)
    for part_name, part in parts.items():
        own = part.select(names)
        at = votes.slots.locate(own.slots)
        if (at < 0).all() and _is_numbered(own):
            at = _rows_in_order(part_name, own, votes)
            if (at >= 0).any():
                warn(
                    f"{part_name} names no items: its rows are taken for the items of each instance in their order.",
                    DataWarning,
                )
        found = (rows < 0) & (at >= 0)
        X[found] = own.X[at[found]]
        rows[found] = at[found]
    check_all_found(rows, votes, " and ".join(parts))
    return Features.from_codes(votes.slots, X, Texts(list(names)))


def _is_numbered(features: Features) -> bool:
    """Return whether the item ids are only numbers "1", "2", ... within each instance."""
    offsets = features.slots.offsets
    place = np.arange(1, features.n_slots + 1) - np.repeat(offsets[:-1], np.diff(offsets))
    return features.items.tolist() == [str(p) for p in place.tolist()]


def _rows_in_order(part_name: str, features: Features, votes: Preferences | Comparisons) -> Ints:
    """Return the row of every slot of the votes by its order within the instance, -1 for an absent instance."""
    at = np.full(votes.n_slots, -1, dtype=np.int64)
    codes = features.instances.codes
    for n, instance in enumerate(votes.instances):
        if instance not in codes:
            continue
        a, b = (int(v) for v in votes.slots.offsets[n : n + 2])
        first, last = (int(v) for v in features.slots.offsets[codes[instance] : codes[instance] + 2])
        if b - a != last - first:
            raise DataError(
                f"{part_name} names no items, so its rows can only be matched by their order; but instance "
                f"{instance!r} has {b - a} items and {last - first} rows of features."
            )
        at[a:b] = np.arange(first, last)
    return at
