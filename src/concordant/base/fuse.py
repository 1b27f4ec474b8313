"""`fuse`: the lists of one request to one ranking, with the caller's own ids."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from itertools import repeat
from operator import add, gt
from typing import TYPE_CHECKING, Any

import numpy as np

from concordant.base.contract import Aggregator
from concordant.base.params import check_params, integer, number
from concordant.base.registry import METHODS, create
from concordant.base.weights import are_usual
from concordant.data.hits import Hits, rank_dictionary
from concordant.data.index import as_ids
from concordant.data.preferences import Preferences
from concordant.errors import DataError, ParameterError, quote
from concordant.io.lists import code_items, one_instance, places
from concordant.io.request_lists import Getter, RequestList, check_names, read_lists

if TYPE_CHECKING:
    from concordant.data.explanation import Explanation

__all__ = ["fuse"]

_TEXT = frozenset({str})


def fuse(
    lists: Mapping[Any, Any],
    method: str | Aggregator | type[Aggregator] = "rrf",
    *,
    weights: Mapping[Any, float] | None = None,
    top_k: int | None = None,
    key: Getter | None = None,
    score: Getter | None = None,
    model: str | os.PathLike[str] | Aggregator | None = None,
    duplicates: str = "best",
    smaller_is_better: Collection[Any] = (),
    depth: int | None = None,
    threshold: float | Mapping[Any, float] | None = None,
    **params: Any,
) -> Hits:
    """Return the ranking that a method makes of the lists of one request, such as those of several retrievers.

    Parameters
    ----------
    lists : mapping from name to list
        What each retriever returned: ids, best first; (id, score) pairs; objects, with `key`; or {id: score}. An id may
        be anything hashable, and comes back as it is, also text that no file can hold (a lone surrogate). A list that
        is None or empty is the same as none. Either all lists have scores or none has. A tuple of two that ends in a
        float is a pair; pass ``key=tuple`` if your ids look like that.
    method : str or Aggregator
        A name of `METHODS`, such as "rrf" or "comb-sum", or a method.
    weights : mapping from name to float, optional
        Trust in each list, >= 0; those not named weigh 1. Names of absent lists are fine. A name that is nearly that of
        a list without a weight is an error.
    top_k : int, optional
        How many hits to return; all by default.
    key, score : function, str or int, optional
        How to get the id and the score of an object: a function, the name of an attribute or of a key, or a position.
    model : Aggregator or path, optional
        A fitted method, or the file where one is saved, in place of `method`. A file is loaded once and again when it
        changes.
    duplicates : {"best", "error"}
        What to do when a list holds an id twice, as lists of chunks of documents do: keep the best place and close up
        the places below, or raise.
    smaller_is_better : collection of names
        The lists whose scores are distances.
    depth : int, optional
        How many ids of each list count, after duplicates.
    threshold : float or mapping from name to float, optional
        A number leaves out hits whose fused score is lower. A mapping leaves out, before fusion, what a retriever
        itself scores lower (larger, where smaller is better).
    **params
        Parameters of the method, such as ``k=60``.

    Returns
    -------
    Hits
        A sequence of `Hit`: `id`, `score`, `rank`, and `item`, the object given for the id. Of several objects with one
        id it is the one at the best place of any list.

    Notes
    -----
    Scores, ranks and order are those of ``aggregate(from_lists(lists, weights=weights), method, **params)``, where
    lists are ids or {id: score}; (id, score) pairs count as the latter. Safe to call from many threads. Nothing heavier
    than NumPy is imported unless the method needs it.

    Examples
    --------
    >>> import concordant as cc
    >>> hits = cc.fuse({"bm25": [7, 3, 9], "dense": [3, 12], "reranker": None}, weights={"reranker": 2}, top_k=2)
    >>> [(hit.rank, hit.id, round(hit.score, 4)) for hit in hits]
    [(1, 3, 0.0325), (2, 7, 0.0164)]

    Objects with payloads, and distances:

    >>> bm25 = [{"doc": "a", "score": 12.0, "text": "…"}, {"doc": "b", "score": 7.5, "text": "…"}]
    >>> dense = [{"doc": "b", "score": 0.1, "text": "…"}]
    >>> lists = {"bm25": bm25, "dense": dense}
    >>> hits = cc.fuse(lists, "comb-sum", key="doc", score="score", smaller_is_better=["dense"])
    >>> hits.ids, hits[0].item is bm25[0]
    (['a', 'b'], True)
    """
    if not isinstance(lists, Mapping):
        raise DataError(
            'give a mapping from name to list, such as {"bm25": [...], "dense": [...]}. '
            f"Got {type(lists).__name__} instead."
        )
    least = threshold if isinstance(threshold, Mapping) else None
    if isinstance(smaller_is_better, str):
        smaller_is_better = (smaller_is_better,)
    chosen = _chosen(method, params) if model is None else _fitted(model, method, params)
    _check(lists, chosen, weights, top_k, key, score, duplicates, smaller_is_better, depth, threshold)
    found = read_lists(
        lists,
        key=key,
        score=score,
        duplicates=duplicates,
        smaller_is_better=smaller_is_better,
        least=least,
        depth=depth,
    )
    hits = _fused(found, chosen, model is not None, weights)
    if threshold is not None and least is None:
        # Scores are sorted up to ties.
        hits = hits[: sum(s >= threshold for s in hits.scores)]  # type: ignore[operator]
    return hits if top_k is None else hits[:top_k]


def _chosen(method: str | Aggregator | type[Aggregator], params: dict[str, Any]) -> Aggregator:
    """Return the method to use, which may be shared by threads if it learns nothing."""
    if isinstance(method, str):
        method = METHODS[method]
    if isinstance(method, Aggregator):
        # The caller may change it at any time.
        params = method.get_params() | params
        method = type(method)
    try:
        return _ready(method, **params)  # type: ignore[arg-type]
    except TypeError:
        # A parameter that cannot be hashed, such as a mapping.
        return _checked(create(method, **params))


@lru_cache(maxsize=64, typed=True)
def _ready(cls: type[Aggregator], **params: Any) -> Aggregator:
    return _checked(create(cls, **params))


def _checked(method: Aggregator) -> Aggregator:
    """Return the method, or raise if a parameter is wrong or it must learn from labels first."""
    check_params(type(method).__name__, method.get_params(), method.constraints)
    if method.needs_labels():
        raise ParameterError(
            f"{method.name} learns from labels. Fit it on labelled requests and pass the fitted method, or the path "
            "where it is saved, as model=."
        )
    return method


def _fitted(model: Any, method: Any, params: dict[str, Any]) -> Aggregator:
    """Return the model, from its file where a path is given."""
    if method != "rrf" or params:
        raise ParameterError(
            f"a model has its method and parameters. Leave out {', '.join(params) if params else 'method='} or model=."
        )
    if isinstance(model, Aggregator):
        return model
    if not isinstance(model, (str, os.PathLike)):
        raise ParameterError.invalid("model", "fuse", "a fitted method, or the path of a saved one", model)
    from concordant.base.saving import load

    path = os.fspath(model)
    try:
        status = os.stat(path)
    except OSError:
        return load(path)
    return _loaded(path, (status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=16)
def _loaded(path: str, state: tuple[int, int]) -> Aggregator:  # noqa: ARG001 - a part of the key of the cache
    """Return the model of a file, which is read again only if its time or size changes."""
    from concordant.base.saving import load

    return load(path)


def _check(
    lists: Mapping[Any, Any],
    method: Aggregator,
    weights: Any,
    top_k: Any,
    key: Any,
    score: Any,
    duplicates: Any,
    smaller_is_better: Any,
    depth: Any,
    threshold: Any,
) -> None:
    """Raise for the first argument of `fuse` that is wrong."""
    if not _TEXT.issuperset(map(type, lists)) or not all(map(str.isascii, lists)):
        names = as_ids(lists, "list")
        if len(set(names)) < len(names):
            raise DataError("two lists have the same name once written as text.")
    for name, value in (("top_k", top_k), ("depth", depth)):
        if value is not None and not integer(least=1).test(value):
            raise ParameterError.invalid(name, "fuse", "a whole number >= 1, or None", value)
    if duplicates not in ("best", "error"):
        raise ParameterError.invalid("duplicates", "fuse", "'best' or 'error'", duplicates)
    if score is not None and key is None:
        raise ParameterError("score= is about objects, and needs key=, which finds their ids.")
    if weights is not None:
        if not isinstance(weights, Mapping):
            raise ParameterError.invalid("weights", "fuse", "a mapping from the name of a list to a number", weights)
        for name, weight in weights.items():
            if not number(least=0).test(weight):
                raise ParameterError(
                    f"the weight of list {quote(name)} must be a finite number >= 0. Got {quote(weight)}."
                )
        if weights and not method.tags.weights:
            raise ParameterError(f"{type(method).__name__} does not weigh lists. Leave weights= out.")
        check_names(weights, lists, "weights=")
    if isinstance(threshold, Mapping):
        for name, value in threshold.items():
            if not number().test(value):
                raise ParameterError(f"the threshold of list {quote(name)} must be a number. Got {quote(value)}.")
        check_names(threshold, lists, "threshold=")
    elif threshold is not None and not number().test(threshold):
        allowed = "a number, or a mapping from the name of a list to a number"
        raise ParameterError.invalid("threshold", "fuse", allowed, threshold)
    if smaller_is_better:
        if not isinstance(smaller_is_better, Collection):
            raise ParameterError.invalid("smaller_is_better", "fuse", "the names of lists", smaller_is_better)
        check_names(smaller_is_better, lists, "smaller_is_better=")


def _fused(found: list[RequestList], method: Aggregator, fitted: bool, weights: Mapping[Any, float] | None) -> Hits:
    """Return all hits of the lists that were read."""
    if not found:
        return Hits([], [], [], explain=partial(_explain, method, found, weights))
    score_of = _position_sums(found, method, fitted, weights)
    if score_of is not None:
        ids, scores, ranks = rank_dictionary(score_of)
    else:
        preferences, slots = _preferences(found, weights)
        if not fitted and (method.learns() or not _sums_by_position(type(method))):  # type: ignore[arg-type]
            # A fit changes the method, and other threads may use this one; explanations need what it stores.
            method = create(type(method), **method.get_params())
            consensus = method.fit_predict(preferences)
        else:
            consensus = method.predict(preferences)
        order = consensus.order()
        ids = [slots[slot] for slot in order.tolist()]
        scores, ranks = consensus.score[order].tolist(), consensus.rank[order].tolist()
    return Hits(ids, scores, ranks, _payloads(found, ids), partial(_explain, method, found, weights))


@lru_cache(maxsize=256)
def _sums_by_position(cls: type[Aggregator]) -> bool:
    """Return whether a class says how its scores are sums over positions, and no subclass changed the scores since."""
    changed = {"_scores", "_consensus", "_ranks", "_list_weights", "_checked", "predict", "fit_predict"}
    own = next(base for base in cls.__mro__ if "_position_tables" in base.__dict__)
    later = cls.__mro__[: cls.__mro__.index(own)]
    return own is not Aggregator and not any(changed & base.__dict__.keys() for base in later)


def _position_sums(
    found: list[RequestList], method: Aggregator, fitted: bool, weights: Mapping[Any, float] | None
) -> dict[Any, float] | None:
    """Return the score of every id where it is a sum of terms that depend on its positions; None otherwise."""
    if not _sums_by_position(type(method)):  # type: ignore[arg-type]
        return None
    for one in found:
        scores = one.scores
        if scores is not None and not all(map(gt, scores, scores[1:])):
            return None
    trust = [float(weights.get(one.name, 1.0)) for one in found] if weights else None
    if trust is not None and not are_usual(trust, relative=method._relative_weights):
        return None
    if fitted:
        # The caller may have changed its parameters; those of others were checked when they were made.
        method._check_kind("rank" if found[0].scores is None else "score")
    made = method._position_tables(
        [str(one.name) for one in found],
        [len(one.ids) for one in found],
        trust,
        lambda: len(set().union(*(one.ids for one in found))),
    )
    if made is None:
        return None
    tables, constant = made
    out = dict(zip(found[0].ids, tables[0], strict=False))
    so_far = out.get
    for one, table in zip(found[1:], tables[1:], strict=True):
        # Quicker than `update` with pairs.
        for value, term in zip(one.ids, table, strict=False):
            out[value] = so_far(value, 0.0) + term
    return dict(zip(out, map(add, out.values(), repeat(constant)), strict=True)) if constant else out


def _preferences(found: list[RequestList], weights: Mapping[Any, float] | None) -> tuple[Preferences, list[Any]]:
    """Return the lists as preferences, and the caller's id of every slot."""
    ids, slot, offsets = code_items([one.ids for one in found])
    experts = as_ids([one.name for one in found], "list")
    scores = [one.scores for one in found if one.scores is not None]
    preferences = one_instance(
        "q",
        ids if set(map(type, ids)) == {str} else _texts(ids),
        experts,
        np.arange(len(found), dtype=np.int32),
        offsets,
        slot,
        np.array([s for column in scores for s in column]) if scores else places(offsets),
        kind="score" if scores else "rank",
        list_weight=np.array([float(weights.get(one.name, 1.0)) for one in found]) if weights else None,
    )
    return preferences, ids


def _texts(ids: list[Any]) -> list[str]:
    """Return a different text for every id, which messages name it by."""
    for write in (str, repr):
        out = list(map(write, ids))
        if len(set(out)) == len(out):
            return out
    return [f"{text} ({n})" for n, text in enumerate(out, 1)]


def _payloads(found: list[RequestList], ids: list[Any]) -> list[Any] | None:
    """Return the object of every id that stands at the best place of any list, the first list's among equals."""
    if all(one.items is None for one in found):
        return None
    best: dict[Any, tuple[int, Any]] = {}
    for one in found:
        if one.items is None:
            continue
        for place, row in enumerate(one.best_first()):
            value = one.ids[row]
            if value not in best or place < best[value][0]:
                best[value] = place, one.items[row]
    return [best[value][1] if value in best else None for value in ids]


def _explain(
    method: Aggregator,
    found: list[RequestList],
    weights: Mapping[Any, float] | None,
    ids: Sequence[Any],
    scores: Sequence[float],
) -> Explanation:
    """Return the explanation of these hits, whose items are the caller's ids."""
    from concordant.data.explanation import Explanation, explain

    if not found:
        # All retrievers were silent: there is nothing to explain, and no reason to fail.
        return Explanation("q", [], [], np.zeros((0, 0)), np.zeros(0), np.zeros(0))
    preferences, slots = _preferences(found, weights)
    votes = method._checked(preferences)
    whole = explain(votes, None, lambda own: method._require_additive(method._contributions(own)))
    text_of = dict(zip(slots, preferences.items, strict=True))
    return whole.renamed([text_of[value] for value in ids], ids, scores)
