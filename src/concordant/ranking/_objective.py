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

# Rows that a thread processes at a time.
_CHUNK_ROWS = 1 << 13
# Number of lists from which the mean length of the gradient is estimated.
_PROBES = 200


class Network(NamedTuple):
    """Parameters of the score, w · x or Σ_h top_h tanh(bias_h + w_h · x), and of the loss (extra).

    Without a hidden layer `bias` and `top` are empty.
    """

    w: Floats
    bias: Floats
    top: Floats
    extra: Floats

    def scores(self, design: DesignMatrix, reproducible: bool = False) -> Floats:
        """Return the score of every row; `reproducible` scores do not depend on the other rows, and cost more."""
        units = design.reproducible_times(self.w) if reproducible else design.times(self.w)
        if not self.top.size:
            return units
        units += self.bias
        np.tanh(units, out=units)
        return reproducible_product(units, self.top)


class _ListBatch(NamedTuple):
    """Some of the training lists, in chunks for the threads.

    Attributes
    ----------
    prepared : object
        The lists in the form that the loss takes (`Ranker._prepared`).
    rows : int64[] or None
        Their rows of the design matrix; None for all rows.
    n_lists : int
        The number of lists.
    edges : tuple of int
        The first list of every chunk, and the number of lists; empty if the loss needs all lists at once.
    """

    prepared: Any
    rows: Ints | None
    n_lists: int
    edges: tuple[int, ...] = ()

    @classmethod
    def of(cls, prepared: Any, rows: Ints | None, n_lists: int) -> _ListBatch:
        return cls(
            prepared, rows, n_lists, tuple(prepared.edges(_CHUNK_ROWS)) if isinstance(prepared, GradedLists) else ()
        )

    @property
    def n_chunks(self) -> int:
        """The number of chunks, at least one."""
        return max(len(self.edges) - 1, 1)

    def chunk(self, design: DesignMatrix, k: int) -> tuple[DesignMatrix, Any, Ints | None]:
        """Return chunk k: a slice of the design matrix, the lists, and their rows within the slice (None for all)."""
        lists, rows = self.prepared, self.rows
        if self.n_chunks > 1:
            first, last = self.edges[k : k + 2]
            a, b = int(lists.offsets[first]), int(lists.offsets[last])
            lists = lists.window(first, last)
            if rows is None:
                return design.at(slice(a, b)), lists, None
            rows = rows[a:b]
        if rows is None:
            return design, lists, None
        # Rows are ascending, so that a slice holds those of the chunk, with few others.
        begin, end = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
        return design.at(slice(begin, end)), lists, rows - begin


class RankerObjective:
    """The loss of a scorer on the training lists, as a function of one flat array of parameters.

    Parameters
    ----------
    owner : Ranker
        The ranker, which defines the loss.
    design : DesignMatrix
        The design matrix, with the rows of `lists`.
    lists : GradedLists
        The training lists.
    list_of : int64[instances]
        The list of every instance, -1 for instances that are not used.
    """

    def __init__(self, owner: Ranker, design: DesignMatrix, lists: GradedLists, list_of: Ints) -> None:
        self.owner, self.design, self.lists, self._list_of = owner, design, lists, list_of
        self.units = owner.hidden
        self.n_weights = design.n_columns * max(self.units, 1)
        self.size = self.n_weights + 2 * self.units + owner._n_extra
        # Caches: batches by their instances, and batches of a single list by its number.
        self._batches: list[tuple[Ints, _ListBatch]] = []
        self._single_lists: dict[int, tuple[_ListBatch, slice]] = {}

    def start(self) -> Floats:
        """Return the initial parameters: zeros, or small random weights with a hidden layer."""
        out = np.zeros(self.size)
        if self.units:
            net = self.net(out)
            columns = len(net.w)
            rng = np.random.default_rng([self.owner.random_state, columns, self.units])
            net.w[:] = rng.normal(size=net.w.shape) / np.sqrt(max(columns, 1))
            net.top[:] = rng.normal(size=self.units) / np.sqrt(self.units)
        return out

    def net(self, parameters: Floats) -> Network:
        """Return the parameters as a `Network` of views."""
        n, units = self.n_weights, self.units
        w = parameters[:n].reshape(-1, units) if units else parameters[:n]
        return Network(w, parameters[n : n + units], parameters[n + units : n + 2 * units], parameters[n + 2 * units :])

    def value(self, parameters: Floats, instances: Ints, l2: float, turn: int) -> tuple[float, Floats]:
        """Return the penalised mean loss of the instances and its gradient; `turn` is the number of the pass."""
        return self._value(self.design, self._batch_of(instances), parameters, l2, turn)

    def batch_value(self, parameters: Floats, which: Ints, l2: float, turn: int) -> tuple[float, Floats]:
        """Return the penalised mean loss of a few lists, given by their numbers, and its gradient."""
        rows: slice | Ints | None
        if len(which) == 1:
            lists, rows = self._single_list(int(which[0]))
        else:
            lists = self._batch(which)
            lists, rows = lists._replace(rows=None), lists.rows
        design = self.design if rows is None else self.design.at(rows)
        return self._value(design, lists, parameters, l2, turn)

    def mean_gradient_norm(self) -> float:
        """Return the mean norm of the gradient of a single list at the initial parameters, over some lists."""
        which = self.order(np.flatnonzero(self._list_of >= 0), 0)[:_PROBES]
        at = self.start()
        return float(
            np.mean([np.linalg.norm(self.batch_value(at, which[k : k + 1], 0.0, 0)[1]) for k in range(len(which))])
        )

    def order(self, instances: Ints, number: int) -> Ints:
        """Return the lists of the instances in a random order that depends on their ids and the number of the pass."""
        which = self._list_of[instances]
        seed = np.array([self.owner.random_state % 2**64], dtype=np.uint64)
        pass_bits = mixed(mixed(seed * STEP + np.uint64(number + 1)))
        return which[np.lexsort((which, mixed(self.lists.key[which] ^ pass_bits)))]

    def _batch_of(self, instances: Ints) -> _ListBatch:
        """Return the lists of some instances, from the cache if the same array was passed before."""
        for known, batch in self._batches:
            if known is instances:
                return batch
        batch = self._batch(np.sort(self._list_of[instances]))
        self._batches.append((instances, batch))
        return batch

    def _batch(self, which: Ints) -> _ListBatch:
        """Return the lists with these numbers, in the form that the loss takes."""
        if len(which) == len(self.lists.key):
            return _ListBatch.of(self.owner._prepared(self.lists), None, len(which))
        graded, rows = self.lists.take(which)
        return _ListBatch.of(self.owner._prepared(graded), rows, len(which))

    def _single_list(self, number: int) -> tuple[_ListBatch, slice]:
        """Return one list and its rows of the design matrix, from the cache if possible."""
        if number not in self._single_lists:
            first, last = self.lists.offsets[number : number + 2].tolist()
            batch = self._batch(np.array([number]))
            self._single_lists[number] = batch._replace(rows=None), slice(first, last)
        return self._single_lists[number]

    def _value(
        self, design: DesignMatrix, lists: _ListBatch, parameters: Floats, l2: float, turn: int
    ) -> tuple[float, Floats]:
        """Return the penalised mean loss of the lists and its gradient, with chunks computed in several threads.

        Neither the chunks nor the order of their sum depends on the number of threads.
        """
        net, n = self.net(parameters), lists.n_chunks
        if n == 1:
            loss, out = self._chunk_loss(*lists.chunk(design, 0), lists.n_lists, net, turn)
        else:
            with without_progress():
                parts = map_instances(lambda k: self._chunk_loss(*lists.chunk(design, k), lists.n_lists, net, turn), n)
            loss, out = sum(loss for loss, _ in parts), np.sum([gradient for _, gradient in parts], axis=0)
        out[: self.n_weights] += l2 * parameters[: self.n_weights]
        if self.units:
            self.net(out).top[:] += l2 * net.top
        penalty = 0.5 * l2 * (float((net.w * net.w).sum()) + float(net.top @ net.top))
        return loss / lists.n_lists + penalty, out

    def _chunk_loss(
        self, design: DesignMatrix, lists: Any, own: Ints | None, n_lists: int, net: Network, turn: int
    ) -> tuple[float, Floats]:
        """Return the loss of the lists of a chunk, and their contribution to the gradient of the mean over n lists.

        `own` are the rows of the lists in `design`; None for all.
        """
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
            own_gradient, gradient = gradient, np.zeros(len(score))
            gradient[own] = own_gradient
        out = np.empty(self.size)
        gradients = self.net(out)
        if self.units:
            gradients.top[:] = gradient @ units
            # `units` now becomes the gradient with respect to the input of the units, by the derivative of tanh.
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
    """The learner of one penalty.

    Parameters
    ----------
    objective : RankerObjective
        The objective to minimise.
    l2 : float
        The penalty.
    is_candidate : bool
        Whether there are several penalties to select from.
    validation : DesignMatrix, optional
        The design matrix of the validation data.
    rows : int64[], n_slots : int
        The slot of every row of the objective, and the number of slots.
    """

    def __init__(
        self,
        objective: RankerObjective,
        l2: float,
        is_candidate: bool,
        validation: DesignMatrix | None,
        rows: Ints,
        n_slots: int,
    ) -> None:
        self.chosen: dict[str, Any] = {"l2": l2} if is_candidate else {}
        self.l2, self._objective, self._validation, self._rows, self._n_slots = l2, objective, validation, rows, n_slots
        # With a hidden layer, matrix products use all cores; two at once would wait for each other.
        self.threaded = objective.units > 0
        owner, kind = objective.owner, objective.owner._chosen_solver()
        self.solver: LBFGS | SGD | Adam
        if kind == "lbfgs":
            self.solver = LBFGS(objective.size, owner.tol)
        elif kind == "adam":
            self.solver = Adam(objective.size, owner.tol, owner.learning_rate or 0.01)
        else:
            # Gradients of pairwise losses may be hundreds of times as long as those of listwise losses. This rate makes
            # the first steps about equally long for all losses.
            self.solver = SGD(
                objective.size, owner.tol, owner.learning_rate or 0.1 / max(objective.mean_gradient_norm(), 1e-12)
            )

    def start(self) -> Floats:
        """Return the state of the solver before the first pass."""
        return self.solver.initial_state(self._objective.start())

    def advance(self, parameters: Floats, instances: Ints, number: int) -> Floats:
        """Return the state after one step of L-BFGS, or after one pass of SGD or Adam."""
        objective, solver = self._objective, self.solver
        if isinstance(solver, LBFGS):
            return solver.step(parameters, lambda at: objective.value(at, instances, self.l2, number))
        order = objective.order(instances, number)
        total = 0.0
        for first in range(0, len(order), objective.owner.batch):
            part = order[first : first + objective.owner.batch]
            value, gradient = objective.batch_value(solver.point(parameters), part, self.l2, number)
            solver.update(parameters, gradient)
            total += value * len(part)
        solver.end_pass(parameters, total / max(len(order), 1))
        return parameters

    def scores(self, parameters: Floats, part: str, instances: Ints | None) -> Floats:
        """Return a score for every slot of a part; in the training part, slots that are not used score 0."""
        net = self._objective.net(self.solver.point(parameters))
        if part == "validation" and self._validation is not None:
            return net.scores(self._validation)
        out = np.zeros(self._n_slots)
        out[self._rows] = net.scores(self._objective.design)
        return out

    def finished(self, parameters: Floats) -> bool:
        """Return whether the solver has met its tolerance."""
        return self.solver.finished(parameters)

    def objective(self, parameters: Floats) -> float:
        """Return the penalised mean loss after the last step, or its mean over the last pass."""
        return self.solver.value(parameters)
