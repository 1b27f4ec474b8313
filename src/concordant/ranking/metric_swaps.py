"""Metrics for LambdaRank: gains of items and of places, from which the change of a swap follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.errors import ParameterError
from concordant.kernels.lists import list_ids
from concordant.kernels.ratios import ratio

if TYPE_CHECKING:
    from concordant.metrics.ranking import Metric

__all__ = ["learned_metric", "learns_for", "metric_terms"]

_METRICS = ("ndcg", "err", "map", "p", "mrr")


def learned_metric(name: str) -> Metric | None:
    """Return the metric to learn for, None for plain pairs, or raise when LambdaRank cannot learn for it.

    >>> learned_metric("ndcg@10"), learned_metric("pairs")
    (ndcg@10, None)
    """
    from concordant.metrics.ranking import parse_metric

    if name == "pairs":
        return None
    metric = parse_metric(name)
    if metric.name not in _METRICS or (metric.name == "p" and getattr(metric, "cutoff", None) is None):
        raise ParameterError(f"{name!r} is not learned for. Learned for: ndcg, err, map, mrr, p@k, pairs.")
    return metric


def learns_for(name: Any) -> bool:
    """Return whether LambdaRank can learn for what is named."""
    try:
        return isinstance(name, str) and (name == "pairs" or learned_metric(name) is not None)
    except ParameterError:
        return False


def metric_terms(
    metric: Metric | None, label: Floats, level: Ints, offsets: Ints
) -> tuple[int, Floats, Floats, Floats]:
    """Return the kind of metric, the worth of every item and every place, and the scale of every instance."""
    from concordant.kernels import lambdarank as kernel
    from concordant.learning.supervision import exponential_gain

    sizes = np.diff(offsets)
    instance = list_ids(offsets)
    place = np.arange(1.0, int(sizes.max(initial=0)) + 1)
    if metric is None:
        alike = np.bincount(offsets[instance] + level, minlength=len(label))
        same = np.bincount(instance, weights=alike * (alike - 1.0), minlength=len(sizes))
        # A step is then about as long as one for NDCG, however many pairs there are.
        return kernel.PAIRS, np.zeros(len(label)), place, ratio(1.0, np.sqrt(0.5 * (sizes * (sizes - 1.0) - same)), 0.0)
    cutoff: int | None = getattr(metric, "cutoff", None)
    seen = place <= (cutoff or np.inf)
    if metric.name == "ndcg":
        worth, places = exponential_gain(label), seen / np.log2(1.0 + place)
        # Items come by label, so that as they stand they are in the ideal order.
        ideal = worth * places[np.arange(len(worth)) - offsets[instance]]
        return kernel.PLACES, worth, places, ratio(1.0, np.bincount(instance, weights=ideal, minlength=len(sizes)), 0.0)
    if metric.name == "err":
        lmax = max(float(label.max(initial=0.0)), getattr(metric, "lmax", None) or 0.0)
        return kernel.ERR, np.exp2(np.maximum(label, 0.0) - lmax) - np.exp2(-lmax), seen / place, np.ones(len(sizes))
    worth = (label >= (getattr(metric, "rel", None) or 1.0)).astype(np.float64)
    if metric.name == "p":
        return kernel.PLACES, worth, seen.astype(np.float64), np.full(len(sizes), 1.0 / (cutoff or 1))
    if metric.name == "map":
        return (
            kernel.AP,
            worth,
            seen / place,
            ratio(1.0, np.bincount(instance, weights=worth, minlength=len(sizes)), 0.0),
        )
    return kernel.RR, worth, seen / place, np.ones(len(sizes))
