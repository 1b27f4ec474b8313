"""Fits of classic data sets equal what R's packages print, to the last digit printed."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
GIVEN = json.loads((FOLDER / "r_fits.json").read_text(encoding="utf-8"))
NAMES = [fit["name"] for fit in GIVEN["fits"]]


@pytest.fixture(scope="module")
def bench() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield SimpleNamespace(r=import_module("models_r"), render=import_module("render"))


@pytest.mark.parametrize("name", NAMES)
def test_a_fit_equals_r(bench: Any, name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if bench.r.FITS[name].needs:
        monkeypatch.setattr(bench.r, "DATA", request.getfixturevalue("data_dir"))
    found = bench.r.fit_named(name)
    assert found["values"] > 0
    assert not found["differ"] or (name in bench.r.STOPPED_EARLY and found["largest"] < 1e-6)


def test_every_fit_is_made_and_names_its_source(bench: Any) -> None:
    assert sorted(NAMES) == sorted(bench.r.FITS)
    assert len(NAMES) >= 20
    assert all(fit["r"] and fit["source"] and fit["values"] for fit in GIVEN["fits"])
    assert "models_r" in bench.render.FAMILIES


def test_digits_are_those_printed(bench: Any) -> None:
    assert bench.r.compared({"a": "0.50", "b": "3.20e-08"}, {"a": 0.5049, "b": 3.2049e-8})["differ"] == {}
    assert list(bench.r.compared({"a": "0.50", "b": "-12.3"}, {"a": 0.5051, "b": -12.36})["differ"]) == ["a", "b"]


def test_mallows_beside_scipy(bench: Any, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.r, "DATA", data_dir)
    found = bench.r.mallows("dots 1")
    assert found["ours"] == pytest.approx(found["scipy"], abs=1e-6)
    assert found["our_loglik"] == pytest.approx(found["scipy_loglik"], abs=1e-6)
