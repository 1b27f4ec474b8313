"""Build site/ from README.md, CHANGELOG.md and docs/: plain HTML pages that open without a server.

Rich, which the command line needs anyway, brings a Markdown parser and a highlighter; a site generator would
be a dozen packages more. Every relative link is checked on the way, anchors included, and a broken one stops
the build.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SITE = ROOT / "site"

STYLE = """
:root { color-scheme: light dark; --line: #8884; --code: #8881; }
body { display: grid; grid-template-columns: 15rem minmax(0, 52rem); gap: 3rem; margin: 0 auto;
       max-width: 74rem; padding: 1.5rem; font: 1rem/1.6 system-ui, sans-serif; }
nav { font-size: .9rem; border-right: 1px solid var(--line); padding-right: 1rem; }
nav ul { list-style: none; margin: 0 0 1rem; padding: 0; }
nav b { display: block; text-transform: capitalize; }
nav a { text-decoration: none; }
nav a[aria-current] { font-weight: 600; }
pre { overflow-x: auto; padding: .8rem 1rem; background: var(--code); border-radius: .4rem; }
code { font: .9em ui-monospace, monospace; }
:not(pre) > code { background: var(--code); border-radius: .2rem; padding: .1em .3em; }
table { display: block; overflow-x: auto; border-collapse: collapse; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem .3rem 0; text-align: left;
         vertical-align: top; }
img { max-width: 100%; height: auto; }
@media (max-width: 50rem) { body { display: block; } nav { border: 0; } }
"""


@dataclass
class Page:
    """One source file, the place of its page in the site, and what parsing found."""

    source: Path
    target: PurePosixPath
    tokens: list[Token] = field(default_factory=list)
    title: str = ""
    anchors: set[str] = field(default_factory=set)


def render_code(code: str, language: str, _attributes: str) -> str:
    """Return highlighted HTML, or the escaped text where the language is unknown."""
    try:
        lexer = get_lexer_by_name(language or "text")
    except ClassNotFound:
        return html.escape(code)
    marked: str = highlight(code, lexer, HtmlFormatter(nowrap=True))
    return marked


MARKDOWN = MarkdownIt("commonmark", {"highlight": render_code}).enable(["table", "strikethrough"])


def find_pages() -> list[Page]:
    """Return the pages in the order of the navigation: the entry page first, then folder by folder."""
    sources = sorted(DOCS.rglob("*.md"), key=lambda path: (len(path.relative_to(DOCS).parts) > 1, path))
    pages = [Page(path, PurePosixPath(path.relative_to(DOCS).with_suffix(".html"))) for path in sources]
    pages.sort(key=lambda page: page.target != PurePosixPath("index.html"))
    own_index = DOCS / "index.md" in sources
    entry = PurePosixPath("readme.html" if own_index else "index.html")
    if (ROOT / "README.md").exists():
        pages.insert(own_index, Page(ROOT / "README.md", entry))
    if (ROOT / "CHANGELOG.md").exists():
        pages.append(Page(ROOT / "CHANGELOG.md", PurePosixPath("changelog.html")))
    return pages


def parse(page: Page) -> None:
    """Fill in the tokens, the title and the anchors, spelled as GitHub does so that links work in both."""
    page.tokens = MARKDOWN.parse(page.source.read_text(encoding="utf-8"))
    page.title = page.source.stem
    titled = False
    for opening, inline in zip(page.tokens, page.tokens[1:], strict=False):
        if opening.type != "heading_open":
            continue
        text = "".join(child.content for child in inline.children or [])
        base = anchor = re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")
        count = 0
        while anchor in page.anchors:
            count += 1
            anchor = f"{base}-{count}"
        page.anchors.add(anchor)
        opening.attrSet("id", anchor)
        if not titled:
            page.title, titled = text, True


def relink(page: Page, pages: dict[Path, Page]) -> list[str]:
    """Point the links of a page to pages and copied files of the site; return the broken ones."""
    broken = []
    for token in page.tokens:
        for child in token.children or []:
            name = {"link_open": "href", "image": "src"}.get(child.type)
            if name is None:
                continue
            address = str(child.attrGet(name))
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            path = (page.source.parent / unquote(parts.path)).resolve() if parts.path else page.source
            if path.is_dir() and path / "index.md" in pages:
                path /= "index.md"
            linked = pages.get(path)
            if linked is None and not (path.is_file() and path.is_relative_to(ROOT)):
                broken.append(f"{address}: there is no such file")
                continue
            if linked is None:
                inside = path.is_relative_to(DOCS)
                target = path.relative_to(DOCS) if inside else Path("files", path.relative_to(ROOT))
                (SITE / target).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, SITE / target)
            else:
                target = Path(linked.target)
                if parts.fragment and unquote(parts.fragment) not in linked.anchors:
                    broken.append(f"{address}: there is no such heading")
            relative = Path(os.path.relpath(target, Path(page.target).parent)).as_posix()
            child.attrSet(name, relative + (f"#{parts.fragment}" if parts.fragment else ""))
    return broken


def navigation(page: Page, pages: list[Page]) -> str:
    """Return the list of pages, grouped by folder, with links relative to this page."""
    out, folder = ["<ul>"], PurePosixPath(".")
    for other in pages:
        if other.target.parent != folder:
            folder = other.target.parent
            heading = f"<b>{html.escape(str(folder).replace('-', ' '))}</b>" if folder.name else ""
            out.append(f"</ul>{heading}<ul>")
        link = Path(os.path.relpath(other.target, page.target.parent)).as_posix()
        current = ' aria-current="page"' if other is page else ""
        out.append(f'<li><a href="{link}"{current}>{html.escape(other.title)}</a></li>')
    return "".join([*out, "</ul>"])


def main() -> int:
    """Write the site; return 1 when a link is broken."""
    pages = find_pages()
    by_source = {page.source.resolve(): page for page in pages}
    for page in pages:
        parse(page)
    shutil.rmtree(SITE, ignore_errors=True)
    SITE.mkdir()
    light, dark = HtmlFormatter(style="default"), HtmlFormatter(style="github-dark")
    colours = light.get_token_style_defs("pre")
    night = dark.get_token_style_defs("pre")
    style = "\n".join([STYLE, *colours, "@media (prefers-color-scheme: dark) {", *night, "}"])
    (SITE / "style.css").write_text(style, encoding="utf-8")

    broken = []
    for page in pages:
        broken += [f"{page.source.relative_to(ROOT)}: {problem}" for problem in relink(page, by_source)]
        body = MARKDOWN.renderer.render(page.tokens, MARKDOWN.options, {})
        sheet = Path(os.path.relpath("style.css", page.target.parent)).as_posix()
        out = SITE / page.target
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(
            '<!doctype html><html lang="en"><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<title>{html.escape(page.title)}</title><link rel="stylesheet" href="{sheet}">'
            f"<nav>{navigation(page, pages)}</nav><main>{body}</main></html>\n",
            encoding="utf-8",
        )
    print(f"site/index.html: {len(pages)} pages")
    for problem in broken:
        print(problem, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
