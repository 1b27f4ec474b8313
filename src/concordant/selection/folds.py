"""Training, validation and test data of each fold of a cross-validation.

Data are preferences, comparisons, or features of items; features may also come next to preferences. Everything is
matched by instance id. Training data carry the labels of their own instances only, and a fold whose test instances are
also in its training data is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Ints
from concordant.base.contract import Aggregator, Votes
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.container import Container
from concordant.data.features import Features
from concordant.data.index import instance_index
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.data.splits import Split, k_folds, train_validation_split
from concordant.data.streams import id_hash
from concordant.errors import DataError, KindError, ParameterError, listing
from concordant.execution.blocks import Blocks
from concordant.learning.supervision import labels_of, match_labels

__all__ = [
    "Data",
    "FoldData",
    "are_given_folds",
    "check_data",
    "check_validation_part",
    "fit_fold",
    "hold_out",
    "labelled",
    "labels_of",
    "make_folds",
    "predict_with_features",
    "relabel_fold",
    "shared_labels",
    "usual_folds",
    "validation_fold",
]

Data = Votes | Features

# The default number of folds.
_DEFAULT_FOLDS = 5
_FOLDS = "a whole number >= 2, a list of (train, test) indices, a list of folds (train, vali, test), or a splitter"


class FoldData(NamedTuple):
    """The data of one fold.

    Attributes
    ----------
    train, labels
        The training instances and their labels.
    validation : pair (data, labels) or None
        The validation part that came with the fold.
    test, truth
        The instances to predict and their labels.
    """

    train: Data
    labels: Labels
    validation: tuple[Data, Labels] | None
    test: Data
    truth: Labels


def shared_labels(labels: Labels, data: Data) -> Labels:
    """Return the labels for a fit to `data`, without those of other instances if the fit would refuse them.

    A fit refuses labels and data with the same number of instances but different ids, because they may have been split
    by one index. Labels and data from two files are matched by id, so here this is no mistake.

    >>> labels = Labels(["q1", "q2"], ["d"] * 2, [1, 0])
    >>> shared_labels(labels, Labels(["q2", "q3"], ["d"] * 2, [1, 1])).instances.tolist()
    ['q2']
    """
    codes = labels.instances.codes
    shared = sum(instance in codes for instance in data.instances)
    return labels_of(labels, data.instances) if 0 < shared < len(data) == len(labels) else labels


def labelled(container: Container, labels: Labels) -> NDArray[np.bool_]:
    """Return which instances of a container have a label."""
    has_label = ~np.isnan(labels.label)
    counts = np.bincount(labels.slots.instance[has_label], minlength=len(labels))
    codes = labels.instances.codes
    return np.array([i in codes and counts[codes[i]] > 0 for i in container.instances], dtype=np.bool_)


def relabel_fold(fold: Any, labels: Labels | None, weights: Mapping[str, float]) -> Any:
    """Return a given fold with other labels, matched by id, and with weights of experts; None keeps its own labels.

    >>> from concordant.data.dataset import Fold, Part
    >>> part = Part(Preferences(["q1"], ["x"], ["d"], [1]), Labels(["q1"], ["d"], [0]))
    >>> fold = relabel_fold(Fold(part, part, part), Labels(["q1", "q2"], ["d", "d"], [2, 1]), {"x": 3.0})
    >>> fold.test.labels.label.tolist(), fold.test.preferences.weights.tolist()
    ([2.0], [3.0])
    """

    def part(one: Any) -> Any:
        data, truth = one
        truth = truth if labels is None else labels_of(labels, data.instances)
        return type(one)(data if isinstance(data, Features) else data.scale_weights(weights), truth)

    return type(fold)(*map(part, fold))


def usual_folds(data: Data, labels: Labels) -> int | None:
    """Return the default number of folds: five, or fewer if fewer instances have labels; None below two."""
    n_labelled = int(labelled(data, labels).sum())
    return min(_DEFAULT_FOLDS, n_labelled) if n_labelled > 1 else None


def are_given_folds(folds: Any) -> bool:
    """Return whether these are given folds: tuples (train, vali, test) of pairs (data, labels)."""
    return (
        isinstance(folds, Sequence)
        and len(folds) > 0
        and all(isinstance(f, tuple) and len(f) == 3 and all(_is_part(p) for p in f) for f in folds)
    )


def _is_part(part: Any) -> bool:
    return (
        isinstance(part, tuple)
        and len(part) == 2
        and isinstance(part[0], (Preferences, Comparisons, Features))
        and isinstance(part[1], Labels)
    )


def check_data(preferences: Any, labels: Any, owner: str) -> tuple[Data, Labels]:
    """Return the data and the labels, or raise if they are of the wrong type."""
    if not isinstance(preferences, (Preferences, Comparisons, Features)):
        hint = ""
        if isinstance(preferences, Blocks):
            hint = " Cross-validation works in memory: pass some of the blocks, such as concat(blocks[:2])."
        raise KindError(
            f"{owner} splits Preferences, Comparisons or Features. Got {type(preferences).__name__} instead.{hint}"
        )
    if labels is None:
        raise DataError(f"{owner} needs labels and got none. Pass labels=.")
    if not isinstance(labels, Labels):
        raise KindError(
            f"{owner} needs Labels. Got {type(labels).__name__}. Use concordant.read_labels, "
            "from_frame(label=...) or Labels(instance, item, label)."
        )
    return preferences, labels


def make_folds(preferences: Any, labels: Any, folds: Any, random_state: int, owner: str) -> list[FoldData]:
    """Split the data into folds and check each of them.

    Parameters
    ----------
    preferences, labels
        The data to split; not used for given folds, which bring their own.
    folds : int, list of Split, list of Fold, or a splitter
        A number makes folds of equal size by the ids of the instances: labelled instances are spread evenly, the others
        at random. Pairs of indices, or an object whose `split(preferences)` gives them, are used as they are.
    random_state : int
        Seed of the split.
    owner : str
        Name of the caller, for messages.
    """
    if are_given_folds(folds):
        all_folds = [FoldData(train[0], train[1], (vali[0], vali[1]), test[0], test[1]) for train, vali, test in folds]
    else:
        preferences, labels = check_data(preferences, labels, owner)
        # Raise for ids that do not match, before each fold complains that it has no labels.
        match_labels(preferences, labels, owner, require_usable=False)
        splits = _split_instances(preferences, labels, folds, random_state, owner)
        all_folds = [_fold_data(preferences, labels, split) for split in splits]
    for number, fold_data in enumerate(all_folds, start=1):
        _check(fold_data, f"fold {number} of {len(all_folds)}")
    return all_folds


def validation_fold(preferences: Data, labels: Labels, validation: tuple[Data, Labels]) -> FoldData:
    """Return the fold that trains on everything and tests on the validation part.

    Labels of other instances are dropped, so that one set of labels may serve both parts.
    """
    data, truth = validation[0], labels_of(validation[1], validation[0].instances)
    fold_data = FoldData(preferences, labels, (data, truth), data, truth)
    _check(fold_data, "the validation part", given=True)
    return fold_data


def _fold_data(preferences: Data, labels: Labels, split: Split) -> FoldData:
    train, test = preferences[split.train], preferences[split.test]
    return FoldData(train, labels_of(labels, train.instances), None, test, labels_of(labels, test.instances))


def _split_instances(preferences: Data, labels: Labels, folds: Any, random_state: int, owner: str) -> list[Split]:
    if isinstance(folds, Integral) and not isinstance(folds, bool):
        if folds < 2:
            raise ParameterError.invalid("folds", owner, _FOLDS, folds)
        return _balanced_folds(preferences, labels, int(folds), random_state)
    if hasattr(folds, "split") and not isinstance(folds, (str, bytes)):
        folds = folds.split(preferences)
    if isinstance(folds, (str, bytes, Container)) or not isinstance(folds, Iterable):
        raise ParameterError.invalid("folds", owner, _FOLDS, folds)
    out = []
    for number, split in enumerate(folds, start=1):
        if not isinstance(split, tuple) or len(split) != 2:
            raise ParameterError.invalid("folds", owner, _FOLDS, split)
        try:
            train, test = (instance_index(part, preferences.slots) for part in split)
        except (IndexError, DataError) as error:
            what = "features" if isinstance(preferences, Features) else "preferences"
            raise DataError(f"fold {number} does not fit the {what}: {error}") from error
        out.append(Split(train, test))
    if not out:
        raise ParameterError.invalid("folds", owner, _FOLDS, "none")
    return out


def _balanced_folds(preferences: Data, labels: Labels, n: int, random_state: int) -> list[Split]:
    """Return n folds with equal numbers of labelled instances."""
    has_label = labelled(preferences, labels)
    if int(has_label.sum()) < n:
        raise DataError(f"{n} folds need at least {n} labelled instances; there are {int(has_label.sum())}.")
    labelled_index = np.flatnonzero(has_label)
    fold = np.empty(len(preferences), dtype=np.int64)
    for f, split in enumerate(k_folds(preferences[labelled_index], n, random_state)):
        fold[labelled_index[split.test]] = f
    for m in np.flatnonzero(~has_label).tolist():
        fold[m] = id_hash(f"{random_state}:{preferences.instances[m]}") % n
    return [Split(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(n)]


def _check(fold_data: FoldData, where: str, *, given: bool = False) -> None:
    """Raise if a fold has no training or no labelled test instance, or if training and test data overlap."""
    test = set(fold_data.test.instances)
    trained = fold_data.train.instances.tolist()
    if fold_data.validation is not None and not given:
        trained += fold_data.validation[0].instances.tolist()
    shared = [i for i in dict.fromkeys(trained) if i in test]
    if shared and isinstance(fold_data.test, Features):
        parts = (
            [fold_data.train] if given or fold_data.validation is None else [fold_data.train, fold_data.validation[0]]
        )
        shared = [i for i in shared if any(_same_rows(i, part, fold_data.test) for part in parts)]
    if shared:
        raise DataError(
            f"{len(shared)} of {len(test)} test instances of {where} are also in its training data: "
            f"{listing(shared, 5)}. Remove them from one of the two."
        )
    if not trained:
        raise DataError(f"{where} has no training instance.")
    if not labelled(fold_data.test, fold_data.truth).any():
        tested = listing(fold_data.test.instances[:5].tolist())
        advice = "Instances are matched by id." if given else "Use fewer folds."
        raise DataError(f"{where} has no labelled test instance: {len(test)} instances, {tested}. {advice}")


def _same_rows(instance: str, one: Data, other: Features) -> bool:
    """Return whether an instance has the same rows in two parts.

    Files without instance ids number their instances from 1, so equal ids of features need not be the same instance.
    """
    if not isinstance(one, Features) or instance not in one.instances.codes:
        return False
    rows = [part.X[slice(*part.slots.offsets[part.instances.codes[instance] :][:2])] for part in (one, other)]
    return np.array_equal(rows[0], rows[1], equal_nan=True)


def fit_fold(
    method: Aggregator,
    fold_data: FoldData,
    validation_part: float | None = None,
    random_state: int = 0,
    features: Features | None = None,
) -> Aggregator:
    """Fit a method to the training data of a fold and return it; a method that reads no labels gets none.

    `features` cover the items of all parts and are matched by id. A method that does not use them raises.
    """
    train: tuple[Any, Labels] = (fold_data.train, fold_data.labels)
    if not method.needs_labels():
        return method.fit(train[0], features=features)
    held = fold_data.validation
    if held is None and validation_part is not None:
        train, held = hold_out(fold_data.train, fold_data.labels, validation_part, random_state)
    validation = (*held, features) if held is not None and _uses_features(method, features) else held
    return method.fit(*train, validation=validation, features=features)


def predict_with_features(method: Aggregator, data: Data, features: Features | None) -> Consensus:
    """Predict with a method; features go to methods that use them."""
    own: Any = method
    found: Consensus = own.predict(data, features=features) if _uses_features(own, features) else own.predict(data)
    return found


def _uses_features(method: Aggregator, features: Features | None) -> bool:
    return features is not None and method.takes_features


def hold_out(
    votes: Data, labels: Labels, part: float, random_state: int
) -> tuple[tuple[Data, Labels], tuple[Data, Labels]]:
    """Split off a validation part of labelled instances; return training and validation part.

    >>> votes = Preferences(["q1", "q2", "q3"], ["x"] * 3, ["d"] * 3, [1, 1, 1])
    >>> train, held = hold_out(votes, Labels(["q1", "q2"], ["d", "d"], [1, 0]), 0.5, 0)
    >>> len(train[0]), len(held[0])
    (2, 1)
    """
    labelled_index = np.flatnonzero(labelled(votes, labels))
    held: Ints = labelled_index[train_validation_split(votes[labelled_index], part, random_state).test]
    trained = np.setdiff1d(np.arange(len(votes)), held)
    out = []
    for index in (trained, held):
        part_data = votes[index]
        out.append((part_data, labels_of(labels, part_data.instances)))
    return out[0], out[1]


def check_validation_part(part: Any, owner: str, folds: Any = None) -> None:
    """Raise if the validation share is not between 0 and 1, or if given folds bring their own."""
    if part is None:
        return
    if not isinstance(part, Real) or isinstance(part, bool) or not 0 < float(part) < 1:
        raise ParameterError.invalid("validation_part", owner, "a number > 0 and < 1, or None", part)
    if are_given_folds(folds):
        raise ParameterError("given folds bring their own validation parts; leave validation_part=None.")
