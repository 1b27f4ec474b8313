"""A judge for tests of the watchdog; it imports nothing heavy, so that a child of it starts at once."""

from __future__ import annotations

import os
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
                time.sleep(60)
            case "slow once":
                if not (folder / "seen").exists():
                    (folder / "seen").touch()
                    time.sleep(60)
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
