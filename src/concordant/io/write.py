"""Writes containers to files atomically; the readers return an equal container.

The ending of the name selects the format: .csv, .tsv, .jsonl, .parquet, .trec, .soc/.soi/.toc/.toi, .svm. A further
.gz, .xz, .bz2 or .zst compresses.
"""

from __future__ import annotations

from typing import Any

from concordant.data.container import Container
from concordant.errors import FormatError, ParameterError, quote
from concordant.io._files import PathLike, display_path
from concordant.io.formats import CONTAINERS, FORMATS, Format, name_ending, unknown_options

__all__ = ["format_of", "write"]


def write(obj: Container, path: PathLike, format: str | None = None, **options: Any) -> None:  # noqa: A002 - the name users know
    r"""Write a container to a file, whole or not at all.

    Parameters
    ----------
    obj : Consensus, Preferences, Comparisons, Labels or Features
        What to write.
    path : path
        The file. Without `format` its ending selects the format; a further .gz, .xz, .bz2 or .zst compresses text.
    format : str, optional
        "csv", "tsv", "jsonl", "parquet" for any container; "trec" (a run) and "letor-scores" for a Consensus, "qrels"
        for Labels, "preflib" for Preferences of one instance, "svmlight" for Features.
    **options
        "csv" and "tsv": ``quote_formulas=True`` puts a ``'`` before ids and column names that a spreadsheet would take
        for a formula, such as ``=HYPERLINK(...)``; by default all are written exactly. "trec": those of `write_run`.
        "letor-scores": ``like=``. "svmlight": ``labels=`` (Labels, 0 without). "preflib": ``categories=``
        (names of those of a cat file).

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
        When the ending does not tell the format, or the format cannot hold this container.

    Examples
    --------
    >>> import concordant as cc, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "labels.csv")
    >>> cc.write(cc.Labels(["q", "q"], ["a", "b"], [2, 0]), path)
    >>> print(path.read_text(), end="")
    instance,item,label
    q,a,2.0
    q,b,0.0
    """
    if not isinstance(obj, CONTAINERS):
        raise ParameterError.invalid(
            "obj", "write", "Consensus, Preferences, Comparisons, Labels or Features", type(obj).__name__
        )
    name = format or format_of(path)
    chosen = FORMATS.find(name)
    if chosen is None or chosen.write is None:
        raise ParameterError.invalid("format", "write", f"one of {', '.join(map(repr, _writable()))}", name)
    if not isinstance(obj, chosen.writes):
        would = [n for n, f in _writable().items() if isinstance(obj, f.writes)]
        raise FormatError(
            f"{display_path(path)}: the format {quote(name)} cannot hold {type(obj).__name__}. "
            f"Formats for {type(obj).__name__}: {', '.join(would)}."
        )
    wrong, allowed = unknown_options(chosen.write, options, 2)
    if wrong:
        raise ParameterError(
            f"writing {quote(name)} does not take {', '.join(wrong)}. It takes {', '.join(allowed) or 'no options'}."
        )
    chosen.write(obj, path, **options)


def _writable() -> dict[str, Format]:
    return {name: FORMATS[name] for name in FORMATS if FORMATS[name].write is not None}


def format_of(path: PathLike) -> str:
    """Return the format that the ending of a path asks for."""
    # Formats of other packages are loaded only if no built-in one fits.
    for formats in (FORMATS.own, _writable):
        found = next((n for n, f in formats().items() if f.write is not None and name_ending(path, f.extensions)), None)
        if found is not None:
            return found
    raise FormatError(
        f"{display_path(path)}: the ending does not say the format. Use one of "
        f"{', '.join(e for f in _writable().values() for e in f.extensions)}, "
        f"or pass format= (--to), one of {', '.join(_writable())}."
    )
