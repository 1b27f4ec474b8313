"""PyTerrier transformers that fuse others: `FusionTransformer`, and `FusionEstimator`, which learns how from qrels.

Neither starts Java.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

from concordant.base.contract import Aggregator
from concordant.base.registry import create
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import ColumnError, DataError, MissingExtraError, NotFittedError, ParameterError
from concordant.integrations._fusion import PARTS, Fused, Fusion, by_name

try:
    import pandas as pd
    import pyterrier as pt
except ImportError as error:
    raise MissingExtraError.of("pyterrier", "pyterrier", "concordant.integrations.pyterrier") from error

__all__ = ["FusionEstimator", "FusionTransformer"]

# A document of a result: its id, its score, and the row of the frame of all results.
_Row = tuple[Any, float, int]
_ID, _SCORE = itemgetter(0), itemgetter(1)


class FusionTransformer(pt.Transformer):
    """Fuse the results of several PyTerrier transformers, query by query.

    A transformer without results for a query does not count. If one raises, the request raises the same error. Lists
    are read in the order of their scores, as TREC runs are; the column rank is ignored.

    Parameters
    ----------
    retrievers : dict from name to transformer
        The transformers. Weights and models use these names.
    method : str or Aggregator
        A name of `METHODS`, such as "rrf", or a method.
    key : str
        The column of ids; rows with one id are the same document.
    **settings
        weights : dict from name to float; 1 by default. top_k : how many documents to return for a query; all by
        default. model : a fitted method, or the path of a saved one, in place of `method`. depth, threshold,
        smaller_is_better : as in `fuse`. params : dict of the method's parameters, such as ``{"k": 20}``. explain :
        whether to add the column ``fusion_parts``, the share of each retriever in the score; methods whose scores are
        no sum over retrievers raise KindError.

    Returns
    -------
    pandas.DataFrame
        One row per query and document: qid, docno, score, rank (0 = best) and the other columns of the results. If
        several lists hold a document, its row with the best rank is returned.

    Examples
    --------
    >>> import pandas as pd, pyterrier as pt
    >>> bm25 = pd.DataFrame({"qid": ["1", "1"], "docno": ["a", "b"], "score": [7.0, 3.0]})
    >>> dense = pd.DataFrame({"qid": ["1", "1"], "docno": ["b", "c"], "score": [0.9, 0.8]})
    >>> runs = {"bm25": pt.Transformer.from_df(bm25), "dense": pt.Transformer.from_df(dense)}
    >>> FusionTransformer(runs, weights={"dense": 2}, top_k=2).search("a query")[["docno", "rank"]].values.tolist()
    [['b', 0], ['c', 1]]
    """

    def __init__(
        self,
        retrievers: Mapping[str, pt.Transformer],
        method: str | Aggregator = "rrf",
        *,
        key: str = "docno",
        **settings: Any,
    ) -> None:
        self.retrievers = by_name(retrievers)
        self.key = key
        self.fusion = Fusion(tuple(self.retrievers), method, **settings)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the fused results of all queries."""
        results, queries = self._results(inp)
        found: list[Fused] = []
        ranks: list[int] = []
        for lists in queries.values():
            hits = self.fusion(lists, _ID, _SCORE)
            found += hits
            # PyTerrier counts ranks from 0, without ties.
            ranks += range(pt.model.FIRST_RANK, pt.model.FIRST_RANK + len(hits))
        out = results.iloc[[one.item[2] for one in found]].reset_index(drop=True)
        out["score"] = pd.Series([one.score for one in found], dtype="float64")
        out["rank"] = pd.Series(ranks, dtype="int64")
        if self.fusion.explain:
            out[PARTS] = pd.Series([one.parts for one in found], dtype="object")
        return out

    def subtransformers(self) -> dict[str, pt.Transformer]:
        """Return the fused transformers, for PyTerrier's pipeline diagrams."""
        return self.retrievers

    def _results(self, inp: pd.DataFrame) -> tuple[pd.DataFrame, dict[Any, dict[str, list[_Row]]]]:
        """Return all results as one frame, and for every query the list of each retriever."""
        frames = {name: one.transform(inp) for name, one in self.retrievers.items()}
        queries: dict[Any, dict[str, list[_Row]]] = {qid: {} for qid in inp["qid"].tolist()}
        row = 0
        for name, frame in frames.items():
            if not isinstance(frame, pd.DataFrame):
                raise DataError(f"{name!r} returned {type(frame).__name__}. A transformer must return a data frame.")
            if missing := [column for column in ("qid", self.key, "score") if column not in frame.columns]:
                raise ColumnError.missing(missing, frame.columns.tolist(), f"these are the results of {name!r}.")
            for qid, found, score in zip(*(frame[c].tolist() for c in ("qid", self.key, "score")), strict=True):
                queries.setdefault(qid, {}).setdefault(name, []).append((found, score, row))
                row += 1
        return pd.concat(list(frames.values()), ignore_index=True), queries


class FusionEstimator(FusionTransformer, pt.Estimator):
    """Learn from qrels how to fuse the results of several PyTerrier transformers, then fuse them.

    Parameters
    ----------
    retrievers : dict from name to transformer
        As in `FusionTransformer`.
    method : str or Aggregator
        A method that learns from labels, such as "listwise-linear" or "crf".
    params : dict, optional
        Parameters of the method.
    key, **settings
        As in `FusionTransformer`. The qrels name documents by the same ids.

    Attributes
    ----------
    model_ : Aggregator
        The fitted method; ``model_.save(path)`` keeps it.

    Examples
    --------
    >>> import pandas as pd, pyterrier as pt
    >>> import concordant as cc
    >>> data = cc.synthetic.runs(20, skill={"bm25": 1.0, "dense": 2.0}, random_state=1)
    >>> rows = data.preferences.to_frame().to_pandas().rename(columns={"instance": "qid", "item": "docno"})
    >>> qrels = data.labels.to_frame().to_pandas().rename(columns={"instance": "qid", "item": "docno"})
    >>> runs = {name: pt.Transformer.from_df(run.drop(columns="expert")) for name, run in rows.groupby("expert")}
    >>> topics = qrels[["qid"]].drop_duplicates()
    >>> learned = FusionEstimator(runs, "listwise-linear").fit(topics, qrels)
    >>> learned.transform(topics)["qid"].nunique()
    20
    """

    def __init__(
        self,
        retrievers: Mapping[str, pt.Transformer],
        method: str | Aggregator = "listwise-linear",
        *,
        key: str = "docno",
        params: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        if "model" in settings:
            raise ParameterError(
                "FusionEstimator fits its own model and takes no model=. "
                "Use FusionTransformer(model=...) for a fitted one."
            )
        self.method = create(method, **(params or {}))
        super().__init__(retrievers, key=key, **settings)

    def fit(
        self,
        topics_or_res_tr: pd.DataFrame,
        qrels_tr: pd.DataFrame,
        topics_or_res_va: pd.DataFrame | None = None,
        qrels_va: pd.DataFrame | None = None,
    ) -> FusionEstimator:
        """Learn from the results for the topics, and return self."""
        validation = None
        if topics_or_res_va is not None and qrels_va is not None:
            validation = self._preferences(topics_or_res_va), _labels(qrels_va)
        fresh = type(self.method)(**self.method.get_params())
        self.model_ = fresh.fit(self._preferences(topics_or_res_tr), _labels(qrels_tr), validation=validation)
        self.fusion = replace(self.fusion, model=self.model_)
        return self

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the results of all queries, fused with the fitted method."""
        if self.fusion.model is None:
            raise NotFittedError(
                f"this FusionEstimator ({self.method.name}) is not fitted yet. Call fit(topics, qrels)."
            )
        return super().transform(inp)

    def _preferences(self, topics: pd.DataFrame) -> Preferences:
        """Return the results for the topics as preferences, read as `transform` reads them."""
        return self.fusion.preferences(self._results(topics)[1], _ID, _SCORE)


def _labels(qrels: pd.DataFrame) -> Labels:
    return Labels(*(qrels[column].tolist() for column in ("qid", "docno", "label")))
