"""Covariates of items in Plackett-Luce: coefficients of features, with the tie parameters, by Newton's method.

What Bradley-Terry shares (bases of collinear features, scores of described items) is in `_item_covariates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators._plackett_luce_fit import PenalisedLikelihood, SandwichParts
from concordant.aggregators._plackett_luce_ties import NO_TIES, DavidsonLuceLikelihood, TieParameters
from concordant.arrays import Floats
from concordant.errors import NoFiniteEstimateError
from concordant.execution import report_progress
from concordant.kernels.linear_systems import solve_positive_definite
from concordant.learning.newton import NewtonResult, NewtonState, NewtonStep, maximise
from concordant.learning.optimisers import max_norm
from concordant.learning.resumable import Checkpointer

__all__ = ["LinearFit", "covariance", "fit", "no_finite_estimate"]

# No score, and no logarithm of a tie parameter, moves further than this in one step.
_LONGEST_STEP = 4.0
# Information below this part of the largest eigenvalue, or of the choices, does not bound some coefficients.
_SINGULAR = 1e-8


class LinearFit(NamedTuple):
    """Coefficients of a basis of features, and the tie parameters estimated with them.

    Attributes
    ----------
    coefficients : float64[r]
        The coefficients b of the basis; the scores of an instance are its design times b.
    ties : TieParameters
        The tie parameters; without any, only that of size 1.
    end : NewtonResult
        How the search ended; the gradient norm is over the number of choices.
    models, designs : sequences
        The likelihoods and the designs of the instances.
    information : float64[p, p]
        −Hessian over the coefficients, then log δ.
    """

    coefficients: Floats
    ties: TieParameters
    end: NewtonResult[_Point]
    models: Sequence[PenalisedLikelihood]
    designs: Sequence[Floats]
    information: Floats

    @property
    def is_bounded(self) -> bool:
        """Whether the information bounds every parameter; without a prior a likelihood may be flat along some."""
        if not len(self.information):
            return True
        eigenvalues = np.linalg.eigvalsh(self.information)
        n_choices = sum(m.scale * m.size for m in self.models)
        return bool(eigenvalues[0] > _SINGULAR * max(float(eigenvalues[-1]), n_choices))


class _Point(NamedTuple):
    """Parameters, with the objective there, its gradient and the norm of that."""

    parameters: Floats
    value: float
    gradient: Floats
    norm: float


class _LinearLikelihood:
    """The objective over all instances as a function of the coefficients, then of log δ of the sizes above 1."""

    def __init__(self, models: Sequence[PenalisedLikelihood], designs: Sequence[Floats]) -> None:
        pairs = [(m, d) for m, d in zip(models, designs, strict=True) if m.size]
        self.models = [m for m, _ in pairs]
        self.designs = [d for _, d in pairs]
        self.r = designs[0].shape[1] if designs else 0
        own = [m.ties for m in self.models if isinstance(m, DavidsonLuceLikelihood)]
        self.ties = own[0] if own else NO_TIES
        self.unit = max(sum(m.scale * m.size for m in self.models), 1e-300)

    @property
    def start(self) -> Floats:
        return np.concatenate([np.zeros(self.r), self.ties.log_delta[1:]])

    def ties_at(self, point: Floats) -> TieParameters:
        return self.ties._replace(log_delta=np.concatenate([[0.0], point[self.r :]]))

    def models_at(self, point: Floats) -> list[PenalisedLikelihood]:
        if len(self.ties.sizes) == 1:
            return self.models
        ties = self.ties_at(point)
        return [m.with_ties(ties) if isinstance(m, DavidsonLuceLikelihood) else m for m in self.models]

    def evaluate(self, point: Floats) -> _Point | None:
        """Return the objective and its gradient, None where scores are too far apart."""
        value, gradient = 0.0, np.zeros(len(point))
        for model, design in zip(self.models_at(point), self.designs, strict=True):
            score = design @ point[: self.r]
            if not model.within_range(score):
                return None
            at = model.evaluate(score)
            value += at.value
            gradient[: self.r] += design.T @ at.gradient
            if len(point) > self.r and isinstance(model, DavidsonLuceLikelihood):
                gradient[self.r :] += model.tie_gradient(score)
        return _Point(point, value, gradient, max_norm(gradient) / self.unit)

    def information(self, point: Floats, *, exact: bool = True) -> Floats:
        """Return −Hessian of the objective."""
        out = np.zeros((len(point), len(point)))
        for model, design in zip(self.models_at(point), self.designs, strict=True):
            score = design @ point[: self.r]
            out += _through(design, _tables(model, score, exact=exact).hessian)
        return (out + out.T) / 2

    def newton_step(self, at: _Point) -> NewtonStep[_Point]:
        """Return the Newton step."""
        step = self._direction(at)
        reach = max((max_norm(d @ step[: self.r]) for d in self.designs), default=0.0)
        length = min(1.0, _LONGEST_STEP / max(reach, max_norm(step[self.r :]), 1e-300))
        return NewtonStep(lambda part: self.evaluate(at.parameters + part * step), length, float(at.gradient @ step))

    def _direction(self, at: _Point) -> Floats:
        """Return the full Newton step; ordered partitions, which are not concave, may need an approximation."""
        right = at.gradient[:, None]
        for exact in (True, False):
            information = self.information(at.parameters, exact=exact)
            found = solve_positive_definite(information, right)
            if found is not None:
                return found[:, 0]
        return np.asarray(np.linalg.lstsq(information, at.gradient, rcond=None)[0], dtype=np.float64)


def _tables(model: PenalisedLikelihood, score: Floats, **options: Any) -> SandwichParts:
    """Return the tables over the scores and, where there are any, the tie parameters."""
    if isinstance(model, DavidsonLuceLikelihood):
        return model.joint_parts(score, outer_products=options.get("outer_products", False))
    return model.sandwich_parts(score, **options)


def _through(design: Floats, table: Floats) -> Floats:
    """Return a table over scores and tie parameters as one over coefficients and tie parameters."""
    m = len(design)
    out: Floats = np.block(
        [[design.T @ table[:m, :m] @ design, design.T @ table[:m, m:]], [table[m:, :m] @ design, table[m:, m:]]]
    )
    return out


def fit(
    models: Sequence[PenalisedLikelihood],
    designs: Sequence[Floats],
    *,
    max_iter: int,
    tol: float,
    checkpoint: Checkpointer,
) -> LinearFit:
    """Maximise the likelihood of all instances over the coefficients of their designs, and over the tie parameters."""
    objective = _LinearLikelihood(models, designs)
    known = checkpoint.restore()
    start = objective.evaluate(objective.start if known is None else known["point"])
    if start is None:
        raise ValueError("the parameters to start from are out of range")
    trace, done = ([start.value], False) if known is None else (known["trace"].tolist(), bool(known["done"]))
    end = maximise(
        NewtonState(start, len(trace) - 1, done, trace),
        objective.newton_step,
        tol=tol,
        max_iter=max_iter,
        report=lambda done, _: report_progress(done, max_iter),
        checkpoint=checkpoint,
        save=_state,
    )
    point = end.point.parameters
    return LinearFit(
        point[: objective.r],
        objective.ties_at(point),
        end,
        objective.models_at(point),
        objective.designs,
        objective.information(point),
    )


def _state(at: NewtonState[_Point]) -> dict[str, NDArray[Any]]:
    return {"point": at.point.parameters, "trace": np.array(at.trace), "done": np.array(at.done)}


def covariance(fitted: LinearFit, *, clustered: bool) -> Floats:
    """Return the covariance of the coefficients, then of log δ; NaN where clusters are asked for and there are none.

    It is the inverse of the information or, with `clustered`, a sandwich with the lists as clusters within instances.
    """
    inverse = np.asarray(np.linalg.pinv(fitted.information, hermitian=True), dtype=np.float64)
    if not clustered:
        return inverse
    meat, found = np.zeros(inverse.shape), False
    r = len(fitted.coefficients)
    for model, design in zip(fitted.models, fitted.designs, strict=True):
        count = float(model.rankings.weight.sum())
        if count < 2:
            continue
        found = True
        score = design @ fitted.coefficients
        products = _through(design, _tables(model, score, outer_products=True).gradients)
        total = np.zeros(len(meat))
        total[:r] = design.T @ model.likelihood_gradient(score)
        if len(total) > r and isinstance(model, DavidsonLuceLikelihood):
            total[r:] = model.tie_gradient(score)
        meat += count / (count - 1) * (products - np.outer(total, total) / count)
        # The prior is on the scores, so its share of the variance goes through the features.
        meat[:r, :r] += design.T @ (model.prior_curvature(score)[:, None] * design)
    if not found:
        return np.full(inverse.shape, np.nan)
    table = inverse @ meat @ inverse
    return (table + table.T) / 2


def no_finite_estimate(among: str) -> NoFiniteEstimateError:
    """Return the error for coefficients that grow without bound; `among` names the items."""
    return NoFiniteEstimateError(
        f"no finite Plackett-Luce estimate: the weights of features of {among} (and tie parameters learned with them) "
        "cannot be told apart or grow without bound. Set prior=0.1, or leave some features out."
    )
