from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from typer.testing import Result

Invoke = Callable[..., Result]


def test_every_run_is_a_row_sorted_by_the_last_metric(files: Path, invoke: Invoke) -> None:
    # a: q1 finds d2 at 2 of 2 relevant -> AP 1/4; q2 finds d5 at 2 -> 1/2. b: q1 all, q2 first -> 1.
    result = invoke("evaluate", files / "runs", "--labels", files / "qrels.txt", "--metrics", "p@1,map")
    assert result.stdout == (
        "run     p@1     map\n"
        "b    1.0000  1.0000\n"
        "a    0.0000  0.3750\n"
        "2 instances; convention trec: gain label, discount 1/log2(1+i), ties by item id descending, "
        "relevant from label 1; sorted by map\n"
    )
    assert result.stderr == ""


def test_sort_none_keeps_the_order_of_the_input(files: Path, invoke: Invoke) -> None:
    args = ("evaluate", files / "runs", "-l", files / "qrels.txt", "--json")
    assert [r["run"] for r in json.loads(invoke(*args, "--sort", "none").stdout)["results"]] == ["a", "b"]
    assert [r["run"] for r in json.loads(invoke(*args, "--sort", "map").stdout)["results"]] == ["b", "a"]
    assert "none or one of ndcg@10, map" in invoke(*args, "--sort", "p@1", code=1).stderr


def test_rel_top_and_percent(files: Path, invoke: Invoke) -> None:
    args = ("evaluate", files / "runs" / "b.trec", "-l", files / "qrels.txt", "--metrics", "map", "--no-percent")
    # With relevance from label 2 on, q2 has nothing relevant and counts 0.
    assert "0.5000" in invoke(*args, "--rel", 2).stdout
    # The best item alone: q1 finds one of two.
    assert "0.7500" in invoke(*args, "--top", 1).stdout
    percent = invoke(*args[:-1], "--percent").stdout
    assert "100.00" in percent
    assert "percent" in percent


def test_letor_brings_its_labels_and_convention(files: Path, invoke: Invoke) -> None:
    result = invoke("evaluate", files / "letor" / "Fold1" / "test.txt", "--metrics", "map,p@1", "--json")
    content = json.loads(result.stdout)
    assert content["params"]["convention"] == "letor"
    # Expert 1 orders d1 (2), d2 (0), d3 (1): AP (1 + 2/3) / 2. Expert 2 puts d3 before d1: 1.
    by_run = {r["run"]: r["metrics"]["map"] for r in content["results"]}
    assert by_run == {"1": pytest.approx(5 / 6), "2": pytest.approx(1.0)}


def test_what_is_unanswered_counts_zero_and_is_said_once(files: Path, invoke: Invoke) -> None:
    (files / "runs" / "c.trec").write_text("q1 Q0 d2 1 1.0 c\n")
    (files / "runs" / "d.trec").write_text("q1 Q0 d1 1 1.0 d\n")
    result = invoke("evaluate", files / "runs", "-l", files / "qrels.txt", "--metrics", "map", "--json")
    content = json.loads(result.stdout)
    assert {r["run"]: r["metrics"]["map"] for r in content["results"]}["c"] == pytest.approx(0.25)
    assert content["warnings"] == [
        "2 of 4 experts answer only some of the labelled instances, the others count 0: ['c', 'd']."
    ]
    assert result.stderr == f"warning: {content['warnings'][0]}\n"


def test_per_instance_values_are_written(files: Path, invoke: Invoke) -> None:
    for name in ("values.csv", "values.parquet"):
        invoke(
            "evaluate", files / "runs", "-l", files / "qrels.txt", "--metrics", "map", "--per-instance", files / name
        )
        read = pl.read_csv if name.endswith("csv") else pl.read_parquet
        assert read(files / name).rows() == [
            ("a", "q1", 0.25),
            ("a", "q2", 0.5),
            ("b", "q1", 1.0),
            ("b", "q2", 1.0),
        ]
    wrong = invoke("evaluate", files / "runs", "-l", files / "qrels.txt", "--per-instance", files / "values", code=1)
    assert "Use .csv, .tsv, .jsonl or .parquet" in wrong.stderr


def test_missing_labels_and_lists_are_said(files: Path, invoke: Invoke) -> None:
    assert "Name them: --labels QRELS" in invoke("evaluate", files / "runs", code=1).stderr
    votes = invoke("evaluate", files / "votes.csv", "-l", files / "qrels.txt", code=1)
    assert "evaluate measures runs" in votes.stderr
    assert "unknown metric 'nope'" in invoke("evaluate", files / "runs", "--metrics", "nope", code=1).stderr


def test_a_folder_may_hold_its_own_labels(files: Path, invoke: Invoke) -> None:
    (files / "qrels.txt").rename(files / "runs" / "qrels.txt")
    assert "b    1.0000  1.0000" in invoke("evaluate", files / "runs", "--metrics", "p@1,map").stdout


@pytest.mark.parametrize(
    "options", [[], ["--top", "1"], ["--metrics", "ndcg@1-3,err@5", "--convention", "letor"]], ids=str
)
def test_blocks_are_measured_as_the_whole(files: Path, invoke: Invoke, options: list[str]) -> None:
    (files / "runs" / "c.trec").write_text("q1 Q0 d2 1 1.0 c\n")
    for n in range(40):
        (files / "runs" / f"{n}.trec").write_text(f"q{n % 4} Q0 d{n % 3} 1 {n} s{n}\nq1 Q0 d9 1 {n} s{n}\n")
    args = ("evaluate", files / "runs", "-l", files / "qrels.txt", *options, "--json")
    whole = invoke(*args, "--per-instance", files / "whole.csv")
    parts = invoke(*args, "--per-instance", files / "parts.csv", "--memory", "0")
    one, other = (json.loads(result.stdout) for result in (whole, parts))
    assert one["results"] == other["results"]
    assert one["warnings"] == other["warnings"]
    assert (files / "parts.csv").read_bytes() == (files / "whole.csv").read_bytes()
