"""Bradley-Terry with covariates of the vote: collapsed rows, and the log-likelihood with its derivatives in one pass.

The logit of a row is s_left − s_right + side + x β + offset. Votes of a pair with equal covariates are one row. The
information of the scores is a sum over pairs, so that Newton systems are those of pair counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from concordant.arrays import Codes, Floats, Ints, read_only
from concordant.kernels.bradley_terry import PLAIN, Shared, _terms
from concordant.kernels.jit import jit
from concordant.kernels.pair_counts import Pairs

# So many rows are evaluated side by side.
_LANES = 64
# Rows of which a covariate is looked at to see whether it is continuous.
_SAMPLE = 5000

__all__ = [
    "VoteRows",
    "collapse_votes",
    "evaluate_votes",
    "habit_cross",
    "habit_pass",
    "root_mean_squares",
    "vote_gradients",
]


class VoteRows(NamedTuple):
    """Votes with covariates, one row per pair, side and values of the covariates, instance by instance.

    Attributes
    ----------
    left, right : int32[Q]
        The slots.
    n_left, n_right, n_ties : float64[Q]
        How often left won, right won, and neither.
    x : float64[Q, 1 + k]
        A column of ones for the side effect, and the covariates as left minus right.
    offset : float64[Q]
        A part of the logit that is held fixed.
    pair : int64[Q]
        The pair of each row.
    starts : int64[N + 1]
        Where the rows of each instance begin.
    pairs : Pairs
        The counts of the pairs, sides merged.
    """

    left: Codes
    right: Codes
    n_left: Floats
    n_right: Floats
    n_ties: Floats
    x: Floats
    offset: Floats
    pair: Ints
    starts: Ints
    pairs: Pairs

    @property
    def offsets(self) -> Ints:
        """Where the slots of each instance begin."""
        return self.pairs.offsets

    @property
    def n_slots(self) -> int:
        """How many slots there are."""
        return self.pairs.n_slots

    def window(self, instance: int) -> VoteRows:
        """Return the rows of one instance, slots counted from 0."""
        if len(self.offsets) == 2:
            return self
        rows = slice(int(self.starts[instance]), int(self.starts[instance + 1]))
        base, first = np.int32(self.offsets[instance]), int(self.pairs.starts[instance])
        return VoteRows(
            self.left[rows] - base,
            self.right[rows] - base,
            self.n_left[rows],
            self.n_right[rows],
            self.n_ties[rows],
            self.x[rows],
            self.offset[rows],
            self.pair[rows] - first,
            self.starts[instance : instance + 2] - self.starts[instance],
            self.pairs.window(instance),
        )

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns that the compiled loops take: left, right, and the counts of the three outcomes."""
        return read_only(*self[:5])


@jit
def _mixed(value: Any) -> Any:
    """Return a hash of 64 bits (splitmix64)."""
    z = value + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@jit
def _row_keys(left: Any, right: Any, bits: Any, n_slots: int, room: int, out: Any) -> None:
    """Write for each row its pair, and a hash of `room` bits of its sides and covariates below it."""
    for r in range(len(left)):
        i, j = left[r], right[r]
        low, high = min(i, j), max(i, j)
        h = np.uint64(1 if i > j else 0)
        for c in range(bits.shape[1]):
            h = _mixed(h ^ bits[r, c])
        pair = np.uint64(low) * np.uint64(n_slots) + np.uint64(high)
        out[r] = (pair << np.uint64(room)) | (h >> np.uint64(64 - room)) if room > 0 else pair


@jit
def _group_rows(left: Any, right: Any, counts: Any, x: Any, order: Any, first: Any, group: Any, total: Any) -> int:
    """Merge neighbours in the order that are equal; write first rows, the group of each row, and sums of counts."""
    n = -1
    for place in range(len(order)):
        r = order[place]
        same = n >= 0
        if same:
            f = first[n]
            same = left[r] == left[f] and right[r] == right[f]
            c = 0
            while same and c < x.shape[1]:
                same = x[r, c] == x[f, c]
                c += 1
        if not same:
            n += 1
            first[n] = r
            for k in range(3):
                total[k, n] = 0.0
        group[r] = n
        for k in range(3):
            total[k, n] += counts[k, r]
    return n + 1


@jit
def root_mean_squares(x: Any, n: Any) -> tuple[Any, Any]:
    """Return the largest absolute value of every column, and its root mean square over it, where row r counts n[r]."""
    k = x.shape[1]
    largest, squares = np.zeros(k), np.zeros(k)
    for r in range(len(n)):
        if n[r] > 0.0:
            for c in range(k):
                largest[c] = max(largest[c], abs(x[r, c]))
    total = 0.0
    for r in range(len(n)):
        total += n[r]
        for c in range(k):
            part = x[r, c] / largest[c] if n[r] > 0.0 and largest[c] > 0.0 else 0.0
            squares[c] += n[r] * part * part
    return largest, np.sqrt(squares / max(total, 1e-300))


def collapse_votes(
    left: Codes,
    right: Codes,
    counts: tuple[Floats, Floats, Floats],
    x: Floats,
    pairs: Pairs,
    *,
    unit: Floats,
    sided: bool,
    apart: Codes | None = None,
) -> tuple[VoteRows, Ints]:
    """Return votes collapsed to one row per pair, side and covariates, and the row of each vote (−1 without outcome).

    Parameters
    ----------
    left, right : int32[R]
        The slots.
    counts : three of float64[R]
        Wins of the left item, wins of the right one, and ties.
    x : float64[R, k]
        The covariates.
    unit : float64[k]
        What they are divided by.
    pairs : Pairs
        The counts of the pairs of these votes, sides merged.
    sided : bool
        Whether sides matter; otherwise the smaller slot comes to the left in votes that are merged.
    apart : int32[R], optional
        What else votes must share to be one row, such as the expert.

    Notes
    -----
    One sort by pair and a hash of the covariates, then a pass over the votes. Where a covariate is continuous, no two
    votes are alike, and the votes stay as they are.
    """
    row_of = np.full(len(left), -1, dtype=np.int64)
    n_left, n_right, n_ties = counts
    held = np.flatnonzero(n_left + n_right + n_ties > 0)
    if len(held) < len(left):
        left, right, x = left[held], right[held], x[held]
        n_left, n_right, n_ties = n_left[held], n_right[held], n_ties[held]
        apart = None if apart is None else apart[held]
    if _is_continuous(x):
        row_of[held] = np.arange(len(held))
    else:
        flip = (left > right) & (not sided)
        left, right = np.where(flip, right, left), np.where(flip, left, right)
        table = np.stack([np.where(flip, n_right, n_left), np.where(flip, n_left, n_right), n_ties])
        x = np.where(flip[:, None], -x, x)
        first, row_of[held], total = _distinct_rows(left, right, table, x, apart, pairs.n_slots)
        left, right, x = left[first], right[first], x[first]
        n_left, n_right, n_ties = total
    design = np.empty((len(left), 1 + x.shape[1]))
    design[:, 0] = 1.0
    np.divide(x, unit, out=design[:, 1:])
    pair = _pair_of_rows(left, right, pairs)
    missing = pair < 0
    if missing.any():
        pair = np.maximum(pair, 0)
        # A pair whose counts vanish beside those of others is none.
        n_left, n_right, n_ties = (np.where(missing, 0.0, c) for c in (n_left, n_right, n_ties))
    starts = np.searchsorted(pair, pairs.starts) if len(pairs.starts) > 2 else np.array([0, len(pair)])
    ends = left.astype(np.int32, copy=False), right.astype(np.int32, copy=False)
    return VoteRows(*ends, n_left, n_right, n_ties, design, np.zeros(len(pair)), pair, starts, pairs), row_of


def _pair_of_rows(left: Codes, right: Codes, pairs: Pairs) -> Ints:
    """Return the place of every row's pair among the pairs, -1 where it is not among them."""
    n = max(pairs.n_slots, 1)
    known = pairs.left.astype(np.int64) * n + pairs.right
    own = np.minimum(left, right) * np.int64(n) + np.maximum(left, right)
    if n * n <= 4 * len(own):
        # Few items: a table is faster than a search for each row.
        table = np.full(n * n, -1, dtype=np.int64)
        table[known] = np.arange(len(known))
        out: Ints = table[own]
        return out
    if not len(known):
        return np.full(len(own), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(known, own), len(known) - 1)
    return np.where(known[place] == own, place, -1)


def _is_continuous(x: Floats) -> bool:
    """Return whether practically all values of some column differ, in a sample of the rows."""
    sample = x[:: max(len(x) // _SAMPLE, 1)]
    return any(len(np.unique(np.abs(column))) > 0.95 * len(column) for column in sample.T) and len(x) > _SAMPLE


def _distinct_rows(
    left: Codes, right: Codes, counts: Floats, x: Floats, apart: Codes | None, n_slots: int
) -> tuple[Ints, Ints, Floats]:
    """Return the first vote of each distinct row, ordered by pair, the row of each vote, and sums of the counts."""
    # Adding 0 makes −0 and 0 the same bits.
    x = np.ascontiguousarray((x if apart is None else np.column_stack([x, apart])) + 0.0)
    n = max(n_slots, 1)
    room = 64 - (n * n - 1).bit_length() if n > 1 else 63
    key = np.empty(len(left), dtype=np.uint64)
    _row_keys(left, right, x.view(np.uint64), n, room, key)
    order = np.argsort(key, kind="stable")
    first, group = np.empty(len(left), dtype=np.int64), np.empty(len(left), dtype=np.int64)
    total = np.empty((3, len(left)))
    found = _group_rows(left, right, counts, x, order, first, group, total)
    return first[:found], group, total[:, :found]


@jit
def _add_product(x: Any, y: Any, out: Any) -> None:
    for k in range(_LANES):
        out[k] += x[k] * y[k]


@jit
def _plain_terms(gap: Any, n_left: Any, n_right: Any, gradient: Any, information: Any) -> float:
    """Do as `_terms` without ties for at most 64 rows; return the log-likelihood.

    The logarithm of a product is that of its factors, which lie between 1 and 2: single votes share one.
    """
    value, product = 0.0, 1.0
    for k in range(len(n_left)):
        a, b = n_left[k], n_right[k]
        e = np.exp(-abs(gap[k]))
        u = 1.0 / (1.0 + e)
        v = e * u
        p, q = (u, v) if gap[k] >= 0.0 else (v, u)
        gradient[k] = a * q - b * p
        information[k] = (a + b) * p * q
        value += a * min(gap[k], 0.0) + b * min(-gap[k], 0.0)
        if a + b == 1.0:
            product *= 1.0 + e
        else:
            value -= (a + b) * np.log(1.0 + e)
    return float(value - np.log(product))


@jit
def evaluate_votes(
    rows: Any,
    x: Any,
    offset: Any,
    pair: Any,
    s: Any,
    tie: float,
    theta: Any,
    model: int,
    sided: bool,
    gradient: Any,
    weight: Any,
    shared_gradient: Any,
    information: Any,
    cross_information: Any,
) -> float:
    """Return the log-likelihood, and add up its derivatives in the scores and the shared parameters.

    `theta` holds the side effect and the coefficients. `weight` takes the information of each pair; the other arrays
    have a place for the tie parameter, the side effect and each coefficient, the last one a row for each slot. Without
    `sided` nothing is added up for the side effect.

    Rows are taken in blocks. The sums over covariates have one lane for every place in a block, so that they run side
    by side in one processor instruction; those by item are added up first over rows of one pair that lie together.
    """
    left, right, n_left, n_right, n_ties = rows
    d, begin = len(theta), 0 if sided else 1
    z, wz = np.zeros((d, _LANES)), np.zeros((d, _LANES))
    gap, g, w, c = np.zeros(_LANES), np.zeros(_LANES), np.zeros(_LANES), np.zeros(_LANES)
    of_x, of_tie, of_products = np.zeros((d, _LANES)), np.zeros((d, _LANES)), np.zeros((d, d, _LANES))
    value = 0.0
    for first in range(0, len(left), _LANES):
        size = min(_LANES, len(left) - first)
        for k in range(size):
            gap[k] = s[left[first + k]] - s[right[first + k]] + offset[first + k]
        for a in range(begin, d):
            za, coefficient = z[a], theta[a]
            for k in range(size):
                za[k] = x[first + k, a]
            for k in range(_LANES):
                gap[k] += coefficient * za[k]
        if model == PLAIN:
            part = slice(first, first + size)
            value += _plain_terms(gap, n_left[part], n_right[part], g, w)
        else:
            for k in range(size):
                r = first + k
                f, g[k], w[k], gt, c[k], h = _terms(gap[k], n_left[r], n_right[r], n_ties[r], tie, model)
                value += f
                shared_gradient[0] += gt
                information[0, 0] += h
        for k in range(size, _LANES):
            g[k] = w[k] = c[k] = 0.0
        for a in range(begin, d):
            za, wza = z[a], wz[a]
            _add_product(g, za, of_x[a])
            for k in range(_LANES):
                wza[k] = w[k] * za[k]
            if model > 0:
                _add_product(c, za, of_tie[a])
            for b in range(begin, a + 1):
                _add_product(wza, z[b], of_products[a, b])
        k = 0
        while k < size:
            start, i, j, p = k, left[first + k], right[first + k], pair[first + k]
            of_gap = of_weight = of_cross = 0.0
            while k < size and pair[first + k] == p and left[first + k] == i:
                of_gap += g[k]
                of_weight += w[k]
                of_cross += c[k]
                k += 1
            gradient[i] += of_gap
            gradient[j] -= of_gap
            weight[p] += of_weight
            cross_information[i, 0] += of_cross
            cross_information[j, 0] -= of_cross
            for a in range(begin, d):
                total = 0.0
                for q in range(start, k):
                    total += wz[a, q]
                cross_information[i, 1 + a] += total
                cross_information[j, 1 + a] -= total
    for a in range(begin, d):
        shared_gradient[1 + a] += of_x[a].sum()
        information[0, 1 + a] += of_tie[a].sum()
        for b in range(begin, a + 1):
            information[1 + b, 1 + a] += of_products[a, b].sum()
    for a in range(1 + d):
        for b in range(a):
            information[a, b] = information[b, a]
    return value


@jit
def _vote_gradients(
    rows: Any,
    x: Any,
    offset: Any,
    cluster: Any,
    ends: Any,
    base: int,
    m: int,
    s: Any,
    tie: float,
    theta: Any,
    model: int,
    out: Any,
    information: Any,
) -> None:
    """Add the gradient of every row (scores, tie, side, coefficients) and its information to those of its cluster."""
    left, right, n_left, n_right, n_ties = rows
    d = len(theta)
    for r in range(ends[0], ends[1]):
        i, j, k = left[r], right[r], cluster[r - ends[0]]
        gap = s[i] - s[j] + offset[r] + theta[0]
        for a in range(1, d):
            gap += x[r, a - 1] * theta[a]
        _, g, w, gt, _, _ = _terms(gap, n_left[r], n_right[r], n_ties[r], tie, model)
        out[k, i - base] += g
        out[k, j - base] -= g
        out[k, m] += gt
        out[k, m + 1] += g
        for a in range(1, d):
            out[k, m + 1 + a] += g * x[r, a - 1]
        information[k, i - base] += w
        information[k, j - base] += w


def vote_gradients(
    rows: tuple[Codes, Codes, Floats, Floats, Floats],
    x: Floats,
    offset: Floats,
    cluster: Codes,
    ends: tuple[int, int],
    slots: tuple[int, int],
    n_clusters: int,
    score: Floats,
    shared: Shared,
    learned: Ints,
) -> tuple[Floats, Floats]:
    """Do as `bradley_terry.row_gradients` for votes with covariates `x` and an offset, one row for each vote."""
    base, m = slots[0], slots[1] - slots[0]
    theta = np.array([shared.side, *shared.beta])
    out, information = np.zeros((n_clusters, m + 1 + len(theta))), np.zeros((n_clusters, m))
    columns = read_only(*rows)
    _vote_gradients(
        columns, x, offset, cluster, ends, base, m, score, shared.tie, theta, shared.model, out, information
    )
    return out[:, np.concatenate([np.arange(m), m + learned])], information


@jit
def habit_pass(
    rows: Any,
    gap: Any,
    h: Any,
    expert: Any,
    u: Any,
    tie: float,
    model: int,
    value: Any,
    gradient: Any,
    information: Any,
) -> None:
    """Add up for every expert the log-likelihood at the habits `u`, its gradient along them, and its information.

    `gap` is the logit of each row without habits, `h` what each habit adds to it per unit.
    """
    _, _, n_left, n_right, n_ties = rows
    f = h.shape[1]
    for r in range(len(gap)):
        k = expert[r]
        z = gap[r]
        for a in range(f):
            z += h[r, a] * u[k, a]
        v, g, w, _, _, _ = _terms(z, n_left[r], n_right[r], n_ties[r], tie, model)
        value[k] += v
        for a in range(f):
            if h[r, a] != 0.0:
                gradient[k, a] += g * h[r, a]
                for b in range(f):
                    information[k, a, b] += w * h[r, a] * h[r, b]


@jit
def habit_cross(
    rows: Any,
    x: Any,
    gap: Any,
    h: Any,
    expert: Any,
    experts: Any,
    base: int,
    m: int,
    tie: float,
    model: int,
    out: Any,
) -> None:
    """Add up for the experts from experts[0] to experts[1] the information between habits and other parameters.

    Those are the scores of the slots from `base` to `base + m`, the tie parameter, the side effect and coefficients.
    `gap` is the whole logit.
    """
    left, right, n_left, n_right, n_ties = rows
    for r in range(len(gap)):
        k = expert[r] - experts[0]
        i, j = left[r] - base, right[r] - base
        if expert[r] < experts[0] or expert[r] >= experts[1] or i < 0 or i >= m:
            continue
        _, _, w, _, c, _ = _terms(gap[r], n_left[r], n_right[r], n_ties[r], tie, model)
        for a in range(h.shape[1]):
            if h[r, a] == 0.0:
                continue
            out[k, a, i] += w * h[r, a]
            out[k, a, j] -= w * h[r, a]
            out[k, a, m] += c * h[r, a]
            for b in range(x.shape[1]):
                out[k, a, m + 1 + b] += w * h[r, a] * x[r, b]
