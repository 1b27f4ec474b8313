"""Boards by category on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tests.cli.conftest import Invoke

import concordant as cc

ITEMS = 5


@pytest.fixture(scope="module")
def votes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of votes in LMArena's layout, with languages of which one is missing now and then."""
    sample = cc.synthetic.arena(
        ITEMS,
        900,
        covariates={"length": 0.5},
        n_experts=40,
        categories={"English": 0.7, "German": 0.3},
        category_spread=1.5,
        random_state=2,
    )
    frame = sample.comparisons.to_frame().with_row_index()
    winner = pl.when(pl.col("n_left") > 0).then(pl.lit("model_a"))
    winner = winner.when(pl.col("n_right") > 0).then(pl.lit("model_b")).otherwise(pl.lit("tie"))
    out = tmp_path_factory.mktemp("votes") / "arena.csv"
    frame.select(
        model_a="left",
        model_b="right",
        winner=winner,
        judge="expert",
        language=pl.when(pl.col("index") % 10 > 0).then("category"),
        length="length",
    ).write_csv(out)
    return out


def want(path: Path, **params: object) -> cc.CategoryBoards:
    named = {"covariates": params["covariates"]} if "covariates" in params else {}
    given = cc.read_comparisons(path, category="language", **named)  # type: ignore[arg-type]
    return cc.category_boards(given, cc.BradleyTerry(**params))  # type: ignore[arg-type]


def test_the_boards_are_those_of_the_library(invoke: Invoke, votes: Path) -> None:
    result = json.loads(invoke("aggregate", str(votes), "--by-category", "language", "--json").stdout)["results"]
    boards = want(votes)
    assert set(result) == {"boards", "spread", "n_votes", "differences"}
    for row, mine in zip(result["boards"], boards.to_frame().iter_rows(named=True), strict=True):
        assert row == pytest.approx(mine, abs=1e-9)
    assert boards.spread is not None
    assert result["spread"] == pytest.approx(boards.spread._asdict())
    assert result["n_votes"] == {"English": boards.n_votes["English"], "German": boards.n_votes["German"], "(none)": 90}
    assert len(result["differences"]) == 3 * ITEMS


def test_the_table_has_a_column_for_each_category(invoke: Invoke, votes: Path) -> None:
    result = invoke("aggregate", str(votes), "--by-category", "language", "--rows", "2")
    lines = result.stdout.splitlines()
    assert lines[0].split()[:3] == ["rank", "item", "score"]
    head = next(line for line in lines if line.startswith("item "))
    assert head.split() == ["item", "overall", "English", "German", "(none)"]
    assert f"… {ITEMS - 2} more" in lines
    said = result.stderr
    assert "Votes: English 5" in said
    assert "Partially pooled: scores differ between categories by 1." in said
    assert f"of {3 * ITEMS} differences from the other categories are clear, corrected for all: " in said
    alone = invoke("aggregate", str(votes), "--by-category", "language", "--pooling", "none")
    assert "Partially pooled" not in alone.stderr


def test_files_have_a_column_of_categories(invoke: Invoke, votes: Path, tmp_path: Path) -> None:
    out, apart = tmp_path / "boards.csv", tmp_path / "differences.csv"
    options = ["-p", 'covariates=["length"]', "--scale", "elo", "--anchor", "i2", "--tiers", "--top", "3"]
    command = ["aggregate", str(votes), "--by-category", "language", *options, "-o", str(out)]
    invoke(*command, "--differences-out", str(apart))
    frame = pl.read_csv(out)
    assert frame.height == 4 * 3
    assert {"category", "item", "score", "rank", "tier", "scale", "gauge"} <= set(frame.columns)
    boards = want(votes, covariates=["length"]).scaled("elo", anchor="i2")
    german = frame.filter(category="German")
    assert german["item"].to_list() == boards["German"].ranking(top_k=3)
    assert frame["category"].null_count() == 3
    assert pl.read_csv(apart).height == boards.differences().height == 3 * (ITEMS - 1)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--pooling", "none"], 2, "goes with --by-category COLUMN"),
        (["--differences-out", "d.csv"], 2, "goes with --by-category COLUMN"),
        (["--by-category", "language", "--pooling", "complete"], 2, "--pooling"),
        (["--by-category", "language", "--update", "b.state"], 2, "cannot be given with --update"),
        (["--by-category", "language", "--summary"], 2, "cannot be given with --summary"),
        (["--by-category", "language", "--method", "elo"], 1, "makes boards of bradley-terry. Got --method elo"),
        (["--by-category", "language", "--columns", "category=judge"], 1, "Leave category out of the other options"),
        (["--by-category", "topic"], 1, "columns not found: ['topic']"),
        (["--by-category", "language", "-p", "reliability=true"], 1, "pooling"),
        (["--by-category", "language", "-o", "board.trec"], 1, "Use .csv"),
        (["--by-category", "language", "--where", "language=German"], 1, "two categories or more"),
    ],
)
def test_what_does_not_go_together(invoke: Invoke, votes: Path, options: list[str], code: int, said: str) -> None:
    result = invoke("aggregate", str(votes), *options, code=code)
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_lists_have_no_categories(invoke: Invoke, files: Path) -> None:
    result = invoke("aggregate", str(files / "runs"), "--by-category", "language", code=1)
    assert "takes votes of pairs. The format of the input is trec" in result.stderr
