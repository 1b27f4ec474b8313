"""Losses of graded lists, pair by pair and stage by stage, in decimals that no exponential leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Loss of a pair, its slopes by the two scores, and by the extra parameter.
Pair = tuple[Decimal, Decimal, Decimal, Decimal]
NONE = (Decimal(0), Decimal(0), Decimal(0), Decimal(0))


def logistic(f_i: Decimal, f_j: Decimal, tied: bool, extra: Decimal) -> Pair:
    if tied:
        return NONE
    small = (f_j - f_i).exp()
    return (1 + small).ln(), -small / (1 + small), small / (1 + small), Decimal(0)


def hinge(f_i: Decimal, f_j: Decimal, tied: bool, extra: Decimal) -> Pair:
    # What counts as 1 apart is said in floats, as the scores are.
    if tied or not float(f_i) - float(f_j) < 1.0:
        return NONE
    return 1 - (f_i - f_j), Decimal(-1), Decimal(1), Decimal(0)


def quadratic(f_i: Decimal, f_j: Decimal, tied: bool, extra: Decimal) -> Pair:
    if tied:
        return NONE
    miss = 1 - (f_i - f_j)
    return miss * miss, -2 * miss, 2 * miss, Decimal(0)


def davidson(f_i: Decimal, f_j: Decimal, tied: bool, extra: Decimal) -> Pair:
    half = (f_i - f_j) / 2
    win, loss, tie = half.exp(), (-half).exp(), extra.exp()
    total = win + loss + tie
    win, loss, tie = win / total, loss / total, tie / total
    if tied:
        return -tie.ln(), -(loss - win) / 2, -(win - loss) / 2, -(1 - tie)
    return -win.ln(), -(1 - win - tie / 2), loss + tie / 2, tie


def rao_kupper(f_i: Decimal, f_j: Decimal, tied: bool, extra: Decimal) -> Pair:
    grown = extra.exp()
    theta = 1 + grown
    phi_i, phi_j = f_i.exp(), f_j.exp()
    p_i, star_j = phi_i / (phi_i + theta * phi_j), phi_j / (phi_i + theta * phi_j)
    star_i, p_j = phi_i / (theta * phi_i + phi_j), phi_j / (theta * phi_i + phi_j)
    if not tied:
        return -p_i.ln(), -(1 - p_i), theta * star_j, grown * star_j
    tie = (theta * theta - 1) * star_i * star_j
    by_extra = grown * (2 * theta / (theta * theta - 1) - star_i - star_j)
    return -tie.ln(), -(1 - p_i - theta * star_i), -(1 - p_j - theta * star_j), -by_extra


def over_pairs(
    pair: Callable[[Decimal, Decimal, bool, Decimal], Pair],
    score: Sequence[float],
    label: Sequence[float],
    extra: float = 0.0,
    digits: int = 60,
) -> tuple[float, Floats, float]:
    """Return the loss of one list, its slopes by the scores and by the extra parameter, from all pairs."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = digits, MAX_EMAX, MIN_EMIN
        f = [Decimal(float(s)) for s in score]
        value, by_extra = Decimal(0), Decimal(0)
        slope = [Decimal(0)] * len(f)
        for i in range(len(f)):
            for j in range(len(f)):
                if label[i] > label[j] or (label[i] == label[j] and i < j):
                    cost, up, down, own = pair(f[i], f[j], label[i] == label[j], Decimal(float(extra)))
                    value += cost
                    slope[i] += up
                    slope[j] += down
                    by_extra += own
        return float(value), np.array([float(g) for g in slope]), float(by_extra)


def stages(score: Sequence[float], blocks: Sequence[Sequence[int]], digits: int = 60) -> tuple[float, Floats]:
    """Return −Σ_k [log Σ_{X_k} e^s − log Σ_{R_k} e^s] of one list, and its slope."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = digits, MAX_EMAX, MIN_EMIN
        phi = [Decimal(float(s)).exp() for s in score]
        value = Decimal(0)
        slope = [Decimal(0)] * len(phi)
        for k, block in enumerate(blocks):
            left = [i for later in blocks[k:] for i in later]
            chosen, whole = sum((phi[i] for i in block), Decimal(0)), sum((phi[i] for i in left), Decimal(0))
            value -= (chosen / whole).ln()
            for i in block:
                slope[i] -= phi[i] / chosen
            for i in left:
                slope[i] += phi[i] / whole
        return float(value), np.array([float(g) for g in slope])
