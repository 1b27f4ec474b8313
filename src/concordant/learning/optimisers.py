"""Optimisers for rankers: L-BFGS, SGD and Adam, one step at a time, with the whole state in one flat array.

The training loop evaluates a model after every step, keeps the best one and writes it to a checkpoint; a flat array is
all that it needs for this. `LBFGS` stays beside SciPy's (`resumable.minimise`) for this reason, and because its line
search accepts the kinks of the hinge loss of RankSVM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from concordant.arrays import Floats

__all__ = ["LBFGS", "SGD", "Adam", "Objective", "max_norm"]

Objective = Callable[[Floats], tuple[float, Floats]]

# Constants of the weak Wolfe conditions: sufficient decrease, and curvature, which rules out steps that are too short.
_DECREASE, _CURVATURE = 1e-4, 0.9
_TRIALS = 40
# Tolerances are relative to the value, but never to less than this fraction of the first value.
_NEGLIGIBLE = 1e-6
# Smaller inner products are rounding errors; nothing is divided by them.
_TINY = 1e-280
# SGD and Adam compare the mean value of this many passes with that of as many passes before.
_WINDOW = 10


def max_norm(values: Floats) -> float:
    """Return the largest absolute value, 0 without any."""
    return float(np.abs(values).max(initial=0.0))


class LBFGS(NamedTuple):
    """L-BFGS with a line search for the weak Wolfe conditions.

    The line search halves and doubles the step length. It also works at kinks, where a hinge loss has no gradient. The
    state holds, in this order: the parameters, the gradient, the value, the number of stored updates, whether it has
    finished, the first value, and the updates of parameters and gradients.

    Attributes
    ----------
    size : int
        Number of parameters.
    tol : float
        Finish when a step improves the value by less than this fraction of it. A value below a millionth of the first
        one counts as that: otherwise losses whose infimum is 0 would never finish.
    memory : int
        Number of stored updates.
    """

    size: int
    tol: float
    memory: int = 10

    def initial_state(self, point: Floats) -> Floats:
        """Return the state before the first step, at the given parameters."""
        state = np.zeros(2 * self.size + 4 + 2 * self.memory * self.size)
        state[: self.size] = point
        state[2 * self.size] = np.nan
        return state

    def point(self, state: Floats) -> Floats:
        """Return the parameters."""
        return state[: self.size]

    def finished(self, state: Floats) -> bool:
        """Return whether the last step improved the value by less than the tolerance."""
        return bool(state[2 * self.size + 2])

    def value(self, state: Floats) -> float:
        """Return the value at the current parameters, NaN before the first step."""
        return float(state[2 * self.size])

    def gradient(self, state: Floats) -> Floats:
        """Return the gradient at the current parameters."""
        return state[self.size : 2 * self.size]

    def step(self, state: Floats, objective: Objective) -> Floats:
        """Return the state after one step.

        >>> bowl = LBFGS(2, 1e-12)
        >>> state = bowl.initial_state(np.array([3.0, -1.0]))
        >>> while not bowl.finished(state):
        ...     state = bowl.step(state, lambda x: (float(x @ x * 0.5 + x[0]), x + np.array([1.0, 0.0])))
        >>> bowl.point(state).round(6).tolist()
        [-1.0, 0.0]
        """
        n = self.size
        out = state.copy()
        if self.finished(state):
            return out
        x, value, gradient = self.point(state), self.value(state), self.gradient(state)
        if np.isnan(value):
            value, gradient = objective(x)
            out[2 * n + 3] = value
        n_stored = int(state[2 * n + 1])
        updates = state[2 * n + 4 :].reshape(2, self.memory, n)
        direction = -self._inverse_hessian_times(gradient, updates[0][:n_stored], updates[1][:n_stored])
        derivative = float(direction @ gradient)
        if not derivative < 0:
            # The stored updates give no descent direction: discard them and use the gradient.
            n_stored, direction = 0, -gradient
            derivative = -float(gradient @ gradient)
        if not -derivative > _TINY:
            return self._finish(out, x, value, gradient)
        length = 1.0 if n_stored else min(1.0, 1.0 / float(np.sqrt(-derivative)))
        shortest, longest = 0.0, np.inf
        for _ in range(_TRIALS):
            new_x = x + length * direction
            new_value, new_gradient = objective(new_x)
            if not new_value <= value + _DECREASE * length * derivative:
                longest = length
            elif float(new_gradient @ direction) < _CURVATURE * derivative:
                shortest = length
            else:
                break
            length = 0.5 * (shortest + longest) if longest < np.inf else 2.0 * length
        if not new_value < value:
            return self._finish(out, x, value, gradient)
        s, y = new_x - x, new_gradient - gradient
        curvature = float(s @ y)
        if curvature > max(1e-12 * float(y @ y), _TINY) and float(y @ y) > _TINY:
            stored = out[2 * n + 4 :].reshape(2, self.memory, n)
            if n_stored == self.memory:
                stored[:, :-1] = stored[:, 1:]
                n_stored -= 1
            stored[0, n_stored], stored[1, n_stored] = s, y
            n_stored += 1
        improvement = value - new_value
        out[:n], out[n : 2 * n], out[2 * n], out[2 * n + 1] = new_x, new_gradient, new_value, n_stored
        out[2 * n + 2] = improvement <= self.tol * max(abs(value), abs(new_value), _NEGLIGIBLE * abs(out[2 * n + 3]))
        return out

    def _finish(self, out: Floats, x: Floats, value: float, gradient: Floats) -> Floats:
        n = self.size
        out[:n], out[n : 2 * n], out[2 * n], out[2 * n + 2] = x, gradient, value, 1.0
        return out

    def _inverse_hessian_times(self, gradient: Floats, s: Floats, y: Floats) -> Floats:
        """Return the approximate inverse Hessian times the gradient, by the two-loop recursion."""
        q = gradient.copy()
        if not len(s):
            return q
        product = (s * y).sum(axis=1)
        alpha = np.empty(len(s))
        for i in range(len(s) - 1, -1, -1):
            alpha[i] = float(s[i] @ q) / product[i]
            q -= alpha[i] * y[i]
        q *= product[-1] / float(y[-1] @ y[-1])
        for i in range(len(s)):
            q += (alpha[i] - float(y[i] @ q) / product[i]) * s[i]
        return q


@dataclass(frozen=True)
class _BatchSolver:
    """Base of the solvers that step after every batch; the state begins with the parameters and ends with past values.

    Attributes
    ----------
    size : int
        Number of parameters.
    tol : float
        Finish when the mean value of ten passes improves on that of the ten before by less than this fraction.
    rate : float
        The learning rate.
    """

    size: int
    tol: float
    rate: float

    def point(self, state: Floats) -> Floats:
        """Return the parameters."""
        return state[: self.size]

    def value(self, state: Floats) -> float:
        """Return the mean value of the last pass."""
        return float(state[-1])

    def finished(self, state: Floats) -> bool:
        """Return whether ten passes have improved the value by less than the tolerance."""
        return _has_plateaued(state[-2 * _WINDOW - 1 :], self.tol)

    def end_pass(self, state: Floats, value: float) -> None:
        """Store the mean value of a pass."""
        _store_value(state[-2 * _WINDOW - 1 :], value)


class SGD(_BatchSolver):
    """Stochastic gradient descent with a constant learning rate.

    The state holds the parameters, the number of passes and the values of the last 20 passes.
    """

    def initial_state(self, point: Floats) -> Floats:
        """Return the state before the first step, at the given parameters."""
        return np.concatenate([point, np.zeros(2 * _WINDOW + 1)])

    def update(self, state: Floats, gradient: Floats) -> None:
        """Take one step, in place."""
        state[: self.size] -= self.rate * gradient


class Adam(_BatchSolver):
    """Adam: gradient steps scaled by running means of the gradients and of their squares.

    The state holds the parameters, both means, the number of steps, the number of passes and the values of the last 20
    passes.
    """

    def initial_state(self, point: Floats) -> Floats:
        """Return the state before the first step, at the given parameters."""
        return np.concatenate([point, np.zeros(2 * self.size + 1), np.zeros(2 * _WINDOW + 1)])

    def update(self, state: Floats, gradient: Floats) -> None:
        """Take one step, in place."""
        n = self.size
        state[3 * n] += 1
        steps = state[3 * n]
        mean, square = state[n : 2 * n], state[2 * n : 3 * n]
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient * gradient - square)
        root = np.sqrt(square / (1.0 - 0.999**steps)) + 1e-8
        state[:n] -= self.rate / (1.0 - 0.9**steps) * mean / root


def _store_value(values: Floats, value: float) -> None:
    """Count a pass in the first entry, and append its value to the others; the oldest one goes."""
    values[0] += 1
    values[1:-1] = values[2:]
    values[-1] = value


def _has_plateaued(values: Floats, tol: float) -> bool:
    """Return whether the later half of the values is no better than the earlier half; False until both are full."""
    if values[0] < 2 * _WINDOW:
        return False
    before, after = float(values[1 : _WINDOW + 1].mean()), float(values[_WINDOW + 1 :].mean())
    return bool(before - after <= tol * max(abs(before), abs(after)))
