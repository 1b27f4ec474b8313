"""`FusionRetriever`: a LlamaIndex retriever that fuses others, with weights in every method."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from concordant.base.contract import Aggregator
from concordant.errors import MissingExtraError
from concordant.integrations._fusion import PARTS, Fusion, Key, by_name, id_getter

try:
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle
except ImportError as error:
    raise MissingExtraError.of("llama-index-core", "llama-index", "concordant.integrations.llama_index") from error

__all__ = ["FusionRetriever"]


class FusionRetriever(BaseRetriever):
    """Fuse what several LlamaIndex retrievers return.

    A retriever that returns nothing does not count. If one raises, the request raises the same error. `aretrieve` runs
    all retrievers at the same time, `retrieve` one after the other.

    Parameters
    ----------
    retrievers : dict from name to retriever
        The retrievers. Weights and models use these names.
    method : str or Aggregator
        A name of `METHODS`, such as "rrf", or a method.
    key : str or function, optional
        The key of the metadata that identifies a node, or a function from `NodeWithScore` to id; by default `node_id`.
    use_scores : bool
        Whether the retrievers' scores count, or only the order of the nodes.
    callback_manager : CallbackManager, optional
        As in other retrievers.
    **settings
        weights : dict from name to float; 1 by default. top_k : how many nodes to return; all by default. model : a
        fitted method, or the path of a saved one, in place of `method`. depth, threshold, smaller_is_better : as in
        `fuse`. params : dict of the method's parameters, such as ``{"k": 20}``. explain : whether to put the share of
        each retriever in the score into the metadata, as ``fusion_parts``; methods whose scores are no sum over
        retrievers raise KindError.

    Returns
    -------
    list of NodeWithScore
        Best first, with the fused score. If several lists hold a node, the one with the best rank is returned. With
        `explain` nodes are copies, and the parts are hidden from prompts and embeddings.

    Examples
    --------
    >>> from llama_index.core.retrievers import BaseRetriever
    >>> from llama_index.core.schema import NodeWithScore, TextNode
    >>> class Fixed(BaseRetriever):
    ...     def __init__(self, *texts):
    ...         self.texts = texts
    ...         super().__init__()
    ...
    ...     def _retrieve(self, query_bundle):
    ...         nodes = [TextNode(id_=text, text=text) for text in self.texts]
    ...         return [NodeWithScore(node=node, score=1 / n) for n, node in enumerate(nodes, 1)]
    >>> retrievers = {"bm25": Fixed("one", "two"), "dense": Fixed("two", "three")}
    >>> for node in FusionRetriever(retrievers, weights={"dense": 2}, top_k=2).retrieve("a query"):
    ...     print(node.text, round(node.score, 4))
    two 0.0489
    three 0.0323
    """

    def __init__(
        self,
        retrievers: Mapping[str, BaseRetriever],
        method: str | Aggregator = "rrf",
        *,
        key: Key = None,
        use_scores: bool = True,
        callback_manager: CallbackManager | None = None,
        **settings: Any,
    ) -> None:
        self.retrievers = by_name(retrievers)
        self.fusion = Fusion(tuple(self.retrievers), method, **settings)
        self._key = id_getter(key, "node_id", "metadata")
        self._score = attrgetter("score") if use_scores else None
        super().__init__(callback_manager=callback_manager)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._fused({name: one.retrieve(query_bundle) for name, one in self.retrievers.items()})

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        lists = await asyncio.gather(*(one.aretrieve(query_bundle) for one in self.retrievers.values()))
        return self._fused(dict(zip(self.retrievers, lists, strict=True)))

    def _fused(self, lists: dict[str, list[NodeWithScore]]) -> list[NodeWithScore]:
        """Return the nodes of one request, best first."""
        out = []
        for item, score, _, parts in self.fusion(
            lists, self._key, self._score, kind=NodeWithScore, metadata="metadata"
        ):
            node = item.node
            if parts is not None:
                keys = ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys")
                excluded = {name: [*getattr(node, name), PARTS] for name in keys}
                node = node.model_copy(update={"metadata": {**node.metadata, PARTS: parts}, **excluded})
            out.append(NodeWithScore(node=node, score=score))
        return out
