"""Probabilities that fitted models give to outcomes: of a pair, of a ranking, of first place and of the top k.

Plain functions of scores and parameters, without containers. The laws of rankings (`RankingLaw`) are Plackett-Luce,
Davidson-Luce and Mallows. Expected counts are compared with observed ones by `deviance_residuals`.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.errors import KindError

__all__ = [
    "DavidsonLuceLaw",
    "LuceLaw",
    "MallowsLaw",
    "OutcomeProbabilities",
    "RankingLaw",
    "davidson_law",
    "davidson_luce_shares",
    "deviance_residuals",
    "mallows_before",
    "mallows_ranks",
    "rao_kupper_law",
    "top_k_of_worths",
    "wilson_interval",
]

# Trapezoids are halved until no probability changes by more than this; the error falls to about its square.
_AGREED = 1e-7
# Terms of the integral below exp(-_NEGLIGIBLE) are left out.
_NEGLIGIBLE = 40.0
# Cells of the table of one batch of nodes.
_CELLS = 1 << 22


class OutcomeProbabilities(NamedTuple):
    """The probabilities of the outcomes of one comparison, which sum to 1: of the first item."""

    win: float
    tie: float
    loss: float


# Laws of a pair.


def davidson_law(gap: Floats, tie: Any = -np.inf) -> tuple[Floats, Floats, Floats]:
    """Return the probabilities of win, tie and loss in proportion exp(gap/2) : exp(tie) : exp(−gap/2).

    Without ties, `tie` = −inf, it is Bradley-Terry.

    >>> [round(float(p), 4) for p in davidson_law(np.log(4.0), np.log(0.5))]
    [0.6667, 0.1667, 0.1667]
    """
    logs = np.stack(np.broadcast_arrays(0.5 * np.asarray(gap), tie, -0.5 * np.asarray(gap)))
    share = np.exp(logs - logs.max(axis=0))
    win, drawn, loss = share / share.sum(axis=0)
    return win, drawn, loss


def rao_kupper_law(gap: Floats, tie: Any) -> tuple[Floats, Floats, Floats]:
    """Return the probabilities of win, tie and loss, P(win) = 1 / (1 + exp(tie − gap)), for tie = log ξ >= 0.

    >>> [round(float(p), 4) for p in rao_kupper_law(np.log(4.0), np.log(2.0))]
    [0.6667, 0.2222, 0.1111]
    """
    from scipy.special import expit

    win, loss = expit(gap - tie), expit(-np.asarray(gap) - tie)
    return win, np.expm1(2.0 * np.asarray(tie)) * win * loss, loss


# Laws of a ranking.


class RankingLaw(Protocol):
    """The law of a ranking of n items, numbered from 0."""

    def log_probability(self, blocks: Sequence[Sequence[int]]) -> float:
        """Return the log probability that a ranking begins with these blocks, best first; a block is one item or tied.

        KindError where the model has no tied blocks.
        """

    def top(self, k: int) -> Floats:
        """Return for every item the probability that it is among the first k, for 1 <= k < n."""


class LuceLaw:
    """Plackett-Luce: the next item is i with probability exp(s_i) / Σ exp(s) over the items that are left."""

    def __init__(self, score: Floats) -> None:
        self.score = score

    def log_probability(self, blocks: Sequence[Sequence[int]]) -> float:
        """Return the log probability that a ranking begins with these items."""
        order = _untied(blocks, "Plackett-Luce without ties='davidson-luce'")
        rest = np.setdiff1d(np.arange(len(self.score)), order)
        s = self.score - self.score.max(initial=-np.inf)
        # The log of the sum over each item and all after it.
        chosen = s[order]
        below = np.logaddexp.reduce(s[rest]) if len(rest) else -np.inf
        left = np.logaddexp.accumulate(np.concatenate([[below], chosen[::-1]]))[1:][::-1]
        return float((chosen - left).sum())

    def top(self, k: int) -> Floats:
        """Return the probability of every item to be among the first k."""
        return top_k_of_worths(self.score, k)


class DavidsonLuceLaw:
    """Davidson-Luce: the next block is C with probability in proportion to δ_|C| (Π_C exp(s))^(1/|C|).

    Parameters
    ----------
    score : float64[n]
        The scores.
    sizes, log_delta : int64[K], float64[K]
        The sizes of blocks, from 1, and log δ of each.
    """

    def __init__(self, score: Floats, sizes: Ints, log_delta: Floats) -> None:
        self.score, self.sizes, self.log_delta = score, sizes, log_delta

    def log_probability(self, blocks: Sequence[Sequence[int]]) -> float:
        """Return the log probability that a ranking begins with these blocks; -inf for sizes without a parameter."""
        left = np.ones(len(self.score), dtype=np.bool_)
        found = 0.0
        for block in blocks:
            own = np.array(block, dtype=np.int64)
            which = np.flatnonzero(self.sizes == len(own))
            if not len(which):
                return -np.inf
            logs, _ = davidson_luce_shares(self.score[left], self.sizes, self.log_delta)
            found += float(self.log_delta[which[0]] + self.score[own].mean()) - logs
            left[own] = False
        return found

    def top(self, k: int) -> Floats:
        """Return the probability of every item to be in the first block; KindError for k > 1."""
        if k > 1:
            raise KindError(
                "the probability of the top k has no formula under Davidson-Luce ties for k > 1: it sums over all sets "
                "of items. Ask for k=1, or fit with ties='average'."
            )
        _, held = davidson_luce_shares(self.score, self.sizes, self.log_delta)
        out: Floats = held @ self.sizes
        return out


def davidson_luce_shares(score: Floats, sizes: Ints, log_delta: Floats) -> tuple[float, Floats]:
    """Return the log of the sum over all blocks, and E[1(i in C, |C| = q) / q] for every item and size, n × K.

    Row sums are the expected share of an item in the block that is chosen; they sum to 1.

    >>> logs, share = davidson_luce_shares(np.zeros(3), np.array([1, 2]), np.log([1.0, 2.0]))
    >>> round(float(np.exp(logs)), 4), share.sum(axis=1).round(4).tolist(), share[0].round(4).tolist()
    (9.0, [0.3333, 0.3333, 0.3333], [0.1111, 0.2222])
    """
    n, top = len(score), float(score.max())
    usable = sizes <= n
    held, terms = np.zeros((n, len(sizes))), np.full(len(sizes), -np.inf)
    for column in np.flatnonzero(usable).tolist():
        q = int(sizes[column])
        x = np.exp((score - top) / q)
        # Elementary symmetric polynomials of the items before and after each, so that nothing is subtracted.
        before, after = _symmetric(x, q), _symmetric(x[::-1], q)
        whole = float(before[n, q])
        without = np.zeros(n)
        for r in range(q):
            without += before[:n, r] * after[:n, q - 1 - r][::-1]
        terms[column] = log_delta[column] + np.log(whole)
        held[:, column] = x * without / whole / q
    logs = float(np.logaddexp.reduce(terms))
    return logs + top, held * np.exp(terms - logs)


def _symmetric(x: Floats, degree: int) -> Floats:
    """Return e_0 to e_degree of the first 0, 1, ..., n numbers, one row each."""
    out = np.zeros((len(x) + 1, degree + 1))
    out[0, 0] = 1.0
    for i, value in enumerate(x.tolist()):
        out[i + 1] = out[i]
        out[i + 1, 1:] += value * out[i, :-1]
    return out


class MallowsLaw:
    """Mallows: a ranking has probability in proportion to exp(θ d), d its discordant pairs with the centre.

    Items that tie in the centre may stand there in any order, all equally probable.

    Parameters
    ----------
    place : float64[n]
        The places of the items in the centre, smaller is better.
    theta : float
        θ <= 0.
    """

    def __init__(self, place: Floats, theta: float) -> None:
        self.place, self.theta = place, theta

    def log_probability(self, blocks: Sequence[Sequence[int]]) -> float:
        """Return the log probability that a ranking begins with these items."""
        from concordant.kernels.mallows import log_factorials

        order = _untied(blocks, "Mallows")
        n = len(self.place)
        log_factorial = log_factorials(self.theta, n)
        # log of [m] = [m]! / [m − 1]!.
        stage = np.concatenate([[0.0], np.diff(log_factorial)])
        left = np.ones(n, dtype=np.bool_)
        found = 0.0
        for m, item in zip(range(n, 0, -1), order.tolist(), strict=False):
            better = int((self.place[left] < self.place[item]).sum())
            tied = int((self.place[left] == self.place[item]).sum())
            found += self.theta * better + stage[tied] - np.log(tied) - stage[m]
            left[item] = False
        return float(found)

    def top(self, k: int) -> Floats:
        """Return the probability of every item to be among the first k."""
        order = np.argsort(self.place, kind="stable")
        new = np.concatenate([[0], np.cumsum(np.diff(self.place[order]) > 0)])
        by_place = mallows_ranks(self.theta, len(order))[:, :k].sum(axis=1)
        shared = np.bincount(new, weights=by_place) / np.bincount(new)
        out = np.empty(len(order))
        out[order] = shared[new]
        return out


def _untied(blocks: Sequence[Sequence[int]], model: str) -> Ints:
    """Return the items of blocks of one item each."""
    if any(len(block) != 1 for block in blocks):
        raise KindError(f"a ranking with ties has no probability under {model}. Give an order without ties.")
    return np.array([block[0] for block in blocks], dtype=np.int64)


def mallows_before(theta: float, apart: Floats) -> Floats:
    """Return the probability that an item precedes one that stands `apart` >= 1 places below it in the centre.

    (d + 1) / (1 − q^{d+1}) − d / (1 − q^d) with q = exp(θ): the number of items does not matter.

    >>> mallows_before(-1.0, np.array([1.0, 2.0])).round(4).tolist()
    [0.7311, 0.8442]
    """
    from concordant.kernels.mallows import regular

    d = np.asarray(apart, dtype=np.float64)
    out: Floats = 1.0 + (d + 1.0) * regular(-theta * (d + 1.0)) - d * regular(-theta * d)
    return out


def mallows_ranks(theta: float, n: int) -> Floats:
    """Return the probability of every rank (columns) of the item at each place of the centre (rows), O(n³).

    Items are inserted in the order of the centre: the j-th goes to rank r with probability in proportion to q^(j − r).

    >>> mallows_ranks(-1.0, 3).round(3).tolist()
    [[0.665, 0.245, 0.09], [0.245, 0.511, 0.245], [0.09, 0.245, 0.665]]
    """
    out = np.zeros((n, n))
    ranks = np.arange(1, n + 1, dtype=np.float64)
    for j in range(1, n + 1):
        # The probability that item j is inserted at rank r or above, which moves an item at r one rank down.
        r = ranks[:j]
        above = r / j if theta == 0 else np.exp(theta * (j - r)) * np.expm1(theta * r) / np.expm1(theta * j)
        # Earlier items hold ranks up to j − 1.
        known = out[: j - 1, : j - 1]
        moved = known * above[: j - 1]
        known -= moved
        out[: j - 1, 1:j] += moved
        out[j - 1, :j] = np.diff(above, prepend=0.0)
    return out


# The top k under Plackett-Luce.


def top_k_of_worths(score: Floats, k: int) -> Floats:
    """Return for every item the probability to be among the first k under Plackett-Luce, 1 <= k < n.

    Let item i arrive at an exponential time with rate exp(s_i): the order of arrival is a Plackett-Luce ranking, and
    item i is in the top k if fewer than k others arrive before it. So

        P(i) = ∫ exp(s_i − exp(s_i) t) P(fewer than k of the others before t) dt,

    with the law of a sum of independent events inside, computed from both ends without a subtraction. With t = exp(x)
    the trapezoidal rule converges exponentially; its step is halved until nothing changes. O(n k) for each node.

    >>> top_k_of_worths(np.log([3.0, 2.0, 1.0]), 2).round(6).tolist()
    [0.85, 0.733333, 0.416667]
    """
    n = len(score)
    if k == 1:
        share = np.exp(score - score.max())
        return np.asarray(share / share.sum(), dtype=np.float64)
    s = score - score.max()
    low, high = -_NEGLIGIBLE - np.log(n), float(-s.min() + np.log(_NEGLIGIBLE + 2.0 * np.log(n + 1.0)))
    step, offset = min(0.5, 2.0 / np.sqrt(n)), 0.0
    total = _arrival_sums(s, k, np.arange(low, high + step, step))
    found: Floats = step * total
    while True:
        offset = step / 2
        total = total + _arrival_sums(s, k, np.arange(low + offset, high + step, step))
        step /= 2
        last, found = found, step * total
        if float(np.abs(found - last).max()) <= _AGREED:
            return np.minimum(found, 1.0)


def _arrival_sums(s: Floats, k: int, nodes: Floats) -> Floats:
    """Return the sums over nodes x = log t of the integrand of `top_k_of_worths`."""
    n = len(s)
    out = np.zeros(n)
    batch = max(1, _CELLS // (n * k))
    for first in range(0, len(nodes), batch):
        t = np.exp(nodes[first : first + batch])
        hazard = np.exp(s)[:, None] * t
        here, absent = -np.expm1(-hazard), np.exp(-hazard)
        # The law of the number of items that have arrived, up to k − 1, among the first i items.
        before = np.zeros((n, k, len(t)))
        law = np.zeros((k, len(t)))
        law[0] = 1.0
        for i in range(n):
            before[i] = law
            law = _with_item(law, here[i], absent[i])
        law = np.zeros((k, len(t)))
        law[0] = 1.0
        for i in range(n - 1, -1, -1):
            # Fewer than k of the others: a before, and at most k − 1 − a after.
            fewer = np.einsum("at,at->t", before[i], np.cumsum(law, axis=0)[::-1])
            out[i] += float((hazard[i] * absent[i] * fewer).sum())
            law = _with_item(law, here[i], absent[i])
    return out


def _with_item(law: Floats, here: Floats, absent: Floats) -> Floats:
    """Return the law of a number of arrivals with one more item."""
    out: Floats = law * absent
    out[1:] += law[:-1] * here
    return out


# Observed and expected counts.


def deviance_residuals(observed: Floats, expected: Floats, sign: Floats) -> Floats:
    """Return √(2 Σ O log(O / E)) over the outcomes (columns), with the sign of `sign`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(observed > 0, observed * np.log(observed / expected), 0.0)
    # A rounding error of 0 may be negative.
    out: Floats = np.sign(sign) * np.sqrt(2.0 * np.maximum(terms.sum(axis=1), 0.0))
    return out


def wilson_interval(share: Floats, count: Any, level: float) -> tuple[Floats, Floats]:
    """Return Wilson's score interval of a share of `count` trials."""
    z2 = NormalDist().inv_cdf(0.5 + level / 2) ** 2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    reach = np.sqrt(z2 * (share * (1 - share) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    return middle - reach, middle + reach
