"""Likelihood of the multinomial preference model with equal variances, from net counts alone.

Every preference of an instance is a draw from one distribution over all ordered pairs. With equal variances its
normaliser factorises, Z = Σ_{i≠j} exp(x_i − x_j) = A·B − M with A = Σ exp(x) and B = Σ exp(−x). So net counts are
sufficient, and an evaluation costs O(M) for each adherence α. Unequal variances need a table of all pairs
(`mpm_variance`).

Objectives are mean log-likelihoods per preference of the instance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.jit import jit
from concordant.kernels.linear_systems import solve_positive_definite

__all__ = [
    "SMALL_ITEMS",
    "Bools",
    "PackedCounts",
    "PairDistributions",
    "adherence_hessian",
    "informative",
    "joint_gradients",
    "net_scores",
    "pair_distributions",
    "solve_semidefinite",
    "solve_scores",
]

Bools = NDArray[np.bool_]

# Beyond this span of scores exp(-x) is computed directly: the reciprocal of exp(x) would overflow.
_SPAN = 300.0
# Where net counts equal all preferences to this precision, the data are separated and have no finite estimate.
_SEPARATED = 1e-12
# A full Newton step no longer than this (relative to the scores) is the last: convergence is quadratic.
_LAST_STEP = 1e-8
# Up to this many items compiled loops are faster than LAPACK.
SMALL_ITEMS = 256


class PackedCounts(NamedTuple):
    """Net counts in flat arrays, list by list, divided by the number of preferences of the instance.

    Attributes
    ----------
    offsets, list_starts : int64[N + 1]
        Where the items and the lists of an instance begin.
    list_offsets : int64[L + 1]
        Where the rows of a list begin.
    expert : int64[L]
        The expert of each list.
    share : float64[L]
        The share of each list in the preferences of its instance.
    slot : int32[R]
        The item of each row.
    net : float64[R]
        Preferences for the item minus those against it.
    weight : float64[N]
        The weight of each instance when the adherence is learned.
    """

    offsets: Ints
    list_starts: Ints
    list_offsets: Ints
    expert: Ints
    share: Floats
    slot: Codes
    net: Floats
    weight: Floats


@jit
def net_scores(net: Floats, total: Floats, offsets: Ints, score: Floats, root: Floats) -> None:
    """Write the maximum-likelihood scores of the base model, mean 0, into `score`.

    In the gauge A = B the scores are arsinh(c d_i / T), with c the positive root of A − M/A = 2c. `root` is c; 0 where
    there are no preferences, infinite where every item only wins or only loses. Then no finite scores are best, and the
    net counts, which have the same order, are written instead.

    Parameters
    ----------
    net : float64[S]
        Preferences for the item minus those against it.
    total : float64[N]
        The number of preferences of each instance.
    offsets : int64[N + 1]
        Where the items of each instance begin.
    score : float64[S]
        Out.
    root : float64[N]
        Out.
    """
    for n in range(len(total)):
        first, last = offsets[n], offsets[n + 1]
        size = float(last - first)
        mass = 0.0
        for i in range(first, last):
            mass += abs(net[i])
            score[i] = 0.0
        root[n] = 0.0
        if total[n] <= 0.0 or mass == 0.0:
            continue
        if mass >= 2.0 * total[n] * (1.0 - _SEPARATED):
            root[n] = np.inf
            for i in range(first, last):
                score[i] = net[i]
            continue
        low, high, c = 0.0, np.inf, 1.0
        for _ in range(300):
            a, derivative = 0.0, 0.0
            for i in range(first, last):
                x = c * (net[i] / total[n])
                h = np.sqrt(1.0 + x * x)
                a += h
                derivative += x * (net[i] / total[n]) / h
            value = a - size / a - 2.0 * c
            if value > 0.0:
                low = c
            else:
                high = c
            derivative = derivative * (1.0 + size / (a * a)) - 2.0
            step = c - value / derivative if derivative < 0.0 else np.inf
            if not low < step < high:
                step = 2.0 * c if high == np.inf else 0.5 * (low + high)
            moved = abs(step - c)
            c = step
            if moved <= 4e-16 * c:
                break
        mean = 0.0
        for i in range(first, last):
            score[i] = np.arcsinh(c * (net[i] / total[n]))
            mean += score[i]
        mean /= size
        for i in range(first, last):
            score[i] -= mean
        root[n] = c


@jit
def _pair_distribution(score: Floats, theta: float, up: Floats, down: Floats) -> tuple[float, float, float, float]:
    """Write exp(x − max) and exp(min − x), x = α s; return their sums, Z on that scale, and the true log Z."""
    m = len(score)
    high, low = theta * score[0], theta * score[0]
    for i in range(1, m):
        high = max(high, theta * score[i])
        low = min(low, theta * score[i])
    scale = np.exp(low - high)
    a, b = 0.0, 0.0
    for i in range(m):
        up[i] = np.exp(theta * score[i] - high)
        down[i] = scale / up[i] if high - low < _SPAN else np.exp(low - theta * score[i])
        a += up[i]
        b += down[i]
    z = a * b - m * scale
    return a, b, z, np.log(z) + (high - low)


@jit
def _score_derivatives(
    score: Floats,
    share: Floats,
    theta: Floats,
    net: Floats,
    ridge: float,
    up: Floats,
    down: Floats,
    sums: Floats,
    gradient: Floats,
    diagonal: Floats,
) -> float:
    """Write the distributions of the lists, the gradient and the diagonal of the curvature; return the objective.

    The sum over lists is compensated (Kahan): over thousands of lists its rounding error would exceed the gain of the
    last steps.
    """
    value, lost_bits = 0.0, 0.0
    for i in range(len(score)):
        gradient[i] = net[i] - ridge * score[i]
        diagonal[i] = ridge
        value += net[i] * score[i] - 0.5 * ridge * score[i] * score[i]
    for k in range(len(share)):
        t = theta[k]
        if share[k] <= 0.0 or t <= 0.0:
            continue
        e, f = up[k], down[k]
        a, b, z, log_z = _pair_distribution(score, t, e, f)
        sums[k, 0], sums[k, 1], sums[k, 2] = a, b, z
        term = -share[k] * log_z - lost_bits
        total = value + term
        lost_bits = (total - value) - term
        value = total
        w = share[k] * t
        for i in range(len(score)):
            won, lost = e[i] * b / z, f[i] * a / z
            gradient[i] -= w * (won - lost)
            diagonal[i] += w * t * (won + lost - 2.0 * e[i] * f[i] / z - (won - lost) ** 2)
    return value


@jit
def _curvature_product(
    v: Floats,
    share: Floats,
    theta: Floats,
    ridge: float,
    stiff: float,
    up: Floats,
    down: Floats,
    sums: Floats,
    out: Floats,
) -> None:
    """Write the curvature (−Hessian) times v, made regular along the constant vector, where it is singular."""
    mean = 0.0
    for i in range(len(v)):
        mean += v[i]
    mean *= stiff / len(v)
    for i in range(len(v)):
        out[i] = ridge * v[i] + mean
    for k in range(len(share)):
        if share[k] <= 0.0 or theta[k] <= 0.0:
            continue
        e, f = up[k], down[k]
        a, b, z = sums[k, 0], sums[k, 1], sums[k, 2]
        along_e, along_f = 0.0, 0.0
        for i in range(len(v)):
            along_e += e[i] * v[i]
            along_f += f[i] * v[i]
        along = (b * along_e - a * along_f) / z
        w = share[k] * theta[k] * theta[k] / z
        for i in range(len(v)):
            won, lost = e[i] * b, f[i] * a
            out[i] += w * ((won + lost) * v[i] - e[i] * along_f - f[i] * along_e - (won - lost) * along)


@jit
def _newton_step(
    gradient: Floats,
    diagonal: Floats,
    share: Floats,
    theta: Floats,
    ridge: float,
    up: Floats,
    down: Floats,
    sums: Floats,
    step: Floats,
) -> None:
    """Write the solution of curvature · step = gradient, by conjugate gradients preconditioned by the diagonal."""
    m = len(gradient)
    residual, search, image = np.empty(m), np.empty(m), np.empty(m)
    error, stiff = 0.0, 0.0
    for i in range(m):
        stiff += diagonal[i] / m
        diagonal[i] = max(diagonal[i], 1e-300)
        step[i] = 0.0
        residual[i] = gradient[i]
        search[i] = gradient[i] / diagonal[i]
        error += residual[i] * search[i]
    start = error
    for _ in range(min(m + 10, 300)):
        if error <= 1e-24 * start:
            break
        _curvature_product(search, share, theta, ridge, stiff, up, down, sums, image)
        curvature = 0.0
        for i in range(m):
            curvature += search[i] * image[i]
        if not curvature > 0.0:
            break
        step_size = error / curvature
        before, error = error, 0.0
        for i in range(m):
            step[i] += step_size * search[i]
            residual[i] -= step_size * image[i]
            error += residual[i] * residual[i] / diagonal[i]
        for i in range(m):
            search[i] = residual[i] / diagonal[i] + (error / before) * search[i]


@jit
def _newton(score: Floats, share: Floats, theta: Floats, net: Floats, ridge: float) -> tuple[int, float, float]:
    """Move the scores of one instance to the maximum by Newton steps; return their number, gradient norm and value."""
    m = len(score)
    up, down, sums = np.empty((len(share), m)), np.empty((len(share), m)), np.empty((len(share), 3))
    gradient, diagonal, step, trial = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    value = _score_derivatives(score, share, theta, net, ridge, up, down, sums, gradient, diagonal)
    n_iter = 0
    while n_iter < 100:
        largest, scale = 0.0, 0.0
        for i in range(m):
            largest = max(largest, abs(gradient[i]))
            scale = max(scale, abs(net[i]))
        if largest <= 4e-16 * scale:
            break
        _newton_step(gradient, diagonal, share, theta, ridge, up, down, sums, step)
        rise, reach, size, mean = 0.0, 0.0, 1.0, 0.0
        for i in range(m):
            mean += step[i] / m
        for i in range(m):
            # Without a ridge the mean of the scores is free; keep it at 0.
            step[i] -= mean if ridge == 0.0 else 0.0
            rise += gradient[i] * step[i]
            reach = max(reach, abs(step[i]))
            size = max(size, abs(score[i]))
        if not rise > 0.0:
            break
        n_iter += 1
        step_size, reached = 1.0, -np.inf
        while step_size > 1e-18:
            for i in range(m):
                trial[i] = score[i] + step_size * step[i]
            reached = _score_derivatives(trial, share, theta, net, ridge, up, down, sums, gradient, diagonal)
            if reached >= value + 1e-4 * step_size * rise - 1e-14 * abs(value):
                break
            step_size *= 0.5
        if step_size <= 1e-18:
            value = _score_derivatives(score, share, theta, net, ridge, up, down, sums, gradient, diagonal)
            break
        value = reached
        for i in range(m):
            score[i] = trial[i]
        if step_size == 1.0 and reach <= _LAST_STEP * size:
            break
    largest = 0.0
    for i in range(m):
        largest = max(largest, abs(gradient[i]))
    return n_iter, largest, value


@jit
def solve_scores(
    offsets: Ints,
    list_starts: Ints,
    share: Floats,
    theta: Floats,
    net: Floats,
    ridge: float,
    wanted: Bools,
    score: Floats,
    norm: Floats,
    values: Floats,
) -> int:
    """Write the optimal scores of every instance given the adherence of its lists; return the most steps taken.

    The objective of an instance, Σ_i D_i s_i − Σ_l share_l log Z(α_l s) − ½ ridge ‖s‖², is concave. Newton's
    method, its equations solved by conjugate gradients: O(L M) for each product with the curvature, which is diagonal
    plus low rank, so that few products are needed.

    Parameters
    ----------
    offsets, list_starts : int64[N + 1]
        Where the items and the lists of an instance begin.
    share, theta : float64[L]
        The share of each list in the preferences, and its adherence.
    net : float64[S]
        D_i = Σ_l α_l d_li, divided by the number of preferences of the instance.
    ridge : float
        The precision of a prior.
    wanted : bool[N]
        The instances to solve; others are left unchanged.
    score : float64[S]
        In: where to start. Out: the estimate.
    norm, values : float64[N]
        Out: the largest entry of the gradient, and the objective.
    """
    steps = 0
    for n in range(len(wanted)):
        if wanted[n]:
            items, lists = slice(offsets[n], offsets[n + 1]), slice(list_starts[n], list_starts[n + 1])
            n_iter, norm[n], values[n] = _newton(score[items], share[lists], theta[lists], net[items], ridge)
            steps = max(steps, n_iter)
    return steps


@jit
def joint_gradients(
    offsets: Ints,
    list_starts: Ints,
    list_offsets: Ints,
    expert: Ints,
    share: Floats,
    slot: Codes,
    net: Floats,
    weight: Floats,
    theta: Floats,
    score: Floats,
    ridge: float,
    by_score: Floats,
    by_theta: Floats,
    values: Floats,
) -> None:
    """Write the gradients of the joint objective in scores and adherence, and the objective of every instance.

    Σ_l [α_l d_l·s − share_l log Z(α_l s)] − ½ ridge ‖s‖²; ∂/∂s = α (d − share ρ(α s)) and ∂/∂α = s·(d − share ρ),
    summed over lists, with ρ = (exp(x) B − exp(−x) A) / Z. The gradient in α weighs the instances; the rest is that of
    each instance alone. O(L M) for each instance.

    Parameters
    ----------
    offsets, list_starts, list_offsets, expert, share, slot, net, weight
        As in `PackedCounts`.
    theta : float64[K]
        The adherence of the experts.
    score : float64[S]
        The scores.
    ridge : float
        The precision of a prior on the scores.
    by_score, by_theta, values : float64[S], float64[K], float64[N]
        Out.
    """
    items = 0
    for n in range(len(offsets) - 1):
        items = max(items, offsets[n + 1] - offsets[n])
    up, down = np.empty(items), np.empty(items)
    for k in range(len(by_theta)):
        by_theta[k] = 0.0
    for n in range(len(offsets) - 1):
        first, m = offsets[n], offsets[n + 1] - offsets[n]
        value = 0.0
        for i in range(first, first + m):
            value -= 0.5 * ridge * score[i] * score[i]
            by_score[i] = -ridge * score[i]
        for k in range(list_starts[n], list_starts[n + 1]):
            if share[k] <= 0.0 or m < 2:
                continue
            t = theta[expert[k]]
            a, b, z, log_z = _pair_distribution(score[first : first + m], t, up, down)
            value -= share[k] * log_z
            along = 0.0
            for i in range(m):
                rho = share[k] * (up[i] * b - down[i] * a) / z
                by_score[first + i] -= t * rho
                along -= score[first + i] * rho
            for r in range(list_offsets[k], list_offsets[k + 1]):
                by_score[slot[r]] += t * net[r]
                along += score[slot[r]] * net[r]
                value += t * net[r] * score[slot[r]]
            by_theta[expert[k]] += weight[n] * along
        values[n] = value


def solve_semidefinite(matrix: Floats, right: Floats) -> Floats:
    """Return matrix⁻¹ · right for a symmetric matrix that is positive definite up to rounding."""
    found = solve_positive_definite(matrix, right)
    # Singular to working precision: the least-squares solution does not move along the null space.
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0]) if found is None else found


class PairDistributions(NamedTuple):
    """The distributions over ordered pairs of every list of one instance, at given scores.

    Attributes
    ----------
    up, down : float64[L, M]
        exp(x) and exp(−x), each divided by √Z.
    rho : float64[L, M]
        The expected net counts of one preference.
    both : float64[L, M]
        (exp(x) B + exp(−x) A) / Z: expected wins plus losses, with pairs of an item and itself included.
    """

    up: Floats
    down: Floats
    rho: Floats
    both: Floats

    def curvature(self, weight: Floats) -> Floats:
        """Return Σ_l weight_l Cov_l, where Cov_l is the covariance of the net counts of one preference."""
        up, down, rho = (part * np.sqrt(weight)[:, None] for part in (self.up, self.down, self.rho))
        out: Floats = up.T @ down
        out += out.T.copy()
        out += rho.T @ rho
        np.negative(out, out=out)
        out[np.diag_indices(len(out))] += weight @ self.both
        return out

    def solve(self, weight: Floats, right: Floats) -> Floats:
        """Return curvature⁻¹ · right, with the curvature made regular along the constant vector, where it is singular.

        The curvature is diagonal plus rank 3 L: where that is small, the Woodbury identity saves work.
        """
        m, lists = right.shape[0], len(weight)
        diagonal = weight @ self.both
        stiff = float(diagonal.mean())
        if 3 * lists + 1 > m // 4:
            return solve_semidefinite(self.curvature(weight) + stiff / m, right)
        root = np.sqrt(weight)
        sides = np.concatenate([part * root[:, None] for part in (self.up, self.down, self.rho)] + [np.ones((1, m))]).T
        core = np.zeros((3 * lists + 1, 3 * lists + 1))
        pairs = np.arange(lists)
        core[pairs, lists + pairs] = core[lists + pairs, pairs] = core[2 * lists + pairs, 2 * lists + pairs] = -1.0
        core[-1, -1] = m / stiff
        scaled = sides / diagonal[:, None]
        out: Floats = right / diagonal[:, None]
        out -= scaled @ np.linalg.solve(core + sides.T @ scaled, sides.T @ out)
        return out

    def products(self, v: Floats) -> Floats:
        """Return Cov_l v for every list l."""
        along_up, along_down, along = self.up @ v, self.down @ v, self.rho @ v
        out: Floats = self.both * v
        out -= self.up * along_down[:, None] + self.down * along_up[:, None] + self.rho * along[:, None]
        return out


def pair_distributions(score: Floats, theta: Floats) -> PairDistributions:
    """Return the distributions over pairs at these scores, for lists of one instance with these adherences.

    >>> expected = pair_distributions(np.array([0.5, 0.0, -0.5]), np.array([1.0, 0.0]))
    >>> expected.rho.round(3).tolist()
    [[0.447, 0.0, -0.447], [0.0, 0.0, 0.0]]
    """
    x = theta[:, None] * score
    high, low = x.max(axis=1, keepdims=True), x.min(axis=1, keepdims=True)
    up, down = np.exp(x - high), np.exp(low - x)
    a, b = up.sum(axis=1, keepdims=True), down.sum(axis=1, keepdims=True)
    z = a * b - x.shape[1] * np.exp(low - high)
    won, lost = up * b / z, down * a / z
    root = np.sqrt(z)
    return PairDistributions(up / root, down / root, won - lost, won + lost)


@jit
def adherence_hessian(
    offsets: Ints,
    list_starts: Ints,
    list_offsets: Ints,
    expert: Ints,
    share: Floats,
    slot: Codes,
    net: Floats,
    weight: Floats,
    theta: Floats,
    score: Floats,
    ridge: float,
    wanted: Bools,
    out: Floats,
) -> None:
    """Add the Hessian of the profile likelihood of the wanted instances to `out`; see `BlockProfile.hessian`."""
    items, most = 0, 0
    for n in range(len(wanted)):
        if wanted[n]:
            items, most = max(items, offsets[n + 1] - offsets[n]), max(most, list_starts[n + 1] - list_starts[n])
    own, cross, who = np.empty((items, items)), np.empty((most, items)), np.empty(most, dtype=np.int64)
    e, f, rho, both = np.empty(items), np.empty(items), np.empty(items), np.empty(items)
    for n in range(len(wanted)):
        if not wanted[n]:
            continue
        first, m = offsets[n], offsets[n + 1] - offsets[n]
        for i in range(m):
            for j in range(i):
                own[i, j] = 0.0
            own[i, i] = ridge
        lists = 0
        for k in range(list_starts[n], list_starts[n + 1]):
            if share[k] <= 0.0:
                continue
            t = theta[expert[k]]
            a, b, z, _ = _pair_distribution(score[first : first + m], t, e, f)
            along_e, along_f, along = 0.0, 0.0, 0.0
            for i in range(m):
                s = score[first + i]
                rho[i] = (e[i] * b - f[i] * a) / z
                both[i] = (e[i] * b + f[i] * a) / z
                along_e += e[i] * s
                along_f += f[i] * s
                along += rho[i] * s
            w = share[k] * t * t
            moved = 0.0
            for i in range(m):
                s = score[first + i]
                change = share[k] * (both[i] * s - (e[i] * along_f + f[i] * along_e) / z - rho[i] * along)
                moved += change * s
                cross[lists, i] = -t * change - share[k] * rho[i]
                own[i, i] += w * both[i]
                for j in range(i + 1):
                    own[i, j] -= w * ((e[i] * f[j] + f[i] * e[j]) / z + rho[i] * rho[j])
            for r in range(list_offsets[k], list_offsets[k + 1]):
                cross[lists, slot[r] - first] += net[r]
            out[expert[k], expert[k]] -= weight[n] * moved
            who[lists] = expert[k]
            lists += 1
        # Cholesky factor of the score block, then L⁻¹ times the mixed derivatives.
        for i in range(m):
            for j in range(i + 1):
                left = own[i, j]
                for c in range(j):
                    left -= own[i, c] * own[j, c]
                own[i, j] = np.sqrt(max(left, 1e-300)) if i == j else left / own[j, j]
        for q in range(lists):
            for i in range(m):
                left = cross[q, i]
                for c in range(i):
                    left -= own[i, c] * cross[q, c]
                cross[q, i] = left / own[i, i]
            for r in range(q + 1):
                total = 0.0
                for i in range(m):
                    total += cross[q, i] * cross[r, i]
                out[who[q], who[r]] += weight[n] * total
                if r < q:
                    out[who[r], who[q]] += weight[n] * total


def informative(packed: PackedCounts) -> NDArray[np.bool_]:
    """Return which instances have a preference."""
    sizes, lists = np.diff(packed.offsets), np.diff(packed.list_starts)
    owner = np.repeat(np.arange(len(lists)), lists)
    has_preference = np.bincount(owner, weights=packed.share, minlength=len(lists)) > 0
    return has_preference & (sizes > 1)
