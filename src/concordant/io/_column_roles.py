"""Finds the column of each role (expert, item, rank, ...): as the user says, else by its usual names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from concordant.errors import (
    ColumnError,
    ConcordantError,
    DataWarning,
    FormatError,
    ParameterError,
    ParseError,
    first_of,
    quote,
    shorten,
    warn,
)
from concordant.io._builders import (
    MISSING_WORDS,
    ONE_INSTANCE,
    id_texts,
    parse_numbers,
)
from concordant.io._column_names import ALIASES, COUNT_PAIRS, HEADER_WORDS, SIDE_PAIRS, normalise_name
from concordant.io._files import check_unchanged, stem
from concordant.io._row_sources import FileSource, JoinedSource, RowSource
from concordant.io._tables import FILE_TYPES, TableFile, has_movielens_name, is_number, open_table

__all__ = [
    "BOTH_BAD",
    "COUNTS",
    "ColumnRequest",
    "Columns",
    "ResolvedColumns",
    "TablePart",
    "is_movielens",
    "join_tables",
    "naming_files",
    "pair_form",
    "table_parts",
]

Columns = str | Mapping[str, str | int]
COUNTS = ("n_left", "n_right", "n_ties")
BOTH_BAD = "n_both_bad"
_FORMS_HELP = (
    "Comparisons have the columns winner and loser, or left, right and winner, or left, right, n_left, n_right, n_ties."
)


class TablePart(NamedTuple):
    """Rows of one file, in columns under Concordant's own names, and where they come from."""

    frame: pl.DataFrame
    source: FileSource


@contextmanager
def naming_files(files: list[Path]) -> Iterator[None]:
    """Add the file to errors that do not name it."""
    try:
        yield
    except ConcordantError as error:
        if any(str(f) in str(error) for f in files):
            raise
        raise _name_file(error, first_of(files)) from None


def _name_file(error: ConcordantError, path: object) -> ConcordantError:
    """Return the error with the file named in its message, as every error about a file must."""
    if str(path) in str(error) or isinstance(error, ParseError):
        return error
    return type(error)(f"{path}: {error}").advising(*error.settings)


def join_tables(
    files: list[Path],
    take: Callable[[TableFile], TablePart],
    request: ColumnRequest,
    header: bool | None,
    file_type: str | None,
) -> tuple[pl.DataFrame, RowSource]:
    """Return the rows of all files as one frame, and where each row came from."""
    parts = list(table_parts(files, take, request, header, file_type))
    if len(parts) == 1:
        return parts[0]
    frame = pl.concat([p.frame.select(parts[0].frame.columns) for p in parts])
    starts = np.cumsum([0, *(len(p.frame) for p in parts[:-1])])
    return frame, JoinedSource(parts=tuple(p.source for p in parts), starts=tuple(starts.tolist()))


def table_parts(
    files: list[Path],
    take: Callable[[TableFile], TablePart],
    request: ColumnRequest,
    header: bool | None,
    file_type: str | None,
    *,
    window: int | None = None,
    skip: int = 0,
) -> Iterator[TablePart]:
    """Yield the rows of the files in order; files of more than about `window` rows come in several parts.

    The first `skip` parts are left out.
    """
    if file_type is not None and file_type not in FILE_TYPES:
        raise ParameterError.invalid(
            "file_type", request.owner, f"one of {', '.join(map(repr, FILE_TYPES))}", file_type
        )
    columns: set[str] = set()
    passed = 0
    for file in files:
        with check_unchanged(file):
            table = open_table(file, header=header, file=file_type, words=HEADER_WORDS, named=request.names)
            for own in [table] if window is None else table.windows(window):
                passed += 1
                if passed <= skip:
                    continue
                part = take(own)
                columns = columns or set(part.frame.columns)
                if set(part.frame.columns) != columns:
                    odd = ", ".join(sorted(columns ^ set(part.frame.columns)))
                    raise FormatError(
                        f"{file}: does not have the same columns as {files[0]}: only one of them has {odd}."
                    )
                yield part


class ColumnRequest:
    """The argument `columns=`, checked: from a role to the name of a column, or to its number counted from 1."""

    def __init__(self, owner: str, columns: Columns | None, words: Sequence[str], instance: str | int | None) -> None:
        self.owner = owner
        self.columns = dict(_parse_columns(owner, columns, ("instance", *words)))
        if instance is not None:
            self.add("instance", instance)
        # For each role, the first file with ids such as "7.0", and whether they were read as "7" there.
        self._fractions: dict[str, tuple[Path, bool]] = {}

    def add(self, word: str, column: Any) -> None:
        """Add the column of a role that has a parameter of its own."""
        if word in self.columns:
            raise ParameterError.invalid(word, self.owner, f"left out when columns= names the {word}", column)
        if not isinstance(column, (str, int)) or isinstance(column, bool):
            raise ParameterError.invalid(word, self.owner, "the name or number of a column", column)
        self.columns[word] = column

    def note_fractions(self, role: str, path: Path, cut: bool) -> None:
        """Warn where ids such as "7.0" are taken for "7" in one file and as they are in another."""
        other, before = self._fractions.setdefault(role, (path, cut))
        if before != cut:
            whole, mixed = (path, other) if cut else (other, path)
            warn(
                f'{whole}: ids such as "7.0" are read as "7", because all in their column are whole numbers; in '
                f"{mixed} not all are, and they stay as written. If these are the same ids, write them alike.",
                DataWarning,
            )

    @property
    def names(self) -> list[str]:
        """The names (not numbers) that the header should hold."""
        return [c for c in self.columns.values() if isinstance(c, str) and not c.isdecimal()]


def _parse_columns(owner: str, columns: Columns | None, words: Sequence[str]) -> Iterator[tuple[str, str | int]]:
    if columns is None:
        return
    pairs: list[tuple[Any, Any]]
    if isinstance(columns, str):
        pairs = []
        for text in columns.split(","):
            word, equals, name = text.partition("=")
            if not equals or not name.strip():
                raise ParameterError.invalid(
                    "columns", owner, "of the form 'expert=judge,item=3' (our word = your column)", columns
                )
            pairs.append((word.strip(), name.strip()))
    elif isinstance(columns, Mapping):
        pairs = list(columns.items())
    else:
        raise ParameterError.invalid("columns", owner, "text such as 'expert=judge,item=3', or a mapping", columns)
    seen: set[str] = set()
    for word, name in pairs:
        if word not in words:
            raise ParameterError.invalid("columns", owner, f"for words among {', '.join(words)}", word)
        if word in seen:
            raise ParameterError.invalid("columns", owner, f"one column for {word!r}", columns)
        if not isinstance(name, (str, int)) or isinstance(name, bool):
            raise ParameterError.invalid("columns", owner, "names or numbers of columns", name)
        seen.add(word)
        yield word, name


class ResolvedColumns:
    """The columns of one table by role, as requested or as their names say."""

    def __init__(self, table: TableFile, request: ColumnRequest) -> None:
        self.table = table
        self.request = request
        self.unsided = False
        # Whether the outcome is in one column for each possibility, of which exactly one is 1.
        self.one_hot = False
        self.lacking: list[str] = []
        self.by_name: dict[str, list[int]] = {}
        if table.header:
            for c, name in enumerate(table.names):
                self.by_name.setdefault(normalise_name(name), []).append(c)
        self.given = {word: self._given(word, name) for word, name in request.columns.items()}

    def _given(self, word: str, name: str | int) -> int:
        names = self.table.names if self.table.header else []
        if isinstance(name, str):
            same = [c for c, n in enumerate(names) if n == name]
            if len(same) > 1:
                raise ColumnError(
                    f"{self.table.path}: {len(same)} columns are called {quote(name)}. Say which by number."
                )
            if same:
                return same[0]
            if not name.isdecimal() or len(name) > 9:
                if not names:
                    raise ColumnError(
                        f"{self.table.path}: there is no column {quote(name)} for {word!r}: "
                        f"the file has no header. {self.table.describe()} Say which by number, counted from 1."
                    )
                raise _name_file(ColumnError.missing([name], names, f"columns={{{word!r}: ...}}."), self.table.path)
            name = int(name)
        if not 1 <= name <= len(self.table.names):
            raise ColumnError(
                f"{self.table.path}: there is no column {name} for {word!r}; columns are counted from 1. "
                f"{self.table.describe()}"
            )
        return name - 1

    def column(self, word: str, aliases: Sequence[str] | None = None, *, optional: bool = False) -> int | None:
        """Return the column of a role, None (noted as lacking unless it is optional) when there is none."""
        if word in self.given:
            return self.given[word]
        taken = set(self.given.values())
        for names in ((normalise_name(word),), ALIASES.get(word, ()) if aliases is None else aliases):
            found = sorted({c for n in names for c in self.by_name.get(n, ()) if c not in taken})
            if len(found) > 1 and not optional:
                those = ", ".join(quote(self.table.names[c]) for c in found[:10])
                raise ColumnError(
                    f"{self.table.path}: the columns {those} might all be the {word}. Say which: "
                    f"columns='{word}={shorten(self.table.names[found[0]])}' (--columns)."
                )
            if len(found) == 1:
                return found[0]
        if not optional:
            self.lacking.append(word)
        return None

    def check_lacking(self, what: str, needs: str) -> None:
        """Raise when a role was lacking."""
        if not self.lacking:
            return
        raise ColumnError(
            f"{self.table.path}: no column for {' and '.join(self.lacking)} was found; {what} need {needs}. "
            f"{self.table.describe()} Say which is which: columns={quote(self._example())} (--columns)."
        )

    def _example(self) -> str:
        parts = [f"{word}={c + 1}" for word, c in self.given.items()]
        free = iter(c for c in range(len(self.table.names)) if c not in self.given.values())
        for word in self.lacking:
            c = next(free, None)
            name = "..." if c is None else shorten(self.table.names[c], 40) if self.table.header else str(c + 1)
            parts.append(f"{word}={name or (c or 0) + 1}")
        return ",".join(parts)

    def part(
        self,
        roles: Mapping[str, int | None],
        id_roles: Sequence[str],
        values: Mapping[str, str],
        instance_from: str | None,
        null_values: Sequence[str] | None = None,
    ) -> TablePart:
        """Return the columns of the roles: ids as text, values as numbers, and the instance."""
        there = {role: c for role, c in roles.items() if c is not None}
        instance = there.get("instance", self.column("instance", (), optional=True))
        if instance is not None:
            there["instance"] = instance
        raw, row_numbers = self.table.read(list(there.values()))
        source = FileSource(table=self.table, row_numbers=row_numbers)
        frame = raw.select(pl.col(str(c)).alias(role) for role, c in there.items())
        part = self.with_instance(TablePart(frame, source), instance_from)
        return self.typed(part, there, id_roles, values, null_values) if id_roles or values else part

    def typed(
        self,
        part: TablePart,
        roles: Mapping[str, int | None],
        id_roles: Sequence[str],
        values: Mapping[str, str],
        null_values: Sequence[str] | None = None,
    ) -> TablePart:
        """Return rows with ids as text and values as numbers."""
        words = MISSING_WORDS if null_values is None else null_values
        frame, source = part
        there = {role: c for role, c in roles.items() if c is not None}
        # Columns of the same ids are tidied together. A column of outcomes may name items and is tidied with them.
        pair, outcomes = (("winner", "loser"), ()) if "loser" in there else (("left", "right"), ("winner",))
        for group, after in ((pair, outcomes), (("instance",), ()), (("expert",), ()), (("item",), ())):
            known = [r for r in group if r in there and (r in id_roles or r == "instance")]
            # In a Parquet file text is text, also where it looks like a number.
            if known and self.table.text:
                frame = self.tidy(frame, known, [r for r in after if r in there], [there[r] for r in known])
        for role, what in values.items():
            if role in there:
                frame = frame.with_columns(parse_numbers(frame[role], what, source, words).alias(role))
        # A row without a value needs no expert, and a row without a second item no right id. Builders check again.
        lone = next((frame[c].is_null() for c in ("value", "right") if c in there), None)
        outcome = "winner" if "loser" not in there else None
        for role in (*id_roles, "instance"):
            if role in there and role != outcome:
                optional = lone if role in ("expert", "right") else None
                frame = frame.with_columns(id_texts(frame[role], role, source, optional=optional).alias(role))
        return TablePart(frame, source)

    def tidy(
        self, frame: pl.DataFrame, roles: list[str], after: Sequence[str] = (), columns: Sequence[int] = ()
    ) -> pl.DataFrame:
        """Return tidied id columns, and warn when the files of one call are tidied differently."""
        frame, cut = tidy(frame, roles, after, partial(self.table.all_numbers, columns))
        if cut is not None:
            self.request.note_fractions(roles[0], self.table.path, cut)
        return frame

    def with_instance(self, part: TablePart, instance_from: str | None) -> TablePart:
        """Return the part with a column of instances."""
        if instance_from not in (None, "file"):
            raise ParameterError.invalid("instance_from", self.request.owner, "'file' or None", instance_from)
        if "instance" in part.frame.columns:
            return part
        name = stem(self.table.path) if instance_from == "file" else ONE_INSTANCE
        return part._replace(frame=part.frame.with_columns(pl.lit(name).alias("instance")))


def tidy(
    frame: pl.DataFrame, roles: Sequence[str], after: Sequence[str], elsewhere: Callable[[], bool]
) -> tuple[pl.DataFrame, bool | None]:
    """Return id columns with null for empty text, and without ".0" if all of them are whole numbers.

    Columns of `after` lose their ".0" with them. If the frame is a part of a file, `elsewhere` returns whether the ids
    of the other parts are whole numbers; it is called only if some id ends in ".0". The second result is whether ".0"
    was removed, or None if no id had it.
    """
    texts = [r for r in roles if frame[r].dtype == pl.String]
    if not texts:
        return frame, None
    # Columns without empty text are not copied.
    frame = frame.with_columns(frame[r].replace("", None) for r in texts if (frame[r] == "").any())
    whole = r"^(-?\d+)\.0+$"
    if not any(frame[r].str.contains(whole).any() for r in (*texts, *after)):
        return frame, None
    if not all(frame[r].str.contains(r"^-?\d+(\.0+)?$").fill_null(True).all() for r in texts) or not elsewhere():
        return frame, False
    return frame.with_columns(pl.col(r).str.replace(whole, "$1") for r in (*texts, *after)), True


def is_movielens(table: TableFile) -> bool:
    """Return whether the columns are user, item, rating and timestamp, as MovieLens has them without a header."""
    if table.header or len(table.names) != 4 or not all(is_number(c) for row in table.sample for c in row):
        return False
    if has_movielens_name(table.path):
        return True
    return all(row[3].isdecimal() and 9 <= len(row[3]) <= 10 and int(row[3]) >= 1e8 for row in table.sample)


def pair_form(resolved: ResolvedColumns) -> dict[str, int]:
    """Return the columns of items and outcomes of comparisons, by role."""
    given, table = resolved.given, resolved.table
    if "loser" in given or ("winner" in given and "left" not in given and "right" not in given):
        forms = ["loser", "sides"] if "loser" not in given else ["loser"]
    elif {*COUNTS, BOTH_BAD} & set(given):
        forms = ["counts"]
    else:
        forms = ["counts", "sides", "loser"]
    for form in forms:
        columns = _FORMS[form](resolved)
        if columns is not None:
            return columns
    if not table.header and not given:
        raise FormatError(
            f"{table.path}: no header says which column is which. {table.describe()} Say it yourself, for instance "
            "columns='expert=1,winner=2,loser=3' (--columns)."
        )
    raise ColumnError(
        f"{table.path}: the columns of the comparisons were not found. {_FORMS_HELP} {table.describe()} "
        "Say which is which, for instance columns='left=model_a,right=model_b,winner=winner' (--columns)."
    )


def _by_name(resolved: ResolvedColumns, names: Sequence[str]) -> int | None:
    """Return the one column with one of these names, None when there is none or more than one."""
    cells = [c for n in names for c in resolved.by_name.get(n, ()) if c not in resolved.given.values()]
    return cells[0] if len(cells) == 1 else None


def _loser_form(resolved: ResolvedColumns) -> dict[str, int] | None:
    winner = resolved.given.get("winner", _by_name(resolved, ALIASES["winner"]))
    loser = resolved.given.get("loser", _by_name(resolved, ALIASES["loser"]))
    return None if winner is None or loser is None else {"winner": winner, "loser": loser}


def _sides_of(resolved: ResolvedColumns, pairs: Sequence[tuple[str, str]]) -> tuple[int, int] | None:
    for a, b in pairs:
        left = resolved.given.get("left", _by_name(resolved, (a,)))
        right = resolved.given.get("right", _by_name(resolved, (b,)))
        if left is not None and right is not None:
            return left, right
    return None


def _sides_form(resolved: ResolvedColumns) -> dict[str, int] | None:
    pair = _sides_of(resolved, SIDE_PAIRS)
    winner = resolved.given.get("winner", _by_name(resolved, ("winner",)))
    if winner is None:
        winner = _by_name(resolved, ALIASES["outcome"])
    if pair is None or winner is None:
        return None
    return {"left": pair[0], "right": pair[1], "winner": winner}


def _counts_form(resolved: ResolvedColumns) -> dict[str, int] | None:
    for a, b, wins_a, wins_b, ties, bad, shown in COUNT_PAIRS:
        pair = _sides_of(resolved, [(a, b)])
        words = (("n_left", wins_a), ("n_right", wins_b), ("n_ties", ties), (BOTH_BAD, bad))
        counts = {word: resolved.given.get(word, _by_name(resolved, (name,))) for word, name in words}
        if pair is None or counts["n_left"] is None or counts["n_right"] is None:
            continue
        resolved.unsided = not shown
        resolved.one_hot = wins_a.startswith("winner") and "n_left" not in resolved.given
        return {"left": pair[0], "right": pair[1]} | {word: c for word, c in counts.items() if c is not None}
    return None


_FORMS: dict[str, Callable[[ResolvedColumns], dict[str, int] | None]] = {
    "loser": _loser_form,
    "sides": _sides_form,
    "counts": _counts_form,
}
