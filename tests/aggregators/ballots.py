"""Ballots for the tests of voting rules: random ones with ties, weights and items left out, and those of PrefLib."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path

from tests.oracles.elections import Ballots, Groups

import concordant as cc

# The ballots and the items of every instance.
Profiles = dict[str, tuple[Ballots, list[str]]]


def random_profiles(n: int, seed: int) -> tuple[cc.Preferences, Profiles]:
    """Return n instances of 2 to 5 items as preferences, and the ballots and items of each."""
    rng = random.Random(seed)
    rows, weights, known = [], [], []
    profiles: Profiles = {}
    for q in range(n):
        items = list("abcde"[: rng.randint(2, 5)])
        known += [(f"q{q}", i) for i in items]
        ballots: Ballots = []
        for e in range(rng.randint(1, 9)):
            weight = Fraction(rng.choice([1, 1, 1, 2, 3, 5]), rng.choice([1, 1, 1, 2]))
            order = rng.sample(items, rng.choice([len(items), len(items), rng.randint(1, len(items))]))
            groups: Groups = []
            for item in order:
                if groups and rng.random() < 0.2:
                    groups[-1].append(item)
                else:
                    groups.append([item])
            ballots.append((weight, groups))
            for place, group in enumerate(groups):
                rows += [(f"q{q}", f"e{e}", i, place + 1) for i in group]
                weights += [float(weight)] * len(group)
        profiles[f"q{q}"] = ballots, items
    return cc.Preferences(*zip(*rows, strict=True), weight=weights, items=known), profiles


def preflib_files(data_dir: Path) -> list[Path]:
    """Return the files with ballots."""
    return sorted(f for kind in ("soc", "soi", "toc", "toi") for f in data_dir.glob(f"preflib/*/*.{kind}"))


def ballots_of(preferences: cc.Preferences) -> tuple[Ballots, list[str]]:
    """Return the ballots of one instance, equal ones added up, and its items."""
    position = preferences.positions("dense").tolist()
    items = preferences.items.tolist()
    edges, slots, weights = preferences.list_offsets.tolist(), preferences.slot.tolist(), preferences.weights.tolist()
    total: dict[tuple[tuple[str, ...], ...], Fraction] = {}
    for k, weight in enumerate(weights):
        groups: dict[float, list[str]] = {}
        for r in range(edges[k], edges[k + 1]):
            groups.setdefault(position[r], []).append(items[slots[r]])
        ballot = tuple(tuple(groups[p]) for p in sorted(groups))
        total[ballot] = total.get(ballot, Fraction(0)) + Fraction(weight)
    return [(w, [list(g) for g in ballot]) for ballot, w in total.items()], items


def groups_of(consensus: cc.Consensus) -> Iterator[tuple[str, list[set[str]]]]:
    """Yield every instance with its items in groups of equal rank, best first."""
    items, edges = consensus.items.tolist(), consensus.slots.offsets.tolist()
    ranks = consensus.rank.tolist()
    for n, q in enumerate(consensus.instances):
        groups: dict[int, set[str]] = {}
        for s in range(edges[n], edges[n + 1]):
            groups.setdefault(ranks[s], set()).add(items[s])
        yield q, [groups[rank] for rank in sorted(groups)]


def assert_groups(consensus: cc.Consensus, expected: Mapping[str, Groups]) -> None:
    """Require the order of every instance, ties included."""
    for q, got in groups_of(consensus):
        assert got == [set(group) for group in expected[q]], (q, got, expected[q])
