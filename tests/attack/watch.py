"""Judges numbered inputs in child processes, with a watchdog in the parent.

An input that takes too long is killed and tried once more, where it may compile what it needs before it is timed. It is
counted as a hang if it is killed again; one that ends its child twice is counted as well. Either way the next child
goes on behind it, so that a run always ends. On a busy machine a child has its seconds of computing, and much longer in
all.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
# Seconds for one input, seconds until a child is ready, and how much memory it may take.
LIMIT, START_LIMIT, MEMORY = 5.0, 300.0, 6 << 30
# How many times as long an input may take that does not get the processor, and one that is not timed.
PATIENCE, UNTIMED = 24, 12
# What must not happen. Anything else that is counted is information.
FAULTS = ("foreign", "hang", "died", "executed", "wrong", "left")
# Inputs that are shown for every sort of finding.
SHOWN = 5

Judge = Callable[[int], dict[str, Any]]


class InTurn:
    """A judge of several cases taken in turn: the input of a number is the next one of its case."""

    def __init__(self, cases: Iterable[str], judge: Callable[[str, int], dict[str, Any]]) -> None:
        self._cases, self._judge = list(cases), judge

    def label(self, number: int) -> tuple[str, str]:
        """Return the case of an input, and case and number as its name."""
        turn, case = divmod(number, len(self._cases))
        return self._cases[case], f"{self._cases[case]} {turn}"

    def __call__(self, number: int) -> dict[str, Any]:
        turn, case = divmod(number, len(self._cases))
        return self._judge(self._cases[case], turn)


def judged(
    task: str, options: dict[str, Any], numbers: Iterable[int], folder: Path, limit: float = LIMIT
) -> Iterator[dict[str, Any]]:
    """Yield one record for every input: what `task` ("module:function") made of it, or that it hung or died.

    `task` is called in the child with the folder it may write to and the options, and returns a function from the
    number of an input to its record, {"outcome": str, "findings": [[sort, detail], ...]}, perhaps with "counts" and the
    "seconds" of its longest step. Its attribute `label`, if it has one, gives the group in which an input is counted
    and the name of the input.
    """
    left = list(dict.fromkeys(numbers))
    again: set[int] = set()
    untimed: list[int] = []
    while left:
        with _Child(task, options, [*untimed, *left], folder) as child:
            try:
                for n, record in child.records(limit, timed=not untimed):
                    if untimed:
                        untimed = []
                        continue
                    left.remove(n)
                    yield {"number": n, **record}
            except _LostError as lost:
                untimed = []
                if lost.number is None:
                    raise RuntimeError(f"{task} did not start: {lost}") from None
                n = lost.number
                if n in again:
                    left.remove(n)
                    yield {"number": n, **lost.label, "outcome": lost.sort, "findings": [[lost.sort, str(lost)]]}
                else:
                    # The machine may have been short of memory, or compiling: once more, first thing in a new child.
                    again.add(n)
                    untimed = [n]
                    left.insert(0, left.pop(left.index(n)))


class _LostError(Exception):
    def __init__(self, number: int | None, label: dict[str, str], sort: str, said: str) -> None:
        super().__init__(said)
        self.number, self.label, self.sort = number, label, sort


class _Child:
    """A process that judges inputs one after the other and says so line by line."""

    def __init__(self, task: str, options: dict[str, Any], numbers: list[int], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        # As many children as cores: threads of linear algebra that wait for a core would count as time of the input.
        threads = {"RAYON_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"}
        env = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder), **threads}
        self._errors = (folder / "errors.log").open("w+b")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.attack.watch", task, str(folder)],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([options, numbers]).encode())
        self._process.stdin.close()
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, lines: IO[bytes]) -> None:
        for line in lines:
            self._lines.put(line)
        self._lines.put(b"")

    def records(self, limit: float, *, timed: bool = True) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the number of an input and its record; raise when the child is slow or gone.

        Where the first input is not `timed` it has longer than the others.
        """
        number, wait = None, START_LIMIT
        label: dict[str, str] = {}
        while True:
            line = self._next(wait)
            if line is None:
                raise _LostError(number, label, "hang", f"more than {wait:g} s")
            if not line:
                if self._process.wait() == 0:
                    return
                self._errors.seek(0)
                said = self._errors.read()[-1500:].decode(errors="replace").strip()
                raise _LostError(number, label, "died", f"exit code {self._process.returncode}: {said}")
            number, label, record = json.loads(line)
            wait = limit if timed else UNTIMED * limit
            if record is not None:
                timed = True
                yield number, label | record

    def _next(self, wait: float) -> bytes | None:
        """Return the next line; None when the child has worked so many seconds without one, or waited much longer."""
        busy, end = self._worked(), time.monotonic() + PATIENCE * wait
        left = wait
        while left > 0 and time.monotonic() < end:
            try:
                # The clock counts processor time in hundredths of a second.
                return self._lines.get(timeout=max(left, 0.02))
            except queue.Empty:
                left = wait - (self._worked() - busy)
        return None

    def _worked(self) -> float:
        """Return the seconds that the child has computed, where the system tells."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return float("inf")
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()


def main() -> None:
    """Judge the inputs that standard input names, in this process."""
    task, folder = sys.argv[1:]
    options, numbers = json.load(sys.stdin)
    # Whatever else is printed must not get between the records.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    module, _, name = task.partition(":")
    judge: Judge = getattr(import_module(module), name)(Path(folder), **options)
    label = getattr(judge, "label", lambda n: ("all", str(n)))
    for n in numbers:
        names = dict(zip(("group", "input"), label(n), strict=True))
        _beats[:] = [partial(_say, out, n, names, None)]
        beat()
        seconds = stopwatch()
        record = judge(n)
        _say(out, n, names, {"seconds": seconds()} | record)


def stopwatch() -> Callable[[], float]:
    """Return a function that gives the seconds since now: those of computing, where others keep the machine busy."""
    started, worked = time.perf_counter(), sum(os.times()[:4])
    return lambda: min(time.perf_counter() - started, sum(os.times()[:4]) - worked)


_beats: list[Callable[[], None]] = []


def beat() -> None:
    """Tell the parent that a step is done: its watch starts anew. Elsewhere than in a child nobody is told."""
    for say in _beats:
        say()


def _say(out: IO[bytes], *line: Any) -> None:
    out.write(json.dumps(line).encode() + b"\n")
    out.flush()


def tally(records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of outcomes and findings, with a few examples of each sort of finding."""
    out: dict[str, Any] = {name: Counter() for name in ("outcomes", "counts", "findings")}
    groups: dict[str, Counter[str]] = {}
    examples: dict[str, list[Any]] = {}
    slowest: list[Any] = [0.0, ""]
    for record in records:
        slowest = max(slowest, [record.get("seconds", 0.0), record["input"]])
        out["outcomes"][record["outcome"]] += 1
        out["counts"].update(record.get("counts", {}))
        group = groups.setdefault(record["group"], Counter())
        group.update({"inputs": 1, "answered": record["outcome"] == "read", "faults": bool(record["findings"])})
        for sort, detail in record["findings"]:
            out["findings"][sort] += 1
            examples.setdefault(sort, []).append([record["input"], detail[:600]])
    return _plain(out, groups, examples, slowest)


def joined(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of several tallies added up."""
    out: dict[str, Any] = {name: Counter() for name in ("outcomes", "counts", "findings")}
    groups: dict[str, Counter[str]] = {}
    examples: dict[str, list[Any]] = {}
    slowest: list[Any] = [0.0, ""]
    for part in parts:
        slowest = max(slowest, part["slowest"])
        for name, counter in out.items():
            counter.update(part[name])
        for name, counts in part["groups"].items():
            groups.setdefault(name, Counter()).update(counts)
        for sort, found in part["examples"].items():
            examples.setdefault(sort, []).extend(found)
    return _plain(out, groups, examples, slowest)


def _plain(
    out: dict[str, Any], groups: dict[str, Counter[str]], examples: dict[str, list[Any]], slowest: list[Any]
) -> dict[str, Any]:
    return {
        "inputs": out["outcomes"].total(),
        "findings": {sort: out["findings"][sort] for sort in dict.fromkeys([*FAULTS, *out["findings"]])},
        "slowest": slowest,
        "outcomes": dict(out["outcomes"].most_common()),
        "counts": dict(out["counts"].most_common()),
        "groups": {name: dict(counts) for name, counts in groups.items()},
        "examples": {sort: found[:SHOWN] for sort, found in examples.items()},
    }


def share(
    task: str, options: dict[str, Any], first: int, last: int, folder: Path, processes: int, limit: float = LIMIT
) -> dict[str, Any]:
    """Judge the inputs `first` to `last` - 1 in several children at a time and return the tally."""

    def part(k: int) -> list[dict[str, Any]]:
        return list(judged(task, options, range(first + k, last, processes), folder / str(k), limit))

    with ThreadPoolExecutor(processes) as pool:
        found = sorted((r for records in pool.map(part, range(processes)) for r in records), key=lambda r: r["number"])
    return tally(found)


# What code that reads data must not do. The names are those of Python's audit events.
_FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.forkpty",
    "pty.spawn",
    "subprocess.Popen",
    "pickle.find_class",
    "marshal.loads",
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "urllib.Request",
    "webbrowser.open",
)
# Loading from a cache is an event as well, and expected from the code that keeps it.
_CACHES = {"marshal.loads": "<frozen importlib", "pickle.find_class": "numba"}
_CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink", "os.chmod")


class Audit:
    """Notices what is executed, connected to or changed on disk while it is armed.

    Writing is allowed inside one folder, to the caches of Python and Numba, and to devices. What these two load from
    their own caches, a module that is imported late or a kernel that is needed for the first time, is theirs.
    """

    def __init__(self, folder: Path) -> None:
        self.seen: list[str] = []
        kept = [folder, *filter(None, [os.environ.get("NUMBA_CACHE_DIR")])]
        self._allowed = (*(os.path.realpath(path) + os.sep for path in kept), "/dev/")
        self._armed = False
        sys.addaudithook(self._notice)

    def __enter__(self) -> Audit:
        self.seen, self._armed = [], True
        return self

    def __exit__(self, *_: object) -> None:
        self._armed = False

    def _notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._armed:
            return
        if event in _FORBIDDEN:
            if event not in _CACHES or not _inside(_CACHES[event]):
                self.seen.append(f"{event} {arguments!r}"[:300])
        elif event in _CHANGES or event.startswith("shutil.") or (event == "open" and _writes(arguments)):
            # Armed again afterwards: looking a path up is an event as well.
            self._armed = False
            if not self._is_expected(*arguments[:1], *(a for a in arguments[-1:] if event != "open")):
                self.seen.append(f"{event} {arguments!r}"[:300])
            self._armed = True

    def _is_expected(self, path: object, inside: object = None) -> bool:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return isinstance(path, int)
        name = os.fsdecode(path)
        if isinstance(inside, int) and inside > 2 and not os.path.isabs(name):
            # The path is one inside an open folder.
            name = os.path.join(os.readlink(f"/proc/self/fd/{inside}"), name)
        real = os.path.realpath(name)
        return f"{real}{os.sep}".startswith(self._allowed) or f"{os.sep}__pycache__{os.sep}" in f"{real}{os.sep}"


def _writes(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    if isinstance(mode, str):
        return any(c in mode for c in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def _inside(place: str) -> bool:
    """Return whether the event comes from code of a place."""
    frame = sys._getframe(2)
    while frame is not None:
        if place in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


if __name__ == "__main__":
    # As the module that judges import.
    import_module("tests.attack.watch").main()
