"""One loss on one set of lists, as a function of a flat array of parameters, and the learner that goes down it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.kernels.graded import Graded
from concordant.kernels.lists import Floats, Ints
from concordant.kernels.scramble import STEP, mixed
from concordant.ranking.descent import LBFGS, SGD, Adam
from concordant.ranking.designs import Design

if TYPE_CHECKING:
    from concordant.ranking.ranker import Ranker

__all__ = ["Learner", "Task", "bent"]


class _Net(NamedTuple):
    """The parameters of a scorer and of its loss; without a hidden layer bias and top are empty."""

    w: Floats
    bias: Floats
    top: Floats
    extra: Floats


class Lists(NamedTuple):
    """Some of the lists, as their loss takes them, the slot of each of their rows, and how many lists there are."""

    prepared: Any
    rows: Ints
    n_lists: int


class Task:
    """The loss of a scorer on the training lists, as a function of one flat array of parameters."""

    def __init__(
        self,
        owner: Ranker,
        parts: dict[str, Design],
        lists: Graded,
        rows: Ints,
        instances: Ints,
        n_instances: int,
    ) -> None:
        self.owner, self.parts, self.lists, self.rows = owner, parts, lists, rows
        self.units = owner.hidden
        columns = parts["train"].n_columns
        self.n_weights = columns * max(self.units, 1)
        self.size = self.n_weights + 2 * self.units + owner._n_extra
        self._list_of = np.full(n_instances, -1, dtype=np.int64)
        self._list_of[instances] = np.arange(len(instances))
        self._n_slots = len(parts["train"].times(np.zeros(columns)))
        self._taken: list[tuple[Ints, Lists]] = []
        self._single: dict[int, Lists] = {}

    def start(self) -> Floats:
        """Return weights of 0, or small random ones before a hidden layer, a column's drawn from its name."""
        out = np.zeros(self.size)
        if self.units:
            columns = self.n_weights // self.units
            out[: self.n_weights] = _drawn(columns, self.units, self.owner.random_state).ravel() / np.sqrt(columns)
            top = out[self.n_weights + self.units : self.n_weights + 2 * self.units]
            top[:] = _drawn(1, self.units, self.owner.random_state + 1)[0] / np.sqrt(self.units)
        return out

    def net(self, parameters: Floats) -> _Net:
        """Return the parameters by name, as views."""
        n, units = self.n_weights, self.units
        w = parameters[:n].reshape(-1, units) if units else parameters[:n]
        return _Net(w, parameters[n : n + units], parameters[n + units : n + 2 * units], parameters[n + 2 * units :])

    def scores(self, parameters: Floats, part: str) -> Floats:
        """Return the scores of a part."""
        net = self.net(parameters)
        return bent(self.parts[part], net.w, net.bias, net.top)[0] if self.units else self.parts[part].times(net.w)

    def lists_of(self, instances: Ints) -> Lists:
        """Return the lists of some instances; kept, as the same ones are asked for at every step."""
        for known, lists in self._taken:
            if known is instances:
                return lists
        which = self._list_of[instances]
        # In the order of ids, so that sums do not depend on that of the instances.
        lists = self._take(which[np.argsort(self.lists.key[which], kind="stable")])
        self._taken.append((instances, lists))
        return lists

    def _take(self, which: Ints) -> Lists:
        graded, taken = self.lists.take(which)
        return Lists(self.owner._prepared(graded), self.rows[taken], len(which))

    def value(self, parameters: Floats, instances: Ints, l2: float, turn: int) -> tuple[float, Floats]:
        """Return the mean loss of the instances with the penalty, and its gradient."""
        return self._value(self.parts["train"], self.lists_of(instances), False, parameters, l2, turn)

    def batch_value(self, parameters: Floats, which: Ints, l2: float, turn: int) -> tuple[float, Floats]:
        """Return the same for a few lists, given by their numbers."""
        if len(which) == 1:
            number = int(which[0])
            if number not in self._single:
                self._single[number] = self._take(which)
            lists = self._single[number]
        else:
            lists = self._take(which)
        return self._value(self.parts["train"].at(lists.rows), lists, True, parameters, l2, turn)

    def _value(
        self, design: Design, lists: Lists, alone: bool, parameters: Floats, l2: float, turn: int
    ) -> tuple[float, Floats]:
        net = self.net(parameters)
        if self.units:
            score, units = bent(design, net.w, net.bias, net.top)
        else:
            score = design.times(net.w)
        own = score if alone else score[lists.rows]
        slope = np.empty(len(own))
        loss, by_extra = self.owner._loss(own, lists.prepared, slope, net.extra, turn)
        slope /= lists.n_lists
        if not alone:
            everywhere = np.zeros(len(score))
            everywhere[lists.rows] = slope
            slope = everywhere
        out = np.empty(self.size)
        parts = self.net(out)
        if self.units:
            inner = slope[:, None] * net.top * (1.0 - units * units)
            parts.w[:], parts.bias[:], parts.top[:] = design.against(inner), inner.sum(axis=0), slope @ units
            parts.w[:] += l2 * net.w
            parts.top[:] += l2 * net.top
        else:
            parts.w[:] = design.against(slope) + l2 * net.w
        parts.extra[:] = by_extra / lists.n_lists
        penalty = 0.5 * l2 * (float((net.w * net.w).sum()) + float(net.top @ net.top))
        return loss / lists.n_lists + penalty, out

    def order(self, instances: Ints, number: int) -> Ints:
        """Return the lists of the instances in an order drawn from their ids and the number of the pass."""
        which = self._list_of[instances]
        chance = mixed(np.array([self.owner.random_state], dtype=np.uint64) * STEP + np.uint64(number + 1))
        return which[np.argsort(mixed(self.lists.key[which] ^ mixed(chance)), kind="stable")]


class Learner:
    """One penalty."""

    def __init__(self, task: Task, l2: float, told: bool) -> None:
        self.chosen: dict[str, Any] = {"l2": l2} if told else {}
        self.l2, self._task = l2, task
        owner, kind = task.owner, task.owner._chosen_solver()
        self.word = "steps" if kind == "lbfgs" else "passes"
        rate = owner.learning_rate or (0.01 if kind == "adam" else 0.1)
        self.solver: LBFGS | SGD | Adam
        if kind == "lbfgs":
            self.solver = LBFGS(task.size, owner.tol)
        else:
            self.solver = (Adam if kind == "adam" else SGD)(task.size, owner.tol, rate)

    def start(self) -> Floats:
        return self.solver.begin(self._task.start())

    def advance(self, parameters: Floats, instances: Ints, number: int) -> Floats:
        task, solver = self._task, self.solver
        if isinstance(solver, LBFGS):
            return solver.step(parameters, lambda at: task.value(at, instances, self.l2, number))
        visit = task.order(instances, number)
        total = 0.0
        for first in range(0, len(visit), task.owner.batch):
            part = visit[first : first + task.owner.batch]
            value, slope = task.batch_value(solver.point(parameters), part, self.l2, number)
            solver.move(parameters, slope)
            total += value * len(part)
        solver.end_pass(parameters, total / max(len(visit), 1))
        return parameters

    def scores(self, parameters: Floats, part: str, instances: Ints | None) -> Floats:
        return self._task.scores(self.solver.point(parameters), part)

    def finished(self, parameters: Floats) -> bool:
        return self.solver.finished(parameters)


def bent(design: Design, w: Floats, bias: Floats, top: Floats) -> tuple[Floats, Floats]:
    """Return the scores through a hidden layer, and what its units give."""
    units: Floats = np.tanh(design.times(w) + bias)
    return units @ top, units


def _drawn(columns: int, units: int, random_state: int) -> Floats:
    return np.random.default_rng([random_state, columns, units]).normal(size=(columns, units))
