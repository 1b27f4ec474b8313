"""methods, convert and demo."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

import concordant as cc

Invoke = Callable[..., Result]


def test_methods_lists_every_registered_method(invoke: Invoke) -> None:
    lines = invoke("methods").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == list(cc.METHODS)
    content = json.loads(invoke("methods", "--json").stdout)
    assert [m["name"] for m in content["results"]] == list(cc.METHODS)
    assert content["results"][0]["accepts"] == sorted(cc.METHODS[content["results"][0]["name"]].tags.accepts)


@pytest.mark.parametrize("name", ["rrf", "kemeny", "comb-mnz"])
def test_a_method_has_a_page_with_parameters_and_defaults(invoke: Invoke, name: str) -> None:
    text = invoke("methods", name).stdout
    cls = cc.METHODS[name]
    assert text.startswith(f"{name}: {cls.__name__}\n")
    assert (cls.__doc__ or "").strip().split("\n", 1)[0] in text
    table = text[text.index("\nparameter ") :]
    for parameter, value in cls().get_params().items():
        assert any(line.split()[:2] == [parameter, *repr(value).split()][:2] for line in table.splitlines() if line)
    assert f"--method {name}" in text


def test_the_page_of_a_method_that_learns_from_labels_begins_with_fit(invoke: Invoke) -> None:
    text = invoke("methods", "listwise-linear").stdout
    assert "\nUse: concordant fit INPUT... --labels QRELS --method listwise-linear -o MODEL\n" in text


def test_no_such_method(invoke: Invoke) -> None:
    assert "Did you mean 'kemeny'" in invoke("methods", "kemney", code=1).stderr


def test_convert_writes_what_reads_back_equal(files: Path, invoke: Invoke) -> None:
    out = files / "votes.parquet"
    result = invoke("convert", files / "votes.csv", "-o", out)
    assert result.stdout == ""
    assert result.stderr.startswith(f"wrote {out}: Comparisons: 1 instance, 3 experts, 3 items")
    assert cc.read(out).comparisons == cc.read(files / "votes.csv").comparisons


def test_convert_says_what_it_leaves_behind(files: Path, invoke: Invoke) -> None:
    letor = files / "letor" / "Fold1" / "test.txt"
    result = invoke("convert", letor, "-o", files / "a.csv")
    assert "also holds labels; --part labels writes that" in result.stderr
    content = json.loads(invoke("convert", letor, "-o", files / "l.qrels", "--part", "labels", "--json").stdout)
    assert content["results"]["part"] == "labels"
    assert (files / "l.qrels").read_text().splitlines()[0] == "1 0 d1 2"
    assert "holds no features" in invoke("convert", letor, "-o", files / "x.csv", "--part", "features", code=1).stderr


def test_convert_refuses_an_ending_it_does_not_know(files: Path, invoke: Invoke) -> None:
    assert invoke("convert", files / "votes.csv", "-o", files / "v.xyz", code=1).stderr.startswith("FormatError")
    assert not (files / "v.xyz").exists()
    invoke("convert", files / "votes.csv", "-o", files / "v.xyz", "--to", "csv")
    assert (files / "v.xyz").exists()


def test_the_demo_tells_the_story_and_the_story_is_true(invoke: Invoke) -> None:
    text = invoke("demo").stdout
    for step in range(1, 7):
        assert f"\n{step}. " in text
    assert len(text.splitlines()) <= 80
    results = json.loads(invoke("demo", "--json").stdout)["results"]
    best = max(mean["map"] for mean in results["experts"].values())
    fused = [mean["map"] for name, mean in results["fusions"].items() if not name.startswith("expert ")]
    assert min(fused) > best
    assert min(results["agreement"], key=results["agreement"].get) == "legacy"
    assert results["weighted"]["weighted"]["map"] > results["weighted"]["rrf"]["map"]
    assert results["learned"]["listwise-linear"]["map"] > results["weighted"]["weighted"]["map"]
    # Three judges of the sample flip coins.
    least = sorted(results["judges"], key=results["judges"].get)
    assert sorted(least[:3]) == ["judge-11", "judge-14", "judge-15"]
    assert results["judges"][least[2]] < 0.3 < 0.7 < results["judges"][least[3]]


def test_the_commands_the_demo_shows_work(invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import shlex
    import shutil

    from concordant.data.sample import path

    shutil.copytree(path(), tmp_path / "sample")
    monkeypatch.chdir(tmp_path / "sample")
    text = invoke("demo").stdout
    shown = [line[2:] for line in text.splitlines() if line.startswith("$ concordant ")]
    assert len(shown) == 6
    for command in shown:
        invoke(*shlex.split(command)[1:])
    # Votes and rows of the story are those of the command it names.
    shown_votes = ("votes.csv", "--method", "bradley-terry", "-p", "reliability=true", "--rows", 5)
    board = invoke("aggregate", *shown_votes).stdout.splitlines()
    assert [line.split() for line in board[:-1]] == [
        line.split() for line in text.splitlines()[text.splitlines().index(f"$ {shown[-1]}") + 1 :][:6]
    ]
