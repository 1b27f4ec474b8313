"""Reads tables: ratings, scores, rankings in three layouts, comparisons, labels, features, consensus.

The role of a column is what the user says (`columns=`), else what its name says (see `_column_names`). Nothing else is
guessed, with two exceptions that the numbers themselves confirm: the four columns of MovieLens, and a matrix of ranks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import polars as pl

from concordant._version import __version__
from concordant.arrays import Bools
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import OPTIONAL_COLUMNS, TEXT_COLUMNS, Consensus
from concordant.data.duplicates import check_duplicates
from concordant.data.features import Features
from concordant.data.index import Texts
from concordant.data.labels import Labels
from concordant.data.preferences import KINDS, Kind, Missing, Preferences, is_below
from concordant.errors import (
    ColumnError,
    DataError,
    DataWarning,
    FormatError,
    ParameterError,
    first_of,
    listing,
    quote,
    warn,
)
from concordant.execution import Cluster, RowRate, cluster, prefetch, report_note, report_progress, report_status
from concordant.io._builders import (
    OddIds,
    build_comparisons,
    build_consensus,
    build_features,
    build_labels,
    column_texts,
    declared_below,
    id_texts,
    parse_numbers,
    preference_rows,
)
from concordant.io._column_names import ALIASES, HEADER_WORDS, normalise_name
from concordant.io._column_roles import (
    BOTH_BAD,
    COUNTS,
    ColumnRequest,
    Columns,
    ResolvedColumns,
    TablePart,
    is_movielens,
    join_tables,
    naming_files,
    pair_form,
    table_parts,
)
from concordant.io._dictionary_encoding import DictionaryEncoder, EncodedRows, hash_expressions
from concordant.io._files import PathLike, expand, stem
from concordant.io._matrix import LAYOUTS, Layout, RankingMatrix, guess_layout
from concordant.io._pair_counter import PairCounter
from concordant.io._row_sources import FileSource
from concordant.io._sniff import is_qrels, most_lines_match
from concordant.io._tables import TableFile, open_table
from concordant.io._vote_columns import (
    CATEGORY_NAMES,
    TIME_NAMES,
    BothBad,
    Covariates,
    VoteFilter,
    VoteQuantities,
    VoteQuantity,
    filtered,
    raw_roles,
    typed_vote_columns,
)
from concordant.io.blocks import file_fingerprints
from concordant.io.formats import Head
from concordant.io.outcomes import OutcomeColumn, OutcomeReader, OutcomeWords
from concordant.io.trec import read_qrels

__all__ = [
    "LongTableReader",
    "LongTables",
    "long_rankings",
    "long_ratings",
    "long_scores",
    "dates_and_categories",
    "names_experts",
    "read_comparisons",
    "read_consensus",
    "read_feature_table",
    "read_labels",
    "read_rankings",
    "read_ratings",
    "read_scores",
]

Duplicates = Literal["error", "best", "first"]
# From this size on the next rows are read while others are encoded.
_LARGE_BYTES = 64 << 20
# Rows of a window, where a file is read in windows.
_WINDOW = 4_000_000
_PAIR_WORDS = ("expert", "left", "right", "winner", "loser", *COUNTS, BOTH_BAD, "weight", "time", "category")


def read_ratings(
    path: PathLike | Iterable[PathLike],
    *,
    columns: Columns | None = None,
    kind: Kind = "rating",
    instance: str | int | None = None,
    instance_from: Literal["file"] | None = None,
    higher_is_better: bool = True,
    duplicates: Duplicates = "error",
    null_values: Sequence[str] | None = None,
    missing: Missing | Sequence[str] | None = None,
    header: bool | None = None,
    file_type: str | None = None,
) -> Preferences:
    r"""Return the ratings in tables with one row for each expert and item.

    Parameters
    ----------
    path : path, glob, folder or a list of these
        CSV, TSV, blank-separated text, Parquet or JSON lines, plain or compressed; several are read as one.
    columns : str or mapping, optional
        Which column is which: ``"expert=judge,item=model,rating=stars"`` or a mapping, to names or to numbers counted
        from 1. Words: instance, expert, item, rating (or value), weight. Columns left out are found by their usual
        names (user, userId, worker, rater, ...; item, movieId, docno, ...; rating, score, stars, ...). MovieLens'
        ``u.data`` (user, item, rating, timestamp, no header) is recognised.
    kind : {"rating", "score", "rank"}
        What the values are.
    instance : str or int, optional
        The column of instances. Without it, and without a column called "instance", all ratings are one, "all".
    instance_from : {"file"}, optional
        Makes every file an instance, called by the file's stem.
    higher_is_better : bool
        False negates ratings and scores.
    duplicates : {"error", "best", "first"}
        What to do when an expert rates an item twice in an instance.
    null_values : sequence of str, optional
        Words for a missing value, case ignored; empty text, NA, N/A, NaN, NULL and None by default. The item is then
        known and not rated.
    missing : {"unknown", "below"}, optional
        Whether items that an expert does not rate are unknown to it or below those it rates; some methods use this. By
        default a column "missing" says so for each instance; without one, "unknown".
    header : bool, optional
        Whether the first row names the columns; found by content by default.
    file_type : {"csv", "tsv", "parquet", "jsonl"}, optional
        The file type; recognised by content by default.

    Notes
    -----
    Ids of text files are taken without outer blanks, and a column of ids in which every number is whole loses its ".0";
    in Parquet text stays as it is. Fields of text must be UTF-8. A damaged line is a ParseError with its number. Cost
    O(R log b) for R rows, in native code.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "stars.csv")
    >>> _ = path.write_text("userId,movieId,rating\nann,Alien,5\nann,Brazil,3\nbob,Brazil,4\n")
    >>> read_ratings(path)
    Preferences: 1 instance, 2 experts, 2 items, 3 ratings in 2 lists
    """
    return long_ratings(
        "read_ratings",
        path,
        columns=columns,
        kind=kind,
        instance=instance,
        instance_from=instance_from,
        higher_is_better=higher_is_better,
        duplicates=duplicates,
        null_values=null_values,
        missing=missing,
        header=header,
        file_type=file_type,
    ).preferences()


def _parse_missing(
    missing: Missing | Sequence[str] | None, null_values: Sequence[str] | None, owner: str
) -> tuple[Missing | None, Sequence[str] | None]:
    """Return the declared meaning of items that lists leave out (None if not declared), and the null words."""
    if missing is None:
        return None, null_values
    if isinstance(missing, str):
        return ("below" if is_below(cast(Missing, missing), owner) else "unknown"), null_values
    warn(
        f"words that mean no value go to null_values={quote(tuple(missing))} of {owner}; missing= is 'unknown' or "
        "'below'.",
        DataWarning,
    )
    return None, missing


class LongTables(NamedTuple):
    """Files with one row per expert and item, and how to read them."""

    files: list[Path]
    take: Callable[[TableFile], TablePart]
    request: ColumnRequest
    header: bool | None
    file_type: str | None
    kind: Kind
    duplicates: str
    negated: bool = False
    # Whether items that lists leave out are declared below; a column "missing" overrides this.
    below: bool = False
    # Whether large files may be read in windows of rows; a matrix may not.
    windowed: bool = True

    def preferences(self) -> Preferences:
        """Return everything the tables hold."""
        reader = LongTableReader(self, {})
        encoder = DictionaryEncoder()
        reader.read(encoder)
        return reader.preferences(encoder.finish())

    def is_large(self) -> bool:
        """Return whether it pays to read the next rows while others are encoded."""
        return sum(os.path.getsize(f) for f in self.files) >= _LARGE_BYTES

    def oriented(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the frame, with values negated if smaller is better."""
        return frame.with_columns(-pl.col("value")) if self.negated else frame


class LongTableReader:
    """Adds the rows of long tables to an encoder window by window, and builds preferences from the result."""

    def __init__(self, tables: LongTables, how: dict[str, Any]) -> None:
        self._tables = tables
        self._how = how
        # Whether a column "missing" declares "below", by instance.
        self._declared: dict[str, bool] = {}
        self._odd_ids = OddIds()

    def job(self) -> dict[str, Any]:
        """Return a description of files and options."""
        how = {name: repr(value) for name, value in self._how.items()}
        files = file_fingerprints(self._tables.files)
        return {"format": "table", "version": __version__, "window": _WINDOW, "how": how, "files": files}

    def state(self) -> dict[str, bool]:
        """Return what the column "missing" declared so far; steps share no other state."""
        return self._declared

    def restore(self, state: dict[str, bool]) -> None:
        """Restore what `state` returned."""
        self._declared = state

    def below(self, instances: Texts) -> bool | Bools:
        """Return whether items that a list leaves out are declared below what it holds."""
        if not self._declared:
            return self._tables.below
        return declared_below(self._declared, instances)

    @property
    def kind(self) -> Kind:
        """What the values are."""
        return self._tables.kind

    def names(self, experts: Sequence[Hashable]) -> list[str]:
        """Return the ids of the experts in the vocabulary of the encoder."""
        return [str(e) for e in experts]

    def n_steps(self) -> int:
        """Return the number of windows."""
        return sum(1 for _ in self._windows(lambda table: TablePart(pl.DataFrame(), FileSource(table=table)), 0))

    def _windows(self, take: Callable[[TableFile], TablePart], skip: int) -> Iterator[TablePart]:
        t = self._tables
        return table_parts(
            t.files, take, t.request, t.header, t.file_type, window=_WINDOW if t.windowed else None, skip=skip
        )

    def read_step(self, encoder: DictionaryEncoder, step: int) -> None:
        """Add the rows of one window to an encoder."""
        with naming_files(self._tables.files):
            self._add(encoder, next(self._parts(step)))
            self._odd_ids.warn()

    def merge_states(self, states: list[dict[str, bool]], begins: list[int]) -> None:
        """Merge what the column "missing" declared in windows that were read independently."""
        for state in states:
            for instance, below in state.items():
                if self._declared.setdefault(instance, below) != below:
                    raise DataError(
                        f"instance {quote(instance)} is declared missing='below' in some rows and 'unknown' in others."
                    )

    def read(self, encoder: DictionaryEncoder, done: int = 0, mark: Callable[[int], object] = int) -> None:
        """Add the rows of all windows after the first `done` to an encoder."""
        files, pace = self._tables.files, RowRate()
        with naming_files(files):
            parts = self._parts(done)
            for step, part in enumerate(
                _with_progress(prefetch(parts) if self._tables.is_large() else parts, files), done
            ):
                mark(step)
                self._add(encoder, part)
                report_status(pace.words(encoder.n_rows))
        self._odd_ids.warn()

    def _parts(self, skip: int) -> Iterator[TablePart]:
        """Yield the windows after the first `skip`, checked and hashed for the encoder."""
        t = self._tables
        for part in self._windows(t.take, skip):
            frame = preference_rows(t.oriented(part.frame), t.kind, part.source, self._declared, self._odd_ids)
            yield part._replace(frame=frame.with_columns(*hash_expressions()))

    def _add(self, encoder: DictionaryEncoder, part: TablePart) -> None:
        encoder.add(part.frame, source=part.source.compact())

    def preferences(self, rows: EncodedRows) -> Preferences:
        """Return encoded rows as preferences."""
        below = self.below(rows.slots.instances)
        with naming_files(self._tables.files):
            return rows.preferences(self._tables.kind, duplicates=self._tables.duplicates, below=below)


def long_ratings(
    owner: str,
    path: PathLike | Iterable[PathLike],
    *,
    columns: Columns | None = None,
    kind: Kind = "rating",
    instance: str | int | None = None,
    instance_from: Literal["file"] | None = None,
    higher_is_better: bool = True,
    duplicates: Duplicates = "error",
    null_values: Sequence[str] | None = None,
    missing: Missing | Sequence[str] | None = None,
    header: bool | None = None,
    file_type: str | None = None,
) -> LongTables:
    """Return the files of ratings or scores and how to read them; parameters as for `read_ratings`."""
    if kind not in KINDS:
        raise ParameterError.invalid("kind", owner, f"one of {', '.join(map(repr, KINDS))}", kind)
    check_duplicates(duplicates, owner)
    declared, words = _parse_missing(missing, null_values, owner)
    request = ColumnRequest(
        owner, columns, ("expert", "item", "value", "rating", "score", "rank", "weight", "missing"), instance
    )
    value_words = [w for w in ("value", "rating", "score", "rank") if w in request.columns]
    if len(value_words) > 1:
        raise ParameterError.invalid("columns", owner, f"one of {', '.join(value_words)}, not several", columns)

    def take(table: TableFile) -> TablePart:
        resolved = ResolvedColumns(table, request)
        movielens = not request.columns and is_movielens(table)
        roles = {
            "expert": 0 if movielens else resolved.column("expert"),
            "item": 1 if movielens else resolved.column("item"),
            "value": 2
            if movielens
            else resolved.column(value_words[0])
            if value_words
            else resolved.column("value", (kind, *ALIASES[kind])),
            "weight": resolved.column("weight", optional=True),
            "missing": None if declared else resolved.column("missing", optional=True),
        }
        resolved.check_lacking("ratings", "expert, item and rating")
        return resolved.part(roles, ("expert", "item"), {"value": kind, "weight": "weight"}, instance_from, words)

    negated = not higher_is_better and kind != "rank"
    return LongTables(expand(path), take, request, header, file_type, kind, duplicates, negated, declared == "below")


def read_scores(
    path: PathLike | Iterable[PathLike],
    *,
    columns: Columns | None = None,
    instance: str | int | None = None,
    duplicates: Duplicates = "error",
    null_values: Sequence[str] | None = None,
    missing: Missing | Sequence[str] | None = None,
    header: bool | None = None,
    file_type: str | None = None,
) -> Preferences:
    r"""Return the scores in tables of instance, item and score, every file an expert called by its stem.

    This is how a written consensus comes back to be evaluated or fused. Parameters as for `read_ratings`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "fused.csv")
    >>> _ = path.write_text("instance,item,score,rank\nq,a,0.5,1\nq,b,0.2,2\n")
    >>> read_scores(path).experts.tolist()
    ['fused']
    """
    return long_scores(
        "read_scores",
        path,
        columns=columns,
        instance=instance,
        duplicates=duplicates,
        null_values=null_values,
        missing=missing,
        header=header,
        file_type=file_type,
    ).preferences()


def long_scores(
    owner: str,
    path: PathLike | Iterable[PathLike],
    *,
    columns: Columns | None = None,
    instance: str | int | None = None,
    duplicates: Duplicates = "error",
    null_values: Sequence[str] | None = None,
    missing: Missing | Sequence[str] | None = None,
    header: bool | None = None,
    file_type: str | None = None,
) -> LongTables:
    """Return the files of scores, one expert per file, and how to read them; parameters as for `read_scores`."""
    check_duplicates(duplicates, owner)
    declared, words = _parse_missing(missing, null_values, owner)
    request = ColumnRequest(owner, columns, ("item", "score"), instance)

    def take(table: TableFile) -> TablePart:
        resolved = ResolvedColumns(table, request)
        roles = {
            "instance": resolved.column("instance", optional=True),
            "item": resolved.column("item"),
            "value": resolved.column("score"),
        }
        resolved.check_lacking("scores", "item and score")
        part = resolved.part(roles, ("item",), {"value": "score"}, None, words)
        name = stem(table.path)
        return part._replace(frame=part.frame.with_columns(pl.lit(name).alias("expert")))

    return LongTables(expand(path), take, request, header, file_type, "score", duplicates, below=declared == "below")


def read_comparisons(
    path: PathLike | Iterable[PathLike],
    *,
    columns: Columns | None = None,
    instance: str | int | None = None,
    instance_from: Literal["file"] | None = None,
    time: str | int | bool | None = None,
    category: str | int | bool | None = None,
    covariates: Covariates | None = None,
    where: str | Sequence[str] | None = None,
    distinct: str | Sequence[str] | None = None,
    outcomes: OutcomeWords | None = None,
    both_bad: BothBad | None = None,
    sided: bool | None = None,
    self_pairs: Literal["error", "drop"] = "error",
    collapse: bool = False,
    header: bool | None = None,
    file_type: str | None = None,
) -> Comparisons:
    r"""Return the comparisons in tables of votes: winner and loser, left and right and winner, or counts of pairs.

    The layouts of LMArena and Kaggle are read without options.

    Parameters
    ----------
    path : path, glob, folder or a list of these
        CSV, TSV, blank-separated text, Parquet, JSON lines or a JSON array, plain or compressed; several are read as
        one.
    columns : str or mapping, optional
        Which column is which: ``"left=model_a,right=model_b,winner=winner,expert=judge"`` or a mapping, to names or to
        numbers counted from 1. Words: instance, expert, left, right, winner, loser, n_left, n_right, n_ties,
        n_both_bad, weight, time, category. Columns left out are found by their usual names; a file without a header
        needs this.
    instance : str or int, optional
        The column of instances, such as the prompt. Without it, and without a column called "instance", all comparisons
        are one instance, "all".
    instance_from : {"file"}, optional
        Makes every file an instance, called by the file's stem.
    time, category : str, int or True, optional
        The columns that say when a vote was given (ISO 8601 dates or datetimes, without a zone in UTC, or Unix times;
        kept in seconds since 1970) and what it was about. True finds them by their usual names: tstamp, timestamp,
        date, ...; language, topic, .... Without them no such column is kept.
    covariates : str, sequence or mapping, optional
        What differs between the sides, kept as left minus right: columns that are left minus right already, or
        ``"length = length_a - length_b"``, or ``"length = (length_a - length_b) / (length_a + length_b)"``. A mapping
        goes from the name to such a text or to a pair of columns, whose difference is taken. ``"length"`` alone finds
        length_a and length_b. Fields of JSON objects in a column are named ``column.field``.
    where : str or sequence of str, optional
        Conditions on columns of the file, all of which a row must meet: ``"language=English"``, ``"turn>=2"``,
        ``"tstamp>=2024-06-01"``, with = != > >= < <=; bars separate values: ``"language=English|German"``. A text may
        hold several, with a semicolon between them. Rows that do not meet them are left out.
    distinct : str or sequence of str, optional
        Columns of the file, or expert and pair, such as ``"judge,question_id"`` or ``"expert,pair"``: of rows that are
        equal in all of them the first is kept.
    outcomes : {"sides", "items"} or mapping, optional
        Whether winner, beside left and right, holds words for sides or names of items; recognised by default. A mapping
        gives further words: ``{"left": ["A"], "right": ["B"], "tie": ["C"], "both_bad": ["D"]}``.
    both_bad : {"tie", "apart"}, optional
        Whether votes that both sides were bad are ties, or are kept apart as `n_both_bad`, which no method counts. Ties
        by default, unless the table has a column n_both_bad.
    sided : bool, optional
        Whether left and right are the order shown. By default they are for left and right, and are not for winner and
        loser, nor for counts of the form i, j, w_ij, w_ji, t_ij.
    self_pairs : {"error", "drop"}
        What to do with an item compared with itself.
    collapse : bool
        Whether to merge sides and experts while reading: the result is that of `Comparisons.collapse`, and memory grows
        with the pairs that met instead of the rows. Large files are then read in parts.
    header, file_type
        As for `read_ratings`.

    Notes
    -----
    Outcomes (case ignored): left, right, tie; a, b; model_a, model_b; first, second; 1, 0, 0.5 (the score of the
    left); tie (bothbad), both, draw, neither; the item's own name; its column's name; or one column for each, such as
    winner_model_a, winner_model_b, winner_tie. An unknown word is an error that lists those seen. Experts are optional.

    In a table of winner and loser a covariate needs a column for each, such as length_winner and length_loser.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "votes.csv")
    >>> _ = path.write_text("judge,model_a,model_b,winner\nann,m1,m2,model_a\nbob,m2,m1,tie (bothbad)\n")
    >>> read_comparisons(path)
    Comparisons: 1 instance, 2 experts, 2 items, 2 rows with 2 outcomes (1 ties)
    >>> _ = path.write_text(
    ...     "model_a,model_b,winner,language,len_a,len_b\nm1,m2,model_a,English,90,60\nm2,m1,model_b,German,40,80\n"
    ... )
    >>> read_comparisons(path, category="language", covariates=["len"], where="len_a>50").to_frame().rows()
    [('all', 'm1', 'm2', 1.0, 0.0, 0.0, 'English', 30.0)]
    """
    owner = "read_comparisons"
    request = ColumnRequest(owner, columns, _PAIR_WORDS, instance)
    for word, column in (("time", time), ("category", category)):
        if column is not None and not isinstance(column, bool):
            request.add(word, column)
    reader = _VoteReader(
        request,
        {"time": time is True, "category": category is True},
        VoteQuantities(owner, covariates),
        VoteFilter(owner, where, distinct),
        instance_from,
        outcomes,
        both_bad,
    )
    if not isinstance(collapse, bool):
        raise ParameterError.invalid("collapse", owner, "True or False", collapse)
    files = expand(path)
    if collapse:
        reader.check_collapsible()
    how: dict[str, Any]
    with naming_files(files):
        engine = cluster()
        if collapse and engine is not None:
            how = {"columns": columns, "instance": instance, "instance_from": instance_from, "outcomes": outcomes}
            how |= {"self_pairs": self_pairs, "header": header, "file_type": file_type, "where": where}
            return _collapsed_elsewhere(engine, files, how)
        if collapse:
            counter, pace = PairCounter(), RowRate()
            parts = table_parts(files, reader.take, request, header, file_type, window=_WINDOW)
            how = {"self_pairs": self_pairs, "experts": False}
            # The next part is read while this one is merged.
            for counts in prefetch(
                build_comparisons(part.frame, part.source, **how) for part in _with_progress(parts, files)
            ):
                counter.add(counts)
                report_status(pace.words(counter.n_rows))
            reader.tell()
            return counter.comparisons()
        frame, rows = join_tables(files, reader.take, request, header, file_type)
        shown = reader.sided if sided is None else sided
        found = build_comparisons(frame, rows, sided=shown, self_pairs=self_pairs, covariates=reader.covariates)
        reader.tell()
        return found


class _VoteReader:
    """Takes the votes of one table after the other, in the columns that `build_comparisons` needs."""

    def __init__(
        self,
        request: ColumnRequest,
        found: dict[str, bool],
        quantities: VoteQuantities,
        rows: VoteFilter,
        instance_from: Literal["file"] | None,
        outcomes: OutcomeWords | None,
        both_bad: BothBad | None,
    ) -> None:
        if both_bad not in (None, "tie", "apart"):
            raise ParameterError.invalid("both_bad", request.owner, "'tie', 'apart' or None", both_bad)
        self.covariates: list[str] = []
        self._request, self._found, self._quantities, self._filter = request, found, quantities, rows
        self._instance_from, self._outcomes, self._both_bad = instance_from, outcomes, both_bad
        self._sides: list[bool] = []
        self._decided: dict[Path, OutcomeReader] = {}
        self._merged_bad = 0.0

    @property
    def sided(self) -> bool:
        """Whether left and right are the order shown in all tables so far."""
        return all(self._sides)

    def check_collapsible(self) -> None:
        """Raise if what was asked for is lost where votes are collapsed while reading."""
        asked = {"time": self._found["time"] or "time" in self._request.columns}
        asked |= {"category": self._found["category"] or "category" in self._request.columns}
        asked |= {"covariates": bool(self._quantities), "distinct": self._filter.is_global}
        asked |= {"both_bad='apart'": self._both_bad == "apart"}
        named = [word for word, is_asked in asked.items() if is_asked]
        if named:
            raise ParameterError(
                f"collapse=True adds up votes by pair while it reads, and cannot go with {', '.join(named)}. Read all "
                "votes, then call collapse(keep=...)."
            )

    def tell(self) -> None:
        """Report what was left out or merged; raise if no row is left."""
        self._filter.tell()
        if self._merged_bad and self._both_bad is None:
            report_note(
                f"{self._merged_bad:,.10g} votes say that both sides were bad; they count as ties (--read "
                "both_bad=apart leaves them out)."
            )

    def take(self, table: TableFile) -> TablePart:
        """Return the votes of a table, or of a window of its rows."""
        part, form, quantities, one_hot = self._read(table, count=True)
        frame, source = part
        names = [quantity.name for quantity in quantities]
        if self.covariates and names != self.covariates:
            raise ColumnError(f"{table.path}: the covariates are {names}, those of the files before {self.covariates}.")
        self.covariates = names
        if "loser" in form:
            frame = frame.rename({"winner": "left", "loser": "right"})
            frame = frame.with_columns(n_left=pl.lit(1.0), n_right=pl.lit(0.0), n_ties=pl.lit(0.0))
        elif "winner" in form:
            if table.path not in self._decided:
                sides = (table.names[form["left"]], table.names[form["right"]])
                parts = partial(self._written_again, table)
                self._decided[table.path] = OutcomeReader(sides, self._outcomes, parts)
            counted = self._decided[table.path].count(_written(TablePart(frame, source)), source)
            known = zip((*COUNTS, BOTH_BAD), counted, strict=True)
            frame = frame.drop("winner").with_columns(pl.Series(name, column) for name, column in known)
        elif one_hot:
            frame = _checked_one_hot(frame, source)
        frame = frame.with_columns(pl.lit(0.0).alias(c) for c in COUNTS if c not in frame.columns)
        by_name = BOTH_BAD in form and not one_hot
        frame = typed_vote_columns(self._with_both_bad(frame, by_name), self._quantities, quantities, source)
        return TablePart(frame, source)

    def _written_again(self, table: TableFile) -> Iterator[OutcomeColumn]:
        return (_written(self._read(part, count=False)[0]) for part in table.all_parts())

    def _read(self, table: TableFile, *, count: bool) -> tuple[TablePart, dict[str, int], list[VoteQuantity], bool]:
        """Return the rows that are kept, the columns of items and outcomes, and the covariates."""
        resolved = ResolvedColumns(table, self._request)
        form = pair_form(resolved)
        winners = "loser" in form
        roles: dict[str, int | None] = {**form}
        roles |= {word: resolved.column(word, optional=True) for word in ("expert", "weight")}
        for word, usual in (("time", TIME_NAMES), ("category", CATEGORY_NAMES)):
            if word in resolved.given or self._found[word]:
                roles[word] = resolved.column(word, usual)
        resolved.check_lacking("votes", "the columns that were asked for")
        roles["instance"] = resolved.column("instance", (), optional=True)
        at = f"{table.path}: "
        quantities = self._quantities.resolve(table.names, at, winners=winners)
        conditions, keys = self._filter.conditions(table.names, at), self._filter.keys(table.names, at)
        roles |= raw_roles(quantities, conditions, keys)
        numbers = () if resolved.one_hot else (*COUNTS, BOTH_BAD)
        given = {c: c for c in (*numbers, "weight") if roles.get(c) is not None}
        ids = ("left", "right", "winner", "loser", "expert")
        if conditions:
            # Rows that are left out may lack ids.
            part = resolved.part(roles, (), {}, self._instance_from)
            kept = self._filter.kept(part.frame, conditions, part.source, count=count)
            part = TablePart(*filtered(part.frame, part.source, kept))
            part = resolved.typed(part, roles, ids, given)
        else:
            part = resolved.part(roles, ids, given, self._instance_from)
            self._filter.kept(part.frame, conditions, part.source, count=count)
        self._sides.append(not winners and not resolved.unsided)
        if keys and count:
            sides = {"winner": "left", "loser": "right"} if winners else {}
            kept = self._filter.first_of_each(part.frame.rename(sides), keys)
            part = TablePart(*filtered(part.frame, part.source, kept))
        return part, form, quantities, resolved.one_hot

    def _with_both_bad(self, frame: pl.DataFrame, by_name: bool) -> pl.DataFrame:
        """Return the frame with votes that both sides were bad as ties, or in a column of their own."""
        if BOTH_BAD not in frame.columns:
            apart = self._both_bad == "apart"
            return frame.with_columns(pl.lit(0.0).alias(BOTH_BAD)) if apart else frame
        if self._both_bad == "apart" or (self._both_bad is None and by_name):
            return frame
        bad = frame[BOTH_BAD].fill_null(0.0)
        total = float(bad.sum())
        self._merged_bad += total
        frame = frame.drop(BOTH_BAD)
        return frame.with_columns((frame["n_ties"] + bad).alias("n_ties")) if total else frame


def _written(part: TablePart) -> OutcomeColumn:
    left, right = (id_texts(part.frame[c], f"{c} item", part.source) for c in ("left", "right"))
    return OutcomeColumn(column_texts(part.frame["winner"]), left, right)


def _checked_one_hot(frame: pl.DataFrame, source: FileSource) -> pl.DataFrame:
    """Return one column of 0 and 1 for each outcome as numbers; raise where not exactly one of them is 1."""
    names = [c for c in (*COUNTS, BOTH_BAD) if c in frame.columns]
    words = {"true": "1", "false": "0"}
    for name in names:
        column = frame[name]
        if column.dtype == pl.String:
            column = column.str.to_lowercase().replace(words)
        frame = frame.with_columns(parse_numbers(column, f"outcome {name}", source).alias(name))
    total = frame.select(pl.sum_horizontal(names)).to_series()
    whole = frame.select(pl.all_horizontal(pl.col(names).is_in([0.0, 1.0]))).to_series().fill_null(False)
    wrong = (~whole | (total != 1)).arg_true()
    if len(wrong):
        row = int(wrong[0])
        found = ", ".join(f"{frame[name][row]}" for name in names)
        raise source.error(row, f"exactly one of the columns of outcomes must be 1 and the others 0. Got {found}.")
    return frame


def _collapsed_elsewhere(engine: Cluster, files: list[Path], how: dict[str, Any]) -> Comparisons:
    """Read and collapse every file on a worker of the cluster, and return the counts of all files."""
    counter = PairCounter()
    handles = [engine.submit(_collapsed_file, file, how) for file in files]
    for done, handle in enumerate(handles, 1):
        counter.add(engine.result(handle))
        report_progress(done, len(files))
    return counter.comparisons()


def _collapsed_file(file: Path, how: dict[str, Any]) -> Comparisons:
    return read_comparisons(file, collapse=True, **how)


def dates_and_categories(path: PathLike | Iterable[PathLike], *, columns: Columns | None = None) -> dict[str, str]:
    """Return the columns that hold times and categories by their usual names, in all tables of votes.

    The result goes to `time=` and `category=` of `read_comparisons`; nothing is looked for under names such as "time",
    which may be durations.
    """
    request = ColumnRequest("read_comparisons", columns, _PAIR_WORDS, None)
    usual = {"time": TIME_NAMES, "category": ("category", *CATEGORY_NAMES)}
    out: dict[str, str] = {}
    for n, file in enumerate(expand(path)):
        table = open_table(file, words=HEADER_WORDS, named=request.names)
        by_name = ResolvedColumns(table, request).by_name
        held = {
            word: table.names[next(iter(by_name[name]))]
            for word, names in usual.items()
            if (name := next((name for name in names if len(by_name.get(name, ())) == 1), None)) is not None
        }
        out = held if n == 0 else {word: name for word, name in out.items() if held.get(word) == name}
    return out


def names_experts(path: PathLike | Iterable[PathLike], *, columns: Columns | None = None) -> bool:
    """Return whether tables of comparisons have a column of experts."""
    request = ColumnRequest("read_comparisons", columns, _PAIR_WORDS, None)
    return any(
        ResolvedColumns(open_table(file, words=HEADER_WORDS, named=request.names), request).column(
            "expert", optional=True
        )
        is not None
        for file in expand(path)
    )


def _with_progress(parts: Iterable[TablePart], files: list[Path]) -> Iterator[TablePart]:
    """Yield the parts of files and report the progress in bytes after each."""
    sizes = {file: os.path.getsize(file) for file in files}
    ends = dict(zip(files, accumulate(sizes.values()), strict=True))
    for part in parts:
        yield part
        table = part.source.file()
        report_progress(int(ends[table.path] - (1.0 - table.share) * sizes[table.path]), sum(sizes.values()))


def read_labels(
    path: PathLike | Iterable[PathLike],
    *,
    columns: Columns | None = None,
    instance: str | int | None = None,
    instance_from: Literal["file"] | None = None,
    duplicates: Duplicates = "error",
    null_values: Sequence[str] | None = None,
    header: bool | None = None,
    file_type: str | None = None,
) -> Labels:
    r"""Return the labels in TREC qrels, or in tables of instance, item and label.

    Parameters
    ----------
    path : path, glob, folder or a list of these
        Qrels (``instance iteration item label``), or CSV, TSV, blank-separated text, Parquet or JSON lines.
    columns : str or mapping, optional
        Which column is which; words: instance, item, label. Columns left out are found by their usual names (query,
        qid, topic; item, docno, docid; label, relevance, gold). A file without a header that is not qrels needs this.
    instance : str or int, optional
        The column of instances; without any, all labels are one instance, "all".
    null_values : sequence of str, optional
        Words for a missing label, case ignored; such items are known and unlabelled.
    duplicates : {"error", "best", "first"}
        What to do when an item has two different labels.
    instance_from, header, file_type
        As for `read_ratings`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "gold.csv")
    >>> _ = path.write_text("query,docno,relevance\n301,d1,2\n301,d2,0\n")
    >>> read_labels(path)
    Labels: 1 instance, 2 items, labels 0 to 2
    """
    check_duplicates(duplicates, "read_labels")
    request = ColumnRequest("read_labels", columns, ("item", "label"), instance)
    files = expand(path)
    if not request.columns and header is None and file_type is None and instance_from is None:
        # If most lines of a file are qrels, it is damaged, and the reader of qrels names the line.
        qrels = [most_lines_match(is_qrels, Head.of(file)) for file in files]
        if all(qrels) and duplicates == "error" and null_values is None:
            return read_qrels(files)

    def take(table: TableFile) -> TablePart:
        resolved = ResolvedColumns(table, request)
        if not request.columns and not table.header and is_qrels(Head.of(table.path)):
            roles: dict[str, int | None] = {"instance": 0, "item": 2, "label": 3}
        else:
            roles = {
                "instance": resolved.column("instance", ALIASES["instance"], optional=True),
                "item": resolved.column("item"),
                "label": resolved.column("label"),
            }
            resolved.check_lacking("labels", "instance, item and label")
        return resolved.part(roles, ("item",), {"label": "label"}, instance_from, null_values)

    with naming_files(files):
        frame, rows = join_tables(files, take, request, header, file_type)
        return build_labels(frame, rows, duplicates=duplicates)


def read_feature_table(path: PathLike | Iterable[PathLike], *, columns: Columns | None = None) -> Features:
    r"""Return the features in tables with the columns instance, item and one for each feature.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "features.csv")
    >>> _ = path.write_text("instance,item,bm25,length\nq,a,1.5,20\nq,b,0.5,31\n")
    >>> read_feature_table(path)
    Features: 1 instance, 2 items, 2 features
    """
    request = ColumnRequest("read_feature_table", columns, ("item",), None)
    files = expand(path)
    names: list[list[str]] = []

    def take(table: TableFile) -> TablePart:
        resolved = ResolvedColumns(table, request)
        roles = {
            "instance": resolved.column("instance", ALIASES["instance"], optional=True),
            "item": resolved.column("item"),
        }
        resolved.check_lacking("features", "instance, item and the features")
        rest = [c for c in range(len(table.names)) if c not in roles.values()]
        # A column without a name is called by its number.
        names.append([table.names[c] or str(c + 1) for c in rest])
        if names[-1] != names[0]:
            raise FormatError(
                f"{table.path}: the features are {listing(names[-1])}, those of {files[0]} are {listing(names[0])}."
            )
        features = {f"feature {k}": c for k, c in enumerate(rest)}
        return resolved.part({**roles, **features}, ("item",), {f: table.names[c] for f, c in features.items()}, None)

    with naming_files(files):
        frame, rows = join_tables(files, take, request, None, None)
        return build_features(frame, {f"feature {k}": name for k, name in enumerate(names[0])}, rows)


def read_consensus(path: PathLike | Iterable[PathLike], *, columns: Columns | None = None) -> Consensus:
    r"""Return the consensus in tables of instance, item and score, with ranks and intervals where they are there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "fused.csv")
    >>> _ = path.write_text("instance,item,score,rank\nq,a,0.5,1\nq,b,0.2,2\n")
    >>> read_consensus(path).ranking()
    ['a', 'b']
    """
    optional = ("rank", *OPTIONAL_COLUMNS)
    request = ColumnRequest("read_consensus", columns, ("item", "score", *optional, *TEXT_COLUMNS), None)
    files = expand(path)

    def take(table: TableFile) -> TablePart:
        resolved = ResolvedColumns(table, request)
        roles = {
            "instance": resolved.column("instance", ALIASES["instance"], optional=True),
            "item": resolved.column("item"),
            "score": resolved.column("score"),
            **{
                name: resolved.column(name, (normalise_name(name),), optional=True)
                for name in (*optional, *TEXT_COLUMNS)
            },
        }
        resolved.check_lacking("a consensus", "instance, item and score")
        return resolved.part(roles, ("item",), {}, None)

    with naming_files(files):
        frame, rows = join_tables(files, take, request, None, None)
        return build_consensus(frame, rows)


def read_rankings(
    path: PathLike | Iterable[PathLike],
    layout: Layout | None = None,
    experts: Literal["rows", "columns"] = "rows",
    *,
    columns: Columns | None = None,
    instance: str | int | None = None,
    instance_from: Literal["file"] | None = None,
    duplicates: Duplicates = "error",
    null_values: Sequence[str] | None = None,
    missing: Missing | Sequence[str] | None = None,
    header: bool | None = None,
    file_type: str | None = None,
) -> Preferences:
    r"""Return the rankings in tables of one of three layouts.

    Parameters
    ----------
    path : path, glob, folder or a list of these
        CSV, TSV, blank-separated text, Parquet or JSON lines, plain or compressed; several are read as one.
    layout : {"long", "ranks", "orders"}, optional
        "long": a row for every expert and item, with columns expert, item, rank and perhaps instance. "ranks": a row
        per expert, a column per item, ranks in the cells. "orders": a row per expert, a column per position, items in
        the cells. Guessed only when nothing else is possible, and a matrix guessed to be one is a DataWarning.
    experts : {"rows", "columns"}
        "columns" turns the matrix: a column per expert.
    columns : str or mapping, optional
        Which column is which. Words: instance, expert, item, rank, weight; in a matrix expert (with experts="columns",
        item) names the column of row names, which is otherwise the first if it has no name.
    instance, instance_from, duplicates, header, file_type
        As for `read_ratings`; in the long layout the usual names of an instance (query, topic, ...) are found too.
    null_values : sequence of str, optional
        Words for "not ranked", case ignored. By default empty text, NA, N/A, NaN, NULL, None, and in a matrix 0; if 0
        may also be the first rank or an item, the reader raises an error that asks.
    missing : {"unknown", "below"}, optional
        Whether items that a list leaves out are unknown to it or below, as for `read_ratings`.

    Notes
    -----
    Without row names the experts are called "1", "2", ... Ranks are kept as they are, gaps and ties included.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "judges.csv")
    >>> _ = path.write_text("judge,1st,2nd,3rd\nann,red,blue,green\nbob,blue,red,\n")
    >>> read_rankings(path, layout="orders", columns="expert=judge").to_frame().rows()[3:]
    [('all', 'bob', 'blue', 1.0), ('all', 'bob', 'red', 2.0)]
    """
    if layout is not None and layout not in LAYOUTS:
        raise ParameterError.invalid("layout", "read_rankings", f"one of {', '.join(map(repr, LAYOUTS))}", layout)
    if experts not in ("rows", "columns"):
        raise ParameterError.invalid("experts", "read_rankings", "'rows' or 'columns'", experts)
    check_duplicates(duplicates, "read_rankings")
    declared, words = _parse_missing(missing, null_values, "read_rankings")
    request = ColumnRequest("read_rankings", columns, ("expert", "item", "rank", "weight", "missing"), instance)
    files = expand(path)
    guessed: list[tuple[str, int, int]] = []

    def take(table: TableFile) -> TablePart:
        resolved = ResolvedColumns(table, request)
        chosen = layout or guess_layout(resolved, experts)
        if chosen == "long":
            return _long_ranks(resolved, instance_from, words, declared)
        if "rank" in request.columns or (experts == "rows" and "item" in request.columns):
            raise ParameterError.invalid(
                "columns",
                "read_rankings",
                f"of the words instance, expert, weight in the layout {chosen!r}",
                columns,
            )
        matrix = RankingMatrix(resolved, experts)
        if header is None and not table.header:
            matrix.check_header(chosen)
        part = matrix.ranks(words) if chosen == "ranks" else matrix.orders(words)
        guessed.append((chosen, *matrix.shape))
        return resolved.with_instance(part, instance_from)

    below = declared == "below"
    tables = LongTables(
        files, take, request, header, file_type, "rank", duplicates, below=below, windowed=layout == "long"
    )
    out = tables.preferences()
    if layout is None and guessed:
        chosen, n, m = guessed[0]
        warn(
            f"{first_of(files)}: read as layout {chosen!r}, {n} experts in {experts} and {m} "
            f"{'items' if chosen == 'ranks' else 'positions'}. Pass layout={chosen!r} (--format {chosen}) to say so.",
            DataWarning,
        )
    return out


def _long_ranks(
    resolved: ResolvedColumns,
    instance_from: Literal["file"] | None,
    null_values: Sequence[str] | None,
    declared: Missing | None,
) -> TablePart:
    roles = {
        "instance": resolved.column("instance", ALIASES["instance"], optional=True),
        "expert": resolved.column("expert"),
        "item": resolved.column("item"),
        "value": resolved.column("rank"),
        "weight": resolved.column("weight", optional=True),
        "missing": None if declared else resolved.column("missing", optional=True),
    }
    resolved.check_lacking("rankings in the long layout", "expert, item and rank")
    return resolved.part(roles, ("expert", "item"), {"value": "rank", "weight": "weight"}, instance_from, null_values)


def long_rankings(
    owner: str,
    path: PathLike | Iterable[PathLike],
    *,
    columns: Columns | None = None,
    instance: str | int | None = None,
    instance_from: Literal["file"] | None = None,
    duplicates: Duplicates = "error",
    null_values: Sequence[str] | None = None,
    missing: Missing | Sequence[str] | None = None,
    header: bool | None = None,
    file_type: str | None = None,
) -> LongTables:
    """Return the files of rankings in the long layout and how to read them; a matrix cannot be read in blocks."""
    check_duplicates(duplicates, owner)
    declared, words = _parse_missing(missing, null_values, owner)
    request = ColumnRequest(owner, columns, ("expert", "item", "rank", "weight", "missing"), instance)

    def take(table: TableFile) -> TablePart:
        return _long_ranks(ResolvedColumns(table, request), instance_from, words, declared)

    return LongTables(expand(path), take, request, header, file_type, "rank", duplicates, below=declared == "below")
