from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import concordant as cc
from concordant.errors import (
    ColumnError,
    ConcordantError,
    ConcordantWarning,
    DataWarning,
    DuplicateError,
    FormatError,
    KindError,
    ParameterError,
    ParseError,
)
from concordant.io._tables import open_table
from concordant.io.tabular import (
    read_comparisons,
    read_consensus,
    read_feature_table,
    read_labels,
    read_rankings,
    read_ratings,
    read_scores,
)

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_it(text: str | bytes, name: str = "t.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write_it


def rows(container: Any) -> list[tuple[Any, ...]]:
    return container.to_frame().rows()


RATINGS = [("all", "ann", "Alien", 5.0), ("all", "ann", "Brazil", 3.0), ("all", "bob", "Brazil", 4.0)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "userId,movieId,rating,timestamp\nann,Alien,5,1\nann,Brazil,3,2\nbob,Brazil,4,3\n"),
        ("t.csv", "rating,worker,item\n5,ann,Alien\n3,ann,Brazil\n4,bob,Brazil\n"),
        ("t.tsv", "user\titem\trating\nann\tAlien\t5\nann\tBrazil\t3\nbob\tBrazil\t4\n"),
        ("t.txt", "user;item;rating\nann;Alien;5\nann;Brazil;3\nbob;Brazil;4\n"),
        ("t.txt", "user|item|stars\nann|Alien|5\nann|Brazil|3\nbob|Brazil|4\n"),
        ("t.txt", "user   item  rating\nann  Alien 5\nann\tBrazil  3\n  bob Brazil 4  \n"),
        ("t.csv", "\ufeffuser,item,rating\r\nann,Alien,5\r\nann,Brazil,3\r\n\r\nbob,Brazil,4"),
        ("t.csv", '\n\n"user","item","rating"\n"ann","Alien","5"\nann,Brazil,3\nbob, Brazil ,4'),
        ("t.csv", "user,item,rating,\nann,Alien,5,\nann,Brazil,3,\nbob,Brazil,4,\n"),
        ("t.jsonl", '{"user":"ann","item":"Alien","rating":5}\n{"item":"Brazil","user":"ann","rating":3.0}\n'
                    '\n{"user":"bob","item":"Brazil","rating":4,"note":[1,{"a":2}]}\n'),
    ],
)  # fmt: skip
def test_the_same_ratings_however_they_are_written(write: Write, name: str, text: str) -> None:
    p = read_ratings(write(text, name))
    assert p.kind == "rating"
    assert rows(p) == RATINGS


def test_ratings_in_parquet_and_compressed(write: Write, tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": ["ann", "ann", "bob"], "movieId": ["Alien", "Brazil", "Brazil"], "rating": [5, 3, 4]})
    frame.write_parquet(tmp_path / "r.parquet")
    assert rows(read_ratings(tmp_path / "r.parquet")) == RATINGS
    packed = write(gzip.compress(frame.write_csv().encode()), "r.csv.gz")
    assert rows(read_ratings(packed)) == RATINGS
    # The content, not the name, says what a file is.
    assert rows(read_ratings(write((tmp_path / "r.parquet").read_bytes(), "r.csv"))) == RATINGS


def test_columns_are_named_by_text_mapping_or_number(write: Write) -> None:
    path = write("who,what,how much\nann,Alien,5\nann,Brazil,3\nbob,Brazil,4\n")
    for columns in (
        "expert=who,item=what,rating=how much",
        {"expert": 1, "item": "what", "value": 3},
        "expert=1,item=2,rating=3",
    ):
        assert rows(read_ratings(path, columns=columns)) == RATINGS
    bare = write("ann,Alien,5\nann,Brazil,3\nbob,Brazil,4\n", "bare.csv")
    assert rows(read_ratings(bare, columns="expert=1,item=2,rating=3")) == RATINGS
    # Only some are named: the others go by their usual names.
    half = write("who,item,rating\nann,Alien,5\nann,Brazil,3\nbob,Brazil,4\n", "half.csv")
    assert rows(read_ratings(half, columns="expert=who")) == RATINGS


@pytest.mark.parametrize(
    ("columns", "error", "fragment"),
    [
        ("expert", ParameterError, "our word = your column"),
        ("judge=who", ParameterError, "Got 'judge' instead"),
        ("expert=1,expert=2", ParameterError, "one column for 'expert'"),
        ("expert=nobody", ColumnError, "columns not found: ['nobody']. The table has: ['who', 'what', 'points']"),
        ("expert=9", ColumnError, "there is no column 9 for 'expert'; columns are counted from 1"),
        ("expert=0", ColumnError, "counted from 1"),
        ("expert=who", ColumnError, "no column for item and value was found"),
        (3, ParameterError, "or a mapping"),
        ({"expert": 1.5}, ParameterError, "names or numbers"),
    ],
)
def test_slips_in_columns_are_named(write: Write, columns: Any, error: type[Exception], fragment: str) -> None:
    path = write("who,what,points\nann,Alien,5\n")
    with pytest.raises(error) as caught:
        read_ratings(path, columns=columns)
    assert fragment in str(caught.value)


def test_two_candidates_for_a_role_are_not_chosen_from(write: Write) -> None:
    with pytest.raises(ColumnError, match=r"'user', 'judge' might all be the expert") as caught:
        read_ratings(write("user,judge,item,rating\na,b,c,1\n"))
    assert "t.csv" in str(caught.value)
    # The own word goes before its synonyms.
    assert read_ratings(write("user,expert,item,rating\na,b,c,1\n")).experts.tolist() == ["b"]


def test_movielens_without_a_header_is_known_by_its_timestamps(write: Write) -> None:
    text = "196\t242\t3\t881250949\n186\t302\t3\t891717742\n196\t302\t1\t878887116\n"
    p = read_ratings(write(text, "any.txt"))
    assert rows(p) == [("all", "196", "242", 3.0), ("all", "196", "302", 1.0), ("all", "186", "302", 3.0)]
    assert rows(read_ratings(write(text.replace("\t", "::"), "ratings.dat"))) == rows(p)
    with pytest.raises(ColumnError, match="4 columns and no header"):
        read_ratings(write("1\t2\t3\t4\n2\t3\t4\t5\n", "other.txt"))


def test_missing_ratings_keep_the_item(write: Write) -> None:
    p = read_ratings(write("user,item,rating\nann,a,5\nann,b,NA\nbob,b,\nbob,c,nan\ncid,a,2\n"))
    assert rows(p) == [
        ("all", "ann", "a", 5.0),
        ("all", "cid", "a", 2.0),
        ("all", None, "b", None),
        ("all", None, "c", None),
    ]
    assert p.experts.tolist() == ["ann", "bob", "cid"]
    q = read_ratings(write("user,item,rating\nann,a,5\nann,b,-1\n"), null_values=["-1"])
    assert q.n_rows == 1
    assert q.n_slots == 2


def test_smaller_can_be_better(write: Write) -> None:
    path = write("user,item,score\nann,a,68\nann,b,72\n")
    assert read_ratings(path, kind="score").ranks().tolist() == [2.0, 1.0]
    assert read_ratings(path, kind="score", higher_is_better=False).ranks().tolist() == [1.0, 2.0]


def test_instances_by_column_or_by_file(write: Write) -> None:
    one = write("city,user,item,rating\nOslo,ann,a,5\nRome,ann,a,3\n", "one.csv")
    assert read_ratings(one, instance="city").instances.tolist() == ["Oslo", "Rome"]
    assert read_ratings(one, columns="instance=1").instances.tolist() == ["Oslo", "Rome"]
    with pytest.raises(DuplicateError, match=r"one.csv:2 and .*one.csv:3"):
        read_ratings(one)
    two = write("user,item,rating\nbob,a,1\n", "two.csv")
    three = write("user,item,rating\nann,a,1\n", "three.csv")
    p = read_ratings([two, three], instance_from="file")
    assert p.instances.tolist() == ["two", "three"]
    # The literal column "instance" needs no mention.
    own = write("instance,user,item,rating\nOslo,ann,a,5\nRome,ann,a,3\n", "own.csv")
    assert len(read_ratings(own)) == 2


def test_duplicates_name_both_lines_across_files(write: Write) -> None:
    a = write("user,item,rating\nann,a,5\nann,b,4\n", "a.csv")
    b = write("user,item,rating\n\nbob,a,5\nann,b,2\n", "b.csv")
    with pytest.raises(DuplicateError) as caught:
        read_ratings([a, b])
    assert f"{a}:3 and {b}:4" in str(caught.value)
    assert [r[3] for r in rows(read_ratings([a, b], duplicates="first")) if r[1:3] == ("ann", "b")] == [4.0]
    assert [r[3] for r in rows(read_ratings([b, a], duplicates="best")) if r[1:3] == ("ann", "b")] == [4.0]


@pytest.mark.parametrize(
    ("text", "line", "fragment"),
    [
        ("user,item,rating\na,b,1\na,c\n", 3, "expected 3 fields, found 2: 'a,c'"),
        ("user,item,rating\na,b,1\n\na,c,2,9\n", 4, "expected 3 fields, found 4: 'a,c,2,9'"),
        ("user,item,rating\na,b,1\na,c,x\n", 3, "the rating must be a finite number, found 'x'"),
        ("user,item,rating\na,b,1\na,c,inf\n", 3, "the rating must be a finite number, found 'inf'"),
        ("user,item,rating\na,b,1\n,c,1\n", 3, "the expert id is missing"),
        ("user,item,rating\na,b,1\na,,1\n", 3, "the item id is missing"),
        ('user,item,rating\n"a\nx",b,1\na,c,x\n', 4, "found 'x'"),
        ('user,item,rating\na,b,1\na,"c,1\n', 3, "a quoted field does not end"),
        ('user,item,rating\na,b,1\n"a"b,c,1\n', 3, "a quoted field does not end"),
        # Doubled quotes alone stand between the quote that opens the field and the end of the file.
        ('user,item,rating\na,b,1\na,c,"2""\nb,c,3\n""', 3, "a quoted field does not end"),
        ('user,item,rating\na,b,1\na,c,"2\v""', 3, "a quoted field does not end"),
        ("user,item,rating\n" + "a,b,1\n" * 0 + "a,b,1\na,c\udcff,1\n", 3, "expected UTF-8 text"),
    ],
)
def test_damaged_lines_are_named(write: Write, text: str, line: int, fragment: str) -> None:
    path = write(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ParseError) as caught:
        read_ratings(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert fragment in str(caught.value)


@pytest.mark.parametrize("odd", ["", '\xa0"q"', 'q"'])
@pytest.mark.parametrize("blank", ["", "\t\r\n"])
def test_a_quoted_id_keeps_its_line_ends(write: Write, odd: str, blank: str) -> None:
    """The exact parser, which reads what Polars would not, keeps what Polars keeps."""
    text = f'user,item,rating\r\nu,"two\r\nlines",4\r\n{blank}u,"a\nb",3\r\nu,{odd or "c"},1\r\n'
    path = write("", "t.csv")
    path.write_bytes(text.encode())
    ids = [row[1].strip() for row in csv.reader(io.StringIO(text, newline="")) if any(f.strip() for f in row)]
    assert read_ratings(path).items.tolist() == ids[1:]


def test_a_stray_quote_is_an_ordinary_character(write: Write) -> None:
    text = 'user,item,rating\nann,5" disk,1\nbob,3.5" disk,2\ncid,"a ""b""",3\n'
    assert read_ratings(write(text)).items.tolist() == ['5" disk', '3.5" disk', 'a "b"']


def test_ids_of_whole_floats_lose_their_fraction_only_when_all_are_whole(write: Write) -> None:
    assert read_ratings(write("user,item,rating\n1.0,7.0,1\n2.0,8,2\n")).items.tolist() == ["7", "8"]
    assert read_ratings(write("user,item,rating\n1.0,7.0,1\n2.0,8.5,2\n")).items.tolist() == ["7.0", "8.5"]
    c = read_comparisons(write("winner,loser\n1.0,2\n2.0,3.0\n"))
    assert c.items.tolist() == ["1", "2", "3"]


def test_an_item_that_won_and_lost_has_one_id_in_both_columns(write: Write) -> None:
    text = "winner,loser\n1.0,2.0\n2.0,baseline\n1.0,baseline\n3.0,2.0\n2.0,3.0\n1.0,3.0\n"
    c = read_comparisons(write(text))
    naive = Counter(tuple(row) for row in list(csv.reader(text.splitlines()))[1:])
    found: Counter[tuple[str, ...]] = Counter()
    for _, left, right, n_left, n_right, _ in rows(c):
        found += Counter({(left, right): n_left, (right, left): n_right})
    assert found == naive
    assert set(c.items) == {"1.0", "2.0", "3.0", "baseline"}


@pytest.mark.parametrize("spelling", ["2.0", "2"])
@pytest.mark.parametrize("rival", ["3.0", "3"])
def test_a_winner_is_the_same_item_however_the_number_is_written(write: Write, spelling: str, rival: str) -> None:
    c = read_comparisons(
        write(f"left,right,winner\n{rival},2.0,{spelling}\n2,{rival},tie\n4.0,2,4\n"), outcomes="items"
    )
    assert rows(c) == [
        ("all", "3", "2", 0.0, 1.0, 0.0),
        ("all", "2", "3", 0.0, 0.0, 1.0),
        ("all", "4", "2", 1.0, 0.0, 0.0),
    ]


def test_winners_that_are_all_numbers_stay_as_their_items_are(write: Write) -> None:
    text = "left,right,winner\n2.0,3.0,3.0\nbaseline,2.0,2.0\n3.0,baseline,3.0\n"
    c = read_comparisons(write(text), outcomes="items")
    assert rows(c) == [
        ("all", "2.0", "3.0", 0.0, 1.0, 0.0),
        ("all", "baseline", "2.0", 0.0, 1.0, 0.0),
        ("all", "3.0", "baseline", 1.0, 0.0, 0.0),
    ]


def test_files_whose_numbers_are_read_differently_are_said(write: Write) -> None:
    whole = write("winner,loser\n1.0,2.0\n", "whole.csv")
    mixed = write("winner,loser\n1.0,baseline\n", "mixed.csv")
    for files in ([whole, mixed], [mixed, whole]):
        with pytest.warns(DataWarning, match=r'whole\.csv: ids such as "7\.0" are read as "7".*mixed\.csv not all are'):
            read_comparisons(files)


@pytest.mark.parametrize("name", ["t.tsv", "t.txt"])
def test_a_tab_too_many_in_a_table_of_tabs_is_refused(write: Write, name: str) -> None:
    rows = "".join(f"ann\t{item}\t{rank}\n" for rank, item in enumerate("abcd", 1))
    path = write(f"user\titem\trank\n{rows}bob\ta\t\t2.5\n", name)
    with pytest.raises(ParseError, match=rf"{name}:6: expected 3 fields, found 4"):
        read_rankings(path)


@pytest.mark.parametrize("text", ["", "\n \n", "user,item,rating\n", "user,item,rating\n\n,,\n"])
def test_a_file_without_rows_is_refused(write: Write, text: str) -> None:
    with pytest.raises(FormatError, match=r"t\.csv: .*no rows"):
        read_ratings(write(text))


def test_json_lines_name_the_broken_line(write: Write) -> None:
    good = '{"user":"a","item":"b","rating":1}\n'
    for bad in ("[1]", '{"user":', "nonsense", '{"user":"a","item":"c","rating":NaN}', '"text"'):
        with pytest.raises(ParseError, match=r"j\.jsonl:3: expected one JSON object"):
            read_ratings(write(good + "\n" + bad + "\n" + good, "j.jsonl"))
    with pytest.raises(ParseError, match=r"j\.jsonl:2: the expert id is missing"):
        read_ratings(write(good + '{"item":"c","rating":1}\n', "j.jsonl"))
    mixed = write(good + '{"user":7,"item":true,"rating":"2"}\n', "j.jsonl")
    assert rows(read_ratings(mixed))[1] == ("all", "7", "true", 2.0)


# What sends a file of JSON lines on to the slow, exact pass: a number that Polars does not take.
_SLOW_LINE = '{"user":"z","item":"z","rating":1.0e0,"extra":1e400}\n'


@pytest.mark.parametrize("slow", ["", _SLOW_LINE], ids=["quick", "slow"])
@pytest.mark.parametrize(
    ("line", "fragment"),
    [
        ('{"user":"b","item":"c","item":"d","rating":1}', "the key 'item' is given twice"),
        ('{"user":"b","item":"c","it\\u0065m":"d","rating":1}', "the key 'item' is given twice"),
        ('{"item" : "c" ,"user":"b","rating":1,"item"\t:"c"}', "the key 'item' is given twice"),
        ('{"user":"b","item":"\\ud800","rating":1}', "the value '\\ud800' of 'item' is not text"),
        ('{"user":"b","item":"x\\uDC00y","rating":1}', "the value 'x\\udc00y' of 'item' is not text"),
        ('{"user":"b","item":"\\\\\\ud83dx\\ude00","rating":1}', "of 'item' is not text"),
    ],
)
def test_json_that_means_two_things_is_refused_on_its_line(write: Write, line: str, fragment: str, slow: str) -> None:
    good = '{"user":"a","item":"b","rating":1}\n'
    path = write(good + slow + "\n" + line + "\n" + good.replace("b", "e"), "j.jsonl")
    with pytest.raises(ParseError) as caught:
        read_ratings(path)
    assert str(caught.value).startswith(f"{path}:{4 if slow else 3}: ")
    assert fragment in str(caught.value)


@pytest.mark.parametrize("slow", ["", _SLOW_LINE], ids=["quick", "slow"])
def test_json_of_one_meaning_is_read_as_python_reads_it(write: Write, slow: str) -> None:
    lines = [
        '{"user":"item","item":"a\\\\ud800","rating":1}',
        '{"user":"u","item":"\\ud83d\\ude00","rating":2,"note":"\\ud800","note":"cut"}',
        '{"user":"u","item":"say \\"item\\": x","rating":3,"more":{"item":"inner"}}',
        '{"us\\u0065r":"u","item":1e-7,"rating":4}',
        '{"user":"u","item":-0.0,"rating":5}',
    ]
    naive = [json.loads(line) for line in lines]
    found = rows(read_ratings(write("\n".join(lines) + "\n" + slow, "j.jsonl")))[: len(lines)]
    assert [r[:2] for r in found] == [("all", row["user"]) for row in naive]
    assert [r[2] for r in found] == [row["item"] for row in naive[:3]] + ["0.0000001", "-0"]


@pytest.mark.parametrize("blank", ["\n", "\n\n", " \t\n", "\r\n"])
def test_blank_lines_above_json_are_passed_over_and_counted(write: Write, blank: str) -> None:
    good = '{"user":"a","item":"b","rating":1}\n'
    assert rows(read_ratings(write(blank + good + "\n", "j.jsonl"))) == [("all", "a", "b", 1.0)]
    path = write(blank + good + "\n" + good.replace("1", '"x"'), "j.jsonl")
    with pytest.raises(ParseError) as caught:
        read_ratings(path)
    assert str(caught.value).startswith(f"{path}:{blank.count(chr(10)) + 3}: the rating must be")


def test_a_matrix_of_json_has_the_items_that_only_its_last_line_names(write: Write) -> None:
    lines = [json.dumps({"a": 1, "b": 2, "c": 3})] * 5000 + [json.dumps({"b": 1, "late": 2})]
    p = read_rankings(write("\n".join(lines) + "\n", "j.jsonl"), layout="ranks")
    assert p.items.tolist() == ["a", "b", "c", "late"]
    assert p.experts[5000] == "5001"
    assert rows(p)[-2:] == [("all", "5001", "b", 1.0), ("all", "5001", "late", 2.0)]
    sparse = "".join(json.dumps({f"{line}-{k}": k + 1 for k in range(9)}) + "\n" for line in range(2000))
    with pytest.raises(FormatError, match="2,000 rows and 18,000 columns the table is all but empty"):
        read_rankings(write(sparse, "j.jsonl"), layout="ranks")


def test_a_name_that_looks_like_a_pattern_is_one_file(write: Write) -> None:
    text = '{"user":"u","item":"ITEM","rating":1}\n'
    paths = [write(text.replace("ITEM", item), name) for name, item in (("a*.jsonl", "x"), ("ab.jsonl", "y"))]
    paths.append(write(text.replace("ITEM", "z"), "a[b].jsonl"))
    assert [read_ratings(path).items.tolist() for path in paths] == [["x"], ["y"], ["z"]]


def test_a_damaged_parquet_file_is_named(write: Write, tmp_path: Path) -> None:
    pl.DataFrame({"user": ["a"] * 50, "item": [str(k) for k in range(50)], "rating": [1.0] * 50}).write_parquet(
        tmp_path / "r.parquet"
    )
    data = (tmp_path / "r.parquet").read_bytes()
    for cut in (b"PAR1", data[:40], data[:-20], data[: len(data) // 2] + data[len(data) // 2 + 9 :]):
        with pytest.raises(ConcordantError, match=r"cut\.parquet"):
            read_ratings(write(cut, "cut.parquet"))
    pl.DataFrame({"user": [[1]], "item": ["a"], "rating": [1]}).write_parquet(tmp_path / "l.parquet")
    with pytest.raises(ParseError, match="row 0: the expert id must be text or a whole number"):
        read_ratings(tmp_path / "l.parquet")


def test_row_names_of_r_and_a_wide_table(write: Write) -> None:
    p = read_rankings(write("P1 P2 P3\nA1 1 2 3\nA2 3 1 2\n", "r.txt"), layout="ranks")
    assert p.experts.tolist() == ["A1", "A2"]
    assert p.value.tolist() == [1, 2, 3, 3, 1, 2]
    n = 12_000
    wide = write(",".join(f"i{k}" for k in range(n)) + "\n" + ",".join(str(k + 1) for k in range(n)) + "\n")
    assert read_rankings(wide, layout="ranks").n_rows == n


RANKS = ",P1,P2,P3\nA1,1,2,3\nA2,3,1,2\n"


def test_a_matrix_of_ranks_is_guessed_and_said(write: Write) -> None:
    path = write(RANKS)
    with pytest.warns(ConcordantWarning, match=r"t\.csv: read as layout 'ranks', 2 experts in rows and 3 items"):
        p = read_rankings(path)
    assert rows(p)[3:] == [("all", "A2", "P1", 3.0), ("all", "A2", "P2", 1.0), ("all", "A2", "P3", 2.0)]
    assert read_rankings(path, layout="ranks") == p
    turned = read_rankings(write(",A1,A2\nP1,1,3\nP2,2,1\nP3,3,2\n"), layout="ranks", experts="columns")
    assert turned == p


def test_a_matrix_of_orders_in_all_directions(write: Write) -> None:
    path = write("rank1,rank2,rank3\nx,y,z\ny,,x\nz,NA,\n,,\n")
    with pytest.warns(ConcordantWarning, match=r"'orders', 3 experts in rows and 3 positions"):
        p = read_rankings(path)
    assert rows(p) == [
        ("all", "1", "x", 1.0),
        ("all", "1", "y", 2.0),
        ("all", "1", "z", 3.0),
        ("all", "2", "y", 1.0),
        ("all", "2", "x", 3.0),
        ("all", "3", "z", 1.0),
    ]
    turned = write("1,2,3\nx,y,z\ny,,NA\nz,x,\n")
    assert read_rankings(turned, layout="orders", experts="columns", header=True) == p
    # The number in the name is the position, wherever the column stands.
    mixed = read_rankings(write("judge,rank3,rank1\nann,z,x\n"), layout="orders", columns="expert=judge")
    assert rows(mixed) == [("all", "ann", "z", 3.0), ("all", "ann", "x", 1.0)]


def test_an_expert_who_ranks_nothing_is_known(write: Write) -> None:
    p = read_rankings(write("judge,rank1,rank2\nann,x,y\nbob,,\ncid,y,\n"), layout="orders", columns="expert=judge")
    assert p.experts.tolist() == ["ann", "bob", "cid"]
    assert p.n_lists == 2
    q = read_rankings(write(",x,y\nann,1,2\nbob,,0\n"), layout="ranks")
    assert q.experts.tolist() == ["ann", "bob"]
    assert q.n_lists == 1


def test_a_zero_is_no_rank_unless_it_might_be(write: Write) -> None:
    assert read_rankings(write(",x,y,z\nann,1,0,2\nbob,1,2,3\n"), layout="ranks").n_rows == 5
    with pytest.raises(FormatError, match="ranks counted from 0"):
        read_rankings(write(",x,y,z\nann,1,0,2\nbob,0,1,2\n"), layout="ranks")
    assert read_rankings(write(",x,y,z\nann,1,0,2\nbob,0,1,2\n"), layout="ranks", null_values=["0"]).n_rows == 4
    with pytest.raises(ParseError, match=r":2: ranks begin at 1"):
        read_rankings(write(",x,y,z\nann,1,0,2\n"), layout="ranks", null_values=[""])
    assert read_rankings(write("rank1,rank2,rank3\n5,3,0\n3,0,0\n"), layout="orders").n_rows == 3
    with pytest.raises(ParseError, match=r":3: is 0 an item"):
        read_rankings(write("rank1,rank2,rank3\n5,3,0\n0,3,5\n"), layout="orders")
    with pytest.raises(ParseError, match="is 0 an item"):
        read_rankings(write("rank1,rank2,rank3\n1,2,0\n2,1,0\n"), layout="orders")
    assert "0" in read_rankings(write("rank1,rank2\n0,3\n"), layout="orders", null_values=[""]).items.tolist()


def test_the_long_layout(write: Write) -> None:
    path = write("topic,judge,docno,rank\n301,ann,a,1\n301,ann,b,2.5\n302,bob,a,1\n")
    assert rows(read_rankings(path)) == [("301", "ann", "a", 1.0), ("301", "ann", "b", 2.5), ("302", "bob", "a", 1.0)]
    with pytest.raises(ParseError, match=r"t\.csv:2: ranks begin at 1 \(best\)\. Got 0 for item 'a' by expert 'ann'"):
        read_rankings(write("judge,item,rank\nann,a,0\n"))
    weighted = read_rankings(write("judge,item,rank,weight\nann,a,1,3\nann,b,2,3\nbob,b,1,1\n"))
    assert weighted.weights.tolist() == [3.0, 1.0]
    with pytest.raises(ConcordantError, match=r"t\.csv:3: expert 'ann' has two weights"):
        read_rankings(write("judge,item,rank,weight\nann,a,1,3\nann,b,2,1\n"))


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        (",0,1,2\na,1,2,3\nb,2,1,3\n", "they might be items (layout 'ranks') or positions (layout 'orders')"),
        (",truth\na,1\nb,3\nc,2\n", "layout='ranks', experts='columns'"),
        ("best,worst,year\na,b,2015\nc,b,2016\n", "The columns are ['best', 'worst', 'year']"),
        (",P1,P2\nA,5,4\nB,3,5\n", "cannot be told"),
        ("1,2,3\n2,1,3\n", "3 columns and no header"),
    ],
)
def test_a_layout_that_cannot_be_told_is_asked_for(write: Write, text: str, fragment: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_rankings(write(text))
    assert fragment in str(caught.value)
    assert "Layouts of rankings: 'long'" in str(caught.value)


def test_options_of_rankings_are_checked(write: Write) -> None:
    path = write(RANKS)
    for options in ({"layout": "wide"}, {"experts": "cells"}, {"duplicates": "last"}, {"file_type": "xls"}):
        with pytest.raises(ParameterError):
            read_rankings(path, **{"layout": "ranks", **options})
    with pytest.raises(ParameterError, match="in the layout 'ranks'"):
        read_rankings(path, layout="ranks", columns="rank=2")


VOTES = {("ann", "x", "y"): (1.0, 0.0, 0.0), ("bob", "y", "z"): (0.0, 1.0, 0.0), ("ann", "x", "z"): (0.0, 0.0, 1.0)}


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("judge,left,right,winner", ("left", "right", "tie")),
        ("judge,left,right,winner", ("LEFT", " Right ", "Draw")),
        ("worker,model_a,model_b,winner", ("model_a", "model_b", "tie (bothbad)")),
        ("worker,model_a,model_b,winner", ("a", "b", "both")),
        ("user,item_a,item_b,outcome", ("1", "0", "0.5")),
        ("user,item1,item2,result", ("1.0", "0.0", "0.50")),
        ("expert,left,right,winner", ("x", "z", "tie")),
        ("expert,left,right,winner", ("X", "Z", "Neither")),
        ("annotator,option_a,option_b,choice", ("option_a", "option_b", "equal")),
        ("rater,left,right,preference", ("first", "second", "same")),
    ],
)
def test_outcomes_in_many_words(write: Write, header: str, words: tuple[str, str, str]) -> None:
    text = f"{header}\nann,x,y,{words[0]}\nbob,y,z,{words[1]}\nann,x,z,{words[2]}\n"
    c = read_comparisons(write(text))
    assert c.sided
    assert {(e, a, b): counts for _, e, a, b, *rest in rows(c) if (counts := tuple(rest))} == VOTES


def test_unknown_outcomes_are_listed_with_their_counts(write: Write) -> None:
    with pytest.raises(ParseError) as caught:
        read_comparisons(write("left,right,winner\na1,b1,left\na1,c1,lleft\nb1,c1,left\nb1,c1,\n"))
    message = str(caught.value)
    assert "t.csv:3: the outcome 'lleft' of 'a1' against 'c1' is not known" in message
    assert "'left' (2), " in message
    assert "'lleft' (1)" in message
    assert "'' (1)" in message
    assert "Known: left, right, tie" in message


def test_outcomes_that_might_be_both_are_asked_about(write: Write) -> None:
    path = write("left,right,winner\na,b,b\nb,a,a\n")
    with pytest.raises(ParseError, match=r"t\.csv:3: .* outcomes='items' or outcomes='sides'"):
        read_comparisons(path)
    assert read_comparisons(path, outcomes="items").n_right.tolist() == [1, 1]
    assert read_comparisons(path, outcomes="sides").n_right.tolist() == [1, 0]
    with pytest.raises(ParseError, match="some outcomes name a side and some name an item"):
        read_comparisons(write("left,right,winner\nx,y,left\nx,y,y\n"))
    with pytest.raises(ParameterError, match="'outcomes'"):
        read_comparisons(path, outcomes="both")  # type: ignore[arg-type]


def test_winner_and_loser_have_no_sides(write: Write) -> None:
    c = read_comparisons(write("assessor,bottom_item,top_item\n1,5,1\n1,1,5\n2,3,1\n"))
    assert not c.sided
    assert rows(c.collapse()) == [("all", "1", "5", 1.0, 1.0, 0.0), ("all", "1", "3", 1.0, 0.0, 0.0)]
    assert c.experts.tolist() == ["1", "2"]
    assert read_comparisons(write("winner,loser\na,b\n")).expert is None


def test_counts_of_pairs(write: Write) -> None:
    c = read_comparisons(write(",i,j,r_ij,w_ij,w_ji,t_ij\n0,1,2,57,19,22,16\n1,1,3,47,16,19,12\n"))
    assert not c.sided
    assert rows(c) == [("all", "1", "2", 19.0, 22.0, 16.0), ("all", "1", "3", 16.0, 19.0, 12.0)]
    d = read_comparisons(write("a,b,a wins,b wins\nx,y,2,3\n"), columns="left=a,right=b,n_left=3,n_right=4")
    assert d.sided
    assert rows(d) == [("all", "x", "y", 2.0, 3.0, 0.0)]
    with pytest.raises(ParseError, match=r":2: n_left must be a number >= 0"):
        read_comparisons(write("left,right,n_left,n_right\nx,y,-1,3\n"))


def test_an_item_against_itself(write: Write) -> None:
    path = write("1 268 3\n1 268 268\n2 5 268\n", "pairs.txt")
    columns = "expert=1,winner=2,loser=3"
    with pytest.raises(ParseError, match=r"pairs\.txt:2: item '268' is compared with itself"):
        read_comparisons(path, columns=columns)
    c = read_comparisons(path, columns=columns, self_pairs="drop")
    assert c.n_rows == 2
    assert c.n_slots == 3


def test_comparisons_without_a_header_are_asked_about(write: Write) -> None:
    with pytest.raises(FormatError) as caught:
        read_comparisons(write("1 11.0 10.0\n1 11.0 14.0\n", "all_pair.txt"))
    assert "columns='expert=1,winner=2,loser=3' (--columns)" in str(caught.value)
    assert "There are 3 columns and no header; the first row is ['1', '11.0', '10.0']" in str(caught.value)
    with pytest.raises(ColumnError, match="Comparisons have the columns winner and loser"):
        read_comparisons(write("variety_a,best,year\na,b,2015\n"))


def test_comparisons_by_prompt_and_with_weights(write: Write) -> None:
    path = write("prompt,left,right,winner,votes\n8,a1,b1,left,2\n9,a1,b1,tie,1\n8,b1,c1,right,1\n")
    c = read_comparisons(path, instance="prompt", columns="weight=votes")
    assert c.instances.tolist() == ["8", "9"]
    assert rows(c) == [
        ("8", "a1", "b1", 2.0, 0.0, 0.0),
        ("8", "b1", "c1", 0.0, 1.0, 0.0),
        ("9", "a1", "b1", 0.0, 0.0, 1.0),
    ]


def test_labels_from_qrels_and_tables(write: Write, tmp_path: Path) -> None:
    wanted = [("301", "d1", 2.0), ("301", "d2", 0.0), ("302", "d1", -1.0)]
    assert rows(read_labels(write("301 0 d1 2\n301 0 d2 0\n302 0 d1 -1\n", "qrels.txt"))) == wanted
    assert rows(read_labels(write("301\tQ0\td1\t2\n301\tQ0\td2\t0\n302\tQ0\td1\t-1\n", "q"))) == wanted
    assert rows(read_labels(write("query,docno,relevance\n301,d1,2\n301,d2,0\n302,d1,-1\n"))) == wanted
    pl.DataFrame({"topic": [301, 301, 302], "item": ["d1", "d2", "d1"], "gold": [2, 0, -1]}).write_parquet(
        tmp_path / "l.pq"
    )
    assert rows(read_labels(tmp_path / "l.pq")) == wanted
    text = "".join(json.dumps({"instance": q, "item": i, "label": v}) + "\n" for q, i, v in wanted)
    assert rows(read_labels(write(text, "l.jsonl"))) == wanted
    pairs = read_labels(write("1 4\n2 5\n", "doc_info.txt"), columns="item=1,label=2")
    assert rows(pairs) == [("all", "1", 4.0), ("all", "2", 5.0)]
    with pytest.raises(ColumnError, match=r"no column for item and label .* columns='item=1,label=2'"):
        read_labels(write("1 4\n2 5\n", "doc_info.txt"))
    gone = read_labels(write("query,docno,relevance\n301,d1,2\n301,d2,-1\n"), null_values=["-1"])
    assert rows(gone) == [("301", "d1", 2.0), ("301", "d2", None)]


def test_an_item_with_two_labels(write: Write) -> None:
    path = write("query,docno,relevance\n1,d,2\n1,d,2\n1,e,0\n1,e,1\n")
    with pytest.raises(DuplicateError) as caught:
        read_labels(path)
    assert f"item 'e' of instance '1' has two labels, 0 and 1 ({path}:4 and {path}:5)" in str(caught.value)
    assert read_labels(path, duplicates="best").label.tolist() == [2, 1]
    assert read_labels(path, duplicates="first").label.tolist() == [2, 0]


def test_scores_features_and_consensus_tables(write: Write) -> None:
    path = write("instance,item,score,rank\nq,a,0.5,1\nq,b,0.5,1\nq,c,0.25,3\n", "fused.csv")
    p = read_scores(path)
    assert p.kind == "score"
    assert rows(p)[2] == ("q", "fused", "c", 0.25)
    c = read_consensus(path)
    assert c.rank.tolist() == [1, 1, 3]
    assert read_consensus(write("item,score\na,1\nb,2\n")).ranking("all") == ["b", "a"]
    with pytest.raises(ParseError, match=r":2: the rank of a consensus must be a whole number"):
        read_consensus(write("instance,item,score,rank\nq,a,0.5,1.5\n"))
    f = read_feature_table(write("instance,item,x,instances\nq,a,1,2\nq,b,3,4\n"))
    assert f.names.tolist() == ["x", "instances"]
    assert f.X.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(DuplicateError, match=r"t\.csv:2 and .*t\.csv:3"):
        read_feature_table(write("instance,item,x\nq,a,1\nq,a,2\n"))
    unknown = read_feature_table(write("instance,item,x,y\nq,a,1,NA\nq,b,,2\n"))
    assert np.array_equal(unknown.X, [[1, np.nan], [np.nan, 2]], equal_nan=True)
    with pytest.raises(ParseError, match=r":3: the x must be a finite number, found 'inf'"):
        read_feature_table(write("instance,item,x\nq,a,1\nq,b,inf\n"))


def test_files_of_different_shape_are_not_joined(write: Write) -> None:
    a = write("winner,loser\nx,y\n", "a.csv")
    b = write("judge,winner,loser\nann,x,y\n", "b.csv")
    with pytest.raises(FormatError, match=r"b\.csv: does not have the same columns as .*a\.csv: only one"):
        read_comparisons([a, b])


plain = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=12).filter(
    lambda t: t == t.strip() and t.lower() not in ("nan", "na", "null", "none", "n/a") and "\ufeff" not in t
)
values = st.floats(-1e6, 1e6, allow_nan=False).map(lambda v: round(v, 3))


@given(
    table=st.dictionaries(st.tuples(plain, plain), values, min_size=1, max_size=12),
    separator=st.sampled_from([",", "\t", ";", "|"]),
)
def test_any_text_survives_a_quoted_table(
    table: dict[tuple[str, str], float], separator: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = all(e.replace(".0", "").lstrip("-").isdecimal() for pair in table for e in pair)
    if whole:
        return  # "7.0" becomes "7", which is tested on its own
    path = tmp_path_factory.mktemp("t") / "t.csv"
    quoted = [
        '"' + e.replace('"', '""') + '"' + separator + '"' + i.replace('"', '""') + '"' + separator + repr(v)
        for (e, i), v in table.items()
    ]
    path.write_text(separator.join(["user", "item", "rating"]) + "\n" + "\n".join(quoted) + "\n", encoding="utf-8")
    assert {(e, i): v for _, e, i, v in rows(read_ratings(path, file_type="csv"))} == table


@given(data=st.data())
def test_lines_are_found_whatever_stands_before_them(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    n = data.draw(st.integers(1, 30))
    lines, bad = ["user,item,rating"], data.draw(st.integers(0, n - 1))
    line = number = 2
    for k in range(n):
        blank = data.draw(st.sampled_from(["", "\n", "\n\n"]))
        name = data.draw(st.sampled_from([f"i{k}", f'"i\n{k}"', f'"i""{k}"', f'i"{k}']))
        if k == bad:
            number = line + blank.count("\n")
        lines.append(f"{blank}u,{name},{'oops' if k == bad else 1}")
        line += lines[-1].count("\n") + 1
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ParseError, match="found 'oops'") as caught:
        read_ratings(path)
    assert caught.value.line == number


def test_the_quick_and_the_exact_pass_agree(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    cells = ["a", "b c", '"q,r"', '"two\nlines"', "", "7", "é"]
    for _ in range(60):
        width = chance.randint(1, 4)
        text = "\n".join(",".join(chance.choice(cells) for _ in range(width)) for _ in range(chance.randint(2, 9)))
        path = write("h" + ",h" * (width - 1) + "\n" + text + "\n")
        table = open_table(path, header=True)
        try:
            quick, at = table.read(range(width))
        except FormatError:
            continue
        exact = open_table(path, header=True)
        monkeypatch.setattr(exact, "_scan", lambda *_: None)
        slow, places = exact.read(range(width))
        assert quick.rows() == slow.rows()
        assert [table.line(k) for k in list(at)] == [exact.line(k) for k in list(places)]


BALLOTS = "a,b,c\nb,c,a\nc,a,b\n"


@pytest.mark.parametrize("header", ["first,second,third", "First choice,Second choice,Third choice", "1st,2nd,3rd"])
def test_words_for_positions_are_a_header_of_orders(write: Write, header: str) -> None:
    p = read_rankings(write(f"{header}\n{BALLOTS}"), layout="orders")
    assert p.n_experts == 3
    assert p.items.tolist() == ["a", "b", "c"]
    turned = ",".join(reversed(header.split(",")))
    assert read_rankings(write(f"{turned}\n{BALLOTS}"), layout="orders").value.tolist()[:3] == [3, 2, 1]


@pytest.mark.parametrize("header", ["V1,V2,V3", "0,1,2", "1,2,3", "x.1,x.2,x.3", "Unnamed: 0,0,1"])
@pytest.mark.parametrize("experts", ["rows", "columns"])
def test_names_that_a_program_made_up_are_asked_about(write: Write, header: str, experts: Any) -> None:
    path = write(f"{header}\n{BALLOTS}")
    with pytest.raises(
        FormatError, match=r"t\.csv: the first row is .* nothing .* header=True .* a ranking, header=False"
    ):
        read_rankings(path, layout="orders", experts=experts)
    assert read_rankings(path, layout="orders", experts=experts, header=True).items.tolist() == ["a", "b", "c"]
    assert read_rankings(path, layout="orders", experts=experts, header=False, null_values=("",)).n_slots == 6


def test_a_first_row_that_others_share_items_with_is_a_ranking(write: Write) -> None:
    assert read_rankings(write("V1,V2,V3\nV2,V1,V3\n"), layout="orders").n_experts == 2
    assert read_rankings(write("g1,g2\ng3,g4\ng5,g6\n"), layout="orders").n_experts == 3
    with pytest.raises(FormatError, match="of which nothing stands in any other row"):
        read_rankings(write("1,2\n13,14\n15,16\n"), layout="orders")
    with pytest.warns(
        DataWarning, match=r"\['gold', 'silver', 'bronze'\], of which nothing .* It is taken for a ranking"
    ):
        assert read_rankings(write(f"gold,silver,bronze\n{BALLOTS}"), layout="orders").n_experts == 4
    lists = "hela,k562,hap1\nPSMD1,RPL3,PLK1\nRPL3,BCR,RPL3\nPLK1,PSMD1,KRT5\nCDK1,,PSMD1\n"
    with pytest.warns(DataWarning, match=r"\['hela', 'k562', 'hap1'\], of which nothing .* pass header=True"):
        assert read_rankings(write(lists), layout="orders", experts="columns").n_slots == 9
    named = read_rankings(write(lists), layout="orders", experts="columns", header=True)
    assert (named.experts.tolist(), named.n_slots) == (["hela", "k562", "hap1"], 6)
    # Lists that share no item but the first are no sign of a header, and lists without a header are not asked about.
    assert read_rankings(write("g1,g2\ng3,g4\ng5,g6\n"), layout="orders", experts="columns").n_slots == 6
    assert read_rankings(write(lists.partition("\n")[2]), layout="orders", experts="columns").n_slots == 6
    with pytest.raises(FormatError, match="and no other row holds a 0"):
        read_rankings(write("0,1,2\n2,3,3\n3,3,2\n"), layout="ranks")


def test_ids_like_missing_values_in_several_files_are_one_warning(write: Write) -> None:
    paths = [write(f"expert,item,rank\nNA,{i},1\nx,b,2\n", f"{i}.csv") for i in "ab"]
    with pytest.warns(DataWarning, match=r"a\.csv:2: the expert 'NA' is taken for a name, in 2 rows in all") as caught:
        read_rankings(paths, "long", duplicates="first")
    assert len(caught) == 1


def test_weights_are_asked_only_of_rows_with_a_value(write: Write) -> None:
    p = read_rankings(write("judge,item,rank,weight\nann,a,1,3\nann,b,,\nbob,b,1,1\n"))
    assert p.weights.tolist() == [3.0, 1.0]
    for wrong, found in (("", "it is missing"), ("-1", "found -1")):
        with pytest.raises(ParseError, match=rf"t\.csv:3: the weight must be a finite number >= 0; {found}"):
            read_rankings(write(f"judge,item,rank,weight\nann,a,1,3\nann,b,2,{wrong}\n"))


@pytest.mark.parametrize("name", ["NaN", "NA", "null", "None", "nan"])
def test_a_name_like_a_missing_value_stays_a_name_and_is_said(write: Write, name: str) -> None:
    with pytest.warns(DataWarning, match=rf"t\.csv:3: the left item '{name}' is taken for a name, in 2 rows in all"):
        votes = read_comparisons(write(f"winner,loser\na,b\n{name},b\n{name},a\n"))
    assert votes.items.tolist() == ["a", "b", name]
    with pytest.warns(DataWarning, match=rf"t\.csv:2: the expert '{name}' is taken for a name"):
        p = read_rankings(write(f"expert,item,rank\n{name},a,1\nx,b,2\n"))
    assert p.experts.tolist() == [name, "x"]
    with pytest.warns(DataWarning, match=rf"^row 1: the item '{name}' is taken for a name"):
        q = cc.from_frame(pl.DataFrame({"expert": ["x", "x"], "item": ["a", name], "rank": [1, 2]}))
    assert q.items.tolist() == ["a", name]


def test_a_reader_given_a_table_names_the_call_that_takes_it() -> None:
    votes = pl.DataFrame({"model_a": ["m"], "model_b": ["n"], "winner": ["model_a"], "judge": ["j"]})
    call = r'from_frame\(df, left="model_a", right="model_b", winner="winner", expert="judge"\)'
    for table in (votes, votes.lazy(), votes.to_dict(as_series=False)):
        with pytest.raises(KindError, match=rf"a reader takes the names of files. Got \w+: call concordant.{call}"):
            read_comparisons(table)  # type: ignore[arg-type]
    with pytest.raises(ColumnError, match=f"Hint: {call}"):
        cc.from_frame(votes)
    assert cc.from_frame(votes, left="model_a", right="model_b", winner="winner", expert="judge").n_slots == 2
    with pytest.raises(ColumnError, match=r'Hint: from_frame\(df, instance="qid", item="doc", label="relevance"\)'):
        cc.from_frame(pl.DataFrame({"qid": ["q"], "doc": ["d"], "relevance": [1]}))
    with pytest.raises(KindError, match=r"Got DataFrame: call concordant.from_frame\(df\)"):
        read_rankings(pl.DataFrame({"expert": ["x"], "item": ["a"], "rank": [1]}))  # type: ignore[arg-type]
    ready = cc.from_lists({"x": ["a"]})
    with pytest.raises(KindError, match="Got Preferences, which is read already: use it as it is"):
        read_rankings(ready)  # type: ignore[arg-type]
    with pytest.raises(KindError, match=r"from_frame turns a dataframe .* Got Preferences: use it as it is"):
        cc.from_frame(ready)
    with pytest.raises(ParameterError, match="must be a path"):
        read_rankings(7)  # type: ignore[arg-type]


def test_a_damaged_first_record_is_refused_and_not_passed_over(write: Write) -> None:
    path = write('user,item,rating\n"u, 1","a ""b""",5"u, 1","two\nlines","" ,3\nu2,c,1\n')
    with pytest.raises(ParseError, match=r"t\.csv:2: a quoted field does not end as it should"):
        read_ratings(path)


@pytest.mark.parametrize("blank", ["\t", "\v", "\f", " \v "])
def test_every_blank_parts_the_fields_of_a_table_of_blanks(blank: str, write: Write) -> None:
    lines = ["user item rating", "u0 m0 1", f"u1 m1{blank}2", "u2 m2 3"]
    wanted = [("all", "u0", "m0", 1.0), ("all", "u1", "m1", 2.0), ("all", "u2", "m2", 3.0)]
    assert sorted(rows(read_ratings(write("\n".join(lines), "t.txt")))) == wanted
    lines[2] = f"u1 m1{blank}2 9"
    with pytest.raises(ParseError, match=r"t\.txt:3: expected 3 fields, found 4"):
        read_ratings(write("\n".join(lines), "t.txt"))
