"""The site that `make docs` builds: complete, without a warning, and nothing of it comes from the network."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from sphinx.util.inventory import InventoryFile
from tests.report import browser

import concordant as cc
from concordant.base.registry import METHODS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
MODULES = ("metrics", "execution", "selection", "plots", "partitions", "synthetic", "errors")


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-n", "-q", "-E"]
    command += ["-d", str(target.with_name(f"{target.name}-doctrees")), str(source), str(target)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Build the site once, however many processes run the tests."""
    if not (DOCS / "results.md").exists():
        pytest.skip("docs/results.md is not there yet; `make evidence` writes it")
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "site"
    said = folder.with_name("site-said.txt")
    try:
        folder.mkdir()
    except FileExistsError:
        deadline = time.monotonic() + 300
        while not said.exists():
            assert time.monotonic() < deadline, "the process that builds the site does not finish"
            time.sleep(0.2)
    else:
        done = build(DOCS, folder)
        problems = done.stdout + done.stderr if done.returncode else ""
        part = said.with_suffix(".part")
        part.write_text(problems, encoding="utf-8")
        part.rename(said)
    problems = said.read_text(encoding="utf-8")
    assert not problems, problems
    return folder


def html_pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


class Loads(HTMLParser):
    """Collects the addresses that a page loads by itself; what a reader may press on is not among them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {"href"} if tag == "link" else set() if tag == "a" else {"src", "srcset", "data", "poster", "href"}
        self.found += [value for name, value in attrs if name in names and value]
        self.found += [value for name, value in attrs if name == "style" and value and "url(" in value]


def loads(text: str) -> list[str]:
    parser = Loads()
    parser.feed(text)
    return parser.found


FOREIGN = re.compile(r"^(?:[a-z]+:)?//", re.IGNORECASE)


def test_what_a_page_loads_is_found() -> None:
    text = '<script src="https://x/a.js"></script><a href="https://x/">x</a><img src="//x/b.png"><link href="c.css">'
    assert loads(text) == ["https://x/a.js", "//x/b.png", "c.css"]
    assert [bool(FOREIGN.match(address)) for address in loads(text)] == [True, True, False]


def test_nothing_is_loaded_from_the_network(site: Path) -> None:
    pages = html_pages(site)
    assert len(pages) > 40
    for page in pages:
        for address in loads(page.read_text(encoding="utf-8")):
            assert not FOREIGN.match(address), f"{page.relative_to(site)} loads {address}"
            if not address.startswith(("data:", "#")):
                target = (page.parent / address.split("?")[0].split("#")[0]).resolve()
                assert target.exists(), f"{page.relative_to(site)} loads {address}, which is not there"
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        foreign = [
            a
            for a in re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", text)
            if FOREIGN.match(a[0] or a[1])
        ]
        assert not foreign, f"{sheet.name} loads {foreign}"
    assert not list(site.rglob("*mathjax*"))


def test_every_link_to_a_page_or_file_of_the_site_leads_there(site: Path) -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in html_pages(site)}
    ids = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in texts.items()}
    for page, text in texts.items():
        for address in re.findall(r'<a\b[^>]*\bhref="([^"]+)"', text):
            if re.match(r"[a-z]+:", address):
                continue
            path, _, anchor = address.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page.relative_to(site)}: {address}"
            if anchor and target in ids:
                assert anchor in ids[target], f"{page.relative_to(site)}: {address}"


def test_a_broken_link_an_unknown_anchor_or_a_forgotten_page_stops_the_build(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    settings = (
        (DOCS / "conf.py")
        .read_text(encoding="utf-8")
        .replace("Path(__file__).resolve().parent.parent", f"Path({str(ROOT)!r})")
    )
    (source / "conf.py").write_text(
        settings.replace('["_static"]', "[]", 1).replace('"site.css"', ""), encoding="utf-8"
    )
    (source / "forgotten.md").write_text("# Forgotten\n", encoding="utf-8")
    (source / "index.md").write_text("# Here\n\n[a](nowhere.md) [b](#no-such-heading) [c](#here)\n", encoding="utf-8")
    done = build(source, tmp_path / "site")
    assert done.returncode == 1
    for wrong in ("nowhere.md", "no-such-heading", "forgotten.md"):
        assert wrong in done.stderr
    assert "'here'" not in done.stderr


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    known = {name for kind, names in inventory.data.items() if kind.startswith("py:") for name in names}
    names = [name for name in cc.__all__ if name not in MODULES and name != "__version__"]
    missing = [name for name in names if f"concordant.{name}" not in known]
    for module in MODULES:
        found = getattr(cc, module) if module in cc.__all__ else importlib.import_module(f"concordant.{module}")
        own = [name for name in found.__all__ if name not in cc.__all__]
        missing += [f"{module}.{name}" for name in own if f"concordant.{module}.{name}" not in known]
    assert not missing


@pytest.mark.parametrize("name", [n for n in METHODS if METHODS[n].__module__.startswith("concordant.")])
def test_every_method_is_on_the_page_of_its_family_and_that_page_in_the_navigation(site: Path, name: str) -> None:
    family = METHODS[name].__module__.rpartition(".")[2]
    assert f'id="{name}"' in (site / "methods" / f"{family}.html").read_text(encoding="utf-8")
    home = (site / "index.html").read_text(encoding="utf-8")
    sidebar = home.partition('class="sidebar-tree"')[2].partition("</div>")[0]
    assert f'href="methods/{family}.html"' in sidebar


def test_pages_open_from_disk_and_fit_a_phone_and_a_screen(site: Path, chromium: browser.Browser) -> None:
    page = chromium.page()
    for path in html_pages(site):
        for width in (390, 1280):
            page.open(path, width=width, height=900)
            found = page.run("document.documentElement.scrollWidth")
            assert found <= width, f"{path.relative_to(site)} is {found} wide on a screen of {width}"
    assert not page.complaints
    assert page.requests
    assert not [address for address in page.requests if not address.startswith(("file:", "data:"))]


def test_the_search_works_from_disk(site: Path, chromium: browser.Browser) -> None:
    page = chromium.page()
    page.open(site / "search.html")
    page.call("Page.navigate", url=(site / "search.html").as_uri() + "?q=kemeny")
    deadline, found = time.monotonic() + 30, []
    # Results appear one after another.
    while not any(address.startswith("methods/kemeny.html") for address in found) and time.monotonic() < deadline:
        found = page.run("[...document.querySelectorAll('#search-results li a')].map((a) => a.getAttribute('href'))")
        time.sleep(0.1)
    assert any(address.startswith("methods/kemeny.html") for address in found), found
    assert not page.complaints
