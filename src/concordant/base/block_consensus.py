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
    """Yield the consensus of every block by a fitted method; a shift in the data is warned of once.

    Parameters
    ----------
    blocks : Shards of Preferences
        The blocks, wherever they lie.
    method : Aggregator
        One that is fitted, or learns nothing.
    adjust : function, optional
        What is done to every block before.
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
    """Return the consensus of a block, and how it differs from what the method learned from."""
    votes = block if adjust is None else adjust(block)
    shift = method._data_shift(votes)
    with without_progress():
        # A shift is said once for all blocks, and not by each.
        consensus = method._consensus(method._checked(votes)) if shift else method.predict(votes)
    return consensus if top is None else consensus.top(top), shift
