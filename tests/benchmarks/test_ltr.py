"""The sections on learning to rank, in seconds instead of minutes: what they measure is what they say."""

from __future__ import annotations

import json
import math
import warnings
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant_papers import published

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """Return the modules of the benchmarks, which are scripts beside each other; what they write goes elsewhere."""
    monkeypatch.syspath_prepend(str(FOLDER))
    found = {name: import_module(name) for name in ("ltr_cost", "ltr_yahoo", "models_ltr", "render", "measure")}
    for name in ("ltr_yahoo", "models_ltr"):
        monkeypatch.setattr(found[name], "CACHE", tmp_path)
    monkeypatch.setattr(found["ltr_cost"], "RESULTS", tmp_path)
    return SimpleNamespace(**found)


def needs_peers(bench: Any) -> None:
    if not Path(bench.measure.PEERS_PYTHON).exists():
        pytest.skip("the peers' environment is not here (make evidence makes it)")


def test_an_evaluation_is_the_objective_and_its_gradient(bench: Any) -> None:
    X, lists = bench.ltr_cost.instance(60, features=4)
    for name, ranker in bench.ltr_cost.rankers().items():
        if name.startswith("LambdaRank") or name in ("PMOP, Gibbs", "PMOP, MH"):
            continue
        loss, gradient = bench.ltr_cost.evaluation(ranker, X, lists)()
        # The weights are the same at every call; moving the features along one column moves the loss along its weight.
        step, weights = 1e-5, np.linspace(-0.5, 0.5, 4)
        for column in range(4):
            around = []
            for sign in (1.0, -1.0):
                moved = weights.copy()
                moved[column] += sign * step
                slope = np.empty(len(X))
                around.append(ranker._loss(X @ moved, ranker._prepared(lists), slope, np.zeros(ranker._n_extra), 0)[0])
            assert gradient[column] == pytest.approx((around[0] - around[1]) / (2 * step), rel=1e-4, abs=1e-3), name
        assert math.isfinite(loss)


def test_costs_are_measured_for_every_ranker_and_held_against_what_was_asked_for(bench: Any, tmp_path: Path) -> None:
    r = bench.ltr_cost.growth(sizes=(50, 200), rounds=1, least=1e-4)
    assert set(r["microseconds"]) == set(bench.ltr_cost.rankers())
    assert all(v > 0 for line in r["microseconds"].values() for v in line)
    r["demands"]["slope of ListMLE"]["found"] = 1.2
    page = bench.ltr_cost.RENDER["ltr_cost"](json.loads(json.dumps(r)))
    assert "| slope of ListMLE | at most 1.15 | 1.20 | no |" in page
    assert (tmp_path / "ltr_cost.svg").read_text().count("<polyline") == 10


def test_lines_that_end_early_are_drawn_as_far_as_they_go(bench: Any, tmp_path: Path) -> None:
    curves = import_module("curves")
    curves.line_chart(tmp_path / "c.svg", "t", "x", "y", [1.0, 2.0, 3.0], {"a": [1.0, 2.0, 3.0], "b": [2.0, 2.5]})
    assert (tmp_path / "c.svg").read_text().count("<circle") == 5


def test_long_chains_agree_with_exact_inclusion_probabilities(bench: Any) -> None:
    found = bench.ltr_cost.inclusion(12, 4000, 20)
    for kind in ("gibbs", "mh"):
        assert found[kind]["largest_z"] < 5
        assert found[kind]["largest_difference"] < 0.1


def test_the_bias_of_short_chains_falls_with_their_length(bench: Any) -> None:
    found = bench.ltr_cost.bias(10, 60, steps=(1, 100))
    assert found["exact"]["the optimum"] < 0.02
    for of_kind in found["chains"].values():
        one, hundred = of_kind["half way"]
        assert hundred["bias"] < one["bias"]
        assert one["scatter"] > hundred["scatter"]
    chains = {
        "inclusion": {"12": bench.ltr_cost.inclusion(12, 400, 20)},
        "bias": found,
        "timed": [25],
        "microseconds": {"PMOP, exact": [65.0]},
    }
    page = bench.ltr_cost.RENDER["ltr_exact"](json.loads(json.dumps(chains)))
    assert "| PMOP, exact | 65 µs |" in page


def test_the_large_set_has_the_sizes_it_should_have(bench: Any) -> None:
    sizes = bench.ltr_yahoo.sizes_of(bench.ltr_yahoo.YAHOO)
    assert (len(sizes), int(sizes.sum())) == (19_944, 473_134)
    assert sizes.min() >= 1
    assert sizes.max() <= 139
    # Queries of one document have to be among them, as they are in the real one.
    assert (sizes == 1).any()


def test_the_parts_of_the_large_set_are_views(bench: Any) -> None:
    shape = bench.ltr_yahoo.Shape(20, 200, 3)
    features, labels = bench.ltr_yahoo.drawn(shape)
    parts = bench.ltr_yahoo.split(features, labels, 18)
    for (own, grades), (want, truth) in zip(
        parts, [(features[:18], labels[:18]), (features[18:], labels[18:])], strict=True
    ):
        assert np.shares_memory(own.X, features.X)
        assert own == want
        assert np.array_equal(grades.label, truth.label)
        assert grades.instances.tolist() == truth.instances.tolist()


def test_the_large_study_in_a_small_shape(bench: Any) -> None:
    there = Path(bench.measure.PEERS_PYTHON).exists()
    r = bench.ltr_yahoo.study(bench.ltr_yahoo.Shape(60, 900, 8), boosted=there)
    assert (r["ours"]["queries"], r["ours"]["documents"]) == (60, 900)
    assert r["within"]
    assert r["ours"]["converged"]
    page = bench.ltr_yahoo.RENDER["ltr_yahoo"](json.loads(json.dumps(r)))
    assert "below 8 GB" in page
    values = [r["ours"]["values"]] + ([r["lightgbm"]["values"]] if there else [])
    assert all(0.4 < v["ndcg@10"] < 1 for v in values)


def parts_of(bench: Any, n: int, m: int, features: int = 6) -> list[Any]:
    """Return a training and a test part with one truth behind them."""
    X, labels = cc.synthetic.graded_features(n + m, n_features=features, random_state=1)
    return [bench.models_ltr.Part(X[cut], labels[cut]) for cut in (slice(None, n), slice(n, None))]


def quick(bench: Any, *names: str) -> dict[str, Any]:
    return {
        n: w._replace(penalties=(0.1, 0.03, 0.01), passes=6) for n, w in bench.models_ltr.ways().items() if n in names
    }


def test_the_tables_choose_in_training_and_test_against_the_baseline(bench: Any) -> None:
    m = bench.models_ltr
    train, test = parts_of(bench, 30, 20)
    rows = quick(bench, "PMOP, full", "RankNet", "ListMLE", "LambdaRank")
    found = m.table_of(train, test, rows, products=(2, 5))
    for order in (m.FIRST, m.SECOND, m.CHOSEN):
        of = found["orders"][order]
        assert list(of) == list(rows)
        assert set(of[m.BASELINE]["p_t"].values()) == {1.0}
        assert all(0.0 <= of[n]["p_t_holm"][k] <= 1.0 for n in rows for k in m.METRICS)
        assert of["RankNet"]["p_t_holm"]["err"] >= of["RankNet"]["p_t"]["err"]
    assert found["orders"][m.CHOSEN]["RankNet"]["chosen"]["products"] in (2, 5)
    one = found["orders"][m.FIRST]["RankNet"]
    again = m.first_order(rows["RankNet"], train, test).evaluation
    assert one["mean"] == {k: again.mean[k] for k in m.METRICS}
    found["verdict"] = {order: m.verdict(of) for order, of in found["orders"].items()}
    orders = {"first_ERR": ["PMOP-FD", "RankNet"]}
    page = m.RENDER["ltr_tables"](json.loads(json.dumps({"sets": {"drawn": found}, "published": orders})))
    assert "PMOP-FD > RankNet" in page
    assert page.count("significantly worse than RankNet") == 3


def test_a_threshold_that_keeps_no_product_is_said(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    m = bench.models_ltr
    monkeypatch.setattr(m, "THRESHOLD", 0.99)
    found = m.table_of(*parts_of(bench, 20, 10), quick(bench, "PMOP, full", "RankNet"), orders=(m.FIRST, m.SECOND))
    assert list(found["orders"]) == [m.FIRST]
    assert "no products" in found["without"][m.SECOND]["PMOP, full"]
    page = m.RENDER["ltr_tables"](json.loads(json.dumps({"sets": {"x": found | {"verdict": {}}}, "published": {}})))
    assert "not available, because no product passes in some fold: PMOP, full; RankNet." in page


def test_held_out_curves_are_means_over_the_folds(bench: Any) -> None:
    m = bench.models_ltr
    train, _ = parts_of(bench, 20, 1)
    way = quick(bench, "RankRegress")["RankRegress"]
    with warnings.catch_warnings(action="ignore"):
        curves = m.held_out_curves(way, {"min_correlation": 0.0, "max_products": 3}, train)
        fold, total = m.folds_of(20), 0.0
        for f in range(m.FOLDS):
            model = cc.RankRegress(second_order=True, min_correlation=0.0, max_products=3, l2=0.1, max_iter=1)
            model.fit(train.features[fold != f], train.labels[fold != f])
            scored = model.predict(train.features[fold == f])
            held = cc.evaluate(scored, train.labels[fold == f], "ndcg@10", convention="paper")
            total += held.mean["ndcg@10"] * len(held)
    assert set(curves) == {0.1, 0.01}
    assert curves[0.1][0] == pytest.approx(total / 20, abs=1e-6)


def test_a_baseline_that_is_worse_is_said_to_be(bench: Any) -> None:
    m = bench.models_ltr
    row = {
        "baseline_ahead": {"err": -0.1, "ndcg@1": 0.2, "ndcg@5": -0.1, "ndcg@10": -0.1},
        "p_t": dict.fromkeys(m.METRICS, 0.01),
        "p_t_holm": {"err": 0.02, "ndcg@1": 0.03, "ndcg@5": 0.2, "ndcg@10": 0.2},
    }
    found = m.verdict({"ListMLE": row, "RankNet": row})["ListMLE"]
    assert found["worse"] == ["err"]
    assert found["worse_uncorrected"] == ["err", "ndcg@5", "ndcg@10"]
    assert found["better"] == ["ndcg@1"]


def test_products_written_down_are_the_columns_a_ranker_learns_from(bench: Any) -> None:
    m = bench.models_ltr
    train, test = parts_of(bench, 30, 10)
    way, keep = m.Way(cc.PMOP, (0.1,)), {"min_correlation": 0.0, "max_products": 4}
    inside = cc.PMOP(second_order=True, l2=0.1, tol=0.0, max_iter=500, **keep)
    outside = cc.PMOP(l2=0.1, tol=0.0, max_iter=500)
    with warnings.catch_warnings(action="ignore"):
        own, other = m.written(way, keep, train, [test.features])
        left = inside.fit(*train).predict(test.features).score
        right = outside.fit(own, train.labels).predict(other).score
    assert np.allclose(left, right, atol=1e-5)


def test_folds_hold_every_instance_once(bench: Any) -> None:
    fold = bench.models_ltr.folds_of(23)
    assert sorted(np.bincount(fold).tolist()) == [4, 4, 5, 5, 5]


def test_features_and_ranks_stand_beside_each_other(bench: Any, tmp_path: Path) -> None:
    m = bench.models_ltr
    votes, labels = cc.synthetic.labelled_runs(40, random_state=3)
    rng = np.random.default_rng(0)
    label = labels.align(votes).label
    X = np.stack([label + rng.normal(size=len(label)), rng.normal(size=len(label))], axis=1)
    features = cc.Features.from_codes(votes.slots, X)
    parts = [
        m.Joined(features[cut], votes[cut], labels.align(votes)[cut]) for cut in (slice(None, 25), slice(25, None))
    ]
    rows = m.joined_table(*parts, quick(bench, "PMOP, full", "ListMLE"), None)
    for of in rows.values():
        assert of["both"]["mean"]["ndcg@10"] > of["features"]["mean"]["ndcg@10"]
        gain = of["both"]["mean"]["err"] - of["features"]["mean"]["err"]
        assert of["both_over_features"]["err"]["gain"] == pytest.approx(gain)
    assert m._columns(parts[0], "both", parts[0]).n_features == 2 + 3 * votes.n_experts
    page = m.RENDER["ltr_joined"](json.loads(json.dumps({"train": 25, "test": 15, "rows": rows})))
    assert "| ListMLE | both |" in page


def test_rows_that_do_not_belong_together_are_refused(bench: Any, tmp_path: Path) -> None:
    votes, labels = cc.synthetic.labelled_runs(5, random_state=3)
    cc.write_letor(votes, tmp_path / "ranks.txt", labels)
    label = labels.align(votes).label
    query = votes.slots.instance + 1.0
    # The ids of the written queries are q1, q2, ...; a table of numbers cannot have them.
    np.save(tmp_path / "features.npy", np.stack([label, query, query], axis=1))
    with pytest.raises(SystemExit, match="do not hold the same queries"):
        bench.models_ltr.joined_rows(tmp_path / "features.npy", tmp_path / "ranks.txt")


@pytest.mark.data
def test_the_files_to_be_joined_agree_row_by_row(bench: Any, data_dir: Path) -> None:
    found = bench.models_ltr.joined_rows(
        data_dir / "MQ2008-ltr46-fold1" / "train.npy", data_dir / "MQ2008-agg" / "Fold1" / "train.txt"
    )
    assert (found.features.n_features, found.preferences.n_experts, len(found.labels)) == (46, 25, 471)


@pytest.mark.data
def test_lightgbm_is_trained_as_its_example_says_or_as_cross_validation_finds(
    bench: Any, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_peers(bench)
    m = bench.models_ltr
    monkeypatch.setattr(m, "DATA", data_dir)
    given = m.example_parameters()
    assert (given["num_trees"], given["num_leaves"], given["min_data_in_leaf"]) == (100, 31, 50)
    assert (given["learning_rate"], given["bagging_fraction"], given["objective"]) == (0.1, 0.9, "lambdarank")
    train, test = parts_of(bench, 80, 40)
    plain = m.lightgbm("test", train, test, None)
    assert plain.chosen["trees"] == 100
    found = m.lightgbm("test", train, test, {"num_leaves": (3, 7), "min_sum_hessian_in_leaf": (0.001,)}, trees=(2, 20))
    assert found.chosen["num_leaves"] in (3, 7)
    assert found.chosen["trees"] in (2, 20)
    assert found.evaluation.mean["ndcg@10"] > 0.6


def test_the_published_orders_have_the_best_first(bench: Any) -> None:
    found = bench.models_ltr.published()
    best = max(published.rows("003_table1_yahoo"), key=lambda r: float(r["second_NDCG@5"]))["method"]
    assert found["second_NDCG@5"][0] == best
    assert len(found) == 6


def test_the_page_knows_the_sections(bench: Any) -> None:
    m = bench.models_ltr
    assert set(m.SECTIONS) == set(m.RENDER) == {"ltr_tables", "ltr_joined", "ltr_cost", "ltr_exact", "ltr_yahoo"}
    titles = bench.render._of_a_family("models_ltr")
    assert titles["ltr_yahoo"][0].startswith("PMOP and LightGBM's lambdarank on data of the size of the Yahoo! set")
