"""Learning the adherence of experts in the multinomial preference model: Newton, L-BFGS-B or gradient ascent.

The objective is a function of the adherence alone; at every adherence the scores of each instance are the best for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints
from concordant.kernels.mpm import SMALL_ITEMS, Packed, adherence_hessian, gradients, infer, informative, laws
from concordant.learning.resumable import NO_CHECKPOINT, Checkpointer, State, minimise

__all__ = ["Adherence", "BlockProfile", "Profile", "ascend", "climb"]
# Up to these sizes the curvature over experts is formed; beyond them a quasi-Newton method does without.
_DENSE_EXPERTS, _DENSE_ITEMS = 1000, 1000


class Adherence(NamedTuple):
    """What learning the adherence came to.

    Attributes
    ----------
    theta : float64[K]
        The adherence, the largest 1.
    objective, norm : float
        The mean over instances of the objective, and the largest entry of its projected gradient in θ.
    n_iter, converged, trace
        Of the iteration.
    """

    theta: Floats
    objective: float
    norm: float
    n_iter: int
    converged: bool
    trace: list[float]


class Profile(Protocol):
    """The mean objective as a function of the adherence alone, over blocks of instances.

    Attributes
    ----------
    position
        The scores found last, from which the next ones are looked for; whoever steps back sets it again.
    """

    position: Any

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return the objective and its gradient."""
        ...

    def curvature(self, theta: Floats) -> Floats:
        """Return the second derivatives, the objective having been asked for at the same adherence before."""
        ...

    def state(self) -> State:
        """Return the position as arrays."""
        ...

    def restore(self, known: State) -> None:
        """Set the position to that of a state."""
        ...


class BlockProfile:
    """The objective of a block of instances as a function of the adherence alone, the scores being the best for it.

    All values are sums over the instances.
    """

    def __init__(self, packed: Packed, ridge: float) -> None:
        self.packed = packed
        self.ridge = ridge
        self.wanted = informative(packed)
        self.row_expert = np.repeat(packed.expert, np.diff(packed.list_offsets))

    def evaluate(self, theta: Floats, start: Floats) -> tuple[float, Floats, Floats]:
        """Return the objective, its gradient, and the scores found from a start.

        By the envelope theorem the scores' own change plays no part in the gradient.
        """
        p, score = self.packed, start.copy()
        terms = theta[self.row_expert] * p.net
        net: Floats = np.bincount(p.slot, weights=terms, minlength=len(score)).astype(np.float64)
        norm, values = np.zeros(len(self.wanted)), np.zeros(len(self.wanted))
        infer(p.offsets, p.list_starts, p.share, theta[p.expert], net, self.ridge, self.wanted, score, norm, values)
        by_score, by_theta = np.zeros(len(score)), np.zeros(len(theta))
        gradients(*p, theta, score, self.ridge, by_score, by_theta, values)
        return float(values.sum()), by_theta, score

    def curvature(self, theta: Floats, best: Floats) -> Floats:
        """Return the second derivatives, F_θθ − F_θs F_ss⁻¹ F_sθ, at the best scores for θ."""
        p = self.packed
        out = np.zeros((len(theta), len(theta)))
        # Small instances in compiled loops, large ones by matrix products.
        large = np.diff(p.offsets) > SMALL_ITEMS
        adherence_hessian(*p, theta, best, self.ridge, self.wanted & ~large, out)
        for n in np.flatnonzero(self.wanted & large).tolist():
            first, last = int(p.offsets[n]), int(p.offsets[n + 1])
            spoke = np.arange(p.list_starts[n], p.list_starts[n + 1])
            spoke = spoke[p.share[spoke] > 0]
            score, share, who = best[first:last], p.share[spoke], p.expert[spoke]
            trust = theta[who]
            expected = laws(score, trust)
            own = expected.curvature(share * trust * trust)
            own[np.diag_indices(len(own))] += self.ridge
            moved = expected.products(score) * share[:, None]
            cross = -(trust[:, None] * moved + share[:, None] * expected.rho)
            for a, k in enumerate(spoke.tolist()):
                rows = slice(p.list_offsets[k], p.list_offsets[k + 1])
                cross[a, p.slot[rows] - first] += p.net[rows]
            block = cross @ np.linalg.solve(own, cross.T)
            block[np.diag_indices(len(block))] -= moved @ score
            np.add.at(out, (who[:, None], who[None, :]), block)
        return out


def climb(
    profile: Profile,
    heard: NDArray[np.bool_],
    largest: int,
    *,
    tol: float,
    max_iter: int,
    report: Callable[[int, int], None],
    checkpoint: Checkpointer = NO_CHECKPOINT,
) -> Adherence:
    """Return the adherence in [0, 1] at which the mean objective is stationary, climbing from trust in everybody.

    Newton's method on the adherence alone, the scores of every instance being the best for it; experts at a bound that
    the gradient presses against stay there. Costs O(L M² + L² M) per instance and step. Beyond 1,000 experts or 1,000
    items in the largest instance L-BFGS-B takes over, at O(L M) per instance and step. `heard` says which experts
    prefer anything; `checkpoint` keeps the state after every step.
    """
    n_experts = len(heard)
    way = _newton if n_experts <= _DENSE_EXPERTS and largest <= _DENSE_ITEMS else _quasi_newton
    at = way(profile, n_experts, tol, max_iter, report, checkpoint)
    norm = _projected(at.theta, at.gradient)
    theta, _ = _scaled(at.theta, heard)
    return Adherence(theta, at.value, norm, at.turns, bool(norm <= tol), at.trace)


def _scaled(theta: Floats, heard: NDArray[np.bool_]) -> tuple[Floats, float]:
    """Return the adherence with the most trusted expert at 1, and what it was divided by; who is silent keeps 1."""
    top = float(theta[heard].max(initial=0.0))
    return (np.where(heard, theta / top, theta), top) if top > 0 else (theta, 1.0)


def _projected(theta: Floats, gradient: Floats) -> float:
    """Return the largest step that the gradient could take within the bounds."""
    return float(np.abs(np.clip(theta + gradient, 0.0, 1.0) - theta).max(initial=0.0))


class _Found(NamedTuple):
    """Where a climb stands: adherence and scores, the objective and its gradient in θ, and its way so far."""

    theta: Floats
    position: Any
    value: float
    gradient: Floats
    trace: list[float]
    turns: int


def _newton(
    profile: Profile,
    n_experts: int,
    tol: float,
    max_iter: int,
    report: Callable[[int, int], None],
    checkpoint: Checkpointer,
) -> _Found:
    known = checkpoint.restore()
    if known is None:
        theta = np.ones(n_experts)
        value, gradient = profile(theta)
        at = _Found(theta, profile.position, value, gradient, [value], 0)
    else:
        trace = known["trace"].tolist()
        profile.restore(known)
        at = _Found(known["theta"], profile.position, trace[-1], known["gradient"], trace, int(known["turns"]))

    def state() -> State:
        flat = {"theta": at.theta, "gradient": at.gradient, "trace": np.array(at.trace), "turns": np.array(at.turns)}
        return flat | dict(profile.state())

    turn = at.turns
    with checkpoint.steps(max_iter):
        while turn < max_iter:
            norm = _projected(at.theta, at.gradient)
            # Rounding alone leaves about this much; until then another step costs little and squares the error.
            if norm <= min(tol, 1e-14):
                break
            turn += 1
            step = _step(profile.curvature(at.theta), at.gradient, at.theta, norm)
            pace = 1.0
            while True:
                trial = np.clip(at.theta + pace * step, 0.0, 1.0)
                reached, slope = profile(trial)
                rise = float(at.gradient @ (trial - at.theta))
                if reached >= at.value + 1e-4 * max(rise, 0.0) - 1e-15 * abs(at.value) or pace < 1e-10:
                    break
                profile.position = at.position
                pace *= 0.5
            done = norm <= tol and _projected(trial, slope) >= 0.5 * norm
            if pace < 1e-10 or done:
                # As good as it gets: what is left is rounding.
                at = at._replace(turns=turn)
                break
            at = _Found(trial, profile.position, reached, slope, [*at.trace, reached], turn)
            checkpoint.save(turn, state)
            report(turn, max_iter)
    return at


def _step(curvature: Floats, gradient: Floats, theta: Floats, norm: float) -> Floats:
    """Return an ascent direction: Newton's for experts between the bounds, straight to the bound for the others."""
    near = min(norm, 1e-3)
    low, high = (theta <= near) & (gradient < 0), (theta >= 1 - near) & (gradient > 0)
    free = np.flatnonzero(~(low | high))
    step = np.where(low, -theta, np.where(high, 1 - theta, 0.0))
    if len(free):
        bend, axes = np.linalg.eigh(curvature[np.ix_(free, free)])
        size = np.abs(bend)
        # Where the objective is not concave the step goes up all the same.
        size = np.maximum(size, max(1e-10 * float(size.max()), 1e-300))
        step[free] = axes @ ((axes.T @ gradient[free]) / size)
    return step


def _quasi_newton(
    profile: Profile,
    n_experts: int,
    tol: float,
    max_iter: int,
    report: Callable[[int, int], None],
    checkpoint: Checkpointer,
) -> _Found:
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
        # Scores are looked for from those found before.
        extra_state=profile.state,
    )
    value, gradient = profile(found.x)
    return _Found(found.x, profile.position, value, gradient, trace, found.n_iter)


def ascend(
    packed: Packed,
    theta: Floats,
    steps: int,
    *,
    learning: bool,
    report: Callable[[int, int], None],
    checkpoint: Checkpointer = NO_CHECKPOINT,
) -> tuple[Adherence, Floats, Floats, Floats]:
    """Return what plain gradient ascent from scores 0 comes to: adherence, scores, and by instance gradient and value.

    The gradient of an instance is its largest entry.

    Scores move by ½ M times their gradient; where that makes an instance worse the step is taken back and halved from
    then on. The adherence (when `learning`) moves by a fifth of its gradient per preference of the expert and is put
    back into [0, 1]. `checkpoint` keeps the state after every step.
    """
    p = packed
    count = max(int(informative(packed).sum()), 1)
    sizes = np.diff(p.offsets)
    spoken = np.maximum(np.bincount(p.expert, weights=p.share, minlength=len(theta)), 1e-300)
    none = np.zeros(int(sizes.sum()))
    at = _Ascent(theta, none, none, none, np.zeros(len(theta)), np.full(len(sizes), -np.inf), 0.5 * sizes, np.zeros(0))
    known = checkpoint.restore()
    if known is not None:
        at = _Ascent(*(known[name] for name in _Ascent._fields))
    with checkpoint.steps(steps):
        for turn in range(len(at.trace), steps + 1):
            by_score, by_theta, values = np.zeros(len(none)), np.zeros(len(theta)), np.zeros(len(sizes))
            gradients(*p, at.theta, at.score, 0.0, by_score, by_theta, values)
            # The last bits of a value are no fall.
            fell = values < at.highest - 1e-12 * np.abs(values)
            back = np.repeat(fell, sizes)
            pace = np.where(fell, 0.5 * at.pace, at.pace)
            best, slope = np.where(back, at.best, at.score), np.where(back, at.slope, by_score)
            highest = np.where(fell, at.highest, values)
            trace = np.append(at.trace, float(highest.sum()) / count)
            score, trust = best + np.repeat(pace, sizes) * slope, at.theta
            if learning and turn < steps:
                trust = np.clip(at.theta + 0.2 * by_theta / spoken, 0.0, 1.0)
            at = _Ascent(trust, score, best, slope, by_theta, highest, pace, trace)
            if turn < steps:
                checkpoint.save(turn + 1, at._asdict)
                report(turn + 1, steps)
    norms = _largest(np.abs(at.slope), p.offsets)
    theta, best = at.theta, at.best
    norm = max(_projected(theta, at.by_theta / count) if learning else 0.0, float(norms.max(initial=0.0)))
    if learning:
        theta, top = _scaled(theta, np.bincount(p.expert, weights=p.share, minlength=len(theta)) > 0)
        best = best * top
    made = min(len(at.trace), steps)
    return Adherence(theta, float(at.trace[-1]), norm, made, False, at.trace.tolist()), best, norms, at.highest


class _Ascent(NamedTuple):
    """Where gradient ascent stands: what is tried next, the best so far and its slope, and how long steps are."""

    theta: Floats
    score: Floats
    best: Floats
    slope: Floats
    by_theta: Floats
    highest: Floats
    pace: Floats
    trace: Floats


def _largest(values: Floats, offsets: Ints) -> Floats:
    """Return the largest of the values (>= 0) of every instance, 0 where there are none."""
    out = np.zeros(len(offsets) - 1)
    np.maximum.at(out, np.repeat(np.arange(len(out)), np.diff(offsets)), values)
    return out
