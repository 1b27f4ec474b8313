"""Potentials are those of the full tables, in any order, however they are summed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import potentials as oracle

import concordant as cc
from concordant.errors import DataError, ParameterError
from concordant.execution import force_threads
from concordant.features import expert_features
from concordant.features.expert_features import potential_scores, potentials, weight_blocks

TRANSFORMS = ("binary", "count", "rankdiff", "log")
ITEMS = tuple("abcdef")


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[dict[str, dict[str, float]]], np.ndarray]:
    """Draw the lists of two instances over the same three experts, with ties and gaps, and weights."""
    ranked = st.dictionaries(st.sampled_from(ITEMS), st.integers(1, 9).map(float), max_size=6)
    instances = [{e: draw(ranked) for e in "xyz"} for _ in range(2)]
    w = draw(st.lists(st.floats(-2, 2), min_size=9, max_size=9))
    return instances, np.array(w).reshape(3, 3)


def container(instances: list[dict[str, dict[str, float]]]) -> cc.Preferences:
    rows = [(f"q{n}", e, i, r) for n, q in enumerate(instances) for e, ranks in q.items() for i, r in ranks.items()]
    columns = list(zip(*rows, strict=True)) if rows else [[], [], [], []]
    every = [(f"q{n}", i) for n in range(len(instances)) for i in ITEMS]
    return cc.Preferences(*columns, items=every, experts=list("xyz"))


@pytest.mark.parametrize("missing", ["unknown", "below"])
@pytest.mark.parametrize("scaling", ["mean", "paper"])
@pytest.mark.parametrize("transform", TRANSFORMS)
@given(case=cases())
def test_scores_are_those_of_the_tables(transform: str, scaling: str, missing: str, case) -> None:
    instances, w = case
    p = container(instances)
    blocks = expert_features.WeightBlocks(["x", "y", "z"], -1)
    of_expert = blocks.block_of_expert(p, "CRF")
    how = {"missing": missing, "scaling": scaling}
    rows = potentials(p, blocks, of_expert, transform, **how)
    by_rows = rows.scores(w) + np.repeat(rows.base(w), np.diff(rows.offsets))
    by_terms = potential_scores(p, blocks, of_expert, w, transform, **how)
    weights = {e: tuple(w[b]) for b, e in enumerate("xyz")}
    want = [
        s
        for ranks in instances
        for s in oracle.score(ITEMS, ranks, "xyz", weights, transform, missing == "below", scaling == "mean")
    ]
    np.testing.assert_allclose(by_rows, want, atol=1e-10)
    np.testing.assert_allclose(by_terms, want, atol=1e-10)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_many_rows_are_summed_as_few_are(transform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    # Short lists and long ones, ties in both.
    rows = [
        (f"q{n}", f"e{k}", f"d{i}", rng.integers(1, 30 if n % 2 else 300))
        for n in range(20)
        for k in range(4)
        for i in range(25 + 150 * (n % 3))
    ]
    p = cc.Preferences(*zip(*rows, strict=True))
    blocks = weight_blocks(p)
    w = rng.normal(size=(4, 3))
    few = potential_scores(p, blocks, blocks.block_of_expert(p, "CRF"), w, transform)
    monkeypatch.setattr(expert_features, "_CHUNK_ROWS", 1)
    many = potential_scores(p, blocks, blocks.block_of_expert(p, "CRF"), w, transform)
    assert np.abs(many).max() > 0.1
    # To the last bit: how many rows there are is a matter of company, which an instance does not depend on.
    np.testing.assert_array_equal(many, few)


@pytest.mark.parametrize("missing", ["unknown", "below"])
@pytest.mark.parametrize("transform", [*TRANSFORMS, ("binary", "log")])
def test_potentials_of_stretches_are_those_of_all(
    transform: str | tuple[str, ...], missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(6)
    # Ties, lists of all lengths, lists that are left out, and an instance of which nobody says anything.
    rows = [
        (f"q{n}", f"e{k}", f"d{i}", float(rng.integers(1, 12)))
        for n in range(12)
        for k in range(5)
        for i in range(rng.integers(0, 9))
        if n != 4
    ]
    every = [(f"q{n}", f"d{i}") for n in range(12) for i in range(10)]
    p = cc.Preferences(*zip(*rows, strict=True), items=every)
    p = p.with_weights({"e0": 2.0, "e1": 1.0, "e2": 1.0, "e3": 0.0, "e4": 1.0})
    blocks = weight_blocks(p, "mixed", 11)
    of_expert = blocks.block_of_expert(p, "CRF").copy()
    of_expert[1] = -1
    whole = potentials(p, blocks, of_expert, transform, missing=missing)
    for size in (1, 40):
        monkeypatch.setattr(expert_features, "_CHUNK_ROWS", size)
        for n in (1, 3):
            with force_threads(n):
                found = potentials(p, blocks, of_expert, transform, missing=missing)
            for name, one, other in zip(whole._fields, whole, found, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=name, strict=True)


def test_shared_and_ignored_experts() -> None:
    p = cc.from_lists({"x": ["a", "b"], "y": ["b", "a"], "new": ["b", "c"]})
    blocks = expert_features.WeightBlocks(["x", "*"], 1, frozenset({"y"}))
    of_expert = blocks.block_of_expert(p, "CRF")
    assert dict(zip(p.experts, of_expert.tolist(), strict=True)) == {"x": 0, "y": -1, "new": 1}
    w = np.array([[0.0, 1.0, 0.0], [0.0, 10.0, 0.0]])
    got = dict(zip(p.items, potential_scores(p, blocks, of_expert, w, "binary"), strict=True))
    assert got == pytest.approx({"a": 1 / 3, "b": 10 / 3, "c": 0.0})
    with pytest.raises(DataError, match="'new'"):
        expert_features.WeightBlocks(["x"], -1, frozenset({"y"})).block_of_expert(p, "CRF")


def test_comparisons_count_wins_and_losses() -> None:
    c = cc.Comparisons(["q"] * 3, ["x", "x", "y"], ["a", "a", "b"], ["b", "c", "a"], [3, 0, 1], [1, 0, 0], [0, 2, 0])
    blocks = weight_blocks(c)
    w = np.array([[0.5, 1.0, 10.0], [0.25, 100.0, 1000.0]])
    got = potential_scores(c, blocks, blocks.block_of_expert(c, "CRF"), w)
    # x: a wins 3, loses 1; b the reverse; c tied only. y: b beats a and does not know c.
    want = [(3 - 10) / 3 - 1000 / 3, (1 - 30) / 3 + 100 / 3, 0.25]
    np.testing.assert_allclose(got, want)


def test_keys_do_not_depend_on_order() -> None:
    rows = [("q", e, i, r) for e, order in (("x", "abcd"), ("y", "dbca")) for r, i in enumerate(order, start=1)]
    keys = []
    for some in (rows, rows[::-1]):
        p = cc.Preferences(*zip(*some, strict=True))
        found = potentials(p, weight_blocks(p), weight_blocks(p).block_of_expert(p, "CRF"), "log")
        keys.append(dict(zip(p.items, found.key.tolist(), strict=True)))
    assert keys[0] == keys[1]
    assert len(set(keys[0].values())) == 4


@pytest.mark.parametrize("transform", ["log", "rankdiff", "binary"])
@pytest.mark.parametrize("missing", ["unknown", "below"])
def test_potentials_as_features_are_what_the_crf_adds_up(transform: str, missing: str) -> None:
    runs, labels = cc.synthetic.labelled_runs(20, random_state=2)
    model = cc.CRF(passes=3, transform=transform, missing=missing).fit(runs, labels)
    features = cc.expert_features(runs, transform=transform, missing=missing)
    assert features.slots == runs.slots
    assert features.names.tolist()[:3] == [f"{model.experts_[0]}.{n}" for n in ("missing", "preferred", "beaten")]
    np.testing.assert_allclose(features.X @ model.weights_.ravel(), model.predict(runs).score, atol=1e-9)


def test_singular_vectors_as_features_are_those_of_svd_rank() -> None:
    runs, labels = cc.synthetic.labelled_runs(20, random_state=2)
    model = cc.SVDRank(passes=2, strength="rankdiff").fit(runs, labels)
    assert cc.expert_features(runs, "svd", transform="rankdiff") == model.transform(runs)


def test_other_parts_get_the_columns_they_are_asked_for() -> None:
    runs, _ = cc.synthetic.labelled_runs(10, random_state=2)
    whole = cc.expert_features(runs)
    part = cc.expert_features(runs, experts=["e3", "e1", "stranger"])
    assert part.names.tolist()[::3] == ["e3.missing", "e1.missing", "stranger.missing"]
    for name in ("e3.preferred", "e1.beaten"):
        mine, theirs = part.names.codes[name], whole.names.codes[name]
        np.testing.assert_array_equal(part.X[:, mine], whole.X[:, theirs])
    assert (part.X[:, part.names.codes["stranger.missing"]] == 1).all()
    assert not part.X[:, part.names.codes["stranger.preferred"]].any()
    # A ranker of one's own choice behind them is the ranker on preferences.
    labels = cc.synthetic.labelled_runs(10, random_state=2)[1]
    one, two = cc.RankNet(l2=0.1).fit(runs, labels), cc.RankNet(l2=0.1).fit(whole, labels)
    np.testing.assert_allclose(one.predict(runs).score, two.predict(whole).score, atol=1e-12)


@pytest.mark.parametrize("wrong", [{"kind": "pairs"}, {"transform": "no"}, {"missing": "last"}])
def test_what_is_no_kind_of_features_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        cc.expert_features(cc.from_lists({"x": ["a", "b"]}), **wrong)
