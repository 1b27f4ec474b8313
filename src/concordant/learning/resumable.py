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
    """Whoever keeps the state of an iteration."""

    @property
    def enabled(self) -> bool:
        """Whether anything is kept."""
        ...

    def restore(self) -> State | None:
        """Return the state to go on from, or None to begin."""
        ...

    def steps(self, total: int) -> AbstractContextManager[None]:
        """Return a block for the steps, at most so many: an interrupt ends it, and what was noted last is kept.

        What stands after the block must rest on whole steps only.
        """
        ...

    def save(self, done: int, state: Callable[[], State]) -> None:
        """Keep the state after so many steps; `state` is called at once or never, and its arrays stay as they are."""
        ...


class _NoCheckpoint:
    """Keeps nothing."""

    enabled = False

    def restore(self) -> State | None:
        return None

    def steps(self, total: int) -> AbstractContextManager[None]:
        return nullcontext()

    def save(self, done: int, state: Callable[[], State]) -> None:
        pass


NO_CHECKPOINT: Checkpointer = _NoCheckpoint()


def join_states(states: Sequence[State]) -> dict[str, NDArray[Any]]:
    """Return the states of pieces as one.

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
    """Return the states of the pieces that were joined."""
    names = [name for name in whole if f"{name}.ends" in whole]
    columns = [np.split(whole[name], whole[f"{name}.ends"][:-1]) for name in names]
    return [dict(zip(names, own, strict=True)) for own in zip(*columns, strict=True)]


class _RecordedObjective:
    """An objective whose values are written down and, where they are known already, not computed again."""

    def __init__(self, objective: Objective, size: int, known: State | None) -> None:
        self.objective = objective
        self.count = self.asked = 0
        self.further = False
        # Rows behind the count are room: what was handed out keeps its rows when more are written.
        self.points = np.zeros((8, _DIGEST), dtype=np.uint8)
        self.values, self.gradients = np.zeros(8), np.zeros((8, size))
        if known is not None:
            self.points, self.values, self.gradients = known["points"], known["values"], known["gradients"]
            self.count = len(self.values)

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        point = np.frombuffer(blake2b(np.ascontiguousarray(x).tobytes(), digest_size=_DIGEST).digest(), dtype=np.uint8)
        at = self.asked
        self.asked += 1
        if at < self.count:
            if (self.points[at] == point).all():
                return float(self.values[at]), self.gradients[at].copy()
            # Another version of the library goes another way: what it asks from here on was not asked before.
            self.count = at
        value, gradient = self.objective(x)
        self.further = True
        if at == len(self.values):
            self.points, self.values, self.gradients = (_longer(a) for a in (self.points, self.values, self.gradients))
        self.points[at], self.values[at], self.gradients[at] = point, value, gradient
        self.count = at + 1
        return value, gradient

    def state(self) -> dict[str, NDArray[Any]]:
        n = self.count
        return {"points": self.points[:n], "values": self.values[:n], "gradients": self.gradients[:n]}


def _longer(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.zeros((len(array) + 8, *array.shape[1:]), dtype=array.dtype)])


class Minimum(NamedTuple):
    """Where a minimisation ended."""

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
    """Return the minimum that SciPy's L-BFGS-B finds, which can be broken off and taken up again.

    Parameters
    ----------
    objective : callable
        Gives the value and the gradient at a point.
    start : float64[n]
        Where to begin.
    options : mapping
        Those of SciPy, "maxiter" among them.
    bounds : pair, optional
        The lowest and the highest value of every coordinate.
    callback : callable, optional
        Hears the number of every step and the value it came to, also of steps that are only gone through again.
    checkpoint : Checkpointer
        Keeps every value and gradient, O(n) for each point that is looked at.
    extra_state : callable, optional
        Gives what else the objective goes on from; whoever gives it takes it from `checkpoint.restore()` as well.

    Examples
    --------
    >>> found = minimise(lambda x: (float(x @ x), 2 * x), np.ones(2), options={"maxiter": 50})
    >>> found.x.round(6).tolist(), found.n_iter
    ([0.0, 0.0], 2)
    """
    from scipy.optimize import minimize

    written = _RecordedObjective(objective, len(start), checkpoint.restore()) if checkpoint.enabled else None
    best, steps = start, 0

    def step(intermediate_result: Any) -> None:
        nonlocal best, steps
        best, steps = np.array(intermediate_result.x), steps + 1
        if written is None:
            checkpoint.save(steps, dict)
        elif written.further:
            checkpoint.save(steps, lambda: written.state() | dict(extra_state() if extra_state else {}))
        if callback is not None:
            callback(steps, float(intermediate_result.fun))

    found: Any = None
    with checkpoint.steps(int(options["maxiter"])):
        found = minimize(
            objective if written is None else written,
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
