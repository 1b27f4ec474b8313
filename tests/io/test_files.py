"""Files are found by path, glob and folder, unpacked by content, and written whole or not at all."""

from __future__ import annotations

import bz2
import errno
import gc
import gzip
import lzma
import os
import pickle
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.attack.files import CASES
from tests.oracles.contents import contents

import concordant as cc
from concordant.errors import ConcordantError, DataError, FormatError, ParameterError, ParseError
from concordant.io import _files as files
from concordant.io._tables import _records
from concordant.io.names import read_names
from concordant.io.trec import read_qrels

PACKERS = {
    "plain": bytes,
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    # The checksum, which the others always carry, is what tells that content was garbled.
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def test_a_folder_and_a_glob_give_visible_files_by_name(tmp_path: Path) -> None:
    touch(tmp_path, "b.trec", "a.trec", "c.txt", ".hidden.trec", "sub/d.trec")
    assert [p.name for p in files.expand(tmp_path)] == ["a.trec", "b.trec", "c.txt"]
    assert [p.name for p in files.expand(f"{tmp_path}/*.trec")] == ["a.trec", "b.trec"]
    assert [p.name for p in files.expand(f"{tmp_path}/**/*.trec")] == ["a.trec", "b.trec", "d.trec"]


def test_a_list_keeps_its_order_and_takes_a_file_once(tmp_path: Path) -> None:
    touch(tmp_path, "b.trec", "a.trec")
    found = files.expand([tmp_path / "b.trec", f"{tmp_path}/*.trec"])
    assert [p.name for p in found] == ["b.trec", "a.trec"]


def test_a_name_with_glob_characters_that_exists_is_that_file(tmp_path: Path) -> None:
    touch(tmp_path, "run[1].trec", "run1.trec")
    assert [p.name for p in files.expand(tmp_path / "run[1].trec")] == ["run[1].trec"]


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "x.trec")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert files.expand("~/x.trec") == [tmp_path / "x.trec"]


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such file or folder: '.*nowhere\.trec'"):
        files.expand(tmp_path / "nowhere.trec")
    with pytest.raises(DataError, match=r"no file matches '.*\*\.trec'"):
        files.expand(f"{tmp_path}/*.trec")
    with pytest.raises(DataError, match="holds no files"):
        files.expand(tmp_path)
    with pytest.raises(DataError, match="no files were given"):
        files.expand([])
    with pytest.raises(DataError, match="NUL"):
        files.expand("a\x00b")
    with pytest.raises(ParameterError, match="'paths'"):
        files.expand([3])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("runs/bm25.trec", "bm25"),
        ("bm25.trec.gz", "bm25"),
        ("bm25.v2.run.zst", "bm25.v2"),
        ("input.inq102", "input.inq102"),
        ("run", "run"),
        (".trec", ".trec"),
        ("X.TXT", "X"),
    ],
)
def test_the_stem_loses_only_endings_that_tell_the_format(name: str, expected: str) -> None:
    assert files.stem(name) == expected


@pytest.mark.parametrize("kind", PACKERS)
def test_packing_is_told_by_content_not_by_name(tmp_path: Path, kind: str) -> None:
    text = "".join(f"line {n} é\n" for n in range(5000))
    path = tmp_path / "no.ending.at.all"
    path.write_bytes(PACKERS[kind](text.encode()))
    assert files.compression(path) == (None if kind == "plain" else kind)
    assert files.read_bytes(path) == text.encode()
    assert files.read_head(path, 7) == b"line 0 "
    assert [line for _, line in files.text_lines(path)] == text.splitlines()
    with files.open_text(path) as handle:
        assert handle.read() == text


@pytest.mark.parametrize("kind", ["gz", "xz", "bz2", "zst"])
def test_two_packed_files_end_to_end_are_one(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "two"
    path.write_bytes(PACKERS[kind](b"one\n") + PACKERS[kind](b"two\n"))
    assert files.read_bytes(path) == b"one\ntwo\n"


@pytest.mark.parametrize("kind", ["gz", "xz", "bz2", "zst"])
@pytest.mark.parametrize("harm", ["cut", "garbled"])
def test_damaged_packing_names_the_file(tmp_path: Path, kind: str, harm: str) -> None:
    packed = PACKERS[kind](b"".join(b"%d\n" % (n * 7919 % 10007) for n in range(20000)))
    middle = len(packed) // 2
    harmed = packed[:middle] if harm == "cut" else packed[:middle] + b"\xff\x00" * 8 + packed[middle + 16 :]
    path = tmp_path / "harmed.bin"
    path.write_bytes(harmed)
    with pytest.raises((FormatError, ParseError), match=r"harmed\.bin"):
        files.read_bytes(path)


def test_a_dictionary_larger_than_memory_names_the_file(tmp_path: Path) -> None:
    """The block header of xz data asks for a dictionary of 4 GiB, with its checksum made right."""
    packed = bytearray(lzma.compress(b"q1 Q0 d1 1 0.5 x\n"))
    assert packed[14:16] == b"\x21\x01"
    packed[16] = 40
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    path = tmp_path / "greedy.trec"
    path.write_bytes(packed)
    program = (
        "import resource, sys, concordant as cc\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "for read in (cc.read_runs, cc.read):\n"
        "    try: read(sys.argv[1])\n"
        "    except cc.errors.FormatError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True).stdout
    told = [("greedy.trec" in line, "more memory than there is" in line) for line in said.splitlines()]
    assert told == [(True, True)] * 2


@given(
    st.lists(st.text(alphabet="ab \té", max_size=6), max_size=12),
    st.booleans(),
    st.booleans(),
    st.integers(min_value=1, max_value=40),
)
def test_blocks_are_the_file_cut_at_line_ends(lines: list[str], ends: bool, mark: bool, size: int) -> None:
    import tempfile

    text = "\n".join(lines).encode() + (b"\n" if ends and lines else b"")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x")
        path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + text)
        blocks = list(files.text_blocks(path, size))
    assert b"".join(block for _, block in blocks) == text
    at = 1
    for k, (first, block) in enumerate(blocks):
        assert first == at
        assert block.endswith(b"\n") or k == len(blocks) - 1
        at += block.count(b"\n")


def test_lines_are_numbered_and_lose_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\ntwo")
    assert list(files.text_lines(path)) == [(1, "one"), (2, ""), (3, "two")]
    path.write_bytes(b"")
    assert list(files.text_lines(path)) == []


@pytest.mark.parametrize("kind", PACKERS)
def test_text_that_is_not_utf8_names_the_line(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "latin"
    path.write_bytes(PACKERS[kind](b"fine\nfine\nna\xefve\nfine\n"))
    with pytest.raises(ParseError, match="latin:3: expected UTF-8 text"):
        list(files.text_lines(path))
    with pytest.raises(ParseError, match="latin:3: expected UTF-8 text"), files.open_text(path) as handle:
        handle.read()


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes are a thing of Unix")
@pytest.mark.parametrize("kind", PACKERS)
def test_a_pipe_is_read_once_and_whole(tmp_path: Path, kind: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = b"".join(b"line %d\n" % n for n in range(9999))
    writer = threading.Thread(target=pipe.write_bytes, args=(PACKERS[kind](text),))
    writer.start()
    assert b"".join(block for _, block in files.text_blocks(pipe, 1000)) == text
    writer.join()


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".bz2", ".zst"])
def test_what_is_written_reads_back_and_is_packed_as_named(tmp_path: Path, ending: str) -> None:
    text = b'one "quoted", two\n\n three\n'
    path = tmp_path / f"out.txt{ending}"
    with files.atomic_write(path) as handle:
        handle.write(text)
    assert files.compression(path) == (ending[1:] or None)
    assert files.read_bytes(path) == text
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_the_same_content_packs_to_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with files.atomic_write(tmp_path / name) as handle:
            handle.write(b"same\n")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize("reason", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("before", [None, b"old"])
def test_an_exception_leaves_what_was_there(
    tmp_path: Path, ending: str, reason: type[BaseException], before: bytes | None
) -> None:
    path = tmp_path / f"out{ending}"
    if before is not None:
        path.write_bytes(before)

    def write() -> None:
        with files.atomic_write(path) as handle:
            handle.write(b"half of it")
            raise reason

    with pytest.raises(reason):
        write()
    assert [p.name for p in tmp_path.iterdir()] == ([] if before is None else [path.name])
    if before is not None:
        assert path.read_bytes() == before


def test_nothing_is_seen_under_the_name_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with files.atomic_write(path) as handle:
        handle.write(b"new" * 100_000)
        handle.flush()
        assert path.read_bytes() == b"old"
        assert files.expand(tmp_path) == [path]
    assert path.read_bytes() == b"new" * 100_000


@pytest.mark.skipif(sys.platform == "win32", reason="file modes and links of Unix")
def test_the_mode_and_the_link_are_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    with files.atomic_write(link) as handle:
        handle.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.skipif(sys.platform == "win32", reason="devices of Unix")
def test_a_device_is_written_directly() -> None:
    with files.atomic_write("/dev/null") as handle:
        handle.write(b"gone")
    assert not Path("/dev/null").is_file()


def test_impossible_targets_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"), files.atomic_write(tmp_path / "no" / "x"):
        pass
    with pytest.raises(DataError, match="it is a folder"), files.atomic_write(tmp_path):
        pass


class Fifo:
    """A named pipe through which some bytes come once."""

    def __init__(self, path: Path, content: bytes) -> None:
        os.mkfifo(path)
        self.path = path
        self.writer = threading.Thread(target=path.write_bytes, args=(content,), daemon=True)
        self.writer.start()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.writer.join(10)
        assert not self.writer.is_alive(), "the pipe was not read to its end"


posix = pytest.mark.skipif(os.name != "posix", reason="named pipes of POSIX")
ROWS = "".join(f"q{n // 100} Q0 d{n * 7 % 100} 1 {n}.5 t{n % 100 // 50}\n" for n in range(20_000)).encode()


@posix
@pytest.mark.parametrize("case", [name for name, case in CASES.items() if not case.beside])
def test_every_reader_takes_a_pipe(case: str, tmp_path: Path) -> None:
    name, data, reader = CASES[case].name, CASES[case].data, CASES[case].read
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / name).write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Fifo(tmp_path / name, data) as pipe:
            found = reader(pipe)
        assert contents_of(found) == contents_of(reader(tmp_path / "plain" / name))
        if CASES[case].found and case != "movielens":
            with Fifo(tmp_path / f"again.{name}", data) as pipe:
                assert [part for part in cc.read(pipe) if part is not None]


def contents_of(found: Any) -> list[Any]:
    """Return what a reader found, container by container; NaN equals NaN."""
    parts = found if isinstance(found, tuple) else (found,)
    return [repr(contents(part)) for part in parts if part is not None]


def _in_blocks(path: Path) -> cc.Preferences:
    with cc.scan(path, block_rows=500) as blocks:
        return cc.concat(list(blocks))


@posix
@pytest.mark.parametrize("held", [1 << 26, 1000], ids=["in memory", "in a file"])
@pytest.mark.parametrize("kind", PACKERS)
def test_a_pipe_loses_nothing(tmp_path: Path, kind: str, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "kept"))
    monkeypatch.setattr(files, "_BUFFERED_BYTES", held)
    (tmp_path / "a.trec").write_bytes(ROWS)
    wanted = cc.read_runs(tmp_path / "a.trec")
    packed = PACKERS[kind](ROWS)
    for read in (
        cc.read_runs,
        lambda pipe: cc.read(pipe).preferences,
        lambda pipe: cc.read_runs([pipe, pipe]),
        _in_blocks,
    ):
        (tmp_path / "b.trec").unlink(missing_ok=True)
        with Fifo(tmp_path / "b.trec", packed) as pipe:
            assert read(pipe) == wanted
    assert not list((tmp_path / "kept").iterdir())


@posix
@pytest.mark.parametrize("where", [files._OPEN_FILES, "/no/such/folder"])
def test_what_is_held_goes_away_after_errors_too(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "kept"))
    monkeypatch.setattr(files, "_BUFFERED_BYTES", 1000)
    monkeypatch.setattr(files, "_OPEN_FILES", where)
    with Fifo(tmp_path / "a.trec", ROWS + b"q Q0 d 1 x t\n") as pipe, pytest.raises(ParseError) as caught:
        cc.read(pipe)
    assert str(caught.value).startswith(f"{pipe}:20001: the score must be a finite number")
    del caught
    gc.collect()
    assert not list((tmp_path / "kept").iterdir())
    with Fifo(tmp_path / "b.trec", ROWS) as pipe:
        assert cc.read_runs(pipe).n_rows == 20_000
    assert not list((tmp_path / "kept").iterdir())


@posix
def test_a_pipe_stays_on_this_machine(tmp_path: Path) -> None:
    with Fifo(tmp_path / "a.trec", b"q Q0 d 1 1 t\n") as pipe:
        (held,) = files.expand(pipe)
    with pytest.raises(DataError, match=r"a\.trec: this input can be read on this machine only"):
        pickle.dumps(held)


@posix
def test_a_checkpoint_knows_what_came_through_a_pipe_by_its_content(tmp_path: Path) -> None:
    for n, content in enumerate([ROWS, ROWS, ROWS + ROWS[:30]]):
        (tmp_path / "b.trec").unlink(missing_ok=True)
        with Fifo(tmp_path / "b.trec", content) as pipe:
            if n < 2:
                assert cc.scan(pipe, checkpoint=tmp_path / "kept").n_rows == 20_000
            else:
                with pytest.raises(FormatError, match="the checkpoint of another job"):
                    cc.scan(pipe, checkpoint=tmp_path / "kept", duplicates="first")


@posix
@pytest.mark.parametrize(
    "writer", [lambda c, path: cc.write(c, path, "csv"), lambda c, path: cc.write(c, path, "trec")]
)
def test_a_pipe_is_written_to_as_a_file_is(tmp_path: Path, writer: Any) -> None:
    consensus = cc.aggregate(cc.from_lists({"x": ["a", "b"], "y": ["b", "c"]}))
    writer(consensus, tmp_path / "plain")
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit((tmp_path / "pipe").read_bytes)
        writer(consensus, tmp_path / "pipe")
        assert read.result(10) == (tmp_path / "plain").read_bytes()


@posix
def test_an_open_file_is_gone_on_with(tmp_path: Path) -> None:
    with open(tmp_path / "log", "ab") as log:
        log.write(b"first\n")
        log.flush()
        with files.atomic_write(f"/dev/fd/{log.fileno()}") as handle:
            handle.write(b"second\n")
    assert (tmp_path / "log").read_bytes() == b"first\nsecond\n"
    with pytest.raises(DataError, match=r"cannot write '/dev/full': No space left on device"):
        cc.write(cc.Labels(["q"], ["a"], [1]), "/dev/full", "csv")


ENDLESS = {
    "letters": b"a" * 3_000_000,
    "run": b"q Q0 d 1 2.0 " + b"t" * 3_000_000,
    "numbers": b"1 qid:1 " + b"1:2 " * 700_000,
    "cells": b"user,item,rating\nu," + b"i" * 3_000_000 + b",1\n",
    "ballot": b"# NUMBER ALTERNATIVES: 9\n1: " + b"1," * 1_500_000,
    "object": b'{"user": "' + b"u" * 3_000_000 + b'"}',
}


@pytest.mark.parametrize("kind", ["gz", "zst"])
@pytest.mark.parametrize("case", ENDLESS)
def test_an_endless_line_is_refused_by_name(
    case: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "a.bin"
    path.write_bytes(PACKERS[kind](b"x Q0 d 1 2.0 t\n"[: 15 * (case == "run")] + ENDLESS[case]))
    line = {"letters": 1, "numbers": 1, "object": 1}.get(case, 2)
    for read in (cc.read_runs, cc.read_features, cc.read_preflib, cc.read_labels, read_qrels, read_names):
        with pytest.raises(ConcordantError) as caught:
            read(path)
        assert str(path) in str(caught.value)
    # Whoever reads the text to the end says which line it is.
    with pytest.raises(ParseError, match=rf"a\.bin:{line}: the line is longer than 1 MB"):
        list(files.text_lines(path))


def test_lines_of_data_are_not_endless(tmp_path: Path) -> None:
    # A ranking of a million items, and one more than any reader takes.
    path = tmp_path / "a.gz"
    for n, fits in ((8_000_000, True), (40_000_000, False)):
        path.write_bytes(gzip.compress(b"1" * n, 1))
        if fits:
            assert len(files.read_head(path, 1 << 25)) == sum(len(b) for _, b in files.text_blocks(path)) == n
        else:
            with pytest.raises(ParseError, match=r"a\.gz:1: the line is longer than 32 MB"):
                cc.read_runs(path)


def test_a_table_of_too_many_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv.gz"
    path.write_bytes(gzip.compress(b"ab," * 1_000_000 + b"\n" + b"1," * 1_000_000 + b"\n", 1))
    with pytest.raises(FormatError, match=r"wide\.csv\.gz: the table has 1,000,001 columns; 100,000 are read at most"):
        cc.read_rankings(path)


@given(
    st.lists(st.sampled_from(['"', "\r", "\n", "\r\n", '"\r\n"', "a", ",", ";", "\t", "{", "\ufeff"]), max_size=25),
    st.sampled_from(",;|\t"),
)
def test_zst_keeps_all_that_records_hold(parts: list[str], separator: str) -> None:
    """Polars drops one carriage return of each line; none that a reader would see may be lost."""
    content = "".join(parts).encode()
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for kind in ("plain", "zst"):
            path = Path(folder, kind)
            path.write_bytes(PACKERS[kind](content))
            records = [fields for *_, fields in _records(files.text_lines(path, returns=True), separator)]
            # The last line may be blank.
            found.append(records[:-1] if records and records[-1] == [""] else records)
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", PACKERS)
def test_one_carriage_return_ends_a_line_and_two_do_not(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toc"
    ballots = "# NUMBER ALTERNATIVES: 2\n# NUMBER VOTERS: 1\n# NUMBER UNIQUE ORDERS: 1\n1: 2,1\n"
    path.write_bytes(PACKERS[kind](ballots.replace("\n", "\r\n").encode()))
    assert cc.read_preflib(path).to_frame().rows() == [("a", "1", "2", 1.0), ("a", "1", "1", 2.0)]
    path.write_bytes(PACKERS[kind](ballots.replace("\n", "\r\r\n").encode()))
    with pytest.raises(ParseError, match=r"a\.toc:\d: "):
        cc.read_preflib(path)


@pytest.mark.parametrize("content", [b"a\x00b\xff\n", b"q Q0 d 1 \xff\x00 t\n", b"\x00\n\r\x00\xfe\r\n"])
def test_zst_of_damaged_text_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(PACKERS["zst"](content))
    for read in (cc.read, cc.read_runs, cc.read_ratings, cc.read_labels, cc.read_letor):
        with pytest.raises(ConcordantError, match=r"a\.zst"):
            read(path)
    with pytest.raises(ParseError, match=r"a\.zst:\d: expected UTF-8 text"):
        list(files.text_lines(path))


@posix
def test_a_name_that_is_not_utf8_is_a_name(tmp_path: Path) -> None:
    folder = os.path.join(os.fsencode(tmp_path), b"f\xff")
    os.mkdir(folder)
    for name, text in (
        (b"a\xfe.trec", b"q Q0 d1 1 2.0 t\n"),
        (b"b\xfe.trec.gz", gzip.compress(b"q Q0 d2 1 2.0 t\n")),
    ):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(text)
    first = os.fsdecode(os.path.join(folder, b"a\xfe.trec"))
    assert cc.read_runs(first).items.tolist() == ["d1"]
    both = cc.read(os.fsdecode(folder)).preferences
    assert both is not None
    assert both.experts.tolist() == ["a\\xfe", "b\\xfe"]
    assert both.to_frame()["item"].to_list() == ["d1", "d2"]
    with open(first, "ab") as file:
        file.write(b"q Q0 d2 2 1.0 t\nq Q0 d1 1 x t\n")
    with pytest.raises(ParseError, match=r"f\\xff/a\\xfe\.trec:3: the score") as caught:
        cc.read(first)
    str(caught.value).encode()
    for text, suffix in (("user,item,rating\nu,i,1\n", b".csv"), ('{"user":"u","item":"i","rating":1}\n', b".jsonl")):
        path = os.path.join(folder, b"t\xfe" + suffix)
        with open(path, "wb") as file:
            file.write(text.encode())
        assert cc.read_ratings(os.fsdecode(path)).experts.tolist() == ["u"]
    out = os.fsdecode(os.path.join(folder, b"out\xfd.csv"))
    for ending in ("", ".gz", ".zst"):
        cc.write(both, out + ending)
        assert cc.read(out + ending).preferences == both
    with pytest.raises(DataError, match=r"no such file or folder: .*none\\\\xfd"):
        cc.read(os.fsdecode(os.path.join(folder, b"none\xfd")))


@posix
def test_what_the_system_does_not_let_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = (cc.read, cc.read_runs, cc.read_ratings, cc.read_letor, cc.read_features, cc.read_preflib, cc.read_labels)
    for read in readers:
        with pytest.raises(DataError, match=r"cannot read 'x+…': File name too long") as caught:
            read("x" * 5000)
        assert len(str(caught.value)) < 1000
    # A socket, which no user may open by its name, and root neither.
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(tmp_path)
        listening.bind("a.trec")
        for read in readers:
            with pytest.raises(DataError, match=r"cannot read 'a\.trec': No such device"):
                read("a.trec")
    # It can be opened, and not be read.
    if os.path.exists("/proc/self/mem"):
        for read in readers:
            with pytest.raises(DataError, match=r"cannot read '/proc/self/mem': Input/output error"):
                read("/proc/self/mem")
    (tmp_path / "secret.trec").write_text("q Q0 d 1 1 t\n")
    builtin = open

    def refused(path: Any, *args: Any, **kwargs: Any) -> Any:
        if str(path).endswith("secret.trec"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return builtin(path, *args, **kwargs)

    monkeypatch.setattr("builtins.open", refused)
    for read in readers:
        with pytest.raises(DataError, match=r"cannot read '.*secret\.trec': Permission denied"):
            read(tmp_path / "secret.trec")
    with pytest.raises(DataError, match=r"cannot write 'y+…': File name too long"):
        files.check_writable("y" * 5000)


def test_the_folder_for_temporary_files_is_found_without_writing_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", lambda: pytest.fail("a file was written to try the folder"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    monkeypatch.setenv("TEMP", str(tmp_path))
    assert files.temporary_folder() == tmp_path
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "chosen"))
    assert files.temporary_folder() == tmp_path / "chosen"
