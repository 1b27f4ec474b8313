"""Learns the adherence of experts in the multinomial preference model: Newton, L-BFGS-B or gradient ascent.

The objective is the profile likelihood: a function of the adherence alone, with the scores of each instance (and, on
request, its variances) optimal for it.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators._mpm_variances import PRECISE, VARIANCE_RIDGE, JointProfile, Prior
from concordant.aggregators._net_counts import NetCounts, net_counts
from concordant.arrays import Floats
from concordant.data.preferences import Preferences
from concordant.errors import FormatError
from concordant.execution import Shards
from concordant.kernels.lists import list_maxima
from concordant.kernels.mpm import (
    SMALL_ITEMS,
    PackedCounts,
    adherence_hessian,
    informative,
    joint_gradients,
    pair_distributions,
    solve_scores,
)
from concordant.learning.newton import NewtonResult, NewtonState, NewtonStep, maximise
from concordant.learning.resumable import NO_CHECKPOINT, Checkpointer, State, join_states, minimise, split_states

if TYPE_CHECKING:
    from concordant.aggregators.mpm import MPM

__all__ = [
    "AdherenceBlock",
    "AdherenceFit",
    "BlockProfile",
    "PreferenceSummary",
    "ProfileLikelihood",
    "block_of",
    "gradient_ascent",
    "maximise_adherence",
]

# Up to these sizes the Hessian over experts is formed; beyond them a quasi-Newton method is used.
_DENSE_EXPERTS, _DENSE_ITEMS = 1000, 1000
# The precision per preference of the prior that keeps scores finite while the adherence is learned.
_SCORE_RIDGE = 1e-3


class AdherenceFit(NamedTuple):
    """The learned adherence and how it was found.

    Attributes
    ----------
    theta : float64[K]
        The adherence, the largest 1.
    objective, norm : float
        The weighted mean of the objective over instances, and the largest entry of its gradient, in α projected on the
        bounds.
    n_iter, converged, trace
        The number of steps, whether they converged, and the objective after each.
    """

    theta: Floats
    objective: float
    norm: float
    n_iter: int
    converged: bool
    trace: list[float]


class BlockProfile:
    """The profile likelihood of a block of instances, with scores optimal for the adherence.

    All values are weighted sums over the instances.
    """

    def __init__(self, packed: PackedCounts, ridge: float) -> None:
        self.packed = packed
        self.ridge = ridge
        self.wanted = informative(packed)
        self.row_expert = np.repeat(packed.expert, np.diff(packed.list_offsets))

    def start(self) -> Floats:
        """Return scores of 0."""
        return np.zeros(int(self.packed.offsets[-1]))

    def evaluate(self, theta: Floats, start: Floats) -> tuple[float, Floats, Floats, float]:
        """Return the objective, its gradient, the optimal scores found from a start, and their largest gradient entry.

        By the envelope theorem the change of the scores does not enter the gradient.
        """
        p, score = self.packed, start.copy()
        terms = theta[self.row_expert] * p.net
        net: Floats = np.bincount(p.slot, weights=terms, minlength=len(score)).astype(np.float64)
        norm, values = np.zeros(len(self.wanted)), np.zeros(len(self.wanted))
        solve_scores(
            p.offsets, p.list_starts, p.share, theta[p.expert], net, self.ridge, self.wanted, score, norm, values
        )
        by_score, by_theta = np.zeros(len(score)), np.zeros(len(theta))
        joint_gradients(*p, theta, score, self.ridge, by_score, by_theta, values)
        return float((p.weight * values).sum()), by_theta, score, float(norm.max(initial=0.0))

    def hessian(self, theta: Floats, best: Floats) -> Floats:
        """Return the Hessian F_αα − F_αs F_ss⁻¹ F_sα at the optimal scores for α."""
        p = self.packed
        out = np.zeros((len(theta), len(theta)))
        # Small instances in compiled loops, large ones by matrix products.
        large = np.diff(p.offsets) > SMALL_ITEMS
        adherence_hessian(*p, theta, best, self.ridge, self.wanted & ~large, out)
        for n in np.flatnonzero(self.wanted & large).tolist():
            first, last = int(p.offsets[n]), int(p.offsets[n + 1])
            lists = np.arange(p.list_starts[n], p.list_starts[n + 1])
            lists = lists[p.share[lists] > 0]
            score, share, who = best[first:last], p.share[lists], p.expert[lists]
            list_theta = theta[who]
            expected = pair_distributions(score, list_theta)
            own = expected.curvature(share * list_theta * list_theta)
            own[np.diag_indices(len(own))] += self.ridge
            moved = expected.products(score) * share[:, None]
            cross = -(list_theta[:, None] * moved + share[:, None] * expected.rho)
            for a, k in enumerate(lists.tolist()):
                rows = slice(p.list_offsets[k], p.list_offsets[k + 1])
                cross[a, p.slot[rows] - first] += p.net[rows]
            block = cross @ np.linalg.solve(own, cross.T)
            block[np.diag_indices(len(block))] -= moved @ score
            np.add.at(out, (who[:, None], who[None, :]), p.weight[n] * block)
        return out


class PreferenceSummary(NamedTuple):
    """What the adherence learner needs to know of a block before the first step.

    Attributes
    ----------
    instances : int
        The number of instances with preferences.
    first : str
        The id of the first of them, "" without any.
    n_preferences : float64[K]
        The number of preferences of each expert.
    largest : int
        The number of items of the largest instance.
    """

    instances: int
    first: str
    n_preferences: Floats
    largest: int

    @classmethod
    def of(cls, counts: NetCounts) -> PreferenceSummary:
        """Return the summary of some counts."""
        instances = np.flatnonzero(counts.per_instance(counts.total) > 0)
        n_preferences = np.bincount(counts.expert, weights=counts.total, minlength=len(counts.votes.experts))
        first = counts.votes.instances[int(instances[0])] if len(instances) else ""
        largest = int(np.diff(counts.offsets).max(initial=0))
        return cls(len(instances), first, n_preferences.astype(np.float64), largest)


_NO_GRADIENT = np.zeros(0)


class AdherenceBlock(NamedTuple):
    """A block to learn adherence from: its profile likelihood, and the results at the last α.

    `score` holds the optimal scores, followed by the log variances where those are learned too; `norm` is the largest
    entry of the gradient in them.
    """

    summary: PreferenceSummary
    profile: BlockProfile | JointProfile
    score: Floats
    value: float = 0.0
    gradient: Floats = _NO_GRADIENT
    norm: float = 0.0

    @classmethod
    def of(cls, counts: NetCounts, instance_weights: str, joint: bool) -> AdherenceBlock:
        """Return the block of some counts; `joint` learns variances too."""
        packed = counts.packed()
        if instance_weights == "counts":
            packed = packed._replace(weight=counts.per_instance(counts.total))
        profile: BlockProfile | JointProfile
        if joint:
            profile = JointProfile(counts, packed, Prior(VARIANCE_RIDGE, _SCORE_RIDGE))
        else:
            profile = BlockProfile(packed, _SCORE_RIDGE)
        return cls(PreferenceSummary.of(counts), profile, profile.start())


class ProfileLikelihood:
    """The weighted mean over instances of the profile likelihood, as a function of the adherence.

    `weight` is the sum of the weights of all instances. `blocks` hold the scores found last, from which the next search
    starts. Each evaluation makes new blocks of the previous ones, so that a lost block can be recomputed.
    """

    def __init__(self, blocks: Shards[AdherenceBlock], weight: float, n_experts: int) -> None:
        self.blocks = blocks
        self._weight = weight if weight > 0 else 1.0
        self._n_experts = n_experts

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return the objective and its gradient."""
        self.blocks = self.blocks.persist(_evaluate, theta)
        value, gradient = 0.0, np.zeros(self._n_experts)
        for block_value, block_gradient in self.blocks.map(attrgetter("value", "gradient")):
            value += block_value
            gradient += block_gradient
        return value / self._weight, gradient / self._weight

    def at(self, theta: Floats, blocks: Shards[AdherenceBlock]) -> _AdherencePoint:
        """Return the point at some adherence; the search for its scores starts at those of `blocks`."""
        self.blocks = blocks
        value, gradient = self(theta)
        return _AdherencePoint(theta, self.blocks, value, gradient)

    def hessian(self, theta: Floats) -> Floats:
        """Return the Hessian at the adherence of the last evaluation."""
        out = np.zeros((self._n_experts, self._n_experts))
        for part in self.blocks.map(_hessian_of, theta):
            out += part
        return out / self._weight

    def state(self) -> State:
        """Return the scores of all blocks."""
        return join_states(list(self.blocks.map(_state_of)))

    def restore(self, known: State) -> None:
        """Set the scores of all blocks to those of a state."""
        self.blocks = self.blocks.persist_each(_restore, split_states(known))


def block_of(block: Preferences, owner: MPM) -> AdherenceBlock:
    owner._checked(block)
    joint = owner.variances == "joint"
    return AdherenceBlock.of(net_counts(block, owner.transform, joint), owner.instance_weights, joint)


def _evaluate(block: AdherenceBlock, theta: Floats) -> AdherenceBlock:
    """Return the block at another α; the search for its scores starts at the present ones."""
    value, gradient, score, norm = block.profile.evaluate(theta, block.score)
    return block._replace(score=score, value=value, gradient=gradient, norm=norm)


def _hessian_of(block: AdherenceBlock, theta: Floats) -> Floats:
    return block.profile.hessian(theta, block.score)


def _state_of(block: AdherenceBlock) -> State:
    return {"score": block.score, "norm": np.array([block.norm])}


def _restore(block: AdherenceBlock, known: State) -> AdherenceBlock:
    if known["score"].shape != block.score.shape:
        raise FormatError("the checkpoint is not of these preferences. Remove it to begin anew.")
    return block._replace(score=known["score"], norm=float(known["norm"][0]))


def maximise_adherence(
    profile: ProfileLikelihood,
    has_preferences: NDArray[np.bool_],
    largest: int,
    *,
    tol: float,
    max_iter: int,
    report: Callable[[int, int], None],
    checkpoint: Checkpointer = NO_CHECKPOINT,
) -> AdherenceFit:
    """Return the adherence in [0, 1] that maximises the profile likelihood, starting from 1 for all experts.

    Newton's method with bounds: experts stay at a bound where the gradient points beyond it. Costs O(L M² + L² M) per
    instance and step. Beyond 1,000 experts or 1,000 items in the largest instance L-BFGS-B is used, at O(L M) per
    instance and step. `has_preferences` says which experts prefer anything; `checkpoint` keeps the state after every
    step.
    """
    n_experts = len(has_preferences)
    way = _newton if n_experts <= _DENSE_EXPERTS and largest <= _DENSE_ITEMS else _quasi_newton
    end = way(profile, n_experts, tol, max_iter, report, checkpoint)
    norm = max(end.gradient_norm, *end.point.blocks.map(attrgetter("norm")))
    theta, _ = _rescaled(end.point.theta, has_preferences)
    return AdherenceFit(theta, end.objective, norm, end.n_iter, bool(norm <= tol), end.trace)


def _rescaled(theta: Floats, has_preferences: NDArray[np.bool_]) -> tuple[Floats, float]:
    """Return the adherence divided by its maximum, and that maximum; experts without preferences keep 1."""
    top = float(theta[has_preferences].max(initial=0.0))
    return (np.where(has_preferences, theta / top, theta), top) if top > 0 else (theta, 1.0)


def _projected_gradient_norm(theta: Floats, gradient: Floats) -> float:
    """Return the largest entry of the gradient projected on the bounds."""
    return float(np.abs(np.clip(theta + gradient, 0.0, 1.0) - theta).max(initial=0.0))


class _AdherencePoint(NamedTuple):
    """The adherence, the blocks with their scores, the objective and its gradient."""

    theta: Floats
    blocks: Shards[AdherenceBlock]
    value: float
    gradient: Floats

    @property
    def norm(self) -> float:
        return _projected_gradient_norm(self.theta, self.gradient)


def _newton(
    profile: ProfileLikelihood,
    n_experts: int,
    tol: float,
    max_iter: int,
    report: Callable[[int, int], None],
    checkpoint: Checkpointer,
) -> NewtonResult[_AdherencePoint]:
    known = checkpoint.restore()
    if known is None:
        at = profile.at(np.ones(n_experts), profile.blocks)
        start = NewtonState(at, 0, False, [at.value])
    else:
        trace = known["trace"].tolist()
        profile.restore(known)
        at = _AdherencePoint(known["theta"], profile.blocks, trace[-1], known["gradient"])
        start = NewtonState(at, len(trace) - 1, bool(known["done"]), trace)

    def newton_step(at: _AdherencePoint) -> NewtonStep[_AdherencePoint]:
        step = _step(profile.hessian(at.theta), at.gradient, at.theta, at.norm)
        return NewtonStep(lambda part: profile.at(np.clip(at.theta + part * step, 0.0, 1.0), at.blocks))

    def state(at: NewtonState[_AdherencePoint]) -> State:
        flat = {"theta": at.point.theta, "gradient": at.point.gradient}
        flat |= {"trace": np.array(at.trace), "done": np.array(at.done)}
        return flat | dict(profile.state())

    return maximise(
        start,
        newton_step,
        # Go on to the rounding error: another Newton step costs little and squares the error.
        tol=min(tol, PRECISE),
        max_iter=max_iter,
        report=lambda done, _: report(done, max_iter),
        checkpoint=checkpoint,
        save=state,
    )


def _step(hessian: Floats, gradient: Floats, theta: Floats, norm: float) -> Floats:
    """Return an ascent direction: the Newton step for experts between the bounds, a step to the bound for others."""
    near = min(norm, 1e-3)
    low, high = (theta <= near) & (gradient < 0), (theta >= 1 - near) & (gradient > 0)
    # Experts without preferences have rows of zeros: they are left out of the system and keep their adherence.
    free = np.flatnonzero(~(low | high) & hessian.any(axis=0))
    step = np.where(low, -theta, np.where(high, 1 - theta, 0.0))
    if len(free):
        eigenvalues, axes = np.linalg.eigh(hessian[np.ix_(free, free)])
        size = np.abs(eigenvalues)
        # Absolute eigenvalues give an ascent direction where the objective is not concave.
        size = np.maximum(size, max(1e-10 * float(size.max()), 1e-300))
        step[free] = axes @ ((axes.T @ gradient[free]) / size)
    return step


def _quasi_newton(
    profile: ProfileLikelihood,
    n_experts: int,
    tol: float,
    max_iter: int,
    report: Callable[[int, int], None],
    checkpoint: Checkpointer,
) -> NewtonResult[_AdherencePoint]:
    trace: list[float] = []

    def negative(theta: Floats) -> tuple[float, Floats]:
        value, gradient = profile(theta)
        return -value, -gradient

    def note(step: int, value: float) -> None:
        trace.append(-value)
        report(min(step, max_iter), max_iter)

    known = checkpoint.restore()
    if known is not None:
        profile.restore(known)
    found = minimise(
        negative,
        np.ones(n_experts),
        bounds=(0, 1),
        callback=note,
        options={"maxiter": max_iter, "gtol": tol, "ftol": 1e-16, "maxcor": 30},
        checkpoint=checkpoint,
        # The search for scores starts at the previous ones, which are part of the state.
        extra_state=profile.state,
    )
    at = profile.at(found.x, profile.blocks)
    return NewtonResult(at, at.value, at.norm, found.n_iter, at.norm <= tol, trace)


def gradient_ascent(
    packed: PackedCounts,
    theta: Floats,
    steps: int,
    *,
    learning: bool,
    report: Callable[[int, int], None],
    checkpoint: Checkpointer = NO_CHECKPOINT,
) -> tuple[AdherenceFit, Floats, Floats, Floats]:
    """Return adherence and scores after gradient ascent from scores 0, and gradient norm and value of each instance.

    The step size of the scores is ½ M; where a step lowers the objective of an instance it is taken back, and the step
    size is halved. The adherence (when `learning`) moves by a fifth of its gradient per preference of the expert and is
    clipped to [0, 1]. `checkpoint` keeps the state after every step.
    """
    p = packed
    sizes = np.diff(p.offsets)
    weight = np.where(informative(packed), p.weight, 0.0)
    whole = float(weight.sum()) or 1.0
    amount = np.repeat(weight, np.diff(p.list_starts)) * p.share
    n_preferences = np.bincount(p.expert, weights=amount, minlength=len(theta))
    none = np.zeros(int(sizes.sum()))
    at = _AscentState(
        theta, none, none, none, np.zeros(len(theta)), np.full(len(sizes), -np.inf), 0.5 * sizes, np.zeros(0)
    )
    known = checkpoint.restore()
    if known is not None:
        at = _AscentState(*(known[name] for name in _AscentState._fields))
    with checkpoint.steps(steps):
        for n_iter in range(len(at.trace), steps + 1):
            by_score, by_theta, values = np.zeros(len(none)), np.zeros(len(theta)), np.zeros(len(sizes))
            joint_gradients(*p, at.theta, at.score, 0.0, by_score, by_theta, values)
            # A difference in the last bits is not a fall.
            fell = values < at.highest - 1e-12 * np.abs(values)
            back = np.repeat(fell, sizes)
            step_size = np.where(fell, 0.5 * at.step_size, at.step_size)
            best, gradient = np.where(back, at.best, at.score), np.where(back, at.gradient, by_score)
            highest = np.where(fell, at.highest, values)
            trace = np.append(at.trace, float((weight * highest).sum()) / whole)
            score, new_theta = best + np.repeat(step_size, sizes) * gradient, at.theta
            if learning and n_iter < steps:
                new_theta = np.clip(at.theta + 0.2 * by_theta / np.maximum(n_preferences, 1e-300), 0.0, 1.0)
            at = _AscentState(new_theta, score, best, gradient, by_theta, highest, step_size, trace)
            if n_iter < steps:
                checkpoint.save(n_iter + 1, at._asdict)
                report(n_iter + 1, steps)
    norms = list_maxima(np.abs(at.gradient), p.offsets)
    theta, best = at.theta, at.best
    norm = max(_projected_gradient_norm(theta, at.by_theta / whole) if learning else 0.0, float(norms.max(initial=0.0)))
    if learning:
        theta, top = _rescaled(theta, n_preferences > 0)
        best = best * top
    made = min(len(at.trace), steps)
    return AdherenceFit(theta, float(at.trace[-1]), norm, made, False, at.trace.tolist()), best, norms, at.highest


class _AscentState(NamedTuple):
    """The state of gradient ascent: the next trial, the best scores and their gradient, and step sizes."""

    theta: Floats
    score: Floats
    best: Floats
    gradient: Floats
    by_theta: Floats
    highest: Floats
    step_size: Floats
    trace: Floats
