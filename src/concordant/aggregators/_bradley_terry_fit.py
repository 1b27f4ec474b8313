"""Newton's method for Bradley-Terry: scores, tie parameter, side effect and weights of features by maximum likelihood.

The penalised log-likelihood of an instance is concave, and its Hessian is sparse and diagonally dominant. Some six
Newton steps suffice; a step is solved by elimination in small instances and by conjugate gradients in large ones. The
parameters that instances share (tie parameter, side effect) couple them through a system of one or two unknowns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.kernels.bradley_terry import (
    LAST_STEP,
    LONGEST_STEP,
    RAO_KUPPER,
    TIE_BOUND,
    Shared,
    by_size,
    conjugate_steps,
    evaluate_all,
    fill_hessian,
    gradient_steps,
    newton_small,
    pair_columns,
    signed_sums,
    solve_small,
)
from concordant.kernels.pair_counts import Pairs, locked, sums
from concordant.learning.resumable import NO_CHECKPOINT, Checkpointer, State

__all__ = [
    "NO_TIES",
    "Profile",
    "Report",
    "Solution",
    "climb_profile",
    "descend",
    "information",
    "profile",
    "solve",
    "solve_jointly",
    "solve_linear",
]
# Up to this size elimination steps in where conjugate gradients are slow.
_DENSE = 4096


NO_TIES = Shared()

Report = Callable[[int, int], None]


class Solution(NamedTuple):
    """Scores and how they were reached.

    `information` is that of the parameters learned jointly (tie, then side; those that were learned), the scores being
    profiled out, and `response` how the scores give way when such a parameter grows, one row each, with a minus sign;
    `gradient_norm` is the largest component of the gradient over max(1, the most outcomes of an item).
    """

    score: Floats
    shared: Shared
    objective: float
    gradient_norm: float
    n_iter: int
    converged: bool
    trace: list[float]
    information: Floats
    response: Floats


def _scale(pairs: Pairs) -> Floats:
    """Return for every instance the most outcomes an item has, at least 1: what a gradient is measured against."""
    whole = pairs.outcomes
    n = pairs.n_slots
    each = np.bincount(pairs.left, whole, n) + np.bincount(pairs.right, whole, n)
    sizes = np.diff(pairs.offsets)
    out = np.ones(len(sizes))
    full = np.flatnonzero(sizes > 0)
    if len(full):
        out[full] = np.maximum(np.maximum.reduceat(each, pairs.offsets[full]), 1.0)
    return out


# Newton's method.


class _Solver:
    """Solves for the steps of one large instance: conjugate gradients, or elimination where those are slow."""

    def __init__(self, pairs: Pairs, prior: float) -> None:
        self.columns = pair_columns(pairs)
        self.n_pairs = len(pairs.left)
        self.size = pairs.n_slots
        self.prior = prior
        m = self.size
        # As many steps as cost about as much as one elimination.
        self.patience = 5000 if m > _DENSE else int(np.clip(m**3 / (60.0 * max(self.n_pairs, 1)), 20, 1000))
        self.eliminating = False

    def solve(self, weight: Floats, columns: Floats, rtol: float) -> Floats:
        """Return the solutions for the rows of `columns`, to a relative residual of about `rtol`."""
        out = np.zeros(columns.shape)
        ends = (0, self.n_pairs)
        if not self.eliminating:
            done = True
            for rhs, x in zip(columns, out, strict=True):
                done &= conjugate_steps(
                    self.columns, ends, weight, 0, self.size, self.prior, rhs, x, rtol, self.patience
                )
            if done or self.size > _DENSE:
                return out
            self.eliminating = True
        return self._eliminate(weight, columns)

    def _eliminate(self, weight: Floats, columns: Floats) -> Floats:
        from scipy.linalg import cho_factor, cho_solve

        m = self.size
        table = np.empty(m * m)
        fill_hessian(self.columns, (0, self.n_pairs), weight, 0, m, self.prior, True, table)
        # The upper triangle in rows is the lower one in columns, which LAPACK reads without a copy.
        factor = cho_factor(table.reshape(m, m).T, lower=True, overwrite_a=True, check_finite=False)
        return np.ascontiguousarray(cho_solve(factor, columns.T, check_finite=False).T)


class _Climb(NamedTuple):
    """Where Newton's method ended, and how."""

    x: Floats
    value: float
    norm: float
    steps: int
    converged: bool
    trace: list[float]


class _Way(NamedTuple):
    """Where Newton's method stands: the point to look at next, the step that led there, and the best one so far."""

    x: Floats
    step: Floats
    moved: float
    steps: int
    best: Floats
    value: float
    norm: float
    trace: list[float]

    def kept(self) -> dict[str, Any]:
        """Return the same as arrays."""
        numbers = np.array([self.moved, self.steps, self.value, self.norm])
        return {"x": self.x, "step": self.step, "best": self.best, "way": numbers, "trace": np.array(self.trace)}

    @classmethod
    def of(cls, kept: State) -> _Way:
        """Return what was kept."""
        moved, steps, value, norm = kept["way"].tolist()
        return cls(kept["x"], kept["step"], moved, int(steps), kept["best"], value, norm, kept["trace"].tolist())


def _climb(
    x: Floats,
    look: Callable[[Floats], tuple[float, float]],
    step_from: Callable[[Floats, float], tuple[Floats, float]],
    tol: float,
    max_iter: int,
    report: Report | None,
    checkpoint: Checkpointer = NO_CHECKPOINT,
    hidden: Callable[[], State] = dict,
) -> _Climb:
    """Climb from x by Newton's method, halving steps that go too far.

    `look` gives the objective at a point and the norm of its gradient; `step_from` gives the step from the point last
    looked at, and how far it moves any score or parameter. `checkpoint` keeps the state after every step, `hidden`
    what else the two go on from.
    """
    known = checkpoint.restore()
    at = _Way(x, np.zeros(len(x)), np.inf, 0, x, -np.inf, np.inf, []) if known is None else _Way.of(known)

    def state() -> State:
        return at.kept() | dict(hidden())

    with checkpoint.steps(max_iter):
        while True:
            value, norm = look(at.x)
            converged = norm == 0.0 or (at.moved <= LAST_STEP and norm <= tol)
            if converged or at.steps == max_iter:
                return _Climb(at.x, value, norm, at.steps, converged, [*at.trace, value])
            if value < at.value - 1e-11 * abs(at.value):
                half = 0.5 * at.step
                at = at._replace(x=at.x - half, step=half, moved=0.5 * at.moved, steps=at.steps + 1)
            else:
                step, moved = step_from(at.x, norm)
                at = _Way(at.x + step, step, moved, at.steps + 1, at.x, value, norm, [*at.trace, value])
            checkpoint.save(at.steps, state)
            if report is not None:
                report(at.steps, max_iter)
    # Interrupted.
    return _Climb(at.best, at.value, at.norm, at.steps, False, at.trace)


def _accuracy(norm: float) -> float:
    """Return to what part a step has to be right: the nearer the end, the more digits."""
    return min(1e-3, max(norm, 1e-10))


def _shortened(step: Floats, moved: float) -> tuple[Floats, float]:
    return (step, moved) if moved <= LONGEST_STEP else (step * (LONGEST_STEP / moved), LONGEST_STEP)


def _newton_large(
    pairs: Pairs,
    prior: float,
    scale: float,
    shared: Shared,
    tol: float,
    max_iter: int,
    start: Floats,
    report: Report | None,
    checkpoint: Checkpointer,
) -> _Climb:
    """Find the scores of one large instance."""
    solver = _Solver(pairs, prior)
    known = checkpoint.restore()
    if known is not None:
        solver.eliminating = bool(known["eliminating"])
    columns, n_pairs = solver.columns, len(pairs.left)
    weight = np.empty(n_pairs)
    cross = np.empty(n_pairs if shared.model else 0)
    gradient = np.empty(len(start))

    def look(s: Floats) -> tuple[float, float]:
        gradient[:] = 0.0
        value = evaluate_all(columns, s, shared.tie, shared.side, shared.model, gradient, weight, cross)[0]
        gradient[:] -= prior * s
        return value - 0.5 * prior * float(s @ s), float(np.abs(gradient).max()) / scale

    def step_from(_s: Floats, norm: float) -> tuple[Floats, float]:
        step = solver.solve(weight, gradient[None, :], _accuracy(norm))[0]
        return _shortened(step, float(np.abs(step).max()))

    def hidden() -> State:
        return {"eliminating": np.array(solver.eliminating)}

    return _climb(start, look, step_from, tol, max_iter, report, checkpoint, hidden)


def solve(
    pairs: Pairs,
    prior: Floats,
    shared: Shared = NO_TIES,
    *,
    tol: float = 1e-9,
    max_iter: int = 100,
    start: Floats | None = None,
    report: Report | None = None,
    checkpoint: Checkpointer = NO_CHECKPOINT,
) -> Solution:
    """Return the scores that maximise the likelihood minus ½ prior ‖s‖², what instances share being held fixed.

    Every instance is solved by itself, to the same bits in any company; its scores have mean 0. Without a prior the
    caller makes sure that a maximum exists. O(pairs) per step for large instances, O(m³) for small ones. `checkpoint`
    keeps the state after every step where there is one instance and it is large.

    >>> from_one = Pairs(
    ...     np.array([0], np.int32),
    ...     np.array([1], np.int32),
    ...     np.array([3.0]),
    ...     np.array([1.0]),
    ...     np.array([0.0]),
    ...     np.array([0, 1]),
    ...     np.array([0, 2]),
    ... )
    >>> s = solve(from_one, np.zeros(1)).score
    >>> round(float(s[0] - s[1]), 9) == round(float(np.log(3)), 9)
    True
    """
    s = np.zeros(pairs.n_slots) if start is None else np.array(start, dtype=np.float64)
    scale = _scale(pairs)
    small, large = by_size(pairs)
    out = np.zeros((4, len(pairs.offsets) - 1))
    out[3] = 1.0
    trace: list[float] = []
    if len(small):
        weight = np.empty(len(pairs.left))
        cross = np.empty(len(pairs.left) if shared.model else 0)
        edges = locked(pairs.starts, pairs.offsets)
        newton_small(
            pair_columns(pairs), edges, small, prior, scale, tuple(shared), tol, max_iter, s, weight, cross, out
        )
    for n in large:
        first, last = int(pairs.offsets[n]), int(pairs.offsets[n + 1])
        one = pairs.window(n)
        own = checkpoint if len(pairs.offsets) == 2 else NO_CHECKPOINT
        climb = _newton_large(one, float(prior[n]), float(scale[n]), shared, tol, max_iter, s[first:last], report, own)
        s[first:last] = climb.x - climb.x.mean()
        out[:, n] = climb[1:5]
        trace = climb.trace
    return Solution(
        s,
        shared,
        float(out[0].sum()),
        float(out[1].max(initial=0.0)),
        int(out[2].max(initial=0)),
        bool(out[3].all()),
        trace if len(pairs.offsets) == 2 else [],
        np.zeros((0, 0)),
        np.zeros((0, len(s))),
    )


def solve_jointly(
    pairs: Pairs,
    prior: Floats,
    shared: Shared,
    *,
    tie: bool,
    side: bool,
    tol: float = 1e-9,
    max_iter: int = 100,
    start: Floats | None = None,
    report: Report | None = None,
    checkpoint: Checkpointer = NO_CHECKPOINT,
) -> Solution:
    """Return scores and shared parameters (`tie`, `side`: those to learn) that maximise the likelihood together.

    `shared` is where they begin. Newton's method on everything at once: every instance is solved for its own step as a
    function of the shared one, which then follows from a system of one or two unknowns. `checkpoint` keeps the state
    after every step.
    """
    coupled = _Coupled(pairs, prior, shared, np.flatnonzero([tie, side]))
    solvers = coupled.solvers()
    scale, sizes = _scale(pairs), np.diff(pairs.offsets)
    slot_scale = np.repeat(scale, sizes)
    n_slots = pairs.n_slots
    information = np.eye(len(coupled.learned))
    response = np.zeros((len(coupled.learned), n_slots))
    known = checkpoint.restore()
    if known is not None:
        information, response = known["information"], known["response"]
        for solver, eliminating in zip(solvers.values(), known["eliminating"].tolist(), strict=True):
            solver.eliminating = eliminating

    def hidden() -> State:
        eliminating = np.array([solver.eliminating for solver in solvers.values()], dtype=np.bool_)
        return {"information": information, "response": response, "eliminating": eliminating}

    def look(x: Floats) -> tuple[float, float]:
        value = coupled.evaluate(x[:n_slots], x[n_slots:])
        return value, max(float(np.abs(coupled.gradient / slot_scale).max(initial=0.0)), coupled.shared_norm)

    def step_from(x: Floats, norm: float) -> tuple[Floats, float]:
        nonlocal information, response
        couplings = coupled.couplings()
        solved = coupled.solved(np.concatenate([coupled.gradient[None, :], couplings]), solvers, _accuracy(norm))
        response = solved[1:]
        information = coupled.information - couplings @ response.T
        chosen = _solve_few(information, coupled.slope - couplings @ solved[0])
        step = np.concatenate([solved[0] - chosen @ response, chosen])
        return _bounded(step, float(np.abs(step).max()), x[n_slots:], shared.model, coupled.learned)

    first = np.zeros(n_slots) if start is None else start
    climb = _climb(np.concatenate([first, coupled.start]), look, step_from, tol, max_iter, report, checkpoint, hidden)
    s = climb.x[:n_slots]
    full = np.flatnonzero(sizes > 0)
    if len(full):
        s -= np.repeat(np.add.reduceat(s, pairs.offsets[full]) / sizes[full], sizes[full])
    learned = shared.moved(coupled.learned, climb.x[n_slots:])
    return Solution(s, learned, *climb[1:], (information + information.T) / 2, response)


def _solve_few(table: Floats, rhs: Floats) -> Floats:
    """Return the solution of a small system; the shortest one where it has many."""
    try:
        return np.asarray(np.linalg.solve(table, rhs), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(table, rhs)[0], dtype=np.float64)


class _Coupled:
    """The objective of scores and shared parameters together, at the point last evaluated."""

    def __init__(self, pairs: Pairs, prior: Floats, shared: Shared, learned: Ints) -> None:
        self.pairs = pairs
        self.prior = prior
        self.small, self.large = by_size(pairs)
        self.edges = locked(pairs.starts, pairs.offsets)
        self.columns = pair_columns(pairs)
        self.shared = shared
        self.learned = learned
        self.start = np.array([shared.tie, shared.side])[learned]
        self.slot_prior = np.repeat(prior, np.diff(pairs.offsets))
        self.outcomes = max(float(pairs.outcomes.sum()), 1.0)
        self.weight = np.empty(len(pairs.left))
        self.cross = np.empty(len(pairs.left))
        self.gradient = np.empty(pairs.n_slots)
        self.slope = np.zeros(len(learned))
        self.information = np.zeros((len(learned), len(learned)))

    def evaluate(self, s: Floats, common: Floats) -> float:
        """Return the objective at a point and keep its slopes and its information."""
        model, tie, side = self.shared.moved(self.learned, common)
        self.gradient[:] = 0.0
        found = evaluate_all(self.columns, s, tie, side, model, self.gradient, self.weight, self.cross)
        value, of_tie, of_side, tie_tie, tie_side, side_side = found
        self.gradient -= self.slot_prior * s
        self.slope = np.array([of_tie, of_side])[self.learned]
        whole = np.array([[tie_tie, tie_side], [tie_side, side_side]])
        self.information = whole[np.ix_(self.learned, self.learned)]
        return value - 0.5 * float(self.slot_prior @ (s * s))

    @property
    def shared_norm(self) -> float:
        """The largest slope along a shared parameter, over the number of outcomes."""
        return float(np.abs(self.slope).max(initial=0.0)) / self.outcomes

    def couplings(self) -> Floats:
        """Return the information between each shared parameter and the scores."""
        sources = (self.cross, self.weight)
        rows = [signed_sums(self.columns, sources[k], len(self.gradient)) for k in self.learned.tolist()]
        return np.array(rows).reshape(len(rows), len(self.gradient))

    def solvers(self) -> dict[int, _Solver]:
        """Return what solves the large instances."""
        return {n: _Solver(self.pairs.window(n), float(self.prior[n])) for n in self.large}

    def solved(self, columns: Floats, solvers: Mapping[int, _Solver], accuracy: float) -> Floats:
        """Return each row of slots divided by the information of the scores at the point last evaluated."""
        pairs = self.pairs
        if len(self.small):
            solve_small(self.columns, self.edges, self.small, self.weight, self.prior, columns)
        for n, solver in solvers.items():
            own = slice(int(pairs.offsets[n]), int(pairs.offsets[n + 1]))
            rows = slice(int(pairs.starts[n]), int(pairs.starts[n + 1]))
            columns[:, own] = solver.solve(self.weight[rows], np.ascontiguousarray(columns[:, own]), accuracy)
        return columns


def _bounded(step: Floats, moved: float, common: Floats, model: int, learned: Ints) -> tuple[Floats, float]:
    """Return the part of a step that is not too long and keeps the tie parameter within its bounds.

    A step ends with that of the shared parameters that are learned, which are `common` now.
    """
    reach = min(1.0, LONGEST_STEP / moved) if moved > 0 else 1.0
    if 0 in learned:
        change, tie = float(step[-len(learned)]), float(common[0])
        if model == RAO_KUPPER and tie + reach * change < tie / 4:
            reach = -0.75 * tie / change
        elif abs(tie + reach * change) > TIE_BOUND and change != 0:
            reach = max((np.sign(change) * TIE_BOUND - tie) / change, 0.0)
    return step * reach, moved * reach


class Profile(NamedTuple):
    """The likelihood of some instances where their scores are best for what they share, and how it goes on from there.

    `slope` and `information` are those along the shared parameters that are learned, the scores giving way;
    `response` is how they do (see `Solution`), `norm` what is left of the gradient along them.
    """

    value: float
    slope: Floats
    information: Floats
    norm: float
    score: Floats
    response: Floats


def profile(
    pairs: Pairs, prior: Floats, shared: Shared, learned: Ints, *, tol: float, max_iter: int, start: Floats
) -> Profile:
    """Return the best scores for shared parameters, and how the likelihood goes on as those learned move."""
    best = solve(pairs, prior, shared, tol=tol, max_iter=max_iter, start=start)
    coupled = _Coupled(pairs, prior, shared, learned)
    value = coupled.evaluate(best.score, coupled.start)
    couplings = coupled.couplings()
    response = coupled.solved(couplings.copy(), coupled.solvers(), _accuracy(0.0))
    information = coupled.information - couplings @ response.T
    return Profile(value, coupled.slope, information, best.gradient_norm, best.score, response)


def climb_profile(
    evaluate: Callable[[Shared], Profile],
    shared: Shared,
    learned: Ints,
    outcomes: float,
    *,
    tol: float,
    max_iter: int,
    report: Report | None = None,
    checkpoint: Checkpointer = NO_CHECKPOINT,
    hidden: Callable[[], State] = dict,
) -> Solution:
    """Return the shared parameters that are best, given the sums over all instances of what `profile` returns.

    The scores are wherever they are evaluated, and `hidden` gives them to be kept; those of the solution are empty.
    """
    found: Profile | None = None

    def last(common: Floats) -> Profile:
        """Return the profile looked at last, or that at a point where none was."""
        nonlocal found
        if found is None:
            found = evaluate(shared.moved(learned, common))
        return found

    def look(common: Floats) -> tuple[float, float]:
        nonlocal found
        found = None
        here = last(common)
        return here.value, max(here.norm, float(np.abs(here.slope).max(initial=0.0)) / max(outcomes, 1.0))

    def step_from(common: Floats, _norm: float) -> tuple[Floats, float]:
        step = _solve_few(last(common).information, last(common).slope)
        return _bounded(step, float(np.abs(step).max()), common, shared.model, learned)

    start = np.array([shared.tie, shared.side])[learned]
    climb = _climb(start, look, step_from, tol, max_iter, report, checkpoint, hidden)
    information = last(climb.x).information
    information = (information + information.T) / 2
    best = shared.moved(learned, climb.x)
    return Solution(np.zeros(0), best, *climb[1:], information, np.zeros((len(learned), 0)))


def solve_linear(
    pairs: Pairs,
    features: Floats,
    prior: Floats,
    shared: Shared,
    *,
    tie: bool,
    side: bool,
    tol: float = 1e-9,
    max_iter: int = 100,
    report: Report | None = None,
    checkpoint: Checkpointer = NO_CHECKPOINT,
) -> tuple[Floats, Solution]:
    """Return weights b of features, and the solution with scores features · b, learned with the shared parameters.

    The prior is on the scores, as elsewhere, so that the units of the features do not matter. `information` of the
    solution is that of (b, tie, side), those that were learned. Columns must be independent. O(pairs · F²) per step.
    `checkpoint` keeps the state after every step.
    """
    f = features.shape[1]
    coupled = _Coupled(pairs, prior, shared, np.flatnonzero([tie, side]))
    pull = features.T @ (coupled.slot_prior[:, None] * features)
    size = np.maximum(np.abs(features).max(axis=0, initial=0.0), 1e-300) * coupled.outcomes
    information = np.empty((f + len(coupled.learned), f + len(coupled.learned)))

    def look(x: Floats) -> tuple[float, float]:
        value = coupled.evaluate(features @ x[:f], x[f:])
        return value, max(float(np.abs(features.T @ coupled.gradient / size).max(initial=0.0)), coupled.shared_norm)

    def inform() -> None:
        information[:f, :f] = pull + _apart(pairs, features, coupled.weight)
        information[f:, :f] = coupled.couplings() @ features
        information[:f, f:] = information[f:, :f].T
        information[f:, f:] = coupled.information

    def step_from(x: Floats, _norm: float) -> tuple[Floats, float]:
        inform()
        step = _solve_few(information, np.concatenate([features.T @ coupled.gradient, coupled.slope]))
        moved = max(float(np.abs(features @ step[:f]).max(initial=0.0)), float(np.abs(step[f:]).max(initial=0.0)))
        return _bounded(step, moved, x[f:], shared.model, coupled.learned)

    climb = _climb(np.concatenate([np.zeros(f), coupled.start]), look, step_from, tol, max_iter, report, checkpoint)
    look(climb.x)
    inform()
    b = climb.x[:f]
    found = shared.moved(coupled.learned, climb.x[f:])
    return b, Solution(features @ b, found, *climb[1:], information, np.zeros((0, pairs.n_slots)))


def _apart(pairs: Pairs, features: Floats, weight: Floats) -> Floats:
    """Return Σ weight (x_left - x_right)(x_left - x_right)ᵀ over pairs, some at a time."""
    out = np.zeros((features.shape[1], features.shape[1]))
    block = max((1 << 22) // max(features.shape[1], 1), 1)
    for start in range(0, len(weight), block):
        rows = slice(start, start + block)
        gap = features[pairs.left[rows]] - features[pairs.right[rows]]
        out += gap.T @ (weight[rows, None] * gap)
    return out


def descend(pairs: Pairs, prior: Floats, *, steps: int, rate: float) -> Solution:
    """Return the scores after so many gradient steps of rate · M² / T from 0 (M items, T outcomes of the instance).

    The likelihood has no ties; pairs' ties are left out. O(pairs) per step.
    """
    n = len(pairs.offsets) - 1
    sizes = np.diff(pairs.offsets)
    total = sums(pairs.n_left + pairs.n_right, pairs.starts)
    each = np.divide(rate * sizes * sizes, total, out=np.zeros(n), where=total > 0)
    s = np.zeros(pairs.n_slots)
    out = np.zeros((2, n))
    edges = locked(pairs.starts, pairs.offsets)
    gradient_steps(pair_columns(pairs), edges, prior, each, _scale(pairs), steps, s, np.empty(len(pairs.left)), out)
    norm = float(out[1].max(initial=0.0))
    none = np.zeros((0, 0)), np.zeros((0, len(s)))
    return Solution(s, NO_TIES, float(out[0].sum()), norm, steps, norm == 0.0, [], *none)


# What intervals need.


def information(pairs: Pairs, score: Floats, prior: float, shared: Shared, learned: Ints) -> Floats:
    """Return the information (negative second derivatives) of one instance's scores, then the parameters `learned`.

    `learned` holds 0 for the tie parameter, 1 for the side. The prior's share is included.
    """
    m = pairs.n_slots
    coupled = _Coupled(pairs, np.array([prior]), shared, learned)
    coupled.evaluate(score, coupled.start)
    table = np.empty(m * m)
    fill_hessian(coupled.columns, (0, len(pairs.left)), coupled.weight, 0, m, prior, False, table)
    out = np.zeros((m + len(learned), m + len(learned)))
    upper = table.reshape(m, m)
    out[:m, :m] = upper + np.triu(upper, 1).T
    out[m:, :m] = coupled.couplings()
    out[:m, m:] = out[m:, :m].T
    out[m:, m:] = coupled.information
    return out
