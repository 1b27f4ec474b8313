"""Listwise linear fusion written out: one full table of features per instance, and a general-purpose minimiser."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from tests.oracles.potentials import strength

Table = tuple[np.ndarray, np.ndarray]


def features(
    items: Sequence[str],
    lists: Mapping[str, Mapping[str, float]],
    experts: Sequence[str],
    transforms: Sequence[str],
    below: bool,
) -> np.ndarray:
    """Return items × (experts · d): [not listed], then row / M and -col / M for each transform, expert by expert."""
    m = len(items)
    out = []
    for i in items:
        line: list[float] = []
        for k in experts:
            ranks = lists.get(k, {})
            line.append(0.0 if i in ranks else 1.0)
            largest = max(ranks.values(), default=1.0)
            for transform in transforms:
                row = sum(strength(ranks[i], ranks[j], largest, transform) for j in ranks) if i in ranks else 0.0
                col = sum(strength(ranks[j], ranks[i], largest, transform) for j in ranks) if i in ranks else 0.0
                if below:
                    row += (m - len(ranks)) if i in ranks else 0.0
                    col += 0.0 if i in ranks else len(ranks)
                line += [row / m, -col / m]
        out.append(line)
    return np.array(out)


def shares(labels: Sequence[float], gain: str) -> np.ndarray:
    """Return the gains of an instance as shares of their sum."""
    worth = [max(2.0**label - 1.0, 0.0) if gain == "exponential" else max(label, 0.0) for label in labels]
    return np.array(worth) / sum(worth)


def spread(tables: Sequence[Table], n_experts: int) -> np.ndarray:
    """Return the standard deviation of every column within instances, over all experts and items."""
    d = tables[0][0].shape[1] // n_experts
    centred = np.concatenate([X - X.mean(axis=0) for X, _ in tables])
    return np.sqrt((centred**2).mean(axis=0).reshape(n_experts, d).mean(axis=0))


def objective(w: np.ndarray, tables: Sequence[Table], l2: float, unit: np.ndarray) -> float:
    """Return the mean cross-entropy of the softmax of X w against the shares, plus the penalty; in plain loops."""
    total = 0.0
    for X, target in tables:
        s = [math.fsum(x * v for x, v in zip(line, w, strict=True)) for line in X]
        top = max(s)
        log_sum = top + math.log(math.fsum(math.exp(v - top) for v in s))
        total -= math.fsum(t * (v - log_sum) for t, v in zip(target, s, strict=True))
    return total / len(tables) + 0.5 * l2 * math.fsum((v * u) ** 2 for v, u in zip(w, unit, strict=True))


def solve(tables: Sequence[Table], n_experts: int, l2: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of least penalised loss, experts × d, and the spread of the columns."""
    own = spread(tables, n_experts)
    unit = np.tile(np.where(own > 0, own, 1.0), n_experts)

    def slope(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        w = scaled / unit
        out = l2 * scaled
        for X, target in tables:
            p = np.exp(X @ w - (X @ w).max())
            out += X.T @ (p / p.sum() - target) / unit / len(tables)
        return objective(w, tables, l2, unit), out

    options: dict[str, Any] = {"gtol": 1e-11, "maxiter": 5000}
    found = minimize(slope, np.zeros(len(unit)), jac=True, method="BFGS", options=options)
    return (found.x / unit).reshape(n_experts, -1), own
