"""Covariates of items in Bradley-Terry and Plackett-Luce: scores linear in features, s_i = x_i · ψ.

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
from concordant.data.index import Slots, Texts
from concordant.errors import DataError, IdentifiabilityWarning, UncertaintyWarning, listing
from concordant.inference.uncertainty import ScoreCovariance, regauge
from concordant.kernels.lists import offsets_of

if TYPE_CHECKING:
    from concordant.aggregators._bradley_terry_fit import Solution
    from concordant.data.features import Features
    from concordant.kernels.bradley_terry import Shared

__all__ = [
    "CovariateFit",
    "FeatureBasis",
    "basis_of",
    "check_saved",
    "check_saved_map",
    "coefficient_covariance",
    "dependent_features",
    "described_scores",
    "feature_rows",
    "fit",
    "score_covariances",
    "slots_to_save",
]


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
    to_features : float64[f, r]
        The coefficients of the features for each column of the basis.
    solution : Solution
        The estimate; its information is that of the coefficients of the basis, then of the shared parameters.
    """

    coefficients: dict[str, float]
    basis: Floats
    scores: Floats
    design: Floats
    to_features: Floats
    solution: Solution


def fit(
    outcomes: PairwiseOutcomes, features: Features, prior: Floats, start: Shared, *, warn: Warn, **options: Any
) -> CovariateFit:
    """Estimate the coefficients of features; the options are those of `solve_linear`."""
    from concordant.aggregators._bradley_terry_fit import solve_linear

    known = basis_of(features, outcomes.slots, "BradleyTerry", warn)
    design = known.basis[known.rows]
    b, solution = solve_linear(outcomes.counted, design, prior, start, **options)
    return CovariateFit(
        known.coefficients(features, b), known.basis, known.basis @ b, design, known.to_features, solution
    )


class FeatureBasis(NamedTuple):
    """Independent columns that span the features within instances.

    Attributes
    ----------
    basis : float64[n, r]
        The columns, one row per item described.
    to_features : float64[f, r]
        The coefficients of the features for each column.
    rows : int64[S]
        The row of every slot of the votes.
    """

    basis: Floats
    to_features: Floats
    rows: Ints

    def coefficients(self, features: Features, b: Floats) -> dict[str, float]:
        """Return the coefficient of every feature from those of the basis."""
        return dict(zip(features.names.tolist(), (self.to_features @ b).tolist(), strict=True))


def basis_of(features: Features, slots: Slots, method: str, warn: Warn) -> FeatureBasis:
    """Return a basis of the features; warn of dependent ones, and raise where an item or a value is missing."""
    rows = feature_rows(slots, features.slots)
    _check_complete(features, method)
    basis, to_features = _independent_basis(features)
    if to_features.shape[1] < features.n_features:
        dependent = features.names[dependent_features(features)].tolist()
        warn(
            f"features {listing(dependent)} depend on each other within instances: of all weights that give the same "
            "scores the smallest (in standardised features) are kept.",
            IdentifiabilityWarning,
        )
    return FeatureBasis(basis, to_features, rows)


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
    """Return the covariance of the coefficients of the basis, then of the shared parameters estimated with them.

    It is NaN where it is to be clustered by expert and no instance has two experts.
    """
    inverse = np.asarray(np.linalg.pinv(fitted.solution.information, hermitian=True), dtype=np.float64)
    design, f = fitted.design, fitted.design.shape[1]
    if not clustered:
        return inverse
    meat = np.zeros(inverse.shape)
    for n, own in outcomes.observed_instances():
        m = own.stop - own.start
        gradients, _, weight = outcomes.expert_gradients(n, fitted.solution.score, shared, learned)
        if weight.sum() >= 2:
            meat += cluster_meat(np.concatenate([gradients[:, :m] @ design[own], gradients[:, m:]], axis=1), weight)
    if not meat.any():
        warn("no intervals: fewer than two experts compare items in any instance.", UncertaintyWarning)
        return np.full(inverse.shape, np.nan)
    # The prior is on the scores, so its share of the variance goes through the features.
    precision = np.repeat(prior * outcomes.calibration, outcomes.slots.sizes)
    meat[:f, :f] += design.T @ (precision[:, None] * design)
    out: Floats = inverse @ meat @ inverse
    return out


def score_covariances(slots: Slots, design: Floats, covariance: Floats) -> list[ScoreCovariance | str]:
    """Return the covariance of the scores of every instance from that of the coefficients of the basis."""
    out: list[ScoreCovariance | str] = []
    for first, last in zip(slots.offsets[:-1].tolist(), slots.offsets[1:].tolist(), strict=True):
        rows = design[first:last]
        out.append(ScoreCovariance.of(regauge(rows @ covariance @ rows.T, None)))
    return out


def slots_to_save(slots: Slots) -> dict[str, list[Any]]:
    """Return the items that the features describe as plain lists, for a saved model."""
    return {
        "instances": slots.instances.tolist(),
        "items": slots.items.tolist(),
        "sizes": slots.sizes.tolist(),
    }


def check_saved(saved: dict[str, list[Any]], basis: Floats, scores: Floats) -> None:
    """Raise DataError where the basis and the scores of a saved model are not one row for each item described."""
    if not len(basis) == len(scores) == len(saved["items"]) == sum(saved["sizes"]):
        raise DataError("the scores of features are not one for each item.")


def check_saved_map(coefficients: dict[str, float], basis: Floats, to_features: Floats, covariance: Floats) -> None:
    """Raise DataError where the map from the basis of a saved model to its features does not fit them."""
    r = basis.shape[1] if basis.ndim == 2 else -1
    if to_features.shape != (len(coefficients), r) or len(covariance) < r:
        raise DataError("the coefficients are not one for each feature.")


def described_scores(slots: Slots, saved: dict[str, list[Any]], scores: Floats) -> tuple[Ints, Floats]:
    """Return the row of every slot among the items that the features described, and its score minus the mean."""
    sizes = np.array(saved["sizes"], dtype=np.int64)
    rows = feature_rows(slots, Slots(Texts(saved["instances"]), Texts(saved["items"]), offsets_of(sizes)))
    score = scores[rows]
    full = np.flatnonzero(slots.sizes > 0)
    if len(full):
        means = np.add.reduceat(score, slots.offsets[full]) / slots.sizes[full]
        score = score - np.repeat(means, slots.sizes[full])
    return rows, score


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


def _check_complete(features: Features, method: str) -> None:
    """Raise naming an item and a feature where a value is missing."""
    missing = np.isnan(features.X)
    if missing.any():
        row, column = (int(v[0]) for v in np.nonzero(missing))
        instance, item = features.slots.where(row)
        raise DataError(
            f"{int(missing.sum()):,} values of features are not known (NaN), first {features.names[column]!r} "
            f"of item {item!r} of instance {instance!r}. {method} needs every value: fill them in, or leave these "
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
