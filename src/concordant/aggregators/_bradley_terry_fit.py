"""Newton's method for Bradley-Terry: scores, tie parameter, side effect and weights of features by maximum likelihood.

The penalised log-likelihood of an instance is concave, and its Hessian is sparse and diagonally dominant. Some six
Newton steps suffice; a Newton system is solved by Cholesky in small instances and by conjugate gradients in large ones.
The shared parameters (tie parameter, side effect) couple the instances through a system of one or two unknowns.

The outcomes come as counts of pairs (`Pairs`), as votes with covariates (`VoteRows`), or as long lists whose pairs are
not counted (`ListPairs`): their sums over pairs take time linear in the lists (`kernels.bradley_terry_lists`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.execution import map_instances, without_progress
from concordant.kernels.bradley_terry import (
    LAST_STEP,
    LONGEST_STEP,
    PLAIN,
    RAO_KUPPER,
    TIE_BOUND,
    Shared,
    conjugate_gradient_solve,
    evaluate_all,
    fill_hessian,
    gradient_steps,
    newton_small,
    pair_columns,
    signed_sums,
    solve_small,
    split_by_size,
)
from concordant.kernels.bradley_terry_lists import ListPairs, ScoreGrid, curvature_times, pair_sums, score_grid
from concordant.kernels.bradley_terry_votes import VoteRows, evaluate_votes
from concordant.kernels.linear_systems import conjugate_gradients
from concordant.kernels.lists import list_maxima, list_sums
from concordant.kernels.pair_counts import Pairs, read_only
from concordant.kernels.ratios import ratio
from concordant.learning.optimisers import max_norm
from concordant.learning.resumable import NO_CHECKPOINT, Checkpointer, State

__all__ = [
    "NO_TIES",
    "Profile",
    "Report",
    "Solution",
    "maximise_profile",
    "gradient_ascent",
    "information",
    "information_at_start",
    "learned_parameters",
    "profile",
    "sample_of",
    "solve",
    "solve_jointly",
    "solve_linear",
]
# Up to this many items Cholesky takes over where conjugate gradients are slow.
_DENSE = 4096
# Votes with covariates are evaluated in at most so many parts, of at least so many rows.
_MOST_PARTS, _PART_ROWS = 8, 100_000
# From so many votes with covariates on, every 16th gives the start, unless that is far away.
_MANY_ROWS, _SAMPLED, _SAMPLE_STEPS, _FAR = 200_000, 16, 4, 8.0

NO_TIES = Shared()

Report = Callable[[int, int], None]


class Solution(NamedTuple):
    """The maximum-likelihood (or posterior mode) estimate, and how Newton's method ended.

    Attributes
    ----------
    score : float64[S]
        The scores, of mean 0 in every instance.
    shared : Shared
        Tie parameter and side effect.
    objective : float
        The penalised log-likelihood.
    gradient_norm : float
        The largest component of the gradient over max(1, the most outcomes of an item).
    n_iter, converged, trace
        Newton steps, whether they converged, and the objective after each.
    information : float64[L, L]
        Information of the shared parameters that were learned (tie, then side), the scores being profiled out.
    response : float64[L, S]
        −d score / d parameter along the profile likelihood, one row for each of these parameters.
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


def _gradient_scale(pairs: Pairs | ListPairs | VoteRows) -> Floats:
    """Return the unit of the gradient in every instance: the most outcomes an item has, at least 1."""
    if isinstance(pairs, VoteRows):
        return _gradient_scale(pairs.pairs)
    if isinstance(pairs, ListPairs):
        each = pairs.item_outcomes
    else:
        whole = pairs.outcomes
        n = pairs.n_slots
        each = np.asarray(np.bincount(pairs.left, whole, n) + np.bincount(pairs.right, whole, n), dtype=np.float64)
    out: Floats = np.maximum(list_maxima(each, pairs.offsets), 1.0)
    return out


# Newton's method.


class _Solver:
    """Solves the Newton systems of one large instance: by conjugate gradients, or by Cholesky where those are slow."""

    def __init__(self, pairs: Pairs, prior: float) -> None:
        self.columns = pair_columns(pairs)
        self.n_pairs = len(pairs.left)
        self.size = pairs.n_slots
        self.prior = prior
        m = self.size
        # As many steps as cost about as much as one Cholesky factorisation.
        self.max_cg_steps = 5000 if m > _DENSE else int(np.clip(m**3 / (60.0 * max(self.n_pairs, 1)), 20, 1000))
        self.dense = False

    def solve(self, weight: Floats, columns: Floats, rtol: float) -> Floats:
        """Return the solutions for the rows of `columns`, to a relative residual of about `rtol`."""
        out = np.zeros(columns.shape)
        ends = (0, self.n_pairs)
        if not self.dense:
            done = True
            for rhs, x in zip(columns, out, strict=True):
                done &= conjugate_gradient_solve(
                    self.columns, ends, weight, 0, self.size, self.prior, rhs, x, rtol, self.max_cg_steps
                )
            if done or self.size > _DENSE:
                return out
            self.dense = True
        return self._cholesky(weight, columns)

    def _cholesky(self, weight: Floats, columns: Floats) -> Floats:
        from scipy.linalg import cho_factor, cho_solve

        m = self.size
        table = np.empty(m * m)
        fill_hessian(self.columns, (0, self.n_pairs), weight, 0, m, self.prior, True, table)
        # The upper triangle in rows is the lower one in columns, which LAPACK reads without a copy.
        factor = cho_factor(table.reshape(m, m).T, lower=True, overwrite_a=True, check_finite=False)
        return np.ascontiguousarray(cho_solve(factor, columns.T, check_finite=False).T)


class _NewtonResult(NamedTuple):
    """The point at which Newton's method ended, with the objective and the norm of the gradient there."""

    x: Floats
    value: float
    norm: float
    n_iter: int
    converged: bool
    trace: list[float]


class _NewtonState(NamedTuple):
    """State of Newton's method between two steps.

    Attributes
    ----------
    x : float64[p]
        The next point to evaluate.
    step : float64[p]
        The step that led there, and in `step_size` its largest component.
    n_iter : int
        Steps so far.
    best : float64[p]
        The best point so far, with its objective `value` and gradient `norm`.
    trace : list of float
        The objective after each accepted step.
    """

    x: Floats
    step: Floats
    step_size: float
    n_iter: int
    best: Floats
    value: float
    norm: float
    trace: list[float]

    def arrays(self) -> dict[str, Any]:
        """Return the state as arrays, for a checkpoint."""
        scalars = np.array([self.step_size, self.n_iter, self.value, self.norm])
        return {"x": self.x, "step": self.step, "best": self.best, "scalars": scalars, "trace": np.array(self.trace)}

    @classmethod
    def from_arrays(cls, arrays: State) -> _NewtonState:
        """Return the state that a checkpoint holds."""
        step_size, n_iter, value, norm = arrays["scalars"].tolist()
        x, step, best, trace = arrays["x"], arrays["step"], arrays["best"], arrays["trace"].tolist()
        return cls(x, step, step_size, int(n_iter), best, value, norm, trace)


def _newton(
    x: Floats,
    objective: Callable[[Floats], tuple[float, float]],
    newton_step: Callable[[Floats, float], tuple[Floats, float]],
    tol: float,
    max_iter: int,
    report: Report | None,
    checkpoint: Checkpointer = NO_CHECKPOINT,
    solver_state: Callable[[], State] = dict,
) -> _NewtonResult:
    """Maximise a concave function from x by Newton's method, halving steps that overshoot.

    `objective` gives the value at a point and the norm of its gradient. `newton_step` gives the step from the point
    evaluated last, and its largest component. `checkpoint` receives the state after every step, with what
    `solver_state` adds to it.
    """
    at = _NewtonState(x, np.zeros(len(x)), np.inf, 0, x, -np.inf, np.inf, [])
    known = checkpoint.restore()
    if known is not None:
        at = _NewtonState.from_arrays(known)

    def state() -> State:
        return at.arrays() | dict(solver_state())

    with checkpoint.steps(max_iter):
        while True:
            value, norm = objective(at.x)
            converged = norm == 0.0 or (at.step_size <= LAST_STEP and norm <= tol)
            if converged or at.n_iter == max_iter:
                return _NewtonResult(at.x, value, norm, at.n_iter, converged, [*at.trace, value])
            if value < at.value - 1e-11 * abs(at.value):
                half = 0.5 * at.step
                at = at._replace(x=at.x - half, step=half, step_size=0.5 * at.step_size, n_iter=at.n_iter + 1)
            else:
                step, step_size = newton_step(at.x, norm)
                at = _NewtonState(at.x + step, step, step_size, at.n_iter + 1, at.x, value, norm, [*at.trace, value])
            checkpoint.save(at.n_iter, state)
            if report is not None:
                report(at.n_iter, max_iter)
    # Interrupted.
    return _NewtonResult(at.best, at.value, at.norm, at.n_iter, False, at.trace)


def _forcing_term(norm: float) -> float:
    """Return the relative tolerance of an inexact Newton step: tighter as the gradient vanishes."""
    return min(1e-3, max(norm, 1e-10))


def _capped(step: Floats, step_size: float) -> tuple[Floats, float]:
    """Return the step, scaled down where a component exceeds `LONGEST_STEP`, and its largest component."""
    return (step, step_size) if step_size <= LONGEST_STEP else (step * (LONGEST_STEP / step_size), LONGEST_STEP)


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
) -> _NewtonResult:
    """Maximise the penalised log-likelihood of one large instance over its scores."""
    solver = _Solver(pairs, prior)
    known = checkpoint.restore()
    if known is not None:
        solver.dense = bool(known["dense"])
    columns, n_pairs = solver.columns, len(pairs.left)
    weight = np.empty(n_pairs)
    cross = np.empty(n_pairs if shared.model else 0)
    gradient = np.empty(len(start))

    def objective(s: Floats) -> tuple[float, float]:
        gradient[:] = 0.0
        value = evaluate_all(columns, s, shared.tie, shared.side, shared.model, gradient, weight, cross)[0]
        gradient[:] -= prior * s
        return value - 0.5 * prior * float(s @ s), float(np.abs(gradient).max()) / scale

    def newton_step(_s: Floats, norm: float) -> tuple[Floats, float]:
        step = solver.solve(weight, gradient[None, :], _forcing_term(norm))[0]
        return _capped(step, float(np.abs(step).max()))

    def solver_state() -> State:
        return {"dense": np.array(solver.dense)}

    return _newton(start, objective, newton_step, tol, max_iter, report, checkpoint, solver_state)


def _newton_lists(
    lists: ListPairs,
    prior: Floats,
    scale: float,
    shared: Shared,
    tol: float,
    max_iter: int,
    start: Floats,
    report: Report | None,
    checkpoint: Checkpointer,
) -> _NewtonResult:
    """Maximise the penalised log-likelihood of one instance of long lists over its scores."""
    likelihood = _ListLikelihood(lists, prior, shared, np.zeros(0, dtype=np.int64))

    def objective(s: Floats) -> tuple[float, float]:
        value = likelihood.evaluate(s, likelihood.start)
        return value, max_norm(likelihood.gradient) / scale

    def newton_step(_s: Floats, norm: float) -> tuple[Floats, float]:
        step = likelihood.solve_scores(likelihood.gradient[None, :].copy(), {}, _forcing_term(norm))[0]
        return _capped(step, max_norm(step))

    return _newton(start, objective, newton_step, tol, max_iter, report, checkpoint)


def solve(
    pairs: Pairs | ListPairs | VoteRows,
    prior: Floats,
    shared: Shared = NO_TIES,
    *,
    tol: float = 1e-9,
    max_iter: int = 100,
    start: Floats | None = None,
    report: Report | None = None,
    checkpoint: Checkpointer = NO_CHECKPOINT,
) -> Solution:
    """Return the scores that maximise log-likelihood − ½ prior ‖s‖², the shared parameters being held fixed.

    Every instance is solved alone, so its scores do not depend on the other instances to the last bit; they have mean
    0. Without a prior the caller makes sure that a maximum exists. O(pairs) per step for large instances, O(m³) for
    small ones. `checkpoint` receives the state after every step of a single large instance.

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
    if isinstance(pairs, VoteRows):
        how: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "report": report}
        return _solve_votes(pairs, prior, shared, start, checkpoint, **how)
    s = np.zeros(pairs.n_slots) if start is None else np.array(start, dtype=np.float64)
    scale = _gradient_scale(pairs)
    small, large = _by_size(pairs)
    out = np.zeros((4, len(pairs.offsets) - 1))
    out[3] = 1.0
    trace: list[float] = []
    if isinstance(pairs, Pairs) and len(small):
        weight = np.empty(len(pairs.left))
        cross = np.empty(len(pairs.left) if shared.model else 0)
        edges = read_only(pairs.starts, pairs.offsets)
        newton_small(
            pair_columns(pairs), edges, small, prior, scale, tuple(shared[:3]), tol, max_iter, s, weight, cross, out
        )
    for n in large:
        first, last = int(pairs.offsets[n]), int(pairs.offsets[n + 1])
        one = pairs.window(n)
        own = checkpoint if len(pairs.offsets) == 2 else NO_CHECKPOINT
        rest = float(scale[n]), shared, tol, max_iter, s[first:last], report, own
        if isinstance(one, ListPairs):
            end = _newton_lists(one, prior[n : n + 1], *rest)
        else:
            end = _newton_large(one, float(prior[n]), *rest)
        s[first:last] = end.x - end.x.mean()
        out[:, n] = end[1:5]
        trace = end.trace
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


def _solve_votes(
    votes: VoteRows,
    prior: Floats,
    shared: Shared,
    start: Floats | None,
    checkpoint: Checkpointer,
    **how: Any,
) -> Solution:
    """Do as `solve` for votes with covariates."""
    n = len(votes.offsets) - 1
    s = np.zeros(votes.n_slots) if start is None else np.array(start, dtype=np.float64)
    ends = []
    for k in np.flatnonzero(np.diff(votes.pairs.starts) > 0).tolist():
        own = slice(int(votes.offsets[k]), int(votes.offsets[k + 1]))
        keep = checkpoint if n == 1 else NO_CHECKPOINT
        end = solve_jointly(
            votes.window(k), prior[k : k + 1], shared, tie=False, side=False, start=s[own], checkpoint=keep, **how
        )
        s[own] = end.score
        ends.append(end)
    return Solution(
        s,
        shared,
        float(sum(e.objective for e in ends)),
        max((e.gradient_norm for e in ends), default=0.0),
        max((e.n_iter for e in ends), default=0),
        all(e.converged for e in ends),
        ends[0].trace if n == 1 and ends else [],
        np.zeros((0, 0)),
        np.zeros((0, len(s))),
    )


def _by_size(pairs: Pairs | ListPairs) -> tuple[Ints, list[int]]:
    """Return the instances solved by Cholesky in one compiled loop, and those solved one at a time."""
    if isinstance(pairs, ListPairs):
        return np.zeros(0, dtype=np.int64), np.flatnonzero(pairs.outcomes > 0).tolist()
    return split_by_size(pairs)


def solve_jointly(
    pairs: Pairs | ListPairs | VoteRows,
    prior: Floats,
    shared: Shared,
    *,
    tie: bool,
    side: bool,
    covariates: bool = False,
    tol: float = 1e-9,
    max_iter: int = 100,
    start: Floats | None = None,
    report: Report | None = None,
    checkpoint: Checkpointer = NO_CHECKPOINT,
) -> Solution:
    """Return the scores and shared parameters that maximise the likelihood jointly.

    `tie`, `side` and `covariates` say which are learned. Newton's method on all parameters, from `shared`. The Newton
    system is an arrow: the blocks of the instances are eliminated, and the shared step follows from the Schur
    complement, a small system. `checkpoint` receives the state after every step.
    """
    likelihood = _likelihood_of(pairs, prior, shared, learned_parameters(shared, tie, side, covariates))
    solvers = likelihood.solvers()
    scale, sizes = _gradient_scale(pairs), np.diff(pairs.offsets)
    slot_scale = np.repeat(scale, sizes)
    n_slots = pairs.n_slots
    information = np.eye(len(likelihood.learned))
    response = np.zeros((len(likelihood.learned), n_slots))
    known = checkpoint.restore()
    if known is not None:
        information, response = known["information"], known["response"]
        for solver, dense in zip(solvers.values(), known["dense"].tolist(), strict=True):
            solver.dense = dense

    def solver_state() -> State:
        dense = np.array([solver.dense for solver in solvers.values()], dtype=np.bool_)
        return {"information": information, "response": response, "dense": dense}

    def objective(x: Floats) -> tuple[float, float]:
        value = likelihood.evaluate(x[:n_slots], x[n_slots:])
        return value, max(float(np.abs(likelihood.gradient / slot_scale).max(initial=0.0)), likelihood.shared_norm)

    def newton_step(x: Floats, norm: float) -> tuple[Floats, float]:
        nonlocal information, response
        cross_information = likelihood.cross_information()
        solved = likelihood.solve_scores(
            np.concatenate([likelihood.gradient[None, :], cross_information]), solvers, _forcing_term(norm)
        )
        response = solved[1:]
        information = likelihood.information - cross_information @ response.T
        chosen = _solve_dense(information, likelihood.shared_gradient - cross_information @ solved[0])
        step = np.concatenate([solved[0] - chosen @ response, chosen])
        return _bounded_step(step, float(np.abs(step).max()), x[n_slots:], shared.model, likelihood.learned)

    first = np.zeros(n_slots) if start is None else start
    at = np.concatenate([first, likelihood.start])
    if start is None and known is None and isinstance(pairs, VoteRows):
        at = _start_from_sample(pairs, at, shared, likelihood.learned)
    end = _newton(
        at,
        objective,
        newton_step,
        tol,
        max_iter,
        report,
        checkpoint,
        solver_state,
    )
    s = end.x[:n_slots]
    full = np.flatnonzero(sizes > 0)
    if len(full):
        s -= np.repeat(np.add.reduceat(s, pairs.offsets[full]) / sizes[full], sizes[full])
    learned = shared.updated(likelihood.learned, end.x[n_slots:])
    return Solution(s, learned, *end[1:], (information + information.T) / 2, response)


def sample_of(votes: VoteRows) -> VoteRows | None:
    """Return every 16th row where there are very many of one instance, else None."""
    if len(votes.left) < _MANY_ROWS or len(votes.offsets) != 2:
        return None
    names = ("left", "right", "n_left", "n_right", "n_ties", "x", "offset", "pair")
    some: dict[str, Any] = {name: np.ascontiguousarray(getattr(votes, name)[::_SAMPLED]) for name in names}
    return votes._replace(**some, starts=np.array([0, len(some["left"])]))


def _start_from_sample(votes: VoteRows, start: Floats, shared: Shared, learned: Ints) -> Floats:
    """Return scores and shared parameters to start from: about those of some of the votes, where there are very many.

    The answer does not depend on it, for the likelihood is concave; it saves half of the passes over all votes.
    """
    sample = sample_of(votes)
    if sample is None:
        return start
    which: dict[str, Any] = {"tie": 0 in learned, "side": 1 in learned, "covariates": bool((learned > 1).any())}
    found = solve_jointly(sample, np.array([0.1]), shared, **which, tol=1e-3, max_iter=_SAMPLE_STEPS)
    values = found.shared.values[learned]
    # Parameters that run away in the sample need not do so in all votes.
    near = max_norm(found.score) <= _FAR and max_norm(values) <= _FAR
    return np.concatenate([found.score, values]) if near else start


def learned_parameters(shared: Shared, tie: bool, side: bool, covariates: bool) -> Ints:
    """Return the numbers of the shared parameters that are learned: 0 tie, 1 side, from 2 the coefficients."""
    return np.flatnonzero([tie, side, *[covariates] * len(shared.beta)])


def _solve_dense(table: Floats, rhs: Floats) -> Floats:
    """Return the solution of a dense system, the one of least norm where the system is singular."""
    try:
        return np.asarray(np.linalg.solve(table, rhs), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(table, rhs)[0], dtype=np.float64)


class _JointLikelihood:
    """Penalised log-likelihood of scores and shared parameters, with its derivatives at the point evaluated last.

    `gradient` is along the scores, `shared_gradient` and `information` along the shared parameters that are learned.
    """

    def __init__(self, pairs: Pairs, prior: Floats, shared: Shared, learned: Ints) -> None:
        self.pairs = pairs
        self.prior = prior
        self.small, self.large = split_by_size(pairs)
        self.edges = read_only(pairs.starts, pairs.offsets)
        self.columns = pair_columns(pairs)
        self.shared = shared
        self.learned = learned
        self.start = shared.values[learned]
        self.slot_prior = np.repeat(prior, np.diff(pairs.offsets))
        self.outcomes = max(float(pairs.outcomes.sum()), 1.0)
        self.weight = np.empty(len(pairs.left))
        self.cross = np.empty(len(pairs.left))
        self.gradient = np.empty(pairs.n_slots)
        self.shared_gradient = np.zeros(len(learned))
        self.information = np.zeros((len(learned), len(learned)))

    def evaluate(self, s: Floats, common: Floats) -> float:
        """Return the objective at a point, and keep its derivatives there."""
        model, tie, side, _ = self.shared.updated(self.learned, common)
        self.gradient[:] = 0.0
        found = evaluate_all(self.columns, s, tie, side, model, self.gradient, self.weight, self.cross)
        value, of_tie, of_side, tie_tie, tie_side, side_side = found
        self.gradient -= self.slot_prior * s
        self.shared_gradient = np.array([of_tie, of_side])[self.learned]
        whole = np.array([[tie_tie, tie_side], [tie_side, side_side]])
        self.information = whole[np.ix_(self.learned, self.learned)]
        return value - 0.5 * float(self.slot_prior @ (s * s))

    @property
    def shared_norm(self) -> float:
        """The largest component of the shared gradient, over the number of outcomes."""
        return max_norm(self.shared_gradient) / self.outcomes

    def cross_information(self) -> Floats:
        """Return the information between each shared parameter and the scores."""
        sources = (self.cross, self.weight)
        rows = [signed_sums(self.columns, sources[k], len(self.gradient)) for k in self.learned.tolist()]
        return np.array(rows).reshape(len(rows), len(self.gradient))

    def solvers(self) -> dict[int, _Solver]:
        """Return a solver for each large instance."""
        return {n: _Solver(self.pairs.window(n), float(self.prior[n])) for n in self.large}

    def solve_scores(self, columns: Floats, solvers: Mapping[int, _Solver], accuracy: float) -> Floats:
        """Solve for each row of `columns`, in place, with the information of the scores at the point evaluated last."""
        pairs = self.pairs
        if len(self.small):
            solve_small(self.columns, self.edges, self.small, self.weight, self.prior, columns)
        for n, solver in solvers.items():
            own = slice(int(pairs.offsets[n]), int(pairs.offsets[n + 1]))
            rows = slice(int(pairs.starts[n]), int(pairs.starts[n + 1]))
            columns[:, own] = solver.solve(self.weight[rows], np.ascontiguousarray(columns[:, own]), accuracy)
        return columns


class _VoteLikelihood(_JointLikelihood):
    """Penalised log-likelihood of votes with covariates: what `_JointLikelihood` gives, in one pass over the rows."""

    def __init__(self, votes: VoteRows, prior: Floats, shared: Shared, learned: Ints) -> None:
        super().__init__(votes.pairs, prior, shared, learned)
        self.votes = votes
        self.rows = votes.columns
        # Parts are evaluated side by side. Their number depends on the votes alone, so that sums do too.
        n_rows, n_pairs = len(votes.left), len(votes.pairs.left)
        self.n_parts = min(_MOST_PARTS, max(n_rows // _PART_ROWS, 1)) if 2 * n_pairs <= n_rows else 1
        self._cross_information = np.zeros((len(learned), votes.n_slots))

    def evaluate(self, s: Floats, common: Floats) -> float:
        """Return the objective at a point, and keep its derivatives there."""
        model, tie, side, beta = self.shared.updated(self.learned, common)
        v, p = self.votes, 2 + len(beta)
        theta, s = np.array([side, *beta]), np.ascontiguousarray(s)
        # A side effect that is neither learned nor there is not added up.
        sided = 1 in self.learned or side != 0.0
        edges = np.linspace(0, len(v.left), self.n_parts + 1).astype(np.int64).tolist()

        def work(k: int) -> tuple[float, tuple[Floats, ...]]:
            part = slice(edges[k], edges[k + 1])
            sums = np.zeros(len(s)), np.zeros(len(self.weight)), np.zeros(p), np.zeros((p, p)), np.zeros((len(s), p))
            rows = tuple(column[part] for column in self.rows)
            given = rows, v.x[part], v.offset[part], v.pair[part], s, tie, theta, model, sided
            return evaluate_votes(*given, *sums), sums

        with without_progress():
            parts = map_instances(work, self.n_parts)
        value = sum(own for own, _ in parts)
        totals = [sum(own[1:], own[0]) for own in zip(*(sums for _, sums in parts), strict=True)]
        self.gradient, self.weight, shared_gradient, information, cross = totals
        self.gradient -= self.slot_prior * s
        self.shared_gradient = shared_gradient[self.learned]
        self.information = information[np.ix_(self.learned, self.learned)]
        self._cross_information = np.ascontiguousarray(cross.T[self.learned])
        return float(value) - 0.5 * float(self.slot_prior @ (s * s))

    def cross_information(self) -> Floats:
        """Return the information between each shared parameter and the scores."""
        return self._cross_information.copy()


class _ListLikelihood:
    """Penalised log-likelihood of long lists: what `_JointLikelihood` gives, without counting their pairs.

    Ties follow Davidson's model, or there are none. A Newton system is solved by conjugate gradients. Memory is some
    150 bytes per slot; the scores need a prior.
    """

    def __init__(self, lists: ListPairs, prior: Floats, shared: Shared, learned: Ints) -> None:
        self.lists = [lists.window(n) for n in range(len(lists.offsets) - 1)]
        self.prior = prior
        self.net = lists.net
        self.slots = [slice(a, b) for a, b in pairwise(lists.offsets.tolist())]
        self.shared = shared
        self.learned = learned
        self.start = shared.values[learned]
        self.slot_prior = np.repeat(prior, np.diff(lists.offsets))
        self.n_ties = float(lists.n_ties.sum())
        self.outcomes = max(float(lists.outcomes.sum()), 1.0)
        self.gradient = np.empty(lists.n_slots)
        self.curvature = np.empty(lists.n_slots)
        self.cross = np.empty(lists.n_slots)
        self.shared_gradient = np.zeros(len(learned))
        self.information = np.zeros((len(learned), len(learned)))
        self._score = np.zeros(lists.n_slots)
        self._worth = 0.0
        self._grids: list[ScoreGrid] = []

    def evaluate(self, s: Floats, common: Floats) -> float:
        """Return the objective at a point, and keep its derivatives there."""
        model, tie, *_ = self.shared.updated(self.learned, common)
        worth = 0.0 if model == PLAIN else float(np.exp(tie))
        self._score, self._worth = s.copy(), worth

        def work(n: int) -> tuple[ScoreGrid, Floats]:
            own = self.slots[n]
            grid = score_grid(s[own], worth)
            sums = pair_sums(self.lists[n], np.ascontiguousarray(s[own]), worth, grid)
            self.gradient[own] = 0.5 * self.net[own] - sums.slope
            self.curvature[own] = sums.curvature
            self.cross[own] = sums.cross
            return grid, np.array([sums.value, sums.of_tie, sums.tie_tie])

        with without_progress():
            found = map_instances(work, len(self.lists))
        self._grids = [grid for grid, _ in found]
        value, of_tie, tie_tie = sum((sums for _, sums in found), np.zeros(3)).tolist()
        self.gradient -= self.slot_prior * s
        if len(self.learned):
            self.shared_gradient = np.array([self.n_ties - of_tie])
            self.information = np.array([[tie_tie]])
        linear = 0.5 * float(self.net @ s) + (tie * self.n_ties if worth else 0.0)
        return float(linear - value - 0.5 * float(self.slot_prior @ (s * s)))

    @property
    def shared_norm(self) -> float:
        """The largest component of the shared gradient, over the number of outcomes."""
        return max_norm(self.shared_gradient) / self.outcomes

    def cross_information(self) -> Floats:
        """Return the information between each shared parameter and the scores."""
        return self.cross[None, :].copy() if len(self.learned) else np.zeros((0, len(self.cross)))

    def solvers(self) -> dict[int, _Solver]:
        """Return no solvers: conjugate gradients solve every instance."""
        return {}

    def solve_scores(self, columns: Floats, _solvers: Mapping[int, _Solver], accuracy: float) -> Floats:
        """Solve for each row of `columns`, in place, with the information of the scores at the point evaluated last."""

        def work(n: int) -> None:
            own = self.slots[n]
            lists, score, grid = self.lists[n], np.ascontiguousarray(self._score[own]), self._grids[n]
            diagonal = self.curvature[own] + self.prior[n]
            for rhs in columns:

                def times(x: Floats) -> Floats:
                    out: Floats = diagonal * x - curvature_times(lists, score, self._worth, grid, x)
                    return out

                rhs[own] = conjugate_gradients(times, rhs[own], diagonal, rtol=accuracy, max_iter=5000)[0]

        with without_progress():
            map_instances(work, len(self.lists))
        return columns


def _likelihood_of(
    pairs: Pairs | ListPairs | VoteRows, prior: Floats, shared: Shared, learned: Ints
) -> _JointLikelihood | _ListLikelihood:
    if isinstance(pairs, ListPairs):
        return _ListLikelihood(pairs, prior, shared, learned)
    return _joint_likelihood(pairs, prior, shared, learned)


def _joint_likelihood(pairs: Pairs | VoteRows, prior: Floats, shared: Shared, learned: Ints) -> _JointLikelihood:
    kind = _VoteLikelihood if isinstance(pairs, VoteRows) else _JointLikelihood
    return kind(pairs, prior, shared, learned)  # type: ignore[arg-type]


def _bounded_step(step: Floats, step_size: float, common: Floats, model: int, learned: Ints) -> tuple[Floats, float]:
    """Return the step and its size, scaled down so that it is not too long and the tie parameter stays in its bounds.

    The last components of a step belong to the shared parameters that are learned, whose values are `common`.
    """
    reach = min(1.0, LONGEST_STEP / step_size) if step_size > 0 else 1.0
    if 0 in learned:
        change, tie = float(step[-len(learned)]), float(common[0])
        if model == RAO_KUPPER and tie + reach * change < tie / 4:
            reach = -0.75 * tie / change
        elif abs(tie + reach * change) > TIE_BOUND and change != 0:
            reach = max((np.sign(change) * TIE_BOUND - tie) / change, 0.0)
    return step * reach, step_size * reach


def information_at_start(votes: VoteRows, shared: Shared, learned: Ints) -> tuple[Floats, Floats]:
    """Return the information of shared parameters at equal items, the scores profiled out, and with scores known."""
    tiny = np.maximum(_gradient_scale(votes) * 1e-12, 1e-300)
    likelihood = _VoteLikelihood(votes, tiny, shared, learned)
    likelihood.evaluate(np.zeros(votes.n_slots), likelihood.start)
    cross = likelihood.cross_information()
    response = likelihood.solve_scores(cross.copy(), likelihood.solvers(), _forcing_term(0.0))
    return likelihood.information - cross @ response.T, likelihood.information


class Profile(NamedTuple):
    """Profile log-likelihood of some instances at given shared parameters: the maximum over their scores.

    `gradient` and `information` are along the shared parameters that are learned; `response` is as in `Solution`;
    `score_norm` is the norm of what is left of the gradient along the scores.
    """

    value: float
    gradient: Floats
    information: Floats
    score_norm: float
    score: Floats
    response: Floats


def profile(
    pairs: Pairs | ListPairs | VoteRows,
    prior: Floats,
    shared: Shared,
    learned: Ints,
    *,
    tol: float,
    max_iter: int,
    start: Floats,
) -> Profile:
    """Return the profile log-likelihood of shared parameters, with its derivatives along those `learned`."""
    best = solve(pairs, prior, shared, tol=tol, max_iter=max_iter, start=start)
    likelihood = _likelihood_of(pairs, prior, shared, learned)
    value = likelihood.evaluate(best.score, likelihood.start)
    cross_information = likelihood.cross_information()
    response = likelihood.solve_scores(cross_information.copy(), likelihood.solvers(), _forcing_term(0.0))
    information = likelihood.information - cross_information @ response.T
    return Profile(value, likelihood.shared_gradient, information, best.gradient_norm, best.score, response)


def maximise_profile(
    evaluate: Callable[[Shared], Profile],
    shared: Shared,
    learned: Ints,
    outcomes: float,
    *,
    tol: float,
    max_iter: int,
    report: Report | None = None,
    checkpoint: Checkpointer = NO_CHECKPOINT,
    solver_state: Callable[[], State] = dict,
) -> Solution:
    """Return the shared parameters that maximise the profile log-likelihood.

    `evaluate` gives the sums over all instances of what `profile` returns. The scores stay where it computes them, and
    `solver_state` gives them for a checkpoint; those of the solution are empty.
    """
    found: Profile | None = None

    def last(common: Floats) -> Profile:
        """Return the profile evaluated last, or that at `common` where none was."""
        nonlocal found
        if found is None:
            found = evaluate(shared.updated(learned, common))
        return found

    def objective(common: Floats) -> tuple[float, float]:
        nonlocal found
        found = None
        here = last(common)
        return here.value, max(here.score_norm, max_norm(here.gradient) / max(outcomes, 1.0))

    def newton_step(common: Floats, _norm: float) -> tuple[Floats, float]:
        step = _solve_dense(last(common).information, last(common).gradient)
        return _bounded_step(step, float(np.abs(step).max()), common, shared.model, learned)

    start = shared.values[learned]
    end = _newton(start, objective, newton_step, tol, max_iter, report, checkpoint, solver_state)
    information = last(end.x).information
    information = (information + information.T) / 2
    best = shared.updated(learned, end.x)
    return Solution(np.zeros(0), best, *end[1:], information, np.zeros((len(learned), 0)))


def solve_linear(
    pairs: Pairs | VoteRows,
    features: Floats,
    prior: Floats,
    shared: Shared,
    *,
    tie: bool,
    side: bool,
    covariates: bool = False,
    tol: float = 1e-9,
    max_iter: int = 100,
    report: Report | None = None,
    checkpoint: Checkpointer = NO_CHECKPOINT,
) -> tuple[Floats, Solution]:
    """Return the coefficients b of features, and the solution with scores features · b, fitted with the shared ones.

    The prior is on the scores, so the units of the features do not matter. `information` of the solution is that of
    (b, tie, side, coefficients of covariates), as far as they are learned. Columns must be linearly independent.
    O(pairs · F²) per step. `checkpoint` receives the state after every step.
    """
    f = features.shape[1]
    likelihood = _joint_likelihood(pairs, prior, shared, learned_parameters(shared, tie, side, covariates))
    prior_information = features.T @ (likelihood.slot_prior[:, None] * features)
    size = np.maximum(np.abs(features).max(axis=0, initial=0.0), 1e-300) * likelihood.outcomes
    information = np.empty((f + len(likelihood.learned), f + len(likelihood.learned)))

    def objective(x: Floats) -> tuple[float, float]:
        value = likelihood.evaluate(features @ x[:f], x[f:])
        return value, max(
            float(np.abs(features.T @ likelihood.gradient / size).max(initial=0.0)), likelihood.shared_norm
        )

    def fill_information() -> None:
        information[:f, :f] = prior_information + _weighted_gram(likelihood.pairs, features, likelihood.weight)
        information[f:, :f] = likelihood.cross_information() @ features
        information[:f, f:] = information[f:, :f].T
        information[f:, f:] = likelihood.information

    def newton_step(x: Floats, _norm: float) -> tuple[Floats, float]:
        fill_information()
        step = _solve_dense(information, np.concatenate([features.T @ likelihood.gradient, likelihood.shared_gradient]))
        step_size = max(float(np.abs(features @ step[:f]).max(initial=0.0)), float(np.abs(step[f:]).max(initial=0.0)))
        return _bounded_step(step, step_size, x[f:], shared.model, likelihood.learned)

    end = _newton(
        np.concatenate([np.zeros(f), likelihood.start]), objective, newton_step, tol, max_iter, report, checkpoint
    )
    objective(end.x)
    fill_information()
    b = end.x[:f]
    found = shared.updated(likelihood.learned, end.x[f:])
    return b, Solution(features @ b, found, *end[1:], information, np.zeros((0, pairs.n_slots)))


def _weighted_gram(pairs: Pairs, features: Floats, weight: Floats) -> Floats:
    """Return Σ weight (x_left - x_right)(x_left - x_right)ᵀ over pairs, in blocks of pairs."""
    out = np.zeros((features.shape[1], features.shape[1]))
    block = max((1 << 22) // max(features.shape[1], 1), 1)
    for start in range(0, len(weight), block):
        rows = slice(start, start + block)
        gap = features[pairs.left[rows]] - features[pairs.right[rows]]
        out += gap.T @ (weight[rows, None] * gap)
    return out


def gradient_ascent(pairs: Pairs, prior: Floats, *, steps: int, rate: float) -> Solution:
    """Return the scores after `steps` gradient steps from 0.

    A step is rate · M² / T times the gradient, M items and T outcomes of the instance. The likelihood has no ties; tied
    outcomes are left out. O(pairs) per step.
    """
    n = len(pairs.offsets) - 1
    sizes = np.diff(pairs.offsets)
    total = list_sums(pairs.n_left + pairs.n_right, pairs.starts)
    each = ratio(rate * sizes * sizes, total, 0.0)
    s = np.zeros(pairs.n_slots)
    out = np.zeros((2, n))
    edges = read_only(pairs.starts, pairs.offsets)
    gradient_steps(
        pair_columns(pairs), edges, prior, each, _gradient_scale(pairs), steps, s, np.empty(len(pairs.left)), out
    )
    norm = float(out[1].max(initial=0.0))
    none = np.zeros((0, 0)), np.zeros((0, len(s)))
    return Solution(s, NO_TIES, float(out[0].sum()), norm, steps, norm == 0.0, [], *none)


# Observed information, for intervals.


def information(pairs: Pairs | VoteRows, score: Floats, prior: float, shared: Shared, learned: Ints) -> Floats:
    """Return the observed information (−Hessian) of one instance: its scores, then the parameters `learned`.

    `learned` holds 0 for the tie parameter, 1 for the side effect, from 2 the coefficients of covariates. The precision
    of the prior is included.
    """
    m = pairs.n_slots
    likelihood = _joint_likelihood(pairs, np.array([prior]), shared, learned)
    likelihood.evaluate(score, likelihood.start)
    table = np.empty(m * m)
    fill_hessian(likelihood.columns, (0, len(likelihood.pairs.left)), likelihood.weight, 0, m, prior, False, table)
    out = np.zeros((m + len(learned), m + len(learned)))
    upper = table.reshape(m, m)
    out[:m, :m] = upper + np.triu(upper, 1).T
    out[m:, :m] = likelihood.cross_information()
    out[:m, m:] = out[m:, :m].T
    out[m:, m:] = likelihood.information
    return out
