"""A TREC run reader of a few lines, one Python object per row: slow, and plainly right."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


class RepeatedError(Exception):
    """An expert ranks an item twice; holds (expert, item, instance, "file:line", "file:line")."""


@dataclass
class Runs:
    """instance -> items as first seen; (instance, expert) -> [(item, value)] in input order; experts as first seen."""

    items: dict[str, list[str]] = field(default_factory=dict)
    lists: dict[tuple[str, str], list[tuple[str, float]]] = field(default_factory=dict)
    experts: list[str] = field(default_factory=list)


def read_runs(files: Sequence[Path], *, expert_from: str = "auto", column: int = 4, duplicates: str = "error") -> Runs:
    """Read plain files whose fields are separated by blanks. Column 4 is the score, 3 the rank.

    ValueError stands for text that is not UTF-8, a line without six fields and a value that is no finite number.
    """
    rows = []
    tags_of = {}
    for path in files:
        tags_of[path] = []
        text = path.read_bytes().decode("utf-8-sig")
        for number, line in enumerate(text.split("\n"), 1):
            fields = re.findall(r"[^ \t\r\f\v]+", line)
            if fields:
                # Blanks of other scripts separate no fields, and may stand around a number.
                if len(fields) != 6 or not re.fullmatch(r"[0-9.eE+-]+", fields[column].strip()):
                    raise ValueError(f"line {number}")
                if not math.isfinite(float(fields[column])):
                    raise ValueError(f"line {number}")
                rows.append((path, number, fields))
                if fields[5] not in tags_of[path]:
                    tags_of[path].append(fields[5])

    def name(path: Path, tag: str | None) -> str:
        stem = path.name.removesuffix(".trec")
        if expert_from == "file" or tag is None:
            return stem
        if expert_from == "tag" or sum(tag in tags for tags in tags_of.values()) == 1:
            return tag
        return stem if len(tags_of[path]) == 1 else f"{stem}:{tag}"

    out = Runs()
    for path in files:
        for tag in tags_of[path] or [None]:
            if name(path, tag) not in out.experts:
                out.experts.append(name(path, tag))
    seen: dict[tuple[str, str, str], tuple[int, str]] = {}
    for path, number, fields in rows:
        instance, item, value, expert = fields[0], fields[2], float(fields[column]), name(path, fields[5])
        if item not in out.items.setdefault(instance, []):
            out.items[instance].append(item)
        rows_of = out.lists.setdefault((instance, expert), [])
        place = f"{path}:{number}"
        if (instance, expert, item) not in seen:
            seen[instance, expert, item] = len(rows_of), place
            rows_of.append((item, value))
            continue
        at, first = seen[instance, expert, item]
        if duplicates == "error":
            raise RepeatedError(expert, item, instance, first, place)
        better = value > rows_of[at][1] if column == 4 else value < rows_of[at][1]
        if duplicates == "best" and better:
            # The better row stays where it stands, the worse one goes.
            rows_of[at] = ("", 0.0)
            seen[instance, expert, item] = len(rows_of), place
            rows_of.append((item, value))
    out.lists = {key: [row for row in rows_of if row[0]] for key, rows_of in out.lists.items()}
    return out
