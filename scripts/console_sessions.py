"""Run the console sessions of the docs on the bundled sample, and compare the output with the pages.

A session is a block fenced as ```console session. Its commands run in order, in a folder with the sample that all
sessions of a page share. `...` in the shown output matches anything. `--write` puts the real output into the pages.
"""

from __future__ import annotations

import argparse
import doctest
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "src" / "concordant" / "data" / "sample"
SESSION = re.compile(r"^```console session\n(?P<body>.*?)^```\s*$", re.MULTILINE | re.DOTALL)


@dataclass
class Step:
    """One command of a session, the output on the page, and the real output."""

    command: str
    shown: str
    line: int
    printed: str = ""

    @property
    def same(self) -> bool:
        """Whether the output on the page matches the real output."""
        return doctest.OutputChecker().check_output(self.shown, self.printed, doctest.ELLIPSIS)


def split(body: str, line: int) -> list[Step]:
    """Return the steps of a session; a command begins with `$ `, and a backslash at the end of a line continues it."""
    steps: list[Step] = []
    open_command = False
    for offset, text in enumerate(body.splitlines(keepends=True)):
        if open_command:
            steps[-1].command += text
        elif text.startswith("$ "):
            steps.append(Step(text[2:], "", line + offset))
        elif steps:
            steps[-1].shown += text
        open_command = (open_command or text.startswith("$ ")) and text.rstrip("\n").endswith("\\")
    return steps


def run(steps: list[Step], folder: Path, status: int = 0) -> int:
    """Run the steps in a folder, record their output, and return the last exit status."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "100",
        "TERM": "dumb",
        "NO_COLOR": "1",
    }
    environment.pop("CONCORDANT_NO_JIT", None)
    ours = f'python() {{ "{sys.executable}" "$@"; }}\nconcordant() {{ python -m concordant "$@"; }}\n'
    for step in steps:
        # `$?` must hold the status of the step before.
        script = f"{ours}(exit {status})\n{step.command}"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        status = done.returncode
        step.printed = done.stdout
    return status


def sessions(page: Path) -> Iterator[tuple[re.Match[str], list[Step]]]:
    """Run every session of a page in order, and yield its place in the text and its steps."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(SAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        status = 0
        for found in SESSION.finditer(text):
            steps = split(found["body"], text.count("\n", 0, found.start("body")) + 1)
            status = run(steps, Path(folder), status)
            yield found, steps


def rewrite(page: Path) -> bool:
    """Put the real output into a page; output that still matches is left as it is."""
    text = page.read_text(encoding="utf-8")
    out, at = [], 0
    for found, steps in sessions(page):
        body = "".join(f"$ {s.command}{s.shown if s.same else s.printed}" for s in steps)
        out += [text[at : found.start("body")], body]
        at = found.end("body")
    new = "".join([*out, text[at:]])
    page.write_text(new, encoding="utf-8")
    return new != text


def main() -> int:
    """Check the named pages, or all pages with sessions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--write", action="store_true", help="put the real output into the pages")
    parser.add_argument("pages", nargs="*", type=Path)
    options = parser.parse_args()
    stale = 0
    for page in options.pages or [p for p in sorted((ROOT / "docs").rglob("*.md")) if SESSION.search(p.read_text())]:
        if options.write:
            print(f"{page}: {'written' if rewrite(page) else 'nothing to do'}")
            continue
        for step in (s for _, steps in sessions(page) for s in steps if not s.same):
            stale += 1
            print(f"{page}:{step.line}: $ {step.command}shown:\n{step.shown}printed:\n{step.printed}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
