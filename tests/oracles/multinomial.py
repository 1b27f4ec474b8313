"""The multinomial preference model written out over all ordered pairs."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

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


# An instance: the expert of each list and its table.
Instance = list[tuple[int, Any]]


def ascend_corpus(instances: Sequence[Instance], experts: int, steps: int, by_counts: bool) -> Floats:
    """Return the adherence after plain gradient steps on several instances, before it is rescaled."""
    theta = np.ones(experts)
    scores = [np.zeros(len(own[0][1])) for own in instances]
    amounts = [sum(float(np.sum(y)) for _, y in own) for own in instances]
    weight = np.array(amounts) if by_counts else np.ones(len(instances))
    said = np.zeros(experts)
    for own, w, amount in zip(instances, weight, amounts, strict=True):
        for k, y in own:
            said[k] += w * float(np.sum(y)) / amount
    for _ in range(steps):
        by_theta, moved = np.zeros(experts), []
        for own, s, w, amount in zip(instances, scores, weight, amounts, strict=True):
            tables, who = [y for _, y in own], [k for k, _ in own]
            by_score = slope(lambda x: log_likelihood(tables, theta[who], x) / amount, s)  # noqa: B023
            by_theta += w * slope(lambda t: log_likelihood(tables, t[who], s) / amount, theta)  # noqa: B023
            moved.append(s + 0.5 * len(s) * by_score)
        scores, theta = moved, np.clip(theta + 0.2 * by_theta / said, 0, 1)
    return theta


def corpus_objective(
    z: Floats, instances: Sequence[Instance], experts: int, weight: Any, ridge: float, variances: bool
) -> tuple[float, Floats]:
    """Return the weighted mean over instances of the log-likelihood per preference less its priors, and its gradient.

    The parameters are the adherence of the experts, then, for every instance, its scores and, with variances, their
    logarithms. The prior on scores is that of scores at γ = ½, which are s / (2 γ̄), γ̄ the geometric mean of γ.
    """
    theta, at = z[:experts], experts
    value, out = 0.0, np.zeros(len(z))
    for own, w in zip(instances, np.asarray(weight) / np.sum(weight), strict=True):
        m = len(own[0][1])
        s, beta = z[at : at + m], z[at + m : at + 2 * m] if variances else np.full(m, log(0.5))
        gamma, amount = np.exp(beta), sum(float(np.sum(y)) for _, y in own)
        width = gamma[:, None] + gamma
        u = (s[:, None] - s) / width
        off = ~np.eye(m, dtype=np.bool_)
        precision = ridge * exp(-2 * float(beta.mean())) / 4
        value -= w * 0.5 * precision * float(s @ s)
        by_score, by_beta = -precision * s, np.full(m, precision * float(s @ s) / m)
        if variances:
            value -= w * 0.5 * float((beta**2).mean())
            by_beta = by_beta - beta / m
        for k, y in own:
            logits = np.where(off, theta[k] * u, -np.inf)
            odds = np.exp(logits - logits.max())
            p = odds / odds.sum()
            value += w * float((y * (theta[k] * u - logits.max() - np.log(odds.sum()))).sum()) / amount
            error = (y - y.sum() * p) / amount
            both = error - error.T
            out[k] += w * float((error * u).sum())
            by_score += theta[k] * (both / width).sum(axis=1)
            by_beta -= theta[k] * gamma * (both * u / width).sum(axis=1)
        out[at : at + m] = w * by_score
        if variances:
            out[at + m : at + 2 * m] = w * by_beta
        at += 2 * m if variances else m
    return value, out


def corpus_maximum(
    instances: Sequence[Instance], experts: int, weight: Any, ridge: float, variances: bool, starts: int, seed: int = 0
) -> tuple[float, Floats]:
    """Return the best value of `corpus_objective` from several random starts, and its parameters."""
    rng = np.random.default_rng(seed)
    size = sum(len(own[0][1]) for own in instances) * (2 if variances else 1)
    arguments = (instances, experts, weight, ridge, variances)

    def negative(z: Floats) -> tuple[float, Floats]:
        value, gradient = corpus_objective(z, *arguments)
        return -value, -gradient

    bounds = [(0.0, 1.0)] * experts + [(None, None)] * size
    best: tuple[float, Floats] = (-np.inf, np.zeros(0))
    for _ in range(starts):
        z = np.concatenate([rng.random(experts), rng.normal(size=size)])
        found = minimize(
            negative,
            z,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 20000, "maxfun": 50000, "gtol": 1e-11, "ftol": 1e-17, "maxcor": 50},
        )
        best = max(best, (-float(found.fun), found.x), key=lambda one: one[0])
    return best


def covariance(tables: Sequence[Any], theta: Sequence[float], score: Any) -> Floats:
    """Return the covariance of the scores minus their mean by the inverse of the information."""
    m = len(score)

    def gradient(s: Any) -> Floats:
        return slope(lambda x: log_likelihood(tables, theta, x), s, 1e-4)

    hessian = -slope(gradient, score, 1e-4)
    inverse = np.linalg.pinv((hessian + hessian.T) / 2, rcond=1e-9, hermitian=True)
    centre = np.eye(m) - 1 / m
    return np.asarray(centre @ inverse @ centre)
