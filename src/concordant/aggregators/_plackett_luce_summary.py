"""Log-likelihood of a Plackett-Luce fit, and what its summary lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from concordant.arrays import Floats
from concordant.base.contract import FitInfo
from concordant.inference.summary import (
    Estimates,
    ModelReport,
    feature_estimates,
    parameter_estimates,
    prior_in_words,
    score_estimates,
)

if TYPE_CHECKING:
    from concordant.aggregators._plackett_luce_fit import PenalisedLikelihood
    from concordant.aggregators.plackett_luce import PlackettLuce

__all__ = ["parameter_covariance", "record", "report"]


def record(
    info: FitInfo, models: Sequence[PenalisedLikelihood], scores: Sequence[Floats], value: float, n_parameters: int
) -> None:
    """Write the log-likelihood of a fit with the objective `value` at some scores to `fit_info_`."""
    info.log_likelihood = value - sum(m.log_prior(s) for m, s in zip(models, scores, strict=True))
    info.n_observations = float(sum(m.n_choices for m in models))
    info.n_parameters = n_parameters


def parameter_covariance(model: PlackettLuce) -> tuple[list[str], Floats] | None:
    """Return the covariance of coefficients and of log δ, as far as they were learned."""
    ties = _tie_names(model)
    if "coefficients_" not in vars(model):
        return (ties, model.tie_covariance_) if ties else None
    table, over = model.coefficient_covariance_, model.feature_map_
    (f, r), k = over.shape, len(ties)
    whole = np.zeros((f + k, r + k))
    whole[:f, :r], whole[f:, r:] = over, np.eye(k)
    return [*model.coefficients_, *ties], whole @ table @ whole.T


def _tie_names(model: PlackettLuce) -> list[str]:
    return [f"log δ{size}" for size in vars(model).get("tie_sizes_", np.zeros(0, dtype=np.int64)).tolist()]


def report(model: PlackettLuce) -> ModelReport:
    """Return what the summary of a fit lists."""
    known = parameter_covariance(model)
    ties = _tie_names(model)
    features = model.__dict__.get("coefficients_", {})
    stderr = np.zeros(0) if known is None else np.sqrt(np.maximum(np.diag(known[1]), 0.0))
    blocks = [feature_estimates(features, stderr)] if features else [score_estimates(model.consensus_)]
    if ties:
        blocks += parameter_estimates(["tie"] * len(ties), ties, np.log(model.tie_).tolist(), stderr[len(features) :])
    notes = []
    if model.adherence:
        unknown = np.full(len(model.adherence_), np.nan)
        blocks.append(Estimates("adherence", model.experts_, model.adherence_, unknown))
        notes.append("The adherence of experts has no standard errors; those of the scores take it as known")
    if ties:
        notes.append("Ties: Davidson-Luce, δ = " + ", ".join(f"{delta:.4g}" for delta in model.tie_.tolist()))
    elif model.ties in ("average", "partition"):
        words = {"average": "Efron's likelihood", "partition": "the ordered-partition likelihood, less its constant"}
        notes.append(f"Ties: {words[model.ties]}")
    return ModelReport(blocks, _no_criteria(model), "choice", notes, prior=prior_in_words(model.prior))


def _no_criteria(model: PlackettLuce) -> str:
    """Return why a fit has no AIC, "" if it has."""
    if model.prior != 0 and not (model.prior == "auto" and model.optimizer == "gd"):
        return "The estimates have a prior, and do not maximise the likelihood. Fit with prior=0."
    if model.optimizer == "gd":
        return "optimizer='gd' stops before the maximum."
    if model.fit_info_.log_likelihood is None:
        return "It is not computed for data in blocks."
    return ""
