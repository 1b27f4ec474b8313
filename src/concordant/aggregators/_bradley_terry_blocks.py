"""Blocks of instances that share Bradley-Terry's tie parameter.

For any value of the parameter a block finds the scores that are best for it; what leaves the block is how high the
likelihood is there and how it bends as the parameter moves. A block after a step is made of the block before it, so
that one that is lost can be made again to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from concordant.aggregators._pairwise_outcomes import PairwiseOutcomes
from concordant.arrays import Floats, Ints
from concordant.errors import FormatError
from concordant.learning.resumable import State

if TYPE_CHECKING:
    from concordant.aggregators._bradley_terry_fit import Profile
    from concordant.aggregators.bradley_terry import BradleyTerry
    from concordant.data.preferences import Preferences
    from concordant.kernels.bradley_terry import Shared

__all__ = [
    "Part",
    "Told",
    "added",
    "is_tied",
    "kept",
    "moved",
    "part_of",
    "profile_of",
    "spread_of",
    "taken_up",
    "tell",
]


@dataclass(frozen=True)
class Part:
    """The votes of a block, the scores to go on from, and its profile for the parameter tried last."""

    votes: PairwiseOutcomes
    score: Floats
    profile: Profile | None = None


@dataclass(frozen=True)
class Told:
    """What has to be known of all blocks before the first step."""

    ties: float
    decided: float
    largest: int
    bounded: bool

    @staticmethod
    def of_all(each: Iterable[Told]) -> Told:
        """Return the same of all blocks together."""
        known = list(each)
        return Told(
            sum(t.ties for t in known),
            sum(t.decided for t in known),
            max((t.largest for t in known), default=0),
            any(t.bounded for t in known),
        )


def is_tied(block: Preferences, method: BradleyTerry) -> bool:
    """Return whether some tie of a block is to be counted."""
    return part_of(block, method).votes.has_ties


def part_of(block: Preferences, method: BradleyTerry) -> Part:
    """Return the votes of a block as meetings."""
    method._checked(block)
    method._check_request(block, None)
    votes = method._outcomes(block, ties=method.ties != "none")
    return Part(votes, np.zeros(votes.slots.n_slots))


def _windows(votes: PairwiseOutcomes) -> Iterator[tuple[PairwiseOutcomes, slice]]:
    """Yield the votes in windows whose pairs fit into memory, and their slots; they are counted anew every time."""
    first = 0
    for own in votes.windows():
        last = first + own.slots.n_slots
        yield own, slice(first, last)
        vars(own).pop("pairs", None)
        first = last


def tell(part: Part, method: BradleyTerry) -> Told:
    """Return what is to be known of a block."""
    from concordant.aggregators._bradley_terry_identifiability import tie_parameter_is_bounded

    found = []
    for own, _ in _windows(part.votes):
        p = own.pairs
        decided = float(p.n_left.sum() + p.n_right.sum())
        bounded = method._shrinks or tie_parameter_is_bounded(p)
        found.append(Told(float(p.n_ties.sum()), decided, int(own.slots.sizes.max(initial=0)), bounded))
    return Told.of_all(found)


def moved(part: Part, method: BradleyTerry, shared: Shared, learned: Ints, how: dict[str, Any]) -> Part:
    """Return the block with the scores that are best for other shared parameters."""
    from concordant.aggregators import _bradley_terry_fit

    found = []
    for own, slots in _windows(part.votes):
        prior = method._prior_precision(own)
        found.append(_bradley_terry_fit.profile(own.pairs, prior, shared, learned, **how, start=part.score[slots]))
    whole = added(found)
    return Part(part.votes, whole.score, whole)


def added(each: Iterable[Profile]) -> Profile:
    """Return the profile of instances taken together."""
    known = list(each)
    first = known[0]
    return first._replace(
        value=sum(p.value for p in known),
        gradient=sum((p.gradient for p in known), np.zeros(len(first.gradient))),
        information=sum((p.information for p in known), np.zeros(first.information.shape)),
        score_norm=max(p.score_norm for p in known),
        score=np.concatenate([p.score for p in known]),
        response=np.concatenate([p.response for p in known], axis=1),
    )


def kept(part: Part) -> State:
    """Return what a block goes on from."""
    return {"score": part.score}


def taken_up(part: Part, known: State) -> Part:
    """Return the block as it was when this was kept."""
    if known["score"].shape != part.score.shape:
        raise FormatError("the checkpoint is not of these votes. Remove it to begin anew.")
    return Part(part.votes, known["score"])


def profile_of(part: Part) -> Profile:
    """Return the profile of a block without what belongs to its items."""
    if part.profile is None:
        raise TypeError("a block has no profile before the first step")
    known = part.profile
    return known._replace(score=known.score[:0], response=known.response[:, :0])


def spread_of(part: Part, method: BradleyTerry) -> Floats:
    """Return how far the experts of a block pull the shared parameters apart."""
    if part.profile is None:
        raise TypeError("a block has no profile before the first step")
    known, out = part.profile, np.zeros(part.profile.information.shape)
    for own, slots in _windows(part.votes):
        out += method._shared_meat(own, known.score[slots], known.response[:, slots])
    return out
