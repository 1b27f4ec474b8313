"""A golden number without a source is an opinion: every file says where its numbers come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import concordant as cc

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


# A file that names a method needs no test of its own: lists and parameters go in, scores come out.
METHOD_CASES = [
    pytest.param(content["method"], content["abs_tol"], case, id=f"{path.stem}-{case['name']}")
    for path in FILES
    if "method" in (content := json.loads(path.read_text(encoding="utf-8")))
    for case in content["cases"]
]


@pytest.mark.golden
@pytest.mark.parametrize(("method", "tolerance", "case"), METHOD_CASES)
def test_a_method_gives_the_scores_of_its_golden_case(method: str, tolerance: float, case: dict[str, Any]) -> None:
    lists, params = case["input"]["lists"], case["input"].get("params", {})
    found = cc.aggregate(cc.from_lists(lists), method, **params)
    scores = dict(zip(found.items.tolist(), found.score.tolist(), strict=True))
    assert scores == pytest.approx(case["expected"]["scores"], rel=0, abs=tolerance)
