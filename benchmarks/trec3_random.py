"""TREC-3 with random experts: some of the 38 full runs are replaced by random rankings of the pooled documents.

Which experts are replaced is drawn once per draw, so that the set for 10 is part of the set for 20, and an expert's
random lists are the same at every level: levels and methods are compared on the same luck.
"""

from __future__ import annotations

import tarfile

import numpy as np
from measure import CACHE, ROOT

import concordant as cc
from concordant.data.index import Slots
from concordant.data.streams import id_hash

FOLDER = ROOT.parent / "shared" / "data" / "trec3-adhoc"
LEVELS = (0, 10, 20, 30, 34)
DRAWS = 10


def available() -> bool:
    """Return whether the data is here."""
    return (FOLDER / "TREC-3-runs.tar.xz").exists()


def full_runs(k: int = 100) -> tuple[cc.Preferences, cc.Labels]:
    """Return the top k of the 38 runs that list k documents for every topic, over the pool of these, and the labels.

    Two of the forty runs (padre1 and TOPIC4) are shorter for eight topics each and are left out, as in the paper.
    """
    target = CACHE / "trec3"
    if not (target / ".done").exists():
        target.mkdir(parents=True, exist_ok=True)
        with tarfile.open(FOLDER / "TREC-3-runs.tar.xz") as archive:
            archive.extractall(target, filter="data")
        (target / ".done").touch()
    runs = cc.read_runs(sorted(str(p) for p in (target / "TREC-3").glob("input.*")))
    shortest = np.full(runs.n_experts, k)
    np.minimum.at(shortest, runs.list_expert, runs.list_lengths)
    present = np.bincount(runs.list_expert, minlength=runs.n_experts) == len(runs)
    complete = [e for e, full in zip(runs.experts, (shortest == k) & present, strict=True) if full]
    return pooled(runs.select_experts(complete).top(k).to_ranks("ordinal")), cc.read_labels(str(FOLDER / "T3-j.txt"))


def pooled(preferences: cc.Preferences) -> cc.Preferences:
    """Return the preferences over the items that stand in some list, and no others."""
    p = preferences
    listed = np.unique(p.slot)
    offsets = np.searchsorted(listed, p.slots.offsets)
    slots = Slots(p.instances, p.items[listed], offsets.astype(np.int64))
    slot = np.searchsorted(listed, p.slot).astype(np.int32)
    return cc.Preferences.from_codes(
        slots, p.experts, p.list_expert, p.list_offsets, p.list_starts, slot, p.value, kind=p.kind
    )


def corrupted(preferences: cc.Preferences, k_random: int, draw: int, k: int = 100) -> cc.Preferences:
    """Return the preferences with the lists of `k_random` experts replaced by random ones.

    In every instance such an expert ranks k documents drawn without replacement from all documents of the instance, in
    random order. Items stay as they are: those that only a replaced list held are then ranked by chance or not at all.

    Parameters
    ----------
    preferences : Preferences
        Ranks of lists of k items by every expert in every instance, as `full_runs` gives them.
    k_random : int
        How many experts are replaced.
    draw : int
        The number of the draw; the same one gives the same experts and lists.
    k : int
        The length of the lists.
    """
    p = preferences
    replaced = np.random.default_rng([draw, id_hash("experts")]).permutation(p.n_experts)[:k_random]
    slot, value = p.slot.copy(), p.value.copy()
    starts, sizes = p.slots.offsets.tolist(), p.slots.sizes.tolist()
    for which in np.flatnonzero(np.isin(p.list_expert, replaced)).tolist():
        n, expert = int(p.list_instance[which]), p.experts[int(p.list_expert[which])]
        rng = np.random.default_rng([draw, id_hash(p.instances[n]), id_hash(expert)])
        rows = slice(int(p.list_offsets[which]), int(p.list_offsets[which + 1]))
        slot[rows] = starts[n] + rng.permutation(sizes[n])[:k]
        value[rows] = np.arange(1.0, k + 1.0)
    return cc.Preferences.from_codes(
        p.slots, p.experts, p.list_expert, p.list_offsets, p.list_starts, slot, value, kind="rank"
    )
