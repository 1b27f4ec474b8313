"""Scores and judges together: derivatives, optima, gauge, bad judges found, judges of few words, degenerate data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, spearmanr
from tests.oracles import judges as oracle
from tests.oracles.judges import Row

from concordant.aggregators import _expert_reliability
from concordant.aggregators._bradley_terry_judges import Judges
from concordant.aggregators._expert_reliability import JudgeFit, Outcomes

Columns = dict[str, Any]


def columns(rows: list[Row]) -> Columns:
    table = np.array(rows, dtype=np.float64).reshape(-1, 6).T
    names = ("left", "right", "expert", "n_left", "n_right", "n_ties")
    return {name: c.astype(np.int32) if name in names[:3] else c.copy() for name, c in zip(names, table, strict=True)}


def known(fit: JudgeFit, prior: float) -> Columns:
    """Return what is told about a fit to the functions that take it as known."""
    judges = Judges(fit.slope, fit.slope_stderr, fit.side, fit.tie_tendency, fit.tie)
    return {"judges": judges, "prior": prior / fit.scale**2}


def simulate(
    kinds: list[str], n_items: int, n: int, seed: int, ties: bool = False, theta: Any = None
) -> tuple[list[Row], Any]:
    """Return comparisons by judges of the kinds good, coin, left, tie, inverted, in turn, and the true scores."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=n_items) if theta is None else theta
    rows = []
    for r in range(n):
        i = int(rng.integers(n_items))
        j = (i + int(rng.integers(1, n_items))) % n_items
        k = r % len(kinds)
        slope = {"inverted": -1.0, "coin": 0.0}.get(kinds[k], 1.0)
        z = slope * (theta[i] - theta[j])
        odds = np.exp([z / 2, -z / 2, -1.0 if ties and kinds[k] != "coin" else -np.inf])
        outcome = {"left": 0, "tie": 2}.get(kinds[k], int(rng.choice(3, p=odds / odds.sum())))
        rows.append(Row(i, j, k, float(outcome == 0), float(outcome == 1), float(outcome == 2)))
    return rows, theta


def asymmetric(ties: bool, n_judges: int = 3, n_items: int = 4, n: int = 60) -> list[Row]:
    rng = np.random.default_rng(11)
    theta = np.linspace(-1.0, 1.3, n_items) ** 3
    rows = []
    for r in range(n):
        i = int(rng.integers(n_items))
        j = (i + int(rng.integers(1, n_items))) % n_items
        k = r % n_judges
        z = (1.6, 0.1, 0.7)[k % 3] * (theta[i] - theta[j]) + (0.0, 1.0, -0.4)[k % 3]
        odds = np.exp([z / 2, -z / 2, (-1.0, 0.5, -0.2)[k % 3] if ties else -np.inf])
        outcome = int(rng.choice(3, p=odds / odds.sum()))
        count = float(rng.integers(1, 3))
        rows.append(Row(i, j, k, *(count if outcome == c else 0.0 for c in range(3))))
    return rows


def fit_rows(rows: list[Row], n_items: int, n_judges: int, prior: float = 0.1, **options: Any) -> JudgeFit:
    return _expert_reliability.fit_judges(
        Outcomes(**columns(rows), offsets=np.array([0, n_items])), n_experts=n_judges, prior=prior, **options
    )


def searched(fit: JudgeFit) -> tuple[Any, Any, Any, Any]:
    """Return score, phi, mean and variance of a fit in the gauge in which the search takes place."""
    tie = 0.0 if fit.tie == -np.inf else fit.tie
    phi = np.stack([fit.slope * fit.scale, fit.side, fit.tie_tendency + tie, fit.slope_stderr * fit.scale], axis=1)
    variance = np.array(fit.variance) * [fit.scale**2, 1.0, 1.0]
    n = len(phi)
    mean = np.array([phi[:, 0].mean(), phi[:, 1].sum() / variance[1] / (n / variance[1] + 0.01), tie])
    return fit.score / fit.scale, phi, mean, variance


@pytest.mark.parametrize("ties", [False, True])
def test_derivatives_are_those_of_the_formula(ties: bool) -> None:
    rows, rng = asymmetric(ties), np.random.default_rng(3)
    given_rows = _expert_reliability._collapse(
        Outcomes(**columns(rows), offsets=np.array([0, 4])), sided=True, ties=ties
    )
    score, prior = rng.normal(size=4), np.full(4, 0.3)
    phi = np.stack([rng.normal(size=3), rng.normal(size=3), rng.normal(size=3), rng.uniform(0.1, 0.6, 3)], axis=1)
    state = _expert_reliability._Judges(
        phi=phi,
        mean=np.append(rng.normal(size=3), 0.0),
        variance=np.array([0.3, 0.5, 0.7]),
        change=np.zeros(3),
        weight=np.array([0.2, 0.5, 0.3]),
        active=np.ones(4, dtype=np.bool_),
    )

    def value(s: Any, p: Any, mean: Any) -> float:
        return oracle.objective(rows, s, p, mean, state.variance, 0.3, ties)

    seen = _expert_reliability._score_derivatives(given_rows, score, phi, prior)
    found = _expert_reliability._judge_derivatives(given_rows, score, phi, prior)
    assert seen.value.sum() - state.penalty == pytest.approx(value(score, phi, state.mean[:3]), rel=1e-12)
    assert found.value.sum() == pytest.approx(seen.value.sum(), rel=1e-12)
    numeric = oracle.derivative(lambda s: value(s, phi, state.mean[:3]), score)
    np.testing.assert_allclose(seen.gradient, numeric, rtol=1e-6, atol=1e-7)
    numeric = oracle.second(lambda s: value(s, phi, state.mean[:3]), score)
    np.testing.assert_allclose(
        _expert_reliability._score_information(given_rows, seen.curvature, prior, 0), -numeric, rtol=1e-4, atol=1e-5
    )
    own, shared = state.gradients(found)
    numeric = oracle.derivative(lambda p: value(score, p, state.mean[:3]), phi)
    np.testing.assert_allclose(own, numeric, rtol=1e-6, atol=1e-7)
    numeric = oracle.derivative(lambda m: value(score, phi, m), state.mean[:3])
    np.testing.assert_allclose(shared.sum(axis=0), numeric, rtol=1e-6, atol=1e-7)
    blocks = np.linalg.inv(state.bordered_system(found, 0.0).inverse)
    for k in range(3):

        def one(p: Any, k: int = k) -> float:
            changed = phi.copy()
            changed[k] = p
            return value(score, changed, state.mean[:3])

        np.testing.assert_allclose(blocks[k], -oracle.second(one, phi[k]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("ties", "sided"), [(False, False), (False, True), (True, True)])
def test_default_fit_is_stationary_on_the_gauge(ties: bool, sided: bool) -> None:
    rows = asymmetric(ties, n=150)
    fit = fit_rows(rows, 4, 3, sided=sided)
    assert fit.converged
    assert fit.gradient_norm <= 1e-9
    score, phi, mean, variance = searched(fit)
    at = oracle.objective(rows, score, phi, mean, variance, 0.1, ties)
    assert fit.objective == pytest.approx(at, rel=1e-11)
    by_score = oracle.derivative(lambda s: oracle.objective(rows, s, phi, mean, variance, 0.1, ties), score)
    np.testing.assert_allclose(by_score, 0.0, atol=2e-6)
    by_mean = oracle.derivative(lambda m: oracle.objective(rows, score, phi, m, variance, 0.1, ties), mean)
    np.testing.assert_allclose(by_mean[[0] + [1] * sided + [2] * ties], 0.0, atol=2e-6)
    by_phi = oracle.derivative(lambda p: oracle.objective(rows, score, p, mean, variance, 0.1, ties), phi)
    share = fit.n_comparisons / fit.n_comparisons.sum()
    assert share @ (phi[:, 0] ** 2 + phi[:, 3] ** 2) == pytest.approx(1.0, abs=1e-12)
    normal = np.zeros_like(phi)
    normal[:, [0, 3]] = share[:, None] * phi[:, [0, 3]]
    by_phi -= normal * (normal * by_phi).sum() / (normal * normal).sum()
    np.testing.assert_allclose(by_phi[:, [0, 3] + [1] * sided + [2] * ties], 0.0, atol=2e-6)
    # Empirical Bayes: V (K + 2) = Σ (deviation² + posterior variance) + 2 · ¼.
    spread = phi[:, 3] ** 2
    assert variance[0] * 5 == pytest.approx(((phi[:, 0] - mean[0]) ** 2 + spread).sum() + 0.5, rel=1e-6)


@pytest.mark.parametrize(("ties", "sided"), [(False, False), (True, True)])
def test_default_fit_is_what_a_general_search_finds(ties: bool, sided: bool) -> None:
    rows = asymmetric(ties, n=120)
    fit = fit_rows(rows, 4, 3, sided=sided)
    score, phi, _, variance = searched(fit)
    for seed in range(2):
        top, want, parameters = oracle.best(rows, 4, variance, 0.1, ties, sided, np.random.default_rng(seed))
        assert fit.objective >= top - 1e-7
        np.testing.assert_allclose(score, want, atol=2e-4)
        np.testing.assert_allclose(phi, parameters, atol=2e-3)


def test_scale_is_that_of_the_believed() -> None:
    rows, _ = simulate(["good"] * 6 + ["coin"] * 4, 12, 12_000, 2)
    fit = fit_rows(rows, 12, 10)
    believed = oracle.plain([r for r in rows if r.expert < 6], 12, 0.1, False)
    everybody = oracle.plain(rows, 12, 0.1, False)
    assert np.ptp(everybody) < 0.75 * np.ptp(believed)
    assert np.ptp(fit.score) == pytest.approx(np.ptp(believed), rel=0.06)
    share, a, sd = fit.n_comparisons / fit.n_comparisons.sum(), fit.slope, fit.slope_stderr
    draws = a + sd * np.random.default_rng(0).normal(size=(200_000, 10))
    assert share @ (a**2 + sd**2) == pytest.approx(share @ np.abs(draws).mean(axis=0), rel=2e-3)
    assert fit.reliability[:6].mean() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("bad", "ties"), [(bad, ties) for bad in ("coin", "left", "inverted") for ties in (False, True)] + [("tie", True)]
)
def test_bad_judges_are_found_and_do_no_harm(bad: str, ties: bool) -> None:
    kinds = ["good"] * 12 + [bad] * 8
    rows, theta = simulate(kinds, 30, 6_000, 5, ties)
    fit = fit_rows(rows, 30, 20)
    good = np.array([kind == "good" for kind in kinds])
    assert fit.converged
    assert oracle.auc(fit.reliability, good) == 1.0
    assert fit.reliability[~good].max() < 0.5
    if bad == "inverted":
        assert fit.reliability[~good].max() < -0.5
    elif bad in ("left", "tie"):
        habit = fit.side if bad == "left" else fit.tie_tendency
        assert oracle.auc(habit, good) == 0.0
        assert np.abs(fit.reliability[~good]).max() < 0.05
    believed = oracle.plain([r for r in rows if good[r.expert]], 30, 0.1, ties)
    ours, best = (float(spearmanr(s, theta).statistic) for s in (fit.score, believed))
    assert ours > best - 0.01


@pytest.mark.parametrize("inverted", [1, 4, 9])
def test_minority_of_inverted_judges_does_not_turn_the_scores_round(inverted: int) -> None:
    rows, theta = simulate(["good"] * (20 - inverted) + ["inverted"] * inverted, 10, 4_000, 8)
    fit = fit_rows(rows, 10, 20)
    assert spearmanr(fit.score, theta).statistic > 0.9
    assert (fit.slope < 0).tolist() == [False] * (20 - inverted) + [True] * inverted
    turned = fit_rows([r._replace(n_left=r.n_right, n_right=r.n_left) for r in rows], 10, 20)
    np.testing.assert_allclose(turned.score, -fit.score, atol=1e-8)
    np.testing.assert_allclose(turned.slope, fit.slope, atol=1e-8)


def test_judge_of_few_words_is_taken_for_an_ordinary_one() -> None:
    rows, theta = simulate(["good"] * 10, 10, 5_000, 4)
    top, bottom = int(np.argmax(theta)), int(np.argmin(theta))
    wrong = Row(bottom, top, 10, 1.0, 0.0, 0.0)
    one = fit_rows([*rows, wrong], 10, 12)
    many = fit_rows([*rows, wrong._replace(n_left=40.0)], 10, 12)
    assert one.slope[10] > 0.5
    assert many.slope[10] < 0
    assert many.reliability_stderr[10] < one.reliability_stderr[10]
    # A judge who says nothing is what the population is.
    assert one.n_comparisons[11] == 0
    assert one.slope[11] == pytest.approx(one.slope[:11].mean(), abs=1e-9)
    assert one.slope_stderr[11] ** 2 == pytest.approx(one.variance.slope, rel=1e-9)
    assert one.reliability_stderr[11] > one.reliability_stderr[:10].max()


def test_equal_judges_are_left_equal() -> None:
    """Many judges with little to say each, all good: hardly any spread is found, and plain Bradley-Terry comes out."""
    rows, _ = simulate(["good"] * 300, 12, 3_000, 6)
    fit = fit_rows(rows, 12, 300, sided=False)
    plain = oracle.plain(rows, 12, 0.1, False)
    assert fit.variance.slope < 0.1
    assert np.corrcoef(fit.score, plain)[0, 1] > 0.998
    assert np.ptp(fit.score) == pytest.approx(np.ptp(plain), rel=0.15)


def test_one_judge_is_plain_bradley_terry() -> None:
    rows = [r._replace(expert=0) for r in asymmetric(False, n=80)]
    fit = fit_rows(rows, 4, 1, prior=0.5, sided=False)
    np.testing.assert_allclose(fit.score, oracle.plain(rows, 4, 0.5, False), atol=1e-6)
    assert fit.slope.tolist() == fit.reliability.tolist() == [1.0]
    assert fit.slope_stderr.tolist() == [0.0]
    assert fit.scale == 1.0
    with_ties = [r._replace(expert=0) for r in asymmetric(True, n=80)]
    fit = fit_rows(with_ties, 4, 1, prior=0.5, sided=False)
    np.testing.assert_allclose(fit.score, oracle.plain(with_ties, 4, 0.5, True), atol=1e-3)


def test_strong_prior_is_not_dodged_by_steep_slopes() -> None:
    """Pairs derived from lists come with a prior that is the estimator; slopes must not undo it."""
    rows, _ = simulate(["good"] * 5 + ["inverted"], 8, 3_000, 9)
    strong = 2 * len(rows) / 8
    fit = fit_rows(rows, 8, 6, prior=strong, sided=False)
    plain = oracle.plain([r for r in rows if r.expert < 5], 8, strong, False)
    assert fit.converged
    assert np.abs(fit.slope).max() < 2
    assert np.ptp(fit.score) == pytest.approx(np.ptp(plain), rel=0.3)


def test_scores_given_the_judges_are_those_of_the_fit_each_instance_alone() -> None:
    kinds = ["good", "good", "coin", "inverted", "good"]
    parts = [simulate(kinds, 6, 300, seed, ties=True)[0] for seed in (1, 2, 3)]
    rows = [r._replace(left=r.left + 6 * n, right=r.right + 6 * n) for n, part in enumerate(parts) for r in part]
    offsets = np.array([0, 6, 12, 12, 18])
    prior = np.repeat([0.1, 0.5, 0.2], 6)
    fit = _expert_reliability.fit_judges(Outcomes(**columns(rows), offsets=offsets), n_experts=5, prior=prior)
    told = known(fit, 0.0) | {"prior": prior / fit.scale**2}
    again = _expert_reliability.scores_given_judges(Outcomes(**columns(rows), offsets=offsets), **told)
    np.testing.assert_allclose(again.score, fit.score, atol=1e-11)
    assert again.converged.all()
    assert again.n_iter[2] == 0
    for n, part in enumerate(parts):
        alone = _expert_reliability.scores_given_judges(
            Outcomes(**columns(part), offsets=np.array([0, 6])), **told | {"prior": told["prior"][6 * n : 6 * n + 6]}
        )
        assert alone.score.tolist() == again.score[6 * n : 6 * n + 6].tolist()


@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_rows_are_collapsed_whatever_their_order(seed: int, ties: bool, sided: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(int(rng.integers(0, 40))):
        i = int(rng.integers(5))
        rows.append(Row(i, (i + int(rng.integers(1, 5))) % 5, int(rng.integers(3)), *rng.integers(0, 3, 3).tolist()))
    got = _expert_reliability._collapse(Outcomes(**columns(rows), offsets=np.array([0, 5])), sided=sided, ties=ties)
    want: dict[tuple[int, int, int], list[float]] = {}
    for row in rows:
        i, j, counts = row.left, row.right, [row.n_left, row.n_right, row.n_ties if ties else 0.0]
        if not sided and i > j:
            i, j, counts[:2] = j, i, counts[1::-1]
        total = want.setdefault((i, j, row.expert), [0.0] * 3)
        total[:] = [x + y for x, y in zip(total, counts, strict=True)]
    keys = list(zip(got.left.tolist(), got.right.tolist(), got.expert.tolist(), strict=True))
    held = {key: total for key, total in want.items() if sum(total)}
    assert keys == sorted(held)
    np.testing.assert_array_equal(
        np.stack([got.n_left, got.n_right, got.n_ties], axis=1), np.array([held[key] for key in keys]).reshape(-1, 3)
    )
    assert got.starts.tolist() == [0, len(keys)]


def test_order_of_rows_and_names_of_judges_do_not_matter() -> None:
    rows = asymmetric(True, n=200)
    fit = fit_rows(rows, 4, 3)
    rng = np.random.default_rng(0)
    shuffled = [rows[r]._replace(expert=2 - rows[r].expert) for r in rng.permutation(len(rows))]
    again = fit_rows(shuffled, 4, 3)
    np.testing.assert_allclose(again.score, fit.score, atol=1e-10)
    np.testing.assert_allclose(again.reliability[::-1], fit.reliability, atol=1e-10)
    swapped = [Row(r.right, r.left, r.expert, r.n_right, r.n_left, r.n_ties) for r in rows]
    other = fit_rows(swapped, 4, 3)
    np.testing.assert_allclose(other.score, fit.score, atol=1e-9)
    np.testing.assert_allclose(other.side, -fit.side, atol=1e-9)
    unsided = [fit_rows(part, 4, 3, sided=False) for part in (rows, swapped)]
    np.testing.assert_array_equal(unsided[0].score, unsided[1].score)
    assert unsided[0].side.tolist() == [0.0] * 3


def test_large_instances_are_solved_without_forming_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = simulate(["good", "coin", "good"], 20, 1_500, 1, ties=True)
    want = fit_rows(rows, 20, 3)
    monkeypatch.setattr(_expert_reliability, "_DENSE", 1)
    got = fit_rows(rows, 20, 3)
    np.testing.assert_allclose(got.score, want.score, atol=1e-8)
    free = _expert_reliability.scores_given_judges(
        Outcomes(**columns(rows), offsets=np.array([0, 20])), **known(got, 0.0)
    )
    monkeypatch.setattr(_expert_reliability, "_DENSE", 100)
    dense = _expert_reliability.scores_given_judges(
        Outcomes(**columns(rows), offsets=np.array([0, 20])), **known(got, 0.0)
    )
    np.testing.assert_allclose(free.score, dense.score, atol=1e-8)
    assert abs(free.score.mean()) < 1e-12


@pytest.mark.parametrize(("ties", "sided"), [(False, False), (True, True)])
def test_information_is_the_curvature_with_the_judges_profiled_out(ties: bool, sided: bool) -> None:
    """Against the whole system of scores, judges, means and gauge, differentiated numerically and solved densely."""
    rows = asymmetric(ties, n=150)
    prior = 0.1
    fit = fit_rows(rows, 4, 3, prior=prior, sided=sided)
    (got,) = _expert_reliability.judge_information(
        Outcomes(**columns(rows), offsets=np.array([0, 4])),
        score=fit.score,
        variance=fit.variance,
        sided=sided,
        **known(fit, prior),
    )
    ridge, variance = prior / fit.scale**2, np.array(fit.variance)
    tie = fit.tie if ties else 0.0
    phi = np.stack([fit.slope, fit.side, fit.tie_tendency + tie, fit.slope_stderr], axis=1)
    mean = np.array([phi[:, 0].mean(), phi[:, 1].sum() / variance[1] / (3 / variance[1] + 0.01), tie])
    used = [0, *[1] * sided, *[2] * ties, 3]
    base, where = np.concatenate([fit.score, phi.ravel(), mean]), np.arange(4 + 12 + 3)
    free = np.concatenate([where[:4], (4 + 4 * np.arange(3)[:, None] + used).ravel(), 16 + np.array(used[:-1])])

    def unpacked(x: Any) -> tuple[Any, Any, Any]:
        full = base.copy()
        full[free] = x
        return full[:4], full[4:16].reshape(3, 4), full[16:]

    share = fit.n_comparisons / fit.n_comparisons.sum()
    normal = np.zeros((3, 4))
    normal[:, [0, 3]] = share[:, None] * phi[:, [0, 3]]
    normal = np.concatenate([np.zeros(4), normal.ravel(), np.zeros(3)])[free]

    def value(x: Any) -> float:
        return oracle.objective(rows, *unpacked(x), variance, ridge, ties)

    gradient = oracle.derivative(value, base[free])
    multiplier = float(gradient @ normal / (normal @ normal))

    def lagrangian(x: Any) -> float:
        _, p, _ = unpacked(x)
        return value(x) - 0.5 * multiplier * float(share @ (p[:, 0] ** 2 + p[:, 3] ** 2))

    whole = -oracle.second(lagrangian, base[free])
    size = len(free)
    system = np.block([[whole[4:, 4:], normal[4:, None]], [normal[None, 4:], np.zeros((1, 1))]])
    cross = np.concatenate([whole[:4, 4:], np.zeros((4, 1))], axis=1)
    np.testing.assert_allclose(
        got.hessian, whole[:4, :4] - cross @ np.linalg.solve(system, cross.T), rtol=1e-3, atol=1e-3
    )
    assert np.linalg.eigvalsh(got.hessian).min() > 0
    assert got.expert.tolist() == [0, 1, 2]
    for k in range(3):
        # A judge's part of the objective is its likelihood and what the population says of it.
        def part(x: Any, k: int = k) -> float:
            s, p, m = unpacked(x)
            own = oracle.objective(rows, s, p, m, variance, ridge, ties, only=k)
            off = (p[k, :3] - m) ** 2 / variance
            own -= 0.5 * sum(off[c] for c in used[:-1]) + 0.5 * p[k, 3] ** 2 / variance[0] - np.log(p[k, 3])
            return float(own - 0.5 * 0.01 * sum(m[c] ** 2 for c in used[:-1] if c) / 3)

        pull = oracle.derivative(part, base[free])
        want = pull[:4] - cross @ np.linalg.solve(system, np.append(pull[4:], 0.0))
        np.testing.assert_allclose(got.gradients[k], want, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(got.gradients.sum(axis=0), ridge * fit.score, atol=1e-7)
    (taken,) = _expert_reliability.judge_information(
        Outcomes(**columns(rows), offsets=np.array([0, 4])),
        score=fit.score,
        variance=fit.variance,
        sided=sided,
        profile=False,
        **known(fit, prior),
    )
    np.testing.assert_allclose(taken.hessian, whole[:4, :4], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(taken.gradients.sum(axis=0), ridge * fit.score, atol=1e-9)
    assert size == len(gradient)


def degenerate() -> dict[str, tuple[list[Row], int, int]]:
    chain = [Row(i, i + 1, i % 3, 1.0, 0.0, 0.0) for i in range(5)]
    return {
        "nothing": ([], 3, 2),
        "nobody and nothing": ([], 0, 0),
        "one comparison": ([Row(0, 1, 0, 1.0, 0.0, 0.0)], 2, 1),
        "zero counts": ([Row(0, 1, 0, 0.0, 0.0, 0.0)], 2, 1),
        "all ties": ([Row(i, j, k, 0.0, 0.0, 3.0) for i in range(4) for j in range(i) for k in range(3)], 4, 3),
        "one tie": ([Row(0, 1, 0, 0.0, 0.0, 1.0)], 2, 1),
        "always left, all of them": (
            [Row(i, j, k, 2.0, 0.0, 0.0) for i in range(4) for j in range(4) if i != j for k in range(3)],
            4,
            3,
        ),
        "undefeated chain": (chain, 6, 3),
        "two components": ([Row(0, 1, 0, 3.0, 1.0, 0.0), Row(2, 3, 1, 1.0, 2.0, 0.0)], 4, 2),
        "silent items and judges": ([Row(2, 4, 1, 2.0, 1.0, 1.0), Row(4, 2, 3, 1.0, 0.0, 0.0)], 6, 5),
        "exact opposites": ([Row(0, 1, 0, 5.0, 0.0, 0.0), Row(0, 1, 1, 0.0, 5.0, 0.0)], 2, 2),
        "huge counts": ([Row(0, 1, k, 1e9, 1e3, 1e6) for k in range(3)] + [Row(1, 2, 0, 1.0, 1e9, 0.0)], 3, 3),
        "tiny counts": ([Row(0, 1, k, 1e-9, 1e-12, 0.0) for k in range(3)], 2, 3),
    }


@pytest.mark.parametrize("prior", [0.1, 0.0])
@pytest.mark.parametrize("name", degenerate())
def test_degenerate_data_end_in_finite_numbers(name: str, prior: float) -> None:
    rows, n_items, n_judges = degenerate()[name]
    for sided in (True, False):
        fit = fit_rows(rows, n_items, n_judges, prior=prior, sided=sided, max_iter=100)
        assert len(fit.trace) == fit.n_iter
        assert fit.score.shape == (n_items,)
        for values in (
            fit.score,
            fit.slope,
            fit.slope_stderr,
            fit.side,
            fit.tie_tendency,
            fit.reliability,
            fit.reliability_stderr,
        ):
            assert np.isfinite(values).all()
        # With 1e9 against 1 the search is slow, and without a prior the scores run away; neither hangs.
        assert fit.converged or prior == 0.0 or name == "huge counts"
        found = _expert_reliability.judge_information(
            Outcomes(**columns(rows), offsets=np.array([0, n_items])),
            score=fit.score,
            variance=fit.variance,
            sided=sided,
            **known(fit, prior),
        )
        assert np.isfinite(found[0].hessian).all()
    if name == "all ties":
        np.testing.assert_allclose(fit.score, 0.0, atol=1e-9)
    if name == "silent items and judges":
        assert fit.score[[0, 1, 3, 5]].tolist() == [0.0] * 4
        assert fit.n_comparisons.tolist() == [0.0, 4.0, 0.0, 1.0, 0.0]


def test_ties_may_be_left_out_or_modelled_where_there_are_none() -> None:
    rows = asymmetric(True, n=150)
    without = [r._replace(n_ties=0.0) for r in rows]
    left_out = fit_rows(rows, 4, 3, ties=False)
    np.testing.assert_array_equal(left_out.score, fit_rows(without, 4, 3).score)
    assert left_out.tie == -np.inf
    modelled = fit_rows(without, 4, 3, ties=True)
    assert modelled.converged
    assert -20 < modelled.tie < -3
    np.testing.assert_allclose(modelled.score, left_out.score, atol=0.02)


def test_reports_every_sweep_and_stops_where_it_is_told_to() -> None:
    rows = asymmetric(True, n=150)
    done: list[tuple[int, int]] = []
    fit = fit_rows(rows, 4, 3, max_iter=2, report=lambda a, b: done.append((a, b)))
    assert done == [(1, 2), (2, 2)]
    assert not fit.converged
    assert fit.n_iter == 2
    assert fit.gradient_norm > 1e-9


def _reading_level(folder: Path) -> tuple[Columns, Any]:
    votes = np.loadtxt(folder / "crowdbt-pairwise" / "readinglevel" / "all_pair.txt", dtype=np.int64)
    level = dict(np.loadtxt(folder / "crowdbt-pairwise" / "readinglevel" / "doc_info.txt", dtype=np.int64).tolist())
    votes = votes[votes[:, 1] != votes[:, 2]]
    items, pair = np.unique(votes[:, 1:], return_inverse=True)
    pair = pair.reshape(-1, 2).astype(np.int32)
    expert = np.unique(votes[:, 0], return_inverse=True)[1].astype(np.int32)
    one, none = np.ones(len(votes)), np.zeros(len(votes))
    table = {"left": pair[:, 0], "right": pair[:, 1], "expert": expert, "n_left": one, "n_right": none, "n_ties": none}
    return table, np.array([level[i] for i in items.tolist()])


@pytest.mark.data
def test_reading_levels_come_closer_to_the_truth_than_with_everybody_believed(data_dir: Path) -> None:
    table, level = _reading_level(data_dir)
    fit = _expert_reliability.fit_judges(
        Outcomes(**table, offsets=np.array([0, len(level)])), n_experts=624, prior=0.1, sided=False
    )
    rows = [Row(*r) for r in zip(*(c.tolist() for c in table.values()), strict=True)]
    plain = oracle.plain(rows, len(level), 0.1, False)
    assert fit.converged
    ours, theirs = (float(kendalltau(s, level).statistic) for s in (fit.score, plain))
    assert ours > theirs + 0.005
