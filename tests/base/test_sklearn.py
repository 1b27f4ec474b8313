"""scikit-learn's own tools work on methods and containers as they are, splitting by instance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.data import synthetic
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences

sklearn = pytest.importorskip("sklearn", reason="scikit-learn is an extra")

from joblib import parallel_config  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.model_selection import (  # noqa: E402
    GridSearchCV,
    GroupKFold,
    KFold,
    ShuffleSplit,
    cross_val_score,
    cross_validate,
    train_test_split,
)
from sklearn.utils import get_tags  # noqa: E402

SAMPLE = synthetic.meta_search(30, random_state=1)


def ndcg(method: Any, preferences: Preferences, labels: Labels) -> float:
    """A scorer: metrics are named by the caller, methods have no score of their own."""
    assert preferences.instances == labels.instances, "both were split alike"
    return float(cc.evaluate(method.predict(preferences), labels, ["ndcg@10"], convention="paper").mean["ndcg@10"])


@pytest.mark.parametrize("name", sorted(cc.METHODS))
def test_clone_keeps_the_parameters(name: str) -> None:
    method = cc.METHODS[name]()
    fitted = clone(method)
    assert type(fitted) is type(method)
    assert fitted.get_params() == method.get_params()
    assert fitted is not method


def test_clone_of_a_fitted_method_is_not_fitted() -> None:
    method = cc.RRF(k=9).fit(SAMPLE.preferences)
    again = clone(method)
    assert again.k == 9
    assert not hasattr(again, "fit_info_")


@pytest.mark.parametrize(
    "splitter", [KFold(5), KFold(5, shuffle=True, random_state=0), ShuffleSplit(3, random_state=0)], ids=repr
)
def test_splitters_split_by_instance(splitter: Any) -> None:
    p = SAMPLE.preferences
    for train, test in splitter.split(p, SAMPLE.labels):
        assert len(p[train]) + len(p[test]) == 30
        assert not set(p[train].instances) & set(p[test].instances)
        assert SAMPLE.labels[test].instances == p[test].instances


def test_group_splitters_work() -> None:
    groups = np.arange(30) // 6
    for train, test in GroupKFold(5).split(SAMPLE.preferences, groups=groups):
        assert len(set(groups[test])) == 1
        assert len(train) == 24


def test_train_test_split_gives_containers() -> None:
    p, q, labels, held = train_test_split(SAMPLE.preferences, SAMPLE.labels, test_size=0.3, random_state=0)
    assert isinstance(p, Preferences)
    assert isinstance(held, Labels)
    assert (len(p), len(q)) == (21, 9)
    assert p.instances == labels.instances
    assert q.instances == held.instances


def test_cross_validation() -> None:
    scores = cross_val_score(cc.RRF(), SAMPLE.preferences, SAMPLE.labels, cv=3, scoring=ndcg)
    by_hand = [
        ndcg(cc.RRF().fit(SAMPLE.preferences[train]), SAMPLE.preferences[test], SAMPLE.labels[test])
        for train, test in KFold(3).split(np.zeros(30))
    ]
    assert scores.tolist() == by_hand
    many = cross_validate(
        cc.Borda(), SAMPLE.preferences, SAMPLE.labels, cv=3, scoring={"n": ndcg}, return_estimator=True
    )
    assert len(many["test_n"]) == 3
    assert all(hasattr(e, "fit_info_") for e in many["estimator"])


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_grid_search(n_jobs: int | None) -> None:
    grid = {"k": [1, 60, 600], "ties": ["min", "average"]}
    search = GridSearchCV(cc.RRF(), grid, scoring=ndcg, cv=3, n_jobs=n_jobs, error_score="raise")
    with parallel_config(backend="threading"):
        search.fit(SAMPLE.preferences, SAMPLE.labels)
    want = {
        k: cross_val_score(cc.RRF(k=k), SAMPLE.preferences, SAMPLE.labels, cv=3, scoring=ndcg).mean() for k in grid["k"]
    }
    assert search.best_params_["k"] == max(want, key=want.__getitem__)
    assert search.best_score_ == pytest.approx(max(want.values()))
    assert isinstance(search.predict(SAMPLE.preferences), cc.Consensus)


def test_labels_in_another_order_are_aligned_first() -> None:
    turned = SAMPLE.labels[::-1]
    with pytest.raises(AssertionError, match="both were split alike"):
        cross_val_score(cc.RRF(), SAMPLE.preferences, turned, cv=3, scoring=ndcg, error_score="raise")
    aligned = turned.align(SAMPLE.preferences)
    scores = cross_val_score(cc.RRF(), SAMPLE.preferences, aligned, cv=3, scoring=ndcg)
    assert scores.tolist() == cross_val_score(cc.RRF(), SAMPLE.preferences, SAMPLE.labels, cv=3, scoring=ndcg).tolist()


def test_tags() -> None:
    tags = get_tags(cc.RRF())
    assert not tags.target_tags.required
    assert tags.estimator_type is None


def test_comparisons_split_too() -> None:
    c = SAMPLE.preferences.comparisons()
    parts = [c[test] for _, test in KFold(3).split(c)]
    assert [len(part) for part in parts] == [10, 10, 10]
    assert sum(part.n_rows for part in parts) == c.n_rows
