"""Many fits at once: each in a context of its own, so that none knows of the others or of who is watching.

The threads are shared out: as many fits run side by side as there are threads, and each may use what is left over. What
comes out does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from numbers import Integral
from typing import Any, TypeVar

from concordant.base.contract import Aggregator
from concordant.errors import ParameterError
from concordant.execution import force_threads, map_instances, n_threads

__all__ = ["check_seeds", "unfitted_copy", "run_parallel", "seeds_of"]

T = TypeVar("T")


def run_parallel(work: Callable[[int], T], n: int) -> list[T]:
    """Return [work(0), ..., work(n - 1)]; whoever watches is told of every one that is finished.

    Examples
    --------
    >>> from concordant.execution import watch
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

    # An empty context is what a thread of the pool has anyway; with one thread it must not be another: a watcher would
    # hear of the passes of each fit, and a checkpoint would be taken up by all of them.
    return map_instances(lambda i: Context().run(with_share, i), n)


def unfitted_copy(method: Aggregator, **params: Any) -> Aggregator:
    """Return an unfitted copy of a method, with some parameters changed; an unknown one is an error."""
    return type(method)(**method.get_params()).set_params(**params)


def check_seeds(seeds: Any, owner: str) -> list[int] | int:
    """Return how many seeds, or which ones, were asked for."""
    if isinstance(seeds, Integral) and not isinstance(seeds, bool) and int(seeds) >= 1:
        return int(seeds)
    given = list(seeds) if isinstance(seeds, Sequence) and not isinstance(seeds, str) else []
    whole = all(isinstance(s, Integral) and not isinstance(s, bool) and int(s) >= 0 for s in given)
    if not given or not whole or len(set(given)) < len(given):
        allowed = "a whole number >= 1, or a list of different whole numbers >= 0"
        raise ParameterError.invalid("seeds", owner, allowed, seeds)
    return [int(s) for s in given]


def seeds_of(method: Aggregator, seeds: Any, owner: str) -> tuple[int | None, ...]:
    """Return the values of `random_state` to fit a method with; (None,) for one that has no such parameter.

    >>> import concordant as cc
    >>> seeds_of(cc.RRF(), 5, "cross_validate"), seeds_of(cc.BradleyTerry(random_state=3), 2, "cross_validate")
    ((None,), (3, 4))
    """
    asked = check_seeds(seeds, owner)
    own = method.get_params().get("random_state")
    if own is None:
        return (None,)
    return tuple(asked) if isinstance(asked, list) else tuple(int(own) + i for i in range(asked))
