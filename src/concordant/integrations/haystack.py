"""`FusionJoiner`: a Haystack component that fuses the documents of several retrievers, by name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from concordant.base.contract import Aggregator
from concordant.errors import MissingExtraError, ParameterError, quote
from concordant.integrations._fusion import PARTS, Fusion, id_getter

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError as error:
    raise MissingExtraError.of("haystack-ai", "haystack", "concordant.integrations.haystack") from error

__all__ = ["FusionJoiner"]


@component
class FusionJoiner:
    """Fuse the documents of several Haystack retrievers.

    The component has one input for each name, so a weight belongs to its retriever in any order of connections. An
    input that is not connected, or has no documents, does not count. If a retriever raises, the pipeline raises.

    Parameters
    ----------
    names : list of str
        The names of the inputs: connect ``"retriever.documents"`` with ``"joiner.name"``. Weights and models use them.
    method : str or Aggregator
        A name of `METHODS`, such as "rrf", or a method.
    key : str, optional
        The key of `meta` that identifies a document; by default its id.
    use_scores : bool
        Whether the retrievers' scores count, or only the order of the documents.
    **settings
        weights : dict from name to float; 1 by default. top_k : how many documents to return; all by default. model : a
        fitted method, or the path of a saved one, in place of `method`; a saved pipeline keeps the path.
        depth, threshold, smaller_is_better : as in `fuse`. params : dict of the method's parameters, such as
        ``{"k": 20}``. explain : whether to put the share of each retriever in the score into `meta`, as
        ``fusion_parts``; methods whose scores are no sum over retrievers raise KindError.

    Examples
    --------
    >>> from haystack import Document
    >>> bm25 = [Document(id="1", content="one", score=7.0), Document(id="2", content="two", score=3.0)]
    >>> dense = [Document(id="2", content="two", score=0.9), Document(id="3", content="three", score=0.8)]
    >>> joiner = FusionJoiner(["bm25", "dense"], weights={"dense": 2}, top_k=2)
    >>> for document in joiner.run(bm25=bm25, dense=dense)["documents"]:
    ...     print(document.content, round(document.score, 4))
    two 0.0489
    three 0.0323
    """

    def __init__(
        self,
        names: Iterable[str],
        method: str | Aggregator = "rrf",
        *,
        key: str | None = None,
        use_scores: bool = True,
        **settings: Any,
    ) -> None:
        usual = isinstance(names, Iterable) and not isinstance(names, str)
        self.names = list(names) if usual else []
        if not usual or not all(isinstance(name, str) for name in self.names):
            raise ParameterError.invalid("names", "FusionJoiner", "a list of names, such as ['bm25', 'dense']", names)
        self.key = key
        self.use_scores = use_scores
        if "top_k" in self.names:
            raise ParameterError(
                "a retriever cannot be called 'top_k', which is another input of the component. Give it another name."
            )
        self.fusion = Fusion(tuple(self.names), method, **settings)
        for name in self.names:
            component.set_input_type(self, name, list[Document] | None, None)

    @component.output_types(documents=list[Document])
    def run(self, top_k: int | None = None, **lists: list[Document] | None) -> dict[str, list[Document]]:
        """Return the documents of all inputs, fused.

        Parameters
        ----------
        top_k : int, optional
            How many documents to return; by default the `top_k` of the component.
        **lists
            The documents of each retriever, best first.

        Returns
        -------
        dict
            ``documents``: copies, best first, with the fused score. If several inputs hold a document, the copy with
            the best rank is returned.
        """
        if unknown := [name for name in lists if name not in self.names]:
            raise ParameterError(f"the component has no input {quote(unknown[0])}. Inputs: {', '.join(self.names)}.")
        score = attrgetter("score") if self.use_scores else None
        # Ties follow the order of the names, not the order in which retrievers finish.
        ordered = {name: lists.get(name) for name in self.names}
        key = id_getter(self.key, "id", "meta")
        found = self.fusion(ordered, key, score, top_k=top_k, kind=Document, metadata="meta")
        return {
            "documents": [
                replace(item, score=value, meta=item.meta if parts is None else {**item.meta, PARTS: parts})
                for item, value, _, parts in found
            ]
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the component as a dictionary for saved pipelines."""
        fusion = self.fusion
        settings = {one.name: getattr(fusion, one.name) for one in fields(fusion) if one.name != "names"}
        method, model = fusion.method, fusion.model
        if isinstance(model, Aggregator):
            raise ParameterError(
                "a pipeline with a fitted method in it cannot be saved. Save the method with method.save(path), and "
                "pass model=path."
            )
        if isinstance(method, Aggregator):
            settings |= {"method": method.name, "params": method.get_params()}
        settings["model"] = None if model is None else os.fspath(model)
        settings["smaller_is_better"] = list(fusion.smaller_is_better)
        return default_to_dict(self, names=self.names, key=self.key, use_scores=self.use_scores, **settings)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FusionJoiner:
        """Return the component from a dictionary that `to_dict` returned."""
        return default_from_dict(cls, data)
