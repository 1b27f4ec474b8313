"""Reads the lists of one request: ids, pairs of id and score, objects or mappings, as retrievers return them.

Ids stay the caller's own objects. Nothing here needs an array.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, KeysView, Mapping, Sequence, Set
from math import isfinite
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from concordant.data.hits import Hits
from concordant.errors import DataError, DuplicateError, ParameterError, listing, quote

__all__ = ["Getter", "RequestList", "check_names", "read_lists"]

# How to get the id or the score of an object: a function, the name of an attribute or of a key, or a position.
Getter = Callable[[Any], Any] | str | int

# Types of ids that are neither pairs nor missing.
_USUAL = frozenset({str, int})


class RequestList(NamedTuple):
    """What one retriever returned, without duplicates.

    Attributes
    ----------
    name : str or int
        The caller's name of the list.
    ids : list
        The caller's ids, no two equal: best first, or in any order with scores.
    scores : list of float or None
        Larger is better.
    items : list or None
        The objects behind the ids.
    """

    name: Any
    ids: list[Any]
    scores: list[float] | None = None
    items: list[Any] | None = None

    def take(self, rows: Sequence[int]) -> RequestList:
        """Return these rows."""
        ids, scores, items = self.ids, self.scores, self.items
        return RequestList(
            self.name,
            [ids[r] for r in rows],
            None if scores is None else [scores[r] for r in rows],
            None if items is None else [items[r] for r in rows],
        )

    def best_first(self) -> list[int]:
        """Return the rows, best first; equal scores in input order."""
        scores = self.scores
        rows = list(range(len(self.ids)))
        return rows if scores is None else sorted(rows, key=scores.__getitem__, reverse=True)


def read_lists(
    lists: Mapping[Any, Any],
    *,
    key: Getter | None = None,
    score: Getter | None = None,
    duplicates: str = "best",
    smaller_is_better: Collection[Any] = (),
    least: Mapping[Any, float] | None = None,
    depth: int | None = None,
) -> list[RequestList]:
    """Return the lists that hold something, in the order of the mapping.

    Parameters
    ----------
    lists, key, score, duplicates, smaller_is_better, depth
        As in `fuse`.
    least : mapping from name to float, optional
        The lowest score that counts in a list; the largest one where smaller is better.
    """
    out = []
    plain = key is None and not smaller_is_better and not least and depth is None
    for name, given in lists.items():
        if given is None:
            continue
        if plain and type(given) is list and _are_distinct_ids(given):
            # The usual case, which needs nothing of what follows.
            if given:
                out.append(RequestList(name, given))
            continue
        found = _read(name, given, key, score)
        if not found.ids:
            continue
        if found.scores is not None and name in smaller_is_better:
            found = found._replace(scores=[-s for s in found.scores])
        if (name in smaller_is_better or (least and name in least)) and found.scores is None:
            raise DataError(
                f"list {quote(name)} has no scores, and smaller_is_better= or threshold= is about its scores. Give "
                "pairs of id and score, {id: score}, or score=."
            )
        found = _unique(found, duplicates)
        if least and name in least and found.scores is not None:
            limit = -least[name] if name in smaller_is_better else least[name]
            if min(found.scores) < limit:
                found = found.take([r for r, s in enumerate(found.scores) if s >= limit])
        if depth is not None and len(found.ids) > depth:
            found = found.take(sorted(found.best_first()[:depth]))
        if found.ids:
            out.append(found)
    scored = [found.scores is not None for found in out]
    if True in scored and False in scored:
        with_scores, without = out[scored.index(True)].name, out[scored.index(False)].name
        raise DataError(
            f"list {quote(with_scores)} has scores and list {quote(without)} has none. Give all lists scores, or only "
            "ids, best first."
        )
    return out


def check_names(names: Iterable[Any], lists: Mapping[Any, Any], what: str) -> None:
    """Raise ParameterError for a name that is no list of the call but nearly the name of one: a misspelling.

    The name of a list that is absent is no error. A list that is named itself has no misspelling.
    """
    named = set(names)
    strange = [name for name in named if name not in lists]
    if not strange:
        return
    from difflib import get_close_matches

    free = {str(name).casefold(): name for name in lists if name not in named}
    for name in strange:
        if near := get_close_matches(str(name).casefold(), free, n=1, cutoff=0.75):
            meant = free[near[0]]
            raise ParameterError(
                f"{what} names {quote(name)}, which is no list of this call. Did you mean {quote(meant)}? If both "
                f"names are right, name {quote(meant)} in {what} too. Lists: {listing(lists, 20)}."
            )


def _read(name: Any, given: Any, key: Getter | None, score: Getter | None) -> RequestList:
    if isinstance(given, Mapping):
        return RequestList(name, _ids(name, given), _numbers(name, list(given), list(given.values())))
    if isinstance(given, Hits):
        return RequestList(name, given.ids, given.scores, [hit.item for hit in given] if key is not None else None)
    if isinstance(given, (str, bytes)):
        raise DataError(f"list {quote(name)} is one text, {quote(given)}. Give a list of ids, best first.")
    if isinstance(given, Set) and not isinstance(given, KeysView):
        raise DataError(
            f"list {quote(name)} is a {type(given).__name__}, which has no order. Give a list of ids, best first, or "
            "{id: score}."
        )
    # Columns of arrays and dataframes give plain numbers.
    native = getattr(given, "tolist", None) or getattr(given, "to_list", None)
    try:
        entries = given if type(given) is list else native() if callable(native) else list(given)
    except TypeError:
        raise DataError(
            f"list {quote(name)} is a {type(given).__name__}. Give a list of ids, best first, of pairs of id and "
            "score, of objects with key=, or {id: score}."
        ) from None
    if key is not None:
        ids = _ids(name, _values(name, entries, key, "key"))
        scores = None if score is None else _numbers(name, ids, _values(name, entries, score, "score"))
        return RequestList(name, ids, scores, entries)
    kinds = set(map(type, entries))
    if any(issubclass(kind, (tuple, list)) for kind in kinds) and _are_pairs(name, entries):
        ids = _ids(name, [entry[0] for entry in entries])
        return RequestList(name, ids, _numbers(name, ids, [entry[1] for entry in entries]))
    return RequestList(name, _ids(name, entries))


def _are_distinct_ids(entries: list[Any]) -> bool:
    """Return whether the entries are ids of the most usual types, no two equal."""
    return _USUAL.issuperset(map(type, entries)) and len(set(entries)) == len(entries)


def _are_pairs(name: Any, entries: list[Any]) -> bool:
    """Return whether the entries are pairs of id and score, not ids; raise where that cannot be told."""
    if (
        set(map(type, entries)) == {tuple}
        and set(map(len, entries)) == {2}
        and {type(e[1]) for e in entries} == {float}
    ):
        return True
    pairs = [_is_pair(entry) for entry in entries]
    if not any(pairs):
        return False
    if not all(pairs):
        odd = entries[pairs.index(False)]
        raise DataError(
            f"list {quote(name)} mixes pairs of id and score, such as {quote(entries[pairs.index(True)])}, with "
            f"{quote(odd)}. Give pairs or ids. For ids that are tuples pass key=tuple."
        )
    if any(isinstance(entry, list) or not isinstance(entry[1], int) for entry in entries):
        return True
    raise DataError(
        f"list {quote(name)} holds tuples such as {quote(entries[0])}, which may be ids, or pairs of id and score. "
        "Pass key=tuple if they are ids, or key=0, score=1 if they are pairs."
    )


def _is_pair(entry: Any) -> bool:
    if not isinstance(entry, (tuple, list)) or len(entry) != 2:
        return False
    value = entry[1]
    return not isinstance(value, (str, bytes, bool)) and hasattr(value, "__float__")


def _ids(name: Any, ids: Iterable[Any]) -> list[Any]:
    """Return the ids, or raise if one is missing, cannot be hashed or is an object that only equals itself."""
    out = ids if type(ids) is list else list(ids)
    try:
        if None not in set(out) and not any(map(_may_equal_nothing, set(map(type, out)))):
            return out
    except TypeError:
        pass
    for row, value in enumerate(out):
        if value is None or (isinstance(value, float) and value != value):
            raise DataError(f"the id in row {row} of list {quote(name)} is {value}.")
        try:
            hash(value)
        except TypeError:
            raise DataError(
                f"the id in row {row} of list {quote(name)} cannot be an id: {type(value).__name__} is not hashable. "
                "For objects or dictionaries pass key=, such as key='id'."
            ) from None
        if _has_identity_hash(type(value)):
            raise DataError(
                f"the id in row {row} of list {quote(name)} is an object of {type(value).__name__}, which equals "
                "nothing but itself, so lists would not agree on it. Pass key=, such as key='id'."
            )
    return out


def _may_equal_nothing(kind: type) -> bool:
    """Return whether an object of a type may equal no other: one without an equality of its own, or NaN."""
    return issubclass(kind, float) or _has_identity_hash(kind)


def _has_identity_hash(kind: type) -> bool:
    """Return whether an object of a type equals nothing but itself."""
    return getattr(kind, "__hash__") is getattr(object, "__hash__")  # noqa: B009 - mypy takes the two for different


def _values(name: Any, entries: list[Any], getter: Getter, what: str) -> list[Any]:
    """Return what the getter finds in every object."""
    if callable(getter):
        find: Callable[[Any], Any] = getter
    elif isinstance(getter, (str, int)) and not isinstance(getter, bool):
        by_key = isinstance(getter, int) or (bool(entries) and isinstance(entries[0], Mapping))
        find = itemgetter(getter) if by_key else attrgetter(str(getter))
    else:
        allowed = "a function, the name of an attribute or of a key, or a position"
        raise ParameterError.invalid(what, "fuse", allowed, getter)
    try:
        return [find(entry) for entry in entries]
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        if callable(getter):
            raise
        raise DataError(
            f"{what}={getter!r} finds nothing in an object of list {quote(name)}: {type(error).__name__}: {error}."
        ) from None


def _numbers(name: Any, ids: Sequence[Any], values: list[Any]) -> list[float]:
    """Return the scores as floats, or raise if one is no finite number."""
    if set(map(type, values)) == {float} and all(map(isfinite, values)):
        return values
    out = []
    for row, value in enumerate(values):
        try:
            if isinstance(value, (str, bytes, bool)):
                raise TypeError
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = float("nan")
        if not isfinite(number):
            raise DataError(
                f"the score of {quote(ids[row])} in list {quote(name)} must be a finite number. Got {quote(value)}."
            )
        out.append(number)
    return out


def _unique(found: RequestList, duplicates: str) -> RequestList:
    """Return the list with every id once, at its best place."""
    ids, scores = found.ids, found.scores
    if len(set(ids)) == len(ids):
        return found
    best: dict[Any, int] = {}
    for row, value in enumerate(ids):
        at = best.setdefault(value, row)
        if at == row:
            continue
        if duplicates == "error":
            raise DuplicateError(
                f"list {quote(found.name)} holds {quote(value)} twice ({DuplicateError.places(at, row)}). Pass "
                f"duplicates='best' to keep the better."
            )
        if scores is not None and scores[row] > scores[at]:
            best[value] = row
    return found.take(sorted(best.values()))
