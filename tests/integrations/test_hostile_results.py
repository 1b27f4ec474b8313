"""What a retriever must not return is refused by name in every framework."""

from __future__ import annotations

from typing import Any

import pytest

from concordant.errors import ConcordantError, DataError

# What retrievers return by mistake.
WRONG: list[Any] = ["a text", ["one", "two"], {"id": "x"}, [{"id": "x"}], 3, [None], [["x"]], b"bytes", ...]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_langchain(wrong: Any) -> None:
    pytest.importorskip("langchain_core", reason="the extra langchain is not installed")
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda

    from concordant.integrations.langchain import FusionRetriever

    good: Any = RunnableLambda(lambda _: [Document("one", id="1")])
    with pytest.raises(DataError, match="'bad'"):
        FusionRetriever({"good": good, "bad": RunnableLambda(lambda _: wrong)}).invoke("q")
    broken = Document("one", id="1")
    broken.metadata = None
    for settings in ({}, {"key": "source"}, {"score": "own"}):
        with pytest.raises(DataError, match="'metadata' of the result in row 0 of 'bad' is None, not a dictionary"):
            FusionRetriever({"bad": RunnableLambda(lambda _: [broken])}, **settings).invoke("q")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_haystack(wrong: Any) -> None:
    pytest.importorskip("haystack", reason="the extra haystack is not installed")
    from haystack import Document

    from concordant.integrations.haystack import FusionJoiner

    with pytest.raises(DataError, match="'bad'"):
        FusionJoiner(["good", "bad"]).run(good=[Document(id="1", score=1.0)], bad=wrong)


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_llama_index(wrong: Any) -> None:
    pytest.importorskip("llama_index.core", reason="the extra llama-index is not installed")
    from llama_index.core.retrievers import BaseRetriever

    from concordant.integrations.llama_index import FusionRetriever

    class Silent(BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> list[Any]:
            return []

    # LlamaIndex itself reads what a retriever returns, and fails on most of it before it comes here.
    with pytest.raises(DataError, match="'bad'"):
        FusionRetriever({"bad": Silent()})._fused({"bad": wrong})


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("wrong", [*WRONG, None], ids=repr)
def test_pyterrier(wrong: Any) -> None:
    pytest.importorskip("pyterrier", reason="the extra pyterrier is not installed")
    import pandas as pd
    import pyterrier as pt

    from concordant.integrations.pyterrier import FusionTransformer

    class Bad(pt.Transformer):
        def transform(self, inp: pd.DataFrame) -> Any:
            return wrong

    bad: Any = Bad
    with pytest.raises(ConcordantError, match="'bad'"):
        FusionTransformer({"bad": bad()}).transform(pd.DataFrame({"qid": ["1"], "query": ["q"]}))
