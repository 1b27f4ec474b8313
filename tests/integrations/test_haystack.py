"""The Haystack joiner gives what `fuse` gives, in a pipeline too, and survives being saved."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.integrations.requests_of_retrievers import NAMES, SETTINGS, Rows, fitted, fused, requests

import concordant as cc
from concordant.errors import DataError, KindError, ParameterError

pytest.importorskip("haystack", reason="the extra haystack is not installed")

from haystack import Document, Pipeline, component
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

from concordant.integrations.haystack import FusionJoiner

# Haystack loads only components of modules that the caller names.
TRUSTED = ["concordant.integrations.haystack"]


def documents(lists: dict[str, Rows]) -> dict[str, list[Document]]:
    return {
        name: [Document(id=d, content=text, meta={"doc": d}, score=score) for d, text, score in rows]
        for name, rows in lists.items()
    }


def seen(found: dict[str, Any]) -> list[tuple[str, str | None, float | None]]:
    return [(one.id, one.content, one.score) for one in found["documents"]]


def wanted(hits: cc.Hits) -> list[tuple[str, str, float]]:
    return [(hit.id, hit.item[1], hit.score) for hit in hits]


def again(joiner: FusionJoiner) -> FusionJoiner:
    """Return what a pipeline that was saved and loaded has in place of a joiner."""
    pipeline = Pipeline()
    # A component belongs to one pipeline.
    pipeline.add_component("joiner", FusionJoiner.from_dict(joiner.to_dict()))
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=TRUSTED).get_component("joiner")
    assert isinstance(loaded, FusionJoiner)
    return loaded


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("key", [None, "doc"])
def test_a_request_equals_fuse_before_and_after_saving(settings: dict[str, Any], key: str | None) -> None:
    joiner = FusionJoiner(NAMES, key=key, **settings)
    loaded = again(joiner)
    assert FusionJoiner.from_dict(joiner.to_dict()).to_dict() == joiner.to_dict() == loaded.to_dict()
    for lists in requests():
        want = wanted(fused(lists, scores=True, **settings))
        assert seen(joiner.run(**documents(lists))) == want
        assert seen(loaded.run(**documents(lists))) == want


@component
class Fixed:
    """A retriever that returns these documents whatever it is asked."""

    def __init__(self, found: list[Document] | None) -> None:
        self.found = found

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        if self.found is None:
            raise ConnectionError("no index today")
        return {"documents": self.found}


def pipeline_of(lists: dict[str, Any], joiner: FusionJoiner) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("joiner", joiner)
    for name, found in lists.items():
        pipeline.add_component(f"{name}_retriever", Fixed(found))
        pipeline.connect(f"{name}_retriever.documents", f"joiner.{name}")
    return pipeline


def test_a_pipeline_knows_retrievers_by_name_whatever_the_order() -> None:
    settings: dict[str, Any] = {"weights": {"bm25": 5}, "top_k": 4}
    for lists in requests():
        want = wanted(fused(lists, scores=True, **settings))
        for order in (NAMES, NAMES[::-1]):
            found = documents(lists)
            pipeline = pipeline_of({name: found[name] for name in order}, FusionJoiner(NAMES, **settings))
            data = {f"{name}_retriever": {"query": "q"} for name in order}
            assert seen(pipeline.run(data)["joiner"]) == want
            assert seen(asyncio.run(pipeline.run_async(data))["joiner"]) == want


def test_it_joins_the_retrievers_of_haystack_and_is_saved_with_them() -> None:
    store = InMemoryDocumentStore()
    store.write_documents([Document(id=str(n), content=text) for n, text in enumerate(("cats purr", "dogs bark"))])
    pipeline = Pipeline()
    pipeline.add_component("one", InMemoryBM25Retriever(store))
    pipeline.add_component("two", InMemoryBM25Retriever(store, top_k=1))
    pipeline.add_component("joiner", FusionJoiner(["bm25", "dense"], weights={"dense": 2}, explain=True))
    pipeline.connect("one.documents", "joiner.bm25")
    pipeline.connect("two.documents", "joiner.dense")
    data = {"one": {"query": "dogs"}, "two": {"query": "dogs"}, "joiner": {"top_k": 1}}
    (found,) = pipeline.run(data)["joiner"]["documents"]
    assert found.content == "dogs bark"
    assert found.meta["fusion_parts"] == {"dense": pytest.approx(2 / 61), "bm25": pytest.approx(1 / 61)}
    assert Pipeline.loads(pipeline.dumps(), allowed_modules=TRUSTED).to_dict() == pipeline.to_dict()


def test_models_are_taken_as_they_are_and_from_files(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path / "fusion.model")
    from_file = FusionJoiner(NAMES, model=tmp_path / "fusion.model")
    for lists in requests():
        want = wanted(fused(lists, scores=True, model=model))
        for joiner in (FusionJoiner(NAMES, model=model), from_file, again(from_file)):
            assert seen(joiner.run(**documents(lists))) == want
    with pytest.raises(ParameterError, match=r"with a fitted method in it cannot be saved.*model=path"):
        FusionJoiner(NAMES, model=model).to_dict()


def test_without_scores_the_order_counts() -> None:
    for lists in requests():
        upside_down = {name: rows[::-1] for name, rows in lists.items()}
        joiner = FusionJoiner(NAMES, use_scores=False)
        assert seen(joiner.run(**documents(upside_down))) == wanted(fused(upside_down, scores=False))


def test_explanations_add_up_to_the_score() -> None:
    joiner = again(FusionJoiner(NAMES, explain=True, weights={"dense": 3}))
    for lists in requests():
        given = documents(lists)
        for found in joiner.run(**given)["documents"]:
            assert sum(found.meta["fusion_parts"].values()) == pytest.approx(found.score, abs=1e-12)
        assert given == documents(lists)
    with pytest.raises(KindError, match="no sum over experts"):
        FusionJoiner(NAMES, "copeland", explain=True).run(**documents(requests()[1]))


def test_an_input_that_brings_nothing_has_no_say() -> None:
    some = [Document(id="1", content="1", score=0.5)]
    joiner = FusionJoiner(["bm25", "dense"], weights={"dense": 5})
    spoke = FusionJoiner(["bm25"]).run(bm25=some)
    assert joiner.run(bm25=some) == joiner.run(bm25=some, dense=None) == joiner.run(bm25=some, dense=[]) == spoke
    assert joiner.run() == {"documents": []}
    pipeline = pipeline_of({"bm25": some}, FusionJoiner(["bm25", "dense"]))
    assert pipeline.run({"bm25_retriever": {"query": "q"}})["joiner"] == spoke


def test_a_retriever_that_fails_is_not_silent() -> None:
    pipeline = pipeline_of({"bm25": [], "dense": None}, FusionJoiner(["bm25", "dense"]))
    # Haystack wraps the error of a component.
    with pytest.raises(Exception, match="no index today"):
        pipeline.run({"bm25_retriever": {"query": "q"}, "dense_retriever": {"query": "q"}})


@pytest.mark.parametrize("seed", range(3))
def test_methods_have_the_definitions_of_haystacks_own_joiner(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lists = {
        name: {f"d{i}": float(s) for i, s in zip(rng.permutation(12), np.sort(rng.pareto(1.5, 8))[::-1], strict=False)}
        for name in ("a", "b", "c")
    }
    rows = [[Document(id=i, content=i, score=s) for i, s in ranked.items()] for ranked in lists.values()]

    def theirs(mode: str) -> dict[str, float | None]:
        # Their joiner writes scores into the documents it is given.
        own = [[replace(document) for document in ranked] for ranked in rows]
        return {d.id: d.score for d in DocumentJoiner(join_mode=mode).run(documents=own)["documents"]}

    hits = cc.fuse(lists, "rrf", normalize=True)
    assert dict(zip(hits.ids, hits.scores, strict=True)) == pytest.approx(theirs("reciprocal_rank_fusion"), rel=1e-14)
    # Theirs takes the largest term of a document; the sum is of the same terms.
    parts = cc.fuse(lists, "dbsf", clip=False).explain().parts
    largest = {document: max(parts(document).values()) for document in hits.ids}
    assert largest == pytest.approx(theirs("distribution_based_rank_fusion"), rel=1e-13)


@pytest.mark.parametrize(
    ("names", "settings", "error", "words"),
    [
        (["bm25"], {"method": "rff"}, ParameterError, "Did you mean 'rrf'"),
        (
            ["bm25"],
            {"weights": {"colbert": 1}},
            ParameterError,
            "weights= names 'colbert', but no retriever has this name",
        ),
        (["bm25"], {"model": "no such file"}, DataError, "no such file"),
        (["top_k"], {}, ParameterError, "another name"),
        (["bm25"], {"wieghts": {}}, TypeError, "wieghts"),
    ],
)
def test_wrong_settings_are_errors_at_once(
    names: list[str], settings: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        FusionJoiner(names, **settings)


@pytest.mark.parametrize("names", ["ab", None, [1], [None], 3])
def test_names_are_a_list_of_texts(names: Any) -> None:
    with pytest.raises(ParameterError, match=r"'names' parameter of FusionJoiner must be a list of names"):
        FusionJoiner(names)


def test_errors_say_what_to_do() -> None:
    joiner = FusionJoiner(["bm25"])
    with pytest.raises(DataError, match=r"'1' in row 0 of 'bm25' has no score.*use_scores=False"):
        joiner.run(bm25=[Document(id="1", content="1")])
    with pytest.raises(ParameterError, match=r"no input 'dense'\. Inputs: bm25"):
        joiner.run(dense=[])
    with pytest.raises(ParameterError, match="'top_k' parameter"):
        joiner.run(top_k=0)
