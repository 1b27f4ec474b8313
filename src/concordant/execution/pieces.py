"""Data in pieces, wherever they lie: work goes to the pieces, and what comes back is small.

A fit over data that one machine does not hold is a loop of maps over its pieces and sums of what they return. Pieces
are objects in memory, things that are read anew each time, or results that stay on the workers of a cluster; who maps
over them does not know which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from concordant.execution.local import ahead, map_instances, unwatched

__all__ = ["Cluster", "Held", "OnCluster", "Pieces", "Read", "cluster", "on_cluster"]

T = TypeVar("T")
U = TypeVar("U")


class Pieces(ABC, Generic[T]):
    """Pieces of data in an order."""

    # Whether a piece that is lost is made again from the one before it, so that functions must not change what they
    # are given.
    recomputed: ClassVar[bool] = False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def some(self, which: Sequence[int]) -> Pieces[T]:
        """Return those of the pieces with these numbers."""

    @abstractmethod
    def map(self, function: Callable[..., U], *arguments: Any) -> Iterator[U]:
        """Yield function(piece, *arguments) of every piece, in order; few of the answers are held at a time."""

    @abstractmethod
    def keep(self, function: Callable[..., U], *arguments: Any) -> Pieces[U]:
        """Return the pieces that the function makes of these, left where they are made."""

    @abstractmethod
    def keep_each(self, function: Callable[..., U], values: Sequence[Any], *arguments: Any) -> Pieces[U]:
        """Return the pieces function(piece, value, *arguments) of each piece and its own value, left likewise."""


class Held(Pieces[T]):
    """Pieces in memory; the cores share them.

    Examples
    --------
    >>> pieces = Held([1, 2, 3]).keep(pow, 2)
    >>> list(pieces.map(max, 5))
    [5, 5, 9]
    """

    def __init__(self, pieces: Sequence[T]) -> None:
        self._pieces = list(pieces)

    def __len__(self) -> int:
        return len(self._pieces)

    def some(self, which: Sequence[int]) -> Held[T]:
        """Return those of the pieces with these numbers."""
        return Held([self._pieces[n] for n in which])

    def map(self, function: Callable[..., U], *arguments: Any) -> Iterator[U]:
        """Yield function(piece, *arguments) of every piece, in order."""
        # Whoever maps over pieces again and again reports its own steps.
        with unwatched():
            return iter(map_instances(lambda k: function(self._pieces[k], *arguments), len(self._pieces)))

    def keep(self, function: Callable[..., U], *arguments: Any) -> Held[U]:
        """Return the pieces that the function makes of these."""
        return Held(list(self.map(function, *arguments)))

    def keep_each(self, function: Callable[..., U], values: Sequence[Any], *arguments: Any) -> Held[U]:
        """Return the pieces that the function makes of these and a value each."""
        pairs = Held(list(zip(self._pieces, values, strict=True)))
        return pairs.keep(lambda pair: function(*pair, *arguments))


class Read(Pieces[T]):
    """Pieces that are made when they are asked for and forgotten afterwards, the next while one is used.

    Examples
    --------
    >>> pieces = Read(3, lambda n: list(range(n)))
    >>> list(pieces.map(len))
    [0, 1, 2]
    """

    def __init__(self, n: int, make: Callable[[int], T]) -> None:
        self._n = n
        self._make = make

    def __len__(self) -> int:
        return self._n

    def some(self, which: Sequence[int]) -> Read[T]:
        """Return those of the pieces with these numbers."""
        numbers = list(which)
        return Read(len(numbers), lambda n: self._make(numbers[n]))

    def map(self, function: Callable[..., U], *arguments: Any) -> Iterator[U]:
        """Yield function(piece, *arguments) of every piece, in order."""
        return (function(piece, *arguments) for piece in ahead(self._make(n) for n in range(self._n)))

    def keep(self, function: Callable[..., U], *arguments: Any) -> Held[U]:
        """Return the pieces that the function makes of these, which are held in memory."""
        return Held(list(self.map(function, *arguments)))

    def keep_each(self, function: Callable[..., U], values: Sequence[Any], *arguments: Any) -> Held[U]:
        """Return the pieces that the function makes of these and a value each, held in memory."""
        pieces = ahead(self._make(n) for n in range(self._n))
        return Held([function(piece, value, *arguments) for piece, value in zip(pieces, values, strict=True)])


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


class OnCluster(Pieces[T]):
    """Pieces that lie on the workers of a cluster."""

    recomputed = True

    def __init__(self, engine: Cluster, handles: Sequence[Any]) -> None:
        self._engine = engine
        self._handles = list(handles)

    def __len__(self) -> int:
        return len(self._handles)

    def some(self, which: Sequence[int]) -> OnCluster[T]:
        """Return those of the pieces with these numbers."""
        return OnCluster(self._engine, [self._handles[n] for n in which])

    def map(self, function: Callable[..., U], *arguments: Any) -> Iterator[U]:
        """Yield function(piece, *arguments) of every piece, in order, some of them ahead of being asked for."""
        waiting: list[Any] = []
        # Enough for every worker to have one in hand and one to come.
        most = 2 * self._engine.n_workers + 2
        for handle in self._handles:
            waiting.append(self._engine.submit(function, handle, *arguments))
            if len(waiting) >= most:
                yield self._engine.result(waiting.pop(0))
        while waiting:
            yield self._engine.result(waiting.pop(0))

    def keep(self, function: Callable[..., U], *arguments: Any) -> OnCluster[U]:
        """Return the pieces that the function makes of these, on the workers."""
        return OnCluster(self._engine, [self._engine.submit(function, h, *arguments) for h in self._handles])

    def keep_each(self, function: Callable[..., U], values: Sequence[Any], *arguments: Any) -> OnCluster[U]:
        """Return the pieces that the function makes of these and a value each, on the workers."""
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
