"""Every figure the docs show, at full size: runs the sections and writes docs/results/NAME.json with commit and seed.

A section whose file was written for the same source is not run again, so an interrupted run goes on where it stopped;
`--fresh` runs all, `--only a,b` some. At the end docs/results.md is made from the files, and from nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import growth
from measure import ROOT
from render import render
from sections import BENCHMARKS, EVIDENCE, SEED

import attack

RESULTS = ROOT / "docs" / "results"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def source_id(section: str) -> str:
    """Return what identifies the code measured: the trees it is in, marked when there are changes."""
    parts = ["src", "papers", "benchmarks", *(["tests/attack", "tests/oracles"] if section in attack.SECTIONS else [])]
    trees = "-".join(_git("rev-parse", "--short", f"HEAD:{part}") for part in parts)
    return trees + ("+changes" if _git("status", "--porcelain", "--", *parts) else "")


def run_sections(chosen: Iterable[str], table: dict[str, Callable[[], dict[str, Any]]], *, fresh: bool) -> list[str]:
    """Run what is not there yet, write each result as soon as it is known, and return the sections that failed."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in chosen:
        source = source_id(name)
        target = RESULTS / f"{name}.json"
        known = json.loads(target.read_text()) if target.exists() else {}
        if not fresh and known.get("source") == source:
            print(f"{name}: there already, from commit {known['commit']}\n{json.dumps(known['results'], indent=1)}")
            failed += [name] if known["results"].get("failed") else []
            continue
        print(f"{name}: {(table[name].__doc__ or '').splitlines()[0]}", flush=True)
        started = time.perf_counter()
        if fresh:
            growth.forget(name)
        results = table[name]()
        record = {
            "section": name,
            "commit": _git("rev-parse", "--short", "HEAD"),
            "source": source,
            "seed": SEED,
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "seconds": round(time.perf_counter() - started, 1),
            "results": results,
        }
        target.write_text(json.dumps(record, indent=1) + "\n")
        print(json.dumps(results, indent=1), flush=True)
        failed += [name] if results.get("failed") else []
    return failed


def main(table: dict[str, Callable[[], dict[str, Any]]]) -> None:
    """Run the sections named on the command line, all by default, and make the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="sections, separated by commas: " + ", ".join(table))
    parser.add_argument("--fresh", action="store_true", help="run again what is there already")
    options = parser.parse_args()
    chosen = [name for name in options.only.split(",") if name] or list(table)
    unknown = [name for name in chosen if name not in table]
    if unknown:
        sys.exit(f"no section {unknown[0]!r}; there are {', '.join(table)}")
    failed = run_sections(chosen, table, fresh=options.fresh)
    render(RESULTS, ROOT / "docs" / "results.md")
    if failed:
        sys.exit(f"what must not happen did, see docs/results.md: {', '.join(failed)}")


if __name__ == "__main__":
    main(EVIDENCE)
    print(f"{len(BENCHMARKS)} benchmarks and {len(EVIDENCE) - len(BENCHMARKS)} experiments are in docs/results.md")
