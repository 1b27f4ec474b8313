"""Workers of a Dask cluster: tasks are functions of Concordant, and a worker that is lost has its tasks done again.

Nothing but this module knows of Dask, and it imports Dask when it is first used.
"""

from __future__ import annotations

import logging
import pkgutil
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
# Seconds between two looks at whether there is still anybody to do what is waited for.
_LOOK = 1.0
# A worker may be lost this often while it holds a task before the task itself is suspected.
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
        found: dict[str, int] = self._asked(self._client.nthreads)
        return found

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._client.status != "running":
            raise self._lost()
        # Not pure: the same function of the same file has another answer once the file has changed.
        return self._client.submit(_alone, __version__, function, *arguments, pure=False, retries=_RETRIES)

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
                        # The answer is there and takes longer to arrive.
                        look *= 2
                    # A task may take hours; it is given up when there are no workers to do it.
                    if self.workers():
                        seen = monotonic()
                    elif monotonic() - seen >= self._timeout:
                        raise self._deserted() from None
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
        """Raise where the scheduler or a worker has not the same version of Concordant as this process."""
        # A function of the standard library: a worker without Concordant ends when it is sent one of Concordant.
        ask = (pkgutil.resolve_name, "concordant._version:__version__")
        try:
            found = {"the scheduler": self._asked(self._client.run_on_scheduler, *ask)}
        except ImportError as error:
            found = {"the scheduler": error}
        workers = self._asked(self._client.run, *ask, on_error="return", of="a worker")
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

    def _asked(self, question: Callable[..., Any], *arguments: Any, of: str = "", **options: Any) -> Any:
        """Return what the scheduler or all workers answer, or raise when one of them does not within the timeout."""
        try:
            return question(*arguments, **options, callback_timeout=self._timeout)
        except (OSError, TimeoutError) as error:
            raise self._lost(of) from error

    def _lost(self, of: str = "") -> DataError:
        address = getattr(self._client.scheduler, "address", "")
        who = f"{of} of the Dask scheduler at" if of else "the Dask scheduler at"
        return DataError(f"{who} {address!r} does not answer. Start it again and repeat the work, {_LONGER}")

    def _deserted(self) -> DataError:
        return DataError(
            f"the Dask cluster has had no workers for {self._timeout:g} seconds. Their logs say why they ended, for "
            "example for lack of memory (then give them more, or make blocks smaller with block_rows). Start workers "
            f"and repeat the work, {_LONGER}"
        )


def _alone(version: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in one thread: the cluster has as many workers as it wants busy."""
    if version != __version__:
        # A worker that came later than the check of versions.
        raise DataError(f"a worker of the Dask cluster has Concordant {__version__}, and the client {version}.")
    with threads(1):
        return function(*arguments)


@contextmanager
def dask(client: Any, *, timeout: float = _TIMEOUT) -> Iterator[None]:
    """Have what is inside the block done by the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        Connected to the cluster. Concordant, in the same version, must be installed on the scheduler and the workers,
        which is checked first, and the workers must find the data under the names that `scan` is given.
    timeout : float
        Seconds to wait for a scheduler that does not answer, or for workers when there are none, before an error.

    Notes
    -----
    `scan` then leaves the data on the workers, `aggregate_blocks` aggregates there, and `fit` of methods that add up
    over instances sends parameters out and gets sums back. A worker that is lost has its work done again by the others.

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
    """Have what is inside the block done by the Dask cluster with this scheduler, such as "tcp://10.0.0.1:8786".

    `timeout` is that of `dask`, and also how many seconds the scheduler may take to answer at first.
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
    with _silent(), client:
        if not _Dask(client, timeout).workers():
            raise DataError(
                f"the Dask scheduler at {scheduler!r} has no workers. Start some with dask worker {scheduler}."
            )
        with dask(client, timeout=timeout):
            yield


@contextmanager
def _silent() -> Iterator[None]:
    """Keep what Dask logs about a lost connection, tracebacks included, off the screen: an error says it."""
    # Each of Dask's loggers has a level of its own.
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
