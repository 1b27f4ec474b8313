"""Parts of the extended Mallows model: the lists of an instance, expected distances, and Markov chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from threading import local
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Floats, Ints
from concordant.data.preferences import Preferences
from concordant.errors import FormatError
from concordant.kernels import mallows
from concordant.kernels.lists import list_ids, offsets_of, order_lists
from concordant.learning.resumable import State

__all__ = [
    "ChainPair",
    "ChainRecord",
    "EnergyBuffer",
    "ExpectedDistances",
    "ObservedDistances",
    "PoolShape",
    "PooledLists",
    "chain_states",
    "exact_record",
    "pools_of",
    "restored_chains",
]

# Moves per call of a chain, so that their random numbers fit the CPU cache.
_MOVES = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class PooledLists:
    """The lists of one instance over the items that some list holds.

    Attributes
    ----------
    name : str
        The instance.
    slot : int64[n]
        The slots of the items.
    k : int
        The number of places of the true ranking that count.
    item, group, offsets
        The items of each list, best first, and the number of each item's group of ties.
    rank : float64[R]
        The position of each item in its list, ties sharing the mean.
    expert, weight : int32[L], float64[L]
        The expert and the weight of each list.
    starts, lists : int64[n + 1], int32[R]
        The lists that hold each item.
    tied : bool[L]
        Whether a list has ties.
    below : bool
        Whether a list ranks the items it leaves out below its items.
    """

    name: str
    slot: Ints
    k: int
    item: Codes
    group: Codes
    offsets: Ints
    rank: Floats
    expert: Codes
    weight: Floats
    starts: Ints
    lists: Codes
    tied: NDArray[np.bool_]
    below: bool

    @property
    def n(self) -> int:
        """The number of items."""
        return len(self.slot)

    @property
    def lengths(self) -> Ints:
        """The number of items of each list."""
        return np.diff(self.offsets)

    @property
    def cut(self) -> bool:
        """Whether some places of the true ranking do not count."""
        return self.k < self.n

    def group_sizes(self, which: int) -> Ints:
        """Return the sizes of the groups of ties of a list."""
        return np.bincount(self.group[self.offsets[which] : self.offsets[which + 1]]).astype(np.int64)

    def mean_ranks(self, theta: Floats) -> Floats:
        """Return the mean rank of every item, a list weighing exp(−θ) times its weight (weighted Borda).

        Items that a list leaves out share the places below it. Where they are unknown they are in the middle, and the
        list is stretched over all places.
        """
        n, m = self.n, self.lengths
        trust = self.weight * np.exp(-theta[self.expert])
        own = list_ids(self.offsets)
        rank = self.rank if self.below else self.rank * ((n + 1) / (m + 1))[own]
        absent = (n + 1 + m * self.below) / 2
        total = np.bincount(self.item, weights=trust[own] * (rank - absent[own]), minlength=n)
        ranks = (total + float(trust @ absent)) / float(trust.sum())
        return ranks.astype(np.float64)

    def common_ranking(self, weight: Floats) -> Floats | None:
        """Return the rank of every item, 0 where absent, if all lists of nonzero weight rank alike; else None."""
        lists, m = np.flatnonzero(weight).tolist(), self.lengths
        common = np.zeros(self.n)
        for i, which in enumerate(lists):
            own = slice(self.offsets[which], self.offsets[which + 1])
            if i == 0:
                common[self.item[own]] = self.rank[own]
            elif m[which] != m[lists[0]] or (common[self.item[own]] != self.rank[own]).any():
                return None
        return common

    def adjacent_slots(self) -> tuple[Ints, Ints]:
        """Return pairs of slots that are adjacent in a list."""
        inner = np.ones(max(len(self.item) - 1, 0), dtype=np.bool_)
        inner[self.offsets[1:-1] - 1] = False
        slot = self.slot[self.item]
        return slot[:-1][inner], slot[1:][inner]

    def overlaps(self) -> bool:
        """Return whether two lists share a pair of items."""
        pairs = []
        for start, stop in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True):
            own = np.sort(self.item[start:stop]).astype(np.int64)
            first, second = np.triu_indices(len(own), 1)
            pairs.append(own[first] * self.n + own[second])
        every = np.concatenate(pairs)
        return len(np.unique(every)) < len(every)

    def borda_order(self, theta: Floats) -> Codes:
        """Return the items by their mean ranks, best first."""
        return np.argsort(self.mean_ranks(theta), kind="stable").astype(np.int32)


def pools_of(preferences: Preferences, k: int | None, missing: str, code: Codes) -> list[PooledLists | None]:
    """Return the lists of every instance, None where there are none; lists of experts whose code is −1 are left out."""
    p = preferences if k is None else preferences.top(k)
    declared = p.below(missing)
    dense, average = p.positions("dense"), p.positions("average")
    rows = order_lists(dense, p.list_offsets)
    slot, group, rank = p.slot[rows], dense[rows].astype(np.int32) - 1, average[rows]
    expert, weight = code[p.list_expert], p.weights
    counted = (weight > 0) & (expert >= 0)
    edges = p.list_offsets.tolist()
    out: list[PooledLists | None] = []
    for n, name in enumerate(p.instances):
        which = int(p.list_starts[n]) + np.flatnonzero(counted[p.list_starts[n] : p.list_starts[n + 1]])
        if len(which) == 0:
            out.append(None)
            continue
        own = [slice(edges[w], edges[w + 1]) for w in which.tolist()]
        pool, item = np.unique(np.concatenate([slot[s] for s in own]), return_inverse=True)
        lengths = p.list_lengths[which]
        by_item = np.argsort(item, kind="stable")
        # For complete lists "below" and "unknown" are the same.
        below = bool(declared[n] or (lengths == p.slots.sizes[n]).all())
        longest = int(lengths.max()) if k is None else min(k, len(pool))
        out.append(
            PooledLists(
                name,
                pool.astype(np.int64),
                longest if below else len(pool),
                item.astype(np.int32),
                np.concatenate([group[s] for s in own]),
                offsets_of(lengths),
                np.concatenate([rank[s] for s in own]),
                expert[which],
                weight[which],
                offsets_of(np.bincount(item, minlength=len(pool))),
                np.repeat(np.arange(len(which), dtype=np.int32), lengths)[by_item],
                np.array([group[s.stop - 1] + 1 < s.stop - s.start for s in own]),
                below,
            )
        )
    return out


class PoolShape(NamedTuple):
    """The shape of the lists of an instance, without its items: all that expected distances depend on."""

    expert: Codes
    weight: Floats
    lengths: Ints
    k: int
    n: int
    below: bool
    tied: NDArray[np.bool_]
    groups: dict[int, Ints]

    @classmethod
    def of(cls, pool: PooledLists) -> PoolShape:
        """Return the shape of an instance."""
        groups = {w: pool.group_sizes(w) for w in np.flatnonzero(pool.tied).tolist()}
        return cls(pool.expert, pool.weight, pool.lengths, pool.k, pool.n, pool.below, pool.tied, groups)

    def group_sizes(self, which: int) -> Ints:
        """Return the sizes of the groups of ties of a list."""
        return self.groups[which]


class ObservedDistances(NamedTuple):
    """Distances of the lists of all instances to the true rankings: exact, or of two chains (first axis).

    `distance` is per list. `common` holds, list after list, the probability of each number of its items among the
    places that count; only for lists for which that number is random.
    """

    distance: Floats
    common: Floats

    @classmethod
    def zeros(cls, distances: ExpectedDistances) -> ObservedDistances:
        """Return distances of 0."""
        return cls(np.zeros((1, len(distances.expert))), np.zeros((1, len(distances.cell_list))))

    @classmethod
    def of_orders(cls, pools: list[PooledLists], orders: list[Codes]) -> ObservedDistances:
        """Return the distances of the lists to given orders of the items, one per instance."""
        from concordant.kernels.mallows_chain import distances

        distance, common = [np.zeros(0)], [np.zeros(0)]
        for p, order in zip(pools, orders, strict=True):
            place = np.empty(p.n, dtype=np.int64)
            place[order] = np.arange(p.n)
            d, found = np.zeros(len(p.expert)), np.zeros(len(p.expert), dtype=np.int64)
            distances(place, p.k, p.item, p.group, p.offsets, p.below, np.zeros(p.k + 1, dtype=np.int64), d, found)
            distance.append(d)
            if p.cut:
                common.append(np.eye(p.k + 1)[found].ravel())
        return cls(np.concatenate(distance)[None, :], np.concatenate(common)[None, :])

    def chain(self, which: int) -> ObservedDistances:
        """Return the distances of one chain."""
        return ObservedDistances(self.distance[which : which + 1], self.common[which : which + 1])

    def mean(self) -> ObservedDistances:
        """Return the mean over both chains."""
        return ObservedDistances(self.distance.mean(axis=0, keepdims=True), self.common.mean(axis=0, keepdims=True))

    def averaged_with(self, other: ObservedDistances, share: float) -> ObservedDistances:
        """Return the weighted average with other distances, which have weight `share`."""
        return ObservedDistances(*((1.0 - share) * a + share * b for a, b in zip(self, other, strict=True)))


class MomentEquations(NamedTuple):
    """The total distance of the lists of every expert, and its expectation as a function of θ."""

    distance: Floats
    expected: list[Callable[[float], float]]

    def solve(self, theta: Floats) -> Floats:
        """Return the θ of every expert at which both are equal; `theta` where the lists do not determine it."""
        return np.array(
            [
                mallows.solve_theta(f, d, t) if f(0.0) > f(mallows.LEAST_THETA) + 1e-9 else t
                for f, d, t in zip(self.expected, self.distance.tolist(), theta.tolist(), strict=True)
            ]
        )

    def gradient_norm(self, theta: Floats) -> float:
        """Return the largest derivative of the log-likelihood in a θ within its bounds, relative to random lists."""
        worst = 0.0
        for f, d, t in zip(self.expected, self.distance.tolist(), theta.tolist(), strict=True):
            derivative = d - f(t)
            bound = (t >= 0 and derivative > 0) or (t <= mallows.LEAST_THETA and derivative < 0)
            if not bound and f(0.0) > 0:
                worst = max(worst, abs(derivative) / f(0.0))
        return worst


def _plus_rankings(f: Callable[[float], float], size: int, weight: float) -> Callable[[float], float]:
    """Return the expectation plus that of `weight` rankings of `size` items."""
    return lambda theta: f(theta) + weight * float(mallows.expected_distances(theta, size)[-1])


class ExpectedDistances:
    """The expected distances of the lists of every expert as functions of θ.

    The expected distance of a list is a sum of E_m(θ), the expected distances of rankings of m items. The coefficients
    of all lists of an expert are added up in one row, so that an evaluation is one scalar product. Experts whose θ is
    `fixed` have no equation.
    """

    def __init__(
        self,
        pools: Sequence[PooledLists | PoolShape],
        n_experts: int,
        formula: str = "corrected",
        norm: str = "given-z",
        fixed: NDArray[np.bool_] | None = None,
    ) -> None:
        none = np.zeros(0, dtype=np.int64)
        self.sizes = [p.n for p in pools]
        per_list = [len(p.expert) for p in pools]
        self.expert = np.concatenate([none, *(p.expert for p in pools)])
        self.weight = np.concatenate([np.zeros(0), *(p.weight for p in pools)])
        self.listed = np.concatenate([none, *(p.lengths for p in pools)])
        self.places = np.repeat(np.array([p.k for p in pools], dtype=np.int64), per_list)
        self.pool = np.repeat(np.array([p.n for p in pools], dtype=np.int64), per_list)
        self.below = np.repeat(np.array([p.below for p in pools], dtype=np.bool_), per_list)
        self.open = self.places < self.pool
        self.weight_sum = np.bincount(self.expert, weights=self.weight, minlength=n_experts)
        self.fixed = np.zeros(n_experts, dtype=np.bool_) if fixed is None else fixed
        self.printed, self.full = formula == "printed", norm == "full"
        self.n_experts = n_experts
        self.size = int(self.pool.max(initial=0)) + 2
        cells = np.where(self.open, self.places + 1, 0)
        self.cell_list = np.repeat(np.arange(len(cells)), cells)
        self.cell_common = np.arange(len(self.cell_list)) - np.repeat(np.cumsum(cells) - cells, cells)
        tied = np.flatnonzero(np.concatenate([np.zeros(0, dtype=np.bool_), *(p.tied for p in pools)]))
        owner, first = np.repeat(np.arange(len(pools)), per_list), np.cumsum([0, *per_list])
        self.ties = {w: pools[owner[w]].group_sizes(w - int(first[owner[w]])) for w in tied.tolist()}
        self._known = self._of_known_overlap()

    def _add(self, table: Floats, lists: NDArray[Any], size: NDArray[Any], weight: NDArray[Any]) -> None:
        index = self.expert[lists] * self.size + size
        table += np.bincount(index, weights=weight, minlength=table.size).reshape(table.shape)

    def _of_known_overlap(self) -> Floats:
        """Return the coefficients of the lists whose items are all among the places that count."""
        table = np.zeros((self.n_experts, self.size))
        sure = np.flatnonzero(~self.open)
        w, m, k = self.weight[sure], self.listed[sure], self.places[sure]
        self._add(table, sure, m, w)
        between = np.where(self.below[sure], w, 0.0)
        if self.printed:
            self._add(table, sure, m + 1, between * (k - m))
            self._add(table, sure, m, -between * (k - m))
        else:
            self._add(table, sure, k, between)
            self._add(table, sure, m, -between)
            self._add(table, sure, k - m, -between)
        for which, sizes in self.ties.items():
            if not self.open[which]:
                self._add(table, np.full(len(sizes), which), sizes, np.full(len(sizes), -self.weight[which]))
        return table

    def moment_equations(self, observed: ObservedDistances, prior: float = 0.0) -> MomentEquations:
        """Return the moment equations of every expert: observed and expected distance.

        To each expert are added `prior` rankings of the mean length of a list, at the distance expected of all lists
        together; an expert whose lists have weight 2 counts as two experts. Experts whose θ is fixed expect 0 for any
        θ, and `solve` leaves their θ.
        """
        weighted = self.weight * observed.distance[0]
        distance: Floats = np.bincount(self.expert, weights=weighted, minlength=self.n_experts).astype(np.float64)
        table, constant = self._known.copy(), np.zeros(self.n_experts)
        closed = self.open.copy()
        if self.full:
            closed[:] = False
        else:
            closed[list(self.ties)] = False
            self._count_common(observed.common[0], closed, table, constant)
        # Lists without a closed form are computed one by one.
        others = np.flatnonzero(self.open & ~closed)
        cells = offsets_of(np.bincount(self.cell_list, minlength=len(self.open)))
        probable = {w: observed.common[0][cells[w] : cells[w + 1]] for w in others.tolist()}

        def expectation(row: Floats, start: float, own: Ints) -> Callable[[float], float]:
            last = int(np.flatnonzero(row).max(initial=0))

            def value(theta: float) -> float:
                total = float(row[: last + 1] @ mallows.expected_distances(theta, last)) + start
                return total + self._listwise(theta, own, probable) if len(own) else total

            # Root finding and the gradient evaluate the ends and the present value again.
            return cache(value)

        owner = self.expert[others]
        ends = np.cumsum(np.bincount(owner, minlength=self.n_experts))
        by_expert = np.split(others[np.argsort(owner, kind="stable")], ends[:-1]) if self.n_experts else []
        expected = [expectation(table[e], float(constant[e]), by_expert[e]) for e in range(self.n_experts)]
        learned = ~self.fixed
        weight = np.where(learned[self.expert], self.weight, 0.0)
        if prior and weight.any():
            every = expectation(table[learned].sum(axis=0), float(constant[learned].sum()), others[learned[owner]])
            average = mallows.solve_theta(every, float(distance[learned].sum()))
            size = round(float(weight @ self.listed) / float(weight.sum()))
            more = prior * self.weight_sum / np.maximum(np.bincount(self.expert, minlength=self.n_experts), 1)
            distance += more * mallows.expected_distances(average, size)[-1]
            expected = [_plus_rankings(f, size, w) for f, w in zip(expected, more.tolist(), strict=True)]
        expected = [f if free else lambda _: 0.0 for f, free in zip(expected, learned.tolist(), strict=True)]
        return MomentEquations(distance, expected)

    def _count_common(self, common: Floats, closed: NDArray[np.bool_], table: Floats, constant: Floats) -> None:
        """Add the lists whose number of common items is random, given its distribution."""
        use = closed[self.cell_list] & (common > 0)
        which, z = self.cell_list[use], self.cell_common[use]
        m, k, w = self.listed[which], self.places[which], self.weight[which] * common[use]
        terms = [(m, w), (m - z, -w)]
        if self.printed:
            terms += [(z + 1, w * (k - z)), (z, -w * (k - z))]
        else:
            terms += [(k, w), (z, -w), (k - z, -w)]
        for size, weight in terms:
            self._add(table, which, size, weight)
        constant += np.bincount(
            self.expert[which], weights=w * mallows.overlap_distance(m, k, z), minlength=len(constant)
        )

    def _listwise(self, theta: float, own: Ints, probable: dict[int, Floats]) -> float:
        """Return the expected distance of lists with ties, or drawn from the whole pool."""
        tied = np.array([w in self.ties for w in own.tolist()])
        plain = own[~tied]
        total = 0.0
        if len(plain):
            mean = mallows.pool_moments(theta, self.listed[plain], self.places[plain], self.pool[plain])[1]
            total += float(self.weight[plain] @ mean)
        if tied.any():
            total += self._tied(theta, own[tied], probable)
        return total

    def _tied(self, theta: float, own: Ints, probable: dict[int, Floats]) -> float:
        from concordant.kernels.mallows_chain import tied_moments

        f, plain = mallows.log_factorials(theta, self.size), mallows.log_factorials(0.0, self.size)
        e = mallows.expected_distances(theta, self.size)
        total = 0.0
        for which in own.tolist():
            m, k, n = int(self.listed[which]), int(self.places[which]), int(self.pool[which])
            within, derivative = np.empty(m + 1), np.empty(m + 1)
            tied_moments(theta, self.ties[which], f, plain, e, within, derivative)
            if self.full:
                shape = (np.array([m]), np.array([k]), np.array([n]))
                mean = float(mallows.pool_moments(theta, *shape, (within[None, :], derivative[None, :]))[1][0])
            else:
                z = np.arange(m + 1)
                apart = mallows.overlap_distance(np.full(m + 1, m), np.full(m + 1, k), z)
                expected = apart + e[k] - e[z] - e[k - z] + derivative[m - z]
                mean = float(probable[which][: m + 1] @ expected)
            total += float(self.weight[which]) * mean
        return total

    def norm(self, values: Floats) -> float:
        """Return the root mean square of one value per expert with an equation, weighted by its lists."""
        return float(np.sqrt(np.average(values**2, weights=np.where(self.fixed, 0.0, self.weight_sum))))

    def log_normaliser(self, theta: Floats) -> float | None:
        """Return the log normaliser of all lists, None where a number of common items is random."""
        if self.open.any() or self.printed:
            return None
        rows = [row @ mallows.log_factorials(t, self.size - 1) for row, t in zip(self._known, theta, strict=True)]
        return float(sum(rows))

    def information(self, theta: Floats) -> Floats | None:
        """Return the observed information about each θ, None where a number of common items is random.

        It is the second derivative of the log normaliser: the variance of the sum of the distances.
        """
        if self.open.any() or self.printed:
            return None
        rows = [row @ mallows.distance_variances(t, self.size - 1) for row, t in zip(self._known, theta, strict=True)]
        return np.array(rows, dtype=np.float64)


class EnergyBuffer(local):
    """Memory for the table of pair energies, reused by each thread: allocating it takes longer than filling it."""

    def __init__(self) -> None:
        self.memory = np.empty(0)

    def energies(self, pool: PooledLists, u: Floats) -> tuple[Floats, Floats]:
        """Return the pair energies of an instance and their row sums; valid until the next call in this thread."""
        from concordant.kernels.mallows_chain import pair_energies

        n = pool.n
        if self.memory.size < 2 * n * n:
            self.memory = np.empty(2 * n * n)
        c, rows = self.memory[: 2 * n * n].reshape(n, n, 2), np.empty(n)
        pair_energies(pool.item, pool.group, pool.offsets, u, pool.below, c, rows)
        return c, rows


class ChainRecord(NamedTuple):
    """Averages over the states of chains, one row per chain.

    Attributes
    ----------
    distance, common
        Means per list, see `ObservedDistances`; `common` has a column per number of common items, none where that
        number is fixed.
    energy : float64[chains, records]
        The energies of the recorded states.
    position, variance : float64[chains, n]
        The mean place of every item, from 1, and its variance; items below the places that count share the mean of
        the remaining places.
    move_rate : float
        The share of the moves that changed the state.
    best : int32[n]
        The recorded state of highest energy.
    """

    distance: Floats
    common: Floats
    energy: Floats
    position: Floats
    variance: Floats
    move_rate: float
    best: Codes

    def r_hat(self) -> float:
        """Return the potential scale reduction (R-hat) of the chains, the larger of that of energies and of places.

        The square root of 1 + (variance between the means of the chains) / (variance within a chain); places are pooled
        over the items. 1 is perfect agreement.
        """
        worst = 0.0
        for between, within in (
            (self.energy.mean(axis=1).var(ddof=1), self.energy.var(axis=1).mean()),
            (self.position.var(axis=0, ddof=1).sum(), self.variance.mean(axis=0).sum()),
        ):
            # Energies of the same state may differ in their last bits.
            if between > 1e-18 * max(1.0, float(np.abs(self.energy).max())) ** 2:
                worst = max(worst, float(between / within) if within > 0 else np.inf)
        return float(np.sqrt(1.0 + worst))


class ChainPair:
    """Two Markov chains over the true rankings of one instance; each run continues the last.

    Parameters
    ----------
    pool : Pool
        The lists.
    starts : sequence of int32[n]
        The initial states.
    rng : Generator
        The random stream of this instance.
    swaps : bool
        Whether moves are swaps of two items.
    """

    def __init__(self, pool: PooledLists, starts: list[Codes], rng: np.random.Generator, swaps: bool) -> None:
        self.pool = pool
        self.orders = [start.copy() for start in starts]
        self.rng = rng
        self.swaps = swaps

    def run(self, buffer: EnergyBuffer, u: Floats, sweeps: float) -> ChainRecord:
        """Make about `sweeps` moves per item in every chain, and return the averages over their states."""
        from concordant.kernels.mallows_chain import run_chain

        p, chains = self.pool, len(self.orders)
        n, n_lists = p.n, len(p.expert)
        c, rows = buffer.energies(p, u)
        # Recording a state visits every list; it should not cost much more than the moves between two records. A list
        # of weight 2 counts as two, so that it gives the same answer as two lists.
        looking = float(p.weight @ p.lengths) * max(1.0, np.log2(p.k)) / (4 * p.k)
        every = max(1, n // 2, min(round(looking), 4 * n))
        records = max(2, round(sweeps * n / every))
        block = max(1, _MOVES // every)
        distance, energy = np.zeros((chains, n_lists)), np.empty((chains, records))
        common = np.zeros((chains, n_lists, p.k + 1 if p.cut else 0))
        total, square, inside = np.zeros((chains, n)), np.zeros((chains, n)), np.zeros((chains, n), dtype=np.int64)
        best, highest, moved = self.orders[0].copy(), -np.inf, 0
        for chain, order in enumerate(self.orders):
            for start in range(0, records, block):
                part = min(block, records - start)
                observed = np.empty(n, dtype=np.int32)
                top, changes = run_chain(
                    c,
                    rows,
                    order,
                    p.k,
                    p.item,
                    p.group,
                    p.offsets,
                    p.starts,
                    p.lists,
                    u,
                    p.below,
                    self.swaps,
                    self.rng.random((part * every, 3)),
                    every,
                    distance[chain],
                    common[chain],
                    energy[chain, start : start + part],
                    total[chain],
                    square[chain],
                    inside[chain],
                    observed,
                )
                moved += changes
                if top > highest:
                    best, highest = observed, top
        rest = 0.5 * (p.k + 1 + n)
        share = 1.0 - inside / records
        position = total / records + share * rest
        variance = np.maximum(square / records + share * rest**2 - position**2, 0.0)
        return ChainRecord(
            distance / records,
            common / records,
            energy,
            position,
            variance,
            moved / (chains * records * every),
            best,
        )


_LOW_64_BITS = (1 << 64) - 1


def chain_states(chain_pairs: list[ChainPair]) -> dict[str, NDArray[Any]]:
    """Return the states of all chains and of their random streams as arrays for a checkpoint."""
    numbers = []
    for chains in chain_pairs:
        state = chains.rng.bit_generator.state
        inner = state["state"]
        halves = [part for n in (inner["state"], inner["inc"]) for part in (n >> 64, n & _LOW_64_BITS)]
        numbers.append([*halves, state["has_uint32"], state["uinteger"]])
    orders = [order for chains in chain_pairs for order in chains.orders]
    return {
        "orders": np.concatenate([np.zeros(0, dtype=np.int32), *orders]),
        "numbers": np.array(numbers, dtype=np.uint64).reshape(-1, 6),
    }


def restored_chains(
    pools: list[PooledLists], streams: list[np.random.Generator], swaps: bool, kept: State
) -> list[ChainPair]:
    """Return the chains of these pools in the state of a checkpoint; the streams are set to their states."""
    out, first = [], 0
    for pool, rng, numbers in zip(pools, streams, kept["numbers"].tolist(), strict=True):
        high, low, inc_high, inc_low, has, integer = numbers
        inner = {"state": (high << 64) | low, "inc": (inc_high << 64) | inc_low}
        rng.bit_generator.state = {
            **rng.bit_generator.state,
            "state": inner,
            "has_uint32": has,
            "uinteger": integer,
        }
        starts = [kept["orders"][first + c * pool.n : first + (c + 1) * pool.n] for c in range(2)]
        if not all(np.array_equal(np.sort(order), np.arange(pool.n)) for order in starts):
            raise FormatError("the checkpoint is not of these lists. Remove it to begin anew.")
        out.append(ChainPair(pool, starts, rng, swaps))
        first += 2 * pool.n
    return out


def exact_record(pool: PooledLists, buffer: EnergyBuffer, u: Floats) -> tuple[ChainRecord, float]:
    """Return the exact posterior as a record, and the logarithm of the sum of all odds; see `exact_posterior`."""
    from concordant.kernels.mallows_chain import exact_posterior

    p = pool
    c, rows = buffer.energies(p, u)
    distance, position = np.zeros(len(p.expert)), np.zeros(p.n)
    common = np.zeros((len(p.expert), p.k + 1 if p.cut else 0))
    total = exact_posterior(c, rows, p.k, p.item, p.group, p.offsets, u, p.below, distance, common, position)
    record = ChainRecord(
        np.stack([distance] * 2),
        np.stack([common] * 2),
        np.zeros((2, 1)),
        np.stack([position] * 2),
        np.zeros((2, p.n)),
        1.0,
        np.argsort(position, kind="stable").astype(np.int32),
    )
    return record, total
