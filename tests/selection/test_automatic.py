"""`auto` measures like a cross-validation, keeps what is not surpassed by a standard error, and obeys its budget."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.cli._parsing import make_method
from concordant.errors import ConcordantWarning, DataError, KindError, NotFittedError, ParameterError
from concordant.selection import automatic
from concordant.selection.automatic import Auto

LINEAR = cc.ListwiseLinear(l2=0.1)
BINARY = cc.ListwiseLinear(l2=0.1, transform="binary")


@pytest.fixture(scope="module")
def data() -> tuple[cc.Preferences, cc.Labels]:
    return cc.synthetic.labelled_runs(24, n_items=(5, 12), random_state=1)


@pytest.fixture(scope="module")
def found(data: tuple[cc.Preferences, cc.Labels]) -> Auto:
    return cc.auto(*data, budget=None, methods=["borda", LINEAR, BINARY], folds=3, metric="ndcg@5")


def measured(method: Any, data: tuple[cc.Preferences, cc.Labels]) -> Any:
    """Return the values of the held-out instances, sorted by id."""
    own = cc.cross_validate(method, *data, folds=3, metrics="ndcg@5")
    return dict(zip(own.instances, own.values["ndcg@5"].tolist(), strict=True))


def test_what_is_tried_has_the_values_of_a_cross_validation(
    data: tuple[cc.Preferences, cc.Labels], found: Auto
) -> None:
    blend = cc.Blend(members=[LINEAR, BINARY], weights="equal")
    methods = [cc.RRF(), cc.CombSUM(), cc.Borda(), LINEAR, BINARY, blend]
    values = [measured(method, data) for method in methods]
    means = [np.mean(list(own.values())) for own in values]
    assert [trial.mean for trial in found.tried_] == pytest.approx(means, abs=1e-12)
    assert [type(trial.method) for trial in found.tried_] == [type(method) for method in methods]
    kept = int(np.argmax(means[:2]))
    for trial, own in zip(found.tried_, values, strict=True):
        gaps = np.array([own[q] - values[kept][q] for q in own])
        if own is not values[kept]:
            assert trial.above == pytest.approx(gaps.mean(), abs=1e-12)
            assert trial.stderr == pytest.approx(gaps.std(ddof=1) / len(gaps) ** 0.5, abs=1e-12)
    best = int(np.argmax(means))
    assert found.tried_[best].outcome == "chosen"
    assert type(found.best_method_) is type(methods[best])
    assert found.fit_info_.validation == pytest.approx(means[best])
    assert f"the best of {len(methods)} methods" in found.why_
    assert [row["outcome"] for row in found.results_.to_dicts()] == [trial.outcome for trial in found.tried_]


def test_the_choice_is_fitted_to_all_instances_and_saved_as_itself(
    data: tuple[cc.Preferences, cc.Labels], found: Auto, tmp_path: Path
) -> None:
    best = found.best_method_
    again = type(best)(**best.get_params()).fit(*data)
    want = again.predict(data[0])
    assert np.array_equal(found.predict(data[0]).score, want.score)
    found.save(tmp_path / "m")
    loaded = cc.load(tmp_path / "m")
    assert type(loaded) is type(best)
    assert np.array_equal(loaded.predict(data[0]).score, want.score)
    assert found.explain(data[0], data[0].instances[0]).score.shape == (len(data[0][0].items),)


class Given(cc.Aggregator):
    """Scores that the test decides: a share of the instances by the labels, the others by RRF."""

    name = "toy-given"
    tags = cc.Tags(accepts=frozenset({"rank"}))
    truth: cc.Labels

    def __init__(self, *, share: float = 0.0, spoilt: float = 0.0) -> None:
        self.share = share
        self.spoilt = spoilt

    def _scores(self, preferences: Any) -> Any:
        score = cc.RRF().predict(preferences).score.copy()
        label = self.truth.align(preferences).label
        number = np.array([int(q[1:]) for q in preferences.instances])[preferences.slots.instance]
        good, bad = number % 100 < 100 * self.share, number % 100 >= 100 * (1 - self.spoilt)
        return np.where(good, score + label, np.where(bad, score - label, score))


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> tuple[cc.Preferences, cc.Labels]:
    monkeypatch.setitem(cc.METHODS.entries, Given.name, Given)
    runs, labels = cc.synthetic.labelled_runs(100, n_items=(5, 8), random_state=2)
    monkeypatch.setattr(Given, "truth", labels, raising=False)
    monkeypatch.setitem(automatic._BASELINES, "lists", ("rrf",))
    return runs, labels


def test_the_default_is_kept_unless_something_is_better_by_a_standard_error(
    given: tuple[cc.Preferences, cc.Labels],
) -> None:
    noisy, clear = Given(share=0.3, spoilt=0.28), Given(share=0.3)
    kept = cc.auto(*given, methods=[noisy], metric="ndcg@5")
    (trial,) = [t for t in kept.tried_ if "toy" in t.name]
    assert -trial.stderr < trial.above < trial.stderr
    assert trial.outcome == "not better by one standard error"
    assert isinstance(kept.best_method_, cc.RRF)
    assert kept.why_.startswith("rrf is kept")
    chosen = cc.auto(*given, methods=[noisy, clear], metric="ndcg@5")
    assert chosen.best_method_.get_params() == clear.get_params()
    assert chosen.why_.startswith("toy-given(share=0.3) is chosen")
    assert chosen.tried_[0].outcome == "compared with"


def test_a_budget_leaves_out_what_would_take_too_long(data: tuple[cc.Preferences, cc.Labels]) -> None:
    found = cc.auto(*data, budget=1e-9, methods=[LINEAR, BINARY])
    assert [t.outcome.partition(":")[0] for t in found.tried_[2:]] == ["not tried", "not tried"]
    assert found.tried_[2].outcome == "not tried: the time was used up"
    assert np.isnan(found.tried_[2].mean)
    assert found.results_["mean"].to_list()[2:] == [None, None]
    assert isinstance(found.best_method_, (cc.RRF, cc.CombSUM))
    assert "none of 1 other methods" in found.why_


def test_a_method_whose_folds_would_take_too_long_is_not_finished(
    data: tuple[cc.Preferences, cc.Labels], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every look at the clock is a second; the first fold takes longer than all the room there is."""
    clock = iter(range(10_000))
    monkeypatch.setattr(automatic, "perf_counter", lambda: float(next(clock)))
    with cc.threads(1):
        found = cc.auto(*data, budget=40, methods=[LINEAR, BINARY, BINARY], folds=4)
        outcomes = [t.outcome for t in found.tried_]
        assert any(text.startswith("not finished: it would take about") for text in outcomes)
        clock = iter(range(10_000))
        assert not any("not" in t.outcome[:4] for t in cc.auto(*data, budget=4000, methods=[LINEAR]).tried_)


def test_few_labelled_instances_are_not_compared(data: tuple[cc.Preferences, cc.Labels]) -> None:
    with pytest.warns(
        ConcordantWarning, match="rrf is chosen without a comparison, which needs 10 labelled instances; there are 9"
    ):
        found = cc.auto(data[0][:9], data[1][:9])
    assert isinstance(found.best_method_, cc.RRF)
    assert {t.outcome for t in found.tried_} == {"kept", "not tried"}


def test_a_method_that_fails_is_reported(
    data: tuple[cc.Preferences, cc.Labels], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = cc.auto(*data, methods=["elo", LINEAR], budget=None, folds=2)
    assert found.tried_[2].outcome.startswith("failed: KindError: Elo")
    assert found.best_method_.name == "listwise-linear"
    monkeypatch.setitem(automatic._BASELINES, "lists", ("elo",))
    with pytest.raises(DataError, match="auto has no baseline to compare with: elo failed"):
        cc.auto(*data, methods=[LINEAR], folds=2)


def test_learners_leave_out_experts_who_come_and_go() -> None:
    runs, labels = cc.synthetic.labelled_runs(20, random_state=2)
    # Every instance has one expert of its own.
    guests = cc.concat(
        [cc.from_lists({f"guest {q}": [str(i) for i in runs[[n]].items[:3]]}, q) for n, q in enumerate(runs.instances)]
    )
    votes = cc.concat([runs, guests])
    found = Auto(budget=None, folds=2).fit(votes, labels)
    tried = {trial.method.name: trial for trial in found.tried_}
    assert not [trial.outcome for trial in tried.values() if "failed" in trial.outcome]
    assert tried["listwise-linear"].method.unknown_experts == "ignore"


def test_of_comparisons_and_features(monkeypatch: pytest.MonkeyPatch) -> None:
    features, grades = cc.synthetic.graded_features(14, random_state=1)
    found = cc.auto(features, grades, methods=[cc.ListMLE(max_iter=5)], folds=2)
    assert [t.method.name for t in found.tried_] == ["rank-regress", "list-mle"]
    assert found.predict(features).slots == features.slots
    votes = cc.synthetic.labelled_runs(14, n_items=(4, 5), random_state=3)
    pairs = cc.Comparisons(*_pairs(votes[0]))
    found = cc.auto(pairs, votes[1], methods=["copeland"], folds=2)
    assert [t.method.name for t in found.tried_] == ["bradley-terry", "copeland"]
    kept, tried = Auto()._candidates(pairs, None)
    assert [m.name for m in kept] == ["bradley-terry"]
    assert "reliability=True" in repr(tried[1])


def _pairs(votes: cc.Preferences) -> Any:
    """Return rows of comparisons: every list as wins of its first item against the others."""
    rows = []
    for one in votes:
        frame = one.to_frame().drop_nulls()
        for expert in one.experts:
            items = frame.filter(frame["expert"] == expert).sort("rank")["item"].to_list()
            rows += [(one.instances[0], expert, items[0], other, 1.0, 0.0) for other in items[1:]]
    return zip(*rows, strict=True)


def test_with_features_beside_lists_learners_that_use_them_are_tried(data: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = data
    X = np.nan_to_num(labels.align(votes).label)[:, None] + np.random.default_rng(0).normal(size=(votes.n_slots, 1))
    beside = cc.Features.from_codes(votes.slots, X)
    _, tried = Auto()._candidates(votes, beside)
    assert [m.name for m in tried] == [
        "comb-mnz", "borda", "rrf", "listwise-linear", "svd-rank", "crf", "lambdarank", "boosted-trees",
    ]  # fmt: skip
    found = cc.auto(votes, labels, features=beside, methods=[cc.ListMLE(max_iter=20)], folds=2)
    assert found.best_method_.name == "list-mle"
    assert found.predict(votes, features=beside).score.shape == (votes.n_slots,)


def test_members_stop_early_by_the_validation_part_and_the_choice_is_made_on_other_instances(
    data: tuple[cc.Preferences, cc.Labels],
) -> None:
    votes, labels = data
    held = (votes[18:], labels)
    found = cc.auto(votes[:18], labels[:18], validation=held, methods=[cc.SVDRank(passes=8)], folds=2)
    alone = cc.SVDRank(passes=8).fit(votes[:18], labels[:18], validation=held)
    assert found.best_method_.name == "svd-rank"
    assert np.array_equal(found.best_method_.weights_, alone.weights_)
    assert len(found.best_method_.fit_info_.trace) == len(alone.fit_info_.trace)


def test_a_checkpoint_is_refused_by_a_warning(data: tuple[cc.Preferences, cc.Labels], tmp_path: Path) -> None:
    auto = Auto(budget=None, methods=[cc.CRF(passes=2)], folds=2)
    with cc.checkpoint(tmp_path / "c"), pytest.warns(ConcordantWarning, match="Auto writes no checkpoint"):
        auto.fit(*data)
    assert not (tmp_path / "c").exists()
    assert auto.tried_[2].outcome.endswith("better by one standard error") or auto.tried_[2].outcome == "chosen"


def test_it_is_cross_validated_like_any_method(data: tuple[cc.Preferences, cc.Labels]) -> None:
    nested = cc.cross_validate(Auto(methods=[LINEAR], folds=2), *data, folds=2)
    assert [run.chosen["method"] for run in nested.runs] == ["listwise-linear(l2=0.1)"] * 2
    assert nested.mean["ndcg@10"] > 0.6


def test_the_candidates_follow_the_metric_and_the_extras(
    data: tuple[cc.Preferences, cc.Labels], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, tried = Auto(metric="map")._candidates(data[0], None)
    assert {m.get_params()["select"] for m in tried if "select" in m.get_params()} == {"map"}
    monkeypatch.setattr(automatic, "find_spec", lambda _: None)
    found = cc.auto(*data, methods=["boosted-trees"], folds=2)
    assert found.tried_[2].outcome == "not tried: it needs the extra 'boost'"
    assert find_spec("concordant") is not None


def test_refusals(data: tuple[cc.Preferences, cc.Labels]) -> None:
    invalid: list[tuple[dict[str, Any], str]] = [
        ({"budget": 0}, "'budget'"),
        ({"methods": []}, "'methods'"),
        ({"metric": "ncdg"}, "'metric'"),
        ({"folds": 1}, "'folds'"),
    ]
    for params, words in invalid:
        with pytest.raises(ParameterError, match=words):
            cc.auto(*data, **params)
    with pytest.raises(DataError, match="auto needs labels"):
        Auto().fit(data[0])
    with pytest.raises(NotFittedError):
        Auto().predict(data[0])
    with pytest.raises(NotFittedError):
        _ = Auto().results_
    with pytest.raises(KindError):
        cc.auto([[1, 2]], data[1])


def test_methods_are_written_as_the_command_line_reads_them() -> None:
    for method in (
        cc.Blend(members=[cc.RRF(k=10), "borda", cc.Blend(members=["rrf", "comb-sum"])], weights="equal", cv=3),
        cc.BradleyTerry(reliability=True),
        cc.ListwiseLinear(),
    ):
        assert repr(make_method(automatic._method_text(method), {})).replace("'", "") == repr(method).replace(
            "'borda'", "Borda()"
        ).replace("'rrf'", "RRF()").replace("'comb-sum'", "CombSUM()").replace("[", "(").replace("]", ")").replace(
            "'", ""
        )
