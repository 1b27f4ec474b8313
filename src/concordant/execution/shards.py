"""Data in shards, wherever they lie: work goes to the shards, and what comes back is small.

A fit over data that one machine does not hold is a loop of maps over its shards and sums of what they return. Shards
are objects in memory, things that are read anew each time, or results that stay on the workers of a cluster; who maps
over them does not know which.
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
    """Shards of data in an order."""

    # Whether a shard that is lost is made again from the one before it, so that functions must not change what they
    # are given.
    recomputed: ClassVar[bool] = False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def select(self, which: Sequence[int]) -> Shards[T]:
        """Return those of the shards with these numbers."""

    @abstractmethod
    def map(self, function: Callable[..., U], *arguments: Any) -> Iterator[U]:
        """Yield function(shard, *arguments) of every shard, in order; few of the answers are held at a time."""

    @abstractmethod
    def persist(self, function: Callable[..., U], *arguments: Any) -> Shards[U]:
        """Return the shards that the function makes of these, left where they are made."""

    @abstractmethod
    def persist_each(self, function: Callable[..., U], values: Sequence[Any], *arguments: Any) -> Shards[U]:
        """Return the shards function(shard, value, *arguments) of each shard and its own value, left likewise."""


class InMemory(Shards[T]):
    """Shards in memory; the cores share them.

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
        """Return those of the shards with these numbers."""
        return InMemory([self._shards[n] for n in which])

    def map(self, function: Callable[..., U], *arguments: Any) -> Iterator[U]:
        """Yield function(shard, *arguments) of every shard, in order."""
        # Whoever maps over shards again and again reports its own steps.
        with without_progress():
            return iter(map_instances(lambda k: function(self._shards[k], *arguments), len(self._shards)))

    def persist(self, function: Callable[..., U], *arguments: Any) -> InMemory[U]:
        """Return the shards that the function makes of these."""
        return InMemory(list(self.map(function, *arguments)))

    def persist_each(self, function: Callable[..., U], values: Sequence[Any], *arguments: Any) -> InMemory[U]:
        """Return the shards that the function makes of these and a value each."""
        pairs = InMemory(list(zip(self._shards, values, strict=True)))
        return pairs.persist(lambda pair: function(*pair, *arguments))


class OnDemand(Shards[T]):
    """Shards that are made when they are asked for and forgotten afterwards, the next while one is used.

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
        """Return those of the shards with these numbers."""
        numbers = list(which)
        return OnDemand(len(numbers), lambda n: self._make(numbers[n]))

    def map(self, function: Callable[..., U], *arguments: Any) -> Iterator[U]:
        """Yield function(shard, *arguments) of every shard, in order."""
        return (function(shard, *arguments) for shard in prefetch(self._make(n) for n in range(self._n)))

    def persist(self, function: Callable[..., U], *arguments: Any) -> InMemory[U]:
        """Return the shards that the function makes of these, which are held in memory."""
        return InMemory(list(self.map(function, *arguments)))

    def persist_each(self, function: Callable[..., U], values: Sequence[Any], *arguments: Any) -> InMemory[U]:
        """Return the shards that the function makes of these and a value each, held in memory."""
        shards = prefetch(self._make(n) for n in range(self._n))
        return InMemory([function(shard, value, *arguments) for shard, value in zip(shards, values, strict=True)])


class Cluster(Protocol):
    """Workers elsewhere; what they return is a handle until it is asked for."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Have a worker call the function; arguments may be handles, alone or in lists, of what workers made before."""
        ...

    def result(self, handle: Any) -> Any:
        """Return what a worker made; raise what it raised."""
        ...

    @property
    def n_workers(self) -> int:
        """How many there are."""
        ...


class OnCluster(Shards[T]):
    """Shards that lie on the workers of a cluster."""

    recomputed = True

    def __init__(self, engine: Cluster, handles: Sequence[Any]) -> None:
        self._engine = engine
        self._handles = list(handles)

    def __len__(self) -> int:
        return len(self._handles)

    def select(self, which: Sequence[int]) -> OnCluster[T]:
        """Return those of the shards with these numbers."""
        return OnCluster(self._engine, [self._handles[n] for n in which])

    def map(self, function: Callable[..., U], *arguments: Any) -> Iterator[U]:
        """Yield function(shard, *arguments) of every shard, in order, some of them ahead of being asked for."""
        waiting: list[Any] = []
        # Enough for every worker to have one in hand and one to come.
        most = 2 * self._engine.n_workers + 2
        for handle in self._handles:
            waiting.append(self._engine.submit(function, handle, *arguments))
            if len(waiting) >= most:
                yield self._engine.result(waiting.pop(0))
        while waiting:
            yield self._engine.result(waiting.pop(0))

    def persist(self, function: Callable[..., U], *arguments: Any) -> OnCluster[U]:
        """Return the shards that the function makes of these, on the workers."""
        return OnCluster(self._engine, [self._engine.submit(function, h, *arguments) for h in self._handles])

    def persist_each(self, function: Callable[..., U], values: Sequence[Any], *arguments: Any) -> OnCluster[U]:
        """Return the shards that the function makes of these and a value each, on the workers."""
        pairs = zip(self._handles, values, strict=True)
        return OnCluster(self._engine, [self._engine.submit(function, h, value, *arguments) for h, value in pairs])


_cluster: ContextVar[Cluster | None] = ContextVar("concordant_cluster", default=None)


def cluster() -> Cluster | None:
    """Return the cluster that work is to be done on, None for this machine."""
    return _cluster.get()


@contextmanager
def on_cluster(engine: Cluster) -> Iterator[None]:
    """Have what is inside the block done by the workers of a cluster."""
    token = _cluster.set(engine)
    try:
        yield
    finally:
        _cluster.reset(token)
