"""Votes of any kind as meetings of two items: what a model of pairs asks of a container.

How often did each pair come out which way, what does each expert pull for, and what would other experts (or other
outcomes) have said? Lists and observed comparisons answer in the same terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.index import Slots
from concordant.data.preferences import Preferences
from concordant.data.streams import bayesian_bootstrap_weights
from concordant.kernels.pairwise_wins import pair_room

if TYPE_CHECKING:
    from concordant.kernels.bradley_terry import ListClusters, Shared
    from concordant.kernels.pair_counts import Pairs

__all__ = ["ListMeetings", "Meetings", "ExpertGradients", "RowMeetings", "pairs_per_choice"]

# Pairs of derived counts that are worked on together, where instances can be worked on apart.
_BLOCK_PAIRS = 1 << 22


def pairs_per_choice(votes: Preferences, totals: Floats) -> Floats:
    """Return how many pairs, of `totals`, lists count for each of their choices, by instance; 1 without any.

    A list of m items is m − 1 choices, each of the next best, and m (m − 1) / 2 pairs: a likelihood of pairs counts a
    list m / 2 times over.
    """
    choices = votes.weights * (votes.list_lengths - 1)
    per_instance = np.bincount(votes.list_instance, choices, len(votes))
    out: Floats = np.where((per_instance > 0) & (totals > 0), totals / np.maximum(per_instance, 1e-300), 1.0)
    return out


class ExpertGradients(NamedTuple):
    """The experts of an instance as clusters.

    Attributes
    ----------
    gradients : float64[G, p]
        Slopes of each expert's log-likelihood along the scores, then along what else was learned.
    information : float64[G, m]
        The diagonal of its −Hessian, along the scores.
    weight : float64[G]
        How many experts each row stands for.
    """

    gradients: Floats
    information: Floats
    weight: Floats


class Meetings:
    """The votes of a container as meetings of two items: their counts, and what each expert pulls for.

    Attributes
    ----------
    derived : bool
        Whether the counts come from lists: the pairs of one list are no independent observations.
    has_experts : bool
        Whether it is known who said what.
    """

    slots: Slots
    derived: bool
    has_experts: bool

    @cached_property
    def pairs(self) -> Pairs:
        """The counts, pair by pair."""
        raise TypeError("votes say how they are counted")

    @property
    def links(self) -> tuple[Codes, Codes]:
        """Slots that met each other: enough of the pairs to connect whatever all of them connect."""
        raise TypeError("votes say who met whom")

    def windows(self) -> list[Meetings]:
        """Return the votes in parts that fit into memory one by one."""
        return [self]

    def expert_gradients(self, instance: int, score: Floats, shared: Shared, learned: Ints) -> ExpertGradients:
        """Return what each expert pulls for in an instance."""
        raise TypeError("votes say what an expert pulls for")

    def clusters(self, score: Floats, prior: Floats) -> list[ListClusters]:
        """Return the experts as clusters, for those instances that are quicker done together."""
        return []

    def resampled(self, streams: Sequence[np.random.Generator]) -> Pairs:
        """Return the counts with experts (or, where none are known, outcomes) weighted anew, instance by instance."""
        raise TypeError("votes say how they are drawn anew")

    @cached_property
    def calibration(self) -> Floats:
        """How many outcomes an instance counts for each choice that was made: 1 for observed comparisons."""
        return np.ones(len(self.slots))

    @cached_property
    def totals(self) -> Floats:
        """How many outcomes every instance has."""
        from concordant.kernels.pair_counts import sums

        return sums(self.pairs.outcomes, self.pairs.starts)

    @cached_property
    def known(self) -> Any:
        """For every slot, whether anything was said about it."""
        p = self.pairs
        whole = np.bincount(p.left, p.outcomes, p.n_slots) + np.bincount(p.right, p.outcomes, p.n_slots)
        return whole > 0


class RowMeetings(Meetings):
    """Observed comparisons."""

    derived = False

    def __init__(self, votes: Comparisons, ties: bool, sided: bool) -> None:
        self.slots = votes.slots
        self.votes = votes
        self.sided = sided
        self.n_ties = votes.n_ties if ties or not len(votes.n_ties) else np.zeros(votes.n_rows)
        self.has_experts = votes.expert is not None

    @property
    def rows(self) -> tuple[Codes, Codes, Floats, Floats, Floats]:
        """The columns of slots and counts."""
        c = self.votes
        return c.left, c.right, c.n_left, c.n_right, self.n_ties

    @cached_property
    def pairs(self) -> Pairs:
        from concordant.kernels.pair_counts import from_rows

        return from_rows(*self.rows, self.votes.row_starts, self.slots.offsets, ordered=self.sided)

    @property
    def links(self) -> tuple[Codes, Codes]:
        p = self.pairs
        met = p.outcomes > 0
        return p.left[met], p.right[met]

    def _clusters(self, instance: int) -> tuple[tuple[int, int], Codes, int]:
        """Return where the rows of an instance begin and end, the number of each row's expert, and how many there are.

        An expert all of whose rows are empty says nothing and does not count.
        """
        c = self.votes
        ends = int(c.row_starts[instance]), int(c.row_starts[instance + 1])
        rows = slice(*ends)
        expert = np.zeros(0, dtype=np.int32) if c.expert is None else c.expert[rows]
        outcomes = c.n_left[rows] + c.n_right[rows] + self.n_ties[rows]
        speaking = np.bincount(expert, outcomes, c.n_experts) > 0 if len(expert) else np.zeros(c.n_experts, np.bool_)
        number_of = np.cumsum(speaking) - 1
        # Silent rows pull for nothing, whatever line they are added to.
        return ends, np.maximum(number_of[expert], 0).astype(np.int32), int(speaking.sum())

    def expert_gradients(self, instance: int, score: Floats, shared: Shared, learned: Ints) -> ExpertGradients:
        from concordant.kernels.bradley_terry import row_gradients

        ends, cluster, n = self._clusters(instance)
        slots = int(self.slots.offsets[instance]), int(self.slots.offsets[instance + 1])
        return ExpertGradients(*row_gradients(self.rows, cluster, ends, slots, n, score, shared, learned), np.ones(n))

    def resampled(self, streams: Sequence[np.random.Generator]) -> Pairs:
        from concordant.kernels.pair_counts import from_rows

        if not self.has_experts:
            p = self.pairs
            counts = [np.empty(len(p.left)) for _ in range(3)]
            for (first, last), stream in zip(pairwise(p.starts.tolist()), streams, strict=True):
                for drawn, given in zip(counts, (p.n_left, p.n_right, p.n_ties), strict=True):
                    drawn[first:last] = bayesian_bootstrap_weights(given[first:last], stream)
            return p._replace(n_left=counts[0], n_right=counts[1], n_ties=counts[2])
        factor = np.ones(self.votes.n_rows)
        for n, stream in enumerate(streams):
            (first, last), cluster, size = self._clusters(n)
            if size:
                factor[first:last] = bayesian_bootstrap_weights(np.ones(size), stream)[cluster]
        left, right, n_left, n_right, n_ties = self.rows
        drawn_rows = left, right, n_left * factor, n_right * factor, n_ties * factor
        return from_rows(*drawn_rows, self.votes.row_starts, self.slots.offsets, ordered=self.sided)


class ListMeetings(Meetings):
    """Lists as meetings: each holds all pairs of its items, with a strength that follows from their ranks."""

    derived = True
    has_experts = True

    def __init__(self, votes: Preferences, value: Floats, binary: bool, ties: bool) -> None:
        self.slots = votes.slots
        self.votes = votes
        self.value = value
        self.binary = binary
        self.ties = ties

    @staticmethod
    def of(votes: Preferences, transform: str, ties: bool) -> ListMeetings:
        """Return the meetings in lists under a transform; `ties` counts tied pairs of a binary one."""
        binary = transform == "binary"
        return ListMeetings(votes, votes.transformed(transform, "BradleyTerry"), binary, ties and binary)

    @cached_property
    def calibration(self) -> Floats:
        return pairs_per_choice(self.votes, self.totals)

    @property
    def tied(self) -> bool:
        """Whether some list holds two items of equal value."""
        v = self.votes
        if not v.n_rows:
            return False
        most = np.maximum.reduceat(v.positions("dense"), v.list_offsets[:-1])
        return bool(((most < v.list_lengths) & (v.weights > 0)).any())

    @property
    def links(self) -> tuple[Codes, Codes]:
        v = self.votes
        if v.n_rows < 2:
            return v.slot[:0], v.slot[:0]
        starts = v.list_offsets[:-1]
        # A list with two different values has, for every item of it, a pair that came out one way.
        speaks = (v.weights > 0) & (
            self.ties | (np.maximum.reduceat(self.value, starts) > np.minimum.reduceat(self.value, starts))
        )
        same = (np.diff(v.row_list) == 0) & speaks[v.row_list[1:]]
        return v.slot[:-1][same], v.slot[1:][same]

    def windows(self) -> list[Meetings]:
        v = self.votes
        room = np.cumsum(pair_room(v.list_offsets, v.list_starts, self.slots.offsets))
        if not len(room) or room[-1] <= _BLOCK_PAIRS:
            return [self]
        block = np.ceil(room / _BLOCK_PAIRS).astype(np.int64)
        edges = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(v)]
        parts: list[Meetings] = []
        for first, last in pairwise(edges):
            part = v.window(first, last)
            start = int(v.list_offsets[v.list_starts[first]])
            parts.append(ListMeetings(part, self.value[start : start + part.n_rows], self.binary, self.ties))
        return parts

    def _count(self, weight: Floats | None) -> Pairs:
        from concordant.kernels.pair_counts import from_lists

        v = self.votes
        flags = {"binary": self.binary, "ties": self.ties}
        return from_lists(self.value, v.slot, v.list_offsets, v.list_starts, weight, self.slots.offsets, **flags)

    @cached_property
    def pairs(self) -> Pairs:
        return self._count(self.votes.list_weight)

    def _speaking(self, instance: int) -> tuple[int, int, Floats]:
        """Return where the lists of an instance begin and end, and how many experts each stands for."""
        v = self.votes
        first, last = int(v.list_starts[instance]), int(v.list_starts[instance + 1])
        # A list of one item says nothing about pairs.
        return first, last, v.weights[first:last] * (v.list_lengths[first:last] > 1)

    def expert_gradients(self, instance: int, score: Floats, shared: Shared, learned: Ints) -> ExpertGradients:
        from concordant.kernels.bradley_terry import list_gradients

        v = self.votes
        first, last, weight = self._speaking(instance)
        slots = int(self.slots.offsets[instance]), int(self.slots.offsets[instance + 1])
        lists = self.value, v.slot, v.list_offsets
        flags = {"binary": self.binary, "ties": self.ties}
        gradients, information = list_gradients(lists, (first, last), slots, score, shared, learned, **flags)
        speaks = weight > 0
        return ExpertGradients(gradients[speaks], information[speaks], weight[speaks])

    def clusters(self, score: Floats, prior: Floats) -> list[ListClusters]:
        from concordant.kernels.bradley_terry import list_clusters

        v = self.votes
        if self.ties:
            return []
        lists = self.value, v.slot, v.list_offsets
        return list_clusters(self.pairs, lists, v.list_starts, v.weights, score, prior, binary=self.binary)

    def resampled(self, streams: Sequence[np.random.Generator]) -> Pairs:
        drawn = np.zeros(self.votes.n_lists)
        for n, stream in enumerate(streams):
            first, last, weight = self._speaking(n)
            drawn[first:last] = bayesian_bootstrap_weights(weight, stream)
        return self._count(drawn)
