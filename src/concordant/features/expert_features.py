"""Features of items from expert lists: the CRF potentials as sparse rows, for training and for prediction.

An item has one row for each list that holds it. A row belongs to a block of weights: the expert's own, or one that
several experts share. The row holds two sums over the other items of the list: how strongly the expert prefers the item
to them (row), and them to the item (col). Both cost O(m log m) for a list of m items; no table of pairs is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from concordant.arrays import Codes, Floats, Ints, read_only
from concordant.base.contract import Votes
from concordant.base.params import check_params, one_of
from concordant.data.comparisons import Comparisons
from concordant.data.features import Features
from concordant.data.index import Texts, as_ids, freeze
from concordant.data.preferences import Preferences
from concordant.data.streams import id_hash
from concordant.errors import DataError, Setting, listing
from concordant.execution import map_instances, without_progress
from concordant.inference.experts import check_known, lists_per_expert
from concordant.kernels.lists import (
    exact_sums,
    list_ids,
    list_sums,
    offsets_of,
    pair_sums,
    rounded_to_grid,
    transform_ranks,
)
from concordant.kernels.splitmix64 import Keys, mixed
from concordant.learning.shift import COVERAGE_FACTOR, LENGTH_FACTOR, TrainingSummary, list_depths

__all__ = [
    "SHARED",
    "WeightBlocks",
    "ExpertRows",
    "DepthCorrection",
    "has_votes",
    "weight_blocks_by_lists",
    "weight_blocks",
    "dense_potentials",
    "expert_features",
    "position_tables",
    "potential_scores",
    "potentials",
    "row_keys",
]

SHARED = "*"
TRANSFORMS = ("binary", "rankdiff", "log", "count")

# Rows that a thread processes at a time, so that its temporary arrays fit the cache.
_CHUNK_ROWS = 1 << 15


class WeightBlocks(NamedTuple):
    """The blocks of weights: one for each expert with weights of its own, and perhaps one that the others share.

    Attributes
    ----------
    names : list of str
        The experts with weights of their own, sorted; then "*" if there is a shared block.
    shared : int
        The number of the shared block, -1 without one.
    ignored : frozenset of str
        Experts whose votes are ignored without an error.
    """

    names: list[str]
    shared: int
    ignored: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n_own(self) -> int:
        """The number of experts with weights of their own."""
        return len(self.names) - (self.shared >= 0)

    def block_of_expert(self, votes: Votes, owner: str, unknown_experts: str = "error", where: str = "") -> Ints:
        """Return the block of every expert of the votes, -1 for ignored ones.

        An expert without weights uses the shared block. Without a shared block, an unknown expert who votes is an
        error, unless `unknown_experts` is "ignore". Comparisons without experts have one entry. `where` describes the
        votes in messages, such as " of the validation part".
        """
        mixed = Setting("weights", "mixed")
        if isinstance(votes, Comparisons) and votes.expert is None:
            # Comparisons without experts count as those of one unknown expert.
            if self.shared < 0 and unknown_experts == "error" and has_votes(votes):
                raise DataError(
                    f"the comparisons{where} name no experts, and {owner} has weights for {listing(self.names, 20)} "
                    f'only. Name the experts, or fit with {mixed} or "consensus".'
                ).advising(mixed)
            return np.array([self.shared], dtype=np.int64)
        own = {name: b for b, name in enumerate(self.names[: self.n_own])}
        out = np.array([own.get(e, self.shared) for e in votes.experts], dtype=np.int64)
        if self.ignored:
            out[[e in self.ignored for e in votes.experts]] = -1
        if self.shared < 0:
            more = f', or fit with {mixed} or "consensus", which serve experts never seen'
            check_known(
                votes, own, owner, unknown_experts, passed_over=self.ignored, where=where, more=more, settings=[mixed]
            )
        return out


def has_votes(votes: Votes) -> bool:
    """Return whether there is a list of positive weight, or a comparison with a positive count."""
    if isinstance(votes, Preferences):
        return bool((votes.weights > 0).any())
    return bool((votes.outcomes > 0).any())


def weight_blocks(votes: Votes, weights: str = "individual", min_lists: int = 1, min_rows: int = 0) -> WeightBlocks:
    """Return the blocks of weights that a fit learns.

    Parameters
    ----------
    votes : Preferences or Comparisons
        The training data.
    weights : {"individual", "consensus", "mixed"}
        A block for every expert; one shared block; or a block for every expert with enough lists, and a shared block
        for the others.
    min_lists, min_rows : int
        With "mixed", the smallest number of lists and of rows of an expert with a block of its own.
    """
    if weights == "consensus" or (isinstance(votes, Comparisons) and votes.expert is None):
        return WeightBlocks([SHARED], 0)
    lists = lists_per_expert(votes)
    if weights == "mixed" and min_rows:
        lists = np.where(np.bincount(votes.row_expert, minlength=len(lists)) >= min_rows, lists, 0)
    return weight_blocks_by_lists(votes.experts.tolist(), lists, weights, min_lists)


def weight_blocks_by_lists(experts: Sequence[str], lists: Ints, weights: str, min_lists: int = 1) -> WeightBlocks:
    """Return the blocks that `weight_blocks` would, given the number of lists of every expert."""
    if weights == "consensus":
        return WeightBlocks([SHARED], 0)
    fewest = min_lists if weights == "mixed" else 1
    own = sorted(e for e, n in zip(experts, lists.tolist(), strict=True) if n >= fewest)
    return WeightBlocks([*own, SHARED], len(own)) if weights == "mixed" else WeightBlocks(own, -1)


class ExpertRows(NamedTuple):
    """Sparse feature rows of items, sorted by slot.

    The score of a slot is the sum of X[r] . w[block[r]] over its rows r, with w of shape (blocks, d), plus a term that
    is the same for all slots of an instance (`base`). That term scores an item that nobody lists; rows hold the
    difference from it.

    Attributes
    ----------
    offsets : int64[N + 1]
        Offsets of the slots of every instance.
    starts : int64[S + 1]
        Offsets of the rows of every slot; rows of a slot are sorted by block.
    block : int32[R]
        The block of weights of every row.
    X : float64[R, d]
        Features of the item in a list, minus those of an item that the list leaves out.
    key : uint64[S]
        A hash of the rows of a slot, independent of any order.
    value, source : float64[R], int64[R]
        The transformed rank of every row, and its list. The difference of two values in a list is the strength of the
        preference.
    list_starts, list_block, absent
        Offsets of the lists of every instance, their blocks, and their features of items that they leave out.
    n_own : int
        The number of blocks that belong to one expert. Their feature "not listed" is 1 for all slots without a row,
        also in instances where the expert has no list.
    """

    offsets: Ints
    starts: Ints
    block: Codes
    X: Floats
    key: Keys
    value: Floats
    source: Ints
    list_starts: Ints
    list_block: Ints
    absent: Floats
    n_own: int

    @property
    def n_instances(self) -> int:
        """The number of instances."""
        return len(self.offsets) - 1

    @property
    def n_slots(self) -> int:
        """The number of slots."""
        return len(self.starts) - 1

    def canonical(self, label: Floats) -> Ints:
        """Return the slots sorted by instance, then label, then key.

        Slots with the same label and key are interchangeable, so that the result of a fit does not depend on the order
        of the input.
        """
        return np.lexsort((self.key, label, list_ids(self.offsets)))

    def base(self, w: Floats) -> Floats:
        """Return the term of every instance that is added to the scores of all its slots."""
        of_list = (self.absent * w[self.list_block]).sum(axis=1)
        total = np.bincount(list_ids(self.list_starts), weights=of_list, minlength=self.n_instances)
        return total.astype(np.float64) + float(w[: self.n_own, 0].sum())

    def scores(self, w: Floats, instances: Ints | None = None) -> Floats:
        """Return the score of every slot (of the given instances) without `base`, by a compiled loop."""
        from concordant.kernels.expert_rows import linear_scores

        which = np.arange(self.n_instances) if instances is None else instances
        out = np.zeros(self.n_slots)
        linear_scores(read_only(self.offsets)[0], self.starts, self.block, self.X, w, which, out)
        return out


def potentials(
    votes: Votes,
    blocks: WeightBlocks,
    block_of_expert: Ints,
    transform: str | Sequence[str] = "log",
    *,
    missing: str = "unknown",
    scaling: str = "mean",
    trained_on: TrainingSummary | None = None,
) -> ExpertRows:
    """Return the potentials of the CRF: d = 3, for the weights alpha (not listed), beta+ (preferred), beta- (beaten).

    Parameters
    ----------
    votes : Preferences or Comparisons
        For comparisons the potentials are the numbers of wins and losses; `transform` has no effect.
    blocks : WeightBlocks
        The blocks of weights.
    block_of_expert : int64[K]
        The block of every expert of the votes, -1 to ignore its lists.
    transform : {"binary", "rankdiff", "log", "count"} or several
        The strength of a preference as a function of the two ranks. Several transforms give d = 1 + 2 per transform.
    missing : {"unknown", "below"}
        Whether a list expresses no preference about items that it leaves out, or prefers all its items to them, with
        strength 1.
    scaling : {"mean", "paper"}
        "mean" divides the sums by the number of items of the instance.
    trained_on : TrainingSummary, optional
        Summary of the lists from which the weights were learned, for `DepthCorrection`.
    """
    transforms = (transform,) if isinstance(transform, str) else tuple(transform)
    if isinstance(votes, Comparisons) or votes.n_rows <= _CHUNK_ROWS:
        return _potentials(votes, blocks, block_of_expert, transforms, missing, scaling, trained_on)
    edges = _chunk_edges(votes)

    def chunk(k: int) -> ExpertRows:
        part = votes.window(edges[k], edges[k + 1])
        return _potentials(part, blocks, block_of_expert, transforms, missing, scaling, trained_on)

    with without_progress():
        return _concatenated(map_instances(chunk, len(edges) - 1))


def _chunk_edges(votes: Preferences) -> list[int]:
    """Return the first instance of every chunk of about `_CHUNK_ROWS` rows, and the number of instances."""
    n, rows, out = len(votes), votes.list_offsets[votes.list_starts], [0]
    while out[-1] < n:
        full = int(np.searchsorted(rows, rows[out[-1]] + _CHUNK_ROWS, side="right")) - 1
        out.append(min(max(full, out[-1] + 1), n))
    return out


def _concatenated(parts: Sequence[ExpertRows]) -> ExpertRows:
    """Return the rows of consecutive chunks as one."""
    first = parts[0]
    rows = offsets_of(np.array([len(part.block) for part in parts]))
    lists = offsets_of(np.array([len(part.list_block) for part in parts]))
    block, X = np.empty(rows[-1], first.block.dtype), np.empty((rows[-1], first.X.shape[1]))
    value, source = np.empty(rows[-1]), np.empty(rows[-1], dtype=np.int64)

    def write(k: int) -> None:
        at, part = slice(rows[k], rows[k + 1]), parts[k]
        block[at], X[at], value[at] = part.block, part.X, part.value
        np.add(part.source, lists[k], out=source[at])

    map_instances(write, len(parts))

    def offsets(name: str) -> Ints:
        return offsets_of(np.concatenate([np.diff(getattr(part, name)) for part in parts]))

    return ExpertRows(
        offsets=offsets("offsets"),
        starts=offsets("starts"),
        block=block,
        X=X,
        key=np.concatenate([part.key for part in parts]),
        value=value,
        source=source,
        list_starts=offsets("list_starts"),
        list_block=np.concatenate([part.list_block for part in parts]),
        absent=np.concatenate([part.absent for part in parts]),
        n_own=first.n_own,
    )


class DepthCorrection(NamedTuple):
    """Correction of the potentials for lists that are longer than those in training.

    Weights learned from the first 20 places hold no information about place 500. In training, an item that was not
    listed was below the depth D (`TrainingSummary.depth`). So in lists deeper than 1.5 D, the row of an item at rank
    r > D is multiplied by √(D / r): the deeper the item, the more it resembles one that is not listed.

    Row and col grow with the coverage of a list, the fraction of the items that it holds. If a list is more than 1.5
    times as long as the longest training list, its sums are scaled to that length. If an instance is more than 1.5
    times as large as the largest training instance, they are scaled as for that size. A coverage that is still more
    than 4 times the largest one in training is replaced by the mean training coverage; this happens after training on
    lists that were cut while their instances kept all items. Other lists are not changed.

    Attributes
    ----------
    scale : float64[lists] or None
        Factor of row and col; None if all are 1.
    depth_discount : float64[rows] or None
        Factor of each row: 1 for full effect, 0 for an item as good as not listed; None if all are 1.
    """

    scale: Floats | None
    depth_discount: Floats | None

    @classmethod
    def of(
        cls, votes: Preferences, block: Ints, trained_on: TrainingSummary | None, scaling: str = "mean"
    ) -> DepthCorrection:
        """Return the correction, given the block of every list (-1 for ignored ones).

        With scaling="paper" the sums are not divided by the number of items, so that only the length of a list matters.
        """
        if trained_on is None or trained_on.covers(votes):
            return cls(None, None)
        length, longest = votes.list_lengths, trained_on.length[block]
        corrected = np.where(length > LENGTH_FACTOR * longest, longest, length)
        if scaling == "mean":
            size, most = votes.slots.sizes[votes.list_instance], trained_on.items[1]
            coverage = corrected / np.maximum(np.where(size > LENGTH_FACTOR * most, most, size), 1)
            coverage = np.where(coverage > COVERAGE_FACTOR * trained_on.widest, trained_on.coverage[block], coverage)
            corrected = coverage * size
        changed = np.abs(corrected - length) > 1e-9 * length
        scale = np.divide(corrected, length, out=np.ones(len(length)), where=changed) if changed.any() else None
        return cls(scale, depth_discount(votes, block, trained_on))


def depth_discount(votes: Preferences, block: Ints, trained_on: TrainingSummary) -> Floats | None:
    """Return the depth discount of every row, as in `DepthCorrection`; None if no list is deeper than in training."""
    limit = trained_on.depth[block]
    deep = list_depths(votes) > LENGTH_FACTOR * limit
    if not deep.any():
        return None
    limit = np.repeat(np.where(deep, limit, np.inf), votes.list_lengths)
    return np.sqrt(np.minimum(limit / votes.ranks("average"), 1.0))


def _potentials(
    votes: Votes,
    blocks: WeightBlocks,
    block_of_expert: Ints,
    transforms: Sequence[str],
    missing: str,
    scaling: str,
    trained_on: TrainingSummary | None,
) -> ExpertRows:
    """Return the rows of lists sorted by slot, with the keys and values that training needs."""
    lists = _list_rows(votes, blocks, block_of_expert, transforms, missing, scaling, trained_on)
    of_list = np.repeat(np.arange(len(lists.block)), lists.lengths)
    block = lists.block[of_list]
    order = np.lexsort((block, lists.slot))
    X, slot = lists.matrix()[order], lists.slot[order]
    code = block[order].astype(np.int32)
    starts = offsets_of(np.bincount(slot, minlength=votes.slots.n_slots))
    # The wins and losses of comparisons have no ranks behind them.
    value = np.zeros(len(slot))
    if isinstance(votes, Preferences):
        value = votes.transformed(transforms[0])[lists.row][order]
    return ExpertRows(
        offsets=votes.slots.offsets,
        starts=starts,
        block=code,
        X=X,
        key=list_sums(row_keys(X, code, blocks.names), starts),
        value=value,
        source=of_list[order],
        list_starts=lists.starts,
        list_block=lists.block,
        absent=np.zeros((len(lists.block), X.shape[1])) if lists.absent is None else lists.absent,
        n_own=blocks.n_own,
    )


def dense_potentials(rows: ExpertRows, blocks: WeightBlocks) -> tuple[Floats, list[str]]:
    """Return the potentials as a dense matrix with a row for each slot, and the names of its columns.

    Every block has the columns "missing" (1 if the expert does not list the item), "preferred" and "beaten".
    """
    d = rows.X.shape[1]
    out = np.zeros((rows.n_slots, len(blocks), d))
    out[:, : rows.n_own, 0] = 1.0
    instance = list_ids(rows.list_starts)
    for n, block, absent in zip(instance.tolist(), rows.list_block.tolist(), rows.absent, strict=True):
        if absent.any():
            out[rows.offsets[n] : rows.offsets[n + 1], block] += absent
    np.add.at(out, (list_ids(rows.starts), rows.block), rows.X)
    kinds = ("missing", *(("preferred", "beaten") * ((d - 1) // 2)))
    return out.reshape(rows.n_slots, -1), [f"{name}.{kind}" for name in blocks.names for kind in kinds]


def expert_features(
    preferences: Votes,
    kind: str = "potentials",
    *,
    transform: str = "log",
    missing: str = "unknown",
    experts: Sequence[str] | None = None,
) -> Features:
    """Convert the preferences of experts to features of items, a few columns for each expert.

    Parameters
    ----------
    preferences : Preferences or Comparisons
        The preferences of the experts.
    kind : {"potentials", "svd"}
        The potentials of the CRF ("missing", "preferred", "beaten"), or the leading singular vectors of SVDRank ("u1",
        "sigma1", "v1", "missing").
    transform : {"log", "rankdiff", "binary", "count"}
        The strength of an expert's preference, as a function of the two ranks.
    missing : {"unknown", "below"}
        Whether a list expresses no preference about the items it leaves out, or ranks them below all that it holds.
    experts : sequence of str, optional
        The experts that get columns, in this order. To get the columns of the training data in other data, pass the
        training experts. Other experts are ignored, and a named expert without votes lists no items. By default all
        experts with votes, sorted by name.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": ["a", "b"], "dense": ["b", "c"]})
    >>> features = cc.expert_features(runs, transform="binary")
    >>> features.names.tolist()[:3]
    ['bm25.missing', 'bm25.preferred', 'bm25.beaten']
    >>> features.X[:, 0].tolist()
    [0.0, 0.0, 1.0]
    """
    owner = "expert_features"
    allowed = {
        "kind": one_of("potentials", "svd"),
        "transform": one_of(*TRANSFORMS),
        "missing": one_of("unknown", "below"),
    }
    check_params(owner, {"kind": kind, "transform": transform, "missing": missing}, allowed)
    blocks = weight_blocks(preferences) if experts is None else WeightBlocks(as_ids(experts, "expert"), -1)
    block_of_expert = blocks.block_of_expert(preferences, owner, "error" if experts is None else "ignore")
    if kind == "svd":
        from concordant.features.svd_features import dense_triples, singular_triples

        triples = singular_triples(preferences, blocks, block_of_expert, transform, 1, missing, "mean")
        return dense_triples(triples, preferences.slots, blocks)
    X, names = dense_potentials(potentials(preferences, blocks, block_of_expert, transform, missing=missing), blocks)
    return Features.from_codes(preferences.slots, X, Texts(names))


class _ListRows(NamedTuple):
    """The potentials of every list, for experts with a block: `matrix` for training, `terms` for prediction.

    The columns of X are -1, and for every transform (row sum + shift) / divisor and -(column sum + shift) / divisor,
    times the weight of the list and the discount of the row.

    Attributes
    ----------
    instance, block : int64[L]
        The instance and the block of weights of every list.
    starts, offsets : int64[N + 1], int64[L + 1]
        Offsets of the lists of every instance, and of the rows of every list.
    lengths, slot : int64[L], int[R]
        The number of rows of every list, and the slot of every row.
    row : int64[R] or slice
        The rows of the preferences that are used.
    sums : list of (float64[R], float64[R])
        The row and column sums of every transform.
    shift : (float64[L], float64[L]) or None
        Added to the row and column sums, for the items that the list leaves out; None for 0.
    divisor, weight : int64[L] or None, float64[L] or None
        The number of items that divides the sums, and the weight of the list; None for 1.
    discount : float64[R] or None
        As in `DepthCorrection`.
    absent : float64[L, d] or None
        As in `ExpertRows`; None for zeros.
    """

    instance: Ints | Codes
    block: Ints
    starts: Ints
    offsets: Ints
    lengths: Ints
    slot: Ints | Codes
    row: Ints | slice
    sums: Sequence[tuple[Floats, Floats]]
    shift: tuple[Floats, Floats] | None
    divisor: Ints | None
    weight: Floats | None
    discount: Floats | None
    absent: Floats | None

    def matrix(self) -> Floats:
        """Return X: d numbers for every row of the lists."""
        X = np.empty((len(self.slot), 1 + 2 * len(self.sums)))
        X[:, 0] = -1.0 if self.weight is None else np.repeat(-self.weight, self.lengths)
        divisor = 1.0 if self.divisor is None else np.repeat(self.divisor, self.lengths)
        for t, (won, lost) in enumerate(self.sums):
            if self.shift is not None:
                row_shift, col_shift = (np.repeat(shift, self.lengths) for shift in self.shift)
                won, lost = won + row_shift, lost + col_shift
            if self.weight is not None:
                # -X[:, 0] is the weight of the list of each row.
                won, lost = -X[:, 0] * won, -X[:, 0] * lost
            np.divide(won, divisor, out=X[:, 1 + 2 * t])
            np.divide(lost, -divisor, out=X[:, 2 + 2 * t])
        if self.discount is not None:
            X *= self.discount[:, None]
        return X

    def terms(self, w: Floats) -> Floats:
        """Return X[r] . w[block[r]] for every row, from one factor of each sum and one constant for each list."""
        factor = w[self.block]
        if self.weight is not None:
            factor *= self.weight[:, None]
        constant = -factor[:, 0]
        if self.divisor is not None:
            factor /= self.divisor[:, None]
        out = np.zeros(len(self.slot))
        for t, (won, lost) in enumerate(self.sums):
            beta_plus, beta_minus = factor[:, 1 + 2 * t], factor[:, 2 + 2 * t]
            if self.shift is not None:
                constant += beta_plus * self.shift[0] - beta_minus * self.shift[1]
            out += np.repeat(beta_plus, self.lengths) * won
            out -= np.repeat(beta_minus, self.lengths) * lost
        out += np.repeat(constant, self.lengths)
        if self.discount is not None:
            out *= self.discount
        return out


def _list_rows(
    votes: Votes,
    blocks: WeightBlocks,
    block_of_expert: Ints,
    transforms: Sequence[str],
    missing: str,
    scaling: str,
    trained_on: TrainingSummary | None,
) -> _ListRows:
    """Return the feature rows of every list, for training and for prediction; parameters as in `potentials`."""
    row: Ints | slice = slice(None)
    discount = None
    weight: Floats | None = None
    instance: Ints | Codes
    slot: Ints | Codes
    if isinstance(votes, Comparisons):
        instance, block, offsets, slot, wins = _wins_and_losses(votes, block_of_expert)
        starts = offsets_of(np.bincount(instance, minlength=len(votes)))
        sums = [wins] * len(transforms)
        lengths = np.diff(offsets)
        corrected = lengths.astype(np.float64)
    else:
        block, lengths = block_of_expert[votes.list_expert], votes.list_lengths
        weight = votes.list_weight
        if weight is not None:
            # A list of weight 0 is ignored.
            block = np.where(weight > 0, block, -1)
        scale, discount = DepthCorrection.of(votes, block, trained_on, scaling)
        sums = [_scaled_sums(votes, t, scale) for t in transforms]
        instance, starts, offsets, slot = votes.list_instance, votes.list_starts, votes.list_offsets, votes.slot
        corrected = lengths.astype(np.float64)
        if scale is not None:
            corrected *= scale
        if block.min(initial=0) < 0:
            kept = np.flatnonzero(block >= 0)
            row = np.flatnonzero(np.repeat(block >= 0, lengths))
            instance, block, corrected = instance[kept], block[kept], corrected[kept]
            weight = None if weight is None else weight[kept]
            starts = offsets_of(np.bincount(instance, minlength=len(votes)))
            lengths, slot = lengths[kept], slot[row]
            offsets = offsets_of(lengths)
            sums = [(won[row], lost[row]) for won, lost in sums]
            discount = None if discount is None else discount[row]
    return _completed(
        instance, block, starts, offsets, lengths, slot, row, sums, weight, discount, corrected,
        votes.slots.sizes[instance], blocks, missing, scaling,
    )  # fmt: skip


def _completed(
    instance: Ints | Codes,
    block: Ints,
    starts: Ints,
    offsets: Ints,
    lengths: Ints,
    slot: Ints | Codes,
    row: Ints | slice,
    sums: Sequence[tuple[Floats, Floats]],
    weight: Floats | None,
    discount: Floats | None,
    corrected: Floats,
    size: Ints,
    blocks: WeightBlocks,
    missing: str,
    scaling: str,
) -> _ListRows:
    """Return the feature rows, given the corrected length of every list and the size of its instance."""
    divisor = size if scaling == "mean" else None
    shift = (size - corrected, -corrected) if missing == "below" else None
    absent = None
    if weight is not None or missing == "below" or blocks.shared >= 0:
        absent = np.zeros((len(block), 1 + 2 * len(sums)))
        absent[:, 0] = (1.0 if weight is None else weight) - (block < blocks.n_own)
        if missing == "below":
            beaten = -corrected if weight is None else -weight * corrected
            absent[:, 2::2] = (beaten if divisor is None else beaten / divisor)[:, None]
    return _ListRows(
        instance, block, starts, offsets, lengths, slot, row, sums, shift, divisor, weight, discount, absent
    )


def _scaled_sums(votes: Preferences, transform: str, scale: Floats | None) -> tuple[Floats, Floats]:
    row, col = votes.pair_sums(transform)
    if scale is None:
        return row, col
    # With "count" each term is a difference of ranks, which also grows with the length of the list.
    of_row = np.repeat(scale**2 if transform == "count" else scale, votes.list_lengths)
    return row * of_row, col * of_row


def _wins_and_losses(votes: Comparisons, block_of_expert: Ints) -> tuple[Ints, Ints, Ints, Ints, tuple[Floats, Floats]]:
    """Return the items that each expert compared as a list: instance, block, offsets, slot, (wins, losses).

    Comparisons without outcomes and of experts without a block are ignored.
    """
    n_slots = max(votes.slots.n_slots, 1)
    expert = np.zeros(len(votes.left), dtype=np.int64) if votes.expert is None else votes.expert.astype(np.int64)
    block = block_of_expert
    counted = votes.outcomes > 0
    used = np.flatnonzero((block[expert] >= 0) & counted)
    key = np.concatenate([expert[used] * n_slots + votes.left[used], expert[used] * n_slots + votes.right[used]])
    pairs, place = np.unique(key, return_inverse=True)
    won = np.concatenate([votes.n_left[used], votes.n_right[used]])
    lost = np.concatenate([votes.n_right[used], votes.n_left[used]])
    row, col = (np.bincount(place, weights=n, minlength=len(pairs)).astype(np.float64) for n in (won, lost))
    judge, slot = pairs // n_slots, pairs % n_slots
    instance = votes.slots.instance[slot].astype(np.int64)
    order = np.lexsort((slot, judge, instance))
    judge, slot, instance, row, col = judge[order], slot[order], instance[order], row[order], col[order]
    starts_list = np.ones(len(judge), dtype=np.bool_)
    starts_list[1:] = (judge[1:] != judge[:-1]) | (instance[1:] != instance[:-1])
    first = np.flatnonzero(starts_list)
    offsets = np.append(first, len(judge)).astype(np.int64)
    return instance[first], block[judge[first]], offsets, slot, (row, col)


def row_keys(X: Floats, block: Codes, names: Sequence[str]) -> Keys:
    """Return a hash of every row and the name of its block."""
    if not len(block):
        return np.zeros(0, dtype=np.uint64)
    h = np.array([id_hash(n) for n in names], dtype=np.uint64)[block]
    for c in range(X.shape[1]):
        h = mixed(h ^ mixed(np.ascontiguousarray(X[:, c]).view(np.uint64)))
    return h


def _constants(lists: _ListRows, w: Floats, blocks: WeightBlocks) -> Floats:
    """Return what is added to the score of every item of an instance."""
    n = len(lists.starts) - 1
    constant = float(w[: blocks.n_own, 0].sum())
    if lists.absent is None:
        return np.full(n, constant)
    absent = np.einsum("ld,ld->l", lists.absent, w[lists.block])
    return exact_sums(absent, lists.instance, n, lists.starts, np.diff(lists.starts)) + constant


def position_tables(
    blocks: WeightBlocks,
    block: Sequence[int],
    lengths: Sequence[int],
    weights: Sequence[float] | None,
    n_items: int,
    w: Floats,
    transforms: Sequence[str],
    *,
    missing: str,
    scaling: str,
) -> tuple[list[list[float]], float]:
    """Return what the lists of one instance add to an item at each position, and what is added to every item.

    The sums are those of `potential_scores` for lists without ties that need no correction for their depth.

    Parameters
    ----------
    blocks, w, transforms, missing, scaling
        As in `potential_scores`.
    block, lengths, weights
        The block, the length and the weight of every list.
    n_items : int
        The number of items of the instance.
    """
    each = np.array(lengths, dtype=np.int64)
    offsets, starts = offsets_of(each), np.array([0, len(each)], dtype=np.int64)
    sums = []
    for transform in transforms:
        won, lost = zip(*(_position_sums(transform, n) for n in lengths), strict=True)
        sums.append((np.concatenate(won), np.concatenate(lost)))
    lists = _completed(
        instance=np.zeros(len(each), dtype=np.int64),
        block=np.array(block, dtype=np.int64),
        starts=starts,
        offsets=offsets,
        lengths=each,
        slot=np.zeros(int(offsets[-1]), dtype=np.int32),
        row=slice(None),
        sums=sums,
        weight=None if weights is None else np.array(weights, dtype=np.float64),
        discount=None,
        corrected=each.astype(np.float64),
        size=np.full(len(each), n_items),
        blocks=blocks,
        missing=missing,
        scaling=scaling,
    )
    terms = rounded_to_grid(lists.terms(w), offsets[starts], starts[1:]).tolist()
    edges = pairwise(offsets.tolist())
    return [terms[a:b] for a, b in edges], float(_constants(lists, w, blocks)[0])


@lru_cache(maxsize=128)
def _position_sums(transform: str, n: int) -> tuple[Floats, Floats]:
    """Return the row and column sums of a list whose ranks are 1 to n."""
    offsets = np.array([0, n], dtype=np.int64)
    value, scale = transform_ranks(np.arange(1, n + 1, dtype=np.float64), offsets, transform)
    row, col = pair_sums(value, scale, offsets, binary=transform == "binary")
    return freeze(row), freeze(col)


def potential_scores(
    votes: Votes,
    blocks: WeightBlocks,
    block_of_expert: Ints,
    w: Floats,
    transform: str | Sequence[str] = "log",
    *,
    missing: str = "unknown",
    scaling: str = "mean",
    trained_on: TrainingSummary | None = None,
) -> Floats:
    """Return the score of every slot, the sum of its rows times the weights; the order of the experts changes no bit.

    Parameters as in `potentials`; `w` has a row of d weights for every block.
    """
    transforms = (transform,) if isinstance(transform, str) else tuple(transform)

    def scores(part: Votes) -> Floats:
        lists = _list_rows(part, blocks, block_of_expert, transforms, missing, scaling, trained_on)
        n_lists = np.diff(lists.starts)
        total = exact_sums(lists.terms(w), lists.slot, part.slots.n_slots, lists.offsets[lists.starts], n_lists)
        return total + np.repeat(_constants(lists, w, blocks), part.slots.sizes)

    if isinstance(votes, Comparisons) or votes.n_rows <= _CHUNK_ROWS:
        return scores(votes)
    edges = _chunk_edges(votes)
    with without_progress():
        return np.concatenate(map_instances(lambda k: scores(votes.window(edges[k], edges[k + 1])), len(edges) - 1))
