"""The PyTerrier transformers give what `fuse` gives, learn from qrels, and are compared by `pt.Experiment`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.requests_of_retrievers import NAMES, SETTINGS, Rows, fitted, fused, requests

import concordant as cc
from concordant.errors import ColumnError, DataError, KindError, NotFittedError, ParameterError

pytest.importorskip("pyterrier", reason="the extra pyterrier is not installed")

import pandas as pd
import pyterrier as pt

from concordant.integrations.pyterrier import FusionEstimator, FusionTransformer

# PyTerrier calls pandas in ways that pandas will drop.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")

TOPICS = pd.DataFrame({"qid": [f"q{n}" for n in range(len(requests()))], "query": "a query"})


def runs(queries: list[dict[str, Rows]]) -> dict[str, pt.Transformer]:
    """Return transformers that return these rows for query q0, q1, ..."""
    out = {}
    for name in NAMES:
        rows = [(f"q{n}", *row) for n, lists in enumerate(queries) for row in lists[name]]
        frame = pd.DataFrame(rows, columns=["qid", "docno", "text", "score"])
        out[name] = pt.Transformer.from_df(pt.model.add_ranks(frame))
    return out


def seen(found: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(found[["qid", "docno", "text", "score", "rank"]].itertuples(index=False, name=None))


def wanted(queries: list[dict[str, Rows]], **settings: Any) -> list[tuple[Any, ...]]:
    return [
        (f"q{n}", hit.id, hit.item[1], hit.score, place)
        for n, lists in enumerate(queries)
        for place, hit in enumerate(fused(lists, scores=True, **settings))
    ]


@pytest.mark.parametrize("settings", SETTINGS)
def test_results_equal_fuse(settings: dict[str, Any]) -> None:
    found = FusionTransformer(runs(requests()), **settings).transform(TOPICS)
    assert seen(found) == wanted(requests(), **settings)
    assert set(found["query"]) == {"a query"}
    assert found["rank"].dtype == "int64"
    assert found["score"].dtype == "float64"


def test_passages_are_fused_by_their_document() -> None:
    def passages(one: pt.Transformer) -> pt.Transformer:
        renamed = one.df.rename(columns={"docno": "document"})  # type: ignore[attr-defined]
        return pt.Transformer.from_df(renamed.assign(docno=renamed["text"]))

    transformers = {name: passages(one) for name, one in runs(requests()).items()}
    found = FusionTransformer(transformers, key="document").transform(TOPICS)
    assert seen(found.assign(docno=found["document"])) == wanted(requests())
    assert found["docno"].tolist() == found["text"].tolist()


def test_models_are_taken_as_they_are_and_from_files(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path / "fusion.model")
    for given in (model, tmp_path / "fusion.model"):
        found = FusionTransformer(runs(requests()), model=given).transform(TOPICS)
        assert seen(found) == wanted(requests(), model=model)


def test_explanations_add_up_to_the_score() -> None:
    found = FusionTransformer(runs(requests()), explain=True, weights={"dense": 3}).transform(TOPICS)
    sums = [sum(parts.values()) for parts in found["fusion_parts"]]
    assert sums == pytest.approx(found["score"].tolist(), abs=1e-12)
    with pytest.raises(KindError, match="no sum over experts"):
        FusionTransformer(runs(requests()), "copeland", explain=True).transform(TOPICS)


def test_it_works_in_pipelines_and_tells_its_columns() -> None:
    fusion = FusionTransformer(runs(requests()), weights={"dense": 2})
    best = (fusion % 2).transform(TOPICS)
    assert seen(best) == wanted(requests(), weights={"dense": 2}, top_k=2)
    assert seen(fusion.search("a query", qid="q1")) == [
        row for row in wanted(requests(), weights={"dense": 2}) if row[0] == "q1"
    ]
    assert {"qid", "query", "docno", "score", "rank"} <= set(pt.inspect.transformer_outputs(fusion, ["qid", "query"]))
    assert pt.inspect.subtransformers(fusion) == fusion.retrievers
    empty = fusion.transform(TOPICS.iloc[:0])
    assert len(empty) == 0
    assert {"qid", "docno", "score", "rank"} <= set(empty.columns)


@pytest.fixture(scope="module")
def sample() -> tuple[dict[str, pt.Transformer], pd.DataFrame, pd.DataFrame, cc.Preferences, cc.Labels]:
    """Return runs of different quality, topics and qrels, and the same as containers."""
    data = cc.synthetic.runs(40, skill={"bm25": 0.3, "dense": 2.5, "reranker": 0.6}, top=20, random_state=3)
    named = {"instance": "qid", "item": "docno"}
    rows = data.preferences.to_frame().to_pandas().rename(columns=named)
    qrels = data.labels.to_frame().to_pandas().rename(columns=named).astype({"label": int})
    runs = {
        name: pt.Transformer.from_df(run[["qid", "docno", "score"]].reset_index(drop=True))
        for name, run in rows.groupby("expert")
    }
    topics = pd.DataFrame({"qid": data.preferences.instances.tolist(), "query": "a query"})
    return runs, topics, qrels, data.preferences, data.labels


@pytest.mark.parametrize("method", ["listwise-linear", "crf"])
def test_it_learns_what_a_fit_on_the_same_runs_learns(method: str, sample: Any) -> None:
    transformers, topics, qrels, preferences, labels = sample
    learned = FusionEstimator(transformers, method, params={"passes": 3} if method == "crf" else None)
    assert learned.fit(topics[:20], qrels) is learned
    by_hand = cc.METHODS[method](**learned.method.get_params()).fit(preferences[:20], labels)
    assert learned.model_.adherence_.tolist() == pytest.approx(by_hand.adherence_.tolist(), rel=1e-6)
    found = learned.transform(topics[20:])
    want = FusionTransformer(transformers, model=learned.model_).transform(topics[20:])
    pd.testing.assert_frame_equal(found, want)


def test_distances_and_depth_hold_for_the_fit_too(sample: Any) -> None:
    transformers, topics, qrels, *_ = sample
    far = dict(transformers)
    far["dense"] = transformers["dense"] >> pt.apply.doc_score(lambda row: -row["score"])
    near = FusionEstimator(transformers, depth=10).fit(topics[:20], qrels)
    turned = FusionEstimator(far, depth=10, smaller_is_better=["dense"]).fit(topics[:20], qrels)
    assert turned.model_.adherence_.tolist() == near.model_.adherence_.tolist()
    deep = FusionEstimator(transformers).fit(topics[:20], qrels)
    assert deep.model_.adherence_.tolist() != near.model_.adherence_.tolist()


def test_an_experiment_compares_them(sample: Any) -> None:
    transformers, topics, qrels, preferences, labels = sample
    rrf = FusionTransformer(transformers)
    learned = FusionEstimator(transformers, "listwise-linear").fit(topics[:20], qrels, topics[:5], qrels)
    rest = topics[20:]
    table = pt.Experiment(
        [*transformers.values(), rrf, learned],
        rest,
        qrels[qrels["qid"].isin(rest["qid"])],
        ["map", "ndcg_cut_10"],
        names=[*transformers, "rrf", "learned"],
        baseline=3,
    ).set_index("name")
    assert table.loc["learned", "map"] > table.loc["rrf", "map"]
    own = cc.evaluate(cc.aggregate(preferences[20:], "rrf"), labels[20:], ["map", "ndcg@10"]).mean
    assert table.loc["rrf", "map"] == pytest.approx(own["map"], abs=1e-9)
    assert table.loc["rrf", "ndcg_cut_10"] == pytest.approx(own["ndcg@10"], abs=1e-9)


def test_a_pipeline_fits_it(sample: Any) -> None:
    transformers, topics, qrels, *_ = sample
    pipeline = FusionEstimator(transformers) >> pt.Transformer.identity()
    pipeline.fit(topics[:20], qrels)
    assert pipeline.transform(topics[20:])["qid"].nunique() == 20


def test_a_transformer_that_fails_is_not_silent() -> None:
    def fail(_: pd.DataFrame) -> pd.DataFrame:
        raise ConnectionError("no index today")

    failing = pt.apply.generic(fail)
    with pytest.raises(ConnectionError, match="no index today"):
        FusionTransformer({**runs(requests()), "dense": failing}).transform(TOPICS)


def test_errors_say_what_to_do() -> None:
    with pytest.raises(NotFittedError, match=r"FusionEstimator \(listwise-linear\) is not fitted yet"):
        FusionEstimator(runs(requests())).transform(TOPICS)
    with pytest.raises(ParameterError, match="Use FusionTransformer"):
        FusionEstimator(runs(requests()), model=fitted())
    with pytest.raises(ParameterError, match="nothing to fuse"):
        FusionTransformer({})
    with pytest.raises(ParameterError, match="weights= names 'colbert', but no retriever has this name"):
        FusionTransformer(runs(requests()), weights={"colbert": 1})
    bare = pt.Transformer.from_df(pd.DataFrame({"qid": ["q1"], "docno": ["a"]}))
    with pytest.raises(ColumnError, match=r"\['score'\].*results of 'bm25'"):
        FusionTransformer({"bm25": bare}).transform(TOPICS)
    nan = pt.Transformer.from_df(pd.DataFrame({"qid": ["q1"], "docno": ["a"], "score": [float("nan")]}))
    with pytest.raises(DataError, match="score of 'a' in list 'bm25' must be a finite number"):
        FusionTransformer({"bm25": nan}).transform(TOPICS)


def test_java_is_not_started() -> None:
    code = (
        "import pandas as pd, pyterrier as pt\n"
        "from concordant.integrations.pyterrier import FusionTransformer\n"
        "run = pt.Transformer.from_df(pd.DataFrame({'qid': ['1'], 'docno': ['a'], 'score': [1.0]}))\n"
        "assert len(FusionTransformer({'bm25': run}).search('q')) == 1\n"
        "assert not pt.java.started()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
