"""Write src/concordant/_names.py and src/concordant/__init__.pyi, which say where the public names are.

A new method, metric or format works without these files. With them a name imports only its own module, and type
checkers know every public name. `--check` writes nothing and fails if a committed file differs; the tests call it.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

import concordant  # noqa: E402 - the path must be set first
from concordant._registry import Registry  # noqa: E402
from concordant.base.registry import METHODS  # noqa: E402
from concordant.io.formats import FORMATS, Format  # noqa: E402
from concordant.metrics.ranking import METRICS  # noqa: E402

PACKAGE = ROOT / "src" / "concordant"
NAMES, STUB = PACKAGE / "_names.py", PACKAGE / "__init__.pyi"


def table(registry: Registry[Any]) -> dict[str, str]:
    """Return ``module:class`` of every entry of this package by name; for a format ``module:read,write``."""
    found = {name: (registry.owners[name], registry[name]) for name in registry}
    return {
        name: f"{module}:{entry.__name__ if isinstance(entry, type) else ','.join(abilities(entry))}"
        for name, (module, entry) in found.items()
        if module.startswith("concordant.")
    }


def abilities(entry: Format) -> list[str]:
    """Return whether a format can be read, written or both."""
    return [what for what in ("read", "write") if getattr(entry, what) is not None]


def names() -> str:
    """Return the text of `_names.py`."""
    lines = [
        '"""Names of the built-in methods and metrics, and where each is. Written by scripts/public_names.py."""',
        "",
    ]
    for title, registry in (("METHODS", METHODS), ("METRICS", METRICS), ("FORMATS", FORMATS)):
        lines += [f"{title} = {{"]
        lines += [f'    "{name}": "{where}",' for name, where in table(registry).items()]
        lines.append("}")
    return "\n".join(lines) + "\n"


def stub() -> str:
    """Return the text of `__init__.pyi`: every public name and the packages."""
    modules = {name: module for module, own in concordant._WHERE.items() for name in own}
    modules |= {where.partition(":")[2]: where.partition(":")[0].partition(".")[2] for where in table(METHODS).values()}
    lines = {"from concordant._version import __version__ as __version__"}
    for name in concordant._PACKAGES:
        lines.add(f"from concordant import {name} as {name}")
    for name, module in modules.items():
        parent, _, last = f"concordant.{module}".rpartition(".")
        is_module = name == last and inspect.ismodule(getattr(concordant, name))
        lines.add(f"from {parent if is_module else f'concordant.{module}'} import {name} as {name}")
    return "".join(f"{line}\n" for line in sorted(lines, key=_isort))


def _isort(line: str) -> tuple[str, int, str]:
    """Return the key of Ruff's order: by module, and in it constants, classes, functions."""
    _, module, _, name, *_ = line.split()
    rank = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return module, rank, name


def main() -> None:
    """Write the files that differ; with --check, name them and fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file differs")
    check = parser.parse_args().check
    wrong = [path for path, text in files().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if check and wrong:
        raise SystemExit(f"{', '.join(p.name for p in wrong)}: not up to date. Run: python scripts/public_names.py")
    for path in wrong:
        path.write_text(files()[path], encoding="utf-8")
        print(path.relative_to(ROOT))


def files() -> dict[Path, str]:
    """Return the text of both files by path."""
    return {NAMES: names(), STUB: stub()}


if __name__ == "__main__":
    main()
