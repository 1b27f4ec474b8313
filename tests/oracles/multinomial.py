"""The multinomial preference model written out over all ordered pairs."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# A list: its weight, and the strength (larger is better) it gives to some of the items.
Lists = list[tuple[float, dict[str, float]]]


def table(items: Sequence[str], strengths: dict[str, float], transform: str = "count") -> Floats:
    """Return how strongly a list prefers the row's item to the column's; ranks are minus the strengths."""
    top = max((-s for s in strengths.values()), default=1.0)
    out = np.zeros((len(items), len(items)))
    for a, i in enumerate(items):
        for b, j in enumerate(items):
            if i in strengths and j in strengths and strengths[i] > strengths[j]:
                gap = strengths[i] - strengths[j]
                if transform == "binary":
                    out[a, b] = 1.0
                elif transform == "rankdiff":
                    out[a, b] = gap / top
                elif transform == "log":
                    out[a, b] = (log(-strengths[j]) - log(-strengths[i])) / log(top)
                else:
                    out[a, b] = gap
    return out


def net(table: Floats) -> Floats:
    """Return preferences for each item minus those against it."""
    out: Floats = table.sum(axis=1) - table.sum(axis=0)
    return out


def label_agreement(instances: Sequence[tuple[Any, dict[str, float], float]]) -> tuple[float | None, int]:
    """Return the weighted mean over instances of the share of pairs in the order of their labels, and their number.

    An instance is a win count (a function of two items), the labels of items, and the weight of the list. Instances
    with no pair, or no weight, do not count.
    """
    total, amount, number = 0.0, 0.0, 0
    for wins, label, weight in instances:
        right = sum(wins(i, j) for i in label for j in label if label[i] > label[j])
        wrong = sum(wins(j, i) for i in label for j in label if label[i] > label[j])
        if right + wrong > 0 and weight > 0:
            total, amount, number = total + weight * right / (right + wrong), amount + weight, number + 1
    return (total / amount if number else None), number


def log_likelihood(tables: Sequence[Any], theta: Sequence[float], score: Any, gamma: Any = None) -> float:
    """Return Σ_k Σ_{i≠j} Y_k(i,j) log P_k(i over j), the constant of the multinomial left out."""
    m = len(score)
    gamma = [0.5] * m if gamma is None else gamma
    out = 0.0
    for y, t in zip(tables, theta, strict=True):
        u = [[t * (score[i] - score[j]) / (gamma[i] + gamma[j]) for j in range(m)] for i in range(m)]
        z = sum(exp(u[i][j]) for i in range(m) for j in range(m) if i != j)
        out += sum(float(y[i][j]) * (u[i][j] - log(z)) for i in range(m) for j in range(m) if i != j)
    return out


def slope(function: Any, at: Any, step: float = 1e-5) -> Floats:
    """Return the gradient of a function by central differences."""
    at = np.array(at, dtype=np.float64)
    out = []
    for i in range(len(at)):
        e = np.zeros(len(at))
        e[i] = step
        out.append((np.asarray(function(at + e)) - np.asarray(function(at - e))) / (2 * step))
    return np.array(out)


def base_root(d: Any, total: float) -> Floats:
    """Return the maximum-likelihood scores of the base model, mean 0, by bisection on the scale of the net counts."""
    d = np.asarray(d, dtype=np.float64)
    m = len(d)

    def gap(c: float) -> float:
        a = sum((1 + (c * x) ** 2) ** 0.5 for x in d)
        return (a * a - m) / (2 * a * total) - c

    low, high = 0.0, 1.0
    while gap(high) > 0:
        high *= 2
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if gap(middle) > 0 else (low, middle)
    out: Floats = np.arcsinh(low * d)
    return out - out.mean()


def ascend(tables: Sequence[Any], theta: Any, steps: int, learning: bool) -> tuple[Floats, Floats]:
    """Return scores and adherence after plain gradient steps on one instance, none of which goes down."""
    theta = np.array(theta, dtype=np.float64)
    totals = np.array([float(np.sum(y)) for y in tables])
    m = len(tables[0])
    score = np.zeros(m)
    for _ in range(steps):
        by_score = slope(lambda s: log_likelihood(tables, theta, s) / totals.sum(), score)  # noqa: B023
        by_theta = slope(lambda t: log_likelihood(tables, t, score) / totals.sum(), theta)  # noqa: B023
        score = score + 0.5 * m * by_score
        if learning:
            theta = np.clip(theta + 0.2 * by_theta / (totals / totals.sum()), 0, 1)
    return score, theta


def covariance(tables: Sequence[Any], theta: Sequence[float], score: Any) -> Floats:
    """Return the covariance of the scores minus their mean by the inverse of the information."""
    m = len(score)

    def gradient(s: Any) -> Floats:
        return slope(lambda x: log_likelihood(tables, theta, x), s, 1e-4)

    hessian = -slope(gradient, score, 1e-4)
    inverse = np.linalg.pinv((hessian + hessian.T) / 2, rcond=1e-9, hermitian=True)
    centre = np.eye(m) - 1 / m
    return np.asarray(centre @ inverse @ centre)
