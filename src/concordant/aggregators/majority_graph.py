"""The majority graph of an instance: its arrows as a frame, Condorcet winner and loser, Smith and Schwartz sets.

An arrow leads from the winner of a pair to its loser: a greater weight of lists, or of observed comparisons, prefers
the first to the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from concordant.aggregators._pairwise_votes import MISSING, PairwiseVotes, check_tables, one_instance
from concordant.arrays import Bools
from concordant.base.contract import Votes
from concordant.base.params import check_params
from concordant.base.weights import usable_weights
from concordant.data.comparisons import Comparisons
from concordant.data.preferences import Preferences
from concordant.errors import KindError
from concordant.kernels import majority_paths

if TYPE_CHECKING:
    import polars as pl

__all__ = ["condorcet_loser", "condorcet_winner", "majority_graph", "schwartz_set", "smith_set"]


def condorcet_winner(preferences: Votes, instance: str | None = None, *, missing: str = "auto") -> str | None:
    """Return the item that beats every other by majority, None where there is none.

    Parameters
    ----------
    preferences : Preferences or Comparisons
        The votes.
    instance : str, optional
        Which instance; needed where there are several.
    missing : {"auto", "unknown", "below"}
        What a list says about an item it leaves out, as in `Copeland`.

    Notes
    -----
    Cost O(K M²) for K lists over M items, for this and the other functions on majorities. A single item wins and loses
    nothing: it is the winner, and no loser.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a", "c"], "z": ["a", "c", "b"]})
    >>> cc.condorcet_winner(votes), cc.condorcet_loser(votes)
    ('a', 'c')
    """
    items, beats = _majorities(preferences, instance, missing, "condorcet_winner")
    return next((items[i] for i in np.flatnonzero(beats.sum(axis=1) == len(items) - 1).tolist()), None)


def condorcet_loser(preferences: Votes, instance: str | None = None, *, missing: str = "auto") -> str | None:
    """Return the item that loses to every other by majority, None where there is none.

    Parameters and cost are those of `condorcet_winner`.

    Examples
    --------
    >>> import concordant as cc
    >>> cc.condorcet_loser(cc.from_lists({"x": ["a", "b"], "y": ["b", "a"]})) is None
    True
    """
    items, beats = _majorities(preferences, instance, missing, "condorcet_loser")
    lost = np.flatnonzero(beats.sum(axis=0) == max(len(items) - 1, 1))
    return next((items[i] for i in lost.tolist()), None)


def smith_set(preferences: Votes, instance: str | None = None, *, missing: str = "auto") -> list[str]:
    """Return the smallest set of items that all beat every item outside of it, in the order of the input.

    It is the Condorcet winner alone where there is one. Parameters and cost are those of `condorcet_winner`.

    References
    ----------
    Smith, Aggregation of preferences with variable electorate, Econometrica 41, 1973.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": ["a", "b", "c", "d"], "y": ["b", "c", "a", "d"], "z": ["c", "a", "b", "d"]})
    >>> cc.smith_set(votes)
    ['a', 'b', 'c']
    """
    items, beats = _majorities(preferences, instance, missing, "smith_set")
    return [items[i] for i in np.flatnonzero(majority_paths.smith_set(beats)).tolist()]


def schwartz_set(preferences: Votes, instance: str | None = None, *, missing: str = "auto") -> list[str]:
    """Return the items of all smallest sets that no item outside beats a member of, in the order of the input.

    It is a part of the Smith set, and differs from it only where majorities are tied. Parameters and cost are those of
    `condorcet_winner`.

    References
    ----------
    Schwartz, Rationality and the myth of the maximum, Noûs 6, 1972.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "c", "a"]})
    >>> cc.smith_set(votes), cc.schwartz_set(votes)
    (['a', 'b', 'c'], ['a', 'b'])
    """
    items, beats = _majorities(preferences, instance, missing, "schwartz_set")
    return [items[i] for i in np.flatnonzero(majority_paths.schwartz_set(beats)).tolist()]


def majority_graph(preferences: Votes, instance: str | None = None, *, missing: str = "auto") -> pl.DataFrame:
    """Return the arrows of the majority graph as a Polars frame, the largest margin of each instance first.

    The columns are `instance`, `winner`, `loser`, `votes_for` (the weight that prefers the winner), `votes_against`,
    `ties` (the weight of lists or comparisons that tie the two), and `margin` (votes for less votes against). A pair
    with equal votes has no arrow, and no row.

    Parameters
    ----------
    preferences : Preferences or Comparisons
        The votes.
    instance : str, optional
        Which instance; by default all.
    missing : {"auto", "unknown", "below"}
        What a list says about an item it leaves out, as in `Copeland`. Two items that it leaves out are never tied.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "c", "a"], "z": ["c", "a"]}, weights={"x": 3})
    >>> cc.majority_graph(votes).drop("instance").rows()
    [('b', 'c', 4.0, 0.0, 0.0, 4.0), ('a', 'b', 3.0, 1.0, 0.0, 2.0), ('a', 'c', 3.0, 2.0, 0.0, 1.0)]
    """
    import polars as pl

    preferences = _checked(preferences, instance, missing, "majority_graph")
    check_tables(preferences, "majority_graph")
    votes = PairwiseVotes.of(preferences, missing)
    empty = pl.DataFrame(schema=dict.fromkeys(("instance", "winner", "loser"), pl.String))
    numbers = ("votes_for", "votes_against", "ties", "margin")
    frames = [empty.with_columns(pl.lit(None, pl.Float64).alias(name) for name in numbers)]
    edges = votes.offsets.tolist()
    for n in range(len(preferences)):
        ahead = votes.counts(n)
        tied = votes.counts(n, ties=True) - ahead
        margin = ahead - ahead.T
        winner, loser = np.nonzero(margin > votes.tie_margin(n))
        order = np.argsort(-margin[winner, loser], kind="stable")
        winner, loser = winner[order], loser[order]
        items = np.asarray(preferences.items[edges[n] : edges[n + 1]].tolist(), dtype=object)
        columns = [ahead[winner, loser], ahead[loser, winner], tied[winner, loser], margin[winner, loser]]
        frames.append(
            pl.DataFrame(
                {
                    "instance": pl.Series([preferences.instances[n]] * len(winner), dtype=pl.String),
                    "winner": pl.Series(items[winner].tolist(), dtype=pl.String),
                    "loser": pl.Series(items[loser].tolist(), dtype=pl.String),
                    **dict(zip(numbers, columns, strict=True)),
                }
            )
        )
    return pl.concat(frames)


def _checked(preferences: Votes, instance: str | None, missing: str, owner: str) -> Votes:
    """Return the instance asked for, or all, with weights that can be summed."""
    if not isinstance(preferences, (Preferences, Comparisons)):
        raise KindError(f"{owner} counts Preferences or Comparisons, not {type(preferences).__name__}.")
    check_params(owner, {"missing": missing}, {"missing": MISSING})
    if instance is not None:
        preferences = one_instance(preferences, instance, owner)
    return usable_weights(preferences, owner, relative=True)


def _majorities(preferences: Votes, instance: str | None, missing: str, owner: str) -> tuple[list[str], Bools]:
    """Return the items of one instance, and whether row beats column."""
    preferences = one_instance(_checked(preferences, instance, missing, owner), None, owner)
    check_tables(preferences, owner)
    return preferences.items.tolist(), PairwiseVotes.of(preferences, missing).majorities(0)
