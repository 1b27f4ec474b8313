from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import Result

import concordant as cc
from concordant.errors import ConcordantWarning
from concordant.io.tabular import read_consensus

Invoke = Callable[..., Result]


def test_the_leaderboard_shows_rank_item_score_and_n(files: Path, invoke: Invoke) -> None:
    # RRF with k = 60 by hand: d2 is second and first, 1/62 + 1/61.
    result = invoke("aggregate", files / "runs")
    assert result.stdout == (
        "q1: 4 items\n"
        "rank  item     score  n\n"
        "   1  d2    0.032522  2\n"
        "   2  d1    0.016393  1\n"
        "   3  d4    0.016129  1\n"
        "   4  d3    0.015873  1\n"
        "\n"
        "q2: 3 items\n"
        "rank  item     score  n\n"
        "   1  d5    0.032522  2\n"
        "   2  d1    0.016393  1\n"
        "   3  d6    0.016129  1\n"
    )
    assert result.stderr == "n: experts who ranked the item.\n"


def test_p_and_q_values_are_shown_and_written(tmp_path: Path, invoke: Invoke) -> None:
    lists, out = tmp_path / "lists.csv", tmp_path / "found.csv"
    lists.write_text("list,rank,gene\nx,1,TP53\nx,2,MYC\ny,1,TP53\nz,1,ACTB\n")
    table = ("--format", "long", "--columns", "expert=list,item=gene", "--method", "robust-rank")
    shown = invoke("aggregate", lists, *table, "-p", "total=100", "-p", "exact=true")
    assert shown.stdout.splitlines()[0].split() == ["rank", "item", "score", "p-value", "q-value", "n"]
    assert shown.stdout.splitlines()[1].split() == ["1", "TP53", "3.0609", "0.00087", "0.087", "2"]
    content = json.loads(invoke("aggregate", lists, *table, "-p", "total=100", "--json").stdout)
    assert {"p_value", "q_value"} <= set(content["results"][0])
    invoke("aggregate", lists, *table, "-p", "total=100", "-o", out)
    back = read_consensus(out)
    assert back.p_value is not None
    assert back.q_value is not None
    assert back.q_value.min() == pytest.approx(100 * back.p_value.min())
    assert "such as -p total=20000" in invoke("aggregate", lists, *table).stderr


def test_rows_and_instance_choose_what_is_shown(files: Path, invoke: Invoke) -> None:
    result = invoke("aggregate", files / "runs", "--instance", "q2", "--rows", 1)
    assert result.stdout == "q2: 3 items\nrank  item     score  n\n   1  d5    0.032522  2\n… 2 more\n"
    assert "no instance 'q9'" in invoke("aggregate", files / "runs", "--instance", "q9", code=1).stderr


def test_of_many_instances_the_first_few_are_shown_and_how_to_see_the_rest(tmp_path: Path, invoke: Invoke) -> None:
    lines = [f"q{q} Q0 d{i} {i} {9 - i} x\n" for q in range(5) for i in range(1, 8)]
    (tmp_path / "x.trec").write_text("".join(lines))
    result = invoke("aggregate", tmp_path / "x.trec")
    assert result.stdout.count("rank  item") == 3
    assert result.stdout.count("… 2 more") == 3
    assert "2 more instances: --instance ID shows one, --rows 0 all, -o FILE writes all." in result.stderr
    everything = invoke("aggregate", tmp_path / "x.trec", "--rows", 0).stdout
    assert everything.count("rank  item") == 5
    assert "more" not in everything


def test_whole_scores_are_whole_and_comparisons_are_counted(files: Path, invoke: Invoke) -> None:
    result = invoke("aggregate", files / "votes.csv", "--method", "copeland")
    # x beats y twice of three and ties z; y beats z once.
    assert result.stdout == ("rank  item  score  n\n   1  x         1  4\n   2  y         0  4\n   3  z        -1  2\n")
    assert result.stderr == "n: comparisons the item took part in.\n"


def test_parameters_reach_the_method(files: Path, invoke: Invoke) -> None:
    content = json.loads(invoke("aggregate", files / "runs", "-p", "k=1", "--json").stdout)
    assert content["params"]["params"]["k"] == 1
    assert content["results"][0] == {
        "instance": "q1",
        "rank": 1,
        "item": "d2",
        "score": pytest.approx(1 / 3 + 1 / 2),
        "n": 2.0,
    }


def test_an_unknown_parameter_or_method_names_those_there_are(files: Path, invoke: Invoke) -> None:
    wrong = invoke("aggregate", files / "runs", "-p", "q=1", code=1)
    assert wrong.stderr.startswith("ParameterError: RRF has no parameter 'q'. It has: k, ")
    assert wrong.stdout == ""
    assert "Did you mean 'borda'" in invoke("aggregate", files / "runs", "-m", "bordo", code=1).stderr
    assert "must be a number > 0" in invoke("aggregate", files / "runs", "-p", "k=-1", code=1).stderr


def test_a_kind_the_method_cannot_take_names_methods_that_can(files: Path, invoke: Invoke) -> None:
    stderr = invoke("aggregate", files / "votes.csv", "-m", "rrf", code=1).stderr
    assert stderr.startswith("KindError: RRF works on ")
    assert "copeland" in stderr


def test_json_is_one_object_with_everything(files: Path, invoke: Invoke) -> None:
    result = invoke("aggregate", files / "runs", "--json")
    content = json.loads(result.stdout)
    assert list(content) == ["version", "command", "params", "warnings", "results", "fit_info"]
    assert content["params"]["method"] == "rrf"
    assert [r["item"] for r in content["results"]] == ["d2", "d1", "d4", "d3", "d5", "d1", "d6"]
    assert content["fit_info"]["converged"] is True
    assert result.stderr == ""


def test_output_as_a_run_equals_the_library(files: Path, invoke: Invoke) -> None:
    out = files / "fused.trec"
    result = invoke("aggregate", files / "runs", "-o", out)
    assert result.stdout == ""
    assert f"wrote {out}" in result.stderr
    consensus = cc.aggregate(cc.read_runs(files / "runs"))
    cc.write_run(consensus, files / "same.trec", tag="rrf")
    assert out.read_text() == (files / "same.trec").read_text()


def test_a_name_without_ending_takes_the_format_of_the_runs(files: Path, invoke: Invoke) -> None:
    invoke("aggregate", files / "runs", "-o", files / "fused", "-q")
    assert (files / "fused").read_text().startswith("q1 Q0 d2 1 ")
    stderr = invoke("aggregate", files / "votes.csv", "-m", "copeland", "-o", files / "board", code=1).stderr
    assert stderr.startswith("FormatError")
    assert not (files / "board").exists()


def test_top_and_break_ties(files: Path, invoke: Invoke) -> None:
    (files / "tied").mkdir()
    (files / "tied" / "x.trec").write_text("q Q0 a 1 1.0 x\nq Q0 b 2 1.0 x\nq Q0 c 3 0.5 x\n")
    invoke("aggregate", files / "tied", "-o", files / "t.trec", "--top", 2, "-q")
    tied = [line.split() for line in (files / "t.trec").read_text().splitlines()]
    assert [t[3] for t in tied] == ["1", "1"]
    assert tied[0][4] == tied[1][4]
    invoke("aggregate", files / "tied", "-o", files / "t.trec", "--top", 2, "--break-ties", "-q")
    strict = [line.split() for line in (files / "t.trec").read_text().splitlines()]
    assert [t[3] for t in strict] == ["1", "2"]
    assert float(strict[0][4]) > float(strict[1][4])
    wrong = invoke("aggregate", files / "tied", "-o", files / "t.csv", "--break-ties", code=1)
    assert "--break-ties is for TREC runs" in wrong.stderr


@pytest.mark.parametrize("more", [(), ("--memory", "64MB")])
def test_a_run_has_the_tag_that_is_asked_for(files: Path, invoke: Invoke, more: tuple[str, ...]) -> None:
    invoke("aggregate", files / "runs", "-o", files / "t.trec", "--tag", "fused-1", "-q", *more)
    assert {line.split()[5] for line in (files / "t.trec").read_text().splitlines()} == {"fused-1"}
    assert (
        "--tag is for TREC runs"
        in invoke("aggregate", files / "runs", "-o", files / "t.csv", "--tag", "x", code=1).stderr
    )
    blank = invoke("aggregate", files / "runs", "-o", files / "t.trec", "--tag", "a b", *more, code=1)
    assert "text without blanks" in blank.stderr


@pytest.mark.parametrize("name", ["board.csv", "board.tsv", "board.jsonl", "board.parquet", "board.csv.gz"])
def test_output_as_a_table(files: Path, invoke: Invoke, name: str) -> None:
    invoke("aggregate", files / "votes.csv", "-m", "copeland", "-o", files / name, "-q")
    back = cc.read(files / name).preferences
    assert back is not None
    assert back.items.tolist() == ["x", "y", "z"]
    assert back.value.tolist() == [1.0, 0.0, -1.0]


def test_to_overrides_the_ending(files: Path, invoke: Invoke) -> None:
    invoke("aggregate", files / "runs", "-o", files / "fused.txt", "--to", "csv", "-q")
    assert (files / "fused.txt").read_text().startswith("instance,item,score,rank\n")


def test_weights_count(files: Path, invoke: Invoke) -> None:
    content = json.loads(invoke("aggregate", files / "runs", "--weights", "b=0,a=2", "--json").stdout)
    assert [r["item"] for r in content["results"][:3]] == ["d1", "d2", "d3"]
    assert content["results"][0]["score"] == pytest.approx(2 / 61)
    assert "unknown expert 'c' in the weights" in invoke("aggregate", files / "runs", "--weights", "c=1", code=1).stderr


def test_weights_of_judges_scale_their_comparisons(files: Path, invoke: Invoke) -> None:
    # Without ann and bob only cid's "y beats x" is left.
    args = ("aggregate", files / "votes.csv", "-m", "copeland", "--json", "--weights")
    content = json.loads(invoke(*args, "ann=0,bob=0").stdout)
    assert content["results"][0]["item"] == "y"
    assert "unknown expert 'dan' in the weights" in invoke(*args, "dan=1", code=1).stderr
    assert "must be a finite number >= 0" in invoke(*args, "ann=-1", code=1).stderr


def test_weights_come_on_top_of_ballot_counts(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "b.soc").write_text(
        "# FILE NAME: b.soc\n# TITLE: b\n# DATA TYPE: soc\n# NUMBER ALTERNATIVES: 2\n# NUMBER VOTERS: 5\n"
        "# NUMBER UNIQUE ORDERS: 2\n# ALTERNATIVE NAME 1: a\n# ALTERNATIVE NAME 2: b\n3: 1,2\n2: 2,1\n"
    )
    args = ("aggregate", tmp_path / "b.soc", "-m", "borda", "--json")
    plain = json.loads(invoke(*args).stdout)["results"]
    assert [(r["item"], r["n"]) for r in plain] == [("a", 5.0), ("b", 5.0)]
    trusted = json.loads(invoke(*args, "--weights", "2=2").stdout)["results"]
    assert [(r["item"], r["n"]) for r in trusted] == [("b", 5.0), ("a", 5.0)]


def test_the_table_of_experts(files: Path, invoke: Invoke) -> None:
    invoke("aggregate", files / "runs", "--experts-out", files / "experts.csv", "--weights", "b=3", "-q")
    with (files / "experts.csv").open() as file:
        rows = {r["expert"]: r for r in csv.DictReader(file)}
    assert list(rows) == ["a", "b"]
    assert [rows["a"][c] for c in ("lists", "rows", "weight")] == ["2", "5", "1.0"]
    assert rows["b"]["weight"] == "3.0"
    assert float(rows["a"]["coverage"]) == pytest.approx(5 / 7)
    # q1: b says d2 > d4 > {d1, d3}, as does the consensus, which also parts d1 and d3: 5 of 6 pairs, 1 tied.
    # q2: b says d5 > d6 > d1, exactly the consensus.
    assert float(rows["b"]["agreement"]) == pytest.approx((5 / (5 * 6) ** 0.5 + 1) / 2)


def test_the_table_of_judges(files: Path, invoke: Invoke) -> None:
    invoke("aggregate", files / "votes.csv", "-m", "copeland", "--experts-out", files / "judges.csv", "-q")
    with (files / "judges.csv").open() as file:
        rows = {r["expert"]: float(r["agreement"]) for r in csv.DictReader(file)}
    # x > y > z: ann agrees twice, bob once and ties once, cid contradicts.
    assert rows == {"ann": 1.0, "bob": 0.5, "cid": -1.0}


def test_a_table_of_experts_nobody_is_named_in(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "v.csv").write_text("winner,loser\na,b\n")
    args = ("aggregate", tmp_path / "v.csv", "-m", "copeland", "--experts-out")
    assert "name no experts" in invoke(*args, tmp_path / "e.csv", code=1).stderr
    assert not (tmp_path / "e.csv").exists()


def test_a_saved_method_is_used_as_it_is(files: Path, invoke: Invoke) -> None:
    cc.RRF(k=1).save(files / "m.safetensors")
    content = json.loads(invoke("aggregate", files / "runs", "--model", files / "m.safetensors", "--json").stdout)
    assert content["params"]["params"]["k"] == 1
    assert content["results"][0]["score"] == pytest.approx(1 / 3 + 1 / 2)


def test_a_model_may_still_be_told_what_matters_at_prediction(files: Path, invoke: Invoke) -> None:
    model = files / "ulara.model"
    with pytest.warns(ConcordantWarning, match="nothing can be learned about the experts"):
        cc.METHODS["ulara"]().fit(cc.read_runs(files / "runs" / "a.trec")).save(model)
    refused = invoke("aggregate", files / "runs", "--model", model, code=1).stderr
    assert "['b']" in refused
    assert "pass -p unknown_experts=ignore" in refused
    content = json.loads(
        invoke("aggregate", files / "runs", "--model", model, "-p", "unknown_experts=ignore", "--json").stdout
    )
    assert content["params"]["params"]["unknown_experts"] == "ignore"
    assert content["results"][0]["item"] == "d1"
    wrong = invoke("aggregate", files / "runs", "--model", model, "-p", "level=0.9", code=1).stderr
    assert "ULARA has no parameter 'level'" in wrong


def test_the_table_of_experts_shows_what_a_model_learned(files: Path, invoke: Invoke) -> None:
    model = cc.METHODS["ulara"]().fit(cc.read_runs(files / "runs"))
    model.save(files / "m.model")
    invoke("aggregate", files / "runs", "--model", files / "m.model", "--experts-out", files / "e.csv", "-q")
    with (files / "e.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(r["weight"]) for r in rows] == pytest.approx(model.adherence_.tolist())
    assert [float(r["disagreement"]) for r in rows] == pytest.approx(model.learned_experts()["disagreement"])


def test_a_method_that_learns_from_labels_asks_for_a_fit(files: Path, invoke: Invoke) -> None:
    stderr = invoke("aggregate", files / "runs", "-m", "cps", "-p", "adherence=supervised", code=1).stderr
    assert "concordant fit INPUT... --labels QRELS --method cps -p adherence=supervised -o MODEL" in stderr


def test_a_damaged_model_is_named(files: Path, invoke: Invoke) -> None:
    (files / "m.model").write_text("nothing of the kind")
    stderr = invoke("aggregate", files / "runs", "--model", files / "m.model", code=1).stderr
    assert stderr == f"FormatError: {files / 'm.model'}: not a file that Concordant wrote.\n"
    assert "cannot read" in invoke("aggregate", files / "runs", "--model", files / "none", code=1).stderr


def test_advice_about_reading_speaks_of_options(files: Path, invoke: Invoke) -> None:
    (files / "votes.csv").write_text("left,right,winner\nx,x,left\nx,y,left\n")
    args = ("aggregate", files / "votes.csv", "-m", "copeland")
    assert "Pass --read self_pairs=drop to leave such rows out" in invoke(*args, code=1).stderr
    assert invoke(*args, "--read", "self_pairs=drop").stdout.splitlines()[1].split() == ["1", "x", "1", "1"]
    with (files / "runs" / "a.trec").open("a") as file:
        file.write("q1 Q0 d1 9 0.5 a\n")
    assert "Pass --read duplicates=best" in invoke("aggregate", files / "runs", code=1).stderr


def test_the_expert_may_be_the_file(files: Path, invoke: Invoke) -> None:
    (files / "runs" / "b.trec").rename(files / "runs" / "second.trec")
    invoke("aggregate", files / "runs", "--expert-from", "file", "--experts-out", files / "e.csv", "-q")
    assert [line.split(",")[0] for line in (files / "e.csv").read_text().splitlines()] == ["expert", "a", "second"]


def test_columns_by_name_or_number(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "v.csv").write_text("model_a,model_b,verdict\nx,y,model_a\ny,z,tie\n")
    for columns in ("left=model_a,right=model_b,winner=verdict", "left=1,right=2,winner=3"):
        args = ("aggregate", tmp_path / "v.csv", "-m", "copeland", "--columns", columns, "--json")
        results = json.loads(invoke(*args).stdout)["results"]
        assert [(r["item"], r["score"]) for r in results] == [("x", 1.0), ("z", 0.0), ("y", -1.0)]


def test_errors_in_data_name_the_file_and_line_and_write_nothing(files: Path, invoke: Invoke) -> None:
    bad = files / "runs" / "bad.trec"
    bad.write_text("q1 Q0 d1 1 2.5 bad\nq1 Q0 d2 2\n")
    result = invoke("aggregate", bad, "--format", "trec", "-o", files / "out.trec", code=1)
    assert result.stderr.startswith(f"ParseError: {bad}:2: expected 6 fields, found 4")
    assert result.stderr.count("\n") == 1
    assert not (files / "out.trec").exists()
    assert "DataError: no such file" in invoke("aggregate", files / "nothing", code=1).stderr


def test_labels_alone_are_not_preferences(files: Path, invoke: Invoke) -> None:
    assert "the input holds labels" in invoke("aggregate", files / "qrels.txt", code=1).stderr


def test_threads_do_not_change_the_answer(files: Path, invoke: Invoke) -> None:
    one = invoke("aggregate", files / "runs", "--threads", 1).stdout
    assert one == invoke("aggregate", files / "runs", "--threads", 3).stdout


@pytest.mark.parametrize("options", [[], ["--weights", "a=3"], ["--top", "1"], ["-m", "borda"]], ids=str)
def test_blocks_give_the_same_file(files: Path, invoke: Invoke, options: list[str]) -> None:
    runs = str(files / "runs")
    invoke("aggregate", runs, *options, "-o", str(files / "whole.trec"))
    parts = invoke("aggregate", runs, *options, "-o", str(files / "parts.trec"), "--memory", "0", "--json")
    assert json.loads(parts.stdout)["results"]["blocks"] == 1
    assert (files / "parts.trec").read_bytes() == (files / "whole.trec").read_bytes()


def test_memory_is_a_size_and_for_methods_that_go_instance_by_instance(files: Path, invoke: Invoke) -> None:
    runs, out = str(files / "runs"), str(files / "out.trec")
    wrong = invoke("aggregate", runs, "-o", out, "--memory", "much", code=2)
    assert "must be a size such as 4GB" in wrong.stderr
    for how in (("-m", "bradley-terry", "-p", "reliability=true"), ("-m", "ulara", "--weights", "bm25=2")):
        shared = invoke("aggregate", runs, *how, "-o", out, "--memory", "0", code=1)
        assert "--memory needs -o and a method" in shared.stderr
    assert not (files / "out.trec").exists()


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize("method", ["ulara", "mpm", "bradley-terry"])
def test_what_learns_by_sums_over_instances_goes_in_blocks(files: Path, invoke: Invoke, method: str) -> None:
    runs, out = str(files / "runs"), str(files / "out.trec")
    found = []
    for memory in ("0", "4GB"):
        invoke("aggregate", runs, "-m", method, "-o", out, "--memory", memory)
        found.append((files / "out.trec").read_bytes())
    assert found[0] == found[1]


LARGE_VOTES = [
    "a,b,left",
    "b,c,left",
    "c,a,tie",
    "b,a,left",
    "a,c,left",
    "c,b,right",
    "c,a,left",
    "d,a,tie",
    "b,d,left",
]


def counted(monkeypatch: pytest.MonkeyPatch, limit: int) -> list[bool]:
    """Return a list that fills with whether comparisons were collapsed while they were read."""
    from concordant.io.formats import FORMATS
    from concordant.learning import streaming

    seen: list[bool] = []
    plain = FORMATS["comparisons"].read

    def watched(paths: list[Path], **options: object) -> object:
        seen.append(bool(options.get("collapse")))
        return plain(paths, **options)

    monkeypatch.setattr(streaming, "LARGE_FILE_BYTES", limit)
    monkeypatch.setitem(FORMATS.entries, "comparisons", replace(FORMATS["comparisons"], read=watched))
    return seen


@pytest.mark.parametrize(
    "method",
    ["bradley-terry", "condorcet", "copeland", "kemeny", "markov-chain", "svp", "bradley-terry -p ties=rao-kupper"],
)
def test_many_comparisons_are_collapsed_to_the_same_answer(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    (tmp_path / "votes.csv").write_text("left,right,winner\n" + "\n".join(LARGE_VOTES * 3))
    args = ("aggregate", tmp_path / "votes.csv", "-m", *method.split(), "--json")
    answers = []
    for limit in (10**9, 0):
        seen = counted(monkeypatch, limit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            answers.append(json.loads(invoke(*args).stdout))
        assert seen == [limit == 0]
    whole, collapsed = answers
    assert collapsed["results"] == whole["results"]
    assert collapsed["warnings"] == whole["warnings"]


def test_comparisons_are_not_collapsed_where_it_matters_who_compared(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "votes.csv"
    rows = [f"{row},{judge}" for judge in ("x", "y", "z") for row in LARGE_VOTES]
    path.write_text("left,right,winner,judge\n" + "\n".join(rows))
    plain = ("aggregate", path, "-m", "bradley-terry")
    seen = counted(monkeypatch, 0)
    whole = invoke(*plain)
    assert "the answer depends on who compared" in whole.stderr
    assert "clustered by expert" in whole.stderr
    for more in ("-p reliability=true", "-p side_effect=true", "-p uncertainty=bootstrap", "-m mpm"):
        invoke(*plain, *more.split())
    invoke(*plain, "--experts-out", tmp_path / "experts.csv", "-p", "uncertainty=information")
    invoke("aggregate", path, "-m", "copeland", "--weights", "x=2")
    invoke(*plain, "--read", "collapse=false", "-p", "uncertainty=information")
    assert not any(seen)
    seen.clear()
    invoke("aggregate", path, "-m", "copeland")
    invoke(*plain, "-p", "uncertainty=information", "--columns", "left=left,right=right")
    invoke(*plain, "--read", "collapse=true")
    assert seen == [True, True, True]


@pytest.mark.parametrize("memory", [[], ["--memory", "0"]], ids=str)
def test_a_folder_that_holds_only_folders_is_written_too(files: Path, invoke: Invoke, memory: list[str]) -> None:
    invoke("aggregate", files / "letor", "-m", "borda", "-o", files / "folds.csv", *memory)
    preferences = cc.read(files / "letor").preferences
    assert preferences is not None
    cc.write(cc.aggregate(preferences, "borda"), files / "same.csv")
    assert (files / "folds.csv").read_bytes() == (files / "same.csv").read_bytes()


def test_what_has_no_blocks_is_read_whole(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "votes.csv").write_text("a,b\nx,y\nx,y\n")
    invoke(
        *("aggregate", tmp_path / "votes.csv", "--columns", "winner=a,loser=b", "-m", "copeland", "--memory", "0"),
        *("-o", tmp_path / "votes.out.csv"),
    )
    (tmp_path / "matrix.csv").write_text("x,y,z\n1,2,3\n1,3,2\n")
    matrix = ("aggregate", tmp_path / "matrix.csv", "-m", "borda", "--memory", "0", "-q")
    invoke(*matrix, "-o", tmp_path / "matrix.out.csv")
    for name in ("votes", "matrix"):
        assert (tmp_path / f"{name}.out.csv").read_text().splitlines()[1].startswith("all,x,")


def test_a_checkpoint_in_a_folder_of_others_leaves_them_there(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"q{q} Q0 d{(q + i) % 5} {i + 1} {5 - i} bm25" for q in range(4) for i in range(3)]
    (tmp_path / "parts").mkdir()
    for name in ("run.trec", "notes.txt", "parts/mine"):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    # What a process was writing when it was killed is of nobody's use.
    for left in ("rows/.spool.json.0123456789ab.tmp", "parts/.part-000000.csv.0123456789ab.tmp"):
        (tmp_path / "new" / left).parent.mkdir(parents=True)
        (tmp_path / "new" / left).write_text("half")
    for place in (".", "~/new"):
        out = f"{len(place)}.csv"
        assert invoke("aggregate", "run.trec", "-m", "ulara", "-o", out, "--checkpoint", place).exit_code == 0
        assert (tmp_path / out).read_text() == (tmp_path / "1.csv").read_text()
    left = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*"))
    assert left == ["1.csv", "5.csv", "notes.txt", "parts", "parts/mine", "run.trec"]


# Items that lists leave out.


def test_a_line_says_as_what_items_left_out_count(files: Path, invoke: Invoke) -> None:
    shown = invoke("aggregate", files / "runs", "--method", "copeland")
    assert "items that a list leaves out count as below all it holds; --missing unknown if" in shown.stderr
    assert shown.stdout == invoke("aggregate", files / "runs", "-m", "copeland", "-p", "missing=below").stdout
    free = invoke("aggregate", files / "runs", "--method", "copeland", "--missing", "unknown")
    assert "lists say nothing about items they leave out; --missing below if they are cut off.\n" in free.stderr
    asked = invoke("aggregate", files / "runs", "--method", "copeland", "-p", "missing=unknown")
    assert "lists say nothing about items they leave out.\n" in asked.stderr
    assert free.stdout == asked.stdout != shown.stdout
    # Where it makes no difference nothing is said.
    for args in (["runs"], ["votes.csv", "-m", "copeland"], ["letor/Fold1/test.txt", "-m", "borda"]):
        assert "leave" not in invoke("aggregate", files / args[0], *args[1:]).stderr


def test_json_holds_as_what_items_left_out_count(files: Path, tmp_path: Path, invoke: Invoke) -> None:
    found = json.loads(invoke("aggregate", files / "runs", "--method", "copeland", "--json").stdout)
    assert (found["params"]["missing"], found["fit_info"]["missing"]) == ("below", "below")
    out = tmp_path / "fused.csv"
    args = ["aggregate", files / "runs", "--method", "copeland", "-o", out, "--memory", "0", "--missing", "unknown"]
    in_blocks = json.loads(invoke(*args, "--json").stdout)
    assert in_blocks["params"]["missing"] == "unknown"
    assert "lists say nothing about items they leave out" in invoke(*args).stderr


def test_what_is_declared_goes_to_the_reader_once(files: Path, invoke: Invoke) -> None:
    assert "--missing" in invoke("aggregate", files / "runs", "--missing", "last", code=2).stderr
    twice = invoke("aggregate", files / "runs", "--missing", "below", "--read", "missing=unknown", code=2)
    assert "'missing' is given twice" in twice.stderr
    assert "does not take ['missing']" in invoke("aggregate", files / "votes.csv", "--missing", "below", code=1).stderr


def test_a_declaration_is_converted_with_the_data(files: Path, tmp_path: Path, invoke: Invoke) -> None:
    for given, told in (([], "below"), (["--missing", "unknown"], "unknown")):
        table = tmp_path / "votes.parquet"
        invoke("convert", files / "runs", "-o", table, *given)
        found = json.loads(invoke("aggregate", table, "-m", "copeland", "--json").stdout)
        assert found["fit_info"]["missing"] == told


def test_summary_prints_what_the_library_prints(files: Path, invoke: Invoke) -> None:
    asked = ("aggregate", files / "votes.csv", "-m", "bradley-terry", "-p", "prior=0.5", "--summary")
    model = cc.BradleyTerry(prior=0.5)
    model.fit_predict(cc.read_comparisons(files / "votes.csv"))
    assert invoke(*asked).stdout == f"{model.summary()!r}\n"
    content = json.loads(invoke(*asked, "--json").stdout)
    frame = model.summary().to_frame()
    assert [row["estimate"] for row in content["results"]["rows"]] == frame["estimate"].to_list()
    assert content["results"]["log_likelihood"] == content["fit_info"]["log_likelihood"]
    assert "RRF has no likelihood" in invoke("aggregate", files / "runs", "--summary", code=1).stderr
    assert "cannot be given with -o" in invoke(*asked, "-o", files / "out.csv", code=2).stderr
    two = invoke("aggregate", files / "runs", "-m", "plackett-luce", "--summary", "-i", "q1", "-i", "q2").stdout
    assert [two.count(f"items of instance '{q}'") for q in ("q1", "q2", "q3")] == [1, 1, 0]


def test_a_board_on_the_elo_scale(files: Path, tmp_path: Path, invoke: Invoke) -> None:
    asked = ("aggregate", files / "votes.csv", "-m", "bradley-terry", "--scale", "elo")
    shown = invoke(*asked, "--anchor", "z", "--tiers")
    board = cc.BradleyTerry().fit_predict(cc.read_comparisons(files / "votes.csv")).scaled("elo", anchor="z")
    head, first, *_ = shown.stdout.splitlines()
    assert head.split() == ["rank", "item", "Elo", "95%", "interval", "ranks", "tier", "n"]
    assert first.split()[:4] == ["1", "x", f"{board.score[0]:.0f}", f"±{board.upper[0] - board.score[0]:.0f}"]
    assert "Elo scale: item 'z' is at 1000." in shown.stderr
    row = json.loads(invoke(*asked, "--anchor", "z", "--anchor-at", 1200, "--json").stdout)["results"][0]
    assert (row["score"], row["scale"]) == (pytest.approx(board.score[0] + 200), "elo")
    assert row["gauge"] == "item 'z' is at 1200"
    out, run = tmp_path / "board.csv", tmp_path / "board.trec"
    invoke(*asked, "--anchor", "x", "--anchor", "y", "-o", out)
    back = read_consensus(out)
    assert back.scale == "elo"
    later = json.loads(invoke(*asked, "--reference", out, "--json").stdout)["results"]
    assert [r["score"] for r in later] == pytest.approx(back.score.tolist())
    invoke(*asked, "--anchor", "x", "-o", run)
    assert "bradley-terry-elo" in run.read_text()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--scale", "elo"], 2, "--anchor ITEM"),
        (["--anchor", "x"], 2, "goes with --scale elo"),
        (["--scale", "points", "--anchor", "x"], 2, "elo"),
        (["--scale", "elo", "--anchor", "x", "--reference", "f.csv"], 2, "both fix the origin"),
        (["--scale", "elo", "--anchor", "nobody"], 1, "no item"),
        (["--scale", "elo", "--anchor", "x", "-m", "copeland"], 1, "not known to be log odds"),
        (["--tiers", "-m", "copeland"], 1, "no standard errors"),
    ],
)
def test_scales_that_cannot_be(files: Path, invoke: Invoke, options: list[str], code: int, said: str) -> None:
    method = [] if "-m" in options else ["-m", "bradley-terry"]
    result = invoke("aggregate", files / "votes.csv", *method, *options, code=code)
    assert said in " ".join(result.stderr.split())
