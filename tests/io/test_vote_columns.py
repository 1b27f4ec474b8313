"""Votes as arenas publish them: layouts, times, categories, covariates, outcome words, and rows that are left out."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import concordant as cc
from concordant.errors import (
    ColumnError,
    ConcordantError,
    DataError,
    FormatError,
    ParameterError,
    ParseError,
)
from concordant.execution.local import telling
from concordant.io._row_sources import RowSource
from concordant.io._times import parse_times
from concordant.io.tabular import dates_and_categories

# The first columns of LMArena's data, with conversations as JSON text.
CONVERSATION = json.dumps([{"role": "user", "content": 'say "hi",\nthen left'}])
ARENA: list[dict[str, Any]] = [
    {
        "question_id": f"q{row}",
        "model_a": a,
        "model_b": b,
        "winner": winner,
        "judge": judge,
        "conversation_a": CONVERSATION,
        "conversation_b": CONVERSATION,
        "turn": turn,
        "anony": True,
        "language": language,
        "tstamp": tstamp,
    }
    for row, (a, b, winner, judge, turn, language, tstamp) in enumerate(
        [
            ("m1", "m2", "model_a", "u1", 1, "English", 1682351591.1322),
            ("m2", "m3", "tie", "u2", 2, "German", 1682351600.0),
            ("m3", "m1", "tie (bothbad)", "u1", 3, "English", 1682351700.5),
            ("m1", "m2", "model_b", "u3", 1, "", 1682351800.0),
        ]
    )
]


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write rows in the format of the ending."""
    if path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        pl.DataFrame(rows).write_csv(path)
    return path


def rows_of(votes: cc.Comparisons) -> list[tuple[Any, ...]]:
    return votes.to_frame().rows()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet"])
def test_lmarena_is_read_without_options(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"arena.{ending}", ARENA)
    votes = cc.read(path).comparisons
    assert votes is not None
    assert votes == cc.read_comparisons(path)
    assert votes.sided
    assert votes.columns.names == []
    assert [row[1:] for row in rows_of(votes)] == [
        ("u1", "m1", "m2", 1.0, 0.0, 0.0),
        ("u2", "m2", "m3", 0.0, 0.0, 1.0),
        ("u1", "m3", "m1", 0.0, 0.0, 1.0),
        ("u3", "m1", "m2", 0.0, 1.0, 0.0),
    ]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet"])
def test_usual_names_of_times_and_categories_are_found_where_asked(tmp_path: Path, ending: str) -> None:
    votes = cc.read_comparisons(write(tmp_path / f"a.{ending}", ARENA), time=True, category=True, both_bad="apart")
    assert votes.columns.names == ["time", "category", "n_both_bad"]
    assert votes.time is not None
    assert votes.time.tolist() == [row["tstamp"] for row in ARENA]
    assert [row[6:] for row in rows_of(votes)] == [
        (0.0, 0.0, ARENA[0]["tstamp"], "English"),
        (1.0, 0.0, ARENA[1]["tstamp"], "German"),
        (0.0, 1.0, ARENA[2]["tstamp"], "English"),
        (0.0, 0.0, ARENA[3]["tstamp"], None),
    ]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("one", [1, True])
def test_kaggle_has_a_column_for_each_outcome(tmp_path: Path, ending: str, one: object) -> None:
    """The layout of Kaggle's LMSYS competition: one of three columns is 1."""
    rows = [
        {"id": 1, "model_a": "m1", "model_b": "m2", "prompt": '["a, b"]', "response_a": "[]", "response_b": "[]"},
        {"id": 2, "model_a": "m2", "model_b": "m1", "prompt": "[]", "response_a": "[]", "response_b": "[]"},
        {"id": 3, "model_a": "m1", "model_b": "m3", "prompt": "[]", "response_a": "[]", "response_b": "[]"},
    ]
    names = ("winner_model_a", "winner_model_b", "winner_tie")
    for k, row in enumerate(rows):
        row |= {name: type(one)(name == names[k]) for name in names}  # type: ignore[call-arg]
    path = write(tmp_path / f"train.{ending}", rows)
    votes = cc.read(path).comparisons
    assert votes is not None
    assert votes.sided
    assert [row[1:] for row in rows_of(votes)] == [
        ("m1", "m2", 1.0, 0.0, 0.0),
        ("m2", "m1", 0.0, 1.0, 0.0),
        ("m1", "m3", 0.0, 0.0, 1.0),
    ]
    rows[1]["winner_tie"] = one
    with pytest.raises(ParseError, match=r"exactly one of the columns of outcomes must be 1"):
        cc.read(write(tmp_path / f"both.{ending}", rows))


def test_both_bad_is_a_tie_that_is_said_or_kept_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ARENA)
    said: list[str] = []
    with telling(said.append):
        merged = cc.read_comparisons(path)
        asked = cc.read_comparisons(path, both_bad="tie")
    assert merged == asked
    assert merged.n_ties.tolist() == [0.0, 1.0, 1.0, 0.0]
    assert len(said) == 1
    assert said[0].startswith("1 votes say that both sides were bad; they count as ties")
    apart = cc.read_comparisons(path, both_bad="apart")
    assert apart.columns.n_both_bad is not None
    assert apart.columns.n_both_bad.tolist() == [0.0, 0.0, 1.0, 0.0]
    assert (
        cc.from_frame(pl.DataFrame(ARENA), left="model_a", right="model_b", winner="winner", expert="judge") == merged
    )
    own = cc.from_frame(apart.to_frame())
    assert own == apart
    assert cc.from_frame(apart.to_frame(), both_bad="tie").n_ties.tolist() == merged.n_ties.tolist()


def test_words_of_outcomes(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("left,right,winner\nx,y,A>B\ny,z,B>A\nx,z,C\ny,x,D\nx,y,left\n")
    words: Any = {"left": "A>B", "right": ["B>A"], "tie": ["C"], "both_bad": ["D"]}
    votes = cc.read_comparisons(path, outcomes=words, both_bad="apart")
    counts = zip(votes.n_left, votes.n_right, votes.n_ties, votes.columns.n_both_bad, strict=True)
    assert [tuple(map(int, row)) for row in counts] == [
        (1, 0, 0, 0),
        (0, 1, 0, 0),
        (0, 0, 1, 0),
        (0, 0, 0, 1),
        (1, 0, 0, 0),
    ]
    path.write_text("left,right,winner\nx,y,1\ny,z,2\n")
    assert cc.read_comparisons(path, outcomes={"left": [1], "right": [2]}).n_right.tolist() == [0.0, 1.0]  # type: ignore[dict-item]
    path.write_text("left,right,winner\nx,y,X\ny,z,undecided\n")
    assert cc.read_comparisons(path, outcomes={"tie": "undecided"}).n_ties.tolist() == [0.0, 1.0]
    for wrong in ({"left": ["A"], "right": ["a"]}, {"left": ["A"], "tie": ["A"]}):
        with pytest.raises(ParameterError, match="two meanings"):
            cc.read_comparisons(path, outcomes=wrong)
    for odd in ({"up": ["A"]}, {"left": []}, {"left": [None]}, "words"):
        with pytest.raises(ParameterError, match="outcomes"):
            cc.read_comparisons(path, outcomes=odd)  # type: ignore[arg-type]


UTC = datetime.UTC
EAST = datetime.timezone(datetime.timedelta(hours=5, minutes=30))


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("2024-06-25", datetime.datetime(2024, 6, 25, tzinfo=UTC)),
        ("2024-06-25 14:03", datetime.datetime(2024, 6, 25, 14, 3, tzinfo=UTC)),
        ("2024-06-25T14:03:07Z", datetime.datetime(2024, 6, 25, 14, 3, 7, tzinfo=UTC)),
        ("2024-06-25T14:03:07.25+05:30", datetime.datetime(2024, 6, 25, 14, 3, 7, 250000, tzinfo=EAST)),
        ("2024-06-25 14:03:07.123456 UTC", datetime.datetime(2024, 6, 25, 14, 3, 7, 123456, tzinfo=UTC)),
        ("2024-06-25T14:03:07+0530", datetime.datetime(2024, 6, 25, 14, 3, 7, tzinfo=EAST)),
        ("1969-12-31T23:00:00-01", datetime.datetime(1970, 1, 1, tzinfo=UTC)),
        ("2024-02-29", datetime.datetime(2024, 2, 29, tzinfo=UTC)),
    ],
)
def test_times_are_those_of_the_standard_library(text: str, when: datetime.datetime) -> None:
    found = parse_times(pl.Series([text, None, ""]), "time", RowSource())
    assert found[0] == pytest.approx(when.timestamp(), abs=1e-6)
    assert found[1:].to_list() == [None, None]


@pytest.mark.parametrize(
    "text",
    [
        "2023-02-29",
        "2024-06-25T24:00",
        "2024-6-25",
        "25.06.2024",
        "noon",
        "2024-06-25T1:00",
        "2024-06-25T11:00+05:",
        "2024-06-25T١١:00",
    ],
)
def test_no_time(text: str) -> None:
    with pytest.raises(DataError, match=r"row 1: the time must be an ISO 8601"):
        parse_times(pl.Series(["2024-06-25", text]), "time", RowSource())


def test_columns_of_dates_and_units() -> None:
    aware = datetime.datetime(2024, 6, 25, 12, tzinfo=EAST)
    naive = datetime.datetime(2024, 6, 25, 12)
    for values, want in (
        (pl.Series([aware]), aware.timestamp()),
        (pl.Series([aware]).dt.convert_time_zone("Asia/Tokyo"), aware.timestamp()),
        (pl.Series([naive]), naive.replace(tzinfo=UTC).timestamp()),
        (pl.Series([naive.date()]), naive.replace(hour=0, tzinfo=UTC).timestamp()),
        (pl.Series([1.7e9]), 1.7e9),
        (pl.Series(["1700000000000"]), 1.7e9),
        (pl.Series([1_700_000_000_000_000]), 1.7e9),
        (pl.Series([1_700_000_000_000_000_000]), 1.7e9),
        (pl.Series([3]), 3.0),
    ):
        assert parse_times(values, "time", RowSource()).to_list() == [want]
    with pytest.raises(DataError, match=r"row 0: the time 1700000000 is in another unit than 1700000000000"):
        parse_times(pl.Series([1_700_000_000, 1_700_000_000_000]), "time", RowSource())


STYLE = "model_a,model_b,winner,len_a,len_b,diff,language\nx,y,model_a,30,10,0.5,English\ny,z,tie,0,0,-2,German\n"


def covariates(path: Path, given: Any, **options: Any) -> dict[str, list[float]]:
    votes = cc.read_comparisons(path, covariates=given, **options)
    return {name: votes.covariates[:, j].tolist() for j, name in enumerate(votes.covariate_names)}


def test_covariates_are_left_minus_right(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text(STYLE)
    difference, ratio = [20.0, 0.0], [0.5, 0.0]
    assert covariates(path, ["diff"]) == {"diff": [0.5, -2.0]}
    assert covariates(path, "diff,len") == {"diff": [0.5, -2.0], "len": difference}
    assert covariates(path, {"length": ("len_a", "len_b")}) == {"length": difference}
    assert covariates(path, ["length=len_a-len_b"]) == {"length": difference}
    assert covariates(path, {"length": "(len_a - len_b) / (len_a + len_b)"}) == {"length": ratio}
    assert covariates(path, ["length = (len_a - len_b)/(len_a + len_b)"]) == {"length": ratio}
    assert covariates(path, {"back": ("len_b", "len_a")}) == {"back": [-20.0, 0.0]}
    frame = cc.from_frame(
        pl.read_csv(path), left="model_a", right="model_b", winner="winner", covariates=["diff"], category="language"
    )
    assert frame == cc.read_comparisons(path, covariates=["diff"], columns="category=language")


def test_covariates_change_their_sign_with_the_sides(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("model_a,model_b,winner,d\nx,y,model_a,3\ny,x,model_a,5\n")
    assert covariates(path, "d", sided=False) == {"d": [3.0, -5.0]}
    path.write_text("winner,loser,words_winner,words_loser\nx,y,10,4\ny,x,1,2\n")
    # In code order x is left: the second row is turned.
    assert covariates(path, "words") == {"words": [6.0, 1.0]}
    with pytest.raises(
        ColumnError, match=r"the covariate 'words_winner' is one column, and winner and loser do not say"
    ):
        cc.read_comparisons(path, covariates="words_winner")


def test_columns_whose_names_hold_signs(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("left,right,winner,len-a,len-b,a=b,x.y\nx,y,left,3,1,7,-8\n")
    assert covariates(path, ["d = len-a - len-b", "a=b", "x.y"]) == {"d": [2.0], "a=b": [7.0], "x.y": [-8.0]}


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet"])
def test_fields_of_json_objects(tmp_path: Path, ending: str) -> None:
    """LMArena keeps what it knows of the style of both answers in one column, headings by level."""
    metadata = [
        {"tokens_a": 9, "tokens_b": 4, "header_count_a": {"h1": 1, "h2": 2}, "header_count_b": {"h1": 0, "h2": 1}},
        {"tokens_a": 1, "tokens_b": 4, "header_count_a": {"h1": 0, "h2": 0}, "header_count_b": {"h1": 0, "h2": 3}},
    ]
    rows = [
        {"model_a": "x", "model_b": "y", "winner": "model_a", "meta": json.dumps(m) if ending == "csv" else m}
        for m in metadata
    ]
    path = write(tmp_path / f"v.{ending}", rows)
    given = {"length": "meta.tokens_a - meta.tokens_b", "headers": ("meta.header_count_a", "meta.header_count_b")}
    assert covariates(path, given) == {"length": [5.0, -3.0], "headers": [2.0, -3.0]}
    assert cc.read_comparisons(path, where="meta.tokens_a>1").n_rows == 1


def test_what_is_no_covariate(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text(STYLE)
    with pytest.raises(ParseError, match=r"v.csv:2: .*'language' must be a number, left minus right; .*is a category"):
        cc.read_comparisons(path, covariates="language")
    with pytest.raises(ColumnError, match=r"columns not found: \['width'\].*a covariate is a column or a formula"):
        cc.read_comparisons(path, covariates="width")
    with pytest.raises(ColumnError, match=r"columns not found: \['wide'\]"):
        cc.read_comparisons(path, covariates={"w": ("len_a", "wide")})
    with pytest.raises(ParameterError, match="names 'diff' twice"):
        cc.read_comparisons(path, covariates=["diff", "diff"])
    for wrong in ([], [1], {"": "diff"}, {"d": ("len_a",)}, {"d": 1}, 3):
        with pytest.raises(ParameterError, match="covariates"):
            cc.read_comparisons(path, covariates=wrong)  # type: ignore[arg-type]
    path.write_text(STYLE.replace("-2", "NaN"))
    with pytest.raises(ParseError, match=r"v.csv:3: the covariate 'diff' is missing"):
        cc.read_comparisons(path, covariates="diff")
    path.write_text(STYLE.replace("-2", "inf"))
    with pytest.raises(ParseError, match=r"v.csv:3: the covariate 'diff' must be a finite number, found 'inf'"):
        cc.read_comparisons(path, covariates="diff")
    path.write_text(STYLE.replace("30,10", "30,-10"))
    with pytest.raises(ParseError, match=r"v.csv:2: a normalised difference needs numbers >= 0"):
        cc.read_comparisons(path, covariates="d=(len_a-len_b)/(len_a+len_b)")


def test_a_frame_keeps_the_rows_that_a_file_keeps(tmp_path: Path) -> None:
    table = pl.DataFrame(
        {
            "model_a": ["x", "x", "y", "y", None, "z"],
            "model_b": ["y", "y", "x", "z", "z", "x"],
            "winner": ["model_a", "model_a", "model_b", "tie", "model_b", "model_a"],
            "judge": ["j", "j", "j", "k", "k", "k"],
            "language": ["English", "English", "English", "German", "French", "English"],
        }
    )
    path = tmp_path / "v.csv"
    table.write_csv(path)
    rows = {"where": "language=English|German", "distinct": "judge,pair"}
    names = {"left": "model_a", "right": "model_b", "winner": "winner", "expert": "judge"}
    found = cc.from_frame(table, **names, where=rows["where"], distinct=["expert", "pair"])
    want = cc.read_comparisons(path, **rows)
    assert found.to_frame().rows() == want.to_frame().rows()
    assert found.n_rows == 3
    won = cc.from_frame(pl.DataFrame({"winner": ["a", "b"], "loser": ["b", "a"], "turn": [1, 2]}), where="turn>=2")
    assert won.to_frame()["left"].to_list() == ["b"]
    with pytest.raises(DataError, match=r"none of the 6 rows is left by where=: 'language=Latin' leaves out 6"):
        cc.from_frame(table, **names, where="language=Latin")
    with pytest.raises(ColumnError, match="lang"):
        cc.from_frame(table, **names, where="lang=English")
    with pytest.raises(ParameterError, match="where= is about comparisons"):
        cc.from_frame(pl.DataFrame({"item": ["a"], "rank": [1]}), where="rank=1")


def test_times_that_are_missing_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("left,right,winner,when\nx,y,left,2024-01-01\ny,z,tie,\n")
    with pytest.raises(ParseError, match=r"v.csv:3: the time is missing"):
        cc.read_comparisons(path, time="when")
    with pytest.raises(ColumnError, match=r"no column for time was found"):
        cc.read_comparisons(path, time=True)
    with pytest.raises(ParameterError, match="'time'"):
        cc.read_comparisons(path, time="when", columns="time=when")


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet"])
@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("language=English", [0, 2]),
        ("language!=English", [1, 3]),
        ("language = English|German", [0, 1, 2]),
        ("language=", [3]),
        ("turn>=2", [1, 2]),
        ("turn == 2.0", [1]),
        ("turn>=2; language=English", [2]),
        (["turn<3", "language!="], [0, 1]),
        ("anony=TRUE", [0, 1, 2, 3]),
        ("anony!=true;turn=1", []),
        ("tstamp>=2023-04-24T15:55:00Z", [2, 3]),
        ("tstamp<1682351600", [0]),
        ("judge=u1", [0, 2]),
    ],
)
def test_where(tmp_path: Path, ending: str, where: Any, kept: list[int]) -> None:
    path = write(tmp_path / f"a.{ending}", ARENA)
    if not kept:
        with pytest.raises(DataError, match="none of the 4 rows is left by where="):
            cc.read_comparisons(path, where=where)
        return
    votes = cc.read_comparisons(path, where=where, time="tstamp")
    assert votes.time is not None
    assert votes.time.tolist() == [ARENA[row]["tstamp"] for row in kept]


def test_rows_left_out_may_be_damaged_and_lines_stay_right(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("left,right,winner,ok\nx,y,left,1\n,y,what,0\n\nx,y,oops,1\n")
    with pytest.raises(ParseError, match=r"v.csv:5: the outcome 'oops'"):
        cc.read_comparisons(path, where="ok=1")
    with pytest.raises(ParseError, match=r"v.csv:3: the left id is missing"):
        cc.read_comparisons(path)
    path.write_text("left,right,winner,ok\n1.0,2.0,left,1\n,y,what,0\n2.0,1.0,left,1\n")
    assert cc.read_comparisons(path, where="ok=1").items.tolist() == ["1", "2"]


def test_conditions_that_mean_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ARENA)
    with pytest.raises(
        ColumnError, match=r"the condition 'lang=English': columns not found: \['lang'\]. The table has"
    ):
        cc.read_comparisons(path, where="lang=English")
    with pytest.raises(ParameterError, match="of the form COLUMN=VALUE"):
        cc.read_comparisons(path, where="language")
    with pytest.raises(ParameterError, match=r"compares sizes\. Give a number or an ISO 8601 date"):
        cc.read_comparisons(path, where="language>English")
    with pytest.raises(ParseError, match=r"'language>3' must be a finite number, found 'English'"):
        cc.read_comparisons(path, where="language>3")
    for wrong in ("", [], [1], 3):
        with pytest.raises(ParameterError, match="where"):
            cc.read_comparisons(path, where=wrong)  # type: ignore[arg-type]


def test_distinct_keeps_the_first(tmp_path: Path) -> None:
    one, two = tmp_path / "1.csv", tmp_path / "2.csv"
    one.write_text("judge,q,left,right,winner\nu,1,x,y,left\nu,1,x,y,left\nu,2,y,x,left\nv,1,x,y,tie\n,1,x,y,left\n")
    two.write_text("judge,q,left,right,winner\nu,2,x,y,right\nw,9,x,z,right\n")
    options: dict[str, Any] = {"where": "judge!="}
    assert cc.read_comparisons([one, two], **options).n_rows == 6
    said: list[str] = []
    with telling(said.append):
        votes = cc.read_comparisons([one, two], distinct="judge,q", **options)
    assert [row[1:6] for row in rows_of(votes)] == [
        ("u", "x", "y", 1.0, 0.0),
        ("u", "y", "x", 1.0, 0.0),
        ("v", "x", "y", 0.0, 0.0),
        ("w", "x", "z", 0.0, 1.0),
    ]
    assert said == [
        "--where 'judge!=': left out 1 of 7 rows.",
        "--distinct judge, q: left out 2 rows that repeat an earlier one.",
    ]
    assert cc.read_comparisons([one, two], distinct=["expert", "pair"], **options).n_rows == 3
    with pytest.raises(ColumnError, match=r"distinct=: columns not found: \['prompt'\]"):
        cc.read_comparisons(one, distinct="prompt")


def test_collapsing_while_reading(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ARENA)
    english = cc.read_comparisons(path, where="language=English", collapse=True)
    assert english == cc.read_comparisons(path, where="language=English").collapse()
    for lost in ({"time": True}, {"category": "language"}, {"covariates": "turn"}, {"distinct": "judge"}):
        with pytest.raises(ParameterError, match=f"cannot go with {next(iter(lost))}"):
            cc.read_comparisons(path, collapse=True, **lost)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[{"left": "x"}, 3]', "v.json:1: expected a JSON object, found 3"),
        ('[{"left": "x"}\n {"left": "y"}]', "v.json:2: expected , or ]"),
        ('[{"left": "x"},\n', "v.json:2: the array does not end"),
        ('[{"left": "x"}]\n{}', "v.json:2: there is text after the array"),
        ('[\n{"left": NaN}]', "v.json:2: .*NaN is not JSON"),
        (
            '[{"left": "x"},\n{"left": "x", "right": "y", "winner": "left", "left": "z"}]',
            "v.json:2: .*'left' is given tw",
        ),
        ('[{"left": "x", "right": "y", "winner": "\\ud800"}]', "v.json:1: "),
        (
            '[{"left": 1e400, "right": "y", "winner": "left"}]',
            "v.json:1: the value of 'left' is a number that is too large",
        ),
        ("[]", "the file holds no rows"),
    ],
)
def test_damaged_arrays(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "v.json"
    path.write_text(text)
    with pytest.raises((ParseError, FormatError), match=error):
        cc.read_comparisons(path, columns="left=left,right=right,winner=winner")


def test_an_array_is_read_as_its_lines(tmp_path: Path) -> None:
    """Long arrays too: names that only later objects have are found, and errors name the line of the object."""
    rows = [{"left": f"m{i % 7}", "right": f"m{(i + 1) % 7}", "winner": "left"} for i in range(3000)]
    many = [row | ({"judge": "u"} if i >= 2000 else {"judge": "v"}) for i, row in enumerate(rows)]
    votes = cc.read_comparisons(write(tmp_path / "v.json", many))
    assert votes == cc.read_comparisons(write(tmp_path / "v.jsonl", many))
    (tmp_path / "one.json").write_text("\ufeff" + json.dumps(many))
    assert cc.read_comparisons(tmp_path / "one.json") == votes
    (tmp_path / "lines.json").write_text("[\n" + ",\n".join(map(json.dumps, many)) + "\n]\n")
    assert cc.read(tmp_path / "lines.json").comparisons == votes
    many[2500]["winner"] = "nobody knows"
    (tmp_path / "lines.json").write_text("[\n" + ",\n".join(map(json.dumps, many)) + "\n]\n")
    with pytest.raises(ParseError, match=r"lines.json:2502: the outcome 'nobody knows'"):
        cc.read_comparisons(tmp_path / "lines.json")


def test_frames_take_columns_by_name() -> None:
    frame = pl.DataFrame(ARENA)
    named: dict[str, Any] = {"left": "model_a", "right": "model_b", "winner": "winner", "expert": "judge"}
    votes = cc.from_frame(frame, time="tstamp", category="language", **named)
    assert votes.columns.names == ["time", "category"]
    assert cc.from_frame(votes.to_frame()) == votes
    with pytest.raises(ParameterError, match="time= is about comparisons"):
        cc.from_frame(pl.DataFrame({"expert": ["a"], "item": ["b"], "rank": [1]}), time="rank")  # type: ignore[call-overload]
    with pytest.raises(ConcordantError, match="columns not found"):
        cc.from_frame(frame, time="when", **named)


def test_unknown_outcome_words_name_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("model_a,model_b,winner\na,b,A\nb,c,meh\n")
    with pytest.raises(ParseError, match=r"outcomes={'tie': \['even'\]}.*--read 'outcomes="):
        cc.read_comparisons(path)
    found = cc.read_comparisons(path, outcomes={"left": ["A"], "tie": ["meh"]})
    assert (found.n_left.tolist(), found.n_ties.tolist()) == ([1, 0], [0, 1])


def test_the_advice_for_a_frame_of_votes_makes_one_instance_of_them() -> None:
    frame = pl.DataFrame(
        {"question_id": ["q1", "q2"], "model_a": ["a", "b"], "model_b": ["b", "c"], "winner": ["a", "b"]}
    )
    with pytest.raises(ColumnError) as error:
        cc.from_frame(frame)
    advice = str(error.value).partition("Hint: ")[2].rstrip(".")
    assert advice == 'from_frame(df, left="model_a", right="model_b", winner="winner")'
    with pytest.raises(ColumnError, match=r"Hint: from_frame\(df, left=\.\.\., right=\"model_b\"\)"):
        cc.from_frame(frame, left="x", right="model_b", winner="winner")


def test_a_field_that_no_vote_has_names_those_that_are_there(tmp_path: Path) -> None:
    meta = {"sum_a_tokens": 3, "sum_b_tokens": 2, "bold": {"a": 1}}
    rows = [{"model_a": "a", "model_b": "b", "winner": "model_a", "meta": meta, "note": "long"}] * 2
    path = tmp_path / "votes.json"
    path.write_text(json.dumps(rows))
    frame = pl.DataFrame(rows).with_columns(pl.col("meta").struct.json_encode())
    frame.write_csv(tmp_path / "votes.csv")
    for file in (path, tmp_path / "votes.csv"):
        assert cc.read_comparisons(file, covariates=["n = meta.sum_a_tokens - meta.sum_b_tokens"]).covariates[0, 0] == 1
        for made, said in (
            ("meta.tokens", r"no row has a field 'tokens'.*\['sum_a_tokens', 'sum_b_tokens', 'bold'\]"),
            ("meta.bold.b", r"no row has a field 'bold.b'.*\['bold.a'\]"),
            ("x = meta.sum_a_tokens - meta.sum_c_tokens", "the covariate 'x': no row has a field 'sum_c_tokens'"),
            ("note.tokens", "It holds no JSON objects"),
        ):
            with pytest.raises(ColumnError, match=said):
                cc.read_comparisons(file, covariates=[made])


def test_dates_and_categories_are_found_in_all_files_and_durations_are_none(tmp_path: Path) -> None:
    head = "model_a,model_b,winner"
    for name, more in (("one.csv", ",tstamp,language"), ("two.csv", ",tstamp,time,topic"), ("three.csv", ",time")):
        (tmp_path / name).write_text(f"{head}{more}\n")
    paths = [tmp_path / name for name in ("one.csv", "two.csv", "three.csv")]
    assert dates_and_categories(paths[0]) == {"time": "tstamp", "category": "language"}
    assert dates_and_categories(paths[:2]) == {"time": "tstamp"}
    assert dates_and_categories(paths[2]) == {}
