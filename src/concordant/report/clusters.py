"""Groups of experts who think alike, for crowds too large to be looked at one by one.

Experts who said the most are grouped by their agreement with each other; the consensus of every group then draws in
everybody who agrees with it more than with the others, a few times over. So a thousand experts cost a few rankings and
a sweep over the lists, not a table of all pairs of them.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.base.registry import create
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.preferences import Preferences
from concordant.errors import ConcordantWarning
from concordant.report.agreement import expert_agreement
from concordant.report.consensus_agreement import ConsensusAgreement, consensus_agreement

__all__ = ["ExpertCluster", "cluster_experts"]

_MOST_GROUPS = 6
# Whose agreement with each other is looked at, pair by pair.
_SAMPLE = 250
_PASSES = 8
# A group of fewer is no group; its members go where they fit next best.
_SMALLEST = 3


class ExpertCluster(NamedTuple):
    """Experts who agree with one ranking more than with those of the other groups.

    Attributes
    ----------
    members : int[n]
        Their codes.
    consensus : Consensus
        What they come to among themselves.
    agreement : ConsensusAgreement
        How far every expert, inside and outside, agrees with that.
    cohesion : float
        The mean agreement of the members.
    typical, deviant : int
        The members who agree with it the most and the least; among those who said more than half as much as the middle
        member, where there are such.
    """

    members: Ints
    consensus: Consensus
    agreement: ConsensusAgreement
    cohesion: float
    typical: int
    deviant: int


def cluster_experts(votes: Preferences | Comparisons, *, most: int = _MOST_GROUPS) -> list[ExpertCluster]:
    """Return groups of like-minded experts, the largest first; experts of whom nothing can be said are in none.

    Parameters
    ----------
    votes : Preferences or Comparisons
        What the experts said.
    most : int
        The most groups to make; how many there are is decided by how well they separate (the mean silhouette).

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
    if len(most_active) < 2 * _SMALLEST:
        return []
    tau = np.nan_to_num(expert_agreement(votes.select_experts(_names(votes, most_active))).tau, nan=0.0)
    np.fill_diagonal(tau, 1.0)
    parts = [most_active[label] for label in _ward_clusters(tau, most)]
    assigned: Ints | None = None
    found: list[tuple[Consensus, ConsensusAgreement]] = []
    for _ in range(_PASSES):
        found = [_cluster_consensus(votes, part) for part in parts]
        scores = np.column_stack([np.nan_to_num(s.mean, nan=-np.inf) for _, s in found])
        best = np.where(np.isinf(scores).all(axis=1), -1, scores.argmax(axis=1))
        parts = [p for g in range(len(parts)) if len(p := np.flatnonzero(best == g)) >= _SMALLEST]
        if len(parts) == len(found) and assigned is not None and np.array_equal(best, assigned):
            break
        assigned = best
    if len(parts) != len(found):
        found = [_cluster_consensus(votes, part) for part in parts]
    groups = [_group(part, consensus, s) for part, (consensus, s) in zip(parts, found, strict=True)]
    return sorted(groups, key=lambda g: (-len(g.members), int(g.members[0])))


def _names(votes: Preferences | Comparisons, codes: Ints) -> list[str]:
    return [votes.experts[int(e)] for e in codes]


def _n_statements(votes: Preferences | Comparisons) -> Floats:
    """Return how much every expert said: statements, a ballot as often as it was cast."""
    if isinstance(votes, Preferences):
        weight = votes.list_lengths * votes.weights * (votes.list_lengths > 1)
        return np.bincount(votes.list_expert, weights=weight, minlength=votes.n_experts).astype(np.float64)
    if votes.expert is None:
        return np.zeros(0)
    heard = votes.n_left + votes.n_right + votes.n_ties
    return np.bincount(votes.expert, weights=heard, minlength=votes.n_experts).astype(np.float64)


def _ward_clusters(tau: Floats, most: int) -> list[Ints]:
    """Return a partition of the experts by the profiles of their agreement, into as many parts as separate best."""
    from scipy.cluster.hierarchy import fcluster, linkage

    tree = linkage(tau, "ward")
    distance = 1.0 - (tau + tau.T) / 2
    best, chosen = -np.inf, np.zeros(len(tau), dtype=np.int64)
    for k in range(2, most + 1):
        label = fcluster(tree, k, "maxclust") - 1
        value = _silhouette(distance, label)
        if value > best:
            best, chosen = value, label
    return [np.flatnonzero(chosen == g) for g in range(int(chosen.max()) + 1)]


def _silhouette(distance: Floats, label: Ints) -> float:
    """Return the mean silhouette: how much nearer experts are to their own part than to the next."""
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
        # Who did not rate an item said nothing about it; Borda would take it for dislike.
        method = create("mpm", adherence="none", uncertainty="none")
    else:
        method = create("borda")
    with warnings.catch_warnings():
        # What a part of the crowd cannot tell is no news of the whole.
        warnings.simplefilter("ignore", ConcordantWarning)
        consensus = method.fit_predict(own)
    return consensus, consensus_agreement(votes, consensus)


def _group(members: Ints, consensus: Consensus, agreement: ConsensusAgreement) -> ExpertCluster:
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
