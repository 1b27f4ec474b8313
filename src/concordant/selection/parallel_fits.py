"""Copies of methods and their seeds, for many fits of one method; `run_parallel` runs them."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from concordant.base.contract import Aggregator
from concordant.errors import ParameterError
from concordant.execution import run_parallel

__all__ = ["check_seeds", "unfitted_copy", "run_parallel", "seeds_of"]


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
