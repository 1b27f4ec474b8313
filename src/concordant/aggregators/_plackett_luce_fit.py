"""The scores of one instance under a model of stages: its penalised log-likelihood and three ways to the maximum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats
from concordant.kernels import plackett_luce
from concordant.kernels.linear_systems import cholesky_solve, conjugate_gradients
from concordant.kernels.plackett_luce import Stages
from concordant.kernels.plackett_luce_lists import written_out
from concordant.learning.resumable import NO_CHECKPOINT, Checkpointer, State

__all__ = ["Found", "Model", "ascend", "divided", "minorise", "newton"]

# Beyond this many items no table of all pairs is made to look whether a stationary point is a maximum.
_MOST_ITEMS = 5000
# Where lists are longer than this, on average by rows, no table is filled to find a step.
_LONG_LIST = 50
# One step of the papers' gradient ascent, in units of items per choice.
_PAPER_STEP = 0.01
# No score moves further than this in one step.
_LONGEST_STEP = 4.0
# A gradient of this size, in choices per item, is what rounding leaves.
_ROUNDING = 1e-14
# A list leaves at least this share of all worth to the items below it, or they are written out one by one.
_LEAST_SHARE = 1e-5


# Tables up to this size are solved here: a library's threads take longer to wake than that.
_SMALL_TABLE = 128


def divided(table: Floats, right: Floats) -> Floats | None:
    """Return table⁻¹ right for a symmetric table, or None where it is not positive definite.

    >>> divided(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[3.0], [3.0]])).round(12).tolist()
    [[1.0], [1.0]]
    """
    if len(table) <= _SMALL_TABLE:
        out = right.copy()
        return out if cholesky_solve(table.copy(), out) else None
    if not _is_definite(table):
        return None
    return np.asarray(np.linalg.solve(table, right), dtype=np.float64)


def _is_definite(table: Floats) -> bool:
    try:
        np.linalg.cholesky(table)
    except np.linalg.LinAlgError:
        return False
    return True


class Found(NamedTuple):
    """Where an optimiser came to."""

    score: Floats
    value: float
    norm: float
    n_iter: int
    converged: bool


class _Point(NamedTuple):
    """The objective at some scores."""

    value: float
    gradient: Floats
    diagonal: Floats
    gain: Floats
    loss: Floats


class Tables(NamedTuple):
    """−Hessian of the objective, and over the lists Σ w g gᵀ of their gradients and Σ w h² of their information."""

    hessian: Floats
    gradients: Floats
    squares: Floats


class Model:
    """The penalised log-likelihood of one instance.

    Parameters
    ----------
    stages : Stages
        Its lists.
    size : int
        How many items they compare.
    precision : float
        λ of the normal prior.
    shape : (float, float), optional
        a − 1 and b of the Gamma prior.
    scale : float
        In what units a gradient is told: choices per item.
    """

    def __init__(
        self, stages: Stages, size: int, precision: float, shape: tuple[float, float] | None, scale: float
    ) -> None:
        self.stages = stages
        self.size = size
        self.precision = precision
        self.shape = shape
        self.scale = scale if scale > 0 else 1.0
        self.free = precision == 0 and shape is None
        lengths = np.diff(stages.offsets).astype(np.float64)
        # Filling a table of all pairs costs a list the square of its length; its product with a vector, taken a few
        # times, the length alone.
        pairs = float((lengths * lengths).sum())
        self.dense = size <= _SMALL_TABLE and pairs <= _LONG_LIST * len(stages.item) + 1e6
        # What counts of a score is it times the largest factor of its lists; small ones make for large scores.
        self.factor = np.ones(1)
        if len(stages.theta):
            self.factor = np.zeros(size)
            np.maximum.at(self.factor, stages.item, np.repeat(stages.theta, np.diff(stages.offsets)))
        self.tied = not stages.averaged and bool((stages.mark == 0).any())

    def reweighted(self, weight: Floats) -> Model:
        """Return the model of the same lists with other weights."""
        return Model(self.stages._replace(weight=weight), self.size, self.precision, self.shape, self.scale)

    def rescaled(self, theta: Floats) -> Model:
        """Return the model of the same lists with scores multiplied by other factors."""
        return Model(self.stages._replace(theta=theta), self.size, self.precision, self.shape, self.scale)

    def within_range(self, score: Floats) -> bool:
        """Return whether no two scores of a list lie so far apart, times its factor, that the objective overflows."""
        widest = float(np.ptp(score)) * largest(self.factor) if self.size else 0.0
        if widest < plackett_luce.WIDEST or not len(self.stages.theta):
            return widest < plackett_luce.WIDEST
        own, starts = score[self.stages.item], self.stages.offsets[:-1]
        spread = np.maximum.reduceat(own, starts) - np.minimum.reduceat(own, starts)
        return largest(self.stages.theta * spread) < plackett_luce.WIDEST

    def at(self, score: Floats) -> _Point:
        """Return the objective and its derivatives."""
        x = score - score.max(initial=-np.inf)
        gain, loss, diagonal = np.empty(self.size), np.empty(self.size), np.empty(self.size)
        phi = np.exp(x)
        value, least = plackett_luce.choices(x, phi, *self.stages, gain, loss, diagonal)
        if least < _LEAST_SHARE:
            # What is left for the rest is too small a difference of large sums: write these lists out.
            self.write_out()
            value, _ = plackett_luce.choices(x, phi, *self.stages, gain, loss, diagonal)
        if self.shape is not None:
            more, rate = self.shape
            worth = rate * np.exp(score)
            value += more * float(score.sum()) - float(worth.sum())
            gain, loss, diagonal = gain + more, loss + worth, diagonal + worth
            return _Point(value, gain - loss, diagonal, gain, loss)
        value -= 0.5 * self.precision * _dot(score, score)
        return _Point(value, gain - loss - self.precision * score, diagonal + self.precision, gain, loss)

    @property
    def written(self) -> bool:
        """Whether no list gives its rest as a difference of sums."""
        return not bool((self.stages.form == 2).any())

    def write_out(self) -> None:
        """Give the rest of every list item by item from now on."""
        self.stages = written_out(self.stages, self.size, np.flatnonzero(self.stages.form == 2))

    def curvature(self, score: Floats) -> Floats:
        """Return the prior's part of the diagonal of −Hessian."""
        if self.shape is None:
            return np.full(self.size, self.precision)
        out: Floats = self.shape[1] * np.exp(score)
        return out

    def tables(self, score: Floats, *, curved: bool = True, spread: bool = False) -> Tables:
        """Return −Hessian, and sums over the lists where wanted."""
        x = score - score.max(initial=-np.inf)
        m = self.size if spread else 0
        out = Tables(np.empty((self.size, self.size)), np.empty((m, m)), np.empty(m))
        plackett_luce.assemble(x, np.exp(x), *self.stages, curved, *out)
        out.hessian[np.diag_indices(self.size)] += self.curvature(score)
        return out

    def _firm(self, score: Floats, *, curved: bool = True) -> Floats:
        """Return −Hessian, made regular where a shift is free."""
        hessian = self.tables(score, curved=curved).hessian
        if self.free:
            # Nothing depends on the mean of the scores; any stiffness that way will do.
            hessian += np.trace(hessian) / max(self.size, 1) ** 2
        return hessian

    def direction(self, score: Floats, point: _Point, accuracy: float) -> Floats:
        """Return Newton's step, by a table of all pairs or by conjugate gradients."""
        if self.dense:
            step = self._by_table(score, point.gradient)
        else:
            step, sound = self._conjugate(score, point, accuracy, True)
            if not sound:
                step, _ = self._conjugate(score, point, accuracy, False)
        return step - step.mean() if self.free else step

    def _by_table(self, score: Floats, gradient: Floats) -> Floats:
        """Return Newton's step; where the objective curves the wrong way, that of a table that does not."""
        right = gradient[:, None]
        hessian = self._firm(score)
        found = divided(hessian, right)
        if found is None and self.tied:
            hessian = self._firm(score, curved=False)
            found = divided(hessian, right)
        ridge = max(1e-12 * float(np.trace(hessian)) / self.size, 1e-300)
        while found is None and ridge < 1e300:
            # Rounding alone has made it singular.
            hessian[np.diag_indices(self.size)] += ridge
            ridge *= 100.0
            found = divided(hessian, right)
        # A table of what is no number gives no step, and the search ends where it is.
        return np.full(self.size, np.nan) if found is None else found[:, 0]

    def _conjugate(self, score: Floats, point: _Point, accuracy: float, curved: bool) -> tuple[Floats, bool]:
        """Return Newton's step by conjugate gradients, and whether the objective curved the right way all along."""
        x = score - score.max()
        phi, prior = np.exp(x), self.curvature(score)

        def product(vector: Floats) -> Floats:
            out = np.empty(self.size)
            plackett_luce.product(x, phi, *self.stages, vector, curved, out)
            out += prior * vector
            return out

        # What rounding leaves along the free shift can never be solved away.
        right = point.gradient - point.gradient.mean() if self.free else point.gradient
        return conjugate_gradients(product, right, point.diagonal, rtol=accuracy, max_iter=2 * self.size)

    @staticmethod
    def _over(hessian: Floats, right: Floats) -> Floats:
        found = divided(hessian, right)
        return np.linalg.pinv(hessian, hermitian=True) @ right if found is None else found

    def answer(self, score: Floats, push: Floats) -> Floats:
        """Return how the best scores move with each column of `push`, added to the gradient."""
        return self._over(self._firm(score), push)

    def likelihood_gradient(self, score: Floats) -> Floats:
        """Return the gradient of the log-likelihood without the prior, which at the maximum is the prior's."""
        gradient = self.at(score).gradient
        if self.shape is None:
            return gradient + self.precision * score
        more, rate = self.shape
        return gradient - more + rate * np.exp(score)

    def is_maximum(self, score: Floats) -> bool:
        """Return whether stationary scores are a local maximum; only tied blocks leave a doubt."""
        if not self.tied or self.size == 0 or self.size > _MOST_ITEMS:
            return True
        return divided(self._firm(score), np.zeros((self.size, 1))) is not None


class _Standing(NamedTuple):
    """Where an optimiser stands after a step."""

    score: Floats
    point: _Point
    n_iter: int
    last: bool

    def kept(self, model: Model) -> dict[str, NDArray[Any]]:
        """Return the same as arrays; the model may have had to write lists out on the way."""
        parts = {name: np.asarray(part) for name, part in self.point._asdict().items()}
        return parts | {"score": self.score, "standing": np.array([self.n_iter, self.last, model.written])}

    @classmethod
    def of(cls, model: Model, score: Floats, known: State | None) -> _Standing:
        """Return what was kept, or where to begin."""
        if known is None:
            return cls(score, model.at(score), 0, model.size == 0)
        n_iter, last, written = known["standing"].tolist()
        if written:
            model.write_out()
        gradient, diagonal, gain, loss = (known[name] for name in _Point._fields[1:])
        point = _Point(float(known["value"]), gradient, diagonal, gain, loss)
        return cls(known["score"], point, n_iter, bool(last))


def newton(
    model: Model,
    score: Floats,
    max_iter: int,
    tol: float,
    tell: Callable[[float], None] | None = None,
    checkpoint: Checkpointer = NO_CHECKPOINT,
) -> Found:
    """Return the maximum by Newton's method with halved steps; near it one more step than `tol` asks for.

    `tell` hears the size of the gradient after every step, and `checkpoint` keeps the state.
    """
    # Scores found for other factors may lie too far apart for these.
    at = _Standing.of(model, score if model.within_range(score) else np.zeros(model.size), checkpoint.restore())
    norm = largest(at.point.gradient) / model.scale
    with checkpoint.steps(max_iter):
        while not at.last and at.n_iter < max_iter and norm > min(tol, _ROUNDING):
            # Steps that only point the way need not be exact; the last ones do.
            step = model.direction(at.score, at.point, min(0.1, max(np.sqrt(norm), 1e-5)))
            rise = _dot(at.point.gradient, step)
            length = min(1.0, _LONGEST_STEP / max(largest(step * model.factor), 1e-300))
            done, moved = norm <= tol, None
            for _ in range(60):
                trial = at.score + length * step
                if model.within_range(trial):
                    there = model.at(trial)
                    after = largest(there.gradient) / model.scale
                    noise = 1e-13 * (1.0 + abs(at.point.value))
                    risen = there.value >= at.point.value + 1e-4 * length * rise - noise
                    if risen and (after < norm or not done):
                        moved = _Standing(trial, there, at.n_iter + 1, done)
                        break
                length /= 2
                if done:
                    break
            at = at._replace(n_iter=at.n_iter + 1, last=True) if moved is None else moved
            norm = largest(at.point.gradient) / model.scale
            checkpoint.save(at.n_iter, lambda: at.kept(model))  # noqa: B023 - called at once or never
            if tell is not None and (moved is not None or done):
                tell(norm)
    if 0.0 < largest(at.score) < 1e-9:
        even = model.at(np.zeros(model.size))
        if largest(even.gradient) <= _ROUNDING * model.scale:
            # The votes say nothing: what is left of the start would tell items apart.
            at = at._replace(score=np.zeros(model.size), point=even)
    return Found(at.score, at.point.value, norm, at.n_iter, norm <= tol)


def _dot(a: Floats, b: Floats) -> float:
    # A library would wake its threads for this, and wait for them.
    return float((a * b).sum())


def largest(values: Floats) -> float:
    return float(np.abs(values).max(initial=0.0))


def minorise(model: Model, score: Floats, max_iter: int, tol: float, checkpoint: Checkpointer = NO_CHECKPOINT) -> Found:
    """Return the maximum by Hunter's steps: each maximises a bound in which every item stands alone."""
    at = _Standing.of(model, score, checkpoint.restore())
    norm = largest(at.point.gradient) / model.scale
    with checkpoint.steps(max_iter):
        while not norm <= tol and at.n_iter < max_iter and model.size:
            pull = at.point.loss / np.exp(at.score)
            if model.precision == 0:
                moved = np.log(at.point.gain / pull)
            else:
                moved = _balanced(at.point.gain, pull, model.precision, at.score)
            if model.shape is None:
                moved = moved - moved.mean()
            at = _Standing(moved, model.at(moved), at.n_iter + 1, False)
            norm = largest(at.point.gradient) / model.scale
            checkpoint.save(at.n_iter, lambda: at.kept(model))  # noqa: B023 - called at once or never
    return Found(at.score, at.point.value, norm, at.n_iter, norm <= tol)


def _balanced(gain: Floats, pull: Floats, precision: float, score: Floats) -> Floats:
    """Return s with gain − pull · exp(s) − precision · s = 0, item by item."""
    for _ in range(100):
        worth = pull * np.exp(score)
        step = (gain - worth - precision * score) / (worth + precision)
        # From the left Newton's step on a convex fall may overshoot far; it never undershoots the root.
        score = score + np.minimum(step, 1.0)
        if largest(step) <= 1e-15 * (1.0 + largest(score)):
            break
    return score


def ascend(model: Model, score: Floats, steps: int, checkpoint: Checkpointer = NO_CHECKPOINT) -> Found:
    """Return where the papers' gradient ascent stops."""
    at = _Standing.of(model, score, checkpoint.restore())
    with checkpoint.steps(steps):
        while at.n_iter < steps and model.size:
            moved = at.score + _PAPER_STEP / model.scale * at.point.gradient
            at = _Standing(moved, model.at(moved), at.n_iter + 1, False)
            checkpoint.save(at.n_iter, lambda: at.kept(model))  # noqa: B023 - called at once or never
    made = at.n_iter if model.size else steps
    return Found(at.score, at.point.value, largest(at.point.gradient) / model.scale, made, True)
