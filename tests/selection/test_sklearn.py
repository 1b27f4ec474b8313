"""scikit-learn's search and ours give the same numbers on the same splits, and its clone takes our searches."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from tests.selection.common import LABELS, P

import concordant as cc
from concordant.data.splits import Split, k_folds
from concordant.errors import DataError, KindError, ParameterError
from concordant.selection import GridSearch, RandomSearch, cross_validate, scorer

pytest.importorskip("sklearn", reason="scikit-learn is an extra")

from joblib import parallel_config
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, cross_val_score
from sklearn.utils import get_tags

LEARNS = cc.CPS(adherence="supervised", unjudged="drop")
Y = LABELS.align(P)


def splits_of(splitter: Any) -> list[Split]:
    return [Split(train, test) for train, test in splitter.split(np.zeros(len(P)))]


@pytest.mark.parametrize(
    "cv", [KFold(3), ShuffleSplit(4, random_state=1), k_folds(P, 3, 2)], ids=["k", "shuffle", "own"]
)
@pytest.mark.parametrize(
    ("method", "grid", "metric", "convention"),
    [
        (cc.RRF(), {"k": [0.5, 2, 8, 30, 120], "ties": ["min", "average"]}, "ndcg@10", "trec"),
        (LEARNS, {"distance": ["kendall", "footrule"]}, "map", "letor"),
        (cc.WeightedSum(), {"norm": ["sum", "rank", "borda"], "weights": [None, {"e1": 3.0}]}, "ndcg@3", "paper"),
    ],
    ids=["rrf", "cps", "weighted-sum"],
)
def test_grid_search_agrees(cv: Any, method: cc.Aggregator, grid: Any, metric: str, convention: str) -> None:
    theirs = GridSearchCV(method, grid, cv=cv, scoring=scorer(metric, convention), error_score="raise")
    theirs.fit(P, Y)
    folds = cv if isinstance(cv, list) else splits_of(cv)
    ours = GridSearch(method, grid, metric=metric, convention=convention, folds=folds).fit(P, LABELS)
    by_params = {repr(t.params): t for t in ours.tried_}
    for c, params in enumerate(theirs.cv_results_["params"]):
        tried = by_params[repr({name: params[name] for name in grid})]
        assert [theirs.cv_results_[f"split{f}_test_score"][c] for f in range(len(folds))] == tried.folds.tolist()
    assert theirs.best_score_ == pytest.approx(ours.best_score_, abs=1e-15)
    assert theirs.predict(P) == type(method)(**method.get_params() | theirs.best_params_).fit(P, LABELS).predict(P)
    assert {t.mean for t in ours.tried_ if t.params == theirs.best_params_} == {ours.best_score_}


def test_a_splitter_may_be_given_to_ours() -> None:
    ours = cross_validate(cc.RRF(), P, LABELS, metrics="map", folds=KFold(4))
    theirs = cross_val_score(cc.RRF(), P, Y, cv=KFold(4), scoring=scorer("map"))
    assert ours.fold_means["map"].tolist() == theirs.tolist()
    search = GridSearch(cc.RRF(), {"k": [1, 60]}, metric="map", folds=KFold(4)).fit(P, LABELS)
    assert search.tried_[1].folds.tolist() == theirs.tolist()


def test_labels_in_another_order_agree_once_aligned() -> None:
    turned = LABELS[::-1]
    scores = cross_val_score(cc.RRF(), P, turned.align(P), cv=3, scoring=scorer("map"))
    assert scores.tolist() == cross_val_score(cc.RRF(), P, Y, cv=3, scoring=scorer("map")).tolist()
    with pytest.raises(DataError, match=r"hold different instances: labels for .* Pass y=labels.align\(preferences\)"):
        cross_val_score(cc.RRF(), P, turned, cv=3, scoring=scorer("map"), error_score="raise")


def test_labelled_items_nobody_ranks_count_where_they_are_kept() -> None:
    missed = cc.concat([LABELS, cc.Labels([f"q{n}" for n in range(1, 13)], ["unseen"] * 12, [2] * 12)])
    ours = cross_validate(cc.RRF(), P, missed, metrics="map", folds=KFold(4)).fold_means["map"].tolist()
    kept = missed[P.instances.tolist()]
    assert cross_val_score(cc.RRF(), P, kept, cv=KFold(4), scoring=scorer("map")).tolist() == ours
    lost = cross_val_score(cc.RRF(), P, missed.align(P), cv=KFold(4), scoring=scorer("map"))
    assert lost[0] > ours[0]


def test_a_scorer_is_evaluate() -> None:
    score = scorer("nDCG@5", "letor", rel=2)
    assert (score.metric, score.convention, score.rel) == ("ndcg@5", "letor", 2)
    method = cc.RRF().fit(P)
    want = cc.evaluate(method.predict(P), LABELS, "ndcg@5", convention="letor", rel=2)
    assert score(method, P, Y) == want.mean["ndcg@5"]
    strict = cc.evaluate(method.predict(P), LABELS, "map", rel=2).mean["map"]
    assert scorer("map", rel=2)(method, P, Y) == strict < scorer("map")(method, P, Y)
    assert pickle.loads(pickle.dumps(score)) == score
    with pytest.raises(ParameterError):
        scorer("nonsense")
    with pytest.raises(ParameterError, match="'convention' parameter"):
        scorer("map", "mine")
    with pytest.raises(KindError, match=r"the scorer of ndcg@5 needs Labels. Got NoneType"):
        score(method, P)


SEARCHES = [
    GridSearch(cc.RRF(k=9), {"k": [1, 60]}, metric="map", folds=3),
    GridSearch([(cc.RRF(), {"k": [1, 60]}), cc.Borda(), "copeland"], folds=k_folds(P, 2)),
    RandomSearch(LEARNS, {"distance": ["kendall", "footrule"]}, n=1, seeds=[3], random_state=4),
]


@pytest.mark.parametrize("search", SEARCHES, ids=lambda s: repr(s)[:40])
def test_clone_takes_a_search(search: Any) -> None:
    search = type(search)(**search.get_params()).fit(P, LABELS)
    copy = clone(search)
    assert type(copy) is type(search)
    assert [repr(m) for m in copy.candidates()] == [repr(m) for m in search.candidates()]
    assert "best_method_" not in vars(copy)
    assert copy.fit(P, LABELS).predict(P) == search.predict(P)
    assert get_tags(copy).target_tags.required


def test_a_search_within_scikit_learns() -> None:
    inner = GridSearch(cc.RRF(), {"k": [1, 8, 60]}, metric="map", folds=2)
    scores = cross_val_score(inner, P, Y, cv=KFold(3), scoring=scorer("map"))
    found = cross_validate(inner, P, LABELS, metrics="map", folds=KFold(3))
    assert scores.tolist() == found.fold_means["map"].tolist()


def test_processes_and_threads_of_joblib_agree() -> None:
    one = GridSearchCV(cc.RRF(), {"k": [1, 8, 60]}, cv=3, scoring=scorer("map")).fit(P, Y)
    with parallel_config(backend="threading"):
        two = GridSearchCV(cc.RRF(), {"k": [1, 8, 60]}, cv=3, scoring=scorer("map"), n_jobs=2).fit(P, Y)
    assert one.cv_results_["mean_test_score"].tolist() == two.cv_results_["mean_test_score"].tolist()
