"""Inverses and Gram matrices of small systems against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from concordant.kernels.linear_systems import _OWN_INVERSE, add_outer_products, inverse_and_log_determinant


@pytest.mark.parametrize("n", [1, 2, 7, 60, _OWN_INVERSE + 1])
def test_inverse_and_log_determinant_are_numpys(n: int) -> None:
    root = np.random.default_rng(n).normal(size=(n, n + 5))
    matrix = root @ root.T
    inverse, log_determinant = inverse_and_log_determinant(matrix)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(log_determinant, np.linalg.slogdet(matrix)[1], rtol=1e-10, atol=1e-10)
    assert (inverse == inverse.T).all()


@pytest.mark.parametrize("n", [3, _OWN_INVERSE + 1])
def test_a_singular_matrix_counts_its_least_eigenvalue_as_rounding(n: int) -> None:
    # The Laplacian of a cycle: singular along the constant, and only there.
    matrix = 2.0 * np.eye(n) - np.roll(np.eye(n), 1, axis=0) - np.roll(np.eye(n), -1, axis=0)
    matrix[0, 0] -= 1e-9
    inverse, log_determinant = inverse_and_log_determinant(matrix)
    assert np.isfinite(inverse).all()
    assert np.isfinite(log_determinant)
    assert (np.linalg.eigvalsh(inverse) > 0).all()


def test_inverses_of_an_arena_start_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    # Threads of LAPACK made boards by category a hundred times slower on busy cores.
    from scipy.linalg import lapack

    monkeypatch.delattr(lapack, "dpotrf")
    inverse, _ = inverse_and_log_determinant(4.0 * np.eye(200))
    assert (inverse == 0.25 * np.eye(200)).all()


def test_outer_products_are_those_of_the_dense_table() -> None:
    from scipy import sparse

    table = sparse.random(40, 9, density=0.4, random_state=1, format="csr")
    out = np.zeros((9, 9))
    add_outer_products(table.indptr, table.indices, table.data, out)
    np.testing.assert_allclose(out, np.triu((table.T @ table).toarray()), rtol=1e-12, atol=1e-12)
