"""Who agrees with whom: Kendall's tau between every two experts, and the order that puts like-minded ones together.

Lists of one instance are compared all at once: with S the signs of all pairs of items, one column per expert, the
differences of concordant and discordant pairs of all experts are the product of S with itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concordant.data.comparisons import Comparisons
from concordant.data.preferences import Preferences
from concordant.errors import DataError, KindError, ParameterError
from concordant.kernels.lists import Floats, Ints

__all__ = ["Agreement", "cluster_order", "expert_agreement"]

# Instances with more items are compared list by list, which is not quadratic in the items.
_MANY_ITEMS = 250
# How many signs are held at a time.
_BLOCK = 4_000_000
_MANY_EXPERTS = 150


class Agreement(NamedTuple):
    """How far experts agree: `tau[a, b]` from 1 (the same order) to -1 (the reverse), NaN where they never meet.

    `shared[a, b]` counts the instances the mean is over; for comparisons the pairs of items both compared.
    """

    experts: list[str]
    tau: Floats
    shared: Ints


def expert_agreement(votes: Preferences | Comparisons, *, missing: str = "auto") -> Agreement:
    """Return how far every two experts agree: Kendall's tau-b, averaged over the instances both answer.

    For comparisons it is the number of pairs of items they order alike, less those they order differently, over the
    geometric mean of the pairs each of them orders, among the pairs that both compared.

    Parameters
    ----------
    votes : Preferences or Comparisons
        What the experts said.
    missing : {"auto", "behind", "shared"}
        "behind": items a list leaves out are tied behind those it holds. "shared": only items that both experts rank
        are compared. "auto": "behind" for ranks and scores, "shared" for ratings, as `describe_experts` does.

    Notes
    -----
    For an instance of M items and K experts O(M² K²) up to 250 items, as matrix products, and O(K² M log M) beyond.
    Instances in which an expert ties all items say nothing about it.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": ["a", "b", "c"], "y": ["a", "c", "b"], "z": ["c", "b", "a"]})
    >>> expert_agreement(votes).tau.round(2).tolist()
    [[1.0, 0.33, -1.0], [0.33, 1.0, -0.33], [-1.0, -0.33, 1.0]]
    """
    if missing not in ("auto", "behind", "shared"):
        raise ParameterError.invalid("missing", "expert_agreement", "'auto', 'behind' or 'shared'", missing)
    if isinstance(votes, Comparisons):
        return _of_comparisons(votes)
    if not isinstance(votes, Preferences):
        raise KindError(f"expert_agreement works on Preferences or Comparisons, not on {type(votes).__name__}.")
    behind = missing == "behind" or (missing == "auto" and votes.kind != "rating")
    k = votes.n_experts
    total, times = np.zeros((k, k)), np.zeros((k, k), dtype=np.int64)
    place, offsets, starts = votes.positions("average"), votes.slots.offsets.tolist(), votes.list_starts.tolist()
    for n in range(len(votes)):
        first, last = starts[n], starts[n + 1]
        m = offsets[n + 1] - offsets[n]
        if last - first == 0 or m < 2:
            continue
        rows = slice(int(votes.list_offsets[first]), int(votes.list_offsets[last]))
        table = np.full((m, last - first), m + 1.0 if behind else np.nan)
        table[votes.slot[rows] - offsets[n], votes.row_list[rows] - first] = place[rows]
        tau = _of_table(table) if m <= _MANY_ITEMS else _one_by_one(table, m + 1.0)
        known = ~np.isnan(tau)
        own = np.ix_(votes.list_expert[first:last], votes.list_expert[first:last])
        total[own] += np.where(known, tau, 0.0)
        times[own] += known
    return Agreement(votes.experts.tolist(), _over(total, times), times)


def _over(above: Floats, below: Floats | Ints) -> Floats:
    out: Floats = np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0)
    return np.clip(out, -1.0, 1.0)


def _of_table(table: Floats) -> Floats:
    """Return tau-b of every two columns of ranks, over the rows in which neither is NaN."""
    m, k = table.shape
    left, right = np.triu_indices(m, 1)
    agree, untied = np.zeros((k, k)), np.zeros((k, k))
    step = max(1, _BLOCK // k)
    for at in range(0, len(left), step):
        # Whole numbers below 2^24: single precision adds them exactly.
        sign = np.sign(table[right[at : at + step]] - table[left[at : at + step]]).astype(np.float32)
        both = ~np.isnan(sign)
        sign[~both] = 0.0
        agree += sign.T @ sign
        untied += np.abs(sign).T @ both.astype(np.float32)
    return _over(agree, np.sqrt(untied * untied.T))


def _one_by_one(table: Floats, behind: float) -> Floats:
    """Return the same for many rows; rows that both columns put behind tell nothing and are left out."""
    from concordant.metrics.distances import kendall_tau_b

    k = table.shape[1]
    listed = ~np.isnan(table) & (table < behind)
    known = ~np.isnan(table)
    tau = np.full((k, k), np.nan)
    for a in range(k):
        if len(np.unique(table[known[:, a], a])) > 1:
            tau[a, a] = 1.0
        for b in range(a + 1, k):
            rows = np.flatnonzero((listed[:, a] | listed[:, b]) & known[:, a] & known[:, b])
            if len(rows) > 1:
                tau[a, b] = tau[b, a] = kendall_tau_b(table[rows, a], table[rows, b])
    return tau


def _of_comparisons(votes: Comparisons) -> Agreement:
    if votes.expert is None:
        raise DataError("the comparisons name no experts, so that nobody can agree with anybody.")
    from scipy.sparse import coo_array

    # A pair shown the other way round is the same pair.
    turned = votes.left > votes.right
    low, high = np.where(turned, votes.right, votes.left), np.where(turned, votes.left, votes.right)
    pair = np.unique(low.astype(np.int64) * max(votes.n_slots, 1) + high, return_inverse=True)[1]
    net = np.where(turned, votes.n_right - votes.n_left, votes.n_left - votes.n_right)
    heard = votes.n_left + votes.n_right + votes.n_ties
    shape = (int(pair.max(initial=-1)) + 1, votes.n_experts)
    sign = coo_array((net, (pair, votes.expert)), shape=shape).tocsr().sign()
    both = coo_array((heard, (pair, votes.expert)), shape=shape).tocsr().sign()
    untied = (abs(sign).T @ both).toarray()
    shared = (both.T @ both).toarray().astype(np.int64)
    return Agreement(votes.experts.tolist(), _over((sign.T @ sign).toarray(), np.sqrt(untied * untied.T)), shared)


def cluster_order(tau: Floats) -> Ints:
    """Return the experts ordered so that those who agree stand together: average linkage of the distances 1 - tau.

    Experts who never meet count as unrelated (tau 0).

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

    apart = 1.0 - np.nan_to_num(tau, nan=0.0)
    apart = (apart + apart.T) / 2
    np.fill_diagonal(apart, 0.0)
    # The best order of the leaves takes time cubic in the experts; a good one does for hundreds.
    tree = linkage(squareform(apart, checks=False), "average", optimal_ordering=k <= _MANY_EXPERTS)
    return np.asarray(leaves_list(tree), dtype=np.int64)
