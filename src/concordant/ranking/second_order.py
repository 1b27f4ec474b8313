"""Products of features without a table of them: chosen by correlation, scored and learned through quadratic forms.

With Z the standardised features, all moments of all products come from three matrices of F × F numbers: ZᵀZ,
Zᵀ diag(y) Z and (Z²)ᵀ(Z²). A weighted sum of products is a quadratic form, Σ w_ab z_a z_b = zᵀ M z, and its gradient
one more such matrix, Zᵀ diag(g) Z. So nothing of the size rows × products is ever held. Where few products are kept,
they are made block by block instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.kernels.ratios import ratio
from concordant.ranking.design_matrix import blocks_of_rows, reproducible_product

__all__ = ["SelectedProducts", "ProductDesign", "select_products"]

# Rows multiplied out at one time.
_BLOCK = 1 << 13
# A product written down costs as much as so many terms of a quadratic form, in which a processor is at its best.
_WRITING = 48
# The same where forms are added up row by row.
_STEADY = 10
# The forms of so few rows are not worth their making.
_FEW = 64
# Numbers that products may take when they are kept: 256 MB.
_KEPT = 1 << 25


class SelectedProducts(NamedTuple):
    """Products worth having.

    Attributes
    ----------
    pairs : int64[products, 2]
        Which two features, the first not after the second; in the order of the features.
    centre, scale : float64[products]
        The mean of each, and one over its standard deviation.
    correlation : float64[products]
        With the label.
    largest : float
        The largest correlation of any product, up to sign, kept or not.
    """

    pairs: Ints
    centre: Floats
    scale: Floats
    correlation: Floats
    largest: float


def select_products(Z: Floats, label: Floats, threshold: float = 0.15, most: int | None = None) -> SelectedProducts:
    """Return the products of two standardised features whose correlation with the label is above a threshold.

    Parameters
    ----------
    Z : float64[rows, F]
        The features.
    label : float64[rows]
        The labels.
    threshold : float
        Correlations have to be larger than this, up to sign.
    most : int, optional
        How many to keep at most, the most correlated ones; of equals the first.

    Notes
    -----
    Cost O(rows · F²) in matrix products and O(F²) memory. Constant features and products have no correlation.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(500, 4))
    >>> found = select_products(Z, Z[:, 1] * Z[:, 3])
    >>> found.pairs.tolist(), found.correlation.round(3).tolist()
    ([[1, 3]], [1.0])
    """
    n, F = Z.shape
    plain, graded, fourth = np.zeros((F, F)), np.zeros((F, F)), np.zeros((F, F))
    y = label - label.mean() if n else label
    for first in range(0, n, _BLOCK):
        part = Z[first : first + _BLOCK]
        plain += part.T @ part
        graded += part.T @ (part * y[first : first + _BLOCK, None])
        square = part * part
        fourth += square.T @ square
    mean = plain / max(n, 1)
    variance = fourth / max(n, 1) - mean * mean
    # What is left of two equal numbers is rounding.
    variance[variance <= 1e-12 * np.maximum(fourth / max(n, 1), 1e-300)] = 0.0
    spread = np.sqrt(variance * float(y @ y) / max(n, 1))
    correlation = ratio(graded / max(n, 1), spread, 0.0)
    a, b = np.triu_indices(F)
    value = correlation[a, b]
    materialised = np.flatnonzero(np.abs(value) > threshold)
    if most is not None and len(materialised) > most:
        materialised = np.sort(materialised[np.argsort(-np.abs(value[materialised]), kind="stable")[:most]])
    a, b = a[materialised], b[materialised]
    return SelectedProducts(
        np.stack([a, b], axis=1).astype(np.int64),
        mean[a, b],
        1.0 / np.sqrt(variance[a, b]),
        value[materialised],
        float(np.abs(value).max(initial=0.0)),
    )


class ProductDesign(NamedTuple):
    """Products of two standardised features, standardised themselves, with or without the features before them.

    >>> Z = np.array([[1.0, 2.0], [3.0, -1.0]])
    >>> design = ProductDesign(Z, np.array([[0, 1], [1, 1]]), np.zeros(2), np.ones(2))
    >>> design.times(np.array([1.0, 10.0])).tolist(), design.transposed_times(np.array([1.0, 1.0])).tolist()
    ([42.0, 7.0], [-1.0, 5.0])
    """

    Z: Floats
    pairs: Ints
    centre: Floats
    scale: Floats
    keep_first: bool = False
    # The products themselves, where there are few enough to keep.
    table: Floats | None = None

    def materialised(self) -> ProductDesign:
        """Return the same with the products written down, where that takes little memory: for use again and again."""
        if len(self.Z) * len(self.pairs) > _KEPT:
            return self
        return self._replace(table=self._product_table(slice(None)))

    @property
    def n_columns(self) -> int:
        """How many columns there are."""
        return len(self.pairs) + (int(self.Z.shape[1]) if self.keep_first else 0)

    def times(self, weights: Floats) -> Floats:
        """Return the columns times weights."""
        if weights.ndim == 2:
            return np.stack([self.times(unit) for unit in weights.T], axis=1)
        if self._few():
            return self.reproducible_times(weights)
        own = weights[-len(self.pairs) :] * self.scale
        form = self._form(own)
        out = np.empty(len(self.Z))
        for first in range(0, len(out), _BLOCK):
            part = self.Z[first : first + _BLOCK]
            out[first : first + _BLOCK] = np.einsum("rf,rf->r", part @ form, part)
        out -= float(self.centre @ own)
        if self.keep_first:
            out += reproducible_product(self.Z, weights[: -len(self.pairs)])
        return out

    def reproducible_times(self, weights: Floats) -> Floats:
        """Return the columns times weights, each row's bits its own."""
        if weights.ndim == 2:
            return np.stack([self.reproducible_times(unit) for unit in weights.T], axis=1)
        own = weights[-len(self.pairs) :] * self.scale
        n, F = self.Z.shape
        out = np.empty(n)
        if self.table is not None:
            out[:] = reproducible_product(self.table, own)
        elif _STEADY * len(self.pairs) <= F * F:
            for block in blocks_of_rows(n, len(self.pairs)):
                out[block] = reproducible_product(self._product_table(block), own)
        else:
            form = self._form(own)
            for block in blocks_of_rows(n, F):
                part = np.ascontiguousarray(self.Z[block])
                out[block] = np.einsum("rf,rf->r", np.einsum("rf,fg->rg", part, form), part)
        out -= float(self.centre @ own)
        if self.keep_first:
            out += reproducible_product(self.Z, weights[: -len(self.pairs)])
        return out

    def transposed_times(self, rows: Floats) -> Floats:
        """Return the columns' inner products with numbers for every row."""
        if rows.ndim == 2:
            return np.stack([self.transposed_times(unit) for unit in rows.T], axis=1)
        n, F = self.Z.shape
        if self._few():
            found = np.zeros(len(self.pairs))
            for block in blocks_of_rows(n, len(self.pairs)):
                found += np.einsum("rp,r->p", self._product_table(block), rows[block])
        else:
            form = np.zeros((F, F))
            for first in range(0, n, _BLOCK):
                part = self.Z[first : first + _BLOCK]
                form += part.T @ (part * rows[first : first + _BLOCK, None])
            found = form[self.pairs[:, 0], self.pairs[:, 1]]
        out = self.scale * (found - self.centre * float(rows.sum()))
        return np.concatenate([np.einsum("rf,r->f", self.Z, rows), out]) if self.keep_first else out

    def at(self, rows: slice | Ints) -> ProductDesign:
        """Return the design of some of the rows."""
        return self._replace(Z=self.Z[rows], table=None if self.table is None else self.table[rows])

    def _form(self, weights: Floats) -> Floats:
        """Return the matrix of the quadratic form."""
        out = np.zeros((self.Z.shape[1], self.Z.shape[1]))
        out[self.pairs[:, 0], self.pairs[:, 1]] = weights
        return out

    def _few(self) -> bool:
        """Return whether the products are written down, block by block, for less than a quadratic form costs."""
        n, F = self.Z.shape
        return bool(self.table is not None or n <= _FEW or _WRITING * len(self.pairs) <= F * F)

    def _product_table(self, rows: slice) -> Floats:
        if self.table is not None:
            return self.table[rows]
        part = self.Z[rows]
        # Unlike an index, this leaves the numbers of a row side by side.
        out: Floats = np.take(part, self.pairs[:, 0], axis=1)
        out *= np.take(part, self.pairs[:, 1], axis=1)
        return out
