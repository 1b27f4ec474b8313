"""Cost of a query as its experts or items multiply: our CRF and SVDRank against their direct formulas.

Every implementation starts from ranks and ends with a score for each item. Scores are compared before timing, and the
implementations take turns, so that noise hits all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

import concordant as cc
from concordant.errors import DataError
from concordant_papers._arrays import Floats

__all__ = ["cost", "expanded", "naive_crf", "naive_svd", "rank_matrices"]

# The most numbers that the direct formulas hold at once: 32 MB.
_CELLS = 4_000_000
# Largest difference allowed before timing, as a share of the largest score.
_SAME = 1e-6


def expanded(preferences: cc.Preferences, what: str, t: int) -> cc.Preferences:
    """Return the preferences with t copies of every expert, or of every item, all ranked alike.

    Parameters
    ----------
    preferences : Preferences
        Ranks.
    what : {"experts", "items"}
        What is copied: x becomes "x/1", ..., "x/t".
    t : int
        Number of copies of each.

    Examples
    --------
    >>> votes = cc.from_lists({"x": ["a", "b"]})
    >>> expanded(votes, "experts", 2).experts.tolist(), expanded(votes, "items", 2).items.tolist()
    (['x/1', 'x/2'], ['a/1', 'b/1', 'a/2', 'b/2'])
    """
    p = preferences
    home = p.instances[p.slots.instance].tolist()
    names = p.items.tolist()
    slot = np.tile(p.slot, t).tolist()
    expert = p.experts[p.row_expert].tolist() * t
    copy = np.repeat(np.arange(1, t + 1), p.n_rows).tolist()
    value = np.tile(p.value, t)
    instance = [home[s] for s in slot]
    if what == "experts":
        who = [f"{e}/{c}" for e, c in zip(expert, copy, strict=True)]
        pairs = list(zip(home, names, strict=True))
        return cc.Preferences(instance, who, [names[s] for s in slot], value, kind=p.kind, items=pairs)
    items = [f"{names[s]}/{c}" for s, c in zip(slot, copy, strict=True)]
    pairs = [(q, f"{i}/{c}") for c in range(1, t + 1) for q, i in zip(home, names, strict=True)]
    return cc.Preferences(instance, expert, items, value, kind=p.kind, items=pairs)


def rank_matrices(preferences: cc.Preferences) -> list[Floats]:
    """Return the papers' input: ranks, items x experts, for every instance, 0 where an item is not listed."""
    p = preferences
    out = [np.zeros((size, p.n_experts)) for size in p.slots.sizes.tolist()]
    home = p.slots.instance[p.slot]
    local = p.slot - p.slots.offsets[home]
    for q in range(len(out)):
        rows = np.flatnonzero(home == q)
        out[q][local[rows], p.row_expert[rows]] = p.value[rows]
    return out


def _matrices(rank: Floats) -> Iterator[tuple[slice, Floats]]:
    """Yield the pairwise matrices of some experts at a time, experts x items x items, by differences of logarithms."""
    m, n_experts = rank.shape
    step = max(1, _CELLS // (m * m))
    for first in range(0, n_experts, step):
        some = slice(first, min(first + step, n_experts))
        r = rank[:, some].T
        listed = r > 0
        x = np.log(r, where=listed, out=np.zeros_like(r))
        z = x.max(axis=1)
        z[z == 0] = 1.0
        before = listed[:, :, None] & listed[:, None, :] & (r[:, :, None] < r[:, None, :])
        yield some, np.where(before, (x[:, None, :] - x[:, :, None]) / z[:, None, None], 0.0)


def naive_svd(rank: Floats, weights: Floats) -> Floats:
    """Return scores by a dense singular value decomposition of every expert's matrix; weights: u, sigma, v, missing."""
    score: Floats = (rank == 0) @ weights[:, 3]
    for some, Y in _matrices(rank):
        U, S, Vt = np.linalg.svd(Y)
        told = S[:, :1] > 0
        w = weights[some]
        # The leading singular vectors of a non-negative matrix are non-negative.
        terms = np.abs(U[:, :, 0]) * w[:, :1] + S[:, :1] * w[:, 1:2] + np.abs(Vt[:, 0, :]) * w[:, 2:3]
        score = score + np.where(told, terms, 0.0).sum(axis=0)
    return score


def naive_crf(rank: Floats, weights: Floats) -> Floats:
    """Return scores by sums over dense pairwise matrices; weights: alpha, beta+, beta-."""
    score: Floats = (rank == 0) @ weights[:, 0]
    for some, Y in _matrices(rank):
        w = weights[some] / len(rank)
        score = score + (Y.sum(axis=2) * w[:, 1:2] - Y.sum(axis=1) * w[:, 2:3]).sum(axis=0)
    return score


def cost(train: Any, votes: cc.Preferences, what: str, t: int, repeats: int) -> dict[str, Any]:
    """Return microseconds per query with t copies of experts or items, for fast and plain forms of CRF and SVDRank.

    Parameters
    ----------
    train : (Preferences, Labels)
        Data to fit two models with a few passes. Only their weights matter here, not their quality.
    votes : Preferences
        The queries to score.
    what, t
        As for `expanded`.
    repeats : int
        How often each is timed; the least counts.
    """
    grown = expanded(votes, what, t)
    seen = expanded(train[0], "experts", t) if what == "experts" else train[0]
    crf = cc.CRF(passes=3).fit(seen, train[1])
    # The direct formula uses unit singular vectors; other lengths cost the same.
    svd = cc.SVDRank(scaling="paper", passes=3).fit(seen, train[1])
    # The direct formulas have no depth limit, so remove the depth that the model remembers.
    del crf.training_, svd.training_
    matrices = rank_matrices(grown)
    names = grown.experts.tolist()
    w_crf, w_svd = (_rows(model, names) for model in (crf, svd))
    jobs: dict[str, Callable[[], Any]] = {
        "CRF": lambda: crf.predict(grown),
        "SVDRank": lambda: svd.predict(grown),
        "plain CRF": lambda: [naive_crf(rank, w_crf) for rank in matrices],
        "plain SVD": lambda: [naive_svd(rank, w_svd) for rank in matrices],
    }
    # The first turn is not timed: it compiles everything and checks that the scores agree.
    answers = {name: job() for name, job in jobs.items()}
    gaps = [_gap(answers["CRF"], answers["plain CRF"]), _gap(answers["SVDRank"], answers["plain SVD"])]
    if max(gaps) > _SAME:
        raise DataError(f"fast and plain scores differ by {max(gaps):.1e} of the largest with {t} copies of {what}.")
    return {
        "microseconds": {name: 1e6 * s / len(grown) for name, s in _in_turn(jobs, repeats).items()},
        "queries": len(grown),
        "largest_difference": max(gaps),
    }


def _rows(model: Any, experts: list[str]) -> Floats:
    """Return the weights of the experts, 0 for experts unknown to the model."""
    place = {e: n for n, e in enumerate(model.experts_)}
    known = np.array([place.get(e, -1) for e in experts])
    return np.where(known[:, None] >= 0, np.asarray(model.weights_)[known], 0.0)


def _in_turn(jobs: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the smallest time of every job; the jobs take turns."""
    seconds = dict.fromkeys(jobs, float("inf"))
    for _ in range(repeats):
        for name, job in jobs.items():
            started = time.perf_counter()
            job()
            seconds[name] = min(seconds[name], time.perf_counter() - started)
    return seconds


def _gap(consensus: cc.Consensus, plain: list[Floats]) -> float:
    """Return the largest difference of centred scores, as a share of the largest score."""
    worst, most = 0.0, 1e-300
    for (a, b), theirs in zip(pairwise(consensus.slots.offsets.tolist()), plain, strict=True):
        ours = consensus.score[a:b] - consensus.score[a:b].mean()
        other = theirs - theirs.mean()
        worst = max(worst, float(np.abs(ours - other).max()))
        most = max(most, float(np.abs(other).max()))
    return worst / most
