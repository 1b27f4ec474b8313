"""Table formats (ratings, rankings, comparisons, labels, ...), recognised by column names in any type of file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

from concordant.data.preferences import Preferences
from concordant.errors import ConcordantError, ParameterError
from concordant.io import tabular
from concordant.io._builders import MISSING_WORDS
from concordant.io._column_names import ALIASES, HEADER_WORDS, normalise_name
from concordant.io._column_roles import Columns, is_movielens, pair_form
from concordant.io._matrix import guess_layout
from concordant.io._tables import is_number
from concordant.io.blocks import RowReader
from concordant.io.formats import Head, check_options, register_format

__all__ = ["format_of_columns"]

# The format that a role in columns= implies.
_FORMAT_OF_ROLES = (
    ("comparisons", ("left", "right", "winner", "loser", "n_left", "n_right", "n_ties", "n_both_bad")),
    ("labels", ("label",)),
    ("rankings", ("rank",)),
    ("ratings", ("rating", "score", "value")),
)


# Cells of features that are not known.
_UNKNOWN = frozenset(word.casefold() for word in MISSING_WORDS)


def format_of_columns(columns: Columns) -> str | None:
    """Return the format that the roles in columns= imply, None if they do not tell."""
    words = _roles(columns)
    return next((name for name, known in _FORMAT_OF_ROLES if words & set(known)), None)


def _roles(columns: Columns) -> set[str]:
    return {part.partition("=")[0].strip() for part in (columns.split(",") if isinstance(columns, str) else columns)}


def _names(head: Head) -> set[str]:
    return set() if head.columns is None else set(head.columns.by_name)


def _has(head: Head, *words: str) -> bool:
    """Return whether each role has at least one column with a usual name."""
    known = _names(head)
    return all(known & {normalise_name(w), *ALIASES.get(w, ())} for w in words)


def _is_comparisons(head: Head) -> bool:
    if head.columns is None:
        return False
    try:
        pair_form(head.columns)
    except ConcordantError:
        return False
    return True


def _is_ratings(head: Head) -> bool:
    if head.table is not None and is_movielens(head.table):
        return True
    return _has(head, "expert", "item", "rating") and not _is_comparisons(head)


@wraps(tabular.read_ratings)
def _read_ratings(paths: list[Path], **options: Any) -> Preferences:
    """Read ratings, or scores if the column is called so."""
    return tabular.read_ratings(paths, **_with_kind(paths, options))


def _with_kind(paths: list[Path], options: dict[str, Any]) -> dict[str, Any]:
    return options if "kind" in options else options | _kind_of_ratings(paths, options.get("columns"))


def _kind_of_ratings(paths: list[Path], columns: Columns | None) -> dict[str, str]:
    """Return the option `kind` if the column names say scores."""
    if columns is not None:
        return {"kind": "score"} if "score" in _roles(columns) else {}
    names = _names(Head.of(paths[0]))
    return {"kind": "score"} if "score" in names and "rating" not in names else {}


def _is_long(head: Head) -> bool:
    return _has(head, "expert", "item", "rank")


def _is_rankings(head: Head) -> bool:
    if head.columns is None or _is_comparisons(head):
        return False
    if _is_long(head):
        return True
    try:
        return guess_layout(head.columns) != "long"
    except ConcordantError:
        return False


def _is_labels(head: Head) -> bool:
    return _has(head, "instance", "item", "label") and not _has(head, "expert")


def _is_scores(head: Head) -> bool:
    return {"instance", "item", "score"} <= _names(head) and not _has(head, "expert")


def _is_feature_table(head: Head) -> bool:
    names = _names(head)
    if head.table is None or not {"instance", "item"} < names:
        return False
    rest = [c for c, n in enumerate(head.table.names) if normalise_name(n) not in ("instance", "item")]
    return not names & (HEADER_WORDS - {"instance", "item"}) and all(
        is_number(row[c]) or row[c].casefold() in _UNKNOWN for row in head.table.sample for c in rest
    )


def _scanner(
    name: str,
    tables: Callable[..., tabular.LongTables],
    complete: Callable[[list[Path], dict[str, Any]], dict[str, Any]] = lambda _, options: options,
) -> Callable[[list[Path], dict[str, Any]], RowReader]:
    """Return a function from paths and options to a reader of blocks; `complete` adds options that the files imply."""

    def scan(paths: list[Path], options: dict[str, Any]) -> RowReader:
        options = complete(paths, options)
        layout = options.pop("layout", "long")
        if layout != "long":
            raise ParameterError.invalid("layout", "scan", "'long'; a matrix is one instance", layout)
        check_options(name, tables, options, skip=2)
        return tabular.LongTableReader(tables("scan", paths, **options), {"format": name, **options})

    return scan


_register = partial(register_format, table=True)
_register("comparisons", "a table of comparisons", read=tabular.read_comparisons, sniff=_is_comparisons)
_register(
    "ratings",
    "a table of expert, item, rating",
    read=_read_ratings,
    sniff=_is_ratings,
    scan=_scanner("ratings", tabular.long_ratings, _with_kind),
    usual=("ratings there are methods that use the values", "comb-mnz"),
)
_register(
    "rankings",
    "a table of rankings, its layout found by content",
    read=tabular.read_rankings,
    sniff=_is_rankings,
    scan=_scanner("rankings", tabular.long_rankings),
    is_long=_is_long,
)
_register(
    "long",
    "a table of expert, item, rank",
    read=partial(tabular.read_rankings, layout="long"),
    scan=_scanner("long", tabular.long_rankings),
)
_register("labels", "a table of instance, item, label", read=tabular.read_labels, sniff=_is_labels, is_truth=True)
_register(
    "scores",
    "a table of instance, item, score: one expert per file",
    read=tabular.read_scores,
    sniff=_is_scores,
    scan=_scanner("scores", tabular.long_scores),
)
_register(
    "features", "a table of instance, item and features", read=tabular.read_feature_table, sniff=_is_feature_table
)
for _name, _about, _how in (
    ("ranks", "a matrix, experts by items, of ranks", {"layout": "ranks"}),
    ("orders", "a matrix, experts by positions, of items", {"layout": "orders"}),
    ("ranks-columns", "the same as ranks with experts in columns", {"layout": "ranks", "experts": "columns"}),
    ("orders-columns", "the same as orders with experts in columns", {"layout": "orders", "experts": "columns"}),
):
    _register(_name, _about, read=partial(tabular.read_rankings, **_how))  # type: ignore[arg-type]
