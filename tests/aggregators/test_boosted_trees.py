"""BoostedTrees: the same scores and Shapley values as LightGBM, on preferences, features and both; saved and loaded."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.attack.models import put_together, taken_apart

import concordant as cc
from concordant.aggregators import _lightgbm, boosted_trees
from concordant.errors import (
    ConcordantWarning,
    DataError,
    DataWarning,
    FormatError,
    KindError,
    MissingExtraError,
    ParameterError,
)
from concordant.features.tree_features import CONSENSUS

pytest.importorskip("lightgbm", reason="boosted trees are grown by LightGBM, which is not installed")

# Few and small trees: the same kind of steps as the defaults.
SMALL: dict[str, Any] = {"trees": 12, "models": 2, "leaves": 4}


def small(**changes: Any) -> cc.BoostedTrees:
    return cc.BoostedTrees(**SMALL | changes)


@pytest.fixture(scope="module")
def data() -> tuple[cc.Preferences, cc.Labels]:
    return cc.synthetic.labelled_runs(16, n_items=(5, 12), random_state=1)


@pytest.fixture(scope="module")
def table(data: tuple[cc.Preferences, cc.Labels]) -> cc.Features:
    """Features of the same items, some of them unknown."""
    votes, labels = data
    rng = np.random.default_rng(0)
    X = rng.normal(size=(votes.n_slots, 4))
    X[:, 1] += np.nan_to_num(labels.align(votes).label)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:, 3] = rng.integers(0, 3, size=len(X))
    return cc.Features.from_codes(votes.slots, X)


class Watched(_lightgbm.GrowingTrees):
    """Keeps the boosters of a fit, and whose columns they see."""

    made: list[Watched] = []  # noqa: RUF012 - emptied by the fixture

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.made.append(self)


@pytest.fixture
def boosters(monkeypatch: pytest.MonkeyPatch) -> list[Watched]:
    Watched.made.clear()
    monkeypatch.setattr(boosted_trees, "GrowingTrees", Watched)
    return Watched.made


@pytest.mark.parametrize("objective", ["lambdarank", "xendcg"])
def test_scores_and_shapley_values_are_those_of_lightgbm(
    table: cc.Features, data: tuple[cc.Preferences, cc.Labels], objective: str, boosters: list[Watched]
) -> None:
    model = small(objective=objective, patience=100).fit(table, data[1])
    n = model.fit_info_.chosen["trees"]
    order = _canonical_columns(table, data[1])
    unseen = np.vstack([table.X, 3 * table.X[::-1], np.full((1, 4), np.nan), np.zeros((1, 4))])
    each = [b._booster.predict(unseen[:, order], raw_score=True, num_iteration=b.counts[n - 1]) for b in boosters]
    assert np.ptp(each[0]) > 0.1
    assert model.predict(unseen) == pytest.approx(np.mean(each, axis=0), abs=1e-12)
    values = model._shapley_values(unseen, np.arange(4), 4)
    theirs = [b._booster.predict(unseen[:, order], pred_contrib=True, num_iteration=b.counts[n - 1]) for b in boosters]
    want = np.mean(theirs, axis=0)
    assert values[:, order] == pytest.approx(want[:, :4], abs=1e-10)
    assert values[:, 4] == pytest.approx(want[:, 4], abs=1e-10)


def _canonical_columns(table: cc.Features, labels: cc.Labels) -> np.ndarray:
    from concordant.aggregators.listwise import with_gains
    from concordant.learning.supervision import match_labels
    from concordant.ranking._canonical_order import canonical_lists

    truth, _ = with_gains(match_labels(table, labels, "test"), table, "test")  # type: ignore[arg-type]
    return canonical_lists(table, truth, False).columns


def test_an_expert_who_is_right_is_found(data: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = cc.synthetic.labelled_runs(60, random_state=3)
    model = cc.BoostedTrees(trees=60, models=2, learning_rate=0.1).fit(votes[:45], labels)
    truth = labels[45:]
    learned, plain = (
        cc.evaluate(c, truth, "ndcg@10").mean["ndcg@10"]
        for c in (model.predict(votes[45:]), cc.RRF().fit_predict(votes[45:]))
    )
    assert learned > plain + 0.15


def test_order_of_rows_experts_and_columns_is_irrelevant(
    data: tuple[cc.Preferences, cc.Labels], table: cc.Features
) -> None:
    votes, labels = data
    want = small().fit(votes, labels, features=table).predict(votes, features=table)
    rows = votes.to_frame().sample(fraction=1, shuffle=True, seed=4)
    kind = {c: rows[c].to_list() for c in rows.columns}
    turned = cc.Preferences(kind["instance"], kind["expert"], kind["item"], kind[rows.columns[3]], kind=votes.kind)
    other = cc.Features.from_codes(table.slots, table.X[:, ::-1].copy(), type(table.names)(table.names.tolist()[::-1]))
    got = small().fit(turned, labels, features=other).predict(turned, features=other)
    assert not np.array_equal(turned.slots.items.tolist(), votes.slots.items.tolist())
    for instance in votes.instances:
        left, right = want[instance], got[instance]
        assert dict(zip(left.items, left.score, strict=True)) == dict(zip(right.items, right.score, strict=True))


def test_preferences_and_features_explain_their_scores(
    data: tuple[cc.Preferences, cc.Labels], table: cc.Features
) -> None:
    votes, labels = data
    model = small(trees=30).fit(votes, labels, features=table)
    names, parts, base = model._contributions(votes, table) or ([], None, None)
    assert names == [*sorted(votes.experts.tolist()), CONSENSUS, "1", "2", "3", "4"]
    score = model.predict(votes, features=table).score
    assert parts.sum(axis=1) + base == pytest.approx(score, abs=1e-12)
    shown = model.explain(votes, votes.instances[2], features=table)
    assert shown.contribution.sum(axis=1) + shown.base == pytest.approx(shown.score, abs=1e-12)


def test_arrays_are_taken(table: cc.Features, data: tuple[cc.Preferences, cc.Labels]) -> None:
    qid = [table.instances[int(n)] for n in table.slots.instance]
    label = np.nan_to_num(data[1].align(table).label)
    model = small().fit(table.X, label, qid=qid)
    assert np.array_equal(model.predict(table.X), small().fit(table, data[1]).predict(table).score)


def test_number_of_trees_is_the_best_on_the_validation_part(data: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = data
    held = (votes[10:], labels)
    model = small(trees=15, patience=100).fit(votes[:10], labels, validation=held)
    info = model.fit_info_
    assert len(info.trace) == 15
    assert info.chosen["trees"] == 1 + int(np.argmax(info.trace))
    assert np.diff(model.model_offsets_).tolist() == [info.chosen["trees"]] * 2
    found = cc.evaluate(model.predict(votes[10:]), labels[10:], "ndcg@10", convention="paper").mean["ndcg@10"]
    assert info.validation == pytest.approx(found, abs=1e-9)


def test_held_out_parts_are_not_learned_from(
    data: tuple[cc.Preferences, cc.Labels], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[set[int]] = []

    class Recorded(_lightgbm.GrowingTrees):
        def __init__(self, lists: Any, own: Any, *rest: Any) -> None:
            taken.append(set(range(len(lists.offsets) - 1)) - set(own.tolist()))
            super().__init__(lists, own, *rest)

    monkeypatch.setattr(boosted_trees, "GrowingTrees", Recorded)
    model = cc.BoostedTrees(trees=2, models=5).fit(*data)
    held = [n for part in taken for n in part]
    assert sorted(held) == list(range(model.fit_info_.labels["usable"]))


def test_patience_ends_a_fit(data: tuple[cc.Preferences, cc.Labels]) -> None:
    model = small(trees=500, patience=3).fit(*data)
    assert model.fit_info_.n_iter == model.fit_info_.chosen["trees"] + 3


def test_large_instances_are_cut_to_items_with_a_gain_the_best_and_a_sample() -> None:
    votes, labels = cc.synthetic.labelled_runs(6, n_items=(40, 60), largest_rank=60, random_state=2)
    truth = labels.align(votes)
    from concordant.learning.supervision import match_labels

    matched = match_labels(votes, truth, "test")
    rows = boosted_trees._rows_to_learn(votes, matched, 12)
    assert np.bincount(votes.slots.instance[rows]).tolist() == [12] * 6
    best = {i: cc.RRF().fit_predict(votes).ranking(i)[0] for i in votes.instances}
    kept = {(votes.instances[int(votes.slots.instance[r])], votes.slots.items[r]) for r in rows.tolist()}
    assert kept.issuperset(best.items())
    positive = np.bincount(votes.slots.instance[matched.label > 0])
    drawn = np.bincount(votes.slots.instance[rows[matched.label[rows] > 0]])
    assert (drawn >= np.minimum(positive, 6)).all()
    assert small(max_items=12).fit(votes, labels).fit_info_.labels["items"] == votes.n_slots


def test_few_instances_hold_nothing_out(data: tuple[cc.Preferences, cc.Labels]) -> None:
    with pytest.warns(DataWarning, match="too few to hold any out"):
        model = small(trees=4, min_items=1).fit(data[0][:3], data[1])
    assert model.fit_info_.validation is None
    assert model.fit_info_.n_iter == 4


def test_negative_and_fractional_labels_are_taken(data: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = data
    shifted = cc.Labels.from_codes(labels.slots, 0.37 * labels.label - 0.2)
    model = small().fit(votes, shifted)
    assert np.ptp(model.predict(votes).score) > 0


def test_linear_gains_and_unjudged_items(data: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = data
    few = labels.to_frame().filter(np.arange(labels.n_slots) % 3 > 0)
    judged = cc.Labels(few["instance"].to_list(), few["item"].to_list(), few["label"].to_list())
    counts = [small(gain="linear", unjudged=word).fit(votes, judged).cover_.max() for word in ("zero", "drop")]
    assert counts[0] > counts[1]


def test_comparisons_are_taken() -> None:
    votes = cc.synthetic.bradley_terry(12, 3000, n_experts=4, random_state=1).comparisons
    one = votes.instances[0]
    labels = cc.Labels([one] * 12, votes.slots.items.tolist(), np.arange(12) % 3)
    with pytest.warns(DataWarning, match="too few"):
        model = small(min_items=1).fit(votes, labels)
    assert len(model.predict(votes)) == 1


def test_without_lightgbm_the_error_names_the_extra(
    data: tuple[cc.Preferences, cc.Labels], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small().fit(*data)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'concordant\[boost\]'"):
        small().fit(*data)
    assert len(model.predict(data[0])) == len(data[0])


def test_a_checkpoint_is_refused_by_a_warning(data: tuple[cc.Preferences, cc.Labels], tmp_path: Path) -> None:
    with cc.checkpoint(tmp_path / "c"), pytest.warns(ConcordantWarning, match="writes no checkpoint: LightGBM"):
        small(trees=2).fit(*data)
    assert not (tmp_path / "c").exists()


def test_interrupted_fit_keeps_its_trees(
    data: tuple[cc.Preferences, cc.Labels], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(_lightgbm.GrowingTrees):
        def grow(self) -> None:
            if len(self.counts) == 5:
                raise KeyboardInterrupt
            super().grow()

    monkeypatch.setattr(boosted_trees, "GrowingTrees", Interrupted)
    model = small()
    with pytest.warns(ConcordantWarning, match="interrupted after tree 5 of 12"), pytest.raises(KeyboardInterrupt):
        model.fit(*data)
    assert model.fit_info_.interrupted == "after tree 5 of 12"
    assert len(model.predict(data[0])) == len(data[0])


def test_growing_in_another_thread_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    # With leaves this large no split is allowed, of which LightGBM warns.
    features = np.zeros((20, 2))
    level = np.arange(20) % 2
    lists = _lightgbm.TrainingLists(features, level, np.array([0.0, 1.0]), np.array([0, 10, 20]))
    settings = _lightgbm.GrowthSettings("lambdarank", 7, 0.1, 15, 1.0, 1.0, 1.0)
    growing = [_lightgbm.GrowingTrees(lists, np.arange(2), features, settings, seed) for seed in range(2)]
    with ThreadPoolExecutor(2) as pool:
        for model in growing:
            pool.submit(model.grow).result()
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_ensembles_grow_side_by_side() -> None:
    # A number of threads that leaks from one ensemble into another ended the process here.
    rng = np.random.default_rng(5)
    lists = _lightgbm.TrainingLists(
        rng.normal(size=(6000, 40)), rng.integers(0, 3, 6000), np.array([0.0, 1.0, 3.0]), np.arange(0, 6001, 30)
    )
    settings = _lightgbm.GrowthSettings("lambdarank", 15, 0.05, 20, 1.0, 0.5, 0.7)

    def grow(seed: int) -> np.ndarray:
        trees = _lightgbm.GrowingTrees(lists, np.arange(150), lists.X[4500:], settings, seed)
        for _ in range(15):
            trees.grow()
        return trees.scores

    alone = [grow(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for seed, together in enumerate(pool.map(grow, list(range(4)) * 3)):
            np.testing.assert_array_equal(together, alone[seed % 4])


@pytest.mark.parametrize(
    ("params", "message"),
    [({"leaves": 1}, "leaves"), ({"max_items": 20_000}, "max_items"), ({"objective": "ndcg"}, "objective")],
)
def test_parameters_are_checked(data: tuple[cc.Preferences, cc.Labels], params: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        small(**params).fit(*data)


def test_data_that_tell_nothing_are_refused(
    data: tuple[cc.Preferences, cc.Labels], table: cc.Features, tmp_path: Path
) -> None:
    flat = cc.Features.from_codes(table.slots, np.full_like(table.X, np.nan))
    with pytest.raises(DataError, match="tell two items apart"):
        small().fit(flat, data[1])
    votes = cc.from_lists({CONSENSUS: ["a", "b"], "x": ["b", "a"]})
    labels = cc.Labels([votes.instances[0]] * 2, ["a", "b"], [1, 0])
    with pytest.raises(DataError, match="which is the name of the statistics"):
        small().fit(votes, labels)
    with pytest.raises(KindError, match="not blocks"):
        small().fit(cc.scan(_run(data[0], tmp_path)), data[1])


def _run(votes: cc.Preferences, folder: Path) -> str:
    path = folder / "x.csv"
    cc.write(votes, path)
    return str(path)


@pytest.mark.parametrize(
    ("name", "at", "value", "message"),
    [
        ("left_", 0, 10**6, "behind its parent"),
        ("right_", 0, 0, "behind its parent"),
        ("split_feature_", 0, 10**6, "does not exist"),
        ("leaf_value_", -1, 1e300, "out of range"),
        ("cover_", 0, 1e9, "children are not those"),
        ("unknown_", 0, 5, "out of range"),
        ("tree_offsets_", 1, 0, "without nodes"),
    ],
)
def test_manipulated_trees_are_refused(
    data: tuple[cc.Preferences, cc.Labels], tmp_path: Path, name: str, at: int, value: float, message: str
) -> None:
    path = tmp_path / "model"
    small().fit(*data).save(path)
    header, arrays = taken_apart(path.read_bytes())
    header.pop("checksum")
    dtype, shape, raw = arrays[name]
    values = np.frombuffer(raw, {"F64": np.float64, "I64": np.int64, "I8": np.int8}[dtype]).copy()
    values[at] = value
    arrays[name] = (dtype, shape, values.tobytes())
    with pytest.raises(FormatError, match=message):
        cc.load(put_together(header, arrays))


def test_importance_is_a_share_of_the_gain(data: tuple[cc.Preferences, cc.Labels]) -> None:
    model = small().fit(*data)
    assert model.importance_.sum() == pytest.approx(1)
    assert model.importance_.shape == (len(model.feature_names_),)
