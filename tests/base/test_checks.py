"""A check that cannot fail is no check: methods with a planted fault must be caught, and sound ones let through."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from concordant.base import registry
from concordant.base.checks import CHECKS, check_method, checks_for, examples
from concordant.base.contract import Aggregator, Tags
from concordant.base.params import number
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.preferences import Preferences
from concordant.errors import ConcordantError, ContractError, DataError, NotFittedError, ParameterError
from concordant.execution.blocks import Blocks, shards_of
from concordant.learning.supervision import match_labels, validation_pair

ALL = frozenset({"rank", "score", "rating"})


class Sound(Aggregator):
    """Mean of 1 / position, a method without faults."""

    name = "toy-sound"
    tags = Tags(accepts=ALL)
    constraints: ClassVar[Any] = {"k": number(above=0)}

    def __init__(self, *, k: float = 1.0) -> None:
        self.k = k

    def terms(self, p: Preferences) -> np.ndarray:
        return np.rint(2.0**44 / (self.k + p.positions("average"))) / 2.0**44

    def weights(self, p: Preferences) -> np.ndarray:
        return np.repeat(p.weights, p.list_lengths)

    def _scores(self, p: Preferences) -> np.ndarray:
        return np.bincount(p.slot, self.terms(p) * self.weights(p), minlength=p.n_slots)


class SumsWinCounts(Aggregator):
    """Net wins; a sound method on comparisons."""

    name = "toy-comparisons"
    tags = Tags(accepts=frozenset({"comparisons"}), counts=True)

    def __init__(self) -> None:
        pass

    def _scores(self, c: Comparisons) -> np.ndarray:
        net = c.n_left - c.n_right
        return np.bincount(c.left, net, c.n_slots) - np.bincount(c.right, net, c.n_slots)


class LearnsExperts(Sound):
    """Weighs experts by how well they agree with the labels; a sound supervised method."""

    name = "toy-supervised"
    tags = Tags(accepts=ALL, supervised=True, faithful=False)

    def _fit(self, p: Any, labels: Any, validation: Any, features: Any) -> None:
        truth = match_labels(p, labels, "LearnsExperts")
        validation_pair(validation, "LearnsExperts")
        self.fit_info_.labels = truth.counts
        label = np.nan_to_num(truth.label)
        gain = np.bincount(p.row_expert, self.terms(p) * label[p.slot] * self.weights(p), p.n_experts)
        self.experts_ = p.experts.tolist()
        self.gain_ = 1.0 + np.rint(gain * 1024) / 1024

    def gained(self, p: Preferences) -> np.ndarray:
        if not hasattr(self, "gain_"):
            raise NotFittedError.of(type(self).__name__)
        known = dict(zip(self.experts_, self.gain_.tolist(), strict=True))
        gain = np.array([known[e] for e in p.experts])[p.row_expert]
        return self.terms(p) * gain * self.weights(p)

    def _scores(self, p: Preferences) -> np.ndarray:
        return np.bincount(p.slot, self.gained(p), minlength=p.n_slots)

    def _contributions(self, p: Preferences) -> tuple[list[str], np.ndarray, np.ndarray]:
        table = np.zeros((p.n_slots, p.n_experts))
        table[p.slot, p.row_expert] = self.gained(p)
        return p.experts.tolist(), table, np.zeros(p.n_slots)


class Shakes(Sound):
    """Adds seeded noise per instance; a sound stochastic method."""

    name = "toy-stochastic"
    tags = Tags(accepts=ALL, stochastic=True, faithful=False)
    constraints: ClassVar[Any] = {"random_state": number(least=0)}

    def __init__(self, *, random_state: int = 0) -> None:
        self.random_state = random_state
        self.__dict__.pop("k", None)

    def terms(self, p: Preferences) -> np.ndarray:
        return 1.0 / p.positions("average")

    def _scores(self, p: Preferences) -> np.ndarray:
        score = super()._scores(p)
        for n, q in enumerate(p.instances):
            mine = slice(int(p.slots.offsets[n]), int(p.slots.offsets[n + 1]))
            stream = np.random.default_rng([self.random_state, *q.encode()])
            # Nothing is added where nobody says anything.
            score[mine] *= 1 + 1e-4 * stream.random(mine.stop - mine.start)
        return score


class Bounded(Sound):
    """A sound method with intervals."""

    name = "toy-uncertain"
    tags = Tags(accepts=ALL, uncertainty=True)

    def _consensus(self, p: Any) -> Consensus:
        s = self._scores(p)
        return Consensus.from_codes(p.slots, s, lower=s - 1.0, upper=s + 1.0, level=0.95)


class RefusesTies(Sound):
    """A sound method that cannot use ties."""

    name = "toy-strict"
    tags = Tags(accepts=frozenset({"rank", "score"}), ties=False)

    def _scores(self, p: Preferences) -> np.ndarray:
        if not np.array_equal(p.positions("min"), p.positions("max")):
            raise DataError("toy-strict takes no ties.")
        return super()._scores(p)


class ScalesByTheInstances(Sound):
    """A sound method that learns from blocks, and learns nothing that shows in the order."""

    name = "toy-blocks"
    tags = Tags(accepts=ALL, blocks=True)

    def _fit(self, p: Any, labels: Any, validation: Any, features: Any) -> None:
        self.spoken_ = sum(shards_of(p).map(n_spoken))

    def _scores(self, p: Preferences) -> np.ndarray:
        if not hasattr(self, "spoken_"):
            raise NotFittedError.of(type(self).__name__)
        return super()._scores(p) * 2.0**self.spoken_


def n_spoken(p: Preferences) -> int:
    """Return in how many instances something is said."""
    return len(np.unique(p.list_instance[(p.weights > 0) & (p.list_lengths > 0)]))


SOUND = [Sound, SumsWinCounts, LearnsExperts, Shakes, Bounded, RefusesTies, ScalesByTheInstances]


class LearnsFromTheLastBlock(ScalesByTheInstances):
    def _fit(self, p: Any, labels: Any, validation: Any, features: Any) -> None:
        *_, self.spoken_ = shards_of(p).map(n_spoken)


class TurnsTheBlocksRound(Sound):
    def predict(self, preferences: Any) -> Consensus:
        if isinstance(preferences, Blocks):
            return Consensus.concat([super(TurnsTheBlocksRound, self).predict(b) for b in preferences[::-1]])
        return super().predict(preferences)


class CountsOutcomesOnce(SumsWinCounts):
    def _scores(self, c: Comparisons) -> np.ndarray:
        net = np.sign(c.n_left - c.n_right)
        return np.bincount(c.left, net, c.n_slots) - np.bincount(c.right, net, c.n_slots)


class MutatesInput(Sound):
    def _scores(self, p: Preferences) -> np.ndarray:
        p.value.flags.writeable = True
        p.value[0] += 1
        return super()._scores(p)


class LeavesInputOpen(Sound):
    def _scores(self, p: Preferences) -> np.ndarray:
        p.value.flags.writeable = True
        return super()._scores(p)


class TrustsTheFirstExpert(Sound):
    def weights(self, p: Preferences) -> np.ndarray:
        return super().weights(p) / (1.0 + p.row_expert)


class TrustsNames(Sound):
    def weights(self, p: Preferences) -> np.ndarray:
        boost = np.array([2.0 if e.startswith("e1") else 1.0 for e in p.experts])
        return super().weights(p) * boost[p.row_expert]


class PrefersLateLetters(Sound):
    def _scores(self, p: Preferences) -> np.ndarray:
        return super()._scores(p) + np.array([1e-6 * ord(i[0]) for i in p.items])


class PrefersEarlyRows(Sound):
    def _scores(self, p: Preferences) -> np.ndarray:
        return super()._scores(p) - 1e-6 * (np.arange(p.n_slots) - p.slots.offsets[p.slots.instance])


class IgnoresWeights(Sound):
    def weights(self, p: Preferences) -> np.ndarray:
        return np.ones(p.n_rows)


class SquaresWeights(Sound):
    def _checked(self, p: Any) -> Any:
        return p

    def weights(self, p: Preferences) -> np.ndarray:
        return super().weights(p) ** 2


class CountsAbsentExperts(Sound):
    def _scores(self, p: Preferences) -> np.ndarray:
        return super()._scores(p) / max(p.n_experts, 1)


class BreaksTies(Sound):
    def terms(self, p: Preferences) -> np.ndarray:
        return 1.0 / (self.k + p.positions("ordinal"))


class Reverses(Sound):
    def _scores(self, p: Preferences) -> np.ndarray:
        return -super()._scores(p)


class Remembers(Sound):
    def _fit(self, p: Any, labels: Any, validation: Any, features: Any) -> None:
        self._seen = getattr(self, "_seen", 0) + p.n_slots

    def _scores(self, p: Preferences) -> np.ndarray:
        return super()._scores(p) * getattr(self, "_seen", p.n_slots)


class LearnsWhilePredicting(Sound):
    def _scores(self, p: Preferences) -> np.ndarray:
        self.calls_ = getattr(self, "calls_", 0) + 1
        return super()._scores(p) * self.calls_


class LooksAtTheNeighbours(Sound):
    def _scores(self, p: Preferences) -> np.ndarray:
        score = super()._scores(p)
        return score / score.max(initial=1e-300)


class RunningSum(Sound):
    """The last bits depend on what came before."""

    def _scores(self, p: Preferences) -> np.ndarray:
        total = np.cumsum(np.append(0.0, super()._scores(p) + 1 / 3))
        return np.diff(total)


class PeeksAtLabels(Sound):
    def _fit(self, p: Any, labels: Any, validation: Any, features: Any) -> None:
        self.shift_ = 1.0 if labels is None else 1.0 + float(np.nansum(labels.align(p).label))

    def _scores(self, p: Preferences) -> np.ndarray:
        return super()._scores(p) * getattr(self, "shift_", 1.0)


class WorksInInit(Sound):
    def __init__(self, *, k: float = 1.0) -> None:
        self.k = float(k) if isinstance(k, (int, float)) else k
        self.twice = 2


class Positional(Sound):
    def __init__(self, k: float = 1.0) -> None:
        self.k = k


class AcceptsNonsense(Sound):
    constraints: ClassVar[Any] = {}

    def terms(self, p: Preferences) -> np.ndarray:
        return 1.0 / p.positions("average")


class UsesGlobalChance(Sound):
    def _scores(self, p: Preferences) -> np.ndarray:
        random.random()
        return super()._scores(p)


class ForgetsFitInfo(Sound):
    def fit(self, preferences: Any, labels: Any = None, *, validation: Any = None, features: Any = None) -> Any:
        self._checked(preferences)
        return self


class TakesAnything(Sound):
    def _checked(self, preferences: Any) -> Any:
        return preferences


class CannotBePickled(Sound):
    def _fit(self, p: Any, labels: Any, validation: Any, features: Any) -> None:
        self.helper_ = lambda x: x


class RanksAgainstScores(Sound):
    def _consensus(self, p: Any) -> Consensus:
        s = self._scores(p)
        rank = Consensus.from_codes(p.slots, s).rank
        return Consensus.from_codes(p.slots, s, np.ascontiguousarray(rank[::-1]))


class StumblesOverSilence(Sound):
    def _scores(self, p: Preferences) -> np.ndarray:
        score = super()._scores(p)
        ranked = np.bincount(p.slot, minlength=p.n_slots) > 0
        if not all(ranked[a:b].any() for a, b in zip(p.slots.offsets[:-1], p.slots.offsets[1:], strict=True)):
            raise ValueError("zero-size array to reduction operation maximum which has no identity")
        return score


class OpenIntervals(Bounded):
    def _consensus(self, p: Any) -> Consensus:
        s = self._scores(p)
        return Consensus.from_codes(p.slots, s, lower=s + 0.5, upper=s + 1.0, level=0.95)


class WrongRankIntervals(Bounded):
    def _consensus(self, p: Any) -> Consensus:
        c = super()._consensus(p)
        high = c.rank + 1.0
        return Consensus.from_codes(
            p.slots, c.score, lower=c.lower, upper=c.upper, level=0.95, rank_lower=c.rank * 1.0, rank_upper=high
        )


class UnseededChance(Shakes):
    def _scores(self, p: Preferences) -> np.ndarray:
        return Sound._scores(self, p) * (1 + 1e-4 * np.random.default_rng().random(p.n_slots))


class SeededByPosition(Shakes):
    def _scores(self, p: Preferences) -> np.ndarray:
        return Sound._scores(self, p) * (1 + 1e-4 * np.random.default_rng(self.random_state).random(p.n_slots))


class BreaksTiesInSilence(RefusesTies):
    def _scores(self, p: Preferences) -> np.ndarray:
        return Sound._scores(self, p)


class ReadsOtherLabels(LearnsExperts):
    def _fit(self, p: Any, labels: Any, validation: Any, features: Any) -> None:
        super()._fit(p, labels, validation, features)
        self.gain_ = self.gain_ * (1.0 + labels.label.sum())


class TakesLabelsAsTheyCome(LearnsExperts):
    def _fit(self, p: Any, labels: Any, validation: Any, features: Any) -> None:
        super()._fit(p, labels, validation, features)
        self.gain_ = self.gain_ * (1.0 + labels.label[0])


class TakesAnyValidation(LearnsExperts):
    def _fit(self, p: Any, labels: Any, validation: Any, features: Any) -> None:
        super()._fit(p, labels, None, features)


class CountsNoLabels(LearnsExperts):
    def _fit(self, p: Any, labels: Any, validation: Any, features: Any) -> None:
        super()._fit(p, labels, validation, features)
        self.fit_info_.labels = {}


class ExplainsHalf(LearnsExperts):
    def _contributions(self, p: Preferences) -> tuple[list[str], np.ndarray, np.ndarray]:
        experts, table, base = super()._contributions(p)
        return experts, table / 2, base


FAULTS = [
    (MutatesInput, "input_is_unchanged"),
    (LeavesInputOpen, "input_is_unchanged"),
    (TrustsTheFirstExpert, "order_of_experts_is_irrelevant"),
    (TrustsNames, "names_of_experts_are_irrelevant"),
    (PrefersLateLetters, "names_of_items_are_irrelevant"),
    (PrefersEarlyRows, "order_of_rows_is_irrelevant"),
    (PrefersEarlyRows, "swapped_items_tie"),
    (PrefersEarlyRows, "instance_without_rows_is_one_tie"),
    (IgnoresWeights, "weight_two_is_twice"),
    (IgnoresWeights, "weight_zero_is_absent"),
    (SquaresWeights, "extreme_weights_are_scaled_or_refused"),
    (CountsAbsentExperts, "silent_expert_changes_nothing"),
    (BreaksTies, "equal_items_tie"),
    (BreaksTies, "one_expert_gets_its_own_order"),
    (Reverses, "unanimous_order_is_kept"),
    (Reverses, "unanimous_pairs_are_kept"),
    (Reverses, "item_nobody_ranks_is_not_first"),
    (Remembers, "refit_forgets"),
    (LearnsWhilePredicting, "predict_leaves_no_trace"),
    (LooksAtTheNeighbours, "shards_as_the_whole"),
    (LooksAtTheNeighbours, "together_as_alone"),
    (RunningSum, "together_as_alone"),
    (PeeksAtLabels, "labels_are_not_read"),
    (WorksInInit, "init_only_assigns"),
    (Positional, "init_only_assigns"),
    (AcceptsNonsense, "invalid_parameter_is_refused"),
    (UsesGlobalChance, "global_state_is_unchanged"),
    (ForgetsFitInfo, "fit_returns_self"),
    (TakesAnything, "wrong_kind_names_methods"),
    (CannotBePickled, "pickle_keeps_the_answer"),
    (RanksAgainstScores, "every_item_is_ranked"),
    (StumblesOverSilence, "instance_without_rows_is_one_tie"),
    (OpenIntervals, "intervals_hold_the_score"),
    (WrongRankIntervals, "rank_intervals_hold_the_rank"),
    (UnseededChance, "same_seed_same_answer"),
    (SeededByPosition, "shards_as_the_whole"),
    (TurnsTheBlocksRound, "blocks_are_predicted_as_the_whole"),
    (LearnsFromTheLastBlock, "blocks_are_learned_from_as_the_whole"),
    (CountsOutcomesOnce, "counts_of_pairs_suffice"),
    (BreaksTiesInSilence, "ties_are_refused"),
    (ReadsOtherLabels, "labels_of_others_are_not_read"),
    (TakesLabelsAsTheyCome, "labels_are_matched_by_id"),
    (TakesAnyValidation, "validation_is_a_pair"),
    (CountsNoLabels, "labels_are_counted"),
    (ExplainsHalf, "explanations_add_up"),
]


@pytest.mark.parametrize("method", SOUND, ids=lambda m: m.name)
def test_sound_methods_pass(method: type[Aggregator], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.METHODS.entries, method.name, method)
    results = check_method(method)
    assert {r.outcome for r in results} == {"passed"}
    assert [r.check for r in results] == [c.name for c in checks_for(method)]


def test_every_check_is_passed_by_a_sound_method() -> None:
    assert {c.name for m in SOUND for c in checks_for(m)} == set(CHECKS)


@pytest.mark.parametrize(("method", "check"), FAULTS, ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_planted_faults_are_caught(method: type[Aggregator], check: str) -> None:
    with pytest.raises(ContractError) as caught:
        CHECKS[check](method)
    message = str(caught.value)
    assert message.startswith(f"{method.__name__} fails the check {check!r} (")
    assert isinstance(caught.value, AssertionError)
    assert isinstance(caught.value, ConcordantError)


def test_the_evidence_names_instance_item_and_both_answers() -> None:
    with pytest.raises(
        ContractError, match=r"rank data, experts in reverse order: instance 'q\d', item '\w': score .* and"
    ):
        CHECKS["order_of_experts_is_irrelevant"](TrustsTheFirstExpert)


def test_all_failures_are_listed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.METHODS.entries, IgnoresWeights.name, IgnoresWeights)
    with pytest.raises(ContractError) as caught:
        check_method(IgnoresWeights())
    first, *failures = str(caught.value).split("\n")
    assert first == "IgnoresWeights fails 2 checks of the contract:"
    assert [f.split("'")[1] for f in failures] == ["weight_two_is_twice", "weight_zero_is_absent"]


def test_a_method_that_is_not_registered_cannot_be_loaded() -> None:
    with pytest.raises(ContractError, match="'toy-sound' is not known"):
        CHECKS["saved_is_loaded"](Sound)


def test_skipping_asks_for_a_reason_and_a_known_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.METHODS.entries, IgnoresWeights.name, IgnoresWeights)
    why = {"weight_two_is_twice": "lists are all alike here", "weight_zero_is_absent": "as above"}
    skipped = [r for r in check_method(IgnoresWeights, skip=why) if r.outcome == "skipped"]
    assert {r.check: r.reason for r in skipped} == why
    with pytest.raises(ParameterError, match=r"without a reason: \['weight_two_is_twice'\]"):
        check_method(IgnoresWeights, skip=why | {"weight_two_is_twice": " "})
    with pytest.raises(ParameterError, match=r"no such checks to skip: \['tidiness'\]"):
        check_method(IgnoresWeights, skip={"tidiness": "never mind"})


def test_an_instance_is_checked_with_its_own_parameters_and_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.METHODS.entries, Sound.name, Sound)
    method = Sound(k=7.0)
    check_method(method)
    assert vars(method) == {"k": 7.0}
    with pytest.raises(ContractError, match=r"must be a number > 0\. Got -1"):
        check_method(Sound(k=-1))


def test_examples_are_awkward() -> None:
    for example in examples(Tags(accepts=frozenset({"rank", "score", "rating", "comparisons"}))):
        votes = example.votes()
        used = votes.slot if isinstance(votes, Preferences) else np.concatenate([votes.left, votes.right])
        assert len(np.unique(used)) < votes.n_slots, "an item nobody ranks"
        assert "silent" in votes.experts
        assert "silent" not in {row[1] for row in example.rows}
        assert ("q2", "e5") not in {(row[0], row[1]) for row in example.rows}
        assert len(set(example.items)) > len({i for _, i in example.items}), "item ids repeat over instances"
        if isinstance(votes, Preferences):
            assert (votes.positions("min") < votes.positions("max")).any(), "ties"
            assert votes.list_weight is not None
            assert len(set(votes.list_lengths.tolist())) > 1
        else:
            assert votes.n_ties.any()
        if example.kind == "rank":
            assert (votes.value > votes.positions("max")).any(), "gaps"
    for example in examples(Tags(accepts=frozenset({"rank", "score", "rating"}), ties=False, weights=False)):
        votes = example.votes()
        assert isinstance(votes, Preferences)
        assert np.array_equal(votes.positions("min"), votes.positions("max"))
        assert votes.list_weight is None


def test_the_recipe_of_the_docstring_works_in_somebody_elses_suite(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        textwrap.dedent(
            """
            import numpy as np
            import pytest
            import concordant as cc
            from concordant.base.checks import checks_for


            @cc.register_method
            class First(cc.Aggregator):
                name = "first-come"
                tags = cc.Tags(accepts=frozenset({"rank"}), faithful=False)

                def __init__(self):
                    pass

                def _scores(self, p):
                    return -np.arange(p.n_slots, dtype=float)


            @pytest.mark.parametrize("check", checks_for(First), ids=str)
            def test_contract(check):
                check(First)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert "test_contract[order_of_rows_is_irrelevant]" in done.stdout
    assert "test_contract[parameters_round_trip]" not in done.stdout
    assert done.returncode == 1
