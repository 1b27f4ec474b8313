"""Likelihoods of lists for mixtures: Plackett-Luce, Bradley-Terry, the multinomial preference model and Mallows.

`ListLikelihood` is the interface: the log-likelihood of each list, and a fit to weighted lists. For comparisons each
row is a list.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.base.contract import Votes
from concordant.data.comparisons import Comparisons
from concordant.data.index import MOST_WITH_ALL_PAIRS
from concordant.data.preferences import Preferences
from concordant.errors import DataError, ParameterError
from concordant.kernels.lists import offsets_of
from concordant.learning.newton import backtrack

if TYPE_CHECKING:
    from concordant.aggregators._plackett_luce_fit import PenalisedLikelihood
    from concordant.aggregators.bradley_terry import BradleyTerry
    from concordant.aggregators.mallows import Mallows
    from concordant.aggregators.mpm import MPM
    from concordant.aggregators.plackett_luce import PlackettLuce

__all__ = ["BradleyTerryLists", "ListLikelihood", "MPMLists", "MallowsLists", "PlackettLuceLists", "check_settings"]

# The prior of MPM: this share of all preferences is spread evenly over all pairs.
_PRIOR_SHARE = 1e-3
# Plackett-Luce: the largest change of a score in one step, and the share of the gradient that may remain after a step
# before the Hessian is computed again.
_LONGEST_STEP, _STALE = 4.0, 0.2


class ListLikelihood(Protocol):
    """The likelihood of lists under one component of a mixture.

    Attributes
    ----------
    expert : int[L]
        The expert of every list.
    weight : float64[L]
        The number of equal lists that each list stands for.
    inverse_design_effect : float
        1 over the design effect, the factor of the log-likelihood: 1 for a probability model of lists, less if the
        pairs of a list are treated as independent.
    """

    expert: Ints
    weight: Floats
    inverse_design_effect: float

    def fit(self, weight: Floats, start: Any) -> Any:
        """Return the maximum penalised likelihood parameters for weighted lists, or better ones than `start`."""

    def log_likelihood(self, parameters: Any) -> Floats:
        """Return the log-likelihood of each list, without its weight."""

    def log_prior(self, parameters: Any) -> float:
        """Return the logarithm of the prior density of the parameters, without its constant."""


def check_settings(owner: str, wrong: dict[str, bool]) -> None:
    """Raise ParameterError naming the settings of a model that mixtures cannot have."""
    found = [name for name, given in wrong.items() if given]
    if found:
        raise ParameterError(
            f"a mixture of {owner} has no {', '.join(found)}: every component needs a likelihood with a finite maximum "
            "and parameters of its own. Use the default."
        )


def _check_size(largest: int, owner: str) -> None:
    if largest > MOST_WITH_ALL_PAIRS:
        raise DataError(
            f"a mixture of {owner} needs tables of all pairs of items, and an instance has {largest:,}. Use "
            "of='plackett-luce' or of='mpm', or fewer items."
        )


def _inverse_design_effect(row_list: Codes | Ints, net: Floats, total: Floats, weight: Floats) -> float:
    """Return 1 over the design effect of treating the pairs of a list as independent.

    The design effect is the sum of squares of the net counts, Σ_i c_i², over 2 T, its expectation for T independent
    pairs without a preference.
    """
    squares = np.bincount(row_list, weights=net * net, minlength=len(total))
    counted, observed = float(weight @ (2.0 * total)), float(weight @ squares)
    return min(1.0, counted / observed) if observed > 0 else 1.0


class PlackettLuceLists:
    """The likelihood of lists under Plackett-Luce; the parameters are the scores of every instance."""

    inverse_design_effect = 1.0

    def __init__(self, method: PlackettLuce, votes: Preferences) -> None:
        from concordant.aggregators._plackett_luce_rankings import RankingData

        check_settings(
            "PlackettLuce",
            {
                "adherence=True": method.adherence,
                f"ties={method.ties!r}": method.ties in ("partition", "davidson-luce"),
                f"prior={method.prior!r}": method.prior in (0, "published"),
                "optimizer='gd'": method.optimizer == "gd",
            },
        )
        data = RankingData.of(votes, method)
        self.expert = votes.list_expert[data.source].astype(np.int64)
        self.weight = data.rankings.weight.copy()
        self.starts = data.list_starts
        self.models: list[PenalisedLikelihood] = [
            method._likelihood(data, n, merge=False) for n in range(len(data.counts))
        ]

    def fit(self, weight: Floats, start: list[_ScoresAndCurvature] | None) -> list[_ScoresAndCurvature]:
        from concordant.aggregators._plackett_luce_fit import newton

        out = []
        for n, model in enumerate(self.models):
            own = weight[self.starts[n] : self.starts[n + 1]]
            at = None if start is None else start[n]
            if not own.any():
                at = _ScoresAndCurvature(np.zeros(model.size), None)
            elif at is None or not model.dense:
                score = newton(model.reweighted(own), np.zeros(model.size) if at is None else at.score, 3, 1e-9).score
                at = _ScoresAndCurvature(score, None)
            else:
                at = _step(model.reweighted(own), at)
            out.append(at)
        return out

    def log_likelihood(self, parameters: list[_ScoresAndCurvature]) -> Floats:
        from concordant.kernels.mixtures import ranking_log_likelihoods

        out = np.zeros(len(self.weight))
        for n, (model, (score, _)) in enumerate(zip(self.models, parameters, strict=True)):
            r, x = model.rankings, score - score.max(initial=-np.inf)
            own = out[self.starts[n] : self.starts[n + 1]]
            ranking_log_likelihoods(x, np.exp(x), r.item, r.mark, r.offsets, r.form, r.averaged, own)
        return out

    def log_prior(self, parameters: list[_ScoresAndCurvature]) -> float:
        return sum(model.log_prior(at.score) for model, at in zip(self.models, parameters, strict=True))


class _ScoresAndCurvature(NamedTuple):
    """Scores and the −Hessian near them, which is reused while the weights change little; None to compute it again."""

    score: Floats
    hessian: Floats | None


def _step(model: PenalisedLikelihood, previous: _ScoresAndCurvature) -> _ScoresAndCurvature:
    """Return improved scores, by one Newton step with the stored −Hessian."""
    from concordant.kernels.linear_systems import solve_positive_definite

    hessian = previous.hessian
    if hessian is None:
        hessian = model.sandwich_parts(previous.score).hessian
    point = model.evaluate(previous.score)
    step = solve_positive_definite(hessian.copy(), point.gradient[:, None])
    if step is None:
        return _ScoresAndCurvature(previous.score, None)
    moved = backtrack(
        lambda part: model.at(previous.score + part * step[:, 0]),
        lambda found, _: found.value >= point.value,
        min(1.0, _LONGEST_STEP / max(float(np.abs(step).max()), 1e-300)),
        halvings=9,
    )
    if moved is None:
        return _ScoresAndCurvature(previous.score, None)
    # If much of the gradient remains, the −Hessian is out of date.
    return _ScoresAndCurvature(moved.score, None if moved.norm > _STALE * point.norm else hessian)


class BradleyTerryLists:
    """The likelihood of the pairs of lists, or of comparisons, under Bradley-Terry; the parameters are the scores.

    The tie parameter is that of all experts together.
    """

    def __init__(self, method: BradleyTerry, votes: Votes) -> None:
        from concordant.kernels.bradley_terry import DAVIDSON, Shared

        check_settings(
            "BradleyTerry",
            {
                "reliability=True": method.reliability,
                "ties='rao-kupper'": method.ties == "rao-kupper",
                f"prior={method.prior!r}": method.prior in (0, "published"),
                "side_effect=True": method.side_effect,
                "covariates": bool(method.covariates),
                "families": bool(method.families),
                "varying": bool(method.varying),
                "half_life": method.half_life is not None,
                "optimizer='gd'": method.optimizer == "gd",
            },
        )
        # Ignore the covariates of the comparisons.
        plain = type(method)(**method.get_params() | {"uncertainty": "none", "covariates": []})
        plain.fit(votes)
        ties = plain.ties_ == "davidson"
        self.shared = Shared(DAVIDSON, float(np.log(plain.tie_))) if ties and plain.tie_ > 0 else Shared()
        self.outcomes: Any = plain._outcomes(votes, ties=ties)
        self.votes, self.slots = votes, votes.slots
        self.prior = self.outcomes.prior_precision(plain._prior_setting)
        self.inverse_design_effect = 1.0
        _check_size(int(votes.slots.sizes.max(initial=0)), "BradleyTerry")
        if isinstance(votes, Comparisons):
            # Rows without an outcome do not count.
            self.expert, self.weight = votes.row_expert.astype(np.int64), (votes.outcomes > 0).astype(np.float64)
            return
        from concordant.aggregators._net_counts import net_counts

        self.expert, self.weight = votes.list_expert.astype(np.int64), votes.weights
        every = net_counts(votes.with_list_weights(np.ones(votes.n_lists)), method.transform, False)
        self.inverse_design_effect = _inverse_design_effect(votes.row_list, every.net, every.total, self.weight)

    def fit(self, weight: Floats, start: Floats | None) -> Floats:
        from concordant.aggregators._bradley_terry_fit import solve
        from concordant.kernels.pair_counts import from_rows

        if isinstance(self.votes, Comparisons):
            left, right, n_left, n_right, n_ties = self.outcomes.rows
            counts = left, right, n_left * weight, n_right * weight, n_ties * weight
            pairs = from_rows(*counts, self.votes.row_starts, self.slots.offsets)
        else:
            pairs = self.outcomes._count(weight)
        return solve(pairs, self.prior, self.shared, tol=1e-7, start=start).score

    def log_likelihood(self, parameters: Floats) -> Floats:
        if isinstance(self.votes, Comparisons):
            left, right, n_left, n_right, n_ties = self.outcomes.rows
            gap = parameters[left] - parameters[right]
            win, tie = self._logs(gap)
            lose, _ = self._logs(-gap)
            out: Floats = n_left * win + n_right * lose + n_ties * tie
            return out
        from concordant.kernels.mixtures import list_pair_values

        v, outcomes = self.votes, self.outcomes
        out = np.zeros(v.n_lists)
        for n in range(len(v)):
            first, last = int(self.slots.offsets[n]), int(self.slots.offsets[n + 1])
            lists = slice(int(v.list_starts[n]), int(v.list_starts[n + 1]))
            offsets = v.list_offsets[lists.start : lists.stop + 1]
            rows = slice(int(offsets[0]), int(offsets[-1]))
            score = parameters[first:last]
            win, tie = self._logs(score[:, None] - score[None, :])
            item = (v.slot[rows] - first).astype(np.int32)
            list_pair_values(
                outcomes.value[rows].copy(),
                item,
                offsets - offsets[0],
                outcomes.binary,
                outcomes.ties,
                win,
                tie,
                out[lists],
            )
        return out

    def _logs(self, gap: Floats) -> tuple[Floats, Floats]:
        """Return the log-probabilities that the first item wins, and that the two tie."""
        if self.shared.model == 0:
            return -np.logaddexp(0.0, -gap), np.zeros_like(gap)
        whole = np.logaddexp(np.logaddexp(0.5 * gap, -0.5 * gap), self.shared.tie)
        return 0.5 * gap - whole, self.shared.tie - whole

    def log_prior(self, parameters: Floats) -> float:
        return -0.5 * float(np.repeat(self.prior, self.slots.sizes) @ parameters**2)


class MPMLists:
    """The likelihood of preferences under the multinomial preference model; the parameters are the scores.

    A small prior of preferences, spread evenly over all pairs, keeps the scores finite.
    """

    def __init__(self, method: MPM, votes: Votes) -> None:
        from concordant.aggregators._net_counts import net_counts

        check_settings(
            "MPM",
            {
                f"variances={method.variances!r}": bool(method.variances),
                f"adherence={method.adherence!r}": method.adherence not in ("auto", "none"),
                "optimizer='gd'": method.optimizer == "gd",
            },
        )
        lists = votes if isinstance(votes, Comparisons) else votes.with_list_weights(np.ones(votes.n_lists))
        counts = net_counts(lists, method.transform, False)
        self.expert = counts.expert
        has_counts = (counts.total > 0).astype(np.float64)
        self.weight = has_counts if isinstance(votes, Comparisons) else votes.weights
        self.offsets, self.instance = counts.offsets, counts.list_instance
        self.row_list = np.repeat(np.arange(len(counts.expert)), np.diff(counts.list_offsets))
        self.slot, self.net, self.total = counts.slot, counts.net, counts.total
        sizes = np.diff(self.offsets)
        self.sizes = sizes.astype(np.float64)
        self.spread = _PRIOR_SHARE * self._per_instance(self.weight * self.total)
        self.inverse_design_effect = 1.0
        if not isinstance(votes, Comparisons):
            self.inverse_design_effect = _inverse_design_effect(self.row_list, self.net, self.total, self.weight)

    def _per_instance(self, of_list: Floats) -> Floats:
        return np.bincount(self.instance, weights=of_list, minlength=len(self.offsets) - 1).astype(np.float64)

    def fit(self, weight: Floats, start: Floats | None) -> Floats:
        from concordant.kernels.mpm import net_scores

        n = int(self.offsets[-1])
        net = np.bincount(self.slot, weights=weight[self.row_list] * self.net, minlength=n).astype(np.float64)
        total = self._per_instance(weight * self.total) + self.spread
        # Counts that cancel up to rounding errors are 0.
        net[np.abs(net) <= 1e-12 * np.repeat(total, np.diff(self.offsets))] = 0.0
        score, root = np.empty(n), np.empty(len(total))
        net_scores(net, total, self.offsets, score, root)
        return score

    def log_likelihood(self, parameters: Floats) -> Floats:
        won = np.bincount(self.row_list, weights=self.net * parameters[self.slot], minlength=len(self.total))
        out: Floats = won - self.total * self._log_normaliser(parameters)[self.instance]
        return out

    def _log_normaliser(self, score: Floats) -> Floats:
        """Return log Σ_{i≠j} exp(s_i − s_j) of every instance, 0 where there are no pairs."""
        out = np.zeros(len(self.sizes))
        with_pairs = np.flatnonzero(self.sizes > 1)
        starts = self.offsets[:-1][with_pairs]
        up, down = (
            np.add.reduceat(np.exp(sign * score), starts) if len(with_pairs) else np.zeros(0) for sign in (1, -1)
        )
        # `reduceat` adds an instance of one item to the instance before it; subtract it again.
        ones = np.flatnonzero(self.sizes == 1)
        if len(ones) and len(with_pairs):
            before = np.searchsorted(with_pairs, ones) - 1
            kept = before >= 0
            np.subtract.at(up, before[kept], np.exp(score[self.offsets[ones[kept]]]))
            np.subtract.at(down, before[kept], np.exp(-score[self.offsets[ones[kept]]]))
        out[with_pairs] = np.log(up * down - self.sizes[with_pairs])
        return out

    def log_prior(self, parameters: Floats) -> float:
        pairs = np.maximum(self.sizes * (self.sizes - 1.0), 1.0)
        return -float(self.spread @ (self._log_normaliser(parameters) - np.log(pairs)))


class MallowsLists:
    """The likelihood of lists under Mallows; the parameters are the centre and θ of every instance.

    A prior of one list, at the mean distance of all lists from the centre, keeps θ finite.
    """

    inverse_design_effect = 1.0

    def __init__(self, method: Mallows, votes: Preferences) -> None:
        from concordant.aggregators._mallows import ExpectedDistances, pools_of

        self.dispersion = method.dispersion
        found = pools_of(votes, max(votes.n_slots, 1), method.missing, np.arange(votes.n_experts, dtype=np.int32))
        self.pools = [pool for pool in found if pool is not None]
        _check_size(max((p.n for p in self.pools), default=0), "Mallows")
        self.expert = np.concatenate([np.zeros(0, dtype=np.int64), *(p.expert for p in self.pools)]).astype(np.int64)
        self.weight = np.concatenate([np.zeros(0), *(p.weight for p in self.pools)])
        self.starts = offsets_of(np.array([len(p.expert) for p in self.pools], dtype=np.int64))
        # Each list becomes an expert of its own, so that the coefficients of its normaliser form a row.
        each = [
            replace(pool, expert=np.arange(a, a + len(pool.expert), dtype=np.int32), weight=np.ones(len(pool.expert)))
            for pool, a in zip(self.pools, self.starts.tolist(), strict=False)
        ]
        distances = ExpectedDistances(each, len(self.expert))
        self.coefficients, self.last = distances._known, distances.size - 1
        self.prior_lists: list[tuple[float, Floats]] = []
        self._set_prior()

    def _set_prior(self) -> None:
        """Store the prior of θ: the mean distance of the lists of each instance from their centre."""
        prior_lists = []
        for n, (order, _) in enumerate(self.fit(self.weight, None)):
            own, lists = self.pools[n], slice(self.starts[n], self.starts[n + 1])
            mean = self.weight[lists] / max(float(self.weight[lists].sum()), 1e-300)
            prior_lists.append((float(mean @ self._distances(own, order)), mean @ self.coefficients[lists]))
        self.prior_lists = prior_lists

    def _distances(self, pool: Any, order: Any) -> Floats:
        from concordant.kernels.mixtures import discordances

        place, out = np.empty(pool.n, dtype=np.int64), np.empty(len(pool.expert))
        place[order] = np.arange(pool.n)
        discordances(place, pool.item, pool.group, pool.offsets, pool.below, out)
        return out

    def fit(self, weight: Floats, start: list[tuple[Any, float]] | None) -> list[tuple[Any, float]]:
        from concordant.kernels.mixtures import insertion_search, preference_costs

        out = []
        for n, pool in enumerate(self.pools):
            lists = slice(self.starts[n], self.starts[n + 1])
            own = weight[lists].copy()
            cost = np.empty((pool.n, pool.n))
            preference_costs(pool.item, pool.group, pool.offsets, own, pool.below, cost)
            # Start from the order by wins minus losses, which is the centre if the lists agree.
            tries = [np.argsort((cost - cost.T).sum(axis=1), kind="stable").astype(np.int64)]
            if start is not None:
                tries.append(np.array(start[n][0]))
            costs = [insertion_search(cost, order) for order in tries]
            best = int(np.argmin(costs[::-1]))
            order, distance = tries[::-1][best], costs[::-1][best]
            row = own @ self.coefficients[lists]
            if self.prior_lists:
                distance, row = distance + self.prior_lists[n][0], row + self.prior_lists[n][1]
            theta = self.dispersion
            if theta is None:
                theta = self._theta(row, distance, 0.0 if start is None else start[n][1])
            out.append((order, float(theta)))
        return out

    def _theta(self, row: Floats, distance: float, near: float) -> float:
        """Return the θ at which the expected distance equals the observed one."""
        from concordant.kernels import mallows

        def expectation(theta: float) -> float:
            return float(row @ mallows.expected_distances(theta, self.last))

        return mallows.solve_theta(expectation, distance, near)

    def log_likelihood(self, parameters: list[tuple[Any, float]]) -> Floats:
        from concordant.kernels import mallows

        out = np.zeros(len(self.weight))
        for n, (order, theta) in enumerate(parameters):
            lists = slice(self.starts[n], self.starts[n + 1])
            out[lists] = theta * self._distances(self.pools[n], order)
            out[lists] -= self.coefficients[lists] @ mallows.log_factorials(theta, self.last)
        return out

    def log_prior(self, parameters: list[tuple[Any, float]]) -> float:
        from concordant.kernels import mallows

        if self.dispersion is not None:
            return 0.0
        return sum(
            theta * distance - float(row @ mallows.log_factorials(theta, self.last))
            for (_, theta), (distance, row) in zip(parameters, self.prior_lists, strict=True)
        )
