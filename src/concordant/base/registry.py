"""Every method under its name: it enters by `@register`; the command line, the docs and the checks read from here."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from concordant.errors import ParameterError

if TYPE_CHECKING:
    import polars as pl

    from concordant.base.contract import Aggregator
    from concordant.data.comparisons import Comparisons
    from concordant.data.consensus import Consensus
    from concordant.data.features import Features
    from concordant.data.preferences import Preferences
    from concordant.execution.blocks import Blocks

__all__ = ["METHODS", "aggregate", "create", "methods", "register"]

_classes: dict[str, type[Aggregator]] = {}
A = TypeVar("A", bound="type[Aggregator]")

# Named as text: the rooms above are found when somebody asks for a method, never imported for the contract's sake.
_ROOMS = ("concordant.methods", "concordant.ranking")


def register(cls: A) -> A:
    """Enter a class under its `name` and return it; for Concordant's own methods and for anybody else's."""
    _classes[cls.name] = cls
    return cls


class _Methods(Mapping[str, "type[Aggregator]"]):
    """The methods by name; the modules are imported when somebody first looks."""

    _loaded = False

    def _load(self) -> dict[str, type[Aggregator]]:
        if not self._loaded:
            for room in _ROOMS:
                try:
                    package = importlib.import_module(room)
                except ModuleNotFoundError as error:
                    if error.name != room:
                        raise
                    continue
                for module in pkgutil.iter_modules(package.__path__):
                    importlib.import_module(f"{room}.{module.name}")
            self._loaded = True
        return _classes

    def __getitem__(self, name: str) -> type[Aggregator]:
        known = self._load()
        found = known.get(name) if isinstance(name, str) else None
        if found is None:
            close = difflib.get_close_matches(str(name), known, n=3)
            hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise ParameterError(f"no method {name!r}.{hint} There are: {', '.join(sorted(known))}.")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._load()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._load()))

    def __len__(self) -> int:
        return len(self._load())

    def __repr__(self) -> str:
        return f"METHODS({', '.join(self)})"


METHODS: Mapping[str, type[Aggregator]] = _Methods()


def create(method: str | Aggregator | type[Aggregator], **params: Any) -> Aggregator:
    """Return a method from its name or class, or a ready one (a new one where parameters are to be set)."""
    if isinstance(method, str):
        return METHODS[method](**_known(METHODS[method], params))
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
        Features of the items, for a method that uses them without labels: "bradley-terry". Others raise KindError.
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


def methods() -> pl.DataFrame:
    """Return a Polars frame of all methods: name, class, what they accept, tags and the first line of their page."""
    import polars as pl

    rows = []
    for name in METHODS:
        cls = METHODS[name]
        tags = cls.tags
        rows.append(
            {
                "name": name,
                "class": cls.__name__,
                "accepts": ", ".join(sorted(tags.accepts)),
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
        )
    return pl.DataFrame(rows)
