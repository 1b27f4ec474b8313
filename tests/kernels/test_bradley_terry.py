"""Likelihoods against the printed formulas and finite differences, solvers against a general optimiser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.oracles import paired as oracle

from concordant.aggregators import _bradley_terry_fit
from concordant.kernels import bradley_terry
from concordant.kernels.lists import offsets_of
from concordant.kernels.pair_counts import Pairs, from_rows

MODELS = ("none", "davidson", "rao-kupper")
NOTHING = np.zeros(0, dtype=np.int64)

# Asymmetric, connected, some pairs never met, every outcome at least once.
ROWS: list[tuple[int, int, float, float, float]] = [
    (0, 1, 5.0, 2.0, 1.0),
    (0, 2, 3.0, 1.0, 2.0),
    (1, 2, 2.0, 2.0, 0.0),
    (2, 3, 4.0, 1.0, 3.0),
    (1, 3, 3.0, 0.0, 1.0),
    (3, 4, 1.5, 1.0, 0.0),
    (0, 4, 6.0, 1.0, 0.5),
]
M = 5


def pairs_of(rows: list[tuple[int, int, float, float, float]], n: int, *, ordered: bool = False) -> Pairs:
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)
    left, right = (table[:, k].astype(np.int32) for k in (0, 1))
    counts = (np.ascontiguousarray(table[:, k]) for k in (2, 3, 4))
    return from_rows(left, right, *counts, np.array([0, len(rows)]), np.array([0, n]), ordered=ordered)


def start_of(pairs: Pairs, code: int) -> bradley_terry.Shared:
    """Return the shared parameters of equal items."""
    decided = float(pairs.n_left.sum() + pairs.n_right.sum())
    tie = bradley_terry.tie_of_equal_items(float(pairs.n_ties.sum()), decided, code) if code else 0.0
    return bradley_terry.Shared(code, tie, 0.0)


def parameter(model: str, tie: float) -> float:
    """Return ν or θ from the kernel's logarithm."""
    return 0.0 if model == "none" else float(np.exp(tie))


def untied(rows: list[Any], model: str) -> list[Any]:
    return [(*r[:4], 0.0) for r in rows] if model == "none" else rows


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("gap", [-3.0, -0.4, 0.0, 0.9, 8.0])
def test_terms_are_the_printed_likelihood_with_its_slopes(model: str, gap: float) -> None:
    tie, counts = 0.37, (2.0, 1.5, 0.0 if model == "none" else 0.7)
    code = bradley_terry.MODELS[model]

    def value(x: np.ndarray) -> float:
        return oracle.log_likelihood([(0, 1, *counts)], [x[0], 0.0], parameter(model, x[1]), 0.0, model)

    f, g, w, gt, c, h = bradley_terry._terms(gap, *counts, tie, code)
    x = np.array([gap, tie])
    assert f == pytest.approx(value(x), rel=1e-12)
    np.testing.assert_allclose([g, gt], oracle.slopes(value, x), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose([[w, c], [c, h]], -oracle.bends(value, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_terms_stay_finite_far_out(model: str) -> None:
    for gap in (-800.0, 800.0):
        assert np.isfinite(bradley_terry._terms(gap, 1.0, 1.0, 1.0, 0.5, bradley_terry.MODELS[model])).all()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("side", [False, True])
def test_information_is_the_negative_second_derivative(model: str, side: bool) -> None:
    rows, prior = untied(ROWS, model), 0.3
    learned = np.flatnonzero([model != "none", side])
    shared = bradley_terry.Shared(bradley_terry.MODELS[model], 0.0 if model == "none" else 0.4, 0.25 if side else 0.0)
    score = np.array([0.7, 0.2, -0.1, -0.3, -0.5])

    def value(x: np.ndarray) -> float:
        both = np.array([shared.tie, shared.side])
        both[learned] = x[M:]
        ll = oracle.log_likelihood(rows, x[:M], parameter(model, both[0]), both[1], model)
        return ll - 0.5 * prior * float(x[:M] @ x[:M])

    got = _bradley_terry_fit.information(pairs_of(rows, M, ordered=side), score, prior, shared, learned)
    at = np.concatenate([score, np.array([shared.tie, shared.side])[learned]])
    np.testing.assert_allclose(got, -oracle.bends(value, at), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("model", MODELS)
def test_gradients_of_rows_are_those_of_their_clusters(model: str) -> None:
    rows = untied(ROWS, model)
    shared = bradley_terry.Shared(bradley_terry.MODELS[model], 0.0 if model == "none" else 0.4, 0.25)
    learned = np.flatnonzero([model != "none", True])
    cluster = np.array([0, 1, 0, 2, 1, 2, 0], dtype=np.int32)
    score = np.array([0.7, 0.2, -0.1, -0.3, -0.5])
    table = np.array(rows)
    columns: Any = (
        *(table[:, k].astype(np.int32) for k in (0, 1)),
        *(np.ascontiguousarray(table[:, k]) for k in (2, 3, 4)),
    )
    got, information = bradley_terry.row_gradients(columns, cluster, (0, len(rows)), (0, M), 3, score, shared, learned)
    for k in range(3):
        own = [r for r, c in zip(rows, cluster, strict=True) if c == k]

        def value(x: np.ndarray, own: list[Any] = own) -> float:
            both = np.array([shared.tie, shared.side])
            both[learned] = x[M:]
            return oracle.log_likelihood(own, x[:M], parameter(model, both[0]), both[1], model)

        at = np.concatenate([score, np.array([shared.tie, shared.side])[learned]])
        np.testing.assert_allclose(got[k], oracle.slopes(value, at), rtol=1e-6, atol=1e-7)
        bends = np.diag(oracle.bends(value, at))[:M]
        np.testing.assert_allclose(information[k], -bends, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(("binary", "ties"), [(False, False), (True, True)])
def test_gradients_of_lists_add_up_to_that_of_all(binary: bool, ties: bool) -> None:
    lists = [{0: 1.0, 1: 2.0, 3: 2.0}, {2: 1.0, 0: 3.0}, {1: 1.5, 2: 1.5, 3: 4.0, 4: 0.5}]
    values = np.array([v for one in lists for v in one.values()])
    slots = np.array([i for one in lists for i in one], dtype=np.int32)
    offsets = offsets_of(np.array([len(one) for one in lists]))
    model = "davidson" if ties else "none"
    shared = bradley_terry.Shared(bradley_terry.MODELS[model], 0.2, 0.0)
    learned = np.array([0]) if ties else NOTHING
    score = np.array([0.7, 0.2, -0.1, -0.3, -0.5])
    got, information = bradley_terry.list_gradients(
        (values, slots, offsets), (0, 3), (0, M), score, shared, learned, binary=binary, ties=ties
    )
    for k, one in enumerate(lists):
        cells = oracle.list_pairs([(1.0, one)], binary, ties)

        def value(x: np.ndarray, cells: Any = cells) -> float:
            rows = [(i, j, *c) for (i, j), c in cells.items()]
            return oracle.log_likelihood(rows, x[:M], float(np.exp(x[M])), 0.0, model)

        at = np.append(score, shared.tie)
        want = oracle.slopes(value, at)
        np.testing.assert_allclose(got[k], want[: M + len(learned)], rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(information[k], -np.diag(oracle.bends(value, at))[:M], rtol=1e-5, atol=2e-5)


def answer(model: str, prior: float, *, side: bool = False, rows: Any = None) -> _bradley_terry_fit.Solution:
    chosen = untied(ROWS if rows is None else rows, model)
    pairs = pairs_of(chosen, M, ordered=side)
    lam = np.array([prior])
    if model == "none" and not side:
        return _bradley_terry_fit.solve(pairs, lam)
    code = bradley_terry.MODELS[model]
    start = start_of(pairs, code)
    return _bradley_terry_fit.solve_jointly(pairs, lam, start, tie=model != "none", side=side)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("prior", [0.0, 0.1, 5.0])
@pytest.mark.parametrize("side", [False, True])
def test_solution_is_the_optimum_of_a_general_optimiser(model: str, prior: float, side: bool) -> None:
    got = answer(model, prior, side=side)
    s, tie, worth = oracle.best(untied(ROWS, model), M, model, prior, side)
    assert got.converged
    assert got.gradient_norm < 1e-9
    np.testing.assert_allclose(got.score, s, atol=2e-4)
    assert parameter(model, got.shared.tie) == pytest.approx(tie, abs=2e-4)
    assert got.shared.side == pytest.approx(worth, abs=2e-4)
    assert got.objective == pytest.approx(
        oracle.log_likelihood(untied(ROWS, model), s, tie, worth, model) - 0.5 * prior * float(s @ s), abs=1e-6
    )


def test_stationary_from_default_parameters_on_asymmetric_data() -> None:
    for model in MODELS:
        got = answer(model, 0.1)
        rows = untied(ROWS, model)

        def value(x: np.ndarray, model: str = model, rows: Any = rows) -> float:
            ll = oracle.log_likelihood(rows, x[:M], parameter(model, x[M]), 0.0, model)
            return ll - 0.05 * float(x[:M] @ x[:M])

        at = np.append(got.score, got.shared.tie)
        free = M + (model != "none")
        assert np.abs(oracle.slopes(value, at)[:free]).max() < 1e-6


@pytest.mark.parametrize("path", ["conjugate", "elimination"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("prior", [0.0, 0.4])
def test_large_instances_are_solved_like_small_ones(path: str, model: str, prior: float) -> None:
    want = answer(model, prior)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bradley_terry, "_SMALL", 0)
        if path == "elimination":
            patch.setattr(_bradley_terry_fit, "conjugate_gradient_solve", lambda *_: False)
        got = answer(model, prior)
    np.testing.assert_allclose(got.score, want.score, atol=1e-10)
    assert got.shared.tie == pytest.approx(want.shared.tie, abs=1e-10)
    np.testing.assert_allclose(got.information, want.information, rtol=1e-5)
    assert (np.diff(got.trace) > -1e-12 * abs(got.objective)).all()


def test_instances_of_any_size_are_solved_together_as_alone() -> None:
    rng = np.random.default_rng(8)
    sizes = [3, 0, 1, 190, 7, 170]
    offsets = offsets_of(np.array(sizes))
    rows = []
    for base, m in zip(offsets.tolist(), sizes, strict=False):
        if m > 1:
            ring = [(base + i, base + (i + 1) % m, 3.0, 1.0 + i % 3, 0.0) for i in range(m)]
            more = [(base + int(i), base + int(j), 1.0, 2.0, 0.0) for i, j in rng.integers(0, m, (3 * m, 2)) if i != j]
            rows += ring + more
    table = np.array(rows)
    left, right = (table[:, k].astype(np.int32) for k in (0, 1))
    counts = [np.ascontiguousarray(table[:, k]) for k in (2, 3, 4)]
    starts = np.searchsorted(np.repeat(np.arange(len(sizes)), sizes)[left], np.arange(len(sizes) + 1)).astype(np.int64)
    pairs = from_rows(left, right, *counts, starts, offsets)
    prior = np.full(len(sizes), 0.2)
    whole = _bradley_terry_fit.solve(pairs, prior)
    jointly = _bradley_terry_fit.solve_jointly(
        pairs, prior, bradley_terry.Shared(bradley_terry.PLAIN, 0.0, 0.0), tie=False, side=False
    )
    np.testing.assert_allclose(jointly.score, whole.score, atol=1e-10)
    for n in range(len(sizes)):
        one = _bradley_terry_fit.solve(pairs.window(n), prior[n : n + 1])
        np.testing.assert_array_equal(one.score, whole.score[offsets[n] : offsets[n + 1]])


@pytest.mark.parametrize("model", ["davidson", "rao-kupper"])
def test_a_shared_tie_parameter_is_that_of_all_instances(model: str) -> None:
    moved = [(i + M, j + M, b, a, 2 * t) for i, j, a, b, t in ROWS]
    table = np.array(ROWS + moved)
    left, right = (table[:, k].astype(np.int32) for k in (0, 1))
    counts = [np.ascontiguousarray(table[:, k]) for k in (2, 3, 4)]
    pairs = from_rows(left, right, *counts, np.array([0, 7, 14]), np.array([0, M, 2 * M]))
    code = bradley_terry.MODELS[model]
    got = _bradley_terry_fit.solve_jointly(
        pairs,
        np.full(2, 0.1),
        start_of(pairs, code),
        tie=True,
        side=False,
    )
    _, tie, _ = oracle.best(ROWS + moved, 2 * M, model, 0.1)
    assert parameter(model, got.shared.tie) == pytest.approx(tie, abs=1e-3)
    fixed = _bradley_terry_fit.solve(pairs, np.full(2, 0.1), got.shared)
    np.testing.assert_allclose(fixed.score, got.score, atol=1e-10)


@pytest.mark.parametrize("model", ["davidson", "rao-kupper"])
@pytest.mark.parametrize("side", [False, True])
def test_profiles_of_instances_apart_add_up_to_the_joint_solution(model: str, side: bool) -> None:
    moved = [(i + M, j + M, b, a, 2 * t) for i, j, a, b, t in ROWS]
    table = np.array(ROWS + moved)
    left, right = (table[:, k].astype(np.int32) for k in (0, 1))
    counts = [np.ascontiguousarray(table[:, k]) for k in (2, 3, 4)]
    pairs = from_rows(left, right, *counts, np.array([0, 7, 14]), np.array([0, M, 2 * M]), ordered=side)
    code, prior = bradley_terry.MODELS[model], np.array([0.1, 0.4])
    start = start_of(pairs, code)
    want = _bradley_terry_fit.solve_jointly(pairs, prior, start, tie=True, side=side)
    learned = np.flatnonzero([True, side])

    def evaluate(shared: bradley_terry.Shared) -> _bradley_terry_fit.Profile:
        each = [
            _bradley_terry_fit.profile(
                pairs.window(n), prior[n : n + 1], shared, learned, tol=1e-9, max_iter=100, start=np.zeros(M)
            )
            for n in (0, 1)
        ]
        names = ("value", "gradient", "information")
        return each[0]._replace(**{k: getattr(each[0], k) + getattr(each[1], k) for k in names})

    got = _bradley_terry_fit.maximise_profile(
        evaluate, start, learned, float(pairs.outcomes.sum()), tol=1e-9, max_iter=100
    )
    assert got.converged
    np.testing.assert_allclose(got.shared[:3], want.shared[:3], rtol=1e-10, atol=1e-12)
    assert got.objective == pytest.approx(want.objective, rel=1e-12)
    np.testing.assert_allclose(got.information, want.information, rtol=1e-7, atol=1e-9)


def test_weights_of_features_are_scores_when_every_item_has_its_own() -> None:
    free = answer("davidson", 0.0)
    pairs = pairs_of(ROWS, M)
    x = np.eye(M)[:, 1:] - np.eye(M)[:, 1:].mean(axis=0)
    start = start_of(pairs, bradley_terry.DAVIDSON)
    b, got = _bradley_terry_fit.solve_linear(pairs, x, np.zeros(1), start, tie=True, side=False)
    np.testing.assert_allclose(got.score, free.score, atol=1e-8)
    np.testing.assert_allclose(x @ b, got.score, atol=1e-12)
    assert got.shared.tie == pytest.approx(free.shared.tie, abs=1e-8)


def test_gradient_steps_are_the_plain_ones() -> None:
    pairs = pairs_of(ROWS, M)
    for prior in (0.0, 0.6):
        got = _bradley_terry_fit.gradient_ascent(pairs, np.array([prior]), steps=40, rate=0.01)
        np.testing.assert_allclose(got.score, oracle.descend(ROWS, M, 40, 0.01, prior), rtol=1e-10)
        assert got.n_iter == 40


def test_steps_that_go_too_far_are_halved() -> None:
    # From scores far on the wrong side Newton's first steps overshoot; the answer is the same all the same.
    want = answer("none", 0.0)
    start = np.array([-9.0, -4.0, 2.0, 5.0, 6.0])
    got = _bradley_terry_fit.solve(pairs_of(untied(ROWS, "none"), M), np.zeros(1), start=start)
    np.testing.assert_allclose(got.score, want.score, atol=1e-10)
    short = _bradley_terry_fit.solve(pairs_of(untied(ROWS, "none"), M), np.zeros(1), start=start, max_iter=1)
    assert not short.converged
    assert short.n_iter == 1
