"""Real processes: exit codes, signals, pipes, and what the quick path imports."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Invoke

SOURCE = Path(__file__).resolve().parents[2] / "src"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(SOURCE)}
COMMAND = [sys.executable, "-m", "concordant"]
posix = pytest.mark.skipif(os.name != "posix", reason="named pipes and signals of POSIX")


def run(*args: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *map(str, args)], capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=120
    )
    assert done.returncode == code, done.stderr
    return done


def test_exit_codes(files: Path) -> None:
    assert run("aggregate", files / "runs").stdout.startswith("q1: 4 items\n")
    (files / "bad.trec").write_text("q1 Q0 d1 1 x a\n")
    bad = run("aggregate", files / "bad.trec", "--format", "trec", code=1)
    assert bad.stdout == ""
    assert bad.stderr.startswith(f"ParseError: {files / 'bad.trec'}:1: ")
    assert "Traceback" not in bad.stderr
    assert "Traceback" in run("aggregate", files / "bad.trec", "--format", "trec", "--debug", code=1).stderr
    assert "No such option" in run("aggregate", files / "runs", "--nonsense", code=2).stderr


def test_json_alone_is_on_standard_output(files: Path) -> None:
    done = run("aggregate", files / "runs", "-o", files / "out.trec", "--json")
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["results"]["output"] == str(files / "out.trec")


def test_the_end_of_a_command_searches_for_no_garbage(files: Path) -> None:
    # A search over what the imports made takes longer than fusing these runs.
    code = """
import gc, sys
sys.argv = ["concordant", "aggregate", *sys.argv[1:], "--method", "rrf"]
made = []
gc.callbacks.append(lambda phase, about: made.append(len(gc.get_objects())) if phase == "start" else None)
from concordant.cli.app import main
try:
    main()
finally:
    gc.collect()
    print(made[-1], file=sys.stderr)
"""
    runs = sorted(map(str, (files / "runs").iterdir()))
    found = subprocess.run(
        [sys.executable, "-c", code, *runs], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert int(found.stderr.split()[-1]) < 5000


def test_fusing_runs_imports_neither_compiler_nor_tables_nor_scipy(files: Path) -> None:
    code = (
        "import sys, json; from concordant.cli.app import main\n"
        f"sys.argv = ['concordant', 'aggregate', {str(files / 'runs')!r}, '-o', {str(files / 'out.trec')!r}, '-q']\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert {"polars", "numpy", "typer", "concordant.aggregators.fusion"} <= loaded
    assert not loaded & {"numba", "llvmlite", "scipy", "rich", "pydantic", "pandas", "pyarrow", "concordant.metrics"}
    assert (files / "out.trec").exists()


@posix
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_leaves_what_was_there(
    files: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    pipe, out = tmp_path / "slow.trec", tmp_path / "out.trec"
    os.mkfifo(pipe)
    out.write_text("what was there\n")
    before = sorted(tmp_path.iterdir())
    # The first file is read by threads; 99,999 of them would not end before they find no memory.
    args = ["aggregate", str(files / "runs"), str(pipe), "--format", "trec", "-o", str(out), "--threads", "99999"]
    limited = ["sh", "-c", 'ulimit -v 4000000; exec "$@"', "sh", *COMMAND, *args]
    process = subprocess.Popen(limited, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    writer = None
    while writer is None and process.poll() is None:
        # Only when the process has begun to read can the pipe be opened.
        with contextlib.suppress(OSError):
            writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.05)
    # By now the process waits for what the pipe will bring; one knock must do.
    time.sleep(1.0)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    assert writer is not None
    os.close(writer)
    assert "Traceback" not in stderr
    assert out.read_text() == "what was there\n"
    assert sorted(tmp_path.iterdir()) == before


@posix
@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_that_arrives_where_python_drops_exceptions_is_heard(number: str, code: int) -> None:
    # It arrives in the callback of a weak reference, as it may while modules are imported.
    program = (
        "import signal, sys, time, weakref\n"
        "import concordant.cli.app as app\n"
        "class Thing: pass\n"
        "def hit(_):\n"
        f"    signal.raise_signal(signal.{number})\n"
        "def run():\n"
        "    thing = Thing()\n"
        "    kept = weakref.ref(thing, hit)\n"
        "    del thing\n"
        "    time.sleep(20)\n"
        "app._run = run\n"
        "try: app.main()\n"
        "except KeyboardInterrupt: sys.exit(130)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=15, check=False)
    assert done.returncode == code
    assert done.stderr == ""


PRINTING = [("--version",), ("--help",), ("aggregate", "--help"), ("methods",), ("methods", "--json")]


@posix
@pytest.mark.parametrize("args", PRINTING)
def test_a_reader_who_has_gone_is_no_error(args: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen([*COMMAND, *args], stdout=writing, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    os.close(writing)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 141
    assert stderr == ""


def test_ids_the_terminal_cannot_show_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "x.trec").write_text("q Q0 寿司 1 1.0 x\n", encoding="utf-8")
    done = subprocess.run(
        [*COMMAND, "aggregate", str(tmp_path / "x.trec")],
        capture_output=True,
        check=True,
        env=ENVIRONMENT | {"PYTHONIOENCODING": "ascii"},
    )
    assert b"\\u5bff\\u53f8" in done.stdout


def test_more_threads_than_cores_are_not_started(files: Path) -> None:
    code = (
        "import sys; from concordant.cli.app import main\n"
        f"sys.argv = ['concordant', 'aggregate', {str(files / 'runs')!r}, '--threads', '300']\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "import polars; print(polars.thread_pool_size())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert int(done.stdout.splitlines()[-1]) == cores
    said = f"warning: --threads 300: this process may use {cores} cores, so only {cores} are started.\n"
    assert done.stderr.count(said) == 1


@pytest.mark.parametrize("n", [0, -1, 10**9])
def test_a_number_of_threads_that_nobody_means_is_refused(files: Path, invoke: Invoke, n: int) -> None:
    said = invoke("aggregate", files / "runs", "--threads", n, code=2).stderr
    assert "--threads" in said
    assert f"must be a whole number from 1 to 1,000,000. Got {n} instead." in " ".join(said.split())


# More than fits into a pipe and into the first look at a file.
MANY = "".join(f"q{n // 100} Q0 d{n * 7 % 100} {n % 100 + 1} {20_000 - n}.5 t{n % 100 // 50}\n" for n in range(20_000))
bash = pytest.mark.skipif(shutil.which("bash") is None, reason="process substitution needs bash")


def piped(text: str | bytes, *args: object, code: int = 0) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [*COMMAND, *map(str, args)],
        input=text.encode() if isinstance(text, str) else text,
        capture_output=True,
        check=False,
        env=ENVIRONMENT,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """Return a run in a file, and what aggregating it writes."""
    folder = tmp_path_factory.mktemp("fused")
    (folder / "many.trec").write_text(MANY)
    run("aggregate", folder / "many.trec", "-o", folder / "out.trec")
    return folder / "many.trec", (folder / "out.trec").read_bytes()


@posix
@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
@pytest.mark.parametrize("more", [(), ("--memory", "0")], ids=["whole", "in blocks"])
def test_standard_input_and_output_lose_nothing(fused: tuple[Path, bytes], name: str, more: tuple[str, ...]) -> None:
    _, wanted = fused
    for out in ("-", "/dev/stdout"):
        done = piped(MANY, "aggregate", name, "-o", out, "-q", *more)
        assert done.stdout == wanted
        assert done.stderr == b""
    # Named twice it is the same input.
    assert piped(MANY, "aggregate", name, "-", "/dev/stdin", "-o", "-", "-q", *more).stdout == wanted


@posix
def test_a_small_pipe_is_not_empty(files: Path, invoke: Invoke) -> None:
    text = (files / "runs" / "a.trec").read_text()
    shown = piped(text, "aggregate", "-").stdout.decode()
    assert shown == invoke("aggregate", files / "runs" / "a.trec").stdout
    assert piped(text, "aggregate", "/dev/stdin").stdout.decode() == shown


@posix
@bash
def test_process_substitution_and_named_pipes(fused: tuple[Path, bytes], tmp_path: Path) -> None:
    path, wanted = fused
    os.mkfifo(tmp_path / "pipe")
    command = " ".join(map(shlex.quote, COMMAND))
    script = f"""
    {command} aggregate <(head -n 9000 {path} | gzip -c) <(tail -n +9001 {path}) \\
        -q -o >(cat > {tmp_path}/first) --to trec
    cat {path} > {tmp_path}/pipe &
    {command} aggregate {tmp_path}/pipe {tmp_path}/pipe -q -o {tmp_path}/second.trec
    echo kept > {tmp_path}/third
    {command} aggregate - -q -o - < {path} >> {tmp_path}/third
    {command} aggregate - -q -o /dev/stdout < {path} > {tmp_path}/fourth
    """
    subprocess.run(["bash", "-c", script], check=True, env=ENVIRONMENT, timeout=120)
    assert (tmp_path / "second.trec").read_bytes() == wanted
    assert (tmp_path / "third").read_bytes() == b"kept\n" + wanted
    assert (tmp_path / "fourth").read_bytes() == wanted
    end = time.monotonic() + 10
    # The shell does not wait for the process behind >(...).
    while (tmp_path / "first").read_bytes() != wanted and time.monotonic() < end:
        time.sleep(0.05)
    assert (tmp_path / "first").read_bytes() == wanted


@posix
def test_every_command_takes_standard_input(files: Path, invoke: Invoke) -> None:
    runs, qrels, votes = files / "runs", files / "qrels.txt", (files / "votes.csv").read_text()
    labels = qrels.read_text()
    from_file = invoke("evaluate", runs, "--labels", qrels, "--per-instance", files / "each.csv").stdout
    done = piped(labels, "evaluate", runs, "--labels", "-", "--per-instance", "-")
    assert done.stdout == (files / "each.csv").read_bytes()
    assert from_file in done.stderr.decode()
    assert invoke("compare", runs, "-l", qrels).stdout == piped(labels, "compare", runs, "-l", "-").stdout.decode()
    both = "".join(path.read_text() for path in sorted(runs.iterdir()))
    fit = ("--method", "rrf", "-p", "weights=learned", "--labels", qrels, "-o", files / "model", "--experts-out", "-")
    assert piped(both, "fit", "-", *fit).stdout.startswith(b"expert,")
    predicted = invoke("aggregate", runs, "--model", files / "model", "-q").stdout
    model = (files / "model").read_bytes()
    assert piped(model, "aggregate", runs, "--model", "-", "-q").stdout.decode() == predicted
    assert b"a model is written to a file" in piped(both, "fit", "-", *fit[:-3], "-", code=1).stderr
    rows = piped(votes, "convert", "-", "-o", "-", "--to", "csv").stdout
    invoke("convert", files / "votes.csv", "-o", files / "back.csv")
    assert rows == (files / "back.csv").read_bytes()
    page = piped(both, "report", "-", "-o", "-", "-q").stdout
    assert page.startswith(b"<!DOCTYPE html>")
    assert b"standard input" in page


@posix
def test_errors_of_a_pipe_say_where(files: Path) -> None:
    bad = piped(MANY + "q Q0 d 1 x t\n", "aggregate", "-", "-o", files / "o.trec", code=1)
    assert bad.stderr.startswith(b"ParseError: standard input:20001: the score must be")
    assert b"standard input: the file is empty" in piped("", "aggregate", "-", code=1).stderr
    empty = piped("", "aggregate", "-", "--format", "trec", "-o", "-", "-m", "rrf")
    assert b"warning: standard input: the input holds no rows." in empty.stderr
    taken = piped(MANY, "aggregate", "-", "-o", "-", "--json", code=2)
    assert b"standard output is taken by --json" in taken.stderr
    closed = subprocess.run(
        ["sh", "-c", f"{' '.join(map(shlex.quote, COMMAND))} aggregate - <&-"],
        capture_output=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert closed.returncode == 1
    assert closed.stderr.startswith(b"DataError: standard input is closed")


@posix
@pytest.mark.parametrize("to", ["trec", "csv", "jsonl", "parquet"])
def test_a_reader_of_the_output_who_has_gone_is_no_error(fused: tuple[Path, bytes], to: str) -> None:
    with subprocess.Popen(
        [*COMMAND, "aggregate", str(fused[0]), "-o", "-", "--to", to, "-q"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, b"")


# Ids, names of experts and names of files that a terminal would obey, and that Rich would take for its markup.
CLEAR, TITLE, MARKUP = "\x1b[2J", "\x1b]0;mine\x07", "[/b][red]"
HOSTILE = f"{CLEAR}{TITLE}{MARKUP}\x9b2J\u202e"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return a folder of files whose names, instances, experts, items and features are hostile."""
    q, d, e = f"q{HOSTILE}", f"d{HOSTILE}", f"e{HOSTILE}"
    runs = "".join(f"{q}{n} Q0 {d}{i} {r} {9 - r} {e}{x}\n" for n in "12" for x in "ab" for r, i in enumerate("xyz"))
    (tmp_path / f"{HOSTILE.replace('/', '')}.trec").write_text(runs)
    (tmp_path / "qrels.txt").write_text("".join(f"{q}{n} 0 {d}{i} {v}\n" for n in "12" for i, v in ("x0", "y1")))
    (tmp_path / f"bad{CLEAR}.trec").write_text(f"{q}1 Q0 {d}x 1 {CLEAR} {e}\n")
    lines = f'expert,winner,loser\n"{e}\nrow",{d}x,{d}y\n{e},{d}y,{d}x\n{e},{d}x,{d}x\n'
    (tmp_path / "votes.csv").write_text(lines)
    return tmp_path


def on_terminal(args: list[str], folder: Path) -> bytes:
    """Return everything a command writes to a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *args], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=ENVIRONMENT | {"TERM": "xterm"}
    )
    os.close(theirs)
    seen = b""
    # The system says the end of a terminal whose other side is closed by an error.
    with contextlib.suppress(OSError):
        while part := os.read(ours, 1 << 16):
            seen += part
    os.close(ours)
    assert process.wait(timeout=60) is not None
    return seen


@posix
@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["aggregate", "*.trec"], 0),
        (["aggregate", "*.trec", "--json"], 0),
        (["aggregate", "votes.csv", "-m", "bradley-terry", "-p", "reliability=true", "--read", "self_pairs=drop"], 0),
        (["evaluate", "*.trec", "-l", "qrels.txt"], 0),
        (["compare", "*.trec", "-l", "qrels.txt", "--experts", "--details", "--baseline", f"e{HOSTILE}a"], 0),
        (["compare", "*.trec", "-l", "qrels.txt", "--experts", "--markdown"], 0),
        (["fit", "*.trec", "-l", "qrels.txt", "-m", "listwise-linear", "-o", f"{CLEAR}.model"], 0),
        (["convert", "*.trec", "-o", f"{CLEAR}.csv"], 0),
        (["report", "*.trec", "-o", f"{CLEAR}.html"], 0),
        (["aggregate", f"bad{CLEAR}.trec", "--format", "trec"], 1),
        (["aggregate", f"bad{CLEAR}.trec", "--format", "trec", "--debug"], 1),
        (["aggregate", "*.trec", "-i", CLEAR], 1),
        (["aggregate", "*.trec", "-o", f"{CLEAR}/out.trec"], 1),
    ],
)
def test_nothing_in_the_data_acts_on_the_terminal(
    hostile: Path, args: list[str], code: int, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [
        word for arg in args for word in ([p.name for p in hostile.glob(HOSTILE[:1] + arg)] if "*" in arg else [arg])
    ]
    monkeypatch.chdir(hostile)
    piped = invoke(*given, code=code)
    for text in (piped.stdout, piped.stderr):
        assert all(line.isprintable() for line in text.split("\n")), text
    seen = on_terminal(given, hostile)
    assert b"Traceback" not in seen or "--debug" in args
    for sequence in (CLEAR, TITLE, "\x9b", "\u202e"):
        assert sequence.encode() not in seen
    if code == 0 and "--json" not in args:
        assert rb"\x1b" in seen


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
@pytest.mark.parametrize("args", PRINTING)
def test_a_standard_output_that_is_full_or_closed_is_said(args: tuple[str, ...]) -> None:
    for to, said in ((">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")):
        command = f"{shlex.join([*COMMAND, *args])} {to}"
        done = subprocess.run(["sh", "-c", command], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr == f"OSError: cannot write to standard output: {said}\n"


@posix
def test_a_closed_stream_takes_nothing_from_the_result(files: Path, invoke: Invoke) -> None:
    invoke("aggregate", files / "runs", "-o", files / "expected.trec")
    for closed in ("", ">&-", "2>&-", "<&-", "<&- >&- 2>&-", "2>/dev/full"):
        command = shlex.join([*COMMAND, "aggregate", str(files / "runs"), "-o", str(files / "out.trec")])
        subprocess.run(["sh", "-c", f"{command} {closed}"], env=ENVIRONMENT, capture_output=True, check=True)
        assert (files / "out.trec").read_bytes() == (files / "expected.trec").read_bytes()
        (files / "out.trec").unlink()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
@pytest.mark.parametrize("args", [("--to", "csv"), ("--to", "parquet"), ("--to", "trec", "--memory", "0")])
def test_an_output_that_is_full_is_named(files: Path, args: tuple[str, ...]) -> None:
    done = run("aggregate", files / "runs", "-q", "-o", "/dev/full", *args, code=1)
    assert done.stderr == "DataError: cannot write '/dev/full': No space left on device.\n"
