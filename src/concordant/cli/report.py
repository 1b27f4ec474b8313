"""`concordant report`: writes one HTML file about the data, the consensus, the experts and the methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from concordant.cli._board_scale import BoardScale
from concordant.cli._inputs import Reading, all_given, given, note_missing, read_labels_of, votes_of
from concordant.cli._options import CONVENTIONS, Common, Convention, Labels, Weights, bundled
from concordant.cli._output import Session
from concordant.cli._parsing import check_choice, make_method, parse_weights
from concordant.cli.compare import parse_methods
from concordant.errors import ColumnError, ConcordantError, MissingExtraError, first_of

if TYPE_CHECKING:
    from concordant.base.contract import Aggregator
    from concordant.cli._inputs import Source
    from concordant.data.comparisons import Comparisons
    from concordant.data.consensus import Consensus
    from concordant.data.preferences import Preferences
    from concordant.io._files import PathLike
    from concordant.report.content import Report

__all__ = ["command"]


@bundled("memory")
def command(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT...",
            help="Files, folders or patterns, as for aggregate: runs, LETOR, PrefLib, CSV, Parquet, JSON lines.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The HTML file to write.")
    ] = "report.html",
    labels: Labels = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            "-m",
            metavar="M,...",
            help="Methods, such as rrf,borda,crf; the first that needs no labels gives the consensus. Default: a few "
            "that suit the data.",
        ),
    ] = None,
    names: Annotated[
        str | None,
        typer.Option(
            "--names",
            metavar="FILE",
            help="What items are called: a table with item and name; MovieLens' u.item is known. Shown with the id.",
        ),
    ] = None,
    name_columns: Annotated[
        list[str] | None,
        typer.Option(
            "--name-columns", metavar="ROLE=COLUMN,...", help="Roles of the columns of --names: item=1,name=2."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Title of the report.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Report on the bundled sample; no input is needed.")] = False,
    convention: Convention = None,
    weights: Weights = None,
    *,
    board: BoardScale,
    reading: Reading,
    common: Common,
) -> None:
    """Write a self-contained HTML report: data, consensus, agreement of experts, methods, labels."""
    check_choice(convention, CONVENTIONS, "--convention")
    if not inputs and not demo:
        raise typer.BadParameter("name at least one file, or pass --demo.", param_hint="INPUT")
    if inputs and demo:
        raise typer.BadParameter("brings its own data; leave the input out.", param_hint="--demo")
    if name_columns and names is None:
        raise typer.BadParameter("goes with --names, whose columns it names.", param_hint="--name-columns")
    board.check(own_origin=True)
    specs = None if methods is None else parse_methods(methods)
    trust = parse_weights(weights)
    asked = {"inputs": inputs or [], "labels": labels, "methods": methods, "output": output, "weights": trust}
    asked |= {"names": names} if names else {}
    with common.session("report", asked) as session:
        from concordant.selection.folds import shared_labels

        output = session.destination(output, "--output")
        _check(output)
        chosen = None if specs is None else [(spec.text, _create(spec)) for spec in specs]
        if demo:
            from concordant.data.sample import path

            inputs, labels = [str(path("runs"))], labels or str(path("qrels.txt"))
            title = title or "The bundled sample: six search systems, forty queries"
        called = None if names is None else _names(given(session, names), name_columns)
        source = _read(session, reading, inputs or [], [m for _, m in chosen or []])
        votes = votes_of(source).scale_weights(trust)
        truth = None
        if labels is not None or source.dataset.labels is not None:
            truth = shared_labels(read_labels_of(session, source, labels), votes)
        files = ["standard input" if name == "-" else name for name in inputs or []]
        named = [Path(name).name or name for name in files]
        from concordant.report.content import build_report
        from concordant.report.page import render

        with session.progress("looking at the data") as bar:
            report = build_report(
                votes,
                truth,
                methods=chosen,
                title=title or f"Consensus report: {_called(files)}",
                sources=[] if demo else named + [Path(more).name for more in (labels, names) if more],
                convention=convention or source.convention,
                folds=_folds(source, labels, trust),
                names=called,
                rescale=_rescaled(board, votes),
                progress=bar.update,
            )
            bar.update("writing")
            size = _write(render(report), output)
        session.warnings += [w for w in report.data.warnings if w not in session.warnings]
        session.results = _record(report, output, size)
        if called is not None:
            session.results["names"] = _matched_names(session, called, set(votes.items))
        if not session.json:
            for sentence in report.summary:
                session.say(sentence)
        from concordant.data.preferences import Preferences
        from concordant.report.method_results import default_methods

        if isinstance(votes, Preferences):
            note_missing(session, chosen or [(a.label, a.method) for a in default_methods(votes)], votes)
        session.note(f"wrote {output}: {size / 1e3:,.0f} kB, complete in itself")


def _read(session: Session, reading: Reading, inputs: list[str], methods: list[Aggregator]) -> Source:
    """Return the input; votes with the columns that the methods need, and with times and categories that can be read.

    Those are only shown, so columns that cannot be read as such are left out, with a note.
    """
    from concordant.io.tabular import dates_and_categories

    needed = reading.needed_by(methods)
    shown: dict[str, Any] = {}
    if reading.format_of(session, inputs) == "comparisons":
        known = {*reading.reader_options(), *(reading.columns_by_role() or {}), *needed}
        try:
            found = dates_and_categories(all_given(session, inputs), columns=reading.columns_by_role())
        except (ConcordantError, OSError):
            # Reading says what is wrong.
            found = {}
        shown = {word: name for word, name in found.items() if word not in known}
    if not shown:
        return reading.read(session, inputs, **needed)
    try:
        return reading.read(session, inputs, **needed, **shown)
    except ConcordantError as error:
        source = reading.read(session, inputs, **needed)
        session.note(f"votes are shown without {' and '.join(shown)}: {error}")
        return source


def _rescaled(board: BoardScale, votes: Preferences | Comparisons) -> Callable[[Consensus], Consensus] | None:
    """Return how to rescale the consensus; None for the default, Elo for votes on one set of items."""
    from concordant.data.comparisons import Comparisons

    if board.scale is None and (board.has_origin or board.anchor_at is not None):
        board = replace(board, scale="elo")
    if not isinstance(votes, Comparisons) or len(votes) > 1:
        if board.scale is not None and not board.has_origin:
            raise board.without_origin()
        return board.applied if board.asked else None
    if not board.has_origin and board.anchor_at is not None:
        raise typer.BadParameter("goes with --anchor.", param_hint="--anchor-at")
    if not board.has_origin and board.scale != "log-odds":
        return None

    def rescaled(consensus: Consensus) -> Consensus:
        scaled = replace(board, tiers=False).applied(consensus) if board.has_origin else consensus
        return scaled if scaled.stderr is None and not board.tiers else scaled.with_tiers()

    return rescaled


def _names(path: PathLike, columns: list[str] | None) -> dict[str, str]:
    """Return the names of items."""
    from concordant.io.names import read_names

    try:
        return read_names(path, columns=",".join(columns) if columns else None)
    except ColumnError as error:
        raise ColumnError(str(error).replace("(--columns)", "(--name-columns)")) from None


def _matched_names(session: Session, names: dict[str, str], items: set[str]) -> dict[str, int]:
    """Return how many items have names, and how many names match no item; print a note if some do not match."""
    known = sum(item in names for item in items)
    out = {"items_named": known, "items_without": len(items) - known, "of_no_item": len(names) - known}
    if out["items_without"] or out["of_no_item"]:
        session.note(
            f"names: {known:,} of {len(items):,} items have one; {out['of_no_item']:,} are of no item in the data"
        )
    return out


def _called(inputs: list[str]) -> str:
    """Return a name for the input: that of the file, or of the folder that holds all files."""
    paths = [Path(name) for name in inputs]
    if len(paths) == 1:
        return paths[0].name or inputs[0]
    folder = paths[0].absolute().parent.name
    if folder and all(path.absolute().parent == paths[0].absolute().parent for path in paths):
        return f"{folder} ({len(paths)} files)"
    return first_of([path.name for path in paths])


def _create(spec: Any) -> Any:
    return make_method(spec.name, spec.params)


def _check(output: str) -> None:
    """Raise before the work if the report cannot be rendered or written."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("jinja2", "report", "a report") from None
    from concordant.io._files import check_writable

    check_writable(output)


def _folds(source: Source, labels: str | None, trust: dict[str, float]) -> Any:
    """Return the folds of a LETOR folder, unless the user gives other labels or weights."""
    return source.dataset.folds if labels is None and not trust else None


def _write(page: str, output: str) -> int:
    from concordant.io._files import atomic_write

    content = page.encode("utf-8")
    with atomic_write(output) as handle:
        handle.write(content)
    return len(content)


def _record(report: Report, output: str, size: int) -> dict[str, Any]:
    evaluation = report.evaluation
    return {
        "output": output,
        "bytes": size,
        "title": report.title,
        "summary": report.summary,
        "consensus": report.main,
        "methods": [{"method": m.label, "agreement": m.tau, "left_out": m.reason or None} for m in report.methods],
        "experts_apart": {} if report.experts is None else report.experts.outliers,
        "labels": None
        if evaluation is None
        else {
            "metric": evaluation.main,
            "baseline": evaluation.baseline,
            "rows": [{"name": row.name, "mean": row.cells[evaluation.main].mean} for row in evaluation.rows],
        },
        "left_out": report.left_out,
    }
