"""`compare_models`: statistics by hand, what is nested, the size of the tests, and refusals."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import concordant as cc
from concordant.errors import DataError, KindError, NotFittedError, ParameterError
from concordant.execution import threads
from concordant.inference.likelihood import data_digest

QUIET = pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
ITEMS = list("abcde")


def games(seed: int = 0, n: int = 200, experts: int = 0) -> cc.Comparisons:
    rng = np.random.default_rng(seed)
    left = rng.integers(0, 5, n)
    right = (left + rng.integers(1, 5, n)) % 5
    s = np.array([0.8, 0.4, 0.0, -0.4, -0.8])
    outcome = (rng.random(n) < 1 / (1 + np.exp(s[right] - s[left]))).astype(int)
    tie = rng.random(n) < 0.2
    names = np.array(ITEMS)
    who = [f"e{k % experts}" for k in range(n)] if experts else None
    counts = [np.where(tie, 0, outcome), np.where(tie, 0, 1 - outcome), tie]
    return cc.Comparisons("q", who, names[left].tolist(), names[right].tolist(), *(c.astype(float) for c in counts))


def features(x: Any, names: list[str]) -> cc.Features:
    return cc.Features(["q"] * 5, ITEMS, np.asarray(x, dtype=np.float64), names=names)


X = np.array([[2.0, 0.3, 1.0], [1.0, -0.2, 0.5], [0.2, 0.5, -1.0], [-1.0, 0.1, 0.2], [-1.8, -0.9, 0.0]])


def fitted(votes: Any, features: cc.Features | None = None, **params: Any) -> Any:
    kind = cc.BradleyTerry if isinstance(votes, cc.Comparisons) else cc.PlackettLuce
    model = kind(**{"prior": 0} | params)
    model.fit_predict(votes, features=features)
    return model


@QUIET
def test_likelihood_ratio_wald_and_aic_by_hand() -> None:
    votes = games()
    plain, home = fitted(votes), fitted(votes, side_effect=True)
    found = cc.compare_models(home, plain, names=["home", "plain"])
    (test,) = found.tests
    ratio = 2 * (home.fit_info_.log_likelihood - plain.fit_info_.log_likelihood)
    assert (test.smaller, test.larger, test.df) == ("plain", "home", 1)
    assert test.statistic == pytest.approx(ratio)
    assert test.p_value == pytest.approx(stats.chi2.sf(ratio, 1))
    (side,) = [r for r in home.summary().rows if r.kind == "side"]
    assert test.wald == pytest.approx(side.z**2)
    assert test.wald_p_value == pytest.approx(side.p_value)
    frame = found.to_frame()
    assert frame["model"].to_list() == ["plain", "home"]
    assert frame["n_parameters"].to_list() == [5, 6]
    assert frame["aic"].to_list() == pytest.approx([m.summary().aic for m in (plain, home)])
    assert frame["bic"].to_list() == pytest.approx([m.summary().bic for m in (plain, home)])
    assert frame["weight"].sum() == pytest.approx(1)
    assert "plain in home: likelihood ratio" in repr(found)
    assert "<table>" in found._repr_html_()


def contrasts(model: Any, terms: list[str]) -> float:
    """Return the Wald statistic of some coefficients being 0."""
    frame = model.covariance("parameters")
    at = [frame["term"].to_list().index(t) for t in terms]
    table = frame.drop("term").to_numpy()[np.ix_(at, at)]
    values = {r.term: r.estimate for r in model.summary().rows}
    b = np.array([values[t] for t in terms])
    return float(b @ np.linalg.solve(table, b))


@QUIET
@pytest.mark.parametrize("experts", [0, 20])
def test_nested_features_of_bradley_terry(experts: int) -> None:
    """One feature, all three with the side effect, and free scores with it."""
    votes = games(1, experts=experts)
    one = fitted(votes, features(X[:, :1], ["x"]))
    # The first feature is there in another unit and with another origin.
    three = fitted(votes, features(np.c_[5 - 3 * X[:, 0], X[:, 1:]], ["x", "y", "z"]), side_effect=True)
    free = fitted(votes, side_effect=True)
    found = cc.compare_models(free, one, three, names=["free", "one", "three"])
    assert [(t.smaller, t.larger, t.df) for t in found.tests] == [("one", "three", 3), ("three", "free", 1)]
    assert found.tests[0].wald == pytest.approx(contrasts(three, ["y", "z", "side"]))
    # The direction of the scores that three features leave over.
    left = np.linalg.svd(np.c_[np.ones(5), X])[0][:, 4]
    order = [free.consensus_.items.tolist().index(i) for i in ITEMS]
    table = free.consensus_.covariance[0][np.ix_(order, order)]
    value = (left @ free.consensus_.score[order]) ** 2 / (left @ table @ left)
    assert found.tests[1].wald == pytest.approx(value)
    if not experts:
        # Without clusters both tests are near each other.
        assert found.tests[1].wald == pytest.approx(found.tests[1].statistic, rel=0.05, abs=0.02)


@QUIET
@pytest.mark.parametrize("ties", ["average", "davidson-luce"])
def test_nested_features_of_plackett_luce(ties: str) -> None:
    votes = cc.synthetic.plackett_luce(dict(zip(ITEMS, X[:, 0].tolist(), strict=True)), 40, random_state=4).preferences
    coarse = cc.from_frame(votes.to_frame().drop_nulls().with_columns(rank=np.minimum(np.tile(np.arange(1, 6), 40), 4)))
    how = {"ties": ties, "uncertainty": "information"}
    one, two = (fitted(coarse, features(X[:, :k], list("xyz")[:k]), **how) for k in (1, 2))
    free = fitted(coarse, **how)
    found = cc.compare_models(one, two, free)
    assert [t.df for t in found.tests] == [1, 2]
    assert found.tests[0].wald == pytest.approx(contrasts(two, ["y"]))
    assert found.tests[0].wald == pytest.approx(found.tests[0].statistic, rel=0.1, abs=0.02)
    assert found.tests[1].wald == pytest.approx(found.tests[1].statistic, rel=0.15, abs=0.1)


@QUIET
@pytest.mark.parametrize(("n_experts", "said"), [(12, True), (40, False)])
def test_few_clusters_are_said(n_experts: int, said: bool) -> None:
    votes = cc.synthetic.bradley_terry((0.5, 0.0, -0.5), 600, n_experts=n_experts, random_state=4).comparisons
    models = [cc.BradleyTerry(prior=0), cc.BradleyTerry(prior=0, side_effect=True)]
    for model in models:
        model.fit_predict(votes)
    found = cc.compare_models(*models)
    assert found.tests[0].n_experts == n_experts
    assert (f"({n_experts} experts, which is few: p may be too small)" in repr(found)) == said
    plain = [cc.BradleyTerry(prior=0, uncertainty="information", side_effect=s) for s in (False, True)]
    for model in plain:
        model.fit_predict(votes)
    assert cc.compare_models(*plain).tests[0].n_experts is None


def test_models_that_are_not_nested_have_aic_only() -> None:
    votes = games(2)
    x, y = (fitted(votes, features(X[:, k : k + 1], ["f"])) for k in (0, 1))
    both = fitted(votes, features(X[:, 1:], ["y", "z"]))
    free = fitted(votes)
    kupper = fitted(votes, ties="rao-kupper", side_effect=True)
    for models, why in (
        ((x, both), "features of one do not span"),
        ((x, y), "features of one do not span"),
        ((free, kupper), "davidson and rao-kupper are different models of ties"),
        ((fitted(votes, features(X[:, :1], ["f"]), side_effect=True), free), "only the one with fewer parameters"),
        ((free, fitted(votes, anchor="b")), "the same parameters"),
    ):
        found = cc.compare_models(*models)
        (test,) = found.tests
        assert test.statistic is None
        assert why in test.why_not
        assert why in repr(found)
        assert found.to_frame()["delta_aic"].min() == 0
    # The next larger model that contains one is not its neighbour.
    skipped = cc.compare_models(y, both, free, names=["y", "yz", "free"])
    assert [(t.smaller, t.larger) for t in skipped.tests] == [("y", "yz"), ("yz", "free")]
    skipped = cc.compare_models(x, both, free, names=["x", "yz", "free"])
    assert [(t.smaller, t.larger) for t in skipped.tests] == [("x", "free"), ("yz", "free")]
    # Loaded models have no scores to test, and keep the likelihood ratio.
    assert "no Wald test" in repr(cc.compare_models(x, fitted(votes, uncertainty="none")))


@QUIET
def test_refusals(tmp_path: Path) -> None:
    votes = games(3)
    free = fitted(votes)
    lists = cc.synthetic.plackett_luce((1.0, 0.5, 0.0), 30, random_state=0).preferences
    luce = fitted(lists)
    pairs = cc.BradleyTerry(prior=0)
    pairs.fit_predict(lists)
    unfitted = cc.BradleyTerry(prior=0)
    cases: list[tuple[Any, type[Exception], str]] = [
        ((free,), ParameterError, "compares two models or more. Got 1"),
        ((free, "rrf"), ParameterError, "fitted methods"),
        ((free, cc.RRF()), KindError, "needs a likelihood: bradley-terry or plackett-luce. Got 'rrf'"),
        ((free, fitted(votes, prior=0.1)), ParameterError, "'model 2' has a prior"),
        ((free, unfitted), NotFittedError, "not fitted"),
        ((free, fitted(games(4))), DataError, "not fitted to the same data"),
        ((free, luce), DataError, "not fitted to the same data"),
        ((luce, pairs), ParameterError, "'model 2' is BradleyTerry on lists"),
        ((free, fitted(votes, ties="none")), DataError, "200 and [0-9]+ observations"),
        ((free, fitted(votes, optimizer="gd")), ParameterError, "optimizer"),
        ((luce, fitted(lists, ties="partition")), DataError, r"read the lists differently \(ties="),
    ]
    for models, error, match in cases:
        with pytest.raises(error, match=match):
            cc.compare_models(*models)
    with pytest.raises(ParameterError, match="2 different names"):
        cc.compare_models(free, free, names=["x", "x"])
    free.save(tmp_path / "model")
    again = cc.compare_models(cc.load(tmp_path / "model"), fitted(votes, side_effect=True))
    assert again.tests[0].df == 1


def test_the_digest_tells_data_apart() -> None:
    one = games(5)
    assert data_digest(one) == data_digest(games(5))
    other = cc.Comparisons("q", None, one.items.take(one.left), one.items.take(one.right), one.n_right, one.n_left)
    lists = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a"]})
    seen = [data_digest(v) for v in (one, other, lists, lists.with_missing("below"), lists.scale_weights({"x": 2}))]
    assert len(set(seen)) == 5


@QUIET
@pytest.mark.parametrize("setting", [0, 4])
def test_size_of_the_tests_is_near_nominal(setting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 200 draws; the results page has 3,000 for each of nine settings."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    with threads(1):
        found, _, lost = import_module("models_tests").p_values(setting, 200)
    p = np.array(found)
    assert lost <= 2
    # Within three standard errors.
    assert (np.abs((p < 0.05).mean(axis=0) - 0.05) < 0.047).all()
    assert min(stats.kstest(p[:, k], "uniform").pvalue for k in (0, 1)) > 0.001
