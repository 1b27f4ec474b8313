"""Slow twin of singular value projection: dense tables and NumPy's singular value decomposition."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]


def project(table: Table, rank: int) -> Table:
    """Return the best approximation of this rank, skew-symmetric as its table is."""
    u, s, v = np.linalg.svd((table - table.T) / 2)
    best = (u[:, :rank] * s[:rank]) @ v[:rank]
    return (best - best.T) / 2


def complete(
    margin: Table, observed: NDArray[np.bool_], rank: int = 2, step: float = 1.0, max_iter: int = 500, tol: float = 1e-6
) -> tuple[Table, int]:
    """Return the completed table and the number of steps."""
    x = np.zeros_like(margin)
    size = residual = np.linalg.norm(margin[observed])
    for n in range(max_iter):
        if residual <= max(tol, 1e-12) * size:
            return x, n
        x = project(x - step * np.where(observed, x - margin, 0.0), rank)
        old, residual = residual, np.linalg.norm((x - margin)[observed])
        if abs(old - residual) <= tol * old:
            return x, n + 1
    return x, max_iter


def slope(x: Table, margin: Table, observed: NDArray[np.bool_], rank: int) -> float:
    """Return the norm of the residual's part along tables of this rank, over the norm of the margins."""
    residual = np.where(observed, x - margin, 0.0)
    u, _, _ = np.linalg.svd(x)
    inside = u[:, :rank] @ u[:, :rank].T
    part = inside @ residual + residual @ inside - inside @ residual @ inside
    return float(np.linalg.norm(part) / np.linalg.norm(margin[observed]))
