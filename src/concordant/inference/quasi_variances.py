"""Quasi-variances: one number for each item, so that var(s_i − s_j) ≈ q_i + q_j whatever the reference level is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.data.consensus import Consensus
from concordant.errors import DataError, quote

if TYPE_CHECKING:
    import polars as pl

__all__ = ["QuasiVariances", "quasi_variances"]

_STEPS, _HALVINGS = 100, 60
# Converged when no quasi-variance moves by more than this part of the largest.
_TOL = 1e-12
# Beyond this many items the table of all pairs, with one unknown for each item, is not solved.
_MOST_ITEMS = 3000


class QuasiVariances(NamedTuple):
    """Quasi-variances of the scores of one instance.

    Attributes
    ----------
    items : list of str
        The items, in the order of the consensus; those without a standard error are left out.
    score : float64[m]
        Their scores.
    variance : float64[m]
        The quasi-variances q. One of them may be negative; comparisons with that item are still right.
    worst : (float, float)
        The least and the largest relative error of the standard error of a difference of two items, √(q_i + q_j) / e_ij
        − 1. Within ±0.1 is good enough for most uses.
    worst_contrast : (float, float)
        The same over all contrasts Σ c_i s_i, Σ c_i = 0.
    level : float or None
        The level of the consensus' intervals.
    """

    items: list[str]
    score: Floats
    variance: Floats
    worst: tuple[float, float]
    worst_contrast: tuple[float, float]
    level: float | None

    @property
    def stderr(self) -> Floats:
        """Quasi standard errors √q, NaN where a quasi-variance is negative."""
        out: Floats = np.sqrt(np.where(self.variance >= 0, self.variance, np.nan))
        return out

    def to_frame(self) -> pl.DataFrame:
        """Return a Polars frame: item, score, quasi_variance, quasi_stderr."""
        import polars as pl

        return pl.DataFrame(
            {
                "item": self.items,
                "score": self.score,
                "quasi_variance": self.variance,
                "quasi_stderr": self.stderr,
            }
        )


def quasi_variances(consensus: Consensus, instance: str | None = None) -> QuasiVariances:
    """Return the quasi-variances q of the scores of an instance, with their worst relative errors.

    The variance of a difference s_i − s_j depends on the covariance of both scores, which a table of standard errors
    does not show; the standard errors themselves depend on the reference (the anchor, or the mean). Quasi-variances
    minimise Σ_{i<j} [log(q_i + q_j) − log var(s_i − s_j)]², so that anyone can compare two items from the table alone.
    They do not depend on the reference. `worst` says how wrong such a comparison may be; `consensus.difference` is
    exact.

    Parameters
    ----------
    consensus : Consensus
        Of a method with intervals, such as `BradleyTerry` or `PlackettLuce`; it must hold the covariance of the scores,
        which files do not.
    instance : str, optional
        Which instance; needed where there are several. It needs three items or more.

    Notes
    -----
    Cost O(M³) for each of a few Gauss-Newton steps. For three items the quasi-variances are exact.

    References
    ----------
    Firth, Quasi-variances in Xlisp-Stat and on the web, Journal of Statistical Software 2000. Firth and de Menezes,
    Quasi-variances, Biometrika 2004.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.Comparisons("arena", None, ["a", "a", "b"], ["b", "c", "c"], [7, 8, 6], [2, 1, 3])
    >>> board = cc.BradleyTerry(prior=0, anchor="a").fit_predict(votes)
    >>> board.stderr.round(3).tolist()
    [0.0, 0.681, 0.746]
    >>> found = cc.quasi_variances(board)
    >>> found.stderr.round(3).tolist(), [abs(round(e, 6)) for e in found.worst]
    ([0.561, 0.386, 0.492], [0.0, 0.0])
    """
    if instance is None and len(consensus) != 1:
        raise DataError(f"there are {len(consensus)} instances; name one: quasi_variances(consensus, instance).")
    n = consensus._instance(instance)
    table = None if consensus.covariance is None else consensus.covariance[n]
    name = quote(consensus.instances[n])
    if table is None:
        raise DataError(
            f"the consensus has no covariance of the scores of instance {name}. Use a method with intervals, such as "
            "bradley-terry or plackett-luce, and its own consensus: a file does not store the covariance."
        )
    own = slice(int(consensus.slots.offsets[n]), int(consensus.slots.offsets[n + 1]))
    known = np.flatnonzero(~np.isnan(np.diagonal(table)))
    if not 3 <= len(known) <= _MOST_ITEMS:
        raise DataError(
            f"quasi-variances need 3 to {_MOST_ITEMS:,} items with a standard error; instance {name} has {len(known)}."
        )
    covariance = table[np.ix_(known, known)]
    one, other = np.triu_indices(len(known), 1)
    target = covariance[one, one] + covariance[other, other] - 2 * covariance[one, other]
    if not (target > 0).all():
        raise DataError(f"two items of instance {name} have a difference without variance: quasi-variances need one.")
    q = _fit(covariance, one, other, target)
    errors = np.sqrt((q[one] + q[other]) / target) - 1.0
    return QuasiVariances(
        consensus.items[own][known].tolist(),
        consensus.score[own][known],
        q,
        (float(errors.min()), float(errors.max())),
        _worst_contrast(covariance, q),
        consensus.level,
    )


def _fit(covariance: Floats, one: Ints, other: Ints, target: Floats) -> Floats:
    """Return q that minimises Σ [log(q_i + q_j) − log v_ij]², by Gauss-Newton with halved steps."""
    m = len(covariance)
    # Σ_j v_ij = (m − 2) q_i + Σ q if all were exact; kept positive, so that sums are positive.
    sums = np.bincount(one, weights=target, minlength=m) + np.bincount(other, weights=target, minlength=m)
    q = (sums - sums.sum() / (2 * (m - 1))) / (m - 2)
    q = np.asarray(np.maximum(q, 0.05 * float(target.min())), dtype=np.float64)
    logs = np.log(target)
    rest = np.log(q[one] + q[other]) - logs
    value = float(rest @ rest)
    for _ in range(_STEPS):
        weight = 1.0 / (q[one] + q[other])
        normal = np.zeros((m, m))
        normal[one, other] = normal[other, one] = weight**2
        diagonal = np.arange(m)
        normal[diagonal, diagonal] = normal.sum(axis=1)
        slope = weight * rest
        right = np.bincount(one, weights=slope, minlength=m) + np.bincount(other, weights=slope, minlength=m)
        step = -np.linalg.solve(normal, right)
        length, moved = 1.0, False
        for _ in range(_HALVINGS):
            trial: Floats = q + length * step
            total = trial[one] + trial[other]
            if (total > 0).all():
                apart = np.log(total) - logs
                if (found := float(apart @ apart)) <= value:
                    moved = True
                    break
            length /= 2
        if not moved:
            break
        q, rest, value = trial, apart, found
        if float(np.abs(length * step).max()) <= _TOL * float(np.abs(q).max()):
            break
    return np.asarray(q, dtype=np.float64)


def _worst_contrast(covariance: Floats, q: Floats) -> tuple[float, float]:
    """Return the least and the largest √(Σ c² q / var) − 1 over all contrasts c."""
    m = len(q)
    # Contrasts are spanned by differences from the last item.
    span = np.concatenate([np.eye(m - 1), -np.ones((1, m - 1))])
    root = np.linalg.cholesky(span.T @ covariance @ span)
    half = np.linalg.solve(root, span.T * np.sqrt(np.abs(q)))
    ratios = np.linalg.eigvalsh((half * np.sign(q)) @ half.T)
    low, high = np.sqrt(np.maximum(ratios[[0, -1]], 0.0)) - 1.0
    return float(low), float(high)
