"""The comparison with an earlier source: it takes turns, its ratios are right, and the page says what is compared."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def versus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return the module, comparing the present source with itself."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    found = import_module("versus")
    monkeypatch.setattr(found, "unpacked", lambda _: tmp_path)
    return found


def test_ratios_are_those_of_the_best_and_of_the_median_run(versus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    times = {True: iter([9.0, 1.0, 2.0, 6.0]), False: iter([9.0, 3.0, 1.5, 4.5])}

    def timed(source: Path) -> float:
        asked.append(source == versus.ROOT / "src")
        return next(times[asked[-1]])

    monkeypatch.setattr(versus, "cases", lambda **_: {"a case": (3, timed)})
    (row,) = versus.compared("any")
    # The first round does not count; each source is first in every other one.
    assert asked == [True, False, False, True, True, False, False, True]
    assert row == {
        "case": "a case",
        "rounds": 3,
        "old_ms": 1500.0,
        "new_ms": 1000.0,
        "best": pytest.approx(1.0 / 1.5),
        "medians": pytest.approx(2.0 / 3.0),
    }


def test_a_slower_source_fails_and_the_page_says_what_was_compared(
    versus: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for ratio, failed in ((1.04, False), (1.06, True)):
        new = versus.ROOT / "src"
        monkeypatch.setattr(versus, "cases", lambda r=ratio, n=new, **_: {"c": (1, lambda s: r if s == n else 1.0)})
        results = versus.versus()
        assert results["failed"] == failed
    record = {"commit": "x", "seed": 7, "python": "3.11", "cores": 2, "results": results}
    (tmp_path / "versus.json").write_text(json.dumps(record))
    import_module("render").render(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "| c | 1,000.00 ms | 1,060.00 ms | 1.060 | 1.060 |" in page
    assert "The source of 16 November 2026 (commit deac857) is the last before input was hardened" in page


def test_start_up_is_timed_of_both_sources(versus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versus, "unpacked", lambda _: versus.ROOT / "src")
    rows = list(versus.compared("any", only="version,import,sample,request", quick=True))
    assert [row["case"].split()[0] for row in rows] == ["import", "concordant", "aggregate", "request,"]
    assert all(0.2 < row["best"] < 5 for row in rows)
