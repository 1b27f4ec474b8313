"""Shared code of the integrations: fuse the result lists of one request and return the framework's own objects."""

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

# Keys of the metadata of returned documents.
SCORE, RANK, PARTS = "fusion_score", "fusion_rank", "fusion_parts"
# The name of the share of a score that comes from no retriever.
_NO_RETRIEVER = "(base)"

# How to get the id of an object: a key of its metadata, or a function. None is the framework's own id.
Key = str | Callable[[Any], Any] | None


class Fused(NamedTuple):
    """One object of the fused ranking.

    Attributes
    ----------
    item : object
        The framework's object; if several lists hold the id, the one with the best rank.
    score : float
        The fused score; larger is better.
    rank : int
        1 = best; equal scores share the smallest rank.
    parts : dict from name to float, optional
        The share of the score that comes from each retriever.
    """

    item: Any
    score: float
    rank: int
    parts: dict[str, float] | None


@dataclass(frozen=True)
class Fusion:
    """Fuses the lists of named retrievers, with the same parameters of `fuse` for all requests.

    Parameters
    ----------
    names : collection of str
        The names of the retrievers.
    method, weights, top_k, model, depth, threshold, smaller_is_better
        As in `fuse`. A name that no retriever has is an error.
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
        if self.explain and _NO_RETRIEVER in self.names:
            raise ParameterError(
                f"a retriever cannot be called {_NO_RETRIEVER!r}, the name of the share that no retriever adds."
            )
        for parameter in ("weights", "threshold", "smaller_is_better"):
            value = getattr(self, parameter)
            named = [value] if isinstance(value, str) else value if isinstance(value, Collection) else []
            unknown = [name for name in named if name not in self.names]
            if unknown:
                raise ParameterError(
                    f"{parameter}= names {quote(unknown[0])}, but no retriever has this name. "
                    f"Retrievers: {listing(self.names)}."
                )
        # Raise for a wrong parameter or a missing file now, not at the first request.
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
            The results of each retriever, best first. None or an empty list means that it found nothing.
        key, score : function
            Return the id and the score of an object; without `score` the order of the lists counts.
        no_key, no_score : str
            The advice of the error message for an object without an id or a score.
        top_k : int, optional
            How many results to return for this request; by default as many as for all requests.
        kind : type, optional
            The framework's class of results; an object of another class is an error.
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
            parts = [{_NO_RETRIEVER if n is None else n: v for n, v in explained.parts(hit.id).items()} for hit in hits]
        return [Fused(hit.item[2], hit.score, hit.rank, part) for hit, part in zip(hits, parts, strict=True)]

    def preferences(
        self,
        requests: Mapping[Any, Mapping[str, Iterable[Any]]],
        key: Callable[[Any], Any],
        score: Callable[[Any], Any],
    ) -> Preferences:
        """Return the lists of several requests as preferences to fit a method to, read as this fusion reads them."""
        thresholds = self.threshold if isinstance(self.threshold, Mapping) else None
        columns: tuple[list[Any], ...] = ([], [], [], [])
        for instance, lists in requests.items():
            for one in read_lists(
                {name: list(given) for name, given in lists.items()},
                key=key,
                score=score,
                smaller_is_better=self.smaller_is_better,
                least=thresholds,
                depth=self.depth,
            ):
                n = len(one.ids)
                for column, values in zip(columns, ([instance] * n, [one.name] * n, one.ids, one.scores), strict=True):
                    column.extend(values or ())
        return Preferences(*columns, kind="score", experts=list(self.names))

    def _fuse(self, lists: Mapping[str, Any], top_k: int | None, **getters: Any) -> Hits:
        # A method may have a parameter with the same name as one of `fuse`, such as the weights of RRF.
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
        raise DataError(
            f"{quote(name)} returned {_type_name(given)}. A retriever must return a list of {kind.__name__}."
        )
    for row, item in enumerate(given):
        if not isinstance(item, kind):
            raise DataError(f"the result in row {row} of {quote(name)} is {_type_name(item)}, not a {kind.__name__}.")
        if not isinstance(getattr(item, metadata), Mapping):
            found = _type_name(getattr(item, metadata))
            raise DataError(f"{metadata!r} of the result in row {row} of {quote(name)} is {found}, not a dictionary.")


def _type_name(value: Any) -> str:
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
        item_id, value = key(item), None if score is None else score(item)
        if item_id is None:
            raise DataError(f"the result in row {row} of {quote(name)} has no id. {no_key}")
        if score is not None and value is None:
            raise DataError(f"the result {quote(item_id)} in row {row} of {quote(name)} has no score. {no_score}")
        yield item_id, value, item


def by_name(retrievers: Any) -> dict[str, Any]:
    """Return the retrievers as a dict by name; raise ParameterError for anything but a mapping."""
    if isinstance(retrievers, Mapping):
        return dict(retrievers)
    raise ParameterError.invalid(
        "retrievers", "the fusion", 'a dict from name to retriever, such as {"bm25": ..., "dense": ...}', retrievers
    )


def id_getter(key: Key, own: str, metadata: str) -> Callable[[Any], Any]:
    """Return a function that gets the id of an object: `key`, a key of its metadata, or its attribute `own`."""
    if key is None:
        return attrgetter(own)
    if callable(key):
        return key
    return lambda item: getattr(item, metadata).get(key)
