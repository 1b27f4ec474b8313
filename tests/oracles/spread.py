"""The covariance of scores from curvature and clusters, one pair of items and one cluster at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Log-likelihood of a cluster as a function of the scores, then of whatever else is estimated.
Cluster = tuple[float, Callable[[Floats], float]]

# How many clusters what all items share is worth.
POOLED = 10.0


def slopes(f: Callable[[Floats], float], x: Floats, h: float = 1e-4) -> Floats:
    """Return the gradient of f at x by differences of the fourth order."""
    out = np.zeros(len(x))
    for k in range(len(x)):
        for step, factor in ((-2, 1.0), (-1, -8.0), (1, 8.0), (2, -1.0)):
            y = x.copy()
            y[k] += step * h
            out[k] += factor * f(y) / (12 * h)
    return out


def bends(f: Callable[[Floats], float], x: Floats, h: float = 1e-3) -> Floats:
    """Return the matrix of second derivatives of f at x, the slopes of its slopes."""
    out = np.zeros((len(x), len(x)))
    for a in range(len(x)):
        for step, factor in ((-2, 1.0), (-1, -8.0), (1, 8.0), (2, -1.0)):
            y = x.copy()
            y[a] += step * h
            out[a] += factor * slopes(f, y, h) / (12 * h)
    return (out + out.T) / 2


def centred(c: Floats) -> Floats:
    """Return the covariance of x − mean(x) from that of x."""
    m = len(c)
    out = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            out[i, j] = c[i, j] - sum(c[i]) / m - sum(c[:, j]) / m + c.sum() / m**2
    return out


def moderated(
    clusters: Sequence[Cluster],
    at: Any,
    m: int,
    prior: Any = 0.0,
    *,
    calibration: float = 1.0,
    effective: Sequence[float] | None = None,
) -> tuple[Floats, Floats]:
    """Return covariance and degrees of freedom of m scores from clusters, each with the number it stands for.

    `prior` is the diagonal of the prior's precision, `calibration` how many times over outcomes are counted, and
    `effective` the number of clusters that speak of each item, where that does not follow from their curvature.
    """
    at = np.array(at, dtype=np.float64)
    pulls = [slopes(f, at) for _, f in clusters]
    curves = [-bends(f, at) for _, f in clusters]
    P = np.zeros((len(at), len(at)))
    for i in range(m):
        P[i, i] = np.broadcast_to(prior, m)[i]
    H, M = P.copy(), np.zeros(P.shape)
    for (w, _), u, h in zip(clusters, pulls, curves, strict=True):
        H += w * h
        M += w * np.outer(u, u)
    if not P.any():
        H[:m, :m] += 1.0  # along the shift of all scores, which the centring takes away
    inverse = np.linalg.inv(H)
    S = centred((inverse @ (M + calibration * P) @ inverse)[:m, :m])
    B = centred((inverse + (calibration - 1) * inverse @ P @ inverse)[:m, :m])
    whole, squares, seen, count = np.zeros(m), np.zeros(m), np.zeros(m), 0.0
    for (w, _), u, h in zip(clusters, pulls, curves, strict=True):
        count += w
        for i in range(m):
            whole[i] += w * h[i, i]
            squares[i] += w * h[i, i] ** 2
            seen[i] += w * u[i] ** 2
    # E Σ u² = (1 − 1/G) (Σ h + σ² Σ h²), the sum over items of both sides over Σ h.
    excess = sum(seen[i] / whole[i] - (1 - squares[i] / whole[i] ** 2) for i in range(m))
    per_unit = sum((1 - squares[i] / whole[i] ** 2) * squares[i] / whole[i] for i in range(m))
    variance = max(0.0, excess) / per_unit
    K = [1 + variance * squares[i] / whole[i] for i in range(m)]
    given = [whole[i] ** 2 / squares[i] for i in range(m)] if effective is None else effective
    G = [min(max(g, 1.0), count) for g in given]
    a = [g / (g - 1 + POOLED) for g in G]
    b = [POOLED / (g - 1 + POOLED) for g in G]
    out, freedom = np.zeros((m, m)), np.zeros(m)
    for i in range(m):
        for j in range(m):
            out[i, j] = math.sqrt(a[i] * a[j]) * S[i, j] + math.sqrt(b[i] * b[j] * K[i] * K[j]) * B[i, j]
        doubt = (a[i] * S[i, i]) ** 2 / max(G[i] - 1, 1) + (b[i] * (K[i] - 1) * B[i, i]) ** 2 / (2 * (count - 1))
        freedom[i] = max(1.0, out[i, i] ** 2 / doubt)
    return out, freedom
