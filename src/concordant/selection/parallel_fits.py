"""Runs many fits in parallel threads, each in its own context, with results that do not depend on their number.

The threads are shared out: as many fits run at once as there are threads, and each fit may use an equal share.
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
    """Return [work(0), ..., work(n - 1)], computed in parallel; watchers are told of each finished call.

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

    # Threads of the pool start with an empty context. Do the same with one thread; otherwise watchers would hear of the
    # passes of each fit, and all fits would resume one checkpoint.
    return map_instances(lambda i: Context().run(with_share, i), n)


def unfitted_copy(method: Aggregator, **params: Any) -> Aggregator:
    """Return an unfitted copy of a method with some parameters changed; unknown parameters raise."""
    return type(method)(**method.get_params()).set_params(**params)


def check_seeds(seeds: Any, owner: str) -> list[int] | int:
    """Return the number of seeds or the list of seeds, or raise if they are neither."""
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
