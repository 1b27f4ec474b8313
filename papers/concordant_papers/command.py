"""`concordant reproduce`: recompute the published tables and figures and compare."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from concordant.cli import Debug, Json, Quiet, Session, Table

if TYPE_CHECKING:
    from concordant_papers.engine import Outcome, Setting, Study

__all__ = ["command"]


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Which studies; all for every one. Without a name they are listed."),
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="DIR", help="The folder that holds the data sets, each in its own.")
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="Where tables, pictures and finished cells go.")
    ] = "reproduced",
    quick: Annotated[
        bool, typer.Option("--quick", help="The same shape in about a minute, on synthetic data; no data is needed.")
    ] = False,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, help="How many seeds methods with chance are averaged over.")
    ] = 5,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", min=1, help="Processes; as many as cores by default.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute again what is already finished.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Regenerate the published tables and figures, ours beside theirs."""
    params = {"names": names or [], "data": data, "quick": quick, "seeds": seeds}
    with Session("reproduce", params, quiet=quiet, as_json=as_json, debug=debug) as session:
        from concordant.errors import DataError
        from concordant_papers.engine import Setting
        from concordant_papers.registry import chosen, studies

        if not names:
            _list(session, studies())
            return
        folder = None if data is None else Path(data)
        if folder is not None and not folder.is_dir():
            raise DataError(f"no folder {data!r} to read data from.")
        if data is None and not quick:
            raise DataError("say where the data sets are with --data DIR, or pass --quick to use synthetic ones.")
        setting = Setting(folder, quick, min(seeds, 2) if quick else seeds)
        _reproduce(session, chosen(names), setting, Path(output), jobs, fresh)


def _list(session: Session, known: list[Study]) -> None:
    session.results = [{"name": s.name, "paper": s.paper, "title": s.title, "needs": list(s.needs)} for s in known]
    rows = [[s.name, s.title, ", ".join(s.needs)] for s in known]
    session.show(Table(["name", "what it shows", "data"], rows, left=frozenset({0, 1, 2})))
    session.say()
    session.say("concordant reproduce NAME --data DIR, or all for every one; --quick needs no data.")


def _reproduce(
    session: Session, wanted: list[Study], setting: Setting, output: Path, jobs: int | None, fresh: bool
) -> None:
    from concordant_papers.engine import compute, source
    from concordant_papers.pages import COUNTS, QUICK, counts_of, write_index, write_page

    skipped = {s.name: why for s in wanted if (why := _absent(s, setting))}
    able = [s for s in wanted if s.name not in skipped]
    cells = output / "cells"
    cells.mkdir(parents=True, exist_ok=True)
    jobs = None if jobs is None else session.at_most_cores(jobs, "--jobs")
    with session.progress("computing", 1):
        found = compute(able, setting, cells, jobs=jobs, fresh=fresh)
    if found.resumed:
        session.note(f"{found.resumed} cells were finished before.")
    summaries = []
    for study in able:
        page = study.page(setting, found.values[study.name])
        seconds = sum(found.seconds[study.name].values())
        summaries.append(
            write_page(
                output,
                study.name,
                study.title,
                study.paper,
                page,
                seconds=seconds,
                failed=found.failed[study.name],
                quick=setting.quick,
            )
        )
    about = (
        QUICK
        if setting.quick
        else f"Methods with chance are means over {setting.seeds} seeds. A cell counts as not below where ours is at "
        "least the published value less the tolerance of its row, and as within on both sides where it is not above "
        "it by more than the tolerance either; it counts once for each table that shows it and each of our rows "
        "that is compared with it. A film counts once, not once for each of its three counts. Settings are chosen on "
        "validation parts, except where a page says of a row that they were seen: chosen with the published row or "
        "results on test parts in view. All rows of the rank-aggregation sets also use LETOR's conventions, which the "
        f"published row of RRF settled. Made on {datetime.now(UTC).date()} by source {source()}."
    )
    write_index(output, summaries, skipped, about)
    session.results = {
        "studies": {
            s.name: {**{name: getattr(s, name) for name in COUNTS.values()}, "claims": s.claims,
                     "holding": s.holding, "seconds": s.seconds, "failed": dict(s.failed)}
            for s in summaries
        },
        "skipped": skipped,
        "output": str(output),
    }  # fmt: skip
    # Synthetic data has no published cells to compare with.
    columns = ["study", *([] if setting.quick else COUNTS), "claims", "hold"]
    rows = [
        [s.name, *([] if setting.quick else map(str, counts_of(s))), str(s.claims), str(s.holding)] for s in summaries
    ]
    session.show(Table(columns, rows))
    if setting.quick:
        session.say()
        session.say(QUICK)
    for name, why in skipped.items():
        session.say(f"{name}: not computable, {why}")
    _complain(session, found)
    session.say()
    session.say(f"{output / 'index.md'} and index.html lead to all tables and pictures.")


def _absent(study: Study, setting: Setting) -> str:
    """Return why a study cannot be computed; empty if it can."""
    if setting.quick:
        return ""
    missing = [name for name in study.needs if setting.folder(name) is None]
    return f"{', '.join(missing)} is not in {setting.data}" if missing else ""


def _complain(session: Session, found: Outcome) -> None:
    for name, cells in found.failed.items():
        for key, text in cells.items():
            session.complain(f"{name}, {key}: {text}")
            session.code = 1
