"""Which votes are kept, and what they weigh: caps by expert, equal weights, joining."""

from __future__ import annotations

import numpy as np
import pytest

import concordant as cc
from concordant.errors import DataError, ParameterError


def test_cap_experts_against_a_loop() -> None:
    votes = cc.synthetic.bradley_terry(6, 400, n_experts=7, random_state=3).comparisons
    rng = np.random.default_rng(0)
    timed = cc.Comparisons(
        "arena",
        [votes.experts[e] for e in votes.row_expert],
        [votes.items[s] for s in votes.left],
        [votes.items[s] for s in votes.right],
        votes.n_left,
        votes.n_right,
        time=rng.integers(0, 50, votes.n_rows),
    )
    for keep in ("first", "last"):
        wanted = []
        for expert in range(timed.n_experts):
            rows = [r for r in range(timed.n_rows) if timed.row_expert[r] == expert]
            rows.sort(key=lambda r: (timed.time[r], r))  # type: ignore[index]
            wanted += rows[:20] if keep == "first" else rows[-20:]
        assert timed.cap_experts(20, keep=keep) == timed.select_rows(np.sort(wanted))  # type: ignore[arg-type]
    drawn = timed.cap_experts(20, random_state=1)
    assert np.bincount(drawn.row_expert).max() == 20
    assert drawn == timed.cap_experts(20, random_state=1)
    assert drawn != timed.cap_experts(20, random_state=2)
    assert timed.cap_experts(10_000) == timed
    with pytest.raises(DataError, match="name none"):
        timed.collapse().cap_experts(3)
    for wrong in (0, 1.5, True):
        with pytest.raises(ParameterError, match="'n'"):
            timed.cap_experts(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("by", ["experts", "pairs"])
def test_equal_weights(by: str) -> None:
    votes = cc.Comparisons(
        ["p", "p", "p", "q", "q", "q"],
        ["x", "x", "y", "x", "y", "z"],
        ["a", "b", "b", "a", "a", "a"],
        ["b", "c", "a", "b", "b", "c"],
        [3, 1, 1, 2, 0, 0],
        [0, 0, 1, 0, 2, 0],
    )
    even = votes.equal_weights(by)  # type: ignore[arg-type]
    totals: dict[tuple[str, frozenset[str]], float] = {}
    for instance, expert, left, right, *counts in even.to_frame().rows():
        key = frozenset([expert]) if by == "experts" else frozenset([left, right])
        totals[instance, key] = totals.get((instance, key), 0.0) + sum(counts)
    for instance, total in (("p", 6.0), ("q", 4.0)):
        own = [t for (q, _), t in totals.items() if q == instance and t > 0]
        assert own == pytest.approx([total / len(own)] * len(own))
    with pytest.raises(ParameterError, match="by"):
        votes.equal_weights("votes")  # type: ignore[arg-type]


def test_votes_that_cannot_be_joined_name_the_way_out() -> None:
    votes = cc.Comparisons("arena", ["x"], ["b"], ["a"])
    with pytest.raises(DataError, match=r"votes\.collapse\(\)"):
        cc.Comparisons.concat([votes, votes.collapse()])
    with pytest.raises(DataError, match=r"collapse\(keep=\['experts'\]\)"):
        cc.Comparisons.concat([votes, votes.collapse(keep=["experts"])])
    assert cc.Comparisons.concat([votes.collapse(), votes.collapse()]).n_rows == 2


def test_self_preference_is_a_covariate_of_expert_and_item() -> None:
    makers = {"a1": "a", "a2": "a", "b1": "b"}
    votes = cc.Comparisons(
        "q",
        ["ja", "ja", "jb", "jb", "human", "ja"],
        ["a1", "b1", "a1", "b1", "a1", "x"],
        ["b1", "a2", "b1", "x", "b1", "a2"],
        covariates={"length": [1, 2, 3, 4, 5, 6]},
    )
    found = votes.with_self_preference(makers, {"ja": "a", "jb": "b"})
    assert found.covariate_names.tolist() == ["length", "self-preference"]
    assert found.covariates.tolist() == [[1, 1], [2, -1], [3, -1], [4, 1], [5, 0], [6, -1]]
    assert votes.covariate_names.tolist() == ["length"]
    # Two items of the expert's family leave nothing to prefer.
    same = cc.Comparisons("q", ["ja"], ["a1"], ["a2"]).with_self_preference(makers, {"ja": "a"})
    assert same.covariates.tolist() == [[0.0]]
    with pytest.raises(DataError, match="name no experts"):
        cc.Comparisons("q", None, ["a1"], ["b1"]).with_self_preference(makers, {"ja": "a"})
    with pytest.raises(DataError, match=r"no item is of the families \['A'\]"):
        votes.with_self_preference(makers, {"ja": "A"})
    with pytest.raises(DataError, match="no expert belongs to a family"):
        votes.with_self_preference(makers, {"JA": "a"})
    with pytest.raises(DataError, match="already have a column 'length'"):
        votes.with_self_preference(makers, {"ja": "a"}, name="length")
