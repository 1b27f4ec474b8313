"""Calls that the types refuse: each line must be an error of the kind its comment names, or mypy calls it unused."""

from __future__ import annotations

import concordant as cc


def refused(preferences: cc.Preferences, consensus: cc.Consensus, labels: cc.Labels) -> None:
    """Wrong containers, unknown parameters and positional parameters."""
    cc.aggregate(labels)  # type: ignore[arg-type]
    cc.aggregate(preferences, 3)  # type: ignore[arg-type]
    cc.fuse([["a"], ["b"]])  # type: ignore[arg-type]
    cc.fuse({"bm25": ["a"]}, "rrf", {"bm25": 2})  # type: ignore[call-arg]
    cc.RRF(60)  # type: ignore[call-arg]
    cc.RRF(kk=60)  # type: ignore[call-arg]
    cc.MarkovChain(teleport="0.1")  # type: ignore[arg-type]
    cc.Borda().fit_predict(labels)  # type: ignore[arg-type]
    cc.evaluate(labels, labels, "map")  # type: ignore[call-overload]
    cc.evaluate(consensus, labels, "map", "trec")  # type: ignore[call-overload]
    cc.read_runs(3)  # type: ignore[arg-type]
    _ = cc.no_such_name  # type: ignore[attr-defined]
    consensus.rank = 1  # type: ignore[assignment]
