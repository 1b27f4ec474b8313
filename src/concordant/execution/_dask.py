"""Runs work on a Dask cluster: `dask` with a client, `connected` with the address of a scheduler.

Tasks of a lost worker are repeated on the others. This is the only module that uses Dask, which is imported late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from concordant._version import __version__
from concordant.errors import ConcordantError, DataError, ParameterError
from concordant.execution.local import threads
from concordant.execution.shards import on_cluster

__all__ = ["connected", "dask"]

# Seconds to wait for a scheduler that does not answer, or for a cluster without workers.
_TIMEOUT = 15.0
# Seconds between two checks that there are still workers while a result is awaited.
_LOOK = 1.0
# How many workers may be lost while they hold a task before the task itself fails.
_RETRIES = 5
_HELP = "Install it with pip install 'concordant[dask]'."
_LONGER = "or wait longer: timeout= (--scheduler-timeout)."


class _Dask:
    """A client of a Dask cluster."""

    def __init__(self, client: Any, timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    @property
    def n_workers(self) -> int:
        return max(len(self.workers()), 1)

    def workers(self) -> dict[str, int]:
        """Return the addresses of the workers, with the number of threads of each."""
        found: dict[str, int] = self._ask(self._client.nthreads)
        return found

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._client.status != "running":
            raise self._lost()
        # Not pure: the same function of the same path has another result once the file has changed.
        return self._client.submit(_in_one_thread, __version__, function, *arguments, pure=False, retries=_RETRIES)

    def result(self, handle: Any) -> Any:
        seen, look = monotonic(), min(_LOOK, self._timeout)
        try:
            while True:
                try:
                    return handle.result(timeout=look)
                except TimeoutError:
                    if handle.status == "error":
                        raise
                    if handle.done():
                        # The result is ready, and its transfer takes longer.
                        look *= 2
                    # A task may take hours; give up only if there are no workers.
                    if self.workers():
                        seen = monotonic()
                    elif monotonic() - seen >= self._timeout:
                        raise self._no_workers() from None
        except ConcordantError:
            raise
        except Exception as error:
            if self._client.status != "running":
                raise self._lost() from error
            kind = type(error).__name__
            if type(error).__module__.startswith(("distributed", "dask")):
                raise DataError(
                    f"the cluster could not finish its work ({kind}: {error}). Are workers being killed for lack of "
                    "memory? Give them more, or make blocks smaller (block_rows)."
                ) from error
            raise

    def check_versions(self) -> None:
        """Raise DataError if the scheduler or a worker has another version of Concordant than this process."""
        import pkgutil

        # A function of the standard library: a worker without Concordant ends when it is sent one of Concordant.
        ask = (pkgutil.resolve_name, "concordant._version:__version__")
        try:
            found = {"the scheduler": self._ask(self._client.run_on_scheduler, *ask)}
        except ImportError as error:
            found = {"the scheduler": error}
        workers = self._ask(self._client.run, *ask, on_error="return", of="a worker")
        found |= {f"the worker at {address}": version for address, version in workers.items()}
        for where, version in found.items():
            if isinstance(version, ImportError):
                has = "has no Concordant"
            elif isinstance(version, Exception):
                has = f"cannot say which Concordant it has ({type(version).__name__}: {version})"
            else:
                has = f"has Concordant {version}"
            if version != __version__:
                raise DataError(
                    f"{where} of the Dask cluster {has}; this process has Concordant {__version__}. Install the same "
                    "version on every machine of the cluster: pip install 'concordant[dask]'."
                )

    def _ask(self, question: Callable[..., Any], *arguments: Any, of: str = "", **options: Any) -> Any:
        """Return the answer of the scheduler or of all workers, or raise if it does not come within the timeout."""
        try:
            return question(*arguments, **options, callback_timeout=self._timeout)
        except (OSError, TimeoutError) as error:
            raise self._lost(of) from error

    def _lost(self, of: str = "") -> DataError:
        address = getattr(self._client.scheduler, "address", "")
        who = f"{of} of the Dask scheduler at" if of else "the Dask scheduler at"
        return DataError(f"{who} {address!r} does not answer. Start it again and repeat the work, {_LONGER}")

    def _no_workers(self) -> DataError:
        return DataError(
            f"the Dask cluster has had no workers for {self._timeout:g} seconds. Their logs say why they ended, for "
            "example for lack of memory (then give them more, or make blocks smaller with block_rows). Start workers "
            f"and repeat the work, {_LONGER}"
        )


def _in_one_thread(version: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in one thread: the cluster decides how many tasks run on a machine."""
    if version != __version__:
        # This worker joined after the versions were checked.
        raise DataError(f"a worker of the Dask cluster has Concordant {__version__}, and the client {version}.")
    with threads(1):
        return function(*arguments)


@contextmanager
def dask(client: Any, *, timeout: float = _TIMEOUT) -> Iterator[None]:
    """Run the work inside the block on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        Connected to the cluster. The scheduler and the workers need the same version of Concordant, which is checked
        first, and the workers must find the data under the paths given to `scan`.
    timeout : float
        Seconds to wait for a scheduler that does not answer, or for workers when there are none, before an error.

    Notes
    -----
    `scan` then leaves the data on the workers, `aggregate_blocks` aggregates there, and `fit` of methods that add up
    over instances sends parameters out and gets sums back. The other workers repeat the work of a lost one.

    Examples
    --------
    >>> from concordant.execution import dask
    >>> with dask(client):  # doctest: +SKIP
    ...     with cc.scan("runs/*.trec") as blocks:
    ...         cc.aggregate_blocks(blocks, "fused.trec", "rrf")
    """
    if not hasattr(client, "submit") or not hasattr(client, "ncores"):
        raise ParameterError.invalid("client", "dask", "a distributed.Client", type(client).__name__)
    _check_timeout(timeout, "dask")
    engine = _Dask(client, timeout)
    engine.check_versions()
    with on_cluster(engine):
        yield


@contextmanager
def connected(scheduler: str, *, timeout: float = _TIMEOUT) -> Iterator[None]:
    """Run the work inside the block on the Dask cluster with this scheduler, such as "tcp://10.0.0.1:8786".

    `timeout` is that of `dask`, and also limits how long the first connection may take.
    """
    _check_timeout(timeout, "connected")
    try:
        from distributed import Client
    except ImportError as error:
        raise DataError(f"--engine dask needs Dask. {_HELP}") from error
    make: Any = Client
    try:
        client = make(scheduler, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise DataError(
            f"there is no Dask scheduler at {scheduler!r}: nobody answered within {timeout:g} seconds ({error}). Start "
            "one with dask scheduler and dask worker ADDRESS, and check the address."
        ) from error
    with _without_logs(), client:
        if not _Dask(client, timeout).workers():
            raise DataError(
                f"the Dask scheduler at {scheduler!r} has no workers. Start some with dask worker {scheduler}."
            )
        with dask(client, timeout=timeout):
            yield


@contextmanager
def _without_logs() -> Iterator[None]:
    """Silence what Dask logs about a lost connection: an error of our own reports it."""
    import logging

    # Each logger of Dask has a level of its own.
    logs = [logging.getLogger(n) for n in logging.root.manager.loggerDict if n.startswith(("distributed", "tornado"))]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def _check_timeout(timeout: float, owner: str) -> None:
    if not isinstance(timeout, (int, float)) or not 0 < timeout < float("inf"):
        raise ParameterError.invalid("timeout", owner, "a number of seconds > 0", timeout)
