"""Entry point of `concordant`: answers --version at once and loads the other commands when they are called."""

from __future__ import annotations

import gc
import os
import signal
import sys

from concordant._version import __version__
from concordant.cli._streams import open_closed_streams, tell, writing_output

# As type checkers know it, without importing `typing`, which takes a fifth of `concordant --version`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import FrameType, TracebackType
    from typing import NoReturn

__all__ = ["main"]

# The exit codes of an interrupt and of a request to end.
_SIGNALLED = (130, 143)


def main() -> None:
    """Run the command line on `sys.argv`."""
    # Imports make many objects and no garbage: looking for it every 700 objects costs a tenth of the start.
    gc.set_threshold(100_000)
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # An id the terminal's encoding does not know is shown escaped, it does not end the program.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.excepthook = _show_unexpected
    sys.unraisablehook = _send_again
    signal.signal(signal.SIGTERM, _terminate)
    try:
        with writing_output():
            _run()
            sys.stdout.flush()
    except SystemExit as end:
        if end.code in _SIGNALLED:
            # All is cleaned up; threads that still compute what nobody wants must not hold up the end.
            sys.stderr.flush()
            os._exit(int(end.code))
        raise
    finally:
        # The interpreter ends with one more search for garbage, which costs another tenth; leave it nothing to search.
        gc.freeze()


def _run() -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"concordant {__version__}")
        return
    from concordant.cli._group import build

    try:
        build(rich=sys.stdout.isatty())(prog_name="concordant")
    except SystemExit as end:
        # Typer ends with 1 when the reader of its help has gone.
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        sys.stdout.flush()
        raise


def _show_unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of an error that nobody expected, which may quote the user's data."""
    from traceback import format_exception

    from concordant.errors import visible

    for line in "".join(format_exception(kind, error, trace)).splitlines():
        tell(visible(line))


def _send_again(dropped: UnraisableHookArgs) -> None:
    """Send a signal once more whose exception was raised where Python drops exceptions, as in a weak reference."""
    number = {KeyboardInterrupt: signal.SIGINT, SystemExit: signal.SIGTERM}.get(dropped.exc_type)
    if number is None:
        sys.__unraisablehook__(dropped)
    else:
        from threading import Timer

        # A little later: here it would be dropped again.
        Timer(0.01, os.kill, [os.getpid(), number]).start()


def _terminate(signum: int, _: FrameType | None) -> NoReturn:
    # As an exception the signal passes through the clean-up of half-written files.
    raise SystemExit(128 + signum)
