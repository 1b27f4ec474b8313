"""Covariates of the vote in Bradley-Terry: which columns are used, their units, and whether they can be estimated.

A covariate is left minus right of what differs between the sides of a vote, such as their lengths. It enters the logit
as x β, so that scores are those at equal covariates. Columns are divided by their root mean square for the fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from concordant.aggregators._bradley_terry_identifiability import Warn
from concordant.aggregators._vote_outcomes import VoteOutcomes
from concordant.arrays import Floats, Ints, read_only
from concordant.base.contract import Votes
from concordant.base.params import Constraint
from concordant.data.comparisons import Comparisons
from concordant.errors import (
    DataError,
    DataWarning,
    IdentifiabilityWarning,
    KindError,
    NoFiniteEstimateError,
    Setting,
    listing,
    quote,
)

if TYPE_CHECKING:
    from concordant.kernels.bradley_terry_votes import VoteRows

__all__ = [
    "COVARIATES",
    "all_identified",
    "check_identified",
    "check_separation",
    "check_sides",
    "chosen",
    "columns",
    "design",
    "difference",
    "names_of",
    "no_finite_coefficients",
    "separation",
    "suspicious",
    "units",
    "warn_unused",
]

# Information below this part of that of the columns alone: a column depends on others, up to rounding.
_DEPENDENT = 1e-8
# Information below this part of the outcomes, or parameters beyond this, may belong to estimates without bound.
_SUSPICIOUS, _LARGE = 1e-3, 10.0
# Beyond this many different rows no linear program looks for them.
_MOST_ROWS = 200_000
# Rows that are looked at together.
_PART = 50_000
# A covariate of at least this many values of one sign is no difference.
_MANY = 20


def _is_names(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, (list, tuple, str)):
        return False
    names = names_of(value)
    return all(isinstance(name, str) and name for name in names) and len(set(names)) == len(names)


def names_of(covariates: Sequence[str] | str) -> list[str]:
    """Return the names of a list, or of a text with commas between them."""
    return [name.strip() for name in covariates.split(",")] if isinstance(covariates, str) else list(covariates)


COVARIATES = Constraint("a list of different names (or a text with commas between them), 'all' or None", _is_names)


def chosen(covariates: Sequence[str] | str | None, votes: Votes) -> list[str]:
    """Return the names of the columns to use, or raise where the votes do not have one of them."""
    if not covariates:
        return []
    if not isinstance(votes, Comparisons):
        raise KindError(
            "BradleyTerry(covariates=...) takes comparisons, whose rows carry covariates, and these are lists. "
            "Leave covariates out."
        )
    known = votes.covariate_names.tolist()
    if covariates == "all":
        if not known:
            raise DataError(
                "BradleyTerry(covariates='all'): the votes carry no covariates. Name columns of the file when you read "
                "it, covariates=['length'] (on the command line --read covariates=length), or leave covariates out."
            )
        return known
    wanted = names_of(covariates)
    missing = [name for name in wanted if name not in known]
    if missing:
        sideless = [name for name in missing if name in votes.columns.names or name in votes.categories.tolist()]
        if sideless:
            raise DataError(
                f"covariate {quote(sideless[0])} has no side: it is the same for both items of a vote, so that it says "
                "nothing about which of them wins. Compare its values by select_category, make them instances, or use "
                "a covariate that differs between left and right."
            )
        there = f"have {listing(known, 10)}" if known else "carry none"
        raise DataError(
            f"the votes have no covariates {listing(missing, 5)}; they {there}. Name columns of the file when you read "
            f"it, covariates={missing[:1]} (on the command line --read covariates=NAME)."
        )
    return wanted


def warn_unused(covariates: Sequence[str] | str | None, votes: Votes, warn: Warn) -> None:
    """Warn of covariates in the votes that the model does not use."""
    if covariates is not None or not isinstance(votes, Comparisons) or not len(votes.covariate_names):
        return
    use, leave = Setting("covariates", "all"), Setting("covariates", [])
    warn(
        f"the votes carry covariates {listing(votes.covariate_names.tolist(), 5)}, which BradleyTerry leaves out: "
        f"scores then hold what they add. Use them with {use}, or say that they are left out with {leave}.",
        DataWarning,
        use,
        leave,
    )


def columns(votes: Votes, names: Sequence[str]) -> Floats:
    """Return the covariates of every row; all of them in their order are not copied."""
    chosen(list(names), votes)
    if not isinstance(votes, Comparisons):
        raise KindError("covariates are columns of comparisons.")
    known = votes.covariate_names.tolist()
    if known == list(names):
        return votes.covariates
    return np.asarray(votes.covariates[:, [known.index(name) for name in names]], dtype=np.float64)


def units(votes: Comparisons, names: Sequence[str], ties: bool) -> Floats:
    """Return the root mean square of each covariate over the outcomes; raise for one that is 0 everywhere."""
    from concordant.kernels.bradley_terry_votes import root_mean_squares

    n = votes.n_left + votes.n_right + (votes.n_ties if ties else 0.0)
    # The largest value is taken out first, so that squares do not overflow.
    largest, over_largest = root_mean_squares(*read_only(columns(votes, names), n))
    empty = [name for name, size in zip(names, largest.tolist(), strict=True) if size == 0]
    if empty and n.any():
        raise DataError(
            f"covariate {quote(empty[0])} is 0 in every vote: left and right never differ in it. Leave it out."
        )
    out: Floats = largest * over_largest
    return np.where(out > 0, out, 1.0)


def design(votes: Votes, names: Sequence[str], unit: Floats) -> Floats:
    """Return the covariates of every row in their units for the fit."""
    return columns(votes, names) / unit


def difference(names: Sequence[str], given: Mapping[str, Any] | None) -> Floats:
    """Return the covariates of a predicted comparison, a minus b; those that are not named are equal."""
    unknown = [str(name) for name in given or {} if name not in names]
    if unknown:
        used = listing(list(names), 10) if names else "none"
        raise DataError(f"the model has no covariates {listing(unknown, 5)}. It has {used}.")
    values = np.array([float((given or {}).get(name, 0.0)) for name in names])
    if not np.isfinite(values).all():
        raise DataError("a covariate must be a finite number, a minus b.")
    return values


# Before the fit.


def check_sides(outcomes: VoteOutcomes, names: Sequence[str], warn: Warn) -> None:
    """Raise for a constant covariate, and warn of one that never changes its sign: neither looks like a difference."""
    if not outcomes.votes.sided:
        return
    held = outcomes.votes.n_left + outcomes.votes.n_right + outcomes.n_ties > 0
    for column, name in enumerate(names):
        some = outcomes.x[:_PART, column][held[:_PART]]
        # A few votes nearly always tell.
        if (some > 0).any() and (some < 0).any():
            continue
        x = outcomes.x[held, column]
        above, below = int((x > 0).sum()), int((x < 0).sum())
        if (above and below) or len(x) < 2:
            continue
        if max(above, below) == len(x) and np.ptp(x) <= 1e-12 * np.abs(x).max():
            raise DataError(
                f"covariate {quote(name)} is the same in every vote. A constant advantage of the left side is a side "
                "effect: use side_effect=True and leave it out."
            )
        if above + below >= _MANY:
            sign = "below" if above else "above"
            warn(
                f"covariate {quote(name)} is never {sign} 0, and its effect is that of a side. A covariate is left "
                "minus right; what has no side, such as the number of turns, is a category or a condition (where=).",
                IdentifiabilityWarning,
            )


def check_separation(outcomes: VoteOutcomes, names: Sequence[str]) -> None:
    """Raise on perfect separation by one covariate: its coefficient has no finite estimate."""
    v = outcomes.statistics
    for column, name in enumerate(names, start=1):
        up = down = tied = False
        # A few votes nearly always tell.
        for first in range(0, len(v.left), _PART):
            part = slice(first, first + _PART)
            x, won, lost = v.x[part, column], v.n_left[part] > 0, v.n_right[part] > 0
            up |= bool((won & (x > 0)).any() or (lost & (x < 0)).any())
            down |= bool((lost & (x > 0)).any() or (won & (x < 0)).any())
            tied |= bool((v.n_ties[part][x != 0] > 0).any())
            if (up and down) or tied:
                break
        if not (up and down) and not tied:
            who = "larger" if up else "smaller"
            raise NoFiniteEstimateError(
                f"no finite coefficient of covariate {quote(name)}: in every vote that was decided where left and "
                f"right differ in it, the side with the {who} value won. Leave it out, or use it as the outcome."
            )


def check_identified(information: Floats, alone: Floats, names: Sequence[str], *, shrinks: bool, warn: Warn) -> None:
    """Raise for covariates that depend on each other; for those that depend on the items, raise or warn.

    Parameters
    ----------
    information : float64[p, p]
        Of what is learned (side effect first, if it is, then coefficients) at equal items, the scores profiled out.
    alone : float64[p, p]
        The same with the scores known.
    names : sequence of str
        What the rows are.
    shrinks : bool
        Whether the scores have a prior, which then tells the two apart.
    warn : callable
        Takes a message and its category.
    """
    among = _dependent(alone, np.diag(alone))
    if len(among):
        raise DataError(
            f"{listing([names[k] for k in among])} depend on each other in these votes: one is a sum of the others, "
            "times constants, so that their coefficients are not determined. Leave one of them out."
        )
    with_items = [names[k] for k in _dependent(information, np.diag(alone))]
    if not with_items:
        return
    what = (
        f"{listing(with_items)}: its value in every vote follows from the items compared (such as the price of one "
        "minus that of the other), so that scores explain all that it does"
    )
    if not shrinks:
        raise NoFiniteEstimateError(f"no estimate of {what}. Leave it out, or give it as a feature of the items.")
    warn(f"{what}: only the prior tells them apart. Leave it out.", IdentifiabilityWarning)


def all_identified(information: Floats, alone: Floats) -> bool:
    """Return whether `check_identified` has nothing to say."""
    unit = np.diag(alone)
    return not _dependent(alone, unit) and not _dependent(information, unit)


def _dependent(information: Floats, unit: Floats) -> list[int]:
    """Return the rows of an information that take part in a direction without any."""
    scale = np.sqrt(np.maximum(unit, 1e-300))
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    flat = np.abs(vectors[:, values <= _DEPENDENT]).max(axis=1, initial=0.0)
    return np.flatnonzero(flat > 1e-6).tolist()


# After the fit.


def suspicious(information: Floats, values: Floats, n_outcomes: float) -> bool:
    """Return whether shared parameters may be on their way to infinity: they are large, or little is known of them."""
    if not len(information) or not n_outcomes:
        return False
    flat = float(np.linalg.eigvalsh(information)[0]) <= _SUSPICIOUS * n_outcomes
    return flat or float(np.abs(values).max(initial=0.0)) > _LARGE


def no_finite_coefficients(names: Sequence[str], among: str) -> NoFiniteEstimateError:
    """Return the error for parameters that grow without bound; without names, the scores of items alone do."""
    what = f"coefficients of {listing(list(names))}, with or without scores," if names else f"scores of {among}"
    return NoFiniteEstimateError(
        f"no finite Bradley-Terry estimate: {what} can grow without bound, because together they tell the outcome of "
        "every vote that they bear on. Leave some covariates out, use more votes, or set prior=0.1 if it is 0."
    )


def separation(votes: VoteRows, learned: Ints, *, shrinks: bool) -> list[int] | None:
    """Return the shared parameters that grow without bound with the likelihood; None where there is a maximum.

    There is none if scores and parameters can move in some direction so that no outcome ever becomes less likely, and
    one more likely. That is a linear program: with z the change of the logit and t ≥ 0 that of the tie parameter,
    z ≥ t where left won, −z ≥ t where right won, |z| ≤ t for a tie. Scores with a prior do not move. The list may be
    empty: scores alone run away. Votes with very many different rows are not looked at.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix, hstack, vstack

    n, m = len(votes.left), 0 if shrinks else votes.n_slots
    if n > _MOST_ROWS:
        return None
    row = np.arange(n)
    signs = np.repeat([1.0, -1.0], n)
    ends = np.concatenate([votes.left, votes.right])
    of_scores = coo_matrix((signs, (np.tile(row, 2), ends)), shape=(n, votes.n_slots)).tocsr()[:, :m]
    columns = learned[learned > 0] - 1
    x = votes.x[:, columns]
    z = hstack([of_scores, coo_matrix(x / np.maximum(np.abs(x).max(axis=0, initial=0.0), 1e-300))]).tocsr()
    t = coo_matrix(np.full((n, 1), float(0 in learned))).tocsr()
    won, lost, tied = votes.n_left > 0, votes.n_right > 0, votes.n_ties > 0
    # Rows that must be 0 or more.
    parts = [hstack([z[won], -t[won]]), hstack([-z[lost], -t[lost]])]
    parts += [hstack([-z[tied], t[tied]]), hstack([z[tied], t[tied]])]
    gains = vstack(parts).tocsr()
    k = len(columns)
    bounds = [(-1.0, 1.0)] * (m + k) + [(0.0, 1.0)]
    found = linprog(-np.asarray(gains.sum(axis=0)).ravel(), A_ub=-gains, b_ub=np.zeros(gains.shape[0]), bounds=bounds)
    if found.x is None or -found.fun <= 1e-7:
        return None
    moved = np.flatnonzero(np.abs(found.x[m : m + k]) > 1e-7)
    out: list[int] = (columns[moved] + 1).tolist()
    return out
