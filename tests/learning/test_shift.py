"""A fitted method remembers how deep its training lists went, answers for deeper ones, and says what differs."""

from __future__ import annotations

import math
import tarfile
import warnings
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import concordant as cc
from concordant.cli._group import build
from concordant.errors import DataShiftWarning, FormatError
from concordant.features.expert_features import WeightBlocks, potential_scores, potentials
from concordant.learning.shift import PartialSummary, TrainingSummary

Sample = tuple[cc.Preferences, cc.Labels]
Make = Callable[[], Any]

LEARNERS: dict[str, Make] = {
    "listwise": cc.ListwiseLinear,
    "listwise, below": lambda: cc.ListwiseLinear(missing="below"),
    "listwise, mixed": lambda: cc.ListwiseLinear(weights="mixed", min_lists=10),
    "crf": lambda: cc.CRF(passes=20),
    "svd-rank": lambda: cc.SVDRank(passes=20),
    "svd-rank, below": lambda: cc.SVDRank(passes=20, missing="below"),
    "ranknet": lambda: cc.RankNet(max_iter=30),
    "ranknet, svd": lambda: cc.RankNet(max_iter=30, expert_features="svd"),
}


@pytest.fixture(scope="module")
def sample() -> Sample:
    skill = {"a": 2.0, "b": 1.0, "c": 0.0, "d": 0.0, "e": 0.2, "f": -0.5}
    made = cc.synthetic.runs(60, skill=skill, top=100, pool=1000, relevant=0.05, random_state=0)
    return made.preferences, made.labels


@pytest.fixture(scope="module")
def fitted(sample: Sample) -> dict[str, Any]:
    runs, labels = sample
    makes = LEARNERS | {"rrf": lambda: cc.RRF(weights="learned")}
    return {name: makes[name]().fit(runs[:30].top(10), labels) for name in ("listwise", "rrf", "svd-rank", "ranknet")}


def as_files(runs: cc.Preferences, folder: Path) -> list[str]:
    """Return TREC files that hold the runs, one for each expert."""
    rows = runs.to_frame()
    for expert in runs.experts:
        own = rows.filter(rows["expert"] == expert).select("instance", "item", "score")
        (folder / f"{expert}.trec").write_text("".join(f"{q} Q0 {i} 1 {v!r} {expert}\n" for q, i, v in own.iter_rows()))
    return [str(folder / f"{expert}.trec") for expert in runs.experts]


def mean_ap(consensus: cc.Consensus, labels: cc.Labels) -> float:
    return cc.evaluate(consensus, labels, ["map"], convention="trec").mean["map"]


@pytest.mark.parametrize("name", LEARNERS)
def test_fitted_shallow_it_stays_above_plain_fusion_deep_and_warns_by_name(name: str, sample: Sample) -> None:
    runs, labels = sample
    train, test, truth = runs[:30], runs[30:], labels[30:]
    shallow = LEARNERS[name]().fit(train.top(10), labels)
    owner = type(shallow).__name__
    with pytest.warns(DataShiftWarning, match=rf"^{owner} .*up to 10 places .*up to 100 .*top\(10\)") as caught:
        found = mean_ap(shallow.predict(test), truth)
    assert len(caught) == 1
    assert found > 1.5 * mean_ap(cc.RRF().fit_predict(test), truth)
    same = LEARNERS[name]().fit(train, labels)
    # Weights learned at the depth asked about are better, but not by much.
    assert found > 0.94 * mean_ap(same.predict(test), truth)


def test_three_equal_systems_fitted_shallow_do_not_collapse() -> None:
    made = cc.synthetic.runs(
        60, skill={"a": 1.0, "b": 0.8, "c": 0.6}, top=200, pool=1000, relevant=0.05, random_state=0
    )
    runs, labels = made.preferences, made.labels
    model = cc.ListwiseLinear().fit(runs[:30].top(10), labels)
    with pytest.warns(DataShiftWarning, match="10 places"):
        found = mean_ap(model.predict(runs[30:]), labels[30:])
    assert found > 0.95 * mean_ap(cc.RRF().fit_predict(runs[30:]), labels[30:])


@pytest.mark.data
@pytest.mark.parametrize("asked", [100, 1000])
def test_trec3_fitted_on_the_first_twenty(asked: int, data_dir: Path, tmp_path: Path) -> None:
    with tarfile.open(data_dir / "trec3-adhoc" / "TREC-3-runs.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    some = sorted((tmp_path / "TREC-3").glob("input.*"))[::3]
    labels = cc.read_labels(data_dir / "trec3-adhoc" / "T3-j.txt")
    runs = cc.read_runs([str(path) for path in some])
    topics = sorted(runs.instances.tolist())
    train, test = runs[topics[:25]], runs[topics[25:]].top(asked)
    truth = labels[[labels.instances.codes[t] for t in topics[25:]]]
    model = cc.ListwiseLinear(select="map").fit(train.top(20), labels)
    with pytest.warns(DataShiftWarning, match=rf"up to 20 places and is asked about lists of up to {asked:,}"):
        found = mean_ap(model.predict(test), truth)
    assert found > mean_ap(cc.RRF().fit_predict(test), truth)


@pytest.mark.parametrize("name", LEARNERS)
def test_nothing_is_said_and_nothing_changes_within_the_depth_learned(name: str, sample: Sample) -> None:
    runs, labels = sample
    model = LEARNERS[name]().fit(runs[:30].top(20), labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked = [model.predict(runs[30:].top(k)).score for k in (5, 20, 25)]
    del model.training_
    for k, score in zip((5, 20, 25), asked, strict=True):
        np.testing.assert_array_equal(score, model.predict(runs[30:].top(k)).score)


def test_complete_rankings_of_more_items_are_read_as_ever() -> None:
    few = cc.synthetic.labelled_runs(60, missing=0.0, n_items=(8, 12), largest_rank=12, random_state=0)
    many = cc.synthetic.labelled_runs(10, missing=0.0, n_items=(80, 120), largest_rank=120, random_state=5)[0]
    model = cc.ListwiseLinear().fit(*few)
    asked = model.predict(many)
    del model.training_
    np.testing.assert_allclose(asked.score, model.predict(many).score, rtol=1e-9)


def test_learned_rrf_needs_no_warning(sample: Sample) -> None:
    runs, labels = sample
    for method in (cc.RRF(k="learned", weights="learned"), cc.WeightedSum(weights="learned")):
        found = mean_ap(method.fit(runs[:30].top(10), labels).predict(runs[30:]), labels[30:])
        assert found > mean_ap(cc.RRF().fit_predict(runs[30:]), labels[30:])


def test_deep_lists_by_plain_arithmetic() -> None:
    # Two lists of 8 items over 16; learned from lists of 2, ranks down to 2, in instances of 8 (share 1/4).
    items = [f"i{n}" for n in range(16)]
    held_by = {"x": items[:8], "y": items[4:12]}
    rows = [("q", k, i, r) for k, held in held_by.items() for r, i in enumerate(held, 1)]
    votes = cc.Preferences(*zip(*rows, strict=True), items=[("q", i) for i in items])
    trained_on = TrainingSummary(
        "rank", (8, 8), 0.25, np.array([2.0, 2.0]), np.array([2.0, 2.0]), np.array([0.25, 0.25])
    )
    w = np.array([[-1.0, 2.0, 3.0], [0.5, 1.0, -1.0]])
    depth = 2 / (1 - 0.25)
    for below in (False, True):
        want = dict.fromkeys(items, 0.0)
        for k, held in enumerate(held_by.values()):
            alpha, plus, minus = w[k]
            for i in items:
                if i not in held:
                    # A quarter of the items is listed, and beats it.
                    want[i] += alpha - below * minus * 0.25
                    continue
                r = held.index(i) + 1
                row = sum(math.log(s) - math.log(r) for s in range(r, 9)) / math.log(8) / 8 * 0.25
                col = sum(math.log(r) - math.log(s) for s in range(1, r + 1)) / math.log(8) / 8 * 0.25
                said = -alpha + plus * (row + below * 0.75) - minus * (col - below * 0.25)
                want[i] += alpha - below * minus * 0.25 + said * math.sqrt(min(depth / r, 1.0))
        how: dict[str, Any] = {"missing": "below" if below else "unknown", "trained_on": trained_on}
        blocks, codes = WeightBlocks(["x", "y"], -1), np.array([0, 1])
        np.testing.assert_allclose(potential_scores(votes, blocks, codes, w, **how), list(want.values()), atol=1e-12)
        slow = potentials(votes, blocks, codes, **how)
        np.testing.assert_allclose(slow.scores(w) + slow.base(w)[0], list(want.values()), atol=1e-12)


@pytest.mark.parametrize("missing", ["unknown", "below"])
@pytest.mark.parametrize("scaling", ["mean", "paper"])
def test_explanations_of_deep_lists_add_up(missing: str, scaling: str, sample: Sample) -> None:
    runs, labels = sample
    for model in (
        cc.CRF(passes=2, missing=missing, scaling=scaling, weights="mixed", min_lists=100),
        cc.CRF(passes=2, missing=missing, scaling=scaling),
        cc.SVDRank(passes=2, missing=missing, scaling=scaling),
        cc.SVDRank(passes=2, missing=missing, scaling=scaling, weights="consensus"),
    ):
        model.fit(runs[:30].top(10), labels)
        one = runs[30]
        with pytest.warns(DataShiftWarning, match="10 places"):
            told = model.explain(one)
        with pytest.warns(DataShiftWarning, match="10 places"):
            score = dict(zip(one.items, model.predict(one).score, strict=True))
        np.testing.assert_allclose(told.score, [score[i] for i in told.items], atol=1e-9)


def test_features_of_deep_lists_are_those_that_are_scored(sample: Sample) -> None:
    runs, labels = sample
    for weights in ("individual", "consensus"):
        model = cc.SVDRank(passes=2, missing="below", weights=weights).fit(runs[:30].top(10), labels)
        X = model.transform(runs[30:40]).X
        with pytest.warns(DataShiftWarning, match="10 places"):
            score = model.predict(runs[30:40]).score
        np.testing.assert_allclose(X @ model.weights_.ravel(), score, atol=1e-9)


def test_a_validation_part_that_goes_deeper_is_read_as_at_prediction(sample: Sample) -> None:
    runs, labels = sample
    for method in (cc.ListwiseLinear(), cc.SVDRank(passes=10)):
        model = method.fit(runs[:30].top(10), labels, validation=(runs[30:], labels))
        with pytest.warns(DataShiftWarning, match="10 places"):
            found = cc.evaluate(model.predict(runs[30:]), labels.align(runs[30:]), ["ndcg@10"], convention="paper")
        assert found.mean["ndcg@10"] == pytest.approx(model.fit_info_.validation, abs=0.01)


def test_the_record_of_parts_is_that_of_the_whole(sample: Sample) -> None:
    runs, _ = sample
    codes = np.arange(runs.n_experts)
    parts = [PartialSummary.of(part, codes, runs.n_experts) for part in (runs[:7].top(9), runs[7:30].top(30))]
    whole = PartialSummary.of(cc.concat([runs[:7].top(9), runs[7:30].top(30)]), codes, runs.n_experts)
    one, several = TrainingSummary.merged([whole]), TrainingSummary.merged(parts)
    for name in ("length", "rank", "coverage"):
        np.testing.assert_array_equal(getattr(one, name), getattr(several, name))
    assert (one.kind, one.items, one.widest) == (several.kind, several.items, several.widest)


def test_a_fit_from_blocks_remembers_the_same(sample: Sample, tmp_path: Path) -> None:
    runs, labels = sample
    files = as_files(runs[:40], tmp_path)
    validation = (runs[40:], labels)
    given: dict[str, Any] = {"solver": "lbfgs", "l2": 0.01}
    with cc.scan(files, block_rows=3000) as blocks:
        assert len(blocks) > 2
        there = cc.CRF(**given).fit(blocks, labels, validation=validation).training_
    here = cc.CRF(**given).fit(cc.read_runs(files), labels, validation=validation).training_
    for name in ("length", "rank", "coverage"):
        np.testing.assert_array_equal(here.pop(name), there.pop(name))
    assert here == there


def test_instances_without_labels_are_not_remembered(sample: Sample) -> None:
    runs, labels = sample
    both = cc.concat([runs[:30].top(10), runs[30:]])
    model = cc.ListwiseLinear().fit(both, labels[:30])
    assert model.training_["length"].max() == 10


@pytest.mark.parametrize("name", LEARNERS)
def test_the_record_is_saved_with_the_model(name: str, sample: Sample, tmp_path: Path) -> None:
    runs, labels = sample
    model = LEARNERS[name]().fit(runs[:30].top(10), labels)
    model.save(tmp_path / "m")
    loaded: Any = cc.load(tmp_path / "m")
    assert loaded.training_["items"] == model.training_["items"]
    with pytest.warns(DataShiftWarning, match="10 places"):
        again = loaded.predict(runs[30:]).score
    with pytest.warns(DataShiftWarning, match="10 places"):
        np.testing.assert_array_equal(again, model.predict(runs[30:]).score)


def test_a_model_without_a_record_loads_and_predicts_in_silence(sample: Sample, tmp_path: Path) -> None:
    runs, labels = sample
    model = cc.CRF(passes=2).fit(runs[:30].top(10), labels)
    del model.training_
    model.save(tmp_path / "old")
    np.testing.assert_array_equal(cc.load(tmp_path / "old").predict(runs[30:]).score, model.predict(runs[30:]).score)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "opinions"},
        {"items": [3]},
        {"items": [30, 3]},
        {"items": [True, 3]},
        {"items": [-1, 3]},
        {"widest": 2.0},
        {"widest": math.nan},
        {"widest": "all"},
        {"length": np.zeros(6)},
        {"rank": np.full(6, np.inf)},
        {"rank": np.ones(5)},
        {"rank": np.ones(6, dtype=np.float32)},
        {"coverage": np.full(6, 1.5)},
        {"coverage": np.full(6, np.nan)},
        {"low": np.ones(6)},
        {"low": np.ones(6), "high": np.zeros(6)},
    ],
)
@pytest.mark.parametrize("name", ["listwise", "rrf", "svd-rank", "ranknet"])
def test_a_record_that_no_fit_wrote_is_refused(
    name: str, change: dict[str, Any], fitted: dict[str, Any], tmp_path: Path
) -> None:
    model = copy(fitted[name])
    model.training_ = model.training_ | change
    model.save(tmp_path / "m")
    with pytest.raises(FormatError, match=r"training data|'training_' holds"):
        cc.load(tmp_path / "m")


def test_lists_and_comparisons_are_not_the_same_to_potentials(sample: Sample) -> None:
    runs, labels = sample
    lists, pairs = runs[:20].top(5), runs[:20].top(5).comparisons("binary")
    for make in (LEARNERS["listwise"], LEARNERS["svd-rank"], LEARNERS["ranknet"]):
        with pytest.warns(DataShiftWarning, match="fitted on lists of scores and is asked about pairwise comparisons"):
            make().fit(lists, labels).predict(pairs)
        with pytest.warns(DataShiftWarning, match="fitted on pairwise comparisons and is asked about lists of scores"):
            make().fit(pairs, labels).predict(lists)
        # Ranks say the same as the scores they are made of.
        make().fit(lists, labels).predict(lists.to_ranks())


def test_values_of_another_kind_or_scale_are_named(sample: Sample) -> None:
    runs, labels = sample
    model = cc.WeightedSum(weights="learned").fit(runs[:30], labels)
    with pytest.warns(DataShiftWarning, match=r"^WeightedSum\(.*fitted on scores .*asked about ranks.*norm='rank'"):
        model.predict(runs[30:].to_ranks())
    cc.WeightedSum(weights="learned", norm="rank").fit(runs[:30], labels).predict(runs[30:].to_ranks())
    raw = cc.WeightedSum(weights="learned", norm="none").fit(runs[:30], labels)
    raw.predict(runs[30:])
    louder = runs[30:]._replace(value=np.where(runs[30:].row_expert == 1, 100 * runs[30:].value, runs[30:].value))
    with pytest.warns(DataShiftWarning, match=r"far outside those it was fitted on: 'b' from .*min-max") as caught:
        raw.predict(louder)
    assert "'a'" not in str(caught[0].message)


def test_blocks_are_warned_about_once(sample: Sample, tmp_path: Path) -> None:
    runs, labels = sample
    model = cc.CRF(passes=2).fit(runs[:30].top(10), labels)
    files = as_files(runs[30:], tmp_path)
    with cc.scan(files, block_rows=3000) as blocks:
        assert len(blocks) > 2
        with pytest.warns(DataShiftWarning, match="10 places") as caught:
            cc.aggregate_blocks(blocks, tmp_path / "fused.trec", model, fitted=True)
    assert len(caught) == 1
    model.save(tmp_path / "m")
    said = CliRunner().invoke(build(), ["aggregate", *files, "--model", f"{tmp_path}/m", "-o", f"{tmp_path}/x.trec"])
    assert said.exit_code == 0, said.output
    assert said.stderr.count("CRF was fitted on lists of up to 10 places") == 1
