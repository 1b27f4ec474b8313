"""What the tests of all studies need: everything run once in small, and the rows of a table by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from concordant_papers.engine import Outcome, Setting, Study, compute
from concordant_papers.pages import Page, Row, write_page

Ran = tuple[Outcome, dict[str, Page]]


def run_small(studies: Sequence[Study], setting: Setting, store: Path) -> Ran:
    """Return what the cells came to, and the pages made of them."""
    found = compute(studies, setting, store, jobs=1)
    return found, {s.name: s.page(setting, found.values[s.name]) for s in studies}


def rows_of(page: Page, table: str) -> dict[str, Row]:
    return {row.name: row for t in page.tables if t.name == table for row in t.rows}


def check_pages(studies: Sequence[Study], ran: Ran, folder: Path) -> None:
    """Assert that no cell failed, and that every page is written with a real picture for each of its figures."""
    found, pages = ran
    assert not any(found.failed.values()), found.failed
    for study in studies:
        page = pages[study.name]
        write_page(folder, study.name, study.title, study.paper, page, seconds=1.0, failed={})
        assert (folder / f"{study.name}.md").stat().st_size > 200
        for picture in page.pictures:
            assert (folder / f"{picture.name}.svg").stat().st_size > 2000
