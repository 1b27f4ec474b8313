"""Metrics as scikit-learn scorers: functions of a fitted method, preferences and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from concordant.data.consensus import Consensus
from concordant.data.labels import Labels
from concordant.errors import DataError, KindError, listing
from concordant.metrics.evaluation import evaluate
from concordant.metrics.ranking import MetricLike, convention_named, parse_metric

__all__ = ["Scorer", "scorer"]


@dataclass(frozen=True)
class Scorer:
    """The mean metric of the predictions of a fitted method; made by `scorer`."""

    metric: str
    convention: str = "trec"
    rel: float | None = None

    def __call__(self, estimator: Any, preferences: Any, labels: Labels | None = None) -> float:
        """Return the mean over the labelled instances, larger is better."""
        if not isinstance(labels, Labels):
            raise KindError(f"the scorer of {self.metric} needs Labels. Got {type(labels).__name__} instead.")
        if preferences.instances != labels.instances:
            mine = set(preferences.instances)
            other = [i for i in labels.instances if i not in mine]
            raise DataError(
                f"preferences and labels hold different instances: labels for {listing(other, 5)}, preferences for "
                f"{listing(preferences.instances[:5].tolist())}. Pass y=labels.align(preferences), or "
                "y=labels[preferences.instances.tolist()]."
            )
        predicted: Consensus = estimator.predict(preferences)
        found = evaluate(predicted, labels, self.metric, convention=self.convention, rel=self.rel)
        return found.mean[self.metric]


def scorer(metric: MetricLike = "ndcg@10", convention: str = "trec", rel: float | None = None) -> Scorer:
    """Return a scorer (estimator, preferences, labels) -> mean metric, for `scoring=` in scikit-learn.

    X is the preferences, and y the labels of the same instances in the same order: scikit-learn splits both by one
    index, and the scorer refuses parts that hold different instances. If every instance has labels, pass
    ``y=labels[preferences.instances.tolist()]``; otherwise ``y=labels.align(preferences)``, which leaves out the labels
    of items that nobody ranks.

    Parameters
    ----------
    metric : str or Metric
        Such as "ndcg@10" or "map".
    convention : {"trec", "letor", "paper"}
        Convention of the metric, as in `evaluate`.
    rel : float, optional
        The smallest relevant label; 1 by default.

    Examples
    --------
    >>> import concordant as cc
    >>> from sklearn.model_selection import GridSearchCV, KFold
    >>> runs, labels, _ = cc.synthetic.meta_search(24, random_state=2)
    >>> search = GridSearchCV(cc.RRF(), {"k": [1, 10, 60]}, cv=KFold(3), scoring=scorer("map"))
    >>> search.fit(runs, labels.align(runs)).best_params_
    {'k': 10}
    """
    return Scorer(str(parse_metric(metric)), convention_named(convention).name, rel)
