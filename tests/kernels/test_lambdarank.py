"""Slopes of LambdaRank against lists in which two items really change places, and against finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import lambdarank as oracle

from concordant.kernels import lambdarank as kernel
from concordant.kernels.lists import offsets_of
from concordant.kernels.svd_tables import FeatureRows, LambdaTarget

CODES = {"ndcg": kernel.PLACES, "p": kernel.PLACES, "err": kernel.ERR, "map": kernel.AP, "mrr": kernel.RR}


def goal_of(name: str, labels: list[float], budget: int = 0, normalise: bool = False) -> LambdaTarget:
    """Return what to learn for in one instance whose labels come highest first."""
    kind, _, cut = name.partition("@")
    n = len(labels)
    k = int(cut) if cut else n
    place = np.arange(1.0, n + 1)
    seen = place <= k
    label = np.array(labels)
    level = np.searchsorted(np.unique(-label), -label).astype(np.int64)
    gain = np.exp2(np.maximum(label, 0.0)) - 1.0
    relevant = (label >= 1).astype(np.float64)
    if name == "pairs":
        return LambdaTarget(kernel.PAIRS, gain, level, np.arange(n), place, np.ones(1), budget, normalise)
    worth, places, scale = {
        "ndcg": (
            gain,
            seen / np.log2(1 + place),
            1.0 / max((np.sort(gain)[::-1] * seen / np.log2(1 + place)).sum(), 1),
        ),
        "p": (relevant, seen.astype(np.float64), 1.0 / k),
        "err": (gain / 2.0 ** max(0.0, *labels), seen / place, 1.0),
        "map": (relevant, seen / place, 1.0 / max(relevant.sum(), 1)),
        "mrr": (relevant, seen / place, 1.0),
    }[kind]
    return LambdaTarget(CODES[kind], worth, level, np.arange(n), places, np.array([scale]), budget, normalise)


def slopes(scores: Any, target: LambdaTarget, draw: float = 0.0) -> Any:
    out = np.empty(len(scores))
    kernel.lambdas(np.asarray(scores, dtype=np.float64), target, 0, 0, draw, out)
    return out


@st.composite
def queries(draw: Any) -> tuple[list[float], list[float]]:
    """Return scores, with ties, and labels, highest first."""
    n = draw(st.integers(2, 7))
    labels = sorted(draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0]), min_size=n, max_size=n)), reverse=True)
    return draw(st.lists(st.sampled_from([-1.5, -0.3, 0.0, 0.1, 0.7, 2.0]), min_size=n, max_size=n)), labels


@pytest.mark.parametrize("name", [*oracle.METRICS, "pairs"])
@given(queries())
@settings(max_examples=80)
def test_slopes_are_those_of_real_swaps(name: str, query: tuple[list[float], list[float]]) -> None:
    scores, labels = query
    got = slopes(scores, goal_of(name, labels))
    assert got == pytest.approx(oracle.lambdas(name, scores, labels), abs=1e-12)
    assert float(got.sum()) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", ["ndcg", "err", "map", "p@2", "mrr", "pairs"])
def test_slopes_are_those_of_the_cost_with_the_changes_held_fixed(name: str) -> None:
    scores, labels = [0.3, -0.2, 0.8, 0.1, -0.7, -1.0], [2.0, 2.0, 1.0, 1.0, 0.0, 0.0]
    pairs = oracle.changes(name, scores, labels)
    got = slopes(scores, goal_of(name, labels))
    for i in range(len(scores)):
        up, down = list(scores), list(scores)
        up[i] += 1e-6
        down[i] -= 1e-6
        slope = (oracle.cost(pairs, up) - oracle.cost(pairs, down)) / 2e-6
        assert got[i] == pytest.approx(slope, abs=1e-8)


def test_worked_case(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("11_lambdarank")
    for case in content["cases"]:
        scores, labels = np.array(case["input"]["s"]), np.array(case["input"]["labels"], dtype=float)
        order = np.argsort(-labels, kind="stable")
        for name, wanted in (("ndcg", "lam"), ("pairs", "ranknet_lam")):
            # Ties are placed as the items come in the file.
            target = goal_of(name, labels[order].tolist())._replace(by_tie=np.argsort(order))
            want = np.array(case["expected"][wanted])[order]
            assert slopes(scores[order], target) == pytest.approx(want, abs=content["abs_tol"])
        pairs = oracle.changes("pairs", scores.tolist(), labels.tolist())
        assert oracle.cost(pairs, scores.tolist()) == pytest.approx(case["expected"]["cross_entropy"])


def test_scores_that_are_far_apart_neither_overflow_nor_lose_their_pull() -> None:
    scores, labels = [-900.0, 400.0, -899.5, 3.0], [2.0, 1.0, 0.0, 0.0]
    got = slopes(scores, goal_of("pairs", labels))
    near = 1.0 / (1.0 + math.exp(-0.5))
    # The first item is pulled up past all others, fully past those far above it.
    assert got == pytest.approx([-(2.0 + near), 1.0, near, 1.0])


def test_scores_that_differ_in_their_last_bits_are_ties() -> None:
    labels = [1.0, 0.0, 0.0]
    target = goal_of("ndcg", labels)._replace(by_tie=np.array([2, 0, 1]))
    tied = slopes([0.3, 0.3, 0.3], target)
    noisy = slopes([0.3, 0.1 + 0.2, 0.3 * (1 - 1e-15)], target)
    assert noisy == pytest.approx(tied, abs=1e-12)
    # The tie places the third item first, so that passing it is worth more than passing the second.
    assert tied[2] > tied[1] > 0


def test_a_loud_instance_is_calmed_by_the_sum_of_its_pulls() -> None:
    scores, labels = [0.0, 0.5, 0.2, 1.0], [2.0, 1.0, 0.0, 0.0]
    plain = slopes(scores, goal_of("pairs", labels))
    # Each pull lowers one slope and raises another: of five pairs, those of the first item and of the second.
    pulls = sum(1.0 / (1.0 + math.exp(scores[i] - scores[j])) for i in (0, 1) for j in range(i + 1, 4))
    assert slopes(scores, goal_of("pairs", labels, normalise=True)) == pytest.approx(
        plain * math.log2(1 + pulls) / pulls
    )
    assert slopes(scores, goal_of("pairs", [1.0] * 4, normalise=True)).tolist() == [0.0] * 4


def test_thinned_slopes_are_right_on_average_and_keep_rare_labels_and_the_top() -> None:
    rng = np.random.default_rng(3)
    n, relevant = 120, 7
    labels = [1.0] * relevant + [0.0] * (n - relevant)
    scores = rng.normal(size=n)
    what = rng.normal(size=(n, 3))
    exact = slopes(scores, goal_of("ndcg", labels)) @ what
    draws = np.arange(400) / 400
    thinned = [slopes(scores, goal_of("ndcg", labels, budget=40), d) for d in draws]
    assert np.mean([t @ what for t in thinned], axis=0) == pytest.approx(exact, rel=0.01, abs=0.002)
    for slope in thinned[::50]:
        assert (slope[:relevant] < 0).all()
        assert np.count_nonzero(slope) == 40
        assert slope.sum() == pytest.approx(0.0, abs=1e-12)
    best = relevant + np.argsort(-scores[relevant:])[:16]
    assert all((slope[best] > 0).all() for slope in thinned[::50])
    # Nothing is left out where there is room for all.
    assert (
        slopes(scores, goal_of("ndcg", labels, budget=n)).tolist() == slopes(scores, goal_of("ndcg", labels)).tolist()
    )


def rows_of(X: Any, block: list[int], lengths: list[int], sources: int = 0, p: int = 1) -> FeatureRows:
    rng = np.random.default_rng(5)
    return FeatureRows(
        offsets=np.array([0, len(lengths)]),
        starts=offsets_of(np.array(lengths)),
        block=np.array(block, dtype=np.int32),
        X=np.array(X, dtype=np.float64),
        source_starts=np.array([0, sources]),
        source_block=np.arange(sources),
        background=rng.normal(size=(sources, 2 * p)),
    )


def small_rows(p: int) -> FeatureRows:
    """Return five slots with rows of up to three blocks."""
    rng = np.random.default_rng(7)
    block = [0, 1, 2, 0, 2, 1, 0, 1]
    return rows_of(rng.normal(size=(8, 2 * p + 1)), block, [3, 2, 0, 1, 2], sources=3, p=p)


def test_a_pass_moves_linear_weights_against_the_slope_of_each_instance() -> None:
    rows, labels = small_rows(1), [2.0, 1.0, 1.0, 0.0, 0.0]
    target = goal_of("ndcg", labels)
    w = np.random.default_rng(1).normal(size=(3, 3))
    slot = np.repeat(np.arange(5), np.diff(rows.starts))
    score = np.zeros(5)
    np.add.at(score, slot, (rows.X * w[rows.block]).sum(axis=1))
    slope = np.array(oracle.lambdas("ndcg", score.tolist(), labels))
    want = 0.98 * w
    np.add.at(want, rows.block, -0.1 * slope[slot, None] * rows.X)
    got = w.copy()
    kernel.linear_pass(np.array([0]), np.zeros(1), rows, target, 0.1, 0.2, got)
    np.testing.assert_allclose(got, want, atol=1e-13)


@pytest.mark.parametrize("p", [1, 2])
def test_a_pass_moves_a_hidden_layer_against_finite_differences(p: int) -> None:
    rows, labels = small_rows(p), [2.0, 1.0, 1.0, 0.0, 0.0]
    target = goal_of("ndcg", labels)
    rng = np.random.default_rng(2)
    units = 4
    shapes = [(3, 3 * p + 1, units), (units,), (units,)]
    before = [0.4 * rng.normal(size=s) for s in shapes]

    def scores(net: list[Any]) -> Any:
        out = np.empty(5)
        kernel.hidden_scores(np.array([0]), rows, *net, out)
        return out

    pairs = oracle.changes("ndcg", scores(before).tolist(), labels)
    after = [a.copy() for a in before]
    kernel.hidden_pass(np.array([0]), np.zeros(1), rows, target, 1e-3, 0.0, *after)
    for which, array in enumerate(before):
        moved = (array - after[which]) / 1e-3
        for at in np.ndindex(array.shape):
            value = []
            for step in (1e-6, -1e-6):
                net = [a.copy() for a in before]
                net[which][at] += step
                value.append(oracle.cost(pairs, scores(net).tolist()))
            assert moved[at] == pytest.approx((value[0] - value[1]) / 2e-6, abs=1e-7)


def test_the_hidden_layer_is_what_it_says() -> None:
    rows = small_rows(1)
    rng = np.random.default_rng(4)
    w, bias, top = rng.normal(size=(3, 4, 2)), rng.normal(size=2), rng.normal(size=2)
    got = np.empty(5)
    kernel.hidden_scores(np.array([0]), rows, w, bias, top, got)
    for slot in range(5):
        z = bias.copy()
        for b in range(3):
            # u, v, missing - 1 and sigma, the second beginning from what is said about items not listed.
            x = np.array([0.0, rows.background[b, 1], 0.0, rows.background[b, 0]])
            for r in range(rows.starts[slot], rows.starts[slot + 1]):
                if rows.block[r] == b:
                    x[:3] += rows.X[r]
            z += x @ w[b]
        assert got[slot] == pytest.approx(float(top @ np.tanh(z)))


def test_decay_shrinks_a_hidden_layer_but_not_its_bias() -> None:
    rows = small_rows(1)
    net = [np.ones((3, 4, 2)), np.ones(2), np.ones(2)]
    # All labels are alike, so that nothing pulls.
    kernel.hidden_pass(np.array([0]), np.zeros(1), rows, goal_of("pairs", [1.0] * 5), 0.1, 0.5, *net)
    assert [float(a.min()) for a in net] == pytest.approx([0.95, 1.0, 0.95])


def test_worked_step_of_the_linear_model(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("30_single_sgd_steps")
    (case,) = [c for c in content["cases"] if c["name"] == "lambdarank_svd"]
    X = np.array(case["expected"]["X"])
    labels = np.array(case["input"]["labels"], dtype=float)
    order = np.argsort(-labels, kind="stable")
    n, d = X.shape
    rows = rows_of(X[order], [0] * n, [1] * n)
    w = np.array([case["input"]["w0"]])
    assert X @ w[0] == pytest.approx(case["expected"]["s"], abs=content["abs_tol"])
    target = goal_of("ndcg", labels[order].tolist())
    kernel.linear_pass(np.array([0]), np.zeros(1), rows, target, case["input"]["eta"], 0.0, w)
    assert w.shape == (1, d)
    assert w[0] == pytest.approx(case["expected"]["w1"], abs=content["abs_tol"])
