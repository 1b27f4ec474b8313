"""How far experts agree with the consensus and with all others, how sure that is, and who stands apart."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus, rank_scores
from concordant.data.preferences import Preferences
from concordant.inference.experts import expert_records, list_agreement
from concordant.kernels.inversions import pair_balance, tau_b

__all__ = ["ConsensusAgreement", "leave_one_out_agreement", "consensus_agreement", "outlying_experts"]

# How far below the others, in robust standard deviations, an expert stands apart, at the least.
_APART = 3.0
# With fewer experts than this nobody can be said to stand apart from the others.
_FEWEST = 4
# Which standard errors allow to say of an agreement that there is none, and how many of them.
_CLEAR, _NEAR = 0.15, 2.0


class ConsensusAgreement(NamedTuple):
    """How much every expert said, and how far it agrees with the consensus.

    Attributes
    ----------
    lists, rows : int[experts]
        Lists (instances answered, for comparisons) and statements.
    coverage : float[experts]
        The share of all items that the expert speaks of.
    mean, stderr : float[experts]
        With the consensus, from 1 to -1, and about how sure that number is (a standard error); NaN where nothing can
        be said.
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
    """Return how far every expert agrees with the consensus, as `describe_experts` measures it.

    The standard error is that of the mean over the expert's lists; of one or two lists, or of comparisons, that of
    orders drawn by chance.
    """
    if isinstance(votes, Comparisons):
        records = expert_records(votes, consensus)
        agreement = np.array([np.nan if r["agreement"] is None else r["agreement"] for r in records])
        expert = np.zeros(0, dtype=np.int32) if votes.expert is None else votes.expert
        said = np.bincount(expert, weights=votes.n_left + votes.n_right + votes.n_ties, minlength=len(records))
        return ConsensusAgreement(
            np.array([r["lists"] for r in records], dtype=np.int64),
            said.astype(np.int64),
            np.array([r["coverage"] for r in records]),
            agreement,
            1.0 / np.sqrt(np.maximum(said, 1.0)),
        )
    return _by_expert(votes, list_agreement(votes, consensus.rank, behind=votes.kind != "rating"))


def _by_expert(votes: Preferences, tau: Floats) -> ConsensusAgreement:
    """Return the means over the lists of every expert."""
    k, expert = votes.n_experts, votes.list_expert
    known = ~np.isnan(tau)
    times = np.bincount(expert[known], minlength=k)
    total = np.bincount(expert[known], weights=tau[known], minlength=k)
    mean = np.divide(total, times, out=np.full(k, np.nan), where=times > 0)
    squares = np.bincount(expert[known], weights=(tau[known] - mean[expert[known]]) ** 2, minlength=k)
    spread = np.sqrt(squares / np.maximum(times - 1, 1))
    # Of orders drawn by chance tau has the variance 2 (2m + 5) / (9 m (m - 1)).
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
    """Return how far every expert agrees with what all the others come to without it.

    An expert is part of the consensus, and of a few experts each is a large part: even one who draws by chance agrees
    with what it helped to make. Here everybody faces a sum over the others, over the items that some of them speak of
    too: of Borda points for lists (more than nothing for being listed at all), of places above or below the middle for
    ratings, and the share of wins for comparisons.

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
    expert = np.zeros(0, dtype=np.int32) if votes.expert is None else votes.expert
    net, heard = votes.n_left - votes.n_right, votes.n_left + votes.n_right + votes.n_ties

    def sums(rows: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        left, right = votes.left[rows], votes.right[rows]
        won = np.bincount(left, weights=net[rows], minlength=m) - np.bincount(right, weights=net[rows], minlength=m)
        met = np.bincount(left, weights=heard[rows], minlength=m) + np.bincount(right, heard[rows], minlength=m)
        return won.astype(np.float64), met.astype(np.float64)

    wins, times = sums(np.ones(len(expert), dtype=np.bool_))
    agreement, said = np.full(k, np.nan), np.bincount(expert, weights=heard, minlength=k)
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
    """Return the experts who stand apart, by code, and in which way.

    "turned around" agrees less than chance would, surely; "no better than chance" cannot be told from it although
    there is enough to tell; "outlier" agrees far less than the others do, by a robust measure of how they spread. Of
    many experts some differ by chance, so that the more there are, the more it takes (Bonferroni at 5 %).
    """
    value, error = agreement.mean, agreement.stderr
    known = np.flatnonzero(~np.isnan(value))
    if len(known) < _FEWEST:
        return {}
    middle = float(np.median(value[known]))
    if middle <= 0:
        return {}
    surely = NormalDist().inv_cdf(1 - 0.025 / len(known))
    spread = 1.4826 * float(np.median(np.abs(value[known] - middle)))
    out = {}
    apart = max(_APART, surely)
    for e in known[np.argsort(value[known], kind="stable")].tolist():
        gap = middle - value[e]
        if value[e] + surely * error[e] < 0:
            out[e] = "turned around"
        elif value[e] - _NEAR * error[e] <= 0 and error[e] < _CLEAR and gap > apart * error[e]:
            out[e] = "no better than chance"
        elif gap > apart * math.hypot(spread, error[e]):
            out[e] = "outlier"
    return out
