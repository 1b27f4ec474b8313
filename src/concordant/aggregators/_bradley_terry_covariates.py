"""Covariates of items in Bradley-Terry: scores linear in features, s_i = x_i · b.

Only differences within an instance matter, so the features are centred there and replaced by a basis of independent
columns; of collinear features the coefficients of least norm are taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.aggregators._bradley_terry_identifiability import Warn
from concordant.aggregators._bradley_terry_intervals import cluster_meat
from concordant.aggregators._pairwise_outcomes import PairwiseOutcomes
from concordant.arrays import Floats, Ints
from concordant.data.index import Slots
from concordant.errors import DataError, IdentifiabilityWarning, UncertaintyWarning, listing
from concordant.inference.uncertainty import ScoreCovariance, regauge

if TYPE_CHECKING:
    from concordant.aggregators._bradley_terry_fit import Solution
    from concordant.data.features import Features
    from concordant.kernels.bradley_terry import Shared

__all__ = ["CovariateFit", "coefficient_covariance", "dependent_features", "feature_rows", "fit", "score_covariances"]


class CovariateFit(NamedTuple):
    """A fit of scores that are linear in features.

    Attributes
    ----------
    coefficients : dict of str to float
        The coefficient of every feature.
    basis : float64[n, r]
        Independent columns that span the features, one row per item described.
    scores : float64[n]
        The scores of the items described.
    design : float64[S, r]
        The rows of the basis for the slots of the outcomes.
    solution : Solution
        The estimate; its information is that of the coefficients of the basis, then of the shared parameters.
    """

    coefficients: dict[str, float]
    basis: Floats
    scores: Floats
    design: Floats
    solution: Solution


def fit(
    outcomes: PairwiseOutcomes, features: Features, prior: Floats, start: Shared, *, warn: Warn, **options: Any
) -> CovariateFit:
    """Estimate the coefficients of features; the options are those of `solve_linear`."""
    from concordant.aggregators._bradley_terry_fit import solve_linear

    rows = feature_rows(outcomes.slots, features.slots)
    _check_complete(features)
    basis, to_features = _independent_basis(features)
    if to_features.shape[1] < features.n_features:
        dependent = features.names[dependent_features(features)].tolist()
        warn(
            f"features {listing(dependent)} depend on each other within instances: of all weights that give the same "
            "scores the smallest (in standardised features) are kept.",
            IdentifiabilityWarning,
        )
    b, solution = solve_linear(outcomes.pairs, basis[rows], prior, start, **options)
    coefficients = dict(zip(features.names.tolist(), (to_features @ b).tolist(), strict=True))
    return CovariateFit(coefficients, basis, basis @ b, basis[rows], solution)


def coefficient_covariance(
    outcomes: PairwiseOutcomes,
    fitted: CovariateFit,
    prior: Floats,
    shared: Shared,
    learned: Ints,
    *,
    clustered: bool,
    warn: Warn,
) -> Floats:
    """Return the covariance of the coefficients of the basis, the shared parameters being estimated with them.

    It is NaN where it is to be clustered by expert and no instance has two experts.
    """
    inverse = np.asarray(np.linalg.pinv(fitted.solution.information, hermitian=True), dtype=np.float64)
    design, f = fitted.design, fitted.design.shape[1]
    if not clustered:
        return inverse[:f, :f]
    meat = np.zeros(inverse.shape)
    for n, own in outcomes.observed_instances():
        m = own.stop - own.start
        gradients, _, weight = outcomes.expert_gradients(n, fitted.solution.score, shared, learned)
        if weight.sum() >= 2:
            meat += cluster_meat(np.concatenate([gradients[:, :m] @ design[own], gradients[:, m:]], axis=1), weight)
    if not meat.any():
        warn("no intervals: fewer than two experts compare items in any instance.", UncertaintyWarning)
        return np.full((f, f), np.nan)
    # The prior is on the scores, so its share of the variance goes through the features.
    precision = np.repeat(prior * outcomes.calibration, outcomes.slots.sizes)
    meat[:f, :f] += design.T @ (precision[:, None] * design)
    return (inverse @ meat @ inverse)[:f, :f]


def score_covariances(slots: Slots, design: Floats, covariance: Floats) -> list[ScoreCovariance | str]:
    """Return the covariance of the scores of every instance from that of the coefficients of the basis."""
    out: list[ScoreCovariance | str] = []
    for first, last in zip(slots.offsets[:-1].tolist(), slots.offsets[1:].tolist(), strict=True):
        rows = design[first:last]
        out.append(ScoreCovariance.of(regauge(rows @ covariance @ rows.T, None)))
    return out


def feature_rows(slots: Slots, features: Slots) -> Ints:
    """Return the row of the features for every slot, or raise naming the items that have none."""
    rows = slots.locate(features)
    missing = np.flatnonzero(rows < 0)
    if len(missing):
        instance, _ = slots.where(int(missing[0]))
        names = [slots.items[int(s)] for s in missing[:100] if slots.where(int(s))[0] == instance]
        raise DataError(
            f"{len(missing)} items have no features, among them {listing(names, 5)} of instance {instance!r}. With "
            "features= every item needs a row; leave the others out, or give them one."
        )
    return rows


def _check_complete(features: Features) -> None:
    """Raise naming an item and a feature where a value is missing."""
    missing = np.isnan(features.X)
    if missing.any():
        row, column = (int(v[0]) for v in np.nonzero(missing))
        instance, item = features.slots.where(row)
        raise DataError(
            f"{int(missing.sum()):,} values of features are not known (NaN), first {features.names[column]!r} "
            f"of item {item!r} of instance {instance!r}. BradleyTerry needs every value: fill them in, or leave these "
            f"features out: {listing(features.names[np.flatnonzero(missing.any(axis=0))].tolist(), 5)}."
        )


def _independent_basis(features: Features) -> tuple[Floats, Floats]:
    """Return independent columns that span the features within instances, and the coefficients of features in them."""
    centred, spread = _standardised(features)
    left, size, right = np.linalg.svd(centred, full_matrices=False)
    kept = size > 1e-10 * max(float(size.max(initial=0.0)), 1e-300)
    # In these columns coefficients of least norm give the standardised ones of least norm.
    scale = np.sqrt(max(len(centred), 1))
    return left[:, kept] * scale, (right[kept].T / size[kept] * scale) / spread[:, None]


def _standardised(features: Features) -> tuple[Floats, Floats]:
    """Return the features minus their mean in the instance, over their standard deviation; and the latter."""
    slots = features.slots
    sizes = slots.sizes
    full = np.flatnonzero(sizes > 0)
    x = np.array(features.X)
    if len(full):
        means = np.add.reduceat(x, slots.offsets[full], axis=0) / sizes[full][:, None]
        x -= np.repeat(means, sizes[full], axis=0)
    spread = np.sqrt((x * x).mean(axis=0)) if len(x) else np.ones(x.shape[1])
    spread[spread <= 1e-12 * np.abs(features.X).max(axis=0, initial=0.0)] = 1.0
    return x / spread, spread


def dependent_features(features: Features) -> Ints:
    """Return the features that are linearly dependent on others within instances."""
    # The triangular factor has the same dependences, and at most as many rows as there are features.
    triangle = np.linalg.qr(_standardised(features)[0], mode="r")
    _, size, right = np.linalg.svd(triangle, full_matrices=True)
    rank = int((size > 1e-10 * max(float(size.max(initial=0.0)), 1e-300)).sum())
    return np.flatnonzero(np.abs(right[rank:]).max(axis=0, initial=0.0) > 1e-8)
