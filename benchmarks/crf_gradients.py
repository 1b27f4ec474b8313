"""Exact slopes of expected metrics: how they grow with the items drawn, and what enumerating all orders would cost.

Enumeration is written as well as NumPy allows. All orders of ε items are tabled once; the weights of all orders are one
exponential of one matrix product. What all orders gain is found by looking up the gains of their items, as any metric
can be; for NDCG and precision alone, which are linear in the gains, a second table and product does as well, and is the
quicker. Answers are compared before anything is timed, contenders take turns, and linear algebra keeps to one thread
(threads disturb each other on products this small). Run as a program it prints the study.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from measure import ROOT, run, slope
from render import table

import concordant as cc
from concordant.arrays import Floats, Ints
from concordant.features.expert_features import ExpertRows, potentials, weight_blocks
from concordant.kernels.crf import (
    MetricTarget,
    SamplingPools,
    draw_samples,
    metric_gains,
    sampling_pools,
    sgd_pass,
    visit_order,
)
from concordant.kernels.jit import jit
from concordant.kernels.permutation_dp import LARGEST, METRICS, expected, workspace_for

DATA = ROOT.parent / "shared" / "data" / "MQ2008-agg"
SIZES = tuple(range(2, LARGEST + 1))
ENUMERATED = (6, 7, 8)
EPSILON, PASSES, RATE = 6, 300, 5.0
REPEATS = 15
TARGETS = {"gradient_at_8": 300.0, "fit_at_6": 5.0}


class Orders(NamedTuple):
    """All orders of n items: the items by position, and by item what their positions weigh."""

    item: Ints
    energy: Floats
    discount: Floats


def orders_of(n: int) -> Orders:
    """Return the tables of all n! orders, one column an order: products then run along memory."""
    item = np.array(list(permutations(range(n))))
    position = np.argsort(item, axis=1).T
    return Orders(
        item, np.ascontiguousarray(1 / np.log(position + 2.0)), np.ascontiguousarray(1 / np.log2(position + 2.0))
    )


def _finish(weight: Floats, value: Floats, energy: Floats) -> tuple[float, Floats]:
    z = weight.sum()
    mean = float(weight @ value / z)
    value -= mean
    value *= weight
    return mean, energy @ value / z


def _weights(orders: Orders, f: Floats) -> Floats:
    weight = (f - f.max()) @ orders.energy
    np.exp(weight, out=weight)
    return weight


def ndcg_by_product(orders: Orders, f: Floats, gain: Floats) -> tuple[float, Floats]:
    """Return E[NDCG] and its slope, gains over their ideal: two tables, three products, one exponential."""
    return _finish(_weights(orders, f), gain @ orders.discount, orders.energy)


def ndcg_by_lookup(orders: Orders, f: Floats, gain: Floats) -> tuple[float, Floats]:
    """Return the same from the gains of all orders, position by position."""
    value = gain[orders.item] @ (1 / np.log2(np.arange(len(f)) + 2.0))
    return _finish(_weights(orders, f), value, orders.energy)


def ap_by_lookup(orders: Orders, f: Floats, relevant: Floats) -> tuple[float, Floats]:
    """Return E[AP] and its slope from the labels of all orders."""
    hits = relevant[orders.item]
    found = hits.cumsum(axis=1)
    found *= hits
    value = found @ (1 / np.arange(1.0, len(f) + 1)) / relevant.sum()
    return _finish(_weights(orders, f), value, orders.energy)


# The metric, and a way to enumerate it.
WAYS: dict[str, tuple[str, Callable[[Orders, Floats, Floats], tuple[float, Floats]]]] = {
    "NDCG by two products": ("ndcg", ndcg_by_product),
    "NDCG by look-up": ("ndcg", ndcg_by_lookup),
    "AP by look-up": ("ap", ap_by_lookup),
}


class Many(NamedTuple):
    """Random samples of equal size and what the kernel writes."""

    n: int
    starts: Ints
    f: Floats
    label: Floats
    values: Floats
    grad: Floats

    def gains(self, metric: str) -> Floats:
        """Return the gains of the samples; those of NDCG over their ideal."""
        gain = metric_gains(metric, self.label, self.starts)
        if metric == "ndcg":
            by_sample = gain.reshape(-1, self.n)
            ideal = -np.sort(-by_sample, axis=1) @ (1 / np.log2(np.arange(self.n) + 2.0))
            gain = (by_sample / ideal[:, None]).ravel()
        return gain


def _many(n: int, count: int) -> Many:
    rng = np.random.default_rng(n)
    label = rng.integers(0, 3, (count, n)).astype(np.float64)
    label[:, :2] = [2.0, 0.0]
    starts = np.arange(0, count * n + 1, n, dtype=np.int64)
    return Many(n, starts, rng.normal(size=count * n), label.ravel(), np.empty(count), np.empty(count * n))


def _best(calls: dict[str, tuple[Callable[[], Any], int]], repeats: int = REPEATS) -> dict[str, float]:
    """Return the shortest time of a unit of each call, in microseconds; calls take turns."""
    shortest = dict.fromkeys(calls, np.inf)
    for _ in range(repeats):
        for name, (call, units) in calls.items():
            started = time.perf_counter()
            call()
            shortest[name] = min(shortest[name], (time.perf_counter() - started) / units * 1e6)
    return shortest


@jit
def _batch_expected(
    starts: Ints,
    f: Floats,
    metric: int,
    gain: Floats,
    label: Floats,
    values: Floats,
    grad: Floats,
    sets: Floats,
    gains: Floats,
    small: Floats,
) -> None:
    """Fill `values` with E[G] of every sample and `grad` with the gradients in f."""
    for s in range(len(values)):
        a, b = starts[s], starts[s + 1]
        values[s] = expected(b - a, f[a:b], 1.0, metric, gain[a:b], label[a:b], 0, grad[a:b], sets, gains, small)


def _kernel(many: Many, metric: str) -> Callable[[], None]:
    gain, room = many.gains(metric), workspace_for(many.n)
    args = (many.starts, many.f, METRICS[metric], gain, many.label, many.values, many.grad)
    return lambda: _batch_expected(*args, *room)


def growth() -> dict[str, Any]:
    """Return the microseconds of a gradient for every number of items, and how they grow beside 2^ε ε."""
    micro: dict[str, dict[str, float]] = {"ndcg": {}, "ap": {}, "kendall": {}}
    for n in SIZES:
        many = _many(n, max(2, min(400, 200_000 >> n)))
        calls = {metric: (_kernel(many, metric), len(many.values)) for metric in micro}
        for call, _ in calls.values():
            call()
        for metric, took in _best(calls, REPEATS if n < 14 else 5).items():
            micro[metric][str(n)] = took
    large = [n for n in SIZES if n >= 8]
    return {
        "microseconds": micro,
        # 1: as 2^ε ε; measured from ε = 8 on, where what is done once for a sample no longer shows.
        "slope_against_edges": {
            metric: slope([2.0**n * n for n in large], [of[str(n)] for n in large]) for metric, of in micro.items()
        },
    }


def beside_enumeration() -> dict[str, Any]:
    """Return the microseconds of a gradient by sets and by enumeration, after their answers were compared."""
    out: dict[str, Any] = {}
    for n in ENUMERATED:
        orders, many = orders_of(n), _many(n, 400)
        calls: dict[str, tuple[Callable[[], Any], int]] = {}
        largest = 0.0
        for name, (metric, way) in WAYS.items():
            kernel, gain = _kernel(many, metric), many.gains(metric)
            kernel()
            for s in range(20):
                part = slice(n * s, n * s + n)
                value, grad = way(orders, many.f[part], gain[part])
                largest = max(largest, abs(value - many.values[s]), float(np.abs(grad - many.grad[part]).max()))
            calls[metric] = (kernel, 400)
            calls[name] = (lambda w=way, o=orders, m=many, g=gain, k=n: w(o, m.f[:k], g[:k]), 1)
        if largest > 1e-12:
            raise SystemExit(f"enumeration of {n} items differs by {largest}")
        took = _best(calls, 60)
        ratios = {name: took[name] / took[metric] for name, (metric, _) in WAYS.items()}
        out[str(n)] = {"microseconds": took, "ratio": ratios, "largest_difference": largest}
    return out


class Problem(NamedTuple):
    """What a fit is given."""

    rows: ExpertRows
    pools: SamplingPools
    seeds: Any
    target: MetricTarget
    instances: Ints
    n_blocks: int


def _problem() -> tuple[str, Problem]:
    """Return the training part of fold 1 of MQ2008-agg."""
    part = cc.read_letor_folds(DATA)[0].train
    votes, labels = part.preferences, part.labels
    label = labels.align(votes).label
    blocks = weight_blocks(votes)
    rows = potentials(votes, blocks, blocks.block_of_expert(votes, "the benchmark"), "log")
    pools = sampling_pools(rows.offsets, label, rows.key)
    usable = np.flatnonzero(np.diff(pools.starts) >= 2)
    target = MetricTarget(METRICS["ndcg"], 0, metric_gains("ndcg", label, rows.offsets), label)
    seeds = np.random.default_rng(0).integers(0, 2**63, len(votes)).astype(np.uint64)
    return "MQ2008-agg, fold 1, training part", Problem(rows, pools, seeds, target, usable, len(blocks))


def by_sets(p: Problem, passes: int) -> Floats:
    """Return the weights after some passes."""
    w = np.zeros((p.n_blocks, 3))
    for number in range(passes):
        order = visit_order(p.instances, p.seeds, number)
        sgd_pass(
            w, order, p.pools, p.seeds, number, p.rows.starts, p.rows.block, p.rows.X, p.target,
            epsilon=EPSILON, learning_rate=RATE,
        )  # fmt: skip
    return w


def by_enumeration(p: Problem, passes: int) -> Floats:
    """Return the same weights: the same draws, one vectorised enumeration a visit.

    The draws of a pass and their ideal gains are made for all visits at once, and the rows of an item are one dense
    vector, so that a visit is six products, an exponential and a handful of sums.
    """
    tables = {n: orders_of(n) for n in range(2, EPSILON + 1)}
    dense = np.zeros((p.rows.n_slots, p.n_blocks, 3))
    row_slot = np.repeat(np.arange(p.rows.n_slots), np.diff(p.rows.starts))
    np.add.at(dense, (row_slot, p.rows.block), p.rows.X)
    dense = dense.reshape(p.rows.n_slots, -1)
    discount = 1 / np.log2(np.arange(EPSILON) + 2.0)
    w = np.zeros(dense.shape[1])
    for number in range(passes):
        order = visit_order(p.instances, p.seeds, number)
        samples = draw_samples(order, p.pools, p.seeds, number=number, epsilon=EPSILON, n_samples=1)
        slots = samples.slot[samples.item]
        of_sample = np.repeat(np.arange(len(order)), np.diff(samples.starts))
        place = np.arange(len(slots)) - samples.starts[of_sample]
        gain = np.zeros((len(order), EPSILON))
        gain[of_sample, place] = p.target.gain[slots]
        ideal = -np.sort(-gain, axis=1) @ discount
        gain /= ideal[:, None]
        bounds = samples.starts.tolist()
        for t in range(len(order)):
            a, b = bounds[t], bounds[t + 1]
            x = dense[slots[a:b]]
            _, grad = ndcg_by_product(tables[b - a], x @ w, gain[t, : b - a])
            w += (RATE * grad) @ x
    return w.reshape(p.n_blocks, 3)


def fits() -> dict[str, Any]:
    """Return the seconds of a fit of one fold by sets and by enumeration, after their weights were compared."""
    if not DATA.is_dir():
        return {"not_available": "MQ2008-agg"}
    name, problem = _problem()
    few = [way(problem, 5) for way in (by_sets, by_enumeration)]
    difference = float(np.abs(few[0] - few[1]).max() / np.abs(few[0]).max())
    if difference > 1e-9:
        raise SystemExit(f"after five passes the weights differ by {difference}")
    took = _best(
        {
            "sets": (lambda: by_sets(problem, PASSES), 1_000_000),
            "enumeration": (lambda: by_enumeration(problem, PASSES), 1_000_000),
        },
        3,
    )
    return {
        "data": name,
        "epsilon": EPSILON,
        "passes": PASSES,
        "visits": PASSES * len(problem.instances),
        "seconds": took,
        "ratio": took["enumeration"] / took["sets"],
        "difference_after_5_passes": difference,
    }


def gradients() -> dict[str, Any]:
    """Return the whole study; the process must have been told to use one thread."""
    return {"growth": growth(), "enumeration": beside_enumeration(), "fit": fits(), "targets": TARGETS}


def study() -> dict[str, Any]:
    """Return the study, made by a process whose linear algebra keeps to one thread."""
    alone = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "VECLIB_MAXIMUM")}
    found: dict[str, Any] = json.loads(run([sys.executable, __file__], env=alone).output.splitlines()[-1])
    return found


def _short(value: float) -> str:
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def render(r: dict[str, Any]) -> str:
    """Return the study as text."""
    micro = r["growth"]["microseconds"]
    sizes = list(micro["ndcg"])
    rows = [[f"{metric}, µs", *(_short(of[n]) for n in sizes)] for metric, of in micro.items()]
    against = ", ".join(f"{metric} {s:.2f}" for metric, s in r["growth"]["slope_against_edges"].items())
    beside = [
        [
            n,
            *(_short(of["microseconds"][metric]) for metric in ("ndcg", "ap")),
            *(f"{_short(of['microseconds'][name])} ({of['ratio'][name]:,.0f} times)" for name in WAYS),
        ]
        for n, of in r["enumeration"].items()
    ]
    fit = r["fit"]
    parts = [
        "One exact gradient of the expected metric, one thread:",
        table(["", *(f"ε = {n}" for n in sizes)], rows),
        f"Slope of log time against log 2^ε ε from ε = 8 on: {against}.",
        "Compared with a vectorised enumeration of the ε! orders, µs. Tables of all orders are made once. Their "
        "weights are one exponential of one matrix product; their gains are looked up, as for any metric, or for NDCG "
        "a second product:",
        table(["ε", "NDCG", "AP", *WAYS], beside),
    ]
    if "not_available" in fit:
        parts.append(f"Not available: {fit['not_available']}.")
    else:
        seconds = fit["seconds"]
        parts.append(
            f"A fit of {fit['data']} (ε = {fit['epsilon']}, {fit['passes']} passes, {fit['visits']:,} visits): "
            f"{seconds['sets']:.2f} s, by enumeration {seconds['enumeration']:.2f} s, {fit['ratio']:.1f} times. "
            f"The draws are the same, and the weights to {fit['difference_after_5_passes']:.0e}; enumeration has dense "
            "rows and NDCG by two products."
        )
    return "\n\n".join(parts)


if __name__ == "__main__":
    print(json.dumps(gradients()))
