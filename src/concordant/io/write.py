"""Containers to files, whole or not at all; what is written here the readers give back equal.

The ending of the name says how: .csv, .tsv, .jsonl, .parquet, .trec, .soc/.soi/.toc/.toi, .svm; .gz, .xz, .bz2 and .zst
behind it compress.
"""

from __future__ import annotations

import inspect
import io
import json
import re
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.container import Container
from concordant.data.features import Features
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import DataError, FormatError, ParameterError, quote
from concordant.io._files import PathLike, atomic_write, shown
from concordant.io._tables import file_type
from concordant.io.letor import write_letor_scores
from concordant.io.preflib import write_preflib
from concordant.io.trec import write_run

__all__ = ["SPREADSHEETS", "WRITERS", "format_of", "refuse_unwritable", "write", "write_separated"]

# The formats that spreadsheets open, with the character between two fields.
SPREADSHEETS = {"csv": ",", "tsv": "\t"}
# How a formula begins for spreadsheets; and the quote itself, so that taking one off always gives the text back.
_FORMULA = r"^([=+\-@\t\r\n'\uFF1D\uFF0B\uFF0D\uFF20])"

_PACKED = (".gz", ".xz", ".zst", ".bz2")
_ENDINGS = {
    "trec": (".trec", ".run", ".res"),
    "qrels": (".qrels", ".qrel"),
    "preflib": (".soc", ".soi", ".toc", ".toi"),
    "svmlight": (".svm", ".svmlight", ".libsvm", ".letor"),
}


def write(obj: Container, path: PathLike, format: str | None = None, **options: Any) -> None:  # noqa: A002 - the name users know
    r"""Write a container to a file, whole or not at all.

    Parameters
    ----------
    obj : Consensus, Preferences, Comparisons, Labels or Features
        What to write.
    path : path
        The file. Without `format` its ending says how; .gz, .xz, .bz2 or .zst behind it compresses text.
    format : str, optional
        "csv", "tsv", "jsonl", "parquet" for any container; "trec" (a run) and "letor-scores" for a Consensus, "qrels"
        for Labels, "preflib" for Preferences of one instance, "svmlight" for Features.
    **options
        "csv" and "tsv": ``quote_formulas=True`` puts a ``'`` before ids and column names that a spreadsheet would take
        for a formula, such as ``=HYPERLINK(...)``; by default all are written exactly. "trec": those of `write_run`.
        "letor-scores": ``like=``. "svmlight": ``labels=`` (Labels, 0 without).

    Notes
    -----
    Reading the file gives the same container back. Preferences in tables come back with their items in the same order
    where the rows can show it; experts who rank nothing, and the order of experts, are lost. Comparisons whose sides
    are not known are written with the columns item_i, item_j, wins_i, wins_j, ties. A table of a consensus is read by
    `read_consensus`, or, as the scores of one expert, by `read`. Ids such as "7.0" lose their fraction in a text table
    when all of the column are whole numbers. A run holds the top 1000 of each instance unless ``top=None``; a PrefLib
    file the order of each ballot only. With ``quote_formulas=True`` an id that begins with ``=``, ``+``, ``-``, ``@``,
    ``'``, a tab or a line break comes back with a ``'`` before it; take that one character off to undo it.

    Raises
    ------
    FormatError
        When the ending says nothing, or the format cannot hold this container.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "labels.csv")
    >>> write(Labels(["q", "q"], ["a", "b"], [2, 0]), path)
    >>> print(path.read_text(), end="")
    instance,item,label
    q,a,2.0
    q,b,0.0
    """
    if not isinstance(obj, (Consensus, Preferences, Comparisons, Labels, Features)):
        raise ParameterError.invalid(
            "obj", "write", "Consensus, Preferences, Comparisons, Labels or Features", type(obj).__name__
        )
    name = format or format_of(path)
    if name not in WRITERS:
        raise ParameterError.invalid("format", "write", f"one of {', '.join(map(repr, WRITERS))}", name)
    accepts, writer = WRITERS[name]
    if not isinstance(obj, accepts):
        would = [n for n, (kinds, _) in WRITERS.items() if isinstance(obj, kinds)]
        raise FormatError(
            f"{shown(path)}: the format {quote(name)} cannot hold {type(obj).__name__}. "
            f"Formats for {type(obj).__name__}: {', '.join(would)}."
        )
    allowed = [p.name for p in inspect.signature(writer).parameters.values()][2:]
    wrong = [k for k in options if k not in allowed]
    if wrong:
        raise ParameterError(
            f"writing {quote(name)} does not take {', '.join(wrong)}. It takes {', '.join(allowed) or 'no options'}."
        )
    writer(obj, path, **options)


def format_of(path: PathLike) -> str:
    """Return the format that the ending of a path asks for."""
    kind = file_type(path)
    if kind is not None:
        return kind
    name = str(path).lower()
    for ending in _PACKED:
        name = name.removesuffix(ending)
    found = next((kind for kind, ends in _ENDINGS.items() if name.endswith(ends)), None)
    if found is None:
        known = ", ".join([".csv", ".tsv", ".jsonl", ".parquet", *(e for ends in _ENDINGS.values() for e in ends)])
        raise FormatError(
            f"{shown(path)}: the ending does not say the format. Use one of {known}, "
            f"or pass format= (--to), one of {', '.join(WRITERS)}."
        )
    return found


def _table(obj: Container) -> pl.DataFrame:
    """Return the frame to write: that of the container, so arranged that reading it gives the same items in order."""
    if isinstance(obj, Preferences):
        return _preferences(obj)
    if isinstance(obj, Comparisons):
        return _comparisons(obj)
    if isinstance(obj, Features) and not obj.X.shape[1]:
        raise DataError("features without a column cannot be written as a table: no reader could tell what it holds.")
    return obj.to_frame()


def _preferences(p: Preferences) -> pl.DataFrame:
    """Return the rows in an order in which the items of each instance are first met in the order of their slots.

    The rows of a list stay in order. A row's place is the largest slot met so far in its list, so that the row in which
    a slot first occurred when the container was made comes before all rows with later slots.
    """
    frame = p.to_frame()
    silent = np.ones(p.n_slots, dtype=np.bool_)
    silent[p.slot] = False
    extra = np.flatnonzero(silent).astype(np.int32)
    slot = np.concatenate([p.slot, extra])
    group = np.concatenate([p.row_list, p.n_lists + np.arange(len(extra), dtype=np.int32)])
    shown = np.argsort(p.slots.instance[slot], kind="stable") if len(extra) else np.arange(len(slot))
    slot, group = slot[shown], group[shown]
    _, first = np.unique(slot, return_index=True)
    if (np.diff(first) > 0).all():
        return frame
    begins = np.ones(len(slot), dtype=np.bool_)
    begins[1:] = group[1:] != group[:-1]
    heads = np.flatnonzero(begins)
    # One running maximum for all lists: each list is lifted above those before it.
    lift = np.repeat(np.arange(len(heads), dtype=np.int64) * p.n_slots, np.diff(heads, append=len(slot)))
    reach = np.maximum.accumulate(slot + lift) - lift
    return frame[np.argsort(reach, kind="stable")]


def _comparisons(c: Comparisons) -> pl.DataFrame:
    """Return the rows, then one for each item that is never compared; unknown sides go by other names."""
    frame = c.to_frame()
    silent = np.ones(c.n_slots, dtype=np.bool_)
    silent[c.left] = False
    silent[c.right] = False
    if silent.any():
        slots = np.flatnonzero(silent)
        items = c.items.take(slots).tolist()
        instances = c.instances.take(c.slots.instance[slots]).tolist()
        known = pl.DataFrame({"instance": instances, "left": items}, schema={"instance": pl.String, "left": pl.String})
        frame = pl.concat([frame, known], how="diagonal")
    if not c.sided:
        frame = frame.rename(
            {"left": "item_i", "right": "item_j", "n_left": "wins_i", "n_right": "wins_j", "n_ties": "ties"}
        )
    return frame


def refuse_unwritable(frame: pl.DataFrame, path: PathLike) -> None:
    """Raise for ids that a text table would not give back: empty, with blanks around them, or with a NUL inside."""
    for name, dtype in frame.schema.items():
        if dtype == pl.String:
            bad = frame[name].drop_nulls()
            bad = bad.filter((bad == "") | (bad != bad.str.strip_chars()) | bad.str.contains("\0", literal=True))
            if len(bad):
                raise DataError(
                    f"{shown(path)}: the id {quote(bad[0])} cannot be written to a text table, which has no NUL and "
                    "drops blanks around fields. Rename it, or write Parquet."
                )


def write_separated(
    frame: pl.DataFrame, handle: BinaryIO, kind: str, *, quote_formulas: bool = False, header: bool = True
) -> None:
    """Write a table as "csv" or "tsv".

    `quote_formulas` puts a ``'`` before every text and column name that a spreadsheet would take for a formula, which
    guards against CSV injection, also called formula injection.

    >>> out = io.BytesIO()
    >>> write_separated(pl.DataFrame({"item": ["=1+1", "a"], "score": [-1, 2]}), out, "csv", quote_formulas=True)
    >>> print(out.getvalue().decode(), end="")
    item,score
    '=1+1,-1
    a,2
    """
    if quote_formulas:
        frame = frame.with_columns(pl.col(pl.String).str.replace(_FORMULA, "'$1"))
        frame = frame.rename({name: f"'{name}" for name in frame.columns if re.search(_FORMULA, name)})
    frame.write_csv(handle, separator=SPREADSHEETS[kind], include_header=header)


def _csv(obj: Container, path: PathLike, quote_formulas: bool = False) -> None:
    _separated(obj, path, "csv", quote_formulas)


def _tsv(obj: Container, path: PathLike, quote_formulas: bool = False) -> None:
    _separated(obj, path, "tsv", quote_formulas)


def _separated(obj: Container, path: PathLike, kind: str, quote_formulas: bool) -> None:
    frame = _table(obj)
    refuse_unwritable(frame, path)
    with atomic_write(path) as handle:
        write_separated(frame, handle, kind, quote_formulas=quote_formulas)


def _jsonl(obj: Container, path: PathLike) -> None:
    frame = _table(obj)
    refuse_unwritable(frame, path)
    with atomic_write(path) as handle:
        frame.write_ndjson(handle)


def _parquet(obj: Container, path: PathLike) -> None:
    with atomic_write(path) as handle:
        _table(obj).write_parquet(handle)


def _qrels(obj: Labels, path: PathLike) -> None:
    frame = obj.to_frame().drop_nulls("label")
    for name in ("instance", "item"):
        bad = frame[name].filter(frame[name].str.contains(r"[\s\x00]|^\ufeff") | (frame[name] == ""))
        if len(bad):
            raise DataError(
                f"{shown(path)}: {name} {quote(bad[0])} cannot be written to qrels: fields are not empty, hold no "
                "blanks and no NUL, and do not begin with a byte-order mark."
            )
    label = frame["label"]
    whole = (label == label.round()).all() and (label.abs() < 2**53).all()
    frame = frame.select("instance", pl.lit("0").alias("iteration"), "item", label.cast(pl.Int64) if whole else label)
    with atomic_write(path) as handle:
        frame.write_csv(handle, separator=" ", include_header=False, quote_style="never")


def _svmlight(obj: Features, path: PathLike, labels: Labels | None = None) -> None:
    if labels is None:
        label = np.zeros(obj.n_slots)
    else:
        if not isinstance(labels, Labels):
            raise ParameterError.invalid("labels", "write", "Labels", type(labels).__name__)
        label = labels.align(obj).label
        if np.isnan(label).any():
            q, i = obj.slots.where(int(np.flatnonzero(np.isnan(label))[0]))
            raise DataError(f"{shown(path)}: item {quote(i)} of instance {quote(q)} has features and no label.")
    texts = io.StringIO()
    for n, q in enumerate(obj.instances):
        if q.split() != [q] or "#" in q:
            raise DataError(
                f"{shown(path)}: instance {quote(q)} cannot be written after qid:, for it is empty or holds a blank "
                "or #."
            )
        for s in range(int(obj.slots.offsets[n]), int(obj.slots.offsets[n + 1])):
            item = obj.items[s]
            if item.split() != [item]:
                raise DataError(
                    f"{shown(path)}: item {quote(item)} cannot be written after #docid =, for it is empty or holds a "
                    "blank."
                )
            values = " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(obj.X[s].tolist()))
            texts.write(f"{_short(label[s])} qid:{q} {values} #docid = {item}\n")
    with atomic_write(path) as handle:
        handle.write(texts.getvalue().encode())


def _short(value: float) -> str:
    return json.dumps(int(value)) if float(value).is_integer() else repr(float(value))


def _scores(obj: Consensus, path: PathLike, like: Container | None = None) -> None:
    write_letor_scores(obj, path, like)


def _ballots(obj: Preferences, path: PathLike) -> None:
    write_preflib(obj, path)


_ANY = (Consensus, Preferences, Comparisons, Labels, Features)
WRITERS: dict[str, tuple[tuple[type[Container], ...], Callable[..., None]]] = {
    "csv": (_ANY, _csv),
    "tsv": (_ANY, _tsv),
    "jsonl": (_ANY, _jsonl),
    "parquet": (_ANY, _parquet),
    "trec": ((Consensus,), write_run),
    "letor-scores": ((Consensus,), _scores),
    "qrels": ((Labels,), _qrels),
    "preflib": ((Preferences,), _ballots),
    "svmlight": ((Features,), _svmlight),
}
