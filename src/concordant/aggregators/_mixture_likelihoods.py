"""What a mixture asks of a ranking model: the likelihood of every list, and the best parameters for weighted lists.

`ListLikelihood` states it; here are those of Plackett-Luce, Bradley-Terry, the multinomial preference model and
Mallows. The lists of comparisons are their rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.base.contract import Votes
from concordant.data.comparisons import Comparisons
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

# The largest tables of pairs of items, for models that need one.
_MANY_ITEMS = 5000
# The prior of MPM: a preference spread over all pairs, for each of so many preferences.
_SPREAD = 1e-3
# No score of Plackett-Luce moves further in one step, and a −Hessian is formed anew where a step leaves more than this
# share of the gradient.
_LONGEST_STEP, _STALE = 4.0, 0.2


class ListLikelihood(Protocol):
    """The likelihood of lists under one component of a mixture.

    Attributes
    ----------
    expert : int[L]
        The expert of every list.
    weight : float64[L]
        How many equal lists every list stands for.
    evidence : float
        How many independent observations a counted one is worth: 1 where the probabilities of all possible lists sum
        to 1, less where the pairs of one list are counted as if they were independent.
    """

    expert: Ints
    weight: Floats
    evidence: float

    def fit(self, weight: Floats, start: Any) -> Any:
        """Return the best parameters for lists of these weights, or better ones than `start` (None at first)."""

    def log_likelihood(self, parameters: Any) -> Floats:
        """Return the log-likelihood of every list, as if of weight 1."""

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
    if largest > _MANY_ITEMS:
        raise DataError(
            f"a mixture of {owner} needs tables of all pairs of items, and an instance has {largest:,}. Use "
            "of='plackett-luce' or of='mpm', or fewer items."
        )


def _dependence(row_list: Codes | Ints, net: Floats, total: Floats, weight: Floats) -> float:
    """Return how many independent pairs a counted pair is worth, from the net counts of every list.

    Where all orders of a list's items are equally likely, the net counts of a list have the mean square Σ_i c_i², and
    2 T if its T pairs were independent.
    """
    squares = np.bincount(row_list, weights=net * net, minlength=len(total))
    counted, observed = float(weight @ (2.0 * total)), float(weight @ squares)
    return min(1.0, counted / observed) if observed > 0 else 1.0


class PlackettLuceLists:
    """The likelihood of lists under Plackett-Luce; the parameters are the scores of every instance."""

    evidence = 1.0

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
    """Scores, and −Hessian near them, which weights that change little do not change much; None to form it anew."""

    score: Floats
    hessian: Floats | None


def _step(model: PenalisedLikelihood, at: _ScoresAndCurvature) -> _ScoresAndCurvature:
    """Return better scores, by one step of Newton's method with the −Hessian at hand."""
    from concordant.kernels.linear_systems import solve_positive_definite

    hessian = at.hessian
    if hessian is None:
        hessian = model.sandwich_parts(at.score).hessian
    point = model.evaluate(at.score)
    step = solve_positive_definite(hessian.copy(), point.gradient[:, None])
    if step is None:
        return _ScoresAndCurvature(at.score, None)
    moved = backtrack(
        lambda part: model.at(at.score + part * step[:, 0]),
        lambda found, _: found.value >= point.value,
        min(1.0, _LONGEST_STEP / max(float(np.abs(step).max()), 1e-300)),
        halvings=9,
    )
    if moved is None:
        return _ScoresAndCurvature(at.score, None)
    # A −Hessian that no longer fits leaves much of the gradient.
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
        # Covariates that comparisons carry are not used.
        plain = type(method)(**method.get_params() | {"uncertainty": "none", "covariates": []})
        plain.fit(votes)
        ties = plain.ties_ == "davidson"
        self.shared = Shared(DAVIDSON, float(np.log(plain.tie_))) if ties and plain.tie_ > 0 else Shared()
        self.outcomes: Any = plain._outcomes(votes, ties=ties)
        self.votes, self.slots = votes, votes.slots
        self.prior = self.outcomes.prior_precision(plain._prior_setting)
        self.evidence = 1.0
        _check_size(int(votes.slots.sizes.max(initial=0)), "BradleyTerry")
        if isinstance(votes, Comparisons):
            # Rows without an outcome say nothing.
            self.expert, self.weight = votes.row_expert.astype(np.int64), (votes.outcomes > 0).astype(np.float64)
            return
        from concordant.aggregators._net_counts import net_counts

        self.expert, self.weight = votes.list_expert.astype(np.int64), votes.weights
        every = net_counts(votes.with_list_weights(np.ones(votes.n_lists)), method.transform, False)
        self.evidence = _dependence(votes.row_list, every.net, every.total, self.weight)

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

    A small prior, preferences spread evenly over all pairs, keeps them finite.
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
        heard = (counts.total > 0).astype(np.float64)
        self.weight = heard if isinstance(votes, Comparisons) else votes.weights
        self.offsets, self.instance = counts.offsets, counts.list_instance
        self.row_list = np.repeat(np.arange(len(counts.expert)), np.diff(counts.list_offsets))
        self.slot, self.net, self.total = counts.slot, counts.net, counts.total
        sizes = np.diff(self.offsets)
        self.sizes = sizes.astype(np.float64)
        self.spread = _SPREAD * self._per_instance(self.weight * self.total)
        self.evidence = 1.0
        if not isinstance(votes, Comparisons):
            self.evidence = _dependence(self.row_list, self.net, self.total, self.weight)

    def _per_instance(self, of_list: Floats) -> Floats:
        return np.bincount(self.instance, weights=of_list, minlength=len(self.offsets) - 1).astype(np.float64)

    def fit(self, weight: Floats, start: Floats | None) -> Floats:
        from concordant.kernels.mpm import net_scores

        n = int(self.offsets[-1])
        net = np.bincount(self.slot, weights=weight[self.row_list] * self.net, minlength=n).astype(np.float64)
        total = self._per_instance(weight * self.total) + self.spread
        # What cancels up to rounding errors is nothing.
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
        held = np.flatnonzero(self.sizes > 1)
        starts = self.offsets[:-1][held]
        up, down = (np.add.reduceat(np.exp(sign * score), starts) if len(held) else np.zeros(0) for sign in (1, -1))
        # Instances of one item lie between others; they add to the sum of the instance before.
        ones = np.flatnonzero(self.sizes == 1)
        if len(ones) and len(held):
            before = np.searchsorted(held, ones) - 1
            kept = before >= 0
            np.subtract.at(up, before[kept], np.exp(score[self.offsets[ones[kept]]]))
            np.subtract.at(down, before[kept], np.exp(-score[self.offsets[ones[kept]]]))
        out[held] = np.log(up * down - self.sizes[held])
        return out

    def log_prior(self, parameters: Floats) -> float:
        pairs = np.maximum(self.sizes * (self.sizes - 1.0), 1.0)
        return -float(self.spread @ (self._log_normaliser(parameters) - np.log(pairs)))


class MallowsLists:
    """The likelihood of lists under Mallows; the parameters are the centre and θ of every instance.

    A prior of one list, as far from the centre as the lists of all experts are on average, keeps θ finite.
    """

    evidence = 1.0

    def __init__(self, method: Mallows, votes: Preferences) -> None:
        from concordant.aggregators._mallows import ExpectedDistances, pools_of

        self.dispersion = method.dispersion
        found = pools_of(votes, max(votes.n_slots, 1), method.missing, np.arange(votes.n_experts, dtype=np.int32))
        self.pools = [pool for pool in found if pool is not None]
        _check_size(max((p.n for p in self.pools), default=0), "Mallows")
        self.expert = np.concatenate([np.zeros(0, dtype=np.int64), *(p.expert for p in self.pools)]).astype(np.int64)
        self.weight = np.concatenate([np.zeros(0), *(p.weight for p in self.pools)])
        self.starts = offsets_of(np.array([len(p.expert) for p in self.pools], dtype=np.int64))
        # Every list is an expert of its own, so that the coefficients of its normaliser are a row.
        each = [
            replace(pool, expert=np.arange(a, a + len(pool.expert), dtype=np.int32), weight=np.ones(len(pool.expert)))
            for pool, a in zip(self.pools, self.starts.tolist(), strict=False)
        ]
        distances = ExpectedDistances(each, len(self.expert))
        self.known, self.last = distances._known, distances.size - 1
        self.usual: list[tuple[float, Floats]] = []
        self._hold()

    def _hold(self) -> None:
        """Keep the mean distance of the lists of every instance from their centre, for the prior of θ."""
        usual = []
        for n, (order, _) in enumerate(self.fit(self.weight, None)):
            own, lists = self.pools[n], slice(self.starts[n], self.starts[n + 1])
            mean = self.weight[lists] / max(float(self.weight[lists].sum()), 1e-300)
            usual.append((float(mean @ self._distances(own, order)), mean @ self.known[lists]))
        self.usual = usual

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
            # By wins less losses at first, which is the centre where the lists agree.
            tries = [np.argsort((cost - cost.T).sum(axis=1), kind="stable").astype(np.int64)]
            if start is not None:
                tries.append(np.array(start[n][0]))
            costs = [insertion_search(cost, order) for order in tries]
            best = int(np.argmin(costs[::-1]))
            order, distance = tries[::-1][best], costs[::-1][best]
            row = own @ self.known[lists]
            if self.usual:
                distance, row = distance + self.usual[n][0], row + self.usual[n][1]
            theta = self.dispersion
            if theta is None:
                theta = self._theta(row, distance, 0.0 if start is None else start[n][1])
            out.append((order, float(theta)))
        return out

    def _theta(self, row: Floats, distance: float, near: float) -> float:
        """Return θ at which lists with these coefficients of the normaliser expect the observed distance."""
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
            out[lists] -= self.known[lists] @ mallows.log_factorials(theta, self.last)
        return out

    def log_prior(self, parameters: list[tuple[Any, float]]) -> float:
        from concordant.kernels import mallows

        if self.dispersion is not None:
            return 0.0
        return sum(
            theta * distance - float(row @ mallows.log_factorials(theta, self.last))
            for (_, theta), (distance, row) in zip(parameters, self.usual, strict=True)
        )
