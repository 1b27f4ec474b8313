"""Blocks are a container like the others: what takes preferences takes blocks, or says what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.errors import DataWarning
from concordant.execution import InMemory
from concordant.metrics.evaluation import evaluate_experts
from concordant.selection import GridSearch, cross_validate


@pytest.fixture(name="blocks", scope="module")
def _blocks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cc.Blocks]:
    path: Path = tmp_path_factory.mktemp("ratings") / "ratings.csv"
    rng = np.random.default_rng(3)
    lines = ["instance,expert,item,rating"]
    for q in range(40):
        truth = rng.normal(size=6)
        for e in range(5):
            said = np.clip(np.round(3 + 2 * truth + (0.3 + e) * rng.normal(size=6)), 1, 5)
            lines += [f"q{q},e{e},d{i},{said[i]:g}" for i in range(6) if rng.random() < 0.9]
    path.write_text("\n".join(lines) + "\n")
    with cc.scan(path, block_rows=300) as blocks:
        assert len(blocks) > 2
        yield blocks


# Learned numbers are sums over blocks, and rounded in another order than those over all instances.
METHODS = [
    (cc.RRF(), 0.0),
    (cc.Kemeny(), 0.0),
    (cc.PlackettLuce(), 0.0),
    (cc.BradleyTerry(ties="none"), 0.0),
    (cc.BradleyTerry(ties="davidson"), 1e-7),
    (cc.MPM(adherence="none"), 0.0),
    (cc.MPM(adherence="learned"), 1e-7),
    (cc.ULARA(), 1e-12),
    (cc.ExtendedMallows(max_iter=3), 1e-9),
    (cc.PlackettLuce(adherence=True), 1e-7),
    (cc.PlackettLuce(ties="davidson-luce"), 1e-7),
]


@pytest.mark.parametrize(("method", "tolerance"), METHODS, ids=repr)
@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
def test_the_consensus_of_blocks_is_that_of_the_preferences(
    blocks: cc.Blocks, method: cc.Aggregator, tolerance: float
) -> None:
    expected = cc.aggregate(cc.concat(blocks[:]), method)
    fresh = type(method)(**method.get_params())
    found = fresh.fit_predict(blocks)
    assert found is fresh.consensus_
    assert found.instances == blocks.instances == expected.instances
    assert found.items == expected.items
    np.testing.assert_allclose(found.score, expected.score, rtol=0, atol=tolerance * np.abs(expected.score).max())
    again = fresh.fit(blocks).predict(blocks)
    np.testing.assert_array_equal(again.score, found.score)
    assert cc.aggregate(blocks, fresh).score.tolist() == found.score.tolist()


def test_blocks_may_lie_in_memory(blocks: cc.Blocks) -> None:
    votes = cc.concat(blocks[:])
    parts = [votes[:5], votes[5:]]
    rows = np.diff(votes.list_offsets[votes.list_starts])
    held = cc.Blocks(InMemory(parts), votes.instances, votes.experts, rows, votes.kind)
    assert cc.aggregate(held).score.tolist() == cc.aggregate(votes).score.tolist()


def test_what_cannot_take_blocks_says_what_to_do(blocks: cc.Blocks) -> None:
    labels = cc.Labels(["q"], ["a"], [1])
    with pytest.raises(cc.errors.KindError, match=r"SVDRank learns from preferences in memory.*concat\(blocks\[:2\]\)"):
        cc.SVDRank().fit(blocks, labels)
    with pytest.raises(cc.errors.KindError, match=r"LambdaRank.*concat\(blocks\[:2\]\)"):
        cc.LambdaRank().fit(blocks, labels)
    with pytest.raises(cc.errors.KindError, match=r"concat\(blocks\[:2\]\)"):
        GridSearch(cc.RRF(), {"k": [1, 60]}).fit(blocks, labels)
    with pytest.raises(cc.errors.KindError, match=r"cross_validate.*Blocks.*concat\(blocks\[:2\]\)"):
        cross_validate("rrf", blocks, labels)
    with pytest.raises(cc.errors.DataError, match=r"expert 'e0' and the labels share no instance"):
        cc.evaluate(blocks, labels, "map")
    with pytest.raises(cc.errors.KindError, match=r"blocks\[0\]"):
        cc.RRF().explain(blocks)  # type: ignore[arg-type] # what is tested
    with pytest.raises(cc.errors.KindError, match="no features beside blocks"):
        cc.BradleyTerry().fit(blocks, features=cc.Features(["q"], ["a"], [[1.0]]))


def test_experts_in_blocks_are_evaluated_as_in_memory(blocks: cc.Blocks) -> None:
    votes = cc.concat(blocks[:])
    rng = np.random.default_rng(0)
    known = [(q, f"d{i}") for q in blocks.instances[5:] for i in range(4)]
    # One labelled instance has no lists: it counts 0 for every expert.
    labels = cc.Labels([q for q, _ in known] + ["absent"], [i for _, i in known] + ["d0"], rng.integers(0, 3, 141))
    ways: list[dict[str, Any]] = [{}, {"top": 2}, {"convention": "letor", "rel": 2.0}]
    for how in ways:
        here = evaluate_experts(blocks, labels, "ndcg@3,map", **how)
        there = evaluate_experts(votes, labels, "ndcg@3,map", **how)
        assert here.partial == there.partial == votes.experts.tolist()
        assert here.silent == there.silent == []
        for expert, found in there.found.items():
            assert here.found[expert].instances == found.instances
            for name, values in found.values.items():
                np.testing.assert_array_equal(here.found[expert].values[name], values)
    with pytest.warns(DataWarning, match="answer only some"):
        table = cc.compare(blocks, labels, "map", tests=["t"])
    assert list(table.evaluations) == votes.experts.tolist()
    with pytest.raises(cc.errors.KindError, match=r"skip_empty=.*concat\(blocks\[:2\]\)"):
        cc.compare(blocks, labels, "map", skip_empty=True)
    with pytest.raises(cc.errors.DataError, match="expert 'e0' and the labels share no instance"):
        evaluate_experts(blocks, cc.Labels(["none such"], ["d0"], [1]), "map")


def test_methods_say_whether_they_go_block_by_block() -> None:
    able = [name for name in cc.METHODS if cc.METHODS[name].tags.blocks]
    assert able == ["bradley-terry", "crf", "extended-mallows", "mpm", "plackett-luce", "ulara"]
    assert not cc.MPM(adherence="learned", optimizer="gd").goes_block_by_block()
    assert not cc.CRF().goes_block_by_block()
    assert cc.CRF().goes_block_by_block(fitted=True)
    assert [cc.ULARA().goes_block_by_block(fitted=f, weighted=True) for f in (False, True)] == [False, True]
