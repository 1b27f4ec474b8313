"""Columns of votes beside the pair and the outcome: times, categories, covariates; and which rows are left out.

A covariate is a column that is left minus right already, or it is made of one column for each side:
``length_a - length_b``, or normalised, ``(length_a - length_b) / (length_a + length_b)``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import polars as pl

from concordant.errors import ColumnError, DataError, ParameterError, is_text, listing, quote, shorten
from concordant.execution import report_note
from concordant.io._builders import MISSING_WORDS, column_texts, parse_numbers
from concordant.io._row_sources import FileSource, RowSource
from concordant.io._tables import is_number
from concordant.io._times import parse_time, parse_times

__all__ = [
    "BothBad",
    "CATEGORY_NAMES",
    "Covariates",
    "TIME_NAMES",
    "VoteFilter",
    "VoteQuantities",
    "VoteQuantity",
    "filtered",
    "raw_roles",
    "typed_vote_columns",
]

BothBad = Literal["tie", "apart"]
Covariates = str | Sequence[str] | Mapping[str, str | tuple[str, str]]
# Usual names of times and categories, as `normalise_name` gives them. They are looked for only where asked.
TIME_NAMES = ("tstamp", "timestamp", "datetime", "date", "createdat", "votedat", "submittedat")
CATEGORY_NAMES = ("language", "lang", "topic", "domain")
# How the two columns of a pair are called, when only their common name is given.
_SUFFIXES = (("_a", "_b"), ("_left", "_right"), ("_1", "_2"))
_OUTCOME_SUFFIXES = (("_winner", "_loser"), ("_chosen", "_rejected"))
_OPERATORS = ("!=", ">=", "<=", "==", "=", ">", "<")
_PATH = re.compile(r"\w+(\.\w+)*", re.ASCII)
_RATIO = re.compile(r"\s*\((.+)\)\s*/\s*\((.+)\)\s*", re.S)
_HELP = "'length_diff', 'length = length_a - length_b' or 'length = (length_a - length_b) / (length_a + length_b)'"


class _Field(NamedTuple):
    """A column, or a field of the JSON objects that it holds."""

    column: int
    path: str = ""

    def of(self, frame: pl.DataFrame, role: str) -> pl.Series:
        """Return the values of the field in a frame that holds its column as `role`."""
        series = frame[role]
        if not self.path:
            return series
        if isinstance(series.dtype, pl.Struct):
            series = series.struct.json_encode()
        elif series.dtype != pl.String:
            return pl.Series(role, [None] * len(series), dtype=pl.String)
        found = series.str.json_path_match(f"$.{self.path}")
        # An object of numbers, such as the headings of a text by level, counts as their sum.
        objects = found.str.starts_with("{").fill_null(False).arg_true()
        if len(objects):
            found = found.scatter(objects, [_sum_of(found[int(row)]) for row in objects])
        return found

    def fields(self, frame: pl.DataFrame, role: str) -> list[str]:
        """Return the fields of the objects in which the field is looked for, as the first row with any has them."""
        series = frame[role]
        text = series.struct.json_encode() if isinstance(series.dtype, pl.Struct) else column_texts(series)
        stem = self.path.rpartition(".")[0]
        found = text.drop_nulls().head(1).str.json_path_match(f"$.{stem}" if stem else "$")
        value = json.loads(found[0]) if len(found) and (found[0] or "").startswith("{") else {}
        return [f"{stem}.{name}" if stem else name for name in value]


def _sum_of(text: str) -> str:
    values = json.loads(text).values()
    usual = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
    return repr(float(sum(values))) if usual else text


class VoteQuantity(NamedTuple):
    """A covariate: a signed column, or the difference (perhaps normalised) of two."""

    name: str
    left: _Field
    right: _Field | None = None
    normalised: bool = False


class _Condition(NamedTuple):
    """A condition on a column."""

    text: str
    field: _Field
    operator: str
    value: str


def _find_field(text: str, names: Sequence[str]) -> _Field | None:
    """Return the column with this name, or the field ``column.field`` of a column of JSON objects."""
    text = text.strip()
    if text in names:
        return _Field(list(names).index(text))
    base, _, path = text.partition(".")
    return _Field(list(names).index(base), path) if base in names and _PATH.fullmatch(path) else None


class VoteQuantities:
    """The argument `covariates=`, checked: names of covariates and what they are made of."""

    def __init__(self, owner: str, covariates: Any) -> None:
        self._owner = owner
        self._made: list[tuple[str | None, str | tuple[str, str]]] = list(self._parsed(covariates))
        # The smallest and the number of values of signed columns, which tell a difference from a property of the vote.

    def __bool__(self) -> bool:
        return bool(self._made)

    def _parsed(self, covariates: Any) -> Iterator[tuple[str | None, str | tuple[str, str]]]:
        if covariates is None:
            return
        if isinstance(covariates, Mapping):
            for name, made in covariates.items():
                pair = tuple(made) if isinstance(made, (list, tuple)) else made
                usual = isinstance(pair, str) or (
                    isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(c, str) for c in pair)
                )
                if not isinstance(name, str) or not name or not usual:
                    raise self._wrong(covariates)
                yield name, cast("str | tuple[str, str]", pair)
            return
        each = covariates.split(",") if isinstance(covariates, str) else covariates
        if not isinstance(each, Sequence) or not all(isinstance(c, str) and c.strip() for c in each) or not each:
            raise self._wrong(covariates)
        for text in each:
            yield None, text.strip()

    def _wrong(self, found: Any) -> ParameterError:
        allowed = f"names of columns or formulas such as {_HELP}, or a mapping from names to these or to pairs"
        return ParameterError.invalid("covariates", self._owner, allowed, found)

    def resolve(self, names: Sequence[str], where: str, *, winners: bool) -> list[VoteQuantity]:
        """Return the covariates of a table with these columns; in tables of winner and loser a pair is needed."""
        out: list[VoteQuantity] = []
        for name, made in self._made:
            own, found = self._quantity(name, made, names, where, winners)
            if winners and found.right is None:
                raise ColumnError(
                    f"{where}the covariate {quote(own)} is one column, and winner and loser do not say which side it "
                    "is counted from. Name a column for each: covariates={'length': ('length_winner', 'length_loser')}."
                )
            if any(own == other.name for other in out):
                raise ParameterError(f"covariates= names {quote(own)} twice. Keep one.")
            out.append(found._replace(name=own))
        return out

    def _quantity(
        self, name: str | None, made: str | tuple[str, str], names: Sequence[str], where: str, winners: bool
    ) -> tuple[str, VoteQuantity]:
        if isinstance(made, tuple):
            pair = [_find_field(c, names) for c in made]
            absent = [c for c, field in zip(made, pair, strict=True) if field is None]
            if pair[0] is None or pair[1] is None:
                raise self._missing(absent, names, where)
            return str(name), VoteQuantity("", pair[0], pair[1])
        if name is None and _find_field(made, names) is None and "=" in made:
            name, _, made = (part.strip() for part in made.partition("="))
        found = _formula(made, names, winners)
        if found is None or not (name or made):
            raise self._missing([made], names, where)
        return name or made, found

    def _missing(self, absent: list[str], names: Sequence[str], where: str) -> ColumnError:
        error = ColumnError.missing(absent, names, f"a covariate is a column or a formula: {_HELP}.")
        return ColumnError(f"{where}{error}")

    def values(self, quantity: VoteQuantity, frame: pl.DataFrame, role: str, source: RowSource) -> pl.Series:
        """Return the values of a covariate, left minus right; `role` is the name of its columns in the frame."""
        left = self._numbers(self._of(quantity.left, quantity, frame, role), quantity.name, source)
        if quantity.right is None:
            return left.alias(role)
        right = self._numbers(self._of(quantity.right, quantity, frame, f"{role} right"), quantity.name, source)
        if not quantity.normalised:
            return (left - right).alias(role)
        low = ((left < 0) | (right < 0)).fill_null(False).arg_true()
        if len(low):
            row = int(low[0])
            raise source.error(
                row,
                f"a normalised difference needs numbers >= 0; the covariate {quote(quantity.name)} is made of "
                f"{left[row]:g} and {right[row]:g}.",
            )
        total = left + right
        # Nothing on either side is no difference.
        return ((left - right) / total.set(total == 0, 1.0)).alias(role)

    def _of(self, field: _Field, quantity: VoteQuantity, frame: pl.DataFrame, role: str) -> pl.Series:
        """Return the values of a field; raise where no row has it."""
        found = field.of(frame, role)
        if field.path and len(found) and found.null_count() == len(found):
            known = field.fields(frame, role)
            there = f"The first has {listing(known, 12)}." if known else "It holds no JSON objects."
            raise ColumnError(
                f"the covariate {quote(quantity.name)}: no row has a field {quote(field.path)} in its column. {there}"
            )
        return found

    def _numbers(self, column: pl.Series, name: str, source: RowSource) -> pl.Series:
        what = f"covariate {quote(name)}"
        if column.dtype == pl.Boolean:
            return column.cast(pl.Float64)
        if column.dtype == pl.String:
            known = column.filter(~column.str.strip_chars().str.to_lowercase().is_in(_NOTHING).fill_null(True))
            words = [w for w in known.head(200) if not is_number(w.strip())]
            if len(words) == min(len(known), 200) and words:
                row = int((column == words[0]).arg_true()[0])
                raise source.error(
                    row,
                    f"the {what} must be a number, left minus right; found {quote(words[0])}. What has no side, such "
                    "as a language, is a category: category='language'.",
                )
        return parse_numbers(column, what, source)


_NOTHING = [w.casefold() for w in MISSING_WORDS]


def _formula(text: str, names: Sequence[str], winners: bool) -> VoteQuantity | None:
    """Return the covariate that a text stands for, None if it names no columns."""
    field = _find_field(text, names)
    if field is not None:
        return VoteQuantity("", field)
    ratio = _RATIO.fullmatch(text)
    if ratio is not None:
        tops, bottoms = (list(_splits(ratio[k + 1], sign, names)) for k, sign in enumerate("-+"))
        both = [pair for pair in tops if pair in bottoms]
        if len(both) == 1:
            return VoteQuantity("", *both[0], normalised=True)
    bare = text[1:-1] if text[:1] == "(" and text[-1:] == ")" else text
    pairs = list(_splits(bare, "-", names))
    if len(pairs) == 1:
        return VoteQuantity("", *pairs[0])
    stem = text.strip()
    for a, b in _OUTCOME_SUFFIXES if winners else _SUFFIXES:
        left, right = _find_field(stem + a, names), _find_field(stem + b, names)
        if left is not None and right is not None:
            return VoteQuantity("", left, right)
    return None


def _splits(text: str, sign: str, names: Sequence[str]) -> Iterator[tuple[_Field, _Field]]:
    """Yield the pairs of fields into which a text falls at a sign, which names of columns may hold too."""
    for at, character in enumerate(text):
        if character == sign:
            left, right = _find_field(text[:at], names), _find_field(text[at + 1 :], names)
            if left is not None and right is not None:
                yield left, right


class VoteFilter:
    """The arguments `where=` and `distinct=`, checked: which rows of a table are kept.

    Counts over all parts of the files are reported by `tell`.
    """

    def __init__(self, owner: str, where: Any, distinct: Any) -> None:
        self._owner = owner
        self._where = _texts("where", owner, where, "such as 'language=English' or 'turn>=2', or a list of these", ";")
        self._distinct = _texts("distinct", owner, distinct, "names of columns, such as 'judge,question_id'", ",")
        self._dropped = dict.fromkeys(self._where, 0)
        self._repeated = self._rows = 0
        self._seen: pl.DataFrame | None = None

    @property
    def is_global(self) -> bool:
        """Whether a row is kept or not by what other rows hold."""
        return bool(self._distinct)

    def conditions(self, names: Sequence[str], where: str) -> list[_Condition]:
        """Return the conditions on the columns of a table."""
        return [self._condition(text, names, where) for text in self._where]

    def _condition(self, text: str, names: Sequence[str], where: str) -> _Condition:
        for name in sorted((n for n in names if n), key=len, reverse=True):
            if not text.startswith(name):
                continue
            rest = re.match(r"(\.\w+(?:\.\w+)*)?\s*", text[len(name) :], re.ASCII)
            path = rest[1] or "" if rest else ""
            rest_text = text[len(name) + (rest.end() if rest else 0) :]
            operator = next((op for op in _OPERATORS if rest_text.startswith(op)), None)
            if operator is not None:
                value = rest_text[len(operator) :].strip()
                return _Condition(text, _Field(list(names).index(name), path[1:]), operator.replace("==", "="), value)
        found = re.match(r"(.*?)\s*(?:[!<>]=|==|[=<>])", text, re.S)
        if found is None:
            allowed = "of the form COLUMN=VALUE, with one of = != > >= < <="
            raise ParameterError.invalid("where", self._owner, allowed, text)
        error = ColumnError.missing([found[1]], names)
        raise ColumnError(f"{where}the condition {quote(text)}: {error}")

    def keys(self, names: Sequence[str], where: str) -> list[str | _Field]:
        """Return what rows must differ in: fields of the table, or roles such as "expert" and "pair"."""
        out: list[str | _Field] = []
        for name in self._distinct:
            field = _find_field(name, names)
            if field is None and name not in ("expert", "pair", "left", "right", "instance"):
                error = ColumnError.missing([name], names, "or one of expert, pair, left, right and instance.")
                raise ColumnError(f"{where}distinct=: {error}")
            out.append(name if field is None else field)
        return out

    def kept(
        self, frame: pl.DataFrame, conditions: Sequence[_Condition], source: RowSource, *, count: bool = True
    ) -> pl.Series | None:
        """Return which rows meet all conditions, None if there are none."""
        self._rows += len(frame) * count
        if not conditions:
            return None
        keep = pl.Series([True]).new_from_index(0, len(frame))
        for j, condition in enumerate(conditions):
            own = _holds(condition, condition.field.of(frame, f"where {j}"), source)
            if count:
                self._dropped[condition.text] += int((keep & ~own).sum())
            keep = keep & own
        return keep

    def first_of_each(self, frame: pl.DataFrame, keys: Sequence[str | _Field]) -> pl.Series | None:
        """Return which rows are the first with their keys, in this part and those before it; None without keys."""
        if not keys:
            return None
        columns: list[pl.Series] = []
        for j, key in enumerate(keys):
            if isinstance(key, _Field):
                columns.append(column_texts(key.of(frame, f"distinct {j}")).alias(f"key {j}"))
            elif key == "pair":
                swap = frame["left"] > frame["right"]
                columns.append(frame["left"].zip_with(~swap, frame["right"]).alias(f"key {j} left"))
                columns.append(frame["right"].zip_with(~swap, frame["left"]).alias(f"key {j} right"))
            elif key not in frame.columns:
                raise ColumnError(f"distinct=: the table has no column for the {key}. Name it: --columns, columns=.")
            else:
                columns.append(column_texts(frame[key]).alias(f"key {j}"))
        each = pl.DataFrame(columns).with_row_index("row")
        names = [c.name for c in columns]
        first = each.unique(names, keep="first", maintain_order=True)
        if self._seen is not None:
            first = first.join(self._seen, on=names, how="anti", nulls_equal=True, maintain_order="left")
        self._seen = first.select(names) if self._seen is None else pl.concat([self._seen, first.select(names)])
        keep = np.zeros(len(frame), dtype=np.bool_)
        keep[first["row"].to_numpy()] = True
        self._repeated += len(frame) - int(keep.sum())
        return pl.Series(keep)

    def tell(self) -> None:
        """Report how many rows were left out, and why; raise if no row meets the conditions."""
        if self._where and self._rows and sum(self._dropped.values()) == self._rows:
            each = "; ".join(f"{quote(text)} leaves out {n:,}" for text, n in self._dropped.items())
            raise DataError(f"none of the {self._rows:,} rows is left by where=: {each}.")
        for text, n in self._dropped.items():
            report_note(f"--where {quote(text)}: left out {n:,} of {self._rows:,} rows.")
        if self._distinct:
            what = ", ".join(self._distinct)
            report_note(f"--distinct {what}: left out {self._repeated:,} rows that repeat an earlier one.")


def filtered(frame: pl.DataFrame, source: RowSource, keep: pl.Series | None) -> tuple[pl.DataFrame, Any]:
    """Return the rows that are kept, and where they come from."""
    if keep is None or keep.all():
        return frame, source
    rows = keep.to_numpy()
    if isinstance(source, FileSource):
        numbers = range(len(frame)) if source.row_numbers is None else source.row_numbers
        return frame.filter(keep), replace(source, row_numbers=np.asarray(numbers)[rows])
    numbers = np.arange(len(frame)) if source.lines is None else source.lines
    return frame.filter(keep), replace(source, lines=numbers[rows])


def _texts(what: str, owner: str, given: Any, allowed: str, separator: str) -> list[str]:
    if given is None:
        return []
    each = given.split(separator) if isinstance(given, str) else given
    usual = isinstance(each, Sequence) and all(isinstance(t, str) and t.strip() and is_text(t) for t in each)
    if not usual or not each:
        raise ParameterError.invalid(what, owner, allowed, given)
    return list(dict.fromkeys(t.strip() for t in each))


def _holds(condition: _Condition, column: pl.Series, source: RowSource) -> pl.Series:
    """Return for every row whether a condition holds; a missing value is no text, no number and no time."""
    if condition.operator in ("=", "!="):
        equal = _equals(column, condition.value)
        return equal if condition.operator == "=" else ~equal
    bound: float | None = float(condition.value) if is_number(condition.value) else None
    if bound is not None:
        values = parse_numbers(column, f"column of the condition {quote(condition.text)}", source)
    else:
        bound = parse_time(condition.value)
        if bound is None:
            raise ParameterError(
                f"the condition {quote(condition.text)} compares sizes. Give a number or an ISO 8601 date, not "
                f"{quote(condition.value)}."
            )
        values = parse_times(column, f"time of the condition {quote(condition.text)}", source)
    compare: dict[str, Callable[[pl.Series, float], pl.Series]] = {
        ">": pl.Series.__gt__,
        ">=": pl.Series.__ge__,
        "<": pl.Series.__lt__,
        "<=": pl.Series.__le__,
    }
    return compare[condition.operator](values, bound).fill_null(False)


def _equals(column: pl.Series, value: str) -> pl.Series:
    """Return which values equal the text, or one of its parts between bars; numbers and truth values by value."""
    text = column_texts(column).fill_null("").str.strip_chars()
    wanted = list(dict.fromkeys([value, *(part.strip() for part in value.split("|"))]))
    found = text.is_in(wanted)
    numbers = [float(w) for w in wanted if is_number(w)]
    if numbers:
        found = found | text.cast(pl.Float64, strict=False).is_in(numbers).fill_null(False)
    truths = [w.lower() for w in wanted if w.lower() in ("true", "false")]
    return found | text.str.to_lowercase().is_in(truths) if truths else found


def category_texts(column: pl.Series, source: RowSource) -> pl.Series:
    """Return a column of categories as text, null for none."""
    if isinstance(column.dtype, (pl.Struct, pl.List, pl.Array)) or column.dtype == pl.Object:
        row = int(column.is_not_null().arg_true()[0]) if column.null_count() < len(column) else 0
        found = shorten(str(column[row]), 60)
        raise source.error(row, f"the category must be text, a number or a truth value, found {quote(found)}.")
    text = column_texts(column).str.strip_chars()
    return text.set((text == "").fill_null(False), None)


def typed_vote_columns(
    frame: pl.DataFrame, quantities: VoteQuantities, resolved: Sequence[VoteQuantity], source: RowSource
) -> pl.DataFrame:
    """Return the frame with times in seconds, categories as text and covariates as numbers."""
    if "time" in frame.columns:
        frame = frame.with_columns(parse_times(frame["time"], "time", source).alias("time"))
    if "category" in frame.columns:
        frame = frame.with_columns(category_texts(frame["category"], source).alias("category"))
    for k, quantity in enumerate(resolved):
        role = f"covariate {k}"
        frame = frame.with_columns(quantities.values(quantity, frame, role, source))
    drop = [c for c in frame.columns if c.startswith(("where ", "distinct ")) or c.endswith(" right")]
    return frame.drop(drop)


def raw_roles(
    resolved: Sequence[VoteQuantity], conditions: Sequence[_Condition], keys: Sequence[str | _Field]
) -> dict[str, int]:
    """Return the columns to read, by the names under which the functions above look for them."""
    roles = {f"where {j}": condition.field.column for j, condition in enumerate(conditions)}
    roles |= {f"distinct {j}": key.column for j, key in enumerate(keys) if isinstance(key, _Field)}
    for k, quantity in enumerate(resolved):
        roles[f"covariate {k}"] = quantity.left.column
        if quantity.right is not None:
            roles[f"covariate {k} right"] = quantity.right.column
    return roles
