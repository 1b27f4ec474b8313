"""A golden number without a source is an opinion: every file says where its numbers come from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parent / "golden").glob("*.json"))


def test_there_are_golden_files() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden_file_names_its_source_and_holds_complete_cases(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(content["source"], str)
    assert content["source"].strip()
    assert content["abs_tol"] >= 0
    assert content["cases"]
    for case in content["cases"]:
        assert case["name"]
        assert case["input"]
        assert case["expected"]
