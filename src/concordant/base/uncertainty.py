"""How sure a score is: from curvature and the experts' disagreement to intervals of scores and ranks.

Every model that gives intervals brings the same two things: the curvature of its objective at the estimate, and, where
outcomes hang together, the pull of each cluster (an expert) on the estimate. What follows from them is written here
once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from concordant.base.params import Constraint, integer, number, one_of, seed
from concordant.data.consensus import TIE_TOLERANCE, Consensus
from concordant.data.index import Slots
from concordant.errors import listing
from concordant.kernels.lists import Floats, Ints

__all__ = ["CONSTRAINTS", "covariance", "regauge", "sample_covariance", "some_items", "with_intervals"]

# The parameters that models with intervals have in common.
CONSTRAINTS: dict[str, Constraint] = {
    "uncertainty": one_of("auto", "information", "sandwich", "bootstrap", "none"),
    "level": Constraint("a number > 0 and < 1", lambda v: number(above=0, most=1).test(v) and v < 1),
    "n_bootstrap": integer(least=2),
    "random_state": seed(),
}

# Scores that spread no further than this do not spread.
_NO_SPREAD = 1e-9
# Rows of the table of pairs that are looked at together when ranks are bounded.
_PAIR_ROWS = 512


def covariance(
    hessian: Floats,
    *,
    scores: int,
    gradients: Floats | None = None,
    weight: Floats | None = None,
    free_shift: bool = False,
    jacobian: Floats | None = None,
) -> Floats:
    """Return the covariance of the scores minus their mean.

    Without clusters it is the inverse of the observed information, H⁻¹, which holds for independent outcomes. With
    clusters it is the sandwich H⁻¹ M H⁻¹, M = G/(G − 1) Σ_g (u_g − ū)(u_g − ū)ᵀ, which holds for independent clusters
    whatever happens inside them.

    Parameters
    ----------
    hessian : float64[p, p]
        Of the negative penalised log-likelihood; the scores come first, then whatever else was estimated.
    scores : int
        How many scores there are.
    gradients : float64[G, p], optional
        The gradient of each cluster's log-likelihood, prior left out.
    weight : float64[G], optional
        How many clusters each row stands for.
    free_shift : bool
        Whether adding a constant to all scores leaves the objective as it is, so that the Hessian is singular that way.
    jacobian : float64[scores, p], optional
        The scores as a linear function of the parameters, where they are not the first parameters themselves.

    Examples
    --------
    One item beats the other in 30 of 50 comparisons; the variance of the difference is 1 / (50 · 0.6 · 0.4):

    >>> h = 50 * 0.6 * 0.4 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> c = covariance(h, scores=2, free_shift=True)
    >>> round(float(c[0, 0] + c[1, 1] - 2 * c[0, 1]) * 12, 9)
    1.0
    """
    h = hessian
    if free_shift and scores:
        h = hessian.copy()
        # Any stiffness along the free direction will do: the mean is taken away again below.
        h[:scores, :scores] += max(float(np.trace(h)) / len(h), 1.0) / scores
    inverse = _inverse(h)
    if gradients is None:
        out = inverse
    else:
        w = np.ones(len(gradients)) if weight is None else weight
        total = float(w.sum())
        pull = (gradients - (w @ gradients) / total) * np.sqrt(w * total / max(total - 1.0, 1e-300))[:, None]
        half = pull @ inverse
        out = half.T @ half
    out = out[:scores, :scores] if jacobian is None else jacobian @ out @ jacobian.T
    return _centred((out + out.T) / 2)


def _inverse(h: Floats) -> Floats:
    """Return the inverse of a positive definite table, by its square root; the pseudo-inverse where it is singular."""
    from scipy.linalg import lapack

    root, failed = lapack.dpotrf(h, lower=True)
    if not failed:
        half, failed = lapack.dpotri(root, lower=True)
    out = np.linalg.pinv(h, hermitian=True) if failed else np.tril(half) + np.tril(half, -1).T
    return np.asarray(out, dtype=np.float64)


def _centred(c: Floats) -> Floats:
    """Return the covariance of x − mean(x) from that of x."""
    if not len(c):
        return c
    row = c.mean(axis=0)
    out: Floats = c - row[None, :] - row[:, None] + row.mean()
    return out


def sample_covariance(scores: Floats) -> Floats:
    """Return the covariance of the scores minus their mean from repeated estimates, one per row."""
    apart = scores - scores.mean(axis=1, keepdims=True)
    apart = apart - apart.mean(axis=0)
    out: Floats = apart.T @ apart / max(len(scores) - 1, 1)
    return out


def regauge(covariance: Floats, anchor: int | None) -> Floats:
    """Return the covariance of the scores minus that of the anchor (minus their mean, for None).

    >>> c = np.array([[0.5, -0.5], [-0.5, 0.5]])
    >>> regauge(c, 0).tolist()
    [[0.0, 0.0], [0.0, 2.0]]
    """
    if anchor is None:
        return _centred(covariance)
    at = covariance[anchor]
    out: Floats = covariance - at[None, :] - at[:, None] + at[anchor]
    return out


def _quantile(tail: float, clusters: float | None) -> float:
    """Return the value that a standard estimate exceeds with this probability: Student's t where clusters are few."""
    from scipy import special

    return float(-special.ndtri(tail) if clusters is None else -special.stdtrit(max(clusters - 1.0, 1.0), tail))


def with_intervals(
    slots: Slots,
    score: Floats,
    covariances: Sequence[Floats | None],
    *,
    level: float = 0.95,
    clusters: Sequence[float] | None = None,
    gauge: str = "the scores of an instance have mean 0",
    method: str,
    known: Any = None,
    warn: Callable[[str], None] | None = None,
) -> Consensus:
    """Return the consensus of scores with their standard errors, intervals, rank intervals and covariance.

    The interval of a score is score ± q · standard error, q from the normal law, or from Student's with G − 1 degrees
    where G clusters were counted. The rank interval of an item counts who is surely better and who is surely worse:
    its score is compared with every other one at level 1 − (1 − level)/(M − 1), so that with probability `level` none
    of the M − 1 verdicts about it is wrong.

    Parameters
    ----------
    slots, score
        As in `Consensus.from_codes`.
    covariances : sequence of float64[m, m] or None
        One for each instance; None where nothing can be said, which leaves NaN and the ranks 1 to M.
    level : float
        Of each interval.
    clusters : sequence of float, optional
        How many experts spoke in each instance, where they are the clusters.
    gauge, method : str
        What fixes the origin of the scores, and how the intervals were made.
    known : bool[S], optional
        False for items about which nobody said anything.
    warn : callable, optional
        Where to say that an instance gets no intervals because its clusters do not differ at all: experts who all say
        the same leave a sandwich or a bootstrap without spread, and that is no certainty.

    Examples
    --------
    >>> from concordant.data.index import Texts
    >>> slots = Slots(Texts(["q"]), Texts(["a", "b"]), np.array([0, 2]))
    >>> c = with_intervals(slots, np.array([1.0, -1.0]), [np.array([[0.1, -0.1], [-0.1, 0.1]])], method="information")
    >>> c.rank_lower.tolist(), c.rank_upper.tolist()
    ([1.0, 2.0], [1.0, 2.0])
    """
    n = slots.n_slots
    stderr, margin = np.full(n, np.nan), np.full(n, np.nan)
    edges = slots.offsets.tolist()
    sizes = np.diff(slots.offsets)
    rank_lower = np.ones(n)
    rank_upper = np.repeat(sizes, sizes).astype(np.float64)
    blocks: list[Floats | None] = []
    flat: list[int] = []
    for q, c in enumerate(covariances):
        first, last = edges[q], edges[q + 1]
        m = last - first
        told = np.ones(m, dtype=np.bool_) if known is None else np.asarray(known[first:last], dtype=np.bool_)
        if c is None or m == 0 or not told.any():
            blocks.append(None)
            continue
        if m > 1 and not (np.diag(c) > _NO_SPREAD**2).any():
            flat.append(q)
            blocks.append(None)
            continue
        if not told.all():
            c = np.where(told[:, None] & told[None, :], c, np.nan)
        g = None if clusters is None else float(clusters[q])
        blocks.append(c)
        stderr[first:last] = np.sqrt(np.maximum(np.diag(c), 0.0))
        margin[first:last] = _quantile((1.0 - level) / 2, g) * stderr[first:last]
        if m > 1:
            apart = _quantile((1.0 - level) / 2 / (m - 1), g)
            better, worse = _sure(score[first:last], c, apart)
            rank_lower[first:last] += better
            rank_upper[first:last] -= worse
    if flat and warn is not None:
        warn(
            f"no intervals for {some_items(slots, flat)}: the experts all say the same there, which does not show how "
            "far experts differ. uncertainty='information' takes every outcome for an observation of its own."
        )
    return Consensus.from_codes(
        slots,
        score,
        stderr=stderr,
        lower=score - margin,
        upper=score + margin,
        rank_lower=rank_lower,
        rank_upper=rank_upper,
        level=level,
        gauge=gauge,
        interval_method=method,
        covariance=tuple(blocks),
    )


def some_items(slots: Slots, instances: Sequence[int] | Ints) -> str:
    """Return the items of the first of these instances in words, and how many instances more there are."""
    n = int(instances[0])
    items = slots.items[int(slots.offsets[n]) : int(slots.offsets[n + 1])]
    more = f" and {len(instances) - 1} more" if len(instances) > 1 else ""
    return f"items {listing(items.tolist(), 5)} of instance {slots.instances[n]!r}{more}"


def _sure(score: Floats, c: Floats, apart: float) -> tuple[Any, Any]:
    """Return how many others are surely better and surely worse than each item."""
    variance = np.diag(c)
    equal = TIE_TOLERANCE * float(np.abs(score).max())
    better, worse = np.zeros(len(score)), np.zeros(len(score))
    for start in range(0, len(score), _PAIR_ROWS):
        rows = slice(start, start + _PAIR_ROWS)
        gap = score[None, :] - score[rows, None]
        spread = np.sqrt(np.maximum(variance[rows, None] + variance[None, :] - 2 * c[rows], 0.0))
        # A comparison with NaN, an item nobody speaks of, is never sure; scores that count as equal are not either.
        reach = np.maximum(apart * spread, equal)
        better[rows] = (gap > reach).sum(axis=1)
        worse[rows] = (-gap > reach).sum(axis=1)
    return better, worse
