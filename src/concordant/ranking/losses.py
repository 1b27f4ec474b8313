"""Losses of graded lists: each a pure function from the scores of the rows to a number and its gradient by every score.

A loss takes the scores in the order of the lists, writes its gradient over `gradient`, and returns its value summed
over the lists; smaller is better, and nothing is kept between calls. What a list adds does not depend on the other
lists. A loss with a parameter of its own takes it as `extra` and writes the gradient by it over `extra_gradient`. A
new loss is one more such function.

With δ = s_i − s_j, sums over pairs are over all i, j of one list where i has the higher label; the models of ties sum
over the pairs of equal labels too.
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
    """Return Σ log(1 + e^−δ) over the pairs, RankNet's loss, and write its gradient.

    Ties say nothing. There is no shortcut for this sum: the cost is O(pairs), quadratic in the length of a list, at
    about the price of a division per pair.

    Parameters
    ----------
    score : float64[R]
        By row of the lists; of any size.
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
    """Return Σ max(0, 1 − δ) over the pairs, the loss of the ranking support vector machine, and write its gradient.

    Where δ is exactly 1 there is no gradient; 0 is taken, as for pairs further apart. Ties say nothing. Cost
    O(R log K) for K different labels: a sort by score, then two passes with a tree of counts by label.

    Parameters
    ----------
    score, lists, gradient
        As in `logistic`.

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
    """Return Σ (1 − δ)² over the pairs, and write its gradient.

    A pair further apart than 1 costs as much as one that is too close. Ties say nothing. Cost O(R): counts, means and
    spreads of the rows of higher labels say all that the pairs would.

    Parameters
    ----------
    score, lists, gradient
        As in `logistic`.

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
    """Return −Σ_k [s_k − log Σ_{r ≥ k} e^s_r], minus the log-likelihood of Plackett and Luce, and write its gradient.

    The lists are read as rankings without ties: rows of equal labels in the order in which they stand. Cost O(R).

    Parameters
    ----------
    score, lists, gradient
        As in `logistic`.

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
    return _in_stages(score, lists._replace(mark=np.ones_like(lists.mark)), gradient)


def full_partitions(score: Floats, lists: GradedLists, gradient: Floats) -> float:
    """Return −Σ_k [log Σ_{X_k} e^s − log Σ_{R_k} e^s] over the blocks X_k of equal labels, and write its gradient.

    R_k is what block k and those of lower labels hold. This is minus the log-likelihood of the probabilistic model over
    ordered partitions with full decomposition, less the constants that no score changes. A list of one block adds
    nothing. Cost O(R).

    Parameters
    ----------
    score, lists, gradient
        As in `logistic`.

    References
    ----------
    Truyen, Phung and Venkatesh, Probabilistic models over ordered partitions with applications in document ranking and
    collaborative filtering, SDM 2011.

    Examples
    --------
    >>> lists = GradedLists.of(np.array([1.0, 1.0, 0.0]), np.array([0, 3]))
    >>> gradient = np.empty(3)
    >>> value = full_partitions(np.log([2.0, 1.0, 1.0]), lists, gradient)
    >>> round(float(np.exp(-value)), 6), gradient.round(6).tolist()
    (0.75, [-0.166667, -0.083333, 0.25])
    """
    return _in_stages(score, lists, gradient)


def davidson(score: Floats, lists: GradedLists, gradient: Floats, extra: Floats, extra_gradient: Floats) -> float:
    """Return minus the log-likelihood of Davidson's model over all pairs, ties included, and write its gradients.

    A win, a loss and a tie of i and j have chances proportional to e^(δ/2), e^(−δ/2) and ν = e^β. Cost O(R m) for
    lists of m rows.

    Parameters
    ----------
    score, lists, gradient
        As in `logistic`.
    extra : float64[1]
        β.
    extra_gradient : float64[1]
        Overwritten with ∂ loss / ∂ β.

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
    """Return minus the log-likelihood of the model of Rao and Kupper over all pairs, and write its gradients.

    With φ = e^s and θ = 1 + e^α, i wins with chance φ_i / (φ_i + θ φ_j), and ties with
    (θ² − 1) φ_i φ_j / [(φ_i + θ φ_j) (θ φ_i + φ_j)]: who is not ahead by a factor θ may tie. Cost O(R m) for lists of m
    rows.

    Parameters
    ----------
    score, lists, gradient
        As in `logistic`.
    extra : float64[1]
        α.
    extra_gradient : float64[1]
        Overwritten with ∂ loss / ∂ α.

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
    """Return the loss of one of the models of `kernels.graded_pairs.pairs`, and its gradient by the extra parameter."""
    from concordant.kernels.pairwise_losses import pairs

    value, by_extra = np.empty((2, len(lists.offsets) - 1))
    pairs(score, lists.mark, lists.offsets, model, extra, gradient, value, by_extra)
    return float(value.sum()), float(by_extra.sum())


def _in_stages(score: Floats, lists: GradedLists, gradient: Floats) -> float:
    """Return minus the log-likelihood of choices in stages, one for each mark."""
    from concordant.kernels.pairwise_losses import near_zero
    from concordant.kernels.plackett_luce import partition_log_likelihood

    value, near = np.empty(len(lists.offsets) - 1), np.empty(len(score))
    near_zero(score, lists.offsets, near)
    partition_log_likelihood(near, lists.mark, lists.offsets, gradient, value)
    np.negative(gradient, out=gradient)
    return float(0.0 - value.sum())
