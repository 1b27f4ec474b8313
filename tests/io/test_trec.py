"""TREC files: the quick way and the slow ones find what a plain reader finds, and a fault names its line."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import os
import struct
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st
from tests.oracles import trec_reader

from concordant.data.consensus import Consensus
from concordant.data.preferences import Preferences
from concordant.errors import ConcordantError, DataError, DataWarning, DuplicateError, ParameterError, ParseError
from concordant.io import trec
from concordant.io.trec import read_qrels, read_runs, write_run


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def shape(p: Preferences) -> trec_reader.Runs:
    """Return preferences as the plain reader gives them, after checking the order of the lists."""
    out = trec_reader.Runs(experts=p.experts.tolist())
    items = p.items.tolist()
    for n, instance in enumerate(p.instances):
        out.items[instance] = items[p.slots.offsets[n] : p.slots.offsets[n + 1]]
        of = list(range(int(p.list_starts[n]), int(p.list_starts[n + 1])))
        assert sorted(of, key=lambda which: p.list_expert[which]) == of
        for which in of:
            rows = range(int(p.list_offsets[which]), int(p.list_offsets[which + 1]))
            expert = out.experts[p.list_expert[which]]
            out.lists[instance, expert] = [(items[p.slot[r]], float(p.value[r])) for r in rows]
    return out


@contextmanager
def small_blocks(monkeypatch: pytest.MonkeyPatch, whole: int, block: int) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(trec, "_WHOLE_BYTES", whole)
        patch.setattr(trec, "_BLOCK_BYTES", block)
        yield


@dataclass
class Style:
    """How the lines of a file are put together."""

    between: list[str]
    before: str = ""
    after: str = ""
    end: str = "\n"
    mark: bool = False
    blank_lines: int = 0
    last_end: bool = True

    def text(self, rows: list[tuple[str, ...]]) -> bytes:
        lines = []
        for n, row in enumerate(rows):
            joined = row[0]
            for k, field in enumerate(row[1:]):
                joined += self.between[(n + k) % len(self.between)] + field
            lines.append(self.before + joined + self.after)
            if self.blank_lines and n % 3 == 0:
                lines.extend([""] * self.blank_lines)
        text = self.end.join(lines)
        if lines and self.last_end:
            text += self.end
        return (b"\xef\xbb\xbf" if self.mark else b"") + text.encode()


blanks = st.sampled_from([" ", "\t", "  ", " \t", "\t\t ", "\x0b", "\x0c"])
styles = st.one_of(
    st.sampled_from([Style([" "]), Style(["\t"]), Style([" "], last_end=False)]),
    st.builds(
        Style,
        st.lists(blanks, min_size=1, max_size=3),
        before=st.sampled_from(["", " ", "\t"]),
        after=st.sampled_from(["", " ", "\t "]),
        end=st.sampled_from(["\n", "\r\n"]),
        mark=st.booleans(),
        blank_lines=st.integers(0, 2),
        last_end=st.booleans(),
    ),
)
fields = st.tuples(
    st.sampled_from(["301", "q2", "é"]),
    st.sampled_from(["Q0", "0"]),
    st.sampled_from(["d1", "d2", "d3", "D,4", '"d5"', "a-much-longer-identifier-than-twelve-bytes"]),
    st.sampled_from(["1", "2", "3", "17"]),
    st.sampled_from(["1", "1.0", "-2.5", "+3", ".5", "7.", "1e-3", "2E2", "0.1", "123456789.123456789"]),
    st.sampled_from(["bm25", "dense", "x"]),
)
contents = st.lists(st.tuples(styles, st.lists(fields, max_size=12)), min_size=1, max_size=3)


@pytest.mark.filterwarnings("ignore:.*the input holds no:concordant.errors.DataWarning")
@given(
    contents,
    st.sampled_from(["auto", "tag", "file"]),
    st.sampled_from(["error", "best", "first"]),
    st.sampled_from(["score", "rank"]),
    st.sampled_from([(1 << 28, 1 << 26), (0, 1 << 26), (0, 40), (50, 1)]),
)
def test_runs_are_what_a_plain_reader_finds(
    files: list[tuple[Style, list[tuple[str, ...]]]],
    expert_from: Any,
    duplicates: Any,
    order_by: Any,
    sizes: tuple[int, int],
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        paths = [write(Path(folder, f"{'cab'[n]}.trec"), style.text(rows)) for n, (style, rows) in enumerate(files)]
        column = 4 if order_by == "score" else 3
        options = {"expert_from": expert_from, "duplicates": duplicates}
        with small_blocks(patch, *sizes):
            try:
                expected = trec_reader.read_runs(paths, column=column, **options)
            except trec_reader.RepeatedError as twice:
                expert, item, instance, first, second = twice.args
                with pytest.raises(DuplicateError) as caught:
                    read_runs(paths, order_by=order_by, **options)
                said = f"expert {expert!r} ranks item {item!r} twice in instance {instance!r} ({first} and {second})."
                assert said in str(caught.value)
            else:
                found = read_runs(paths, order_by=order_by, **options)
                assert found.kind == order_by
                assert shape(found) == expected


@given(st.text(alphabet="0123456789+-.eEinfaINFA_x,'", min_size=1, max_size=8))
@example("1e400")
@example("-infinity")
@example("1_000")
@example("0x10")
@example("1e")
@example(".")
@example("-.e1")
def test_the_quick_and_the_slow_way_agree_on_what_is_a_number(number: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        quick = write(Path(folder, "quick"), f"q Q0 d 1 {number} t\n")
        slow = write(Path(folder, "slow"), f"q Q0  d 1 {number} t\x1c\n")
        assert trec._sniff(quick.read_bytes(), trec._BY_SCORE) == " "
        found = []
        for path in (quick, slow):
            try:
                found.append(read_runs(path).value.tolist())
            except ParseError as error:
                found.append(error.message)
    assert found[0] == found[1]
    if isinstance(found[0], list):
        assert found[0] == [float(number)]
        assert math.isfinite(found[0][0])


GOOD = "301 Q0 FT911-3 1 12.5 bm25"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("301 Q0 FT911-3 7 12.4", "expected 6 fields, found 5: '301 Q0 FT911-3 7 12.4'."),
        ("301 Q0 FT911-3 7 12.4 bm25 x", "expected 6 fields, found 7: '301 Q0 FT911-3 7 12.4 bm25 x'."),
        ("301  FT911-3 7 12.4 bm25", "expected 6 fields, found 5: '301  FT911-3 7 12.4 bm25'."),
        ("301 Q0 FT911-3  12.4 bm25", "expected 6 fields, found 5: '301 Q0 FT911-3  12.4 bm25'."),
        (" Q0 FT911-3 7 12.4 bm25", "expected 6 fields, found 5: ' Q0 FT911-3 7 12.4 bm25'."),
        ("301 Q0 FT911-3 7 12.4 ", "expected 6 fields, found 5: '301 Q0 FT911-3 7 12.4 '."),
        ("301 Q0 a\tb 7 12.4 bm25", r"expected 6 fields, found 7: '301 Q0 a\tb 7 12.4 bm25'."),
        ("301 Q0 FT911-3 7 twelve bm25", "the score must be a finite number, found 'twelve'."),
        ("301 Q0 FT911-3 7 nan bm25", "the score must be a finite number, found 'nan'."),
        ("301 Q0 FT911-3 7 -inf bm25", "the score must be a finite number, found '-inf'."),
        ("301 Q0 FT911-3 7 1e999 bm25", "the score must be a finite number, found '1e999'."),
        ("301 Q0 FT911-3 7 0.5\x1f bm25", r"the score must be a finite number, found '0.5\x1f'."),
        ("301", "expected 6 fields, found 1: '301'."),
    ],
)
@pytest.mark.parametrize("place", ["first", "middle", "last", "end"])
@pytest.mark.parametrize("sizes", [(1 << 28, 1 << 26), (0, 64)])
def test_a_faulty_line_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str, place: str, sizes: tuple[int, int]
) -> None:
    good = [GOOD.replace("FT911-3", f"d{n}") for n in range(9)]
    at = {"first": 0, "middle": 5, "last": 9, "end": 9}[place]
    lines = [*good[:at], line, *good[at:]]
    path = write(tmp_path / "bm25.trec", "\n".join(lines) + ("" if place == "end" else "\n"))
    with small_blocks(monkeypatch, *sizes), pytest.raises(ParseError) as caught:
        read_runs(path)
    assert str(caught.value) == f"{path}:{at + 1}: {message}"
    assert (caught.value.path, caught.value.line) == (str(path), at + 1)


def test_lines_are_counted_over_blank_ones_and_carriage_returns(tmp_path: Path) -> None:
    path = write(tmp_path / "x", f"\r\n\r\n{GOOD}\r\n  \r\n\n301 Q0 b 1 x t\r\n")
    with pytest.raises(ParseError, match=r"x:6: the score must be a finite number, found 'x'"):
        read_runs(path)


@pytest.mark.parametrize("blank", ["\t", "\x0b", "\x0c", " ", "\r", " \t"])
def test_a_blank_at_the_very_end_belongs_to_no_expert(tmp_path: Path, blank: str) -> None:
    path = tmp_path / "a.trec"
    path.write_bytes(b"q Q0 d1 1 2.5 bm25\nq Q0 d2 2 1.5 bm25" + blank.encode())
    assert read_runs(path).experts.tolist() == ["bm25"]
    path.write_bytes(path.read_bytes().replace(b" ", b"\t", 10))
    assert read_runs(path).experts.tolist() == ["bm25"]


def test_text_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    path = write(tmp_path / "x", GOOD.encode() + b"\n301 Q0 d\xe9 2 1.5 bm25\n")
    with pytest.raises(ParseError, match=r"x:2: expected UTF-8 text"):
        read_runs(path)


def complaint(read: Any) -> str | None:
    """Return None when something can be read, the name of the file when its error names it, else the whole error."""
    try:
        read()
    except ConcordantError as error:
        return "fuzz.trec" if "fuzz.trec" in str(error) else repr(error)
    return None


@pytest.mark.filterwarnings("ignore:.*the input holds no:concordant.errors.DataWarning")
@given(st.binary(max_size=60), st.sampled_from([None, " ", "\t", ","]))
def test_any_bytes_are_read_or_refused_by_name(data: bytes, separator: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "fuzz.trec"), data)
        for read in (read_runs, read_qrels):
            assert complaint(lambda read=read: read(path, separator=separator)) in (None, "fuzz.trec")


@given(st.integers(0, 400), st.binary(max_size=2), st.integers(0, 3))
def test_a_damaged_run_is_read_or_refused_by_name(at: int, put: bytes, cut: int) -> None:
    text = b"".join(b"%d Q0 doc-%d %d %.3f bm25\n" % (300 + n // 5, n, n % 5 + 1, 9 - n / 7) for n in range(12))
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "fuzz.trec"), text[:at] + put + text[at + cut :])
        lines = [line.split() for line in path.read_bytes().split(b"\n")]
        found = complaint(lambda: read_runs(path))
        assert found in (None, "fuzz.trec")
        if found is None:
            assert {len(line) for line in lines} <= {0, 6}
            assert read_runs(path).n_rows == sum(map(bool, lines))


def test_an_item_ranked_twice_names_both_lines(tmp_path: Path) -> None:
    a = write(tmp_path / "a.trec", "1 Q0 d1 1 2 x\n1 Q0 d2 2 1 x\n2 Q0 d1 1 2 x\n")
    b = write(tmp_path / "b.trec", "\n1 Q0 d3 1 2 x\n1 Q0 d2 2 5 x\n")
    with pytest.raises(DuplicateError) as caught:
        read_runs([a, b], expert_from="tag")
    assert str(caught.value) == (
        f"expert 'x' ranks item 'd2' twice in instance '1' ({a}:2 and {b}:3). "
        "Pass duplicates='best' to keep the better."
    )
    best = read_runs([a, b], expert_from="tag", duplicates="best")
    assert shape(best).lists["1", "x"] == [("d1", 2.0), ("d3", 2.0), ("d2", 5.0)]
    first = read_runs([a, b], expert_from="tag", duplicates="first")
    assert shape(first).lists["1", "x"] == [("d1", 2.0), ("d2", 1.0), ("d3", 2.0)]


def test_an_empty_file_is_an_expert_who_ranks_nothing(tmp_path: Path) -> None:
    write(tmp_path / "a.trec", "")
    write(tmp_path / "b.trec", "1 Q0 d1 1 2 x\n")
    write(tmp_path / "c.trec", "\r\n \n")
    for expert_from in ("auto", "tag", "file"):
        p = read_runs(tmp_path, expert_from=expert_from)  # type: ignore[arg-type]
        assert p.experts.tolist() == ["a", "b" if expert_from == "file" else "x", "c"]
        assert p.n_lists == 1
    with pytest.warns(DataWarning, match=r"a\.trec: the input holds no rows"):
        nothing = read_runs(tmp_path / "a.trec")
    assert (len(nothing), nothing.n_rows, nothing.experts.tolist()) == (0, 0, ["a"])


def test_experts_are_tags_unless_files_share_them(tmp_path: Path) -> None:
    paths = []
    for n, (name, tags) in enumerate({"a/run.trec": "xy", "b/run.trec": "x", "c/other.gz": "x", "own": "z"}.items()):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        paths.append(write(path, "".join(f"1 Q0 d{tag}{n} 1 2 {tag}\n" for tag in tags)))
    assert read_runs(paths).experts.tolist() == ["run:x", "y", "run", "other", "z"]
    assert read_runs(paths, expert_from="tag").experts.tolist() == ["x", "y", "z"]
    assert read_runs(paths, expert_from="file").experts.tolist() == ["a/run", "b/run", "other", "own"]


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for name in ("a/x/run.trec", "b/x/run.trec", "b/x/run.trec.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, f"1 Q0 d{len(name)} 1 2 tag\n")
    paths = [tmp_path / n for n in ("a/x/run.trec", "b/x/run.trec", "b/x/run.trec.txt")]
    assert read_runs(paths[:2]).experts.tolist() == ["a/x/run", "b/x/run"]
    assert read_runs(paths[1:]).experts.tolist() == [str(p) for p in paths[1:]]


def test_ranks_are_taken_when_asked_and_counted_from_one(tmp_path: Path) -> None:
    a = write(tmp_path / "a.trec", "1 Q0 d1 0 ? x\n1 Q0 d2 1 ? x\n2 Q0 d1 5 ? x\n")
    b = write(tmp_path / "b.trec", "1 Q0 d1 2 ? y\n1 Q0 d2 1.5 ? y\n")
    p = read_runs([a, b], order_by="rank")
    assert p.kind == "rank"
    assert shape(p).lists == {
        ("1", "x"): [("d1", 1.0), ("d2", 2.0)],
        ("1", "y"): [("d1", 2.0), ("d2", 1.5)],
        ("2", "x"): [("d1", 6.0)],
    }
    with pytest.raises(ParseError, match=r"c:2: a rank must be at least 1, or 0 where ranks count from 0, found -1"):
        read_runs(write(tmp_path / "c", "1 Q0 d1 1 ? x\n1 Q0 d2 -1 ? x\n"), order_by="rank")
    with pytest.raises(ParseError, match=r"c:1: the rank must be a finite number, found 'first'"):
        read_runs(write(tmp_path / "c", "1 Q0 d1 first ? x\n"), order_by="rank")


def test_the_column_that_does_not_order_may_hold_anything(tmp_path: Path) -> None:
    path = write(tmp_path / "x", "1 Q0 d1 - 2 x\n")
    assert read_runs(path).value.tolist() == [2.0]


def test_a_separator_of_the_users_own_is_exact(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "q one,Q0,a doc,1,2.5,my tag\r\nq one,Q0,b,2, 1.5,my tag\n\n")
    p = read_runs(path, separator=",")
    assert shape(p).lists == {("q one", "my tag"): [("a doc", 2.5), ("b", 1.5)]}
    tabs = write(tmp_path / "x.tsv", "q one\tQ0\ta doc\t1\t2.5\tt\n")
    assert read_runs(tabs, separator="\t").items.tolist() == ["a doc"]
    for bad in ("q\t\ta\t1\t2.5\tt\n", "q\tQ0\ta\t\t2.5\tt\n", "q\tQ0\ta\t1\t2.5\n", "q\tQ0\ta\t1\t2.5\tt\tu\n"):
        with pytest.raises(ParseError, match=r"bad:1: expected 6 fields, found \d"):
            read_runs(write(tmp_path / "bad", bad), separator="\t")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, bz2.compress, zstandard.compress])
def test_packed_runs_read_the_same_whatever_their_name(tmp_path: Path, pack: Any) -> None:
    text = b"".join(b"q%d Q0 d%d %d %d x\n" % (n // 50, n * 7 % 101, n % 50, -n) for n in range(500))
    plain = write(tmp_path / "plain.trec", text)
    packed = write(tmp_path / "packed.bin", pack(text))
    assert read_runs(packed) == read_runs(plain)


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes are a thing of Unix")
def test_a_run_may_come_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(gzip.compress(GOOD.encode()),))
    writer.start()
    assert read_runs(pipe).items.tolist() == ["FT911-3"]
    writer.join()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"expert_from": "path"}, "expert_from"),
        ({"order_by": "tag"}, "order_by"),
        ({"duplicates": "last"}, "duplicates"),
        ({"separator": ""}, "separator"),
        ({"separator": "ab"}, "separator"),
        ({"separator": "\n"}, "separator"),
    ],
)
def test_unknown_options_are_refused(tmp_path: Path, options: dict[str, Any], name: str) -> None:
    path = write(tmp_path / "x", GOOD)
    with pytest.raises(ParameterError, match=f"'{name}' parameter of read_runs"):
        read_runs(path, **options)


def test_qrels_keep_labels_as_given(tmp_path: Path) -> None:
    path = write(tmp_path / "qrels", "301 0 a 1\n302 0 a -2\n301 1 b 0.5\n301 0 a 1\n")
    labels = read_qrels(path)
    assert labels.to_frame().rows() == [("301", "a", 1.0), ("301", "b", 0.5), ("302", "a", -2.0)]


@pytest.mark.parametrize("text", ["301 0 a 1\r\n301  0\tb 0 \r\n\r\n", "\ufeff301\t0\ta\t1\n301\t0\tb\t0"])
def test_qrels_are_read_in_any_style(tmp_path: Path, text: str) -> None:
    assert read_qrels(write(tmp_path / "qrels", text)).to_frame().rows() == [("301", "a", 1.0), ("301", "b", 0.0)]


def test_faulty_qrels_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "qrels", "301 0 a 1\n301 0 b\n")
    with pytest.raises(ParseError, match=r"qrels:2: expected 4 fields, found 3: '301 0 b'"):
        read_qrels(path)
    with pytest.raises(ParseError, match=r"qrels:1: expected 4 fields, found 6"):
        read_qrels(write(path, GOOD))
    with pytest.raises(ParseError, match=r"qrels:2: the label must be a finite number, found 'nan'"):
        read_qrels(write(path, "301 0 a 1\n301 0 b nan\n"))
    with pytest.raises(DuplicateError, match=r"two labels, 1 and 0 \(.*qrels:1 and .*qrels:4\)"):
        read_qrels(write(path, "301 0 a 1\n301 0 b 1\n\n301 0 a 0\n"))


def test_a_run_is_written_best_first(tmp_path: Path) -> None:
    c = Consensus(["q", "p", "q", "q"], ["a", "é", "b", "c"], [0.1, -2, 1e-7, 0.1])
    write_run(c, tmp_path / "x")
    assert (tmp_path / "x").read_text() == (
        "q Q0 a 1 0.1 concordant\nq Q0 c 1 0.1 concordant\nq Q0 b 3 1e-7 concordant\np Q0 é 1 -2.0 concordant\n"
    )
    write_run(c, tmp_path / "x", top=1, tag="me")
    assert (tmp_path / "x").read_text() == "q Q0 a 1 0.1 me\np Q0 é 1 -2.0 me\n"
    write_run(c, tmp_path / "x", top=None, break_ties=True)
    assert [line.split()[2:4] for line in (tmp_path / "x").read_text().splitlines()] == [
        ["a", "1"],
        ["c", "2"],
        ["b", "3"],
        ["é", "1"],
    ]


floats = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.lists(st.tuples(st.sampled_from("pqr"), floats), min_size=1, max_size=30), st.sampled_from(["", ".gz", ".zst"])
)
def test_scores_come_back_to_the_bit(rows: list[tuple[str, float]], ending: str) -> None:
    c = Consensus([q for q, _ in rows], [f"d{n}" for n in range(len(rows))], [v for _, v in rows])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"run{ending}")
        write_run(c, path)
        back = read_runs(path)
    scores = dict(zip(c.items, c.score.tolist(), strict=True))
    found = dict(zip(back.items.take(back.slot), back.value.tolist(), strict=True))
    assert {i: struct.pack("d", v + 0.0) for i, v in found.items()} == {
        i: struct.pack("d", v + 0.0) for i, v in scores.items()
    }
    assert back.items.take(back.slot).tolist() == [i for q in c.instances for i in c.ranking(q)]


@given(
    st.lists(
        st.tuples(st.sampled_from("pq"), st.sampled_from([0.0, -0.0, 1.0, 1 + 1e-9, 3.5, -1e-45, 1e300, 2.0])),
        min_size=1,
    )
)
def test_broken_ties_fall_strictly_in_single_precision_too(rows: list[tuple[str, float]]) -> None:
    c = Consensus([q for q, _ in rows], [f"d{n}" for n in range(len(rows))], [v for _, v in rows])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run")
        write_run(c, path, break_ties=True)
        lines = [line.split() for line in path.read_text().splitlines()]
    wide = any(v == 1e300 for _, v in rows)
    for q in c.instances:
        mine = [line for line in lines if line[0] == q]
        assert [line[2] for line in mine] == c.ranking(q)
        assert [line[3] for line in mine] == [str(n + 1) for n in range(len(mine))]
        score = np.array([float(line[4]) for line in mine])
        assert (np.diff(score) < 0).all()
        if not wide:
            assert (np.diff(score.astype(np.float32)) < 0).all()
        true = np.array([dict(zip(c.items, c.score, strict=True))[line[2]] for line in mine])
        assert np.abs(score - true).max() <= 1e-5 * max(1.0, float(np.abs(true).max()))


def test_scores_without_ties_stay_as_they_are(tmp_path: Path) -> None:
    c = Consensus(["q"] * 4, list("abcd"), [0.4, 0.1, 0.1, 1 / 3])
    write_run(c, tmp_path / "x", break_ties=True)
    score = [line.split()[4] for line in (tmp_path / "x").read_text().splitlines()]
    assert score[:3] == ["0.4", repr(1 / 3), "0.1"]
    assert float(score[3]) == float(np.nextafter(np.float32(0.1), np.float32(0)))


@pytest.mark.parametrize("bad", ["two words", "tab\tbed", "line\nfeed", ""])
def test_ids_that_a_run_cannot_hold_are_named_and_nothing_is_written(tmp_path: Path, bad: str) -> None:
    path = write(tmp_path / "x", "old")
    with pytest.raises(DataError, match=r"item .* cannot be written to a TREC run"):
        write_run(Consensus(["q", "q"], ["a", bad], [1, 2]), path)
    with pytest.raises(DataError, match=r"instance .* cannot be written to a TREC run"):
        write_run(Consensus(["q", bad], ["a", "b"], [1, 2]), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("options", "name"), [({"top": 0}, "top"), ({"top": True}, "top"), ({"tag": "a b"}, "tag")])
def test_what_cannot_be_asked_of_a_run_is_refused(tmp_path: Path, options: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError, match=f"'{name}' parameter of write_run"):
        write_run(Consensus(["q"], ["a"], [1]), tmp_path / "x", **options)


def test_an_empty_consensus_is_an_empty_file(tmp_path: Path) -> None:
    write_run(Consensus([], [], []), tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b""


@pytest.fixture(scope="module")
def trec3(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trec3")
    with tarfile.open(data_dir / "trec3-adhoc" / "TREC-3-runs.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "TREC-3"


@pytest.mark.data
def test_trec3_reads_from_its_folder(trec3: Path) -> None:
    p = read_runs(trec3)
    assert (p.n_experts, p.n_instances, p.n_rows) == (40, 50, 1_958_949)
    assert p.instances.tolist() == [str(t) for t in range(151, 201)]
    assert (p.list_lengths.min(), p.list_lengths.max()) == (16, 1000)
    assert {"INQ102", "citya1", "Brkly7"} <= set(p.experts)
    pairs = set()
    for path in sorted(trec3.glob("input.*"))[:3]:
        pairs |= {tuple(line.split()[0:3:2]) for line in path.read_text().splitlines()}
    assert read_runs(sorted(trec3.glob("input.*"))[:3]).n_slots == len(pairs)
    by_file = read_runs(trec3 / "input.*", expert_from="file")
    assert by_file.experts[0] == "input.acqnt1"
    assert by_file.slot.tolist() == p.slot.tolist()


@pytest.mark.data
def test_trec3_labels_are_all_there(data_dir: Path) -> None:
    labels = read_qrels(data_dir / "trec3-adhoc" / "T3-j.txt")
    assert (len(labels), labels.n_slots, int((labels.label >= 1).sum())) == (50, 97_319, 9_805)
