"""What a command says and where: results on standard output, everything else on standard error.

A `Session` is one run of one command. It turns warnings into single lines, errors into a message and exit code 1, and
with `--json` holds all results back until there is one object to print.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import traceback
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from types import TracebackType
from typing import Any, Self, TextIO

import typer

from concordant._version import __version__
from concordant.cli._streams import tell, writing_output
from concordant.errors import (
    ConcordantError,
    ConcordantWarning,
    FormatError,
    ParameterError,
    reword_settings,
    visible,
)

__all__ = ["Progress", "Session", "Table", "check_quoting", "format_number", "table_type", "write_table"]

# Work shorter than this needs no progress bar.
PATIENCE = 2.0


def _visible_lines(text: str) -> str:
    """Return a text of several lines, each safe for a terminal."""
    return "\n".join(map(visible, text.split("\n")))


def format_number(value: float, digits: int = 4) -> str:
    """Return a number to `digits` significant figures, never as -0 and never wider than it needs to be.

    >>> format_number(0.0163934), format_number(1234567.0), format_number(3.0), format_number(-0.0)
    ('0.01639', '1234567', '3', '0')
    """
    if not math.isfinite(value):
        return ""
    if value == 0:
        return "0"
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{digits - 1}e}" if places > 12 else f"{value:.{max(places, 0)}f}"


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


@dataclass
class Table:
    """Rows of texts with a header.

    Parameters
    ----------
    columns : list of str
        The header.
    rows : list of lists of str
        One list per row, as long as the header.
    left : set of int
        The columns of text, set to the left; the others are numbers, set to the right.
    title, caption : str
        Lines above and below.
    bold : set of (row, column)
        Cells to stand out on a terminal.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: frozenset[int] = frozenset({0})
    title: str = ""
    caption: str = ""
    bold: frozenset[tuple[int, int]] = field(default=frozenset())

    @property
    def width(self) -> int:
        """How many columns of a terminal its rows take."""
        rows = [self.columns, *self.rows]
        return sum(max(_width(visible(row[c])) + 2 for row in rows) for c in range(len(self.columns)))

    def to_text(self) -> str:
        """Return the table as aligned plain text.

        >>> print(Table(["item", "score"], [["a", "1.5"], ["bcdefg", "12"]]).to_text())
        item    score
        a         1.5
        bcdefg     12
        """
        lines = [[visible(cell) for cell in row] for row in [self.columns, *self.rows]]
        widths = [max(_width(row[c]) for row in lines) for c in range(len(self.columns))]
        out = [visible(self.title)] if self.title else []
        for row in lines:
            cells = []
            for c, cell in enumerate(row):
                pad = " " * (widths[c] - _width(cell))
                cells.append(cell + pad if c in self.left else pad + cell)
            out.append("  ".join(cells).rstrip())
        return "\n".join(out + ([visible(self.caption)] if self.caption else []))


class Progress:
    """How far a piece of work is. The base class shows nothing."""

    def update(self, what: str | None = None, *, advance: float = 0) -> None:
        """Say what is done now, and how many steps were finished since the last call."""


class _Bar(Progress):
    """A bar on a terminal that appears only when the work lasts longer than `PATIENCE` seconds."""

    def __init__(self, what: str, total: float | None) -> None:
        self._what, self._total, self._done, self._part, self._state = what, total, 0.0, 0.0, ""
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)
        self._thread.start()

    def update(self, what: str | None = None, *, advance: float = 0) -> None:
        self._what = self._what if what is None else what
        self._done += advance
        self._part, self._state = 0.0, ""

    def part(self, done: int, total: int) -> None:
        """Take note of how much of the step in hand is finished."""
        self._part = done / total

    def state(self, text: str) -> None:
        """Take note of how the step in hand stands, such as the best value so far."""
        self._state = text

    def close(self) -> None:
        self._finished.set()
        self._thread.join()

    def _draw(self) -> None:
        if self._finished.wait(PATIENCE):
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            SpinnerColumn,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
        if self._total is not None:
            columns += [BarColumn(), TaskProgressColumn(), TimeRemainingColumn()]
        with RichProgress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bars:
            task = bars.add_task(visible(self._what), total=self._total)
            while not self._finished.wait(0.1):
                now = f"{self._what}: {self._state}" if self._state else self._what
                bars.update(task, description=visible(now), completed=self._done + self._part)


class Session:
    """One run of a command: collects warnings and results, prints them, turns errors into exit codes.

    Parameters
    ----------
    command : str
        The name of the command.
    params : mapping
        What the user asked for, as the JSON object reports it.
    quiet, as_json, debug : bool
        The options of the same names.
    threads : int, optional
        How many threads may work.
    """

    def __init__(
        self,
        command: str,
        params: Mapping[str, Any],
        *,
        quiet: bool = False,
        as_json: bool = False,
        threads: int | None = None,
        debug: bool = False,
    ) -> None:
        self.command, self.params = command, dict(params)
        self.quiet, self.json, self.debug = quiet, as_json, debug
        self.threads = threads
        self.warnings: list[str] = []
        self.results: Any = None
        self.fit_info: Any = None
        # What JSON holds besides, by name: coefficients of a model.
        self.besides: dict[str, Any] = {}
        # What the command ends with when it did what it could, such as 130 after an interrupt.
        self.code = 0
        # How the command line sets what the library calls a parameter.
        self.setting = "-p {name}={value}"
        # What was read from standard input and pipes, by what it is: it can be read once only.
        self.held: dict[Any, Any] = {}
        # The option whose file goes to standard output; results then go to standard error.
        self._taken = ""
        self._about = ""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self.threads is not None:
            from concordant.execution import threads

            try:
                self._stack.enter_context(threads(self.threads))
            except ParameterError as error:
                raise typer.BadParameter(str(error), param_hint="--threads") from error
            # Polars sizes its pool once, when it is imported.
            before = os.environ.get("POLARS_MAX_THREADS")
            os.environ["POLARS_MAX_THREADS"] = str(self.at_most_cores(self.threads, "--threads"))
            self._stack.callback(_set_environment, "POLARS_MAX_THREADS", before)
        self._stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("always", ConcordantWarning)
        warnings.showwarning = self._show_warning
        return self

    def at_most_cores(self, n: int, option: str) -> int:
        """Return how many threads or processes to start: no more than cores, with a warning where fewer than asked."""
        from concordant.execution import cores

        if n > cores():
            self.warn(f"{option} {n}: this process may use {cores()} cores, so only {cores()} are started.")
        return min(n, cores())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self.held.clear()
        if error is None:
            with writing_output():
                if self.json:
                    self._print_json()
                sys.stdout.flush()
            if self.code:
                raise typer.Exit(self.code)
        elif isinstance(error, KeyboardInterrupt):
            tell("interrupted")
            raise typer.Exit(130) from error
        elif isinstance(error, BrokenPipeError):
            # The reader of a pipe that is the output file.
            with writing_output():
                raise error
        elif isinstance(error, (ConcordantError, OSError)):
            if self.debug:
                tell(_visible_lines("".join(traceback.format_exception(error)).rstrip("\n")))
            tell(f"{type(error).__name__}: {visible(self._worded(error))}")
            raise typer.Exit(1) from error

    def _show_warning(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        self.warn(f"{self._about}{self._worded(message)}")

    def _worded(self, message: BaseException | str) -> str:
        """Return the message of an error or warning, with the settings that it advises as options."""
        if not isinstance(message, (ConcordantError, ConcordantWarning)):
            return _message(message)
        return reword_settings(
            str(message), message.settings, lambda name, value: self.setting.format(name=name, value=value)
        )

    def destination(self, path: str, option: str) -> str:
        """Return where a file is written: - is standard output, which then takes nothing else."""
        if path not in ("-", "/dev/stdout"):
            return path
        other = "--json" if self.json else self._taken
        if other:
            raise typer.BadParameter(f"standard output is taken by {other}. Name a file.", param_hint=option)
        self._taken = option
        return "/dev/stdout"

    @property
    def _results(self) -> TextIO:
        return sys.stderr if self._taken else sys.stdout

    @contextmanager
    def about(self, what: str) -> Iterator[None]:
        """Begin the warnings inside the block with what they are about."""
        self._about = f"{what}: "
        try:
            yield
        finally:
            self._about = ""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Have advice inside the block speak of options of the reader; an error takes that with it."""
        before, self.setting = self.setting, "--read {name}={value}"
        yield
        self.setting = before

    def warn(self, message: str) -> None:
        """Give a warning as one line, once."""
        text = " ".join(message.split())
        if text not in self.warnings:
            self.warnings.append(text)
            if not self.quiet:
                tell(f"warning: {visible(text)}")

    def note(self, text: str) -> None:
        """Say something in one line beside the results, on standard error."""
        if not self.quiet and not self.json:
            tell(visible(text))

    def complain(self, text: str) -> None:
        """Say in one line on standard error, also to those who want no notes, what did not go as asked."""
        tell(visible(text))

    def told(self, text: str) -> None:
        """Note what was done to the input, such as rows that were left out; with --json it is in the parameters."""
        self.params.setdefault("notes", []).append(text)
        self.note(text)

    def say(self, text: str = "", *, lines: bool = False) -> None:
        """Print a line of results, or several where line breaks are part of the text and not of an id in it."""
        if not self.json:
            with writing_output():
                print(_visible_lines(text) if lines else visible(text), file=self._results)

    def show(self, table: Table) -> None:
        """Print a table: drawn on a terminal, as aligned text anywhere else."""
        if self.json:
            return
        with writing_output():
            if self._results.isatty():
                _draw(table, self._results)
            else:
                print(table.to_text(), file=self._results)

    @contextmanager
    def progress(self, what: str, total: float | None = None) -> Iterator[Progress]:
        """Show how far the work inside the block is, on a terminal and only when it lasts.

        Inside a step the bar moves as instances or passes are finished, and shows what a training says of itself.
        """
        if self.quiet or not sys.stderr.isatty():
            yield Progress()
            return
        from concordant.execution import watch

        bar = _Bar(what, total)
        try:
            with watch(bar.part, bar.state):
                yield bar
        finally:
            bar.close()

    def _print_json(self) -> None:
        content = {
            "version": __version__,
            "command": self.command,
            "params": self.params,
            "warnings": self.warnings,
            "results": self.results,
            "fit_info": self.fit_info,
        } | self.besides
        ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
        text = json.dumps(_plain(content), ensure_ascii=ascii_only, allow_nan=False)
        if not text.isprintable():
            # Escapes that every reader of JSON undoes, for what would act on a terminal.
            text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
        print(text)


def _set_environment(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _plain(value: Any) -> Any:
    """Return a value as JSON knows it: NumPy's numbers as numbers, what is not finite as null, methods by name."""
    from concordant.base.contract import FitInfo

    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, FitInfo):
        value = value.to_dict()
    if hasattr(value, "get_params"):
        return {"method": value.name, "params": _plain(value.get_params())}
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _message(error: BaseException | str) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{error.filename}: "
        return f"{where}{error.strerror}"
    return str(error)


def _draw(table: Table, file: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(
        box=box.SIMPLE_HEAD,
        title=Text(visible(table.title)) if table.title else None,
        title_justify="left",
        show_edge=False,
        pad_edge=False,
    )
    drawn.title_style = "bold"
    for c, name in enumerate(table.columns):
        left = c in table.left
        drawn.add_column(Text(visible(name)), justify="left" if left else "right", no_wrap=not left)
    for r, row in enumerate(table.rows):
        drawn.add_row(*(Text(visible(cell), "bold" if (r, c) in table.bold else "") for c, cell in enumerate(row)))
    console = Console(file=file, highlight=False)
    console.print(drawn)
    if table.caption:
        console.print(Text(visible(table.caption), "dim"))


def table_type(path: str) -> str:
    """Return how a plain table is written to a file of this name, or raise when the ending does not tell.

    Standard output and pipes have no ending and get CSV.
    """
    from concordant.io._files import is_stream
    from concordant.io._tables import file_type

    kind = file_type(path) or ("csv" if is_stream(path) else None)
    if kind not in ("csv", "tsv", "jsonl", "parquet"):
        raise FormatError(f"{path}: the ending does not say how to write a table. Use .csv, .tsv, .jsonl or .parquet.")
    return kind


def check_quoting(quote_formulas: bool, *outputs: str | None) -> None:
    """Raise a usage error where --quote-formulas is given and none of the outputs, files or formats, is CSV or TSV."""
    if not quote_formulas:
        return
    from concordant.io._tables import file_type
    from concordant.io.table_writers import SPREADSHEETS

    if not any(out in SPREADSHEETS or file_type(out) in SPREADSHEETS for out in outputs if out is not None):
        raise typer.BadParameter("is for CSV and TSV files, and none is written.", param_hint="--quote-formulas")


def write_table(columns: dict[str, list[Any]], path: str, quote_formulas: bool = False) -> None:
    """Write a plain table, whole or not at all; the ending says how (.csv, .tsv, .jsonl, .parquet)."""
    import polars as pl

    from concordant.io._files import atomic_write
    from concordant.io.table_writers import write_separated

    frame = pl.DataFrame(columns)
    kind = table_type(path)
    with atomic_write(path) as handle:
        if kind == "jsonl":
            frame.write_ndjson(handle)
        elif kind == "parquet":
            frame.write_parquet(handle)
        else:
            write_separated(frame, handle, kind, quote_formulas=quote_formulas)
