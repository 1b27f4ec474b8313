"""Log-likelihood of a Plackett-Luce fit, and what its summary lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from concordant.aggregators._choice_models import LikelihoodPart, SharedEstimate
from concordant.arrays import Floats
from concordant.inference.summary import Estimates, ModelReport, prior_in_words

if TYPE_CHECKING:
    from concordant.aggregators._plackett_luce_fit import PenalisedLikelihood
    from concordant.aggregators.plackett_luce import PlackettLuce

__all__ = ["likelihood_part", "report", "shared_estimates"]


def likelihood_part(models: Sequence[PenalisedLikelihood], scores: Sequence[Floats], value: float) -> LikelihoodPart:
    """Return the log-likelihood of some instances, given the objective at their scores."""
    prior = sum(m.log_prior(s) for m, s in zip(models, scores, strict=True))
    return LikelihoodPart(value - prior, float(sum(m.n_choices for m in models)))


def shared_estimates(model: PlackettLuce) -> list[SharedEstimate]:
    """Return log δ of each size of tie."""
    if "tie_" not in vars(model):
        return []
    sizes, log_delta = model.tie_sizes_.tolist(), np.log(model.tie_).tolist()
    return [SharedEstimate("tie", f"log δ{size}", value) for size, value in zip(sizes, log_delta, strict=True)]


def report(model: PlackettLuce) -> ModelReport:
    """Return what the summary of a fit lists."""
    blocks, notes = model._all_estimates(), []
    if model.adherence:
        unknown = np.full(len(model.adherence_), np.nan)
        blocks.append(Estimates("adherence", model.experts_, model.adherence_, unknown))
        notes.append("The adherence of experts has no standard errors; those of the scores take it as known")
    if "tie_" in vars(model) and len(model.tie_):
        notes.append("Ties: Davidson-Luce, δ = " + ", ".join(f"{delta:.4g}" for delta in model.tie_.tolist()))
    elif model.ties in ("average", "partition"):
        words = {"average": "Efron's likelihood", "partition": "the ordered-partition likelihood, less its constant"}
        notes.append(f"Ties: {words[model.ties]}")
    return ModelReport(blocks, model._no_maximum(), "choice", notes, prior=prior_in_words(model.prior))
