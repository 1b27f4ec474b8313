"""The pages of the methods say what the code says: none is stale, and no method is without its place on one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts import method_pages

from concordant.base.registry import METHODS

Pages = dict[Path, str]
OURS = [name for name in METHODS if METHODS[name].__module__.startswith("concordant.")]


@pytest.fixture(scope="module")
def pages() -> Pages:
    return method_pages.pages()


def test_no_page_is_stale(pages: Pages) -> None:
    wrong = [p.name for p, text in pages.items() if not p.exists() or p.read_text(encoding="utf-8") != text]
    assert not wrong, f"{wrong} differ from the docstrings. Run: python scripts/method_pages.py"


def test_no_page_is_left_over(pages: Pages) -> None:
    assert set((method_pages.DOCS / "methods").glob("*.md")) <= set(pages)


@pytest.mark.parametrize("name", OURS)
def test_every_method_has_its_place_and_can_be_found_from_the_overview(name: str) -> None:
    overview = method_pages.OVERVIEW.read_text(encoding="utf-8")
    link = re.search(rf"\[{re.escape(name)}\]\((?P<page>[^)#]+)#{re.escape(name)}\)", overview)
    assert link is not None, f"docs/methods.md does not link {name}"
    page = (method_pages.OVERVIEW.parent / link["page"]).read_text(encoding="utf-8")
    text = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    cls = METHODS[name]
    assert f"concordant.{cls.__name__}" in text
    assert "```python\n>>> " in text
    shared = page.partition("\n## What they share\n")[2] if "#what-they-share" in text else ""
    for parameter in cls.param_names():
        assert f"| `{parameter}` |" in text + shared


def test_a_changed_docstring_makes_its_page_stale(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    cls = METHODS["rrf"]
    monkeypatch.setattr(cls, "__doc__", (cls.__doc__ or "").replace("Reciprocal rank fusion:", "Something else:"))
    changed = {page.name for page, text in method_pages.pages().items() if text != pages[page]}
    assert changed == {"methods.md", "fusion.md"}


def test_an_undescribed_parameter_stops_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = METHODS["rrf"]
    monkeypatch.setattr(cls, "__doc__", (cls.__doc__ or "").replace("k : float", "kk : float"))
    with pytest.raises(SystemExit, match="RRF: the docstring does not describe the parameter 'k'"):
        method_pages.pages()
