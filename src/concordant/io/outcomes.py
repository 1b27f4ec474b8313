"""Parses the outcomes of comparisons: words for sides (left, b, model_a, 0.5, tie) or names of winning items.

A whole column is read in one of the two ways. A column for which both are possible and differ is refused. A vote that
both sides were bad is told from a tie, so that the readers can keep the two apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from concordant.arrays import Floats
from concordant.errors import ConcordantError, ParameterError, quote
from concordant.io._row_sources import RowSource

__all__ = [
    "BAD_WORDS",
    "LEFT_WORDS",
    "RIGHT_WORDS",
    "TIE_WORDS",
    "OutcomeColumn",
    "OutcomeReader",
    "OutcomeWords",
    "OutcomeCounts",
    "count_outcomes",
]

OutcomeWords = Literal["sides", "items"] | Mapping[str, str | Sequence[str]]
_Reading = Literal["sides", "items"]
_Outcome = np.ndarray[tuple[int], np.dtype[np.int8]]
# Rows that are tried first.
_FEW = 1000

LEFT_WORDS = (
    "left",
    "l",
    "a",
    "first",
    "model_a",
    "answer_a",
    "response_a",
    "assistant_a",
    "option_a",
    "item_a",
    "1",
)
RIGHT_WORDS = (
    "right",
    "r",
    "b",
    "second",
    "model_b",
    "answer_b",
    "response_b",
    "assistant_b",
    "option_b",
    "item_b",
    "0",
)
TIE_WORDS = (
    "tie",
    "tied",
    "draw",
    "both",
    "equal",
    "same",
    "neither",
    "both good",
    "0.5",
)
BAD_WORDS = ("tie (bothbad)", "tie (both bad)", "bothbad", "both bad")
# What outcomes= may give words for, in the order of the codes.
_MEANINGS = ("left", "right", "tie", "both_bad")
_TIE, _BAD = 2, 3
_SHOWN = "left, right, tie; a, b; model_a, model_b; first, second; tie (bothbad), both, draw, neither; 1, 0, 0.5"


def _word(column: pl.Expr) -> pl.Expr:
    """Return words in lower case without blanks and underscores, and numbers in their shortest form (1.0 is 1)."""
    bare = column.str.to_lowercase().str.replace_all(r"[\s_]+", "")
    return bare.str.replace(r"^([01])\.0+$", "$1").str.replace(r"^0?\.50*$", "0.5")


def count_outcomes(
    winner: pl.Series,
    left: pl.Series,
    right: pl.Series,
    *,
    names: tuple[str, str] = ("left", "right"),
    words: OutcomeWords | None = None,
    source: RowSource | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Return, for every comparison, 1 where left won, 1 where right won, and 1 where they tied or both were bad.

    Parameters
    ----------
    winner, left, right : polars.Series of str
        The outcomes as written, and the two items.
    names : pair of str
        The names of the columns of the two items; each is also a word for its side.
    words : {"sides", "items"} or mapping, optional
        What the outcomes name. By default "sides" if every word names a side, and "items" if every word is the left
        item, the right item or a word for a tie. A mapping such as ``{"left": ["win"], "both_bad": ["D"]}`` adds words.
    source : RowSource, optional
        Where the rows come from, for messages.

    Notes
    -----
    Case, blanks and underscores are ignored. Words for sides: left/right, a/b, l/r, first/second, model_a/model_b (also
    answer_, response_, assistant_, option_, item_), 1/0 (the score of the left); for ties: tie, tied, draw, both,
    equal, same, neither, tie (bothbad) and 0.5.

    Examples
    --------
    >>> found = count_outcomes(pl.Series(["Left", "tie (bothbad)"]), pl.Series(["x", "y"]), pl.Series(["y", "z"]))
    >>> [counts.tolist() for counts in found]
    [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    """
    found = OutcomeReader(names, words).count(OutcomeColumn(winner, left, right), source or RowSource())
    return found.n_left, found.n_right, found.n_ties + found.n_both_bad


class OutcomeColumn(NamedTuple):
    """A column of outcomes as written, and the columns of the two items."""

    winner: pl.Series
    left: pl.Series
    right: pl.Series


class OutcomeCounts(NamedTuple):
    """For every comparison, 1 where left won, right won, they tied, or both were bad."""

    n_left: Floats
    n_right: Floats
    n_ties: Floats
    n_both_bad: Floats


class OutcomeReader:
    """Reads the outcomes of one file, in one part or several, and decides whether they name sides or items.

    Parameters
    ----------
    names, words
        As for `count_outcomes`.
    parts : callable, optional
        Returns all parts of the file once more. It is called when a part can be read both ways with different results,
        so that the other parts must decide.
    """

    def __init__(
        self,
        names: tuple[str, str],
        words: OutcomeWords | None,
        parts: Callable[[], Iterator[OutcomeColumn]] = lambda: iter(()),
    ) -> None:
        given = _given_words(words) if isinstance(words, Mapping) else {}
        if not isinstance(words, Mapping) and words not in (None, "sides", "items"):
            allowed = "'sides', 'items', a mapping such as {'left': ['win']}, or None"
            raise ParameterError.invalid("outcomes", "a reader of comparisons", allowed, words)
        self._words = _sides(names, given)
        # Whoever gives words for a side has outcomes that name sides.
        named = any(code < _TIE for code in given.values())
        both: tuple[_Reading, ...] = ("sides", "items")
        self._asked: tuple[_Reading, ...] = ("sides",) if named else both
        if words == "sides" or words == "items":
            self._asked = (words,)
        # The readings that explain all outcomes so far.
        self._fitting: tuple[_Reading, ...] = self._asked
        self._parts = parts
        self._no_side: tuple[RowSource, int] | None = None

    def count(self, column: OutcomeColumn, source: RowSource) -> OutcomeCounts:
        """Return the outcomes of a part of the file."""
        code = self._codes(column, source)
        return OutcomeCounts(*((code == k).astype(np.float64) for k in range(4)))

    def _codes(self, column: OutcomeColumn, source: RowSource) -> _Outcome:
        column = column._replace(winner=column.winner.fill_null(""))
        found = self._read(column, self._fitting)
        if not found:
            raise self._unreadable(column, source)
        if len(self._asked) == 2 and self._no_side is None and "sides" not in found:
            self._no_side = source, int(np.flatnonzero(self._by_side(column.winner) < 0)[0])
        self._fitting = tuple(found)
        if len(found) == 2 and (found["sides"] != found["items"]).any():
            self._look_ahead(column, source, int(np.flatnonzero(found["sides"] != found["items"])[0]))
        return found[self._fitting[0]]

    def _read(self, column: OutcomeColumn, readings: Sequence[_Reading]) -> dict[_Reading, _Outcome]:
        """Return the outcomes (0 left, 1 right, 2 tie, 3 both bad) under each reading that explains all of them."""
        found: dict[_Reading, _Outcome] = {}
        if "sides" in readings:
            code = self._by_side(column.winner)
            if (code >= 0).all():
                found["sides"] = code
        if "items" in readings:
            # Comparing names of items is slow: the first rows are tried first.
            head = self._by_item(OutcomeColumn(*(c.head(_FEW) for c in column)))
            if (head >= 0).all():
                code = self._by_item(column)
                if (code >= 0).all():
                    found["items"] = code
        return found

    def _by_side(self, winner: pl.Series) -> _Outcome:
        """Return what each word means: 0 left, 1 right, 2 tie, 3 both bad, -1 for an unknown word."""
        texts = winner.unique()
        meant = texts.to_frame("word").select(
            _word(pl.col("word")).replace_strict(self._words, default=-1, return_dtype=pl.Int8)
        )
        return winner.replace_strict(texts, meant.to_series(), return_dtype=pl.Int8).to_numpy()

    def _by_item(self, column: OutcomeColumn) -> _Outcome:
        """Return which item each outcome names, 2 for a tie, 3 for both bad, -1 for none."""
        ties, bad = ([w for w, code in self._words.items() if code == meant] for meant in (_TIE, _BAD))
        won, left, right = (_word(pl.col(c)) for c in ("winner", "left", "right"))
        # Exact matches first: two items may differ only in case.
        meant = (
            pl.when(pl.col("winner") == pl.col("left"))
            .then(0)
            .when(pl.col("winner") == pl.col("right"))
            .then(1)
            .when((won == left) & (won != right))
            .then(0)
            .when((won == right) & (won != left))
            .then(1)
            .when(won.is_in(ties))
            .then(_TIE)
            .when(won.is_in(bad))
            .then(_BAD)
            .otherwise(-1)
        )
        return pl.DataFrame(column._asdict()).select(meant.cast(pl.Int8)).to_series().to_numpy()

    def _look_ahead(self, column: OutcomeColumn, source: RowSource, row: int) -> None:
        """Decide between two readings by the other parts of the file, or raise."""
        fitting: Sequence[_Reading] = self._fitting
        for part in self._parts():
            fitting = tuple(self._read(part._replace(winner=part.winner.fill_null("")), fitting))
            if len(fitting) == 1:
                self._fitting = tuple(fitting)
            if len(fitting) < 2:
                return
        raise source.error(
            row,
            f"the outcome {quote(column.winner[row])} of {quote(column.left[row])} against "
            f"{quote(column.right[row])} may be the name "
            "of an item or the word for a side. Say which with outcomes='items' or outcomes='sides'.",
        )

    def _unreadable(self, column: OutcomeColumn, source: RowSource) -> ConcordantError:
        by = {"sides": self._by_side(column.winner), "items": self._by_item(column)}
        unknown = np.logical_and.reduce([by[reading] < 0 for reading in self._asked])
        seen = column.winner.value_counts(sort=True).rows()
        listed = ", ".join(f"{quote(w, 30)} ({n})" for w, n in seen[:12]) + (", …" if len(seen) > 12 else "")
        if not unknown.any():
            source, row = self._no_side or (source, int(np.flatnonzero(by["sides"] < 0)[0]))
            return source.error(
                row, f"some outcomes name a side and some name an item; write all one way. Seen: {listed}."
            )
        row = int(np.flatnonzero(unknown)[0])
        return source.error(
            row,
            f"the outcome {quote(column.winner[row], 60)} of {quote(column.left[row])} against "
            f"{quote(column.right[row])} is "
            f"not known. Seen: {listed}. Known: {_SHOWN}; or the name of the item, or of its column. Other words are "
            "read if you say what they mean, left, right, tie or both_bad: outcomes={'tie': ['even']}, on the command "
            'line --read \'outcomes={"tie": ["even"]}\'.',
        )


def _given_words(words: Mapping[Any, Any]) -> dict[str, int]:
    """Return the code of each word that the user gave, or raise."""
    example = "a mapping from left, right, tie or both_bad to words, such as {'left': ['A'], 'tie': ['C', 'D']}"
    given: dict[str, int] = {}
    for meaning, listed in words.items():
        each = [listed] if isinstance(listed, (str, int, float)) else listed
        if meaning not in _MEANINGS or not isinstance(each, Sequence) or not each:
            raise ParameterError.invalid("outcomes", "a reader of comparisons", example, words)
        for word in each:
            # A number that JSON or Python wrote without quotes is the text in the table.
            if not isinstance(word, (str, int, float)) or isinstance(word, bool):
                raise ParameterError.invalid("outcomes", "a reader of comparisons", example, words)
            if given.setdefault(str(word), _MEANINGS.index(meaning)) != _MEANINGS.index(meaning):
                raise ParameterError(f"outcomes= gives {quote(str(word))} two meanings. Keep one.")
    return given


def _sides(names: tuple[str, str], own: Mapping[str, int]) -> dict[str, int]:
    """Return the code of each word; names of columns override the common words, and words of the user override both."""
    given = [(w, k) for k, known in enumerate((LEFT_WORDS, RIGHT_WORDS, TIE_WORDS, BAD_WORDS)) for w in known]
    given += [(name, k) for k, name in enumerate(names) if name]
    given += own.items()
    words = pl.DataFrame(given, schema={"word": pl.String, "code": pl.Int64}, orient="row").select(
        _word(pl.col("word")), "code"
    )
    out = dict(words.rows())
    spelled = words.tail(len(own)).rows()
    twice = next((w for w, code in spelled if out[w] != code), None)
    if twice is not None:
        raise ParameterError(f"outcomes= gives {quote(twice)} two meanings: case, blanks and underscores do not count.")
    return out
