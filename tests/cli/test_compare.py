from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

import concordant as cc
from concordant.base import registry
from concordant.base.registry import create
from concordant.errors import ConcordantWarning
from concordant.metrics.evaluation import expert_consensus
from concordant.selection import cross_validate

Invoke = Callable[..., Result]
SUPERVISED = "cps(adherence=supervised)"


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


def test_runs_without_methods_are_tested_in_all_pairs(files: Path, invoke: Invoke) -> None:
    args = ("compare", files / "runs", "-l", files / "qrels.txt", "--metrics", "ndcg@10,map")
    runs, labels = cc.read_runs(files / "runs"), cc.read_labels(files / "qrels.txt")
    expected = cc.compare(runs, labels, "ndcg@10,map", tests=["t"], all_pairs=True)
    assert invoke(*args, "--sort", "none").stdout.splitlines() == str(expected).splitlines()
    content = json.loads(invoke(*args, "--json").stdout)["results"]
    assert content["baseline"] is None
    n = runs.n_experts
    assert len(content["tests"]) == n * (n - 1)  # pairs of both metrics
    assert {m["method"] for m in content["methods"]} == set(runs.experts)
    against = json.loads(invoke(*args, "--baseline", runs.experts[1], "--json").stdout)["results"]
    assert against["baseline"] == runs.experts[1]
    pairs = invoke(*args, "-m", "rrf,borda", "--all-pairs").stdout
    assert "over 1 pair per metric" in pairs
    assert "name --methods" in invoke(*args, "--weights", f"{runs.experts[0]}=2", code=1).stderr
    assert "choose one" in invoke(*args, "--all-pairs", "--baseline", "rrf", code=2).stderr


def test_rows_are_sorted_by_the_last_metric(files: Path, invoke: Invoke) -> None:
    args = ("compare", files / "runs", "-l", files / "qrels.txt", "-m", "comb-min,comb-mnz", "--metrics", "p@1,map")
    content = json.loads(invoke(*args, "--json").stdout)["results"]
    values = [m["metrics"]["map"] for m in content["methods"]]
    assert values == sorted(values, reverse=True)
    assert content["baseline"] == "comb-min"
    assert invoke(*args).stdout.endswith("sorted by map\n")


def test_a_letor_folder_brings_labels_folds_and_convention(files: Path, invoke: Invoke) -> None:
    result = invoke("compare", files / "letor", "--methods", "rrf")
    head, row, legend, how = result.stdout.splitlines()
    assert how == "means of the 2 given folds: fitted to train, chosen on vali, tested on test"
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
        name
        for name in cc.METHODS
        if "comparisons" in cc.METHODS[name].tags.accepts and not create(name).needs_labels()
    }
    assert set(every["left_out"]) == set(cc.METHODS) - {m["method"] for m in every["methods"]}


def test_of_a_whole_group_rrf_is_the_baseline(files: Path, invoke: Invoke) -> None:
    args = ("compare", files / "runs", "-l", files / "qrels.txt", "-m", "heuristics", "--metrics", "map", "--json")
    content = json.loads(invoke(*args).stdout)["results"]
    assert content["baseline"] == "rrf"
    names = {m["method"] for m in content["methods"]} | set(content["left_out"])
    assert {"rrf", "borda", "kemeny", "weighted-sum"} <= names
    assert not names & {"mpm", "bradley-terry", "crf", "listwise-linear"}


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


# Methods that learn.


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with runs of experts good and bad, and qrels."""
    folder = tmp_path_factory.mktemp("search")
    sample = cc.synthetic.meta_search(24, n_items=(8, 12), random_state=5)
    votes = sample.preferences
    for expert in votes.experts:
        cc.write_run(expert_consensus(votes, expert), folder / f"{expert}.trec", tag=expert)
    rows = sample.labels.to_frame().to_dicts()
    (folder / "qrels.txt").write_text("".join(f"{r['instance']} 0 {r['item']} {r['label']:.0f}\n" for r in rows))
    return folder


def compared(invoke: Invoke, *args: object) -> Any:
    return json.loads(invoke("compare", *args, "--metrics", "ndcg@10,map", "--json").stdout)


def test_a_method_that_learns_is_cross_validated_and_so_are_the_others(runs: Path, invoke: Invoke) -> None:
    found = compared(invoke, runs, "-m", "rrf,cps(adherence=supervised),mpm")
    votes, labels = cc.read_runs(sorted(runs.glob("*.trec"))), cc.read_labels(runs / "qrels.txt")
    for record, name, params in (
        ("rrf",) * 2 + ({},),
        ("mpm",) * 2 + ({},),
        (SUPERVISED, "cps", {"adherence": "supervised"}),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            expected = cross_validate(create(name, **params), votes, labels, metrics="ndcg@10,map", folds=5)
        means = next(m["metrics"] for m in found["results"]["methods"] if m["method"] == record)
        assert means == {k: pytest.approx(v, abs=1e-15) for k, v in expected.mean.items()}
    assert found["params"]["folds"] == 5
    assert len(found["fit_info"][SUPERVISED]) == 5
    assert found["fit_info"][SUPERVISED][0]["labels"]["instances"] < 24
    how = (
        "5-fold cross-validation over 24 instances, seed 0: methods are fitted without the instances they are tested on"
    )
    assert found["results"]["about"][0] == how
    text = invoke("compare", runs, "-m", f"rrf,{SUPERVISED}", "--metrics", "map").stdout
    assert "mean of 5 folds, 24 instances" in text
    assert f"{how}\nsorted by map\n" in text
    for form, line in (("--markdown", f"{how}  \n"), ("--latex", f"% {how}\n")):
        assert line in invoke("compare", runs, "-m", f"rrf,{SUPERVISED}", "--metrics", "map", form).stdout


def test_folds_and_validation_parts_are_as_asked_for(runs: Path, invoke: Invoke) -> None:
    three = compared(invoke, runs, "-m", f"rrf,{SUPERVISED}", "--folds", "3", "--validation-part", "0.25")
    assert three["params"]["folds"] == 3
    assert three["results"]["about"][0].endswith("tested on, 25% of the others held out to choose by")
    assert [i["labels"]["instances"] for i in three["fit_info"][SUPERVISED]] == [12] * 3
    whole = compared(invoke, runs, "-m", f"rrf,{SUPERVISED}", "--folds", "none")
    assert whole["results"]["left_out"] == {
        SUPERVISED: "learns from labels, and --folds none leaves no instances to learn from"
    }
    assert whole["results"]["about"] == []
    # Without anybody who learns nothing is held out, unless it is asked for.
    assert compared(invoke, runs, "-m", "rrf,borda")["params"]["folds"] is None
    assert compared(invoke, runs, "-m", "rrf,borda", "--folds", "4")["params"]["folds"] == 4
    too_many = invoke("compare", runs, "-m", "rrf", "--folds", "30", code=1).stderr
    assert too_many == "DataError: 30 folds need at least 30 labelled instances; there are 24.\n"


def test_experts_beside_methods_that_learn_are_paired_with_them(runs: Path, invoke: Invoke) -> None:
    found = compared(invoke, runs, "-m", SUPERVISED, "--experts", "--baseline", "e1")
    assert found["results"]["baseline"] == "expert e1"
    assert {"expert e1", "expert e8", SUPERVISED} <= {m["method"] for m in found["results"]["methods"]}
    assert all(t["p_t"] is not None for t in found["results"]["tests"] if t["method"] == SUPERVISED)


class Dice(cc.Aggregator):
    """Scores by chance, different with each seed."""

    name = "test-dice"
    tags = cc.Tags(accepts=frozenset({"rank", "score"}), stochastic=True, faithful=False)

    def __init__(self, *, random_state: int = 0) -> None:
        self.random_state = random_state

    def _scores(self, preferences: Any) -> Any:
        return np.random.default_rng(self.random_state).random(preferences.n_slots)


@pytest.mark.parametrize("folds", ["none", "3"])
def test_seeds_give_means_and_a_spread(runs: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, folds: str) -> None:
    monkeypatch.setitem(registry.METHODS.entries, Dice.name, Dice)
    args = ("--folds", folds, "-m")
    found = compared(invoke, runs, *args, "rrf,test-dice", "--seeds", "3")["results"]
    dice, rrf = (next(m for m in found["methods"] if m["method"] == name) for name in ("test-dice", "rrf"))
    assert "spread" not in rrf
    each = []
    for seed in range(3):
        alone = compared(invoke, runs, *args, f"rrf,test-dice(random_state={seed})")["results"]
        each.append(next(m["metrics"] for m in alone["methods"] if m["method"] != "rrf"))
    for metric in ("ndcg@10", "map"):
        values = [e[metric] for e in each]
        assert len(set(values)) == 3
        assert dice["metrics"][metric] == pytest.approx(np.mean(values))
        assert dice["spread"][metric] == pytest.approx(np.std(values, ddof=1))
    assert "means over 3 seeds of test-dice" in found["about"]
    text = invoke("compare", runs, *args, "rrf,test-dice", "--seeds", "3", "--metrics", "map").stdout
    mean, spread = dice["metrics"]["map"], dice["spread"]["map"]
    assert f"\ntest-dice  {mean:.4f} ±{spread:.4f}\n" in text
    assert "± standard deviation over the means of the seeds\n" in text


def test_who_needs_folds_is_told_why_there_are_none(files: Path, invoke: Invoke) -> None:
    (files / "one.txt").write_text("q1 0 d1 0\nq1 0 d2 2\n")
    args = ("compare", files / "runs", "-l", files / "one.txt", "-m", f"rrf,{SUPERVISED}")
    text = invoke(*args).stdout
    assert f"left out: {SUPERVISED}: learns from labels, and of 2 instances 1 has labels; folds need two" in text


def test_a_line_says_which_methods_take_items_left_out_as_what(files: Path, invoke: Invoke) -> None:
    args = ["compare", files / "runs", "--labels", files / "qrels.txt", "--methods"]
    alike = invoke(*args, "rrf,copeland,condorcet")
    assert "items that a list leaves out count as below all it holds; --missing unknown" in alike.stderr
    apart = invoke(*args, "rrf,copeland,condorcet(missing=unknown)")
    said = "items that a list leaves out count as below: copeland; unknown: condorcet(missing=unknown).\n"
    assert said in apart.stderr
    assert "leaves out" not in invoke(*args, "rrf,borda").stderr
