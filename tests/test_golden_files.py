"""A golden number without a source is an opinion: every file says where its numbers come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.cli._parsing import make_method
from concordant.io.formats import FORMATS
from concordant.kernels.graded_lists import GradedLists
from concordant.kernels.lists import offsets_of

FILES = sorted((Path(__file__).parent / "golden").glob("*.json"))


def test_there_are_golden_files() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden_file_names_its_source_and_holds_complete_cases(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(content["source"], str)
    assert content["source"].strip()
    assert content["abs_tol"] >= 0
    assert content["cases"]
    for case in content["cases"]:
        assert case["name"]
        assert case["input"]
        assert case["expected"]


# A file that names a method, a metric or a format needs no test function of its own.
def cases(what: str, key: str) -> list[Any]:
    """Return the cases of the files that name a `what`, those whose expectation has this key."""
    return [
        pytest.param(content[what], content["abs_tol"], case, id=f"{path.stem}-{case['name']}")
        for path in FILES
        if what in (content := json.loads(path.read_text(encoding="utf-8")))
        for case in content["cases"]
        if key in case["expected"]
    ]


@pytest.mark.golden
@pytest.mark.parametrize(("method", "tolerance", "case"), cases("method", "scores"))
def test_a_method_gives_the_scores_of_its_golden_case(method: str, tolerance: float, case: dict[str, Any]) -> None:
    given, params = case["input"], dict(case["input"].get("params", {}))
    if (nested := cc.METHODS[method].made_of) in params:
        params[nested] = make_method(params[nested], {})
    votes: cc.Preferences | cc.Comparisons
    if "comparisons" in given:
        votes = cc.Comparisons("q", None, *zip(*given["comparisons"], strict=True))
    else:
        votes = cc.from_lists(given["lists"], weights=given.get("weights"))
    found = cc.aggregate(votes, method, **params)
    scores = dict(zip(found.items.tolist(), found.score.tolist(), strict=True))
    assert scores == pytest.approx(case["expected"]["scores"], rel=0, abs=tolerance)


@pytest.mark.golden
@pytest.mark.parametrize(("method", "tolerance", "case"), cases("method", "loss"))
def test_a_ranker_gives_the_loss_and_gradient_of_its_golden_case(
    method: str, tolerance: float, case: dict[str, Any]
) -> None:
    ranker = cc.METHODS[method](**case["input"].get("params", {}))
    assert isinstance(ranker, cc.Ranker)
    labels, scores = case["input"]["labels"], case["input"]["scores"]
    assert all(label == sorted(label, reverse=True) for label in labels), "the highest label comes first"
    lists = GradedLists.of(np.concatenate(labels).astype(float), offsets_of(np.array([len(x) for x in labels])))
    gradient = np.empty(len(lists.label))
    loss, _ = ranker._loss(np.concatenate(scores), ranker._prepared(lists), gradient, np.zeros(ranker._n_extra), 0)
    assert loss == pytest.approx(case["expected"]["loss"], rel=0, abs=tolerance)
    np.testing.assert_allclose(gradient, np.concatenate(case["expected"]["gradient"]), rtol=0, atol=tolerance)


@pytest.mark.golden
@pytest.mark.parametrize(("metric", "tolerance", "case"), cases("metric", "values"))
def test_a_metric_gives_the_values_of_its_golden_case(metric: str, tolerance: float, case: dict[str, Any]) -> None:
    given = case["input"]
    unranked = given.get("unranked", [[] for _ in given["lists"]])
    ranking, truth = [], []
    for n, (ranked, others) in enumerate(zip(given["lists"], unranked, strict=True)):
        ranking += [(f"q{n}", f"d{i}", -float(i)) for i in range(len(ranked))]
        labels = [*ranked, *others]
        truth += [(f"q{n}", f"d{i}", label) for i, label in enumerate(labels) if label is not None]
    found = cc.evaluate(
        cc.Consensus(*zip(*ranking, strict=True)),
        cc.Labels(*zip(*truth, strict=True)),
        given.get("metric", metric),
        convention=given.get("convention", "trec"),
    )
    (values,) = found.values.values()
    np.testing.assert_allclose(values, case["expected"]["values"], rtol=0, atol=tolerance)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("name", "_tolerance", "case"),
    [case for kind in ("preferences", "comparisons", "labels") for case in cases("format", kind)],
)
def test_a_format_reads_its_golden_case_and_what_it_writes(
    name: str, _tolerance: float, case: dict[str, Any], tmp_path: Path
) -> None:
    given, ((kind, wanted),) = case["input"], case["expected"].items()
    path = tmp_path / given["file"]
    path.write_text(given["text"], encoding="utf-8")

    def rows(path: Path, *format_: str) -> list[Any]:
        frame = getattr(cc.read(path, *format_, **given.get("options", {})), kind).to_frame()
        return sorted(frame.select(wanted["columns"]).rows())

    expected = sorted(map(tuple, wanted["rows"]))
    assert rows(path, name) == expected
    assert rows(path) == expected, "without format= the file is recognised"
    container = getattr(cc.read(path, name, **given.get("options", {})), kind)
    if FORMATS[name].write is not None and isinstance(container, FORMATS[name].writes):
        copy = tmp_path / f"copy-{given['file']}.gz"
        cc.write(container, copy, format=name)
        assert rows(copy, name) == expected
