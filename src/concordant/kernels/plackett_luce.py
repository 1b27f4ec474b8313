"""Likelihood of Plackett-Luce: items are chosen one block at a time from those that remain.

A list consists of blocks of items X_1, X_2, ..., best first; a block of two or more items is a tie. R_k holds the items
of block k and of the blocks below it. With φ = exp(score), a list without ties has the log-likelihood
Σ_k [log φ_k − log Σ_{R_k} φ]. Running sums of φ from the end of the list, and of their inverses from its head, give the
value, the gradient and any product with the Hessian in one pass over the rows. The last block is left over, not chosen,
and adds nothing.

There are two likelihoods for a tie of q items:

- averaged (Efron): log of Π_X φ / Π_{j<q} (Σ_R φ − (j/q) Σ_X φ), close to the mean over all orders of the block;
  concave in the scores.
- partitions: log Σ_X φ − log Σ_R φ, the full decomposition of the probabilistic model over ordered partitions, less
  its constant −log(C |X|), C = (2^N − 1)/N for the N items of R (`log_constants`). One item of the block is chosen
  and the others come along. Not concave.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.jit import jit

__all__ = [
    "MAX_SPAN",
    "Marks",
    "Rankings",
    "adherence_derivatives",
    "hessian_product",
    "hessian_table",
    "log_constants",
    "log_likelihood",
    "longest_list",
    "partition_log_likelihood",
]

Marks = NDArray[np.uint8]

# The largest difference of two scores in a list, times its factor: beyond it squared probabilities underflow.
MAX_SPAN = 300.0
# Products of probabilities become sums of logarithms before they leave the range of a float.
_SMALL, _LARGE = 1e-30, 1e30


class Rankings(NamedTuple):
    """The lists of one instance, rows best first.

    Attributes
    ----------
    item : int32[R]
        The item of every row, numbered within the instance.
    mark : uint8[R]
        0: same block as the row before. 1: first row of a chosen block. 2: first row of the last block, which is left
        over.
    offsets : int64[L + 1]
        Where the lists begin.
    weight : float64[L]
        The weight of each list.
    form : uint8[L]
        0: no ties. 1: possible ties. 2: possible ties, and the items that the list leaves out form one more block (the
        rest) below it.
    theta : float64[L] or float64[0]
        The factor of the scores in each list; empty where all factors are 1.
    averaged : bool
        Whether ties are averaged over orders; otherwise lists are ordered partitions.
    """

    item: Codes
    mark: Marks
    offsets: Ints
    weight: Floats
    form: Marks
    theta: Floats
    averaged: bool


@jit
def longest_list(offsets: Ints) -> int:
    """Return how many rows the longest list has."""
    out = 0
    for n in range(len(offsets) - 1):
        out = max(out, offsets[n + 1] - offsets[n])
    return out


@jit
def _worths(phi: Floats, x: Floats, item: Codes, a: int, m: int, factor: float, shared: bool, f: Floats) -> float:
    """Write φ of the m rows from row a on into f and return their sum.

    Where lists have factors, φ is relative to its largest value in the list.
    """
    total, top = 0.0, -np.inf
    if not shared:
        for t in range(m):
            top = max(top, x[item[a + t]])
    for t in range(m):
        worth = phi[item[a + t]] if shared else np.exp(factor * (x[item[a + t]] - top))
        f[t] = worth
        total += worth
    return total


@jit
def _list_derivatives(
    f: Floats,
    mark: Marks,
    a: int,
    m: int,
    left: float,
    averaged: bool,
    above: Floats,
    gain: Floats,
    hazard: Floats,
    inside: Floats,
    across: Floats,
) -> tuple[float, float, float]:
    """Return the log-likelihood of one list, and Σ 1/D and Σ 1/D² over its choices, D = Σ_R φ.

    Written for each of its m rows: `gain` and `hazard` (the cumulative hazard Σ 1/D of Cox's model), with the gradient
    gain − f · hazard; and the factors of −Hessian, f_t f_u `inside`[t] for two rows of one block and f_t f_u
    `across`[t] for a row t above a row u.
    """
    total = left
    block = 0.0
    for t in range(m - 1, -1, -1):
        block += f[t]
        if mark[a + t] != 0:
            total += block
            above[t] = total
            gain[t] = block
            block = 0.0
    value, probability = 0.0, 1.0
    first, second = 0.0, 0.0
    t = 0
    while t < m:
        u = t + 1
        while u < m and mark[a + u] == 0:
            u += 1
        if mark[a + t] == 2:
            for r in range(t, u):
                gain[r], hazard[r], inside[r], across[r] = 0.0, first, second, second
        elif u == t + 1:
            d = 1.0 / above[t]
            first += d
            second += d * d
            probability *= f[t] * d
            gain[t], hazard[t], inside[t], across[t] = 1.0, first, second, second
        elif not averaged:
            d = 1.0 / above[t]
            first += d
            second += d * d
            whole = gain[t]
            probability *= whole * d
            for r in range(t, u):
                gain[r], hazard[r], inside[r], across[r] = f[r] / whole, first, second, second
        else:
            q = u - t
            whole = gain[t]
            own, own_own, own_below, all_first, all_second = 0.0, 0.0, 0.0, 0.0, 0.0
            for j in range(q):
                kept = 1.0 - j / q
                # The remaining part of the block plus the blocks below it, to avoid a difference of large numbers.
                d = 1.0 / ((above[t] - whole) + kept * whole)
                probability *= f[t + j] * d
                if probability < _SMALL or probability > _LARGE:
                    value += np.log(probability)
                    probability = 1.0
                all_first += d
                all_second += d * d
                own += kept * d
                own_below += kept * d * d
                own_own += kept * kept * d * d
            for r in range(t, u):
                gain[r], hazard[r] = 1.0, first + own
                inside[r], across[r] = second + own_own, second + own_below
            first += all_first
            second += all_second
        if probability < _SMALL or probability > _LARGE:
            value += np.log(probability)
            probability = 1.0
        t = u
    return value + np.log(probability), first, second


@jit
def _untied_list(
    phi: Floats,
    item: Codes,
    a: int,
    m: int,
    w: float,
    f: Floats,
    d: Floats,
    gain: Floats,
    loss: Floats,
    diagonal: Floats,
) -> float:
    """Add the derivatives of one list without ties and return its log-likelihood; much faster than the general case."""
    total = 0.0
    for t in range(m - 1, -1, -1):
        worth = phi[item[a + t]]
        total += worth
        f[t] = worth
        d[t] = 1.0 / total
    value, probability = 0.0, 1.0
    first, second = 0.0, 0.0
    for t in range(m - 1):
        i = item[a + t]
        worth = f[t]
        first += d[t]
        second += d[t] * d[t]
        probability *= worth * d[t]
        if probability < _SMALL:
            value += np.log(probability)
            probability = 1.0
        gain[i] += w
        loss[i] += w * worth * first
        diagonal[i] += w * worth * (first - worth * second)
    i = item[a + m - 1]
    worth = f[m - 1]
    loss[i] += w * worth * first
    diagonal[i] += w * worth * (first - worth * second)
    return float(value + np.log(probability))


@jit
def _untied_hessian_product(
    phi: Floats, v: Floats, item: Codes, a: int, m: int, w: float, f: Floats, d: Floats, s: Floats, out: Floats
) -> None:
    """Add w times −Hessian · v of one list without ties to `out`."""
    total, total_v = 0.0, 0.0
    for t in range(m - 1, -1, -1):
        i = item[a + t]
        worth = phi[i]
        total += worth
        total_v += worth * v[i]
        f[t] = worth
        d[t] = 1.0 / total
        s[t] = total_v
    d[m - 1] = 0.0
    first, drift = 0.0, 0.0
    for t in range(m):
        i = item[a + t]
        first += d[t]
        drift += s[t] * d[t] * d[t]
        out[i] += w * f[t] * (v[i] * first - drift)


@jit
def log_likelihood(
    x: Floats,
    phi: Floats,
    item: Codes,
    mark: Marks,
    offsets: Ints,
    weight: Floats,
    form: Marks,
    theta: Floats,
    averaged: bool,
    gain: Floats,
    loss: Floats,
    diagonal: Floats,
) -> tuple[float, float]:
    """Return the log-likelihood of the lists, and the smallest share of Σ φ that a list leaves to its rest.

    Parameters
    ----------
    x, phi : float64[M]
        Scores with maximum 0, and their exponentials, all of which must be above 0.
    item, mark, offsets, weight, form, theta, averaged
        As in `Rankings`.
    gain, loss, diagonal : float64[M]
        Written. The gradient is gain − loss, observed less expected choices. The diagonal is that of −Hessian; for
        partitions without the negative part of tied blocks.
    """
    gain[:] = 0.0
    loss[:] = 0.0
    diagonal[:] = 0.0
    longest = longest_list(offsets)
    f, above, won = np.empty(longest), np.empty(longest), np.empty(longest)
    hazard, inside, across = np.empty(longest), np.empty(longest), np.empty(longest)
    total = phi.sum()
    shared = len(theta) == 0
    value, least = 0.0, 1.0
    all_first, all_second = 0.0, 0.0
    for n in range(len(offsets) - 1):
        a = offsets[n]
        m = offsets[n + 1] - a
        w = weight[n]
        if shared and form[n] == 0:
            value += w * _untied_list(phi, item, a, m, w, f, above, gain, loss, diagonal)
            continue
        factor = 1.0 if shared else theta[n]
        held = _worths(phi, x, item, a, m, factor, shared, f)
        left = total - held if form[n] == 2 else 0.0
        logs, first, second = _list_derivatives(f, mark, a, m, left, averaged, above, won, hazard, inside, across)
        value += w * logs
        shift_first, shift_second = 0.0, 0.0
        if form[n] == 2:
            # Every choice adds to the loss of every item of the rest. This is added to all items at once, below, and
            # subtracted here from the items that the list holds.
            all_first += w * first
            all_second += w * second
            shift_first, shift_second = first, second
            least = min(least, left / total)
        for t in range(m):
            i = item[a + t]
            worth = f[t]
            gain[i] += w * factor * won[t]
            loss[i] += w * factor * worth * (hazard[t] - shift_first)
            diagonal[i] += w * factor * factor * worth * (hazard[t] - shift_first - worth * (inside[t] - shift_second))
    if all_first > 0.0:
        for i in range(len(phi)):
            loss[i] += phi[i] * all_first
            diagonal[i] += phi[i] * (all_first - phi[i] * all_second)
    return value, least


@jit
def _list_hessian_product(
    f: Floats,
    v: Floats,
    mark: Marks,
    a: int,
    m: int,
    left: float,
    left_v: float,
    averaged: bool,
    exact: bool,
    above: Floats,
    above_v: Floats,
    block_f: Floats,
    block_v: Floats,
    out: Floats,
) -> tuple[float, float]:
    """Write −Hessian · v of the rows of one list into `out`; return Σ 1/D and Σ (Σ_R φ v)/D² over its choices.

    With `exact` off, the negative part of tied blocks in partitions is left out: the result is positive semidefinite.
    """
    total, total_v = left, left_v
    block, block_along = 0.0, 0.0
    for t in range(m - 1, -1, -1):
        block += f[t]
        block_along += f[t] * v[t]
        if mark[a + t] != 0:
            total += block
            total_v += block_along
            above[t], above_v[t] = total, total_v
            block_f[t], block_v[t] = block, block_along
            block, block_along = 0.0, 0.0
    first, drift = 0.0, 0.0
    t = 0
    while t < m:
        u = t + 1
        while u < m and mark[a + u] == 0:
            u += 1
        chosen = mark[a + t] == 1
        if chosen and averaged and u > t + 1:
            q = u - t
            whole, whole_v = block_f[t], block_v[t]
            own, own_drift, all_first, all_drift = 0.0, 0.0, 0.0, 0.0
            for j in range(q):
                kept = 1.0 - j / q
                d = 1.0 / ((above[t] - whole) + kept * whole)
                along = ((above_v[t] - whole_v) + kept * whole_v) * d * d
                all_first += d
                all_drift += along
                own += kept * d
                own_drift += kept * along
            for r in range(t, u):
                out[r] = f[r] * (v[r] * (first + own) - (drift + own_drift))
            first += all_first
            drift += all_drift
        else:
            if chosen:
                d = 1.0 / above[t]
                first += d
                drift += above_v[t] * d * d
            for r in range(t, u):
                out[r] = f[r] * (v[r] * first - drift)
            if chosen and exact and u > t + 1:
                mean = block_v[t] / block_f[t]
                for r in range(t, u):
                    out[r] -= f[r] / block_f[t] * (v[r] - mean)
        t = u
    return first, drift


@jit
def hessian_product(
    x: Floats,
    phi: Floats,
    item: Codes,
    mark: Marks,
    offsets: Ints,
    weight: Floats,
    form: Marks,
    theta: Floats,
    averaged: bool,
    v: Floats,
    exact: bool,
    out: Floats,
) -> None:
    """Write −Hessian · v into `out` in one pass; arguments as in `log_likelihood`, `exact` as in `hessian_table`."""
    out[:] = 0.0
    longest = longest_list(offsets)
    f, along, rows = np.empty(longest), np.empty(longest), np.empty(longest)
    above, above_v = np.empty(longest), np.empty(longest)
    block_f, block_v = np.empty(longest), np.empty(longest)
    total, total_v = phi.sum(), (phi * v).sum()
    shared = len(theta) == 0
    all_first, all_drift = 0.0, 0.0
    for n in range(len(offsets) - 1):
        a = offsets[n]
        m = offsets[n + 1] - a
        w = weight[n]
        if shared and form[n] == 0:
            _untied_hessian_product(phi, v, item, a, m, w, f, above, above_v, out)
            continue
        factor = 1.0 if shared else theta[n]
        held = _worths(phi, x, item, a, m, factor, shared, f)
        held_v = 0.0
        for t in range(m):
            along[t] = factor * v[item[a + t]]
            held_v += f[t] * along[t]
        left = total - held if form[n] == 2 else 0.0
        left_v = total_v - held_v if form[n] == 2 else 0.0
        first, drift = _list_hessian_product(
            f, along, mark, a, m, left, left_v, averaged, exact, above, above_v, block_f, block_v, rows
        )
        if form[n] == 2:
            all_first += w * first
            all_drift += w * drift
            for t in range(m):
                rows[t] -= f[t] * (along[t] * first - drift)
        for t in range(m):
            out[item[a + t]] += w * factor * rows[t]
    if all_first > 0.0:
        for i in range(len(phi)):
            out[i] += phi[i] * (v[i] * all_first - all_drift)


@jit
def hessian_table(
    x: Floats,
    phi: Floats,
    item: Codes,
    mark: Marks,
    offsets: Ints,
    weight: Floats,
    form: Marks,
    theta: Floats,
    averaged: bool,
    exact: bool,
    hessian: Floats,
    outer_products: Floats,
    squares: Floats,
) -> None:
    """Write −Hessian and, unless `outer_products` is empty, the sums over lists Σ w g gᵀ and Σ w h² (`squares`).

    g is the gradient of a list, h the diagonal of its −Hessian. Cost O(Σ m²) over lists of m rows, besides O(M²)
    for the tables. With `exact` off, the negative part of tied blocks in partitions is left out.
    """
    size = len(phi)
    wanted = outer_products.size > 0
    hessian[:] = 0.0
    outer_products[:] = 0.0
    squares[:] = 0.0
    longest = longest_list(offsets)
    f, above, g = np.empty(longest), np.empty(longest), np.empty(longest)
    hazard, inside, across = np.empty(longest), np.empty(longest), np.empty(longest)
    diagonal, border, border_g = np.zeros(size), np.zeros(size), np.zeros(size)
    total = phi.sum()
    shared = len(theta) == 0
    all_first, all_second, all_squares, all_products, all_fourth = 0.0, 0.0, 0.0, 0.0, 0.0
    for n in range(len(offsets) - 1):
        a = offsets[n]
        m = offsets[n + 1] - a
        w = weight[n]
        factor = 1.0 if shared else theta[n]
        held = _worths(phi, x, item, a, m, factor, shared, f)
        left = total - held if form[n] == 2 else 0.0
        _, first, second = _list_derivatives(f, mark, a, m, left, averaged, above, g, hazard, inside, across)
        # With a rest, −φ φᵀ Σ 1/D² and −φ Σ 1/D hold for all items at once; the items of the list get the difference.
        down, down_squared = (first, second) if form[n] == 2 else (0.0, 0.0)
        strength = w * factor * factor
        t = 0
        while t < m:
            u = t + 1
            while u < m and mark[a + u] == 0:
                u += 1
            tied = mark[a + t] == 1 and u > t + 1 and exact and not averaged
            whole = 0.0
            for r in range(t, u):
                whole += f[r]
            for r in range(t, u):
                i = item[a + r]
                diagonal[i] += strength * f[r] * (hazard[r] - down)
                if tied:
                    diagonal[i] -= strength * f[r] / whole
                near = strength * f[r] * inside[r]
                far = strength * f[r] * across[r]
                if wanted:
                    own = f[r] * (hazard[r] - f[r] * inside[r])
                    if tied:
                        own -= f[r] / whole * (1.0 - f[r] / whole)
                    squares[i] += w * (factor * factor * own) ** 2
                    # The term of an item in the rest, which is added for all items below.
                    squares[i] -= w * (f[r] * (down - f[r] * down_squared)) ** 2
                # A rank-one term over all items, then a correction for the pairs of this list.
                if form[n] == 2:
                    border[i] += strength * f[r] * (across[r] - down_squared)
                for k in range(r, u):
                    value = near
                    if tied:
                        value -= strength * f[r] / (whole * whole)
                    if form[n] == 2:
                        value -= strength * f[r] * (across[r] + across[k] - down_squared)
                    hessian[i, item[a + k]] -= value * f[k] * (0.5 if k == r else 1.0)
                for k in range(u, m):
                    value = far
                    if form[n] == 2:
                        value -= strength * f[r] * (across[r] + across[k] - down_squared)
                    hessian[i, item[a + k]] -= value * f[k]
            t = u
        if form[n] == 2:
            all_first += w * first
            all_second += w * second
            all_squares += w * first * first
            all_products += w * first * second
            all_fourth += w * second * second
        if wanted:
            for t in range(m):
                g[t] = factor * (g[t] - f[t] * (hazard[t] - down))
            for t in range(m):
                i = item[a + t]
                if form[n] == 2:
                    border_g[i] += w * first * g[t]
                for k in range(t, m):
                    outer_products[i, item[a + k]] += w * g[t] * g[k] * (0.5 if k == t else 1.0)
    for i in range(size):
        diagonal[i] += phi[i] * all_first
        if wanted:
            squares[i] += phi[i] ** 2 * (all_squares - phi[i] * (2.0 * all_products - phi[i] * all_fourth))
        for j in range(i + 1):
            common = phi[i] * phi[j] * all_second + border[i] * phi[j] + phi[i] * border[j]
            value = hessian[i, j] + hessian[j, i] - common
            if i == j:
                value += diagonal[i]
            hessian[i, j] = value
            hessian[j, i] = value
            if wanted:
                value = outer_products[i, j] + outer_products[j, i]
                value += phi[i] * phi[j] * all_squares - border_g[i] * phi[j] - phi[i] * border_g[j]
                outer_products[i, j] = value
                outer_products[j, i] = value


@jit
def adherence_derivatives(
    x: Floats,
    item: Codes,
    mark: Marks,
    offsets: Ints,
    theta: Floats,
    averaged: bool,
    derivative: Floats,
    curvature: Floats,
    mixed: Floats,
) -> None:
    """Write the derivatives of each list's log-likelihood by its adherence α, its scores being α x.

    Parameters
    ----------
    x : float64[M]
        Scores with maximum 0.
    item, mark, offsets, theta, averaged
        As in `Rankings`; no list may have a rest.
    derivative, bend : float64[L]
        Written: the first derivative and minus the second.
    mixed : float64[R]
        Written: the mixed derivative by α and the score of the item of each row.
    """
    longest = longest_list(offsets)
    f, v, g, rows = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    above, hazard, inside, across = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    for n in range(len(offsets) - 1):
        a = offsets[n]
        m = offsets[n + 1] - a
        _worths(x, x, item, a, m, theta[n], False, f)
        for t in range(m):
            v[t] = x[item[a + t]]
        _list_derivatives(f, mark, a, m, 0.0, averaged, above, g, hazard, inside, across)
        for t in range(m):
            g[t] -= f[t] * hazard[t]
        _list_hessian_product(f, v, mark, a, m, 0.0, 0.0, averaged, True, above, hazard, inside, across, rows)
        derivative[n], curvature[n] = 0.0, 0.0
        for t in range(m):
            derivative[n] += g[t] * v[t]
            curvature[n] += rows[t] * v[t]
            mixed[a + t] = g[t] - theta[n] * rows[t]


@jit
def partition_log_likelihood(score: Floats, mark: Marks, offsets: Ints, gradient: Floats, value: Floats) -> None:
    """Write the log-likelihood of every ordered partition and its gradient, with one score per row.

    log p = Σ_k [log Σ_{X_k} φ − log Σ_{R_k} φ], φ = exp(score); add `log_constants` for the log-probability of the
    ordered partition. Scores of any size are safe from overflow. Cost O(rows). Without ties this is Plackett-Luce.

    Parameters
    ----------
    score : float64[R]
        The score of each row, best block first.
    mark : uint8[R]
        Not 0 where a block begins. The last block adds nothing, so 1 and 2 are the same here.
    offsets : int64[L + 1]
        Where the lists begin.
    gradient : float64[R]
        Written: ∂ log p / ∂ score.
    value : float64[L]
        Written.

    >>> gradient, value = np.empty(3), np.empty(1)
    >>> partition_log_likelihood(
    ...     np.log([2.0, 1.0, 1.0]), np.array([1, 0, 1], np.uint8), np.array([0, 3]), gradient, value
    ... )
    >>> np.exp(value).round(6).tolist(), gradient.round(6).tolist()
    ([0.75], [0.166667, 0.083333, -0.25])
    """
    longest = longest_list(offsets)
    block, left = np.empty(longest), np.empty(longest)
    for n in range(len(offsets) - 1):
        a = offsets[n]
        m = offsets[n + 1] - a
        value[n] = 0.0
        # log Σ φ over the block (peak, total) and over all below and in it: sums relative to their largest term.
        high, rest = -np.inf, 0.0
        peak, total = -np.inf, 0.0
        for t in range(m - 1, -1, -1):
            s = score[a + t]
            if s <= peak:
                total += np.exp(s - peak)
            else:
                total = total * np.exp(peak - s) + 1.0
                peak = s
            if mark[a + t] != 0 or t == 0:
                if peak <= high:
                    rest += total * np.exp(peak - high)
                else:
                    rest = rest * np.exp(high - peak) + total
                    high = peak
                block[t] = peak + np.log(total)
                left[t] = high + np.log(rest)
                peak, total = -np.inf, 0.0
        # Σ_{j ≤ k} 1/D_j, kept as a multiple of 1/D_k, the largest of its terms.
        hazard, at = 0.0, 0.0
        start = 0
        for t in range(m):
            if mark[a + t] != 0 or t == 0:
                start = t
                hazard = (hazard * np.exp(left[t] - at) if t else 0.0) + 1.0
                at = left[t]
                value[n] += block[t] - at
            gradient[a + t] = np.exp(score[a + t] - block[start]) - np.exp(score[a + t] - at) * hazard


def log_constants(mark: Marks, offsets: Ints) -> Floats:
    """Return the constant of every list that `partition_log_likelihood` leaves out.

    It is −Σ_k log(C_k |X_k|), C_k = (2^N_k − 1)/N_k, N_k = |R_k|.

    >>> log_constants(np.array([1, 0, 1], np.uint8), np.array([0, 3])).round(6).tolist()
    [-1.540445]
    """
    first = mark != 0
    starts = offsets[:-1]
    first[starts[starts < len(mark)]] = True
    at = np.flatnonzero(first)
    which = np.searchsorted(offsets, at, side="right") - 1
    size = np.diff(np.append(at, len(mark)))
    # Items from the block on; log(2^N − 1) in a form that does not overflow.
    remaining = (offsets[which + 1] - at).astype(np.float64)
    logs = remaining * np.log(2.0) + np.log1p(-np.exp2(-remaining)) - np.log(remaining) + np.log(size)
    return -np.bincount(which, weights=logs, minlength=len(offsets) - 1).astype(np.float64)
