"""`concordant report`: one file from files, with a summary on the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Invoke

from concordant.data.sample import path as sample_path

pytest.importorskip("jinja2")


def test_demo_needs_no_input(invoke: Invoke, tmp_path: Path) -> None:
    target = tmp_path / "demo.html"
    done = invoke("report", "--demo", "-o", target)
    page = target.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert page.rstrip().endswith("</html>")
    assert "Against the labels" in page
    assert "6 experts scored" in done.stdout
    assert "wrote" in done.stderr


def test_runs_with_labels(invoke: Invoke, files: Path) -> None:
    target = files / "r.html"
    invoke("report", files / "runs", "--labels", files / "qrels.txt", "-o", target, "--title", "Two <systems>")
    page = target.read_text(encoding="utf-8")
    assert "<title>Two &lt;systems&gt;</title>" in page
    assert "learns from labels, and only 2 instances have any" in page


def test_several_files_are_called_by_their_folder(invoke: Invoke, files: Path) -> None:
    target = files / "r.html"
    invoke("report", files / "runs" / "a.trec", files / "runs" / "b.trec", "-o", target)
    assert "<title>Consensus report: runs (2 files)</title>" in target.read_text(encoding="utf-8")


def test_votes(invoke: Invoke, files: Path) -> None:
    target = files / "r.html"
    invoke("report", files / "votes.csv", "-o", target, "--quiet", "--columns", "expert=judge")
    page = target.read_text(encoding="utf-8")
    assert "bradley-terry" in page
    assert "Against the labels" not in page
    assert "Consensus report: votes.csv" in page


def test_a_leaderboard_on_the_elo_scale(invoke: Invoke, tmp_path: Path) -> None:
    target, votes = tmp_path / "r.html", sample_path() / "votes.csv"
    scale = ("--scale", "elo", "--anchor", "ember-m", "--tiers", "--methods", "bradley-terry")
    invoke("report", votes, "-o", target, *scale, "--quiet")
    page = target.read_text(encoding="utf-8")
    assert "Elo and its interval" in page
    assert "item &#39;ember-m&#39; is at 1000" in page
    assert "tier" in page.partition("Elo and its interval")[2].partition("<tbody>")[0]
    assert "±" in page


def test_a_letor_folder_brings_labels_and_folds(invoke: Invoke, files: Path) -> None:
    target = files / "r.html"
    done = invoke("report", files / "letor", "-o", target, "--json", "--methods", "rrf,borda")
    results = json.loads(done.stdout)["results"]
    assert results["labels"]["metric"] == "ndcg@5"
    assert {row["name"] for row in results["labels"]["rows"]} >= {"rrf", "borda"}


def test_json_says_what_was_written(invoke: Invoke, files: Path) -> None:
    target = files / "r.html"
    results = json.loads(invoke("report", files / "runs", "-o", target, "--json").stdout)["results"]
    assert results["bytes"] == target.stat().st_size
    assert results["consensus"] == "rrf"
    assert results["labels"] is None
    assert 3 <= len(results["summary"]) <= 6


def test_methods_and_weights(invoke: Invoke, files: Path) -> None:
    target = files / "r.html"
    done = invoke(
        "report", files / "runs", "-o", target, "--json", "--methods", "borda,rrf(k=10)", "--weights", "a=2,b=0.5"
    )
    results = json.loads(done.stdout)["results"]
    assert [m["method"] for m in results["methods"]] == ["borda", "rrf(k=10)"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name at least one file"),
        (["--demo", "x.csv"], "brings its own data"),
        (["x.csv", "--convention", "mine"], "must be one of"),
        (["x.csv", "--name-columns", "item=1"], "goes with --names"),
        (["x.csv", "--methods", "rrf)("], "expected a name"),
    ],
)
def test_slips_are_usage_errors(invoke: Invoke, words: list[str], said: str) -> None:
    assert said in " ".join(invoke("report", *words, code=2).output.replace("│", " ").split())


def test_items_can_have_names(invoke: Invoke, files: Path) -> None:
    (files / "names.csv").write_text("item,name\nx,The <first>\nnobody,Else\n")
    target = files / "r.html"
    given = ["report", files / "votes.csv", "-o", target, "--columns", "expert=judge", "--names", files / "names.csv"]
    done = invoke(*given)
    page = target.read_text(encoding="utf-8")
    assert "The &lt;first&gt;" in page
    assert "names.csv" in page
    assert "The <first> [x]" in done.stdout
    assert "names: 1 of 3 items have one; 1 are of no item in the data" in done.stderr
    results = json.loads(invoke(*given, "--json").stdout)["results"]
    assert results["names"] == {"items_named": 1, "items_without": 2, "of_no_item": 1}


def test_columns_of_names_can_be_given(invoke: Invoke, files: Path) -> None:
    (files / "names.psv").write_text("1|x|first\n2|y|second\n3|z|third\n")
    target = files / "r.html"
    given = ["report", files / "votes.csv", "-o", target, "--columns", "expert=judge", "--names", files / "names.psv"]
    assert "columns='item=1,name=2' (--name-columns)" in " ".join(invoke(*given, code=1).output.split())
    done = invoke(*given, "--name-columns", "item=2,name=3")
    assert "second [y]" in done.stdout
    # All items have a name, and all names an item: nothing to note.
    assert "names:" not in done.stderr


def test_names_that_cannot_be_read_stop_before_the_work(invoke: Invoke, files: Path) -> None:
    target = files / "r.html"
    given = ["report", files / "votes.csv", "-o", target, "--names", files / "names.csv"]
    assert "no such file or folder" in invoke(*given, code=1).output
    (files / "names.csv").write_text("item,name\nx,one\nx,two\n")
    said = " ".join(invoke(*given, code=1).output.split())
    assert "item 'x' is named twice" in said
    assert "names.csv:2 and" in said
    assert not target.exists()


def test_no_work_is_done_for_a_folder_that_is_not_there(invoke: Invoke, files: Path) -> None:
    done = invoke("report", files / "runs", "-o", files / "no" / "r.html", code=1)
    assert "there is no folder" in done.output


def test_features_alone_are_nothing_that_experts_said(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("1 qid:1 1:0.5 2:0.25\n0 qid:1 1:0.1 2:0.75\n")
    done = invoke("report", tmp_path / "f.txt", "--format", "letor", "-o", tmp_path / "r.html", code=1)
    assert "neither preferences nor comparisons" in done.output
    assert not (tmp_path / "r.html").exists()


@pytest.fixture
def arena(tmp_path: Path) -> Path:
    rows = ["model_a,model_b,winner,judge,tstamp,language,len_a,len_b"]
    for n in range(240):
        a, b = "pqr"[n % 3], "pqr"[(n + 1 + n // 3 % 2) % 3]
        won = "tie" if n % 7 == 0 else "model_a" if (n * 5 + 3) % 11 < 7 else "model_b"
        rows.append(f"{a},{b},{won},u{n % 5},{1_717_200_000 + 7200 * n},en,{100 + n % 13},{100 + n % 17}")
    path = tmp_path / "arena.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_an_arena_file_becomes_an_arena_page(invoke: Invoke, arena: Path) -> None:
    target = arena.with_name("r.html")
    invoke("report", arena, "-o", target, "-q")
    page = target.read_text(encoding="utf-8")
    assert '<h2 id="time">Votes over time</h2>' in page
    assert "the mean of these 3 items is at 1000" in page
    assert "shown on the left" in page
    assert 'class="id"><bdi class="short">len' not in page


def test_covariates_of_an_arena_are_controlled_where_they_are_read(invoke: Invoke, arena: Path) -> None:
    target = arena.with_name("r.html")
    done = invoke("report", arena, "-o", target, "--json", "--read", "covariates=len")
    labels = [m["method"] for m in json.loads(done.stdout)["results"]["methods"]]
    assert labels[0] == "bradley-terry(covariates=all)"
    assert "bradley-terry(covariates=[])" in labels
    assert '<bdi class="short">len</bdi>' in target.read_text(encoding="utf-8")
    done = invoke("report", arena, "-o", target, "--json", "-m", 'bradley-terry(covariates=["len"])')
    assert json.loads(done.stdout)["results"]["consensus"] == 'bradley-terry(covariates=["len"])'


def test_an_anchor_alone_asks_for_elo_and_log_odds_need_none(invoke: Invoke, arena: Path) -> None:
    target = arena.with_name("r.html")
    invoke("report", arena, "-o", target, "-q", "--anchor", "q", "--anchor-at", "1200")
    assert "item &#39;q&#39; is at 1200" in target.read_text(encoding="utf-8")
    invoke("report", arena, "-o", target, "-q", "--scale", "log-odds")
    page = target.read_text(encoding="utf-8")
    assert "Elo scale" not in page
    assert "score and its interval" in page
    said = invoke("report", arena, "-o", target, "--anchor-at", "1200", code=2).output
    assert "goes with --anchor" in " ".join(said.replace("│", " ").split())


def test_dates_that_cannot_be_read_are_left_out_with_a_note(invoke: Invoke, arena: Path) -> None:
    arena.write_text(arena.read_text().replace("17172", "week 17172", 1))
    target = arena.with_name("r.html")
    done = invoke("report", arena, "-o", target)
    assert "votes are shown without time" in done.stderr
    assert "Votes over time" not in target.read_text(encoding="utf-8")
