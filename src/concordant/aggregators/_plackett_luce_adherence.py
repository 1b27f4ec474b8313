"""Learns the adherence of experts in Plackett-Luce: Newton on the profile likelihood, over blocks of instances.

The state of a block is a function of its previous state and of the adherence: blocks may be in memory or on workers,
and a lost block is recomputed exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators._pairwise_votes import LARGE, each_instance
from concordant.arrays import Floats, Ints
from concordant.execution import InMemory, Shards, report_progress, threads
from concordant.kernels import lists
from concordant.learning.newton import NewtonResult, NewtonState, NewtonStep, maximise
from concordant.learning.optimisers import max_norm
from concordant.learning.resumable import Checkpointer, State, join_states, split_states

if TYPE_CHECKING:
    from concordant.aggregators._plackett_luce_fit import Optimum, PenalisedLikelihood

__all__ = ["AdherenceLearner", "PlackettLuceBlock"]

T = TypeVar("T")

# Up to this many experts the Hessian over their adherence is dense; beyond, diagonal.
_MOST_EXPERTS = 500


class PlackettLuceBlock(NamedTuple):
    """A block of instances and their scores at some α.

    Attributes
    ----------
    list_starts : int64[N + 1]
        Where the lists of each instance begin.
    expert : int64[L]
        The expert of each list.
    models : sequence of PenalisedLikelihood
        The likelihoods of the instances at that α.
    optima : sequence of Optimum
        The optimal scores; empty before the first α.
    """

    list_starts: Ints
    expert: Ints
    models: Sequence[PenalisedLikelihood]
    optima: Sequence[Optimum] = ()


class AdherenceLearner:
    """Learns the adherence of each expert over all instances.

    The objective is the profile likelihood: the sum of the penalised log-likelihoods of the instances at their optimal
    scores, as a function of α ≥ 0 on the ellipsoid Σ_k T_k α_k² = Σ_k T_k, T_k choices by expert k. (Without this
    constraint a larger α would undo the shrinkage of the prior.)

    Parameters
    ----------
    blocks : Shards of PlackettLuceBlock
        The instances.
    choices : float64[K]
        T.
    largest : int
        The number of items compared in the largest instance.
    max_iter, tol : int, float
        The most steps, and the gradient norm at convergence; for the scores of an instance and for α.
    """

    def __init__(
        self, blocks: Shards[PlackettLuceBlock], choices: Floats, largest: int, max_iter: int, tol: float
    ) -> None:
        self.blocks = blocks
        self.choices = choices
        self.active = np.flatnonzero(choices > 0)
        self.theta = np.ones(len(choices))
        self.max_iter, self.tol = max_iter, tol
        # Threads do not speed up small instances.
        self.small = largest < LARGE

    def learn(self, checkpoint: Checkpointer) -> NewtonResult[_AdherencePoint]:
        """Maximise over α; return how the search ended."""
        end = maximise(
            self._start(checkpoint.restore()),
            self._newton_step,
            tol=self.tol,
            max_iter=self.max_iter,
            # The scores of every instance are optimal to a tolerance of their own.
            noise=1e-12,
            report=lambda done, _: report_progress(done, self.max_iter),
            checkpoint=checkpoint,
            save=self._checkpoint_state,
        )
        self.theta, self.blocks = end.point.theta, end.point.blocks
        return end

    def _start(self, known: State | None) -> NewtonState[_AdherencePoint]:
        """Return the state at equal adherence, or that of a checkpoint."""
        # The search keeps the blocks of its present point only.
        blocks, self.blocks = self.blocks, InMemory([])
        if known is None:
            at = self._at(self.theta, blocks)
            return NewtonState(at, 0, len(self.active) == 0, [at.value])
        with self._one_thread():
            blocks = blocks.persist_each(_restored, split_states(known), known["theta"])
        trace = known["trace"].tolist()
        return NewtonState(_AdherencePoint(self, known["theta"], blocks), len(trace) - 1, bool(known["done"]), trace)

    def gather(self, function: Callable[[PlackettLuceBlock], T]) -> list[T]:
        """Return the result of a function for each block."""
        with self._one_thread():
            return list(self.blocks.map(function))

    def _checkpoint_state(self, at: NewtonState[_AdherencePoint]) -> State:
        """Return the state for a checkpoint."""
        with self._one_thread():
            states = join_states(list(at.point.blocks.map(_state)))
        return states | {"theta": at.point.theta, "trace": np.array(at.trace), "done": np.array(at.done)}

    def _newton_step(self, at: _AdherencePoint) -> NewtonStep[_AdherencePoint]:
        """Return the Newton step along the ellipsoid."""
        along = at.derivatives
        step = np.zeros(len(self.active))
        step[along.free] = along.tangent_step() / along.metric[along.free]

        def trial(part: float) -> _AdherencePoint:
            theta = at.theta.copy()
            theta[self.active] = self._normalised(np.maximum(theta[self.active] + part * step, 0.0))
            return self._at(theta, at.blocks)

        return NewtonStep(trial, min(1.0, 0.5 / max(max_norm(step), 1e-300)))

    def _at(self, theta: Floats, blocks: Shards[PlackettLuceBlock]) -> _AdherencePoint:
        """Return the point at α; the search for its scores starts at those of `blocks`."""
        with self._one_thread():
            return _AdherencePoint(self, theta, blocks.persist(_profiled, theta, self.max_iter, self.tol))

    def _normalised(self, theta: Floats) -> Floats:
        choices = self.choices[self.active]
        out: Floats = theta * np.sqrt(choices.sum() / max(float(choices @ theta**2), 1e-300))
        return out

    def value(self, blocks: Shards[PlackettLuceBlock]) -> float:
        """Return the objective at the scores of the blocks."""
        with self._one_thread():
            # Instance by instance, so that the sum does not depend on the blocks.
            return float(sum(value for values in blocks.map(_values) for value in values))

    def _derivatives(self, blocks: Shards[PlackettLuceBlock]) -> tuple[Floats, Floats]:
        """Return the gradient and −Hessian over the active experts (only its diagonal for very many)."""
        k = len(self.active)
        gradient, hessian = np.zeros(k), np.zeros((k, k if k <= _MOST_EXPERTS else 1))
        with self._one_thread():
            for block_gradient, block_hessian in blocks.map(_derivatives, self.active):
                gradient += block_gradient
                hessian += block_hessian
        return gradient, hessian

    def _one_thread(self) -> AbstractContextManager[None]:
        """Return a context for work on the blocks: one thread where instances are small."""
        return threads(1) if self.small else nullcontext()


@dataclass(frozen=True)
class _AdherencePoint:
    """The adherence of all experts, and the blocks with the scores that are optimal there."""

    learner: AdherenceLearner
    theta: Floats
    blocks: Shards[PlackettLuceBlock]

    @cached_property
    def value(self) -> float:
        return self.learner.value(self.blocks)

    @cached_property
    def derivatives(self) -> _TangentDerivatives:
        """The derivatives along the ellipsoid."""
        gradient, hessian = self.learner._derivatives(self.blocks)
        active = self.learner.active
        return _TangentDerivatives.of(gradient, hessian, self.theta[active], np.sqrt(self.learner.choices[active]))

    @property
    def norm(self) -> float:
        if not len(self.learner.active):
            return 0.0
        along = self.derivatives
        return max_norm(along.ascent[along.free] / along.metric[along.free])


def _rescaled(block: PlackettLuceBlock, theta: Floats) -> list[PenalisedLikelihood]:
    edges, factors = block.list_starts.tolist(), theta[block.expert]
    return [m.rescaled(factors[edges[n] : edges[n + 1]]) for n, m in enumerate(block.models)]


def _profiled(block: PlackettLuceBlock, theta: Floats, max_iter: int, tol: float) -> PlackettLuceBlock:
    """Return the block at another α; the search for its scores starts at the present ones."""
    from concordant.aggregators._plackett_luce_fit import newton

    models = _rescaled(block, theta)
    starts = [f.score for f in block.optima] or [np.zeros(m.size) for m in models]
    optima = each_instance(lambda n: newton(models[n], starts[n], max_iter, tol), [m.size for m in models])
    return block._replace(models=models, optima=optima)


def _values(block: PlackettLuceBlock) -> list[float]:
    return [f.value for f in block.optima]


def _derivatives(block: PlackettLuceBlock, active: Ints) -> tuple[Floats, Floats]:
    """Return the gradient and −Hessian of one block over the active experts."""
    from concordant.kernels import plackett_luce

    k = len(active)
    dense = k <= _MOST_EXPERTS
    gradient, hessian = np.zeros(k), np.zeros((k, k if dense else 1))
    edges, place = block.list_starts.tolist(), np.searchsorted(active, block.expert)
    for n, (model, optimum) in enumerate(zip(block.models, block.optima, strict=True)):
        rankings, expert = model.rankings, place[edges[n] : edges[n + 1]]
        if model.size == 0:
            continue
        first, second = np.empty(len(expert)), np.empty(len(expert))
        mixed = np.empty(len(rankings.item))
        x = optimum.score - optimum.score.max()
        plackett_luce.adherence_derivatives(
            x, rankings.item, rankings.mark, rankings.offsets, rankings.theta, rankings.averaged, first, second, mixed
        )
        # An expert has one list in an instance.
        gradient[expert] += rankings.weight * first
        hessian[expert, expert if dense else 0] += rankings.weight * second
        if dense:
            # The optimal scores move with α: the Schur complement of the scores.
            cross = np.zeros((model.size, len(expert)))
            which = lists.list_ids(rankings.offsets)
            cross[rankings.item, which] = rankings.weight[which] * mixed
            hessian[np.ix_(expert, expert)] -= cross.T @ model.score_response(optimum.score, cross)
    return gradient, hessian


def _state(block: PlackettLuceBlock) -> State:
    """Return the scores as arrays for a checkpoint, with the models whose lists are expanded."""
    from concordant.aggregators._plackett_luce_fit import optima_state

    return optima_state(block.optima) | {"written": np.array([m.is_expanded for m in block.models], dtype=np.bool_)}


def _restored(block: PlackettLuceBlock, known: State, theta: Floats) -> PlackettLuceBlock:
    """Return the block in the state of a checkpoint."""
    from concordant.aggregators._plackett_luce_fit import restored_optima

    models = _rescaled(block, theta)
    for model, expanded in zip(models, known["written"].tolist(), strict=True):
        if expanded:
            model.expand()
    return block._replace(models=models, optima=restored_optima(models, known))


class _TangentDerivatives(NamedTuple):
    """Derivatives along the ellipsoid in the coordinates √T α, in which it is a sphere.

    `ascent` is the gradient less the part that the constraint takes up, by its `multiplier`; `hessian` is −Hessian by
    α, or its diagonal; `free` are the experts that are not held at the bound 0.
    """

    ascent: Floats
    hessian: Floats
    multiplier: float
    metric: Floats
    normal: Floats
    free: NDArray[np.bool_]

    @classmethod
    def of(cls, gradient: Floats, hessian: Floats, theta: Floats, metric: Floats) -> _TangentDerivatives:
        """Return the derivatives along the ellipsoid from those by α."""
        multiplier = float(theta @ gradient) / float(metric @ metric)
        # In units of one expert's choices. An expert at the bound 0 with a negative gradient stays there.
        ascent = gradient / metric - multiplier * metric * theta
        return cls(ascent, hessian, multiplier, metric, metric * theta, (theta > 0) | (ascent > 0))

    def tangent_step(self) -> Floats:
        """Return the Newton step of the free experts along the sphere; always an ascent step."""
        free, metric = self.free, self.metric[self.free]
        normal = self.normal[free]
        normal = normal / max(float(np.sqrt(normal @ normal)), 1e-300)
        gradient = self.ascent[free] - normal * float(normal @ self.ascent[free])
        if self.hessian.shape[1] == 1:
            curvature = self.hessian[free, 0] / metric**2 + self.multiplier
            out: Floats = gradient / np.maximum(np.abs(curvature), 1e-6 * max(max_norm(curvature), 1e-300))
            return out
        table = self.hessian[np.ix_(free, free)] / (metric[:, None] * metric[None, :])
        table = table + self.multiplier * np.eye(len(gradient))
        projection = np.eye(len(gradient)) - normal[:, None] * normal[None, :]
        curvature, axes = np.linalg.eigh(projection @ table @ projection)
        # Negative eigenvalues are replaced by their absolute values, so that the step ascends.
        curvature = np.maximum(np.abs(curvature), 1e-6 * max(max_norm(curvature), 1e-300))
        out = projection @ (axes @ ((axes.T @ gradient) / curvature))
        return np.asarray(out)
