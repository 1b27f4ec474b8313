"""Iterations end bit for bit where they would have, from whichever step they are taken up again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest
from tests.kernels.test_mpm import profile_of

from concordant.aggregators import _bradley_terry_fit, _expert_reliability, _mpm_fit, _plackett_luce_fit
from concordant.arrays import read_only
from concordant.kernels import bradley_terry, mpm
from concordant.kernels.pair_counts import Pairs
from concordant.kernels.plackett_luce import Rankings
from concordant.learning import resumable


class Kept:
    """Keeps in memory what a file would hold."""

    enabled = True

    def __init__(self, state: resumable.State | None = None) -> None:
        self.known, self.states = state, list[resumable.State]()

    def restore(self) -> resumable.State | None:
        return self.known

    def steps(self, total: int) -> AbstractContextManager[None]:
        return nullcontext()

    def save(self, done: int, state: Callable[[], resumable.State]) -> None:
        self.states.append({name: array.copy() for name, array in state().items()})


def valley(x: np.ndarray) -> tuple[float, np.ndarray]:
    """Return Rosenbrock's function and its slope."""
    a, b = x
    return (1 - a) ** 2 + 100 * (b - a * a) ** 2, np.array([2 * (a - 1) - 400 * a * (b - a * a), 200 * (b - a * a)])


def test_a_solver_of_a_library_is_led_past_what_it_was_told() -> None:
    start, options = np.array([-1.2, 1.0]), {"maxiter": 100}
    kept, values = Kept(), list[float]()
    whole = resumable.minimise(
        valley, start, options=options, checkpoint=kept, callback=lambda _, value: values.append(value)
    )
    plain = resumable.minimise(valley, start, options=options)
    assert len(kept.states) == whole.n_iter == len(values) > 20
    for step, state in enumerate(kept.states, start=1):
        asked, again = list[np.ndarray](), list[float]()

        def counted(x: np.ndarray, asked: list[np.ndarray] = asked) -> tuple[float, np.ndarray]:
            asked.append(x)
            return valley(x)

        found = resumable.minimise(
            counted,
            start,
            options=options,
            checkpoint=Kept(state),
            callback=lambda _, value, again=again: again.append(value),
        )
        for one, other in zip(found, whole, strict=True):
            np.testing.assert_array_equal(one, other)
        assert again == values
        assert len(asked) == len(kept.states[-1]["values"]) - len(state["values"]), step
    for one, other in zip(plain, whole, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_solver_that_goes_another_way_is_told_anew() -> None:
    kept = Kept()
    resumable.minimise(valley, np.array([-1.2, 1.0]), options={"maxiter": 100}, checkpoint=kept)
    # Of another start nothing is known but that the checkpoint says so.
    want = resumable.minimise(valley, np.array([2.0, 2.0]), options={"maxiter": 100})
    got = resumable.minimise(valley, np.array([2.0, 2.0]), options={"maxiter": 100}, checkpoint=Kept(kept.states[9]))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


def taken_up_anywhere(run: Callable[[resumable.Checkpointer], Any], least: int = 3) -> list[resumable.State]:
    """Check that a run ends in the same way from every state it kept, and return the states."""
    whole, kept = run(resumable.NO_CHECKPOINT), Kept()
    alike(run(kept), whole)
    assert len(kept.states) >= least
    for n, state in enumerate(kept.states):
        again = Kept({name: array.copy() for name, array in state.items()})
        alike(run(again), whole)
        assert len(again.states) == len(kept.states) - n - 1
    return kept.states


def alike(one: Any, other: Any) -> None:
    if isinstance(one, tuple):
        for a, b in zip(one, other, strict=True):
            alike(a, b)
    else:
        np.testing.assert_array_equal(one, other)


def nobody(done: int, total: int) -> None:
    """Hear of steps."""


def chance(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def circle(n: int) -> Pairs:
    """Return a circle of items in which everybody meets the next two, and some tie."""
    rng = chance(n)
    at = np.arange(n, dtype=np.int32)
    ends = np.concatenate([np.stack([at, (at + k) % n]) for k in (1, 2)], axis=1)
    left, right = ends.min(axis=0), ends.max(axis=0)
    counts = [rng.integers(1, 9, len(left)).astype(np.float64) for _ in range(3)]
    return Pairs(left, right, *counts, np.array([0, len(left)]), np.array([0, n]))


@pytest.mark.parametrize("slow", [False, True])
def test_scores_of_pairs(slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = _bradley_terry_fit.conjugate_gradient_solve
    # Conjugate gradients that are slow at the beginning are not tried again.
    monkeypatch.setattr(
        _bradley_terry_fit,
        "conjugate_gradient_solve",
        lambda *how: quick(*how) and not (slow and how[-2] >= 1e-3),
    )
    pairs, prior = circle(200), np.array([0.1])
    start = bradley_terry.Shared(bradley_terry.DAVIDSON, -1.0, 0.0)
    how = {"tie": True, "side": True}
    states = taken_up_anywhere(
        lambda checkpoint: _bradley_terry_fit.solve_jointly(pairs, prior, start, **how, checkpoint=checkpoint)
    )
    assert states[-1]["dense"].tolist() == [slow]
    taken_up_anywhere(lambda checkpoint: _bradley_terry_fit.solve(pairs, prior, checkpoint=checkpoint))
    features = chance(1).standard_normal((200, 3))
    taken_up_anywhere(
        lambda checkpoint: _bradley_terry_fit.solve_linear(pairs, features, prior, start, **how, checkpoint=checkpoint)
    )


def test_steps_that_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    # A hill whose curvature at the start sends Newton's method much too far.
    def look(x: np.ndarray) -> tuple[float, float]:
        at.append(float(x[0]))
        return -float(np.log(np.cosh(x[0]))), abs(float(np.tanh(x[0])))

    def step(x: np.ndarray, _: float) -> tuple[np.ndarray, float]:
        move = -np.tanh(x) * np.cosh(x) ** 2
        return move, abs(float(move[0]))

    at: list[float] = []
    states = taken_up_anywhere(
        lambda checkpoint: _bradley_terry_fit._newton(np.array([1.3]), look, step, 1e-12, 50, None, checkpoint), least=5
    )
    assert len({float(state["best"][0]) for state in states}) < len(states)


def test_scores_and_judges() -> None:
    rng = chance(5)
    left, right = rng.integers(0, 6, 300), rng.integers(0, 6, 300)
    met = left != right
    left, right, expert = left[met], right[met], rng.integers(0, 5, 300)[met]
    true = np.where(expert == 4, 0.0, 1.0) * (right - left)
    answer = np.where(rng.random(len(left)) < 0.2, 0, np.sign(true + rng.logistic(size=len(left))))
    counts = [(answer == side).astype(np.float64) for side in (1, -1, 0)]
    codes = (left.astype(np.int32), right.astype(np.int32), expert.astype(np.int32))
    outcomes = _expert_reliability.Outcomes(*codes, *counts, np.array([0, 6]))
    taken_up_anywhere(
        lambda checkpoint: _expert_reliability.fit_judges(outcomes, 5, prior=0.1, max_iter=60, checkpoint=checkpoint),
        least=8,
    )


def packed(lists: int, items: int) -> mpm.PackedCounts:
    """Return three instances of some lists, each over all items."""
    rng = chance(3)
    n = 3 * lists
    net = np.array([rng.permutation(2.0 * np.arange(items) - items + 1) for _ in range(n)]).ravel()
    return mpm.PackedCounts(
        *read_only(items * np.arange(4), lists * np.arange(4), items * np.arange(n + 1)),
        np.tile(np.arange(lists), 3),
        np.full(n, 1.0 / lists),
        *read_only((items * np.repeat(np.arange(3), lists * items) + np.tile(np.arange(items), n)).astype(np.int32)),
        net / (lists * items * (items - 1) / 2),
        np.ones(3),
    )


@pytest.mark.parametrize("dense", [0, 1000])
def test_adherence(dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mpm_fit, "_DENSE_EXPERTS", dense)
    data = packed(6, 7)
    how: dict[str, Any] = {"tol": 1e-9, "max_iter": 40, "report": nobody}
    heard = np.ones(6, dtype=np.bool_)
    taken_up_anywhere(
        lambda checkpoint: _mpm_fit.maximise_adherence(profile_of(data, 1e-3), heard, 7, **how, checkpoint=checkpoint)
    )
    taken_up_anywhere(
        lambda checkpoint: _mpm_fit.gradient_ascent(
            data, np.ones(6), 6, learning=True, report=nobody, checkpoint=checkpoint
        ),
        least=6,
    )


def test_scores_of_stages() -> None:
    # Seven of eight lists begin with 0 and 1; the rest of a list is what it does not hold.
    item = np.array([0, 1] * 7 + [2, 0], dtype=np.int32)
    rankings = Rankings(
        item,
        np.ones(16, dtype=np.uint8),
        np.arange(0, 17, 2),
        np.array([1e5] * 7 + [1.0]),
        np.full(8, 2, dtype=np.uint8),
        np.zeros(0),
        False,
    )

    def model() -> _plackett_luce_fit.PenalisedLikelihood:
        return _plackett_luce_fit.PenalisedLikelihood(rankings, 5, 1e-3, None, 1.0)

    states = taken_up_anywhere(
        lambda checkpoint: _plackett_luce_fit.newton(model(), np.zeros(5), 50, 1e-9, checkpoint=checkpoint)
    )
    # On the way the rest had to be written out item by item.
    assert {bool(state["progress"][2]) for state in states} == {False, True}
    taken_up_anywhere(
        lambda checkpoint: _plackett_luce_fit.minorise(model(), np.zeros(5), 12, 1e-9, checkpoint=checkpoint)
    )
    taken_up_anywhere(
        lambda checkpoint: _plackett_luce_fit.gradient_ascent(model(), np.zeros(5), 5, checkpoint=checkpoint)
    )
