"""The section of times on TREC-3, on a few small runs: it measures what it says, and its means are those of a peer."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import concordant as cc

pytest.importorskip("ir_measures", reason="ir_measures is not installed")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    found = import_module("trec3_speed")
    monkeypatch.setattr(found, "PEERS_PYTHON", sys.executable)
    return found


@pytest.fixture
def files(tmp_path: Path) -> tuple[list[str], str]:
    data = cc.synthetic.runs(8, skill=4, top=30, pool=80, random_state=1)
    runs = []
    for name in data.preferences.experts.tolist():
        one = data.preferences.select_experts([name])
        runs.append(str(tmp_path / f"input.{name}"))
        cc.write_run(cc.CombSUM(norm="none").fit_predict(one), runs[-1])
    cc.write(data.labels, tmp_path / "qrels.txt", format="qrels")
    return runs, str(tmp_path / "qrels.txt")


def test_every_time_is_there_and_the_means_agree(bench: Any, files: tuple[list[str], str]) -> None:
    r = json.loads(json.dumps(bench.study(*files, repeats=1)))
    assert (r["instances"], r["evaluated"]["runs"]) == (8, 4)
    assert r["evaluated"]["largest_difference"] < 1e-12
    assert r["fits"]["rrf"]["times_rrf"] == 1.0
    assert all(v["seconds"] > 0 for part in ("fits", "pairwise") for v in r[part].values())
    page = bench.RENDER["trec3_speed"](r)
    assert "`concordant evaluate` of 8 metrics over 4 runs" in page
    assert "| rrf, k and weights learned |" in page
    assert "| svp |" in page


def test_other_answers_are_not_timed(bench: Any, files: tuple[list[str], str], monkeypatch: Any) -> None:
    monkeypatch.setitem(bench.METRICS, "map", "P@7")
    with pytest.raises(SystemExit, match="Concordant and ir_measures disagree"):
        bench.evaluated(*files, 1)


def test_absent_data_is_said(bench: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(bench.trec3_supervised, "available", lambda: False)
    assert bench.RENDER["trec3_speed"](bench.speed()) == "Not available: trec3-adhoc."
