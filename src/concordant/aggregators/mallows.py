"""Mallows models: every list is a noisy copy of one true ranking, with a dispersion θ.

A list at distance d from the true ranking has probability proportional to exp(θ d), θ <= 0: with θ = 0 lists are
random, and the more negative θ the closer they are. `Mallows` has one θ for all lists of an instance and takes the
ranking of greatest likelihood. `ExtendedMallows` learns one θ per expert from all instances and averages over rankings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from math import lgamma
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators._mallows import (
    ChainPair,
    EnergyBuffer,
    ExpectedDistances,
    ObservedDistances,
    PooledLists,
    PoolShape,
    chain_states,
    exact_record,
    pools_of,
    restored_chains,
)
from concordant.aggregators._mallows_predictions import complete_pairs, mallows_law, mallows_pair_law
from concordant.aggregators._mle_existence import disconnected_instances, explain_disconnected, others_alike
from concordant.aggregators._pairwise_votes import MISSING, check_tables
from concordant.aggregators._predictions import ModelPredictions, PairLaw
from concordant.aggregators.fusion import LISTS
from concordant.aggregators.kemeny import Kemeny
from concordant.arrays import Codes, Floats, Ints
from concordant.base.contract import Tags
from concordant.base.limits import check_limits
from concordant.base.params import Constraint, Within, boolean, integer, number, one_of, optional, seed
from concordant.base.registry import register_method
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.preferences import Preferences
from concordant.data.streams import instance_stream
from concordant.errors import (
    ConvergenceWarning,
    DataError,
    IdentifiabilityWarning,
    KindError,
    NotFittedError,
    ParameterError,
    Setting,
    listing,
    quote,
)
from concordant.execution import Shards, map_instances, report_progress, threads, without_progress
from concordant.execution.blocks import Blocks, shards_of
from concordant.inference.experts import check_known, warn_counted_ballots
from concordant.inference.predictions import RankingLaw
from concordant.inference.summary import Estimates, ModelReport
from concordant.kernels import kemeny, mallows
from concordant.learning.checkpoints import StepCheckpoint
from concordant.learning.resumable import Checkpointer, State, join_states, split_states
from concordant.learning.supervision import match_labels

if TYPE_CHECKING:
    from concordant.aggregators._mixture_likelihoods import MallowsLists
    from concordant.data.features import Features
    from concordant.data.labels import Labels

__all__ = ["ExtendedMallows", "Mallows"]

T = TypeVar("T")

_NEGATIVE = Constraint("a number < 0", lambda value: number(most=0).test(value) and value < 0)
_DISPERSIONS = Constraint(
    f"a mapping from expert to a number < 0 and >= {mallows.LEAST_THETA:g}",
    lambda value: (
        isinstance(value, Mapping) and all(_NEGATIVE.test(v) and v >= mallows.LEAST_THETA for v in value.values())
    ),
)

# Up to the first size the exact sum over rankings is as fast as a chain; up to the second it can be requested.
_SOON_EXACT, _MOST_EXACT = 10, 16
# Instances of fewer items are never too large; usual EM steps; least seconds for a pair of items and for an expert.
_MANY_ITEMS, _USUAL_STEPS, _PAIR_SECONDS, _EXPERT_SECONDS = 1000, 20, 2e-6, 5e-4
# From this many items on threads help, because an instance is computed outside the interpreter lock.
_LARGE = 100
# The length of chains in the first iteration, and the greatest length, in moves per item.
_FIRST_SWEEPS, _MOST_SWEEPS = 2.0, 64.0
# Two chains agree when the exp(θ) learned from each differ by no more than this share of 1 − exp(θ), root mean square.
_AGREED = 0.05
# Chains whose difference is above this share of the previous one become longer.
_CLOSER = 0.8
# The decay exponent of averages over iterations: 1 never forgets the start, 1/2 never converges.
_FORGET = 2 / 3
# Inference of one instance: the first and the last window, in moves per item, and the R-hat at which chains agree.
_FIRST_WINDOW, _LAST_WINDOW = 8.0, 1024.0
_R_HAT = 1.1
# The factor of the energy that makes chains only ascend, to find the best state.
_FREEZE = 1e6
# Below this many lists per expert, a weight shows little more than the agreement of one list.
_FEW_LISTS = 2.0
# A prior of this many rankings prevents self-confirming weights; with 1, those of 5,000 voters still are.
_HELD = 10.0
_BELOW = Setting("missing", "below")
_PARTED_HELP = f"Pass {_BELOW} if lists rank absent items below their items, or add lists that connect them."


def _each_pool(work: Callable[[PooledLists], T], pools: list[PooledLists]) -> list[T]:
    """Return the result of `work` for every instance, in threads where some instance is large."""
    if any(p.n >= _LARGE for p in pools):
        return map_instances(lambda i: work(pools[i]), len(pools))
    with threads(1):
        return map_instances(lambda i: work(pools[i]), len(pools))


def _scores(preferences: Preferences, pools: list[PooledLists], places: list[Floats]) -> Floats:
    """Return minus the place of every item, given the places of the items in some list.

    Items in no list share the places below the others; where lists say nothing about absent items, they get the mean
    place.
    """
    slots = preferences.slots
    listed = np.zeros(len(slots), dtype=np.int64)
    unknown = np.zeros(len(slots), dtype=np.bool_)
    score = np.full(slots.n_slots, np.nan)
    for pool, place in zip(pools, places, strict=True):
        n = int(slots.instance[pool.slot[0]])
        listed[n], unknown[n] = pool.n, not pool.below
        score[pool.slot] = -place
    rest = np.where(unknown, (listed + 1) / 2, (listed + 1 + slots.sizes) / 2)
    return np.where(np.isnan(score), -rest[slots.instance], score)


@register_method
class Mallows(ModelPredictions):
    """Minus the mean position of the item in rankings drawn from the Mallows model that fits the lists best.

    A list L of an instance has probability exp(θ d(π, L)) / Z(θ), where d is the number of pairs that L and the centre
    π rank oppositely. The most probable centre is Kemeny's ranking; then θ is the value at which expected and observed
    distances have the same sum. score(i) = −E[position of i in a ranking drawn from the model]: it has the order of the
    centre, and scores come closer as the lists disagree.

    Ties in a list contradict nothing. Z is then the sum over all lists with groups of the same sizes, [n]! divided by
    the factorials of the groups (q-factorials, q = exp θ): a list with ties has the total probability of all its
    orders. The items that an incomplete list leaves out are one more group below (missing="below"), or it ranks only
    its own items ("unknown"). Items that cannot be distinguished share a place. Items in no list come last ("below") or
    in the middle ("unknown"). Empty lists add nothing; a list of weight 2 counts twice.

    Estimand: the centre π, from which the lists deviate least, and θ, the log odds by which each pair in the other
    order makes a list less probable.

    Parameters
    ----------
    dispersion : float, optional
        θ < 0 for all instances; None estimates it for each instance.
    missing : {"auto", "unknown", "below"}
        What a list says about items it leaves out; "auto": what the preferences declare, instance by instance.
    solver, max_items, time_limit
        How the centre is found, as in `Kemeny`.

    Attributes
    ----------
    dispersion_ : dict
        Set by `fit_predict`: θ of every instance; 0 where lists agree no more than random ones, −30 where they never
        disagree.
    dispersion_stderr_ : dict
        Set by `fit_predict`: the standard error of θ in every instance, from the observed information (the variance of
        the sum of the distances). It takes the centre as known, and every list as independent. NaN where θ is given or
        lies at a bound.

    Notes
    -----
    After `fit_predict`, `outcome_probabilities(a, b)`, `ranking_probability`, `first_place_probabilities` and
    `top_k_probabilities` predict complete lists around the centre (docs/uncertainty.md): item a precedes b, d places
    below it, with probability (d + 1) / (1 − q^{d+1}) − d / (1 − q^d), q = exp(θ).

    The information about θ has a closed form: for complete lists without ties n d²/dθ² log [M]! = n Σ_{j=2..M}
    [q / (1 − q)² − j² q^j / (1 − q^j)²], n lists; incomplete and tied lists have sums of such terms.

    Cost O(K M²) to count votes, then that of Kemeny's ranking, which is NP-hard; `fit_info_.objective` is the
    log-likelihood, and `fit_info_.converged` says whether every centre is proven best. Nothing is shared over
    instances.

    References
    ----------
    Mallows, Non-null ranking models I, Biometrika 44, 1957. Fligner and Verducci, Distance based ranking models,
    JRSS B 48, 1986.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": ["a", "b", "c"], "y": ["a", "c", "b"], "z": ["b", "a", "c"]})
    >>> model = cc.Mallows()
    >>> model.fit_predict(votes).ranking()
    ['a', 'b', 'c']
    >>> {q: round(theta, 3) for q, theta in model.dispersion_.items()}
    {'q': -1.044}
    >>> round(model.dispersion_stderr_["q"], 3)
    0.744
    """

    name = "mallows"
    tags = Tags(accepts=LISTS, cost="NP-hard; O(2^n n) for n items in a circle")
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "dispersion": optional(_NEGATIVE),
        "missing": MISSING,
        **{name: Kemeny.constraints[name] for name in ("solver", "max_items", "time_limit")},
    }

    dispersion_: Annotated[dict[str, float], Within(most=0)]
    dispersion_stderr_: Annotated[dict[str, float], Within(least=0, missing=True)]

    def _check_state(self) -> None:
        """Raise where standard errors and dispersions are not of the same instances."""
        if self.__dict__.get("dispersion_stderr_", {}).keys() != self.__dict__.get("dispersion_", {}).keys():
            raise DataError("the standard errors of the dispersions are not one for each instance.")

    def __init__(
        self,
        *,
        dispersion: float | None = None,
        missing: str = "auto",
        solver: str = "auto",
        max_items: int = 100,
        time_limit: float = 30.0,
    ) -> None:
        self.dispersion = dispersion
        self.missing = missing
        self.solver = solver
        self.max_items = max_items
        self.time_limit = time_limit

    def _learns(self) -> bool:
        return False

    def _fit(self, preferences: Any, labels: Labels | None, validation: Any, features: Features | None) -> bool:
        return True  # so that fit_predict stores the dispersions

    def _consensus(self, preferences: Any, known: bool = False) -> Consensus:
        """Return the consensus; store the dispersions where these are the fitted preferences."""
        p: Preferences = preferences
        check_tables(p, type(self).__name__)
        centre = Kemeny(solver=self.solver, max_items=self.max_items, time_limit=self.time_limit, missing=self.missing)
        centre._warns_of_choice = False
        place = -centre.fit_predict(p).score
        found = pools_of(p, max(p.n_slots, 1), self.missing, np.zeros(p.n_experts, dtype=np.int32))
        pools = [pool for pool in found if pool is not None]
        # One θ per instance: treat each instance as one expert.
        distances = ExpectedDistances(
            [replace(pool, expert=np.full(len(pool.expert), i, dtype=np.int32)) for i, pool in enumerate(pools)],
            len(pools),
        )
        expectations = distances.moment_equations(ObservedDistances.zeros(distances)).expected
        cost = dict(zip(p.instances, centre.optimality_["cost"], strict=True))
        theta = np.zeros(len(pools))
        for i, (pool, expectation) in enumerate(zip(pools, expectations, strict=True)):
            if self.dispersion is not None:
                theta[i] = self.dispersion
            elif expectation(0.0) > 0:
                theta[i] = mallows.solve_theta(expectation, cost[pool.name])
        if known:
            self.dispersion_ = dict.fromkeys(p.instances, 0.0)
            self.dispersion_ |= {pool.name: float(t) for pool, t in zip(pools, theta, strict=True)}
            self.dispersion_stderr_ = dict.fromkeys(p.instances, float("nan"))
            self.dispersion_stderr_ |= {
                pool.name: float(e) for pool, e in zip(pools, self._theta_stderr(distances, theta), strict=True)
            }
            info = self.fit_info_
            info.converged = centre.fit_info_.converged
            info.warnings += centre.fit_info_.warnings
            energy = sum(float(t) * cost[pool.name] for pool, t in zip(pools, theta, strict=True))
            normaliser = distances.log_normaliser(theta)
            info.objective = energy - (normaliser or 0.0)
            info.log_likelihood = None if normaliser is None else info.objective
            info.n_parameters = 0 if self.dispersion is not None else len(pools)
            info.n_observations = float(distances.weight.sum())
        self._warn_fit(p, pools, theta)
        places = [
            _expected_places(place[pool.slot], mallows.mean_positions(float(t), pool.n))
            for pool, t in zip(pools, theta, strict=True)
        ]
        return Consensus.from_codes(p.slots, _scores(p, pools, places))

    def _model_report(self) -> ModelReport | None:
        if "dispersion_" not in self.__dict__:
            return None
        names = list(self.dispersion_)
        values, errors = (np.array([d[q] for q in names]) for d in (self.dispersion_, self.dispersion_stderr_))
        return ModelReport(
            [Estimates("dispersion", ["θ"] * len(names), values, errors, names)],
            "The centre is a ranking, which AIC and BIC cannot count as a parameter.",
            "list",
            [
                "The centre has no standard error: θ takes it as known, and every list as independent. The parameters "
                "counted are the θ",
                "Scores are minus expected positions, and have no standard errors",
            ],
            stderr="observed information of θ" if self.dispersion is None else "none, θ is given",
        )

    def _list_likelihood(self, votes: Any) -> MallowsLists:
        from concordant.aggregators._mixture_likelihoods import MallowsLists

        return MallowsLists(self, votes)

    def _instance_theta(self, board: Consensus, n: int) -> float:
        """Return θ of an instance of a consensus."""
        if self.dispersion is not None:
            return float(self.dispersion)
        known: dict[str, float] = self.__dict__.get("dispersion_", {})
        if board.instances[n] not in known:
            raise NotFittedError(
                f"this Mallows has no dispersion of instance {quote(board.instances[n])}. Call fit_predict with its "
                "lists, or set dispersion=."
            )
        return known[board.instances[n]]

    def _pair_law(self, board: Consensus, a: Ints, b: Ints, side: Floats, expert: Any) -> PairLaw:
        return mallows_pair_law(board, a, b, lambda n: self._instance_theta(board, n))

    def _ranking_law(self, board: Consensus, slots: Ints, expert: int | None) -> RankingLaw:
        return mallows_law(board, slots, self._instance_theta(board, int(board.slots.instance[slots[0]])))

    def _pairwise(self, votes: Any) -> Comparisons:
        return complete_pairs(votes, type(self).__name__)

    def _theta_stderr(self, distances: ExpectedDistances, theta: Floats) -> Floats:
        """Return the standard error of every θ from the observed information, NaN for those given or at a bound."""
        information = distances.information(theta)
        out = np.full(len(theta), np.nan)
        if information is None or self.dispersion is not None:
            return out
        inside = (theta < 0) & (theta > mallows.LEAST_THETA) & (information > 0)
        out[inside] = 1.0 / np.sqrt(information[inside])
        return out

    def _warn_fit(self, preferences: Preferences, pools: list[PooledLists], theta: Floats) -> None:
        """Warn of disconnected items, and of lists without common pairs, where absent items are unknown."""
        partial = [(pool, t) for pool, t in zip(pools, theta.tolist(), strict=True) if not pool.below]
        disconnected = _disconnected(preferences, [pool for pool, _ in partial])
        if disconnected:
            self._warn(
                f"{disconnected}: how they mix is unknown, and both are spread over the same places. {_PARTED_HELP}",
                IdentifiabilityWarning,
                _BELOW,
            )
        if self.dispersion is not None:
            return
        undisputed = [pool for pool, t in partial if t <= mallows.LEAST_THETA]
        disjoint = [pool for pool in undisputed if np.count_nonzero(pool.lengths > 1) > 1 and not pool.overlaps()]
        if disjoint:
            name = disjoint[0].name
            more = others_alike(len(disjoint))
            own = preferences.list_instance == preferences.instances.tolist().index(name)
            experts = preferences.experts[np.unique(preferences.list_expert[own])].tolist()
            fixed = Setting("dispersion", -1)
            self._warn(
                f"no two of the experts {listing(experts)} rank the same two items in instance {name!r}{more}, so that "
                f"they cannot disagree: its dispersion has no finite estimate and is cut at {mallows.LEAST_THETA:g}, "
                f"which does not mean that the order is certain. Pass {fixed}, or lists that share items.",
                IdentifiabilityWarning,
                fixed,
            )


def _disconnected(preferences: Preferences, pools: list[PooledLists]) -> str:
    """Return a description of groups of items that no list connects, "" where there are none."""
    adjacent_slots = [pool.adjacent_slots() for pool in pools]
    if not adjacent_slots:
        return ""
    one, other = (np.concatenate(ends) for ends in zip(*adjacent_slots, strict=True))
    disconnected = disconnected_instances(one, other, preferences.slots)
    if not len(disconnected):
        return ""
    why = explain_disconnected(one, other, preferences.slots, int(disconnected[0]))
    return why + others_alike(len(disconnected))


def _expected_places(place: Floats, drawn: Floats) -> Floats:
    """Return the expected position of each item, given its place and those of all places; ties get the mean."""
    order = np.argsort(place, kind="stable")
    new = np.concatenate([[0], np.cumsum(np.diff(place[order]) > 0)])
    shared = np.bincount(new, weights=drawn) / np.bincount(new)
    out = np.empty(len(place))
    out[order] = shared[new]
    return out


def _with_absent_below(rank: Floats) -> Floats:
    """Return the ranks, with absent items (rank 0) sharing the places below the others."""
    listed = rank > 0
    return np.where(listed, rank, 0.5 * (np.count_nonzero(listed) + 1 + len(rank)))


def _places_of_common_ranking(pool: PooledLists, rank: Floats, theta: float | None) -> Floats:
    """Return the expected places where all lists rank alike, θ being their sum; None for the best state.

    The posterior is then a Mallows model around that list, in which tied items share the places of their group. Items
    of which nothing is known are anywhere, so the others are stretched over all places.
    """
    listed = rank > 0 if not pool.below else np.ones(pool.n, dtype=np.bool_)
    own = _with_absent_below(rank)[listed]
    if theta is not None:
        own = _expected_places(own, mallows.mean_positions(theta, len(own)))
    place = np.full(pool.n, (pool.n + 1) / 2)
    place[listed] = own * (pool.n + 1) / (len(own) + 1)
    return place


class _InferredPlaces(NamedTuple):
    """The places of the items of an instance, the length of the chains, and their R-hat."""

    place: Floats
    sweeps: float
    r_hat: float


class _EMState(NamedTuple):
    """The state of EM after an iteration: θ, averaged distances, and the agreement of the chains."""

    theta: Floats
    observed: ObservedDistances | None
    sweeps: float
    trace: list[float]
    averaged: int = 0
    gap: float = np.inf
    chains_agree: bool = True
    move_rate: float = 1.0
    converged: bool = False
    norm: float = 0.0
    objective: float | None = None

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as arrays for a checkpoint."""
        numbers = [self.sweeps, self.averaged, self.gap, self.chains_agree, self.move_rate, self.converged, self.norm]
        objective = np.nan if self.objective is None else self.objective
        out = {"theta": self.theta, "em": np.array([*numbers, objective]), "trace": np.array(self.trace)}
        return (
            out if self.observed is None else out | {"distance": self.observed.distance, "common": self.observed.common}
        )

    @classmethod
    def of(cls, known: State) -> _EMState:
        """Return the state of a checkpoint."""
        sweeps, averaged, gap, chains_agree, move_rate, converged, norm, objective = known["em"].tolist()
        return cls(
            known["theta"],
            ObservedDistances(known["distance"], known["common"]),
            sweeps,
            known["trace"].tolist(),
            int(averaged),
            gap,
            bool(chains_agree),
            move_rate,
            bool(converged),
            norm,
            None if np.isnan(objective) else objective,
        )


class _EStepResult(NamedTuple):
    """The result of an E step: distances, and of every instance the log sum of odds and the share of accepted moves."""

    observed: ObservedDistances
    log_odds: list[float | None]
    move_rate: list[float]


class _MallowsBlock(NamedTuple):
    """The instances of a block with their chains, and the result of the last E step."""

    pools: list[PooledLists]
    chain_pairs: dict[str, ChainPair]
    result: _EStepResult | None


class _PoolSummary(NamedTuple):
    """Summary of a block, computed before the first EM iteration.

    Attributes
    ----------
    shapes : list of PoolShape
        The shapes of its instances.
    sampled : bool
        Whether some instance is too large for exact sums.
    differ : bool
        Whether the lists of some instance disagree.
    """

    shapes: list[PoolShape]
    sampled: bool
    disagree: bool


class _EStep:
    """The E step over blocks of instances, in memory or on workers; the chains stay with their block."""

    def __init__(self, owner: ExtendedMallows, blocks: Shards[_MallowsBlock], fixed: NDArray[np.bool_]) -> None:
        summaries = list(blocks.map(_summary_of, owner))
        shapes = [shape for summary in summaries for shape in summary.shapes]
        self.distances = ExpectedDistances(shapes, len(fixed), owner.formula, owner.norm, fixed)
        self.sampled = any(summary.sampled for summary in summaries)
        self.disagree = any(summary.disagree for summary in summaries)
        self._owner, self._blocks = owner, blocks

    def run(self, theta: Floats, sweeps: float) -> _EStepResult:
        """Run the E step: return the expected distances of the lists to the true rankings given θ."""
        self._blocks = self._blocks.persist(_sampled_block, self._owner, theta, sweeps, self._blocks.recomputed)
        results = [result for result in self._blocks.map(attrgetter("result")) if result is not None]
        observed = ObservedDistances(
            *(np.concatenate(parts, axis=1) for parts in zip(*(result.observed for result in results), strict=True))
        )
        return _EStepResult(
            observed,
            [v for result in results for v in result.log_odds],
            [m for result in results for m in result.move_rate],
        )

    def state(self) -> dict[str, Any]:
        """Return the states of the chains."""
        return join_states(list(self._blocks.map(_state_of)))

    def restore(self, known: State) -> None:
        """Set the chains to a state."""
        self._blocks = self._blocks.persist_each(_restored_block, split_states(known), self._owner)


def _block_of(block: Preferences, owner: ExtendedMallows) -> _MallowsBlock:
    owner._checked(block)
    pools = owner._pools(block)
    owner._check_work(block, pools, learning=True)
    return _MallowsBlock(pools, {}, None)


def _summary_of(block: _MallowsBlock, owner: ExtendedMallows) -> _PoolSummary:
    shapes = [PoolShape.of(pool) for pool in block.pools]
    disagree = any(pool.common_ranking(pool.weight) is None for pool in block.pools)
    return _PoolSummary(shapes, _sampled(owner, block.pools), disagree)


def _sampled(owner: ExtendedMallows, pools: list[PooledLists]) -> bool:
    return owner.e_step in ("auto", "sampling") and not all(map(owner._is_exact, pools))


def _sampled_block(
    block: _MallowsBlock, owner: ExtendedMallows, theta: Floats, sweeps: float, copy: bool
) -> _MallowsBlock:
    """Return the block after an E step; with `copy` the chains of the given block are not changed."""
    chain_pairs = block.chain_pairs
    if copy:
        chain_pairs = {name: ChainPair(w.pool, w.orders, deepcopy(w.rng), w.swaps) for name, w in chain_pairs.items()}
    result = owner._run_e_step(block.pools, theta, chain_pairs, EnergyBuffer(), sweeps)
    return _MallowsBlock(block.pools, chain_pairs, result)


def _state_of(block: _MallowsBlock) -> State:
    return chain_states([block.chain_pairs[pool.name] for pool in block.pools if pool.name in block.chain_pairs])


def _restored_block(block: _MallowsBlock, known: State, owner: ExtendedMallows) -> _MallowsBlock:
    """Return the block with its chains in the state of a checkpoint."""
    pools = block.pools
    sampled_pools = [pool for pool in pools if not owner._is_exact(pool)] if _sampled(owner, pools) else []
    restored = restored_chains(
        sampled_pools, [owner._stream(pool) for pool in sampled_pools], owner.moves == "swap", known
    )
    return _MallowsBlock(pools, {chains.pool.name: chains for chains in restored}, None)


@register_method
class ExtendedMallows(ModelPredictions):
    """Minus the posterior mean position of the item, with a learned dispersion per expert.

    `fit` learns θ_e <= 0 for every expert e from all instances: given the true ranking π of an instance, a list L of e
    has probability exp(θ_e d(π, L)) / Z. The true rankings are unknown, so EM alternates: given θ, the E step computes
    the expected distance of every list to the true ranking, which has odds exp(sum over lists of θ_e d); the M step
    finds the θ_e at which the model expects these distances. `predict` uses the learned θ and gives
    score(i) = −E[position of i]. A random expert gets θ near 0 and has no effect; no labels are needed.

    Lists may have any length and different items: the true ranking orders all items of some list, and its first k
    places are compared with a list of m <= k items. d is the number of pairs in opposite order, where the items outside
    either are tied below it, less r (r − 1) / 2 for the r items of the list that are not among the first k. For m = k
    this is the top-k distance of the paper, for complete lists Kendall's distance. E[d] is conditional on the number z
    of common items (norm="given-z") or over all lists from the pool ("full"); both are the same where k covers the
    pool. Ties in a list contradict nothing, and expectations are over lists with groups of the same sizes. Items in no
    list come last, tied (in the middle with missing="unknown"); items never among the first k tie above them. A list of
    weight 2 counts twice. An expert without a list gets the median θ.

    Estimand: θ_e of every expert, and for each instance the posterior mean position of an item in the true ranking π.

    Parameters
    ----------
    k : int, optional
        Lists are cut to their k best items, and the first k places of the true ranking count. None takes the length of
        the longest list of each instance. With k larger than the pool the whole order counts.
    missing : {"auto", "unknown", "below"}
        "below": a list ranks the items it leaves out below its items. "unknown": it says nothing about them; it is then
        compared with the true order of its own items, and k must be None. "auto": what the preferences declare,
        instance by instance.
    e_step : {"auto", "sampling", "borda", "exact", "oracle"}
        How expected distances are computed. "sampling": Markov chains. "exact": the sum over all rankings, by dynamic
        programming, for up to 16 items. "auto": exact up to 10 items, else sampling. "borda": the distance to the order
        by mean rank, each list with weight exp(−θ). "oracle": the distance to the order of the labels given to `fit`
        (ties broken at random, unlabelled items last), which shows θ for known true rankings.
    inference : {"mean", "best", "borda"}
        score = minus the posterior mean position, minus the place in the most probable state found, or minus the mean
        rank.
    formula : {"corrected", "printed"}
        The expected distance given z; "printed" is the formula of the paper, which treats dependent variables as
        independent and ignores ties. For comparison only.
    norm : {"given-z", "full"}
        See above.
    moves : {"insert", "swap"}
        The moves of the chains: a new place for one item (Gibbs), or swaps of two items as in the paper, which are
        slower.
    chain_steps : float, optional
        Moves per item in each iteration, and before and during the inference of an instance. None chooses it: two
        chains start from the order by mean ranks and from its reverse, and get longer until they agree. `chain_` holds
        their agreement.
    prior : float
        The number of rankings added to the lists of every expert, with the mean length of a list and the mean distance
        from the truth. 0 is maximum likelihood; with few instances it may follow a single expert, and a prior of about
        1 prevents that.
    ranking_prior : mapping, optional
        A prior over the true rankings: from expert to a fixed θ < 0. The lists of such an expert are reference
        rankings, and π has prior probability proportional to exp(θ d(π, reference)); several references multiply. Where
        an instance has no reference the prior is uniform, as it is everywhere by default.
    max_iter, tol : int, float
        EM stops when no exp(θ) moves by more than tol.
    init : float
        The initial θ of all experts.
    persistent : bool
        Whether chains continue from one iteration to the next. If not, they restart at the order by mean rank, and
        short chains bias θ downwards.
    unknown_experts : {"error", "ignore"}
        What `predict` does about experts that `fit` did not see; ignored experts have no effect.
    random_state : int
        The seed.

    Attributes
    ----------
    experts_ : list of str
        The experts.
    theta_, adherence_ : float64[K]
        θ of every expert, and −θ: the larger, the more it counts.
    chain_ : dict
        After sampling: `steps`, the moves per item of the last iteration; `gap`, the difference of exp(θ) learned from
        each chain, relative to 1 − exp(θ) (root mean square); `moved`, the share of moves that changed the state. After
        `fit_predict` also, for the inference, `inference_steps` (the longest window) and `r_hat` by instance.

    Notes
    -----
    Cost O(k) for a move of a chain for any number of lists, O(2^n n²) for an exact sum over n items, and O(n² + sum of
    squared list lengths) for each instance and iteration; 16 n² bytes. Once θ has converged up to noise, chain averages
    are averaged over iterations. `fit_info_.gradient_norm` is the largest |observed − expected distance| relative to
    the expected distance of random lists, `trace` the largest change of exp(θ) in every iteration; `objective` is the
    log-likelihood where it is known: with exact sums and k covering the pool; reference rankings count as lists. With
    one expert nothing can be learned
    and its order is the consensus, as wherever all lists of an instance are equal. With few instances θ may diverge in
    favour of one expert, and with about one list per expert (voters, for example) weights confirm themselves. Warnings
    say so; prior=10 keeps the experts close to each other, and `Mallows` weighs all alike.

    References
    ----------
    Klementiev, Roth and Small, Unsupervised rank aggregation with distance-based models, ICML 2008; A framework for
    unsupervised rank aggregation, LR4IR workshop at SIGIR 2008.

    Examples
    --------
    >>> import concordant as cc
    >>> sample = cc.synthetic.mallows(6, theta={"a": -1.5, "b": -1.0, "c": -0.5, "d": 0.0}, n_instances=50)
    >>> model = cc.ExtendedMallows().fit(sample.preferences)
    >>> dict(zip(model.experts_, model.adherence_.round(1).tolist()))
    {'a': 1.4, 'b': 1.0, 'c': 0.6, 'd': 0.0}
    """

    name = "extended-mallows"
    tags = Tags(accepts=LISTS, stochastic=True, faithful=False, blocks=True, cost="O(k) a move; O(n²) an iteration")
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "k": optional(integer(least=1)),
        "missing": MISSING,
        "e_step": one_of("auto", "sampling", "borda", "exact", "oracle"),
        "inference": one_of("mean", "best", "borda"),
        "formula": one_of("corrected", "printed"),
        "norm": one_of("given-z", "full"),
        "moves": one_of("insert", "swap"),
        "chain_steps": optional(number(above=0)),
        "prior": number(least=0),
        "ranking_prior": optional(_DISPERSIONS),
        "max_iter": integer(least=1),
        "tol": number(above=0),
        "init": _NEGATIVE,
        "persistent": boolean(),
        "unknown_experts": one_of("error", "ignore"),
        "random_state": seed(),
    }

    theta_: Annotated[Floats, Within(mallows.LEAST_THETA, 0)]
    adherence_: Annotated[Floats, Within(0, -mallows.LEAST_THETA)]
    expert_details_: Annotated[dict[str, list[float]], Within(mallows.LEAST_THETA, 0)]
    # The agreement of the chains; R-hat may be infinite.
    chain_: Annotated[dict[str, Any], Within(0, np.inf, missing=True)]

    def __init__(
        self,
        *,
        k: int | None = None,
        missing: str = "auto",
        e_step: str = "auto",
        inference: str = "mean",
        formula: str = "corrected",
        norm: str = "given-z",
        moves: str = "insert",
        chain_steps: float | None = None,
        prior: float = 0.0,
        ranking_prior: Mapping[str, float] | None = None,
        max_iter: int = 100,
        tol: float = 1e-3,
        init: float = -0.1,
        persistent: bool = True,
        unknown_experts: str = "error",
        random_state: int = 0,
    ) -> None:
        self.k = k
        self.missing = missing
        self.e_step = e_step
        self.inference = inference
        self.formula = formula
        self.norm = norm
        self.moves = moves
        self.chain_steps = chain_steps
        self.prior = prior
        self.ranking_prior = ranking_prior
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.persistent = persistent
        self.unknown_experts = unknown_experts
        self.random_state = random_state

    def _fit(
        self, preferences: Any, labels: Labels | None, validation: Any, features: Features | None
    ) -> list[PooledLists] | None:
        self._check_combination(labels)
        warn_counted_ballots(preferences, "weight", "Use Mallows, which weighs all voters equally.", self._warn)
        blocks = shards_of(preferences).persist(_block_of, self)
        experts = preferences.experts.tolist()
        start = self._starting_theta(experts)
        e_step = _EStep(self, blocks, np.array([e in (self.ranking_prior or ()) for e in experts], dtype=np.bool_))
        pools = None if isinstance(preferences, Blocks) else next(blocks.map(attrgetter("pools")))

        def learn(theta: Floats) -> Floats:
            if self.e_step == "oracle" and labels is not None and pools is not None:
                return self._theta_from_labels(preferences, pools, e_step.distances, labels, theta)
            return self._theta_by_em(e_step, theta, experts, StepCheckpoint(self, [preferences]))

        self._store_theta(e_step.distances, experts, start, learn, allow_one=self.e_step == "oracle")
        return pools

    def _starting_theta(self, experts: list[str]) -> Floats:
        """Return the initial θ of every expert, the fixed one for reference rankings; warn of absent references."""
        known = self.ranking_prior or {}
        absent = [e for e in known if e not in experts]
        if absent:
            self._warn(
                f"the preferences have no experts {listing(absent)}, whose lists 'ranking_prior' takes as reference "
                "rankings: they add nothing to the prior.",
                IdentifiabilityWarning,
            )
        return np.array([float(known.get(e, self.init)) for e in experts])

    def _blocks_obstacle(self) -> str:
        oracle = "ExtendedMallows(e_step='oracle') learns from preferences in memory, not from blocks."
        return oracle if self.e_step == "oracle" else ""

    def _pools(self, p: Preferences, code: Codes | None = None) -> list[PooledLists]:
        """Return the instances with lists; `code` numbers the experts, in order by default."""
        if self.k is not None:
            cut = p.top(self.k)
            silent = np.flatnonzero(cut.leaves_out() & ~cut.below(self.missing))
            if len(silent):
                raise DataError(
                    f"ExtendedMallows(k={self.k}) needs lists that rank absent items below their items; lists of "
                    f"instance {p.instances[int(silent[0])]!r} say nothing about absent items. Pass "
                    f"{_BELOW} if they are below, or leave k out."
                ).advising(_BELOW)
        found = pools_of(p, self.k, self.missing, np.arange(p.n_experts, dtype=np.int32) if code is None else code)
        pools = [pool for pool in found if pool is not None]
        self._check_sizes(pools)
        return pools

    def _store_theta(
        self,
        distances: ExpectedDistances,
        experts: list[str],
        theta: Floats,
        learn: Callable[[Floats], Floats],
        *,
        allow_one: bool = False,
    ) -> None:
        """Learn and store θ, from a start; a single expert with lists is learned from only with `allow_one`."""
        self.chain_ = {}
        has_lists = np.bincount(distances.expert, minlength=len(experts)) > 0
        active = has_lists & ~distances.fixed
        if active.any() and has_lists.sum() == 1 and not allow_one:
            self._warn(
                f"only expert {experts[int(np.flatnonzero(active)[0])]!r} ranks anything: with nobody to compare it "
                f"with, its weight stays at {-self.init:g}. The consensus follows it.",
                IdentifiabilityWarning,
            )
        elif active.any():
            theta = learn(theta)
        if active.any():
            # Experts without a list count as an average expert in `predict`.
            theta[~has_lists & ~distances.fixed] = np.median(theta[active])
        self.experts_ = experts
        self.theta_ = theta
        self.adherence_ = 0.0 - theta
        self.expert_details_ = {"theta": theta.tolist()}

    def _check_state(self) -> None:
        if "theta_" in self.__dict__ and self.theta_.shape != (len(self.experts_),):
            raise DataError(f"theta is not one number for each of {len(self.experts_)} experts.")

    def _expert_theta(self, expert: Any) -> float:
        """Return θ of the expert that a prediction is for."""
        if self.k is not None:
            raise KindError(
                "ExtendedMallows(k=...) gives cut lists a probability, not complete ones. Leave k out for predictions."
            )
        if expert is None:
            raise ParameterError(
                f"every expert of ExtendedMallows has an own dispersion. Name one: expert={self.experts_[0]!r}."
            )
        return float(self.theta_[expert])

    def _pair_law(self, board: Consensus, a: Ints, b: Ints, side: Floats, expert: Any) -> PairLaw:
        if expert is None:
            self._expert_theta(None)
        win = np.empty(len(a))
        for code in np.unique(expert).tolist():
            own, theta = np.flatnonzero(expert == code), self._expert_theta(code)
            win[own], _, _ = mallows_pair_law(
                board, a[own], b[own], dict.fromkeys(range(len(board)), theta).__getitem__
            )
        return win, np.zeros(len(a)), 1.0 - win

    def _ranking_law(self, board: Consensus, slots: Ints, expert: int | None) -> RankingLaw:
        return mallows_law(board, slots, self._expert_theta(expert))

    def _pairwise(self, votes: Any) -> Comparisons:
        return complete_pairs(votes, type(self).__name__)

    def _check_combination(self, labels: Labels | None) -> None:
        if self.k is not None and self.missing == "unknown":
            raise ParameterError(
                "the 'k' parameter of ExtendedMallows must be None where missing='unknown': a list that says nothing "
                f"about absent items is compared with the order of its own items. Got {self.k!r} instead."
            )
        if self.e_step == "oracle" and labels is None:
            raise DataError("ExtendedMallows(e_step='oracle') takes the true order from labels. Pass labels to fit.")

    def _check_sizes(self, pools: list[PooledLists]) -> None:
        large = [p for p in pools if p.n > _MOST_EXACT]
        if self.e_step == "exact" and large:
            raise DataError(
                f"instance {large[0].name!r} has {large[0].n} items; e_step='exact' sums over all rankings of up to "
                f"{_MOST_EXACT}. Use e_step='auto' or 'sampling'."
            )

    def _check_work(self, p: Preferences, pools: list[PooledLists], *, learning: bool) -> None:
        """Raise where chains over very many items, or very many experts, exceed the limits of memory or time."""
        by_order = self.inference == "borda" and self.e_step in ("borda", "oracle")
        if not by_order:
            cells = np.zeros(len(p))
            for pool in pools:
                if pool.n > _MANY_ITEMS and pool.common_ranking(pool.weight) is None:
                    cells[p.instances.codes[pool.name]] = float(pool.n) ** 2
            seconds = _PAIR_SECONDS * min(self.max_iter / _USUAL_STEPS, 1.0) * cells
            check_limits("ExtendedMallows", p, "chains over all pairs", n_bytes=16.0 * cells, seconds=seconds)
        if learning:
            n_bytes = 16.0 * p.n_experts * (max((pool.n for pool in pools), default=0) + 2.0)
            what = f"the weights of {p.n_experts:,} experts"
            check_limits("ExtendedMallows", p, what, n_bytes=n_bytes, seconds=_EXPERT_SECONDS * p.n_experts)

    def _is_exact(self, pool: PooledLists) -> bool:
        most = {"exact": _MOST_EXACT, "sampling": 0}.get(self.e_step, _SOON_EXACT)
        return pool.n <= most

    def _stream(self, pool: PooledLists) -> np.random.Generator:
        return instance_stream(self.random_state, pool.name)

    def _theta_from_labels(
        self,
        preferences: Preferences,
        pools: list[PooledLists],
        distances: ExpectedDistances,
        labels: Labels,
        theta: Floats,
    ) -> Floats:
        """Return θ given the true order of every instance, taken from labels."""
        truth = match_labels(preferences, labels, "ExtendedMallows(e_step='oracle')", unjudged="drop")
        self.fit_info_.labels, label = truth.counts, truth.label
        orders = []
        for pool in pools:
            mixed = self._stream(pool).permutation(pool.n)
            value = np.nan_to_num(label[pool.slot], nan=-np.inf)[mixed]
            orders.append(mixed[np.argsort(-value, kind="stable")].astype(np.int32))
        equations = distances.moment_equations(ObservedDistances.of_orders(pools, orders), self.prior)
        theta = equations.solve(theta)
        self.fit_info_.n_iter = 1
        self.fit_info_.gradient_norm = equations.gradient_norm(theta)
        return theta

    def _theta_by_em(self, e_step: _EStep, theta: Floats, experts: list[str], checkpoint: Checkpointer) -> Floats:
        """Return θ by EM; chain averages are averaged over iterations once θ has converged up to noise."""
        info, distances, sampled = self.fit_info_, e_step.distances, e_step.sampled
        chosen = self.chain_steps is None
        at = _EMState(theta, None, _FIRST_SWEEPS if self.chain_steps is None else float(self.chain_steps), [])
        known = checkpoint.restore()
        if known is not None:
            at = _EMState.of(known)
            e_step.restore(known)

        def state() -> State:
            return at.to_arrays() | e_step.state()

        with checkpoint.steps(self.max_iter):
            while not at.converged and len(at.trace) < self.max_iter:
                with without_progress():
                    now, log_odds, move_rate = e_step.run(at.theta, at.sweeps)
                observed = (
                    now if at.observed is None else at.observed.averaged_with(now, (at.averaged + 1.0) ** -_FORGET)
                )
                equations = distances.moment_equations(observed.mean(), self.prior)
                new = equations.solve(at.theta)
                # Compare exp(θ), the odds of a contradiction: it stays finite where θ diverges.
                step = np.abs(np.exp(new) - np.exp(at.theta))
                difference, gap, chains_agree = 0.0, 0.0, True
                if sampled:
                    one, other = (
                        np.exp(distances.moment_equations(observed.chain(c), self.prior).solve(at.theta))
                        for c in (0, 1)
                    )
                    difference = distances.norm(one - other)
                    gap = difference / max(distances.norm(np.expm1(new)), self.tol)
                    chains_agree = gap <= _AGREED or not chosen
                converged = chains_agree and bool(step.max() <= self.tol)
                sweeps, averaged = at.sweeps, at.averaged
                if not converged:
                    if not chains_agree and gap > _CLOSER * at.gap:
                        sweeps = min(2.0 * sweeps, _MOST_SWEEPS)
                    # A step no larger than the difference of the two chains is noise.
                    if sampled and (averaged or (chains_agree and distances.norm(step) <= difference)):
                        averaged += 1
                at = _EMState(
                    theta=new,
                    observed=observed,
                    sweeps=sweeps,
                    averaged=averaged,
                    gap=gap,
                    chains_agree=chains_agree,
                    move_rate=float(np.mean(move_rate)),
                    converged=converged,
                    trace=[*at.trace, float(step.max())],
                    norm=equations.gradient_norm(at.theta),
                    objective=self._log_likelihood(distances, at.theta, log_odds),
                )
                checkpoint.save(len(at.trace), state)
                report_progress(len(at.trace), self.max_iter)
        info.n_iter, info.trace, info.converged = len(at.trace), at.trace, at.converged
        info.gradient_norm, info.objective = at.norm, at.objective
        own = np.where(distances.fixed, 0.0, distances.weight_sum)
        info.log_likelihood, info.n_parameters = at.objective, int((own > 0).sum())
        info.n_observations = float(own.sum())
        if sampled:
            self.chain_ = {"steps": at.sweeps, "gap": at.gap, "moved": at.move_rate}
        self._warn_fit(e_step, at.theta, experts, at.chains_agree)
        return at.theta

    def _warn_fit(self, e_step: _EStep, theta: Floats, experts: list[str], chains_agree: bool) -> None:
        """Warn of a fit that did not converge, of weights at a bound, and of too few lists."""
        info = self.fit_info_
        if info.interrupted:
            return
        if not chains_agree:
            self._warn(
                f"two chains from opposite ends still disagree: the weights learned from each differ by "
                f"{self.chain_['gap']:.1%} after {info.n_iter} iterations of {self.chain_['steps']:g} moves per item. "
                "Raise max_iter or chain_steps, or use e_step='borda'.",
                ConvergenceWarning,
            )
        elif not info.converged:
            self._warn(
                f"the weights of the experts did not converge in {info.n_iter} iterations; the last change was "
                f"{info.trace[-1]:.3g}. Raise max_iter or tol.",
                ConvergenceWarning,
            )
        if not theta.any():
            self._warn(
                "no expert agrees with the others more than chance would: all weights are 0 and all items tie. "
                "Use a method without learned weights, or more instances.",
                IdentifiabilityWarning,
            )
        elif e_step.disagree:
            self._warn_weights(e_step.distances, theta, experts)

    def _warn_weights(self, distances: ExpectedDistances, theta: Floats, experts: list[str]) -> None:
        """Warn of weights without a finite estimate, or from too few lists."""
        lists = np.where(distances.fixed, 0, np.bincount(distances.expert, minlength=len(experts)))
        active = np.flatnonzero(lists)
        certain = [experts[e] for e in active.tolist() if np.exp(theta[e]) < self.tol]
        if len(certain) == len(active):
            self._warn(
                f"the consensus never contradicts any of the experts {listing(certain)}: their weights have no finite "
                "estimate, which does not mean that the order is certain. Fit on more instances, or on lists that "
                "share more items.",
                IdentifiabilityWarning,
            )
        elif certain:
            one = len(certain) == 1
            who = (
                f"expert {certain[0]!r}, whose weight has" if one else f"experts {listing(certain)}, whose weights have"
            )
            prior = Setting("prior", 1)
            self._warn(
                f"the consensus never contradicts {who} no finite estimate. Few instances allow that by chance: fit on "
                f"more of them, or pass {prior} to shrink {'it' if one else 'them'} towards the average expert.",
                IdentifiabilityWarning,
                prior,
            )
        elif self.prior < _HELD and lists.sum() < _FEW_LISTS * len(active):
            few = "one list each" if lists.max() == 1 else f"{lists.sum() / len(active):.2g} lists on average"
            prior = Setting("prior", 10)
            self._warn(
                f"experts {listing([experts[e] for e in active.tolist()])} have {few}: their weights depend on "
                f"agreement in those few lists and confirm themselves. Fit on more instances, pass "
                f"{prior} to keep the experts close to each other, or use Mallows, which weighs all experts equally.",
                IdentifiabilityWarning,
                prior,
            )

    def _run_e_step(
        self,
        pools: list[PooledLists],
        theta: Floats,
        chain_pairs: dict[str, ChainPair],
        buffer: EnergyBuffer,
        sweeps: float,
    ) -> _EStepResult:
        """Return the expected distances given θ, the log sums of odds, and the shares of accepted moves."""
        if self.e_step == "borda":
            observed = ObservedDistances.of_orders(pools, [pool.borda_order(theta) for pool in pools])
            return _EStepResult(observed, [None] * len(pools), [1.0] * len(pools))

        def work(pool: PooledLists) -> tuple[Floats, Floats, float | None, float]:
            u = pool.weight * theta[pool.expert]
            if self._is_exact(pool):
                record, log_odds = exact_record(pool, buffer, u)
                return record.distance, record.common.reshape(2, -1), log_odds, 1.0
            chains = chain_pairs.get(pool.name)
            if chains is None or not self.persistent:
                start = pool.borda_order(theta)
                other = start[::-1] if self.persistent else start
                rng = self._stream(pool) if chains is None else chains.rng
                chains = chain_pairs[pool.name] = ChainPair(pool, [start, other], rng, self.moves == "swap")
            record = chains.run(buffer, u, sweeps)
            return record.distance, record.common.reshape(2, -1), None, record.move_rate

        none = np.zeros((2, 0))
        found = _each_pool(work, pools)
        observed = ObservedDistances(
            *(np.concatenate([none, *(one[part] for one in found)], axis=1) for part in (0, 1))
        )
        return _EStepResult(observed, [one[2] for one in found], [one[3] for one in found])

    def _log_likelihood(
        self, distances: ExpectedDistances, theta: Floats, log_odds: list[float | None]
    ) -> float | None:
        """Return the log-likelihood at θ where all sums are exact and normalisers are known, else None."""
        normaliser = distances.log_normaliser(theta)
        known = [v for v in log_odds if v is not None]
        if len(known) < len(log_odds) or normaliser is None or self.prior:
            return None
        return sum(v - lgamma(n + 1) for v, n in zip(known, distances.sizes, strict=True)) - normaliser

    def _consensus(self, preferences: Any, known: list[PooledLists] | None = None) -> Consensus:
        """Return the consensus with the learned θ; `known` are the lists of the fitted preferences."""
        p: Preferences = preferences
        if not hasattr(self, "theta_"):
            raise NotFittedError.of(type(self).__name__)
        pools = known
        if pools is None:
            pools = self._pools(p, self._codes(p))
            self._check_work(p, pools, learning=False)
        disconnected = _disconnected(p, [pool for pool in pools if not pool.below])
        if disconnected:
            self._warn(
                f"{disconnected}: how they mix is unknown, and both are spread over the same places. {_PARTED_HELP}",
                IdentifiabilityWarning,
                _BELOW,
            )
        buffer = EnergyBuffer()
        inferred = _each_pool(lambda pool: self._infer(pool, buffer), pools)
        unsure = [i for i, one in enumerate(inferred) if one.r_hat > _R_HAT]
        if unsure and self.chain_steps is None:
            worst = max(unsure, key=lambda i: inferred[i].r_hat)
            borda = Setting("inference", "borda")
            self._warn(
                f"two chains from opposite ends still disagree in {len(unsure)} of {len(pools)} instances after "
                f"{_LAST_WINDOW:g} moves per item: {listing([pools[i].name for i in unsure])}; R-hat is "
                f"{inferred[worst].r_hat:.3g} in {pools[worst].name!r}. Pass {borda} or a larger chain_steps.",
                ConvergenceWarning,
                borda,
            )
        if known is not None and any(one.sweeps for one in inferred):
            steps = max(one.sweeps for one in inferred)
            by_name = {pool.name: one.r_hat for pool, one in zip(pools, inferred, strict=True) if one.sweeps}
            self.chain_ |= {"inference_steps": steps, "r_hat": by_name}
        return Consensus.from_codes(p.slots, _scores(p, pools, [one.place for one in inferred]))

    def _model_report(self) -> ModelReport:
        unknown = np.full(len(self.theta_), np.nan)
        why = ""
        if self.prior or self.ranking_prior:
            why = "The estimates have a prior, and do not maximise the likelihood. Fit with prior=0."
        elif self.fit_info_.log_likelihood is None:
            why = (
                "Its sums over rankings are sampled, or the lists are cut. It is known for instances of few items "
                "(e_step='exact', k=None)."
            )
        return ModelReport(
            [Estimates("dispersion", self.experts_, self.theta_, unknown)],
            why,
            "list",
            [
                "θ of every expert (below 0) has no standard error, and neither have the scores, which are minus mean "
                "positions",
                "The true ranking of an instance is averaged over, not estimated; EM stops within tol of the maximum",
            ],
        )

    def _codes(self, preferences: Preferences) -> Codes:
        """Return the number of every expert among those learned, −1 for unknown ones; or raise."""
        known = {expert: code for code, expert in enumerate(self.experts_)}
        code = np.array([known.get(e, -1) for e in preferences.experts], dtype=np.int32)
        check_known(preferences, known, type(self).__name__, self.unknown_experts)
        return code

    def _infer(self, pool: PooledLists, buffer: EnergyBuffer) -> _InferredPlaces:
        """Return the places of the items of an instance."""
        theta = self.theta_
        u = pool.weight * theta[pool.expert]
        if not u.any():
            return _InferredPlaces(np.full(pool.n, (pool.n + 1) / 2), 0.0, 1.0)
        if self.inference == "borda":
            return _InferredPlaces(pool.mean_ranks(theta), 0.0, 1.0)
        if self._is_exact(pool) and self.inference == "mean":
            # Rounding errors of the sums over subsets must not break ties of equal items.
            return _InferredPlaces(np.round(exact_record(pool, buffer, u)[0].position[0], 9), 0.0, 1.0)
        if self._is_exact(pool) and not pool.cut:
            c, _ = buffer.energies(pool, u)
            cost = -c[:, :, 0]
            slack = 1e-9 * float(np.abs(u).sum())
            return _InferredPlaces(kemeny.subset_dp(cost, np.zeros(pool.n, dtype=np.int64), slack).position, 0.0, 1.0)
        # Where all lists rank alike no sampling is needed, unless some places do not count.
        rank = pool.common_ranking(u)
        if rank is not None and not (pool.cut and self.inference == "mean"):
            return _InferredPlaces(
                _places_of_common_ranking(pool, rank, float(u.sum()) if self.inference == "mean" else None), 0.0, 1.0
            )
        start = pool.borda_order(theta)
        chains = ChainPair(pool, [start, start[::-1]], self._stream(pool), self.moves == "swap")
        sweeps = _FIRST_WINDOW if self.chain_steps is None else float(self.chain_steps)
        chains.run(buffer, u, sweeps)
        record = chains.run(buffer, u, sweeps)
        while self.chain_steps is None and record.r_hat() > _R_HAT and sweeps < _LAST_WINDOW:
            # Each window is as long as all before.
            sweeps *= 2.0
            record = chains.run(buffer, u, sweeps)
        if self.inference == "mean":
            place = record.position.mean(axis=0)
            if rank is not None:
                place = _expected_places(_with_absent_below(rank), np.sort(place))
            return _InferredPlaces(place, sweeps, record.r_hat())
        climb = ChainPair(pool, [record.best], chains.rng, swaps=False)
        climb.run(buffer, _FREEZE * u, sweeps)
        place = np.full(pool.n, 0.5 * (pool.k + 1 + pool.n))
        place[climb.orders[0][: pool.k]] = np.arange(1.0, pool.k + 1.0)
        return _InferredPlaces(place, sweeps, record.r_hat())
