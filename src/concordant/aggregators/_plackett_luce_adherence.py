"""Learns the adherence of experts in Plackett-Luce: Newton on the profile likelihood, over blocks of instances.

The state of a block is a function of its previous state and of the adherence: blocks may be in memory or on workers,
and a lost block is recomputed exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators._pairwise_votes import LARGE, each_instance
from concordant.arrays import Floats, Ints
from concordant.execution import Shards, report_progress, threads
from concordant.kernels import lists
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

    def learn(self, checkpoint: Checkpointer) -> tuple[int, bool, float, list[float]]:
        """Maximise over α; return the number of steps, whether they converged, the gradient norm and the objectives."""
        max_iter, tol = self.max_iter, self.tol
        known = checkpoint.restore()
        if known is None:
            value, self.blocks = self._profile(self.theta)
            trace, done = [value], len(self.active) == 0
        else:
            self.theta = known["theta"]
            with self._one_thread():
                self.blocks = self.blocks.persist_each(_restored, split_states(known), self.theta)
            trace, done = known["trace"].tolist(), bool(known["done"])
        norm, metric = np.inf if len(self.active) else 0.0, np.sqrt(self.choices[self.active])
        with checkpoint.steps(max_iter):
            for n_iter in range(len(trace) - 1, max_iter + 1):
                if len(self.active) == 0:
                    break
                gradient, hessian = self._derivatives()
                theta = self.theta[self.active]
                multiplier = float(theta @ gradient) / float(metric @ metric)
                # In units of one expert's choices. An expert at the bound 0 with a negative gradient stays there.
                ascent = gradient / metric - multiplier * metric * theta
                free = (theta > 0) | (ascent > 0)
                norm = max_norm(ascent[free] / metric[free])
                if (done and norm <= tol) or n_iter == max_iter:
                    break
                done = norm <= tol
                step = np.zeros(len(theta))
                step[free] = _tangent_step(ascent, hessian, multiplier, metric, theta, free) / metric[free]
                moved = self._move(step, trace[-1], done)
                if moved is None:
                    break
                trace = [*trace, moved]
                checkpoint.save(n_iter + 1, lambda: self._checkpoint_state(trace, done))  # noqa: B023 - called at once or never
                report_progress(n_iter + 1, max_iter)
        return len(trace) - 1, norm <= tol, norm, trace

    def gather(self, function: Callable[[PlackettLuceBlock], T]) -> list[T]:
        """Return the result of a function for each block."""
        with self._one_thread():
            return list(self.blocks.map(function))

    def _checkpoint_state(self, trace: list[float], done: bool) -> State:
        """Return the state for a checkpoint."""
        states = join_states(self.gather(_state))
        return states | {"theta": self.theta, "trace": np.array(trace), "done": np.array(done)}

    def _move(self, step: Floats, value: float, is_last: bool) -> float | None:
        """Backtrack along a step until the objective rises; return the objective, None where it does not rise."""
        length = min(1.0, 0.5 / max(max_norm(step), 1e-300))
        for _ in range(1 if is_last else 40):
            theta = self.theta.copy()
            theta[self.active] = self._normalised(np.maximum(theta[self.active] + length * step, 0.0))
            trial_value, blocks = self._profile(theta)
            if trial_value >= value - 1e-12 * (1.0 + abs(value)):
                self.theta, self.blocks = theta, blocks
                return trial_value
            length /= 2
        return None

    def _normalised(self, theta: Floats) -> Floats:
        choices = self.choices[self.active]
        out: Floats = theta * np.sqrt(choices.sum() / max(float(choices @ theta**2), 1e-300))
        return out

    def _profile(self, theta: Floats) -> tuple[float, Shards[PlackettLuceBlock]]:
        """Return the objective at α, and the blocks with the optimal scores there."""
        with self._one_thread():
            blocks = self.blocks.persist(_profiled, theta, self.max_iter, self.tol)
            # Instance by instance, so that the sum does not depend on the blocks.
            value = sum(value for values in blocks.map(_values) for value in values)
        return float(value), blocks

    def _derivatives(self) -> tuple[Floats, Floats]:
        """Return the gradient and −Hessian over the active experts (only its diagonal for very many)."""
        k = len(self.active)
        gradient, hessian = np.zeros(k), np.zeros((k, k if k <= _MOST_EXPERTS else 1))
        with self._one_thread():
            for block_gradient, block_hessian in self.blocks.map(_derivatives, self.active):
                gradient += block_gradient
                hessian += block_hessian
        return gradient, hessian

    def _one_thread(self) -> AbstractContextManager[None]:
        """Return a context for work on the blocks: one thread where instances are small."""
        return threads(1) if self.small else nullcontext()


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


def _tangent_step(
    ascent: Floats, hessian: Floats, multiplier: float, metric: Floats, theta: Floats, free: NDArray[np.bool_]
) -> Floats:
    """Return the Newton step along the ellipsoid, in coordinates in which it is a sphere; always an ascent step."""
    normal = (metric * theta)[free]
    normal = normal / max(float(np.sqrt(normal @ normal)), 1e-300)
    tangent_gradient = ascent[free] - normal * float(normal @ ascent[free])
    if hessian.shape[1] == 1:
        curvature = hessian[free, 0] / metric[free] ** 2 + multiplier
        out: Floats = tangent_gradient / np.maximum(np.abs(curvature), 1e-6 * max(max_norm(curvature), 1e-300))
        return out
    table = hessian[np.ix_(free, free)] / (metric[free][:, None] * metric[free][None, :])
    table = table + multiplier * np.eye(len(tangent_gradient))
    projection = np.eye(len(tangent_gradient)) - normal[:, None] * normal[None, :]
    curvature, axes = np.linalg.eigh(projection @ table @ projection)
    # Negative eigenvalues are replaced by their absolute values, so that the step ascends.
    curvature = np.maximum(np.abs(curvature), 1e-6 * max(max_norm(curvature), 1e-300))
    out = projection @ (axes @ ((axes.T @ tangent_gradient) / curvature))
    return np.asarray(out)
