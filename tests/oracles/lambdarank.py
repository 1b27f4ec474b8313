"""LambdaRank pair by pair: two items change places in the list, and the metric is computed anew."""

from __future__ import annotations

import math
from collections.abc import Sequence

METRICS = ("ndcg", "ndcg@3", "err", "err@2", "map", "map@3", "p@2", "mrr", "mrr@2")


def metric(name: str, labels: Sequence[float], lmax: float) -> float:
    """Return the value of a ranking with these labels, best place first."""
    kind, _, cut = name.partition("@")
    k = int(cut) if cut else len(labels)
    gains = [2.0 ** max(label, 0.0) - 1.0 for label in labels]
    relevant = [label >= 1 for label in labels]
    places = range(min(k, len(labels)))
    if kind == "ndcg":
        ideal = sum(g / math.log2(2 + i) for i, g in zip(places, sorted(gains, reverse=True), strict=False))
        return sum(gains[i] / math.log2(2 + i) for i in places) / ideal if ideal else 0.0
    if kind == "err":
        value, reach = 0.0, 1.0
        for i in places:
            stop = gains[i] / 2.0**lmax
            value += reach * stop / (i + 1)
            reach *= 1.0 - stop
        return value
    if kind == "map":
        total = sum(relevant)
        hits = [sum(relevant[: i + 1]) / (i + 1) for i in places if relevant[i]]
        return sum(hits) / total if total else 0.0
    if kind == "p":
        return sum(relevant[i] for i in places) / k
    if kind == "mrr":
        return max((1.0 / (i + 1) for i in places if relevant[i]), default=0.0)
    raise ValueError(name)


def ranking(scores: Sequence[float]) -> list[int]:
    """Return the items, best first, ties as they come."""
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))


def changes(name: str, scores: Sequence[float], labels: Sequence[float]) -> dict[tuple[int, int], float]:
    """Return |ΔM| for every pair whose first item has the higher label; 1 for the name "pairs"."""
    order = ranking(scores)
    place = {item: at for at, item in enumerate(order)}
    lmax = max([0.0, *labels])
    now = [labels[i] for i in order]
    out = {}
    for i, li in enumerate(labels):
        for j, lj in enumerate(labels):
            if li > lj:
                then = list(now)
                then[place[i]], then[place[j]] = lj, li
                if name == "pairs":
                    out[i, j] = 1.0
                else:
                    out[i, j] = abs(metric(name, then, lmax) - metric(name, now, lmax))
    return out


def cost(pairs: dict[tuple[int, int], float], scores: Sequence[float]) -> float:
    """Return the sum of |ΔM| log(1 + exp(-(s_i - s_j))), the |ΔM| being given."""
    return sum(d * math.log1p(math.exp(scores[j] - scores[i])) for (i, j), d in pairs.items())


def lambdas(name: str, scores: Sequence[float], labels: Sequence[float]) -> list[float]:
    """Return the slope of the cost in every score, the |ΔM| held fixed."""
    out = [0.0] * len(scores)
    for (i, j), change in changes(name, scores, labels).items():
        pull = change / (1.0 + math.exp(scores[i] - scores[j]))
        out[i] -= pull
        out[j] += pull
    return out
