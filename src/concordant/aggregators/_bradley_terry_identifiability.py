"""Identifiability of Bradley-Terry: whether a finite estimate exists, and which items only the prior places.

Checks before the fit look at the graph of wins; checks after it look for estimates on their way to infinity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from concordant.aggregators._mle_existence import (
    disconnected_instances,
    explain_disconnected,
    explain_no_mle,
    instances_without_mle,
    others_alike,
)
from concordant.aggregators._pairwise_outcomes import PairwiseOutcomes
from concordant.arrays import Codes, Floats, Ints
from concordant.data.index import Slots
from concordant.errors import ConcordantWarning, IdentifiabilityWarning, NoFiniteEstimateError, Setting
from concordant.inference.uncertainty import some_items

if TYPE_CHECKING:
    from concordant.aggregators._bradley_terry_fit import Solution
    from concordant.kernels.pair_counts import Pairs

__all__ = [
    "Warn",
    "check_side_effect",
    "diverged",
    "diverged_linear",
    "no_finite_estimate",
    "tie_parameter_is_bounded",
    "unbounded_tie_parameter",
    "warn_all_ties",
    "warn_unplaced",
    "win_graph",
]


class Warn(Protocol):
    """Gives a warning whose message advises some settings."""

    def __call__(self, message: str, category: type[ConcordantWarning], /, *settings: Setting) -> None: ...


# A difference of scores beyond this is an estimate on its way to infinity: no data show such odds.
_DIVERGED_GAP = 30.0
# Information below this part of the largest eigenvalue, or of the outcomes, does not bound some coefficients.
_SINGULAR = 1e-12
# So many pairs for every item nearly always connect them all by wins.
_ENOUGH_PAIRS = 32


def win_graph(pairs: Pairs, ties: bool) -> tuple[Codes, Codes]:
    """Return the edges from winners to losers, one per pair and direction; with `ties` a tie is an edge both ways."""
    forward = (pairs.n_left > 0) | ((pairs.n_ties > 0) if ties else False)
    back = (pairs.n_right > 0) | ((pairs.n_ties > 0) if ties else False)
    return (
        np.concatenate([pairs.left[forward], pairs.right[back]]),
        np.concatenate([pairs.right[forward], pairs.left[back]]),
    )


def warn_unplaced(
    outcomes: PairwiseOutcomes, ties: bool, *, maximum_likelihood: bool, placed_by: str, warn: Warn
) -> None:
    """Warn of items that the outcomes alone do not place, or raise where no prior places them either.

    Parameters
    ----------
    outcomes : PairwiseOutcomes
        The outcomes of every instance.
    ties : bool
        Whether a tie is an outcome of the model.
    maximum_likelihood : bool
        Whether the estimate has no prior, so that one that does not exist raises NoFiniteEstimateError.
    placed_by : str
        What places such items otherwise, for the message.
    warn : callable
        Takes a message and its category.
    """
    slots = outcomes.slots
    one, other = outcomes.comparison_graph
    silent = (np.bincount(slots.instance[one], minlength=len(slots)) == 0) & (slots.sizes > 0)
    if outcomes.derived and not maximum_likelihood:
        # In lists the prior places most items anyway, those that never lost among them. But nothing compares two
        # groups that never met.
        unplaced = disconnected_instances(one, other, slots)
        why = explain_disconnected(one, other, slots, int(unplaced[0])) if len(unplaced) else ""
    else:
        unplaced = _instances_without_mle(outcomes.pairs, ties, slots)
        unplaced = unplaced if maximum_likelihood else unplaced[~silent[unplaced]]
        why = explain_no_mle(*win_graph(outcomes.pairs, ties), slots, int(unplaced[0])) if len(unplaced) else ""
    more = others_alike(len(unplaced))
    if maximum_likelihood and len(unplaced):
        raise NoFiniteEstimateError(
            f"no finite Bradley-Terry estimate: {why}{more}. Set prior=0.1, or drop what cannot be placed."
        )
    if len(unplaced):
        warn(f"{why}{more}: what places them is {placed_by}.", IdentifiabilityWarning)
    if silent.any():
        warn(
            f"nobody prefers any of {some_items(slots, np.flatnonzero(silent))} to another: they score 0 and get no "
            "interval.",
            IdentifiabilityWarning,
        )


def _instances_without_mle(pairs: Pairs, ties: bool, slots: Slots) -> Ints:
    """Return the instances whose win graph is not strongly connected."""
    step = len(pairs.left) // max(_ENOUGH_PAIRS * slots.n_slots, 1)
    if step > 1:
        # Where the wins of some pairs connect all items, those of all pairs do.
        names = ("left", "right", "n_left", "n_right", "n_ties")
        some = pairs._replace(**{name: getattr(pairs, name)[::step] for name in names})
        found = instances_without_mle(*win_graph(some, ties), slots)
        if not len(found):
            return found
    return instances_without_mle(*win_graph(pairs, ties), slots)


def warn_all_ties(n_ties: float, among: str, warn: Warn) -> None:
    """Warn that every outcome is a tie, so that the items `among` them are equal."""
    warn(
        f"every one of the {n_ties:,.10g} outcomes is a tie, so that nothing tells {among} apart: all scores are 0.",
        IdentifiabilityWarning,
    )


def tie_parameter_is_bounded(pairs: Pairs) -> bool:
    """Return whether some directed cycle has more wins than ties, so that the tie parameter has a finite estimate.

    With scores u that separate every winner from its loser by 1 and tied items by no more, u and the logarithm of the
    tie parameter can grow together and raise the likelihood for ever. Such u exist unless some cycle along the wins,
    with ties walked either way, has more wins than ties. One cycle in one instance is enough.
    """
    from concordant.kernels.graph import has_positive_cycle, strong_components

    if ((pairs.n_left > 0) & (pairs.n_right > 0)).any():
        return True
    tail, head = win_graph(pairs, ties=False)
    n = pairs.n_slots
    if int(strong_components(tail, head, n).max(initial=-1)) + 1 < n:
        return True
    tied = pairs.n_ties > 0
    left, right = pairs.left[tied], pairs.right[tied]
    gain = np.repeat(np.array([1, -1], dtype=np.int64), [len(tail), 2 * len(left)])
    return has_positive_cycle(np.concatenate([tail, left, right]), np.concatenate([head, right, left]), gain, n)


def unbounded_tie_parameter(ties: str, among: str) -> NoFiniteEstimateError:
    """Return the error for a tie parameter without a finite estimate; `among` names the items."""
    return NoFiniteEstimateError(
        f"no finite Bradley-Terry estimate with ties={ties!r}: there is no circle of items with more wins "
        f"than ties along it among {among}, so that scores and the tie parameter grow together without bound. Set "
        "prior=0.1, or ties='none'."
    )


def check_side_effect(left_wins: float, right_wins: float, n_outcomes: float) -> None:
    """Raise where one side never won, so that the side effect has no finite estimate."""
    if n_outcomes and not (left_wins and right_wins):
        side = "right" if left_wins else "left"
        raise NoFiniteEstimateError(
            f"no finite side effect: the {side} item never won, in {n_outcomes:,.10g} outcomes. "
            "Leave side_effect=False, or check which column is which."
        )


def diverged(largest_gap: float, information: Floats, n_outcomes: float, *, side_effect: bool) -> bool:
    """Return whether maximum-likelihood scores ran off to infinity, or cannot be told apart from the side effect."""
    if largest_gap > _DIVERGED_GAP:
        return True
    eigenvalues = np.linalg.eigvalsh(information) if len(information) else np.ones(1)
    return side_effect and bool(eigenvalues[0] <= 1e-9 * n_outcomes)


def diverged_linear(solution: Solution, n_outcomes: float, *, ties: bool) -> bool:
    """Return whether maximum-likelihood coefficients of features, or the tie parameter with them, ran off to infinity.

    Scores that are linear in features may lie any distance apart: two items may differ much in a feature whose
    coefficient other items bound. Coefficients diverge where the likelihood is flat along some of them.
    """
    from concordant.kernels.bradley_terry import TIE_BOUND

    eigenvalues = np.linalg.eigvalsh(solution.information) if len(solution.information) else np.ones(1)
    at_bound = ties and abs(solution.shared.tie) >= TIE_BOUND
    return at_bound or bool(eigenvalues[0] <= _SINGULAR * max(eigenvalues[-1], n_outcomes))


def no_finite_estimate(among: str) -> NoFiniteEstimateError:
    """Return the error for scores and shared parameters that grow without bound; `among` names the items."""
    return NoFiniteEstimateError(
        f"no finite Bradley-Terry estimate: the scores of {among} and what is learned with them "
        "(side effect, weights of features, tie parameter) cannot be told apart or grow without bound. Set "
        "prior=0.1, or leave the side effect or some features out."
    )
