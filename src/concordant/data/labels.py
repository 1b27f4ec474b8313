"""`Labels`: ground-truth labels of items (relevance, grades), matched to other containers by id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.data.container import Container, as_values, counted, describe, frame_of, same
from concordant.data.index import Slots, as_ids, code_slots, freeze
from concordant.errors import DataError, DuplicateError, quote

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Labels", "unique_slots"]


def unique_slots(instance: Iterable[Any], item: Iterable[Any], what: str) -> tuple[Slots, Ints]:
    """Return the slots in first-seen order, and the row of each; a pair that occurs twice is an error."""
    instance_ids, item_ids = as_ids(instance, "instance"), as_ids(item, "item")
    if len(instance_ids) != len(item_ids):
        raise DataError(f"the id columns differ in length: {len(instance_ids)} instances, {len(item_ids)} items.")
    slots, slot = code_slots(instance_ids, item_ids, None)
    if slots.n_slots < len(slot):
        seen: dict[int, int] = {}
        for row, s in enumerate(slot.tolist()):
            if s in seen:
                q, i = slots.where(s)
                raise DuplicateError.two(what, i, q, seen[s], row)
            seen[s] = row
    rows = np.empty(len(slot), dtype=np.int64)
    rows[slot] = np.arange(len(slot))
    return slots, rows


class Labels(Container):
    """Ground-truth labels of items, larger is better.

    Parameters
    ----------
    instance, item : sequences of ids
        One entry per labelled item.
    label : sequence of float
        The label.

    Examples
    --------
    >>> Labels(["q", "q"], ["a", "b"], [2, 0])
    Labels: 1 instance, 2 items, labels 0 to 2
    """

    label: Floats

    def __init__(self, instance: Iterable[Any], item: Iterable[Any], label: Any) -> None:
        slots, rows = unique_slots(instance, item, "labels")
        self._set(slots, as_values(label, "label", len(rows))[rows])

    @classmethod
    def from_codes(cls, slots: Slots, label: Floats) -> Self:
        """Return labels over ready-made slots; NaN marks an item without a label. Nothing is copied or checked."""
        out = cls.__new__(cls)
        out._set(slots, label)
        return out

    def _set(self, slots: Slots, label: Floats) -> None:
        self.__dict__.update(slots=slots, label=freeze(label))

    def align(self, container: Container) -> Labels:
        """Return labels with the instances and slots of `container`, NaN where an item has no label.

        Use it before you split preferences and labels by one index: both then have the same order of instances.

        Examples
        --------
        >>> from concordant.data.preferences import Preferences
        >>> p = Preferences(["q", "q"], ["x", "x"], ["b", "c"], [1, 2])
        >>> Labels(["q", "q"], ["a", "b"], [2, 1]).align(p).label.tolist()
        [1.0, nan]
        """
        found = container.slots.locate(self.slots)
        label = np.where(found >= 0, self.label[found], np.nan) if self.n_slots else np.full(len(found), np.nan)
        return Labels.from_codes(container.slots, label)

    def _take(self, index: Ints) -> Self:
        slots, old = self.slots.take(index)
        return self.from_codes(slots, self.label[old])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Labels):
            return NotImplemented
        return same(self.label, other.label) and self.slots == other.slots

    def __repr__(self) -> str:
        known = self.label[~np.isnan(self.label)]
        span = f"labels {known.min():g} to {known.max():g}" if len(known) else "no labels"
        unlabelled = len(self.label) - len(known)
        parts = [counted(self.n_instances, "instance"), counted(self.n_slots, "item"), span]
        if unlabelled and len(known):
            parts.append(f"{unlabelled:,} unlabelled")
        return describe("Labels", [", ".join(parts)])

    def to_frame(self) -> pl.DataFrame:
        """Return a Polars frame: instance, item, label (null where there is none)."""
        frame = frame_of(
            {"instance": (self.instances, self.slots.instance), "item": (self.items, None), "label": self.label}
        )
        return frame.with_columns(frame["label"].fill_nan(None))

    @staticmethod
    def concat(parts: Sequence[Labels]) -> Labels:
        """Return several label sets as one; an item labelled in two parts must have one label."""
        slots, moved = Slots.concat([p.slots for p in parts])
        label = np.full(slots.n_slots, np.nan)
        for part, new in zip(parts, moved, strict=True):
            clash = ~np.isnan(label[new]) & ~np.isnan(part.label) & (label[new] != part.label)
            if clash.any():
                q, i = part.slots.where(int(np.flatnonzero(clash)[0]))
                raise DataError(
                    f"cannot join labels: item {quote(i)} of instance {quote(q)} has different labels in two parts."
                )
            label[new] = np.where(np.isnan(part.label), label[new], part.label)
        return Labels.from_codes(slots, label)
