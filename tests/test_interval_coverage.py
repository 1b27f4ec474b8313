"""The promise of the intervals on a few data sets with a known truth; benchmarks/models_coverage.py keeps it on 500."""

import numpy as np
import pytest

import concordant as cc

ITEMS = 12
NAMES = [f"i{n}" for n in range(ITEMS)]
LEFT, RIGHT = np.triu_indices(ITEMS, 1)


def truth(rng):
    s = rng.normal(scale=0.7, size=ITEMS)
    return s - s.mean()


def outcomes(rng, left, right, chances, expert=None):
    u = rng.random(len(left))
    drawn = np.where(u < chances[0], 0, np.where(u < chances[0] + chances[1], 1, 2))
    return cc.Comparisons(
        "q",
        None if expert is None else [f"e{e}" for e in expert],
        [NAMES[i] for i in left],
        [NAMES[j] for j in right],
        *((drawn == o).astype(float) for o in range(3)),
        items=[("q", name) for name in NAMES],
    )


def some_pairs(rng, n):
    left = rng.integers(0, ITEMS, n)
    return left, (left + rng.integers(1, ITEMS, n)) % ITEMS


def plain(d):
    p = 1 / (1 + np.exp(-d))
    return p, 1 - p


def davidson(d, nu=0.7):
    a, b = np.exp(d / 2), np.exp(-d / 2)
    return a / (a + b + nu), b / (a + b + nu)


def rao_kupper(d, theta=1.7):
    return 1 / (1 + theta * np.exp(-d)), 1 / (1 + theta * np.exp(d))


def compared(law):
    def sample(rng):
        s = truth(rng)
        left, right = some_pairs(rng, 25 * ITEMS)
        return outcomes(rng, left, right, law(s[left] - s[right])), s

    return sample


def multinomial(rng):
    # One out of all ordered pairs at a time, with weight exp(s_i - s_j).
    s = truth(rng)
    weight = np.exp(s[:, None] - s[None, :]) * (1 - np.eye(ITEMS))
    drawn = rng.choice(ITEMS * ITEMS, size=25 * ITEMS, p=(weight / weight.sum()).ravel())
    sure = np.ones(len(drawn)), np.zeros(len(drawn))
    return outcomes(rng, drawn // ITEMS, drawn % ITEMS, sure), s


def ranked(lists, length):
    def sample(rng):
        s = truth(rng)
        pool = rng.random((lists, ITEMS)).argsort(axis=1)[:, :length]
        seen = s[pool] + rng.gumbel(size=pool.shape)
        orders = np.take_along_axis(pool, (-seen).argsort(axis=1), axis=1)
        return (
            cc.Preferences(
                ["q"] * orders.size,
                [f"e{e}" for e in range(lists) for _ in range(length)],
                [NAMES[i] for i in orders.ravel()],
                np.tile(np.arange(1.0, length + 1), lists),
                kind="rank",
                items=[("q", name) for name in NAMES],
            ),
            s,
        )

    return sample


def shares(method, sample, data_sets=200):
    """Shares of scores, differences and ranks inside their intervals."""
    seen = []
    for n in range(data_sets):
        data, s = sample(np.random.default_rng([11, n]))
        found = method.fit_predict(data)
        assert found.items.tolist() == NAMES
        block = found.covariance[0]
        reach = (found.upper[0] - found.score[0]) / found.stderr[0]
        margin = reach * np.sqrt(block[LEFT, LEFT] + block[RIGHT, RIGHT] - 2 * block[LEFT, RIGHT])
        rank = 1 + (s[None, :] > s[:, None]).sum(axis=1)
        seen.append(
            [
                ((found.lower <= s) & (s <= found.upper)).mean(),
                (np.abs(found.score[LEFT] - found.score[RIGHT] - s[LEFT] + s[RIGHT]) <= margin).mean(),
                ((found.rank_lower <= rank) & (rank <= found.rank_upper)).mean(),
            ]
        )
    return np.mean(seen, axis=0)


CASES = {
    "bradley-terry": (cc.BradleyTerry, compared(plain)),
    "bradley-terry, no prior": (lambda: cc.BradleyTerry(prior=0), compared(plain)),
    "davidson": (lambda: cc.BradleyTerry(ties="davidson"), compared(davidson)),
    "rao-kupper": (lambda: cc.BradleyTerry(ties="rao-kupper"), compared(rao_kupper)),
    "mpm": (cc.MPM, multinomial),
    "plackett-luce by information": (lambda: cc.PlackettLuce(uncertainty="information"), ranked(60, 5)),
    "plackett-luce": (cc.PlackettLuce, ranked(60, 5)),
    "plackett-luce, no prior": (lambda: cc.PlackettLuce(prior=0), ranked(60, 5)),
    "pairs of rankings": (cc.BradleyTerry, ranked(60, 8)),
}


@pytest.mark.parametrize("case", CASES)
def test_ninety_five_percent_intervals_cover_about_that(case):
    method, sample = CASES[case]
    scores, differences, ranks = shares(method(), sample)
    assert 0.93 <= scores <= 0.97
    assert 0.93 <= differences <= 0.97
    assert ranks >= 0.95


@pytest.mark.parametrize("method", [cc.PlackettLuce, cc.BradleyTerry])
def test_short_lists_give_scores_on_the_scale_of_the_truth_and_ranges_no_wider_than_they_need_be(method):
    inside, found, true, held, width = [], [], [], [], []
    for n in range(40):
        rng = np.random.default_rng([5, n])
        s = rng.normal(size=10)
        pool = rng.random((60, 10)).argsort(axis=1)[:, :4]
        orders = np.take_along_axis(pool, (-(s[pool] + rng.gumbel(size=pool.shape))).argsort(axis=1), axis=1)
        data = cc.from_lists({f"e{k}": [f"i{i}" for i in order] for k, order in enumerate(orders)})
        got, wide = (method(rank_ranges=r).fit_predict(data) for r in ("marginal", "simultaneous"))
        s = np.array([s[int(i[1:])] for i in got.items]) - s.mean()
        rank = 1 + (s[None, :] > s[:, None]).sum(axis=1)
        inside.append((got.lower <= s) & (s <= got.upper))
        found.append(got.score)
        true.append(s)
        held.append([(c.rank_lower <= rank) & (rank <= c.rank_upper) for c in (got, wide)])
        width.append([c.rank_upper - c.rank_lower for c in (got, wide)])
    true, found = np.concatenate(true), np.concatenate(found)
    assert 0.90 <= np.mean(inside) <= 0.99
    assert 0.9 <= true @ found / (true @ true) <= 1.15
    marginal, simultaneous = np.mean(held, axis=(0, 2))
    assert 0.94 <= marginal <= 0.995
    assert simultaneous > 0.99
    narrow, wide = np.mean(width, axis=(0, 2))
    assert narrow < 0.75 * wide


def test_pairs_of_one_ranking_are_not_independent_outcomes():
    naive = cc.BradleyTerry(prior=0, uncertainty="information")
    assert shares(naive, ranked(60, 8), 30)[1] < 0.88
