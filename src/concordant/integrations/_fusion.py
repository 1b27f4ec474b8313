"""What the integrations share: one request of a framework through `fuse`, and its objects back with their scores."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from concordant.base.contract import Aggregator
from concordant.base.fuse import fuse
from concordant.base.registry import create
from concordant.data.hits import Hits
from concordant.data.preferences import Preferences
from concordant.errors import DataError, ParameterError, listing, quote
from concordant.io.request_lists import read_lists

__all__ = ["PARTS", "RANK", "SCORE", "Fused", "Fusion", "Key", "by_name", "id_getter"]

# The keys in the metadata of what a framework gets back.
SCORE, RANK, PARTS = "fusion_score", "fusion_rank", "fusion_parts"
# The name of the part of a score that no retriever adds.
_BASE = "(base)"

# Where an object has its id: a key of its metadata or a function; None is the framework's own id.
Key = str | Callable[[Any], Any] | None


class Fused(NamedTuple):
    """One object of the fused ranking.

    Attributes
    ----------
    item : object
        What the framework gave for this id, at the best place of any list.
    score : float
        The fused score; larger is better.
    rank : int
        1 = best; equal scores share the smallest rank.
    parts : dict from name to float, optional
        What each retriever adds to the score.
    """

    item: Any
    score: float
    rank: int
    parts: dict[str, float] | None


@dataclass(frozen=True)
class Fusion:
    """How to fuse the lists of named retrievers: the parameters of `fuse` that hold for all requests.

    Parameters
    ----------
    names : collection of str
        The names of the retrievers.
    method, weights, top_k, model, depth, threshold, smaller_is_better
        As in `fuse`. A name that is no retriever's is an error.
    params : mapping, optional
        Parameters of the method.
    explain : bool
        Whether to compute the parts of each score.
    """

    names: Collection[str]
    method: str | Aggregator = "rrf"
    weights: Mapping[str, float] | None = None
    top_k: int | None = None
    model: str | os.PathLike[str] | Aggregator | None = None
    depth: int | None = None
    threshold: float | Mapping[str, float] | None = None
    smaller_is_better: Collection[str] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    explain: bool = False

    def __post_init__(self) -> None:
        if not self.names:
            raise ParameterError(
                'there is nothing to fuse. Give retrievers by name, such as {"bm25": ..., "dense": ...}.'
            )
        if self.explain and _BASE in self.names:
            raise ParameterError(f"a retriever cannot be called {_BASE!r}, as the part of a score that none adds is.")
        for what in ("weights", "threshold", "smaller_is_better"):
            given = getattr(self, what)
            named = [given] if isinstance(given, str) else given if isinstance(given, Collection) else []
            strange = [name for name in named if name not in self.names]
            if strange:
                raise ParameterError(
                    f"{what}= names {quote(strange[0])}, which is no retriever. Retrievers: {listing(self.names)}."
                )
        # A wrong parameter or a missing file is an error now, not at the first request.
        self._fuse(dict.fromkeys(self.names), self.top_k)

    def __call__(
        self,
        lists: Mapping[str, Iterable[Any] | None],
        key: Callable[[Any], Any],
        score: Callable[[Any], Any] | None = None,
        *,
        no_key: str = "Pass key=.",
        no_score: str = "Pass use_scores=False to fuse by the order of the lists.",
        top_k: int | None = None,
        kind: type | None = None,
        metadata: str = "",
    ) -> list[Fused]:
        """Return the fused ranking of one request.

        Parameters
        ----------
        lists : mapping from name to objects
            What each retriever returned, best first. None or nothing means that it found nothing.
        key, score : function
            Return the id and the score of an object; without `score` the order of the lists counts.
        no_key, no_score : str
            What to do about an object without one, for the error message.
        top_k : int, optional
            For this request, in place of the one for all.
        kind : type, optional
            The framework's class of results, which all objects have to be.
        metadata : str, optional
            The attribute of an object that holds its metadata, a dictionary.
        """
        if kind is not None:
            for name, given in lists.items():
                _check_results(name, given, kind, metadata)
        entries = {
            name: list(_entries(name, given or (), key, score, no_key, no_score)) for name, given in lists.items()
        }
        scored = None if score is None else itemgetter(1)
        hits = self._fuse(entries, self.top_k if top_k is None else top_k, key=itemgetter(0), score=scored)
        parts: list[Any] = [None] * len(hits)
        if self.explain and hits:
            explained = hits.explain()
            parts = [{_BASE if n is None else n: v for n, v in explained.parts(hit.id).items()} for hit in hits]
        return [Fused(hit.item[2], hit.score, hit.rank, part) for hit, part in zip(hits, parts, strict=True)]

    def preferences(
        self,
        requests: Mapping[Any, Mapping[str, Iterable[Any]]],
        key: Callable[[Any], Any],
        score: Callable[[Any], Any],
    ) -> Preferences:
        """Return requests as preferences to fit a method on: their lists as this fusion reads them."""
        least = self.threshold if isinstance(self.threshold, Mapping) else None
        columns: tuple[list[Any], ...] = ([], [], [], [])
        for instance, lists in requests.items():
            for one in read_lists(
                {name: list(given) for name, given in lists.items()},
                key=key,
                score=score,
                smaller_is_better=self.smaller_is_better,
                least=least,
                depth=self.depth,
            ):
                n = len(one.ids)
                for column, values in zip(columns, ([instance] * n, [one.name] * n, one.ids, one.scores), strict=True):
                    column.extend(values or ())
        return Preferences(*columns, kind="score", experts=list(self.names))

    def _fuse(self, lists: Mapping[str, Any], top_k: int | None, **getters: Any) -> Hits:
        # A method may have a parameter that is called as one of `fuse` is, such as the weights of RRF.
        method = create(self.method, **self.params) if self.params else self.method
        return fuse(
            lists,
            method,
            weights=self.weights,
            top_k=top_k,
            model=self.model,
            depth=self.depth,
            threshold=self.threshold,
            smaller_is_better=self.smaller_is_better,
            **getters,
        )


def _check_results(name: str, given: Any, kind: type, metadata: str) -> None:
    """Raise DataError unless a retriever returned a list of results of its framework, or nothing."""
    if given is None:
        return
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise DataError(f"{quote(name)} returned {_typed(given)}. A retriever must return a list of {kind.__name__}.")
    for row, item in enumerate(given):
        if not isinstance(item, kind):
            raise DataError(f"the result in row {row} of {quote(name)} is {_typed(item)}, not a {kind.__name__}.")
        if not isinstance(getattr(item, metadata), Mapping):
            found = _typed(getattr(item, metadata))
            raise DataError(f"{metadata!r} of the result in row {row} of {quote(name)} is {found}, not a dictionary.")


def _typed(value: Any) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


def _entries(
    name: str,
    given: Iterable[Any],
    key: Callable[[Any], Any],
    score: Callable[[Any], Any] | None,
    no_key: str,
    no_score: str,
) -> Iterable[tuple[Any, Any, Any]]:
    """Yield the id, the score and the object itself of every object of a list."""
    for row, item in enumerate(given):
        found, value = key(item), None if score is None else score(item)
        if found is None:
            raise DataError(f"the result in row {row} of {quote(name)} has no id. {no_key}")
        if score is not None and value is None:
            raise DataError(f"the result {quote(found)} in row {row} of {quote(name)} has no score. {no_score}")
        yield found, value, item


def by_name(retrievers: Any) -> dict[str, Any]:
    """Return the retrievers as a dict, or raise ParameterError if they have no names."""
    if isinstance(retrievers, Mapping):
        return dict(retrievers)
    raise ParameterError.invalid(
        "retrievers", "the fusion", 'a dict from name to retriever, such as {"bm25": ..., "dense": ...}', retrievers
    )


def id_getter(key: Key, own: str, metadata: str) -> Callable[[Any], Any]:
    """Return how to get the id of an object: its attribute `own`, a key of its metadata, or what a function returns."""
    if key is None:
        return attrgetter(own)
    if callable(key):
        return key
    return lambda item: getattr(item, metadata).get(key)
