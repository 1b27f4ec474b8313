"""`Blocks`: preferences in blocks of whole instances, on disk or on the workers of a cluster.

`shards_of` gives blocks and data in memory (one block) in the same form, so that a method needs one code path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, overload

from concordant.arrays import Bools, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.index import Texts
from concordant.data.preferences import Kind, Preferences
from concordant.execution.shards import InMemory, Shards

__all__ = ["Blocks", "shards_of"]


class Blocks(Sequence[Preferences]):
    r"""Preferences in blocks of whole instances, each read from disk when it is needed.

    Made by `scan`. Together the blocks hold what `read` returns for the same files: the same instances in the same
    order, the same items, experts and values. Use it as a context manager, or call `close`, to free the disk.

    Attributes
    ----------
    instances, experts : Texts
        All instances and all experts; every block has the full list of experts.
    kind : {"rank", "score", "rating"}
        What the values are.
    rows : int64[instances]
        The number of rows of every instance.
    below : bool or bool[instances]
        Whether items that a list leaves out are declared below what it holds.
    shards : Shards
        The blocks, for functions that are sent to them.

    Examples
    --------
    >>> import concordant as cc, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.trec")
    >>> _ = path.write_text("1 Q0 d1 1 9.5 bm25\n2 Q0 d2 1 8.1 bm25\n2 Q0 d1 2 7.5 bm25\n")
    >>> with cc.scan(path, block_rows=1) as blocks:
    ...     [block.instances.tolist() for block in blocks]
    [['1'], ['2']]
    """

    def __init__(
        self,
        shards: Shards[Preferences],
        instances: Texts,
        experts: Texts,
        rows: Ints,
        kind: Kind,
        *,
        below: bool | Bools = False,
        close: Callable[[], None] = lambda: None,
        job: Any = None,
    ) -> None:
        self.shards = shards
        self.instances = instances
        self.experts = experts
        self.rows = rows
        self.kind: Kind = kind
        self.below = below
        # Identifies the files and options that were read, for checkpoints.
        self.job = job
        self._close = close

    @property
    def n_rows(self) -> int:
        """The number of rows in all blocks."""
        return int(self.rows.sum())

    def __len__(self) -> int:
        return len(self.shards)

    @overload
    def __getitem__(self, key: int) -> Preferences: ...
    @overload
    def __getitem__(self, key: slice) -> list[Preferences]: ...
    def __getitem__(self, key: Any) -> Preferences | list[Preferences]:
        if isinstance(key, slice):
            return [self[b] for b in range(*key.indices(len(self)))]
        block = key + len(self) if key < 0 else key
        if not 0 <= block < len(self):
            raise IndexError(f"there are {len(self)} blocks; got block {key}")
        return next(iter(self.shards.select([block])))

    def __iter__(self) -> Iterator[Preferences]:
        return iter(self.shards)

    def __repr__(self) -> str:
        return (
            f"Blocks: {len(self.instances):,} instances, {len(self.experts):,} experts, {self.n_rows:,} rows in "
            f"{len(self):,} blocks"
        )

    def close(self) -> None:
        """Free the disk. Blocks cannot be read afterwards."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def shards_of(data: Preferences | Comparisons | Blocks) -> Shards[Any]:
    """Return the blocks of some data as shards; data in memory is a single shard.

    Examples
    --------
    >>> from concordant.data.preferences import Preferences
    >>> len(shards_of(Preferences(["q"], ["x"], ["a"], [1])))
    1
    """
    return data.shards if isinstance(data, Blocks) else InMemory([data])
