"""The votes that growth is measured on: drawn from the model that is fitted, the same whatever they are written in."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import concordant as cc


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    return import_module("growth_pairs")


def test_votes_follow_the_model_and_their_fit_finds_it(growth: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(growth, "WINDOW", 7000)
    for ending in ("csv", "parquet"):
        growth.make(tmp_path / f"votes.{ending}", 20_000, 30)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["votes.csv", "votes.parquet"]
    votes = cc.read_comparisons(tmp_path / "votes.csv")
    assert votes == cc.read_comparisons(tmp_path / "votes.parquet")
    assert votes.n_rows == 20_000
    found = growth.fit(tmp_path / "votes.parquet", 30)
    assert found["converged"]
    assert found["pairs"] == 30 * 29 // 2
    # Standard errors are about 0.04 for a score and 0.01 for the parameter of ties, which is 0.6.
    assert found["correlation"] > 0.99
    assert found["tie"] == pytest.approx(growth.TIE, abs=0.05)
