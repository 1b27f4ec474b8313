"""The sections on hostile input: chunks are kept, counts add up, and a finding fails the run but not the page."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.attack import watch

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """Return the modules, writing elsewhere, and a judge who finds something about input 7."""
    monkeypatch.syspath_prepend(str(FOLDER))
    found = SimpleNamespace(**{name: import_module(name) for name in ("attack", "growth", "evidence")})
    monkeypatch.setattr(found.growth, "WORK", tmp_path / "work")
    monkeypatch.setattr(found.evidence, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(found.evidence, "render", lambda *_: None)
    found.seen = []

    def judged(what: str, first: int, last: int) -> dict[str, Any]:
        found.seen.append((what, first, last))
        records = [
            {
                "number": n,
                "input": f"case {n}",
                "group": f"case {n % 2}",
                "outcome": "read" if n % 3 else "ParseError",
                "findings": [["wrong", "no"]] if n == 7 else [],
                "counts": {"both read": 1},
                "seconds": n / 10,
            }
            for n in range(first, last)
        ]
        return watch.tally(records)

    monkeypatch.setattr(found.attack, "judged", judged)
    return found


def test_chunks_that_are_finished_are_not_judged_again(bench: Any) -> None:
    assert bench.attack.campaign("files", 10, 4) == bench.attack.campaign("files", 10, 4)
    assert bench.seen == [("files", 0, 4), ("files", 4, 8), ("files", 8, 10)]
    bench.attack.campaign("files", 12, 4)
    assert bench.seen[3:] == [("files", 8, 12)]


def test_the_page_shows_the_counts(bench: Any) -> None:
    found = json.loads(json.dumps(bench.attack.campaign("files", 10, 4)))
    assert (found["failed"], found["inputs"], found["findings"]["wrong"]) == (True, 10, 1)
    assert found["groups"] == {
        "case 0": {"inputs": 5, "answered": 3, "faults": 0},
        "case 1": {"inputs": 5, "answered": 3, "faults": 1},
    }
    page = bench.attack.RENDER["attack_files"](found)
    assert "10 damaged files: 0 foreign errors, 0 hangs, 0 crashes, 0 inputs that executed something, 1 wrong" in page
    assert "The slowest took 0.9 s (case 9)" in page
    assert "| case 1 | 5 | 3 | 2 | 1 |" in page
    assert not bench.attack.campaign("models", 4, 4)["failed"]


def test_a_finding_fails_the_run_after_it_is_written(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["evidence.py", "--only", "good,bad"])

    def good() -> dict[str, Any]:
        """Nothing found."""
        return {"failed": False}

    def bad() -> dict[str, Any]:
        """Something found."""
        return {"failed": True}

    for _ in range(2):
        with pytest.raises(SystemExit, match=r"what must not happen did.*: bad$"):
            bench.evidence.main({"good": good, "bad": bad})
    assert "bad: there already" in capsys.readouterr().out
    assert json.loads((bench.evidence.RESULTS / "bad.json").read_text())["results"] == {"failed": True}


def test_all_sections_are_of_the_size_that_was_asked_for(bench: Any) -> None:
    assert bench.attack.SIZES["files"][0] >= 100_000
    assert bench.attack.SIZES["models"][0] >= 10_000
    assert set(bench.attack.SECTIONS) == set(bench.attack.RENDER)
