"""Ids that try to run, to end what they stand in, to turn the text around, or to take all the room."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np

import concordant as cc

IDS = [
    "<script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "'\"`--></script><script>window.hacked=1</script>",
    "</style><script>window.hacked=1</script>",
    "</title><svg onload=window.hacked=1>",
    "مرحبا بالعالم",
    "\u202eturned\u2066around",
    "👩\u200d👩\u200d👧\u200d👦 family",
    "x" * 10_000,
    "word " * 2_000,
    "a" + "\u0301" * 500,
    "{{ 7 * 7 }}{% raise %}",
    "\x00\x07\x1b[31m",
    "javascript:alert(1)",
    "&lt;b&gt;&amp;",
    "line\u2028break\u2029here",
    "<!--",
    "__proto__",
]
# Items called by the id of another, so that names try everything that ids do; the last has none.
NAMES = dict(pairwise(IDS))


def votes() -> tuple[cc.Preferences, cc.Labels]:
    """Return lists in which instances, experts and items are all called such."""
    draw = random.Random(0)
    rows = []
    for instance in IDS:
        for expert in IDS[:9]:
            order = IDS[:]
            draw.shuffle(order)
            rows += [(instance, expert, item, float(rank)) for rank, item in enumerate(order[:12], 1)]
    labels = [(instance, item, float((n + m) % 3)) for m, instance in enumerate(IDS) for n, item in enumerate(IDS)]
    return (
        cc.Preferences(*(list(column) for column in zip(*rows, strict=True))),
        cc.Labels(*(list(column) for column in zip(*labels, strict=True))),
    )


def arena() -> cc.Comparisons:
    """Return votes with times, categories and covariates, in which all names are hostile."""
    rng = np.random.default_rng(8)
    n, names = 1500, np.array(IDS, dtype=object)
    strength = np.linspace(1, -1, len(names))
    left = rng.integers(0, len(names), n)
    right = (left + rng.integers(1, len(names), n)) % len(names)
    length = rng.normal(size=n) * 100
    chance = 1 / (1 + np.exp(strength[right] - strength[left] - length / 200))
    won, tied = rng.random(n) < chance, rng.random(n) < 0.2
    return cc.Comparisons(
        "arena",
        names[rng.integers(0, len(names), n)].tolist(),
        names[left].tolist(),
        names[right].tolist(),
        (won & ~tied).astype(float),
        (~won & ~tied).astype(float),
        tied.astype(float),
        time=1.7e9 + 3600.0 * np.arange(n),
        category=names[rng.integers(0, 4, n)].tolist(),
        covariates={IDS[0]: length},
    )
