"""Workers of a Dask cluster: tasks are functions of Concordant, and a worker that is lost has its tasks done again.

Nothing but this module knows of Dask, and it imports Dask when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from concordant.errors import ConcordantError, DataError, ParameterError
from concordant.execution.local import threads
from concordant.execution.pieces import on_cluster

__all__ = ["connected", "dask"]

# A worker may be lost this often while it holds a task before the task itself is suspected.
_RETRIES = 5
_HELP = "Install it with pip install 'concordant[dask]'."


class _Dask:
    """A client of a Dask cluster."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @property
    def n_workers(self) -> int:
        return max(len(self._client.ncores()), 1)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        # Not pure: the same function of the same file has another answer once the file has changed.
        return self._client.submit(_alone, function, *arguments, pure=False, retries=_RETRIES)

    def result(self, handle: Any) -> Any:
        try:
            return handle.result()
        except ConcordantError:
            raise
        except Exception as error:
            kind = type(error).__name__
            if type(error).__module__.startswith(("distributed", "dask")):
                raise DataError(
                    f"the cluster could not finish its work ({kind}: {error}). Are workers being killed for lack of "
                    "memory? Give them more, or make blocks smaller (block_rows)."
                ) from error
            raise


def _alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in one thread: the cluster has as many workers as it wants busy."""
    with threads(1):
        return function(*arguments)


@contextmanager
def dask(client: Any) -> Iterator[None]:
    """Have what is inside the block done by the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        Connected to the cluster. Concordant, in the same version, must be installed on the workers, and they must find
        the data under the names that `scan` is given.

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
    with on_cluster(_Dask(client)):
        yield


@contextmanager
def connected(scheduler: str, *, timeout: float = 10.0) -> Iterator[None]:
    """Have what is inside the block done by the Dask cluster with this scheduler, such as "tcp://10.0.0.1:8786"."""
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
    with client, dask(client):
        if not client.ncores():
            raise DataError(
                f"the Dask scheduler at {scheduler!r} has no workers. Start some with dask worker {scheduler}."
            )
        yield
