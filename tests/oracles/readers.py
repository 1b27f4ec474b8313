"""Readers of every text format in plain Python, one object per row, written from docs/formats.md and apart from ours.

Each takes the bytes of one file and returns what `contents` gives for the container that our reader makes. Where the
documentation says that a file is refused they raise RefusedError, with a word for why; where it leaves room (what a
damaged header means, for instance) they raise UnsureError and say nothing about the file.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tests.oracles import trec_reader

csv.field_size_limit(1 << 30)

# The characters with Unicode's property White_Space; str.strip takes four control characters besides.
BLANKS = "\t\n\v\f\r \u0085\u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
PACKED = (b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"BZh")
NOTHING = ("", "na", "n/a", "nan", "null", "none")
_WORDS = re.compile(r"[^ \t\r\f\v]+")
_RETURN = "\ue00d"

LEFT = {"left", "l", "a", "first", "1", *(f"{w}a" for w in ("model", "answer", "response", "assistant", "option"))}
RIGHT = {"right", "r", "b", "second", "0", *(f"{w}b" for w in ("model", "answer", "response", "assistant", "option"))}
LEFT, RIGHT = LEFT | {"itema"}, RIGHT | {"itemb"}
BAD = {"tie(bothbad)", "bothbad"}
TIE = {"tie", "tied", "draw", "both", "equal", "same", "neither", "bothgood", "0.5"} | BAD


class RefusedError(Exception):
    """The documentation says that such a file is refused."""


class UnsureError(Exception):
    """The documentation does not say what such a file means."""


def _text(data: bytes) -> str:
    if data.startswith(PACKED):
        raise UnsureError("packed")
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise RefusedError("not UTF-8") from None


def _number(text: str, least: float = -math.inf) -> float:
    if not re.fullmatch(r"[0-9.eE+-]+", text):
        raise RefusedError("no number")
    try:
        value = float(text)
    except ValueError:
        raise RefusedError("no number") from None
    if not math.isfinite(value):
        raise RefusedError("not finite")
    if value < least:
        raise RefusedError("below 1")
    return value


def run(data: bytes, path: Path) -> Any:
    """Read a TREC run."""
    if data.startswith(PACKED):
        raise UnsureError("packed")
    try:
        found = trec_reader.read_runs([path])
    except (ValueError, trec_reader.RepeatedError) as error:
        raise RefusedError(type(error).__name__) from None
    rows = {(q, e, i): (value, 1.0) for (q, e), given in found.lists.items() for i, value in given}
    return ("score", rows, {(q, i) for q, items in found.items.items() for i in items}), sorted(found.experts)


def qrels(data: bytes, path: Path) -> Any:
    """Read TREC qrels."""
    out: dict[tuple[str, str], str] = {}
    for line in _text(data).split("\n"):
        fields = _WORDS.findall(line)
        if not fields:
            continue
        if len(fields) != 4:
            raise RefusedError("fields")
        label = repr(_number(fields[3].strip()))
        if out.setdefault((fields[0], fields[2]), label) != label and float(out[fields[0], fields[2]]) != float(label):
            raise RefusedError("twice")
    return out


def _vectors(data: bytes, ranks: bool) -> Iterator[tuple[float, str | None, str | None, dict[int, float]]]:
    """Yield label, query, item and values of every line of LETOR text."""
    for line in _text(data).split("\n"):
        body, _, comment = line.partition("#")
        words = [w for w in body.strip(BLANKS).replace("\t", " ").split(" ") if w]
        if not words:
            continue
        label = _number(words.pop(0))
        query = words.pop(0)[4:] if words and words[0].startswith("qid:") else None
        if query == "":
            raise RefusedError("no query")
        named = re.search(rf"docid[{BLANKS}]*=[{BLANKS}]*([^{BLANKS}]+)", comment)
        values: dict[int, float] = {}
        for word in words:
            index, colon, value = word.partition(":")
            if not colon or not re.fullmatch(r"[+-]?[0-9]{1,18}", index):
                raise RefusedError("no pair")
            if int(index) in values:
                raise RefusedError("twice")
            if not (1 if ranks else 0) <= int(index) <= (1_000_000 if ranks else 1_000_000_000):
                raise RefusedError("index")
            missing = value == "NULL" if ranks else value.lower() in ("nan", "na")
            values[int(index)] = math.nan if missing else _number(value, 1.0 if ranks else -math.inf)
        yield label, query, None if named is None else named[1], values


def letor(data: bytes, path: Path) -> Any:
    """Read LETOR rank aggregation."""
    rows, labels, experts = {}, {}, 0
    for label, query, item, values in _vectors(data, ranks=True):
        if query is None or item is None:
            raise RefusedError("no query or item")
        if (query, item) in labels:
            raise RefusedError("twice")
        labels[query, item] = repr(label)
        experts = max([experts, *values])
        for index, value in values.items():
            if not math.isnan(value):
                rows[query, str(index), item] = (value, 1.0)
    if not labels:
        raise RefusedError("no rows")
    return (("rank", rows, set(labels)), sorted(map(str, range(1, experts + 1)))), labels


def features(data: bytes, path: Path) -> Any:
    """Read LETOR or SVMlight features, of a file that has no side file."""
    lines = list(_vectors(data, ranks=False))
    if not lines or any(query is None for _, query, _, _ in lines):
        raise RefusedError("no rows or no query")
    named = sum(item is not None for _, _, item, _ in lines)
    if named not in (0, len(lines)):
        raise RefusedError("some items have no name")
    seen: Counter[str] = Counter()
    table: dict[tuple[str, str], dict[int, float]] = {}
    labels: dict[tuple[str, str], str] = {}
    for label, query, item, values in lines:
        assert query is not None
        seen[query] += 1
        where = query, str(seen[query]) if item is None else item
        if where in table:
            raise RefusedError("twice")
        table[where], labels[where] = values, repr(label)
    largest = max((i for values in table.values() for i in values), default=0)
    if largest > 100_000:
        raise UnsureError("a table too wide to be kept")
    lowest = min([1, *(i for values in table.values() for i in values)])
    names = range(lowest, largest + 1)
    rows = {where: [values.get(i, 0.0) for i in names] for where, values in table.items()}
    return (list(map(str, names)), rows), labels


def array(data: bytes, path: Path) -> Any:
    """Read a .npy table with NumPy's own reader."""
    if not data.startswith(b"\x93NUMPY"):
        raise UnsureError("no array")
    try:
        found = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:  # noqa: BLE001 - whatever NumPy has against it
        raise UnsureError("NumPy refuses it") from None
    if found.dtype.kind not in "fiub" or found.ndim != 2 or found.shape[1] < 3:
        raise RefusedError("no table of numbers")
    table = found.astype(float)
    query = table[:, 1]
    if not np.isfinite(table[:, :2]).all() or np.isinf(table).any() or (query != np.rint(query)).any():
        raise RefusedError("not finite")
    if not len(table) or (np.abs(query) >= 2**53).any():
        raise RefusedError("no rows")
    seen: Counter[str] = Counter()
    rows, labels = {}, {}
    for line in table.tolist():
        q = str(int(line[1]))
        seen[q] += 1
        rows[q, str(seen[q])], labels[q, str(seen[q])] = line[2:], repr(line[0])
    return ([str(k) for k in range(1, table.shape[1] - 1)], rows), labels


_PREFLIB_COUNTS = {
    f"NUMBER {what}" for what in ("ALTERNATIVES", "VOTERS", "UNIQUE ORDERS", "UNIQUE PREFERENCES", "CATEGORIES")
}


def preflib(data: bytes, path: Path) -> Any:
    """Read PrefLib ballots in today's form; the file is called a.toc, or has another ending."""
    kind, names, counts, categories = path.suffix[1:], {}, {}, set()
    ballots: list[tuple[int, list[list[int]]]] = []
    for line in _text(data).split("\n"):
        line = line.removesuffix("\r")
        if not line.strip(BLANKS):
            continue
        if line.startswith("#"):
            found = re.fullmatch(r"#[ \t]*([A-Z]+(?: [A-Z]+)*)(?:[ \t]+([0-9]+))?[ \t]*:(.*)", line, re.DOTALL)
            if found is None:
                continue
            key, number, value = found[1], found[2], found[3].strip(BLANKS)
            if key == "ALTERNATIVE NAME" and number:
                if len(number) > 9 or int(number) in names or not 1 <= int(number) <= 1_000_000 or ballots:
                    raise RefusedError("names")
                names[int(number)] = value
            elif key == "CATEGORY NAME" and number:
                if len(number) > 9 or int(number) in categories or not 1 <= int(number) <= 1_000 or ballots:
                    raise RefusedError("names")
                categories.add(int(number))
            elif key == "DATA TYPE":
                if value.lower() not in ("soc", "soi", "toc", "toi", "cat") or ballots:
                    raise RefusedError("type")
                kind = value.lower()
            elif key in _PREFLIB_COUNTS:
                if key in counts or not re.fullmatch(r"[0-9]{1,15}", value) or ballots:
                    raise RefusedError("counts")
                counts[key] = int(value)
            continue
        if not names and not counts:
            raise UnsureError("the older form")
        times, mark, order = re.fullmatch(r"([^:,]*)([:,]?)(.*)", line, re.DOTALL).groups()  # type: ignore[union-attr]
        if not mark or not re.fullmatch(r"[0-9]{1,15}", times.strip(" \t")):
            raise RefusedError("ballot")
        ballots.append((int(times.strip(" \t")), list(_groups(order, kind == "cat"))))
    n = counts.get("NUMBER ALTERNATIVES", max(names, default=0))
    if not 1 <= n <= 1_000_000 or max(names, default=0) > n:
        raise RefusedError("counts")
    voters, orders = sum(times for times, _ in ballots), len(ballots)
    stated = {"NUMBER VOTERS": voters, "NUMBER UNIQUE ORDERS": orders, "NUMBER UNIQUE PREFERENCES": orders}
    if any(counts.get(key, found) != found for key, found in stated.items()):
        raise RefusedError("counts")
    best = 0
    if kind == "cat":
        best = counts.get("NUMBER CATEGORIES", max(categories, default=len(ballots[0][1]) if ballots else 1))
        if not max(categories, default=1) <= best <= 1_000 or any(len(groups) != best for _, groups in ballots):
            raise RefusedError("categories")
    given = [names.get(k, "") for k in range(1, n + 1)]
    ids = [name if name and given.count(name) == 1 else str(k) for k, name in enumerate(given, 1)]
    if len(set(ids)) < n:
        ids = [str(k) for k in range(1, n + 1)]
    instance = path.name.removesuffix(path.suffix)
    rows = {}
    for number, (times, groups) in enumerate(ballots, 1):
        flat = [k for group in groups for k in group]
        if any(not 1 <= k <= n for k in flat) or len(set(flat)) < len(flat):
            raise RefusedError("alternative")
        if (kind in ("soc", "soi") and len(flat) > len(groups)) or (kind in ("soc", "toc") and len(flat) < n):
            raise RefusedError("not of its type")
        ahead = 0
        for place, group in enumerate(groups):
            value = best - place if kind == "cat" else ahead + 1
            for k in group:
                if times:
                    rows[instance, str(number), ids[k - 1]] = (float(value), float(times))
            ahead += len(group)
    read = "rating" if kind == "cat" else "rank"
    return (read, rows, {(instance, i) for i in ids}), sorted(str(k) for k in range(1, orders + 1))


def _groups(order: str, empty: bool) -> Iterator[list[int]]:
    """Yield the groups of tied alternatives of a ballot such as 1,{4,3},2; categories may be empty, ballots not."""
    if not order.strip(BLANKS):
        if empty:
            raise RefusedError("ballot")
        return
    rest = order
    while True:
        found = re.match(r"[ \t]*\{([^{}]*)\}[ \t]*(,|$)|([^{},]*)(,|$)", rest, re.DOTALL)
        if found is None:
            raise RefusedError("ballot")
        group = found[1].split(",") if found[1] is not None else [found[3]]
        if empty and found[1] is not None and not found[1].strip(" \t"):
            group = []
        if not all(re.fullmatch(r"[ \t]*[0-9]{1,9}[ \t]*", k) for k in group):
            raise RefusedError("ballot")
        yield [int(k) for k in group]
        rest = rest[found.end() :]
        if not rest:
            if (found[2] if found[1] is not None else found[4]) == ",":
                raise RefusedError("ballot")
            return


def _records(text: str, separator: str) -> list[list[str]]:
    """Return the fields of every record, without outer blanks; quotes follow the rules of RFC 4180."""
    if separator == " ":
        return [[f.strip(BLANKS) for f in _WORDS.findall(line)] for line in text.split("\n")]
    if _RETURN in text:
        raise UnsureError("a character that is used here")
    # A lone carriage return ends no line.
    lines = re.sub(r"\r(?!\n)", _RETURN, text).split("\n")
    lines = [f"{line}\n" for line in lines[:-1]] + lines[-1:]
    try:
        rows = list(csv.reader(lines, delimiter=separator, strict=True))
    except csv.Error:
        raise RefusedError("quotes") from None
    return [[f.replace(_RETURN, "\r").strip(BLANKS) for f in row] for row in rows]


def _table(data: bytes, separator: str, names: Sequence[str] | None) -> list[list[str]]:
    """Return the rows below a header that reads as it should, each with all its fields."""
    text = _text(data)
    if "\0" in text:
        raise UnsureError("NUL")
    rows = _records(text.lstrip("\n"), separator)
    if not rows:
        raise RefusedError("no rows")
    width = len(rows[0]) if names is None else len(names)
    if names is not None:
        first = text.lstrip("\n").partition("\n")[0].removesuffix("\r")
        if first != separator.join(names) or rows.pop(0) != list(names):
            raise UnsureError("another header")
    rows = [row for row in rows if any(row)]
    if not rows:
        raise RefusedError("no rows")
    if 2 * sum(len(row) == width for row in rows[:200]) <= len(rows[:200]):
        raise UnsureError("few rows are whole")
    if names is not None and any(name in (row[k] for row in rows if len(row) > k) for k, name in enumerate(names)):
        raise UnsureError("the header may be a row")
    for row in rows:
        while len(row) > width and not row[-1]:
            row.pop()
        if len(row) != width:
            raise RefusedError("fields")
    return rows


def _tidy(*columns: list[str]) -> list[list[str]]:
    """Return columns of ids that belong together without ".0" where all of them are whole numbers."""
    known = [v for column in columns for v in column if v]
    whole = re.compile(r"-?\d+(\.0+)?")
    if all(whole.fullmatch(v) for v in known):
        return [[re.sub(r"\.0+$", "", v) for v in column] for column in columns]
    return list(columns)


def _preferences(kind: str, rows: Sequence[tuple[str, str, str]], least: float = -math.inf) -> Any:
    """Return preferences of (expert, item, value); no value means that the item is known."""
    experts, items, values = ([*column] for column in zip(*rows, strict=True))
    (experts,), (items,) = _tidy(experts), _tidy(items)
    out: dict[Any, Any] = {}
    for expert, item, text in zip(experts, items, values, strict=True):
        value = None if text.casefold() in NOTHING else _number(text, least)
        if not item or (value is not None and not expert):
            raise RefusedError("no id")
        if value is None:
            continue
        if ("all", expert, item) in out:
            raise RefusedError("twice")
        out["all", expert, item] = (value, 1.0)
    return (kind, out, {("all", item) for item in items}), None


def ratings(data: bytes, path: Path, separator: str = ",", names: Sequence[str] = ("user", "item", "rating")) -> Any:
    """Read a table of ratings."""
    return _preferences("rating", [(e, i, v) for e, i, v in _table(data, separator, names)])


def movielens(data: bytes, path: Path) -> Any:
    """Read MovieLens' u.data."""
    rows = _table(data, "\t", None)
    if not all(len(row) == 4 and all(re.fullmatch(r"[0-9]+(\.[0-9]+)?", f) for f in row) for row in rows):
        raise UnsureError("other fields")
    return _preferences("rating", [(e, i, v) for e, i, v, _ in rows])


def long(data: bytes, path: Path) -> Any:
    """Read rankings in the long layout."""
    return _preferences("rank", [(e, i, v) for e, i, v in _table(data, "\t", ("judge", "item", "rank"))], 1.0)


def ranks(data: bytes, path: Path) -> Any:
    """Read a matrix of ranks, experts by items."""
    names = ("", "P1", "P2", "P3")
    rows = _table(data, ",", names)
    if any(re.fullmatch(r"0(\.0)?", cell) for row in rows for cell in row[1:]):
        raise UnsureError("what 0 means is asked")
    if any(not row[0] for row in rows):
        raise RefusedError("no id")
    return _preferences("rank", [(row[0], n, v) for row in rows for n, v in zip(names[1:], row[1:], strict=True)], 1.0)


def orders(data: bytes, path: Path) -> Any:
    """Read a matrix of items by position."""
    rows = _table(data, ",", ("rank1", "rank2", "rank3"))
    if any(re.fullmatch(r"0(\.0)?", cell) for row in rows for cell in row):
        raise UnsureError("what 0 means is asked")
    cells = [(str(n), cell, k) for n, row in enumerate(rows, 1) for k, cell in enumerate(row, 1)]
    given = [(e, i, str(k)) for e, i, k in cells if i.casefold() not in NOTHING]
    if not given:
        raise RefusedError("no item")
    return _preferences("rank", given)


def _votes(rows: Sequence[tuple[Any, ...]], sided: bool) -> Any:
    """Return comparisons of (left, right, expert, counts), perhaps with further columns."""
    lefts, rights = _tidy([r[0] for r in rows], [r[1] for r in rows])
    (experts,) = _tidy([r[2] or "" for r in rows])
    judged = rows[0][2] is not None
    out: Counter[Any] = Counter()
    for left, right, expert, (counts, *more) in zip(lefts, rights, experts, [r[3:] for r in rows], strict=True):
        if not left or not right or (judged and not expert):
            raise RefusedError("no id")
        if left == right:
            raise RefusedError("with itself")
        if not sided and left > right:
            left, right, counts = right, left, (counts[1], counts[0], counts[2])
        columns = more[0].items() if more else ()
        out["all", expert if judged else None, left, right, counts, *columns] += 1
    return sided, out, {("all", i) for pair in zip(lefts, rights, strict=True) for i in pair}


def winners(data: bytes, path: Path) -> Any:
    """Read winner and loser."""
    return _votes([(w, x, None, (1.0, 0.0, 0.0)) for w, x in _table(data, ",", ("winner", "loser"))], sided=False)


def sides(data: bytes, path: Path) -> Any:
    """Read left, right, winner and judge."""
    rows = _table(data, ",", ("left", "right", "winner", "judge"))
    found = []
    for reading in (_by_side, _by_item):
        codes = [reading(left, right, word) for left, right, word, _ in rows]
        if None not in codes:
            found.append(codes)
    if not found:
        raise RefusedError("outcome")
    if found[0] != found[-1]:
        raise RefusedError("side or item")
    counts = [tuple(float(code == k) for k in range(3)) for code in found[0]]
    return _votes([(r[0], r[1], r[3], c) for r, c in zip(rows, counts, strict=True)], sided=True)


def one_hot(data: bytes, path: Path) -> Any:
    """Read a column for each outcome, of which exactly one is 1."""
    rows = _table(data, ",", ("id", "model_a", "model_b", "winner_model_a", "winner_model_b", "winner_tie"))
    given = []
    for _, left, right, *cells in rows:
        if any(cell.casefold() in NOTHING for cell in cells):
            raise RefusedError("no outcome")
        words = {"true": "1", "false": "0"}
        counted = tuple(_number(words.get(cell.lower(), cell)) for cell in cells)
        if sorted(counted) != [0.0, 0.0, 1.0]:
            raise RefusedError("not one of them")
        given.append((left, right, None, counted))
    return _votes(given, sided=True)  # type: ignore[arg-type]


_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?(?:[.,](\d{1,9})\d*)? ?(Z|z|UTC|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII,
)


def _time(text: str) -> float:
    """Return an ISO 8601 time in seconds, by the standard library."""
    found = _TIME.fullmatch(text)
    if found is None or (found[4] and not found[3]):
        raise RefusedError("no time")
    day, clock, seconds, fraction, zone = found.groups()
    zone = "+00:00" if zone in (None, "Z", "z", "UTC") else zone
    zone = zone if ":" in zone else f"{zone[:3]}:{zone[3:] or '00'}"
    try:
        whole = datetime.datetime.fromisoformat(f"{day}T{clock or '00:00'}{seconds or ':00'}{zone}")
    except ValueError:
        raise RefusedError("no time") from None
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (whole - start).total_seconds() + (float(f"0.{fraction}") if fraction else 0.0)


ARENA = ("model_a", "model_b", "winner", "judge", "language", "when", "length_a", "length_b")


def arena(data: bytes, path: Path) -> Any:
    """Read votes with time, category, a covariate and both bad apart; those in German are left out."""
    rows = [row for row in _table(data, ",", ARENA) if row[4] != "German"]
    if not rows:
        raise RefusedError("no rows")
    if re.fullmatch(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", next((row[5] for row in rows if row[5]), "")):
        raise UnsureError("numbers as times")
    found = []
    for reading in (_by_side, _by_item):
        codes = [reading(*row[:3]) for row in rows]
        if None not in codes:
            found.append(codes)
    if not found:
        raise RefusedError("outcome")
    if found[0] != found[-1]:
        raise RefusedError("side or item")
    out = []
    for row, code in zip(rows, found[0], strict=True):
        bad = code == 2 and _word(row[2]) in BAD
        lengths = [_number(cell) for cell in row[6:]]
        if min(lengths) < 0:
            raise RefusedError("below 0")
        if row[5].casefold() in NOTHING:
            raise RefusedError("no time")
        ratio = (lengths[0] - lengths[1]) / (sum(lengths) or 1.0)
        more = {"time": _time(row[5]), "category": row[4] or None, "n_both_bad": float(bad), "covariate length": ratio}
        out.append((row[0], row[1], row[3], tuple(float(code == k and not bad) for k in range(3)), more))
    return _votes(out, sided=True)  # type: ignore[arg-type]


def _word(text: str) -> str:
    bare = re.sub(rf"[{BLANKS}_]+", "", text.lower())
    return re.sub(r"^0?\.50*$", "0.5", re.sub(r"^([01])\.0+$", r"\1", bare))


def _by_side(left: str, right: str, word: str) -> int | None:
    return next((k for k, words in enumerate((LEFT, RIGHT, TIE)) if _word(word) in words), None)


def _by_item(left: str, right: str, word: str) -> int | None:
    if word in (left, right):
        return int(word == right)
    alike = [_word(word) == _word(item) for item in (left, right)]
    return alike.index(True) if alike.count(True) == 1 else 2 if _word(word) in TIE else None


def counts(data: bytes, path: Path) -> Any:
    """Read counts of pairs."""
    rows = _table(data, ",", ("", "i", "j", "w_ij", "w_ji", "t_ij"))
    given = []
    for _, left, right, *cells in rows:
        if any(cell.casefold() in NOTHING for cell in cells):
            raise RefusedError("no count")
        counted = tuple(_number(cell) for cell in cells)
        if min(counted) < 0:
            raise RefusedError("below 0")
        given.append((left, right, None, counted))
    return _votes(given, sided=False)  # type: ignore[arg-type]


def labels(data: bytes, path: Path) -> Any:
    """Read a table of labels."""
    rows = _table(data, ",", ("query", "docno", "relevance"))
    (queries,), (items,) = _tidy([r[0] for r in rows]), _tidy([r[1] for r in rows])
    out: dict[Any, str] = {}
    for q, i, row in zip(queries, items, rows, strict=True):
        if not q or not i:
            raise RefusedError("no id")
        label = math.nan if row[2].casefold() in NOTHING else _number(row[2])
        known = float(out.setdefault((q, i), repr(label)))
        if known != label and not (math.isnan(known) and math.isnan(label)):
            raise RefusedError("twice")
    return out


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise RefusedError("a key twice")
    return dict(pairs)


def _not_json(name: str) -> float:
    raise RefusedError(f"{name} is not JSON")


def _objects(data: bytes, names: Sequence[str]) -> list[list[str]]:
    """Return the values of these keys of every line as text."""
    text = _text(data)
    if "\0" in text or not text.lstrip(BLANKS).startswith("{"):
        raise UnsureError("another beginning")
    out = []
    for line in text.split("\n"):
        if not line.strip(BLANKS):
            continue
        try:
            found = json.loads(line, object_pairs_hook=_once, parse_constant=_not_json)
        except (ValueError, RecursionError):
            raise RefusedError("no JSON") from None
        if not isinstance(found, dict):
            raise RefusedError("no object")
        if set(found) - set(names):
            raise UnsureError("other keys")
        row = []
        for value in (found.get(name) for name in names):
            if isinstance(value, (bool, float, list, dict)):
                raise UnsureError("another type")
            if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
                raise RefusedError("lone surrogate")
            row.append("" if value is None else str(value).strip(BLANKS))
        out.append(row)
    if not any(any(f for f in row) for row in out[:200]):
        raise UnsureError("no keys")
    return out


def json_array(data: bytes, path: Path) -> Any:
    """Read an array of objects with winner and loser."""
    text = _text(data)
    if "\0" in text or not re.match(r"[ \t\r\n]*\[[ \t\r\n]*[{\]]", text):
        raise UnsureError("another beginning")
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_not_json)
    except (ValueError, RecursionError):
        raise RefusedError("no JSON") from None
    if not all(isinstance(row, dict) for row in found):
        raise RefusedError("no object")
    lines = "\n".join(json.dumps(row) for row in found)
    if not lines:
        raise RefusedError("no rows")
    rows = _objects(lines.encode(), ("winner", "loser"))
    return _votes([(w, x, None, (1.0, 0.0, 0.0)) for w, x in rows], sided=False)


def json_winners(data: bytes, path: Path) -> Any:
    """Read winner and loser of JSON lines."""
    return _votes([(w, x, None, (1.0, 0.0, 0.0)) for w, x in _objects(data, ("winner", "loser"))], sided=False)


def json_ratings(data: bytes, path: Path) -> Any:
    """Read ratings of JSON lines."""
    return _preferences("rating", [(e, i, v) for e, i, v in _objects(data, ("user", "item", "rating"))])


Reader = Callable[[bytes, Path], Any]
