"""Partial pooling of Bradley-Terry scores over categories: a shared strength plus deviations with a learned variance.

The score of item i in category c is s_ic = s_i + u_ic, s_i normal with the prior of the model and u_ic normal with
variance τ². Given τ, scores, strengths and the parameters that categories share are the posterior mode, found by
Newton's method; the system is an arrow, whose blocks are the categories. τ is integrated out: its posterior density is
the Laplace approximation of the marginal likelihood times a weak prior, evaluated at a few points around its mode. So
intervals include the uncertainty of τ, and do not collapse if its likeliest value is 0.

If votes name experts, the votes of one expert are correlated, which makes categories look more different than they are.
So for τ each vote of a category counts 1/k, k the design effect of the category. Covariances are sandwich estimates
clustered by expert, over all categories together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.aggregators._bradley_terry_fit import _bounded_step, _joint_likelihood, _newton
from concordant.aggregators._pairwise_outcomes import ComparisonOutcomes
from concordant.arrays import Floats, Ints, read_only
from concordant.inference.uncertainty import Clusters, ModeratedMeat, moderated_meat
from concordant.kernels.bradley_terry import fill_hessian, pair_columns
from concordant.kernels.linear_systems import add_outer_products, inverse_and_log_determinant

if TYPE_CHECKING:
    from concordant.kernels.bradley_terry import Shared
    from concordant.kernels.bradley_terry_votes import VoteRows
    from concordant.kernels.pair_counts import Pairs

__all__ = ["Component", "PartialPooling", "PooledScores", "Posterior", "log_posterior_of_spread", "pool"]

# The prior of τ is half-normal with this standard deviation: deviations of several log odds are not expected.
_PRIOR_SPREAD = 1.0
# The range of τ that is searched. Below it categories are the same, for any number of votes.
_LEAST_SPREAD, _MOST_SPREAD = 1e-4, 20.0
# Nodes of the integral over log τ: their distance in posterior standard deviations, its upper limit, and the drop of
# the log density at which they end.
_NODE_STEP, _LONGEST_NODE_STEP, _NODE_DROP = 0.8, 0.6, 6.0
# Steps of parabolic interpolation to find the mode of log τ.
_MODE_STEPS = 4
# Nodes with less weight than this are left out of the covariance.
_LEAST_WEIGHT = 0.01
# If the posterior standard deviation of log τ is below this, the sandwich is computed at the best node only.
_NARROW = 0.15
# Up to this many scores the normal components of the posterior are kept, unless it is narrow.
_MOST_KEPT = 1500
# Design effects of categories stay within these bounds.
_DESIGN_EFFECTS = 0.25, 1e6
# Rows of expert gradients that are made dense at a time.
_CHUNK = 2000


class Posterior(NamedTuple):
    """Scores, strengths and shared parameters given τ: the posterior mode with its curvature.

    Attributes
    ----------
    spread : float
        τ.
    score : float64[C, m]
        Scores by category.
    strength : float64[m]
        s_i, shared by the categories.
    shared : Shared
        The shared parameters.
    log_density : float
        The Laplace approximation of log p(votes | τ), up to a constant.
    converged : bool
        Whether Newton's method converged.
    """

    spread: float
    score: Floats
    strength: Floats
    shared: Shared
    log_density: float
    converged: bool


class Component(NamedTuple):
    """A component of the posterior of the scores, a mixture of normal distributions: the posterior given one node of τ.

    Attributes
    ----------
    weight : float
        Its posterior probability.
    shift : float64[C m]
        Its mean minus that of the mixture.
    covariance : float64[C m, C m]
        Its covariance.
    """

    weight: float
    shift: Floats
    covariance: Floats


class PooledScores(NamedTuple):
    """The scores of all categories with τ integrated out.

    Attributes
    ----------
    score : float64[C, m]
        Posterior means; those of a category have mean 0.
    covariance : float64[C m, C m] or None
        Their covariance, over all categories.
    components : tuple of Component
        The components of the posterior; empty if a single normal distribution with `covariance` represents it.
    freedom : float64[C, m]
        Degrees of freedom of the variances, infinite without experts.
    spread : float64[K]
        The nodes of τ, increasing.
    weight : float64[K]
        Their posterior probabilities.
    design_effect : float64[C]
        The factor by which the correlation of votes within experts increases the variance of a category's deviations.
    converged : bool
        Whether all fits converged.
    """

    score: Floats
    covariance: Floats | None
    components: tuple[Component, ...]
    freedom: Floats
    spread: Floats
    weight: Floats
    design_effect: Floats
    converged: bool


class PartialPooling:
    """The pooled model of given votes. Instances are the categories, all with the same items in the same order.

    `weight` holds a factor for the votes of each category.
    """

    def __init__(
        self,
        statistics: Pairs | VoteRows,
        prior: float,
        shared: Shared,
        learned: Ints,
        weight: Floats,
        *,
        tol: float = 1e-9,
        max_iter: int = 100,
    ) -> None:
        self.n_categories = len(statistics.offsets) - 1
        self.n_items = int(statistics.offsets[1])
        self.prior = prior
        self.learned = learned
        self.how = tol, max_iter
        votes = _scale_votes(statistics, weight)
        self.likelihood = _joint_likelihood(votes, np.zeros(self.n_categories), shared, learned)
        self.pairs = self.likelihood.pairs
        each = np.bincount(self.pairs.left, self.pairs.outcomes, self.pairs.n_slots)
        each += np.bincount(self.pairs.right, self.pairs.outcomes, self.pairs.n_slots)
        self._scale = max(float(each.max(initial=0.0)), 1.0)
        size = self.n_categories * self.n_items
        self._start = np.concatenate([np.zeros(size + self.n_items), self.likelihood.start])

    # A point x holds the scores by category, then strengths, then the learned shared parameters.

    def _split(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        size = self.n_categories * self.n_items
        return (
            x[:size].reshape(self.n_categories, self.n_items),
            x[size : size + self.n_items],
            x[size + self.n_items :],
        )

    def _evaluate(self, x: Floats, spread: float) -> tuple[float, Floats]:
        """Return the log posterior density given τ at a point, up to a constant, and its gradient."""
        score, strength, shared_values = self._split(x)
        value = self.likelihood.evaluate(np.ascontiguousarray(score.ravel()), shared_values)
        precision = spread**-2
        deviation = score - strength
        value -= 0.5 * precision * float((deviation**2).sum()) + 0.5 * self.prior * float(strength @ strength)
        of_score = self.likelihood.gradient.reshape(score.shape) - precision * deviation
        of_strength = precision * deviation.sum(axis=0) - self.prior * strength
        return value, np.concatenate([of_score.ravel(), of_strength, self.likelihood.shared_gradient])

    def information(self) -> Floats:
        """Return the information matrix of the scores of each category, at the last evaluated point."""
        m = self.n_items
        out = np.empty((self.n_categories, m, m))
        table, columns, starts = np.empty(m * m), pair_columns(self.pairs), self.pairs.starts
        for c in range(self.n_categories):
            ends = int(starts[c]), int(starts[c + 1])
            fill_hessian(columns, ends, self.likelihood.weight, c * m, m, 0.0, False, table)
            upper = table.reshape(m, m)
            out[c] = upper + np.triu(upper, 1).T
        return out

    def arrow(self, spread: float) -> Arrow:
        """Return the negative Hessian at the last evaluated point."""
        m, n_shared = self.n_items, len(self.learned)
        precision = spread**-2
        blocks = self.information()
        # Without a prior a common shift of all scores changes nothing. Curvature in that direction makes the system
        # solvable, and changes no step with mean 0.
        shift = max(float(np.trace(blocks.sum(axis=0))) / m, 1.0) / m if self.prior == 0.0 else 0.0
        blocks[:, np.arange(m), np.arange(m)] += precision
        border = self.likelihood.cross_information().reshape(n_shared, self.n_categories, m).transpose(1, 2, 0)
        corner = np.zeros((m + n_shared, m + n_shared))
        corner[:m, :m] = np.eye(m) * (self.prior + self.n_categories * precision) + shift
        corner[m:, m:] = self.likelihood.information
        return Arrow(blocks, precision, border, corner)

    def fit(self, spread: float, start: Posterior | None = None) -> Posterior:
        """Return the posterior mode given τ."""
        x = self._start
        if start is not None:
            common = start.shared.values[self.learned]
            x = np.concatenate([start.score.ravel(), start.strength, common])
        gradient = np.empty(len(x))
        n_shared = len(self.learned)

        def objective(x: Floats) -> tuple[float, float]:
            nonlocal gradient
            value, gradient = self._evaluate(x, spread)
            norm = np.abs(gradient[: len(x) - n_shared]).max(initial=0.0) / max(self._scale, spread**-2)
            return value, max(float(norm), self.likelihood.shared_norm)

        log_determinant: float | None = None

        def newton_step(x: Floats, _norm: float) -> tuple[Floats, float]:
            nonlocal log_determinant
            arrow = self.arrow(spread)
            log_determinant = arrow.log_determinant
            step = arrow.solve(gradient)
            common = x[len(x) - n_shared :]
            return _bounded_step(step, float(np.abs(step).max()), common, self.likelihood.shared.model, self.learned)

        tol, max_iter = self.how
        end = _newton(x, objective, newton_step, tol, max_iter, None)
        cells = self.n_categories * self.n_items
        # The determinant is that before the last step, which was tiny; without any step it is computed here.
        if log_determinant is None:
            log_determinant = self.arrow(spread).log_determinant
        density = end.value - cells * float(np.log(spread)) - 0.5 * log_determinant
        score, strength, common = self._split(end.x)
        shared = self.likelihood.shared.updated(self.learned, common)
        return Posterior(spread, score, strength, shared, density, end.converged)

    def at(self, point: Posterior) -> Arrow:
        """Return the negative Hessian at the posterior mode given τ, and evaluate the model there."""
        self._evaluate(
            np.concatenate([point.score.ravel(), point.strength, point.shared.values[self.learned]]), point.spread
        )
        return self.arrow(point.spread)


class Arrow:
    """A positive definite arrow matrix: diagonal blocks A_c, a border K_c = [−p I, B_c] for each, and a corner block.

    Parameters
    ----------
    blocks : float64[C, m, m]
        A_c.
    precision : float
        p, the precision of deviations.
    border : float64[C, m, L]
        B_c.
    corner : float64[m + L, m + L]
        The last block: strengths, then shared parameters.
    """

    def __init__(self, blocks: Floats, precision: float, border: Floats, corner: Floats) -> None:
        found = [inverse_and_log_determinant(block) for block in blocks]
        self._inverse = np.stack([inverse for inverse, _ in found])
        # A_c⁻¹ K_c, and the Schur complement of the corner.
        self._response = np.concatenate([-precision * self._inverse, self._inverse @ border], axis=2)
        below = np.concatenate([-precision * self._response, border.transpose(0, 2, 1) @ self._response], axis=1)
        schur = corner - below.sum(axis=0)
        self._schur_inverse, last = inverse_and_log_determinant((schur + schur.T) / 2)
        self.log_determinant = sum(value for _, value in found) + last

    def solve(self, rhs: Floats) -> Floats:
        """Return the solution of the system."""
        c, m, _ = self._inverse.shape
        top, bottom = rhs[: c * m].reshape(c, m), rhs[c * m :].copy()
        bottom -= np.einsum("cip,ci->p", self._response, top)
        low = self._schur_inverse @ bottom
        first = np.einsum("cij,cj->ci", self._inverse, top) - self._response @ low
        return np.concatenate([first.ravel(), low])

    def inverse_rows(self) -> Floats:
        """Return the rows of the inverse that belong to the scores, without the columns of the strengths."""
        c, m, p = self._response.shape
        response = self._response.reshape(c * m, p)
        below = -response @ self._schur_inverse
        out = np.empty((c * m, c * m + p - m))
        out[:, : c * m] = -below @ response.T
        for k in range(c):
            own = slice(k * m, (k + 1) * m)
            out[own, own] += self._inverse[k]
        out[:, c * m :] = below[:, m:]
        return out


def _scale_votes(statistics: Pairs | VoteRows, weight: Floats) -> Any:
    """Return votes with the counts of each instance multiplied."""
    if (weight == 1.0).all():
        return statistics

    def scaled(part: Any) -> Any:
        factor = np.repeat(weight, np.diff(part.starts))
        return part._replace(**{name: getattr(part, name) * factor for name in ("n_left", "n_right", "n_ties")})

    pairs = getattr(statistics, "pairs", None)
    return scaled(statistics) if pairs is None else scaled(statistics)._replace(pairs=scaled(pairs))


# The integral over τ.


def log_posterior_of_spread(point: Posterior) -> float:
    """Return the log posterior density of log τ, up to a constant."""
    return point.log_density - 0.5 * (point.spread / _PRIOR_SPREAD) ** 2 + float(np.log(point.spread))


class _SpreadSearch:
    """The posterior of log τ, from fits of the model; each fit starts at the nearest earlier one."""

    def __init__(self, model: PartialPooling, start: float) -> None:
        self.model = model
        self.known: dict[float, Posterior] = {}
        self.low, self.high = float(np.log(_LEAST_SPREAD)), float(np.log(_MOST_SPREAD))
        self.mode = self._find_mode(float(np.clip(np.log(start), self.low + 1.0, self.high - 1.0)))

    def fit(self, position: float) -> Posterior:
        """Return the fit at log τ."""
        if position not in self.known:
            near = min(self.known, key=lambda k: abs(k - position), default=None)
            start = None if near is None else self.known[near]
            self.known[position] = self.model.fit(float(np.exp(position)), start)
        return self.known[position]

    def density(self, position: float) -> float:
        """Return the logarithm of the density, up to a constant."""
        return log_posterior_of_spread(self.fit(position))

    def _find_mode(self, middle: float) -> float:
        """Return the approximate mode, by a coarse search and then parabolic interpolation."""
        step = 0.7
        for sign in (-1.0, 1.0):
            while self.low < middle + sign * step < self.high:
                if self.density(middle + sign * step) <= self.density(middle):
                    break
                middle += sign * step
        for _ in range(_MODE_STEPS):
            if not self.low < middle - step < middle + step < self.high:
                break
            before, here, after = (self.density(middle + k * step) for k in (-1.0, 0.0, 1.0))
            curvature = before + after - 2.0 * here
            top = (
                middle + step * float(np.clip(0.5 * (before - after) / curvature, -0.9, 0.9))
                if curvature < 0
                else middle
            )
            if self.density(top) > self.density(middle):
                middle = top
            # A step of about one posterior standard deviation measures the curvature well.
            step = float(np.clip(step / np.sqrt(-curvature), 0.2 * step, 0.7 * step)) if curvature < 0 else 0.7 * step
        self._step = step
        return middle

    def nodes(self) -> tuple[list[Posterior], Floats]:
        """Return the fits at the nodes of the integral over log τ, and their weights.

        The nodes are equidistant around the mode: for such densities the trapezoidal rule is very accurate.
        """
        mode, top, step = self.mode, self.density(self.mode), self._step
        curvature = 2 * top - self.density(mode - step) - self.density(mode + step)
        step = _NODE_STEP * step / float(np.sqrt(curvature)) if curvature > 0 else _LONGEST_NODE_STEP
        step = min(step, _LONGEST_NODE_STEP)
        positions = [mode]
        for sign in (-1.0, 1.0):
            position = mode + sign * step
            while self.low < position < self.high and self.density(position) > top - _NODE_DROP:
                positions.append(position)
                position += sign * step
        fits = [self.fit(position) for position in sorted(positions)]
        log_weight = np.array([log_posterior_of_spread(point) for point in fits])
        weight = np.exp(log_weight - log_weight.max())
        return fits, weight / weight.sum()


def pool(
    outcomes: ComparisonOutcomes,
    prior: float,
    shared: Shared,
    learned: Ints,
    *,
    covariance: bool,
    clustered: bool,
    tol: float,
    max_iter: int,
) -> PooledScores:
    """Return the partially pooled scores of the instances of `outcomes`, the categories, with τ integrated out.

    Parameters
    ----------
    outcomes : ComparisonOutcomes
        The votes; all instances have the same items.
    prior : float
        Precision of the normal prior of the strengths.
    shared : Shared
        Initial values of the shared parameters.
    learned : int64[L]
        Which of them are estimated.
    covariance : bool
        Whether the covariance is computed.
    clustered : bool
        Whether the votes of an expert are one cluster.
    """
    options: dict[str, Any] = {"tol": tol, "max_iter": max_iter}
    n = len(outcomes.slots)
    design_effects = np.ones(n)
    start = 0.2
    if clustered:
        model = PartialPooling(outcomes.counted, prior, shared, learned, design_effects, **options)
        search = _SpreadSearch(model, start)
        pilot = search.fit(search.mode)
        design_effects = _design_effects(model, pilot, _ExpertClusters.of(outcomes, pilot, model))
        start = pilot.spread
    model = PartialPooling(outcomes.counted, prior, shared, learned, 1.0 / design_effects, **options)
    fits, weight = _SpreadSearch(model, start).nodes()
    score = sum(w * _centred(point.score) for w, point in zip(weight.tolist(), fits, strict=True))
    spread = np.array([point.spread for point in fits])
    converged = all(point.converged for point in fits)
    freedom = np.full((n, model.n_items), np.inf)
    if not covariance:
        return PooledScores(np.asarray(score), None, (), freedom, spread, weight, design_effects, converged)
    best = int(weight.argmax())
    clusters = _ExpertClusters.of(outcomes, fits[best], model) if clustered else None
    kept = np.flatnonzero(weight >= _LEAST_WEIGHT)
    share = weight[kept] / weight[kept].sum()
    position = np.log(spread[kept])
    # The sandwich hardly changes between nodes that are close.
    narrow = float(np.sqrt(share @ (position - share @ position) ** 2)) < _NARROW
    total = np.zeros((n * model.n_items, n * model.n_items))
    response = np.zeros(len(total))
    components: list[Component] = []
    for w, at in zip(share.tolist(), kept.tolist(), strict=True):
        table = model.at(fits[at]).inverse_rows()
        own = _centred_blocks(table[:, : len(total)], n)
        shift = (_centred(fits[at].score) - score).ravel()
        total += w * (own + np.outer(shift, shift))
        if clusters is not None and (at == best or not narrow):
            v = 1.0 if narrow else w
            response += v * np.diagonal(own) ** 2
            meat = clusters.meat(design_effects) - _likelihood_information(model)
            excess = _centred_blocks(table @ meat @ table.T, n)
            total += v * excess
            own += excess
        if not narrow and len(total) <= _MOST_KEPT:
            components.append(Component(w, shift, (own + own.T) / 2))
    total = (total + total.T) / 2
    if clusters is not None:
        freedom = clusters.freedom(np.diagonal(total), response, design_effects).reshape(n, -1)
    return PooledScores(np.asarray(score), total, tuple(components), freedom, spread, weight, design_effects, converged)


def _centred(score: Floats) -> Floats:
    out: Floats = score - score.mean(axis=1, keepdims=True)
    return out


def _centred_blocks(table: Floats, n: int) -> Floats:
    """Return the covariance of the scores relative to the mean of their category."""
    m = len(table) // n
    each = table.reshape(n, m, n, m)
    each = each - each.mean(axis=1, keepdims=True)
    out: Floats = (each - each.mean(axis=3, keepdims=True)).reshape(n * m, n * m)
    return out


def _likelihood_information(model: PartialPooling) -> Floats:
    """Return the information of the votes on scores and shared parameters, at the last evaluated point."""
    n, m, n_shared = model.n_categories, model.n_items, len(model.learned)
    out = np.zeros((n * m + n_shared, n * m + n_shared))
    for c, block in enumerate(model.information()):
        own = slice(c * m, (c + 1) * m)
        out[own, own] = block
    out[n * m :, : n * m] = model.likelihood.cross_information()
    out[: n * m, n * m :] = out[n * m :, : n * m].T
    out[n * m :, n * m :] = model.likelihood.information
    return out


# Experts as clusters.


class _ExpertClusters(NamedTuple):
    """The experts of all categories together as clusters.

    The gradients of the shared parameters follow those of the scores, one block for each category, because categories
    are weighted separately.
    """

    gradient: ModeratedMeat
    n_shared: int

    @classmethod
    def of(cls, outcomes: ComparisonOutcomes, point: Posterior, model: PartialPooling) -> _ExpertClusters:
        """Return the experts at a point."""
        n, m = model.n_categories, model.n_items
        score = np.ascontiguousarray(point.score.ravel())
        clusters = _clusters_of(outcomes, score, point.shared, model.learned)
        unweighted = PartialPooling(outcomes.counted, model.prior, point.shared, model.learned, np.ones(n))
        unweighted.at(point)
        return cls(moderated_meat(_likelihood_information(unweighted)[: n * m, : n * m], clusters), len(model.learned))

    def meat(self, k: Floats) -> Floats:
        """Return the meat of the sandwich: the covariance of the gradient, with categories weighted by 1/k."""
        table, n_shared = self.gradient.table, self.n_shared
        size = len(self.gradient.effective)
        scale = np.repeat(1.0 / k, size // len(k))
        out = np.empty((size + n_shared, size + n_shared))
        out[:size, :size] = table[:size, :size] * scale[:, None] * scale[None, :]
        if n_shared:
            cells = np.repeat(1.0 / k, n_shared)
            below = (table[size:] * cells[:, None]).reshape(len(k), n_shared, -1).sum(axis=0)
            out[size:, :size] = below[:, :size] * scale
            out[:size, size:] = out[size:, :size].T
            out[size:, size:] = (below[:, size:] * cells).reshape(n_shared, len(k), n_shared).sum(axis=1)
        return out

    def freedom(self, variance: Floats, response: Floats, k: Floats) -> Floats:
        """Return the degrees of freedom of variances, by Satterthwaite's formula.

        Only the experts of a score itself count; the contributions of other scores are taken as known. `response` is
        the squared response of each score to its own gradient.
        """
        found = self.gradient
        response = response / np.repeat(k, len(variance) // len(k)) ** 2
        inverse_freedom = (response * found.own) ** 2 / np.maximum(found.effective - 1.0, 1.0)
        inverse_freedom += (response * found.pooled) ** 2 / max(2.0 * (float(found.clusters.count) - 1.0), 1.0)
        out = np.full(len(variance), np.inf)
        np.divide(variance**2, inverse_freedom, out=out, where=inverse_freedom > 0)
        limited: Floats = np.maximum(out, 1.0)
        return limited


def _clusters_of(outcomes: ComparisonOutcomes, score: Floats, shared: Shared, learned: Ints) -> Clusters:
    """Return the clusters over all categories; the shared parameters of each category follow all scores."""
    from scipy import sparse

    n, m, n_experts = len(outcomes.slots), int(outcomes.slots.offsets[1]), outcomes.votes.n_experts
    parts, shares = [], []
    information, squares = np.zeros(n * m), np.zeros(n * m)
    for c in range(n):
        own = slice(c * m, (c + 1) * m)
        gradients, each, _ = outcomes.expert_gradients(c, score, shared, learned)
        information[own], squares[own] = each.sum(axis=0), (each**2).sum(axis=0)
        found = sparse.coo_matrix(gradients)
        row = outcomes.clustered_experts(c)[found.row]
        whole = sparse.csr_matrix((found.data, (row, found.col)), shape=(n_experts, gradients.shape[1]))
        parts.append(whole[:, :m])
        shares.append(whole[:, m:])
    table = sparse.hstack(parts + shares, format="csr")
    table = table[np.diff(table.indptr) > 0]
    total = np.asarray(table.sum(axis=0)).ravel()[: n * m]
    return Clusters(_gram(table), information, squares, float(table.shape[0]), total)


def _gram(table: Any) -> Floats:
    """Return the sum of the outer products of the rows of a sparse table."""
    size = table.shape[1]
    out = np.zeros((size, size))
    lengths = np.diff(table.indptr).astype(np.float64)
    if float((lengths**2).sum()) < 0.1 * table.shape[0] * size**2:
        table.sort_indices()
        starts, columns, values = read_only(table.indptr, table.indices, table.data)
        add_outer_products(starts, columns, values, out)
        return out + np.triu(out, 1).T
    for first in range(0, table.shape[0], _CHUNK):
        part = table[first : first + _CHUNK].toarray()
        out += part.T @ part
    return out


def _design_effects(model: PartialPooling, point: Posterior, clusters: _ExpertClusters) -> Floats:
    """Return the design effect of each category.

    It is the variance of its difference from the others, over that for independent votes. Variances are summed over the
    items. Experts who vote in several categories shift them together, which cancels in the difference.
    """
    n, m = model.n_categories, model.n_items
    rows = model.at(point).inverse_rows()
    every = np.ones(n)
    effects = []
    for meat in (clusters.meat(every), _likelihood_information(model)):
        each = _centred_blocks(rows @ meat @ rows.T, n).reshape(n, m, n, m)
        effects.append(np.einsum("cidi->cd", each))
    contrast = np.eye(n) - (1.0 - np.eye(n)) / (n - 1)
    clustered, alone = (np.einsum("ac,cd,ad->a", contrast, table, contrast) for table in effects)
    with np.errstate(divide="ignore", invalid="ignore"):
        out: Floats = np.where(alone > 0, clustered / alone, 1.0)
    return np.clip(out, *_DESIGN_EFFECTS)
