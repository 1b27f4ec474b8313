"""Pairwise matrices written out in full, and their singular vectors by a dense decomposition."""

from __future__ import annotations

from itertools import pairwise as neighbours
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def pairwise(rank: Any, strength: str, missing: str = "unknown") -> Matrix:
    """Return Y of one expert over all items; `rank` has NaN where the expert says nothing."""
    r = np.asarray(rank, dtype=np.float64)
    m = len(r)
    Y = np.zeros((m, m))
    listed = [i for i in range(m) if not np.isnan(r[i])]
    if not listed:
        return Y
    most = max(r[i] for i in listed)
    for i in listed:
        for j in range(m):
            if j not in listed:
                Y[i, j] = float(missing == "below")
            elif r[i] < r[j]:
                if strength == "binary":
                    Y[i, j] = 1.0
                elif strength == "count":
                    Y[i, j] = r[j] - r[i]
                elif strength == "rankdiff":
                    Y[i, j] = (r[j] - r[i]) / most
                elif strength == "log":
                    Y[i, j] = (np.log(r[j]) - np.log(r[i])) / np.log(most)
                else:
                    raise ValueError(strength)
    return Y


def triples(Y: Matrix, p: int, order: Any = None) -> tuple[Matrix, Matrix, Matrix]:
    """Return U (m, p), the singular values and V (m, p) under the sign rule, padded with zeros.

    `order` lists the items in the order in which the first of several largest entries is looked for.
    """
    m = len(Y)
    U, V, sigma = np.zeros((m, p)), np.zeros((m, p)), np.zeros(p)
    if not Y.any():
        return U, sigma, V
    left, values, right = np.linalg.svd(Y)
    for c in range(min(p, m)):
        if values[c] <= 1e-12 * values[0]:
            continue
        u, v = left[:, c].copy(), right[c].copy()
        look = np.arange(m) if order is None else np.asarray(order)
        if u[look[int(np.argmax(np.abs(u[look]).round(12)))]] < 0:
            u, v = -u, -v
        U[:, c], V[:, c], sigma[c] = u, v, values[c]
    return U, sigma, V


def gaps(Y: Matrix, p: int) -> float:
    """Return how far apart the first p singular values and the next one are, relative to the first."""
    values = np.append(np.linalg.svd(Y, compute_uv=False), 0.0)
    if values[0] == 0:
        return 1.0
    kept = [v for v in values[: p + 1] / values[0] if v > 1e-12]
    return min([1.0, *(a - b for a, b in neighbours(kept))])
