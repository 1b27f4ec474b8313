"""Writes a study as CSV, Markdown, HTML and plots: our values next to the published ones, and claims.

A row holds our values, the published values and a tolerance. Cells are counted here in the same way for every table,
and twice: those that are not below the published value, and those that are close to it on both sides.
"""

from __future__ import annotations

import csv
import html
import io
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from concordant.errors import ConcordantError
from concordant_papers.endings import ENDINGS

__all__ = [
    "COUNTS",
    "QUICK",
    "Claim",
    "Page",
    "Picture",
    "Row",
    "Summary",
    "Table",
    "counts_of",
    "write_file",
    "write_index",
    "write_page",
]

QUICK = "On synthetic data, in small: the shape of the results, not their numbers."


class Row(NamedTuple):
    """A row of a table.

    Attributes
    ----------
    name : str
        Name of the row.
    ours : mapping from column to number
        Our values; empty where they could not be computed.
    theirs : mapping from column to number
        Published values; empty where there are none.
    tolerance : float or None
        How far our values may be below the published ones; None for no comparison.
    exact : bool
        Whether ours must not be above theirs by more than the tolerance either.
    errors : mapping from column to number
        Standard errors of ours, where there are any.
    marks : mapping from column to str
        What stands behind a number, such as * for a significant difference.
    why : str
        Why it could not be computed, or what explains a difference.
    seen : str
        Which settings of its own were chosen with the published row or test results in view; empty where none was.
    """

    name: str
    ours: Mapping[str, float]
    theirs: Mapping[str, float] = {}
    tolerance: float | None = None
    exact: bool = False
    errors: Mapping[str, float] = {}
    marks: Mapping[str, str] = {}
    why: str = ""
    seen: str = ""

    def verdict(self, column: str) -> bool | None:
        """Return whether ours is not below the published value by more than the tolerance.

        None where there is nothing to compare or nothing is asked. An exact row must not be above either.

        >>> row = Row("RRF", {"MAP": 47.1}, {"MAP": 47.5}, 0.3)
        >>> row.verdict("MAP"), row.verdict("N@1")
        (False, None)
        """
        if self.exact:
            return self.close(column)
        gap, slack = self._gap(column)
        return None if gap is None else gap >= -slack

    def close(self, column: str) -> bool | None:
        """Return whether ours is neither below nor above the published value by more than the tolerance.

        >>> row = Row("RRF", {"MAP": 48.1}, {"MAP": 47.5}, 0.3)
        >>> row.verdict("MAP"), row.close("MAP")
        (True, False)
        """
        gap, slack = self._gap(column)
        return None if gap is None else abs(gap) <= slack

    def _gap(self, column: str) -> tuple[float | None, float]:
        if column not in self.ours or column not in self.theirs or self.tolerance is None:
            return None, 0.0
        # Rounding to a decimal must not decide at the edge of the tolerance.
        return self.ours[column] - self.theirs[column], self.tolerance + 1e-9


class Table(NamedTuple):
    """A table of a study.

    Attributes
    ----------
    name : str
        The name of its file.
    title : str
        What it shows.
    columns : sequence of str
        Its columns.
    rows : sequence of Row
        Its rows.
    digits : int
        Digits after the point.
    note : str
        What is to be said below it.
    counts : collection of str
        Columns of whole numbers, which are shown without decimals.
    whole : bool
        Whether a row counts as one cell: its columns describe one thing, such as a film by its counts.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    digits: int = 2
    note: str = ""
    counts: Collection[str] = ()
    whole: bool = False

    def cells(self, row: Row) -> list[tuple[str, ...]]:
        """Return the published cells of a row, each as its columns."""
        columns = tuple(c for c in self.columns if c in row.theirs)
        return [columns] if self.whole and columns else [(c,) for c in columns]


class Claim(NamedTuple):
    """A claim of a paper, whether it holds here (None if it could not be checked), and the numbers behind it.

    One that is `ours` is not in the paper; it is shown apart and not counted.
    """

    text: str
    holds: bool | None
    detail: str = ""
    ours: bool = False


class Picture(NamedTuple):
    """A figure: `draw(axes)` draws it."""

    name: str
    title: str
    draw: Callable[[Any], Any]
    size: tuple[float, float] = (7.0, 4.5)


class Page(NamedTuple):
    """Tables, claims, figures and notes of a study."""

    tables: Sequence[Table] = ()
    claims: Sequence[Claim] = ()
    pictures: Sequence[Picture] = ()
    notes: Sequence[str] = ()


class Compared(NamedTuple):
    """A comparison with a published cell: the table and the row it is in, and its columns."""

    table: Table
    row: Row
    columns: tuple[str, ...]

    @property
    def close(self) -> bool:
        """Whether ours is neither below nor above it by more than the tolerance."""
        return all(map(self.row.close, self.columns))


class Summary(NamedTuple):
    """Numbers of published cells of a study that were compared and that were reached.

    `within` counts the cells that are not below the published ones by more than the tolerance, `close` those that are
    not above them either, and `unseen` those of the latter whose row has no setting chosen in view of the published
    one. `cells` holds those compared. `out` holds the rows with cells out of tolerance: the table, the row and the
    columns; `untrue` the claims that do not hold.
    """

    name: str
    title: str
    compared: int
    within: int
    close: int
    unseen: int
    absent: int
    claims: int
    holding: int
    seconds: float
    failed: Mapping[str, str]
    cells: Sequence[Compared] = ()
    out: Sequence[tuple[Table, Row, Sequence[str]]] = ()
    untrue: Sequence[Claim] = ()


# How cells are counted, and what the counts are called.
COUNTS = {
    "published cells compared": "compared",
    "not below": "within",
    "within on both sides": "close",
    "of these no own setting seen": "unseen",
    "not computable": "absent",
}


def counts_of(summary: Summary) -> list[int]:
    """Return the counts of a study in the order of `COUNTS`."""
    return [getattr(summary, name) for name in COUNTS.values()]


def write_page(
    folder: Path,
    name: str,
    title: str,
    paper: str,
    page: Page,
    *,
    seconds: float,
    failed: Mapping[str, str],
    quick: bool = False,
) -> Summary:
    """Write a study (a CSV for each table, an image for each figure, and a page) and return its summary.

    A `quick` page says that its data is synthetic, because it looks like a real one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = f"`concordant reproduce {name}{' --quick' if quick else ''}`"
    parts = [f"# {title}", f"{paper}. {command}; {_duration(seconds)} of computing. [All studies](index.md)."]
    if quick:
        parts.append(f"**{QUICK}** What the paper states of its own data need not hold of these.")
    if failed:
        parts.append("**Failed:** " + "; ".join(f"{key}: {text}" for key, text in failed.items()))
    for table in page.tables:
        write_file(folder / f"{table.name}.csv", _as_csv(table))
        parts += [f"## {table.title}", _as_markdown(table)]
        why = _remarks_by_row(table.rows)
        parts += ["\n".join(why)] if why else []
        parts += [table.note] if table.note else []
        parts.append(f"[{table.name}.csv]({table.name}.csv)")
    stated, added = [c for c in page.claims if not c.ours], [c for c in page.claims if c.ours]
    for heading, some in (("What the paper states", stated), ("What we checked besides", added)):
        words = {True: "holds", False: "does not hold", None: "not computable"}
        lines = [f"| {_cell(c.text)} | {words[c.holds]} | {_cell(c.detail)} |" for c in some]
        if lines:
            parts += [f"## {heading}", "\n".join(["| claim | here | numbers |", "|:---|:---|:---|", *lines])]
    for picture in page.pictures:
        drawn = _draw(folder, picture)
        parts += [f"## {picture.title}", f"![{picture.title}]({drawn})" if drawn.endswith(".svg") else drawn]
    parts += list(page.notes)
    if name in ENDINGS and not quick:
        parts.append(ENDINGS[name].text())
    text = "\n\n".join(parts) + "\n"
    write_file(folder / f"{name}.md", text)
    write_file(folder / f"{name}.html", _as_html(title, text))
    printed = [Compared(t, row, cell) for t in page.tables for row in t.rows for cell in t.cells(row)]
    compared = [c for c in printed if c.row.close(c.columns[0]) is not None]
    close = [c for c in compared if c.close]
    return Summary(
        name,
        title,
        len(compared),
        sum(all(map(c.row.verdict, c.columns)) for c in compared),
        len(close),
        sum(not c.row.seen for c in close),
        sum(any(column not in c.row.ours for column in c.columns) for c in printed),
        sum(c.holds is not None for c in stated),
        sum(c.holds is True for c in stated),
        seconds,
        failed,
        compared,
        [(t, row, out) for t in page.tables for row in t.rows if (out := _out(row, t.columns))],
        [c for c in stated if c.holds is False],
    )


def _remarks_by_row(rows: Sequence[Row]) -> list[str]:
    """Return what is to be said of the rows, once for those of which the same is to be said."""
    of: dict[str, list[str]] = {}
    for row in rows:
        of.setdefault(_remarks(row), []).append(row.name)
    return [
        f"- {'All rows' if 1 < len(names) == len(rows) else ', '.join(names)}: {text}"
        for text, names in of.items()
        if text
    ]


def _remarks(row: Row) -> str:
    seen = f"Seen: {row.seen}" if row.seen else ""
    return " ".join(_sentence(text) for text in (row.why, seen) if text)


def _out(row: Row, columns: Sequence[str]) -> list[str]:
    return [column for column in columns if row.verdict(column) is False]


def write_index(folder: Path, summaries: Sequence[Summary], skipped: Mapping[str, str], about: str) -> str:
    """Write the index of all pages and return its text.

    Without published cells, as for synthetic data, their columns are left out.
    """
    printed = any(s.compared or s.absent for s in summaries)
    columns = list(COUNTS) if printed else []
    columns += ["claims that hold", "computing"]
    head = ["| study | " + " | ".join(columns) + " |", "|:---" + "|---:" * len(columns) + "|"]

    def line(name: str, some: Sequence[Summary]) -> str:
        counts = [sum(v) for v in zip(*(counts_of(s) for s in some), strict=True)]
        # A study without published numbers has no counts.
        cells = [str(n) for n in counts] if any(counts) else ["–"] * len(counts)
        stated = sum(s.claims for s in some)
        claims = f"{sum(s.holding for s in some)} of {stated}" if stated else "–"
        cells = [*(cells if printed else []), claims, _duration(sum(s.seconds for s in some))]
        return f"| {name} | " + " | ".join(cells) + " |"

    lines = [line(f"[{_cell(s.title)}]({s.name}.md){' (incomplete)' if s.failed else ''}", [s]) for s in summaries] + (
        [line("all", summaries)] if summaries else []
    )
    parts = ["# The published results, ours beside theirs", about, "\n".join([*head, *lines])]
    cells = [cell for s in summaries for cell in s.cells]
    if cells:
        parts.append(
            f"The {len(cells)} comparisons are with {_different(cells)} different cells; those with no own setting "
            f"seen are with {_different([c for c in cells if c.close and not c.row.seen])}."
        )
    parts += _differences(summaries)
    if skipped:
        parts += ["## Not computable", "\n".join(f"- {name}: {why}" for name, why in skipped.items())]
    text = "\n\n".join(parts) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / "index.md", text)
    write_file(folder / "index.html", _as_html("The published results", text))
    return text


def _different(cells: Sequence[Compared]) -> int:
    """Return the number of different published cells: printed rows that agree in every column they share are one."""
    rows: list[dict[str, float]] = []
    found = set[tuple[str, ...]]()
    for table, row, columns in cells:
        if table.whole:
            found.add((table.name, row.name))
            continue
        alike = (
            n
            for n, r in enumerate(rows)
            if (both := r.keys() & row.theirs) and all(r[c] == row.theirs[c] for c in both)
        )
        n = next(alike, len(rows))
        if n == len(rows):
            rows.append({})
        rows[n].update(row.theirs)
        found.add((str(n), *columns))
    return len(found)


def _differences(summaries: Sequence[Summary]) -> list[str]:
    """List for each study the cells out of tolerance, why they are, and the claims that do not hold."""
    parts: list[str] = []
    lines = []
    for s in summaries:
        for table, row, columns in s.out:
            gaps = ", ".join(f"{c} {_figure(row.ours[c] - row.theirs[c], table.digits, '+')}" for c in columns)
            name = row.name.replace("*", "\\*")
            lines.append(
                f"- [{s.name}]({s.name}.md), {table.title}, **{name}** ({gaps}). {_sentence(row.why)}".rstrip()
            )
    if lines:
        parts += [
            "## Where ours is below, or not the same where it must be, and why",
            "\n".join(lines),
        ]
    claims = [f"| [{s.name}]({s.name}.md) | {_cell(c.text)} | {_cell(c.detail)} |" for s in summaries for c in s.untrue]
    if claims:
        parts += ["## What the papers state and what does not hold here"]
        parts.append("\n".join(["| study | claim | numbers |", "|:---|:---|:---|", *claims]))
    return parts


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}" if text else ""


def _as_csv(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["row", "column", "ours", "stderr", "published", "difference", "tolerance", "not below", "both sides", "seen"]
    )
    for row in table.rows:
        for column in table.columns:
            mine, printed = row.ours.get(column), row.theirs.get(column)
            if mine is None and printed is None:
                continue
            gap = None if mine is None or printed is None else mine - printed
            writer.writerow(
                [row.name, column]
                + ["" if v is None else f"{v:.6g}" for v in (mine, row.errors.get(column), printed, gap)]
                + ["" if row.tolerance is None else f"{row.tolerance:g}"]
                + ["" if v is None else str(v) for v in (row.verdict(column), row.close(column))]
                + [row.seen]
            )
    return out.getvalue()


def _as_markdown(table: Table) -> str:
    """Return the table as Markdown: our values, and below them the published values and the differences."""
    lines = ["| | " + " | ".join(map(_cell, table.columns)) + " |", "|:---" + "|---:" * len(table.columns) + "|"]
    digits = {column: 0 if column in table.counts else table.digits for column in table.columns}
    for row in table.rows:
        mine = []
        for column, d in digits.items():
            if column not in row.ours:
                mine.append("–")
                continue
            error = f" ± {row.errors[column]:.{d}f}" if column in row.errors else ""
            flag = " ✗" if row.verdict(column) is False else ""
            mine.append(f"{_figure(row.ours[column], d)}{error}{row.marks.get(column, '')}{flag}")
        lines.append(f"| {_cell(row.name)} | " + " | ".join(mine) + " |")
        if row.theirs:
            theirs = []
            for column, d in digits.items():
                if column not in row.theirs:
                    theirs.append("")
                    continue
                gap = f" ({_figure(row.ours[column] - row.theirs[column], d, '+')})" if column in row.ours else ""
                theirs.append(f"{_figure(row.theirs[column], d)}{gap}")
            lines.append("| published (ours less theirs) | " + " | ".join(theirs) + " |")
    return "\n".join(lines)


def _figure(value: float, digits: int, sign: str = "") -> str:
    """Return a number with this many decimals; a number that rounds to 0 has no minus sign.

    >>> _figure(-0.004, 2), _figure(-0.004, 2, "+"), _figure(-1.5, 1)
    ('0.00', '+0.00', '-1.5')
    """
    return f"{value if float(f'{value:.{digits}f}') else 0.0:{sign}.{digits}f}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _draw(folder: Path, picture: Picture) -> str:
    """Draw a figure and return its file name, or the reason why there is none."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        return "Not drawn: matplotlib is not installed (`pip install concordant[report]`)."
    figure = Figure(figsize=picture.size, layout="constrained")
    try:
        picture.draw(figure.add_subplot())
    except ConcordantError as error:
        return f"Not drawn: {error}"
    out = io.BytesIO()
    # No date, and ids from the name, so that equal figures give equal files.
    with matplotlib.rc_context({"svg.hashsalt": picture.name}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    write_file(folder / f"{picture.name}.svg", out.getvalue())
    return f"{picture.name}.svg"


_STYLE = """
:root { color-scheme: light dark; background: Canvas; color: CanvasText; }
body { max-width: 75rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
h1, h2 { line-height: 1.25; text-wrap: balance; }
a { color: LinkText; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #8886; padding: .25rem .6rem; }
thead th { vertical-align: bottom; }
td { vertical-align: top; }
td:first-child { min-width: 9rem; }
img { max-width: 100%; background: white; }
p, li { max-width: 48rem; overflow-wrap: anywhere; }
@media print { table { display: table; font-size: .7rem; } h2 { break-after: avoid; } tr, img { break-inside: avoid; } }
code { background: color-mix(in srgb, CanvasText 8%, Canvas); padding: 0 .2em; }
"""


def _as_html(title: str, text: str) -> str:
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text).replace('.md"', '.html"')
    # In narrow columns the standard error wraps to the next line together with its sign.
    body = body.replace(" ± ", " ±\u00a0")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><main>{body}</main></body></html>\n"
    )


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file so that it appears complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.write_bytes(content if isinstance(content, bytes) else content.encode())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
