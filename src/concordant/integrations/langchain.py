"""`FusionRetriever`: a LangChain retriever that fuses others, and returns scores and explanations."""

from __future__ import annotations

from typing import Any

from concordant.errors import MissingExtraError, ParameterError
from concordant.integrations._fusion import PARTS, RANK, SCORE, Fusion, Key, by_name, id_getter

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnableParallel
    from pydantic import Field
except ImportError as error:
    raise MissingExtraError.of("langchain-core", "langchain", "concordant.integrations.langchain") from error

__all__ = ["FusionRetriever"]

_NO_KEY = (
    "Name a key of the metadata, such as key='source', or give a function, such as key=lambda document: "
    "document.page_content."
)


class FusionRetriever(BaseRetriever):
    """Fuse what several LangChain retrievers return.

    A retriever that returns nothing does not count. If one raises, the request raises the same error. Retrievers run at
    the same time: `invoke` uses threads, `ainvoke` tasks.

    Parameters
    ----------
    retrievers : dict from name to retriever
        Retrievers, or other runnables from a query to documents. Weights and models use these names.
    method : str or Aggregator
        A name of `METHODS`, such as "rrf", or a method.
    weights : dict from name to float, optional
        Trust in each retriever; 1 by default.
    top_k : int, optional
        How many documents to return; all by default.
    model : Aggregator or path, optional
        A fitted method, or the path of a saved one, in place of `method`.
    depth, threshold, smaller_is_better
        As in `fuse`.
    params : dict, optional
        Parameters of the method, such as ``{"k": 20}``.
    key : str or function, optional
        The key of the metadata that identifies a document, or a function from document to id; by default
        `Document.id`.
    score : str or function, optional
        The key of the metadata that holds a retriever's own score, or a function from document to score. By default
        only the order of the documents counts.
    explain : bool
        Whether to return the share of each retriever in each score. Methods whose scores are no sum over retrievers
        raise KindError.

    Returns
    -------
    list of Document
        Copies, best first. If several lists hold a document, the copy with the best rank is returned. `metadata` has
        ``fusion_score`` and ``fusion_rank``, and with `explain` ``fusion_parts``: the share of each retriever.

    Examples
    --------
    >>> from langchain_core.documents import Document
    >>> from langchain_core.runnables import RunnableLambda
    >>> bm25 = RunnableLambda(lambda query: [Document("one", id="1"), Document("two", id="2")])
    >>> dense = RunnableLambda(lambda query: [Document("two", id="2"), Document("three", id="3")])
    >>> retriever = FusionRetriever({"bm25": bm25, "dense": dense}, weights={"dense": 2}, top_k=2)
    >>> for document in retriever.invoke("a query"):
    ...     print(document.page_content, round(document.metadata["fusion_score"], 4))
    two 0.0489
    three 0.0323
    """

    retrievers: dict[str, Any]
    method: Any = "rrf"
    weights: dict[str, float] | None = None
    top_k: int | None = None
    model: Any = None
    depth: int | None = None
    threshold: float | dict[str, float] | None = None
    smaller_is_better: tuple[str, ...] = ()
    params: dict[str, Any] = Field(default_factory=dict)
    key: Key = None
    score: Key = None
    explain: bool = False

    def __init__(self, retrievers: dict[str, Any], method: Any = "rrf", **settings: Any) -> None:
        known = list(type(self).model_fields)
        for name in settings.keys() - known:
            # LangChain's retrievers ignore unknown parameters.
            raise TypeError(str(ParameterError.unknown(name, type(self).__name__, known)))
        super().__init__(**settings | {"retrievers": by_name(retrievers), "method": method})
        # Inside a validator Pydantic would turn our errors into its own.
        self._fusion()

    def _fusion(self) -> Fusion:
        return Fusion(
            tuple(self.retrievers),
            self.method,
            self.weights,
            self.top_k,
            self.model,
            self.depth,
            self.threshold,
            self.smaller_is_better,
            self.params,
            self.explain,
        )

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        lists = RunnableParallel(self.retrievers).invoke(query, {"callbacks": run_manager.get_child()})
        return self._fused(lists)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        lists = await RunnableParallel(self.retrievers).ainvoke(query, {"callbacks": run_manager.get_child()})
        return self._fused(lists)

    def _fused(self, lists: dict[str, list[Document] | None]) -> list[Document]:
        """Return the documents of one request, best first."""
        key = id_getter(self.key, "id", "metadata")
        score = None if self.score is None else id_getter(self.score, "", "metadata")
        out = []
        no_score = f"Every document needs {self.score!r} in its metadata. Leave out score= to fuse by the order."
        found = self._fusion()(lists, key, score, no_key=_NO_KEY, no_score=no_score, kind=Document, metadata="metadata")
        for item, value, rank, parts in found:
            added = {SCORE: value, RANK: rank} | ({} if parts is None else {PARTS: parts})
            out.append(item.model_copy(update={"metadata": {**item.metadata, **added}}))
        return out
