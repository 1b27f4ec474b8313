"""Weights of experts: one weight per list, and weights of a size that sums and squares can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from concordant.arrays import Floats
from concordant.base.registry import METHODS
from concordant.data.comparisons import Comparisons
from concordant.data.preferences import Preferences
from concordant.errors import DataError, Setting, listing, quote

__all__ = ["are_usual", "list_weights", "usable_weights"]

Votes = Preferences | Comparisons

# Weights within these bounds can be squared and added up. After division by the largest, none may be smaller than the
# last bound.
_LIGHTEST, _HEAVIEST, _SMALLEST_SHARE = 1e-100, 1e100, 1e-150
# Bounds of weights that a model counts as numbers of votes.
_FEWEST, _MOST = 1e-9, 1e12


def _within(column: Floats, least: float, most: float) -> bool:
    """Return whether every number of a column is 0 or within the bounds."""
    if len(column) == 0 or (column.min() >= least and column.max() <= most):
        return True
    return bool(((column == 0) | ((column >= least) & (column <= most))).all())


def are_usual(weights: Sequence[float], *, relative: bool) -> bool:
    """Return whether `usable_weights` would neither scale nor refuse these weights."""
    least, most = (_LIGHTEST, _HEAVIEST) if relative else (_FEWEST, _MOST)
    return all(w == 0 or least <= w <= most for w in weights)


def usable_weights(votes: Votes, owner: str, *, relative: bool) -> Votes:
    """Return the votes with weights whose sums and squares are finite, or raise an error that names a bad weight.

    Parameters
    ----------
    votes : Preferences or Comparisons
        Lists with their weights, or pairs with their counts.
    owner : str
        The method named in errors.
    relative : bool
        Whether only the ratios of the weights within an instance matter. Extreme weights are then divided by the
        largest of the instance (to the next power of 2, which rounds nothing). Otherwise weights are numbers of
        votes, and extreme ones are an error.

    Examples
    --------
    >>> p = Preferences(["q", "q"], ["x", "y"], ["a", "b"], [1, 1], weight={"x": 2.0**900, "y": 2.0**899})
    >>> usable_weights(p, "RRF", relative=True).weights.tolist()
    [0.5, 0.25]
    """
    if isinstance(votes, Comparisons):
        columns = [votes.n_left, votes.n_right, votes.n_ties]
    elif votes.list_weight is None:
        return votes
    else:
        columns = [votes.list_weight]
    least, most = (_LIGHTEST, _HEAVIEST) if relative else (_FEWEST, _MOST)
    if all(_within(column, least, most) for column in columns):
        return votes
    starts = votes.row_starts if isinstance(votes, Comparisons) else votes.list_starts
    instance = np.repeat(np.arange(len(votes)), np.diff(starts))
    if not relative:
        able = [n for n in METHODS if METHODS[n]._relative_weights]
        strange, found = next(
            (int(rows[0]), column[rows[0]])
            for column in columns
            if len(rows := np.flatnonzero((column != 0) & ~((column >= least) & (column <= most))))
        )
        raise DataError(
            f"{owner} counts weights as numbers of votes, from {least:g} to {most:g}. Got {found:g}"
            f"{_whose(votes, strange)}. Divide all weights by one number, or use a method to which only their ratios "
            f"matter: {', '.join(able)}."
        )
    largest, smallest = np.zeros(len(votes)), np.full(len(votes), np.inf)
    for column in columns:
        np.maximum.at(largest, instance, column)
        np.minimum.at(smallest, instance[column > 0], column[column > 0])
    scaled = [column.copy() for column in columns]
    for n in np.flatnonzero((largest > most) | (smallest < least)).tolist():
        own = slice(int(starts[n]), int(starts[n + 1]))
        for column in scaled:
            column[own] = _divided(
                column[own], smallest[n], largest[n], f"the weights of instance {quote(votes.instances[n])}"
            )
    if isinstance(votes, Preferences):
        return votes.with_list_weights(scaled[0])
    return votes.with_counts(scaled[0], scaled[1], scaled[2])


def _divided(weights: Floats, smallest: float, largest: float, whose: str) -> Floats:
    """Return the weights divided by the next power of 2 above the largest, which rounds nothing."""
    power = -int(np.frexp(largest)[1])
    if np.ldexp(smallest, power) < _SMALLEST_SHARE:
        raise DataError(
            f"{whose} go from {smallest:g} to {largest:g}, a ratio too large for floating-point numbers. "
            f"Leave out experts who weigh less than {_SMALLEST_SHARE:g} times the heaviest."
        )
    return np.asarray(np.ldexp(weights, power))


def _whose(votes: Votes, row: int) -> str:
    """Return in words which list or pair a weight belongs to."""
    if isinstance(votes, Preferences):
        expert, instance = votes._list_name(row)
        return f" for expert {quote(expert)} in instance {quote(instance)}"
    instance, left = votes.slots.where(int(votes.left[row]))
    right = votes.items[int(votes.right[row])]
    return f" for {quote(left)} against {quote(right)} in instance {quote(instance)}"


def list_weights(
    preferences: Preferences, weights: Mapping[str, float] | None, owner: str, unknown_experts: str = "error"
) -> Floats | None:
    """Return one weight per list: that of the container times that of the expert; None if all are 1.

    Experts that the mapping does not name weigh 1. A name that is no expert is an error unless `unknown_experts` is
    "ignore".
    """
    if not weights:
        return preferences.list_weight
    codes = preferences.experts.codes
    unknown = [e for e in weights if e not in codes]
    if unknown and unknown_experts == "error":
        ignore = Setting("unknown_experts", "ignore")
        raise DataError(
            f"{owner} has weights for experts {listing(unknown)} who are not in the preferences. "
            f"Known: {listing(preferences.experts.tolist(), 20)}. Pass {ignore} to ignore such weights."
        ).advising(ignore)
    by_expert = np.ones(preferences.n_experts)
    for expert, weight in weights.items():
        if expert in codes:
            by_expert[codes[expert]] = weight
    if not _within(by_expert, _LIGHTEST, _HEAVIEST):
        # Only their ratios matter, and these are the same in all instances.
        least, most = float(by_expert[by_expert > 0].min()), float(by_expert.max())
        by_expert = _divided(by_expert, least, most, f"the weights given to {owner}")
    out = by_expert[preferences.list_expert]
    return out if preferences.list_weight is None else out * preferences.list_weight
