"""Recognises the format of a file by its first lines. A test passes only if every line examined agrees.

If no test passes, `most_lines_match` finds the format that more than half of the lines have: then a few lines are
damaged, and the reader of that format names them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from concordant.io._tables import blank_fields, has_movielens_name, is_number
from concordant.io.formats import Head

__all__ = ["UNKNOWN", "is_features", "is_letor_ranks", "is_preflib", "is_qrels", "is_run", "most_lines_match"]

_PREFLIB_KEY = re.compile(
    r"#\s*(FILE NAME|TITLE|DATA TYPE|MODIFICATION TYPE|NUMBER ALTERNATIVES|NUMBER VOTERS|ALTERNATIVE NAME \d+)\s*:"
)
_LABEL = re.compile(r"-?\d{1,3}(\.\d+)?", re.ASCII)
_FEATURE = re.compile(r"\d+:\S+", re.ASCII)
# How LETOR files spell an unknown feature value, in lower case.
UNKNOWN = ("nan", "na")


def most_lines_match(test: Callable[[Head], bool], head: Head) -> bool:
    """Return whether more than half of the lines pass a test alone, and these lines together pass it too."""
    good = [line for line in head.lines if test(replace(head, lines=[line]))]
    return 2 * len(good) > len(head.lines) and test(replace(head, lines=good))


def _fields(head: Head, n: int) -> list[list[str]] | None:
    """Return the lines split at blanks when all of them have n fields."""
    rows = []
    for line in head.lines:
        row = blank_fields(line)
        if len(row) != n:
            return None
        rows.append(row)
    return rows or None


def is_run(head: Head) -> bool:
    """Return whether the lines are ``instance Q0 item rank score tag``."""
    rows = _fields(head, 6)
    if rows is None:
        return False
    return all(is_number(r[3]) and is_number(r[4]) for r in rows) and len({r[1] for r in rows}) == 1


def is_qrels(head: Head) -> bool:
    """Return whether the lines are ``instance iteration item label``, the iteration being the same throughout.

    Ratings of one item look the same, so a file that is called as those of MovieLens is never taken for qrels.
    """
    rows = _fields(head, 4)
    if rows is None or has_movielens_name(head.path):
        return False
    iteration = {r[1] for r in rows}
    return len(iteration) == 1 and iteration <= {"0", "Q0", "q0", "1"} and all(_LABEL.fullmatch(r[3]) for r in rows)


def _vectors(head: Head) -> list[list[str]] | None:
    """Return the fields before the comment when all lines are ``label [qid:Q] index:value ...``."""
    rows = []
    for line in head.lines:
        if line.startswith("#"):
            continue
        row = blank_fields(line.partition("#")[0])
        if len(row) < 2 or not is_number(row[0]):
            return None
        rest = row[2:] if row[1].startswith("qid:") else row[1:]
        if not all(_FEATURE.fullmatch(f) for f in rest):
            return None
        rows.append(row)
    return rows or None


def is_letor_ranks(head: Head) -> bool:
    """Return whether this is a rank-aggregation file: ``label qid:Q 1:rank|NULL ...`` with some NULL."""
    rows = _vectors(head)
    if rows is None or not all(r[1].startswith("qid:") for r in rows):
        return False
    return any(f.endswith(":NULL") for r in rows for f in r)


def is_features(head: Head) -> bool:
    """Return whether this is LETOR or SVMlight text with numbers only, or a NumPy table."""
    if head.data[:6] == b"\x93NUMPY":
        return True
    rows = _vectors(head)
    if rows is None:
        return False
    values = (f.partition(":")[2] for r in rows for f in r[1:] if f[0] != "q")
    return all(is_number(value) or value.lower() in UNKNOWN for value in values)


def is_preflib(head: Head) -> bool:
    """Return whether this is a PrefLib file of ballots, by its headers or its name."""
    if head.ending in ("soc", "soi", "toc", "toi", "cat"):
        return True
    return sum(_PREFLIB_KEY.match(line) is not None for line in head.lines[:40]) >= 2
