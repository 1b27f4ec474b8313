"""Maps over instances and fits in a pool of threads, progress reports, and free memory.

No global thread setting is changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from functools import cache
from itertools import count, islice
from threading import Event, Lock
from time import monotonic
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from concordant.errors import ParameterError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = [
    "RowRate",
    "prefetch",
    "cores",
    "force_threads",
    "free_memory",
    "map_instances",
    "n_threads",
    "report_note",
    "report_status",
    "report_progress",
    "telling",
    "threads",
    "without_progress",
    "watch",
]

T = TypeVar("T")

# Blocks of a map per thread: many, so that threads do not wait long for the last block.
BLOCKS_PER_THREAD = 64
# A larger number of threads is a mistake.
MOST_THREADS = 10**6
# Files with the memory limit of a container (cgroup).
_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_threads: ContextVar[int | None] = ContextVar("concordant_threads", default=None)
_watcher: ContextVar[Callable[[int, int], None] | None] = ContextVar("concordant_watcher", default=None)
_listener: ContextVar[Callable[[str], None] | None] = ContextVar("concordant_listener", default=None)
_told: ContextVar[Callable[[str], None] | None] = ContextVar("concordant_told", default=None)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def n_threads() -> int:
    """Return the number of threads that maps use: as set by `threads`, else the cores that this process may use."""
    chosen = _threads.get()
    return cores() if chosen is None else chosen


def free_memory() -> int:
    """Return the number of bytes of memory that are free for this process; 8 GB if the system does not say.

    Half of the limit of a container counts as free, because its usage includes cached files.
    """
    free = [8 * 10**9]
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            free = [next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))]
    except (OSError, StopIteration, ValueError):
        with suppress(AttributeError, OSError, ValueError):
            free = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2]
    for most in _CONTAINER:
        with suppress(OSError, ValueError), open(most, encoding="ascii") as limit_file:
            free.append(int(limit_file.read()) // 2)
    with suppress(ImportError):
        # Windows knows no such limits.
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            free.append(max(limit - _address_space(), 0))
    return min(free)


def _address_space() -> int:
    """Return the bytes of address space that this process has taken; 0 if the system does not say."""
    with suppress(OSError, ValueError), open("/proc/self/statm", encoding="ascii") as pages:
        return int(pages.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Run the code inside the block on at most n threads.

    There are never more threads than cores that this process may use; `n_threads` returns how many there are. Results
    do not depend on the number.

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
    """Run the code inside the block on n threads, even if there are fewer cores.

    For nested maps that split `n_threads` among them, and for tests of threaded code on any machine.
    """
    token = _threads.set(n)
    try:
        yield
    finally:
        _threads.reset(token)


@contextmanager
def watch(report: Callable[[int, int], None], note: Callable[[str], None] | None = None) -> Iterator[None]:
    """Call `report(done, total)` whenever a step of the work inside the block is finished, from any thread.

    `note(text)` is called with the state of an iteration, such as the best value so far.

    Examples
    --------
    >>> with threads(1), watch(lambda done, total: print(f"{done} of {total}")):
    ...     map_instances(str, 2)
    1 of 2
    2 of 2
    ['0', '1']
    """
    with _heard_by(report, note):
        yield


@contextmanager
def _heard_by(report: Callable[[int, int], None] | None, note: Callable[[str], None] | None) -> Iterator[None]:
    token, told = _watcher.set(report), _listener.set(note)
    try:
        yield
    finally:
        _watcher.reset(token)
        _listener.reset(told)


def report_progress(done: int, total: int) -> None:
    """Report to `watch` that `done` of `total` steps are finished.

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
    """Report to `watch` the state of an iteration, in words.

    Examples
    --------
    >>> with watch(lambda done, total: None, note=print):
    ...     report_status("ndcg@10 0.512 at pass 40")
    ndcg@10 0.512 at pass 40
    """
    listener = _listener.get()
    if listener is not None:
        listener(text)


@contextmanager
def telling(note: Callable[[str], None]) -> Iterator[None]:
    """Call `note(text)` with what the work inside the block did as asked and is worth a line, such as rows left out.

    Examples
    --------
    >>> with telling(print):
    ...     report_note("left out 3 of 10 rows")
    left out 3 of 10 rows
    """
    token = _told.set(note)
    try:
        yield
    finally:
        _told.reset(token)


def report_note(text: str) -> None:
    """Report to `telling` one sentence; nobody need listen."""
    note = _told.get()
    if note is not None:
        note(text)


class RowRate:
    """Number of rows read so far, and rows per second, for progress messages.

    Examples
    --------
    >>> RowRate().words(1_500_000).startswith("1,500,000 rows, ")
    True
    """

    def __init__(self) -> None:
        self._started = monotonic()

    def words(self, rows: int) -> str:
        """Return the number of rows and the rate, in words."""
        rate = rows / max(monotonic() - self._started, 1e-3)
        return f"{rows:,} rows, " + (f"{rate / 1e6:.1f} million a second" if rate >= 1e5 else f"{rate:,.0f} a second")


@contextmanager
def without_progress() -> Iterator[None]:
    """Report no progress from inside the block: an iteration reports its own steps."""
    with _heard_by(None, None):
        yield


def _counted(function: Callable[[int], T], n: int, report: Callable[[int, int], None]) -> Callable[[int], T]:
    # next() of a count is one step under the interpreter lock: no two threads get the same number.
    finished = count(1)

    def counted(i: int) -> T:
        result = function(i)
        report(next(finished), n)
        return result

    return counted


class _BlockQueue(Generic[T]):
    """Blocks of one map. Threads take them in order; the map ends with the last block, or the first that fails."""

    def __init__(self, function: Callable[[int], T], n: int, blocks: int) -> None:
        self._function = function
        self._errors = np.geterr()
        self._edges = [n * b // blocks for b in range(blocks + 1)]
        # The result of each block, the first unfinished block, and whether the rest is cancelled.
        self._found: list[list[T] | BaseException | None] = [None] * blocks
        self._open = 0
        self._next = count()
        self._lock = Lock()
        self._over = Event()
        self._stopped = False

    def work(self) -> None:
        """Take blocks until none is left."""
        # The cores are taken, so a map inside a map runs in its own thread. Of the context of the caller only NumPy's
        # error settings hold here: worker threads report no progress and keep no checkpoints.
        _threads.set(1)
        while not self._stopped and (block := next(self._next)) < len(self._found):
            outcome: list[T] | BaseException
            try:
                with np.errstate(**self._errors):
                    instances = range(self._edges[block], self._edges[block + 1])
                    outcome = [self._function(i) for i in instances if not self._stopped]
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
        """Wait for all blocks and return their results, or raise the first error without waiting for the rest."""
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
def _thread_pool() -> ThreadPoolExecutor:
    """Return the pool of threads, which is kept because the next map often follows within a millisecond."""
    # Imported here, so that a request does not wait for it.
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(256, thread_name_prefix="concordant")


if hasattr(os, "register_at_fork"):
    # A forked process does not have the threads.
    os.register_at_fork(after_in_child=_thread_pool.cache_clear)


def map_instances(function: Callable[[int], T], n: int) -> list[T]:
    """Return [function(0), ..., function(n - 1)], computed by threads in contiguous blocks.

    Raise the first exception, and an interrupt at once. A map inside another map runs in the thread of that map.
    """
    watcher = _watcher.get()
    if watcher is not None:
        function = _counted(function, n, watcher)
    workers = min(n_threads(), n)
    if workers <= 1:
        return [function(i) for i in range(n)]
    queue = _BlockQueue(function, n, min(n, workers * BLOCKS_PER_THREAD))
    for _ in range(workers):
        _thread_pool().submit(queue.work)
    return queue.results()


def run_parallel(work: Callable[[int], T], n: int) -> list[T]:
    """Return [work(0), ..., work(n - 1)] of long calls, such as fits; watchers are told of each finished one.

    Each call runs in a context of its own. As many calls run at once as there are threads, and each may use an equal
    share of them.

    Examples
    --------
    >>> with force_threads(1), watch(lambda done, total: print(f"{done} of {total}")):
    ...     run_parallel(lambda i: n_threads() + i, 2)
    1 of 2
    2 of 2
    [1, 2]
    """
    available = n_threads()
    share = max(1, available // max(1, min(n, available)))

    def with_share(i: int) -> T:
        with force_threads(share):
            return work(i)

    # Threads of the pool start with an empty context. Do the same with one thread; otherwise watchers would hear of the
    # passes of each fit, and all fits would resume one checkpoint.
    return map_instances(lambda i: Context().run(with_share, i), n)


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """Yield the items of an iterator, and make the next one in another thread while one is used.

    Examples
    --------
    >>> list(prefetch(iter("abc")))
    ['a', 'b', 'c']
    """
    from concurrent.futures import ThreadPoolExecutor

    # Context variables of the caller, such as the number of threads, also hold in the other thread.
    context = copy_context()

    def following() -> list[T]:
        return list(islice(items, 1))

    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(context.run, following)
        while item := coming.result():
            coming = pool.submit(context.run, following)
            yield item[0]
