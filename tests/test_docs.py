"""What the pages show happens: Python blocks, sessions and examples run, options exist, no link and no page is lost."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scripts import console_sessions
from typer.testing import CliRunner

from concordant._registry import Registry
from concordant.base.registry import METHODS
from concordant.cli._group import build
from concordant.io.formats import FORMATS
from concordant.metrics.ranking import METRICS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# The package of the extra that a page is about.
NEEDED = {
    "langchain": "langchain_core",
    "llama-index": "llama_index.core",
    "haystack": "haystack",
    "pyterrier": "pyterrier",
}
FENCE = re.compile(r"^```(?P<language>[\w ]*)\n(?P<body>.*?)^```\s*$", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> Iterator[tuple[int, str]]:
    """Yield (line before the first line of the block, text of the block) in order of appearance."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        if found["language"] == language:
            yield text.count("\n", 0, found.start("body")), found["body"]


def run_block(code: str, page: Path, line: int, names: dict[str, Any]) -> None:
    """Run plain code as it stands, and a `>>>` session with its printed answers checked."""
    if not re.search(r"^>>> ", code, re.MULTILINE):
        # Blank lines in front make a traceback name the line of the page.
        exec(compile("\n" * line + code, str(page), "exec"), names)
        return
    session = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
    problems: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(session, out=problems.append, clear_globs=False)
    names.update(session.globs)
    assert not runner.failures, "".join(problems)


# PyTerrier calls pandas in ways that pandas will drop.
@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.parent.name == "integrations":
        pytest.importorskip(NEEDED[page.stem], reason=f"the extra {page.stem} is not installed")
    monkeypatch.chdir(tmp_path)
    # A page may define and register a class: it needs a module to be pickled from, and nobody after it may see it.
    module = ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    registries: tuple[Registry[Any], ...] = (METHODS, METRICS, FORMATS)
    for registry in registries:
        registry.load()
        monkeypatch.setattr(registry, "entries", dict(registry.entries))
    for line, code in blocks(page, "python"):
        run_block(code, page, line, module.__dict__)


def commands(page: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, words after `concordant`) of every `$ concordant ...` in the console blocks of a page."""
    for start, body in blocks(page, "console"):
        # A backslash at the end of a line continues the command; numbering stays that of the page.
        lines = body.split("\n")
        for offset, first in enumerate(lines):
            if not first.startswith("$ "):
                continue
            command, following = first[2:], offset + 1
            while command.endswith("\\") and following < len(lines):
                command, following = command[:-1] + lines[following].lstrip("> "), following + 1
            words = shlex.split(command, comments=True)
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words.pop(0)
            if words and words[0].endswith("concordant"):
                ends = [i for i, word in enumerate(words) if word in {"|", ">", "&&", ";"}]
                yield start + offset + 1, words[1 : min(ends, default=len(words))]


@cache
def help_of(command: str) -> str | None:
    """Return the help text of a command, or None when there is no such command."""
    done = CliRunner(env={"TERM": "dumb", "NO_COLOR": "1"}).invoke(build(), [command, "--help"])
    return done.output if done.exit_code == 0 else None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_console_commands_and_their_options_exist(page: Path) -> None:
    for line, words in commands(page):
        where = f"{page.name}:{line}: concordant {' '.join(words)}"
        if not words or words[0].startswith("-"):
            assert words in ([], ["--version"], ["--help"]), where
            continue
        text = help_of(words[0])
        assert text is not None, f"{where}: no such command"
        for option in (word.split("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)):
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text), f"{where}: no option {option}"


SESSION_PAGES = [page for page in PAGES if console_sessions.SESSION.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", SESSION_PAGES, ids=name_of)
def test_console_sessions_print_what_is_shown(page: Path) -> None:
    for _, steps in console_sessions.sessions(page):
        for step in steps:
            assert step.same, (
                f"{page.name}:{step.line}: $ {step.command}shows\n{step.shown}but prints\n{step.printed}"
                f"Run: python scripts/console_sessions.py --write {name_of(page)}"
            )


@pytest.mark.parametrize("script", EXAMPLES, ids=name_of)
def test_examples_run(script: Path, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-W", "error", script], capture_output=True, text=True, check=False, cwd=tmp_path, env=env
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "an example shows something"


LINK = re.compile(r"\]\((?P<path>[^)#\s]+)(?:#[^)\s]*)?\)")


def link_paths(page: Path) -> list[Path]:
    """Return where the relative links of a page lead to, code left aside."""
    text = re.sub(r"`[^`\n]+`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    return [(page.parent / found["path"]).resolve() for found in LINK.finditer(text) if ":" not in found["path"]]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_links_lead_somewhere_in_a_repository_browser(page: Path) -> None:
    # That they do so on the site, anchors included, is the business of tests/test_site.py.
    assert not [str(path) for path in link_paths(page) if not path.exists()]


def table_rows(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield (line, number of cells, cells of the header) of every row of the tables of a page."""
    lines = FENCE.sub(lambda found: "\n" * found[0].count("\n"), text).split("\n")
    header = 0
    for at, line in enumerate(lines):
        if not line.startswith("|"):
            header = 0
        elif header or (at + 1 < len(lines) and re.fullmatch(r"\|[-:| ]+\|", lines[at + 1])):
            cells = len(re.findall(r"(?<!\\)\|", line)) - 1
            header = header or cells
            yield at + 1, cells, header


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_rows_of_tables_have_as_many_cells_as_their_header(page: Path) -> None:
    assert [row for row in table_rows(page.read_text(encoding="utf-8")) if row[1] != row[2]] == []


def test_every_page_can_be_reached_from_the_entry_page() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "docs" / "index.md"]
    while todo:
        source = todo.pop()
        if source not in seen and source.suffix == ".md":
            seen.add(source)
            todo += link_paths(source)
    # These two only put the files of the root on the site.
    stand_ins = {ROOT / "docs" / "readme.md", ROOT / "docs" / "changelog.md"}
    assert not {*PAGES, ROOT / "CHANGELOG.md"} - seen - stand_ins
