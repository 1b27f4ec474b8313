"""Camps of experts on the command line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

import concordant as cc
from concordant.report.clusters import camp_clusters
from concordant.report.content import build_report
from concordant.report.page import render

Invoke = Callable[..., Result]


@pytest.fixture
def guests(tmp_path: Path) -> Path:
    """Return a file in which eight guests rank six dishes one way, and five the other way round."""
    rows = ["instance,expert,item,rank"]
    for guest in range(13):
        dishes = "abcdef" if guest < 8 else "fedcba"
        rows += [f"q,g{guest:02d},{dish},{place}" for place, dish in enumerate(dishes, start=1)]
    path = tmp_path / "guests.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_the_ranks_of_each_camp_follow_the_leaderboard(guests: Path, tmp_path: Path, invoke: Invoke) -> None:
    table = tmp_path / "experts.csv"
    result = invoke("aggregate", guests, "--method", "mixture(mallows)", "--experts-out", table)
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["ranks", "by", "camp", "of", "experts"] in lines
    assert ["item", "camp", "1", "(62%)", "camp", "2", "(38%)"] in lines
    assert ["a", "1", "6"] in lines
    assert "--experts-out FILE writes the camp of every expert" in result.stderr
    with open(table, newline="") as handle:
        rows = {row["expert"]: row for row in csv.DictReader(handle)}
    assert [rows[f"g{n:02d}"]["camp"] for n in range(13)] == ["1"] * 8 + ["2"] * 5
    assert float(rows["g00"]["membership"]) > 0.99


def test_ranks_by_camp_in_json_and_of_one_instance(guests: Path, invoke: Invoke) -> None:
    asked = ("aggregate", guests, "--method", "mixture(mallows, components=2)")
    content = json.loads(invoke(*asked, "--json").stdout)
    assert content["params"]["camps"] == pytest.approx([8 / 13, 5 / 13], abs=1e-3)
    assert {row["item"]: row["camp_ranks"] for row in content["results"]} == {
        item: [n + 1, 6 - n] for n, item in enumerate("abcdef")
    }
    shown = invoke(*asked, "--instance", "q", "--rows", 2).stdout
    assert shown.split("ranks by camp")[1].count("\n") == 4
    # One camp is the board of the model.
    one = invoke("aggregate", guests, "--method", "mixture(mallows, components=1)").stdout
    assert one == invoke("aggregate", guests, "--method", "mallows").stdout


def test_a_fit_says_how_large_the_camps_are_and_its_model_knows_them(
    guests: Path, tmp_path: Path, invoke: Invoke
) -> None:
    model = tmp_path / "guests.model"
    fitted = invoke("fit", guests, "--method", "mixture(mallows)", "-o", model)
    assert "chosen: components=2" in fitted.stdout
    assert "13 experts in camps of 8, 5; --experts-out FILE writes who is in which" in fitted.stdout
    assert "camp 2 (38%)" in invoke("aggregate", guests, "--model", model).stdout
    refused = invoke("aggregate", guests, "--method", "mixture(rrf)", code=1)
    assert "RRF has none" in refused.stderr


def test_the_report_shows_the_camps_of_a_mixture(guests: Path) -> None:
    votes = cc.read(guests).preferences
    assert votes is not None
    report = build_report(votes, methods=[("mixture(mallows)", cc.Mixture(of="mallows")), ("borda", cc.Borda())])
    assert report.experts is not None
    assert [group.size for group in report.experts.groups] == [8, 5]
    assert [group.best[0] for group in report.experts.groups] == ["a", "f"]
    assert {row.name: row.group for row in report.experts.rows}["g12"] == 2
    assert any("They form 2 clusters of 8 and 5." in sentence for sentence in report.summary)
    assert "camps that the mixture model found" in render(report)
    mixture = cc.Mixture(of="mallows").fit(votes)
    assert [len(c.members) for c in camp_clusters(votes, mixture)] == [8, 5]
