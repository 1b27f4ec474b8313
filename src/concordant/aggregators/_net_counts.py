"""Net preference counts of each item, list by list, from rankings, ratings or comparisons.

A list here holds all preferences of one expert in one instance, whether it ranks the items or compares some of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from concordant.arrays import Codes, Floats, Ints, read_only
from concordant.base.contract import Votes
from concordant.data.comparisons import Comparisons
from concordant.data.preferences import Preferences
from concordant.errors import DataError, quote
from concordant.kernels.lists import exact_sums, order_lists, ranges
from concordant.kernels.ratios import ratio

if TYPE_CHECKING:
    from concordant.kernels.mpm import PackedCounts

__all__ = ["NetCounts", "net_counts"]

# Sums smaller than this share of their terms are rounding error.
_NOTHING = 1e-12
# Differences of values up to this size can be squared and summed without overflow; sums from this size on have an
# inverse.
_LARGEST, _SMALLEST = 1e100, 1e-307


class NetCounts(NamedTuple):
    """The net counts of every list: preferences for each item minus those against it; and the data for pair tables."""

    votes: Votes
    offsets: Ints
    list_starts: Ints
    list_offsets: Ints
    expert: Ints
    weight: Floats
    total: Floats
    slot: Codes
    net: Floats
    # The list of each row of comparisons; empty for rankings.
    row_list: Ints
    # The value of each row of a ranking, whose differences are counts, and whether only their sign counts.
    value: Floats
    binary: bool

    @property
    def named(self) -> bool:
        """Whether the experts are known."""
        return isinstance(self.votes, Preferences) or self.votes.expert is not None

    @property
    def list_instance(self) -> Ints:
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.list_starts))

    def per_row(self, of_list: Floats) -> Floats:
        return np.repeat(of_list, np.diff(self.list_offsets))

    def per_instance(self, of_list: Floats) -> Floats:
        out = np.bincount(self.list_instance, weights=of_list, minlength=len(self.offsets) - 1)
        return out.astype(np.float64)

    def sums(self, of_list: Floats) -> Floats:
        """Return Σ_l of_list_l d_li for every slot, with the same bits for any order of the experts."""
        rows = self.list_offsets[self.list_starts]
        most = np.diff(self.list_starts)
        out = exact_sums(self.per_row(of_list) * self.net, self.slot, int(self.offsets[-1]), rows, most)
        # Opposite preferences may cancel up to rounding errors, which must not break ties.
        sizes = np.diff(self.offsets)
        terms = np.zeros(len(sizes))
        np.maximum.at(terms, self.list_instance, self._largest_terms(of_list))
        out[np.abs(out) <= _NOTHING * np.repeat(terms, sizes)] = 0.0
        return out

    def _largest_terms(self, of_list: Floats) -> Floats:
        out = np.zeros(len(self.total))
        which = np.repeat(np.arange(len(out)), np.diff(self.list_offsets))
        np.maximum.at(out, which, np.abs(self.net))
        return out * np.abs(of_list)

    def dense(self, lists: Ints, own: slice) -> Floats:
        """Return a dense table of the net counts of some lists of an instance, each as if it had weight 1."""
        out = np.zeros((len(lists), own.stop - own.start))
        starts, ends = self.list_offsets[lists], self.list_offsets[lists + 1]
        rows = ranges(starts, ends)
        out[np.repeat(np.arange(len(lists)), ends - starts), self.slot[rows] - own.start] = self.net[rows]
        return out / self.weight[lists][:, None]

    def table(self, n: int, of_list: Floats) -> Floats:
        """Return Σ_l of_list_l Y_l for an instance: preferences for the item of the row over that of the column."""
        m = int(self.offsets[n + 1] - self.offsets[n])
        out: Floats
        if isinstance(self.votes, Comparisons):
            left, right, wins, losses, which = self._rows(n)
            of_row = of_list[which]
            cells = np.concatenate([left * m + right, right * m + left])
            terms = np.concatenate([wins * of_row, losses * of_row])
            out = np.bincount(cells, weights=terms, minlength=m * m).reshape(m, m).astype(np.float64)
            return out
        from concordant.kernels.mpm_variance import preference_table

        out = np.zeros((m, m))
        slot, value, offsets, lists = self._lists(n)
        preference_table(slot, value, offsets, of_list[lists] * self.weight[lists], self.binary, out)
        return out

    def list_gradients(self, n: int, lists: Ints, score: Floats, gamma: Floats) -> Floats:
        """Return the gradients of Σ_ij Y_l(i,j) (s_i − s_j)/(γ_i + γ_j) in s and log γ, each list with weight 1."""
        m = len(score)
        out: Floats
        if isinstance(self.votes, Comparisons):
            left, right, wins, losses, which = self._rows(n)
            width = gamma[left] + gamma[right]
            gap = (wins - losses) / width
            by_gamma = -gap * (score[left] - score[right]) / width
            at = (which - self.list_starts[n]) * (2 * m)
            index = np.concatenate([at + left, at + right, at + m + left, at + m + right])
            terms = np.concatenate([gap, -gap, by_gamma * gamma[left], by_gamma * gamma[right]])
            count = int(self.list_starts[n + 1] - self.list_starts[n])
            out = np.bincount(index, weights=terms, minlength=count * 2 * m).reshape(count, 2 * m).astype(np.float64)
        else:
            from concordant.kernels.mpm_variance import list_gradients

            slot, value, offsets, _ = self._lists(n)
            out = np.empty((len(offsets) - 1, 2 * m))
            list_gradients(slot, value, offsets, self.binary, score, gamma, out)
        return out[lists - int(self.list_starts[n])]

    def _rows(self, n: int) -> tuple[Ints, Ints, Floats, Floats, Ints]:
        """Return the comparisons of an instance: left and right items, their wins, and the list of each row."""
        c, first = self.votes, int(self.offsets[n])
        if not isinstance(c, Comparisons):
            raise TypeError("only comparisons have rows of pairs")
        rows = slice(int(c.row_starts[n]), int(c.row_starts[n + 1]))
        left, right = (side[rows].astype(np.int64) - first for side in (c.left, c.right))
        return left, right, c.n_left[rows], c.n_right[rows], self.row_list[rows]

    def _lists(self, n: int) -> tuple[Codes, Floats, Ints, slice]:
        """Return the rows of the lists of an instance: items, values, where the lists begin, and which lists."""
        lists = slice(int(self.list_starts[n]), int(self.list_starts[n + 1]))
        offsets = self.list_offsets[lists.start : lists.stop + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        slot = self.slot[rows] - np.int32(self.offsets[n])
        (value,) = read_only(self.value[rows])
        return slot, value, offsets - offsets[0], lists

    def linked_slots(self) -> tuple[Codes, Codes]:
        """Return pairs of slots that span the graph of items connected by preferences."""
        if isinstance(self.votes, Comparisons):
            preferred = self.votes.n_left + self.votes.n_right > 0
            return self.votes.left[preferred], self.votes.right[preferred]
        # Neighbours in a list connect all its items.
        inside = np.ones(max(len(self.slot) - 1, 0), dtype=np.bool_)
        inner = self.list_offsets[1:-1]
        inside[inner - 1] = False
        inside &= (self.per_row(self.total) > 0)[: len(inside)]
        return self.slot[:-1][inside], self.slot[1:][inside]

    def packed(self) -> PackedCounts:
        """Return the counts of every instance, divided by its number of preferences; all instances have weight 1."""
        from concordant.kernels.mpm import PackedCounts

        total = self.per_instance(self.total)[self.list_instance]
        scale = ratio(1.0, total, 0.0)
        net = self.net * self.per_row(scale)
        one = np.ones(len(self.offsets) - 1)
        offsets, starts, list_offsets, slot = read_only(self.offsets, self.list_starts, self.list_offsets, self.slot)
        return PackedCounts(offsets, starts, list_offsets, self.expert, self.total * scale, slot, net, one)


def net_counts(votes: Votes, transform: str, pairs: bool) -> NetCounts:
    """Return the net counts; `pairs` also keeps the data for pair tables."""
    if isinstance(votes, Preferences):
        return _of_lists(votes, transform, pairs)
    slots = votes.slots
    gain = votes.n_left - votes.n_right
    if votes.expert is None:
        # No experts: one list per instance, over all its items.
        n = slots.n_slots
        net = np.bincount(votes.left, weights=gain, minlength=n) - np.bincount(votes.right, weights=gain, minlength=n)
        which = slots.instance[votes.left].astype(np.int64)
        starts = np.arange(len(slots) + 1, dtype=np.int64)
        offsets, expert = slots.offsets, np.zeros(len(slots), dtype=np.int64)
        slot = np.arange(n, dtype=np.int32)
    else:
        key = slots.instance[votes.left].astype(np.int64) * votes.n_experts + votes.expert
        lists, which = np.unique(key, return_inverse=True)
        starts = np.searchsorted(lists, np.arange(len(slots) + 1) * votes.n_experts).astype(np.int64)
        both = np.concatenate([which, which]) * slots.n_slots + np.concatenate([votes.left, votes.right])
        cells, place = np.unique(both, return_inverse=True)
        net = np.bincount(place, weights=np.concatenate([gain, -gain]), minlength=len(cells))
        offsets = np.searchsorted(cells, np.arange(len(lists) + 1) * slots.n_slots).astype(np.int64)
        expert = lists % max(votes.n_experts, 1)
        slot = (cells % max(slots.n_slots, 1)).astype(np.int32)
    total = np.bincount(which, weights=votes.n_left + votes.n_right, minlength=len(expert)).astype(np.float64)
    weight, none = np.ones(len(expert)), np.zeros(0)
    return NetCounts(
        votes, slots.offsets, starts, offsets, expert, weight, total, slot, net.astype(np.float64), which, none, False
    )


def _of_lists(p: Preferences, transform: str, pairs: bool) -> NetCounts:
    # Counts of ratings are differences of ratings, which hold more information than ranks.
    value = p.transformed("rating" if transform == "count" and p.kind == "rating" else transform, "MPM")
    if transform != "binary" and len(value) and not np.abs(value).max() <= _LARGEST:
        instance, item = p.slots.where(int(p.slot[np.abs(value).argmax()]))
        raise DataError(
            f"transform={transform!r} takes differences of {p.kind}s, and the {p.kind} of item {quote(item)} in "
            f"instance {quote(instance)} is beyond {_LARGEST:g}. Use smaller numbers, or transform='binary'."
        )
    if transform == "binary":
        row, col = p.pair_sums("binary")
        net, total = row - col, np.add.reduceat(row, p.list_offsets[:-1]) if p.n_lists else np.zeros(0)
    else:
        net, total = _differences(value, p.list_offsets)
    weight = p.weights
    faint = (total > 0) & (weight > 0) & (total * weight < _SMALLEST)
    if faint.any():
        expert, instance = p._list_name(int(faint.argmax()))
        raise DataError(
            f"transform={transform!r} takes differences of {p.kind}s, and those of expert {quote(expert)} in instance "
            f"{quote(instance)} times the weight of the list add up to less than {_SMALLEST:g}. Use larger numbers, or "
            "transform='binary'."
        )
    return NetCounts(
        p,
        p.slots.offsets,
        p.list_starts,
        p.list_offsets,
        p.list_expert.astype(np.int64),
        weight,
        total * weight,
        p.slot,
        net * np.repeat(weight, p.list_lengths),
        np.zeros(0, dtype=np.int64),
        value if pairs else np.zeros(0),
        transform == "binary",
    )


def _differences(value: Floats, list_offsets: Ints) -> tuple[Floats, Floats]:
    """Return the net counts of every row and the number of preferences of every list, as sums of differences.

    For m items with values x, Σ_j (x_j − x_i) = Σ x − m x_i, in O(m).
    """
    if not len(value):
        return np.zeros(0), np.zeros(0)
    starts, lengths = list_offsets[:-1], np.diff(list_offsets)
    ordered = value[order_lists(value, list_offsets)]
    # Summed in the order of the values, so that the order of rows does not matter.
    sums = np.add.reduceat(ordered, starts)
    place = np.arange(len(value)) - np.repeat(starts, lengths)
    total = np.add.reduceat((2 * place + 1 - np.repeat(lengths, lengths)) * ordered, starts)
    # Where all values are equal, the sums are rounding errors.
    tied = ordered[starts] == ordered[list_offsets[1:] - 1]
    net = np.repeat(sums, lengths) - np.repeat(lengths, lengths) * value
    net[np.repeat(tied, lengths)] = 0.0
    return net, np.where(tied, 0.0, total)
