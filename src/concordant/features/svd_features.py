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
from concordant.features.expert_features import TRANSFORMS, WeightBlocks, depth_discount
from concordant.kernels.lists import offsets_of, order_lists, ranges, transform_ranks
from concordant.kernels.splitmix64 import Keys, mixed
from concordant.kernels.svd_tables import FeatureRows, PairwiseProblems
from concordant.learning.shift import TrainingSummary

__all__ = [
    "STRENGTHS",
    "SingularTriples",
    "dense_triples",
    "triple_terms",
    "triple_rows",
    "singular_triples",
]

# SVDRank calls the rank transform the strength of a preference.
STRENGTHS = TRANSFORMS

_NO_INTS = np.zeros(0, dtype=np.int64)


class SingularTriples(NamedTuple):
    """Singular vectors of pairwise matrices.

    There is a matrix for every instance and block of weights. It belongs to one source: an expert with weights of its
    own, or all experts that share a block.

    Attributes
    ----------
    slot : int64[R]
        The slot of every row; a source has one row for each item that it lists.
    U, V : float64[R, p]
        The entries of the singular vectors.
    offsets : int64[L + 1]
        Offsets of the rows of every source.
    instance, block : int64[L]
        The instance and the block of every source; sources are sorted by both.
    sigma : float64[L, p]
        The singular values.
    v_unlisted : float64[L, p]
        The entries of V for items that the source does not list; 0 unless missing="below".
    depth_discount : float64[R] or None
        Factor of each row, as in `expert_features.DepthCorrection`; None if all are 1.
    """

    slot: Ints
    U: Floats
    V: Floats
    offsets: Ints
    instance: Ints
    block: Ints
    sigma: Floats
    v_unlisted: Floats
    depth_discount: Floats | None = None


class _TripleProblem(NamedTuple):
    """Pairwise matrices to decompose, and the slots, instances and blocks that they belong to."""

    matrices: PairwiseProblems
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
    """Return the p leading singular triples (u, σ, v) of the pairwise matrix of every source.

    Parameters
    ----------
    votes : Preferences or Comparisons
        Lists of weight 0 are ignored. For comparisons Y(i, j) is the number of wins of i against j; `strength` and
        `missing` have no effect.
    blocks, block_of_expert, missing
        As in `expert_features.potentials`.
    strength : {"binary", "rankdiff", "log", "count"}
        The rank transform.
    p : int
        The number of triples; zeros fill up if a matrix has fewer.
    scaling : {"paper", "mean"}
        "paper": singular vectors have length 1. "mean": they have mean square 1 over the listed items, and σ is divided
        accordingly, so that all three are comparable between lists of different lengths.
    trained_on : TrainingSummary, optional
        Summary of the lists from which the weights were learned, for the depth discount of
        `expert_features.DepthCorrection`. If several lists of a source hold an item, its largest discount factor is
        used.

    Notes
    -----
    For a list of m items the cost is one sort and about ten products with the matrix, each O(m).

    Examples
    --------
    >>> p = Preferences(["q"] * 3, ["x"] * 3, list("abc"), [1, 2, 2])
    >>> from concordant.features.expert_features import weight_blocks
    >>> blocks = weight_blocks(p)
    >>> triples = singular_triples(p, blocks, blocks.block_of_expert(p, "example"), "binary")
    >>> triples.U[:, 0].round(6).tolist(), triples.V[:, 0].round(6).tolist(), float(triples.sigma[0, 0].round(6))
    ([1.0, 0.0, 0.0], [0.0, 0.707107, 0.707107], 1.414214)
    """
    if scaling == "mean":
        triples = singular_triples(votes, blocks, block_of_expert, strength, p, missing, trained_on=trained_on)
        return _mean_scaled(triples, votes.slots, missing)
    if trained_on is not None and isinstance(votes, Preferences):
        triples = singular_triples(votes, blocks, block_of_expert, strength, p, missing)
        return triples._replace(depth_discount=_depth_discount(triples, votes, block_of_expert, trained_on))
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
    columns = ("slot", "U", "V", "instance", "block", "sigma", "v_unlisted")
    both = {name: np.concatenate([getattr(single, name), getattr(pooled, name)]) for name in columns}
    return _sorted_sources(SingularTriples(offsets=offsets, **both))


def _depth_discount(
    triples: SingularTriples, votes: Preferences, block_of_expert: Ints, trained_on: TrainingSummary
) -> Floats | None:
    """Return the depth discount of the rows of all sources; None if all are 1."""
    block = block_of_expert[votes.list_expert]
    discount = depth_discount(votes, block, trained_on)
    if discount is None:
        return None
    used = np.flatnonzero(np.repeat((block >= 0) & (votes.weights > 0), votes.list_lengths))
    used_key = np.repeat(block, votes.list_lengths)[used] * votes.n_slots + votes.slot[used]
    row_key = np.repeat(triples.block, np.diff(triples.offsets)) * votes.n_slots + triples.slot
    order = np.argsort(row_key)
    out = np.zeros(len(row_key))
    np.maximum.at(out, order[np.searchsorted(row_key[order], used_key)], discount[used])
    return out


class _SortedLists(NamedTuple):
    """Lists of positive weight from experts with a block, each sorted with the best item first."""

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
            # A copy, because the array may be read-only, for which the kernels would be compiled a second time.
            votes.list_offsets.copy(),
            votes.slot[order].astype(np.int64),
            rank,
            _gaps(rank, votes.list_offsets, strength),
        )
        used = (lists.block >= 0) & (lists.weight > 0)
        return lists if used.all() else lists.take(np.flatnonzero(used))

    def take(self, which: Ints) -> _SortedLists:
        rows = ranges(self.offsets[which], self.offsets[which + 1])
        lengths = np.diff(self.offsets)[which]
        instance, block, weight = self.instance[which], self.block[which], self.weight[which]
        return _SortedLists(
            instance, block, weight, offsets_of(lengths), self.slot[rows], self.rank[rows], self.gap[rows]
        )  # fmt: skip


def _gaps(rank: Floats, offsets: Ints, strength: str) -> Floats:
    """Return the strength of the preference of each row over the next one in its list; 0 for ties and the last row."""
    lengths = np.diff(offsets)
    last = offsets[1:][lengths > 0] - 1
    untied = np.zeros(len(rank), dtype=np.bool_)
    untied[:-1] = rank[1:] != rank[:-1]
    untied[last] = False
    if strength == "binary":
        return untied.astype(np.float64)
    value, scale = transform_ranks(rank, offsets, strength)
    gap = np.zeros(len(value))
    gap[:-1] = np.where(untied[:-1], value[1:] - value[:-1], 0.0)
    gap /= np.repeat(scale, lengths)
    return gap


def _single_list_triples(
    lists: _SortedLists, votes: Preferences, p: int, missing: str, binary: bool
) -> SingularTriples:
    """Return the triples of experts with weights of their own, each from a single list."""
    lengths = np.diff(lists.offsets)
    n_unlisted = np.zeros(len(lengths))
    if missing == "below":
        n_unlisted += votes.slots.sizes[lists.instance] - lengths
    if p > 1:
        return _solve(_single_list_problem(lists, n_unlisted), p, binary)
    from concordant.kernels.svd import leading_triples

    u, v = np.empty(len(lists.slot)), np.empty(len(lists.slot))
    sigma, v_unlisted = np.empty(len(lengths)), np.empty(len(lengths))
    leading_triples(lists.gap, lists.offsets, n_unlisted, binary, u, v, sigma, v_unlisted)
    sigma *= lists.weight
    columns = (u[:, None], v[:, None], lists.offsets, lists.instance, lists.block, sigma[:, None], v_unlisted[:, None])
    return SingularTriples(lists.slot, *columns)


def _single_list_problem(lists: _SortedLists, n_unlisted: Floats) -> _TripleProblem:
    """Return the matrix of every single list."""
    lengths = np.diff(lists.offsets)
    start = np.repeat(lists.offsets[:-1], lengths)
    number = np.arange(len(start), dtype=np.int64) - start
    # Tied rows get the same start values, and so the same singular vectors.
    tied = np.ones(len(start), dtype=np.bool_)
    tied[1:] = lists.gap[:-1] == 0
    first_tied = np.maximum.accumulate(np.where(tied & (number > 0), 0, np.arange(len(start)))) - start
    return _TripleProblem(
        PairwiseProblems(
            gap=lists.gap,
            at=number,
            offsets=lists.offsets,
            weight=lists.weight,
            below=(n_unlisted > 0).astype(np.float64),
            list_starts=np.arange(len(lengths) + 1, dtype=np.int64),
            left=_NO_INTS,
            right=_NO_INTS,
            wins=np.zeros(0),
            pair_starts=np.zeros(len(lengths) + 1, dtype=np.int64),
            item_starts=lists.offsets,
            phase=(first_tied + 0.5) / np.repeat(lengths, lengths),
            others=n_unlisted,
        ),
        slot=lists.slot,
        instance=lists.instance,
        block=lists.block,
    )


def _pooled_problem(lists: _SortedLists, votes: Preferences, missing: str) -> _TripleProblem:
    """Return the sum of the matrices of all lists of an instance, with lists and items in a canonical order."""
    lengths = np.diff(lists.offsets)
    # Lists are sorted by a hash of their ranks and weights, items by a hash of their ranks in these lists.
    rank_hash = mixed(lists.rank.view(np.uint64))
    list_hash = mixed(_sums_by_list(rank_hash, lists.offsets) ^ mixed(lists.weight.view(np.uint64)))
    key = np.zeros(votes.n_slots, dtype=np.uint64)
    np.add.at(key, lists.slot, mixed(rank_hash + np.repeat(list_hash, lengths)))
    block = int(lists.block[0])
    lists = lists.take(np.lexsort((list_hash, lists.instance)))
    slot = lists.slot[
        np.lexsort((key[lists.slot], lists.rank, np.repeat(np.arange(len(lengths)), np.diff(lists.offsets))))
    ]
    listed = np.unique(slot)
    listed = listed[np.lexsort((key[listed], votes.slots.instance[listed]))]
    instance, sizes = np.unique(votes.slots.instance[listed], return_counts=True)
    item_starts = offsets_of(sizes)
    number = np.arange(len(listed)) - np.repeat(item_starts[:-1], sizes)
    number_of_slot = np.empty(votes.n_slots, dtype=np.int64)
    number_of_slot[listed] = number
    below = float(missing == "below")
    return _TripleProblem(
        PairwiseProblems(
            gap=lists.gap,
            at=number_of_slot[slot],
            offsets=lists.offsets,
            weight=lists.weight,
            below=np.full(len(lengths), below),
            list_starts=offsets_of(np.bincount(lists.instance, minlength=len(votes))[instance]),
            left=_NO_INTS,
            right=_NO_INTS,
            wins=np.zeros(0),
            pair_starts=np.zeros(len(instance) + 1, dtype=np.int64),
            item_starts=item_starts,
            phase=(number + 0.5) / np.repeat(sizes, sizes),
            others=np.asarray((votes.slots.sizes[instance] - sizes) * below, dtype=np.float64),
        ),
        slot=listed.astype(np.int64),
        instance=instance.astype(np.int64),
        block=np.full(len(instance), block, dtype=np.int64),
    )


def _comparison_problem(votes: Comparisons, blocks: WeightBlocks, block_of_expert: Ints) -> _TripleProblem:
    """Return the matrix of wins of every source."""
    if votes.expert is None:
        # Comparisons without experts belong to the shared block; if there is none (-1), they are ignored.
        block = np.full(len(votes.left), blocks.shared, dtype=np.int64)
    else:
        block = block_of_expert[votes.expert]
    used = np.flatnonzero((block >= 0) & (votes.outcomes > 0))
    n_slots, n_blocks = max(votes.slots.n_slots, 1), max(len(blocks.names), 1)
    source = votes.slots.instance[votes.left[used]].astype(np.int64) * n_blocks + block[used]
    left, right = votes.left[used].astype(np.int64), votes.right[used].astype(np.int64)
    item_codes = np.concatenate([source * n_slots + left, source * n_slots + right])
    items, item = np.unique(item_codes, return_inverse=True)
    # The number of wins of every ordered pair of items.
    both = np.concatenate([item, np.roll(item, len(left))]).reshape(2, -1)
    pairs, which = np.unique(both[0] * len(items) + both[1], return_inverse=True)
    counts = np.concatenate([votes.n_left[used], votes.n_right[used]])
    wins = np.bincount(which, weights=counts, minlength=len(pairs)).astype(np.float64)
    winner, loser = np.divmod(pairs[wins > 0], max(len(items), 1))
    wins = wins[wins > 0]
    # Canonical order of the items: by a hash of their wins and losses, and of those of their opponents.
    key = np.zeros(len(items), dtype=np.uint64)
    for _ in range(3):
        neighbours = np.zeros(len(items), dtype=np.uint64)
        np.add.at(neighbours, winner, mixed(key[loser] + mixed(wins.view(np.uint64))))
        np.add.at(neighbours, loser, mixed(key[winner] ^ mixed(wins.view(np.uint64))))
        key = mixed(key + neighbours)
    order = np.lexsort((key, items // n_slots))
    new = np.empty(len(items), dtype=np.int64)
    new[order] = np.arange(len(items))
    items, winner, loser = items[order], new[winner], new[loser]
    order = np.lexsort((loser, winner))
    winner, loser, wins = winner[order], loser[order], wins[order]
    sources, source_of, sizes = np.unique(items // n_slots, return_inverse=True, return_counts=True)
    item_starts = offsets_of(sizes)
    number = np.arange(len(items)) - item_starts[source_of]
    return _TripleProblem(
        PairwiseProblems(
            gap=np.zeros(0),
            at=_NO_INTS,
            offsets=np.zeros(1, dtype=np.int64),
            weight=np.zeros(0),
            below=np.zeros(0),
            list_starts=np.zeros(len(sources) + 1, dtype=np.int64),
            left=number[winner],
            right=number[loser],
            wins=wins,
            pair_starts=offsets_of(np.bincount(source_of[winner], minlength=len(sources))),
            item_starts=item_starts,
            phase=(number + 0.5) / np.repeat(sizes, sizes),
            others=np.zeros(len(sources)),
        ),
        slot=items % n_slots,
        instance=sources // n_blocks,
        block=sources % n_blocks,
    )


def _solve(problem: _TripleProblem, p: int, binary: bool) -> SingularTriples:
    """Return the leading triples of the matrices, by iteration."""
    from concordant.kernels.svd import pooled_triples

    U, V = np.empty((len(problem.slot), p)), np.empty((len(problem.slot), p))
    sigma, v_unlisted = np.empty((len(problem.instance), p)), np.empty((len(problem.instance), p))
    pooled_triples(problem.matrices, binary, U, V, sigma, v_unlisted)
    return SingularTriples(
        problem.slot, U, V, problem.matrices.item_starts, problem.instance, problem.block, sigma, v_unlisted
    )  # fmt: skip


def _sorted_sources(triples: SingularTriples) -> SingularTriples:
    """Return the triples sorted by instance and block."""
    order = np.lexsort((triples.block, triples.instance))
    if (order[1:] > order[:-1]).all():
        return triples
    rows = ranges(triples.offsets[order], triples.offsets[order + 1])
    return SingularTriples(
        triples.slot[rows],
        triples.U[rows],
        triples.V[rows],
        offsets_of(np.diff(triples.offsets)[order]),
        triples.instance[order],
        triples.block[order],
        triples.sigma[order],
        triples.v_unlisted[order],
    )


def _mean_scaled(triples: SingularTriples, slots: Slots, missing: str) -> SingularTriples:
    """Return the triples scaled as by scaling="mean" of `singular_triples`."""
    rows = np.diff(triples.offsets)
    u_norm = np.sqrt(rows.astype(np.float64))
    v_norm = u_norm if missing == "unknown" else np.sqrt(slots.sizes[triples.instance].astype(np.float64))
    return triples._replace(
        U=triples.U * np.repeat(u_norm, rows)[:, None],
        V=triples.V * np.repeat(v_norm, rows)[:, None],
        sigma=triples.sigma / (u_norm * v_norm)[:, None],
        v_unlisted=triples.v_unlisted * v_norm[:, None],
    )


def _sums_by_list(x: Keys, offsets: Ints) -> Keys:
    """Return the sum over each list, modulo 2^64."""
    total = np.zeros(len(x) + 1, dtype=np.uint64)
    np.cumsum(x, out=total[1:])
    return total[offsets[1:]] - total[offsets[:-1]]


def triple_rows(triples: SingularTriples, slots: Slots) -> FeatureRows:
    """Return the triples as sparse feature rows, sorted by slot and block.

    As in `expert_features.ExpertRows`, a row holds the difference from an item that is not listed: u, v - v_unlisted
    and -1 for "missing". The background of a source is σ and v_unlisted.
    """
    source = np.repeat(np.arange(len(triples.block)), np.diff(triples.offsets))
    order = np.lexsort((triples.block[source], triples.slot))
    source = source[order]
    v = triples.V[order] - triples.v_unlisted[source]
    X = np.concatenate([triples.U[order], v, np.full((len(source), 1), -1.0)], axis=1)
    if triples.depth_discount is not None:
        X *= triples.depth_discount[order][:, None]
    return FeatureRows(
        slots.offsets.copy(),
        offsets_of(np.bincount(triples.slot, minlength=slots.n_slots)),
        triples.block[source].astype(np.int32),
        X,
        offsets_of(np.bincount(triples.instance, minlength=len(slots))),
        triples.block,
        np.concatenate([triples.sigma, triples.v_unlisted], axis=1),
    )


def triple_terms(triples: SingularTriples, w: Floats) -> tuple[Floats, Floats]:
    """Return the terms of the scores: one for every row, and one for every source, added to all items of its instance.

    `w` has a row for every block, with the weights of u, σ, v and missing in this order.
    """
    p = triples.U.shape[1]
    weights = w[triples.block]
    source = np.repeat(np.arange(len(weights)), np.diff(triples.offsets))
    unlisted = (triples.v_unlisted * weights[:, 2 * p : 3 * p]).sum(axis=1)
    rows = -weights[source, 3 * p] - unlisted[source]
    for c in range(p):
        rows += triples.U[:, c] * weights[source, c] + triples.V[:, c] * weights[source, 2 * p + c]
    if triples.depth_discount is not None:
        rows *= triples.depth_discount
    return rows, unlisted + (triples.sigma * weights[:, p : 2 * p]).sum(axis=1)


def dense_triples(triples: SingularTriples, slots: Slots, blocks: WeightBlocks) -> Features:
    """Return the features as a dense matrix; the columns of a block are u1..up, sigma1..sigmap, v1..vp, missing."""
    p = triples.U.shape[1]
    X = np.zeros((slots.n_slots, len(blocks.names), 3 * p + 1))
    X[:, :, 3 * p] = 1.0
    sizes = slots.sizes[triples.instance]
    slot = ranges(slots.offsets[triples.instance], slots.offsets[triples.instance] + sizes)
    block = np.repeat(triples.block, sizes)
    X[slot, block, p : 2 * p] = np.repeat(triples.sigma, sizes, axis=0)
    X[slot, block, 2 * p : 3 * p] = np.repeat(triples.v_unlisted, sizes, axis=0)
    lengths = np.diff(triples.offsets)
    row_block = np.repeat(triples.block, lengths)
    U, V, listed = triples.U, triples.V, np.ones(len(row_block))
    if triples.depth_discount is not None:
        listed, v_unlisted = triples.depth_discount, np.repeat(triples.v_unlisted, lengths, axis=0)
        U, V = U * listed[:, None], v_unlisted + (V - v_unlisted) * listed[:, None]
    X[triples.slot, row_block, :p] = U
    X[triples.slot, row_block, 2 * p : 3 * p] = V
    X[triples.slot, row_block, 3 * p] = 1.0 - listed
    return Features.from_codes(slots, X.reshape(slots.n_slots, -1), Texts(feature_names(blocks, p)))


def feature_names(blocks: WeightBlocks, p: int) -> list[str]:
    """Return the names of the columns, such as "bm25.u1" and "bm25.missing".

    The separator is a point because LightGBM refuses colons in feature names.

    >>> feature_names(WeightBlocks(["bm25"], -1), 1)
    ['bm25.u1', 'bm25.sigma1', 'bm25.v1', 'bm25.missing']
    """
    kinds = [f"{kind}{c + 1}" for kind in ("u", "sigma", "v") for c in range(p)]
    return [f"{name}.{kind}" for name in blocks.names for kind in (*kinds, "missing")]
