"""Names of items: from any table the readers know, never silently wrong."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from concordant.errors import ColumnError, ConcordantWarning, DataError, DuplicateError, ParameterError, ParseError
from concordant.io.names import read_names

FILMS = {"1": "Alien", "2": 'Brazil, or "1984 ½"'}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("films.csv", 'movieId,title,year\n1,Alien,1979\n2,"Brazil, or ""1984 ½""",1985\n'),
        ("films.tsv", 'name\tyear\titem\nAlien\t1979\t1\n"Brazil, or ""1984 ½"""\t1985\t2\n'),
        ("films.psv", 'item|name\n1|Alien\n2|"Brazil, or ""1984 ½"""\n'),
        ("films.csv", 'item,name\n1.0,Alien\n2.0,"Brazil, or ""1984 ½"""\n'),
        ("films.jsonl", '{"item": 1, "name": "Alien"}\n{"item": 2, "name": "Brazil, or \\"1984 ½\\""}\n'),
        ("movies.dat", '1::Alien::Horror\n2::Brazil, or "1984 ½"::Comedy\n'),
    ],
)
def test_tables_by_their_columns(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_names(tmp_path / name) == FILMS


def test_parquet_and_compressed_files(tmp_path: Path) -> None:
    pl.DataFrame({"docid": [1, 2], "Title": list(FILMS.values())}).write_parquet(tmp_path / "films.parquet")
    assert read_names(tmp_path / "films.parquet") == FILMS
    (tmp_path / "films.csv.gz").write_bytes(gzip.compress(b"item,name\n1,Alien\n"))
    assert read_names(tmp_path / "films.csv.gz") == {"1": "Alien"}


def test_columns_can_be_named_or_numbered(tmp_path: Path) -> None:
    (tmp_path / "a.psv").write_text("7|x|Alien\n8|y|Brazil\n")
    assert read_names(tmp_path / "a.psv", columns="item=1,name=3") == {"7": "Alien", "8": "Brazil"}
    (tmp_path / "b.csv").write_text("key,text\n7,Alien\n")
    assert read_names(tmp_path / "b.csv", columns={"item": "key", "name": "text"}) == {"7": "Alien"}


def test_items_without_a_name_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,name\n1,\n2,  \n3,Alien\n")
    assert read_names(tmp_path / "a.csv") == {"3": "Alien"}


def test_an_item_named_twice_is_named_with_both_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("item,name\n1,Alien\n2,Brazil\n\n1,Alien\n")
    with pytest.raises(DuplicateError) as caught:
        read_names(path)
    assert f"item '1' is named twice ({path}:2 and {path}:5)" in str(caught.value)


def test_columns_that_are_not_there_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("item,what\n1,Alien\n")
    with pytest.raises(
        ColumnError, match=r"a.csv: no column for name was found.*\['item', 'what'\].*'item=1,name=what'"
    ):
        read_names(path)
    with pytest.raises(ColumnError, match=r"columns not found: \['title'\]. The table has: \['item', 'what'\]"):
        read_names(path, columns="name=title")
    with pytest.raises(ColumnError, match="there is no column 3 for 'name'"):
        read_names(path, columns="name=3")
    with pytest.raises(ParameterError, match=r"words among item, name\. Got 'instance'"):
        read_names(path, columns="instance=1,name=2")
    path.write_text("1,Alien\n2,Brazil\n")
    with pytest.raises(ColumnError, match=r"no column for item and name.*2 columns and no header"):
        read_names(path)


def test_a_file_that_is_not_there_or_not_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_names(tmp_path / "none.csv")
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("item,name\n1,Alien\n")
    with pytest.raises(DataError, match=r"read from one file, and .* stands for 2"):
        read_names(tmp_path)


def test_ids_that_are_missing_have_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,name\n1,Alien\n,Brazil\n")
    with pytest.raises(ParseError, match=r"a\.csv:3: the item id is missing"):
        read_names(tmp_path / "a.csv")


def test_latin_letters_are_read_and_said(tmp_path: Path) -> None:
    path = tmp_path / "u.item"
    path.write_bytes("1|Alien (1979)|x\n2|Misérables, Les (1995)|y\n".encode("latin-1"))
    with pytest.warns(ConcordantWarning, match="u.item: not UTF-8; its names were read as Latin-1"):
        assert read_names(path) == {"1": "Alien (1979)", "2": "Misérables, Les (1995)"}


def test_errors_in_latin_files_name_the_file_itself(tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    path.write_bytes("item,name\n1,Misérables\n1,Alien\n".encode("latin-1"))
    with pytest.warns(ConcordantWarning), pytest.raises(DuplicateError) as twice:
        read_names(path)
    assert f"({path}:2 and {path}:3)" in str(twice.value)
    path.write_bytes("item,name\n1,Misérables\n,Alien\n".encode("latin-1"))
    with pytest.warns(ConcordantWarning), pytest.raises(ParseError) as missing:
        read_names(path)
    assert (missing.value.path, missing.value.line) == (str(path), 3)


@pytest.mark.data
def test_films_of_movielens(data_dir: Path) -> None:
    with pytest.warns(ConcordantWarning, match="Latin-1"):
        names = read_names(data_dir / "movielens-100k" / "u.item")
    assert len(names) == 1682
    assert (names["50"], names["1189"]) == ("Star Wars (1977)", "Prefontaine (1997)")
    assert names["543"] == "Misérables, Les (1995)"
