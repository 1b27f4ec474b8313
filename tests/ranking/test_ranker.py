"""What all rankers share: three forms of input, choosing on a validation part or by folds, and what a fit tells."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import concordant as cc
from concordant.errors import ConcordantWarning, DataError, KindError, ParameterError

FEATURES, LABELS = cc.synthetic.graded_features(40, n_features=5, random_state=7)
X, Y = FEATURES.X, LABELS.align(FEATURES).label
QID = np.array([FEATURES.instances[n] for n in FEATURES.slots.instance])
NAMES = ["bm25", "length", "age", "clicks", "rank"]


def model(**params: Any) -> cc.RankNet:
    return cc.RankNet(**{"l2": 0.1} | params)


# Arrays.


def test_arrays_give_what_containers_give() -> None:
    of_container = model().fit(FEATURES, LABELS)
    consensus = of_container.predict(FEATURES)
    of_array = model().fit(X, Y, qid=QID)
    np.testing.assert_array_equal(of_array.coefficients_, of_container.coefficients_)
    score = of_array.predict(X)
    assert isinstance(score, np.ndarray)
    np.testing.assert_array_equal(score, consensus.score)
    np.testing.assert_array_equal(model().fit(X, Y, group=FEATURES.slots.sizes).predict(X).argsort(), score.argsort())


def test_rows_may_come_in_any_order_and_scores_come_in_theirs() -> None:
    want = model().fit(X, Y, qid=QID)
    rows = np.random.default_rng(0).permutation(len(Y))
    got = model().fit(X[rows], Y[rows], qid=QID[rows])
    np.testing.assert_array_equal(got.predict(X), want.predict(X))
    np.testing.assert_array_equal(got.predict(X[rows]), want.predict(X)[rows])
    np.testing.assert_array_equal(model().fit_predict(X[rows], Y[rows], qid=QID[rows]), want.predict(X)[rows])


NUMBERS = FEATURES.slots.instance
QIDS: dict[str, Any] = {
    "int32": NUMBERS,
    "uint16": NUMBERS.astype(np.uint16),
    "list of int": NUMBERS.tolist(),
    "list of NumPy's": list(NUMBERS.astype(np.int64)),
    "text": [str(n) for n in NUMBERS],
    "array of text": NUMBERS.astype(str),
    "tuple": tuple(NUMBERS.tolist()),
    "objects": np.array([str(n) for n in NUMBERS], dtype=object),
    "pandas": pd.Series(NUMBERS),
    "pandas text": pd.Series([str(n) for n in NUMBERS]),
    "polars": pl.Series(NUMBERS),
}


@pytest.mark.parametrize("form", list(QIDS))
def test_instances_of_any_form(form: str) -> None:
    want = model().fit(X, Y, qid=NUMBERS).predict(X)
    np.testing.assert_array_equal(model().fit(X, Y, qid=QIDS[form]).predict(X), want)


@pytest.mark.parametrize(
    "group", [FEATURES.slots.sizes, FEATURES.slots.sizes.tolist(), pd.Series(FEATURES.slots.sizes)]
)
def test_groups_of_any_form(group: Any) -> None:
    by_number = model().fit(X, Y, qid=[str(n) for n in NUMBERS])
    np.testing.assert_array_equal(model().fit(X, Y, group=group).predict(X), by_number.predict(X))


@pytest.mark.parametrize("library", ["pandas", "polars", "pandas with gaps", "polars with gaps"])
def test_data_frames_bring_their_names(library: str) -> None:
    make: Any = pd.DataFrame if "pandas" in library else pl.DataFrame
    frame = make({name: X[:, k] for k, name in enumerate(NAMES)})
    label: Any = (pd.Series if "pandas" in library else pl.Series)(Y)
    params: dict[str, Any] = {}
    table = X
    if "gaps" in library:
        params, table = {"nan": "mean"}, X.copy()
        table[3, 1] = np.nan
        column = [None if k == 3 else float(v) for k, v in enumerate(X[:, 1])]
        frame = make({name: column if name == "length" else X[:, k] for k, name in enumerate(NAMES)})
    fitted = model(**params).fit(frame, label, qid=QID)
    assert fitted.feature_names_ == NAMES
    want = model(**params).fit(table, Y, qid=QID).predict(table)
    np.testing.assert_array_equal(fitted.predict(frame), want)
    np.testing.assert_array_equal(fitted.predict(frame[NAMES[::-1]]), want)
    np.testing.assert_array_equal(fitted.predict(table), want)
    with pytest.raises(DataError, match=r"absent: \['length'\]"):
        fitted.predict(frame[["bm25", "age", "clicks", "rank"]])
    assert frame.shape == (len(Y), 5)


def test_the_arrays_of_the_caller_stay_theirs() -> None:
    mine, label, qid = X.copy(), Y.copy(), NUMBERS.copy()
    fitted = model().fit(mine, label, qid=qid, validation=(mine, label, qid))
    fitted.predict(mine)
    for now, before in ((mine, X), (label, Y), (qid, NUMBERS)):
        np.testing.assert_array_equal(now, before)
        assert now.flags.writeable
    mine[:] = 0.0
    assert fitted.predict(X).std() > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, bool, object])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_of_any_type_and_layout(dtype: Any, order: Any) -> None:
    given = np.array(np.rint(2 * X), dtype=dtype, order=order)
    want = model().fit(given.astype(np.float64), Y, qid=QID).predict(given.astype(np.float64))
    np.testing.assert_array_equal(model().fit(given, Y, qid=QID).predict(given), want)
    wide = np.zeros((len(Y), 10))
    wide[:, ::2] = given.astype(np.float64)
    np.testing.assert_array_equal(model().fit(wide[:, ::2], Y, qid=QID).predict(wide[:, ::2]), want)


def test_sparse_tables_are_told_the_way() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(KindError, match="toarray"):
        model().fit(sparse.csr_matrix(X), Y, qid=QID)


# scikit-learn.


def test_scikit_learn_clones_and_searches_over_containers() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is an extra")
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV, KFold

    def ndcg(method: Any, features: cc.Features, labels: cc.Labels) -> float:
        assert features.instances == labels.instances
        return float(cc.evaluate(method.predict(features), labels, "ndcg@10").mean["ndcg@10"])

    for name in ("ranknet", "ranksvm", "rank-regress", "list-mle", "pair-ties", "lambdarank", "pmop"):
        first = cc.METHODS[name]().set_params(l2=0.5)
        again = clone(first)
        assert again.get_params() == first.get_params()
        assert not hasattr(again, "fit_info_")
    grid = {"l2": [10.0, 0.1], "hidden": [0]}
    search = GridSearchCV(model(), grid, scoring=ndcg, cv=3, error_score="raise")
    search.fit(FEATURES, LABELS.align(FEATURES))
    want = {
        l2: np.mean(
            [
                ndcg(model(l2=l2).fit(FEATURES[a], LABELS[a]), FEATURES[b], LABELS[b])
                for a, b in KFold(3).split(np.zeros(40))
            ]
        )
        for l2 in grid["l2"]
    }
    assert search.best_score_ == pytest.approx(max(want.values()))
    assert search.best_params_["l2"] == max(want, key=want.__getitem__)
    assert isinstance(search.predict(FEATURES), cc.Consensus)


def test_scikit_learn_searches_over_arrays() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is an extra")
    from sklearn.model_selection import GridSearchCV, GroupKFold

    def agreement(method: Any, X: Any, y: Any) -> float:
        return float(np.corrcoef(method.predict(X), y)[0, 1])

    search = GridSearchCV(model(), {"l2": [100.0, 0.01]}, scoring=agreement, cv=GroupKFold(4), error_score="raise")
    search.fit(X, Y, groups=QID, qid=QID)
    first, second = next(GroupKFold(4).split(X, Y, QID))
    by_hand = agreement(model(l2=100.0).fit(X[first], Y[first], qid=QID[first]), X[second], Y[second])
    assert search.cv_results_["split0_test_score"][0] == pytest.approx(by_hand)
    assert search.best_estimator_.predict(X).shape == Y.shape


# Choosing.

TRAIN, HELD = FEATURES[:25], FEATURES[25:]
PART = (HELD, LABELS[25:])


@pytest.mark.parametrize(
    "params", [{"solver": "sgd", "learning_rate": 0.02}, {"hidden": 4, "l2": 0.0}, {"solver": "adam"}]
)
def test_the_best_pass_on_the_validation_part_is_kept(params: dict[str, Any]) -> None:
    chosen = model(max_iter=30, tol=0.0, **params).fit(TRAIN, LABELS, validation=PART)
    info = chosen.fit_info_
    assert len(info.trace) == info.n_iter <= 30
    best = int(np.argmax(info.trace)) + 1
    assert info.chosen == {"passes": best}
    assert info.validation == max(info.trace)
    value = cc.evaluate(chosen.predict(HELD), LABELS[25:], "ndcg@10", convention="paper").mean["ndcg@10"]
    assert value == pytest.approx(info.validation, abs=1e-9)
    # It is the state after that pass, and no other.
    with pytest.warns(ConcordantWarning) if "hidden" in params else nullcontext():
        short = model(max_iter=best, tol=0.0, **params).fit(TRAIN, LABELS)
    np.testing.assert_array_equal(chosen.coefficients_, short.coefficients_)


def test_patience_ends_what_gets_no_better() -> None:
    info = model(hidden=8, l2=0.0, max_iter=300, tol=0.0, patience=4).fit(TRAIN, LABELS, validation=PART).fit_info_
    assert info.n_iter == info.chosen["passes"] + 4
    assert info.n_iter < 300


def test_of_several_penalties_the_best_is_kept() -> None:
    values = {}
    for l2 in (1000.0, 0.1, 0.001):
        values[l2] = model(l2=l2).fit(TRAIN, LABELS, validation=PART).fit_info_.validation
    chosen = model(l2=(1000.0, 0.1, 0.001)).fit(TRAIN, LABELS, validation=PART)
    best = max(values.values())
    assert chosen.fit_info_.validation == best
    assert chosen.fit_info_.chosen["l2"] == next(l2 for l2, v in values.items() if v == best)
    assert model(l2="auto").fit(TRAIN, LABELS, validation=PART).fit_info_.chosen["l2"] in (
        1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0,
    )  # fmt: skip


def test_penalties_are_chosen_by_folds_without_a_validation_part() -> None:
    chosen = model(l2=(1000.0, 0.1)).fit(FEATURES, LABELS)
    assert chosen.fit_info_.chosen["l2"] in (1000.0, 0.1)
    assert 0 < chosen.fit_info_.validation <= 1
    # The model kept has learned from everything, at the penalty and for the steps that were chosen.
    l2, passes = chosen.fit_info_.chosen["l2"], chosen.fit_info_.chosen["passes"]
    with pytest.warns(ConcordantWarning, match="stopped after"):
        same = model(l2=l2, max_iter=passes, tol=0.0).fit(FEATURES, LABELS)
    np.testing.assert_array_equal(same.coefficients_, chosen.coefficients_)
    folds = model(cv=4).fit(FEATURES, LABELS).fit_info_
    assert folds.validation is not None
    assert "passes" in folds.chosen


def test_arrays_have_validation_parts_too() -> None:
    inside = np.isin(NUMBERS, np.arange(25))
    want = model(l2=(1.0, 0.01)).fit(TRAIN, LABELS, validation=PART)
    outside = (X[~inside], Y[~inside], QID[~inside])
    got = model(l2=(1.0, 0.01)).fit(X[inside], Y[inside], qid=QID[inside], validation=outside)
    np.testing.assert_array_equal(got.coefficients_, want.coefficients_)
    assert got.fit_info_.validation == want.fit_info_.validation
    sizes = FEATURES.slots.sizes
    by_group = model(l2=(1.0, 0.01)).fit(
        X[inside], Y[inside], group=sizes[:25], validation=(X[~inside], Y[~inside], sizes[25:])
    )
    assert by_group.fit_info_.validation == pytest.approx(want.fit_info_.validation)
    turned = cc.Features(QID[~inside], HELD.items, X[~inside][:, ::-1], ["5", "4", "3", "2", "1"])
    named = model(l2=(1.0, 0.01)).fit(TRAIN, LABELS, validation=(turned, LABELS[25:]))
    np.testing.assert_array_equal(named.coefficients_, want.coefficients_)


def test_what_a_fit_tells() -> None:
    fitted = model().fit(FEATURES, LABELS)
    info = fitted.fit_info_
    assert info.converged
    assert info.n_iter == len(info.trace) > 1
    assert info.trace[-1] == pytest.approx(info.objective)
    assert all(after <= before for before, after in zip(info.trace, info.trace[1:], strict=False))
    assert info.gradient_norm is not None
    assert info.gradient_norm < 1.0
    assert info.chosen == {}
    assert info.validation is None
    assert info.warnings == []
    assert info.seconds > 0
    assert info.labels == {
        "instances": 40, "labelled": 40, "usable": 40, "items": len(Y), "judged": len(Y), "unjudged": 0, "elsewhere": 0,
    }  # fmt: skip


def test_not_converging_warns_and_keeps_the_estimate() -> None:
    with pytest.warns(
        ConcordantWarning, match=r"RankNet stopped after 2 steps before it met tol=1e-05\. Raise max_iter"
    ):
        fitted = model(max_iter=2).fit(FEATURES, LABELS)
    assert not fitted.fit_info_.converged
    assert fitted.fit_info_.warnings
    assert fitted.predict(FEATURES).score.std() > 0


def test_steps_that_are_too_long_are_told_of() -> None:
    with pytest.warns(ConcordantWarning, match=r"above the .* of the start.*smaller learning_rate"):
        fitted = cc.RankNet(solver="sgd", learning_rate=100.0, max_iter=5).fit(FEATURES, LABELS)
    assert not fitted.fit_info_.converged
    assert np.isfinite(fitted.coefficients_).all()


def test_what_is_unjudged_is_counted_or_dropped() -> None:
    seen = np.arange(len(Y)) % 4 != 1
    few = cc.Labels(QID[seen], [i for i, s in zip(FEATURES.items, seen, strict=True) if s], Y[seen])
    zero, drop = model().fit(FEATURES, few), model(unjudged="drop").fit(FEATURES, few)
    filled = model().fit(FEATURES, cc.Labels(QID, FEATURES.items, np.where(seen, Y, 0.0)))
    np.testing.assert_array_equal(zero.coefficients_, filled.coefficients_)
    alone = model().fit(X[seen], Y[seen], qid=QID[seen])
    np.testing.assert_array_equal(drop.coefficients_, alone.coefficients_)
    assert zero.fit_info_.labels["unjudged"] == drop.fit_info_.labels["unjudged"] == (~seen).sum()


# Aggregating.

RUNS, TRUTH = cc.synthetic.labelled_runs(20, random_state=2)


@pytest.mark.parametrize("kind", ["potentials", "svd"])
def test_a_ranker_aggregates_experts(kind: str) -> None:
    fitted = model(expert_features=kind, l2=0.01).fit(RUNS[:14], TRUTH)
    rest, truth = RUNS[14:], TRUTH[14:]
    learned = cc.evaluate(fitted.predict(rest), truth, "ndcg@10").mean["ndcg@10"]
    assert learned > 0.9 * cc.evaluate(cc.RRF().predict(rest), truth, "ndcg@10").mean["ndcg@10"]
    first = RUNS.instances[0]
    explained = fitted.explain(RUNS, first)
    own = fitted.predict(RUNS)[first]
    best = own.items[int(np.argmax(own.score))]
    assert explained.items[0] == best
    assert set(explained.experts) <= set(RUNS.experts)
    np.testing.assert_allclose(explained.score, np.sort(own.score)[::-1], atol=1e-9)


def test_features_can_be_explained() -> None:
    fitted = model().fit(FEATURES, LABELS)
    first = FEATURES.instances[0]
    explained = fitted.explain(FEATURES, first)
    assert sorted(explained.experts) == FEATURES.names.tolist()
    np.testing.assert_allclose(explained.score, np.sort(fitted.predict(FEATURES)[first].score)[::-1], atol=1e-9)
    hidden = model(hidden=2).fit(FEATURES, LABELS)
    with pytest.raises(KindError, match="no sum"):
        hidden.explain(FEATURES, first)


def test_coefficients_are_in_the_order_and_the_units_of_the_features() -> None:
    fitted = model().fit(FEATURES, LABELS)
    score = (X - fitted.centre_) * fitted.scale_ @ fitted.coefficients_
    np.testing.assert_allclose(fitted.predict(X), score, atol=1e-12)
    np.testing.assert_allclose(fitted.centre_, X.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(fitted.scale_, 1 / X.std(axis=0), rtol=1e-12)
    raw = model(standardise=False).fit(FEATURES, LABELS)
    np.testing.assert_allclose(raw.predict(X), X @ raw.coefficients_, atol=1e-12)
    hidden = model(hidden=3).fit(FEATURES, LABELS)
    units = np.tanh((X - hidden.centre_) * hidden.scale_ @ hidden.coefficients_ + hidden.bias_)
    np.testing.assert_allclose(hidden.predict(X), units @ hidden.top_, atol=1e-12)


@pytest.mark.parametrize("solver", ["lbfgs", "sgd", "adam"])
def test_seeds_of_any_size(solver: str) -> None:
    one, same, other = (
        model(hidden=2, solver=solver, max_iter=3, tol=1.0, random_state=s).fit(FEATURES, LABELS)
        for s in (2**70, 2**70, 5)
    )
    np.testing.assert_array_equal(one.coefficients_, same.coefficients_)
    assert (one.coefficients_ != other.coefficients_).all()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"hidden": -1}, "'hidden'"),
        ({"solver": "newton"}, "'lbfgs'"),
        ({"l2": -1.0}, "'auto'"),
        ({"l2": ()}, "tuple"),
        ({"l2": (0.1, -1.0)}, "tuple"),
        ({"select": "nonsense"}, "'select'"),
        ({"cv": 1}, "'cv'"),
        ({"nan": "zero"}, "'nan'"),
    ],
)
def test_nonsense_is_refused(params: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        cc.RankNet(**params).fit(FEATURES, LABELS)


def test_lambdarank_has_no_loss_for_lbfgs() -> None:
    with pytest.raises(ParameterError, match="'auto', 'sgd', 'adam'"):
        cc.LambdaRank(solver="lbfgs").fit(FEATURES, LABELS)


@pytest.mark.data
@pytest.mark.parametrize("name", ["ranknet", "ranksvm", "rank-regress", "list-mle", "pair-ties", "lambdarank", "pmop"])
def test_real_features_are_learned_from_without_a_warning(data_dir: Any, name: str) -> None:
    features, labels = cc.read_features(data_dir / "lightgbm-lambdarank" / "rank.train")
    part = features[:150]
    fitted = cc.METHODS[name]().fit(part, labels)
    assert fitted.fit_info_.warnings == []
    assert fitted.fit_info_.converged
    rest, truth = features[150:], labels[150:]
    rng = np.random.default_rng(0)
    chance = cc.Consensus.from_codes(rest.slots, rng.normal(size=rest.n_slots))
    assert (
        cc.evaluate(fitted.predict(rest), truth, "ndcg@10").mean["ndcg@10"]
        > cc.evaluate(chance, truth, "ndcg@10").mean["ndcg@10"] + 0.05
    )


def test_a_score_is_the_sum_of_what_experts_and_features_add() -> None:
    runs, labels = cc.synthetic.labelled_runs(20, random_state=4)
    rng = np.random.default_rng(0)
    own = cc.Features.from_codes(runs.slots, rng.normal(size=(runs.n_slots, 3)))
    model = cc.RankNet(l2=0.1).fit(runs, labels, features=own)
    first = runs.instances[3]
    found = model.explain(runs, first, features=own)
    where = np.flatnonzero(runs.slots.instance == 3)
    expected = dict(zip(runs.items[where], model.predict(runs, features=own).score[where], strict=True))
    assert dict(zip(found.items, found.score, strict=True)) == pytest.approx(expected)
    np.testing.assert_allclose(found.contribution.sum(axis=1) + found.base, found.score)
    assert set(found.experts) == {*runs.experts, "1", "2", "3"}
    # A feature adds its weight times its standardised value, whatever the experts say.
    item = found.items.index(runs.items[where[0]])
    column = model.feature_names_.index("2")
    by_hand = (own.X[where[0], 1] - model.centre_[column]) * model.scale_[column] * model.coefficients_[column]
    assert found.contribution[item, found.experts.index("2")] == pytest.approx(by_hand)
    with pytest.raises(DataError, match="Pass features="):
        model.explain(runs, first)
