"""Computes studies cell by cell in parallel processes, and stores finished cells on disk to resume later.

A study plans its cells, such as a method on a fold with a seed. Any process computes any cell, and the page is made
from their values. The file of a cell names the arguments, the data and the source files that its value depends on; a
cell is computed again if one of them has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from concordant.errors import ConcordantWarning
from concordant.execution import cores, report_progress, report_status, threads
from concordant_papers.pages import Page, write_file

__all__ = ["Cell", "Outcome", "Setting", "Study", "compute", "source"]

_PACKAGES = ("concordant", "concordant_papers")


@dataclass(frozen=True)
class Setting:
    """Location of the data and size of the studies.

    Attributes
    ----------
    data : Path or None
        Folder of the data sets; None if there is none.
    quick : bool
        Whether to run the same shape in about a minute: small synthetic data, few seeds and passes.
    seeds : int
        Number of seeds that stochastic methods are averaged over.
    """

    data: Path | None
    quick: bool = False
    seeds: int = 5

    def folder(self, name: str) -> Path | None:
        """Return the folder of a data set, None where it is absent or everything is synthetic.

        A pattern such as "*-agg" returns the first match.
        """
        if self.quick or self.data is None:
            return None
        found = sorted(self.data.glob(name)) if "*" in name else [self.data / name]
        return next((path for path in found if path.is_dir()), None)


class Cell(NamedTuple):
    """A piece of a study that is computed on its own.

    Attributes
    ----------
    key : str
        Its name within the study, such as "MQ2008-agg/CRF/seed 0".
    run : function
        A module-level function. It is called with the arguments by name and returns JSON data.
    arguments : mapping
        JSON data.
    reads : tuple of paths
        Files and folders it reads: when they change, it is computed again.
    seconds : float
        Rough run time; long cells start first.
    alone : bool
        Whether it measures time; such cells run last, one at a time.
    """

    key: str
    run: Callable[..., Any]
    arguments: Mapping[str, Any]
    reads: tuple[Path, ...] = ()
    seconds: float = 1.0
    alone: bool = False


class Study(NamedTuple):
    """What a paper shows in one table or figure.

    Attributes
    ----------
    name : str
        Name on the command line.
    paper : str
        The paper.
    title : str
        What it shows, in one line.
    needs : tuple of str
        Data sets that it needs, except in quick mode, which uses synthetic data.
    plan : function
        From a setting to the cells.
    page : function
        From a setting and the values of the cells by key to the page; cells that failed or could not be computed are
        missing.
    """

    name: str
    paper: str
    title: str
    needs: tuple[str, ...]
    plan: Callable[[Setting], Sequence[Cell]]
    page: Callable[[Setting, Mapping[str, Any]], Page]


class Outcome(NamedTuple):
    """Results of the cells of some studies.

    Attributes
    ----------
    values : dict
        By study and key.
    seconds : dict
        Run time of each cell.
    failed : dict
        Error message of each failed cell, by study and key.
    resumed : int
        Number of cells that were already finished.
    """

    values: dict[str, dict[str, Any]]
    seconds: dict[str, dict[str, float]]
    failed: dict[str, dict[str, str]]
    resumed: int


def compute(
    studies: Sequence[Study], setting: Setting, store: Path, *, jobs: int | None = None, fresh: bool = False
) -> Outcome:
    """Compute all cells of the studies; finished cells are read from the store.

    Parameters
    ----------
    studies : sequence of Study
        What to compute.
    setting : Setting
        Data and size.
    store : Path
        The folder for finished cells; each is one file, written whole.
    jobs : int, optional
        Number of processes; by default the number of cores.
    fresh : bool
        Whether finished cells are computed again.

    Notes
    -----
    A failed cell does not stop the others; its error is in `failed`. After an interrupt, finished cells stay in the
    store.
    """
    source()  # Hashes the files now: they may be edited while cells are computed.
    outcome = Outcome({s.name: {} for s in studies}, {s.name: {} for s in studies}, {s.name: {} for s in studies}, 0)
    waiting: list[tuple[str, Cell, Path]] = []
    resumed = 0
    plans = {study.name: study.plan(setting) for study in studies}
    for study in studies:
        for cell in plans[study.name]:
            path = store / study.name / _file_name(study.name, cell)
            known = None if fresh else _read(path)
            if known is None or not _is_current(known["sources"]):
                waiting.append((study.name, cell, path))
            else:
                outcome.values[study.name][cell.key] = known["value"]
                outcome.seconds[study.name][cell.key] = known["seconds"]
                resumed += 1
    # Start long cells first, so that no long one is left for the end.
    waiting.sort(key=lambda w: -w[1].seconds)
    total, done = resumed + len(waiting), resumed
    report_progress(done, total)
    for name, cell, path, answer in _answers(waiting, jobs):
        if isinstance(answer, _Failure):
            outcome.failed[name][cell.key] = answer.text
        else:
            value, seconds, used = answer
            content = {"study": name, "key": cell.key, "seconds": seconds, "value": value, "sources": _hashes(used)}
            write_file(path, json.dumps(content, indent=1))
            # Round-trip through JSON, so that a resumed page looks the same.
            outcome.values[name][cell.key] = json.loads(json.dumps(value))
            outcome.seconds[name][cell.key] = seconds
        done += 1
        report_progress(done, total)
        report_status(f"{name}: {cell.key}")
    return Outcome(
        _as_planned(outcome.values, plans),
        _as_planned(outcome.seconds, plans),
        _as_planned(outcome.failed, plans),
        resumed,
    )


def _as_planned(
    found: Mapping[str, Mapping[str, Any]], plans: Mapping[str, Sequence[Cell]]
) -> dict[str, dict[str, Any]]:
    """Return the cells in the order of the plans: pages must not depend on which cell finished first."""
    return {name: {c.key: of[c.key] for c in plans[name] if c.key in of} for name, of in found.items()}


class _Failure(NamedTuple):
    text: str


# The value, its run time, and the source files that were loaded when it was computed.
Answer = tuple[Any, float, list[str]] | _Failure


def _answers(waiting: Sequence[tuple[str, Cell, Path]], jobs: int | None) -> Iterator[tuple[str, Cell, Path, Answer]]:
    """Yield every cell with its value as cells finish; cells that measure time come last, one at a time."""
    together = [w for w in waiting if not w[1].alone]
    alone = [w for w in waiting if w[1].alone]
    n = min(jobs or cores(), len(together))
    if n > 1:
        yield from _in_processes(together, n)
    else:
        for name, cell, path in together:
            yield name, cell, path, _run(cell.run, dict(cell.arguments), None)
    if alone:
        # Use a separate process even for one cell at a time: linear algebra in this one may use all cores.
        yield from _in_processes(alone, 1)


def _in_processes(waiting: Sequence[tuple[str, Cell, Path]], n: int) -> Iterator[tuple[str, Cell, Path, Answer]]:
    """Yield every cell with its value, computed by n processes with one thread each."""
    with _one_thread_each():
        pool = ProcessPoolExecutor(n, mp_context=get_context("spawn"), initializer=_end_with_parent)
        try:
            # Submit one cell more than there are processes: none idles, and an interrupt cancels little.
            rest = list(reversed(waiting))
            running: dict[Future[Answer], tuple[str, Cell, Path]] = {}
            while rest or running:
                while rest and len(running) <= n:
                    name, cell, path = rest.pop()
                    running[pool.submit(_run, cell.run, dict(cell.arguments), 1)] = (name, cell, path)
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    name, cell, path = running.pop(future)
                    error = future.exception()
                    yield name, cell, path, future.result() if error is None else _Failure(_words(error))
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _end_with_parent() -> None:
    """End this process when its parent ends.

    A killed parent cannot end its children, which would wait for work forever.
    """
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _run(function: Callable[..., Any], arguments: dict[str, Any], n: int | None) -> Answer:
    """Return the value of a cell, its run time and the source files in use, or the failure."""
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            # Warnings of hundreds of fits add nothing to the page.
            warnings.simplefilter("ignore", ConcordantWarning)
            if n is None:
                value = function(**arguments)
            else:
                with threads(n):
                    value = function(**arguments)
        json.dumps(value, allow_nan=True)
        return value, time.perf_counter() - started, _loaded(function)
    except Exception as error:  # noqa: BLE001 - one cell must not take the others with it
        return _Failure(_words(error))


def _words(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1:] if error.__traceback__ else []
    where = f" ({Path(last[0].filename).name}, line {last[0].lineno})" if last else ""
    return f"{type(error).__name__}: {error}{where}"


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Limit the linear algebra of processes started inside to one thread, because there is one process per core."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _file_name(study: str, cell: Cell) -> str:
    """Return a readable file name with a hash of everything but the code that the value depends on."""
    known = {
        "study": study,
        "key": cell.key,
        "run": f"{cell.run.__module__}.{cell.run.__qualname__}",
        "arguments": dict(cell.arguments),
        "reads": [_state(path) for path in cell.reads],
    }
    digest = hashlib.blake2b(json.dumps(known, sort_keys=True).encode(), digest_size=6).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9.=-]+', '_', cell.key)[:80]}-{digest}.json"


@cache
def _folder(package: str) -> Path | None:
    """Return the folder of a package that is not imported for it; None if it is no regular package."""
    spec = find_spec(package)
    return None if spec is None or not spec.origin or not spec.submodule_search_locations else Path(spec.origin).parent


@cache
def _sources_of(package: str) -> dict[str, str]:
    """Return a hash of every source file and published table of a package, by package and path inside it."""
    folder = _folder(package)
    paths = [] if folder is None else sorted(p for p in folder.rglob("*") if p.suffix in (".py", ".csv"))
    hashes = [hashlib.blake2b(path.read_bytes(), digest_size=6).hexdigest() for path in paths]
    names = [f"{package}/{path.relative_to(folder).as_posix()}" for path in paths if folder is not None]
    return dict(zip(names, hashes, strict=True))


def source() -> str:
    """Return a hash of the code: every module of Concordant and of the studies, and the published tables."""
    known = [_sources_of(package) for package in _PACKAGES]
    return hashlib.blake2b(json.dumps(known).encode(), digest_size=6).hexdigest()


def _loaded(function: Callable[..., Any]) -> list[str]:
    """Return the source files that the process has loaded of Concordant, the studies and the package of a function.

    Whatever a cell has run is among them. A process that has computed other cells may have loaded more than it needs.
    """
    out = []
    for package in {*_PACKAGES, function.__module__.partition(".")[0]}:
        folder = _folder(package)
        loaded = [m for name, m in list(sys.modules.items()) if name.partition(".")[0] == package]
        paths = [Path(file) for module in loaded if (file := getattr(module, "__file__", None)) is not None]
        if folder is not None:
            out += [f"{package}/{path.relative_to(folder).as_posix()}" for path in paths]
    return sorted(out)


def _hashes(used: Sequence[str]) -> dict[str, str]:
    """Return hashes of these files, and of the published tables, as they were when they were first asked for."""
    tables = [name for package in _PACKAGES for name in _sources_of(package) if name.endswith(".csv")]
    return {name: _sources_of(name.partition("/")[0]).get(name, "") for name in [*used, *tables]}


def _is_current(sources: Mapping[str, str]) -> bool:
    """Return whether all these files are still as they were."""
    return all(_sources_of(name.partition("/")[0]).get(name) == known for name, known in sources.items())


def _state(path: Path) -> list[Any]:
    """Return names, sizes and modification times of the files."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return [[p.name, p.stat().st_size, p.stat().st_mtime_ns] for p in files]


def _read(path: Path) -> dict[str, Any] | None:
    """Return a finished cell; None if there is no valid file."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return known if isinstance(known, dict) and {"value", "seconds", "sources"} <= set(known) else None
    except (OSError, ValueError):
        return None
