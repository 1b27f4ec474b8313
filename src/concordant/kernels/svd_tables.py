"""Arrays that go together in the kernels of singular vectors and of LambdaRank.

They are named here, where nothing is compiled, so that they can be made before the compiler is loaded.
"""

from __future__ import annotations

from typing import NamedTuple

from concordant.arrays import Codes, Floats, Ints

__all__ = ["LambdaTarget", "PairwiseProblems", "FeatureRows"]


class PairwiseProblems(NamedTuple):
    """Sums of pairwise matrices, one problem after another.

    Problem q is the weighted sum over lists list_starts[q] to list_starts[q + 1] and over the counted pairs from
    pair_starts[q] on.

    Attributes
    ----------
    gap, at : float64[R], int64[R]
        How much worse the next row of the list is, 0 where it is tied, and the item of the row, counted within its
        problem; rows of a list are sorted, best first.
    offsets, weight, below : int64[L + 1], float64[L], float64[L]
        Where the lists begin; what they weigh; whether what a list does not hold loses to what it holds (not 0).
    left, right, wins : int64[E], int64[E], float64[E]
        How often left won against right, as items counted within the problem.
    item_starts : int64[Q + 1]
        Where the items of every problem begin.
    phase : float64[I]
        A number in (0, 1) for every item, from which a block of vectors is begun.
    others : float64[Q]
        How many items no list of the problem holds, where they lose to those listed.
    """

    gap: Floats
    at: Ints
    offsets: Ints
    weight: Floats
    below: Floats
    list_starts: Ints
    left: Ints
    right: Ints
    wins: Floats
    pair_starts: Ints
    item_starts: Ints
    phase: Floats
    others: Floats


class FeatureRows(NamedTuple):
    """Features of slots as sparse rows, slot by slot.

    Attributes
    ----------
    offsets, starts : int64[N + 1], int64[S + 1]
        Where the slots of every instance and the rows of every slot begin.
    block : int32[R]
        The block of weights of a row.
    X : float64[R, d]
        What a row says about its slot, compared with there being no such row.
    source_starts, source_block, background : int64[N + 1], int64[L], float64[L, 2p]
        By instance, what its sources say about every slot: p numbers with weights of their own, then p that share the
        weights of columns p to 2p - 1 of X.
    """

    offsets: Ints
    starts: Ints
    block: Codes
    X: Floats
    source_starts: Ints
    source_block: Ints
    background: Floats


class LambdaTarget(NamedTuple):
    """Targets of LambdaRank: labels, gains and discounts. Slots of an instance are sorted by label, the highest first.

    Attributes
    ----------
    metric : int
        PLACES, PAIRS, AP, ERR or RR of kernels.lambdarank; PAIRS has ΔM = 1 for every pair.
    worth : float64[S]
        What an item is worth to the metric: its gain (NDCG), whether it is relevant (P, AP, RR), the chance that it
        satisfies (ERR).
    level : int64[S]
        Of how many different labels of the instance the item's is lower.
    by_tie : int64[S]
        The items of the instance, counted within it, in the order in which ties are placed.
    place_gain : float64[places]
        What each place is worth: the discounts of NDCG, 1 up to the cutoff for P, 1 / place up to the cutoff for the
        others.
    scale : float64[N]
        What ΔM is multiplied with: one over the ideal value, the cutoff or the number of relevant items.
    budget : int
        How many items of an instance to pair at most, 0 for all; those drawn stand for those left out.
    normalise : bool
        Whether the gradients are multiplied by log2(1 + t) / t, t being the sum of all pulls: an instance with a
        thousand times the pairs is then not a thousand times as loud.
    """

    metric: int
    worth: Floats
    level: Ints
    by_tie: Ints
    place_gain: Floats
    scale: Floats
    budget: int
    normalise: bool
