"""`compare_groups`: the likelihood ratio by hand, the size of its test, its power, and its refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import concordant as cc
from concordant.errors import (
    DataError,
    DataWarning,
    KindError,
    NoFiniteEstimateError,
    ParameterError,
    UncertaintyWarning,
)
from concordant.execution import threads

SCORES = {"a": 1.0, "b": 0.5, "c": 0.0, "d": -0.5, "e": -1.0}


def lists(seed: int, n: int = 40) -> tuple[cc.Preferences, dict[str, int]]:
    votes = cc.synthetic.plackett_luce(SCORES, 2 * n, random_state=seed).preferences
    return votes, {e: k % 2 for k, e in enumerate(votes.experts)}


def test_statistic_is_twice_the_gain_of_separate_fits() -> None:
    votes, groups = lists(0)
    found = cc.compare_groups(votes, groups)
    gains = {}
    for g in (0, 1):
        model = cc.PlackettLuce(prior=0)
        board = model.fit_predict(votes.select_experts([e for e in votes.experts if groups[e] == g]))
        gains[str(g)] = model.fit_info_.objective
        np.testing.assert_array_equal(found.groups[str(g)].score, board.score)
    whole = cc.PlackettLuce(prior=0)
    whole.fit_predict(votes)
    assert found.log_likelihood == gains
    assert found.statistic == pytest.approx(2 * (sum(gains.values()) - whole.fit_info_.objective), abs=1e-9)  # type: ignore[arg-type,operator]
    assert found.df == 4
    assert found.p_value == pytest.approx(float(stats.chi2.sf(found.statistic, 4)))
    frame = found.to_frame()
    assert frame.columns == ["instance", "item", "pooled", "score 0", "score 1"]
    assert frame["pooled"].to_list() == found.pooled.score.tolist()


def test_tie_parameters_and_side_effects_count() -> None:
    votes = cc.synthetic.bradley_terry((0.5, 0.0, -0.5), 400, ties=0.5, n_experts=12, random_state=1).comparisons
    groups = {e: "xyz"[k % 3] for k, e in enumerate(votes.experts)}
    with pytest.warns(DataWarning, match="ties are left out"), pytest.warns(UncertaintyWarning, match="33.3 of them"):
        assert cc.compare_groups(votes, groups, "bradley-terry", ties="none").df == 2 * 2
    with pytest.warns(UncertaintyWarning, match="takes comparisons as independent"):
        assert cc.compare_groups(votes, groups, "bradley-terry").df == 2 * 3
    with pytest.warns(UncertaintyWarning, match="Pass permutations=999"):
        assert cc.compare_groups(votes, groups, cc.BradleyTerry(prior=0, side_effect=True)).df == 2 * 4
    tied, sides = lists(1)
    coarse = cc.from_frame(
        tied.to_frame().drop_nulls().with_columns(rank=np.minimum(tied.to_frame().drop_nulls()["rank"].to_numpy(), 4))
    )
    assert cc.compare_groups(coarse, sides, ties="davidson-luce").df == 4 + 1


@pytest.mark.filterwarnings("ignore::concordant.errors.UncertaintyWarning")
def test_size_of_the_test_is_nominal() -> None:
    """At 5 %, equal groups are told apart in 4 to 6 % of 2,000 draws."""
    with threads(1):
        p = [cc.compare_groups(*lists(seed, 60), uncertainty="none", tol=1e-6).p_value for seed in range(2000)]
    assert 0.04 <= np.mean(np.array(p) < 0.05) <= 0.06
    # And the whole distribution is near the uniform one.
    assert stats.kstest(p, "uniform").pvalue > 0.01


def test_different_groups_are_found_by_both_tests() -> None:
    one = cc.synthetic.plackett_luce(SCORES, 30, random_state=1).preferences.to_frame().drop_nulls()
    other = cc.synthetic.plackett_luce(dict(zip(SCORES, (-1, 0, 0, 0, 1), strict=True)), 30, random_state=2)
    frame = other.preferences.to_frame().drop_nulls()
    votes = cc.concat(
        [
            cc.from_frame(one),
            cc.from_frame(frame.with_columns(expert=np.array([f"s{e}" for e in frame["expert"].to_list()]))),
        ]
    )
    groups = {e: e[0] for e in votes.experts}
    assert cc.compare_groups(votes, groups).p_value < 1e-4
    permuted = cc.compare_groups(votes, groups, cc.PlackettLuce(), permutations=39)
    assert permuted.p_value == 1 / 40
    assert permuted.test == "permutation, 39 groupings"
    again = cc.compare_groups(votes, groups, "bradley-terry", prior=0.1, permutations=19, random_state=3)
    assert again.p_value == 1 / 20


def test_permutation_p_values_count_groupings_that_are_as_extreme_also_with_a_prior() -> None:
    """With a prior every group pays the penalty, so that ratios are below 0; all four-four groupings are counted."""
    votes, groups = lists(11, 4)
    found = cc.compare_groups(votes, groups, prior=2.0, permutations=400)
    experts = votes.experts.tolist()

    def objective(some: list[str]) -> float:
        model = cc.PlackettLuce(prior=2.0, uncertainty="none")
        model.fit_predict(votes.select_experts(some))
        return float(model.fit_info_.objective or 0.0)

    whole = objective(experts)
    ratios = []
    for some in itertools.combinations(experts, 4):
        rest = [e for e in experts if e not in some]
        ratios.append(2 * (objective(list(some)) + objective(rest) - whole))
    assert found.statistic < 0
    assert min(abs(found.statistic - r) for r in ratios) < 1e-6
    exact = np.mean(np.array(ratios) >= found.statistic - 1e-6)
    assert 0.05 < exact < 0.95
    assert found.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 400) + 1 / 401)


@pytest.mark.filterwarnings("ignore:fewer than")
def test_experts_with_several_lists_and_what_is_printed() -> None:
    frame = lists(3, 20)[0].to_frame().drop_nulls()
    votes = cc.concat([cc.from_frame(frame.with_columns(instance=np.full(len(frame), f"q{k}"))) for k in range(3)])
    groups = {e: k % 2 for k, e in enumerate(votes.experts)}
    with pytest.warns(UncertaintyWarning, match="takes lists as independent, and an expert gives 3 of them"):
        cc.compare_groups(votes, groups, uncertainty="none")
    found = cc.compare_groups(*lists(3, 20), uncertainty="none")
    assert repr(found).startswith(f"['0', '1']: likelihood ratio {found.statistic:.2f} on 4 degrees of freedom, p = ")
    assert repr(found).count("\n") == 2


def test_permutations_leave_the_method_alone_and_are_seeded() -> None:
    votes, groups = lists(5, 15)
    model = cc.PlackettLuce(prior=0.2)
    before = model.get_params()
    found = [cc.compare_groups(votes, groups, model, permutations=20, random_state=k).p_value for k in (1, 1)]
    assert found[0] == found[1]
    assert model.get_params() == before
    assert "consensus_" not in model.__dict__


def test_refusals() -> None:
    votes, groups = lists(0, 6)
    with pytest.raises(KindError, match="needs a likelihood: bradley-terry or plackett-luce"):
        cc.compare_groups(votes, groups, "rrf")
    with pytest.raises(ParameterError, match=r"needs maximum likelihood: PlackettLuce\(prior=0\)"):
        cc.compare_groups(votes, groups, cc.PlackettLuce())
    with pytest.raises(ParameterError, match="the pairs of a list are not independent"):
        cc.compare_groups(votes, groups, "bradley-terry")
    with pytest.raises(ParameterError, match="adherence"):
        cc.compare_groups(votes, groups, cc.PlackettLuce(adherence=True), permutations=9)
    with pytest.raises(DataError, match=r"11 experts have no group: \['r2'"):
        cc.compare_groups(votes, {"r1": "x"})
    with pytest.raises(DataError, match="there is one group"):
        cc.compare_groups(votes, dict.fromkeys(votes.experts, "x"))
    with pytest.raises(DataError, match="name no experts"):
        cc.compare_groups(cc.Comparisons("q", None, ["a"], ["b"], [1]), {"x": "y"}, "bradley-terry")
    with pytest.raises(NoFiniteEstimateError, match=r"in group 'x': no finite Plackett-Luce estimate"):
        cc.compare_groups(votes, {e: "x" if k == 0 else "y" for k, e in enumerate(votes.experts)})
