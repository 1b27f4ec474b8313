"""Optimisers for rankers: L-BFGS, SGD and Adam, one step at a time, with the whole state in one flat array.

The training loop evaluates a model after every step, keeps the best one and writes it to a checkpoint; a flat array is
all that it needs for this. `LBFGS` stays beside SciPy's (`resumable.minimise`) for this reason, and because its line
search accepts the kinks of the hinge loss of RankSVM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from concordant.arrays import Floats

__all__ = ["LBFGS", "SGD", "Adam", "Objective", "Solver"]

Objective = Callable[[Floats], tuple[float, Floats]]

# Sufficient decrease and the part of the slope that must be gone: a step has to help and must not be timid.
_DECREASE, _CURVATURE = 1e-4, 0.9
_TRIALS = 40
# What is left of a value when it is as good as nothing.
_NEGLIGIBLE = 1e-6
# Products smaller than this are rounding, and no longer to be divided by.
_LEAST = 1e-280
# Passes whose values are averaged before two stretches of a noisy descent are compared.
_STRETCH = 10


class Solver(Protocol):
    """What the three have in common."""

    def begin(self, point: Floats) -> Floats:
        """Return the state in which nothing is known but where to start."""
        ...

    def point(self, state: Floats) -> Floats:
        """Return where a state stands."""
        ...

    def value(self, state: Floats) -> float:
        """Return what the last step or pass came to."""
        ...

    def finished(self, state: Floats) -> bool:
        """Return whether the last step changed nothing worth while."""
        ...


class LBFGS(NamedTuple):
    """Newton's direction from the last few changes of the gradient, and the first step along it that is good enough.

    The state is the point, its gradient, the value, how many changes are remembered, whether it is over, the first
    value, and the changes. The step has to meet the weak conditions of Wolfe, found by halving and doubling: that works
    at kinks too, where a hinge has no gradient.

    Attributes
    ----------
    size : int
        How many parameters there are.
    tol : float
        It is over when a step improves the value by less than this part of it, or of a millionth of the first value:
        what falls towards 0 for ever has then come far enough.
    memory : int
        How many changes are remembered.
    """

    size: int
    tol: float
    memory: int = 10

    def begin(self, point: Floats) -> Floats:
        """Return the state in which nothing is known but where to start."""
        state = np.zeros(2 * self.size + 4 + 2 * self.memory * self.size)
        state[: self.size] = point
        state[2 * self.size] = np.nan
        return state

    def point(self, state: Floats) -> Floats:
        """Return where a state stands."""
        return state[: self.size]

    def finished(self, state: Floats) -> bool:
        """Return whether the last step improved the value by less than the tolerance."""
        return bool(state[2 * self.size + 2])

    def value(self, state: Floats) -> float:
        """Return the value at the point, NaN before the first step."""
        return float(state[2 * self.size])

    def gradient(self, state: Floats) -> Floats:
        """Return the gradient at the point."""
        return state[self.size : 2 * self.size]

    def step(self, state: Floats, objective: Objective) -> Floats:
        """Return the state after one step.

        >>> bowl = LBFGS(2, 1e-12)
        >>> state = bowl.begin(np.array([3.0, -1.0]))
        >>> while not bowl.finished(state):
        ...     state = bowl.step(state, lambda x: (float(x @ x * 0.5 + x[0]), x + np.array([1.0, 0.0])))
        >>> bowl.point(state).round(6).tolist()
        [-1.0, 0.0]
        """
        n = self.size
        out = state.copy()
        if self.finished(state):
            return out
        at, value, slope = self.point(state), self.value(state), self.gradient(state)
        if np.isnan(value):
            value, slope = objective(at)
            out[2 * n + 3] = value
        known = int(state[2 * n + 1])
        changes = state[2 * n + 4 :].reshape(2, self.memory, n)
        direction = -self._scaled(slope, changes[0][:known], changes[1][:known])
        descent = float(direction @ slope)
        if not descent < 0:
            # What is remembered no longer fits: begin anew with the gradient.
            known, direction = 0, -slope
            descent = -float(slope @ slope)
        if not -descent > _LEAST:
            return self._over(out, at, value, slope)
        length = 1.0 if known else min(1.0, 1.0 / float(np.sqrt(-descent)))
        shortest, longest = 0.0, np.inf
        for _ in range(_TRIALS):
            there = at + length * direction
            new, new_slope = objective(there)
            if not new <= value + _DECREASE * length * descent:
                longest = length
            elif float(new_slope @ direction) < _CURVATURE * descent:
                shortest = length
            else:
                break
            length = 0.5 * (shortest + longest) if longest < np.inf else 2.0 * length
        if not new < value:
            return self._over(out, at, value, slope)
        s, y = there - at, new_slope - slope
        along = float(s @ y)
        if along > max(1e-12 * float(y @ y), _LEAST) and float(y @ y) > _LEAST:
            remembered = out[2 * n + 4 :].reshape(2, self.memory, n)
            if known == self.memory:
                remembered[:, :-1] = remembered[:, 1:]
                known -= 1
            remembered[0, known], remembered[1, known] = s, y
            known += 1
        improvement = value - new
        out[:n], out[n : 2 * n], out[2 * n], out[2 * n + 1] = there, new_slope, new, known
        out[2 * n + 2] = improvement <= self.tol * max(abs(value), abs(new), _NEGLIGIBLE * abs(out[2 * n + 3]))
        return out

    def _over(self, out: Floats, at: Floats, value: float, slope: Floats) -> Floats:
        n = self.size
        out[:n], out[n : 2 * n], out[2 * n], out[2 * n + 2] = at, slope, value, 1.0
        return out

    def _scaled(self, slope: Floats, s: Floats, y: Floats) -> Floats:
        """Return the inverse curvature times the slope."""
        q = slope.copy()
        if not len(s):
            return q
        product = (s * y).sum(axis=1)
        along = np.empty(len(s))
        for i in range(len(s) - 1, -1, -1):
            along[i] = float(s[i] @ q) / product[i]
            q -= along[i] * y[i]
        q *= product[-1] / float(y[-1] @ y[-1])
        for i in range(len(s)):
            q += (along[i] - float(y[i] @ q) / product[i]) * s[i]
        return q


@dataclass(frozen=True)
class _Passes:
    """What goes through batches, pass after pass: a state begins with the point and ends with the last values."""

    size: int
    tol: float
    rate: float

    def point(self, state: Floats) -> Floats:
        """Return where a state stands."""
        return state[: self.size]

    def value(self, state: Floats) -> float:
        """Return the mean value of the last pass."""
        return float(state[-1])

    def finished(self, state: Floats) -> bool:
        """Return whether ten passes have improved the value by less than the tolerance."""
        return _stands_still(state[-2 * _STRETCH - 1 :], self.tol)

    def end_pass(self, state: Floats, value: float) -> None:
        """Note what a pass came to."""
        _noted(state[-2 * _STRETCH - 1 :], value)


class SGD(_Passes):
    """A step against the gradient of every batch.

    The state is the point, the number of passes and the values of the last ones.

    Attributes
    ----------
    size : int
        How many parameters there are.
    tol : float
        It is over when the mean value of ten passes is not better than that of the ten before by this part of it.
    rate : float
        How far a step goes.
    """

    def begin(self, point: Floats) -> Floats:
        """Return the state in which nothing is known but where to start."""
        return np.concatenate([point, np.zeros(2 * _STRETCH + 1)])

    def move(self, state: Floats, gradient: Floats) -> None:
        """Take one step."""
        state[: self.size] -= self.rate * gradient


class Adam(_Passes):
    """A step against the gradient of every batch, each parameter's as long as its gradients have been alike.

    The state is the point, the means of gradients and of their squares, the number of steps, that of passes
    and the last values.

    Attributes
    ----------
    size : int
        How many parameters there are.
    tol : float
        As in `SGD`.
    rate : float
        How far a parameter goes in one step at most, about.
    """

    def begin(self, point: Floats) -> Floats:
        """Return the state in which nothing is known but where to start."""
        return np.concatenate([point, np.zeros(2 * self.size + 1), np.zeros(2 * _STRETCH + 1)])

    def move(self, state: Floats, gradient: Floats) -> None:
        """Take one step."""
        n = self.size
        state[3 * n] += 1
        steps = state[3 * n]
        mean, square = state[n : 2 * n], state[2 * n : 3 * n]
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient * gradient - square)
        spread = np.sqrt(square / (1.0 - 0.999**steps)) + 1e-8
        state[:n] -= self.rate / (1.0 - 0.9**steps) * mean / spread


def _noted(values: Floats, value: float) -> None:
    values[0] += 1
    values[1:-1] = values[2:]
    values[-1] = value


def _stands_still(values: Floats, tol: float) -> bool:
    """Return whether the later half of the values is no better than the earlier one; never before both are full."""
    if values[0] < 2 * _STRETCH:
        return False
    before, after = float(values[1 : _STRETCH + 1].mean()), float(values[_STRETCH + 1 :].mean())
    return bool(before - after <= tol * max(abs(before), abs(after)))
