"""Stationary distributions of Markov chains over items (MC1 to MC4), without a stored transition matrix.

A step along lists needs only sums over the tail of each list, so it costs one pass over the rows. The stationary
distribution with teleport solves a well-conditioned linear system. GMRES with a diagonal preconditioner needs some
twenty steps for full precision; power iteration needs hundreds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints

__all__ = ["RandomWalk", "list_walk", "majority_walk", "stationary", "with_absent_items"]

_STEPS = 60
_RESTARTS = 40
_TOLERANCE = 1e-14
_WHOLE_TABLE, _BAND = 3000, 64


class RandomWalk(NamedTuple):
    """A random walk over n items: `step` maps probabilities to those after one step, `stay` is P(i, i)."""

    step: Callable[[Floats], Floats]
    stay: Floats


def majority_walk(beats: NDArray[np.bool_]) -> RandomWalk:
    """Return the walk that draws one of the n items and moves there if it beats (beats[j, i]) the present one i."""
    n = len(beats)
    stay = 1.0 - np.count_nonzero(beats, axis=0) / n
    # Floats take eight times the memory of booleans: beyond a few thousand items rows are converted in bands.
    band = n if n <= _WHOLE_TABLE else _BAND
    table = np.empty((band, n))
    if band == n:
        table[:] = beats

    def step(x: Floats) -> Floats:
        moved = np.empty(n)
        for row in range(0, n, band):
            part = table[: min(band, n - row)]
            if band < n:
                part[:] = beats[row : row + band]
            np.matmul(part, x, out=moved[row : row + band])
        moved /= n
        moved += stay * x
        return moved

    return RandomWalk(step, stay)


def list_walk(
    which: NDArray[Any], item: NDArray[Any], position: NDArray[Any], weights: Floats, n: int, chain: int
) -> RandomWalk:
    """Return the walk MC1, MC2 or MC3 over the n items of one instance.

    Parameters
    ----------
    which, item, position : int[R]
        The list, the item and the dense position of every row, sorted by list and then by position.
    weights : float64[L]
        The weight of every list.
    n : int
        The number of items; the walk never leaves an item in no list.
    chain : {1, 2, 3}
        1: to any place at or above the present item, over all lists that hold it. 2: first draw a list that holds it,
        then such a place in it. 3: draw a list, then any place in it, and move if that is strictly above.
    """
    lengths = np.bincount(which, minlength=len(weights))
    width = int(lengths.max(initial=0))
    starts = np.cumsum(lengths) - lengths
    column = np.arange(len(which)) - starts[which]
    head, end = _tie_groups(which, position)
    head, end = head - starts[which], end - starts[which]
    weight = weights[which]
    number = np.bincount(item, weights=weight, minlength=n)
    listed = number > 0
    share = np.where(listed, number, 1.0)[item]
    if chain == 1:
        places = np.bincount(item, weights=weight * end, minlength=n)
        coefficient = weight / np.where(listed, places, 1.0)[item]
    elif chain == 2:
        coefficient = weight / (share * end)
    else:
        coefficient = weight / (share * lengths[which])
    reach = end if chain == 3 else head
    rest: Floats = np.where(listed, 0.0, 1.0)
    if chain == 3:
        stay = rest = 1.0 - np.bincount(item, weights=coefficient * head, minlength=n).astype(np.float64)
    else:
        stay = rest + np.bincount(item, weights=coefficient, minlength=n)
    # One row per list, padded with an item that does not exist and weighs nothing.
    items = np.full((len(weights), width), n, dtype=np.int64)
    factor = np.zeros(items.shape)
    reaches = np.zeros(items.shape, dtype=np.int64)
    items[which, column], factor[which, column], reaches[which, column] = item, coefficient, reach

    place = (reaches + np.arange(len(weights))[:, None] * (width + 1)).ravel()
    goal = items.ravel()

    def step(x: Floats) -> Floats:
        tail = np.zeros((len(weights), width + 1))
        from_here = np.append(x, 0.0)[items]
        from_here *= factor
        np.cumsum(from_here[:, ::-1], axis=1, out=tail[:, -2::-1])
        moved: Floats = np.bincount(goal, weights=tail.ravel()[place], minlength=n + 1)[:n] + rest * x
        return moved

    return RandomWalk(step, stay)


def with_absent_items(
    which: NDArray[Any], item: NDArray[Any], position: NDArray[Any], n_lists: int, n: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the rows of lists completed to all n items: those that a list leaves out are tied below its items.

    >>> which, item, position = with_absent_items(np.array([0, 1, 1]), np.array([2, 0, 2]), np.array([1, 1, 2]), 2, 3)
    >>> which.tolist(), item.tolist(), position.tolist()
    ([0, 0, 0, 1, 1, 1], [2, 0, 1, 0, 2, 1], [1.0, 4.0, 4.0, 1.0, 2.0, 4.0])
    """
    place = np.full((n_lists, n), n + 1.0)
    place[which, item] = position
    order = np.argsort(place, axis=1, kind="stable")
    return np.repeat(np.arange(n_lists), n), order.ravel(), np.take_along_axis(place, order, axis=1).ravel()


def _tie_groups(which: NDArray[Any], position: NDArray[Any]) -> tuple[Ints, Ints]:
    """Return for every (sorted) row where its group of tied rows begins and ends."""
    total = len(which)
    new = np.ones(total, dtype=np.bool_)
    new[1:] = (which[1:] != which[:-1]) | (position[1:] != position[:-1])
    starts = np.flatnonzero(new)
    sizes = np.diff(starts, append=total)
    return np.repeat(starts, sizes), np.repeat(starts + sizes, sizes)


def stationary(walk: RandomWalk, teleport: float) -> Floats:
    """Return the stationary distribution of a walk that first jumps to a uniform item with probability `teleport`.

    >>> walk = majority_walk(np.array([[False, True], [False, False]]))
    >>> stationary(walk, 0.5).round(6).tolist()
    [0.666667, 0.333333]
    """
    n = len(walk.stay)
    if n == 0:
        return np.zeros(0)
    diagonal: Floats = 1.0 - (1.0 - teleport) * walk.stay
    target = np.full(n, teleport / n)

    def residual(x: Floats) -> Floats:
        return target - x + (1.0 - teleport) * walk.step(x)

    def preconditioned(y: Floats) -> Floats:
        x: Floats = y / diagonal
        return x - (1.0 - teleport) * walk.step(x)

    # Start at the solution for a walk that never moves.
    x: Floats = target / diagonal
    for _ in range(_RESTARTS):
        left_over = residual(x)
        # In the 1-norm, the error of x is at most the residual divided by the teleport probability.
        if np.abs(left_over).sum() <= _TOLERANCE * teleport:
            break
        x += _gmres_cycle(preconditioned, left_over) / diagonal
    distribution: Floats = x / x.sum()
    return distribution


def _gmres_cycle(apply: Callable[[Floats], Floats], right: Floats) -> Floats:
    """Return an approximate solution y of apply(y) = right from one cycle of GMRES."""
    n = len(right)
    limit = min(_STEPS, n)
    size = float(np.sqrt(right @ right))
    if size == 0.0:
        return np.zeros(n)
    basis = np.zeros((limit + 1, n))
    basis[0] = right / size
    # Givens rotations keep the small least-squares problem triangular; `left` is the residual norm.
    triangle = np.zeros((limit, limit))
    rotations: list[tuple[float, float]] = []
    goal, left = np.zeros(limit), size
    k = 0
    while True:
        image = apply(basis[k])
        known = basis[: k + 1]
        parts = known @ image
        np.subtract(image, parts @ known, out=image)
        again = known @ image  # twice is enough to keep the basis orthogonal to working precision
        np.subtract(image, again @ known, out=image)
        length = float(np.sqrt(image @ image))
        column: list[float] = (parts + again).tolist()
        for i, (c, s) in enumerate(rotations):
            column[i], column[i + 1] = c * column[i] + s * column[i + 1], c * column[i + 1] - s * column[i]
        pivot = float(np.hypot(column[k], length))
        c, s = column[k] / pivot, length / pivot
        rotations.append((c, s))
        column[k] = pivot
        triangle[: k + 1, k] = column
        goal[k], left = c * left, -s * left
        k += 1
        if k == limit or abs(left) <= 0.1 * _TOLERANCE * size:
            break
        basis[k] = image / length
    out: Floats = np.linalg.solve(triangle[:k, :k], goal[:k]) @ basis[:k]
    return out
