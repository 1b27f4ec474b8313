"""Reads LETOR and SVMlight text into preferences, features and labels, and writes LETOR files.

Every line is `label qid:Q index:value ... # comment`. One tokeniser splits blocks of lines into columns; whether the
indices are experts or features is decided afterwards. Errors are found in the columns too, without reading the file
again.
"""

from __future__ import annotations

import ast
import io
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concordant.arrays import Codes, Floats, Ints
from concordant.data.consensus import Consensus
from concordant.data.container import Container
from concordant.data.dataset import Dataset, FeatureFold, FeaturePart, Fold, Part, concat
from concordant.data.features import Features
from concordant.data.index import Slots, Texts
from concordant.data.labels import Labels
from concordant.data.preferences import Kind, Missing, Preferences, is_below
from concordant.errors import (
    DataError,
    DuplicateError,
    FormatError,
    ParameterError,
    ParseError,
    Setting,
    quote,
    shorten,
)
from concordant.io._dictionary_encoding import encode_slots
from concordant.io._files import (
    COMPRESSION_ENDINGS,
    PathLike,
    atomic_write,
    display_path,
    expand,
    read_bytes,
    read_head,
    text_blocks,
    text_lines,
    uncompressed_name,
)
from concordant.io._sniff import UNKNOWN, is_features, is_letor_ranks
from concordant.io.formats import Head, check_options, register_format
from concordant.kernels.lists import offsets_of

__all__ = [
    "read_feature_folds",
    "read_features",
    "read_letor",
    "read_letor_folds",
    "write_letor",
    "write_letor_scores",
]

# The tokens of a block take about ten times the memory of its text.
_BLOCK_BYTES = 4 << 20
# Larger indices are typing errors, which must not fill the memory.
_MOST_EXPERTS = 1_000_000
_MOST_FEATURES = 1_000_000_000
# A dense table of more cells must have a value in one of a thousand.
_SMALL_TABLE = 1 << 22
_OPTIONAL_COMPRESSION = ("", *COMPRESSION_ENDINGS)
_NO_INSTANCE = "expected 'label qid:Q index:value ...', found no qid after the label."
_ITEM = r"docid\s*=\s*(\S+)"


class _ParsedBlock(NamedTuple):
    """Parsed lines of one file: arrays with an entry per line, then with an entry per index:value pair."""

    line: Ints
    label: Floats
    instance: pl.Series
    item: pl.Series
    row: Ints
    column: Ints
    value: Floats


class _FileKind(NamedTuple):
    """Whether indices and values are ranks, scores or features, for checks and messages."""

    column: str
    value: str
    ranks: bool
    experts: bool  # values may be NULL, and every line needs a qid and a docid


_RANKS = _FileKind("expert", "the rank by expert", ranks=True, experts=True)
_SCORES = _FileKind("expert", "the score by expert", ranks=False, experts=True)
_FEATURES = _FileKind("feature", "feature", ranks=False, experts=False)


class _LetorRows:
    """The lines of all files read so far: instance, item, label, file and line."""

    def __init__(self) -> None:
        self.instances: dict[str, int] = {}
        self.files: list[Path] = []
        self.file: list[Codes] = []
        self.line: list[Ints] = []
        self.code: list[Codes] = []
        self.label: list[Floats] = []
        self.item: list[pl.Series] = []
        self.n_rows = 0

    def add(self, path: Path, line: Ints, code: Codes, label: Floats, item: pl.Series) -> None:
        if not self.files or self.files[-1] != path:
            self.files.append(path)
        self.file.append(np.full(len(line), len(self.files) - 1, dtype=np.int32))
        self.line.append(line)
        self.code.append(code)
        self.label.append(label)
        self.item.append(item)
        self.n_rows += len(line)

    def encode(self, ids: pl.Series) -> Codes:
        """Return a code for every id; only ids that differ from the line before are looked up."""
        if not len(ids):
            return np.zeros(0, dtype=np.int32)
        new = np.ones(len(ids), dtype=np.bool_)
        new[1:] = (ids[1:] != ids[:-1]).to_numpy()
        heads = np.flatnonzero(new)
        known = self.instances
        codes = [known.setdefault(name, len(known)) for name in ids.gather(heads).to_list()]
        return np.repeat(np.array(codes, dtype=np.int32), np.diff(heads, append=len(ids)))

    def where(self, row: int) -> tuple[Path, int]:
        """Return the file and the line of a row."""
        return self.files[int(np.concatenate(self.file)[row])], int(np.concatenate(self.line)[row])

    def slots(self, duplicates: str) -> tuple[Slots, Ints, Floats]:
        """Return the slots in first-seen order, the slot of every row (-1 if replaced), and the labels."""
        code, label, items = np.concatenate(self.code), np.concatenate(self.label), pl.concat(self.item)
        if items.null_count() == len(items):
            slots, slot = self._numbered(code)
        else:
            slots, slot = self._named(code, items, duplicates)
        kept = slot >= 0
        out = np.empty(slots.n_slots)
        out[slot[kept]] = label[kept]
        return slots, slot, out

    def _numbered(self, code: Codes) -> tuple[Slots, Ints]:
        """Return slots for lines that name no items: "1", "2", ... within each instance."""
        n = len(code)
        order = np.argsort(code, kind="stable")
        offsets = offsets_of(np.bincount(code, minlength=len(self.instances)))
        place = np.arange(1, n + 1) - np.repeat(offsets[:-1], np.diff(offsets))
        slot = np.empty(n, dtype=np.int64)
        slot[order] = np.arange(n)
        return Slots(Texts(list(self.instances)), Texts(pl.Series(place).cast(pl.String)), offsets), slot

    def _named(self, code: Codes, items: pl.Series, duplicates: str) -> tuple[Slots, Ints]:
        """Return slots for lines that name their items, each of them once."""
        if items.null_count():
            path, line = self.where(int(items.is_null().arg_true()[0]))
            raise ParseError(path, line, "expected 'docid = D' in a comment, as other lines have one; found none.")
        names = pl.Series(list(self.instances), dtype=pl.String)
        frame = pl.DataFrame({"instance": names.gather(pl.Series(code)), "item": items})
        slots, codes = encode_slots(frame)
        slot = codes.astype(np.int64)
        if slots.n_slots == len(slot):
            return slots, slot
        by_slot = np.argsort(slot, kind="stable")
        again = np.flatnonzero(np.diff(slot[by_slot]) == 0)  # by_slot[again + 1] repeats by_slot[again]
        if duplicates == "error":
            at = int(again[np.argmin(by_slot[again + 1])])
            instance, item = slots.where(int(slot[by_slot[at]]))
            (earlier, first), (path, line) = self.where(int(by_slot[at])), self.where(int(by_slot[at + 1]))
            last = Setting("duplicates", "last")
            raise DuplicateError(
                f"{path}:{line}: item {quote(item)} of instance {quote(instance)} has a line already, "
                f"{earlier}:{first}. Pass {last} to keep the later one, as LETOR's script does."
            ).advising(last)
        kept = np.ones(len(slot), dtype=np.bool_)
        kept[by_slot[again]] = False
        out = np.full(len(slot), -1, dtype=np.int64)
        slots, out[kept] = encode_slots(frame.filter(pl.Series(kept)))
        return slots, out


def read_letor(
    path: PathLike | Iterable[PathLike],
    *,
    higher_is_better: bool = False,
    duplicates: str = "error",
    missing: Missing = "unknown",
) -> tuple[Preferences, Labels]:
    r"""Return the preferences and labels of LETOR rank-aggregation (-agg) files.

    A line reads ``label qid:Q 1:v 2:v ... K:v #docid = D inc = x prob = y``; a value is the rank that expert k gives
    the item, or NULL.

    Parameters
    ----------
    path : path, glob, folder or a list of these
        Files, plain or compressed. Several are read as one; for a folder with Fold1, Fold2, ... see `read_letor_folds`.
    higher_is_better : bool
        Whether the values are scores (larger is better) and not ranks (1 = best).
    duplicates : {"error", "last"}
        What to do with a second line for an item of an instance: raise, or replace the first.
    missing : {"unknown", "below"}
        Whether items with NULL are unknown to the expert or below the items it ranks; some methods use this.

    Returns
    -------
    (Preferences, Labels)
        Over the same slots, in file order, including items that no expert ranks. Instances are the qids as text, items
        the docids, experts "1" to "K", including those without a rank. Kind "rank" (or "score"); ranks are kept with
        their gaps.

    Notes
    -----
    An index that a line leaves out means the same as NULL. ``inc`` and ``prob`` describe how items were sampled for
    judging and are not read. Blank lines and lines that are only a comment are passed over. Cost O(text), memory for
    the ranks there are and one block of text.

    Raises
    ------
    ParseError
        With file and line: a field that is not ``index:value``, a number that is not one, a rank below 1, an index
        given twice, no qid or no docid.
    DuplicateError
        For a repeated item, naming both lines.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.txt")
    >>> _ = path.write_text(
    ...     "2 qid:7 1:3 2:NULL #docid = GX1 inc = 1 prob = 0.5\n0 qid:7 1:9 2:1 #docid = GX2 inc = 1 prob = 0.5\n"
    ... )
    >>> preferences, labels = read_letor(path)
    >>> preferences.to_frame().rows()
    [('7', '1', 'GX1', 3.0), ('7', '1', 'GX2', 9.0), ('7', '2', 'GX2', 1.0)]
    >>> labels.label.tolist()
    [2.0, 0.0]
    """
    _check_duplicates(duplicates, "read_letor")
    file_kind, below = _SCORES if higher_is_better else _RANKS, is_below(missing, "read_letor")
    table = _LetorRows()
    rows: list[Ints] = []
    experts: list[Codes] = []
    values: list[Floats] = []
    n_experts = 0
    files = _letor_files(path)
    for file in files:
        for block in _blocks(file, file_kind):
            n_experts = max(n_experts, int(block.column.max(initial=0)))
            given = ~np.isnan(block.value)
            rows.append(block.row[given] + table.n_rows)
            experts.append((block.column[given] - 1).astype(np.int32))
            values.append(block.value[given])
            table.add(file, block.line, table.encode(block.instance), block.label, block.item)
    if not table.n_rows:
        raise ParseError(files[0], 1, "expected lines 'label qid:Q 1:rank ... #docid = D', found none.")
    slots, slot_of, label = table.slots(duplicates)
    slot = slot_of[_join(rows, np.int64)]
    del rows
    preferences = _lists(slots, slot, _join(experts, np.int32), _join(values, np.float64), n_experts, file_kind, below)
    return preferences, Labels.from_codes(slots, label)


def _lists(
    slots: Slots, slot: Ints, expert: Codes, value: Floats, n_experts: int, file_kind: _FileKind, below: bool
) -> Preferences:
    """Return preferences from rows in file order; rows of replaced lines have slot -1."""
    if len(slot) and slot.min() < 0:
        kept = slot >= 0
        slot, expert, value = slot[kept], expert[kept], value[kept]
    instance = slots.instance[slot] if len(slot) else np.zeros(0, dtype=np.int32)
    key = instance.astype(np.int64) * n_experts + expert
    order = np.argsort(key, kind="stable")
    key = key[order]
    new = np.ones(len(key), dtype=np.bool_)
    new[1:] = key[1:] != key[:-1]
    starts = np.flatnonzero(new)
    kind: Kind = "rank" if file_kind.ranks else "score"
    return Preferences.from_codes(
        slots,
        Texts([str(k) for k in range(1, n_experts + 1)]),
        expert[order[starts]],
        np.append(starts, len(key)).astype(np.int64),
        np.searchsorted(instance[order[starts]], np.arange(len(slots) + 1)).astype(np.int64),
        slot[order].astype(np.int32),
        value[order],
        kind=kind,
        below=below,
    )


def read_letor_folds(
    folder: PathLike, *, higher_is_better: bool = False, duplicates: str = "error", missing: Missing = "unknown"
) -> list[Fold]:
    r"""Return the folds of a LETOR rank-aggregation folder, each with train, vali and test.

    Parameters
    ----------
    folder : path
        Holds Fold1, Fold2, ... (any number), each with train.txt, vali.txt and test.txt, plain or compressed.
    higher_is_better, duplicates, missing
        As for `read_letor`.

    Returns
    -------
    list of Fold
        In the order of the folds' numbers; `fold.test.preferences`, `fold.test.labels` and so on, or unpack it.

    Raises
    ------
    DataError
        When there are no folds or a part of one is missing.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "Fold1").mkdir()
    >>> for part in ("train", "vali", "test"):
    ...     _ = (folder / "Fold1" / f"{part}.txt").write_text(f"1 qid:{part} 1:1 #docid = a\n")
    >>> [(fold.train.preferences.instances[0], fold.test.labels.label.tolist()) for fold in read_letor_folds(folder)]
    [('train', [1.0])]
    """
    out = []
    for parts in fold_files(folder, "read_letor_folds"):
        train, vali, test = (
            Part(*read_letor(p, higher_is_better=higher_is_better, duplicates=duplicates, missing=missing))
            for p in parts
        )
        out.append(Fold(train, vali, test))
    return out


def read_feature_folds(
    folder: PathLike, *, n_features: int | None = None, duplicates: str = "error"
) -> list[FeatureFold]:
    r"""Return the folds of a LETOR folder of features, each with train, vali and test.

    Parameters
    ----------
    folder : path
        Holds Fold1, Fold2, ... (any number), each with train.txt, vali.txt and test.txt, plain or compressed, as MQ2008
        and MSLR-WEB10K come.
    n_features, duplicates
        As for `read_features`. All parts get the columns of the widest one.

    Returns
    -------
    list of FeatureFold
        In the order of the folds' numbers; `fold.test.features`, `fold.test.labels` and so on, or unpack it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "Fold1").mkdir()
    >>> for k, part in enumerate(("train", "vali", "test")):
    ...     _ = (folder / "Fold1" / f"{part}.txt").write_text(f"1 qid:{part} {k + 1}:0.5\n")
    >>> [fold] = read_feature_folds(folder)
    >>> fold.train.features.X.tolist(), fold.test.features.X.tolist()
    ([[0.5, 0.0, 0.0]], [[0.0, 0.0, 0.5]])
    """
    read = [
        [read_features(path, n_features=n_features, duplicates=duplicates) for path in parts]
        for parts in fold_files(folder, "read_feature_folds")
    ]
    every = [features.names for parts in read for features, _ in parts]
    first, last = min(int(names[0]) for names in every), max(int(names[len(names) - 1]) for names in every)
    wanted = Texts([str(j) for j in range(first, last + 1)])
    return [
        FeatureFold(*(FeaturePart(_widened(features, wanted), labels) for features, labels in parts)) for parts in read
    ]


def _widened(features: Features, names: Texts) -> Features:
    """Return the features with additional columns of 0."""
    if features.names == names:
        return features
    X = np.zeros((features.n_slots, len(names)))
    first = int(features.names[0]) - int(names[0])
    X[:, first : first + features.n_features] = features.X
    return Features.from_codes(features.slots, X, names)


def fold_files(folder: PathLike, owner: str = "read") -> list[list[Path]]:
    """Return the train, vali and test file of every fold of a folder."""
    root = Path(os.path.expanduser(os.fspath(folder)))
    if not os.path.isdir(root):
        raise DataError(f"{display_path(folder)!r} is not a folder. {owner} takes one with Fold1, Fold2, ...")
    folds = _fold_folders(root)
    if not folds:
        raise DataError(
            f"the folder {display_path(root)!r} holds no folds. Expected Fold1, Fold2, ... with train, vali, test."
        )
    return [[_part(fold, part) for part in ("train", "vali", "test")] for fold in folds]


def _fold_folders(root: Path) -> list[Path]:
    """Return Fold1, Fold2, ... of a folder in the order of their numbers."""
    found = [(re.fullmatch(r"fold[ _-]?([0-9]{1,9})", p.name.lower()), p) for p in root.iterdir() if p.is_dir()]
    return [p for _, p in sorted((int(match[1]), p) for match, p in found if match)]


def _part(fold: Path, part: str) -> Path:
    for ending in _OPTIONAL_COMPRESSION:
        path = fold / f"{part}.txt{ending}"
        if path.is_file():
            return path
    there = ", ".join(sorted(display_path(p.name) for p in fold.iterdir())[:10]) or "nothing"
    raise DataError(
        f"{display_path(fold)!r} has no {part}.txt. A fold needs train.txt, vali.txt and test.txt; it holds {there}."
    )


def read_features(
    path: PathLike | Iterable[PathLike], *, n_features: int | None = None, duplicates: str = "error"
) -> tuple[Features, Labels]:
    r"""Return the features and labels of LETOR or SVMlight text, or of a .npy table.

    Parameters
    ----------
    path : path, glob, folder or a list of these
        Lines ``label qid:Q index:value ... # comment``, dense or sparse, plain or compressed; several files are read as
        one. Lines without a qid take their instances from the side file that LightGBM and XGBoost use, ``path.query``
        or ``path.group``: the number of items of each instance, one per line. A .npy file holds a 2-D table of numbers:
        label, query, then the features.
    n_features : int, optional
        How many features there are, where the largest index of a sparse file does not tell.
    duplicates : {"error", "last"}
        What to do with a second line for an item of an instance: raise, or replace the first.

    Returns
    -------
    (Features, Labels)
        Over the same slots, in file order. Instances are the qids as text, "1", "2", ... with a side file. Items are
        the ids of ``docid = D`` in the comments where they have one, else "1", "2", ... within each instance.

    Notes
    -----
    A feature that a line leaves out is 0; one that is not known is written ``nan`` (or ``na``) and comes out as NaN.
    Features are named by their index: "1" to "F", or "0" to "F-1" when an index
    0 occurs (libsvm counts from 0, SVMlight from 1). The order of the indices in a line does not matter; an index given
    twice is an error. The table is dense: memory for one number per item and feature and one block of text, cost
    O(text + items · features).

    Raises
    ------
    ParseError
        With file and line: a field that is not ``index:value``, a number that is infinite or none, an index given
        twice, no qid and no side file, a side file whose sizes do not add up to the lines.
    DuplicateError
        For a repeated item, naming both lines.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "rank.train")
    >>> _ = path.write_text("2 1:0.5 3:1\n0 2:7\n1 1:1\n")
    >>> _ = path.with_name("rank.train.query").write_text("2\n1\n")
    >>> features, labels = read_features(path)
    >>> features.X.tolist()
    [[0.5, 0.0, 1.0], [0.0, 7.0, 0.0], [1.0, 0.0, 0.0]]
    >>> features.instances.tolist(), features.items.tolist(), labels.label.tolist()
    (['1', '2'], ['1', '2', '1'], [2.0, 0.0, 1.0])
    """
    _check_duplicates(duplicates, "read_features")
    if n_features is not None and (not isinstance(n_features, (int, np.integer)) or n_features < 1):
        raise ParameterError.invalid("n_features", "read_features", "a whole number >= 1 or None", n_features)
    table = _LetorRows()
    matrix = _FeatureMatrix(n_features)
    files = _feature_files(path)
    for file in files:
        if read_head(file, 6) == b"\x93NUMPY":
            _add_array(file, table, matrix)
        else:
            _add_lines(file, table, matrix)
    if not table.n_rows:
        raise ParseError(files[0], 1, "expected lines 'label qid:Q 1:value ...', found none.")
    slots, slot_of, label = table.slots(duplicates)
    X, names = matrix.build(slot_of)
    return Features.from_codes(slots, X, names), Labels.from_codes(slots, label)


class _FeatureMatrix:
    """The feature matrix, built block by block; refuses indices that would make it implausibly large."""

    def __init__(self, n_features: int | None) -> None:
        self.wanted = n_features
        self.parts: list[tuple[int, NDArray[np.float64]]] = []  # the index of the first column, and the columns
        self.largest = 0
        self.place: tuple[Path, int | None] = (Path(), None)  # where the largest index stands
        self.lowest = 1
        self.given = 0
        self.n_rows = 0

    def add_block(self, path: Path, block: _ParsedBlock) -> None:
        """Add the index:value pairs of a block; a feature that a line leaves out is 0."""
        first, last = 1, 0
        if len(block.column):
            top = int(np.argmax(block.column))
            first, last = min(1, int(block.column.min())), int(block.column[top])
            self._grow(path, int(block.line[block.row[top]]), last)
            self._check_size(len(block.label), last, len(block.column))
        part = np.zeros((len(block.label), last - first + 1))
        part[block.row, block.column - first] = block.value
        self._add(first, part, len(block.column))

    def add_array(self, path: Path, values: NDArray[np.float64]) -> None:
        """Add a whole array, with features counted from 1."""
        self._grow(path, None, values.shape[1])
        self._add(1, np.ascontiguousarray(values), values.size)

    def _add(self, first: int, part: NDArray[np.float64], given: int) -> None:
        self.parts.append((first, part))
        self.lowest = min(self.lowest, first)
        self.given += given
        self.n_rows += len(part)

    def _grow(self, path: Path, line: int | None, largest: int) -> None:
        if largest > self.largest:
            self.largest, self.place = largest, (path, line)
        if self.wanted is not None and largest > self.wanted:
            raise ParseError(path, line, f"feature index {largest} is above n_features = {self.wanted}.")

    def _check_size(self, n_rows: int, largest: int, given: int) -> None:
        if n_rows * largest > _SMALL_TABLE and given * 1000 < n_rows * largest:
            raise ParseError(
                *self.place,
                f"feature index {self.largest} asks for a table of {n_rows:,} × {largest:,} numbers, of which "
                f"{given:,} are given. Features are kept dense; is the index right? If so, renumber the features.",
            )

    def build(self, slot_of: Ints) -> tuple[NDArray[np.float64], Texts]:
        """Return the table in slot order and the names of its columns."""
        self._check_size(self.n_rows, self.largest, self.given)
        lowest = self.lowest
        count = self.largest - lowest + 1
        if self.wanted is not None:
            if count > self.wanted:
                raise ParseError(
                    *self.place,
                    f"feature index {self.largest} is above {self.wanted - 1}, the last of n_features = {self.wanted} "
                    "counted from 0, as an index 0 in the file asks for.",
                )
            count = self.wanted
        names = Texts([str(j) for j in range(lowest, lowest + count)])
        in_order = bool((np.diff(slot_of, prepend=-1) == 1).all())
        if in_order and len(self.parts) == 1 and self.parts[0][1].shape[1] == count:
            return self.parts.pop()[1], names
        X = np.zeros((int((slot_of >= 0).sum()), count))
        row = 0
        self.parts.reverse()
        while self.parts:
            first, part = self.parts.pop()
            slot = slot_of[row : row + len(part)]
            row += len(part)
            kept = slot >= 0
            X[slot[kept], first - lowest : first - lowest + part.shape[1]] = part[kept]
        return X, names


def _add_lines(file: Path, table: _LetorRows, matrix: _FeatureMatrix) -> None:
    side: _GroupSizes | None = None
    for number, block in enumerate(_blocks(file, _FEATURES)):
        if number == 0 and block.instance.null_count() == len(block.label) > 0:
            side = _side_sizes(file)
            if side is None:
                raise ParseError(
                    file,
                    int(block.line[0]),
                    "expected 'label qid:Q 1:value ...', found no qid, and there is no side file "
                    f"{file.name}.query (or .group) with the number of items of each instance.",
                )
        if side is None:
            if block.instance.null_count():
                raise _no_instance(file, block)
            code = table.encode(block.instance)
        else:
            if block.instance.null_count() < len(block.label):
                at = int(np.flatnonzero(block.instance.is_not_null().to_numpy())[0])
                raise ParseError(file, int(block.line[at]), "found a qid, which earlier lines do not have.")
            code = side.take(len(block.label), table)
        matrix.add_block(file, block)
        table.add(file, block.line, code, block.label, block.item)
    if side is not None:
        side.check_end()


class _GroupSizes:
    """The group sizes of a side file, as codes of instances that are numbered through all files."""

    def __init__(self, path: Path, owner: Path, sizes: Sequence[int]) -> None:
        self.path = path
        self.owner = owner
        self.ends = np.cumsum(np.array(sizes, dtype=np.int64))
        self.total = int(self.ends[-1]) if len(self.ends) else 0
        self.taken = 0
        self.first: int | None = None

    def take(self, n: int, table: _LetorRows) -> Codes:
        if self.first is None:
            self.first = len(table.instances)
            # Instances of earlier files may have numbers as ids too: continue after them.
            for number in range(self.first + 1, self.first + len(self.ends) + 1):
                name = str(number)
                if name in table.instances:
                    raise DataError(
                        f"{self.path}: instance {quote(name)} is taken by a qid of another file. Read the files one "
                        "by one."
                    )
                table.instances[name] = number - 1
        rows = np.arange(self.taken, self.taken + n)
        self.taken += n
        inside = rows[rows < self.total]
        code = np.searchsorted(self.ends, inside, side="right") + self.first
        return np.concatenate([code, np.zeros(n - len(inside), dtype=np.int64)]).astype(np.int32)

    def check_end(self) -> None:
        if self.taken != self.total:
            raise ParseError(
                self.path,
                max(len(self.ends), 1),
                f"the sizes add up to {self.total}, but {self.owner.name} has {self.taken} lines.",
            )


def _side_path(file: Path) -> Path | None:
    name = uncompressed_name(file.name)
    for kind in (".query", ".group"):
        for ending in _OPTIONAL_COMPRESSION:
            path = file.with_name(f"{name}{kind}{ending}")
            if path.is_file():
                return path
    return None


def _side_sizes(file: Path) -> _GroupSizes | None:
    path = _side_path(file)
    if path is None:
        return None
    sizes = []
    for line, text in text_lines(path):
        if not text.strip():
            continue
        if not re.fullmatch(r"[0-9]{1,9}", text.strip()) or int(text) < 1:
            raise ParseError(path, line, f"expected the number of items of an instance, found {quote(text)}.")
        sizes.append(int(text))
    return _GroupSizes(path, file, sizes)


def _add_array(file: Path, table: _LetorRows, matrix: _FeatureMatrix) -> None:
    values = _load_array(file)
    faults = np.isinf(values)
    # A label and a query must be known.
    faults[:, :2] |= np.isnan(values[:, :2])
    if faults.any():
        row, column = (int(v) for v in np.argwhere(faults)[0])
        also = " or NaN" if column > 1 else ""
        raise ParseError(
            file,
            row + 1,
            f"row {row + 1}, column {column + 1} must be a finite number{also}, found {values[row, column]}.",
        )
    query = values[:, 1]
    odd = (query != np.rint(query)) | (np.abs(query) >= 2**53)
    if odd.any():
        row = int(np.flatnonzero(odd)[0])
        raise ParseError(
            file, row + 1, f"row {row + 1}: the query in column 2 must be a whole number, found {query[row]}."
        )
    ids = pl.Series(query.astype(np.int64)).cast(pl.String)
    matrix.add_array(file, values[:, 2:])
    none = pl.Series([None], dtype=pl.String).new_from_index(0, len(values))
    table.add(file, np.arange(1, len(values) + 1), table.encode(ids), values[:, 0].copy(), none)


def _load_array(file: Path) -> NDArray[np.float64]:
    """Return the table of a .npy file."""
    try:
        array = _array_of(read_bytes(file))
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise FormatError(
            f"{file}: not a NumPy file with an array of plain numbers ({shorten(str(error))})."
        ) from error
    if array.ndim != 2 or array.shape[1] < 3:
        raise FormatError(
            f"{file}: expected a table with a label, a query and at least one feature in each row, found an array of "
            f"shape {array.shape}."
        )
    return array.astype(np.float64, order="C", copy=False)


def _array_of(data: bytes) -> NDArray[Any]:
    """Return the array in the bytes of a .npy file, once its header fits its size.

    NumPy's own reader would allocate whatever size the header states.
    """
    start = 10 if data[6:7] == b"\x01" else 12
    end = start + int.from_bytes(data[8:start], "little")
    header = ast.literal_eval(data[start:end].decode())
    dtype, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    if not isinstance(dtype, str) or not re.fullmatch("[<>|=][fiub][1248]", dtype):
        raise ValueError(f"elements of type {shorten(str(dtype))}")
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"shape {shorten(str(shape))}")
    count = math.prod(shape)
    if len(data) - end != count * int(dtype[-1]):
        raise ValueError(f"{len(data) - end} bytes for shape {shape}")
    flat = np.frombuffer(data, dtype=dtype, count=count, offset=end)
    return flat.reshape(shape, order="F" if fortran else "C")


def _feature_files(path: PathLike | Iterable[PathLike]) -> list[Path]:
    """Return the files to read, without the side files that belong to them."""
    files = _letor_files(path)
    sides = {_side_path(file) for file in files}
    return [file for file in files if file not in sides]


def _letor_files(path: PathLike | Iterable[PathLike]) -> list[Path]:
    if isinstance(path, (str, os.PathLike)):
        folder = Path(os.path.expanduser(os.fspath(path)))
        if os.path.isdir(folder) and _fold_folders(folder):
            raise DataError(
                f"{display_path(folder)!r} holds folds. Read them with read_letor_folds or read_feature_folds, or "
                "name one file."
            )
    return expand(path)


def _check_duplicates(duplicates: str, owner: str) -> None:
    if duplicates not in ("error", "last"):
        raise ParameterError.invalid("duplicates", owner, "'error' or 'last'", duplicates)


def _join(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    """Concatenate the parts and free them."""
    out = np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)
    parts.clear()
    return out


def _no_instance(file: Path, block: _ParsedBlock) -> ParseError:
    return ParseError(file, int(block.line[int(block.instance.is_null().arg_true()[0])]), _NO_INSTANCE)


def _blocks(file: Path, file_kind: _FileKind) -> Iterator[_ParsedBlock]:
    """Yield the parsed and checked lines of a file in blocks of bounded size."""
    for first, data in text_blocks(file, _BLOCK_BYTES):
        try:
            text = data.decode()
        except UnicodeDecodeError:
            for _ in text_lines(file):  # raises with the line
                pass
            raise
        block = _parse_lines(file, first, text, file_kind)
        if len(block.label):
            yield block


def _parse_lines(file: Path, first: int, text: str, file_kind: _FileKind) -> _ParsedBlock:
    """Parse a block of lines into columns, or raise at the first invalid line."""
    halves = pl.Series([text]).str.split("\n").explode().str.splitn("#", 2).struct
    body = halves.field("field_0").str.replace_all("\t", " ", literal=True).str.strip_chars()
    full = body != ""
    line = np.flatnonzero(full.to_numpy()) + first
    n = len(line)
    item = halves.field("field_1").filter(full).str.extract(_ITEM)
    words = body.filter(full).str.split(" ")
    row = np.repeat(np.arange(n), words.list.len().to_numpy())
    word = words.explode()
    if n == 0:
        return _ParsedBlock(line, np.zeros(0), item, item, row, row, np.zeros(0))
    blank = (word == "").to_numpy()
    if blank.any():
        word, row = word.filter(pl.Series(~blank)), row[~blank]
    head = np.flatnonzero(np.diff(row, prepend=-1))
    faults = _FirstFault(file, line)

    labels = word.gather(head)
    label = labels.cast(pl.Float64, strict=False).to_numpy()
    faults.note(
        np.arange(n), ~np.isfinite(label), lambda at: f"the label must be a finite number, found {quote(labels[at])}."
    )

    second = np.minimum(head + 1, len(row) - 1)
    query = word.gather(second)
    has_query = query.str.starts_with("qid:").to_numpy() & (row[second] == np.arange(n)) & (second > head)
    names = (
        pl.DataFrame({"q": query, "has": has_query}).select(pl.when("has").then(pl.col("q").str.slice(4))).to_series()
    )
    faults.note(np.arange(n), (names == "").fill_null(False).to_numpy(), lambda _: "the qid is empty.")
    if file_kind.experts:
        faults.note(np.arange(n), ~has_query, lambda _: _NO_INSTANCE)
        faults.note(np.arange(n), item.is_null().to_numpy(), lambda _: "expected '#docid = D', found none.")

    rest = np.ones(len(row), dtype=np.bool_)
    rest[head] = False
    rest[second[has_query]] = False
    row = row[rest]
    index, value = _pairs(word.filter(pl.Series(rest)), row, faults, file_kind)
    faults.raise_first()
    return _ParsedBlock(line, label, names, item, row, index, value)


class _FirstFault:
    """The earliest error that several checks of one block find."""

    def __init__(self, file: Path, line: Ints) -> None:
        self.file = file
        self.line = line
        self.row = len(line)
        self.message = ""

    def note(self, row: Ints, wrong: NDArray[np.bool_], message: Callable[[int], str]) -> None:
        """Remember the first wrong entry if its line comes first; `row` is the line of each entry."""
        if wrong.any():
            at = int(np.argmax(wrong))
            if row[at] < self.row:
                self.row, self.message = int(row[at]), message(at)

    def raise_first(self) -> None:
        if self.message:
            raise ParseError(self.file, int(self.line[self.row]), self.message)


def _pairs(pair: pl.Series, row: Ints, faults: _FirstFault, file_kind: _FileKind) -> tuple[Ints, Floats]:
    """Return indices and values (NaN for NULL) of index:value words, and note the errors in them."""
    fields = pair.str.splitn(":", 2).struct
    key, text = fields.field("field_0"), fields.field("field_1")
    faults.note(
        row, text.is_null().to_numpy(), lambda at: f"expected {file_kind.column}:value, found {quote(pair[at])}."
    )
    lowest, highest = (1, _MOST_EXPERTS) if file_kind.experts else (0, _MOST_FEATURES)
    index = key.cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
    faults.note(
        row,
        (index < lowest) | (index > highest),
        lambda at: f"{file_kind.column}s are numbered from {lowest} to {highest}, found {quote(pair[at])}.",
    )
    value = text.cast(pl.Float64, strict=False).to_numpy()
    wrong = ~np.isfinite(value)
    if file_kind.experts:
        absent = (text == "NULL").fill_null(False).to_numpy()
        wrong &= ~absent
        # NULL becomes NaN, whatever the cast made of it.
        value = np.where(absent, np.nan, value)
    else:
        unknown = text.str.to_lowercase().is_in(UNKNOWN).fill_null(False).to_numpy()
        wrong &= ~unknown
        value = np.where(unknown, np.nan, value)
    faults.note(
        row,
        wrong,
        lambda at: (
            f"{file_kind.value} {shorten(key[at])} must be a finite number or "
            f"{'NULL' if file_kind.experts else 'nan'}, "
            f"found {quote(text[at] or '')}."
            + (" NULL stands in rank-aggregation files, which read_letor reads." if text[at] == "NULL" else "")
        ),
    )
    if file_kind.ranks:
        faults.note(
            row,
            value < 1,
            lambda at: (
                f"{file_kind.value} {shorten(key[at])} is {value[at]:g}, but ranks begin at 1 (best); NULL marks an "
                "item not ranked. Scores take higher_is_better=True, feature files read_features."
            ),
        )
    _note_duplicates(index, row, faults, file_kind)
    return index, value


def _note_duplicates(index: Ints, row: Ints, faults: _FirstFault, file_kind: _FileKind) -> None:
    """Note an index that a line gives twice; increasing indices, the usual case, need no sort."""
    if len(index) < 2 or ((row[1:] > row[:-1]) | (index[1:] > index[:-1])).all():
        return
    order = np.lexsort((index, row))
    again = np.zeros(len(index), dtype=np.bool_)
    again[order[1:]] = (row[order[1:]] == row[order[:-1]]) & (index[order[1:]] == index[order[:-1]])
    faults.note(row, again, lambda at: f"{file_kind.column} {index[at]} is given twice.")


def write_letor_scores(consensus: Consensus, path: PathLike, like: Container | None = None) -> None:
    """Write a LETOR score file: one score per line, in the order of the data file's lines.

    Parameters
    ----------
    consensus : Consensus
        What to write.
    path : path
        Where to; written whole or not at all. An ending .gz, .xz, .bz2 or .zst compresses.
    like : container, optional
        The preferences, labels or features read from the data file: scores are written in the order of its slots,
        matched by id. Left out, in the order of the consensus' own slots, which is that of the preferences it was made
        from.

    Notes
    -----
    Scores are written in full precision, so that reading them back gives the same ranking. Slots follow the lines of
    the data file as long as each query's lines stand together, as LETOR's do.

    Raises
    ------
    DataError
        When an item of `like` has no score.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "scores.txt")
    >>> write_letor_scores(
    ...     Consensus(["q", "q"], ["a", "b"], [0.25, 2.0]), path, like=Labels(["q", "q"], ["b", "a"], [1, 0])
    ... )
    >>> path.read_text().split()
    ['2.0', '0.25']
    """
    score = consensus.score
    if like is not None:
        found = like.slots.locate(consensus.slots)
        if (found < 0).any():
            instance, item = like.slots.where(int(np.argmax(found < 0)))
            raise DataError(
                f"the consensus has no score for item {quote(item)} of instance {quote(instance)}, and a score file "
                "needs one for each line. Was it made from the same file?"
            )
        score = score[found]
    with atomic_write(path) as handle:
        pl.DataFrame({"score": score}).write_csv(handle, include_header=False)


def write_letor(preferences: Preferences, path: PathLike, labels: Labels | None = None) -> None:
    """Write preferences and labels as a LETOR rank-aggregation (-agg) file.

    Parameters
    ----------
    preferences : Preferences
        Without weights. Experts become columns 1 to K in the order of the vocabulary; their names are not written.
    path : path
        Where to; written whole or not at all. An ending .gz, .xz, .bz2 or .zst compresses.
    labels : Labels, optional
        Matched by id. An item without a label is written with label 0: unjudged counts as not relevant.

    Notes
    -----
    Values are written as they are; read scores and ratings back with ``read_letor(path, higher_is_better=True)``. Each
    line ends in ``inc = 1 prob = 1``, without which LETOR's evaluation script does not take it. Cost
    O(items · experts), memory for about a million cells at a time.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "out.txt")
    >>> p = Preferences(["q"] * 2, ["x", "y"], ["a", "b"], [1, 3])
    >>> write_letor(p, path, Labels(["q"], ["a"], [2]))
    >>> path.read_text().splitlines()[0]
    '2 qid:q 1:1 2:NULL #docid = a inc = 1 prob = 1'
    """
    if preferences.list_weight is not None and not (preferences.list_weight == 1).all():
        raise DataError("a LETOR file has no place for weights. Clear them first: preferences.with_weights(None).")
    if not preferences.n_experts:
        raise DataError("a LETOR rank-aggregation file needs at least one expert; these preferences have none.")
    for what, ids, taboo in (("instance", preferences.instances, r"[\s#]"), ("item", preferences.items, r"\s")):
        for name in ids:
            if not name or not name.isprintable() or re.search(taboo, name):
                also = " and no '#'" if what == "instance" else ""
                raise DataError(
                    f"{what} {quote(name)} cannot be written to a LETOR file: ids there are not empty and hold "
                    f"no blanks, no control characters{also}."
                )
    label = np.zeros(preferences.n_slots)
    if labels is not None:
        label = np.nan_to_num(labels.align(preferences).label, nan=0.0)
    order = np.argsort(preferences.slot, kind="stable")
    slot, expert, value = preferences.slot[order], preferences.row_expert[order], preferences.value[order]
    n_experts = preferences.n_experts
    step = max(1, (1 << 20) // n_experts)
    instance, item = (
        pl.Series(preferences.instances.tolist(), dtype=pl.String),
        pl.Series(preferences.items.tolist(), dtype=pl.String),
    )
    with atomic_write(path) as handle:
        for start in range(0, preferences.n_slots, step):
            end = min(start + step, preferences.n_slots)
            a, b = np.searchsorted(slot, [start, end])
            cells = np.full((end - start, n_experts), np.nan)
            cells[slot[a:b] - start, expert[a:b]] = value[a:b]
            columns = {"label": _number_texts(label[start:end])}
            columns["qid"] = "qid:" + instance.gather(preferences.slots.instance[start:end])
            for k in range(n_experts):
                columns[str(k + 1)] = f"{k + 1}:" + _number_texts(cells[:, k])
            columns["item"] = "#docid = " + item[start:end] + " inc = 1 prob = 1"
            lines = pl.DataFrame(columns).select(pl.concat_str(pl.all(), separator=" "))
            handle.write("\n".join([*lines.to_series().to_list(), ""]).encode())


def _number_texts(values: Floats) -> pl.Series:
    """Return numbers as text that reads back as the same number: whole ones without a point, NaN as NULL."""
    whole = (values == np.rint(values)) & (np.abs(values) < 2**53)
    integers = pl.Series(np.where(whole, values, 0.0).astype(np.int64)).cast(pl.String)
    texts = integers.zip_with(pl.Series(whole), pl.Series(values).cast(pl.String))
    return texts.zip_with(pl.Series(~np.isnan(values)), pl.Series(["NULL"]))


def _write_svmlight(features: Features, path: PathLike, labels: Labels | None = None) -> None:
    if labels is None:
        label = np.zeros(features.n_slots)
    else:
        if not isinstance(labels, Labels):
            raise ParameterError.invalid("labels", "write", "Labels", type(labels).__name__)
        label = labels.align(features).label
        if np.isnan(label).any():
            q, i = features.slots.where(int(np.flatnonzero(np.isnan(label))[0]))
            raise DataError(f"{display_path(path)}: item {quote(i)} of instance {quote(q)} has features and no label.")
    texts = io.StringIO()
    for n, q in enumerate(features.instances):
        if q.split() != [q] or "#" in q:
            raise DataError(
                f"{display_path(path)}: instance {quote(q)} cannot be written after qid:, for it is empty or holds "
                "a blank or #."
            )
        for s in range(int(features.slots.offsets[n]), int(features.slots.offsets[n + 1])):
            item = features.items[s]
            if item.split() != [item]:
                raise DataError(
                    f"{display_path(path)}: item {quote(item)} cannot be written after #docid =, for it is empty or "
                    "holds a blank."
                )
            values = " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(features.X[s].tolist()))
            texts.write(f"{_short(label[s])} qid:{q} {values} #docid = {item}\n")
    with atomic_write(path) as handle:
        handle.write(texts.getvalue().encode())


def _short(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


_ABOUT_FOLDS = "a LETOR folder with Fold1, Fold2, ..."


@wraps(read_letor)
def _read_ranks(paths: list[Path], **options: Any) -> Dataset:
    preferences, labels = read_letor(paths, **options)
    return Dataset(preferences=preferences, labels=labels)


@wraps(read_features)
def _read_vectors(paths: list[Path], **options: Any) -> Dataset:
    features, labels = read_features(paths, **options)
    return Dataset(features=features, labels=labels)


def _read_folds(
    paths: list[Path],
    *,
    higher_is_better: bool | None = None,
    n_features: int | None = None,
    duplicates: str = "error",
    missing: str | None = None,
) -> Dataset:
    """Return the folds of a folder, and its preferences or features and labels with every instance once."""
    if len(paths) != 1 or not paths[0].is_dir():
        raise FormatError(f"{paths[0]}: the format letor-folds is {_ABOUT_FOLDS}.")
    ranked = not is_features(Head.of(fold_files(paths[0], "letor-folds")[0][0]))
    reader: Callable[..., Any] = read_letor_folds if ranked else read_feature_folds
    given = {"higher_is_better": higher_is_better, "n_features": n_features, "duplicates": duplicates}
    given |= {"missing": missing}
    options = {name: value for name, value in given.items() if value is not None}
    check_options("letor-folds", reader, options)
    folds = reader(paths[0], **options)
    data, labels = [], []
    seen: set[str] = set()
    for own, truth in (fold[part] for part in (2, 1, 0) for fold in folds):
        new = [n for n, q in enumerate(own.instances) if q not in seen]
        if new:
            seen.update(own.instances)
            data.append(own[new])
            labels.append(truth[[q for q in data[-1].instances if q in truth.instances]])
    return Dataset(**{"preferences" if ranked else "features": concat(data)}, labels=concat(labels), folds=folds)


def _has_folds(folder: Path) -> bool:
    return any(re.fullmatch(r"fold[ _-]?\d+", p.name.lower()) and p.is_dir() for p in folder.iterdir())


register_format("letor-agg", "LETOR rank aggregation", read=_read_ranks, sniff=is_letor_ranks, line_by_line=True)
register_format("letor-folds", _ABOUT_FOLDS, read=_read_folds, sniff_folder=_has_folds)
register_format(
    "letor",
    "LETOR or SVMlight features, or a .npy table",
    read=_read_vectors,
    sniff=is_features,
    beside=(r".*\.(query|group|conf)",),
    line_by_line=True,
)
register_format("letor-scores", "LETOR scores", write=write_letor_scores, writes=(Consensus,))
register_format(
    "svmlight",
    "SVMlight features",
    write=_write_svmlight,
    writes=(Features,),
    extensions=(".svm", ".svmlight", ".libsvm", ".letor"),
)
