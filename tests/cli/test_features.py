"""Features on the command line: what comes out is what the library gives, alone and beside preferences."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

import concordant as cc
from concordant.base.registry import METHODS
from concordant.data.features import Features
from concordant.data.splits import train_validation_split
from concordant.selection import cross_validate

Invoke = Callable[..., Result]
RANKERS = sorted(name for name in METHODS if METHODS[name].takes_features)


def svmlight(path: Path, features: Features, labels: cc.Labels, *, docids: bool = True) -> Path:
    """Write rows as sparse text; what is 0 is left out."""
    own = labels.align(features).label
    lines = []
    for row, (x, label) in enumerate(zip(features.X.tolist(), own.tolist(), strict=True)):
        instance, item = features.slots.where(row)
        cells = " ".join(f"{n}:{v!r}" for n, v in zip(features.names, x, strict=True) if v != 0)
        lines.append(f"{label:g} qid:{instance} {cells}" + (f" # docid = {item}" if docids else ""))
    path.write_text("\n".join([*lines, ""]))
    return path


@pytest.fixture(scope="module")
def data() -> tuple[Features, cc.Labels]:
    features, labels = cc.synthetic.graded_features(30, n_features=6, n_items=(4, 9), random_state=4)
    X = np.where(np.abs(features.X) < 0.3, 0.0, features.X)
    # What the last feature says, no line after the training part holds.
    X[features.slots.instance >= 20, 5] = 0.0
    return Features.from_codes(features.slots, X, features.names), labels


@pytest.fixture
def folder(tmp_path: Path, data: tuple[Features, cc.Labels]) -> Path:
    features, labels = data
    for name, part in (("train", slice(20)), ("vali", slice(20, 25)), ("test", slice(25, 30))):
        svmlight(tmp_path / f"{name}.txt", features[part], labels)
    return tmp_path


def scores(path: Path) -> dict[tuple[str, str], float]:
    frame = cc.read_runs(path).to_frame()
    return {(q, d): s for q, d, s in frame.select("instance", "item", "score").iter_rows()}


def as_dict(consensus: Any) -> dict[tuple[str, str], float]:
    return {consensus.slots.where(n): float(s) for n, s in enumerate(consensus.score)}


def json_of(result: Result) -> dict[str, Any]:
    content = json.loads(result.stdout)
    assert isinstance(content, dict)
    return content


@pytest.mark.parametrize("method", RANKERS)
def test_fit_and_aggregate_are_those_of_the_library(
    method: str, folder: Path, data: tuple[Features, cc.Labels], invoke: Invoke
) -> None:
    features, labels = data
    model = folder / "m.model"
    steps = "trees" if method == "boosted-trees" else "max_iter"
    told = invoke("fit", folder / "train.txt", "--method", method, "-p", "l2=0.1", "-p", f"{steps}=20", "-o", model)
    assert "instances" in told.stdout
    assert "and 6 features in" in told.stdout
    assert "the same features" in told.stderr
    invoke("aggregate", folder / "test.txt", "--model", model, "-o", folder / "out.trec")
    own = METHODS[method](l2=0.1, **{steps: 20}).fit(features[:20], labels)
    want = as_dict(own.predict(features[25:]))
    found = scores(folder / "out.trec")
    assert found.keys() == want.keys()
    assert [found[key] for key in want] == pytest.approx(list(want.values()), rel=1e-12, abs=1e-12)


def test_the_strongest_weights_are_shown_and_all_are_written(
    folder: Path, data: tuple[Features, cc.Labels], invoke: Invoke
) -> None:
    options = ("--method", "ranknet", "-p", "l2=0.1", "-o", folder / "m.model", "--features-out", folder / "w.csv")
    found = json_of(invoke("fit", folder / "train.txt", *options, "--json"))["results"]["features"]
    own = cc.RankNet(l2=0.1).fit(data[0][:20], data[1])
    by_weight = sorted(zip(own.feature_names_, own.coefficients_.tolist(), strict=True), key=lambda p: -abs(p[1]))
    assert [r["feature"] for r in found] == [name for name, _ in by_weight]
    assert [r["weight"] for r in found] == pytest.approx([weight for _, weight in by_weight])
    lines = (folder / "w.csv").read_text().splitlines()
    assert lines[0] == "feature,weight"
    assert [line.split(",")[0] for line in lines[1:]] == [name for name, _ in by_weight]
    shown = invoke("fit", folder / "train.txt", *options).stdout.splitlines()
    assert shown[1].split() == ["feature", "weight"]
    assert [line.split()[0] for line in shown[2:8]] == [name for name, _ in by_weight]
    hidden = invoke("fit", folder / "train.txt", *options[:2], "-p", "hidden=2", *options[-4:])
    assert "has learned no weights of features" in hidden.stderr
    squares = ("-p", "second_order=true", "-p", "min_correlation=0.01", "-p", "keep_first=true", "-p", "l2=0.1")
    found = json_of(invoke("fit", folder / "train.txt", "-m", "ranknet", *squares, *options[-4:], "--json"))
    names = {r["feature"] for r in found["results"]["features"]}
    assert {"1", "2", "3"} <= names
    assert any(" × " in name for name in names)


def test_passes_are_chosen_by_the_part_that_is_named(
    folder: Path, data: tuple[Features, cc.Labels], invoke: Invoke
) -> None:
    features, labels = data
    options = ("--method", "ranknet", "-p", "l2=[1, 0.01]", "-o", folder / "m.model", "--json")
    found = json_of(invoke("fit", folder / "train.txt", "--validation", folder / "vali.txt", *options))
    own = cc.RankNet(l2=(1, 0.01)).fit(features[:20], labels, validation=(features[20:25], labels))
    assert found["results"]["chosen"] == own.fit_info_.chosen
    assert found["results"]["validation"] == pytest.approx(own.fit_info_.validation)
    found = json_of(invoke("fit", folder / "train.txt", "--validation-part", "0.25", *options))
    kept, held = train_validation_split(features[:20], 0.25)
    own = cc.RankNet(l2=(1, 0.01)).fit(features[kept], labels[kept], validation=(features[held], labels[held]))
    assert found["results"]["instances"] == 15
    assert found["results"]["chosen"] == own.fit_info_.chosen
    assert found["results"]["validation"] == pytest.approx(own.fit_info_.validation)


def test_columns_that_no_line_holds_are_0(folder: Path, data: tuple[Features, cc.Labels], invoke: Invoke) -> None:
    assert cc.read_features(folder / "test.txt")[0].n_features == 5
    (folder / "test.txt.gz").write_bytes(gzip.compress((folder / "test.txt").read_bytes()))
    model = folder / "m.model"
    invoke("fit", folder / "train.txt", "--method", "pmop", "-p", "l2=0.1", "-o", model)
    told = invoke("aggregate", folder / "test.txt.gz", "--model", model, "-o", folder / "out.trec")
    assert "test.txt.gz: no line holds feature '6'; what is left out is 0." in told.stderr
    want = as_dict(cc.load(model).predict(data[0][25:]))
    assert scores(folder / "out.trec") == pytest.approx(want)
    # Counted from 0 in training and from 1, as it seems, in the test file.
    (folder / "zero.txt").write_text("2 qid:a 0:1 1:3\n0 qid:a 0:0.5 1:1\n1 qid:a 1:2\n")
    (folder / "one.txt").write_text("2 qid:b 1:3\n0 qid:b 1:1\n")
    invoke("fit", folder / "zero.txt", "--method", "ranknet", "-p", "l2=0.1", "-o", model)
    found = json_of(invoke("aggregate", folder / "one.txt", "--model", model, "--json"))["results"]
    own = cc.load(model).predict(Features(["b", "b"], ["1", "2"], [[0, 3], [0, 1]], ["0", "1"]))
    assert [r["score"] for r in found] == pytest.approx(own.score.tolist())


def test_features_that_were_not_learned_from_are_named(folder: Path, invoke: Invoke) -> None:
    model = folder / "m.model"
    invoke("fit", folder / "train.txt", "--method", "pmop", "-p", "l2=0.1", "-o", model)
    narrow = json_of(invoke("aggregate", folder / "test.txt", "--model", model, "--json"))["results"]
    wide = folder / "wide.txt"
    wide.write_text((folder / "test.txt").read_text().replace(" #", " 9:4 #"))
    found = invoke("aggregate", wide, "--model", model, "--json")
    assert json_of(found)["results"] == narrow
    assert "the model was fitted without feature '9'" in found.stderr


def test_a_table_must_have_every_column(folder: Path, data: tuple[Features, cc.Labels], invoke: Invoke) -> None:
    features, labels = data
    cc.write(features[:20], folder / "f.csv")
    cc.write(labels[:20], folder / "l.csv")
    model = folder / "m.model"
    refused = invoke("fit", folder / "f.csv", "--method", "pmop", "-o", model, code=1)
    assert "the input brings no labels. Name them: --labels QRELS." in refused.stderr
    invoke("fit", folder / "f.csv", "-l", folder / "l.csv", "--method", "pmop", "-p", "l2=0.1", "-o", model)
    table = np.column_stack([labels[:20].label, features[:20].slots.instance, features[:20].X])
    np.save(folder / "whole.npy", table)
    np.save(folder / "narrow.npy", table[:, :-2])
    found = json_of(invoke("aggregate", folder / "whole.npy", "--model", model, "--json"))["results"]
    assert len(found) == features[:20].n_slots
    refused = invoke("aggregate", folder / "narrow.npy", "--model", model, code=1)
    assert "narrow.npy has no 2 features such as ['5', '6'], which the model was fitted on." in refused.stderr


def test_features_that_are_not_known(folder: Path, invoke: Invoke) -> None:
    path = folder / "nan.txt"
    path.write_text("2 qid:a 1:nan 2:3\n0 qid:a 1:1 2:1\n1 qid:a 1:0.5 2:2\n")
    options = ("--method", "ranknet", "-p", "l2=0.1", "-o", folder / "m.model")
    refused = invoke("fit", path, *options, code=1)
    assert "cannot use feature '1' of item '1' of instance 'a': it is nan. Pass -p nan=mean" in refused.stderr
    invoke("fit", path, *options, "-p", "nan=mean")
    path.write_text("2 qid:a 1:4 2:3\n0 qid:a 1:1 2:1\n")
    invoke("fit", path, *options)
    path.write_text("2 qid:a 1:nan 2:3\n0 qid:a 1:1 2:1\n")
    invoke("aggregate", path, "--model", folder / "m.model", code=1)
    invoke("aggregate", path, "--model", folder / "m.model", "-p", "nan=mean")


def test_a_run_is_evaluated_by_the_labels_of_the_feature_file(
    folder: Path, data: tuple[Features, cc.Labels], invoke: Invoke
) -> None:
    model, out = folder / "m.model", folder / "out.trec"
    invoke("fit", folder / "train.txt", "--method", "pmop", "-p", "l2=0.1", "-o", model)
    invoke("aggregate", folder / "test.txt", "--model", model, "-o", out)
    found = json_of(invoke("evaluate", out, "--labels", folder / "test.txt", "--metrics", "err,ndcg@5", "--json"))
    own = cc.load(model).predict(data[0][25:])
    want = cc.evaluate(own, data[1][25:], "err,ndcg@5", convention="letor")
    assert found["params"]["convention"] == "letor"
    assert found["results"][0]["metrics"] == pytest.approx(want.mean)


def test_the_leaderboard_has_no_experts_to_count(folder: Path, invoke: Invoke) -> None:
    model = folder / "m.model"
    invoke("fit", folder / "train.txt", "--method", "pmop", "-p", "l2=0.1", "-o", model)
    told = invoke("aggregate", folder / "test.txt", "--model", model, "--rows", "2")
    assert told.stdout.splitlines()[1].split() == ["rank", "item", "score"]
    assert "n:" not in told.stderr
    assert "2 more instances" in told.stderr
    assert {"instance", "rank", "item", "score"} == set(
        json_of(invoke("aggregate", folder / "test.txt", "--model", model, "--json"))["results"][0]
    )


def test_compare_is_cross_validation(folder: Path, data: tuple[Features, cc.Labels], invoke: Invoke) -> None:
    features, labels = data
    options = ("--metrics", "err,ndcg@1,ndcg@5", "--folds", "3", "--json")
    found = json_of(
        invoke("compare", folder / "train.txt", "--methods", "pmop(l2=0.1),list-mle(l2=0.1),rrf", *options)
    )["results"]
    for name, method in (("pmop(l2=0.1)", cc.PMOP(l2=0.1)), ("list-mle(l2=0.1)", cc.ListMLE(l2=0.1))):
        own = cross_validate(
            method, features[:20], labels[:20], metrics="err,ndcg@1,ndcg@5", folds=3, convention="letor"
        )
        (mine,) = [r["metrics"] for r in found["methods"] if r["method"] == name]
        assert mine == pytest.approx(own.mean)
    assert found["left_out"] == {"rrf": "works on rank or rating or score, the input holds features of items"}
    refused = invoke("compare", folder / "train.txt", "--methods", "rrf,borda", code=1)
    assert f"Methods that learn from features: {', '.join(RANKERS)}." in refused.stderr
    default = json_of(invoke("compare", folder / "train.txt", "--folds", "2", "--metrics", "map", "--json"))
    assert default["params"]["methods"] == "pmop,list-mle,ranknet,lambdarank"
    refused = invoke("compare", folder / "train.txt", "--methods", "pmop", "--experts", code=1)
    assert "--experts evaluates the lists of experts; features hold none." in refused.stderr


def test_a_letor_folder_of_features_brings_its_folds(
    tmp_path: Path, data: tuple[Features, cc.Labels], invoke: Invoke
) -> None:
    features, labels = data
    for fold, parts in (
        (1, {"train": slice(10), "vali": slice(10, 20), "test": slice(20, 30)}),
        (2, {"train": slice(10, 20), "vali": slice(20, 30), "test": slice(10)}),
    ):
        for part, where in parts.items():
            (tmp_path / "ltr" / f"Fold{fold}").mkdir(parents=True, exist_ok=True)
            svmlight(tmp_path / "ltr" / f"Fold{fold}" / f"{part}.txt", features[where], labels)
    options = ("--methods", "ranknet(l2=[1,0.01])", "--metrics", "ndcg@5", "--json")
    found = json_of(invoke("compare", tmp_path / "ltr", *options))["results"]
    folds = cc.read_feature_folds(tmp_path / "ltr")
    own = cross_validate(cc.RankNet(l2=(1, 0.01)), folds=folds, metrics="ndcg@5")
    assert found["methods"][0]["metrics"] == pytest.approx(own.mean)
    assert "means of the 2 given folds" in found["about"][0]
    model = tmp_path / "m.model"
    invoke("fit", tmp_path / "ltr", "--fold", "2", "-m", "ranknet", "-p", "l2=[1,0.01]", "-o", model)
    want = cc.RankNet(l2=(1, 0.01)).fit(*folds[1].train, validation=tuple(folds[1].vali))
    assert cc.load(model).predict(features[:10]).score.tolist() == pytest.approx(
        want.predict(features[:10]).score.tolist()
    )


RUNS = "q1 Q0 d1 1 9 a\nq1 Q0 d2 2 8 a\nq1 Q0 d3 3 7 a\nq2 Q0 d1 1 5 a\nq2 Q0 d5 2 4 a\nq2 Q0 d6 3 3 a\n"
JUDGED = "q1 0 d1 0\nq1 0 d2 2\nq1 0 d3 1\nq2 0 d5 1\nq2 0 d6 2\nq2 0 d1 0\n"
KNOWN = (
    "0 qid:q2 1:0.5 2:1 #docid = d6\n0 qid:q1 1:1 2:3 #docid = d3\n0 qid:q1 2:2 #docid = d1\n"
    "0 qid:q1 1:4 #docid = d2\n0 qid:q2 1:0.1 2:7 #docid = d1\n0 qid:q2 1:2 2:1 #docid = d5\n"
)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "a.trec").write_text(RUNS)
    (tmp_path / "b.trec").write_text(RUNS.replace(" a\n", " b\n").replace("d1 1", "d2 1", 1).replace("d2 2", "d1 2", 1))
    (tmp_path / "qrels.txt").write_text(JUDGED)
    (tmp_path / "known.txt").write_text(KNOWN)
    return tmp_path


def test_features_beside_runs_are_matched_by_id(runs: Path, invoke: Invoke) -> None:
    inputs = (runs / "a.trec", runs / "b.trec")
    options = ("--labels", runs / "qrels.txt", "--method", "ranknet", "-p", "l2=0.1", "-o", runs / "m.model")
    told = invoke("fit", *inputs, "--features", runs / "known.txt", *options)
    assert "2 labelled instances, 2 experts and 2 features" in told.stdout
    assert "--model" in told.stderr
    assert told.stderr.rstrip().endswith("--features FILE")
    preferences, labels = cc.read_runs([str(p) for p in inputs]), cc.read_labels(runs / "qrels.txt")
    features, _ = cc.read_features(runs / "known.txt")
    own = cc.RankNet(l2=0.1).fit(preferences, labels, features=features)
    found = invoke("aggregate", *inputs, "--features", runs / "known.txt", "--model", runs / "m.model", "--json")
    want = as_dict(own.predict(preferences, features=features))
    assert {(r["instance"], r["item"]): r["score"] for r in json_of(found)["results"]} == pytest.approx(want)
    refused = invoke("aggregate", *inputs, "--model", runs / "m.model", code=1)
    assert "was fitted with 2 features of items beside the experts. Name those of the input: --features FILE." in (
        refused.stderr
    )
    (runs / "known.txt").write_text(KNOWN.replace("d6", "d9"))
    refused = invoke("aggregate", *inputs, "--features", runs / "known.txt", "--model", runs / "m.model", code=1)
    assert "has no features for 1 of 6 items, such as 'd6' of 'q2'." in refused.stderr


def test_several_files_of_features_and_a_validation_part(runs: Path, invoke: Invoke) -> None:
    first, second = (runs / name for name in ("one.txt", "two.txt"))
    lines = KNOWN.splitlines(keepends=True)
    first.write_text("".join(line for line in lines if "qid:q1" in line))
    second.write_text("".join(line for line in lines if "qid:q2" in line))
    for part in ("q1", "q2"):
        (runs / f"{part}.trec").write_text("".join(x for x in RUNS.splitlines(keepends=True) if x.startswith(part)))
    options = ("-l", runs / "qrels.txt", "-m", "ranknet", "-p", "l2=[1,0.01]", "-o", runs / "m.model", "--json")
    found = json_of(
        invoke(
            "fit",
            runs / "q1.trec",
            "--validation",
            runs / "q2.trec",
            *options,
            "--features",
            first,
            "--features",
            second,
        )
    )["results"]
    train, vali = cc.read_runs(str(runs / "q1.trec")), cc.read_runs(str(runs / "q2.trec"))
    labels, (features, _) = cc.read_labels(runs / "qrels.txt"), cc.read_features(runs / "known.txt")
    own = cc.RankNet(l2=(1, 0.01)).fit(train, labels[["q1"]], features=features, validation=(vali, labels, features))
    assert (found["chosen"], found["validation"]) == (own.fit_info_.chosen, pytest.approx(own.fit_info_.validation))


def test_rows_that_name_no_items_are_matched_by_their_order(runs: Path, invoke: Invoke) -> None:
    agg = runs / "agg.txt"
    agg.write_text(
        "2 qid:1 1:1 2:2 #docid = x\n0 qid:1 1:2 2:NULL #docid = y\n1 qid:1 1:3 2:1 #docid = z\n"
        "1 qid:2 1:NULL 2:2 #docid = x\n0 qid:2 1:1 2:1 #docid = w\n"
    )
    table = np.array([[2, 1, 0.5, 3], [0, 1, 1, 4], [1, 1, 0, 1], [1, 2, 7, 2], [0, 2, 1, 3]])
    np.save(runs / "f.npy", table)
    told = invoke(
        "fit", agg, "--features", runs / "f.npy", "--method", "ranknet", "-p", "l2=0.1", "-o", runs / "m.model"
    )
    assert "f.npy names no items: its rows are taken for the items of each instance in their order." in told.stderr
    preferences, labels = cc.read_letor(agg)
    own = cc.RankNet(l2=0.1).fit(preferences, labels, features=Features.from_codes(preferences.slots, table[:, 2:]))
    model = cc.load(runs / "m.model")
    assert isinstance(model, cc.RankNet)
    assert model.coefficients_.tolist() == pytest.approx(own.coefficients_.tolist())
    np.save(runs / "f.npy", table[:-1])
    refused = invoke("aggregate", agg, "--features", runs / "f.npy", "--model", runs / "m.model", code=1)
    assert "instance '2' has 2 items and 1 rows of features" in refused.stderr


def test_compare_with_features_beside_runs(runs: Path, invoke: Invoke) -> None:
    inputs = (runs / "a.trec", runs / "b.trec")
    options = (
        "-l",
        runs / "qrels.txt",
        "--methods",
        "rrf,ranknet(l2=0.1)",
        "--metrics",
        "map",
        "--folds",
        "2",
        "--json",
    )
    found = json_of(invoke("compare", *inputs, *options, "--features", runs / "known.txt"))["results"]["methods"]
    preferences, labels = cc.read_runs([str(p) for p in inputs]), cc.read_labels(runs / "qrels.txt")
    own = cross_validate(
        cc.RankNet(l2=0.1),
        preferences,
        labels,
        features=cc.read_features(runs / "known.txt")[0],
        metrics="map",
        folds=2,
    )
    values = {r["method"]: r["metrics"]["map"] for r in found}
    assert values["ranknet(l2=0.1)"] == pytest.approx(own.mean["map"])
    assert values["rrf"] == pytest.approx(
        cross_validate("rrf", preferences, labels, metrics="map", folds=2).mean["map"]
    )


def test_compare_gives_features_to_those_that_use_them_and_says_so(runs: Path, invoke: Invoke) -> None:
    inputs = (runs / "a.trec", runs / "b.trec")
    options = ("-l", runs / "qrels.txt", "--metrics", "ndcg@3", "--features", runs / "known.txt")
    told = invoke("compare", *inputs, *options, "--methods", "rrf,bradley-terry(prior=1),borda")
    assert "--features: used by bradley-terry(prior=1); not used by rrf, borda" in told.stdout
    found = json_of(invoke("compare", *inputs, *options, "--methods", "rrf,bradley-terry(prior=1)", "--json"))
    preferences, labels = cc.read_runs([str(p) for p in inputs]), cc.read_labels(runs / "qrels.txt")
    own = cc.BradleyTerry(prior=1).fit_predict(preferences, features=cc.read_features(runs / "known.txt")[0])
    values = {r["method"]: r["metrics"]["ndcg@3"] for r in found["results"]["methods"]}
    assert values["bradley-terry(prior=1)"] == pytest.approx(cc.evaluate(own, labels, "ndcg@3").mean["ndcg@3"])
    free = cc.BradleyTerry(prior=1, uncertainty="none").fit_predict(preferences)
    alone = cc.evaluate(free, labels, "ndcg@3").mean["ndcg@3"]
    assert alone != pytest.approx(values["bradley-terry(prior=1)"], abs=1e-3)
    refused = invoke("compare", *inputs, *options, "--methods", "rrf,borda", code=1)
    assert "none of the methods uses features; leave --features out." in refused.stderr
    assert "Methods that do: boosted-trees, bradley-terry," in refused.stderr


def test_bradley_terry_takes_features_on_the_command_line(runs: Path, invoke: Invoke) -> None:
    inputs = (runs / "a.trec", runs / "b.trec")
    given = ("--method", "bradley-terry", "-p", "prior=1", "--features", runs / "known.txt")
    found = json_of(invoke("aggregate", *inputs, *given, "--json"))["results"]
    preferences = cc.read_runs([str(p) for p in inputs])
    own = cc.BradleyTerry(prior=1)
    want = as_dict(own.fit_predict(preferences, features=cc.read_features(runs / "known.txt")[0]))
    assert {(r["instance"], r["item"]): r["score"] for r in found} == pytest.approx(want)
    fitted = invoke("fit", *inputs, *given, "-o", runs / "m.model", "--features-out", runs / "w.csv")
    assert "in units of the feature itself" in fitted.stdout
    lines = (runs / "w.csv").read_text().splitlines()[1:]
    weights = {name: float(weight) for name, weight in (line.split(",") for line in lines)}
    assert weights == pytest.approx(own.coefficients_)
    found = json_of(invoke("aggregate", *inputs, "--model", runs / "m.model", "--json"))["results"]
    assert {(r["instance"], r["item"]): r["score"] for r in found} == pytest.approx(want)
    refused = invoke("aggregate", *inputs, "--model", runs / "m.model", "--features", runs / "known.txt", code=1)
    assert "this bradley-terry has kept the features it was fitted with; leave --features out." in refused.stderr


def test_rankers_learn_from_runs_like_any_other_method(runs: Path, invoke: Invoke) -> None:
    inputs = (runs / "a.trec", runs / "b.trec")
    options = ("-l", runs / "qrels.txt", "-m", "pmop", "-p", "l2=0.1", "-o", runs / "m.model")
    invoke("fit", *inputs, *options)
    found = json_of(invoke("aggregate", *inputs, "--model", runs / "m.model", "--json"))["results"]
    preferences = cc.read_runs([str(p) for p in inputs])
    own = cc.PMOP(l2=0.1).fit(preferences, cc.read_labels(runs / "qrels.txt"))
    want = as_dict(own.predict(preferences))
    assert {(r["instance"], r["item"]): r["score"] for r in found} == pytest.approx(want)
    refused = invoke("aggregate", runs / "known.txt", "--model", runs / "m.model", code=1)
    assert "the pmop in" in refused.stderr
    assert "was fitted on preferences." in refused.stderr
    refused = invoke("aggregate", *inputs, "--features", runs / "known.txt", "--model", runs / "m.model", code=1)
    assert "this pmop was fitted without features of items; leave --features out." in refused.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["aggregate", "test.txt"], "test.txt holds features of items, from which these methods learn"),
        (["aggregate", "test.txt"], "--format letor-agg"),
        (["aggregate", "test.txt", "--method", "borda"], "borda takes preferences or comparisons, not features."),
        (
            ["aggregate", "test.txt", "--method", "pmop"],
            "concordant fit INPUT... [--labels QRELS] --method pmop -o MODEL",
        ),
        (["aggregate", "test.txt", "--model", "m.model", "--weights", "a=2"], "--weights is about experts"),
        (["aggregate", "test.txt", "--model", "m.model", "--experts-out", "x.csv"], "--experts-out is about experts"),
        (["aggregate", "a.trec", "--model", "m.model"], "was fitted on features of items alone."),
        (["aggregate", "a.trec", "--features", "test.txt"], "rrf does not use features; leave --features out."),
        (
            ["aggregate", "test.txt", "--features", "train.txt", "--model", "m.model"],
            "the input holds features already",
        ),
        (
            ["fit", "test.txt", "--method", "crf", "-o", "x.model"],
            "crf takes preferences or comparisons, not features.",
        ),
        (
            ["fit", "a.trec", "--features", "qrels.txt", "-l", "qrels.txt", "-m", "pmop", "-o", "x"],
            "no features, but labels",
        ),
        (["fit", "train.txt", "--validation", "a.trec", "-m", "pmop", "-o", "x"], "--validation must hold the same"),
        (["fit", "train.txt", "--fold", "1", "-m", "pmop", "-o", "x"], "the input brings no folds"),
        (["evaluate", "test.txt"], "concordant evaluate OUT --labels"),
        (
            ["fit", "bad.txt", "-m", "pmop", "-o", "x"],
            "bad.txt:4: feature 1 must be a finite number or nan, found 'x'.",
        ),
    ],
)
def test_what_cannot_be_done_says_what_can(
    args: list[str], message: str, folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    Path("a.trec").write_text(RUNS)
    Path("qrels.txt").write_text(JUDGED)
    Path("bad.txt").write_text("1 qid:a 1:1\n0 qid:a 1:2\n0 qid:a 1:0.5\n2 qid:a 1:x\n")
    cc.RankNet(l2=0.1).fit(*cc.read_features("train.txt")).save("m.model")
    refused = invoke(*args, code=1)
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_table_of_methods_says_who_takes_features(invoke: Invoke) -> None:
    found = json_of(invoke("methods", "--json"))["results"]
    assert sorted(r["name"] for r in found if r["features"]) == RANKERS
    assert "concordant fit TRAIN.txt --method ranknet -o MODEL" in invoke("methods", "ranknet").stdout


@pytest.mark.data
def test_the_features_and_the_experts_of_mq2008_together(data_dir: Path, tmp_path: Path, invoke: Invoke) -> None:
    agg, ltr = data_dir / "MQ2008-agg" / "Fold1", data_dir / "MQ2008-ltr46-fold1"
    model, out = tmp_path / "both.model", tmp_path / "both.trec"
    told = invoke(
        "fit", agg / "train.txt", "--features", ltr / "train.npy", "--method", "pmop", "-p", "l2=0.1", "-o", model
    )
    assert "25 experts and 46 features" in told.stdout
    assert "names no items" in told.stderr
    invoke("aggregate", agg / "test.txt", "--features", ltr / "Fold1-test.txt", "--model", model, "-o", out)
    # Items of the one file are named, those of the other are numbered: both ways to the same scores.
    again = tmp_path / "again.trec"
    invoke("aggregate", agg / "test.txt", "--features", ltr / "test.npy", "--model", model, "-o", again)
    assert out.read_text() == again.read_text()
    assert len(scores(out)) == 2874


@pytest.mark.data
def test_lightgbm_files_with_side_files(data_dir: Path, tmp_path: Path, invoke: Invoke) -> None:
    folder = data_dir / "lightgbm-lambdarank"
    model, out = tmp_path / "m.model", tmp_path / "out.trec"
    invoke("fit", folder / "rank.train", "--method", "pmop", "-p", "l2=0.1", "-o", model)
    invoke("aggregate", folder / "rank.test", "--model", model, "-o", out)
    train, test = cc.read_features(folder / "rank.train"), cc.read_features(folder / "rank.test", n_features=300)
    want = as_dict(cc.PMOP(l2=0.1).fit(*train).predict(test[0]))
    assert scores(out) == pytest.approx(want)
    found = json_of(invoke("evaluate", out, "-l", folder / "rank.test", "--metrics", "ndcg@10", "--json"))["results"]
    assert found[0]["instances"] == 50
