"""A table read in parts is the table: its rows, lines in messages, what is decided for a column, counts of pairs."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import concordant as cc
from concordant.errors import ConcordantError, FormatError, ParseError
from concordant.io import _builders, _files, _pair_counter, _tables, tabular
from concordant.io._row_sources import RowSource
from concordant.io._tables import TableFile, open_table
from concordant.io.outcomes import OutcomeColumn, OutcomeReader, count_outcomes

plain = st.text(st.sampled_from("ab1 é"), max_size=3)
# What may stand in a field: quotes around separators, line ends and quotes; a quote inside a field that has none around
# it; blanks of several kinds.
field = st.one_of(
    plain,
    plain,
    st.text(st.sampled_from('a,\r\n" ;'), max_size=4).map(lambda t: '"' + t.replace('"', '""') + '"'),
    st.sampled_from(['a"b', '6"', "\u00a0", '""', "1.0", "2"]),
)
records = st.lists(st.lists(field, min_size=3, max_size=3).map(",".join), min_size=1, max_size=25)
damage = st.sampled_from(["", "", "", "a,b", "a,b,c,d", '"a,b,c', "\udcff,b,c"])


def rows_of(table: TableFile, columns: list[int]) -> list[tuple[int | None, tuple[str, ...]]]:
    frame, numbers = table.read([c for c in columns if c < len(table.names)] or [0])
    return [(table.line(int(n)), row) for n, row in zip(numbers, frame.rows(), strict=True)]


def both(path: Path, rows: int, columns: list[int]) -> None:
    """Read a table whole and in parts, which must come to the same rows on the same lines, or to the same error."""
    try:
        table = open_table(path)
        whole: object = rows_of(table, columns)
    except ConcordantError as error:
        whole = type(error), str(error)
        if not isinstance(error, ParseError):
            return
    try:
        parts = []
        for part in open_table(path).windows(rows):
            parts += rows_of(part, columns)
        found: object = parts
    except ConcordantError as error:
        found = type(error), str(error)
    assert found == whole


def test_a_quote_inside_a_field_closes_none_of_another_line(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(',11,a"b\n,";;;\n",a"b\n"","",""""\n')
    both(path, 1, [0, 1, 2])
    found = [row for _, row in rows_of(open_table(path), [0, 1, 2])]
    assert found == [("", "11", 'a"b'), ("", ";;;", 'a"b'), ("", "", '"')]
    # Nor does one open a field that another line closes.
    path.write_text('expert,item,rank\r\n"",a"b,\r\n,,\r\n,é,11\r\n,1,a"b\r\n1,2,3\r\n')
    both(path, 1, [0, 1, 2])
    found = [row for _, row in rows_of(open_table(path), [0, 1, 2])]
    assert found == [("", 'a"b', ""), ("", "é", "11"), ("", "1", 'a"b'), ("1", "2", "3")]


@settings(max_examples=400)
@given(
    records,
    damage,
    st.integers(0, 24),
    st.lists(st.sampled_from(["", "  ", ",,", '"",,']), max_size=3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.integers(1, 4),
)
def test_parts_of_a_text_table_are_its_rows(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    damaged: str,
    where: int,
    blank: list[str],
    header: bool,
    mark: bool,
    closed: bool,
    end: str,
    packed: bool,
    rows: int,
) -> None:
    lines = lines[:where] + blank + lines[where:]
    if '"' in damaged:
        # A quote that opens a field and one that stands inside another may close it together, which Polars lets pass.
        lines = [x for x in lines if 'a"b' not in x and '6"' not in x]
    if damaged:
        lines.insert(where, damaged)
    text = end.join((["expert,item,rank"] if header else []) + lines) + (end if closed else "")
    data = (b"\xef\xbb\xbf" if mark else b"") + text.encode(errors="surrogateescape")
    path = tmp_path_factory.mktemp("text") / "table.csv"
    path.write_bytes(gzip.compress(data) if packed else data)
    both(path, rows, [0, 1, 2])
    both(path, rows, [1])


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from(['{"a": 1, "b": "x\\ny"}', '{"b": "é"}', "", "  ", '{"a": 1.0, "b": null}', '{"a": }', "[1]"]),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 3),
)
def test_parts_of_json_lines_are_its_rows(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str, rows: int
) -> None:
    path = tmp_path_factory.mktemp("json") / "table.jsonl"
    path.write_bytes(end.join(['{"a": "q", "b": "r"}', *lines]).encode())
    both(path, rows, [0, 1])


def test_a_stretch_ends_with_a_record(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    long = "x" * 100
    path.write_text(f'expert,item,rank\nann,"{long}\n{long}",1\nbob,"a ""b""\nc",2\nzoe,d,3\n')
    parts = list(open_table(path).windows(1))
    assert [p.read([1])[0]["1"].to_list() for p in parts] == [[f"{long}\n{long}"], ['a "b"\nc', "d"]]
    assert [p.line(0) for p in parts] == [2, 4]
    assert parts[1].line(1) == 6
    assert 0 < parts[0].share < parts[1].share <= 1


def test_text_of_a_part_is_looked_up_again_when_it_is_no_longer_held(tmp_path: Path) -> None:
    path = tmp_path / "table.csv.bz2"
    path.write_bytes(bz2.compress(b"expert,item,rank\n" + b"".join(b"ann,%06d,1\n" % k for k in range(50))))
    parts = list(open_table(path, file="csv").windows(2))
    assert len(parts) > 5
    assert [v for p in parts for v in p.read([1])[0]["1"].to_list()] == [f"{k:06d}" for k in range(50)]
    assert parts[3].line(1) == open_table(path).line(7 + sum(len(p.read([0])[1]) for p in parts[:3]) - 6)


def test_texts_of_parquet_stay_as_they_are(tmp_path: Path) -> None:
    columns = {"often": ["\u2003x\t"] * 6_000, "rarely": [f" d{k}\u00a0" * (k % 2) for k in range(6_000)]}
    path = tmp_path / "t.parquet"
    pl.DataFrame(columns).write_parquet(path)
    assert open_table(path).read([0, 1])[0].rows() == list(zip(*columns.values(), strict=True))


def test_a_table_without_rows_has_none_in_parts_either(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("expert,item,rank\n" + ",,\n" * 100)
    with pytest.raises(FormatError, match="no rows"):
        [p.read([0]) for p in open_table(path, header=True).windows(1)]


def test_a_quote_that_nothing_closes_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "votes.csv"
    path.write_text('winner,loser\na,b\n"a,b\n' + 'a,""b\n' * 1_000)
    looked = 0

    def counted(text: bytes, *how: Any) -> Any:
        nonlocal looked
        looked += len(text)
        return last_end(text, *how)

    last_end = _tables._last_regular_end
    monkeypatch.setattr(_tables, "_last_regular_end", counted)
    monkeypatch.setattr(_tables, "text_blocks", lambda p, _: _files.text_blocks(p, 64))
    parts = [part for part in open_table(path).windows(2) if part._text]  # type: ignore[attr-defined]
    assert [part._line for part in parts] == [1, 3]  # type: ignore[attr-defined]
    assert 0 < looked <= path.stat().st_size
    # And it is not held in memory up to the end of a large file.
    monkeypatch.setattr(_tables, "LONGEST_LINE", 1_000)
    with pytest.raises(ParseError, match=r"votes\.csv:3: a quoted field does not end as it should: '\"a,b'"):
        list(open_table(path).windows(2))


@pytest.mark.parametrize("text", ["winner,loser\n", "winner,loser", "winner,loser\n\n"])
def test_a_packed_header_alone_is_refused_while_collapsing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "votes.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(FormatError, match=r"votes\.csv\.gz: the table has no rows"):
        cc.read_comparisons(path, collapse=True)


def test_numbers_lose_their_point_if_all_in_the_file_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "stars.csv"
    rows = [f"u{k},{k}.0,3" for k in range(20)]
    for last, expected in (("u,21,3", "0"), ("u,x,3", "0.0")):
        path.write_text("\n".join(["user,item,rating", *rows, last]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tabular, "_WINDOW", 1)
            with cc.scan(path) as blocks:
                found = [i for block in blocks for i in block.items]
        assert found == cc.read_ratings(path).items.tolist()
        assert found[0] == expected


# Counts of pairs.

names = st.sampled_from(["a", "b", "left", "1.0", "2", "model_b", "é"])
words = st.sampled_from(["left", "right", "tie", "a", "b", "1", "0.5", "model_b", "2"])
votes = st.lists(
    st.tuples(st.sampled_from(["p", "q", "r"]), names, names, words, st.sampled_from([1.0, 0.1, 0.7, 3.0, 300.0])),
    min_size=1,
    max_size=40,
)


def same(path: Path, **options: object) -> None:
    """Collapse while reading and afterwards, with every seam showing."""
    try:
        whole: object = cc.read_comparisons(path, **options).collapse()  # type: ignore[arg-type]
    except ConcordantError as error:
        whole = type(error), str(error).split("Seen")[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tabular, "_WINDOW", 2)
        patch.setattr(_pair_counter, "_MERGED_ROWS", 3)
        patch.setattr(_pair_counter, "_MERGED_PART", 2)
        try:
            found: object = cc.read_comparisons(path, collapse=True, **options)  # type: ignore[arg-type]
        except ConcordantError as error:
            found = type(error), str(error).split("Seen")[0]
    assert found == whole


@given(
    votes, st.booleans(), st.sampled_from([None, "sides", "items"]), st.booleans(), st.sampled_from(["csv", "parquet"])
)
def test_collapsed_while_reading_is_collapsed_afterwards(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, str, str, float]],
    instances: bool,
    outcomes: str | None,
    weighted: bool,
    ending: str,
) -> None:
    path = tmp_path_factory.mktemp("votes") / f"votes.{ending}"
    frame = pl.DataFrame(rows, schema=["prompt", "left", "right", "winner", "weight"], orient="row")
    frame = frame if weighted else frame.drop("weight")
    (frame.write_csv if ending == "csv" else frame.write_parquet)(path)
    same(path, self_pairs="drop", outcomes=outcomes, instance="prompt" if instances else None)


@given(
    st.lists(
        st.tuples(names, names, *(st.sampled_from([0, 1, 2, 250, 2**32, 0.25]) for _ in range(3))).filter(
            lambda r: r[0] != r[1]
        ),
        min_size=1,
        max_size=30,
    )
)
def test_counts_of_pairs_collapse_with_the_bits_of_one_sum(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, float, float, float]]
) -> None:
    path = tmp_path_factory.mktemp("counts") / "counts.csv"
    pl.DataFrame(rows, schema=["left", "right", "n_left", "n_right", "n_ties"], orient="row", strict=False).write_csv(
        path
    )
    same(path)
    same(path, sided=False)


def test_collapsed_comparisons_of_several_files_and_of_items_nobody_met(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("judge,winner,loser\n" + "x,m1,m2\n" * 9)
    (tmp_path / "b.csv").write_text("judge,winner,loser\nx,m3,m1\ny,m2,m1\n")
    same(tmp_path)
    same(tmp_path, instance_from="file")
    found = cc.read_comparisons(tmp_path, collapse=True)
    assert found.expert is None
    assert not found.sided
    assert found.to_frame().select("left", "right", "n_left", "n_right").rows() == [
        ("m1", "m2", 9.0, 1.0),
        ("m1", "m3", 0.0, 1.0),
    ]
    assert cc.read(tmp_path, collapse=True).comparisons == found


def test_errors_of_parts_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    good = "x,m1,m2,left\n" * 30
    for bad, message in (
        ("x,m1,m2,lleft\n", "outcome 'lleft' of 'm1' against 'm2' is not known"),
        (",m1,m2,left\n", "expert id is missing"),
        ("x,m1,m1,left\n", "compared with itself"),
        ("x,m1,m2,m1\n", "some name an item"),
        ("x,m1\n", "expected 4 fields, found 2"),
    ):
        path.write_text("judge,left,right,winner\n" + good + "\n" + bad + good)
        same(path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tabular, "_WINDOW", 2)
            with pytest.raises(ConcordantError, match=f"votes.csv:33: .*{message}"):
                cc.read_comparisons(path, collapse=True)


outcome = st.tuples(st.sampled_from(["a", "b", "x", "left", "tie", "A"]), *(st.sampled_from(["a", "b", "x"]),) * 2)


@given(st.lists(st.lists(outcome, min_size=1, max_size=4), min_size=1, max_size=5))
def test_what_outcomes_name_is_decided_for_all_parts(parts: list[list[tuple[str, str, str]]]) -> None:
    def columns(rows: list[tuple[str, str, str]]) -> OutcomeColumn:
        return OutcomeColumn(*(pl.Series(c, dtype=pl.String) for c in zip(*rows, strict=True)))

    try:
        whole: object = np.array(count_outcomes(*columns([row for part in parts for row in part]))).tolist()
    except ConcordantError as error:
        whole = type(error)
    reading = OutcomeReader(("left", "right"), None, lambda: map(columns, parts))
    try:
        each = [reading.count(columns(part), RowSource()) for part in parts]
        counts = [np.array([c.n_left, c.n_right, c.n_ties + c.n_both_bad]) for c in each]
        found: object = np.concatenate(counts, axis=1).tolist()
    except ConcordantError as error:
        found = type(error)
    assert found == whole


@given(st.lists(st.tuples(names, names), min_size=1, max_size=30))
def test_items_of_many_comparisons_are_numbered_as_those_of_few(rows: list[tuple[str, str]]) -> None:
    left, right = (pl.Series(c, dtype=pl.String) for c in zip(*rows, strict=True))
    instance = pl.Series(["q"]).new_from_index(0, len(rows))
    found = []
    for many in (1 << 40, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_builders, "_MANY_ROWS", many)
            found.append(_builders._pair_slots(instance, left, right))
    (slots, *codes), (again, *others) = found
    assert again == slots
    assert [c.tolist() for c in others] == [c.tolist() for c in codes]


@settings(max_examples=60)
@given(
    st.sampled_from(["\t", "::", " ", "   ", ";", "|"]),
    st.lists(st.tuples(*(st.sampled_from(["a", "b1", '"', 'x"y', "ü", "1:2"]),) * 3), min_size=2, max_size=30),
    st.integers(1, 3),
)
def test_parts_of_tables_with_other_separators(
    tmp_path_factory: pytest.TempPathFactory, separator: str, rows: list[tuple[str, str, str]], count: int
) -> None:
    path = tmp_path_factory.mktemp("separated") / "table.txt"
    quoted = separator in ("::", " ", "   ")
    path.write_text("\n".join(separator.join(f if quoted else f.replace('"', "q") for f in row) for row in rows))
    both(path, count, [0, 1, 2])
