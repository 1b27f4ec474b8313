"""SVP against the worked cases, dense decompositions, and the published rows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pytest
from tests.aggregators.common import from_matrix
from tests.oracles import svp as oracle

import concordant as cc
from concordant.errors import ConcordantWarning, KindError, ParameterError


def quiet(method: cc.Aggregator, votes: Any) -> cc.Consensus:
    """Return the answer without what is said about few or unconnected pairs."""
    with catch_warnings():
        simplefilter("ignore", ConcordantWarning)
        return method.fit_predict(votes)


def test_worked_case_of_lists(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("20_svp")
    case = content["cases"][0]
    given, want = case["input"], case["expected"]
    svp = cc.SVP(transform=given["transform"], step=given["eta"], average=False, max_iter=20_000, tol=0.0)
    answer = quiet(svp, from_matrix(given["R"]))
    np.testing.assert_allclose(answer.score, want["scores"], rtol=0, atol=content["abs_tol"])
    margin = np.array(want["A"])
    observed = np.ones_like(margin, dtype=bool)
    observed[[3, 4], [4, 3]] = False  # the one pair that no expert ranks
    np.fill_diagonal(observed, False)
    residual = (np.array(want["X"]) - margin)[observed]
    assert svp.fit_info_.objective == pytest.approx(float(residual @ residual), abs=content["abs_tol"])
    assert np.abs(residual).max() == pytest.approx(want["residual"], abs=content["abs_tol"])
    assert svp.fit_info_.gradient_norm is not None
    assert svp.fit_info_.gradient_norm < 1e-9


def test_worked_case_of_margins(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("20_svp")
    case = content["cases"][1]
    A, mask = np.array(case["input"]["A_observed"]), np.array(case["input"]["mask"])
    i, j = np.nonzero(np.triu(mask, 1))
    wins, losses = np.maximum(A[i, j], 0), np.maximum(-A[i, j], 0)
    games = cc.Comparisons("q", None, i.tolist(), j.tolist(), wins, losses, items=[("q", k) for k in range(len(A))])
    answer = cc.SVP(average=False, max_iter=20_000, tol=0.0).fit_predict(games)
    np.testing.assert_allclose(answer.score, case["expected"]["scores"], rtol=0, atol=content["abs_tol"])


def random_ranks(seed: int, n: int, experts: int, share: float) -> Any:
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=n)
    R = np.zeros((n, experts))
    for k in range(experts):
        listed = np.flatnonzero(rng.random(n) < share)
        order = listed[np.argsort(-(quality[listed] + 0.6 * rng.normal(size=len(listed))))]
        R[order, k] = np.cumsum(rng.integers(1, 4, len(order)))
    return R


@pytest.mark.parametrize("transform", ["count", "binary", "rankdiff", "log"])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("least", [1, 3])
def test_scores_are_mean_margins_of_the_completed_table(transform: str, average: bool, least: int) -> None:
    R = random_ranks(11, 14, 9, 0.7)
    total, count = np.zeros((14, 14)), np.zeros((14, 14))
    for r in R.T:
        held = np.flatnonzero(r)
        x = np.log(r[held]) if transform == "log" else r[held]
        gap = x[None, :] - x[:, None]
        gap = {"binary": np.sign(gap), "count": gap}.get(transform, gap / x.max())
        total[np.ix_(held, held)] += gap
        count[np.ix_(held, held)] += 1.0
    np.fill_diagonal(count, 0.0)
    margin = np.where(count >= least, total / np.maximum(count, 1.0) if average else total, 0.0)
    x, _ = oracle.complete(margin, count >= least)
    answer = quiet(cc.SVP(transform=transform, average=average, min_comparisons=least), from_matrix(R))
    np.testing.assert_allclose(answer.score, x.mean(axis=1), rtol=0, atol=1e-9 * np.abs(x).max())


def test_complete_lists_of_rank_differences_are_answered_in_one_step_by_borda() -> None:
    R = np.stack([np.random.default_rng(k).permutation(8) + 1 for k in range(5)], axis=1)
    svp = cc.SVP()
    answer = svp.fit_predict(from_matrix(R))
    assert svp.fit_info_.n_iter == 1
    np.testing.assert_allclose(answer.score, 4.5 - R.mean(axis=1), atol=1e-9)
    # Margins of another rank are met in one step as well as they can be: the second changes nothing.
    svp = cc.SVP(transform="binary", max_iter=9, tol=1e-12)
    two = svp.fit_predict(from_matrix(R)).score
    assert svp.fit_info_.n_iter == 2
    np.testing.assert_allclose(quiet(svp.set_params(max_iter=1), from_matrix(R)).score, two, atol=1e-9)


def test_ratings_and_scores_may_be_subtracted() -> None:
    stars = cc.Preferences(
        ["q"] * 7,
        ["x", "x", "x", "y", "y", "z", "z"],
        ["a", "b", "c", "a", "c", "b", "c"],
        [5, 4, 1, 5, 2, 4, 1],
        kind="rating",
    )
    margin = np.array([[0, 1, 3.5], [-1, 0, 3], [-3.5, -3, 0]])
    want = oracle.project(margin, 2).mean(axis=1)
    np.testing.assert_allclose(cc.SVP(transform="rating").fit_predict(stars).score, want, atol=1e-12)
    with pytest.raises(KindError, match=r"these are ranks\. Use 'count'"):
        cc.SVP(transform="rating").fit_predict(stars.to_ranks())


def test_ties_are_observations() -> None:
    games = cc.Comparisons("q", None, ["a", "b", "a"], ["b", "c", "c"], [3, 3, 0], [1, 1, 0], [0, 0, 9])
    margin = np.array([[0.0, 2.0, 0.0], [-2.0, 0.0, 2.0], [0.0, -2.0, 0.0]])
    np.testing.assert_allclose(cc.SVP(average=False).fit_predict(games).score, margin.mean(axis=1), atol=1e-12)
    share = margin / np.array([[1, 4, 9], [4, 1, 4], [9, 4, 1]])
    np.testing.assert_allclose(cc.SVP().fit_predict(games).score, share.mean(axis=1), atol=1e-12)


def test_parts_that_nothing_connects_are_completed_apart_and_named() -> None:
    lists = {"x": ["a", "b", "c"], "y": ["b", "a", "c"], "z": ["d", "e"]}
    with pytest.warns(ConcordantWarning, match=r"none leads from \['a', 'b', 'c'\] to \['d', 'e'\]"):
        both = cc.SVP().fit_predict(cc.from_lists(lists))
    one = cc.SVP().fit_predict(cc.from_lists({e: lists[e] for e in "xy"}))
    score = dict(zip(both.items, both.score.tolist(), strict=True))
    assert [score[i] for i in "abc"] == one.score.tolist()
    assert [score["d"], score["e"]] == pytest.approx([0.5, -0.5], abs=1e-12)


def test_too_few_pairs_are_named() -> None:
    chain = cc.Comparisons("league", None, ["a", "b", "c"], ["b", "c", "d"], [3, 2, 1], [1, 1, 0])
    with pytest.warns(
        ConcordantWarning, match=r"\['league'\], have fewer pairs than a table of rank 2 has free numbers"
    ):
        cc.SVP(tol=1e-3).fit_predict(chain)


def test_circles_and_silence_score_nothing() -> None:
    circle = cc.Comparisons("q", None, ["a", "b", "c"], ["b", "c", "a"])
    assert cc.SVP().fit_predict(circle).score.tolist() == [0.0, 0.0, 0.0]
    tied = cc.Comparisons("q", None, ["a"], ["b"], [0], [0], [4])
    assert cc.SVP().fit_predict(tied).score.tolist() == [0.0, 0.0]
    lone = cc.Preferences(["q"], ["x"], ["a"], [1], items=[("q", "b"), ("q", "a")])
    assert cc.SVP().fit_predict(lone).score.tolist() == [0.0, 0.0]


def test_what_has_not_settled_is_said_and_kept() -> None:
    p = from_matrix(random_ranks(3, 20, 6, 0.4))
    svp = cc.SVP(max_iter=2)
    with pytest.warns(ConcordantWarning, match=r"stopped after 2 steps in 1 of 1 instances, \['q'\]"):
        answer = svp.fit_predict(p)
    assert not svp.fit_info_.converged
    assert np.ptp(answer.score) > 0


@pytest.mark.parametrize("seed", range(30))
def test_too_few_pairs_are_completed_in_one_way_whatever_the_rows_and_names(seed: int) -> None:
    rng = np.random.default_rng(seed)
    path = rng.permutation(8)
    rows = [(int(a), int(b), int(rng.integers(0, 4)), int(rng.integers(0, 4))) for a, b in pairwise(path)]

    def scores(order: Any, name: Any) -> dict[int, float]:
        chosen = [rows[r] for r in order]
        votes = cc.Comparisons(
            ["q"] * 7,
            ["e"] * 7,
            [f"i{name[row[0]]}" for row in chosen],
            [f"i{name[row[1]]}" for row in chosen],
            [row[2] for row in chosen],
            [row[3] for row in chosen],
            [1] * 7,
        )
        found = quiet(cc.SVP(), votes).to_dict()["q"]
        return {i: found[f"i{name[i]}"] for i in range(8)}

    first = scores(range(7), range(8))
    for _ in range(3):
        again = scores(rng.permutation(7), rng.permutation(8))
        assert again == pytest.approx(first, rel=0, abs=1e-9)


@pytest.mark.parametrize(
    "params",
    [
        {"rank": 3},
        {"rank": 0},
        {"step": "long"},
        {"step": 0},
        {"transform": "odds"},
        {"min_comparisons": 0},
        {"tol": -1},
    ],
)
def test_bad_parameters(params: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=f"'{next(iter(params))}' parameter of SVP"):
        cc.SVP(**params).fit_predict(cc.from_lists({"x": ["a", "b"]}))


@pytest.mark.data
def test_published_rows(data_dir: Path) -> None:
    folds = cc.read_letor_folds(data_dir / "MQ2008-agg")
    metrics = [*(f"ndcg@{k}" for k in range(1, 6)), "p@1", "map"]
    svp, majorities = [], []
    for _, _, (p, labels) in folds:
        svp.append(cc.evaluate(quiet(cc.SVP(min_comparisons=2), p), labels, metrics, convention="letor").mean)
        # The published row named Condorcet: who beats whom by the sum of rank differences; wins less losses.
        counted = cc.Copeland().fit_predict(p.comparisons("count"))
        majorities.append(cc.evaluate(counted, labels, metrics, convention="letor").mean)

    def mean(rows: list[dict[str, float]]) -> list[float]:
        return [100 * float(np.mean([row[m] for row in rows])) for m in metrics]

    assert np.round(mean(majorities), 2).tolist() == [35.67, 37.39, 39.11, 40.50, 41.59, 40.94, 42.63]
    published = [32.49, 36.20, 38.62, 40.17, 41.85, 38.52, 43.61]
    np.testing.assert_allclose(mean(svp), published, rtol=0, atol=0.7)


def test_a_rank_above_the_number_of_items_is_that_of_the_table() -> None:
    """It had ended in a MemoryError."""
    data = cc.synthetic.meta_search(3, n_items=(4, 6), random_state=3).preferences
    want = cc.SVP(rank=6).fit_predict(data)
    np.testing.assert_array_equal(cc.SVP(rank=2_000_000_000).fit_predict(data).score, want.score)
