"""Cross-validation folds and hold-out splits by instance id: a seed gives the same split in any order of the rows.

Indices are of instances, for the square brackets of a container. Labels need not be split: fits and evaluations match
them by id.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from concordant.arrays import Ints
from concordant.data.container import Container
from concordant.data.streams import id_hash
from concordant.errors import DataError, ParameterError

__all__ = ["Split", "k_folds", "train_validation_split"]


class Split(NamedTuple):
    """Two index arrays of instances, each in the order of the container."""

    train: Ints
    test: Ints


def _shuffled(container: Container, random_state: int, owner: str) -> Ints:
    """Return the instances in an order that depends on the seed and their ids alone."""
    if not isinstance(random_state, Integral) or isinstance(random_state, bool) or random_state < 0:
        raise ParameterError.invalid("random_state", owner, "a whole number >= 0", random_state)
    ids = container.instances.tolist()
    key = [id_hash(f"{int(random_state)}:{i}") for i in ids]
    return np.array(sorted(range(len(ids)), key=lambda n: (key[n], ids[n])), dtype=np.int64)


def k_folds(container: Container, n: int = 5, random_state: int = 0) -> list[Split]:
    """Return n splits, each instance being tested in exactly one of them; fold sizes differ by at most one.

    Parameters
    ----------
    container : Preferences, Comparisons, Labels, Features or Consensus
        What to split.
    n : int
        The number of folds, 2 to the number of instances.
    random_state : int
        The seed.

    Examples
    --------
    >>> from concordant.data.labels import Labels
    >>> labels = Labels(["q1", "q2", "q3", "q4"], ["d"] * 4, [1, 0, 2, 1])
    >>> [len(labels[fold.train]) for fold in k_folds(labels, 4)]
    [3, 3, 3, 3]
    """
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 2:
        raise ParameterError.invalid("n", "k_folds", "a whole number >= 2", n)
    if n > len(container):
        raise DataError(f"{n} folds need at least {n} instances; there are {len(container)}.")
    order = _shuffled(container, random_state, "k_folds")
    fold = np.empty(len(order), dtype=np.int64)
    fold[order] = np.arange(len(order)) % n
    return [Split(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(int(n))]


def train_validation_split(container: Container, part: float = 0.2, random_state: int = 0) -> Split:
    """Return one split with `part` of the instances (rounded, at least one on either side) in the second half.

    Parameters
    ----------
    container : Preferences, Comparisons, Labels, Features or Consensus
        What to split; at least two instances.
    part : float
        The share to hold out, between 0 and 1.
    random_state : int
        The seed.

    Examples
    --------
    >>> from concordant.data.labels import Labels
    >>> labels = Labels([f"q{n}" for n in range(10)], ["d"] * 10, [1] * 10)
    >>> train, validation = train_validation_split(labels, 0.3)
    >>> len(labels[train]), len(labels[validation])
    (7, 3)
    """
    if not isinstance(part, Real) or isinstance(part, bool) or not 0 < part < 1:
        raise ParameterError.invalid("part", "train_validation_split", "a number > 0 and < 1", part)
    if len(container) < 2:
        raise DataError(f"a split needs at least two instances; there are {len(container)}.")
    order = _shuffled(container, random_state, "train_validation_split")
    held = min(max(round(float(part) * len(order)), 1), len(order) - 1)
    return Split(np.sort(order[held:]), np.sort(order[:held]))
