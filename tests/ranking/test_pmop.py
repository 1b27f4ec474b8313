"""PMOP: gradients of the worked cases, maxima of the likelihood, sampled fits near exact ones, odd data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from tests.oracles import partitions as oracle

import concordant as cc
from concordant.errors import ConcordantWarning, DataError, ParameterError
from concordant.kernels.graded_lists import GradedLists
from concordant.ranking.pmop import PMOP

Golden = Callable[[str], dict[str, Any]]
Floats = NDArray[np.float64]


def some_data(
    n: int, least: int, most: int, seed: int = 0, grades: int = 3
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return features, labels and instances; three features, of which the first two count."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n), rng.integers(least, most + 1, n))
    X = rng.normal(size=(len(qid), 3))
    y = np.clip(np.round(X @ [0.8, -0.6, 0.0] + 0.8 * rng.normal(size=len(qid)) + 0.7), 0, grades - 1)
    return X, y, qid


def log_likelihood(w: Floats, X: Floats, y: Floats, qid: NDArray[np.int64], potential: str) -> float:
    """Return the mean over the instances, by enumeration of all subsets."""
    total = 0.0
    for q in np.unique(qid):
        own = qid == q
        f, label = (X[own] @ w).tolist(), y[own]
        blocks = [np.flatnonzero(label == v).tolist() for v in np.unique(label)[::-1]]
        total += oracle.log_probability(f, blocks, potential)
    return total / len(np.unique(qid))


@pytest.mark.parametrize(
    ("inference", "name"), [("full", "21_pmop_full_decomposition"), ("exact", "22_pmop_general")], ids=["full", "exact"]
)
def test_gradients_of_the_worked_cases(golden: Golden, inference: str, name: str) -> None:
    content = golden(name)
    case = content["cases"][0]
    X, w = np.array(case["input"]["X"]), np.array(case["input"]["w"])
    label = np.array(case["input"]["labels"], dtype=np.float64)
    order = np.argsort(-label, kind="stable")
    lists = GradedLists.of(label[order], np.array([0, len(label)]))
    slope = np.empty(len(label))
    value, extra = PMOP(inference=inference)._loss((X @ w)[order], lists, slope, np.zeros(0), 0)
    assert extra.size == 0
    expected = case["expected"]
    assert -value == pytest.approx(expected["loglik_train" if inference == "full" else "logp"], abs=content["abs_tol"])
    np.testing.assert_allclose(-slope @ X[order], expected["grad_w"], rtol=0, atol=content["abs_tol"])


@pytest.mark.parametrize(("inference", "potential"), [("full", "full"), ("exact", "general")])
def test_the_fit_is_the_maximum_of_the_enumerated_likelihood(inference: str, potential: str) -> None:
    X, y, qid = some_data(12, 3, 6)
    if inference == "full":
        # What is all one label has a probability that no score changes, and is not counted among the instances.
        told = np.isin(qid, [q for q in np.unique(qid) if len(np.unique(y[qid == q])) > 1])
        X, y, qid = X[told], y[told], qid[told]
    l2 = 0.02
    model = PMOP(inference=inference, standardise=False, l2=l2, tol=1e-12, max_iter=300).fit(X, y, qid=qid)
    centred = X - X.mean(axis=0)

    def objective(w: Floats) -> float:
        return -log_likelihood(w, centred, y, qid, potential) + 0.5 * l2 * float(w @ w)

    best = minimize(objective, np.zeros(3), options={"gtol": 1e-7})
    np.testing.assert_allclose(model.coefficients_, best.x, atol=2e-4)
    assert model.fit_info_.gradient_norm is not None
    assert model.fit_info_.gradient_norm < 1e-4
    if inference == "exact":
        assert model.fit_info_.objective == pytest.approx(best.fun, abs=1e-8)


@pytest.mark.parametrize("inference", ["gibbs", "mh"])
def test_fits_by_many_samples_come_near_the_exact_fit(inference: str) -> None:
    X, y, qid = some_data(40, 4, 9)
    common: dict[str, Any] = {"l2": 0.02, "standardise": False}
    exact = PMOP(inference="exact", **common).fit(X, y, qid=qid)
    sampled = PMOP(inference=inference, n_samples=300, learning_rate=0.02, max_iter=300, tol=1e-7, **common).fit(
        X, y, qid=qid
    )
    np.testing.assert_allclose(sampled.coefficients_, exact.coefficients_, atol=0.1)
    assert np.abs(exact.coefficients_).max() > 1.0
    best, near = exact.fit_info_.objective, sampled.fit_info_.objective
    assert best is not None
    assert near is not None
    assert best < near < best + 0.002
    if inference == "mh":
        printed = sampled.set_params(acceptance="printed").fit(X, y, qid=qid).fit_info_.objective
        assert printed is not None
        assert printed > best + 0.004


@pytest.mark.parametrize("inference", ["full", "exact", "gibbs", "mh"])
def test_what_is_learned_ranks_new_items(inference: str) -> None:
    features, labels = cc.synthetic.graded_features(80, random_state=3)
    model = PMOP(inference=inference, random_state=1).fit(features[:50], labels)
    assert model.fit_info_.converged
    found = cc.evaluate(model.predict(features[50:]), labels[50:], "ndcg@10", convention="paper").mean["ndcg@10"]
    upside_down = PMOP(inference=inference, random_state=1).fit(
        features[:50], cc.Labels.from_codes(labels.slots, -labels.label)
    )
    worst = cc.evaluate(upside_down.predict(features[50:]), labels[50:], "ndcg@10", convention="paper").mean["ndcg@10"]
    assert found > 0.65
    assert worst < 0.45


def test_chance_is_drawn_from_the_seed() -> None:
    X, y, qid = some_data(20, 3, 8)

    def fitted(**params: Any) -> Floats:
        return PMOP(max_iter=22, tol=0.5, **params).fit(X, y, qid=qid).coefficients_

    for inference in ("gibbs", "mh"):
        one = fitted(inference=inference, random_state=1)
        np.testing.assert_array_equal(fitted(inference=inference, random_state=1), one)
        assert (fitted(inference=inference, random_state=2) != one).any()
        assert (fitted(inference=inference, random_state=1, n_samples=2) != one).any()
    for inference in ("full", "exact"):
        np.testing.assert_array_equal(
            fitted(inference=inference, random_state=1, acceptance="printed", n_samples=5),
            fitted(inference=inference, random_state=2),
        )
    np.testing.assert_array_equal(
        fitted(inference="gibbs", random_state=1, acceptance="printed"), fitted(inference="gibbs", random_state=1)
    )


@pytest.mark.parametrize("inference", ["full", "exact", "gibbs", "mh"])
def test_only_the_order_of_labels_counts_and_rows_may_come_in_any(inference: str) -> None:
    X, y, qid = some_data(15, 1, 7)

    def fitted(X: Floats, y: Floats, qid: NDArray[np.int64]) -> Floats:
        return PMOP(inference=inference, l2=0.1, max_iter=22, tol=0.5).fit(X, y, qid=qid).coefficients_

    plain = fitted(X, y, qid)
    if inference in ("full", "exact"):
        # What is drawn by chance is drawn from what the data are.
        np.testing.assert_allclose(fitted(X, np.array([-7.5, 0.25, 1e6])[y.astype(int)], qid), plain, rtol=1e-9)
    order = np.random.default_rng(0).permutation(len(y))
    order = order[np.argsort(qid[order], kind="stable")]
    np.testing.assert_allclose(fitted(X[order], y[order], qid[order]), plain, rtol=1e-9)


def test_instances_of_one_label_pull_scores_together_under_the_general_potential_only() -> None:
    X, y, qid = some_data(20, 3, 6)
    tied_X = np.random.default_rng(9).normal(size=(60, 3))
    more = (
        np.concatenate([X, tied_X]),
        np.concatenate([y, np.zeros(60)]),
        np.concatenate([qid, np.repeat(np.arange(100, 120), 3)]),
    )

    def fitted(inference: str, data: Any) -> PMOP:
        # Columns as they are: what is standardised depends on all rows.
        X, y, qid = data
        return PMOP(inference=inference, standardise=False, l2=0.01, tol=1e-10).fit(X, y, qid=qid)

    np.testing.assert_allclose(fitted("full", more).coefficients_, fitted("full", (X, y, qid)).coefficients_, rtol=1e-4)
    alone, together = fitted("exact", (X, y, qid)).coefficients_, fitted("exact", more).coefficients_
    assert np.linalg.norm(together) < 0.9 * np.linalg.norm(alone)
    # One item says nothing at all, in any of them.
    single = (np.concatenate([X, [[9.0, 9.0, 9.0]]]), np.append(y, 1.0), np.append(qid, 97))
    for inference in ("full", "exact"):
        np.testing.assert_allclose(
            fitted(inference, single).coefficients_, fitted(inference, (X, y, qid)).coefficients_, rtol=1e-4
        )


@pytest.mark.parametrize("inference", ["full", "exact", "gibbs", "mh"])
def test_data_that_tell_nothing_are_refused(inference: str) -> None:
    X = np.random.default_rng(0).normal(size=(12, 2))
    with pytest.raises(DataError, match="PMOP found no usable label"):
        PMOP(inference=inference).fit(X, np.zeros(12), qid=np.repeat([1, 2, 3], 4))
    with pytest.raises(DataError, match="PMOP found no usable label"):
        PMOP(inference=inference).fit(X[:3], np.array([0.0, 1.0, 2.0]), qid=[1, 2, 3])


def test_what_is_refused_and_what_is_warned_of() -> None:
    X, y, qid = some_data(10, 3, 6)
    for inference in ("gibbs", "mh"):
        with pytest.raises(ParameterError, match=f"inference='{inference}'.*'auto', 'sgd', 'adam'"):
            PMOP(inference=inference, solver="lbfgs").fit(X, y, qid=qid)
        PMOP(inference=inference, solver="adam", tol=1.0).fit(X, y, qid=qid)
    for name, value in (("inference", "both"), ("acceptance", "best"), ("n_samples", 0), ("n_samples", 1.5)):
        with pytest.raises(ParameterError, match=f"'{name}' parameter of PMOP"):
            PMOP(**{name: value}).fit(X, y, qid=qid)
    assert not PMOP(inference="gibbs", max_iter=3).fit(X, y, qid=qid).fit_info_.converged
    with pytest.warns(ConcordantWarning, match="stopped after 3 steps"):
        PMOP(inference="full", max_iter=3).fit(X, y, qid=qid)


def test_a_saved_model_scores_the_same(tmp_path: Path) -> None:
    X, y, qid = some_data(10, 3, 6)
    model = PMOP(inference="exact", l2=0.1).fit(X, y, qid=qid)
    model.save(tmp_path / "model")
    again = cc.load(tmp_path / "model")
    assert repr(again) == repr(model) == "PMOP(inference='exact', l2=0.1)"
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_thousand_items_to_an_instance() -> None:
    features, labels = cc.synthetic.graded_features(3, n_items=(1000, 1000), n_features=5, random_state=2)
    model = PMOP(inference="exact", max_iter=8, tol=1e-3).fit(features, labels)
    assert np.isfinite(model.coefficients_).all()
    assert cc.evaluate(model.predict(features), labels, "ndcg@10", convention="paper").mean["ndcg@10"] > 0.5
