"""Blocks of instances are the whole, taken apart: whatever the batches, windows and blocks, and whatever goes wrong."""

from __future__ import annotations

import errno
import gzip
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import concordant as cc
from concordant.errors import DataError, DuplicateError, FormatError, KindError, ParameterError
from concordant.io import blocks as blocks_module
from concordant.io import tabular
from concordant.io.formats import FORMATS

Row = tuple[str, str, float]
names = st.sampled_from(["1", "2", "3", "a long name of an instance".replace(" ", "-"), "é"])
items = st.sampled_from(["d1", "d2", "d3", "clueweb09-en0000-00-00001", "ü"])
run = st.lists(st.tuples(names, items, st.sampled_from([1.0, 2.5, -3.0])), max_size=12, unique_by=lambda r: r[:2])


def write_runs(folder: Path, runs: list[list[Row]]) -> list[Path]:
    paths = []
    for n, rows in enumerate(runs):
        paths.append(folder / f"run{n}.trec")
        paths[-1].write_text("".join(f"{q} Q0 {i} 1 {v} sys{n}\n" for q, i, v in rows))
    return paths


def test_as_many_rows_are_coded_together_as_the_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "free_memory", lambda: 48 * 40_000_000)
    assert [blocks_module._batch_rows(m) for m in (None, 0, 10**6, 48 * 10**7, 10**15)] == [
        10_000_000,
        10_000_000,
        1_000_000,
        5_000_000,
        1 << 27,
    ]


@pytest.mark.parametrize("memory", ["4GB", -1, 1.5, True])
def test_memory_is_a_number_of_bytes(tmp_path: Path, memory: object) -> None:
    paths = write_runs(tmp_path, [[("1", "d1", 1.0)]])
    with pytest.raises(ParameterError, match="'memory' parameter of scan must be a whole number >= 0"):
        cc.scan(paths, memory=memory)  # type: ignore[arg-type]


def small(monkeypatch: pytest.MonkeyPatch, batch: int, window: int = 1000) -> None:
    """Make every seam show."""
    monkeypatch.setattr(blocks_module, "_batch_rows", lambda _: batch)
    monkeypatch.setattr(tabular, "_WINDOW", window)


@pytest.mark.filterwarnings("ignore:.*the input holds no:concordant.errors.DataWarning")
@settings(max_examples=60)
@given(st.lists(run, min_size=1, max_size=4), st.sampled_from([1, 2, 5, 100]), st.sampled_from([1, 3, 100]))
def test_blocks_of_runs_are_the_runs_read_whole(
    tmp_path_factory: pytest.TempPathFactory, runs: list[list[Row]], batch: int, block_rows: int
) -> None:
    paths = write_runs(tmp_path_factory.mktemp("runs"), runs)
    whole = cc.read_runs(paths)
    with pytest.MonkeyPatch.context() as patch:
        small(patch, batch)
        with cc.scan(paths, "trec", block_rows=block_rows) as blocks:
            parts = list(blocks)
            assert blocks.instances.tolist() == whole.instances.tolist()
            assert blocks.n_rows == whole.n_rows
            assert blocks.rows.tolist() == np.bincount(whole.slots.instance[whole.slot], minlength=len(whole)).tolist()
    assert [q for part in parts for q in part.instances] == whole.instances.tolist()
    assert all(part.experts == whole.experts for part in parts)
    for part in parts:
        assert part == whole[part.instances.tolist()]
        if len(part) > 1:
            assert part.n_rows <= block_rows


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(names, st.sampled_from(["x", "y", "7.0"]), items, st.one_of(st.none(), st.sampled_from([1.0, 2.0]))),
        min_size=1,
        max_size=25,
        unique_by=lambda r: r[:3],
    ),
    st.sampled_from([1, 4, 100]),
    st.sampled_from([1, 3, 100]),
    st.booleans(),
)
def test_blocks_of_parquet_tables_are_the_tables_read_whole(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], batch: int, window: int, weighted: bool
) -> None:
    path = tmp_path_factory.mktemp("tables") / "votes.parquet"
    frame = pl.DataFrame(
        rows, schema={"instance": pl.String, "expert": pl.String, "item": pl.String, "rank": pl.Float64}, orient="row"
    )
    if weighted:
        frame = frame.with_columns(weight=pl.when(pl.col("expert") == "x").then(2.0).otherwise(1.0))
    frame.write_parquet(path, row_group_size=2)
    whole = cc.read(path).preferences
    assert whole is not None
    with pytest.MonkeyPatch.context() as patch:
        small(patch, batch, window)
        with cc.scan(path, block_rows=3) as blocks:
            assert blocks.instances.tolist() == whole.instances.tolist()
            for part in blocks:
                assert part == whole[part.instances.tolist()]
                assert part.weights.tolist() == whole[part.instances.tolist()].weights.tolist()
        # As large tables are read into memory.
        patch.setattr(tabular, "_LARGE_BYTES", 0)
        coded = cc.read(path).preferences
        assert coded == whole
        assert coded is not None
        assert coded.weights.tolist() == whole.weights.tolist()


def test_ratings_and_scores_are_read_in_blocks_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, 2, 2)
    stars = pl.DataFrame({"user": ["a", "a", "b"], "movie": ["x", "y", "x"], "rating": [5, 3, 4]})
    stars.write_parquet(tmp_path / "stars.parquet")
    fused = pl.DataFrame({"instance": ["q", "q", "p"], "item": ["a", "b", "a"], "score": [0.5, 0.2, 0.1]})
    for name in ("one", "two"):
        fused.write_csv(tmp_path / f"{name}.csv")
    for source in (tmp_path / "stars.parquet", [tmp_path / "one.csv", tmp_path / "two.csv"]):
        whole = cc.read(source).preferences
        assert whole is not None
        with cc.scan(source, block_rows=1) as blocks:
            assert blocks.kind == whole.kind
            assert [part == whole[part.instances.tolist()] for part in blocks] == [True] * len(whole)


def test_what_has_no_blocks_is_refused(tmp_path: Path) -> None:
    votes = tmp_path / "votes.csv"
    votes.write_text("winner,loser\na,b\n")
    with pytest.raises(FormatError, match=r"votes\.csv: a table of comparisons cannot be read in blocks"):
        cc.scan(votes)
    (tmp_path / "a.trec").write_text("1 Q0 d 1 1 x\n")
    with pytest.raises(ParameterError, match="block_rows"):
        cc.scan(tmp_path / "a.trec", block_rows=0)


def test_a_repeated_item_is_named_with_both_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, 2)
    path = tmp_path / "a.trec"
    path.write_text("1 Q0 d1 1 9 x\n1 Q0 d2 2 8 x\n2 Q0 d1 1 7 x\n1 Q0 d1 3 6 x\n")
    with pytest.raises(DuplicateError, match=r"a\.trec:1 and .*a\.trec:4"), cc.scan(path) as blocks:
        list(blocks)
    with cc.scan(path, duplicates="best", block_rows=1) as blocks:
        assert [part.n_rows for part in blocks] == [2, 1]


def output_of(write: Callable[[Path], Any], path: Path) -> bytes:
    write(path)
    return path.read_bytes()


@pytest.mark.parametrize("kind", [*(name for name in FORMATS if FORMATS[name].append is not None), "csv.gz"])
@pytest.mark.parametrize("top", [None, 2])
def test_a_consensus_written_in_blocks_is_the_one_written_whole(
    kind: str, top: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, 40)
    runs, _ = cc.synthetic.labelled_runs(12, random_state=3)
    frame = runs.to_frame()
    paths = []
    for (expert,), own in frame.group_by(["expert"], maintain_order=True):
        paths.append(tmp_path / f"{expert}.trec")
        value = own.columns[3]
        lines = own.select(pl.format("{} Q0 {} 1 {} {}", "instance", "item", value, "expert"))
        paths[-1].write_text("\n".join(lines.to_series()) + "\n")
    consensus = cc.aggregate(cc.read_runs(paths), "comb-mnz")
    if kind == "trec":
        whole = output_of(lambda p: cc.write_run(consensus, p, top=top or 1000, tag="x"), tmp_path / "whole.trec")
    else:
        cut = consensus if top is None else consensus.top(top)
        whole = output_of(lambda p: cc.write(cut, p), tmp_path / f"whole.{kind}")
    options = {"tag": "x"} if kind == "trec" else {}
    with cc.scan(paths, block_rows=50) as blocks:
        assert len(blocks) > 3
        cc.aggregate_blocks(blocks, tmp_path / f"parts.{kind}", "comb-mnz", top=top, **options)
    if kind == "parquet":
        assert pl.read_parquet(tmp_path / "parts.parquet").equals(pl.read_parquet(tmp_path / "whole.parquet"))
    elif kind == "csv.gz":
        assert gzip.decompress((tmp_path / "parts.csv.gz").read_bytes()) == gzip.decompress(whole)
    else:
        assert (tmp_path / f"parts.{kind}").read_bytes() == whole
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_what_learns_from_all_instances_is_refused_in_blocks(tmp_path: Path) -> None:
    (tmp_path / "a.trec").write_text("1 Q0 d 1 1 x\n")
    with cc.scan(tmp_path / "a.trec") as blocks:
        for method, adjust in ((cc.BradleyTerry(reliability=True), None), (cc.ULARA(), lambda p: p), (cc.CRF(), None)):
            with pytest.raises(KindError, match=f"{type(method).__name__} learns from all instances together"):
                cc.aggregate_blocks(blocks, tmp_path / "out.trec", method, adjust=adjust)
        with pytest.raises(FormatError, match="cannot be written block by block"):
            cc.aggregate_blocks(blocks, tmp_path / "out.soc", "rrf")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.trec"]


def runs_with_silence(folder: Path) -> list[Path]:
    """Write four runs over 26 instances: one speaks in the last ones only, one never of two items."""
    chance = np.random.default_rng(11)
    runs: list[list[Row]] = [[], [], [], []]
    for q in range(20):
        truth = chance.normal(size=8)
        for n, noise in enumerate((0.3, 1.0, 3.0)):
            if n < 2 or q >= 12:
                values = truth + noise * chance.normal(size=8)
                runs[n] += [(f"q{q}", f"d{i}", round(values[i], 1)) for i in range(8) if (i + n) % 4]
    runs[3] = [("q3", "d1", 1.0)]
    for q in ("-1", "-2"):
        runs[3] += [(f"alone{q}", "d1", 1.0)]
        # Two groups that nobody connects.
        runs[0] += [(f"apart{q}", "d1", 2.0), (f"apart{q}", "d2", 1.0)]
        runs[1] += [(f"apart{q}", "d3", 2.0), (f"apart{q}", "d4", 1.0)]
        for n in range(2):
            runs[n] += [(f"tied{q}", "d1", 2.0), (f"tied{q}", "d2", 2.0), (f"tied{q}", "d3", 1.0)]
    return write_runs(folder, runs)


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize("block_rows", [1, 40, 100_000])
@pytest.mark.parametrize(
    ("params", "n_warnings"),
    [
        ({}, 2),
        ({"ties": "partition", "prior": 0.01}, 3),
        ({"ties": "random", "missing": "below"}, 1),
        ({"max_iter": 1}, 4),
    ],
    ids=str,
)
def test_adherence_learned_from_blocks_is_that_learned_from_all(
    params: dict[str, Any], n_warnings: int, block_rows: int, tmp_path: Path
) -> None:
    paths = runs_with_silence(tmp_path)
    whole = cc.read_runs(paths, missing="unknown")
    expected = cc.PlackettLuce(adherence=True, uncertainty="none", **params).fit(whole)
    expected_warnings = list(expected.fit_info_.warnings)
    with cc.scan(paths, block_rows=block_rows, missing="unknown") as blocks:
        assert len(blocks) == {1: 26, 40: 9, 100_000: 1}[block_rows]
        found = cc.PlackettLuce(adherence=True, uncertainty="none", **params).fit(blocks)
        # What is predicted later may be warned of as well.
        warned = list(found.fit_info_.warnings)
        answers = [found.predict(block).score for block in blocks]
    assert found.experts_ == expected.experts_ == ["sys0", "sys1", "sys2", "sys3"]
    assert np.ptp(expected.adherence_[:3]) > 0.1
    # One item is a choice only where those left out lie below it.
    assert (found.adherence_[3] == 1.0) == ("missing" not in params)
    np.testing.assert_allclose(found.adherence_, expected.adherence_, rtol=1e-9)
    np.testing.assert_allclose(np.concatenate(answers), expected.predict(whole).score, rtol=1e-9, atol=1e-12)
    one, other = expected.fit_info_, found.fit_info_
    assert (one.n_iter, one.converged) == (other.n_iter, other.converged)
    # At the θ to begin with there is nothing to tell the sums apart.
    assert one.trace[0] == other.trace[0]
    assert one.trace == pytest.approx(other.trace, rel=1e-12)
    assert warned == expected_warnings
    assert len(warned) == n_warnings
    if block_rows == 100_000:
        assert found.adherence_.tolist() == expected.adherence_.tolist()


def test_adherence_from_blocks_asks_for_what_it_needs(tmp_path: Path) -> None:
    with cc.scan(runs_with_silence(tmp_path), block_rows=40) as blocks:
        with pytest.raises(ParameterError, match="more than 0 where adherence=True"):
            cc.PlackettLuce(adherence=True, prior=0).fit(blocks)
        with pytest.raises(ParameterError, match="'newton' where adherence=True"):
            cc.PlackettLuce(adherence=True, optimizer="mm").fit(blocks)


def test_a_file_that_changes_while_it_is_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write_runs(tmp_path, [[("1", "d1", 1.0)], [("1", "d2", 2.0)]])
    from concordant.io import trec

    original = trec._read

    def meddling(path: Path, *rest: Any) -> Any:
        yield from original(path, *rest)
        if path == paths[1]:
            with path.open("a") as handle:
                handle.write("1 Q0 d9 1 1 sys1\n")

    monkeypatch.setattr(trec, "_read", meddling)
    monkeypatch.setattr(trec, "_parse_together", lambda *_: {})
    for reader in (cc.read_runs, cc.scan):
        before = paths[1].read_text()
        with pytest.raises(DataError, match=r"run1\.trec: the file changed while it was read \(\d+ bytes before"):
            reader(paths)
        paths[1].write_text(before)


def test_a_damaged_block_is_named_and_leaves_nothing_behind(tmp_path: Path) -> None:
    text = "".join(f"{q} Q0 d{i} 1 {i} x\n" for q in range(300) for i in range(40)).encode()
    packed = bytearray(gzip.compress(text))
    packed[len(packed) // 2] ^= 0xFF
    bad = tmp_path / "a.trec.gz"
    bad.write_bytes(bytes(packed))
    table = tmp_path / "a.parquet"
    frame = pl.DataFrame({"instance": ["q"] * 5000, "expert": "x", "item": [f"d{i}" for i in range(5000)], "rank": 1.0})
    frame.write_parquet(table, row_group_size=500)
    broken = bytearray(table.read_bytes())
    broken[len(broken) // 3 : len(broken) // 3 + 400] = os.urandom(400)
    table.write_bytes(bytes(broken))
    spool = tmp_path / "spool"
    spool.mkdir()
    # The first rows are damaged as well.
    early = tmp_path / "early.parquet"
    frame.write_parquet(early)
    broken = bytearray(early.read_bytes())
    broken[100:600] = bytes(500)
    early.write_bytes(bytes(broken))
    for path in (bad, table, early):
        for read in (cc.read, lambda path: cc.scan(path, folder=spool)):
            with pytest.raises(FormatError, match=rf"{path.name}: the (gz|Parquet) data is damaged"):
                read(path)
    assert not list(spool.iterdir())


def test_a_full_disk_is_named_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = write_runs(tmp_path, [[("1", "d1", 1.0), ("2", "d1", 1.0)]])
    spool = tmp_path / "spool"
    spool.mkdir()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(np, "save", full)
        with pytest.raises(DataError, match=r"cannot be kept in .*spool.*No space left"):
            cc.scan(path, folder=spool)
    assert not list(spool.iterdir())
    with cc.scan(path, folder=spool, block_rows=1) as blocks, monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match=r"cannot write '.*out\.trec': No space left"):
            cc.aggregate_blocks(blocks, tmp_path / "out.trec", "rrf")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run0.trec", "spool"]
    with pytest.raises(DataError, match=r"no folder for rows .* can be made in .*nowhere"):
        cc.scan(path, folder=tmp_path / "nowhere")


@contextmanager
def no_room(n_bytes: int) -> Iterator[None]:
    """Give a block in which the system lets no file grow beyond so many bytes."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of Unix")
@pytest.mark.parametrize("how", ["memory", "blocks", "checkpoint"])
@pytest.mark.parametrize("ending", ["trec", "csv", "jsonl", "parquet", "trec.gz", "csv.zst"])
def test_what_finds_no_room_is_named_and_leaves_what_was_there(tmp_path: Path, ending: str, how: str) -> None:
    rng = np.random.default_rng(1)
    (path,) = write_runs(tmp_path, [[(f"q{q}", f"d{i}", rng.random()) for q in range(9) for i in range(400)]])
    out, folder = tmp_path / f"out.{ending}", tmp_path / "half"
    out.write_bytes(b"before")
    consensus = cc.aggregate(cc.read_runs(path), "comb-sum")
    with cc.scan(path, block_rows=800) as blocks:
        words = rf"cannot write '.*{'part-0' if how == 'checkpoint' else 'out'}.*': File too large\. .* Make room"

        def write(path: Path) -> bytes:
            if how == "memory":
                cc.write(consensus, path)
            else:
                cc.aggregate_blocks(blocks, path, "comb-sum", checkpoint=folder if how == "checkpoint" else None)
            return path.read_bytes()

        with no_room(2000), pytest.raises(DataError, match=words):
            write(out)
        assert out.read_bytes() == b"before"
        assert not [p for p in tmp_path.rglob("*") if p.name.endswith((".tmp", ".parts"))]
        # With room again the same call ends as it would have.
        assert write(out) == write(tmp_path / f"other.{ending}") != b"before"


@pytest.mark.skipif(sys.platform == "win32", reason="limits of Unix")
def test_models_that_find_no_room_are_named(tmp_path: Path) -> None:
    votes, _ = cc.synthetic.labelled_runs(5, random_state=1)
    model = cc.ULARA().fit(votes)
    with no_room(100), pytest.raises(DataError, match=r"cannot write '.*ulara\.model': File too large"):
        model.save(tmp_path / "ulara.model")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="places of Unix")
def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (path,) = write_runs(tmp_path, [[("1", "d1", 1.0)]])
    taken = tmp_path / "file"
    taken.write_text("")
    with cc.scan(path) as blocks:
        # A folder of the system in which nobody makes files, root neither.
        with pytest.raises(DataError, match=r"cannot write '/proc/out\.trec': "):
            cc.aggregate_blocks(blocks, "/proc/out.trec", "rrf")
        for method in ("rrf", "mpm"):
            with pytest.raises(DataError, match=r"cannot write '.*file/half': Not a directory\. Name another"):
                cc.aggregate_blocks(blocks, tmp_path / "out.trec", method, checkpoint=taken / "half")


KILLED = """
import os, random, sys
import concordant as cc
from concordant.io import blocks
from concordant.io import _files
blocks._batch_rows, blocks._MARK_ROWS = lambda memory: 400, 300
# Every file that takes its name is a point at which to be killed.
left, original = int(sys.argv[3]), os.replace
def replace(*names):
    global left
    if left == 0:
        os.kill(os.getpid(), 9)
    left -= 1
    original(*names)
os.replace = replace
with cc.scan(sys.argv[1], block_rows=500, checkpoint=sys.argv[2] + ".checkpoint") as blocks:
    cc.aggregate_blocks(blocks, sys.argv[2], "comb-mnz", checkpoint=sys.argv[2] + ".checkpoint/parts")
"""


@pytest.mark.parametrize("kind", ["runs", "table"])
def test_killed_anywhere_the_same_call_ends_with_the_same_file(kind: str, tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    source = tmp_path / "data"
    source.mkdir()
    frame = pl.DataFrame(
        {
            "instance": [f"q{q}" for q in range(40) for _ in range(100)],
            "expert": [f"s{i % 5}" for _ in range(40) for i in range(100)],
            "item": [f"d{i // 5}" for _ in range(40) for i in range(100)],
            "score": chance.random(4000).round(3),
            "weight": [1.0 + i % 5 for _ in range(40) for i in range(100)],
        }
    )
    if kind == "runs":
        for (expert,), own in frame.group_by(["expert"], maintain_order=True):
            lines = own.select(pl.format("{} Q0 {} 1 {} {}", "instance", "item", "score", "expert")).to_series()
            (source / f"{expert}.trec").write_text("\n".join(lines) + "\n")
    else:
        for n in range(4):
            frame.slice(1000 * n, 1000).write_parquet(source / f"{n}.parquet")
    out, whole = tmp_path / "fused.csv", tmp_path / "whole.csv"
    preferences = cc.read(source).preferences
    assert preferences is not None
    cc.write(cc.aggregate(preferences, "comb-mnz"), whole)

    def attempt(lives: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", KILLED, str(source), str(out), str(lives)]
        return subprocess.run(command, check=False, capture_output=True, text=True)

    # Each run gets a step or two further than the one before it was killed at.
    kills = 0
    while (tried := attempt(2)).returncode != 0:
        assert tried.returncode == -9, tried.stderr
        assert not out.exists()
        kills += 1
        assert kills < 40
    assert kills > 3
    assert out.read_bytes() == whole.read_bytes()


def test_the_checkpoint_of_another_job_is_refused(tmp_path: Path) -> None:
    paths = write_runs(tmp_path, [[("1", "d1", 1.0)], [("1", "d2", 2.0)]])
    folder = tmp_path / "checkpoint"
    with cc.scan(paths[0], checkpoint=folder) as blocks:
        parts = folder / "parts"
        parts.mkdir()
        (parts / "parts.json").write_text("{}")
        with pytest.raises(FormatError, match=r"parts: the checkpoint of another job"):
            cc.aggregate_blocks(blocks, tmp_path / "out.csv", "rrf", checkpoint=parts)
    with pytest.raises(FormatError, match=r"rows: the checkpoint of another job"):
        cc.scan(paths, checkpoint=folder)
    (folder / "rows" / "0.slot.npy").write_bytes(b"")
    with pytest.raises(FormatError, match=r"rows: the checkpoint is damaged"):
        cc.scan(paths[0], checkpoint=folder)


HOLDING = """
import sys, concordant as cc
with cc.scan(sys.argv[1], checkpoint=sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_processes_cannot_use_one_checkpoint(tmp_path: Path) -> None:
    (path,) = write_runs(tmp_path, [[("1", "d1", 1.0)]])
    folder, out = tmp_path / "checkpoint", tmp_path / "out.csv"
    command = [sys.executable, "-c", HOLDING, str(path), str(folder)]
    for how in ("kill", "end"):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdin is not None
            assert other.stdout is not None
            assert other.stdout.readline() == b"held\n"
            words = r"rows: another process uses this checkpoint\. Wait until it has ended, or name another folder"
            with pytest.raises(DataError, match=words):
                cc.scan(path, checkpoint=folder)
            asked = ["aggregate", str(path), "-m", "rrf", "-o", str(out), "--checkpoint", str(folder)]
            asking = [sys.executable, "-m", "concordant", *asked]
            second = subprocess.run(asking, check=False, capture_output=True, text=True)
            assert second.returncode == 1
            assert "another process uses this checkpoint" in second.stderr
            other.kill() if how == "kill" else other.stdin.close()
        # Within a process all blocks of one checkpoint are the same.
        with cc.scan(path, checkpoint=folder) as blocks, cc.scan(path, checkpoint=folder) as again:
            assert list(blocks) == list(again)
            assert cc.aggregate_blocks(blocks, out, "rrf", checkpoint=folder / "parts") == 1
    assert sorted(p.name for p in folder.rglob("*") if p.name.startswith(".")) == []


def test_two_processes_cannot_write_parts_to_one_folder(tmp_path: Path) -> None:
    (path,) = write_runs(tmp_path, [[("1", "d1", 1.0)]])
    program = HOLDING.replace("cc.scan(sys.argv[1], checkpoint=", "BlockWriter(sys.argv[1], 'csv', folder=")
    command = [sys.executable, "-c", f"from concordant.io.block_writer import BlockWriter{program}"]
    with subprocess.Popen(
        [*command, str(tmp_path / "other.csv"), str(tmp_path / "parts")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with (
            cc.scan(path) as blocks,
            pytest.raises(DataError, match="parts: another process uses this checkpoint"),
        ):
            cc.aggregate_blocks(blocks, tmp_path / "out.csv", "rrf", checkpoint=tmp_path / "parts")
        other.stdin.close()


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
def test_what_is_left_out_of_blocks_is_warned_of_where_something_is(tmp_path: Path) -> None:
    def warned(runs: list[list[Row]], **how: Any) -> list[str]:
        with cc.scan(write_runs(tmp_path, runs), block_rows=1, **how) as blocks:
            return [
                w for w in cc.MPM(uncertainty="none").fit(blocks).fit_info_.warnings if "takes them as unknown" in w
            ]

    whole = [("1", "d1", 2.0), ("1", "d2", 1.0), ("2", "d1", 2.0), ("2", "d2", 1.0)]
    assert not warned([whole, whole])
    cut = [whole, [*whole[:2], ("2", "d3", 1.0)]]
    assert len(warned(cut)) == 1
    assert not warned(cut, missing="unknown")
