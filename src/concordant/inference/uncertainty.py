"""Standard errors, intervals and rank ranges: cluster-robust covariance, moderated where clusters are few.

A model with intervals provides the Hessian of its objective and, where the outcomes of one expert are correlated, the
gradients of the experts as clusters. The sandwich built from them is valid for many clusters and fails for an item that
few clusters inform: at the optimum the gradients of its clusters cancel, and a single cluster leaves a variance of
zero. So each variance is a weighted mean of the item's own sandwich and of the information times a design effect that
all items share, like the moderated variances of genomics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.data.consensus import TIE_TOLERANCE, Consensus
from concordant.data.index import Slots
from concordant.errors import UncertaintyWarning, listing

__all__ = [
    "WEAK_PRIOR",
    "Clusters",
    "ScoreCovariance",
    "batched",
    "is_covariance",
    "warn_few_instances",
    "ModeratedMeat",
    "moderated",
    "moderated_meat",
    "regauge",
    "sample_covariance",
    "some_items",
    "score_covariance",
    "with_intervals",
]

# Precision of the default normal prior on a score: a standard deviation of 3.2 on the scale of log odds. A stronger one
# shortens the errors of the average item and loses the best one of a wide field (docs/uncertainty.md has the figures).
WEAK_PRIOR = 0.1
# The weight of the shared design effect, in clusters, beside an item's own.
_POOLED_CLUSTERS = 10.0
# A warning names items with fewer effective clusters than this, in instances that have more.
_FEW_CLUSTERS = 5.0
# Adherence learned from fewer instances than this is too uncertain to be taken as known.
_FEW_INSTANCES = 50
# Clusters do not differ where the squares of their gradients sum to no more than this part of the information.
_NO_SPREAD = 1e-9
_TINY = 1e-300
# Rounding errors of a covariance are smaller than this part of it.
_ROUNDING = 1e-6
# Instances, and rows of a covariance, are batched up to this many cells.
_BATCH_CELLS = 1 << 16
# From this many items on ranges of ranks are computed in single precision, which suffices.
_MANY_RANKED = 256
# The least variance of true scores, as a share of the mean variance of errors, and the steps of its iteration.
_LEAST_BETWEEN, _PAULE_MANDEL_STEPS = 0.05, 12
# Rows of the matrix of pairs that are computed together for simultaneous ranges.
_PAIR_ROWS = 512


class Clusters(NamedTuple):
    """Sums over the experts of one or more instances as clusters; instances of equal size may be stacked.

    Attributes
    ----------
    meat : float64[..., p, p]
        Σ_g u_g u_gᵀ over the gradients u_g of the clusters' log-likelihoods: scores first, then what else was
        estimated.
    information : float64[..., m]
        Σ_g h_gi, h_gi the information of cluster g about item i: the diagonal of its −Hessian.
    squares : float64[..., m]
        Σ_g h_gi².
    count : float64[...]
        The number of clusters.
    total : float64[..., m]
        Σ_g u_g along the scores: at the optimum the gradient of the prior's penalty, 0 without a prior.
    """

    meat: Floats
    information: Floats
    squares: Floats
    count: Any
    total: Floats

    @classmethod
    def of(cls, gradients: Floats, information: Floats, weight: Floats | None = None) -> Clusters:
        """Return the sums over clusters, each of which stands for `weight` equal ones."""
        w = np.ones(len(gradients)) if weight is None else weight
        meat = (gradients * w[:, None]).T @ gradients
        total = w @ gradients[:, : information.shape[1]]
        return cls(meat, w @ information, w @ information**2, float(w.sum()), total)

    @property
    def amount(self) -> Floats:
        """Σ_g h_gi, or for likelihoods that are not concave (ordered partitions) a lower bound of Σ_g |h_gi|."""
        out: Floats = np.maximum(self.information, np.sqrt(self.squares))
        return out


class ScoreCovariance(NamedTuple):
    """The covariance of the scores minus their mean, with the degrees of freedom of the variances.

    Attributes
    ----------
    table : float64[..., m, m]
        The covariance.
    freedom : float64[..., m]
        Degrees of freedom of each variance, infinite where it is not estimated from clusters.
    clusters : float64[..., m]
        Effective number of clusters that inform each item, infinite for a covariance without clusters.
    unanimous : bool[...]
        Whether the clusters do not differ at all, so that the covariance comes from the information alone.
    """

    table: Floats
    freedom: Floats
    clusters: Floats
    unanimous: Any

    @classmethod
    def of(cls, known: Floats) -> ScoreCovariance:
        """Return a covariance that is not estimated from clusters."""
        endless = np.full(known.shape[:-1], np.inf)
        return cls(known, endless, endless, np.zeros(known.shape[:-2], dtype=np.bool_))

    def one(self, k: int) -> ScoreCovariance:
        """Return the covariance of one instance of a stack."""
        return ScoreCovariance(self.table[k], self.freedom[k], self.clusters[k], bool(self.unanimous[k]))

    def placed(self, places: Ints, size: int) -> ScoreCovariance:
        """Return the covariance of `size` items, of which these are at `places`; the others have variance 0."""
        table = np.zeros((size, size))
        table[np.ix_(places, places)] = self.table
        freedom, clusters = np.full(size, np.inf), np.full(size, np.inf)
        freedom[places], clusters[places] = self.freedom, self.clusters
        return ScoreCovariance(table, freedom, clusters, self.unanimous)

    def anchored(self, anchor: int) -> ScoreCovariance:
        """Return the covariance of the scores minus the score of the anchor."""
        variance = np.diag(self.table)
        doubt = variance**2 / self.freedom
        doubt = doubt + doubt[anchor]
        freedom = np.full(len(variance), np.inf)
        np.divide((variance + variance[anchor]) ** 2, doubt, out=freedom, where=doubt > 0)
        return self._replace(table=regauge(self.table, anchor), freedom=freedom)


def score_covariance(
    hessian: Floats,
    *,
    scores: int,
    prior: Any = 0.0,
    calibration: Any = 1.0,
    clusters: Clusters | None = None,
    repeated: Floats | None = None,
) -> ScoreCovariance:
    """Return the covariance of the scores minus their mean.

    Without clusters it is that of the posterior, H⁻¹ (H_ℓ + cP) H⁻¹ with H = H_ℓ + P, P the prior's precision; c = 1
    makes it H⁻¹. With clusters it is

        v_ij = √(a_i a_j) S_ij + √(b_i b_j K_i K_j) B_ij,   a_i = G_i / (G_i − 1 + d),   b_i = d / (G_i − 1 + d),

    S = H⁻¹ (M + cP) H⁻¹ the clustered sandwich, B the posterior covariance above, G_i = (Σ_g h_gi)² / Σ_g h_gi² the
    effective number of clusters that inform item i, and d = 10. The design effect is K_i = 1 + v Σ_g h_gi² / Σ_g h_gi:
    if the score of an item varies by v between experts, gradients have variance h + v h². v ≥ 0 is estimated by
    moments from all items. With many clusters this is the sandwich; with one it is the information times K.

    Parameters
    ----------
    hessian : float64[..., p, p]
        Hessian of the negative penalised log-likelihood; the scores come first, then other parameters. Without a prior
        it is singular along a common shift of the scores; it is regularised here.
    scores : int
        m, the number of scores.
    prior : float or float64[..., m]
        The diagonal of P.
    calibration : float or float64[...]
        c, how many times the likelihood counts an observation: 1 for outcomes, more for the pairs of lists.
    clusters : Clusters, optional
        The experts.
    repeated : float64[..., m, m], optional
        H⁻¹ M H⁻¹ from repeated estimates (a bootstrap), in place of the one from the clusters' meat.

    Examples
    --------
    One item beats the other in 30 of 50 comparisons; the variance of the difference is 1 / (50 · 0.6 · 0.4):

    >>> h = 50 * 0.6 * 0.4 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> c = score_covariance(h, scores=2).table
    >>> round(float(c[0, 0] + c[1, 1] - 2 * c[0, 1]) * 12, 9)
    1.0
    """
    m = scores
    own = np.broadcast_to(np.asarray(prior, dtype=np.float64), (*hessian.shape[:-2], m))
    times = np.asarray(calibration, dtype=np.float64)[..., None, None]
    diagonal = np.diagonal(hessian, axis1=-2, axis2=-1)[..., :m]
    # An item without information stays at the prior's mode and adds nothing to the variance of the mean.
    heard = diagonal > own * (1.0 + 1e-12)
    inverse = _inverse(_regularised(hessian, m, own))
    pick = inverse[..., :m, :]
    known = pick[..., :, :m]
    by_prior = None
    if own.any() and (clusters is not None or repeated is not None or (times != 1.0).any()):
        by_prior = (pick[..., :, :m] * own[..., None, :]) @ np.swapaxes(pick[..., :, :m], -1, -2)
        known = known + (times - 1.0) * by_prior
    known = _centred(_scaled(known, heard))
    sandwich = repeated
    if clusters is not None and repeated is None:
        sandwich = pick @ clusters.meat @ np.swapaxes(pick, -1, -2)
    if sandwich is not None:
        if by_prior is not None:
            sandwich = sandwich + times * by_prior
        sandwich = _centred(_scaled(sandwich, heard))
    if clusters is None or sandwich is None:
        return ScoreCovariance.of(_symmetrised(known if sandwich is None else sandwich))
    return moderated(known, sandwich, clusters)


def moderated(
    known: Floats, sandwich: Floats, clusters: Clusters, *, effective: Floats | None = None
) -> ScoreCovariance:
    """Return the weighted mean of the clustered sandwich and of the information times a design effect.

    Parameters
    ----------
    known, sandwich : float64[..., m, m]
        B and S, of the scores minus their mean.
    clusters : Clusters
        The experts.
    effective : float64[..., m], optional
        G_i, where the likelihood of an expert may depend on the score of an item that the expert does not compare.
    """
    at = np.diagonal(known, axis1=-2, axis2=-1)
    seen = np.diagonal(sandwich, axis1=-2, axis2=-1)
    count, effective, a, b, design, unanimous = _moderation(clusters, known.shape[-1], effective)
    table = _scaled(sandwich, np.sqrt(a)) + _scaled(known, np.sqrt(b * design))
    variance = np.diagonal(table, axis1=-2, axis2=-1)
    # Satterthwaite: the item's own part has the degrees of freedom of its clusters, the shared part those of all.
    pooled = b * (design - 1.0) * at
    doubt = (a * seen) ** 2 / np.maximum(effective - 1.0, 1.0) + pooled**2 / np.maximum(2.0 * (count - 1.0), 1.0)
    freedom = np.full(variance.shape, np.inf)
    np.divide(variance**2, doubt, out=freedom, where=doubt > 0)
    return ScoreCovariance(_symmetrised(table), np.maximum(freedom, 1.0), effective, unanimous)


class _Moderation(NamedTuple):
    """The number of clusters, G_i, a_i, b_i and K_i of `score_covariance`, and whether clusters do not differ."""

    n_clusters: Floats
    effective: Floats
    a: Floats
    b: Floats
    design: Floats
    unanimous: Any


def _moderation(clusters: Clusters, m: int, effective: Floats | None = None) -> _Moderation:
    """Return what moderates the sandwich of `m` scores; `effective` is as in `moderated`."""
    count = np.asarray(clusters.count, dtype=np.float64)[..., None]
    from_all = clusters.information**2 / np.maximum(clusters.squares, _TINY)
    design = _design_effect(clusters, m, from_all)
    # The gradients of equal clusters balance the prior together, each with the same share.
    apart = np.diagonal(clusters.meat, axis1=-2, axis2=-1)[..., :m] - np.square(clusters.total) / np.maximum(count, 1.0)
    unanimous: Any = (apart <= _NO_SPREAD * clusters.amount).all(axis=-1) & (m > 1)
    effective = np.clip(from_all if effective is None else effective, 1.0, np.maximum(count, 1.0))
    share = effective - 1.0 + _POOLED_CLUSTERS
    a = np.where(unanimous[..., None], 0.0, effective / share)
    b = np.where(unanimous[..., None], 1.0, _POOLED_CLUSTERS / share)
    return _Moderation(count, effective, a, b, design, unanimous)


class ModeratedMeat(NamedTuple):
    """The covariance of the gradient of the votes, moderated where clusters are few.

    Attributes
    ----------
    table : float64[p, p]
        The covariance: scores first, then what else was estimated.
    clusters : Clusters
        The sums that it was made from.
    effective : float64[m]
        The effective number of clusters that inform each score.
    own, pooled : float64[m]
        The part of its diagonal that the score's own clusters give, and the part of the common design effect above 1.
    """

    table: Floats
    clusters: Clusters
    effective: Floats
    own: Floats
    pooled: Floats


def moderated_meat(information: Floats, clusters: Clusters) -> ModeratedMeat:
    """Return √(a_i a_j) M_ij + √(b_i b_j K_i K_j) H_ij, M the meat of the clusters and H the information of the scores.

    It moderates the gradients as `moderated` does the covariance, with the same a, b and K: for models in which a score
    is estimated from the clusters of other scores too.

    Examples
    --------
    One cluster does not show how far clusters differ:

    >>> one = Clusters(np.zeros((1, 1)), np.array([4.0]), np.array([16.0]), 1.0, np.zeros(1))
    >>> moderated_meat(np.array([[4.0]]), one).table.tolist()
    [[4.0]]
    """
    m = len(information)
    _, effective, a, b, design, _ = _moderation(clusters, m)
    table = np.array(clusters.meat)
    table[:m] *= np.sqrt(a)[:, None]
    table[:, :m] *= np.sqrt(a)
    own = np.diagonal(table)[:m].copy()
    table[:m, :m] += _scaled(information, np.sqrt(b * design))
    pooled = b * (design - 1.0) * np.diagonal(information)
    return ModeratedMeat(table, clusters, effective, own, pooled)


def batched(
    how: Callable[..., ScoreCovariance], given: Sequence[dict[str, Any] | None]
) -> list[ScoreCovariance | None]:
    """Return `score_covariance` or `moderated` of every instance, batching small instances of equal size.

    With many small instances, calls from Python would take most of the time. A small instance that is alone is a batch
    of one, so that its numbers do not depend on the others to the last bit.
    """
    out: list[ScoreCovariance | None] = [None] * len(given)
    by_size: dict[int, list[tuple[int, dict[str, Any]]]] = {}
    for n, arguments in enumerate(given):
        if arguments is not None:
            by_size.setdefault(len(next(iter(arguments.values()))), []).append((n, arguments))
    for m, which in by_size.items():
        step = max(1, _BATCH_CELLS // (m * m))
        for first in range(0, len(which), step):
            own = which[first : first + step]
            names = own[0][1]
            if m * m > _BATCH_CELLS:
                out[own[0][0]] = how(**names)
                continue
            found = how(**{name: _batch([arguments[name] for _, arguments in own]) for name in names})
            for k, (n, _) in enumerate(own):
                out[n] = found.one(k)
    return out


def _batch(values: list[Any]) -> Any:
    """Stack the same argument of several instances."""
    if isinstance(values[0], Clusters):
        return Clusters(*(np.stack([np.asarray(v[k]) for v in values]) for k in range(len(Clusters._fields))))
    return np.stack(values) if isinstance(values[0], np.ndarray) else values[0]


def _design_effect(clusters: Clusters, m: int, effective: Floats) -> Floats:
    """Return K_i = 1 + v Σ h² / Σ h, v by moments over all items of an instance.

    At the optimum the gradients of an item's clusters sum to nearly 0, which takes 1/G_i of their squares away:
    E Σ_g u_gi² = (1 − 1/G_i) (Σ_g h_gi + v Σ_g h_gi²).
    """
    seen = np.diagonal(clusters.meat, axis1=-2, axis2=-1)[..., :m]
    information = np.maximum(clusters.amount, _TINY)
    left = 1.0 - 1.0 / np.maximum(effective, 1.0)
    size = clusters.squares / information
    excess = np.where(effective > 0, seen / information - left, 0.0).sum(axis=-1, keepdims=True)
    per_unit = (left * size).sum(axis=-1, keepdims=True)
    variance = np.where(per_unit > 0, np.maximum(excess, 0.0) / np.maximum(per_unit, _TINY), 0.0)
    out: Floats = 1.0 + variance * size
    return out


def _regularised(hessian: Floats, m: int, prior: Floats) -> Floats:
    """Return the Hessian; without a prior with a stiffness along the shift of all scores, taken away again later."""
    if prior.any() or not m:
        return hessian
    out = hessian.copy()
    mean = np.trace(hessian, axis1=-2, axis2=-1)[..., None, None] / hessian.shape[-1]
    out[..., :m, :m] += np.maximum(mean, 1.0) / m
    return out


def _inverse(h: Floats) -> Floats:
    """Return the inverse of a positive definite table, by its square root; the pseudo-inverse where it is singular."""
    if h.ndim > 2:
        try:
            return np.asarray(np.linalg.inv(h), dtype=np.float64)
        except np.linalg.LinAlgError:
            return np.asarray(np.linalg.pinv(h, hermitian=True), dtype=np.float64)
    from scipy.linalg import lapack

    root, failed = lapack.dpotrf(h, lower=True)
    if not failed:
        half, failed = lapack.dpotri(root, lower=True)
    out = np.linalg.pinv(h, hermitian=True) if failed else np.tril(half) + np.tril(half, -1).T
    return np.asarray(out, dtype=np.float64)


def _scaled(table: Floats, by: Any) -> Floats:
    out: Floats = table * by[..., :, None] * by[..., None, :]
    return out


def _symmetrised(table: Floats) -> Floats:
    out: Floats = (table + np.swapaxes(table, -1, -2)) / 2
    return out


def _centred(c: Floats) -> Floats:
    """Return the covariance of x − mean(x) from that of x."""
    if not c.shape[-1]:
        return c
    row = c.mean(axis=-2, keepdims=True)
    column = c.mean(axis=-1, keepdims=True)
    out: Floats = c - row - column + row.mean(axis=-1, keepdims=True)
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
    # Rounding must not leave the anchor a variance.
    for line in (out[anchor], out[:, anchor]):
        line[np.isfinite(line)] = 0.0
    return out


def is_covariance(matrix: Floats) -> bool:
    """Return whether a square matrix is symmetric, with no variance below 0 and no correlation beyond 1."""
    variance = np.diagonal(matrix)
    limit = np.sqrt(np.maximum(variance[:, None] * variance[None, :], 0.0)) * (1.0 + _ROUNDING)
    symmetric = np.abs(matrix - matrix.T) <= _ROUNDING * limit
    return bool((variance >= 0).all() and symmetric.all() and (np.abs(matrix) <= limit).all())


def _quantile(tail: float, freedom: Floats) -> Floats:
    """Return the upper quantile of Student's t distribution with `freedom` degrees of freedom."""
    from scipy import special

    out = np.full(np.shape(freedom), -special.ndtri(tail))
    some = np.isfinite(freedom)
    out[some] = -special.stdtrit(freedom[some], tail)
    return out


def with_intervals(
    slots: Slots,
    score: Floats,
    spreads: Sequence[ScoreCovariance | None],
    *,
    level: float = 0.95,
    rank_ranges: str = "marginal",
    gauge: str = "the scores of an instance have mean 0",
    method: str,
    known: Any = None,
    scale: str | None = None,
    warn: Callable[[str, type[UncertaintyWarning]], None] | None = None,
) -> Consensus:
    """Return the consensus of scores with their standard errors, intervals, rank ranges and covariance.

    The interval of a score is score ± q · standard error, q the quantile of Student's t with the degrees of freedom of
    its variance. A marginal range of ranks holds the rank of its item with probability `level`: from the distribution
    of the number of items that are better. A simultaneous one counts the items that are surely better and surely worse:
    the item is compared with every other one at level 1 − (1 − level)/(M − 1), so that with probability `level` none of
    these M − 1 comparisons is wrong.

    Parameters
    ----------
    slots, score
        As in `Consensus.from_codes`.
    spreads : sequence of ScoreCovariance or None
        One for each instance; None leaves its standard errors NaN and its ranges of ranks 1 to M.
    level : float
        Level of each interval.
    rank_ranges : {"marginal", "simultaneous"}
        The kind of the ranges of ranks.
    gauge, method : str
        What fixes the origin of the scores, and how the intervals were made.
    known : bool[S], optional
        False for items without an observation.
    scale : str, optional
        The scale of the scores, as in `Consensus`.
    warn : callable, optional
        Receives warnings about items with few experts, and instances whose experts all say the same.

    Examples
    --------
    >>> from concordant.data.index import Texts
    >>> slots = Slots(Texts(["q"]), Texts(["a", "b"]), np.array([0, 2]))
    >>> information = np.array([[5.0, -5.0], [-5.0, 5.0]])
    >>> c = with_intervals(
    ...     slots, np.array([1.0, -1.0]), [score_covariance(information, scores=2)], method="information"
    ... )
    >>> c.rank_lower.tolist(), c.rank_upper.tolist()
    ([1.0, 2.0], [1.0, 2.0])
    """
    n = slots.n_slots
    stderr, freedom = np.full(n, np.nan), np.full(n, np.inf)
    edges = slots.offsets.tolist()
    sizes = np.diff(slots.offsets)
    told = np.ones(n, dtype=np.bool_) if known is None else np.array(known, dtype=np.bool_)
    ranges = np.stack([np.ones(n), np.repeat(sizes, sizes).astype(np.float64)])
    tables: list[Floats | None] = [None] * len(sizes)
    unanimous: list[int] = []
    rare: list[int] = []
    for q, one in enumerate(spreads):
        own = slice(edges[q], edges[q + 1])
        if one is None or not told[own].any():
            continue
        tables[q] = c = one.table if told[own].all() else np.where(told[own, None] & told[None, own], one.table, np.nan)
        stderr[own] = np.sqrt(np.maximum(np.diag(c), 0.0))
        freedom[own] = one.freedom
        if one.unanimous:
            unanimous.append(q)
        if one.clusters[0] < np.inf:
            rare += (edges[q] + np.flatnonzero(told[own] & _is_rare(one.clusters))).tolist()
    reach = _quantile((1.0 - level) / 2, freedom)
    # The observed items of every instance with their covariance, by the number of them.
    by_size: dict[int, list[tuple[Ints, Floats]]] = {}
    for q, table in enumerate(tables):
        own = slice(edges[q], edges[q + 1])
        if table is None or len(table) < 2:
            continue
        if rank_ranges == "simultaneous":
            ranges[:, own] = _simultaneous_ranges(score[own], table, reach[own], level)
            continue
        seen = np.flatnonzero(told[own])
        if len(seen) > 1:
            whole = table if len(seen) == len(table) else table[np.ix_(seen, seen)]
            by_size.setdefault(len(seen), []).append((seen + own.start, whole))
    for m, which in by_size.items():
        step = max(1, _BATCH_CELLS // (m * m))
        for first in range(0, len(which), step):
            part = which[first : first + step]
            at = np.stack([places for places, _ in part])
            found = _marginal_ranges(score[at], np.stack([table for _, table in part]), reach[at], level)
            # Any item without an observation may be better.
            ranges[0, at], ranges[1, at] = found[0], found[1] + ranges[1, at] - m
    if warn is not None:
        _mention(slots, rare, unanimous, warn)
    return Consensus.from_codes(
        slots,
        score,
        stderr=stderr,
        lower=score - reach * stderr,
        upper=score + reach * stderr,
        rank_lower=ranges[0],
        rank_upper=ranges[1],
        level=level,
        gauge=gauge,
        interval_method=method,
        scale=scale,
        covariance=tuple(tables),
    )


def warn_few_instances(instances: int, warn: Callable[[str, type[UncertaintyWarning]], None]) -> None:
    """Warn where adherence was learned from so few instances that taking it as known makes intervals too short."""
    if instances < _FEW_INSTANCES:
        several = "one instance" if instances == 1 else f"{instances} instances"
        warn(
            f"the adherence of the experts was learned from {several} and is taken as known: intervals are too short "
            f"with fewer than {_FEW_INSTANCES}. Learn from more, or leave the adherence out.",
            UncertaintyWarning,
        )


def _is_rare(clusters: Floats) -> Any:
    """Return the items that few experts compare though the instance has more experts."""
    most = float(clusters[np.isfinite(clusters)].max(initial=0.0))
    if most < _FEW_CLUSTERS:
        return np.zeros(len(clusters), dtype=np.bool_)
    return (clusters < _FEW_CLUSTERS) & (clusters <= most / 2)


def _mention(
    slots: Slots, rare: list[int], unanimous: list[int], warn: Callable[[str, type[UncertaintyWarning]], None]
) -> None:
    """Warn of items with few experts and of instances whose experts all say the same."""
    if rare:
        instance = slots.instance[np.array(rare)]
        own = int((instance == instance[0]).sum())
        where, names = slots.instances[int(instance[0])], [slots.items[s] for s in rare[: min(own, 100)]]
        more = len(rare) - own
        elsewhere = f" (and {more:,} items of other instances)" if more else ""
        warn(
            f"fewer than {_FEW_CLUSTERS:.0f} experts speak of items {listing(names, 5)} of instance {where!r}"
            f"{elsewhere}: how far experts differ about them is taken from the other items, and their intervals are "
            "wide.",
            UncertaintyWarning,
        )
    if unanimous:
        warn(
            f"the experts all say the same of {some_items(slots, unanimous)}, which does not show how far experts "
            "differ: the intervals there take every outcome for an observation of its own.",
            UncertaintyWarning,
        )


def some_items(slots: Slots, instances: Sequence[int] | Ints) -> str:
    """Return a phrase that names the items of the first of these instances, and the number of further instances."""
    n = int(instances[0])
    items = slots.items[int(slots.offsets[n]) : int(slots.offsets[n + 1])]
    more = f" and {len(instances) - 1} more" if len(instances) > 1 else ""
    return f"items {listing(items.tolist(), 5)} of instance {slots.instances[n]!r}{more}"


def _marginal_ranges(score: Floats, c: Floats, reach: Floats, level: float) -> Floats:
    """Return the marginal ranges of ranks, [lowest and highest, instance, item], of instances of equal size.

    Estimated scores lie further apart than true ones, so ranges from estimates would miss the ranks of items that are
    nearly equal. By empirical Bayes the true scores are a normal sample, whose variance is that of the estimates minus
    that of their errors; given the estimates they are normal with mean s and covariance C. The number of items better
    than item i has mean Σ_j p_ij, p_ij = P(s_j > s_i), and a variance of two parts: that of s_i, which moves all p_ij
    together, and that of the others given s_i. Its distribution is approximated by a normal one.
    """
    from scipy.special import ndtr, ndtri

    reach_of_level = -ndtri((1.0 - level) / 2)
    score, c = _empirical_bayes(score, _centred(_scaled(c, reach / reach_of_level)))
    k, m = score.shape
    score = score.astype(c.dtype)
    variance = _variances(c)
    least = 1e-12 * variance.max(axis=1)[:, None, None]
    middle, margin = np.empty((k, m)), np.empty((k, m))
    step = max(1, _BATCH_CELLS // (k * m))
    for first in range(0, m, step):
        rows = slice(first, min(first + step, m))
        own, at = variance[:, rows, None], np.arange(rows.start, rows.stop)
        apart = np.sqrt(np.maximum(own + variance[:, None, :] - 2 * c[:, rows], least))
        gap = (score[:, None, :] - score[:, rows, None]) / apart
        better = ndtr(gap)
        # The mean change of p_ij with one standard deviation of s_i.
        with np.errstate(over="ignore"):
            # A correlation, which only rounding beside a vanishing variance takes beyond 1.
            correlation = np.clip((c[:, rows] - own) / (apart * np.sqrt(own)), -1.0, 1.0)
        moved = np.exp(-0.5 * gap * gap) / np.sqrt(2 * np.pi) * correlation
        better[:, at - first, at] = moved[:, at - first, at] = 0.0
        left = (better * (1.0 - better) - moved * moved).sum(axis=2)
        margin[:, rows] = np.sqrt(moved.sum(axis=2) ** 2 + np.maximum(left, 0.0))
        middle[:, rows] = better.sum(axis=2)
    # Half a rank: the continuity correction.
    margin = 0.5 + reach_of_level * margin
    out: Floats = np.clip(np.stack([np.ceil(1.0 + middle - margin), np.floor(1.0 + middle + margin)]), 1.0, m)
    return out


def _variances(c: Floats) -> Floats:
    """Return the diagonals of covariances, at least 1e-12 of the largest element: less is rounding."""
    diagonal = np.diagonal(c, axis1=-2, axis2=-1)
    least = 1e-12 * diagonal.max(axis=-1, keepdims=True, initial=0.0)
    out: Floats = np.maximum(diagonal, np.maximum(least, 1e8 * np.finfo(c.dtype).tiny))
    return out


def _empirical_bayes(score: Floats, c: Floats) -> tuple[Floats, Floats]:
    """Return mean and covariance of true scores, a normal sample, given estimates whose errors have covariance c.

    Each item is shrunk by its own variance. The inverse of the whole covariance would be better if it were known; it is
    estimated from the experts, and with as many items as half the experts its inverse is mostly noise, which moves the
    ranges away from the scores.
    """
    apart = score - score.mean(axis=-1, keepdims=True)
    variance = _variances(c)
    between = _paule_mandel(apart, variance)
    share = between / (between + variance)
    shrunk = _scaled(c, np.sqrt(share))
    return share * apart, shrunk if score.shape[-1] <= _MANY_RANKED else shrunk.astype(np.float32)


def _paule_mandel(score: Floats, variance: Floats) -> Floats:
    """Return the variance τ² of true scores whose estimates have errors of these variances, by Paule and Mandel.

    It solves Σ (s_i − s̄)² / (v_i + τ²) = M − 1, s̄ the mean with the same weights, so that items with large errors
    have little influence.
    """
    m = score.shape[-1]
    least: Floats = _LEAST_BETWEEN * m / (1.0 / variance).sum(axis=-1, keepdims=True)
    out = least
    for _ in range(_PAULE_MANDEL_STEPS):
        weight = 1.0 / (variance + out)
        middle = (weight * score).sum(axis=-1, keepdims=True) / weight.sum(axis=-1, keepdims=True)
        square = (score - middle) ** 2 * weight
        excess = square.sum(axis=-1, keepdims=True) - (m - 1)
        out = np.maximum(out + excess / np.maximum((square * weight).sum(axis=-1, keepdims=True), _TINY), least)
    return out


def _simultaneous_ranges(score: Floats, c: Floats, reach: Floats, level: float) -> tuple[Any, Any]:
    """Return the simultaneous range of each rank: after the items surely better, before the items surely worse.

    A comparison with an item without an observation (NaN) is never sure.
    """
    from scipy.special import ndtri

    # The normal quantile for M − 1 comparisons, wider where a variance has few degrees of freedom.
    apart = float(-ndtri((1.0 - level) / 2 / (len(score) - 1)))
    wide = _scaled(c, reach / -ndtri((1.0 - level) / 2))
    variance = np.diag(wide)
    equal = TIE_TOLERANCE * float(np.abs(score).max())
    better, worse = np.zeros(len(score)), np.zeros(len(score))
    for start in range(0, len(score), _PAIR_ROWS):
        rows = slice(start, start + _PAIR_ROWS)
        gap = score[None, :] - score[rows, None]
        spread = np.sqrt(np.maximum(variance[rows, None] + variance[None, :] - 2 * wide[rows], 0.0))
        # Scores that count as equal are not surely different.
        sure = np.maximum(apart * spread, equal)
        better[rows] = (gap > sure).sum(axis=1)
        worse[rows] = (-gap > sure).sum(axis=1)
    return 1.0 + better, len(score) - worse
