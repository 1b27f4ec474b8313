"""Ids and integer codes: `Texts` (a column of ids) and `Slots` (the (instance, item) pairs of a container).

A *slot* is one (instance, item), numbered instance by instance in first-seen order. All computation works on slots;
ids are needed only to read data, match containers and write results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from types import MappingProxyType
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Ints
from concordant.errors import NOT_TEXT, DataError, is_text, listing, quote
from concordant.kernels.lists import list_ids, offsets_of, ranges

__all__ = [
    "MOST_WITH_ALL_PAIRS",
    "Slots",
    "Texts",
    "as_ids",
    "check_text",
    "freeze",
    "group_ids",
    "instance_index",
    "code_experts",
    "join_vocabularies",
    "code_slots",
]

# Tables of all pairs of more items than this, such as covariances, are made only on request.
MOST_WITH_ALL_PAIRS = 5000


def freeze(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, read-only."""
    array.flags.writeable = False
    return array


def as_ids(values: Iterable[Any], what: str) -> list[str]:
    """Return ids as text; whole numbers are written out, and any other value is an error that names its row.

    >>> as_ids([3, "b"], "item")
    ['3', 'b']
    """
    if isinstance(values, Texts):
        return values.tolist()
    if isinstance(values, str):
        raise DataError(
            f"the {what} ids must be a sequence of ids, not one text. Got {quote(values)}; did you mean "
            f"[{quote(values)}]?"
        )
    native = getattr(values, "tolist", None) or getattr(values, "to_list", None)
    out = native() if callable(native) else list(values)
    if not set(map(type, out)) <= {str}:
        for i, value in enumerate(out):
            if type(value) is not str:
                out[i] = _id_text(value, what, i)
    check_text(out, what)
    return out


def check_text(ids: Sequence[str], what: str) -> None:
    """Raise DataError if an id is not valid Unicode text, which tables and files cannot hold."""
    together = "".join(ids)
    if not together.isascii() and not is_text(together):
        row = next(i for i, text in enumerate(ids) if not is_text(text))
        raise DataError(f"the {what} id {quote(ids[row])} in row {row} {NOT_TEXT}")


def _id_text(value: Any, what: str, row: int) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)):
        return str(int(value))
    raise DataError(f"the {what} id in row {row} must be text or a whole number. Got {quote(value)} instead.")


class Texts(Sequence[str]):
    """An immutable column of texts.

    The store is a tuple of str, or a column of a dataframe library (any object with `gather`, `to_list` and `clone`),
    which is converted to Python objects only when it is read.

    Examples
    --------
    >>> t = Texts(["a", "b", "c"])
    >>> t[1], t[[2, 0]].tolist(), t == ["a", "b", "c"]
    ('b', ['c', 'a'], True)
    """

    __slots__ = ("__dict__", "_store")
    _store: Any
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Any = ()) -> None:
        if type(values) is list:
            values = tuple(values)
        elif isinstance(values, Texts):
            values = values._store
        elif not hasattr(values, "gather"):
            values = tuple(values)
        object.__setattr__(self, "_store", values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Texts is frozen: {quote(name)} cannot be set.")

    def __reduce__(self) -> tuple[Any, ...]:
        return Texts, (self._store,)

    @property
    def native(self) -> Any:
        """The store: a tuple of str, or a shallow copy of a native column."""
        return self._store if isinstance(self._store, tuple) else self._store.clone()

    def __len__(self) -> int:
        return len(self._store)

    @overload
    def __getitem__(self, key: int) -> str: ...
    @overload
    def __getitem__(self, key: slice | NDArray[Any] | Sequence[int]) -> Texts: ...
    def __getitem__(self, key: Any) -> str | Texts:
        if isinstance(key, slice):
            return Texts(self._store[key])
        if isinstance(key, (int, np.integer)):
            return str(self._store[int(key)])
        index = np.asarray(key)
        return self.take(np.flatnonzero(index) if index.dtype == np.bool_ else index)

    def take(self, index: NDArray[Any]) -> Texts:
        """Return the texts at these positions."""
        store = self._store
        if isinstance(store, tuple):
            return Texts([store[i] for i in index.tolist()])
        return Texts(store.gather(index))

    def tolist(self) -> list[str]:
        """Return the texts as a new list of str."""
        store = self._store
        return list(store) if isinstance(store, tuple) else store.to_list()

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def __contains__(self, value: object) -> bool:
        return value in self.codes

    @cached_property
    def codes(self) -> Mapping[str, int]:
        """The position of every text; of repeated texts the first position."""
        texts = self.tolist()
        out = dict(zip(texts, range(len(texts)), strict=True))
        if len(out) < len(texts):
            out = {}
            for i, text in enumerate(texts):
                out.setdefault(text, i)
        return MappingProxyType(out)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, (Texts, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and self.tolist() == list(other)

    def __repr__(self) -> str:
        return f"Texts({listing(self[:6].tolist(), 6)[:-1]}{', …' if len(self) > 6 else ''}])"

    @staticmethod
    def concat(parts: Sequence[Texts]) -> Texts:
        """Return the columns end to end."""
        if len(parts) == 1:
            return parts[0]
        return Texts([text for part in parts for text in part.tolist()])


def group_ids(ids: Iterable[str]) -> tuple[Codes, Texts]:
    """Return a code for every id, numbered as first seen, and the ids in that order.

    >>> codes, ids = group_ids(["b", "a", "b"])
    >>> codes.tolist(), ids.tolist()
    ([0, 1, 0], ['b', 'a'])
    """
    seen: dict[str, int] = {}
    codes = [seen.setdefault(i, len(seen)) for i in ids]
    return np.array(codes, dtype=np.int32), Texts(list(seen))


def set_frozen_state(owner: Any, state: dict[str, Any]) -> None:
    """Restore a frozen object from its pickle; arrays are made read-only again."""
    owner.__dict__.update(state)
    for value in state.values():
        if isinstance(value, np.ndarray):
            freeze(value)


class Slots:
    """The (instance, item) pairs of a container: instance ids, item ids and the offsets of the instances.

    Parameters
    ----------
    instances : Texts
        N different ids.
    items : Texts
        S ids; those of one instance are adjacent and different.
    offsets : int64[N + 1]
        Instance n has the slots from offsets[n] up to offsets[n + 1], exclusive.

    Examples
    --------
    >>> s = Slots.of({"q1": ["a", "b"], "q2": ["a"]})
    >>> len(s), s.n_slots, s.instance.tolist()
    (2, 3, [0, 0, 1])
    """

    instances: Texts
    items: Texts
    offsets: Ints
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, instances: Texts, items: Texts, offsets: Ints) -> None:
        own = self.__dict__
        own["instances"], own["items"], own["offsets"] = instances, items, freeze(offsets)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Slots is frozen: {quote(name)} cannot be set.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_frozen_state(self, state)

    @classmethod
    def of(cls, items: dict[str, list[str]]) -> Slots:
        """Return the slots of a mapping from instance to its items."""
        offsets = offsets_of(np.array([len(v) for v in items.values()], dtype=np.int64))
        return cls(Texts(list(items)), Texts([i for v in items.values() for i in v]), offsets)

    def __len__(self) -> int:
        return len(self.instances)

    @property
    def n_slots(self) -> int:
        """The number of (instance, item) pairs."""
        return len(self.items)

    @cached_property
    def instance(self) -> Codes:
        """The instance code of every slot."""
        return freeze(list_ids(self.offsets))

    @property
    def sizes(self) -> Ints:
        """The number of items of each instance."""
        return np.diff(self.offsets)

    def where(self, slot: int) -> tuple[str, str]:
        """Return the ids (instance, item) of a slot, for messages."""
        n = int(np.searchsorted(self.offsets, slot, side="right")) - 1
        return self.instances[n], self.items[slot]

    def window(self, first: int, end: int) -> Slots:
        """Return the slots of the instances from `first` up to `end`."""
        a, b = int(self.offsets[first]), int(self.offsets[end])
        return Slots(self.instances[first:end], self.items[a:b], self.offsets[first : end + 1] - a)

    def take(self, index: Ints) -> tuple[Slots, Ints]:
        """Return the slots of these instances, and the old slot behind each new one."""
        starts, ends = self.offsets[index], self.offsets[index + 1]
        old = ranges(starts, ends)
        return Slots(self.instances.take(index), self.items.take(old), offsets_of(ends - starts)), old

    def locate(self, other: Slots) -> Ints:
        """Return for every slot its slot in `other`, matched by ids, -1 if absent; O(S)."""
        if self is other or (self.n_slots == other.n_slots and self == other):
            return np.arange(self.n_slots, dtype=np.int64)
        out = np.full(self.n_slots, -1, dtype=np.int64)
        codes = other.instances.codes
        own_items, other_items = self.items.tolist(), other.items.tolist()
        for n, instance in enumerate(self.instances):
            m = codes.get(instance)
            if m is None:
                continue
            a, b = int(self.offsets[n]), int(self.offsets[n + 1])
            c, d = int(other.offsets[m]), int(other.offsets[m + 1])
            slot_of = dict(zip(other_items[c:d], range(c, d), strict=True))
            out[a:b] = list(map(slot_of.get, own_items[a:b], repeat(-1)))
        return out

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Slots):
            return NotImplemented
        return (
            np.array_equal(self.offsets, other.offsets)
            and self.instances == other.instances
            and self.items == other.items
        )

    @staticmethod
    def concat(parts: Sequence[Slots]) -> tuple[Slots, list[Ints]]:
        """Return the union of the slots, matched by ids in first-seen order, and the new number of every old slot."""
        if sum(len(p) for p in parts) == len({i for p in parts for i in p.instances}):
            sizes = np.concatenate([p.sizes for p in parts])
            first = np.cumsum([0] + [p.n_slots for p in parts])
            merged = Slots(
                Texts.concat([p.instances for p in parts]), Texts.concat([p.items for p in parts]), offsets_of(sizes)
            )
            return merged, [np.arange(p.n_slots, dtype=np.int64) + s for p, s in zip(parts, first, strict=False)]
        table: dict[str, dict[str, int]] = {}
        for part in parts:
            texts = part.items.tolist()
            for n, instance in enumerate(part.instances):
                items = table.setdefault(instance, {})
                for item in texts[int(part.offsets[n]) : int(part.offsets[n + 1])]:
                    items.setdefault(item, len(items))
        offsets = offsets_of(np.array([len(v) for v in table.values()], dtype=np.int64))
        merged = Slots(Texts(list(table)), Texts([i for v in table.values() for i in v]), offsets)
        return merged, [part.locate(merged) for part in parts]


def instance_index(key: Any, slots: Slots) -> Ints:
    """Return instance codes for the key of square brackets: a number, text, slice, mask or array of numbers.

    scikit-learn's splitters pass a pair (key, Ellipsis). An instance named twice is an error, because ids are unique.
    """
    n = len(slots)
    if isinstance(key, tuple):
        if len(key) != 2 or key[1] is not Ellipsis:
            raise DataError(f"a container is a sequence of instances and takes one index. Got {quote(key)} instead.")
        key = key[0]
    if isinstance(key, str):
        code = slots.instances.codes.get(key)
        if code is None:
            raise DataError(f"no instance {quote(key)}. There are {n}: {listing(slots.instances[:10].tolist())}.")
        return np.array([code], dtype=np.int64)
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        if not -n <= key < n:
            raise IndexError(f"instance {key} of a container with {n} instances")
        return np.array([key % n], dtype=np.int64)
    if isinstance(key, slice):
        return np.arange(n, dtype=np.int64)[key]
    index = np.asarray(key)
    if index.ndim == 1 and index.size == 0:
        return np.zeros(0, dtype=np.int64)
    if index.ndim == 1 and index.dtype == np.bool_:
        if len(index) != n:
            raise IndexError(f"a mask of length {len(index)} for a container with {n} instances")
        return np.flatnonzero(index)
    if index.ndim == 1 and index.dtype.kind in "UO" and all(isinstance(k, str) for k in index.tolist()):
        index = np.concatenate([instance_index(k, slots) for k in index.tolist()])
    if index.ndim != 1 or index.dtype.kind not in "iu":
        raise DataError(f"instances are chosen by whole numbers, a mask, a slice or ids. Got {quote(key)} instead.")
    index = index.astype(np.int64)
    outside = (index < -n) | (index >= n)
    if outside.any():
        raise IndexError(f"instance {int(index[outside][0])} of a container with {n} instances")
    index = np.where(index < 0, index + n, index)
    if len(np.unique(index)) < len(index):
        raise DataError("an index holds the same instance twice, and ids must be unique. Name each instance once.")
    return index


def code_slots(
    instance_ids: list[str], item_ids: list[str], items: Iterable[tuple[Any, Any]] | None
) -> tuple[Slots, Codes]:
    """Return the slots in first-seen order (those of `items` first) and the slot of every row."""
    slots_by_instance: dict[str, dict[str, int]] = {}
    if items is not None:
        pairs = list(items)
        for q, i in zip(as_ids([p[0] for p in pairs], "instance"), as_ids([p[1] for p in pairs], "item"), strict=True):
            slots_of = slots_by_instance.setdefault(q, {})
            if i in slots_of:
                raise DataError(f"items= names item {quote(i)} of instance {quote(q)} twice.")
            slots_of[i] = len(slots_of)
    place: list[int] = []
    for q, i in zip(instance_ids, item_ids, strict=True):
        if items is not None and i not in slots_by_instance.get(q, ()):
            raise DataError(
                f"item {quote(i)} is ranked in instance {quote(q)} but not among items=. Name every pair there."
            )
        slots_of = slots_by_instance.setdefault(q, {})
        place.append(slots_of.setdefault(i, len(slots_of)))
    slots = Slots.of({q: list(v) for q, v in slots_by_instance.items()})
    codes = slots.instances.codes
    first = slots.offsets[[codes[q] for q in instance_ids]] if instance_ids else np.zeros(0, np.int64)
    return slots, (first + np.array(place, dtype=np.int64)).astype(np.int32)


def code_experts(expert_ids: list[str], experts: Iterable[Any] | None) -> tuple[Codes, Texts]:
    """Return the code of every row's expert and the vocabulary: as given, else as first seen."""
    if experts is None:
        return group_ids(expert_ids)
    vocabulary = Texts(as_ids(experts, "expert"))
    codes = vocabulary.codes
    if len(codes) < len(vocabulary):
        raise DataError(f"experts= names an expert twice: {listing(vocabulary.tolist(), 20)}.")
    unknown = [e for e in dict.fromkeys(expert_ids) if e not in codes]
    if unknown:
        raise DataError(
            f"experts {listing(unknown)} have rows but are missing from experts= {listing(vocabulary.tolist(), 20)}."
        )
    return np.array([codes[e] for e in expert_ids], dtype=np.int32), vocabulary


def join_vocabularies(vocabularies: Iterable[Texts]) -> tuple[Texts, list[Codes]]:
    """Return the union of several vocabularies, as first seen, and for each the new codes of its entries."""
    codes_of: dict[str, int] = {}
    codes = [np.array([codes_of.setdefault(e, len(codes_of)) for e in own], dtype=np.int32) for own in vocabularies]
    return Texts(list(codes_of)), codes
