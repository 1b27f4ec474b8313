"""Second-order features: products of two features, selected by correlation and evaluated as quadratic forms.

With Z the standardised features and y the labels, the means, variances and correlations of all products come from three
F × F matrices: ZᵀZ, Zᵀ diag(y) Z and (Z²)ᵀ(Z²). A weighted sum of products is a quadratic form,
Σ w_ab z_a z_b = zᵀ M z, and its gradient is in Zᵀ diag(g) Z. So no array of size rows × products is needed. If few
products are selected, computing them block by block is faster.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.kernels.ratios import ratio
from concordant.learning.optimisers import max_norm
from concordant.ranking.design_matrix import reproducible_product, row_blocks

__all__ = ["SelectedProducts", "ProductDesign", "select_products"]

# Rows of a block in products of matrices.
_BLOCK = 1 << 13
# Computing a product takes as long as this many terms of a quadratic form by BLAS.
_PRODUCT_COST = 48
# The same for quadratic forms that are computed reproducibly, row by row.
_REPRODUCIBLE_COST = 10
# For up to this many rows the matrix of the quadratic form takes longer than the products.
_FEW_ROWS = 64
# The largest number of products to store: 256 MB.
_MAX_STORED = 1 << 25


class SelectedProducts(NamedTuple):
    """Products of two features that correlate with the label.

    Attributes
    ----------
    pairs : int64[products, 2]
        The two features of each product, a <= b, sorted.
    centre, scale : float64[products]
        The mean of each product, and one over its standard deviation.
    correlation : float64[products]
        The correlation of each product with the label.
    largest : float
        The largest absolute correlation of all products, selected or not.
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
        The standardised features.
    label : float64[rows]
        The labels.
    threshold : float
        Only products with a larger absolute correlation are selected.
    most : int, optional
        The largest number of products to select, those with the largest absolute correlations.

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
    second, label_moment, fourth = np.zeros((F, F)), np.zeros((F, F)), np.zeros((F, F))
    y = label - label.mean() if n else label
    for first in range(0, n, _BLOCK):
        part = Z[first : first + _BLOCK]
        second += part.T @ part
        label_moment += part.T @ (part * y[first : first + _BLOCK, None])
        square = part * part
        fourth += square.T @ square
    mean = second / max(n, 1)
    variance = fourth / max(n, 1) - mean * mean
    # Differences of nearly equal numbers are rounding errors.
    variance[variance <= 1e-12 * np.maximum(fourth / max(n, 1), 1e-300)] = 0.0
    spread = np.sqrt(variance * float(y @ y) / max(n, 1))
    correlation = ratio(label_moment / max(n, 1), spread, 0.0)
    a, b = np.triu_indices(F)
    value = correlation[a, b]
    kept = np.flatnonzero(np.abs(value) > threshold)
    if most is not None and len(kept) > most:
        kept = np.sort(kept[np.argsort(-np.abs(value[kept]), kind="stable")[:most]])
    a, b = a[kept], b[kept]
    return SelectedProducts(
        np.stack([a, b], axis=1).astype(np.int64),
        mean[a, b],
        1.0 / np.sqrt(variance[a, b]),
        value[kept],
        max_norm(value),
    )


class ProductDesign(NamedTuple):
    """Design matrix of standardised products of two standardised features; with `keep_first`, after the features.

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
    # The products before standardisation, if they are stored.
    table: Floats | None = None

    def materialised(self) -> ProductDesign:
        """Return the same matrix with its products stored, if they fit into `_MAX_STORED`, for repeated use."""
        if len(self.Z) * len(self.pairs) > _MAX_STORED:
            return self
        return self._replace(table=self._product_table(slice(None)))

    @property
    def n_columns(self) -> int:
        """The number of columns."""
        return len(self.pairs) + (int(self.Z.shape[1]) if self.keep_first else 0)

    def times(self, weights: Floats) -> Floats:
        """Return the matrix times weights."""
        if weights.ndim == 2:
            return np.stack([self.times(unit) for unit in weights.T], axis=1)
        if self._uses_products():
            return self.reproducible_times(weights)
        own = weights[-len(self.pairs) :] * self.scale
        form = self._quadratic_form(own)
        out = np.empty(len(self.Z))
        for first in range(0, len(out), _BLOCK):
            part = self.Z[first : first + _BLOCK]
            out[first : first + _BLOCK] = np.einsum("rf,rf->r", part @ form, part)
        out -= float(self.centre @ own)
        if self.keep_first:
            out += reproducible_product(self.Z, weights[: -len(self.pairs)])
        return out

    def reproducible_times(self, weights: Floats) -> Floats:
        """Return the matrix times weights; the result of a row depends on that row only."""
        if weights.ndim == 2:
            return np.stack([self.reproducible_times(unit) for unit in weights.T], axis=1)
        own = weights[-len(self.pairs) :] * self.scale
        n, F = self.Z.shape
        out = np.empty(n)
        if self.table is not None:
            out[:] = reproducible_product(self.table, own)
        elif _REPRODUCIBLE_COST * len(self.pairs) <= F * F:
            for block in row_blocks(n, len(self.pairs)):
                out[block] = reproducible_product(self._product_table(block), own)
        else:
            form = self._quadratic_form(own)
            for block in row_blocks(n, F):
                part = np.ascontiguousarray(self.Z[block])
                out[block] = np.einsum("rf,rf->r", np.einsum("rf,fg->rg", part, form), part)
        out -= float(self.centre @ own)
        if self.keep_first:
            out += reproducible_product(self.Z, weights[: -len(self.pairs)])
        return out

    def transposed_times(self, rows: Floats) -> Floats:
        """Return the transposed matrix times a vector or matrix."""
        if rows.ndim == 2:
            return np.stack([self.transposed_times(unit) for unit in rows.T], axis=1)
        n, F = self.Z.shape
        if self._uses_products():
            found = np.zeros(len(self.pairs))
            for block in row_blocks(n, len(self.pairs)):
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
        """Return some of the rows."""
        return self._replace(Z=self.Z[rows], table=None if self.table is None else self.table[rows])

    def _quadratic_form(self, weights: Floats) -> Floats:
        """Return the matrix of the quadratic form."""
        out = np.zeros((self.Z.shape[1], self.Z.shape[1]))
        out[self.pairs[:, 0], self.pairs[:, 1]] = weights
        return out

    def _uses_products(self) -> bool:
        """Return whether computing the products is faster than a quadratic form."""
        n, F = self.Z.shape
        return bool(self.table is not None or n <= _FEW_ROWS or _PRODUCT_COST * len(self.pairs) <= F * F)

    def _product_table(self, rows: slice) -> Floats:
        if self.table is not None:
            return self.table[rows]
        part = self.Z[rows]
        # Unlike fancy indexing, `take` gives an array in row-major order.
        out: Floats = np.take(part, self.pairs[:, 0], axis=1)
        out *= np.take(part, self.pairs[:, 1], axis=1)
        return out
