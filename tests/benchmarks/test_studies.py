"""The sections that show published studies: made of the studies' own cells, in small."""

from __future__ import annotations

import json
from collections import Counter
from importlib import import_module
from pathlib import Path
from statistics import mean
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant_papers import crowd as crowd_study
from concordant_papers import letor, trec3
from concordant_papers.published import cells

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
MODULES = ("crowd", "runtime_study", "models_mallows", "models_ulara", "models_mpm", "models_supervised")
MODULES += ("published", "studies", "render")


@pytest.fixture(scope="module")
def bench() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield SimpleNamespace(**{name: import_module(name) for name in MODULES})


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the cells of a study, which are quick here, in this process."""
    monkeypatch.setattr("concordant_papers.engine.cores", lambda: 1)


def as_read_back(found: dict[str, Any]) -> Any:
    return json.loads(json.dumps(found))


@pytest.mark.usefixtures("one_process")
def test_crowd_rows_are_means_over_seeds_and_splits(bench: Any) -> None:
    values = bench.studies.values_of("crowd", 2, quick=True)
    r = as_read_back(bench.crowd.gathered(values, crowd_study.SYNTHETIC))
    seeds = [values[f"LR-labeled/split {n}"]["values"] for n in range(1, 6)]
    assert [len(of) for of in seeds] == [2] * 5
    want = mean(mean(v["N@3"] for v in of) for of in seeds)
    assert r["rows"]["LR-labeled"]["mean"]["ndcg@3"] == pytest.approx(want)
    pair = r["pairs"]["LR-unlabeled > majority vote"]
    assert pair["mean"] == pytest.approx(
        mean(r["rows"]["LR-unlabeled"]["mean"].values()) - mean(r["rows"]["majority vote"]["mean"].values())
    )
    # The five workers who judge every second document are known by name, and judge in all fifteen topics.
    details = r["rows"]["LR-unlabeled"]["details"][0]
    assert (details["known_workers"], details["topics_each"]) == (5, 15.0)
    page = bench.crowd.RENDER["crowd"](r)
    least = {
        (a, b): min(x - y for x, y in zip(r["rows"][a]["mean"].values(), r["rows"][b]["mean"].values(), strict=True))
        for a, b in (pair.split(" > ") for pair in r["pairs"])
    }
    assert f"{sum(gap > 0 for gap in least.values())} of 6 published relations hold at every cut-off" in page
    assert "| LR-consensus |" in page
    assert f"{r['data']['gold']} gold labels" in page


def test_crowd_knows_the_workers_the_model_knows(bench: Any) -> None:
    cell = crowd_study.judged(
        folder=crowd_study.SYNTHETIC, split=1, way="learned", only_gold=True, weights="mixed", rates=[0.01], passes=1,
        seeds=1,
    )  # fmt: skip
    train = crowd_study.parts(crowd_study.SYNTHETIC, 1)[0]
    gold = Counter(train.gold_votes.to_frame()["expert"])
    known = [worker for worker, n in gold.items() if n >= cell["known_from"]]
    assert len(known) == cell["known_workers"]
    pairs = set(train.votes.to_frame().select("expert", "instance").rows())
    want = sum(worker in known for worker, _ in pairs) / len(known)
    assert bench.crowd._topics_each(train, "LR-labeled", cell) == pytest.approx(want)


def test_curves_of_cost_are_those_of_the_study_and_go_on_alone(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    m = bench.runtime_study
    monkeypatch.setattr(m, "RESULTS", tmp_path)
    monkeypatch.setattr(m, "REPEATS", 1)
    values = {
        f"{letor.SYNTHETIC}/{what} x {t}": {
            "microseconds": {"CRF": 2.0, "SVDRank": 4.0, "plain CRF": 6.0 * t, "plain SVD": 10.0 * t},
            "queries": 5,
            "largest_difference": 1e-9 * t,
        }
        for what in ("experts", "items")
        for t in m.COPIES
    }
    train, _, test = letor.folds(letor.SYNTHETIC)[0]
    models = cc.CRF(passes=1).fit(*train), cc.SVDRank(passes=1).fit(*train)
    ours = {what: m._ours(test.preferences[:3], models, what) for what in ("experts", "items")}
    r = as_read_back(m.gathered(values, ours, letor.SYNTHETIC))
    assert r["experts"]["ratios_at_10"] == {
        "crf_over_naive_svd": 50.0,
        "svd_over_naive_svd": 25.0,
        "crf_over_naive_crf": 30.0,
        "crf_over_svd": 2.0,
    }
    assert r["items"]["beside_naive"]["slopes"]["naive SVD"] == pytest.approx(1.0)
    assert r["items"]["ours"]["copies"] == [*range(1, 11), 20, 50, 100]
    page = m.RENDER["runtime_study"](r)
    assert "CRF 50 times faster than naive SVD features" in page
    assert "differ by at most 1e-08 of their spread" in page
    assert (tmp_path / "runtime_items.svg").read_text().count("<polyline") == 4


def test_copies_of_experts_have_the_weights_of_their_originals(bench: Any) -> None:
    train, _, test = letor.folds(letor.SYNTHETIC)[0]
    model = cc.CRF(passes=2).fit(*train)
    votes = test.preferences[:4]
    many = bench.runtime_study.expanded_model(model, votes.experts.tolist(), 3)
    grown = bench.runtime_study.expanded(votes, "experts", 3)
    assert np.allclose(many.predict(grown).score, 3 * model.predict(votes).score)


@pytest.mark.usefixtures("one_process")
def test_a_known_truth_is_seen_as_in_the_study(bench: Any) -> None:
    values = bench.studies.values_of("mallows-synthetic", 2, quick=True)
    r = as_read_back(bench.models_mallows.gathered(values))
    assert list(r["modes"]) == ["sampling, length chosen", "weighted", "true"]
    assert list(r["modes"]["true"]["distance_of_draws_after"]) == ["1", "2", "4", "8"]
    want = mean(values[f"Weighted/run {n}"]["distance"][3] for n in range(2))
    assert r["modes"]["weighted"]["distance_of_draws_after"]["4"] == pytest.approx(want)
    assert r["modes"]["true"]["theta_mean"][0] < -0.5
    page = bench.models_mallows.RENDER["mallows_synthetic"](r)
    assert "draws after 8 | consensus" in page
    assert f"{want:.1f}" in page


def test_random_experts_are_those_of_the_study(bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Twelve synthetic runs in place of TREC-3's, of which nine are replaced."""
    there = tmp_path / trec3.FOLDER
    there.mkdir()
    sample, whole = trec3.read(trec3.SYNTHETIC), trec3.complete(trec3.SYNTHETIC, 20)
    monkeypatch.setattr(trec3, "read", lambda _: sample)
    monkeypatch.setattr(trec3, "complete", lambda *_: whole)
    mallows, ulara = bench.models_mallows, bench.models_ulara
    for module in (mallows, ulara):
        monkeypatch.setattr(module, "DATA", tmp_path)
        monkeypatch.setattr(module, "LEVELS", (0, 9))
        monkeypatch.setattr(module, "DRAWS", 2)
    monkeypatch.setattr(ulara, "ASKED", {0: -1.0, 9: -1.0})
    monkeypatch.setattr(mallows.study, "DEPTH", 20)
    r = as_read_back(mallows.trec3_random_experts())
    level = r["levels"]["9"]
    assert (level["draws"], r["levels"]["0"]["draws"], r["experts"]) == (2, 1, 12)
    assert level["adherence"]["median_of_real_experts"] > level["adherence"]["largest_of_random_experts"]
    votes = [trec3.replaced(whole, 9, draw) for draw in range(2)]
    p = [trec3.values_of(cc.RRF().fit_predict(v), sample.labels, ["p@10"])["p@10"] for v in votes]
    assert level["mean"]["rrf"]["p@10"] == pytest.approx(np.mean(p))
    assert "| 9 |" in mallows.RENDER["mallows_trec3"](r)
    u = as_read_back(ulara.trec3())
    assert u["curve"]["RRF"]["p@10"][1] == pytest.approx(np.mean(p))
    assert u["random_experts_weigh_less_auc"][1] > 0.7
    assert u["met"]
    assert "P@10, random experts of 38 | 0 | 9 |" in ulara.RENDER["ulara_trec3"](u)


def test_weights_are_told_apart_by_pairs(bench: Any) -> None:
    weight, replaced = np.array([3.0, 1.0, 2.0, 0.5]), np.array([False, False, True, True])
    assert bench.models_ulara._told_apart(weight, replaced) == 0.75


def test_published_rows_have_our_names(bench: Any) -> None:
    row = cells("001_table5_sup_mq_agg", dataset="MQ2008-agg", method="CRF")
    assert row is not None
    found = bench.published.letor_row("CRF", ["map", "ndcg@5", "err"], bench.published.SUPERVISED)
    assert found == {"map": row["MAP"], "ndcg@5": row["N@5"]}
    with pytest.raises(KeyError, match="no row 'nobody' on MQ2008-agg in 001_table1"):
        bench.published.letor_row("nobody")


def test_published_films_are_read_from_the_outside_in(bench: Any) -> None:
    found = bench.published.films("MPM")
    assert [len(found[end]) for end in ("top", "bottom")] == [5, 5]
    assert all(text.endswith(")") for of in found.values() for text in of)


def test_what_fails_in_a_study_stops_its_section(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: Any) -> None:
        raise ValueError("no")

    monkeypatch.setattr(crowd_study, "counts", broken)
    monkeypatch.setattr("concordant_papers.engine.cores", lambda: 1)
    with pytest.raises(SystemExit, match="crowd, data: ValueError: no"):
        bench.studies.values_of("crowd", 1, quick=True)


def test_a_row_stands_beside_a_published_one_only_where_it_is_that_model(bench: Any) -> None:
    ways = bench.models_supervised.ways()
    plain = ways["CRF, plain SGD"]
    # The papers' text sums over the drawn items and divides by the square of their number.
    assert (plain.method.sums, plain.method.scaling) != ("slice", "paper")
    assert plain.theirs is None
    assert not any(name.endswith("as published") for name, way in ways.items() if way.method.name == "crf")
    known = json.loads((FOLDER.parent / "docs" / "results" / "supervised_mq2008.json").read_text())["results"]
    assert known["rows"].keys() == ways.keys()
    assert {name for name, row in known["rows"].items() if row["published"]} == {
        name for name, way in ways.items() if way.theirs is not None
    }
    page = bench.models_supervised.RENDER["supervised_mq2008"](known)
    assert "CPS, supervised: the published row takes the largest rank for the best" in page


def test_every_committed_figure_is_still_shown(bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was measured before must stay readable: every committed file of results finds its place on the page."""
    results = FOLDER.parent / "docs" / "results"
    for file in results.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    for name in ("runtime_study", "ltr_cost"):
        monkeypatch.setattr(import_module(name), "RESULTS", tmp_path)
    bench.render.render(tmp_path, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == (FOLDER.parent / "docs" / "results.md").read_text()
