"""Where the command `concordant` begins: the version is answered at once, all else by the lazy group of commands."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn

from concordant._version import __version__

__all__ = ["main"]


def main() -> None:
    """Run the command line on `sys.argv`."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"concordant {__version__}")
        return
    for stream in (sys.stdout, sys.stderr):
        # An id the terminal's encoding does not know is shown escaped, it does not end the program.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, _terminate)
    from concordant.cli._group import build

    build(rich=sys.stdout.isatty())(prog_name="concordant")


def _terminate(signum: int, _: FrameType | None) -> NoReturn:
    # As an exception the signal passes through the clean-up of half-written files.
    raise SystemExit(128 + signum)
