"""`Features`: a feature vector for every (instance, item), for learning to rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Ints
from concordant.data.container import Container, counted, describe, frame_of, same
from concordant.data.index import Slots, Texts, as_ids, freeze
from concordant.data.labels import unique_slots
from concordant.errors import DataError, listing, shorten

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Features", "check_all_found"]


class Features(Container):
    """A feature vector for every (instance, item).

    Parameters
    ----------
    instance, item : sequences of ids
        One entry per row of X.
    X : array (rows, features)
        Numbers; NaN for an unknown value.
    names : sequence of str, optional
        Names of the features; "1", "2", ... by default.

    Examples
    --------
    >>> Features(["q", "q"], ["a", "b"], [[0.1, 2], [0.3, 1]])
    Features: 1 instance, 2 items, 2 features
    """

    X: NDArray[np.float64]
    names: Texts

    def __init__(
        self, instance: Iterable[Any], item: Iterable[Any], X: Any, names: Iterable[Any] | None = None
    ) -> None:
        slots, rows = unique_slots(instance, item, "feature rows")
        try:
            matrix = np.array(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"X must hold numbers, as many in every row: {shorten(str(error))}.") from None
        if matrix.ndim != 2 or len(matrix) != len(rows):
            raise DataError(f"X must have one row per item: {len(rows)} ids, X of shape {matrix.shape}.")
        if np.isinf(matrix).any():
            row, feature = (int(v[0]) for v in np.nonzero(np.isinf(matrix)))
            raise DataError(
                f"feature {feature + 1} of row {row} is {float(matrix[row, feature])!r}; features must be finite, or "
                "NaN where one is not known."
            )
        labels = as_ids(names, "feature") if names is not None else [str(j + 1) for j in range(matrix.shape[1])]
        if len(labels) != matrix.shape[1]:
            raise DataError(f"{len(labels)} names for {matrix.shape[1]} features.")
        self._set(slots, matrix[rows], Texts(labels))

    @classmethod
    def from_codes(cls, slots: Slots, X: NDArray[np.float64], names: Texts | None = None) -> Self:
        """Return features over ready-made slots. Nothing is copied or checked."""
        out = cls.__new__(cls)
        out._set(slots, X, Texts([str(j + 1) for j in range(X.shape[1])]) if names is None else names)
        return out

    def _set(self, slots: Slots, matrix: NDArray[np.float64], names: Texts) -> None:
        self.__dict__.update(slots=slots, X=freeze(matrix), names=names)

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.X.shape[1])

    def select(self, names: Sequence[str], *, fill: float | None = None) -> Self:
        """Return the features with these names, in this order.

        Parameters
        ----------
        names : sequence of str
            Names of features.
        fill : float, optional
            The value of features that are absent here; without it an absent feature is an error.

        Examples
        --------
        >>> f = Features(["q", "q"], ["a", "b"], [[0.1, 2], [0.3, 1]], names=["bm25", "clicks"])
        >>> f.select(["bm25", "age"], fill=0).X.tolist()
        [[0.1, 0.0], [0.3, 0.0]]
        """
        if self.names.tolist() == list(names):
            return self
        codes = self.names.codes
        absent = [name for name in names if name not in codes]
        if absent and fill is None:
            raise DataError(
                f"unknown features {listing(absent, 3)}. Features: {listing(self.names.tolist(), 5)}. Pass "
                "fill= to add them."
            )
        matrix = np.full((self.n_slots, len(names)), np.nan if fill is None else fill, dtype=np.float64)
        present = [j for j, name in enumerate(names) if name in codes]
        matrix[:, present] = self.X[:, [codes[names[j]] for j in present]]
        return self.from_codes(self.slots, matrix, Texts(list(names)))

    def align(self, container: Container, *, owner: str = "Features") -> Self:
        """Return the features of every item of `container`, matched by the ids of instance and item.

        Parameters
        ----------
        container : Preferences, Comparisons, Labels, Features or Consensus
            The container whose items get features; an item without features is an error.
        owner : str
            Name of the caller, for messages.

        Examples
        --------
        >>> from concordant.data.preferences import Preferences
        >>> p = Preferences(["q", "q"], ["x", "x"], ["b", "a"], [1, 2])
        >>> Features(["q", "q"], ["a", "b"], [[1], [2]]).align(p).X.tolist()
        [[2.0], [1.0]]
        """
        rows = container.slots.locate(self.slots)
        check_all_found(rows, container, owner)
        return self.from_codes(container.slots, self.X[rows], self.names)

    def _take(self, index: Ints) -> Self:
        slots, old = self.slots.take(index)
        return self.from_codes(slots, self.X[old], self.names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Features):
            return NotImplemented
        return same(self.X, other.X) and self.names == other.names and self.slots == other.slots

    def __repr__(self) -> str:
        parts = [
            counted(self.n_instances, "instance"),
            counted(self.n_slots, "item"),
            counted(self.n_features, "feature"),
        ]
        return describe("Features", [", ".join(parts)])

    def to_frame(self) -> pl.DataFrame:
        """Return a Polars frame: instance, item, one column per feature."""
        columns: dict[str, Any] = {"instance": (self.instances, self.slots.instance), "item": (self.items, None)}
        return frame_of(columns | {name: self.X[:, j] for j, name in enumerate(self.names)})

    @staticmethod
    def concat(parts: Sequence[Features]) -> Features:
        """Return several feature sets as one; names must agree, and no item may be in two parts."""
        if any(p.names != parts[0].names for p in parts):
            raise DataError("cannot join features with different names. Select the same names from each part first.")
        slots, new_slots = Slots.concat([p.slots for p in parts])
        if slots.n_slots < sum(p.n_slots for p in parts):
            raise DataError("cannot join features: an item has a row in two parts.")
        matrix = np.empty((slots.n_slots, parts[0].n_features))
        for part, new in zip(parts, new_slots, strict=True):
            matrix[new] = part.X
        return Features.from_codes(slots, matrix, parts[0].names)


def check_all_found(rows: Ints, container: Container, owner: str) -> None:
    """Raise if some item has no features, which row -1 marks."""
    absent = np.flatnonzero(rows < 0)
    if len(absent):
        names = [f"{item!r} of {instance!r}" for instance, item in map(container.slots.where, absent[:3].tolist())]
        raise DataError(
            f"{owner} has no features for {len(absent):,} of {len(rows):,} items, such as {', '.join(names)}. Items "
            "are matched by the ids of instance and item."
        )
