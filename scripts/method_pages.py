"""Write docs/methods/*.md, and the tables of methods, checks, metrics and formats on the other pages of docs.

All text comes from the registries and the docstrings of the classes. There is one page per family (per file of
`concordant.aggregators`), with every method under its name, its tags, parameters and example. `--check` writes nothing
and fails if a committed page differs; the tests call it.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import textwrap
from collections import Counter
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from concordant.base.checks import CHECKS  # noqa: E402 - the path must be set first
from concordant.base.contract import Aggregator  # noqa: E402
from concordant.base.registry import METHODS  # noqa: E402
from concordant.io.formats import FORMATS  # noqa: E402
from concordant.metrics.ranking import METRICS  # noqa: E402

DOCS = ROOT / "docs"
OVERVIEW = DOCS / "methods.md"
CONTRACT = DOCS / "own-method.md"
METRIC_PAGE = DOCS / "metrics.md"
FORMAT_PAGE = DOCS / "formats.md"
# A family that shares at least this many parameters describes them once.
SHARED = 10
TAGS = ("supervised", "per_instance", "weights", "ties", "uncertainty", "stochastic", "faithful", "row_order")
KINDS = {"rank": "ranks", "score": "scores", "rating": "ratings", "comparisons": "comparisons"}


def families() -> dict[str, list[type[Aggregator]]]:
    """Return the registered methods of this package by family, in the order in which their files define them."""
    out: dict[str, list[type[Aggregator]]] = {}
    for name in METHODS:
        cls = METHODS[name]
        package, _, family = cls.__module__.rpartition(".")
        # Anybody may register a method; only our own have a page here.
        if package in ("concordant.aggregators", "concordant.ranking"):
            out.setdefault(family, []).append(cls)
    order = {name: n for n, name in enumerate(("positional", "fusion", "majority", "kemeny", "condorcet", "elections"))}
    for members in out.values():
        members.sort(key=lambda cls: inspect.getsourcelines(cls)[1])
    return dict(sorted(out.items(), key=lambda pair: (order.get(pair[0], 9), pair[0])))


def sections(docstring: str) -> dict[str, str]:
    """Return the parts of a numpydoc text by heading; the text before the first heading is ''."""
    lines = inspect.cleandoc(docstring).split("\n")
    heads = [i for i, line in enumerate(lines[1:]) if re.fullmatch(r"-{3,}", line) and lines[i].strip()]
    edges = [*heads, len(lines)]
    out = {"": "\n".join(lines[: edges[0]]).strip()}
    for a, b in zip(heads, edges[1:], strict=True):
        out[lines[a].strip()] = "\n".join(lines[a + 2 : b]).strip("\n")
    return out


class Described(NamedTuple):
    """A parameter in a docstring: its type, its meaning, and further paragraphs that do not fit into a table."""

    kind: str
    meaning: str
    more: str


def parameters(text: str) -> dict[str, Described]:
    """Return the entries of a Parameters section by name."""
    out = {}
    for block in filter(None, re.split(r"\n(?=\S)", text.strip())):
        head, _, body = block.partition("\n")
        names, _, kind = head.partition(" : ")
        meaning, _, more = textwrap.dedent(body).strip().partition("\n\n")
        for name in names.split(","):
            out[name.strip()] = Described(kind.strip(), meaning, more)
    return out


def prose(text: str) -> str:
    """Return docstring prose as Markdown: double backticks become single, stars and angle brackets stay themselves."""
    out = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        if paragraph.startswith("    "):
            out.append("```text\n" + textwrap.dedent(paragraph) + "\n```")
            continue
        pieces = re.split(r"(``.+?``|`[^`\n]+`)", re.sub("::$", ":", paragraph))
        for i, piece in enumerate(pieces):
            if i % 2:
                pieces[i] = "`" + piece.strip("`") + "`"
            else:
                # One word between stars is emphasised.
                piece = re.sub(r"(?<![\w*])\*(\w+)\*(?![\w*])", "\0\\1\0", piece)
                piece = re.sub(r"(?<!\n)([*<])(?!\s)", r"\\\1", piece).replace("\0", "*")
                pieces[i] = re.sub(r"__\w+?__", r"`\g<0>`", piece)
        out.append("".join(pieces))
    return "\n\n".join(out)


def cell(text: str) -> str:
    """Return text for one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def takes(cls: type[Aggregator]) -> str:
    """Return the kinds of data that a method takes, in words."""
    kinds = [plural for kind, plural in KINDS.items() if kind in cls.tags.accepts]
    kinds = ["lists", *kinds[3:]] if set(KINDS) - {"comparisons"} <= cls.tags.accepts else kinds
    return ", ".join(["features"] * cls.takes_features + kinds)


def tags_table(cls: type[Aggregator]) -> str:
    """Return a table of two rows: what the method takes, its tags and its cost."""
    held = ", ".join(name.replace("_", " ") for name in TAGS if getattr(cls.tags, name))
    head = "| takes | [tags](../methods.md#tags) | cost |\n|---|---|---|"
    return f"{head}\n| {takes(cls)} | {held} | {cell(cls.tags.cost)} |"


def parameter_rows(cls: type[Aggregator], described: dict[str, Described]) -> dict[str, str]:
    """Return a row for each parameter: default, allowed values and meaning."""
    signature = inspect.signature(cls.__init__).parameters
    rows = {}
    for name in cls.param_names():
        if name not in described:
            raise SystemExit(f"{cls.__name__}: the docstring does not describe the parameter {name!r}")
        kind, meaning, _ = described[name]
        allowed = cls.constraints[name].allowed if name in cls.constraints else kind
        rows[name] = f"| `{name}` | `{signature[name].default!r}` | {cell(prose(allowed))} | {cell(prose(meaning))} |"
    unknown = set(described) - set(cls.param_names())
    if unknown:
        raise SystemExit(f"{cls.__name__}: the docstring describes {sorted(unknown)}, which are no parameters")
    return rows


def parameters_table(rows: list[str], described: dict[str, Described]) -> str:
    """Return rows as a table, followed by the paragraphs that do not fit into it."""
    lines = ["| parameter | default | allowed | meaning |", "|---|---|---|---|", *rows]
    longer = [f"`{name}`:\n\n{prose(d.more)}" for name, d in described.items() if d.more]
    return "\n\n".join(["\n".join(lines), *longer])


def attribute_texts(text: str) -> list[str]:
    """Return a paragraph for each entry of an Attributes section; names with equal descriptions share one."""
    together: dict[Described, list[str]] = {}
    for name, described in parameters(text).items():
        together.setdefault(described, []).append(f"`{name}`")
    return [
        " ".join(
            [f"After fitting, {', '.join(names)}{f' ({d.kind})' * bool(d.kind)}:", prose(d.meaning), prose(d.more)]
        ).strip()
        for d, names in together.items()
    ]


class Shared(NamedTuple):
    """The parameters and attributes that all methods of a family share."""

    parameters: dict[str, str]
    attributes: list[str]


def shared(members: list[type[Aggregator]]) -> Shared:
    """Return the parameters and attributes that a family can describe once."""
    every = [sections(cls.__doc__ or "") for cls in members]
    rows = [parameter_rows(c, parameters(s.get("Parameters", ""))) for c, s in zip(members, every, strict=True)]
    common = {}
    for name in rows[0] if len(members) > 2 else ():
        # A single method that differs describes the parameter itself.
        row, n = Counter(other.get(name, "") for other in rows).most_common(1)[0]
        if row and n >= len(members) - 1:
            common[name] = row
    if len(common) < SHARED:
        return Shared({}, [])
    texts = [attribute_texts(s.get("Attributes", "")) for s in every]
    return Shared(common, [text for text in texts[0] if all(text in other for other in texts)])


def example(text: str) -> str:
    """Return the Examples section as a fenced session, which the tests run."""
    return f"```python\n{textwrap.dedent(text).strip()}\n```"


def method_text(cls: type[Aggregator], common: Shared) -> str:
    """Return the section of one method."""
    parts = sections(cls.__doc__ or "")
    if "Examples" not in parts:
        raise SystemExit(f"{cls.__name__}: the docstring has no section Examples")
    if re.search(r"\w -{4,}", cls.__doc__ or ""):
        raise SystemExit(f"{cls.__name__}: a heading of the docstring has run into the text")
    summary, _, rest = parts.pop("").partition("\n\n")
    out = [f"## {cls.name}", f"`concordant.{cls.__name__}`. {prose(' '.join(summary.split()))}"]
    if rest:
        # The formula becomes a block of its own.
        rest = re.sub(r"(?:^|(?<=\.)\s)(score\(i\) = .+?\.)(?:\s|$)", _formula, rest, flags=re.DOTALL)
        out.append(prose(rest.strip("\n")))
    out.append(tags_table(cls))
    described = parameters(parts.pop("Parameters")) if "Parameters" in parts else {}
    rows = {n: row for n, row in parameter_rows(cls, described).items() if common.parameters.get(n) != row}
    if rows:
        out.append(parameters_table(list(rows.values()), {name: described[name] for name in rows}))
    if common.parameters:
        out.append(f"{'And' if rows else 'It has'} the [parameters they share](#what-they-share).")
    out += [text for text in attribute_texts(parts.get("Attributes", "")) if text not in common.attributes]
    for heading, title in (("Notes", ""), ("References", "**Reference.** ")):
        if heading in parts:
            out.append(title + prose(parts[heading]))
    out.append(example(parts["Examples"]))
    return "\n\n".join(out)


def _formula(found: re.Match[str]) -> str:
    return f"\n\n> {' '.join(found[1].split())}\n\n"


def family_page(family: str, members: list[type[Aggregator]]) -> str:
    """Return the page of a family: its idea, then its methods."""
    doc = inspect.cleandoc(import_module(members[0].__module__).__doc__ or family)
    first, _, rest = doc.partition("\n\n")
    title, colon, idea = " ".join(first.split()).partition(": ")
    if not colon or len(title) > 60:
        title, idea = family.replace("_", " ").capitalize(), " ".join(first.split())
    idea = idea[:1].upper() + idea[1:]
    out = [f"# {title}", prose(idea)]
    if rest:
        out.append(prose(rest))
    common = shared(members)
    names = [cls.name for cls in members] + ["what they share"] * bool(common.parameters)
    out.append("On this page: " + ", ".join(f"[{name}](#{name.replace(' ', '-')})" for name in names) + ".")
    out += [method_text(cls, common) for cls in members]
    if common.parameters:
        described = parameters(sections(members[0].__doc__ or "")["Parameters"])
        own = {name: described[name] for name in common.parameters}
        out += ["## What they share", parameters_table(list(common.parameters.values()), own), *common.attributes]
    treated = "[how ties, missing items and weights are treated](../data.md#how-data-are-treated)"
    out.append(f"[All methods](../methods.md) · {treated}")
    return "\n\n".join(out) + "\n"


def overview() -> str:
    """Return the table of all methods."""
    lines = ["| method | what it does | takes | cost |", "|---|---|---|---|"]
    for family, members in families().items():
        for cls in members:
            summary = sections(cls.__doc__ or "")[""].partition("\n\n")[0]
            link = f"[{cls.name}](methods/{family}.md#{cls.name})"
            lines.append(f"| {link} | {cell(prose(summary))} | {takes(cls)} | {cell(cls.tags.cost)} |")
    return "\n".join(lines)


def navigation() -> str:
    """Return the pages of the families for the navigation of the site."""
    return "\n".join(["```{toctree}", ":hidden:", "", *(f"methods/{family}" for family in families()), "```"])


def contract() -> str:
    """Return the table of contract checks."""
    lines = ["| check | when | what must hold |", "|---|---|---|"]
    lines += [f"| `{c.name}` | {cell(c.when)} | {cell(prose(c.demand))} |" for c in CHECKS.values()]
    return "\n".join(lines)


def metrics() -> str:
    """Return the table of the metrics of this package."""
    lines = ["| metric | also | parameters | what it measures |", "|---|---|---|---|"]
    for cls in sorted(set(METRICS.own().values()), key=lambda cls: cls.name):
        default = {f.name: f.default for f in fields(cls)}
        shown = ["`@k`"] * ("cutoff" in default)
        shown += [f"`{n}`" if v is None else f"`{n}={v}`" for n, v in default.items() if n != "cutoff"]
        also = ", ".join(f"`{alias}`" for alias in cls.aliases)
        lines.append(f"| `{cls.name}` | {also} | {', '.join(shown)} | {cell(prose(cls.summary))} |")
    return "\n".join(lines)


def formats() -> str:
    """Return the table of the file formats of this package."""
    lines = ["| format | what it holds | read | written | endings |", "|---|---|---|---|---|"]
    for name, entry in FORMATS.own().items():
        able = ["yes" if function is not None else "" for function in (entry.read, entry.write)]
        endings = ", ".join(f"`{ending}`" for ending in entry.extensions)
        lines.append(f"| `{name}` | {cell(prose(entry.about))} | {' | '.join(able)} | {endings} |")
    return "\n".join(lines)


def fill(page: str, name: str, content: str) -> str:
    """Return the text of a page with new content between the markers of this name."""
    begin, end = f"<!-- {name}: begin, written by scripts/method_pages.py -->", f"<!-- {name}: end -->"
    before, found, tail = page.partition(begin)
    _, closed, after = tail.partition(end)
    if not found or not closed:
        raise SystemExit(f"a marker is gone: {begin} or {end}")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def pages() -> dict[Path, str]:
    """Return the text of every page."""
    out = {DOCS / "methods" / f"{family}.md": family_page(family, members) for family, members in families().items()}
    text = fill(OVERVIEW.read_text(encoding="utf-8"), "overview", overview())
    out[OVERVIEW] = fill(text, "families", navigation())
    out[CONTRACT] = fill(CONTRACT.read_text(encoding="utf-8"), "checks", contract())
    out[METRIC_PAGE] = fill(METRIC_PAGE.read_text(encoding="utf-8"), "metrics", metrics())
    out[FORMAT_PAGE] = fill(FORMAT_PAGE.read_text(encoding="utf-8"), "formats", formats())
    return out


def main(arguments: list[str] | None = None) -> int:
    """Write the pages; with --check, print which are stale."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is stale")
    check = parser.parse_args(arguments).check
    wanted = pages()
    stale = [page for page, text in wanted.items() if not page.exists() or page.read_text(encoding="utf-8") != text]
    left_over = sorted(set((DOCS / "methods").glob("*.md")) - set(wanted))
    if not check:
        for page in stale:
            page.parent.mkdir(exist_ok=True)
            page.write_text(wanted[page], encoding="utf-8")
        for page in left_over:
            page.unlink()
    for page in stale + left_over:
        state = "written" if not check else "no method has this page" if page in left_over else "stale"
        print(f"{page.relative_to(ROOT)}: {state}")
    if check and stale + left_over:
        print("run: python scripts/method_pages.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
