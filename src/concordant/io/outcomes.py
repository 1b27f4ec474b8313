"""The words in which people write down who won a comparison.

A column of outcomes either names sides (left, b, model_a, 0.5, tie) or names the winning item. Which of the two is
decided for the whole column, and a column that could be both and would differ is refused.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl

from concordant.errors import ParameterError, shorten
from concordant.io._rows import Rows
from concordant.kernels.lists import Floats

__all__ = ["LEFT_WORDS", "RIGHT_WORDS", "TIE_WORDS", "OutcomeWords", "count_outcomes"]

OutcomeWords = Literal["sides", "items"]

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
    "tie (bothbad)",
    "tie (both bad)",
    "bothbad",
    "both bad",
    "both good",
    "0.5",
)
_SHOWN = "left, right, tie; a, b; model_a, model_b; first, second; tie (bothbad), both, draw, neither; 1, 0, 0.5"


def _word(column: pl.Expr) -> pl.Expr:
    """Return words without case, blanks and underscores, and numbers in their shortest form (1.0 is 1)."""
    bare = column.str.to_lowercase().str.replace_all(r"[\s_]+", "")
    return bare.str.replace(r"^([01])\.0+$", "$1").str.replace(r"^0?\.50*$", "0.5")


def count_outcomes(
    winner: pl.Series,
    left: pl.Series,
    right: pl.Series,
    *,
    names: tuple[str, str] = ("left", "right"),
    words: OutcomeWords | None = None,
    rows: Rows | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Return, for every comparison, 1 where left won, 1 where right won, and 1 where they tied.

    Parameters
    ----------
    winner, left, right : polars.Series of str
        What is written as the outcome, and the two items.
    names : pair of str
        What the columns of the two items are called; a column's own name is a word for its side.
    words : {"sides", "items"}, optional
        What the outcomes name. Found out when absent: a column every word of which names a side is read so, and one in
        which every word is the left item, the right item or a word for a tie is read so.
    rows : Rows, optional
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
    rows = rows or Rows()
    if words not in (None, "sides", "items"):
        raise ParameterError.invalid("outcomes", "a reader of comparisons", "'sides', 'items' or None", words)
    table = pl.DataFrame({"winner": winner.fill_null(""), "left": left, "right": right})
    table = table.with_columns(_word(pl.col(c)).alias(f"{c}_word") for c in ("winner", "left", "right"))
    sides = _sides(names)
    table = table.with_columns(
        pl.col("winner_word").replace_strict(sides, default=-1, return_dtype=pl.Int8).alias("by_side"),
        # An exact match goes first: two items may differ in nothing but case.
        pl.when(pl.col("winner") == pl.col("left"))
        .then(0)
        .when(pl.col("winner") == pl.col("right"))
        .then(1)
        .when((pl.col("winner_word") == pl.col("left_word")) & (pl.col("winner_word") != pl.col("right_word")))
        .then(0)
        .when((pl.col("winner_word") == pl.col("right_word")) & (pl.col("winner_word") != pl.col("left_word")))
        .then(1)
        .when(pl.col("winner_word").is_in([w for w, code in sides.items() if code == 2]))
        .then(2)
        .otherwise(-1)
        .cast(pl.Int8)
        .alias("by_item"),
    )
    code = _decide(table, words, rows)
    left_won, right_won, tied = ((code == k).astype(np.float64) for k in range(3))
    return left_won, right_won, tied


def _sides(names: tuple[str, str]) -> dict[str, int]:
    """Return what each word means: 0 left, 1 right, 2 tie. The columns' own names go before the common words."""
    given = [(w, k) for k, known in enumerate((LEFT_WORDS, RIGHT_WORDS, TIE_WORDS)) for w in known]
    given += [(name, k) for k, name in enumerate(names) if name]
    words = pl.DataFrame(given, schema={"word": pl.String, "code": pl.Int64}, orient="row").select(
        _word(pl.col("word")), "code"
    )
    return dict(words.rows())


def _decide(table: pl.DataFrame, words: OutcomeWords | None, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    by_side, by_item = table["by_side"].to_numpy(), table["by_item"].to_numpy()
    readings = {"sides": by_side, "items": by_item}
    if words is not None:
        readings = {words: readings[words]}
    complete = [code for code in readings.values() if (code >= 0).all()]
    if len(complete) == 2 and (by_side != by_item).any():
        row = int(np.flatnonzero(by_side != by_item)[0])
        _, left, right = table.row(row)[:3]
        raise rows.error(
            row,
            f"the outcome {table['winner'][row]!r} of {left!r} against {right!r} may be the name of an item or the "
            "word for a side. Say which with outcomes='items' or outcomes='sides'.",
        )
    if complete:
        return complete[0]
    unknown = np.logical_and.reduce([code < 0 for code in readings.values()])
    seen = table["winner"].value_counts(sort=True).rows()
    listed = ", ".join(f"{shorten(w, 30)!r} ({n})" for w, n in seen[:12]) + (", …" if len(seen) > 12 else "")
    if not unknown.any():
        row = int(np.flatnonzero(by_side < 0)[0])
        raise rows.error(row, f"some outcomes name a side and some name an item; write all one way. Seen: {listed}.")
    row = int(np.flatnonzero(unknown)[0])
    _, left, right = table.row(row)[:3]
    raise rows.error(
        row,
        f"the outcome {shorten(table['winner'][row], 60)!r} of {left!r} against {right!r} is not known. "
        f"Seen: {listed}. Known: {_SHOWN}; or the name of the item, or of its column.",
    )
