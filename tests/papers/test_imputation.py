"""Completed ratings against the golden case, plain loops, and tastes that are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import concordant as cc
from concordant.errors import DataError, KindError, ParameterError
from concordant_papers import imputation


def ratings(table: Any, missing: float = 0) -> cc.Preferences:
    """Return a table of users and films as ratings."""
    rows = [(f"u{u}", f"i{i}", r) for u, row in enumerate(table) for i, r in enumerate(row) if r != missing]
    users, films = len(table), len(table[0])
    return cc.Preferences(
        ["all"] * len(rows),
        [u for u, _, _ in rows],
        [i for _, i, _ in rows],
        [r for _, _, r in rows],
        kind="rating",
        items=[("all", f"i{i}") for i in range(films)],
        experts=[f"u{u}" for u in range(users)],
    )


def test_golden_case(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("27_neighbour_cf")
    for case in content["cases"]:
        votes, wanted = ratings(case["input"]["ratings"]), case["expected"]
        found, _ = imputation.similarity(votes)
        assert found == pytest.approx(np.array(wanted["similarity"]), abs=content["abs_tol"])
        completed = imputation.neighbours(votes, nearest=None, significance=None)
        assert completed == pytest.approx(np.array(wanted["completed"]), abs=content["abs_tol"])
        full = imputation.fill_in(votes, completed)
        places = np.zeros(full.n_slots)
        np.add.at(places, full.slot, full.positions("average"))
        assert places == pytest.approx(np.array(wanted["borda_position_sum"]), abs=content["abs_tol"])
        consensus = cc.Borda().fit_predict(full)
        assert consensus.order().tolist() == wanted["ranking"]
        everyone = consensus.broadcast(votes.experts)
        labels = cc.Labels.from_codes(everyone.slots, completed.reshape(-1))
        mean = cc.evaluate(everyone, labels, "ndcg@2", convention="paper").mean["ndcg@2"]
        assert mean == pytest.approx(wanted["mean_ndcg_at_2"], abs=content["abs_tol"])


def plain_correlation(a: list[int], b: list[int]) -> tuple[float, int]:
    both = [(x, y) for x, y in zip(a, b, strict=True) if x and y]
    n = len(both)
    if n < 2:
        return 0.0, n
    mx, my = sum(x for x, _ in both) / n, sum(y for _, y in both) / n
    xx, yy = sum((x - mx) ** 2 for x, _ in both), sum((y - my) ** 2 for _, y in both)
    if min(xx, yy) < 1e-9:
        return 0.0, n
    found = sum((x - mx) * (y - my) for x, y in both) / math.sqrt(xx * yy)
    return (found if abs(found) > 1e-12 else 0.0), n


def plain_neighbours(
    table: list[list[int]], nearest: int | None, among: str, significance: int | None
) -> list[list[float]]:
    """Return the same as `neighbours`, user by user and film by film."""
    mean = [sum(row) / sum(r > 0 for r in row) for row in table]
    out = []
    for u, row in enumerate(table):
        line = []
        for film, given_ in enumerate(row):
            if given_:
                line.append(float(given_))
                continue
            near = []
            for v, other in enumerate(table):
                if among == "raters" and not other[film]:
                    continue
                # Oneself is nobody's neighbour, but one of all.
                w, n = plain_correlation(row, other) if v != u else (0.0, 0)
                w = max(w, 0.0) * (1.0 if significance is None else min(n / significance, 1.0))
                near.append((w, other[film] - mean[v] if other[film] else None))
            if nearest is not None and len(near) > nearest:
                last = sorted(w for w, _ in near)[-nearest]
                near = [(w, d) for w, d in near if w >= last - 1e-12]
            near = [(w, d) for w, d in near if d is not None]
            total = sum(w for w, _ in near)
            move = sum(w * d for w, d in near) / total if total > 1e-12 else 0.0
            line.append(min(max(mean[u] + move, 1.0), 5.0))
        out.append(line)
    return out


@given(
    st.integers(0, 10_000),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from(["raters", "all"]),
    st.sampled_from([None, 3, 50]),
)
def test_neighbours_equal_plain_loops(seed: int, nearest: int | None, among: str, significance: int | None) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(1, 6, (6, 9)) * (rng.random((6, 9)) < 0.6)
    # Everybody rates something, and not always the same.
    table[np.arange(6), rng.integers(0, 9, 6)] = rng.integers(1, 6, 6)
    votes = ratings(table.tolist())
    found = imputation.neighbours(votes, nearest=nearest, among=among, significance=significance)
    assert found == pytest.approx(np.array(plain_neighbours(table.tolist(), nearest, among, significance)), abs=1e-9)


def test_cosine_neighbours_equal_plain_loops() -> None:
    rng = np.random.default_rng(5)
    table = rng.integers(1, 6, (7, 9)) * (rng.random((7, 9)) < 0.5)
    table[:, 0] = rng.integers(1, 6, 7)
    found = imputation.neighbours(
        ratings(table.tolist()), nearest=None, significance=None, least=1, measure="cosine", centred=False, fewest=3
    )
    overall = table[table > 0].mean()
    for u, row in enumerate(table):
        for film, given_ in enumerate(row):
            near = [v for v in range(len(table)) if v != u and table[v, film]]
            cosine = [float(row @ table[v] / np.sqrt((row @ row) * (table[v] @ table[v]))) for v in near]
            mean = sum(w * table[v, film] for w, v in zip(cosine, near, strict=True)) / max(sum(cosine), 1e-9)
            want = given_ or (overall if len(near) < 3 else mean)
            assert found[u, film] == pytest.approx(want, abs=1e-9)
    with pytest.raises(ParameterError, match="measure"):
        imputation.neighbours(ratings([[1, 2]]), measure="euclid")


def test_pmf_finds_low_rank_tastes() -> None:
    rng = np.random.default_rng(0)
    u, v = rng.normal(0, 1, (120, 2)), rng.normal(0, 0.7, (80, 2))
    truth = np.clip(3 + u @ v.T, 1, 5)
    seen = rng.random(truth.shape) < 0.4
    votes = ratings(np.where(seen, truth, 0).tolist())
    found = imputation.pmf(votes, factors=4, passes=200, l2=0.02)
    assert (found[seen] == truth[seen]).all()
    assert found.min() >= 1
    assert found.max() <= 5

    def error(guess: Any) -> float:
        return float(np.sqrt(np.mean((guess - truth)[~seen] ** 2)))

    assert error(found) < 0.4 * error(np.full_like(truth, truth[seen].mean()))
    assert (imputation.pmf(votes, factors=4, passes=3, random_state=1) == imputation.pmf(
        votes, factors=4, passes=3, random_state=1
    )).all()  # fmt: skip


def test_pmf_descends_the_penalised_error() -> None:
    """One batch with all ratings, no momentum: the step of plain gradient descent, by differences of the objective."""
    table = [[5, 3, 0], [4, 0, 1], [0, 2, 2]]
    votes, known = ratings(table), np.array(table, dtype=float)
    there, rate, l2 = known > 0, 1e-3, 0.3
    mean = known[there].mean()
    rng = np.random.default_rng(0)
    start = [rng.normal(0, 0.1, (3, 2)) for _ in range(2)]

    def objective(flat: Any) -> float:
        u, v = flat[:6].reshape(3, 2), flat[6:].reshape(3, 2)
        penalty = (u * u).sum(1)[:, None] + (v * v).sum(1)[None, :]
        return float(0.5 * ((known - mean - u @ v.T) ** 2 + l2 * penalty)[there].sum())

    flat = np.concatenate([x.reshape(-1) for x in start])
    slope = np.array([(objective(flat + h) - objective(flat - h)) / 2e-5 for h in 1e-5 * np.eye(12)])
    after = flat - rate * slope
    wanted = mean + after[:6].reshape(3, 2) @ after[6:].reshape(3, 2).T
    found = imputation.pmf(votes, factors=2, passes=1, l2=l2, learning_rate=rate, momentum=0.0, batch=100)
    assert found[~there] == pytest.approx(wanted[~there], abs=1e-8)


def test_constant_is_not_kept_within_bounds() -> None:
    completed = imputation.constant(ratings([[5, 0], [0, 3]]), 0.0)
    assert completed.tolist() == [[5.0, 0.0], [0.0, 3.0]]


def test_users_without_ratings_get_the_overall_mean() -> None:
    votes = ratings([[5, 4], [4, 3], [0, 0]])
    assert imputation.neighbours(votes)[2].tolist() == [4.0, 4.0]


def test_what_cannot_be_completed_is_refused() -> None:
    with pytest.raises(KindError, match="only ratings can be completed, not values of kind 'rank'"):
        imputation.table(cc.Preferences(["q"], ["x"], ["a"], [1]))
    with pytest.raises(DataError, match="there are 2 instances"):
        imputation.table(cc.Preferences(["q", "r"], ["x", "x"], ["a", "a"], [1, 2], kind="rating"))
    with pytest.raises(DataError, match="no rating to learn from"):
        imputation.pmf(ratings([[0, 0]]))
    with pytest.raises(ParameterError, match="at least 1"):
        imputation.pmf(ratings([[1, 2]]), factors=0)
    with pytest.raises(ParameterError, match="'among' parameter of neighbours must be 'raters' or 'all'"):
        imputation.neighbours(ratings([[1, 2]]), among="friends")
    with pytest.raises(DataError, match=r"2 users and 2 films are needed. Got the shape \(1, 2\)"):
        imputation.fill_in(ratings([[1, 0], [0, 2]]), np.ones((1, 2)))


@pytest.mark.data
def test_movielens_is_completed_better_than_by_means(data_dir: Path) -> None:
    votes = cc.read_ratings(data_dir / "movielens-100k" / "u.data")
    known = imputation.table(votes)
    held = np.random.default_rng(1).random(votes.n_rows) < 0.1
    kept = cc.Preferences(
        ["all"] * int((~held).sum()),
        [votes.experts[e] for e in votes.row_expert[~held]],
        [votes.items[s] for s in votes.slot[~held]],
        votes.value[~held],
        kind="rating",
        items=[("all", i) for i in votes.items],
        experts=votes.experts,
    )
    assert kept.items.tolist() == votes.items.tolist()
    where = votes.row_expert[held], votes.slot[held]
    wanted = known[where]

    def error(completed: Any) -> float:
        return float(np.sqrt(np.mean((completed[where] - wanted) ** 2)))

    user_means = np.nanmean(imputation.table(kept), axis=1, keepdims=True) + np.zeros((1, votes.n_slots))
    # Known from other implementations on this set: about 0.95 for either, above 1.03 for user means.
    assert error(imputation.neighbours(kept)) < 0.97 < 1.0 < error(user_means)
    assert error(imputation.pmf(kept, passes=8)) < 0.97
