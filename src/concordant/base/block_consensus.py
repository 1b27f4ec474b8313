"""Consensus of blocks by a fitted method, one block at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from concordant.data.consensus import Consensus
from concordant.data.preferences import Preferences
from concordant.errors import DataShiftWarning, warn
from concordant.execution import Shards, report_progress, without_progress

if TYPE_CHECKING:
    from concordant.base.contract import Aggregator

__all__ = ["consensus_of_blocks"]


def consensus_of_blocks(
    blocks: Shards[Preferences],
    method: Aggregator,
    adjust: Callable[[Preferences], Preferences] | None = None,
    top: int | None = None,
) -> Iterator[Consensus]:
    """Yield the consensus of every block by a fitted method; warn once if the data have shifted.

    Parameters
    ----------
    blocks : Shards of Preferences
        The blocks, in memory, on disk or on workers.
    method : Aggregator
        A method that is fitted, or learns nothing.
    adjust : function, optional
        Applied to every block before it is aggregated.
    top : int, optional
        How many items of each instance to keep; all of them when absent.
    """
    told = False
    for done, (consensus, shift) in enumerate(blocks.map(_consensus_of_block, method, adjust, top), 1):
        if shift and not told:
            warn(shift, DataShiftWarning)
            told = True
        report_progress(done, len(blocks))
        yield consensus


def _consensus_of_block(
    block: Preferences, method: Aggregator, adjust: Callable[[Preferences], Preferences] | None, top: int | None
) -> tuple[Consensus, str]:
    """Return the consensus of a block, and in words how the block differs from the training data."""
    votes = block if adjust is None else adjust(block)
    shift = method._data_shift(votes)
    with without_progress():
        # The caller warns of a shift once for all blocks; `predict` would warn for each.
        consensus = method._consensus(method._checked(votes)) if shift else method.predict(votes)
    return consensus if top is None else consensus.top(top), shift
