"""Learning a CRF from small draws: a few items of an instance, the exact gradient of their expected metric, one step.

Potentials are linear in sparse rows: f of a slot is the sum over its rows of X[row] . w[block[row]]. A visit draws at
most ε of the judged items of an instance, every label among them, and maximises the exact expected metric of their
potentials. Draws depend on the seed of the instance and the number of the pass only, so that neither the order of the
instances nor of their items matters; the same draws kept fixed give an objective for a full-batch solver.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Floats, Ints
from concordant.kernels.jit import jit
from concordant.kernels.lists import offsets_of
from concordant.kernels.permutation_dp import expected, workspace_for
from concordant.kernels.random_draws import hash_state, uniform_below
from concordant.kernels.splitmix64 import STEP, hashed

__all__ = [
    "MetricTarget",
    "SamplingPools",
    "Samples",
    "SliceTerms",
    "batch_objective",
    "draw_samples",
    "metric_gains",
    "grids_of",
    "sampling_pools",
    "sgd_pass",
    "slice_rows",
    "visit_order",
]

Seeds = NDArray[np.uint64]


class SamplingPools(NamedTuple):
    """The items one may draw: judged slots of every instance in an order that depends on what is said, not on input.

    Attributes
    ----------
    slot : int64[P]
        Slots with a label, by instance, then label, then key.
    group : int64[G + 1]
        Where in `slot` the runs of equal labels begin.
    starts : int64[N + 1]
        The runs of each instance.
    """

    slot: Ints
    group: Ints
    starts: Ints


class MetricTarget(NamedTuple):
    """The objective: a metric code of `permutation_dp`, its cutoff (0 = none), gains and labels by slot, and the scale.

    With `paper` the energy of a sample of m items carries 1 / m², else 1. Gains may be of any size: they are not looked
    at where the label is NaN.
    """

    metric: int
    cutoff: int
    gain: Floats
    label: Floats
    paper: bool = False


class SliceTerms(NamedTuple):
    """What sums over the drawn items only are made of, row by row.

    Attributes
    ----------
    source : int64[R]
        The list of every row. Rows of a slot are sorted by (block, source), and a list holds a slot once.
    value : float64[R]
        What a list's comparisons are differences of, smaller is better, already over the normaliser of the full list.
    binary : bool
        Whether a comparison counts 1 instead of the difference.
    below : bool
        Whether a list puts the items it leaves out below those it holds, by 1.
    mean : bool
        Whether sums are divided by the number of drawn items.
    """

    source: Ints
    value: Floats
    binary: bool = False
    below: bool = False
    mean: bool = True


class Samples(NamedTuple):
    """Draws that stay fixed, for a full-batch solver.

    Attributes
    ----------
    starts : int64[T + 1], item : int64[...]
        Sample t holds the numbers item[starts[t]:starts[t + 1]] of entries of `slot`.
    slot : int64[U], row_slot : int64[U]
        The slots drawn, those of an instance together, and under which slot number their rows are found.
    sample_starts, slot_starts : int64[I + 1]
        The samples and the entries of `slot` of each of the I instances that were drawn from.
    weight : float64[T]
        1 / samples of the same instance.
    """

    starts: Ints
    item: Ints
    slot: Ints
    row_slot: Ints
    sample_starts: Ints
    slot_starts: Ints
    weight: Floats


def metric_gains(metric: str, label: Floats, offsets: Ints, *, rel: float = 1.0, most: float | None = None) -> Floats:
    """Return the gains of a `MetricTarget` for a metric of `permutation_dp.METRICS`; NaN stays NaN.

    "ndcg": 2^label − 1; in an instance with labels above 30 all of its gains are divided by the same power of 2, which
    changes no NDCG and keeps them finite. "err": (2^label − 1) / 2^most, with the largest label for `most` unless
    given. Others: 1 where the label is at least `rel`, else 0.

    >>> metric_gains("ndcg", np.array([2.0, 0.0, np.nan]), np.array([0, 3])).tolist()
    [3.0, 0.0, nan]
    >>> metric_gains("err", np.array([2.0, 0.0]), np.array([0, 2])).tolist()
    [0.75, 0.0]
    """
    if metric == "ndcg":
        lengths = np.diff(offsets)
        top = np.zeros(len(lengths))
        full = lengths > 0
        top[full] = np.fmax.reduceat(label, offsets[:-1][full]) if len(label) else 0.0
        over = np.repeat(np.fmax(top - 30.0, 0.0), lengths)
        gain: Floats = np.exp2(label - over) - np.exp2(-over)
    elif metric == "err":
        known = label[~np.isnan(label)]
        base = float(known.max(initial=0.0)) if most is None else most
        gain = np.exp2(label - base) - np.exp2(-base)
    else:
        gain = np.where(np.isnan(label), np.nan, (label >= rel).astype(np.float64))
    return gain


def sampling_pools(offsets: Ints, label: Floats, key: NDArray[np.uint64]) -> SamplingPools:
    """Return the slots whose label is not NaN, sorted by (instance, label, key), and their runs of equal labels.

    >>> label = np.array([1.0, 0.0, np.nan, 1.0, 2.0])
    >>> sampling_pools(np.array([0, 4, 5]), label, np.array([9, 1, 1, 4, 0], dtype=np.uint64))
    SamplingPools(slot=array([1, 3, 0, 4]), group=array([0, 1, 3, 4]), starts=array([0, 2, 3]))
    """
    slot = np.flatnonzero(~np.isnan(label))
    instance = np.searchsorted(offsets, slot, side="right") - 1
    order = np.lexsort((slot, key[slot], label[slot], instance))
    slot, instance = slot[order], instance[order]
    new = np.ones(len(slot), dtype=np.bool_)
    new[1:] = (np.diff(label[slot]) != 0) | (np.diff(instance) != 0)
    first = np.flatnonzero(new)
    starts = offsets_of(np.bincount(instance[first], minlength=len(offsets) - 1))
    return SamplingPools(slot.astype(np.int64), np.append(first, len(slot)).astype(np.int64), starts)


def visit_order(instances: Ints, seeds: Seeds, number: int) -> Ints:
    """Return the instances in the random order of pass `number`, the same whatever order they are given in.

    >>> seeds, one_way, other_way = np.arange(5, dtype=np.uint64), np.arange(5), np.arange(5)[::-1]
    >>> (visit_order(one_way, seeds, 0) == visit_order(other_way, seeds, 0)).all()
    np.True_
    """
    # The complement of the number: draws are made from the number itself.
    x = hashed(seeds[instances] ^ ~_turn(number))
    out: Ints = instances[np.lexsort((seeds[instances], x))]
    return out


def _turn(number: int) -> np.uint64:
    """Return what is mixed into the seeds in pass `number`."""
    return np.uint64(hashed(np.array([number], dtype=np.uint64))[0])


@jit
def _draw(
    slot: Ints, group: Ints, first: int, last: int, epsilon: int, state: np.uint64, item: Ints
) -> tuple[int, np.uint64]:
    """Write at most epsilon different slots of the runs first..last − 1; return how many, and the next state.

    One of every run, chosen evenly, then the rest evenly from what is left. More runs than epsilon: as many different
    runs, chosen evenly. The slots are written in the order of the pool. O(epsilon²), however many there are.
    """
    a, b = group[first], group[last]
    if b - a <= epsilon:
        for k in range(b - a):
            item[k] = slot[a + k]
        return b - a, state
    runs = last - first
    for k in range(epsilon):
        while True:
            if k < runs <= epsilon:
                run = first + k
            elif k < runs:
                state += STEP
                run = first + uniform_below(state, runs)
            else:
                run = -1
            state += STEP
            if run >= 0:
                at = group[run] + uniform_below(state, group[run + 1] - group[run])
            else:
                at = a + uniform_below(state, b - a)
            known = False
            for i in range(k):
                known |= item[i] == at or (runs > epsilon and group[run] <= item[i] < group[run + 1])
            if not known:
                break
        # Kept sorted: sums over the draw are then the same whatever order it came in.
        i = k
        while i > 0 and item[i - 1] > at:
            item[i] = item[i - 1]
            i -= 1
        item[i] = at
    for k in range(epsilon):
        item[k] = slot[item[k]]
    return epsilon, state


@jit
def _slice(
    starts: Ints,
    block: Codes,
    X: Floats,
    source: Ints,
    value: Floats,
    item: Ints,
    m: int,
    binary: bool,
    below: bool,
    mean: bool,
    place: Ints,
    out: Floats,
) -> None:
    """Write (−1, row, −col) times the list's weight for the rows of the m drawn items, sums over drawn items only.

    `below`: a listed item also stands above the drawn items its list leaves out, and no longer below those it holds.
    O(m · rows of the drawn items): rows of a slot are sorted, so that those of other slots are met in passing.
    """
    share = 1.0 / m if mean else 1.0
    at = 0
    for i in range(m):
        for k in range(m):
            place[k] = starts[item[k]]
        for r in range(starts[item[i]], starts[item[i] + 1]):
            up = 0.0
            down = 0.0
            seen = 0
            for k in range(m):
                q, end = place[k], starts[item[k] + 1]
                while q < end and (block[q] < block[r] or (block[q] == block[r] and source[q] < source[r])):
                    q += 1
                place[k] = q
                if q < end and source[q] == source[r]:
                    seen += 1
                    apart = value[q] - value[r]
                    if apart > 0.0:
                        up += 1.0 if binary else apart
                    elif apart < 0.0:
                        down += 1.0 if binary else -apart
            if below:
                up += m - seen
                down -= seen
            # The first number of a row is −1 times the weight of its list.
            out[at, 0] = X[r, 0]
            out[at, 1] = -X[r, 0] * up * share
            out[at, 2] = X[r, 0] * down * share
            at += 1


@jit
def _sgd_pass(
    w: Floats,
    order: Ints,
    slot: Ints,
    group: Ints,
    runs: Ints,
    seeds: Seeds,
    turn: np.uint64,
    starts: Ints,
    block: Codes,
    X: Floats,
    sliced: bool,
    source: Ints,
    value: Floats,
    binary: bool,
    below: bool,
    mean: bool,
    metric: int,
    cutoff: int,
    gain: Floats,
    label: Floats,
    paper: bool,
    epsilon: int,
    n_samples: int,
    step: float,
    shrink: float,
    item: Ints,
    place: Ints,
    desk: Floats,
    rows: Floats,
    sets: Floats,
    sums: Floats,
    small: Floats,
) -> float:
    d = w.shape[1]
    f = desk[0]
    gains = desk[1]
    labels = desk[2]
    grad = desk[3]
    total = 0.0
    # The weights are `size` times w, so that all of them shrink at the price of one.
    size = 1.0
    for at in range(len(order)):
        n = order[at]
        state = hash_state(seeds[n] ^ turn)
        for _ in range(n_samples):
            m, state = _draw(slot, group, runs[n], runs[n + 1], epsilon, state, item)
            if sliced:
                _slice(starts, block, X, source, value, item, m, binary, below, mean, place, rows)
            q = 0
            for i in range(m):
                s = item[i]
                gains[i] = gain[s]
                labels[i] = label[s]
                total_i = 0.0
                for r in range(starts[s], starts[s + 1]):
                    b = block[r]
                    if sliced:
                        for c in range(d):
                            total_i += rows[q, c] * w[b, c]
                        q += 1
                    else:
                        for c in range(d):
                            total_i += X[r, c] * w[b, c]
                f[i] = total_i * size
            scale = 1.0 / float(m * m) if paper else 1.0
            met = expected(m, f, scale, metric, gains, labels, cutoff, grad, sets, sums, small)
            if not math.isfinite(met):
                return math.nan
            total += met
            q = 0
            for i in range(m):
                s = item[i]
                lam = grad[i] * step / size
                for r in range(starts[s], starts[s + 1]):
                    b = block[r]
                    if sliced:
                        for c in range(d):
                            w[b, c] += lam * rows[q, c]
                        q += 1
                    else:
                        for c in range(d):
                            w[b, c] += lam * X[r, c]
            size *= shrink
            if size < 1e-100:
                w *= size
                size = 1.0
    if size != 1.0:
        w *= size
    return total / max(1, len(order) * n_samples)


def sgd_pass(
    w: Floats,
    order: Ints,
    pools: SamplingPools,
    seeds: Seeds,
    number: int,
    starts: Ints,
    block: Codes,
    X: Floats,
    target: MetricTarget,
    *,
    epsilon: int = 6,
    n_samples: int = 1,
    learning_rate: float = 5.0,
    l2: float = 0.0,
    slices: SliceTerms | None = None,
) -> float:
    """Change w in place by one pass of plain stochastic ascent; return the mean expected metric met on the way.

    Each visit draws min(epsilon, judged items) items and sets w to (w + η gradient) / (1 + η l2): ascent on the
    expected metric less l2 / 2 · |w|², the penalty taken implicitly so that it is stable for any rate. Only the
    weights of experts that rank a drawn item are touched. Cost per visit O(2^ε ε + rows of the drawn items), whatever
    the size of the instance.

    Parameters
    ----------
    w : float64[n_blocks, d]
        Changed in place. If the potentials stop being finite, NaN is returned at once and w is of no use.
    order : int64
        The instances to visit, in this order (see `visit_order`).
    pools : SamplingPools
        What may be drawn.
    seeds : uint64[N]
        One per instance, from its id.
    number : int
        The number of the pass: other draws every time.
    starts, block, X : int64[S + 1], int32[R], float64[R, d]
        The rows of every slot.
    target : MetricTarget
        What is maximised.
    epsilon, n_samples : int
        The most items of a draw (at most 16), and draws per visit, each a step of learning_rate / n_samples.
    learning_rate, l2 : float
        η and the penalty.
    slices : SliceTerms, optional
        Take row and column sums over the drawn items only; of X only the weights of the lists are then used, and d = 3.
    """
    step = learning_rate / n_samples
    most = _most_rows(starts, pools.slot) * epsilon if slices is not None else 0
    use = slices if slices is not None else SliceTerms(np.empty(0, dtype=np.int64), np.empty(0))
    with np.errstate(over="ignore"):
        return float(
            _sgd_pass(
                w,
                order,
                *pools,
                seeds,
                np.uint64(hash_state(np.uint64(number))),
                starts,
                block,
                X,
                slices is not None,
                use.source,
                use.value,
                use.binary,
                use.below,
                use.mean,
                target.metric,
                target.cutoff,
                target.gain,
                target.label,
                target.paper,
                epsilon,
                n_samples,
                step,
                1.0 / (1.0 + step * l2),
                np.empty(epsilon, dtype=np.int64),
                np.empty(epsilon, dtype=np.int64),
                np.empty((4, epsilon)),
                np.empty((most, 3)),
                *workspace_for(epsilon),
            )
        )


def _most_rows(starts: Ints, slot: Ints) -> int:
    return int((starts[slot + 1] - starts[slot]).max(initial=0))


@jit
def _draw_many(
    instances: Ints,
    slot: Ints,
    group: Ints,
    runs: Ints,
    seeds: Seeds,
    turn: np.uint64,
    epsilon: int,
    n_samples: int,
    lengths: Ints,
    item: Ints,
) -> None:
    t = 0
    for at in range(len(instances)):
        n = instances[at]
        state = hash_state(seeds[n] ^ turn)
        # Where all items fit there is only one draw.
        draws = 1 if group[runs[n + 1]] - group[runs[n]] <= epsilon else n_samples
        for _ in range(draws):
            m, state = _draw(slot, group, runs[n], runs[n + 1], epsilon, state, item[t])
            lengths[t] = m
            t += 1


def draw_samples(
    instances: Ints, pools: SamplingPools, seeds: Seeds, *, number: int = 0, epsilon: int = 6, n_samples: int = 16
) -> Samples:
    """Return n_samples draws of every instance, as a visit of pass `number` would draw them; one where all items fit.

    >>> pools = sampling_pools(np.array([0, 3]), np.array([1.0, 0.0, 0.0]), np.arange(3, dtype=np.uint64))
    >>> s = draw_samples(np.array([0]), pools, np.ones(1, dtype=np.uint64), epsilon=2, n_samples=3)
    >>> s.slot[s.item].reshape(3, 2)[:, 1].tolist(), np.diff(s.starts).tolist()
    ([0, 0, 0], [2, 2, 2])
    """
    judged = pools.group[pools.starts[instances + 1]] - pools.group[pools.starts[instances]]
    draws = np.where(judged <= epsilon, 1, n_samples)
    lengths = np.empty(int(draws.sum()), dtype=np.int64)
    item = np.empty((len(lengths), epsilon), dtype=np.int64)
    with np.errstate(over="ignore"):
        turn = np.uint64(hash_state(np.uint64(number)))
        _draw_many(instances, *pools, seeds, turn, epsilon, n_samples, lengths, item)
    sample_starts = offsets_of(draws)
    flat = item[np.arange(epsilon) < lengths[:, None]]
    # The instances were given in any order: entries are numbered by the place of their instance, then by slot.
    place = np.repeat(np.repeat(np.arange(len(instances)), draws), lengths)
    base = int(flat.max(initial=0)) + 1
    known, number_of = np.unique(place * base + flat, return_inverse=True)
    slot = known % base
    slot_starts = offsets_of(np.bincount(known // base, minlength=len(instances)))
    weight = np.repeat(1.0 / draws, draws)
    return Samples(offsets_of(lengths), number_of.astype(np.int64), slot, slot, sample_starts, slot_starts, weight)


@jit
def _slice_many(
    starts: Ints,
    block: Codes,
    X: Floats,
    source: Ints,
    value: Floats,
    bounds: Ints,
    slot: Ints,
    binary: bool,
    below: bool,
    mean: bool,
    place: Ints,
    out: Floats,
) -> None:
    at = 0
    for t in range(len(bounds) - 1):
        item = slot[bounds[t] : bounds[t + 1]]
        rows = 0
        for i in range(len(item)):
            rows += starts[item[i] + 1] - starts[item[i]]
        _slice(starts, block, X, source, value, item, len(item), binary, below, mean, place, out[at : at + rows])
        at += rows


def slice_rows(
    samples: Samples, starts: Ints, block: Codes, X: Floats, slices: SliceTerms
) -> tuple[Samples, Ints, Codes, Floats]:
    """Return the samples, every drawn item an entry of its own, with the rows that sums over each draw give.

    What is returned takes the place of samples, starts, block, X in `batch_objective`.
    """
    flat = samples.slot[samples.item]
    lengths = starts[flat + 1] - starts[flat]
    own = offsets_of(lengths)
    rows = np.repeat(starts[flat] - own[:-1], lengths) + np.arange(own[-1])
    out = np.empty((len(rows), 3))
    most = int(np.diff(samples.starts).max(initial=0))
    place = np.empty(most, dtype=np.int64)
    _slice_many(starts, block, X, slices.source, slices.value, samples.starts, flat, *slices[2:], place, out)
    each = np.arange(len(flat), dtype=np.int64)
    entries = samples.starts[samples.sample_starts]
    return samples._replace(item=each, slot=flat, row_slot=each, slot_starts=entries), own, block[rows], out


@jit
def _batch(
    w: Floats,
    bounds: Ints,
    item: Ints,
    slot: Ints,
    row_slot: Ints,
    weight: Floats,
    s0: int,
    s1: int,
    u0: int,
    u1: int,
    starts: Ints,
    block: Codes,
    X: Floats,
    metric: int,
    cutoff: int,
    gain: Floats,
    label: Floats,
    paper: bool,
    value_grid: float,
    gradient_grid: float,
    gradient: Floats,
    desk: Floats,
    sets: Floats,
    sums: Floats,
    small: Floats,
) -> float:
    d = w.shape[1]
    potential = np.empty(u1 - u0)
    score_gradient = np.zeros(u1 - u0)
    for u in range(u0, u1):
        value = 0.0
        for r in range(starts[row_slot[u]], starts[row_slot[u] + 1]):
            for c in range(d):
                value += X[r, c] * w[block[r], c]
        potential[u - u0] = value
    total = 0.0
    f = desk[0]
    gains = desk[1]
    labels = desk[2]
    grad = desk[3]
    for t in range(s0, s1):
        m = bounds[t + 1] - bounds[t]
        for i in range(m):
            u = item[bounds[t] + i]
            f[i] = potential[u - u0]
            gains[i] = gain[slot[u]]
            labels[i] = label[slot[u]]
        scale = 1.0 / float(m * m) if paper else 1.0
        # Adding and taking away rounds to the grid, on which sums are exact.
        reached = weight[t] * expected(m, f, scale, metric, gains, labels, cutoff, grad, sets, sums, small)
        total += (reached + value_grid) - value_grid
        for i in range(m):
            score_gradient[item[bounds[t] + i] - u0] += weight[t] * grad[i]
    for u in range(u0, u1):
        for r in range(starts[row_slot[u]], starts[row_slot[u] + 1]):
            for c in range(d):
                gradient[block[r], c] += (score_gradient[u - u0] * X[r, c] + gradient_grid) - gradient_grid
    return total


def grids_of(n_instances: int, largest: float) -> tuple[float, float]:
    """Return what rounds the terms of value and gradient so that their sums are exact, whatever their order.

    Parameters
    ----------
    n_instances : int
        Of how many instances terms are added up in all.
    largest : float
        The largest magnitude in X.

    Notes
    -----
    The metric of an instance is at most 1, and the gradients of its items add up to a few. Adding and taking away
    1.5 · 2^e rounds to multiples of 2^(e − 52), and sums below 2^e of such multiples are exact.
    """
    bounds = np.array([4.0 * max(n_instances, 1), 64.0 * max(n_instances, 1) * max(largest, 1e-300)])
    value, gradient = np.ldexp(1.5, np.frexp(bounds)[1]).tolist()
    return float(value), float(gradient)


def batch_objective(
    w: Floats,
    samples: Samples,
    starts: Ints,
    block: Codes,
    X: Floats,
    target: MetricTarget,
    first: int = 0,
    last: int | None = None,
    grids: tuple[float, float] = (0.0, 0.0),
) -> tuple[float, Floats]:
    """Return the sum over the samples' instances first..last − 1 of their mean expected metric, and its gradient in w.

    A solver maximises the sum over all instances over their number, less its penalty. Ranges are independent: give
    fixed ranges to threads and add the answers in order, and the number of threads changes no bit; with `grids_of` all
    instances, neither does their order nor which of them are added first.
    """
    end = len(samples.sample_starts) - 1 if last is None else last
    most = int(np.diff(samples.starts).max(initial=0))
    gradient = np.zeros_like(w)
    value = _batch(
        w,
        *samples[:4],
        samples.weight,
        samples.sample_starts[first],
        samples.sample_starts[end],
        samples.slot_starts[first],
        samples.slot_starts[end],
        starts,
        block,
        X,
        target.metric,
        target.cutoff,
        target.gain,
        target.label,
        target.paper,
        *grids,
        gradient,
        np.empty((4, most)),
        *workspace_for(most),
    )
    return float(value), gradient
