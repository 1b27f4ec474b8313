"""Converts Python lists to preferences with a few array calls, without a dataframe or a compiler: the request path."""

from __future__ import annotations

from collections.abc import Iterable, KeysView, Mapping, Set
from typing import Any

import numpy as np

from concordant.arrays import Ints
from concordant.data.duplicates import check_duplicates, duplicate_rows
from concordant.data.index import Slots, Texts, as_ids, check_text
from concordant.data.preferences import KINDS, Kind, Missing, Preferences, is_below
from concordant.errors import DataError, DuplicateError, ParameterError, quote, shorten

__all__ = ["from_lists"]


def from_lists(
    lists: Mapping[Any, Iterable[Any] | Mapping[Any, float]],
    instance: str = "q",
    *,
    kind: Kind | None = None,
    weights: Mapping[Any, float] | None = None,
    duplicates: str = "error",
    missing: Missing = "unknown",
) -> Preferences:
    """Return the preferences of one instance from plain Python lists or mappings, one for each expert.

    Parameters
    ----------
    lists : mapping from expert to list or mapping
        A list holds items, best first, and gives ranks 1, 2, ...; a mapping gives every item a score (larger is
        better). All experts must give the same. An empty list keeps the expert in the vocabulary.
    instance : str
        The id of the instance.
    kind : {"rank", "score", "rating"}, optional
        The kind of the numbers in mappings; "score" by default.
    weights : mapping from expert to float, optional
        Trust given by the user.
    duplicates : {"error", "best", "first"}
        What to do when a list names an item twice: raise, or keep its first place, which is the best. The ranks of
        other items stay.
    missing : {"unknown", "below"}
        Whether items that only other lists name are unknown to a list, or below all items it holds (as in a top-k
        list). Some methods use this.

    Examples
    --------
    >>> p = from_lists({"bm25": ["a", "b"], "dense": ["b", "c"]})
    >>> p
    Preferences: 1 instance, 2 experts, 3 items, 4 ranks in 2 lists
    """
    if not isinstance(lists, Mapping):
        raise DataError(f"give a mapping from expert to list, {{expert: [items]}}. Got {type(lists).__name__} instead.")
    if kind is not None and kind not in KINDS:
        raise ParameterError.invalid("kind", "from_lists", f"one of {', '.join(map(repr, KINDS))}", kind)
    check_duplicates(duplicates, "from_lists")
    slot_of: dict[Any, int] = {}
    setdefault = slot_of.setdefault
    codes: list[int] = []
    values: list[float] = []
    spans: list[int] = []
    owners: list[int] = []
    repeated = False
    scored: bool | None = None
    for e, (expert, ranked) in enumerate(lists.items()):
        has_scores = isinstance(ranked, Mapping)
        if isinstance(ranked, (str, bytes)):
            raise DataError(f"expert {quote(expert)} gives one text, {quote(ranked)}; give a list of items.")
        if isinstance(ranked, Set) and not isinstance(ranked, KeysView):
            raise DataError(
                f"expert {quote(expert)} gives a {type(ranked).__name__}, which has no order; give a list of items, "
                "best first, or a mapping from item to score."
            )
        try:
            items = list(ranked)
            span = [setdefault(item, len(slot_of)) for item in items]
        except TypeError as error:
            raise DataError(
                f"expert {quote(expert)} must give a list of ids or a mapping of scores: {error}."
            ) from None
        if not items:
            continue
        if scored is not None and has_scores != scored:
            raise DataError(
                "some experts give lists and some give scores. Give all of one sort, or join two .to_ranks()."
            )
        scored = has_scores
        repeated = repeated or len(set(span)) < len(span)
        codes += span
        if has_scores:
            values.extend(ranked.values())  # type: ignore[attr-defined]
        spans.append(len(span))
        owners.append(e)
    ids, experts, (instance,) = list(slot_of), as_ids(lists, "expert"), as_ids([instance], "instance")
    if set(map(type, ids)) <= {str}:
        check_text(ids, "item")
    else:
        ids = as_ids(ids, "item")
        if len(set(ids)) < len(ids):
            raise DataError(f"two items of instance {quote(instance)} have the same id once written as text.")
    n = len(codes)
    lengths = np.array(spans, dtype=np.int64)
    offsets = np.zeros(len(spans) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if scored:
        try:
            value = np.array(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"the scores of instance {quote(instance)} must be numbers. Got {shorten(repr(values))}."
            ) from None
        if not np.isfinite(value).all():
            raise DataError(
                f"the score {quote(values[int(np.argmin(np.isfinite(value)))])} in instance {quote(instance)} is not "
                "finite."
            )
    else:
        value = np.arange(1, n + 1, dtype=np.float64) - np.repeat(offsets[:-1], lengths)
        if kind not in (None, "rank") and n:
            raise DataError(f"a list gives ranks; for kind={kind!r} give each expert a mapping from item to number.")
    slots = Slots(Texts([instance]), Texts(ids), np.array([0, len(ids)], dtype=np.int64))
    if len(set(experts)) < len(experts):
        raise DataError(f"two experts of instance {quote(instance)} have the same id once written as text.")
    slot = np.array(codes, dtype=np.int32)
    if repeated:
        row_list = np.repeat(np.arange(len(spans)), lengths)

        def duplicate(first: Ints, again: Ints) -> DuplicateError:
            which = int(np.argmin(again))
            row, repeat = int(first[which]), int(again[which])
            begin, expert = int(offsets[row_list[row]]), experts[owners[row_list[row]]]
            return DuplicateError.twice(expert, ids[slot[row]], instance, row - begin, repeat - begin)

        drop = duplicate_rows(row_list, slot, value, rule=duplicates, smaller_is_better=True, error=duplicate)
        if drop is not None:
            slot, value, offsets = slot[~drop], value[~drop], offsets - np.append(0, np.cumsum(drop))[offsets]
    out = Preferences.from_codes(
        slots,
        Texts(experts),
        np.array(owners, dtype=np.int32),
        offsets,
        np.array([0, len(spans)], dtype=np.int64),
        slot,
        value,
        kind=kind or ("score" if scored else "rank"),
        below=is_below(missing, "from_lists"),
    )
    if kind == "rank" and scored and n and value.min() < 1:
        raise DataError(f"ranks begin at 1 (best). Got {value.min():g} in instance {quote(instance)}.")
    return out if weights is None else out.with_weights(weights)
