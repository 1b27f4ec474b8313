"""Tiers: groups of items that the data cannot tell apart, with an error rate for the order of tiers.

Plain tiers: a tier ends where every item below is significantly worse than the first item of the tier. Each of the
M (M − 1) / 2 pairs is tested, one-sided, at level (1 − level) over their number, so that with probability `level` the
first item of every tier is truly better than all items of later tiers.

Strict tiers: a tier ends where every item above is significantly better than every item below. If such a cut is wrong,
some two neighbours in the true order are significantly in the wrong order; otherwise the items above would be the truly
best ones. There are M − 1 pairs of true neighbours. So tests at level (1 − level) / (M − 1) suffice for all pairs of
items in different tiers, although the cuts depend on the data.
"""

from __future__ import annotations

import numpy as np

from concordant.arrays import Floats, Ints

__all__ = ["find_tiers"]


def find_tiers(
    order: Ints, score: Floats, covariance: Floats, widening: Floats, level: float, *, strict: bool = False
) -> Floats:
    """Return the tier of every item of one instance, 1 = best; NaN for items with too large an error.

    These are items without a standard error, or with one above the standard deviation of the scores: their interval
    would merge most tiers.

    Parameters
    ----------
    order : int64[m]
        The items, best first.
    score : float64[m]
        Their scores.
    covariance : float64[m, m]
        The covariance of the scores; NaN for items without a standard error.
    widening : float64[m]
        The half-width of each interval over that of the normal distribution.
    level : float
        The probability that all claims are right.
    strict : bool
        Whether the claims are about all pairs of items in different tiers.
    """
    from scipy.special import ndtri

    from concordant.data.consensus import TIE_TOLERANCE, joint_half_width

    out = np.full(len(score), np.nan)
    # Standard errors depend on the origin (an anchor has none), so those relative to the mean are used.
    has_tier = np.isfinite(np.diagonal(covariance))
    c = covariance[np.ix_(has_tier, has_tier)]
    c = c - c.mean(axis=0) - c.mean(axis=0)[:, None] + c.mean()
    if len(c) > 2:
        at = np.flatnonzero(has_tier)
        has_tier[at[np.diagonal(c) > float(np.var(score[has_tier], ddof=1))]] = False
    ranked = order[has_tier[order]]
    m = len(ranked)
    if m < 2:
        out[ranked] = 1.0
        return out
    quantile = float(-ndtri((1.0 - level) / (m - 1 if strict else m * (m - 1) / 2)))
    s, w, c = score[ranked], widening[ranked], covariance[np.ix_(ranked, ranked)]
    v = np.maximum(np.diagonal(c), 0.0)
    tolerance = TIE_TOLERANCE * float(np.abs(s).max())

    def last_inseparable(k: int) -> int:
        """Return the last item that is not significantly worse than item k."""
        spread = np.sqrt(np.maximum(v[k] + v[k:] - 2 * c[k, k:], 0.0)) * joint_half_width(v[k], v[k:], w[k], w[k:])
        return k + int(np.flatnonzero(s[k] - s[k:] <= np.maximum(quantile * spread, tolerance))[-1])

    tier, first, end = 1.0, 0, 0
    while first < m:
        end = last_inseparable(first)
        if strict:
            k = first
            while k < end:
                k += 1
                end = max(end, last_inseparable(k))
        out[ranked[first : end + 1]] = tier
        first, tier = end + 1, tier + 1.0
    return out
