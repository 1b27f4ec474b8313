"""Clusters of experts with similar rankings, for crowds too large to look at one by one.

The most active experts are clustered by their pairwise agreement (Ward linkage). Then every expert moves to the cluster
whose consensus it agrees with most, for a few passes. A thousand experts cost a few consensus rankings and passes over
the lists, not a table of all pairs.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.base.registry import create
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.index import Texts
from concordant.data.preferences import Preferences
from concordant.errors import ConcordantWarning
from concordant.inference.experts import outcome_agreement
from concordant.kernels.lists import offsets_of, order_lists, ranges
from concordant.report.agreement import expert_agreement
from concordant.report.consensus_agreement import ConsensusAgreement, consensus_agreement, outcome_counts_by_expert

if TYPE_CHECKING:
    from concordant.aggregators.mixture import Mixture

__all__ = ["ExpertCluster", "camp_clusters", "cluster_experts", "cluster_p_value"]

_MAX_CLUSTERS = 6
# How many of the most active experts are compared pair by pair.
_SAMPLE = 250
_PASSES = 8
# Smaller clusters are dissolved; their members move to the next best cluster.
_MIN_SIZE = 3
# Crowds of one opinion that the clusters are compared with: 1 / 40 is the smallest p-value.
_DRAWS = 39
# Ballots are counted voter by voter in this comparison up to this many voters.
_MOST_VOTERS = 3000


class ExpertCluster(NamedTuple):
    """Experts who agree with the consensus of their cluster more than with those of the others.

    Attributes
    ----------
    members : int[n]
        Codes of the experts.
    consensus : Consensus
        Consensus of the members.
    agreement : ConsensusAgreement
        How well each expert, member or not, agrees with that consensus.
    cohesion : float
        Mean agreement of the members.
    typical, deviant : int
        The members with the highest and the lowest agreement, among those with more than half as many rows as the
        median member where there are at least two of them.
    """

    members: Ints
    consensus: Consensus
    agreement: ConsensusAgreement
    cohesion: float
    typical: int
    deviant: int


def cluster_experts(votes: Preferences | Comparisons) -> list[ExpertCluster]:
    """Cluster experts with similar rankings; return the clusters, largest first.

    Their number maximises the mean silhouette. Experts whose agreement cannot be measured are in no cluster.

    Examples
    --------
    >>> import concordant as cc
    >>> lists = {f"up-{i}": list("abcdef") for i in range(5)} | {f"down-{i}": list("fedcba") for i in range(4)}
    >>> [len(group.members) for group in cluster_experts(cc.from_lists(lists))]
    [5, 4]
    """
    if isinstance(votes, Comparisons) and votes.expert is None:
        return []
    said = _n_statements(votes)
    most_active = np.sort(np.argsort(-said, kind="stable")[:_SAMPLE])
    most_active = most_active[said[most_active] > 0]
    if len(most_active) < 2 * _MIN_SIZE:
        return []
    tau = np.nan_to_num(expert_agreement(votes.select_experts(_names(votes, most_active))).tau, nan=0.0)
    np.fill_diagonal(tau, 1.0)
    parts = [most_active[label] for label in _ward_clusters(tau)]
    assigned: Ints | None = None
    found: list[tuple[Consensus, ConsensusAgreement]] = []
    for _ in range(_PASSES):
        found = [_cluster_consensus(votes, part) for part in parts]
        scores = np.column_stack([np.nan_to_num(s.mean, nan=-np.inf) for _, s in found])
        best = np.where(np.isinf(scores).all(axis=1), -1, scores.argmax(axis=1))
        parts = [p for g in range(len(parts)) if len(p := np.flatnonzero(best == g)) >= _MIN_SIZE]
        if not parts:  # a crowd so small or so mixed that every cluster dissolves
            return []
        if len(parts) == len(found) and assigned is not None and np.array_equal(best, assigned):
            break
        assigned = best
    if len(parts) != len(found):
        found = [_cluster_consensus(votes, part) for part in parts]
    groups = [_make_cluster(part, consensus, s) for part, (consensus, s) in zip(parts, found, strict=True)]
    return sorted(groups, key=lambda g: (-len(g.members), int(g.members[0])))


def camp_clusters(votes: Preferences | Comparisons, mixture: Mixture) -> list[ExpertCluster]:
    """Return the camps that a mixture found among the experts, those with a member.

    Experts belong to their most probable camp; those whose agreement cannot be measured are in none.

    Examples
    --------
    >>> import concordant as cc
    >>> lists = {f"up-{i}": list("abcdef") for i in range(9)} | {f"down-{i}": list("fedcba") for i in range(6)}
    >>> mixture = cc.Mixture(of="mallows").fit(cc.from_lists(lists))
    >>> [len(group.members) for group in camp_clusters(cc.from_lists(lists), mixture)]
    [9, 6]
    """
    own = dict(zip(mixture.experts_, mixture.responsibilities_.argmax(axis=1).tolist(), strict=True))
    camp = np.array([own.get(e, -1) for e in votes.experts])
    out = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        boards = mixture.camps(votes)
    for c, board in enumerate(boards):
        agreement = consensus_agreement(votes, board)
        members = np.flatnonzero((camp == c) & ~np.isnan(agreement.mean))
        if len(members):
            out.append(_make_cluster(members, board, agreement))
    return out


def cluster_p_value(votes: Preferences | Comparisons, *, random_state: int = 0) -> float:
    """Return the p-value of the hypothesis that the experts share one opinion and differ by chance only.

    Any crowd can be split. The statistic is how much better experts agree with the consensus of their cluster than with
    that of all. It is compared with its values in simulated crowds of one opinion, clustered in the same way: lists of
    the same items drawn from a Plackett-Luce model fitted to all lists, or outcomes of the same pairs from a
    Bradley-Terry model.

    Notes
    -----
    A parametric bootstrap with 39 draws: p = (1 + number of draws with a larger statistic) / 40. Costs 40 times
    `cluster_experts`. Ballots that were cast several times are counted voter by voter.

    Examples
    --------
    >>> import concordant as cc
    >>> lists = {f"up-{i}": list("abcdef") for i in range(5)} | {f"down-{i}": list("fedcba") for i in range(5)}
    >>> cluster_p_value(cc.from_lists(lists))
    0.025
    """
    voters = _one_by_one(votes) if isinstance(votes, Preferences) else votes
    observed = _gain(voters)
    if observed <= 0:
        return 1.0
    rng = np.random.default_rng(random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        name = "bradley-terry" if isinstance(voters, Comparisons) else "plackett-luce"
        score = create(name, uncertainty="none").fit_predict(voters).score
    larger = sum(_gain(_one_opinion(voters, score, rng)) >= observed for _ in range(_DRAWS))
    return (1 + larger) / (1 + _DRAWS)


def _gain(votes: Preferences | Comparisons) -> float:
    """Return how much better experts agree with their cluster's consensus than with that of all, on average."""
    groups = cluster_experts(votes)
    if len(groups) < 2:
        return 0.0
    members = np.concatenate([g.members for g in groups])
    own = np.concatenate([g.agreement.mean[g.members] for g in groups])
    # Nobody agrees or disagrees with a consensus in which all items tie.
    overall = np.nan_to_num(_cluster_consensus(votes, np.arange(len(votes.experts)))[1].mean[members])
    return float(np.mean(own - overall))


def _one_opinion(
    votes: Preferences | Comparisons, score: Floats, rng: np.random.Generator
) -> Preferences | Comparisons:
    """Return votes of the same shape drawn from one model with these scores."""
    if isinstance(votes, Comparisons):
        decided = votes.n_left + votes.n_right
        p = 1.0 / (1.0 + np.exp(score[votes.right] - score[votes.left]))
        won = rng.binomial(np.floor(decided).astype(np.int64), p) + (decided % 1.0) * p
        return votes.with_counts(won, decided - won, votes.n_ties)
    key = score[votes.slot] + rng.gumbel(size=votes.n_rows)
    value = np.empty(votes.n_rows)
    value[order_lists(-key, votes.list_offsets)] = votes.value[order_lists(-votes.strengths(), votes.list_offsets)]
    return Preferences.from_codes(
        votes.slots,
        votes.experts,
        votes.list_expert,
        votes.list_offsets,
        votes.list_starts,
        votes.slot,
        value,
        kind=votes.kind,
        list_weight=votes.list_weight,
        below=votes.below(),
    )


def _one_by_one(votes: Preferences) -> Preferences:
    """Return ballots with whole weights as that many experts of weight 1; other votes as they are."""
    weights = votes.weights
    if votes.list_weight is None or (weights != np.floor(weights)).any() or weights.sum() > _MOST_VOTERS:
        return votes
    times = weights.astype(np.int64)
    lists = np.repeat(np.arange(votes.n_lists), times)
    rows = ranges(votes.list_offsets[lists], votes.list_offsets[lists + 1])
    instance = votes.list_instance[lists]
    return Preferences.from_codes(
        votes.slots,
        Texts([f"voter {k}" for k in range(1, len(lists) + 1)]),
        np.arange(len(lists), dtype=np.int32),
        offsets_of(votes.list_lengths[lists]),
        np.searchsorted(instance, np.arange(len(votes) + 1)),
        votes.slot[rows],
        votes.value[rows],
        kind=votes.kind,
        below=votes.below(),
    )


def _names(votes: Preferences | Comparisons, codes: Ints) -> list[str]:
    return [votes.experts[int(e)] for e in codes]


def _n_statements(votes: Preferences | Comparisons) -> Floats:
    """Return the weighted number of rows of each expert; lists of one item do not count."""
    if isinstance(votes, Preferences):
        weight = votes.list_lengths * votes.weights * (votes.list_lengths > 1)
        return np.bincount(votes.list_expert, weights=weight, minlength=votes.n_experts).astype(np.float64)
    return outcome_counts_by_expert(votes)


def _ward_clusters(tau: Floats) -> list[Ints]:
    """Cut a Ward tree of the agreement profiles into the number of clusters with the best mean silhouette."""
    from scipy.cluster.hierarchy import fcluster, linkage

    tree = linkage(tau, "ward")
    distance = 1.0 - (tau + tau.T) / 2
    best, chosen = -np.inf, np.zeros(len(tau), dtype=np.int64)
    for k in range(2, _MAX_CLUSTERS + 1):
        label = fcluster(tree, k, "maxclust") - 1
        value = _silhouette(distance, label)
        if value > best:
            best, chosen = value, label
    return [np.flatnonzero(chosen == g) for g in range(int(chosen.max()) + 1)]


def _silhouette(distance: Floats, label: Ints) -> float:
    """Return the mean silhouette: how much closer experts are to their own cluster than to the next one."""
    member = np.eye(int(label.max()) + 1)[label]
    size = member.sum(axis=0)
    own = np.arange(len(label))
    total = distance @ member
    inside = total[own, label] / np.maximum(size[label] - 1, 1)
    outside = total / size
    outside[own, label] = np.inf
    nearest = outside.min(axis=1)
    value = np.where(size[label] > 1, (nearest - inside) / np.maximum(np.maximum(nearest, inside), 1e-12), 0.0)
    return float(value.mean())


def _cluster_consensus(votes: Preferences | Comparisons, part: Ints) -> tuple[Consensus, ConsensusAgreement]:
    own = votes.select_experts(_names(votes, part))
    if isinstance(votes, Comparisons):
        method = create("bradley-terry", uncertainty="none")
    elif votes.kind == "rating":
        # A missing rating says nothing about the item; Borda would count it as the lowest.
        method = create("mpm", adherence="none", uncertainty="none")
    else:
        method = create("borda")
    with warnings.catch_warnings():
        # Warnings about a part of the experts say nothing about all of them.
        warnings.simplefilter("ignore", ConcordantWarning)
        consensus = method.fit_predict(own)
    if isinstance(votes, Preferences):
        return consensus, consensus_agreement(votes, consensus)
    said = outcome_counts_by_expert(votes)
    lists, error = (said > 0).astype(np.int64), 1.0 / np.sqrt(np.maximum(said, 1.0))
    mean = outcome_agreement(votes, consensus.rank)
    return consensus, ConsensusAgreement(lists, said.astype(np.int64), np.full(len(said), np.nan), mean, error)


def _make_cluster(members: Ints, consensus: Consensus, agreement: ConsensusAgreement) -> ExpertCluster:
    value, rows = agreement.mean[members], agreement.rows[members]
    heard = rows * 2 > np.median(rows)
    shown = np.where(heard, value, np.nan) if heard.sum() > 1 else value
    return ExpertCluster(
        members,
        consensus,
        agreement,
        float(np.nanmean(value)),
        int(members[np.nanargmax(shown)]),
        int(members[np.nanargmin(shown)]),
    )
