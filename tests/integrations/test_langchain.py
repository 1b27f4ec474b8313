"""The LangChain retriever gives what `fuse` gives, in both ways of asking, with scores and explanations."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.requests_of_retrievers import NAMES, SETTINGS, Rows, fitted, fused, requests

import concordant as cc
from concordant.errors import DataError, KindError, NotFittedError, ParameterError

pytest.importorskip("langchain_core", reason="the extra langchain is not installed")

from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField, RunnableLambda

from concordant.integrations.langchain import FusionRetriever


def documents(rows: Rows) -> list[Document]:
    return [Document(part, id=doc, metadata={"doc": doc, "own": score}) for doc, part, score in rows]


def retriever(lists: dict[str, Any], **settings: Any) -> FusionRetriever:
    """Return the fusion of retrievers that return these rows whatever they are asked."""
    parts = {name: RunnableLambda(lambda _, rows=rows: documents(rows)) for name, rows in lists.items()}
    return FusionRetriever(parts, **settings)


def seen(found: list[Document]) -> list[tuple[str, str, float, int]]:
    return [(d.id, d.page_content, d.metadata["fusion_score"], d.metadata["fusion_rank"]) for d in found]


def wanted(hits: cc.Hits) -> list[tuple[str, str, float, int]]:
    return [(hit.id, hit.item[1], hit.score, hit.rank) for hit in hits]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("key", [None, "doc", lambda document: document.id])
def test_a_request_equals_fuse(settings: dict[str, Any], key: Any) -> None:
    for lists in requests():
        one = retriever(lists, key=key, score="own", **settings)
        want = wanted(fused(lists, scores=True, **settings))
        assert seen(one.invoke("q")) == want
        assert seen(asyncio.run(one.ainvoke("q"))) == want


def test_a_retriever_cannot_be_called_as_the_part_that_none_adds() -> None:
    with pytest.raises(ParameterError, match=r"a retriever cannot be called '\(base\)'"):
        retriever({"(base)": [], "x": []}, explain=True)
    assert retriever({"(base)": [], "x": []}).invoke("q") == []


def test_without_scores_the_order_counts() -> None:
    for lists in requests():
        upside_down = {name: rows[::-1] for name, rows in lists.items()}
        for method in ("rrf", "comb-sum"):
            want = wanted(fused(upside_down, scores=False, method=method))
            assert seen(retriever(upside_down, method=method).invoke("q")) == want


def test_models_are_taken_as_they_are_and_from_files(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path / "fusion.model")
    for lists in requests():
        want = wanted(fused(lists, scores=False, model=model))
        for given in (model, tmp_path / "fusion.model", str(tmp_path / "fusion.model")):
            assert seen(retriever(lists, model=given).invoke("q")) == want


@pytest.mark.parametrize("settings", [{}, {"weights": {"dense": 3}, "top_k": 2}, {"method": "weighted-sum"}])
def test_explanations_add_up_to_the_score(settings: dict[str, Any]) -> None:
    for lists in requests():
        for document in retriever(lists, explain=True, **settings).invoke("q"):
            parts, score = document.metadata["fusion_parts"], document.metadata["fusion_score"]
            assert sum(parts.values()) == pytest.approx(score, abs=1e-12)
            assert {name for name, part in parts.items() if part} <= set(lists)
            json.dumps(document.metadata)
    with pytest.raises(KindError, match="no sum over experts"):
        retriever(requests()[1], explain=True, method="copeland").invoke("q")


def test_every_document_has_a_score_and_keeps_what_it_had() -> None:
    given = [Document("text", id="1", metadata={"source": "web", "score": 0.25})]
    (found,) = FusionRetriever({"dense": lambda _: given}).invoke("q")
    score = pytest.approx(1 / 61)
    assert found.metadata == {"source": "web", "score": 0.25, "fusion_score": score, "fusion_rank": 1}
    assert given[0].metadata == {"source": "web", "score": 0.25}


@pytest.mark.parametrize("silent", [None, []])
def test_a_retriever_that_finds_nothing_has_no_say(silent: Any) -> None:
    one, two = Document("1", id="1"), Document("2", id="2")
    spoke = FusionRetriever({"bm25": lambda _: [one, two]}).invoke("q")
    both = {"bm25": lambda _: [one, two], "dense": lambda _: silent}
    assert FusionRetriever(both, weights={"dense": 5}).invoke("q") == spoke
    assert FusionRetriever({"dense": lambda _: silent}, explain=True).invoke("q") == []


def test_a_retriever_that_fails_is_not_silent() -> None:
    def fail(_: str) -> list[Document]:
        raise ConnectionError("no index today")

    one = FusionRetriever({"bm25": lambda _: [Document("1", id="1")], "dense": fail})
    with pytest.raises(ConnectionError, match="no index today"):
        one.invoke("q")
    with pytest.raises(ConnectionError, match="no index today"):
        asyncio.run(one.ainvoke("q"))


def test_retrievers_run_at_the_same_time() -> None:
    async def ask() -> list[Document]:
        here = asyncio.Barrier(len(NAMES))

        # None returns before all have been asked.
        async def meet(_: str) -> list[Document]:
            await here.wait()
            return [Document("1", id="1")]

        one = FusionRetriever({name: RunnableLambda(meet) for name in NAMES})
        return await asyncio.wait_for(one.ainvoke("q"), timeout=30)

    assert len(asyncio.run(ask())) == 1


def test_it_is_a_runnable_like_others() -> None:
    one = retriever(requests()[3], top_k=2)
    assert [len(found) for found in one.batch(["q", "r"])] == [2, 2]
    assert (one | RunnableLambda(len)).invoke("q") == 2
    changed = one.configurable_fields(top_k=ConfigurableField(id="top_k"))
    assert len(changed.with_config(configurable={"top_k": 1}).invoke("q")) == 1
    nested = FusionRetriever({"first": one, "again": one})
    assert [d.id for d in nested.invoke("q")] == [d.id for d in one.invoke("q")]


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
        ({"weights": {"bm25": -1}}, ParameterError, "weight of list 'bm25'"),
        ({"top_k": 0}, ParameterError, "'top_k' parameter"),
        ({"threshold": {"colbert": 1}}, ParameterError, "threshold= names 'colbert'"),
        ({"smaller_is_better": ["colbert"]}, ParameterError, "smaller_is_better= names 'colbert'"),
        ({"model": "no such file"}, DataError, "no such file"),
        ({"method": "crf"}, ParameterError, "crf learns from labels"),
        ({"wieghts": {"bm25": 9}}, TypeError, "no parameter 'wieghts'. Did you mean 'weights'"),
        ({"topk": 1}, TypeError, "no parameter 'topk'. Did you mean 'top_k'"),
    ],
)
def test_wrong_settings_are_errors_at_once(settings: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        retriever({"bm25": []}, **settings)


def test_retrievers_need_names() -> None:
    with pytest.raises(ParameterError, match=r"'retrievers' parameter .* a dict from name to retriever.* Got \["):
        FusionRetriever([lambda _: []])  # type: ignore[arg-type]


def test_errors_say_what_to_do() -> None:
    rows = {"bm25": [("d1", "text", 1.0)]}
    no_id = FusionRetriever({"bm25": lambda _: [Document("text")]})
    with pytest.raises(DataError, match=r"row 0 of 'bm25' has no id.*key='source'.*page_content"):
        no_id.invoke("q")
    with pytest.raises(DataError, match="row 0 of 'bm25' has no id"):
        retriever(rows, key="source").invoke("q")
    with pytest.raises(DataError, match=r"'d1' in row 0 of 'bm25' has no score.*'cosine' in its metadata"):
        retriever(rows, score="cosine").invoke("q")
    with pytest.raises(NotFittedError):
        retriever(rows, model=cc.CRF()).invoke("q")
