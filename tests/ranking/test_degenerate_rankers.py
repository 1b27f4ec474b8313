"""Rankers on data that say too little or cannot be meant: each case is answered as its page says or refused by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import concordant as cc
from concordant.errors import (
    ConcordantError,
    ConcordantWarning,
    DataError,
    KindError,
    NotFittedError,
    ParameterError,
)

RANKERS: dict[str, Callable[..., Any]] = {
    "ranknet": cc.RankNet,
    "ranksvm": cc.RankSVM,
    "rank-regress": cc.RankRegress,
    "list-mle": cc.ListMLE,
    "pair-ties": cc.PairTies,
    "rao-kupper": lambda **k: cc.PairTies(model="rao-kupper", **k),
    "lambdarank": lambda **k: cc.LambdaRank(**{"max_iter": 20} | k),
    "pmop": cc.PMOP,
    "pmop-exact": lambda **k: cc.PMOP(inference="exact", **k),
}
# Those that learn from instances of one label as well.
TELLING = ("pair-ties", "rao-kupper", "pmop-exact")
EVERY = pytest.mark.parametrize("name", list(RANKERS))
# LambdaRank looks at places, and before anything is learned the places of items of one label are drawn from the very
# features, so that other numbers begin another way.
WITH_A_LOSS = pytest.mark.parametrize("name", [n for n in RANKERS if n != "lambdarank"])


class Data(NamedTuple):
    """What a case begins with: three features, of which the first tells, in eight instances of five items."""

    X: Any
    y: Any
    qid: Any


def data(seed: int = 0, n: int = 8) -> Data:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5 * n, 3))
    y = np.digitize(X[:, 0] + 0.7 * rng.normal(size=5 * n), [-0.3, 0.8]).astype(float)
    qid = np.repeat([f"q{k}" for k in range(n)], 5)
    y[::5] = 2.0  # so that every instance has two labels at least
    y[1::5] = 0.0
    return Data(X, y, qid)


def containers(d: Data) -> tuple[cc.Features, cc.Labels]:
    items = [f"d{r}" for r in range(len(d.y))]
    return cc.Features(d.qid, items, d.X, ["a", "b", "c"]), cc.Labels(d.qid, items, d.y)


def ranker(name: str, **params: Any) -> Any:
    return RANKERS[name](**{"l2": 0.1} | params)


def heard(run: Callable[[], Any]) -> tuple[Any, str]:
    """Return the answer, or the error of Concordant that was raised, and its warnings; any other warning is raised."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("error")
        warnings.simplefilter("always", ConcordantWarning)
        try:
            answer = run()
        except ConcordantError as error:
            answer = error
    return answer, " ".join(str(w.message) for w in said)


def refused(run: Callable[[], Any], error: type[ConcordantError], *words: str) -> None:
    answer, _ = heard(run)
    assert isinstance(answer, error), f"{answer!r} instead of {error.__name__}"
    assert not [w for w in words if w not in str(answer)], str(answer)


def changed(**parts: Any) -> Data:
    return data()._replace(**parts)


def with_value(row: int, column: int, value: float) -> Any:
    X = data().X.copy()
    X[row, column] = value
    return X


# What a fit is given, which leaves it something to learn from; the answer is finite, and nothing is said.

D = data()
ONE_LABEL = np.where(D.qid == "q3", 1.0, D.y)
NO_LABEL = np.where(D.qid == "q3", np.nan, D.y)
USABLE: dict[str, Data] = {
    "plain": D,
    "an instance of one item": Data(
        np.vstack([D.X, [[0.1, 0.2, 0.3]]]), np.append(D.y, 1.0), np.append(D.qid, "alone")
    ),
    "an instance of one grade": changed(y=ONE_LABEL),
    "an instance without a relevant item": changed(y=np.where(D.qid == "q3", 0.0, D.y)),
    "an instance without a label": changed(y=NO_LABEL),
    "labels missing here and there": changed(y=np.where(np.arange(40) % 7 == 3, np.nan, D.y)),
    "labels that are not whole": changed(y=D.y * 0.37 + 0.11),
    "labels below 0": changed(y=D.y - 5.0),
    "huge labels": changed(y=D.y * 1e6),
    "a constant feature": changed(X=np.column_stack([D.X[:, :2], np.full(40, 0.1)])),
    "a feature constant in every instance": changed(X=np.column_stack([D.X[:, :2], np.repeat(np.arange(8.0), 5)])),
    "a feature twice": changed(X=D.X[:, [0, 1, 1]]),
    "features of all scales": changed(X=D.X * np.array([1e-12, 1.0, 1e12])),
    "features at the edge of numbers": changed(X=D.X * np.array([1e-290, 1e-150, 1e307])),
    "a feature far from 0": changed(X=D.X + np.array([1e9, 0.0, -1e9])),
    "more features than rows": changed(X=np.random.default_rng(1).normal(size=(40, 60))),
    "one feature": changed(X=D.X[:, :1]),
    "whole numbers": changed(X=np.rint(4 * D.X).astype(np.int32), y=D.y.astype(np.int8)),
    "truth values": changed(X=D.X > 0, y=D.y > 1),
}


@EVERY
@pytest.mark.parametrize("case", list(USABLE))
def test_what_can_be_learned_from_is(name: str, case: str) -> None:
    d = USABLE[case]
    if (name, case) == ("lambdarank", "labels below 0"):
        refused(lambda: ranker(name).fit(d.X, d.y, qid=d.qid), DataError, "ndcg is the same for every order")
        return
    model, said = heard(lambda: ranker(name).fit(d.X, d.y, qid=d.qid))
    assert not isinstance(model, Exception), model
    assert said == ""
    score = model.predict(d.X)
    assert score.shape == (len(d.y),)
    assert np.isfinite(score).all()
    assert len(set(score.tolist())) > 1
    counts = model.fit_info_.labels
    judged = ~np.isnan(np.asarray(d.y, dtype=float))
    assert counts["judged"] == judged.sum()
    assert counts["instances"] == len(set(d.qid))


@EVERY
@pytest.mark.parametrize("case", ["an instance of one item", "an instance without a label", "an instance of one grade"])
def test_instances_that_say_nothing_change_nothing(name: str, case: str) -> None:
    if case == "an instance of one grade" and name in TELLING:
        pytest.skip("one label says here how common ties are, or that scores are alike")
    d = USABLE[case]
    if case == "an instance of one item":
        told = d.qid != "alone"
    else:
        told = d.qid != "q3"
    params = {"unjudged": "drop"}
    with_it = ranker(name, **params).fit(d.X, d.y, qid=d.qid)
    without = ranker(name, **params).fit(d.X[told], d.y[told], qid=d.qid[told])
    np.testing.assert_array_equal(with_it.predict(D.X), without.predict(D.X))
    assert with_it.fit_info_.labels["usable"] == without.fit_info_.labels["usable"]


@WITH_A_LOSS
def test_scale_and_place_of_features_do_not_matter(name: str) -> None:
    want = ranker(name).fit(D.X, D.y, qid=D.qid).predict(D.X)
    for move, stretch, close in ((0.0, 2.0**-40, 1e-9), (0.0, 2.0**40, 1e-9), (3.0, 1.0, 1e-5)):
        got = ranker(name).fit(D.X * stretch + move, D.y, qid=D.qid).predict(D.X * stretch + move)
        np.testing.assert_allclose(got, want, atol=close * np.abs(want).max())


@WITH_A_LOSS
def test_constant_features_get_no_weight_and_move_nothing(name: str) -> None:
    model = ranker(name).fit(USABLE["a constant feature"].X, D.y, qid=D.qid)
    want = ranker(name).fit(D.X[:, :2], D.y, qid=D.qid).predict(D.X[:, :2])
    np.testing.assert_allclose(model.predict(np.column_stack([D.X[:, :2], np.full(40, 1e9)])), want, atol=1e-9)
    assert model.scale_[2] == 0.0


# What a fit is refused, and in which words.

REFUSED: dict[str, tuple[Data, type[ConcordantError], tuple[str, ...]]] = {
    "only instances of one item": (changed(qid=np.arange(40)), DataError, ("no usable label",)),
    "only instances of one grade": (
        changed(y=np.repeat(np.arange(8.0), 5)),
        DataError,
        ("no usable label", "all 40 labels are equal"),
    ),
    "no relevant item anywhere": (changed(y=np.zeros(40)), DataError, ("no usable label",)),
    "no label anywhere": (changed(y=np.full(40, np.nan)), DataError, ("no usable label", "all are NaN")),
    "all features constant": (changed(X=np.ones((40, 3))), DataError, ("tell two items apart", "3 features")),
    "features constant in every instance": (
        changed(X=np.repeat(D.X[::5], 5, axis=0)),
        DataError,
        ("tell two items apart", "8 usable instances"),
    ),
    "no features": (changed(X=np.zeros((40, 0))), DataError, ("tell two items apart", "0 features")),
    "no rows": (Data(np.zeros((0, 3)), [], []), DataError, ("nothing to learn from",)),
    "NaN": (changed(X=with_value(7, 1, np.nan)), DataError, ("feature '2'", "item '7' of instance 'q1'", "nan='mean'")),
    "infinity": (changed(X=with_value(7, 1, -np.inf)), DataError, ("feature '2'", "item '7'", "-inf")),
    "infinite labels": (changed(y=np.where(np.arange(40) == 4, np.inf, D.y)), DataError, ("row 4", "infinite")),
    "words": (changed(X=[["x", "y", "z"]] * 40), KindError, ("could not convert",)),
    "rows of unequal length": (changed(X=[[1.0], [1.0, 2.0]] * 20), KindError, ("array or data frame",)),
    "one dimension": (changed(X=np.zeros(40)), DataError, ("two dimensions", "(40,)")),
    "too few labels": (changed(y=D.y[:-1]), DataError, ("one label for each of the 40 rows", "(39,)")),
    "labels in two columns": (changed(y=np.zeros((40, 2))), DataError, ("one label for each", "(40, 2)")),
    "labels that are words": (changed(y=["good"] * 40), DataError, ("y must hold numbers",)),
    "no labels": (changed(y=None), DataError, ("learns from labels and got none",)),
    "too few instances": (changed(qid=D.qid[:-1]), DataError, ("qid has 39 entries",)),
    "instances by halves": (changed(qid=np.arange(40) / 2), DataError, ("text or a whole number", "0.0")),
    "instances in two columns": (changed(qid=np.zeros((40, 2), dtype=int)), DataError, ("qid", "(40, 2)")),
    "instances that are one word": (changed(qid="q1"), DataError, ("not one text",)),
    "instances that are no sequence": (changed(qid=3), DataError, ("instance of every row",)),
}


@EVERY
@pytest.mark.parametrize("case", list(REFUSED))
def test_what_cannot_be_learned_from_is_refused_by_name(name: str, case: str) -> None:
    d, error, words = REFUSED[case]
    model = ranker(name)
    refused(lambda: model.fit(d.X, d.y, qid=d.qid), error, *words)
    # Nothing is left of a fit that was refused.
    refused(lambda: model.predict(D.X), NotFittedError, "not fitted")


@EVERY
def test_which_rows_belong_together_has_to_be_said_once(name: str) -> None:
    fit = ranker(name).fit
    refused(lambda: fit(D.X, D.y), ParameterError, "either qid= or group=")
    refused(lambda: fit(D.X, D.y, qid=D.qid, group=[5] * 8), ParameterError, "either qid= or group=")
    refused(lambda: fit(D.X, D.y, group=[5] * 7), DataError, "add up to the 40 rows", "add up to 35", "qid=")
    refused(lambda: fit(D.X, D.y, group=[20.0, 20.0]), DataError, "whole numbers")
    refused(lambda: fit(D.X, D.y, group=[-5, 45]), DataError, "whole numbers")
    refused(lambda: fit(D.X, D.y, group=D.qid), DataError, "whole numbers")
    features, labels = containers(D)
    refused(lambda: fit(features, labels, qid=D.qid), ParameterError, "for arrays")
    refused(lambda: fit(D.X, labels, qid=D.qid), KindError, "array of labels with an array")
    refused(lambda: fit(features, D.y), KindError, "Labels")
    refused(lambda: fit(features), DataError, "got none")
    refused(lambda: fit(features, labels, features=features), ParameterError, "features already")


# NaN and infinity.


@WITH_A_LOSS
@pytest.mark.parametrize("form", ["array", "container"])
def test_nan_is_the_mean_where_asked_for(name: str, form: str) -> None:
    X = D.X.copy()
    gaps = np.random.default_rng(5).random(X.shape) < 0.2
    X[gaps] = np.nan
    filled = np.where(gaps, np.nanmean(X, axis=0), X)
    if form == "array":
        model = ranker(name, nan="mean", standardise=False).fit(X, D.y, qid=D.qid)
        plain = ranker(name, standardise=False).fit(filled, D.y, qid=D.qid)
        got, want = model.predict(X), plain.predict(filled)
    else:
        (features, labels), (whole, _) = containers(D._replace(X=X)), containers(D._replace(X=filled))
        model = ranker(name, nan="mean", standardise=False).fit(features, labels)
        plain = ranker(name, standardise=False).fit(whole, labels)
        got, want = model.predict(features).score, plain.predict(whole).score
    np.testing.assert_allclose(got, want, atol=1e-6 * np.abs(want).max())
    np.testing.assert_allclose(model.mean_, np.nanmean(X, axis=0), rtol=1e-12)


@WITH_A_LOSS
def test_a_feature_that_is_never_known_is_as_good_as_absent(name: str) -> None:
    X = D.X.copy()
    X[:, 1] = np.nan
    model = ranker(name, nan="mean").fit(X, D.y, qid=D.qid)
    want = ranker(name).fit(D.X[:, [0, 2]], D.y, qid=D.qid).predict(D.X[:, [0, 2]])
    np.testing.assert_allclose(model.predict(X), want, atol=1e-9)
    np.testing.assert_allclose(model.predict(D.X), want, atol=1e-9)
    assert model.mean_[1] == 0.0


@EVERY
def test_features_at_prediction(name: str) -> None:
    features, labels = containers(D)
    model = ranker(name).fit(features, labels)
    lenient = ranker(name, nan="mean").fit(features, labels)
    torn = cc.Features(D.qid, features.items, with_value(7, 1, np.nan), ["a", "b", "c"])
    where = "item 'd7' of instance 'q1'"
    refused(lambda: model.predict(torn), DataError, "feature 'b'", where, "nan='mean'")
    refused(lambda: model.predict(with_value(7, 1, np.nan)), DataError, "feature 'b'", "row 7")
    refused(lambda: model.predict(with_value(7, 1, np.inf)), DataError, "feature 'b'", "row 7", "inf")
    refused(lambda: lenient.predict(with_value(7, 1, np.inf)), DataError, "feature 'b'", "row 7", "inf")
    mean = lenient.predict(with_value(7, 1, lenient.mean_[1]))
    np.testing.assert_allclose(lenient.predict(torn).score, mean, rtol=1e-12)
    # Columns are found by their names, and those not learned from are left aside.
    want = model.predict(features).score
    turned = cc.Features(D.qid, features.items, np.column_stack([D.X, D.y])[:, [3, 2, 0, 1]], ["y", "c", "a", "b"])
    np.testing.assert_array_equal(model.predict(turned).score, want)
    np.testing.assert_array_equal(model.predict(D.X), want)
    few = cc.Features(D.qid, features.items, D.X[:, :2], ["a", "b"])
    refused(lambda: model.predict(few), DataError, "3 features", "absent: ['c']", "There are ['a', 'b']")
    other = cc.Features(D.qid, features.items, D.X)
    refused(lambda: model.predict(other), DataError, "absent: ['a', 'b', 'c']")
    refused(lambda: model.predict(D.X[:, :2]), DataError, "3 features. Got 2")
    refused(lambda: model.predict(D.X[0]), DataError, "two dimensions")
    refused(lambda: model.predict(labels), KindError, "Features")
    unnamed = ranker(name).fit(D.X, D.y, qid=D.qid)
    refused(lambda: unnamed.predict(features), DataError, "pass the numbers without names")
    short = cc.Features(D.qid, features.items, D.X[:, :2])
    refused(lambda: unnamed.predict(short), DataError, "n_features=3")
    assert len(model.predict(features[:0])) == 0
    assert model.predict(np.zeros((0, 3))).shape == (0,)
    far = model.predict(np.where(np.arange(40)[:, None] == 3, 1e200, D.X))
    assert np.isfinite(far).all()
    tiny = ranker(name).fit(D.X * 1e-200, D.y, qid=D.qid)
    refused(lambda: tiny.predict(D.X * 1e200), DataError, "row 0", "no longer a number")


def test_infinite_features_are_refused_at_construction() -> None:
    with pytest.raises(DataError, match="feature 2 of row 7 is inf"):
        cc.Features(D.qid, [str(r) for r in range(40)], with_value(7, 1, np.inf))


@EVERY
def test_predict_before_fit(name: str) -> None:
    for what in (D.X, containers(D)[0], cc.from_lists({"x": ["a", "b"]})):
        refused(lambda: ranker(name).predict(what), NotFittedError, "not fitted")  # noqa: B023


@EVERY
def test_features_with_one_name(name: str) -> None:
    features, labels = containers(D)
    twice = cc.Features(D.qid, features.items, D.X, ["a", "b", "a"])
    refused(lambda: ranker(name).fit(twice, labels), DataError, "several features are called ['a']")


# Preferences, and features beside them.

RUNS, TRUTH = cc.synthetic.labelled_runs(10, random_state=3)
ROWS = RUNS.slots
BESIDE = cc.Features(
    [RUNS.instances[n] for n in ROWS.instance],
    RUNS.items,
    np.random.default_rng(0).normal(size=(ROWS.n_slots, 2)) + TRUTH.align(RUNS).label[:, None],
)


@EVERY
def test_what_was_fitted_decides_what_is_predicted(name: str) -> None:
    of_features = ranker(name).fit(*containers(D))
    of_votes = ranker(name).fit(RUNS, TRUTH)
    refused(lambda: of_features.predict(RUNS), KindError, "fitted on features")
    refused(lambda: of_votes.predict(containers(D)[0]), KindError, "fitted on preferences")
    refused(lambda: of_votes.predict(D.X), KindError, "fitted on preferences")
    refused(lambda: of_votes.predict(RUNS, features=BESIDE), ParameterError, "leave features= out")
    features = containers(D)[0]
    refused(lambda: of_features.predict(features, features=features), ParameterError, "features already")


@EVERY
def test_experts_and_features_together(name: str) -> None:
    model = ranker(name).fit(RUNS, TRUTH, features=BESIDE)
    assert model.feature_names_[-2:] == ["1", "2"]
    got = model.predict(RUNS, features=BESIDE)
    assert np.isfinite(got.score).all()
    turned = cc.Features(
        [BESIDE.instances[n] for n in BESIDE.slots.instance], BESIDE.items, BESIDE.X[:, ::-1], ["2", "1"]
    )
    assert model.predict(RUNS, features=turned) == got
    refused(lambda: model.predict(RUNS), DataError, "Pass features=")
    first = RUNS.instances[0]
    refused(lambda: model.predict(RUNS, features=BESIDE[1:]), DataError, "no features for", repr(first))
    refused(lambda: ranker(name).fit(RUNS, TRUTH, features=BESIDE[1:]), DataError, "no features for", repr(first))
    refused(lambda: ranker(name).fit(RUNS, TRUTH, features=BESIDE.X), KindError, "features= takes Features")
    refused(lambda: model.explain(RUNS, first), DataError, "Pass features=")


@EVERY
def test_unknown_experts(name: str) -> None:
    model = ranker(name).fit(RUNS, TRUTH)
    stranger = cc.from_lists({RUNS.experts[0]: ["a", "b"], "new": ["b", "a"]})
    refused(lambda: model.predict(stranger), DataError, "['new']", "unknown_experts='ignore'")
    lenient = ranker(name, unknown_experts="ignore").fit(RUNS, TRUTH)
    want = lenient.predict(stranger.select_experts([RUNS.experts[0]]))
    np.testing.assert_array_equal(lenient.predict(stranger).score, want.score)


# Validation parts.


@EVERY
def test_validation_parts_of_every_wrong_form(name: str) -> None:
    features, labels = containers(D)
    held, truth = containers(data(1))
    pair = "a pair (data, labels)"
    for wrong in (held, (held,), (held, truth, held, truth), [held, truth], (truth, held), (D.X, D.y), "text"):
        refused(lambda: ranker(name).fit(features, labels, validation=wrong), ParameterError, "validation", pair)  # noqa: B023
    arrays = "three arrays (X, y, qid)"
    for other in (held, (D.X, D.y), (held, truth), [D.X, D.y, D.qid]):
        refused(lambda: ranker(name).fit(D.X, D.y, qid=D.qid, validation=other), ParameterError, arrays)  # noqa: B023
    refused(
        lambda: ranker(name).fit(D.X, D.y, group=[5] * 8, validation=(D.X, D.y)),
        ParameterError,
        "three arrays (X, y, group)",
    )
    refused(lambda: ranker(name).fit(features, labels, validation=(held, truth, held)), ParameterError, "already")
    refused(lambda: ranker(name).fit(features, labels, validation=(RUNS, TRUTH)), KindError, "fitted on features")
    refused(lambda: ranker(name).fit(RUNS, TRUTH, validation=(held, truth)), KindError, "fitted on preferences")
    narrow = cc.Features(D.qid, held.items, D.X[:, :2], ["a", "b"])
    refused(lambda: ranker(name).fit(features, labels, validation=(narrow, truth)), DataError, "absent: ['c']")
    refused(
        lambda: ranker(name).fit(D.X, D.y, qid=D.qid, validation=(with_value(7, 1, np.nan), D.y, D.qid)),
        DataError,
        "feature '2'",
        "item '7'",
    )
    blank = cc.Labels(D.qid, held.items, np.zeros(40))
    refused(lambda: ranker(name).fit(features, labels, validation=(held, blank)), DataError, "validation part")


# Without a penalty.


@EVERY
def test_labels_that_a_feature_tells_perfectly(name: str) -> None:
    X = np.column_stack([D.y, D.X[:, 1:]])
    model, said = heard(lambda: RANKERS[name](max_iter=500).fit(X, D.y, qid=D.qid))
    assert not isinstance(model, Exception), model
    score = model.predict(X)
    assert np.isfinite(model.coefficients_).all()
    assert np.isfinite(model.fit_info_.objective)
    for q in np.unique(D.qid):
        own = D.qid == q
        above = D.y[own][:, None] > D.y[own][None, :]
        assert (score[own][:, None] > score[own][None, :])[above].all()
    # Where scores can always be better by being further apart, that is said, and the way out.
    if name in ("ranknet", "pmop"):
        assert "l2=0.01" in said
        assert not model.fit_info_.converged
    elif name in ("ranksvm", "rank-regress"):
        assert said == ""
        assert model.fit_info_.converged


def test_ten_thousand_items_in_one_instance() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 3))
    y = np.digitize(X[:, 0] + rng.normal(size=10_000), [0.5, 1.5])
    for name in ("ranknet", "pair-ties", "lambdarank", "ranksvm", "pmop"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            # Loops over pairs hold no pair: a table of them would take 800 MB.
            model = ranker(name, max_iter=100 if name == "lambdarank" else 2).fit(X, y, group=[10_000])
        score = model.predict(X)
        assert np.corrcoef(score, X[:, 0])[0, 1] > 0.9
