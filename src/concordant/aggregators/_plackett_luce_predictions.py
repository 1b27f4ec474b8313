"""Predictions of a fitted Plackett-Luce model: laws of pairs and rankings, votes as choices, parts of its scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from concordant.aggregators._explanations import WorkingResponses
from concordant.aggregators._predictions import ExpertFit, PairLaw
from concordant.arrays import Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.errors import DataError, KindError, NotFittedError, quote
from concordant.inference.predictions import (
    DavidsonLuceLaw,
    LuceLaw,
    RankingLaw,
    davidson_law,
    davidson_luce_shares,
)
from concordant.kernels.lists import offsets_of, ranges

if TYPE_CHECKING:
    from concordant.aggregators._plackett_luce_fit import PenalisedLikelihood
    from concordant.aggregators._plackett_luce_rankings import RankingData
    from concordant.aggregators.plackett_luce import PlackettLuce, _FittedModels
    from concordant.data.preferences import Preferences
    from concordant.kernels.plackett_luce import Rankings

__all__ = ["PairLaw", "RankingLaw", "expert_fit", "pair_law", "pairwise", "ranking_law", "working_responses"]


def _tie_parameters(model: PlackettLuce) -> tuple[Ints, Floats]:
    """Return the sizes of blocks and log δ of each, from size 1."""
    if "tie_" not in model.__dict__:
        raise NotFittedError.of(type(model).__name__)
    sizes = np.concatenate([[1], model.tie_sizes_]).astype(np.int64)
    return sizes, np.concatenate([[0.0], np.log(model.tie_)])


def pair_law(model: PlackettLuce, gap: Floats, expert: Any) -> PairLaw:
    """Return the probabilities of win, tie and loss in a list of two items; ties with Davidson-Luce only."""
    tie = -np.inf
    if model._has_tie_parameters:
        sizes, log_delta = _tie_parameters(model)
        tie = float(log_delta[sizes == 2][0]) if (sizes == 2).any() else -np.inf
    return davidson_law(gap if expert is None else model.adherence_[expert] * gap, tie)


def ranking_law(model: PlackettLuce, score: Floats, expert: int | None) -> RankingLaw:
    """Return the law of a ranking of items with these scores."""
    if model._has_tie_parameters:
        return DavidsonLuceLaw(score, *_tie_parameters(model))
    return LuceLaw(score if expert is None else float(model.adherence_[expert]) * score)


def pairwise(model: PlackettLuce, votes: Preferences) -> Comparisons:
    """Return lists as pairs: their relative order in a list has the odds of the two alone, unless ties are outcomes."""
    if model._has_tie_parameters and (votes.list_lengths > 2).any():
        raise KindError(
            "with ties='davidson-luce' the order of two items in a longer list depends on the others: there are no "
            "residuals of pairs. Use by='expert', or ties='average'."
        )
    return votes.comparisons("binary", ties=model._has_tie_parameters, missing=model.missing)


def expert_fit(data: RankingData, votes: Preferences, board: Consensus) -> ExpertFit:
    """Return the choices of single items by expert: their number and log-likelihood, and the score test's parts.

    A choice of i from the items R has the log-likelihood α s_i − log Σ_R exp(α s). Its derivative in α at 1 is s_i less
    the mean of s under the model, and has the variance of s. Tied blocks are left out; whatever the model
    of ties, a single item is chosen in proportion to exp(s), given that a single one is chosen.
    """
    place = votes.slots.locate(board.slots)
    if (lost := np.flatnonzero((place < 0) & data.compared)).size:
        instance, item = votes.slots.where(int(lost[0]))
        raise DataError(f"the model has no score of item {quote(item)} in instance {quote(instance)}.")
    score = np.where(place < 0, 0.0, board.score[np.maximum(place, 0)])[data.compared]
    before = offsets_of(data.counts)
    sums = np.zeros((4, votes.n_experts))
    for n in range(len(data.counts)):
        own = score[int(before[n]) : int(before[n + 1])]
        for k in range(int(data.list_starts[n]), int(data.list_starts[n + 1])):
            every = _expanded(_some_lists(data.rankings, np.array([k])), len(own))
            found = _choices(own, every)
            sums[:, int(votes.list_expert[data.source[k]])] += float(every.weight[0]) * found
    return ExpertFit(*sums)


def _choices(score: Floats, one: Rankings) -> Floats:
    """Return the parts of `ExpertFit` for one list."""
    s = score[one.item] * (float(one.theta[0]) if len(one.theta) else 1.0)
    s = s - s.max()
    worth = np.exp(s)[::-1]
    total, first, second = (np.cumsum(worth * power)[::-1] for power in (1.0, s[::-1], s[::-1] ** 2))
    single = (one.mark == 1) & np.append(one.mark[1:] != 0, True)
    mean = first[single] / total[single]
    variance = np.maximum(second[single] / total[single] - mean**2, 0.0)
    logs = s[single] - np.log(total[single])
    return np.array([single.sum(), logs.sum(), (s[single] - mean).sum(), variance.sum()])


def _some_lists(rankings: Rankings, which: Ints) -> Rankings:
    """Return some of the lists."""
    starts, ends = rankings.offsets[which], rankings.offsets[which + 1]
    rows = ranges(starts, ends)
    return rankings._replace(
        item=rankings.item[rows],
        mark=rankings.mark[rows],
        offsets=offsets_of(ends - starts),
        weight=rankings.weight[which],
        form=rankings.form[which],
        theta=rankings.theta[which] if len(rankings.theta) else rankings.theta,
    )


def _expanded(rankings: Rankings, size: int) -> Rankings:
    """Return the lists with every rest expanded item by item."""
    from concordant.kernels.plackett_luce_lists import expanded

    rests = np.flatnonzero(rankings.form == 2)
    return expanded(rankings, size, rests) if len(rests) else rankings


def working_responses(estimate: _FittedModels, votes: Preferences, by: str, score: Floats) -> WorkingResponses:
    """Return the working responses of one instance; `score` are those of all slots."""
    data, model, own = estimate.data, estimate.models[0], estimate.optima[0].score
    hessian = model.sandwich_parts(own).hessian if model.size else np.zeros((0, 0))
    places = data.places(0)
    if by == "expert":
        expert = votes.list_expert[data.source]
        table = np.zeros((model.size, votes.n_experts))
        for e in np.unique(expert).tolist():
            lists = _some_lists(data.rankings, np.flatnonzero(expert == e))
            table[:, e] = _response(model._replace_rankings(_expanded(lists, model.size)), own)
        names = votes.experts.tolist()
    else:
        curvature = -hessian
        np.fill_diagonal(curvature, 0.0)
        table = curvature * (own[:, None] - own[None, :]) + _flows(data, model, own)
        names = votes.items.tolist()
    return WorkingResponses(names, table, hessian, model.shift_free, places, score)


def _response(one: PenalisedLikelihood, score: Floats) -> Floats:
    """Return H ŝ + g of some lists."""
    product = np.empty(len(score))
    one._hessian_product(score - score.max(), score, True, product)
    out: Floats = product + one.likelihood_gradient(score)
    return out


def _flows(data: RankingData, model: PenalisedLikelihood, score: Floats) -> Floats:
    """Return the gradient as an antisymmetric table of pairs, F_ij = Σ over choices (y_i p_j − y_j p_i).

    y is the share of each item in the block chosen and p its expectation; both sum to 1, so rows sum to y − p.
    """
    out = np.zeros((len(score), len(score)))
    every = _expanded(data.rankings, len(score))
    ties = getattr(model, "ties", None)
    for k in range(len(every.weight)):
        rows = slice(int(every.offsets[k]), int(every.offsets[k + 1]))
        item, mark = every.item[rows], every.mark[rows]
        theta = float(every.theta[k]) if len(every.theta) else 1.0
        s = theta * score[item]
        starts = np.append(np.flatnonzero(mark), len(item))
        worth = np.exp(s - s.max())
        left = np.cumsum(worth[::-1])[::-1]
        chosen, expected = [], []
        for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            if mark[start] == 2:
                break
            q = end - start
            y = np.zeros(len(item))
            y[start:end] = 1.0 / q
            if ties is not None:
                p = np.zeros(len(item))
                p[start:] = davidson_luce_shares(s[start:], ties.sizes, ties.log_delta)[1].sum(axis=1)
                chosen.append(y)
                expected.append(p)
                continue
            # Efron: the j-th choice of a tied block leaves the share 1 − j / q of each of its items.
            for j in range(q):
                p = np.zeros(len(item))
                p[start:] = worth[start:]
                p[start:end] *= 1.0 - j / q
                p /= left[start] - j / q * worth[start:end].sum()
                chosen.append(y)
                expected.append(p)
        if chosen:
            flow = np.array(chosen).T @ np.array(expected)
            out[np.ix_(item, item)] += theta * float(every.weight[k]) * (flow - flow.T)
    return out
