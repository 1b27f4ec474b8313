"""Paired comparisons: the scores that explain best how pairs came out, with ties or without.

Every step costs as much as there are pairs that met (`pair_counts`). The scores of an instance maximise a concave
function whose curvature is sparse and diagonally dominant: Newton's method takes some six steps, each solved by
elimination when the instance is small and by conjugate gradients when it is large. Parameters that instances share
(what a tie, or the side shown, is worth) couple the instances through a system of one or two unknowns only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.jit import jit
from concordant.kernels.pair_counts import Pairs, locked, sums
from concordant.kernels.resumable import UNKEPT, Keep, State

__all__ = [
    "DAVIDSON",
    "MODELS",
    "NO_TIES",
    "PLAIN",
    "RAO_KUPPER",
    "TIE_BOUND",
    "Profile",
    "Shared",
    "Solution",
    "climb_profile",
    "descend",
    "information",
    "list_gradients",
    "list_clusters",
    "profile",
    "row_gradients",
    "solve",
    "solve_jointly",
    "solve_linear",
    "tie_among_equals",
    "tie_start",
]

PLAIN, DAVIDSON, RAO_KUPPER = 0, 1, 2
MODELS = {"none": PLAIN, "davidson": DAVIDSON, "rao-kupper": RAO_KUPPER}

# Instances up to this size are solved by elimination inside one compiled loop.
_SMALL = 160
# Up to this size elimination steps in where conjugate gradients are slow.
_DENSE = 4096
# A Newton step this short leaves an error far below what scores are compared to.
_LAST_STEP = 1e-6
# No step moves a score farther than this; the likelihood is flat out there and its curvature says nothing.
_LONGEST_STEP = 10.0
# Bounds of the tie parameter's logarithm: beyond it outcomes are ties (or none) to all intents and purposes.
TIE_BOUND = 30.0
# Scores up to this size have exponentials that can be multiplied and added.
_FAR_OUT = 200.0


class Shared(NamedTuple):
    """What all instances have in common: the tie model with its parameter, and what the left side is worth.

    `tie` is the logarithm of Davidson's ν or of Rao and Kupper's θ.
    """

    model: int = PLAIN
    tie: float = 0.0
    side: float = 0.0

    def moved(self, learned: Ints, common: Floats) -> Shared:
        """Return the same with the parameters that are learned (0 the tie's, 1 the side) being `common`."""
        both = np.array([self.tie, self.side])
        both[learned] = common
        return Shared(self.model, float(both[0]), float(both[1]))


class Solution(NamedTuple):
    """Scores and how they were reached.

    `information` is that of the parameters learned jointly (tie, then side; those that were learned), the scores being
    profiled out, and `response` how the scores give way when such a parameter grows, one row each, with a minus sign;
    `gradient_norm` is the largest component of the gradient over max(1, the most outcomes of an item).
    """

    score: Floats
    shared: Shared
    objective: float
    gradient_norm: float
    n_iter: int
    converged: bool
    trace: list[float]
    information: Floats
    response: Floats


NO_TIES = Shared()

Report = Callable[[int, int], None]


# The likelihood of a pair.


@jit
def _terms(
    gap: float, a: float, b: float, t: float, tie: float, model: int
) -> tuple[float, float, float, float, float, float]:
    """Return the log-likelihood of a pair's outcomes, its slopes and its information.

    `gap` is s_left - s_right plus the worth of the side; slopes are along the gap and the tie parameter, information
    is (gap, gap), (gap, tie), (tie, tie), the negative second derivatives.
    """
    if model == 0:
        e = np.exp(-abs(gap))
        p = 1.0 / (1.0 + e) if gap >= 0.0 else e / (1.0 + e)
        q = 1.0 - p if gap <= 0.0 else e / (1.0 + e)
        rest = np.log(1.0 + e)
        value = a * (min(gap, 0.0) - rest) + b * (min(-gap, 0.0) - rest)
        return value, a * q - b * p, (a + b) * p * q, 0.0, 0.0, 0.0
    if model == 1:
        # Davidson: left, right and tie are in proportion exp(gap/2) : exp(-gap/2) : exp(tie).
        top = max(0.5 * abs(gap), tie)
        x, y, z = np.exp(0.5 * gap - top), np.exp(-0.5 * gap - top), np.exp(tie - top)
        whole = x + y + z
        p, q, r = x / whole, y / whole, z / whole
        n = a + b + t
        log_whole = np.log(whole) + top
        value = 0.5 * gap * (a - b) + tie * t - n * log_whole
        lean = p - q
        spread = 0.25 * n * (p * (1.0 - lean) + q * (1.0 + lean))
        slope = 0.5 * (a - b - n * lean)
        return value, slope, spread, t - n * r, -0.5 * n * lean * r, n * r * (1.0 - r)
    # Rao and Kupper: an ordered logit with cuts at -tie and +tie; P(left) = 1 / (1 + exp(tie - gap)).
    e, f = np.exp(-abs(tie - gap)), np.exp(-abs(tie + gap))
    u = 1.0 / (1.0 + e) if tie >= gap else e / (1.0 + e)
    v = 1.0 / (1.0 + f) if tie >= -gap else f / (1.0 + f)
    left, right = a + t, b + t
    value = -left * (max(tie - gap, 0.0) + np.log(1.0 + e)) - right * (max(tie + gap, 0.0) + np.log(1.0 + f))
    du, dv = e / (1.0 + e) ** 2, f / (1.0 + f) ** 2
    slope_tie, inner = -left * u - right * v, left * du + right * dv
    if t > 0.0:
        # log(exp(2 tie) - 1) and its slopes
        g = -np.expm1(-2.0 * tie)
        value += t * (2.0 * tie + np.log(g))
        slope_tie += 2.0 * t / g
        inner += 4.0 * t * np.exp(-2.0 * tie) / (g * g)
    return value, left * u - right * v, left * du + right * dv, slope_tie, right * dv - left * du, inner


@jit
def _evaluate(
    pairs: Any, ends: Any, s: Any, tie: float, side: float, model: int, gradient: Any, weight: Any, cross: Any
) -> tuple[float, float, float, float, float, float]:
    """Add the slopes of pairs ends[0] to ends[1] to `gradient` and write down every pair's information.

    Returns the log-likelihood, the slopes along tie and side, and the information (tie, tie), (tie, side), (side,
    side). `weight` is the information of each pair's gap, `cross` that of gap and tie.
    """
    left, right, n_left, n_right, n_ties = pairs
    value = of_tie = of_side = tie_tie = tie_side = side_side = 0.0
    for p in range(ends[0], ends[1]):
        i, j = left[p], right[p]
        f, g, w, gt, c, h = _terms(s[i] - s[j] + side, n_left[p], n_right[p], n_ties[p], tie, model)
        value += f
        gradient[i] += g
        gradient[j] -= g
        weight[p] = w
        of_side += g
        side_side += w
        if model > 0:
            cross[p] = c
            of_tie += gt
            tie_tie += h
            tie_side += c
    return value, of_tie, of_side, tie_tie, tie_side, side_side


@jit
def _evaluate_all(
    pairs: Any, s: Any, tie: float, side: float, model: int, gradient: Any, weight: Any, cross: Any
) -> tuple[float, float, float, float, float, float]:
    """Do as `_evaluate` for all pairs, with one exponential per item in place of several per pair.

    Where pairs are many those exponentials are most of a step. Scores too far out for them take the safe way.
    """
    left, right, n_left, n_right, n_ties = pairs
    n_pairs = len(left)
    farthest = abs(side)
    for i in range(len(s)):
        farthest = max(farthest, abs(s[i]))
    if farthest > _FAR_OUT or abs(tie) > _FAR_OUT:
        return _evaluate(pairs, (0, n_pairs), s, tie, side, model, gradient, weight, cross)
    root = np.exp(0.5 * s)
    lead, worth = np.exp(0.5 * side), np.exp(tie)
    value = of_tie = of_side = tie_tie = tie_side = side_side = tied = 0.0
    for k in range(n_pairs):
        i, j = left[k], right[k]
        a, b, t = n_left[k], n_right[k], n_ties[k]
        n = a + b + t
        x, y = lead * root[i], root[j]
        gap = s[i] - s[j] + side
        if model == 0:
            x, y = x * x, y * y
            part = 1.0 / (x + y)
            p, q = x * part, y * part
            value += a * (s[i] + side) + b * s[j] - (a + b) * np.log(x + y)
            g, w = a * q - b * p, (a + b) * p * q
        elif model == 1:
            z = worth * x * y
            middle = 0.5 * (s[i] + s[j] + side)
            x, y = x * x, y * y
            whole = x + y + z
            part = 1.0 / whole
            p, q, r = x * part, y * part, z * part
            lean = p - q
            value += 0.5 * gap * (a - b) + tie * t - n * (np.log(whole) - middle)
            g = 0.5 * (a - b - n * lean)
            w = 0.25 * n * (p * (1.0 - lean) + q * (1.0 + lean))
            c = -0.5 * n * lean * r
            cross[k] = c
            of_tie += t - n * r
            tie_tie += n * r * (1.0 - r)
            tie_side += c
        else:
            x, y = x * x, y * y
            one, other = x + worth * y, y + worth * x
            u, v = worth * y / one, worth * x / other
            du, dv = u * x / one, v * y / other
            lefts, rights = a + t, b + t
            value -= lefts * (np.log(one) - s[i] - side) + rights * (np.log(other) - s[j])
            g, w = lefts * u - rights * v, lefts * du + rights * dv
            c = rights * dv - lefts * du
            cross[k] = c
            of_tie -= lefts * u + rights * v
            tie_tie += w
            tie_side += c
            tied += t
        gradient[i] += g
        gradient[j] -= g
        weight[k] = w
        of_side += g
        side_side += w
    if tied > 0.0:
        f = -np.expm1(-2.0 * tie)
        value += tied * (2.0 * tie + np.log(f))
        of_tie += 2.0 * tied / f
        tie_tie += 4.0 * tied * np.exp(-2.0 * tie) / (f * f)
    return value, of_tie, of_side, tie_tie, tie_side, side_side


# Solving for a step.


@jit
def _fill(pairs: Any, ends: Any, weight: Any, base: int, m: int, prior: float, stiff: bool, table: Any) -> None:
    """Write the information of the scores of one instance to the upper triangle of the first m² cells of `table`.

    Without a prior the scores may be shifted freely; `stiff` adds a stiffness along that direction, which changes no
    step that leaves the mean alone.
    """
    left, right = pairs[0], pairs[1]
    trace = 0.0
    table[: m * m] = 0.0
    for p in range(ends[0], ends[1]):
        i, j, w = left[p] - base, right[p] - base, weight[p]
        table[i * m + i] += w
        table[j * m + j] += w
        table[min(i, j) * m + max(i, j)] -= w
        trace += 2.0 * w
    for i in range(m):
        table[i * m + i] += prior
    if stiff and prior == 0.0:
        table[: m * m] += (trace / m if trace > 0.0 else 1.0) / m


@jit
def _eliminate(table: Any, m: int, columns: Any, base: int) -> None:
    """Solve the system of an m x m table (its upper triangle) for columns[:, base : base + m] in place, by Cholesky."""
    for k in range(m):
        pivot = table[k * m + k]
        # An item about which there is no information stays where it is.
        root = np.sqrt(pivot) if pivot > 1e-300 else 1.0
        for j in range(k, m):
            table[k * m + j] /= root
        table[k * m + k] = root
        for i in range(k + 1, m):
            factor = table[k * m + i]
            if factor != 0.0:
                for j in range(i, m):
                    table[i * m + j] -= factor * table[k * m + j]
    for c in range(len(columns)):
        x = columns[c]
        for k in range(m):
            x[base + k] /= table[k * m + k]
            for j in range(k + 1, m):
                x[base + j] -= x[base + k] * table[k * m + j]
        for k in range(m - 1, -1, -1):
            total = x[base + k]
            for j in range(k + 1, m):
                total -= table[k * m + j] * x[base + j]
            x[base + k] = total / table[k * m + k]


@jit
def _solve_small(pairs: Any, edges: Any, which: Any, weight: Any, prior: Any, columns: Any) -> None:
    """Solve the system of each instance of `which` for the columns over its slots, in place."""
    starts, offsets = edges
    most = 0
    for k in range(len(which)):
        most = max(most, offsets[which[k] + 1] - offsets[which[k]])
    table = np.empty(most * most)
    for k in range(len(which)):
        n = which[k]
        base, m = offsets[n], offsets[n + 1] - offsets[n]
        _fill(pairs, (starts[n], starts[n + 1]), weight, base, m, prior[n], True, table)
        _eliminate(table, m, columns, base)


@jit
def _newton_small(
    pairs: Any,
    edges: Any,
    which: Any,
    prior: Any,
    scale: Any,
    shared: Any,
    tol: float,
    max_iter: int,
    s: Any,
    weight: Any,
    cross: Any,
    out: Any,
) -> None:
    """Find the scores of each instance of `which` by Newton's method, every instance by itself.

    Writes the objective, the gradient's norm, the number of steps and whether it converged to the rows of `out`.
    """
    starts, offsets = edges
    model, tie, side = shared
    most = 0
    for k in range(len(which)):
        most = max(most, offsets[which[k] + 1] - offsets[which[k]])
    table = np.empty(most * most)
    gradient = np.zeros(len(s))
    step = np.zeros((1, len(s)))
    for k in range(len(which)):
        n = which[k]
        base, end = offsets[n], offsets[n + 1]
        m = end - base
        ends = (starts[n], starts[n + 1])
        value_before = -np.inf
        moved = np.inf
        steps = 0
        converged = False
        value = norm = 0.0
        while True:
            gradient[base:end] = 0.0
            value = _evaluate(pairs, ends, s, tie, side, model, gradient, weight, cross)[0]
            norm = 0.0
            for i in range(base, end):
                value -= 0.5 * prior[n] * s[i] * s[i]
                gradient[i] -= prior[n] * s[i]
                norm = max(norm, abs(gradient[i]))
            norm /= scale[n]
            if norm == 0.0 or (moved <= _LAST_STEP and norm <= tol):
                converged = True
                break
            if steps == max_iter:
                break
            steps += 1
            if value < value_before - 1e-11 * abs(value_before):
                # Too far: back to half the way.
                for i in range(base, end):
                    step[0, i] *= 0.5
                    s[i] -= step[0, i]
                moved *= 0.5
                continue
            value_before = value
            step[0, base:end] = gradient[base:end]
            _fill(pairs, ends, weight, base, m, prior[n], True, table)
            _eliminate(table, m, step, base)
            moved = 0.0
            for i in range(base, end):
                moved = max(moved, abs(step[0, i]))
            if moved > _LONGEST_STEP:
                for i in range(base, end):
                    step[0, i] *= _LONGEST_STEP / moved
                moved = _LONGEST_STEP
            for i in range(base, end):
                s[i] += step[0, i]
        mean = 0.0
        for i in range(base, end):
            mean += s[i]
        mean /= m
        for i in range(base, end):
            s[i] -= mean
        out[0, n] = value
        out[1, n] = norm
        out[2, n] = steps
        out[3, n] = 1.0 if converged else 0.0


@jit
def _conjugate(
    pairs: Any, ends: Any, weight: Any, base: int, m: int, prior: float, rhs: Any, x: Any, rtol: float, max_iter: int
) -> bool:
    """Solve the system of one instance for `rhs` by conjugate gradients from 0; return whether it got there.

    The diagonal preconditions; without a prior the right-hand side must add up to 0, and so does the answer.
    """
    left, right = pairs[0], pairs[1]
    diagonal = np.full(m, prior)
    for p in range(ends[0], ends[1]):
        diagonal[left[p] - base] += weight[p]
        diagonal[right[p] - base] += weight[p]
    for i in range(m):
        if diagonal[i] <= 0.0:
            diagonal[i] = 1.0
    residual = rhs.copy()
    z = residual / diagonal
    direction = z.copy()
    image = np.empty(m)
    x[:] = 0.0
    size = rho = 0.0
    for i in range(m):
        rho += residual[i] * z[i]
    size = rho
    done = rho == 0.0
    for _ in range(max_iter):
        if done:
            break
        for i in range(m):
            image[i] = diagonal[i] * direction[i]
        for p in range(ends[0], ends[1]):
            i, j, w = left[p] - base, right[p] - base, weight[p]
            image[i] -= w * direction[j]
            image[j] -= w * direction[i]
        bend = 0.0
        for i in range(m):
            bend += direction[i] * image[i]
        if bend <= 0.0:
            break
        length = rho / bend
        rho_before = rho
        rho = 0.0
        for i in range(m):
            x[i] += length * direction[i]
            residual[i] -= length * image[i]
            z[i] = residual[i] / diagonal[i]
            rho += residual[i] * z[i]
        done = rho <= rtol * rtol * size
        for i in range(m):
            direction[i] = z[i] + rho / rho_before * direction[i]
    if prior == 0.0:
        x -= x.mean()
    return done


@jit
def _half(pairs: Any, values: Any, n: int) -> Any:
    """Return the sums over slots of values of pairs, + at the left and - at the right."""
    out = np.zeros(n)
    for p in range(len(values)):
        out[pairs[0][p]] += values[p]
        out[pairs[1][p]] -= values[p]
    return out


@jit
def _descend(
    pairs: Any, edges: Any, prior: Any, rate: Any, scale: Any, steps: int, s: Any, weight: Any, out: Any
) -> None:
    """Take so many gradient steps from `s` in every instance; writes the objective and the gradient's norm to `out`."""
    starts, offsets = edges
    gradient = np.zeros(len(s))
    for n in range(len(starts) - 1):
        base, end = offsets[n], offsets[n + 1]
        for turn in range(steps + 1):
            gradient[base:end] = 0.0
            value = _evaluate(pairs, (starts[n], starts[n + 1]), s, 0.0, 0.0, 0, gradient, weight, weight)[0]
            norm = 0.0
            for i in range(base, end):
                value -= 0.5 * prior[n] * s[i] * s[i]
                gradient[i] -= prior[n] * s[i]
                norm = max(norm, abs(gradient[i]))
                if turn < steps:
                    s[i] += rate[n] * gradient[i]
            out[0, n] = value
            out[1, n] = norm / scale[n]


@jit
def _row_gradients(
    rows: Any, cluster: Any, ends: Any, base: int, m: int, s: Any, shared: Any, out: Any, information: Any
) -> None:
    """Add the slopes of every row to the line of its cluster (scores, then tie, then side), and its information."""
    model, tie, side = shared
    left, right, n_left, n_right, n_ties = rows
    for r in range(ends[0], ends[1]):
        i, j, k = left[r], right[r], cluster[r]
        _, g, w, gt, _, _ = _terms(s[i] - s[j] + side, n_left[r], n_right[r], n_ties[r], tie, model)
        out[k, i - base] += g
        out[k, j - base] -= g
        out[k, m] += gt
        out[k, m + 1] += g
        information[k, i - base] += w
        information[k, j - base] += w


@jit
def _list_gradients(
    lists: Any,
    ends: Any,
    base: int,
    m: int,
    s: Any,
    shared: Any,
    binary: bool,
    with_ties: bool,
    out: Any,
    information: Any,
) -> None:
    """Write the slopes of every list's own log-likelihood, of weight 1, to its line, and its information."""
    value, slot, list_offsets = lists
    model, tie, _ = shared
    for which in range(ends[0], ends[1]):
        k = which - ends[0]
        for a in range(list_offsets[which], list_offsets[which + 1]):
            i = slot[a]
            for b in range(a + 1, list_offsets[which + 1]):
                j = slot[b]
                gap = value[b] - value[a]
                size = 1.0 if binary else abs(gap)
                won, lost, tied = 0.0, 0.0, 0.0
                if gap > 0.0:
                    won = size
                elif gap < 0.0:
                    lost = size
                elif with_ties:
                    tied = 1.0
                else:
                    continue
                _, g, w, gt, _, _ = _terms(s[i] - s[j], won, lost, tied, tie, model)
                out[k, i - base] += g
                out[k, j - base] -= g
                out[k, m] += gt
                information[k, i - base] += w
                information[k, j - base] += w


@jit
def _list_clusters(
    pairs: Any,
    edges: Any,
    lists: Any,
    list_edges: Any,
    which: Any,
    s: Any,
    prior: Any,
    binary: bool,
    places: Any,
    counts: Any,
    hessian: Any,
    meat: Any,
    information: Any,
    squares: Any,
) -> None:
    """Write for each instance of `which` its −Hessian and the sums over its lists as clusters.

    Tables go to places[k] : places[k + 1], what there is one of for each slot to its slot. Lists of weight 0 or of one
    item count for nothing.
    """
    starts, offsets = edges
    list_starts, list_weight = list_edges
    list_offsets = lists[2]
    weight, gradient = np.empty(len(pairs[0])), np.zeros(len(s))
    for k in range(len(which)):
        n = which[k]
        base, m, g = offsets[n], offsets[n + 1] - offsets[n], list_starts[n + 1] - list_starts[n]
        pulls, each = np.zeros((g, m + 2)), np.zeros((g, m))
        ends = (list_starts[n], list_starts[n + 1])
        _list_gradients(lists, ends, base, m, s, (0, 0.0, 0.0), binary, False, pulls, each)
        cell = places[k]
        for row in range(ends[0], ends[1]):
            w = list_weight[row] if list_offsets[row + 1] - list_offsets[row] > 1 else 0.0
            counts[k] += w
            if w == 0.0:
                continue
            x, h = pulls[row - ends[0]], each[row - ends[0]]
            for i in range(m):
                information[base + i] += w * h[i]
                squares[base + i] += w * h[i] * h[i]
                for j in range(m):
                    meat[cell + i * m + j] += w * x[i] * x[j]
        span = (starts[n], starts[n + 1])
        _evaluate(pairs, span, s, 0.0, 0.0, 0, gradient, weight, weight)
        _fill(pairs, span, weight, base, m, prior[n], False, hessian[cell : cell + m * m])
        for i in range(m):
            for j in range(i):
                hessian[cell + i * m + j] = hessian[cell + j * m + i]


def _columns(pairs: Pairs) -> tuple[Any, ...]:
    return locked(*pairs[:5])


def _scale(pairs: Pairs) -> Floats:
    """Return for every instance the most outcomes an item has, at least 1: what a gradient is measured against."""
    whole = pairs.outcomes
    n = pairs.n_slots
    each = np.bincount(pairs.left, whole, n) + np.bincount(pairs.right, whole, n)
    sizes = np.diff(pairs.offsets)
    out = np.ones(len(sizes))
    full = np.flatnonzero(sizes > 0)
    if len(full):
        out[full] = np.maximum(np.maximum.reduceat(each, pairs.offsets[full]), 1.0)
    return out


# Newton's method.


class _Solver:
    """Solves for the steps of one large instance: conjugate gradients, or elimination where those are slow."""

    def __init__(self, pairs: Pairs, prior: float) -> None:
        self.columns = _columns(pairs)
        self.n_pairs = len(pairs.left)
        self.size = pairs.n_slots
        self.prior = prior
        m = self.size
        # As many steps as cost about as much as one elimination.
        self.patience = 5000 if m > _DENSE else int(np.clip(m**3 / (60.0 * max(self.n_pairs, 1)), 20, 1000))
        self.eliminating = False

    def solve(self, weight: Floats, columns: Floats, rtol: float) -> Floats:
        """Return the solutions for the rows of `columns`, to a relative residual of about `rtol`."""
        out = np.zeros(columns.shape)
        ends = (0, self.n_pairs)
        if not self.eliminating:
            done = True
            for rhs, x in zip(columns, out, strict=True):
                done &= _conjugate(self.columns, ends, weight, 0, self.size, self.prior, rhs, x, rtol, self.patience)
            if done or self.size > _DENSE:
                return out
            self.eliminating = True
        return self._eliminate(weight, columns)

    def _eliminate(self, weight: Floats, columns: Floats) -> Floats:
        from scipy.linalg import cho_factor, cho_solve

        m = self.size
        table = np.empty(m * m)
        _fill(self.columns, (0, self.n_pairs), weight, 0, m, self.prior, True, table)
        # The upper triangle in rows is the lower one in columns, which LAPACK reads without a copy.
        factor = cho_factor(table.reshape(m, m).T, lower=True, overwrite_a=True, check_finite=False)
        return np.ascontiguousarray(cho_solve(factor, columns.T, check_finite=False).T)


class _Climb(NamedTuple):
    """Where Newton's method ended, and how."""

    x: Floats
    value: float
    norm: float
    steps: int
    converged: bool
    trace: list[float]


class _Way(NamedTuple):
    """Where Newton's method stands: the point to look at next, the step that led there, and the best one so far."""

    x: Floats
    step: Floats
    moved: float
    steps: int
    best: Floats
    value: float
    norm: float
    trace: list[float]

    def kept(self) -> dict[str, Any]:
        """Return the same as arrays."""
        numbers = np.array([self.moved, self.steps, self.value, self.norm])
        return {"x": self.x, "step": self.step, "best": self.best, "way": numbers, "trace": np.array(self.trace)}

    @classmethod
    def of(cls, kept: State) -> _Way:
        """Return what was kept."""
        moved, steps, value, norm = kept["way"].tolist()
        return cls(kept["x"], kept["step"], moved, int(steps), kept["best"], value, norm, kept["trace"].tolist())


def _climb(
    x: Floats,
    look: Callable[[Floats], tuple[float, float]],
    step_from: Callable[[Floats, float], tuple[Floats, float]],
    tol: float,
    max_iter: int,
    report: Report | None,
    keep: Keep = UNKEPT,
    hidden: Callable[[], State] = dict,
) -> _Climb:
    """Climb from x by Newton's method, halving steps that go too far.

    `look` gives the objective at a point and the norm of its gradient; `step_from` gives the step from the point last
    looked at, and how far it moves any score or parameter. `keep` keeps the state after every step, `hidden` what else
    the two go on from.
    """
    known = keep.restored()
    at = _Way(x, np.zeros(len(x)), np.inf, 0, x, -np.inf, np.inf, []) if known is None else _Way.of(known)

    def state() -> State:
        return at.kept() | dict(hidden())

    with keep.steps(max_iter):
        while True:
            value, norm = look(at.x)
            converged = norm == 0.0 or (at.moved <= _LAST_STEP and norm <= tol)
            if converged or at.steps == max_iter:
                return _Climb(at.x, value, norm, at.steps, converged, [*at.trace, value])
            if value < at.value - 1e-11 * abs(at.value):
                half = 0.5 * at.step
                at = at._replace(x=at.x - half, step=half, moved=0.5 * at.moved, steps=at.steps + 1)
            else:
                step, moved = step_from(at.x, norm)
                at = _Way(at.x + step, step, moved, at.steps + 1, at.x, value, norm, [*at.trace, value])
            keep.note(at.steps, state)
            if report is not None:
                report(at.steps, max_iter)
    # Interrupted.
    return _Climb(at.best, at.value, at.norm, at.steps, False, at.trace)


def _accuracy(norm: float) -> float:
    """Return to what part a step has to be right: the nearer the end, the more digits."""
    return min(1e-3, max(norm, 1e-10))


def _shortened(step: Floats, moved: float) -> tuple[Floats, float]:
    return (step, moved) if moved <= _LONGEST_STEP else (step * (_LONGEST_STEP / moved), _LONGEST_STEP)


def _newton_large(
    pairs: Pairs,
    prior: float,
    scale: float,
    shared: Shared,
    tol: float,
    max_iter: int,
    start: Floats,
    report: Report | None,
    keep: Keep,
) -> _Climb:
    """Find the scores of one large instance."""
    solver = _Solver(pairs, prior)
    known = keep.restored()
    if known is not None:
        solver.eliminating = bool(known["eliminating"])
    columns, n_pairs = solver.columns, len(pairs.left)
    weight = np.empty(n_pairs)
    cross = np.empty(n_pairs if shared.model else 0)
    gradient = np.empty(len(start))

    def look(s: Floats) -> tuple[float, float]:
        gradient[:] = 0.0
        value = _evaluate_all(columns, s, shared.tie, shared.side, shared.model, gradient, weight, cross)[0]
        gradient[:] -= prior * s
        return value - 0.5 * prior * float(s @ s), float(np.abs(gradient).max()) / scale

    def step_from(_s: Floats, norm: float) -> tuple[Floats, float]:
        step = solver.solve(weight, gradient[None, :], _accuracy(norm))[0]
        return _shortened(step, float(np.abs(step).max()))

    def hidden() -> State:
        return {"eliminating": np.array(solver.eliminating)}

    return _climb(start, look, step_from, tol, max_iter, report, keep, hidden)


def _kinds(pairs: Pairs) -> tuple[Ints, list[int]]:
    """Return the instances that are small and those that are large, leaving out those in which nothing happened."""
    sizes = np.diff(pairs.offsets)
    busy = np.diff(pairs.starts) > 0
    return np.flatnonzero(busy & (sizes <= _SMALL)), np.flatnonzero(busy & (sizes > _SMALL)).tolist()


def solve(
    pairs: Pairs,
    prior: Floats,
    shared: Shared = NO_TIES,
    *,
    tol: float = 1e-9,
    max_iter: int = 100,
    start: Floats | None = None,
    report: Report | None = None,
    keep: Keep = UNKEPT,
) -> Solution:
    """Return the scores that maximise the likelihood minus ½ prior ‖s‖², what instances share being held fixed.

    Every instance is solved by itself, to the same bits in any company; its scores have mean 0. Without a prior the
    caller makes sure that a maximum exists. O(pairs) per step for large instances, O(m³) for small ones. `keep` keeps
    the state after every step where there is one instance and it is large.

    >>> from_one = Pairs(
    ...     np.array([0], np.int32),
    ...     np.array([1], np.int32),
    ...     np.array([3.0]),
    ...     np.array([1.0]),
    ...     np.array([0.0]),
    ...     np.array([0, 1]),
    ...     np.array([0, 2]),
    ... )
    >>> s = solve(from_one, np.zeros(1)).score
    >>> round(float(s[0] - s[1]), 9) == round(float(np.log(3)), 9)
    True
    """
    s = np.zeros(pairs.n_slots) if start is None else np.array(start, dtype=np.float64)
    scale = _scale(pairs)
    small, large = _kinds(pairs)
    out = np.zeros((4, len(pairs.offsets) - 1))
    out[3] = 1.0
    trace: list[float] = []
    if len(small):
        weight = np.empty(len(pairs.left))
        cross = np.empty(len(pairs.left) if shared.model else 0)
        edges = locked(pairs.starts, pairs.offsets)
        _newton_small(_columns(pairs), edges, small, prior, scale, tuple(shared), tol, max_iter, s, weight, cross, out)
    for n in large:
        first, last = int(pairs.offsets[n]), int(pairs.offsets[n + 1])
        one = pairs.window(n)
        own = keep if len(pairs.offsets) == 2 else UNKEPT
        climb = _newton_large(one, float(prior[n]), float(scale[n]), shared, tol, max_iter, s[first:last], report, own)
        s[first:last] = climb.x - climb.x.mean()
        out[:, n] = climb[1:5]
        trace = climb.trace
    return Solution(
        s,
        shared,
        float(out[0].sum()),
        float(out[1].max(initial=0.0)),
        int(out[2].max(initial=0)),
        bool(out[3].all()),
        trace if len(pairs.offsets) == 2 else [],
        np.zeros((0, 0)),
        np.zeros((0, len(s))),
    )


def tie_start(pairs: Pairs, model: int) -> float:
    """Return the tie parameter that would be right if all items were equal, within its bounds."""
    return tie_among_equals(float(pairs.n_ties.sum()), float(pairs.n_left.sum() + pairs.n_right.sum()), model)


def tie_among_equals(ties: float, decided: float, model: int) -> float:
    """Return the same for so many outcomes of either kind."""
    if model == DAVIDSON:
        return float(np.clip(np.log(2.0 * ties / decided), -TIE_BOUND, TIE_BOUND)) if decided else TIE_BOUND
    return float(min(np.log1p(2.0 * ties / decided), TIE_BOUND)) if decided else TIE_BOUND


def solve_jointly(
    pairs: Pairs,
    prior: Floats,
    shared: Shared,
    *,
    tie: bool,
    side: bool,
    tol: float = 1e-9,
    max_iter: int = 100,
    start: Floats | None = None,
    report: Report | None = None,
    keep: Keep = UNKEPT,
) -> Solution:
    """Return scores and shared parameters (`tie`, `side`: those to learn) that maximise the likelihood together.

    `shared` is where they begin. Newton's method on everything at once: every instance is solved for its own step as a
    function of the shared one, which then follows from a system of one or two unknowns. `keep` keeps the state after
    every step.
    """
    coupled = _Coupled(pairs, prior, shared, np.flatnonzero([tie, side]))
    solvers = coupled.solvers()
    scale, sizes = _scale(pairs), np.diff(pairs.offsets)
    slot_scale = np.repeat(scale, sizes)
    n_slots = pairs.n_slots
    information = np.eye(len(coupled.learned))
    response = np.zeros((len(coupled.learned), n_slots))
    known = keep.restored()
    if known is not None:
        information, response = known["information"], known["response"]
        for solver, eliminating in zip(solvers.values(), known["eliminating"].tolist(), strict=True):
            solver.eliminating = eliminating

    def hidden() -> State:
        eliminating = np.array([solver.eliminating for solver in solvers.values()], dtype=np.bool_)
        return {"information": information, "response": response, "eliminating": eliminating}

    def look(x: Floats) -> tuple[float, float]:
        value = coupled.evaluate(x[:n_slots], x[n_slots:])
        return value, max(float(np.abs(coupled.gradient / slot_scale).max(initial=0.0)), coupled.shared_norm)

    def step_from(x: Floats, norm: float) -> tuple[Floats, float]:
        nonlocal information, response
        couplings = coupled.couplings()
        solved = coupled.solved(np.concatenate([coupled.gradient[None, :], couplings]), solvers, _accuracy(norm))
        response = solved[1:]
        information = coupled.information - couplings @ response.T
        chosen = _solve_few(information, coupled.slope - couplings @ solved[0])
        step = np.concatenate([solved[0] - chosen @ response, chosen])
        return _bounded(step, float(np.abs(step).max()), x[n_slots:], shared.model, coupled.learned)

    first = np.zeros(n_slots) if start is None else start
    climb = _climb(np.concatenate([first, coupled.start]), look, step_from, tol, max_iter, report, keep, hidden)
    s = climb.x[:n_slots]
    full = np.flatnonzero(sizes > 0)
    if len(full):
        s -= np.repeat(np.add.reduceat(s, pairs.offsets[full]) / sizes[full], sizes[full])
    learned = shared.moved(coupled.learned, climb.x[n_slots:])
    return Solution(s, learned, *climb[1:], (information + information.T) / 2, response)


def _solve_few(table: Floats, rhs: Floats) -> Floats:
    """Return the solution of a small system; the shortest one where it has many."""
    try:
        return np.asarray(np.linalg.solve(table, rhs), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(table, rhs)[0], dtype=np.float64)


class _Coupled:
    """The objective of scores and shared parameters together, at the point last evaluated."""

    def __init__(self, pairs: Pairs, prior: Floats, shared: Shared, learned: Ints) -> None:
        self.pairs = pairs
        self.prior = prior
        self.small, self.large = _kinds(pairs)
        self.edges = locked(pairs.starts, pairs.offsets)
        self.columns = _columns(pairs)
        self.shared = shared
        self.learned = learned
        self.start = np.array([shared.tie, shared.side])[learned]
        self.slot_prior = np.repeat(prior, np.diff(pairs.offsets))
        self.outcomes = max(float(pairs.outcomes.sum()), 1.0)
        self.weight = np.empty(len(pairs.left))
        self.cross = np.empty(len(pairs.left))
        self.gradient = np.empty(pairs.n_slots)
        self.slope = np.zeros(len(learned))
        self.information = np.zeros((len(learned), len(learned)))

    def evaluate(self, s: Floats, common: Floats) -> float:
        """Return the objective at a point and keep its slopes and its information."""
        model, tie, side = self.shared.moved(self.learned, common)
        self.gradient[:] = 0.0
        found = _evaluate_all(self.columns, s, tie, side, model, self.gradient, self.weight, self.cross)
        value, of_tie, of_side, tie_tie, tie_side, side_side = found
        self.gradient -= self.slot_prior * s
        self.slope = np.array([of_tie, of_side])[self.learned]
        whole = np.array([[tie_tie, tie_side], [tie_side, side_side]])
        self.information = whole[np.ix_(self.learned, self.learned)]
        return value - 0.5 * float(self.slot_prior @ (s * s))

    @property
    def shared_norm(self) -> float:
        """The largest slope along a shared parameter, over the number of outcomes."""
        return float(np.abs(self.slope).max(initial=0.0)) / self.outcomes

    def couplings(self) -> Floats:
        """Return the information between each shared parameter and the scores."""
        sources = (self.cross, self.weight)
        rows = [_half(self.columns, sources[k], len(self.gradient)) for k in self.learned.tolist()]
        return np.array(rows).reshape(len(rows), len(self.gradient))

    def solvers(self) -> dict[int, _Solver]:
        """Return what solves the large instances."""
        return {n: _Solver(self.pairs.window(n), float(self.prior[n])) for n in self.large}

    def solved(self, columns: Floats, solvers: Mapping[int, _Solver], accuracy: float) -> Floats:
        """Return each row of slots divided by the information of the scores at the point last evaluated."""
        pairs = self.pairs
        if len(self.small):
            _solve_small(self.columns, self.edges, self.small, self.weight, self.prior, columns)
        for n, solver in solvers.items():
            own = slice(int(pairs.offsets[n]), int(pairs.offsets[n + 1]))
            rows = slice(int(pairs.starts[n]), int(pairs.starts[n + 1]))
            columns[:, own] = solver.solve(self.weight[rows], np.ascontiguousarray(columns[:, own]), accuracy)
        return columns


def _bounded(step: Floats, moved: float, common: Floats, model: int, learned: Ints) -> tuple[Floats, float]:
    """Return the part of a step that is not too long and keeps the tie parameter within its bounds.

    A step ends with that of the shared parameters that are learned, which are `common` now.
    """
    reach = min(1.0, _LONGEST_STEP / moved) if moved > 0 else 1.0
    if 0 in learned:
        change, tie = float(step[-len(learned)]), float(common[0])
        if model == RAO_KUPPER and tie + reach * change < tie / 4:
            reach = -0.75 * tie / change
        elif abs(tie + reach * change) > TIE_BOUND and change != 0:
            reach = max((np.sign(change) * TIE_BOUND - tie) / change, 0.0)
    return step * reach, moved * reach


class Profile(NamedTuple):
    """The likelihood of some instances where their scores are best for what they share, and how it goes on from there.

    `slope` and `information` are those along the shared parameters that are learned, the scores giving way;
    `response` is how they do (see `Solution`), `norm` what is left of the gradient along them.
    """

    value: float
    slope: Floats
    information: Floats
    norm: float
    score: Floats
    response: Floats


def profile(
    pairs: Pairs, prior: Floats, shared: Shared, learned: Ints, *, tol: float, max_iter: int, start: Floats
) -> Profile:
    """Return the best scores for shared parameters, and how the likelihood goes on as those learned move."""
    best = solve(pairs, prior, shared, tol=tol, max_iter=max_iter, start=start)
    coupled = _Coupled(pairs, prior, shared, learned)
    value = coupled.evaluate(best.score, coupled.start)
    couplings = coupled.couplings()
    response = coupled.solved(couplings.copy(), coupled.solvers(), _accuracy(0.0))
    information = coupled.information - couplings @ response.T
    return Profile(value, coupled.slope, information, best.gradient_norm, best.score, response)


def climb_profile(
    evaluate: Callable[[Shared], Profile],
    shared: Shared,
    learned: Ints,
    outcomes: float,
    *,
    tol: float,
    max_iter: int,
    report: Report | None = None,
    keep: Keep = UNKEPT,
    hidden: Callable[[], State] = dict,
) -> Solution:
    """Return the shared parameters that are best, given the sums over all instances of what `profile` returns.

    The scores are wherever they are evaluated, and `hidden` gives them to be kept; those of the solution are empty.
    """
    found: Profile | None = None

    def last(common: Floats) -> Profile:
        """Return the profile looked at last, or that at a point where none was."""
        nonlocal found
        if found is None:
            found = evaluate(shared.moved(learned, common))
        return found

    def look(common: Floats) -> tuple[float, float]:
        nonlocal found
        found = None
        here = last(common)
        return here.value, max(here.norm, float(np.abs(here.slope).max(initial=0.0)) / max(outcomes, 1.0))

    def step_from(common: Floats, _norm: float) -> tuple[Floats, float]:
        step = _solve_few(last(common).information, last(common).slope)
        return _bounded(step, float(np.abs(step).max()), common, shared.model, learned)

    start = np.array([shared.tie, shared.side])[learned]
    climb = _climb(start, look, step_from, tol, max_iter, report, keep, hidden)
    information = last(climb.x).information
    information = (information + information.T) / 2
    best = shared.moved(learned, climb.x)
    return Solution(np.zeros(0), best, *climb[1:], information, np.zeros((len(learned), 0)))


def solve_linear(
    pairs: Pairs,
    features: Floats,
    prior: Floats,
    shared: Shared,
    *,
    tie: bool,
    side: bool,
    tol: float = 1e-9,
    max_iter: int = 100,
    report: Report | None = None,
    keep: Keep = UNKEPT,
) -> tuple[Floats, Solution]:
    """Return weights b of features, and the solution with scores features · b, learned with the shared parameters.

    The prior is on the scores, as elsewhere, so that the units of the features do not matter. `information` of the
    solution is that of (b, tie, side), those that were learned. Columns must be independent. O(pairs · F²) per step.
    `keep` keeps the state after every step.
    """
    f = features.shape[1]
    coupled = _Coupled(pairs, prior, shared, np.flatnonzero([tie, side]))
    pull = features.T @ (coupled.slot_prior[:, None] * features)
    size = np.maximum(np.abs(features).max(axis=0, initial=0.0), 1e-300) * coupled.outcomes
    information = np.empty((f + len(coupled.learned), f + len(coupled.learned)))

    def look(x: Floats) -> tuple[float, float]:
        value = coupled.evaluate(features @ x[:f], x[f:])
        return value, max(float(np.abs(features.T @ coupled.gradient / size).max(initial=0.0)), coupled.shared_norm)

    def inform() -> None:
        information[:f, :f] = pull + _apart(pairs, features, coupled.weight)
        information[f:, :f] = coupled.couplings() @ features
        information[:f, f:] = information[f:, :f].T
        information[f:, f:] = coupled.information

    def step_from(x: Floats, _norm: float) -> tuple[Floats, float]:
        inform()
        step = _solve_few(information, np.concatenate([features.T @ coupled.gradient, coupled.slope]))
        moved = max(float(np.abs(features @ step[:f]).max(initial=0.0)), float(np.abs(step[f:]).max(initial=0.0)))
        return _bounded(step, moved, x[f:], shared.model, coupled.learned)

    climb = _climb(np.concatenate([np.zeros(f), coupled.start]), look, step_from, tol, max_iter, report, keep)
    look(climb.x)
    inform()
    b = climb.x[:f]
    found = shared.moved(coupled.learned, climb.x[f:])
    return b, Solution(features @ b, found, *climb[1:], information, np.zeros((0, pairs.n_slots)))


def _apart(pairs: Pairs, features: Floats, weight: Floats) -> Floats:
    """Return Σ weight (x_left - x_right)(x_left - x_right)ᵀ over pairs, some at a time."""
    out = np.zeros((features.shape[1], features.shape[1]))
    block = max((1 << 22) // max(features.shape[1], 1), 1)
    for start in range(0, len(weight), block):
        rows = slice(start, start + block)
        gap = features[pairs.left[rows]] - features[pairs.right[rows]]
        out += gap.T @ (weight[rows, None] * gap)
    return out


def descend(pairs: Pairs, prior: Floats, *, steps: int, rate: float) -> Solution:
    """Return the scores after so many gradient steps of rate · M² / T from 0 (M items, T outcomes of the instance).

    The likelihood has no ties; pairs' ties are left out. O(pairs) per step.
    """
    n = len(pairs.offsets) - 1
    sizes = np.diff(pairs.offsets)
    total = sums(pairs.n_left + pairs.n_right, pairs.starts)
    each = np.divide(rate * sizes * sizes, total, out=np.zeros(n), where=total > 0)
    s = np.zeros(pairs.n_slots)
    out = np.zeros((2, n))
    edges = locked(pairs.starts, pairs.offsets)
    _descend(_columns(pairs), edges, prior, each, _scale(pairs), steps, s, np.empty(len(pairs.left)), out)
    norm = float(out[1].max(initial=0.0))
    none = np.zeros((0, 0)), np.zeros((0, len(s)))
    return Solution(s, NO_TIES, float(out[0].sum()), norm, steps, norm == 0.0, [], *none)


# What intervals need.


def information(pairs: Pairs, score: Floats, prior: float, shared: Shared, learned: Ints) -> Floats:
    """Return the information (negative second derivatives) of one instance's scores, then the parameters `learned`.

    `learned` holds 0 for the tie parameter, 1 for the side. The prior's share is included.
    """
    m = pairs.n_slots
    coupled = _Coupled(pairs, np.array([prior]), shared, learned)
    coupled.evaluate(score, coupled.start)
    table = np.empty(m * m)
    _fill(coupled.columns, (0, len(pairs.left)), coupled.weight, 0, m, prior, False, table)
    out = np.zeros((m + len(learned), m + len(learned)))
    upper = table.reshape(m, m)
    out[:m, :m] = upper + np.triu(upper, 1).T
    out[m:, :m] = coupled.couplings()
    out[:m, m:] = out[m:, :m].T
    out[m:, m:] = coupled.information
    return out


def row_gradients(
    rows: tuple[Codes, Codes, Floats, Floats, Floats],
    cluster: Codes,
    ends: tuple[int, int],
    slots: tuple[int, int],
    n_clusters: int,
    score: Floats,
    shared: Shared,
    learned: Ints,
) -> tuple[Floats, Floats]:
    """Return the slopes of every cluster's log-likelihood along the scores, then those `learned`; and its information.

    The information of a cluster about an item is the diagonal of its −Hessian.

    `rows` are the columns of comparisons, of which those from ends[0] to ends[1] belong to the instance, `slots` is
    where its slots begin and end, and `cluster` numbers from 0 who made each row of the instance.
    """
    base, m = slots[0], slots[1] - slots[0]
    out, information = np.zeros((n_clusters, m + 2)), np.zeros((n_clusters, m))
    every = np.empty(ends[1], dtype=np.int32)
    every[ends[0] :] = cluster
    _row_gradients(locked(*rows), every, ends, base, m, score, tuple(shared), out, information)
    return out[:, np.concatenate([np.arange(m), m + learned])], information


def list_gradients(
    lists: tuple[Floats, Codes, Ints],
    ends: tuple[int, int],
    slots: tuple[int, int],
    score: Floats,
    shared: Shared,
    learned: Ints,
    *,
    binary: bool,
    ties: bool,
) -> tuple[Floats, Floats]:
    """Return the slopes of every list's log-likelihood, as if of weight 1, and its information.

    `lists` are values, slots and offsets as in `from_lists`; the lists from ends[0] to ends[1] belong to the instance.
    """
    base, m = slots[0], slots[1] - slots[0]
    out, information = np.zeros((ends[1] - ends[0], m + 2)), np.zeros((ends[1] - ends[0], m))
    _list_gradients(locked(*lists), ends, base, m, score, tuple(shared), binary, ties, out, information)
    return out[:, np.concatenate([np.arange(m), m + learned])], information


class ListClusters(NamedTuple):
    """Instances of equal size, stacked: −Hessian of the objective, and their lists as clusters (`base.uncertainty`)."""

    instances: Ints
    hessian: Floats
    meat: Floats
    information: Floats
    squares: Floats
    counts: Floats


def list_clusters(
    pairs: Pairs,
    lists: tuple[Floats, Codes, Ints],
    list_starts: Ints,
    list_weight: Floats,
    score: Floats,
    prior: Floats,
    *,
    binary: bool,
) -> list[ListClusters]:
    """Return what intervals of every small instance need, clustered by list, for the likelihood without ties.

    In one compiled loop, because many small instances would spend their time between the steps.
    """
    small, _ = _kinds(pairs)
    sizes = np.diff(pairs.offsets)[small]
    places = np.zeros(len(small) + 1, dtype=np.int64)
    np.cumsum(sizes * sizes, out=places[1:])
    hessian, meat, counts = np.zeros(int(places[-1])), np.zeros(int(places[-1])), np.zeros(len(small))
    information, squares = np.zeros(len(score)), np.zeros(len(score))
    if not len(small):
        return []
    edges, list_edges = locked(pairs.starts, pairs.offsets), locked(list_starts, list_weight)
    sums = counts, hessian, meat, information, squares
    _list_clusters(_columns(pairs), edges, locked(*lists), list_edges, small, score, prior, binary, places, *sums)
    out = []
    for m in np.unique(sizes).tolist():
        own = np.flatnonzero(sizes == m)
        cells = places[own][:, None] + np.arange(m * m)
        slots = pairs.offsets[small[own]][:, None] + np.arange(m)
        h, spread = (table[cells].reshape(-1, m, m) for table in (hessian, meat))
        out.append(ListClusters(small[own], h, spread, information[slots], squares[slots], counts[own]))
    return out
