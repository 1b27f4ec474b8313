"""Converts Python lists to preferences with a few array calls, without a dataframe or a compiler: the request path."""

from __future__ import annotations

from collections.abc import Iterable, KeysView, Mapping, Sequence, Set
from itertools import accumulate
from typing import Any

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.data.duplicates import check_duplicates, duplicate_rows
from concordant.data.index import Slots, Texts, as_ids, check_text
from concordant.data.preferences import KINDS, Kind, Missing, Preferences, is_below
from concordant.errors import DataError, DuplicateError, ParameterError, quote, shorten

__all__ = ["code_items", "from_lists", "from_runs", "one_instance", "places"]


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
    columns: list[list[Any]] = []
    values: list[float] = []
    owners: list[int] = []
    repeated = False
    scored: bool | None = None
    for e, (expert, ranked) in enumerate(lists.items()):
        # Lists are usual; asking whether a value is of an abstract class takes longer than the rest.
        is_list = type(ranked) is list
        has_scores = not is_list and isinstance(ranked, Mapping)
        if isinstance(ranked, (str, bytes)):
            raise DataError(f"expert {quote(expert)} gives one text, {quote(ranked)}; give a list of items.")
        if not is_list and isinstance(ranked, Set) and not isinstance(ranked, KeysView):
            raise DataError(
                f"expert {quote(expert)} gives a {type(ranked).__name__}, which has no order; give a list of items, "
                "best first, or a mapping from item to score."
            )
        try:
            items = list(ranked)
            repeated = repeated or len(set(items)) < len(items)
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
        columns.append(items)
        if has_scores:
            values.extend(ranked.values())  # type: ignore[attr-defined]
        owners.append(e)
    ids, slot, offsets = code_items(columns)
    experts, (instance,) = as_ids(lists, "expert"), as_ids([instance], "instance")
    if set(map(type, ids)) <= {str}:
        check_text(ids, "item")
    else:
        ids = as_ids(ids, "item")
        if len(set(ids)) < len(ids):
            raise DataError(f"two items of instance {quote(instance)} have the same id once written as text.")
    n = len(slot)
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
        value = places(offsets)
        if kind not in (None, "rank") and n:
            raise DataError(f"a list gives ranks; for kind={kind!r} give each expert a mapping from item to number.")
    if len(set(experts)) < len(experts):
        raise DataError(f"two experts of instance {quote(instance)} have the same id once written as text.")
    if repeated:
        row_list = np.repeat(np.arange(len(columns)), np.diff(offsets))

        def duplicate(first: Ints, again: Ints) -> DuplicateError:
            which = int(np.argmin(again))
            row, repeat = int(first[which]), int(again[which])
            begin, expert = int(offsets[row_list[row]]), experts[owners[row_list[row]]]
            return DuplicateError.twice(expert, ids[slot[row]], instance, row - begin, repeat - begin)

        drop = duplicate_rows(row_list, slot, value, rule=duplicates, smaller_is_better=True, error=duplicate)
        if drop is not None:
            slot, value, offsets = slot[~drop], value[~drop], offsets - np.append(0, np.cumsum(drop))[offsets]
    out = one_instance(
        instance,
        ids,
        experts,
        np.array(owners, dtype=np.int32),
        offsets,
        slot,
        value,
        kind=kind or ("score" if scored else "rank"),
        below=is_below(missing, "from_lists"),
    )
    if kind == "rank" and scored and n and value.min() < 1:
        raise DataError(f"ranks begin at 1 (best). Got {value.min():g} in instance {quote(instance)}.")
    return out if weights is None else out.with_weights(weights)


def from_runs(
    runs: Mapping[Any, Mapping[Any, Mapping[Any, float] | Iterable[Any]]], *, missing: Missing = "below"
) -> Preferences:
    """Return the preferences of many instances from nested dictionaries, as ranx and ir_measures hold runs.

    Parameters
    ----------
    runs : mapping from expert to {instance: {item: score}}
        The runs by name. A list of items, best first, may stand in place of {item: score} in all of them.
    missing : {"below", "unknown"}
        Whether items that a run leaves out are below what it holds, as in `read_runs`, or unknown to it.

    Examples
    --------
    >>> from_runs({"bm25": {"q1": {"d1": 9.5, "d2": 7.0}}, "dense": {"q1": {"d2": 0.8}, "q2": {"d3": 0.4}}})
    Preferences: 2 instances, 2 experts, 3 items, 4 scores in 3 lists
    """
    if not isinstance(runs, Mapping):
        raise DataError(
            f"give the runs by name, {{expert: {{instance: {{item: score}}}}}}. Got {type(runs).__name__} instead."
        )
    instances: list[Any] = []
    experts: list[Any] = []
    items: list[Any] = []
    values: list[Any] = []
    scored = set()
    for expert, by_instance in runs.items():
        if not isinstance(by_instance, Mapping):
            raise DataError(
                f"run {quote(expert)} must be {{instance: {{item: score}}}}. Got {type(by_instance).__name__} instead."
            )
        for instance, ranked in by_instance.items():
            if isinstance(ranked, (str, bytes)) or not isinstance(ranked, Iterable):
                raise DataError(
                    f"run {quote(expert)} must hold {{item: score}} or a list of items for instance "
                    f"{quote(instance)}. Got {quote(ranked)}."
                )
            own = list(ranked)
            scored |= {isinstance(ranked, Mapping)} if own else set()
            instances += [instance] * len(own)
            experts += [expert] * len(own)
            items += own
            values += ranked.values() if isinstance(ranked, Mapping) else range(1, len(own) + 1)
    if len(scored) > 1:
        raise DataError("some runs hold scores and some hold lists. Give all of one sort.")
    kind: Kind = "rank" if scored == {False} else "score"
    return Preferences(instances, experts, items, values, kind=kind, experts=list(runs), missing=missing)


def code_items(columns: Sequence[Sequence[Any]]) -> tuple[list[Any], Codes, Ints]:
    """Return the different items of some lists, as first seen, the number of the item in every row, and the offsets.

    >>> items, slot, offsets = code_items([["b", "a"], ["a", "c"]])
    >>> items, slot.tolist(), offsets.tolist()
    (['b', 'a', 'c'], [0, 1, 1, 2], [0, 2, 4])
    """
    slot_of: dict[Any, int] = {}
    number = slot_of.setdefault
    slots: list[int] = []
    for column in columns:
        slots += [number(item, len(slot_of)) for item in column]
    offsets = np.array([0, *accumulate(map(len, columns))], dtype=np.int64)
    return list(slot_of), np.array(slots, dtype=np.int32), offsets


def places(offsets: Ints) -> Floats:
    """Return 1, 2, ... for the rows of every list."""
    return np.arange(1, offsets[-1] + 1, dtype=np.float64) - np.repeat(offsets[:-1], offsets[1:] - offsets[:-1])


def one_instance(
    instance: str,
    ids: Sequence[str],
    experts: Sequence[str],
    list_expert: Codes,
    offsets: Ints,
    slot: Codes,
    value: Floats,
    *,
    kind: Kind,
    list_weight: Floats | None = None,
    below: bool = False,
) -> Preferences:
    """Return the preferences of one instance from the columns that `code_items` makes; nothing is checked."""
    return Preferences.from_codes(
        Slots(Texts([instance]), Texts(ids), np.array([0, len(ids)], dtype=np.int64)),
        Texts(experts),
        list_expert,
        offsets,
        np.array([0, len(list_expert)], dtype=np.int64),
        slot,
        value,
        kind=kind,
        list_weight=list_weight,
        below=below,
    )
