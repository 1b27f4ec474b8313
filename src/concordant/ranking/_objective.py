"""The loss of a ranker as a function of one flat array of parameters, and the learner that minimises it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.execution import map_instances, without_progress
from concordant.kernels.graded_lists import GradedLists
from concordant.kernels.splitmix64 import STEP, mixed
from concordant.learning.optimisers import LBFGS, SGD, Adam
from concordant.ranking.design_matrix import DesignMatrix, reproducible_product

if TYPE_CHECKING:
    from concordant.ranking.base import Ranker

__all__ = ["RankerLearner", "Network", "RankerObjective"]

# Rows of lists that a thread goes through at a time.
_STRETCH = 1 << 13
# Lists that are looked at to see how steep the loss is.
_PROBES = 200


class Network(NamedTuple):
    """The parameters of a scorer and of its loss; without a hidden layer bias and top are empty."""

    w: Floats
    bias: Floats
    top: Floats
    extra: Floats

    def scores(self, design: DesignMatrix, steady: bool = False) -> Floats:
        """Return the score of every row; where asked for, at a higher cost, so that its bits depend on the row only."""
        inner = design.reproducible_times(self.w) if steady else design.times(self.w)
        if not self.top.size:
            return inner
        inner += self.bias
        np.tanh(inner, out=inner)
        return reproducible_product(inner, self.top)


class _ListBatch(NamedTuple):
    """Some of the lists, as their loss takes them, their rows (None for all), and how many lists there are."""

    prepared: Any
    rows: Ints | None
    n_lists: int
    # The lists at which stretches begin that threads go through one at a time, and the end.
    edges: tuple[int, ...] = ()

    @classmethod
    def of(cls, prepared: Any, rows: Ints | None, n_lists: int) -> _ListBatch:
        return cls(
            prepared, rows, n_lists, tuple(prepared.edges(_STRETCH)) if isinstance(prepared, GradedLists) else ()
        )

    @property
    def n_stretches(self) -> int:
        """How many stretches there are, at least one."""
        return max(len(self.edges) - 1, 1)

    def stretch(self, design: DesignMatrix, k: int) -> tuple[DesignMatrix, Any, Ints | None]:
        """Return the rows of the design that a stretch lies in, its lists, and which of these rows are theirs.

        None stands for all of them.
        """
        lists, rows = self.prepared, self.rows
        if self.n_stretches > 1:
            first, last = self.edges[k : k + 2]
            a, b = int(lists.offsets[first]), int(lists.offsets[last])
            lists = lists.window(first, last)
            if rows is None:
                return design.at(slice(a, b)), lists, None
            rows = rows[a:b]
        if rows is None:
            return design, lists, None
        # Lists are taken in their order, so that stretches lie one behind the other.
        begin, end = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
        return design.at(slice(begin, end)), lists, rows - begin


class RankerObjective:
    """The loss of a scorer on the training lists, as a function of one flat array of parameters.

    Parameters
    ----------
    owner : Ranker
        Whose loss it is.
    design : DesignMatrix
        The columns of the rows of the lists.
    lists : GradedLists
        The lists.
    list_of : int64[instances]
        Which list an instance is.
    """

    def __init__(self, owner: Ranker, design: DesignMatrix, lists: GradedLists, list_of: Ints) -> None:
        self.owner, self.design, self.lists, self._list_of = owner, design, lists, list_of
        self.units = owner.hidden
        self.n_weights = design.n_columns * max(self.units, 1)
        self.size = self.n_weights + 2 * self.units + owner._n_extra
        # Asked for again and again: the lists of every part learned from, and each list alone.
        self._taken: list[tuple[Ints, _ListBatch]] = []
        self._single: dict[int, tuple[_ListBatch, slice]] = {}

    def start(self) -> Floats:
        """Return weights of 0, or small random ones where a layer stands between."""
        out = np.zeros(self.size)
        if self.units:
            net = self.net(out)
            columns = len(net.w)
            rng = np.random.default_rng([self.owner.random_state, columns, self.units])
            net.w[:] = rng.normal(size=net.w.shape) / np.sqrt(max(columns, 1))
            net.top[:] = rng.normal(size=self.units) / np.sqrt(self.units)
        return out

    def net(self, parameters: Floats) -> Network:
        """Return the parameters by name, as views."""
        n, units = self.n_weights, self.units
        w = parameters[:n].reshape(-1, units) if units else parameters[:n]
        return Network(w, parameters[n : n + units], parameters[n + units : n + 2 * units], parameters[n + 2 * units :])

    def value(self, parameters: Floats, instances: Ints, l2: float, turn: int) -> tuple[float, Floats]:
        """Return the mean loss of the instances with the penalty, and its gradient."""
        return self._value(self.design, self._lists_of(instances), parameters, l2, turn)

    def batch_value(self, parameters: Floats, which: Ints, l2: float, turn: int) -> tuple[float, Floats]:
        """Return the same for a few lists, given by their numbers."""
        rows: slice | Ints | None
        if len(which) == 1:
            lists, rows = self._alone(int(which[0]))
        else:
            lists = self._take(which)
            lists, rows = lists._replace(rows=None), lists.rows
        design = self.design if rows is None else self.design.at(rows)
        return self._value(design, lists, parameters, l2, turn)

    def usual_gradient(self) -> float:
        """Return how long the gradient of a single list is at the start, on average over some lists."""
        which = self.order(np.flatnonzero(self._list_of >= 0), 0)[:_PROBES]
        at = self.start()
        return float(
            np.mean([np.linalg.norm(self.batch_value(at, which[k : k + 1], 0.0, 0)[1]) for k in range(len(which))])
        )

    def order(self, instances: Ints, number: int) -> Ints:
        """Return the lists of the instances in an order drawn from their ids and the number of the pass."""
        which = self._list_of[instances]
        seed = np.array([self.owner.random_state % 2**64], dtype=np.uint64)
        chance = mixed(mixed(seed * STEP + np.uint64(number + 1)))
        return which[np.lexsort((which, mixed(self.lists.key[which] ^ chance)))]

    def _lists_of(self, instances: Ints) -> _ListBatch:
        for known, lists in self._taken:
            if known is instances:
                return lists
        lists = self._take(np.sort(self._list_of[instances]))
        self._taken.append((instances, lists))
        return lists

    def _take(self, which: Ints) -> _ListBatch:
        if len(which) == len(self.lists.key):
            return _ListBatch.of(self.owner._prepared(self.lists), None, len(which))
        graded, rows = self.lists.take(which)
        return _ListBatch.of(self.owner._prepared(graded), rows, len(which))

    def _alone(self, number: int) -> tuple[_ListBatch, slice]:
        if number not in self._single:
            first, last = self.lists.offsets[number : number + 2].tolist()
            lists = self._take(np.array([number]))
            self._single[number] = lists._replace(rows=None), slice(first, last)
        return self._single[number]

    def _value(
        self, design: DesignMatrix, lists: _ListBatch, parameters: Floats, l2: float, turn: int
    ) -> tuple[float, Floats]:
        """Return the mean loss of the lists with the penalty, and its gradient; the cores share the stretches.

        Stretches are the same whatever the number of threads, and so is their sum, taken in their order.
        """
        net, n = self.net(parameters), lists.n_stretches
        if n == 1:
            loss, out = self._part(*lists.stretch(design, 0), lists.n_lists, net, turn)
        else:
            with without_progress():
                parts = map_instances(lambda k: self._part(*lists.stretch(design, k), lists.n_lists, net, turn), n)
            loss, out = sum(loss for loss, _ in parts), np.sum([gradient for _, gradient in parts], axis=0)
        out[: self.n_weights] += l2 * parameters[: self.n_weights]
        if self.units:
            self.net(out).top[:] += l2 * net.top
        penalty = 0.5 * l2 * (float((net.w * net.w).sum()) + float(net.top @ net.top))
        return loss / lists.n_lists + penalty, out

    def _part(
        self, design: DesignMatrix, lists: Any, own: Ints | None, n_lists: int, net: Network, turn: int
    ) -> tuple[float, Floats]:
        """Return the loss of some of n lists, and what they add to the gradient of the mean; `own` are their rows."""
        score = design.times(net.w)
        if self.units:
            units = score
            units += net.bias
            np.tanh(units, out=units)
            score = units @ net.top
        gradient = np.empty(len(score) if own is None else len(own))
        loss, by_extra = self.owner._loss(score if own is None else score[own], lists, gradient, net.extra, turn)
        gradient /= n_lists
        if own is not None:
            everywhere = np.zeros(len(score))
            everywhere[own] = gradient
            gradient = everywhere
        out = np.empty(self.size)
        gradients = self.net(out)
        if self.units:
            gradients.top[:] = gradient @ units
            # From here on the gradient by what enters the units.
            units *= -units
            units += 1.0
            units *= net.top
            units *= gradient[:, None]
            gradients.w[:], gradients.bias[:] = design.transposed_times(units), units.sum(axis=0)
        else:
            gradients.w[:] = design.transposed_times(gradient)
        gradients.extra[:] = by_extra / n_lists
        return loss, out


class RankerLearner:
    """One penalty.

    Parameters
    ----------
    task : RankerObjective
        What is minimised.
    l2 : float
        The penalty.
    told : bool
        Whether the penalty is one of several, and so something chosen.
    held : DesignMatrix, optional
        The columns of the validation part.
    rows : int64[], n_slots : int
        The slots of the rows of the task, and how many there are.
    """

    def __init__(
        self, task: RankerObjective, l2: float, told: bool, held: DesignMatrix | None, rows: Ints, n_slots: int
    ) -> None:
        self.chosen: dict[str, Any] = {"l2": l2} if told else {}
        self.l2, self._task, self._held, self._rows, self._n_slots = l2, task, held, rows, n_slots
        # Products of matrices run on all cores; two of them at once would wait for each other.
        self.threaded = task.units > 0
        owner, kind = task.owner, task.owner._chosen_solver()
        self.solver: LBFGS | SGD | Adam
        if kind == "lbfgs":
            self.solver = LBFGS(task.size, owner.tol)
        elif kind == "adam":
            self.solver = Adam(task.size, owner.tol, owner.learning_rate or 0.01)
        else:
            # A sum over pairs is hundreds of times as steep as a choice in stages; steps begin alike all the same.
            self.solver = SGD(task.size, owner.tol, owner.learning_rate or 0.1 / max(task.usual_gradient(), 1e-12))

    def start(self) -> Floats:
        """Return the state before the first pass."""
        return self.solver.initial_state(self._task.start())

    def advance(self, parameters: Floats, instances: Ints, number: int) -> Floats:
        """Return the state after one more step, or one more pass over the instances."""
        task, solver = self._task, self.solver
        if isinstance(solver, LBFGS):
            return solver.step(parameters, lambda at: task.value(at, instances, self.l2, number))
        visit = task.order(instances, number)
        total = 0.0
        for first in range(0, len(visit), task.owner.batch):
            part = visit[first : first + task.owner.batch]
            value, gradient = task.batch_value(solver.point(parameters), part, self.l2, number)
            solver.update(parameters, gradient)
            total += value * len(part)
        solver.end_pass(parameters, total / max(len(visit), 1))
        return parameters

    def scores(self, parameters: Floats, part: str, instances: Ints | None) -> Floats:
        """Return a score for every slot of a part; in the training part 0 for those not learned from."""
        net = self._task.net(self.solver.point(parameters))
        if part == "validation" and self._held is not None:
            return net.scores(self._held)
        out = np.zeros(self._n_slots)
        out[self._rows] = net.scores(self._task.design)
        return out

    def finished(self, parameters: Floats) -> bool:
        """Return whether the last step changed nothing worth while."""
        return self.solver.finished(parameters)

    def objective(self, parameters: Floats) -> float:
        """Return the mean loss with the penalty, after a step, or on average over a pass."""
        return self.solver.value(parameters)
