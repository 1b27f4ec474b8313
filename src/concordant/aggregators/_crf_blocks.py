"""Training data of the CRF in blocks of instances; preferences in memory are one block.

A block holds its labelled instances as rows and samples. It receives weights, and returns the value and the gradient of
the objective. Terms are rounded to a grid on which their sums are exact, so the optimum is the same, bit for bit, for
any split into blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.aggregators._linear import (
    TRANSFORMS,
    ExpertTotals,
    TrainingRows,
    candidates,
    canonical_rows,
    sorted_by_id,
)
from concordant.arrays import Floats, Ints
from concordant.data.streams import id_hash
from concordant.errors import DataError, KindError
from concordant.execution import InMemory, Shards, map_instances
from concordant.features.expert_features import ExpertRows, WeightBlocks, has_votes, weight_blocks_by_lists
from concordant.inference.experts import lists_per_expert
from concordant.kernels.lists import list_ids
from concordant.learning.shift import PartialSummary, TrainingSummary
from concordant.learning.supervision import MatchedLabels, check_distinguishable, match_labels

if TYPE_CHECKING:
    from concordant.aggregators.crf import CRF
    from concordant.base.contract import Votes
    from concordant.data.labels import Labels
    from concordant.data.preferences import Preferences
    from concordant.execution.blocks import Blocks
    from concordant.kernels.crf import MetricTarget, Samples, SamplingPools, SliceTerms

__all__ = ["BLOCKS_NEED", "LabelledBlock", "TransformData", "from_blocks", "from_memory"]

# Instances that a thread goes through at a time in the full batch, at least, and how many such stretches there are at
# most: each looks over all draws once.
_STRETCH, _STRETCHES = 16, 32
BLOCKS_NEED = (
    "CRF learns from blocks with solver='lbfgs', sums='full' and a validation part in memory to choose by: "
    "CRF(solver='lbfgs').fit(blocks, labels, validation=(preferences, labels))."
)


class LabelledBlock(NamedTuple):
    """The rows of the labelled instances of a block by one transform, in the units of the optimisation.

    Attributes
    ----------
    own : ExpertRows
        The rows, in an order that does not depend on that of the items.
    target : MetricTarget
        The metric to maximise, and the gain of every slot.
    informative : int64[]
        The instances in which one order can be better than another, by id.
    seeds : uint64[N]
        The seed of every instance.
    pools : SamplingPools
        What is drawn from.
    slices : SliceTerms or None
        How rows are cut to the items drawn, where sums are over those.
    """

    own: ExpertRows
    target: MetricTarget
    informative: Ints
    seeds: Any
    pools: SamplingPools
    slices: SliceTerms | None


class TransformData(NamedTuple):
    """Training data of the CRF for one transform.

    Attributes
    ----------
    transform : str
        The transform.
    rows : TrainingRows
        The rows to score the validation part by and, of preferences in memory, the training part.
    blocks : Shards of LabelledBlock or None
        The training data; None for blocks without a label.
    unit, size : float64[3], float
        The units in which the columns are learned, and their spread in these units.
    held_out : bool
        Whether some of the informative instances may be held out; of blocks all are learned from.
    totals : callable
        Returns the totals of all lists, by which the weights are described.
    """

    transform: str
    rows: TrainingRows
    blocks: Shards[Any]
    unit: Floats
    size: float
    held_out: bool
    totals: Callable[[], ExpertTotals]

    def weights(self, parameters: Floats) -> Floats:
        """Return the weights, one row for each block of weights, in their own units."""
        return parameters.reshape(-1, 3) * self.unit

    def objective(self, owner: CRF, instances: Ints) -> _Objective:
        """Return the sum of the expected metric over some instances, with draws that stay."""
        draws = self.blocks.persist(_draw, owner, instances if self.held_out else None)
        return _Objective(draws, len(instances), len(self.rows.blocks))


class _Objective:
    """The value and the gradient of all instances at some weights."""

    def __init__(self, draws: Shards[_Draws | None], n: int, n_blocks: int) -> None:
        from concordant.kernels.crf import grids_of

        self._draws = draws
        self._grids = grids_of(n, max(draws.map(_largest), default=0.0))
        self._shape = (n_blocks, 3)

    def __call__(self, w: Floats) -> tuple[float, Floats]:
        value, gradient = 0.0, np.zeros(self._shape)
        for part, own in self._draws.map(_evaluate, w, self._grids):
            value += part
            gradient += own
        return value, gradient


def from_memory(
    owner: CRF, votes: Votes, labels: Labels | None, pair: tuple[Votes, Labels] | None
) -> tuple[MatchedLabels, list[TransformData]]:
    """Prepare the training data from preferences in memory, one entry for each transform."""
    name = type(owner).__name__
    truth = match_labels(votes, labels, name, unjudged=owner.unjudged)
    target = owner._metric_target(truth.label, votes.slots.offsets)
    informative = owner._informative(target, truth.instances, votes.slots.offsets)
    owner._require_informative(len(informative), len(truth.instances))
    truth = truth._replace(instances=informative)
    weights = owner._blocks_to_learn(votes)
    tasks = []
    for transform in candidates(owner.transform, TRANSFORMS):
        rows = owner._training_rows(votes, pair, weights, (transform,), truth.instances)
        check_distinguishable(rows.train.key, truth, votes, name)
        block = _canonical(rows.train, target, informative, votes.instances)
        blocks, unit, size, _ = _in_learning_units(InMemory([block]), owner, transform, len(weights))
        totals = partial(ExpertTotals.of, rows.train, len(weights))
        tasks.append(TransformData(transform, rows, blocks, unit, size, held_out=True, totals=totals))
    return truth, tasks


def from_blocks(
    owner: CRF, blocks: Blocks, labels: Labels | None, pair: tuple[Votes, Labels] | None
) -> tuple[MatchedLabels, list[TransformData]]:
    """Prepare the training data from blocks of instances; the validation part is in memory."""
    name, n_instances = type(owner).__name__, len(blocks.instances)
    if pair is None:
        raise KindError(BLOCKS_NEED)
    if labels is None:
        raise DataError(f"{name} learns from labels and got none. Call fit(blocks, labels, validation=...).")
    judged = blocks.shards.persist(_labelled_votes, owner, labels)
    told = list(judged.map(_block_summary))
    counts = {key: sum(t[3][key] for t in told) for key in told[0][3]} | {"instances": n_instances}
    if not counts["labelled"]:
        raise DataError(f"{name} found no label: none of {n_instances:,} instances has any. Do the ids match?")
    lists = np.sum([t[0] for t in told], axis=0)
    weights = weight_blocks_by_lists(blocks.experts.tolist(), lists, owner.weights, owner.min_lists)
    weights = owner._checked_blocks(weights, any(t[1] for t in told), n_instances)
    own_names = set(weights.names[: weights.n_own])
    taught = any(n and e not in own_names for e, n in zip(blocks.experts, lists.tolist(), strict=True))
    highest = max(t[2] for t in told)
    owner._require_informative(counts["usable"], counts["usable"])
    trained_on = TrainingSummary.merged(
        [part for part in judged.map(_partial_summary, owner, weights) if part is not None]
    )
    tasks, n_informative = [], 0
    for transform in candidates(owner.transform, TRANSFORMS):
        rows = judged.persist(_rows_of_block, owner, weights, transform, highest)
        own, unit, size, n_informative = _in_learning_units(rows, owner, transform, len(weights))
        owner._require_informative(n_informative, counts["usable"])
        held = owner._expert_rows(pair[0], weights, (transform,), " of the validation part", trained_on)
        training = TrainingRows(None, held, weights, trained_on, taught)
        totals = partial(_totals_of_blocks, blocks, owner, weights, transform)
        tasks.append(TransformData(transform, training, own, unit, size, held_out=False, totals=totals))
    return MatchedLabels(np.zeros(0), np.arange(n_informative), counts, owner.unjudged), tasks


def _totals_of_blocks(blocks: Blocks, owner: CRF, weights: WeightBlocks, transform: str) -> ExpertTotals:
    parts = list(blocks.shards.map(_expert_totals, owner, weights, transform))
    return ExpertTotals(*(np.sum(part, axis=0) for part in zip(*parts, strict=True)))


# What is done to a block, in order.


class _LabelledVotes(NamedTuple):
    """The labelled instances of a block, their labels by slot, and what is told of the block."""

    votes: Preferences | None
    label: Floats
    usable: Ints
    lists: Ints
    speaks: bool
    highest: float
    counts: dict[str, int]


class _CanonicalRows(NamedTuple):
    """The rows of labelled instances by one transform, and the instances in which one order can be better."""

    own: ExpertRows
    target: MetricTarget
    informative: Ints
    instances: list[str]


class _Scale(NamedTuple):
    """Mean variances of the columns over the informative instances; they set the units of the optimisation."""

    n_informative: int
    n_slots: int
    variance: Floats


class _Draws(NamedTuple):
    """The draws of a block, and the rows of the items drawn."""

    samples: Samples
    starts: Ints
    block: Any
    X: Floats
    target: MetricTarget


def _labelled_votes(block: Preferences, owner: CRF, labels: Labels) -> _LabelledVotes:
    owner._checked(block)
    known = labels.instances.codes
    shared = [q for q in block.instances if q in known]
    lists, speaks = lists_per_expert(block), has_votes(block)
    none = np.zeros(0, dtype=np.int64)
    if not shared:
        counts = dict.fromkeys(("instances", "labelled", "usable", "items", "judged", "unjudged", "elsewhere"), 0)
        return _LabelledVotes(None, np.zeros(0), none, lists, speaks, -np.inf, counts | {"items": block.n_slots})
    votes = block[shared]
    own = labels[np.array([known[q] for q in shared], dtype=np.int64)]
    truth = match_labels(votes, own, type(owner).__name__, unjudged=owner.unjudged, require_usable=False)
    highest = float(np.nanmax(truth.label)) if not np.isnan(truth.label).all() else -np.inf
    return _LabelledVotes(votes, truth.label, truth.instances, lists, speaks, highest, truth.counts)


def _block_summary(piece: _LabelledVotes) -> tuple[Ints, bool, float, dict[str, int]]:
    return piece.lists, piece.speaks, piece.highest, piece.counts


def _partial_summary(piece: _LabelledVotes, owner: CRF, weights: WeightBlocks) -> PartialSummary | None:
    if piece.votes is None or not len(piece.usable):
        return None
    return owner._partial_summary(piece.votes, weights, piece.usable)


def _expert_totals(block: Preferences, owner: CRF, weights: WeightBlocks, transform: str) -> ExpertTotals:
    return ExpertTotals.of(owner._expert_rows(block, weights, (transform,)), len(weights))


def _rows_of_block(
    piece: _LabelledVotes, owner: CRF, weights: WeightBlocks, transform: str, highest: float
) -> _CanonicalRows | None:
    if piece.votes is None:
        return None
    offsets = piece.votes.slots.offsets
    target = owner._metric_target(piece.label, offsets, highest)
    informative = owner._informative(target, piece.usable, offsets)
    return _canonical(
        owner._expert_rows(piece.votes, weights, (transform,)), target, informative, piece.votes.instances
    )


def _canonical(rows: ExpertRows, target: MetricTarget, informative: Ints, instances: Any) -> _CanonicalRows:
    """Return rows in an order that depends on nothing but labels and what is said."""
    own, slots = canonical_rows(rows, target.label)
    target = target._replace(gain=target.gain[slots], label=target.label[slots])
    return _CanonicalRows(own, target, sorted_by_id(informative, instances), instances.tolist())


def _in_learning_units(
    rows: Shards[_CanonicalRows | None] | Shards[_CanonicalRows], owner: CRF, transform: str, n_blocks: int
) -> tuple[Shards[LabelledBlock | None], Floats, float, int]:
    """Return the blocks in the units they are learned in, the units, how far columns spread, and the instances."""
    from concordant.aggregators.crf import learning_units

    scale = _total_scale(rows, n_blocks)
    unit, size = learning_units(scale.variance, owner)
    return rows.persist(_in_units, owner, transform, unit), unit, size, scale.n_informative


def _total_scale(rows: Shards[Any], n_blocks: int) -> _Scale:
    """Return what sets the scale, over all blocks."""
    parts = [part for part in rows.map(_scale, n_blocks) if part is not None]
    if len(parts) == 1:
        return parts[0]
    n_slots = sum(part.n_slots for part in parts)
    variance = np.sum([part.variance * part.n_slots for part in parts], axis=0) / max(n_slots, 1)
    return _Scale(sum(part.n_informative for part in parts), n_slots, variance)


def _scale(piece: _CanonicalRows | None, n_blocks: int) -> _Scale | None:
    from concordant.kernels.listwise import spreads

    if piece is None:
        return None
    own = piece.own
    variance = np.zeros((n_blocks, 3))
    spreads(own.offsets, own.starts, own.block, own.X, piece.informative, variance)
    slots = int((own.offsets[piece.informative + 1] - own.offsets[piece.informative]).sum())
    return _Scale(len(piece.informative), slots, variance)


def _in_units(piece: _CanonicalRows | None, owner: CRF, transform: str, unit: Floats) -> LabelledBlock | None:
    """Return a block with its columns in the units they are learned in."""
    from concordant.kernels.crf import SliceTerms, sampling_pools

    if piece is None:
        return None
    own, slices = piece.own, None
    if owner.sums == "slice":
        order = np.lexsort((own.source, own.block, list_ids(own.starts)))
        own = own._replace(X=own.X[order], block=own.block[order], value=own.value[order], source=own.source[order])
        below, mean = owner.missing == "below", owner.scaling == "mean"
        slices = SliceTerms(own.source, own.value, transform == "binary", below, mean)
    own = own._replace(X=own.X * unit)
    seeds = np.array([id_hash(f"{owner.random_state}:{q}") for q in piece.instances], dtype=np.uint64)
    pools = sampling_pools(own.offsets, piece.target.label, own.key)
    return LabelledBlock(own, piece.target, piece.informative, seeds, pools, slices)


def _draw(piece: LabelledBlock | None, owner: CRF, instances: Ints | None) -> _Draws | None:
    """Return draws of some instances of a block, by default of all that tell something."""
    from concordant.aggregators.crf import FIXED_DRAWS
    from concordant.kernels.crf import draw_samples, slice_rows, visit_order

    if piece is None:
        return None
    which = piece.informative if instances is None else instances
    if not len(which):
        return None
    samples = draw_samples(
        visit_order(which, piece.seeds, 0),
        piece.pools,
        piece.seeds,
        epsilon=owner.epsilon,
        n_samples=owner.n_samples or FIXED_DRAWS,
    )
    starts, block, X = piece.own.starts, piece.own.block, piece.own.X
    if piece.slices is not None:
        samples, starts, block, X = slice_rows(samples, starts, block, X, piece.slices)
    return _Draws(samples, starts, block, X, piece.target)


def _largest(piece: _Draws | None) -> float:
    return 0.0 if piece is None else float(np.abs(piece.X).max(initial=0.0))


def _evaluate(piece: _Draws | None, w: Floats, grids: tuple[float, float]) -> tuple[float, Floats]:
    """Return the value and the gradient of a block; the cores share its instances."""
    from concordant.kernels.crf import batch_objective

    if piece is None:
        return 0.0, np.zeros_like(w)
    samples, starts, block, X, target = piece
    n = len(samples.sample_starts) - 1
    edges = [*range(0, n, max(_STRETCH, -(-n // _STRETCHES))), n]

    def stretch(k: int) -> tuple[float, Floats]:
        return batch_objective(w, samples, starts, block, X, target, edges[k], edges[k + 1], grids)

    parts = map_instances(stretch, len(edges) - 1)
    return sum(part for part, _ in parts), np.sum([part for _, part in parts], axis=0)
