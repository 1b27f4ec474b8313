"""Metrics that LambdaRank can optimise, and the gains and discounts from which it computes the effect of a swap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.errors import ParameterError
from concordant.kernels.lists import list_ids
from concordant.kernels.ratios import ratio

if TYPE_CHECKING:
    from concordant.metrics.ranking import Metric

__all__ = ["lambda_metric", "is_lambda_metric", "metric_terms"]


def lambda_metric(name: str) -> Metric | None:
    """Return the metric that LambdaRank optimises, None for "pairs"; raise ParameterError if it cannot.

    >>> lambda_metric("ndcg@10"), lambda_metric("pairs")
    (ndcg@10, None)
    """
    from concordant.metrics.ranking import parse_metric

    if name == "pairs":
        return None
    metric = parse_metric(name)
    if not metric.objective or (metric.objective == "p" and getattr(metric, "cutoff", None) is None):
        raise ParameterError(
            f"LambdaRank cannot optimise {name!r}. It can optimise ndcg, err, map, mrr, p@k and pairs."
        )
    return metric


def is_lambda_metric(name: Any) -> bool:
    """Return whether a value names a metric that LambdaRank can optimise."""
    try:
        return isinstance(name, str) and (name == "pairs" or lambda_metric(name) is not None)
    except ParameterError:
        return False


def metric_terms(
    metric: Metric | None, label: Floats, level: Ints, offsets: Ints
) -> tuple[int, Floats, Floats, Floats]:
    """Return the kind of metric, the gain of every item, the discount of every position and the scale of every list."""
    from concordant.kernels import lambdarank as kernel
    from concordant.learning.supervision import exponential_gain

    sizes = np.diff(offsets)
    instance = list_ids(offsets)
    position = np.arange(1.0, int(sizes.max(initial=0)) + 1)
    if metric is None:
        n_tied = np.bincount(offsets[instance] + level, minlength=len(label))
        tied_pairs = np.bincount(instance, weights=n_tied * (n_tied - 1.0), minlength=len(sizes))
        # With this scale a step is about as long as for NDCG, whatever the number of pairs.
        scale = ratio(1.0, np.sqrt(0.5 * (sizes * (sizes - 1.0) - tied_pairs)), 0.0)
        return kernel.PAIRS, np.zeros(len(label)), position, scale
    cutoff: int | None = getattr(metric, "cutoff", None)
    in_cutoff = position <= (cutoff or np.inf)
    if metric.objective == "ndcg":
        gain, discount = exponential_gain(label), in_cutoff / np.log2(1.0 + position)
        # Items are sorted by label, which is the ideal order.
        ideal = gain * discount[np.arange(len(gain)) - offsets[instance]]
        return (
            kernel.PLACES,
            gain,
            discount,
            ratio(1.0, np.bincount(instance, weights=ideal, minlength=len(sizes)), 0.0),
        )
    if metric.objective == "err":
        lmax = max(float(label.max(initial=0.0)), getattr(metric, "lmax", None) or 0.0)
        gain = np.exp2(np.maximum(label, 0.0) - lmax) - np.exp2(-lmax)
        return kernel.ERR, gain, in_cutoff / position, np.ones(len(sizes))
    gain = (label >= (getattr(metric, "rel", None) or 1.0)).astype(np.float64)
    if metric.objective == "p":
        return kernel.PLACES, gain, in_cutoff.astype(np.float64), np.full(len(sizes), 1.0 / (cutoff or 1))
    if metric.objective == "ap":
        n_relevant = np.bincount(instance, weights=gain, minlength=len(sizes))
        return kernel.AP, gain, in_cutoff / position, ratio(1.0, n_relevant, 0.0)
    return kernel.RR, gain, in_cutoff / position, np.ones(len(sizes))
