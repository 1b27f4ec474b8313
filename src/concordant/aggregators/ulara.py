"""ULARA: unsupervised weights of experts from their agreement with the others, and weighted mean positions.

The disagreement of an expert is its squared distance from the mean position of the items that enough experts list.
Random experts have large distances, so they lose their weight without labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators.fusion import LISTS, sum_by_instance, sum_by_slot
from concordant.arrays import Floats, Ints
from concordant.base.contract import Aggregator, Tags
from concordant.base.params import Constraint, Within, integer, number, one_of, optional
from concordant.base.registry import register_method
from concordant.data.preferences import Preferences
from concordant.errors import IdentifiabilityWarning, listing
from concordant.execution import report_progress
from concordant.execution.blocks import shards_of
from concordant.inference.experts import learned_adherence
from concordant.kernels.cells import cell_blocks
from concordant.kernels.ratios import ratio

if TYPE_CHECKING:
    from concordant.data.features import Features
    from concordant.data.labels import Labels

__all__ = ["ULARA"]

# The share of the lists of an instance that must hold an item to make it informative.
_SHARE = 0.2
# Positions that differ by less than this share of the longest list are equal up to rounding.
_AGREED = 1e-10


@register_method
class ULARA(Aggregator):
    """Minus the weighted mean position of the item; experts who agree with the others have larger weights.

    `fit` learns one weight per expert from all instances. Item j of an instance is informative if at least `nu` lists
    hold it within their first `kappa`; p_j is the mean of their positions. tot_e = sum over informative items of (p_ej
    - p_j)², with p_ej = `kappa` + 1 for an item that the list of e leaves out or puts below that. r_e = tot_e over that
    of the average expert on the same instances, so that r = 1 is average. Instances in which an expert has no list do
    not count for or against it. With update="eg" the weights are w_e = exp(−`eta` r_e) / sum, which minimises `eta` Σ w
    r + Σ w log w. `predict` gives score(i) = -sum_e w_e p_ei / sum_e w_e over the lists of the instance.

    Tied items of a list share the mean of their positions. An item in no list scores −(`kappa` + 1) and comes last. An
    expert without a list or without informative items counts as an average one. A list of weight 2 counts as two
    experts.

    Estimand: the mean position of i among the experts, each weighted by agreement with all; there is no model of how
    lists arise.

    Parameters
    ----------
    update : {"eg", "gd", "printed"}
        "eg": exponentiated gradient, as above. "gd": the projection of (1 − `eta` (r_e − 1)) / K on the simplex, which
        is the same to first order in `eta` and can give weights of exactly 0. "printed": weights in proportion to r_e,
        the update as printed in the paper; it rewards disagreement and is for comparison only.
    eta : float
        The penalty on disagreement; 0 makes all weights equal, and large values follow the single most central expert.
    nu : int, optional
        The number of lists that must hold an item to make it informative. None takes a fifth of the lists of the
        instance, rounded up, and at least 2. Random experts seldom share an item, so larger values separate them
        better; too large a value leaves nothing to learn from when only a few experts are not random.
    kappa : int, optional
        The depth to which lists count. None takes the length of the longest list of the instance.
    unknown_experts : {"error", "ignore"}
        What `predict` does about experts that `fit` did not see; ignored experts have weight 0.

    Attributes
    ----------
    experts_ : list of str
        The experts that `fit` saw.
    adherence_ : float64[K]
        Their weights; they add up to 1 where no list has a weight.
    expert_details_ : dict
        "disagreement": r_e of every expert.

    Notes
    -----
    Cost O(K M) per instance of K lists and M items to fit, O(R) to predict. There is no iteration:
    the weights are the closed form of the update over all items. The objective in `fit_info_` is sum w r, 1 for
    equal weights; its gradient norm is that of the regularised objective on the simplex.

    References
    ----------
    Klementiev, Roth and Small, An unsupervised learning algorithm for rank aggregation, ECML 2007; A framework for
    unsupervised rank aggregation, LR4IR workshop at SIGIR 2008. Kivinen and Warmuth, Exponentiated gradient versus
    gradient descent for linear predictors, 1997.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"x": ["a", "b", "c"], "y": ["a", "c", "b"], "z": ["b", "c", "a"]})
    >>> ulara = cc.ULARA()
    >>> ulara.fit_predict(runs).ranking()
    ['a', 'b', 'c']
    >>> ulara.adherence_.round(2).tolist()
    [0.74, 0.24, 0.03]
    """

    name = "ulara"
    tags = Tags(accepts=LISTS, blocks=True, cost="O(K M)")
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "update": one_of("eg", "gd", "printed"),
        "eta": number(least=0),
        "nu": optional(integer(least=1)),
        "kappa": optional(integer(least=1)),
        "unknown_experts": one_of("error", "ignore"),
    }

    # Lists of small weight make large expert weights.
    adherence_: Annotated[Floats, Within(0, 1e50)]
    expert_details_: Annotated[dict[str, list[float]], Within(0, 1e50)]

    def __init__(
        self,
        *,
        update: str = "eg",
        eta: float = 3.0,
        nu: int | None = None,
        kappa: int | None = None,
        unknown_experts: str = "error",
    ) -> None:
        self.update = update
        self.eta = eta
        self.nu = nu
        self.kappa = kappa
        self.unknown_experts = unknown_experts

    def _fit(
        self,
        preferences: Any,
        labels: Labels | None,
        validation: Any,
        features: Features | None,
    ) -> None:
        experts, pieces = preferences.experts.tolist(), shards_of(preferences)
        total = _Sums.zeros(len(experts))
        for done, part in enumerate(pieces.map(_sums_of_block, self), 1):
            total = _Sums(*(a + b for a, b in zip(total, part, strict=True)))
            report_progress(done, len(pieces))
        self._store_weights(total, experts)

    def _sums_of(self, p: Preferences) -> _Sums:
        """Return the sums of disagreement of every expert over the lists of some instances."""
        weights = p.weights
        lengths = self._lengths(p)
        own, informative = self._disagreements(p, lengths, weights)
        average = _sums(p.list_instance, weights * own, len(p))
        average /= np.maximum(_sums(p.list_instance, weights, len(p)), np.finfo(np.float64).tiny)
        return _Sums(
            observed=_sums(p.list_expert, weights * own, p.n_experts),
            expected=_sums(p.list_expert, weights * average[p.list_instance], p.n_experts),
            lists=_sums(p.list_expert, (weights > 0).astype(np.float64), p.n_experts),
            weight=_sums(p.list_expert, weights, p.n_experts),
            informative=_sums(p.list_expert, weights * informative[p.list_instance], p.n_experts),
        )

    def _store_weights(self, sums: _Sums, experts: list[str]) -> None:
        """Learn and store the weights of the experts from the sums over all instances."""
        disagreement = ratio(sums.observed, sums.expected, 1.0)
        # The mean weight of a list of the expert: an expert of weight 2 counts as two.
        copies = sums.weight / np.maximum(sums.lists, 1.0)
        self.experts_ = experts
        self.adherence_ = self._weigh(disagreement, copies)
        self.expert_details_ = {"disagreement": disagreement.tolist()}
        self.fit_info_.n_iter = 1
        self.fit_info_.objective = float((copies * self.adherence_) @ disagreement)
        unjudged = [e for e, known in zip(experts, (sums.informative > 0).tolist(), strict=True) if not known]
        if unjudged and sums.lists.any():
            self._warn(
                f"nothing can be learned about the experts {listing(unjudged)}: they rank nothing, or only items that "
                "too few others list (see nu). They get the weight of an average expert.",
                IdentifiabilityWarning,
            )

    def _lengths(self, p: Preferences) -> Floats:
        """Return kappa for every instance."""
        if self.kappa is not None:
            return np.full(len(p), float(self.kappa))
        longest = np.zeros(len(p))
        voting = p.weights > 0
        np.maximum.at(longest, p.list_instance[voting], p.list_lengths[voting])
        return longest

    def _positions(self, p: Preferences, lengths: Floats) -> tuple[Floats, Floats]:
        """Return the position of every row and the kappa of its instance."""
        limit = np.repeat(lengths[p.list_instance], p.list_lengths)
        return p.positions("average"), limit

    def _disagreements(self, p: Preferences, lengths: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return the disagreement of every list, and the number of informative items of every instance."""
        position, limit = self._positions(p, lengths)
        position = np.where(position <= limit, position, np.nan)
        voters = _sums(p.list_instance, weights, len(p))
        if self.nu is None:
            # A fifth of 35 is 7, in spite of rounding.
            least = np.maximum(2.0, np.ceil(_SHARE * voters - 1e-9))
        else:
            least = np.full(len(p), float(self.nu))
        out, count = np.zeros(p.n_lists), np.zeros(len(p))
        for slots, lists, cells in cell_blocks(position, None, p.slot, p.list_offsets, p.list_starts, p.slots.offsets):
            instance = p.slots.instance[slots]
            present = ~np.isnan(cells)
            weight = np.where(present, weights[lists], 0.0)
            number = weight.sum(axis=1)
            informative = (number > 0) & (number >= least[instance] - 1e-9)
            if not informative.any():
                continue
            np.add.at(count, instance[informative], 1.0)
            weight, number, lists, cells = (
                weight[informative],
                number[informative],
                lists[informative],
                cells[informative],
            )
            absent = lengths[instance[informative], None] + 1.0
            cells = np.where(present[informative], cells, absent)
            mean = (weight * cells).sum(axis=1, keepdims=True) / number[:, None]
            distance = np.abs(cells - mean)
            distance[distance <= _AGREED * absent] = 0.0
            np.add.at(out, lists, distance * distance)
        return out, count

    def _weigh(self, disagreement: Floats, copies: Floats) -> Floats:
        """Return the weights of experts with these disagreements; `copies` counts equal experts."""
        total = copies.sum()
        if total == 0:
            return np.full(len(disagreement), 1.0 / max(len(disagreement), 1))
        if self.update == "gd":
            goal = (1.0 - self.eta * (disagreement - 1.0)) / total
            shift = _simplex_shift(goal[copies > 0], copies[copies > 0])
            kept: Floats = np.maximum(goal - shift, 0.0)
            self.fit_info_.gradient_norm = abs(float(copies @ kept) - 1.0)
            return kept
        if self.update == "printed":
            raw = disagreement.copy()
        else:
            raw = np.exp(-self.eta * (disagreement - disagreement[copies > 0].min()))
        weights: Floats = raw / float(copies @ raw)
        if self.update == "eg":
            seen = (copies > 0) & (weights > 0)
            gradient = self.eta * disagreement[seen] + np.log(weights[seen])
            self.fit_info_.gradient_norm = float(np.abs(gradient - gradient.mean()).max())
        return weights

    def _scores(self, preferences: Preferences) -> Floats:
        p = preferences
        lengths = self._lengths(p)
        position, limit = self._positions(p, lengths)
        above = np.where(position <= limit, limit + 1.0 - position, 0.0)
        return sum_by_slot(p, above, self._shares(p)) - (lengths + 1.0)[p.slots.instance]

    def _shares(self, p: Preferences) -> Floats:
        """Return the weight of every list, those of an instance adding up to 1."""
        weights = p.weights * learned_adherence(self, p)[p.list_expert]
        total = sum_by_instance(p, weights, None)
        # Where all experts of an instance have weight 0 they count alike.
        untrusted = (total == 0)[p.list_instance]
        if untrusted.any():
            weights = np.where(untrusted, p.weights, weights)
            total = sum_by_instance(p, weights, None)
        return weights / np.where(total > 0, total, 1.0)[p.list_instance]


class _Sums(NamedTuple):
    """Sums of disagreement per expert; those of several blocks are added.

    Attributes
    ----------
    observed, expected : float64[experts]
        The disagreement of its lists, and that of the average list of the same instances.
    lists, weight : float64[experts]
        The number of its lists and their total weight.
    informative : float64[experts]
        The number of informative items of its lists.
    """

    observed: Floats
    expected: Floats
    lists: Floats
    weight: Floats
    informative: Floats

    @classmethod
    def zeros(cls, n: int) -> _Sums:
        """Return the sums of n experts without lists."""
        return cls(*(np.zeros(n) for _ in cls._fields))


def _sums_of_block(block: Preferences, method: ULARA) -> _Sums:
    votes: Any = method._checked(block)
    return method._sums_of(votes)


def _sums(index: NDArray[Any], terms: Floats, n: int) -> Floats:
    """Return the sum of the terms at every index 0..n-1."""
    return np.bincount(index, weights=terms, minlength=n).astype(np.float64)


def _simplex_shift(goal: Floats, copies: Floats) -> float:
    """Return the t for which the sum of copies * max(goal - t, 0) is 1.

    >>> _simplex_shift(np.array([1.0, 0.5, -3.0]), np.ones(3))
    0.25
    """
    order: Ints = np.argsort(-goal, kind="stable")
    mass = np.cumsum(copies[order])
    level = (np.cumsum(copies[order] * goal[order]) - 1.0) / mass
    inside = np.flatnonzero(goal[order] > level)
    return float(level[inside[-1]]) if len(inside) else float(level[0])
