"""Newton's method with backtracking: the driver of likelihood fits, from a state that a checkpoint may hold.

A model gives points, with their objective and gradient norm, and the Newton step from a point. When to shorten a step,
when to stop and what to save are the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from concordant.arrays import Floats
from concordant.learning.resumable import NO_CHECKPOINT, Checkpointer, State

__all__ = ["NewtonResult", "NewtonState", "NewtonStep", "SearchPoint", "backtrack", "backtrack_each", "maximise"]

# A gradient norm of this size is rounding error.
_ROUNDING = 1e-14
# A step must give this part of the rise that its derivative promises.
_SUFFICIENT = 1e-4
_HALVINGS = 60


class SearchPoint(Protocol):
    """A point of a search."""

    @property
    def value(self) -> float:
        """The objective."""
        ...

    @property
    def norm(self) -> float:
        """The largest component of the gradient, in the unit of the tolerance; asked for where a step ends only."""
        ...


P = TypeVar("P")
S = TypeVar("S", bound=SearchPoint)


class NewtonStep(NamedTuple, Generic[P]):
    """A Newton step from a point.

    Attributes
    ----------
    trial : callable
        Returns the point after a part of the step; None where it is out of range.
    length : float
        The part that is tried first.
    rise : float
        The derivative of the objective along the step; 0 asks only that the objective does not fall.
    """

    trial: Callable[[float], P | None]
    length: float = 1.0
    rise: float = 0.0


class NewtonState(NamedTuple, Generic[P]):
    """The state of a search between two steps; `done` says that the step before was the last."""

    point: P
    n_iter: int
    done: bool
    trace: list[float]


class NewtonResult(NamedTuple, Generic[P]):
    """Where a search ended, with the objective and the gradient norm there, and the objectives on the way."""

    point: P
    objective: float
    gradient_norm: float
    n_iter: int
    converged: bool
    trace: list[float]


def backtrack(
    trial: Callable[[float], P | None],
    accepts: Callable[[P, float], bool],
    length: float = 1.0,
    halvings: int = _HALVINGS,
) -> P | None:
    """Return the first trial that is accepted, halving the length of the step up to so many times; None without one.

    >>> backtrack(lambda length: 3.0 - 8.0 * length, lambda x, length: x * x < 9.0)
    -1.0
    """
    for _ in range(halvings + 1):
        found = trial(length)
        if found is not None and accepts(found, length):
            return found
        length /= 2
    return None


def backtrack_each(
    trial: Callable[[Floats], P], values: Callable[[P], Floats], least: Floats, halvings: int = _HALVINGS
) -> P:
    """Return the trial after independent steps, each halved until its value is at least `least`, or it is 0.

    >>> backtrack_each(lambda length: 3.0 - 8.0 * length, lambda x: -x * x, np.array([-25.0, -2.0])).tolist()
    [-5.0, -1.0]
    """
    length = np.ones(len(least))
    for attempt in range(halvings + 2):
        found = trial(length)
        worse = ~(values(found) >= least)
        if not worse.any():
            break
        length[worse] *= 0.5 if attempt < halvings else 0.0
    return found


def maximise(
    start: NewtonState[S],
    newton_step: Callable[[S], NewtonStep[S] | None],
    *,
    tol: float,
    max_iter: int,
    noise: float = 1e-13,
    report: Callable[[int, float], None] | None = None,
    checkpoint: Checkpointer = NO_CHECKPOINT,
    save: Callable[[NewtonState[S]], State] | None = None,
) -> NewtonResult[S]:
    """Maximise an objective: steps that do not raise it are halved, and one more is made than `tol` asks for.

    Parameters
    ----------
    start : NewtonState
        The first point, or the state of a checkpoint.
    newton_step : callable
        Returns the step from a point, None where there is none.
    tol, max_iter : float, int
        The gradient norm at which the next step is the last, and the most steps.
    noise : float
        The rounding error of the objective, relative to 1 plus its size.
    report : callable, optional
        Receives the number of steps and the gradient norm after each.
    checkpoint : Checkpointer
        Receives what `save` returns for the state after each step.

    Examples
    --------
    >>> from math import exp
    >>> class Point(NamedTuple):
    ...     x: float
    ...     value: float
    ...     norm: float
    >>> def at(x):
    ...     return Point(x, x - exp(x), abs(1.0 - exp(x)))
    >>> def step(p):
    ...     return NewtonStep(lambda part: at(p.x + part * (1.0 - exp(p.x)) / exp(p.x)))
    >>> found = maximise(NewtonState(at(-3.0), 0, False, []), step, tol=1e-8, max_iter=50)
    >>> round(found.point.x, 12), found.converged
    (0.0, True)
    """
    at, norm = start, float("inf")
    # The points of a search may be large: only the present one is kept.
    del start
    with checkpoint.steps(max_iter):
        norm = at.point.norm
        while not at.done and at.n_iter < max_iter and norm > min(tol, _ROUNDING):
            last, value, step = norm <= tol, at.point.value, newton_step(at.point)
            if step is None:
                break
            least, rise = value - noise * (1.0 + abs(value)), _SUFFICIENT * step.rise

            def accepts(point: S, length: float) -> bool:
                return point.value >= least + length * rise  # noqa: B023 - called before the next step

            found = backtrack(step.trial, accepts, step.length, 0 if last else _HALVINGS)
            if found is None or (last and not found.norm < norm):
                break
            at = NewtonState(found, at.n_iter + 1, last, [*at.trace, found.value])
            if save is not None:
                checkpoint.save(at.n_iter, lambda: save(at))  # noqa: B023 - called at once or never
            norm = at.point.norm
            if report is not None:
                report(at.n_iter, norm)
    return NewtonResult(at.point, at.point.value, norm, at.n_iter, norm <= tol, at.trace)
