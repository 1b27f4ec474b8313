"""The column names by which tables in the wild call what Concordant calls instance, expert, item, rank and so on.

Names are compared without case, blanks and punctuation. A name is listed only where it can hardly mean anything else.
"""

from __future__ import annotations

__all__ = ["ALIASES", "COUNT_PAIRS", "HEADER_WORDS", "SIDE_PAIRS"]


def _with_ids(names: str) -> tuple[str, ...]:
    """Return the names, and each with "id" behind it."""
    return tuple(n for name in names.split() for n in (name, f"{name}id"))


ALIASES: dict[str, tuple[str, ...]] = {
    "instance": _with_ids("instance query q topic prompt question election"),
    "expert": _with_ids("expert user worker rater judge annotator assessor voter reviewer system ranker run"),
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

# Two columns that belong together: the items of a comparison in the order shown.
SIDE_PAIRS = (
    ("left", "right"),
    ("modela", "modelb"),
    ("itema", "itemb"),
    ("optiona", "optionb"),
    ("leftitem", "rightitem"),
    ("item1", "item2"),
    ("a", "b"),
)
# Counts: the two items, wins of the first, wins of the second, ties; and whether the order is the one shown.
COUNT_PAIRS = (
    ("left", "right", "nleft", "nright", "nties", True),
    ("itemi", "itemj", "winsi", "winsj", "ties", False),
    ("i", "j", "wij", "wji", "tij", False),
)

HEADER_WORDS = frozenset(
    [w for words in ALIASES.values() for w in words]
    + [w for pair in SIDE_PAIRS for w in pair]
    + [w for names in COUNT_PAIRS for w in names[:5] if isinstance(w, str)]
    + ["timestamp", "time", "stderr", "lower", "upper", "feature"]
)
