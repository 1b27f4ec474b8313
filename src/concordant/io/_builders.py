"""Typed columns to containers, with every complaint naming the row, or the file and line, that it is about.

Whatever a table came from, it arrives here as Polars columns under Concordant's own names; null stands for what is
not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from concordant.arrays import Bools, Codes, Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.features import Features
from concordant.data.index import Slots, Texts
from concordant.data.labels import Labels
from concordant.data.preferences import MISSING, Kind, Preferences
from concordant.errors import (
    ConcordantError,
    DataError,
    DataWarning,
    DuplicateError,
    ParameterError,
    ParseError,
    quote,
    shorten,
    warn,
)
from concordant.io._dictionary_encoding import RowSource, check_duplicates, encode_slots, factorize, hash_expressions
from concordant.io._tables import Table, is_number

__all__ = [
    "MISSING_WORDS",
    "ONE_EXPERT",
    "ONE_INSTANCE",
    "FileSource",
    "FrameSource",
    "JoinedSource",
    "build_comparisons",
    "build_consensus",
    "build_features",
    "build_labels",
    "build_preferences",
    "checked_preferences",
    "checked_weights",
    "collect_missing",
    "id_texts",
    "name_file",
    "parse_numbers",
]

# How tables write that a value is not there.
MISSING_WORDS = ("", "NA", "N/A", "NaN", "NULL", "None")
_ODD_NAMES = sorted({form for w in MISSING_WORDS if w for form in (w, w.lower(), w.upper(), w.capitalize())})
# What an instance is called when the data names none, and an expert.
ONE_INSTANCE = "all"
ONE_EXPERT = "1"
# With fewer rows of comparisons the compiler is not waited for.
_MANY_ROWS = 1 << 20


@dataclass(frozen=True)
class FrameSource(RowSource):
    """The rows of a dataframe, named by their number."""

    def error(self, row: int, message: str) -> ConcordantError:
        """Return the error about one row."""
        return DataError(f"row {self.place(row)}: {message}")


@dataclass(frozen=True)
class FileSource(FrameSource):
    """The rows of a table file, named by file and line, which are looked up when somebody asks."""

    table: Table | None = None
    row_numbers: Ints | range | None = None

    def file(self) -> Table:
        """Return the table the rows are of."""
        if self.table is None:
            raise DataError("rows of no file")
        return self.table

    def light(self) -> FileSource:
        """Return the same without a number for every row, where rows follow one another."""
        row_numbers = self.row_numbers
        if row_numbers is None or not len(row_numbers) or int(row_numbers[-1] - row_numbers[0]) != len(row_numbers) - 1:
            return self
        return replace(self, row_numbers=None, first=int(row_numbers[0]))

    def _of(self, row: int) -> tuple[Table, int]:
        return self.file(), self.first + row if self.row_numbers is None else int(self.row_numbers[row])

    def place(self, row: int) -> str:
        """Return file:line, or file and row where the file has no lines."""
        table, number = self._of(row)
        line = table.line(number)
        return f"{table.path}:{line}" if line is not None else f"{table.path} row {number}"

    def error(self, row: int, message: str) -> ConcordantError:
        """Return the error about one row."""
        table, number = self._of(row)
        return table.error(number, message)


@dataclass(frozen=True)
class JoinedSource(FrameSource):
    """The rows of several tables, one after the other."""

    parts: tuple[FrameSource, ...] = ()
    starts: tuple[int, ...] = ()

    def _of(self, row: int) -> tuple[FrameSource, int]:
        part = int(np.searchsorted(self.starts, row, side="right")) - 1
        return self.parts[part], row - self.starts[part]

    def place(self, row: int) -> int | str:
        """Return where the row of its own table stood."""
        part, number = self._of(row)
        return part.place(number)

    def error(self, row: int, message: str) -> ConcordantError:
        """Return the error about one row."""
        part, number = self._of(row)
        return part.error(number, message)


def id_texts(column: pl.Series, what: str, source: FrameSource, *, optional: Any = None) -> pl.Series:
    """Return a column of ids as text.

    Whole numbers are written out, floats too if they are whole. Null is an error naming the row, except where
    `optional` (a mask) allows it.
    """
    dtype = column.dtype
    if dtype.is_float():
        broken = (column.is_not_null() & column.is_not_nan() & ~(column.round() == column)).fill_null(False)
        if broken.any():
            row = int(broken.arg_true()[0])
            raise source.error(row, f"the {what} id must be text or a whole number, found {quote(column[row])}.")
        column = column.fill_nan(None).cast(pl.Int64, strict=False)
    elif dtype == pl.Object or not (
        dtype.is_integer() or dtype in (pl.String, pl.Null) or isinstance(dtype, (pl.Categorical, pl.Enum))
    ):
        row = int(column.is_not_null().arg_true()[0]) if column.null_count() < len(column) else 0
        raise source.error(
            row, f"the {what} id must be text or a whole number, found {quote(column[row])} of type {dtype}."
        )
    column = column.cast(pl.String)
    missing = column.is_null()
    if missing.any():
        wrong = missing if optional is None else missing & ~pl.Series(optional)
        if wrong.any():
            raise source.error(int(wrong.arg_true()[0]), f"the {what} id is missing. Fill it in, or leave the row out.")
    return column


def warn_odd_ids(columns: Mapping[str, pl.Series], source: FrameSource) -> None:
    """Warn of ids that are written as a missing value often is: they are names like any other."""
    for what, column in columns.items():
        at = column.is_in(_ODD_NAMES).fill_null(False).arg_true()
        if len(at):
            row = int(at[0])
            place = source.place(row)
            where = place if isinstance(place, str) else f"row {place}"
            warn(
                f"{where}: the {what} {quote(column[row])} is taken for a name, in {len(at):,} rows in all. If it "
                "stands for a missing value, leave these rows out.",
                DataWarning,
            )


def parse_numbers(
    column: pl.Series, what: str, source: FrameSource, missing: Sequence[str] = MISSING_WORDS, *, finite: bool = True
) -> pl.Series:
    """Return a column as float64, null where there is no value; anything else that is not finite is an error."""
    if column.dtype == pl.String:
        return _parsed(column, what, source, missing, finite)
    if column.dtype.is_float():
        # Nothing is copied unless there is something to change.
        column = column.fill_nan(None) if column.is_nan().any() else column
    elif not (column.dtype.is_integer() or column.dtype.is_decimal() or column.dtype in (pl.Boolean, pl.Null)):
        row = int(column.is_not_null().arg_true()[0]) if column.null_count() < len(column) else 0
        raise source.error(row, f"the {what} must be a number, found {quote(column[row])} of type {column.dtype}.")
    out = column.cast(pl.Float64, strict=False)
    bad = column.is_not_null() & ~(out.is_finite() if finite else out.is_not_nan()).fill_null(False)
    if bad.any():
        raise _no_number(column, int(bad.arg_true()[0]), what, source, finite)
    return out


def _parsed(column: pl.Series, what: str, source: FrameSource, missing: Sequence[str], finite: bool) -> pl.Series:
    """Return numbers written as text; only what is not plainly a number is compared with the words for nothing."""
    out = column.cast(pl.Float64, strict=False)
    words = [w.casefold() for w in missing]
    odd = ~out.is_finite().fill_null(False)
    numeric = [float(w) for w in words if is_number(w)]
    if numeric:
        odd = odd | out.is_in(numeric).fill_null(False)
    at = odd.arg_true()
    if not len(at):
        return out
    # In a Parquet file text keeps the blanks around it.
    texts = column.gather(at).str.strip_chars()
    values = texts.cast(pl.Float64, strict=False)
    nothing = texts.str.to_lowercase().is_in(words).fill_null(True)
    bad = ~nothing & ~(values.is_finite() if finite else values.is_not_nan()).fill_null(False)
    if bad.any():
        raise _no_number(column, int(at[int(bad.arg_true()[0])]), what, source, finite)
    return out.scatter(at, values.set(nothing, None))


def _no_number(column: pl.Series, row: int, what: str, source: FrameSource, finite: bool) -> ConcordantError:
    found = shorten(str(column[row]))
    return source.error(row, f"the {what} must be a{' finite' if finite else ''} number, found {quote(found)}.")


def _filled(column: pl.Series, what: str, source: FrameSource) -> Floats:
    """Return a column of numbers none of which may be missing."""
    if column.null_count():
        raise source.error(int(column.is_null().arg_true()[0]), f"the {what} is missing.")
    return column.to_numpy().astype(np.float64, copy=True)


def build_preferences(
    frame: pl.DataFrame, kind: Kind, source: FrameSource, *, duplicates: str = "error", below: bool = False
) -> Preferences:
    """Return preferences from the columns instance, expert, item, value and, optionally, weight and missing.

    A null value means that the item is known and not ranked by this expert; the expert may then be null too.
    """
    check_duplicates(duplicates, "a reader")
    checked = checked_preferences(frame, kind, source)
    value, expert = checked["value"], checked["expert"]
    unranked = value.is_null()
    slots, slot = encode_slots(checked.select("instance", "item"))
    experts, code = Texts(), np.zeros(len(slot), dtype=np.int32)
    if expert.null_count() < len(expert):
        # A row without an expert has no value and is left out below; until then it may go by its neighbour's name.
        code, vocabulary = factorize(expert.fill_null(strategy="forward").fill_null(strategy="backward"))
        experts = Texts(vocabulary.to_list())
    used = np.flatnonzero(~unranked.to_numpy())
    key = slots.instance[slot[used]].astype(np.int64) * max(len(experts), 1) + code[used]
    order = used[_stable_order(key)]
    order = _without_repetitions(order, slots, slot, experts, code, value.to_numpy(), kind, source, duplicates)
    instance_of, expert_of = slots.instance[slot[order]], code[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (instance_of[1:] != instance_of[:-1]) | (expert_of[1:] != expert_of[:-1])
    starts = np.flatnonzero(new)
    weight = None
    if "weight" in frame.columns:
        weight = _list_weights(
            parse_numbers(frame["weight"], "weight", source), order, starts, slots, slot, experts, code, source
        )
    return Preferences.from_codes(
        slots,
        experts,
        expert_of[starts],
        np.append(starts, len(order)).astype(np.int64),
        np.searchsorted(instance_of[starts], np.arange(len(slots) + 1)).astype(np.int64),
        slot[order],
        value.to_numpy()[order],
        kind=kind,
        list_weight=weight,
        below=below if "missing" not in frame.columns else _below(frame, checked, slots, source),
    )


def collect_missing(frame: pl.DataFrame, checked: pl.DataFrame, source: FrameSource, known: dict[str, bool]) -> None:
    """Note in `known` of which instances the column "missing" declares items left out to be below, null: it does not.

    It must be one for all rows of an instance.
    """
    word = frame["missing"].cast(pl.String).fill_null(MISSING[0])
    wrong = ~word.is_in(MISSING)
    if wrong.any():
        row = int(wrong.arg_true()[0])
        raise source.error(
            row,
            "the column 'missing' says whether items that a list leaves out are 'unknown' or 'below'; found "
            f"{quote(str(word[row]))}. Pass missing='unknown' to declare it for all and let the column be.",
        )
    each = pl.DataFrame({"instance": checked["instance"], "missing": word}).with_row_index("row")
    first = each.unique(["instance", "missing"], keep="first", maintain_order=True)
    for row, instance, said in first.iter_rows():
        if known.setdefault(instance, said == "below") != (said == "below"):
            raise source.error(
                row, f"instance {quote(instance)} is declared missing={said!r} here, and otherwise before."
            )


def _below(frame: pl.DataFrame, checked: pl.DataFrame, slots: Slots, source: FrameSource) -> Bools:
    known: dict[str, bool] = {}
    collect_missing(frame, checked, source, known)
    return np.array([known[instance] for instance in slots.instances], dtype=np.bool_)


def checked_preferences(frame: pl.DataFrame, kind: Kind, source: FrameSource) -> pl.DataFrame:
    """Return the columns with ids as text and values as numbers, or raise at the first row that cannot be."""
    value = parse_numbers(frame["value"], kind, source)
    instance = id_texts(frame["instance"], "instance", source)
    expert = id_texts(frame["expert"], "expert", source, optional=value.is_null())
    item = id_texts(frame["item"], "item", source)
    warn_odd_ids({"expert": expert, "item": item}, source)
    if kind == "rank" and (value < 1).any():
        row = int((value < 1).arg_true()[0])
        raise source.error(
            row,
            f"ranks begin at 1 (best). Got {value[row]:g} for item {quote(item[row])} by expert {quote(expert[row])}. "
            "Leave out what is not ranked; where larger is better, say kind='score'.",
        )
    out = pl.DataFrame({"instance": instance, "expert": expert, "item": item, "value": value})
    return out.with_columns(frame["weight"]) if "weight" in frame.columns else out


def checked_weights(column: pl.Series, source: FrameSource) -> Floats:
    """Return weights none of which is missing or below 0, or raise at the first row that has one."""
    weight = parse_numbers(column, "weight", source).fill_null(np.nan).to_numpy()
    wrong = np.flatnonzero(~(weight >= 0))
    if len(wrong):
        row = int(wrong[0])
        found = "it is missing" if column[row] is None else f"found {quote(column[row])}"
        raise source.error(row, f"the weight must be a finite number >= 0; {found}.")
    return weight


def _stable_order(key: Ints) -> Ints:
    """Return the stable order of non-negative integers; one sort of key and row in one number where they fit."""
    n = len(key)
    if n < 2 or not (key[1:] < key[:-1]).any():
        return np.arange(n, dtype=np.int64)
    if int(key.max()) >= 2**31:
        return np.argsort(key, kind="stable")
    packed = key << 32
    packed |= np.arange(n, dtype=np.int64)
    packed.sort()
    packed &= 0xFFFFFFFF
    return packed


def _without_repetitions(
    order: Ints,
    slots: Slots,
    slot: Codes,
    experts: Texts,
    expert: Codes,
    value: Floats,
    kind: Kind,
    source: FrameSource,
    duplicates: str,
) -> Ints:
    """Return the rows, list by list, without those in which an expert ranks an item once more, or raise."""
    cell = expert[order].astype(np.int64) << 32
    cell |= slot[order]
    in_order = np.sort(cell)
    twice = in_order[1:] == in_order[:-1]
    if not twice.any():
        return order
    at = np.flatnonzero(np.isin(cell, in_order[1:][twice]))
    row = order[at]
    if duplicates == "error":
        by_cell = np.lexsort((row, cell[at]))
        row, cell = row[by_cell], cell[at][by_cell]
        again = np.flatnonzero(cell[1:] == cell[:-1]) + 1
        second = int(again[np.argmin(row[again])])
        first_row, row_again = int(row[second - 1]), int(row[second])
        instance, item = slots.where(int(slot[row_again]))
        name = experts[int(expert[row_again])]
        raise DuplicateError.twice(name, item, instance, source.place(first_row), source.place(row_again))
    worth = row.astype(np.float64) if duplicates == "first" else value[row] if kind == "rank" else -value[row]
    by_cell = np.lexsort((row, worth, cell[at]))
    drop = np.zeros(len(order), dtype=np.bool_)
    drop[at[by_cell[1:]]] = cell[at][by_cell][1:] == cell[at][by_cell][:-1]
    return order[~drop]


def _list_weights(
    column: pl.Series,
    order: Ints,
    starts: Ints,
    slots: Slots,
    slot: Codes,
    experts: Texts,
    expert: Codes,
    source: FrameSource,
) -> Floats:
    """Return the weight of every list, on which all its rows must agree."""
    weight = column.fill_null(np.nan).to_numpy()[order]
    wrong = np.flatnonzero(~(weight >= 0))
    if len(wrong):
        row = int(order[wrong[0]])
        found = "it is missing" if column[row] is None else f"found {column[row]:g}"
        raise source.error(row, f"the weight must be a finite number >= 0; {found}.")
    out = np.asarray(weight[starts], dtype=np.float64)
    differs = np.flatnonzero(weight != np.repeat(out, np.diff(starts, append=len(order))))
    if len(differs):
        row = int(order[differs[0]])
        name, instance = experts[int(expert[row])], slots.where(int(slot[row]))[0]
        raise source.error(
            row,
            f"expert {quote(name)} has two weights in instance {quote(instance)}. A weight is for the whole list; "
            "give one.",
        )
    return out


def build_comparisons(
    frame: pl.DataFrame, source: FrameSource, *, sided: bool = True, self_pairs: str = "error", experts: bool = True
) -> Comparisons:
    """Return comparisons from the columns instance, left, right, the three counts and, optionally, expert and weight.

    A row without a right item and without counts makes the left item known. Without `experts` it is only checked that
    every row has one.
    """
    if self_pairs not in ("error", "drop"):
        raise ParameterError.invalid("self_pairs", "a reader of comparisons", "'error' or 'drop'", self_pairs)
    names = ("n_left", "n_right", "n_ties")
    columns = {name: parse_numbers(frame[name], name, source) for name in names if name in frame.columns}
    alone = frame["right"].is_null()
    for column in columns.values():
        alone = alone & column.is_null()
    instance = id_texts(frame["instance"], "instance", source)
    left = id_texts(frame["left"], "left item", source)
    right = id_texts(frame["right"], "right item", source, optional=alone)
    warn_odd_ids({"left item": left, "right item": right}, source)
    same = (left == right).fill_null(False)
    if same.any() and self_pairs == "error":
        row = int(same.arg_true()[0])
        raise source.error(
            row, f"item {quote(left[row])} is compared with itself. Pass self_pairs='drop' to leave such rows out."
        )
    counted = (~(alone | same)).to_numpy()
    slots, left_slot, right_slot = _pair_slots(instance, left, right.set(alone, None))
    counts = [_counts(columns.get(name), name, counted, source) for name in names]
    if "weight" in frame.columns:
        weight = _counts(parse_numbers(frame["weight"], "weight", source), "weight", counted, source)
        counts = [c * weight for c in counts]
    expert, known = None, Texts()
    if "expert" in frame.columns:
        named = id_texts(frame["expert"], "expert", source, optional=~counted)
        warn_odd_ids({"expert": named}, source)
        if experts:
            expert, vocabulary = factorize(named.filter(pl.Series(counted)))
            known = Texts(vocabulary.to_list())
    kept = np.flatnonzero(counted)
    order = np.argsort(slots.instance[left_slot[kept]], kind="stable") if len(kept) else kept
    at = kept[order]
    a, b = left_slot[at], right_slot[at]
    n_left, n_right, n_ties = (c[at] for c in counts)
    if not sided:
        flip = a > b
        a, b = np.where(flip, b, a), np.where(flip, a, b)
        n_left, n_right = np.where(flip, n_right, n_left), np.where(flip, n_left, n_right)
    return Comparisons.from_codes(
        slots, known, None if expert is None else expert[order], a, b, n_left, n_right, n_ties, sided=sided
    )


def _pair_slots(instance: pl.Series, left: pl.Series, right: pl.Series) -> tuple[Slots, Codes, Codes]:
    """Return the slots, items numbered as met row by row, left first, and both slots of every row (-1 for no item)."""
    n = len(instance)
    if n >= _MANY_ROWS and not right.null_count() and bool((instance == instance[0]).all()):
        # In one instance every text is looked up in one table, quicker than rows are put in order.
        from concordant.kernels.numbering import number_pairs

        both = pl.concat([left.alias("item"), right.alias("item")]).to_frame()
        h1, h2 = both.select(*hash_expressions()).get_columns()
        codes, first = number_pairs(h1.to_numpy(), h2.to_numpy())
        items = both["item"].gather(first)
        slots, _ = encode_slots(
            pl.DataFrame({"instance": instance.gather(np.zeros(len(items), np.int64)), "item": items})
        )
        return slots, codes[:n].copy(), codes[n:].copy()
    turns = np.arange(n).repeat(2)
    instances = instance.gather(turns)
    turns[1::2] += n
    items = pl.concat([left.alias("item"), right.alias("item")]).gather(turns)
    both = pl.DataFrame({"instance": instances, "item": items})
    there = both["item"].is_not_null()
    slots, found = encode_slots(both.filter(there))
    slot = np.full(2 * n, -1, dtype=np.int32)
    slot[there.to_numpy()] = found
    return slots, slot[0::2].copy(), slot[1::2].copy()


def _counts(column: pl.Series | None, what: str, counted: Any, source: FrameSource) -> Floats:
    """Return counts >= 0; a column that is not there counts nothing."""
    if column is None:
        return np.zeros(len(counted))
    wrong = (column.is_null() | (column < 0)) & pl.Series(counted)
    if wrong.any():
        row = int(wrong.arg_true()[0])
        raise source.error(row, f"{what} must be a number >= 0, found {column[row]}.")
    return column.fill_null(0.0).to_numpy().astype(np.float64, copy=True)


def _once(
    instance: pl.Series, item: pl.Series, what: str, source: FrameSource, keep: Any = None
) -> tuple[Slots, Codes, Ints]:
    """Return slots, the slot of every row, and the row that fills each slot; `keep` judges repetitions."""
    slots, slot = encode_slots(pl.DataFrame({"instance": instance, "item": item}))
    fill = np.empty(slots.n_slots, dtype=np.int64)
    fill[slot[::-1]] = np.arange(len(slot))[::-1]
    if slots.n_slots < len(slot):
        again = np.flatnonzero(fill[slot] != np.arange(len(slot)))
        if keep is None:
            row = int(again[0])
            q, i = slots.where(int(slot[row]))
            first = source.place(int(fill[slot[row]]))
            places = (
                f"rows {first} and {source.place(row)}"
                if isinstance(first, int)
                else f"{first} and {source.place(row)}"
            )
            raise DuplicateError(f"item {quote(i)} of instance {quote(q)} has two {what} ({places}). Keep one.")
        fill = keep(slots, slot, fill, again)
    return slots, slot, fill


def build_labels(frame: pl.DataFrame, source: FrameSource, *, duplicates: str = "error") -> Labels:
    """Return labels from the columns instance, item, label; a null label means that the item is known and unlabelled.

    An item that comes twice with one label counts once.
    """
    check_duplicates(duplicates, "a reader of labels")
    label = parse_numbers(frame["label"], "label", source).fill_null(np.nan).to_numpy()

    def keep(slots: Slots, slot: Codes, fill: Ints, again: Ints) -> Ints:
        if duplicates == "best":
            order = np.lexsort((np.arange(len(slot)), -np.nan_to_num(label, nan=-np.inf), slot))
            return order[np.flatnonzero(np.diff(slot[order], prepend=-1) != 0)]
        first, second = label[fill[slot[again]]], label[again]
        differ = ~((first == second) | (np.isnan(first) & np.isnan(second)))
        if differ.any() and duplicates == "error":
            row = int(again[differ][0])
            before = int(fill[slot[row]])
            q, i = slots.where(int(slot[row]))
            places = [source.place(before), source.place(row)]
            raise DuplicateError(
                f"item {quote(i)} of instance {quote(q)} has two labels, {label[before]:g} and {label[row]:g} "
                f"({'rows ' if isinstance(places[0], int) else ''}{places[0]} and {places[1]}). "
                'Keep one, or pass duplicates="best" for the larger.'
            )
        return fill

    slots, _, fill = _once(
        id_texts(frame["instance"], "instance", source), id_texts(frame["item"], "item", source), "labels", source, keep
    )
    return Labels.from_codes(slots, label[fill])


def build_features(frame: pl.DataFrame, columns: Mapping[str, str], source: FrameSource) -> Features:
    """Return features from the columns instance, item and the others given, each with the name of its feature."""
    if not columns:
        raise DataError("there are no feature columns beside instance and item.")
    slots, _, fill = _once(
        id_texts(frame["instance"], "instance", source), id_texts(frame["item"], "item", source), "feature rows", source
    )
    values = [
        _filled(parse_numbers(frame[c], f"feature {quote(name)}", source), f"feature {quote(name)}", source)
        for c, name in columns.items()
    ]
    return Features.from_codes(slots, np.column_stack(values)[fill], Texts(list(columns.values())))


def build_consensus(frame: pl.DataFrame, source: FrameSource) -> Consensus:
    """Return a consensus from the columns instance, item, score and those of rank and intervals that are there."""
    slots, _, fill = _once(
        id_texts(frame["instance"], "instance", source), id_texts(frame["item"], "item", source), "scores", source
    )
    score = _filled(parse_numbers(frame["score"], "score", source), "score", source)[fill]
    optional: dict[str, Any] = {}
    for name in ("stderr", "lower", "upper", "rank_lower", "rank_upper"):
        if name in frame.columns:
            optional[name] = parse_numbers(frame[name], name, source, finite=False).fill_null(np.nan).to_numpy()[fill]
    rank = None
    if "rank" in frame.columns:
        given = _filled(parse_numbers(frame["rank"], "rank", source), "rank", source)
        wrong = (given < 1) | (given != np.floor(given)) | (given > np.iinfo(np.int32).max)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise source.error(row, f"the rank of a consensus must be a whole number >= 1, found {given[row]:g}.")
        rank = given[fill].astype(np.int32)
    return Consensus.from_codes(slots, score, rank, **optional)


def name_file(error: ConcordantError, path: object) -> ConcordantError:
    """Return the error with the file named in its message, as every error about a file must."""
    if str(path) in str(error) or isinstance(error, ParseError):
        return error
    return type(error)(f"{path}: {error}")
