"""Pairwise agreement of experts by Kendall's tau-b, and an order that puts similar experts next to each other.

Lists of one instance are compared all at once. With S the signs of all pairs of items, one column for each expert, the
numbers of concordant minus discordant pairs of all experts are the matrix product of S with itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.preferences import Preferences
from concordant.errors import DataError, KindError, ParameterError
from concordant.kernels.inversions import inversions, tied_pairs
from concordant.kernels.lists import offsets_of
from concordant.kernels.ratios import ratio
from concordant.report._instances import rank_table

__all__ = ["Agreement", "cluster_order", "expert_agreement", "unordered_pairs"]

# The most signs in memory at a time.
_BLOCK = 4_000_000
_MANY_EXPERTS = 150


class Agreement(NamedTuple):
    """Pairwise agreement: `tau[a, b]` from 1 (same order) to -1 (reverse order), NaN where nothing is shared.

    `shared[a, b]` is the number of pairs of items that both experts order, over all instances.
    """

    experts: list[str]
    tau: Floats
    shared: Ints


def expert_agreement(votes: Preferences | Comparisons, *, missing: str = "shared") -> Agreement:
    """Measure the agreement of every two experts: Kendall's tau-b, averaged over the instances they share.

    For comparisons it is the number of pairs of items they order alike, less those they order differently, over the
    geometric mean of the pairs each of them orders, among the pairs that both compared.

    Parameters
    ----------
    votes : Preferences or Comparisons
        The rankings or votes.
    missing : {"shared", "behind"}
        "shared": only items that both experts rank are compared. "behind": items a list leaves out are tied behind
        those it holds, so that lists without a common item disagree (tau is about -2/3).

    Notes
    -----
    For an instance of M items and K experts O(M² K²) as matrix products, or O(K² M log M) list by list, whichever is
    faster. Instances where an expert ties all items do not count for that expert.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": ["a", "b", "c"], "y": ["a", "c", "b"], "z": ["c", "b", "a"]})
    >>> expert_agreement(votes).tau.round(2).tolist()
    [[1.0, 0.33, -1.0], [0.33, 1.0, -0.33], [-1.0, -0.33, 1.0]]
    """
    if missing not in ("shared", "behind"):
        raise ParameterError.invalid("missing", "expert_agreement", "'shared' or 'behind'", missing)
    if isinstance(votes, Comparisons):
        return _of_comparisons(votes)
    if not isinstance(votes, Preferences):
        raise KindError(f"expert_agreement works on Preferences or Comparisons, not on {type(votes).__name__}.")
    behind = missing == "behind"
    k = votes.n_experts
    total, times = np.zeros((k, k)), np.zeros((k, k), dtype=np.int64)
    shared = np.zeros((k, k), dtype=np.int64)
    place, offsets, starts = votes.positions("average"), votes.slots.offsets.tolist(), votes.list_starts.tolist()
    for n in range(len(votes)):
        first, last = starts[n], starts[n + 1]
        m = offsets[n + 1] - offsets[n]
        if last - first == 0 or m < 2:
            continue
        table, experts = rank_table(votes, n, place)
        n_rows = int(votes.list_offsets[last] - votes.list_offsets[first])
        if behind:
            table[np.isnan(table)] = m + 1.0
        by_matrix = _matrix_is_faster(m, last - first, n_rows)
        tau, pairs = _tau_by_matrix(table) if by_matrix else _tau_by_list(table)
        known = ~np.isnan(tau)
        own = np.ix_(experts, experts)
        total[own] += np.where(known, tau, 0.0)
        times[own] += known
        shared[own] += pairs
    return Agreement(votes.experts.tolist(), _bounded_ratio(total, times), shared)


def _bounded_ratio(above: Floats, below: Floats | Ints) -> Floats:
    return np.clip(ratio(above, below), -1.0, 1.0)


def _matrix_is_faster(m: int, k: int, n_rows: int) -> bool:
    """Return whether matrix products over all pairs of items are faster than sorting list by list."""
    # Measured seconds: per sign and its products on the left; per expert, and per row and expert, on the right.
    return m * m / 2 * (1.2e-7 * k + 3e-9 * k * k) < 5e-4 * k + 3e-7 * n_rows * k / 2


def _tau_by_matrix(table: Floats) -> tuple[Floats, Ints]:
    """Return tau-b of every two columns over the rows where neither is NaN, and the number of pairs of such rows."""
    m, k = table.shape
    left, right = np.triu_indices(m, 1)
    agree, untied = np.zeros((k, k)), np.zeros((k, k))
    step = max(1, _BLOCK // k)
    for at in range(0, len(left), step):
        # The sums are whole numbers below 2^24, which float32 holds exactly.
        sign = np.sign(table[right[at : at + step]] - table[left[at : at + step]]).astype(np.float32)
        both = ~np.isnan(sign)
        sign[~both] = 0.0
        agree += sign.T @ sign
        untied += np.abs(sign).T @ both.astype(np.float32)
    known = (~np.isnan(table)).astype(np.float32)
    common = (known.T @ known).astype(np.int64)
    return _bounded_ratio(agree, np.sqrt(untied * untied.T)), common * (common - 1) // 2


def _tau_by_list(table: Floats) -> tuple[Floats, Ints]:
    """Return the same as `_tau_by_matrix` by counting inversions: each column against all later ones at once."""
    k = table.shape[1]
    known = ~np.isnan(table)
    # Average positions are whole numbers or halves.
    code = np.where(known, 2 * table, 0.0).astype(np.int64)
    size = known.sum(axis=0)
    ties = np.array([len(np.unique(code[known[:, e], e])) < size[e] for e in range(k)])
    tau, shared = np.full((k, k), np.nan), np.diag(size * (size - 1) // 2)
    for a in range(k):
        rows = np.flatnonzero(known[:, a])
        rows = rows[np.argsort(code[rows, a], kind="stable")]
        if len(rows) > 1 and code[rows[0], a] != code[rows[-1], a]:
            tau[a, a] = 1.0
        beside = known[rows, a + 1 :]
        # Lists one after another, each in the order of column a. Rows tied in a ascend, so they are no inversions.
        which, at = np.nonzero(beside.T)
        mine, theirs = code[rows[at], a], code[rows[at], a + 1 + which]
        if ties[a]:
            order = np.lexsort((theirs, mine, which))
            mine, theirs = mine[order], theirs[order]
        n = beside.sum(axis=0).astype(np.int64)
        pairs = n * (n - 1) // 2
        in_mine = tied_pairs(which, mine, len(n)) if ties[a] else 0
        in_theirs = tied_pairs(which, theirs, len(n)) if ties[a + 1 :].any() else 0
        in_both = tied_pairs(which, mine * (code.max() + 1) + theirs, len(n)) if ties[a] and ties[a + 1 :].any() else 0
        against = inversions(theirs, offsets_of(n))
        alike = pairs - in_mine - in_theirs + in_both - against
        below = np.sqrt((pairs - in_mine).astype(np.float64) * (pairs - in_theirs))
        tau[a, a + 1 :] = tau[a + 1 :, a] = _bounded_ratio((alike - against).astype(np.float64), below)
        shared[a, a + 1 :] = shared[a + 1 :, a] = pairs
    return tau, shared


def unordered_pairs(votes: Comparisons) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the pair of items of every row, numbered from 0, and whether the row shows the pair the other way round.

    >>> votes = Comparisons("all", None, ["a", "b", "a"], ["b", "a", "c"])
    >>> [part.tolist() for part in unordered_pairs(votes)]
    [[0, 0, 1], [False, True, False]]
    """
    flipped = votes.left > votes.right
    low, high = np.where(flipped, votes.right, votes.left), np.where(flipped, votes.left, votes.right)
    return np.unique(low.astype(np.int64) * max(votes.n_slots, 1) + high, return_inverse=True)[1], flipped


def _of_comparisons(votes: Comparisons) -> Agreement:
    if votes.expert is None:
        raise DataError("the comparisons name no experts, so there is no agreement to measure.")
    from scipy.sparse import coo_array

    pair, flipped = unordered_pairs(votes)
    net = np.where(flipped, votes.n_right - votes.n_left, votes.n_left - votes.n_right)
    heard = votes.outcomes
    shape = (int(pair.max(initial=-1)) + 1, votes.n_experts)
    sign = coo_array((net, (pair, votes.expert)), shape=shape).tocsr().sign()
    both = coo_array((heard, (pair, votes.expert)), shape=shape).tocsr().sign()
    untied = (abs(sign).T @ both).toarray()
    shared = (both.T @ both).toarray().astype(np.int64)
    return Agreement(
        votes.experts.tolist(), _bounded_ratio((sign.T @ sign).toarray(), np.sqrt(untied * untied.T)), shared
    )


def cluster_order(tau: Floats) -> Ints:
    """Order the experts so that similar ones are next to each other: average linkage of the distances 1 - tau.

    Experts who share no items count as unrelated (tau 0).

    Examples
    --------
    >>> cluster_order(np.array([[1.0, -0.5, 0.9], [-0.5, 1.0, -0.4], [0.9, -0.4, 1.0]])).tolist()
    [1, 2, 0]
    """
    k = len(tau)
    if k < 3:
        return np.arange(k, dtype=np.int64)
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    distance = 1.0 - np.nan_to_num(tau, nan=0.0)
    distance = (distance + distance.T) / 2
    np.fill_diagonal(distance, 0.0)
    # The optimal order of the leaves takes cubic time; for hundreds of experts the default order will do.
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=k <= _MANY_EXPERTS)
    return np.asarray(leaves_list(tree), dtype=np.int64)
