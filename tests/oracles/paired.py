"""Models of pairs the slow way: dictionaries, probabilities as the papers print them, and a general optimiser."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

Outcomes = list[tuple[int, int, float, float, float]]


def collapse(rows: Iterable[tuple[int, int, float, float, float]]) -> dict[tuple[int, int], list[float]]:
    """Return the counts of (low, high) pairs: wins of low, wins of high, ties; pairs without an outcome left out."""
    out: dict[tuple[int, int], list[float]] = {}
    for left, right, a, b, t in rows:
        low, high = min(left, right), max(left, right)
        cell = out.setdefault((low, high), [0.0, 0.0, 0.0])
        cell[0] += a if left == low else b
        cell[1] += b if left == low else a
        cell[2] += t
    return {pair: cell for pair, cell in sorted(out.items()) if sum(cell) > 0}


def list_pairs(
    lists: Sequence[tuple[float, dict[int, float]]], binary: bool, ties: bool
) -> dict[tuple[int, int], list[float]]:
    """Return the counts that weighted lists of values (smaller is better) make of pairs."""
    rows: Outcomes = []
    for weight, values in lists:
        for i, j in combinations(sorted(values), 2):
            gap = values[j] - values[i]
            size = weight * (1.0 if binary else abs(gap))
            if gap == 0:
                rows.append((i, j, 0.0, 0.0, weight if ties else 0.0))
            else:
                rows.append((i, j, size * (gap > 0), size * (gap < 0), 0.0))
    return collapse(rows)


def probabilities(gap: float, tie: float, model: str) -> tuple[float, float, float]:
    """Return the chances that left wins, right wins, and of a tie, from the printed formulas; `tie` is ν or θ."""
    x, y = math.exp(gap), 1.0
    if model == "none":
        return x / (x + y), y / (x + y), 0.0
    if model == "davidson":
        root = math.sqrt(x * y)
        whole = x + y + tie * root
        return x / whole, y / whole, tie * root / whole
    tied = (tie**2 - 1) * x * y / ((x + tie * y) * (tie * x + y))
    return x / (x + tie * y), y / (tie * x + y), tied


def log_likelihood(
    rows: Iterable[tuple[int, int, float, float, float]], s: Sequence[float], tie: float, side: float, model: str
) -> float:
    """Return the log-likelihood of outcomes."""
    total = 0.0
    for left, right, *counts in rows:
        for count, p in zip(counts, probabilities(s[left] - s[right] + side, tie, model), strict=True):
            if count > 0:
                total += count * math.log(p)
    return total


def slopes(f: Any, x: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """Return the gradient of f at x by central differences."""
    out = np.zeros(len(x))
    for k in range(len(x)):
        step = np.zeros(len(x))
        step[k] = h
        out[k] = (f(x + step) - f(x - step)) / (2 * h)
    return out


def bends(f: Any, x: np.ndarray, h: float = 1e-4) -> np.ndarray:
    """Return the matrix of second derivatives of f at x by central differences."""
    n = len(x)
    out = np.zeros((n, n))
    for a in range(n):
        for b in range(n):
            corners = 0.0
            for sign_a, sign_b in ((1, 1), (-1, -1), (1, -1), (-1, 1)):
                y = x.copy()
                y[a] += sign_a * h
                y[b] += sign_b * h
                corners += sign_a * sign_b * f(y)
            out[a, b] = corners / (4 * h * h)
    return out


def best(
    rows: Sequence[tuple[int, int, float, float, float]], n: int, model: str, prior: float, side: bool = False
) -> tuple[np.ndarray, float, float]:
    """Return scores, tie parameter (ν or θ) and side that maximise the penalised likelihood, by a general optimiser."""
    from scipy.optimize import minimize

    def unpack(x: np.ndarray) -> tuple[np.ndarray, float, float]:
        tie = {"none": 0.0, "davidson": math.exp(x[n]), "rao-kupper": 1 + math.exp(x[n])}[model]
        return x[:n], tie, float(x[n + 1]) if side else 0.0

    def loss(x: np.ndarray) -> float:
        s, tie, worth = unpack(x)
        # A hint of a prior fixes the gauge where there is none.
        return -log_likelihood(rows, s, tie, worth, model) + 0.5 * max(prior, 1e-9) * float(s @ s)

    found = minimize(loss, np.zeros(n + 2), method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    s, tie, worth = unpack(found.x)
    return s - s.mean(), tie, worth


def estimate_exists(rows: Sequence[tuple[int, int, float, float, float]], n: int, model: str) -> bool:
    """Return whether a finite maximum exists: no direction makes every observed outcome at least as likely for ever.

    Along scores t·u and tie parameter exp(t·b) (Davidson's form; b = 0 and no ties for "none") a win of i over j stays
    as likely when u_i - u_j >= max(0, 2b), a tie when |u_i - u_j| <= 2b. The estimate exists when these inequalities
    leave only u constant and b = 0, which a linear programme decides: push every inequality as far as it goes.
    """
    from scipy.optimize import linprog

    ties = model != "none" and any(t > 0 for *_, t in rows)
    upper: list[list[float]] = []  # rows r with r · (u, b) <= 0

    def apart(i: int, j: int, b: float) -> list[float]:
        row = [0.0] * (n + 1)
        row[i], row[j], row[n] = row[i] + 1.0, row[j] - 1.0, b
        return row

    for left, right, a, b, t in rows:
        for winner, loser, count in ((left, right, a), (right, left, b)):
            if count > 0:
                upper += [apart(loser, winner, 0.0)] + ([apart(loser, winner, 2.0)] if ties else [])
        if ties and t > 0:
            upper += [apart(left, right, -2.0), apart(right, left, -2.0)]
    if n == 1:
        return True
    # Some direction that is not a shift: try to part each two items, and to move the tie parameter.
    aims = [apart(i, j, 0.0) for i in range(n) for j in range(n) if i != j]
    aims += [[0.0] * n + [sign] for sign in (1.0, -1.0)] if ties else []
    bounds = [(-1.0, 1.0)] * n + [(-1.0, 1.0) if ties else (0.0, 0.0)]
    for aim in aims:
        found = linprog([-c for c in aim], A_ub=upper or None, b_ub=[0.0] * len(upper) or None, bounds=bounds)
        if -found.fun > 1e-7:
            return False
    return True


def reachable(arrows: Iterable[tuple[int, int]], n: int) -> np.ndarray:
    """Return the table of who can be reached from whom, by Warshall."""
    table = np.eye(n, dtype=bool)
    for a, b in arrows:
        table[a, b] = True
    for k in range(n):
        table |= table[:, k : k + 1] & table[k : k + 1, :]
    return table


def descend(rows: Sequence[tuple[int, int, float, float, float]], n: int, steps: int, rate: float, prior: float) -> Any:
    """Return the scores after gradient steps of rate · M² / T from 0, ties left out."""
    total = sum(a + b for _, _, a, b, _ in rows)
    s = np.zeros(n)
    for _ in range(steps):
        g = -prior * s
        for i, j, a, b, _ in rows:
            p = 1 / (1 + math.exp(s[j] - s[i]))
            g[i] += a * (1 - p) - b * p
            g[j] -= a * (1 - p) - b * p
        s = s + rate * n * n / total * g
    return s
