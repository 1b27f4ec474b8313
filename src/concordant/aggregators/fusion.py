"""Score and rank fusion: reciprocal ranks, inverse square ranks, rank-biased centroids, CombSUM and relatives, DBSF.

All methods cost one pass over the rows. An item gets nothing from lists that leave it out. Sums do not depend on the
order of experts: terms are rounded to a fine grid on which sums are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints
from concordant.base.contract import Aggregator, Tags
from concordant.base.params import Constraint, Within, boolean, integer, mapping, metric_name, number, one_of, optional
from concordant.base.registry import register_method
from concordant.base.weights import list_weights
from concordant.data.preferences import Preferences
from concordant.errors import KindError, NotFittedError
from concordant.inference.experts import check_known
from concordant.kernels.cells import cell_blocks, weighted_median
from concordant.kernels.lists import TIES, exact_sums, list_maxima, rounded_to_grid
from concordant.kernels.ties import merge_ties
from concordant.learning.shift import RECORDED_RANGE, check_record, value_shift

if TYPE_CHECKING:
    from concordant.data.features import Features
    from concordant.data.labels import Labels

__all__ = [
    "DBSF",
    "ISR",
    "RBC",
    "RRF",
    "CombANZ",
    "CombMAX",
    "CombMED",
    "CombMIN",
    "CombMNZ",
    "CombMNZRank",
    "CombSUM",
    "LogISR",
    "WeightedSum",
]

LISTS = frozenset({"rank", "score", "rating"})
NORMS = ("min-max", "max", "sum", "z-score", "three-sigma", "rank", "borda", "none")

# Scores in this range can be squared and summed without overflow.
_SMALL, _LARGE = 1e-100, 1e100
# Ranks up to this one may be multiplied by the square of a weight.
_FAR = 1e60

_UNKNOWN = one_of("error", "ignore")
_LEARNING: Mapping[str, Constraint] = {
    "unjudged": one_of("zero", "drop"),
    "select": metric_name(),
    "cv": integer(least=2),
}

# The candidates for a learned k, the default first.
_KS = (60.0, 1.0, 4.0, 12.0, 30.0, 120.0, 300.0, 1000.0)


# The lengths for which tables of terms are kept; longer lists are summed as arrays.
_TABLES = (128, 1024, 4096)


def _is_learned(value: Any) -> bool:
    return isinstance(value, str) and value == "learned"


def _or_learned(constraint: Constraint) -> Constraint:
    """Return the constraint that also accepts "learned"."""
    return Constraint(f"{constraint.allowed}, or 'learned'", lambda value: _is_learned(value) or constraint.test(value))


_WEIGHTS = _or_learned(optional(mapping("a mapping from expert to a number >= 0")))


def row_starts(preferences: Preferences) -> Ints:
    """Return where the rows of every instance begin."""
    return preferences.list_offsets[preferences.list_starts]


def sum_by_slot(
    preferences: Preferences,
    terms: Floats,
    weights: Floats | None,
    *,
    absent: Floats | None = None,
    fine: bool = False,
) -> Floats:
    """Return the weighted sum of the terms of every slot, the same bits for any order of experts.

    A list adds `absent` of the list to the items it leaves out, or nothing. With `fine`, small sums keep all digits
    beside large ones of the same instance.
    """
    if absent is not None:
        rest = sum_by_instance(preferences, absent, weights)[preferences.slots.instance]
        return rest + sum_by_slot(preferences, terms - np.repeat(absent, preferences.list_lengths), weights, fine=fine)
    if weights is not None:
        terms = terms * np.repeat(weights, preferences.list_lengths)
    starts, lists = row_starts(preferences), preferences.list_starts
    most = lists[1:] - lists[:-1]
    return exact_sums(terms, preferences.slot, preferences.n_slots, starts, most, fine=fine)


def sum_by_instance(preferences: Preferences, terms: Floats, weights: Floats | None) -> Floats:
    """Return the weighted sum of the terms of the lists of every instance, the same bits for any order."""
    if weights is not None:
        terms = terms * weights
    starts = preferences.list_starts
    return exact_sums(terms, preferences.list_instance, len(preferences), starts, np.diff(starts))


def count_lists(preferences: Preferences, weights: Floats | None) -> Floats:
    """Return the total weight of the lists that hold every slot."""
    if weights is None:
        return np.bincount(preferences.slot, minlength=preferences.n_slots).astype(np.float64)
    return sum_by_slot(preferences, np.ones(preferences.n_rows), weights)


def put_last(preferences: Preferences, score: Floats, silent: NDArray[np.bool_]) -> Floats:
    """Return the scores with the silent slots, which are in no list, at the end of their instance.

    They score 0, or the lowest score of the others where that is below 0.
    """
    if not silent.any():
        return score
    instance = preferences.slots.instance
    lowest = np.zeros(len(preferences))
    np.minimum.at(lowest, instance[~silent], score[~silent])
    return np.where(silent, lowest[instance], score)


class WeightedFusion(Aggregator):
    """Base class of fusion by a weighted sum, with given or learned weights."""

    learns_labels_by: ClassVar[Mapping[str, str]] = {"weights": "learned"}

    weights: Mapping[str, float] | str | None
    unknown_experts: str
    unjudged: str
    select: str
    cv: int

    adherence_: Annotated[Floats, Within(least=0)]
    training_: Annotated[dict[str, Any], RECORDED_RANGE]

    def _learns(self) -> bool:
        return self.needs_labels()

    def _list_weights(self, preferences: Preferences) -> Floats | None:
        """Return the weight of every list: that of the preferences times that of the expert; None if all are 1."""
        owner = type(self).__name__
        if not isinstance(self.weights, str):
            return list_weights(preferences, self.weights, owner, self.unknown_experts)
        if "adherence_" not in self.__dict__:
            raise NotFittedError.of(owner)
        known = dict(zip(self.experts_, self.adherence_.tolist(), strict=True))
        check_known(preferences, known, owner, self.unknown_experts)
        by_expert = np.array([known.get(e, 0.0) for e in preferences.experts], dtype=np.float64)
        out = by_expert[preferences.list_expert]
        return out if preferences.list_weight is None else out * preferences.list_weight

    def _check_state(self) -> None:
        check_record(self)


def by_expert(
    preferences: Preferences,
    terms: Floats,
    weights: Floats | None,
    *,
    absent: Floats | None = None,
    factor: Floats | None = None,
) -> tuple[list[str], Floats, Floats]:
    """Return the experts, their contributions to every slot, and 0 for the constant part.

    A contribution is weight times term, or weight times `absent` of the list where it leaves the item out, times the
    `factor` of the slot.
    """
    out = np.zeros((preferences.n_slots, preferences.n_experts))
    if absent is not None:
        given = np.zeros((len(preferences), preferences.n_experts))
        given[preferences.list_instance, preferences.list_expert] = absent if weights is None else absent * weights
        out += given[preferences.slots.instance]
    if weights is not None:
        terms = terms * np.repeat(weights, preferences.list_lengths)
    out[preferences.slot, preferences.row_expert] = terms
    if factor is not None:
        out *= factor[:, np.newaxis]
    return preferences.experts.tolist(), out, np.zeros(preferences.n_slots)


def rank_terms(rank: Floats, k: float) -> Floats:
    """Return the term 1 / (k + rank) of reciprocal rank fusion for each rank."""
    out: Floats = 1.0 / (k + rank)
    return out


def reciprocal_ranks(preferences: Preferences, k: float, ties: str, weights: Floats | None) -> Floats:
    """Return the score of reciprocal rank fusion for every slot."""
    return sum_by_slot(preferences, rank_terms(preferences.ranks(ties), k), weights)


@lru_cache(maxsize=64)
def _rank_tables(k: float, weights: tuple[float, ...], n: int) -> list[list[float]]:
    """Return the terms of positions 1 to n in lists of these weights, as `sum_by_slot` rounds them."""
    terms = np.multiply.outer(weights, rank_terms(np.arange(1, n + 1, dtype=np.float64), k))
    # The first term of a list is its largest: those beyond its end do not change the grid.
    rounded = rounded_to_grid(terms.ravel(), np.array([0, terms.size]), np.array([len(weights)]))
    return [rounded[e * n : (e + 1) * n].tolist() for e in range(len(weights))]


@register_method
class RRF(WeightedFusion):
    """Reciprocal rank fusion: each list gives its item at rank r the score 1 / (k + r).

    score(i) = sum over lists of w / (k + r_i). Ranks of ranked lists are used as given; scores and ratings are ranked
    first, equal ones sharing a rank under `ties`. An item that a list leaves out gets nothing from it; an item in no
    list scores 0. Empty lists add nothing.

    Parameters
    ----------
    k : float or "learned"
        The larger, the slower scores decay with rank; 60 in the original paper. "learned": `fit` chooses it from
        labels, among numbers from 1 to 1000.
    weights : mapping from expert to float, or "learned", optional
        Trust in each expert; those not named weigh 1. "learned": `fit` learns it from labels. Multiplied by the weights
        of the preferences.
    ties : {"min", "max", "average", "dense", "ordinal"}
        The rank that equal scores of one list share.
    normalize : bool
        Whether scores are divided by that of an item which every list of the instance ranks first, so that they lie
        between 0 and 1. The order stays.
    unknown_experts : {"error", "ignore"}
        What to do with weights of experts that are not in the preferences, and with experts without a learned weight;
        ignored experts have weight 0.
    unjudged : {"zero", "drop"}
        Whether training items without a label count as labelled 0, or are left out.
    select : str
        The metric by which k and the penalty on weights are chosen, in the papers' convention.
    cv : int
        The folds of the cross-validation that is used where `fit` gets no validation data.

    Attributes
    ----------
    k_ : float
        k as chosen, where it is learned.
    experts_, adherence_
        The experts of the training data and their weights, where these are learned: the mean is 1.
    training_ : dict
        Where something is learned, a record of the training lists; see `CRF`.

    Notes
    -----
    Cost O(R) for R rows, plus the sort of lists that are not sorted by score already. Learned or not, the consensus is
    a sum.

    Learned weights minimise the mean over instances of -Σ_i t_i ln softmax(score)_i, t being 2^label - 1 as shares of
    their sum, plus ridge/2 times the variance of the weights. The problem is convex for every k. Weights are not
    negative, so that an expert who is mostly wrong gets 0. Ridges range from infinity, which is plain fusion, down to
    0.0003. The ridge is chosen at k = 60, then k at that ridge, on the validation data given to `fit`, or by
    cross-validation. With fewer than four usable instances nothing is chosen: the ridge is 0.1 and k is 60. An expert
    without a list in training has the mean weight. Each ridge costs a few Newton steps of O(R K + K³) for K experts;
    the models of the folds start from the weights of all instances.

    References
    ----------
    Cormack, Clarke and Büttcher, Reciprocal rank fusion outperforms Condorcet and individual rank learning methods,
    SIGIR 2009. Learned weights are ours.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": ["a", "b", "c"], "dense": ["b", "d"]})
    >>> cc.RRF(k=60).fit_predict(runs).ranking()
    ['b', 'a', 'd', 'c']
    >>> cc.RRF(normalize=True).fit_predict(runs).score.round(3).tolist()
    [0.5, 0.992, 0.484, 0.492]

    With labels, experts who agree with them get larger weights:

    >>> runs, labels = cc.synthetic.labelled_runs(60, random_state=1)
    >>> rrf = cc.RRF(k="learned", weights="learned").fit(runs[:40], labels)
    >>> bool(rrf.adherence_[rrf.experts_.index("e1")] > 1), bool(rrf.adherence_[rrf.experts_.index("e8")] == 0)
    (True, True)
    """

    name = "rrf"
    tags = Tags(accepts=LISTS, heuristic=True, cost="O(R)")
    learns_labels_by: ClassVar[Mapping[str, str]] = {"k": "learned", "weights": "learned"}
    _relative_weights = True
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "k": _or_learned(number(above=0)),
        "weights": _WEIGHTS,
        "ties": one_of(*TIES),
        "normalize": boolean(),
        "unknown_experts": _UNKNOWN,
        **_LEARNING,
    }

    k_: Annotated[float, Within(1e-12)]

    def __init__(
        self,
        *,
        k: float | str = 60,
        weights: Mapping[str, float] | str | None = None,
        ties: str = "average",
        normalize: bool = False,
        unknown_experts: str = "error",
        unjudged: str = "zero",
        select: str = "ndcg@10",
        cv: int = 5,
    ) -> None:
        self.k = k
        self.weights = weights
        self.ties = ties
        self.normalize = normalize
        self.unknown_experts = unknown_experts
        self.unjudged = unjudged
        self.select = select
        self.cv = cv

    def _fit(self, preferences: Any, labels: Labels | None, validation: Any, features: Features | None) -> None:
        if not (isinstance(self.k, str) or isinstance(self.weights, str)):
            return
        from concordant.aggregators._weight_learning import TermCandidate, learn

        ks = _KS if isinstance(self.k, str) else (float(self.k),)
        ties = self.ties
        found = learn(
            self,
            preferences,
            labels,
            validation,
            lambda p: p.ranks(ties),
            [TermCandidate({"k": k}, partial(rank_terms, k=k)) for k in ks],
        )
        if isinstance(self.k, str):
            self.k_ = ks[found.candidate]
        else:
            self.fit_info_.chosen.pop("k")
        if isinstance(self.weights, str):
            self.experts_, self.adherence_ = found.experts, found.weights

    def _decay(self) -> float:
        """Return k, as given or as learned."""
        if not isinstance(self.k, str):
            return self.k
        if "k_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)
        return self.k_

    def _scores(self, preferences: Preferences) -> Floats:
        k, weights = self._decay(), self._list_weights(preferences)
        score = reciprocal_ranks(preferences, k, self.ties, weights)
        return score / self._best_score(preferences, k, weights) if self.normalize else score

    def _best_score(self, preferences: Preferences, k: float, weights: Floats | None) -> Floats:
        """Return for every slot the score of an item that all lists of the instance rank first."""
        best = sum_by_instance(preferences, np.full(preferences.n_lists, 1.0 / (k + 1.0)), weights)
        # Where all lists weigh 0, every score is 0 already.
        return np.where(best > 0, best, 1.0)[preferences.slots.instance]

    def _contributions(self, preferences: Preferences) -> tuple[list[str], Floats, Floats]:
        k, weights = self._decay(), self._list_weights(preferences)
        factor = 1.0 / self._best_score(preferences, k, weights) if self.normalize else None
        return by_expert(preferences, rank_terms(preferences.ranks(self.ties), k), weights, factor=factor)

    def _position_tables(
        self,
        names: Sequence[str],
        lengths: Sequence[int],
        weights: Sequence[float] | None,
        n_items: Callable[[], int],
    ) -> tuple[Sequence[Sequence[float]], float] | None:
        if self.weights or self.normalize or (longest := max(lengths)) > _TABLES[-1]:
            return None
        n = next(n for n in _TABLES if longest <= n)
        return _rank_tables(self._decay(), tuple(weights or [1.0] * len(names)), n), 0.0


@register_method
class ISR(Aggregator):
    """Inverse square rank: the number of lists that hold the item times the sum of 1 / r² over them.

    score(i) = n_i * sum over lists of w / r_i², n_i = sum of the weights of the lists that hold i. Ranks as in RRF: as
    given, or positions of the scores with equal ones sharing a rank under `ties`. An item that a list leaves out gets
    nothing from it; an item in no list scores 0. Empty lists add nothing.

    Parameters
    ----------
    ties : {"min", "max", "average", "dense", "ordinal"}
        The rank that equal scores of one list share.

    Notes
    -----
    Cost O(R) for R rows, plus the sort of lists that are not sorted by score already. Scores fall fast, so two scores
    are equal when they agree to 1e-12 relative to themselves, not to the best: a list of any length keeps its order.
    Equal to ranx's `isr` where no list has ties; ranx ranks equal scores in input order.

    References
    ----------
    Mourão, Martins and Magalhães, Multimodal medical information retrieval with unsupervised rank fusion, Computerized
    Medical Imaging and Graphics 39, 2015.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": ["a", "b"], "dense": ["b", "d"]})
    >>> cc.ISR().fit_predict(runs).score.tolist()
    [1.0, 2.5, 0.25]
    """

    name = "isr"
    tags = Tags(accepts=LISTS, heuristic=True, cost="O(R)")
    _relative_weights = True
    _relative_tolerance = True
    constraints: ClassVar[Mapping[str, Constraint]] = {"ties": one_of(*TIES)}

    def __init__(self, *, ties: str = "average") -> None:
        self.ties = ties

    def _scores(self, preferences: Preferences) -> Floats:
        return count_lists(preferences, preferences.list_weight) * _sum_of_inverse_squares(preferences, self.ties)

    def _contributions(self, preferences: Preferences) -> tuple[list[str], Floats, Floats]:
        weights = preferences.list_weight
        terms = _inverse_squares(preferences, self.ties)
        return by_expert(preferences, terms, weights, factor=count_lists(preferences, weights))


@register_method
class LogISR(Aggregator):
    """Logarithmic inverse square rank: the logarithm of the number of lists times the sum of 1 / r² over them.

    score(i) = ln(max(n_i, 1) + sigma) * sum over lists of w / r_i², n_i = sum of the weights of the lists that hold
    i. Ranks and ties as in ISR. An item that a list leaves out gets nothing from it; an item in no list scores 0.
    Empty lists add nothing.

    Parameters
    ----------
    sigma : float
        Keeps items of a single list apart; 0 is the bare Log_ISR, in which all of them score 0.
    ties : {"min", "max", "average", "dense", "ordinal"}
        The rank that equal scores of one list share.

    Notes
    -----
    Cost O(R) for R rows. ``sigma=0`` is ranx's `log_isr`, the default is its `logn_isr`.

    References
    ----------
    Mourão, Martins and Magalhães, Multimodal medical information retrieval with unsupervised rank fusion, Computerized
    Medical Imaging and Graphics 39, 2015.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": ["a", "b", "c"], "dense": ["d", "c"]})
    >>> cc.LogISR().fit_predict(runs).ranking()
    ['c', 'a', 'd', 'b']
    """

    name = "log-isr"
    tags = Tags(accepts=LISTS, heuristic=True, cost="O(R)")
    _relative_tolerance = True
    constraints: ClassVar[Mapping[str, Constraint]] = {"sigma": number(least=0, most=1), "ties": one_of(*TIES)}

    def __init__(self, *, sigma: float = 0.01, ties: str = "average") -> None:
        self.sigma = sigma
        self.ties = ties

    def _factor(self, preferences: Preferences) -> Floats:
        """Return log(n_i + sigma) for every slot."""
        # With weights below 1 the logarithm would be negative and reverse the order.
        return np.log(np.maximum(count_lists(preferences, preferences.list_weight), 1.0) + self.sigma)

    def _scores(self, preferences: Preferences) -> Floats:
        return self._factor(preferences) * _sum_of_inverse_squares(preferences, self.ties)

    def _contributions(self, preferences: Preferences) -> tuple[list[str], Floats, Floats]:
        terms = _inverse_squares(preferences, self.ties)
        return by_expert(preferences, terms, preferences.list_weight, factor=self._factor(preferences))


def _inverse_squares(preferences: Preferences, ties: str) -> Floats:
    """Return 1 / r ** 2 for every row."""
    rank = preferences.ranks(ties)
    return 1.0 / (rank * rank)


def _sum_of_inverse_squares(preferences: Preferences, ties: str) -> Floats:
    """Return the weighted sum of 1 / r ** 2 for every slot."""
    return sum_by_slot(preferences, _inverse_squares(preferences, ties), preferences.list_weight, fine=True)


@register_method
class RBC(Aggregator):
    """Rank-biased centroids: each list gives its item at rank r the score (1 - phi) * phi^(r - 1).

    score(i) = sum over lists of w * (1 - phi) * phi^(r_i - 1). It is the expected number of lists in which a user sees
    the item, if the user goes from each item to the next with probability phi, as in rank-biased precision. Ranks as
    in RRF: as given, or positions of the scores with equal ones sharing a rank under `ties`. An item that a list leaves
    out gets nothing from it; an item in no list scores 0. Empty lists add nothing.

    Parameters
    ----------
    phi : float
        The persistence: the larger, the deeper lists count. The mean depth is 1 / (1 - phi).
    ties : {"min", "max", "average", "dense", "ordinal"}
        The rank that equal scores of one list share.

    Notes
    -----
    Cost O(R) for R rows, plus the sort of lists that are not sorted by score already. Scores fall fast, so two scores
    are equal when they agree to 1e-12 relative to themselves. Items whose scores are below 1e-30 of the best may tie:
    those after rank 650 of a list at phi = 0.9, after rank 3,300 at 0.98. Equal to ranx's `rbc` where no list has ties;
    ranx ranks equal scores in input order.

    References
    ----------
    Bailey, Moffat, Scholer and Thomas, Retrieval consistency in the presence of query variations, SIGIR 2017.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": ["a", "b", "c"], "dense": ["b", "d"]})
    >>> cc.RBC(phi=0.5).fit_predict(runs).score.tolist()
    [0.5, 0.75, 0.125, 0.25]
    """

    name = "rbc"
    tags = Tags(accepts=LISTS, heuristic=True, cost="O(R)")
    _relative_weights = True
    _relative_tolerance = True
    constraints: ClassVar[Mapping[str, Constraint]] = {"phi": number(above=0, below=1), "ties": one_of(*TIES)}

    def __init__(self, *, phi: float = 0.98, ties: str = "average") -> None:
        self.phi = phi
        self.ties = ties

    def _terms(self, preferences: Preferences) -> Floats:
        """Return (1 - phi) phi ** (r - 1) for every row."""
        terms: Floats = (1.0 - self.phi) * self.phi ** (preferences.ranks(self.ties) - 1.0)
        return terms

    def _scores(self, preferences: Preferences) -> Floats:
        return sum_by_slot(preferences, self._terms(preferences), preferences.list_weight, fine=True)

    def _contributions(self, preferences: Preferences) -> tuple[list[str], Floats, Floats]:
        return by_expert(preferences, self._terms(preferences), preferences.list_weight)


def normalise(preferences: Preferences, norm: str, owner: str) -> tuple[Floats, Floats | None]:
    """Return the normalised score of every row, and the score of each list for absent items (None for none).

    Parameters
    ----------
    preferences : Preferences
        Scores and ratings as they are; ranks r count as scores -r.
    norm : {"min-max", "max", "sum", "z-score", "three-sigma", "rank", "borda", "none"}
        See `CombSUM`.
    owner : str
        The method named in errors.
    """
    if norm in ("rank", "borda"):
        position = preferences.positions("average")
        lengths = preferences.list_lengths
        if norm == "rank":
            return 1.0 - (position - 1.0) / np.repeat(lengths, lengths), None
        sizes = np.diff(preferences.slots.offsets)[preferences.list_instance].astype(np.float64)
        return 1.0 - (position - 1.0) / np.repeat(sizes, lengths), (sizes - lengths + 1.0) / (2.0 * sizes)
    if preferences.kind == "rank" and norm in ("max", "none"):
        raise KindError(
            f"{owner} with norm={norm!r} needs scores or ratings: ranks have no zero to measure from. "
            "Use norm='min-max', 'sum', 'z-score', 'three-sigma', 'rank' or 'borda' for ranks."
        )
    value = preferences.strengths()
    if norm == "none" or preferences.n_rows == 0:
        return value, None
    if norm == "three-sigma":
        return three_sigma(_scaled(value, preferences.list_offsets, "z-score")), None
    return _scaled(value, preferences.list_offsets, norm), None


def three_sigma(z: Floats, *, clip: bool = True) -> Floats:
    """Return z-scores mapped to 0–1: three standard deviations below the mean give 0, three above it 1."""
    out = 0.5 + z / 6.0
    return np.clip(out, 0.0, 1.0, out=out) if clip else out


def _scaled(value: Floats, offsets: Ints, norm: str) -> Floats:
    """Return the values of every (non-empty) list under a norm of scores."""
    starts, lengths = offsets[:-1], np.diff(offsets)
    high = np.maximum.reduceat(value, starts)
    low = np.minimum.reduceat(value, starts)
    size = np.maximum(high, -low)
    if not ((size == 0) | ((size > _SMALL) & (size < _LARGE))).all():
        # Norms are scale-free; after scaling by a power of 2 sums and squares do not overflow.
        power = -np.frexp(size)[1]
        value = np.ldexp(value, np.repeat(power, lengths))
        high, low = np.ldexp(high, power), np.ldexp(low, power)
    if norm == "max":
        scale = np.where(high > 0, high, -low)
        scale[scale == 0] = 1.0
        scaled: Floats = value / np.repeat(scale, lengths)
        return scaled
    # Subtract the smallest value first, so that a large common offset costs no digits.
    out: Floats = value - np.repeat(low, lengths)
    flat = high == low
    if norm == "min-max":
        scale, constant = high - low, np.ones(len(lengths))
    elif norm == "sum":
        scale, constant = np.add.reduceat(out, starts), 1.0 / lengths
    else:
        out -= np.repeat(np.add.reduceat(out, starts) / lengths, lengths)
        scale, constant = np.sqrt(np.add.reduceat(out * out, starts) / lengths), np.zeros(len(lengths))
    scale[flat] = 1.0
    out /= np.repeat(scale, lengths)
    if flat.any():
        rows = np.repeat(flat, lengths)
        out[rows] = np.repeat(constant, lengths)[rows]
    return out


class _Comb(Aggregator):
    """Base class: normalise every list, then combine the normalised scores of each item in `_combine`."""

    tags = Tags(accepts=LISTS, heuristic=True, cost="O(R)")
    _relative_weights = True
    constraints: ClassVar[Mapping[str, Constraint]] = {"norm": one_of(*NORMS)}

    def __init__(self, *, norm: str = "min-max") -> None:
        self.norm = norm

    def _list_weights(self, preferences: Preferences) -> Floats | None:
        return preferences.list_weight

    def _normalised(self, preferences: Preferences) -> tuple[Floats, Floats | None]:
        return normalise(preferences, self.norm, type(self).__name__)

    def _scores(self, preferences: Preferences) -> Floats:
        value, absent = self._normalised(preferences)
        weights = self._list_weights(preferences)
        score = self._combine(preferences, value, absent, weights)
        # Negative values may cancel others, which leaves rounding errors.
        if (value < 0).any():
            size = self._combine(preferences, np.abs(value), absent, weights)
            score = merge_ties(score, size, preferences.slots.offsets)
        # Under "borda" every list gives every item a score.
        return score if absent is not None else put_last(preferences, score, count_lists(preferences, weights) == 0)

    def _combine(
        self, preferences: Preferences, value: Floats, absent: Floats | None, weights: Floats | None
    ) -> Floats:
        """Return one score per slot from the normalised scores; anything finite for slots in no list."""
        raise TypeError(f"{type(self).__name__} does not define _combine")


def _number(preferences: Preferences, absent: Floats | None, weights: Floats | None) -> Floats:
    """Return the total weight of the lists with a value for every slot: those that hold it, or all with `absent`."""
    if absent is None:
        return count_lists(preferences, weights)
    return sum_by_instance(preferences, np.ones(preferences.n_lists), weights)[preferences.slots.instance]


class _CombSum(_Comb):
    """Base class: score(i) = n_i ** gamma * sum over lists of w * s_i, which each list adds its part to."""

    _gamma: ClassVar[int] = 0

    def _combine(
        self, preferences: Preferences, value: Floats, absent: Floats | None, weights: Floats | None
    ) -> Floats:
        total = sum_by_slot(preferences, value, weights, absent=absent)
        if self._gamma == 0:
            return total
        number = _number(preferences, absent, weights)
        return number * total if self._gamma > 0 else total / np.where(number > 0, number, 1.0)

    def _contributions(self, preferences: Preferences) -> tuple[list[str], Floats, Floats]:
        value, absent = self._normalised(preferences)
        weights = self._list_weights(preferences)
        number = _number(preferences, absent, weights)
        factor = np.where(number > 0, number, 1.0) ** self._gamma if self._gamma else None
        experts, out, base = by_expert(preferences, value, weights, absent=absent, factor=factor)
        # The score of an item in no list is no expert's contribution.
        silent = number == 0
        base[silent] = self._scores(preferences)[silent] - out[silent].sum(axis=1)
        return experts, out, base


@register_method
class CombSUM(_CombSum):
    """The sum of the normalised scores that the lists give the item.

    score(i) = sum over lists of w * s_i. An item that a list leaves out gets nothing from it; an item in no list
    scores 0, or shares the lowest score where that is below 0. Empty lists add nothing.

    Parameters
    ----------
    norm : {"min-max", "max", "sum", "z-score", "three-sigma", "rank", "borda", "none"}
        The normalisation of the scores s of each list. Ties keep equal values under all of them.

        - "min-max": (s - min) / (max - min); 1 for every item of a list whose scores are all equal.
        - "max": s / max; where max <= 0, s divided by the largest magnitude, which keeps the order; 0 where all
          scores are 0.
        - "sum": (s - min) / sum of (s - min) over the list; 1 / m for the m items of a list of equal scores.
        - "z-score": (s - mean) / standard deviation; 0 for every item of a list of equal scores.
        - "three-sigma": 1/2 + z-score / 6, clipped to 0–1: three standard deviations below the mean give 0, three above
          it 1; 1/2 for every item of a list of equal scores. The sum is distribution-based score fusion; see `DBSF`.
        - "rank": 1 - (p - 1) / m for position p of m, equal scores sharing their mean position.
        - "borda": 1 - (p - 1) / M with M items in the instance; an item the list leaves out gets (M - m + 1) / 2M.
        - "none": s as it is.

    Notes
    -----
    Cost O(R) for R rows. Ranks count as scores -r, except under "max" and "none", which reject ranks because they have
    no zero. Values of both signs may cancel: items tie where their scores agree to 1e-12 of the sum of magnitudes.
    Equal to ranx except for lists of equal scores, which get 0 in ranx, and for ties under "rank" and "borda", which
    ranx breaks by input order.

    References
    ----------
    Fox and Shaw, Combination of multiple searches, TREC-2, 1993. Normalisations: Lee, Analyses of multiple evidence
    combination, SIGIR 1997; Montague and Aslam, Relevance score normalization for metasearch, CIKM 2001; Renda and
    Straccia, Web metasearch: rank vs. score based rank aggregation methods, SAC 2003.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": {"a": 9.0, "b": 7.0, "c": 5.0}, "dense": {"b": 0.9, "c": 0.1}})
    >>> cc.CombSUM().fit_predict(runs).score.tolist()
    [1.0, 1.5, 0.0]
    """

    name = "comb-sum"


@register_method
class DBSF(_CombSum):
    """Distribution-based score fusion: the sum of the scores, scaled by the mean and standard deviation of their list.

    score(i) = sum over lists of w * (1/2 + (s_i - mean) / (6 * standard deviation)), each term clipped to 0–1. Scores
    three standard deviations below the mean of the list become 0, three above it 1; those of a list of equal scores
    become 1/2. An item that a list leaves out gets nothing from it; an item in no list scores 0, or shares the lowest
    score where that is below 0. Empty lists add nothing.

    Parameters
    ----------
    clip : bool
        Whether scores beyond three standard deviations are clipped. They tie then within their list; without, a few
        very high scores may outweigh the other lists.
    ddof : {0, 1}
        Whether the standard deviation divides by the m scores of a list (0) or by m - 1 (1).

    Notes
    -----
    Cost O(R) for R rows. Ranks r count as scores -r. ``DBSF()`` is ``CombSUM(norm="three-sigma")``; weights learned
    from labels: ``WeightedSum(weights="learned", norm="three-sigma")``. ``DBSF(clip=False, ddof=1)`` is Qdrant's dbsf.
    ``DBSF(clip=False)`` has the order of LlamaIndex's dist_based_score, which takes the mean over lists, and 1 or 0 for
    a list of equal scores. Haystack takes the largest term of an item instead of the sum.

    References
    ----------
    Mazzeschi, Distribution-based score fusion (DBSF), a new approach to vector search ranking, 2023. The z-score as a
    normalisation: Montague and Aslam, Relevance score normalization for metasearch, CIKM 2001.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": {"a": 9.0, "b": 7.0, "c": 5.0}, "dense": {"b": 0.9, "c": 0.1}})
    >>> cc.DBSF().fit_predict(runs).score.round(3).tolist()
    [0.704, 1.167, 0.629]
    """

    name = "dbsf"
    # Clipping ties the highest scores of a long list.
    tags = Tags(accepts=LISTS, heuristic=True, cost="O(R)", faithful=False)
    constraints: ClassVar[Mapping[str, Constraint]] = {"clip": boolean(), "ddof": one_of(0, 1)}

    def __init__(self, *, clip: bool = True, ddof: int = 0) -> None:
        self.clip = clip
        self.ddof = ddof

    def _normalised(self, preferences: Preferences) -> tuple[Floats, Floats | None]:
        z, absent = normalise(preferences, "z-score", type(self).__name__)
        if self.ddof:
            lengths = preferences.list_lengths
            z = z * np.repeat(np.sqrt((lengths - 1.0) / lengths), lengths)
        return three_sigma(z, clip=self.clip), absent


@register_method
class CombMNZ(_CombSum):
    """The sum of the normalised scores of the item times the number of lists that hold it.

    score(i) = n_i * sum over lists of w * s_i, n_i = sum of the weights of the lists that hold i (of all lists under
    norm="borda", which gives every item a value). An item that a list leaves out gets nothing from it; an item in no
    list scores 0, or shares the lowest score where that is below 0. Empty lists add nothing.

    Parameters
    ----------
    norm : {"min-max", "max", "sum", "z-score", "three-sigma", "rank", "borda", "none"}
        The normalisation of the scores of each list; see `CombSUM`.

    Notes
    -----
    Cost O(R) for R rows.

    References
    ----------
    Fox and Shaw, Combination of multiple searches, TREC-2, 1993.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": {"a": 9.0, "b": 7.0, "c": 5.0}, "dense": {"b": 0.9, "c": 0.1}})
    >>> cc.CombMNZ().fit_predict(runs).score.tolist()
    [1.0, 3.0, 0.0]
    """

    name = "comb-mnz"
    _gamma = 1


@register_method
class CombANZ(_CombSum):
    """The mean of the normalised scores of the item over the lists that hold it.

    score(i) = sum over lists of w * s_i / n_i, n_i = sum of the weights of the lists that hold i (of all lists under
    norm="borda"). Lists that leave the item out do not count; an item in no list scores 0, or shares the lowest score
    where that is below 0. Empty lists add nothing.

    Parameters
    ----------
    norm : {"min-max", "max", "sum", "z-score", "three-sigma", "rank", "borda", "none"}
        The normalisation of the scores of each list; see `CombSUM`.

    Notes
    -----
    Cost O(R) for R rows.

    References
    ----------
    Fox and Shaw, Combination of multiple searches, TREC-2, 1993.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": {"a": 9.0, "b": 7.0, "c": 5.0}, "dense": {"b": 0.9, "c": 0.1}})
    >>> cc.CombANZ().fit_predict(runs).score.tolist()
    [1.0, 0.75, 0.0]
    """

    name = "comb-anz"
    _gamma = -1


def _extreme(
    ufunc: np.ufunc, preferences: Preferences, value: Floats, absent: Floats | None, weights: Floats | None
) -> Floats:
    """Return the smallest or largest value of every slot over the lists of positive weight; 0 where there is none."""
    start = np.inf if ufunc is np.minimum else -np.inf
    out = np.full(preferences.n_slots, start)
    if absent is None:
        slot = preferences.slot
        if weights is not None:
            voting = np.repeat(weights > 0, preferences.list_lengths)
            slot, value = slot[voting], value[voting]
        ufunc.at(out, slot, value)
    else:
        for slots, lists, cells in _cells(preferences, value, absent):
            voting = np.ones(cells.shape, dtype=np.bool_) if weights is None else weights[lists] > 0
            out[slots] = ufunc.reduce(np.where(voting, cells, start), axis=1)
    out[np.isinf(out)] = 0.0
    return out


def _cells(preferences: Preferences, value: Floats, absent: Floats | None) -> Iterator[tuple[Ints, Ints, Floats]]:
    p = preferences
    return cell_blocks(value, absent, p.slot, p.list_offsets, p.list_starts, p.slots.offsets)


@register_method
class CombMIN(_Comb):
    """The smallest normalised score of the item over the lists that hold it.

    score(i) = min over lists of s_i. Lists that leave the item out do not count; an item in no list scores 0, or shares
    the lowest score where that is below 0. Empty lists add nothing. Lists of weight 0 do not count; other weights make
    no difference.

    Parameters
    ----------
    norm : {"min-max", "max", "sum", "z-score", "three-sigma", "rank", "borda", "none"}
        The normalisation of the scores of each list; see `CombSUM`.

    Notes
    -----
    Cost O(R) for R rows; O(K M) for K lists over M items under norm="borda".

    References
    ----------
    Fox and Shaw, Combination of multiple searches, TREC-2, 1993.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": {"a": 9.0, "b": 7.0, "c": 5.0}, "dense": {"b": 0.9, "c": 0.1}})
    >>> cc.CombMIN().fit_predict(runs).score.tolist()
    [1.0, 0.5, 0.0]
    """

    name = "comb-min"

    def _combine(
        self, preferences: Preferences, value: Floats, absent: Floats | None, weights: Floats | None
    ) -> Floats:
        return _extreme(np.minimum, preferences, value, absent, weights)


@register_method
class CombMAX(_Comb):
    """The largest normalised score of the item over the lists that hold it.

    score(i) = max over lists of s_i. Lists that leave the item out do not count; an item in no list scores 0, or shares
    the lowest score where that is below 0. Empty lists add nothing. Lists of weight 0 do not count; other weights make
    no difference.

    Parameters
    ----------
    norm : {"min-max", "max", "sum", "z-score", "three-sigma", "rank", "borda", "none"}
        The normalisation of the scores of each list; see `CombSUM`.

    Notes
    -----
    Cost O(R) for R rows; O(K M) for K lists over M items under norm="borda".

    References
    ----------
    Fox and Shaw, Combination of multiple searches, TREC-2, 1993.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": {"a": 9.0, "b": 7.0, "c": 5.0}, "dense": {"b": 0.9, "c": 0.1}})
    >>> cc.CombMAX().fit_predict(runs).score.tolist()
    [1.0, 1.0, 0.0]
    """

    name = "comb-max"

    def _combine(
        self, preferences: Preferences, value: Floats, absent: Floats | None, weights: Floats | None
    ) -> Floats:
        return _extreme(np.maximum, preferences, value, absent, weights)


@register_method
class CombMED(_Comb):
    """The median of the normalised scores of the item over the lists that hold it.

    score(i) = median over lists of s_i, a list of weight 2 counting twice; the mean of the two middle scores where
    their number is even. Lists that leave the item out do not count; an item in no list scores 0, or shares the
    lowest score where that is below 0. Empty lists add nothing.

    Parameters
    ----------
    norm : {"min-max", "max", "sum", "z-score", "three-sigma", "rank", "borda", "none"}
        The normalisation of the scores of each list; see `CombSUM`.

    Notes
    -----
    Cost O(K M log K) for K lists over M items.

    References
    ----------
    Fox and Shaw, Combination of multiple searches, TREC-2, 1993.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": {"a": 9.0, "b": 7.0, "c": 5.0}, "dense": {"b": 0.9, "c": 0.1}})
    >>> cc.CombMED().fit_predict(runs).score.tolist()
    [1.0, 0.75, 0.0]
    """

    name = "comb-med"
    tags = Tags(accepts=LISTS, heuristic=True, cost="O(K M log K)")

    def _combine(
        self, preferences: Preferences, value: Floats, absent: Floats | None, weights: Floats | None
    ) -> Floats:
        out = np.zeros(preferences.n_slots)
        for slots, lists, cells in _cells(preferences, value, absent):
            median = weighted_median(cells, None if weights is None else weights[lists])
            out[slots] = np.where(np.isnan(median), 0.0, median)
        return out


@register_method
class WeightedSum(WeightedFusion, _CombSum):
    """The sum of the normalised scores of the item, each list weighed by the trust in its expert.

    score(i) = sum over lists of w * s_i. CombSUM with weights given by expert. An item that a list leaves out gets
    nothing from it; an item in no list scores 0, or shares the lowest score where that is below 0. Empty lists add
    nothing.

    Parameters
    ----------
    weights : mapping from expert to float, or "learned", optional
        Trust in each expert; those not named weigh 1. "learned": `fit` learns it from labels as `RRF` does. Multiplied
        by the weights of the preferences.
    norm : {"min-max", "max", "sum", "z-score", "three-sigma", "rank", "borda", "none"}
        The normalisation of the scores of each list; see `CombSUM`.
    unknown_experts : {"error", "ignore"}
        What to do with weights of experts that are not in the preferences, and with experts without a learned weight;
        ignored experts have weight 0.
    unjudged : {"zero", "drop"}
        Whether training items without a label count as labelled 0, or are left out.
    select : str
        The metric by which the penalty on weights is chosen, in the papers' convention.
    cv : int
        The folds of the cross-validation that is used where `fit` gets no validation data.

    Attributes
    ----------
    experts_, adherence_
        The experts of the training data and their weights, where these are learned: the mean is 1.
    training_ : dict
        Where something is learned, a record of the training lists; see `CRF`.

    Notes
    -----
    Cost O(R) for R rows. Called convex or linear combination, or interpolation, elsewhere.

    References
    ----------
    Vogt and Cottrell, Fusion via a linear combination of scores, Information Retrieval 1, 1999.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": {"a": 9.0, "b": 7.0, "c": 5.0}, "dense": {"b": 0.9, "c": 0.1}})
    >>> cc.WeightedSum(weights={"dense": 0.25}).fit_predict(runs).score.tolist()
    [1.0, 0.75, 0.0]
    """

    name = "weighted-sum"
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "weights": _WEIGHTS,
        "norm": one_of(*NORMS),
        "unknown_experts": _UNKNOWN,
        **_LEARNING,
    }

    def __init__(
        self,
        *,
        weights: Mapping[str, float] | str | None = None,
        norm: str = "min-max",
        unknown_experts: str = "error",
        unjudged: str = "zero",
        select: str = "ndcg@10",
        cv: int = 5,
    ) -> None:
        self.weights = weights
        self.norm = norm
        self.unknown_experts = unknown_experts
        self.unjudged = unjudged
        self.select = select
        self.cv = cv

    def _fit(self, preferences: Any, labels: Labels | None, validation: Any, features: Features | None) -> None:
        if not isinstance(self.weights, str):
            return
        from concordant.aggregators._weight_learning import TermCandidate, learn

        found = learn(self, preferences, labels, validation, self._terms, [TermCandidate({}, lambda terms: terms)])
        self.experts_, self.adherence_ = found.experts, found.weights

    def _terms(self, preferences: Preferences) -> Floats:
        """Return the contribution of every row, relative to an absent item."""
        value, absent = self._normalised(preferences)
        return value if absent is None else value - np.repeat(absent, preferences.list_lengths)

    def _data_shift(self, preferences: Preferences) -> str:
        # These two norms use the order only.
        return "" if self.norm in ("rank", "borda") else value_shift(self, preferences)


@register_method
class CombMNZRank(Aggregator):
    """CombMNZ on ranks: the number of top-k lists that hold the item times the sum of k + 1 - r over them.

    score(i) = n_i * sum over lists of w * (k + 1 - r_i), over the lists in which r_i <= k; n_i = sum of their
    weights. Ranks are used as given, so that a rank above k counts as absent even in a short list; scores and ratings
    are ranked first, equal ones sharing a rank under `ties`. An item that a list leaves out gets nothing from it; an
    item in no list scores 0. Empty lists add nothing.

    Parameters
    ----------
    k : int, optional
        The depth to which lists count. None takes the largest rank of the instance, which is the length of its longest
        list where ranks have no gaps.
    ties : {"min", "max", "average", "dense", "ordinal"}
        The rank that equal scores of one list share.

    Notes
    -----
    Cost O(R) for R rows, plus the sort of lists that are not sorted by score already.

    References
    ----------
    Klementiev, Roth and Small, A framework for unsupervised rank aggregation, LR4IR workshop at SIGIR 2008.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": ["a", "b", "c"], "dense": ["b", "d"]})
    >>> cc.CombMNZRank().fit_predict(runs).score.tolist()
    [3.0, 10.0, 1.0, 2.0]
    """

    name = "comb-mnz-rank"
    tags = Tags(accepts=LISTS, heuristic=True, cost="O(R)")
    _relative_weights = True
    constraints: ClassVar[Mapping[str, Constraint]] = {"k": optional(integer(least=1)), "ties": one_of(*TIES)}

    def __init__(self, *, k: int | None = None, ties: str = "average") -> None:
        self.k = k
        self.ties = ties

    def _scores(self, preferences: Preferences) -> Floats:
        rank, weights = preferences.ranks(self.ties), preferences.list_weight
        starts = row_starts(preferences)
        if self.k is None:
            counted = rank if weights is None else np.where(np.repeat(weights > 0, preferences.list_lengths), rank, 0.0)
            deepest = list_maxima(counted, starts)
        else:
            deepest = np.full(len(preferences), float(self.k))
        k = np.repeat(deepest, np.diff(starts))
        if weights is not None and (deepest > _FAR).any():
            # The product below would be too large for a number, and of the weights only the ratios matter.
            lists = preferences.list_starts
            power = np.where(deepest > _FAR, np.frexp(list_maxima(weights, lists))[1], 0)
            weights = np.ldexp(weights, -np.repeat(power, np.diff(lists)))
        inside = rank <= k
        total = sum_by_slot(preferences, np.where(inside, k + 1.0 - rank, 0.0), weights)
        return total * sum_by_slot(preferences, inside.astype(np.float64), weights)
