"""Registry of the methods: `METHODS` by name, `aggregate` by name, and `register_method` for new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from concordant._names import METHODS as _BUILTIN
from concordant._registry import Registry
from concordant.errors import ParameterError

if TYPE_CHECKING:
    import polars as pl

    from concordant.base.contract import Aggregator
    from concordant.data.comparisons import Comparisons
    from concordant.data.consensus import Consensus
    from concordant.data.features import Features
    from concordant.data.preferences import Preferences
    from concordant.execution.blocks import Blocks

__all__ = ["METHODS", "aggregate", "create", "describe_method", "methods", "register_method"]

A = TypeVar("A", bound="type[Aggregator]")

# The packages are named as text: the contract does not import the methods.
METHODS: Registry[type[Aggregator]] = Registry("method", _BUILTIN, ("concordant.aggregators", "concordant.ranking"))


def register_method(cls: A) -> A:
    """Register a method under its `name`; `aggregate`, the command line and `load` know it from then on.

    Parameters
    ----------
    cls : subclass of Aggregator
        The method.

    Returns
    -------
    class
        The same class, so that this works as a decorator.
    """
    METHODS.add(cls.name, cls, cls.__module__)
    return cls


def create(method: str | Aggregator | type[Aggregator], **params: Any) -> Aggregator:
    """Return a method from its name or class, or a ready one (a new one where parameters are to be set)."""
    if isinstance(method, str):
        method = METHODS[method]
    if isinstance(method, type):
        return method(**_known(method, params))
    return type(method)(**(method.get_params() | _known(type(method), params))) if params else method


def _known(cls: type[Aggregator], params: dict[str, Any]) -> dict[str, Any]:
    unknown = [p for p in params if p not in cls.param_names()]
    if unknown:
        raise ParameterError.unknown(unknown[0], cls.__name__, cls.param_names())
    return params


def aggregate(
    preferences: Preferences | Comparisons | Blocks,
    method: str | Aggregator = "rrf",
    *,
    features: Features | None = None,
    **params: Any,
) -> Consensus:
    """Return the consensus of the preferences by a method, given by name or ready made.

    Parameters
    ----------
    preferences : Preferences, Comparisons or Blocks
        What the experts said; blocks, from `scan`, are read one by one, and the consensus is held in memory.
    method : str or Aggregator
        A name of `METHODS`, such as "rrf", "borda" or "copeland".
    features : Features, optional
        Features of the items, for a method that uses them without labels: "bradley-terry" or "plackett-luce". Others
        raise KindError.
    **params
        Parameters of the method.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"bm25": ["a", "b", "c"], "dense": ["b", "c"]})
    >>> cc.aggregate(runs, "rrf", k=10).ranking()
    ['b', 'c', 'a']
    """
    return create(method, **params).fit_predict(preferences, features=features)


def describe_method(cls: type[Aggregator]) -> dict[str, Any]:
    """Return the facts about a method: its names, what it accepts, its tags and the first line of its page."""
    tags = cls.tags
    return {
        "name": cls.name,
        "class": cls.__name__,
        "accepts": sorted(tags.accepts),
        "features": cls.takes_features,
        "supervised": tags.supervised,
        "per_instance": tags.per_instance,
        "weights": tags.weights,
        "ties": tags.ties,
        "uncertainty": tags.uncertainty,
        "stochastic": tags.stochastic,
        "faithful": tags.faithful,
        "cost": tags.cost,
        "summary": (cls.__doc__ or "").strip().split("\n", 1)[0],
    }


def methods() -> pl.DataFrame:
    """Return a Polars frame of all methods: name, class, what they accept, tags and the first line of their page."""
    import polars as pl

    rows = []
    for name in METHODS:
        described = describe_method(METHODS[name])
        del described["features"]
        rows.append(described | {"accepts": ", ".join(described["accepts"])})
    return pl.DataFrame(rows)
