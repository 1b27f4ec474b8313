"""Probability model of rankings with ties (ordered partitions): log-probability, sampling and counting.

An ordered partition puts items into blocks, the best block first; items of one block are tied. The model chooses the
blocks in sequence: from the N remaining items R it chooses block X ⊆ R with probability Φ(X) / Σ_S Φ(S), where S runs
over all non-empty subsets of R, until no item remains. There are two potentials Φ of the scores f:

- "full" (full decomposition): Φ(S) is the mean of exp(f) over S. The sum over subsets is (2^N − 1)/N Σ_R exp(f), and
  everything costs O(N).
- "general": Φ(S) is exp of the mean of f over S. The sum has no closed form, but is computed exactly here, in about
  O(N^1.5) for a stage (`concordant.kernels.elementary_symmetric`).

Under both potentials, the probabilities of all ordered partitions of a set of items add up to 1. Under "full", a
ranking without ties has its Plackett-Luce probability times a constant, Π_k N_k / (2^N_k − 1), since at every stage a
larger block could have been chosen.

There are two forms of input. Scores in an array go with ranks in an array, 1 = best, equal ranks for ties. Scores in a
mapping from item to score go with a list of blocks, best first, each a collection of items.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from concordant.arrays import Floats, Ints
from concordant.base.params import check_params, integer, one_of, seed
from concordant.errors import DataError, ParameterError, listing
from concordant.kernels.graded_lists import GradedLists
from concordant.kernels.splitmix64 import STEP, Keys, hashed

__all__ = ["count", "general_partitions", "log_probability", "sample", "sampled_partitions"]

Potential = Literal["full", "general"]
OrderedPartition = Sequence[Collection[str]]

_POTENTIAL = one_of("full", "general")


@overload
def log_probability(
    scores: Mapping[str, float], ranking: OrderedPartition, *, potential: Potential = "full"
) -> float: ...


@overload
def log_probability(scores: ArrayLike, ranking: ArrayLike, *, potential: Potential = "full") -> float | Floats: ...


def log_probability(scores: Any, ranking: Any, *, potential: Potential = "full") -> float | Floats:
    """Return the logarithm of the probability of a tied ranking, given the scores of its items.

    It is Σ_k [log Φ(X_k) − log Σ_{S ⊆ R_k} Φ(S)] over the blocks X_k, best first, with R_k the items that remain.

    Parameters
    ----------
    scores : float[N], or mapping of item to float
        Finite; larger is better. Adding a number to all of them changes nothing.
    ranking : number[N] or number[n, N], or list of blocks
        With scores in an array: the rank of every item, smaller is better, equal for ties (only the order of the
        numbers counts; labels, of which larger is better, go in as `-labels`). Several rankings are the rows of a
        matrix. With scores in a mapping: blocks of items, best first, each item once.
    potential : {"full", "general"}
        The potential Φ of a block: the mean of exp(score), or exp of the mean score.

    Returns
    -------
    float or float64[n]
        One number per ranking.

    Notes
    -----
    "full" costs O(N), "general" about O(N^1.5) for each block.

    References
    ----------
    Truyen, Phung and Venkatesh, Probabilistic models over ordered partitions with application in learning to rank,
    arXiv:1009.1690, 2010.

    Examples
    --------
    >>> import concordant as cc
    >>> round(cc.partitions.log_probability([1.0, 0.0, 0.0], [1, 2, 2]), 6)
    -2.497355
    >>> scores = {"a": 1.0, "b": 0.0, "c": 0.0}
    >>> round(cc.partitions.log_probability(scores, [["a"], ["b", "c"]], potential="general"), 6)
    -2.441508
    """
    check_params("log_probability", {"potential": potential}, {"potential": _POTENTIAL})
    if isinstance(scores, Mapping):
        score = _scores(list(scores.values()))
        ranks = _ranks_of_blocks(scores, ranking)
    else:
        score = _scores(scores)
        ranks = _ranks(ranking, len(score))
    rows = np.atleast_2d(ranks)
    n, width = rows.shape
    order = np.argsort(rows, axis=1, kind="stable")
    lists = GradedLists.of(-np.take_along_axis(rows, order, axis=1).ravel(), np.arange(n + 1, dtype=np.int64) * width)
    value, by_row = np.empty(n), np.empty(n * width)
    if potential == "full":
        from concordant.kernels.plackett_luce import log_constants, partition_log_likelihood

        partition_log_likelihood(score[order.ravel()], lists.mark, lists.offsets, by_row, value)
        value += log_constants(lists.mark, lists.offsets)
    else:
        from concordant.kernels.elementary_symmetric import general_lists

        general_lists(score[order.ravel()], lists.mark, lists.offsets, by_row, value)
    return float(value[0]) if ranks.ndim == 1 else value


@overload
def sample(
    scores: Mapping[str, float], n: int = 1, *, potential: Potential = "full", random_state: int = 0
) -> list[list[list[str]]]: ...


@overload
def sample(scores: ArrayLike, n: int = 1, *, potential: Potential = "full", random_state: int = 0) -> Ints: ...


def sample(
    scores: Any, n: int = 1, *, potential: Potential = "full", random_state: int = 0
) -> Ints | list[list[list[str]]]:
    """Return exact random samples of tied rankings, given the scores of the items.

    Parameters
    ----------
    scores : float[N], or mapping of item to float
        Finite; larger is better.
    n : int
        The number of rankings.
    potential : {"full", "general"}
        The potential Φ of a block: the mean of exp(score), or exp of the mean score.
    random_state : int
        The seed. With a larger n the first rankings stay the same.

    Returns
    -------
    int64[n, N], or list of n rankings
        With scores in an array: the ranks 1, 2, ... of the items' blocks, a ranking in each row. With scores in a
        mapping: lists of blocks, best first, items in the order of the mapping.

    Notes
    -----
    No Markov chain is run. Under "full" the size m of a block has probability (N over m)/(2^N − 1), whatever the
    scores; given m, one item is drawn in proportion to exp(score), and the other m − 1 uniformly. Under "general" the
    size is drawn from its exact distribution, and then the items given the size. A ranking has about log2 N blocks, and
    costs O(N) under "full", about O(N^1.5) under "general".

    Examples
    --------
    >>> import concordant as cc
    >>> cc.partitions.sample([2.0, 0.0, -2.0], 4, random_state=1).tolist()
    [[1, 1, 2], [1, 1, 2], [1, 3, 2], [1, 2, 2]]
    >>> cc.partitions.sample({"a": 2.0, "b": 0.0, "c": -2.0}, potential="general")
    [[['a'], ['b'], ['c']]]
    """
    check_params(
        "sample",
        {"n": n, "potential": potential, "random_state": random_state},
        {"n": integer(least=0), "potential": _POTENTIAL, "random_state": seed()},
    )
    from concordant.kernels.partition_sampler import draw_partitions

    score = _scores(list(scores.values()) if isinstance(scores, Mapping) else scores)
    rank = np.empty((n, len(score)), dtype=np.int64)
    with np.errstate(over="ignore"):
        draw_partitions(score, potential == "general", hashed(_seeds(random_state, np.arange(n))), rank)
    if not isinstance(scores, Mapping):
        return rank
    out: list[list[list[str]]] = []
    for row in rank.tolist():
        blocks: list[list[str]] = [[] for _ in range(max(row))]
        for item, r in zip(scores, row, strict=True):
            blocks[r - 1].append(item)
        out.append(blocks)
    return out


def count(n: int) -> int:
    """Return the number of ordered partitions of n items, that is of rankings with ties: the Fubini numbers.

    a(n) = Σ_{m=1..n} (n over m) a(n − m), a(0) = 1; exact, O(n²) operations on whole numbers.

    Examples
    --------
    >>> import concordant as cc
    >>> [cc.partitions.count(n) for n in range(7)]
    [1, 1, 3, 13, 75, 541, 4683]
    """
    check_params("count", {"n": n}, {"n": integer(least=0)})
    found = [1]
    for k in range(1, n + 1):
        ways, total = 1, 0
        for m in range(1, k + 1):
            ways = ways * (k - m + 1) // m
            total += ways * found[k - m]
        found.append(total)
    return found[n]


def general_partitions(score: Floats, lists: GradedLists, gradient: Floats) -> float:
    """Return minus the log-likelihood of the lists under the general potential, and write its gradient.

    The loss is Σ_k [log Σ_{S ⊆ R_k} exp(mean of s over S) − mean of s over X_k], with X_k the blocks of equal labels
    and R_k the items that remain. The last block counts too, since it could have been split. The gradient of a stage is
    E[1(i in S)/|S|] − 1(i in X)/|X|. Both are exact; a stage of N items costs about O(N^1.5). Arguments as in
    `losses.logistic`.

    Examples
    --------
    >>> lists = GradedLists.of(np.array([1.0, 0.0, 0.0]), np.array([0, 3]))
    >>> gradient = np.empty(3)
    >>> round(float(np.exp(general_partitions(np.zeros(3), lists, gradient))), 6)  # one of 7, then one of 3
    21.0
    >>> gradient.round(6).tolist()
    [-0.666667, 0.333333, 0.333333]
    """
    from concordant.kernels.elementary_symmetric import general_lists

    value = np.empty(len(lists.offsets) - 1)
    general_lists(score, lists.mark, lists.offsets, gradient, value)
    np.negative(gradient, out=gradient)
    return -math.fsum(value)


def sampled_partitions(
    score: Floats,
    lists: GradedLists,
    gradient: Floats,
    *,
    kind: str = "gibbs",
    n_samples: int = 1,
    acceptance: str = "corrected",
    seed: int = 0,
    turn: int = 0,
) -> float:
    """Write a sampled gradient of `general_partitions` (contrastive divergence), and return its value.

    The expectation in the gradient of a stage is replaced by the mean over samples of a short Markov chain that starts
    at the observed block. The returned value is not random, so that a stopping rule can use it. It is exact for stages
    of up to 64 items. For larger ones it is an approximation in O(N), with an error below 0.02 for a stage if the
    standard deviation of the scores is at most 5.

    Parameters
    ----------
    score, lists, gradient
        As in `losses.logistic`.
    kind : {"gibbs", "mh"}
        "gibbs" takes a sample after every sweep over the items of the stage; "mh" (Metropolis-Hastings) after every
        proposal: a uniform size, then a uniform subset of that size.
    n_samples : int
        The number of samples of a stage.
    acceptance : {"corrected", "printed"}
        The acceptance ratio of "mh". "printed" is that of the paper, which omits the number of subsets of each size; it
        samples from Φ(S) divided by that number instead of Φ(S).
    seed, turn : int
        These and the keys of the lists seed all random numbers.

    Examples
    --------
    >>> lists = GradedLists.of(np.array([1.0, 0.0, 0.0]), np.array([0, 3]))
    >>> gradient, exact = np.empty(3), np.empty(3)
    >>> round(sampled_partitions(np.zeros(3), lists, gradient, n_samples=100_000), 6)
    3.044522
    >>> round(general_partitions(np.zeros(3), lists, exact), 6), bool(np.abs(gradient - exact).max() < 0.01)
    (3.044522, True)
    """
    from concordant.kernels.partition_sampler import GIBBS, METROPOLIS, sampled_lists

    value = np.empty(len(lists.offsets) - 1)
    with np.errstate(over="ignore"):
        sampled_lists(
            score,
            lists.mark,
            lists.offsets,
            lists.key,
            np.uint64(_seeds(seed, np.array([turn]))[0]),
            {"gibbs": GIBBS, "mh": METROPOLIS}[kind],
            acceptance == "printed",
            n_samples,
            gradient,
            value,
        )
    np.negative(gradient, out=gradient)
    return -math.fsum(value)


def _seeds(random_state: int, numbers: NDArray[np.int64]) -> Keys:
    """Return a seed for every number, different for every random_state."""
    own = hashed(np.array([random_state % 2**64], dtype=np.uint64))
    with np.errstate(over="ignore"):
        out: Keys = hashed(own + STEP * numbers.astype(np.uint64))
    return out


def _scores(scores: Any) -> Floats:
    try:
        out = np.ascontiguousarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError.invalid("scores", "partitions", _SCORES, scores) from None
    if out.ndim != 1 or not len(out) or not np.isfinite(out).all():
        raise ParameterError.invalid("scores", "partitions", _SCORES, scores)
    return out


_SCORES = "finite numbers, one for each of one or more items, in an array or in a mapping from item to score"


def _ranks(ranking: Any, n: int) -> Floats:
    try:
        out = np.asarray(ranking, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"with scores in an array the ranking must be an array of {n} ranks, 1 = best, equal for ties. Got "
            f"{type(ranking).__name__}. Blocks of items go with scores in a mapping from item to score."
        ) from None
    if out.ndim not in (1, 2) or out.shape[-1] != n:
        raise DataError(
            f"the ranking has shape {out.shape}, but there are {n} scores: give one rank for every score, or a matrix "
            f"with {n} columns and a ranking in each row."
        )
    if np.isnan(out).any():
        at = np.argwhere(np.isnan(out))[0].tolist()
        raise DataError(f"the rank at {at} is missing. Give every item a rank, or leave out its score too.")
    return out


def _ranks_of_blocks(scores: Mapping[Any, Any], blocks: Any) -> Floats:
    """Return the rank of every item of `scores`, in their order."""
    if isinstance(blocks, str) or not isinstance(blocks, Sequence):
        raise DataError(
            "with scores in a mapping the ranking must be a list of blocks of items, best first, such as "
            f"[['a'], ['b', 'c']]. Got {type(blocks).__name__}."
        )
    rank: dict[Any, int] = {}
    for k, block in enumerate(blocks, start=1):
        if isinstance(block, str) or not isinstance(block, Collection):
            raise DataError(
                f"block {k} must be a collection of items, [{block!r}] for a single one. Got {type(block).__name__}."
            )
        if not len(block):
            raise DataError(f"block {k} is empty. Leave it out: every block holds at least one item.")
        for item in block:
            if item in rank:
                where = f"blocks {rank[item]} and {k}" if rank[item] != k else f"block {k}, twice"
                raise DataError(f"item {item!r} is in {where}. Every item is in one block, once.")
            rank[item] = k
    unknown = [item for item in rank if item not in scores]
    if unknown:
        raise DataError(f"items {listing(unknown)} of the ranking have no score. Known: {listing(scores, 20)}.")
    missing = [item for item in scores if item not in rank]
    if missing:
        raise DataError(
            f"items {listing(missing)} have a score and are in no block. A ranking holds all items: put them into a "
            "last block if they are below the others, or leave out their scores."
        )
    return np.array([rank[item] for item in scores], dtype=np.float64)
