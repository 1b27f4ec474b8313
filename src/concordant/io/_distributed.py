"""Distributed reading: the workers of a cluster read files into blocks of whole instances.

Every file (or window of a file) is read and encoded by one worker, which sends back its instances and experts only.
From these the blocks are chosen. Then each worker splits its rows by block, and one worker joins the parts of a block.
Rows stay on the workers.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.arrays import Codes, Ints
from concordant.data.index import Texts
from concordant.data.preferences import Preferences
from concordant.execution.shards import Cluster, OnCluster
from concordant.io._dictionary_encoding import Batch, DictionaryEncoder, merge_batches
from concordant.io._row_sources import RowSource
from concordant.kernels.lists import offsets_of, ranges

if TYPE_CHECKING:
    from concordant.io.blocks import RowReader

__all__ = ["DistributedBlocks", "read_on_cluster"]

# All rows of a step are encoded in one batch.
_NO_LIMIT = 2**31 - 1


class _EncodedStep(NamedTuple):
    """One step (a file or window), encoded, as a worker holds it."""

    batch: Batch | None
    instances: list[str]
    experts: list[Hashable]
    n_rows: int
    nulls: bool
    state: Any


class _StepSummary(NamedTuple):
    """What a worker sends back about a step: instances with their number of rows, experts, and the reader's state."""

    instances: list[str]
    rows: Ints
    experts: list[Hashable]
    n_rows: int
    nulls: bool
    state: Any


class DistributedBlocks(NamedTuple):
    """Blocks of preferences on the workers, with their instances, experts and edges."""

    pieces: OnCluster[Preferences]
    instances: Texts
    rows: Ints
    experts: list[str]
    edges: list[int]


class _BatchList:
    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def put(self, batch: Batch) -> None:
        self.batches.append(batch)


def _read(reader: RowReader, step: int) -> _EncodedStep:
    collected = _BatchList()
    encoder = DictionaryEncoder(sink=collected, batch_rows=_NO_LIMIT)
    reader.read_step(encoder, step)
    encoder.flush()
    batch = collected.batches[0] if collected.batches else None
    return _EncodedStep(
        batch, list(encoder.instances), list(encoder.experts), encoder.n_rows, encoder.nulls, reader.state()
    )


def _summarise(encoded: _EncodedStep) -> _StepSummary:
    rows = np.zeros(len(encoded.instances), dtype=np.int64)
    if encoded.batch is not None:
        np.add.at(rows, encoded.batch.instance, encoded.batch.length)
    return _StepSummary(encoded.instances, rows, encoded.experts, encoded.n_rows, encoded.nulls, encoded.state)


def _select_instances(
    encoded: _EncodedStep, own: Ints, new: Ints, n_new: int, expert: Codes, base: int
) -> Batch | None:
    """Return the rows that a step holds of the instances `own`, renumbered as `new` among `n_new`."""
    batch = encoded.batch
    if batch is None:
        return None
    run0, run1 = np.searchsorted(batch.instance, own), np.searchsorted(batch.instance, own, side="right")
    row_of_run, slot_of = offsets_of(batch.length), offsets_of(batch.counts)
    runs = ranges(run0, run1)
    rows = ranges(row_of_run[run0], row_of_run[run1])
    slots = ranges(slot_of[own], slot_of[own + 1])
    counts = np.zeros(n_new, dtype=np.int64)
    counts[new] = batch.counts[own]
    shift = offsets_of(counts)[new] - slot_of[own]
    known = batch.expert[runs]
    return Batch(
        np.repeat(new, run1 - run0).astype(np.int32),
        np.where(known >= 0, expert[known], known).astype(np.int32) if len(expert) else known,
        batch.length[runs],
        batch.origin[runs] + base,
        (batch.slot[rows] + np.repeat(shift, row_of_run[run1] - row_of_run[run0])).astype(np.int32),
        None if batch.value is None else batch.value[rows],
        batch.items.gather(slots),
        batch.first[slots] + base,
        counts,
        batch.repeated,
        None if batch.weight is None else batch.weight[runs],
    )


def _build_block(
    parts: Sequence[Batch | None], reader: RowReader, instances: list[str], experts: list[Hashable], nulls: bool
) -> Preferences:
    there = [part for part in parts if part is not None]
    rows = merge_batches(there, Texts(instances), experts, [(0, RowSource())], valued=True, nulls=nulls)
    return reader.preferences(rows)


def read_on_cluster(reader: RowReader, engine: Cluster, edges_of: Any) -> DistributedBlocks:
    """Read on a cluster and return the blocks.

    Parameters
    ----------
    reader : RowReader
        Reads the rows.
    engine : Cluster
        The cluster.
    edges_of : function
        From the number of rows of every instance to the instances at which blocks begin.
    """
    encoded = [engine.submit(_read, reader, step) for step in range(reader.n_steps())]
    summaries: list[_StepSummary] = [
        engine.result(handle) for handle in [engine.submit(_summarise, c) for c in encoded]
    ]
    instances: dict[str, int] = {}
    experts: dict[Hashable, int] = {}
    for step in summaries:
        for name in step.instances:
            instances.setdefault(name, len(instances))
        for key in step.experts:
            experts.setdefault(key, len(experts))
    codes = [np.array([instances[name] for name in step.instances], dtype=np.int64) for step in summaries]
    expert_codes = [np.array([experts[key] for key in step.experts], dtype=np.int32) for step in summaries]
    rows = np.zeros(len(instances), dtype=np.int64)
    for own, step in zip(codes, summaries, strict=True):
        rows[own] += step.rows
    base = offsets_of(np.array([step.n_rows for step in summaries], dtype=np.int64)).tolist()
    reader.merge_states([step.state for step in summaries], base[:-1])
    nulls = any(step.nulls for step in summaries)
    edges: list[int] = edges_of(rows)
    names, known = list(instances), list(experts)
    pieces = []
    for begin, end in pairwise(edges):
        parts = []
        for k, code in enumerate(codes):
            own = np.flatnonzero((code >= begin) & (code < end))
            if len(own):
                # Sorted as in the block.
                own = own[np.argsort(code[own], kind="stable")]
                parts.append(
                    engine.submit(
                        _select_instances, encoded[k], own, code[own] - begin, end - begin, expert_codes[k], base[k]
                    )
                )
        pieces.append(engine.submit(_build_block, parts, reader, names[begin:end], known, nulls))
    return DistributedBlocks(OnCluster(engine, pieces), Texts(names), rows, reader.names(known), edges)
