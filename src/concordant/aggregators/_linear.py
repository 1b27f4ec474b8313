"""Base of linear aggregators (CRF, ListwiseLinear): predict, explain and describe weighted sums of expert potentials.

Every expert has the weights alpha for not listing an item, beta+ for preferring it to others, and beta- for preferring
others to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.base.contract import Aggregator, Votes
from concordant.base.params import Constraint, Within
from concordant.data.comparisons import Comparisons
from concordant.data.index import Texts
from concordant.data.streams import id_hash
from concordant.errors import DataError, NotFittedError
from concordant.features.expert_features import (
    SHARED,
    ExpertRows,
    WeightBlocks,
    has_votes,
    position_tables,
    potential_scores,
    potentials,
    weight_blocks,
)
from concordant.inference.experts import DISCOUNTED
from concordant.kernels.lists import list_ids, offsets_of, ranges
from concordant.learning.optimisers import max_norm
from concordant.learning.shift import (
    RECORDED_RANGE,
    PartialSummary,
    TrainingSummary,
    check_record,
    depth_shift,
    kind_shift,
)

__all__ = [
    "TRANSFORMS",
    "LinearAggregator",
    "TrainingRows",
    "alternatives",
    "canonical_rows",
    "candidates",
    "sorted_by_id",
    "initial_weights",
]

TRANSFORMS = ("binary", "rankdiff", "log")

# An expert whose lists move scores by less than this part of what the most influential one's do is hardly heard.
_HARDLY = 0.05
# Sums over positions are kept for lists up to this length.
_LONGEST = 4096


def alternatives(single: Constraint) -> Constraint:
    """Return the constraint for one value, "auto", or a tuple of values to choose among."""

    def test(value: Any) -> bool:
        if isinstance(value, tuple):
            return len(value) > 0 and all(single.test(v) for v in value)
        return (isinstance(value, str) and value == "auto") or single.test(value)

    return Constraint(f"{single.allowed}, 'auto', or a tuple of such values to choose among", test)


def candidates(value: Any, every: Sequence[Any]) -> tuple[Any, ...]:
    """Return the values to choose among."""
    if isinstance(value, tuple):
        return tuple(dict.fromkeys(value))
    return tuple(every) if isinstance(value, str) and value == "auto" else (value,)


class TrainingRows(NamedTuple):
    """Training and validation rows of one transform."""

    # None of blocks of instances, whose rows stay where they are.
    train_rows: ExpertRows | None
    validation: ExpertRows | None
    blocks: WeightBlocks
    trained_on: TrainingSummary
    # Whether some expert without weights of its own taught the shared ones.
    shared_taught: bool

    @property
    def train(self) -> ExpertRows:
        """The rows to learn from."""
        if self.train_rows is None:
            raise TypeError("the rows of blocks stay where they are")
        return self.train_rows

    def weights(self, w: Floats) -> Floats:
        """Return the weights to score with: where nobody taught the shared ones, a stranger is an average expert."""
        shared = self.blocks.shared
        if shared < 0 or not self.blocks.n_own or self.shared_taught:
            return w
        w = w.copy()
        w[shared] = w[: self.blocks.n_own].mean(axis=0)
        return w

    def scores(self, w: Floats, part: str, instances: Ints | None) -> Floats:
        """Return a score for every slot of the part."""
        rows = self.train if part == "train" or self.validation is None else self.validation
        return rows.scores(self.weights(w), instances)


class LinearAggregator(Aggregator):
    """Base of methods whose score is Σ_k alpha_k [k does not list the item] + beta+_k row_k - beta-_k col_k.

    A subclass has the parameters `weights`, `min_lists`, `missing` and `unknown_experts`, learns a matrix of weights,
    and hands it to `_set_fitted`.
    """

    weights: str
    min_lists: int
    missing: str
    unknown_experts: str
    scaling: str = "mean"

    weights_: Annotated[Floats, Within()]
    shared_: Annotated[int, Within(least=-1)]
    transforms_: list[str]
    pruned_: list[str]
    adherence_: Annotated[Floats, Within()]
    expert_details_: Annotated[dict[str, Any], Within()]
    training_: Annotated[dict[str, Any], RECORDED_RANGE]

    def _blocks(self) -> WeightBlocks:
        """Return which weights there are, or raise when nothing was learned."""
        if "weights_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)
        return WeightBlocks(self.experts_, self.shared_, frozenset(self.pruned_))

    def _scores(self, preferences: Votes) -> Floats:
        blocks = self._blocks()
        of_expert = blocks.block_of_expert(preferences, type(self).__name__, self.unknown_experts)
        if not len(blocks):
            return np.zeros(preferences.slots.n_slots)
        return potential_scores(
            preferences,
            blocks,
            of_expert,
            self.weights_,
            self.transforms_,
            missing=self.missing,
            scaling=self.scaling,
            trained_on=self._training_summary(),
        )

    def _position_tables(
        self,
        names: Sequence[str],
        lengths: Sequence[int],
        weights: Sequence[float] | None,
        n_items: Callable[[], int],
    ) -> tuple[Sequence[Sequence[float]], float] | None:
        blocks, trained_on = self._blocks(), self._training_summary()
        longest, size = max(lengths), n_items()
        if trained_on is None or longest > _LONGEST or not trained_on.covers_sizes(longest, longest, size, size):
            return None
        own = {name: b for b, name in enumerate(blocks.names[: blocks.n_own])}
        block = [own.get(name, blocks.shared) for name in names]
        # Lists that are passed over, and experts that the model does not know.
        if min(block) < 0 or (weights and 0 in weights) or not blocks.ignored.isdisjoint(names):
            return None
        return position_tables(
            blocks, block, lengths, weights, size, self.weights_, self.transforms_,
            missing=self.missing, scaling=self.scaling,
        )  # fmt: skip

    def _training_summary(self) -> TrainingSummary | None:
        """Return the summary of the training lists; None if it is unknown."""
        return TrainingSummary.from_record(self.__dict__.get("training_"))

    def _data_shift(self, preferences: Votes) -> str:
        blocks = self._blocks()
        return kind_shift(self, preferences) or depth_shift(
            self, preferences, lambda: blocks.block_of_expert(preferences, type(self).__name__, self.unknown_experts)
        )

    def _contributions(self, preferences: Votes) -> tuple[list[str], Floats, Floats]:
        blocks = self._blocks()
        of_expert = blocks.block_of_expert(preferences, type(self).__name__, self.unknown_experts)
        unnamed = isinstance(preferences, Comparisons) and preferences.expert is None
        names = [SHARED] if unnamed else preferences.experts.tolist()
        n_slots, k = preferences.slots.n_slots, len(names)
        out = np.zeros((n_slots, k))
        base = np.zeros(len(preferences))
        if not len(blocks):
            return names, out, np.zeros(n_slots)
        # Everybody gets a block of its own, filled with the weights it uses, so that a row tells whose it is.
        each = WeightBlocks(names, -1)
        codes = np.where(of_expert >= 0, np.arange(k), -1)
        w = self.weights_[of_expert]
        trained_on = self._training_summary()
        rows = potentials(
            preferences, each, codes, tuple(self.transforms_), missing=self.missing, scaling=self.scaling,
            trained_on=None if trained_on is None else trained_on.take(of_expert),
        )  # fmt: skip
        np.add.at(out, (list_ids(rows.starts), rows.block), (rows.X * w[rows.block]).sum(axis=1))
        own = self.weights_[: blocks.n_own, 0]
        instance = list_ids(rows.list_starts)
        constant = np.zeros((len(preferences), k))
        np.add.at(constant, (instance, rows.list_block), (rows.absent * w[rows.list_block]).sum(axis=1))
        np.add.at(constant, (instance, rows.list_block), w[rows.list_block, 0])
        base += float(own.sum())
        # A known expert who is absent leaves everything unlisted: the same for all items, and nobody's doing.
        present = of_expert[rows.list_block] < blocks.n_own
        np.subtract.at(base, instance[present], w[rows.list_block[present], 0])
        own_instance = preferences.slots.instance
        return names, out + constant[own_instance], base[own_instance]

    def _blocks_to_learn(self, votes: Votes) -> WeightBlocks:
        """Return the blocks of weights to learn."""
        return self._checked_blocks(weight_blocks(votes, self.weights, self.min_lists), has_votes(votes), len(votes))

    def _checked_blocks(self, blocks: WeightBlocks, anybody_speaks: bool, n_instances: int) -> WeightBlocks:
        """Return the blocks, or raise where nothing can be learned in them."""
        if len(set(blocks.names)) < len(blocks.names):
            raise DataError(
                f"an expert is called {SHARED!r}, which is the name of the weights that experts share. Rename it."
            )
        if not anybody_speaks:
            raise DataError(
                f"{type(self).__name__} has nothing to learn from: no expert ranks anything in the "
                f"{n_instances} instances."
            )
        return blocks

    def _training_rows(
        self,
        votes: Votes,
        validation: tuple[Votes, Any] | None,
        blocks: WeightBlocks,
        transforms: Sequence[str],
        instances: Ints,
    ) -> TrainingRows:
        """Return the rows of the training part, whose given instances are learned from, and of the validation part."""
        trained_on = TrainingSummary.merged([self._partial_summary(votes, blocks, instances)])
        held = None
        if validation is not None:
            # Read as at prediction: it may go deeper than what is learned from.
            held = self._expert_rows(validation[0], blocks, transforms, " of the validation part", trained_on)
        train = self._expert_rows(votes, blocks, transforms)
        return TrainingRows(train, held, blocks, trained_on, bool((train.list_block == blocks.shared).any()))

    def _partial_summary(self, votes: Votes, blocks: WeightBlocks, instances: Ints) -> PartialSummary:
        """Summarise the lists of some instances, for the dataset-shift check."""
        return PartialSummary.of(
            votes, blocks.block_of_expert(votes, type(self).__name__, self.unknown_experts), len(blocks), instances
        )

    def _expert_rows(
        self,
        votes: Votes,
        blocks: WeightBlocks,
        transforms: Sequence[str],
        where: str = "",
        trained_on: TrainingSummary | None = None,
    ) -> ExpertRows:
        """Build the expert rows of every slot; `where` names the votes in messages."""
        of_expert = blocks.block_of_expert(votes, type(self).__name__, self.unknown_experts, where)
        rows = potentials(
            votes, blocks, of_expert, transforms, missing=self.missing, scaling=self.scaling, trained_on=trained_on
        )
        return sort_shared_rows(rows, blocks)

    def _set_fitted(self, w: Floats, transforms: Sequence[str], found: TrainingRows, said: ExpertTotals) -> None:
        """Store the learned weights and describe them in words, by the totals of all lists."""
        w, blocks = found.weights(w.copy()), found.blocks
        self.training_ = found.trained_on.record()
        self.experts_ = list(blocks.names)
        self.shared_ = blocks.shared
        self.transforms_ = list(transforms)
        self.pruned_ = sorted(blocks.ignored)
        self.weights_ = w
        trust, listed = said.influence(w)
        self.adherence_ = trust
        details: dict[str, Any] = {"alpha": w[:, 0].copy()}
        for t, transform in enumerate(transforms):
            tail = f"_{transform}" if len(transforms) > 1 else ""
            details[f"beta_plus{tail}"] = w[:, 1 + 2 * t].copy()
            details[f"beta_minus{tail}"] = w[:, 2 + 2 * t].copy()
        details["listed"] = listed
        details["meaning"] = meanings(trust, listed)
        self.expert_details_ = details

    def _check_state(self) -> None:
        wide = 1 + 2 * len(getattr(self, "transforms_", ()))
        w = getattr(self, "weights_", None)
        if w is None:
            return
        n = len(getattr(self, "experts_", ()))
        right = (
            isinstance(w, np.ndarray)
            and w.dtype == np.float64
            and w.shape == (n, wide)
            and isinstance(getattr(self, "shared_", None), int)
            and self.shared_ == (n - 1 if self.experts_[-1:] == [SHARED] else -1)
            and set(self.transforms_) <= set(TRANSFORMS)
            and isinstance(getattr(self, "pruned_", None), list)
        )
        if not right:
            raise DataError("its weights, its transforms and its experts do not go together.")
        check_record(self)


def sort_shared_rows(rows: ExpertRows, blocks: WeightBlocks) -> ExpertRows:
    """Return the rows of every slot in an order that does not depend on the order of the experts.

    Experts with weights of their own are sorted already; those who share theirs are by what they say.
    """
    if blocks.shared < 0 or len(rows.block) < 2:
        return rows
    slot = list_ids(rows.starts)
    order = np.lexsort((*rows.X.T[::-1], rows.block, slot))
    return rows._replace(block=rows.block[order], X=rows.X[order], value=rows.value[order], source=rows.source[order])


def canonical_rows(rows: ExpertRows, label: Floats) -> tuple[ExpertRows, Ints]:
    """Return the rows with the slots of every instance by label and by what is said about them, and these slots.

    What is added up in this order is the same to the last bit in whatever order the items came.
    """
    slots = rows.canonical(label)
    kept = ranges(rows.starts[slots], rows.starts[slots + 1])
    starts = offsets_of(rows.starts[slots + 1] - rows.starts[slots])
    columns = {name: getattr(rows, name)[kept] for name in ("block", "X", "value", "source")}
    return rows._replace(starts=starts, key=rows.key[slots], **columns), slots


def sorted_by_id(instances: Ints, ids: Texts) -> Ints:
    """Return the instances in the order of their ids."""
    return np.array(sorted(instances.tolist(), key=ids.__getitem__), dtype=np.int64)


class ExpertTotals(NamedTuple):
    """Spread of the lists and sums of the rows, by block of weights; totals of more instances are added.

    Attributes
    ----------
    reach, lists : float64[blocks, d], int64[blocks]
        How far the lists of a block put their first item above their last, and how many lists there are.
    rows, n_rows : float64[blocks, d], int64[blocks]
        The sum of its rows, and how many there are.
    """

    reach: Floats
    lists: Ints
    rows: Floats
    n_rows: Ints

    @classmethod
    def of(cls, rows: ExpertRows, n: int) -> ExpertTotals:
        """Add up the rows in each of n blocks of weights."""
        d = rows.X.shape[1]
        lists = len(rows.list_block)
        if not lists:
            return cls(np.zeros((n, d)), np.zeros(n, np.int64), np.zeros((n, d)), np.zeros(n, np.int64))
        order = np.argsort(rows.source, kind="stable")
        starts = np.searchsorted(rows.source[order], np.arange(lists))
        X = rows.X[order]
        reach = np.maximum.reduceat(X, starts, axis=0) - np.minimum.reduceat(X, starts, axis=0)
        return cls(
            _totals(reach, rows.list_block, n),
            np.bincount(rows.list_block, minlength=n),
            _totals(rows.X, rows.block, n),
            np.bincount(rows.block, minlength=n),
        )

    def influence(self, w: Floats) -> tuple[Floats, Floats]:
        """Return for every block how far its lists put their first item above their last, and what being listed adds.

        Both in units of the score, means over the lists and rows of the block; blocks without any take those of all.
        """
        if not self.lists.any():
            return np.zeros(len(w)), np.zeros(len(w))
        spread, mean = _means(self.reach, self.lists), _means(self.rows, self.n_rows)
        return (spread[:, 1:] * w[:, 1:]).sum(axis=1), (mean * w).sum(axis=1)


def _totals(values: Floats, block: Any, n: int) -> Floats:
    return np.stack([np.bincount(block, weights=column, minlength=n) for column in values.T], axis=1)


def _means(total: Floats, count: Ints) -> Floats:
    """Return the mean row of every block; of all rows where a block has none."""
    out: Floats = total / np.maximum(count, 1)[:, None]
    out[count == 0] = total.sum(axis=0) / max(int(count.sum()), 1)
    return out


def meanings(trust: Floats, listed: Floats) -> list[str]:
    """Describe the weights of every expert in words.

    A negative weight alone does not say that an expert is inverted: of many who say the same, one corrects another.

    >>> [text.partition(":")[0] for text in meanings(np.array([2.0, -1.0, 0.01]), np.array([0.5, 0.01, -0.4]))]
    ['trusted', 'discounted', 'ignored; not being listed by it speaks for an item']
    """
    order_floor, listing_floor = (_HARDLY * max_norm(column) for column in (trust, listed))
    out = []
    for t, m in zip(trust.tolist(), listed.tolist(), strict=True):
        if abs(t) <= order_floor:
            text = "ignored"
        elif t > 0:
            text = "trusted: what it puts first goes up"
        else:
            text = DISCOUNTED
        if abs(m) > listing_floor:
            text += f"; not being listed by it speaks {'against' if m > 0 else 'for'} an item"
        out.append(text)
    return out


def initial_weights(names: Sequence[str], d: int, random_state: int, scale: float) -> Floats:
    """Return small random weights, each expert's drawn from its id."""
    out = np.empty((len(names), d))
    for b, name in enumerate(names):
        out[b] = np.random.default_rng([random_state, id_hash(name)]).normal(scale=scale, size=d)
    return out
