"""Kernels of mixtures against sums in plain Python."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from concordant.kernels import mixtures

RNG = np.random.default_rng(3)


def lists_of(n: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return items, groups of ties and offsets of some lists, best first."""
    items, groups, lengths = [], [], []
    for _ in range(count):
        m = int(RNG.integers(2, n + 1))
        items += RNG.permutation(n)[:m].tolist()
        groups += np.cumsum(np.r_[0, RNG.random(m - 1) < 0.7]).tolist()
        lengths.append(m)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.array(items, dtype=np.int32), np.array(groups, dtype=np.int32), offsets


@pytest.mark.parametrize("below", [False, True])
def test_costs_and_discordances_count_pairs(below: bool) -> None:
    n = 6
    item, group, offsets = lists_of(n, 8)
    weight = RNG.random(8)
    want = np.zeros((n, n))
    place = RNG.permutation(n).astype(np.int64)
    apart = np.zeros(8)
    for k in range(8):
        level = {int(item[s]): int(group[s]) for s in range(offsets[k], offsets[k + 1])}
        if below:
            level = dict.fromkeys(range(n), 99) | level
        for i, g in level.items():
            for j, h in level.items():
                if g < h:
                    want[j, i] += weight[k]
                    apart[k] += place[j] < place[i]
    cost, found = np.empty((n, n)), np.empty(8)
    mixtures.preference_costs(item, group, offsets, weight, below, cost)
    mixtures.discordances(place, item, group, offsets, below, found)
    np.testing.assert_allclose(cost, want, atol=1e-12)
    assert found.tolist() == apart.tolist()


def test_insertion_search_ends_where_no_move_helps_and_finds_most_optima() -> None:
    def total(cost: np.ndarray, order: tuple[int, ...]) -> float:
        return float(sum(cost[i, j] for s, i in enumerate(order) for j in order[s + 1 :]))

    optimal = 0
    for _ in range(20):
        cost = RNG.random((6, 6))
        order = np.arange(6)
        value = mixtures.insertion_search(cost, order)
        assert value == pytest.approx(total(cost, tuple(order.tolist())))
        for s in range(6):
            rest = [i for i in order.tolist() if i != order[s]]
            for t in range(6):
                assert value <= total(cost, (*rest[:t], int(order[s]), *rest[t:])) + 1e-8
        optimal += value <= min(total(cost, p) for p in permutations(range(6))) + 1e-9
    assert optimal >= 15


def test_plackett_luce_lists_have_the_probability_of_their_choices() -> None:
    score = RNG.normal(size=6)
    x = score - score.max()
    item, _, offsets = lists_of(6, 5)
    form = np.array([0, 2, 0, 2, 0], dtype=np.uint8)
    mark = np.ones(len(item), dtype=np.uint8)
    for k in range(5):
        if form[k] == 0:
            mark[offsets[k + 1] - 1] = 2
    # A list of all items has no rest.
    form[np.diff(offsets) == 6] = 0
    mark[offsets[1:][form == 0] - 1] = 2
    out = np.empty(5)
    mixtures.ranking_log_likelihoods(x, np.exp(x), item, mark, offsets, form, True, out)
    for k in range(5):
        own = item[offsets[k] : offsets[k + 1]].tolist()
        left = own if form[k] == 0 else list(range(6))
        want, pool = 0.0, np.exp(score[left]).sum()
        for i in own if form[k] else own[:-1]:
            want += score[i] - np.log(pool)
            pool -= np.exp(score[i])
        assert out[k] == pytest.approx(want)


def test_pairs_of_lists_add_their_log_probabilities() -> None:
    item, group, offsets = lists_of(5, 4)
    win, tie = RNG.normal(size=(5, 5)), RNG.normal(size=(5, 5))
    tie += tie.T
    value = group.astype(np.float64) ** 2
    for binary, ties in ((True, True), (True, False), (False, False)):
        out = np.empty(4)
        mixtures.list_pair_values(value, item, offsets, binary, ties, win, tie, out)
        for k in range(4):
            rows, want = range(offsets[k], offsets[k + 1]), 0.0
            for s in rows:
                for t in rows:
                    gap = value[t] - value[s]
                    if gap > 0:
                        want += (1.0 if binary else gap) * win[item[s], item[t]]
                    elif gap == 0 and s < t and ties:
                        want += tie[item[s], item[t]]
            assert out[k] == pytest.approx(want)
