"""Iterations that resume from a checkpoint bit for bit, among them SciPy's L-BFGS-B.

An iteration passes its state, arrays by name, to a `Checkpointer` after every step, and asks it for a state at the
start. SciPy's solver hides its state, but its path depends only on the values and gradients it receives: these are
recorded, and replayed in the same order without evaluating the objective again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats

__all__ = ["NO_CHECKPOINT", "Checkpointer", "Minimum", "State", "split_states", "join_states", "minimise"]

State = Mapping[str, NDArray[Any]]
Objective = Callable[[Floats], tuple[float, Floats]]

_DIGEST = 16


class Checkpointer(Protocol):
    """Saves and restores the state of an iteration."""

    @property
    def enabled(self) -> bool:
        """Whether states are saved."""
        ...

    def restore(self) -> State | None:
        """Return the state to resume from, or None."""
        ...

    def steps(self, total: int) -> AbstractContextManager[None]:
        """Return a context for at most `total` steps; an interrupt ends it, and the last saved state remains.

        Code after the context must use the results of finished steps only.
        """
        ...

    def save(self, done: int, state: Callable[[], State]) -> None:
        """Save the state after `done` steps; `state` is called now or never, and its arrays must not change later."""
        ...


class _NoCheckpoint:
    """A `Checkpointer` that saves nothing."""

    enabled = False

    def restore(self) -> State | None:
        return None

    def steps(self, total: int) -> AbstractContextManager[None]:
        return nullcontext()

    def save(self, done: int, state: Callable[[], State]) -> None:
        pass


NO_CHECKPOINT: Checkpointer = _NoCheckpoint()


def join_states(states: Sequence[State]) -> dict[str, NDArray[Any]]:
    """Join the states of several iterations, each with the same arrays, to one state.

    >>> whole = join_states([{"x": np.ones(2)}, {"x": np.zeros(1)}])
    >>> [part["x"].tolist() for part in split_states(whole)]
    [[1.0, 1.0], [0.0]]
    """
    out: dict[str, NDArray[Any]] = {}
    for name in states[0]:
        arrays = [state[name] for state in states]
        out[name] = np.concatenate(arrays)
        out[f"{name}.ends"] = np.cumsum([len(array) for array in arrays])
    return out


def split_states(whole: State) -> list[State]:
    """Return the states that `join_states` joined."""
    names = [name for name in whole if f"{name}.ends" in whole]
    columns = [np.split(whole[name], whole[f"{name}.ends"][:-1]) for name in names]
    return [dict(zip(names, own, strict=True)) for own in zip(*columns, strict=True)]


class _RecordedObjective:
    """An objective that records its values and gradients, and replays a record instead of evaluating again."""

    def __init__(self, objective: Objective, size: int, record: State | None) -> None:
        self.objective = objective
        self.count = self.n_calls = 0
        self.evaluated = False
        # The arrays have spare rows beyond `count`. They grow by copying, so that views from `state` stay valid.
        self.points = np.zeros((8, _DIGEST), dtype=np.uint8)
        self.values, self.gradients = np.zeros(8), np.zeros((8, size))
        if record is not None:
            self.points, self.values, self.gradients = record["points"], record["values"], record["gradients"]
            self.count = len(self.values)

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        point = np.frombuffer(blake2b(np.ascontiguousarray(x).tobytes(), digest_size=_DIGEST).digest(), dtype=np.uint8)
        call = self.n_calls
        self.n_calls += 1
        if call < self.count:
            if (self.points[call] == point).all():
                return float(self.values[call]), self.gradients[call].copy()
            # Another version of SciPy may take another path. The rest of the record is of no use then.
            self.count = call
        value, gradient = self.objective(x)
        self.evaluated = True
        if call == len(self.values):
            self.points, self.values, self.gradients = (_grown(a) for a in (self.points, self.values, self.gradients))
        self.points[call], self.values[call], self.gradients[call] = point, value, gradient
        self.count = call + 1
        return value, gradient

    def state(self) -> dict[str, NDArray[Any]]:
        n = self.count
        return {"points": self.points[:n], "values": self.values[:n], "gradients": self.gradients[:n]}


def _grown(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.zeros((len(array) + 8, *array.shape[1:]), dtype=array.dtype)])


class Minimum(NamedTuple):
    """The result of a minimisation."""

    x: Floats
    value: float
    gradient: Floats
    n_iter: int


def minimise(
    objective: Objective,
    start: Floats,
    *,
    options: Mapping[str, Any],
    bounds: tuple[float | None, float | None] | None = None,
    callback: Callable[[int, float], None] | None = None,
    checkpoint: Checkpointer = NO_CHECKPOINT,
    extra_state: Callable[[], State] | None = None,
) -> Minimum:
    """Minimise by SciPy's L-BFGS-B, with checkpoints to resume from.

    Parameters
    ----------
    objective : callable
        Returns the value and the gradient at a point.
    start : float64[n]
        The initial point.
    options : mapping
        SciPy's options; "maxiter" is required.
    bounds : pair, optional
        The lower and the upper bound of every coordinate.
    callback : callable, optional
        Called after every step, replayed ones included, with its number and value.
    checkpoint : Checkpointer
        Saves all values and gradients, O(n) for each evaluation.
    extra_state : callable, optional
        Returns further state of the objective to save; the caller restores it from `checkpoint.restore()`.

    Examples
    --------
    >>> found = minimise(lambda x: (float(x @ x), 2 * x), np.ones(2), options={"maxiter": 50})
    >>> found.x.round(6).tolist(), found.n_iter
    ([0.0, 0.0], 2)
    """
    from scipy.optimize import minimize

    recorded = _RecordedObjective(objective, len(start), checkpoint.restore()) if checkpoint.enabled else None
    best, steps = start, 0

    def step(intermediate_result: Any) -> None:
        nonlocal best, steps
        best, steps = np.array(intermediate_result.x), steps + 1
        if recorded is None:
            checkpoint.save(steps, dict)
        elif recorded.evaluated:
            checkpoint.save(steps, lambda: recorded.state() | dict(extra_state() if extra_state else {}))
        if callback is not None:
            callback(steps, float(intermediate_result.fun))

    found: Any = None
    with checkpoint.steps(int(options["maxiter"])):
        found = minimize(
            objective if recorded is None else recorded,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=None if bounds is None else [bounds] * len(start),
            callback=step,
            options=dict(options),
        )
    if found is None:
        return Minimum(best, *objective(best), steps)
    return Minimum(np.asarray(found.x), float(found.fun), np.asarray(found.jac), int(found.nit))
