"""What the types of the public functions promise. mypy checks this file; nothing runs it."""

from __future__ import annotations

from typing import assert_type

import numpy as np
import polars as pl
from numpy.typing import NDArray

import concordant as cc


def containers() -> None:
    """Readers return one container each."""
    assert_type(cc.from_lists({"bm25": ["a", "b"], "dense": {"a": 0.5}}), cc.Preferences)
    assert_type(cc.from_runs({"bm25": {"q": {"a": 0.5}}, "dense": {"q": ["a"]}}), cc.Preferences)
    assert_type(cc.read_runs("runs/*.trec"), cc.Preferences)
    assert_type(cc.read_ratings("stars.csv"), cc.Preferences)
    assert_type(cc.read_rankings("ballots.csv"), cc.Preferences)
    assert_type(cc.read_preflib("ballots.soi"), cc.Preferences)
    assert_type(cc.read_comparisons("votes.csv"), cc.Comparisons)
    assert_type(cc.read_labels("qrels.txt"), cc.Labels)
    assert_type(cc.read_letor("train.txt"), tuple[cc.Preferences, cc.Labels])
    assert_type(cc.read_features("train.txt"), tuple[cc.Features, cc.Labels])
    assert_type(cc.read("anything"), cc.Dataset)
    assert_type(cc.scan("huge.parquet"), cc.Blocks)


def frames(df: pl.DataFrame) -> None:
    """The columns that are named decide what a dataframe becomes."""
    assert_type(cc.from_frame(df, kind="rank"), cc.Preferences)
    assert_type(cc.from_frame(df, kind="score"), cc.Preferences)
    assert_type(cc.from_frame(df, left="a", right="b", winner="w"), cc.Comparisons)
    assert_type(cc.from_frame(df, label="grade"), cc.Labels)
    assert_type(cc.from_frame(df, features=["f1", "f2"]), cc.Features)
    assert_type(cc.from_frame(df, kind="consensus"), cc.Consensus)


def slices(preferences: cc.Preferences, labels: cc.Labels) -> None:
    """A part of a container is a container of the same class, and so is what several are joined to."""
    assert_type(preferences[:3], cc.Preferences)
    assert_type(cc.concat([preferences, preferences]), cc.Preferences)
    assert_type(cc.concat([labels, labels]), cc.Labels)
    assert_type(preferences.n_slots, int)


def methods(preferences: cc.Preferences, votes: cc.Comparisons, labels: cc.Labels) -> None:
    """A method returns a Consensus, and `fit` returns the method with its own class."""
    assert_type(cc.aggregate(preferences), cc.Consensus)
    assert_type(cc.aggregate(votes, "bradley-terry", prior=0.1), cc.Consensus)
    assert_type(cc.aggregate(preferences, cc.RRF(k=20)), cc.Consensus)
    assert_type(cc.RRF(k=60, weights={"dense": 2.0}).fit_predict(preferences), cc.Consensus)
    assert_type(cc.BradleyTerry().fit(votes), cc.BradleyTerry)
    assert_type(cc.CRF().fit(preferences, labels), cc.CRF)
    assert_type(cc.CRF().fit(preferences, labels).predict(preferences), cc.Consensus)
    assert_type(cc.METHODS["rrf"], type[cc.Aggregator])
    assert_type(list(cc.METHODS), list[str])
    assert_type(cc.methods(), pl.DataFrame)
    assert_type(cc.load("fusion.model"), cc.Aggregator)


def registered() -> None:
    """A registered class stays itself."""

    @cc.register_method
    class Own(cc.RRF):
        name = "own"

    assert_type(Own(k=3), Own)


def requests(model: cc.Aggregator) -> None:
    """A request gives hits, and a part of them hits."""
    hits = cc.fuse({"bm25": [1, 2], "dense": [(2, 0.5)], "splade": {3: 0.1}, "reranker": None}, weights={"bm25": 2})
    assert_type(hits, cc.Hits)
    assert_type(hits[0], cc.Hit)
    assert_type(hits[:3], cc.Hits)
    assert_type(hits[0].score, float)
    assert_type(hits[0].rank, int)
    assert_type([hit.rank for hit in hits], list[int])
    assert_type(cc.fuse({"bm25": ["a"]}, model=model, key=str.lower, top_k=3), cc.Hits)
    assert_type(cc.fuse({"bm25": ["a"]}, cc.RRF(k=3)), cc.Hits)


def answers(consensus: cc.Consensus) -> None:
    """A consensus gives rankings, arrays and frames."""
    assert_type(consensus.ranking(), list[str])
    assert_type(consensus.hits("q1", top_k=3), cc.Hits)
    assert_type(consensus.to_dict(), dict[str, dict[str, float]])
    assert_type(consensus.to_frame(), pl.DataFrame)
    assert_type(consensus.score, NDArray[np.float64])


def evaluation(preferences: cc.Preferences, consensus: cc.Consensus, labels: cc.Labels) -> None:
    """Measures return their own classes."""
    assert_type(cc.evaluate(consensus, labels, "ndcg@10"), cc.Evaluation)
    assert_type(cc.evaluate(consensus, labels, ["ndcg@10", "map"]).mean["map"], float)
    assert_type(cc.evaluate(preferences, labels, "ndcg@10")["bm25"], cc.Evaluation)
    assert_type(cc.compare({"rrf": consensus}, labels, ["map"]), cc.Comparison)
    assert_type(cc.cross_validate(cc.CRF(), preferences, labels).consensus, cc.Consensus)
    assert_type(cc.describe_experts(preferences, consensus), pl.DataFrame)
