"""A process that is killed at any step leaves nothing that stops the same command, or that stays after it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and locks of POSIX")

# Runs a command line in a process of its own for every line it reads. That process ends, as by a kill, before its n-th
# step of writing, renaming or removing anything below a folder. Forked, so that everything is imported only once.
SERVER = """
import json, os, sys, tempfile
import concordant.learning.streaming, concordant.cli._inputs, concordant.io.read, concordant.aggregators.ulara
from concordant.cli.app import main
from concordant.io import blocks

# Small blocks, so that there are several.
blocks._MARK_ROWS = 120
for make in (blocks.open_blocks, blocks.spool_blocks):
    make.__kwdefaults__["block_rows"] = 120
below = sys.argv[1]
tempfile.gettempdir()

def run(left, arguments):
    def step(event, about):
        nonlocal left
        if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir") and str(about[0]).startswith(below):
            if event != "open" or about[2] & (os.O_WRONLY | os.O_RDWR):
                left -= 1
                if left == 0:
                    os._exit(9)

    sys.addaudithook(step)
    sys.argv = ["concordant", *arguments]
    try:
        main()
    except SystemExit as end:
        os._exit(end.code or 0)
    os._exit(1)

# Imports what a command needs, and computes nothing: threads would be lost to the forked processes.
sys.argv = ["concordant", "aggregate", "x", "-m", "none-such"]
try:
    main()
except SystemExit as end:
    assert end.code == 1
for line in sys.stdin:
    child = os.fork() or run(*json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
Run = Callable[..., int]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a folder with runs of two experts over twelve instances, and an empty folder for temporary files."""
    (tmp_path / "tmp").mkdir()
    for expert in "ab":
        lines = [f"q{q} Q0 {expert * (r % 3)}d{r} {r + 1} {20 - r} {expert}" for q in range(12) for r in range(10)]
        (tmp_path / f"{expert}.trec").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def run(work: Path) -> Iterator[Run]:
    """Return a function that runs a command line, killed before a step unless that is 0, and returns its exit code."""
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "TMPDIR": str(work / "tmp"), "POLARS_MAX_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", SERVER, str(work)]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        asked, told = server.stdin, server.stdout

        def one(step: int, *arguments: object) -> int:
            print(json.dumps([step, [str(a) for a in arguments]]), file=asked, flush=True)
            return int(told.readline())

        yield one


@pytest.fixture
def living(work: Path) -> Iterator[subprocess.Popen[str]]:
    """Return a process that writes the same outputs and reads the same files, and goes on until it is killed."""
    code = (
        "import concordant as cc\n"
        "from concordant.io._files import atomic_write\n"
        "from concordant.io.block_writer import BlockWriter\n"
        "with atomic_write('out.trec'), BlockWriter('out.csv'), cc.scan(['a.trec', 'b.trec']):\n"
        "    print('ready', flush=True)\n"
        "    input()\n"
    )
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "TMPDIR": str(work / "tmp")}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        cwd=work,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def held(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


WAYS = {
    "whole": ["-o", "out.trec"],
    "blocks": ["-o", "out.csv", "--memory", "0"],
    "checkpoint": ["-o", "out.csv", "--checkpoint", "kept", "-m", "ulara"],
}


@pytest.mark.parametrize("way", WAYS)
def test_killed_at_any_step_the_same_command_gives_the_same_and_leaves_nothing(work: Path, run: Run, way: str) -> None:
    args = ["aggregate", work / "a.trec", work / "b.trec", "-q"]
    args += [work / word if word in ("kept", "out.trec", "out.csv") else word for word in WAYS[way]]
    assert run(0, *args) == 0
    out = next(p for p in work.iterdir() if p.name.startswith("out"))
    expected, clean = out.read_bytes(), held(work)
    assert clean == sorted(["a.trec", "b.trec", out.name, "tmp"])
    step = 1
    while True:
        out.unlink()
        code = run(step, *args)
        if code == 0:
            break
        assert code == 9
        assert not out.exists() or out.read_bytes() == expected
        assert run(0, *args) == 0, f"after a kill before step {step}"
        assert out.read_bytes() == expected
        assert held(work) == clean, f"after a kill before step {step}"
        step += 1
    assert step > (2 if way == "whole" else 20)


def test_what_a_running_process_writes_is_left_alone_and_removed_after_a_kill(
    work: Path, run: Run, living: subprocess.Popen[str]
) -> None:
    inputs = ["aggregate", work / "a.trec", work / "b.trec", "-q"]
    theirs = set(held(work))
    assert {name.rpartition(".")[2] for name in theirs if name.startswith(".out")} >= {"tmp", "parts"}
    assert any(name.startswith("tmp/concordant-") for name in theirs)

    def both() -> set[str]:
        assert run(0, *inputs, "-o", work / "out.trec") == 0
        assert run(0, *inputs, "-o", work / "out.csv", "--memory", "0") == 0
        return set(held(work))

    ours = {"out.trec", "out.csv"}
    assert both() == theirs | ours
    # What only looks like a file of ours, and what is of another output, is nobody's to remove.
    (work / ".out.csv.0123456789ab.tmp").symlink_to(work / "a.trec")
    (work / ".other.csv.0123456789ab.tmp").write_text("half")
    strange = {".out.csv.0123456789ab.tmp", ".other.csv.0123456789ab.tmp"}
    assert both() == theirs | ours | strange
    living.kill()
    living.wait()
    assert both() == {"a.trec", "b.trec", "tmp"} | ours | strange
