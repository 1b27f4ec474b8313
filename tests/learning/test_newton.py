"""Newton's method with backtracking: where it ends, when it stops, and that steps that overshoot are shortened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from concordant.arrays import Floats
from concordant.learning.newton import NewtonResult, NewtonState, NewtonStep, backtrack, backtrack_each, maximise


@dataclass(frozen=True)
class Logistic:
    """A logistic regression with a normal prior, at some coefficients."""

    X: Floats
    y: Floats
    b: Floats

    @property
    def value(self) -> float:
        z = self.X @ self.b
        return float(self.y @ z - np.logaddexp(0.0, z).sum() - 0.05 * self.b @ self.b)

    @property
    def gradient(self) -> Floats:
        return np.asarray(self.X.T @ (self.y - self.share) - 0.1 * self.b)

    @property
    def share(self) -> Floats:
        return np.asarray(expit(self.X @ self.b))

    @property
    def norm(self) -> float:
        return float(np.abs(self.gradient).max())

    def step(self) -> NewtonStep[Logistic]:
        weight = self.share * (1.0 - self.share)
        step = np.linalg.solve(self.X.T @ (weight[:, None] * self.X) + 0.1 * np.eye(len(self.b)), self.gradient)
        return NewtonStep(lambda part: Logistic(self.X, self.y, self.b + part * step), 1.0, float(self.gradient @ step))


def fitted(start: float, tol: float = 1e-8, max_iter: int = 100) -> tuple[Logistic, NewtonResult[Logistic]]:
    rng = np.random.default_rng(3)
    X = 3.0 * rng.normal(size=(60, 4))
    first = Logistic(X, (rng.random(60) < expit(X @ np.ones(4))).astype(float), np.full(4, start))
    return first, maximise(
        NewtonState(first, 0, False, [first.value]), lambda at: at.step(), tol=tol, max_iter=max_iter
    )


def test_it_finds_the_maximum_that_scipy_finds_from_where_plain_newton_diverges() -> None:
    for start in (0.0, 3.0, -3.0):
        first, end = fitted(start)
        known = minimize(
            lambda b, at=first: -Logistic(at.X, at.y, b).value, np.zeros(4), options={"gtol": 1e-9, "maxiter": 500}
        )
        np.testing.assert_allclose(end.point.b, known.x, atol=1e-5)
        assert end.converged
        assert end.objective == end.point.value == end.trace[-1]
        assert np.diff(end.trace).min() >= -1e-10
    # The full first step from -3 lowers the objective by far.
    full = first.step().trial(1.0)
    assert full is not None
    assert full.value < first.value - 100


def test_one_more_step_than_the_tolerance_asks_for() -> None:
    _, end = fitted(0.0)
    norms = []
    for n in range(end.n_iter + 1):
        _, cut = fitted(0.0, max_iter=n)
        assert (cut.n_iter, cut.converged) == (n, cut.gradient_norm <= 1e-8)
        norms.append(cut.gradient_norm)
    assert norms[-3] > 1e-8 >= norms[-2] > norms[-1] == end.gradient_norm


def test_trials_out_of_range_are_shortened_and_no_step_ends_the_search() -> None:
    first, _ = fitted(0.0)
    start = NewtonState(first, 0, False, [first.value])

    def short(at: Logistic) -> NewtonStep[Logistic]:
        step = at.step()
        return step._replace(trial=lambda part: step.trial(part) if part < 0.3 else None)

    end = maximise(start, short, tol=1e-8, max_iter=1)
    there = first.step().trial(0.25)
    assert there is not None
    assert end.point.b.tolist() == there.b.tolist()
    none = maximise(start, lambda _: None, tol=1e-8, max_iter=9)
    assert (none.point, none.n_iter, none.converged) == (first, 0, False)
    done = maximise(start._replace(done=True), lambda at: at.step(), tol=1e-8, max_iter=9)
    assert done.n_iter == 0


def test_independent_steps_are_shortened_one_by_one() -> None:
    rng = np.random.default_rng(0)
    x, step = rng.normal(size=200), 30.0 * rng.normal(size=200)
    least = -x * x

    def alone(k: int) -> float:
        found = backtrack(lambda part: x[k] + part * step[k], lambda at, _: -at * at >= least[k], halvings=6)
        return x[k] if found is None else float(found)

    found = backtrack_each(lambda length: x + length * step, lambda at: -at * at, least, halvings=6)
    assert found.tolist() == [alone(k) for k in range(200)]
    # Steps away from 0 end where they began.
    assert (found == x).sum() > 50
