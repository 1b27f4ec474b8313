"""Standard output and error: closed streams, full disks, broken pipes.

A broken pipe, as after `| head`, ends the command quietly. A full disk or a closed standard output is an error. Text
that cannot be written to standard error is dropped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["open_closed_streams", "tell", "writing_output"]

# How a shell reports a process that SIGPIPE ended.
_READER_GONE = 141


def open_closed_streams() -> None:
    """Put something under the numbers of closed streams: a file opened next would get the number, and their text."""
    # Lowest number first, for the system gives out the lowest that is free. Each is opened the wrong way round, so that
    # what is read or printed is an error; but for standard error, which nobody misses.
    if sys.stdin is None:
        os.open(os.devnull, os.O_WRONLY)
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115 - until the end
    if sys.stderr is None:
        sys.stderr = open(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")  # noqa: SIM115 - until the end


def tell(text: str) -> None:
    """Print a line on standard error."""
    with suppress(OSError):
        print(text, file=sys.stderr)


@contextmanager
def writing_output() -> Iterator[None]:
    """End the command where the system refuses what is printed inside the block: quietly if its reader has gone."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        with suppress(AttributeError, OSError):
            # The interpreter writes out what is left when it ends; that must go nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise SystemExit(_READER_GONE) from error
        tell(f"{type(error).__name__}: cannot write to standard output: {error.strerror}")
        raise SystemExit(1) from error
