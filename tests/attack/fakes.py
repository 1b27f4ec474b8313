"""A judge for tests of the watchdog, and a program to be killed; both import nothing heavy and start at once."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def numbered(folder: Path, at: dict[str, str]) -> Callable[[int], dict[str, Any]]:
    """Return a judge who hangs, dies or complains at the numbers given."""

    def one(number: int) -> dict[str, Any]:
        match at.get(str(number)):
            case "hang":
                _spin(60)
            case "slow once":
                if not (folder / "seen").exists():
                    (folder / "seen").touch()
                    _spin(60)
            case "compile":
                if not (folder / "compiled").exists():
                    _spin(1)
                    (folder / "compiled").touch()
            case "late":
                time.sleep(1.5)
            case "abort":
                os.abort()
            case "exit":
                sys.exit(3)
            case "print":
                print("between the records", flush=True)  # noqa: T201 - must not disturb
            case "foreign":
                return {"outcome": "KeyError", "findings": [["foreign", "KeyError"]]}
        return {"outcome": "read", "findings": [], "counts": {"seen": 1}}

    return one


def _spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def program(kind: str, path: str, notes: str) -> None:
    """Write a file with care, or without: the first time slowly, so that there is time for a kill."""
    first = not os.path.exists(f"{notes}/seen")
    if kind == "refusing" and not first:
        sys.exit(3)
    if kind in ("deaf", "complaining"):
        signal.signal(signal.SIGTERM, lambda *_: 1 / 0 if kind == "complaining" else None)
    if kind == "untidy":
        Path(f"{path}.{os.getpid()}").touch()
    unfinished = path if kind == "in place" else f"{path}.tmp"
    with open(unfinished, "w") as file:
        file.write("al")
        file.flush()
        Path(f"{notes}/seen").touch()
        for _ in range(100 if first else 0):
            time.sleep(0.1)
        file.write("l")
    os.replace(unfinished, path)


if __name__ == "__main__":
    program(*sys.argv[1:])
