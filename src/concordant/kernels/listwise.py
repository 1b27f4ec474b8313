"""Softmax cross-entropy of linear scores, its gradient and its curvature, in loops over sparse rows of instances.

Rows lie slot by slot (`starts`), a row has a block of weights and d numbers, and the score of a slot is the sum over
its rows of X[row] . w[block[row]]. The objective is convex in w: one optimum, whoever looks for it.
"""

from __future__ import annotations

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.jit import jit

__all__ = ["cross_entropy", "hessian", "softmax_loss", "spreads"]


@jit
def softmax_loss(share: Floats, target: Floats) -> float:
    """Replace the scores of an instance by their softmax, and return the cross-entropy -Σ target ln softmax.

    Slots whose target is NaN take no part; their share is 0.
    """
    most = -np.inf
    for slot in range(len(share)):
        if share[slot] > most and not np.isnan(target[slot]):
            most = share[slot]
    mass = 0.0
    loss = 0.0
    for slot in range(len(share)):
        if np.isnan(target[slot]):
            share[slot] = 0.0
            continue
        above = share[slot] - most
        loss -= target[slot] * above
        share[slot] = np.exp(above)
        mass += share[slot]
    for slot in range(len(share)):
        share[slot] /= mass
    return float(loss + np.log(mass))


@jit
def _shares(
    offsets: Ints, starts: Ints, block: Codes, X: Floats, w: Floats, target: Floats, n: int, share: Floats
) -> float:
    """Write the softmax shares of the slots of instance n (0 where the target is NaN) and return the loss."""
    d = X.shape[1]
    first, last = offsets[n], offsets[n + 1]
    for slot in range(first, last):
        total = 0.0
        if not np.isnan(target[slot]):
            for row in range(starts[slot], starts[slot + 1]):
                b = block[row]
                for c in range(d):
                    total += X[row, c] * w[b, c]
        share[slot - first] = total
    return softmax_loss(share[: last - first], target[first:last])


@jit
def cross_entropy(
    offsets: Ints, starts: Ints, block: Codes, X: Floats, w: Floats, target: Floats, instances: Ints, gradient: Floats
) -> float:
    """Return the summed cross-entropy -Σ target ln softmax(score) of the instances and add its gradient to `gradient`.

    The targets of an instance add up to 1; slots whose target is NaN take no part.
    """
    d = X.shape[1]
    largest = 0
    for at in range(len(instances)):
        largest = max(largest, offsets[instances[at] + 1] - offsets[instances[at]])
    share = np.empty(largest)
    value = 0.0
    for at in range(len(instances)):
        n = instances[at]
        value += _shares(offsets, starts, block, X, w, target, n, share)
        for slot in range(offsets[n], offsets[n + 1]):
            if np.isnan(target[slot]):
                continue
            score_gradient = share[slot - offsets[n]] - target[slot]
            for row in range(starts[slot], starts[slot + 1]):
                b = block[row]
                for c in range(d):
                    gradient[b, c] += score_gradient * X[row, c]
    return value


@jit
def hessian(
    offsets: Ints, starts: Ints, block: Codes, X: Floats, w: Floats, target: Floats, instances: Ints, out: Floats
) -> None:
    """Add the second derivatives of the summed cross-entropy to `out`, blocks·d squared (block-major).

    Per instance Σ p x xᵀ - (Σ p x)(Σ p x)ᵀ over its slots, x being what the slot's rows add up to in each block.
    """
    blocks, d = w.shape
    largest = 0
    for at in range(len(instances)):
        largest = max(largest, offsets[instances[at] + 1] - offsets[instances[at]])
    share = np.empty(largest)
    x = np.zeros(blocks * d)
    mean = np.zeros(blocks * d)
    touched = np.empty(blocks, dtype=np.int64)
    seen = np.empty(blocks, dtype=np.int64)
    inside = np.zeros(blocks, dtype=np.uint8)
    for at in range(len(instances)):
        n = instances[at]
        _shares(offsets, starts, block, X, w, target, n, share)
        present = 0
        for slot in range(offsets[n], offsets[n + 1]):
            p = share[slot - offsets[n]]
            if p == 0.0:
                continue
            # Rows of a slot lie by block, so that a new block shows itself by differing from the last one.
            count = 0
            for row in range(starts[slot], starts[slot + 1]):
                b = block[row]
                if count == 0 or touched[count - 1] != b:
                    touched[count] = b
                    count += 1
                    if inside[b] == 0:
                        inside[b] = 1
                        seen[present] = b
                        present += 1
                for c in range(d):
                    x[b * d + c] += X[row, c]
            for i in range(count):
                for c in range(d):
                    left = touched[i] * d + c
                    px = p * x[left]
                    mean[left] += px
                    for j in range(i + 1):
                        right = touched[j] * d
                        for e in range(d):
                            out[left, right + e] += px * x[right + e]
            for i in range(count):
                for c in range(d):
                    x[touched[i] * d + c] = 0.0
        for i in range(present):
            for c in range(d):
                left = seen[i] * d + c
                for j in range(present):
                    if seen[j] <= seen[i]:
                        right = seen[j] * d
                        for e in range(d):
                            out[left, right + e] -= mean[left] * mean[right + e]
        for i in range(present):
            inside[seen[i]] = 0
            for c in range(d):
                mean[seen[i] * d + c] = 0.0
    for left in range(blocks * d):
        for right in range(left):
            out[right, left] = out[left, right]


@jit
def spreads(offsets: Ints, starts: Ints, block: Codes, X: Floats, instances: Ints, out: Floats) -> None:
    """Add to `out` (blocks × d) the variance within instances of what slots have in every block, over all slots."""
    blocks, d = out.shape
    x = np.zeros((blocks, d))
    total = np.zeros((blocks, d))
    square = np.zeros((blocks, d))
    slots = 0
    for at in range(len(instances)):
        first, last = offsets[instances[at]], offsets[instances[at] + 1]
        slots += last - first
        for slot in range(first, last):
            for row in range(starts[slot], starts[slot + 1]):
                for c in range(d):
                    x[block[row], c] += X[row, c]
            for row in range(starts[slot], starts[slot + 1]):
                b = block[row]
                for c in range(d):
                    total[b, c] += x[b, c]
                    square[b, c] += x[b, c] * x[b, c]
                    # Several rows may have one block; what was counted is not counted again.
                    x[b, c] = 0.0
        for row in range(starts[first], starts[last]):
            b = block[row]
            for c in range(d):
                out[b, c] += square[b, c] - total[b, c] * total[b, c] / (last - first)
                total[b, c] = 0.0
                square[b, c] = 0.0
    for b in range(blocks):
        for c in range(d):
            out[b, c] = max(out[b, c] / max(slots, 1), 0.0)
