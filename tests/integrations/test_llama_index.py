"""The LlamaIndex retriever gives what `fuse` gives, in both ways of asking, and obeys weights."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.integrations.requests_of_retrievers import NAMES, SETTINGS, Rows, fitted, fused, requests

import concordant as cc
from concordant.errors import DataError, KindError, ParameterError

pytest.importorskip("llama_index.core", reason="the extra llama-index is not installed")

from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode

from concordant.integrations.llama_index import FusionRetriever


class Fixed(BaseRetriever):
    """A retriever that returns these nodes whatever it is asked."""

    def __init__(self, nodes: list[NodeWithScore] | None) -> None:
        self.nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self.nodes or []


def retriever(lists: dict[str, Rows], **settings: Any) -> FusionRetriever:
    def nodes(rows: Rows) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(id_=d, text=t, metadata={"doc": d}), score=s) for d, t, s in rows]

    return FusionRetriever({name: Fixed(nodes(rows)) for name, rows in lists.items()}, **settings)


def unique_requests() -> list[dict[str, Rows]]:
    """Return requests in which a list has an id once: LlamaIndex itself drops a node_id that comes again."""
    out = []
    for lists in requests():
        first: dict[str, dict[str, tuple[str, str, float]]] = {name: {} for name in lists}
        for name, rows in lists.items():
            for row in rows:
                first[name].setdefault(row[0], row)
        out.append({name: list(rows.values()) for name, rows in first.items()})
    return out


def seen(found: list[NodeWithScore]) -> list[tuple[str, str, float | None]]:
    return [(node.node_id, node.text, node.score) for node in found]


def wanted(hits: cc.Hits) -> list[tuple[str, str, float]]:
    return [(hit.id, hit.item[1], hit.score) for hit in hits]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("key", [None, "doc", lambda node: node.node_id])
def test_a_request_equals_fuse(settings: dict[str, Any], key: Any) -> None:
    for lists in unique_requests():
        one = retriever(lists, key=key, **settings)
        want = wanted(fused(lists, scores=True, **settings))
        assert seen(one.retrieve("q")) == want
        assert seen(asyncio.run(one.aretrieve("q"))) == want


def test_chunks_are_fused_by_their_document() -> None:
    for lists in requests():
        chunks = {
            name: Fixed([NodeWithScore(node=TextNode(id_=t, text=t, metadata={"doc": d}), score=s) for d, t, s in rows])
            for name, rows in lists.items()
        }
        found = FusionRetriever(chunks, key="doc").retrieve("q")
        want = fused(lists, scores=True)
        assert [(n.metadata["doc"], n.text, n.score) for n in found] == wanted(want)


def test_without_scores_the_order_counts() -> None:
    for lists in unique_requests():
        upside_down = {name: rows[::-1] for name, rows in lists.items()}
        want = wanted(fused(upside_down, scores=False))
        assert seen(retriever(upside_down, use_scores=False).retrieve("q")) == want


@pytest.mark.parametrize("method", ["rrf", "isr", "comb-sum", "comb-mnz", "weighted-sum", "borda"])
def test_weights_are_obeyed(method: str) -> None:
    lists: dict[str, Rows] = {
        "bm25": [("a", "a", 9.0), ("b", "b", 5.0), ("c", "c", 1.0)],
        "dense": [("c", "c", 0.9), ("b", "b", 0.8), ("a", "a", 0.7)],
    }
    assert retriever(lists, method=method, weights={"bm25": 4}).retrieve("q")[0].node_id == "a"
    assert retriever(lists, method=method, weights={"dense": 4}).retrieve("q")[0].node_id == "c"
    # One that weighs nothing adds nothing.
    (only,) = {node.node_id: node.score for node in retriever(lists, weights={"dense": 0}).retrieve("q")[:1]}.items()
    assert only == ("a", pytest.approx(1 / 61))


@pytest.mark.parametrize("seed", range(3))
def test_dbsf_is_the_dist_based_score_of_llama_index(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lists: dict[str, Rows] = {
        name: [
            (f"d{i}", f"d{i}", float(s))
            for i, s in zip(rng.permutation(12), -np.sort(-rng.normal(size=8)), strict=False)
        ]
        for name in ("bm25", "dense", "reranker")
    }
    theirs = QueryFusionRetriever(
        [Fixed([NodeWithScore(node=TextNode(id_=d, text=t), score=s) for d, t, s in rows]) for rows in lists.values()],
        llm=MockLLM(),
        mode=FUSION_MODES.DIST_BASED_SCORE,
        num_queries=1,
        similarity_top_k=12,
        use_async=False,
    ).retrieve("q")
    ours = retriever(lists, method="dbsf", params={"clip": False}).retrieve("q")
    # Theirs weighs each retriever by a third.
    want = {node.node_id: 3 * (node.score or 0.0) for node in theirs}
    assert {node.node_id: node.score for node in ours} == pytest.approx(want, rel=1e-12)


def test_models_are_taken_as_they_are_and_from_files(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path / "fusion.model")
    for lists in unique_requests():
        want = wanted(fused(lists, scores=True, model=model))
        for given in (model, tmp_path / "fusion.model"):
            assert seen(retriever(lists, model=given).retrieve("q")) == want


def test_explanations_add_up_and_no_prompt_sees_them() -> None:
    for lists in unique_requests():
        one = retriever(lists, explain=True, weights={"dense": 3})
        given = [node.node for part in one.retrievers.values() for node in part.retrieve("q")]
        for found in one.retrieve("q"):
            assert sum(found.metadata["fusion_parts"].values()) == pytest.approx(found.score, abs=1e-12)
            for mode in (MetadataMode.LLM, MetadataMode.EMBED):
                assert "fusion_parts" not in found.get_content(mode)
                assert "doc: d" in found.get_content(mode)
        assert all("fusion_parts" not in node.metadata for node in given)
    with pytest.raises(KindError, match="no sum over experts"):
        retriever(requests()[1], explain=True, method="copeland").retrieve("q")


def test_nodes_given_are_not_changed() -> None:
    given = NodeWithScore(node=TextNode(id_="1", text="1"), score=0.5)
    (found,) = FusionRetriever({"dense": Fixed([given])}).retrieve("q")
    assert found.score == pytest.approx(1 / 61)
    assert given.score == 0.5
    assert found.node is given.node


def test_a_retriever_that_finds_nothing_has_no_say() -> None:
    some = Fixed([NodeWithScore(node=TextNode(id_="1", text="1"), score=0.5)])
    spoke = FusionRetriever({"bm25": some}).retrieve("q")
    assert FusionRetriever({"bm25": some, "dense": Fixed([])}, weights={"dense": 5}).retrieve("q") == spoke
    assert FusionRetriever({"dense": Fixed([])}, explain=True).retrieve("q") == []


def test_a_retriever_that_fails_is_not_silent() -> None:
    class Failing(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            raise ConnectionError("no index today")

    one = FusionRetriever({"bm25": Fixed([]), "dense": Failing()})
    with pytest.raises(ConnectionError, match="no index today"):
        one.retrieve("q")
    with pytest.raises(ConnectionError, match="no index today"):
        asyncio.run(one.aretrieve("q"))


def test_retrievers_run_at_the_same_time() -> None:
    class Meeting(BaseRetriever):
        def __init__(self, here: asyncio.Barrier) -> None:
            self.here = here
            super().__init__()

        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            raise AssertionError

        # None returns before all have been asked.
        async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            await self.here.wait()
            return [NodeWithScore(node=TextNode(id_="1", text="1"), score=1.0)]

    async def ask() -> list[NodeWithScore]:
        here = asyncio.Barrier(len(NAMES))
        one = FusionRetriever({name: Meeting(here) for name in NAMES})
        return await asyncio.wait_for(one.aretrieve("q"), timeout=30)

    assert len(asyncio.run(ask())) == 1


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"method": "rff"}, ParameterError, "Did you mean 'rrf'"),
        ({"params": {"kk": 1}}, ParameterError, "RRF has no parameter 'kk'"),
        (
            {"weights": {"colbert": 1}},
            ParameterError,
            "weights= names 'colbert', but no retriever has this name.*'bm25'",
        ),
        ({"top_k": 0}, ParameterError, "'top_k' parameter"),
        ({"model": "no such file"}, DataError, "no such file"),
        ({"wieghts": {}}, TypeError, "wieghts"),
    ],
)
def test_wrong_settings_are_errors_at_once(settings: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        retriever({"bm25": []}, **settings)


def test_retrievers_need_names() -> None:
    with pytest.raises(ParameterError, match=r"'retrievers' parameter .* a dict from name to retriever.* Got \["):
        FusionRetriever([Fixed([])])  # type: ignore[arg-type]


def test_errors_say_what_to_do() -> None:
    nodes = [NodeWithScore(node=TextNode(id_="1", text="1"))]
    with pytest.raises(DataError, match=r"'1' in row 0 of 'bm25' has no score.*use_scores=False"):
        FusionRetriever({"bm25": Fixed(nodes)}).retrieve("q")
    assert len(FusionRetriever({"bm25": Fixed(nodes)}, use_scores=False).retrieve("q")) == 1
    with pytest.raises(DataError, match=r"row 0 of 'bm25' has no id.*key="):
        FusionRetriever({"bm25": Fixed(nodes)}, key="file").retrieve("q")
