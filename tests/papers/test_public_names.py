"""The papers' package is a user like any other: it imports public names of Concordant and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import concordant_papers

FOLDER = Path(concordant_papers.__file__).parent
# Rooms whose modules are there for the library itself.
INTERNAL = {"kernels"}


def imported(source: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) for what a file takes from Concordant; an attribute of `cc` is a name of the package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "concordant":
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((a.name, "") for a in node.names if a.name.startswith("concordant."))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cc":
            yield "concordant", node.attr


def private(module: str, name: str) -> bool:
    """Return whether a module, or a name in it, is not for users."""
    parts = module.split(".")[1:]
    if any(part.startswith("_") or part in INTERNAL for part in parts):
        return True
    return name not in import_module(module).__all__


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.stem)
def test_a_study_uses_public_names_alone(path: Path) -> None:
    found = sorted({(module, name) for module, name in imported(path.read_text()) if private(module, name)})
    assert not found


def test_the_check_sees_what_is_private() -> None:
    source = """
import concordant as cc
from concordant.io._files import atomic_write
from concordant.kernels.lists import by_length
from concordant.metrics import nothing_of_the_kind
cc.RRF, cc.hidden
"""
    wrong = [name for module, name in imported(source) if private(module, name)]
    assert sorted(wrong) == ["atomic_write", "by_length", "hidden", "nothing_of_the_kind"]
