"""Match labels to preferences by id, and evaluate a metric of scores for model selection.

`match_labels` checks labels and returns them by slot; `ValidationMetric` evaluates scores again and again on the same
slots.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Floats, Ints, read_only
from concordant.data.comparisons import Comparisons
from concordant.data.container import Container
from concordant.data.index import Slots, Texts
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import DataError, KindError, ParameterError, listing
from concordant.kernels.lists import list_ids, offsets_of, ranges

if TYPE_CHECKING:
    from concordant.base.contract import Votes
    from concordant.metrics.ranking import Judged

__all__ = [
    "ValidationMetric",
    "MatchedLabels",
    "check_distinguishable",
    "exponential_gain",
    "labels_of",
    "match_labels",
    "validation_pair",
]

# Larger exponents would make the gains of small labels vanish in sums of 2**label.
_LARGEST_EXPONENT = 30.0


class MatchedLabels(NamedTuple):
    """Labels by slot of the preferences.

    Attributes
    ----------
    label : float64[S]
        The label of every slot; NaN for slots that are not used.
    instances : int64[]
        The usable instances, in ascending order: those with at least two different labels.
    counts : dict of str to int
        Numbers of instances and labels, for `fit_info_.labels`.
    unjudged : {"zero", "drop"}
        Whether items without a label count as labelled 0 or are left out.
    """

    label: Floats
    instances: Ints
    counts: dict[str, int]
    unjudged: str


def match_labels(
    votes: Container, labels: Labels | None, owner: str, *, unjudged: str = "zero", require_usable: bool = True
) -> MatchedLabels:
    """Return the labels by slot of the votes, matched by the ids of instances and items.

    Parameters
    ----------
    votes : Preferences or Comparisons
        The training data.
    labels : Labels or None
        The ground truth.
    owner : str
        Name of the method, for messages.
    unjudged : {"zero", "drop"}
        Whether an item without a label, in an instance that has labels, counts as labelled 0 or is left out.
    require_usable : bool
        Whether to raise DataError if there is no usable instance.

    Examples
    --------
    >>> p = Preferences(["q", "q", "r"], ["x"] * 3, ["a", "b", "a"], [1, 2, 1])
    >>> truth = match_labels(p, Labels(["q", "q"], ["b", "z"], [1, 2]), "CRF")
    >>> truth.label.tolist(), truth.instances.tolist()
    ([0.0, 1.0, nan], [0])
    >>> truth.counts["unjudged"], truth.counts["elsewhere"]
    (1, 1)
    """
    if labels is None:
        raise DataError(f"{owner} learns from labels and got none. Call fit(preferences, labels).")
    if not isinstance(labels, Labels):
        raise KindError(
            f"{owner} learns from Labels. Got {type(labels).__name__}. Use concordant.read_labels, "
            "from_frame(label=...) or Labels(instance, item, label)."
        )
    _check_instances(votes, labels, owner)
    slots = votes.slots
    label = labels.align(votes).label
    judged = ~np.isnan(label)
    by_instance = np.bincount(slots.instance[judged], minlength=len(slots))
    if unjudged == "zero":
        label = np.where(judged | (by_instance[slots.instance] == 0), label, 0.0)
    high = np.full(len(slots), -np.inf)
    low = np.full(len(slots), np.inf)
    known = ~np.isnan(label)
    np.maximum.at(high, slots.instance[known], label[known])
    np.minimum.at(low, slots.instance[known], label[known])
    informative = np.flatnonzero(high > low)
    labelled = by_instance > 0
    counts = {
        "instances": len(slots),
        "labelled": int(labelled.sum()),
        "usable": len(informative),
        "items": slots.n_slots,
        "judged": int(judged.sum()),
        "unjudged": int((labelled[slots.instance] & ~judged).sum()),
        "elsewhere": int((~np.isnan(labels.label)).sum()) - int(judged.sum()),
    }
    if require_usable and not len(informative):
        raise DataError(_why_unusable(votes, counts, owner, unjudged))
    return MatchedLabels(label, informative, counts, unjudged)


def labels_of(labels: Labels, instances: Texts) -> Labels:
    """Return the labels of these instances only, in their order.

    >>> labels = Labels(["q1", "q2", "q3"], ["d"] * 3, [1, 0, 2])
    >>> labels_of(labels, Texts(["q3", "q7", "q1"])).label.tolist()
    [2.0, 1.0]
    """
    codes = labels.instances.codes
    return labels[np.array([codes[i] for i in instances if i in codes], dtype=np.int64)]


def _check_instances(votes: Container, labels: Labels, owner: str) -> None:
    """Raise DataError if the instances of votes and labels do not match."""
    labelled = labels.instances.codes
    missing = [q for q in votes.instances if q not in labelled]
    found = len(votes) - len(missing)
    if len(votes) == 0 or len(labels) == 0:
        raise DataError(f"{owner} has nothing to learn from: {len(votes)} instances, {len(labels)} of them labelled.")
    if 2 * found < min(len(votes), len(labels)):
        voted, judged = listing(votes.instances[:3].tolist()), listing(labels.instances[:3].tolist())
        raise DataError(
            f"only {found} of {len(votes)} instances have labels. The preferences have {voted}, the labels {judged}. "
            "Instances are matched by id: check that both are written alike."
        )
    if len(votes) == len(labels) and missing:
        raise DataError(
            f"preferences and labels both hold {len(votes)} instances, but not the same ones: no label for "
            f"{listing(missing, 5)}. Were two sequences split by one index? Call labels.align(preferences) first; or "
            "keep only the instances of one: preferences[...]."
        )


def _why_unusable(votes: Container, counts: dict[str, int], owner: str, unjudged: str) -> str:
    """Return a message that says why no instance is usable."""
    problem = f"{owner} found no usable label: "
    if counts["judged"] + counts["elsewhere"] == 0:
        return f"{problem}no item has one, all are NaN. Were the labels aligned with other preferences?"
    if counts["judged"] == 0:
        return (
            f"{problem}none of the {counts['elsewhere']} labels belongs to an item of the preferences. Items are "
            f"matched by id; the preferences have {listing(votes.items[:3].tolist())}."
        )
    left_out = unjudged == "drop" and counts["unjudged"] > 0
    hint = ' With unjudged="zero" the items without a label would count as 0.' if left_out else ""
    return (
        f"{problem}in each of the {counts['labelled']} labelled instances all {counts['judged']} labels are equal, and "
        f"nothing can be learned from an instance whose items are all alike.{hint}"
    )


def check_distinguishable(key: NDArray[Any], truth: MatchedLabels, votes: Votes, owner: str) -> None:
    """Raise DataError if the experts distinguish no two items in any usable instance.

    Parameters
    ----------
    key : array of S
        A hash of the votes on every slot, equal for items with the same votes.
    truth : MatchedLabels
        The usable instances and their labels.
    votes : Preferences or Comparisons
        The container of the slots.
    owner : str
        Name of the method, for messages.
    """
    offsets = votes.slots.offsets
    slots = ranges(offsets[truth.instances], offsets[truth.instances + 1])
    slots = slots[~np.isnan(truth.label[slots])]
    instance = votes.slots.instance[slots]
    # If two keys of a usable instance differ, then also two keys of items with different labels.
    starts = np.append(True, instance[1:] != instance[:-1])
    first = slots[starts][np.cumsum(starts) - 1] if len(slots) else slots
    if not (key[slots] != key[first]).any():
        raise DataError(
            f"{owner} has nothing to learn from: in none of the {len(truth.instances)} usable instances do the experts "
            "tell items of different labels apart. Their lists are empty, of no weight, or one tie; check the ranks or "
            "scores."
        )


def validation_pair(validation: Any, owner: str) -> tuple[Votes, Labels] | None:
    """Return the validation preferences and labels, or None without them; raise ParameterError for anything else."""
    if validation is None:
        return None
    if isinstance(validation, tuple) and len(validation) == 2:
        votes, labels = validation
        if isinstance(votes, (Preferences, Comparisons)) and isinstance(labels, Labels):
            return votes, labels
    raise ParameterError.invalid("validation", f"{owner}.fit", "a pair (preferences, labels)", validation)


def exponential_gain(label: Floats) -> Floats:
    """Return 2^label - 1, with negative labels as 0; if a label exceeds 30, all gains are scaled down by one factor.

    >>> exponential_gain(np.array([-1.0, 0.0, 2.0])).tolist()
    [0.0, 0.0, 3.0]
    """
    exponent = np.maximum(label, 0.0)
    unit = max(float(np.nanmax(exponent, initial=0.0)) - _LARGEST_EXPONENT, 0.0)
    gain: Floats = np.exp2(exponent - unit) - np.exp2(-unit)
    return gain


class _Hits(NamedTuple):
    """Labelled slots, where those of each instance begin, and their labels."""

    slot: Ints
    starts: Ints
    label: Floats

    @classmethod
    def of(cls, slots: Slots, label: Floats, keep: NDArray[np.bool_]) -> _Hits:
        """Return the slots to keep: those of an instance by label, the highest first."""
        slot = np.flatnonzero(keep)
        slot = slot[np.lexsort((-label[slot], slots.instance[slot]))]
        return cls(slot, offsets_of(np.bincount(slots.instance[slot], minlength=len(slots))), label[slot])

    def placed(self, score: Floats, slots: Slots) -> tuple[Codes, Ints, Floats]:
        """Return the instance, position and label of the slots in position order; ties count in the worst order."""
        from concordant.kernels.expert_rows import worst_places

        order, position = np.empty_like(self.slot), np.empty_like(self.slot)
        worst_places(read_only(score)[0], slots.offsets, self.slot, self.starts, order, position)
        return list_ids(self.starts), position, self.label[order]


class ValidationMetric:
    """A ranking metric that is evaluated again and again, with new scores for the same slots.

    Labels are matched and sorted, and ideal values computed, only once; a call finds the positions of the items with a
    positive label. Tied items count in the worst order, so that the value depends on the scores alone.

    Parameters
    ----------
    votes : Preferences or Comparisons
        The container of the slots.
    labels : Labels
        The ground truth. Labelled items that the votes do not hold count in the denominators.
    metric : str
        Such as "ndcg@10" or "map".
    convention : {"paper", "letor", "trec"}
        The convention of gains and discounts.
    rel : float
        The smallest relevant label.
    unjudged : {"zero", "drop"}
        Whether items without a label count as labelled 0, or are removed from the ranking.

    Examples
    --------
    >>> p = Preferences(["q"] * 3, ["x"] * 3, list("abc"), [1, 2, 3])
    >>> judge = ValidationMetric(p, Labels(["q"], ["b"], [1]), "rr")
    >>> judge(np.array([3.0, 2.0, 1.0])), judge(np.array([1.0, 2.0, 1.0])), judge(np.zeros(3))
    (0.5, 1.0, 0.3333333333333333)
    """

    def __init__(
        self,
        votes: Container,
        labels: Labels,
        metric: str = "ndcg@10",
        convention: str = "paper",
        rel: float = 1.0,
        unjudged: str = "zero",
    ) -> None:
        # Imported here, so that methods without model selection need not load the metrics.
        from concordant.metrics.ranking import RankedLabels, convention_named, parse_metric

        self.metric = parse_metric(metric)
        self._convention = convention_named(convention)
        self._rel = rel
        slots: Slots = votes.slots
        label = labels.align(votes).label
        self._label = np.nan_to_num(label)
        codes = slots.instances.codes
        # The instance of the votes for every label, -1 for other instances.
        instance = np.array([codes.get(q, -1) for q in labels.instances], dtype=np.int64)[labels.slots.instance]
        positive = np.flatnonzero((labels.label > 0) & (instance >= 0))
        positive = positive[np.argsort(instance[positive], kind="stable")]
        known = ~np.isnan(labels.label) & (instance >= 0)
        judged = np.bincount(instance[known], minlength=len(slots)) > 0
        self._slots = slots
        self._hits = _Hits.of(slots, label, label > 0)
        # The items of label 0 are needed only by metrics that ask for all judged items.
        self._judged = _Hits.of(slots, label, label >= 0)
        unseen = np.bincount(instance[positive], minlength=len(slots)) - np.diff(self._hits.starts)
        self._n_judged = np.bincount(instance[(labels.label >= 0) & (instance >= 0)], minlength=len(slots))
        self._ranked = RankedLabels.from_found(
            slots.instance[self._hits.slot],
            np.zeros(len(self._hits.slot), dtype=np.int64),
            self._hits.label,
            instance[positive].astype(np.int32),
            labels.label[positive],
            slots.sizes,
            slots.sizes + unseen,
            float(labels.label[known].max(initial=0.0)),
            partial(self._place_judged, np.zeros(slots.n_slots)),
        )
        self._removed = np.isnan(label) if unjudged == "drop" else None
        # Instances without any label are left out; those whose labels are all 0 have the value 0 for every order.
        self.instances: Ints = np.flatnonzero(judged)

    @property
    def n_slots(self) -> int:
        """The number of slots."""
        return self._slots.n_slots

    def is_constant(self, instances: Ints | None = None) -> bool:
        """Return whether every order of the items has the same value, so that the metric cannot select anything."""
        which = self.instances if instances is None else instances
        best, worst = self.values(self._label)[which], self.values(-self._label)[which]
        return bool((best - worst <= 1e-12).all())

    def values(self, score: Floats) -> Floats:
        """Return the metric of every instance, 0 for instances without a relevant item."""
        if self._removed is not None:
            # At the end of the ranking they change no other position.
            score = np.where(self._removed, -np.inf, score)
        _, position, label = self._hits.placed(score, self._slots)
        judged = partial(self._place_judged, score)
        ranked = replace(self._ranked, position=position, label=label, find_judged=judged)
        return self.metric.compute(ranked, self._convention, self._rel)

    def _place_judged(self, score: Floats) -> Judged:
        """Return the positions of the judged items."""
        from concordant.metrics.ranking import Judged

        return Judged(*self._judged.placed(score, self._slots), self._n_judged)

    def __call__(self, score: Floats, instances: Ints | None = None) -> float:
        """Return the mean over the given labelled instances, all of them by default."""
        which = self.instances if instances is None else instances
        return float(self.values(score)[which].mean()) if len(which) else 0.0
