"""Covariance of Bradley-Terry scores: observed information, sandwich clustered by expert, or bootstrap.

What all models with intervals share, from covariances to ranges of ranks, is in `inference.uncertainty`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant import execution
from concordant.aggregators._bradley_terry_identifiability import Warn
from concordant.aggregators._pairwise_outcomes import PairwiseOutcomes
from concordant.arrays import Floats, Ints
from concordant.data.index import MOST_WITH_ALL_PAIRS, Slots
from concordant.data.streams import instance_stream
from concordant.errors import UncertaintyWarning
from concordant.inference.uncertainty import (
    Clusters,
    ScoreCovariance,
    batched,
    regauge,
    sample_covariance,
    score_covariance,
    some_items,
)

if TYPE_CHECKING:
    from concordant.kernels.bradley_terry import Shared

__all__ = [
    "FEW_EXPERTS",
    "NOT_COMPARED",
    "TOO_LARGE",
    "ScoreModel",
    "bootstrap_scores",
    "cluster_meat",
    "memory_of_covariances",
    "score_covariances",
    "too_large",
    "warn_missing",
]

# Up to this many bytes of covariances are computed unless `uncertainty` says otherwise.
_MUCH_MEMORY = 2e9
# Why an instance has no intervals.
FEW_EXPERTS, TOO_LARGE, NOT_COMPARED = "fewer than two experts", "too many items", "nothing was compared"


class ScoreModel(NamedTuple):
    """The model whose scores the covariances are about.

    Attributes
    ----------
    prior : float64[N]
        Precision of the prior in every instance.
    shared : Shared
        Tie parameter and side effect.
    learned : int64[L]
        The shared parameters that were learned: 0 for the tie parameter, 1 for the side effect, from 2 coefficients.
    shared_covariance : float64[L, L]
        Their covariance, empty where it is not known.
    jointly : bool
        Whether they were estimated from these very outcomes, together with the scores of a single instance. Otherwise
        they come from other outcomes too, and their covariance is added.
    """

    prior: Floats
    shared: Shared
    learned: Ints
    shared_covariance: Floats
    jointly: bool


def too_large(n_items: int) -> bool:
    """Return whether the covariance of this many scores is computed only on request."""
    return n_items > MOST_WITH_ALL_PAIRS


def memory_of_covariances(slots: Slots) -> tuple[float, bool]:
    """Return the bytes of the covariances of all instances, and whether they are computed only on request."""
    n_bytes = float((slots.sizes.astype(np.float64) ** 2).sum()) * 8
    return n_bytes, n_bytes > _MUCH_MEMORY


def score_covariances(
    outcomes: PairwiseOutcomes,
    score: Floats,
    model: ScoreModel,
    kind: str,
    *,
    draws: Floats | None = None,
    limited: bool = True,
) -> list[ScoreCovariance | str]:
    """Return the covariance of the scores of every instance, or the reason why there is none.

    Parameters
    ----------
    outcomes, score
        The outcomes and the scores estimated from them.
    model : ScoreModel
        What else was estimated.
    kind : {"information", "sandwich", "bootstrap"}
        How the covariance is estimated.
    draws : float64[B, S], optional
        Scores of bootstrap samples, for "bootstrap".
    limited : bool
        Whether instances of very many items are left out.
    """
    prior, calibration = model.prior, outcomes.calibration
    out: list[ScoreCovariance | str] = [NOT_COMPARED] * len(outcomes.slots)
    done: set[int] = set()
    if kind == "sandwich" and not len(model.learned):
        for stack in outcomes.clusters(score, prior):
            which = stack.instances
            slots = outcomes.slots.offsets[which][:, None] + np.arange(stack.hessian.shape[-1])
            sums = stack.meat, stack.information, stack.squares, stack.counts
            found = score_covariance(
                stack.hessian,
                scores=stack.hessian.shape[-1],
                prior=prior[which][:, None],
                calibration=calibration[which],
                clusters=Clusters(*sums, total=prior[which][:, None] * score[slots]),
            )
            for k, n in enumerate(which.tolist()):
                out[n] = found.one(k) if stack.counts[k] >= 2 else FEW_EXPERTS
            done.update(which.tolist())
    arguments: list[dict[str, Any] | None] = [None] * len(out)
    from_shared: dict[int, Floats] = {}
    for n, own in outcomes.observed_instances():
        if n in done:
            continue
        m = own.stop - own.start
        if limited and too_large(m):
            out[n] = TOO_LARGE
            continue
        information = _information(outcomes, n, score, model)
        given: dict[str, Any] = {
            "hessian": information if model.jointly else information[:m, :m],
            "scores": m,
            "prior": np.full(m, prior[n]),
            "calibration": np.array(calibration[n]),
        }
        if draws is not None:
            given["repeated"] = sample_covariance(draws[:, own])
        if outcomes.has_experts and kind != "information":
            learned = model.learned if model.jointly else model.learned[:0]
            given["clusters"] = Clusters.of(*outcomes.expert_gradients(n, score, model.shared, learned))
            if given["clusters"].count < 2:
                out[n] = FEW_EXPERTS
                continue
        arguments[n] = given
        if len(model.learned) and not model.jointly and model.shared_covariance.size:
            from_shared[n] = _covariance_from_shared(information, m, float(prior[n]), model.shared_covariance)
    for n, made in enumerate(batched(score_covariance, arguments)):
        if made is not None:
            out[n] = made._replace(table=made.table + from_shared[n]) if n in from_shared else made
    return out


def _information(outcomes: PairwiseOutcomes, n: int, score: Floats, model: ScoreModel) -> Floats:
    """Return the information of an instance's scores and the shared parameters learned."""
    from concordant.aggregators import _bradley_terry_fit

    own = score[int(outcomes.slots.offsets[n]) : int(outcomes.slots.offsets[n + 1])]
    prior = float(model.prior[n])
    table = _bradley_terry_fit.information(outcomes.counted.window(n), own, prior, model.shared, model.learned)
    out: Floats = table - outcomes.information_lost_to_habits(n, score, model.shared, model.learned)
    return out


def _covariance_from_shared(information: Floats, m: int, prior: float, shared_covariance: Floats) -> Floats:
    """Return the covariance of m scores that comes from that of the shared parameters (the delta method)."""
    of_scores = information[:m, :m]
    if prior == 0:
        # Without a prior the matrix is singular along a common shift; curvature there changes no solution of mean 0.
        of_scores = of_scores + max(float(np.trace(of_scores)) / m, 1.0) / m
    response = np.linalg.solve(of_scores, information[:m, m:])
    return regauge(response @ shared_covariance @ response.T, None)


def cluster_meat(gradients: Floats, weight: Floats) -> Floats:
    """Return G / (G - 1) Σ (u - mean)(u - mean)ᵀ over the gradients u of G experts: the meat of a sandwich."""
    total = float(weight.sum())
    centred = (gradients - (weight @ gradients) / total) * np.sqrt(weight * total / (total - 1))[:, None]
    out: Floats = centred.T @ centred
    return out


def bootstrap_scores(
    outcomes: PairwiseOutcomes,
    score: Floats,
    model: ScoreModel,
    *,
    n_bootstrap: int,
    random_state: int,
    tol: float,
    max_iter: int,
) -> Floats:
    """Return the scores estimated again with experts, or outcomes, reweighted `n_bootstrap` times."""
    from concordant.aggregators import _bradley_terry_fit

    streams = [instance_stream(random_state, name) for name in outcomes.slots.instances]
    out = np.empty((n_bootstrap, len(score)))
    how: dict[str, Any] = {"start": score, "tol": tol, "max_iter": max_iter}
    which: dict[str, Any] = {"tie": 0 in model.learned, "side": 1 in model.learned, "covariates": True}
    for b in range(n_bootstrap):
        execution.report_progress(b, n_bootstrap)
        pairs = outcomes.resampled(streams)
        if model.jointly:
            out[b] = _bradley_terry_fit.solve_jointly(pairs, model.prior, model.shared, **which, **how).score
        else:
            out[b] = _bradley_terry_fit.solve(pairs, model.prior, model.shared, **how).score
    return out


def warn_missing(covariances: Sequence[ScoreCovariance | str], slots: Slots, warn: Warn) -> None:
    """Warn, once for each reason, of instances that get no intervals."""
    few = [n for n, reason in enumerate(covariances) if reason == FEW_EXPERTS]
    if few:
        warn(
            f"no intervals for {some_items(slots, few)}: fewer than two experts compare items there, and "
            "one alone does not show how far experts differ.",
            UncertaintyWarning,
        )
    large = [n for n, reason in enumerate(covariances) if reason == TOO_LARGE]
    if large:
        m = int(slots.sizes[large[0]])
        warn(
            f"no intervals for instance {slots.instances[large[0]]!r}: the covariance of {m:,} scores takes "
            f"{m * m * 8 / 1e9:.1f} GB several times over. Ask for it with uncertainty='information', 'sandwich' "
            "or 'bootstrap'.",
            UncertaintyWarning,
        )
