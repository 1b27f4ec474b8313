"""Fits the Plackett-Luce scores of one instance: penalised log-likelihood, Newton, MM and gradient ascent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats
from concordant.data.index import MOST_WITH_ALL_PAIRS
from concordant.errors import FormatError
from concordant.kernels import plackett_luce
from concordant.kernels.linear_systems import SMALL_SYSTEM, conjugate_gradients, solve_positive_definite
from concordant.kernels.plackett_luce import Rankings
from concordant.kernels.plackett_luce_lists import expanded
from concordant.learning.newton import NewtonState, NewtonStep, maximise
from concordant.learning.optimisers import max_norm
from concordant.learning.resumable import NO_CHECKPOINT, Checkpointer, State

__all__ = [
    "Optimum",
    "PenalisedLikelihood",
    "gradient_ascent",
    "minorise",
    "newton",
    "optima_state",
    "restored_optima",
]

# Where lists are longer than this, on average by rows, steps use conjugate gradients instead of a dense Hessian.
_LONG_LIST = 50
# Step size of the published gradient ascent, in items per choice.
_PAPER_STEP = 0.01
# No score moves further than this in one step.
_LONGEST_STEP = 4.0
# A gradient of this size, in choices per item, is rounding error.
_ROUNDING = 1e-14
# Where a list leaves less than this share of Σ φ to its rest, the rest is expanded item by item.
_LEAST_SHARE = 1e-5


class Optimum(NamedTuple):
    """The scores that an optimiser found, their objective, the gradient norm, and how it ended."""

    score: Floats
    value: float
    norm: float
    n_iter: int
    converged: bool


def optima_state(optima: Sequence[Optimum]) -> dict[str, Any]:
    """Return the optima of several instances as arrays for a checkpoint."""
    return {
        "score": np.concatenate([np.zeros(0), *(f.score for f in optima)]),
        "ends": np.array([f[1:] for f in optima], dtype=np.float64).reshape(-1, 4),
    }


def restored_optima(models: Sequence[PenalisedLikelihood], known: State) -> list[Optimum]:
    """Return the optima that a checkpoint holds; raise FormatError where it is of other votes."""
    if len(known["score"]) != sum(m.size for m in models) or len(known["ends"]) != len(models):
        raise FormatError("the checkpoint is not of these votes. Remove it to begin anew.")
    scores = np.split(known["score"], np.cumsum([m.size for m in models])[:-1])
    return [
        Optimum(score, value, norm, int(n_iter), bool(converged))
        for score, (value, norm, n_iter, converged) in zip(scores, known["ends"].tolist(), strict=True)
    ]


class ScorePoint(NamedTuple):
    """Scores, the objective there, its gradient gain − loss with its norm in choices, and the diagonal of −Hessian."""

    score: Floats
    value: float
    norm: float
    gradient: Floats
    diagonal: Floats
    gain: Floats
    loss: Floats


class SandwichParts(NamedTuple):
    """−Hessian of the objective and, over lists, Σ w g gᵀ of their gradients and Σ w h² of their information."""

    hessian: Floats
    gradients: Floats
    squares: Floats


class PenalisedLikelihood:
    """The penalised Plackett-Luce log-likelihood of one instance.

    Parameters
    ----------
    rankings : Rankings
        Its lists.
    size : int
        The number of items they compare.
    precision : float
        λ of the normal prior; 0 for none.
    gamma : (float, float), optional
        a − 1 and b of the Gamma prior.
    scale : float
        The unit of gradient norms: choices per item.
    """

    def __init__(
        self, rankings: Rankings, size: int, precision: float, gamma: tuple[float, float] | None, scale: float
    ) -> None:
        self.rankings = rankings
        self.size = size
        self.precision = precision
        self.gamma = gamma
        self.scale = scale if scale > 0 else 1.0
        self.shift_free = precision == 0 and gamma is None
        lengths = np.diff(rankings.offsets).astype(np.float64)
        # A dense Hessian costs the square of the length of a list; a product with a vector, taken a few times, only its
        # length.
        pairs = float((lengths * lengths).sum())
        self.dense = size <= SMALL_SYSTEM and pairs <= _LONG_LIST * len(rankings.item) + 1e6
        # Steps are limited in units of score times the largest factor of its lists: small factors make large scores.
        self.list_factor = np.ones(1)
        if len(rankings.theta):
            self.list_factor = np.zeros(size)
            np.maximum.at(self.list_factor, rankings.item, np.repeat(rankings.theta, np.diff(rankings.offsets)))
        self.has_ties = not rankings.averaged and bool((rankings.mark == 0).any())

    def reweighted(self, weight: Floats) -> PenalisedLikelihood:
        """Return the likelihood of the same lists with other weights."""
        return self._replace_rankings(self.rankings._replace(weight=weight))

    def rescaled(self, theta: Floats) -> PenalisedLikelihood:
        """Return the likelihood of the same lists with other adherence factors."""
        return self._replace_rankings(self.rankings._replace(theta=theta))

    def _replace_rankings(self, rankings: Rankings) -> PenalisedLikelihood:
        return PenalisedLikelihood(rankings, self.size, self.precision, self.gamma, self.scale)

    def within_range(self, score: Floats) -> bool:
        """Return whether the scores of every list, times its factor, are close enough not to overflow."""
        widest = float(np.ptp(score)) * max_norm(self.list_factor) if self.size else 0.0
        if widest < plackett_luce.MAX_SPAN or not len(self.rankings.theta):
            return widest < plackett_luce.MAX_SPAN
        own, starts = score[self.rankings.item], self.rankings.offsets[:-1]
        spans = np.maximum.reduceat(own, starts) - np.minimum.reduceat(own, starts)
        return max_norm(self.rankings.theta * spans) < plackett_luce.MAX_SPAN

    def evaluate(self, score: Floats) -> ScorePoint:
        """Return the objective and its derivatives."""
        gain, loss, diagonal = np.empty(self.size), np.empty(self.size), np.empty(self.size)
        value = self._log_likelihood(score - score.max(initial=-np.inf), gain, loss, diagonal)
        value += self.log_prior(score)
        if self.gamma is not None:
            more, rate = self.gamma
            worth = rate * np.exp(score)
            gain, loss, diagonal = gain + more, loss + worth, diagonal + worth
            gradient = gain - loss
        else:
            gradient, diagonal = gain - loss - self.precision * score, diagonal + self.precision
        return ScorePoint(score, value, max_norm(gradient) / self.scale, gradient, diagonal, gain, loss)

    def at(self, score: Floats) -> ScorePoint | None:
        """Return the objective and its derivatives, None where scores are too far apart."""
        return self.evaluate(score) if self.within_range(score) else None

    def log_prior(self, score: Floats) -> float:
        """Return the logarithm of the prior density of the scores, without its constant."""
        if self.gamma is None:
            return -0.5 * self.precision * _dot(score, score)
        more, rate = self.gamma
        return more * float(score.sum()) - rate * float(np.exp(score).sum())

    @property
    def n_choices(self) -> float:
        """The number of choices, with weights."""
        return self.scale * self.size if self.size else 0.0

    def _log_likelihood(self, x: Floats, gain: Floats, loss: Floats, diagonal: Floats) -> float:
        """Return the log-likelihood at scores with maximum 0, and write its derivatives."""
        phi = np.exp(x)
        value, least = plackett_luce.log_likelihood(x, phi, *self.rankings, gain, loss, diagonal)
        if least < _LEAST_SHARE:
            # The share of the rest is a small difference of large sums: write these lists out.
            self.expand()
            value, _ = plackett_luce.log_likelihood(x, phi, *self.rankings, gain, loss, diagonal)
        return value

    def _hessian_product(self, x: Floats, vector: Floats, exact: bool, out: Floats) -> None:
        """Write the product of −Hessian of the log-likelihood with a vector, at scores with maximum 0."""
        plackett_luce.hessian_product(x, np.exp(x), *self.rankings, vector, exact, out)

    @property
    def is_expanded(self) -> bool:
        """Whether every rest is expanded item by item."""
        return not bool((self.rankings.form == 2).any())

    def expand(self) -> None:
        """Write out the rest of every list item by item from now on."""
        self.rankings = expanded(self.rankings, self.size, np.flatnonzero(self.rankings.form == 2))

    def prior_curvature(self, score: Floats) -> Floats:
        """Return the prior's part of the diagonal of −Hessian."""
        if self.gamma is None:
            return np.full(self.size, self.precision)
        out: Floats = self.gamma[1] * np.exp(score)
        return out

    def sandwich_parts(self, score: Floats, *, exact: bool = True, outer_products: bool = False) -> SandwichParts:
        """Return −Hessian and, where `outer_products` is set, the sums over lists."""
        x = score - score.max(initial=-np.inf)
        m = self.size if outer_products else 0
        out = SandwichParts(np.empty((self.size, self.size)), np.empty((m, m)), np.empty(m))
        plackett_luce.hessian_table(x, np.exp(x), *self.rankings, exact, *out)
        out.hessian[np.diag_indices(self.size)] += self.prior_curvature(score)
        return out

    def _regular_hessian(self, score: Floats, *, exact: bool = True) -> Floats:
        """Return −Hessian, made regular where a common shift of all scores is free."""
        hessian = self.sandwich_parts(score, exact=exact).hessian
        if self.shift_free:
            # The objective does not depend on the mean of the scores; any curvature along it will do.
            hessian += np.trace(hessian) / max(self.size, 1) ** 2
        return hessian

    def newton_step(self, point: ScorePoint) -> NewtonStep[ScorePoint]:
        """Return the Newton step, from a dense Hessian or by conjugate gradients."""
        if self.dense:
            step = self._dense_step(point.score, point.gradient)
        else:
            # Early steps need not be exact; the last ones do.
            accuracy = min(0.1, max(np.sqrt(point.norm), 1e-5))
            step, concave = self._conjugate_gradient_step(point, accuracy, True)
            if not concave:
                step, _ = self._conjugate_gradient_step(point, accuracy, False)
        if self.shift_free:
            step = step - step.mean()

        length = min(1.0, _LONGEST_STEP / max(max_norm(step * self.list_factor), 1e-300))
        return NewtonStep(lambda part: self.at(point.score + part * step), length, _dot(point.gradient, step))

    def _dense_step(self, score: Floats, gradient: Floats) -> Floats:
        """Return the Newton step; where the objective is not concave, that of a positive definite approximation."""
        right = gradient[:, None]
        hessian = self._regular_hessian(score)
        found = solve_positive_definite(hessian, right)
        if found is None and self.has_ties:
            hessian = self._regular_hessian(score, exact=False)
            found = solve_positive_definite(hessian, right)
        ridge = max(1e-12 * float(np.trace(hessian)) / self.size, 1e-300)
        while found is None and ridge < 1e300:
            # Rounding alone has made it singular.
            hessian[np.diag_indices(self.size)] += ridge
            ridge *= 100.0
            found = solve_positive_definite(hessian, right)
        # A Hessian with NaN gives no step, and the search ends.
        return np.full(self.size, np.nan) if found is None else found[:, 0]

    def _conjugate_gradient_step(self, point: ScorePoint, accuracy: float, exact: bool) -> tuple[Floats, bool]:
        """Return the Newton step by conjugate gradients, and whether the objective is concave along all of them."""
        x = point.score - point.score.max()
        prior = self.prior_curvature(point.score)

        def product(vector: Floats) -> Floats:
            out = np.empty(self.size)
            self._hessian_product(x, vector, exact, out)
            out += prior * vector
            return out

        # Remove the rounding error along the free shift, which no step can reduce.
        right = point.gradient - point.gradient.mean() if self.shift_free else point.gradient
        return conjugate_gradients(product, right, point.diagonal, rtol=accuracy, max_iter=2 * self.size)

    @staticmethod
    def _solve(hessian: Floats, right: Floats) -> Floats:
        found = solve_positive_definite(hessian, right)
        return np.linalg.pinv(hessian, hermitian=True) @ right if found is None else found

    def score_response(self, score: Floats, gradient_change: Floats) -> Floats:
        """Return the change of the optimal scores for each column of `gradient_change` added to the gradient."""
        return self._solve(self._regular_hessian(score), gradient_change)

    def likelihood_gradient(self, score: Floats) -> Floats:
        """Return the gradient of the log-likelihood without the prior."""
        gradient = self.evaluate(score).gradient
        if self.gamma is None:
            return gradient + self.precision * score
        more, rate = self.gamma
        return gradient - more + rate * np.exp(score)

    def is_maximum(self, score: Floats) -> bool:
        """Return whether stationary scores are a local maximum; only ties in partitions leave a doubt."""
        if not self.has_ties or self.size == 0 or self.size > MOST_WITH_ALL_PAIRS:
            return True
        return solve_positive_definite(self._regular_hessian(score), np.zeros((self.size, 1))) is not None


def _initial_state(model: PenalisedLikelihood, score: Floats, known: State | None) -> NewtonState[ScorePoint]:
    """Return the state at some scores, or that of a checkpoint."""
    if known is None:
        return NewtonState(model.evaluate(score), 0, model.size == 0, [])
    n_iter, done, is_expanded = known["progress"].tolist()
    if is_expanded:
        model.expand()
    parts: dict[str, Any] = {name: known[name] for name in ScorePoint._fields}
    point = ScorePoint(**parts | {"value": float(known["value"]), "norm": float(known["norm"])})
    return NewtonState(point, n_iter, bool(done), [])


def _arrays(model: PenalisedLikelihood, at: NewtonState[ScorePoint]) -> dict[str, NDArray[Any]]:
    """Return a state as arrays for a checkpoint, with whether the lists of the model are expanded."""
    parts = {name: np.asarray(part) for name, part in at.point._asdict().items()}
    return parts | {"progress": np.array([at.n_iter, at.done, model.is_expanded])}


def newton(
    model: PenalisedLikelihood,
    score: Floats,
    max_iter: int,
    tol: float,
    report: Callable[[int, float], None] | None = None,
    checkpoint: Checkpointer = NO_CHECKPOINT,
) -> Optimum:
    """Return the maximum by Newton's method with backtracking.

    `report` gets the number of steps and the gradient norm after every step, and `checkpoint` the state.
    """
    # A start found for other factors may overflow with these.
    start = score if model.within_range(score) else np.zeros(model.size)
    end = maximise(
        _initial_state(model, start, checkpoint.restore()),
        model.newton_step,
        tol=tol,
        max_iter=max_iter,
        report=report,
        checkpoint=checkpoint,
        save=lambda at: _arrays(model, at),
    )
    at = end.point
    if 0.0 < max_norm(at.score) < 1e-9:
        equal_scores = model.evaluate(np.zeros(model.size))
        if equal_scores.norm <= _ROUNDING:
            # The votes favour no item: remove the rounding error, which would break ties.
            at = equal_scores
    return Optimum(at.score, at.value, end.gradient_norm, end.n_iter, end.converged)


def _dot(a: Floats, b: Floats) -> float:
    # BLAS would start threads for this.
    return float((a * b).sum())


def minorise(
    model: PenalisedLikelihood, score: Floats, max_iter: int, tol: float, checkpoint: Checkpointer = NO_CHECKPOINT
) -> Optimum:
    """Return the maximum by Hunter's MM algorithm: each step maximises a lower bound that is separable over items."""

    def moved(at: ScorePoint) -> Floats:
        denominator = at.loss / np.exp(at.score)
        if model.precision == 0:
            score: Floats = np.log(at.gain / denominator)
        else:
            score = _item_roots(at.gain, denominator, model.precision, at.score)
        return score - score.mean() if model.gamma is None else score

    return _iterate(model, score, moved, max_iter, tol, checkpoint)


def _iterate(
    model: PenalisedLikelihood,
    score: Floats,
    moved: Callable[[ScorePoint], Floats],
    max_iter: int,
    tol: float,
    checkpoint: Checkpointer,
) -> Optimum:
    """Return the scores after steps that are all taken, until the gradient norm is at most `tol`."""
    at = _initial_state(model, score, checkpoint.restore())
    with checkpoint.steps(max_iter):
        while not at.point.norm <= tol and at.n_iter < max_iter and model.size:
            at = NewtonState(model.evaluate(moved(at.point)), at.n_iter + 1, False, [])
            checkpoint.save(at.n_iter, lambda: _arrays(model, at))  # noqa: B023 - called at once or never
    return Optimum(at.point.score, at.point.value, at.point.norm, at.n_iter, at.point.norm <= tol)


def _item_roots(gain: Floats, denominator: Floats, precision: float, score: Floats) -> Floats:
    """Return s with gain − denominator · exp(s) − precision · s = 0, item by item."""
    for _ in range(100):
        worth = denominator * np.exp(score)
        step = (gain - worth - precision * score) / (worth + precision)
        # From the left of the root the Newton step may overshoot far; limit it.
        score = score + np.minimum(step, 1.0)
        if max_norm(step) <= 1e-15 * (1.0 + max_norm(score)):
            break
    return score


def gradient_ascent(
    model: PenalisedLikelihood, score: Floats, steps: int, checkpoint: Checkpointer = NO_CHECKPOINT
) -> Optimum:
    """Return the scores after a fixed number of steps of the published gradient ascent."""
    rate = _PAPER_STEP / model.scale
    end = _iterate(model, score, lambda at: at.score + rate * at.gradient, steps, -1.0, checkpoint)
    return end._replace(n_iter=steps if not model.size else end.n_iter, converged=True)
