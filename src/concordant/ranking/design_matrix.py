"""Design matrix of a ranker: standardised features, and products with the matrix and its transpose.

Training needs both products in every step, so it keeps one standardised copy of the features. Prediction standardises
them block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.execution import map_instances, without_progress
from concordant.kernels.ratios import ratio

__all__ = ["DesignMatrix", "DenseDesign", "Scaling", "row_blocks", "map_row_blocks", "reproducible_product"]

T = TypeVar("T")

# Numbers in a block, so that temporary arrays fit the cache of a core.
_BLOCK = 1 << 17


def row_blocks(n: int, width: int) -> Iterator[slice]:
    """Yield slices of n rows, each with about `_BLOCK` numbers if a row has `width` numbers."""
    step = max(_BLOCK // max(width, 1), 1)
    for first in range(0, n, step):
        yield slice(first, min(first + step, n))


def map_row_blocks(function: Callable[[slice], T], n: int, width: int) -> list[T]:
    """Apply a function to each of the row blocks, in several threads, and return the results in order.

    >>> map_row_blocks(lambda block: block.stop, 5, 1 << 16)
    [2, 4, 5]
    """
    blocks = list(row_blocks(n, width))
    with without_progress():
        return map_instances(lambda b: function(blocks[b]), len(blocks))


def reproducible_product(rows: Floats, weights: Floats) -> Floats:
    """Return rows times weights, of shape (columns,) or (columns, units), such that no result depends on other rows.

    A BLAS product may round the same row differently beside other rows. For a single vector of weights BLAS is no
    faster either, because both are bound by memory.
    """
    if weights.ndim == 2:
        return np.stack([reproducible_product(rows, np.ascontiguousarray(unit)) for unit in weights.T], axis=1)
    out: Floats = np.einsum("rf,f->r", np.ascontiguousarray(rows), weights)
    return out


class DesignMatrix(Protocol):
    """A matrix with a row for every item, known by its products with vectors."""

    @property
    def n_columns(self) -> int:
        """The number of columns."""
        ...

    def times(self, weights: Floats) -> Floats:
        """Return the matrix times weights, of shape (columns,) or (columns, units)."""
        ...

    def reproducible_times(self, weights: Floats) -> Floats:
        """Return the matrix times weights; the result of a row depends on that row only, at a higher cost."""
        ...

    def transposed_times(self, rows: Floats) -> Floats:
        """Return the transposed matrix times a vector of shape (rows,) or a matrix of shape (rows, units)."""
        ...

    def at(self, rows: slice | Ints) -> DesignMatrix:
        """Return some of the rows."""
        ...


class DenseDesign(NamedTuple):
    """The design matrix of standardised features.

    >>> design = DenseDesign(np.array([[-1.0, 0.0], [1.0, 2.0]]))
    >>> design.times(np.array([0.5, 7.0])).tolist(), design.transposed_times(np.array([1.0, 2.0])).tolist()
    ([-0.5, 14.5], [1.0, 4.0])
    """

    Z: Floats

    @property
    def n_columns(self) -> int:
        """The number of columns."""
        return int(self.Z.shape[1])

    def times(self, weights: Floats) -> Floats:
        """Return the matrix times weights."""
        out: Floats = self.Z @ weights if weights.ndim == 2 else reproducible_product(self.Z, weights)
        return out

    def reproducible_times(self, weights: Floats) -> Floats:
        """Return the matrix times weights; the result of a row depends on that row only."""
        return reproducible_product(self.Z, weights)

    def transposed_times(self, rows: Floats) -> Floats:
        """Return the transposed matrix times a vector or matrix."""
        out: Floats = self.Z.T @ rows if rows.ndim == 2 else np.einsum("rf,r->f", self.Z, rows)
        return out

    def at(self, rows: slice | Ints) -> DenseDesign:
        """Return some of the rows."""
        return DenseDesign(self.Z[rows])


class Scaling(NamedTuple):
    """Standardisation of features: (x - centre) · scale, with `mean` in place of NaN.

    >>> X = np.array([[1.0, 5.0], [3.0, 5.0], [np.nan, 5.0]])
    >>> scaling = Scaling.of(X, np.arange(3))
    >>> scaling.standardised(X).tolist()
    [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]
    """

    centre: Floats
    scale: Floats
    mean: Floats

    @classmethod
    def of(cls, X: Floats, rows: Ints, standardise: bool = True) -> Scaling:
        """Return the scaling to mean 0 and standard deviation 1 over some rows, NaN left out.

        Features that are constant up to rounding get a scale of 0. With standardise=False features are not changed.
        """
        mean, deviation = _spread(X, rows)
        if not standardise:
            return cls(np.zeros(len(mean)), np.ones(len(mean)), mean)
        return cls(mean, ratio(1.0, deviation, 0.0), mean)

    def standardised(self, X: Floats, rows: Ints | None = None, columns: Ints | None = None) -> Floats:
        """Return the standardised features, optionally of some rows and with columns in another order."""
        own = self if columns is None else Scaling(*(part[columns] for part in self))
        n = len(X) if rows is None else len(rows)
        out = np.empty((n, len(own.centre)))

        def write(block: slice) -> None:
            part = X[block] if rows is None else X[rows[block]]
            here = out[block]
            if columns is None:
                here[:] = part
            else:
                np.take(part, columns, axis=1, out=here, mode="clip")
            unknown = np.isnan(here)
            if unknown.any():
                np.copyto(here, own.mean, where=unknown)
            here -= own.centre
            here *= own.scale

        map_row_blocks(write, n, X.shape[1])
        return out


def _spread(X: Floats, rows: Ints) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of every column, NaN left out; deviations up to rounding become 0."""
    F = X.shape[1]
    count, low, high = np.zeros(F), np.full(F, np.inf), np.full(F, -np.inf)

    def block_range(block: slice) -> tuple[Ints, Floats, Floats]:
        part = X[rows[block]]
        unknown = np.isnan(part)
        lowest, highest = np.where(unknown, np.inf, part).min(axis=0), np.where(unknown, -np.inf, part).max(axis=0)
        return len(part) - unknown.sum(axis=0), lowest, highest

    for known, lowest, highest in map_row_blocks(block_range, len(rows), F):
        count += known
        np.minimum(low, lowest, out=low)
        np.maximum(high, highest, out=high)
    low[count == 0] = high[count == 0] = 0.0
    # Values are divided by the half range, so that neither sums nor squares overflow.
    middle, half_range = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    unit = np.where(half_range > 0, half_range, 1.0)

    def moment(offset: Floats, power: int) -> Floats:
        def block_sum(block: slice) -> Floats:
            part = X[rows[block]]
            part -= middle
            part /= unit
            part -= offset
            if power == 2:
                part *= part
            part[np.isnan(part)] = 0.0
            out: Floats = part.sum(axis=0)
            return out

        total = np.zeros(F)
        # In the order of the blocks, whichever thread finishes first.
        for part_sum in map_row_blocks(block_sum, len(rows), F):
            total += part_sum
        return total / np.maximum(count, 1.0)

    mean = moment(np.zeros(F), 1)
    deviation = np.sqrt(moment(mean, 2)) * half_range
    mean = middle + mean * half_range
    deviation[deviation <= np.maximum(1e-12 * np.abs(mean), 1e-300)] = 0.0
    return mean, deviation
