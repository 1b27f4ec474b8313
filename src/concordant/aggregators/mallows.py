"""Mallows models: every list is a noisy copy of one true ranking, and how noisy says how far to believe its expert.

A list at distance d from the true ranking has probability proportional to exp(θ d), θ <= 0: 0 is a list at random, and
the more negative θ is the closer the list. `Mallows` has one θ for all lists of an instance and takes the ranking that
makes them most probable; `ExtendedMallows` learns one θ per expert from all instances and averages over the rankings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from math import lgamma
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
from concordant.aggregators._mle_existence import disconnected_instances, explain_disconnected
from concordant.aggregators.fusion import LISTS
from concordant.aggregators.majority import MISSING, Kemeny, check_tables
from concordant.arrays import Codes, Floats
from concordant.base.contract import Aggregator, Tags
from concordant.base.limits import check_limits
from concordant.base.params import Constraint, Within, boolean, integer, number, one_of, optional, seed
from concordant.base.registry import register_method
from concordant.data.consensus import Consensus
from concordant.data.preferences import Preferences
from concordant.data.streams import instance_stream
from concordant.errors import (
    ConvergenceWarning,
    DataError,
    IdentifiabilityWarning,
    NotFittedError,
    ParameterError,
    listing,
    setting,
)
from concordant.execution import Shards, map_instances, report_progress, threads, without_progress
from concordant.execution.blocks import Blocks, shards_of
from concordant.inference.experts import check_known
from concordant.kernels import kemeny, mallows
from concordant.learning.checkpoints import StepCheckpoint
from concordant.learning.resumable import Checkpointer, State, join_states, split_states
from concordant.learning.supervision import match_labels

if TYPE_CHECKING:
    from concordant.data.features import Features
    from concordant.data.labels import Labels

__all__ = ["ExtendedMallows", "Mallows"]

T = TypeVar("T")

_NEGATIVE = Constraint("a number < 0", lambda value: number(most=0).test(value) and value < 0)

# Up to this many items the sum over all rankings is no dearer than a chain; up to the other it can be asked for.
_SOON_EXACT, _MOST_EXACT = 10, 16
# Instances of fewer items are never too large; what a pair of items takes in so many steps of EM, and an expert, at
# least.
_MANY_ITEMS, _USUAL_STEPS, _PAIR_SECONDS, _EXPERT_SECONDS = 1000, 20, 2e-6, 5e-4
# From this many items on an instance keeps a thread busy outside the interpreter.
_LARGE = 100
# Chains of the first iteration, and the longest of one iteration, in moves per item.
_FIRST_SWEEPS, _MOST_SWEEPS = 2.0, 64.0
# Two chains agree when the exp(θ) learned from each differ by no more than this share of 1 − exp(θ), root mean square.
_AGREED = 0.05
# Chains that are no closer than this share of what they were an iteration before become longer.
_CLOSER = 0.8
# How fast averages over iterations forget: 1 remembers the beginning for ever, 1/2 never settles.
_FORGET = 2 / 3
# When one instance is inferred: the first and the last window, in moves per item, and when two chains agree.
_FIRST_WINDOW, _LAST_WINDOW = 8.0, 1024.0
_R_HAT = 1.1
# The factor that makes every move uphill, when only the best state is wanted.
_FREEZE = 1e6
# Below this many lists per expert a weight says little but how far one list agrees with the rest.
_FEW_LISTS = 2.0
# So many rankings of a prior outweigh them: with one the weights of 5,000 voters still confirm themselves.
_HELD = 10.0
_PARTED_HELP = (
    f"Pass {setting('missing', 'below')} if a list ranks what it leaves out below what it holds, or add lists that "
    "link them."
)


def _each_pool(work: Callable[[PooledLists], T], pools: list[PooledLists]) -> list[T]:
    """Return what `work` gives for every instance, in threads where some instance is large enough to gain by it."""
    if any(p.n >= _LARGE for p in pools):
        return map_instances(lambda i: work(pools[i]), len(pools))
    with threads(1):
        return map_instances(lambda i: work(pools[i]), len(pools))


def _scores(preferences: Preferences, pools: list[PooledLists], places: list[Floats]) -> Floats:
    """Return minus the places of the items of every instance, from those of the items that some list holds.

    Items in no list share the places below; where a list says nothing about what it leaves out, they have the mean of
    all places.
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
class Mallows(Aggregator):
    """Minus the mean position of the item in rankings drawn from the Mallows model that fits the lists best.

    A list σ of an instance has probability exp(θ d(π, σ)) / Z(θ), d being the number of pairs that σ ranks and the
    centre π contradicts. The most probable centre is Kemeny's ranking, the one with the fewest contradictions; then θ
    solves sum of expected distances = sum of distances found. score(i) = −E[position of i in a ranking drawn from the
    model], which follows the order of the centre and flattens as the lists disagree.

    Ties in a list contradict nothing, and Z is that of all lists with groups of the same sizes, [n]! over the product
    of the groups' own factorials (q-factorials, q = exp θ): the probability of a list with ties is that of all its ways
    to be untied. So is an incomplete list the group of its left-out items below the others (missing="below"), or a
    ranking of its own items alone ("unknown"). Items that nothing tells apart share a place. Items in no list come last
    ("below") or stand in the middle ("unknown"). Empty lists add nothing; a list of weight 2 counts twice.

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
        Set by `fit_predict`: θ of every instance; 0 where lists agree no more than chance, −30 where they never
        disagree.

    Notes
    -----
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
    """

    name = "mallows"
    tags = Tags(accepts=LISTS, cost="NP-hard; O(2^n n) for n items in a circle")
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "dispersion": optional(_NEGATIVE),
        "missing": MISSING,
        **{name: Kemeny.constraints[name] for name in ("solver", "max_items", "time_limit")},
    }

    dispersion_: Annotated[dict[str, float], Within(most=0)]

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
        return True  # that fit_predict may keep what it finds

    def _consensus(self, preferences: Any, known: bool = False) -> Consensus:
        """Return the consensus; keep the dispersions where these are the fitted preferences."""
        p: Preferences = preferences
        check_tables(p, type(self).__name__)
        centre = Kemeny(solver=self.solver, max_items=self.max_items, time_limit=self.time_limit, missing=self.missing)
        place = -centre.fit_predict(p).score
        found = pools_of(p, max(p.n_slots, 1), self.missing, np.zeros(p.n_experts, dtype=np.int32))
        pools = [pool for pool in found if pool is not None]
        # One θ per instance: the lists of an instance are the lists of one expert.
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
            info = self.fit_info_
            info.converged = centre.fit_info_.converged
            info.warnings += centre.fit_info_.warnings
            energy = sum(float(t) * cost[pool.name] for pool, t in zip(pools, theta, strict=True))
            info.objective = energy - (distances.log_normaliser(theta) or 0.0)
        self._warn_fit(p, pools, theta)
        places = [
            _expected_places(place[pool.slot], mallows.mean_positions(float(t), pool.n))
            for pool, t in zip(pools, theta, strict=True)
        ]
        return Consensus.from_codes(p.slots, _scores(p, pools, places))

    def _warn_fit(self, preferences: Preferences, pools: list[PooledLists], theta: Floats) -> None:
        """Warn of what lists that say nothing about other items leave open."""
        partial = [(pool, t) for pool, t in zip(pools, theta.tolist(), strict=True) if not pool.below]
        disconnected = _disconnected(preferences, [pool for pool, _ in partial])
        if disconnected:
            self._warn(
                f"{disconnected}: no list tells how they mix, and both spread over the same places. {_PARTED_HELP}",
                IdentifiabilityWarning,
            )
        if self.dispersion is not None:
            return
        undisputed = [pool for pool, t in partial if t <= mallows.LEAST_THETA]
        disjoint = [pool for pool in undisputed if np.count_nonzero(pool.lengths > 1) > 1 and not pool.overlaps()]
        if disjoint:
            name = disjoint[0].name
            more = f" (and {len(disjoint) - 1} more instances are like that)" if len(disjoint) > 1 else ""
            own = preferences.list_instance == preferences.instances.tolist().index(name)
            experts = preferences.experts[np.unique(preferences.list_expert[own])].tolist()
            self._warn(
                f"no two of the experts {listing(experts)} rank the same two items in instance {name!r}{more}, so that "
                f"they cannot disagree: its dispersion has no finite estimate and is cut at {mallows.LEAST_THETA:g}, "
                f"which does not mean that the order is sure. Pass {setting('dispersion', -1)}, or lists that share "
                "items.",
                IdentifiabilityWarning,
            )


def _disconnected(preferences: Preferences, pools: list[PooledLists]) -> str:
    """Return in words which groups of items no list connects, "" where there are none."""
    adjacent_slots = [pool.adjacent_slots() for pool in pools]
    if not adjacent_slots:
        return ""
    one, other = (np.concatenate(ends) for ends in zip(*adjacent_slots, strict=True))
    disconnected = disconnected_instances(one, other, preferences.slots)
    if not len(disconnected):
        return ""
    more = f" (and {len(disconnected) - 1} more instances are like that)" if len(disconnected) > 1 else ""
    return explain_disconnected(one, other, preferences.slots, int(disconnected[0])) + more


def _expected_places(place: Floats, drawn: Floats) -> Floats:
    """Return the expected positions, given best first, of items by their place; items that share a place share them."""
    order = np.argsort(place, kind="stable")
    new = np.concatenate([[0], np.cumsum(np.diff(place[order]) > 0)])
    shared = np.bincount(new, weights=drawn) / np.bincount(new)
    out = np.empty(len(place))
    out[order] = shared[new]
    return out


def _with_absent_below(rank: Floats) -> Floats:
    """Return the ranks with items left out (rank 0) sharing the places below the others."""
    listed = rank > 0
    return np.where(listed, rank, 0.5 * (np.count_nonzero(listed) + 1 + len(rank)))


def _places_of_common_ranking(pool: PooledLists, rank: Floats, theta: float | None) -> Floats:
    """Return the expected places where all lists rank alike, θ being the sum over them; None asks for the best state.

    The rankings around one list are a Mallows model, and those around a list with ties its groups' share of one. Items
    of which nothing is known fall between the others by chance, and stretch them over all places.
    """
    listed = rank > 0 if not pool.below else np.ones(pool.n, dtype=np.bool_)
    own = _with_absent_below(rank)[listed]
    if theta is not None:
        own = _expected_places(own, mallows.mean_positions(theta, len(own)))
    place = np.full(pool.n, (pool.n + 1) / 2)
    place[listed] = own * (pool.n + 1) / (len(own) + 1)
    return place


class _InferredPlaces(NamedTuple):
    """The places of the items of an instance, and how far two chains agreed on them."""

    place: Floats
    sweeps: float
    r_hat: float


class _EMState(NamedTuple):
    """Where EM stands after an iteration: θ, what was seen on average, and how the chains agreed."""

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
        """Return the same as arrays."""
        numbers = [self.sweeps, self.averaged, self.gap, self.chains_agree, self.move_rate, self.converged, self.norm]
        objective = np.nan if self.objective is None else self.objective
        out = {"theta": self.theta, "em": np.array([*numbers, objective]), "trace": np.array(self.trace)}
        return (
            out if self.observed is None else out | {"distance": self.observed.distance, "common": self.observed.common}
        )

    @classmethod
    def of(cls, known: State) -> _EMState:
        """Return what was kept."""
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
    """What a look at the true rankings showed: distances, and of every instance the log odds and how chains moved."""

    observed: ObservedDistances
    log_odds: list[float | None]
    move_rate: list[float]


class _MallowsBlock(NamedTuple):
    """The instances of a block with their chains, and what the last look showed."""

    pools: list[PooledLists]
    chain_pairs: dict[str, ChainPair]
    result: _EStepResult | None


class _PoolSummary(NamedTuple):
    """What has to be known of a block before the first iteration.

    Attributes
    ----------
    shapes : list of PoolShape
        The shape of its lists.
    sampled : bool
        Whether some instance is too large for sums over all its rankings.
    differ : bool
        Whether the lists of some instance leave more than one order open.
    """

    shapes: list[PoolShape]
    sampled: bool
    disagree: bool


class _EStep:
    """The E step over blocks of instances, in memory or on workers; the chains stay with their block."""

    def __init__(self, owner: ExtendedMallows, blocks: Shards[_MallowsBlock], n_experts: int) -> None:
        summaries = list(blocks.map(_summary_of, owner))
        shapes = [shape for summary in summaries for shape in summary.shapes]
        self.distances = ExpectedDistances(shapes, n_experts, owner.formula, owner.norm)
        self.sampled = any(summary.sampled for summary in summaries)
        self.disagree = any(summary.disagree for summary in summaries)
        self._owner, self._blocks = owner, blocks

    def run(self, theta: Floats, sweeps: float) -> _EStepResult:
        """Return how far the lists are from the true rankings given θ."""
        self._blocks = self._blocks.persist(_sampled_block, self._owner, theta, sweeps, self._blocks.recomputed)
        results = [result for result in self._blocks.map(_result_of) if result is not None]
        observed = ObservedDistances(
            *(np.concatenate(parts, axis=1) for parts in zip(*(result.observed for result in results), strict=True))
        )
        return _EStepResult(
            observed,
            [v for result in results for v in result.log_odds],
            [m for result in results for m in result.move_rate],
        )

    def state(self) -> dict[str, Any]:
        """Return where the chains stand."""
        return join_states(list(self._blocks.map(_state_of)))

    def restore(self, known: State) -> None:
        """Have the chains go on from a state."""
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
    """Return the piece after a look; with `copy` the chains of the given piece stay where they are."""
    chain_pairs = block.chain_pairs
    if copy:
        chain_pairs = {name: ChainPair(w.pool, w.orders, deepcopy(w.rng), w.swaps) for name, w in chain_pairs.items()}
    result = owner._run_e_step(block.pools, theta, chain_pairs, EnergyBuffer(), sweeps)
    return _MallowsBlock(block.pools, chain_pairs, result)


def _result_of(block: _MallowsBlock) -> _EStepResult | None:
    return block.result


def _state_of(block: _MallowsBlock) -> State:
    return chain_states([block.chain_pairs[pool.name] for pool in block.pools if pool.name in block.chain_pairs])


def _restored_block(block: _MallowsBlock, known: State, owner: ExtendedMallows) -> _MallowsBlock:
    """Return the piece with the chains of a state."""
    pools = block.pools
    sampled_pools = [pool for pool in pools if not owner._is_exact(pool)] if _sampled(owner, pools) else []
    restored = restored_chains(
        sampled_pools, [owner._stream(pool) for pool in sampled_pools], owner.moves == "swap", known
    )
    return _MallowsBlock(pools, {chains.pool.name: chains for chains in restored}, None)


def _pools_of(block: _MallowsBlock) -> list[PooledLists]:
    return block.pools


@register_method
class ExtendedMallows(Aggregator):
    """Minus the posterior mean position of the item, every expert being believed as far as its lists deserve.

    `fit` learns θ_e <= 0 for every expert e from all instances: given the true ranking π of an instance, a list σ of e
    has probability exp(θ_e d(π, σ)) / Z. The true rankings are unknown, and EM goes round: given θ, the expected
    distance of every list to the true ranking, which has odds exp(sum over lists of θ_e d); given these distances, the
    θ_e at which they are what the model expects. `predict` keeps θ and gives score(i) = −E[position of i]. An expert at
    random gets θ near 0 and no say, without anybody telling who it is.

    Lists of any length over different items are one case: the true ranking orders all items that some list holds, and
    its first k places are compared with a list of m <= k items. d = the pairs that one orders one way and the other the
    other, items outside either being tied below it, less r (r − 1) / 2 for the r items of the list that are not among
    the first k. For m = k this is the top-k distance of the paper, for lists that hold all items Kendall's distance.
    E[d] is taken given the number z of common items (norm="given-z") or over all lists from the pool ("full"); the two
    are the same where k covers the pool. Ties in a list contradict nothing, and expectations are those of lists with
    groups of the same sizes. Items in no list come last, tied (in the middle with missing="unknown"); those never among
    the first k tie above them. A list of weight 2 counts twice. An expert of whom nothing is learned (no list) gets the
    median θ.

    Parameters
    ----------
    k : int, optional
        Lists are cut to their k best, and as many places of the true ranking count. None takes the longest list of each
        instance. A k that is larger than the pool makes the whole order count.
    missing : {"auto", "unknown", "below"}
        Whether a list ranks what it leaves out below what it holds, or says nothing about it; then a list is compared
        with the true order of its own items, and k must be None. "auto": what the preferences declare, instance by
        instance.
    e_step : {"auto", "sampling", "borda", "exact", "oracle"}
        Where expected distances come from. "sampling": chains. "exact": the sum over all rankings, by subsets, for up
        to 16 items. "auto": exact up to 10 items, else sampling. "borda": the distance to the order by mean rank, each
        list weighing exp(−θ). "oracle": the distance to the order of the labels given to `fit` (ties broken by chance,
        unlabelled items last), to see what θ would be if the truth were known.
    inference : {"mean", "best", "borda"}
        score = minus the posterior mean position, minus the place in the best state found, or minus the mean rank.
    formula : {"corrected", "printed"}
        The expected distance given z; "printed" is the paper's, which takes dependent variables for independent ones
        and knows no ties. Only there to compare.
    norm : {"given-z", "full"}
        See above.
    moves : {"insert", "swap"}
        How chains move: an item is put where its odds say, or two are swapped as in the paper, which takes longer.
    chain_steps : float, optional
        Moves per item in each iteration, and again before and while an instance is inferred. None chooses it: two
        chains run from the order by mean ranks and from its reverse; as long as what they say differs, they get longer.
        `chain_` tells how they agreed.
    prior : float
        To every expert's lists so many rankings are added, as long as an average list and as far from the truth as all
        lists together. 0 is maximum likelihood; with few instances it may follow a single expert, and something like 1
        holds the experts together.
    max_iter, tol : int, float
        EM stops when no exp(θ) moves by more than tol.
    init : float
        The θ of all experts to begin with.
    persistent : bool
        Whether chains go on from one iteration to the next. If not, they begin anew at the order by mean rank, and
        short ones make θ too small.
    unknown_experts : {"error", "ignore"}
        What to do in `predict` with experts that `fit` did not see; ignored ones have no say.
    random_state : int
        The seed.

    Attributes
    ----------
    experts_ : list of str
        The experts.
    theta_, adherence_ : float64[K]
        θ of every expert, and −θ: the larger the more it is believed.
    chain_ : dict
        After sampling: `steps`, the moves per item of the last iteration; `gap`, how far the exp(θ) learned from either
        chain differ, as a share of 1 − exp(θ) (root mean square); `moved`, the share of moves that changed something.
        After `fit_predict` also, of the inference, `inference_steps` (the longest window) and `r_hat`, by instance: how
        much wider both chains are together than one alone.

    Notes
    -----
    Cost O(k) for a move of a chain, however many lists there are, O(2^n n²) for an exact sum over n items, and
    O(n² + sum of squared list lengths) for each instance and iteration; 16 n² bytes. What the chains show is averaged
    over iterations once θ has settled. `fit_info_.gradient_norm` is the largest |found − expected distance| over the
    expected distance of random lists, `trace` the largest change of exp(θ) in every iteration; `objective` is the
    log-likelihood where it is known, that is with exact sums and k covering the pool. With one expert nothing can be
    learned and its order is the consensus, exactly, as wherever all lists of an instance are the same. With few
    instances θ may run off to favour one expert, and with about one list per expert (voters, say) who is believed
    confirms itself; warnings tell, prior=10 holds the experts together and `Mallows` believes all alike.

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
    # How chains agreed, for the reader; two that never met are infinitely far apart.
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
        blocks = shards_of(preferences).persist(_block_of, self)
        experts = preferences.experts.tolist()
        e_step = _EStep(self, blocks, len(experts))
        pools = None if isinstance(preferences, Blocks) else next(blocks.map(_pools_of))

        def learn(theta: Floats) -> Floats:
            if self.e_step == "oracle" and labels is not None and pools is not None:
                return self._theta_from_labels(preferences, pools, e_step.distances, labels, theta)
            return self._theta_by_em(e_step, theta, experts, StepCheckpoint(self, [preferences]))

        self._store_theta(e_step.distances, experts, learn, allow_one=self.e_step == "oracle")
        return pools

    def _blocks_obstacle(self) -> str:
        oracle = "ExtendedMallows(e_step='oracle') learns from preferences in memory, not from blocks."
        return oracle if self.e_step == "oracle" else ""

    def _pools(self, p: Preferences, code: Codes | None = None) -> list[PooledLists]:
        """Return the instances in which somebody ranks something; experts go by `code` where that is given."""
        if self.k is not None:
            cut = p.top(self.k)
            silent = np.flatnonzero(cut.leaves_out() & ~cut.below(self.missing))
            if len(silent):
                raise DataError(
                    f"ExtendedMallows(k={self.k}) compares the first places of lists that rank what they leave out "
                    f"below what they hold; lists of instance {p.instances[int(silent[0])]!r} say nothing about it. "
                    f"Pass {setting('missing', 'below')} if they do, or leave k out."
                )
        found = pools_of(p, self.k, self.missing, np.arange(p.n_experts, dtype=np.int32) if code is None else code)
        pools = [pool for pool in found if pool is not None]
        self._check_sizes(pools)
        return pools

    def _store_theta(
        self,
        distances: ExpectedDistances,
        experts: list[str],
        learn: Callable[[Floats], Floats],
        *,
        allow_one: bool = False,
    ) -> None:
        """Keep the θ that is learned; where somebody is heard `alone`, only if that is enough to learn from."""
        self.chain_ = {}
        active = np.bincount(distances.expert, minlength=len(experts)) > 0
        theta = np.full(len(experts), float(self.init))
        if active.sum() == 1 and not allow_one:
            self._warn(
                f"only expert {experts[int(np.flatnonzero(active)[0])]!r} ranks anything: with nobody to compare it "
                f"with, its weight stays at {-self.init:g}. The consensus follows it.",
                IdentifiabilityWarning,
            )
        elif active.any():
            theta = learn(theta)
        if active.any():
            # Nothing is known of the silent; they count as an average expert if they speak one day.
            theta[~active] = np.median(theta[active])
        self.experts_ = experts
        self.theta_ = theta
        self.adherence_ = 0.0 - theta
        self.expert_details_ = {"theta": theta.tolist()}

    def _check_state(self) -> None:
        if "theta_" in self.__dict__ and self.theta_.shape != (len(self.experts_),):
            raise DataError(f"theta is not one number for each of {len(self.experts_)} experts.")

    def _check_combination(self, labels: Labels | None) -> None:
        if self.k is not None and self.missing == "unknown":
            raise ParameterError(
                "the 'k' parameter of ExtendedMallows must be None where missing='unknown': a list that says nothing "
                f"about what it leaves out is compared with the order of its own items. Got {self.k!r} instead."
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
        """Raise where chains over very many items, or weights of very many experts, take too much."""
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
        """Return θ by EM; what chains show is averaged over iterations once θ has settled."""
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
                # exp(θ), the odds of a contradiction, tells all that matters of a θ that runs off.
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
                    # A step that is no larger than the difference between two chains is chance.
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
        if sampled:
            self.chain_ = {"steps": at.sweeps, "gap": at.gap, "moved": at.move_rate}
        self._warn_fit(e_step, at.theta, experts, at.chains_agree)
        return at.theta

    def _warn_fit(self, e_step: _EStep, theta: Floats, experts: list[str], chains_agree: bool) -> None:
        """Warn of a fit that did not settle, settled at an end of its range, or rests on too few lists."""
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
                f"the weights of the experts did not settle in {info.n_iter} iterations; the last change was "
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
        """Warn of weights that experts who differ do not owe to the data."""
        lists = np.bincount(distances.expert, minlength=len(experts))
        active = np.flatnonzero(lists)
        certain = [experts[e] for e in active.tolist() if np.exp(theta[e]) < self.tol]
        if len(certain) == len(active):
            self._warn(
                f"the consensus never contradicts any of the experts {listing(certain)}: their weights have no finite "
                "estimate, which does not mean that the order is sure. Fit on more instances, or on lists that share "
                "more items.",
                IdentifiabilityWarning,
            )
        elif certain:
            one = len(certain) == 1
            who = (
                f"expert {certain[0]!r}, whose weight has" if one else f"experts {listing(certain)}, whose weights have"
            )
            self._warn(
                f"the consensus never contradicts {who} no finite estimate. Few instances allow that by chance: fit on "
                f"more of them, or pass {setting('prior', 1)} to hold {'it' if one else 'them'} to the average expert.",
                IdentifiabilityWarning,
            )
        elif self.prior < _HELD and lists.sum() < _FEW_LISTS * len(active):
            few = "one list each" if lists.max() == 1 else f"{lists.sum() / len(active):.2g} lists on average"
            self._warn(
                f"experts {listing([experts[e] for e in active.tolist()])} have {few}: whom to believe is decided by "
                f"who agrees there, and who is believed confirms it. Fit on more instances, pass "
                f"{setting('prior', 10)} to hold the experts together, or use Mallows, which believes all alike.",
                IdentifiabilityWarning,
            )

    def _run_e_step(
        self,
        pools: list[PooledLists],
        theta: Floats,
        chain_pairs: dict[str, ChainPair],
        buffer: EnergyBuffer,
        sweeps: float,
    ) -> _EStepResult:
        """Return how far the lists are from the true rankings given θ, log sums of odds, and how much chains moved."""
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
        """Return the log-likelihood at θ where all sums are exact and normalisers known."""
        normaliser = distances.log_normaliser(theta)
        known = [v for v in log_odds if v is not None]
        if len(known) < len(log_odds) or normaliser is None or self.prior:
            return None
        return sum(v - lgamma(n + 1) for v, n in zip(known, distances.sizes, strict=True)) - normaliser

    def _consensus(self, preferences: Any, known: list[PooledLists] | None = None) -> Consensus:
        """Return the consensus with θ as learned; `known` are the lists of the preferences that were fitted."""
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
                f"{disconnected}: no list tells how they mix, and both spread over the same places. {_PARTED_HELP}",
                IdentifiabilityWarning,
            )
        buffer = EnergyBuffer()
        inferred = _each_pool(lambda pool: self._infer(pool, buffer), pools)
        unsure = [i for i, one in enumerate(inferred) if one.r_hat > _R_HAT]
        if unsure and self.chain_steps is None:
            worst = max(unsure, key=lambda i: inferred[i].r_hat)
            self._warn(
                f"two chains from opposite ends still disagree in {len(unsure)} of {len(pools)} instances after "
                f"{_LAST_WINDOW:g} moves per item: {listing([pools[i].name for i in unsure])}; together they are "
                f"{inferred[worst].r_hat:.3g} times as wide as one in {pools[worst].name!r}. Pass "
                f"{setting('inference', 'borda')} or a larger chain_steps.",
                ConvergenceWarning,
            )
        if known is not None and any(one.sweeps for one in inferred):
            steps = max(one.sweeps for one in inferred)
            by_name = {pool.name: one.r_hat for pool, one in zip(pools, inferred, strict=True) if one.sweeps}
            self.chain_ |= {"inference_steps": steps, "r_hat": by_name}
        return Consensus.from_codes(p.slots, _scores(p, pools, [one.place for one in inferred]))

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
            # Sums over subsets round differently for items that are alike.
            return _InferredPlaces(np.round(exact_record(pool, buffer, u)[0].position[0], 9), 0.0, 1.0)
        if self._is_exact(pool) and not pool.cut:
            c, _ = buffer.energies(pool, u)
            cost = -c[:, :, 0]
            slack = 1e-9 * float(np.abs(u).sum())
            return _InferredPlaces(kemeny.subset_dp(cost, np.zeros(pool.n, dtype=np.int64), slack).position, 0.0, 1.0)
        # Chance orders nothing where only one order is said; what is exact is known but for places that do not count.
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
            # Each window is as long as all that went before.
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
