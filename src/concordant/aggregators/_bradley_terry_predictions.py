"""Predictions of a fitted Bradley-Terry model: the law of a pair, votes as pairs, and the parts of its scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.aggregators import _bradley_terry_judges as judges
from concordant.aggregators._explanations import WorkingResponses, pair_responses
from concordant.aggregators._pairwise_outcomes import ComparisonOutcomes
from concordant.aggregators._predictions import PairLaw
from concordant.arrays import Floats
from concordant.base.contract import Votes
from concordant.data.comparisons import Comparisons
from concordant.data.preferences import Preferences
from concordant.errors import KindError
from concordant.inference.predictions import davidson_law, rao_kupper_law

if TYPE_CHECKING:
    from concordant.aggregators.bradley_terry import BradleyTerry

__all__ = ["PairLaw", "pair_law", "pairwise", "working_responses"]


class _RowParameters(NamedTuple):
    """The logit of a row is slope · (s_left − s_right) + offset; `tie` is log ν or log ξ.

    Where slopes are estimated, a row has two of them, one standard deviation to both sides (first axis).
    """

    slope: Floats
    offset: Floats
    tie: Any


def _row_parameters(model: BradleyTerry, side: Floats, expert: Any, effect: Any) -> _RowParameters:
    """Return the parameters of rows; `side` is 1 where the left item is shown on the left, `effect` of covariates."""
    tie = float(np.log(model.tie_)) if model.ties_ != "none" and model.tie_ > 0 else -np.inf
    if not model.reliability or expert is None:
        return _RowParameters(np.ones((1, len(side))), model.side_ * side + effect, tie)
    known = judges.Judges.of(model)
    slope, spread = known.slope[expert], known.slope_stderr[expert]
    return _RowParameters(
        np.stack([slope - spread, slope + spread]),
        known.side[expert] * side + effect,
        known.tie + known.tie_tendency[expert],
    )


def pair_law(model: BradleyTerry, gap: Floats, side: Floats, expert: Any, effect: Any = 0.0) -> PairLaw:
    """Return the probabilities of win, tie and loss; `effect` is what covariates add to the logit.

    Uncertain slopes of judges are averaged over.
    """
    if model.transform != "binary":
        raise KindError(
            f"the scores of BradleyTerry(transform={model.transform!r}) are no log odds, so that outcomes have no "
            "probabilities. Use transform='binary'."
        )
    rows = _row_parameters(model, side, expert, effect)
    logit = rows.slope * gap + rows.offset
    if model.ties_ == "rao-kupper":
        law = rao_kupper_law(logit, rows.tie)
    else:
        law = davidson_law(logit, rows.tie)
    win, tie, loss = (p.mean(axis=0) for p in law)
    return win, tie, loss


def pairwise(model: BradleyTerry, votes: Votes) -> Comparisons:
    """Return votes as outcomes of pairs, without ties where the model has none."""
    ties = model.ties_ != "none"
    if isinstance(votes, Preferences):
        return votes.comparisons("binary", ties=ties, missing="unknown")
    if ties or not votes.n_ties.any():
        return votes
    return votes.with_counts(votes.n_left, votes.n_right, np.zeros(votes.n_rows))


def working_responses(model: BradleyTerry, votes: Votes, by: str) -> WorkingResponses:
    """Return the working responses of one instance at its estimated scores."""
    ties = model.ties_ != "none"
    if model.reliability:
        outcomes = judges.outcomes_by_expert(votes, model.transform, ties, model.experts_, model.unknown_experts)
    elif isinstance(votes, Preferences):
        outcomes = judges.outcomes_by_expert(votes, model.transform, ties)
    else:
        outcomes = ComparisonOutcomes(votes, ties, model.side_effect)
    rows, n_ties = outcomes.votes, outcomes.n_ties
    m = votes.slots.n_slots
    prior = outcomes.prior_precision(model._prior_setting)
    if model.reliability:
        prior = np.repeat(prior, m) / model.scale_**2
        known = judges.Judges.of(model)
        score = judges.scores(outcomes, known, prior, judges.style_of(model, outcomes.votes)).score
    else:
        score = model._predicted(votes).score
    sided = rows.sided and (model.side_effect or model.reliability)
    effect = model._effects(rows) if isinstance(votes, Comparisons) else None
    known_effect = 0.0 if effect is None else effect
    parameters = _row_parameters(model, np.full(rows.n_rows, float(sided)), rows.expert, known_effect)
    gap = score[rows.left] - score[rows.right]
    logit = parameters.slope * gap + parameters.offset
    gradient, information = _derivatives(model.ties_, logit, parameters.tie, rows, n_ties)
    gradient = (parameters.slope * gradient).mean(axis=0)
    information = (parameters.slope**2 * information).mean(axis=0)
    key = rows.left.astype(np.int64) * m + rows.right
    weight = np.asarray(np.bincount(key, information, m * m), dtype=np.float64).reshape(m, m)
    laplacian: Floats = -(weight + weight.T)
    laplacian[np.diag_indices(m)] = -laplacian.sum(axis=1)
    response = information * gap + gradient
    if by == "expert":
        names = rows.experts.tolist()
        table = pair_responses(rows.left, rows.right, response, m, rows.row_expert, len(names))
    else:
        names = votes.items.tolist()
        table = pair_responses(rows.left, rows.right, response, m)
    return WorkingResponses(
        names,
        table,
        laplacian + np.diag(np.broadcast_to(prior, m)),
        not model._shrinks,
        np.arange(m),
        score,
    )


def _derivatives(ties: str, logit: Floats, tie: Any, rows: Comparisons, n_ties: Floats) -> tuple[Floats, Floats]:
    """Return the derivative of the log-likelihood of every row in its logit, and minus the second one."""
    from scipy.special import expit

    if ties == "rao-kupper":
        u, v = expit(tie - logit), expit(tie + logit)
        left, right = rows.n_left + n_ties, rows.n_right + n_ties
        return left * u - right * v, left * u * (1.0 - u) + right * v * (1.0 - v)
    win, _, loss = davidson_law(logit, tie)
    n = rows.n_left + rows.n_right + n_ties
    lean = win - loss
    return 0.5 * (rows.n_left - rows.n_right - n * lean), 0.25 * n * (win + loss - lean**2)
