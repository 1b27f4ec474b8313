"""Base of Bradley-Terry and Plackett-Luce: scores in log odds, from votes or linear in covariates of the items.

A model writes its likelihood and how it is maximised. Here is what becomes of the estimates: scores relative to the
anchor with their intervals, the covariance of coefficients, the summary, and the record of a fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

import numpy as np

from concordant.aggregators import _item_covariates as covariates
from concordant.aggregators._anchors import anchor_slots, gauge_of, relative_to_anchor
from concordant.aggregators._bradley_terry_intervals import warn_missing
from concordant.aggregators._explanations import ExplainedLikelihood
from concordant.arrays import Bools, Floats, Ints
from concordant.base.params import IN_DATA_UNITS, Within
from concordant.data.consensus import Consensus
from concordant.data.index import Slots
from concordant.errors import ConvergenceWarning, DataError
from concordant.inference.summary import Estimates, feature_estimates, parameter_estimates, score_estimates
from concordant.inference.uncertainty import ScoreCovariance, is_covariance, with_intervals

if TYPE_CHECKING:
    from concordant.data.features import Features

__all__ = ["ChoiceModel", "LikelihoodPart", "SharedEstimate"]


class SearchEnd(Protocol):
    """How a search for a maximum ended."""

    @property
    def objective(self) -> float: ...

    @property
    def gradient_norm(self) -> float: ...

    @property
    def n_iter(self) -> int: ...

    @property
    def converged(self) -> bool: ...

    @property
    def trace(self) -> Sequence[float]: ...


class LikelihoodPart(NamedTuple):
    """The log-likelihood of some votes, their number, and the logarithm of the coefficients of their counts."""

    log_likelihood: float
    n_observations: float
    log_multinomials: float | None = None


class SharedEstimate(NamedTuple):
    """A parameter that instances share, such as a tie parameter.

    `unit` is that of the fit: the fit estimates `value` times `unit`.
    """

    kind: str
    name: str
    value: float
    unit: float = 1.0


class ChoiceModel(ExplainedLikelihood):
    """Base of Bradley-Terry and Plackett-Luce.

    A model writes `_shared_estimates` and `_basis_covariance`.
    """

    prior: Any
    anchor: str | None
    optimizer: str
    level: float
    rank_ranges: str
    n_bootstrap: int
    tol: float

    coefficients_: Annotated[dict[str, float], IN_DATA_UNITS]
    feature_slots_: Annotated[dict[str, list[Any]], Within(least=0)]
    feature_basis_: Annotated[Floats, IN_DATA_UNITS]
    feature_scores_: Annotated[Floats, IN_DATA_UNITS]
    feature_map_: Annotated[Floats, IN_DATA_UNITS]

    # What a model writes.

    @property
    def _basis_covariance(self) -> Floats:
        """The covariance of coefficients of features in the basis of the fit, then of what else is shared."""
        raise TypeError(f"{type(self).__name__} must define _basis_covariance")

    def _shared_estimates(self) -> list[SharedEstimate]:
        """Return what instances share beside coefficients of features, in the order of `_basis_covariance`."""
        raise TypeError(f"{type(self).__name__} must define _shared_estimates")

    # The record of a fit.

    @property
    def _shrinks(self) -> bool:
        """Whether the scores have a prior."""
        return bool(self.prior != 0)

    def _record_search(self, what: str, end: SearchEnd) -> None:
        """Write how a search ended to `fit_info_`, and warn where it did not converge."""
        info = self.fit_info_
        info.n_iter, info.converged, info.gradient_norm = end.n_iter, end.converged, end.gradient_norm
        info.objective, info.trace = end.objective, list(end.trace)
        # Gradient ascent stops early on purpose.
        if not end.converged and self.optimizer != "gd" and not info.interrupted:
            self._warn(
                f"{what} did not converge in {end.n_iter} steps: the largest gradient is {end.gradient_norm:.1e}, "
                f"asked for {self.tol:.1e}. The last estimate is kept. Raise max_iter or prior.",
                ConvergenceWarning,
            )

    def _record_likelihood(self, parts: Sequence[LikelihoodPart], n_parameters: int) -> None:
        """Write the log-likelihood of a fit and its number of parameters to `fit_info_`."""
        info = self.fit_info_
        info.log_likelihood = sum(p.log_likelihood for p in parts)
        info.n_observations = sum(p.n_observations for p in parts)
        info.n_parameters = n_parameters
        coefficients = [p.log_multinomials for p in parts]
        info.log_multinomials = None if None in coefficients else sum(c for c in coefficients if c is not None)

    # Scores and intervals.

    def _interval_words(self, kind: str, resampled: str = "experts") -> str:
        """Return in words how intervals are made; the bootstrap reweights what is `resampled`."""
        words = {
            "information": "observed information",
            "sandwich": "sandwich, clustered by expert",
            "bootstrap": f"bootstrap over {resampled}, {self.n_bootstrap} draws",
        }
        return words[kind] + (", posterior" if self._shrinks else "")

    def _gauged(
        self,
        slots: Slots,
        score: Floats,
        anchors: Ints | None,
        covariances: Sequence[ScoreCovariance | str] | None = None,
        method: str | None = None,
        compared: Bools | None = None,
    ) -> Consensus:
        """Return the consensus with scores relative to the anchor or their mean, and intervals from covariances.

        Instead of a covariance there may be the reason why there is none.
        """
        gauge = gauge_of(self.anchor)
        if covariances is not None:
            warn_missing(covariances, slots, self._warn)
        known = [None if isinstance(c, str) else c for c in covariances or ()]
        score, known = relative_to_anchor(slots, score, known, anchors)
        if covariances is None or method is None:
            return Consensus.from_codes(slots, score, gauge=gauge, scale=self._scale)
        return with_intervals(
            slots,
            score,
            known,
            level=self.level,
            rank_ranges=self.rank_ranges,
            gauge=gauge,
            method=method,
            known=compared,
            scale=self._scale,
            warn=self._warn,
        )

    @property
    def _scale(self) -> str | None:
        """The scale of the scores, where they have one."""
        return "log-odds"

    # Covariates of items.

    def _keep_covariates(
        self, features: Features, coefficients: dict[str, float], basis: Floats, scores: Floats, to_features: Floats
    ) -> None:
        """Keep the coefficients of features and the scores of every item that the features describe."""
        self.coefficients_ = coefficients
        self.feature_slots_ = covariates.slots_to_save(features.slots)
        self.feature_basis_ = basis
        self.feature_scores_ = scores
        self.feature_map_ = to_features

    def _check_saved_covariates(self) -> None:
        """Raise where the coefficients of a loaded model do not fit its features or their covariance."""
        table = self._basis_covariance
        covariates.check_saved(self.feature_slots_, self.feature_basis_, self.feature_scores_)
        covariates.check_saved_map(self.coefficients_, self.feature_basis_, self.feature_map_, table)
        # It is NaN where no instance has two experts.
        if not np.isnan(table).all() and not is_covariance(table):
            raise DataError("the covariance of the coefficients is none.")

    def _consensus_from_covariates(self, slots: Slots, method: str | None) -> Consensus:
        """Return the scores that the features of `fit` give the items; `method` says how intervals are made."""
        rows, score = covariates.described_scores(slots, self.feature_slots_, self.feature_scores_)
        anchors, table = anchor_slots(slots, self.anchor), self._basis_covariance
        if method is None or np.isnan(table).any():
            return self._gauged(slots, score, anchors)
        basis, r = self.feature_basis_[rows], self.feature_basis_.shape[1]
        return self._gauged(slots, score, anchors, covariates.score_covariances(slots, basis, table[:r, :r]), method)

    # Summary.

    def _parameter_covariance(self) -> tuple[list[str], Floats] | None:
        shared, table = self._shared_estimates(), self._basis_covariance
        names = [*vars(self).get("coefficients_", ()), *(s.name for s in shared)]
        to_features = vars(self).get("feature_map_", np.zeros((0, 0)))
        (f, r), k = to_features.shape, len(shared)
        if not names or len(table) != r + k:
            return None
        out = np.zeros((f + k, r + k))
        out[:f, :r] = to_features
        out[f:, r:] = np.diag([1.0 / s.unit for s in shared])
        return names, out @ table @ out.T

    def _coefficient_estimates(self) -> list[Estimates]:
        """Return what was learned beside the scores: coefficients of features, then what else instances share."""
        known, shared = self._parameter_covariance(), self._shared_estimates()
        features = vars(self).get("coefficients_", {})
        stderr = np.full(len(features) + len(shared), np.nan)
        if known is not None:
            stderr = np.sqrt(np.maximum(np.diag(known[1]), 0.0))
        blocks = [feature_estimates(features, stderr)] if features else []
        kinds, names, values = [s.kind for s in shared], [s.name for s in shared], [s.value for s in shared]
        return blocks + parameter_estimates(kinds, names, values, stderr[len(features) :])

    def _all_estimates(self) -> list[Estimates]:
        """Return the scores, unless they follow from features, and what was learned beside them."""
        scores = [] if "coefficients_" in vars(self) else [score_estimates(self.consensus_)]
        return scores + self._coefficient_estimates()

    def _no_maximum(self) -> str:
        """Return why a fit has no maximum of the likelihood, and so no AIC; "" if it has."""
        if self.optimizer == "gd":
            return "optimizer='gd' stops before the maximum."
        if self._shrinks:
            return "The estimates have a prior, and do not maximise the likelihood. Fit with prior=0."
        if self.fit_info_.log_likelihood is None:
            return "It is not computed for data in blocks."
        return ""
