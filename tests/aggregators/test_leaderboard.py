"""Leaderboard: votes in batches give the board of all votes at once, also after saving, and late or odd votes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.base.saving import read_arrays, write_arrays
from concordant.errors import ConcordantError, DataError, DataWarning, FormatError, KindError, ParameterError

# The first batches do not place all items, and few judges see the last one.
pytestmark = [
    pytest.mark.filterwarnings("ignore::concordant.errors.IdentifiabilityWarning"),
    pytest.mark.filterwarnings("ignore:fewer than 5 experts:concordant.errors.UncertaintyWarning"),
]

SETTINGS: list[dict[str, Any]] = [
    {},
    {"side_effect": True, "anchor": "i3"},
    {"reliability": True, "max_iter": 500},
    {"half_life": 400.0},
]


def votes(n: int = 4000, seed: int = 1) -> cc.Comparisons:
    """Return votes with ties, by judges, in the order of their times, with a category and one more item at the end."""
    sample = cc.synthetic.bradley_terry(12, n, ties=0.4, n_experts=15, unreliable=0.2, random_state=seed).comparisons
    late = cc.Comparisons("q", ["e1", "e2", "e2"], ["late", "i1", "late"], ["i1", "late", "i2"], [2, 1, 1], [1, 0, 2])
    both = cc.concat([sample, late])
    frame = both.to_frame().with_row_index("time")
    category = ["code" if k % 3 else "chat" for k in range(both.n_rows)]
    return cc.Comparisons(
        frame["instance"],
        frame["expert"],
        frame["left"],
        frame["right"],
        frame["n_left"],
        frame["n_right"],
        frame["n_ties"],
        time=frame["time"],
        category=category,
    )


def batches(given: cc.Comparisons, seed: int) -> list[cc.Comparisons]:
    edges = np.sort(np.random.default_rng(seed).choice(np.arange(1, given.n_rows), 9, replace=False))
    return [given.select_rows(part) for part in np.split(np.arange(given.n_rows), edges)]


def by_item(board: cc.Consensus, column: str = "score") -> dict[str, float]:
    return dict(zip(board.items.tolist(), getattr(board, column).tolist(), strict=True))


@pytest.mark.parametrize("params", SETTINGS, ids=lambda p: "-".join(p) or "plain")
def test_votes_in_batches_give_the_board_of_all_votes(params: dict[str, Any]) -> None:
    every = votes()
    arena = cc.Leaderboard(cc.BradleyTerry(**params))
    for batch in batches(every, 3):
        scores = arena.update(batch)
    want = cc.BradleyTerry(**params).fit_predict(every)
    tolerance = 1e-6 if "reliability" in params else 1e-9
    assert by_item(scores) == pytest.approx(by_item(want), abs=tolerance)
    board = arena.board()
    for column in ("score", "stderr", "rank_lower", "rank_upper"):
        assert by_item(board, column) == pytest.approx(by_item(want, column), abs=max(tolerance, 1e-8)), column
    assert arena.n_votes == every.outcomes.sum()
    # Judges, sides and categories survive; times are in the counts.
    assert arena.votes.n_experts == 15
    assert arena.votes.categories == ["chat", "code"]
    assert arena.votes.n_rows < every.n_rows


def test_a_leaderboard_goes_on_from_its_file(tmp_path: Path) -> None:
    every = votes()
    parts = batches(every, 5)
    file = tmp_path / "board.state"
    model = cc.BradleyTerry(half_life=1000.0, side_effect=True)
    arena = cc.Leaderboard(model)
    for batch in parts:
        arena.update(batch)
        arena.save(file)
        arena = cc.Leaderboard.load(file)
    want = model.fit_predict(every)
    assert by_item(arena.board()) == pytest.approx(by_item(want), abs=1e-9)
    assert arena.fitted.side_ == pytest.approx(model.side_, abs=1e-9)
    assert arena.n_votes == every.outcomes.sum()


def by_period(given: cc.Comparisons, length: float) -> cc.Comparisons:
    """Return the votes with the begin of their period as their time."""
    return given.with_columns(given.columns._replace(time=given.time // length * length))


@pytest.mark.parametrize("params", [{}, {"half_life": 700.0}, {"half_life": 700.0, "reliability": True}])
def test_a_board_with_periods_changes_its_half_life_and_drops_old_votes(params: dict[str, Any], tmp_path: Path) -> None:
    every = votes()
    parts = batches(every, 11)
    order = np.random.default_rng(2).permutation(len(parts))
    arena = cc.Leaderboard(cc.BradleyTerry(**params), period=100.0)
    for k in order:
        scores = arena.update(parts[k])
    arena.save(tmp_path / "board.state")
    arena = cc.Leaderboard.load(tmp_path / "board.state")
    dated = by_period(every, 100.0)
    tolerance = 1e-6 if "reliability" in params else 1e-9
    assert by_item(scores) == pytest.approx(by_item(cc.BradleyTerry(**params).fit_predict(dated)), abs=tolerance)
    assert arena.votes.n_rows < every.n_rows
    for half_life in (None, 90.0, 2000.0):
        changed = arena.with_half_life(half_life)
        want = cc.BradleyTerry(**params | {"half_life": half_life}).fit_predict(dated)
        assert by_item(changed.board()) == pytest.approx(by_item(want), abs=tolerance)
        assert changed.n_votes == every.outcomes.sum()
    # Periods that end by 1250 are those before 1200.
    late = dated.select_rows(dated.time >= 1200)
    assert by_item(arena.drop_before(1250)) == pytest.approx(
        by_item(cc.BradleyTerry(**params).fit_predict(late)), abs=tolerance
    )
    assert arena.n_votes == late.outcomes.sum()
    more = votes(500, seed=9)
    arena.update(more)
    both = cc.concat([late, by_period(more, 100.0)])
    assert by_item(arena.board()) == pytest.approx(by_item(cc.BradleyTerry(**params).fit_predict(both)), abs=tolerance)
    with pytest.raises(DataError, match="none would be left"):
        arena.drop_before(1e9)
    wrong: Any
    for wrong in ("2024-01-01", None, np.nan, np.inf, 10**400, True):
        with pytest.raises(ParameterError, match="the 'time' parameter of drop_before must be a number"):
            arena.drop_before(wrong)


def test_without_a_period_counts_hold_no_times() -> None:
    every = votes(300)
    arena = cc.Leaderboard(cc.BradleyTerry(half_life=90.0), every)
    with pytest.raises(ConcordantError, match=r"change the half-life: the counts have no times.*period='1d'"):
        arena.with_half_life(10.0)
    with pytest.raises(ConcordantError, match="drop votes by their times: the counts have no times"):
        arena.drop_before(10.0)
    with pytest.raises(ConcordantError, match="period"):
        cc.Leaderboard(period="daily")
    with pytest.raises(DataError, match=r"period= counts votes by their times.*time='COLUMN'"):
        cc.Leaderboard(period="1d", votes=every.without_columns())


def test_late_votes_count_by_their_age() -> None:
    every = votes(600)
    parts = batches(every, 7)
    arena = cc.Leaderboard(cc.BradleyTerry(half_life=50.0), parts[-1])
    for batch in parts[:-1]:
        scores = arena.update(batch)
    want = cc.BradleyTerry(half_life=50.0, uncertainty="none").fit_predict(every)
    assert by_item(scores) == pytest.approx(by_item(want), abs=1e-9)


def test_votes_that_do_not_fit_change_nothing() -> None:
    every = votes(500)
    arena = cc.Leaderboard(cc.BradleyTerry(half_life=50.0), every)
    before, n = by_item(arena.board()), arena.n_votes
    frame = every.select_rows(range(5))
    for odd in (frame.without_columns(), frame.select_experts(["e1"]).collapse(keep=["time", "category"])):
        with pytest.raises(DataError):
            arena.update(odd)
    with pytest.raises(KindError):
        arena.update(cc.from_lists({"x": ["a", "b"]}))  # type: ignore[arg-type]
    assert (by_item(arena.board()), arena.n_votes) == (before, n)
    with pytest.raises(KindError, match="RRF"):
        cc.Leaderboard("rrf")
    with pytest.raises(ConcordantError, match="no votes yet"):
        cc.Leaderboard().board()


def _damage(header: dict[str, Any], arrays: dict[str, Any], what: str) -> None:
    if what == "code":
        arrays["left"][0] = 99
    elif what == "count":
        arrays["n_left"][0] = np.nan
    elif what == "large count":
        arrays["n_left"][0] = 1e300
    elif what == "self":
        arrays["right"][0] = arrays["left"][0]
    elif what == "length":
        arrays["n_ties"] = arrays["n_ties"][:-1]
    elif what == "sizes":
        header["sizes"] = [3]
    elif what == "items":
        header["items"][1] = header["items"][0]
    elif what == "expert":
        arrays["expert"][0] = -1
    elif what == "extra":
        arrays["more"] = np.zeros(2)
    elif what == "params":
        header["params"]["prior"] = -1
    elif what == "unknown":
        header["params"]["colour"] = "red"
    elif what == "votes":
        header["n_votes"] = -1.0
    else:
        del header["latest"]


HARM = [
    "code",
    "count",
    "large count",
    "self",
    "length",
    "sizes",
    "items",
    "expert",
    "extra",
    "params",
    "unknown",
    "votes",
    "missing",
]


@pytest.mark.parametrize("what", HARM)
def test_a_manipulated_file_is_refused(tmp_path: Path, what: str) -> None:
    file = tmp_path / "board.state"
    cc.Leaderboard(cc.BradleyTerry(), votes(300)).save(file)
    header, arrays = read_arrays(file, "leaderboard")
    kept = ("checksum", "format", "version", "kind")
    header = {name: value for name, value in header.items() if name not in kept}
    _damage(header, arrays, what)
    write_arrays(file, "leaderboard", header, arrays)
    with pytest.raises(FormatError, match=r"board\.state"):
        cc.Leaderboard.load(file)


def test_a_leaderboard_is_no_model_and_a_model_no_leaderboard(tmp_path: Path) -> None:
    file = tmp_path / "board.state"
    cc.Leaderboard(cc.BradleyTerry(), votes(300)).save(file)
    with pytest.raises(FormatError, match=r"Leaderboard\.load"):
        cc.load(file)
    cc.RRF().save(file)
    with pytest.raises(FormatError, match=r"concordant\.load"):
        cc.Leaderboard.load(file)


def test_votes_that_are_added_twice_are_noticed(tmp_path: Path) -> None:
    one, two = (cc.synthetic.bradley_terry(6, 300, random_state=n).comparisons for n in (1, 2))
    arena = cc.Leaderboard("bradley-terry", one)
    arena.update(two)
    arena.save(tmp_path / "state")
    again = cc.Leaderboard.load(tmp_path / "state")
    with pytest.warns(DataWarning, match="an earlier update added exactly the same 300 votes"):
        again.update(one)
    assert again.n_votes == 900.0
    # Other votes of the same number are no reason to warn.
    again.update(cc.synthetic.bradley_terry(6, 300, random_state=3).comparisons)
