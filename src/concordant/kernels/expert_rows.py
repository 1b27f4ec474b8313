"""Linear scores of slots from sparse expert rows, and ranks by these scores: inner loops of the trained aggregators.

Rows lie slot by slot (`starts`); a row has a block of weights and d numbers, and adds their inner product.
"""

from __future__ import annotations

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.jit import jit

__all__ = ["linear_scores", "worst_places"]


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
