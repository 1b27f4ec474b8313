"""Linear scores of slots from sparse rows, and where items stand by them: the inner loops of every trained aggregator.

Rows lie slot by slot (`starts`); a row has a block of weights and d numbers, and adds their inner product.
"""

from __future__ import annotations

from concordant.kernels.jit import jit
from concordant.kernels.lists import Codes, Floats, Ints

__all__ = ["add_outer", "linear_scores", "list_terms", "worst_places"]


@jit
def linear_scores(
    offsets: Ints, starts: Ints, block: Codes, X: Floats, w: Floats, instances: Ints, out: Floats
) -> None:
    """Write the sum over a slot's rows of X[row] . w[block[row]] for every slot of the given instances."""
    d = X.shape[1]
    for at in range(len(instances)):
        n = instances[at]
        for slot in range(offsets[n], offsets[n + 1]):
            total = 0.0
            for row in range(starts[slot], starts[slot + 1]):
                b = block[row]
                for c in range(d):
                    total += X[row, c] * w[b, c]
            out[slot] = total


@jit
def add_outer(
    offsets: Ints, starts: Ints, block: Codes, X: Floats, slope: Floats, instances: Ints, gradient: Floats
) -> None:
    """Add to `gradient` (blocks × d) the slope of the scores carried back to the weights, over the given instances."""
    d = X.shape[1]
    for at in range(len(instances)):
        n = instances[at]
        for slot in range(offsets[n], offsets[n + 1]):
            s = slope[slot]
            if s == 0.0:
                continue
            for row in range(starts[slot], starts[slot + 1]):
                b = block[row]
                for c in range(d):
                    gradient[b, c] += s * X[row, c]


@jit
def worst_places(score: Floats, offsets: Ints, hit: Ints, hit_starts: Ints, label: Floats, place: Ints) -> None:
    """Write the place (1 = first) of every hit in its instance; among equal scores it stands behind the lower labels.

    `hit` holds slots, those of instance n from hit_starts[n] on, and `label` their labels; slots that are no hits have
    lower labels. Hits with equal scores and labels take their places one after another.
    """
    for n in range(len(offsets) - 1):
        for h in range(hit_starts[n], hit_starts[n + 1]):
            own = score[hit[h]]
            ahead = 0
            for slot in range(offsets[n], offsets[n + 1]):
                if score[slot] >= own:
                    ahead += 1
            # All ties were counted, the hit itself with them; tied hits of a higher label stand behind it.
            for g in range(hit_starts[n], hit_starts[n + 1]):
                if score[hit[g]] == own and (label[g] > label[h] or (label[g] == label[h] and g > h)):
                    ahead -= 1
            place[h] = ahead


@jit
def _sort(x: Floats, first: int, last: int, order: Ints, spare: Ints) -> None:
    """Write the rows first..last - 1 into `order` at the same places, by x ascending, equal ones in row order.

    Short runs are sorted by insertion, then merged: lists that are sorted already cost one look.
    """
    n = last - first
    run = 16
    for a in range(first, last, run):
        b = min(a + run, last)
        for row in range(a, b):
            at = row
            while at > a and x[order[at - 1]] > x[row]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = row
    while run < n:
        for a in range(first, last, 2 * run):
            middle = min(a + run, last)
            b = min(a + 2 * run, last)
            if middle >= b or x[order[middle - 1]] <= x[order[middle]]:
                continue
            for i in range(a, middle):
                spare[i - a] = order[i]
            left, right, at = 0, middle, a
            while left < middle - a:
                if right < b and x[order[right]] < x[spare[left]]:
                    order[at] = order[right]
                    right += 1
                else:
                    order[at] = spare[left]
                    left += 1
                at += 1
        run *= 2


@jit
def _short_terms(
    x: Floats,
    first: int,
    last: int,
    binary: bool,
    over_largest: bool,
    plus: float,
    minus: float,
    none: float,
    out: Floats,
) -> None:
    """Write the terms of the list of rows first..last - 1, without a sort and almost without branches."""
    largest = 0.0
    total = 0.0
    for j in range(first, last):
        largest = x[j] if x[j] > largest else largest
        total += x[j]
    unit = 1.0 / largest if over_largest and largest != 0.0 and not binary else 1.0
    up = plus * unit
    down = minus * unit
    for i in range(first, last):
        own = x[i]
        if binary:
            behind = 0
            ahead = 0
            for j in range(first, last):
                behind += x[j] > own
                ahead += x[j] < own
            out[i] = up * behind - down * ahead - none
        else:
            row = 0.0
            for j in range(first, last):
                apart = x[j] - own
                row += apart if apart > 0.0 else 0.0
            # row - col = total - m x_i, so that one of the two sums is enough.
            out[i] = (up - down) * row + down * (total - (last - first) * own) - none


@jit
def list_terms(
    x: Floats,
    offsets: Ints,
    width: Floats,
    binary: bool,
    over_largest: bool,
    plus: Floats,
    minus: Floats,
    none: Floats,
    order: Ints,
    spare: Ints,
    out: Floats,
) -> None:
    """Write what every row of every list adds to its item: -none + plus * row - minus * col, all by list.

    row = Σ (x_j - x_i) / z over the items behind, col over those ahead, both over `width`; `binary` counts them
    instead, `over_largest` makes z the largest x of the list, else it is 1. Long lists are sorted and walked twice,
    forwards for col and backwards for row; in short ones comparing everything is quicker. `order` and `spare` are room
    for as many rows as there are, and as the longest list has.
    """
    for k in range(len(offsets) - 1):
        first, last = offsets[k], offsets[k + 1]
        if last - first <= 64:
            up, down = plus[k] / width[k], minus[k] / width[k]
            _short_terms(x, first, last, binary, over_largest, up, down, none[k], out)
            continue
        _sort(x, first, last, order, spare)
        z = x[order[last - 1]] if over_largest else 1.0
        scale = 1.0 / width[k] if binary or z == 0.0 else 1.0 / (width[k] * z)
        down = minus[k] * scale
        up = plus[k] * scale
        total = 0.0
        at = first
        while at < last:
            value = x[order[at]]
            end = at
            while end < last and x[order[end]] == value:
                end += 1
            ahead = at - first
            lost = float(ahead) if binary else ahead * value - total
            for row in range(at, end):
                out[order[row]] = -none[k] - down * lost
                total += value
            at = end
        total = 0.0
        at = last
        while at > first:
            value = x[order[at - 1]]
            start = at
            while start > first and x[order[start - 1]] == value:
                start -= 1
            behind = last - at
            won = float(behind) if binary else total - behind * value
            for row in range(start, at):
                out[order[row]] += up * won
                total += value
            at = start
