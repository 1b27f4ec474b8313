"""Models from the command line: what is learned from and chosen by, what is written, what an interrupt leaves."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

import concordant as cc
from concordant.cli.fit import _experts_table
from concordant.data.splits import train_validation_split
from concordant.metrics.evaluation import expert_consensus

Invoke = Callable[..., Result]
SOURCE = Path(__file__).resolve().parents[2] / "src"
METHOD = "listwise-linear"
SAMPLE = cc.synthetic.meta_search(30, n_items=(12, 15), random_state=5)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with runs of experts good and bad, their qrels, and other runs to choose by."""
    folder = tmp_path_factory.mktemp("search")
    for name, part in (("runs", slice(0, 20)), ("more", slice(20, 30))):
        votes = SAMPLE.preferences[part]
        (folder / name).mkdir()
        for expert in votes.experts:
            cc.write_run(expert_consensus(votes, expert), folder / name / f"{expert}.trec", tag=expert)
    rows = SAMPLE.labels.to_frame().to_dicts()
    (folder / "qrels.txt").write_text("".join(f"{r['instance']} 0 {r['item']} {r['label']:.0f}\n" for r in rows))
    return folder


def training(data: Path) -> tuple[cc.Preferences, cc.Labels]:
    return cc.read_runs(data / "runs"), cc.read_labels(data / "qrels.txt")


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return np.array_equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(left[k], right[k]) for k in left)
    return bool(left == right)


def same(left: cc.Aggregator, right: cc.Aggregator) -> bool:
    """Return whether two methods learned the same, to the bit."""
    names = [n for n in left.__dict__ if n.endswith("_") and n not in ("fit_info_", "consensus_")]
    assert names
    return [n for n in names if not equal(getattr(left, n), getattr(right, n))] == []


def fit(invoke: Invoke, data: Path, out: Path, *args: object, code: int = 0) -> Result:
    return invoke("fit", data / "runs", "-l", data / "qrels.txt", "-m", METHOD, "-o", out, *args, code=code)


def test_the_model_is_that_of_the_library_and_aggregates(data: Path, tmp_path: Path, invoke: Invoke) -> None:
    out = tmp_path / "m.model"
    result = fit(invoke, data, out)
    votes, labels = training(data)
    expected = cc.METHODS[METHOD]().fit(votes, labels)
    model = cc.load(out)
    assert same(model, expected)
    assert model.fit_info_.validation == expected.fit_info_.validation
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.model"]
    first, chosen, value, head, *_ = result.stdout.splitlines()
    assert first.startswith("listwise-linear learned from 20 labelled instances and 8 experts in ")
    assert chosen.startswith("chosen: ")
    assert value == f"ndcg@10 {expected.fit_info_.validation:.4f} held out in cross-validation"
    assert head.split()[:2] == ["expert", "weight"]
    assert f"wrote {out}: listwise-linear" in result.stderr
    assert f"concordant aggregate INPUT... --model {out}" in result.stderr
    fused = tmp_path / "fused.trec"
    invoke("aggregate", data / "more", "--model", out, "-o", fused, "-q")
    consensus = expected.predict(cc.read_runs(data / "more"))
    cc.write_run(consensus, tmp_path / "same.trec", tag=METHOD)
    assert fused.read_text() == (tmp_path / "same.trec").read_text()


def test_good_experts_are_trusted_bad_ones_inverted_and_the_rest_ignored(
    data: Path, tmp_path: Path, invoke: Invoke
) -> None:
    result = fit(invoke, data, tmp_path / "m", "--experts-out", tmp_path / "e.csv", "--json")
    content = json.loads(result.stdout)
    assert content["command"] == "fit"
    results = content["results"]
    assert {"transform", "l2"} <= set(results["chosen"])
    assert results["metric"] == "ndcg@10"
    assert results["labels"]["usable"] == 20
    weight = {e["expert"]: e["weight"] for e in results["experts"]}
    # Their qualities are 2, 2, 1.5, .5, .5, 0, -1.5 and -2.
    assert min(weight["e1"], weight["e2"], weight["e3"]) > abs(weight["e6"])
    assert max(weight["e7"], weight["e8"]) < -abs(weight["e6"])
    with (tmp_path / "e.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {r["expert"]: float(r["weight"]) for r in rows} == pytest.approx(weight)
    text = fit(invoke, data, tmp_path / "m").stdout
    assert "inverted" in text
    assert text.index("e1 ") < text.index("e8 ")
    assert "8 experts: " in text


def test_shared_weights_serve_experts_never_seen(data: Path, tmp_path: Path, invoke: Invoke) -> None:
    fit(invoke, data, tmp_path / "m", "-p", "weights=consensus", "-q")
    line = (data / "more" / "e1.trec").read_text().splitlines()[0].rsplit(" ", 1)[0]
    (tmp_path / "new.trec").write_text(f"{line} newcomer\n")
    args = ("aggregate", data / "more", tmp_path / "new.trec", "--model", tmp_path / "m")
    invoke(*args, "--experts-out", tmp_path / "e.csv", "-q")
    with (tmp_path / "e.csv").open() as file:
        weights = {r["expert"]: float(r["weight"]) for r in csv.DictReader(file)}
    assert set(weights) == {*(f"e{k}" for k in range(1, 9)), "newcomer"}
    assert len(set(weights.values())) == 1


def test_a_validation_input_is_chosen_by(data: Path, tmp_path: Path, invoke: Invoke) -> None:
    votes, labels = training(data)
    more = cc.read_runs(data / "more")
    expected = cc.METHODS[METHOD]().fit(votes, labels, validation=(more, labels))
    for options in (("--validation-labels", data / "qrels.txt"), ()):
        out = fit(invoke, data, tmp_path / "m", "--validation", data / "more", *options).stdout
        assert f"ndcg@10 {expected.fit_info_.validation:.4f} on the validation part" in out
        assert same(cc.load(tmp_path / "m"), expected)


def test_a_part_is_held_out_to_choose_by(data: Path, tmp_path: Path, invoke: Invoke) -> None:
    votes, labels = training(data)
    split = train_validation_split(votes, 0.25)
    expected = cc.METHODS[METHOD]().fit(votes[split.train], labels, validation=(votes[split.test], labels))
    out = fit(invoke, data, tmp_path / "m", "--validation-part", 0.25).stdout
    assert "learned from 15 labelled instances" in out
    assert "on 5 instances held out" in out
    assert same(cc.load(tmp_path / "m"), expected)


def test_a_fold_of_a_letor_folder(tmp_path: Path, invoke: Invoke) -> None:
    parts = {"train": slice(0, 14), "vali": slice(14, 20), "test": slice(20, 30)}
    for name, part in parts.items():
        votes = SAMPLE.preferences[part].to_ranks()
        path = tmp_path / "agg" / "Fold1" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        cc.write_letor(votes, path, labels=SAMPLE.labels)
    args = ("fit", tmp_path / "agg", "-m", METHOD, "-o", tmp_path / "m")
    out = invoke(*args, "--fold", 1).stdout
    assert "learned from 14 labelled instances" in out
    assert "on the vali part of fold 1" in out
    train, vali, _ = cc.read_letor_folds(tmp_path / "agg")[0]
    expected = cc.METHODS[METHOD]().fit(*train, validation=vali)
    assert same(cc.load(tmp_path / "m"), expected)
    assert "learned from 30 labelled instances" in invoke(*args).stdout
    wrong = invoke(*args, "--fold", 2, code=1).stderr
    assert wrong == "ParameterError: --fold 2: the input brings folds 1 to 1.\n"


def test_methods_that_learn_without_labels(data: Path, tmp_path: Path, invoke: Invoke) -> None:
    args = ("fit", data / "runs", "-m", "ulara", "-o", tmp_path / "m", "-p", "eta=0.5")
    result = invoke(*args)
    assert "ulara learned from 20 instances and 8 experts" in result.stdout
    assert "chosen" not in result.stdout
    model = cc.load(tmp_path / "m")
    assert same(model, cc.METHODS["ulara"](eta=0.5).fit(cc.read_runs(data / "runs")))
    told = invoke(*args, "-l", data / "qrels.txt", "--validation", data / "more").stderr
    assert "warning: ulara learns without labels; --labels is ignored." in told
    assert "warning: ulara learns without labels; --validation is ignored." in told
    nothing = invoke("fit", data / "runs", "-m", "rrf", "-o", tmp_path / "m", "-p", "k=7").stdout
    assert nothing == "rrf has nothing to learn: the model holds its parameters.\n"
    args = ("fit", data / "runs", "-m", "rrf", "-o", tmp_path / "m", "-p", "k=7", "--experts-out", tmp_path / "e.csv")
    assert "e.csv is not written" in invoke(*args).stderr
    assert cc.load(tmp_path / "m").get_params()["k"] == 7


def test_votes_of_judges(files: Path, invoke: Invoke) -> None:
    args = ("fit", files / "votes.csv", "-m", "bradley-terry", "-p", "reliability=true", "-o", files / "m")
    content = json.loads(invoke(*args, "--json").stdout)
    assert {e["expert"] for e in content["results"]["experts"]} == {"ann", "bob", "cid"}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["-m", "listwise-linear", "-o", "m"], "the input brings no labels. Name them: --labels QRELS."),
        (["-m", "nothing", "-o", "m"], "no method 'nothing'"),
        (["-m", "rrf", "-o", "no/such/m"], "cannot write 'no/such/m': there is no folder"),
        (["-m", "rrf", "-o", "."], "cannot write '.': it is a folder"),
        (["-m", "rrf", "-o", "m", "-p", "k=-3"], "'k' parameter of RRF"),
        (["-m", "rrf", "-o", "m", "--fold", "3"], "the input brings no folds"),
        (["-m", "rrf", "-o", "m.gz"], "models are not compressed"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_written(
    data: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, args: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in invoke("fit", data / "runs", *args, code=1).stderr
    assert list(tmp_path.iterdir()) == []


def test_resuming_without_a_checkpoint_begins_anew_and_says_so(data: Path, tmp_path: Path, invoke: Invoke) -> None:
    result = fit(invoke, data, tmp_path / "m", "--resume")
    assert (
        f"there is no checkpoint '{tmp_path / 'm'}.checkpoint' to resume from; the fit starts from the beginning"
        in result.stderr
    )


def test_a_checkpoint_that_was_named_stays_and_one_of_another_fit_is_refused(
    data: Path, tmp_path: Path, invoke: Invoke
) -> None:
    mark = tmp_path / "mark"
    fit(invoke, data, tmp_path / "m", "--checkpoint", mark)
    assert mark.exists()
    other = fit(invoke, data, tmp_path / "n", "--checkpoint", mark, "--resume", "-p", "cv=3", code=1).stderr
    assert f"FormatError: {mark}: the checkpoint of another fit" in other
    assert not (tmp_path / "n").exists()
    as_model = invoke("aggregate", data / "more", "--model", mark, code=1).stderr
    assert "holds a checkpoint of an unfinished fit, not a saved method" in as_model


# Real signals in a real process, at a pass of our choosing.

DRIVER = """
import os, sys
from concordant.learning import training
number, at, *args = sys.argv[1:]
report = training.report_progress
def tell(done, total):
    report(done, total)
    if done == int(at):
        os.kill(os.getpid(), int(number))
training.report_progress = tell
from concordant.cli.app import main
sys.argv = ["concordant", *args]
main()
"""


def broken_off(
    number: int, at: int, *args: object, code: int, driver: str = DRIVER
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, which is sent a signal after so many passes."""
    command = [sys.executable, "-c", driver, str(int(number)), str(at), *map(str, args)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(SOURCE)}, timeout=300
    )
    assert done.returncode == code, done.stderr
    return done


# What trains in passes, by chance and without, with a validation part and without, ended by either signal.
BREAKS = [
    (signal.SIGINT, "listwise-linear", (), 13),
    (signal.SIGTERM, "svd-rank", ("-p", "passes=10"), 10),
    (signal.SIGINT, "crf", ("-p", "passes=10"), 10),
    (signal.SIGTERM, "crf", ("-p", "passes=10", "--validation-part", "0.3"), 10),
]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "method", "options", "passes"), BREAKS)
def test_an_interrupted_fit_keeps_the_best_so_far_and_is_resumed_to_the_bit(
    data: Path, tmp_path: Path, invoke: Invoke, number: int, method: str, options: tuple[str, ...], passes: int
) -> None:
    out, whole, code = tmp_path / "m", tmp_path / "whole", 128 + number
    args = ("fit", data / "runs", "-l", data / "qrels.txt", "-m", method, *options, "-o")
    done = broken_off(number, 2, *args, out, code=code)
    assert "Traceback" not in done.stderr
    assert f"interrupted after pass 2 of {passes}: {out} holds the best model so far" in done.stderr
    assert f"--resume goes on from {out}.checkpoint" in done.stderr
    early = cc.load(out)
    assert early.fit_info_.interrupted == f"after pass 2 of {passes}"
    assert early.fit_info_.n_iter == 2
    early.predict(cc.read_runs(data / "more"))
    # Broken off again on the way.
    again = broken_off(number, 5, *args, out, "--resume", "--json", "-q", code=code)
    assert json.loads(again.stdout)["results"]["interrupted"] == f"after pass 5 of {passes}"
    invoke(*args, out, "--resume")
    invoke(*args, whole)
    resumed, straight = cc.load(out), cc.load(whole)
    assert same(resumed, straight)
    assert resumed.fit_info_.trace == straight.fit_info_.trace
    assert resumed.fit_info_.chosen == straight.fit_info_.chosen
    assert resumed.fit_info_.interrupted == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "whole"]


# What goes in steps: the signal comes when a step has been noted.
STEPS_DRIVER = """
import functools, os, sys
from concordant.learning import checkpoints
number, at, *args = sys.argv[1:]
checkpoints.checkpoint = functools.partial(checkpoints.checkpoint, every=0.0)
note = checkpoints.StepCheckpoint.save
def tell(self, done, state):
    note(self, done, state)
    if done == int(at):
        os.kill(os.getpid(), int(number))
checkpoints.StepCheckpoint.save = tell
from concordant.cli.app import main
sys.argv = ["concordant", *args]
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("mpm", ("-p", "adherence=learned", "-p", "uncertainty=none")),
        ("extended-mallows", ("-p", "e_step=sampling", "-p", "max_iter=6")),
        ("cps", ("-p", "adherence=supervised", "-l")),
    ],
)
def test_a_fit_in_steps_is_broken_off_killed_and_resumed_to_the_byte(
    data: Path, tmp_path: Path, invoke: Invoke, method: str, options: tuple[str, ...]
) -> None:
    labels = (data / "qrels.txt",) if "-l" in options else ()
    out, whole = tmp_path / "m", tmp_path / "whole"
    args = ("fit", data / "runs", "-m", method, *options, *labels, "-o")
    done = broken_off(signal.SIGINT, 1, *args, out, code=130, driver=STEPS_DRIVER)
    assert "Traceback" not in done.stderr
    early = cc.load(out)
    where = early.fit_info_.interrupted
    assert where.startswith("after step 1 of ")
    assert f"interrupted {where}: {out} holds the best model so far" in done.stderr
    assert f"--resume goes on from {out}.checkpoint" in done.stderr
    assert f"{type(early).__name__} was interrupted {where}" in done.stderr
    early.predict(cc.read_runs(data / "runs"))
    broken_off(signal.SIGKILL, 3, *args, out, "--resume", code=-9, driver=STEPS_DRIVER)
    assert cc.load(out).fit_info_.n_iter == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "m.checkpoint"]
    invoke(*args, out, "--resume")
    invoke(*args, whole)
    models = [cc.load(path) for path in (out, whole)]
    for model, path in zip(models, (out, whole), strict=True):
        model.fit_info_.seconds = 0.0
        model.save(path)
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "whole"]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interrupt_within_the_first_pass_of_a_long_one_says_how_to_go_on(
    data: Path, tmp_path: Path, invoke: Invoke
) -> None:
    driver = STEPS_DRIVER.replace("checkpoints.StepCheckpoint.save", "training._PassCheckpoint.save")
    driver = driver.replace("import checkpoints", "import checkpoints, training")
    out, whole = tmp_path / "m", tmp_path / "whole"
    args = ("fit", data / "runs", "-l", data / "qrels.txt", "-m", "crf", "-p", "solver=lbfgs", "-p", "l2=0.01", "-o")
    done = broken_off(signal.SIGINT, 2, *args, out, code=130, driver=driver)
    assert f"nothing is learned yet; the same command with --resume goes on from {out}.checkpoint" in done.stderr
    assert not out.exists()
    again = broken_off(signal.SIGTERM, 4, *args, out, "--resume", code=143, driver=driver)
    assert "Traceback" not in again.stderr
    invoke(*args, out, "--resume")
    invoke(*args, whole)
    assert same(cc.load(out), cc.load(whole))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "whole"]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interrupt_before_the_first_pass_leaves_what_was_there(data: Path, tmp_path: Path) -> None:
    (tmp_path / "m").write_text("what was there")
    code = DRIVER.replace("training.report_progress = tell", "training._split = lambda *a: tell(0, 1)")
    command = [sys.executable, "-c", code, "2", "0", "fit", str(data / "runs"), "-l", str(data / "qrels.txt")]
    done = subprocess.run(
        [*command, "-m", METHOD, "-o", str(tmp_path / "m")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        timeout=300,
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr == "interrupted\n"
    assert (tmp_path / "m").read_text() == "what was there"
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_method_that_could_learn_from_labels_says_how(data: Path, tmp_path: Path, invoke: Invoke) -> None:
    for name, ways in (("rrf", "-p k=learned or -p weights=learned"), ("cps", "-p adherence=supervised")):
        args = ("fit", data / "runs", "-l", data / "qrels.txt", "-m", name, "-o", tmp_path / "m")
        assert f"--labels is ignored. It learns from them with {ways}." in invoke(*args).stderr
    args = ("fit", data / "runs", "-l", data / "qrels.txt", "-m", "borda", "-o", tmp_path / "m")
    assert "It learns" not in invoke(*args).stderr


def test_candidates_are_listed_in_brackets(data: Path, tmp_path: Path, invoke: Invoke) -> None:
    args = ("-p", "l2=0.1", "-p", 'transform=["binary", "log"]', "--json")
    content = json.loads(fit(invoke, data, tmp_path / "m", *args).stdout)
    assert content["params"]["params"]["transform"] == ["binary", "log"]
    assert cc.load(tmp_path / "m").transform == ("binary", "log")
    expected = cc.ListwiseLinear(l2=0.1, transform=("binary", "log")).fit(*training(data))
    assert content["results"]["chosen"] == expected.fit_info_.chosen


def test_files_with_as_many_instances_but_not_the_same_are_matched(data: Path, tmp_path: Path, invoke: Invoke) -> None:
    # As many topics judged as retrieved, one of them another: by a library call two sequences may have been mixed up.
    votes, labels = training(data)
    lines = (data / "qrels.txt").read_text().splitlines(keepends=True)
    kept = [line for line in lines if line.split()[0] in votes.instances.codes]
    first = votes.instances[0]
    other = tmp_path / "qrels.txt"
    other.write_text("".join(line.replace(f"{first} ", "unheard-of ", 1) for line in kept))
    assert len(cc.read_labels(other)) == len(votes)
    args = ("fit", data / "runs", "-l", other, "-m", METHOD, "-o", tmp_path / "m", "--json")
    counts = json.loads(invoke(*args).stdout)["results"]["labels"]
    assert (counts["instances"], counts["labelled"]) == (20, 19)
    assert same(cc.load(tmp_path / "m"), cc.ListwiseLinear().fit(votes, labels[votes.instances[1:].tolist()]))
    assert "rrf" in invoke("compare", data / "runs", "-l", other, "-m", f"rrf,{METHOD}").stdout
    other.write_text("".join(f"Q{line}" for line in kept))
    refused = invoke(*args, code=1).stderr
    assert "only 0 of 20 instances have labels" in refused
    assert "written alike" in refused


def test_where_the_table_of_experts_goes_is_looked_at_before_the_fit(
    data: Path, tmp_path: Path, invoke: Invoke
) -> None:
    for place, words in (("e.xlsx", "Use .csv, .tsv, .jsonl or .parquet"), ("no/e.csv", "there is no folder")):
        result = fit(invoke, data, tmp_path / "m", "--experts-out", tmp_path / place, code=1)
        assert words in result.stderr
    assert not (tmp_path / "m").exists()


def test_a_table_that_is_too_wide_says_less() -> None:
    model = cc.ListwiseLinear().fit(*cc.synthetic.labelled_runs(20, quality=(2.0, 0.5, -1.0), random_state=1))
    learned = model.learned_experts()
    experts = [dict(zip(learned, row, strict=True)) for row in zip(*learned.values(), strict=True)]
    full, narrow, narrowest = (_experts_table(experts, room) for room in (None, 80, 40))
    assert [len(t.columns) for t in (full, narrow, narrowest)] == [7, 7, 3]
    assert {row[-1] for row in narrow.rows} <= {"trusted", "ignored", "inverted"}
    assert any(row[-1].startswith("trusted: what it puts first goes up") for row in full.rows)
    assert max(map(len, narrow.to_text().splitlines()[:-1])) <= narrow.width <= 80
    assert "--experts-out" not in full.caption
    assert narrow.caption.endswith("--experts-out FILE writes all")


def test_auto_says_what_it_tried_and_writes_what_it_chose(data: Path, tmp_path: Path, invoke: Invoke) -> None:
    out = tmp_path / "m.model"
    # Hardly any time: the two methods that are kept by default are compared, and nothing else.
    given = ["fit", data / "runs", "-l", data / "qrels.txt", "-m", "auto", "-p", "budget=1e-6", "-p", "folds=2"]
    result = invoke(*given, "-o", out)
    chosen = cc.load(out).name
    assert chosen in ("rrf", "comb-sum")
    assert "not tried: the time was used up" in result.stdout
    assert f"{chosen} is kept" in result.stdout
    assert f"wrote {out}: {chosen}" in result.stderr
    results = json.loads(invoke(*given, "-o", out, "--json").stdout)["results"]
    assert results["method"] == chosen
    assert [row["name"] for row in results["tried"]][:3] == ["rrf", "comb-sum", "comb-mnz"]
    assert results["why"].startswith(f"{chosen} is kept")
    misspelt = invoke("fit", data / "runs", "-l", data / "qrels.txt", "-m", "auto(bugdet=3)", "-o", out, code=1)
    assert "Auto has no parameter 'bugdet'. Did you mean 'budget'?" in misspelt.output
    compared = ["compare", data / "runs", "-l", data / "qrels.txt", "--methods", "rrf,auto(budget=1e-6)"]
    rows = json.loads(invoke(*compared, "--folds", "2", "--json").stdout)["results"]["methods"]
    assert {row["method"] for row in rows} == {"rrf", "auto(budget=1e-6)"}


def test_a_blend_is_written_in_brackets(data: Path, tmp_path: Path, invoke: Invoke) -> None:
    out = tmp_path / "m.model"
    given = ["-m", "blend(listwise-linear(l2=0.1), borda)", "-p", "cv=2"]
    result = invoke("fit", data / "runs", "-l", data / "qrels.txt", *given, "-o", out)
    model = cc.load(out)
    expected = cc.Blend(members=[cc.ListwiseLinear(l2=0.1), "borda"], cv=2).fit(*training(data))
    assert same(model.members_[0], expected.members_[0])
    assert np.array_equal(model.member_weights_, expected.member_weights_)
    assert "weight of borda=" in result.stdout
