"""Log-likelihood of Bradley-Terry with or without ties: gradients, Hessians and Newton steps over pair counts.

Every loop is linear in the number of pairs that met (`pair_counts`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from concordant.arrays import Codes, Floats, Ints, read_only
from concordant.kernels.jit import jit
from concordant.kernels.pair_counts import Pairs

__all__ = [
    "DAVIDSON",
    "LAST_STEP",
    "LONGEST_STEP",
    "ListClusters",
    "MODELS",
    "PLAIN",
    "RAO_KUPPER",
    "Shared",
    "TIE_BOUND",
    "split_by_size",
    "conjugate_gradient_solve",
    "evaluate_all",
    "fill_hessian",
    "gradient_steps",
    "signed_sums",
    "list_clusters",
    "list_gradients",
    "newton_small",
    "pair_columns",
    "row_gradients",
    "solve_small",
    "tie_of_equal_items",
]

PLAIN, DAVIDSON, RAO_KUPPER = 0, 1, 2

# Instances up to this size are solved by Cholesky inside one compiled loop.
_SMALL = 160
# A Newton step this short leaves an error far below what scores are compared to.
LAST_STEP = 1e-6
# No step moves a score farther than this: far out the likelihood is flat, and a Newton step is meaningless.
LONGEST_STEP = 10.0
# Bound of the logarithm of the tie parameter: beyond it practically every outcome is a tie, or none is.
TIE_BOUND = 30.0
# Scores up to this size have exponentials that do not overflow when they are multiplied and added.
_LARGEST_EXPONENT = 200.0
MODELS = {"none": PLAIN, "davidson": DAVIDSON, "rao-kupper": RAO_KUPPER}


class Shared(NamedTuple):
    """Parameters that all instances share: the tie model with its parameter, the side effect, and coefficients.

    `tie` is the logarithm of Davidson's ν or of Rao and Kupper's ξ; `side` is added to the score on the left; `beta`
    are the coefficients of covariates of the vote.
    """

    model: int = PLAIN
    tie: float = 0.0
    side: float = 0.0
    beta: tuple[float, ...] = ()

    @property
    def values(self) -> Floats:
        """The parameters that can be learned, in the order in which they are numbered: tie, side, coefficients."""
        return np.array([self.tie, self.side, *self.beta])

    def updated(self, learned: Ints, values: Floats) -> Shared:
        """Return the parameters with those learned (0 tie, 1 side, from 2 coefficients) set to `values`."""
        every = self.values
        every[learned] = values
        tie, side, *beta = every.tolist()
        return Shared(self.model, tie, side, tuple(beta))


# The likelihood of a pair.


@jit
def _terms(
    gap: float, a: float, b: float, t: float, tie: float, model: int
) -> tuple[float, float, float, float, float, float]:
    """Return the log-likelihood of a pair's outcomes, its gradient and its information.

    `gap` is s_left - s_right plus the side effect. In order: the value; the derivative in the gap; the information
    (gap, gap); the derivative in the tie parameter; the information (gap, tie) and (tie, tie).
    """
    if model == 0:
        e = np.exp(-abs(gap))
        u = 1.0 / (1.0 + e)
        v = e * u
        p, q = (u, v) if gap >= 0.0 else (v, u)
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
        # log(exp(2 tie) - 1) and its derivatives
        g = -np.expm1(-2.0 * tie)
        value += t * (2.0 * tie + np.log(g))
        slope_tie += 2.0 * t / g
        inner += 4.0 * t * np.exp(-2.0 * tie) / (g * g)
    return value, left * u - right * v, left * du + right * dv, slope_tie, right * dv - left * du, inner


@jit
def _evaluate(
    pairs: Any, ends: Any, s: Any, tie: float, side: float, model: int, gradient: Any, weight: Any, cross: Any
) -> tuple[float, float, float, float, float, float]:
    """Add the gradient of pairs ends[0] to ends[1] to `gradient`, and write the information of each pair.

    Returns the log-likelihood, its derivatives along tie and side, and the information (tie, tie), (tie, side), (side,
    side). `weight` takes the information of each pair's gap, `cross` that between gap and tie.
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
def evaluate_all(
    pairs: Any, s: Any, tie: float, side: float, model: int, gradient: Any, weight: Any, cross: Any
) -> tuple[float, float, float, float, float, float]:
    """Do as `_evaluate` for all pairs, with one exponential per item instead of several per pair.

    With many pairs the exponentials take most of the time. Scores whose exponentials would overflow go to `_evaluate`.
    """
    left, right, n_left, n_right, n_ties = pairs
    n_pairs = len(left)
    largest = abs(side)
    for i in range(len(s)):
        largest = max(largest, abs(s[i]))
    if largest > _LARGEST_EXPONENT or abs(tie) > _LARGEST_EXPONENT:
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


# Newton systems.


@jit
def fill_hessian(
    pairs: Any, ends: Any, weight: Any, base: int, m: int, prior: float, fix_gauge: bool, table: Any
) -> None:
    """Write the information of the scores of one instance to the upper triangle of the first m² cells of `table`.

    Without a prior the information is singular: a common shift of the scores changes nothing. `fix_gauge` adds
    curvature along that direction, which changes no step of mean 0.
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
    if fix_gauge and prior == 0.0:
        table[: m * m] += (trace / m if trace > 0.0 else 1.0) / m


@jit
def _sparse_cholesky_solve(table: Any, m: int, columns: Any, base: int) -> None:
    """Solve the system of an m x m table (its upper triangle) for columns[:, base : base + m] in place, by Cholesky.

    `linear_systems.cholesky_solve` refuses singular tables; this one skips zeros and leaves items without information
    where they are.
    """
    for k in range(m):
        pivot = table[k * m + k]
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
def solve_small(pairs: Any, edges: Any, which: Any, weight: Any, prior: Any, columns: Any) -> None:
    """Solve the Newton system of each instance of `which` for its slots of the columns, in place."""
    starts, offsets = edges
    most = 0
    for k in range(len(which)):
        most = max(most, offsets[which[k] + 1] - offsets[which[k]])
    table = np.empty(most * most)
    for k in range(len(which)):
        n = which[k]
        base, m = offsets[n], offsets[n + 1] - offsets[n]
        fill_hessian(pairs, (starts[n], starts[n + 1]), weight, base, m, prior[n], True, table)
        _sparse_cholesky_solve(table, m, columns, base)


@jit
def newton_small(
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
    """Find the scores of each instance of `which` by Newton's method, each instance alone.

    Writes the objective, the norm of the gradient, the number of steps and whether they converged to the rows of `out`.
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
            if norm == 0.0 or (moved <= LAST_STEP and norm <= tol):
                converged = True
                break
            if steps == max_iter:
                break
            steps += 1
            if value < value_before - 1e-11 * abs(value_before):
                # The step overshot: go back half of it.
                for i in range(base, end):
                    step[0, i] *= 0.5
                    s[i] -= step[0, i]
                moved *= 0.5
                continue
            value_before = value
            step[0, base:end] = gradient[base:end]
            fill_hessian(pairs, ends, weight, base, m, prior[n], True, table)
            _sparse_cholesky_solve(table, m, step, base)
            moved = 0.0
            for i in range(base, end):
                moved = max(moved, abs(step[0, i]))
            if moved > LONGEST_STEP:
                for i in range(base, end):
                    step[0, i] *= LONGEST_STEP / moved
                moved = LONGEST_STEP
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
def _add_products(pairs: Any, ends: Any, weight: Any, base: int, x: Any, out: Any) -> None:
    """Add to `out` the product of `x` with the symmetric table of the weights of one instance's pairs.

    Pairs of one left item lie together. Their sum stays in a register: to add to memory for each is four times slower.
    """
    left, right = pairs[0], pairs[1]
    p = ends[0]
    while p < ends[1]:
        first = left[p]
        i, total = first - base, 0.0
        while p < ends[1] and left[p] == first:
            j = right[p] - base
            total += weight[p] * x[j]
            out[j] += weight[p] * x[i]
            p += 1
        out[i] += total


@jit
def conjugate_gradient_solve(
    pairs: Any, ends: Any, weight: Any, base: int, m: int, prior: float, rhs: Any, x: Any, rtol: float, max_iter: int
) -> bool:
    """Solve the Newton system of one instance by conjugate gradients from 0; return whether they converged.

    The diagonal is the preconditioner. Without a prior the right-hand side must sum to 0, and so does the solution.
    """
    diagonal = np.full(m, prior)
    _add_products(pairs, ends, weight, base, np.full(m, 1.0), diagonal)
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
        image[:] = 0.0
        _add_products(pairs, ends, weight, base, direction, image)
        curvature = 0.0
        for i in range(m):
            image[i] = diagonal[i] * direction[i] - image[i]
            curvature += direction[i] * image[i]
        if curvature <= 0.0:
            break
        length = rho / curvature
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
def signed_sums(pairs: Any, values: Any, n: int) -> Any:
    """Return for every slot the sum of the values of its pairs, + where it is on the left and - on the right."""
    left, right = pairs[0], pairs[1]
    out = np.zeros(n)
    p = 0
    while p < len(values):
        i, total = left[p], 0.0
        while p < len(values) and left[p] == i:
            total += values[p]
            out[right[p]] -= values[p]
            p += 1
        out[i] += total
    return out


@jit
def gradient_steps(
    pairs: Any, edges: Any, prior: Any, rate: Any, scale: Any, steps: int, s: Any, weight: Any, out: Any
) -> None:
    """Take `steps` gradient steps from `s` in every instance; write the objective and the gradient's norm to `out`."""
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
    """Add the gradient of every row (scores, then tie, then side) and its information to the line of its cluster."""
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
    """Write the gradient of every list's log-likelihood, at weight 1, and its information to the line of the list."""
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

    Matrices go to places[k] : places[k + 1], vectors to the slots of the instance. Lists of weight 0 or of one item
    count nothing.
    """
    starts, offsets = edges
    list_starts, list_weight = list_edges
    list_offsets = lists[2]
    weight, gradient = np.empty(len(pairs[0])), np.zeros(len(s))
    for k in range(len(which)):
        n = which[k]
        base, m, g = offsets[n], offsets[n + 1] - offsets[n], list_starts[n + 1] - list_starts[n]
        gradients, each = np.zeros((g, m + 2)), np.zeros((g, m))
        ends = (list_starts[n], list_starts[n + 1])
        _list_gradients(lists, ends, base, m, s, (0, 0.0, 0.0), binary, False, gradients, each)
        cell = places[k]
        for row in range(ends[0], ends[1]):
            w = list_weight[row] if list_offsets[row + 1] - list_offsets[row] > 1 else 0.0
            counts[k] += w
            if w == 0.0:
                continue
            x, h = gradients[row - ends[0]], each[row - ends[0]]
            for i in range(m):
                information[base + i] += w * h[i]
                squares[base + i] += w * h[i] * h[i]
                for j in range(m):
                    meat[cell + i * m + j] += w * x[i] * x[j]
        span = (starts[n], starts[n + 1])
        _evaluate(pairs, span, s, 0.0, 0.0, 0, gradient, weight, weight)
        fill_hessian(pairs, span, weight, base, m, prior[n], False, hessian[cell : cell + m * m])
        for i in range(m):
            for j in range(i):
                hessian[cell + i * m + j] = hessian[cell + j * m + i]


def pair_columns(pairs: Pairs) -> tuple[Any, ...]:
    """Return the columns of pairs that the compiled loops take: left, right, and the counts of the three outcomes."""
    return read_only(*pairs[:5])


def split_by_size(pairs: Pairs) -> tuple[Ints, list[int]]:
    """Return the small and the large instances, without those that have no outcomes."""
    sizes = np.diff(pairs.offsets)
    busy = np.diff(pairs.starts) > 0
    return np.flatnonzero(busy & (sizes <= _SMALL)), np.flatnonzero(busy & (sizes > _SMALL)).tolist()


def tie_of_equal_items(ties: float, decided: float, model: int) -> float:
    """Return the maximum-likelihood tie parameter of equal items with so many ties and decided outcomes."""
    if model == DAVIDSON:
        return float(np.clip(np.log(2.0 * ties / decided), -TIE_BOUND, TIE_BOUND)) if decided else TIE_BOUND
    return float(min(np.log1p(2.0 * ties / decided), TIE_BOUND)) if decided else TIE_BOUND


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
    """Return the gradient of every cluster's log-likelihood along the scores and those `learned`, and its information.

    The information of a cluster about an item is the diagonal of its −Hessian.

    `rows` are the columns of comparisons, of which those from ends[0] to ends[1] belong to the instance; `slots` is
    where its slots begin and end; `cluster` holds the number of the cluster of each row of the instance.
    """
    base, m = slots[0], slots[1] - slots[0]
    out, information = np.zeros((n_clusters, m + 2)), np.zeros((n_clusters, m))
    every = np.empty(ends[1], dtype=np.int32)
    every[ends[0] :] = cluster
    _row_gradients(read_only(*rows), every, ends, base, m, score, tuple(shared[:3]), out, information)
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
    """Return the gradient of every list's log-likelihood, at weight 1, and its information.

    `lists` are values, slots and offsets as in `count_list_pairs`; lists ends[0] to ends[1] belong to the instance.
    """
    base, m = slots[0], slots[1] - slots[0]
    out, information = np.zeros((ends[1] - ends[0], m + 2)), np.zeros((ends[1] - ends[0], m))
    _list_gradients(read_only(*lists), ends, base, m, score, tuple(shared[:3]), binary, ties, out, information)
    return out[:, np.concatenate([np.arange(m), m + learned])], information


class ListClusters(NamedTuple):
    """Instances of equal size, stacked: −Hessian of the objective, and sums over their lists as clusters.

    The fields are those of `inference.uncertainty.Clusters`.
    """

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
    """Return the −Hessian and the sums over lists as clusters of every small instance, for the likelihood without ties.

    One compiled loop does all instances: with many small ones, calls from Python would take most of the time.
    """
    small, _ = split_by_size(pairs)
    sizes = np.diff(pairs.offsets)[small]
    places = np.zeros(len(small) + 1, dtype=np.int64)
    np.cumsum(sizes * sizes, out=places[1:])
    hessian, meat, counts = np.zeros(int(places[-1])), np.zeros(int(places[-1])), np.zeros(len(small))
    information, squares = np.zeros(len(score)), np.zeros(len(score))
    if not len(small):
        return []
    edges, list_edges = read_only(pairs.starts, pairs.offsets), read_only(list_starts, list_weight)
    sums = counts, hessian, meat, information, squares
    _list_clusters(
        pair_columns(pairs), edges, read_only(*lists), list_edges, small, score, prior, binary, places, *sums
    )
    out = []
    for m in np.unique(sizes).tolist():
        own = np.flatnonzero(sizes == m)
        cells = places[own][:, None] + np.arange(m * m)
        slots = pairs.offsets[small[own]][:, None] + np.arange(m)
        h, spread = (table[cells].reshape(-1, m, m) for table in (hessian, meat))
        out.append(ListClusters(small[own], h, spread, information[slots], squares[slots], counts[own]))
    return out
