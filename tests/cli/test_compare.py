from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

import concordant as cc

Invoke = Callable[..., Result]


def test_the_means_are_those_of_the_library(files: Path, invoke: Invoke) -> None:
    args = ("compare", files / "runs", "-l", files / "qrels.txt", "-m", "borda,rrf", "--metrics", "ndcg@10,map")
    runs, labels = cc.read_runs(files / "runs"), cc.read_labels(files / "qrels.txt")
    both = {name: cc.aggregate(runs, name) for name in ("borda", "rrf")}
    expected = cc.compare(both, labels, "ndcg@10,map", tests=["t"])
    lines = invoke(*args, "--sort", "none").stdout.splitlines()
    assert lines == str(expected).splitlines()
    content = json.loads(invoke(*args, "--json").stdout)["results"]
    assert content["baseline"] == "borda"
    assert {m["method"]: m["metrics"]["map"] for m in content["methods"]} == {
        name: pytest.approx(e.mean["map"]) for name, e in expected.evaluations.items()
    }
    assert {t["method"] for t in content["tests"]} == {"borda", "rrf"}


def test_rows_are_sorted_by_the_last_metric(files: Path, invoke: Invoke) -> None:
    args = ("compare", files / "runs", "-l", files / "qrels.txt", "-m", "comb-min,comb-mnz", "--metrics", "p@1,map")
    content = json.loads(invoke(*args, "--json").stdout)["results"]
    values = [m["metrics"]["map"] for m in content["methods"]]
    assert values == sorted(values, reverse=True)
    assert content["baseline"] == "comb-min"
    assert invoke(*args).stdout.endswith("sorted by map\n")


def test_a_letor_folder_brings_labels_folds_and_convention(files: Path, invoke: Invoke) -> None:
    result = invoke("compare", files / "letor", "--methods", "rrf")
    head, row, legend = result.stdout.splitlines()
    assert head.split() == ["method", *(f"ndcg@{k}" for k in range(1, 6)), *(f"p@{k}" for k in range(1, 6)), "map"]
    assert legend.startswith("percent; mean of 2 folds, 2 instances; convention letor: ")
    # d1 (1/61 + 1/62) before d3 (1/63 + 1/61) before d2: both relevant first. Five items are more than there are.
    assert row.split()[1:] == ["100.00"] * 4 + ["0.00", "100.00", "100.00", "66.67", "50.00", "40.00", "100.00"]
    pooled = json.loads(invoke("compare", files / "letor", "-m", "rrf", "--folds", "none", "--json").stdout)
    assert pooled["params"]["folds"] is None


def test_folds_that_are_not_there(files: Path, invoke: Invoke) -> None:
    args = ("compare", files / "runs", "-l", files / "qrels.txt", "-m", "rrf", "--folds", "given")
    assert "brings no folds" in invoke(*args, code=1).stderr


def test_methods_take_parameters(files: Path, invoke: Invoke) -> None:
    args = ("compare", files / "runs", "-l", files / "qrels.txt", "--json", "-m")
    spec = 'rrf(k=1),rrf(weights={"a":1,"b":0},ties=min)'
    names = [m["method"] for m in json.loads(invoke(*args, spec).stdout)["results"]["methods"]]
    assert sorted(names) == ["rrf(k=1)", 'rrf(weights={"a":1,"b":0},ties=min)']
    assert "RRF has no parameter 'q'" in invoke(*args, "rrf(q=1)", code=1).stderr


def test_methods_that_cannot_take_the_input_are_left_out_with_the_reason(files: Path, invoke: Invoke) -> None:
    votes = cc.read_comparisons(files / "votes.csv")
    (files / "gold.csv").write_text(
        "instance,item,label\n" + "".join(f"{votes.instances[0]},{i},{v}\n" for i, v in (("x", 2), ("y", 1), ("z", 0)))
    )
    args = ("compare", files / "votes.csv", "-l", files / "gold.csv", "--metrics", "map")
    result = invoke(*args, "-m", "copeland,rrf")
    assert "copeland  1.0000" in result.stdout
    assert "left out: rrf: works on rank or rating or score, the input holds comparisons" in result.stdout
    none = invoke(*args, "-m", "rrf,borda", code=1)
    assert none.stderr.startswith("DataError: none of the methods can take the input.")
    every = json.loads(invoke(*args, "-m", "all", "--json").stdout)["results"]
    assert {m["method"] for m in every["methods"]} == {
        name for name in cc.METHODS if "comparisons" in cc.METHODS[name].tags.accepts
    }
    assert set(every["left_out"]) == set(cc.METHODS) - {m["method"] for m in every["methods"]}


def test_of_a_whole_group_rrf_is_the_baseline(files: Path, invoke: Invoke) -> None:
    args = ("compare", files / "runs", "-l", files / "qrels.txt", "-m", "heuristics", "--metrics", "map", "--json")
    content = json.loads(invoke(*args).stdout)["results"]
    assert content["baseline"] == "rrf"
    assert len(content["methods"]) + len(content["left_out"]) == len(cc.METHODS)


def test_experts_as_rows_and_as_baseline(files: Path, invoke: Invoke) -> None:
    args = ("compare", files / "runs", "-l", files / "qrels.txt", "-m", "rrf", "--metrics", "map", "--json")
    content = json.loads(invoke(*args, "--experts", "--baseline", "a").stdout)["results"]
    assert content["baseline"] == "expert a"
    means = {m["method"]: m["metrics"]["map"] for m in content["methods"]}
    assert means == {"rrf": pytest.approx(5 / 6 / 2 + 0.5), "expert a": 0.375, "expert b": 1.0}
    assert "must be one of rrf" in invoke(*args, "--baseline", "c", code=1).stderr


def test_experts_of_folds(files: Path, invoke: Invoke) -> None:
    args = ("compare", files / "letor", "-m", "rrf", "--metrics", "map", "--experts", "--json")
    means = {m["method"]: m["metrics"]["map"] for m in json.loads(invoke(*args).stdout)["results"]["methods"]}
    assert means["expert 1"] == pytest.approx(5 / 6)
    assert means["expert 2"] == pytest.approx(1.0)


def test_markdown_latex_and_details(files: Path, invoke: Invoke) -> None:
    args = ("compare", files / "runs", "-l", files / "qrels.txt", "-m", "rrf,borda", "--metrics", "map")
    assert invoke(*args, "--markdown").stdout.startswith("| method | map |\n| --- | ---: |\n")
    assert "\\begin{tabular}{lr}" in invoke(*args, "--latex").stdout
    assert "difference to rrf, its 95% bootstrap interval" in invoke(*args, "--details", "--tests", "fisher,t").stdout


def test_weights_apply_to_every_method(files: Path, invoke: Invoke) -> None:
    args = ("compare", files / "runs", "-l", files / "qrels.txt", "-m", "rrf,comb-sum", "--metrics", "map", "--json")
    content = json.loads(invoke(*args, "--weights", "a=0").stdout)["results"]
    assert [m["metrics"]["map"] for m in content["methods"]] == [1.0, 1.0]
