"""Ways down a slope: where they end, when they stop, and that what they remember is all there is."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from concordant.arrays import Floats
from concordant.learning.optimisers import LBFGS, SGD, Adam


def bowl(size: int, seed: int = 0) -> tuple[Any, Floats]:
    """Return a convex quadratic with a condition number of 1000 or so, and its lowest point."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(size, size))
    H = A @ A.T + 0.1 * np.eye(size)
    b = rng.normal(size=size)
    return lambda x: (float(0.5 * x @ H @ x - b @ x), H @ x - b), np.linalg.solve(H, b)


def went(solver: LBFGS, point: Floats, objective: Any, most: int = 2000) -> tuple[Floats, list[float]]:
    state, values = solver.initial_state(point), []
    while not solver.finished(state) and len(values) < most:
        state = solver.step(state, objective)
        values.append(solver.value(state))
    return state, values


def test_lbfgs_finds_the_lowest_point_and_never_goes_up() -> None:
    objective, lowest = bowl(12)
    solver = LBFGS(12, 1e-15)
    state, values = went(solver, np.zeros(12), objective)
    assert solver.finished(state)
    np.testing.assert_allclose(solver.point(state), lowest, atol=1e-5)
    assert all(after <= before for before, after in pairwise(values))
    value, slope = objective(solver.point(state))
    assert solver.value(state) == value
    np.testing.assert_array_equal(solver.gradient(state), slope)


def test_lbfgs_goes_through_the_valley_of_rosenbrock() -> None:
    def valley(x: Floats) -> tuple[float, Floats]:
        a, b = x
        value = (1 - a) ** 2 + 100 * (b - a * a) ** 2
        return float(value), np.array([-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)])

    state, _ = went(LBFGS(2, 1e-14), np.array([-1.2, 1.0]), valley)
    np.testing.assert_allclose(LBFGS(2, 1e-14).point(state), [1.0, 1.0], atol=1e-5)


def test_lbfgs_comes_near_the_lowest_kink() -> None:
    rng = np.random.default_rng(1)
    A, b = rng.normal(size=(30, 4)), rng.normal(size=30)

    def kinks(x: Floats) -> tuple[float, Floats]:
        margin = A @ x - b
        over = margin > 0
        return float(margin[over].sum() + 0.5 * x @ x), A.T @ over + x

    scipy_optimize = pytest.importorskip("scipy.optimize")
    best = min(
        scipy_optimize.minimize(
            lambda x: kinks(x)[0],
            rng.normal(size=4),
            method="Nelder-Mead",
            options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 20000, "maxfev": 20000},
        ).fun
        for _ in range(3)
    )
    _, values = went(LBFGS(4, 1e-12), np.zeros(4), kinks)
    assert values[-1] == pytest.approx(best, rel=2e-2)


def test_lbfgs_stops_on_what_falls_for_ever() -> None:
    solver = LBFGS(1, 1e-5)
    with np.errstate(all="raise", under="ignore"):
        state, values = went(solver, np.zeros(1), lambda x: (float(np.exp(-x[0])), -np.exp(-x)))
    assert solver.finished(state)
    assert len(values) < 100
    assert 0 < values[-1] < 1e-6


@pytest.mark.parametrize("wall", [np.inf, np.nan])
def test_lbfgs_shrinks_back_from_what_is_no_number(wall: float) -> None:
    def cliff(x: Floats) -> tuple[float, Floats]:
        return (float((x[0] - 0.9) ** 2), 2 * (x - 0.9)) if abs(x[0]) < 1 else (wall, np.full(1, wall))

    state, _ = went(LBFGS(1, 1e-12), np.array([-0.99]), cliff)
    assert LBFGS(1, 1e-12).point(state)[0] == pytest.approx(0.9, abs=1e-6)


def test_lbfgs_is_over_where_nothing_slopes() -> None:
    solver = LBFGS(2, 1e-5)
    state = solver.step(solver.initial_state(np.ones(2)), lambda _: (3.0, np.zeros(2)))
    assert solver.finished(state)
    assert solver.point(state).tolist() == [1.0, 1.0]
    np.testing.assert_array_equal(solver.step(state, lambda _: (0.0, np.ones(2))), state)


@pytest.mark.parametrize("scale", [1e-9, 1e120])
def test_lbfgs_minds_no_units(scale: float) -> None:
    objective, lowest = bowl(3)
    solver = LBFGS(3, 1e-13)
    with np.errstate(all="raise", under="ignore"):
        state, _ = went(solver, np.zeros(3), lambda x: tuple(scale * part for part in objective(x)))
    np.testing.assert_allclose(solver.point(state), lowest, atol=1e-3)


def test_a_state_is_all_there_is() -> None:
    objective, _ = bowl(6)
    solver = LBFGS(6, 1e-14, memory=3)
    state = solver.initial_state(np.ones(6))
    for _ in range(7):
        state = solver.step(state, objective)
    kept, before = state.copy(), state.copy()
    on, again = solver.step(state, objective), LBFGS(6, 1e-14, memory=3).step(kept, objective)
    np.testing.assert_array_equal(on, again)
    np.testing.assert_array_equal(state, before)


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_steps_against_the_gradient_come_down(kind: Any) -> None:
    objective, lowest = bowl(3, seed=4)
    solver = kind(3, 1e-9, 0.02)
    state = solver.initial_state(np.zeros(3))
    for _ in range(20_000):
        value, slope = objective(solver.point(state))
        solver.update(state, slope)
        solver.end_pass(state, value)
        if solver.finished(state):
            break
    assert solver.finished(state)
    np.testing.assert_allclose(solver.point(state), lowest, atol=0.02)


def test_one_step_of_adam_is_that_of_its_paper() -> None:
    solver = Adam(2, 1e-5, 0.1)
    state = solver.initial_state(np.array([1.0, -2.0]))
    mean, square = np.zeros(2), np.zeros(2)
    x = np.array([1.0, -2.0])
    for t, g in enumerate((np.array([0.5, -4.0]), np.array([0.25, 3.0]), np.array([-1.0, 0.0])), 1):
        solver.update(state, g)
        mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
        x = x - 0.1 * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
        np.testing.assert_allclose(solver.point(state), x, rtol=1e-12)


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_a_noisy_descent_stops_when_ten_passes_are_no_better_than_the_ten_before(kind: Any) -> None:
    solver = kind(1, 0.01, 0.1)
    state = solver.initial_state(np.zeros(1))
    for value in range(100, 81, -1):
        solver.end_pass(state, float(value))
        assert solver.value(state) == value
        assert not solver.finished(state)
    solver.end_pass(state, 81.0)
    assert not solver.finished(state)
    for _ in range(18):
        solver.end_pass(state, 81.0)
    assert solver.finished(state)
