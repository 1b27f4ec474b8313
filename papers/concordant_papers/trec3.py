"""TREC-3 runs, with some of them replaced by random lists.

Each draw fixes the order in which runs are replaced and their random lists. The runs replaced at one level are also
replaced at the next, so that levels and methods are compared on the same random lists.
"""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

import concordant as cc
from concordant.data.streams import instance_stream
from concordant.errors import DataError
from concordant_papers._arrays import Ints
from concordant_papers.engine import Setting

__all__ = ["FOLDER", "SYNTHETIC", "Runs", "alone", "complete", "folder_of", "read", "reads_of", "replaced", "values_of"]

FOLDER = "trec3-adhoc"
# Name of the synthetic runs, in place of a folder.
SYNTHETIC = "synthetic-runs"
_ARCHIVE, _LABELS = "TREC-3-runs.tar.xz", "T3-j.txt"
# Depth of the runs and of the evaluation.
LONGEST = 1000


class Runs(NamedTuple):
    """The scored lists of all systems, and the labels."""

    preferences: cc.Preferences
    labels: cc.Labels


def folder_of(setting: Setting) -> str | None:
    """Return the folder of the runs, a name for synthetic ones, or None where there is nothing."""
    if setting.quick:
        return SYNTHETIC
    folder = setting.folder(FOLDER)
    return None if folder is None else str(folder)


def reads_of(folder: str) -> tuple[Path, ...]:
    """Return what a cell on these runs reads."""
    return () if folder == SYNTHETIC else (Path(folder) / _ARCHIVE, Path(folder) / _LABELS)


@cache
def read(folder: str) -> Runs:
    """Return the runs of a folder, read once in a process."""
    if folder == SYNTHETIC:
        sample = cc.synthetic.runs(20, skill=12, top=40, pool=120, relevant=0.1, random_state=3)
        return Runs(sample.preferences, sample.labels)
    # Unpack into a temporary folder, so that parallel processes share nothing.
    with TemporaryDirectory() as unpacked:
        with tarfile.open(Path(folder) / _ARCHIVE) as archive:
            archive.extractall(unpacked, filter="data")
        files = sorted(str(path) for path in Path(unpacked).rglob("input.*"))
        if not files:
            raise DataError(f"{_ARCHIVE} holds no files input.*, which the runs are expected in.")
        return Runs(cc.read_runs(files), cc.read_labels(str(Path(folder) / _LABELS)))


@cache
def complete(folder: str, k: int) -> cc.Preferences:
    """Return the first k ranks of the systems that list k documents for every topic, over the pool of these.

    Two of the forty runs (padre1 and TOPIC4) are shorter for eight topics each, and are left out, as in the paper.
    """
    p = read(folder).preferences
    shortest = np.full(p.n_experts, k)
    np.minimum.at(shortest, p.list_expert, p.list_lengths)
    answered = np.bincount(p.list_expert, minlength=p.n_experts) == len(p)
    kept = p.experts[np.flatnonzero((shortest == k) & answered)].tolist()
    return pooled(p.select_experts(kept).top(k).to_ranks("ordinal"))


def pooled(preferences: cc.Preferences) -> cc.Preferences:
    """Return the top ranks of some systems over the items that at least one of their lists holds."""
    p = preferences
    home = p.slots.instance[p.slot]
    experts, items = p.experts[p.row_expert], p.items[p.slot]
    return cc.Preferences(p.instances[home], experts, items, p.value, kind=p.kind, missing="below")


@cache
def whole(folder: str) -> cc.Preferences:
    """Return the ranks of all lists of all systems."""
    return read(folder).preferences.to_ranks("ordinal")


def replaced(preferences: cc.Preferences, n: int, draw: int) -> cc.Preferences:
    """Return the ranks with all lists of n experts replaced by random ones as long.

    A random list holds documents drawn without replacement from all that its instance has, in random order. Items stay
    as they are: those that only a replaced list held are then ranked by chance, or not at all.

    Parameters
    ----------
    preferences : Preferences
        Ranks 1, 2, ... without gaps or ties.
    n : int
        How many experts are replaced.
    draw : int
        The number of the draw; the same one replaces the same experts by the same lists.

    Examples
    --------
    >>> votes = cc.from_lists({"x": ["a", "b", "c"], "y": ["a", "b", "c"]})
    >>> changed = replaced(votes, 1, draw=0)
    >>> int((changed.slot.reshape(2, 3) == votes.slot.reshape(2, 3)).all(axis=1).sum())
    1
    """
    p = preferences
    gone = chosen(p, n, draw)
    slot, value = p.slot.copy(), p.value.copy()
    starts, sizes = p.slots.offsets.tolist(), p.slots.sizes.tolist()
    for which in np.flatnonzero(np.isin(p.list_expert, gone)).tolist():
        q, expert = int(p.list_instance[which]), p.experts[int(p.list_expert[which])]
        rows = slice(int(p.list_offsets[which]), int(p.list_offsets[which + 1]))
        length = rows.stop - rows.start
        stream = instance_stream(draw, f"{p.instances[q]} {expert}")
        slot[rows] = starts[q] + stream.permutation(sizes[q])[:length]
        value[rows] = np.arange(1.0, length + 1.0)
    return cc.Preferences.from_codes(
        p.slots, p.experts, p.list_expert, p.list_offsets, p.list_starts, slot, value, kind="rank", below=p.below()
    )


def chosen(preferences: cc.Preferences, n: int, draw: int) -> Ints:
    """Return the numbers of the experts that `replaced` replaces."""
    order: Ints = instance_stream(draw, "experts").permutation(preferences.n_experts)
    return order[:n]


def alone(preferences: cc.Preferences, expert: str) -> cc.Consensus:
    """Return the lists of one expert as a consensus of its own items."""
    p = preferences
    rows = np.flatnonzero(p.row_expert == p.experts.codes[expert])
    home = p.slots.instance[p.slot[rows]]
    return cc.Consensus(p.instances[home], p.items[p.slot[rows]], p.strengths()[rows])


def values_of(consensus: cc.Consensus, labels: cc.Labels, metrics: list[str]) -> dict[str, list[float]]:
    """Return the values of every topic, of the first thousand documents at most, by trec_eval's rules."""
    found: Any = cc.evaluate(consensus.top(LONGEST), labels, metrics, convention="trec")
    return {m: [round(float(v), 6) for v in found.values[m]] for m in metrics}
