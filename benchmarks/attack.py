"""Hostile input at full size: damaged files, hostile models, degenerate votes, requests and kills of tests/attack.

Inputs are numbered and seeded, and judged in chunks; a chunk that is finished is kept under benchmarks/work and not
judged again while the source and the generators stay as they are.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from growth import Cases
from measure import CACHE, ROOT
from render import table

if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

PROCESSES = min(os.cpu_count() or 1, 4)
WORK = CACHE / "attack"
# How many inputs there are, and how many are judged before the result is kept.
SIZES = {
    "files": (105_000, 10_500),
    "models": (19_200, 6_400),
    "fits": (19_800, 3_300),
    "requests": (37_000, 7_400),
    "kills": (280, 56),
}
GENERATORS = tuple(f"../tests/attack/{name}" for name in ("watch", *SIZES))
ORACLES = tuple(f"../tests/oracles/{name}" for name in ("readers", "trec_reader", "contents"))
FAULTS = {
    "foreign": "foreign errors",
    "hang": "hangs",
    "died": "crashes",
    "executed": "inputs that executed something",
    "wrong": "wrong answers",
    "left": "files left behind",
}
NAMES = {
    "files": ("damaged files", "format", "read", "refused"),
    "models": ("hostile models", "model", "predicts", "refused"),
    "fits": ("degenerate votes", "method", "answered", "refused"),
    "requests": ("requests to fuse", "method", "answered", "refused"),
    "kills": ("killed commands", "command", "killed", "ended before"),
}


def judged(what: str, first: int, last: int) -> dict[str, Any]:
    """Judge a chunk of inputs and return the counts."""
    watch, inputs = import_module("tests.attack.watch"), import_module(f"tests.attack.{what}")
    limit = getattr(inputs, "LIMIT", watch.LIMIT)
    # Nothing that another source has saved is judged.
    shutil.rmtree(WORK / what, ignore_errors=True)
    counts = watch.share(f"tests.attack.{what}:judge", {}, first, last, WORK / what, PROCESSES, limit)
    # Messages name the files that were judged; where they lay is nobody's business.
    found: dict[str, Any] = json.loads(json.dumps(counts).replace(f"{WORK}{os.sep}", ""))
    return found


def campaign(what: str, inputs: int, chunk: int) -> dict[str, Any]:
    """Judge all inputs of one sort, chunk by chunk, and return the counts; `failed` says whether anything was found."""
    cases = Cases(f"attack_{what}", "attack", *GENERATORS, *ORACLES)
    parts = [cases.get(judged, what, first, min(first + chunk, inputs)) for first in range(0, inputs, chunk)]
    found: dict[str, Any] = import_module("tests.attack.watch").joined(parts)
    faults = sum(found["findings"][sort] for sort in FAULTS)
    return {"failed": faults > 0, **found}


def attack_files() -> dict[str, Any]:
    """Damaged files of every format, read in several ways and compared with naive parsers."""
    return campaign("files", *SIZES["files"])


def attack_models() -> dict[str, Any]:
    """Hostile models: damaged bytes, and single values replaced with the checksum made right again."""
    return campaign("models", *SIZES["models"])


def attack_fits() -> dict[str, Any]:
    """Degenerate votes and extreme numbers through every method, ranks compared after permuting and renaming."""
    return campaign("fits", *SIZES["fits"])


def attack_requests() -> dict[str, Any]:
    """Hostile requests to `fuse`: ids, scores, names and options of every type, compared with the container."""
    return campaign("requests", *SIZES["requests"])


def attack_kills() -> dict[str, Any]:
    """Commands killed at random moments and right before their own changes to files, and run again."""
    return campaign("kills", *SIZES["kills"])


def _shown(what: str) -> Callable[[dict[str, Any]], str]:
    inputs, group, answered, refused = NAMES[what]

    def show(r: dict[str, Any]) -> str:
        counted = ", ".join(f"{r['findings'][sort]:,} {words}" for sort, words in FAULTS.items())
        rows = [
            [name, f"{n['inputs']:,}", f"{n['answered']:,}", f"{n['inputs'] - n['answered']:,}", f"{n['faults']:,}"]
            for name, n in r["groups"].items()
        ]
        slow, slowest = r["slowest"]
        parts = [f"{r['inputs']:,} {inputs}: {counted}. The slowest took {slow:.1f} s ({slowest})."]
        parts += [_against_naive(r["counts"])] if what == "files" else []
        return "\n\n".join([*parts, table([group, "inputs", answered, refused, "faults"], rows)])

    return show


def _against_naive(counts: dict[str, int]) -> str:
    unsure = sum(n for name, n in counts.items() if name.startswith("naive unsure"))
    alone = sum(n for name, n in counts.items() if name.startswith("refused alone"))
    return (
        f"Beside naive parsers: {counts.get('both read', 0):,} files are read by both with equal contents, "
        f"{counts.get('both refuse', 0):,} refused by both, {alone:,} refused by Concordant alone; of {unsure:,} the "
        "documentation does not say what they mean."
    )


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "attack_files": attack_files,
    "attack_models": attack_models,
    "attack_fits": attack_fits,
    "attack_requests": attack_requests,
    "attack_kills": attack_kills,
}
RENDER = {f"attack_{what}": _shown(what) for what in SIZES}
