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
:root { color-scheme: light dark; --line: #8884; --code: #8881; --quiet: #777; --link: #0b57b5; }
@media (prefers-color-scheme: dark) { :root { --quiet: #999; --link: #7fb4ff; } }
body { display: grid; grid-template-columns: 13rem minmax(0, 58rem); gap: 3rem; margin: 0 auto;
       max-width: 78rem; padding: 1.5rem; font: 1rem/1.55 system-ui, "DejaVu Sans", sans-serif; }
a { color: var(--link); }
nav { font-size: .9rem; line-height: 1.5; border-right: 1px solid var(--line); padding-right: 1rem;
      position: sticky; top: 0; align-self: start; max-height: 100vh; overflow-y: auto; }
nav ul { list-style: none; margin: 0 0 1rem; padding: 0; }
nav ul ul { margin: 0; padding-left: .9rem; font-size: .96em; }
nav ul.here { margin: .2rem 0 .5rem .2rem; padding-left: .7rem; border-left: 2px solid var(--line); }
nav a { color: inherit; text-decoration: none; }
nav a:hover { text-decoration: underline; }
nav a[aria-current] { font-weight: 600; }
h1 { line-height: 1.2; margin-top: 0; }
h2 { margin-top: 2.2rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; }
pre { overflow-x: auto; padding: .7rem 1rem; background: var(--code); border-radius: .4rem;
      line-height: 1.4; font-size: .88rem; }
code { font: .88em ui-monospace, "DejaVu Sans Mono", monospace; }
:not(pre) > code { background: var(--code); border-radius: .2rem; padding: .1em .3em; }
td > code { white-space: nowrap; }
blockquote { margin: 1rem 0; padding: .1rem 1rem; border-left: 3px solid var(--line); }
blockquote p { margin: .3rem 0; }
td:first-child > a:only-child { white-space: nowrap; }
table { display: block; margin: 1rem 0; overflow-x: auto; border-collapse: collapse;
        font-size: .93rem; line-height: 1.4; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem 1rem .35rem 0; text-align: left;
         vertical-align: top; }
img { max-width: 100%; height: auto; }
@media (max-width: 55rem) { body { display: block; } nav { border: 0; position: static; max-height: none; } }
@media print { nav { display: none; } body { display: block; } }
"""


@dataclass
class Page:
    """One source file, the place of its page in the site, and what parsing found.

    `anchors` maps each heading's anchor to its text, `label` is how the navigation calls the page.
    """

    source: Path
    target: PurePosixPath
    tokens: list[Token] = field(default_factory=list)
    title: str = ""
    anchors: dict[str, str] = field(default_factory=dict)
    label: str = ""


def render_code(code: str, language: str, _attributes: str) -> str:
    """Return highlighted HTML, or the escaped text where the language is unknown."""
    if language == "python" and code.startswith(">>> "):
        language = "pycon"
    try:
        lexer = get_lexer_by_name(language or "text")
    except ClassNotFound:
        return html.escape(code)
    marked: str = highlight(code, lexer, HtmlFormatter(nowrap=True))
    return marked


MARKDOWN = MarkdownIt("commonmark", {"highlight": render_code}).enable(["table", "strikethrough"])


def find_pages() -> list[Page]:
    """Return the pages in the order of the navigation.

    Pages follow the order in which the entry page lists them at its end; those of a folder follow the page of that
    name, in the order in which it links them.
    """
    entry = DOCS / "index.md"

    def place(path: Path) -> tuple[int, int]:
        above = path.parent.with_suffix(".md") if path.parent != DOCS else path
        own = _links(above).index(path) if above != path and path in _links(above) else -1
        listed = _links(entry)[::-1]
        return -listed.index(above) if above in listed else 1, own

    sources = sorted(DOCS.rglob("*.md"))
    sources.sort(key=lambda path: (path != entry, place(path)))
    pages = [Page(path, PurePosixPath(path.relative_to(DOCS).with_suffix(".html"))) for path in sources]
    for page in pages[:1]:
        page.label = "overview" if page.source == entry else ""
    home = PurePosixPath("readme.html" if entry in sources else "index.html")
    # Both are written for the root of the repository and called there by their names.
    extra = [(ROOT / "README.md", home), (ROOT / "CHANGELOG.md", PurePosixPath("changelog.html"))]
    return pages + [Page(path, target, label=path.stem) for path, target in extra if path.exists()]


def _links(page: Path) -> list[Path]:
    """Return the pages that a page links, in order of appearance."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return [(page.parent / found).resolve() for found in re.findall(r"\]\(([^)#\s]+\.md)", text)]


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
        page.anchors[anchor] = text if opening.tag == "h2" else ""
        opening.attrSet("id", anchor)
        if not titled:
            page.title, titled = text, True
    page.label = page.label.capitalize() or page.title


def link_paths(page: Page) -> list[str]:
    """Return the paths of the relative links of a parsed page."""
    children = [child for token in page.tokens for child in token.children or [] if child.type == "link_open"]
    parts = [urlsplit(str(child.attrGet("href"))) for child in children]
    return [unquote(p.path) for p in parts if p.path and not p.scheme and not p.netloc]


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
    """Return the list of pages, those of a folder below the page of its name, and the headings of this page."""
    out, depth = ["<ul>"], 1
    for other in pages:
        level = len(other.target.parts)
        out.append("<ul>" * (level - depth) + "</ul>" * (depth - level))
        depth = level
        link = Path(os.path.relpath(other.target, page.target.parent)).as_posix()
        current = ' aria-current="page"' if other is page else ""
        out.append(f'<li><a href="{link}"{current}>{html.escape(other.label)}</a></li>')
        if other is page:
            heads = [f'<li><a href="#{a}">{html.escape(text)}</a></li>' for a, text in page.anchors.items() if text]
            out.append(f'<ul class="here">{"".join(heads)}</ul>' if heads else "")
    return "".join([*out, "</ul>" * depth])


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
    # What a program printed is there to be read, not to be greyed out.
    plain = "pre .go { color: inherit; }"
    style = "\n".join([STYLE, *colours, "@media (prefers-color-scheme: dark) {", *night, "}", plain])
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
