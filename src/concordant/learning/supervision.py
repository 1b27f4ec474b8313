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

from concordant.arrays import Codes, Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.container import Container
from concordant.data.index import Slots
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
    "match_labels",
    "validation_pair",
]

# 2**label beyond this says no more than the order of the labels does, and sums of it lose the small ones.
_LARGEST_EXPONENT = 30.0


class MatchedLabels(NamedTuple):
    """What the labels say about the slots of preferences.

    Attributes
    ----------
    label : float64[S]
        The label of every slot; NaN where none is to be used.
    instances : int64[]
        The instances one can learn from, ascending: their labels differ.
    counts : dict of str to int
        How far the labels go, for `fit_info_.labels`.
    """

    label: Floats
    instances: Ints
    counts: dict[str, int]


def match_labels(
    votes: Container, labels: Labels | None, owner: str, *, unjudged: str = "zero", usable: bool = True
) -> MatchedLabels:
    """Return what the labels say about the slots of the votes, matched by the ids of instances and items.

    Parameters
    ----------
    votes : Preferences or Comparisons
        What is learned from.
    labels : Labels or None
        The ground truth.
    owner : str
        Who learns, for messages.
    unjudged : {"zero", "drop"}
        What an item without a label counts for in an instance that has labels: 0, or nothing.
    usable : bool
        Whether it is an error that no instance has two different labels.

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
    if usable and not len(informative):
        raise DataError(_no_label(votes, counts, owner, unjudged))
    return MatchedLabels(label, informative, counts)


def _check_instances(votes: Container, labels: Labels, owner: str) -> None:
    """Raise when the instances of votes and labels cannot be meant for each other."""
    theirs = labels.instances.codes
    missing = [q for q in votes.instances if q not in theirs]
    found = len(votes) - len(missing)
    if len(votes) == 0 or len(labels) == 0:
        raise DataError(f"{owner} has nothing to learn from: {len(votes)} instances, {len(labels)} of them labelled.")
    if 2 * found < min(len(votes), len(labels)):
        mine, others = listing(votes.instances[:3].tolist()), listing(labels.instances[:3].tolist())
        raise DataError(
            f"only {found} of {len(votes)} instances have labels. The preferences have {mine}, the labels {others}. "
            "Instances are matched by id: check that both are written alike."
        )
    if len(votes) == len(labels) and missing:
        raise DataError(
            f"preferences and labels both hold {len(votes)} instances, but not the same ones: no label for "
            f"{listing(missing, 5)}. Were two sequences split by one index? Call labels.align(preferences) first; or "
            "keep only the instances of one: preferences[...]."
        )


def _no_label(votes: Container, counts: dict[str, int], owner: str, unjudged: str) -> str:
    """Return which of the conditions for learning fails."""
    what = f"{owner} found no usable label: "
    if counts["judged"] + counts["elsewhere"] == 0:
        return f"{what}no item has one, all are NaN. Were the labels aligned with other preferences?"
    if counts["judged"] == 0:
        return (
            f"{what}none of the {counts['elsewhere']} labels belongs to an item of the preferences. Items are matched "
            f"by id; the preferences have {listing(votes.items[:3].tolist())}."
        )
    left_out = unjudged == "drop" and counts["unjudged"] > 0
    hint = ' With unjudged="zero" the items without a label would count as 0.' if left_out else ""
    return (
        f"{what}in each of the {counts['labelled']} labelled instances all {counts['judged']} labels are equal, and "
        f"nothing can be learned from an instance whose items are all alike.{hint}"
    )


def check_distinguishable(key: NDArray[Any], truth: MatchedLabels, votes: Votes, owner: str) -> None:
    """Raise DataError when in no usable instance anything that experts say tells two items apart.

    Parameters
    ----------
    key : array of S
        The same for items about which the same is said.
    truth : MatchedLabels
        Which instances are usable, and which of their slots.
    votes : Preferences or Comparisons
        Whose slots these are.
    owner : str
        Who learns, for messages.
    """
    offsets = votes.slots.offsets
    slots = ranges(offsets[truth.instances], offsets[truth.instances + 1])
    slots = slots[~np.isnan(truth.label[slots])]
    instance = votes.slots.instance[slots]
    # Where all items of an instance share one key, so do those of different labels, and the other way round.
    new = np.append(True, instance[1:] != instance[:-1])
    first = slots[new][np.cumsum(new) - 1] if len(slots) else slots
    if not (key[slots] != key[first]).any():
        raise DataError(
            f"{owner} has nothing to learn from: in none of the {len(truth.instances)} usable instances do the experts "
            "tell items of different labels apart. Their lists are empty, of no weight, or one tie; check the ranks or "
            "scores."
        )


def validation_pair(validation: Any, owner: str) -> tuple[Votes, Labels] | None:
    """Return the preferences and labels to choose by, or None when there are none."""
    if validation is None:
        return None
    if isinstance(validation, tuple) and len(validation) == 2:
        votes, labels = validation
        if isinstance(votes, (Preferences, Comparisons)) and isinstance(labels, Labels):
            return votes, labels
    raise ParameterError.invalid("validation", f"{owner}.fit", "a pair (preferences, labels)", validation)


def exponential_gain(label: Floats) -> Floats:
    """Return 2^label - 1, negative labels counting as 0; all in a smaller unit where a label exceeds 30.

    >>> exponential_gain(np.array([-1.0, 0.0, 2.0])).tolist()
    [0.0, 0.0, 3.0]
    """
    level = np.maximum(label, 0.0)
    unit = max(float(np.nanmax(level, initial=0.0)) - _LARGEST_EXPONENT, 0.0)
    gain: Floats = np.exp2(level - unit) - np.exp2(-unit)
    return gain


class _Hits(NamedTuple):
    """Labelled slots, where those of each instance begin, and their labels."""

    slot: Ints
    starts: Ints
    label: Floats

    @classmethod
    def of(cls, slots: Slots, label: Floats, keep: NDArray[np.bool_]) -> _Hits:
        """Return the slots to keep."""
        slot = np.flatnonzero(keep)
        return cls(slot, offsets_of(np.bincount(slots.instance[slot], minlength=len(slots))), label[slot])

    def placed(self, score: Floats, slots: Slots) -> tuple[Codes, Ints, Floats]:
        """Return the instance, position and label of the slots in position order; ties count in the worst order."""
        from concordant.kernels.expert_rows import worst_places

        position = np.empty(len(self.slot), dtype=np.int64)
        worst_places(score, slots.offsets, self.slot, self.starts, self.label, position)
        instance = list_ids(self.starts)
        order = np.lexsort((position, instance))
        return instance, position[order], self.label[order]


class ValidationMetric:
    """A metric of ever new scores of the same slots.

    Matching, sorting of labels and ideal values are done once; a call costs the placing of the positively labelled
    items. Tied items count in the worst order, so that the value depends on scores alone.

    Parameters
    ----------
    votes : Preferences or Comparisons
        Whose slots are scored.
    labels : Labels
        The ground truth; labelled items the votes do not hold stay in the denominators.
    metric : str
        Such as "ndcg@10" or "map".
    convention : {"paper", "letor", "trec"}
        Whose gains and discounts hold.
    rel : float
        Labels from here on are relevant.
    unjudged : {"zero", "drop"}
        Whether items without a label take places like those labelled 0, or are passed over.

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
        # Metrics are for those who choose: methods that only fuse do not wait for them.
        from concordant.metrics.ranking import RankedLabels, convention_named, parse_metric

        self.metric = parse_metric(metric)
        self._rule = convention_named(convention)
        self._rel = rel
        slots: Slots = votes.slots
        label = labels.align(votes).label
        self._label = np.nan_to_num(label)
        codes = slots.instances.codes
        home = np.array([codes.get(q, -1) for q in labels.instances], dtype=np.int64)
        positive = labels.label > 0
        owner = home[labels.slots.instance]
        inside = np.flatnonzero(positive & (owner >= 0))
        inside = inside[np.argsort(owner[inside], kind="stable")]
        known = ~np.isnan(labels.label)
        judged = np.bincount(owner[known & (owner >= 0)], minlength=len(slots)) > 0
        self._slots = slots
        self._hits = _Hits.of(slots, label, label > 0)
        # The items of label 0 are needed only by metrics that ask for all judged items.
        self._judged = _Hits.of(slots, label, label >= 0)
        unseen = np.bincount(owner[inside], minlength=len(slots)) - np.diff(self._hits.starts)
        self._n_judged = np.bincount(owner[(labels.label >= 0) & (owner >= 0)], minlength=len(slots))
        self._ranked = RankedLabels.from_found(
            slots.instance[self._hits.slot],
            np.zeros(len(self._hits.slot), dtype=np.int64),
            self._hits.label,
            owner[inside].astype(np.int32),
            labels.label[inside],
            slots.sizes,
            slots.sizes + unseen,
            float(labels.label[known & (owner >= 0)].max(initial=0.0)),
            partial(self._place_judged, np.zeros(slots.n_slots)),
        )
        self._passed_over = np.isnan(label) if unjudged == "drop" else None
        # An instance with no label at all is not judged; one whose labels are all 0 counts 0 for every order.
        self.instances: Ints = np.flatnonzero(judged)

    @property
    def n_slots(self) -> int:
        """How many slots are scored."""
        return self._slots.n_slots

    def blind(self, instances: Ints | None = None) -> bool:
        """Return whether every order of the items has the same value, so that there is nothing to choose by."""
        which = self.instances if instances is None else instances
        best, worst = self.values(self._label)[which], self.values(-self._label)[which]
        return bool((best - worst <= 1e-12).all())

    def values(self, score: Floats) -> Floats:
        """Return the metric of every instance, 0 where there is nothing to find."""
        if self._passed_over is not None:
            # Behind everything that counts they take nobody's place.
            score = np.where(self._passed_over, -np.inf, score)
        _, position, label = self._hits.placed(score, self._slots)
        judged = partial(self._place_judged, score)
        ranked = replace(self._ranked, position=position, label=label, find_judged=judged)
        return self.metric.compute(ranked, self._rule, self._rel)

    def _place_judged(self, score: Floats) -> Judged:
        """Return the positions of the judged items."""
        from concordant.metrics.ranking import Judged

        return Judged(*self._judged.placed(score, self._slots), self._n_judged)

    def __call__(self, score: Floats, instances: Ints | None = None) -> float:
        """Return the mean over the labelled instances, or over those given of them."""
        which = self.instances if instances is None else instances
        return float(self.values(score)[which].mean()) if len(which) else 0.0
