"""Tables of experts: each expert as a ranking of its own, and its agreement with the consensus."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus, rank_scores
from concordant.data.preferences import Preferences
from concordant.errors import DataError, IdentifiabilityWarning, NotFittedError, Setting, listing
from concordant.kernels.inversions import pair_balance, tau_b
from concordant.kernels.ratios import ratio

if TYPE_CHECKING:
    import polars as pl

    from concordant.data.labels import Labels

__all__ = [
    "DISCOUNTED",
    "INVERTED",
    "check_known",
    "describe_experts",
    "expert_records",
    "learned_adherence",
    "list_agreement",
    "lists_per_expert",
    "outcome_agreement",
    "support",
    "surely_inverted",
    "warn_counted_ballots",
]


class LearnsExperts(Protocol):
    """A method that may have learned something about experts, as every `Aggregator`."""

    def learned_experts(self) -> dict[str, list[Any]]:
        """Return what was learned about the experts, column by column."""
        ...

    def expert_habits(self) -> dict[str, list[Any]]:
        """Return the habits of the experts, column by column; empty where none were looked for."""
        ...


class LearnsAdherence(Protocol):
    """A method that learns one number for every expert."""

    experts_: list[str]
    adherence_: Floats
    unknown_experts: str


# Weights are counts of voters where so many lists, and this share of them, weigh more than 1.
_COUNTED_LEAST = 3
_COUNTED_SHARE = 0.1
# Up to this many experts times items, who compared what is a table; above it, sorted keys.
_TABLE = 50_000_000
# What a learned weight below 0 says, and what it says where labels show that the expert's own order is upside down.
DISCOUNTED = "discounted: beside the others, what it puts first goes down"
INVERTED = "inverted: what it puts first goes down"


def lists_per_expert(votes: Preferences | Comparisons) -> Ints:
    """Return the number of lists of positive weight of every expert; for comparisons, that of its instances."""
    if isinstance(votes, Preferences):
        own = votes.list_expert if votes.list_weight is None else votes.list_expert[votes.list_weight > 0]
        return np.bincount(own, minlength=votes.n_experts)
    if votes.expert is None:
        return np.zeros(0, dtype=np.int64)
    heard = votes.outcomes > 0
    where = votes.slots.instance[votes.left[heard]]
    pairs = np.unique(votes.expert[heard].astype(np.int64) * max(len(votes), 1) + where)
    return np.bincount(pairs // max(len(votes), 1), minlength=len(votes.experts))


def warn_counted_ballots(votes: Any, what: str, instead: str, warn: Callable[..., None], *settings: Setting) -> None:
    """Warn where weights are counts of voters, so that equal ballots are one expert.

    So they look where there is one instance with a list by each expert, weights are whole, and a tenth of them, at
    least three, are above 1.

    Parameters
    ----------
    votes : Preferences, Comparisons or Blocks
        The votes of the fit; others than Preferences count no ballots.
    what, instead : str
        What is learned for each expert, and the advice that ends the sentence.
    warn : callable
        Takes the message, its category and the settings that `instead` advises.
    """
    if not isinstance(votes, Preferences) or votes.list_weight is None or len(votes) != 1:
        return
    weight = votes.list_weight
    many, whole = int((weight > 1).sum()), bool((weight == np.floor(weight)).all())
    if not whole or many < max(_COUNTED_LEAST, _COUNTED_SHARE * len(weight)) or lists_per_expert(votes).max() > 1:
        return
    warn(
        f"the weights look like counts of voters ({many:,} of {len(weight):,} experts weigh more than 1, up to "
        f"{weight.max():g}): one {what} is learned for each distinct ballot, as if the voters who cast it were one "
        f"expert, and common ballots confirm themselves. {instead}",
        IdentifiabilityWarning,
        *settings,
    )


def check_known(
    votes: Preferences | Comparisons,
    known: Collection[str],
    owner: str,
    unknown_experts: str,
    *,
    passed_over: Container[str] = (),
    where: str = "",
    more: str = "",
    settings: Sequence[Setting] = (),
) -> None:
    """Raise if votes come from experts unseen in training, unless unknown_experts="ignore".

    Parameters
    ----------
    votes : Preferences or Comparisons
        What is predicted or chosen by.
    known : collection of str
        The experts seen in training.
    owner, unknown_experts : str
        Who asks, and the value of that parameter.
    passed_over : container of str
        Unseen experts whose votes are ignored in any case.
    where, more : str
        Which votes these are, and what else could be done, for the message.
    settings : sequence of Setting
        The settings that `more` advises.

    Examples
    --------
    >>> p = Preferences(["q"], ["x"], ["a"], [1], experts=["x", "silent"])
    >>> check_known(p, ["x"], "CRF", "error")
    >>> check_known(p, ["y"], "CRF", "ignore")
    """
    if unknown_experts == "ignore" or all(e in known for e in votes.experts):
        return
    heard = lists_per_expert(votes).tolist()
    strange = [
        e for e, lists in zip(votes.experts, heard, strict=False) if lists and e not in known and e not in passed_over
    ]
    if strange:
        ignore = Setting("unknown_experts", "ignore")
        raise DataError(
            f"{owner} has learned nothing about the experts {listing(strange)}{where}. Known: {listing(known, 20)}. "
            f"Fit on preferences that hold them, or pass {ignore} to leave them out{more}."
        ).advising(ignore, *settings)


def learned_adherence(method: LearnsAdherence, votes: Preferences | Comparisons, absent: float = 0.0) -> Floats:
    """Return what a method has learned about every expert of the votes.

    Unknown experts who speak are an error, or with unknown_experts="ignore" get `absent`.
    """
    owner = type(method).__name__
    if "adherence_" not in method.__dict__:
        raise NotFittedError.of(owner)
    known = dict(zip(method.experts_, method.adherence_.tolist(), strict=True))
    check_known(votes, known, owner, method.unknown_experts)
    return np.array([known.get(e, absent) for e in votes.experts], dtype=np.float64)


def support(votes: Preferences | Comparisons) -> Floats:
    """Return for every slot how many experts ranked it, or in how many comparisons it took part.

    A ballot counts as often as it was cast.
    """
    if isinstance(votes, Preferences):
        return np.bincount(votes.slot, weights=votes.row_weight, minlength=votes.n_slots).astype(np.float64)
    outcomes = votes.outcomes
    total = np.bincount(votes.left, weights=outcomes, minlength=votes.n_slots)
    return (total + np.bincount(votes.right, weights=outcomes, minlength=votes.n_slots)).astype(np.float64)


def describe_experts(
    votes: Preferences | Comparisons, consensus: Consensus, method: LearnsExperts | None = None
) -> pl.DataFrame:
    """Return a table of the experts: expert, lists, rows, coverage, weight, agreement, and what `method` learned.

    The weight is the one `method` learned, where it learns any; else the one given with the preferences. Coverage is
    the share of all items that the expert spoke of. For the agreement with the consensus see `expert_records`.

    Parameters
    ----------
    votes : Preferences or Comparisons
        What the experts said.
    consensus : Consensus
        What it came to.
    method : Aggregator, optional
        The fitted method.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": ["a", "b", "c"], "y": ["a", "b", "c"], "z": ["c", "a", "b"]})
    >>> table = describe_experts(votes, cc.aggregate(votes, "borda"))
    >>> dict(zip(table["expert"], table["agreement"].round(2)))
    {'x': 0.82, 'y': 0.82, 'z': 0.0}
    """
    import polars as pl

    return pl.DataFrame(expert_records(votes, consensus, method=method), infer_schema_length=None)


def expert_records(
    votes: Preferences | Comparisons,
    consensus: Consensus,
    trust: Mapping[str, float] | None = None,
    method: LearnsExperts | None = None,
) -> list[dict[str, Any]]:
    """Return one record per expert: how much it said, its weight, and how far it agrees with the consensus.

    For lists the agreement is Kendall's tau-b between the expert's ranks and the consensus', averaged over the expert's
    instances. Items a ranked or scored list leaves out are tied behind those it holds: an expert who lists what nobody
    else wants would otherwise agree with a consensus that only it had a say in. A rating that is missing says nothing,
    so that ratings are compared over the rated items. For comparisons the agreement is the share of outcomes that agree
    with the consensus minus the share that contradict it. From 1 (the same order) to -1 (the reverse).
    """
    if isinstance(votes, Preferences):
        records = _list_experts(votes, consensus)
    elif votes.expert is None:
        raise DataError(
            "the comparisons name no experts, so that there is no table of experts. "
            "Name the column that holds them: --columns expert=COLUMN."
        )
    else:
        records = _comparing_experts(votes, votes.expert, consensus, trust or {})
    for learned in (method.learned_experts(), method.expert_habits()) if method is not None else ():
        if not learned:
            continue
        known = {expert: row for row, expert in enumerate(learned["expert"])}
        for record in records:
            # Who has no weights of their own has those that are shared, where there are such.
            row = known.get(record["expert"], known.get("*"))
            more = {name: None if row is None else column[row] for name, column in learned.items() if name != "expert"}
            record.update(more)
    return records


def list_agreement(votes: Preferences, rank: Codes | Floats, *, behind: bool) -> Floats:
    """Return Kendall's tau-b of every list with a ranking of its instance, NaN where a side ties everything.

    Parameters
    ----------
    votes : Preferences
        The lists.
    rank : int[slots]
        The ranking: one rank for every slot, 1 is best.
    behind : bool
        Whether items that a list leaves out are tied behind those it holds, or not looked at.

    Notes
    -----
    O(R log R + S log S) for R rows and S slots, all lists in one sweep. Items left out need no rows: what they add to
    concordant less discordant pairs is, for every listed item, the items ranked below it less those ranked above it,
    whether listed or not, for the listed ones cancel out.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a"]})
    >>> list_agreement(votes, cc.aggregate(votes, "borda").rank, behind=True).round(2).tolist()
    [0.82, 0.82]
    """
    n, n_lists = votes.list_lengths.astype(np.int64), votes.n_lists
    if votes.n_rows == 0:
        return np.full(n_lists, np.nan)
    # Average places are whole numbers or halves.
    own = np.rint(2 * votes.positions("average")).astype(np.int64)
    ranks = np.asarray(rank, dtype=np.int64)
    net, in_own, in_theirs = pair_balance(votes.row_list, own, ranks[votes.slot], n_lists)
    if not behind:
        return tau_b(net, in_own, in_theirs)
    # Items of the whole instance: how many are better, and how many share the rank.
    place, sizes = votes.slots.instance.astype(np.int64), votes.slots.sizes.astype(np.int64)
    _, first, group, times = np.unique(
        place * (int(ranks.max()) + 1) + ranks, return_index=True, return_inverse=True, return_counts=True
    )
    before = np.cumsum(times) - times - votes.slots.offsets[place[first]]
    below_less_above = (sizes[place] - times[group] - 2 * before[group]).astype(np.float64)
    m = sizes[votes.list_instance]
    tied = np.bincount(place[first], weights=times * (times - 1) / 2, minlength=len(votes))[votes.list_instance]
    return tau_b(
        net + np.bincount(votes.row_list, weights=below_less_above[votes.slot], minlength=n_lists),
        in_own + n * (m - n),
        m * (m - 1) / 2 - tied,
    )


def outcome_agreement(votes: Comparisons, rank: Codes | Floats) -> Floats:
    """Return for every expert the share of its outcomes that agree with a ranking less that of those against it.

    Ties agree with nothing. NaN where an expert has no outcome.

    Examples
    --------
    >>> c = Comparisons("all", ["x", "x", "y"], ["a", "b", "a"], ["b", "c", "b"], [1, 0, 0], [0, 0, 1], [0, 1, 0])
    >>> outcome_agreement(c, np.array([1, 2, 3])).tolist()
    [0.5, -1.0]
    """
    sign = np.sign(rank[votes.right] - rank[votes.left])
    k, expert = votes.n_experts, votes.row_expert
    return ratio(
        np.bincount(expert, weights=sign * (votes.n_left - votes.n_right), minlength=k),
        np.bincount(expert, weights=votes.outcomes, minlength=k),
    )


def surely_inverted(votes: Preferences | Comparisons, labels: Labels, names: Sequence[str]) -> NDArray[np.bool_]:
    """Return for every name whether labels show that the expert's order is upside down.

    An expert agrees with the labels of an instance by Kendall's tau-b over the items it ranks, or by the share of its
    outcomes that the labels agree with less the share they contradict; items without a label count as label 0. Shown is
    what the whole 95 % interval of the mean over instances (Student's t, Bonferroni's correction over the names) says.
    A name that is no expert stands for all experts that are not named.
    """
    from scipy.special import stdtrit

    if isinstance(votes, Comparisons) and votes.expert is None:
        return np.zeros(len(names), dtype=np.bool_)
    code = {name: c for c, name in enumerate(names)}
    rest = next((c for name, c in code.items() if name not in votes.experts.codes), -1)
    of_expert = np.array([code.get(e, rest) for e in votes.experts], dtype=np.int64)
    label = np.nan_to_num(labels.align(votes).label)
    if isinstance(votes, Preferences):
        group, place = of_expert[votes.list_expert], votes.list_instance.astype(np.int64)
        rank, _ = rank_scores(label, votes.slots.offsets)
        above = list_agreement(votes, rank, behind=False)
        below = np.where(np.isnan(above), 0.0, 1.0)
    else:
        group, place = of_expert[votes.expert], votes.slots.instance[votes.left].astype(np.int64)
        above = np.sign(label[votes.left] - label[votes.right]) * (votes.n_left - votes.n_right)
        below = votes.outcomes
    told = np.flatnonzero((group >= 0) & (below > 0))
    cells, cell = np.unique(group[told] * len(votes) + place[told], return_inverse=True)
    each = np.bincount(cell, weights=above[told]) / np.bincount(cell, weights=below[told])
    owner = cells // max(len(votes), 1)
    # One more instance that says nothing: a few short lists that all disagree prove little.
    n = np.bincount(owner, minlength=len(names)) + 1.0
    mean = np.bincount(owner, weights=each, minlength=len(names)) / n
    spread = np.bincount(owner, weights=(each - mean[owner]) ** 2, minlength=len(names)) + mean**2
    error = np.sqrt(spread / (n * np.maximum(n - 1, 1)))
    surely = stdtrit(np.maximum(n - 1, 1), 1 - 0.025 / max(len(names), 1))
    return np.asarray(mean + surely * error < 0, dtype=np.bool_)


def _list_experts(votes: Preferences, consensus: Consensus) -> list[dict[str, Any]]:
    tau = list_agreement(votes, consensus.rank, behind=votes.kind != "rating")
    k = votes.n_experts
    least, most = np.full(k, np.inf), np.full(k, -np.inf)
    np.minimum.at(least, votes.list_expert, votes.weights)
    np.maximum.at(most, votes.list_expert, votes.weights)
    told = ~np.isnan(tau)
    return _records(
        votes.experts.tolist(),
        np.bincount(votes.list_expert, minlength=k),
        np.bincount(votes.list_expert, weights=votes.list_lengths, minlength=k),
        np.bincount(votes.list_expert, weights=votes.list_lengths, minlength=k) / max(votes.n_slots, 1),
        np.where(least == most, least, np.nan),
        ratio(
            np.bincount(votes.list_expert[told], weights=tau[told], minlength=k),
            np.bincount(votes.list_expert[told], minlength=k),
        ),
    )


def _comparing_experts(
    votes: Comparisons, expert: Codes, consensus: Consensus, trust: Mapping[str, float]
) -> list[dict[str, Any]]:
    k, n = votes.n_experts, max(votes.n_slots, 1)
    return _records(
        votes.experts.tolist(),
        _n_distinct(k, max(len(votes), 1), (expert, votes.slots.instance[votes.left])),
        np.bincount(expert, minlength=k),
        _n_distinct(k, n, (expert, votes.left), (expert, votes.right)) / n,
        np.array([trust.get(name, 1.0) for name in votes.experts]),
        outcome_agreement(votes, consensus.rank),
    )


def _n_distinct(k: int, n: int, *parts: tuple[Codes, Codes | Ints]) -> Ints:
    """Return for each of k experts how many of n things it occurs with, in parts of rows of expert and thing."""
    if k * n <= _TABLE:
        table = np.zeros((k, n), dtype=np.bool_)
        for expert, thing in parts:
            table[expert, thing] = True
        return np.asarray(table.sum(axis=1))
    keys = np.concatenate([expert.astype(np.int64) * n + thing for expert, thing in parts])
    return np.bincount(np.unique(keys) // n, minlength=k)


def _records(
    experts: list[str], lists: Any, rows: Any, coverage: Any, weight: Any, agreement: Any
) -> list[dict[str, Any]]:
    return [
        {
            "expert": expert,
            "lists": int(lists[e]),
            "rows": int(rows[e]),
            "coverage": float(coverage[e]),
            "weight": None if np.isnan(weight[e]) else float(weight[e]),
            "agreement": None if np.isnan(agreement[e]) else float(agreement[e]),
        }
        for e, expert in enumerate(experts)
    ]
