"""Agreement of each expert with the consensus and with the other experts, its standard error, and outliers."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus, rank_scores
from concordant.data.preferences import Preferences
from concordant.inference.experts import expert_records, list_agreement
from concordant.kernels.inversions import pair_balance, tau_b
from concordant.kernels.ratios import ratio

__all__ = [
    "ConsensusAgreement",
    "consensus_agreement",
    "group_means",
    "leave_one_out_agreement",
    "outcome_counts_by_expert",
    "outlying_experts",
]

# An outlier lies at least this many robust standard deviations below the median expert.
_OUTLIER_DEVIATIONS = 3.0
# With fewer experts there is no majority to differ from.
_MIN_EXPERTS = 4
# "No better than chance" needs a standard error below the first, and 0 within the second times that error.
_MAX_STDERR, _NEAR_ZERO = 0.15, 2.0


class ConsensusAgreement(NamedTuple):
    """How many items each expert ranked or compared, and how well it agrees with a consensus.

    Attributes
    ----------
    lists, rows : int[experts]
        Lists (for comparisons: instances with a vote of the expert) and rows (for comparisons: outcomes).
    coverage : float[experts]
        The share of all items that the expert ranked or compared.
    mean, stderr : float[experts]
        Mean agreement, from 1 to -1, and its standard error; NaN where it cannot be measured.
    by_list : float[lists], optional
        The agreement of every list, in the order of the preferences.
    """

    lists: Ints
    rows: Ints
    coverage: Floats
    mean: Floats
    stderr: Floats
    by_list: Floats | None = None


def consensus_agreement(votes: Preferences | Comparisons, consensus: Consensus) -> ConsensusAgreement:
    """Measure how well each expert agrees with the consensus, as `describe_experts` does.

    The standard error is that of the mean over the expert's lists. With one or two lists, and for comparisons, it is
    that of random orders.
    """
    if isinstance(votes, Comparisons):
        records = expert_records(votes, consensus)
        agreement = np.array([np.nan if r["agreement"] is None else r["agreement"] for r in records])
        said = outcome_counts_by_expert(votes)
        return ConsensusAgreement(
            np.array([r["lists"] for r in records], dtype=np.int64),
            said.astype(np.int64),
            np.array([r["coverage"] for r in records]),
            agreement,
            1.0 / np.sqrt(np.maximum(said, 1.0)),
        )
    return _by_expert(votes, list_agreement(votes, consensus.rank, behind=votes.kind != "rating"))


def group_means(values: Floats, group: Codes | Ints, n: int) -> tuple[Floats, Ints]:
    """Return the mean of the values in each of n groups, and their number; NaN values do not count.

    >>> [part.tolist() for part in group_means(np.array([1.0, 3.0, np.nan]), np.array([0, 0, 1]), 2)]
    [[2.0, nan], [2, 0]]
    """
    known = ~np.isnan(values)
    count = np.bincount(group[known], minlength=n)
    total = np.bincount(group[known], weights=values[known], minlength=n)
    return ratio(total, count), count


def outcome_counts_by_expert(votes: Comparisons) -> Floats:
    """Return the number of outcomes (wins, losses and ties) of each expert; empty where experts are not named."""
    if votes.expert is None:
        return np.zeros(0)
    outcomes = votes.outcomes
    return np.bincount(votes.expert, weights=outcomes, minlength=votes.n_experts).astype(np.float64)


def _by_expert(votes: Preferences, tau: Floats) -> ConsensusAgreement:
    """Average the agreement of the lists over each expert."""
    k, expert = votes.n_experts, votes.list_expert
    known = ~np.isnan(tau)
    mean, times = group_means(tau, expert, k)
    squares = np.bincount(expert[known], weights=(tau[known] - mean[expert[known]]) ** 2, minlength=k)
    spread = np.sqrt(squares / np.maximum(times - 1, 1))
    # The tau of two random orders of m items has the variance 2 (2m + 5) / (9 m (m - 1)).
    m = np.maximum(votes.list_lengths[known], 2).astype(np.float64)
    chance = np.bincount(expert[known], weights=2 * (2 * m + 5) / (9 * m * (m - 1)), minlength=k)
    error = np.where(times > 2, spread / np.sqrt(np.maximum(times, 1)), np.sqrt(chance) / np.maximum(times, 1))
    rows = np.bincount(expert, weights=votes.list_lengths, minlength=k)
    return ConsensusAgreement(
        np.bincount(expert, minlength=k),
        rows.astype(np.int64),
        rows / max(votes.n_slots, 1),
        mean,
        np.where(times > 0, error, np.nan),
        tau,
    )


def leave_one_out_agreement(votes: Preferences | Comparisons) -> ConsensusAgreement:
    """Measure how well each expert agrees with the consensus of all other experts.

    An expert is part of the consensus. Among few experts even a random one agrees with it. Here each expert is compared
    with a sum over the others, on the items that at least one other expert ranks: Borda points for lists (with points
    for being listed), positions above or below the middle for ratings, the net share of wins for comparisons.

    Notes
    -----
    O(K S log S) for K experts and S items over all instances.

    Examples
    --------
    >>> import concordant as cc
    >>> lists = {"w": ["a", "b", "c"], "x": ["a", "b", "c"], "y": ["a", "b", "c"], "z": ["c", "b", "a"]}
    >>> leave_one_out_agreement(cc.from_lists(lists)).mean.tolist()
    [1.0, 1.0, 1.0, -1.0]
    """
    if isinstance(votes, Comparisons):
        return _leave_one_judge_out(votes)
    m = votes.slots.sizes[votes.list_instance].astype(np.float64)[votes.row_list]
    listed = votes.list_lengths.astype(np.float64)[votes.row_list]
    place = votes.positions("average")
    middle = (listed + 1) / 2 if votes.kind == "rating" else (m + listed + 1) / 2
    points = (middle - place) * votes.weights[votes.row_list]
    total = np.bincount(votes.slot, weights=points, minlength=votes.n_slots)
    held = np.bincount(votes.slot, minlength=votes.n_slots)
    own = np.rint(2 * place).astype(np.int64)
    tau = np.full(votes.n_lists, np.nan)
    by_expert = np.argsort(votes.row_expert, kind="stable")
    edges = np.cumsum(np.bincount(votes.row_expert, minlength=votes.n_experts))
    for e in range(votes.n_experts):
        rows = by_expert[edges[e - 1] if e else 0 : edges[e]]
        rest = total.astype(np.float64)
        rest[votes.slot[rows]] -= points[rows]
        rank, _ = rank_scores(rest, votes.slots.offsets)
        rows = rows[held[votes.slot[rows]] > 1]
        found = tau_b(
            *pair_balance(votes.row_list[rows], own[rows], rank[votes.slot[rows]].astype(np.int64), votes.n_lists)
        )
        tau = np.where(votes.list_expert == e, found, tau)
    return _by_expert(votes, tau)


def _leave_one_judge_out(votes: Comparisons) -> ConsensusAgreement:
    k, m = votes.n_experts, votes.n_slots
    expert = votes.row_expert
    net, heard = votes.n_left - votes.n_right, votes.outcomes

    def sums(rows: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        left, right = votes.left[rows], votes.right[rows]
        won = np.bincount(left, weights=net[rows], minlength=m) - np.bincount(right, weights=net[rows], minlength=m)
        met = np.bincount(left, weights=heard[rows], minlength=m) + np.bincount(right, heard[rows], minlength=m)
        return won.astype(np.float64), met.astype(np.float64)

    wins, times = sums(np.ones(len(expert), dtype=np.bool_))
    agreement, said = np.full(k, np.nan), outcome_counts_by_expert(votes)
    for e in np.flatnonzero(said > 0).tolist():
        own = expert == e
        own_wins, own_times = sums(own)
        rest = (wins - own_wins) / np.maximum(times - own_times, 1.0)
        sign = np.sign(rest[votes.left[own]] - rest[votes.right[own]])
        agreement[e] = float((sign * net[own]).sum() / said[e])
    nothing = np.zeros(k, dtype=np.int64)
    error = 1.0 / np.sqrt(np.maximum(said, 1.0))
    return ConsensusAgreement(nothing, said.astype(np.int64), np.zeros(k), agreement, error)


def outlying_experts(agreement: ConsensusAgreement) -> dict[int, str]:
    """Find experts whose agreement is unusually low; return code -> reason.

    "inverted": the agreement is significantly negative. "no better than chance": it cannot be told from 0 although
    there is enough data. "outlier": it lies far below the median expert, measured by the median absolute deviation.
    Bounds are corrected for the number of experts (Bonferroni at 5 %).
    """
    value, error = agreement.mean, agreement.stderr
    known = np.flatnonzero(~np.isnan(value))
    if len(known) < _MIN_EXPERTS:
        return {}
    middle = float(np.median(value[known]))
    if middle <= 0:
        return {}
    surely = NormalDist().inv_cdf(1 - 0.025 / len(known))
    spread = 1.4826 * float(np.median(np.abs(value[known] - middle)))
    out = {}
    apart = max(_OUTLIER_DEVIATIONS, surely)
    for e in known[np.argsort(value[known], kind="stable")].tolist():
        gap = middle - value[e]
        if value[e] + surely * error[e] < 0:
            out[e] = "inverted"
        elif value[e] - _NEAR_ZERO * error[e] <= 0 and error[e] < _MAX_STDERR and gap > apart * error[e]:
            out[e] = "no better than chance"
        elif gap > apart * math.hypot(spread, error[e]):
            out[e] = "outlier"
    return out
