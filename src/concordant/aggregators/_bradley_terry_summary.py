"""Log-likelihood of a Bradley-Terry fit, and what its summary lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from concordant.aggregators._choice_models import LikelihoodPart, SharedEstimate
from concordant.aggregators._pairwise_outcomes import PairwiseOutcomes
from concordant.arrays import Floats
from concordant.inference.likelihood import log_multinomials
from concordant.inference.summary import ModelReport, prior_in_words

if TYPE_CHECKING:
    from concordant.aggregators.bradley_terry import BradleyTerry

__all__ = ["likelihood_part", "report", "shared_estimates"]

_TIE_NAMES = {"davidson": "log ν", "rao-kupper": "log ξ"}
# Beyond this many pairs the coefficients of their counts are not computed.
_MOST_PAIRS = 1_000_000


def likelihood_part(
    outcomes: PairwiseOutcomes, score: Floats, objective: float, prior: Floats, *, maximum: bool
) -> LikelihoodPart:
    """Return the log-likelihood of some outcomes, given the objective at their scores and the precision of the prior.

    The coefficients of their counts are those of a maximum of the likelihood over comparisons.
    """
    penalty = 0.5 * float((np.repeat(prior, outcomes.slots.sizes) * score * score).sum())
    coefficients = None
    if maximum and not outcomes.derived and len(outcomes.pairs.left) <= _MOST_PAIRS:
        coefficients = log_multinomials(outcomes.pairs.n_left, outcomes.pairs.n_right, outcomes.pairs.n_ties)
    return LikelihoodPart(objective + penalty, float(outcomes.totals.sum()), coefficients)


def shared_estimates(model: BradleyTerry) -> list[SharedEstimate]:
    """Return log ν (or ξ), the side effect and the effects of covariates of the vote."""
    out = []
    if model.ties_ != "none":
        out.append(SharedEstimate("tie", _TIE_NAMES[model.ties_], float(np.log(model.tie_))))
    if model.side_effect:
        out.append(SharedEstimate("side", "side", model.side_))
    # The fit is in units of the columns' root mean squares.
    effects = zip(model._style.items(), model._style_units.tolist(), strict=True)
    return out + [SharedEstimate("covariate", name, value, unit) for (name, value), unit in effects]


def report(model: BradleyTerry) -> ModelReport:
    """Return what the summary of a fit lists."""
    lists = model.fit_info_.n_lists is not None
    prior = prior_in_words(model.prior, " times the pairs per choice" if lists else "")
    return ModelReport(model._all_estimates(), _no_criteria(model), "outcome", _notes(model), prior=prior)


def _no_criteria(model: BradleyTerry) -> str:
    """Return why a fit has no AIC, "" if it has."""
    if model.reliability:
        return "reliability=True estimates the experts under prior distributions; only its objective is kept."
    if why := model._no_maximum():
        return why
    if model.transform != "binary":
        return f"transform={model.transform!r} counts differences, which are no outcomes."
    if model.fit_info_.n_lists is not None:
        return "The pairs of a list are not independent. Use PlackettLuce for lists."
    return ""


def _notes(model: BradleyTerry) -> list[str]:
    out = []
    if model.ties_ == "davidson":
        out.append(f"Ties: Davidson, ν = {model.tie_:.4g}")
    elif model.ties_ == "rao-kupper":
        out.append(f"Ties: Rao and Kupper, ξ = {model.tie_:.4g}; ξ = 1 (log ξ = 0) means no ties")
    if model._style:
        out.append("Scores are those at equal covariates; effects of covariates are per unit, left minus right")
    if model.reliability:
        out.append("The reliability of experts is in expert_weights_")
    return out
