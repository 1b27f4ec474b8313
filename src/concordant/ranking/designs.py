"""Columns a scorer sees, without their being written down: raw features with a centre and a scale, or their products.

A linear scorer needs two things of its columns: the columns times weights, and what the rows say against the columns.
Both can be had from the raw features, so that neither a standardised copy nor the products of all pairs are ever made.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from concordant.kernels.lists import Floats, Ints

__all__ = ["Design", "Plain", "spread"]

# A centre so many spreads away costs so many digits of the difference; then the difference is made first.
_FAR = 1e5
# Rows looked at at one time.
_BLOCK = 1 << 15


class Design(Protocol):
    """What a scorer needs of its columns."""

    @property
    def n_columns(self) -> int:
        """How many columns there are."""
        ...

    def times(self, weights: Floats) -> Floats:
        """Return the columns times weights, of shape (columns,) or (columns, units)."""
        ...

    def against(self, rows: Floats) -> Floats:
        """Return the columns' inner products with numbers for every row, of shape (rows,) or (rows, units)."""
        ...

    def at(self, rows: Ints) -> Design:
        """Return the design of some of the rows."""
        ...


class Plain(NamedTuple):
    """Features less their centre, times their scale.

    >>> design = Plain(np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([2.0, 5.0]), np.array([1.0, 0.0]))
    >>> design.times(np.array([0.5, 7.0])).tolist(), design.against(np.array([1.0, 2.0])).tolist()
    ([-0.5, 0.5], [1.0, 0.0])
    """

    X: Floats
    centre: Floats
    scale: Floats

    @classmethod
    def of(cls, X: Floats, centre: Floats, scale: Floats) -> Plain:
        """Return the design, of features centred beforehand where the difference would lose its digits."""
        if (np.abs(centre) * scale > _FAR).any():
            return cls(X - centre, np.zeros(len(centre)), scale)
        return cls(X, centre, scale)

    @property
    def n_columns(self) -> int:
        """How many columns there are."""
        return int(self.X.shape[1])

    def times(self, weights: Floats) -> Floats:
        """Return the columns times weights."""
        scaled = (self.scale * weights.T).T
        out: Floats = self.X @ scaled
        out -= self.centre @ scaled
        return out

    def against(self, rows: Floats) -> Floats:
        """Return the columns' inner products with numbers for every row."""
        found = (rows.T @ self.X).T
        total = rows.sum(axis=0)
        out: Floats = (self.scale * (found.T - np.multiply.outer(total, self.centre))).T
        return out

    def at(self, rows: Ints) -> Plain:
        """Return the design of some of the rows."""
        return self._replace(X=self.X[rows])

    def standardised(self, rows: slice) -> Floats:
        """Return the columns themselves, for some of the rows."""
        out: Floats = (self.X[rows] - self.centre) * self.scale
        return out


def spread(X: Floats, rows: NDArray[np.bool_] | None = None) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of every column, over all rows or those marked; block by block.

    Columns whose deviation is nothing but rounding have none.
    """
    n = len(X) if rows is None else int(rows.sum())
    if n == 0:
        return np.zeros(X.shape[1]), np.zeros(X.shape[1])
    blocks = [slice(k, k + _BLOCK) for k in range(0, len(X), _BLOCK)]

    def part(block: slice) -> Floats:
        return X[block] if rows is None else X[block][rows[block]]

    # As fractions of the count, so that the sum of huge numbers stays within range.
    mean: Floats = np.sum([(part(b) / n).sum(axis=0) for b in blocks], axis=0)
    square: Floats = np.sum([((part(b) - mean) ** 2 / n).sum(axis=0) for b in blocks], axis=0)
    deviation = np.sqrt(square)
    deviation[deviation <= 1e-12 * np.abs(mean)] = 0.0
    return mean, deviation
