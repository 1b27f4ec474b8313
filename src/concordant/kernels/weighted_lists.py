"""Softmax cross-entropy of weighted sums of lists, its gradient and its curvature, in loops over whole lists.

Instance n has the slots from offsets[n] on and the lists from starts[n] on, each of another block. A list has the
weight w[block] and the rows from `first` up to `last`; a row adds weight times x[row] to the score of slot[row]. Lists
are longer than slots have rows, so that loops over them are quicker than those over slots in `listwise`, and lists of
weight 0 cost nothing. Indices are unsigned where nothing else tells Numba that they do not count from the end.
"""

from __future__ import annotations

import numpy as np

from concordant.arrays import Bools, Codes, Floats, Ints
from concordant.kernels.jit import jit
from concordant.kernels.listwise import softmax_loss

__all__ = ["cross_entropy", "hessian", "list_scores"]


@jit
def list_scores(
    offsets: Ints,
    starts: Ints,
    block: Codes,
    first: Ints,
    last: Ints,
    slot: Codes,
    x: Floats,
    w: Floats,
    instances: Ints,
    out: Floats,
) -> None:
    """Write the scores of the slots of the given instances."""
    for at in range(len(instances)):
        n = instances[at]
        start = offsets[n]
        score = out[start : offsets[n + 1]]
        score[:] = 0.0
        for held in range(starts[n], starts[n + 1]):
            weight = w[block[held]]
            if weight != 0.0:
                slots, terms = slot[first[held] : last[held]], x[first[held] : last[held]]
                for row in range(len(slots)):
                    score[np.uint64(slots[row] - start)] += weight * terms[row]


@jit
def cross_entropy(
    offsets: Ints,
    starts: Ints,
    block: Codes,
    first: Ints,
    last: Ints,
    slot: Codes,
    x: Floats,
    w: Floats,
    target: Floats,
    instances: Ints,
    share: Floats,
    gradient: Floats,
) -> float:
    """Return the summed cross-entropy -Σ target ln softmax(score) of the instances and add its gradient to `gradient`.

    The targets of an instance add up to 1; slots whose target is NaN take no part. `share` gets the softmax of the
    slots, 0 for those that take no part.
    """
    list_scores(offsets, starts, block, first, last, slot, x, w, instances, share)
    longest = 0
    for at in range(len(instances)):
        longest = max(longest, offsets[instances[at] + 1] - offsets[instances[at]])
    score_gradient = np.empty(longest)
    value = 0.0
    for at in range(len(instances)):
        n = instances[at]
        start = offsets[n]
        p, t = share[start : offsets[n + 1]], target[start : offsets[n + 1]]
        value += softmax_loss(p, t)
        for s in range(len(p)):
            score_gradient[s] = 0.0 if np.isnan(t[s]) else p[s] - t[s]
        for held in range(starts[n], starts[n + 1]):
            slots, terms = slot[first[held] : last[held]], x[first[held] : last[held]]
            total = 0.0
            for row in range(len(slots)):
                total += terms[row] * score_gradient[np.uint64(slots[row] - start)]
            gradient[block[held]] += total
    return value


@jit
def hessian(
    offsets: Ints,
    starts: Ints,
    block: Codes,
    first: Ints,
    last: Ints,
    slot: Codes,
    x: Floats,
    share: Floats,
    wanted: Bools,
    instances: Ints,
    out: Floats,
) -> None:
    """Add the second derivatives of the summed cross-entropy by the wanted blocks to `out`, given the softmax.

    Per instance Σ p x xᵀ - (Σ p x)(Σ p x)ᵀ over its slots, x being what the lists give to the slot.
    """
    mean = np.zeros(len(out))
    for at in range(len(instances)):
        n = instances[at]
        start = offsets[n]
        p = share[start : offsets[n + 1]]
        # The rows of wanted blocks slot by slot: first their number, then where those of the slot end.
        ends = np.zeros(len(p) + 1, dtype=np.int64)
        for held in range(starts[n], starts[n + 1]):
            if wanted[block[held]]:
                slots = slot[first[held] : last[held]]
                for row in range(len(slots)):
                    ends[np.uint64(slots[row] - start + 1)] += 1
        for s in range(len(p)):
            ends[s + 1] += ends[s]
        owner, term = np.empty(ends[-1], dtype=np.uint64), np.empty(ends[-1])
        for held in range(starts[n], starts[n + 1]):
            if wanted[block[held]]:
                slots, terms = slot[first[held] : last[held]], x[first[held] : last[held]]
                for row in range(len(slots)):
                    own_end = np.uint64(slots[row] - start)
                    free = np.uint64(ends[own_end])
                    owner[free], term[free] = block[held], terms[row]
                    ends[own_end] += 1
        begin = 0
        for s in range(len(p)):
            own, held_by = term[begin : ends[s]], owner[begin : ends[s]]
            for i in range(len(own)):
                px = p[s] * own[i]
                mean[held_by[i]] += px
                cells = out[held_by[i]]
                for j in range(i + 1):
                    cells[held_by[j]] += px * own[j]
            begin = ends[s]
        for held in range(starts[n], starts[n + 1]):
            left = mean[block[held]]
            if left != 0.0:
                for other in range(starts[n], starts[n + 1]):
                    if block[other] <= block[held]:
                        out[block[held], block[other]] -= left * mean[block[other]]
        for held in range(starts[n], starts[n + 1]):
            mean[block[held]] = 0.0
    for left in range(len(out)):
        for right in range(left):
            out[right, left] = out[left, right]
