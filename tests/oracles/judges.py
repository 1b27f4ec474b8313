"""Judges of pairwise comparisons, slowly: the objective row by row in plain Python, and optima by general search."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[np.float64]


class Row(NamedTuple):
    """One row of comparisons."""

    left: int
    right: int
    expert: int
    n_left: float
    n_right: float
    n_ties: float


def log_likelihood(row: Row, delta: float, slope: float, side: float, tie: float, ties: bool) -> float:
    """Return the log-probability of a row's outcomes."""
    z = slope * delta + side
    logits = [z / 2, -z / 2, tie] if ties else [z / 2, -z / 2]
    top = max(logits)
    log_sum = top + math.log(sum(math.exp(x - top) for x in logits))
    counts = [row.n_left, row.n_right, row.n_ties]
    return sum(n * (x - log_sum) for n, x in zip(counts, logits, strict=False))


def objective(
    rows: Sequence[Row],
    score: Array,
    phi: Array,
    mean: Array,
    variance: Array,
    prior: float,
    ties: bool,
    only: int | None = None,
) -> float:
    """Return the lower bound of kernels.judges from its formula, or one judge's part of the log-likelihood in it.

    `phi` has a row (slope, side, tie, standard deviation of the slope) for every judge.
    """
    total = 0.0
    for row in rows:
        if only is not None and row.expert != only:
            continue
        a, b, t, doubt = phi[row.expert]
        delta = score[row.left] - score[row.right]
        total += sum(log_likelihood(row, delta, a + sign * doubt, b, t, ties) for sign in (-1, 1)) / 2
    if only is not None:
        return total
    total -= 0.5 * prior * float(score @ score)
    total -= 0.5 * 0.01 * float(mean[1] ** 2 + mean[2] ** 2)
    for a, b, t, doubt in phi:
        total -= 0.5 * sum((x - m) ** 2 / v for x, m, v in zip((a, b, t), mean, variance, strict=True))
        if doubt > 0:
            total += math.log(doubt) - 0.5 * doubt**2 / variance[0]
    return total


def on_gauge(phi: Array, share: Array) -> Array:
    """Return the parameters with mean square slope 1."""
    out = phi.copy()
    out[:, [0, 3]] /= math.sqrt(float(share @ (phi[:, 0] ** 2 + phi[:, 3] ** 2)))
    return out


def best(
    rows: Sequence[Row],
    n_items: int,
    variance: Array,
    prior: float,
    ties: bool,
    sided: bool,
    rng: np.random.Generator,
) -> tuple[float, Array, Array]:
    """Return the largest objective, its scores and its judges, by a general search with numerical gradients."""
    n_judges = 1 + max(row.expert for row in rows)
    share = np.bincount([row.expert for row in rows], [row.n_left + row.n_right + row.n_ties for row in rows], n_judges)
    share /= share.sum()

    def unpack(x: Array) -> tuple[Array, Array, Array]:
        phi = x[n_items : n_items + 4 * n_judges].reshape(n_judges, 4).copy()
        phi[:, 3] = np.exp(phi[:, 3])
        mean = x[n_items + 4 * n_judges :].copy()
        if not sided:
            phi[:, 1] = mean[1] = 0.0
        if not ties:
            phi[:, 2] = mean[2] = 0.0
        return x[:n_items], on_gauge(phi, share), mean

    start = np.concatenate([np.zeros(n_items), np.tile([1.0, 0.0, -1.0, -1.0], n_judges), [1.0, 0.0, -1.0]])
    start += 0.1 * rng.normal(size=len(start))

    def loss(x: Array) -> float:
        return -objective(rows, *unpack(x), variance, prior, ties)

    found = minimize(loss, start, method="BFGS", options={"gtol": 1e-6, "maxiter": 2000})
    score, phi, _ = unpack(found.x)
    return -float(found.fun), score, phi


def plain(rows: Sequence[Row], n_items: int, prior: float, ties: bool) -> Array:
    """Return the scores of Bradley and Terry (of Davidson with ties), everybody believed alike."""
    left, right = (np.array([row[c] for row in rows]) for c in (0, 1))
    n_left, n_right, n_ties = (np.array([row[c] for row in rows]) for c in (3, 4, 5))
    count = n_left + n_right + (n_ties if ties else 0.0)

    def loss(x: Array) -> tuple[float, Array]:
        score, tie = x[:-1], x[-1]
        delta = score[left] - score[right]
        logits = np.stack([delta / 2, -delta / 2, np.full(len(delta), tie if ties else -np.inf)])
        log_sum = np.logaddexp.reduce(logits, axis=0)
        p = np.exp(logits - log_sum)
        value = ((n_left - n_right) * delta / 2 - count * log_sum).sum() - 0.5 * prior * score @ score
        pull = 0.5 * (n_left - n_right - count * (p[0] - p[1]))
        slope = np.bincount(left, pull, n_items) - np.bincount(right, pull, n_items) - prior * score
        at_tie = (n_ties - count * p[2]).sum() if ties else 0.0
        value += n_ties.sum() * tie if ties else 0.0
        return -value, -np.append(slope, at_tie)

    found = minimize(loss, np.zeros(n_items + 1), jac=True, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-7})
    score: Array = found.x[:-1]
    return score


def derivative(f: Callable[[Array], float], x: Array, h: float = 1e-5) -> Array:
    """Return the gradient by central differences."""
    out = np.zeros(x.size)
    for p in range(x.size):
        step = np.zeros(x.size)
        step[p] = h
        out[p] = (f(x + step.reshape(x.shape)) - f(x - step.reshape(x.shape))) / (2 * h)
    return out.reshape(x.shape)


def second(f: Callable[[Array], float], x: Array, h: float = 3e-4) -> Array:
    """Return the Hessian by central differences."""
    out = np.zeros((x.size, x.size))
    eye = h * np.eye(x.size)
    for p in range(x.size):
        for q in range(p + 1):
            parts = (f(x + a * eye[p] + b * eye[q]) * a * b for a in (-1, 1) for b in (-1, 1))
            out[p, q] = out[q, p] = sum(parts) / (4 * h * h)
    return out


def auc(value: Array, good: NDArray[np.bool_]) -> float:
    """Return how often a good one has the larger value, ties counted by half."""
    x, y = value[good][:, None], value[~good][None, :]
    return float((x > y).mean() + 0.5 * (x == y).mean())
