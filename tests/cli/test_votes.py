"""Votes on the command line: the method by default, which rows count, and leaderboards that are updated."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import VOTES, Invoke

import concordant as cc
from concordant.errors import DataError


def arena(path: Path, rows: range, seed: int = 4) -> Path:
    """Write some of 600 votes on eight models by forty judges, in LMArena's layout; lengths and times with them."""
    rng = np.random.default_rng(seed)
    n = 600
    theta = np.linspace(1.0, -1.0, 8)
    a = rng.integers(0, 8, n)
    b = (a + rng.integers(1, 8, n)) % 8
    length_a, length_b = rng.integers(20, 300, n), rng.integers(20, 300, n)
    won = rng.random(n) < 1 / (1 + np.exp(theta[b] - theta[a] - 0.01 * (length_a - length_b)))
    tied = rng.random(n) < 0.2
    winner = np.where(tied, np.where(rng.random(n) < 0.5, "tie", "tie (bothbad)"), np.where(won, "model_a", "model_b"))
    names = np.array([f"m{i}" for i in range(8)])
    frame = pl.DataFrame(
        {
            "model_a": names[a],
            "model_b": names[b],
            "winner": winner,
            "judge": np.char.add("u", rng.integers(0, 40, n).astype(str)),
            "language": np.array(["English", "German"])[rng.integers(0, 2, n)],
            "tstamp": 1.7e9 + np.sort(rng.integers(0, 86400 * 60, n)),
            "length_a": length_a,
            "length_b": length_b,
        }
    )
    frame[list(rows)].write_csv(path)
    return path


def board(result: Any) -> dict[str, dict[str, float]]:
    return {row["item"]: row for row in json.loads(result.stdout)["results"]}


def assert_same(one: dict[str, dict[str, float]], other: dict[str, dict[str, float]], *without: str) -> None:
    assert set(one) == set(other)
    for item, row in one.items():
        for name, value in row.items():
            if name not in ("instance", "item", *without):
                assert value == pytest.approx(other[item][name], abs=1e-9), (item, name)


def test_votes_are_fitted_by_bradley_terry_and_runs_stay_fused(invoke: Invoke, files: Path) -> None:
    result = invoke("aggregate", files / "votes.csv")
    assert "method: bradley-terry, because the input is votes of pairs" in result.stderr
    named = invoke("aggregate", files / "votes.csv", "-m", "bradley-terry")
    assert named.stdout == result.stdout
    assert "method:" not in named.stderr
    assert json.loads(invoke("aggregate", files / "votes.csv", "--json").stdout)["params"]["method"] == "bradley-terry"
    assert json.loads(invoke("aggregate", files / "runs", "--json").stdout)["params"]["method"] == "rrf"
    (files / "odd.csv").write_text("a,b\nx,y\nx,y\ny,x\n")
    named = invoke("aggregate", files / "odd.csv", "--columns", "winner=a,loser=b", "--json")
    assert json.loads(named.stdout)["params"]["method"] == "bradley-terry"
    (files / "stars.csv").write_text("user,item,rating\nann,a,5\nann,b,3\n")
    assert "method: rrf, the default; for ratings" in invoke("aggregate", files / "stars.csv").stderr


def test_which_rows_count(invoke: Invoke, tmp_path: Path) -> None:
    path = arena(tmp_path / "votes.csv", range(600))
    args = ("aggregate", path, "--where", "language=English", "--where", "tstamp>=2023-12-01", "--max-per-expert", "5")
    result = invoke(*args, "--equal-weight", "pairs")
    votes = cc.read_comparisons(path, where=["language=English", "tstamp>=2023-12-01"])
    kept = votes.cap_experts(5)
    told = (
        f"--max-per-expert: left out {votes.n_rows - kept.n_rows} of {votes.n_rows} votes; kept are drawn with seed 0."
    )
    assert told in result.stderr
    assert re.search(r"--where 'language=English': left out \d+ of 600 rows\.", result.stderr)
    want = cc.BradleyTerry().fit_predict(kept.equal_weights("pairs"))
    found = board(invoke(*args, "--equal-weight", "pairs", "--json"))
    assert {item: row["score"] for item, row in found.items()} == pytest.approx(
        dict(zip(want.items, want.score.tolist(), strict=True))
    )
    asked = json.loads(invoke(*args, "--json").stdout)["params"]["notes"]
    assert [note.split(":")[0] for note in asked] == [
        "--where 'language=English'",
        "--where 'tstamp>=2023-12-01'",
        "1" if asked[2].startswith("1 ") else asked[2].split(":")[0],
        "--max-per-expert",
    ]
    assert "the first in the order of the rows" in invoke("aggregate", path, "--max-per-expert", "3:first").stderr
    once = invoke("aggregate", path, "--distinct", "expert,pair", "--json")
    assert sum(row["n"] for row in board(once).values()) == 2 * cc.read_comparisons(path, distinct="expert,pair").n_rows


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--max-per-expert", "0", "must be a whole number >= 1"),
        ("--max-per-expert", "5:best", "must be a whole number >= 1"),
        ("--equal-weight", "users", "must be one of experts, pairs"),
    ],
)
def test_options_of_votes_that_mean_nothing(invoke: Invoke, files: Path, option: str, value: str, said: str) -> None:
    assert said in re.sub(r"[\s│]+", " ", invoke("aggregate", files / "votes.csv", option, value, code=2).stderr)


def test_options_of_votes_are_refused_for_runs(invoke: Invoke, files: Path) -> None:
    assert "does not take ['where']" in invoke("aggregate", files / "runs", "--where", "a=b", code=1).stderr
    for option in (("--max-per-expert", "3"), ("--equal-weight", "pairs")):
        assert f"{option[0]} is about votes of pairs" in invoke("aggregate", files / "runs", *option, code=1).stderr


def test_times_are_read_where_the_method_needs_them(invoke: Invoke, tmp_path: Path) -> None:
    path = arena(tmp_path / "votes.csv", range(600))
    found = board(invoke("aggregate", path, "-p", "half_life=10d", "--json"))
    want = cc.BradleyTerry(half_life="10d").fit_predict(cc.read_comparisons(path, time="tstamp"))
    assert [found[item]["score"] for item in want.items] == pytest.approx(want.score.tolist())
    (tmp_path / "plain.csv").write_text(VOTES)
    assert (
        "no column for time was found"
        in invoke("aggregate", tmp_path / "plain.csv", "-p", "half_life=10d", code=1).stderr
    )


@pytest.mark.parametrize("settings", [[], ["-p", "half_life=20d"], ["-p", "side_effect=true"]])
def test_updates_are_a_fit_to_all_votes(invoke: Invoke, tmp_path: Path, settings: list[str]) -> None:
    state = tmp_path / "board.state"
    edges = [0, 250, 251, 400, 600]
    for start, end in itertools.pairwise(edges):
        part = arena(tmp_path / f"{start}.csv", range(start, end))
        found = invoke("aggregate", "--update", state, part, *(settings if start == 0 else []), "--json")
    said = json.loads(found.stdout)["params"]
    assert (said["votes_added"], said["votes"], said["method"]) == (200.0, 600.0, "bradley-terry")
    whole = invoke("aggregate", arena(tmp_path / "all.csv", range(600)), *settings, "--json")
    # With a half-life the state knows what comparisons weigh, not how many there were.
    assert_same(board(found), board(whole), *(["n"] if "half_life=20d" in settings else []))
    assert not [p for p in tmp_path.iterdir() if "state" in p.name and p != state]


def test_a_board_with_periods_takes_another_half_life(invoke: Invoke, tmp_path: Path) -> None:
    state, one, two = tmp_path / "board.state", tmp_path / "1.csv", tmp_path / "2.csv"
    arena(one, range(300))
    arena(two, range(300, 600))
    refused = invoke("aggregate", one, "--period", "1d", code=2).stderr
    assert "--update" in refused
    invoke("aggregate", "--update", state, one, "--period", "1d")
    invoke("aggregate", "--update", state, two, "-p", "half_life=20d", "--json")
    votes = cc.concat([cc.read_comparisons(path, time=True) for path in (one, two)])
    day = votes.with_columns(votes.columns._replace(time=votes.time // 86_400 * 86_400))
    want = cc.BradleyTerry(half_life="20d").fit_predict(day)
    kept = cc.Leaderboard.load(state)
    board = kept.board()
    assert dict(zip(board.items, board.score, strict=True)) == pytest.approx(
        dict(zip(want.items, want.score, strict=True)), abs=1e-9
    )
    assert kept.method.half_life == "20d"
    said = invoke("aggregate", "--update", state, one, "--period", "1w", code=1).stderr
    assert "keeps periods of 1d, and --period says 1w" in said
    said = invoke("aggregate", "--update", state, one, "-p", "prior=1", code=1).stderr
    assert "was made with prior=" in said


def test_an_update_prints_writes_and_keeps_judges(invoke: Invoke, tmp_path: Path) -> None:
    state, first = tmp_path / "board.state", arena(tmp_path / "1.csv", range(300))
    second, judges = arena(tmp_path / "2.csv", range(300, 600)), tmp_path / "judges.csv"
    assert "wrote " in invoke("aggregate", "--update", state, first).stderr
    result = invoke("aggregate", "--update", state, second, "--experts-out", judges, "-n", "3")
    assert "300 votes added, 600 in all." in result.stderr
    assert "5 more" in result.stdout
    whole = arena(tmp_path / "all.csv", range(600))
    invoke("aggregate", whole, "--experts-out", tmp_path / "want.csv")
    want, found = (pl.read_csv(p).sort("expert") for p in (tmp_path / "want.csv", judges))
    assert found["expert"].to_list() == want["expert"].to_list()
    for column in ("coverage", "agreement"):
        assert found[column].to_list() == pytest.approx(want[column].to_list())
    scaled = invoke(
        "aggregate", "--update", state, arena(tmp_path / "4.csv", range(9)), "--scale", "elo", "--anchor", "m7"
    )
    assert "Elo scale: item 'm7' is at 1000" in scaled.stderr
    out = tmp_path / "board.csv"
    invoke("aggregate", "--update", state, arena(tmp_path / "3.csv", range(5)), "-o", out, "-q")
    assert pl.read_csv(out).height == 8


@pytest.mark.parametrize("state", ["-", "/dev/stdout", "/dev/null"])
def test_a_leaderboard_is_kept_in_a_file(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    votes = arena(tmp_path / "1.csv", range(300))
    monkeypatch.chdir(tmp_path)
    said = invoke("aggregate", "--update", state, votes, code=1).stderr
    assert f"--update {state}: a leaderboard is kept in a file, not in a pipe." in said
    assert [p.name for p in tmp_path.iterdir()] == ["1.csv"]


def test_a_failed_update_changes_nothing(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, votes = tmp_path / "board.state", arena(tmp_path / "1.csv", range(300))
    invoke("aggregate", "--update", state, votes, "-p", "half_life=20d")
    before = state.read_bytes()

    def refused(*args: Any, said: str) -> None:
        assert said in invoke("aggregate", "--update", state, *args, code=1).stderr
        assert state.read_bytes() == before

    (tmp_path / "plain.csv").write_text(VOTES)
    refused(tmp_path / "plain.csv", said="no column for time was found")
    refused(votes, "-p", "half_life=30d", said="was made with half_life='20d', and keeps its settings")
    refused(votes, "-m", "copeland", said="--update keeps the counts of a bradley-terry board")
    (tmp_path / "w.csv").write_text("winner,loser,tstamp\nm1,m2,1.7e9\n")
    refused(tmp_path / "w.csv", said="cannot join comparisons with")
    (tmp_path / "bad.csv").write_text("model_a,model_b,winner,judge,tstamp\nm1,m2,who,u1,1.7e9\n")
    refused(tmp_path / "bad.csv", said="bad.csv:2: the outcome 'who'")

    refused(votes, "--scale", "elo", "--anchor", "nobody", said="nobody")
    refused(votes, "--instance", "elsewhere", said="elsewhere")

    def board_of(self: cc.Leaderboard) -> cc.Consensus:
        raise DataError("no board today")

    with monkeypatch.context() as patched:
        patched.setattr(cc.Leaderboard, "board", board_of)
        refused(votes, said="no board today")

    def overtaken(self: cc.Leaderboard) -> cc.Consensus:
        (tmp_path / "other").write_bytes(before)
        (tmp_path / "other").replace(state)
        return self.update(cc.read_comparisons(votes, time=True))

    with monkeypatch.context() as patched:
        patched.setattr(cc.Leaderboard, "board", overtaken)
        refused(votes, said="changed while it was read")
    invoke("aggregate", "--update", state, votes, "-p", "half_life=20d")
    assert state.read_bytes() != before
    state.write_bytes(before[: len(before) // 2])
    assert "board.state" in invoke("aggregate", "--update", state, votes, code=1).stderr
    for option in (("--model", "x"), ("--weights", "a=1"), ("--summary",)):
        assert option[0] in invoke("aggregate", "--update", state, votes, *option, code=2).stderr


def test_columns_that_a_board_keeps_are_read_again(invoke: Invoke, tmp_path: Path) -> None:
    state, more = tmp_path / "board.state", ("--columns", "category=language", "--read", "both_bad=apart")
    args = (*more, "--read", 'covariates=["length"]')
    invoke("aggregate", "--update", state, arena(tmp_path / "1.csv", range(300)), *args)
    invoke("aggregate", "--update", state, arena(tmp_path / "2.csv", range(300, 600)))
    votes = cc.Leaderboard.load(state).votes
    whole = cc.read_comparisons(
        arena(tmp_path / "all.csv", range(600)), category="language", covariates=["length"], both_bad="apart"
    )
    assert votes.columns.names == ["category", "n_both_bad", "length"]
    assert votes.outcomes.sum() == whole.outcomes.sum()
    assert votes.select_category("German").outcomes.sum() == whole.select_category("German").outcomes.sum()
    assert votes.covariates.sum() == pytest.approx(whole.covariates.sum())


def test_covariates_are_read_as_the_method_names_them(invoke: Invoke, tmp_path: Path) -> None:
    votes = arena(tmp_path / "votes.csv", range(600))
    found = [
        board(invoke("aggregate", votes, "-p", f"covariates={names}", "--json"))
        for names in ('["length"]', "length", " length ")
    ]
    assert_same(found[0], found[1])
    assert_same(found[0], found[2])
    refused = invoke("aggregate", votes, "-p", "covariates=all", code=1)
    assert "--read covariates=length" in refused.stderr
    assert_same(
        found[0], board(invoke("aggregate", votes, "--read", "covariates=length", "-p", "covariates=all", "--json"))
    )


@pytest.mark.parametrize("reliability", [False, True])
def test_effects_are_in_the_board_and_in_json(invoke: Invoke, tmp_path: Path, reliability: bool) -> None:
    votes = arena(tmp_path / "votes.csv", range(600))
    asked = [
        "aggregate",
        votes,
        "-p",
        "covariates=length",
        "-p",
        "side_effect=true",
        "-p",
        f"reliability={reliability}",
    ]
    model = cc.BradleyTerry(covariates=["length"], side_effect=True, reliability=reliability)
    model.fit(cc.read_comparisons(votes, covariates=["length"]))
    want = model.coefficient_table_.to_dicts()
    assert [row["kind"] for row in want] == ["tie", "side", "covariate"]
    given = json.loads(invoke(*asked, "--json").stdout)["coefficients"]
    for row, known in zip(given, want, strict=True):
        assert row["term"] == known["term"]
        assert [row[k] for k in ("estimate", "stderr")] == pytest.approx([known[k] for k in ("estimate", "stderr")])
    lines = invoke(*asked).stdout.splitlines()
    assert [line.split()[:3] for line in lines[-2:]] == [
        [row["kind"], row["term"], f"{row['estimate']:.3g}"] for row in want[1:]
    ]
    # A board that is updated has them too; one that is written leaves standard output alone.
    updated = invoke(*asked, "--update", tmp_path / "state", "--json")
    assert len(json.loads(updated.stdout)["coefficients"]) == 3
    assert invoke(*asked, "-o", tmp_path / "board.csv").stdout == ""
    assert "coefficients" not in json.loads(invoke("aggregate", votes, "--method", "copeland", "--json").stdout)


def test_habits_are_in_the_table_of_judges(invoke: Invoke, tmp_path: Path) -> None:
    votes = arena(tmp_path / "votes.csv", range(600))
    families = {f"m{i}": f"f{i % 3}" for i in range(8)}
    (tmp_path / "families.json").write_text(json.dumps(families))
    asked = ["-p", f"families=@{tmp_path / 'families.json'}", "-p", "covariates=length", "-p", "varying=length"]
    result = invoke("aggregate", votes, *asked, "--experts-out", tmp_path / "judges.csv")
    assert "Standard deviations of habits over experts: families" in result.stderr
    judges = {row["expert"]: row for row in pl.read_csv(tmp_path / "judges.csv").to_dicts()}
    model = cc.BradleyTerry(families=families, covariates=["length"], varying=["length"])
    model.fit(cc.read_comparisons(votes, covariates=["length"]))
    frame = model.habits_
    for expert, row in judges.items():
        own = frame.filter(frame["expert"] == expert)
        best = own.filter(own["kind"] == "family").sort("z", descending=True).row(0, named=True)
        length = own.filter(own["kind"] == "covariate").row(0, named=True)
        assert row["favours"] == best["term"]
        for name, found in (("favour", best), ("length_habit", length)):
            columns = [row[name], *(row[f"{name}_{end}"] for end in ("lower", "upper", "z"))]
            assert columns == pytest.approx([found[key] for key in ("estimate", "lower", "upper", "z")])


def test_fit_reads_the_columns_that_the_method_needs(invoke: Invoke, tmp_path: Path) -> None:
    votes, model = arena(tmp_path / "votes.csv", range(600)), tmp_path / "model"
    asked = ["-p", "covariates=length", "-p", "half_life=30d"]
    invoke("fit", votes, "--method", "bradley-terry", *asked, "-o", model)
    want = cc.BradleyTerry(covariates=["length"], half_life="30d")
    want.fit(cc.read_comparisons(votes, covariates=["length"], time="tstamp"))
    found = cc.load(model)
    assert isinstance(found, cc.BradleyTerry)
    assert found.covariate_effects_ == pytest.approx(want.covariate_effects_)
    assert set(board(invoke("aggregate", votes, "--model", model, "--json"))) == {f"m{i}" for i in range(8)}
