"""Pairwise outcomes of comparisons with covariates of the vote, for Bradley-Terry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from concordant.aggregators._judge_habits import HabitDesign, HabitFit, HabitRows, information_lost_to_habits
from concordant.aggregators._pairwise_outcomes import (
    ComparisonOutcomes,
    ExpertGradients,
    with_reweighted_outcomes,
)
from concordant.arrays import Floats, Ints
from concordant.data.comparisons import Comparisons

if TYPE_CHECKING:
    from concordant.kernels.bradley_terry import Shared
    from concordant.kernels.bradley_terry_votes import VoteRows
    from concordant.kernels.pair_counts import Pairs

__all__ = ["VoteOutcomes"]

# Gradients by expert that are larger are computed again.
_KEPT_BYTES = 100_000_000


class VoteOutcomes(ComparisonOutcomes):
    """Pairwise outcomes of comparisons with covariates: `x` holds left minus right of each, one row for each row.

    The fit takes them over their `unit`. With `habits` the votes of an expert stay apart, and `offset` holds what
    habits add to the logit of each row of `statistics`.
    """

    has_covariates = True

    def __init__(
        self,
        votes: Comparisons,
        ties: bool,
        sided: bool,
        x: Floats,
        *,
        unit: Floats | None = None,
        habits: HabitDesign | None = None,
    ) -> None:
        super().__init__(votes, ties, sided)
        self.x = np.ascontiguousarray(x)
        self.unit = np.ones(x.shape[1]) if unit is None else unit
        self.habits = habits
        self.habit_fit: HabitFit | None = None
        self._last: tuple[Any, ExpertGradients] | None = None

    @cached_property
    def pairs(self) -> Pairs:
        from concordant.kernels.pair_counts import from_rows

        return from_rows(*self.rows, self.votes.row_starts, self.slots.offsets)

    @cached_property
    def _collapsed(self) -> tuple[VoteRows, Ints]:
        from concordant.kernels.bradley_terry_votes import collapse_votes

        left, right, *counts = self.rows
        apart = None if self.habits is None else self.votes.row_expert
        how: dict[str, Any] = {"unit": self.unit, "sided": self.sided, "apart": apart}
        return collapse_votes(left, right, (counts[0], counts[1], counts[2]), self.x, self.pairs, **how)

    @cached_property
    def habit_rows(self) -> HabitRows:
        """What habits add to the rows of `statistics`, which are those of one expert each."""
        if self.habits is None:
            raise TypeError("these outcomes have no habits")
        votes, row_of = self._collapsed
        expert = np.zeros(len(votes.left), dtype=np.int64)
        held = row_of >= 0
        expert[row_of[held]] = self.votes.row_expert[held]
        return HabitRows(self.habits.columns(votes, self.slots), expert)

    def set_habits(self, u: Floats) -> None:
        """Take what the experts are in the habit of into the logit."""
        rows = self.habit_rows
        offset = np.einsum("rf,rf->r", rows.h, u[rows.expert])
        votes, row_of = self._collapsed
        self._collapsed = votes._replace(offset=offset), row_of
        self._last = None

    def information_lost_to_habits(self, instance: int, score: Floats, shared: Shared, learned: Ints) -> Any:
        if self.habit_fit is None:
            return 0.0
        return information_lost_to_habits(self, instance, score, shared, learned, self.habit_fit)

    @property
    def statistics(self) -> VoteRows:
        """The votes, those of a pair with equal covariates (and, with habits, of one expert) as one row."""
        return self._collapsed[0]

    @property
    def counted(self) -> VoteRows:
        """The votes, as `statistics`."""
        return self.statistics

    @property
    def wins_and_ties(self) -> tuple[float, float, float]:
        """Wins of the left item, wins of the right one, and ties."""
        v = self.statistics
        return float(v.n_left.sum()), float(v.n_right.sum()), float(v.n_ties.sum())

    def expert_gradients(self, instance: int, score: Floats, shared: Shared, learned: Ints) -> ExpertGradients:
        asked = instance, score.tobytes(), shared, learned.tobytes()
        if self._last is not None and self._last[0] == asked:
            return self._last[1]
        found = self._expert_gradients(instance, score, shared, learned)
        # Coefficients and scores ask for the same gradients in turn.
        self._last = (asked, found) if found.gradients.nbytes <= _KEPT_BYTES else None
        return found

    def _expert_gradients(self, instance: int, score: Floats, shared: Shared, learned: Ints) -> ExpertGradients:
        from concordant.kernels.bradley_terry_votes import vote_gradients

        ends, cluster, n = self._clusters(instance)
        slots = int(self.slots.offsets[instance]), int(self.slots.offsets[instance + 1])
        if self.habits is not None:
            v = self.statistics
            expert = self.votes.row_expert[ends[0] : ends[1]]
            number_of = np.zeros(max(self.votes.n_experts, 1), dtype=np.int32)
            number_of[expert] = cluster
            first, last = v.starts[instance : instance + 2].tolist()
            own = number_of[self.habit_rows.expert[first:last]]
            columns = (v.left, v.right, v.n_left, v.n_right, v.n_ties)
            given = columns, np.ascontiguousarray(v.x[:, 1:]), v.offset, own, (first, last), slots, n
            return ExpertGradients(*vote_gradients(*given, score, shared, learned), np.ones(n))
        given = self.rows, self.x / self.unit, np.zeros(self.votes.n_rows), cluster, ends, slots, n
        return ExpertGradients(*vote_gradients(*given, score, shared, learned), np.ones(n))

    def resampled(self, streams: Sequence[np.random.Generator]) -> VoteRows:
        """Return the votes with experts (or outcomes, without experts) reweighted, one stream per instance."""
        votes, row_of = self._collapsed
        if not self.has_experts:
            return with_reweighted_outcomes(votes, streams)
        held = row_of >= 0
        row, factor = row_of[held], self._expert_factors(streams)[held]
        left, _, n_left, n_right, n_ties = (column[held] for column in self.rows)
        turned = votes.left[row] != left
        drawn = np.where(turned, n_right, n_left), np.where(turned, n_left, n_right), n_ties
        counts = np.stack([np.bincount(row, c * factor, len(votes.left)) for c in drawn])
        return votes._replace(n_left=counts[0], n_right=counts[1], n_ties=counts[2])
