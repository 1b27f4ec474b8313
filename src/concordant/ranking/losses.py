"""Ranking losses over graded lists and their gradients: RankNet, hinge, quadratic, ListMLE, PMOP, Davidson, Rao-Kupper.

A loss is a pure function. It takes the scores in the order of the rows, overwrites `gradient`, and returns the sum of
its values over the lists; smaller is better. The value of a list does not depend on the other lists. A loss with a
parameter of its own takes it as `extra`, and overwrites `extra_gradient`. The docstring of `logistic` describes the
other arguments. A new loss is one more such function.

Pairwise losses are sums over the pairs of a list in which i has a higher label than j, with δ = s_i − s_j; pairs of
equal labels are left out. The models of ties, Davidson and Rao-Kupper, include them.
"""

from __future__ import annotations

import numpy as np

from concordant.arrays import Floats
from concordant.kernels.graded_lists import GradedLists

__all__ = [
    "davidson",
    "full_partitions",
    "hinge",
    "list_mle",
    "logistic",
    "quadratic",
    "rao_kupper",
]


def logistic(score: Floats, lists: GradedLists, gradient: Floats) -> float:
    """Return RankNet's loss, Σ log(1 + e^−δ) over the pairs, and write its gradient.

    The cost is O(pairs), quadratic in the length of a list, with about the time of one division for a pair.

    Parameters
    ----------
    score : float64[R]
        The score of every row.
    lists : GradedLists
        The labels.
    gradient : float64[R]
        Overwritten with ∂ loss / ∂ score.

    References
    ----------
    Burges et al., Learning to rank using gradient descent, ICML 2005.

    Examples
    --------
    >>> lists = GradedLists.of(np.array([1.0, 0.0, 0.0]), np.array([0, 3]))
    >>> gradient = np.empty(3)
    >>> round(logistic(np.zeros(3), lists, gradient), 6), gradient.tolist()
    (1.386294, [-1.0, 0.5, 0.5])
    """
    from concordant.kernels.pairwise_losses import LOGISTIC

    return _over_pairs(score, lists, gradient, LOGISTIC, 0.0)[0]


def hinge(score: Floats, lists: GradedLists, gradient: Floats) -> float:
    """Return the hinge loss of the ranking SVM, Σ max(0, 1 − δ) over the pairs, and write its gradient.

    At δ = 1 the loss has no gradient, and the subgradient 0 is taken. Cost O(R log K) for K different labels: a sort by
    score, then two passes with a tree of counts by label.

    References
    ----------
    Herbrich, Graepel and Obermayer, Large margin rank boundaries for ordinal regression, 2000. Joachims, Optimizing
    search engines using clickthrough data, KDD 2002.

    Examples
    --------
    >>> lists = GradedLists.of(np.array([1.0, 0.0, 0.0]), np.array([0, 3]))
    >>> gradient = np.empty(3)
    >>> hinge(np.array([1.0, 0.5, 0.0]), lists, gradient), gradient.tolist()
    (0.5, [-1.0, 1.0, 0.0])
    """
    from concordant.kernels import pairwise_losses

    value = np.empty(len(lists.offsets) - 1)
    pairwise_losses.hinge(score, lists.level, lists.offsets, gradient, value)
    return float(value.sum())


def quadratic(score: Floats, lists: GradedLists, gradient: Floats) -> float:
    """Return the quadratic loss, Σ (1 − δ)² over the pairs, and write its gradient.

    Differences above 1 cost as much as those below. Cost O(R): the counts, means and variances of the scores of each
    label suffice.

    Examples
    --------
    >>> lists = GradedLists.of(np.array([1.0, 0.0, 0.0]), np.array([0, 3]))
    >>> gradient = np.empty(3)
    >>> quadratic(np.array([1.0, 0.5, 0.0]), lists, gradient), gradient.tolist()
    (0.25, [-1.0, 1.0, 0.0])
    """
    from concordant.kernels.pairwise_losses import squares

    value = np.empty(len(lists.offsets) - 1)
    squares(score, lists.mark, lists.offsets, gradient, value)
    return float(value.sum())


def list_mle(score: Floats, lists: GradedLists, gradient: Floats) -> float:
    """Return the Plackett-Luce loss, −Σ_k [s_k − log Σ_{r ≥ k} e^s_r], and write its gradient.

    This is minus the log-likelihood. Lists count as rankings without ties, in the order of their rows. Cost O(R).

    References
    ----------
    Xia, Liu, Wang, Zhang and Li, Listwise approach to learning to rank: theory and algorithm, ICML 2008.

    Examples
    --------
    >>> lists = GradedLists.of(np.array([1.0, 0.0, 0.0]), np.array([0, 3]))
    >>> gradient = np.empty(3)
    >>> value = list_mle(np.zeros(3), lists, gradient)
    >>> round(float(np.exp(-value)), 6), gradient.round(6).tolist()
    (0.166667, [-0.666667, -0.166667, 0.833333])
    """
    return _sequential_choice(score, lists._replace(mark=np.ones_like(lists.mark)), gradient)


def full_partitions(score: Floats, lists: GradedLists, gradient: Floats) -> float:
    """Return the PMOP loss with full decomposition, −Σ_k [log Σ_{X_k} e^s − log Σ_{R_k} e^s], and write its gradient.

    X_k are the blocks of equal labels, and R_k are the items of block k and of all blocks with lower labels. This is
    minus the log-likelihood of the model over ordered partitions, without constants. The loss of a list of one block is
    0. Cost O(R).

    References
    ----------
    Truyen, Phung and Venkatesh, Probabilistic models over ordered partitions with application in learning to rank,
    arXiv:1009.1690, 2010; with applications in document ranking and collaborative filtering, SDM 2011.

    Examples
    --------
    >>> lists = GradedLists.of(np.array([1.0, 1.0, 0.0]), np.array([0, 3]))
    >>> gradient = np.empty(3)
    >>> value = full_partitions(np.log([2.0, 1.0, 1.0]), lists, gradient)
    >>> round(float(np.exp(-value)), 6), gradient.round(6).tolist()
    (0.75, [-0.166667, -0.083333, 0.25])
    """
    return _sequential_choice(score, lists, gradient)


def davidson(score: Floats, lists: GradedLists, gradient: Floats, extra: Floats, extra_gradient: Floats) -> float:
    """Return minus the log-likelihood of Davidson's model over all pairs, ties included, and write its gradients.

    The probabilities of a win, a loss and a tie of i and j are proportional to e^(δ/2), e^(−δ/2) and ν, with
    log ν = extra[0]. Cost O(R m) for lists of m rows.

    References
    ----------
    Davidson, On extending the Bradley-Terry model to accommodate ties in paired comparison experiments, JASA 65, 1970.

    Examples
    --------
    >>> lists = GradedLists.of(np.array([1.0, 0.0, 0.0]), np.array([0, 3]))
    >>> gradient, extra_gradient = np.empty(3), np.empty(1)
    >>> value = davidson(np.zeros(3), lists, gradient, np.zeros(1), extra_gradient)
    >>> round(float(np.exp(-value)), 6), gradient.tolist(), extra_gradient.round(6).tolist()
    (0.037037, [-1.0, 0.5, 0.5], [0.0])
    """
    from concordant.kernels.pairwise_losses import DAVIDSON

    value, extra_gradient[0] = _over_pairs(score, lists, gradient, DAVIDSON, float(extra[0]))
    return value


def rao_kupper(score: Floats, lists: GradedLists, gradient: Floats, extra: Floats, extra_gradient: Floats) -> float:
    """Return minus the log-likelihood of the Rao-Kupper model over all pairs, ties included, and write its gradients.

    With φ = e^s and ξ = 1 + exp(extra[0]), the probability that i wins is φ_i / (φ_i + ξ φ_j), and that of a tie is
    (ξ² − 1) φ_i φ_j / [(φ_i + ξ φ_j) (ξ φ_i + φ_j)]. Cost O(R m) for lists of m rows.

    References
    ----------
    Rao and Kupper, Ties in paired-comparison experiments: a generalization of the Bradley-Terry model, JASA 62, 1967.

    Examples
    --------
    >>> lists = GradedLists.of(np.array([1.0, 0.0, 0.0]), np.array([0, 3]))
    >>> gradient, extra_gradient = np.empty(3), np.empty(1)
    >>> value = rao_kupper(np.zeros(3), lists, gradient, np.zeros(1), extra_gradient)
    >>> round(float(np.exp(-value)), 6), gradient.round(6).tolist(), extra_gradient.round(6).tolist()
    (0.037037, [-1.333333, 0.666667, 0.666667], [0.0])
    """
    from concordant.kernels.pairwise_losses import RAO_KUPPER

    value, extra_gradient[0] = _over_pairs(score, lists, gradient, RAO_KUPPER, float(extra[0]))
    return value


def _over_pairs(score: Floats, lists: GradedLists, gradient: Floats, model: int, extra: float) -> tuple[float, float]:
    """Return the loss of a model of `kernels.pairwise_losses.pairs`, and its gradient with respect to `extra`."""
    from concordant.kernels.pairwise_losses import pairs

    value, by_extra = np.empty((2, len(lists.offsets) - 1))
    pairs(score, lists.mark, lists.offsets, model, extra, gradient, value, by_extra)
    return float(value.sum()), float(by_extra.sum())


def _sequential_choice(score: Floats, lists: GradedLists, gradient: Floats) -> float:
    """Return minus the log-likelihood of sequential choices of blocks; `lists.mark` is 1 where a block begins."""
    from concordant.kernels.pairwise_losses import near_zero
    from concordant.kernels.plackett_luce import partition_log_likelihood

    value, shifted = np.empty(len(lists.offsets) - 1), np.empty(len(score))
    near_zero(score, lists.offsets, shifted)
    partition_log_likelihood(shifted, lists.mark, lists.offsets, gradient, value)
    np.negative(gradient, out=gradient)
    return float(0.0 - value.sum())
