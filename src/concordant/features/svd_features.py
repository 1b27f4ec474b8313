"""Features of items from the singular value decomposition of each expert's pairwise preference matrix.

The matrix Y of an expert has a best approximation of rank p, Y ≈ U Σ Vᵀ. Row i of U says how strongly item i wins, row
i of V how strongly it loses, and Σ how strong the preferences are. The matrices of experts who share a block of weights
are added first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.base.contract import Votes
from concordant.data.comparisons import Comparisons
from concordant.data.features import Features
from concordant.data.index import Slots, Texts
from concordant.data.preferences import Preferences
from concordant.features.expert_features import SHARED, WeightBlocks, depth_discount
from concordant.inference.experts import speaking
from concordant.kernels.lists import offsets_of, order_lists, ranges, transform_ranks
from concordant.kernels.splitmix64 import Keys, mixed
from concordant.kernels.svd_tables import FeatureRows, PairwiseProblems
from concordant.learning.shift import TrainingSummary

__all__ = [
    "STRENGTHS",
    "SingularTriples",
    "blocks_for",
    "dense_triples",
    "triple_terms",
    "mixed",
    "triple_rows",
    "singular_triples",
]

STRENGTHS = ("binary", "rankdiff", "log", "count")


_NONE = np.zeros(0, dtype=np.int64)


def blocks_for(votes: Votes, weights: str, min_lists: int, min_rows: int) -> WeightBlocks:
    """Return the blocks of weights that a fit learns.

    With "mixed", experts with at least `min_lists` lists and `min_rows` rows have one of their own, and the others
    share one; with "individual" every expert who speaks has its own, with "consensus" all share one.
    """
    if weights == "consensus" or (isinstance(votes, Comparisons) and votes.expert is None):
        return WeightBlocks([SHARED], 0)
    lists = speaking(votes)
    spoken = votes.row_expert if isinstance(votes, Preferences) else votes.expert
    rows = np.bincount([] if spoken is None else spoken, minlength=len(lists))
    own = lists > 0
    if weights == "mixed":
        own &= (lists >= min_lists) & (rows >= min_rows)
    names = sorted(e for e, known in zip(votes.experts, own.tolist(), strict=True) if known)
    return WeightBlocks([*names, SHARED], len(names)) if weights == "mixed" else WeightBlocks(names, -1)


class SingularTriples(NamedTuple):
    """Singular vectors by source: an expert with weights of its own, or all others together, in one instance.

    Attributes
    ----------
    slot : int64[R]
        The slot of every row; a source has one row for each item that it speaks of.
    U, V : float64[R, p]
        The entries of the singular vectors.
    offsets : int64[L + 1]
        Where the rows of every source begin.
    instance, block : int64[L]
        The instance of a source, ascending, and the block of weights it uses, ascending within the instance.
    sigma : float64[L, p]
        The singular values.
    outside : float64[L, p]
        The entries of V for items that the source does not speak of; not 0 only where these lose to the others.
    depth_discount : float64[R] or None
        How loud a row is heard, compared with not being listed; None where all are in full.
    """

    slot: Ints
    U: Floats
    V: Floats
    offsets: Ints
    instance: Ints
    block: Ints
    sigma: Floats
    outside: Floats
    depth_discount: Floats | None = None


class _TripleProblem(NamedTuple):
    """Sources to be solved: what they say, and whose they are."""

    pool: PairwiseProblems
    slot: Ints
    instance: Ints
    block: Ints


def singular_triples(
    votes: Votes,
    blocks: WeightBlocks,
    block_of_expert: Ints,
    strength: str = "log",
    p: int = 1,
    missing: str = "unknown",
    scaling: str = "paper",
    trained_on: TrainingSummary | None = None,
) -> SingularTriples:
    """Return the p leading singular triples of the pairwise matrices of every instance.

    Parameters
    ----------
    votes : Preferences or Comparisons
        Lists of weight 0 are as if they were not there. Comparisons have Y(i, j) = how often i won against j, whatever
        `strength` and `missing`.
    blocks : WeightBlocks
        Which weights there are.
    block_of_expert : int64[K]
        The block of every expert, -1 to leave it out.
    strength : {"binary", "rankdiff", "log", "count"}
        How strongly an item is preferred to one behind it.
    p : int
        How many triples; where there are fewer, zeros stand for the rest.
    missing : {"unknown", "below"}
        Whether a list says nothing about what it leaves out, or prefers all it holds to it, by 1.
    scaling : {"paper", "mean"}
        Whether singular vectors have length 1, or a mean square of 1 over the items that the source speaks of, so that
        they mean the same for lists of any length; σ then is that of the mean preference.
    trained_on : TrainingSummary, optional
        How far the lists went that the weights were learned from: items below that are heard less and less loud, as in
        `expert_features.DepthCorrection`. In a sum of lists an item is as loud as in the list that places it best.

    Notes
    -----
    Costs a sort and some ten products with the matrix, each O(m), for a list of m items.

    Examples
    --------
    >>> p = Preferences(["q"] * 3, ["x"] * 3, list("abc"), [1, 2, 2])
    >>> blocks = blocks_for(p, "individual", 1, 0)
    >>> found = singular_triples(p, blocks, blocks.of(p, "example"), "binary")
    >>> found.U[:, 0].round(6).tolist(), found.V[:, 0].round(6).tolist(), float(found.sigma[0, 0].round(6))
    ([1.0, 0.0, 0.0], [0.0, 0.707107, 0.707107], 1.414214)
    """
    if scaling == "mean":
        found = singular_triples(votes, blocks, block_of_expert, strength, p, missing, trained_on=trained_on)
        return _mean_scaled(found, votes.slots, missing)
    if trained_on is not None and isinstance(votes, Preferences):
        found = singular_triples(votes, blocks, block_of_expert, strength, p, missing)
        return found._replace(depth_discount=_depth_discount(found, votes, block_of_expert, trained_on))
    if isinstance(votes, Comparisons):
        return _solve(_comparison_problem(votes, blocks, block_of_expert), p, binary=False)
    lists = _SortedLists.of(votes, block_of_expert, strength)
    own = lists.block < blocks.n_own
    binary = strength == "binary"
    if own.all():
        return _sorted_sources(_single_list_triples(lists, votes, p, missing, binary))
    pooled = _solve(_pooled_problem(lists.take(np.flatnonzero(~own)), votes, missing), p, binary)
    if not own.any():
        return pooled
    single = _single_list_triples(lists.take(np.flatnonzero(own)), votes, p, missing, binary)
    offsets = np.concatenate([single.offsets, single.offsets[-1] + pooled.offsets[1:]])
    columns = ("slot", "U", "V", "instance", "block", "sigma", "outside")
    both = {name: np.concatenate([getattr(single, name), getattr(pooled, name)]) for name in columns}
    return _sorted_sources(SingularTriples(offsets=offsets, **both))


def _depth_discount(
    found: SingularTriples, votes: Preferences, block_of_expert: Ints, trained_on: TrainingSummary
) -> Floats | None:
    """Return how loud the rows of all sources are heard; None where all are in full."""
    block = block_of_expert[votes.list_expert]
    discount = depth_discount(votes, block, trained_on)
    if discount is None:
        return None
    heard = np.flatnonzero(np.repeat((block >= 0) & (votes.weights > 0), votes.list_lengths))
    key = np.repeat(block, votes.list_lengths)[heard] * votes.n_slots + votes.slot[heard]
    own = np.repeat(found.block, np.diff(found.offsets)) * votes.n_slots + found.slot
    order = np.argsort(own)
    out = np.zeros(len(own))
    np.maximum.at(out, order[np.searchsorted(own[order], key)], discount[heard])
    return out


class _SortedLists(NamedTuple):
    """The lists that count, every one sorted, best item first."""

    instance: Ints
    block: Ints
    weight: Floats
    offsets: Ints
    slot: Ints
    rank: Floats
    gap: Floats

    @classmethod
    def of(cls, votes: Preferences, block_of_expert: Ints, strength: str) -> _SortedLists:
        rank = votes.ranks("average")
        order = order_lists(rank, votes.list_offsets)
        rank = rank[order]
        lists = cls(
            votes.list_instance.astype(np.int64),
            block_of_expert[votes.list_expert],
            np.array(votes.weights, dtype=np.float64),
            # Copies, so that kernels see one kind of array whether anything was left out or not.
            votes.list_offsets.copy(),
            votes.slot[order].astype(np.int64),
            rank,
            _gaps(rank, votes.list_offsets, strength),
        )
        heard = (lists.block >= 0) & (lists.weight > 0)
        return lists if heard.all() else lists.take(np.flatnonzero(heard))

    def take(self, which: Ints) -> _SortedLists:
        rows = ranges(self.offsets[which], self.offsets[which + 1])
        lengths = np.diff(self.offsets)[which]
        instance, block, weight = self.instance[which], self.block[which], self.weight[which]
        return _SortedLists(
            instance, block, weight, offsets_of(lengths), self.slot[rows], self.rank[rows], self.gap[rows]
        )  # fmt: skip


def _gaps(rank: Floats, offsets: Ints, strength: str) -> Floats:
    """Return how much worse the next row of each sorted list is; 0 where it is tied and at the end."""
    lengths = np.diff(offsets)
    last = offsets[1:][lengths > 0] - 1
    new = np.zeros(len(rank), dtype=np.bool_)
    new[:-1] = rank[1:] != rank[:-1]
    new[last] = False
    if strength == "binary":
        return new.astype(np.float64)
    value, scale = transform_ranks(rank, offsets, strength)
    gap = np.zeros(len(value))
    gap[:-1] = np.where(new[:-1], value[1:] - value[:-1], 0.0)
    gap /= np.repeat(scale, lengths)
    return gap


def _single_list_triples(
    lists: _SortedLists, votes: Preferences, p: int, missing: str, binary: bool
) -> SingularTriples:
    """Return the triples of lists that stand for themselves."""
    lengths = np.diff(lists.offsets)
    others = np.zeros(len(lengths))
    if missing == "below":
        others += votes.slots.sizes[lists.instance] - lengths
    if p > 1:
        return _solve(_single_list_problem(lists, others), p, binary)
    from concordant.kernels.svd import leading_triples

    u, v = np.empty(len(lists.slot)), np.empty(len(lists.slot))
    sigma, outside = np.empty(len(lengths)), np.empty(len(lengths))
    leading_triples(lists.gap, lists.offsets, others, binary, u, v, sigma, outside)
    sigma *= lists.weight
    columns = (u[:, None], v[:, None], lists.offsets, lists.instance, lists.block, sigma[:, None], outside[:, None])
    return SingularTriples(lists.slot, *columns)


def _single_list_problem(lists: _SortedLists, others: Floats) -> _TripleProblem:
    """Return every list as a problem of its own: its items are its rows."""
    lengths = np.diff(lists.offsets)
    start = np.repeat(lists.offsets[:-1], lengths)
    number = np.arange(len(start), dtype=np.int64) - start
    # Tied rows begin alike, and so they end alike.
    tied = np.ones(len(start), dtype=np.bool_)
    tied[1:] = lists.gap[:-1] == 0
    level = np.maximum.accumulate(np.where(tied & (number > 0), 0, np.arange(len(start)))) - start
    return _TripleProblem(
        PairwiseProblems(
            gap=lists.gap,
            at=number,
            offsets=lists.offsets,
            weight=lists.weight,
            below=(others > 0).astype(np.float64),
            list_starts=np.arange(len(lengths) + 1, dtype=np.int64),
            left=_NONE,
            right=_NONE,
            wins=np.zeros(0),
            pair_starts=np.zeros(len(lengths) + 1, dtype=np.int64),
            item_starts=lists.offsets,
            phase=(level + 0.5) / np.repeat(lengths, lengths),
            others=others,
        ),
        slot=lists.slot,
        instance=lists.instance,
        block=lists.block,
    )


def _pooled_problem(lists: _SortedLists, votes: Preferences, missing: str) -> _TripleProblem:
    """Return the lists of every instance as one problem, in an order that does not depend on that of the input."""
    lengths = np.diff(lists.offsets)
    # What a list says, and so what is said about an item, whoever says it.
    said = mixed(lists.rank.view(np.uint64))
    content = mixed(_list_hashes(said, lists.offsets) ^ mixed(lists.weight.view(np.uint64)))
    key = np.zeros(votes.n_slots, dtype=np.uint64)
    np.add.at(key, lists.slot, mixed(said + np.repeat(content, lengths)))
    block = int(lists.block[0])
    lists = lists.take(np.lexsort((content, lists.instance)))
    slot = lists.slot[
        np.lexsort((key[lists.slot], lists.rank, np.repeat(np.arange(len(lengths)), np.diff(lists.offsets))))
    ]
    named = np.unique(slot)
    named = named[np.lexsort((key[named], votes.slots.instance[named]))]
    instance, sizes = np.unique(votes.slots.instance[named], return_counts=True)
    item_starts = offsets_of(sizes)
    number = np.arange(len(named)) - np.repeat(item_starts[:-1], sizes)
    place = np.empty(votes.n_slots, dtype=np.int64)
    place[named] = number
    below = float(missing == "below")
    return _TripleProblem(
        PairwiseProblems(
            gap=lists.gap,
            at=place[slot],
            offsets=lists.offsets,
            weight=lists.weight,
            below=np.full(len(lengths), below),
            list_starts=offsets_of(np.bincount(lists.instance, minlength=len(votes))[instance]),
            left=_NONE,
            right=_NONE,
            wins=np.zeros(0),
            pair_starts=np.zeros(len(instance) + 1, dtype=np.int64),
            item_starts=item_starts,
            phase=(number + 0.5) / np.repeat(sizes, sizes),
            others=np.asarray((votes.slots.sizes[instance] - sizes) * below, dtype=np.float64),
        ),
        slot=named.astype(np.int64),
        instance=instance.astype(np.int64),
        block=np.full(len(instance), block, dtype=np.int64),
    )


def _comparison_problem(votes: Comparisons, blocks: WeightBlocks, block_of_expert: Ints) -> _TripleProblem:
    """Return the outcomes of every expert in every instance as one problem, those of a shared block together."""
    if votes.expert is None:
        # Without shared weights nobody hears what is said by nobody.
        block = np.full(len(votes.left), blocks.shared, dtype=np.int64)
    else:
        block = block_of_expert[votes.expert]
    heard = np.flatnonzero((block >= 0) & (votes.n_left + votes.n_right + votes.n_ties > 0))
    n_slots, n_blocks = max(votes.slots.n_slots, 1), max(len(blocks.names), 1)
    source = votes.slots.instance[votes.left[heard]].astype(np.int64) * n_blocks + block[heard]
    left, right = votes.left[heard].astype(np.int64), votes.right[heard].astype(np.int64)
    ends = np.concatenate([source * n_slots + left, source * n_slots + right])
    items, end = np.unique(ends, return_inverse=True)
    # Who beat whom how often, every ordered pair of items once.
    both = np.concatenate([end, np.roll(end, len(left))]).reshape(2, -1)
    pairs, which = np.unique(both[0] * len(items) + both[1], return_inverse=True)
    counts = np.concatenate([votes.n_left[heard], votes.n_right[heard]])
    wins = np.bincount(which, weights=counts, minlength=len(pairs)).astype(np.float64)
    winner, loser = np.divmod(pairs[wins > 0], max(len(items), 1))
    wins = wins[wins > 0]
    # Items in an order that depends on what happened to them and to those they met, not on that of the input.
    key = np.zeros(len(items), dtype=np.uint64)
    for _ in range(3):
        met = np.zeros(len(items), dtype=np.uint64)
        np.add.at(met, winner, mixed(key[loser] + mixed(wins.view(np.uint64))))
        np.add.at(met, loser, mixed(key[winner] ^ mixed(wins.view(np.uint64))))
        key = mixed(key + met)
    order = np.lexsort((key, items // n_slots))
    new = np.empty(len(items), dtype=np.int64)
    new[order] = np.arange(len(items))
    items, winner, loser = items[order], new[winner], new[loser]
    order = np.lexsort((loser, winner))
    winner, loser, wins = winner[order], loser[order], wins[order]
    sources, of, sizes = np.unique(items // n_slots, return_inverse=True, return_counts=True)
    item_starts = offsets_of(sizes)
    number = np.arange(len(items)) - item_starts[of]
    return _TripleProblem(
        PairwiseProblems(
            gap=np.zeros(0),
            at=_NONE,
            offsets=np.zeros(1, dtype=np.int64),
            weight=np.zeros(0),
            below=np.zeros(0),
            list_starts=np.zeros(len(sources) + 1, dtype=np.int64),
            left=number[winner],
            right=number[loser],
            wins=wins,
            pair_starts=offsets_of(np.bincount(of[winner], minlength=len(sources))),
            item_starts=item_starts,
            phase=(number + 0.5) / np.repeat(sizes, sizes),
            others=np.zeros(len(sources)),
        ),
        slot=items % n_slots,
        instance=sources // n_blocks,
        block=sources % n_blocks,
    )


def _solve(problem: _TripleProblem, p: int, binary: bool) -> SingularTriples:
    from concordant.kernels.svd import pooled_triples

    U, V = np.empty((len(problem.slot), p)), np.empty((len(problem.slot), p))
    sigma, outside = np.empty((len(problem.instance), p)), np.empty((len(problem.instance), p))
    pooled_triples(problem.pool, binary, U, V, sigma, outside)
    return SingularTriples(
        problem.slot, U, V, problem.pool.item_starts, problem.instance, problem.block, sigma, outside
    )  # fmt: skip


def _sorted_sources(found: SingularTriples) -> SingularTriples:
    """Return the same sources by instance and block."""
    order = np.lexsort((found.block, found.instance))
    if (order[1:] > order[:-1]).all():
        return found
    rows = ranges(found.offsets[order], found.offsets[order + 1])
    return SingularTriples(
        found.slot[rows],
        found.U[rows],
        found.V[rows],
        offsets_of(np.diff(found.offsets)[order]),
        found.instance[order],
        found.block[order],
        found.sigma[order],
        found.outside[order],
    )


def _mean_scaled(found: SingularTriples, slots: Slots, missing: str) -> SingularTriples:
    """Return the triples with vectors of mean square 1 and the singular values of Y over the numbers of its items."""
    rows = np.diff(found.offsets)
    tall = np.sqrt(rows.astype(np.float64))
    wide = tall if missing == "unknown" else np.sqrt(slots.sizes[found.instance].astype(np.float64))
    return found._replace(
        U=found.U * np.repeat(tall, rows)[:, None],
        V=found.V * np.repeat(wide, rows)[:, None],
        sigma=found.sigma / (tall * wide)[:, None],
        outside=found.outside * wide[:, None],
    )


def _list_hashes(x: Keys, offsets: Ints) -> Keys:
    """Return the sum of each list, modulo 2^64."""
    total = np.zeros(len(x) + 1, dtype=np.uint64)
    np.cumsum(x, out=total[1:])
    return total[offsets[1:]] - total[offsets[:-1]]


def triple_rows(found: SingularTriples, slots: Slots) -> FeatureRows:
    """Return the features slot by slot: u, v less that of an item not spoken of, and -1, for it is not missing.

    Rows of a slot are in the order of blocks. The background is σ, then v of items that the source does not speak of.
    """
    of = np.repeat(np.arange(len(found.block)), np.diff(found.offsets))
    order = np.lexsort((found.block[of], found.slot))
    of = of[order]
    X = np.concatenate([found.U[order], found.V[order] - found.outside[of], np.full((len(of), 1), -1.0)], axis=1)
    if found.depth_discount is not None:
        X *= found.depth_discount[order][:, None]
    return FeatureRows(
        slots.offsets.copy(),
        offsets_of(np.bincount(found.slot, minlength=slots.n_slots)),
        found.block[of].astype(np.int32),
        X,
        offsets_of(np.bincount(found.instance, minlength=len(slots))),
        found.block,
        np.concatenate([found.sigma, found.outside], axis=1),
    )


def triple_terms(found: SingularTriples, w: Floats) -> tuple[Floats, Floats]:
    """Return what every row adds to its item, and every source to all items of its instance.

    `w` holds a block in each row, in the order of the features: u, σ, v, missing.
    """
    p = found.U.shape[1]
    own = w[found.block]
    of = np.repeat(np.arange(len(own)), np.diff(found.offsets))
    everywhere = (found.outside * own[:, 2 * p : 3 * p]).sum(axis=1)
    rows = -own[of, 3 * p] - everywhere[of]
    for c in range(p):
        rows += found.U[:, c] * own[of, c] + found.V[:, c] * own[of, 2 * p + c]
    if found.depth_discount is not None:
        rows *= found.depth_discount
    return rows, everywhere + (found.sigma * own[:, p : 2 * p]).sum(axis=1)


def dense_triples(found: SingularTriples, slots: Slots, blocks: WeightBlocks) -> Features:
    """Return the features of every slot, block by block: u1..up, sigma1..sigmap, v1..vp, missing."""
    p = found.U.shape[1]
    X = np.zeros((slots.n_slots, len(blocks.names), 3 * p + 1))
    X[:, :, 3 * p] = 1.0
    sizes = slots.sizes[found.instance]
    every = ranges(slots.offsets[found.instance], slots.offsets[found.instance] + sizes)
    block = np.repeat(found.block, sizes)
    X[every, block, p : 2 * p] = np.repeat(found.sigma, sizes, axis=0)
    X[every, block, 2 * p : 3 * p] = np.repeat(found.outside, sizes, axis=0)
    lengths = np.diff(found.offsets)
    own = np.repeat(found.block, lengths)
    U, V, listed = found.U, found.V, np.ones(len(own))
    if found.depth_discount is not None:
        listed, outside = found.depth_discount, np.repeat(found.outside, lengths, axis=0)
        U, V = U * listed[:, None], outside + (V - outside) * listed[:, None]
    X[found.slot, own, :p] = U
    X[found.slot, own, 2 * p : 3 * p] = V
    X[found.slot, own, 3 * p] = 1.0 - listed
    return Features.from_codes(slots, X.reshape(slots.n_slots, -1), Texts(feature_names(blocks, p)))


def feature_names(blocks: WeightBlocks, p: int) -> list[str]:
    """Return the names of the columns, such as "bm25.u1" and "bm25.missing".

    A point and not a colon, which LightGBM refuses in the names of features.

    >>> feature_names(WeightBlocks(["bm25"], -1), 1)
    ['bm25.u1', 'bm25.sigma1', 'bm25.v1', 'bm25.missing']
    """
    kinds = [f"{kind}{c + 1}" for kind in ("u", "sigma", "v") for c in range(p)]
    return [f"{name}.{kind}" for name in blocks.names for kind in (*kinds, "missing")]
