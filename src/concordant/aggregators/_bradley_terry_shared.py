"""Tie parameter and side effect of Bradley-Terry, estimated over blocks of instances that share them.

A block profiles out its own scores: for given shared parameters it returns the maximum of its log-likelihood and the
derivatives along the shared parameters, and the sums over blocks are maximised by Newton's method. A block after a step
is a function of the block before it, so a block that is lost on a cluster is computed again to the last bit.

Data in memory is a single block. A block that is alone is maximised over scores and shared parameters jointly: the
same maximum in fewer passes over the pairs, because scores need not be exact at every step of the shared parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.aggregators._bradley_terry_identifiability import tie_parameter_is_bounded
from concordant.aggregators._bradley_terry_intervals import cluster_meat
from concordant.aggregators._pairwise_outcomes import PairwiseOutcomes
from concordant.arrays import Floats, Ints
from concordant.errors import FormatError
from concordant.execution import Shards, report_progress
from concordant.learning.resumable import Checkpointer, State, join_states, split_states

if TYPE_CHECKING:
    from concordant.aggregators._bradley_terry_fit import Profile, Solution
    from concordant.kernels.bradley_terry import Shared

__all__ = [
    "Block",
    "BlockCounts",
    "count_block_outcomes",
    "covariance",
    "is_alone",
    "largest_gap",
    "maximise",
    "with_scores",
]


@dataclass(frozen=True)
class Block:
    """The outcomes of some instances, and their scores at the shared parameters evaluated last.

    Attributes
    ----------
    outcomes : PairwiseOutcomes
        The outcomes.
    prior : float or str
        As in `PairwiseOutcomes.prior_precision`.
    alone : bool
        Whether this block is all there is, and on this machine.
    score : float64[S]
        The scores.
    response : float64[L, S]
        −d score / d parameter for each shared parameter that is learned.
    profile : Profile, optional
        The profile log-likelihood, without scores and response; None before the first step.
    """

    outcomes: PairwiseOutcomes
    prior: float | str
    alone: bool
    score: Floats
    response: Floats
    profile: Profile | None = None

    @classmethod
    def of(cls, outcomes: PairwiseOutcomes, prior: float | str, alone: bool) -> Block:
        """Return the block before the first step, with all scores 0."""
        n = outcomes.slots.n_slots
        return cls(outcomes, prior, alone, np.zeros(n), np.zeros((0, n)))

    def windows(self) -> Iterator[tuple[PairwiseOutcomes, slice]]:
        """Yield the outcomes in windows, with their slots.

        A block that is alone keeps its pair counts and is one window. Other blocks drop the pair counts of a window
        when the next one is asked for, and count them again in the next pass.
        """
        if self.alone:
            yield self.outcomes, slice(0, self.outcomes.slots.n_slots)
            return
        first = 0
        for own in self.outcomes.windows():
            last = first + own.slots.n_slots
            yield own, slice(first, last)
            vars(own).pop("pairs", None)
            first = last


class BlockCounts(NamedTuple):
    """Outcomes of blocks, for what has to be known before the first step.

    Attributes
    ----------
    left_wins, right_wins, ties : float
        Outcomes by kind.
    largest : int
        The number of items of the largest instance.
    ties_bounded : bool
        Whether the tie parameter has a finite maximum-likelihood estimate; true where a prior makes it finite.
    """

    left_wins: float
    right_wins: float
    ties: float
    largest: int
    ties_bounded: bool

    @property
    def outcomes(self) -> float:
        """The number of all outcomes."""
        return self.left_wins + self.right_wins + self.ties

    @property
    def all_ties(self) -> bool:
        """Whether there are outcomes, and all of them are ties."""
        return self.ties > 0 and not (self.left_wins or self.right_wins)

    @staticmethod
    def total(each: Iterable[BlockCounts]) -> BlockCounts:
        """Return the counts of all blocks together."""
        counts = list(each)
        return BlockCounts(
            sum(c.left_wins for c in counts),
            sum(c.right_wins for c in counts),
            sum(c.ties for c in counts),
            max((c.largest for c in counts), default=0),
            any(c.ties_bounded for c in counts),
        )


def count_block_outcomes(block: Block, check_ties: bool) -> BlockCounts:
    """Return the counts of a block; `check_ties` looks for a finite estimate of the tie parameter."""
    found = []
    for own, _ in block.windows():
        bounded = not check_ties or tie_parameter_is_bounded(own.pairs)
        found.append(BlockCounts(*own.wins_and_ties, int(own.slots.sizes.max(initial=0)), bounded))
    return BlockCounts.total(found)


def maximise(
    blocks: Shards[Block],
    start: Shared,
    learned: Ints,
    n_outcomes: float,
    *,
    tol: float,
    max_iter: int,
    checkpoint: Checkpointer,
) -> tuple[Solution, Shards[Block]]:
    """Return the shared parameters that maximise the likelihood, and the blocks with the scores that go with them.

    Parameters
    ----------
    blocks : Shards of Block
        The instances.
    start : Shared
        The initial shared parameters.
    learned : int64[L]
        Those to estimate: 0 for the tie parameter, 1 for the side effect, from 2 coefficients of covariates. The others
        stay at `start`.
    n_outcomes : float
        The number of outcomes of all blocks, the unit of the gradient.
    tol, max_iter : float, int
        When to stop, for the shared parameters and for the scores of a block.
    checkpoint : Checkpointer
        Receives the state after every step, for a checkpoint.
    """
    how: dict[str, Any] = {"tol": tol, "max_iter": max_iter}
    if is_alone(blocks):
        (block,) = blocks
        solved = _solve_jointly(block, start, learned, **how, checkpoint=checkpoint)
        return solved, blocks.persist(with_scores, solved)
    from concordant.aggregators._bradley_terry_fit import maximise_profile

    known = checkpoint.restore()
    if known is not None:
        blocks = blocks.persist_each(_restored, split_states(known))

    def evaluate(shared: Shared) -> Profile:
        nonlocal blocks
        blocks = blocks.persist(_profiled, shared, learned, how)
        return _total(list(blocks.map(_profile_of)))

    def scores() -> State:
        return join_states(list(blocks.map(_state)))

    progress: dict[str, Any] = {"report": report_progress, "checkpoint": checkpoint, "solver_state": scores}
    return maximise_profile(evaluate, start, learned, n_outcomes, **how, **progress), blocks


def covariance(solved: Solution, blocks: Shards[Block], shared: Shared, learned: Ints, *, clustered: bool) -> Floats:
    """Return the covariance of the shared parameters learned, the scores being estimated with them.

    It is the inverse of the profile information, or with `clustered` a sandwich clustered by expert.
    """
    inverse = np.asarray(np.linalg.pinv(solved.information, hermitian=True), dtype=np.float64)
    if not clustered:
        return inverse
    meat = sum(blocks.map(profile_meat, shared, learned), np.zeros(inverse.shape))
    return inverse @ meat @ inverse


def profile_meat(block: Block, shared: Shared, learned: Ints) -> Floats:
    """Return the meat of the sandwich: the scatter of the experts' gradients along the profile likelihood."""
    out = np.zeros((len(learned), len(learned)))
    for own, slots in block.windows():
        score, response = block.score[slots], block.response[:, slots]
        for n, at in own.observed_instances():
            gradients, _, weight = own.expert_gradients(n, score, shared, learned)
            if weight.sum() >= 2:
                m = at.stop - at.start
                out += cluster_meat(gradients[:, m:] - gradients[:, :m] @ response[:, at].T, weight)
    return out


def largest_gap(block: Block, side: float) -> float:
    """Return the largest difference of scores between items that met, the side effect included."""
    gap = 0.0
    for own, slots in block.windows():
        p, score = own.pairs, block.score[slots]
        gap = max(gap, float(np.abs(score[p.left] - score[p.right] + side).max(initial=0.0)))
    return gap


def is_alone(blocks: Shards[Any]) -> bool:
    """Return whether there is a single block, on this machine."""
    return len(blocks) == 1 and not blocks.recomputed


# What is done to one block.


def _solve_jointly(
    block: Block, start: Shared, learned: Ints, *, tol: float, max_iter: int, checkpoint: Checkpointer
) -> Solution:
    """Maximise the likelihood of a block over its scores and the shared parameters jointly."""
    from concordant.aggregators import _bradley_terry_fit

    pairs, prior = block.outcomes.statistics, block.outcomes.prior_precision(block.prior)
    how: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "report": report_progress, "checkpoint": checkpoint}
    if not len(learned):
        return _bradley_terry_fit.solve(pairs, prior, start, **how)
    which: dict[str, Any] = {"tie": 0 in learned, "side": 1 in learned, "covariates": True}
    return _bradley_terry_fit.solve_jointly(pairs, prior, start, **which, **how)


def with_scores(block: Block, solved: Solution) -> Block:
    """Return the block with the scores of a solution."""
    return replace(block, score=solved.score, response=solved.response)


def _profiled(block: Block, shared: Shared, learned: Ints, how: dict[str, Any]) -> Block:
    """Return the block with the scores that maximise its likelihood at other shared parameters."""
    from concordant.aggregators._bradley_terry_fit import profile

    found = []
    for own, slots in block.windows():
        prior = own.prior_precision(block.prior)
        found.append(profile(own.statistics, prior, shared, learned, **how, start=block.score[slots]))
    score = np.concatenate([p.score for p in found])
    response = np.concatenate([p.response for p in found], axis=1)
    return replace(block, score=score, response=response, profile=_total(found))


def _total(profiles: list[Profile]) -> Profile:
    """Return the profile log-likelihood of all instances together, without their scores."""
    first = profiles[0]
    return first._replace(
        value=sum(p.value for p in profiles),
        gradient=sum((p.gradient for p in profiles), np.zeros(len(first.gradient))),
        information=sum((p.information for p in profiles), np.zeros(first.information.shape)),
        score_norm=max(p.score_norm for p in profiles),
        score=first.score[:0],
        response=first.response[:, :0],
    )


def _profile_of(block: Block) -> Profile:
    if block.profile is None:
        raise TypeError("a block has no profile before the first step")
    return block.profile


def _state(block: Block) -> State:
    """Return the state of a block for a checkpoint."""
    return {"score": block.score}


def _restored(block: Block, state: State) -> Block:
    """Return the block with the scores of a checkpoint."""
    if state["score"].shape != block.score.shape:
        raise FormatError("the checkpoint is not of these votes. Remove it to begin anew.")
    return replace(block, score=state["score"])
