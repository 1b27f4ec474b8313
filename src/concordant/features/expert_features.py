"""What experts say about items as sparse rows of numbers: one form for every method that learns whom to believe.

An item has one row for each list that holds it, and a row belongs to a block of weights: its expert's own, or one that
several experts share. What a list does not hold costs nothing. For the potentials of the CRF a row holds how strongly
its expert prefers the item to others, and others to it; both are found in O(m log m) per list of m items, without a
table of pairs.
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
from concordant.errors import DataError, ParameterError, listing, setting
from concordant.execution import map_instances, without_progress
from concordant.inference.experts import check_known, speaking
from concordant.kernels.lists import exact_sums, list_ids, offsets_of, pair_sums
from concordant.kernels.splitmix64 import Keys, mixed
from concordant.learning.shift import CROWDED, SLACK, TrainingSummary, list_depths

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

# From so many rows on a compiled loop pays for waiting until the compiler is loaded.
_MANY_ROWS = 1 << 16
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
        if isinstance(votes, Comparisons) and votes.expert is None:
            # Nobody is named: all that is said is one voice, and only shared weights can hear it.
            if self.shared < 0 and unknown_experts == "error" and has_votes(votes):
                raise DataError(
                    f"the comparisons{where} name no experts, and {owner} has weights for {listing(self.names, 20)} "
                    f'only. Name the experts, or fit with {setting("weights", "mixed")} or "consensus".'
                )
            return np.array([self.shared], dtype=np.int64)
        own = {name: b for b, name in enumerate(self.names[: self.n_own])}
        out = np.array([own.get(e, self.shared) for e in votes.experts], dtype=np.int64)
        if self.ignored:
            out[[e in self.ignored for e in votes.experts]] = -1
        if self.shared < 0:
            more = f', or fit with {setting("weights", "mixed")} or "consensus", which serve experts never seen'
            check_known(votes, own, owner, unknown_experts, passed_over=self.ignored, where=where, more=more)
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
        How loud a row is heard, compared with not being listed; None where all are in full.
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
        counted = np.where(length > SLACK * longest, longest, length)
        if scaling == "mean":
            size, most = votes.slots.sizes[votes.list_instance], trained_on.items[1]
            share = counted / np.maximum(np.where(size > SLACK * most, most, size), 1)
            share = np.where(share > CROWDED * trained_on.widest, trained_on.coverage[block], share)
            counted = share * size
        far = np.abs(counted - length) > 1e-9 * length
        scale = np.divide(counted, length, out=np.ones(len(length)), where=far) if far.any() else None
        return cls(scale, depth_discount(votes, block, trained_on))


def depth_discount(votes: Preferences, block: Ints, trained_on: TrainingSummary) -> Floats | None:
    """Return how loud every row is heard whose list goes deeper than those learned from; None where none does."""
    limit = trained_on.depth[block]
    deep = list_depths(votes) > SLACK * limit
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
    lists = _list_potentials(votes, block_of_expert, transforms, trained_on, scaling)
    size = votes.slots.sizes[lists.instance].astype(np.float64)
    width = size if scaling == "mean" else np.ones(len(size))
    length = lists.length
    of_list = np.repeat(np.arange(len(size)), np.diff(lists.offsets))
    X = np.empty((len(lists.slot), 1 + 2 * len(transforms)))
    absent = np.zeros((len(size), X.shape[1]))
    X[:, 0] = -lists.weight[of_list]
    for t, (row, col) in enumerate(lists.sums):
        won, lost = row, col
        if missing == "below":
            won = row + (size - length)[of_list]
            lost = col - length[of_list]
            absent[:, 2 + 2 * t] = -lists.weight * length / width
        X[:, 1 + 2 * t] = lists.weight[of_list] * won / width[of_list]
        X[:, 2 + 2 * t] = -lists.weight[of_list] * lost / width[of_list]
    if lists.depth_discount is not None:
        X *= lists.depth_discount[:, None]
    own = lists.block < blocks.n_own
    absent[:, 0] = lists.weight - own
    block = lists.block[of_list]
    order = np.lexsort((block, lists.slot))
    X, slot = X[order], lists.slot[order]
    code = block[order].astype(np.int32)
    starts = offsets_of(np.bincount(slot, minlength=votes.slots.n_slots))
    return ExpertRows(
        offsets=votes.slots.offsets,
        starts=starts,
        block=code,
        X=X,
        key=slot_keys(X, code, starts, blocks.names),
        value=lists.value[order],
        source=of_list[order],
        list_starts=offsets_of(np.bincount(lists.instance, minlength=len(votes))),
        list_block=lists.block,
        absent=absent,
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


class _ListPotentials(NamedTuple):
    """What experts with a block say, list by list; how long each list counts as, and how loud each row is heard."""

    instance: Ints
    block: Ints
    weight: Floats
    offsets: Ints
    slot: Ints
    sums: list[tuple[Floats, Floats]]
    value: Floats
    length: Floats
    depth_discount: Floats | None


def _list_potentials(
    votes: Votes, block_of_expert: Ints, transforms: Sequence[str], trained_on: TrainingSummary | None, scaling: str
) -> _ListPotentials:
    if isinstance(votes, Comparisons):
        return _comparison_potentials(votes, block_of_expert, len(transforms))
    # A list that weighs nothing is not there.
    block = np.where(votes.weights > 0, block_of_expert[votes.list_expert], -1)
    scale, discount = DepthCorrection.of(votes, block, trained_on, scaling)
    sums = [_scaled_sums(votes, t, scale) for t in transforms]
    length = votes.list_lengths.astype(np.float64)
    lists = _ListPotentials(
        votes.list_instance.astype(np.int64), block, votes.weights, votes.list_offsets, votes.slot.astype(np.int64),
        sums, _transformed_ranks(votes, transforms[0]), length if scale is None else length * scale, discount,
    )  # fmt: skip
    if (block >= 0).all():
        return lists
    kept = np.flatnonzero(block >= 0)
    rows = np.flatnonzero(np.repeat(block >= 0, votes.list_lengths))
    return _ListPotentials(
        lists.instance[kept],
        block[kept],
        lists.weight[kept],
        offsets_of(votes.list_lengths[kept]),
        lists.slot[rows],
        [(row[rows], col[rows]) for row, col in sums],
        lists.value[rows],
        lists.length[kept],
        None if discount is None else discount[rows],
    )


def _scaled_sums(votes: Preferences, transform: str, scale: Floats | None) -> tuple[Floats, Floats]:
    row, col = votes.pair_sums(transform)
    if scale is None:
        return row, col
    # Differences of ranks themselves grow with the length of the list, too.
    of_row = np.repeat(scale**2 if transform == "count" else scale, votes.list_lengths)
    return row * of_row, col * of_row


def _transformed_ranks(votes: Preferences, transform: str) -> Floats:
    """Return what is subtracted to compare two rows of a list, in the unit of the transform."""
    rank = votes.ranks("average")
    if transform in ("binary", "count"):
        return rank
    x = np.log(rank) if transform == "log" else rank
    z = np.ones(votes.n_lists)
    full = votes.list_lengths > 0
    z[full] = np.maximum.reduceat(x, votes.list_offsets[:-1][full]) if len(x) else 1.0
    z[z == 0] = 1.0
    return x / np.repeat(z, votes.list_lengths)


def _comparison_potentials(votes: Comparisons, block_of_expert: Ints, n_transforms: int) -> _ListPotentials:
    """Return the wins and losses of comparisons, expert by expert."""
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
    return _ListPotentials(
        instance[first],
        block[who[first]],
        np.ones(len(first)),
        offsets,
        slot,
        [(row, col)] * n_transforms,
        np.zeros(len(who)),
        np.diff(offsets).astype(np.float64),
        None,
    )


def slot_keys(X: Floats, block: Codes, starts: Ints, names: Sequence[str]) -> Keys:
    """Return a hash of the rows of every slot that depends on the names of their blocks and on no order."""
    name = np.array([id_hash(n) for n in names], dtype=np.uint64)
    out = np.zeros(len(starts) - 1, dtype=np.uint64)
    if not len(block):
        return out
    h = name[block]
    for c in range(X.shape[1]):
        h = mixed(h ^ mixed(np.ascontiguousarray(X[:, c]).view(np.uint64)))
    full = np.flatnonzero(starts[1:] > starts[:-1])
    out[full] = np.add.reduceat(h, starts[full])
    return out


def potential_scores(
    votes: Votes,
    blocks: WeightBlocks,
    block_of_expert: Ints,
    w: Floats,
    transform: str = "log",
    *,
    missing: str = "unknown",
    scaling: str = "mean",
    trained_on: TrainingSummary | None = None,
) -> Floats:
    """Return the score of every slot under the weights of the potentials, the same in any order of the experts.

    One pass over the lists; nothing is kept but a number for each row.
    """
    if isinstance(votes, Comparisons):
        rows = potentials(votes, blocks, block_of_expert, transform, missing=missing, scaling=scaling)
        terms = (rows.X * w[rows.block]).sum(axis=1)
        row_starts = rows.starts[rows.offsets]
        most = np.diff(rows.list_starts)
        slot = list_ids(rows.starts)
        total = exact_sums(terms, slot, rows.n_slots, row_starts, most)
        return total + np.repeat(rows.base(w), np.diff(rows.offsets))
    block = block_of_expert[votes.list_expert]
    given = w[block]
    plain = votes.list_weight is None and bool((block >= 0).all())
    if not plain:
        heard = (block >= 0) & (votes.weights > 0)
        given = given * np.where(heard, votes.weights, 0.0)[:, None]
    none, plus, minus = np.ascontiguousarray(given.T)
    scale, discount = DepthCorrection.of(votes, block, trained_on, scaling)
    size = votes.slots.sizes[votes.list_instance].astype(np.float64)
    width = size if scaling == "mean" else np.ones(len(size))
    narrow = width if scale is None else width / scale
    terms = _row_terms(votes, transform, none, plus, minus, narrow)
    if missing == "below":
        # A listed item beats the (size - length) others, and is not beaten, as those are, by all that are listed.
        length = votes.list_lengths if scale is None else votes.list_lengths * scale
        terms += np.repeat((plus * (size - length) + minus * length) / width, votes.list_lengths)
    if discount is not None:
        terms *= discount
    starts, lists = votes.list_offsets[votes.list_starts], votes.list_starts
    most = np.diff(lists)
    always = float(w[: blocks.n_own, 0].sum())
    if plain and blocks.shared < 0 and missing == "unknown":
        # Everybody heard has weights of its own, so that leaving an item out is said of all items alike.
        return exact_sums(terms, votes.slot, votes.n_slots, starts, most) + always
    own = block < blocks.n_own if plain else heard & (block < blocks.n_own)
    base = none - np.where(own, w[block, 0], 0.0)
    if missing == "below":
        base -= minus * length / width
    total = exact_sums(terms, votes.slot, votes.n_slots, starts, most)
    shift = exact_sums(base, votes.list_instance, len(votes), lists, most) + always
    total += np.repeat(shift, votes.slots.sizes)
    return total


def _row_terms(votes: Preferences, transform: str, none: Floats, plus: Floats, minus: Floats, width: Floats) -> Floats:
    """Return what every row adds: -none + (plus * row - minus * col) / width of its list."""
    binary, (x, z) = transform == "binary", votes.rank_transform(transform)
    offsets, lengths = votes.list_offsets, votes.list_lengths
    width = width * z
    if votes.n_rows < _MANY_ROWS:
        row, col = pair_sums(x, np.ones(len(z)), offsets, binary=binary)
        scale = 1.0 / width
        up, down, off = (np.repeat(each, lengths) for each in (plus * scale, minus * scale, none))
        return up * row - down * col - off
    from concordant.kernels.expert_rows import list_terms

    out = np.empty(votes.n_rows)
    order, spare = np.empty(votes.n_rows, dtype=np.int64), np.empty(int(lengths.max()), dtype=np.int64)
    list_terms(x, offsets, width, binary, plus, minus, none, order, spare, out)
    return out
