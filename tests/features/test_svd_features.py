"""Features of items are the singular vectors of the matrices written out, whoever is added up with whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.aggregators.common import from_matrix
from tests.oracles import svd as oracle

import concordant as cc
from concordant.errors import DataError
from concordant.features.expert_features import WeightBlocks, weight_blocks
from concordant.features.svd_features import (
    STRENGTHS,
    dense_triples,
    feature_names,
    singular_triples,
    triple_rows,
    triple_terms,
)


def features(
    votes: Any, blocks: WeightBlocks, strength: str, p: int = 1, missing: str = "unknown", scaling: str = "paper"
) -> Any:
    """Return the features as (items, blocks, 3p + 1)."""
    found = singular_triples(votes, blocks, blocks.block_of_expert(votes, "test"), strength, p, missing, scaling)
    return dense_triples(found, votes.slots, blocks).X.reshape(votes.slots.n_slots, len(blocks.names), 3 * p + 1)


@st.composite
def tables(draw: Any) -> Any:
    m, k = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    R = draw(st.lists(st.lists(st.integers(0, 8), min_size=k, max_size=k), min_size=m, max_size=m))
    return np.array(R)


def same_up_to_signs(got: Any, U: Any, V: Any, p: int, sure: bool) -> None:
    """Require equal vectors; where signs are not told by the rule (`sure`), each pair may be turned around."""
    for c in range(p):
        u, v = got[:, c], got[:, 2 * p + c]
        sign = 1.0 if sure or u @ U[:, c] + v @ V[:, c] >= 0 else -1.0
        np.testing.assert_allclose(sign * u, U[:, c], atol=1e-7)
        np.testing.assert_allclose(sign * v, V[:, c], atol=1e-7)


@pytest.mark.parametrize("missing", ["unknown", "below"])
@pytest.mark.parametrize("strength", STRENGTHS)
@given(R=tables(), p=st.integers(1, 3), known=st.integers(0, 3), weights=st.lists(st.integers(1, 3), min_size=3))
@settings(max_examples=60)
def test_features_are_those_of_the_matrices(
    strength: str, missing: str, R: Any, p: int, known: int, weights: list[int]
) -> None:
    m, k = R.shape
    votes = from_matrix(R).with_weights({f"e{e}": weights[e] for e in range(k)})
    known = min(known, k)
    blocks = WeightBlocks([f"e{e}" for e in range(known)] + ["*"], known)
    X = features(votes, blocks, strength, p, missing)
    given_ranks = np.where(R > 0, R, np.nan).astype(float)
    each = [weights[e] * oracle.pairwise(given_ranks[:, e], strength, missing) for e in range(k)]
    for b in range(known + 1):
        alone = b < known
        spoken = R[:, b] > 0 if alone else (R[:, known:] > 0).any(axis=1)
        Y = each[b] if alone else sum(each[known:], np.zeros((m, m)))
        order = np.argsort(np.where(spoken, R[:, b], 99), kind="stable") if alone else None
        U, sigma, V = oracle.triples(Y, p, order)
        np.testing.assert_allclose(X[:, b, p : 2 * p], np.tile(sigma, (m, 1)), atol=1e-8)
        assert X[:, b, 3 * p].tolist() == (~spoken).astype(float).tolist()
        if oracle.gaps(Y, p) > 1e-3:
            same_up_to_signs(X[:, b], U, V, p, sure=alone or p == 1)


@pytest.mark.parametrize("case", range(4))
def test_worked_cases_of_one_expert_each(golden: Callable[[str], dict[str, Any]], case: int) -> None:
    content = golden("02_svd_features")
    chosen = content["cases"][case]
    R, p = chosen["input"]["R"], chosen["input"]["p"]
    votes = from_matrix(R)
    X = features(votes, weight_blocks(votes, "individual", 1, 1), chosen["input"]["transform"], p)
    want = np.array(chosen["expected"]["features"])
    np.testing.assert_allclose(X[:, :, : 3 * p].reshape(len(R), -1), want, atol=content["abs_tol"])
    for missing in [chosen["expected"].get("missing_indicator")]:
        assert missing is None or X[:, :, 3 * p].tolist() == missing


def test_worked_case_of_known_and_pooled_workers(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("26_crowdsourcing_hybrid")
    for case in content["cases"]:
        J, known = np.array(case["input"]["J"]), case["input"]["known"]
        # A judgement of 1 is rank 1, -1 is rank 2, 0 is none.
        votes = from_matrix(np.where(J == 1, 1, np.where(J == -1, 2, 0)))
        X = features(votes, WeightBlocks([f"e{k}" for k in known] + ["*"], len(known)), "binary")
        want = np.array(case["expected"]["features"])
        np.testing.assert_allclose(X[:, :, :3].reshape(len(J), -1), want, atol=content["abs_tol"])
        rest = np.delete(J, known, axis=1)
        assert X[:, -1, 3].tolist() == (~rest.any(axis=1)).astype(float).tolist()


def test_mean_scaling_gives_vectors_a_mean_square_of_one() -> None:
    votes = from_matrix([[1, 3, 0], [2, 1, 0], [4, 0, 0], [0, 2, 0], [0, 0, 0]])
    blocks = weight_blocks(votes, "individual", 1, 1)
    assert blocks.names == ["e0", "e1"]
    for missing, wide in (("unknown", 3), ("below", 5)):
        plain = features(votes, blocks, "log", missing=missing)
        scaled = features(votes, blocks, "log", missing=missing, scaling="mean")
        assert (scaled[:, :, 0] ** 2).sum(axis=0) == pytest.approx([3, 3])
        assert (scaled[:, :, 2] ** 2).sum(axis=0) == pytest.approx([wide, wide])
        assert scaled[:, :, 1] == pytest.approx(plain[:, :, 1] / np.sqrt(3 * wide))
        # The approximation of Y stays what it was.
        np.testing.assert_allclose(
            scaled[:, 0, 0] * scaled[:, 0, 1] * scaled[:, 0, 2], plain[:, 0, 0] * plain[:, 0, 1] * plain[:, 0, 2]
        )


def test_lists_of_weight_zero_are_not_there() -> None:
    R = [[1, 3, 2], [2, 1, 0], [3, 2, 1]]
    blocks = WeightBlocks(["e0", "e1", "*"], 2)
    light = features(from_matrix(R).with_weights({"e1": 0, "e2": 0}), blocks, "log")
    without = features(from_matrix(R).select_experts(["e0"]), blocks, "log")
    assert light.tolist() == without.tolist()
    assert light[:, 1:, 3].all()


def test_an_expert_left_out_is_not_heard() -> None:
    votes = from_matrix([[1, 2], [2, 1], [3, 3]])
    blocks = WeightBlocks(["e1"], -1)
    of_expert = blocks.block_of_expert(votes, "test", "ignore")
    assert of_expert.tolist() == [-1, 0]
    found = singular_triples(votes, blocks, of_expert)
    assert found.block.tolist() == [0]
    assert found.V[found.slot == 1].tolist() == [[0.0]]


def test_comparisons_are_entries_of_the_matrix_and_unnamed_ones_are_shared() -> None:
    columns = (["a", "b", "c", "a"], ["b", "c", "a", "b"], [2, 1, 0, 1], [1, 0, 0, 0], [0, 0, 3, 0])
    Y = np.array([[0, 3, 0], [1, 0, 1], [0, 0, 0]], dtype=float)
    U, sigma, V = oracle.triples(Y, 2)
    for expert in (None, ["x", "x", "y", "z"]):
        votes = cc.Comparisons("q", expert, *columns, items=[("q", i) for i in "abcd"])
        blocks = weight_blocks(votes, "consensus" if expert else "individual", 1, 1)
        assert blocks.names == ["*"]
        X = features(votes, blocks, "log", 2)
        np.testing.assert_allclose(X[:3, 0, 2:4], np.tile(sigma, (3, 1)), atol=1e-9)
        same_up_to_signs(X[:3, 0], U, V, 2, sure=False)
        assert X[:, 0, 6].tolist() == [0, 0, 0, 1]
    votes = cc.Comparisons("q", None, *columns)
    with pytest.raises(DataError, match="name no experts"):
        WeightBlocks(["x"], -1).block_of_expert(votes, "SVDRank")
    blocks = WeightBlocks(["x"], -1)
    assert len(singular_triples(votes, blocks, blocks.block_of_expert(votes, "SVDRank", "ignore")).slot) == 0


def test_an_expert_who_only_ties_prefers_nothing_and_is_heard() -> None:
    votes = cc.Comparisons("q", ["x", "y"], ["a", "a"], ["b", "b"], [0, 2], [0, 1], [2, 0])
    blocks = weight_blocks(votes, "individual", 1, 1)
    X = features(votes, blocks, "log")
    assert X[:, 0].tolist() == [[0, 0, 0, 0]] * 2
    assert X[0, 1, 0] == pytest.approx(1.0)


def test_blocks_follow_lists_and_rows() -> None:
    rows = [("q1", "x", "a", 1), ("q1", "x", "b", 2), ("q2", "x", "a", 1), ("q1", "y", "a", 1), ("q1", "z", "a", 1)]
    rows += [("q1", "z", i, 2) for i in "bcd"]
    votes = cc.Preferences(*zip(*rows, strict=True), experts=["z", "y", "x", "mute"])
    assert weight_blocks(votes, "individual", 9, 9).names == ["x", "y", "z"]
    assert weight_blocks(votes, "consensus", 1, 1).names == ["*"]
    assert weight_blocks(votes, "mixed", 2, 1).names == ["x", "*"]
    assert weight_blocks(votes, "mixed", 1, 3).names == ["x", "z", "*"]
    assert weight_blocks(votes, "mixed", 9, 1).names == ["*"]
    counted = cc.Comparisons(["q"] * 3, ["x", "x", "y"], ["a"] * 3, ["b"] * 3)
    assert weight_blocks(counted, "mixed", 1, 2).names == ["x", "*"]


@pytest.mark.parametrize("missing", ["unknown", "below"])
@pytest.mark.parametrize("p", [1, 2])
def test_sparse_rows_and_terms_say_what_the_features_say(p: int, missing: str) -> None:
    votes = from_matrix([[1, 3, 0, 1], [2, 1, 5, 2], [4, 0, 1, 0], [0, 10, 2, 0], [0, 0, 0, 0]])
    blocks = WeightBlocks(["e0", "e2", "*"], 2)
    found = singular_triples(votes, blocks, blocks.block_of_expert(votes, "test"), "log", p, missing)
    X = dense_triples(found, votes.slots, blocks).X
    w = np.random.default_rng(0).normal(size=(3, 3 * p + 1))
    terms, everywhere = triple_terms(found, w)
    total = np.bincount(found.slot, weights=terms, minlength=5) + everywhere.sum() + w[:, -1].sum()
    np.testing.assert_allclose(total, X @ w.ravel(), atol=1e-12)
    rows = triple_rows(found, votes.slots)
    inner = np.concatenate([w[:, :p], w[:, 2 * p :]], axis=1)
    by_slot = np.bincount(np.repeat(np.arange(5), np.diff(rows.starts)), (rows.X * inner[rows.block]).sum(axis=1), 5)
    np.testing.assert_allclose(by_slot, np.bincount(found.slot, weights=terms, minlength=5), atol=1e-12)
    assert feature_names(blocks, p)[-1] == "*.missing"


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("weights", ["individual", "consensus"])
def test_order_of_rows_items_and_experts_is_irrelevant_to_the_bit(p: int, weights: str) -> None:
    rng = np.random.default_rng(11)
    rows = [
        (f"q{n}", f"e{k}", f"i{i}", float(rng.integers(1, 12)))
        for n in range(4)
        for k in range(5)
        for i in range(9)
        if rng.random() < 0.7
    ]
    items = [(f"q{n}", f"i{i}") for n in range(4) for i in range(9)]

    def table(rows: Any, items: Any, experts: Any) -> dict[Any, Any]:
        votes = cc.Preferences(*zip(*rows, strict=True), items=items, experts=experts)
        blocks = weight_blocks(votes, weights, 1, 1)
        X = features(votes, blocks, "log", p, "below")
        named = zip(votes.slots.instance.tolist(), votes.slots.items, strict=True)
        return {(votes.instances[n], i): X[s].tolist() for s, (n, i) in enumerate(named)}

    want = table(rows, items, [f"e{k}" for k in range(5)])
    for _ in range(3):
        shuffled = [rows[i] for i in rng.permutation(len(rows))]
        got = table(shuffled, [items[i] for i in rng.permutation(len(items))], [f"e{k}" for k in rng.permutation(5)])
        assert got == want
