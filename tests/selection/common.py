"""What the tests of selection share: data, and a method that remembers what it was shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

import concordant as cc
from concordant.base.params import Constraint, number, one_of, seed
from concordant.data import synthetic
from concordant.data.dataset import Fold, Part
from concordant.data.splits import Split, k_folds
from concordant.data.streams import id_hash
from concordant.errors import DataError
from concordant.learning.supervision import validation_pair

SAMPLE = synthetic.meta_search(24, n_items=(6, 12), largest_rank=30, random_state=3)
P, LABELS = SAMPLE.preferences, SAMPLE.labels


class Seen(NamedTuple):
    """What one call showed to a spy."""

    call: str
    instances: frozenset[str]
    labelled: frozenset[str] = frozenset()
    validation: frozenset[str] = frozenset()
    validation_labelled: frozenset[str] = frozenset()
    params: tuple[Any, ...] = ()


def ids(container: Any) -> frozenset[str]:
    return frozenset(container.instances)


class Spy(cc.Aggregator):
    """RRF that writes down every instance and label it is shown."""

    name = "spy"
    tags = cc.Tags(accepts=frozenset({"rank"}), supervised=True, per_instance=True)
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "log": Constraint("a list", lambda v: isinstance(v, list)),
        "k": number(above=0),
    }

    def __init__(self, *, log: list[Seen], k: float = 60) -> None:
        self.log = log
        self.k = k

    def _fit(self, preferences: Any, labels: Any, validation: Any, features: Any) -> None:
        pair = validation_pair(validation, "Spy")
        held = (frozenset[str](), frozenset[str]()) if pair is None else (ids(pair[0]), ids(pair[1]))
        known = frozenset[str]() if labels is None else ids(labels)
        self.log.append(Seen("fit", ids(preferences), known, *held, (self.k,)))

    def _scores(self, preferences: Any) -> Any:
        self.log.append(Seen("predict", ids(preferences), params=(self.k,)))
        scores = cc.RRF(k=self.k)._scores(preferences)
        return np.asarray(scores)

    @property
    def fits(self) -> list[Seen]:
        return [seen for seen in self.log if seen.call == "fit"]


class QuietSpy(Spy):
    """The same method, which does not learn from labels."""

    name = "quiet-spy"
    tags = cc.Tags(accepts=frozenset({"rank"}))


class Guess(cc.Aggregator):
    """Any order, by the names of instance and item, a guess and a seed: what is good by it is good by luck."""

    name = "guess"
    tags = cc.Tags(accepts=frozenset({"rank", "score"}), stochastic=True, faithful=False)
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "guess": number(),
        "fails": one_of("never", "always", "fit", "late"),
        "random_state": seed(),
    }

    def __init__(self, *, guess: int = 0, fails: str = "never", random_state: int = 0) -> None:
        self.guess = guess
        self.fails = fails
        self.random_state = random_state

    def _fit(self, preferences: Any, labels: Any, validation: Any, features: Any) -> None:
        if self.fails in ("always", "fit"):
            raise RuntimeError(f"guess {self.guess} cannot be made")

    def _scores(self, preferences: Any) -> Any:
        if self.fails == "late" and "q7" in preferences.instances:
            raise DataError(f"guess {self.guess} knows nothing of 'q7'")
        slots = preferences.slots
        names = [f"{slots.instances[int(n)]}/{i}" for n, i in zip(slots.instance, slots.items, strict=True)]
        return np.array([float(id_hash(f"{self.random_state}:{self.guess}:{name}") % 1000) for name in names])


def given_folds(n: int = 3) -> list[Fold]:
    """Return folds as a LETOR folder brings them: the vali part of each is the test part of the next."""
    splits = k_folds(P, n, 1)
    out = []
    for f, split in enumerate(splits):
        vali = splits[(f + 1) % n].test
        train = np.setdiff1d(np.arange(len(P)), np.concatenate([split.test, vali]))
        out.append(Fold(*(Part(P[part], LABELS[part]) for part in (train, vali, split.test))))
    return out


def by_hand(method: cc.Aggregator, splits: list[Split], metric: str, convention: str = "trec") -> list[float]:
    """Return the value of a metric in each fold, in a plain loop."""
    out = []
    for train, test in splits:
        copy = type(method)(**method.get_params())
        consensus = copy.fit(P[train], LABELS[train]).predict(P[test])
        out.append(cc.evaluate(consensus, LABELS[test], metric, convention=convention).mean[metric])
    return out
