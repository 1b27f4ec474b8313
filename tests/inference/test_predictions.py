"""Laws of pairs and rankings against sums over all rankings of up to five items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, permutations

import numpy as np
import pytest

from concordant.arrays import Floats
from concordant.errors import KindError
from concordant.inference.predictions import (
    DavidsonLuceLaw,
    LuceLaw,
    MallowsLaw,
    davidson_law,
    mallows_before,
    rao_kupper_law,
    top_k_of_worths,
)


def luce(order: Sequence[int], score: Floats) -> float:
    worth, out = np.exp(score), 1.0
    for k in range(len(order)):
        out *= worth[order[k]] / worth[list(order[k:])].sum()
    return float(out)


def mallows(order: Sequence[int], place: Floats, theta: float) -> float:
    """Return the mean over the orders of the centre that its ties allow."""
    n = len(order)
    centres = [c for c in permutations(range(n)) if all(place[a] <= place[b] for a, b in pairwise(c))]

    def weight(one: Sequence[int], centre: Sequence[int]) -> float:
        apart = sum(one.index(a) > one.index(b) for a, b in combinations(centre, 2))
        return float(np.exp(theta * apart))

    return float(np.mean([weight(order, c) / sum(weight(o, c) for o in permutations(range(n))) for c in centres]))


def ordered_partitions(items: tuple[int, ...], largest: int) -> Iterator[list[tuple[int, ...]]]:
    if not items:
        yield []
    for q in range(1, min(largest, len(items)) + 1):
        for block in combinations(items, q):
            for rest in ordered_partitions(tuple(i for i in items if i not in block), largest):
                yield [block, *rest]


def test_luce_law_is_that_of_all_rankings() -> None:
    rng = np.random.default_rng(3)
    for n, spread in ((2, 1.0), (4, 8.0), (5, 2.0)):
        score = spread * rng.normal(size=n)
        law, chance = LuceLaw(score), {o: luce(o, score) for o in permutations(range(n))}
        assert all(np.exp(law.log_probability([[i] for i in o])) == pytest.approx(p) for o, p in chance.items())
        for k in range(1, n):
            want = [sum(p for o, p in chance.items() if i in o[:k]) for i in range(n)]
            assert law.top(k) == pytest.approx(want, rel=1e-12)
            top = sum(p for o, p in chance.items() if o[:k] == tuple(range(k)))
            assert np.exp(law.log_probability([[i] for i in range(k)])) == pytest.approx(top)


def test_top_k_of_many_items_adds_up_and_holds_the_extremes() -> None:
    score = np.concatenate([np.linspace(0, 3, 60), [60.0, -60.0]])
    for k in (2, 30):
        found = top_k_of_worths(score, k)
        assert found.sum() == pytest.approx(k, abs=1e-11)
        assert found[-2] == pytest.approx(1.0, abs=1e-12)
        assert 0 < found[-1] < 1e-24
        assert (np.diff(found[:60]) > 0).all()


@pytest.mark.parametrize("theta", [-1.3, -1e-4, 0.0, -25.0])
def test_mallows_law_is_that_of_all_rankings(theta: float) -> None:
    for place in ([3.0, 1.0, 2.0, 4.0], [1.0, 2.0, 2.0, 4.0], [1.0, 1.0, 1.0, 4.0]):
        law = MallowsLaw(np.array(place), theta)
        chance = {o: mallows(o, np.array(place), theta) for o in permutations(range(4))}
        assert all(np.exp(law.log_probability([[i] for i in o])) == pytest.approx(p) for o, p in chance.items())
        for k in (1, 2, 3):
            want = [sum(p for o, p in chance.items() if i in o[:k]) for i in range(4)]
            assert law.top(k) == pytest.approx(want, rel=1e-9, abs=1e-15)
            top = sum(p for o, p in chance.items() if o[:k] == (2, 0, 3)[:k])
            assert np.exp(law.log_probability([[i] for i in (2, 0, 3)[:k]])) == pytest.approx(top)


def test_mallows_pairs_depend_on_their_distance_alone() -> None:
    for theta in (-0.8, -1e-5, 0.0):
        for n in (2, 4):
            chance = {o: mallows(o, np.arange(n, dtype=float), theta) for o in permutations(range(n))}
            for i, j in combinations(range(n), 2):
                want = sum(p for o, p in chance.items() if o.index(i) < o.index(j))
                assert mallows_before(theta, np.array(j - i)) == pytest.approx(want, rel=1e-10)


def test_davidson_luce_law_is_that_of_all_ordered_partitions() -> None:
    score = np.array([1.2, -0.4, 0.3, 2.0, -1.0])
    law = DavidsonLuceLaw(score, np.array([1, 2, 3]), np.log([1.0, 0.7, 0.2]))
    chance = {tuple(b): np.exp(law.log_probability(b)) for b in ordered_partitions((0, 1, 2, 3, 4), 3)}
    assert sum(chance.values()) == pytest.approx(1.0)
    assert law.top(1) == pytest.approx([sum(p for b, p in chance.items() if i in b[0]) for i in range(5)])
    assert np.exp(law.log_probability([(0, 3)])) == pytest.approx(sum(p for b, p in chance.items() if b[0] == (0, 3)))
    assert law.log_probability([(0, 1, 2, 3)]) == -np.inf
    with pytest.raises(KindError, match="top k has no formula under Davidson-Luce"):
        law.top(2)


def test_laws_of_pairs_have_the_odds_of_their_models() -> None:
    gap = np.array([-800.0, -1.0, 0.0, 2.0, 700.0])
    for law in (davidson_law(gap), davidson_law(gap, np.log(0.4)), rao_kupper_law(gap, np.log(1.5))):
        assert np.sum(law, axis=0) == pytest.approx(1.0)
    win, tie, loss = davidson_law(gap[1:4], np.log(0.4))
    assert tie / np.sqrt(win * loss) == pytest.approx(0.4)
    assert win / loss == pytest.approx(np.exp(gap[1:4]))
    win, tie, loss = rao_kupper_law(gap[1:4], np.log(1.5))
    assert win / (1 - win) == pytest.approx(np.exp(gap[1:4]) / 1.5)
    assert (tie > 0).all()


def test_rankings_with_ties_are_refused_where_ties_have_no_probability() -> None:
    for law in (LuceLaw(np.zeros(3)), MallowsLaw(np.arange(3.0), -1.0)):
        with pytest.raises(KindError, match="a ranking with ties has no probability"):
            law.log_probability([[0, 1], [2]])
