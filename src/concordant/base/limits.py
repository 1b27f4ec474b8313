"""Limits of memory and time: an instance that would take too much is refused before the work begins."""

from __future__ import annotations

import math
import os

import numpy as np
from numpy.typing import ArrayLike

from concordant.data.comparisons import Comparisons
from concordant.data.container import counted
from concordant.data.preferences import Preferences
from concordant.errors import DataError, ParameterError, quote
from concordant.execution import free_memory

__all__ = ["MAX_SECONDS", "check_limits"]

# The environment variable that sets how long one instance may take.
MAX_SECONDS = "CONCORDANT_MAX_SECONDS"
_DEFAULT_SECONDS = 60.0
# Bytes of memory that are not checked, because every machine has them.
_SMALL = 2**29
# Methods whose cost grows with the rows alone.
_LIGHT = "borda, rrf or plackett-luce"
_LIGHT_PAIRS = "bradley-terry"


def check_limits(
    owner: str,
    votes: Preferences | Comparisons,
    what: str,
    *,
    n_bytes: ArrayLike = 0.0,
    seconds: ArrayLike = 0.0,
) -> None:
    """Raise DataError if an instance would take more memory than is free, or more time than the limit.

    Parameters
    ----------
    owner : str
        The method.
    votes : Preferences or Comparisons
        What it works on.
    what : str
        What takes the memory or time, in words.
    n_bytes, seconds : float, or one for each instance
        Estimates for an instance, rather too low than too high.

    Examples
    --------
    >>> votes = Preferences(["q", "q"], ["x", "x"], ["a", "b"], [1, 2])
    >>> check_limits("Kemeny", votes, "a table of all pairs", n_bytes=8.0 * votes.slots.sizes**2)
    """
    if len(votes) == 0:
        return
    room, time = (np.broadcast_to(np.asarray(each, dtype=np.float64), votes.shape) for each in (n_bytes, seconds))
    n = int(np.argmax(room))
    if room[n] > _SMALL and room[n] > (free := free_memory()):
        raise DataError(
            f"{owner} needs about {_size(float(room[n]))} of memory for {what} of {_described(votes, n)}, and "
            f"{_size(free)} are free. Use {_alternatives(votes)}, or take fewer items."
        )
    n = int(np.argmax(time))
    if time[n] > _max_seconds():
        enough = 10 ** len(str(int(time[n])))
        raise DataError(
            f"{owner} would take about {_duration(float(time[n]))} for {what} of {_described(votes, n)}. Use "
            f"{_alternatives(votes)}, or set the environment variable {MAX_SECONDS}={enough} to run it all the same."
        )


def _max_seconds() -> float:
    """Return the number of seconds that an instance may take."""
    asked = os.environ.get(MAX_SECONDS, "").strip() or str(_DEFAULT_SECONDS)
    try:
        seconds = float(asked)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0.0:
        raise ParameterError(f"the environment variable {MAX_SECONDS} must be a number of seconds, not {quote(asked)}.")
    return seconds


def _alternatives(votes: Preferences | Comparisons) -> str:
    return _LIGHT if isinstance(votes, Preferences) else _LIGHT_PAIRS


def _described(votes: Preferences | Comparisons, n: int) -> str:
    """Return an instance with its size, in words."""
    size = counted(int(votes.slots.sizes[n]), "item")
    if isinstance(votes, Preferences):
        size += f" in {counted(int(votes.list_starts[n + 1] - votes.list_starts[n]), 'list')}"
    return f"instance {votes.instances[n]!r} ({size})"


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes < 1e11 else f"{n_bytes / 1e9:,.0f} GB"


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} seconds"
