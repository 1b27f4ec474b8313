"""An explanation takes scores apart, names who put one item above another, and says when it cannot."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest

import concordant as cc
from concordant.errors import DataError, KindError


class Sums(cc.Aggregator):
    """The sum of 1 / rank, and of half a point for everybody."""

    name = "toy-sums"
    tags = cc.Tags(accepts=frozenset({"rank"}))

    def __init__(self) -> None:
        pass

    def _scores(self, p: Any) -> Any:
        return 0.5 + np.bincount(p.slot, 1 / p.value, minlength=p.n_slots)

    def _contributions(self, p: Any) -> Any:
        table = np.zeros((p.n_slots, p.n_experts))
        table[p.slot, p.row_expert] = 1 / p.value
        return p.experts.tolist(), table, np.full(p.n_slots, 0.5)


VOTES = cc.Preferences(
    ["q", "q", "q", "r"],
    ["x", "x", "y", "z"],
    ["a", "b", "b", "a"],
    [1, 2, 1, 1],
    items=[("q", "a"), ("q", "b"), ("r", "a")],
)


def test_scores_are_taken_apart() -> None:
    found = Sums().explain(VOTES, "q")
    assert found.items == ["b", "a"]
    assert found.experts == ["y", "x"]  # z is silent here; y moves the scores more than x does
    np.testing.assert_allclose(found.contribution, [[1.0, 0.5], [0.0, 1.0]])
    np.testing.assert_allclose(found.score, [2.0, 1.5])
    assert found.between("b", "a") == {"y": 1.0, "x": -0.5}
    assert str(found).splitlines() == [
        "item   score        y        x   (base)",
        "b     2.0000  +1.0000  +0.5000  +0.5000",
        "a     1.5000  +0.0000  +1.0000  +0.5000",
    ]
    b, a = [("b", "y", 1.0), ("b", "x", 0.5), ("b", None, 0.5)], [("a", "y", 0.0), ("a", "x", 1.0), ("a", None, 0.5)]
    assert found.to_frame().rows() == b + a


def test_what_has_no_room_is_summed_up() -> None:
    text = Sums().explain(VOTES, "q").to_text(rows=1, columns=1)
    assert text.splitlines() == [
        "item   score        y   others   (base)",
        "b     2.0000  +1.0000  +0.5000  +0.5000",
        "… 1 more items",
    ]


RUNS, LABELS, _ = cc.synthetic.meta_search(12, random_state=3)
EXPLAINABLE = {
    "rrf": cc.RRF(weights={"e1": 2.0}, unknown_experts="ignore"),
    "weighted-sum": cc.WeightedSum(),
    "crf": cc.CRF(epsilon=3),
    "listwise-linear": cc.ListwiseLinear(transform="log", l2=0.1),
    "svd-rank": cc.SVDRank(passes=3),
    "ranknet": cc.RankNet(l2=0.1, max_iter=20),
}


@pytest.mark.parametrize("name", EXPLAINABLE)
def test_the_printed_parts_of_a_score_add_up_to_it(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = EXPLAINABLE[name].fit(RUNS, LABELS)
    # Two experts of those that were learned are not there: what they add by their absence is the base.
    request = RUNS.select_experts(RUNS.experts.tolist()[2:])[:1]
    found, score = model.explain(request), model.predict(request)
    table = [line.split() for line in found.to_text(rows=100).splitlines()]
    assert len(table) == 1 + len(found.items)
    for row in table[1:]:
        assert float(row[1]) == pytest.approx(sum(map(float, row[2:])), abs=1e-4 * len(row))
    totals = found.to_frame().group_by("item").agg(pl.col("contribution").sum())
    want = dict(zip(score.items, score.score.tolist(), strict=True))
    assert dict(totals.iter_rows()) == pytest.approx(want, abs=1e-9)


def test_one_instance_is_named() -> None:
    with pytest.raises(DataError, match="hold 2 instances"):
        Sums().explain(VOTES)
    with pytest.raises(DataError, match="unknown instance 's'"):
        Sums().explain(VOTES, "s")
    with pytest.raises(DataError, match="no item 'c'"):
        Sums().explain(VOTES, "q").between("a", "c")
    assert Sums().explain(VOTES[1:]).instance == "r"


def test_what_is_no_sum_is_not_explained() -> None:
    with pytest.raises(KindError, match=r"MedianRank.*no sum over experts"):
        cc.MedianRank().explain(VOTES, "q")
