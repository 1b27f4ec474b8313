"""Bradley-Terry with the reliability of every expert: fit, outcomes by expert, scores given the judges, covariances.

The likelihood and its maximum are in `_expert_reliability`; a judge is an expert.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from concordant import execution
from concordant.aggregators import _bradley_terry_identifiability as identifiability
from concordant.aggregators import _bradley_terry_style as style
from concordant.aggregators._bradley_terry_identifiability import Warn
from concordant.aggregators._bradley_terry_intervals import FEW_EXPERTS, NOT_COMPARED, cluster_meat
from concordant.aggregators._mle_existence import items_in_words
from concordant.aggregators._pairwise_outcomes import ComparisonOutcomes
from concordant.aggregators._vote_outcomes import VoteOutcomes
from concordant.arrays import Floats, Ints
from concordant.base.contract import Votes
from concordant.base.limits import check_limits
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.index import Texts
from concordant.data.preferences import Preferences
from concordant.errors import IdentifiabilityWarning, Setting, listing
from concordant.inference.experts import check_known, warn_counted_ballots
from concordant.inference.uncertainty import Clusters, ScoreCovariance, score_covariance
from concordant.kernels.pairwise_wins import pairs_held
from concordant.learning.resumable import Checkpointer

if TYPE_CHECKING:
    from concordant.aggregators._expert_reliability import JudgeFit, Outcomes, Variance
    from concordant.aggregators.bradley_terry import BradleyTerry

__all__ = [
    "Style",
    "DETAILS",
    "JudgedScores",
    "Judges",
    "columns",
    "consensus",
    "details",
    "effect_covariance",
    "fit",
    "outcomes_by_expert",
    "score_covariances",
    "scores",
    "style_of",
    "warn_one_sided",
]

# The parameters of a judge among the details that a fitted method keeps.
DETAILS = ("slope", "slope_stderr", "side", "tie_tendency")


class Judges(NamedTuple):
    """Estimated parameters of the judges, as `_expert_reliability` takes them; a tie of -inf leaves ties out."""

    slope: Floats
    slope_stderr: Floats
    side: Floats
    tie_tendency: Floats
    tie: float

    @classmethod
    def of(cls, model: BradleyTerry) -> Judges:
        """Return the judges of a fitted model."""
        slope, slope_stderr, side, tie_tendency = (np.array(model.expert_details_[name]) for name in DETAILS)
        return cls(slope, slope_stderr, side, tie_tendency, float(np.log(model.tie_)) if model.tie_ > 0 else -np.inf)

    def parameters(self, sided: bool) -> tuple[Floats, bool]:
        """Return the parameters as one matrix, and whether ties are modelled."""
        ties, none = bool(np.isfinite(self.tie)), np.zeros(len(self.slope))
        tie = self.tie + self.tie_tendency if ties else none
        return np.stack([self.slope, self.side if sided else none, tie, self.slope_stderr], axis=1), ties


class JudgedScores(NamedTuple):
    """Scores given the judges, and the outcomes they rest on.

    `variance` is that of the population of judges where the judges were estimated from these outcomes, else None.
    """

    outcomes: ComparisonOutcomes
    score: Floats
    variance: Variance | None


def outcomes_by_expert(
    votes: Preferences | Comparisons,
    transform: str,
    ties: bool,
    experts: list[str] | None = None,
    unknown_experts: str = "error",
) -> ComparisonOutcomes:
    """Return the outcomes expert by expert; of lists every pair of every expert is written out.

    With `experts`, outcomes of other experts raise an error or are dropped, as `unknown_experts` says, and the experts
    are numbered as given.
    """
    if isinstance(votes, Comparisons):
        rows, lists = votes, None
    else:
        n_pairs = pairs_held(votes.list_offsets, votes.list_starts)
        check_limits("BradleyTerry", votes, "the pairs of every list", n_bytes=64.0 * n_pairs)
        rows, lists = votes.comparisons(transform, ties=ties and transform == "binary", missing="unknown"), votes
    if experts is not None:
        rows = _of_experts(rows, experts, unknown_experts)
    return ComparisonOutcomes(rows, ties, sided=False, lists=lists)


def _of_experts(rows: Comparisons, experts: list[str], unknown_experts: str) -> Comparisons:
    """Return the comparisons of these experts, numbered as given."""
    codes = {name: k for k, name in enumerate(experts)}
    check_known(rows, codes, "BradleyTerry", unknown_experts)
    new = np.array([codes.get(e, -1) for e in rows.experts], dtype=np.int32)
    expert = new[rows.row_expert]
    kept = rows.select_rows(expert >= 0)
    return kept.with_experts(Texts(experts), expert[expert >= 0])


class Style(NamedTuple):
    """Covariates of every row (float64[R, k]) and, where they are known, their effects, both in units of the fit."""

    x: Floats
    beta: Floats | None


def columns(outcomes: ComparisonOutcomes, style: Style | None) -> Outcomes:
    """Return the columns that the functions of `_expert_reliability` take."""
    from concordant.aggregators._expert_reliability import Outcomes

    rows = outcomes.votes
    counts = rows.n_left, rows.n_right, outcomes.n_ties
    given = (None, None) if style is None else style
    return Outcomes(rows.left, rows.right, rows.row_expert, *counts, rows.slots.offsets, *given)


def warn_one_sided(rows: Comparisons, warn: Warn) -> None:
    """Warn where one side never wins: side biases of the experts explain that as well as scores do."""
    won = {"left": float(rows.n_left.sum()), "right": float(rows.n_right.sum())}
    lost = [side for side, count in won.items() if not count]
    if rows.sided and len(lost) == 1:
        unsided = Setting("sided", False)
        warn(
            f"the {lost[0]} item never won, in {sum(won.values()):,.10g} outcomes that were decided: the experts "
            f"may as well lean to the other side, and scores of items {listing(rows.items.tolist(), 5)} mean "
            f"little. If the columns are winner and loser, pass {unsided}.",
            IdentifiabilityWarning,
            unsided,
        )


def details(fitted: JudgeFit) -> dict[str, list[float]]:
    """Return what a fitted method keeps of every expert beside its reliability."""
    return {
        "stderr": fitted.reliability_stderr.tolist(),
        "slope": fitted.slope.tolist(),
        "slope_stderr": fitted.slope_stderr.tolist(),
        "side": fitted.side.tolist(),
        "tie_tendency": fitted.tie_tendency.tolist(),
        "comparisons": fitted.n_comparisons.tolist(),
    }


def scores(outcomes: ComparisonOutcomes, judges: Judges, prior: Floats, style: Style | None) -> JudgedScores:
    """Return the scores given the judges; `prior` is the precision of every score."""
    from concordant.aggregators._expert_reliability import scores_given_judges

    found = scores_given_judges(columns(outcomes, style), judges, prior=prior, sided=outcomes.votes.sided)
    return JudgedScores(outcomes, found.score, None)


def score_covariances(
    known: JudgedScores, judges: Judges, prior: Floats, style: Style | None, *, clustered: bool
) -> list[ScoreCovariance | str]:
    """Return the covariance of the scores of every instance, or the reason why there is none.

    It includes the uncertainty of judges, and with a single instance of effects of covariates, that were estimated from
    the same outcomes.
    """
    from concordant.aggregators._expert_reliability import Variance, judge_information

    outcomes = known.outcomes
    found = judge_information(
        columns(outcomes, style),
        judges,
        score=known.score,
        variance=known.variance or Variance(1.0, 1.0, 1.0),
        prior=prior,
        sided=outcomes.votes.sided,
        profile=known.variance is not None,
        effects=known.variance is not None and len(outcomes.slots) == 1,
    )
    out: list[ScoreCovariance | str] = []
    ends = outcomes.slots.offsets.tolist()
    for n, one in enumerate(found):
        n_judges = len(one.expert)
        if not len(one.hessian) or (clustered and n_judges < 2):
            out.append(FEW_EXPERTS if n_judges == 1 else NOT_COMPARED)
            continue
        out.append(
            score_covariance(
                one.hessian,
                scores=one.information.shape[1],
                prior=prior[ends[n] : ends[n + 1]],
                calibration=outcomes.calibration[n],
                clusters=Clusters.of(one.gradients, one.information) if clustered else None,
            )
        )
    return out


def effect_covariance(known: JudgedScores, judges: Judges, prior: Floats, style: Style, *, clustered: bool) -> Floats:
    """Return the covariance of the effects of covariates, with scores and judges estimated too."""
    from concordant.aggregators._expert_reliability import Variance, judge_information

    outcomes, k = known.outcomes, style.x.shape[1]
    found = judge_information(
        columns(outcomes, style),
        judges,
        score=known.score,
        variance=known.variance or Variance(1.0, 1.0, 1.0),
        prior=prior,
        sided=outcomes.votes.sided,
        effects=True,
    )
    information, gradients = np.zeros((k, k)), np.zeros((max(outcomes.votes.n_experts, 1), k))
    for one, first in zip(found, outcomes.slots.offsets.tolist(), strict=False):
        m = one.information.shape[1]
        if not len(one.expert):
            continue
        of_scores = one.hessian[:m, :m]
        if not prior[first : first + m].any():
            of_scores = of_scores + max(float(np.trace(of_scores)) / m, 1.0) / m
        response = np.linalg.solve(of_scores, one.hessian[:m, m:])
        information += one.hessian[m:, m:] - one.hessian[m:, :m] @ response
        gradients[one.expert] += one.gradients[:, m:] - one.gradients[:, :m] @ response
    inverse = np.asarray(np.linalg.pinv(information, hermitian=True), dtype=np.float64)
    if not clustered:
        return inverse
    present = gradients[np.unique(np.concatenate([one.expert for one in found]))]
    if len(present) < 2:
        return np.full((k, k), np.nan)
    out: Floats = inverse @ cluster_meat(present, np.ones(len(present))) @ inverse
    return out


# BradleyTerry(reliability=True).


def fit(model: BradleyTerry, preferences: Votes, checkpoint: Checkpointer) -> JudgedScores:
    """Estimate the scores and the reliability of every expert jointly."""
    from concordant.aggregators._expert_reliability import fit_judges

    plain = Setting("reliability", False)
    warn_counted_ballots(preferences, "reliability", f"Pass {plain}.", model._warn, plain)
    ties = model.ties != "none"
    if isinstance(preferences, Comparisons) and not ties:
        model._warn_dropped_ties(preferences)
    outcomes = outcomes_by_expert(preferences, model.transform, ties)
    rows = outcomes.votes
    model._warn_unplaced(outcomes, ties)
    if outcomes.all_ties:
        identifiability.warn_all_ties(float(outcomes.pairs.n_ties.sum()), items_in_words(outcomes.slots), model._warn)
    else:
        warn_one_sided(rows, model._warn)
    given = style_of(model, rows, known=False)
    if given is not None:
        _check_style(model, rows, ties)
    fitted = fit_judges(
        columns(outcomes, given),
        rows.n_experts,
        prior=np.repeat(outcomes.prior_precision(model._prior_setting), outcomes.slots.sizes),
        sided=rows.sided,
        ties=None if ties else False,
        tol=model.tol,
        # A sweep over judges and scores in turn goes less far than a Newton step over all.
        max_iter=5 * model.max_iter,
        report=execution.report_progress,
        checkpoint=checkpoint,
    )
    model.ties_ = "davidson" if np.isfinite(fitted.tie) else "none"
    model.tie_ = float(np.exp(fitted.tie))
    model.experts_ = rows.experts.tolist()
    model.adherence_ = np.array(fitted.reliability)
    model.scale_ = float(fitted.scale)
    model.expert_details_ = details(fitted)
    model._record_search("scores and reliabilities", fitted)
    if model.side_effect:
        model.side_ = fitted.side_effect
    if given is not None:
        model._keep_effects(fitted.beta)
    found = JudgedScores(outcomes, fitted.score, fitted.variance)
    model.shared_covariance_ = _shared_covariance(model, found, fitted)
    return found


def style_of(model: BradleyTerry, rows: Comparisons, *, known: bool = True) -> Style | None:
    """Return the covariates of rows, with their effects where these are `known`; None where none are used."""
    if not model._style:
        return None
    x = style.design(rows, list(model._style), model._style_units)
    beta = np.array(list(model._style.values())) * model._style_units
    return Style(x, beta if known else None)


def _check_style(model: BradleyTerry, rows: Comparisons, ties: bool) -> None:
    """Raise or warn of covariates that the model without judges could not estimate either."""
    from concordant.kernels.bradley_terry import Shared

    x = style.design(rows, list(model._style), model._style_units)
    outcomes = VoteOutcomes(rows, ties, model.side_effect, x)
    if outcomes.all_ties:
        raise model._only_ties()
    model._check_covariates(outcomes, Shared(beta=(0.0,) * len(model._style)))


def _shared_covariance(model: BradleyTerry, found: JudgedScores, fitted: JudgeFit) -> Floats:
    """Return the covariance of the tie parameter, the side effect and the effects of covariates.

    The means of the judges are taken as independent of the effects.
    """
    parameters = Judges.of(model)
    prior = np.repeat(found.outcomes.prior_precision(model._prior_setting), found.outcomes.slots.sizes)
    means = [fitted.mean_stderr.tie] * (model.ties_ != "none") + [fitted.mean_stderr.side] * model.side_effect
    k = len(means)
    out = np.zeros((k + len(model._style), k + len(model._style)))
    out[:k, :k] = np.diag(np.square(means))
    known = style_of(model, found.outcomes.votes)
    if known is not None:
        clustered = model._interval_kind(has_experts=True) == "sandwich"
        out[k:, k:] = effect_covariance(found, parameters, prior / model.scale_**2, known, clustered=clustered)
    return out


def consensus(model: BradleyTerry, preferences: Votes, known: JudgedScores | None, anchors: Ints | None) -> Consensus:
    """Return the scores given the judges; `known` are those of the fit that estimated the judges."""
    parameters = Judges.of(model)
    ties = np.isfinite(parameters.tie)
    outcomes = (
        outcomes_by_expert(preferences, model.transform, ties, model.experts_, model.unknown_experts)
        if known is None
        else known.outcomes
    )
    # The scores are on the scale of the reliable experts; the prior is not.
    prior = np.repeat(outcomes.prior_precision(model._prior_setting), outcomes.slots.sizes) / model.scale_**2
    if known is None:
        model._warn_unplaced(outcomes, ties)
        known = scores(outcomes, parameters, prior, style_of(model, outcomes.votes))
    slots = preferences.slots
    kind = model._feasible_interval_kind(slots, model._interval_kind(has_experts=True), all_or_none=True)
    if kind == "none":
        return model._gauged(slots, known.score, anchors)
    covariances = score_covariances(
        known, parameters, prior, style_of(model, outcomes.votes), clustered=kind == "sandwich"
    )
    words = model._interval_method(kind, has_experts=True)
    return model._gauged(slots, known.score, anchors, covariances, words, outcomes.compared)
