"""Likelihood of Plackett-Luce with Davidson-Luce ties: a tie is an outcome of its own, with a parameter per size.

From the items R that remain, the set C is chosen with probability

    δ_|C| (Π_{i ∈ C} φ_i)^{1/|C|} / Z(R),   Z(R) = Σ_k δ_k e_k({φ_i^{1/k} : i ∈ R}),

φ = exp(score), δ_1 = 1, e_k the elementary symmetric polynomial: the sum over all sets of k items. The logarithm of the
numerator is linear in the scores and in τ = log δ, so this is an exponential family: concave in scores and τ jointly,
with the gradient "observed less expected" of the statistics 1{i ∈ C} / |C| and 1{|C| = k}.

e_k of every remaining set comes from one recursion over the rows of a list from its end, kept relative to the number of
sets (mean products, at most 1), so that nothing overflows. The gradient is the recursion differentiated backwards, and
a product with the Hessian is the derivative of both along a direction: O(Σ k) for a row, Σ over the sizes of ties.
"""

from __future__ import annotations

from math import lgamma

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.jit import jit
from concordant.kernels.plackett_luce import Marks, longest_list

__all__ = ["choice_counts", "hessian_product", "hessian_table", "log_likelihood"]


@jit
def _log_sets(longest: int, sizes: Ints) -> Floats:
    """Return log C(n, k), the number of sets of k of n items, for n up to `longest` and every size k."""
    out = np.full((longest + 1, len(sizes)), -np.inf)
    for s in range(len(sizes)):
        k = sizes[s]
        for n in range(k, longest + 1):
            out[n, s] = lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)
    return out


@jit
def _mean_products(worth: Floats, sizes: Ints, m: int, mean: Floats) -> None:
    """Write e_j(φ^{1/k}) / C(n, j) of the last n of m rows, j ≤ k, for each size k, into row n of `mean`.

    `worth` holds φ^{1/k} of each row and size. The block of size k begins at column Σ (k' + 1) over the sizes k' before
    it.
    """
    mean[0, :] = 0.0
    c = 0
    for k in sizes:
        mean[0, c] = 1.0
        c += k + 1
    for n in range(1, m + 1):
        c = 0
        for s in range(len(sizes)):
            k = sizes[s]
            x = worth[m - n, s]
            mean[n, c] = 1.0
            for j in range(1, k + 1):
                share = j / n
                if j > n:
                    mean[n, c + j] = 0.0
                else:
                    mean[n, c + j] = (1.0 - share) * mean[n - 1, c + j] + share * x * mean[n - 1, c + j - 1]
            c += k + 1


@jit
def _mean_products_along(worth: Floats, v: Floats, sizes: Ints, m: int, mean: Floats, mean_v: Floats) -> None:
    """Write the derivatives of `mean` along the direction v of the scores."""
    mean_v[0, :] = 0.0
    for n in range(1, m + 1):
        t = m - n
        c = 0
        for s in range(len(sizes)):
            k = sizes[s]
            x = worth[t, s]
            moved = x * v[t] / k
            mean_v[n, c] = 0.0
            for j in range(1, k + 1):
                share = j / n
                if j > n:
                    mean_v[n, c + j] = 0.0
                else:
                    mean_v[n, c + j] = (1.0 - share) * mean_v[n - 1, c + j] + share * (
                        moved * mean[n - 1, c + j - 1] + x * mean_v[n - 1, c + j - 1]
                    )
            c += k + 1


@jit
def _list_pass(
    worth: Floats,
    v: Floats,
    tie: Floats,
    tie_v: Floats,
    sizes: Ints,
    log_sets: Floats,
    mark: Marks,
    a: int,
    m: int,
    along: bool,
    mean: Floats,
    mean_v: Floats,
    back: Floats,
    back_v: Floats,
    logs: Floats,
    expected: Floats,
    expected_v: Floats,
    drawn: Floats,
    drawn_v: Floats,
) -> float:
    """Return Σ log Z over the choices of one list, given its mean products.

    Written: `expected`[t], its derivative by the score of row t (the expected share of the row in the chosen sets), and
    `drawn`[k], its derivative by τ_k (the expected number of choices of that size). With `along`, also the derivatives
    of both along the direction (v, tie_v).
    """
    n_sizes = len(sizes)
    drawn[:n_sizes] = 0.0
    back[:] = 0.0
    if along:
        _mean_products_along(worth, v, sizes, m, mean, mean_v)
        drawn_v[:n_sizes] = 0.0
        back_v[:] = 0.0
    value = 0.0
    for t in range(m):
        n = m - t
        if mark[a + t] == 1:
            top = -np.inf
            c = 0
            for s in range(n_sizes):
                k = sizes[s]
                logs[s] = -np.inf
                if k <= n:
                    logs[s] = tie[s] + log_sets[n, s] + np.log(mean[n, c + k])
                top = max(top, logs[s])
                c += k + 1
            total = 0.0
            for s in range(n_sizes):
                logs[s] = np.exp(logs[s] - top)
                total += logs[s]
            value += top + np.log(total)
            drift = 0.0
            if along:
                c = 0
                for s in range(n_sizes):
                    k = sizes[s]
                    if k <= n:
                        drift += logs[s] / total * (tie_v[s] + mean_v[n, c + k] / mean[n, c + k])
                    c += k + 1
            c = 0
            for s in range(n_sizes):
                k = sizes[s]
                if k <= n:
                    chance = logs[s] / total
                    drawn[s] += chance
                    back[c + k] += chance / mean[n, c + k]
                    if along:
                        rate = mean_v[n, c + k] / mean[n, c + k]
                        moved = chance * (tie_v[s] + rate - drift)
                        drawn_v[s] += moved
                        back_v[c + k] += (moved - chance * rate) / mean[n, c + k]
                c += k + 1
        # Undo the step of the recursion that added row t to the n − 1 rows below it.
        expected[t] = 0.0
        if along:
            expected_v[t] = 0.0
        c = 0
        for s in range(n_sizes):
            k = sizes[s]
            x = worth[t, s]
            moved = x * v[t] / k if along else 0.0
            own, own_v = 0.0, 0.0
            last = min(k, n)
            for j in range(1, last + 1):
                share = j / n
                own += share * back[c + j] * mean[n - 1, c + j - 1]
                if along:
                    own_v += share * (back_v[c + j] * mean[n - 1, c + j - 1] + back[c + j] * mean_v[n - 1, c + j - 1])
            expected[t] += own * x / k
            if along:
                expected_v[t] += (own_v * x + own * moved) / k
            for j in range(1, last + 1):
                share = j / n
                if along:
                    back_v[c + j - 1] += share * (moved * back[c + j] + x * back_v[c + j])
                    back_v[c + j] *= 1.0 - share
                back[c + j - 1] += share * x * back[c + j]
                back[c + j] *= 1.0 - share
            c += k + 1
    return value


@jit
def _relative_scores(x: Floats, sizes: Ints, item: Codes, a: int, m: int, y: Floats, worth: Floats) -> None:
    """Write the scores of the m rows from row a on, relative to the largest of them, and φ^{1/k} for every size k."""
    top = -np.inf
    for t in range(m):
        top = max(top, x[item[a + t]])
    for t in range(m):
        y[t] = x[item[a + t]] - top
        for s in range(len(sizes)):
            worth[t, s] = np.exp(y[t] / sizes[s])


@jit
def _observed(y: Floats, tie: Floats, sizes: Ints, mark: Marks, a: int, m: int, won: Floats, seen: Floats) -> float:
    """Return Σ log of the numerators of one list; write 1/|C| of every row that was chosen, and the choices by size."""
    value = 0.0
    seen[: len(sizes)] = 0.0
    t = 0
    while t < m:
        u = t + 1
        while u < m and mark[a + u] == 0:
            u += 1
        chosen = mark[a + t] == 1
        if chosen:
            s = np.searchsorted(sizes, u - t)
            seen[s] += 1.0
            value += tie[s]
        for r in range(t, u):
            won[r] = 1.0 / (u - t) if chosen else 0.0
            value += won[r] * y[r]
        t = u
    return value


@jit
def log_likelihood(
    x: Floats,
    tie: Floats,
    sizes: Ints,
    item: Codes,
    mark: Marks,
    offsets: Ints,
    weight: Floats,
    gain: Floats,
    loss: Floats,
    seen: Floats,
    drawn: Floats,
) -> float:
    """Return the log-likelihood of the lists.

    Parameters
    ----------
    x : float64[M]
        The scores.
    tie : float64[K]
        τ of each size; 0 for the size 1, which comes first.
    sizes : int64[K]
        The sizes of chosen sets, ascending from 1; every block that is chosen has one of them.
    item, mark, offsets, weight
        As in `Rankings`, but a tied block in last place is chosen (mark 1); mark 2 is a block that is left over.
    gain, loss : float64[M]
        Written: the gradient by the scores is gain − loss, observed less expected.
    seen, drawn : float64[K]
        Written: observed and expected choices of each size; their difference is the gradient by τ.

    Examples
    --------
    Two equal items, ν = 1: each of the three outcomes has probability 1/3.

    >>> gain, loss, seen, drawn = np.empty(2), np.empty(2), np.empty(2), np.empty(2)
    >>> lists = np.array([0, 1], np.int32), np.array([1, 0], np.uint8), np.array([0, 2]), np.ones(1)
    >>> value = log_likelihood(np.zeros(2), np.zeros(2), np.array([1, 2]), *lists, gain, loss, seen, drawn)
    >>> round(float(np.exp(value)), 6), seen.tolist(), drawn.round(6).tolist()
    (0.333333, [0.0, 1.0], [0.666667, 0.333333])
    """
    gain[:] = 0.0
    loss[:] = 0.0
    seen[:] = 0.0
    drawn[:] = 0.0
    longest, width, n_sizes = longest_list(offsets), sizes.sum() + len(sizes), len(sizes)
    y, won, expected, none = np.empty(longest), np.empty(longest), np.empty(longest), np.zeros(0)
    mean, back, nothing = np.empty((longest + 1, width)), np.empty(width), np.zeros((0, 0))
    logs, own_seen, own_drawn = np.empty(n_sizes), np.empty(n_sizes), np.empty(n_sizes)
    worth, log_sets = np.empty((longest, n_sizes)), _log_sets(longest, sizes)
    value = 0.0
    for n in range(len(offsets) - 1):
        a = offsets[n]
        m = offsets[n + 1] - a
        w = weight[n]
        _relative_scores(x, sizes, item, a, m, y, worth)
        _mean_products(worth, sizes, m, mean)
        value += w * _observed(y, tie, sizes, mark, a, m, won, own_seen)
        value -= w * _list_pass(
            worth, none, tie, none, sizes, log_sets, mark, a, m, False, mean, nothing, back, none, logs, expected, none,
            own_drawn, none,
        )  # fmt: skip
        for t in range(m):
            gain[item[a + t]] += w * won[t]
            loss[item[a + t]] += w * expected[t]
        for s in range(n_sizes):
            seen[s] += w * own_seen[s]
            drawn[s] += w * own_drawn[s]
    return value


@jit
def hessian_product(
    x: Floats,
    tie: Floats,
    sizes: Ints,
    item: Codes,
    mark: Marks,
    offsets: Ints,
    weight: Floats,
    v: Floats,
    tie_v: Floats,
    out: Floats,
    tie_out: Floats,
) -> None:
    """Write −Hessian · (v, tie_v) into `out` (scores) and `tie_out` (τ); other arguments as in `log_likelihood`."""
    out[:] = 0.0
    tie_out[:] = 0.0
    longest, width, n_sizes = longest_list(offsets), sizes.sum() + len(sizes), len(sizes)
    y, rows_v, expected, expected_v = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    mean, mean_v, back, back_v = (
        np.empty((longest + 1, width)), np.empty((longest + 1, width)), np.empty(width), np.empty(width),
    )  # fmt: skip
    logs, drawn, drawn_v = np.empty(n_sizes), np.empty(n_sizes), np.empty(n_sizes)
    worth, log_sets = np.empty((longest, n_sizes)), _log_sets(longest, sizes)
    for n in range(len(offsets) - 1):
        a = offsets[n]
        m = offsets[n + 1] - a
        _relative_scores(x, sizes, item, a, m, y, worth)
        _mean_products(worth, sizes, m, mean)
        for t in range(m):
            rows_v[t] = v[item[a + t]]
        _list_pass(
            worth, rows_v, tie, tie_v, sizes, log_sets, mark, a, m, True, mean, mean_v, back, back_v, logs, expected,
            expected_v, drawn, drawn_v,
        )  # fmt: skip
        for t in range(m):
            out[item[a + t]] += weight[n] * expected_v[t]
        for s in range(n_sizes):
            tie_out[s] += weight[n] * drawn_v[s]


@jit
def hessian_table(
    x: Floats,
    tie: Floats,
    sizes: Ints,
    item: Codes,
    mark: Marks,
    offsets: Ints,
    weight: Floats,
    hessian: Floats,
    outer_products: Floats,
    squares: Floats,
) -> None:
    """Write −Hessian over scores and τ and, unless `outer_products` is empty, the sums over lists Σ w g gᵀ, Σ w h².

    Tables have M + K rows, scores first; g is the gradient of a list, h the diagonal of its −Hessian. Cost O(m² Σ k)
    for a list of m rows.
    """
    size, n_sizes = len(x), len(sizes)
    wanted = outer_products.size > 0
    hessian[:] = 0.0
    outer_products[:] = 0.0
    squares[:] = 0.0
    longest, width = longest_list(offsets), sizes.sum() + len(sizes)
    y, rows_v, expected, expected_v = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    mean, mean_v, back, back_v = (
        np.empty((longest + 1, width)), np.empty((longest + 1, width)), np.empty(width), np.empty(width),
    )  # fmt: skip
    logs, drawn, drawn_v, tie_v = np.empty(n_sizes), np.empty(n_sizes), np.empty(n_sizes), np.zeros(n_sizes)
    won, seen = np.empty(longest), np.empty(n_sizes)
    worth, log_sets = np.empty((longest, n_sizes)), _log_sets(longest, sizes)
    where, g = np.empty(longest + n_sizes, dtype=np.int64), np.empty(longest + n_sizes)
    for n in range(len(offsets) - 1):
        a = offsets[n]
        m = offsets[n + 1] - a
        w = weight[n]
        _relative_scores(x, sizes, item, a, m, y, worth)
        _mean_products(worth, sizes, m, mean)
        for t in range(m):
            where[t] = item[a + t]
        for s in range(n_sizes):
            where[m + s] = size + s
        rows_v[:m] = 0.0
        for c in range(m + n_sizes):
            if c < m:
                rows_v[c] = 1.0
            else:
                tie_v[c - m] = 1.0
            _list_pass(
                worth, rows_v, tie, tie_v, sizes, log_sets, mark, a, m, True, mean, mean_v, back, back_v, logs,
                expected, expected_v, drawn, drawn_v,
            )  # fmt: skip
            for t in range(m):
                hessian[where[t], where[c]] += w * expected_v[t]
            for s in range(n_sizes):
                hessian[size + s, where[c]] += w * drawn_v[s]
            if wanted:
                own = expected_v[c] if c < m else drawn_v[c - m]
                squares[where[c]] += w * own * own
            if c < m:
                rows_v[c] = 0.0
            else:
                tie_v[c - m] = 0.0
        if wanted:
            _observed(y, tie, sizes, mark, a, m, won, seen)
            for t in range(m):
                g[t] = won[t] - expected[t]
            for s in range(n_sizes):
                g[m + s] = seen[s] - drawn[s]
            for c in range(m + n_sizes):
                for t in range(m + n_sizes):
                    outer_products[where[c], where[t]] += w * g[c] * g[t]


@jit
def choice_counts(mark: Marks, offsets: Ints, weight: Floats, counts: Floats, reached: Ints) -> None:
    """Write how often sets of each size were chosen, and the most items that such a choice was made from.

    Parameters
    ----------
    mark, offsets, weight
        As in `log_likelihood`.
    counts : float64[D + 1]
        Written: the weighted number of choices of each size; D is at least the largest.
    reached : int64[D + 1]
        Written: the largest number of remaining items among the choices of each size.
    """
    counts[:] = 0.0
    reached[:] = 0
    for n in range(len(offsets) - 1):
        end = offsets[n + 1]
        t = offsets[n]
        while t < end:
            u = t + 1
            while u < end and mark[u] == 0:
                u += 1
            if mark[t] == 1 and weight[n] > 0:
                counts[u - t] += weight[n]
                reached[u - t] = max(reached[u - t], end - t)
            t = u
