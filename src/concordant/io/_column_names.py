"""Synonyms of column names: what other tables call an instance, an expert, an item, a rank, ...

Names are compared without case, blanks and punctuation. Only names with one plausible meaning are listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from concordant.errors import shorten

__all__ = ["ALIASES", "COUNT_PAIRS", "HEADER_WORDS", "SIDE_PAIRS", "from_frame_call", "normalise_name"]


_PUNCTUATION = re.compile(r"[\W_]+")


def normalise_name(name: str) -> str:
    """Return a column name in lower case without blanks and punctuation.

    >>> normalise_name("Movie_ID"), normalise_name("G-Truth")
    ('movieid', 'gtruth')
    """
    return _PUNCTUATION.sub("", name.casefold())


def _with_ids(names: str) -> tuple[str, ...]:
    """Return the names, and each with "id" behind it."""
    return tuple(n for name in names.split() for n in (name, f"{name}id"))


ALIASES: dict[str, tuple[str, ...]] = {
    "instance": _with_ids("instance query q topic prompt question election"),
    "expert": (
        *_with_ids("expert user worker rater judge annotator assessor voter reviewer system ranker run"),
        "judgehash",
        "userhash",
    ),
    "item": (
        *_with_ids("item movie doc document product candidate alternative option book song track"),
        "docno",
        "asin",
    ),
    "rank": ("rank", "position", "place"),
    "rating": ("rating", "score", "value", "stars", "vote", "grade"),
    "score": ("score", "value", "sim"),
    "label": ("label", "relevance", "rel", "gold", "truth", "groundtruth", "gtruth"),
    "winner": ("winner", "topitem", "preferred", "chosen", "better"),
    "loser": ("loser", "bottomitem", "rejected", "worse"),
    "outcome": ("winner", "outcome", "result", "choice", "preference", "vote", "judgment", "judgement"),
    "weight": ("weight",),
}

# Pairs of columns that hold the two items of a comparison, in the order shown to the expert.
SIDE_PAIRS = (
    ("left", "right"),
    ("modela", "modelb"),
    ("itema", "itemb"),
    ("optiona", "optionb"),
    ("leftitem", "rightitem"),
    ("item1", "item2"),
    ("a", "b"),
)
# Columns of pair counts: both items, wins of the first, wins of the second, ties, votes that both were bad; last,
# whether the order was shown.
COUNT_PAIRS = (
    ("left", "right", "nleft", "nright", "nties", "nbothbad", True),
    ("itemi", "itemj", "winsi", "winsj", "ties", "bothbad", False),
    ("i", "j", "wij", "wji", "tij", "bij", False),
    ("modela", "modelb", "winnermodela", "winnermodelb", "winnertie", "winnerbothbad", True),
    ("left", "right", "winnerleft", "winnerright", "winnertie", "winnerbothbad", True),
)

HEADER_WORDS = frozenset(
    [w for words in ALIASES.values() for w in words]
    + [w for pair in SIDE_PAIRS for w in pair]
    + [w for names in COUNT_PAIRS for w in names[:6] if isinstance(w, str)]
    + ["timestamp", "time", "stderr", "lower", "upper", "feature"]
)


def from_frame_call(names: Iterable[str]) -> str:
    """Return the call of from_frame that reads comparisons or labels from columns of these names, "" for others.

    >>> from_frame_call(["question_id", "model_a", "model_b", "winner", "judge"])
    'from_frame(df, left="model_a", right="model_b", winner="winner", expert="judge")'
    >>> from_frame_call(["query", "doc", "relevance"])
    'from_frame(df, instance="query", item="doc", label="relevance")'
    """
    by = {normalise_name(name): name for name in names}

    def named(word: str) -> str | None:
        return next((by[alias] for alias in ALIASES[word] if alias in by), None)

    sides = next(((by[a], by[b]) for a, b in SIDE_PAIRS if a in by and b in by), None)
    columns: dict[str, str | None]
    # Votes are one instance unless a column says so itself: each vote of an arena has a question of its own.
    instance = by.get("instance")
    if sides is not None and named("outcome") is not None:
        columns = {"left": sides[0], "right": sides[1], "winner": named("outcome"), "expert": named("expert")}
    elif named("winner") is not None and named("loser") is not None:
        columns = {"winner": named("winner"), "loser": named("loser"), "expert": named("expert")}
    elif named("label") is not None and named("item") is not None and named("expert") is None:
        columns = {"item": named("item"), "label": named("label")}
        instance = named("instance")
    else:
        return ""
    columns = {"instance": instance} | columns
    named_columns = ", ".join(f'{word}="{shorten(name)}"' for word, name in columns.items() if name is not None)
    return f"from_frame(df, {named_columns})"
