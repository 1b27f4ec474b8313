"""Reads and writes PrefLib ballots (soc, soi, toc, toi, cat): every distinct ballot is an expert weighted by its count.

Ballots are orders of numbered alternatives, or sort them into categories, so that the numbers of the file are the codes
of the container. They are checked; tied alternatives get a rank, and categories become ratings.
"""

from __future__ import annotations

import os
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from concordant.arrays import Ints
from concordant.data.index import Slots, Texts
from concordant.data.preferences import Missing, Preferences, is_below
from concordant.errors import DataError, FormatError, ParameterError, ParseError, Setting, is_text, quote, shorten
from concordant.io._files import (
    BLANKS,
    PathLike,
    atomic_write,
    display_path,
    expand,
    is_stream,
    text_lines,
    uncompressed_name,
    warn_empty,
)
from concordant.io._sniff import is_preflib
from concordant.io.formats import register_format
from concordant.kernels.lists import offsets_of, order_lists

__all__ = ["read_preflib", "write_preflib"]

_ORDINAL = ("soc", "soi", "toc", "toi")
_CATEGORICAL = "cat"
TYPES = (*_ORDINAL, _CATEGORICAL)
# Other file types of PrefLib.
_OTHER = {"wmd": "a weighted matching graph", "dat": "extra data without a format"}
# Every alternative takes memory, so a mistyped number is refused.
_MOST_ALTERNATIVES = 1_000_000
_MOST_CATEGORIES = 1_000
_COUNTS = (
    *("NUMBER ALTERNATIVES", "NUMBER VOTERS", "NUMBER UNIQUE ORDERS"),
    *("NUMBER UNIQUE PREFERENCES", "NUMBER CATEGORIES"),
)

_HEADER = re.compile(r"#[ \t]*([A-Z]+(?: [A-Z]+)*)(?:[ \t]+([0-9]+))?[ \t]*:(.*)", re.DOTALL)
_NUMBER = r"[ \t]*[0-9]{1,9}[ \t]*"
_STRICT = re.compile(rf"{_NUMBER}(?:,{_NUMBER})*")
_GROUP = rf"(?:{_NUMBER}|[ \t]*\{{{_NUMBER}(?:,{_NUMBER})*\}}[ \t]*)"
_TIED = re.compile(rf"{_GROUP}(?:,{_GROUP})*")
_CATEGORY = rf"(?:{_NUMBER}|[ \t]*\{{(?:{_NUMBER}(?:,{_NUMBER})*|[ \t]*)\}}[ \t]*)"
_CATEGORIES = re.compile(rf"{_CATEGORY}(?:,{_CATEGORY})*")
_MEMBERS = re.compile(r"\{([^}]*)\}|([0-9]+)")
_COUNT = re.compile(r"[ \t]*([0-9]{1,15})[ \t]*([:,])(.*)", re.DOTALL)


def read_preflib(
    path: PathLike | Iterable[PathLike], *, check_counts: bool = True, missing: Missing = "unknown"
) -> Preferences:
    """Return the ballots of PrefLib files as preferences: orders (soc, soi, toc, toi) as ranks, cat as ratings.

    Parameters
    ----------
    path : path, glob, folder or a list of these
        One instance per file, called by the file's stem; where two files share it (`x.soi` and `x.toc`), by the whole
        name. Of a folder the files ending in .soc, .soi, .toc and .toi are taken, and those ending in .cat if there are
        none: PrefLib keeps the orders that follow from the categories beside them. Compressed files are unpacked.
    check_counts : bool
        Whether the numbers of voters and of unique ballots that the header states must be those of the file.
    missing : {"unknown", "below"}
        Whether alternatives that a ballot leaves out (soi, toi and cat files) are unknown to the voter or below the
        others; some methods use this. Elections differ in it, and the format does not say.

    Returns
    -------
    Preferences
        Experts "1", "2", ... are the ballot lines of each file, in order; an expert weighs as much as the ballot was
        cast. Expert "1" of one file has nothing to do with expert "1" of another.

    Notes
    -----
    Alternatives in braces are tied and share the smallest of their positions, so that a rank counts the alternatives
    ahead: ``1,{4,3},2`` gives the ranks 1, 2, 2, 4. Alternatives that a ballot leaves out are missing from it; those no
    ballot names are kept as items. An order that nobody cast (count 0 occurs in published files) and an empty ballot
    leave an expert without a list. Items go by the alternatives' names, in the order of their numbers; an alternative
    whose name is absent or borne by two goes by its number (and all do when that would clash with a name).

    A cat file sorts alternatives into categories, best first, such as "Yes", "Maybe" and "No". An alternative in the
    first of C categories is rated C, in the last 1: ``{2,3},{},1`` gives the ratings 3, 3 and 1. The names of the
    categories are not kept.

    Both the format with ``# KEY: value`` headers and, for orders, the older one (number of alternatives,
    ``number,name`` lines, a line of counts, then ``count,order`` lines) are read. Reading takes one pass; memory goes
    to the codes alone.

    Raises
    ------
    ParseError
        With file and line, when a ballot is not an order, names an alternative twice or one there is not, breaks what
        the type promises (ties in a soc file, an incomplete order in a toc file, another number of categories than the
        header states), or when the counts differ.
    FormatError
        For PrefLib's other types (wmd, dat).
    DataError
        When cat files are read together with orders.

    References
    ----------
    Mattei, Walsh (2013), PrefLib: a library for preferences. https://www.preflib.org

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "lunch.toc")
    >>> _ = path.write_text('''# DATA TYPE: toc
    ... # NUMBER ALTERNATIVES: 3
    ... # NUMBER VOTERS: 5
    ... # NUMBER UNIQUE ORDERS: 2
    ... # ALTERNATIVE NAME 1: soup
    ... # ALTERNATIVE NAME 2: fish
    ... # ALTERNATIVE NAME 3: rice
    ... 4: 3,1,2
    ... 1: {1,2},3
    ... ''')
    >>> p = read_preflib(path)
    >>> p.to_frame().rows()[3:]
    [('lunch', '2', 'soup', 1.0, 1.0), ('lunch', '2', 'fish', 1.0, 1.0), ('lunch', '2', 'rice', 3.0, 1.0)]
    """
    below = is_below(missing, "read_preflib")
    files = _files(path)
    ballots = _Ballots()
    items: list[str] = []
    sizes: list[int] = []
    starts: list[int] = [0]
    most = 0
    first_of: dict[bool, Path] = {}
    for file in files:
        election = _Election(file, ballots, len(items))
        names, voted = election.read(check_counts)
        first_of.setdefault(election.type == _CATEGORICAL, file)
        if len(first_of) == 2:
            raise DataError(
                f"{display_path(first_of[True])!r} holds categories and {display_path(first_of[False])!r} orders: they "
                "make ratings and ranks, which do not go together. Read them one after the other."
            )
        items += names
        sizes.append(len(names))
        starts.append(len(ballots.lengths))
        most = max(most, voted)
    if not ballots.lengths:
        warn_empty(files, "ballots")
    weight = np.array(ballots.weight, dtype=np.float64)
    return Preferences.from_codes(
        Slots(Texts(_instances(files)), Texts(items), offsets_of(np.array(sizes))),
        Texts([str(number) for number in range(1, most + 1)]),
        np.array(ballots.expert, dtype=np.int32),
        offsets_of(np.array(ballots.lengths, dtype=np.int64)),
        np.array(starts, dtype=np.int64),
        np.array(ballots.slot, dtype=np.int32),
        np.array(ballots.value, dtype=np.float64),
        kind="rating" if True in first_of else "rank",
        list_weight=None if (weight == 1.0).all() else weight,
        below=below,
    )


def _files(path: PathLike | Iterable[PathLike]) -> list[Path]:
    """Return the files to read; a folder stands for the ordinal files in it, or else for the categorical ones."""
    names = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    chosen: list[PathLike] = []
    for name in names:
        if not isinstance(name, (str, os.PathLike)) or not os.path.isdir(os.path.expanduser(name)):
            chosen.append(name)
            continue
        inside = expand(name)
        found = [file for file in inside if _type_of_name(file) in _ORDINAL]
        found = found or [file for file in inside if _type_of_name(file) == _CATEGORICAL]
        if not found:
            raise DataError(f"the folder {display_path(name)!r} holds no PrefLib files ending in .{', .'.join(TYPES)}.")
        chosen += found
    return expand(chosen)


def _type_of_name(path: PathLike) -> str:
    """Return the ending of a file name before any ending of compression, in lower case and without the dot."""
    name = uncompressed_name(os.path.basename(display_path(path)))
    return os.path.splitext(name)[1][1:].lower()


def _stem(path: Path) -> str:
    name, ending = os.path.splitext(uncompressed_name(path.name))
    return name if ending[1:].lower() in TYPES else name + ending


def _instances(files: list[Path]) -> list[str]:
    """Return an id for every file: its stem, or as many folders of its path as make it unique."""
    longest = max((len(file.parts) for file in files), default=1)
    names = [_stem(file) for file in files]
    for parts in range(1, longest + 1):
        count = Counter(names)
        if len(count) == len(names):
            break
        names = [
            "/".join(file.parts[-parts:]) if count[name] > 1 else name for file, name in zip(files, names, strict=True)
        ]
    return names


class _Ballots:
    """The rows and lists of all files read so far, as flat arrays."""

    def __init__(self) -> None:
        self.slot = array("i")
        self.value = array("d")
        self.lengths = array("q")
        self.expert = array("i")
        self.weight = array("d")


class _Election:
    """Reads one file and checks its ballots against its header."""

    def __init__(self, path: Path, ballots: _Ballots, first_slot: int) -> None:
        self.path = path
        self.ballots = ballots
        self.shift = first_slot - 1  # alternatives are numbered from 1
        self.type = _type_of_name(path)
        self._refuse_other(self.type, None)
        self.header: dict[str, tuple[int, int]] = {}
        self.names: dict[int, str] = {}
        self.name_line: dict[int, int] = {}
        self.category_line: dict[int, int] = {}
        self.n_categories = 0
        self.n_alternatives = 0
        self.n_ballots = 0
        self.n_voters = 0

    def read(self, check_counts: bool) -> tuple[list[str], int]:
        """Add the ballots to `ballots`; return the ids of the alternatives and the number of ballot lines."""
        lines = ((number, text) for number, text in text_lines(self.path) if text.strip(BLANKS))
        number = 1
        for number, text in lines:
            if text.startswith("#"):
                self._header_line(number, text)
                continue
            if not self.n_alternatives:
                old = not self.header and not self.names and text.strip(BLANKS).isdecimal()
                if old and self.type != _CATEGORICAL:
                    self._old_header(number, text.strip(BLANKS), lines)
                    continue
                self._settle_alternatives(number)
            self._ballot(number, text)
        if not self.n_alternatives:
            self._settle_alternatives(number)
        if check_counts:
            self._check("NUMBER VOTERS", self.n_voters, "the ballots add up to")
            for key in ("NUMBER UNIQUE ORDERS", "NUMBER UNIQUE PREFERENCES"):
                self._check(key, self.n_ballots, "the number of ballot lines is")
        return _ids(self.names, self.n_alternatives), self.n_ballots

    def _refuse_other(self, name: str, line: int | None) -> None:
        if name in _OTHER:
            where = self.path if line is None else f"{self.path}:{line}"
            raise FormatError(
                f"{where}: a PrefLib {name} file holds {_OTHER[name]}, not ballots. "
                f"read_preflib reads {', '.join(TYPES)}."
            )

    def _header_line(self, line: int, text: str) -> None:
        match = _HEADER.fullmatch(text)
        if match is None:
            return  # a remark
        key, number, value = match[1], match[2], match[3].strip(BLANKS)
        named = key == "ALTERNATIVE NAME" and number is not None
        category = key == "CATEGORY NAME" and number is not None
        if not named and not category and key not in ("DATA TYPE", *_COUNTS):
            return
        if self.n_alternatives:
            raise ParseError(self.path, line, f"'# {key}' must come before the first ballot.")
        if key == "DATA TYPE":
            self._refuse_other(value.lower(), line)
            if value.lower() not in TYPES:
                raise FormatError(
                    f"{self.path}:{line}: DATA TYPE must be one of {', '.join(TYPES)}, found {quote(value)}."
                )
            self.type = value.lower()
        elif named:
            self._name(line, number, value)
        elif category:
            self._name_category(line, number)
        else:
            self._set_count(line, key, value)

    def _set_count(self, line: int, key: str, value: str) -> None:
        if not re.fullmatch("[0-9]{1,15}", value):
            raise ParseError(self.path, line, f"{key} must be a whole number, found {quote(value)}.")
        if key in self.header:
            raise ParseError(self.path, line, f"{key} is given twice, on lines {self.header[key][1]} and {line}.")
        self.header[key] = int(value), line

    def _name(self, line: int, number: str, name: str) -> None:
        code = _number_up_to(number, _MOST_ALTERNATIVES)
        if not code:
            raise ParseError(
                self.path, line, f"alternatives are numbered from 1 to {_MOST_ALTERNATIVES}, found {shorten(number)}."
            )
        if code in self.names:
            raise ParseError(
                self.path, line, f"alternative {code} is named twice, on lines {self.name_line[code]} and {line}."
            )
        self.names[code] = name
        self.name_line[code] = line

    def _name_category(self, line: int, number: str) -> None:
        code = _number_up_to(number, _MOST_CATEGORIES)
        if not code:
            raise ParseError(
                self.path, line, f"categories are numbered from 1 to {_MOST_CATEGORIES}, found {shorten(number)}."
            )
        if code in self.category_line:
            raise ParseError(
                self.path, line, f"category {code} is named twice, on lines {self.category_line[code]} and {line}."
            )
        self.category_line[code] = line

    def _settle_alternatives(self, line: int) -> None:
        """Determine the number of alternatives; called at the first ballot."""
        largest = max(self.names, default=0)
        count, where = self.header.get("NUMBER ALTERNATIVES", (largest, line))
        if not 1 <= count <= _MOST_ALTERNATIVES:
            if "NUMBER ALTERNATIVES" in self.header:
                raise ParseError(
                    self.path, where, f"NUMBER ALTERNATIVES must lie between 1 and {_MOST_ALTERNATIVES}, found {count}."
                )
            raise ParseError(
                self.path,
                line,
                "expected '# NUMBER ALTERNATIVES: m' and '# ALTERNATIVE NAME i: name' headers before the ballots, or "
                "the older format that begins with the number of alternatives.",
            )
        if largest > count:
            raise ParseError(
                self.path,
                self.name_line[largest],
                f"NUMBER ALTERNATIVES says {count}, but alternative {largest} has a name.",
            )
        self.n_alternatives = count
        if self.type == _CATEGORICAL:
            self._settle_categories()

    def _settle_categories(self) -> None:
        """Determine the number of categories; 0 if the header says nothing, so that the first ballot decides."""
        largest = max(self.category_line, default=0)
        count, where = self.header.get("NUMBER CATEGORIES", (largest, 0))
        if where and not 1 <= count <= _MOST_CATEGORIES:
            raise ParseError(
                self.path, where, f"NUMBER CATEGORIES must lie between 1 and {_MOST_CATEGORIES}, found {count}."
            )
        if largest > count:
            raise ParseError(
                self.path,
                self.category_line[largest],
                f"NUMBER CATEGORIES says {count}, but category {largest} has a name.",
            )
        self.n_categories = count

    def _old_header(self, line: int, text: str, lines: Iterator[tuple[int, str]]) -> None:
        """Read the header of the older format: the number of alternatives, their names, and a line of counts."""
        self._set_count(line, "NUMBER ALTERNATIVES", text)
        count = self.header["NUMBER ALTERNATIVES"][0]
        if not 1 <= count <= _MOST_ALTERNATIVES:
            self._settle_alternatives(line)
        for _ in range(count):
            line, text = next(lines, (line, ""))
            number, comma, name = text.partition(",")
            if not comma or not re.fullmatch("[ \t]*[0-9]+[ \t]*", number):
                raise ParseError(
                    self.path, line, f"expected 'number,name' for {count} alternatives, found {quote(text)}."
                )
            self._name(line, number.strip(BLANKS), name.strip(BLANKS))
        line, text = next(lines, (line, ""))
        counts = re.fullmatch(r"[ \t]*([0-9]+)[ \t]*,[ \t]*([0-9]+)[ \t]*,[ \t]*([0-9]+)[ \t]*", text)
        if counts is None:
            raise ParseError(self.path, line, f"expected 'voters,sum of counts,unique orders', found {quote(text)}.")
        self._set_count(line, "NUMBER VOTERS", counts[2])
        self._set_count(line, "NUMBER UNIQUE ORDERS", counts[3])
        self._settle_alternatives(line)

    def _ballot(self, line: int, text: str) -> None:
        match = _COUNT.fullmatch(text)
        if match is None:
            raise ParseError(self.path, line, f"expected 'count: 1,{{4,3}},2', found {quote(text)}.")
        times, order = int(match[1]), match[3]
        self.n_ballots += 1
        self.n_voters += times
        values: Iterable[int]
        if self.type == _CATEGORICAL:
            alternatives, values = self._sorted_into_categories(line, order)
        elif _STRICT.fullmatch(order):
            alternatives = list(map(int, order.split(",")))
            values = range(1, len(alternatives) + 1)
        elif _TIED.fullmatch(order):
            alternatives, values = self._tied(line, order)
        elif not order.strip(BLANKS):
            alternatives, values = [], []
        else:
            raise ParseError(
                self.path,
                line,
                f"expected alternatives' numbers separated by commas, tied ones in braces, found {quote(order)}.",
            )
        self._check_ballot(line, alternatives)
        if not alternatives or not times:
            return  # an empty ballot or a count of 0: an expert without a list
        shift, ballots = self.shift, self.ballots
        ballots.slot.extend([code + shift for code in alternatives])
        ballots.value.extend(values)
        ballots.lengths.append(len(alternatives))
        ballots.expert.append(self.n_ballots - 1)
        ballots.weight.append(times)

    def _sorted_into_categories(self, line: int, text: str) -> tuple[list[int], list[int]]:
        """Return the alternatives of a ballot and their ratings: the number of categories down to 1."""
        if not _CATEGORIES.fullmatch(text):
            raise ParseError(
                self.path,
                line,
                "expected categories separated by commas, each an alternative's number, several in braces or {} for "
                f"none, found {quote(text.strip(BLANKS))}.",
            )
        groups = [inside or alone for inside, alone in _MEMBERS.findall(text)]
        self.n_categories = self.n_categories or len(groups)
        if len(groups) != self.n_categories:
            raise ParseError(
                self.path,
                line,
                f"a ballot of this file has {self.n_categories} categories, found {len(groups)}: "
                f"{quote(text.strip(BLANKS))}. An empty category is written {{}}.",
            )
        alternatives: list[int] = []
        ratings: list[int] = []
        for place, group in enumerate(groups):
            members = [int(code) for code in group.split(",") if code.strip(BLANKS)]
            alternatives += members
            ratings += [self.n_categories - place] * len(members)
        return alternatives, ratings

    def _tied(self, line: int, order: str) -> tuple[list[int], list[int]]:
        alternatives: list[int] = []
        ranks: list[int] = []
        inside = False
        for field in order.split(","):
            part = field.strip(BLANKS)
            ranks.append(ranks[-1] if inside else len(ranks) + 1)
            inside = (inside or part[0] == "{") and part[-1] != "}"
            alternatives.append(int(part.strip("{} \t")))
        if self.type.startswith("s") and self.type in TYPES and len(set(ranks)) < len(ranks):
            raise ParseError(self.path, line, f"a {self.type} file holds no ties, found {quote(order.strip(BLANKS))}.")
        return alternatives, ranks

    def _check_ballot(self, line: int, alternatives: list[int]) -> None:
        n = len(alternatives)
        if n and not (min(alternatives) >= 1 and max(alternatives) <= self.n_alternatives):
            wrong = next(code for code in alternatives if not 1 <= code <= self.n_alternatives)
            raise ParseError(
                self.path, line, f"the alternatives are numbered 1 to {self.n_alternatives}, found {wrong}."
            )
        if len(set(alternatives)) < n:
            twice = next(code for code, times in Counter(alternatives).items() if times > 1)
            raise ParseError(self.path, line, f"alternative {twice} stands twice in one ballot.")
        if self.type in ("soc", "toc") and n < self.n_alternatives:
            raise ParseError(
                self.path,
                line,
                f"a {self.type} file holds complete orders; this ballot ranks {n} of {self.n_alternatives} "
                f"alternatives. Incomplete ones belong in a {self.type[:2]}i file.",
            )

    def _check(self, key: str, found: int, what: str) -> None:
        stated, line = self.header.get(key, (found, 0))
        if stated != found:
            unchecked = Setting("check_counts", False)
            raise ParseError(
                self.path,
                line,
                f"{key} says {stated}, but {what} {found}. Is the file cut short or edited? "
                f"Pass {unchecked} to read the ballots that are there.",
            ).advising(unchecked)


def _number_up_to(text: str, most: int) -> int:
    """Return the number that a text spells, 0 if it lies outside 1 to `most`."""
    return int(text) if len(text) <= 9 and 1 <= int(text) <= most else 0


def _ids(names: dict[int, str], count: int) -> list[str]:
    """Return an id for each alternative: its name if it is unique, else its number."""
    given = [names.get(code, "") for code in range(1, count + 1)]
    times = Counter(given)
    ids = [name if name and times[name] == 1 else str(code) for code, name in enumerate(given, 1)]
    return ids if len(set(ids)) == count else [str(code) for code in range(1, count + 1)]


def write_preflib(preferences: Preferences, path: PathLike, *, categories: Sequence[str] | None = None) -> Path:
    """Write the ballots of one instance as a PrefLib file and return its path.

    Parameters
    ----------
    preferences : Preferences
        One instance; ranks, scores or ratings (equal values are ties). Weights are the multiplicities and must be whole
        numbers; a list of weight 0 is left out.
    path : path
        Where to write. Without one of the endings .soc, .soi, .toc, .toi, the narrowest that holds these ballots
        (strict or tied, complete or incomplete) is added; an ending given must allow them. With .cat, ratings are
        written as categories. A further .gz, .xz, .bz2 or .zst compresses.
    categories : sequence of str, optional
        The names of the categories of a cat file, best first, such as ["Yes", "Maybe", "No"]. The rating of the first
        is their number, that of the last 1. By default every rating is a category that is called by it: whole numbers
        from the largest down to 1, other ratings from the largest to the smallest that occurs.

    Returns
    -------
    Path
        The file written: whole, or not at all.

    Notes
    -----
    The format keeps the order of a ballot and not the names of who cast it: equal ballots become one with the sum of
    their weights, experts without a list are lost, and gaps in ranks close. Costs O(R log m) for R rows in lists of m.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> p = Preferences(list("qqqq"), list("xxyy"), list("abba"), [1, 2, 5, 9], weight=[3, 3, 1, 1])
    >>> path = write_preflib(p, pathlib.Path(tempfile.mkdtemp(), "votes"))
    >>> path.name, path.read_text().splitlines()[-2:]
    ('votes.soc', ['3: 1,2', '1: 2,1'])
    """
    if not isinstance(preferences, Preferences):
        raise ParameterError.invalid("preferences", "write_preflib", "Preferences", type(preferences).__name__)
    if len(preferences) != 1:
        raise DataError(
            f"a PrefLib file holds one instance; these preferences have {len(preferences)}. "
            "Write them one by one: for p in preferences: write_preflib(p, ...)."
        )
    names = _names_to_write(preferences)
    counts_as = "NUMBER UNIQUE ORDERS"
    category_head: list[str] = []
    if categories is not None or _type_of_name(path) == _CATEGORICAL:
        target, kind = _target(path, _CATEGORICAL)
        place, called = _categories_to_write(preferences, categories)
        counts = _sorted_ballots(preferences, place, len(called))
        counts_as = "NUMBER UNIQUE PREFERENCES"
        category_head = [f"NUMBER CATEGORIES: {len(called)}"]
        category_head += [f"CATEGORY NAME {code}: {name}" for code, name in enumerate(called, 1)]
    else:
        counts, tied, complete = _orders(preferences)
        target, kind = _target(path, ("t" if tied else "s") + "o" + ("c" if complete else "i"))
    original = preferences.kind == ("rating" if kind == _CATEGORICAL else "rank")
    title = " ".join(preferences.instances[0].split())
    head = [
        f"FILE NAME: {target.name}",
        f"TITLE: {title}",
        "DESCRIPTION: ",
        f"DATA TYPE: {kind}",
        f"MODIFICATION TYPE: {'original' if original else 'induced'}",
        "RELATES TO: ",
        "RELATED FILES: ",
        "PUBLICATION DATE: ",
        "MODIFICATION DATE: ",
        f"NUMBER ALTERNATIVES: {len(names)}",
        f"NUMBER VOTERS: {sum(counts.values())}",
        f"{counts_as}: {len(counts)}",
        *category_head,
        *(f"ALTERNATIVE NAME {code}: {name}" for code, name in enumerate(names, 1)),
    ]
    text = "".join([*(f"# {line}\n" for line in head), *(f"{n}: {order}\n" for order, n in counts.items())])
    with atomic_write(target) as handle:
        handle.write(text.encode())
    return target


def _names_to_write(preferences: Preferences) -> list[str]:
    names = preferences.items.tolist()
    if not names:
        raise DataError("a PrefLib file needs at least one item; these preferences have none.")
    for name in names:
        _check_name(name, "item")
    return names


def _check_name(name: str, what: str) -> None:
    """Raise DataError for a name that would change, because the reader trims names and reads line by line."""
    if not name or name != name.strip(BLANKS) or "\n" in name or "\r" in name or not is_text(name):
        raise DataError(
            f"{what} {quote(name)} cannot be a name in a PrefLib file: names are not empty, hold no line breaks and do "
            "not begin or end in blanks."
        )


def _categories_to_write(preferences: Preferences, categories: Sequence[str] | None) -> tuple[Ints, list[str]]:
    """Return the category of every row, 0 for the best, and the names of the categories."""
    if preferences.kind != "rating":
        raise DataError(
            f"a cat file holds ratings; these preferences are {preferences.kind}s. Leave the ending and the categories "
            "out: orders belong in a toc or toi file."
        )
    value = preferences.value
    counted = bool(len(value)) and bool((value == np.floor(value)).all()) and value.min() >= 1
    if categories is not None:
        names = list(categories)
        if isinstance(categories, str) or not names or not all(isinstance(name, str) for name in names):
            raise ParameterError.invalid("categories", "write_preflib", "a sequence of names, best first", categories)
        if len(value) and not (counted and value.max() <= len(names)):
            wrong = float(next(v for v in value.tolist() if v != int(v) or not 1 <= v <= len(names)))
            raise DataError(f"{len(names)} categories stand for the ratings {len(names)} down to 1, found {wrong:g}.")
        for name in names:
            _check_name(name, "category")
        place = len(names) - value
    elif counted and value.max() <= _MOST_CATEGORIES:
        names = [str(number) for number in range(int(value.max()), 0, -1)]
        place = len(names) - value
    else:
        levels, level_of = np.unique(-value, return_inverse=True)
        place = level_of.astype(np.float64)
        names = [f"{-level:.17g}" for level in levels.tolist()] or ["1"]
    if len(names) > _MOST_CATEGORIES:
        raise DataError(f"a cat file holds at most {_MOST_CATEGORIES} categories; there are {len(names)} ratings.")
    return place.astype(np.int64), names


def _sorted_ballots(preferences: Preferences, place: Ints, n_categories: int) -> dict[str, int]:
    """Return how often each distinct ballot over the categories is cast."""
    counts: dict[str, int] = {}
    ends = preferences.list_offsets.tolist()
    codes, places = (preferences.slot + 1).tolist(), place.tolist()
    for which, times in enumerate(_multiplicities(preferences)):
        groups: list[list[int]] = [[] for _ in range(n_categories)]
        for row in range(ends[which], ends[which + 1]):
            groups[places[row]].append(codes[row])
        ballot = ",".join(_group_text(group) for group in groups)
        if times:
            counts[ballot] = counts.get(ballot, 0) + times
    return counts


def _group_text(group: list[int]) -> str:
    """Return alternatives of one place; their order is arbitrary: sorted, so that equal ballots have equal text."""
    return str(group[0]) if len(group) == 1 else "{" + ",".join(map(str, sorted(group))) + "}"


def _multiplicities(preferences: Preferences) -> list[int]:
    """Return the weights of the lists as whole numbers; raise DataError if they are not."""
    weights = preferences.weights
    whole = (weights == np.floor(weights)) & (weights < 2**53)
    if not whole.all():
        which = int(np.flatnonzero(~whole)[0])
        expert = preferences.experts[int(preferences.list_expert[which])]
        raise DataError(
            f"PrefLib counts voters, so weights must be whole numbers. Expert {quote(expert)} weighs "
            f"{weights[which]:g}. Scale the weights, or clear them with preferences.with_weights(None)."
        )
    return [int(weight) for weight in weights.tolist()]


def _orders(preferences: Preferences) -> tuple[dict[str, int], bool, bool]:
    """Return how often each distinct order is cast, whether any has ties, and whether all are complete."""
    multiplicities = _multiplicities(preferences)
    position = preferences.positions("min")
    rows = order_lists(position, preferences.list_offsets)
    codes = (preferences.slot[rows] + 1).tolist()
    position = position[rows]
    joined = np.zeros(len(rows), dtype=np.bool_)  # whether a row is tied with the one before it
    joined[1:] = position[1:] == position[:-1]
    heads = preferences.list_offsets[:-1]
    joined[heads[heads < len(rows)]] = False
    tied_list = np.zeros(preferences.n_lists, dtype=np.bool_)
    tied_list[preferences.row_list[joined]] = True
    counts: dict[str, int] = {}
    any_tied, all_complete = False, True
    ends = preferences.list_offsets.tolist()
    for which, times in enumerate(multiplicities):
        if times == 0:
            continue
        start, end = ends[which], ends[which + 1]
        order = _order_text(codes[start:end], joined[start:end].tolist() if tied_list[which] else None)
        counts[order] = counts.get(order, 0) + times
        any_tied = any_tied or bool(tied_list[which])
        all_complete = all_complete and end - start == preferences.n_slots
    return counts, any_tied, all_complete


def _order_text(codes: list[int], joined: list[bool] | None) -> str:
    if joined is None:
        return ",".join(map(str, codes))
    groups: list[list[int]] = []
    for code, with_last in zip(codes, joined, strict=True):
        if with_last:
            groups[-1].append(code)
        else:
            groups.append([code])
    return ",".join(_group_text(group) for group in groups)


def _target(path: PathLike, narrowest: str) -> tuple[Path, str]:
    """Return the path with its ending and the type that goes into the header."""
    target = Path(path)
    kind = _type_of_name(target)
    if is_stream(path) and kind not in TYPES:
        return target, narrowest
    if kind not in TYPES:
        plain = uncompressed_name(target.name)
        packed = target.name[len(plain) :]
        return target.with_name(f"{plain}.{narrowest}{packed}"), narrowest
    if (kind == _CATEGORICAL) != (narrowest == _CATEGORICAL):
        raise DataError(f"cannot write {display_path(path)!r}: categories belong in a cat file, orders in the others.")
    if kind == _CATEGORICAL:
        return target, kind
    if (narrowest[0] == "t" and kind[0] == "s") or (narrowest[2] == "i" and kind[2] == "c"):
        holds = f"{'tied' if narrowest[0] == 't' else 'strict'}, {'complete' if narrowest[2] == 'c' else 'incomplete'}"
        raise DataError(
            f"cannot write {display_path(path)!r}: these ballots are {holds}, which a {kind} file may not hold. "
            f"Name it .{narrowest}, or leave the ending out."
        )
    return target, kind


register_format(
    "preflib",
    "PrefLib ballots (soc, soi, toc, toi, cat)",
    read=read_preflib,
    write=write_preflib,
    writes=(Preferences,),
    sniff=is_preflib,
    extensions=(".soc", ".soi", ".toc", ".toi", ".cat"),
    usual=("ballots there are voting rules", "schulze"),
    beside=(r"metadata\.csv", r"info\.txt", r".*\.(dat|cat|wmd)(\.(gz|xz|zst|bz2))?"),
)
