"""Finite mixtures of ranking models: EM from several starts, and the number of components by held-out likelihood.

Expert e belongs to component c with prior probability ω_c, and all lists of an expert come from one component. EM
alternates the posterior probabilities of membership (responsibilities) with weighted fits of every component, and the
penalised log-likelihood Σ_e n_e log Σ_c ω_c exp(ℓ_ec) + Σ_c log prior_c never falls; n_e, the multiplicity, is the
number of equal experts that e stands for.

The result does not depend on the names or the order of experts, items and rows: random numbers are assigned to experts
in an order that follows from their preferences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from concordant.aggregators._mixture_likelihoods import ListLikelihood
from concordant.arrays import Floats, Ints
from concordant.base.contract import Votes
from concordant.data.comparisons import Comparisons

__all__ = ["ExpertLikelihoods", "HeldOut", "MixtureEstimate", "choose_components", "estimate", "positions"]

# EM steps of each start, before EM continues from the best.
_START_STEPS = 5
# A fold uses one in this many of the starts.
_FOLD_STARTS = 3
# The tolerance of a fold, as a multiple of `tol`.
_FOLD_TOL = 10.0
# The largest number of k-means iterations.
_KMEANS_STEPS = 20
# The largest table of positions for k-means; with more items, those ranked most often are used.
_MOST_CELLS = 5_000_000
# With automatic choice, each component has at least this many experts.
_LEAST_EXPERTS = 5
# More components must lead by this many standard errors,
_LEAD_STDERRS = 2.0
# and by this much in the log-likelihood of all experts: a smaller lead is no evidence, however small its standard
# error.
_LEAST_LEAD = 1.0
# Avoids the logarithm of a share of 0, and division by 0.
_TINY = 1e-300


class MixtureEstimate(NamedTuple):
    """The result of EM: parameters and shares of the components, responsibilities [K, C], and convergence."""

    parameters: list[Any]
    shares: Floats
    responsibilities: Floats
    objective: float
    log_likelihood: float
    trace: list[float]
    converged: bool


class HeldOut(NamedTuple):
    """Held-out likelihood for 1, 2, ... components, and the number chosen.

    `score` is the mean log-likelihood of an expert; `lead` is that of the best number minus this one, and `stderr` its
    paired standard error.
    """

    components: list[int]
    score: list[float]
    lead: list[float]
    stderr: list[float]
    chosen: int


class ExpertLikelihoods:
    """The likelihood of all lists of every expert.

    Parameters
    ----------
    lists : ListLikelihood
        The likelihood of every list.
    n_experts : int
        The number of experts.
    """

    def __init__(self, lists: ListLikelihood, n_experts: int) -> None:
        self.lists, self.n_experts = lists, n_experts
        total = np.bincount(lists.expert, weights=lists.weight, minlength=n_experts).astype(np.float64)
        count = np.bincount(lists.expert[lists.weight > 0], minlength=n_experts)
        # A list of weight 3 stands for three equal experts; different weights of an expert are averaged.
        self.multiplicity: Floats = total / np.maximum(count, 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            self._share: Floats = np.where(lists.weight > 0, lists.weight / self.multiplicity[lists.expert], 0.0)

    def table(self, parameters: list[Any]) -> Floats:
        """Return the log-likelihood of each expert under each component [K, C], corrected by the design effect."""
        columns = [
            np.bincount(self.lists.expert, self._share * self.lists.log_likelihood(p), minlength=self.n_experts)
            for p in parameters
        ]
        return np.asarray(self.lists.inverse_design_effect * np.stack(columns, axis=1), dtype=np.float64)

    def fit(self, amount: Floats, start: Any) -> Any:
        """Return the parameters of a component in which expert e counts `amount[e]` times."""
        return self.lists.fit(self._share * amount[self.lists.expert], start)

    def maximise(
        self, multiplicity: Floats, responsibilities: Floats, parameters: list[Any] | None, max_iter: int, tol: float
    ) -> MixtureEstimate:
        """Return the estimate after at most `max_iter` steps of EM from some responsibilities."""
        n = responsibilities.shape[1]
        components: list[Any] = [None] * n if parameters is None else list(parameters)
        total, trace = float(multiplicity.sum()), []
        while True:
            components = [self.fit(multiplicity * responsibilities[:, c], components[c]) for c in range(n)]
            shares = multiplicity @ responsibilities / total
            logs, responsibilities = self.memberships(components, shares)
            log_likelihood = float(multiplicity @ logs) / self.lists.inverse_design_effect
            trace.append(log_likelihood + sum(self.lists.log_prior(p) for p in components))
            converged = len(trace) > 1 and trace[-1] - trace[-2] <= tol * total
            if converged or len(trace) >= max_iter:
                return MixtureEstimate(
                    components, shares, responsibilities, trace[-1], log_likelihood, trace, converged
                )

    def memberships(self, parameters: list[Any], shares: Floats) -> tuple[Floats, Floats]:
        """Return the log-likelihood of every expert under the mixture, and the responsibilities [K, C]."""
        joint = self.table(parameters) + np.log(np.maximum(shares, _TINY))
        top = joint.max(axis=1)
        odds = np.exp(joint - top[:, None])
        whole = odds.sum(axis=1)
        return top + np.log(whole), odds / whole[:, None]


def positions(votes: Votes) -> Floats:
    """Return the positions that experts give items [K, S], from −1 (last) to 1 (first), 0 if unknown."""
    k, s = votes.n_experts, votes.n_slots
    if isinstance(votes, Comparisons):
        slot = np.concatenate([votes.left, votes.right])
        expert = np.concatenate([votes.row_expert, votes.row_expert])
        gain = votes.n_left - votes.n_right
        net = np.concatenate([gain, -gain])
        met = np.concatenate([votes.outcomes, votes.outcomes])
    else:
        won, lost = votes.pair_sums("binary")
        slot, expert, net = votes.slot, votes.row_expert, won - lost
        # A list of weight 0 is absent.
        present = np.repeat(votes.weights > 0, votes.list_lengths)
        met = np.repeat(np.maximum(votes.list_lengths - 1, 1), votes.list_lengths) * present.astype(np.float64)
        net = net * present
    kept = np.sort(np.argsort(-np.bincount(slot, minlength=s), kind="stable")[: max(_MOST_CELLS // max(k, 1), 1)])
    column = np.full(s, -1)
    column[kept] = np.arange(len(kept))
    inside = column[slot] >= 0
    cell = expert[inside].astype(np.int64) * len(kept) + column[slot[inside]]
    total, amount = (np.bincount(cell, part[inside], k * len(kept)).reshape(k, -1) for part in (net, met))
    out: Floats = total / np.maximum(amount, 1.0)
    return out


def _by_content(x: Floats, multiplicity: Floats) -> Ints:
    """Return the experts in an order that does not depend on their names or input order: by moments of `x`."""
    centred = x - multiplicity @ x / max(float(multiplicity.sum()), _TINY)
    distance = (centred * centred).sum(axis=1)
    keys = [(x * x).sum(axis=1), centred @ ((multiplicity * distance) @ centred), multiplicity, distance]
    rounded = [np.round(key / max(float(np.abs(key).max(initial=0.0)), _TINY), 9) for key in keys]
    return np.lexsort(rounded).astype(np.int64)


def _kmeans(x: Floats, multiplicity: Floats, n: int, rng: np.random.Generator) -> Ints:
    """Return the cluster of each expert by k-means with k-means++ seeds; rows with multiplicity 0 are ignored."""
    size = (x * x).sum(axis=1)
    centres = np.empty((n, x.shape[1]))
    distance = np.ones(len(x))
    for c in range(n):
        cumulative = np.cumsum(multiplicity * distance)
        if cumulative[-1] <= 0.0:
            cumulative = np.cumsum(multiplicity)
        seed = min(int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")), len(x) - 1)
        centres[c] = x[seed]
        own = np.maximum(size - 2.0 * x @ x[seed] + size[seed], 0.0)
        own[own <= 1e-9 * max(float(size.max()), _TINY)] = 0.0
        distance = own if c == 0 else np.minimum(distance, own)
    cluster = np.full(len(x), -1)
    for _ in range(_KMEANS_STEPS):
        before = cluster
        cluster = np.argmin((centres * centres).sum(axis=1)[None, :] - 2.0 * x @ centres.T, axis=1)
        if (cluster == before).all():
            break
        for c in range(n):
            amount = multiplicity * (cluster == c)
            if amount.any():
                centres[c] = amount @ x / amount.sum()
    return cluster


def estimate(
    experts: ExpertLikelihoods,
    x: Floats,
    multiplicity: Floats,
    n: int,
    *,
    n_starts: int,
    max_iter: int,
    tol: float,
    random_state: int,
) -> MixtureEstimate:
    """Return the best mixture of n components over several starts.

    Each start is a k-means clustering of the experts by `positions`. A few EM steps are made from each, then EM
    continues from the best one until it converges.
    """
    if n == 1:
        return experts.maximise(multiplicity, np.ones((len(x), 1)), None, max_iter, tol)
    order = _by_content(x, multiplicity)
    order = order[multiplicity[order] > 0]
    seen: set[bytes] = set()
    best: MixtureEstimate | None = None
    for start in range(n_starts):
        found = _kmeans(x[order], multiplicity[order], n, np.random.default_rng([random_state, n, start]))
        # Number the clusters as first seen, so that equal clusterings are recognised.
        names, first = np.unique(found, return_index=True)
        number = np.empty(n, dtype=np.int64)
        number[names[np.argsort(first)]] = np.arange(len(names))
        found = number[found]
        if found.tobytes() in seen:
            continue
        seen.add(found.tobytes())
        responsibilities = np.full((len(x), n), 1.0 / n)
        responsibilities[order] = 0.0
        responsibilities[order, found] = 1.0
        short = experts.maximise(multiplicity, responsibilities, None, min(_START_STEPS, max_iter), tol)
        if best is None or short.objective > best.objective + 1e-9 * abs(best.objective):
            best = short
    if best is None:
        raise ValueError("no starts")
    if best.converged or len(best.trace) >= max_iter:
        return best
    more = experts.maximise(multiplicity, best.responsibilities, best.parameters, max_iter - len(best.trace), tol)
    return more._replace(trace=best.trace + more.trace)


def choose_components(
    experts: ExpertLikelihoods,
    x: Floats,
    *,
    max_components: int,
    folds: int,
    n_starts: int,
    max_iter: int,
    tol: float,
    random_state: int,
    report: Callable[[int, int], None],
) -> tuple[HeldOut, MixtureEstimate | None]:
    """Return the number of components by the likelihood of held-out experts, and the mixture if it is above one.

    The smallest number is chosen that the best number leads by at most two standard errors, or by at most 1 in the
    log-likelihood of all experts. A number is rejected if one of its components has fewer than five experts. Numbers
    are tried in turn until two in a row do not improve on the best so far.
    """
    multiplicity = experts.multiplicity
    active = np.flatnonzero(multiplicity > 0)
    units = np.maximum(np.rint(multiplicity[active]), 1.0)
    most = int(min(max_components, units.sum() // _LEAST_EXPERTS, len(active)))
    folds = int(min(folds, units.sum()))
    if most < 2 or units.sum() < 2 * _LEAST_EXPERTS:
        return HeldOut([1], [], [], [], 1), None
    held = _held_out(x, multiplicity, folds, random_state)
    total = float(held.sum())
    logs: list[Floats] = []
    mean: list[float] = []
    for n in range(1, most + 1):
        own = np.zeros(held.shape)
        for f in range(folds):
            report((n - 1) * folds + f, most * folds)
            found = estimate(
                experts,
                x,
                multiplicity - held[:, f],
                n,
                n_starts=max(n_starts // _FOLD_STARTS, 1),
                max_iter=max_iter,
                tol=_FOLD_TOL * tol,
                random_state=random_state,
            )
            own[:, f] = experts.memberships(found.parameters, found.shares)[0]
        logs.append(own)
        mean.append(float((held * own).sum()) / total)
        if n > 2 and max(mean[-2:]) <= max(mean[:-2]):
            break
    allowed = list(range(len(logs)))
    while True:
        best = max(allowed, key=mean.__getitem__)
        gaps = [logs[best] - own for own in logs]
        lead = [float((held * gap).sum()) / total for gap in gaps]
        stderr = [
            float(np.sqrt((held * (gap - ahead) ** 2).sum())) / total for gap, ahead in zip(gaps, lead, strict=True)
        ]
        chosen = next(n for n in allowed if lead[n] <= max(_LEAD_STDERRS * stderr[n], _LEAST_LEAD / total))
        held_out = HeldOut(list(range(1, len(mean) + 1)), mean, lead, stderr, chosen + 1)
        if chosen == 0:
            return held_out, None
        found = estimate(
            experts,
            x,
            multiplicity,
            chosen + 1,
            n_starts=n_starts,
            max_iter=max_iter,
            tol=tol,
            random_state=random_state,
        )
        if np.rint(units @ found.responsibilities[active]).min() >= _LEAST_EXPERTS:
            return held_out, found
        # A component for a few odd experts also raises the held-out likelihood, but is no camp.
        allowed.remove(chosen)


def _held_out(x: Floats, multiplicity: Floats, folds: int, random_state: int) -> Floats:
    """Return the multiplicity of each expert that is held out in each fold [K, F]; equal experts are spread."""
    order = _by_content(x, multiplicity)
    order = order[multiplicity[order] > 0]
    rng = np.random.default_rng([random_state, 0, folds])
    units = np.maximum(np.rint(multiplicity[order]), 1.0).astype(np.int64)
    each, rest = units // folds, units % folds
    counts = np.repeat(each[:, None], folds, axis=1)
    # The remainders go to the folds in turn, in a random order of the experts.
    shuffled = rng.permutation(len(order))
    first = np.cumsum(rest[shuffled]) - rest[shuffled]
    for e, a, n in zip(shuffled.tolist(), first.tolist(), rest[shuffled].tolist(), strict=True):
        counts[e, (a + np.arange(n)) % folds] += 1
    out = np.zeros((len(multiplicity), folds))
    out[order] = counts * (multiplicity[order] / units)[:, None]
    return out
