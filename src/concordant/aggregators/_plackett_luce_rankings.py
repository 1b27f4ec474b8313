"""Rankings as Plackett-Luce reads them: lists with marks where a choice begins, over the items of their instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints
from concordant.data.index import Slots
from concordant.data.preferences import Preferences
from concordant.data.streams import id_hash
from concordant.kernels import lists

if TYPE_CHECKING:
    from concordant.aggregators.plackett_luce import PlackettLuce
    from concordant.kernels.plackett_luce import Rankings

__all__ = ["RankingData"]

# Rests are expanded from the start unless that makes more than this many times the rows.
_EXPANSION = 4


@dataclass(frozen=True)
class RankingData:
    """The rankings of all instances, without lists that compare nothing.

    Attributes
    ----------
    slots : Slots
        The instances and their items.
    list_starts : int64[N + 1]
        Where the lists of each instance begin.
    source : int64[L]
        The number of each list in the preferences.
    rankings : Rankings
        All lists; items are numbered within their instance, over those compared.
    compared : bool[S]
        Whether some list compares the item of a slot with another.
    counts : int64[N]
        The number of compared items of each instance.
    list_choices, choices : float64[L], float64[N]
        The number of choices of each list, and their weighted sum in each instance.
    expanded : bool
        Whether the rest of every list has to be expanded item by item.
    """

    slots: Slots
    list_starts: Ints
    source: Ints
    rankings: Rankings
    compared: NDArray[np.bool_]
    counts: Ints
    list_choices: Floats
    choices: Floats
    expanded: bool = False

    @staticmethod
    def of(votes: Preferences, method: PlackettLuce, factors: Floats | None = None) -> RankingData:
        """Return the rankings of some preferences; `factors` multiply the scores of lists, NaN leaves a list out."""
        from concordant.kernels.plackett_luce import Rankings

        key = votes.value if votes.kind == "rank" else -votes.value
        offsets, lengths, sizes = votes.list_offsets, votes.list_lengths, votes.slots.sizes
        rows = _best_first(votes, key, method)
        slot = votes.slot if rows is None else votes.slot[rows]
        first = np.ones(votes.n_rows, dtype=np.bool_)
        if method.ties in ("average", "partition", "davidson-luce"):
            by_key = key if rows is None else key[rows]
            np.not_equal(by_key[1:], by_key[:-1], out=first[1:])
            first[offsets[:-1]] = True
        rest = (lengths < sizes[votes.list_instance]) & votes.below(method.missing)[votes.list_instance]
        if first.all():
            blocks, final = lengths, offsets[1:] - 1
        else:
            starts = np.flatnonzero(first)
            blocks = np.diff(np.searchsorted(starts, offsets))
            final = starts[np.cumsum(blocks) - 1]
        # The last block of a list is chosen only if a rest lies below it.
        mark = first.astype(np.uint8)
        # With Davidson-Luce ties a tie in last place is an outcome like any other.
        left = ~rest & (offsets[1:] - final == 1) if method._has_tie_parameters else ~rest
        mark[final[left]] = 2
        ends = np.where(rest, offsets[1:], final)
        n_choices = blocks - left if method.ties in ("partition", "davidson-luce") else ends - offsets[:-1]
        form = np.where(rest, 2, blocks < lengths).astype(np.uint8)
        weight = votes.weights
        kept = (n_choices > 0) & (weight > 0)
        if factors is not None:
            kept &= ~np.isnan(factors)
        if not kept.all():
            inside = np.repeat(kept, lengths)
            slot, mark, lengths = slot[inside], mark[inside], lengths[kept]
        per_instance = np.bincount(votes.list_instance[kept], minlength=len(votes))
        compared = np.zeros(votes.n_slots, dtype=np.bool_)
        compared[slot] = True
        if rest.any():
            open_ = np.bincount(votes.list_instance[kept & rest], minlength=len(votes)) > 0
            compared |= np.repeat(open_, sizes)
        before = lists.offsets_of(compared)
        counts = np.diff(before[votes.slots.offsets])
        if len(votes) == 1 and compared.all():
            # A copy, because kernels are compiled for writable arrays only.
            local = slot.copy()
        else:
            base = np.repeat(before[votes.slots.offsets[:-1]], per_instance)
            local = (before[slot] - np.repeat(base, lengths)).astype(np.int32)
        rankings = Rankings(
            local,
            mark,
            lists.offsets_of(lengths),
            weight[kept],
            form[kept],
            np.zeros(0) if factors is None else factors[kept],
            method.ties != "partition",
        )
        list_choices = n_choices[kept].astype(np.float64)
        choices = np.bincount(votes.list_instance[kept], weights=weight[kept] * list_choices, minlength=len(votes))
        list_starts = lists.offsets_of(per_instance)
        return RankingData(
            votes.slots,
            list_starts,
            np.flatnonzero(kept),
            rankings,
            compared,
            counts,
            list_choices,
            choices.astype(np.float64),
            method._has_tie_parameters,
        )

    def links(self) -> tuple[Ints, Ints]:
        """Return pairs of slots that span the graph of compared items: neighbours in lists, and all items of rests."""
        every = self.rankings
        where = np.flatnonzero(self.compared)
        before = lists.offsets_of(self.counts)
        rows = np.diff(every.offsets[self.list_starts])
        slot = where[every.item + np.repeat(before[:-1], rows)]
        inside = np.ones(max(len(slot) - 1, 0), dtype=np.bool_)
        inside[every.offsets[1:-1] - 1] = False
        # A list with a rest compares all items of its instance.
        instance = np.repeat(np.arange(len(self.counts)), np.diff(self.list_starts))
        whole = np.bincount(instance[every.form == 2], minlength=len(self.counts)) > 0
        chain = whole[self.slots.instance[where]]
        chain = chain[:-1] & chain[1:] & (np.diff(self.slots.instance[where]) == 0)
        one = np.concatenate([slot[:-1][inside], where[:-1][chain]])
        return one, np.concatenate([slot[1:][inside], where[1:][chain]])

    def n_items(self, n: int) -> int:
        """Return the number of items of an instance, compared or not."""
        return int(self.slots.offsets[n + 1] - self.slots.offsets[n])

    def places(self, n: int) -> Ints:
        """Return the indices of the compared items of an instance."""
        return np.flatnonzero(self.compared[self.slots.offsets[n] : self.slots.offsets[n + 1]])

    def instance_rankings(self, n: int, merge: bool = True) -> Rankings:
        """Return the rankings of one instance; with `merge` equal lists are merged where there are many."""
        from concordant.kernels.plackett_luce_lists import expanded, merged

        every = self.rankings
        a, b = int(self.list_starts[n]), int(self.list_starts[n + 1])
        offsets = every.offsets[a : b + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        rankings = every._replace(
            item=every.item[rows],
            mark=every.mark[rows],
            offsets=offsets - offsets[0],
            weight=every.weight[a:b],
            form=every.form[a:b],
            theta=every.theta[a:b],
        )
        size = int(self.counts[n])
        if merge and len(every.theta) == 0:
            rankings = merged(rankings)
        rests = np.flatnonzero(rankings.form == 2)
        small = len(rests) * size <= _EXPANSION * (len(rankings.item) + size)
        if len(rests) and (len(every.theta) or small or self.expanded):
            rankings = expanded(rankings, size, rests)
        return rankings


def _best_first(votes: Preferences, key: Floats, method: PlackettLuce) -> Ints | None:
    """Return the row numbers, best first in every list; ties in input order, or in an order drawn from the ids.

    None where the rows are in that order already.
    """
    if method.ties != "random":
        falls = key[1:] < key[:-1]
        inner = votes.list_offsets[1:-1]
        falls[inner - 1] = False
        return lists.order_lists(key, votes.list_offsets) if falls.any() else None
    from concordant.kernels.splitmix64 import hashed

    # A hash for each row that depends only on the seed and the three ids.
    slots = np.unique(votes.slot)
    item = np.zeros(votes.n_slots, dtype=np.uint64)
    item[slots] = [id_hash(votes.items[s]) for s in slots.tolist()]
    expert = np.array([id_hash(e) for e in votes.experts], dtype=np.uint64)
    instance = np.array([id_hash(q) for q in votes.instances], dtype=np.uint64)
    mixed = hashed(instance[votes.slots.instance[votes.slot]] + np.uint64(method.random_state))
    mixed = hashed(hashed(mixed ^ expert[votes.row_expert]) ^ item[votes.slot])
    return np.lexsort((mixed, key, votes.row_list))
