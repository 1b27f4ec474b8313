"""Items few experts speak of: their intervals are as wide as what was said about them, never the narrowest of all."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.aggregators import _pairwise_outcomes
from concordant.errors import ConcordantWarning, UncertaintyWarning

WAYS: list[dict[str, Any]] = [{}, {"uncertainty": "bootstrap", "n_bootstrap": 100}]


@pytest.fixture
def quiet() -> Iterator[None]:
    """Let a method name the rare items; how wide their intervals are is what is looked at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        yield


def of_item(found: cc.Consensus, column: Any) -> dict[str, float]:
    return dict(zip(found.items.tolist(), column.tolist(), strict=True))


def long_list() -> cc.Preferences:
    """Return sixty lists of ten items, and one of a hundred others that nobody else ranks, around one of the ten."""
    rng = np.random.default_rng(8)
    lists = {}
    for k in range(60):
        seen = np.linspace(1, -1, 10) + rng.gumbel(size=10)
        lists[f"e{k}"] = [f"i{i}" for i in np.argsort(-seen)]
    others = [f"x{i}" for i in range(100)]
    return cc.from_lists(lists | {"alone": [*others[:50], "i4", *others[50:]]})


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("method", [cc.PlackettLuce, cc.BradleyTerry])
def test_what_one_list_alone_ranks_is_no_surer_than_its_choices_say(method: Any, way: dict[str, Any]) -> None:
    votes = long_list()
    found, plain = (method(**params).fit_predict(votes) for params in (way, {"uncertainty": "information"}))
    rare = np.char.startswith(np.array(found.items.tolist()), "x")
    assert rare.sum() == 100
    assert (found.stderr[rare] >= 0.95 * plain.stderr[rare]).all()
    assert found.stderr[rare].min() > found.stderr[~rare].max()


def arena(judges: int, votes_on_new: int = 6) -> cc.Comparisons:
    """Return an established field of eight with twenty judges, and a newcomer known to the first few of them."""
    rng = np.random.default_rng(5)
    strength = np.linspace(1.2, -1.2, 8)
    rows = []
    for j in range(20):
        for _ in range(40):
            a, b = rng.choice(8, size=2, replace=False)
            won = rng.random() < 1 / (1 + np.exp(strength[b] - strength[a]))
            rows.append((f"j{j}", f"m{a}", f"m{b}", float(won)))
    # As many wins as losses.
    rows += [(f"j{k % judges}", "new", f"m{2 + k % 4}", float((k // judges) % 2)) for k in range(votes_on_new)]
    expert, left, right, won = (list(column) for column in zip(*rows, strict=True))
    return cc.Comparisons("arena", expert, left, right, won, [1 - w for w in won], sided=False)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("way", [*WAYS, {"reliability": True}], ids=str)
@pytest.mark.parametrize("judges", [1, 2, 3])
def test_a_newcomer_with_six_votes_is_as_uncertain_as_six_votes_are(judges: int, way: dict[str, Any]) -> None:
    votes = arena(judges)
    found = cc.BradleyTerry(**way).fit_predict(votes)
    plain = cc.BradleyTerry(**(way | {"uncertainty": "information"})).fit_predict(votes)
    width, least = (of_item(c, c.upper - c.lower) for c in (found, plain))
    # Judges who agree about it make it a little surer, as they would anything else.
    assert width["new"] >= 0.9 * least["new"]
    assert width["new"] > 2.5
    field = [w for item, w in width.items() if item != "new"]
    assert max(field) < 0.5 * width["new"]
    low, high = of_item(found, found.rank_lower)["new"], of_item(found, found.rank_upper)["new"]
    assert high - low >= 3


def test_newcomers_are_named_once() -> None:
    method = cc.BradleyTerry()
    with pytest.warns(UncertaintyWarning, match=r"fewer than 5 experts speak of items \['new'\] of .* 'arena'") as said:
        method.fit_predict(arena(2))
    assert len(said) == 1
    assert len(method.fit_info_.warnings) == 1
    cc.BradleyTerry().fit_predict(arena(6, votes_on_new=24))  # a warning would be an error here


def test_no_draw_of_a_bootstrap_loses_an_item() -> None:
    compared = _pairwise_outcomes.ComparisonOutcomes(arena(1), ties=True, sided=False)
    ranked = _pairwise_outcomes.ListOutcomes.of(long_list(), "binary", ties=False)
    for votes in (compared, ranked):
        stream = np.random.default_rng(2)
        for _ in range(20):
            drawn = votes.resampled([stream])
            assert (drawn.outcomes[votes.pairs.outcomes > 0] > 0).all()


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("transform", ["count", "binary"])
def test_a_film_with_one_rating_has_not_one_of_the_smallest_errors(way: dict[str, Any], transform: str) -> None:
    rng = np.random.default_rng(3)
    liked = rng.normal(size=24)
    rows = [
        (f"u{u}", f"f{f}", float(np.clip(np.rint(3 + liked[f] + rng.normal()), 1, 5)))
        for u in range(60)
        for f in np.flatnonzero(rng.random(24) < 0.6).tolist()
    ]
    rows += [("u0", "rare", 3.0), ("u1", "twice", 4.0), ("u2", "twice", 3.0)]
    user, film, stars = (list(column) for column in zip(*rows, strict=True))
    votes = cc.Preferences(["q"] * len(rows), user, film, stars, kind="rating")
    found = cc.MPM(transform=transform, **way).fit_predict(votes)
    error = of_item(found, found.stderr)
    plain = cc.MPM(transform=transform, uncertainty="information").fit_predict(votes)
    least = of_item(plain, plain.stderr)
    for film in ("rare", "twice"):
        assert (found.stderr < error[film]).sum() > len(votes.items) // 5
        assert error[film] >= least[film]
