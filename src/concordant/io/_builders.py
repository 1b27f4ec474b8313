"""Builds containers from typed Polars columns; errors name the row, or the file and line.

The columns carry Concordant's own names (instance, expert, item, ...) wherever the table came from. Null means that
there is no value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from concordant.arrays import Bools, Codes, Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import OPTIONAL_COLUMNS, Consensus
from concordant.data.duplicates import check_duplicates
from concordant.data.features import Features
from concordant.data.index import Slots, Texts, check_text
from concordant.data.labels import Labels
from concordant.data.preferences import MISSING, Kind, Preferences
from concordant.data.vote_columns import VoteColumns
from concordant.errors import (
    ConcordantError,
    DataError,
    DataWarning,
    DuplicateError,
    ParameterError,
    Setting,
    quote,
    shorten,
    warn,
)
from concordant.io._dictionary_encoding import (
    DictionaryEncoder,
    encode_labels,
    encode_slots,
    factorize,
    hash_expressions,
)
from concordant.io._row_sources import RowSource
from concordant.io._tables import is_number

__all__ = [
    "MISSING_WORDS",
    "ONE_EXPERT",
    "ONE_INSTANCE",
    "build_comparisons",
    "build_consensus",
    "build_features",
    "build_labels",
    "OddIds",
    "build_preferences",
    "column_texts",
    "declared_below",
    "preference_rows",
    "id_texts",
    "parse_numbers",
]

# How tables spell a missing value.
MISSING_WORDS = ("", "NA", "N/A", "NaN", "NULL", "None")
_ODD_NAMES = sorted({form for w in MISSING_WORDS if w for form in (w, w.lower(), w.upper(), w.capitalize())})
# The id of the only instance, and of the only expert, when the data names none.
ONE_INSTANCE = "all"
ONE_EXPERT = "1"
# Compiling the hash table of pairs pays from this many comparisons on.
_MANY_ROWS = 1 << 20


def id_texts(column: pl.Series, what: str, source: RowSource, *, optional: Any = None) -> pl.Series:
    """Return a column of ids as text.

    Whole numbers are written out, floats too if they are whole. Null is an error naming the row, except where
    `optional` (a mask) allows it.
    """
    dtype = column.dtype
    if dtype.is_float():
        whole = column.fill_nan(None).cast(pl.Int64, strict=False)
        # Infinite and very large numbers are no whole numbers of 64 bits.
        broken = column.is_not_null() & column.is_not_nan() & (whole.cast(dtype) != column).fill_null(True)
        if broken.any():
            row = int(broken.arg_true()[0])
            raise source.error(row, f"the {what} id must be text or a whole number, found {quote(column[row])}.")
        column = whole
    elif dtype == pl.Object or not (
        dtype.is_integer() or dtype in (pl.String, pl.Null) or isinstance(dtype, (pl.Categorical, pl.Enum))
    ):
        row = int(column.is_not_null().arg_true()[0]) if column.null_count() < len(column) else 0
        raise source.error(
            row, f"the {what} id must be text or a whole number, found {_found(column, row)} of type {dtype}."
        )
    column = column.cast(pl.String)
    missing = column.is_null()
    if missing.any():
        wrong = missing if optional is None else missing & ~pl.Series(optional)
        if wrong.any():
            raise source.error(int(wrong.arg_true()[0]), f"the {what} id is missing. Fill it in, or leave the row out.")
    return column


def column_texts(column: pl.Series) -> pl.Series:
    """Return the values of any column as text, as a text table writes them; truth values are true and false."""
    try:
        text = column.cast(pl.String)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        # Lists, objects, bytes that are no text, spans of time, dates that no calendar has.
        plain = column.to_physical() if column.dtype.is_temporal() else column
        values = [None if v is None else str(v) for v in plain.to_list()]
        check_text([v for v in values if v is not None], shorten(column.name))
        return pl.Series(column.name, values, dtype=pl.String)
    return text.str.replace(r"\.0$", "") if column.dtype.is_float() else text


def _found(column: pl.Series, row: int) -> str:
    """Return a value of any column for a message."""
    return quote(column.to_physical()[row] if column.dtype.is_temporal() else column[row])


class OddIds:
    """Ids that are spelled like a missing value, such as "NA". They stay ids, and one warning per column names them."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[object, str, int]] = {}

    def find(self, columns: Mapping[str, pl.Series], source: RowSource) -> None:
        """Remember the first such id of every column and count them."""
        for what, column in columns.items():
            at = column.is_in(_ODD_NAMES).fill_null(False).arg_true()
            if len(at):
                row = int(at[0])
                place, name, count = self._found.get(what) or (source.place(row), column[row], 0)
                self._found[what] = place, name, count + len(at)

    def warn(self) -> None:
        """Warn of the ids found, and forget them."""
        for what, (place, name, count) in self._found.items():
            where = place if isinstance(place, str) else f"row {place}"
            warn(
                f"{where}: the {what} {quote(name)} is taken for a name, in {count:,} rows in all. If it stands for a "
                "missing value, leave these rows out.",
                DataWarning,
            )
        self._found.clear()


def _warn_odd_ids(columns: Mapping[str, pl.Series], source: RowSource) -> None:
    odd_ids = OddIds()
    odd_ids.find(columns, source)
    odd_ids.warn()


def parse_numbers(
    column: pl.Series, what: str, source: RowSource, missing: Sequence[str] = MISSING_WORDS, *, finite: bool = True
) -> pl.Series:
    """Return a column as float64, null for missing values; raise at anything else that is not a finite number."""
    if column.dtype == pl.String:
        return _parsed(column, what, source, missing, finite)
    if column.dtype.is_float():
        # A column without NaN is not copied.
        column = column.fill_nan(None) if column.is_nan().any() else column
    elif not (column.dtype.is_integer() or column.dtype.is_decimal() or column.dtype in (pl.Boolean, pl.Null)):
        row = int(column.is_not_null().arg_true()[0]) if column.null_count() < len(column) else 0
        raise source.error(row, f"the {what} must be a number, found {_found(column, row)} of type {column.dtype}.")
    out = column.cast(pl.Float64, strict=False)
    bad = column.is_not_null() & ~(out.is_finite() if finite else out.is_not_nan()).fill_null(False)
    if bad.any():
        raise _no_number(column, int(bad.arg_true()[0]), what, source, finite)
    return out


def _parsed(column: pl.Series, what: str, source: RowSource, missing: Sequence[str], finite: bool) -> pl.Series:
    """Return the numbers in a column of text; only text that is no plain number is compared with the null words."""
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


def _no_number(column: pl.Series, row: int, what: str, source: RowSource, finite: bool) -> ConcordantError:
    found = shorten(str(column[row]))
    return source.error(row, f"the {what} must be a{' finite' if finite else ''} number, found {quote(found)}.")


def _filled(column: pl.Series, what: str, source: RowSource) -> Floats:
    """Return a column of numbers, or raise at the first missing one."""
    if column.null_count():
        raise source.error(int(column.is_null().arg_true()[0]), f"the {what} is missing.")
    return column.to_numpy().astype(np.float64, copy=True)


def build_preferences(
    frame: pl.DataFrame, kind: Kind, source: RowSource, *, duplicates: str = "error", below: bool = False
) -> Preferences:
    """Return preferences from the columns instance, expert, item, value and, optionally, weight and missing.

    A null value means that the item is known and not ranked by this expert; the expert may then be null too.
    """
    check_duplicates(duplicates, "a reader")
    declared: dict[str, bool] = {}
    odd_ids = OddIds()
    encoder = DictionaryEncoder()
    encoder.add(preference_rows(frame, kind, source, declared, odd_ids), source=source)
    odd_ids.warn()
    rows = encoder.finish()
    return rows.preferences(
        kind, duplicates=duplicates, below=declared_below(declared, rows.slots.instances) if declared else below
    )


def preference_rows(
    frame: pl.DataFrame, kind: Kind, source: RowSource, declared: dict[str, bool], odd_ids: OddIds
) -> pl.DataFrame:
    """Return checked rows as the encoder takes them: ids as text, values and weights as numbers.

    Adds the declarations of a column "missing" to `declared`, and ids that look like missing values to `odd_ids`.
    """
    checked = checked_preferences(frame, kind, source)
    odd_ids.find({"expert": checked["expert"], "item": checked["item"]}, source)
    if "missing" in frame.columns:
        collect_missing(frame, checked, source, declared)
    if "weight" in frame.columns:
        weight = parse_numbers(frame["weight"], "weight", source).fill_null(np.nan)
        checked = checked.with_columns(weight.alias("weight"))
    nameless = checked["expert"].null_count()
    if nameless == len(checked):
        return checked.drop("expert")
    if nameless:
        # Rows without an expert have no value and are dropped later; until then they belong to a neighbour.
        return checked.with_columns(pl.col("expert").fill_null(strategy="forward").fill_null(strategy="backward"))
    return checked


def declared_below(declared: Mapping[str, bool], instances: Texts) -> Bools:
    """Return for every instance whether items that a list leaves out are declared below what it holds."""
    return np.array([declared.get(name, False) for name in instances], dtype=np.bool_)


def collect_missing(frame: pl.DataFrame, checked: pl.DataFrame, source: RowSource, known: dict[str, bool]) -> None:
    """Collect in `known` which instances the column "missing" declares "below"; null means "unknown".

    All rows of an instance must agree.
    """
    word = column_texts(frame["missing"]).fill_null(MISSING[0])
    wrong = ~word.is_in(MISSING)
    if wrong.any():
        row = int(wrong.arg_true()[0])
        unknown = Setting("missing", "unknown")
        raise source.error(
            row,
            "the column 'missing' says whether items that a list leaves out are 'unknown' or 'below'; found "
            f"{quote(str(word[row]))}. Pass {unknown} to declare it for all and ignore the column.",
        ).advising(unknown)
    each = pl.DataFrame({"instance": checked["instance"], "missing": word}).with_row_index("row")
    first = each.unique(["instance", "missing"], keep="first", maintain_order=True)
    for row, instance, said in first.iter_rows():
        if known.setdefault(instance, said == "below") != (said == "below"):
            raise source.error(
                row, f"instance {quote(instance)} is declared missing={said!r} here and differently before."
            )


def checked_preferences(frame: pl.DataFrame, kind: Kind, source: RowSource) -> pl.DataFrame:
    """Return ids as text and values as numbers, or raise at the first row with an invalid id or value."""
    value = parse_numbers(frame["value"], kind, source)
    instance = id_texts(frame["instance"], "instance", source)
    expert = id_texts(frame["expert"], "expert", source, optional=value.is_null())
    item = id_texts(frame["item"], "item", source)
    if kind == "rank" and (value < 1).any():
        row = int((value < 1).arg_true()[0])
        raise source.error(
            row,
            f"ranks begin at 1 (best). Got {value[row]:g} for item {quote(item[row])} by expert {quote(expert[row])}. "
            "Leave out what is not ranked; where larger is better, say kind='score'.",
        )
    return pl.DataFrame({"instance": instance, "expert": expert, "item": item, "value": value})


def build_comparisons(
    frame: pl.DataFrame,
    source: RowSource,
    *,
    sided: bool = True,
    self_pairs: str = "error",
    experts: bool = True,
    covariates: Sequence[str] = (),
) -> Comparisons:
    """Return comparisons from the columns instance, left, right, the three counts and, optionally, expert and weight.

    Further columns: n_both_bad, time in seconds, category as text, and "covariate 0", "covariate 1", ... for the names
    in `covariates`. A row without a right item and without counts makes the left item known. With `experts=False`
    experts are checked and not kept.
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
    _warn_odd_ids({"left item": left, "right item": right}, source)
    same = (left == right).fill_null(False)
    if same.any() and self_pairs == "error":
        row = int(same.arg_true()[0])
        drop = Setting("self_pairs", "drop")
        raise source.error(
            row, f"item {quote(left[row])} is compared with itself. Pass {drop} to leave such rows out."
        ).advising(drop)
    counted = (~(alone | same)).to_numpy()
    slots, left_slot, right_slot = _pair_slots(instance, left, right.set(alone, None))
    counts = [_counts(columns.get(name), name, counted, source) for name in names]
    more = _vote_columns(frame, covariates, counted, source)
    if "weight" in frame.columns:
        weight = _counts(parse_numbers(frame["weight"], "weight", source), "weight", counted, source)
        counts = [c * weight for c in counts]
        more = more.scaled(weight)
    expert, known = None, Texts()
    if "expert" in frame.columns:
        named = id_texts(frame["expert"], "expert", source, optional=~counted)
        _warn_odd_ids({"expert": named}, source)
        if experts:
            expert, vocabulary = factorize(named.filter(pl.Series(counted)))
            known = Texts(vocabulary.to_list())
    kept = np.flatnonzero(counted)
    order = np.argsort(slots.instance[left_slot[kept]], kind="stable") if len(kept) else kept
    at = kept[order]
    a, b = left_slot[at], right_slot[at]
    n_left, n_right, n_ties = (c[at] for c in counts)
    more = more.take(at)
    if not sided:
        flip = a > b
        more = more.flipped(flip)
        a, b = np.where(flip, b, a), np.where(flip, a, b)
        n_left, n_right = np.where(flip, n_right, n_left), np.where(flip, n_left, n_right)
    voter = None if expert is None else expert[order]
    return Comparisons.from_codes(slots, known, voter, a, b, n_left, n_right, n_ties, sided=sided, columns=more)


def _vote_columns(frame: pl.DataFrame, covariates: Sequence[str], counted: Any, source: RowSource) -> VoteColumns:
    """Return what is known of each row beside its counts; raise where a vote lacks it."""

    def numbers(role: str, what: str) -> Floats:
        column = frame[role]
        missing = (column.is_null() & pl.Series(counted)).arg_true()
        if len(missing):
            raise source.error(int(missing[0]), f"the {what} is missing. Fill it in, or leave the row out.")
        return column.fill_null(0.0).to_numpy().astype(np.float64, copy=True)

    codes, categories, bad = None, Texts(), None
    if "category" in frame.columns:
        told = frame["category"].is_not_null()
        found, vocabulary = factorize(frame["category"].filter(told))
        codes = np.full(len(frame), -1, dtype=np.int32)
        codes[told.to_numpy()] = found
        categories = Texts(vocabulary.to_list())
    if "n_both_bad" in frame.columns:
        bad = _counts(parse_numbers(frame["n_both_bad"], "n_both_bad", source), "n_both_bad", counted, source)
    each = [numbers(f"covariate {k}", f"covariate {quote(name)}") for k, name in enumerate(covariates)]
    time = numbers("time", "time") if "time" in frame.columns else None
    matrix = np.column_stack(each) if each else None
    return VoteColumns(time, codes, categories, matrix, Texts(list(covariates)), bad)


def _pair_slots(instance: pl.Series, left: pl.Series, right: pl.Series) -> tuple[Slots, Codes, Codes]:
    """Return the slots in first-seen order (row by row, left first) and both slots of every row, -1 for no item."""
    n = len(instance)
    if n >= _MANY_ROWS and not right.null_count() and bool((instance == instance[0]).all()):
        # In a single instance one hash table of all items is quicker than sorting rows.
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


def _counts(column: pl.Series | None, what: str, counted: Any, source: RowSource) -> Floats:
    """Return counts >= 0; zeros if there is no such column."""
    if column is None:
        return np.zeros(len(counted))
    wrong = (column.is_null() | (column < 0)) & pl.Series(counted)
    if wrong.any():
        row = int(wrong.arg_true()[0])
        raise source.error(row, f"{what} must be a number >= 0, found {column[row]}.")
    return column.fill_null(0.0).to_numpy().astype(np.float64, copy=True)


def _unique_slots(instance: pl.Series, item: pl.Series, what: str, source: RowSource) -> tuple[Slots, Ints]:
    """Return the slots and the row that fills each, or raise when two rows fill one slot."""
    slots, slot = encode_slots(pl.DataFrame({"instance": instance, "item": item}))
    fill = np.empty(slots.n_slots, dtype=np.int64)
    fill[slot[::-1]] = np.arange(len(slot))[::-1]
    if slots.n_slots < len(slot):
        row = int(np.flatnonzero(fill[slot] != np.arange(len(slot)))[0])
        name, repeated = slots.where(int(slot[row]))
        raise DuplicateError.two(what, repeated, name, source.place(int(fill[slot[row]])), source.place(row))
    return slots, fill


def build_labels(frame: pl.DataFrame, source: RowSource, *, duplicates: str = "error") -> Labels:
    """Return labels from the columns instance, item and label; a null label leaves the item known and unlabelled."""
    check_duplicates(duplicates, "a reader of labels")
    label = parse_numbers(frame["label"], "label", source)
    instance, item = (id_texts(frame[name], name, source) for name in ("instance", "item"))
    columns = pl.DataFrame({"instance": instance, "item": item, "label": label})
    best = Setting("duplicates", "best")
    hint = f", or pass {best} for the larger"
    return encode_labels([(columns, source)], duplicates=duplicates, hint=hint, settings=[best])


def build_features(frame: pl.DataFrame, columns: Mapping[str, str], source: RowSource) -> Features:
    """Return features from the columns instance, item and those of `columns`, which maps columns to feature names.

    A missing value is NaN, as in LETOR files.
    """
    if not columns:
        raise DataError("there are no feature columns beside instance and item.")
    slots, fill = _unique_slots(
        id_texts(frame["instance"], "instance", source), id_texts(frame["item"], "item", source), "feature rows", source
    )
    values = [
        parse_numbers(frame[c], f"feature {quote(name)}", source).fill_null(np.nan).to_numpy()
        for c, name in columns.items()
    ]
    return Features.from_codes(slots, np.column_stack(values)[fill], Texts(list(columns.values())))


def build_consensus(frame: pl.DataFrame, source: RowSource) -> Consensus:
    """Return a consensus from the columns instance, item, score and those of rank and intervals that are there."""
    slots, fill = _unique_slots(
        id_texts(frame["instance"], "instance", source), id_texts(frame["item"], "item", source), "scores", source
    )
    score = _filled(parse_numbers(frame["score"], "score", source), "score", source)[fill]
    optional: dict[str, Any] = {}
    for name in OPTIONAL_COLUMNS:
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
    return Consensus.from_codes(slots, score, rank, **_elo_scale(frame), **optional)


def _elo_scale(frame: pl.DataFrame) -> dict[str, Any]:
    """Return scale and gauge of a board that was written on an Elo scale; other columns of these names say nothing."""
    if "scale" not in frame.columns or not len(frame) or set(frame["scale"].to_list()) != {"elo"}:
        return {}
    gauges = set(frame["gauge"].to_list()) if "gauge" in frame.columns else set()
    return {"scale": "elo", "gauge": gauges.pop() if len(gauges) == 1 else None}
