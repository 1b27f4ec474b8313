"""Commands killed at random moments, or right before one of their own changes to files, and then run again.

After the kill there is a complete file under the final name, or none. After the same command has run again there are
the bytes of an undisturbed run and nothing else: no unfinished file, no checkpoint, nothing in the folder for temporary
files. A command that is asked to stop, and not killed outright, stops soon and without a traceback.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.attack.models import taken_apart
from tests.attack.watch import InTurn

import concordant as cc
from concordant.errors import ConcordantError

SEED = 17
# Seconds for one input, and until a command that is asked to stop has stopped.
LIMIT, STOPS = 180.0, 20.0
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
JOBS: dict[str, tuple[str, list[str]]] = {
    "aggregate": ("out.trec", ["aggregate", "RUNS", "-m", "comb-mnz", "-o", "OUT"]),
    "aggregate, packed": ("out.csv.gz", ["aggregate", "RUNS", "-m", "rrf", "-o", "OUT"]),
    "aggregate in blocks": ("out.trec", ["aggregate", "RUNS", "-m", "rrf", "-o", "OUT", "--memory", "0"]),
    "aggregate with checkpoint": (
        "out.trec",
        ["aggregate", "RUNS", "-m", "rrf", "-o", "OUT", "--memory", "0", "--checkpoint", "CHECKPOINT"],
    ),
    "fit": ("out.model", ["fit", "RUNS", "--labels", "QRELS", "-m", "crf", "-p", "passes=15", "-o", "OUT", "--resume"]),
    "convert": ("out.parquet", ["convert", "RUNS", "-o", "OUT"]),
    "convert, packed": ("out.jsonl.zst", ["convert", "RUNS", "-o", "OUT"]),
}
_EVENTS = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree")


def write_runs(folder: Path, queries: int = 40, items: int = 40, systems: int = 4) -> None:
    """Write runs and their qrels."""
    chance = random.Random(SEED)
    (folder / "runs").mkdir(parents=True)
    for system in range(systems):
        with (folder / "runs" / f"s{system}.trec").open("w") as file:
            for q in range(queries):
                for rank, item in enumerate(chance.sample(range(2 * items), items), 1):
                    file.write(f"{q} Q0 d{item} {rank} {items - rank + chance.random():.6f} s{system}\n")
    with (folder / "qrels.txt").open("w") as file:
        file.writelines(f"{q} 0 d{i} {(q + i) % 3}\n" for q in range(queries) for i in range(2 * items))


@dataclass
class Place:
    """Where a command works: its data, its output, and its own folder for temporary files."""

    data: Path
    folder: Path

    def fresh(self) -> None:
        """Remove whatever an earlier command left."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("out", "tmp"):
            (self.folder / name).mkdir(parents=True)

    def command(self, job: str, *wrapped: str) -> list[str]:
        """Return the command line of a job, run by a wrapper where one is given."""
        name, arguments = JOBS[job]
        named = {
            "RUNS": str(self.data / "runs"),
            "QRELS": str(self.data / "qrels.txt"),
            "OUT": str(self.folder / "out" / name),
            "CHECKPOINT": str(self.folder / "out" / "checkpoint"),
        }
        start = ["-m", "tests.attack.kills", *wrapped] if wrapped else ["-m", "concordant"]
        return [sys.executable, *start, *(named.get(a, a) for a in arguments), "-q"]

    def start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a command with a folder of its own for temporary files."""
        env = {**os.environ, "TMPDIR": str(self.folder / "tmp"), "PYTHONFAULTHANDLER": ""}
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def output(self, job: str) -> Path:
        """Return the one file that a job is to leave."""
        return self.folder / "out" / JOBS[job][0]

    def left(self, job: str) -> list[str]:
        """Return everything there is beside the output."""
        there = [p for name in ("out", "tmp") for p in (self.folder / name).rglob("*")]
        return sorted(str(p.relative_to(self.folder)) for p in there if p != self.output(job))


def content(path: Path) -> Any:
    """Return what tells one output from another: all bytes, but of a model not how long its fit took."""
    data = path.read_bytes()
    if path.suffix != ".model":
        return data
    header, arrays = taken_apart(data)
    header.pop("checksum")
    header["fit_info"].pop("seconds")
    return json.dumps(header, sort_keys=True), sorted(arrays.items())


@dataclass
class Whole:
    """An undisturbed run: what it wrote, how long it took and how often it changed files."""

    content: Any
    seconds: float
    events: int


def undisturbed(job: str, place: Place) -> Whole:
    """Run a job twice to its end, which must give the same, and return what it did."""
    found = []
    for wrapped in ((), ("count", str(place.folder / "tmp" / "events"))):
        place.fresh()
        started = time.perf_counter()
        with place.start(place.command(job, *wrapped)) as child:
            _, said = child.communicate()
        found.append((content(place.output(job)), time.perf_counter() - started))
        if child.returncode != 0 or (not wrapped and place.left(job)):
            raise RuntimeError(f"{job}: exit code {child.returncode}, left {place.left(job)}: {said.decode()[-1000:]}")
    if found[0][0] != found[1][0]:
        raise RuntimeError(f"{job}: two undisturbed runs differ")
    return Whole(*found[0], int((place.folder / "tmp" / "events").read_text()))


def judge_kill(job: str, whole: Whole, place: Place, number: signal.Signals, at: float | int) -> dict[str, Any]:
    """Kill a job after so many seconds, or before so many changes to files, run it again, and look at what is there."""
    place.fresh()
    findings: list[tuple[str, str]] = []
    wrapped = ("kill", str(int(number)), str(at)) if isinstance(at, int) else ()
    with place.start(place.command(job, *wrapped)) as child:
        try:
            _, said = child.communicate(timeout=STOPS + whole.seconds if wrapped else at)
            ended = child.returncode == 0
        except subprocess.TimeoutExpired:
            child.send_signal(number)
            ended = False
            try:
                _, said = child.communicate(timeout=STOPS)
            except subprocess.TimeoutExpired:
                findings.append(("hang", f"{number.name} is not heard for {STOPS:g} s"))
                child.kill()
                _, said = child.communicate()
    when = f"{number.name} {f'before change {at}' if isinstance(at, int) else f'after {at:.2f} s'}"
    if b"Traceback" in said:
        findings.append(("foreign", f"{when}: {said.decode(errors='replace')[-400:]}"))
    there = place.output(job)
    if there.exists() and _content_or_none(there) != whole.content and not _is_best_so_far(there, number):
        findings.append(("wrong", f"{when}: an incomplete file under the final name"))
    kept = place.left(job)
    with place.start(place.command(job)) as again:
        _, said = again.communicate()
    if again.returncode != 0:
        findings.append(("wrong", f"{when}: refused afterwards: {said.decode(errors='replace').strip()[-300:]}"))
    elif _content_or_none(there) != whole.content:
        findings.append(("wrong", f"{when}: another output afterwards"))
    elif place.left(job):
        findings.append(("left", f"{when}: {place.left(job)[:4]} stay, of {kept[:6]}"))
    return {"outcome": "ended before" if ended else "read", "findings": findings}


def _is_best_so_far(path: Path, number: signal.Signals) -> bool:
    """Return whether this is a model that says it was interrupted, which a fit that is asked to stop may write."""
    if path.suffix != ".model" or number is signal.SIGKILL:
        return False
    try:
        return bool(cc.load(path).fit_info_.interrupted)
    except ConcordantError:
        return False


def _content_or_none(path: Path) -> Any:
    try:
        return content(path)
    except (OSError, ValueError, KeyError):
        return None


def judge(folder: Path, jobs: list[str] | None = None) -> InTurn:
    """Return the judge of some jobs, all by default, taken in turn."""
    place = Place(folder / "data", folder / "work")
    shutil.rmtree(place.data, ignore_errors=True)
    write_runs(place.data)
    wholes = {job: undisturbed(job, place) for job in jobs or JOBS}

    def one(job: str, turn: int) -> dict[str, Any]:
        chance = random.Random(f"{SEED}/{job}/{turn}")
        number, whole = SIGNALS[turn % len(SIGNALS)], wholes[job]
        # Half of them right before a change to files, the others at any moment.
        if turn // len(SIGNALS) % 2 == 0:
            at: float | int = chance.randint(1, whole.events)
        else:
            at = chance.uniform(0.2, 1.0) * whole.seconds
        record = judge_kill(job, whole, place, number, at)
        return record | {"counts": {number.name: 1, "before a change" if isinstance(at, int) else "any moment": 1}}

    return InTurn(wholes, one)


def main() -> None:
    """Run a command that counts its changes to files, or that is killed before one of them."""
    mode, first, *rest = sys.argv[1:]
    seen, armed = 0, True
    number, last = (int(first), int(rest.pop(0))) if mode == "kill" else (0, 0)
    inside = os.path.realpath(os.path.dirname(os.environ["TMPDIR"]))

    def notice(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen, armed
        writes = event == "open" and isinstance(arguments[1], str) and arguments[1][:1] in "wxa"
        if not armed or not (writes or event in _EVENTS):
            return
        # What is removed with a folder has a name relative to it.
        named = os.fspath(arguments[0]) if isinstance(arguments[0], (str, os.PathLike)) else ""
        if os.path.isabs(named) and not os.path.realpath(named).startswith(inside):
            return
        seen += 1
        if mode == "kill" and seen == last:
            os.kill(os.getpid(), number)

    sys.addaudithook(notice)
    sys.argv = ["concordant", *rest]
    from concordant.cli.app import main as command

    try:
        command()
    finally:
        armed = False
        if mode == "count":
            Path(first).write_text(str(seen))


if __name__ == "__main__":
    main()
