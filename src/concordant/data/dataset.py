"""`Dataset`, the contents of a path (preferences, comparisons, features, labels, folds), and `concat`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.features import Features
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import DataError

__all__ = ["Dataset", "FeatureFold", "FeaturePart", "Fold", "Part", "concat"]


class Part(NamedTuple):
    """One part of a fold."""

    preferences: Preferences
    labels: Labels


class Fold(NamedTuple):
    """One given split: train, vali, test."""

    train: Part
    vali: Part
    test: Part


class FeaturePart(NamedTuple):
    """One part of a fold of features."""

    features: Features
    labels: Labels


class FeatureFold(NamedTuple):
    """One given split of features: train, vali, test."""

    train: FeaturePart
    vali: FeaturePart
    test: FeaturePart


class Dataset(NamedTuple):
    """The contents of a path; kinds of data that it lacks are None."""

    preferences: Preferences | None = None
    comparisons: Comparisons | None = None
    features: Features | None = None
    labels: Labels | None = None
    folds: list[Fold] | list[FeatureFold] | None = None


C = TypeVar("C", Preferences, Comparisons, Labels, Features, Consensus)


def concat(parts: Sequence[C]) -> C:
    """Return containers of one class as one, instances, items and experts matched by id.

    Examples
    --------
    >>> a = Labels(["q1"], ["d"], [1])
    >>> b = Labels(["q2"], ["d"], [0])
    >>> len(concat([a, b]))
    2
    """
    parts = list(parts)
    classes = {type(p) for p in parts}
    if len(classes) != 1:
        names = sorted(c.__name__ for c in classes)
        raise DataError(f"concat joins containers of one class. Got {names or 'nothing'}.")
    return type(parts[0]).concat(parts)
