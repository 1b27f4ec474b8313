"""Features of items from expert lists: the CRF potentials as sparse rows, for training and for prediction.

An item has one row for each list that holds it. A row belongs to a block of weights: the expert's own, or one that
several experts share. For the CRF potentials a row holds how strongly the expert prefers the item to others, and others
to it. Both sums cost O(m log m) for a list of m items; no table of pairs is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.base.contract import Votes
from concordant.data.comparisons import Comparisons
from concordant.data.features import Features
from concordant.data.index import Texts, as_ids
from concordant.data.preferences import Preferences
from concordant.data.streams import id_hash
from concordant.errors import DataError, ParameterError, Setting, listing
from concordant.execution import map_instances, without_progress
from concordant.inference.experts import check_known, speaking
from concordant.kernels.lists import exact_sums, list_ids, list_sums, offsets_of
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
    "potential_scores",
    "potentials",
    "slot_keys",
]

SHARED = "*"
TRANSFORMS = ("binary", "rankdiff", "log", "count")

# Rows of lists that a thread goes through at a time; what is made of them on the way fits its cache.
_STRETCH = 1 << 15


class WeightBlocks(NamedTuple):
    """Which weights an expert uses.

    Attributes
    ----------
    names : list of str
        The experts with weights of their own, sorted; then "*" where there is a block that the others share.
    shared : int
        The number of the shared block, -1 without one.
    ignored : frozenset of str
        Experts that are known and left out.
    """

    names: list[str]
    shared: int
    ignored: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n_own(self) -> int:
        """How many experts have weights of their own."""
        return len(self.names) - (self.shared >= 0)

    def of(self, votes: Votes, owner: str, unknown_experts: str = "error", where: str = "") -> Ints:
        """Return the block of every expert of the votes, -1 for those left out; one entry where nobody is named.

        An expert who speaks and has no weights uses the shared block; without one it is an error, unless
        `unknown_experts` is "ignore". `where` says in messages which votes these are, such as " of the validation
        part".
        """
        mixed = Setting("weights", "mixed")
        if isinstance(votes, Comparisons) and votes.expert is None:
            # Nobody is named: all that is said is one voice, and only shared weights can hear it.
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
    """Return whether anything that weighs is said at all."""
    if isinstance(votes, Preferences):
        return bool((votes.weights > 0).any())
    return bool((votes.n_left + votes.n_right + votes.n_ties > 0).any())


def weight_blocks(votes: Votes, weights: str = "individual", min_lists: int = 1) -> WeightBlocks:
    """Return the blocks a fit learns: one for each expert, one for all, or both.

    Parameters
    ----------
    votes : Preferences or Comparisons
        What is learned from.
    weights : {"individual", "consensus", "mixed"}
        Whether each expert has weights of its own, all share them, or those with few lists do.
    min_lists : int
        With "mixed", from how many lists on an expert has its own.
    """
    if weights == "consensus" or (isinstance(votes, Comparisons) and votes.expert is None):
        return WeightBlocks([SHARED], 0)
    return weight_blocks_by_lists(votes.experts.tolist(), speaking(votes), weights, min_lists)


def weight_blocks_by_lists(experts: Sequence[str], lists: Ints, weights: str, min_lists: int = 1) -> WeightBlocks:
    """Return the same, given how many lists every expert has."""
    if weights == "consensus":
        return WeightBlocks([SHARED], 0)
    least = min_lists if weights == "mixed" else 1
    own = sorted(e for e, n in zip(experts, lists.tolist(), strict=True) if n >= least)
    return WeightBlocks([*own, SHARED], len(own)) if weights == "mixed" else WeightBlocks(own, -1)


class ExpertRows(NamedTuple):
    """What experts say about the slots of instances, slot by slot.

    The score of a slot is the sum of X[r] . w[block[r]] over its rows, with w of shape (blocks, d), plus what `base`
    gives, which is the same for all slots of an instance.

    Attributes
    ----------
    offsets : int64[N + 1]
        Where the slots of every instance begin.
    starts : int64[S + 1]
        Where the rows of every slot begin; rows of a slot are in the order of blocks.
    block : int32[R]
        The block of weights of every row.
    X : float64[R, d]
        What a row says, compared with not being listed.
    key : uint64[S]
        A hash of what is said about a slot that does not depend on the order of anything.
    value, source : float64[R], int64[R]
        What is subtracted to compare two rows of one list, in the unit of the transform, and the list.
    list_starts, list_block, absent
        Where the lists of every instance begin, their blocks, and what they say about items they do not hold.
    n_own : int
        How many blocks belong to one expert: such an expert says of every item that it does not list it.
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
        """How many instances there are."""
        return len(self.offsets) - 1

    @property
    def n_slots(self) -> int:
        """How many slots there are."""
        return len(self.starts) - 1

    def canonical(self, label: Floats) -> Ints:
        """Return the slots instance by instance, sorted by label and then by what is said about them.

        Slots that compare equal are alike for every learner, so that the order of the input does not matter.
        """
        return np.lexsort((self.key, label, list_ids(self.offsets)))

    def base(self, w: Floats) -> Floats:
        """Return what is added to every score of an instance."""
        of_list = (self.absent * w[self.list_block]).sum(axis=1)
        total = np.bincount(list_ids(self.list_starts), weights=of_list, minlength=self.n_instances)
        return total.astype(np.float64) + float(w[: self.n_own, 0].sum())

    def scores(self, w: Floats, instances: Ints | None = None) -> Floats:
        """Return the score of every slot (of the given instances) without the base, by a compiled loop."""
        from concordant.kernels.expert_rows import linear_scores

        which = np.arange(self.n_instances) if instances is None else instances
        out = np.zeros(self.n_slots)
        linear_scores(self.offsets, self.starts, self.block, self.X, w, which, out)
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
        Comparisons give the numbers of wins and losses, whatever the transform.
    blocks : WeightBlocks
        Which weights there are.
    block_of_expert : int64[K]
        The block of every expert of the votes, -1 to leave its lists out.
    transform : {"binary", "rankdiff", "log", "count"} or several
        How strongly an item is preferred to one behind it. Several give d = 1 + 2 per transform.
    missing : {"unknown", "below"}
        Whether a list says nothing about what it leaves out, or prefers all it holds to it, by 1.
    scaling : {"mean", "paper"}
        Whether sums are divided by the number of items of the instance.
    trained_on : TrainingSummary, optional
        How far the lists went that the weights were learned from; `DepthCorrection` says what becomes of longer ones.
    """
    transforms = (transform,) if isinstance(transform, str) else tuple(transform)
    if isinstance(votes, Comparisons) or votes.n_rows <= _STRETCH:
        return _potentials(votes, blocks, block_of_expert, transforms, missing, scaling, trained_on)
    edges = _stretch_edges(votes)

    def stretch(k: int) -> ExpertRows:
        own = votes.window(edges[k], edges[k + 1])
        return _potentials(own, blocks, block_of_expert, transforms, missing, scaling, trained_on)

    # What is said of an instance depends on no other.
    with without_progress():
        return _concatenated(map_instances(stretch, len(edges) - 1))


def _stretch_edges(votes: Preferences) -> list[int]:
    """Return the instances at which stretches begin that threads go through one at a time, and the end."""
    n, rows, out = len(votes), votes.list_offsets[votes.list_starts], [0]
    while out[-1] < n:
        full = int(np.searchsorted(rows, rows[out[-1]] + _STRETCH, side="right")) - 1
        out.append(min(max(full, out[-1] + 1), n))
    return out


def _concatenated(parts: Sequence[ExpertRows]) -> ExpertRows:
    """Return the rows of instances that come one after another."""
    first = parts[0]
    rows = offsets_of(np.array([len(part.block) for part in parts]))
    lists = offsets_of(np.array([len(part.list_block) for part in parts]))
    block, X = np.empty(rows[-1], first.block.dtype), np.empty((rows[-1], first.X.shape[1]))
    value, source = np.empty(rows[-1]), np.empty(rows[-1], dtype=np.int64)

    def write(k: int) -> None:
        own, part = slice(rows[k], rows[k + 1]), parts[k]
        block[own], X[own], value[own] = part.block, part.X, part.value
        np.add(part.source, lists[k], out=source[own])

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
    """How lists are read by weights that were learned from other lists, shorter ones perhaps.

    What an expert says about its first 20 items does not tell what its place 500 is worth. Not being listed meant, in
    training, being below the depth D of `TrainingSummary.depth`: in a list that goes beyond 1.5 D an item at rank r > D
    is heard √(D / r) as loud, so that it fades into an item that is not listed. Row and col grow with the share of the
    items of the instance that a list holds. That share is taken of the longest list and of the largest instance learned
    from where these are more than 1.5 times as long and as large, and is the mean share learned from where it is still
    more than 4 times the largest, as in training on lists that were cut while all their items stayed known. Within
    these limits nothing changes.

    Attributes
    ----------
    scale : float64[lists] or None
        What row and col are multiplied by; None where nothing is.
    depth_discount : float64[rows] or None
        The factor of each row beyond the training depth: 1 counts in full, 0 as not listed; None where all are 1.
    """

    scale: Floats | None
    depth_discount: Floats | None

    @classmethod
    def of(
        cls, votes: Preferences, block: Ints, trained_on: TrainingSummary | None, scaling: str = "mean"
    ) -> DepthCorrection:
        """Return how to read lists, given the block of each (-1 for one left out).

        Sums that are not divided by the number of items grow with the length of the list alone.
        """
        if trained_on is None or trained_on.covers(votes):
            return cls(None, None)
        length, longest = votes.list_lengths, trained_on.length[block]
        counted = np.where(length > LENGTH_FACTOR * longest, longest, length)
        if scaling == "mean":
            size, most = votes.slots.sizes[votes.list_instance], trained_on.items[1]
            share = counted / np.maximum(np.where(size > LENGTH_FACTOR * most, most, size), 1)
            share = np.where(share > COVERAGE_FACTOR * trained_on.widest, trained_on.coverage[block], share)
            counted = share * size
        far = np.abs(counted - length) > 1e-9 * length
        scale = np.divide(counted, length, out=np.ones(len(length)), where=far) if far.any() else None
        return cls(scale, depth_discount(votes, block, trained_on))


def depth_discount(votes: Preferences, block: Ints, trained_on: TrainingSummary) -> Floats | None:
    """Return how weights every row is heard whose list goes deeper than those learned from; None where none does."""
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
    """Return the rows of lists sorted by slot, with what training needs beside them."""
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
        key=slot_keys(X, code, starts, blocks.names),
        value=value,
        source=of_list[order],
        list_starts=lists.starts,
        list_block=lists.block,
        absent=np.zeros((len(lists.block), X.shape[1])) if lists.absent is None else lists.absent,
        n_own=blocks.n_own,
    )


def dense_potentials(rows: ExpertRows, blocks: WeightBlocks) -> tuple[Floats, list[str]]:
    """Return a table of the potentials, a row for each slot, and the names of its columns.

    For every block "missing" (1 where the expert does not list the item), "preferred" and "beaten".
    """
    d = rows.X.shape[1]
    out = np.zeros((rows.n_slots, len(blocks), d))
    out[:, : rows.n_own, 0] = 1.0
    instance = list_ids(rows.list_starts)
    for n, block, said in zip(instance.tolist(), rows.list_block.tolist(), rows.absent, strict=True):
        if said.any():
            out[rows.offsets[n] : rows.offsets[n + 1], block] += said
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
    """Return what every expert says about every item as features, a few columns for each expert.

    Parameters
    ----------
    preferences : Preferences or Comparisons
        What the experts said.
    kind : {"potentials", "svd"}
        The potentials of the CRF ("missing", "preferred", "beaten"), or the leading singular vectors of SVDRank ("u1",
        "sigma1", "v1", "missing").
    transform : {"log", "rankdiff", "binary", "count"}
        How strongly an expert prefers an item to one behind it.
    missing : {"unknown", "below"}
        Whether a list says nothing about the items it leaves out, or that they are worse than all it holds.
    experts : sequence of str, optional
        Whose columns there are, in this order: give those of the training part for other parts, so that columns agree.
        Experts who are not named are left out; those named who say nothing list nothing. By default all who say
        something, sorted.

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
    for name, value, allowed in (
        ("kind", kind, ("potentials", "svd")),
        ("transform", transform, TRANSFORMS),
        ("missing", missing, ("unknown", "below")),
    ):
        if value not in allowed:
            raise ParameterError.invalid(name, owner, f"one of {', '.join(map(repr, allowed))}", value)
    blocks = weight_blocks(preferences) if experts is None else WeightBlocks(as_ids(experts, "expert"), -1)
    of_expert = blocks.of(preferences, owner, "error" if experts is None else "ignore")
    if kind == "svd":
        from concordant.features.svd_features import dense_triples, singular_triples

        found = singular_triples(preferences, blocks, of_expert, transform, 1, missing, "mean")
        return dense_triples(found, preferences.slots, blocks)
    X, names = dense_potentials(potentials(preferences, blocks, of_expert, transform, missing=missing), blocks)
    return Features.from_codes(preferences.slots, X, Texts(names))


class _ListRows(NamedTuple):
    """The potentials of every list of the experts with a block: `matrix` for training, `terms` for prediction.

    The columns of X are -1, and for every transform (row sum + shift) / width and -(column sum + shift) / width, times
    the weight of the list and the discount of the row.

    Attributes
    ----------
    instance, block : int64[L]
        The instance and the block of weights of every list.
    starts, offsets : int64[N + 1], int64[L + 1]
        Where the lists of every instance and the rows of every list begin.
    lengths, slot : int64[L], int[R]
        How many rows every list has, and the slot of every row.
    row : int64[R] or slice
        The rows of the preferences; all of them where no list is left out.
    sums : list of (float64[R], float64[R])
        The row and column sums of every transform.
    shift : (float64[L], float64[L]) or None
        What is added to both sums, for the items that the list leaves out.
    width, weight : int64[L] or None, float64[L] or None
        The number of items that the sums are divided by, and the weight of the list; None stands for 1.
    discount : float64[R] or None
        As in `DepthCorrection`.
    absent : float64[L, d] or None
        As in `ExpertRows`; None where lists say nothing about the items they leave out.
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
    width: Ints | None
    weight: Floats | None
    discount: Floats | None
    absent: Floats | None

    def matrix(self) -> Floats:
        """Return X: d numbers for every row of the lists."""
        X = np.empty((len(self.slot), 1 + 2 * len(self.sums)))
        X[:, 0] = -1.0 if self.weight is None else np.repeat(-self.weight, self.lengths)
        width = 1.0 if self.width is None else np.repeat(self.width, self.lengths)
        for t, (won, lost) in enumerate(self.sums):
            if self.shift is not None:
                up, down = (np.repeat(shift, self.lengths) for shift in self.shift)
                won, lost = won + up, lost + down
            if self.weight is not None:
                # -X[:, 0] is the weight of the list of each row.
                won, lost = -X[:, 0] * won, -X[:, 0] * lost
            np.divide(won, width, out=X[:, 1 + 2 * t])
            np.divide(lost, -width, out=X[:, 2 + 2 * t])
        if self.discount is not None:
            X *= self.discount[:, None]
        return X

    def terms(self, w: Floats) -> Floats:
        """Return X[r] . w[block[r]] for every row, from one factor of each sum and one constant for each list."""
        factor = w[self.block]
        if self.weight is not None:
            factor *= self.weight[:, None]
        constant = -factor[:, 0]
        if self.width is not None:
            factor /= self.width[:, None]
        out = np.zeros(len(self.slot))
        for t, (won, lost) in enumerate(self.sums):
            plus, minus = factor[:, 1 + 2 * t], factor[:, 2 + 2 * t]
            if self.shift is not None:
                constant += plus * self.shift[0] - minus * self.shift[1]
            out += np.repeat(plus, self.lengths) * won
            out -= np.repeat(minus, self.lengths) * lost
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
    """Return the rows of every list: the one place where they are made, for training and for prediction."""
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
        length = lengths.astype(np.float64)
    else:
        block, lengths = block_of_expert[votes.list_expert], votes.list_lengths
        weight = votes.list_weight
        if weight is not None:
            # A list of weight 0 counts as absent.
            block = np.where(weight > 0, block, -1)
        scale, discount = DepthCorrection.of(votes, block, trained_on, scaling)
        sums = [_scaled_sums(votes, t, scale) for t in transforms]
        instance, starts, offsets, slot = votes.list_instance, votes.list_starts, votes.list_offsets, votes.slot
        length = lengths.astype(np.float64)
        if scale is not None:
            length *= scale
        if block.min(initial=0) < 0:
            kept = np.flatnonzero(block >= 0)
            row = np.flatnonzero(np.repeat(block >= 0, lengths))
            instance, block, length = instance[kept], block[kept], length[kept]
            weight = None if weight is None else weight[kept]
            starts = offsets_of(np.bincount(instance, minlength=len(votes)))
            lengths, slot = lengths[kept], slot[row]
            offsets = offsets_of(lengths)
            sums = [(won[row], lost[row]) for won, lost in sums]
            discount = None if discount is None else discount[row]
    size = votes.slots.sizes[instance]
    width = size if scaling == "mean" else None
    shift = (size - length, -length) if missing == "below" else None
    absent = None
    if weight is not None or missing == "below" or blocks.shared >= 0:
        absent = np.zeros((len(block), 1 + 2 * len(transforms)))
        absent[:, 0] = (1.0 if weight is None else weight) - (block < blocks.n_own)
        if missing == "below":
            beaten = -length if weight is None else -weight * length
            absent[:, 2::2] = (beaten if width is None else beaten / width)[:, None]
    return _ListRows(instance, block, starts, offsets, lengths, slot, row, sums, shift, width, weight, discount, absent)


def _scaled_sums(votes: Preferences, transform: str, scale: Floats | None) -> tuple[Floats, Floats]:
    row, col = votes.pair_sums(transform)
    if scale is None:
        return row, col
    # Differences of ranks themselves grow with the length of the list, too.
    of_row = np.repeat(scale**2 if transform == "count" else scale, votes.list_lengths)
    return row * of_row, col * of_row


def _wins_and_losses(votes: Comparisons, block_of_expert: Ints) -> tuple[Ints, Ints, Ints, Ints, tuple[Floats, Floats]]:
    """Return the items that every expert compared as lists: instance, block, offsets, slot, (wins, losses)."""
    n_slots = max(votes.slots.n_slots, 1)
    expert = np.zeros(len(votes.left), dtype=np.int64) if votes.expert is None else votes.expert.astype(np.int64)
    block = block_of_expert
    heard = votes.n_left + votes.n_right + votes.n_ties > 0
    used = np.flatnonzero((block[expert] >= 0) & heard)
    key = np.concatenate([expert[used] * n_slots + votes.left[used], expert[used] * n_slots + votes.right[used]])
    pairs, place = np.unique(key, return_inverse=True)
    won = np.concatenate([votes.n_left[used], votes.n_right[used]])
    lost = np.concatenate([votes.n_right[used], votes.n_left[used]])
    row, col = (np.bincount(place, weights=n, minlength=len(pairs)).astype(np.float64) for n in (won, lost))
    who, slot = pairs // n_slots, pairs % n_slots
    instance = votes.slots.instance[slot].astype(np.int64)
    by_list = np.lexsort((slot, who, instance))
    who, slot, instance, row, col = who[by_list], slot[by_list], instance[by_list], row[by_list], col[by_list]
    new = np.ones(len(who), dtype=np.bool_)
    new[1:] = (who[1:] != who[:-1]) | (instance[1:] != instance[:-1])
    first = np.flatnonzero(new)
    offsets = np.append(first, len(who)).astype(np.int64)
    return instance[first], block[who[first]], offsets, slot, (row, col)


def slot_keys(X: Floats, block: Codes, starts: Ints, names: Sequence[str]) -> Keys:
    """Return a hash of the rows of every slot that depends on the names of their blocks and on no order."""
    name = np.array([id_hash(n) for n in names], dtype=np.uint64)
    if not len(block):
        return np.zeros(len(starts) - 1, dtype=np.uint64)
    h = name[block]
    for c in range(X.shape[1]):
        h = mixed(h ^ mixed(np.ascontiguousarray(X[:, c]).view(np.uint64)))
    return list_sums(h, starts)


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
    """Return the score of every slot: the rows of `potentials` times the weights, the same in any order of the experts.

    Parameters as in `potentials`; `w` has a row of d weights for every block.
    """
    transforms = (transform,) if isinstance(transform, str) else tuple(transform)
    always = float(w[: blocks.n_own, 0].sum())

    def scores(own: Votes) -> Floats:
        lists = _list_rows(own, blocks, block_of_expert, transforms, missing, scaling, trained_on)
        most = np.diff(lists.starts)
        total = exact_sums(lists.terms(w), lists.slot, own.slots.n_slots, lists.offsets[lists.starts], most)
        if lists.absent is None:
            return total + always
        absent = np.einsum("ld,ld->l", lists.absent, w[lists.block])
        shift = exact_sums(absent, lists.instance, len(own), lists.starts, most) + always
        return total + np.repeat(shift, own.slots.sizes)

    if isinstance(votes, Comparisons) or votes.n_rows <= _STRETCH:
        return scores(votes)
    edges = _stretch_edges(votes)
    with without_progress():
        return np.concatenate(map_instances(lambda k: scores(votes.window(edges[k], edges[k + 1])), len(edges) - 1))
