"""Mixtures of ranking models: likelihoods by enumeration, EM, planted camps, and homogeneous crowds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.aggregators import _mixture_fit
from concordant.aggregators._mixture_fit import ExpertLikelihoods, choose_components, estimate, positions
from concordant.errors import (
    ConcordantError,
    ConcordantWarning,
    ConvergenceWarning,
    DataError,
    DataWarning,
    FormatError,
    KindError,
    NotFittedError,
    ParameterError,
    UncertaintyWarning,
)
from concordant.kernels.mallows import sample_order

MODELS = {
    "plackett-luce": cc.PlackettLuce(uncertainty="none"),
    "bradley-terry": cc.BradleyTerry(uncertainty="none"),
    "mpm": cc.MPM(uncertainty="none"),
    "mallows": cc.Mallows(),
}
each = pytest.mark.parametrize("name", MODELS)
ITEMS = list("abcd")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        yield


def planted(camps: int, seed: int, *, experts: int = 36, m: int = 10, theta: float = -0.6) -> tuple[Any, np.ndarray]:
    """Return complete lists of experts in camps around centres that are far apart, and the camp of every expert."""
    rng = np.random.default_rng(seed)
    centres: list[np.ndarray] = []
    while len(centres) < camps:
        centre = rng.permutation(m)
        if all(_tau(centre, other) <= 0.2 for other in centres):
            centres.append(centre)
    truth = rng.permutation(np.arange(experts) % camps)
    drawn = {f"e{e}": [f"i{centres[c][k]}" for k in sample_order(m, theta, rng)] for e, c in enumerate(truth.tolist())}
    return cc.from_lists(drawn), truth


def _tau(a: np.ndarray, b: np.ndarray) -> float:
    x, y = np.argsort(a), np.argsort(b)
    pairs = list(combinations(range(len(x)), 2))
    return float(sum(np.sign(x[i] - x[j]) * np.sign(y[i] - y[j]) for i, j in pairs)) / len(pairs)


def same_partition(mixture: cc.Mixture, truth: np.ndarray) -> float:
    """Return the share of pairs of experts on which two partitions agree (Rand index)."""
    camp = mixture.responsibilities_.argmax(axis=1)
    truth = truth[[int(e[1:]) for e in mixture.experts_]]
    alike = (camp[:, None] == camp[None, :]) == (truth[:, None] == truth[None, :])
    return float(alike.mean())


# Likelihoods.


def every_list(order: tuple[str, ...]) -> Any:
    return cc.from_lists({"one": list(order)})


def all_lists() -> Any:
    return cc.from_lists({"".join(p): list(p) for p in permutations(ITEMS)})


@pytest.mark.parametrize("name", ["plackett-luce", "mallows"])
def test_probabilities_of_all_rankings_sum_to_one(name: str) -> None:
    lists = MODELS[name]._list_likelihood(all_lists())
    weight = np.random.default_rng(0).random(24) ** 3
    parameters = lists.fit(weight, None)
    assert np.exp(lists.log_likelihood(parameters)).sum() == pytest.approx(1.0)
    assert lists.inverse_design_effect == 1.0


@pytest.mark.parametrize("missing", ["unknown", "below"])
def test_incomplete_lists_of_mallows_sum_to_one(missing: str) -> None:
    # Lists of two of the four items: of given items, or any two where those left out are below.
    lists = {f"{i}{j}": [i, j] for i, j in permutations(ITEMS, 2)}
    model = cc.Mallows(missing=missing)._list_likelihood(cc.from_lists(lists))
    p = np.exp(model.log_likelihood(model.fit(np.random.default_rng(1).random(12), None)))
    if missing == "below":
        assert p.sum() == pytest.approx(1.0)
        return
    sums: dict[frozenset[str], float] = {}
    for name, value in zip(cc.from_lists(lists).experts.tolist(), p.tolist(), strict=True):
        sums[frozenset(name)] = sums.get(frozenset(name), 0.0) + value
    assert list(sums.values()) == pytest.approx([1.0] * 6)


def test_bradley_terry_and_mpm_lists_have_the_likelihood_of_their_pairs() -> None:
    votes = all_lists()
    weight = np.random.default_rng(0).random(24) ** 3
    pairs = MODELS["bradley-terry"]._list_likelihood(votes)
    draws = MODELS["mpm"]._list_likelihood(votes)
    s, t = pairs.fit(weight, None), draws.fit(weight, None)
    z = sum(np.exp(t[i] - t[j]) for i, j in permutations(range(4), 2))
    place = {item: n for n, item in enumerate(votes.items.tolist())}
    for value, drawn, order in zip(pairs.log_likelihood(s), draws.log_likelihood(t), votes.experts, strict=True):
        codes = [place[i] for i in order]
        won = sum(-np.log1p(np.exp(s[j] - s[i])) for i, j in combinations(codes, 2))
        counted = sum((y - x) * (t[codes[x]] - t[codes[y]] - np.log(z)) for x, y in combinations(range(4), 2))
        assert value == pytest.approx(won)
        assert drawn == pytest.approx(counted)
    # (m + 1) / 3 pairs, and m² / 4 differences of ranks, are worth one that is independent.
    assert pairs.inverse_design_effect == pytest.approx(3 / 5)
    assert draws.inverse_design_effect == pytest.approx(4 / 16)


def test_ties_and_comparisons_have_the_likelihood_of_davidson() -> None:
    votes = cc.Comparisons(
        *("q", ["x", "x", "y"], ["a", "b", "a"], ["b", "c", "c"]), [2.0, 1, 0], [1.0, 0, 3], [1.0, 2, 0]
    )
    lists = cc.BradleyTerry(uncertainty="none")._list_likelihood(votes)
    s = np.array([0.4, -0.1, -0.3])
    nu = np.exp(lists.shared.tie)
    want = []
    for i, j, win, lose, tie in ((0, 1, 2, 1, 1), (1, 2, 1, 0, 2), (0, 2, 0, 3, 0)):
        a, b = np.exp((s[i] - s[j]) / 2), np.exp((s[j] - s[i]) / 2)
        p = np.log(np.array([a, b, nu]) / (a + b + nu))
        want.append(float(p @ [win, lose, tie]))
    assert lists.log_likelihood(s).tolist() == pytest.approx(want)
    assert lists.inverse_design_effect == 1.0
    tied = cc.from_lists({"x": {"a": 2, "b": 2, "c": 1}, "y": {"c": 2, "a": 1}})
    ranked = cc.BradleyTerry(uncertainty="none")._list_likelihood(tied)
    nu = np.exp(ranked.shared.tie)
    pairs = {("a", "b"): "tie", ("a", "c"): "win", ("b", "c"): "win"}
    place = {item: n for n, item in enumerate(tied.items.tolist())}
    score = np.array([0.5, 0.0, -0.5])
    total = 0.0
    for (upper, lower), outcome in pairs.items():
        gap = score[place[upper]] - score[place[lower]]
        odds = {"win": np.exp(gap / 2), "lose": np.exp(-gap / 2), "tie": nu}
        total += np.log(odds[outcome] / sum(odds.values()))
    assert ranked.log_likelihood(score)[tied.experts.tolist().index("x")] == pytest.approx(total)


def test_mpm_takes_instances_of_one_item_between_others() -> None:
    parts = [cc.from_lists({"x": list("abc"), "y": list("bca")}, "p"), cc.from_lists({"x": ["z"]}, "q")]
    parts.append(cc.from_lists({"x": list("de"), "y": list("ed")}, "r"))
    lists = MODELS["mpm"]._list_likelihood(cc.concat(parts))
    score = np.array([0.3, 0.1, -0.4, 0.0, 0.2, -0.2])
    z = [np.log(sum(np.exp(s[i] - s[j]) for i, j in permutations(range(len(s)), 2))) for s in (score[:3], score[4:])]
    found = lists._log_normaliser(score)
    assert found[[0, 2]].tolist() == pytest.approx(z)
    assert found[1] == 0.0


@each
def test_memberships_and_likelihood_are_those_of_bayes_rule(name: str) -> None:
    votes, _ = planted(2, 0, experts=14, m=5)
    lists = ExpertLikelihoods(MODELS[name]._list_likelihood(votes), votes.n_experts)
    found = estimate(
        lists, positions(votes), lists.multiplicity, 2, n_starts=3, max_iter=500, tol=1e-12, random_state=0
    )
    own = [np.exp(lists.lists.inverse_design_effect * lists.lists.log_likelihood(p)) for p in found.parameters]
    joint = np.zeros((votes.n_experts, 2))
    joint[lists.lists.expert] = found.shares * np.stack(own, axis=1)
    np.testing.assert_allclose(found.responsibilities, joint / joint.sum(axis=1, keepdims=True), atol=1e-12)
    assert found.log_likelihood == pytest.approx(np.log(joint.sum(axis=1)).sum() / lists.lists.inverse_design_effect)
    assert found.shares == pytest.approx(found.responsibilities.mean(axis=0), abs=1e-4)


@each
def test_em_never_falls_and_ends_at_a_maximum(name: str) -> None:
    votes, _ = planted(2, 4, experts=24, m=6, theta=-0.3)
    lists = ExpertLikelihoods(MODELS[name]._list_likelihood(votes), votes.n_experts)
    found = estimate(
        lists, positions(votes), lists.multiplicity, 3, n_starts=2, max_iter=3000, tol=1e-12, random_state=0
    )
    steps = np.diff(found.trace)
    assert len(steps) > 3
    assert steps.min() >= -1e-9
    assert found.converged
    if name == "mallows":
        return
    # No small change of the scores of a component is better.
    index = 0 if name == "plackett-luce" else None
    for c in range(3):
        for i in range(6):
            for step in (-1e-3, 1e-3):
                moved = list(found.parameters)
                if index is None:
                    moved[c] = moved[c] + step * (np.arange(6) == i)
                else:
                    at = moved[c][0]
                    moved[c] = [at._replace(score=at.score + step * (np.arange(6) == i))]
                logs = lists.memberships(moved, found.shares)[0].sum() / lists.lists.inverse_design_effect
                assert logs + sum(lists.lists.log_prior(p) for p in moved) <= found.objective + 1e-6


# Camps.


@each
@pytest.mark.parametrize("camps", [2, 3])
def test_planted_camps_are_found_with_their_number(name: str, camps: int) -> None:
    votes, truth = planted(camps, camps, theta=-0.8)
    mixture = cc.Mixture(of=MODELS[name], n_starts=6)
    consensus = mixture.fit_predict(votes)
    assert mixture.n_components_ == camps
    assert same_partition(mixture, truth) == 1.0
    assert mixture.selection_["lead"][0] > 5 * mixture.selection_["stderr"][0]
    # The score is the mean over experts of the scores of their camps.
    want = sum(r.mean() * camp.score for r, camp in zip(mixture.responsibilities_.T, mixture.camps_, strict=True))
    np.testing.assert_allclose(consensus.score, want, atol=1e-9)
    # The camps are fits of the model to the experts, weighted by membership.
    weight = dict(zip(mixture.experts_, mixture.responsibilities_[:, 0].tolist(), strict=True))
    alone = MODELS[name].fit_predict(votes.with_weights(weight))
    np.testing.assert_allclose(mixture.camps_[0].score, alone.score, atol=1e-9)


@each
def test_a_homogeneous_crowd_is_one_camp_and_its_consensus_that_of_the_model(name: str) -> None:
    votes, _ = planted(1, 5, theta=-0.4)
    mixture = cc.Mixture(of=MODELS[name], n_starts=6)
    consensus = mixture.fit_predict(votes)
    assert mixture.n_components_ == 1
    assert mixture.selection_["components"][:2] == [1.0, 2.0]
    want = MODELS[name].fit_predict(votes)
    assert consensus == want
    assert mixture.learned_experts() == {}
    assert mixture.fit_info_.chosen == {"components": 1}


def test_one_camp_keeps_the_intervals_of_the_model() -> None:
    votes, _ = planted(1, 6)
    found = cc.Mixture(components=1).fit_predict(votes)
    want = cc.PlackettLuce().fit_predict(votes)
    assert found.lower is not None
    assert want.lower is not None
    assert found.lower.tolist() == want.lower.tolist()
    assert found.interval_method == want.interval_method


def test_comparisons_of_judges_fall_into_camps() -> None:
    rng = np.random.default_rng(0)
    taste = rng.normal(size=(2, 8)) * 2
    rows = []
    for e in range(20):
        for _ in range(40):
            i, j = rng.choice(8, 2, replace=False)
            won = rng.random() < 1 / (1 + np.exp(taste[e % 2, j] - taste[e % 2, i]))
            rows.append(("q", f"e{e}", f"i{i}", f"i{j}", float(won), float(not won), 0.0))
    votes = cc.Comparisons(*zip(*rows, strict=True))
    for of in ("bradley-terry", "mpm"):
        mixture = cc.Mixture(of=of)
        mixture.fit_predict(votes)
        assert mixture.n_components_ == 2
        assert same_partition(mixture, np.arange(20) % 2) > 0.9
    with pytest.raises(DataError, match="name no experts"):
        cc.Mixture(of="mpm").fit(votes.collapse())


def test_memberships_are_shared_over_instances_and_predict_new_ones() -> None:
    parts = [cc.from_lists({f"e{e}": list("abcde" if e % 2 else "edcba") for e in range(8)}, f"q{n}") for n in range(3)]
    votes = cc.concat(parts)
    mixture = cc.Mixture(components=2).fit(votes)
    assert mixture.shares_.tolist() == pytest.approx([0.5, 0.5])
    new = cc.from_lists({"e1": list("xyz"), "e0": list("zyx"), "e3": list("xyz")}, "new")
    camps = mixture.camps(new)
    assert sorted(camp.ranking() for camp in camps) == [["x", "y", "z"], ["z", "y", "x"]]
    assert mixture.predict(new).ranking() == ["x", "y", "z"]
    strange = cc.from_lists({"e1": list("xyz"), "new": list("zyx")}, "new")
    with pytest.raises(DataError, match="learned nothing about the experts"):
        mixture.predict(strange)
    mixture.set_params(unknown_experts="ignore")
    assert mixture.predict(strange).ranking() == ["x", "y", "z"]


def test_memberships_are_a_frame_and_columns_of_the_experts() -> None:
    votes = cc.from_lists({f"e{e}": list("abc" if e < 6 else "cba") for e in range(10)})
    mixture = cc.Mixture(of="mallows", components=2)
    consensus = mixture.fit_predict(votes)
    frame = mixture.memberships_
    assert frame.columns == ["expert", "camp", "probability", "camp 1", "camp 2"]
    assert frame["camp"].to_list() == [1] * 6 + [2] * 4
    table = cc.describe_experts(votes, consensus, mixture)
    assert {"camp", "membership"} <= set(table.columns)
    assert mixture.expert_weights_["camp"].to_list() == frame["camp"].to_list()


# The number of components.


def test_equal_ballots_are_spread_over_the_folds() -> None:
    votes = cc.from_lists(
        {"x": list("abc"), "y": list("cab"), "z": list("bca")}, weights={"x": 7.0, "y": 1.0, "z": 1.0}
    )
    held = _mixture_fit._held_out(positions(votes), np.array([7.0, 1.0, 1.0]), 3, 0)
    assert held.sum(axis=1).tolist() == [7.0, 1.0, 1.0]
    assert held.sum(axis=0).tolist() == [3.0, 3.0, 3.0]
    assert sorted(held[0].tolist()) in ([2.0, 2.0, 3.0], [1.0, 3.0, 3.0])


def of_plackett_luce(camps: int, spacing: float, seed: int) -> tuple[Any, np.ndarray]:
    """Return complete lists by 40 experts whose scores of 12 items are equally spaced, and the camp of every expert."""
    rng = np.random.default_rng(seed)
    centres = [rng.permutation(12) for _ in range(camps)]
    truth = rng.permutation(np.arange(40) % camps)
    drawn = [np.argsort(spacing * centres[c] + rng.gumbel(size=12)) for c in truth.tolist()]
    return cc.from_lists({f"e{e}": [f"i{i}" for i in order] for e, order in enumerate(drawn)}), truth


@pytest.mark.parametrize("spacing", [1.0, 1.5])
@pytest.mark.parametrize("name", ["plackett-luce", "bradley-terry", "mpm"])
def test_experts_who_agree_closely_are_one_camp(name: str, spacing: float) -> None:
    for seed in range(6):
        votes, _ = of_plackett_luce(1, spacing, seed)
        assert cc.Mixture(of=MODELS[name], n_starts=6).fit(votes).n_components_ == 1


@each
def test_camps_that_agree_closely_have_no_empty_ones_beside_them(name: str) -> None:
    for seed in range(3):
        votes, truth = of_plackett_luce(3, 1.5, seed)
        mixture = cc.Mixture(of=MODELS[name], n_starts=6).fit(votes)
        assert mixture.n_components_ == 3
        assert same_partition(mixture, truth) == 1.0


@each
def test_one_component_is_the_best_fit_of_the_model(name: str) -> None:
    votes, _ = of_plackett_luce(1, 1.5, 0)
    lists = ExpertLikelihoods(MODELS[name]._list_likelihood(votes), votes.n_experts)
    how: dict[str, Any] = {"n_starts": 1, "max_iter": 1000, "tol": 1e-10, "random_state": 0}
    found = estimate(lists, positions(votes), lists.multiplicity, 1, **how)
    assert found.converged
    if name == "mallows":
        centre = [votes.items[i] for i in found.parameters[0][0][0]]
        assert centre == MODELS[name].fit_predict(votes).ranking()
        return
    score = found.parameters[0][0].score if name == "plackett-luce" else found.parameters[0]
    # MPM has a small prior in mixtures only.
    np.testing.assert_allclose(
        score - score.mean(), MODELS[name].fit_predict(votes).score, rtol=0.02 if name == "mpm" else 1e-3
    )


def test_a_few_odd_experts_are_no_camp_of_their_own() -> None:
    lists = {f"e{e:02d}": list("abcdefgh" if e % 2 else "hgfedcba") for e in range(40)}
    lists |= {f"odd{n}": list("dceafhbg") for n in range(4)}
    mixture = cc.Mixture(of="plackett-luce").fit(cc.from_lists(lists))
    assert mixture.n_components_ == 2
    held_out = mixture.selection_["held_out"]
    assert held_out[2] > held_out[1]


def test_few_experts_are_one_camp_and_more_components_than_experts_are_refused() -> None:
    votes = cc.from_lists({f"e{e}": list("abc" if e < 5 else "cba") for e in range(9)})
    mixture = cc.Mixture().fit(votes)
    assert mixture.n_components_ == 1
    assert mixture.selection_ == {}
    with pytest.warns(DataWarning, match="2 experts cannot form 5 camps; 2 are fitted"):
        mixture = cc.Mixture(components=5).fit(votes[:1].select_experts(["e0", "e8"]))
    assert mixture.n_components_ == 2


def test_held_out_likelihood_is_that_of_experts_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    votes, _ = planted(2, 1, experts=20, m=6)
    lists = ExpertLikelihoods(MODELS["mpm"]._list_likelihood(votes), votes.n_experts)
    how: dict[str, Any] = {"n_starts": 3, "max_iter": 50, "tol": 1e-8, "random_state": 0}
    x, folds = positions(votes), 4
    monkeypatch.setattr(_mixture_fit, "_FOLD_TOL", 1.0)
    found, _ = choose_components(lists, x, max_components=2, folds=folds, report=lambda *_: None, **how)
    held = _mixture_fit._held_out(x, lists.multiplicity, folds, 0)
    for n in (1, 2):
        total = 0.0
        for f in range(folds):
            out = held[:, f] > 0
            part = votes.select_experts(np.array(votes.experts.tolist())[~out].tolist())
            own = ExpertLikelihoods(MODELS["mpm"]._list_likelihood(part), part.n_experts)
            # Starts are drawn from all experts in order; the others stay in the same order.
            kept = estimate(own, positions(part), own.multiplicity, n, **how | {"n_starts": 1})
            total += float(lists.memberships(kept.parameters, kept.shares)[0][out].sum())
        assert found.score[n - 1] == pytest.approx(total / 20, abs=2e-3)


def test_a_mixture_that_has_not_converged_and_an_empty_camp_are_named() -> None:
    votes, _ = planted(2, 3, theta=-0.3)
    with pytest.warns(ConvergenceWarning, match="EM did not converge in 2 steps"):
        mixture = cc.Mixture(of="mpm", components=3, max_iter=2, n_starts=1).fit(votes)
    assert not mixture.fit_info_.converged
    same = cc.from_lists({f"e{e}": list("abc") for e in range(6)})
    with pytest.warns(ConcordantWarning, match="camps .* have no expert with a membership above one half"):
        cc.Mixture(of="mallows", components=2).fit(same)


def test_warnings_of_a_camp_name_it() -> None:
    lists = {f"e{e}": list("abcdefgh") for e in range(6)} | {f"f{e}": list("hgfedcba") for e in range(4)}
    with pytest.warns(UncertaintyWarning, match="camp 2: the experts all say the same"):
        cc.Mixture(components=2).fit(cc.from_lists(lists))


# Refusals, saving.


@pytest.mark.parametrize(
    ("of", "match"),
    [
        (cc.PlackettLuce(adherence=True), "mixture of PlackettLuce has no adherence=True"),
        (cc.PlackettLuce(ties="davidson-luce"), "davidson-luce"),
        (cc.PlackettLuce(prior=0), "prior=0"),
        (cc.PlackettLuce(optimizer="gd"), "optimizer='gd'"),
        (cc.BradleyTerry(reliability=True), "reliability=True"),
        (cc.BradleyTerry(ties="rao-kupper"), "rao-kupper"),
        (cc.MPM(variances=True), "variances=True"),
        (cc.MPM(adherence="learned"), "adherence='learned'"),
        ("rrf", "has none. Use of= one of bradley-terry, mallows, mpm, plackett-luce"),
        (cc.Mixture(), "Mixture has none"),
    ],
)
def test_models_and_settings_that_do_not_go_are_named(of: Any, match: str) -> None:
    votes, _ = planted(2, 0, experts=12, m=4)
    with pytest.raises(ParameterError, match=match):
        cc.Mixture(of=of, components=2).fit(votes)


def test_other_refusals_are_named(tmp_path: Path) -> None:
    votes, _ = planted(2, 0, experts=12, m=4)
    with pytest.raises(KindError, match="a mixture has no summary"):
        cc.Mixture().fit(votes).summary()
    with pytest.raises(NotFittedError):
        _ = cc.Mixture().memberships_
    with pytest.raises(NotFittedError):
        cc.Mixture().predict(votes)
    comparisons = cc.Comparisons("q", ["x"], ["a"], ["b"], [1.0], [0.0], [0.0])
    with pytest.raises(KindError, match="comparisons"):
        cc.Mixture().fit(comparisons)
    assert not cc.Mixture().learns_from_blocks()
    with (
        cc.checkpoint(tmp_path / "half"),
        pytest.warns(ConcordantWarning, match="Mixture writes no checkpoint: memberships and"),
    ):
        mixture = cc.Mixture(of="mpm", components=2).fit(votes)
    assert not (tmp_path / "half").exists()
    mixture.save(tmp_path / "m.model")
    loaded = cc.load(tmp_path / "m.model")
    assert isinstance(loaded, cc.Mixture)
    assert loaded.predict(votes) == mixture.predict(votes)
    assert loaded.camps(votes) == mixture.camps(votes)
    with pytest.raises(NotFittedError, match="Call camps"):
        _ = loaded.camps_


@pytest.mark.parametrize(
    "change",
    [
        {"n_components_": 3},
        {"shares_": np.array([0.9, 0.9])},
        {"responsibilities_": np.full((12, 2), 0.7)},
        {"responsibilities_": np.full((5, 2), 0.5)},
        {"models_": [cc.RRF(), cc.RRF()]},
        {"models_": [cc.MPM(), cc.MPM()]},
        {"components": 1},
        {"selection_": None},
        {"selection_": {"1": "x", "a": None}},
        {"selection_": {"components": [1.0, 2.0], "held_out": [-3.0]}, "components": "auto"},
        {"selection_": {"components": [1.0, 3.0], "held_out": [-3.0, -2.0]}, "components": "auto"},
    ],
)
def test_saved_parts_that_do_not_fit_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    votes, _ = planted(2, 0, experts=12, m=4)
    mixture = cc.Mixture(of="mpm", components=2).fit(votes)
    for name, value in change.items():
        if value is None:
            delattr(mixture, name)
        else:
            setattr(mixture, name, value)
    mixture.save(tmp_path / "m.model")
    with pytest.raises((FormatError, ConcordantError)):
        cc.load(tmp_path / "m.model")


def test_what_cannot_be_explained_does_not_name_itself() -> None:
    votes = cc.from_lists({f"e{e}": list("abc" if e < 6 else "cba") for e in range(10)})
    mixture = cc.Mixture(of="mallows", components=2).fit(votes)
    with pytest.raises(KindError, match="Other methods that can be explained") as error:
        mixture.explain(votes)
    assert "mixture" not in str(error.value).partition("certain parameters only")[2]
