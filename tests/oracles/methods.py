"""Slow twins of the heuristic methods: one instance, plain Python, written from the definitions.

An instance is `items` (in order) and `lists`, each a weight and a mapping from item to strength (larger is better).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from statistics import median

import numpy as np
from scipy import stats

Lists = Sequence[tuple[float, Mapping[str, float]]]
Scores = dict[str, float]


def positions(strengths: Mapping[str, float], ties: str = "average") -> dict[str, float]:
    """Return the place of each item in one list, 1 = best."""
    out = {}
    for i, s in strengths.items():
        above = sum(t > s for t in strengths.values())
        equal = sum(t == s for t in strengths.values())
        if ties == "dense":
            out[i] = 1.0 + len({t for t in strengths.values() if t > s})
        else:
            out[i] = above + (equal + 1) / 2
    return out


def borda(items: Sequence[str], lists: Lists, missing: str = "mean") -> Scores:
    out = dict.fromkeys(items, 0.0)
    for w, strengths in lists:
        place = positions(strengths)
        rest = (len(items) - len(place) + 1) / 2 if missing == "mean" else 0.0
        for i in items:
            out[i] += w * (len(items) - place[i] + 1 if i in place else rest)
    return out


def copies(lists: Lists, scale: int = 2) -> list[Mapping[str, float]]:
    """Return every list as often as `scale` times its weight says."""
    return [strengths for w, strengths in lists for _ in range(round(w * scale))]


def rank_statistics(items: Sequence[str], lists: Lists) -> dict[str, tuple[float, float]]:
    """Return the median and mean position of each item, an item left out standing at m + 1."""
    out = {}
    for i in items:
        places = [positions(s).get(i, len(s) + 1) for s in copies(lists)]
        out[i] = (median(places), sum(places) / len(places)) if places else (0.0, 0.0)
    return out


def mean_rank_of_listed(items: Sequence[str], lists: Lists) -> Scores:
    out = {}
    for i in items:
        places = [positions(s)[i] for s in copies(lists) if i in s]
        out[i] = -(sum(places) / len(places)) if places else -(len(items) + 1.0)
    return out


def ranks(strengths: Mapping[str, float], kind: str) -> dict[str, float]:
    """Return ranks as given (strength is minus the rank), or places."""
    return {i: -s for i, s in strengths.items()} if kind == "rank" else positions(strengths)


def rrf(items: Sequence[str], lists: Lists, kind: str, k: float = 60.0) -> Scores:
    return {i: math.fsum(w / (k + ranks(s, kind)[i]) for w, s in lists if i in s) for i in items}


def rbc(items: Sequence[str], lists: Lists, kind: str, phi: float) -> Scores:
    return {i: math.fsum(w * (1 - phi) * phi ** (ranks(s, kind)[i] - 1) for w, s in lists if i in s) for i in items}


def isr(items: Sequence[str], lists: Lists, kind: str, factor: Callable[[float], float] = float) -> Scores:
    out = {}
    for i in items:
        held = [(w, ranks(s, kind)[i]) for w, s in lists if i in s]
        out[i] = factor(sum(w for w, _ in held)) * math.fsum(w / r**2 for w, r in held)
    return out


def comb_mnz_rank(items: Sequence[str], lists: Lists, kind: str, k: int | None) -> Scores:
    every = [r for w, s in lists if w > 0 for r in ranks(s, kind).values()]
    top = max(every, default=0.0) if k is None else float(k)
    out = {}
    for i in items:
        held = [(w, ranks(s, kind)[i]) for w, s in lists if i in s and ranks(s, kind)[i] <= top]
        out[i] = sum(w for w, _ in held) * math.fsum(w * (top + 1 - r) for w, r in held)
    return out


def normalise(strengths: Mapping[str, float], norm: str, n_items: int) -> tuple[dict[str, float], float | None]:
    """Return the normalised scores of one list and what it gives to items it leaves out."""
    values = list(strengths.values())
    m, low, high = len(values), min(values), max(values)
    place = positions(strengths)
    if norm == "none":
        return dict(strengths), None
    if norm == "rank":
        return {i: 1 - (place[i] - 1) / m for i in strengths}, None
    if norm == "borda":
        return {i: 1 - (place[i] - 1) / n_items for i in strengths}, (n_items - m + 1) / (2 * n_items)
    if norm == "max":
        scale = high if high > 0 else -low
        return {i: s / scale if scale else 0.0 for i, s in strengths.items()}, None
    if low == high:
        return dict.fromkeys(strengths, {"min-max": 1.0, "sum": 1 / m, "z-score": 0.0, "three-sigma": 0.5}[norm]), None
    shifted = {i: Fraction(s) - Fraction(low) for i, s in strengths.items()}
    if norm == "min-max":
        return {i: float(s / max(shifted.values())) for i, s in shifted.items()}, None
    total = sum(shifted.values())
    if norm == "sum":
        return {i: float(s / total) for i, s in shifted.items()}, None
    mean = total / m
    deviation = math.sqrt(sum((s - mean) ** 2 for s in shifted.values()) / m)
    z = {i: float(s - mean) / deviation for i, s in shifted.items()}
    if norm == "three-sigma":
        return {i: min(max((s + 3) / 6, 0.0), 1.0) for i, s in z.items()}, None
    return z, None


def comb(items: Sequence[str], lists: Lists, norm: str, method: str) -> Scores:
    parts = [(w, *normalise(s, norm, len(items))) for w, s in lists if w > 0]
    out: Scores = {}
    silent = []
    for i in items:
        held = [(w, v.get(i, rest)) for w, v, rest in parts if i in v or rest is not None]
        if not held:
            silent.append(i)
            continue
        total, number = math.fsum(w * v for w, v in held), sum(w for w, _ in held)
        out[i] = {
            "sum": total,
            "mnz": number * total,
            "anz": total / number,
            "min": min(v for _, v in held),
            "max": max(v for _, v in held),
            "med": median([v for w, v in held for _ in range(round(2 * w))]),
        }[method]
    lowest = min([0.0, *out.values()])
    return (
        {i: lowest if i in silent else out[i] for i in items} if norm != "borda" or parts else dict.fromkeys(items, 0.0)
    )


def votes(items: Sequence[str], lists: Lists, missing: str = "unknown") -> dict[tuple[str, str], float]:
    """Return the weight of the lists that prefer the first item to the second."""
    out = {}
    for a in items:
        for b in items:
            out[a, b] = sum(
                w
                for w, s in lists
                if (a in s and b in s and s[a] > s[b]) or (missing == "below" and a in s and b not in s)
            )
    return out


def tied_votes(items: Sequence[str], lists: Lists) -> dict[tuple[str, str], float]:
    """Return the weight of the lists that tie two items."""
    return {(a, b): sum(w for w, s in lists if a in s and b in s and s[a] == s[b]) for a in items for b in items}


def outcomes(items: Sequence[str], ahead: Mapping[tuple[str, str], float]) -> dict[str, tuple[int, int]]:
    """Return the wins and losses of each item."""
    return {
        i: (
            sum(ahead[i, j] > ahead[j, i] for j in items if j != i),
            sum(ahead[i, j] < ahead[j, i] for j in items if j != i),
        )
        for i in items
    }


def transitions(items: Sequence[str], lists: Lists, chain: int) -> np.ndarray:
    """Return the transition matrix of MC1 to MC4 before teleport."""
    n = len(items)
    P = np.zeros((n, n))
    ahead, tied = votes(items, lists), tied_votes(items, lists)
    for a, i in enumerate(items):
        held = [(w, s) for w, s in lists if i in s and w > 0]
        total = sum(w for w, _ in held)
        if chain == 4:
            for b, j in enumerate(items):
                both = ahead[i, j] + ahead[j, i] + tied[i, j]
                if j != i and 2 * ahead[j, i] > both:
                    P[a, b] = 1 / n
            P[a, a] = 1 - P[a].sum()
            continue
        if not held:
            P[a, a] = 1.0
        places = sum(w * sum(t >= s[i] for t in s.values()) for w, s in held)
        for w, s in held:
            as_high = [j for j in s if s[j] >= s[i]]
            for j in s:
                b = items.index(j)
                if chain == 1 and j in as_high:
                    P[a, b] += w / places
                elif chain == 2 and j in as_high:
                    P[a, b] += w / total / len(as_high)
                elif chain == 3:
                    P[a, b if s[j] > s[i] else a] += w / total / len(s)
    return P


def stationary(P: np.ndarray, teleport: float) -> np.ndarray:
    n = len(P)
    G = (1 - teleport) * P + teleport / n
    return np.linalg.solve(np.vstack([(G.T - np.eye(n))[:-1], np.ones(n)]), np.append(np.zeros(n - 1), 1.0))


def robust(
    items: Sequence[str],
    lists: Lists,
    missing: str = "last",
    total: int | None = None,
    correction: str = "sidak",
) -> Scores:
    """Return -log10 of the p-value of the k-th smallest rank against a beta law, k counted by weight."""
    n = total or len(items)
    out: Scores = {}
    for i in items:
        held = []
        for w, s in lists:
            if w > 0 and i in s:
                held.append((positions(s)[i] / (n if missing == "last" else len(s)), w))
            elif w > 0 and missing == "last":
                held.append((1.0, w))
        number = sum(w for _, w in held)
        if not held:
            continue
        k, p = 0.0, []
        for r, w in sorted(held):
            k += w
            p.append(stats.beta.cdf(r, k, number - k + 1))
        found = 1 - (1 - min(p)) ** number if correction == "sidak" else min(1.0, number * min(p))
        out[i] = -math.log10(found)
    lowest = min([0.0, *out.values()])
    return {i: out.get(i, lowest) for i in items}
