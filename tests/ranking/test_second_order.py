"""Products of features: chosen and multiplied as if they had been written down, which they never are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.arrays import Floats, Ints
from concordant.ranking import second_order
from concordant.ranking.design_matrix import Scaling
from concordant.ranking.second_order import ProductDesign, select_products


def standardised(n: int, F: int, seed: int = 0) -> Floats:
    X = np.random.default_rng(seed).gamma(2.0, size=(n, F))
    return Scaling.of(X, np.arange(n)).standardised(X)


def written(Z: Floats) -> tuple[Floats, Ints]:
    a, b = np.triu_indices(Z.shape[1])
    return Z[:, a] * Z[:, b], np.stack([a, b], axis=1)


def correlations(P: Floats, y: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = np.array([np.corrcoef(column, y)[0, 1] for column in P.T])
    return found


# Rows enough for several blocks, and a table wider than it is long.
SHAPES = [(300, 6), (20000, 5), (40, 25), (25, 60)]


@pytest.mark.parametrize(("n", "F"), SHAPES)
def test_chosen_as_from_the_written_table(n: int, F: int) -> None:
    Z = standardised(n, F)
    rng = np.random.default_rng(1)
    y = np.digitize(Z[:, 0] * Z[:, 2] + 0.5 * Z[:, 1] + rng.normal(size=n), [0, 1, 2]).astype(float)
    P, pairs = written(Z)
    value = correlations(P, y)
    for threshold in (0.0, 0.1, 0.3):
        kept = np.abs(value) > threshold
        assert (np.abs(np.abs(value) - threshold) > 1e-9).all(), "no correlation at the very threshold"
        found = select_products(Z, y, threshold)
        np.testing.assert_array_equal(found.pairs, pairs[kept])
        np.testing.assert_allclose(found.correlation, value[kept], atol=1e-9)
        np.testing.assert_allclose(found.centre, P[:, kept].mean(axis=0), atol=1e-9)
        np.testing.assert_allclose(found.scale, 1 / P[:, kept].std(axis=0), rtol=1e-8)
        assert found.largest == pytest.approx(np.abs(value).max(), abs=1e-9)
    few = select_products(Z, y, 0.0, 7)
    want = np.sort(np.argsort(-np.abs(value), kind="stable")[:7])
    np.testing.assert_array_equal(few.pairs, pairs[want])


def test_constant_features_and_products_are_never_chosen() -> None:
    rng = np.random.default_rng(0)
    sign = np.where(np.arange(200) % 2, 1.0, -1.0)
    X = np.column_stack([sign, np.full(200, 3.0), rng.normal(size=200)])
    Z = Scaling.of(X, np.arange(200)).standardised(X)
    found = select_products(Z, rng.normal(size=200), 0.0)
    # The square of a sign is 1, and whatever is multiplied with a constant feature is 0.
    assert found.pairs.tolist() == [[0, 2], [2, 2]]
    assert select_products(Z, np.ones(200), 0.0).pairs.shape == (0, 2)
    assert select_products(Z[:0], np.zeros(0), 0.0).pairs.shape == (0, 2)


@pytest.mark.parametrize("way", ["form", "written"])
@pytest.mark.parametrize("keep_first", [False, True])
@pytest.mark.parametrize(("n", "F"), [*SHAPES, (9000, 12)])
def test_products_are_those_of_the_written_table(
    monkeypatch: pytest.MonkeyPatch, n: int, F: int, keep_first: bool, way: str
) -> None:
    monkeypatch.setattr(second_order, "_PRODUCT_COST", 1 if way == "written" else 10**9)
    monkeypatch.setattr(second_order, "_REPRODUCIBLE_COST", 1 if way == "written" else 10**9)
    monkeypatch.setattr(second_order, "_FEW_ROWS", 0)
    Z = standardised(n, F)
    P, pairs = written(Z)
    rng = np.random.default_rng(2)
    kept = np.sort(rng.choice(len(pairs), size=min(len(pairs), 40), replace=False))
    P = (P[:, kept] - P[:, kept].mean(axis=0)) / P[:, kept].std(axis=0)
    design = ProductDesign(Z, pairs[kept], written(Z)[0][:, kept].mean(axis=0), 1 / written(Z)[0][:, kept].std(axis=0))
    design = design._replace(keep_first=keep_first)
    whole = np.column_stack([Z, P]) if keep_first else P
    assert design.n_columns == whole.shape[1]
    for shape in ((whole.shape[1],), (whole.shape[1], 3)):
        w, g = rng.normal(size=shape), rng.normal(size=(n, *shape[1:]))
        np.testing.assert_allclose(design.times(w), whole @ w, atol=1e-8)
        np.testing.assert_allclose(design.reproducible_times(w), whole @ w, atol=1e-8)
        np.testing.assert_allclose(design.transposed_times(g), whole.T @ g, atol=1e-7)
        some = rng.permutation(n)[:17]
        np.testing.assert_allclose(design.at(some).times(w), whole[some] @ w, atol=1e-8)
        # A row's score has the same bits alone and in company.
        np.testing.assert_array_equal(design.at(some).reproducible_times(w), design.reproducible_times(w)[some])
        np.testing.assert_array_equal(design.at(some[:1]).reproducible_times(w), design.reproducible_times(w)[some[:1]])


@pytest.mark.parametrize("keep_first", [False, True])
@pytest.mark.parametrize("hidden", [0, 3])
def test_a_ranker_on_products_is_one_on_their_table(keep_first: bool, hidden: int) -> None:
    features, labels = cc.synthetic.graded_features(30, n_features=5, random_state=2)
    params: dict[str, Any] = {"l2": 0.1, "tol": 1e-12, "max_iter": 5000, "hidden": hidden}
    model = cc.RankNet(second_order=True, min_correlation=0.1, keep_first=keep_first, **params).fit(features, labels)
    assert model.products_.tolist() == sorted(model.products_.tolist())
    assert (model.products_[:, 0] <= model.products_[:, 1]).all()
    if hidden:
        return
    Z = (features.X - model.centre_) * model.scale_
    P = Z[:, model.products_[:, 0]] * Z[:, model.products_[:, 1]]
    table = np.column_stack([Z, P]) if keep_first else P
    qid = [features.instances[n] for n in features.slots.instance]
    plain = cc.RankNet(**params).fit(table, labels.align(features).label, qid=qid)
    np.testing.assert_allclose(model.coefficients_, plain.coefficients_, atol=1e-4)
    assert model.fit_info_.objective == pytest.approx(plain.fit_info_.objective, rel=1e-9)


def test_as_many_features_as_the_largest_public_set_and_few_rows() -> None:
    features, labels = cc.synthetic.graded_features(6, n_features=519, n_items=(5, 9), random_state=0)
    model = cc.RankNet(second_order=True, max_products=300, l2=0.1).fit(features, labels)
    assert model.products_.shape == (300, 2)
    P, pairs = written((features.X - model.centre_) * model.scale_)
    value = np.abs(correlations(P, labels.align(features).label))
    best = {tuple(p) for p in pairs[np.argsort(-value)[:300]].tolist()}
    assert best == {tuple(p) for p in model.products_.tolist()}
    assert cc.evaluate(model.predict(features), labels, "ndcg@10").mean["ndcg@10"] > 0.95


def test_no_product_above_the_threshold_is_refused_with_the_largest() -> None:
    features, labels = cc.synthetic.graded_features(10, n_features=3, random_state=0)
    with pytest.raises(
        cc.errors.DataError, match=r"min_correlation=0\.9 .*largest is 0\.\d\d\d\. Lower min_correlation"
    ):
        cc.RankNet(second_order=True, min_correlation=0.9).fit(features, labels)
