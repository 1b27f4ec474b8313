"""The loop keeps the best pass of the best learner, however often it is broken off and taken up again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.base.contract import FitInfo
from concordant.errors import ConcordantWarning, DataError, FormatError
from concordant.learning.supervision import match_labels
from concordant.learning.training import TrainingResult, checkpoint, train

ITEMS = 5


def data(n: int, first: int = 0) -> tuple[cc.Preferences, cc.Labels]:
    names = [(f"q{q}", f"d{i}") for q in range(first, first + n) for i in range(ITEMS)]
    p = cc.Preferences(*zip(*[(q, "x", i, 1 + int(i[1])) for q, i in names], strict=True))
    labels = cc.Labels(*zip(*[(q, i, float(int(i[1]) == 2)) for q, i in names], strict=True))
    return p, labels


class Climber:
    """Scores item 2 by how near its parameter is to a target, so that the best pass is known beforehand."""

    def __init__(self, target: float, step: float = 1.0, seen: list[Any] | None = None) -> None:
        self.chosen = {"target": target}
        self.target, self.step, self.seen = target, step, [] if seen is None else seen
        self.interrupt_at: int | None = None

    def start(self) -> np.ndarray:
        return np.zeros(2)

    def advance(self, parameters: np.ndarray, instances: np.ndarray, number: int) -> np.ndarray:
        if number == self.interrupt_at:
            raise KeyboardInterrupt
        self.seen.append((number, tuple(instances.tolist())))
        return parameters + np.array([self.step, len(instances)])

    def scores(self, parameters: np.ndarray, part: str, instances: np.ndarray | None) -> np.ndarray:
        n = 4 if part == "validation" else 10
        # Item 2 stands first at the target, second elsewhere.
        out = np.tile([4.0, 3.0, 0.0, 2.0, 1.0], n)
        out[2::ITEMS] = 4.5 - min(abs(parameters[0] - self.target), 1)
        return out


def run(learners: list[Any], *, passes: int = 8, validation: bool = True, owner: Any = None, **how: Any):
    owner = cc.CPS() if owner is None else owner
    owner.fit_info_ = FitInfo()
    votes, labels = data(10)
    truth = match_labels(votes, labels, "CPS")
    pair = data(4, first=100) if validation else None
    found = train(
        owner, learners, votes=votes, labels=labels, truth=truth, validation=pair, passes=passes, select="rr", **how
    )
    return found, owner


@pytest.mark.parametrize("validation", [True, False])
def test_the_best_pass_of_the_best_learner_is_kept(validation: bool) -> None:
    # The second one passes by its target exactly in pass 3; the first never comes near.
    found, owner = run([Climber(20.0), Climber(3.0)], validation=validation)
    assert isinstance(found, TrainingResult)
    assert (found.learner, found.passes, found.value) == (1, 3, 1.0)
    assert found.parameters.tolist() == [3.0, 30.0]  # the model kept has seen all ten instances in each pass
    info = owner.fit_info_
    assert info.trace == [0.5, 0.5, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5]
    assert info.chosen == {"target": 3.0, "passes": 3}
    assert info.n_iter == 8
    assert info.labels["usable"] == 10


def test_a_fold_is_judged_by_a_model_that_has_not_seen_it() -> None:
    climber = Climber(3.0)
    run([climber], passes=1, validation=False, cv=5)
    parts = sorted(instances for _, instances in climber.seen)
    assert len(parts) == 6
    assert tuple(range(10)) in parts
    held = [set(range(10)) - set(p) for p in parts if len(p) < 10]
    assert all(len(h) == 2 for h in held)
    assert set().union(*held) == set(range(10))


def test_patience_ends_a_learner() -> None:
    climber = Climber(2.0)
    found, owner = run([climber], passes=100, patience=3)
    assert found.passes == 2
    assert owner.fit_info_.n_iter == 5


def test_a_lucky_pass_is_not_the_best() -> None:
    class Restless(Climber):
        def scores(self, parameters: np.ndarray, part: str, instances: np.ndarray | None) -> np.ndarray:
            out = super().scores(parameters, part, instances)
            # Pass 2 shines alone; passes 5 to 7 do so together.
            out[2::ITEMS] = 4.5 if parameters[0] in (2, 5, 6, 7) else 3.5
            return out

    assert run([Restless(0.0)])[0][2:] == (2, 1.0)
    found, owner = run([Restless(0.0)], smooth=3)
    assert found[2:] == (7, 1.0)
    assert owner.fit_info_.trace == [0.5, 1.0, 0.5, 0.5, 1.0, 1.0, 1.0, 0.5]


def test_too_few_instances_choose_nothing() -> None:
    votes, labels = data(2)
    owner = cc.CPS()
    owner.fit_info_ = FitInfo()
    truth = match_labels(votes, labels, "CPS")
    with pytest.warns(ConcordantWarning, match="learns from 2 instances, too few"):
        found = train(owner, [Climber(3.0)], votes=votes, labels=labels, truth=truth, validation=None, passes=6)
    assert (found.passes, found.value) == (6, None)


def test_validation_without_labels_is_refused() -> None:
    votes, labels = data(10)
    owner = cc.CPS()
    owner.fit_info_ = FitInfo()
    truth = match_labels(votes, labels, "CPS")
    with pytest.raises(DataError, match="none of its 4 instances has a label"):
        train(
            owner, [Climber(3.0)], votes=votes, labels=labels, truth=truth,
            validation=(data(4, first=100)[0], labels), passes=6,
        )  # fmt: skip


class Exploding(Climber):
    def advance(self, parameters: np.ndarray, instances: np.ndarray, number: int) -> np.ndarray:
        out = super().advance(parameters, instances, number)
        return out * (np.inf if number == 4 else 1.0)


def test_divergence_is_said_and_the_best_pass_kept() -> None:
    with pytest.warns(ConcordantWarning, match="diverged in pass 5 with target=9.0.*pass before, 1,"):
        found, owner = run([Exploding(9.0)])
    assert found.passes == 1
    assert np.isfinite(found.parameters).all()
    assert not owner.fit_info_.converged


def test_an_interrupt_keeps_the_best_and_is_raised_again() -> None:
    class Method(cc.CPS):
        def _fit(self, preferences, labels, validation, features):  # type: ignore[no-untyped-def]
            truth = match_labels(preferences, labels, "CPS")
            climber = Climber(3.0)
            climber.interrupt_at = 5
            found = train(
                self, [climber], votes=preferences, labels=labels, truth=truth, validation=validation, passes=9,
                select="rr",
            )  # fmt: skip
            self.kept_ = found.parameters

    method = Method()
    said = pytest.warns(ConcordantWarning, match="interrupted after pass 5 of 9: the best pass so far, 3, rr 1.0000")
    with said, pytest.raises(KeyboardInterrupt):
        method.fit(*data(10), validation=data(4, first=100))
    assert method.kept_.tolist() == [3.0, 30.0]
    assert method.fit_info_.interrupted == "after pass 5 of 9"
    assert "_interrupt" not in method.__dict__


@pytest.mark.parametrize("stop", [1, 4, 7])
@pytest.mark.parametrize("validation", [True, False])
def test_a_resumed_training_ends_where_an_unbroken_one_does(tmp_path: Path, validation: bool, stop: int) -> None:
    whole, owner = run([Climber(20.0), Climber(3.0)], validation=validation)
    file = tmp_path / "fit.checkpoint"
    broken = [Climber(20.0), Climber(3.0)]
    broken[1].interrupt_at = stop
    with checkpoint(file), pytest.warns(ConcordantWarning, match="interrupted"):
        run(broken, validation=validation)
    again = [Climber(20.0), Climber(3.0)]
    with checkpoint(file):
        found, resumed = run(again, validation=validation)
    assert min(number for number, _ in again[0].seen) == stop
    assert found.parameters.tolist() == whole.parameters.tolist()
    assert found[2:] == whole[2:]
    assert resumed.fit_info_.trace == owner.fit_info_.trace


def test_the_checkpoint_of_another_fit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "fit.checkpoint"
    with checkpoint(file):
        run([Climber(3.0)])
    with checkpoint(file), pytest.raises(FormatError, match="of another fit"):
        run([Climber(3.0)], owner=cc.CPS(tol=1e-3))
    with checkpoint(file, resume=False):
        run([Climber(3.0)], owner=cc.CPS(tol=1e-3))
    with pytest.raises(FormatError):
        cc.load(file)


def test_the_checkpoint_of_another_validation_part_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "fit.checkpoint"
    votes, labels = data(10)
    truth = match_labels(votes, labels, "CPS")

    def fit(pair: tuple[cc.Preferences, cc.Labels]) -> None:
        owner = cc.CPS()
        owner.fit_info_ = FitInfo()
        with checkpoint(file):
            train(
                owner, [Climber(3.0)], votes=votes, labels=labels, truth=truth, validation=pair, passes=2, select="rr"
            )  # fmt: skip

    mine, known = data(4, first=100)
    fit((mine, known))
    fit((mine, known))
    other = cc.Labels.from_codes(known.slots, np.roll(known.label, 1))
    for pair in ((mine, other), data(4, first=200)):
        with pytest.raises(FormatError, match=r"of another fit.*or remove it to start afresh"):
            fit(pair)


def test_the_checkpoint_of_other_voices_is_refused(tmp_path: Path) -> None:
    # The same outcomes, said by others.
    rows = [(f"q{n}", e, "a", "b", w, 1 - w, 0) for n in range(6) for e, w in (("x", 1), ("y", 0))]
    instance, expert, *rest = zip(*rows, strict=True)
    labels = cc.Labels([f"q{n}" for n in range(6)], ["a"] * 6, [1] * 6)
    swapped = ["y" if e == "x" else "x" for e in expert]
    with checkpoint(tmp_path / "mark"):
        cc.CRF(passes=2).fit(cc.Comparisons(instance, expert, *rest, experts=["x", "y"]), labels)
        with pytest.raises(FormatError, match="of another fit"):
            cc.CRF(passes=2).fit(cc.Comparisons(instance, swapped, *rest, experts=["x", "y"]), labels)


def test_a_training_that_patience_ends_is_noted_as_finished(tmp_path: Path) -> None:
    file = tmp_path / "fit.checkpoint"
    with checkpoint(file):
        found, _ = run([Climber(2.0)], passes=100, patience=3)
    again = Climber(2.0)
    with checkpoint(file):
        resumed, owner = run([again], passes=100, patience=3)
    assert not again.seen
    assert (resumed.passes, owner.fit_info_.n_iter) == (found.passes, 5) == (2, 5)


def test_a_metric_that_sees_nothing_is_refused_where_there_is_a_choice() -> None:
    votes, labels = data(10)
    alike = cc.Labels.from_codes(labels.slots, np.full(labels.n_slots, 1.0))
    truth = match_labels(votes, labels, "CPS")
    pair = data(4, first=100)

    def fit(passes: int, labels: cc.Labels, validation: Any) -> TrainingResult:
        owner = cc.CPS()
        owner.fit_info_ = FitInfo()
        return train(
            owner, [Climber(3.0)], votes=votes, labels=labels, truth=truth, validation=validation, passes=passes,
            select="rr",
        )  # fmt: skip

    with pytest.raises(DataError, match=r"cannot choose by rr: it is the same for every order.*10 usable"):
        fit(2, alike, None)
    nothing = (pair[0], cc.Labels.from_codes(pair[1].slots, np.zeros(pair[1].n_slots)))
    with pytest.raises(DataError, match="cannot choose by the validation part: rr is the same"):
        fit(2, labels, nothing)
    assert fit(1, labels, nothing).passes == 1


def test_advice_about_a_learning_rate_goes_to_those_who_have_one() -> None:
    class Lost(Climber):
        def advance(self, parameters: np.ndarray, instances: np.ndarray, number: int) -> np.ndarray:
            return super().advance(parameters, instances, number) * np.inf

    with pytest.raises(DataError, match="diverged in its first pass") as without:
        run([Lost(3.0)])
    with pytest.raises(DataError, match="diverged in its first pass") as with_one:
        run([Lost(3.0)], owner=cc.SVDRank())
    assert "learning_rate" not in str(without.value)
    assert "Choose a smaller learning_rate." in str(with_one.value)
