"""A map over instances in this thread or in a pool of threads; no global thread setting is touched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import count, islice
from pathlib import Path
from threading import Event, Lock
from time import monotonic
from typing import Generic, TypeVar

import numpy as np

from concordant.errors import ParameterError

__all__ = [
    "RowRate",
    "prefetch",
    "cores",
    "force_threads",
    "free_memory",
    "map_instances",
    "n_threads",
    "report_status",
    "report_progress",
    "threads",
    "without_progress",
    "watch",
]

T = TypeVar("T")

# Blocks of a map for each thread: many, so that nobody waits long for whoever has the last one.
TURNS = 64
# Nobody means more threads than this.
MOST_THREADS = 10**6
# Where the system says how much memory a container may use.
_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_threads: ContextVar[int | None] = ContextVar("concordant_threads", default=None)
_watcher: ContextVar[Callable[[int, int], None] | None] = ContextVar("concordant_watcher", default=None)
_listener: ContextVar[Callable[[str], None] | None] = ContextVar("concordant_listener", default=None)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def n_threads() -> int:
    """Return how many threads work is spread over: as set by `threads`, else the cores this process may use."""
    chosen = _threads.get()
    return cores() if chosen is None else chosen


def free_memory() -> int:
    """Return how many bytes of memory are free for this process, half of an unknown machine's 16 GB.

    Of a container's memory half counts as free: what it uses holds files that nobody may need any more.
    """
    free = [8 * 10**9]
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            free = [next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))]
    except (OSError, StopIteration, ValueError):
        with suppress(AttributeError, OSError, ValueError):
            free = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2]
    for most in _CONTAINER:
        with suppress(OSError, ValueError):
            free.append(int(Path(most).read_text()) // 2)
    with suppress(ImportError):
        # Windows knows no such limits.
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            free.append(limit)
    return min(free)


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Run what is inside the block on at most n threads.

    There are never more threads than cores this process may use: more would only wait for each other. `n_threads`
    says how many there are. Results do not depend on it.

    Examples
    --------
    >>> with threads(1):
    ...     n_threads()
    1
    """
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MOST_THREADS:
        raise ParameterError.invalid("n", "threads", f"a whole number from 1 to {MOST_THREADS:,}", n)
    with force_threads(min(n, cores())):
        yield


@contextmanager
def force_threads(n: int) -> Iterator[None]:
    """Run what is inside the block on n threads, also where there are fewer cores.

    For a share of `n_threads`, and to test threaded code on any machine.
    """
    token = _threads.set(n)
    try:
        yield
    finally:
        _threads.reset(token)


@contextmanager
def watch(report: Callable[[int, int], None], note: Callable[[str], None] | None = None) -> Iterator[None]:
    """Have `report(done, total)` called whenever a piece of work inside the block is finished, from any thread.

    `note(text)`, where given, is called with what an iteration has to say about its state, such as the best value so
    far.

    Examples
    --------
    >>> with threads(1), watch(lambda done, total: print(f"{done} of {total}")):
    ...     map_instances(str, 2)
    1 of 2
    2 of 2
    ['0', '1']
    """
    token, told = _watcher.set(report), _listener.set(note)
    try:
        yield
    finally:
        _watcher.reset(token)
        _listener.reset(told)


def report_progress(done: int, total: int) -> None:
    """Tell whoever watches that `done` of `total` steps of an iteration are finished.

    Examples
    --------
    >>> with watch(lambda done, total: print(f"{done} of {total}")):
    ...     report_progress(3, 100)
    3 of 100
    """
    watcher = _watcher.get()
    if watcher is not None:
        watcher(done, total)


def report_status(text: str) -> None:
    """Tell whoever watches how an iteration stands.

    Examples
    --------
    >>> with watch(lambda done, total: None, note=print):
    ...     report_status("ndcg@10 0.512 at pass 40")
    ndcg@10 0.512 at pass 40
    """
    listener = _listener.get()
    if listener is not None:
        listener(text)


class RowRate:
    """How many rows there are so far, and how many come in a second.

    Examples
    --------
    >>> RowRate().words(1_500_000).startswith("1,500,000 rows, ")
    True
    """

    def __init__(self) -> None:
        self._started = monotonic()

    def words(self, rows: int) -> str:
        """Return both in words."""
        rate = rows / max(monotonic() - self._started, 1e-3)
        return f"{rows:,} rows, " + (f"{rate / 1e6:.1f} million a second" if rate >= 1e5 else f"{rate:,.0f} a second")


@contextmanager
def without_progress() -> Iterator[None]:
    """Keep pieces of work inside the block to themselves: an iteration reports its own steps."""
    token, told = _watcher.set(None), _listener.set(None)
    try:
        yield
    finally:
        _watcher.reset(token)
        _listener.reset(told)


def _counted(function: Callable[[int], T], n: int, report: Callable[[int, int], None]) -> Callable[[int], T]:
    # next() of a count is one step under the interpreter lock: no two threads get the same number.
    finished = count(1)

    def counted(i: int) -> T:
        result = function(i)
        report(next(finished), n)
        return result

    return counted


class _Turns(Generic[T]):
    """The blocks of one map: threads take them in order; the map is over with the last one, or the first that fails."""

    def __init__(self, function: Callable[[int], T], n: int, blocks: int) -> None:
        self._function = function
        self._errors = np.geterr()
        self._edges = [n * b // blocks for b in range(blocks + 1)]
        # What each block came to, the first one that is open, and whether anybody wants the rest.
        self._found: list[list[T] | BaseException | None] = [None] * blocks
        self._open = 0
        self._turn = count()
        self._lock = Lock()
        self._over = Event()
        self._stopped = False

    def work(self) -> None:
        """Take blocks until none is left."""
        # The cores are taken: what is spread inside a piece of work is done by the thread that has it. Of what is set
        # for the caller only how NumPy takes overflow and the like holds here: nobody watches, nothing is kept.
        _threads.set(1)
        while not self._stopped and (block := next(self._turn)) < len(self._found):
            outcome: list[T] | BaseException
            try:
                with np.errstate(**self._errors):
                    pieces = range(self._edges[block], self._edges[block + 1])
                    outcome = [self._function(i) for i in pieces if not self._stopped]
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                outcome = error
            with self._lock:
                self._found[block] = outcome
                while self._open < len(self._found) and isinstance(self._found[self._open], list):
                    self._open += 1
                if self._open == len(self._found) or self._found[self._open] is not None:
                    self._stopped = True
                    self._over.set()

    def results(self) -> list[T]:
        """Wait for all blocks and return what they came to; nobody waits for the rest once one has failed."""
        try:
            self._over.wait()
            out: list[T] = []
            for found in self._found:
                if isinstance(found, BaseException):
                    raise found
                out += found or []
            return out
        finally:
            self._stopped = True


@cache
def _crew() -> ThreadPoolExecutor:
    """Return the threads that maps are done by: they wait for the next one, which is often a millisecond away."""
    return ThreadPoolExecutor(256, thread_name_prefix="concordant")


if hasattr(os, "register_at_fork"):
    # A process that is forked off has none of the threads.
    os.register_at_fork(after_in_child=_crew.cache_clear)


def map_instances(function: Callable[[int], T], n: int) -> list[T]:
    """Return [function(0), ..., function(n - 1)], spread over threads in contiguous blocks.

    The first exception is raised, an interrupt at once; the order of results is that of the instances. A map inside
    another one stays in its thread.
    """
    watcher = _watcher.get()
    if watcher is not None:
        function = _counted(function, n, watcher)
    workers = min(n_threads(), n)
    if workers <= 1:
        return [function(i) for i in range(n)]
    turns = _Turns(function, n, min(n, workers * TURNS))
    for _ in range(workers):
        _crew().submit(turns.work)
    return turns.results()


def prefetch(pieces: Iterator[T]) -> Iterator[T]:
    """Yield the same, the next one being made in a thread of its own while this one is used.

    Examples
    --------
    >>> list(prefetch(iter("abc")))
    ['a', 'b', 'c']
    """
    # What is set for the caller, such as the number of threads, holds for what is made ahead.
    context = copy_context()

    def following() -> list[T]:
        return list(islice(pieces, 1))

    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(context.run, following)
        while piece := coming.result():
            coming = pool.submit(context.run, following)
            yield piece[0]
