"""How closely each expert follows the scores of a model of stages, learned over parts of the instances.

What is known of a part is a function of what was known before and of the adherence that is tried: parts may lie in
memory or on workers elsewhere, and one that is lost is computed again as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators.majority import LARGE, each_instance
from concordant.arrays import Floats, Ints
from concordant.errors import FormatError
from concordant.execution import Shards, report_progress, threads
from concordant.kernels import lists
from concordant.learning.resumable import Checkpointer, State, join_states, split_states

if TYPE_CHECKING:
    from concordant.aggregators._plackett_luce_fit import Found, Model

__all__ = ["Part", "Trust"]

T = TypeVar("T")

# Up to this many experts the curvature of their adherence is one table.
_MOST_EXPERTS = 500


class Part(NamedTuple):
    """Some instances, and their scores for some θ.

    Attributes
    ----------
    list_starts : int64[N + 1]
        Where the lists of each instance begin.
    expert : int64[L]
        Whose each list is.
    models : sequence of Model
        The objectives of the instances for that θ.
    found : sequence of Found
        The best scores; empty before the first θ.
    """

    list_starts: Ints
    expert: Ints
    models: Sequence[Model]
    found: Sequence[Found] = ()


class Trust:
    """How closely each expert follows the scores, learned over all instances.

    The objective is what the penalised log-likelihoods of the instances come to when their scores are at their best,
    as a function of θ ≥ 0 on the ellipsoid Σ_k T_k θ_k² = Σ_k T_k, T_k choices by expert k. (Without such a bound a
    larger θ would undo what the prior does to the scores.)

    Parameters
    ----------
    parts : Shards of Part
        The instances.
    choices : float64[K]
        T.
    largest : int
        How many items are compared in the largest instance.
    max_iter, tol : int, float
        How many steps are taken at most, and when it has converged: for the scores of an instance and for θ.
    """

    def __init__(self, parts: Shards[Part], choices: Floats, largest: int, max_iter: int, tol: float) -> None:
        self.parts = parts
        self.choices = choices
        self.heard = np.flatnonzero(choices > 0)
        self.theta = np.ones(len(choices))
        self.max_iter, self.tol = max_iter, tol
        # Parts of small instances gain no more by threads than the instances themselves.
        self.small = largest < LARGE

    def learn(self, checkpoint: Checkpointer) -> tuple[int, bool, float, list[float]]:
        """Find the best θ; return the steps taken, whether that converged, the largest gradient and the objective."""
        max_iter, tol = self.max_iter, self.tol
        known = checkpoint.restore()
        if known is None:
            value, self.parts = self._profile(self.theta)
            trace, done = [value], len(self.heard) == 0
        else:
            self.theta = known["theta"]
            with self._alone():
                self.parts = self.parts.persist_each(_taken_up, split_states(known), self.theta)
            trace, done = known["trace"].tolist(), bool(known["done"])
        norm, metric = np.inf if len(self.heard) else 0.0, np.sqrt(self.choices[self.heard])
        with checkpoint.steps(max_iter):
            for n_iter in range(len(trace) - 1, max_iter + 1):
                if len(self.heard) == 0:
                    break
                gradient, bend = self._derivatives()
                theta = self.theta[self.heard]
                multiplier = float(theta @ gradient) / float(metric @ metric)
                # In units of one expert's choices; an expert at 0 who should be below it stays there.
                uphill = gradient / metric - multiplier * metric * theta
                free = (theta > 0) | (uphill > 0)
                norm = _largest(uphill[free] / metric[free])
                if (done and norm <= tol) or n_iter == max_iter:
                    break
                done = norm <= tol
                step = np.zeros(len(theta))
                step[free] = _tangent_step(uphill, bend, multiplier, metric, theta, free) / metric[free]
                risen = self._move(step, trace[-1], done)
                if risen is None:
                    break
                trace = [*trace, risen]
                checkpoint.save(n_iter + 1, lambda: self._kept(trace, done))  # noqa: B023 - called at once or never
                report_progress(n_iter + 1, max_iter)
        return len(trace) - 1, norm <= tol, norm, trace

    def gather(self, function: Callable[[Part], T]) -> list[T]:
        """Return what a function makes of each part."""
        with self._alone():
            return list(self.parts.map(function))

    def _kept(self, trace: list[float], done: bool) -> State:
        """Return where it stands."""
        whole = join_states(self.gather(_state))
        return whole | {"theta": self.theta, "trace": np.array(trace), "done": np.array(done)}

    def _move(self, step: Floats, value: float, last: bool) -> float | None:
        """Go along a step as far as the objective rises; return what it comes to, None where it does not rise."""
        length = min(1.0, 0.5 / max(_largest(step), 1e-300))
        for _ in range(1 if last else 40):
            theta = self.theta.copy()
            theta[self.heard] = self._gauged(np.maximum(theta[self.heard] + length * step, 0.0))
            there, parts = self._profile(theta)
            if there >= value - 1e-12 * (1.0 + abs(value)):
                self.theta, self.parts = theta, parts
                return there
            length /= 2
        return None

    def _gauged(self, theta: Floats) -> Floats:
        choices = self.choices[self.heard]
        out: Floats = theta * np.sqrt(choices.sum() / max(float(choices @ theta**2), 1e-300))
        return out

    def _profile(self, theta: Floats) -> tuple[float, Shards[Part]]:
        """Return the objective, and the parts with the scores of all instances, for some θ."""
        with self._alone():
            parts = self.parts.persist(_profiled, theta, self.max_iter, self.tol)
            # Instance by instance, so that the sum does not depend on how they are parted.
            value = sum(value for values in parts.map(_values) for value in values)
        return float(value), parts

    def _derivatives(self) -> tuple[Floats, Floats]:
        """Return the gradient and −Hessian of the objective over the experts heard (its diagonal for very many)."""
        k = len(self.heard)
        gradient, bend = np.zeros(k), np.zeros((k, k if k <= _MOST_EXPERTS else 1))
        with self._alone():
            for more, bent in self.parts.map(_derivatives, self.heard):
                gradient += more
                bend += bent
        return gradient, bend

    def _alone(self) -> AbstractContextManager[None]:
        """Return a block for work on the parts in one thread, where more would only wait for each other."""
        return threads(1) if self.small else nullcontext()


# What is done to a part.


def _rescaled(part: Part, theta: Floats) -> list[Model]:
    edges, factors = part.list_starts.tolist(), theta[part.expert]
    return [m.rescaled(factors[edges[n] : edges[n + 1]]) for n, m in enumerate(part.models)]


def _profiled(part: Part, theta: Floats, max_iter: int, tol: float) -> Part:
    """Return the part for another θ; its scores are sought from those there are."""
    from concordant.aggregators._plackett_luce_fit import newton

    models = _rescaled(part, theta)
    starts = [f.score for f in part.found] or [np.zeros(m.size) for m in models]
    found = each_instance(lambda n: newton(models[n], starts[n], max_iter, tol), [m.size for m in models])
    return part._replace(models=models, found=found)


def _values(part: Part) -> list[float]:
    return [f.value for f in part.found]


def _derivatives(part: Part, heard: Ints) -> tuple[Floats, Floats]:
    """Return what a part adds to the derivatives by the adherence of the experts heard."""
    from concordant.kernels import plackett_luce

    k = len(heard)
    whole = k <= _MOST_EXPERTS
    gradient, bend = np.zeros(k), np.zeros((k, k if whole else 1))
    edges, place = part.list_starts.tolist(), np.searchsorted(heard, part.expert)
    for n, (model, found) in enumerate(zip(part.models, part.found, strict=True)):
        stages, expert = model.stages, place[edges[n] : edges[n + 1]]
        if model.size == 0:
            continue
        first, second = np.empty(len(expert)), np.empty(len(expert))
        mixed = np.empty(len(stages.item))
        x = found.score - found.score.max()
        plackett_luce.scaled(
            x, stages.item, stages.mark, stages.offsets, stages.theta, stages.averaged, first, second, mixed
        )
        # An expert has one list in an instance.
        gradient[expert] += stages.weight * first
        bend[expert, expert if whole else 0] += stages.weight * second
        if whole:
            # When θ moves, the scores move with it.
            cross = np.zeros((model.size, len(expert)))
            which = lists.list_ids(stages.offsets)
            cross[stages.item, which] = stages.weight[which] * mixed
            bend[np.ix_(expert, expert)] -= cross.T @ model.answer(found.score, cross)
    return gradient, bend


def _state(part: Part) -> State:
    """Return the scores as arrays; models may have had to write lists out on the way."""
    return {
        "score": np.concatenate([np.zeros(0), *(f.score for f in part.found)]),
        "ends": np.array([f[1:] for f in part.found], dtype=np.float64).reshape(-1, 4),
        "written": np.array([m.written for m in part.models], dtype=np.bool_),
    }


def _taken_up(part: Part, known: State, theta: Floats) -> Part:
    """Return the part as it was when this was kept."""
    from concordant.aggregators._plackett_luce_fit import Found

    models = _rescaled(part, theta)
    for model, written in zip(models, known["written"].tolist(), strict=True):
        if written:
            model.write_out()
    if len(known["score"]) != sum(m.size for m in models):
        raise FormatError("the checkpoint is not of these lists. Remove it to begin anew.")
    scores = np.split(known["score"], np.cumsum([m.size for m in models])[:-1])
    found = [
        Found(score, value, norm, int(n_iter), bool(converged))
        for score, (value, norm, n_iter, converged) in zip(scores, known["ends"].tolist(), strict=True)
    ]
    return part._replace(models=models, found=found)


def _tangent_step(
    uphill: Floats, bend: Floats, multiplier: float, metric: Floats, theta: Floats, free: NDArray[np.bool_]
) -> Floats:
    """Return Newton's step along the ellipsoid, in coordinates in which that is a sphere, uphill in any case."""
    normal = (metric * theta)[free]
    normal = normal / max(float(np.sqrt(normal @ normal)), 1e-300)
    goal = uphill[free] - normal * float(normal @ uphill[free])
    if bend.shape[1] == 1:
        curve = bend[free, 0] / metric[free] ** 2 + multiplier
        out: Floats = goal / np.maximum(np.abs(curve), 1e-6 * max(_largest(curve), 1e-300))
        return out
    table = bend[np.ix_(free, free)] / (metric[free][:, None] * metric[free][None, :])
    table = table + multiplier * np.eye(len(goal))
    flat = np.eye(len(goal)) - normal[:, None] * normal[None, :]
    curve, axes = np.linalg.eigh(flat @ table @ flat)
    # Directions in which the objective bends the wrong way are followed uphill all the same.
    curve = np.maximum(np.abs(curve), 1e-6 * max(_largest(curve), 1e-300))
    out = flat @ (axes @ ((axes.T @ goal) / curve))
    return np.asarray(out)


def _largest(values: Floats) -> float:
    return float(np.abs(values).max(initial=0.0))
