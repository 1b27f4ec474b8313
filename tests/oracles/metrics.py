"""Slow twins of concordant.metrics in plain Python: one instance at a time, written from the definitions."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, permutations, product
from typing import Any


def float32(x: float) -> float:
    """Return x rounded to single precision."""
    return struct.unpack("f", struct.pack("f", x))[0]


def trec_order(scores: dict[str, float]) -> list[str]:
    """Return the items as trec_eval sorts them: float32 score descending, then the id's bytes descending."""
    return sorted(scores, key=lambda i: (float32(scores[i]), i.encode()), reverse=True)


def file_order(scores: dict[str, float]) -> list[str]:
    """Return the items by score descending; ties, to 1e-12 of the largest score, stay in the order of the file."""
    size = max((abs(s) for s in scores.values()), default=0.0)
    ranked: list[list[str]] = []
    for item in sorted(scores, key=lambda i: -scores[i]):
        if ranked and scores[ranked[-1][-1]] - scores[item] <= 1e-12 * size:
            ranked[-1].append(item)
        else:
            ranked.append([item])
    place = {item: i for i, item in enumerate(scores)}
    return [item for group in ranked for item in sorted(group, key=place.__getitem__)]


def values(
    scores: dict[str, float],
    labels: dict[str, float],
    convention: str,
    *,
    rel: float = 1.0,
    lmax: float | None = None,
    depth: int = 6,
    p: float = 0.8,
) -> dict[str, float]:
    """Return every metric of one instance, by name, at cutoffs 1..depth and without."""
    order = trec_order(scores) if convention == "trec" else file_order(scores)
    got = [max(labels.get(i, 0.0), 0.0) for i in order]
    best = sorted((max(x, 0.0) for x in labels.values()), reverse=True)
    n_items = len(set(scores) | set(labels))
    hits = [x >= rel for x in got]
    n_rel = sum(x >= rel for x in labels.values())
    lmax = max(best, default=0.0) if lmax is None else lmax

    def gain(x: float) -> float:
        return x if convention == "trec" else 2.0**x - 1.0

    def discount(i: int) -> float:
        if convention == "letor":
            return 1.0 if i <= 2 else 1.0 / math.log2(i)
        return 1.0 / math.log2(1 + i)

    def dcg(xs: Sequence[float], k: int) -> float:
        return sum(gain(x) * discount(i) for i, x in enumerate(xs[:k], start=1))

    def ndcg(k: int | None) -> float:
        if convention == "letor" and k is not None and k > n_items:
            return 0.0
        cut = 10**9 if k is None else k
        return dcg(got, cut) / dcg(best, cut) if dcg(best, cut) > 0 else 0.0

    def err(k: int) -> float:
        total, reach = 0.0, 1.0
        for i, x in enumerate(got[:k], start=1):
            stop = (2.0**x - 1.0) / 2.0**lmax
            total, reach = total + reach * stop / i, reach * (1.0 - stop)
        return total

    def ap(k: int) -> float:
        precisions = [sum(hits[: i + 1]) / (i + 1) for i in range(min(k, len(hits))) if hits[i]]
        return sum(precisions) / n_rel if n_rel else 0.0

    def iprec(tenths: int) -> float:
        # trec_eval's own expression: its rounding makes 2 of 3 relevant items reach recall 0.7.
        needed = int(tenths / 10 * n_rel + 0.9)
        reached = [i for i in range(1, len(hits) + 1) if sum(hits[:i]) >= needed]
        return max((sum(hits[:i]) / i for i in reached), default=0.0) if n_rel else 0.0

    first = hits.index(True) + 1 if True in hits else 0
    out = {f"iprec(recall={tenths / 10:g})": iprec(tenths) for tenths in range(11)}
    out |= {
        "ndcg": ndcg(None),
        "err": err(len(got)),
        "map": ap(len(got)),
        "p": sum(hits) / len(hits) if hits else 0.0,
        "recall": sum(hits) / n_rel if n_rel else 0.0,
        "hit": float(any(hits)),
        "mrr": 1.0 / first if first else 0.0,
        "mrpr": 1.0 / math.ceil(first / 10) if first else 0.0,
        "rprec": sum(hits[:n_rel]) / n_rel if n_rel else 0.0,
        f"rbp(p={p:g})": sum((1 - p) * p**i for i, hit in enumerate(hits) if hit),
        "meanndcg": sum(ndcg(k) for k in range(1, n_items + 1)) / n_items if n_items else 0.0,
    }
    for k in range(1, depth + 1):
        out[f"ndcg@{k}"] = ndcg(k)
        out[f"err@{k}"] = err(k)
        out[f"map@{k}"] = ap(k)
        out[f"p@{k}"] = sum(hits[:k]) / k
        out[f"recall@{k}"] = sum(hits[:k]) / n_rel if n_rel else 0.0
        out[f"hit@{k}"] = float(any(hits[:k]))
        out[f"mrr@{k}"] = 1.0 / first if 0 < first <= k else 0.0
        out[f"rbp(p={p:g})@{k}"] = sum((1 - p) * p**i for i, hit in enumerate(hits[:k]) if hit)
    return out


def kendall(a: Sequence[float], b: Sequence[float]) -> tuple[int, int, int, int, int]:
    """Return concordant, discordant, tied in a only, tied in b only, tied in both, pair by pair."""
    counts = [0] * 5
    for i, j in combinations(range(len(a)), 2):
        x, y = a[i] - a[j], b[i] - b[j]
        if x == 0 or y == 0:
            counts[4 if x == y else 2 if x == 0 else 3] += 1
        else:
            counts[0 if x * y > 0 else 1] += 1
    return counts[0], counts[1], counts[2], counts[3], counts[4]


def average_ranks(a: Sequence[float]) -> list[float]:
    """Return 1-based ranks, smaller is better, ties averaged."""
    return [(1 + sum(y < x for y in a) + sum(y <= x for y in a)) / 2 for x in a]


def top_k(a: Sequence[Any], b: Sequence[Any]) -> tuple[int, int, int, int]:
    """Return V, U, r and z of two top-k lists as the formula counts them."""
    common = set(a) & set(b)
    v = sum(a.index(y) > a.index(x) and b.index(y) < b.index(x) for x in common for y in common)
    v += sum(b.index(y) < b.index(x) for x in common for y in b if y not in common)
    u = sum(a.index(y) > a.index(x) for x in a if x not in common for y in common)
    return v, u, len(a) - len(common), len(common)


def fagin_zero(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Return the pairs on which two top-k lists disagree when absent items are tied at the end."""
    k = len(a)
    place = [{x: (s.index(x) if x in s else k) for x in {*a, *b}} for s in (a, b)]
    return sum((place[0][x] - place[0][y]) * (place[1][x] - place[1][y]) < 0 for x, y in combinations(place[0], 2))


def rbo(a: Sequence[Any], b: Sequence[Any], p: float) -> float:
    """Return the extrapolated rank-biased overlap of two lists without ties (Webber et al. 2010, equation 32)."""
    short, long = sorted((list(a), list(b)), key=len)
    s, n = len(short), len(long)
    x = [len(set(short[:d]) & set(long[:d])) for d in range(n + 1)]
    total = sum(x[d] / d * p**d for d in range(1, n + 1))
    total += sum(x[s] * (d - s) / (s * d) * p**d for d in range(s + 1, n + 1))
    return (1 - p) / p * total + ((x[n] - x[s]) / n + x[s] / s) * p**n


def over_ties(f: Callable[[list[Any], list[Any]], float], a: list[list[Any]], b: list[list[Any]]) -> float:
    """Return the mean of f over all ways to break the ties of two lists of groups."""

    def ways(groups: list[list[Any]]) -> list[list[Any]]:
        return [[i for group in way for i in group] for way in product(*(list(permutations(g)) for g in groups))]

    results = [f(x, y) for x, y in product(ways(a), ways(b))]
    return sum(results) / len(results)


def sign_flips(differences: Sequence[float]) -> float:
    """Return Fisher's exact two-sided p-value: the share of sign patterns at least as far from 0 as the one seen."""
    exact = [Fraction(d).limit_denominator(10**9) for d in differences]
    seen = abs(sum(exact))
    patterns = list(product((1, -1), repeat=len(exact)))
    return sum(abs(sum(s * d for s, d in zip(p, exact, strict=True))) >= seen for p in patterns) / len(patterns)
