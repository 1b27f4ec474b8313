"""Run the tests of what changed, nearest first, for about a minute: `make quick`.

A file counts as changed if it differs from the merge base with the main branch, committed or not, or if git does not
track it yet. A changed file selects

1. the tests of the same name (`src/concordant/io/trec.py` selects `tests/io/test_trec.py`), or itself if it is a test;
2. the test files that import it; for a helper file of tests that nothing imports, the tests in the same folder;
3. the tests of the same name of the modules that import it;
4. for a file that defines methods, their part of the contract and of the frozen answers; for a page or an example, its
   part of tests/test_docs.py.

This is only a selection: `make test` runs everything. Tests that do not fit into the time are skipped and counted.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Folders of modules, and the prefix of their import names.
SOURCES = {"src": "", "papers": "", "tests": "tests.", "benchmarks": "benchmarks.", "scripts": "scripts."}
CONTRACT = ("tests/test_contract.py", "tests/answers/test_answers.py")
PAGES = "tests/test_docs.py"
# Other files, and their tests.
OTHERS = {"pyproject.toml": "tests/test_packaging.py", "requirements": "tests/test_packaging.py"}


def git(*words: str) -> list[str]:
    """Return the lines that a git command prints, or none if it fails."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed_files(base: str | None) -> tuple[str, list[str]]:
    """Return the base commit, and the existing files that differ from it."""
    branches = [base] if base else ["main", "origin/main", "master", "origin/master"]
    common = next((found[0] for branch in branches if (found := git("merge-base", "HEAD", branch))), None)
    if common is None:
        raise SystemExit(f"None of {', '.join(branches)} shares a commit with HEAD. Name one: ARGS='--base BRANCH'.")
    names = {*git("diff", "--name-only", common), *git("ls-files", "--others", "--exclude-standard")}
    return common, sorted(name for name in names if (ROOT / name).is_file())


def module_name(path: str) -> str | None:
    """Return the import name of a file, or None if it is no module."""
    top, _, rest = path.partition("/")
    if top not in SOURCES or not rest.endswith(".py"):
        return None
    return SOURCES[top] + rest.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def modules() -> dict[str, str]:
    """Return path -> name of every module of the repository."""
    paths = (path.relative_to(ROOT).as_posix() for top in SOURCES for path in (ROOT / top).rglob("*.py"))
    return {path: name for path in sorted(paths) if (name := module_name(path))}


@cache
def imports(path: str) -> frozenset[str]:
    """Return the names of the modules that a file imports, at its top or inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def is_test(path: str) -> bool:
    """Return whether pytest collects the file."""
    return path.startswith("tests/") and Path(path).name.startswith("test_") and path.endswith(".py")


def same_name(path: str) -> list[str]:
    """Return the test files named after a module: those of the same folder, or else of any."""
    file = Path(path)
    stem = file.parent.name if file.stem == "__init__" else file.stem.strip("_")
    named = [test for test in modules() if is_test(test) and Path(test).name == f"test_{stem}.py"]
    return [test for test in named if Path(test).parent.name in file.parts] or named


def importers(path: str) -> list[str]:
    """Return the modules that import a module by its own name."""
    name = modules().get(path)
    return [other for other in modules() if name in imports(other)]


def methods_of(path: str) -> set[str]:
    """Return the classes of a file that have a `name`, and these names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        for line in node.body if isinstance(node, ast.ClassDef) else ():
            match line:
                case ast.Assign([ast.Name("name")], ast.Constant(str(name))):
                    found |= {name, node.name}
    return found


class Selection:
    """The chosen test files with reasons. As a pytest plugin it keeps only tests of what changed, and stops in time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.reasons: dict[str, tuple[int, str]] = {}
        self.methods: set[str] = set()
        self.pages: set[str] = set()
        self.unmapped: list[str] = []
        self.late = 0

    def add(self, tests: Iterable[str], near: int, reason: str) -> bool:
        """Choose test files for a reason; a closer reason replaces a more distant one."""
        tests = list(tests)
        for test in tests:
            self.reasons[test] = min(self.reasons.get(test, (near, reason)), (near, reason))
        return bool(tests)

    def add_changed(self, path: str) -> None:
        """Choose the tests that a changed file selects."""
        if (path.endswith(".md") and (path == "README.md" or path.startswith("docs/"))) or path.startswith("examples/"):
            self.pages.add(path)
            self.add([PAGES], 1, "pages and examples that changed")
        elif is_test(path):
            self.add([path], 0, "changed")
        elif path in modules():
            chosen = self.add(same_name(path), 1, f"named after {path}")
            users = importers(path)
            chosen |= self.add(filter(is_test, users), 2, f"imports {path}")
            for user in users:
                if not is_test(user):
                    chosen |= self.add(same_name(user), 3, f"named after {user}, which imports {path}")
            if path.startswith("src/") and (methods := methods_of(path)):
                self.methods |= methods
                self.add(CONTRACT, 2, f"the methods of {path}")
            if not chosen and path.startswith("tests/"):
                # Tests may read a helper file of their folder without importing it.
                beside = (test for test in modules() if is_test(test) and Path(test).parent == Path(path).parent)
                chosen = self.add(beside, 1, f"beside {path}")
            if not chosen:
                self.unmapped.append(path)
        elif path.partition("/")[0] in OTHERS:
            self.add([OTHERS[path.partition("/")[0]]], 1, f"checks {path}")
        else:
            self.unmapped.append(path)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """In the test files that cover all methods or pages, keep only the changed ones."""
        kept = [item for item in items if self._wanted(item)]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    def _wanted(self, item: pytest.Item) -> bool:
        path = item.path.relative_to(ROOT).as_posix()
        if self.reasons.get(path, (0, ""))[0] == 0 or not hasattr(item, "callspec"):
            return True
        values = item.callspec.params.values()
        if path in CONTRACT:
            # A method by its name, or by its class with parameters: "RRF(k=10)".
            return any(str(getattr(v, "name", v)).partition("(")[0] in self.methods for v in values)
        if path == PAGES and self.pages:
            return any(isinstance(v, Path) and v.relative_to(ROOT).as_posix() in self.pages for v in values)
        return True

    def pytest_sessionstart(self) -> None:
        """Note when the time is up."""
        self.end = time.monotonic() + self.seconds

    def pytest_runtest_setup(self) -> None:
        """Skip a test if the time is up."""
        if time.monotonic() > self.end:
            self.late += 1
            pytest.skip("no time left")


def main() -> int:
    """Choose tests, print them with reasons, run them, and print how many were skipped."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", help="the branch to compare with (default: main)")
    parser.add_argument("--seconds", type=float, default=45.0, help="start no further test after this time")
    parser.add_argument("--list", action="store_true", help="only print what would run")
    options = parser.parse_args()

    common, changed = changed_files(options.base)
    selection = Selection(options.seconds)
    for path in changed:
        selection.add_changed(path)
    order = sorted(selection.reasons, key=lambda test: (selection.reasons[test][0], test))
    print(f"{len(changed)} changed files since {common[:9]}, {len(order)} test files:")
    for test in order:
        print(f"  {test}: {selection.reasons[test][1]}")
    if selection.unmapped:
        print(f"no tests are known for: {', '.join(selection.unmapped)}")
    if options.list or not order:
        return 0
    words = ["--quiet", "--exitfirst", "-r", "fE", "--tb=short", "-m", "not slow", *order]
    code = pytest.main(words, plugins=[selection])
    if selection.late:
        print(f"{selection.late} tests did not fit into {options.seconds:g} s. Run `make test` for all.")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
