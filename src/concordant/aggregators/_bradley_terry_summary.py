"""Log-likelihood of a Bradley-Terry fit, and what its summary lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from concordant.aggregators._pairwise_outcomes import PairwiseOutcomes
from concordant.arrays import Floats
from concordant.base.contract import FitInfo
from concordant.inference.likelihood import log_multinomials
from concordant.inference.summary import (
    Estimates,
    ModelReport,
    feature_estimates,
    parameter_estimates,
    prior_in_words,
    score_estimates,
)

if TYPE_CHECKING:
    from concordant.aggregators.bradley_terry import BradleyTerry

__all__ = ["LikelihoodPart", "coefficient_estimates", "parameter_covariance", "record", "report"]

_TIE_NAMES = {"none": [], "davidson": ["log ν"], "rao-kupper": ["log ξ"]}
# Beyond this many pairs the coefficients of their counts are not computed.
_MOST_PAIRS = 1_000_000


class LikelihoodPart(NamedTuple):
    """The log-likelihood of some outcomes, their number, and the logarithm of the coefficients of their counts."""

    log_likelihood: float
    n_outcomes: float
    log_multinomials: float | None

    @classmethod
    def of(
        cls, outcomes: PairwiseOutcomes, score: Floats, objective: float, prior: Floats, *, maximum: bool
    ) -> LikelihoodPart:
        """Return the part of some outcomes, given the objective at their scores and the precision of the prior.

        The coefficients are those of a maximum of the likelihood over comparisons.
        """
        penalty = 0.5 * float((np.repeat(prior, outcomes.slots.sizes) * score * score).sum())
        coefficients = None
        if maximum and not outcomes.derived and len(outcomes.pairs.left) <= _MOST_PAIRS:
            coefficients = log_multinomials(outcomes.pairs.n_left, outcomes.pairs.n_right, outcomes.pairs.n_ties)
        return cls(objective + penalty, float(outcomes.totals.sum()), coefficients)


def record(info: FitInfo, parts: Sequence[LikelihoodPart], n_parameters: int) -> None:
    """Write the log-likelihood of a fit and its number of parameters to `fit_info_`."""
    info.log_likelihood = sum(p.log_likelihood for p in parts)
    info.n_observations = sum(p.n_outcomes for p in parts)
    info.n_parameters = n_parameters
    coefficients = [p.log_multinomials for p in parts]
    info.log_multinomials = None if None in coefficients else sum(c for c in coefficients if c is not None)


def parameter_covariance(model: BradleyTerry) -> tuple[list[str], Floats] | None:
    """Return the covariance of coefficients, log ν (or ξ), side effect and effects of covariates that were learned."""
    names = _shared_names(model)
    table = model.shared_covariance_
    if len(model._style) and len(table) >= len(names):
        # Coefficients of the fit are in units of the columns' root mean squares.
        unit = np.ones(len(table))
        unit[len(unit) - len(model._style) :] = model._style_units
        table = table / np.outer(unit, unit)
    if "coefficients_" in vars(model):
        if "feature_map_" not in vars(model):
            return None
        r = model.feature_map_.shape[1]
        over = np.zeros((len(model.feature_map_) + len(table) - r, len(table)))
        over[: len(model.feature_map_), :r] = model.feature_map_
        over[len(model.feature_map_) :, r:] = np.eye(len(table) - r)
        table, names = over @ table @ over.T, [*model.coefficients_, *names]
    return (names, table) if names and len(table) == len(names) else None


def _shared_names(model: BradleyTerry) -> list[str]:
    return _TIE_NAMES[model.ties_] + ["side"] * model.side_effect + list(model._style)


def coefficient_estimates(model: BradleyTerry) -> list[Estimates]:
    """Return what was learned beside the scores: coefficients of features, ties, side effect, effects of covariates."""
    known = parameter_covariance(model)
    n_ties, n_style = len(_TIE_NAMES[model.ties_]), len(model._style)
    names = _shared_names(model)
    kinds = ["tie"] * n_ties + ["side"] * model.side_effect + ["covariate"] * n_style
    tie = [float(np.log(model.tie_))] if n_ties else []
    shared = tie + [model.side_] * model.side_effect + list(model._style.values())
    features = model.__dict__.get("coefficients_", {})
    stderr = (
        np.full(len(features) + len(names), np.nan) if known is None else np.sqrt(np.maximum(np.diag(known[1]), 0.0))
    )
    blocks = [feature_estimates(features, stderr)] if features else []
    return blocks + parameter_estimates(kinds, names, shared, stderr[len(features) :])


def report(model: BradleyTerry) -> ModelReport:
    """Return what the summary of a fit lists."""
    blocks = [] if "coefficients_" in vars(model) else [score_estimates(model.consensus_)]
    blocks += coefficient_estimates(model)
    lists = model.fit_info_.n_lists is not None
    prior = prior_in_words(model.prior, " times the pairs per choice" if lists else "")
    return ModelReport(blocks, _no_criteria(model), "outcome", _notes(model), prior=prior)


def _no_criteria(model: BradleyTerry) -> str:
    """Return why a fit has no AIC, "" if it has."""
    if model.reliability:
        return "reliability=True estimates the experts under prior distributions; only its objective is kept."
    if model.optimizer == "gd":
        return "optimizer='gd' stops before the maximum."
    if model._shrinks:
        return "The estimates have a prior, and do not maximise the likelihood. Fit with prior=0."
    if model.fit_info_.log_likelihood is None:
        return "It is not computed for data in blocks."
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
