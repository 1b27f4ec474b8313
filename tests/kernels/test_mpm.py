"""The compiled loops of the multinomial preference model against sums over all pairs and finite differences."""

from __future__ import annotations

import itertools
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import multinomial as oracle

from concordant.aggregators import _mpm_fit, _mpm_variances
from concordant.arrays import Ints, read_only
from concordant.execution import InMemory
from concordant.kernels import mpm as kernel
from concordant.kernels import mpm_variance as pairs


def ends(sizes: list[int]) -> Ints:
    """Return where parts of these sizes begin, read-only as in a container."""
    offsets: Ints = read_only(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))[0]
    return offsets


def nobody(done: int, total: int) -> None:
    """Watch nothing."""


def sample(rng: np.random.Generator, sizes: list[int], experts: int) -> tuple[kernel.PackedCounts, list[list[Any]]]:
    """Return lists of some of the items of several instances by experts of falling quality, packed and as tables."""
    expert, share, slot, net, lengths, lists, tables = [], [], [], [], [], [], []
    first = 0
    for m in sizes:
        truth = rng.normal(size=m)
        here = []
        for k in range(experts):
            chosen = np.sort(rng.choice(m, size=max(2, m - int(rng.integers(0, 3))), replace=False))
            seen = (1.5 - 2.0 * k / experts) * truth[chosen] + rng.normal(size=len(chosen))
            ranks = np.argsort(np.argsort(-seen)) + 1.0
            items = [str(i) for i in range(m)]
            y = oracle.table(items, {items[i]: -r for i, r in zip(chosen.tolist(), ranks, strict=True)})
            here.append(y)
            expert.append(k)
            lengths.append(len(chosen))
            slot += (first + chosen).tolist()
        total = sum(y.sum() for y in here)
        for y, length in zip(here, lengths[-experts:], strict=True):
            share.append(y.sum() / total)
            rows = slot[sum(lengths[: len(share) - 1]) : sum(lengths[: len(share) - 1]) + length]
            net += (oracle.net(y)[np.array(rows) - first] / total).tolist()
        lists.append(experts)
        tables.append(here)
        first += m
    packed = kernel.PackedCounts(
        ends(sizes),
        ends(lists),
        ends(lengths),
        np.array(expert, dtype=np.int64),
        np.array(share),
        *read_only(np.array(slot, dtype=np.int32)),
        np.array(net),
        np.ones(len(sizes)),
    )
    return packed, tables


def per_preference(tables: list[list[Any]], theta: Any, score: Any, offsets: Any) -> float:
    """Return the objective: the log-likelihood of every instance divided by its number of preferences."""
    parts = [score[a:b] for a, b in itertools.pairwise(offsets)]
    return sum(oracle.log_likelihood(y, theta, s) / sum(t.sum() for t in y) for y, s in zip(tables, parts, strict=True))


counts = st.lists(st.integers(-30, 30).map(float), min_size=2, max_size=7)


@given(counts, st.floats(1.0001, 50))
def test_the_root_gives_the_base_scores(values: list[float], more: float) -> None:
    d = np.array(values)
    d -= d.mean()
    mass = float(np.abs(d).sum())
    if mass < 1e-9:
        return
    total = more * mass / 2
    score, root = np.empty(len(d)), np.empty(1)
    kernel.net_scores(d, np.array([total]), ends([len(d)]), score, root)
    np.testing.assert_allclose(score, oracle.base_root(d, total), rtol=1e-9, atol=1e-11)
    assert 0 < root[0] < np.inf


def test_the_root_knows_when_there_is_none() -> None:
    d = np.array([2.0, -1.0, -1.0, 1.0, -1.0, 0.0, 0.0, 0.0])
    score, root = np.empty(8), np.empty(3)
    kernel.net_scores(d, np.array([2.0, 1.0, 0.0]), ends([3, 3, 2]), score, root)
    assert root.tolist() == [np.inf, np.inf, 0.0]
    assert score.tolist() == d.tolist()
    # Two preferences of a million go the other way: far apart, and finite.
    kernel.net_scores(np.array([1e6 - 2, 2 - 1e6]), np.array([1e6]), ends([2]), score[:2], root[:1])
    assert score[0] == pytest.approx(np.log(1e6 - 1) / 4, rel=1e-9)


def test_scores_are_where_the_gradient_vanishes_whatever_the_trust() -> None:
    rng = np.random.default_rng(1)
    packed, tables = sample(rng, [5, 3, 7], 4)
    theta = np.array([1.0, 0.35, 0.8, 0.1])
    row = np.repeat(packed.expert, np.diff(packed.list_offsets))
    net = np.bincount(packed.slot, weights=theta[row] * packed.net, minlength=15)
    score, norm, values = rng.normal(size=15), np.zeros(3), np.zeros(3)
    wanted = np.array([True, True, True])
    steps = kernel.solve_scores(
        packed.offsets, packed.list_starts, packed.share, theta[packed.expert], net, 0.0, wanted, score, norm, values
    )
    assert 1 < steps < 15
    assert norm.max() < 1e-14
    gradient = oracle.slope(lambda s: per_preference(tables, theta, s, packed.offsets), score)
    np.testing.assert_allclose(gradient, 0, atol=1e-8)
    assert values.sum() == pytest.approx(per_preference(tables, theta, score, packed.offsets), abs=1e-12)


def test_a_ridge_pulls_the_scores_to_zero() -> None:
    rng = np.random.default_rng(2)
    packed, tables = sample(rng, [6], 3)
    theta = np.array([1.0, 0.5, 0.0])
    row = np.repeat(packed.expert, np.diff(packed.list_offsets))
    net = np.bincount(packed.slot, weights=theta[row] * packed.net, minlength=6)
    score, out = np.zeros(6), np.zeros(1)
    wanted = np.array([True])
    kernel.solve_scores(
        packed.offsets, packed.list_starts, packed.share, theta[packed.expert], net, 0.1, wanted, score, out, out.copy()
    )
    gradient = oracle.slope(lambda s: per_preference(tables, theta, s, packed.offsets) - 0.05 * float(s @ s), score)
    np.testing.assert_allclose(gradient, 0, atol=1e-8)


def test_joint_gradients_are_finite_differences() -> None:
    rng = np.random.default_rng(3)
    packed, tables = sample(rng, [5, 2, 6], 3)
    theta, score = np.array([1.0, 0.3, 0.0]), rng.normal(size=13)
    by_score, by_theta, values = np.empty(13), np.empty(3), np.empty(3)
    kernel.joint_gradients(*packed, theta, score, 0.02, by_score, by_theta, values)

    def value(t: Any, s: Any) -> float:
        return per_preference(tables, t, s, packed.offsets) - 0.01 * float(s @ s)

    assert values.sum() == pytest.approx(value(theta, score), abs=1e-12)
    np.testing.assert_allclose(by_score, oracle.slope(lambda s: value(theta, s), score), atol=1e-8)
    np.testing.assert_allclose(by_theta, oracle.slope(lambda t: value(t, score), theta), atol=1e-8)


def test_far_apart_scores_do_not_overflow() -> None:
    rng = np.random.default_rng(4)
    packed, _ = sample(rng, [4], 2)
    by_score, by_theta, values = np.empty(4), np.empty(2), np.empty(1)
    for span in (200.0, 2000.0):
        score = np.array([span, 0.3, -0.2, -span])
        kernel.joint_gradients(*packed, np.ones(2), score, 0.0, by_score, by_theta, values)
        # One pair has all the probability, so that log Z is twice the span.
        expected = sum(float(packed.net[r] * score[packed.slot[r]]) for r in range(len(packed.net))) - 2 * span
        assert values[0] == pytest.approx(expected, rel=1e-12)
        rho = np.array([1.0, 0, 0, -1.0])
        full = np.bincount(packed.slot, weights=packed.net, minlength=4) - rho
        np.testing.assert_allclose(by_score, full, atol=1e-12)


def test_expected_net_counts_and_their_covariance() -> None:
    rng = np.random.default_rng(5)
    score, theta = rng.normal(size=5), np.array([1.0, 0.4])
    expected = kernel.pair_distributions(score, theta)
    for k, t in enumerate(theta):
        rho = oracle.slope(lambda s: np.log(_z(s)), t * score)
        np.testing.assert_allclose(expected.rho[k], rho, atol=1e-8)
        cov = oracle.slope(lambda s: oracle.slope(lambda x: np.log(_z(x)), s, 1e-4), t * score, 1e-4)
        one = np.eye(2)[k]
        np.testing.assert_allclose(expected.curvature(one), cov, atol=1e-6)
        np.testing.assert_allclose(expected.products(score)[k], expected.curvature(one) @ score, atol=1e-12)


def test_equations_of_the_curvature_are_solved_either_way() -> None:
    rng = np.random.default_rng(12)
    score, theta, weight = rng.normal(size=60), np.array([1.0, 0.4]), np.array([30.0, 12.0])
    expected, right = kernel.pair_distributions(score, theta), rng.normal(size=(60, 3))
    right -= right.mean(axis=0)
    bend = expected.curvature(weight)
    found = expected.solve(weight, right)
    np.testing.assert_allclose(bend @ found, right, atol=1e-10)
    few = kernel.pair_distributions(score[:8], theta)
    right = right[:8] - right[:8].mean(axis=0)
    np.testing.assert_allclose(few.curvature(weight) @ few.solve(weight, right), right, atol=1e-10)


def _z(x: Any) -> float:
    return float(sum(np.exp(x[i] - x[j]) for i in range(len(x)) for j in range(len(x)) if i != j))


@pytest.fixture(name="corpus")
def _corpus() -> tuple[kernel.PackedCounts, list[list[Any]]]:
    return sample(np.random.default_rng(6), [6, 4, 9, 5, 7, 3], 5)


def profile_of(packed: kernel.PackedCounts, ridge: float) -> _mpm_fit.ProfileLikelihood:
    """Return the mean objective of one block."""
    block = _mpm_fit.BlockProfile(packed, ridge)
    none = _mpm_fit.PreferenceSummary(0, "", np.zeros(0), 0)
    piece = _mpm_fit.AdherenceBlock(none, block, np.zeros(int(packed.offsets[-1])))
    weight = float(packed.weight[block.wanted].sum())
    return _mpm_fit.ProfileLikelihood(InMemory([piece]), weight, int(packed.expert.max()) + 1)


@pytest.mark.parametrize("weight", [np.ones(6), np.array([1.0, 5.0, 2.0, 0.5, 3.0, 7.0])], ids=["equal", "unequal"])
def test_profile_derivatives_are_finite_differences(corpus: Any, weight: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = corpus[0]._replace(weight=weight)
    profile = profile_of(packed, 0.01)
    theta = np.array([0.9, 1.0, 0.4, 0.7, 0.2])
    _, gradient = profile(theta)
    np.testing.assert_allclose(gradient, oracle.slope(lambda t: profile(t)[0], theta), atol=1e-9)
    profile(theta)
    bend = profile.hessian(theta)
    np.testing.assert_allclose(bend, oracle.slope(lambda t: profile(t)[1], theta), atol=1e-8)
    # Large instances go another way to the same numbers.
    monkeypatch.setattr(_mpm_fit, "SMALL_ITEMS", 0)
    profile(theta)
    np.testing.assert_allclose(profile.hessian(theta), bend, rtol=1e-9, atol=1e-12)


def test_adherence_is_stationary_within_its_bounds(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    packed, _ = corpus
    heard, how = np.ones(5, dtype=np.bool_), cast("dict[str, Any]", {"max_iter": 500, "report": nobody})
    found = _mpm_fit.maximise_adherence(profile_of(packed, 1e-3), heard, 9, tol=1e-9, **how)
    assert found.converged
    assert found.theta.max() == 1.0
    assert (np.diff(found.trace) > -1e-12).all()
    profile = profile_of(packed, 1e-3)
    slope = oracle.slope(lambda t: profile(t)[0], found.theta)
    inside = (found.theta > 0) & (found.theta < 1)
    assert inside.any()
    np.testing.assert_allclose(slope[inside], 0, atol=1e-8)
    assert (slope[found.theta == 1] > -1e-8).all()
    assert (slope[found.theta == 0] < 1e-8).all()
    # Too many experts for a table of them: the same place by other steps.
    monkeypatch.setattr(_mpm_fit, "_DENSE_EXPERTS", 0)
    again = _mpm_fit.maximise_adherence(profile_of(packed, 1e-3), heard, 9, tol=1e-7, **how)
    assert again.converged
    np.testing.assert_allclose(again.theta, found.theta, atol=1e-5)
    assert again.trace[-1] == pytest.approx(found.objective, abs=1e-10)


def test_steps_uphill_even_where_the_profile_is_not_concave() -> None:
    step = _mpm_fit._step(np.diag([2.0, -1.0, -1.0]), np.array([0.5, 0.5, -1.0]), np.array([0.5, 0.5, 0.0]), 1e-3)
    np.testing.assert_allclose(step, [0.25, 0.5, 0.0])


def test_ascent_is_the_plain_one_written_out() -> None:
    rng = np.random.default_rng(7)
    packed, tables = sample(rng, [5], 3)
    found, reached, norms, values = _mpm_fit.gradient_ascent(packed, np.ones(3), 6, learning=True, report=nobody)
    score, theta = oracle.ascend(tables[0], np.ones(3), 6, learning=True)
    top = theta.max()
    np.testing.assert_allclose(found.theta, theta / top, atol=1e-7)
    np.testing.assert_allclose(reached, score * top, atol=1e-7)
    assert found.n_iter == 6
    assert len(found.trace) == 7
    assert norms.shape == values.shape == (1,)


def test_ascent_takes_back_steps_that_are_too_long() -> None:
    d = np.full(400, -0.99 / 399)
    d[0] = 0.99
    one = np.array([0, 1])
    packed = kernel.PackedCounts(
        ends([400]),
        *read_only(one),
        ends([400]),
        np.zeros(1, np.int64),
        np.ones(1),
        *read_only(np.arange(400, dtype=np.int32)),
        d,
        np.ones(1),
    )
    found, reached, norms, _ = _mpm_fit.gradient_ascent(packed, np.ones(1), 300, learning=False, report=nobody)
    best, root = np.empty(400), np.empty(1)
    kernel.net_scores(d, np.ones(1), ends([400]), best, root)
    assert (np.diff(found.trace) >= -1e-11).all()
    np.testing.assert_allclose(reached - reached.mean(), best, atol=1e-4)
    assert norms[0] < 1e-6


def variance_case(seed: int, m: int = 6, k: int = 3) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    tables = [np.triu(rng.integers(0, 4, (m, m)), 1) + np.tril(rng.integers(0, 2, (m, m)), -1) for _ in range(k)]
    theta = np.array([1.0, 0.4, 0.7])[:k]
    totals = np.array([float(y.sum()) for y in tables])
    return tables, theta, totals, rng.normal(size=m), rng.normal(size=m) * 0.5


@pytest.mark.parametrize("far", [1.0, 3000.0])
def test_variance_gradient_is_finite_differences(far: float) -> None:
    tables, theta, totals, score, beta = variance_case(8)
    score = score * far
    m = len(score)
    total = sum(t * y for t, y in zip(theta, tables, strict=True)).astype(float)
    gradient, mean = np.empty(2 * m), np.empty(3)
    value = pairs.pair_gradient(total, totals, theta, score, beta, gradient, mean)
    if far > 1:
        assert np.isfinite(gradient).all()
        assert np.isfinite(value)
        return

    def objective(z: Any) -> float:
        return oracle.log_likelihood(tables, theta, z[:m], np.exp(z[m:]))

    z = np.concatenate([score, beta])
    assert value == pytest.approx(objective(z), rel=1e-12)
    np.testing.assert_allclose(gradient, oracle.slope(objective, z), rtol=1e-6, atol=1e-6)
    u = (score[:, None] - score) / (np.exp(beta)[:, None] + np.exp(beta))
    by_theta = [float((y * u).sum()) - t * e for y, t, e in zip(tables, totals, mean, strict=True)]
    slope = oracle.slope(lambda t: oracle.log_likelihood(tables, t, score, np.exp(beta)), theta)
    np.testing.assert_allclose(by_theta, slope, rtol=1e-6, atol=1e-6)


def test_variance_curvature_is_finite_differences() -> None:
    tables, theta, totals, score, beta = variance_case(9)
    m = len(score)
    total = sum(t * y for t, y in zip(theta, tables, strict=True)).astype(float)
    mean, out = np.empty((3, 2 * m)), np.empty((2 * m, 2 * m))
    pairs.pair_hessian(total, totals, theta, score, beta, mean, out)

    def gradient(z: Any) -> Any:
        g = np.empty(2 * m)
        pairs.pair_gradient(total, totals, theta, z[:m], z[m:], g, np.empty(3))
        return g

    np.testing.assert_allclose(out, -oracle.slope(gradient, np.concatenate([score, beta])), rtol=1e-6, atol=1e-6)


@settings(max_examples=20)
@given(st.integers(0, 1000), st.booleans())
def test_tables_and_pulls_of_lists(seed: int, binary: bool) -> None:
    rng = np.random.default_rng(seed)
    m, lengths = 5, [3, 1, 5, 2]
    slot = np.concatenate([rng.permutation(m)[:n] for n in lengths]).astype(np.int32)
    (value,) = read_only(rng.integers(1, 4, len(slot)).astype(float))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    weight = np.array([1.0, 2.0, 0.5, 0.0])
    items = [str(i) for i in range(m)]
    transform = "binary" if binary else "count"
    tables = []
    for a, b in itertools.pairwise(offsets):
        tables.append(
            oracle.table(items, {items[s]: -v for s, v in zip(slot[a:b], value[a:b], strict=True)}, transform)
        )
    out = np.zeros((m, m))
    pairs.preference_table(slot, value, offsets, weight, binary, out)
    np.testing.assert_allclose(out, sum(w * y for w, y in zip(weight, tables, strict=True)), atol=1e-12)
    score, beta = rng.normal(size=m), rng.normal(size=m)
    pulls = np.empty((4, 2 * m))
    pairs.list_gradients(slot, value, offsets, binary, score, np.exp(beta), pulls)
    for y, pull in zip(tables, pulls, strict=True):

        def drive(z: Any, y: Any = y) -> float:
            gamma = np.exp(z[m:])
            return float((y * (z[:m, None] - z[:m]) / (gamma[:, None] + gamma)).sum())

        np.testing.assert_allclose(pull, oracle.slope(drive, np.concatenate([score, beta])), atol=1e-6)


def test_scores_and_variances_are_stationary(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, theta, totals, _, _ = variance_case(10)
    m = 6
    total = sum(t * y for t, y in zip(theta, tables, strict=True)).astype(float) / totals.sum()
    arguments = (total, totals / totals.sum(), theta, np.zeros(m), np.zeros(m))
    found = _mpm_variances.solve_variances(*arguments, prior=_mpm_variances.Prior(0.5), tol=1e-8, max_iter=200)
    assert found.norm < 1e-14
    assert abs(found.beta.mean()) < 1e-12
    assert abs(found.score.mean()) < 1e-12

    def objective(z: Any) -> float:
        likelihood = oracle.log_likelihood(tables, theta, z[:m], np.exp(z[m:])) / totals.sum()
        return likelihood - 0.25 * float((z[m:] ** 2).mean())

    z = np.concatenate([found.score, found.beta])
    assert found.objective == pytest.approx(objective(z), abs=1e-12)
    np.testing.assert_allclose(oracle.slope(objective, z), 0, atol=1e-8)
    monkeypatch.setattr(_mpm_variances, "_POLISHED_ITEMS", 0)
    rough = _mpm_variances.solve_variances(*arguments, prior=_mpm_variances.Prior(0.5), tol=1e-9, max_iter=500)
    assert rough.norm <= 1e-9
    np.testing.assert_allclose(rough.score, found.score, atol=1e-6)
    short = _mpm_variances.solve_variances(*arguments, prior=_mpm_variances.Prior(0.5), tol=1e-9, max_iter=2)
    assert short.n_iter == 2
    assert short.norm > 1e-9


def test_variances_by_gradient_ascent_never_fall() -> None:
    tables, theta, totals, _, _ = variance_case(11)
    total = sum(t * y for t, y in zip(theta, tables, strict=True)).astype(float) / totals.sum()
    values = [_mpm_variances.gradient_ascent(total, totals / totals.sum(), theta, n).objective for n in (0, 5, 50, 500)]
    assert values == sorted(values)
    assert values[0] == pytest.approx(-np.log(30))
    last = _mpm_variances.gradient_ascent(total, totals / totals.sum(), theta, 500)
    assert abs(last.beta.mean()) < 1e-12
    assert (
        values[-1]
        > _mpm_variances.solve_variances(
            total,
            totals / totals.sum(),
            theta,
            np.zeros(6),
            np.zeros(6),
            prior=_mpm_variances.Prior(0.5),
            tol=1e-8,
            max_iter=100,
        ).objective
    )
