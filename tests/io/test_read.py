from __future__ import annotations

import gzip
import io
import lzma
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import concordant as cc
from concordant.errors import ColumnError, ConcordantWarning, FormatError, ParameterError, ParseError
from concordant.io.formats import FORMATS
from concordant.io.read import read, sniff
from concordant.io.read_or_scan import read_or_scan

RUN = "301 Q0 d1 1 2.5 {tag}\n301 Q0 d2 2 1.5 {tag}\n302 Q0 d1 1 0.5 {tag}\n"
QRELS = "301 0 d1 1\n301 0 d2 0\n302 0 d1 2\n"
AGG = "1 qid:7 1:2 2:NULL #docid = a inc = 1 prob = 0.5\n0 qid:7 1:1 2:1 #docid = b inc = 1 prob = 0.5\n"
VECTORS = "2 qid:1 1:0.5 2:3 #docid = a\n0 qid:1 1:0.25 2:-1e-3 #docid = b\n"
BALLOTS = """# FILE NAME: lunch.soc
# DATA TYPE: soc
# NUMBER ALTERNATIVES: 2
# NUMBER VOTERS: 3
# NUMBER UNIQUE ORDERS: 1
# ALTERNATIVE NAME 1: soup
# ALTERNATIVE NAME 2: fish
3: 2,1
"""

# name of the format -> (file name, content, what is found, as repr)
FILES: dict[str, tuple[str, str, dict[str, str]]] = {
    "trec": ("a.trec", RUN.format(tag="x"), {"preferences": "2 instances, 1 expert, 3 items, 3 scores in 2 lists"}),
    "qrels": ("b.txt", QRELS, {"labels": "2 instances, 3 items, labels 0 to 2"}),
    "letor-agg": (
        "c.txt",
        AGG,
        {
            "preferences": "1 instance, 2 experts, 2 items, 3 ranks in 2 lists",
            "labels": "1 instance, 2 items, labels 0 to 1",
        },
    ),
    "letor": (
        "d.txt",
        VECTORS,
        {"features": "1 instance, 2 items, 2 features", "labels": "1 instance, 2 items, labels 0 to 2"},
    ),
    "preflib": ("e.txt", BALLOTS, {"preferences": "1 instance, 1 expert, 2 items, 2 ranks in 1 list, weighted"}),
    "comparisons": (
        "f.csv",
        "left,right,winner\na,b,left\n",
        {"comparisons": "1 instance, 2 items, 1 row with 1 outcomes (0 ties)"},
    ),
    "ratings": (
        "g.csv",
        "userId,movieId,rating\nu,a,5\n",
        {"preferences": "1 instance, 1 expert, 1 item, 1 rating in 1 list"},
    ),
    "rankings": (
        "h.csv",
        "judge,item,rank\nj,a,1\n",
        {"preferences": "1 instance, 1 expert, 1 item, 1 rank in 1 list"},
    ),
    "labels": ("i.csv", "query,docno,relevance\nq,d,1\n", {"labels": "1 instance, 1 item, labels 1 to 1"}),
    "scores": (
        "j.csv",
        "instance,item,score,rank\nq,d,1,1\n",
        {"preferences": "1 instance, 1 expert, 1 item, 1 score in 1 list"},
    ),
    "features": ("k.csv", "instance,item,bm25,len\nq,d,1,1\n", {"features": "1 instance, 1 item, 2 features"}),
}


def found(dataset: Any) -> dict[str, str]:
    return {k: repr(v).partition(": ")[2] for k, v in dataset._asdict().items() if v is not None}


@pytest.fixture
def save(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    def save_it(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return save_it


Save = Callable[[str, str | bytes], Path]


@pytest.mark.parametrize("name", FILES)
def test_every_format_is_recognised_and_read(save: Save, name: str) -> None:
    file, content, wanted = FILES[name]
    path = save(file, content)
    assert sniff(path) == name
    assert found(read(path)) == wanted
    assert found(read(path, format=name)) == wanted
    packed = save(file + ".gz", gzip.compress(content.encode()))
    assert sniff(packed) == name
    assert found(read(str(packed))) == wanted
    assert sniff(save("plain", content)) == name  # the name helps, the content decides


def test_formats_that_are_only_asked_for_are_listed() -> None:
    readable = {name for name in FORMATS if FORMATS[name].read is not None}
    assert readable - set(FILES) >= {"letor-folds", "long", "ranks", "orders", "ranks-columns", "orders-columns"}
    assert all(f.about for f in FORMATS.values())


def test_matrices_are_recognised_and_said(save: Save) -> None:
    path = save("m.csv", ",P1,P2,P3\nA,1,2,3\nB,3,1,2\n")
    assert sniff(path) == "rankings"
    with pytest.warns(ConcordantWarning, match="read as layout 'ranks'"):
        p = read(path).preferences
    assert read(path, format="ranks").preferences == p
    turned = save("t.csv", ",A,B\nP1,1,3\nP2,2,1\nP3,3,2\n")
    assert read(turned, format="ranks-columns").preferences == p
    orders = save("o.csv", "rank1,rank2\nx,y\ny,x\n")
    assert read(orders, format="orders").preferences.n_rows == 4
    with pytest.raises(FormatError, match=r"--format ranks-columns"):
        read(save("truth.csv", ",truth\na,2\nb,1\nc,3\n"))


def test_jsonl_and_parquet_are_tables_like_any_other(save: Save, tmp_path: Path) -> None:
    path = save("v.jsonl", '{"winner": "a", "loser": "b"}\n')
    assert sniff(path) == "comparisons"
    pl.DataFrame({"user": ["u"], "item": ["a"], "score": [0.5]}).write_parquet(tmp_path / "s.parquet")
    dataset = read(tmp_path / "s.parquet")
    assert dataset.preferences is not None
    assert dataset.preferences.kind == "score"
    assert found(read(save("x", "user;item;rating\nu;a;5\n"), format="csv")) == FILES["ratings"][2]
    with pytest.raises(FormatError, match="not a Parquet file"):
        read(save("x.csv", "user,item,rating\nu,a,5\n"), format="parquet")


def test_a_folder_of_runs_with_its_qrels(save: Save, tmp_path: Path) -> None:
    for tag in ("bm25", "dense"):
        save(f"t/{tag}.trec", RUN.format(tag=tag))
    folder = tmp_path / "t"
    assert found(read(folder)) == {"preferences": "2 instances, 2 experts, 3 items, 6 scores in 4 lists"}
    save("t/qrels.txt", QRELS)
    save("t/README.md", "# Runs\n")
    save("t/.hidden", "nothing")
    assert sniff(folder) == "trec"
    dataset = read(folder)
    assert dataset.preferences is not None
    assert dataset.labels is not None
    assert dataset.preferences.experts.tolist() == ["bm25", "dense"]
    assert read(folder / "*.trec").labels is None
    assert read([folder / "bm25.trec", folder / "qrels.txt"]).labels == dataset.labels
    by_file = read(folder / "bm25.trec", expert_from="file").preferences
    assert by_file is not None
    assert by_file.experts.tolist() == ["bm25"]


def test_a_letor_folder_brings_its_folds(save: Save, tmp_path: Path) -> None:
    for fold in (1, 2):
        for k, part in enumerate(("train", "vali", "test")):
            q = (fold + k) % 3
            save(f"l/Fold{fold}/{part}.txt", AGG.replace("qid:7", f"qid:{q}"))
    save("l/README.txt", "about")
    assert sniff(tmp_path / "l") == "letor-folds"
    dataset = read(tmp_path / "l")
    assert dataset.folds is not None
    assert len(dataset.folds) == 2
    assert dataset.preferences is not None
    assert dataset.labels is not None
    assert sorted(dataset.preferences.instances) == ["0", "1", "2"]
    assert sorted(dataset.labels.instances) == ["0", "1", "2"]
    assert found(read(tmp_path / "l" / "Fold1")) == {
        "preferences": "3 instances, 2 experts, 6 items, 9 ranks in 6 lists",
        "labels": "3 instances, 6 items, labels 0 to 1",
    }
    with pytest.raises(FormatError, match="Fold1, Fold2"):
        read(tmp_path / "l" / "Fold1", format="letor-folds")


def test_side_files_are_no_data(save: Save, tmp_path: Path) -> None:
    save("p/a.soc", BALLOTS)
    save("p/metadata.csv", "file;number\na.soc;1\n")
    save("p/info.txt", "Name: Lunch\n\nTags: Food\n")
    assert found(read(tmp_path / "p"))["preferences"].startswith("1 instance, 1 expert")
    save("s/rank.train", "1 1:0.5 2:3\n0 1:1 2:2\n")
    save("s/rank.train.query", "2\n")
    assert found(read(tmp_path / "s"))["features"] == "1 instance, 2 items, 2 features"


@pytest.mark.parametrize(
    ("name", "content", "fragment"),
    [
        ("r.txt", "Some words about the data.\nAnd a second line, longer than it.\n", "It begins 'Some words about"),
        ("v.txt", "1 11.0 10.0\n1 11.0 14.0\n", "columns='expert=1,winner=2,loser=3' (--columns)"),
        ("v.csv", "best,worst,year\na,b,2015\nb,c,2016\n", "The columns are ['best', 'worst', 'year']"),
        ("e.txt", "", "the file is empty"),
        ("e.txt", "\n\n", "the file is empty"),
        ("z.zip", b"PK\x03\x04\x00\x00", "this is a zip archive. Unpack it"),
        ("b.bin", bytes(range(256)), "the format was not recognised. It begins"),
        ("t.csv", "query,system,docno,rank,score\nq,s,d,1,2\n", "or ratings (a table of expert, item, rating)"),
        ("c.csv", ",0,1,2\na,1,2,3\nb,2,1,3\n", "they might be items (layout 'ranks') or positions"),
    ],
)
def test_what_is_not_recognised_is_said(save: Save, name: str, content: str | bytes, fragment: str) -> None:
    path = save(name, content)
    for function in (read, sniff):
        with pytest.raises(FormatError) as caught:
            function(path)
        assert str(caught.value).startswith(str(path))
        assert fragment in str(caught.value)


def test_an_archive_must_be_unpacked(save: Save) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("run")
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"text"))
    with pytest.raises(FormatError, match="this is a tar archive"):
        read(save("runs.tar.xz", lzma.compress(packed.getvalue())))


def test_a_mixed_folder_says_what_is_in_it(save: Save, tmp_path: Path) -> None:
    save("m/a.trec", RUN.format(tag="a"))
    save("m/votes.csv", "left,right,winner\na,b,left\n")
    save("m/notes.txt", "to be done\n\nmore here too\n")
    with pytest.raises(FormatError) as caught:
        read(tmp_path / "m")
    message = str(caught.value)
    assert "trec: a.trec; comparisons: votes.csv; not recognised: notes.txt" in message
    assert "columns='expert=1,winner=2,loser=3' (--columns)" in message
    save("d/README.txt", "about")
    save("d/inner/a.trec", RUN.format(tag="a"))
    with pytest.raises(FormatError, match=r"documents and no data\. Folders inside: \['inner'\]"):
        read(tmp_path / "d")


def test_columns_say_what_a_table_is(save: Save) -> None:
    path = save("all_pair.txt", "1 11.0 10.0\n1 14.0 11.0\n2 10.0 14.0\n")
    c = read(path, columns="expert=1,winner=2,loser=3").comparisons
    assert c is not None
    assert c.items.tolist() == ["11", "10", "14"]
    p = read(path, columns={"expert": 1, "item": 2, "rating": 3}).preferences
    assert p is not None
    assert p.kind == "rating"
    assert read(path, columns="expert=1,item=2,score=3").preferences.kind == "score"  # type: ignore[union-attr]
    labels = read(path, columns="item=2,label=3").labels
    assert labels is not None
    assert labels.items.tolist() == ["11", "14", "10"]
    rankings = read(path, columns="expert=1,item=2,rank=3").preferences
    assert rankings is not None
    assert rankings.kind == "rank"


def test_options_are_those_of_the_reader(save: Save) -> None:
    path = save("a.trec", RUN.format(tag="x"))
    with pytest.raises(ParameterError, match=r"the format 'trec' does not take \['instance'\]\. It takes expert_from"):
        read(path, instance="x")
    with pytest.raises(
        ParameterError, match=r"'format' parameter of read must be one of .*'comparisons', .*'features'"
    ):
        read(path, format="xml")
    with pytest.raises(ParameterError, match=r"does not take \['columns'\]"):
        read(path, format="trec", columns="expert=1")


@pytest.mark.parametrize("line", ["1\t1\t1\t88", "7 0 9 3", "5 1 2 10"])
def test_ratings_of_one_item_that_look_like_qrels_go_by_the_name(save: Save, line: str) -> None:
    user, item, rating, _ = line.split()
    for name, data in (("u.data", line.encode()), ("U.DATA.gz", gzip.compress(line.encode()))):
        path = save(name, "")
        path.write_bytes(data)
        assert sniff(path) == "ratings"
        found = read(path).preferences
        assert found is not None
        assert found.to_frame().rows() == [("all", user, item, float(rating))]
        assert found == cc.read_ratings(path)
        with cc.scan(path) as blocks:
            assert list(blocks) == [found]
        # Neither does the reader of labels take it for qrels; who says that it is qrels is believed.
        with pytest.raises(ColumnError, match="no column for item and label"):
            cc.read_labels(path)
        assert read(path, "qrels").labels is not None
    assert sniff(save("judged.txt", line)) == "qrels"


def test_qrels_and_movielens_are_told_apart(save: Save) -> None:
    assert sniff(save("u.data", "196\t242\t3\t881250949\n186\t302\t3\t891717742\n")) == "ratings"
    assert sniff(save("q", "196\t0\t3\t1\n186\t0\t302\t2\n")) == "qrels"
    with pytest.raises(FormatError):
        sniff(save("neither", "196\t5\t3\t1\n186\t7\t302\t2\n"))


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("301 Q0 d{} 7 12.4 bm25", "301 Q0 FT911-3 7 12.4", "expected 6 fields, found 5: '301 Q0 FT911-3 7 12.4'"),
        ("301 0 d{} 1", "301 0 d9 1 1", "expected 4 fields, found 5"),
        ("1 qid:7 1:NULL 2:5 #docid = d{} inc = 1 prob = 1", "1 qid:7 1:x 2:5 #docid = e inc = 1 prob = 1", "'x'"),
        ("1 qid:7 1:0.5 2:5 #docid = d{}", "1 qid:7 1:0.5 2:y #docid = e", "'y'"),
    ],
)
def test_one_damaged_line_is_named_and_does_not_hide_the_format(
    tmp_path: Path, good: str, bad: str, message: str
) -> None:
    path = tmp_path / "data.txt"
    path.write_text("\n".join([good.format(1), good.format(2), bad, good.format(3)]) + "\n")
    with pytest.raises(ParseError, match=re.escape(message)) as caught:
        read(path)
    assert caught.value.line == 3


# What lists say about items they leave out.

LONG = "instance,expert,item,rank\nq,x,a,1\nq,x,b,2\nq,y,c,1\np,x,a,1\np,y,b,1\n"


@pytest.mark.parametrize(
    ("name", "text", "declared"),
    [
        ("a.trec", "q Q0 d1 1 9.5 x\n", "below"),
        ("ratings.csv", "user,item,rating\nann,a,5\nbob,b,3\n", "unknown"),
        ("long.csv", LONG, "unknown"),
        ("matrix.csv", ",a,b,c\nx,1,2,\ny,,2,1\nz,3,1,2\n", "unknown"),
        ("fused.csv", "instance,item,score\nq,a,0.5\nq,b,0.2\n", "unknown"),
        ("agg.txt", "2 qid:1 1:1 2:2 #docid = d1\n0 qid:1 1:2 2:NULL #docid = d2\n", "unknown"),
        ("lunch.soi", "# NUMBER ALTERNATIVES: 2\n# NUMBER VOTERS: 1\n# NUMBER UNIQUE ORDERS: 1\n1: 1\n", "unknown"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*read as layout:concordant.errors.ConcordantWarning")
def test_every_format_declares_what_is_left_out_unless_told(
    tmp_path: Path, name: str, text: str, declared: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert read(path).preferences.missing == declared
    for word in ("unknown", "below"):
        assert read(path, missing=word).preferences.missing == word
    with pytest.raises(ParameterError, match=r"'missing' parameter of .* must be one of 'unknown', 'below'"):
        read(path, missing="last")


def test_a_folder_of_folds_is_declared_as_a_whole(tmp_path: Path) -> None:
    for part in ("train", "vali", "test"):
        path = tmp_path / "Fold1" / f"{part}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"1 qid:{part} 1:1 2:NULL #docid = a\n0 qid:{part} 1:2 2:1 #docid = b\n")
    assert read(tmp_path).preferences.missing == "unknown"
    found = read(tmp_path, missing="below")
    assert found.preferences.missing == found.folds[0].vali.preferences.missing == "below"


@pytest.mark.parametrize("ending", ["csv", "tsv.gz", "jsonl", "parquet"])
def test_tables_hold_what_was_declared(tmp_path: Path, ending: str) -> None:
    (tmp_path / "long.csv").write_text(LONG)
    p = read(tmp_path / "long.csv").preferences
    for votes in (p, p.with_missing("below"), p.with_missing({"p": "below"})):
        path = tmp_path / f"again.{ending}"
        cc.write(votes, path)
        assert read(path).preferences == votes
        assert read(path, missing="unknown").preferences.missing == "unknown"
        assert cc.from_frame(votes.to_frame()) == votes
        with cc.scan(path, block_rows=1) as blocks:
            assert [block.missing for block in blocks] == [one.missing for one in votes]
            assert np.broadcast_to(blocks.below, 2).tolist() == votes.below().tolist()


def test_a_declaration_that_contradicts_itself_names_the_row(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("instance,expert,item,rank,missing\nq,x,a,1,below\nq,y,b,1,unknown\n")
    with pytest.raises(ParseError, match=r"votes.csv:3: instance 'q' is declared missing='unknown' here"):
        read(path)
    path.write_text("instance,expert,item,rank,missing\nq,x,a,1,0\n")
    with pytest.raises(
        ParseError, match=r"votes.csv:2: the column 'missing' says .* found '0'. Pass missing='unknown'"
    ):
        read(path)
    assert read(path, missing="unknown").preferences.missing == "unknown"


def test_tables_of_which_only_one_declares_something_are_asked_about(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("instance,expert,item,rank\nq,x,a,1\n")
    (tmp_path / "b.csv").write_text("instance,expert,item,rank,missing\np,x,a,1,below\n")
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    with pytest.raises(FormatError, match=r"does not have the same columns as .*: only one of them has missing"):
        read(paths)
    assert read(paths, missing="below").preferences.missing == "below"


def test_words_for_no_value_given_as_missing_are_still_understood(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating\nann,a,5\nann,b,-1\n")
    with pytest.warns(ConcordantWarning, match=r"go to null_values=\('-1',\) of read_ratings"):
        old = cc.read_ratings(path, missing=["-1"])
    assert old == cc.read_ratings(path, null_values=["-1"])
    assert old.n_rows == 1


def test_files_are_read_in_blocks_where_they_take_too_much_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.trec"
    path.write_text("1 Q0 d1 1 9.5 bm25\n2 Q0 d2 1 8.1 bm25\n")
    said: list[str] = []
    assert read_or_scan(path, say=said.append) == read(path)
    assert not said
    ways: list[dict[str, Any]] = [{"memory": 0}, {"always_scan": True}, {"checkpoint": tmp_path / "kept"}]
    for how in ways:
        found = read_or_scan(path, say=said.append, **how)
        assert isinstance(found, cc.Blocks)
        with found as blocks:
            assert cc.concat(blocks[:]) == read(path).preferences
    assert len(said) == 1
    assert "it is read in blocks of instances" in said[0]
    votes = tmp_path / "votes.csv"
    votes.write_text("left,right,winner\na,b,left\n")
    # Comparisons cannot be read in blocks.
    assert isinstance(read_or_scan(votes, memory=0), cc.Dataset)
