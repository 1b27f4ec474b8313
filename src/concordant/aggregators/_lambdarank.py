"""LambdaRank on sparse expert features: training queries, the target metric, and the learner of `SVDRank`.

Random numbers depend on the ids of the instances, and ties are broken by the features, so the weights do not depend on
the order or the names of anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints
from concordant.data.index import Texts
from concordant.data.streams import id_hash
from concordant.features.expert_features import WeightBlocks
from concordant.kernels.lists import list_ids, offsets_of, ranges
from concordant.kernels.splitmix64 import mixed
from concordant.kernels.svd_tables import FeatureRows, LambdaTarget
from concordant.learning.optimisers import max_norm
from concordant.ranking.metric_swaps import metric_terms

if TYPE_CHECKING:
    from concordant.metrics.ranking import Metric

__all__ = ["LambdaRankLearner", "ExpertNetwork", "Queries", "Settings", "inner_order", "network_scores", "public_order"]

# The first weights are this large.
_START = 0.01


class Queries(NamedTuple):
    """Training instances as LambdaRank takes them.

    Attributes
    ----------
    rows : FeatureRows
        The features of the items that are learned from, by label, the highest first.
    target : LambdaTarget
        What is learned for.
    code : uint64[N]
        The hash of every instance's id.
    key : uint64[S]
        A hash of what is said about every slot, those not learned from included.
    """

    rows: FeatureRows
    target: LambdaTarget
    code: NDArray[np.uint64]
    key: NDArray[np.uint64]

    @classmethod
    def of(
        cls,
        rows: FeatureRows,
        label: Floats,
        instances: Ints,
        ids: Texts,
        metric: Metric | None,
        budget: int = 0,
        normalise: bool = False,
    ) -> Queries:
        """Return these instances of the rows, without the slots whose label is NaN."""
        n = len(rows.offsets) - 1
        instance = list_ids(rows.offsets)
        usable = np.zeros(n, dtype=np.bool_)
        usable[instances] = True
        key = _slot_keys(rows, label, ids)
        used = np.flatnonzero(usable[instance] & ~np.isnan(label))
        used = used[np.lexsort((key[used], -label[used], instance[used]))]
        offsets = offsets_of(np.bincount(instance[used], minlength=n))
        where, own = instance[used], label[used]
        # Of how many different labels an item's is lower.
        steps = np.zeros(len(used), dtype=np.int64)
        steps[1:] = (own[1:] != own[:-1]) & (where[1:] == where[:-1])
        level = np.cumsum(steps)
        level -= level[offsets[:-1][where]]
        # Ties are placed by what is said about the items, and the lower label first where that is the same.
        by_tie = np.lexsort((-level, key[used], where)) - offsets[where]
        kept = ranges(rows.starts[used], rows.starts[used + 1])
        kind, worth, place_gain, scale = metric_terms(metric, own, level, offsets)
        return cls(
            rows._replace(
                offsets=offsets,
                starts=offsets_of(rows.starts[used + 1] - rows.starts[used]),
                block=rows.block[kept],
                X=rows.X[kept],
            ),
            LambdaTarget(kind, worth, level, by_tie, place_gain, scale, budget, normalise),
            np.array([id_hash(i) for i in ids], dtype=np.uint64),
            key,
        )

    @property
    def informative(self) -> NDArray[np.bool_]:
        """In which instances one order of the items is better than another."""
        from concordant.kernels.lambdarank import PAIRS, PLACES

        sizes = np.diff(self.rows.offsets)
        full = np.flatnonzero(sizes)
        best, worst = self.rows.offsets[full], self.rows.offsets[full + 1] - 1
        worth = self.target.level if self.target.metric == PAIRS else self.target.worth
        out = np.zeros(len(sizes), dtype=np.bool_)
        out[full] = worth[best] != worth[worst]
        if self.target.metric == PLACES:
            # Down to the cutoff of a precision all places are worth the same.
            out[full] &= self.target.place_gain[0] != self.target.place_gain[sizes[full] - 1]
        return out


def _slot_keys(rows: FeatureRows, label: Floats, ids: Texts) -> NDArray[np.uint64]:
    """Return a hash of what is said about every slot that depends on no name of item or expert and on no order.

    Experts are told apart by what they say about which labels. Numbers are rounded, so that the last bits do not count.
    """
    key = np.zeros(len(rows.starts) - 1, dtype=np.uint64)
    if not len(rows.block):
        return key
    slot = list_ids(rows.starts)
    said = np.zeros(len(rows.block), dtype=np.uint64)
    for column in (rows.X + 0.0).astype(np.float32).T:
        said = mixed(said + np.ascontiguousarray(column).view(np.uint32) + np.uint64(1))
    home = np.array([id_hash(i) for i in ids], dtype=np.uint64)[list_ids(rows.offsets)]
    about = mixed(np.where(np.isnan(label), -1.0, label + 0.0).view(np.uint64) ^ home)
    who = np.zeros(int(rows.block.max()) + 1, dtype=np.uint64)
    np.add.at(who, rows.block, mixed(said ^ about[slot]))
    np.add.at(key, slot, mixed(said + mixed(who)[rows.block]))
    return key


class Settings(NamedTuple):
    """What all learners of a fit have in common."""

    p: int
    units: int
    l2: float
    memory: float
    random_state: int


class ExpertNetwork(NamedTuple):
    """The weights of a scorer, columns in the order u, v, missing, σ; a linear one has one unit that does not bend."""

    w: Floats
    bias: Floats
    top: Floats


def public_order(p: int) -> list[int]:
    """Return where u, σ, v, missing stand in u, v, missing, σ."""
    return [*range(p), *range(2 * p + 1, 3 * p + 1), *range(p, 2 * p), 2 * p]


def inner_order(p: int) -> list[int]:
    """Return where u, v, missing, σ stand in u, σ, v, missing."""
    return [*range(p), *range(2 * p, 3 * p), 3 * p, *range(p, 2 * p)]


def network_scores(rows: FeatureRows, net: ExpertNetwork, instances: Ints) -> Floats:
    """Return the scores that a hidden layer gives to the slots of the instances."""
    from concordant.kernels.lambdarank import hidden_scores

    out = np.zeros(len(rows.starts) - 1)
    hidden_scores(instances, rows, *net, out)
    return out


class LambdaRankLearner:
    """LambdaRank with one strength and one learning rate.

    Parameters are the weights after the last pass, followed by their moving average where there is one: it is the
    average that scores.
    """

    def __init__(
        self,
        chosen: dict[str, Any],
        settings: Settings,
        blocks: WeightBlocks,
        parts: list[FeatureRows],
        queries: Queries,
        before: tuple[dict[str, int], ExpertNetwork] | None = None,
    ) -> None:
        self.chosen = chosen
        self.names, self.parts = blocks.names, parts
        # Where nobody taught the shared weights anything, a stranger is taken for an average expert.
        self._untaught = blocks.shared >= 0 and blocks.n_own > 0 and not (parts[0].source_block == blocks.shared).any()
        self._rate = float(chosen["learning_rate"])
        self._settings, self._queries, self._before = settings, queries, before

    def start(self) -> Floats:
        """Return small random weights, the same for every expert, so that nothing hangs on names or their order."""
        p, units, seed = self._settings.p, self._settings.units, self._settings.random_state
        rng = np.random.default_rng([seed, p, units])
        # Without a hidden layer σ makes no difference, and has no weights.
        w = rng.normal(scale=_START, size=(3 * p + 1, units) if units else (2 * p + 1, 1))
        w[2 * p] = 0.0
        top = rng.normal(size=units)
        net = ExpertNetwork(np.broadcast_to(w, (len(self.names), *w.shape)).copy(), np.zeros(units), top)
        if self._before is not None:
            known, earlier = self._before
            for b, name in enumerate(self.names):
                if name in known:
                    net.w[b] = earlier.w[known[name], : net.w.shape[1]]
            net.bias[:], net.top[:] = earlier.bias[:units], earlier.top[:units]
        flat = np.concatenate([net.w.ravel(), net.bias, net.top])
        return np.concatenate([flat, flat]) if self._settings.memory else flat

    def net(self, parameters: Floats) -> ExpertNetwork:
        """Return the weights to score with."""
        p, units, n = self._settings.p, self._settings.units, len(self.names)
        flat = parameters[len(parameters) // 2 :] if self._settings.memory else parameters
        if not units:
            w = np.zeros((n, 3 * p + 1, 1))
            w[:, : 2 * p + 1, 0] = flat.reshape(n, 2 * p + 1)
            net = ExpertNetwork(w, np.zeros(1), np.ones(1))
        else:
            net = self._parts_of(flat.copy())
        if self._untaught:
            net.w[-1] = net.w[:-1].mean(axis=0)
        return net

    def _parts_of(self, flat: Floats) -> ExpertNetwork:
        """Return the weights of a hidden layer as views of a flat array."""
        units = self._settings.units
        size = len(flat) - 2 * units
        return ExpertNetwork(
            flat[:size].reshape(len(self.names), -1, units), flat[size : size + units], flat[size + units :]
        )

    def advance(self, parameters: Floats, instances: Ints, number: int) -> Floats:
        """Return the parameters after one pass, in an order of instances drawn from their ids."""
        from concordant.kernels import lambdarank as kernel

        q, s = self._queries, self._settings
        chance = mixed(np.array([s.random_state, number], dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15))
        key = mixed(q.code ^ mixed(chance[:1] + np.uint64(number)))
        visit = instances[np.argsort(key[instances], kind="stable")]
        draw = (mixed(key) >> np.uint64(11)).astype(np.float64) / 2.0**53
        size = len(parameters) // 2 if s.memory else len(parameters)
        flat = parameters[:size].copy()
        if s.units:
            kernel.hidden_pass(visit, draw, q.rows, q.target, self._rate, s.l2, *self._parts_of(flat))
        else:
            kernel.linear_pass(visit, draw, q.rows, q.target, self._rate, s.l2, flat.reshape(len(self.names), -1))
        if not s.memory:
            return flat
        # Before many passes are over, the average is over those there are.
        memory = min(s.memory, number / (number + 1.0))
        return np.concatenate([flat, memory * parameters[size:] + (1.0 - memory) * flat])

    def scores(self, parameters: Floats, part: str, instances: Ints | None) -> Floats:
        """Return a score for every slot of the part, rounded so that ties are ties whatever was added up first."""
        from concordant.kernels.expert_rows import linear_scores

        rows, net = self.parts[0 if part == "train" else 1], self.net(parameters)
        which = np.arange(len(rows.offsets) - 1) if instances is None else instances
        if self._settings.units:
            out = network_scores(rows, net, which)
        else:
            out = np.zeros(len(rows.starts) - 1)
            w = np.ascontiguousarray(net.w[:, : rows.X.shape[1], 0])
            linear_scores(*rows[:4], w, which, out)
        largest = max_norm(out)
        if not 0 < largest < np.inf:
            return out
        unit = 2.0 ** (40 - int(np.frexp(largest)[1]))
        return np.rint(out * unit) / unit
