"""Pages of studies in a real browser: nothing leaves the screen, pictures are there, links lead somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.report import browser
from tests.report.test_browser import CONTRAST

from concordant_papers.pages import Claim, Page, Picture, Row, Table, write_index, write_page

COLUMNS = [f"N@{k}" for k in range(1, 11)] + ["MAP"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    out = tmp_path_factory.mktemp("studies")
    row = Row(
        "CRF, transform and rate chosen by NDCG@10",
        dict.fromkeys(COLUMNS, 69.1666),
        dict.fromkeys(COLUMNS, 70.25),
        0.5,
        errors=dict.fromkeys(COLUMNS, 0.831),
        marks=dict.fromkeys(COLUMNS, "*"),
        why="a long reason, which names a_file_with_a_name_that_cannot_be_broken_anywhere_at_all_and_goes_on.csv",
    )
    claims = [Claim("MPM above Plackett-Luce from N@2 on", False, "differences from -0.55 to +0.42; above in 1 of 9")]
    page = Page(
        [Table("wide", "A wide table", COLUMNS, [row, Row("gone", {}, dict.fromkeys(COLUMNS, 1.0))])],
        claims,
        [Picture("line", "A line", lambda ax: ax.plot([1, 2]))],
        ["The end."],
    )
    found = write_page(out, "study", "MRPR and |θ| side by side", "Somebody", page, seconds=3, failed={}, quick=True)
    write_index(out, [found, found._replace(failed={"a": "b"})], {"other": "no data"}, "About.")
    return out


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["study", "index"])
def test_pages_are_in_shape(chromium: browser.Browser, folder: Path, name: str, width: int, dark: bool) -> None:
    page = chromium.page()
    page.open(folder / f"{name}.html", width=width, dark=dark)
    assert page.complaints == []
    assert page.run("document.documentElement.scrollWidth") <= width
    assert all(url.startswith(folder.as_uri()) for url in page.requests)
    assert page.run("[...document.images].every(i => i.complete && i.naturalWidth > 0 && i.alt)")
    links = page.run("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    assert links
    assert all((folder / link).exists() for link in links)
    assert not [link for link in links if link.endswith(".md")]
    ratio, where = page.run(CONTRAST)
    assert ratio >= 4.5, where
    if width == 1280:
        # Wide tables are whole on a screen: errors go to a line of their own, not out of sight.
        tables = "[...document.querySelectorAll('table')]"
        assert page.run(f"{tables}.every(t => t.scrollWidth <= t.clientWidth + 1)")


def test_numbers_stand_right_and_words_left(chromium: browser.Browser, folder: Path) -> None:
    page = chromium.page()
    page.open(folder / "study.html")
    align = "[...document.querySelectorAll('table')].map(t => getComputedStyle(t.rows[1].cells[2]).textAlign)"
    assert page.run(align) == ["right", "left"]
