"""Features on one scale: the same as by hand, whatever their size, and every row's score its own."""

from __future__ import annotations

import numpy as np
import pytest

from concordant.arrays import Floats
from concordant.ranking.design_matrix import DenseDesign, Scaling, reproducible_product, row_blocks


def table(seed: int = 0, n: int = 700, F: int = 300) -> Floats:
    return np.random.default_rng(seed).normal(size=(n, F))


def test_blocks_hold_every_row_once() -> None:
    for n, width in ((0, 3), (1, 0), (5, 10**9), (1000, 1000), (131073, 1)):
        rows = [r for block in row_blocks(n, width) for r in range(block.start, block.stop)]
        assert rows == list(range(n))


def test_scaling_is_that_of_numpy() -> None:
    X = table() * 3.0 + 5.0
    rows = np.random.default_rng(1).permutation(700)[:500]
    scaling = Scaling.of(X, rows)
    np.testing.assert_allclose(scaling.centre, X[rows].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scaling.scale, 1 / X[rows].std(axis=0), rtol=1e-12)
    columns = np.random.default_rng(2).permutation(300)
    Z = scaling.standardised(X, rows, columns)
    np.testing.assert_allclose(Z, ((X - X[rows].mean(axis=0)) / X[rows].std(axis=0))[rows][:, columns], atol=1e-12)
    assert Z.flags.c_contiguous
    np.testing.assert_array_equal(scaling.standardised(X)[rows][:, columns], Z)


@pytest.mark.parametrize("unit", [1e-280, 1e-12, 1.0, 1e12, 1e306])
@pytest.mark.parametrize("place", [0.0, 5.0, 1e9])
def test_scaling_of_any_size_and_place(unit: float, place: float) -> None:
    X = (np.linspace(-1.0, 1.0, 101)[:, None] + place) * min(unit, 1e300 if place < 1e6 else 1e290)
    with np.errstate(all="raise", under="ignore"):
        Z = Scaling.of(X, np.arange(101)).standardised(X)
    assert Z.mean() == pytest.approx(0.0, abs=1e-5)
    assert Z.std() == pytest.approx(1.0, rel=1e-6)


def test_constant_features_have_no_scale() -> None:
    X = np.column_stack([np.full(1000, 0.1), np.full(1000, -3e12), np.zeros(1000), np.linspace(0, 1, 1000)])
    scaling = Scaling.of(X, np.arange(1000))
    assert (scaling.scale > 0).tolist() == [False, False, False, True]
    assert not scaling.standardised(X)[:, :3].any()


def test_what_is_not_known_is_the_mean() -> None:
    X = table()
    gaps = np.random.default_rng(3).random(X.shape) < 0.3
    X[gaps] = np.nan
    X[:, 7] = np.nan
    scaling = Scaling.of(X, np.arange(700))
    with np.errstate(invalid="ignore"):
        known = np.delete(X, 7, axis=1)
        np.testing.assert_allclose(np.delete(scaling.mean, 7), np.nanmean(known, axis=0), atol=1e-12)
        np.testing.assert_allclose(np.delete(scaling.scale, 7), 1 / np.nanstd(known, axis=0), rtol=1e-12)
    assert scaling.mean[7] == scaling.scale[7] == 0.0
    Z = scaling.standardised(X)
    assert not Z[gaps].any()
    plain = Scaling.of(X, np.arange(700), standardise=False)
    np.testing.assert_array_equal(plain.standardised(X), np.where(np.isnan(X), plain.mean, X))


def test_the_input_is_left_alone() -> None:
    X = table()
    before = X.copy()
    X.flags.writeable = False
    Scaling.of(X, np.arange(700)).standardised(X, np.arange(50), np.arange(300)[::-1])
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("F", [1, 2, 3, 7, 8, 46, 519])
@pytest.mark.parametrize("units", [None, 1, 3])
def test_a_row_gives_the_same_bits_in_any_company(F: int, units: int | None) -> None:
    rng = np.random.default_rng(F)
    Z = rng.normal(size=(97, F))
    w = rng.normal(size=F if units is None else (F, units))
    whole = reproducible_product(Z, w)
    np.testing.assert_allclose(whole, Z @ w, atol=1e-12)
    for r in range(97):
        np.testing.assert_array_equal(reproducible_product(Z[r : r + 1], w)[0], whole[r])
    for first, step in ((3, 1), (5, 2), (0, 5)):
        np.testing.assert_array_equal(reproducible_product(Z[first::step], w), whole[first::step])
        np.testing.assert_array_equal(reproducible_product(np.asfortranarray(Z[first::step]), w), whole[first::step])


def test_products_with_a_table() -> None:
    Z = table(n=50, F=9)
    design = DenseDesign(Z)
    rng = np.random.default_rng(0)
    for shape in ((9,), (9, 4)):
        w, g = rng.normal(size=shape), rng.normal(size=(50, *shape[1:]))
        np.testing.assert_allclose(design.times(w), Z @ w, atol=1e-12)
        np.testing.assert_allclose(design.reproducible_times(w), Z @ w, atol=1e-12)
        np.testing.assert_allclose(design.transposed_times(g), Z.T @ g, atol=1e-12)
    assert design.n_columns == 9
    np.testing.assert_array_equal(design.at(np.array([3, 1])).Z, Z[[3, 1]])
    assert np.shares_memory(design.at(slice(2, 5)).Z, Z)
