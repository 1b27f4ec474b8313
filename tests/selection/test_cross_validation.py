"""Cross-validation equals a plain loop, shows no method what it is tested on, and does not depend on threads."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.selection.common import LABELS, Guess, P, QuietSpy, Seen, Spy, by_hand, given_folds, ids

import concordant as cc
from concordant.data.labels import Labels
from concordant.data.splits import Split, k_folds, train_validation_split
from concordant.errors import DataError, ParameterError
from concordant.execution import force_threads, n_threads, watch
from concordant.learning import checkpoints
from concordant.selection import CrossValidation, cross_validate

LEARNS = cc.CPS(adherence="supervised", unjudged="drop")


@pytest.mark.parametrize("method", [cc.RRF(k=7), LEARNS], ids=repr)
def test_it_is_a_plain_loop(method: cc.Aggregator) -> None:
    found = cross_validate(method, P, LABELS, metrics="ndcg@5,map", folds=4, random_state=2)
    splits = k_folds(P, 4, 2)
    for metric in ("ndcg@5", "map"):
        values = by_hand(method, splits, metric)
        assert found.fold_means[metric].tolist() == values
        assert found.mean[metric] == np.mean(values)
    one = cc.combine_folds([run.evaluation for run in found.runs])
    assert found.values["map"].tolist() == one.values["map"].tolist()
    assert found.instances == one.instances
    assert found.folds is not None
    assert one.folds is not None
    assert found.folds.tolist() == one.folds.tolist()
    assert (found.convention, found.rel) == ("trec", 1.0)
    assert "fit_info_" not in vars(method)


def test_a_method_may_be_named() -> None:
    assert cross_validate("rrf", P, LABELS).mean == cross_validate(cc.RRF(), P, LABELS).mean


def test_nothing_tested_is_ever_learned_from() -> None:
    log: list[Seen] = []
    spy = Spy(log=log)
    cross_validate(spy, P, LABELS, folds=4)
    splits = k_folds(P, 4, 0)
    wanted = {(ids(P[s.train]), ids(P[s.train])) for s in splits}
    assert {(seen.instances, seen.labelled) for seen in spy.fits} == wanted
    assert {seen.instances for seen in log if seen.call == "predict"} == {ids(P[s.test]) for s in splits}
    assert not any(seen.validation for seen in log)


def test_a_validation_part_is_cut_from_the_training_part() -> None:
    log: list[Seen] = []
    cross_validate(Spy(log=log), P, LABELS, folds=3, validation_part=0.25, random_state=4)
    fits = {seen.instances: seen for seen in log if seen.call == "fit"}
    assert len(fits) == 3
    for train, test in k_folds(P, 3, 4):
        inner = train_validation_split(P[train], 0.25, 4)
        kept, held = ids(P[train][inner.train]), ids(P[train][inner.test])
        seen = fits[kept]
        assert (seen.labelled, seen.validation, seen.validation_labelled) == (kept, held, held)
        assert not (kept | held) & ids(P[test])


def test_only_labelled_instances_are_held_out_for_validation() -> None:
    log: list[Seen] = []
    some = LABELS[:12]
    cross_validate(Spy(log=log), P, some, folds=2, validation_part=0.5)
    for seen in log:
        if seen.call == "fit":
            assert len(seen.validation) == 3
            assert seen.validation <= ids(some)
            assert seen.instances >= ids(P) - ids(some) - _tested(log, seen)


def _tested(log: list[Seen], fit: Seen) -> frozenset[str]:
    (other,) = (s.instances for s in log if s.call == "predict" and not s.instances & (fit.instances | fit.validation))
    return other


def test_given_folds_bring_training_validation_and_test_parts() -> None:
    log: list[Seen] = []
    folds = given_folds(4)
    found = cross_validate(Spy(log=log), folds=folds, metrics="ndcg@3")
    fits = {seen.instances: seen for seen in log if seen.call == "fit"}
    for fold in folds:
        seen = fits.pop(ids(fold.train.preferences))
        assert seen.labelled == ids(fold.train.preferences)
        assert seen.validation == seen.validation_labelled == ids(fold.vali.preferences)
    assert not fits
    assert found.convention == "letor"
    for fold, run in zip(folds, found.runs, strict=True):
        consensus = cc.RRF().fit_predict(fold.test.preferences)
        want = cc.evaluate(consensus, fold.test.labels, "ndcg@3", convention="letor")
        assert run.evaluation.values["ndcg@3"].tolist() == want.values["ndcg@3"].tolist()
    assert cross_validate(cc.RRF(), folds=folds, convention="paper").convention == "paper"


def test_a_method_without_supervision_gets_no_labels() -> None:
    log: list[Seen] = []
    cross_validate(QuietSpy(log=log), P, LABELS, folds=3, validation_part=0.3)
    cross_validate(QuietSpy(log=log), folds=given_folds())
    fits = [seen for seen in log if seen.call == "fit"]
    assert len(fits) == 6
    assert not any(seen.labelled or seen.validation for seen in fits)
    assert {len(seen.instances) for seen in fits} == {16, 8}


def test_a_supervised_form_of_an_unsupervised_method_gets_them() -> None:
    found = cross_validate(LEARNS, P, LABELS, folds=3)
    assert all("adherence_" in vars(run.method) for run in found.runs)
    assert found.mean["map"] > cross_validate(cc.CPS(), P, LABELS, folds=3).mean["map"] + 0.05


def test_every_instance_is_answered_by_a_model_that_never_saw_it() -> None:
    found = cross_validate(LEARNS, P, LABELS, folds=4)
    assert found.consensus.slots == P.slots
    for split in k_folds(P, 4, 0):
        alone = type(LEARNS)(**LEARNS.get_params()).fit(P[split.train], LABELS).predict(P[split.test])
        assert found.consensus[split.test] == alone


def test_instances_without_labels_are_predicted_and_not_evaluated() -> None:
    found = cross_validate(cc.RRF(), P, LABELS[:10], folds=2)
    assert len(found) == 10
    assert found.consensus.slots == P.slots
    assert len(found.notes) == 2
    assert "without labels are left out" in found.notes[0]


def test_labels_of_unknown_instances_are_left_out() -> None:
    more = cc.concat([LABELS, Labels(["elsewhere"], ["d"], [1])])
    assert cross_validate(cc.RRF(), P, more).mean == cross_validate(cc.RRF(), P, LABELS).mean


def test_instances_tested_twice_have_values_and_no_single_consensus() -> None:
    splits = [Split(np.arange(8, 24), np.arange(8)), Split(np.arange(12, 24), np.arange(4, 12))]
    found = cross_validate(cc.RRF(), P, LABELS, folds=splits)
    assert len(found) == 16
    with pytest.raises(DataError, match=r"4 instances are in several test folds, \['q5', 'q6', 'q7', 'q8'\]"):
        _ = found.consensus
    partly = cross_validate(cc.RRF(), P, LABELS, folds=splits[:1])
    assert partly.consensus == cc.RRF().fit_predict(P)[:8]


def test_seeds_are_averaged_instance_by_instance() -> None:
    found = cross_validate(Guess(random_state=5), P, LABELS, metrics="map", folds=3, seeds=4)
    alone = [cross_validate(Guess(random_state=s), P, LABELS, metrics="map", folds=3) for s in (5, 6, 7, 8)]
    assert found.seeds == (5, 6, 7, 8)
    np.testing.assert_allclose(found.values["map"], np.mean([a.values["map"] for a in alone], axis=0), rtol=1e-14)
    assert found.seed_means["map"].tolist() == [a.mean["map"] for a in alone]
    assert found.mean["map"] == pytest.approx(np.mean([a.mean["map"] for a in alone]), abs=1e-14)
    assert found.spread["map"] == pytest.approx(np.std([a.mean["map"] for a in alone], ddof=1))
    assert found.spread["map"] > 0
    assert [c == a.consensus for c, a in zip(found.consensuses, alone, strict=True)] == [True] * 4
    assert f"standard deviation of the means of 4 seeds: map {found.spread['map']:.4f}" in str(found)
    listed = cross_validate(Guess(), P, LABELS, metrics="map", folds=3, seeds=[8, 5])
    assert listed.seed_means["map"].tolist() == [alone[3].mean["map"], alone[0].mean["map"]]


def test_a_method_without_chance_is_fitted_once() -> None:
    log: list[Seen] = []
    found = cross_validate(Spy(log=log), P, LABELS, folds=3, seeds=5)
    assert len(found.runs) == 3
    assert found.seeds == (None,)
    assert found.spread == {}
    assert "seeds" not in str(found)


@pytest.mark.parametrize("seeds", [0, -1, True, 1.5, "3", [], [1, 1], [0, -1], [0.5], None])
def test_impossible_seeds_are_refused(seeds: Any) -> None:
    with pytest.raises(ParameterError, match="'seeds' parameter of cross_validate must be a whole number >= 1"):
        cross_validate(Guess(), P, LABELS, seeds=seeds)


def same(one: CrossValidation, other: CrossValidation) -> None:
    assert one.consensuses == other.consensuses
    assert one.instances == other.instances
    for metric in one.metrics:
        assert one.values[metric].tobytes() == other.values[metric].tobytes()


@pytest.mark.parametrize("method", [LEARNS, Guess()], ids=repr)
def test_threads_do_not_matter(method: cc.Aggregator) -> None:
    results = []
    for n in (1, 2, 7):
        with force_threads(n):
            results.append(cross_validate(method, P, LABELS, folds=4, seeds=2))
    same(results[0], results[1])
    same(results[0], results[2])
    assert [run.fold for run in results[2].runs][:4] == [0, 1, 2, 3]


def test_the_order_of_instances_does_not_matter() -> None:
    one = cross_validate(LEARNS, P, LABELS, folds=4)
    other = cross_validate(LEARNS, P[::-1], LABELS, folds=4)
    for metric in one.metrics:
        assert other.mean[metric] == pytest.approx(one.mean[metric], abs=1e-12)


class Threads(Guess):
    """Writes down how many threads a fit may use."""

    name = "threads"
    used: set[int] = set()  # noqa: RUF012 - written to by all copies

    def _fit(self, preferences: Any, labels: Any, validation: Any, features: Any) -> None:
        self.used.add(n_threads())


@pytest.mark.parametrize(("available", "share"), [(1, 1), (3, 1), (4, 1), (9, 3)])
def test_fits_share_the_threads(available: int, share: int) -> None:
    Threads.used.clear()
    with force_threads(available):
        cross_validate(Threads(), P, LABELS, folds=3)
    assert Threads.used == {share}


@pytest.mark.parametrize("n", [1, 3])
def test_progress_counts_fits_and_nothing_inside_them(n: int) -> None:
    told: list[tuple[int, int]] = []
    lock = threading.Lock()

    def report(done: int, total: int) -> None:
        with lock:
            told.append((done, total))

    with force_threads(n), watch(report):
        cross_validate(LEARNS, P, LABELS, folds=4)
    assert sorted(told) == [(1, 4), (2, 4), (3, 4), (4, 4)]


class Context(Guess):
    """Writes down whether a fit would take up somebody's checkpoint."""

    name = "context"
    places: list[Any] = []  # noqa: RUF012 - written to by all copies

    def _fit(self, preferences: Any, labels: Any, validation: Any, features: Any) -> None:
        self.places.append(checkpoints._checkpoint_options.get())


@pytest.mark.parametrize("n", [1, 2])
def test_fits_do_not_share_a_checkpoint(n: int, tmp_path: Path) -> None:
    Context.places.clear()
    with force_threads(n), checkpoints.checkpoint(tmp_path / "one"):
        cross_validate(Context(), P, LABELS, folds=3)
    assert Context.places == [None] * 3


def test_an_error_says_in_which_fold() -> None:
    with force_threads(1), pytest.raises(DataError, match="guess 0 knows nothing of 'q7'") as raised:
        cross_validate(
            Guess(fails="late"),
            P,
            LABELS,
            folds=[(np.arange(12), np.arange(12, 24)), (np.arange(12, 24), np.arange(12))],
            seeds=[3],
        )
    (note,) = raised.value.__notes__
    assert note == "in fold 2 of 2 with random_state=3, tested on instances ['q1', 'q2', 'q3', 'q4', 'q5'] ..."


def test_the_result_is_an_evaluation_to_compare_and_print() -> None:
    one = cross_validate(cc.RRF(), P, LABELS, folds=4)
    other = cross_validate(LEARNS, P, LABELS, folds=4)
    table = cc.compare({"rrf": one, "cps": other}, tests=["t", "fisher"])
    assert table.mean[1].tolist() == [other.mean[m] for m in other.metrics]
    assert table.difference[1, 1] > 0
    assert "mean of 4 folds, 24 instances; convention trec" in str(one)
    assert repr(one) == str(one)
    assert one.per_run.columns == ["seed", "fold", "ndcg@10", "map", "seconds", "chosen"]
    assert one.per_run["map"].to_list() == one.fold_means["map"].tolist()
    assert one.per_instance.columns == ["instance", "fold", "ndcg@10", "map"]
    assert [info.converged for info in other.fit_infos] == [True] * 4
    assert other.chosen == ({},) * 4


def test_comparisons_are_split_too() -> None:
    votes = P.comparisons()
    found = cross_validate(cc.Copeland(), votes, LABELS, folds=3)
    assert found.consensus == cc.Copeland().fit_predict(votes)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"metrics": "nonsense"}, "nonsense"),
        ({"convention": "mine"}, "'convention' parameter"),
        ({"rel": -1}, "'rel' parameter"),
        ({"random_state": -1}, "'random_state' parameter"),
        ({"validation_part": 2}, "'validation_part' parameter of cross_validate"),
    ],
)
def test_impossible_parameters_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        cross_validate(cc.RRF(), P, LABELS, **params)


def test_rel_reaches_the_metrics() -> None:
    strict = cross_validate(cc.RRF(), P, LABELS, metrics="map", rel=2)
    want = cc.evaluate(cc.RRF().fit_predict(P), LABELS, "map", rel=2)
    assert strict.rel == 2
    assert sorted(strict.values["map"]) == sorted(want.values["map"])


@pytest.mark.data
def test_letor_folds(data_dir: Path) -> None:
    folds = cc.read_letor_folds(data_dir / "MQ2008-agg")
    found = cross_validate(cc.RRF(), folds=folds, metrics="ndcg@5,map")
    by_fold = [
        cc.evaluate(cc.aggregate(f.test.preferences, "rrf"), f.test.labels, "ndcg@5,map", convention="letor")
        for f in folds
    ]
    assert found.mean == cc.combine_folds(by_fold).mean
    assert len(found.consensus) == sum(len(f.test.preferences) for f in folds)


def test_without_folds_a_method_is_evaluated_on_what_it_was_fitted_to() -> None:
    found = cross_validate(cc.RRF(k=7), P, LABELS, metrics="ndcg@5,map", folds=None)
    plain = cc.evaluate(cc.RRF(k=7).fit_predict(P), LABELS, "ndcg@5,map")
    assert found.folds is None
    assert found.instances == plain.instances
    for name, values in plain.values.items():
        assert found.values[name].tolist() == values.tolist()
    assert len(found.runs) == len(found.fit_infos) == 1
    with pytest.raises(ParameterError, match=r"CPS learns from labels and .* Pass folds=, such as folds=5"):
        cross_validate(LEARNS, P, LABELS, folds=None)
