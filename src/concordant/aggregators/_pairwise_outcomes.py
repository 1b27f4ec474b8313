"""Pairwise outcomes of rankings, ratings and comparisons, for Bradley-Terry and related models.

Lists and comparisons offer the same three things: pair counts, the gradients of the experts as clusters, and pair
counts with experts (or outcomes) reweighted by a Bayesian bootstrap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from concordant.arrays import Bools, Codes, Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.index import Slots
from concordant.data.preferences import Preferences
from concordant.data.streams import bayesian_bootstrap_weights
from concordant.inference.uncertainty import WEAK_PRIOR
from concordant.kernels.lists import list_sums
from concordant.kernels.pairwise_wins import pair_room, pairs_held

if TYPE_CHECKING:
    from concordant.kernels.bradley_terry import ListClusters, Shared
    from concordant.kernels.bradley_terry_lists import ListPairs
    from concordant.kernels.bradley_terry_votes import VoteRows
    from concordant.kernels.pair_counts import Pairs

__all__ = [
    "ListOutcomes",
    "PairwiseOutcomes",
    "ExpertGradients",
    "ComparisonOutcomes",
    "has_ties",
    "pairs_per_choice",
    "with_reweighted_outcomes",
]

P = TypeVar("P", "Pairs", "VoteRows")

# Precision of the prior behind published rows, for outcomes from lists, in units of T / M.
_PUBLISHED_PRIOR = 2.0
# About this many pairs of lists are counted at a time, where several instances allow it.
_BLOCK_PAIRS = 1 << 22
# Lists of which the average item meets this many others are long: sums over their pairs need no pair counts.
_LONG = 200


def pairs_per_choice(votes: Preferences, totals: Floats) -> Floats:
    """Return pairs per choice in the lists of every instance, `totals` being its pairs; 1 for an instance without any.

    A list of m items is m − 1 choices of the next best item, and m (m − 1) / 2 pairs: a likelihood of pairs counts a
    list m / 2 times over.
    """
    choices = votes.weights * (votes.list_lengths - 1)
    per_instance = np.bincount(votes.list_instance, choices, len(votes))
    out: Floats = np.where((per_instance > 0) & (totals > 0), totals / np.maximum(per_instance, 1e-300), 1.0)
    return out


def has_ties(votes: Preferences | Comparisons, transform: str) -> bool:
    """Return whether votes hold ties under a transform of lists."""
    if isinstance(votes, Comparisons):
        return bool(votes.n_ties.any())
    if transform != "binary" or not votes.n_rows:
        return False
    most = np.maximum.reduceat(votes.positions("dense"), votes.list_offsets[:-1])
    return bool(((most < votes.list_lengths) & (votes.weights > 0)).any())


class ExpertGradients(NamedTuple):
    """The experts of an instance as clusters.

    Attributes
    ----------
    gradients : float64[G, p]
        Gradient of each expert's log-likelihood along the scores, then along the shared parameters learned.
    information : float64[G, m]
        The diagonal of the expert's −Hessian, along the scores.
    weight : float64[G]
        Number of experts each row stands for.
    """

    gradients: Floats
    information: Floats
    weight: Floats


class PairwiseOutcomes:
    """Pairwise outcomes of a container: pair counts, and the gradients of its experts.

    Attributes
    ----------
    derived : bool
        Whether the outcomes are derived from lists: the pairs of one list are not independent observations.
    has_experts : bool
        Whether the expert of each outcome is known.
    has_covariates : bool
        Whether the outcomes carry covariates of the vote.
    """

    slots: Slots
    derived: bool
    has_experts: bool
    has_covariates = False

    @cached_property
    def pairs(self) -> Pairs:
        """The pair counts."""
        raise NotImplementedError

    @property
    def comparison_graph(self) -> tuple[Codes, Codes]:
        """Edges between slots that met, as two columns: enough of them to have the same connected components."""
        raise NotImplementedError

    @property
    def all_ties(self) -> bool:
        """Whether there are outcomes, and all of them are ties."""
        p = self.pairs
        return bool(p.n_ties.any()) and not (p.n_left.any() or p.n_right.any())

    def observed_instances(self) -> Iterator[tuple[int, slice]]:
        """Yield the instances that have outcomes, and their slots."""
        edges = self.slots.offsets.tolist()
        for n in np.flatnonzero(self.totals > 0).tolist():
            yield n, slice(edges[n], edges[n + 1])

    def windows(self) -> list[PairwiseOutcomes]:
        """Return the outcomes in windows of whole instances, each with pair counts that fit in memory."""
        return [self]

    @property
    def statistics(self) -> Pairs | ListPairs | VoteRows:
        """The outcomes as a likelihood takes them: pair counts, votes with covariates, or long lists as they are."""
        return self.pairs

    @property
    def counted(self) -> Pairs | VoteRows:
        """The outcomes as pair counts, or as votes with covariates."""
        return self.pairs

    @property
    def wins_and_ties(self) -> tuple[float, float, float]:
        """Wins of the left item, wins of the right one, and ties; lists that are not counted have no right side."""
        p = self.pairs
        return float(p.n_left.sum()), float(p.n_right.sum()), float(p.n_ties.sum())

    def expert_gradients(self, instance: int, score: Floats, shared: Shared, learned: Ints) -> ExpertGradients:
        """Return the gradients of the experts of an instance."""
        raise NotImplementedError

    def information_lost_to_habits(self, instance: int, score: Floats, shared: Shared, learned: Ints) -> Any:
        """Return the information on scores and `learned` lost by estimating habits too (a Schur complement)."""
        return 0.0

    def clusters(self, score: Floats, prior: Floats) -> list[ListClusters]:
        """Return the sums over experts as clusters, for those instances that one compiled loop does faster."""
        return []

    def resampled(self, streams: Sequence[np.random.Generator]) -> Pairs | VoteRows:
        """Return the pair counts with experts (or outcomes, without experts) reweighted, one stream per instance."""
        raise NotImplementedError

    @cached_property
    def calibration(self) -> Floats:
        """Outcomes of each instance per choice that was made: 1 for comparisons."""
        raise NotImplementedError

    def prior_precision(self, prior: str | float) -> Floats:
        """Return the precision of the scores' normal prior in every instance.

        "auto" is weak, "published" that of the published rows: 2 T / M for lists, T outcomes and M items of an
        instance. A number holds for all instances.
        """
        sizes = self.slots.sizes
        if not isinstance(prior, str):
            return np.full(len(sizes), float(prior))
        if prior == "published" and self.derived:
            return np.asarray(_PUBLISHED_PRIOR * self.totals / np.maximum(sizes, 1), dtype=np.float64)
        return WEAK_PRIOR * self.calibration

    @cached_property
    def totals(self) -> Floats:
        """Number of outcomes of each instance."""
        return list_sums(self.pairs.outcomes, self.pairs.starts)

    @cached_property
    def compared(self) -> Any:
        """Whether the item of each slot has an outcome."""
        p = self.pairs
        whole = np.bincount(p.left, p.outcomes, p.n_slots) + np.bincount(p.right, p.outcomes, p.n_slots)
        return whole > 0


class ComparisonOutcomes(PairwiseOutcomes):
    """Pairwise outcomes observed as comparisons, or lists of which every pair of every expert is written out."""

    def __init__(self, votes: Comparisons, ties: bool, sided: bool, lists: Preferences | None = None) -> None:
        self.slots = votes.slots
        self.lists = lists
        self.derived = lists is not None
        self.votes = votes
        self.sided = sided
        self.n_ties = votes.n_ties if ties or not len(votes.n_ties) else np.zeros(votes.n_rows)
        self.has_experts = votes.expert is not None

    @cached_property
    def calibration(self) -> Floats:
        return np.ones(len(self.slots)) if self.lists is None else pairs_per_choice(self.lists, self.totals)

    @property
    def rows(self) -> tuple[Codes, Codes, Floats, Floats, Floats]:
        """The columns of the comparisons: slots, then counts."""
        c = self.votes
        return c.left, c.right, c.n_left, c.n_right, self.n_ties

    @cached_property
    def pairs(self) -> Pairs:
        from concordant.kernels.pair_counts import from_rows

        return from_rows(*self.rows, self.votes.row_starts, self.slots.offsets, ordered=self.sided)

    @property
    def comparison_graph(self) -> tuple[Codes, Codes]:
        return self.pairs.left, self.pairs.right

    def _clusters(self, instance: int) -> tuple[tuple[int, int], Codes, int]:
        """Return where the rows of an instance begin and end, the cluster of each row, and the number of clusters.

        A cluster is an expert. Experts without an outcome do not count.
        """
        c = self.votes
        ends = int(c.row_starts[instance]), int(c.row_starts[instance + 1])
        rows = slice(*ends)
        expert = np.zeros(0, dtype=np.int32) if c.expert is None else c.expert[rows]
        outcomes = c.n_left[rows] + c.n_right[rows] + self.n_ties[rows]
        informative = self._informative(expert, outcomes)
        number_of = np.cumsum(informative) - 1
        # A row without an outcome has gradient 0: its cluster does not matter.
        return ends, np.maximum(number_of[expert], 0).astype(np.int32), int(informative.sum())

    def _informative(self, expert: Codes, outcomes: Floats) -> Bools:
        """Return which experts have an outcome, given the experts and the outcomes of some rows."""
        n = self.votes.n_experts
        return np.bincount(expert, outcomes, n) > 0 if len(expert) else np.zeros(n, np.bool_)

    def clustered_experts(self, instance: int) -> Ints:
        """Return the experts that are the clusters of an instance, in the order of `expert_gradients`."""
        ends = slice(int(self.votes.row_starts[instance]), int(self.votes.row_starts[instance + 1]))
        _, _, n_left, n_right, n_ties = (column[ends] for column in self.rows)
        return np.flatnonzero(self._informative(self.votes.row_expert[ends], n_left + n_right + n_ties))

    def expert_gradients(self, instance: int, score: Floats, shared: Shared, learned: Ints) -> ExpertGradients:
        from concordant.kernels.bradley_terry import row_gradients

        ends, cluster, n = self._clusters(instance)
        slots = int(self.slots.offsets[instance]), int(self.slots.offsets[instance + 1])
        return ExpertGradients(*row_gradients(self.rows, cluster, ends, slots, n, score, shared, learned), np.ones(n))

    def resampled(self, streams: Sequence[np.random.Generator]) -> Pairs | VoteRows:
        from concordant.kernels.pair_counts import from_rows

        if not self.has_experts:
            return with_reweighted_outcomes(self.pairs, streams)
        factor = self._expert_factors(streams)
        left, right, n_left, n_right, n_ties = self.rows
        reweighted = left, right, n_left * factor, n_right * factor, n_ties * factor
        return from_rows(*reweighted, self.votes.row_starts, self.slots.offsets, ordered=self.sided)

    def _expert_factors(self, streams: Sequence[np.random.Generator]) -> Floats:
        """Return the bootstrap weight of every row: that of its expert in its instance."""
        factor = np.ones(self.votes.n_rows)
        for n, stream in enumerate(streams):
            (first, last), cluster, size = self._clusters(n)
            if size:
                factor[first:last] = bayesian_bootstrap_weights(np.ones(size), stream)[cluster]
        return factor


def with_reweighted_outcomes(rows: P, streams: Sequence[np.random.Generator]) -> P:
    """Return pairs or votes with their outcomes reweighted by the bootstrap, one stream per instance."""
    counts = np.stack([rows.n_left, rows.n_right, rows.n_ties])
    for (first, last), stream in zip(pairwise(rows.starts.tolist()), streams, strict=True):
        for own in counts:
            own[first:last] = bayesian_bootstrap_weights(own[first:last], stream)
    return rows._replace(n_left=counts[0], n_right=counts[1], n_ties=counts[2])


class ListOutcomes(PairwiseOutcomes):
    """Pairwise outcomes of lists: a list holds all pairs of its items, weighted by a transform of their ranks.

    With `uncounted`, long lists are given to the likelihood as they are (`statistics`) where their pairs are many. That
    takes a likelihood in which all pairs of a list are outcomes and the winner of a pair only adds a linear term: no
    transform, no ties or Davidson's.
    """

    derived = True
    has_experts = True

    def __init__(self, votes: Preferences, value: Floats, binary: bool, ties: bool, uncounted: bool = False) -> None:
        self.slots = votes.slots
        self.votes = votes
        self.value = value
        self.binary = binary
        self.ties = ties
        self.uncounted = uncounted

    @staticmethod
    def of(votes: Preferences, transform: str, ties: bool, uncounted: bool = False) -> ListOutcomes:
        """Return the outcomes of lists under a transform; `ties` counts tied pairs where the transform is binary."""
        binary = transform == "binary"
        all_pairs = binary and (ties or not has_ties(votes, transform))
        value = votes.transformed(transform, "BradleyTerry")
        return ListOutcomes(votes, value, binary, ties and binary, uncounted and all_pairs)

    @cached_property
    def _room(self) -> Ints:
        """The most distinct pairs of each instance."""
        return pair_room(self.votes.list_offsets, self.votes.list_starts, self.slots.offsets)

    @cached_property
    def long_instances(self) -> Bools:
        """Which instances hold so many pairs, in so long lists, that alone they would not be counted."""
        v = self.votes
        held, rows = pairs_held(v.list_offsets, v.list_starts), np.diff(v.list_offsets[v.list_starts])
        out: Bools = (self._room > _BLOCK_PAIRS) & (2 * held >= _LONG * rows)
        return out & self.uncounted

    @cached_property
    def _as_lists(self) -> ListPairs | None:
        """The lists, where their pairs are not counted."""
        v = self.votes
        held = pairs_held(v.list_offsets, v.list_starts).sum()
        if not self.uncounted or self._room.sum() <= _BLOCK_PAIRS or 2 * held < _LONG * v.n_rows:
            return None
        from concordant.kernels.bradley_terry_lists import list_pairs

        return list_pairs(self.value, v.slot, v.list_offsets, v.list_starts, v.list_weight, self.slots.offsets)

    @property
    def statistics(self) -> Pairs | ListPairs:
        return self._as_lists or self.pairs

    @property
    def wins_and_ties(self) -> tuple[float, float, float]:
        lists = self._as_lists
        if lists is None:
            return super().wins_and_ties
        ties = float(lists.n_ties.sum())
        return float(lists.outcomes.sum()) - ties, 0.0, ties

    @cached_property
    def totals(self) -> Floats:
        return super().totals if self._as_lists is None else self._as_lists.outcomes

    @cached_property
    def compared(self) -> Any:
        return super().compared if self._as_lists is None else self._as_lists.item_outcomes > 0

    @cached_property
    def calibration(self) -> Floats:
        return pairs_per_choice(self.votes, self.totals)

    @property
    def comparison_graph(self) -> tuple[Codes, Codes]:
        v = self.votes
        if v.n_rows < 2:
            return v.slot[:0], v.slot[:0]
        starts = v.list_offsets[:-1]
        # In a list with two different values every item is in a pair that is no tie.
        informative = (v.weights > 0) & (
            self.ties | (np.maximum.reduceat(self.value, starts) > np.minimum.reduceat(self.value, starts))
        )
        same = (np.diff(v.row_list) == 0) & informative[v.row_list[1:]]
        return v.slot[:-1][same], v.slot[1:][same]

    def windows(self) -> list[PairwiseOutcomes]:
        v = self.votes
        room = np.cumsum(self._room)
        if not len(room) or room[-1] <= _BLOCK_PAIRS:
            return [self]
        block = np.ceil(room / _BLOCK_PAIRS).astype(np.int64)
        # An instance of long lists is alone, so that the others do not decide how it is solved.
        alone = self.long_instances
        edges = [0, *(np.flatnonzero((np.diff(block) > 0) | alone[1:] | alone[:-1]) + 1).tolist(), len(v)]
        parts: list[PairwiseOutcomes] = []
        for first, last in pairwise(edges):
            part = v.window(first, last)
            start = int(v.list_offsets[v.list_starts[first]])
            value, alone_here = self.value[start : start + part.n_rows], bool(alone[first])
            parts.append(ListOutcomes(part, value, self.binary, self.ties, alone_here))
        return parts

    def _count(self, weight: Floats | None) -> Pairs:
        from concordant.kernels.pair_counts import count_list_pairs

        v = self.votes
        flags = {"binary": self.binary, "ties": self.ties}
        return count_list_pairs(self.value, v.slot, v.list_offsets, v.list_starts, weight, self.slots.offsets, **flags)

    @cached_property
    def pairs(self) -> Pairs:
        return self._count(self.votes.list_weight)

    def _voting_lists(self, instance: int) -> tuple[int, int, Floats]:
        """Return where the lists of an instance begin and end, and the weight of each as a cluster."""
        v = self.votes
        first, last = int(v.list_starts[instance]), int(v.list_starts[instance + 1])
        # A list of one item holds no pair.
        return first, last, v.weights[first:last] * (v.list_lengths[first:last] > 1)

    def expert_gradients(self, instance: int, score: Floats, shared: Shared, learned: Ints) -> ExpertGradients:
        from concordant.kernels.bradley_terry import list_gradients

        v = self.votes
        first, last, weight = self._voting_lists(instance)
        slots = int(self.slots.offsets[instance]), int(self.slots.offsets[instance + 1])
        lists = self.value, v.slot, v.list_offsets
        flags = {"binary": self.binary, "ties": self.ties}
        gradients, information = list_gradients(lists, (first, last), slots, score, shared, learned, **flags)
        informative = weight > 0
        return ExpertGradients(gradients[informative], information[informative], weight[informative])

    def clusters(self, score: Floats, prior: Floats) -> list[ListClusters]:
        from concordant.kernels.bradley_terry import list_clusters

        v = self.votes
        if self.ties or self._as_lists is not None:
            return []
        lists = self.value, v.slot, v.list_offsets
        return list_clusters(self.pairs, lists, v.list_starts, v.weights, score, prior, binary=self.binary)

    def resampled(self, streams: Sequence[np.random.Generator]) -> Pairs:
        drawn = np.zeros(self.votes.n_lists)
        for n, stream in enumerate(streams):
            first, last, weight = self._voting_lists(n)
            drawn[first:last] = bayesian_bootstrap_weights(weight, stream)
        return self._count(drawn)
