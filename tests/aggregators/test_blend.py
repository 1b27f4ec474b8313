"""Blend: sums of z-scores, weights that minimise the loss of held-out scores, explanations, seeds, saving, resuming."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.attack.models import put_together, taken_apart

import concordant as cc
from concordant.aggregators import blend as blend_file
from concordant.cli._parsing import make_method
from concordant.data.streams import id_hash
from concordant.errors import (
    ConcordantWarning,
    DataError,
    DataWarning,
    FormatError,
    KindError,
    NotFittedError,
    ParameterError,
)
from concordant.learning.supervision import ValidationMetric


def linear(**changes: Any) -> cc.ListwiseLinear:
    """Return a learner without folds of its own."""
    return cc.ListwiseLinear(**{"l2": 0.1} | changes)


def small(**changes: Any) -> cc.Blend:
    return cc.Blend(**{"members": [linear(), linear(transform="binary", l2=1.0), "borda"], "cv": 3} | changes)


@pytest.fixture(scope="module")
def data() -> tuple[cc.Preferences, cc.Labels]:
    return cc.synthetic.labelled_runs(18, n_items=(4, 9), random_state=1)


@pytest.fixture(scope="module")
def fitted(data: tuple[cc.Preferences, cc.Labels]) -> cc.Blend:
    return small().fit(*data)


def z_scores(score: Any, votes: Any) -> Any:
    """Return z-scores within every instance, by definition."""
    out = np.array(score, dtype=float)
    for first, last in zip(votes.slots.offsets[:-1], votes.slots.offsets[1:], strict=True):
        own = out[first:last]
        out[first:last] = (own - own.mean()) / own.std() if np.ptp(own) > 1e-9 else 0.0
    return out


def test_scores_are_weighted_sums_of_the_members_z_scores(
    data: tuple[cc.Preferences, cc.Labels], fitted: cc.Blend
) -> None:
    votes, labels = data
    alone = [linear(), linear(transform="binary", l2=1.0), cc.Borda()]
    each = [z_scores(member.fit(votes, labels).predict(votes).score, votes) for member in alone]
    assert fitted.member_weights_.sum() == pytest.approx(1)
    assert fitted.predict(votes).score == pytest.approx(fitted.member_weights_ @ np.array(each), abs=1e-12)


def held_out(data: tuple[cc.Preferences, cc.Labels], members: list[Any], cv: int) -> tuple[Any, list[Any]]:
    """Return z-scores of every member on instances it was not fitted to, and the parts, without Blend."""
    votes, labels = data
    usable = [n for n, instance in enumerate(votes.instances) if np.ptp(labels[instance].label) > 0]
    order = sorted(usable, key=lambda n: (id_hash(f"0:{votes.instances[n]}"), votes.instances[n]))
    parts = [np.sort(np.array(order[f::cv])) for f in range(cv)]
    z = np.zeros((votes.n_slots, len(members)))
    for part in parts:
        rest = votes[np.setdiff1d(np.arange(len(votes)), part)]
        slots = np.flatnonzero(np.isin(votes.slots.instance, part))
        for m, member in enumerate(members):
            model = type(member)(**member.get_params()).fit(rest, labels[rest.instances.tolist()])
            z[slots, m] = z_scores(model.predict(votes[part]).score, votes[part])
    return z, parts


def mean_loss(w: Any, z: Any, votes: Any, labels: Any) -> float:
    """Return the mean cross-entropy between the shares of the gain and a softmax of the sums, by definition."""
    label = labels.align(votes).label
    losses = []
    for first, last in zip(votes.slots.offsets[:-1], votes.slots.offsets[1:], strict=True):
        gain = 2.0 ** label[first:last] - 1
        if np.ptp(gain) > 0:
            total = z[first:last] @ w
            losses.append(-(gain / gain.sum()) @ (total - np.log(np.exp(total).sum())))
    return float(np.mean(losses))


def test_the_weights_minimise_the_loss_of_held_out_scores(data: tuple[cc.Preferences, cc.Labels]) -> None:
    members = [linear(), linear(transform="binary", l2=1.0), cc.Borda()]
    z, _ = held_out(data, members, 3)
    for l2 in (0.001, 1.0):
        found = small(l2=l2).fit(*data)

        def objective(w: Any, l2: float = l2) -> float:
            ridge = 0.5e-4 * w @ w
            return mean_loss(w, z, *data) + 0.5 * l2 * ((w - w.mean()) ** 2).sum() + float(ridge)

        best = minimize(objective, np.ones(3), bounds=[(0, None)] * 3, method="SLSQP", options={"ftol": 1e-14})
        assert found.fit_info_.objective == pytest.approx(best.fun, abs=1e-7)
        assert found.member_weights_ == pytest.approx(best.x / best.x.sum(), abs=2e-3)
        assert found.fit_info_.gradient_norm < 1e-12


def test_the_hessian_is_the_derivative_of_the_gradient(data: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = data
    z, parts = held_out(data, [linear(), cc.Borda()], 2)
    target = blend_file.with_gains(blend_file.match_labels(votes, labels, "x"), votes, "x")[1]
    problem = blend_file._WeightLoss.of(z, target, votes, parts)
    w, every = np.array([0.4, 0.9]), np.arange(len(problem.folds))
    for m, step in enumerate(1e-5 * np.eye(2)):
        ahead, behind = (problem.value(w + s * step, 0.3, every) for s in (1, -1))
        assert (ahead[0] - behind[0]) / 2e-5 == pytest.approx(problem.value(w, 0.3, every)[1][m], abs=1e-8)
        assert (ahead[1] - behind[1]) / 2e-5 == pytest.approx(problem.hessian(w, 0.3, every)[m], abs=1e-8)


@pytest.mark.parametrize("select", ["ndcg@10", "map"])
def test_auto_takes_the_strongest_penalty_that_the_held_out_metric_allows(
    data: tuple[cc.Preferences, cc.Labels], select: str
) -> None:
    """A member of noise: equal weights would cost more than a standard error."""
    z, parts = held_out(data, [linear(), linear(transform="binary", l2=1.0), cc.Borda()], 3)
    votes, labels = data
    z[:, 2] = z_scores(np.random.default_rng(0).normal(size=len(z)), votes)
    target = blend_file.with_gains(blend_file.match_labels(votes, labels, "x"), votes, "x")[1]
    problem = blend_file._WeightLoss.of(z, target, votes, parts)
    values = {}
    for l2 in blend_file._PENALTIES:
        total = np.zeros(len(z))
        for f, part in enumerate(parts):
            slots = np.isin(votes.slots.instance, part)
            total[slots] = z[slots] @ problem.minimum(l2, np.flatnonzero(problem.folds != f))
        instance = np.array(votes.instances)[votes.slots.instance]
        answer = cc.Consensus(instance, votes.items, total)
        found = cc.evaluate(answer, labels, select, convention="paper")
        by_instance = dict(zip(found.instances, found.values[select], strict=True))
        values[l2] = np.array([by_instance[votes.instances[n]] for part in parts for n in part])
    best = max(values.values(), key=lambda value: round(float(value.mean()), 12))
    lost = {l2: best - value for l2, value in values.items()}
    allowed = [l2 for l2, own in lost.items() if own.mean() <= own.std(ddof=1) / len(own) ** 0.5]
    metric = ValidationMetric(votes, labels, select)
    chosen = blend_file._select_penalty(problem, z, votes.slots, parts, metric)
    assert chosen == max(allowed) < 100
    weights = problem.minimum(chosen, np.arange(len(problem.folds)))
    assert weights[2] < 0.5 * weights[:2].max()


def test_long_lists_do_not_make_the_loss_sure_of_what_the_metric_does_not_see() -> None:
    """Two members of one order, the scores of one bent: the loss tells them apart in every instance, no metric does."""
    rng = np.random.default_rng(3)
    names = [(f"q{q}", f"d{d}") for q in range(12) for d in range(40)]
    instance, item = zip(*names, strict=True)
    quality = rng.normal(size=len(names))
    label = 1.0 * (quality + rng.normal(size=len(names)) > 1.5)
    votes = cc.Preferences(instance, ["x"] * len(names), item, quality, kind="score")
    labels = cc.Labels(instance, item, label)
    scores = np.column_stack([quality, np.exp(3.0 * quality)])
    parts = [np.arange(f, 12, 3) for f in range(3)]
    target = blend_file.with_gains(blend_file.match_labels(votes, labels, "x"), votes, "x")[1]
    problem = blend_file._WeightLoss.of(scores, target, votes, parts)
    every = np.arange(12)
    weak, strong = problem.minimum(0.001, every), problem.minimum(100.0, every)
    losses = np.array([[problem.value(w, 0.0, np.array([n]))[0] for n in every] for w in (weak, strong)])
    gain = losses[1] - losses[0]
    assert gain.mean() > 2 * gain.std(ddof=1) / len(gain) ** 0.5
    assert blend_file._select_penalty(problem, scores, votes.slots, parts, ValidationMetric(votes, labels)) == 100


def test_a_strong_penalty_gives_equal_weights(data: tuple[cc.Preferences, cc.Labels]) -> None:
    assert small(l2=1e9).fit(*data).member_weights_ == pytest.approx([1 / 3] * 3, abs=1e-6)


class Watched(cc.ListwiseLinear):
    """Keeps what it was fitted to, the seeds, and what it was asked about."""

    name = "toy-watched"
    seen: list[tuple[str, Any, Any, int]] = []  # noqa: RUF012 - emptied by the fixture

    def _fit(self, preferences: Any, labels: Any, validation: Any, features: Any) -> None:
        self.seen.append(("fit", set(preferences.instances), labels, self.random_state))
        super()._fit(preferences, labels, validation, features)
        self.fitted_to_ = sorted(preferences.instances)

    def _scores(self, preferences: Any) -> Any:
        self.seen.append(("predict", set(preferences.instances), set(self.fitted_to_), self.random_state))
        return super()._scores(preferences)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any, Any, int]]:
    monkeypatch.setitem(cc.METHODS.entries, Watched.name, Watched)
    Watched.seen.clear()
    return Watched.seen


def test_a_member_scores_instances_whose_labels_it_has_not_seen(
    data: tuple[cc.Preferences, cc.Labels], watched: list[tuple[str, Any, Any, int]]
) -> None:
    votes, labels = data
    with cc.threads(1):
        cc.Blend(members=[Watched(l2=0.1), "borda"], cv=3).fit(votes, labels)
    asked = [(instances, learned) for what, instances, learned, _ in watched if what == "predict"]
    assert len(asked) == 3
    # Instances whose labels are all equal tell nothing about the weights.
    usable = {instance for instance in votes.instances if np.ptp(labels[instance].label) > 0}
    assert set().union(*(instances for instances, _ in asked)) == usable < set(votes.instances)
    assert all(not instances & learned for instances, learned in asked)
    fits = [(instances, truth) for what, instances, truth, _ in watched if what == "fit"]
    assert sorted(len(instances) for instances, _ in fits)[-2:] == [13, 18]
    assert all(set(truth.instances) <= instances for instances, truth in fits if len(instances) < 18)


def test_equal_weights_hold_nothing_out(
    data: tuple[cc.Preferences, cc.Labels], watched: list[tuple[str, Any, Any, int]]
) -> None:
    model = cc.Blend(members=[Watched(l2=0.1), "borda"], weights="equal").fit(*data)
    assert [what for what, *_ in watched] == ["fit"]
    assert model.member_weights_.tolist() == [0.5, 0.5]


def test_the_seed_is_added_to_those_of_the_members(
    data: tuple[cc.Preferences, cc.Labels], watched: list[tuple[str, Any, Any, int]]
) -> None:
    given = Watched(l2=0.1, random_state=4)
    cc.Blend(members=[given, "borda"], random_state=3, weights="equal").fit(*data)
    assert {seed for *_, seed in watched} == {7}
    assert given.random_state == 4
    assert "weights_" not in vars(given)


def test_members_choose_by_the_validation_part_as_they_would_alone(data: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = data
    held = (votes[12:], labels)
    alone = cc.SVDRank(passes=6).fit(votes[:12], labels[:12], validation=held)
    blend = cc.Blend(members=[cc.SVDRank(passes=6), "borda"], cv=2).fit(votes[:12], labels[:12], validation=held)
    member = blend.members_[0]
    assert member.fit_info_.chosen == alone.fit_info_.chosen
    assert member.fit_info_.validation == alone.fit_info_.validation
    assert np.array_equal(member.weights_, alone.weights_)


@pytest.mark.parametrize("by", ["expert", "member"])
def test_parts_add_up_to_the_score(data: tuple[cc.Preferences, cc.Labels], fitted: cc.Blend, by: str) -> None:
    votes = data[0]
    consensus = fitted.predict(votes)
    for instance in votes.instances[:3]:
        told = fitted.explain(votes, instance, by=by)
        own = consensus[instance]
        scores = dict(zip(own.items.tolist(), own.score.tolist(), strict=True))
        assert told.score == pytest.approx([scores[i] for i in told.items], abs=1e-12)
        assert told.contribution.sum(axis=1) + told.base == pytest.approx(told.score, abs=1e-12)
        names = set(votes.experts) if by == "expert" else set(fitted.member_names_)
        assert set(told.experts) <= names
        assert told.by == by


def test_the_parts_of_an_expert_are_the_members_parts_in_units_of_their_deviation() -> None:
    lists = cc.from_lists({"x": ["a", "b", "c"], "y": ["c", "a", "b"]})
    model = cc.Blend(members=["rrf", "borda"], weights="equal").fit(lists)
    told = model.explain(lists)
    rrf, borda = ({i: m.explain(lists).parts(i)["x"] for i in "abc"} for m in (cc.RRF(), cc.Borda()))
    sizes = [np.std(m.fit_predict(lists).score) for m in (cc.RRF(), cc.Borda())]
    for item in "abc":
        parts = [(own[item] - np.mean(list(own.values()))) / s for own, s in zip((rrf, borda), sizes, strict=True)]
        assert told.parts(item)["x"] == pytest.approx(np.mean(parts), abs=1e-12)


def test_a_member_that_is_no_sum_over_experts_stands_under_its_own_name() -> None:
    lists = cc.from_lists({"x": ["a", "b", "c"], "y": ["c", "a", "b"]})
    model = cc.Blend(members=["rrf", "schulze"], weights="equal").fit(lists)
    told = model.explain(lists)
    assert "(schulze)" in told.experts
    assert told.contribution.sum(axis=1) + told.base == pytest.approx(told.score, abs=1e-12)
    with pytest.raises(ParameterError, match="'expert' or 'member'"):
        model.explain(lists, by="item")


@pytest.mark.skipif(find_spec("lightgbm") is None, reason="boosted trees are grown by LightGBM")
def test_trees_are_members_like_others(data: tuple[cc.Preferences, cc.Labels], tmp_path: Path) -> None:
    trees = cc.BoostedTrees(trees=2, models=1, leaves=3, min_items=2)
    model = cc.Blend(members=[linear(), trees], weights="equal").fit(*data)
    told = model.explain(data[0], data[0].instances[0])
    assert told.contribution.sum(axis=1) + told.base == pytest.approx(told.score, abs=1e-10)
    model.save(tmp_path / "m")
    assert np.array_equal(cc.load(tmp_path / "m").predict(data[0]).score, model.predict(data[0]).score)


def test_items_that_every_member_ties_tie() -> None:
    """Differences that are rounding errors of the members are not blown up by small deviations."""
    votes = cc.from_lists({"x": {"a": 1e6 + 1e-3, "b": 1e6, "c": 1e6 + 3e-10}, "y": {"a": 1e6 + 1e-3, "b": 1e6}})
    model = cc.Blend(members=[cc.CombMAX(norm="none"), cc.CombMAX(norm="none")], weights="equal").fit(votes)
    score = dict(zip(votes.items.tolist(), model.predict(votes).score.tolist(), strict=True))
    assert score["b"] == score["c"] < score["a"]


def test_nothing_depends_on_the_order_of_the_instances(data: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = data
    turned = votes[::-1]
    one, other = (small().fit(v, labels[v.instances.tolist()]) for v in (votes, turned))
    assert np.array_equal(one.member_weights_, other.member_weights_)


def test_few_instances_have_equal_weights(data: tuple[cc.Preferences, cc.Labels]) -> None:
    with pytest.warns(DataWarning, match="3 instances, too few to hold any out"):
        model = small().fit(data[0][:3], data[1][:3])
    assert model.member_weights_ == pytest.approx([1 / 3] * 3)


def test_an_expert_of_one_part_only_is_no_error(data: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = data
    first = votes.instances[0]
    rare = cc.from_lists({"rare": votes[0].items.tolist()[:3]}, instance=first)
    both = cc.concat([votes, rare])
    model = small(members=[linear(), "borda"]).fit(both, labels)
    assert "rare" in model.members_[0].experts_


def test_warnings_of_the_final_fits_are_heard_once(data: tuple[cc.Preferences, cc.Labels]) -> None:
    with pytest.warns(ConcordantWarning) as said:
        model = small(members=[linear(max_iter=1), "borda"]).fit(*data)
    assert len(said) == 1
    assert model.fit_info_.warnings == [f"listwise-linear: {said[0].message}"]
    assert not model.fit_info_.converged


def test_refusals(data: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = data
    for members, error, words in (
        (["rrf"], ParameterError, "'members' parameter of Blend must be a list of at least 2"),
        (["rrf", "borde"], ParameterError, "'members'"),
        (["rrf", cc.RRF(k=-1)], ParameterError, "'k' parameter of RRF"),
        (["rrf", cc.GridSearch(cc.RRF(), {"k": [1, 2]})], ParameterError, "GridSearch cannot be a member"),
        (["rrf", cc.Elo()], KindError, "Elo"),
    ):
        with pytest.raises(error, match=words):
            cc.Blend(members=members).fit(votes, labels)
    with pytest.raises(NotFittedError):
        small().predict(votes)
    with pytest.raises(DataError, match="Blend learns from labels"):
        small().fit(votes)


def test_a_failing_member_is_named(data: tuple[cc.Preferences, cc.Labels]) -> None:
    with pytest.raises(ParameterError) as told:
        small(members=["rrf", cc.CRF(metric="p@500", passes=1)]).fit(*data)
    assert any("in crf, fitted without part 1 of 3" in note for note in told.value.__notes__)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_interrupted_fit_resumes_with_the_same_result(
    data: tuple[cc.Preferences, cc.Labels], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_threads: int
) -> None:
    want = small().fit(*data)
    fits: list[int] = []
    whole = cc.ListwiseLinear._fit

    def counting(stop: int) -> Callable[..., None]:
        def fit(self: Any, preferences: Any, *rest: Any) -> None:
            fits.append(len(preferences))
            if len(fits) == stop:
                raise KeyboardInterrupt
            whole(self, preferences, *rest)

        return fit

    path = tmp_path / "state"
    monkeypatch.setattr(cc.ListwiseLinear, "_fit", counting(6))
    with cc.threads(n_threads), cc.checkpoint(path, every=0), pytest.raises(KeyboardInterrupt):
        small().fit(*data)
    fits.clear()
    monkeypatch.setattr(cc.ListwiseLinear, "_fit", counting(0))
    with cc.checkpoint(path):
        model = small().fit(*data)
    # Six fits to parts and two to the whole; at least four of the parts were finished.
    assert len([n for n in fits if n < 18]) <= 2
    assert np.array_equal(model.member_weights_, want.member_weights_)
    assert np.array_equal(model.predict(data[0]).score, want.predict(data[0]).score)
    with cc.checkpoint(path), pytest.raises(FormatError, match="another fit"):
        small(l2=0.5).fit(*data)


def test_saved_and_loaded(data: tuple[cc.Preferences, cc.Labels], fitted: cc.Blend, tmp_path: Path) -> None:
    fitted.save(tmp_path / "m")
    loaded = cc.load(tmp_path / "m")
    assert isinstance(loaded, cc.Blend)
    assert repr(loaded) == repr(fitted)
    assert np.array_equal(loaded.predict(data[0]).score, fitted.predict(data[0]).score)
    again = loaded.fit(*data)
    assert np.array_equal(again.member_weights_, fitted.member_weights_)


def _swap(header: dict[str, Any]) -> None:
    header["state"]["members_"].reverse()


def _drop(header: dict[str, Any]) -> None:
    header["state"]["members_"].pop()


def _rename(header: dict[str, Any]) -> None:
    header["state"]["member_names_"][0] = "borda"


def _unfit(header: dict[str, Any]) -> None:
    inner = header["state"]["members_"][2]["__method__"]
    inner["fit_info"], inner["state"] = None, {}


def _plain_member(header: dict[str, Any]) -> None:
    header["state"]["members_"][0] = 3


@pytest.mark.parametrize("change", [_swap, _drop, _rename, _unfit, _plain_member])
def test_a_file_whose_parts_do_not_go_together_is_refused(
    fitted: cc.Blend, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    fitted.save(tmp_path / "m")
    header, arrays = taken_apart((tmp_path / "m").read_bytes())
    change(header)
    (tmp_path / "m").write_bytes(put_together(header, arrays))
    with pytest.raises(FormatError):
        cc.load(tmp_path / "m")


@pytest.mark.parametrize("weights", [[0.5, 0.25, 0.1], [2.0, -1.0, 0.0], [np.nan, 0.5, 0.5], [0.5, 0.5]])
def test_weights_that_are_none_are_refused(fitted: cc.Blend, tmp_path: Path, weights: list[float]) -> None:
    kept, fitted.member_weights_ = fitted.member_weights_, np.array(weights)
    try:
        fitted.save(tmp_path / "m")
    finally:
        fitted.member_weights_ = kept
    with pytest.raises(FormatError):
        cc.load(tmp_path / "m")


def test_written_in_brackets_and_nested(data: tuple[cc.Preferences, cc.Labels]) -> None:
    method: Any = make_method("blend(listwise-linear(l2=0.1), blend(rrf, borda, weights=equal), cv=2)", {})
    assert [getattr(m, "name", m) for m in method.members] == ["listwise-linear", "blend"]
    assert method.members[1].weights == "equal"
    found = cc.cross_validate(method, *data, folds=2)
    assert found.mean["ndcg@10"] > 0.5
    search = cc.GridSearch(small(l2=1.0, cv=2), {"members": [["rrf", "borda"], ["rrf", linear()]]}, folds=2)
    assert search.fit(*data).best_params_["members"]


def test_without_labels_if_no_member_needs_them() -> None:
    lists = cc.from_lists({"x": ["a", "b", "c"], "y": ["c", "a", "b"]})
    model = cc.Blend(members=["rrf", "borda"], weights="equal")
    assert not model.needs_labels()
    assert model.fit_predict(lists).ranking()[0] == "a"
    assert small(weights="equal").needs_labels()
    assert cc.Blend(members=["rrf", "borda"]).needs_labels()
    assert cc.Blend(members=["rrf", "ulara"]).tags.per_instance == cc.ULARA.tags.per_instance
