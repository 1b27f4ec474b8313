"""Shards of data in memory, on disk or on the workers of a cluster: functions are sent to the shards.

A fit over data that does not fit in memory is a loop of maps over its shards, and sums of what the maps return. A
method maps over shards in the same way wherever they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from concordant.execution.local import map_instances, prefetch, without_progress

__all__ = ["Cluster", "InMemory", "OnCluster", "Shards", "OnDemand", "cluster", "on_cluster"]

T = TypeVar("T")
U = TypeVar("U")


class Shards(ABC, Generic[T]):
    """An ordered collection of shards."""

    # Whether a lost shard is computed again from the shard it was made of: functions must not change their arguments.
    recomputed: ClassVar[bool] = False

    @abstractmethod
    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[T]:
        """Yield the shards themselves, in order."""
        return self.map(_itself)

    @abstractmethod
    def select(self, which: Sequence[int]) -> Shards[T]:
        """Return the shards with these numbers."""

    @abstractmethod
    def map(self, function: Callable[..., U], *arguments: Any) -> Iterator[U]:
        """Yield function(shard, *arguments) of every shard, in order; few results are held at a time."""

    @abstractmethod
    def persist(self, function: Callable[..., U], *arguments: Any) -> Shards[U]:
        """Return the shards function(shard, *arguments), which stay where they are computed."""

    @abstractmethod
    def persist_each(self, function: Callable[..., U], values: Sequence[Any], *arguments: Any) -> Shards[U]:
        """Return the shards function(shard, value, *arguments), with one value per shard."""


def _itself(shard: T) -> T:
    return shard


class InMemory(Shards[T]):
    """Shards in memory; maps run on several cores.

    Examples
    --------
    >>> shards = InMemory([1, 2, 3]).persist(pow, 2)
    >>> list(shards.map(max, 5))
    [5, 5, 9]
    """

    def __init__(self, shards: Sequence[T]) -> None:
        self._shards = list(shards)

    def __len__(self) -> int:
        return len(self._shards)

    def select(self, which: Sequence[int]) -> InMemory[T]:
        """Return the shards with these numbers."""
        return InMemory([self._shards[n] for n in which])

    def map(self, function: Callable[..., U], *arguments: Any) -> Iterator[U]:
        """Yield function(shard, *arguments) of every shard, in order."""
        # An iteration that maps over shards repeatedly reports its own steps.
        with without_progress():
            return iter(map_instances(lambda k: function(self._shards[k], *arguments), len(self._shards)))

    def persist(self, function: Callable[..., U], *arguments: Any) -> InMemory[U]:
        """Return the shards function(shard, *arguments)."""
        return InMemory(list(self.map(function, *arguments)))

    def persist_each(self, function: Callable[..., U], values: Sequence[Any], *arguments: Any) -> InMemory[U]:
        """Return the shards function(shard, value, *arguments), with one value per shard."""
        pairs = InMemory(list(zip(self._shards, values, strict=True)))
        return pairs.persist(lambda pair: function(*pair, *arguments))


class OnDemand(Shards[T]):
    """Shards that are made when they are needed and dropped afterwards; the next is made while one is used.

    Examples
    --------
    >>> shards = OnDemand(3, lambda n: list(range(n)))
    >>> list(shards.map(len))
    [0, 1, 2]
    """

    def __init__(self, n: int, make: Callable[[int], T]) -> None:
        self._n = n
        self._make = make

    def __len__(self) -> int:
        return self._n

    def select(self, which: Sequence[int]) -> OnDemand[T]:
        """Return the shards with these numbers."""
        numbers = list(which)
        return OnDemand(len(numbers), lambda n: self._make(numbers[n]))

    def map(self, function: Callable[..., U], *arguments: Any) -> Iterator[U]:
        """Yield function(shard, *arguments) of every shard, in order."""
        return (function(shard, *arguments) for shard in prefetch(self._make(n) for n in range(self._n)))

    def persist(self, function: Callable[..., U], *arguments: Any) -> InMemory[U]:
        """Return the shards function(shard, *arguments), in memory."""
        return InMemory(list(self.map(function, *arguments)))

    def persist_each(self, function: Callable[..., U], values: Sequence[Any], *arguments: Any) -> InMemory[U]:
        """Return the shards function(shard, value, *arguments), with one value per shard, in memory."""
        shards = prefetch(self._make(n) for n in range(self._n))
        return InMemory([function(shard, value, *arguments) for shard, value in zip(shards, values, strict=True)])


class Cluster(Protocol):
    """Workers of a cluster. A call returns a handle; `result` fetches what it stands for."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the function on a worker; arguments may be handles of earlier results, alone or in lists."""
        ...

    def result(self, handle: Any) -> Any:
        """Return the result of a call, or raise its error."""
        ...

    @property
    def n_workers(self) -> int:
        """The number of workers."""
        ...


class OnCluster(Shards[T]):
    """Shards on the workers of a cluster."""

    recomputed = True

    def __init__(self, engine: Cluster, handles: Sequence[Any]) -> None:
        self._engine = engine
        self._handles = list(handles)

    def __len__(self) -> int:
        return len(self._handles)

    def select(self, which: Sequence[int]) -> OnCluster[T]:
        """Return the shards with these numbers."""
        return OnCluster(self._engine, [self._handles[n] for n in which])

    def map(self, function: Callable[..., U], *arguments: Any) -> Iterator[U]:
        """Yield function(shard, *arguments) of every shard, in order; some are computed ahead."""
        waiting: list[Any] = []
        # One running and one waiting per worker.
        most = 2 * self._engine.n_workers + 2
        for handle in self._handles:
            waiting.append(self._engine.submit(function, handle, *arguments))
            if len(waiting) >= most:
                yield self._engine.result(waiting.pop(0))
        while waiting:
            yield self._engine.result(waiting.pop(0))

    def persist(self, function: Callable[..., U], *arguments: Any) -> OnCluster[U]:
        """Return the shards function(shard, *arguments), on the workers."""
        return OnCluster(self._engine, [self._engine.submit(function, h, *arguments) for h in self._handles])

    def persist_each(self, function: Callable[..., U], values: Sequence[Any], *arguments: Any) -> OnCluster[U]:
        """Return the shards function(shard, value, *arguments), with one value per shard, on the workers."""
        pairs = zip(self._handles, values, strict=True)
        return OnCluster(self._engine, [self._engine.submit(function, h, value, *arguments) for h, value in pairs])


_cluster: ContextVar[Cluster | None] = ContextVar("concordant_cluster", default=None)


def cluster() -> Cluster | None:
    """Return the cluster of the current context, None for this machine."""
    return _cluster.get()


@contextmanager
def on_cluster(engine: Cluster) -> Iterator[None]:
    """Run the work inside the block on the workers of a cluster."""
    token = _cluster.set(engine)
    try:
        yield
    finally:
        _cluster.reset(token)
