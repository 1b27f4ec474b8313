"""Design matrix of a ranker: standardised features, and products with the matrix and its transpose.

Training needs both products in every step, so it standardises the features once: the one copy that it makes. Prediction
goes through the features block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.execution import map_instances, without_progress
from concordant.kernels.ratios import ratio

__all__ = ["DesignMatrix", "DenseDesign", "Scaling", "blocks_of_rows", "over_blocks", "reproducible_product"]

T = TypeVar("T")

# Numbers looked at at one time: what is made of them on the way stays in the cache of a core.
_BLOCK = 1 << 17


def blocks_of_rows(n: int, width: int) -> Iterator[slice]:
    """Yield slices of n rows, each of a moderate number of numbers if rows have `width` of them."""
    step = max(_BLOCK // max(width, 1), 1)
    for first in range(0, n, step):
        yield slice(first, min(first + step, n))


def over_blocks(function: Callable[[slice], T], n: int, width: int) -> list[T]:
    """Return what a function gives for each of these blocks, in their order; the cores share them.

    >>> over_blocks(lambda block: block.stop, 5, 1 << 16)
    [2, 4, 5]
    """
    blocks = list(blocks_of_rows(n, width))
    with without_progress():
        return map_instances(lambda b: function(blocks[b]), len(blocks))


def reproducible_product(rows: Floats, weights: Floats) -> Floats:
    """Return rows times weights, of shape (columns,) or (columns, units); a row gives the same bits in any company.

    A matrix product of the linear algebra library may round the same row differently beside other rows. For a single
    vector of weights it is no faster either, as memory is what both wait for, and it may wait for its threads besides.
    """
    if weights.ndim == 2:
        return np.stack([reproducible_product(rows, np.ascontiguousarray(unit)) for unit in weights.T], axis=1)
    out: Floats = np.einsum("rf,f->r", np.ascontiguousarray(rows), weights)
    return out


class DesignMatrix(Protocol):
    """What a scorer needs of its columns."""

    @property
    def n_columns(self) -> int:
        """How many columns there are."""
        ...

    def times(self, weights: Floats) -> Floats:
        """Return the columns times weights, of shape (columns,) or (columns, units)."""
        ...

    def reproducible_times(self, weights: Floats) -> Floats:
        """Return the same, at a higher cost, but a row's number does not depend on the other rows to the last bit."""
        ...

    def transposed_times(self, rows: Floats) -> Floats:
        """Return the columns' inner products with numbers for every row, of shape (rows,) or (rows, units)."""
        ...

    def at(self, rows: slice | Ints) -> DesignMatrix:
        """Return the design of some of the rows."""
        ...


class DenseDesign(NamedTuple):
    """The standardised features themselves.

    >>> design = DenseDesign(np.array([[-1.0, 0.0], [1.0, 2.0]]))
    >>> design.times(np.array([0.5, 7.0])).tolist(), design.transposed_times(np.array([1.0, 2.0])).tolist()
    ([-0.5, 14.5], [1.0, 4.0])
    """

    Z: Floats

    @property
    def n_columns(self) -> int:
        """How many columns there are."""
        return int(self.Z.shape[1])

    def times(self, weights: Floats) -> Floats:
        """Return the columns times weights."""
        out: Floats = self.Z @ weights if weights.ndim == 2 else reproducible_product(self.Z, weights)
        return out

    def reproducible_times(self, weights: Floats) -> Floats:
        """Return the columns times weights, each row's bits its own."""
        return reproducible_product(self.Z, weights)

    def transposed_times(self, rows: Floats) -> Floats:
        """Return the columns' inner products with numbers for every row."""
        out: Floats = self.Z.T @ rows if rows.ndim == 2 else np.einsum("rf,r->f", self.Z, rows)
        return out

    def at(self, rows: slice | Ints) -> DenseDesign:
        """Return the design of some of the rows."""
        return DenseDesign(self.Z[rows])


class Scaling(NamedTuple):
    """How features are brought to one scale: (x - centre) · scale, x being `mean` where it is not known.

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
        """Return the scaling that gives the features, as far as known, a mean of 0 and a deviation of 1 over some rows.

        Features that are constant but for rounding get a scale of 0. With standardise=False features stay what they
        are.
        """
        mean, deviation = _spread(X, rows)
        if not standardise:
            return cls(np.zeros(len(mean)), np.ones(len(mean)), mean)
        return cls(mean, ratio(1.0, deviation, 0.0), mean)

    def standardised(self, X: Floats, rows: Ints | None = None, columns: Ints | None = None) -> Floats:
        """Return the scaled features, of some of the rows and in another order of columns where asked for."""
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

        over_blocks(write, n, X.shape[1])
        return out


def _spread(X: Floats, rows: Ints) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of what is known of every column; 0 for what is only rounding."""
    F = X.shape[1]
    count, low, high = np.zeros(F), np.full(F, np.inf), np.full(F, -np.inf)

    def reaches(block: slice) -> tuple[Ints, Floats, Floats]:
        part = X[rows[block]]
        unknown = np.isnan(part)
        lowest, highest = np.where(unknown, np.inf, part).min(axis=0), np.where(unknown, -np.inf, part).max(axis=0)
        return len(part) - unknown.sum(axis=0), lowest, highest

    for known, lowest, highest in over_blocks(reaches, len(rows), F):
        count += known
        np.minimum(low, lowest, out=low)
        np.maximum(high, highest, out=high)
    low[count == 0] = high[count == 0] = 0.0
    # As parts of the range, so that neither sums nor squares leave what a number can hold.
    middle, reach = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    unit = np.where(reach > 0, reach, 1.0)

    def averaged(offset: Floats, power: int) -> Floats:
        def added(block: slice) -> Floats:
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
        # In the order of the blocks, whoever is done first.
        for found in over_blocks(added, len(rows), F):
            total += found
        return total / np.maximum(count, 1.0)

    mean = averaged(np.zeros(F), 1)
    deviation = np.sqrt(averaged(mean, 2)) * reach
    mean = middle + mean * reach
    deviation[deviation <= np.maximum(1e-12 * np.abs(mean), 1e-300)] = 0.0
    return mean, deviation
