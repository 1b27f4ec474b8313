"""What a CRF draws, climbs and sums: golden steps, laws of the draws, differences of values, what must not matter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.oracles import crf as oracle

from concordant.kernels.crf import (
    MetricTarget,
    SamplingPools,
    SliceTerms,
    batch_objective,
    draw_samples,
    metric_gains,
    sampling_pools,
    sgd_pass,
    slice_rows,
    visit_order,
)
from concordant.kernels.permutation_dp import METRICS

ROOT = Path(__file__).resolve().parents[2]
SEED = np.ones(1, dtype=np.uint64)


class Rows(NamedTuple):
    """The rows of some instances, made from tables of ranks with 0 for missing."""

    offsets: np.ndarray
    starts: np.ndarray
    block: np.ndarray
    X: np.ndarray
    source: np.ndarray
    value: np.ndarray


def rows_of(tables: list[np.ndarray], transform: str, *, mean: bool, below: bool = False, blocks: bool = True) -> Rows:
    """Return (−1, row, −col) from the tables of pairs, each list with a block of its own or all with one."""
    starts, block, X, source, value, sizes, lists = [0], [], [], [], [], [], 0
    for R in tables:
        y = [oracle.pairs(r, transform) for r in R.T]
        m = len(R)
        for i in range(m):
            for k in range(R.shape[1]):
                if not R[i, k]:
                    continue
                share = m if mean else 1
                listed = int((R[:, k] > 0).sum())
                won = y[k][i].sum() + (m - listed if below else 0)
                lost = y[k][:, i].sum() - (listed if below else 0)
                X.append([-1.0, won / share, -lost / share])
                block.append(k if blocks else 0)
                source.append(lists + k)
                top = R[:, k].max()
                value.append(np.log(R[i, k]) / np.log(max(top, 2)) if transform == "log" else R[i, k])
            starts.append(len(X))
        sizes.append(m)
        lists += R.shape[1]
    return Rows(
        np.cumsum([0, *sizes]).astype(np.int64),
        np.array(starts, dtype=np.int64),
        np.array(block, dtype=np.int32),
        np.array(X),
        np.array(source, dtype=np.int64),
        np.array(value),
    )


def some_tables(seed: int, n: int = 5, experts: int = 4) -> tuple[list[np.ndarray], np.ndarray]:
    """Return tables of ranks and labels of n instances."""
    rng = np.random.default_rng(seed)
    tables, labels = [], []
    for _ in range(n):
        m = int(rng.integers(5, 12))
        R = np.array([rng.permutation(30)[:m] + 1 for _ in range(experts)]).T.astype(float)
        R[rng.random(R.shape) < 0.4] = 0
        tables.append(R)
        label = rng.integers(0, 3, m).astype(float)
        label[:3] = [0, 1, 2]
        labels.append(label)
    return tables, np.concatenate(labels)


def keys(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.uint64)


def aim_of(label: np.ndarray, offsets: np.ndarray, metric: str = "ndcg", **other: Any) -> MetricTarget:
    return MetricTarget(METRICS[metric], 0, metric_gains(metric, label, offsets), label, **other)


def golden_case(case: dict[str, Any]) -> tuple[Rows, np.ndarray, np.ndarray]:
    given = case["input"]
    rows = rows_of([np.array(given["R"], dtype=float)], "log", mean=False)
    return rows, np.array(given["labels"], dtype=float), np.array(given["W0"]).reshape(3, -1).T.copy()


def test_golden_scores(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("09_crf_scores")
    tol = content["abs_tol"]
    for case in content["cases"]:
        given, right = case["input"], case["expected"]
        R = np.array(given["R"], dtype=float)
        rows = rows_of([R], given["transform"], mean=False)
        w = np.array([given["alpha"], given["beta_pos"], given["beta_neg"]]).T
        f = np.add.reduceat((rows.X * w[rows.block]).sum(axis=1), rows.starts[:-1])
        # A row says what being listed adds; all are compared with not being listed by anybody.
        f += np.sum(given["alpha"])
        np.testing.assert_allclose(f, right["score_f"], rtol=0, atol=tol)
        np.testing.assert_allclose(-f, right["w"], rtol=0, atol=tol)
        assert np.argsort(-f, kind="stable").tolist() == right["ranking_best_first"]
        for key, order in (("ranking", right["ranking_best_first"]), ("identity", range(len(f)))):
            energy = -(f[list(order)] / np.log(np.arange(len(f)) + 2.0)).sum() / len(f) ** 2
            assert energy == pytest.approx(right[f"energy_of_{key}"], abs=tol)


def test_golden_step_on_all_items(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("30_single_sgd_steps")
    case = content["cases"][0]
    assert case["name"] == "crf_all"
    rows, label, w = golden_case(case)
    pools = sampling_pools(rows.offsets, label, keys(5))
    target = aim_of(label, rows.offsets, paper=True)
    eta = case["input"]["eta"]
    sgd_pass(w, np.array([0]), pools, SEED, 0, *rows[1:4], target, epsilon=5, learning_rate=eta)
    np.testing.assert_allclose(w.T.ravel(), case["expected"]["W1"], rtol=0, atol=content["abs_tol"])


def test_golden_step_on_a_slice(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("30_single_sgd_steps")
    case = content["cases"][1]
    assert case["name"] == "crf_slice"
    rows, label, w = golden_case(case)
    items, eta, tol = case["input"]["items"], case["input"]["eta"], content["abs_tol"]
    seen = np.full(5, np.nan)
    seen[items] = label[items]
    pools = sampling_pools(rows.offsets, seen, keys(5))
    target = aim_of(label, rows.offsets, paper=True)
    slices = SliceTerms(rows.source, rows.value, mean=False)
    samples = draw_samples(np.array([0]), pools, SEED, epsilon=3)
    sliced = slice_rows(samples, *rows[1:4], slices)
    own, block, X = sliced[1:]
    f = np.add.reduceat((X * w[block]).sum(axis=1), own[:-1]) + w[:, 0].sum()
    # The draw is in the order of the labels.
    np.testing.assert_allclose(f[np.argsort(sliced[0].slot)], case["expected"]["f"], rtol=0, atol=tol)
    value, slope = batch_objective(w, *sliced, target)
    np.testing.assert_allclose((w + eta * slope).T.ravel(), case["expected"]["W1"], rtol=0, atol=tol)
    met = sgd_pass(w, np.array([0]), pools, SEED, 0, *rows[1:4], target, epsilon=3, learning_rate=eta, slices=slices)
    assert met == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(w.T.ravel(), case["expected"]["W1"], rtol=0, atol=tol)


def drawn(label: np.ndarray, epsilon: int, times: int) -> np.ndarray:
    pools = sampling_pools(np.array([0, len(label)]), label, keys(len(label)))
    samples = draw_samples(np.array([0]), pools, SEED, epsilon=epsilon, n_samples=times)
    assert (np.diff(samples.starts) == epsilon).all()
    assert samples.weight.tolist() == [1 / times] * times
    return samples.slot[samples.item].reshape(times, epsilon)


def test_draws_hold_every_label_and_are_even_otherwise() -> None:
    label = np.array([0.0, 1, 0, 2, np.nan, 0, 1, 0, 0])
    times, epsilon, judged, labels = 20_000, 5, 8, 3
    sets = drawn(label, epsilon, times)
    assert (np.diff(np.sort(sets, axis=1), axis=1) > 0).all()
    assert 4 not in sets
    assert all(set(label[s]) == {0.0, 1.0, 2.0} for s in sets[:2000])
    share = np.bincount(sets.ravel(), minlength=len(label)) / times
    for value, size in ((0.0, 5), (1.0, 2), (2.0, 1)):
        first = 1 / size
        p = first + (1 - first) * (epsilon - labels) / (judged - labels)
        error = 4 * np.sqrt(p * (1 - p) / times)
        assert np.abs(share[label == value] - p).max() <= error
    # Not only each item by itself: the pairs of items with label 0 that come together do so equally often.
    zeros = np.flatnonzero(label == 0)
    together = Counter((a, b) for s in sets for a in zeros for b in zeros if a < b and a in s and b in s)
    counts = np.array([together[a, b] for a in zeros for b in zeros if a < b])
    assert np.abs(counts - counts.mean()).max() <= 4 * np.sqrt(counts.mean())


def test_more_labels_than_places_give_as_many_labels_as_fit_evenly() -> None:
    label = np.repeat(np.arange(7.0), [1, 2, 3, 1, 2, 3, 1])
    times, epsilon = 20_000, 4
    sets = drawn(label, epsilon, times)
    assert (np.diff(np.sort(label[sets], axis=1), axis=1) > 0).all()
    p = epsilon / 7
    share = np.bincount(label[sets].ravel().astype(int)) / times
    assert np.abs(share - p).max() <= 4 * np.sqrt(p * (1 - p) / times)
    within = np.bincount(sets.ravel(), minlength=len(label)) / times
    sizes = np.repeat([1, 2, 3, 1, 2, 3, 1], [1, 2, 3, 1, 2, 3, 1])
    assert np.abs(within - p / sizes).max() <= 4 * np.sqrt(p * (1 - p) / times)


def test_other_passes_and_other_seeds_draw_other_items() -> None:
    label = np.arange(40) % 2.0
    pools = sampling_pools(np.array([0, 40]), label, keys(40))
    seen = {
        tuple(draw_samples(np.array([0]), pools, np.array([seed], dtype=np.uint64), number=number, n_samples=1).slot)
        for seed in range(10)
        for number in range(10)
    }
    assert len(seen) > 95


def test_few_items_are_all_drawn_once() -> None:
    pools = sampling_pools(np.array([0, 3, 9]), np.array([1.0, 0, 2, 0, 1, 0, 1, 0, 1]), keys(9))
    samples = draw_samples(np.array([0, 1]), pools, np.ones(2, dtype=np.uint64), epsilon=4, n_samples=3)
    assert np.diff(samples.starts).tolist() == [3, 4, 4, 4]
    assert samples.sample_starts.tolist() == [0, 1, 4]
    np.testing.assert_allclose(samples.weight, [1, 1 / 3, 1 / 3, 1 / 3])
    assert samples.slot[samples.item[:3]].tolist() == [1, 0, 2]
    assert samples.slot[: samples.slot_starts[1]].max() < 3 <= samples.slot[samples.slot_starts[1] :].min()


def test_instances_without_judged_items_have_empty_pools() -> None:
    label = np.array([np.nan, np.nan, 1.0, 0.0])
    pools = sampling_pools(np.array([0, 2, 2, 4]), label, keys(4))
    assert pools.starts.tolist() == [0, 0, 0, 2]
    samples = draw_samples(np.arange(3), pools, np.ones(3, dtype=np.uint64))
    assert np.diff(samples.starts).tolist() == [0, 0, 2]


def test_visits_come_in_another_order_every_pass() -> None:
    seeds = np.random.default_rng(0).integers(0, 2**63, 50).astype(np.uint64)
    orders = [visit_order(np.arange(50), seeds, number).tolist() for number in range(3)]
    assert all(sorted(o) == list(range(50)) for o in orders)
    assert len({tuple(o) for o in orders}) == 3
    first = np.array([visit_order(np.arange(50), seeds, number)[0] for number in range(5000)])
    assert np.abs(np.bincount(first, minlength=50) - 100).max() <= 40


@pytest.mark.parametrize("metric", sorted(METRICS))
@pytest.mark.parametrize("sums", ["full", "slice"])
def test_the_slope_in_the_weights_is_that_of_the_value(metric: str, sums: str) -> None:
    tables, label = some_tables(1)
    rows = rows_of(tables, "log", mean=True)
    target = aim_of(label, rows.offsets, metric)
    pools = sampling_pools(rows.offsets, label, keys(len(label)))
    samples = draw_samples(np.array([3, 0, 4]), pools, np.arange(5, dtype=np.uint64), epsilon=6, n_samples=4)
    args: tuple[Any, ...] = (samples, *rows[1:4])
    if sums == "slice":
        args = slice_rows(*args, SliceTerms(rows.source, rows.value))
    w = np.random.default_rng(2).normal(size=(4, 3))
    value, slope = batch_objective(w, *args, target)
    for b in range(4):
        for c in range(3):
            move = np.zeros_like(w)
            move[b, c] = 1e-5
            of = [batch_objective(w + s * move, *args, target)[0] for s in (1, -1)]
            assert slope[b, c] == pytest.approx((of[0] - of[1]) / 2e-5, rel=1e-6, abs=1e-9)
    # Ranges of instances add up.
    parts = [batch_objective(w, *args, target, a, b) for a, b in ((0, 1), (1, 3))]
    assert sum(p[0] for p in parts) == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(sum(p[1] for p in parts), slope, rtol=1e-12, atol=1e-15)


def test_the_objective_is_the_mean_over_samples_of_what_is_expected() -> None:
    tables, label = some_tables(4, n=2)
    rows = rows_of(tables, "binary", mean=True)
    target = aim_of(label, rows.offsets, paper=True)
    pools = sampling_pools(rows.offsets, label, keys(len(label)))
    samples = draw_samples(np.array([0, 1]), pools, np.ones(2, dtype=np.uint64), epsilon=4, n_samples=2)
    w = np.random.default_rng(3).normal(size=(4, 3))
    score = np.array([(rows.X[a:b] * w[rows.block[a:b]]).sum() for a, b in pairwise(rows.starts)])
    right = 0.0
    for t in range(4):
        slots = samples.slot[samples.item[samples.starts[t] : samples.starts[t + 1]]]
        right += oracle.expected(score[slots].tolist(), oracle.ndcg(target.gain[slots].tolist(), 0), 1 / 16)[0] / 2
    assert batch_objective(w, samples, *rows[1:4], target)[0] == pytest.approx(right, rel=1e-13)


@pytest.mark.parametrize("transform", ["binary", "log"])
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_slices_are_the_sums_of_the_tables_cut_to_the_draw(transform: str, below: bool, shared: bool) -> None:
    tables, label = some_tables(6, n=3)
    rows = rows_of(tables, transform, mean=True, below=below, blocks=not shared)
    pools = sampling_pools(rows.offsets, label, keys(len(label)))
    samples = draw_samples(np.arange(3), pools, np.arange(3, dtype=np.uint64), epsilon=4, n_samples=2)
    slices = SliceTerms(rows.source, rows.value, binary=transform == "binary", below=below)
    # The weight of a list multiplies all its numbers.
    weight = 1.0 + rows.source % 3
    cut, own, block, X = slice_rows(samples, *rows[1:3], rows.X * weight[:, None], slices)
    for t in range(len(cut.starts) - 1):
        slots = cut.slot[cut.starts[t] : cut.starts[t + 1]]
        n = int(np.searchsorted(rows.offsets, slots[0], side="right")) - 1
        R, items = tables[n], slots - rows.offsets[n]
        right = []
        for i in range(4):
            for k in np.flatnonzero(R[items[i]]):
                # The normaliser is that of the full list: the table is made first and cut then.
                y = oracle.pairs(R[:, k], transform)[np.ix_(items, items)]
                listed = R[items, k] > 0
                won = y[i].sum() + below * (~listed).sum()
                lost = y[:, i].sum() - below * listed.sum()
                right.append([*(1 + (4 * n + k) % 3) * np.array([-1, won / 4, -lost / 4]), 0 if shared else k])
        part = slice(own[cut.starts[t]], own[cut.starts[t + 1]])
        np.testing.assert_allclose(np.column_stack([X[part], block[part]]), right, atol=1e-14)


def test_penalty_shrinks_all_weights_as_if_they_were_touched() -> None:
    tables, label = some_tables(7, n=4)
    rows = rows_of(tables, "log", mean=True)
    target = aim_of(label, rows.offsets)
    pools = sampling_pools(rows.offsets, label, keys(len(label)))
    seeds = np.arange(4, dtype=np.uint64)
    w = np.random.default_rng(5).normal(size=(5, 3))
    one = w.copy()
    order = np.array([2, 0, 3])
    sgd_pass(one, order, pools, seeds, 3, *rows[1:4], target, epsilon=4, learning_rate=2.0, l2=0.25)
    for n in order:
        samples = draw_samples(np.array([n]), pools, seeds, number=3, epsilon=4, n_samples=1)
        _, slope = batch_objective(w, samples, *rows[1:4], target)
        w = (w + 2.0 * slope) / 1.5
    np.testing.assert_allclose(one, w, rtol=1e-12)


def test_a_penalty_beyond_all_measure_leaves_nothing() -> None:
    tables, label = some_tables(7, n=4)
    rows = rows_of(tables, "log", mean=True)
    pools = sampling_pools(rows.offsets, label, keys(len(label)))
    w = np.ones((4, 3))
    order = np.tile(np.arange(4), 40)
    target = aim_of(label, rows.offsets)
    value = sgd_pass(w, order, pools, keys(4), 0, *rows[1:4], target, learning_rate=1.0, l2=1e6)
    assert np.isfinite(value)
    assert np.abs(w).max() < 1e-5


def test_several_draws_of_a_visit_are_shorter_steps() -> None:
    tables, label = some_tables(8, n=1)
    rows = rows_of(tables, "log", mean=True)
    pools = sampling_pools(rows.offsets, label, keys(len(label)))
    target = aim_of(label, rows.offsets)
    w = np.zeros((4, 3))
    several = w.copy()
    sgd_pass(several, np.array([0]), pools, SEED, 0, *rows[1:4], target, epsilon=4, n_samples=3, learning_rate=6.0)
    samples = draw_samples(np.array([0]), pools, SEED, epsilon=4, n_samples=3)
    for t in range(3):
        slots = samples.slot[samples.item[samples.starts[t] : samples.starts[t + 1]]]
        alone = np.full(len(label), np.nan)
        alone[slots] = label[slots]
        sgd_pass(
            w,
            np.array([0]),
            sampling_pools(rows.offsets, alone, keys(len(label))),
            SEED,
            0,
            *rows[1:4],
            target,
            learning_rate=2.0,
        )
    np.testing.assert_allclose(several, w, rtol=1e-13)


def shuffled(
    tables: list[np.ndarray], label: np.ndarray, seed: int
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """Return the instances and their items in another order, where the instances went, and the old slots."""
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *map(len, tables)])
    order = rng.permutation(len(tables))
    new, slots = [], []
    for n in order:
        turn = rng.permutation(len(tables[n]))
        new.append(tables[n][turn])
        slots.append(offsets[n] + turn)
    old = np.concatenate(slots)
    return new, label[old], order, old


@pytest.mark.parametrize("sums", ["full", "slice"])
def test_the_order_of_instances_and_items_changes_no_bit(sums: str) -> None:
    tables, label = some_tables(9, n=6)
    seeds = np.random.default_rng(1).integers(0, 2**63, 6).astype(np.uint64)
    key = np.random.default_rng(2).integers(0, 2**63, len(label)).astype(np.uint64)
    moved, moved_label, order, old = shuffled(tables, label, 3)
    found = []
    for t, lab, s, k in ((tables, label, seeds, key), (moved, moved_label, seeds[order], key[old])):
        rows = rows_of(t, "binary", mean=True)
        pools = sampling_pools(rows.offsets, lab, k)
        slices = SliceTerms(rows.source, rows.value, binary=True) if sums == "slice" else None
        w = np.zeros((4, 3))
        for number in range(3):
            visits = visit_order(np.arange(6), s, number)
            sgd_pass(w, visits, pools, s, number, *rows[1:4], aim_of(lab, rows.offsets), epsilon=5, slices=slices)
        found.append(w)
    np.testing.assert_array_equal(found[0], found[1])
    assert np.abs(found[0]).max() > 0


def test_weights_that_run_away_are_said_to() -> None:
    tables, label = some_tables(10)
    rows = rows_of(tables, "log", mean=True)
    pools = sampling_pools(rows.offsets, label, keys(len(label)))
    w = np.full((4, 3), np.inf)
    assert np.isnan(sgd_pass(w, np.arange(5), pools, keys(5), 0, *rows[1:4], aim_of(label, rows.offsets)))


def synthetic(n: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Return SPEC §12.9's instances: eight experts, the last two of which put things upside down."""
    rng = np.random.default_rng(seed)
    quality = np.array([2, 2, 1.5, 0.5, 0.5, 0, -1.5, -2])
    tables, labels = [], []
    for _ in range(n):
        m = int(rng.integers(10, 30))
        label = rng.choice([0, 0, 0, 0, 1, 1, 2], size=m).astype(float)
        label[:2] = [0, 2]
        R = np.zeros((m, 8))
        for k in range(8):
            latent = quality[k] * label + 1.5 * rng.normal(size=m)
            R[np.argsort(-latent), k] = np.sort(rng.permutation(59)[:m] + 1)
        R[rng.random(R.shape) < 0.4] = 0
        tables.append(R)
        labels.append(label)
    return tables, np.concatenate(labels)


def test_it_learns_whom_to_believe_and_whom_to_invert() -> None:
    tables, label = synthetic(60, 0)
    rows = rows_of(tables, "log", mean=True)
    pools = sampling_pools(rows.offsets, label, keys(len(label)))
    seeds, target = keys(60), aim_of(label, rows.offsets)
    w = np.zeros((8, 3))
    met = [
        sgd_pass(w, visit_order(np.arange(60), seeds, number), pools, seeds, number, *rows[1:4], target)
        for number in range(30)
    ]
    assert met[-1] > met[0] + 0.1
    trust = w[:, 1] + w[:, 2]
    assert trust[:3].min() > trust[3:6].max()
    assert trust[6:].max() < 0 < trust[:3].min()


def test_gains_of_labels() -> None:
    label, offsets = np.array([0.0, 2.5, np.nan, 1200.0, 1199.0, 0.0]), np.array([0, 3, 3, 6])
    gain = metric_gains("ndcg", label, offsets)
    np.testing.assert_allclose(gain[:2], [0, 2**2.5 - 1])
    assert np.isnan(gain[2])
    np.testing.assert_allclose(gain[3:], [2.0**30, 2.0**29, 0])
    assert metric_gains("ap", label, offsets, rel=2.0).tolist()[:2] == [0.0, 1.0]
    np.testing.assert_allclose(metric_gains("err", label[:2], np.array([0, 2]), most=4.0), [0, (2**2.5 - 1) / 16])
    assert metric_gains("ndcg", np.zeros(0), np.array([0, 0])).tolist() == []


_PLAIN = """
import json, numpy as np
from tests.kernels.test_crf import plain
print(json.dumps(plain()))
"""


def plain() -> list[Any]:
    """Return numbers from all of the kernels."""
    tables, label = some_tables(12, n=3)
    rows = rows_of(tables, "log", mean=True)
    pools = sampling_pools(rows.offsets, label, keys(len(label)))
    out: list[Any] = []
    for metric in ("ndcg", "err", "kendall"):
        for slices in (None, SliceTerms(rows.source, rows.value)):
            w = np.full((4, 3), 0.1)
            target = aim_of(label, rows.offsets, metric)
            seeds = keys(3) + np.uint64(2**63)
            met = sgd_pass(w, np.arange(3), pools, seeds, 1, *rows[1:4], target, epsilon=4, l2=0.1, slices=slices)
            samples = draw_samples(np.arange(3), pools, seeds, epsilon=4, n_samples=2)
            args: tuple[Any, ...] = (samples, *rows[1:4])
            value, slope = batch_objective(w, *(slice_rows(*args, slices) if slices else args), target)
            out.append([met, w.tolist(), value, slope.tolist(), samples.slot.tolist()])
    return out


def test_plain_python_gives_the_same() -> None:
    env = {**os.environ, "CONCORDANT_NO_JIT": "1", "PYTHONWARNINGS": "error"}
    run = subprocess.run([sys.executable, "-c", _PLAIN], capture_output=True, text=True, env=env, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    for a, b in zip(json.loads(run.stdout), plain(), strict=True):
        assert a[4] == b[4]
        for x, y in zip(a[:4], b[:4], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-15)


def test_pools_are_what_their_name_says() -> None:
    label = np.array([1.0, 0.0, 1.0, np.nan, 5.0, 5.0])
    pools = sampling_pools(np.array([0, 4, 6]), label, np.array([3, 2, 1, 0, 9, 8], dtype=np.uint64))
    assert isinstance(pools, SamplingPools)
    assert pools.slot.tolist() == [1, 2, 0, 5, 4]
    assert pools.group.tolist() == [0, 1, 3, 5]
    assert pools.starts.tolist() == [0, 2, 3]
